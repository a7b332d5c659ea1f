/**
 * Where a handshake ends that has a point of small order, or a message that is cut: with numbers
 * in the place of a curve, so that every step can be told apart. The curve itself is that of
 * noise.test.ts.
 */

import { describe, expect, test } from 'vitest'
import {
  type Handshake,
  initiator,
  type KeyPair,
  keyPairOf,
  type Primitives,
  readPayload,
  readSecond,
  readSender,
  responder,
  SECOND_BYTES,
  split,
  writeFirst,
  writeSecond,
} from '../../../firmware/session/noise.ts'

const MODULUS = 251
const TAG_BYTES = 16
const NOTHING = new Uint8Array(0)

/** 32 bytes, of which each comes from all of these. */
function mixed(bytes: Uint8Array): Uint8Array {
  let word = 0x811c9dc5 ^ bytes.length
  for (const byte of bytes) word = Math.imul(word ^ byte, 0x01000193)
  return Uint8Array.from({ length: 32 }, (_, i) => Math.imul(word + i, 0x9e3779b1) >>> 24)
}

function tagOf(key: Uint8Array, nonce: Uint8Array, data: Uint8Array, plain: Uint8Array) {
  return mixed(Uint8Array.from([...key, ...nonce, ...data, ...plain])).slice(0, TAG_BYTES)
}

/** Multiplies modulo a prime: a point of zeros agrees with nothing. */
const NUMBERS: Primitives = {
  agree(secret, point) {
    const product = point.map((byte, i) => (byte * secret[i]!) % MODULUS)
    return product.every((byte) => byte === 0) ? null : product
  },
  hash: mixed,
  seal: (key, nonce, data, plain) => {
    return Uint8Array.from([...plain, ...tagOf(key, nonce, data, plain)])
  },
  unseal: (key, nonce, data, sealed) => {
    const plain = sealed.slice(0, -TAG_BYTES)
    const tag = tagOf(key, nonce, data, plain)
    return tag.every((byte, i) => byte === sealed[plain.length + i]) ? plain : null
  },
}

const pair = (number: number): KeyPair => keyPairOf(NUMBERS, new Uint8Array(32).fill(number))

const [CLIENT, CLIENT_ONCE, CARD, CARD_ONCE] = [pair(3), pair(5), pair(7), pair(11)]
const ZEROS = new Uint8Array(32)

const client = (own = CLIENT, card = CARD.public): Handshake =>
  initiator(NUMBERS, own, CLIENT_ONCE, card, NOTHING)
const card = (): Handshake => responder(NUMBERS, CARD, CARD_ONCE, NOTHING)

/** The second message that a card answers to that first one. */
function answerTo(first: Uint8Array): Uint8Array {
  const theirs = card()
  expect(readSender(theirs, first)).toEqual(CLIENT.public)
  expect(readPayload(theirs, first)).toEqual(NOTHING)
  return writeSecond(theirs, NOTHING)
}

describe('a handshake over numbers', () => {
  test('R1-S13: gives both ends the same keys', () => {
    const [ours, theirs] = [client(), card()]
    const first = writeFirst(ours, NOTHING)!
    readSender(theirs, first)
    readPayload(theirs, first)
    expect(readSecond(ours, writeSecond(theirs, NOTHING))).toEqual(NOTHING)
    const [mine, yours] = [split(ours, true), split(theirs, false)]
    expect(mine).toEqual({ sent: yours.received, received: yours.sent })
    expect(mine.sent).not.toEqual(mine.received)
  })

  test('R1-S13: does not begin with a card whose key is of small order', () => {
    expect(writeFirst(client(CLIENT, ZEROS), NOTHING)).toBeNull()
  })

  test('R1-S13: ends at a first message that is cut, or whose point is of small order', () => {
    const first = writeFirst(client(), NOTHING)!
    expect(readSender(card(), first.slice(0, -1))).toBeNull()
    expect(readSender(card(), first.slice().fill(0, 0, 32))).toBeNull()
    expect(readSender(card(), first.slice().fill(0, 32, 80))).toBeNull()
  })

  test('R1-S13: ends where the sender says to have a key of small order', () => {
    const first = writeFirst(client({ secret: CLIENT.secret, public: ZEROS }), NOTHING)!
    const theirs = card()
    expect(readSender(theirs, first)).toEqual(ZEROS)
    expect(readPayload(theirs, first)).toBeNull()
  })

  test('R1-S13: ends at a second message that is cut, or whose point is of small order', () => {
    const ours = (): Handshake => {
      const handshake = client()
      writeFirst(handshake, NOTHING)
      return handshake
    }
    const second = answerTo(writeFirst(client(), NOTHING)!)
    expect(second).toHaveLength(SECOND_BYTES)
    expect(readSecond(ours(), second)).toEqual(NOTHING)
    expect(readSecond(ours(), second.slice(0, -1))).toBeNull()
    expect(readSecond(ours(), second.slice().fill(0, 0, 32))).toBeNull()
    expect(readSecond(ours(), second.slice().fill(0, 32))).toBeNull()
  })
})
