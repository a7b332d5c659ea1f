/**
 * RoCEv2 frames with the trailer of a queue pair with tags, and their tags as Node's own
 * ChaCha20-Poly1305 gives them.
 *
 * Invariant: nothing here comes from boards/software/tags.ts, nor from who finds the parts of a
 * frame: the places follow from what a frame was made of.
 */

import { createCipheriv } from 'node:crypto'
import { fillIcrc } from '../../../boards/software/icrc.ts'

const VLAN_BYTES = 4
const UDP_BYTES = 8
const BTH_BYTES = 12
const ICRC_BYTES = 4
const COUNTER_BYTES = 8
const TAG_BYTES = 16

/** How a frame is made. */
interface TaggedParts {
  readonly ipVersion: 4 | 6
  readonly hasVlan: boolean
  /** Bytes behind the ICRC, which Ethernet asks for. */
  readonly pad: number
  /** Number of the queue pair that it is for. */
  readonly destQp: number
  /** What stands between BTH and trailer. */
  readonly payload: Uint8Array
}

/** A frame, with zeros in its trailer, and where its parts stand. */
export interface TaggedFrame {
  readonly bytes: Buffer
  readonly bthAt: number
  readonly trailerAt: number
  readonly icrcAt: number
}

/** IPv4 and IPv6, each with and without a VLAN, each with and without a pad. */
export const FORMS: readonly Pick<TaggedParts, 'ipVersion' | 'hasVlan' | 'pad'>[] = (
  [4, 6] as const
).flatMap((ipVersion) =>
  [false, true].flatMap((hasVlan) => [0, 9].map((pad) => ({ ipVersion, hasVlan, pad }))),
)

export function taggedFrame(parts: TaggedParts): TaggedFrame {
  const { ipVersion, hasVlan, pad, destQp, payload } = parts
  const ipAt = 14 + (hasVlan ? VLAN_BYTES : 0)
  const ipBytes = ipVersion === 4 ? 20 : 40
  const bthAt = ipAt + ipBytes + UDP_BYTES
  const trailerAt = bthAt + BTH_BYTES + payload.length
  const icrcAt = trailerAt + COUNTER_BYTES + TAG_BYTES
  const bytes = Buffer.alloc(icrcAt + ICRC_BYTES + pad)
  bytes.set([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2])
  if (hasVlan) bytes.writeUInt16BE(0x8100, 12)
  bytes.writeUInt16BE(ipVersion === 4 ? 0x0800 : 0x86dd, ipAt - 2)
  bytes[ipAt] = ipVersion === 4 ? 0x45 : 0x60
  const datagram = icrcAt + ICRC_BYTES - ipAt
  if (ipVersion === 4) bytes.writeUInt16BE(datagram, ipAt + 2)
  else bytes.writeUInt16BE(datagram - ipBytes, ipAt + 4)
  bytes.writeUInt16BE(4791, ipAt + ipBytes + 2)
  bytes.writeUInt16BE(datagram - ipBytes, ipAt + ipBytes + 4)
  bytes[bthAt] = 0x0a
  bytes[bthAt + 4] = 0x40
  bytes.writeUIntBE(destQp, bthAt + 5, 3)
  bytes.set(payload, bthAt + BTH_BYTES)
  return { bytes, bthAt, trailerAt, icrcAt }
}

/** The tag of the frame, whose trailer has the counter already (wire/tag.ts). */
function tagOf(frame: TaggedFrame, key: Uint8Array): Buffer {
  const { bytes, bthAt, trailerAt } = frame
  const covered = Buffer.from(bytes.subarray(bthAt, trailerAt + COUNTER_BYTES))
  covered[4] = 0xff
  const counter = bytes.subarray(trailerAt, trailerAt + COUNTER_BYTES)
  const nonce = Buffer.concat([Buffer.alloc(4), Buffer.from(counter).reverse()])
  const cipher = createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(covered, { plaintextLength: 0 })
  cipher.final()
  return cipher.getAuthTag()
}

/** Puts counter, tag and ICRC into the frame; returns its bytes. */
export function sealed(frame: TaggedFrame, key: Uint8Array, counter: bigint | number): Buffer {
  const { bytes, trailerAt } = frame
  bytes.writeBigUInt64BE(BigInt(counter), trailerAt)
  bytes.set(tagOf(frame, key), trailerAt + COUNTER_BYTES)
  fillIcrc(bytes, 0, bytes.length)
  return bytes
}
