/** Exit codes of the command: those of sysexits(3), and 1 to 3 for what storage people fear. */

import { ImageError } from '../../../boards/flash/image-error.ts'
import { KeyError } from '../../../boards/software/keys.ts'
import { PeersError } from '../../../boards/software/peers.ts'
import { PerdureError, RefusedError } from '../../base/errors.ts'
import { systemCodeOf } from './system-errors.ts'

export const OK = 0
/** Records are lost, or do not match their check code. */
export const LOST = 1
/** None is lost, but some are not whole in every copy, and cannot be made so. */
export const UNSETTLED = 2
/** Copies had decayed; all are whole again, or of an image can be made so. */
export const REPAIRED = 3
/** The command line makes no sense. */
export const USAGE = 64
/**
 * A file cannot be used: not ours, newer, damaged, unsigned, of a wrong size, a folder, or a
 * private key that others may read.
 */
export const DATA = 65
/** A file that was named is not there. */
export const NO_INPUT = 66
/** The DPU does not answer, or refuses; an address is taken, or is none of this machine. */
export const UNAVAILABLE = 69
/** A bug of ours. */
export const SOFTWARE = 70
/** The system has no memory left, or no descriptors. */
export const SYSTEM = 71
/** Reading or writing failed, or the outcome of a write is unknown. */
export const IO = 74
/** To be tried again: an image is on trial, or marked; records were passed over as under way. */
export const BUSY = 75
/** This user has no permission for a file, or for a port. */
export const NO_PERMISSION = 77

/**
 * What each tells, in the words of the help and of the page that has the one table for all programs
 * (boards/doc/operating.md): those of `perdured` and `perdure-boot` are among them.
 */
export const MEANINGS: ReadonlyMap<number, string> = new Map([
  [OK, 'fine'],
  [LOST, 'records are lost or torn, or others have written into a file that was stored'],
  [UNSETTLED, 'none is lost, but copies of some take no repair'],
  [REPAIRED, "copies had decayed, and all is whole again: of an image, 'recover --scan' mends it"],
  [USAGE, 'the command line makes no sense'],
  [
    DATA,
    'a file cannot be used: blank, foreign, newer, damaged, unsigned, not whole, ' +
      'of a wrong size, a folder',
  ],
  [NO_INPUT, 'a file that was named is not there'],
  [
    UNAVAILABLE,
    'the DPU does not answer, refuses, or is gone; an address, port or image cannot be had',
  ],
  [SOFTWARE, 'a bug of ours'],
  [SYSTEM, 'the system has no memory left, no descriptors, no entropy'],
  [IO, 'reading or writing failed, or the outcome of a write is unknown'],
  [BUSY, "a card is busy: an image is on trial, or marked; 'verify' passed records over"],
  [NO_PERMISSION, 'this user has no permission for a file or a port, or may not become another'],
])

/** Faults that are about what an NVDIMM holds. */
const CONTENT_FAULTS = ['BLANK', 'FOREIGN', 'NEWER', 'DAMAGED', 'TRUNCATED']

/** What files are refused by: images, keys, who may come to a card. */
const FILE_ERRORS = [ImageError, KeyError, PeersError] as const

const OF_PERDURE_CODE: Readonly<Record<string, number>> = {
  PERDURE_ARGUMENT: USAGE,
  PERDURE_TARGET: USAGE,
  PERDURE_UNREACHABLE: UNAVAILABLE,
  PERDURE_REFUSED: UNAVAILABLE,
  PERDURE_NOT_ACCEPTED: UNAVAILABLE,
  PERDURE_TRANSPORT: UNAVAILABLE,
  PERDURE_OUTCOME_UNKNOWN: IO,
  PERDURE_RECORD_LOST: LOST,
  PERDURE_RECORD_CORRUPT: LOST,
  PERDURE_ABORTED: IO,
  PERDURE_DEADLINE: UNAVAILABLE,
  PERDURE_CLOSED: IO,
  PERDURE_IMAGE: DATA,
  PERDURE_QUEUE_FULL: UNAVAILABLE,
  PERDURE_QUEUE_ENDED: UNAVAILABLE,
  PERDURE_MEMORY_FULL: UNAVAILABLE,
  PERDURE_CARD_REMOVED: UNAVAILABLE,
}

const OF_OTHER_CODE: Readonly<Record<string, number>> = {
  FILE_NONE: DATA,
  FILE_UNDER_WAY: DATA,
  FILE_NEWER: DATA,
  FILE_MIXED: LOST,
  FILE_CHANGED: DATA,
  NVDIMM_SIZE: DATA,
  NVDIMM_IN_USE: UNAVAILABLE,
  NVDIMM_CONDITION: DATA,
  PORT_FILE: DATA,
  PORT_FILE_IN_USE: UNAVAILABLE,
  PORT_FILE_CARD: UNAVAILABLE,
  SMP_REFUSED: DATA,
  FORBIDDEN_ACCESS: SOFTWARE,
  FIRMWARE_STOPPED: SOFTWARE,
}

/** Of the operating system, and of the names that it looks up; all others are IO. */
const OF_SYSTEM_CODE: Readonly<Record<string, number>> = {
  ...{ ENAMETOOLONG: USAGE, ELOOP: USAGE },
  ...{ EISDIR: DATA, EEXIST: DATA },
  ...{ ENOENT: NO_INPUT, ENOTDIR: NO_INPUT },
  ...{ EADDRINUSE: UNAVAILABLE, EADDRNOTAVAIL: UNAVAILABLE, ECONNREFUSED: UNAVAILABLE },
  ...{ ENOTFOUND: UNAVAILABLE, EAI_AGAIN: UNAVAILABLE },
  ...{ EMFILE: SYSTEM, ENFILE: SYSTEM, ENOMEM: SYSTEM },
  ...{ EACCES: NO_PERMISSION, EPERM: NO_PERMISSION },
}

/** The exit code that tells of an error. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof RefusedError && CONTENT_FAULTS.includes(error.fault)) return DATA
  if (FILE_ERRORS.some((type) => error instanceof type)) return DATA
  const system = systemCodeOf(error)
  const ofSystem = OF_SYSTEM_CODE[system ?? '']
  if (error instanceof PerdureError) {
    const told = error.code === 'PERDURE_UNREACHABLE' ? ofSystem : undefined
    return told ?? OF_PERDURE_CODE[error.code] ?? UNAVAILABLE
  }
  const code = codeOf(error) ?? system
  return ofSystem ?? OF_OTHER_CODE[code ?? ''] ?? (code === null ? SOFTWARE : IO)
}

/** The `code` of an error of Node, of the emulator, or of ours. */
export function codeOf(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}
