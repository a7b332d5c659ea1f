/**
 * Batches with messages among their members: each goes to a receive of the host behind the queue
 * pair, under the one status and the same conditions (source 4, [0059]; S1-M9).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { CUT_STRATEGIES, type CutChoice } from '../../../boards/emulator/medium/power-cut.ts'
import {
  BATCH_TIMEOUT_US,
  LINE_BYTES,
  PAGE_BYTES,
  PAGES_AT_ONCE,
  POSTED_RECEIVES,
  RECORD_BYTES_MAX,
} from '../../../firmware/board/limits.ts'
import { WC_SUCCESS, WQE_RECEIVE } from '../../../firmware/host/element.ts'
import { TYPE_CONNECTED } from '../../../firmware/host/queue-info.ts'
import { PLACEMENT_BYPASS, PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import { DATA_AT, OPERATIONS_AT } from '../../../firmware/medium/superblock.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type BatchOptions,
  type BatchRecord,
  batchFrames,
  CONDITIONS,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  type Status,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { failFence } from '../../support/cards/fences.ts'
import { type Message, MessageCard, messageMember } from '../../support/cards/message-card.ts'
import { dataOf, type Sent, type TestPeer } from '../../support/cards/test-card.ts'
import { stationOf } from '../../support/queues/queue-calls.ts'
import { elementOf, readying } from '../../support/queues/queue-host.ts'
import { OnDemandHost } from '../../support/residency/on-demand.ts'
import { divided } from '../../support/run/thorough.ts'
import { lines, sendFrames, slotOffset, writeFrames } from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 1)
const BASE = 500

/** What the use case sends: two records, then the message that tells of them. */
function notice(one: MessageCard, seed = 0): BatchRecord[] {
  return [
    one.record(3, dataOf(64, seed + 1)),
    one.record(4, dataOf(64, seed + 2)),
    one.message(dataOf(40, seed + 3)),
  ]
}

function told(index: number, seed: number, base = BASE, length = 40): Message {
  return { data: dataOf(length, seed), operation: base + index }
}

/** Sends a burst; what the card sent. Its operations begin at BASE. */
function send(
  one: MessageCard,
  members: readonly BatchRecord[],
  options: BatchOptions = {},
  qp: TestPeer = one.qp,
): Sent[] {
  const frames = batchFrames(qp, one.region, members, { operation: BASE, ...options })
  return one.card.serve(...frames)
}

/** Its one status. */
function play(...asked: Parameters<typeof send>): Status {
  const said = statuses(send(...asked))
  expect(said).toHaveLength(1)
  return said[0]!
}

/** Members as a retry sends them: with their indexes, those that are named. */
function retry(members: readonly BatchRecord[], indexes: readonly number[]): BatchRecord[] {
  return indexes.map((index) => ({ ...members[index]!, index }))
}

const CASES = Object.entries(CONDITIONS).map(([name, condition]) => ({ name, condition }))

describe.each(CASES)('S1-M9: messages of a batch, $name', ({ condition }) => {
  test('the host is told when what is before it is durable, and the one status says all', () => {
    const one = new MessageCard()
    one.receive(64, 2)
    expect(play(one, notice(one), { condition })).toMatchObject({
      ...{ durable: upTo(3), said: 'durable', count: 3 },
    })
    expect(one.messages()).toEqual([told(2, 3)])
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    expect(one.found(4)).toEqual(dataOf(64, 2))
  })

  test('first, between and last: each is told once, in its order', () => {
    const one = new MessageCard()
    one.receive(64, 3)
    const members = [
      one.message(dataOf(40, 1)),
      one.record(3, dataOf(64, 2)),
      one.message(dataOf(40, 3)),
      one.bytes(100, dataOf(30, 4)),
      one.record(4, dataOf(64, 5)),
      one.message(dataOf(40, 6)),
    ]
    expect(play(one, members, { condition })).toMatchObject({ durable: upTo(6), said: 'durable' })
    expect(one.messages()).toEqual([told(0, 1), told(2, 3), told(5, 6)])
  })

  test('nothing but messages: as many as fit a batch, of no byte up to several packets', () => {
    const one = new MessageCard(null, { mtu: 256 })
    const lengths = [0, 1, 255, 256, 257, 1000, 0, 64]
    one.receive(1000, lengths.length)
    const members = lengths.map((length, i) => one.message(dataOf(length, i)))
    const said = play(one, members, { condition })
    expect(said).toMatchObject({ durable: upTo(8), said: 'durable' })
    expect(said.paeth).toMatchObject({ mechanism: 1, copies: 1 })
    expect(one.messages()).toEqual(
      lengths.map((length, i) => ({ data: dataOf(length, i), operation: BASE + i })),
    )
  })

  test('no receive: NO_RECEIVE for it alone, nothing is told; a retry delivers it', () => {
    const one = new MessageCard()
    const members = notice(one)
    expect(play(one, members, { condition })).toMatchObject({
      ...{ durable: [0, 1], said: 'NO_RECEIVE' },
    })
    expect(one.messages()).toEqual([])
    one.receive(64)
    const again = play(one, retry(members, [2]), { condition, count: 3 })
    expect(again).toMatchObject({ durable: upTo(3), said: 'durable' })
    expect(one.messages()).toEqual([told(2, 3)])
    expect(one.card.counter('NO_RECEIVE')).toBe(1)
  })

  test('a receive that is too short: RECORD_LENGTH, and it is the next one’s', () => {
    const one = new MessageCard()
    one.receive(39)
    const members = notice(one)
    expect(play(one, members, { condition })).toMatchObject({
      ...{ durable: [0, 1], said: 'RECORD_LENGTH' },
    })
    expect(one.messages()).toEqual([])
    const short = [one.message(dataOf(39, 9))]
    expect(play(one, short, { condition, id: 2, operation: 900 }).said).toBe('durable')
    expect(one.messages()).toEqual([{ data: dataOf(39, 9), operation: 900 }])
  })

  test('a full completion queue is as no receive, and nothing of it is overrun', () => {
    const one = new MessageCard(null, { entries: 1 })
    one.receive(64, 2)
    const members = [one.message(dataOf(40, 1)), one.message(dataOf(40, 2))]
    expect(play(one, members, { condition })).toMatchObject({ durable: [0], said: 'NO_RECEIVE' })
    expect(one.messages()).toEqual([told(0, 1)])
    const again = play(one, retry(members, [1]), { condition, count: 2 })
    // Room is looked for when it was missed.
    if (again.said !== 'durable') play(one, retry(members, [1]), { condition, count: 2 })
    expect(one.messages()).toEqual([told(1, 2)])
  })

  test('every member that is refused: the message is told exactly as the condition says', () => {
    for (const place of upTo(3)) {
      const one = new MessageCard()
      one.receive(64)
      const members = [
        one.record(3, dataOf(64, 1)),
        one.message(dataOf(40, 2)),
        one.record(4, dataOf(64, 3)),
      ]
      members[place] = place === 1 ? one.message(dataOf(65, 2)) : { ...members[place]!, slot: 9999 }
      const why = place === 1 ? 'RECORD_LENGTH' : 'SLOT'
      const others = upTo(3).filter((i) => i !== place)
      const durable = condition === IN_ORDER ? upTo(place) : others
      expect(play(one, members, { condition }), `${place}`).toMatchObject({ durable, said: why })
      const isTold = durable.includes(1)
      expect(one.messages(), `${place}`).toEqual(isTold ? [told(1, 2)] : [])
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    }
  })

  test('known as durable: a retry on another connection tells of nothing twice', () => {
    const one = new MessageCard()
    one.receive(64, 2)
    const members = notice(one)
    play(one, members, { condition })
    const other = one.connect()
    one.receive(64, 2)
    for (const repetition of [false, true]) {
      const marked = members.map((member) => ({
        ...member,
        pweth: { ...member.pweth, repetition },
      }))
      const said = play(one, marked, { condition }, other)
      expect(said).toMatchObject({ durable: upTo(3), said: 'durable' })
    }
    expect(one.messages()).toEqual([told(2, 3)])
  })

  test('a duplicate of any packet of it is answered, and tells of nothing twice', () => {
    const one = new MessageCard()
    one.receive(64, 3)
    const options = { condition, operation: BASE }
    const frames = batchFrames(one.qp, one.region, notice(one), options)
    const first = statuses(one.card.serve(...frames))
    for (const [i, frame] of frames.entries()) {
      const again = statuses(one.card.serve(frame))
      expect(again.map(({ durable }) => durable)).toEqual(i === 2 ? [first[0]!.durable] : [])
    }
    expect(one.messages()).toEqual([told(2, 3)])
  })

  test('a connection that breaks in between tells of nothing, and another one delivers', () => {
    const one = new MessageCard()
    one.receive(64)
    const members = notice(one).reverse()
    send(one, members.slice(0, 2), { condition, count: 3, ends: false })
    one.card.pass(BATCH_TIMEOUT_US)
    expect(one.messages()).toEqual([])
    const other = one.connect()
    one.receive(64)
    expect(play(one, members, { condition }, other).said).toBe('durable')
    expect(one.messages()).toEqual([told(0, 3)])
  })

  test('on a queue pair of the card itself nobody receives: the batch is refused whole', () => {
    const one = new MessageCard()
    one.receive(64)
    const qp = one.card.connect(1024)
    expect(play(one, notice(one), { condition }, qp)).toMatchObject({
      ...{ durable: [], said: 'BATCH_REGION' },
    })
    expect(one.messages()).toEqual([])
    expect(one.found(3)).toEqual(new Uint8Array(64))
  })
})

describe('S1-M9: messages beside regions', () => {
  test('past the caches of the host they are told behind its records', () => {
    for (const condition of [INDEPENDENT, IN_ORDER]) {
      const one = new MessageCard(null, { placement: PLACEMENT_BYPASS })
      one.receive(64, 2)
      const members = [one.message(dataOf(40, 0)), ...notice(one)]
      expect(play(one, members, { condition })).toMatchObject({
        ...{ durable: upTo(4), said: 'durable' },
      })
      expect(one.messages()).toEqual([told(0, 0), told(3, 3)])
      expect(one.found(4)).toEqual(dataOf(64, 2))
      // What is in two placements is refused whole, wherever the message stands.
      for (const place of upTo(3)) {
        const mixed = [one.record(5, dataOf(64, 9)), one.bytes(0, dataOf(8, 1))]
        mixed.splice(place, 0, one.message(dataOf(8, 2)))
        const options = { condition, id: 9, operation: 7000 + 10 * place }
        expect(play(one, mixed, options)).toMatchObject({ durable: [], said: 'BATCH_REGION' })
      }
      expect(one.messages()).toEqual([])
    }
  })

  test('through the caches of the host: the batch is refused whole, wherever they stand', () => {
    const one = new MessageCard(null, { placement: PLACEMENT_THROUGH })
    one.receive(64, 2)
    for (const condition of [INDEPENDENT, IN_ORDER]) {
      for (const place of upTo(3)) {
        const members = [one.record(3, dataOf(64, 1)), one.record(4, dataOf(64, 2))]
        members.splice(place, 0, one.message(dataOf(40, 3)))
        const options = { condition, id: 2 + place, operation: BASE + 10 * place }
        expect(play(one, members, options)).toMatchObject({ durable: [], said: 'BATCH_REGION' })
      }
    }
    expect(one.messages()).toEqual([])
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  })
})

describe('S1-M9: what else goes to the same receives', () => {
  test('messages and SENDs take them in the order in which they were sent', () => {
    for (const condition of [INDEPENDENT, IN_ORDER]) {
      const one = new MessageCard(null, { mtu: 256 })
      one.receive(600, 5)
      const { qp } = one
      const first = sendFrames(qp, dataOf(300, 1))
      const members = [one.message(dataOf(10, 2)), one.record(3, dataOf(64, 3))]
      const options = { condition, operation: BASE, count: 3 }
      const begun = batchFrames(qp, one.region, members, { ...options, ends: false })
      const between = sendFrames(qp, dataOf(300, 4))
      const rest = [{ ...one.message(dataOf(20, 5)), index: 2 }]
      const ended = batchFrames(qp, one.region, rest, options)
      const last = sendFrames(qp, dataOf(300, 6))
      const sent = one.card.serve(...first, ...begun, ...between, ...ended, ...last)
      expect(statuses(sent)).toMatchObject([{ durable: upTo(3), said: 'durable' }])
      expect(one.messages()).toEqual([
        { data: dataOf(300, 1), operation: 0 },
        told(0, 2, BASE, 10),
        { data: dataOf(300, 4), operation: 0 },
        told(2, 5, BASE, 20),
        { data: dataOf(300, 6), operation: 0 },
      ])
    }
  })

  test.each<[string, (one: MessageCard) => Uint8Array[]]>([
    ['a SEND', ({ qp }) => sendFrames(qp, dataOf(8, 2))],
    ['a SEND of several packets', ({ qp }) => sendFrames(qp, dataOf(2000, 2))],
    ['an immediate', ({ qp, area }) => writeFrames(qp, area, 512, dataOf(8, 2), { immediate: 3 })],
    [
      'an immediate alone',
      ({ qp, area }) => writeFrames(qp, area, 0, dataOf(0, 2), { immediate: 3 }),
    ],
    ['a message of a batch', (one) => batchFrames(one.qp, one.region, [one.message(dataOf(8, 2))])],
  ])('P1-11: %s behind a store that the medium refuses is not told', (_, frames) => {
    const one = new MessageCard()
    one.receive(2000)
    const { psn } = one.qp
    one.card.nvdimm.refuseWrites(slotOffset(one.region, 2, 0) / LINE_BYTES)
    const store = writeFrames(one.qp, one.area, 0, dataOf(8, 1))
    expect(lines(one.card.serve(...store, ...frames(one)), psn)).toEqual(['NAK 0x63 0'])
    expect(one.completions()).toEqual([])
    expect(one.card.pass(1000)).toEqual([])
    expect(one.completions()).toEqual([])
  })

  test.each(['bytes', 'record'])('P1-11: nor an immediate whose own %s it refuses', (what) => {
    const one = new MessageCard()
    one.receive(64)
    const { psn } = one.qp
    const [place, length] = what === 'bytes' ? [one.area, 8] : [one.region, 64]
    // The area lies behind both copies of the records.
    const end = slotOffset(one.region, 2, 0) / LINE_BYTES
    for (let line = DATA_AT / LINE_BYTES; line <= end; line++) one.card.nvdimm.refuseWrites(line)
    const frames = writeFrames(one.qp, place, 0, dataOf(length, 1), { immediate: 3 })
    expect(lines(one.card.serve(...frames), psn)).toEqual(['NAK 0x63 0'])
    expect(one.completions()).toEqual([])
  })

  test('a SEND that found no receive has not taken that of a message, nor the other way', () => {
    const one = new MessageCard()
    const { qp } = one
    const frames = sendFrames(qp, dataOf(30, 1))
    const { psn } = qp
    qp.psn = psn - frames.length
    expect(one.card.serve(...frames)[0]!.syndrome & 0x60).toBe(0x20)
    expect(play(one, [one.message(dataOf(40, 2))]).said).toBe('NO_RECEIVE')
    one.receive(64)
    expect(play(one, [one.message(dataOf(40, 2))]).said).toBe('durable')
    const [nak] = one.card.serve(...sendFrames(qp, dataOf(30, 3)))
    expect(nak!.syndrome & 0x60).toBe(0x20)
    expect(one.messages()).toEqual([told(0, 2)])
  })

  test('memory that was taken back: the queue pair ends, and nothing of it is written', () => {
    const one = new MessageCard()
    one.receive(64)
    one.host.must(mad.METHOD_SET, mad.ATTRIBUTE_DEREGISTER, (body) => {
      putU32(body, mad.DEREGISTER_LKEY, one.lkey)
    })
    const sent = send(one, notice(one), { condition: IN_ORDER })
    expect(statuses(sent)).toEqual([])
    expect(sent.at(-1)!.syndrome).toBe(0x63)
    expect(one.found(4)).toEqual(dataOf(64, 2))
    expect(one.host.bytes.slice(one.buffer, one.buffer + 64)).toEqual(new Uint8Array(64))
    one.host.run()
    expect(one.completions()).toEqual([])
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  })

  test('as many messages as a batch has: one burst tells all, few as are fetched ahead', () => {
    for (const condition of [INDEPENDENT, IN_ORDER]) {
      const one = new MessageCard(null, { entries: 512 })
      one.receive(40, 256)
      const members = upTo(256).map((i) => one.message(dataOf(i % 40, i)))
      const said = play(one, members, { condition })
      expect(said).toMatchObject({ durable: upTo(256), said: 'durable' })
      const got = one.messages()
      expect(got.map(({ operation }) => operation - BASE)).toEqual(upTo(256))
      expect(got.map(({ data }) => data)).toEqual(upTo(256).map((i) => dataOf(i % 40, i)))
    }
  })
})

test('S1-M9: batches of many queue pairs that end in one burst: each message is told', () => {
  const one = new MessageCard()
  const lasts: Uint8Array[] = []
  for (const i of upTo(20)) {
    const qp = i === 0 ? one.qp : one.connect()
    one.receive(8, POSTED_RECEIVES)
    const members = upTo(POSTED_RECEIVES).map((n) => one.message(dataOf(8, 10 * i + n)))
    const frames = batchFrames(qp, one.region, members, { operation: BASE + 10 * i })
    one.card.serve(...frames.slice(0, -1))
    lasts.push(frames.at(-1)!)
  }
  const said = statuses(one.card.serve(...lasts))
  expect(said.map(({ durable }) => durable)).toEqual(Array(20).fill(upTo(POSTED_RECEIVES)))
  const wanted = upTo(20).flatMap((i) =>
    upTo(POSTED_RECEIVES).map((n) => told(10 * i + n, 10 * i + n, BASE, 8)),
  )
  expect(one.messages()).toEqual(wanted)
})

/** WRITEs of as many peers, of whose pages every other one is away: each is an event by itself. */
function asking(host: OnDemandHost, writers: number): { frames: Uint8Array[]; events: number } {
  const region = host.registerOnDemand({ length: writers * PAGES_AT_ONCE * PAGE_BYTES })
  const there = (PAGES_AT_ONCE - 1) / 2
  const frames = upTo(writers).map((i) => {
    const first = i * PAGES_AT_ONCE
    const pages = host.frames(there).map((frame, n): [number, number] => [first + 2 * n + 1, frame])
    expect(host.map(region, pages)).toBe('PASS')
    const data = dataOf((PAGES_AT_ONCE - 1) * PAGE_BYTES, i)
    return host.writes(host.card.connect(), region, first * PAGE_BYTES + 8, data)[0]!
  })
  return { frames, events: writers * (there + 1) }
}

test.each([16, 20, 26])(
  'S1-M9: it is told behind as many events as the WRITEs of %i peers bring in its burst',
  (writers) => {
    const host = new OnDemandHost()
    const { frames, events } = asking(host, writers)
    const receiveCompletions = host.createCq(64)
    const fields = { type: TYPE_CONNECTED, receiveCompletions, client: 7, units: 64 }
    const pair = host.createQp(host.createCq(64), fields)
    const peer = { number: 0x100, mtu: 4096, peerPsn: 0x1000, psn: 0x2000, incarnation: 0 }
    const ready = readying(pair.send, { ...peer, ...stationOf(1) })
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, ready)
    const local = host.allocate(4096, 4096)
    const lkey = host.register(local, 4096)
    for (let i = 0; i < 4; i++) {
      const receive = { opcode: WQE_RECEIVE, local: local + 64 * i, length: 64, lkey }
      host.post(pair.receive, elementOf(receive))
    }
    host.ring(pair.receive)
    host.run()
    host.wanted()
    const qp = { number: pair.number, peer: 0x100, mtu: 4096, psn: 0x1000, operation: 0 }
    const members = upTo(4).map((i) => messageMember(dataOf(64, i)))
    const sent = host.card.serve(...frames, ...batchFrames(qp, { rkey: 0 }, members))
    expect(statuses(sent)).toMatchObject([{ said: 'durable', durable: upTo(4) }])
    host.ram.link.arrive()
    expect(host.wanted()).toHaveLength(events)
    const cqes = host.poll(receiveCompletions)
    expect(cqes.map(({ status, operation }) => [status, operation])).toEqual(
      upTo(4).map((i) => [WC_SUCCESS, 1 + i]),
    )
    const told = host.bytes.slice(local, local + 4 * 64)
    expect(told).toEqual(Uint8Array.from(upTo(4).flatMap((i) => [...dataOf(64, i)])))
  },
)

describe('S1-M9: forms of a message', () => {
  const WRONG: [string, (member: BatchRecord) => BatchRecord][] = [
    ['slot addressing', (one) => ({ ...one, pweth: { ...one.pweth, slotAddressed: true } })],
    ['a key', (one) => ({ ...one, reth: { ...one.reth, rkey: 1 } })],
    ['an address', (one) => ({ ...one, reth: { ...one.reth, vaLow: 1 } })],
    ['an upper address', (one) => ({ ...one, reth: { ...one.reth, vaHigh: 1 } })],
    ['a guard', (one) => ({ ...one, guard: 5 })],
    ['carried copies', (one) => ({ ...one, pweth: { ...one.pweth, carried: true } })],
  ]

  test.each(WRONG)('%s: NAK, and nothing was taken', (_, wrong) => {
    const one = new MessageCard()
    one.receive(64)
    const sent = send(one, [one.record(3, dataOf(64, 1)), wrong(one.message(dataOf(40, 2)))])
    expect(sent.at(-1)!.syndrome).toBe(0x61)
    expect(one.card.counter('PERSIST_HEADER')).toBe(1)
    expect(one.found(3)).toEqual(new Uint8Array(64))
    expect(one.messages()).toEqual([])
  })

  test('one of no batch is a NAK', () => {
    const one = new MessageCard()
    one.receive(64)
    const alone = { ...one.message(dataOf(40, 2)) }
    const none = { ...{ batch: false, oneStatus: false, lastOfBatch: false }, batchId: 0 }
    const sent = send(one, [{ ...alone, pweth: { ...alone.pweth, ...none } }])
    expect(sent.at(-1)!.syndrome).toBe(0x61)
    expect(one.messages()).toEqual([])
  })

  test('more copies than one, or more bytes than a record has, are refused', () => {
    for (const [wait, length, said] of [
      [2, 8, 'LEVEL'],
      [1, RECORD_BYTES_MAX + 1, 'RECORD_LENGTH'],
    ] as const) {
      const one = new MessageCard(null, { mtu: 4096 })
      one.receive(100_000)
      expect(play(one, [{ ...one.message(dataOf(length, 1)), wait }])).toMatchObject({ said })
      expect(one.messages()).toEqual([])
    }
  })

  test('who expects a sequence of it expects 0', () => {
    const one = new MessageCard()
    one.receive(64)
    const member = { ...one.message(dataOf(40, 1)), expect: 1n }
    const { expect: condition } = CONDITIONS
    expect(play(one, [member], { condition }).said).toBe('CONDITION')
    expect(one.messages()).toEqual([])
  })
})

describe('S1-M9: a cut of the power at every command', () => {
  const LISTS: readonly [string, (one: MessageCard) => BatchRecord[]][] = [
    ['two records, a message', (one) => notice(one)],
    ['a message, a record', (one) => [one.message(dataOf(40, 1)), one.record(3, dataOf(64, 2))]],
    [
      'a record, a message, bytes, a message',
      (one) => [
        one.record(3, dataOf(64, 1)),
        one.message(dataOf(40, 2)),
        one.bytes(0, dataOf(30, 3)),
        one.message(dataOf(40, 4)),
      ],
    ],
  ]

  /** Indexes of the members that are there after the cut; messages aside. */
  function stored(one: MessageCard, members: readonly BatchRecord[]): number[] {
    return upTo(members.length).filter((i) => {
      const { slot, data, reth, pweth } = members[i]!
      if (pweth?.message === true) return false
      const found =
        pweth === undefined
          ? one.found(slot)
          : one.card.read(one.card.connect(), one.area, 0, 0, data.length, reth!.vaLow)
      return found !== null && Buffer.compare(found, data) === 0
    })
  }

  interface Cut {
    /** Indexes that the host was told of, and that a status called durable, before the cut. */
    readonly told: number[]
    readonly said: number[]
    readonly stored: number[]
    /** Of the retry: what its status said, and what the host was told of by it. */
    readonly again: Status
    readonly toldAgain: number[]
  }

  function indexesOf(messages: readonly Message[]): number[] {
    return messages.map(({ operation }) => operation - BASE)
  }

  /** One cut; null if the batch was over before. */
  function cutAt(
    list: (one: MessageCard) => BatchRecord[],
    condition: number,
    command: number,
    choice: CutChoice,
  ): Cut | null {
    const one = new MessageCard()
    one.receive(64, 2)
    one.card.machine.armCut(command)
    const sent = send(one, list(one), { condition })
    const isOver = !one.card.machine.dead
    const said = statuses(sent).flatMap(({ durable }) => durable)
    const told = indexesOf(one.messages())
    const next = one.after(choice)
    const there = stored(next, list(next))
    next.receive(64, 2)
    const marked = list(next).map((member) => ({
      ...member,
      pweth: { ...member.pweth, repetition: true },
    }))
    const again = play(next, marked, { condition })
    const toldAgain = indexesOf(next.messages())
    next.card.release()
    one.card.release()
    return isOver ? null : { told, said, stored: there, again, toldAgain }
  }

  const EACH = CASES.flatMap((one) => LISTS.map(([what, list], n) => ({ ...one, what, list, n })))
  const isThorough = ({ condition, n }: (typeof EACH)[number]): boolean =>
    n > 0 && condition !== IN_ORDER

  for (const { rows, options } of divided(EACH, isThorough)) {
    const title = '$name, $what: told is stored, called durable is told, and none is missed'
    test.each(rows)(title, options, ({ condition, list }) => everyCut(list, condition))
  }

  function everyCut(list: (one: MessageCard) => BatchRecord[], condition: number): void {
    const random = new Random(SEED)
    const isMessage = list(new MessageCard()).map(({ pweth }) => pweth?.message === true)
    const count = isMessage.length
    const met = { told: 0, twice: 0, said: 0 }
    for (let command = 0, isOver = false; !isOver; command++) {
      const drawn = CUT_STRATEGIES[command % CUT_STRATEGIES.length]!
      for (const strategy of ['none', 'all', drawn] as const) {
        const found = cutAt(list, condition, command, { random, strategy })
        if (found === null) {
          isOver = true
          break
        }
        const name = `SEED=${SEED} command ${command}, ${strategy}`
        for (const i of found.told) {
          const before = upTo(i).filter((at) => !isMessage[at])
          if (condition === IN_ORDER)
            expect(found.stored, name).toEqual(expect.arrayContaining(before))
        }
        for (const i of found.said) {
          expect(isMessage[i] ? found.told : found.stored, name).toContain(i)
          expect(found.toldAgain, name).not.toContain(i)
        }
        // In order nothing is stored behind a message that is not known, and so told again.
        for (const i of condition === IN_ORDER ? found.toldAgain : []) {
          expect(
            found.stored.filter((at) => at > i),
            name,
          ).toEqual([])
        }
        expect(found.again, name).toMatchObject({ durable: upTo(count), said: 'durable' })
        const all = [...found.told, ...found.toldAgain]
        const messages = upTo(count).filter((i) => isMessage[i])
        expect([...new Set(all)].sort(), name).toEqual(messages)
        // In order no more than one can come twice: each is known before the next is told.
        if (condition === IN_ORDER) expect(all.length, name).toBeLessThan(messages.length + 2)
        met.told += found.told.length > 0 ? 1 : 0
        met.twice += all.length > messages.length ? 1 : 0
        met.said += found.said.length > 0 ? 1 : 0
      }
    }
    expect(met.told).toBeGreaterThan(0)
    expect(met.twice).toBeGreaterThan(0)
    expect(met.said).toBeGreaterThan(0)
  }
})

describe('S1-M9: a part that closes', () => {
  test('a fence that fails behind a message leaves it in doubt, and not refused', () => {
    for (const condition of [INDEPENDENT, IN_ORDER]) {
      for (let fence = 1; fence <= 4; fence++) {
        const one = new MessageCard()
        one.receive(64, 2)
        failFence(one.card, fence)
        const said = play(one, [one.message(dataOf(40, 1))], { condition })
        const isKnown = fence > 3
        expect(said, `${fence}`).toMatchObject({
          ...{ durable: isKnown ? [0] : [], said: isKnown ? 'durable' : 'IN_DOUBT' },
        })
        expect(one.messages()).toEqual([told(0, 1, BASE)])
        const again = [{ ...one.message(dataOf(40, 1)) }]
        const marked = again.map((member) => ({
          ...member,
          pweth: { ...member.pweth, repetition: true },
        }))
        const { said: why } = play(one, marked, { condition })
        expect(why, `${fence}`).toBe(isKnown ? 'durable' : 'IN_DOUBT')
        expect(one.messages()).toEqual([])
        // The next start knows it, or it is told once more.
        const next = one.after({ random: new Random(SEED), strategy: 'all' })
        next.receive(64)
        expect(play(next, marked, { condition }).said).toBe('durable')
        expect(next.messages().length).toBeLessThanOrEqual(isKnown ? 0 : 1)
      }
    }
  })

  test('a part that is not armed, or has forgotten, tells of nothing', () => {
    const one = new MessageCard()
    one.receive(64, 2)
    one.card.nvdimm.armed = false
    expect(play(one, [one.message(dataOf(40, 1))]).said).toBe('NOT_ARMED')
    one.card.nvdimm.armed = true
    one.card.nvdimm.dirtyShutdowns += 1
    const next = new MessageCard(one.card.nvdimm)
    next.receive(64)
    const again = { ...next.message(dataOf(40, 1)) }
    const marked = { ...again, pweth: { ...again.pweth, repetition: true } }
    expect(play(next, [marked]).said).toBe('OPERATION_FORGOTTEN')
    expect([...one.messages(), ...next.messages()]).toEqual([])
  })

  test('a line of the table that the medium refuses: the message is told, and known', () => {
    const one = new MessageCard()
    one.receive(64, 2)
    play(one, [one.record(0, dataOf(64, 9))], { operation: 400, id: 9 })
    one.card.nvdimm.refuseWrites(OPERATIONS_AT / 64)
    one.card.nvdimm.refuseWrites(OPERATIONS_AT / 64 + 1)
    expect(play(one, [one.message(dataOf(40, 1))]).said).toBe('durable')
    expect(play(one, [one.message(dataOf(40, 1))], {}, one.connect()).said).toBe('durable')
    expect(one.messages()).toEqual([told(0, 1)])
  })
})
