/** Queue pairs with tags: their keys, and what is looked at before them (R1-S15). */

import { describe, expect, test } from 'vitest'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RC_READ_REQUEST, RC_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { dataOf, persistAcks, persistFrames, type TestCard } from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { guests } from '../../support/sessions/closed-card.ts'
import { BTH_AT } from '../../support/sessions/path.ts'
import {
  asksForTags,
  connectTagged,
  type TaggedPair,
  tagged,
  taggedPair,
} from '../../support/sessions/tagged.ts'
import { frameOf } from '../../support/wire/frames.ts'

/** The machine of the writer. */
const WRITER_AT = 12

/** What the answer to those frames of that pair says; -1 where there is none. */
function statusOf(card: TestCard, frames: readonly Uint8Array[], { tags }: TaggedPair): number {
  const sent = frames.map((frame) => tagged(sentBy(frame, WRITER_AT), tags))
  return persistAcks(card.serve(...sent)).at(-1)?.status ?? -1
}

describe('a queue pair with tags', () => {
  test('R1-S15: is told again to the call that asked for it, before it was used and after', () => {
    const { card, writer, admin } = guests()
    const region = admin.openAsIs('records')
    const call = writer.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
      asksForTags()(body)
      putU32(body, mad.CONNECT_CLIENT_ID_HIGH, writer.tag)
    })
    const connect = (): TaggedPair => {
      const { fault, body } = writer.answerOf(writer.serve(writer.sealed(call)))!
      expect(fault).toBe('PASS')
      return taggedPair(body, { peer: 0x555, mtu: 1024 })
    }
    const first = connect()
    const sent: TaggedPair[] = [first]
    for (let slot = 0; slot < 3; slot++) {
      sent.push(connect())
      const frames = persistFrames(first.qp, region, slot, dataOf(64, 1))
      expect(statusOf(card, frames, first)).toBe(0)
    }
    for (const { qp, keys } of sent) {
      expect(qp.number).toBe(first.qp.number)
      expect(keys).toEqual(first.keys)
    }
  })

  test.each([
    ['was not heard', false],
    ['was heard', true],
  ])(
    'R1-S15: has other keys for a client that comes again and %s, and the old one is over',
    (_, isHeard) => {
      const { card, writer, admin } = guests()
      const region = admin.openAsIs('records')
      const seen = new Set<string>()
      // More often than one source may have queue pairs.
      for (let i = 0; i < 2 * QUEUE_PAIRS; i++) {
        // Who has started again counts its packets from 0: no key may see a counter twice.
        const pair = connectTagged(writer)
        seen.add(Buffer.from(pair.keys).toString('hex'))
        if (!isHeard) continue
        expect(statusOf(card, persistFrames(pair.qp, region, 0, dataOf(64, i)), pair)).toBe(0)
      }
      expect(seen.size).toBe(2 * QUEUE_PAIRS)
      const [old, now] = [connectTagged(writer), connectTagged(writer)]
      expect(statusOf(card, persistFrames(old.qp, region, 1, dataOf(64, 1)), old)).toBe(-1)
      expect(statusOf(card, persistFrames(now.qp, region, 1, dataOf(64, 2)), now)).toBe(0)
    },
  )

  test('R1-S15: is over when another client of its peer has its number in the same place', () => {
    const { card, writer, admin } = guests()
    const region = admin.openAsIs('records')
    const [old, now] = [connectTagged(writer, { client: 7 }), connectTagged(writer, { client: 8 })]
    expect(now.qp.number).not.toBe(old.qp.number)
    expect(statusOf(card, persistFrames(old.qp, region, 1, dataOf(64, 1)), old)).toBe(-1)
    expect(statusOf(card, persistFrames(now.qp, region, 1, dataOf(64, 2)), now)).toBe(0)
  })

  test('R1-S15: takes no packet whose header lies in its trailer, by whomever it is made', () => {
    const { card, writer, admin } = guests()
    const region = admin.openAsIs('records')
    const { qp, tags } = connectTagged(writer)
    const frame = frameOf({ bth: { opcode: RC_SEND_ONLY, destQp: qp.number, psn: qp.psn } })
    // A READ with the bytes of its trailer in the place of the RETH.
    frame[BTH_AT] = RC_READ_REQUEST
    const before = admin.counter('FRAME_SHORT')
    expect(card.serve(tagged(sentBy(frame, WRITER_AT), tags))).toEqual([])
    expect(admin.counter('FRAME_SHORT')).toBe(before + 1)
    const good = persistFrames(qp, region, 0, dataOf(64, 1))
    const sent = good.map((one) => tagged(sentBy(one, WRITER_AT), tags))
    expect(persistAcks(card.serve(...sent)).at(-1)!.status).toBe(0)
  })

  test('R1-S15: has keys of its own, and none in the clear has any', () => {
    const { card, writer, admin } = guests()
    const seen = new Set<string>()
    for (const guest of [writer, admin]) {
      const { keys } = connectTagged(guest)
      for (const half of [keys.slice(0, 32), keys.slice(32)]) {
        seen.add(Buffer.from(half).toString('hex'))
      }
    }
    expect(seen.size).toBe(4)
    expect(seen.has('00'.repeat(32))).toBe(false)
    const { packets } = card.machine
    for (const key of seen)
      expect(Buffer.from(packets).includes(Buffer.from(key, 'hex'))).toBe(false)
  })
})
