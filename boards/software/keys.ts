/**
 * The keys of sessions: X25519 (RFC 7748), a pair for each card and each client.
 *
 * Invariants:
 * - As text a key is 64 hexadecimal digits, its bytes in their order: written in lower case, read
 *   in either.
 * - A public key that came as text is one that somebody can have: its agreements are secret, and it
 *   is the only text of its point. So two texts that differ, but for case, are two keys.
 * - No error quotes what stood in a key's place: it may be a private one.
 */

import { randomBytes } from 'node:crypto'
import { type KeyPair, keyPairOf } from '../../firmware/session/noise.ts'
import { CodedError } from '../coded-error.ts'
import { agree, NOISE_KEY_BYTES } from './noise-primitives.ts'

/** Digits of a key as text. */
const KEY_DIGITS: number = 2 * NOISE_KEY_BYTES

export type KeyFault =
  /** It is not 64 hexadecimal digits. */
  | 'KEY_TEXT'
  /** Nobody has that public key: a point of small order, or not the only text of its point. */
  | 'KEY_POINT'
  /** A file holds no private key. */
  | 'KEY_FILE'
  /** Others than the owner may read the file of a private key. */
  | 'KEY_FILE_MODE'
  /** A private key would be written over what is there. */
  | 'KEY_FILE_EXISTS'

/** A key, or the file of one, cannot be used; the message says what to do. */
export class KeyError extends CodedError<KeyFault> {
  override readonly name = 'KeyError'
}

/** X25519 makes a multiple of 8 of each scalar: any of them shows a point of small order. */
const SOME_SECRET: Uint8Array = new Uint8Array(NOISE_KEY_BYTES).fill(1)

const GIVE = "give what 'perdure key show' prints"

const PRIME = 2n ** 255n - 19n

/** A new pair, from the random numbers of the system. */
export function createKeyPair(): KeyPair {
  return pairOf(new Uint8Array(randomBytes(NOISE_KEY_BYTES)))
}

/** The pair of a private key of 32 bytes. */
export function pairOf(secret: Uint8Array): KeyPair {
  return keyPairOf({ agree }, secret)
}

/** The public key, 32 bytes, of a private one of 32 bytes. */
export function publicKeyOf(secret: Uint8Array): Uint8Array {
  return pairOf(secret).public
}

/** A key as text. */
export function keyText(key: Uint8Array): string {
  return Buffer.from(key).toString('hex')
}

/** The 32 bytes of a key as text, private or public; null if it is none. */
export function bytesOfKeyText(text: string): Uint8Array | null {
  const isKey = text.length === KEY_DIGITS && /^[0-9a-f]+$/i.test(text)
  return isKey ? new Uint8Array(Buffer.from(text, 'hex')) : null
}

/** The public key that the text is, 32 bytes. Throws KeyError, KEY_TEXT or KEY_POINT. */
export function parseKey(text: string): Uint8Array {
  const key = bytesOfKeyText(text)
  if (key === null) {
    const found = text.length === KEY_DIGITS ? 'other characters, too' : `${text.length} characters`
    const wrong = `a public key has ${KEY_DIGITS} hexadecimal digits, and this has ${found}`
    throw new KeyError('KEY_TEXT', `${wrong}: ${GIVE}`)
  }
  if (isReduced(key) && agree(SOME_SECRET, key) !== null) return key
  throw new KeyError('KEY_POINT', `nobody has that public key: ${GIVE}`)
}

/** Whether its number is less than the prime: a greater one stands for the point of another. */
function isReduced(key: Uint8Array): boolean {
  return BigInt(`0x${keyText(Uint8Array.from(key).reverse())}`) < PRIME
}
