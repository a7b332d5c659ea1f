/**
 * Worlds whose cards relay to each other (C3, C13): that a seed gives the same trace again, that
 * everything happens in them that there is to happen, and that their judges notice what they are
 * there for.
 */

import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../support/run/thorough.ts'
import { datagram } from '../simulate/card.ts'
import { cardKeys } from '../simulate/closed/identities.ts'
import { Path, put32, seal } from '../simulate/frames.ts'
import { playSeed } from '../simulate/play.ts'
import { Lines } from '../simulate/relays/lines.ts'
import { ALL_CARDS, cardOf, Links } from '../simulate/relays/links.ts'
import { Names } from '../simulate/relays/names.ts'

const SEED = Number(process.env.SEED ?? 20266)
const TAG_BYTES = 24

test('a seed gives the same trace again, and relays take records', THOROUGH, async () => {
  const options = { steps: 25, world: 'relays', trace: true } as const
  const once = await playSeed(SEED, options)
  expect(await playSeed(SEED, options)).toEqual(once)
  expect(once.violations).toEqual([])
  expect(once.counts['relay PASS']).toBeGreaterThan(0)
  expect(once.counts['persist done']).toBeGreaterThan(0)
})

describe('names over there', () => {
  const key = cardKeys(0).public
  const tag = createHash('sha256').update(key).digest().readInt32BE(0)

  test('a client has one, and no two have the same', () => {
    const names = new Names(key)
    expect(names.takes(7, tag, 1000)).toBe(true)
    expect(names.takes(7, tag, 1000)).toBe(true)
    expect(names.takes(8, tag, -5)).toBe(true)
    expect(names.takes(7, tag, 1001)).toBe(false)
    expect(names.takes(8, tag, 1000)).toBe(false)
  })

  test('it begins with the tag of the card that relays', () => {
    expect(new Names(key).takes(7, tag + 1, 1000)).toBe(false)
    expect(new Names(cardKeys(1).public).takes(7, tag, 1000)).toBe(false)
  })
})

/** A frame of the card at 10.0.0.2 to the one at 10.0.0.3, with so many bytes behind BTH. */
function packet(opcode: number, bytes: number): Uint8Array {
  const frame = new Path(1, 1).begin(opcode, 0x1234, 7, false, bytes, 0)
  frame.fill(0, 54, 54 + bytes)
  return frame
}

describe('what cards say to each other', () => {
  const call = (method: number, attribute: number, sealed: boolean, fault = 0): Uint8Array => {
    const frame = datagram(new Path(1, 1), 1, 77, method, attribute, 0, () => {})
    frame[90] = sealed ? 2 : 1
    frame[91] = fault
    return seal(frame)
  }

  test('is sealed, but for handshakes and refusals', () => {
    const links = new Links()
    expect(links.judge(0, 1, call(2, 0x80, false))).toBeNull()
    expect(links.judge(1, 0, call(0x81, 0x80, false))).toBeNull()
    expect(links.judge(1, 0, call(0x81, 0x13, false, 114))).toBeNull()
    expect(links.judge(0, 1, call(1, 0x13, false))).toContain('asks something of card 1')
    expect(links.judge(1, 0, call(0x81, 0x13, false))).toContain('answers card 0 in the clear')
  })

  test('is answered as often as it was made, and no more', () => {
    const links = new Links()
    const other = call(0x81, 0x20, true)
    for (let i = 0; i < 2; i++) expect(links.judge(0, 1, call(2, 0x20, true))).toBeNull()
    for (let i = 0; i < 2; i++) expect(links.judge(1, 0, other)).toBeNull()
    expect(links.judge(1, 0, other)).toContain('more often than it was made')
    put32(other, 62 + 32 + 212, 9)
    expect(links.judge(1, 0, other)).toContain('more often than it was made')
  })

  test('has tags', () => {
    const links = new Links()
    for (const [opcode, bytes] of [
      [0x11, 4],
      [0xd1, 36],
      [0xca, 32],
    ] as const) {
      expect(links.judge(0, 1, packet(opcode, bytes + TAG_BYTES))).toBeNull()
      expect(links.judge(0, 1, packet(opcode, bytes))).toContain('without a tag')
    }
  })

  test('goes to a card by its address, or to all', () => {
    const frame = packet(0x11, 4)
    expect(cardOf(frame)).toBe(1)
    frame[32] = 1
    expect(cardOf(frame)).toBe(-1)
    frame.set([0x08, 0x06], 12)
    expect(cardOf(frame)).toBe(ALL_CARDS)
  })
})

test('a line comes and goes, and nobody else has one to change', () => {
  const lines = new Lines(1, 0)
  const line = (card: number): Uint8Array =>
    Buffer.from(Buffer.from(cardKeys(card).public).toString('hex'))
  const withLine = lines.identity
  expect(lines.keep(line(0), true)).not.toBe(0)
  expect(lines.keep(line(2), false)).not.toBe(0)
  expect(lines.keep(line(0), false)).toBe(0)
  expect(lines.identity.peers).toHaveLength(withLine.peers.length - 1)
  expect(lines.keep(line(0), true)).toBe(0)
  expect(lines.identity).toBe(withLine)
})
