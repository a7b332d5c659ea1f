/**
 * The connection messages of a capture, held with a card: a Linux client's REQ, RTU and DREQ go in
 * with the card's numbers and the tests' addresses in the place of the recorded ones.
 */

import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import {
  blankLibrpma,
  type LibrpmaDescriptor,
  readLibrpma,
} from '../../../firmware/wire/librpma.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { type CmMessage, madFrame, messagesOf } from './cm.ts'
import { type Sent, sentOf } from './conversation.ts'
import { hex, hexOf } from './frames.ts'
import { CAPTURES } from './vectors.ts'

const CLIENT = hex('0a090001')
const SERVER = hex('0a090002')
const OUR_CLIENT = hex('0a000001')
const OUR_CARD = hex('0a000002')

/** One recorded message. */
interface Step extends CmMessage {
  readonly fromClient: boolean
}

/** Every frame of the capture, in order. */
export function framesOf(name: string): readonly Sent[] {
  return CAPTURES.find((capture) => capture.name === name)!.frames.map((frame) => sentOf(frame))
}

export function isFromClient({ bytes }: Sent): boolean {
  return hexOf(bytes.slice(26, 30)) === hexOf(CLIENT)
}

/** The connection message in a frame, or null. */
export function messageIn(frame: Sent): Step | null {
  if (frame.opcode !== UD_SEND_ONLY) return null
  const [message] = messagesOf([frame])
  return message === undefined ? null : { ...message, fromClient: isFromClient(frame) }
}

/** The port that a REQ asks for. */
export function portOf(step: Step): number {
  const req = cm.blankReq()
  cm.readReq(req, step.bytes, cm.CM_BODY)
  return req.serviceLow & 0xffff
}

export function repIn({ bytes }: CmMessage): cm.CmRep {
  const rep = cm.blankRep()
  cm.readRep(rep, bytes, cm.CM_BODY)
  return rep
}

export function rejIn({ bytes }: CmMessage): cm.CmRej {
  const rej = cm.blankRej()
  cm.readRej(rej, bytes, cm.CM_BODY)
  return rej
}

export function descriptorIn(rep: cm.CmRep): LibrpmaDescriptor {
  const descriptor = blankLibrpma()
  if (!readLibrpma(descriptor, rep.privateData, 0)) throw new Error('no descriptor of librpma')
  return descriptor
}

/** Exchanges four bytes wherever they stand. */
function exchange(bytes: Uint8Array, from: Uint8Array, to: Uint8Array): void {
  for (let at = 0; at + 4 <= bytes.length; at++) {
    if (from.every((byte, i) => bytes[at + i] === byte)) bytes.set(to, at)
  }
}

/**
 * The client's message for our card: addresses as the tests have them, and, behind a REP, the
 * card's id where the server's was, and its queue pair in a DREQ.
 */
export function forCard({ bytes, attribute }: Step, rep: cm.CmRep | null): Uint8Array {
  const mad = bytes.slice()
  exchange(mad, CLIENT, OUR_CLIENT)
  exchange(mad, SERVER, OUR_CARD)
  if (attribute !== cm.CM_REQ && rep !== null) {
    putU32(mad, cm.CM_BODY + cm.CM_REMOTE_ID, rep.localId)
    if (attribute === cm.CM_DREQ) cm.putDreqQpn(mad, cm.CM_BODY, rep.qpn)
  }
  return madFrame(mad)
}

/** Transaction and the client's id, which every answer repeats. */
export function threadOf({ header, bytes }: CmMessage): string {
  const { attribute, transactionHigh, transactionLow } = header
  const id = u32(bytes, cm.CM_BODY + cm.CM_REMOTE_ID)
  return `attribute ${attribute}, transaction ${transactionHigh}.${transactionLow}, for ${id}`
}
