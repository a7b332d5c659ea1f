/**
 * R1-U1: `verify` and `scan` count each record once, and tell what was rotten before anything
 * mended it: the start of a part, its idle time, or the look itself.
 */

import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import type { Nvdimm } from '../../boards/emulator/index.ts'
import { exitCodeFor } from '../../host-driver/command/verify.ts'
import { connect, type Dpu } from '../../host-driver/index.ts'
import { type LocalDpu, openLocal } from '../../host-driver/local.ts'
import { type Run, runIn } from '../support/command/command.ts'
import { copiesOf } from '../support/judges/copies.ts'

const LINE = 64
const folder = mkdtempSync(join(tmpdir(), 'perdure-verify-'))
const open: { close(): void | Promise<void> }[] = []

afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Bench {
  readonly local: LocalDpu
  readonly dpu: Dpu
  /** A copy of a record decays: a bit of its check code flips, where it is kept. */
  rot(record: number, ...copies: number[]): void
  /** That copy takes no stores from now on. */
  refuse(record: number, copy: number): void
}

/** A part with a region 'orders', as a DPU in this process. */
async function bench(name: string, slots: number): Promise<Bench> {
  const path = join(folder, name)
  const local = await openLocal({ path, bytes: 1 << 20, engine: 'node', seed: 5 })
  open.push(local)
  const dpu = await connect(local.wire, { seed: 5 })
  open.push(dpu)
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots, capacity: 64 })
  for (let slot = 0; slot < 4; slot++) await region.persist(slot, Buffer.from(`${slot}`)).persisted
  const { nvdimm } = local
  const copies = (record: number): number[] => copiesOf(Buffer.from(nvdimm.live), record)
  return {
    local,
    dpu,
    rot: (record, ...which) => {
      for (const copy of which) decay(nvdimm, copies(record)[copy]!)
    },
    refuse: (record, copy) => {
      nvdimm.refuseWrites(copies(record)[copy]! / LINE)
    },
  }
}

function decay({ live, durable }: Nvdimm, at: number): void {
  live[at]! ^= 1
  durable[at] = live[at]!
}

/** An image of such a part in which copies of records have decayed while it was off. */
async function imageWith(name: string, rotten: Record<number, number[]>): Promise<string> {
  await bench(name, 32)
  for (const one of open.splice(0).reverse()) await one.close()
  const path = join(folder, name)
  const bytes = readFileSync(path)
  for (const [record, copies] of Object.entries(rotten)) {
    for (const copy of copies) bytes[copiesOf(bytes, Number(record))[copy]!]! ^= 1
  }
  writeFileSync(path, bytes)
  return name
}

function verify(image: string, ...more: string[]): Promise<Run> {
  return runIn(folder, ['verify', image, '--engine', 'node', ...more])
}

test('R1-U1: the exit code is the worst of what was found, 0 only where all was checked', () => {
  for (let i = 0; i < 16; i++) {
    const [lost, unsettled, underWay, repaired] = [i >> 3, (i >> 2) & 1, (i >> 1) & 1, i & 1]
    const worst = lost ? 1 : unsettled ? 2 : underWay ? 75 : repaired ? 3 : 0
    const found = { lost, unsettled, underWay, repaired }
    expect(exitCodeFor(found), `${i}`).toBe(worst)
  }
})

describe('an image', () => {
  test('R1-U1: a rotten copy is told though the start of the part has mended it', async () => {
    // The first records are those that a part looks at while it waits for the first request.
    const image = await imageWith('rotten.img', { 0: [1], 3: [0], 15: [1], 31: [0] })
    const before = createHash('sha256')
      .update(readFileSync(join(folder, image)))
      .digest('hex')
    for (let look = 0; look < 2; look++) {
      const { code, stdout, stderr } = await verify(image)
      expect(stdout).toMatch(/region +checked +repaired +unsettled +lost +under way/)
      expect(stdout).toMatch(/orders +32 +4 +0 +0 +0/)
      expect(stderr).toMatch(/4 records have a copy that has decayed.*recover rotten.img --scan/)
      expect(code).toBe(3)
    }
    const after = createHash('sha256')
      .update(readFileSync(join(folder, image)))
      .digest('hex')
    expect(after).toBe(before)
    const mended = await runIn(folder, ['recover', image, '--scan', '--engine', 'node'])
    expect(mended.stdout).toMatch(/4 records repaired, 0 lost/)
    expect(mended.code).toBe(0)
    expect(await verify(image)).toMatchObject({ code: 0, stderr: '' })
  })

  test('R1-U1: what is lost and what can be repaired are told apart', async () => {
    const image = await imageWith('lost.img', { 2: [1], 5: [0, 1], 30: [0, 1] })
    const { code, stdout } = await verify(image)
    expect(stdout).toMatch(/orders +32 +1 +0 +2/)
    expect(code).toBe(1)
    const { stdout: json } = await verify(image, '--json')
    expect(JSON.parse(json)).toEqual({
      target: image,
      regions: [
        {
          ...{ region: 'orders', checked: 32, repaired: 1, repairedBefore: 0 },
          ...{ unsettled: 0, lost: 2, underWay: 0 },
        },
      ],
      ...{ repaired: 1, unsettled: 0, lost: 2, underWay: 0 },
    })
  })

  test('R1-U1: more lost records than the part has a list for are counted one by one', async () => {
    const rotten = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [i, [0, 1]]))
    const image = await imageWith('all.img', rotten)
    expect(JSON.parse((await verify(image, '--json')).stdout)).toMatchObject({ lost: 32 })
  })
})

describe('a DPU that serves', () => {
  test('R1-U1: of 600 records 100 are lost: 100, at every look, however many slices', async () => {
    const { dpu, rot } = await bench('many.img', 600)
    for (let i = 0; i < 100; i++) rot(5 * i, 0, 1)
    for (let look = 0; look < 3; look++) {
      const found = await dpu.scan('orders')
      expect(found).toMatchObject({ checked: 600, repaired: 0, unsettled: 0, lost: 100 })
    }
    const report = await dpu.report()
    expect(report.length).toBe(100)
  })

  test('R1-U1: a copy that decays is told by the first look behind it, by no other', async () => {
    const { dpu, rot } = await bench('once.img', 600)
    rot(1, 1)
    rot(599, 0)
    expect(await dpu.scan('orders')).toMatchObject({ repaired: 2, repairedBefore: 0, lost: 0 })
    expect(await dpu.scan('orders')).toMatchObject({ repaired: 0, repairedBefore: 2, lost: 0 })
    expect((await dpu.status()).recordsRepaired).toBe(2)
  })

  test('R1-U1: what idle time has mended before is told beside it', async () => {
    const { dpu, rot } = await bench('idle.img', 32)
    const region = await dpu.openRegion('orders')
    rot(7, 1)
    // Behind each write a card has something to do when it is idle, and looks at records then.
    for (let i = 0; i < 100 && (await dpu.status()).recordsRepaired === 0; i++) {
      await region.persist(0, Buffer.from(`${i}`)).persisted
    }
    expect(await dpu.scan('orders')).toMatchObject({ repaired: 0, repairedBefore: 1 })
  })

  test('R1-U1: a copy that takes no stores leaves its record unsettled, not repaired', async () => {
    const { dpu, rot, refuse } = await bench('refused.img', 32)
    rot(9, 1)
    refuse(9, 1)
    for (let look = 0; look < 3; look++) {
      const found = await dpu.scan('orders')
      expect(found).toMatchObject({ checked: 32, repaired: 0, unsettled: 1, lost: 0 })
    }
    expect((await dpu.status()).recordsRepaired).toBe(0)
    expect(await dpu.report()).toMatchObject([{ record: 9, refused: true, lost: false }])
  })
})
