/**
 * What Noise is made of, computed by the CPU: X25519 (RFC 7748), SHA-256 (FIPS 180-4) and
 * ChaCha20-Poly1305 (RFC 8439 2.8). The emulator computes the firmware's commands by it, and the
 * driver its own side of a session.
 */

import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
} from 'node:crypto'

/** Bytes of a key, of X25519 as of the cipher, and of a hash. */
export const NOISE_KEY_BYTES = 32
const TAG_BYTES = 16
const CIPHER = 'chacha20-poly1305'

/** What stands in front of the bytes of an X25519 key in PKCS #8 and in SPKI (RFC 8410 7, 4). */
const PKCS8 = new Uint8Array([
  ...[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x04, 0x22, 0x04, 0x20,
  ],
])
const SPKI = new Uint8Array([
  ...[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00],
])

/** X25519 of a scalar and a point; null where the product is zeros (RFC 7748 6.1). */
export function agree(secret: Uint8Array, point: Uint8Array): Uint8Array | null {
  const pkcs8 = Buffer.concat([PKCS8, secret])
  const privateKey = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
  pkcs8.fill(0)
  const spki = Buffer.concat([SPKI, point])
  const publicKey = createPublicKey({ key: spki, format: 'der', type: 'spki' })
  try {
    return new Uint8Array(diffieHellman({ privateKey, publicKey }))
  } catch {
    return null
  }
}

/** SHA-256 of the bytes. */
export function hash(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(createHash('sha256').update(bytes).digest())
}

/** Seals: the ciphertext, and its tag of 16 bytes behind it. The nonce has 12 bytes. */
export function seal(
  key: Uint8Array,
  nonce: Uint8Array,
  data: Uint8Array,
  plain: Uint8Array,
): Uint8Array {
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(data, { plaintextLength: plain.length })
  const sealed = new Uint8Array(plain.length + TAG_BYTES)
  sealed.set(cipher.update(plain))
  cipher.final()
  sealed.set(cipher.getAuthTag(), plain.length)
  return sealed
}

/** Opens what `seal` has made; null where the tag is another one, or there is none. */
export function unseal(
  key: Uint8Array,
  nonce: Uint8Array,
  data: Uint8Array,
  sealed: Uint8Array,
): Uint8Array | null {
  const length = sealed.length - TAG_BYTES
  if (length < 0) return null
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
  decipher.setAAD(data, { plaintextLength: length })
  decipher.setAuthTag(sealed.subarray(length))
  const plain = new Uint8Array(decipher.update(sealed.subarray(0, length)))
  try {
    decipher.final()
    return plain
  } catch {
    return null
  }
}
