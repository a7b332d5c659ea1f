/** Rows of decisions. */

import type { Row } from '../row.ts'

const ACKNOWLEDGE = 'firmware/transport/acknowledge.ts'
const ADMIT = 'firmware/engine/admit.ts'
const BATCH = 'firmware/respond/batch.ts'
const BATCH_TEST = 'test/firmware/batch/batch.test.ts'
const BURST = 'firmware/burst/burst.ts'
const COMMIT = 'firmware/commit/commit.ts'
const CONTEXT = 'firmware/host/context.ts'
const EXAMINE = 'firmware/commit/examine.ts'
const HEARD = 'firmware/residency/heard.ts'
const OPERATIONS_TEST = 'test/firmware/commit/operations/operations.test.ts'
const OPERATION_LINE = 'firmware/medium/operation-line.ts'
const PERSIST = 'firmware/respond/persist.ts'
const PERSIST_TEST = 'test/firmware/respond/persist.test.ts'
const QUEUES_CACHE_TEST = 'test/firmware/host/queues-cache.test.ts'
const READ_TEST = 'test/firmware/respond/read.test.ts'
const RECOVERY_TEST = 'test/firmware/commit/recovery.test.ts'
const RESIDENCY_BLOCKS_TEST = 'test/firmware/residency/residency-blocks.test.ts'
const SETTLED = 'firmware/engine/settled.ts'
const STORAGE = 'firmware/engine/storage.ts'
const WRITE_PERSIST_REGION_TEST = 'test/firmware/respond/write-persist-region.test.ts'

export const DECISIONS: readonly Row[] = [
  {
    id: 'D-1',
    broken: 'a longer record than the slot is taken',
    file: STORAGE,
    find: 'if (ask.length > region.capacity) return RECORD_LENGTH\n',
    replace: '',
    test: PERSIST_TEST,
    title: 'D-1: a record has any length up to the capacity, and reads as zeros behind its end',
  },
  {
    id: 'D-2',
    broken: 'a record is stored without a lane',
    file: COMMIT,
    find:
      'copyClean(list, line, laneAddress(item.lane), LINE_BYTES, owner)\n  ' +
      'commit.dirtyLanes[item.lane] = 0',
    replace: 'commit.dirtyLanes[item.lane] = 0',
    test: PERSIST_TEST,
    title: 'D-2: the lane says A before the fence of A, and B behind it',
  },
  {
    id: 'D-3',
    broken: 'the check code is not looked at',
    file: EXAMINE,
    find: 'view.valid = readable && resultOf(list, index + 1) === EQUAL',
    replace: 'view.valid = readable',
    test: RECOVERY_TEST,
    title: 'D-3: each single flipped bit of a copy is found, and repaired from the other',
  },
  {
    id: 'D-4',
    broken: 'level 2of2 is acknowledged with one copy',
    file: COMMIT,
    find: '  commit.acknowledge(1)\n',
    replace: '  commit.acknowledge(1)\n  commit.acknowledge(2)\n',
    test: PERSIST_TEST,
    title: 'P1-9, X-1, D-4: the acknowledgement of each level stands behind its fence',
  },
  {
    id: 'D-5',
    broken: 'a receipt does not say how many copies',
    file: ACKNOWLEDGE,
    find: 'bytes[at + PAETH_COPIES] = range.copies',
    replace: 'bytes[at + PAETH_COPIES] = 0',
    test: PERSIST_TEST,
    title: 'D-5, D-6: a receipt names range, operation, incarnation, copies and mechanism',
  },
  {
    id: 'D-6',
    broken: 'of an operation half of its 64 bits count',
    file: OPERATION_LINE,
    find: 'return highs * HIGH_UNIT + ((low >>> 0) - (words[w + NEWEST]! >>> 0))',
    replace: 'return highs * 0 + ((low >>> 0) - (words[w + NEWEST]! >>> 0))',
    test: OPERATIONS_TEST,
    title: 'D-6: ids have 64 bits: the low word turns over, and the high word counts',
  },
  {
    id: 'D-7',
    broken: 'what a message gathers goes over its begin',
    file: PERSIST,
    find: 'qp.messageTo = payloadTo + packet.payloadLength',
    replace: 'qp.messageTo = payloadTo',
    test: PERSIST_TEST,
    title: 'D-7, N4: a message that lacks any one of its packets stores nothing',
  },
  {
    id: 'D-8',
    broken: 'carried copies are not compared',
    file: ADMIT,
    find: 'if (fault === PASS && ask.carried > 1) fault = copiesFault(state, ask, dataAt)',
    replace: '',
    test: PERSIST_TEST,
    title: 'D-8: copies that differ in a message of several packets are refused',
  },
  {
    id: 'D-9',
    broken: 'a WRITE that is kept is acknowledged before its fence',
    file: BURST,
    find: 'qp.withheldAt = state.list.fences\n',
    replace: 'qp.withheldAt = -1\n',
    test: WRITE_PERSIST_REGION_TEST,
    title: 'P2-5, D-9: is acknowledged when durable, at path MTU',
  },
  {
    id: 'D-10',
    broken: 'an unknown condition is taken',
    file: BATCH,
    find: 'if (pweth.condition > CONDITION_EXPECT) return PERSIST_HEADER\n',
    replace: '',
    test: BATCH_TEST,
    title: 'P4-11, D-10: an unknown condition is NAK 0x61, and what was held is given back',
  },
  {
    id: 'D-11',
    broken: 'the earlier time is the newer',
    file: CONTEXT,
    find: 'later !== 0) return later > 0',
    replace: 'later !== 0) return later < 0',
    test: QUEUES_CACHE_TEST,
    title: 'P3-21, D-11: the later one, also where the clock wraps',
  },
  {
    id: 'D-12',
    broken: 'a gap in the notices is passed over',
    file: HEARD,
    find: 'if (b.heard && ahead > 1) {',
    replace: 'if (b.heard && ahead < -1) {',
    test: RESIDENCY_BLOCKS_TEST,
    title: 'D-12, P5-28: a gap makes the requester ask until a current status came',
  },
  {
    id: 'D-13',
    broken: 'a part that is not armed takes records',
    file: STORAGE,
    find:
      'if ((state.words[HEALTH_AT >> 2]! & (ARMED | SAVE_FAILED)) !== ARMED) return ' +
      'NOT_ARMED\n',
    replace: '',
    test: BATCH_TEST,
    title: 'D-13: what is not armed takes nothing of a batch',
  },
  {
    id: 'D-14',
    broken: 'a region with a lost record takes writes',
    file: STORAGE,
    find: 'if (region.unsettled > 0) return READ_ONLY\n',
    replace: '',
    test: RECOVERY_TEST,
    title: 'D-14: more losses than the superblock can name: all refused, no write taken',
  },
  {
    id: 'D-15',
    broken: 'a reader gets a copy without its check code',
    file: SETTLED,
    find: 'return valid && (held === null || !sequenceAfter(held, header))',
    replace: 'return (valid || c === 0) && (held === null || !sequenceAfter(held, header))',
    test: READ_TEST,
    title: 'D-15: a record is served from a copy that is whole, whichever it is',
  },
]
