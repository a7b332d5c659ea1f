/**
 * Answers that meet a request which waits for its own, and batches of which nothing is heard: a
 * scripted peer, as in requester-kinds.test.ts.
 */

import { describe, expect, test } from 'vitest'
import { takeResponse } from '../../../firmware/transport/completer.ts'
import {
  ASSOCIATE,
  joinBatch,
  post,
  READ,
  SEND,
  WRITE_PERSIST,
  withdraw,
} from '../../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../../firmware/transport/sender.ts'
import { writeAeth } from '../../../firmware/wire/aeth.ts'
import { blankBseth, writeBseth } from '../../../firmware/wire/block-size.ts'
import { BLOCK_SIZE_ANSWER } from '../../../firmware/wire/opcode.ts'
import { blankPweth } from '../../../firmware/wire/persist.ts'
import {
  ACK,
  answer,
  ask,
  type Peer,
  peer,
  persist,
  psns,
  readData,
  response,
} from '../../support/peers/requester-peer.ts'

const NOT_READY = 0x20 | 12

/** The answer to an ASSOCIATE. */
function sized(p: Peer, psn: number): void {
  const [bytes, packet] = response(BLOCK_SIZE_ANSWER, psn)
  writeAeth(bytes, packet.row!.aethAt, { syndrome: ACK, msn: 1 })
  writeBseth(bytes, packet.row!.bsethAt, { ...blankBseth(), blockSizeLog2: 12 })
  takeResponse(p.q, bytes, packet, 0)
  pump(p.q, 0)
}

describe('behind a READ that is not answered', () => {
  test('P2-25: a receiver that is not ready is believed when the READ has its answer', () => {
    const p = peer()
    ask(p, READ, 1)
    ask(p, SEND, 2)
    answer(p, 101, NOT_READY)
    expect(p.q.counts).toMatchObject({ rnrNaks: 1, impliedNaks: 1 })
    expect(psns(p), 'the READ was lost: both again, at once').toEqual([100, 101, 100, 101])
    readData(p, 0x10, 100, 8)
    answer(p, 101, NOT_READY)
    expect(nextTimerUs(p.q)).toBe(640)
    expect(p.sent).toHaveLength(4)
    tick(p.q, 640)
    answer(p, 101)
    expect(p.story.filter((line) => line.startsWith('SUCCESS'))).toEqual(['SUCCESS 1', 'SUCCESS 2'])
  })

  test('P5-7: the size of blocks is not agreed by an answer that came past it', () => {
    const p = peer()
    ask(p, READ, 1)
    ask(p, ASSOCIATE, 2)
    sized(p, 101)
    expect(p.story).toEqual([])
    expect(p.q.counts.impliedNaks).toBe(1)
    expect(psns(p)).toEqual([100, 101, 100, 101])
    readData(p, 0x10, 100, 8)
    sized(p, 101)
    expect(p.story.filter((line) => line.startsWith('SUCCESS'))).toEqual(['SUCCESS 1', 'SUCCESS 2'])
    expect(p.results.get(2)!.size.blockSizeLog2).toBe(12)
  })
})

/** Posts the record of that index of a batch of four. */
function member(p: Peer, index: number, lastOfBatch: boolean): void {
  const request = post(p.q, WRITE_PERSIST, index, 64, 0, 1000 + index)!
  joinBatch(request, {
    ...{ ...blankPweth(), batch: true, oneStatus: true, batchId: 5 },
    ...{ batchIndex: index, batchCount: 4, lastOfBatch },
  })
  pump(p.q, 0)
}

describe('a batch that goes on in a later burst', () => {
  test('P4-8: asks for its status by the last record that it has, alone', () => {
    const p = peer({ persistTimeoutUs: 5000 })
    for (const index of [0, 1, 2]) member(p, index, false)
    answer(p, 102)
    const before = p.sent.length
    for (let i = 0; i < 3; i++) tick(p.q, nextTimerUs(p.q))
    const again = p.sent.slice(before)
    expect(again.length).toBeGreaterThan(0)
    expect(new Set(again.map(({ tag }) => tag))).toEqual(new Set([2]))
  })
})

describe('a request that no packet can be made of', () => {
  const kinds: readonly [what: string, send: (p: Peer, tag: number) => void][] = [
    ['a READ, at a depth of one', (p, tag) => ask(p, READ, tag)],
    ['a SEND', (p, tag) => ask(p, SEND, tag)],
    ['a record', (p, tag) => persist(p, tag)],
    ['the end of a burst', (p, tag) => member(p, tag, true)],
  ]
  for (const [what, send] of kinds) {
    for (const before of [0, 1]) {
      test(`R31-2: ${what}, behind ${before}: taken out, the next has its number`, () => {
        const p = peer({ readDepth: 1 })
        if (before === 1) ask(p, SEND, 9)
        p.unmade.add(0)
        expect(() => send(p, 0)).toThrow('0 is not made')
        const waits = nextTimerUs(p.q)
        withdraw(p.q, before, 1)
        expect(nextTimerUs(p.q)).toBe(before === 1 ? waits : Infinity)
        send(p, 1)
        expect(p.sent.at(-1)).toMatchObject({
          tag: 1,
          psn: 100 + before,
          ack: what !== kinds[0]![0],
        })
        expect(p.q.counts.packets).toBe(1 + before)
      })
    }
  }

  test('R31-2: what stands behind it moves up, and goes out under its number', () => {
    const p = peer({ window: 1 })
    ask(p, SEND, 9)
    for (const tag of [0, 1, 2]) ask(p, SEND, tag, 600)
    p.unmade.add(0)
    expect(() => answer(p, 100)).toThrow('0 is not made')
    withdraw(p.q, 1, 2)
    for (let psn = 101; psn <= 103; psn++) {
      pump(p.q, 0)
      expect(p.sent.at(-1)).toMatchObject({ tag: 2, psn })
      answer(p, psn)
    }
    expect(p.story.filter((line) => line.startsWith('SUCCESS'))).toEqual(['SUCCESS 9', 'SUCCESS 2'])
  })
})
