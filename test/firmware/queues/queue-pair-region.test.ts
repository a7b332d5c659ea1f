/**
 * A pair region whose copies the card's own host writes, over its local queue: the card looks at
 * the record before each WRITE, as it does for clients on the network (S1-M2).
 *
 * Method: every copy that is written, beside every state of every other one; the WRITE leaves its
 * copy torn, and then the power goes.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { cut, type Nvdimm } from '../../../boards/emulator/index.ts'
import { CUT_STRATEGIES } from '../../../boards/emulator/medium/power-cut.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { VIEW_FIRST_COPY } from '../../../firmware/burst/view.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR } from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { readSlotImage } from '../../../host-driver/index.ts'
import { writeSlotImage } from '../../../host-driver/link/slot-image.ts'
import { dataOf, TestCard, type TestRegion } from '../../support/cards/test-card.ts'
import { at, type LocalQueue, localQueue, one, play } from '../../support/queues/local-queue.ts'
import { type ElementFields, elementOf } from '../../support/queues/queue-host.ts'
import { slotOffset, writeFrames } from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 7)
const SLOT = 1
const BYTES = 900
/** Line of a copy in the midst of its data. */
const LINE = 5
/** What a FLUSH makes durable, and how much: global and persistent, a range. */
const PERSISTENT = 3

interface Bench {
  readonly queue: LocalQueue
  readonly region: TestRegion
}

/** Sequence `n` of the record, as the host writes it. */
function imageOf(region: TestRegion, n: number): Uint8Array {
  const record = { data: dataOf(BYTES, n), sequence: BigInt(n), clientId: 0n, operationId: 0n }
  return writeSlotImage(record, region, SLOT)
}

function addressOf(copy: number): number {
  return SLOT * 2 ** 32 + (VIEW_FIRST_COPY + copy) * 2 ** 28
}

/** WRITE of the first bytes of an image into a copy. */
function writing({ queue, region }: Bench, copy: number, n: number, bytes?: number): ElementFields {
  const image = imageOf(region, n)
  const length = bytes ?? image.length
  queue.host.bytes.set(image, queue.buffer)
  const to = { opcode: kind.WRITE, rkey: region.rkey, address: addressOf(copy) }
  return { ...to, ...at(queue, length) }
}

function flushing({ region }: Bench, copy: number): ElementFields {
  const to = { opcode: kind.FLUSH, rkey: region.rkey, address: addressOf(copy) }
  return { ...to, length: imageOf(region, 1).length, compare: PERSISTENT }
}

/** The host's record, whole in every copy, under sequence 3. */
function bench(copies: number): Bench {
  const queue = localQueue()
  const shape = { copies, capacity: 1000, slots: 3, flags: mad.REGION_PAIR }
  const region = queue.host.card.provision(shape)
  const made = { queue, region }
  for (let copy = 0; copy < copies; copy++) {
    expect(one(queue, writing(made, copy, 3)).status).toBe(el.WC_SUCCESS)
    expect(one(queue, flushing(made, copy)).status).toBe(el.WC_SUCCESS)
  }
  return made
}

/** What each copy holds on the medium: its sequence, or why it is none. */
function copiesOf(nvdimm: Nvdimm, region: TestRegion): string[] {
  return Array.from({ length: region.copies }, (_, copy) => {
    const from = slotOffset(region, copy, SLOT)
    const image = nvdimm.live.slice(from, from + region.stride)
    const { record, why } = readSlotImage(image, region, SLOT)
    return record === null ? why : String(record.sequence)
  })
}

/** How another copy may be when the host writes. */
const STATES = {
  whole: () => {},
  torn: ({ queue, region }: Bench, copy: number) => {
    const { nvdimm } = queue.host.card
    const from = slotOffset(region, copy, SLOT) + LINE * LINE_BYTES
    for (const bytes of [nvdimm.live, nvdimm.durable]) bytes[from]! ^= 1
  },
  stale: ({ queue, region }: Bench, copy: number) => {
    const { nvdimm } = queue.host.card
    const image = imageOf(region, 2)
    for (const bytes of [nvdimm.live, nvdimm.durable]) {
      bytes.set(image, slotOffset(region, copy, SLOT))
    }
  },
} as const

type State = keyof typeof STATES

/** Every state of every copy but one. */
function statesBeside(copies: number, written: number): State[][] {
  const names = Object.keys(STATES) as State[]
  let all: State[][] = [[]]
  for (let copy = 0; copy < copies; copy++) {
    const here: readonly State[] = copy === written ? ['whole'] : names
    all = all.flatMap((before) => here.map((state) => [...before, state]))
  }
  return all
}

const CASES = [2, 3, 4].flatMap((copies) =>
  Array.from({ length: copies }, (_, written) => [copies, written] as const),
)

describe.each(CASES)('S1-M2: of %i copies the host writes copy %i', (copies, written) => {
  test('and the others are whole before, whatever they were', () => {
    for (const states of statesBeside(copies, written)) {
      const made = bench(copies)
      const { queue, region } = made
      for (const [copy, state] of states.entries()) STATES[state](made, copy)
      const cqe = one(queue, writing(made, written, 4, 8 * LINE_BYTES))
      expect(cqe.status, states.join()).toBe(el.WC_SUCCESS)
      const { nvdimm, machine } = queue.host.card
      const expected = states.map((_, copy) => (copy === written ? 'torn' : '3'))
      expect(copiesOf(nvdimm, region), states.join()).toEqual(expected)
      machine.die()
      const random = new Random(SEED)
      const strategy = CUT_STRATEGIES[states.length % CUT_STRATEGIES.length]!
      cut(nvdimm, { random, strategy })
      const found = copiesOf(nvdimm, region)
      expect(found.filter((_, copy) => copy !== written)).toEqual(Array(copies - 1).fill('3'))
      const again = new TestCard(nvdimm)
      for (let i = 0; i < 24; i++) {
        again.now += 1000
        again.idle()
      }
      expect(copiesOf(nvdimm, region)).toEqual(Array(copies).fill('3'))
    }
  })

  test('and where none of them, nor it, is whole, nothing is written', () => {
    const made = bench(copies)
    const { queue, region } = made
    for (let copy = 0; copy < copies; copy++) STATES.torn(made, copy)
    const before = queue.host.card.nvdimm.live.slice()
    expect(one(queue, writing(made, written, 4)).status).not.toBe(el.WC_SUCCESS)
    const from = slotOffset(region, 0, 0)
    const end = from + copies * 4096
    const { live } = queue.host.card.nvdimm
    expect(Buffer.compare(live.slice(from, end), before.slice(from, end))).toBe(0)
  })
})

test('S1-M2: the host waits while a message of another is under way into the record', () => {
  const made = bench(2)
  const { queue, region } = made
  const { host, cq, qp } = queue
  const peer = host.card.connect(256)
  const image = imageOf(region, 4)
  const view = VIEW_FIRST_COPY * 2 ** 28
  const frames = writeFrames(peer, region, view, image, { vaHigh: SLOT })
  host.card.serve(...frames.slice(0, 2))
  host.post(qp.send, elementOf({ ...writing(made, 1, 5), flags: el.SIGNALED }))
  host.ring(qp.send)
  host.run()
  expect(host.poll(cq)).toEqual([])
  expect(copiesOf(host.card.nvdimm, region)).toEqual(['torn', '3'])
  // It has its turn again when the card has asked for it, as often as that takes.
  const turn = (): void => {
    expect(host.card.waitUs).toBeGreaterThan(0)
    host.card.now += host.card.waitUs
    host.card.idle()
  }
  const waits: number[] = []
  for (let i = 0; i < 8; i++) {
    waits.push(host.card.waitUs)
    turn()
  }
  // The longer the other one takes, the less often.
  expect(waits.slice(1)).toEqual([100, 200, 400, 800, 800, 800, 800])
  expect(host.poll(cq)).toEqual([])
  host.card.serve(...frames.slice(2))
  turn()
  expect(host.poll(cq)).toMatchObject([{ status: el.WC_SUCCESS }])
  expect(copiesOf(host.card.nvdimm, region)).toEqual(['4', '5'])
  // Whoever waits next is asked for soon again.
  host.card.serve(...writeFrames(peer, region, view, image, { vaHigh: SLOT }).slice(0, 2))
  host.post(qp.send, elementOf({ ...writing(made, 1, 5), flags: el.SIGNALED }))
  host.ring(qp.send)
  host.run()
  expect(host.card.waitUs).toBeLessThanOrEqual(50)
})

test('S1-M2, D-13: on a part that is not armed nothing is written, and the queue ends', () => {
  const made = bench(2)
  const { host, qp } = made.queue
  const { nvdimm } = host.card
  nvdimm.armed = false
  host.card.idle()
  play(made.queue, writing(made, 0, 4))
  expect(host.zone1(qp.send)).toMatchObject({ state: QUEUE_ERROR, fault: 'NOT_DURABLE' })
  expect(copiesOf(nvdimm, made.region)).toEqual(['3', '3'])
})

test('S1-M2: FLUSH and WRITE of a chain are one behind the other, in one doorbell', () => {
  const made = bench(2)
  const chain = [writing(made, 0, 4), flushing(made, 0), writing(made, 1, 4), flushing(made, 1)]
  const cqes = play(made.queue, ...chain)
  expect(cqes.map(({ status }) => status)).toEqual(Array(4).fill(el.WC_SUCCESS))
  const { nvdimm } = made.queue.host.card
  cut(nvdimm, { random: new Random(SEED), strategy: 'none' })
  expect(copiesOf(nvdimm, made.region)).toEqual(['4', '4'])
})
