/**
 * The requester and batches, against a scripted peer: the one status is put together here byte by
 * byte, and so is everything that only looks like one.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { takeResponse } from '../../../firmware/transport/completer.ts'
import {
  joinBatch,
  PERSIST_QUERY,
  post,
  READ,
  unresolved,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../../firmware/transport/sender.ts'
import { writeAeth } from '../../../firmware/wire/aeth.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import { PERSIST_ACK } from '../../../firmware/wire/opcode.ts'
import { blankPweth } from '../../../firmware/wire/persist.ts'
import {
  blankPaeth,
  isInBitmap,
  PAETH_BYTES,
  type Paeth,
} from '../../../firmware/wire/persist-ack.ts'
import {
  ACK,
  answer,
  durable,
  executed,
  INCARNATION,
  type Peer,
  peer,
  persist,
  psns,
  read,
  readData,
  response,
} from '../../support/peers/requester-peer.ts'
import { writePaeth } from '../../support/wire/headers.ts'

const MEDIA = 0x81
const NOT_TOLD = 0x84
const FIELDS = 0x87

interface Burst {
  id?: number
  count?: number
  /** Operation of the record with index 0. */
  base?: bigint
  /** Which of the batch go, all unless given. */
  indexes?: number[]
  length?: number
}

/** Posts the records of a burst, tagged by their index; the last one ends it. */
function batch(p: Peer, burst: Burst, nowUs = 0): void {
  const { id = 5, count = burst.indexes?.length ?? 4, base = 1000n, length = 64 } = burst
  const indexes = burst.indexes ?? Array.from({ length: count }, (_, i) => i)
  for (const index of indexes) {
    const operation = base + BigInt(index)
    const low = Number(operation & 0xffffffffn)
    const request = post(p.q, WRITE_PERSIST, index, length, Number(operation >> 32n), low)!
    joinBatch(request, {
      ...{ ...blankPweth(), batch: true, oneStatus: true, batchId: id, batchIndex: index },
      ...{ batchCount: count, lastOfBatch: index === indexes.at(-1) },
    })
  }
  pump(p.q, nowUs)
}

/** The one status at `psn`: those indexes are durable. */
function status(
  p: Peer,
  psn: number,
  indexes: readonly number[],
  paeth: Partial<Paeth> & { words?: number } = {},
  nowUs = 0,
): void {
  const { words = 0, ...fields } = paeth
  const batchCount = fields.batchCount ?? 4
  const bitmapWords = fields.bitmapWords ?? (batchCount + 31) >> 5
  const [bytes, packet] = response(PERSIST_ACK, psn, 4 * (bitmapWords - words))
  const at = packet.row!.paethAt
  writeAeth(bytes, packet.row!.aethAt, { syndrome: ACK, msn: 1 })
  writePaeth(bytes, at, {
    ...{ ...blankPaeth(), incarnation: INCARNATION, mechanism: 1, batch: true, batchId: 5 },
    ...{ firstPsn: psn, lastPsn: psn, copies: 2, operationLow: 1000, records: indexes.length },
    ...{ batchCount, bitmapWords, ...fields },
  })
  packet.payloadAt = at + PAETH_BYTES
  const bits = [0, 0, 0, 0, 0, 0, 0, 0]
  for (const index of indexes) bits[index >> 5]! |= 0x80000000 >>> (index & 31)
  for (const [i, word] of bits.entries()) putU32(bytes, packet.payloadAt + 4 * i, word >>> 0)
  takeResponse(p.q, bytes, packet, nowUs)
  pump(p.q, nowUs)
}

/** How the records ended, by index: "3 SUCCESS", "4 0x81". */
function ends(p: Peer): string[] {
  return p.story
    .filter((line) => !line.startsWith('received'))
    .map((line) => line.replace(/^GENERAL_ERR (\d+) /, '$1 ').replace(/^([A-Z_]+) (\d+)$/, '$2 $1'))
}

const firstPsn = 100

describe('one status for a batch', () => {
  test('P4-8, P4-1: only the last record asks for an answer, and one status ends all', () => {
    const p = peer()
    batch(p, {})
    expect(p.sent.map((sent) => sent.ack)).toEqual([false, false, false, true])
    expect(ends(p)).toEqual([])
    status(p, 103, [0, 1, 2, 3], { all: true })
    expect(ends(p)).toEqual(['0 SUCCESS', '1 SUCCESS', '2 SUCCESS', '3 SUCCESS'])
    expect(p.q.counts).toMatchObject({ persistAcks: 1, ghosts: 0, packets: 4 })
    expect(p.results.get(2)).toMatchObject({ copies: 2, mechanism: 1, refusal: 0 })
    expect(unresolved(p.q)).toBe(0)
    expect(nextTimerUs(p.q)).toBe(Infinity)
  })

  test('received is not durable: acknowledgements resolve no record of a batch', () => {
    const p = peer()
    batch(p, {})
    answer(p, 103)
    answer(p, 103)
    expect(p.story).toEqual(['received 0', 'received 1', 'received 2', 'received 3'])
    expect(unresolved(p.q)).toBe(4)
  })

  for (let count = 1; count <= 8; count++) {
    test(`D-10, X-7: batches of ${count}, every set of durable records`, () => {
      for (let set = 0; set < 1 << count; set++) {
        const p = peer()
        batch(p, { count })
        const good = Array.from({ length: count }, (_, i) => i).filter((i) => set & (1 << i))
        const isAll = good.length === count
        status(p, firstPsn + count - 1, good, { batchCount: count, status: isAll ? 0 : MEDIA })
        const bad = Array.from({ length: count }, (_, i) => i).filter((i) => !good.includes(i))
        const expected = Array.from({ length: count }, (_, i) => {
          if (good.includes(i)) return `${i} SUCCESS`
          return `${i} 0x${(i === bad[0] ? MEDIA : NOT_TOLD).toString(16)}`
        })
        expect(ends(p)).toEqual(expected)
        expect(unresolved(p.q)).toBe(0)
      }
    })
  }

  test('D-10: 256 records of several packets, with one bitmap of eight words', () => {
    const p = peer({ depth: 300 })
    batch(p, { count: 256, length: 700 })
    while (p.q.unackedPsn !== p.q.nextPsn) answer(p, p.sent.at(-1)!.psn)
    expect(p.sent.length).toBe(3 * 256)
    const good = Array.from({ length: 256 }, (_, i) => i).filter((i) => i % 37 !== 5)
    status(p, firstPsn + 3 * 256 - 1, good, { batchCount: 256, status: MEDIA })
    expect(ends(p).filter((line) => line.endsWith('SUCCESS')).length).toBe(good.length)
    expect(ends(p)[5]).toBe('5 0x81')
    expect(ends(p)[42]).toBe('42 0x84')
    expect(p.q.counts.ghosts).toBe(0)
  })

  test('operation ids pass from one word into the next inside of a batch', () => {
    const p = peer()
    batch(p, { base: 0x1_ffff_fffen })
    status(p, 103, [0, 1, 2], { operationHigh: 1, operationLow: 0xfffffffe, status: MEDIA })
    expect(ends(p)).toEqual(['0 SUCCESS', '1 SUCCESS', '2 SUCCESS', '3 0x81'])
  })
})

test('X-3: records that were durable before are so, though their burst was refused', () => {
  const p = peer()
  batch(p, { indexes: [1, 2], count: 4 })
  status(p, 101, [1, 2], { status: MEDIA })
  expect(ends(p)).toEqual(['1 SUCCESS', '2 SUCCESS'])
})

describe('what is no status of the batch', () => {
  const forged: [string, Partial<Paeth> & { words?: number }, number[]?][] = [
    ['another batch id', { batchId: 6 }],
    ['another count', { batchCount: 5 }],
    ['another first operation', { operationLow: 1001 }],
    ['another high half of it', { operationHigh: 1 }],
    ['another incarnation', { incarnation: INCARNATION + 1 }],
    ['something refused, and no reason', {}, [0, 1, 3]],
    ['fewer bits than records', { bitmapWords: 0 }],
    ['a bitmap that is cut short', { words: 1 }],
    ['more words than a bitmap has', { bitmapWords: 9 }],
    ['the flag of an answer to a query', { query: true }],
    ['the range of another place', { firstPsn: 90, lastPsn: 99 }],
    ['a place that was never sent', { firstPsn: 104, lastPsn: 104 }],
    ['the flags of an answer for one record', { batch: false, all: true }],
    ['what an answer for its last record has', { batch: false, all: true, operationLow: 1003 }],
  ]
  for (const [what, paeth, indexes] of forged) {
    test(`D-5, D-6: a PERSIST_ACK with ${what} resolves nothing`, () => {
      const p = peer()
      batch(p, {})
      status(p, 103, indexes ?? [0, 1, 2, 3], paeth)
      expect(ends(p)).toEqual([])
      expect(p.q.counts).toMatchObject({ ghosts: 1, persistAcks: 0 })
      status(p, 103, [0, 1, 2, 3])
      expect(ends(p).length).toBe(4)
    })
  }

  test('a second copy of the status is a ghost, also for the records that were sent again', () => {
    const p = peer()
    batch(p, {})
    status(p, 103, [0], { status: MEDIA })
    batch(p, { count: 4, indexes: [1, 2, 3] })
    status(p, 103, [0], { status: MEDIA })
    expect(p.q.counts.ghosts).toBe(1)
    expect(ends(p)).toEqual(['0 SUCCESS', '1 0x81', '2 0x84', '3 0x84'])
    status(p, 106, [0, 1, 2, 3], { all: true })
    expect(ends(p).slice(4)).toEqual(['1 SUCCESS', '2 SUCCESS', '3 SUCCESS'])
  })

  test('a range of ordinary records says nothing about the members between them', () => {
    const p = peer()
    persist(p, 50)
    batch(p, {})
    persist(p, 51)
    durable(p, { firstPsn: 100, lastPsn: 105, operationLow: 51, records: 2 })
    expect(ends(p)).toEqual(['50 SUCCESS', '51 SUCCESS'])
    status(p, 104, [0, 1, 2, 3])
    expect(ends(p).length).toBe(6)
  })

  test('a status acknowledges what stands before it, but no READ without its data', () => {
    const p = peer()
    read(p, 60, 10)
    batch(p, {})
    status(p, 104, [0, 1, 2, 3])
    expect(p.q.unackedPsn).toBe(100)
    expect(p.q.counts.impliedNaks).toBe(1)
    readData(p, 0x10, 100, 10)
    expect(ends(p)).toContain('60 SUCCESS')
    expect(unresolved(p.q)).toBe(0)
    expect(p.q.unackedPsn).toBe(105)
  })
})

describe('P4-9, P4-10: what was not received is sent again', () => {
  for (let count = 1; count <= 8; count++) {
    test(`batches of ${count}: failure at k, one burst of the rest in its order`, () => {
      for (let k = 0; k < count; k++) {
        const p = peer()
        batch(p, { count })
        const good = Array.from({ length: k }, (_, i) => i)
        status(p, firstPsn + count - 1, good, { batchCount: count, status: MEDIA })
        const rest = Array.from({ length: count - k }, (_, i) => k + i)
        batch(p, { count, indexes: rest })
        const psn = firstPsn + count + rest.length - 1
        expect(p.sent.slice(count).map(({ tag }) => tag)).toEqual(rest)
        status(p, psn, [...good, ...rest], { batchCount: count, all: true })
        expect(ends(p).slice(count)).toEqual(rest.map((i) => `${i} SUCCESS`))
        expect(p.q.counts).toMatchObject({ persistAcks: 2, ghosts: 0 })
      }
    })
  }

  test('a status in the middle speaks for what stands before it, and the next for the rest', () => {
    const p = peer()
    batch(p, {})
    answer(p, 101)
    status(p, 101, [], { status: 0x88 })
    expect(ends(p)).toEqual(['0 0x88', '1 0x84'])
    status(p, 103, [2], { status: FIELDS })
    expect(ends(p).slice(2)).toEqual(['2 SUCCESS', '3 0x87'])
  })
})

describe('P4-12: a query about a batch', () => {
  /** Asks about batch 5 behind a burst of it. */
  function asked(): { p: Peer; durableOf: () => number[] } {
    const p = peer()
    batch(p, {})
    post(p.q, PERSIST_QUERY, 80, 0, 0, 0)!.batchId = 5
    pump(p.q, 0)
    const durableOf = (): number[] => [0, 1, 2, 3].filter((i) => isInBitmap(p.q.bitmap, i))
    return { p, durableOf }
  }

  test('is answered by its bitmap, and by the first refusal', () => {
    const { p, durableOf } = asked()
    status(p, 103, [0, 2], { status: MEDIA })
    status(p, 104, [0, 2], { status: MEDIA, query: true })
    expect(ends(p).at(-1)).toBe('SUCCESS 80 0x81')
    expect(durableOf()).toEqual([0, 2])
  })

  test('"all" needs no bitmap, and of a batch that is not known nothing is', () => {
    const one = asked()
    status(one.p, 104, [], { query: true, all: true, bitmapWords: 0 })
    expect(one.durableOf()).toEqual([0, 1, 2, 3])
    const other = asked()
    other.p.q.bitmap.fill(0xffffffff)
    status(other.p, 104, [], { query: true, batch: false, bitmapWords: 0, status: 2 })
    expect(ends(other.p)).toEqual(['SUCCESS 80 0x2'])
    expect(other.durableOf()).toEqual([])
  })

  test('D-6: an answer about another batch, or none, is a ghost', () => {
    for (const paeth of [{ batchId: 6 }, { batch: false }, { bitmapWords: 0 }, { words: 1 }]) {
      const { p } = asked()
      status(p, 104, [0], { query: true, status: MEDIA, ...paeth })
      expect(ends(p)).toEqual([])
      expect(p.q.counts.ghosts).toBe(1)
    }
  })
})

describe('a status that does not come', () => {
  test('P4-8: is asked for by the last record alone, under its own PSN', () => {
    const p = peer({ persistTimeoutUs: 1000 })
    batch(p, { length: 600 })
    answer(p, 111)
    expect(nextTimerUs(p.q)).toBe(1000)
    tick(p.q, 1000)
    expect(p.sent.slice(12)).toEqual(p.sent.slice(9, 12))
    expect(p.q.counts.persistRepeats).toBe(1)
    status(p, 111, [0, 1, 2, 3], { all: true })
    expect(nextTimerUs(p.q)).toBe(Infinity)
  })

  test('ends in RESP_TIMEOUT_ERR when nobody answers any more', () => {
    const p = peer({ persistTimeoutUs: 1000, persistRetryCount: 2 })
    batch(p, {})
    answer(p, 103)
    for (let i = 0; i < 3; i++) tick(p.q, nextTimerUs(p.q))
    expect(ends(p)).toEqual([
      ...['0 WR_FLUSH_ERR', '1 WR_FLUSH_ERR', '2 WR_FLUSH_ERR'],
      '3 RESP_TIMEOUT_ERR',
    ])
    expect(p.sent.length).toBe(4 + 2)
  })

  test('X-3: packets that were lost go again under their own PSNs', () => {
    const p = peer()
    batch(p, {})
    answer(p, 101, 0x60)
    expect(psns(p)).toEqual([100, 101, 102, 103, 101, 102, 103])
    status(p, 103, [0, 1, 2, 3])
    expect(ends(p).length).toBe(4)
  })
})

describe('a batch among other requests', () => {
  test('the next burst begins when the one before has its status; it holds up nothing else', () => {
    const p = peer()
    persist(p, 50)
    batch(p, { id: 5 })
    persist(p, 51)
    batch(p, { id: 6, base: 2000n })
    persist(p, 52)
    expect(psns(p)).toEqual([100, 101, 102, 103, 104, 105])
    durable(p, { firstPsn: 100, lastPsn: 105, operationLow: 51, records: 2 })
    expect(psns(p).length).toBe(6)
    status(p, 104, [0, 1, 2, 3])
    expect(psns(p).slice(6)).toEqual([106, 107, 108, 109, 110])
    status(p, 109, [0, 1], { batchId: 6, operationLow: 2000, status: MEDIA })
    expect(unresolved(p.q)).toBe(1)
  })

  test('a burst that was refused in the middle lets the next one begin only behind its end', () => {
    const p = peer()
    batch(p, { id: 5 })
    batch(p, { id: 6, base: 2000n })
    status(p, 101, [], { status: 0x88 })
    expect(psns(p).length).toBe(4)
    status(p, 103, [], { status: 0x88 })
    expect(psns(p).length).toBe(8)
  })

  test('the window and congestion hold for it as for anything', () => {
    const p = peer({ window: 4 })
    batch(p, { count: 10 })
    expect(p.sent.map((sent) => sent.ack)).toEqual([false, true, false, true])
    answer(p, 103)
    answer(p, 107)
    expect(psns(p).length).toBe(10)
    status(p, 109, [], { batchCount: 10, status: FIELDS })
    expect(ends(p).slice(0, 2)).toEqual(['0 0x87', '1 0x84'])
  })

  test('an ordinary record is not left so far behind that its answer is forgotten', () => {
    const p = peer({ window: 128, depth: 300 })
    persist(p, 400)
    batch(p, { count: 256, length: 512 })
    for (let i = 0; i < 20; i++) answer(p, psns(p).at(-1)!)
    expect(p.sent.at(-1)).toMatchObject({ psn: 354 })
    durable(p, { lastPsn: 100, operationLow: 400 })
    for (let i = 0; i < 20; i++) answer(p, psns(p).at(-1)!)
    expect(p.sent.at(-1)).toMatchObject({ tag: 255, index: 1 })
    persist(p, 401)
    expect(p.sent.at(-1)).toMatchObject({ tag: 401 })
  })

  test('what was over long ago holds nothing up, though its place is used again', () => {
    const p = peer({ depth: 4 })
    persist(p, 1)
    persist(p, 2)
    durable(p, { lastPsn: 100, operationLow: 1 })
    persist(p, 3)
    persist(p, 4)
    durable(p, { firstPsn: 101, lastPsn: 103, operationLow: 4, records: 3 })
    for (const tag of [5, 6, 7, 8]) post(p.q, WRITE_PERSIST, tag, 64, 0, tag)
    pump(p.q, 0)
    expect(psns(p)).toEqual([100, 101, 102, 103, 104, 105, 106, 107])
  })

  test('a fence waits for READs, and the ends of ordered requests stay their own', () => {
    const p = peer()
    batch(p, { count: 2 })
    post(p.q, READ, 70, 8, 0, 0)
    const fenced = post(p.q, WRITE_PERSIST, 71, 8, 0, 71)!
    fenced.fenced = true
    pump(p.q, 0)
    expect(psns(p)).toEqual([100, 101, 102])
    executed(p, 102)
    expect(p.q.counts.ghosts).toBe(1)
    readData(p, 0x10, 102, 8)
    expect(psns(p)).toEqual([100, 101, 102, 103])
  })
})

/** A responder of batches in few lines: takes packets in order, answers at the end of a burst. */
describe('loss, duplication and reordering', () => {
  for (let seed = 1; seed <= 40; seed++) {
    test(`X-3, P4-9: every record ends as the peer decided, seed ${seed}`, () => {
      const random = new Random(seed)
      const p = peer({ ackTimeoutCode: 4, persistTimeoutUs: 500, window: 16 })
      const bursts = 3
      let expectedPsn = firstPsn
      let taken = 0
      let answers: (() => void)[] = []
      const decided = new Map<string, boolean>()
      const results: string[] = []
      const last: { psn: number; good: number[]; id: number } = { psn: 0, good: [], id: 0 }
      const speak = (): void => {
        const { psn, good, id } = last
        const isAll = good.length === 6
        const fields = { batchCount: 6, batchId: id, operationLow: 1000 * id }
        status(p, psn, good, { ...fields, all: isAll, status: isAll ? 0 : MEDIA }, nowUs)
      }
      let nowUs = 0
      for (let id = 1; id <= bursts; id++) batch(p, { id, base: 1000n * BigInt(id), count: 6 })
      for (let step = 0; step < 4000 && unresolved(p.q) > 0; step++) {
        nowUs += 10
        for (; taken < p.sent.length; taken++) {
          const { psn, tag } = p.sent[taken]!
          if (random.chance(0.2)) continue
          for (let copies = random.chance(0.2) ? 2 : 1; copies > 0; copies--) {
            if (psn === expectedPsn) {
              expectedPsn++
              const id = 1 + Math.floor((psn - firstPsn) / 6)
              decided.set(`${id}.${tag}`, random.chance(0.8))
              if (tag === 5) {
                const good = [0, 1, 2, 3, 4, 5].filter((i) => decided.get(`${id}.${i}`))
                Object.assign(last, { psn, good, id })
                answers.push(speak)
              }
            } else if (psn < expectedPsn) {
              if (psn === last.psn) answers.push(speak)
              else answers.push(() => answer(p, expectedPsn - 1, ACK, nowUs))
            } else {
              const at = expectedPsn
              answers.push(() => answer(p, at, 0x60, nowUs))
            }
          }
        }
        const now = answers
        answers = []
        if (random.chance(0.3)) now.reverse()
        for (const speakUp of now) {
          const before = p.story.length
          if (random.chance(0.8)) speakUp()
          for (const line of p.story.slice(before)) if (!/^received/.test(line)) results.push(line)
        }
        tick(p.q, nowUs)
      }
      expect(unresolved(p.q)).toBe(0)
      expect(results.length).toBe(6 * bursts)
      for (const [i, line] of results.entries()) {
        const id = 1 + Math.floor(i / 6)
        const isGood = decided.get(`${id}.${i % 6}`)
        expect(line, `batch ${id}`).toMatch(isGood ? /^SUCCESS/ : /^GENERAL_ERR/)
      }
    })
  }
})
