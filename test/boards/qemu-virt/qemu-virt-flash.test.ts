/**
 * Firmware for the arm64 virtual machine: it is flashed as a card is, over the network and over its
 * serial line, and QEMU is killed at any moment of it. Records stay, whatever runs.
 *
 * Suspected, so looked at: a kill leaves slots that boot nothing, or something that nobody has
 * confirmed; a restart loses what a client was told is durable.
 */

import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { readImage } from '../../../boards/flash/mcuboot.ts'
import { type Image, prepareImage, RUNTIME, whyNot } from '../../../boards/qemu-virt/image.ts'
import { VirtualMachine } from '../../../boards/qemu-virt/machine.ts'
import { FlashTarget, type Slot } from '../../../host-driver/flash/card.ts'
import { SmpClient } from '../../../host-driver/flash/smp-client.ts'
import { udpPort } from '../../../host-driver/flash/smp-port.ts'
import { type ConnectOptions, connect } from '../../../host-driver/index.ts'
import { signedBundle } from '../../support/board/bundle.ts'
import { type Run, runIn } from '../../support/command/command.ts'
import { expectRecords, Load, REGION } from '../../support/flash/machine-load.ts'
import { PATIENCE_MS, PATIENT, PATIENT_MACHINE } from '../../support/run/patience.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 60)

/** A client that lives through a restart of the firmware. */
const LASTING: ConnectOptions = { ...PATIENT, reconnectTimeoutMs: PATIENCE_MS, warn: () => {} }

const folder = mkdtempSync(join(tmpdir(), 'pq-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const open: VirtualMachine[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})

let parts = 0
let whole: Image | null = null

/** What every machine is started from: one key has signed it, and signs the images. */
function prepared(): Image {
  whole ??= prepareImage(() => {}, { runtime: { ...RUNTIME, ...signedBundle(folder) } })
  return whole
}

/** A machine that runs what it came with. */
async function start(): Promise<VirtualMachine> {
  const image = prepared()
  const memory = join(folder, `part-${parts++}`)
  const options = { ...PATIENT_MACHINE, image, memory, bytes: 2 ** 24 }
  const machine = await VirtualMachine.open(options)
  open.push(machine)
  await machine.start()
  return machine
}

/** An image for the machine, signed by the key that it trusts: its file. */
async function imageOf(version: string, ...more: string[]): Promise<string> {
  prepared()
  const file = `${version}.bin`
  const { code, stderr } = await runIn(folder, [
    ...['image', 'create', '--board', 'qemu-virt', '--signing-key', 'key.pem'],
    ...['--image-version', version, '--out', file, ...more],
  ])
  expect(code, stderr).toBe(0)
  return file
}

async function flashed(file: string, port: string): Promise<Run> {
  return await runIn(folder, ['flash', file, '--port', port, '--timeout', '20000'])
}

/** What runs, in the supervisor's words: it answers to 'boot' on the serial line. */
async function runs(machine: VirtualMachine): Promise<string> {
  const told = (await machine.command('boot')) as { runs: string }
  machine.dropSerial()
  return told.runs
}

/** A record over each way is there behind the work, read over the other one, and they serve on. */
async function keeps(machine: VirtualMachine, mark: number, work: () => Promise<void>) {
  await using one = await connect(machine.target, LASTING)
  await using other = await connect(machine.tunnel, LASTING)
  const regions = [await one.provision(REGION), await other.openRegion(REGION.name)]
  const recordOf = (slot: number): Uint8Array => new Uint8Array(4096).fill(mark + slot)
  for (const [slot, region] of regions.entries()) {
    await region.persist(slot, recordOf(slot)).persisted
  }
  await work()
  for (const [slot, region] of regions.entries()) {
    expect((await region.read(1 - slot)).data).toEqual(recordOf(1 - slot))
  }
  for (const [slot, region] of regions.entries()) {
    await region.persist(slot, recordOf(slot + 2)).persisted
    expect((await region.read(slot)).data).toEqual(recordOf(slot + 2))
  }
}

const missing = whyNot()

describe.skipIf(missing !== null)(
  missing === null ? 'the machine is flashed' : `the machine is flashed (skipped: ${missing})`,
  () => {
    test('over the network and over the serial line, and records stay', THOROUGH, async () => {
      const machine = await start()
      const dpu = await connect(machine.target, PATIENT)
      await dpu.format()
      await dpu.close()
      expect(await runs(machine)).toBe('what came with the package')

      await keeps(machine, 10, async () => {
        const done = await flashed(await imageOf('1.0.0', '--bundle-only'), machine.smp)
        expect(done, machine.story).toMatchObject({ code: 0 })
        expect(done.stdout).toMatch(/\nconfirmed 1\.0\.0\n$/)
      })
      // With the runtime inside: the machine runs that one from its memory.
      await keeps(machine, 20, async () => {
        const done = await flashed(await imageOf('2.0.0'), machine.smp)
        expect(done, machine.story).toMatchObject({ code: 0 })
      })
      await keeps(machine, 30, async () => {
        const file = await imageOf('3.0.0', '--bundle-only')
        const done = await flashed(file, `unix:${machine.console}`)
        expect(done, machine.story).toMatchObject({ code: 0 })
      })
      expect(await runs(machine)).toBe('3.0.0')
      // What does not start comes back by itself.
      await keeps(machine, 40, async () => {
        const file = await imageOf('4.0.0', '--bundle-only', '--broken', 'crash')
        const done = await flashed(file, machine.smp)
        expect(done, machine.story).toMatchObject({ code: 65 })
        expect(done.stdout).toMatch(/\nreverted {2}exit 70 after .* s; 3\.0\.0 serves again\n$/)
      })
      await machine.reset()
      expect(await runs(machine)).toBe('3.0.0')
      expect(await machine.stop()).toEqual({ code: 0, signal: null })
    })

    test('what another key has signed is refused', THOROUGH, async () => {
      const machine = await start()
      expect((await runIn(folder, ['image', 'keygen', 'other.pem'])).code).toBe(0)
      const file = await imageOf('6.0.0', '--bundle-only', '--signing-key', 'other.pem')
      const done = await flashed(file, machine.smp)
      expect(done, machine.story).toMatchObject({ code: 65 })
      expect(await runs(machine)).toBe('what came with the package')
    })

    test('two kills of QEMU in flashes under load: it boots, and nothing is lost', THOROUGH, () =>
      killsInFlashes(2),
    )

    test('twenty of them', THOROUGH, () => killsInFlashes(20))
  },
)

/** When QEMU is killed: in an upload at one of its bytes, else so long behind that request. */
const STAGES = ['upload', 'test', 'reset', 'confirm'] as const
type Stage = (typeof STAGES)[number]

/** A trial comes to serve within it, or so. */
const DELAY_MS = 2500
const LOOK_MS = 100

interface Moment {
  readonly stage: Stage
  readonly share: number
}

/** What is known of the firmware, by the answers that came. */
interface Known {
  confirmed: string | null
  /** What was marked, and when it was asked to be confirmed: what may run besides. */
  marked: string | null
  confirming: string | null
}

async function killsInFlashes(count: number): Promise<void> {
  const random = new Random(SEED)
  const files = new Map<string, Uint8Array>()
  for (const version of ['1.0.0', '2.0.0', '3.0.0']) {
    const file = await imageOf(version, '--bundle-only')
    files.set(version, new Uint8Array(readFileSync(join(folder, file))))
  }
  const machine = await start()
  const load = new Load(() => [machine.target, machine.tunnel], LASTING)
  const known: Known = { confirmed: null, marked: null, confirming: null }
  for (let turn = 0; turn < count; turn++) {
    const moment = { stage: STAGES[random.below(STAGES.length)]!, share: random.next() / 2 ** 32 }
    const where = `seed ${SEED}, turn ${turn}, ${JSON.stringify(moment)}`
    try {
      await load.begin()
      await load.reach(REGION.slots)
      const others = [...files.keys()].filter((version) => version !== known.confirmed)
      const next = others[turn % others.length]!
      await flashUntil(machine, [next, files.get(next)!], moment, known)
      expect(load.failure, where).toBeNull()
      await load.end()
      await machine.start()
      await expectKnown(machine, known, where)
      for (const target of [machine.target, machine.tunnel]) {
        await using dpu = await connect(target, PATIENT)
        await expectRecords(await dpu.openRegion(REGION.name), load, where)
      }
    } catch (error) {
      throw new Error(`${where}\n${machine.story}`, { cause: error })
    }
  }
}

/** Flashes until the moment has come, and kills QEMU then, or at the end. */
async function flashUntil(
  machine: VirtualMachine,
  file: readonly [version: string, bytes: Uint8Array],
  { stage, share }: Moment,
  known: Known,
): Promise<void> {
  const over = new AbortController()
  const killed = once(over.signal, 'abort').then(() => machine.kill())
  const reached = (now: Stage, done = 1): void => {
    if (now !== stage) return
    if (stage !== 'upload') setTimeout(() => over.abort(), share * DELAY_MS)
    else if (done >= share) over.abort()
  }
  await withCard(machine, async (card) => {
    const flash = flashSteps(card, file, known, reached)
    // Behind the kill nobody answers it any more.
    flash.catch(() => {})
    await Promise.race([killed, flash])
  })
  over.abort()
  await killed
}

async function withCard(
  machine: VirtualMachine,
  use: (card: FlashTarget) => Promise<void>,
): Promise<void> {
  const port = await udpPort(machine.smp.replace(/^udp:/, ''))
  const client = new SmpClient(port, machine.smp, 20_000)
  try {
    await use(new FlashTarget(client, port.packetBytes))
  } finally {
    client.close()
  }
}

async function flashSteps(
  card: FlashTarget,
  [version, file]: readonly [version: string, bytes: Uint8Array],
  known: Known,
  reached: (stage: Stage, done?: number) => void,
): Promise<void> {
  const { hash } = readImage(file)
  await card.upload(file, (done) => reached('upload', done / file.length))
  known.marked = version
  reached('test')
  await card.test(hash)
  reached('reset')
  await card.reset()
  await settled(card)
  known.confirming = version
  reached('confirm')
  await card.confirm()
  Object.assign(known, { confirmed: version, marked: null, confirming: null })
}

/** Waits until what is marked is started, and what is started is tested: what runs then. */
async function settled(card: FlashTarget): Promise<Slot | undefined> {
  for (;;) {
    const slots = await card.list()
    const about = await card.about()
    const isMarked = slots.some(({ pending }) => pending)
    if (!isMarked && about?.tested === true) return slots.find(({ active }) => active)
    await delay(LOOK_MS)
  }
}

/** Ends a trial, if there is one; what runs behind it. */
async function withoutTrial(card: FlashTarget): Promise<Slot | undefined> {
  if ((await settled(card))?.confirmed === false) await card.reset()
  for (;;) {
    const active = await settled(card)
    if (active?.confirmed !== false) return active
    await delay(LOOK_MS)
  }
}

/** What runs is what was confirmed last; or what was marked, on trial, and then it goes back. */
async function expectKnown(machine: VirtualMachine, known: Known, where: string): Promise<void> {
  await withCard(machine, async (card) => {
    const active = await settled(card)
    if (active?.confirmed === false) expect(active.version, where).toBe(known.marked)
    const name = (await withoutTrial(card))?.version ?? null
    expect([known.confirmed, known.confirming ?? known.confirmed], where).toContain(name)
    Object.assign(known, { confirmed: name, marked: null, confirming: null })
  })
}
