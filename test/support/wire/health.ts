/** What a card tells of its part's health to who has asked (HEALTH of wire/management.ts). */

import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RC_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import type { Conversation, Sent, TestPeer } from './conversation.ts'

/** Who asks. */
type Asker = Pick<Conversation, 'manage'>

/** The mark that the messages have, unless another one is said. */
const MARK = 0x1234_5678

interface Asked {
  readonly action?: number
  readonly mark?: number
}

export function asksHealth(
  { number, peer }: Pick<TestPeer, 'number' | 'peer'>,
  { action = mad.HEALTH_BEGIN, mark = MARK }: Asked = {},
): (body: Uint8Array) => void {
  return (body) => {
    putU32(body, mad.HEALTH_QP, number)
    putU32(body, mad.HEALTH_CLIENT_QP, peer)
    putU32(body, mad.HEALTH_MARK, 0xfeed)
    putU32(body, mad.HEALTH_MARK + 4, mark)
    body[mad.HEALTH_ACTION] = action
  }
}

/** Asks that the queue pair be told, or no more: the fault, and the answer. */
export function askHealth(
  card: Asker,
  qp: Pick<TestPeer, 'number' | 'peer'>,
  asked: Asked = {},
): { fault: string; body: Uint8Array } {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_HEALTH, asksHealth(qp, asked))
}

/** What is told of a part, in the fields that are health. */
export interface Told {
  readonly state: number
  readonly bits: number
  readonly fault: number
  readonly lost: number
  readonly superblock: number
  readonly refusing: number
  readonly mended: number
  readonly failures: number
}

/** Reads a body of STATUS. */
export function healthOf(body: Uint8Array): Told {
  return {
    state: body[mad.PART_STATE]!,
    bits: body[mad.PART_HEALTH]!,
    fault: body[mad.PART_FAULT]!,
    lost: u32(body, mad.PART_UNSETTLED),
    superblock: u32(body, mad.PART_SUPERBLOCK_WHOLE),
    refusing: u32(body, mad.PART_REFUSING),
    mended: u32(body, mad.PART_MENDED),
    failures: u32(body, mad.PART_MEDIA_FAILURES),
  }
}

/** A message of the card's, read. */
export interface HealthMessage {
  /** The queue pair of the client. */
  readonly to: number
  readonly psn: number
  readonly number: number
  readonly mark: number
  readonly told: Told
  readonly body: Uint8Array
}

/** Those that stand among what a card sent. */
export function healthMessages(sent: readonly Sent[]): HealthMessage[] {
  return sent.flatMap(({ opcode, packet, psn, payload }) => {
    if (opcode !== RC_SEND_ONLY || u32(payload, 0) !== mad.HEALTH_MAGIC) return []
    const body = payload.slice(mad.HEALTH_SEND_PART)
    const number = u32(payload, mad.HEALTH_SEND_NUMBER)
    const mark = u32(payload, mad.HEALTH_SEND_MARK + 4)
    return [{ to: packet.destQp, psn, number, mark, told: healthOf(body), body }]
  })
}
