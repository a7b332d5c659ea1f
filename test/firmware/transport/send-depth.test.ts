/**
 * The requester keeps to the number of messages that was agreed with its peer (S1-M7).
 */

import { describe, expect, test } from 'vitest'
import * as kind from '../../../firmware/transport/requester.ts'
import { pump, tick } from '../../../firmware/transport/sender.ts'
import { answer, type Peer, peer } from '../../support/peers/requester-peer.ts'

/** RNR NAK, 0.64 ms; NAK of a PSN that is missing. */
const RNR = 0x2c
const MISSING = 0x60

const TAKING = [kind.WRITE_IMM, kind.SEND, kind.SEND_IMM, kind.SEND_INV] as const

function posted(p: Peer, kinds: readonly kind.RequestKind[], length = 8): void {
  kinds.forEach((one, tag) => {
    kind.post(p.q, one, tag, length, 0, 0)
  })
  pump(p.q, 0)
}

/** Tags of what was sent so far, each once. */
const tags = (p: Peer): number[] => [...new Set(p.sent.map(({ tag }) => tag))]

describe('S1-M7: messages on their way', () => {
  test.each(TAKING)(
    'S1-M7: of kind %i are as many as were agreed, and each ACK lets one out',
    (one) => {
      const p = peer({ sendDepth: 3 })
      posted(p, new Array(8).fill(one))
      expect(tags(p)).toEqual([0, 1, 2])
      answer(p, 100)
      expect(tags(p)).toEqual([0, 1, 2, 3])
      answer(p, 102)
      expect(tags(p)).toEqual([0, 1, 2, 3, 4, 5])
      for (let psn = 103; psn < 108; psn++) answer(p, psn)
      expect(p.story).toEqual(Array.from({ length: 8 }, (_, i) => `SUCCESS ${i}`))
      expect(p.q.sendsOut).toBe(0)
    },
  )

  test.each([0, undefined])('S1-M7: are as many as there are where %s was agreed', (sendDepth) => {
    const p = peer(sendDepth === undefined ? {} : { sendDepth })
    posted(p, new Array(20).fill(kind.SEND))
    expect(tags(p)).toHaveLength(20)
  })

  test('S1-M7: what takes no receive does not count, and keeps its order', () => {
    const p = peer({ sendDepth: 1 })
    posted(p, [kind.WRITE, kind.SEND, kind.WRITE, kind.WRITE_PERSIST, kind.SEND, kind.WRITE])
    expect(tags(p)).toEqual([0, 1, 2, 3])
    answer(p, 101)
    expect(tags(p)).toEqual([0, 1, 2, 3, 4, 5])
  })

  test('S1-M7: one of several packets counts once', () => {
    const p = peer({ sendDepth: 2 })
    posted(p, [kind.SEND, kind.SEND, kind.SEND], 700)
    expect(p.sent.map(({ tag, index }) => [tag, index])).toEqual([
      ...[0, 1, 2].map((index) => [0, index]),
      ...[0, 1, 2].map((index) => [1, index]),
    ])
    answer(p, 101)
    expect(tags(p), 'a part of the first is acknowledged').toEqual([0, 1])
    answer(p, 102)
    expect(tags(p)).toEqual([0, 1, 2])
  })

  for (const [name, ask] of [
    ['an RNR NAK', (p: Peer): void => answer(p, 101, RNR)],
    ['a NAK of a missing PSN', (p: Peer): void => answer(p, 101, MISSING)],
    ['a timeout', (p: Peer): void => answer(p, 100)],
  ] as const) {
    test(`S1-M7: after ${name} the same ones go again, and no more of them`, () => {
      const p = peer({ sendDepth: 3 })
      posted(p, new Array(9).fill(kind.SEND))
      ask(p)
      p.sent.length = 0
      tick(p.q, 100_000)
      expect(tags(p)[0]).toBe(1)
      for (let psn = 101; psn < 109; psn++) {
        expect(p.q.sendsOut).toBeLessThanOrEqual(3)
        answer(p, psn, undefined, 100_000)
      }
      expect(p.story.filter((line) => line.startsWith('SUCCESS'))).toHaveLength(9)
      expect(p.q.sendsOut).toBe(0)
    })
  }
})
