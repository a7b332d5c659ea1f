/**
 * The requester's other operations against a scripted peer: what completes them, and what does not
 * (when packets are lost, doubled or late: requester-schedules.test.ts).
 */

import { describe, expect, test } from 'vitest'
import { requestOpcode } from '../../../firmware/transport/request-opcode.ts'
import {
  ATOMIC_WRITE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  hasRoom,
  isOrdered,
  PERSIST_QUERY,
  post,
  READ,
  type RequestKind,
  room,
  SEND,
  unresolved,
  WC_OPCODES,
  WRITE,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../../firmware/transport/sender.ts'
import { has, ONLY, OPCODES, PAYLOAD_FULL, REQUEST } from '../../../firmware/wire/opcode.ts'
import {
  answer,
  ask,
  congestion,
  durable,
  executed,
  original,
  type Peer,
  peer,
  psns,
  readData,
  told,
} from '../../support/peers/requester-peer.ts'
import { ends, KINDS } from '../../support/wire/request-kinds.ts'

const MESSAGES = KINDS.filter(([, kind]) => !isOrdered(kind) && kind !== WRITE_PERSIST)
const ORDERED = KINDS.filter(([, kind]) => isOrdered(kind))
/** Those that the responder's depth is for. */
const DEEP = ORDERED.filter(([, kind]) => kind !== PERSIST_QUERY)

/** Answers the ordered request of that kind at `psn` as the responder would. */
function respond(p: Peer, kind: RequestKind, psn: number, tag: number): void {
  if (kind === READ) readData(p, 0x10, psn, 8)
  else if (kind === FETCH_ADD || kind === COMPARE_SWAP) original(p, psn, 1, 2)
  else if (kind === PERSIST_QUERY) told(p, psn, { operationLow: tag })
  else executed(p, psn)
}

describe('a message', () => {
  test.each(MESSAGES)('%s completes when its last packet is acknowledged', (_, kind) => {
    const p = peer()
    ask(p, kind, 1, 600)
    ask(p, kind, 2)
    answer(p, 101)
    expect(p.story).toEqual([])
    answer(p, 102)
    expect(p.story).toEqual(['SUCCESS 1'])
    answer(p, 103)
    expect(p.story).toEqual(['SUCCESS 1', 'SUCCESS 2'])
    expect(unresolved(p.q)).toBe(0)
    expect(nextTimerUs(p.q)).toBe(Infinity)
  })

  test.each(MESSAGES)('%s resumes in its middle, at the packet that is missing', (_, kind) => {
    const p = peer()
    ask(p, kind, 1, 1000)
    answer(p, 102, 0x60)
    expect(p.sent.slice(4).map(({ index, psn, ack }) => [index, psn, ack])).toEqual([
      [2, 102, false],
      [3, 103, true],
    ])
  })

  test('of no bytes takes one PSN', () => {
    const p = peer()
    for (const tag of [1, 2, 3]) ask(p, SEND, tag, 0)
    expect(psns(p)).toEqual([100, 101, 102])
  })
})

describe('a plain WRITE into a region registered write-persist', () => {
  test('P2-5: learns from a PERSIST_ACK without operation id how it became durable', () => {
    const p = peer()
    ask(p, WRITE, 1)
    ask(p, WRITE, 2, 600)
    ask(p, SEND, 3)
    durable(p, { firstPsn: 100, lastPsn: 103, copies: 2, mechanism: 3 })
    expect(p.story).toEqual(['SUCCESS 1', 'SUCCESS 2'])
    expect(p.results.get(2)).toMatchObject({ copies: 2, mechanism: 3 })
    answer(p, 104)
    expect(p.results.get(3)).toMatchObject({ status: 'SUCCESS', copies: 0 })
  })

  test('D-13: is refused by one with a status', () => {
    const p = peer()
    ask(p, WRITE, 1)
    ask(p, WRITE, 2)
    durable(p, { lastPsn: 100, status: 0x85, all: false, copies: 0 })
    answer(p, 101)
    expect(p.story).toEqual(['GENERAL_ERR 1 0x85', 'SUCCESS 2'])
  })

  test('keeps the word until its PSN may be acknowledged, behind a READ that waits', () => {
    const p = peer()
    ask(p, READ, 1)
    ask(p, WRITE, 2)
    durable(p, { lastPsn: 101, mechanism: 2 }, 99)
    expect(p.story).toEqual([])
    respond(p, READ, 100, 1)
    answer(p, 101)
    expect(p.results.get(2)).toMatchObject({ copies: 2, mechanism: 2 })
  })

  test('G2-1: is not completed by one of another incarnation, or of another range', () => {
    const p = peer()
    ask(p, WRITE, 1)
    durable(p, { lastPsn: 100, incarnation: 8 })
    durable(p, { firstPsn: 98, lastPsn: 99 }, 100)
    durable(p, { firstPsn: 101, lastPsn: 102 }, 100)
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(3)
  })
})

describe('a request with a response of its own', () => {
  test.each(ORDERED)(
    '%s completes by that response, which acknowledges what is before',
    (_, kind) => {
      const p = peer()
      ask(p, WRITE, 1, 600)
      ask(p, kind, 2)
      respond(p, kind, 103, 2)
      expect(ends(p)).toEqual(['SUCCESS 1', 'SUCCESS 2'])
      expect(unresolved(p.q)).toBe(0)
      expect(nextTimerUs(p.q)).toBe(Infinity)
    },
  )

  test.each(ORDERED)(
    '%s is never completed by an acknowledgement, of its PSN or a later',
    (_, kind) => {
      for (const psn of [100, 101]) {
        const p = peer()
        ask(p, kind, 1)
        ask(p, WRITE, 2)
        answer(p, psn)
        expect(p.story).toEqual([])
        expect(p.q.counts.impliedNaks).toBe(1)
        expect(psns(p)).toEqual([100, 101, 100, 101])
      }
    },
  )

  for (const [name, kind] of ORDERED) {
    test.each(ORDERED)(`${name} is asked for again when %s behind it is answered`, (_, later) => {
      const p = peer()
      ask(p, kind, 1)
      ask(p, later, 2)
      respond(p, later, 101, 2)
      expect(p.story).toEqual([])
      expect(psns(p)).toEqual([100, 101, 100, 101])
      respond(p, kind, 100, 1)
      respond(p, later, 101, 2)
      expect(ends(p)).toEqual(['SUCCESS 1', 'SUCCESS 2'])
      expect(p.q.counts.impliedNaks).toBe(1)
    })
  }

  test.each(ORDERED)('%s is not asked for twice when the network doubles the sign', (_, kind) => {
    const p = peer()
    ask(p, kind, 1)
    ask(p, WRITE, 2)
    for (let i = 0; i < 3; i++) answer(p, 101)
    expect(psns(p)).toEqual([100, 101, 100, 101])
  })

  for (const [name, kind] of ORDERED) {
    const others = ORDERED.filter(([, other]) => {
      const alike = [FETCH_ADD, COMPARE_SWAP]
      if (alike.includes(kind as 8) && alike.includes(other as 8)) return false
      const empty = [FLUSH, ATOMIC_WRITE]
      return other !== kind && !(empty.includes(kind as 10) && empty.includes(other as 10))
    })
    test.each(others)(`${name} is not completed by the response that %s has`, (_, other) => {
      const p = peer()
      ask(p, kind, 1)
      respond(p, other, 100, 1)
      expect(p.story).toEqual([])
      expect(p.q.counts.ghosts).toBe(1)
      expect(psns(p)).toEqual([100])
    })
  }

  test('a FLUSH is not completed by a response with bytes, nor by one that is refused', () => {
    const p = peer()
    ask(p, FLUSH, 1)
    readData(p, 0x10, 100, 8)
    readData(p, 0x0f, 100, 0)
    readData(p, 0x10, 100, 0, 0, 0x62)
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(3)
  })

  test('an atomic brings the eight bytes that it found', () => {
    const p = peer()
    ask(p, FETCH_ADD, 1)
    ask(p, COMPARE_SWAP, 2)
    original(p, 100, 0xffffffff, 0xfffffffe)
    original(p, 101, 0, 7)
    expect(p.results.get(1)).toMatchObject({ resultHigh: 0xffffffff, resultLow: 0xfffffffe })
    expect(p.results.get(2)).toMatchObject({ resultHigh: 0, resultLow: 7 })
  })

  test('G2-3: a query tells of its operation, and of all before one that is cumulative', () => {
    const p = peer()
    for (const tag of [1, 2, 3]) ask(p, PERSIST_QUERY, tag)
    told(p, 100, { operationLow: 1, copies: 2, mechanism: 1 })
    told(p, 101, { operationLow: 2, status: 0x02 })
    told(p, 102, { operationLow: 9, operationHigh: 1, cumulative: true })
    expect(p.results.get(1)).toMatchObject({ status: 'SUCCESS', refusal: 0, copies: 2 })
    expect(p.results.get(2)).toMatchObject({ status: 'SUCCESS', refusal: 2, cumulative: false })
    const all = { status: 'SUCCESS', cumulative: true, resultHigh: 1, resultLow: 9 }
    expect(p.results.get(3)).toMatchObject(all)
  })

  test('D-6: a query is not answered about another operation, or by another incarnation', () => {
    const p = peer()
    ask(p, PERSIST_QUERY, 5)
    told(p, 100, { operationLow: 4 })
    told(p, 100, { operationLow: 5, incarnation: 8 })
    durable(p, { lastPsn: 100, operationLow: 5 })
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(3)
  })

  test.each(ORDERED)('%s is sent again under its PSN after a timeout', (_, kind) => {
    const p = peer({ retryCount: 2 })
    ask(p, WRITE, 1)
    ask(p, kind, 2)
    tick(p.q, nextTimerUs(p.q))
    expect(psns(p)).toEqual([100, 101, 100, 101])
    respond(p, kind, 101, 2)
    expect(ends(p)).toEqual(['SUCCESS 1', 'SUCCESS 2'])
  })

  test.each(ORDERED)('%s ends in RETRY_EXC_ERR when nobody answers', (_, kind) => {
    const p = peer({ retryCount: 7 })
    ask(p, kind, 1)
    ask(p, WRITE, 2)
    for (let i = 0; i < 8; i++) tick(p.q, nextTimerUs(p.q))
    expect(p.story).toEqual(['RETRY_EXC_ERR 1', 'WR_FLUSH_ERR 2'])
    expect(p.sent.length).toBe(2 * 8)
  })
})

describe('a record that is durable while something before it waits', () => {
  test('is not sent again: its bytes may be gone', () => {
    const p = peer()
    ask(p, READ, 1)
    ask(p, WRITE_PERSIST, 2, 600)
    ask(p, WRITE, 3)
    durable(p, { lastPsn: 103, operationLow: 2 }, 99)
    tick(p.q, nextTimerUs(p.q))
    expect(psns(p).slice(5)).toEqual([100, 104])
    readData(p, 0x10, 100, 8)
    answer(p, 104)
    expect(ends(p)).toEqual(['SUCCESS 2', 'SUCCESS 1', 'SUCCESS 3'])
    expect(unresolved(p.q)).toBe(0)
    expect(nextTimerUs(p.q)).toBe(Infinity)
  })

  test('needs no acknowledgement besides: who made it durable has it', () => {
    const p = peer()
    ask(p, READ, 1)
    ask(p, WRITE_PERSIST, 2, 600)
    durable(p, { lastPsn: 103, operationLow: 2 }, 99)
    readData(p, 0x10, 100, 8)
    expect(ends(p)).toEqual(['SUCCESS 2', 'SUCCESS 1'])
    expect(p.q.unackedPsn).toBe(104)
    expect(nextTimerUs(p.q)).toBe(Infinity)
  })
})

describe('what the responder refuses', () => {
  const NAKS: readonly [number, string][] = [
    [0x61, 'REM_INV_REQ_ERR'],
    [0x62, 'REM_ACCESS_ERR'],
    [0x63, 'REM_OP_ERR'],
  ]
  for (const [syndrome, status] of NAKS) {
    test.each(KINDS)(
      `X-7: %s fails with ${status}, and what is behind it is flushed`,
      (_, kind) => {
        const p = peer()
        ask(p, WRITE, 1)
        ask(p, kind, 2)
        ask(p, WRITE, 3)
        answer(p, 101, syndrome)
        expect(ends(p)).toEqual(['SUCCESS 1', `${status} 2`, 'WR_FLUSH_ERR 3'])
        expect(hasRoom(p.q)).toBe(false)
        expect(nextTimerUs(p.q)).toBe(Infinity)
      },
    )
  }

  test.each(KINDS)(
    'P2-25: %s waits when the responder is not ready, and is sent again',
    (_, kind) => {
      const p = peer()
      ask(p, WRITE, 1)
      ask(p, kind, 2)
      answer(p, 101, 0x20 | 12)
      expect(ends(p)).toEqual(['SUCCESS 1'])
      expect(nextTimerUs(p.q)).toBe(640)
      tick(p.q, 639)
      expect(psns(p)).toEqual([100, 101])
      tick(p.q, 640)
      expect(psns(p)).toEqual([100, 101, 101])
    },
  )

  test('RNR retry count 7 is without end, and every smaller one is a number of tries', () => {
    for (const rnrRetryCount of [0, 1, 6, 7]) {
      const p = peer({ rnrRetryCount })
      ask(p, SEND, 1)
      let nowUs = 0
      for (let i = 0; i < 50 && !p.q.failed; i++) {
        answer(p, 100, 0x21, nowUs)
        nowUs += 10
        tick(p.q, nowUs)
      }
      expect(p.sent.length).toBe(rnrRetryCount === 7 ? 51 : rnrRetryCount + 1)
      expect(p.story).toEqual(rnrRetryCount === 7 ? [] : ['RNR_RETRY_EXC_ERR 1'])
    }
  })

  test('the longest RNR timer is code 0: 655.36 ms; the others double in pairs from 20 µs', () => {
    for (let code = 0; code < 32; code++) {
      const p = peer()
      ask(p, SEND, 1)
      answer(p, 100, 0x20 | code)
      const doubled = (code & 1 ? 30 : 20) * 2 ** ((code >> 1) - 1)
      expect(nextTimerUs(p.q), `code ${code}`).toBe([655_360, 10][code] ?? doubled)
    }
  })
})

describe('the depth of the responder', () => {
  test.each(DEEP)('counts %s', (_, kind) => {
    const p = peer({ readDepth: 2 })
    for (const tag of [1, 2, 3]) ask(p, kind, tag)
    ask(p, WRITE, 4)
    expect(psns(p)).toEqual([100, 101])
    respond(p, kind, 100, 1)
    expect(psns(p)).toEqual([100, 101, 102, 103])
  })

  test('does not count a query, or a message', () => {
    const p = peer({ readDepth: 1 })
    for (const tag of [1, 2]) ask(p, PERSIST_QUERY, tag)
    for (const tag of [3, 4]) ask(p, WRITE, tag)
    ask(p, FLUSH, 5)
    expect(psns(p)).toEqual([100, 101, 102, 103, 104])
  })

  test('is free again after going back', () => {
    const p = peer({ readDepth: 2 })
    const kinds: RequestKind[] = [FLUSH, READ, FETCH_ADD]
    for (const [tag, kind] of kinds.entries()) ask(p, kind, tag)
    tick(p.q, nextTimerUs(p.q))
    expect(psns(p)).toEqual([100, 101, 100, 101])
    respond(p, FLUSH, 100, 0)
    respond(p, READ, 101, 1)
    respond(p, FETCH_ADD, 102, 2)
    expect(ends(p)).toEqual(['SUCCESS 0', 'SUCCESS 1', 'SUCCESS 2'])
    expect(p.q.readsOut).toBe(0)
  })
})

describe('a fence', () => {
  test.each(DEEP)('holds a request back until %s before it is answered', (_, kind) => {
    const p = peer()
    ask(p, kind, 1)
    ask(p, WRITE, 2, 600, true)
    ask(p, WRITE, 3)
    expect(psns(p)).toEqual([100])
    respond(p, kind, 100, 1)
    expect(psns(p)).toEqual([100, 101, 102, 103, 104])
  })

  test('holds after going back too', () => {
    const p = peer()
    ask(p, FLUSH, 1)
    ask(p, SEND, 2, 8, true)
    tick(p.q, nextTimerUs(p.q))
    expect(psns(p)).toEqual([100, 100])
    respond(p, FLUSH, 100, 1)
    expect(psns(p)).toEqual([100, 100, 101])
  })

  test('does not wait for messages, and holds nothing where nothing waits', () => {
    const p = peer()
    ask(p, WRITE, 1)
    ask(p, WRITE, 2, 8, true)
    expect(psns(p)).toEqual([100, 101])
  })
})

describe('overlap', () => {
  test('P2-27: the write of n + 1 leaves before record n is durable, or even received', () => {
    const p = peer()
    ask(p, WRITE_PERSIST, 1)
    ask(p, WRITE_PERSIST, 2)
    ask(p, WRITE, 3)
    expect(psns(p)).toEqual([100, 101, 102])
    durable(p, { lastPsn: 101, operationLow: 2 })
    expect(p.story).toEqual(['received 1', 'received 2', 'SUCCESS 2'])
    answer(p, 102)
    durable(p, { lastPsn: 100, operationLow: 1 }, 102)
    expect(p.story.slice(3)).toEqual(['SUCCESS 3', 'SUCCESS 1'])
  })
})

describe('a FLUSH towards Linux', () => {
  const linux = (): Peer => peer({ linuxPeer: true })

  test('is followed by a READ of no bytes, which nobody hears of', () => {
    const p = linux()
    ask(p, FLUSH, 1)
    ask(p, WRITE, 2)
    expect(p.sent.map(({ kind, length, psn }) => [kind, length, psn])).toEqual([
      [FLUSH, 0, 100],
      [READ, 0, 101],
      [WRITE, 8, 102],
    ])
    executed(p, 100)
    expect(p.story).toEqual(['SUCCESS 1'])
    executed(p, 101)
    answer(p, 102)
    expect(p.story).toEqual(['SUCCESS 1', 'SUCCESS 2'])
    expect(unresolved(p.q)).toBe(0)
  })

  test('is complete when only the READ behind it was answered: Linux executes in order', () => {
    const p = linux()
    ask(p, WRITE, 1)
    ask(p, FLUSH, 2)
    executed(p, 102)
    expect(p.story).toEqual(['SUCCESS 1', 'SUCCESS 2'])
    expect(psns(p)).toEqual([100, 101, 102])
  })

  test('is not complete by anything behind the READ', () => {
    const p = linux()
    ask(p, FLUSH, 1)
    ask(p, WRITE, 2)
    answer(p, 102)
    expect(p.story).toEqual([])
    expect(psns(p)).toEqual([100, 101, 102, 100, 101, 102])
    executed(p, 101)
    answer(p, 102)
    expect(p.story).toEqual(['SUCCESS 1', 'SUCCESS 2'])
  })

  test('is sent again with its READ when the request was lost', () => {
    const p = linux()
    ask(p, FLUSH, 1)
    answer(p, 100, 0x60)
    expect(psns(p)).toEqual([100, 101, 100, 101])
  })

  test('fails with the reason for which the READ behind it is silent', () => {
    const p = linux()
    ask(p, FLUSH, 1)
    for (let i = 0; i < 8; i++) tick(p.q, nextTimerUs(p.q))
    expect(p.story).toEqual(['RETRY_EXC_ERR 1'])
    const later = linux()
    ask(later, FLUSH, 1)
    ask(later, SEND, 2)
    executed(later, 100)
    for (let i = 0; i < 8; i++) tick(later.q, nextTimerUs(later.q))
    expect(later.story).toEqual(['SUCCESS 1', 'RETRY_EXC_ERR 2'])
  })

  test('needs two places of the queue', () => {
    const p = peer({ linuxPeer: true, depth: 5 })
    expect(room(p.q)).toBe(2)
    ask(p, FLUSH, 1)
    ask(p, FLUSH, 2)
    expect(hasRoom(p.q)).toBe(false)
    expect(post(p.q, WRITE, 3, 8, 0, 0)).toBe(null)
    for (const psn of [100, 101]) executed(p, psn)
    expect(room(p.q)).toBe(1)
  })
})

describe('congestion', () => {
  /** Sends 8 bytes over and over until a window is full; returns what is on its way. */
  function fill(p: Peer): number {
    while (hasRoom(p.q) && p.q.cursor === p.q.tail) ask(p, WRITE, 0)
    pump(p.q, 0)
    return (p.q.cursorPsn - p.q.unackedPsn) & 0xffffff
  }

  test('a notification closes half the window, except for one packet', () => {
    const p = peer({ window: 16 })
    const widths: number[] = []
    for (let i = 0; i < 6; i++) {
      congestion(p, i * 100)
      widths.push(p.q.openWindow)
    }
    expect(widths).toEqual([8, 4, 2, 1, 1, 1])
    expect(fill(p)).toBe(1)
    expect(p.q.counts).toMatchObject({ congestions: 6, windowCuts: 4, ghosts: 0 })
  })

  test('notifications of the same congestion close it once', () => {
    const p = peer({ window: 16 })
    for (const nowUs of [0, 10, 54]) congestion(p, nowUs)
    expect(p.q.openWindow).toBe(8)
    congestion(p, 55)
    expect(p.q.openWindow).toBe(4)
  })

  test('the window opens again by one for each window that is acknowledged', () => {
    const p = peer({ window: 8 })
    congestion(p)
    const widths: number[] = []
    for (let i = 0; i < 8; i++) {
      const out = fill(p)
      widths.push(out)
      answer(p, (p.q.unackedPsn + out - 1) & 0xffffff)
    }
    expect(widths).toEqual([4, 5, 6, 7, 8, 8, 8, 8])
  })

  test('narrowed under packets of which none asks, one more goes that does', () => {
    const p = peer({ window: 64 })
    ask(p, WRITE, 1, 256 * 21)
    ask(p, WRITE, 2, 256 * 100)
    const asking = p.sent.filter(({ ack }) => ack).map(({ psn }) => psn)
    expect([p.sent.length, ...asking]).toEqual([64, 120, 152])
    for (const nowUs of [0, 100, 200]) congestion(p, nowUs)
    answer(p, 120, 0x1f, 200)
    expect(p.sent.length).toBe(64)
    answer(p, 152, 0x1f, 200)
    expect(p.sent.slice(64).map(({ psn, ack }) => [psn, ack])).toEqual([[164, true]])
    answer(p, 164, 0x1f, 200)
    expect(p.sent.length).toBeGreaterThan(65)
  })
})

describe('the opcode of a packet', () => {
  test.each(KINDS)('of %s is a request that begins and ends where the message does', (_, kind) => {
    for (const count of [1, 2, 3, 5]) {
      const packets = kind === READ || !isOrdered(kind) ? count : 1
      for (let index = 0; index < packets; index++) {
        const row = OPCODES[requestOpcode(kind, index, packets)]!
        expect(has(row.properties, REQUEST)).toBe(true)
        if (kind === READ) {
          expect(has(row.properties, ONLY)).toBe(true)
          continue
        }
        expect([row.begins, row.ends]).toEqual([index === 0, index === packets - 1])
        if (!row.ends) expect(row.payload).toBe(PAYLOAD_FULL)
      }
    }
    expect(WC_OPCODES[kind]).toMatch(/^[A-Z_]+$/)
  })
})
