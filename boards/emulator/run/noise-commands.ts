/**
 * The commands that sessions are made of (hal.ts, AGREE to UNSEAL), over packet memory.
 *
 * Invariant: what a command reads is read before it writes, so that any ranges may overlap which
 * the contract lets overlap; a command that fails writes nothing.
 */

import {
  AGREE,
  AUTHENTICATION_FAILED,
  BAD_COMMAND,
  DONE,
  HASH,
  SEAL,
  SEAL_DATA_BYTES,
  SEAL_KEY_BYTES,
  SEAL_NONCE_BYTES,
  SEAL_TAG_BYTES,
} from '../../../firmware/board/hal.ts'
import { agree, hash, NOISE_KEY_BYTES, seal, unseal } from '../../software/noise-primitives.ts'

/* What lies at `aux` of SEAL and UNSEAL: key, nonce, length of the associated data, that data. */
const NONCE_AT = SEAL_KEY_BYTES
const DATA_LENGTH_AT: number = NONCE_AT + SEAL_NONCE_BYTES
const DATA_AT: number = DATA_LENGTH_AT + 4

/** Whether ranges share a byte without beginning at the same one. */
function cross(one: number, oneBytes: number, other: number, otherBytes: number): boolean {
  const end = Math.min(one + oneBytes, other + otherBytes)
  return one !== other && Math.max(one, other) < end
}

export class NoiseCommands {
  private readonly packets: Uint8Array
  private readonly isThere: (at: number, length: number) => boolean

  /** `isThere` tells of any two numbers whether so many bytes at that address are in `packets`. */
  constructor(packets: Uint8Array, isThere: (at: number, length: number) => boolean) {
    this.packets = packets
    this.isThere = isThere
  }

  /** One command, AGREE to UNSEAL, with its operands as they stand in the ring; its result. */
  run(op: number, from: number, to: number, length: number, aux: number): number {
    if (op === AGREE) return this.agree(from, to, length, aux)
    return op === HASH ? this.hash(from, to, length) : this.seal(op, from, to, length, aux)
  }

  private bytes(at: number, length: number): Uint8Array {
    return this.packets.subarray(at, at + length)
  }

  /** Writes what was computed; null is that a peer has proved nothing. */
  private finish(to: number, computed: Uint8Array | null): number {
    if (computed === null) return AUTHENTICATION_FAILED
    this.packets.set(computed, to)
    return DONE
  }

  private agree(scalar: number, to: number, length: number, point: number): number {
    if (length !== NOISE_KEY_BYTES) return BAD_COMMAND
    for (const at of [scalar, to, point]) if (!this.isThere(at, length)) return BAD_COMMAND
    return this.finish(to, agree(this.bytes(scalar, length), this.bytes(point, length)))
  }

  private hash(from: number, to: number, length: number): number {
    if (!this.isThere(from, length) || !this.isThere(to, NOISE_KEY_BYTES)) return BAD_COMMAND
    return this.finish(to, hash(this.bytes(from, length)))
  }

  private seal(op: number, from: number, to: number, length: number, aux: number): number {
    const made = op === SEAL ? length + SEAL_TAG_BYTES : length - SEAL_TAG_BYTES
    if (!this.isThere(from, length) || !this.isThere(to, made)) return BAD_COMMAND
    if (cross(from, length, to, made) || !this.isThere(aux, DATA_AT)) return BAD_COMMAND
    // A word in the machine's own order, aligned or not.
    const word = this.packets.slice(aux + DATA_LENGTH_AT, aux + DATA_AT)
    const dataLength = new Uint32Array(word.buffer)[0]!
    if (dataLength > SEAL_DATA_BYTES || !this.isThere(aux, DATA_AT + dataLength)) return BAD_COMMAND
    const key = this.bytes(aux, SEAL_KEY_BYTES)
    const nonce = this.bytes(aux + NONCE_AT, SEAL_NONCE_BYTES)
    const data = this.bytes(aux + DATA_AT, dataLength)
    const work = op === SEAL ? seal : unseal
    return this.finish(to, work(key, nonce, data, this.bytes(from, length)))
  }
}
