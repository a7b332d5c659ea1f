/** What a frame says, for people: its packet, or what is wrong with it. */

import { FAULTS, PASS } from '../../../firmware/board/fault.ts'
import { checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { printPacket } from './print.ts'

/** Reads the frame into `packet`, which is then valid where the frame is good. */
export function textOfFrame(
  packet: Packet,
  frame: Uint8Array,
): { readonly good: boolean; readonly text: string } {
  const fault = checkPacket(packet, frame, 0, frame.length)
  if (fault === PASS) return { good: true, text: printPacket(packet, frame) }
  const { name, meaning } = FAULTS[fault]!
  return { good: false, text: `${name}: ${meaning}` }
}
