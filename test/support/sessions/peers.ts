/** Keys of a card and of those who may come, from fixed numbers; and the card's identity. */

import { pairOf } from '../../../boards/software/keys.ts'
import type { Identity, Peer } from '../../../firmware/board/hal.ts'
import type { KeyPair } from '../../../firmware/session/noise.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'

export function keyPair(number: number): KeyPair {
  return pairOf(new Uint8Array(32).fill(number))
}

export const CARD: KeyPair = keyPair(1)
export const ADMIN: KeyPair = keyPair(2)
export const WRITER: KeyPair = keyPair(3)
export const READER: KeyPair = keyPair(4)
/** Nobody whom the card knows. */
export const NOBODY: KeyPair = keyPair(9)

/** Two pairs whose public keys have SHA-256s that begin with the same 32 bits. */
export const ALIKE: readonly [KeyPair, KeyPair] = [numbered(10_935), numbered(30_867)]

/** A pair whose secret begins with that number. */
function numbered(number: number): KeyPair {
  const secret = new Uint8Array(32).fill(0x31)
  putU32(secret, 0, number)
  return pairOf(secret)
}

/** A line of the list of peers. */
export function peer(name: string, keys: KeyPair, rights: Partial<Peer>): Peer {
  return { key: [...keys.public], name, admin: false, read: [], write: [], ...rights }
}

/** WRITER may write `records`, READER may read it. */
export const IDENTITY: Identity = {
  secret: [...CARD.secret],
  peers: [
    peer('admin', ADMIN, { admin: true }),
    peer('writer', WRITER, { write: ['records'] }),
    peer('reader', READER, { read: ['records'] }),
  ],
}
