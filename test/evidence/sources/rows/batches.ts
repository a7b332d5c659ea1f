/** Rows of many records under one status (source 4). */

import type { Row } from '../row.ts'

const ADMIT = 'firmware/engine/admit.ts'
const BATCH = 'firmware/respond/batch.ts'
const BATCH_BATCH = 'firmware/batch/batch.ts'
const BATCH_BURSTS_TEST = 'test/driver/way/batch-bursts.test.ts'
const BATCH_QUEUES_TEST = 'test/firmware/queues/batch-queues.test.ts'
const BATCH_STATUS = 'firmware/engine/batch-status.ts'
const BATCH_TEST = 'test/firmware/batch/batch.test.ts'
const BATCH_VERDICT = 'host-driver/way/batch-verdict.ts'
const COMPLETER = 'firmware/transport/completer.ts'
const CONNECTED = 'firmware/queues/connected.ts'
const CORE = 'firmware/core.ts'
const PERSIST = 'firmware/wire/persist.ts'

export const BATCHES: readonly Row[] = [
  {
    id: 'P4-1',
    broken: 'every record of a series has the same index',
    file: CONNECTED,
    find: 'pweth.batchIndex = batch ? element.batchIndex : 0',
    replace: 'pweth.batchIndex = 0',
    test: BATCH_QUEUES_TEST,
    title: 'P4-1, P4-2: every packet of a batch names batch, index, count and condition',
  },
  {
    id: 'P4-2',
    broken: 'the condition of a packet is not written',
    file: PERSIST,
    find: '(from.condition << CONDITION_SHIFT) |',
    replace: '(0 << CONDITION_SHIFT) |',
    test: BATCH_TEST,
    title: 'P4-2: flag, condition, id, index and count stand in the header of every record',
  },
  {
    id: 'P4-3',
    broken: 'a record without the flag is one of a batch',
    file: PERSIST,
    find: 'const batch = (flags & BATCH) !== 0',
    replace: 'const batch = true',
    test: BATCH_TEST,
    title: 'P4-3: without the flag it is a record like any other, and has no fields of a batch',
  },
  {
    id: 'P4-4',
    broken: 'a record is taken whatever its check code',
    file: CORE,
    find: 'const standard = (flags & ICRC_GOOD) !== 0',
    replace: 'const standard = true',
    test: BATCH_TEST,
    title: 'P4-4: record ',
  },
  {
    id: 'P4-5',
    broken: 'what one status says of record 0 is told of every record',
    file: COMPLETER,
    find: 'isInBitmap(bitmap, request.batchIndex)) {',
    replace: 'isInBitmap(bitmap, 0)) {',
    test: BATCH_QUEUES_TEST,
    title: 'P4-5: each completes under its own id, and record ',
  },
  {
    id: 'P4-6',
    broken: 'a record that was refused counts as durable',
    file: BATCH,
    find: 'count(state, fault)\n    noteRefused(batch, index, fault)\n',
    replace: 'count(state, fault)\n    noteMemberDurable(batch, index, 2)\n',
    test: BATCH_TEST,
    title: 'P4-6: a batch of which every record is refused has a status, and stores nothing',
  },
  {
    id: 'P4-7',
    broken: 'in order, a record behind a refused one is accepted',
    file: ADMIT,
    find: 'if (!isInOrder(state, party, batch, ask.batchIndex)) fault = CONDITION',
    replace: 'if (batch.condition === -1) fault = CONDITION',
    test: BATCH_TEST,
    title: 'P4-7, P4-9, P4-10: N records, an error at k: one status, and one burst of N-k+1',
  },
  {
    id: 'P4-8',
    broken: 'one batch has two statuses',
    file: BATCH_STATUS,
    find: 'concludeBatch(state, state.queuePairs.places[batch.place]!, batch, !isSaid)',
    replace: 'concludeBatch(state, state.queuePairs.places[batch.place]!, batch, true)',
    test: BATCH_TEST,
    title: 'P4-8, P4-13: groups of 32 with four fences each, and one status at the end',
  },
  {
    id: 'P4-9',
    broken: 'the first that was not accepted does not go out again',
    file: BATCH_VERDICT,
    find: 'if (i === 0) return isForGood ? refused : AGAIN',
    replace: 'if (i === 0) return refused',
    test: BATCH_BURSTS_TEST,
    title: 'records: every place of a passing failure',
  },
  {
    id: 'P4-10',
    broken: 'there is no bound to the repetitions',
    file: BATCH_VERDICT,
    find: 'const isForGood = !PASSING.has(fault) || isLast',
    replace: 'const isForGood = !PASSING.has(fault)',
    test: BATCH_BURSTS_TEST,
    title: 'P4-10: ends at the bound where nothing is taken, and says what was wrong',
  },
  {
    id: 'P4-11',
    broken: 'an unknown condition is taken',
    file: BATCH,
    find: 'if (pweth.condition > CONDITION_EXPECT) return PERSIST_HEADER\n',
    replace: '',
    test: BATCH_TEST,
    title: 'P4-11, D-10: an unknown condition is NAK 0x61, and what was held is given back',
  },
  {
    id: 'P4-12',
    broken: 'bit i of the bitmap is record i + 1',
    file: BATCH_BATCH,
    find: 'batch.bitmap[index >> 5]! |= 0x80000000 >>> (index & 31)',
    replace: 'batch.bitmap[index >> 5]! |= 0x80000000 >>> ((index + 1) & 31)',
    test: BATCH_TEST,
    title: 'P4-12: while some of the batch is to come, a query says what is durable so far',
  },
  {
    id: 'P4-13',
    broken: 'the status leaves behind the first fence',
    file: BATCH_STATUS,
    find: 'if (batchLevelOf(state, batch) !== copies) continue',
    replace: 'if (copies !== 1) continue',
    test: BATCH_TEST,
    title: 'P4-13, X-1: the status stands behind the fence of the highest level waited for',
  },
  {
    id: 'P4-14',
    broken: 'a record of a batch that is durable is written again',
    file: ADMIT,
    find: 'wasDurable(state, party, ask)) return REPEATED\n',
    replace: 'wasDurable(state, party, ask) && batch === null) return REPEATED\n',
    test: BATCH_TEST,
    title: 'P4-14, X-3: a batch sent again under its operations is acknowledged, not written',
  },
]
