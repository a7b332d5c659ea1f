/**
 * Calls that are given up, by a signal or a deadline: each says whether it may have had an effect,
 * and nothing of it is sent any more. That every call takes a signal: wrong-arguments.test.ts.
 */

import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { RC_READ_REQUEST } from '../../../firmware/wire/opcode.ts'
import {
  type BytesRegion,
  connect,
  connectTarget,
  type Dpu,
  dualRead,
  dualWrite,
  EffectUnknown,
  RecordLost,
  type Region,
  type WaitOptions,
} from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts, passOn } from '../../support/driver/local-parts.ts'
import { copiesOf } from '../../support/judges/copies.ts'

const openPart = localParts()

interface Bench {
  readonly local: LocalDpu
  readonly dpu: Dpu
  readonly log: BytesRegion
}

async function bench(): Promise<Bench> {
  const local = await openPart()
  const dpu = await connect(local.wire, { seed: 3 })
  await dpu.format()
  await dpu.provision({ name: 'orders', slots: 16, capacity: 64 })
  const log = await dpu.provisionBytes({ name: 'log', length: 65_536 })
  await dualWrite({ places: places(log), key, bytes: bytes() })
  return { local, dpu, log }
}

const bytes = (fill = 1): Uint8Array => new Uint8Array(8).fill(fill)
const key = new Uint8Array(16).fill(9)

/** Where two copies of a record lie. */
function places(log: BytesRegion): { memory: BytesRegion; offset: number }[] {
  return [32_768, 40_960].map((offset) => ({ memory: log, offset }))
}

/** Where a frame has its opcode. */
const BTH_OPCODE_AT = 42

type Row = readonly [string, (bench: Bench, wait: WaitOptions) => Promise<unknown>]

/** What changes nothing, or nothing that anybody sees. */
const HARMLESS: readonly Row[] = [
  ['Dpu.status', ({ dpu }, wait) => dpu.status(wait)],
  ['Dpu.regions', ({ dpu }, wait) => dpu.regions(wait)],
  ['Dpu.openRegion', ({ dpu }, wait) => dpu.openRegion('orders', wait)],
  ['Dpu.scan', ({ dpu }, wait) => dpu.scan('orders', undefined, wait)],
  ['Dpu.query', ({ dpu }, wait) => dpu.query(1n, wait)],
  ['BytesRegion.read', ({ log }, wait) => log.read(0, 8, wait)],
  ['BytesRegion.prefetch', ({ log }, wait) => log.prefetch({ offset: 0, length: 8 }, wait)],
  ['BytesRegion.watch', ({ log }, wait) => log.watch(wait)],
  ['dualRead', ({ log }, wait) => dualRead({ places: places(log), key, capacity: 8, ...wait })],
]

const CHANGES: readonly Row[] = [
  ['Dpu.provision', ({ dpu }, w) => dpu.provision({ name: 'more', slots: 4, capacity: 64 }, w)],
  ['Dpu.remove', ({ dpu }, wait) => dpu.remove('orders', wait)],
  ['Dpu.publish', ({ dpu }, wait) => dpu.publish({ name: 'log', port: 7 }, wait)],
  ['Dpu.send', ({ dpu }, wait) => dpu.send(bytes(), wait)],
  ['BytesRegion.write', ({ log }, wait) => log.write(0, bytes(), wait)],
  ['BytesRegion.flush', ({ log }, wait) => log.flush(0, 8, wait)],
  ['BytesRegion.fetchAdd', ({ log }, wait) => log.fetchAdd(0, 1n, wait)],
  ['BytesRegion.compareSwap', ({ log }, wait) => log.compareSwap(0, 0n, 1n, wait)],
  ['BytesRegion.atomicWrite', ({ log }, wait) => log.atomicWrite(0, bytes(), wait)],
  [
    'dualWrite',
    ({ log }, wait) => {
      return dualWrite({ places: places(log), key, bytes: bytes(), sequence: 2n, ...wait })
    },
  ],
]

/** Loses every answer of the card. */
function deafen({ local }: Bench): void {
  local.link.script = (_, from) => (from === 'b' ? { drop: true } : undefined)
}

describe('a call that is sent and not answered', () => {
  test.each(HARMLESS)('%s ends as aborted or as late: it changes nothing', async (_, call) => {
    const made = await bench()
    deafen(made)
    const late = await failure(call(made, { deadlineMs: 5 }))
    expect(late).toMatchObject({ code: 'PERDURE_DEADLINE', name: 'TimeoutError' })
    expect(late.message).toContain('no answer within 5 ms')
    const control = new AbortController()
    const aborted = failure(call(made, { signal: control.signal }))
    control.abort(new Error('enough'))
    expect(await aborted).toMatchObject({ name: 'AbortError', cause: { message: 'enough' } })
    made.local.link.script = undefined
    await call(made, { deadlineMs: 1e6 })
  })

  test.each(CHANGES)('%s says that nobody knows whether it had its effect', async (_, call) => {
    const made = await bench()
    deafen(made)
    const late = await failure(call(made, { deadlineMs: 50 }))
    expect(late).toBeInstanceOf(EffectUnknown)
    expect(late).toMatchObject({ code: 'PERDURE_OUTCOME_UNKNOWN', status: 'WR_FLUSH_ERR' })
    expect(late.cause).toMatchObject({ code: 'PERDURE_DEADLINE' })
    expect(late.message).toContain('sent, and in doubt: no answer within 50 ms')
  })

  test('a call of management is not repeated once it was given up', async () => {
    const made = await bench()
    const { local, dpu } = made
    deafen(made)
    await failure(dpu.status({ deadlineMs: 120 }))
    let sent = 0
    local.link.script = (_, from) => {
      if (from === 'a') sent++
      return undefined
    }
    await passOn(local, 10_000_000)
    expect(sent).toBe(0)
  })

  test('what of a request of several calls is still to be sent is not', async () => {
    const made = await bench()
    const { dpu, local } = made
    const region = await dpu.openRegion('orders')
    await region.persist(3, bytes(3)).persisted
    for (const at of copiesOf(local.nvdimm.live, 3)) local.nvdimm.live[at]! ^= 1
    await expect(region.read(3)).rejects.toBeInstanceOf(RecordLost)
    // It opens the region, and then asks in vain whether the record is lost.
    local.link.script = (frame, from) => {
      return from === 'b' && frame.length > 300 ? undefined : { drop: from === 'b' }
    }
    const error = await failure(dpu.discard('orders', 3, { deadlineMs: 200 }))
    expect(error.code).toBe('PERDURE_DEADLINE')
    local.link.script = undefined
    await passOn(local, 10_000_000)
    await expect(region.read(3)).rejects.toBeInstanceOf(RecordLost)
    expect(await dpu.discard('orders', 3, { deadlineMs: 1e6 })).toMatchObject({ readOnly: false })
  })
})

describe('a request that is given up before it was sent', () => {
  test.each([
    ['a deadline', { deadlineMs: 5 }, 'PERDURE_DEADLINE'],
    ['a signal', {}, 'PERDURE_ABORTED'],
  ] as const)('by %s never is', async (_, wait, code) => {
    const { local, dpu, log } = await bench()
    await log.write(0, bytes(7))
    // Without a connection it waits for the next one.
    local.link.script = () => ({ drop: true })
    const reconnecting = dpu.reconnect().catch(() => {})
    const control = new AbortController()
    const writing = failure(log.write(0, bytes(8), { signal: control.signal, ...wait }))
    if (code === 'PERDURE_ABORTED') control.abort()
    expect((await writing).code).toBe(code)
    local.link.script = undefined
    await reconnecting
    expect(await log.read(0, 8)).toEqual(bytes(7))
  })

  test.each([
    ['read', (region: Region, wait: WaitOptions) => region.read(3, wait)],
    ['readCopies', (region: Region, wait: WaitOptions) => region.readCopies(3, wait)],
  ] as const)('%s of a record likewise', async (_, call) => {
    const { local, dpu } = await bench()
    const region = await dpu.openRegion('orders')
    await region.persist(3, bytes(3)).persisted
    local.link.script = () => ({ drop: true })
    const reconnecting = dpu.reconnect().catch(() => {})
    const error = await failure(call(region, { deadlineMs: 5 }))
    expect(error.code).toBe('PERDURE_DEADLINE')
    let reads = 0
    local.link.script = (frame, from) => {
      if (from === 'a' && frame[BTH_OPCODE_AT] === RC_READ_REQUEST) reads++
      return undefined
    }
    await reconnecting
    expect((await region.read(3)).data).toEqual(bytes(3))
    expect(reads).toBe(1)
  })

  test('at a port of RDMA-CM that has no room for it, likewise', async () => {
    const { local, dpu } = await bench()
    await dpu.publish({ name: 'log', port: 7204 })
    await dpu.close()
    const target = await connectTarget(local.wire, { port: 7204, seed: 5 })
    const { memory } = target
    local.link.script = () => ({ drop: true })
    const sent = Array.from({ length: 2000 }, () => memory.write(0, bytes(1)).catch(() => {}))
    const error = await failure(memory.write(8, bytes(2), { deadlineMs: 1 }))
    expect(error.code).toBe('PERDURE_DEADLINE')
    local.link.script = undefined
    await Promise.all(sent)
    expect(await memory.read(8, 8)).toEqual(new Uint8Array(8))
  })
})

describe('what else waits', () => {
  test('connecting to a port ends, and nothing of it goes on', async () => {
    const { local } = await bench()
    let sent = 0
    local.link.script = (_, from) => {
      if (from === 'a') sent++
      return { drop: true }
    }
    const error = await failure(connectTarget(local.wire, { port: 7, seed: 5, deadlineMs: 400 }))
    expect(error).toMatchObject({ name: 'TimeoutError' })
    expect(error.message).toBe('connect to port 7: no answer within 400 ms')
    const before = sent
    expect(before).toBeGreaterThan(0)
    await passOn(local, 10_000_000)
    expect(sent).toBe(before)
  })

  test('a reader who gives up takes no message from the next one', async () => {
    const { dpu } = await bench()
    const { messages } = dpu
    const late = await failure(messages.next({ deadlineMs: 5 }))
    expect(late).toMatchObject({ name: 'TimeoutError' })
    const control = new AbortController()
    const aborted = failure(messages.next({ signal: control.signal }))
    control.abort()
    expect(await aborted).toMatchObject({ name: 'AbortError' })
    const next = messages.next({ deadlineMs: 1e6 })
    await dpu.send(bytes(3), { solicited: true })
    expect((await next).bytes).toEqual(bytes(3))
  })

  test('memory that is not ready, until the signal fires', async () => {
    const { dpu, log } = await bench()
    const watch = await log.watch()
    const range = { offset: 0, length: 8 }
    await watch.ready(range, { signal: new AbortController().signal })
    const aborted = await failure(log.ready(range, { signal: AbortSignal.abort() }))
    expect(aborted).toMatchObject({ name: 'AbortError' })
    await watch.close()
    await dpu.close()
  })

  test('a watch that was given up can be opened again', async () => {
    const made = await bench()
    deafen(made)
    await failure(made.log.watch({ deadlineMs: 5 }))
    made.local.link.script = undefined
    const watch = await made.log.watch()
    expect(watch.isReady({ offset: 0, length: 8 })).toBe(true)
  })

  test('the copies of a pair region', async () => {
    const made = await bench()
    const pair = await made.dpu.provision({ name: 'pair', slots: 4, capacity: 64, pair: true })
    const signal = AbortSignal.abort()
    for (const call of [
      pair.writeCopies(0, bytes(), { signal }),
      pair.readCopies(0, { signal }),
      pair.read(0, { signal }),
    ]) {
      expect(await failure(call)).toMatchObject({ name: 'AbortError' })
    }
    await pair.writeCopies(0, bytes(5), { deadlineMs: 1e6 })
    expect((await pair.readCopies(0, { deadlineMs: 1e6 })).record.data).toEqual(bytes(5))
  })

  test('a signal forgets the calls that have ended', async () => {
    const { dpu, log } = await bench()
    const { signal } = new AbortController()
    await dpu.status({ signal })
    await log.write(0, bytes(), { signal })
    await log.read(0, 8, { signal })
    await failure(dpu.openRegion('none', { signal }))
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})
