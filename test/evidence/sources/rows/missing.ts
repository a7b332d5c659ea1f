/** Rows of what a source says and the product once had not. */

import type { Row } from '../row.ts'

const COMMIT = 'firmware/commit/commit.ts'
const BATCH = 'firmware/batch/batch.ts'
const BATCH_MIXED_TEST = 'test/firmware/batch/batch-mixed.test.ts'
const BATCH_NOTICES_TEST = 'test/firmware/batch/batch-notices.test.ts'
const BATCH_STATUS = 'firmware/engine/batch-status.ts'
const ALTERNATIVES = 'host-driver/status/alternatives.ts'
const ALTERNATIVES_TEST = 'test/driver/status/alternatives.test.ts'
const CONNECT_DEPTHS_TEST = 'test/firmware/connect/connect-depths.test.ts'
const COPIES = 'firmware/medium/copies.ts'
const CRITERIA_WIRE_TEST = 'test/firmware/status/criteria-wire.test.ts'
const DEPTHS = 'firmware/transport/depths.ts'
const DUAL_WRITE = 'host-driver/records/dual-write.ts'
const DUAL_WRITE_TEST = 'test/driver/records/dual-write.test.ts'
const GUARD_TEST = 'test/firmware/engine/guard.test.ts'
const HOST_PIECES = 'firmware/medium/host-pieces.ts'
const ON_DEMAND_SHARED_TEST = 'test/firmware/status/on-demand-shared.test.ts'
const PAIR = 'firmware/placement/pair.ts'
const PAIR_TEST = 'test/firmware/placement/pair.test.ts'
const METER = 'firmware/residency/meter.ts'
const PLACEMENT_PIECES_TEST = 'test/firmware/placement/placement-pieces.test.ts'
const QUEUES_TRUST_TEST = 'test/firmware/host/queues-trust.test.ts'
const TRACE = 'host-driver/command/emulate/trace.ts'
const TRACE_TEST = 'test/command/emulate/trace.test.ts'
const TRUST = 'firmware/queues/pass.ts'
const TRANSLATION = 'firmware/medium/translation.ts'
const WHICH_COPY_TEST = 'test/firmware/commit/which-copy.test.ts'
const WRITE_BACK = 'firmware/placement/write-back.ts'
const WRITE_BACK_TEST = 'test/firmware/placement/write-back.test.ts'

export const MISSING: readonly Row[] = [
  {
    id: 'S1-M1',
    broken: 'a record is stored whatever its guard says',
    file: COMMIT,
    find: '  if (item.guard !== 0) {',
    replace: '  if (item.guard < 0) {',
    test: GUARD_TEST,
    title: 'S1-M1: what was damaged on the way',
  },
  {
    id: 'S1-M2',
    broken: 'what a client left different is never looked at',
    file: PAIR,
    find: '    recovery.unscanned[i] = LOOK_DUE',
    replace: '    recovery.unscanned[i] = 0',
    test: PAIR_TEST,
    title: 'is looked at before anything that can wait',
  },
  {
    id: 'S1-M3',
    broken: 'a client writes two places and no more',
    file: DUAL_WRITE,
    find: 'const chain = places.flatMap(',
    replace: 'const chain = places.slice(0, 2).flatMap(',
    test: DUAL_WRITE_TEST,
    title: 'S1-M3, P1-11: where one cannot be made durable, those behind it stay old',
  },
  {
    id: 'S1-M4',
    broken: 'the last valid copy counts',
    file: COPIES,
    find: 'if (found < 0 || sequenceAfter(header, copies[found]!.header)) found = c',
    replace: 'found = c',
    test: WHICH_COPY_TEST,
    title: 'S1-M4: whatever a cut leaves, that is the first valid one in write order',
  },
  {
    id: 'S1-M5',
    broken: 'bytes registered write-persist are acknowledged when the agent is asked',
    file: WRITE_BACK,
    find: '  return awaitJob(state, qp, psn, asks, messageFrom, end, taken)',
    replace: '  return taken',
    test: WRITE_BACK_TEST,
    title: ': not taken before the bell, and then as ever',
  },
  {
    id: 'S1-M6',
    broken: 'pieces in which no region lies where it lay take the place of others',
    file: HOST_PIECES,
    find: 'a === null || b === null || a.page !== b.page',
    replace: 'a === null || b === null',
    test: PLACEMENT_PIECES_TEST,
    title: 'by which a region would lie elsewhere are refused',
  },
  {
    id: 'S1-M7',
    broken: 'a card sends as many at once as it can, whatever the other takes',
    file: DEPTHS,
    find: 'send: Math.min(own.send, told.receive)',
    replace: 'send: own.send',
    test: CONNECT_DEPTHS_TEST,
    title: 'S1-M7: takes ',
  },
  {
    id: 'S1-M8',
    broken: 'the pointer of a doorbell is forgotten',
    file: TRUST,
    find: 'known && trustCarried(host, place, queue) ? 1 : 0',
    replace: '0',
    test: QUEUES_TRUST_TEST,
    title: 'S1-M8: a plausible pointer saves exactly one read per ring, of zone 3',
  },
  {
    id: 'S1-M9',
    broken: 'a batch is of one region',
    file: BATCH,
    find: 'if (region.placement !== first.placement) return false',
    replace: 'if (region !== first) return false',
    test: BATCH_MIXED_TEST,
    title: 'is stored, durable, and has one status',
  },
  {
    id: 'S1-M10',
    broken: 'the host of the target is told nothing',
    file: BATCH_STATUS,
    find: 'if (notices.watched > 0) noteStored(notices, batch, item)',
    replace: '',
    test: BATCH_NOTICES_TEST,
    title: 'S1-M10: per record, of each one, with slot, sequence, operation and client',
  },
  {
    id: 'S1-M11',
    broken: 'a requester chooses within its region only',
    file: ALTERNATIVES,
    find: 'if (there !== null) return { region, range: there }',
    replace: 'if (there !== null && region === own) return { region, range: there }',
    test: ALTERNATIVES_TEST,
    title: 'S1-M11: the same range of a mirror on another DPU, only while it is ready',
  },
  {
    id: 'S1-M12',
    broken: 'notices take what they take, whatever the budget is',
    file: METER,
    find: 'return meter.paidUntilUs - AHEAD_US',
    replace: 'return 0 * meter.paidUntilUs - AHEAD_US',
    test: CRITERIA_WIRE_TEST,
    title: 'S1-M12: with a budget fewer, and the last of them is true',
  },
  {
    id: 'S1-M13',
    broken: 'the card takes frames for addresses that the IOMMU is to translate',
    file: TRANSLATION,
    find: 'if (shared === BY_TABLE) return DMA_SPACE',
    replace: 'if (shared !== null) return DMA_SPACE',
    test: ON_DEMAND_SHARED_TEST,
    title: 'every length and alignment around page edges, MTU',
  },
  {
    id: 'S1-M14',
    broken: 'the trace does not say whether writes go past the caches',
    file: TRACE,
    find: "const way = cached ? ', into the caches' : ', past the caches'",
    replace: "const way = cached ? '' : ''",
    test: TRACE_TEST,
    title: 'S1-M14: what is written to the host says by which flow: ',
  },
]
