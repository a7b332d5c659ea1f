// hot path
/**
 * The requester's side of the agreement on a block size (source 5; P5-7 … P5-10, P5-29): wish,
 * counter-offer, and sizes that the responder proposes later.
 *
 * Invariant: a size is in force only when an answer commits to it, ours or the responder's;
 * without one the block is what it was, and at first all of what is associated. A size that we do
 * not have room for is never committed to.
 */

import {
  BLOCK_SIZE_VERSION,
  BSETH_WORDS,
  type Bseth,
  SIZE_GRANTED,
  SIZE_OFFERED,
  SIZE_REFUSED,
} from '../wire/block-size.ts'
import { type Blocks, leastTaken, resize } from './blocks.ts'
import { mostLog2 } from './size.ts'

/** What an answer asks of us: nothing; propose the size that it offers; it is over. */
export const ANSWER_SETTLED = 0
export const ANSWER_OFFER = 1
export const ANSWER_REFUSED = 2

/** Is it a header that we understand? */
export function isBlockSize(bseth: Bseth): boolean {
  const { version, words, reserved, status } = bseth
  return (
    version === BLOCK_SIZE_VERSION &&
    words === BSETH_WORDS &&
    reserved === 0 &&
    status <= SIZE_REFUSED
  )
}

/** Sizes that we take, log2: for which we have room, up to all of it as one block. */
function canTake(b: Blocks, sizeLog2: number): boolean {
  return sizeLog2 >= leastTaken(b) && sizeLog2 <= mostLog2(b.length)
}

/**
 * The coarsest size that we take of an offer. What is in force may be coarser, where there was no
 * finer one; then it is that, so that we never insist on a size that there is not.
 */
function mostOffered(b: Blocks): number {
  const most = mostLog2(b.length)
  if (b.coarsestLog2 === 0) return most
  const bound = b.coarsestLog2 > b.sizeLog2 ? b.coarsestLog2 : b.sizeLog2
  return bound < most ? bound : most
}

/** Says the sizes that we take in an ASSOCIATE, and that they are said. */
export function sayBounds(b: Blocks, bseth: Bseth): void {
  const least = leastTaken(b)
  if (!bseth.criteria) {
    bseth.criteria = true
    bseth.leastLog2 = 0
    bseth.mostLog2 = 0
    bseth.budgetLog2 = 0
  }
  if (bseth.leastLog2 < least) bseth.leastLog2 = least
  if (bseth.mostLog2 !== 0 && bseth.mostLog2 < least) bseth.mostLog2 = least
  b.coarsestLog2 = bseth.mostLog2
}

/** Takes the answer to an ASSOCIATE or BLOCK_SIZE of ours. */
export function takeWishAnswer(b: Blocks, bseth: Bseth): number {
  if (bseth.status === SIZE_REFUSED) return ANSWER_REFUSED
  if (bseth.status === SIZE_OFFERED) {
    return canTake(b, bseth.blockSizeLog2) ? ANSWER_OFFER : ANSWER_SETTLED
  }
  if (bseth.commit) resize(b, bseth.blockSizeLog2)
  return ANSWER_SETTLED
}

/**
 * The responder proposes a size: `answer` gets what we say. One that we can take is in force from
 * here on; else the nearest that we can is offered.
 */
export function answerProposal(b: Blocks, proposal: Bseth, answer: Bseth): void {
  const least = leastTaken(b)
  const most = mostOffered(b)
  const size = proposal.blockSizeLog2
  answer.leastLog2 = least
  answer.mostLog2 = most
  answer.commit = size >= least && size <= most
  answer.status = answer.commit ? SIZE_GRANTED : SIZE_OFFERED
  answer.blockSizeLog2 = size < least ? least : size > most ? most : size
  if (answer.commit) resize(b, size)
}
