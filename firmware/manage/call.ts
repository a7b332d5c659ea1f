/**
 * One control call on its way through its handler.
 *
 * Invariant: body and answer lie in packet memory and do not overlap; the answer begins as
 * a copy of the request, so what a handler does not write is what was asked.
 */

import type { Fault } from '../board/fault.ts'
import type { Session } from '../session/context.ts'
import { putU32, u32 } from '../wire/bytes.ts'
import type { Packet } from '../wire/packet.ts'
import type { ManageContext } from './context.ts'

/** One request: where its fields lie, and where those of the answer go. */
export interface Call {
  readonly state: ManageContext
  readonly bytes: Uint8Array
  /** Position of the request's body. */
  readonly at: number
  /** Position of the answer's body. */
  readonly to: number
  readonly modifier: number
  /** Who asks; null: our own host, through its queue. */
  readonly packet: Packet | null
  /** The session that it came in; null: in the clear. */
  readonly session: Session | null
}

export type Handler = (call: Call) => Fault

export function put64(bytes: Uint8Array, at: number, value: number): void {
  putU32(bytes, at, Math.floor(value / 2 ** 32))
  putU32(bytes, at + 4, value % 2 ** 32)
}

/** A 64-bit field that must be exact: what is not is beyond every limit that it is held against. */
export function get64(bytes: Uint8Array, at: number): number {
  return u32(bytes, at) * 2 ** 32 + u32(bytes, at + 4)
}
