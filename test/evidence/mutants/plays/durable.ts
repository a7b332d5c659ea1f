/**
 * Answers, and what is durable in the moment in which they leave (X-1, D-9, P2-5): the judge looks
 * at the part behind every frame, as if the power went then and nothing pending survived.
 */

import { RC_ACKNOWLEDGE, RC_READ_RESPONSE_ONLY } from '../../../../firmware/wire/opcode.ts'
import type { BytesCard } from '../../../support/cards/bytes-card.ts'
import { BYTES_AT, bytesCard, RECORDS_AT, watch } from '../../../support/cards/bytes-card.ts'
import { dataOf, readFrame, type Sent } from '../../../support/cards/test-card.ts'
import { sameBytes } from '../../../support/judges/oracle.ts'
import { writeFrames } from '../../../support/wire/requests.ts'
import type { Play } from '../killer.ts'

const DATA = dataOf(128, 1)

/** Serves the frames; every answer that `counts` must find `data` durable at `at`. */
function durableAt(
  one: BytesCard,
  frames: readonly Uint8Array[],
  at: number,
  data: Uint8Array,
  counts: (sent: Sent) => boolean,
): string | null {
  let answers = 0
  let said: string | null = null
  const part = one.card.nvdimm
  watch(one, frames, (sent) => {
    if (!counts(sent)) return
    answers += 1
    if (sameBytes(part.durable.slice(at, at + data.length), data)) return
    said ??= `opcode 0x${sent.opcode.toString(16)} left before the bytes were durable`
  })
  return said ?? (answers === 0 ? 'there was no answer' : null)
}

const isAck = ({ opcode, syndrome }: Sent): boolean =>
  opcode === RC_ACKNOWLEDGE && syndrome === 0x1f
const isResponse = ({ opcode }: Sent): boolean => opcode === RC_READ_RESPONSE_ONLY

/** A plain WRITE of a record is acknowledged when the record is durable. */
function record(): string | null {
  const one = bytesCard()
  const frames = writeFrames(one.qp, one.records, 0, DATA, { vaHigh: 2 })
  const at = RECORDS_AT + 2 * one.records.stride + 64
  return durableAt(one, frames, at, DATA, isAck)
}

/** A READ acknowledges what its queue pair stored before, and shows nothing else. */
function read(): string | null {
  const one = bytesCard()
  const { bytes, qp } = one
  const frames = [
    ...writeFrames(qp, bytes, 0, DATA, { ackRequest: false }),
    readFrame(qp, bytes, 0, 0, 128),
  ]
  let shown: Uint8Array | null = null
  watch(one, frames, (sent) => {
    if (isResponse(sent)) shown = sent.payload
  })
  if (shown === null || !sameBytes(shown, DATA)) return 'a READ shows what was there before'
  const again = bytesCard()
  const write = writeFrames(again.qp, again.bytes, 0, DATA, { ackRequest: false })
  const reading = readFrame(again.qp, again.bytes, 0, 0, 128)
  return durableAt(again, [...write, reading], BYTES_AT, DATA, isResponse)
}

export const DURABLE: Readonly<Record<string, Play>> = {
  'a WRITE of a record': record,
  'a READ behind a WRITE': read,
}
