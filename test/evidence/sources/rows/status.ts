/** Rows of memory that tells its state (source 5). */

import type { Row } from '../row.ts'

const ASSOCIATE = 'firmware/status/associate.ts'
const ASSOCIATION = 'firmware/residency/association.ts'
const BLOCKS = 'firmware/residency/blocks.ts'
const HEARD = 'firmware/residency/heard.ts'
const HINTS = 'firmware/residency/hints.ts'
const NOTICE = 'firmware/residency/notice.ts'
const ON_DEMAND = 'firmware/status/on-demand.ts'
const ON_DEMAND_TEST = 'test/firmware/status/on-demand.test.ts'
const PREFETCH = 'firmware/status/prefetch.ts'
const QUEUE_STATUS_TEST = 'test/firmware/queues/queue-status.test.ts'
const RESIDENCY_BLOCKS_TEST = 'test/firmware/residency/residency-blocks.test.ts'
const RESIDENCY_DRIVER_TEST = 'test/driver/status/residency-driver.test.ts'
const RESIDENCY_ON_DEMAND_TEST = 'test/driver/status/residency-on-demand.test.ts'
const RESIDENCY_QUEUES_TEST = 'test/driver/card/residency-queues.test.ts'
const RESIDENCY_RESPONDER_TEST = 'test/firmware/residency/residency-responder.test.ts'
const RESIDENCY_WIRE_TEST = 'test/firmware/status/residency-wire.test.ts'
const SIZE = 'firmware/residency/size.ts'
const TELLING = 'firmware/status/telling.ts'
const WISH = 'firmware/residency/wish.ts'

export const STATUS: readonly Row[] = [
  {
    id: 'P5-1',
    broken: 'a region has one block, whatever its size',
    file: ASSOCIATION,
    find: 'a.blocks = Math.ceil(a.length / 2 ** sizeLog2)',
    replace: 'a.blocks = 1',
    test: QUEUE_STATUS_TEST,
    title: 'P5-1, P5-2, P5-11: associated, told what is, and told of every edge',
  },
  {
    id: 'P5-2',
    broken: 'changes are told without the status as it is',
    file: ASSOCIATION,
    find: 'if (a.outage === 0) a.currentAt = 0',
    replace: 'if (a.outage === 0) a.currentAt = -1',
    test: RESIDENCY_RESPONDER_TEST,
    title: 'P5-2: one that fills several messages is told in its order, and stays true',
  },
  {
    id: 'P5-3',
    broken: 'a range is ready where its first block is',
    file: BLOCKS,
    find:
      'const last = blockAt(b, offset + length - 1)\n  let block = blockAt(b, offset)\n  ' +
      'while (block <= last) {',
    replace:
      'const last = blockAt(b, offset)\n  let block = blockAt(b, offset)\n  while (block <= ' +
      'last) {',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-3: a range is ready if every block that it touches is, whatever the groups are',
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
    id: 'P5-5',
    broken: 'for a block that is away no hint goes out',
    file: HINTS,
    find: 'return b.states[block] !== BLOCK_READY && b.hintedUntilUs[block]! <= nowUs',
    replace: 'return false && b.hintedUntilUs[block]! <= nowUs',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-5, P5-6: runs of blocks that are not ready, each hinted at once',
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
    find: 'return nearestLog2(length, wishLog2) === wishLog2 ? SIZE_GRANTED : SIZE_OFFERED',
    replace: 'return SIZE_OFFERED',
    test: RESIDENCY_RESPONDER_TEST,
    title: 'P5-8: every wish for every length: granted, or the nearest is offered',
  },
  {
    id: 'P5-9',
    broken: 'the card never begins to agree on another size',
    file: SIZE,
    find: 'a.offerLog2 = a.sizeLog2 + 1',
    replace: 'a.offerLog2 = 0',
    test: RESIDENCY_ON_DEMAND_TEST,
    title: 'P5-9: either side begins: the driver proposes a size, and so does the card',
  },
  {
    id: 'P5-10',
    broken: 'all is ready in another size, until it is told',
    file: BLOCKS,
    find: 'b.spareStates[block] = b.states[from]!',
    replace: 'b.spareStates[block] = BLOCK_READY',
    test: RESIDENCY_DRIVER_TEST,
    title: 'P5-10: another size at any time makes nothing ready; all is told again',
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
    find: 'if (found !== null) releaseAssociation(state, found)\n    answerEnd()',
    replace: 'answerEnd()',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-16: opting out by',
  },
  {
    id: 'P5-17',
    broken: 'an association forgets where it begins',
    file: ASSOCIATION,
    find: 'a.from = from\n',
    replace: 'a.from = 0\n',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-17, P5-21: blocks are counted from the address that was associated',
  },
  {
    id: 'P5-18',
    broken: 'a wish below the largest size is answered by the largest',
    file: SIZE,
    find: 'return wishLog2 > most ? most : wishLog2',
    replace: 'return wishLog2 > most ? most : most',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-18, P5-29: what is offered is in force when just that is proposed, not before',
  },
  {
    id: 'P5-19',
    broken: 'the state of a block is told as that of the next',
    file: NOTICE,
    find: 'bytes[at + (i >> 3)]! |= 0x80 >> (i & 7)',
    replace: 'bytes[at + (i >> 3)]! |= 0x40 >> (i & 7)',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-2, P5-19: it is told how its blocks are, and then what changes',
  },
  {
    id: 'P5-20',
    broken: 'the first page that goes changes nothing',
    file: ASSOCIATION,
    find: 'a.ready -= 1\n  edge(a, block, 0)',
    replace: 'a.ready -= 1',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-20: pages of a block that come and go one by one are told at the edges',
  },
  {
    id: 'P5-21',
    broken: 'blocks are counted from the begin of the region',
    file: ASSOCIATION,
    find:
      'return at - a.from < a.length ? Math.floor((at - a.from) / 2 ** a.sizeLog2) : ' + 'a.blocks',
    replace: 'return at - a.from < a.length ? Math.floor(at / 2 ** a.sizeLog2) : a.blocks',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-17, P5-21: blocks are counted from the address that was associated',
  },
  {
    id: 'P5-22',
    broken: 'a change is told at once',
    file: ASSOCIATION,
    find: 'a.dueUs = nowUs + a.periodUs',
    replace: 'a.dueUs = nowUs',
    test: RESIDENCY_RESPONDER_TEST,
    title: 'P5-22, P5-23, P5-24: period, threshold and maximum together, as by hand',
  },
  {
    id: 'P5-23',
    broken: 'memory actions are not counted',
    file: ASSOCIATION,
    find: 'a.actions += 1\n',
    replace: '',
    test: RESIDENCY_RESPONDER_TEST,
    title: 'P5-22, P5-23, P5-24: period, threshold and maximum together, as by hand',
  },
  {
    id: 'P5-24',
    broken: 'a message has as many notices as fit',
    file: NOTICE,
    find: 'const most = a.maximum < fit ? a.maximum : fit',
    replace: 'const most = fit',
    test: RESIDENCY_RESPONDER_TEST,
    title: 'P5-22, P5-23, P5-24: period, threshold and maximum together, as by hand',
  },
  {
    id: 'P5-25',
    broken: 'a hint is dropped',
    file: PREFETCH,
    find: ': expectPages(state, region, first, count, now)',
    replace: ': count',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-25: who goes on behind it gets the next range as long, up to the end',
  },
  {
    id: 'P5-26',
    broken: 'a notice never refuses',
    file: NOTICE,
    find: 'into.negative = !into.positive',
    replace: 'into.negative = false',
    test: RESIDENCY_WIRE_TEST,
    title: 'P5-26: positive when all of it is there, negative while it is not',
  },
  {
    id: 'P5-27',
    broken: 'every access goes to the begin of its page',
    file: ON_DEMAND,
    find: 'return at + (offset - page * PAGE_BYTES)',
    replace: 'return at',
    test: ON_DEMAND_TEST,
    title: 'P5-27: every length and alignment around page edges is stored where it lies, MTU',
  },
  {
    id: 'P5-28',
    broken: 'a gap in the notices is passed over',
    file: HEARD,
    find: 'if (b.heard && ahead > 1) {',
    replace: 'if (b.heard && ahead < -1) {',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-28: nor is it told when a change between two parts of it was not heard',
  },
  {
    id: 'P5-29',
    broken: 'a size is taken for which there is no room',
    file: WISH,
    find: 'return sizeLog2 >= leastTaken(b) && sizeLog2 <= mostLog2(b.length)',
    replace: 'return sizeLog2 <= mostLog2(b.length)',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'P5-9, P5-29: an offer is taken if there is room for it, else nothing is',
  },
  {
    id: 'P5-30',
    broken: 'records of a part that is not armed are told as ready',
    file: TELLING,
    find: 'const serves = isArmed(state) && state.refused === PASS && isSafe(state)',
    replace: 'const serves = state.refused === PASS',
    test: RESIDENCY_QUEUES_TEST,
    title: 'P5-30: records of a persistent region, whose part loses its armed state',
  },
]
