/**
 * Two cards with peers, of which one relays to the other in a session there; and the other one's
 * side of that, for who is on the path between them.
 */

import type { Identity } from '../../../firmware/board/hal.ts'
import type { KeyPair } from '../../../firmware/session/noise.ts'
import { putU16, putU32, u16, u24 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES } from '../../../firmware/wire/ethernet.ts'
import { ICRC_BYTES } from '../../../firmware/wire/icrc.ts'
import {
  IPV4_BYTES,
  IPV4_CHECKSUM,
  IPV4_DESTINATION,
  IPV4_TOTAL_LENGTH,
  ipv4Checksum,
} from '../../../firmware/wire/ipv4.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TRAILER_BYTES } from '../../../firmware/wire/tag.ts'
import { UDP_LENGTH } from '../../../firmware/wire/udp.ts'
import { type Closed, RelayWire } from '../cards/relay-wire.ts'
import { writeIcrc } from '../wire/frames.ts'
import { changed, type Guest } from './guest.ts'
import { ADMIN, CARD, keyPair, peer } from './peers.ts'

const BTH_AT = ETHERNET_BYTES + IPV4_BYTES + 8
const BTH_DEST_QP = 5

/** The keys of the card that relays; the other one has those of CARD. */
export const RELAYING: KeyPair = keyPair(21)

export const NEAR: Identity = {
  secret: [...RELAYING.secret],
  peers: [peer('admin', ADMIN, { admin: true })],
}

/** Card B, where the relaying card may do that. */
export function farIdentity(rights: Partial<Identity['peers'][0]> | null): Identity {
  const relaying = rights === null ? [] : [peer('card-a', RELAYING, rights)]
  return { secret: [...CARD.secret], peers: [peer('admin', ADMIN, { admin: true }), ...relaying] }
}

const BOTH: Closed = { a: NEAR, b: farIdentity({ write: ['far'] }) }

/** What ATTACH asks for. */
interface Inside {
  readonly name?: string
  readonly region?: string
  readonly key?: Uint8Array
  readonly port?: number
  readonly client?: number
}

export function attachingInside(guest: Guest, inside: Inside = {}): (body: Uint8Array) => void {
  const { name = 'far', region = '', key = CARD.public, port = 0, client = 7 } = inside
  return (body) => {
    body.set(new TextEncoder().encode(name), mad.REGION_NAME)
    body[mad.ATTACH_IP_VERSION] = 4
    body.set([10, 0, 0, 3], mad.ATTACH_ADDRESS)
    putU16(body, mad.ATTACH_PORT, port)
    putU32(body, mad.ATTACH_CLIENT_HIGH, guest.tag)
    putU32(body, mad.ATTACH_CLIENT_LOW, client)
    body.set(key, mad.ATTACH_KEY)
    body.set(new TextEncoder().encode(region), mad.ATTACH_REGION)
  }
}

export class InsideWire extends RelayWire {
  constructor(closed: Closed = BOTH) {
    super(closed)
  }

  get guest(): Guest {
    return this.hostA as Guest
  }

  /** Asks for the relay until it is connected, or cannot be. */
  enter(inside: Inside = {}): string {
    return this.ask(attachingInside(this.guest, inside))
  }
}

/** The frame without its trailer; lengths and ICRC are right. */
export function withoutTag(frame: Uint8Array): Uint8Array {
  const copy = new Uint8Array(frame.length - TRAILER_BYTES)
  copy.set(frame.subarray(0, copy.length))
  const ip = ETHERNET_BYTES
  const udp = ip + IPV4_BYTES
  putU16(copy, ip + IPV4_TOTAL_LENGTH, u16(frame, ip + IPV4_TOTAL_LENGTH) - TRAILER_BYTES)
  putU16(copy, udp + UDP_LENGTH, u16(frame, udp + UDP_LENGTH) - TRAILER_BYTES)
  putU16(copy, ip + IPV4_CHECKSUM, 0)
  putU16(copy, ip + IPV4_CHECKSUM, ipv4Checksum(copy, ip))
  writeIcrc(copy)
  return copy
}

/** The frame with another byte in front of its tag; the ICRC is right. */
export function withOtherByte(frame: Uint8Array): Uint8Array {
  const copy = frame.slice()
  copy[copy.length - ICRC_BYTES - TRAILER_BYTES - 1]! ^= 1
  writeIcrc(copy)
  return copy
}

/** The frame from 10.0.0.9. */
export function fromElsewhere(frame: Uint8Array): Uint8Array {
  const copy = frame.slice()
  const last = ETHERNET_BYTES + IPV4_DESTINATION - 1
  // One's complement: what the address gains, the check sum of the header loses.
  const sum = u16(copy, ETHERNET_BYTES + 10) - (9 - copy[last]!)
  copy[ETHERNET_BYTES + 10] = sum >> 8
  copy[ETHERNET_BYTES + 11] = sum
  copy[last] = 9
  writeIcrc(copy)
  return copy
}

/** Is it for the queue pair of calls? */
export function isDatagram(frame: Uint8Array): boolean {
  return u24(frame, BTH_AT + BTH_DEST_QP) === mad.MANAGEMENT_QP
}

/** The frame from its destination to its source. */
export function turnedRound(frame: Uint8Array): Uint8Array {
  const copy = frame.slice()
  copy.set(frame.subarray(6, 12), 0)
  copy.set(frame.subarray(0, 6), 6)
  const source = ETHERNET_BYTES + IPV4_DESTINATION - 4
  copy.set(frame.subarray(source + 4, source + 8), source)
  copy.set(frame.subarray(source, source + 4), source + 4)
  return changed(copy, () => {})
}
