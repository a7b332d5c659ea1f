/** Rows of a write that says it is to persist (source 2). */

import type { Row } from '../row.ts'

const ANNOUNCE = 'firmware/connect/announce.ts'
const ANNOUNCE_TEST = 'test/firmware/connect/announce.test.ts'
const BUFFERS = 'firmware/engine/buffers.ts'
const BURST = 'firmware/burst/burst.ts'
const COMMAND_LIST = 'firmware/board/command-list.ts'
const COMMIT = 'firmware/commit/commit.ts'
const COMPLETER = 'firmware/transport/completer.ts'
const CONNECTED = 'firmware/queues/connected.ts'
const FLUSH_AGENT = 'firmware/placement/flush-agent.ts'
const MECHANISM = 'firmware/transport/mechanism.ts'
const OUTCOME = 'firmware/engine/outcome.ts'
const PERSIST_FILE = 'firmware/respond/persist.ts'
const PERSIST_FLOW_TEST = 'test/product/persist-flow.test.ts'
const PLACEMENT = 'firmware/commit/proof.ts'
const PLACEMENT_BYPASS_TEST = 'test/firmware/placement/placement-bypass.test.ts'
const PLACEMENT_THROUGH_TEST = 'test/firmware/placement/placement-through.test.ts'
const QUEUE_WORK_CONNECTED_TEST = 'test/firmware/queues/queue-work-connected.test.ts'
const REQUESTER_TEST = 'test/firmware/transport/requester.test.ts'
const THROUGH = 'firmware/placement/through.ts'
const UDP = 'firmware/wire/udp.ts'
const WRITE = 'firmware/respond/write.ts'
const WRITE_PERSIST_REGION_TEST = 'test/firmware/respond/write-persist-region.test.ts'

export const PERSIST: readonly Row[] = [
  {
    id: 'P2-1',
    broken: 'the rights of a region are not announced',
    file: ANNOUNCE,
    find: 'rights: region.rights & qp.rights',
    replace: 'rights: 0',
    test: ANNOUNCE_TEST,
    title: 'P2-1, P2-2: once connected, the client is told start, length and flags by a SEND',
  },
  {
    id: 'P2-2',
    broken: 'the length of a region is not announced',
    file: ANNOUNCE,
    find: 'lengthLow: region.areaBytes % 2 ** 32,',
    replace: 'lengthLow: 0,',
    test: ANNOUNCE_TEST,
    title: 'P2-1, P2-2: once connected, the client is told start, length and flags by a SEND',
  },
  {
    id: 'P2-3',
    broken: 'the write goes elsewhere than its work request says',
    file: CONNECTED,
    find: 'reth.vaHigh = element.addressHigh\n',
    replace: 'reth.vaHigh = element.addressHigh + 1\n',
    test: QUEUE_WORK_CONNECTED_TEST,
    title: 'P2-3: is one element of the client, and nothing of the host at the target',
  },
  {
    id: 'P2-4',
    broken: 'form A is stored and never told as durable',
    file: PERSIST_FILE,
    find: 'if (row.ends && fault === PASS) endPlaced(state, qp, message)\n',
    replace: 'if (row.ends && fault === PASS) return PASS\n',
    test: WRITE_PERSIST_REGION_TEST,
    title: 'P2-4: is stored, fenced, receipted with one copy, at path MTU',
  },
  {
    id: 'P2-5',
    broken: 'form B is acknowledged before its fence',
    file: BURST,
    find: 'qp.withheldAt = state.list.fences\n',
    replace: 'qp.withheldAt = -1\n',
    test: WRITE_PERSIST_REGION_TEST,
    title: 'P2-5, D-9: is acknowledged when durable, at path MTU',
  },
  {
    id: 'P2-6',
    broken: 'the card reads other bytes than those that the element names',
    file: BUFFERS,
    find: 'copy(list, DMA_SPACE + pieces.at[i]!, at, pieces.length[i]!)\n',
    replace: 'copy(list, DMA_SPACE + pieces.at[i]! + 64, at, pieces.length[i]!)\n',
    test: QUEUE_WORK_CONNECTED_TEST,
    title: 'P2-6: the card reads the element, then the data it names, and sends these',
  },
  {
    id: 'P2-7',
    broken: 'the port is that of another carrier',
    file: UDP,
    find: 'export const ROCE_PORT = 4791',
    replace: 'export const ROCE_PORT = 4792',
    test: PERSIST_FLOW_TEST,
    title: 'P2-7: the carrier is RoCEv2: UDP port 4791, and the invariant CRC',
  },
  {
    id: 'P2-8',
    broken: 'a region of records is not found by the address',
    file: WRITE,
    find: 'if (region !== null && region.kind === KIND_RECORDS && !isPair(region)) {',
    replace: 'if (region !== null && region.kind === -1) {',
    test: PERSIST_FLOW_TEST,
    title: 'P2-8: the flag is the opcode or the address: both are durable',
  },
  {
    id: 'P2-9',
    broken: 'a plain WRITE elsewhere waits for a fence',
    file: WRITE,
    find: 'if (qp.placing) withhold(state, qp, psn)',
    replace: 'withhold(state, qp, psn)',
    test: WRITE_PERSIST_REGION_TEST,
    title: 'P2-9: one elsewhere is acknowledged without a fence',
  },
  {
    id: 'P2-10',
    broken: 'what is durable in both copies is told when the client asks',
    file: COMMIT,
    find: 'if (c > 0) commit.acknowledge(c + 1)',
    replace: 'if (c > 1) commit.acknowledge(c + 1)',
    test: PERSIST_FLOW_TEST,
    title: 'P2-10: the card makes it durable by itself: the client sends nothing more',
  },
  {
    id: 'P2-11',
    broken: 'form A needs no right to persist',
    file: PERSIST_FILE,
    find: 'const fault = accessOf(state, qp, reth.rkey, WRITE_PERSIST)',
    replace: 'const fault = accessOf(state, qp, reth.rkey, 0)',
    test: WRITE_PERSIST_REGION_TEST,
    title: 'P2-11: into a region that is not registered so it draws 0x62, nothing written',
  },
  {
    id: 'P2-12',
    broken: 'a placement that was not shown is written',
    file: PLACEMENT,
    find: 'if (wanted === PLACEMENT_LOCAL || wanted === proof.proven) return PASS',
    replace: 'if (wanted < 3) return PASS',
    test: PLACEMENT_BYPASS_TEST,
    title: 'P2-12: a region of another placement than was proven is not made',
  },
  {
    id: 'P2-13',
    broken: 'no byte is read behind the writes',
    file: COMMAND_LIST,
    find: 'if (list.posted !== 0) {\n    const read',
    replace: 'if (list.posted < 0) {\n    const read',
    test: PLACEMENT_BYPASS_TEST,
    title: 'P2-13, P2-14: one byte is read behind the writes and the fence of each stage',
  },
  {
    id: 'P2-14',
    broken: 'a group makes do with the read of the one before',
    file: COMMAND_LIST,
    find: 'list.pushed = list.posted\n    list.posted = 0\n  }\n  return index',
    replace: 'list.pushed = list.posted\n    list.posted = -1\n  }\n  return index',
    test: PLACEMENT_BYPASS_TEST,
    title: 'P2-14: a group that begins again reads behind what was written before it: flags',
  },
  {
    id: 'P2-15',
    broken: 'the acknowledgement does not say that a read did it',
    file: MECHANISM,
    find: 'return (placement + MECHANISM_OF_PLACEMENT) |',
    replace: 'return MECHANISM_OF_PLACEMENT |',
    test: PLACEMENT_BYPASS_TEST,
    title: 'P2-15: the PERSIST_ACK says that a read made it durable; of a local record, not',
  },
  {
    id: 'P2-16',
    broken: 'a record completes when it was received',
    file: COMPLETER,
    find: 'if (!request.received) setReceived(q, request, nowUs)\n    return\n',
    replace:
      'if (!request.received) setReceived(q, request, nowUs)\n    resolveRequest(q, ' +
      "request, 'SUCCESS')\n    return\n",
    test: QUEUE_WORK_CONNECTED_TEST,
    title: 'P2-16: a record, inline and by address: one completion, when it is durable',
  },
  {
    id: 'P2-17',
    broken: 'the card asks without a RECEIVE',
    file: FLUSH_AGENT,
    find: 'if (pointerOf(host, place) !== farPointerOf(host, place)) return true\n',
    replace: 'return true\n',
    test: PLACEMENT_THROUGH_TEST,
    title: 'P2-17: without a receive nothing is asked, and the record waits for one',
  },
  {
    id: 'P2-18',
    broken: 'the element does not name the data',
    file: FLUSH_AGENT,
    find: 'completion.psn = request.psn\n',
    replace: 'completion.psn = 0\n',
    test: PLACEMENT_THROUGH_TEST,
    title: 'P2-18: what the card has written back for itself is asked for in nobody’s name',
  },
  {
    id: 'P2-19',
    broken: 'the RECEIVE is not completed',
    file: FLUSH_AGENT,
    find: 'complete(host, list, cq)\n  movePointer(host, place',
    replace: 'movePointer(host, place',
    test: PLACEMENT_THROUGH_TEST,
    title: 'P2-17, P2-18, P2-19, P2-20: the agent is told PSN, operation and place',
  },
  {
    id: 'P2-20',
    broken: 'the CPU is told another place',
    file: FLUSH_AGENT,
    find: 'completion.addressLow = (offset % 2 ** 32) | 0\n',
    replace: 'completion.addressLow = 0\n',
    test: PLACEMENT_THROUGH_TEST,
    title: 'P2-17, P2-18, P2-19, P2-20: the agent is told PSN, operation and place',
  },
  {
    id: 'P2-21',
    broken: 'received is told as durable',
    file: COMPLETER,
    find: 'if (!request.received) setReceived(q, request, nowUs)\n    return\n',
    replace:
      'if (!request.received) setReceived(q, request, nowUs)\n    resolveRequest(q, ' +
      "request, 'SUCCESS')\n    return\n",
    test: QUEUE_WORK_CONNECTED_TEST,
    title: 'P2-21: what was received is never called durable before the PERSIST_ACK',
  },
  {
    id: 'P2-22',
    broken: 'no RECEIVE of the client is found for a result',
    file: OUTCOME,
    find: 'if (pair.resultFirst < 0) pair.resultFirst = item\n  else',
    replace: 'if (pair.resultFirst < 0) return\n  else',
    test: QUEUE_WORK_CONNECTED_TEST,
    title: 'P2-21, P2-22, P2-24: received by the send, durable by a receive',
  },
  {
    id: 'P2-23',
    broken: 'the SEND of the agent ends before its answer leaves',
    file: FLUSH_AGENT,
    find: 'agent.noted = unit\n    agent.served = false\n    return WAIT',
    replace: 'return endSend(state)',
    test: PLACEMENT_THROUGH_TEST,
    title: 'P2-23: the SEND of the agent completes behind the PERSIST_ACK that it has earned',
  },
  {
    id: 'P2-24',
    broken: 'the client is not told that it was received',
    file: COMPLETER,
    find: 'q.hooks.received(request)\n',
    replace: '',
    test: QUEUE_WORK_CONNECTED_TEST,
    title: 'P2-21, P2-22, P2-24: received by the send, durable by a receive',
  },
  {
    id: 'P2-25',
    broken: 'without a RECEIVE the sender is not asked to wait',
    file: THROUGH,
    find: 'return busy ? waitForJobs(qp) : PASS',
    replace: 'return PASS',
    test: PLACEMENT_THROUGH_TEST,
    title: 'P2-25: more records than jobs draw one RNR NAK, and are taken when they come again',
  },
  {
    id: 'P2-26',
    broken: 'received is taken for persisted',
    file: COMPLETER,
    find: 'if (!request.received) setReceived(q, request, nowUs)\n    return\n',
    replace:
      'if (!request.received) setReceived(q, request, nowUs)\n    resolveRequest(q, ' +
      "request, 'SUCCESS')\n    return\n",
    test: REQUESTER_TEST,
    title: 'G2-1, P2-26: a second acknowledgement of one PSN is not taken for durability',
  },
  {
    id: 'P2-27',
    broken: 'a record waits until the one before it is durable',
    file: THROUGH,
    find: 'if (job.state === FREE) return PASS\n    if (job.state !== ENDED) busy = true',
    replace: 'if (job.state !== FREE && job.state !== ENDED) return NOT_READY',
    test: PLACEMENT_THROUGH_TEST,
    title: 'P2-27: the next request is taken before the first is durable',
  },
  {
    id: 'P2-28',
    broken: 'received is not told before durable',
    file: COMPLETER,
    find: 'if (!request.received) setReceived(q, request, nowUs)\n    return\n',
    replace: 'return\n',
    test: REQUESTER_TEST,
    title: 'P2-28: received on the acknowledgement, durable on the PERSIST_ACK',
  },
]
