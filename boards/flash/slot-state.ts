/**
 * What a card knows of its two slots: one record of 128 bytes, little-endian, kept twice.
 *
 *    0  "PERDSLOT"        16  which slot is slot 0     20  security counter
 *    8  generation, 64    17  swap: 0, 2 test, 3 perm  24  format of the part, 0 unknown
 *                         18  trial: 0, 2, 3 likewise  28  0
 *                         19  0
 *   32  hash of slot 0    64  hash of slot 1           96  SHA-256 of the 96 bytes before
 *
 * Slot 0 is always the one that runs, as clients of MCUboot see it: to swap is to change one byte.
 *
 * Invariant: a save is in both places when it returns, the first one synced before the
 * second is touched; so a cut anywhere leaves one of them whole, the old one or the new one. A load
 * takes the whole one of the later generation, and repairs the other.
 */

import { SHA256_BYTES } from './mcuboot.ts'
import { readSealed, writeSealed } from './sealed.ts'
import type { Storage } from './storage.ts'

export const SWAP_NONE = 0
export const SWAP_TEST = 2
export const SWAP_PERMANENT = 3

/** Bytes in front of the SHA-256. */
const STATE_BYTES = 96
const PLACES: readonly number[] = [0, 4096]
const MAGIC = new TextEncoder().encode('PERDSLOT')

const GENERATION = 8
const PRIMARY = 16
const SWAP = 17
const TRIAL = 18
const COUNTER = 20
const FORMAT = 24
const HASHES = 32

/** Of a slot that holds no image. */
export const NO_HASH: Uint8Array = new Uint8Array(SHA256_BYTES)

export interface SlotState {
  readonly generation: bigint
  /** Which of the two places is slot 0. */
  readonly primary: 0 | 1
  /** What the next start does with slot 1. */
  readonly swap: number
  /** How slot 0 is tried: not at all, until a confirm, or until its self-test has passed. */
  readonly trial: number
  readonly counter: number
  /** Format of the part; 0 while nobody has told. */
  readonly format: number
  /** Hashes of the images in slot 0 and slot 1. */
  readonly hashes: readonly [Uint8Array, Uint8Array]
}

export const BLANK_STATE: SlotState = {
  ...{ generation: 0n, primary: 0, swap: SWAP_NONE, trial: SWAP_NONE, counter: 0, format: 0 },
  hashes: [NO_HASH, NO_HASH],
}

function write(state: SlotState): Uint8Array {
  const bytes = new Uint8Array(STATE_BYTES)
  const view = new DataView(bytes.buffer)
  bytes.set(MAGIC)
  view.setBigUint64(GENERATION, state.generation, true)
  view.setUint8(PRIMARY, state.primary)
  view.setUint8(SWAP, state.swap)
  view.setUint8(TRIAL, state.trial)
  view.setUint32(COUNTER, state.counter, true)
  view.setUint32(FORMAT, state.format, true)
  bytes.set(state.hashes[0], HASHES)
  bytes.set(state.hashes[1], HASHES + SHA256_BYTES)
  return bytes
}

/** The record at that place, or null where it is not whole. */
function read(storage: Storage, at: number): SlotState | null {
  const bytes = readSealed(storage, at, STATE_BYTES)
  if (bytes === null || MAGIC.some((byte, i) => byte !== bytes[i])) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  const hash = (slot: number): Uint8Array => {
    return bytes.slice(HASHES + slot * SHA256_BYTES, HASHES + (slot + 1) * SHA256_BYTES)
  }
  return {
    generation: view.getBigUint64(GENERATION, true),
    primary: view.getUint8(PRIMARY) === 0 ? 0 : 1,
    swap: view.getUint8(SWAP),
    trial: view.getUint8(TRIAL),
    counter: view.getUint32(COUNTER, true),
    format: view.getUint32(FORMAT, true),
    hashes: [hash(0), hash(1)],
  }
}

/** What stands there, both records made one; null where neither is whole. */
export function loadState(storage: Storage): SlotState | null {
  const [a, b] = PLACES.map((at) => read(storage, at))
  if (a === null && b === null) return null
  const isBLater = a == null || (b != null && b.generation > a.generation)
  const state = isBLater ? b! : a
  const other = isBLater ? a : b
  if (other?.generation !== state.generation)
    writeSealed(storage, PLACES[isBLater ? 0 : 1]!, write(state))
  return state
}

/** Keeps the state, under the next generation, in both places. */
export function saveState(storage: Storage, state: SlotState): SlotState {
  const next = { ...state, generation: state.generation + 1n }
  for (const at of PLACES) writeSealed(storage, at, write(next))
  return next
}
