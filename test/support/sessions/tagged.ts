/** Queue pairs with tags (firmware/wire/tag.ts), and frames of theirs. */

import { fillIcrc } from '../../../boards/software/icrc.ts'
import { Tags } from '../../../boards/software/tags.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES } from '../../../firmware/wire/ethernet.ts'
import {
  IPV4_BYTES,
  IPV4_CHECKSUM,
  IPV4_TOTAL_LENGTH,
  ipv4Checksum,
} from '../../../firmware/wire/ipv4.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TRAILER_BYTES } from '../../../firmware/wire/tag.ts'
import { UDP_LENGTH } from '../../../firmware/wire/udp.ts'
import type { TestPeer } from '../cards/test-card.ts'
import type { Guest } from './guest.ts'

const ICRC_BYTES = 4

/** The frame with room for a trailer in front of its ICRC; both are zeros. */
function withRoom(frame: Uint8Array): Uint8Array {
  const copy = new Uint8Array(frame.length + TRAILER_BYTES)
  copy.set(frame.subarray(0, frame.length - ICRC_BYTES))
  const ip = ETHERNET_BYTES
  const udp = ip + IPV4_BYTES
  putU16(copy, ip + IPV4_TOTAL_LENGTH, u16(frame, ip + IPV4_TOTAL_LENGTH) + TRAILER_BYTES)
  putU16(copy, udp + UDP_LENGTH, u16(frame, udp + UDP_LENGTH) + TRAILER_BYTES)
  putU16(copy, ip + IPV4_CHECKSUM, ipv4Checksum(copy, ip))
  return copy
}

/** Whether the frame has a tag that this end takes. */
export function isTagged(frame: Uint8Array, tags: Tags): boolean {
  return tags.take(frame, 0, frame.length)
}

/** The frame with a tag of that end. */
export function tagged(frame: Uint8Array, tags: Tags): Uint8Array {
  const room = withRoom(frame)
  tags.fill(room, 0, room.length)
  fillIcrc(room, 0, room.length)
  return room
}

/** A queue pair with tags, and its client's end of them. */
export interface TaggedPair {
  readonly qp: TestPeer
  readonly tags: Tags
  /** As the card told them. */
  readonly keys: Uint8Array
}

/** Who asks for such a queue pair. */
interface Asking {
  readonly peer: number
  readonly client: number
  readonly mtu: number
  readonly domain: number
}

const USUAL: Asking = { peer: 0x555, client: 77, mtu: 1024, domain: 0 }

/** Writes the body of a call that asks for such a queue pair. */
export function asksForTags(asking: Partial<Asking> = {}): (body: Uint8Array) => void {
  const { peer, client, mtu, domain } = { ...USUAL, ...asking }
  return (request) => {
    putU32(request, mad.CONNECT_CLIENT_QP, peer)
    putU32(request, mad.CONNECT_CLIENT_ID_LOW, client)
    putU16(request, mad.CONNECT_PATH_MTU, mtu)
    putU16(request, mad.CONNECT_DOMAIN, domain)
    request[mad.CONNECT_TAGS] = 1
  }
}

/** Asks for such a queue pair in the session of that guest, always as the same client. */
export function connectTagged(guest: Guest, asking: Partial<Asking> = {}): TaggedPair {
  const body = guest.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, asksForTags(asking))
  return taggedPair(body, { ...USUAL, ...asking })
}

/** The queue pair of which an answer to that call tells. */
export function taggedPair(body: Uint8Array, asking: Pick<Asking, 'peer' | 'mtu'>): TaggedPair {
  const { peer, mtu } = asking
  const keys = body.slice(mad.CONNECT_TAG_KEYS, mad.CONNECT_TAG_KEYS + mad.CONNECT_TAG_KEYS_BYTES)
  const [number, psn] = [u32(body, mad.CONNECT_QP), u32(body, mad.CONNECT_FIRST_PSN)]
  const qp = { number, peer, mtu, psn, operation: 0 }
  return { qp, keys, tags: new Tags(keys.slice(32), keys.slice(0, 32)) }
}
