/**
 * Completion queues, interrupts and events, the card's side (source 3; P3-27; N21).
 */

import { describe, expect, test } from 'vitest'
import { DMA } from '../../../firmware/board/fault.ts'
import {
  contextNow,
  failHostQueue,
  NO_PLACE,
  NO_QUEUE,
} from '../../../firmware/burst/queue-contexts.ts'
import { releaseCompletion, reserveCompletion } from '../../../firmware/host/completion.ts'
import { setQueueState } from '../../../firmware/host/context.ts'
import { setPolicy } from '../../../firmware/host/context-cache.ts'
import { SIGNALED, WC_SUCCESS } from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { type NopHost, nop, nopHost, openCard, wait } from '../../support/queues/nop-queues.ts'
import { elementOf, type QueueHost } from '../../support/queues/queue-host.ts'

const EVENTS = 1024

function post(host: QueueHost, queue: number, count = 1, flags?: number): void {
  for (let i = 0; i < count; i++) host.post(queue, nop(1, flags))
  host.ring(queue)
  host.run()
}

/** Moderation of a completion queue that is not in the cache yet. */
function moderate(host: QueueHost, cq: number, count: number, periodUs: number): void {
  const at = host.zone2At + cq * info.ZONE2_BYTES
  host.view.setUint16(at + info.Z2_COUNT, count, true)
  host.view.setUint16(at + info.Z2_PERIOD, periodUs, true)
}

function armAndRing(host: QueueHost, cq: number): void {
  host.arm(cq)
  host.ring(cq)
  host.run()
}

const told = (host: QueueHost): number[] =>
  host.events().flatMap(({ type, queue }) => (type === page.EVENT_COMPLETION ? [queue] : []))

describe('P3-27: completions', () => {
  test('P3-27: an entry is whole, in its place and lap; the pointer of zone 1 follows', () => {
    const { host, cqs, sqs } = nopHost({ entries: 8, depth: 8, pointer: 2 ** 32 - 12 })
    for (let lap = 0; lap < 5; lap++) {
      post(host, sqs[0]!, 8)
      const cqes = host.poll(cqs[0]!)
      expect(cqes.map((cqe) => cqe.number)).toEqual(
        Array.from({ length: 8 }, (_, i) => (2 ** 32 - 12 + 8 * lap + i) >>> 0),
      )
      for (const cqe of cqes) expect(cqe.status).toBe(WC_SUCCESS)
      expect(host.zone1(cqs[0]!).pointer).toBe((2 ** 32 - 12 + 8 * lap + 8) >>> 0)
    }
    expect(host.counters().completions).toBeGreaterThanOrEqual(40)
  })

  test('what is not signaled says nothing when it succeeds, and keeps no room', () => {
    const { host, cqs, sqs } = nopHost({ entries: 2, depth: 64 })
    post(host, sqs[0]!, 50, 0)
    expect(host.poll(cqs[0]!)).toEqual([])
    expect(host.zone1(sqs[0]!).pointer).toBe(50)
    post(host, sqs[0]!, 2)
    expect(host.poll(cqs[0]!).map((cqe) => cqe.unit)).toEqual([50, 51])
  })

  test('several queues complete into one, each in its order', () => {
    const { host, cqs, sqs } = nopHost({ sendQueues: 4, entries: 64 })
    for (const queue of sqs) for (let i = 0; i < 10; i++) host.post(queue, nop())
    for (const queue of sqs) host.ring(queue)
    host.run()
    const cqes = host.poll(cqs[0]!)
    expect(cqes.length).toBe(40)
    for (const queue of sqs) {
      const mine = cqes.filter((cqe) => cqe.queue === queue)
      expect(mine.map((cqe) => cqe.unit)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    }
  })
})

describe('a completion queue that is full', () => {
  test('the card looks again before it says so: the host has taken some meanwhile', () => {
    const { host, cqs, sqs } = nopHost({ entries: 4, depth: 16 })
    for (let lap = 0; lap < 6; lap++) {
      post(host, sqs[0]!, 4)
      expect(host.poll(cqs[0]!).length).toBe(4)
    }
    expect(host.events()).toEqual([])
  })

  test('COMPLETION_OVERRUN: it and the queue that met it are over, and nobody else', () => {
    const { host, cqs, sqs } = nopHost({
      completionQueues: 2,
      sendQueues: 4,
      entries: 4,
      depth: 16,
    })
    const [mine, others] = cqs as [number, number]
    const [one, other, third] = sqs as [number, number, number]
    post(host, one, 7)
    expect(host.events()).toEqual([
      { type: page.EVENT_OVERRUN, queue: mine, fault: 'COMPLETION_OVERRUN' },
      { type: page.EVENT_QUEUE_ERROR, queue: one, fault: 'COMPLETION_OVERRUN' },
    ])
    // What was executed has completed; the rest was not begun.
    expect(host.poll(mine).map((cqe) => cqe.unit)).toEqual([0, 1, 2, 3])
    expect(host.zone1(one)).toMatchObject({ pointer: 4, state: info.QUEUE_ERROR })
    expect(host.zone1(mine)).toMatchObject({ pointer: 4, state: info.QUEUE_ERROR })
    // Another queue of the same completion queue ends when it needs it.
    expect(host.zone1(third).state).toBe(info.QUEUE_READY)
    post(host, third)
    expect(host.events()).toEqual([
      { type: page.EVENT_QUEUE_ERROR, queue: third, fault: 'COMPLETION_OVERRUN' },
    ])
    post(host, other, 3)
    expect(host.poll(others).length).toBe(3)
    expect(host.events()).toEqual([])
  })

  test('what is none ends its own queue, with no completion, and not the full one', () => {
    const { host, cqs, sqs } = nopHost({ sendQueues: 2, entries: 4, depth: 16 })
    const [one, other] = sqs as [number, number]
    post(host, one, 4)
    host.post(other, elementOf({ opcode: 0x7f, flags: SIGNALED }))
    host.ring(other)
    host.run()
    expect(host.events()).toEqual([
      { type: page.EVENT_QUEUE_ERROR, queue: other, fault: 'ELEMENT_FORM' },
    ])
    expect(host.poll(cqs[0]!).map((cqe) => cqe.queue)).toEqual([one, one, one, one])
    post(host, one)
    expect(host.poll(cqs[0]!).map((cqe) => [cqe.queue, cqe.unit])).toEqual([[one, 4]])
  })

  test('a consumer that has taken more than there was ends its queue', () => {
    for (const taken of [3, 5, 2 ** 31, 2 ** 32 - 5]) {
      const { host, cqs, sqs } = nopHost({ entries: 4 })
      post(host, sqs[0]!, 2)
      host.setPointer(cqs[0]!, taken)
      host.ring(cqs[0]!)
      host.run()
      expect(host.events()).toEqual([
        { type: page.EVENT_QUEUE_ERROR, queue: cqs[0], fault: 'QUEUE_POINTER' },
      ])
    }
  })
})

describe('promises of room', () => {
  test('a full queue with a promise makes others wait, and room that comes is seen', () => {
    const { card, state } = openCard()
    const { host, cqs, sqs } = nopHost({ card, entries: 4 })
    const cq = cqs[0]!
    post(host, sqs[0]!)
    const place = state.host.contexts.placeOf[cq]!
    expect(reserveCompletion(state.host, place)).toBe(true)
    post(host, sqs[0]!, 4)
    // Two are there, one place is promised to somebody else, and one is kept for receives.
    for (let i = 0; i < 5; i++) {
      expect(host.card.waitUs).toBeGreaterThan(1)
      wait(host, host.card.waitUs)
      host.run()
    }
    expect(host.events()).toEqual([])
    for (const units of [[0, 1], [2, 3], [4]]) {
      expect(host.poll(cq).map((cqe) => cqe.unit)).toEqual(units)
      for (let i = 0; i < 5; i++) wait(host, 50)
    }
    expect(host.card.waitUs).toBe(0)
    // A promise keeps the context in its place, and the last of them lets it go.
    expect(state.host.contexts.pins[place]).toBe(1)
    releaseCompletion(state.host, place)
    expect(state.host.contexts.pins[place]).toBe(0)
  })

  test('while it is paused nobody is promised anything, and nothing is lost', () => {
    const { card, state } = openCard()
    const { host, cqs, sqs } = nopHost({ card, entries: 4 })
    post(host, sqs[0]!)
    const place = state.host.contexts.placeOf[cqs[0]!]!
    setQueueState(state.host, place, info.QUEUE_PAUSED)
    expect(reserveCompletion(state.host, place)).toBe(false)
    post(host, sqs[0]!, 2)
    for (let i = 0; i < 5; i++) wait(host, 50)
    expect(host.poll(cqs[0]!).length).toBe(1)
    setQueueState(state.host, place, info.QUEUE_READY)
    for (let i = 0; i < 5; i++) wait(host, 50)
    expect(host.poll(cqs[0]!).length).toBe(2)
  })
})

describe('contexts that are needed outside of a pass', () => {
  test('one is read, or is there; or there is no such queue; or no place', () => {
    const { card, state } = openCard()
    const { host, cqs, sqs } = nopHost({ card })
    const place = contextNow(state, sqs[0]!)
    expect(state.host.contexts.queueOf[place]).toBe(sqs[0])
    expect(contextNow(state, sqs[0]!)).toBe(place)
    expect(contextNow(state, 15)).toBe(NO_QUEUE)
    expect(contextNow(state, 16)).toBe(NO_QUEUE)
    expect(contextNow(state, 2 ** 32 - 1)).toBe(NO_QUEUE)
    setPolicy(state.host.contexts, 0, 1, 0, 4)
    for (let i = 0; i < 4; i++) {
      const queue = 6 + i
      host.forceQueue(queue, { kind: info.KIND_SEND, depth: 4, completions: cqs[0]! })
      state.host.contexts.pins[contextNow(state, queue)]! += 1
    }
    expect(contextNow(state, cqs[0]!)).toBe(NO_PLACE)
  })

  test('a queue that is not in the cache is failed by what its zone 1 says', () => {
    const { card, state } = openCard()
    const { host, sqs } = nopHost({ card })
    failHostQueue(state, sqs[0]!, DMA)
    host.run()
    expect(host.zone1(sqs[0]!)).toMatchObject({
      state: info.QUEUE_ERROR,
      fault: 'DMA',
      valid: 1,
      kind: info.KIND_SEND,
    })
    expect(host.events()).toEqual([{ type: page.EVENT_QUEUE_ERROR, queue: sqs[0], fault: 'DMA' }])
  })
})

describe('interrupts', () => {
  const interrupts = (host: QueueHost): number => host.header(page.HEADER_INTERRUPTS)

  test('nobody is woken who did not ask', () => {
    const { host, sqs } = nopHost()
    post(host, sqs[0]!, 5)
    expect(told(host)).toEqual([])
    expect(interrupts(host)).toBe(0)
  })

  test('armed first: one interrupt at the next completion, and none after it', () => {
    const { host, cqs, sqs } = nopHost()
    armAndRing(host, cqs[0]!)
    expect(told(host)).toEqual([])
    post(host, sqs[0]!, 3)
    expect(told(host)).toEqual([cqs[0]])
    expect(interrupts(host)).toBe(1)
    post(host, sqs[0]!, 3)
    expect(told(host)).toEqual([])
    expect(interrupts(host)).toBe(1)
  })

  test('armed behind the last completion: the interrupt comes all the same', () => {
    const { host, cqs, sqs } = nopHost()
    post(host, sqs[0]!)
    armAndRing(host, cqs[0]!)
    expect(told(host)).toEqual([cqs[0]])
    host.poll(cqs[0]!)
    armAndRing(host, cqs[0]!)
    expect(told(host)).toEqual([])
    post(host, sqs[0]!)
    expect(told(host)).toEqual([cqs[0]])
  })

  test('every order of taking, arming, ringing and completing wakes who has to be woken', () => {
    // The host takes, then arms, then looks again: what it finds then, nobody has to tell it.
    for (let when = 0; when < 5; when++) {
      const { host, cqs, sqs } = nopHost()
      const cq = cqs[0]!
      post(host, sqs[0]!)
      let found = 0
      const steps = [
        () => host.poll(cq),
        () => host.arm(cq),
        () => host.ring(cq),
        () => {
          found = host.poll(cq).length
        },
      ]
      steps.forEach((step, i) => {
        if (i === when) post(host, sqs[0]!)
        step()
      })
      host.run()
      if (when === 4) post(host, sqs[0]!)
      // Only what came before the first look needs no word at all.
      if (when > 0) expect([when, found + told(host).length > 0]).toEqual([when, true])
    }
  })

  test('an evicted completion queue is armed still', () => {
    const { host, cqs, sqs } = nopHost({ completionQueues: 8, sendQueues: 8, count: 32 })
    host.setCache(0, 1, 0, 4)
    for (const cq of cqs) armAndRing(host, cq)
    for (const queue of sqs) host.post(queue, nop())
    for (const queue of sqs) host.ring(queue)
    host.run()
    expect(told(host).sort((a, b) => a - b)).toEqual(cqs)
    for (const queue of sqs) post(host, queue)
    expect(told(host)).toEqual([])
  })
})

describe('moderation', () => {
  function moderated(count: number, periodUs: number): NopHost {
    const made = nopHost({ entries: 64, depth: 64 })
    moderate(made.host, made.cqs[0]!, count, periodUs)
    armAndRing(made.host, made.cqs[0]!)
    return made
  }

  test('at the n-th completion', () => {
    for (const count of [1, 2, 5, 30]) {
      const { host, cqs, sqs } = moderated(count, 60_000)
      for (let i = 1; i <= count; i++) {
        expect(told(host)).toEqual([])
        post(host, sqs[0]!)
      }
      expect(told(host)).toEqual([cqs[0]])
      expect(host.card.waitUs).toBe(0)
    }
  })

  test('or when the time is over', () => {
    const { host, cqs, sqs } = moderated(100, 500)
    post(host, sqs[0]!)
    expect(told(host)).toEqual([])
    const { waitUs } = host.card
    expect(waitUs).toBeGreaterThan(400)
    expect(waitUs).toBeLessThanOrEqual(500)
    wait(host, waitUs - 1)
    expect(told(host)).toEqual([])
    wait(host, 1)
    expect(told(host)).toEqual([cqs[0]])
    expect(host.card.waitUs).toBe(0)
  })

  test('of two queues each is told of in its own time', () => {
    const { host, cqs, sqs } = nopHost({ completionQueues: 2, sendQueues: 2 })
    cqs.forEach((cq, i) => {
      moderate(host, cq, 100, 500 + 500 * i)
      armAndRing(host, cq)
    })
    for (const queue of sqs) post(host, queue)
    wait(host, host.card.waitUs)
    expect(told(host)).toEqual([cqs[0]])
    wait(host, host.card.waitUs)
    expect(told(host)).toEqual([cqs[1]])
    expect(host.card.waitUs).toBe(0)
  })

  test('without a period it is told of at once', () => {
    const { host, cqs, sqs } = moderated(100, 0)
    post(host, sqs[0]!)
    expect(told(host)).toEqual([cqs[0]])
  })

  test('what the host has taken already is not told of', () => {
    const { host, cqs, sqs } = moderated(100, 500)
    post(host, sqs[0]!)
    host.poll(cqs[0]!)
    host.ring(cqs[0]!)
    host.run()
    expect(host.card.waitUs).toBe(0)
    wait(host, 1000)
    expect(told(host)).toEqual([])
  })

  test('armed behind a completion, the time counts from there', () => {
    const { host, cqs, sqs } = nopHost()
    moderate(host, cqs[0]!, 8, 300)
    post(host, sqs[0]!, 3)
    armAndRing(host, cqs[0]!)
    expect(told(host)).toEqual([])
    wait(host, host.card.waitUs)
    expect(told(host)).toEqual([cqs[0]])
  })

  test('armed when as many are there as it waits for, it is told of at once', () => {
    const { host, cqs, sqs } = nopHost()
    moderate(host, cqs[0]!, 4, 60_000)
    post(host, sqs[0]!, 4)
    armAndRing(host, cqs[0]!)
    expect(told(host)).toEqual([cqs[0]])
  })

  test('a cache that is full of delayed interrupts gives them up', () => {
    const { host, cqs, sqs } = nopHost({ completionQueues: 8, sendQueues: 8, count: 32 })
    host.setCache(4, 1, 0, 4)
    for (const cq of cqs) {
      moderate(host, cq, 100, 60_000)
      armAndRing(host, cq)
    }
    for (const queue of sqs) post(host, queue)
    for (let i = 0; i < 20; i++) wait(host, 100)
    for (const cq of cqs) expect(host.poll(cq).length).toBe(1)
    expect(told(host).length).toBeGreaterThan(3)
  })
})

describe('events', () => {
  /** Makes so many events: a doorbell of a queue that is not there makes one. */
  function make(host: QueueHost, count: number): void {
    for (let i = 0; i < count; i++) {
      host.ring(15)
      host.run()
    }
  }

  test('a ring that is full says that events were lost, in its last place', () => {
    const { host } = nopHost()
    make(host, EVENTS + 50)
    const events = host.events()
    expect(events.length).toBe(EVENTS)
    expect(events.at(-1)).toEqual({ type: page.EVENT_EVENTS_LOST, queue: 0, fault: 'PASS' })
    expect(events.slice(0, -1).every(({ queue }) => queue === 15)).toBe(true)
    expect(host.header(page.HEADER_EVENTS_MADE)).toBe(EVENTS)
    // More were lost behind that place: it is said again, and nobody has to ring for it.
    wait(host, host.card.waitUs)
    expect(host.events()).toEqual([{ type: page.EVENT_EVENTS_LOST, queue: 0, fault: 'PASS' }])
    wait(host, 5000)
    expect(host.card.waitUs).toBe(0)
    make(host, 1)
    expect(host.events().map(({ queue }) => queue)).toEqual([15])
  })

  test('a host that takes its events loses none, over many laps', () => {
    const { host } = nopHost()
    let got = 0
    for (let lap = 0; lap < 40; lap++) {
      make(host, 100)
      got += host.events().filter(({ type }) => type === page.EVENT_QUEUE_ERROR).length
    }
    expect(got).toBe(4000)
  })

  test('a host that says that it has taken more than there were is not believed', () => {
    const { host } = nopHost()
    make(host, 600)
    host.putHeader(page.HEADER_EVENTS_TAKEN, 2 ** 31)
    make(host, 600)
    host.putHeader(page.HEADER_EVENTS_TAKEN, 0xffffffff)
    make(host, 1)
    expect(host.header(page.HEADER_EVENTS_MADE)).toBe(EVENTS)
  })
})
