/**
 * Control datagrams of a session (wire/management.ts): sealed and opened, in place.
 *
 * Invariants:
 * - Each datagram has a counter of its own: no key seals two under one nonce.
 * - A datagram is taken once. WINDOW of those behind the newest one may still come, in any order;
 *   what is older is taken for one that came.
 * - A datagram that does not authenticate moves no window.
 *
 * Firmware and driver run the same text, as of the handshake.
 */

import { putU32, u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import { nonceOf, type Primitives, type SessionKeys, TAG_BYTES } from './noise.ts'

/** What both sides of a handshake mix in first (Noise 6): "Perdure 1" in ASCII. */
export const PROLOGUE: Uint8Array = new Uint8Array([
  ...[0x50, 0x65, 0x72, 0x64, 0x75, 0x72, 0x65, 0x20, 0x31],
])

/** Datagrams behind the newest one that may still come. */
const WINDOW = 31

/** Beyond this no counter is taken; nobody lives to send so many. */
const COUNTER_MAX = Number.MAX_SAFE_INTEGER

/** One side's keys and counters. */
export interface Seal {
  readonly id: number
  readonly keys: SessionKeys
  /** Counter of the next datagram. */
  sent: number
  /** The newest that was taken, or -1, and which of the WINDOW behind it were: bit 0 is it. */
  newest: number
  taken: number
}

export function createSeal(id: number, keys: SessionKeys): Seal {
  return { id, keys, sent: 0, newest: -1, taken: 0 }
}

/** Upper half of a client's id: the first 32 bits of the SHA-256 of its peer's public key. */
export function clientTag({ hash }: Pick<Primitives, 'hash'>, key: Uint8Array): number {
  return u32(hash(key), 0)
}

/** Of which session the sealed datagram at `at` is. */
export function sessionIdAt(bytes: Uint8Array, at: number): number {
  return u32(bytes, at + mad.MAD_BODY + mad.SEALED_SESSION)
}

/** Seals the datagram at `at`: its header is complete, and of its body 196 bytes count. */
export function sealDatagram(
  primitives: Primitives,
  seal: Seal,
  bytes: Uint8Array,
  at: number,
): void {
  const counter = seal.sent
  seal.sent += 1
  const body = at + mad.MAD_BODY
  bytes[at + mad.MAD_VERSION] = mad.SEALED_VERSION
  const header = bytes.slice(at, body)
  const plain = bytes.slice(body, body + mad.SEALED_BODY_BYTES)
  bytes.set(primitives.seal(seal.keys.sent, nonceOf(counter), header, plain), body)
  putU32(bytes, body + mad.SEALED_SESSION, seal.id)
  putU32(bytes, body + mad.SEALED_COUNTER_HIGH, Math.floor(counter / 2 ** 32))
  putU32(bytes, body + mad.SEALED_COUNTER_LOW, counter % 2 ** 32)
}

/**
 * Opens the sealed datagram at `at`: the body behind what was sealed is zeros then. False, and
 * nothing has changed, where it was changed on its way, or was taken before.
 */
export function openDatagram(
  primitives: Primitives,
  seal: Seal,
  bytes: Uint8Array,
  at: number,
): boolean {
  const body = at + mad.MAD_BODY
  const high = u32(bytes, body + mad.SEALED_COUNTER_HIGH)
  const counter = high * 2 ** 32 + u32(bytes, body + mad.SEALED_COUNTER_LOW)
  if (counter > COUNTER_MAX || wasTaken(seal, counter)) return false
  const header = bytes.slice(at, body)
  const sealed = bytes.slice(body, body + mad.SEALED_BODY_BYTES + TAG_BYTES)
  const plain = primitives.unseal(seal.keys.received, nonceOf(counter), header, sealed)
  if (plain === null) return false
  take(seal, counter)
  bytes.fill(0, body, body + mad.MAD_BODY_BYTES)
  bytes.set(plain, body)
  return true
}

function wasTaken(seal: Seal, counter: number): boolean {
  const behind = seal.newest - counter
  if (behind < 0) return false
  return behind > WINDOW || ((seal.taken >>> behind) & 1) !== 0
}

function take(seal: Seal, counter: number): void {
  const ahead = counter - seal.newest
  if (ahead <= 0) {
    seal.taken |= 1 << -ahead
    return
  }
  seal.taken = ahead > WINDOW ? 1 : (seal.taken << ahead) | 1
  seal.newest = counter
}
