/**
 * The requester against a scripted peer: every packet it sends is written down, every answer is put
 * together here byte by byte, and time moves only when the test says so.
 */

import { describe, expect, test } from 'vitest'
import { packetsOf, psnAdd, psnBehind } from '../../../firmware/transport/psn.ts'
import {
  flushRequester,
  hasRoom,
  post,
  READ,
  unresolved,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../../firmware/transport/sender.ts'
import type { Paeth } from '../../../firmware/wire/persist-ack.ts'
import {
  ACK,
  answer,
  durable,
  INCARNATION,
  type Peer,
  peer,
  persist,
  psns,
  read,
  readData,
  type Sent,
} from '../../support/peers/requester-peer.ts'

describe('a persist completes twice', () => {
  test('P2-28: received on the acknowledgement, durable on the PERSIST_ACK', () => {
    const p = peer()
    persist(p, 1)
    answer(p, 100)
    expect(p.story).toEqual(['received 1'])
    durable(p, { lastPsn: 100, operationLow: 1 })
    expect(p.story).toEqual(['received 1', 'SUCCESS 1'])
    expect(unresolved(p.q)).toBe(0)
  })

  test('G2-1, P2-26: a second acknowledgement of one PSN is not taken for durability', () => {
    const p = peer()
    persist(p, 1)
    answer(p, 100)
    answer(p, 100)
    expect(p.story).toEqual(['received 1'])
    expect(p.q.counts.ghosts).toBe(1)
  })

  test('a PERSIST_ACK alone does for both when the acknowledgement was lost', () => {
    const p = peer()
    persist(p, 1)
    durable(p, { lastPsn: 100, operationLow: 1 })
    expect(p.story).toEqual(['received 1', 'SUCCESS 1'])
  })

  test('P2-27: PERSIST_ACKs may come in any order', () => {
    const p = peer()
    for (const tag of [1, 2, 3]) persist(p, tag)
    answer(p, 102)
    durable(p, { lastPsn: 102, operationLow: 3 }, 102)
    durable(p, { lastPsn: 100, operationLow: 1 }, 102)
    durable(p, { lastPsn: 101, operationLow: 2 }, 102)
    expect(p.story.slice(3)).toEqual(['SUCCESS 3', 'SUCCESS 1', 'SUCCESS 2'])
  })

  test('one PERSIST_ACK with a range completes every record that ends in it', () => {
    const p = peer()
    persist(p, 1)
    persist(p, 2, 600)
    persist(p, 3)
    persist(p, 4)
    durable(p, { firstPsn: 101, lastPsn: 104, operationLow: 3, records: 2 })
    const story = ['received 1', 'received 2', 'received 3', 'SUCCESS 2', 'SUCCESS 3']
    expect(p.story).toEqual(story)
  })

  const forged: [string, Partial<Paeth>][] = [
    ['another operation id', { operationLow: 2 }],
    ['another high half of the operation id', { operationHigh: 1 }],
    ['another incarnation', { incarnation: INCARNATION + 1 }],
    ['no word that all of the range is durable', { all: false }],
    ['a PSN at which no record ends', { firstPsn: 100, lastPsn: 101 }],
  ]
  for (const [what, paeth] of forged) {
    test(`D-6: a PERSIST_ACK with ${what} makes nothing durable`, () => {
      const p = peer()
      persist(p, 1)
      persist(p, 2, 600)
      durable(p, { lastPsn: 100, operationLow: 1, ...paeth }, 100)
      expect(p.story.filter((line) => line.startsWith('SUCCESS'))).toEqual([])
      expect(p.q.counts.ghosts).toBe(1)
    })
  }

  test('X-7: a PERSIST_ACK with a status fails its record, and the queue lives on', () => {
    const p = peer()
    persist(p, 1)
    persist(p, 2)
    durable(p, { lastPsn: 100, operationLow: 1, status: 0x85, all: false })
    durable(p, { lastPsn: 101, operationLow: 2 })
    expect(p.story).toEqual(['received 1', 'GENERAL_ERR 1 0x85', 'received 2', 'SUCCESS 2'])
  })
})

describe('a lost PERSIST_ACK', () => {
  test('G2-3: is asked for again by the same packets under their own PSNs', () => {
    const p = peer({ persistTimeoutUs: 1000 })
    persist(p, 1, 600)
    answer(p, 102)
    expect(nextTimerUs(p.q)).toBe(1000)
    tick(p.q, 1000)
    expect(p.sent.slice(3)).toEqual(p.sent.slice(0, 3))
    durable(p, { lastPsn: 102, operationLow: 1 }, 102)
    expect(p.story).toEqual(['received 1', 'SUCCESS 1'])
    expect(nextTimerUs(p.q)).toBe(Infinity)
  })

  test('ends in RESP_TIMEOUT_ERR when nobody answers any more', () => {
    const p = peer({ persistTimeoutUs: 1000, persistRetryCount: 2 })
    persist(p, 1)
    persist(p, 2)
    answer(p, 101)
    for (let i = 0; i < 3; i++) tick(p.q, nextTimerUs(p.q))
    expect(p.story.slice(2)).toEqual(['RESP_TIMEOUT_ERR 1', 'WR_FLUSH_ERR 2'])
    expect(p.sent.length).toBe(2 + 2 * 2)
  })
})

describe('sending', () => {
  test('a message asks for an acknowledgement at its last packet, and every half window', () => {
    const p = peer({ window: 8 })
    persist(p, 1, 256 * 7)
    expect(p.sent.map((s) => s.ack)).toEqual([false, false, false, true, false, false, true])
  })

  test('no more than the window is on its way', () => {
    const p = peer({ window: 4 })
    for (let tag = 1; tag <= 6; tag++) persist(p, tag)
    expect(psns(p)).toEqual([100, 101, 102, 103])
    answer(p, 101)
    expect(psns(p)).toEqual([100, 101, 102, 103, 104, 105])
  })

  test('the queue says when it is full, and takes no more', () => {
    const p = peer({ depth: 2 })
    persist(p, 1)
    persist(p, 2)
    expect(hasRoom(p.q)).toBe(false)
    expect(post(p.q, WRITE_PERSIST, 3, 64, 0, 3)).toBe(null)
    durable(p, { lastPsn: 100, operationLow: 1 })
    expect(hasRoom(p.q)).toBe(true)
  })

  test('a READ takes as many PSNs as it has responses', () => {
    const p = peer()
    read(p, 1, 600)
    persist(p, 2)
    expect(psns(p)).toEqual([100, 103])
  })

  test('READs wait for the depth that the responder has', () => {
    const p = peer({ readDepth: 2 })
    for (const tag of [1, 2, 3]) read(p, tag, 10)
    expect(psns(p)).toEqual([100, 101])
    readData(p, 0x10, 100, 10)
    expect(psns(p)).toEqual([100, 101, 102])
  })

  test('a READ longer than the window goes out when nothing else is on its way', () => {
    const p = peer({ window: 4 })
    persist(p, 1)
    read(p, 2, 256 * 9)
    expect(psns(p)).toEqual([100])
    answer(p, 100)
    expect(psns(p)).toEqual([100, 101])
  })

  test('the oldest unresolved record is one that the responder still remembers', () => {
    const p = peer({ window: 64 })
    for (let tag = 1; tag <= 40; tag++) persist(p, tag, 256 * 16)
    for (let i = 0; i < 20; i++) answer(p, psns(p).at(-1)!)
    expect(p.sent.at(-1)).toMatchObject({ tag: 16 })
    durable(p, { lastPsn: 115, operationLow: 1 })
    expect(p.sent.at(-1)).toMatchObject({ tag: 17 })
  })

  test('PSNs wrap: 0xffffff is followed by 0', () => {
    const p = peer({ firstPsn: 0xfffffe })
    persist(p, 1, 1000)
    expect(psns(p)).toEqual([0xfffffe, 0xffffff, 0, 1])
    answer(p, 0xffffff)
    expect(p.q.unackedPsn).toBe(0)
    durable(p, { firstPsn: 1, lastPsn: 1, operationLow: 1 })
    expect(p.story).toEqual(['received 1', 'SUCCESS 1'])
  })
})

describe('go back N', () => {
  test('a timeout sends everything unacknowledged again, under the same PSNs', () => {
    const p = peer({ ackTimeoutCode: 14 })
    persist(p, 1)
    persist(p, 2)
    expect(nextTimerUs(p.q)).toBeCloseTo(67_108.864)
    tick(p.q, 67_000)
    expect(psns(p)).toEqual([100, 101])
    tick(p.q, 67_109)
    expect(psns(p)).toEqual([100, 101, 100, 101])
    expect(p.q.counts).toMatchObject({ timeouts: 1, retransmissions: 2 })
  })

  test('after the last try the oldest fails with RETRY_EXC_ERR and the rest is flushed', () => {
    const p = peer({ retryCount: 3 })
    persist(p, 1)
    persist(p, 2)
    for (let i = 0; i < 4; i++) tick(p.q, nextTimerUs(p.q))
    expect(p.story).toEqual(['RETRY_EXC_ERR 1', 'WR_FLUSH_ERR 2'])
    expect(p.sent.length).toBe(2 * 4)
    expect(nextTimerUs(p.q)).toBe(Infinity)
  })

  test('progress gives a full set of tries again', () => {
    const p = peer({ retryCount: 1 })
    persist(p, 1)
    persist(p, 2)
    tick(p.q, nextTimerUs(p.q))
    answer(p, 100)
    tick(p.q, nextTimerUs(p.q))
    expect(p.q.failed).toBe(false)
  })

  test('a sequence NAK acknowledges what lies below it, and resumes there', () => {
    const p = peer()
    for (const tag of [1, 2, 3]) persist(p, tag)
    answer(p, 101, 0x60)
    expect(p.story).toEqual(['received 1'])
    expect(psns(p)).toEqual([100, 101, 102, 101, 102])
  })

  test('a sequence NAK that the network doubles does not double the traffic', () => {
    const p = peer()
    for (const tag of [1, 2]) persist(p, tag)
    answer(p, 100, 0x60)
    answer(p, 100, 0x60)
    expect(psns(p)).toEqual([100, 101, 100, 101])
  })

  test('a message resumes in its middle, at the packet that is missing', () => {
    const p = peer()
    persist(p, 1, 1000)
    answer(p, 102, 0x60)
    expect(p.sent.slice(4)).toMatchObject([
      { tag: 1, index: 2, psn: 102, ack: false },
      { tag: 1, index: 3, psn: 103, ack: true },
    ])
  })

  test('an RNR NAK makes everything wait for the coded time', () => {
    const p = peer()
    persist(p, 1)
    answer(p, 100, 0x20 | 14)
    persist(p, 2)
    expect(psns(p)).toEqual([100])
    expect(nextTimerUs(p.q)).toBe(1280)
    tick(p.q, 1280)
    expect(psns(p)).toEqual([100, 100, 101])
  })

  test('who takes another copy while we wait ends the wait, and nothing times out', () => {
    for (const [code, more] of [
      [12, false],
      [0, true],
    ] as const) {
      const p = peer()
      persist(p, 1)
      if (more) persist(p, 2)
      answer(p, 100, 0x20 | code)
      answer(p, 100, ACK, 10)
      durable(p, { lastPsn: 100, operationLow: 1 }, 100, 20)
      expect(p.story).toEqual(['received 1', 'SUCCESS 1'])
      expect(nextTimerUs(p.q) < 100_000).toBe(more)
      if (!more) continue
      expect(psns(p).slice(-1)).toEqual([101])
      expect(p.sent.length).toBe(3)
    }
  })

  test('a fatal NAK of a record that was acknowledged ends the wait for its durability', () => {
    const p = peer()
    for (const tag of [1, 2, 3]) persist(p, tag)
    answer(p, 101)
    answer(p, 99, 0x63)
    expect(p.q.counts.ghosts).toBe(1)
    answer(p, 101, 0x63)
    const [one, two, three] = ['WR_FLUSH_ERR 1', 'REM_OP_ERR 2', 'WR_FLUSH_ERR 3']
    expect(p.story).toEqual(['received 1', 'received 2', one, two, three])
  })

  test('an RNR without end is borne for as long as the owner says, counted from progress', () => {
    const p = peer({ rnrPatienceUs: 1_000_000 })
    persist(p, 1)
    persist(p, 2)
    answer(p, 100, 0x2c, 0)
    answer(p, 100, ACK, 900_000)
    answer(p, 101, 0x2c, 1_000_000)
    answer(p, 101, 0x2c, 1_999_999)
    expect(p.story).toEqual(['received 1'])
    answer(p, 101, 0x2c, 2_000_000)
    expect(p.story).toEqual(['received 1', 'WR_FLUSH_ERR 1', 'RNR_RETRY_EXC_ERR 2'])
  })

  test('an endless RNR ends after the tries that were granted', () => {
    const p = peer({ rnrRetryCount: 2 })
    persist(p, 1)
    for (let i = 0; i < 3; i++) {
      answer(p, 100, 0x21, i * 1000)
      tick(p.q, (i + 1) * 1000)
    }
    expect(p.story).toEqual(['RNR_RETRY_EXC_ERR 1'])
  })
})

describe('READ', () => {
  test('completes with its last piece, every piece at its place', () => {
    const p = peer()
    read(p, 1, 600)
    readData(p, 0x0d, 100, 256)
    readData(p, 0x0e, 101, 256)
    readData(p, 0x0f, 102, 88)
    expect(p.story).toEqual(['data 1 @0+256', 'data 1 @256+256', 'data 1 @512+88', 'SUCCESS 1'])
  })

  test('a missing response is asked for again with the PSN, address and length advanced', () => {
    const p = peer()
    read(p, 1, 600)
    readData(p, 0x0d, 100, 256)
    readData(p, 0x0f, 102, 88)
    expect(p.sent[1]).toMatchObject({ tag: 1, index: 1, psn: 101 })
    readData(p, 0x0d, 101, 256)
    readData(p, 0x0f, 102, 88)
    expect(p.story.at(-1)).toBe('SUCCESS 1')
    expect(p.q.counts.impliedNaks).toBe(1)
  })

  test('an acknowledgement beyond a waiting READ never completes it without data', () => {
    const p = peer()
    read(p, 1, 10)
    persist(p, 2)
    answer(p, 101)
    expect(p.story).toEqual([])
    expect(psns(p)).toEqual([100, 101, 100, 101])
  })

  test('its response acknowledges what was sent before it', () => {
    const p = peer()
    persist(p, 1)
    read(p, 2, 10)
    readData(p, 0x10, 101, 10)
    expect(p.story).toEqual(['received 1', 'data 2 @0+10', 'SUCCESS 2'])
  })

  test('a piece of another length than asked for is ignored and counted', () => {
    const p = peer()
    read(p, 1, 10)
    readData(p, 0x10, 100, 11)
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(1)
  })
})

describe('refusals and ghosts', () => {
  const refusals: [number, string][] = [
    [0x61, 'REM_INV_REQ_ERR'],
    [0x62, 'REM_ACCESS_ERR'],
    [0x63, 'REM_OP_ERR'],
  ]
  for (const [syndrome, status] of refusals) {
    test(`X-7: NAK 0x${syndrome.toString(16)} is ${status} there, and a flush behind it`, () => {
      const p = peer()
      for (const tag of [1, 2, 3]) persist(p, tag)
      durable(p, { lastPsn: 100, operationLow: 1 })
      answer(p, 101, syndrome)
      expect(p.story.slice(2)).toEqual([`${status} 2`, 'WR_FLUSH_ERR 3'])
      expect(post(p.q, WRITE_PERSIST, 4, 64, 0, 4)).toBe(null)
    })
  }

  test('ghosts: answers to what was never sent, or long acknowledged, change nothing', () => {
    const p = peer()
    persist(p, 1)
    for (const psn of [99, 101, 102, 0x800000, 0xffffff]) {
      for (const syndrome of [ACK, 0x21, 0x60, 0x61, 0x62, 0x63]) answer(p, psn, syndrome)
    }
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(30)
    expect(psns(p)).toEqual([100])
  })

  test('reserved syndromes are ignored', () => {
    const p = peer()
    persist(p, 1)
    for (const syndrome of [0x40, 0x64, 0x7f, 0x80, 0x9f, 0xff]) answer(p, 100, syndrome)
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(6)
  })

  test('a flush ends everything that is open, once', () => {
    const p = peer()
    persist(p, 1)
    read(p, 2, 10)
    flushRequester(p.q)
    flushRequester(p.q)
    expect(p.story).toEqual(['WR_FLUSH_ERR 1', 'WR_FLUSH_ERR 2'])
  })
})

const LENGTHS = [0, 64, 700, 300, 10, 256, 512, 1, 1500, 64]
const lengthOf = (tag: number): number => LENGTHS[tag % LENGTHS.length]!
const isRead = (tag: number): boolean => tag % 3 === 0

/** A responder in a few lines: takes PSNs in order, executes once, remembers what is durable. */
class Responder {
  readonly executed: number[] = []
  /** Answers on their way back, oldest first. */
  readonly answers: (() => void)[] = []
  private readonly p: Peer
  private readonly random: () => number
  private expected: number
  private naked = false
  private readonly endsAt = new Map<number, number>()

  constructor(p: Peer, firstPsn: number, random: () => number) {
    this.p = p
    this.expected = firstPsn
    this.random = random
  }

  take(s: Sent, nowUs: number): void {
    const { p, expected } = this
    const isNew = s.psn === expected
    if (!isNew && !psnBehind(s.psn, expected)) {
      if (!this.naked) this.answers.push(() => answer(p, expected, 0x60, nowUs))
      this.naked = true
      return
    }
    if (isNew) this.naked = false
    if (isRead(s.tag)) this.serveRead(s, isNew)
    else this.servePersist(s, isNew, nowUs)
  }

  private serveRead(s: Sent, isNew: boolean): void {
    const length = lengthOf(s.tag)
    const count = packetsOf(length, 256)
    if (isNew) this.expected = psnAdd(s.psn, count - s.index)
    for (let i = s.index; i < count; i++) {
      const last = i === count - 1
      const psn = psnAdd(s.psn, i - s.index)
      const piece = last ? length - 256 * i : 256
      this.answers.push(() => readData(this.p, last ? 0x0f : 0x0d, psn, piece))
    }
  }

  private servePersist(s: Sent, isNew: boolean, nowUs: number): void {
    const { p } = this
    const last = s.index === packetsOf(lengthOf(s.tag), 256) - 1
    if (isNew) this.expected = psnAdd(this.expected, 1)
    if (isNew && last) {
      this.executed.push(s.tag)
      this.endsAt.set(s.tag, s.psn)
    }
    const newest = psnAdd(this.expected, -1)
    const end = this.endsAt.get(s.tag)
    if (this.random() < 0.7) this.answers.push(() => answer(p, newest, ACK, nowUs))
    if (end === undefined || !last) return
    this.answers.push(() => durable(p, { lastPsn: end, operationLow: s.tag }, newest))
  }
}

/** Thirty requests over a network that loses, doubles and reorders in both directions. */
function simulate(seed: number, firstPsn: number): { executed: number[]; p: Peer } {
  let state = seed
  const random = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    return (state >>> 8) / 2 ** 24
  }
  const p = peer({ firstPsn, window: 16, persistTimeoutUs: 20_000, ackTimeoutCode: 10 })
  const responder = new Responder(p, firstPsn, random)
  const { answers, executed } = responder
  for (let tag = 1; tag <= 30; tag++) {
    post(p.q, isRead(tag) ? READ : WRITE_PERSIST, tag, lengthOf(tag), 0, tag)
  }
  let nowUs = 0
  let at = 0
  pump(p.q, nowUs)
  for (let step = 0; step < 4000 && !p.q.failed && unresolved(p.q) > 0; step++) {
    while (at < p.sent.length) {
      const s = p.sent[at++]!
      if (random() < 0.15) continue
      responder.take(s, nowUs)
      if (random() < 0.1) responder.take(s, nowUs)
    }
    const count = Math.floor(random() * (answers.length + 1))
    for (let i = 0; i < count; i++) {
      const [one] = answers.splice(random() < 0.1 ? answers.length - 1 : 0, 1)
      if (random() >= 0.15) one!()
      if (random() < 0.1) one!()
    }
    nowUs += 1000
    tick(p.q, nowUs)
  }
  return { executed, p }
}

test('X-3: under loss, duplication and reordering every record is executed and told once', () => {
  let retransmissions = 0
  for (let seed = 1; seed <= 300; seed++) {
    const { executed, p } = simulate(seed, seed % 2 === 0 ? 100 : 0xfffff0)
    const writes = Array.from({ length: 30 }, (_, i) => i + 1).filter((tag) => !isRead(tag))
    const successes = p.story.filter((line) => line.startsWith('SUCCESS'))
    expect(executed, `seed ${seed}`).toEqual(writes)
    expect(successes.length, `seed ${seed}: ${p.story.slice(-3)}`).toBe(30)
    expect(new Set(successes).size, `seed ${seed}`).toBe(30)
    retransmissions += p.q.counts.retransmissions
  }
  expect(retransmissions).toBeGreaterThan(300 * 10)
})
