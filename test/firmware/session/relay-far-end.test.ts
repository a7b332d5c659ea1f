/**
 * A relaying card, whole, and in place of the other card an end that has its keys and says whatever
 * it likes, in the session and in the clear: R1-S13, X-3.
 */

import { describe, expect, test } from 'vitest'
import { COOKIE } from '../../../firmware/board/fault.ts'
import { putU16, putU32, u16 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { answerTo, describesRegion, FarEnd, grantsPair } from '../../support/sessions/far-end.ts'
import { changed, payloadAt } from '../../support/sessions/guest.ts'
import { InsideWire, isDatagram, turnedRound } from '../../support/sessions/relay-inside.ts'

/** What the end answers to a datagram; null is what it would answer if it meant well. */
type Answers = (far: FarEnd, datagram: Uint8Array, well: () => Uint8Array) => Uint8Array[]

/** What an end that means well answers. */
function wellMeant(far: FarEnd, datagram: Uint8Array): Uint8Array {
  if (!mad.isSealed(datagram, 0)) return far.second(datagram)
  const asked = far.opened(datagram)
  return far.sealed(asked, asked.attribute === mad.ATTRIBUTE_OPEN ? describesRegion : grantsPair)
}

/** The relaying card at that end. */
function relayingTo(answers: Answers): InsideWire {
  const wire = new InsideWire()
  const far = new FarEnd()
  wire.toFar = (frame) => {
    if (!isDatagram(frame)) return []
    const at = payloadAt(frame)
    const datagram = frame.slice(at, at + mad.MAD_BYTES)
    const said = answers(far, datagram, () => wellMeant(far, datagram))
    const frames = said.map((one) => changed(turnedRound(frame), (payload) => payload.set(one)))
    wire.serve(...frames)
    return []
  }
  return wire
}

/** Card B says it all itself again, and the relay is made. */
function isMade(wire: InsideWire): void {
  wire.toFar = (frame) => [frame]
  expect(wire.enter()).toBe('PASS')
}

function attributeOf(datagram: Uint8Array): number {
  return u16(datagram, mad.MAD_ATTRIBUTE)
}

test('one that means well is connected to', () => {
  const wire = relayingTo((_far, _datagram, well) => [well()])
  expect(wire.enter()).toBe('PASS')
})

describe('what it grants is no queue pair', () => {
  test.each<[string, (body: Uint8Array) => void]>([
    ['without tags', (body) => (body[mad.CONNECT_TAGS] = 0)],
    ['with a path MTU that is none', (body) => putU16(body, mad.CONNECT_GRANTED_MTU, 1000)],
    ['with number 0', (body) => putU32(body, mad.CONNECT_QP, 0)],
    ['with the number of management', (body) => putU32(body, mad.CONNECT_QP, 1)],
    ['with a PSN of 25 bits', (body) => putU32(body, mad.CONNECT_FIRST_PSN, 1 << 24)],
    ['with no depth to send', (body) => putU16(body, mad.CONNECT_SEND_DEPTH, 0)],
    ['with no depth to receive', (body) => putU16(body, mad.CONNECT_RECEIVE_DEPTH, 0)],
  ])('%s', (_, spoil) => {
    const wire = relayingTo((far, datagram, well) => {
      if (attributeOf(datagram) !== mad.ATTRIBUTE_CONNECT) return [well()]
      return [
        far.sealed(far.opened(datagram), (body) => {
          grantsPair(body)
          spoil(body)
        }),
      ]
    })
    expect(wire.enter()).toBe('ATTACH_FAILED')
    isMade(wire)
  })
})

describe('what nobody has sealed in this session is counted, and changes nothing', () => {
  test('an answer to the first message that is sealed', () => {
    const wire = relayingTo((_far, datagram, well) => {
      if (attributeOf(datagram) !== mad.ATTRIBUTE_HANDSHAKE) return [well()]
      const sealed = answerTo(datagram, 0)
      sealed[mad.MAD_VERSION] = mad.SEALED_VERSION
      return [sealed, well()]
    })
    expect(wire.enter()).toBe('PASS')
    expect(wire.hostA.counter('SEAL_BROKEN')).toBe(1)
  })

  test('an answer of another session', () => {
    let others = 0
    const wire = relayingTo((far, datagram, well) => {
      if (attributeOf(datagram) === mad.ATTRIBUTE_HANDSHAKE) return [well()]
      const asked = far.opened(datagram)
      const { seal } = far
      others += 1
      far.seal = { ...seal!, id: seal!.id + 1 }
      const other = far.sealed(asked, describesRegion)
      far.seal = seal
      const fill = asked.attribute === mad.ATTRIBUTE_OPEN ? describesRegion : grantsPair
      return [other, far.sealed(asked, fill)]
    })
    expect(wire.enter()).toBe('PASS')
    expect(others).toBe(2)
    expect(wire.hostA.counter('SEAL_BROKEN')).toBe(2)
  })
})

test('a cookie is shown at once, once: who sends more makes the card send no more', () => {
  const firsts: Uint8Array[] = []
  const wire = relayingTo((_far, datagram, well) => {
    if (attributeOf(datagram) !== mad.ATTRIBUTE_HANDSHAKE) return [well()]
    firsts.push(datagram)
    if (firsts.length > 1) return []
    const cookie = answerTo(datagram, COOKIE, (body) => body.fill(7, 0, 16))
    return [cookie, cookie, cookie]
  })
  expect(wire.enter()).toBe('CONNECTING')
  // What was shown, and what was repeated for want of an answer.
  const shown = firsts.filter((one) => one[mad.MAD_BODY + mad.HANDSHAKE_COOKIE] === 7)
  expect(shown).toHaveLength(firsts.length - 1)
  const repeated = firsts.length - 2
  expect(repeated).toBeLessThanOrEqual(4)
  isMade(wire)
})
