// hot path
/**
 * Base Transport Header (IBTA Vol 1, 9.2): 12 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|opcode |SMPPTTTT|     P_Key     |
 *   +-------+-------+-------+-------+
 *  4|FB resv|   destination QP      |
 *   +-------+-------+-------+-------+
 *  8|A resv |         PSN           |
 *   +-------+-------+-------+-------+
 *
 *   S solicited event   M migration state    P pad bytes   T transport version
 *   F, B congestion was met, forward and backward           A acknowledgement wanted
 *
 * M, F, B and the reserved bits are not ours to judge: a receiver ignores them and a sender writes
 * 0, except for B, which makes a congestion notification what it is.
 */

import { putU16, putU24 } from './bytes.ts'

export const BTH_BYTES = 12
export const BTH_OPCODE = 0
export const BTH_FLAGS = 1
export const BTH_PKEY = 2
export const BTH_CONGESTION = 4
export const BTH_DEST_QP = 5
export const BTH_ACK_REQUEST = 8
export const BTH_PSN = 9

/** The default partition, with full membership. */
export const PKEY_DEFAULT = 0xffff

/** Congestion notification (IBTA annex A17): the one opcode that carries B. */
const CNP = 0x81
/** In the byte of congestion: this is a notification of it. */
export const BECN = 0x40

/** The fields of a BTH that we send or judge. */
export interface Bth {
  opcode: number
  /** The receiver of the message shall be woken. */
  solicited: boolean
  /** Zero bytes between payload and ICRC, 0 to 3. */
  padBytes: number
  /** Transport version: 0, others are dropped. */
  version: number
  pkey: number
  /** Queue pair number, 24 bits. */
  destQp: number
  ackRequest: boolean
  /** Packet sequence number, 24 bits. */
  psn: number
}

export function blankBth(): Bth {
  return {
    opcode: 0,
    solicited: false,
    padBytes: 0,
    version: 0,
    pkey: PKEY_DEFAULT,
    destQp: 0,
    ackRequest: false,
    psn: 0,
  }
}

/** Writes 12 bytes at `at`. */
export function writeBth(bytes: Uint8Array, at: number, from: Bth): void {
  bytes[at + BTH_OPCODE] = from.opcode
  bytes[at + BTH_FLAGS] = (from.solicited ? 0x80 : 0) | (from.padBytes << 4) | from.version
  putU16(bytes, at + BTH_PKEY, from.pkey)
  bytes[at + BTH_CONGESTION] = from.opcode === CNP ? BECN : 0
  putU24(bytes, at + BTH_DEST_QP, from.destQp)
  bytes[at + BTH_ACK_REQUEST] = from.ackRequest ? 0x80 : 0
  putU24(bytes, at + BTH_PSN, from.psn)
}
