/**
 * Sealed calls and answers as somebody on the path has them in his hands (R1-S13): seen, repeated,
 * sent back, changed, held up. A call is executed once, and no answer is taken for another one.
 */

import { describe, expect, test } from 'vitest'
import * as primitives from '../../../boards/software/noise-primitives.ts'
import { SESSION_US } from '../../../firmware/board/limits.ts'
import { createSeal, openDatagram, sealDatagram } from '../../../firmware/session/sealed.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import { ICRC_BYTES } from '../../../firmware/wire/icrc.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { Sent, TestCard } from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { closedCard, guests } from '../../support/sessions/closed-card.ts'
import { changed, clearAnswer, Guest, payloadAt } from '../../support/sessions/guest.ts'
import { ADMIN, READER } from '../../support/sessions/peers.ts'
import { frameOf } from '../../support/wire/frames.ts'

/** A card, blank, and its admin in a session. */
function entered(): { card: TestCard; admin: Guest } {
  const { card } = closedCard()
  return { card, admin: new Guest(card, ADMIN).enter() }
}

/** What the guest has of it: the fault of the answer that opens, or nothing. */
const said = (guest: Guest, sent: readonly Sent[]): string =>
  guest.answerOf(sent)?.fault ?? 'nothing'

const statusFrame = (guest: Guest): Uint8Array =>
  guest.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)

/** A call with that counter, by whoever has the keys. */
function frameAt(guest: Guest, counter: number): Uint8Array {
  const { seal } = guest
  seal!.sent = counter
  return statusFrame(guest)
}

/** The counters are those; no key has sealed with them, and so nothing can be under them. */
function withCounter(frame: Uint8Array, high: number, low: number): Uint8Array {
  return changed(frame, (payload) => {
    putU32(payload, mad.MAD_BODY + mad.SEALED_COUNTER_HIGH, high)
    putU32(payload, mad.MAD_BODY + mad.SEALED_COUNTER_LOW, low)
  })
}

describe('a sealed call', () => {
  test('R1-S13: is executed once, and not answered when it comes again', () => {
    const { card, admin } = entered()
    const frame = admin.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    expect(said(admin, admin.serve(frame, frame, sentBy(frame, 66)))).toBe('PASS')
    expect(admin.serve(frame)).toEqual([])
    expect(card.serve(sentBy(frame, 66))).toEqual([])
    expect(admin.counter('SEAL_BROKEN')).toBe(4)
  })

  test('R1-S13: of one session is none of another one, nor after a restart', () => {
    const { card, admin } = entered()
    const frame = statusFrame(admin)
    const other = new Guest(card, READER, 3).enter()
    const another = new Guest(card, ADMIN, 4).enter()
    for (const { seal } of [other, another]) {
      const moved = changed(frame, (payload) => {
        putU32(payload, mad.MAD_BODY + mad.SEALED_SESSION, seal!.id)
      })
      expect(card.serve(moved)).toEqual([])
    }
    const again = closedCard(card.nvdimm).card
    expect(clearAnswer(again.serve(frame))?.fault).toBe('NO_SESSION')
    expect(said(admin, card.serve(frame))).toBe('PASS')
  })

  test('R1-S13: of which any byte is another one is not executed, and moves nothing', () => {
    const { card, admin } = entered()
    const frame = admin.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    const before = card.nvdimm.live.slice()
    for (let at = 0; at < mad.MAD_BYTES; at++) {
      for (const flip of [0x01, 0x80, 0xff]) {
        const sent = card.serve(changed(frame, (payload) => (payload[at]! ^= flip)))
        expect(said(admin, sent), `byte ${at}`).toMatch(/^(nothing|NO_SESSION)$/)
      }
    }
    expect(Buffer.compare(card.nvdimm.live, before)).toBe(0)
    expect(said(admin, card.serve(frame))).toBe('PASS')
  })

  test('R1-S13: which says that it is in the clear is none', () => {
    const { card, admin } = entered()
    const frame = changed(admin.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT), (payload) => {
      payload[mad.MAD_VERSION] = mad.MANAGEMENT_VERSION
    })
    expect(clearAnswer(card.serve(frame))?.fault).toBe('NO_SESSION')
  })

  test('R1-S13: that is shorter or longer is none', () => {
    const { card, admin } = entered()
    const frame = statusFrame(admin)
    const at = payloadAt(frame)
    const { bth, deth } = {
      bth: { opcode: 0x64, destQp: 1 },
      deth: { qkey: 0x80010000, sourceQp: 1 },
    }
    const payload = frame.slice(at, frame.length - ICRC_BYTES)
    for (const length of [0, 4, 32, 196, 212, 252, 255, 257, 260, 512]) {
      const resized = new Uint8Array(length)
      resized.set(payload.subarray(0, Math.min(length, payload.length)))
      expect(card.serve(frameOf({ bth, deth, payload: resized })), `${length}`).toEqual([])
    }
    expect(said(admin, card.serve(frameOf({ bth, deth, payload })))).toBe('PASS')
  })

  test('R1-S13: is taken 31 behind the newest one, and not 32, each once', () => {
    const { card, admin } = entered()
    expect(said(admin, card.serve(frameAt(admin, 100)))).toBe('PASS')
    for (const [behind, answer] of [
      [32, 'nothing'],
      [31, 'PASS'],
      [31, 'nothing'],
      [30, 'PASS'],
      [30, 'nothing'],
      [1, 'PASS'],
      [0, 'nothing'],
      [33, 'nothing'],
      [100, 'nothing'],
    ] as const) {
      expect(said(admin, card.serve(frameAt(admin, 100 - behind))), `${behind} behind`).toBe(answer)
    }
    // The window moves by one, by its length, and beyond it.
    for (const [counter, answer] of [
      [101, 'PASS'],
      [71, 'PASS'],
      [69, 'nothing'],
      [132, 'PASS'],
      [101, 'nothing'],
      [102, 'PASS'],
      [164, 'PASS'],
      [133, 'PASS'],
      [132, 'nothing'],
      [1000, 'PASS'],
      [999, 'PASS'],
      [969, 'PASS'],
      [968, 'nothing'],
    ] as const) {
      expect(said(admin, card.serve(frameAt(admin, counter))), `${counter}`).toBe(answer)
    }
  })

  test("R1-S13: far ahead is its sender's own; what no key has sealed there moves nothing", () => {
    const { card, admin } = entered()
    for (const counter of [2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 2 ** 52]) {
      expect(said(admin, card.serve(frameAt(admin, counter)))).toBe('PASS')
      expect(said(admin, card.serve(frameAt(admin, counter)))).toBe('nothing')
    }
    const frame = frameAt(admin, 2 ** 52 + 5)
    for (const [high, low] of [
      [2 ** 21 - 1, 0xffffffff],
      [2 ** 21, 0],
      [2 ** 31, 0],
      [0xffffffff, 0xffffffff],
      [0x80100000, 5],
      [0x00300000, 5],
    ] as const) {
      expect(card.serve(withCounter(frame, high, low))).toEqual([])
    }
    expect(said(admin, card.serve(frame))).toBe('PASS')
    expect(said(admin, card.serve(frameAt(admin, Number.MAX_SAFE_INTEGER)))).toBe('PASS')
    expect(said(admin, card.serve(frameAt(admin, Number.MAX_SAFE_INTEGER)))).toBe('nothing')
  })

  test('R1-S13: is answered two hours after the handshake, and not later', () => {
    const { card, admin } = entered()
    card.now += SESSION_US - 1000
    expect(said(admin, card.serve(statusFrame(admin)))).toBe('PASS')
    card.now += 1000
    const late = card.serve(statusFrame(admin))
    expect(late).toHaveLength(1)
    expect(clearAnswer(late)?.fault).toBe('NO_SESSION')
    expect(admin.shake()).toBe('PASS')
    expect(said(admin, card.serve(statusFrame(admin)))).toBe('PASS')
  })
})

describe('a sealed answer', () => {
  test('R1-S13: of which any byte is another one opens to nobody', () => {
    const { card, admin } = entered()
    const [answer] = card.serve(statusFrame(admin))
    for (let at = 0; at < mad.MAD_BYTES; at++) {
      for (const flip of [0x01, 0x80]) {
        const forged = answer!.payload.slice()
        forged[at]! ^= flip
        // What follows from the id, and from the version, is not left to the seal.
        const seal = { ...admin.seal! }
        const body = mad.MAD_BODY
        const opens = openDatagram(primitives, seal, forged, 0)
        const isId = at >= body + mad.SEALED_SESSION && at < body + mad.SEALED_COUNTER_HIGH
        expect(opens && !isId, `byte ${at}`).toBe(false)
      }
    }
    expect(openDatagram(primitives, admin.seal!, answer!.payload.slice(), 0)).toBe(true)
  })

  test('R1-S13: that comes again opens once', () => {
    const { card, admin } = entered()
    const sent = card.serve(statusFrame(admin))
    expect(said(admin, sent)).toBe('PASS')
    expect(said(admin, sent)).toBe('nothing')
  })

  test('R1-S13: sent back to the card is no call, and a call sent back is no answer', () => {
    const { card, admin } = entered()
    const call = statusFrame(admin)
    const sent = card.serve(call)
    const { payload } = sent[0]!
    const back = changed(call, (to) => to.set(payload))
    for (const method of [mad.METHOD_RESPONSE, mad.METHOD_GET, mad.METHOD_SET]) {
      const asked = changed(back, (to) => (to[mad.MAD_METHOD] = method))
      expect(card.serve(asked)).toEqual([])
    }
    const reflected = call.slice(payloadAt(call), call.length - ICRC_BYTES)
    for (const method of [mad.METHOD_GET, mad.METHOD_RESPONSE]) {
      reflected[mad.MAD_METHOD] = method
      expect(openDatagram(primitives, admin.seal!, reflected.slice(), 0)).toBe(false)
    }
    expect(said(admin, sent)).toBe('PASS')
  })

  test('R1-S13: tells nothing in the clear: all of a body is sealed, of every call', () => {
    const { card, admin } = guests()
    const name = Buffer.from('records')
    const frame = admin.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => body.set(name))
    expect(Buffer.from(frame).includes(name)).toBe(false)
    const sent = card.serve(frame)
    const { rkey, key } = admin.openAsIs('records')
    const bytes = Buffer.from(sent[0]!.bytes)
    const word = new Uint8Array(4)
    putU32(word, 0, rkey)
    for (const secret of [name, Buffer.from(key), Buffer.from(word)]) {
      expect(bytes.includes(secret)).toBe(false)
    }
    expect(u32(admin.answerOf(sent)!.body, mad.REGION_RKEY)).toBe(rkey)
  })

  test('R1-S13: under no key and counter two datagrams are sealed, in either direction', () => {
    const { card, admin } = entered()
    const seen = new Set<string>()
    const note = (payload: Uint8Array): void => {
      const at = mad.MAD_BODY + mad.SEALED_SESSION
      const direction = payload[mad.MAD_METHOD]! >> 7
      const key = `${direction} ${Buffer.from(payload.subarray(at, at + 12)).toString('hex')}`
      expect(seen.has(key)).toBe(false)
      seen.add(key)
    }
    const call = admin.callFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    for (let i = 0; i < 50; i++) {
      const frame = admin.sealed(call)
      note(frame.subarray(payloadAt(frame)))
      for (const { payload } of card.serve(frame, frame)) note(payload)
    }
    expect(seen.size).toBe(100)
  })
})

test('R1-S13: the window is that of a plain set, for every order of few counters', () => {
  const keys = { sent: new Uint8Array(32).fill(1), received: new Uint8Array(32).fill(1) }
  const sealedAt = (counter: number): Uint8Array => {
    const datagram = new Uint8Array(mad.MAD_BYTES)
    sealDatagram(primitives, { ...createSeal(1, keys), sent: counter }, datagram, 0)
    return datagram
  }
  const counters = [0, 1, 31, 32, 33, 63, 64]
  const datagrams = new Map(counters.map((counter) => [counter, sealedAt(counter)]))
  const walk = (taken: readonly number[], depth: number): void => {
    for (const next of counters) {
      const seal = createSeal(1, keys)
      for (const one of taken) openDatagram(primitives, seal, datagrams.get(one)!.slice(), 0)
      const newest = Math.max(-1, ...accepted(taken))
      const may = !accepted(taken).includes(next) && next >= newest - 31
      expect(openDatagram(primitives, seal, datagrams.get(next)!.slice(), 0)).toBe(may)
      if (depth > 1) walk([...taken, next], depth - 1)
    }
  }
  walk([], 4)
})

/** Which of those a plain set takes, in that order. */
function accepted(counters: readonly number[]): number[] {
  const taken: number[] = []
  for (const counter of counters) {
    if (!taken.includes(counter) && counter >= Math.max(-1, ...taken) - 31) taken.push(counter)
  }
  return taken
}
