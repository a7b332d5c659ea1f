/** Frames with a trailer (firmware/wire/tag.ts), made of frames without one. */

import type { Tags } from '../../../boards/software/tags.ts'
import { putU16, u16 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES } from '../../../firmware/wire/ethernet.ts'
import {
  IPV4_BYTES,
  IPV4_CHECKSUM,
  IPV4_TOTAL_LENGTH,
  ipv4Checksum,
} from '../../../firmware/wire/ipv4.ts'
import { TRAILER_BYTES } from '../../../firmware/wire/tag.ts'
import { UDP_LENGTH } from '../../../firmware/wire/udp.ts'

const ICRC_BYTES = 4

/** The frame with room for a trailer in front of its ICRC; both are zeros. */
export function withRoom(frame: Uint8Array): Uint8Array {
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
