/** Why a part is closed: what does not fence takes nothing more until it is started again. */

import { DMA, type Fault, FLUSH, MEDIA, NOT_ARMED } from '../board/fault.ts'
import { DMA_FAILED, MEDIA_ERROR, NOT_ARMED as NOT_ARMED_RESULT } from '../board/hal.ts'

/** Why a part that answered a fence so takes nothing more (D-13). */
export function closedBy(result: number): Fault {
  return result === NOT_ARMED_RESULT ? NOT_ARMED : FLUSH
}

/**
 * The fault of a list that failed: the medium's own, that of a host that does not answer, or one
 * that closes the part.
 */
export function listFault(result: number): Fault {
  if (result === DMA_FAILED) return DMA
  return result === MEDIA_ERROR ? MEDIA : closedBy(result)
}
