/** Queue pairs with tags: their keys, and what is looked at before them (R1-S15). */

import { describe, expect, test } from 'vitest'
import { RC_READ_REQUEST, RC_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { dataOf, persistAcks, persistFrames } from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { guests } from '../../support/sessions/closed-card.ts'
import { BTH_AT } from '../../support/sessions/path.ts'
import { connectTagged, tagged } from '../../support/sessions/tagged.ts'
import { frameOf } from '../../support/wire/frames.ts'

/** The machine of the writer. */
const WRITER_AT = 12

describe('a queue pair with tags', () => {
  test('R1-S15: is told again before it was used, and is another one behind that', () => {
    const { card, writer, admin } = guests()
    const region = admin.openAsIs('records')
    const first = connectTagged(writer)
    const again = connectTagged(writer)
    expect(again.qp.number).toBe(first.qp.number)
    expect(again.keys).toEqual(first.keys)
    const frames = persistFrames(first.qp, region, 0, dataOf(64, 1))
    const sent = frames.map((frame) => tagged(sentBy(frame, WRITER_AT), first.tags))
    expect(persistAcks(card.serve(...sent)).at(-1)!.status).toBe(0)
    // Who has started again counts its packets from 0: no key may see a counter twice.
    const behind = connectTagged(writer)
    expect(behind.qp.number).not.toBe(first.qp.number)
    expect(behind.keys).not.toEqual(first.keys)
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
