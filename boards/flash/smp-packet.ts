/**
 * A packet of SMP, the management protocol of MCUmgr: a header of 8 bytes, big-endian, and a map of
 * CBOR.
 *
 *    0  version (2 bits, at 3), op (3 bits)   1  flags, 0   2  bytes of the map, 16 bits
 *    4  group, 16 bits                        6  sequence number   7  command
 */

import { encode } from 'cbor2'

export const SMP_HEADER_BYTES = 8
/** Of UDP. */
export const SMP_PORT = 1337
/** What stands before a way of SMP where a card prints it: `smp:unix:PATH`, `smp:udp:HOST:PORT`. */
export const SMP_WAY = 'smp:'

/** A way by UDP, as a card prints it. */
export function udpWay(host: string, port: number): string {
  return `${SMP_WAY}udp:${host.includes(':') ? `[${host}]` : host}:${port}`
}

export const SMP_READ = 0
export const SMP_WRITE = 2
/** The bit of an op that makes it an answer. */
export const SMP_ANSWERS = 1

/** Groups: the system, the images, one of ours (from 64 on a group may be anybody's). */
export const GROUP_OS = 0
export const GROUP_IMAGE = 1
export const GROUP_PERDURE = 20548

/** Commands of the group of the system. */
export const OS_RESET = 5
export const OS_PARAMETERS = 6
/** Commands of the group of the images. */
export const IMAGE_STATE = 0
export const IMAGE_UPLOAD = 1
/** Commands of the group of ours. */
export const PERDURE_ABOUT = 0

interface SmpHeader {
  readonly op: number
  /** 0, or 1: the second version of the protocol. */
  readonly version: number
  readonly group: number
  readonly sequence: number
  readonly command: number
}

/** The packet with that map. */
export function writeSmp(header: SmpHeader, map: object): Uint8Array {
  const { op, version, group, sequence, command } = header
  const body = encode(map)
  const packet = new Uint8Array(SMP_HEADER_BYTES + body.length)
  const view = new DataView(packet.buffer)
  packet[0] = (version << 3) | op
  view.setUint16(2, body.length)
  view.setUint16(4, group)
  packet[6] = sequence
  packet[7] = command
  packet.set(body, SMP_HEADER_BYTES)
  return packet
}
