/**
 * What a driver believes of answers and messages about the part that cross each other
 * (host-driver/status/health.ts), against a connection that is played here.
 */

import { expect, test } from 'vitest'
import { ARMED } from '../../../firmware/board/hal.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PerdureError, RefusedError } from '../../../host-driver/base/errors.ts'
import type { Caller } from '../../../host-driver/base/give-up.ts'
import type { Management } from '../../../host-driver/control/management.ts'
import { readPartStatus } from '../../../host-driver/control/part.ts'
import {
  CardHealth,
  type HealthNotice,
  type HealthWatch,
} from '../../../host-driver/status/health.ts'
import type { JobQueue } from '../../../host-driver/way/way.ts'

/** A body of STATUS. */
function part(bits: number): Uint8Array {
  const body = new Uint8Array(mad.PART_BYTES)
  body[mad.PART_STATE] = mad.STATE_SERVING
  body[mad.PART_HEALTH] = bits
  putU32(body, mad.PART_INCARNATION, 1)
  return body
}

/** A message of that number; its mark is that of every draw of `random` below. */
function message(number: number, bits: number, mark = 7): Uint8Array {
  const bytes = new Uint8Array(mad.HEALTH_SEND_BYTES)
  putU32(bytes, mad.HEALTH_SEND_MAGIC, mad.HEALTH_MAGIC)
  putU32(bytes, mad.HEALTH_SEND_NUMBER, number)
  putU32(bytes, mad.HEALTH_SEND_MARK, mark)
  putU32(bytes, mad.HEALTH_SEND_MARK + 4, mark)
  bytes.set(part(bits), mad.HEALTH_SEND_PART)
  return bytes
}

const queueOf = (number: number): JobQueue =>
  ({ number, granted: { queuePair: number, incarnation: 1 } }) as unknown as JobQueue

const CALLER = { check: () => {} } as unknown as Caller

interface Played {
  readonly health: CardHealth
  readonly port: { current: JobQueue | null }
  /** Queue pairs of the calls so far. */
  readonly calls: number[]
  /** How many calls there had been each time that the connection was to be made again. */
  readonly mended: number[]
  /** What the next calls are answered; called first. */
  answer: () => { readonly body: Uint8Array; readonly number: number }
  readonly heard: HealthNotice[]
  /** What the last timer calls. */
  look: () => void
  listen(): Promise<HealthWatch>
  send(bytes: Uint8Array): boolean
}

function played(): Played {
  const calls: number[] = []
  const heard: HealthNotice[] = []
  const mended: number[] = []
  const management = {
    status: async () => readPartStatus(part(ARMED)),
    health: async (queuePair: number) => {
      calls.push(queuePair)
      await Promise.resolve()
      return one.answer()
    },
  } as unknown as Management
  const port = {
    way: {
      now: () => 0,
      setTimer: (_: number, callback: () => void) => {
        one.look = callback
        return () => {}
      },
    },
    management,
    current: queueOf(5) as JobQueue | null,
    random: () => 7,
    mend: () => void mended.push(calls.length),
  }
  const health = new CardHealth(port)
  const one: Played = {
    ...{ health, port, calls, heard, mended },
    answer: () => ({ body: part(ARMED), number: 0 }),
    look: () => {},
    listen: () => health.listen((notice) => void heard.push(notice), undefined, CALLER),
    send: (bytes) => health.take(bytes, 0, bytes.length),
  }
  return one
}

const bitsOf = (heard: readonly HealthNotice[]): boolean[] =>
  heard.map((notice) => notice.type === 'changed' && notice.part.armed)

test('messages are heard in order, each once', async () => {
  const one = played()
  await one.listen()
  for (const [number, bits] of [
    [1, 0],
    [2, ARMED],
    [1, 0],
    [2, 0],
    [3, 0],
  ] as const) {
    expect(one.send(message(number, bits))).toBe(true)
  }
  await Promise.resolve()
  expect(bitsOf(one.heard)).toEqual([false, true, false])
})

test('one that an answer knows of is older than that answer', async () => {
  const one = played()
  one.answer = () => ({ body: part(ARMED), number: 1 })
  await one.listen()
  expect(one.send(message(1, 0))).toBe(true)
  await Promise.resolve()
  expect(one.heard).toEqual([])
})

test('one that comes before an answer which does not know of it is newer', async () => {
  const one = played()
  await one.listen()
  one.answer = () => {
    one.send(message(1, 0))
    return { body: part(ARMED), number: 0 }
  }
  await one.listen()
  expect(bitsOf(one.heard)).toEqual([false])
})

test('another queue pair that comes meanwhile is asked, and counts anew', async () => {
  const one = played()
  await one.listen()
  one.send(message(9, ARMED))
  one.answer = () => {
    if (one.calls.at(-1) === 5) {
      one.health.lost()
      one.port.current = queueOf(6)
      one.health.begin()
    }
    return { body: part(ARMED), number: 0 }
  }
  await one.listen()
  expect(one.calls).toEqual([5, 5, 6])
  expect(one.send(message(1, 0))).toBe(true)
  await Promise.resolve()
  // Both listeners.
  expect(bitsOf(one.heard)).toEqual([false, false])
})

test('a queue pair that the card has no more is made again, and no other one', async () => {
  for (const [fault, mended] of [
    ['QUEUE_UNKNOWN', [1]],
    ['REQUEST', []],
    ['NOT_SERVING', []],
  ] as const) {
    const one = played()
    one.answer = () => {
      throw new RefusedError(fault, 0, 'health')
    }
    const watch = await one.listen()
    expect([watch.isTold, watch.part.armed]).toEqual([false, true])
    expect(one.mended).toEqual(mended)
  }
})

test('a card that does not answer is away once, and it is heard that it does again', async () => {
  const one = played()
  await one.listen()
  const { answer } = one
  const look = async (): Promise<void> => {
    one.look()
    for (let i = 0; i < 20; i++) await Promise.resolve()
  }
  await look()
  expect(one.heard).toEqual([])
  one.answer = () => {
    throw new PerdureError('PERDURE_UNREACHABLE', 'nobody')
  }
  await look()
  await look()
  one.answer = answer
  await look()
  await look()
  expect(one.heard.map(({ type }) => type)).toEqual(['away', 'changed'])
  expect(one.heard[0]).toMatchObject({ error: { code: 'PERDURE_UNREACHABLE' } })
})

test('what is too short, or has another magic or mark, is another message', async () => {
  const one = played()
  expect(one.send(message(1, 0))).toBe(false)
  await one.listen()
  expect(one.send(message(1, 0).subarray(1))).toBe(false)
  expect(one.send(message(1, 0, 8))).toBe(false)
  const other = message(1, 0)
  other[0]! ^= 1
  expect(one.send(other)).toBe(false)
  one.health.lost()
  expect(one.send(message(1, 0))).toBe(true)
  expect(one.heard).toEqual([])
})
