/** Queue pairs with tags: their keys, and what is looked at before them (R1-S15). */

import { describe, expect, test } from 'vitest'
import { dataOf, persistAcks, persistFrames } from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { guests } from '../../support/sessions/closed-card.ts'
import { connectTagged, tagged } from '../../support/sessions/tagged.ts'

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
