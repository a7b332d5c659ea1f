// hot path
/**
 * Elements by which the host follows the memory of a peer (source 5; P5-5 … P5-10, P5-16):
 * ASSOCIATE, BLOCK_SIZE and PREFETCH_HINT.
 *
 * Invariants:
 * - The watch begins with the ASSOCIATE. Where there is no place for another, what is sent opts
 *   out, so that nothing is told to nobody, and the completion says that it was refused.
 * - The completion has the size that was answered; the watch has taken it before.
 * - A hint that is of no use is not sent, and completes like one that was: it is advice.
 */

import type { QueueState } from '../burst/context.ts'
import type { Work } from '../burst/work.ts'
import * as el from '../host/element.ts'
import type { Element } from '../host/host.ts'
import type { HostContext } from '../host/host-state.ts'
import type { HostPair, Posting } from '../host/work.ts'
import { sayBounds } from '../residency/wish.ts'
import { beginWatch, endWatch, findWatch, isVain, takeSize } from '../status/hearing.ts'
import { ASSOCIATE, BLOCK_SIZE, PREFETCH_HINT, type Request } from '../transport/requester.ts'
import { BSETH_BYTES, readBseth, SIZE_REFUSED, writeBseth } from '../wire/block-size.ts'
import { u32 } from '../wire/bytes.ts'
import { blankPfeth, PREFETCH_WILL_NEED, readPfeth } from '../wire/prefetch.ts'

/** Says the headers of `host.element` in the work, if it is one of these. */
export function describeStatus(
  state: HostContext & QueueState,
  pair: HostPair,
  work: Work,
  posting: Posting,
): void {
  const { host, bytes } = state
  const { element } = host
  const { opcode, at } = element
  if (opcode === PREFETCH_HINT) readPfeth(work.pfeth, bytes, at + el.WQE_PFETH)
  if (opcode !== ASSOCIATE && opcode !== BLOCK_SIZE) return
  const { bseth } = work
  readBseth(bseth, bytes, at + el.WQE_BSETH)
  posting.rkey = element.rkey
  posting.unheard = false
  if (bseth.optOut) {
    endWatch(state, pair, element.rkey)
  } else if (opcode === ASSOCIATE) {
    const { rkey, addressHigh, addressLow, length } = element
    if (beginWatch(state, pair, rkey, addressHigh, addressLow, length)) {
      sayBounds(findWatch(state, pair, rkey)!.blocks, bseth)
      return
    }
    posting.unheard = true
    bseth.optIn = false
    bseth.optOut = true
    bseth.current = false
  }
}

const hint = blankPfeth()
const sizeBytes = new Uint8Array(BSETH_BYTES)

/** What the peer has answered: to the watch, and for the completion. */
export function noteSize(state: QueueState, posting: Posting, request: Request): void {
  const { size, status } = request
  if (status !== 'SUCCESS') return
  if (posting.unheard) size.status = SIZE_REFUSED
  const pair = posting.pair!
  const watch = findWatch(state, pair, posting.rkey)
  if (size.status === SIZE_REFUSED) endWatch(state, pair, posting.rkey)
  else if (watch !== null) takeSize(watch.blocks, request)
  writeBseth(sizeBytes, 0, size)
  posting.resultHigh = u32(sizeBytes, 0)
  posting.resultLow = u32(sizeBytes, 4)
  posting.addressHigh = u32(sizeBytes, 8)
  posting.addressLow = u32(sizeBytes, 12)
}

/** Is it a hint that need not be sent? */
export function isVainHint(
  state: HostContext & QueueState,
  pair: HostPair,
  element: Element,
): boolean {
  const { opcode, rkey, addressHigh, addressLow, length, at } = element
  if (opcode !== PREFETCH_HINT) return false
  const watch = findWatch(state, pair, rkey)
  if (watch === null) return false
  readPfeth(hint, state.bytes, at + el.WQE_PFETH)
  if (hint.op !== PREFETCH_WILL_NEED) return false
  return isVain(watch, addressHigh, addressLow, length, state.host.nowUs)
}
