/**
 * The judge of what cards of a world say to each other: read from frames as they leave a card, by
 * code of its own, and by nobody's keys.
 *
 * Invariants, of what is judged:
 * - What a card asks of another one is sealed, but for the first messages of handshakes; and what
 *   is answered in the clear is one of these, or a refusal.
 * - No sealed call is answered more often than it was made, however often it comes.
 * - Every record, and every acknowledgement, has room for the trailer of its tag.
 */

import {
  ACKNOWLEDGE,
  DATAGRAM,
  get16,
  get32,
  HEAD_AT,
  PERSIST_ACK,
  PERSIST_ONLY,
} from '../frames.ts'

const ETHERTYPE_AT = 12
const IPV4 = 0x0800
const ARP = 0x0806
const TO_AT = 30
/** The address of the first card, 10.0.0.2. */
const CARDS_FROM = 0x0a000002
/** What a frame goes to that is for every card but its own. */
export const ALL_CARDS = -2
const CALL_AT = 62
const METHOD_AT = CALL_AT + 3
const TRANSACTION_AT = CALL_AT + 8
const ATTRIBUTE_AT = CALL_AT + 16
const VERSION_AT = CALL_AT + 28
const FAULT_AT = CALL_AT + 29
const SESSION_AT = CALL_AT + 32 + 212
const SEALED = 2
const ANSWER = 0x81
const HANDSHAKE = 0x80
const TRAILER_BYTES = 24
const ICRC_BYTES = 4
/** AETH; the header of a PERSIST_ACK, of which one byte counts the words of a bitmap behind it. */
const AETH_BYTES = 4
const PAETH_BYTES = 32
const WORDS_AT = HEAD_AT + AETH_BYTES + 3
/** RETH and PWETH, and where the former has the length. */
const PERSIST_BYTES = 32
const LENGTH_AT = HEAD_AT + 12

export class Links {
  /** Sealed calls that were made and not answered. */
  private readonly calls: Map<string, number> = new Map()

  /** What is wrong with a frame that card `from` sends to card `to`, or null. */
  judge(from: number, to: number, frame: Uint8Array): string | null {
    if (get16(frame, ETHERTYPE_AT) !== IPV4) return null
    if (frame[HEAD_AT - 12] !== DATAGRAM) {
      return isLongEnough(frame) ? null : `card ${from} sends card ${to} a packet without a tag`
    }
    const isAnswer = frame[METHOD_AT] === ANSWER
    const attribute = get16(frame, ATTRIBUTE_AT)
    if (frame[VERSION_AT] === SEALED) return this.judgeSealed(isAnswer ? to : from, isAnswer, frame)
    if (attribute === HANDSHAKE || (isAnswer && frame[FAULT_AT] !== 0)) return null
    const what = isAnswer ? 'answers' : 'asks something of'
    return `card ${from} ${what} card ${to} in the clear`
  }

  /** Does it answer what came in a session, or under tags? */
  isBelieved(frame: Uint8Array): boolean {
    if (get16(frame, ETHERTYPE_AT) !== IPV4) return false
    const opcode = frame[HEAD_AT - 12]
    if (opcode !== DATAGRAM) return opcode === ACKNOWLEDGE || opcode === PERSIST_ACK
    return frame[VERSION_AT] === SEALED && frame[METHOD_AT] === ANSWER
  }

  private judgeSealed(caller: number, isAnswer: boolean, frame: Uint8Array): string | null {
    const words = [SESSION_AT, TRANSACTION_AT, TRANSACTION_AT + 4].map((at) => get32(frame, at))
    const name = [caller, get16(frame, ATTRIBUTE_AT), ...words].join()
    const left = (this.calls.get(name) ?? 0) + (isAnswer ? -1 : 1)
    this.calls.set(name, left)
    return left < 0 ? 'a card answers a sealed call of another more often than it was made' : null
  }
}

function isLongEnough(frame: Uint8Array): boolean {
  const least = HEAD_AT + TRAILER_BYTES + ICRC_BYTES
  switch (frame[HEAD_AT - 12]) {
    case ACKNOWLEDGE:
      return frame.length >= least + AETH_BYTES
    case PERSIST_ACK:
      return frame.length >= least + AETH_BYTES + PAETH_BYTES + 4 * frame[WORDS_AT]!
    case PERSIST_ONLY:
      return frame.length >= least + PERSIST_BYTES + get32(frame, LENGTH_AT)
    default:
      return true
  }
}

/** The number of the card that the frame goes to; -1 if that is none, or ALL_CARDS. */
export function cardOf(frame: Uint8Array): number {
  if (get16(frame, ETHERTYPE_AT) === ARP) return ALL_CARDS
  const to = get32(frame, TO_AT) - CARDS_FROM
  return to >= 0 && to < 256 ? to : -1
}
