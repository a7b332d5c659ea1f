/** Keys of sessions as text, and what is no key: published vectors, every text of a point. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  bytesOfKeyText,
  createKeyPair,
  KeyError,
  type KeyFault,
  keyText,
  parseKey,
  publicKeyOf,
} from '../../../boards/software/keys.ts'
import { agree } from '../../../boards/software/noise-primitives.ts'

const SEED = Number(process.env.SEED ?? 7748)

/** RFC 7748 6.1: whose, private key, public key. */
const PAIRS = [
  [
    'Alice',
    '77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a',
    '8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a',
  ],
  [
    'Bob',
    '5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb',
    'de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f',
  ],
] as const

const PRIME = 2n ** 255n - 19n

/** The text of a number of less than 2^256. */
function textOf(number: bigint): string {
  const bytes = Buffer.from(number.toString(16).padStart(64, '0'), 'hex')
  return keyText(bytes.reverse())
}

function numberOf(text: string): bigint {
  return BigInt(`0x${Buffer.from(text, 'hex').reverse().toString('hex')}`)
}

/** The points whose order divides 8, each by its number that is less than the prime. */
const SMALL = [
  0n,
  1n,
  PRIME - 1n,
  numberOf('e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800'),
  numberOf('5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157'),
]

function faultOf(text: string): KeyFault {
  try {
    parseKey(text)
  } catch (error) {
    expect(error).toBeInstanceOf(KeyError)
    expect((error as KeyError).message).toContain("'perdure key show'")
    // It may be a private key that somebody has mistaken for this one.
    if (text.length > 8) expect((error as KeyError).message).not.toContain(text.slice(0, 8))
    return (error as KeyError).code
  }
  throw new Error('it was taken')
}

describe('a pair of keys', () => {
  test.each(PAIRS)('of %s in RFC 7748 has the public key that stands there', (_, own, shown) => {
    expect(keyText(publicKeyOf(bytesOfKeyText(own)!))).toBe(shown)
    expect(keyText(parseKey(shown))).toBe(shown)
  })

  test('is another one each time, and its halves belong together', () => {
    const pairs = Array.from({ length: 20 }, createKeyPair)
    const texts = pairs.flatMap(({ secret, public: shown }) => [keyText(secret), keyText(shown)])
    expect(new Set(texts).size).toBe(2 * pairs.length)
    for (const { secret, public: shown } of pairs) {
      expect(secret).toHaveLength(32)
      expect(publicKeyOf(secret)).toEqual(shown)
      expect(parseKey(keyText(shown))).toEqual(shown)
    }
    const [one, other] = pairs
    const agreed = agree(one!.secret, other!.public)
    expect(agreed).not.toBeNull()
    expect(agree(other!.secret, one!.public)).toEqual(agreed)
  })
})

describe('the text of a key', () => {
  test('is 64 lower-case digits, and read in upper case, too', () => {
    const drawn = fc.uint8Array({ minLength: 32, maxLength: 32 })
    fc.assert(
      fc.property(drawn, (secret) => {
        const key = publicKeyOf(secret)
        const text = keyText(key)
        expect(text).toMatch(/^[0-9a-f]{64}$/)
        expect(parseKey(text)).toEqual(key)
        expect(parseKey(text.toUpperCase())).toEqual(key)
        expect(bytesOfKeyText(keyText(secret))).toEqual(secret)
      }),
      { seed: SEED, numRuns: 50 },
    )
  })

  const [, , shown] = PAIRS[0]
  test.each([
    ['nothing', ''],
    ['a digit less', shown.slice(1)],
    ['a digit more', `${shown}0`],
    ['a letter that is no digit', `${shown.slice(1)}g`],
    ['a blank in front', ` ${shown.slice(1)}`],
    ['the end of a line behind it', `${shown}\n`],
    ['a digit of another script', `${shown.slice(1)}\u0661`],
    ['base64, as of WireGuard', Buffer.from(shown, 'hex').toString('base64')],
  ])('%s is none', (_, text) => {
    expect(bytesOfKeyText(text)).toBeNull()
    expect(faultOf(text)).toBe('KEY_TEXT')
  })
})

describe('a public key that nobody has is refused', () => {
  test('each point of small order, whose agreements everybody knows, in each of its texts', () => {
    const secrets = Array.from({ length: 4 }, () => createKeyPair().secret)
    let count = 0
    for (const point of SMALL) {
      for (const text of textsOf(point)) {
        for (const secret of secrets) expect(agree(secret, bytesOfKeyText(text)!)).toBeNull()
        expect(faultOf(text), text).toBe('KEY_POINT')
        count += 1
      }
    }
    // Two of the five have a second number of 255 bits, and the highest bit counts for nothing.
    expect(count).toBe(14)
  })

  test('every second text of a point: it would be the key of somebody, and not equal to it', () => {
    const points = [...PAIRS.map(([, , shown]) => numberOf(shown)), 9n]
    // All that 255 bits hold beyond the prime.
    for (let more = 2n; more < 19n; more++) points.push(more)
    for (const point of points) {
      for (const text of textsOf(point)) {
        if (numberOf(text) === point) continue
        expect(faultOf(text), text).toBe('KEY_POINT')
      }
    }
    expect(faultOf('f'.repeat(64))).toBe('KEY_POINT')
    expect(keyText(parseKey(textOf(9n)))).toBe(textOf(9n))
  })
})

/** Every text of 256 bits that stands for that point. */
function textsOf(point: bigint): string[] {
  const numbers = [point, point + PRIME].filter((number) => number < 2n ** 255n)
  return numbers.flatMap((number) => [textOf(number), textOf(number + 2n ** 255n)])
}
