/** Rows of what holds across the sources, and what source 2 leaves open. */

import type { Row } from '../row.ts'

const ACK_MODEL_TEST = 'test/firmware/transport/ack-model.test.ts'
const ADMIT = 'firmware/engine/admit.ts'
const BATCH = 'firmware/batch/batch.ts'
const BATCH_EDGES_TEST = 'test/firmware/batch/batch-edges.test.ts'
const BURST = 'firmware/burst/burst.ts'
const COMMIT = 'firmware/commit/commit.ts'
const COMPLETER = 'firmware/transport/completer.ts'
const CRASH_TEST = 'test/firmware/commit/crash.test.ts'
const DRIVER_TEST = 'test/driver/records/driver.test.ts'
const ELEMENT_CHECK = 'firmware/host/element-check.ts'
const ERRORS = 'host-driver/base/errors.ts'
const FLUSH_TEST = 'test/firmware/respond/flush.test.ts'
const ON_DEMAND = 'firmware/status/on-demand.ts'
const ON_DEMAND_TEST = 'test/firmware/status/on-demand.test.ts'
const OPERATION = 'firmware/engine/operation.ts'
const OPERATIONS_TEST = 'test/firmware/commit/operations/operations.test.ts'
const PERSIST_TEST = 'test/firmware/respond/persist.test.ts'
const QUEUES_ELEMENT_TEST = 'test/firmware/host/queues-element.test.ts'
const REQUESTER_TEST = 'test/firmware/transport/requester.test.ts'

export const ACROSS: readonly Row[] = [
  {
    id: 'X-1',
    broken: 'level 1 is acknowledged in front of its fence',
    file: COMMIT,
    find: '  fence(list)\n  commit.acknowledge(1)',
    replace: '  commit.acknowledge(1)\n  fence(list)',
    test: PERSIST_TEST,
    title: 'P1-9, X-1, D-4: the acknowledgement of each level stands behind its fence',
  },
  {
    id: 'X-2',
    broken: 'no fence stands behind the lane',
    file: COMMIT,
    find: '  fence(list)\n  commit.ends[STAGE_LANES] = list.count',
    replace: '  commit.ends[STAGE_LANES] = list.count',
    test: CRASH_TEST,
    title: 'X-2: 256 bytes at 2of2',
  },
  {
    id: 'X-3',
    broken: 'a record that is durable is stored again',
    file: ADMIT,
    find: 'if (!isNew && wasDurable(state, party, ask)) return REPEATED\n',
    replace: '',
    test: OPERATIONS_TEST,
    title: 'X-3, N3: with other bytes it is acknowledged, not executed, and counted as forged',
  },
  {
    id: 'X-4',
    broken: 'an element counts by its first stamp',
    file: ELEMENT_CHECK,
    find:
      'if (words[w] !== stamp || words[w + (wqe.WQE_STAMP_AGAIN >> 2)] !== stamp) return ' +
      'ELEMENT_FORM',
    replace: 'if (words[w] !== stamp) return ELEMENT_FORM',
    test: QUEUES_ELEMENT_TEST,
    title: 'X-4: stamps of another lap, and units that were never stored',
  },
  {
    id: 'X-5',
    broken: 'the records of a batch in order are not chained',
    file: BATCH,
    find: 'return isNext && batch.condition === CONDITION_IN_ORDER',
    replace: 'return isNext && batch.condition === -1',
    test: BATCH_EDGES_TEST,
    title: 'X-5: a lane of a batch in order names the lane of the record before it, past others',
  },
  {
    id: 'X-6',
    broken: 'a page that is away is served',
    file: ON_DEMAND,
    find: 'while (end < offset + length && isPageThere(translation, place, page)) {',
    replace: 'while (end < offset + length && page >= 0) {',
    test: ON_DEMAND_TEST,
    title: 'P5-28, X-6: whichever of four pages are away, a WRITE and a READ of them end well, MTU',
  },
  {
    id: 'X-7',
    broken: 'every status has the name of the first',
    file: ERRORS,
    find: "one.answer === 'status' && one.code === status)",
    replace: "one.answer === 'status' && one.code <= status)",
    test: DRIVER_TEST,
    title: 'D-13, X-7: a part that is not armed refuses by name, and serves when it is',
  },
  {
    id: 'G2-1',
    broken: 'received is taken for durable',
    file: COMPLETER,
    find: 'if (!request.received) setReceived(q, request, nowUs)\n    return\n',
    replace:
      'if (!request.received) setReceived(q, request, nowUs)\n    resolveRequest(q, ' +
      "request, 'SUCCESS')\n    return\n",
    test: REQUESTER_TEST,
    title: 'G2-1, P2-26: a second acknowledgement of one PSN is not taken for durability',
  },
  {
    id: 'G2-2',
    broken: 'an operation that is durable is executed again',
    file: OPERATION,
    find:
      'if (!writing && isDurable(operations, party.client, operationHigh, operationLow)) ' +
      'return true\n',
    replace: '',
    test: OPERATIONS_TEST,
    title: 'X-3, G2-2: on another queue pair it is acknowledged again, and nothing is stored',
  },
  {
    id: 'G2-3',
    broken: 'a client that hears nothing never asks again',
    file: COMPLETER,
    find:
      'request.persistAtUs =\n    ' +
      'nowUs + (isCollectedMember(request) ? BATCH_GIVEN_UP_US : q.persistTimeoutUs)',
    replace: 'request.persistAtUs = Infinity',
    test: REQUESTER_TEST,
    title: 'G2-3: is asked for again by the same packets under their own PSNs',
  },
  {
    id: 'G2-4',
    broken: 'an acknowledgement counts whatever its PSN',
    file: COMPLETER,
    find: 'return psnDistance(psn, q.unackedPsn) < psnDistance(q.highPsn, q.unackedPsn)',
    replace: 'return psn >= 0 && q.unacked !== q.tail',
    test: ACK_MODEL_TEST,
    title: 'D-6, G2-4: answers of another time count for nothing: old ACKs, operations, lives',
  },
  {
    id: 'G2-5',
    broken: 'without save energy a FLUSH is answered',
    file: BURST,
    find: 'return (state.words[HEALTH_AT >> 2]! & (ARMED | SAVE_FAILED)) === ARMED',
    replace: 'return true',
    test: FLUSH_TEST,
    title: 'D-13, G2-5: a part without save energy refuses persistence (0x63), not visibility',
  },
]
