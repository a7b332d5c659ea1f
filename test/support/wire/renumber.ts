/** The records of one connection, again and again: the same frames under new numbers. */

import { fillIcrc } from '../../../boards/software/icrc.ts'
import { putU24, putU32 } from '../../../firmware/wire/bytes.ts'
import type { TestPeer } from '../cards/test-card.ts'

/** Positions in an IPv4 WRITE_PERSIST Only: PSN, slot, operation id. */
const BTH_AT = 42
const PSN_AT = BTH_AT + 9
const SLOT_AT = BTH_AT + 12
const OPERATION_AT = BTH_AT + 28 + 12

/** Numbers the frames on from where the last ones ended, over so many slots, and seals them. */
export function renumber(frames: readonly Uint8Array[], qp: TestPeer, slots: number): void {
  for (const frame of frames) {
    qp.operation += 1
    putU24(frame, PSN_AT, qp.psn)
    putU32(frame, SLOT_AT, qp.operation % slots)
    putU32(frame, OPERATION_AT, qp.operation)
    fillIcrc(frame, 0, frame.length)
    qp.psn = (qp.psn + 1) & 0xffffff
  }
}
