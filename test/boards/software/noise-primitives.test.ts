/** What Noise is made of, by node:crypto: published answers, and what proves nothing. */

import { expect, test } from 'vitest'
import {
  agree,
  hash,
  NOISE_KEY_BYTES,
  seal,
  unseal,
} from '../../../boards/software/noise-primitives.ts'
import {
  AGREEMENTS,
  HASHES,
  ITERATED,
  SEALED,
  SMALL_ORDER,
} from '../../support/judges/noise-vectors.ts'

const { key, nonce, data, plain, sealed } = SEALED

test('X25519 gives the products of RFC 7748', () => {
  for (const { scalar, point, product } of AGREEMENTS) expect(agree(scalar, point)).toEqual(product)
})

test('X25519 a thousand times over gives what RFC 7748 says', () => {
  let scalar = new Uint8Array(NOISE_KEY_BYTES)
  scalar[0] = 9
  let point = scalar
  for (let times = 1; times <= 1000; times++) {
    const product = new Uint8Array(agree(scalar, point)!)
    point = scalar
    scalar = product
    const published = ITERATED.get(times)
    if (published !== undefined) expect(scalar).toEqual(published)
  }
})

test('a point of small order agrees on nothing', () => {
  for (const { scalar } of AGREEMENTS) {
    for (const point of SMALL_ORDER) expect(agree(scalar, point)).toBe(null)
  }
})

test('SHA-256 gives the hashes that NIST publishes', () => {
  for (const [text, published] of HASHES) expect(hash(text)).toEqual(published)
})

test('ChaCha20-Poly1305 seals as RFC 8439 does, and opens it', () => {
  expect(seal(key, nonce, data, plain)).toEqual(sealed)
  expect(unseal(key, nonce, data, sealed)).toEqual(plain)
})

test('no text and no data have a tag, too', () => {
  const none = new Uint8Array(0)
  const tag = seal(key, nonce, none, none)
  expect(tag).toHaveLength(16)
  expect(unseal(key, nonce, none, tag)).toEqual(none)
  for (let length = 0; length < 16; length++) {
    expect(unseal(key, nonce, none, tag.subarray(0, length))).toBe(null)
  }
})

test('another byte anywhere does not open', () => {
  const parts = [key, nonce, data, sealed]
  for (let part = 0; part < parts.length; part++) {
    for (let at = 0; at < parts[part]!.length; at++) {
      const [k, n, d, s] = parts.map((bytes) => Uint8Array.from(bytes))
      const other = [k!, n!, d!, s!][part]!
      other[at] = other[at]! ^ 1
      expect(unseal(k!, n!, d!, s!), `part ${part} byte ${at}`).toBe(null)
    }
  }
})

test('a primitive leaves what it was given as it was', () => {
  const given = [key, nonce, data, plain, sealed].map((bytes) => Buffer.from(bytes))
  seal(key, nonce, data, plain)
  unseal(key, nonce, data, sealed)
  expect([key, nonce, data, plain, sealed].map((bytes) => Buffer.from(bytes))).toEqual(given)
})
