/**
 * The handshake of a session: Noise_IK_25519_ChaChaPoly_SHA256 (the Noise Protocol Framework,
 * revision 34; pattern IK of 7.5). The client, who knows the card's public key, is the initiator.
 *
 *     <- s
 *     ...
 *     -> e, es, s, ss     first message: 96 bytes and a payload
 *     <- e, ee, se        second message: 48 bytes and a payload
 *
 * Firmware and driver run the same text: what computes stands in `Primitives`.
 *
 * Invariants:
 * - A message that does not authenticate changes nothing that outlives it: the handshake is given
 *   up by whoever is told null.
 * - The keys of a session come from an ephemeral key of each side, so neither a key that is stolen
 *   later nor a first message that comes again opens what was sealed (7.7, 7.8). A first message
 *   that comes again gives a session that nobody can use who has not made it; therefore nothing is
 *   granted before the first datagram that is sealed under the keys of the session.
 * - No key and nonce seal two texts: `sealNext` is the only one that seals, and counts.
 */

import { assert } from '../board/assert.ts'

/** Bytes of a key, public, secret, or of the cipher, and of a hash. */
export const KEY_BYTES = 32
/** Bytes of a tag. */
export const TAG_BYTES = 16
const NONCE_BYTES = 12
const BLOCK_BYTES = 64

/** Bytes of each message without its payload. */
export const FIRST_BYTES: number = KEY_BYTES + KEY_BYTES + TAG_BYTES + TAG_BYTES
export const SECOND_BYTES: number = KEY_BYTES + TAG_BYTES

/** Noise_IK_25519_ChaChaPoly_SHA256 in ASCII: as long as a hash, and so its own hash (5.2). */
const PROTOCOL = [
  ...[0x4e, 0x6f, 0x69, 0x73, 0x65, 0x5f, 0x49, 0x4b, 0x5f, 0x32, 0x35, 0x35, 0x31, 0x39, 0x5f],
  ...[0x43, 0x68, 0x61, 0x43, 0x68, 0x61, 0x50, 0x6f, 0x6c, 0x79, 0x5f, 0x53, 0x48, 0x41],
  ...[0x32, 0x35, 0x36],
]

/** What computes. Keys have 32 bytes, a nonce 12, and a tag, behind what is sealed, 16. */
export interface Primitives {
  /** X25519; null where the product is zeros. */
  agree(secret: Uint8Array, point: Uint8Array): Uint8Array | null
  /** SHA-256. */
  hash(bytes: Uint8Array): Uint8Array
  /** ChaCha20-Poly1305 of RFC 8439. */
  seal(key: Uint8Array, nonce: Uint8Array, data: Uint8Array, plain: Uint8Array): Uint8Array
  /** Null where the tag is another one. */
  unseal(
    key: Uint8Array,
    nonce: Uint8Array,
    data: Uint8Array,
    sealed: Uint8Array,
  ): Uint8Array | null
}

export interface KeyPair {
  readonly secret: Uint8Array
  readonly public: Uint8Array
}

/** One side of a handshake on its way. */
export interface Handshake {
  readonly primitives: Primitives
  readonly own: KeyPair
  /** Drawn for this handshake alone. The responder needs none before it writes. */
  ephemeral: KeyPair
  /** The static key of the other side: the responder reads it in the first message. */
  remote: Uint8Array
  /** Its ephemeral key. */
  remoteEphemeral: Uint8Array
  /** The names of 5.2: chaining key, hash, and the key and counter of the cipher. */
  ck: Uint8Array
  h: Uint8Array
  k: Uint8Array
  n: number
}

/** The keys of a session: `sent` seals what this side sends. */
export interface SessionKeys {
  readonly sent: Uint8Array
  readonly received: Uint8Array
}

/** The pair of a secret: X25519 of 9 gives the public key (RFC 7748 6.1). */
export function keyPairOf(primitives: Pick<Primitives, 'agree'>, secret: Uint8Array): KeyPair {
  const base = new Uint8Array(KEY_BYTES)
  base[0] = 9
  // A multiple of the base is no point of small order.
  return { secret, public: primitives.agree(secret, base)! }
}

function join(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/** HMAC-SHA-256 (RFC 2104) under a key of 32 bytes. */
export function hmac({ hash }: Primitives, key: Uint8Array, text: Uint8Array): Uint8Array {
  const inner = new Uint8Array(BLOCK_BYTES).fill(0x36)
  const outer = new Uint8Array(BLOCK_BYTES).fill(0x5c)
  for (let i = 0; i < key.length; i++) {
    inner[i]! ^= key[i]!
    outer[i]! ^= key[i]!
  }
  return hash(join(outer, hash(join(inner, text))))
}

/** HKDF of 4.3 with two outputs. */
function derive(
  primitives: Primitives,
  ck: Uint8Array,
  material: Uint8Array,
): [Uint8Array, Uint8Array] {
  const key = hmac(primitives, ck, material)
  const first = hmac(primitives, key, new Uint8Array([1]))
  return [first, hmac(primitives, key, join(first, new Uint8Array([2])))]
}

/** The nonce of ChaChaPoly (12.3): four zeros and the counter, little-endian. */
export function nonceOf(counter: number): Uint8Array {
  const nonce = new Uint8Array(NONCE_BYTES)
  for (let i = 4, rest = counter; i < NONCE_BYTES; i++, rest = Math.floor(rest / 256)) {
    nonce[i] = rest % 256
  }
  return nonce
}

function begin(
  primitives: Primitives,
  own: KeyPair,
  ephemeral: KeyPair,
  responder: Uint8Array,
  prologue: Uint8Array,
): Handshake {
  const h = new Uint8Array(PROTOCOL)
  const none = new Uint8Array(0)
  const both = { remote: none, remoteEphemeral: none, ck: h, k: none, n: 0 }
  const handshake = { primitives, own, ephemeral, ...both, h }
  mixHash(handshake, prologue)
  mixHash(handshake, responder)
  return handshake
}

/** The client's side: it knows whom it speaks to. */
export function initiator(
  primitives: Primitives,
  own: KeyPair,
  ephemeral: KeyPair,
  remote: Uint8Array,
  prologue: Uint8Array,
): Handshake {
  const handshake = begin(primitives, own, ephemeral, remote, prologue)
  handshake.remote = remote
  return handshake
}

/** The card's side. */
export function responder(
  primitives: Primitives,
  own: KeyPair,
  ephemeral: KeyPair,
  prologue: Uint8Array,
): Handshake {
  return begin(primitives, own, ephemeral, own.public, prologue)
}

function mixHash(handshake: Handshake, bytes: Uint8Array): void {
  handshake.h = handshake.primitives.hash(join(handshake.h, bytes))
}

/** False where the two agree on nothing: the point is of small order. */
function mixKey(handshake: Handshake, secret: Uint8Array, point: Uint8Array): boolean {
  const material = handshake.primitives.agree(secret, point)
  if (material === null) return false
  const [ck, k] = derive(handshake.primitives, handshake.ck, material)
  handshake.ck = ck
  handshake.k = k
  handshake.n = 0
  return true
}

/**
 * The same with a point that has agreed with another secret: every secret is a multiple of 8, so
 * that a point of small order would have agreed with none (RFC 7748 5).
 */
function mixGoodKey(handshake: Handshake, secret: Uint8Array, point: Uint8Array): void {
  assert(mixKey(handshake, secret, point), 'a point is of small order for every secret or for none')
}

/** Seals under the key and hash of the handshake. */
function sealNext(handshake: Handshake, plain: Uint8Array): Uint8Array {
  const { primitives, k, h, n } = handshake
  const sealed = primitives.seal(k, nonceOf(n), h, plain)
  handshake.n += 1
  mixHash(handshake, sealed)
  return sealed
}

function unsealNext(handshake: Handshake, sealed: Uint8Array): Uint8Array | null {
  const { primitives, k, h, n } = handshake
  const plain = primitives.unseal(k, nonceOf(n), h, sealed)
  if (plain === null) return null
  handshake.n += 1
  mixHash(handshake, sealed)
  return plain
}

/** -> e, es, s, ss. Null where the key of the card is of small order. */
export function writeFirst(handshake: Handshake, payload: Uint8Array): Uint8Array | null {
  const { own, ephemeral, remote } = handshake
  mixHash(handshake, ephemeral.public)
  if (!mixKey(handshake, ephemeral.secret, remote)) return null
  const s = sealNext(handshake, own.public)
  mixGoodKey(handshake, own.secret, remote)
  return join(ephemeral.public, s, sealNext(handshake, payload))
}

/**
 * Reads e, es, s: `remote` is then who says to have sent the message, and has not proven it. Null
 * where the message was made for another card, or changed.
 */
export function readSender(handshake: Handshake, message: Uint8Array): Uint8Array | null {
  if (message.length < FIRST_BYTES) return null
  handshake.remoteEphemeral = message.slice(0, KEY_BYTES)
  mixHash(handshake, handshake.remoteEphemeral)
  if (!mixKey(handshake, handshake.own.secret, handshake.remoteEphemeral)) return null
  const remote = unsealNext(handshake, message.slice(KEY_BYTES, 2 * KEY_BYTES + TAG_BYTES))
  if (remote !== null) handshake.remote = remote
  return remote
}

/** Reads ss and the payload: the sender has the secret of `remote`, now or whenever it was made. */
export function readPayload(handshake: Handshake, message: Uint8Array): Uint8Array | null {
  if (!mixKey(handshake, handshake.own.secret, handshake.remote)) return null
  return unsealNext(handshake, message.slice(2 * KEY_BYTES + TAG_BYTES))
}

/** <- e, ee, se. Both keys of the client agreed with ours when the first message was read. */
export function writeSecond(handshake: Handshake, payload: Uint8Array): Uint8Array {
  const { ephemeral, remote, remoteEphemeral } = handshake
  mixHash(handshake, ephemeral.public)
  mixGoodKey(handshake, ephemeral.secret, remoteEphemeral)
  mixGoodKey(handshake, ephemeral.secret, remote)
  return join(ephemeral.public, sealNext(handshake, payload))
}

/** Reads the second message; null where it is not the card's answer to the first one. */
export function readSecond(handshake: Handshake, message: Uint8Array): Uint8Array | null {
  if (message.length < SECOND_BYTES) return null
  handshake.remoteEphemeral = message.slice(0, KEY_BYTES)
  mixHash(handshake, handshake.remoteEphemeral)
  if (!mixKey(handshake, handshake.ephemeral.secret, handshake.remoteEphemeral)) return null
  mixGoodKey(handshake, handshake.own.secret, handshake.remoteEphemeral)
  return unsealNext(handshake, message.slice(KEY_BYTES))
}

/** The keys of the session, when both messages were written and read (5.2, Split). */
export function split(handshake: Handshake, isInitiator: boolean): SessionKeys {
  const [first, second] = derive(handshake.primitives, handshake.ck, new Uint8Array(0))
  return isInitiator ? { sent: first, received: second } : { sent: second, received: first }
}
