/**
 * A card with a region of bytes, one of bytes registered write-persist and one of records, and a
 * look at what is durable in the very moment in which an answer leaves.
 */

import { type Facts, TRANSMIT } from '../../../firmware/board/hal.ts'
import { DATA_AT } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type Sent, TestCard, type TestPeer, type TestRegion } from './test-card.ts'

export const BYTES_LENGTH = 65536
export const RECORD_SLOTS = 8
export const RECORD_BYTES = 512

/** Where the regions lie in the part. */
export const BYTES_AT: number = DATA_AT
export const KEPT_AT: number = BYTES_AT + BYTES_LENGTH
export const RECORDS_AT: number = KEPT_AT + BYTES_LENGTH

/** Bytes of one copy of the records. */
const RECORDS_AREA = 8192

export interface BytesCard {
  readonly card: TestCard
  readonly bytes: TestRegion
  /** Registered write-persist. */
  readonly kept: TestRegion
  readonly records: TestRegion
  readonly qp: TestPeer
}

export function bytesCard(mtu = 1024, facts: Partial<Facts> = {}): BytesCard {
  const card = new TestCard(1 << 19, { facts }).format()
  const shape = { kind: mad.KIND_BYTES, length: BYTES_LENGTH }
  const bytes = card.provision({ name: 'bytes', ...shape })
  const kept = card.provision({ name: 'kept', ...shape, flags: 2 })
  const records = card.provision({ slots: RECORD_SLOTS, capacity: RECORD_BYTES })
  return { card, bytes, kept, records, qp: card.connect(mtu) }
}

/** What the three regions hold, except for the headers of records: these name their connection. */
export function contentsOf(one: BytesCard): Uint8Array {
  const content = one.card.nvdimm.live.slice(BYTES_AT, RECORDS_AT + 2 * RECORDS_AREA)
  for (let copy = 0; copy < 2; copy++) {
    for (let slot = 0; slot < RECORD_SLOTS; slot++) {
      const at = RECORDS_AT - BYTES_AT + copy * RECORDS_AREA + slot * one.records.stride
      content.fill(0, at, at + one.records.stride - RECORD_BYTES)
    }
  }
  return content
}

/** Serves a burst; `look` is called behind each frame that leaves, with it. */
export function watch(
  one: BytesCard,
  frames: readonly Uint8Array[],
  look: (sent: Sent) => void,
): void {
  const { card } = one
  let seen = 0
  const catchUp = (): void => {
    for (; seen < card.sent.length; seen++) look(card.sent[seen]!)
  }
  card.machine.observe({
    onCommand: (_, op) => {
      if (op !== TRANSMIT || seen < card.sent.length) catchUp()
    },
  })
  card.serve(...frames)
  catchUp()
  card.machine.observe({})
}
