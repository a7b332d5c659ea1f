/**
 * What the DIMMs below a region say of themselves, and what the native runtime claims by it: at its
 * start, and while it serves.
 *
 * The C is compiled here with the sanitizers; without a compiler, or without libsodium, this is
 * skipped. A folder stands for /sys, and the file system of the part is taken for one with DAX.
 */

import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  ARMED,
  DONE,
  FENCE,
  NOT_ARMED,
  SAVE_FAILED,
  VOLATILE,
} from '../../../../firmware/board/hal.ts'
import { Harness } from '../../../support/native/harness.ts'
import { because, compileMachine, noMachine } from '../../../support/native/machine-program.ts'
import { SysFolder } from '../../../support/native/sys-folder.ts'

const REGION = 'devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region0'

let program = ''
let folder = ''
let sys: SysFolder
let running: Harness[] = []
beforeAll(() => {
  if (noMachine === null) program = compileMachine()
})
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'perdure-dimms-'))
  sys = new SysFolder(folder)
  running = []
  writeFileSync(part(), new Uint8Array(4096))
})
afterEach(async () => {
  for (const harness of running) await harness.kill()
  rmSync(folder, { recursive: true, force: true })
})

function part(): string {
  return join(folder, 'part')
}

/** As Linux names the device that has the file: `block/MAJOR:MINOR`. */
function deviceOf(path: string): string {
  const { dev } = statSync(path, { bigint: true })
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)
  const minor = (dev & 0xffn) | ((dev >> 12n) & ~0xffn)
  return `block/${major}:${minor}`
}

/** A region of so many DIMMs, below the file system of the part. */
function region(dimms: number, at = REGION): void {
  sys.tree({ [`${at}/uevent`]: 'DEVTYPE=nd_pmem', [`${dirname(at)}/provider`]: 'ACPI.NFIT' })
  sys.link(`${at}/subsystem`, 'bus/nd')
  for (let i = 0; i < dimms; i++) {
    sys.tree({ [`${at}/mapping${i}`]: `nmem${i},0,33554432,${i}` })
    sys.tree({ [`devices/nmem${i}/state`]: 'idle' })
    sys.link(`bus/nd/devices/nmem${i}`, `devices/nmem${i}`)
  }
  sys.link(`dev/${deviceOf(part())}`, `${at}/block/pmem0`)
}

/** What a DIMM says of itself, as a kernel has it: words, a blank behind each. */
function says(dimm: number, flags: string, kind = 'nfit'): void {
  sys.tree({ [`devices/nmem${dimm}/${kind}/flags`]: flags })
}

interface Claim {
  readonly armed: boolean
  readonly forgets: string
}

const CLAIMED: Claim = { armed: true, forgets: '' }

function unarmed(dimm: number): Claim {
  return {
    armed: false,
    forgets: `the DIMM nmem${dimm} is not armed: what it holds would not be saved`,
  }
}

/** The machine on the part, in a process of its own. */
class Card {
  private readonly harness: Harness

  private constructor(more: readonly string[]) {
    const options = [`part=${part()}`, `sysfs=${folder}`, 'dax', 'coherency', ...more]
    this.harness = new Harness(program, ['talk', ...options])
    running.push(this.harness)
  }

  /** What it claims at its start, too. */
  static async start(...more: readonly string[]): Promise<{ card: Card; claim: Claim }> {
    const card = new Card(more)
    const { armed, forgets } = JSON.parse(await card.harness.line()) as Claim
    return { card, claim: { armed, forgets } }
  }

  /** Asks the DIMMs again. */
  async watch(): Promise<Claim & { readonly watched: boolean; readonly changed: boolean }> {
    return JSON.parse(await this.harness.ask('watch'))
  }

  async fence(): Promise<{ readonly result: number; readonly health: number }> {
    const { result, health } = JSON.parse(await this.harness.ask(`run ${FENCE} 0 0 0 0`))
    return { result, health }
  }

  /** As a power cut ends it: the part is free again. */
  kill(): Promise<void> {
    return this.harness.kill()
  }

  get errors(): string {
    return this.harness.errors
  }
}

describe.skipIf(noMachine !== null)(`DIMMs at the start${because}`, () => {
  test('a part is durable whose DIMMs say nothing, or nothing bad', async () => {
    region(2)
    const silent = await Card.start()
    expect(silent.claim).toEqual(CLAIMED)
    await silent.card.kill()
    says(0, '')
    says(1, 'smart_notify smart_event ')
    const { card, claim } = await Card.start()
    expect(claim).toEqual(CLAIMED)
    expect(await card.fence()).toEqual({ result: DONE, health: ARMED })
  })

  for (const kind of ['nfit', 'papr']) {
    for (const flag of ['not_armed', ...(kind === 'papr' ? ['locked'] : [])]) {
      for (const dimm of [0, 1, 2]) {
        test(`${kind}/flags: nothing is durable where nmem${dimm} says ${flag}`, async () => {
          region(3)
          for (const one of [0, 1, 2]) says(one, one === dimm ? `smart_notify ${flag} ` : '', kind)
          const { card, claim } = await Card.start()
          expect(claim).toEqual(unarmed(dimm))
          expect(await card.fence()).toEqual({ result: NOT_ARMED, health: VOLATILE })
        })
      }
    }
    for (const flag of ['save_fail', 'restore_fail', 'flush_fail']) {
      if (kind === 'papr' && flag === 'save_fail') continue
      test(`${kind}/flags: ${flag} is a failed save`, async () => {
        region(2)
        says(0, '', kind)
        says(1, `${flag} smart_event `, kind)
        const { card, claim } = await Card.start()
        expect(claim).toEqual(CLAIMED)
        expect(await card.fence()).toEqual({ result: DONE, health: ARMED | SAVE_FAILED })
        expect(card.errors).toMatch(/a DIMM has not kept all that it held.* dimm=nmem1\n$/)
      })
    }
  }

  test('a word that only begins like one of them is another', async () => {
    region(1)
    says(0, 'not_armed_yet save_failed restore ')
    const { card, claim } = await Card.start()
    expect(claim).toEqual(CLAIMED)
    expect((await card.fence()).health).toBe(ARMED)
  })

  test('the first one that is not armed is named', async () => {
    region(3)
    for (const dimm of [0, 1, 2]) says(dimm, dimm > 0 ? 'not_armed ' : '')
    expect((await Card.start()).claim).toEqual(unarmed(1))
  })

  test('a file that cannot be read is of a DIMM that is not armed', async () => {
    region(2)
    mkdirSync(join(folder, 'devices/nmem1/nfit/flags'), { recursive: true })
    expect((await Card.start()).claim).toEqual(unarmed(1))
  })

  test('for development the process is enough, and the card says that it is no more', async () => {
    region(1)
    says(0, 'not_armed ')
    const { card, claim } = await Card.start('development')
    expect(claim).toEqual({ ...unarmed(0), armed: true })
    expect(await card.fence()).toEqual({ result: DONE, health: ARMED | VOLATILE })
  })

  test('a device of several regions is as armed as the least of them', async () => {
    const other = 'devices/platform/ndbus1/region1'
    region(1)
    rmSync(join(folder, 'dev'), { recursive: true })
    sys.tree({
      [`${other}/uevent`]: 'DEVTYPE=nd_pmem',
      [`${other}/mapping0`]: 'nmem8,0,33554432,0',
    })
    sys.tree({ 'devices/nmem8/nfit/flags': 'not_armed ' })
    sys.link(`${other}/subsystem`, 'bus/nd')
    sys.link('bus/nd/devices/nmem8', 'devices/nmem8')
    sys.link('devices/virtual/block/dm-0/slaves/pmem0', `${REGION}/block/pmem0`)
    sys.link('devices/virtual/block/dm-0/slaves/pmem1', `${other}/block/pmem1`)
    sys.link(`dev/${deviceOf(part())}`, 'devices/virtual/block/dm-0')
    expect((await Card.start()).claim).toEqual(unarmed(8))
  })

  test('a DIMM for whose name there is no room is not believed', async () => {
    region(1)
    sys.tree({ [`${REGION}/mapping0`]: `nmem${'0'.repeat(40)},0,33554432,0` })
    const { claim } = await Card.start()
    expect(claim.armed).toBe(false)
    expect(claim.forgets).toContain('the kernel knows no region of persistent memory')
  })
})

describe.skipIf(noMachine !== null)(`DIMMs while the card serves${because}`, () => {
  test('one without energy ends every promise, and renews it when it is armed again', async () => {
    region(2)
    says(0, '')
    says(1, '')
    const { card, claim } = await Card.start()
    expect(claim).toEqual(CLAIMED)
    for (let round = 0; round < 3; round++) {
      says(1, 'not_armed ')
      expect(await card.fence()).toEqual({ result: DONE, health: ARMED })
      expect(await card.watch()).toEqual({ ...unarmed(1), watched: true, changed: true })
      expect(await card.fence()).toEqual({ result: NOT_ARMED, health: VOLATILE })
      expect(await card.watch()).toEqual({ ...unarmed(1), watched: true, changed: false })
      says(1, '')
      expect(await card.watch()).toEqual({ ...CLAIMED, watched: true, changed: true })
      expect(await card.fence()).toEqual({ result: DONE, health: ARMED })
    }
    expect(await card.watch()).toEqual({ ...CLAIMED, watched: true, changed: false })
  })

  test('for development the claim changes, and the card serves on', async () => {
    region(1)
    says(0, '')
    const { card } = await Card.start('development')
    says(0, 'not_armed ')
    const claim = { ...unarmed(0), armed: true }
    expect(await card.watch()).toEqual({ ...claim, watched: true, changed: true })
    expect(await card.fence()).toEqual({ result: DONE, health: ARMED | VOLATILE })
  })

  test('what is not claimed, or whose DIMMs say nothing, is not watched', async () => {
    region(1)
    const { card } = await Card.start()
    expect(await card.watch()).toEqual({ ...CLAIMED, watched: false, changed: false })
    await card.kill()
    says(0, '')
    sys.tree({ [`${REGION}/uevent`]: 'DEVTYPE=nd_volatile' })
    const { card: other } = await Card.start()
    expect(await other.watch()).toMatchObject({ armed: false, watched: false, changed: false })
  })
})
