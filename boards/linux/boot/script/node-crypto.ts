/**
 * Of `node:crypto` what the image format needs, by the program's libsodium: the files of
 * `boards/flash` run in Node and here.
 */

import { base64Bytes, joined } from '../../../flash/bytes.ts'
import { host } from './given.ts'

/** SubjectPublicKeyInfo of Ed25519 up to the key (RFC 8410, 4). */
const SPKI = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]
const KEY_BYTES = 32

/** A public key of Ed25519. */
export class KeyObject {
  readonly type = 'public'
  readonly raw: Uint8Array

  constructor(raw: Uint8Array) {
    this.raw = raw
  }

  /** As SubjectPublicKeyInfo, in DER. */
  export(): Uint8Array {
    return joined([Uint8Array.from(SPKI), this.raw])
  }
}

/** Reads a key in PEM. Throws an Error where it is none of Ed25519. */
export function createPublicKey(pem: string): KeyObject {
  const [, text = ''] = /-----BEGIN PUBLIC KEY-----([^-]*)-----END PUBLIC KEY-----/.exec(pem) ?? []
  const bytes = base64Bytes(new TextEncoder().encode(text))
  const isKey = bytes.length === SPKI.length + KEY_BYTES && SPKI.every((b, i) => bytes[i] === b)
  if (!isKey) throw new Error('it holds no Ed25519 public key in PEM')
  return new KeyObject(bytes.slice(SPKI.length))
}

class Hash {
  private readonly pieces: Uint8Array[] = []

  update(bytes: Uint8Array): this {
    this.pieces.push(bytes)
    return this
  }

  digest(): Uint8Array {
    const { pieces } = this
    return new Uint8Array(host().sha256(pieces.length === 1 ? pieces[0]! : joined(pieces)))
  }
}

/** Of SHA-256, which is the only one that is asked for. */
export function createHash(): Hash {
  return new Hash()
}

export function verify(
  _algorithm: null,
  message: Uint8Array,
  key: KeyObject,
  signature: Uint8Array,
): boolean {
  return host().verify(key.raw, message, signature)
}

export function sign(): never {
  throw new Error('a card signs nothing')
}
