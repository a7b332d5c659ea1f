/** Rows of memory that tells its state (source 5). */

import type { Row } from '../row.ts'

const ASSOCIATE = 'firmware/status/associate.ts'
const ASSOCIATION = 'firmware/residency/association.ts'
const BLOCKS = 'firmware/residency/blocks.ts'
const HINTS = 'firmware/residency/hints.ts'
const RESIDENCY_BLOCKS_TEST = 'test/firmware/residency/residency-blocks.test.ts'
const RESIDENCY_RESPONDER_TEST = 'test/firmware/residency/residency-responder.test.ts'
const RESIDENCY_WIRE_TEST = 'test/firmware/status/residency-wire.test.ts'
const SIZE = 'firmware/residency/size.ts'
const WISH = 'firmware/residency/wish.ts'

export const STATUS: readonly Row[] = [
  {
    id: 'P5-2',
    broken: 'changes are told without the status as it is',
    file: ASSOCIATION,
    find: 'if (a.outage === 0) a.currentAt = 0',
    replace: 'if (a.outage === 0) a.currentAt = -1',
    test: RESIDENCY_RESPONDER_TEST,
    title: 'one that fills several messages is told in its order, and stays true',
  },
  {
    id: 'P5-3',
    broken: 'a range is ready where its first block is',
    file: BLOCKS,
    find:
      'const last = blockAt(b, offset + length - 1)\n  let block = blockAt(b, ' +
      'offset)\n  while (block <= last) {',
    replace:
      'const last = blockAt(b, offset)\n  let block = blockAt(b, offset)\n  while ' +
      '(block <= last) {',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-3: a range is ready if every block that it touches is, whatever the groups ' + 'are',
  },
  {
    id: 'P5-4',
    broken: 'an access to a ready block waits',
    file: HINTS,
    find: 'if (isRangeReady(b, offset, length)) return ACCESS_READY',
    replace: 'if (length === 0) return ACCESS_READY',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-4, P5-6: what is ready gets no hint and does not wait',
  },
  {
    id: 'P5-6',
    broken: 'a ready block gets a hint',
    file: HINTS,
    find: 'return b.states[block] !== BLOCK_READY && b.hintedUntilUs[block]! <= nowUs',
    replace: 'return b.hintedUntilUs[block]! <= nowUs',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-5, P5-6: runs of blocks that are not ready, each hinted at once',
  },
  {
    id: 'P5-7',
    broken: 'an agreed size is not put in force',
    file: WISH,
    find: 'if (bseth.commit) resize(b, bseth.blockSizeLog2)\n',
    replace: '',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-7, P5-8, P5-29: a wish is in force when the answer commits to it',
  },
  {
    id: 'P5-8',
    broken: 'a wish is never granted',
    file: SIZE,
    find: 'return nearestLog2(length, wishLog2) === wishLog2 ? SIZE_GRANTED : ' + 'SIZE_OFFERED',
    replace: 'return SIZE_OFFERED',
    test: RESIDENCY_RESPONDER_TEST,
    title: 'every wish for every length: granted, or the nearest is offered',
  },
  {
    id: 'P5-9',
    broken: 'no size is suggested to who has no wish',
    file: SIZE,
    find: 'if (wishLog2 === 0) return suggestedLog2(length)',
    replace: 'if (wishLog2 === 0) return mostLog2(length)',
    test: RESIDENCY_RESPONDER_TEST,
    title: 'every wish for every length: granted, or the nearest is offered',
  },
  {
    id: 'P5-10',
    broken: 'what was known is lost with another size',
    file: BLOCKS,
    find: 'b.spareStates[block] = b.states[from]!',
    replace: 'b.spareStates[block] = BLOCK_UNKNOWN',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-10: between all sizes, there and back, nothing becomes ready that was not',
  },
  {
    id: 'P5-11',
    broken: 'a block keeps the state that it had first',
    file: BLOCKS,
    find: 'b.states[block] = BLOCK_NOT_READY\n',
    replace: '',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-11, P5-12, P5-13, P5-14: every sequence of notices about three blocks',
  },
  {
    id: 'P5-12',
    broken: 'all blocks are of the first group',
    file: BLOCKS,
    find: 'const group = Math.floor(block / b.groupBlocks)\n  if (ready && before',
    replace: 'const group = 0\n  if (ready && before',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-11, P5-12, P5-13, P5-14: every sequence of notices about three blocks',
  },
  {
    id: 'P5-13',
    broken: 'a notice that changes nothing counts',
    file: BLOCKS,
    find: 'if (ready && before !== BLOCK_READY) {',
    replace: 'if (ready) {',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-11, P5-12, P5-13, P5-14: every sequence of notices about three blocks',
  },
  {
    id: 'P5-14',
    broken: 'the flag of a group stays',
    file: BLOCKS,
    find: 'if (b.groupReady[group] === groupSize(b, group)) b.groupFlags[group] = 0\n',
    replace: '',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-11, P5-12, P5-13, P5-14: every sequence of notices about three blocks',
  },
  {
    id: 'P5-15',
    broken: 'after an error the old states count',
    file: BLOCKS,
    find: 'b.states.fill(BLOCK_UNKNOWN, 0, b.count)\n',
    replace: '',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'everything is forgotten, no hint goes out, until the status was told',
  },
  {
    id: 'P5-16',
    broken: 'who has opted out is told',
    file: ASSOCIATE,
    find: 'if (found !== null) releaseAssociation(state, found)\n',
    replace: '',
    test: RESIDENCY_WIRE_TEST,
    title: 'opting out by',
  },
  {
    id: 'P5-17',
    broken: 'an association forgets where it begins',
    file: ASSOCIATION,
    find: 'a.from = from\n',
    replace: 'a.from = 0\n',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-21: blocks are counted from the address that was associated',
  },
  {
    id: 'P5-18',
    broken: 'the answer says another size',
    file: SIZE,
    find: 'return wishLog2 > most ? most : wishLog2',
    replace: 'return wishLog2 > most ? most : most',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-29: what is offered is in force when exactly that is proposed, and not ' + 'before',
  },
]
