/**
 * The driver hears of the memory behind its regions: against the emulated DPU, in virtual time.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { blankBseth } from '../../../firmware/wire/block-size.ts'
import type { BytesRegion, ConnectOptions, Dpu, Region } from '../../../host-driver/index.ts'
import { connect } from '../../../host-driver/index.ts'
import type { Connection } from '../../../host-driver/link/connection.ts'
import type { LocalDpu, LocalOptions } from '../../../host-driver/local.ts'
import { blockSizeJob } from '../../../host-driver/way/jobs.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts, passOn } from '../../support/driver/local-parts.ts'
import { copiesOf } from '../../support/judges/copies.ts'

const openPart = localParts()

interface Bench {
  readonly local: LocalDpu
  readonly dpu: Dpu
  readonly region: Region
  readonly bytes: BytesRegion
  /** Opcodes of the frames of the client and of the card, in their order. */
  readonly sent: number[]
  readonly heard: number[]
}

const OPCODE_AT = 42
const MEMORY_STATUS = 0xc4
const ASSOCIATE = 0xc5
const PREFETCH_HINT = 0xcc
const BLOCK_SIZE = 0xd8

/** A part with 64 records in 16 pages and 32 pages of bytes, and a client of it. */
async function bench(
  options: ConnectOptions = {},
  card: Partial<LocalOptions> = {},
): Promise<Bench> {
  const local = await openPart(card)
  const sent: number[] = []
  const heard: number[] = []
  local.link.tap = (frame, _, from) => {
    if (frame[12] === 8 && frame[13] === 0) (from === 'a' ? sent : heard).push(frame[OPCODE_AT]!)
  }
  const dpu = await connect(local.wire, { seed: 3, ...options })
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: 64, capacity: 960 })
  const bytes = await dpu.provisionBytes({ name: 'log', length: 32 * 4096 })
  return { local, dpu, region, bytes, sent, heard }
}

/** Flips a bit in the data of every copy of the record, behind everybody's back. */
function damage({ nvdimm: { durable, live } }: LocalDpu, slot: number): void {
  for (const at of copiesOf(durable, slot)) {
    for (const bytes of [durable, live]) bytes[at + 64] = bytes[at + 64]! ^ 1
  }
}

function count(opcodes: readonly number[], opcode: number): number {
  return opcodes.filter((one) => one === opcode).length
}

function record(seed: number): Uint8Array {
  return Uint8Array.from({ length: 900 }, (_, i) => (i * 31 + seed * 17) & 0xff)
}

describe('watching a persistent region', () => {
  test('P5-1, P5-2, P5-7, P5-8: associates, agrees on the wish, and is told what is', async () => {
    const { region, sent, heard } = await bench()
    expect(region.status).toBe(null)
    const watch = await region.watch({ blockBytes: 8192, groupBlocks: 4 })
    expect(region.status).toBe(watch.status)
    const blocks = Math.ceil((64 * region.info.stride) / 8192)
    expect(watch.status).toMatchObject({
      ...{ phase: 'ready', health: 'ok', blockBytes: 8192, blocks, readyBlocks: blocks },
    })
    expect(watch.status.groups.every(({ ready, size, flag }) => ready === size && !flag)).toBe(true)
    expect(count(sent, ASSOCIATE)).toBe(1)
    expect(count(heard, MEMORY_STATUS)).toBe(1)
  })

  test('P5-4, P5-6, P5-30: what is ready is read and written without a hint', async () => {
    const { region, sent } = await bench()
    const watch = await region.watch()
    for (let slot = 0; slot < 8; slot++) await region.persist(slot, record(slot)).persisted
    for (let slot = 0; slot < 8; slot++) {
      expect((await region.read(slot)).data).toEqual(record(slot))
      expect(watch.isReady({ slot, count: 8 })).toBe(true)
    }
    expect(count(sent, PREFETCH_HINT)).toBe(0)
    expect(watch.status.counts).toMatchObject({ hints: 0, gaps: 0, stale: 0, asked: 0, spared: 8 })
  })

  test('P5-9, P5-29: without a wish the DPU suggests, and it counters a wish', async () => {
    const { dpu, region, bytes, sent } = await bench({}, { bytes: 1 << 23 })
    const suggested = await region.watch()
    expect(suggested.status.blockBytes).toBe(4096)
    expect(count(sent, BLOCK_SIZE)).toBe(1)
    const countered = await bytes.watch({ blockBytes: 512 })
    expect(countered.status.blockBytes).toBe(4096)
    expect(countered.status.blocks).toBe(32)
    expect(count(sent, BLOCK_SIZE)).toBe(2)
    // Of more memory it suggests no smallest block, but grants one.
    const wide = await dpu.provisionBytes({ name: 'wide', length: 1024 * 4096 })
    const coarse = await wide.watch()
    expect(coarse.status).toMatchObject({ blockBytes: 8192, blocks: 512 })
    await coarse.close()
    expect((await wide.watch({ blockBytes: 4096 })).status.blocks).toBe(1024)
  })

  test('P5-10: another size at any time makes nothing ready; all is told again', async () => {
    const { region, local, dpu } = await bench()
    await region.persist(8, record(8)).persisted
    const watch = await region.watch({ blockBytes: 4096 })
    damage(local, 8)
    expect(await dpu.scan('orders')).toMatchObject({ lost: 1 })
    await passOn(local, 50_000)
    let wrong = 0
    let coarse = 0
    watch.onChange((status) => {
      if (watch.isReady({ slot: 8 })) wrong += 1
      if (status.blockBytes > 4096) coarse += 1
    })
    for (const blockBytes of [16384, 4096, 65536, 8192, 4096]) {
      expect(await watch.propose(blockBytes)).toBe(blockBytes)
      await passOn(local, 50_000)
      const blocks = Math.ceil((64 * region.info.stride) / blockBytes)
      expect(watch.status).toMatchObject({ blockBytes, blocks, readyBlocks: blocks - 1 })
      const block = Math.floor((8 * region.info.stride) / blockBytes)
      expect(watch.status.stateOf(block)).toBe('notReady')
    }
    expect(wrong).toBe(0)
    expect(coarse).toBeGreaterThan(0)
    expect(await watch.propose(1 << 30), 'the nearest that both can').toBe(
      2 ** Math.ceil(Math.log2(64 * region.info.stride)),
    )
    expect((await failure(watch.propose(5000))).code).toBe('PERDURE_ARGUMENT')
  })

  test('P5-16: after opting out nothing is told, and it can be watched again', async () => {
    const { region, local, heard } = await bench()
    const watch = await region.watch()
    expect((await failure(region.watch())).code).toBe('PERDURE_ARGUMENT')
    await watch.close()
    expect(region.status).toBe(null)
    expect((await failure(watch.ready({ slot: 1 }))).code).toBe('PERDURE_CLOSED')
    const before = count(heard, MEMORY_STATUS)
    local.nvdimm.armed = false
    await passOn(local, 100_000)
    local.nvdimm.armed = true
    await passOn(local, 100_000)
    expect(count(heard, MEMORY_STATUS)).toBe(before)
    const again = await region.watch()
    expect(again.status.phase).toBe('ready')
  })

  test('P5-16: closed, and watched again at once behind much else: it hears all', async () => {
    const { region, local } = await bench()
    const watch = await region.watch()
    const records: Promise<unknown>[] = []
    for (let i = 0; i < 200; i++) records.push(region.persist(i % 64, record(i)).persisted)
    const closing = watch.close()
    const again = await region.watch()
    await Promise.all([closing, ...records])
    local.nvdimm.armed = false
    await passOn(local, 50_000)
    expect(again.status.phase).toBe('unavailable')
  })

  test('D-12: a DPU that gave the queue pair up in silence is found out', async () => {
    const { region, local } = await bench()
    const watch = await region.watch()
    local.link.script = () => ({ drop: true })
    local.nvdimm.armed = false
    await passOn(local, 900_000)
    local.link.script = undefined
    await passOn(local, 5_000_000)
    expect(watch.status.phase).toBe('unavailable')
    local.nvdimm.armed = true
    await watch.ready({ slot: 0, count: 64 }, { timeoutMs: 1000 })
  })

  test('D-12: an association that the DPU has no more is made again', async () => {
    const { bytes, local, sent } = await bench()
    const watch = await bytes.watch()
    // Another end of the same queue pair opts out.
    const { connection } = bytes as unknown as { readonly connection: Connection }
    const out = { ...blankBseth(), blockSizeLog2: 0, optOut: true }
    await new Promise<void>((resolve) => {
      connection.current!.post(blockSizeJob(bytes.info.rkey, out, () => resolve()))
    })
    local.nvdimm.armed = false
    await passOn(local, 3_000_000)
    expect(watch.status.phase).toBe('unavailable')
    expect(count(sent, ASSOCIATE)).toBe(2)
  })

  test('a read leaves within the call: it does not read what is written next', async () => {
    const { region } = await bench()
    await region.persist(1, record(1)).persisted
    for (const watched of [false, true]) {
      if (watched) await region.watch()
      const reading = region.read(1)
      const writing = region.persist(1, record(watched ? 3 : 2)).persisted
      expect((await reading).data).toEqual(record(watched ? 2 : 1))
      await writing
    }
  })

  test('X-7: a hint at nothing is none, and breaks nothing', async () => {
    const { bytes, sent } = await bench()
    await bytes.prefetch({ offset: 5, length: 0 })
    await bytes.watch()
    await bytes.prefetch({ offset: 5, length: 0 })
    expect(count(sent, PREFETCH_HINT)).toBe(0)
  })

  test('P5-15: a part that is not armed: forgotten, no hints; then again', async () => {
    const { region, local, sent } = await bench()
    await region.persist(5, record(5)).persisted
    const watch = await region.watch()
    const phases: string[] = []
    watch.onChange(({ phase }) => {
      if (phases.at(-1) !== phase) phases.push(phase)
    })
    local.nvdimm.armed = false
    await passOn(local, 100_000)
    expect(watch.status).toMatchObject({ phase: 'unavailable', readyBlocks: 0 })
    expect(watch.status.stateOf(0)).toBe('unknown')
    expect((await region.read(5)).data).toEqual(record(5))
    expect(count(sent, PREFETCH_HINT)).toBe(0)
    const ready = watch.ready({ slot: 0, count: 64 }, { timeoutMs: 1000 })
    local.nvdimm.armed = true
    await ready
    expect(watch.status).toMatchObject({ phase: 'ready', health: 'ok' })
    expect(phases).toEqual(['unavailable', 'reset', 'ready'])
  })

  test('P5-30, P5-20: a block with a lost record is not ready', async () => {
    const { region, local, dpu, sent } = await bench()
    for (const slot of [8, 9]) await region.persist(slot, record(slot)).persisted
    const watch = await region.watch({ blockBytes: 4096 })
    const block = Math.floor((8 * region.info.stride) / 4096)
    damage(local, 8)
    expect(await dpu.scan('orders')).toMatchObject({ lost: 1 })
    await passOn(local, 50_000)
    expect(watch.status).toMatchObject({ health: 'degraded', readyBlocks: watch.status.blocks - 1 })
    expect(watch.status.stateOf(block)).toBe('notReady')
    expect(watch.isReady({ slot: 8 })).toBe(false)
    expect(watch.status.otherReady({ slot: 8 })).toEqual({ slot: (block + 1) * 4, count: 1 })
    expect((await region.read(9)).data).toEqual(record(9))
    expect(count(sent, PREFETCH_HINT)).toBe(1)
    await dpu.discard('orders', 8)
    await region.ready({ slot: 8 }, { timeoutMs: 100 })
    expect(watch.status.readyBlocks).toBe(watch.status.blocks)
  })

  test('P5-28: the association is made again with the connection', async () => {
    const { region, local, sent } = await bench()
    await region.persist(1, record(1)).persisted
    const watch = await region.watch()
    const { incarnation } = watch.status
    const phases: string[] = []
    watch.onChange(({ phase }) => phases.push(phase))
    local.dpu.powerCut({ strategy: 'none' })
    await local.dpu.powerOn()
    await region.persist(2, record(2)).persisted
    await watch.ready({ slot: 0, count: 64 }, { timeoutMs: 1000 })
    expect(phases[0]).toBe('silent')
    expect(watch.status.incarnation).toBe(incarnation + 1)
    expect(count(sent, ASSOCIATE)).toBe(2)
    expect((await region.read(1)).data).toEqual(record(1))
  })

  test('X-7: a region that is not watched, a time that is over, ranges that are none', async () => {
    const { region, bytes, local } = await bench()
    expect((await failure(region.ready({ slot: 0 }))).code).toBe('PERDURE_ARGUMENT')
    expect((await failure(bytes.ready({ offset: 0, length: 1 }))).code).toBe('PERDURE_ARGUMENT')
    expect((await failure(bytes.watch({ blockBytes: 3000 }))).code).toBe('PERDURE_ARGUMENT')
    expect((await failure(bytes.watch({ maximum: 257 }))).code).toBe('PERDURE_ARGUMENT')
    await bytes.watch()
    await region.watch()
    expect((await failure(bytes.prefetch({ offset: 32 * 4096, length: 1 }))).code).toBe(
      'PERDURE_ARGUMENT',
    )
    expect((await failure(region.prefetch({ slot: 63, count: 2 }))).code).toBe('PERDURE_ARGUMENT')
    local.nvdimm.armed = false
    await passOn(local, 100_000)
    const late = await failure(region.ready({ slot: 3 }, { timeoutMs: 5 }))
    expect(late.code).toBe('PERDURE_DEADLINE')
    expect(late.message).toContain('not ready within 5 ms')
  })

  test('X-6: over a bad link, seeds 1 to 8: right bytes, and all is told', async () => {
    for (let seed = 1; seed <= 8; seed++) {
      const faults = { loss: 0.03, duplication: 0.03, reordering: 0.03 }
      const { region, local, dpu } = await bench({ ackTimeoutCode: 8 }, { seed, faults })
      const random = new Random(seed)
      const watch = await region.watch({ periodUs: 100, threshold: 1 })
      const content = new Map<number, Uint8Array>()
      for (let i = 0; i < 20; i++) {
        const slot = random.below(64)
        const bytes = record(random.below(1000))
        await region.persist(slot, bytes).persisted
        content.set(slot, bytes)
        if (i === 10) local.nvdimm.armed = false
        if (i === 10) await passOn(local, 30_000)
        local.nvdimm.armed = true
      }
      for (const [slot, bytes] of content) expect((await region.read(slot)).data).toEqual(bytes)
      await watch.ready({ slot: 0, count: 64 }, { timeoutMs: 5000 })
      expect(watch.status.phase, `seed ${seed}`).toBe('ready')
      await dpu.close()
    }
  })
})
