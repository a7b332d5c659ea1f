/**
 * Frames of the driver: Ethernet, IPv4, UDP, BTH, headers, payload, pad and ICRC.
 *
 * Invariant: one source port per queue pair, so that a path keeps its order; DF set,
 * identification 0, TTL 64, UDP checksum 0 (wire-format 1.1). Every frame is fresh memory, because
 * it belongs to the wire once it is sent.
 */

import { fillIcrc } from '../../boards/software/icrc.ts'
import type { Tags } from '../../boards/software/tags.ts'
import { BTH_BYTES, blankBth, writeBth } from '../../firmware/wire/bth.ts'
import { putU16, u32 } from '../../firmware/wire/bytes.ts'
import {
  ETH_DESTINATION,
  ETH_SOURCE,
  ETH_TYPE,
  ETHERNET_BYTES,
  ETHERTYPE_IPV4,
} from '../../firmware/wire/ethernet.ts'
import { ICRC_BYTES } from '../../firmware/wire/icrc.ts'
import { blankIpv4, IPV4_BYTES, writeIpv4 } from '../../firmware/wire/ipv4.ts'
import { TRAILER_BYTES } from '../../firmware/wire/tag.ts'
import { blankUdp, UDP_BYTES, writeUdp } from '../../firmware/wire/udp.ts'
import type { Endpoint } from '../base/wire.ts'

/** Where BTH stands in a frame of the driver. */
export const FRAME_BTH_AT: number = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES

/** First of the source ports: 0xc000 to 0xffff (wire-format 1.1). */
const SOURCE_PORT_BASE = 0xc000

interface FrameFields {
  readonly opcode: number
  readonly destQp: number
  readonly psn: number
  readonly ackRequest: boolean
  readonly solicited?: boolean
  /** Chooses the source port: the number of our queue pair. */
  readonly flow: number
  /** Bytes of headers behind BTH. */
  readonly headerBytes: number
  readonly payload: Uint8Array
  /** The part of the payload that goes into this frame. */
  readonly payloadAt: number
  readonly payloadLength: number
  /** Whether a trailer has room behind the payload (firmware/wire/tag.ts). */
  readonly tagged?: boolean
}

/**
 * A frame between two endpoints, whole except for the headers behind BTH and the ICRC: see `seal`.
 */
export function beginFrame(own: Endpoint, peer: Endpoint, fields: FrameFields): Uint8Array {
  const { headerBytes, payload, payloadAt, payloadLength } = fields
  const padBytes = -payloadLength & 3
  const body = headerBytes + payloadLength + padBytes
  const trailerBytes = fields.tagged === true ? TRAILER_BYTES : 0
  const udpLength = UDP_BYTES + BTH_BYTES + body + trailerBytes + ICRC_BYTES
  const bytes = new Uint8Array(ETHERNET_BYTES + IPV4_BYTES + udpLength)
  bytes.set(peer.mac, ETH_DESTINATION)
  bytes.set(own.mac, ETH_SOURCE)
  putU16(bytes, ETH_TYPE, ETHERTYPE_IPV4)
  writeIpv4(bytes, ETHERNET_BYTES, {
    ...blankIpv4(),
    totalLength: IPV4_BYTES + udpLength,
    source: u32(Uint8Array.from(own.ipv4), 0),
    destination: u32(Uint8Array.from(peer.ipv4), 0),
  })
  writeUdp(bytes, ETHERNET_BYTES + IPV4_BYTES, {
    ...blankUdp(),
    sourcePort: SOURCE_PORT_BASE | (fields.flow & 0x3fff),
    length: udpLength,
  })
  writeBth(bytes, FRAME_BTH_AT, {
    ...blankBth(),
    opcode: fields.opcode,
    solicited: fields.solicited === true,
    padBytes,
    destQp: fields.destQp,
    ackRequest: fields.ackRequest,
    psn: fields.psn,
  })
  const at = FRAME_BTH_AT + BTH_BYTES + headerBytes
  bytes.set(payload.subarray(payloadAt, payloadAt + payloadLength), at)
  return bytes
}

/**
 * Fills in the tag, where it has one, and the ICRC, the standard one or that of Linux's FLUSH; the
 * frame is then whole.
 */
export function seal(
  frame: Uint8Array,
  linuxFlush: boolean = false,
  tags: Tags | null = null,
): Uint8Array {
  tags?.fill(frame, 0, frame.length)
  fillIcrc(frame, 0, frame.length, linuxFlush)
  return frame
}
