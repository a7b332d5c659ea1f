/**
 * A card with its host and one local queue pair: posts elements and takes their completions.
 */

import { INLINE_BYTES_MAX } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import type { TestRegion } from '../cards/test-card.ts'
import { type CardHost, hostOf } from './queue-calls.ts'
import { type Cqe, type ElementFields, elementOf, type PairNumbers } from './queue-host.ts'

/** Bytes of the buffer that is registered. */
const BUFFER_BYTES: number = 1 << 19

export interface LocalQueue {
  readonly host: CardHost
  readonly cq: number
  readonly qp: PairNumbers
  /** A buffer of the host, and its key. */
  readonly buffer: number
  readonly lkey: number
}

export function localQueue(
  host: CardHost = readyHost(),
  options: Parameters<CardHost['createQp']>[1] = {},
): LocalQueue {
  const cq = host.createCq(256)
  const qp = host.createQp(cq, { units: 256, ...options })
  const buffer = host.allocate(BUFFER_BYTES, 4096)
  return { host, cq, qp, buffer, lkey: host.register(buffer, BUFFER_BYTES, options.domain ?? 0) }
}

/** A card whose part is formatted, with its host, which may ask for trust (S1-M8). */
export function readyHost(queues = 64, trust = false): CardHost {
  const host = hostOf(1 << 22)
  host.trust = trust
  host.card.format()
  return host.init(queues)
}

/** Posts the elements, rings once, serves the card; the completions that came. */
export function play(queue: LocalQueue, ...elements: ElementFields[]): Cqe[] {
  const { host, cq, qp } = queue
  for (const fields of elements) {
    host.post(qp.send, elementOf({ ...fields, flags: (fields.flags ?? 0) | el.SIGNALED }))
  }
  host.ring(qp.send)
  host.run()
  return host.poll(cq)
}

/** As `play`, of one element that completes once. */
export function one(queue: LocalQueue, fields: ElementFields): Cqe {
  const cqes = play(queue, fields)
  if (cqes.length !== 1) throw new Error(`${cqes.length} completions: ${JSON.stringify(cqes)}`)
  return cqes[0]!
}

/** A record of that slot, inline if it is short enough, else by address. */
export function record(
  queue: LocalQueue,
  region: TestRegion,
  slot: number,
  operation: number,
  data: Uint8Array,
  wait = 2,
): ElementFields {
  const to = { opcode: 1, rkey: region.rkey, address: slot * 2 ** 32, operation, wait }
  if (data.length <= INLINE_BYTES_MAX) return { ...to, inline: data }
  queue.host.bytes.set(data, queue.buffer)
  return { ...to, ...at(queue, data.length) }
}

/** `length` bytes at the begin of the buffer, or behind it. */
export function at(
  queue: LocalQueue,
  length: number,
  offset = 0,
): Pick<ElementFields, 'local' | 'lkey' | 'length'> {
  return { local: queue.buffer + offset, lkey: queue.lkey, length }
}

/** What a READ of [offset, offset + length) in a view of a slot brings, or its status. */
export function readBack(
  queue: LocalQueue,
  region: TestRegion,
  slot: number,
  view: number,
  length: number,
): Uint8Array | number {
  const fields = { opcode: 7, rkey: region.rkey, address: slot * 2 ** 32 + view * 2 ** 28 }
  const cqe = one(queue, { ...fields, ...at(queue, length) })
  if (cqe.status !== el.WC_SUCCESS) return cqe.status
  return queue.host.bytes.slice(queue.buffer, queue.buffer + length)
}
