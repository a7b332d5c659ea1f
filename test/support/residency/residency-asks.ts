/**
 * What a requester of memory status says on the wire, frame by frame, and what it is told: requests
 * whose every field can be set to anything, and answers and notices as lines that are easily read.
 */

import { type Bseth, blankBseth, readBseth } from '../../../firmware/wire/block-size.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import {
  blankMseth,
  ENTRY_BYTES,
  FORM_BITMAP,
  type Mseth,
  readMseth,
} from '../../../firmware/wire/memory-status.ts'
import {
  ASSOCIATE,
  BLOCK_SIZE,
  BLOCK_SIZE_ANSWER,
  MEMORY_STATUS,
  PREFETCH_HINT,
  RC_ACKNOWLEDGE,
} from '../../../firmware/wire/opcode.ts'
import type { Pfeth } from '../../../firmware/wire/prefetch.ts'
import type { Sent, TestPeer } from '../cards/test-card.ts'
import { frameOf } from '../wire/frames.ts'
import { ACK } from '../wire/requests.ts'

/** The memory that is meant. */
export interface Range {
  readonly rkey: number
  /** Virtual address. */
  readonly address: number
  readonly length: number
}

/** PSN of the queue pair, which moves on; another one if it is given. */
function takePsn(qp: TestPeer, psn: number | undefined): number {
  const mine = psn ?? qp.psn
  if (psn === undefined) qp.psn = (mine + 1) & 0xffffff
  return mine
}

function rethOf({ rkey, address, length }: Range) {
  return { rkey, length, vaHigh: Math.floor(address / 2 ** 32), vaLow: address % 2 ** 32 }
}

export function associateFrame(
  qp: TestPeer,
  range: Range,
  fields: Partial<Bseth> = {},
  psn?: number,
): Uint8Array {
  const bth = { opcode: ASSOCIATE, destQp: qp.number, psn: takePsn(qp, psn), ackRequest: true }
  const bseth = { blockSizeLog2: 0, ...fields }
  return frameOf({ bth, reth: rethOf(range), bseth })
}

export function blockSizeFrame(
  qp: TestPeer,
  rkey: number,
  fields: Partial<Bseth> = {},
  psn?: number,
): Uint8Array {
  const bth = { opcode: BLOCK_SIZE, destQp: qp.number, psn: takePsn(qp, psn), ackRequest: true }
  return frameOf({ bth, reth: { rkey }, bseth: { blockSizeLog2: 0, ...fields } })
}

export function hintFrame(
  qp: TestPeer,
  range: Range,
  fields: Partial<Pfeth> = {},
  psn?: number,
): Uint8Array {
  const bth = { opcode: PREFETCH_HINT, destQp: qp.number, psn: takePsn(qp, psn), ackRequest: true }
  return frameOf({ bth, reth: rethOf(range), pfeth: fields })
}

/** The acknowledgement of a request of the card's own, in its PSN space. */
export function acknowledgeFrame(qp: TestPeer, psn: number): Uint8Array {
  const bth = { opcode: RC_ACKNOWLEDGE, destQp: qp.number, psn }
  return frameOf({ bth, aeth: { syndrome: ACK, msn: 1 } })
}

/** Our answer to a BLOCK_SIZE of the card's. */
export function answerFrame(qp: TestPeer, psn: number, fields: Partial<Bseth>): Uint8Array {
  const bth = { opcode: BLOCK_SIZE_ANSWER, destQp: qp.number, psn }
  return frameOf({ bth, aeth: { syndrome: ACK, msn: 1 }, bseth: fields })
}

const STATUS = ['granted', 'offered', 'refused']

/** `granted 2^16, in force` and the like. */
export function sizeLine(one: Bseth): string {
  return `${STATUS[one.status]} 2^${one.blockSizeLog2}${one.commit ? ', in force' : ''}`
}

/** The BSETH of a frame that has one. */
export function bsethOf({ bytes, packet }: Sent): Bseth {
  const bseth = blankBseth()
  readBseth(bseth, bytes, packet.bthAt + packet.row!.bsethAt)
  return bseth
}

/** The answers to ASSOCIATE and BLOCK_SIZE. */
export function sizeAnswers(sent: readonly Sent[]): Bseth[] {
  return sent.filter(({ opcode }) => opcode === BLOCK_SIZE_ANSWER).map(bsethOf)
}

/** The BLOCK_SIZE requests of the card's own. */
export function offersOf(sent: readonly Sent[]): Sent[] {
  return sent.filter(({ opcode }) => opcode === BLOCK_SIZE)
}

/** A notice, read. */
export interface Notice extends Mseth {
  readonly psn: number
  /** Each entry: block and whether it is ready. */
  readonly blocks: readonly (readonly [block: number, ready: boolean])[]
}

export function noticesOf(sent: readonly Sent[]): Notice[] {
  return sent.filter(({ opcode }) => opcode === MEMORY_STATUS).map(noticeOf)
}

function noticeOf({ bytes, packet, payload, psn }: Sent): Notice {
  const mseth = blankMseth()
  readMseth(mseth, bytes, packet.bthAt + packet.row!.msethAt)
  return { ...mseth, psn, blocks: entriesOf(mseth, payload) }
}

/** The entries of a notice with that payload. */
export function entriesOf(mseth: Mseth, payload: Uint8Array): (readonly [number, boolean])[] {
  return Array.from({ length: mseth.entries }, (_, i) => {
    if (mseth.form === FORM_BITMAP) {
      return [mseth.firstBlock + i, ((payload[i >> 3]! >> (7 - (i & 7))) & 1) === 1] as const
    }
    return [u32(payload, i * ENTRY_BYTES), payload[i * ENTRY_BYTES + 4] === 1] as const
  })
}

const KINDS = ['', 'change', 'current', 'error', 'unavailable', 'reset', 'health']

/** `change 3 ready, 5 not` and the like; `current ██░` shows every block. */
export function noticeLine(one: Notice): string {
  const more = one.more ? ' …' : ''
  const kind = KINDS[one.kind]!
  if (one.form === FORM_BITMAP) {
    const first = one.firstBlock === 0 ? '' : ` from ${one.firstBlock}`
    const map = one.blocks.map(([, ready]) => (ready ? '█' : '░')).join('')
    return `${kind}${first} ${map}${more}`
  }
  const states = one.blocks.map(([block, ready]) => `${block} ${ready ? 'ready' : 'not'}`)
  return [kind, states.join(', ')].filter((word) => word !== '').join(' ') + more
}
