/**
 * The handshake of sessions against a published vector: Noise_IK_25519_ChaChaPoly_SHA256 of the
 * Cacophony set, which implementations of Noise share. Its keys, messages and hash are facts.
 */

import { describe, expect, test } from 'vitest'
import * as primitives from '../../../boards/software/noise-primitives.ts'
import {
  FIRST_BYTES,
  type Handshake,
  initiator,
  type KeyPair,
  keyPairOf,
  nonceOf,
  readPayload,
  readSecond,
  readSender,
  responder,
  SECOND_BYTES,
  split,
  writeFirst,
  writeSecond,
} from '../../../firmware/session/noise.ts'

const bytes = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, 'hex'))
const hex = (from: Uint8Array | null): string => Buffer.from(from ?? []).toString('hex')
const pair = (secret: string): KeyPair => keyPairOf(primitives, bytes(secret))

const PROLOGUE = bytes('4a6f686e2047616c74')
const CLIENT = pair('e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1')
const CLIENT_ONCE = pair('893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a')
const CARD = pair('4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893')
const CARD_ONCE = pair('bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b')
const HASH = '0b0f68fb0c27e03ce9b97565995ed4838cc0581b762ef72b062f6a546419fad7'

/** Payload and message: two of the handshake, then those under the keys of the session. */
const MESSAGES = [
  [
    '4c756477696720766f6e204d69736573',
    'ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944718da798efbcd915285202' +
      '04f904b9bd6c7413dccdc214d951e15253e39987f18146e8cd0873654207148333479d4d16c289f0294b29' +
      '960a72f48e0b7bba2e89083169825e59642148d492020664ccf7',
  ],
  [
    '4d757272617920526f746862617264',
    '95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088435361e70b2ed446e6c9ec38' +
      '7d1d6b3b840f194e373979d241b203c4acafccf5',
  ],
  ['462e20412e20486179656b', '050e9f3c8fac16b68dbce8f8c4bfbf6617c897f9ada4aa29aa19c8'],
  ['4361726c204d656e676572', '344233a6cabb7141d80f3da2fedc311d9646bbb0f505afe403a667'],
  [
    '4a65616e2d426170746973746520536179',
    '62cdeeb172ad7ade7aa7d9e069da5790f12331bfa00177787a1d0810c67dc3b2b4',
  ],
  [
    '457567656e2042f6686d20766f6e2042617765726b',
    '029bead1b40992327044d409d9a1f3ad8f36c3c452775d557e18bbeb2e8dfcead32d514024',
  ],
] as const

const NOTHING = new Uint8Array(0)

const client = (card = CARD): Handshake =>
  initiator(primitives, CLIENT, CLIENT_ONCE, card.public, PROLOGUE)
const card = (): Handshake => responder(primitives, CARD, CARD_ONCE, PROLOGUE)

describe('a handshake', () => {
  test('makes the messages, the hash and the keys of the published vector', () => {
    expect(hex(CARD.public)).toBe(
      '31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62',
    )
    const [ours, theirs] = [client(), card()]
    const first = writeFirst(ours, bytes(MESSAGES[0][0]))
    expect(hex(first)).toBe(MESSAGES[0][1])
    expect(hex(readSender(theirs, first!))).toBe(hex(CLIENT.public))
    expect(hex(readPayload(theirs, first!))).toBe(MESSAGES[0][0])
    const second = writeSecond(theirs, bytes(MESSAGES[1][0]))
    expect(hex(second)).toBe(MESSAGES[1][1])
    expect(hex(readSecond(ours, second))).toBe(MESSAGES[1][0])
    expect([hex(ours.h), hex(theirs.h)]).toEqual([HASH, HASH])
    const keys = [split(ours, true), split(theirs, false)] as const
    for (const [i, [payload, message]] of MESSAGES.slice(2).entries()) {
      const [from, to] = i % 2 === 0 ? keys : [keys[1], keys[0]]
      const nonce = nonceOf(Math.floor(i / 2))
      expect(hex(primitives.seal(from.sent, nonce, NOTHING, bytes(payload)))).toBe(message)
      expect(hex(primitives.unseal(to.received, nonce, NOTHING, bytes(message)))).toBe(payload)
    }
  })

  test('ends where any bit of the first message is another one', () => {
    const first = writeFirst(client(), NOTHING)!
    expect(first).toHaveLength(FIRST_BYTES)
    for (let bit = 0; bit < 8 * first.length; bit++) {
      const changed = first.slice()
      changed[bit >> 3]! ^= 1 << (bit & 7)
      const theirs = card()
      const sender = readSender(theirs, changed)
      // The highest bit of a point is not looked at (RFC 7748 5), but it is hashed.
      if (sender !== null) expect(readPayload(theirs, changed)).toBeNull()
    }
  })

  test('ends where any bit of the second message is another one', () => {
    const theirs = card()
    const first = writeFirst(client(), NOTHING)!
    readSender(theirs, first)
    readPayload(theirs, first)
    const second = writeSecond(theirs, NOTHING)
    expect(second).toHaveLength(SECOND_BYTES)
    for (let bit = 0; bit < 8 * second.length; bit++) {
      const changed = second.slice()
      changed[bit >> 3]! ^= 1 << (bit & 7)
      const ours = client()
      writeFirst(ours, NOTHING)
      expect(readSecond(ours, changed)).toBeNull()
    }
  })

  test('ends where message or reader is of another card, or of another protocol', () => {
    const other = client(CARD_ONCE)
    expect(readSender(card(), writeFirst(other, NOTHING)!)).toBeNull()
    const prologue = initiator(primitives, CLIENT, CLIENT_ONCE, CARD.public, bytes('00'))
    expect(readSender(card(), writeFirst(prologue, NOTHING)!)).toBeNull()
  })

  test('ends where a message is cut, and where a point is of small order', () => {
    const first = writeFirst(client(), NOTHING)!
    for (let length = 0; length < first.length; length++) {
      expect(readSender(card(), first.slice(0, length))).toBeNull()
    }
    const small = first.slice().fill(0, 0, 32)
    expect(readSender(card(), small)).toBeNull()
    expect(writeFirst(client({ ...CARD, public: new Uint8Array(32) }), NOTHING)).toBeNull()
    for (let length = 0; length < SECOND_BYTES; length++) {
      const ours = client()
      writeFirst(ours, NOTHING)
      expect(readSecond(ours, new Uint8Array(length))).toBeNull()
    }
  })

  test('of the same two gives other keys with other ephemeral keys', () => {
    const seen = new Set<string>()
    for (const once of [CARD_ONCE, CLIENT_ONCE, pair('11'.repeat(32))]) {
      const ours = client()
      const theirs = responder(primitives, CARD, once, PROLOGUE)
      const first = writeFirst(ours, NOTHING)!
      readSender(theirs, first)
      readPayload(theirs, first)
      readSecond(ours, writeSecond(theirs, NOTHING))
      const [mine, yours] = [split(ours, true), split(theirs, false)]
      expect(hex(mine.sent)).toBe(hex(yours.received))
      expect(hex(mine.received)).toBe(hex(yours.sent))
      seen.add(hex(mine.sent)).add(hex(mine.received))
    }
    expect(seen.size).toBe(6)
  })
})
