/** The registers of a card's port, as its host may write and read them (hal.ts, PORT_*). */

import {
  PORT_AT,
  PORT_EPOCH,
  PORT_HEADER,
  PORT_LINK,
  PORT_POINTER,
  PORT_REGISTER,
} from '../../firmware/board/hal.ts'
import { ForbiddenAccess } from '../host-port.ts'

/** What a read of a register gives if there is nobody to answer it. */
export const NO_CARD = 0xffffffff

/** The registers that the host writes, offsets from PORT_AT. */
export const WRITABLE: readonly number[] = [
  PORT_EPOCH,
  PORT_HEADER,
  PORT_REGISTER,
  PORT_POINTER,
].map((at) => at - PORT_AT)

/** Throws if that is no register that the host writes. */
export function checkWritable(at: number): void {
  if (WRITABLE.includes(at)) return
  const message = `register ${at} is the card's: write epoch, header, doorbell or pointer`
  throw new ForbiddenAccess('register', -1, at, message)
}

/** Throws if there is no register there to be read. */
export function checkReadable(at: number): void {
  if (at >= 0 && at <= PORT_LINK - PORT_AT && at % 4 === 0) return
  throw new RangeError(`there is no register at ${at}`)
}
