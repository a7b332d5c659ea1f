/**
 * Many queues (N22): fair service, and memory that does not grow with their number.
 */

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { DMA_SPACE, FROM, TO } from '../../../firmware/board/hal.ts'
import { FETCH_UNITS, FETCHES } from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { nop, nopHost } from '../../support/queues/nop-queues.ts'
import type { QueueHost } from '../../support/queues/queue-host.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const QUEUES = 10_000
const GREEDY_DEPTH = 1024

/** Ten thousand queues of one element each, and one with a full ring. */
function many(capacity: number): { host: QueueHost; cq: number; greedy: number; small: number[] } {
  const { host, cqs, sqs } = nopHost({
    count: 16384,
    bytes: 1 << 24,
    entries: 16384,
    depth: GREEDY_DEPTH,
  })
  host.setCache(4, 1, 0, capacity)
  const small = Array.from({ length: QUEUES }, (_, i) => 100 + i)
  for (const queue of small) {
    host.forceQueue(queue, { kind: info.KIND_SEND, depth: 2, completions: cqs[0]! })
  }
  return { host, cq: cqs[0]!, greedy: sqs[0]!, small }
}

test('N22: one queue with a full ring, ten thousand of one element: all in their turn', () => {
  const { host, cq, greedy, small } = many(256)
  for (let i = 0; i < GREEDY_DEPTH; i++) host.post(greedy, nop())
  host.ring(greedy)
  host.card.serve()
  // The ring of the port takes 256 doorbells; the card takes them as they come.
  let calls = 0
  let atOnce = 0
  const done = new Map<number, number>()
  const look = (): void => {
    for (const cqe of host.poll(cq)) {
      if (cqe.queue !== greedy) done.set(cqe.queue, calls)
      else if (info.ahead(host.queues.get(greedy)!.pointer, cqe.unit) <= GREEDY_DEPTH / 2) {
        // It never has nothing to do.
        host.post(greedy, nop())
      }
    }
    host.ring(cq)
    host.ring(greedy)
  }
  for (let i = 0; i < small.length; i += 100) {
    for (const queue of small.slice(i, i + 100)) {
      host.post(queue, nop())
      host.ring(queue)
    }
    host.card.idle()
    calls += 1
    const before = done.size
    look()
    atOnce = Math.max(atOnce, done.size - before)
  }
  while (done.size < small.length && calls < 2 * QUEUES) {
    host.card.idle()
    calls += 1
    look()
  }
  expect(done.size).toBe(small.length)
  // Two more stand in the line each time: the greedy one and the completion queue.
  expect(calls).toBeLessThanOrEqual(Math.ceil(QUEUES / (FETCHES - 2)) + 2)
  expect(atOnce).toBeLessThanOrEqual(FETCHES)
  // In the order in which they were rung.
  const order = small.map((queue) => done.get(queue)!)
  expect(order).toEqual([...order].sort((a, b) => a - b))
  // The greedy one got its share in each of them, and no more.
  const taken = host.zone1(greedy).pointer
  expect(taken).toBeGreaterThanOrEqual(2 * FETCH_UNITS)
  expect(taken).toBeLessThanOrEqual(calls * FETCH_UNITS)
})

test('a full ring alone is done by FETCH_UNITS in each call', () => {
  const { host, cqs, sqs } = nopHost({ depth: 512, entries: 1024, bytes: 1 << 21 })
  for (let i = 0; i < 512; i++) host.post(sqs[0]!, nop())
  host.ring(sqs[0]!)
  host.card.serve()
  let calls = 1
  for (; host.card.waitUs === 1; calls++) {
    expect(host.zone1(sqs[0]!).pointer).toBe(calls * FETCH_UNITS)
    host.card.idle()
  }
  expect(calls).toBe(512 / FETCH_UNITS)
  expect(host.poll(cqs[0]!).length).toBe(512)
})

test('memory is bounded: ten thousand queues leave the heap of firmware as it was', async () => {
  const { host, small } = many(256)
  expect(host.card.machine.memory.byteLength).toBe(MEMORY_BYTES)
  const ring = (from: number, to: number): void => {
    for (let i = from; i < to; i += 100) {
      for (const queue of small.slice(i, i + 100)) host.ring(queue)
      host.run()
    }
  }
  ring(0, 1000)
  const before = await heap()
  ring(1000, QUEUES)
  // One object of each queue, and what leads to it, would be more than this.
  expect((await heap()) - before).toBeLessThan(QUEUES * 64)
})

/** The least of some looks: the runner talks meanwhile, in this heap, too. */
async function heap(): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let look = 0; look < 5; look++) {
    await new Promise((resolve) => setTimeout(resolve, 1))
    collect()
    least = Math.min(least, process.memoryUsage().heapUsed)
  }
  return least
}

test('a card whose host has nothing to do leaves the memory of the host alone', () => {
  const { host, sqs } = nopHost()
  host.post(sqs[0]!, nop())
  host.ring(sqs[0]!)
  host.run()
  let reached = 0
  host.card.machine.observe({
    onCommand: (_, __, words, at) => {
      if (words[at + FROM]! >= DMA_SPACE || words[at + TO]! >= DMA_SPACE) reached += 1
    },
  })
  for (let i = 0; i < 100; i++) {
    host.card.idle()
    host.card.serve()
  }
  expect(reached).toBe(0)
})
