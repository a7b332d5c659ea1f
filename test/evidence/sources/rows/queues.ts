/** Rows of queues in the memory of the host (source 3). */

import type { Row } from '../row.ts'

const BUFFERS = 'host-driver/card/queues/buffers.ts'
const CARD_QUEUE_PAIR = 'host-driver/card/queues/card-queue-pair.ts'
const COMPLETE = 'firmware/engine/complete.ts'
const COMPLETION = 'firmware/host/completion.ts'
const CONTEXT = 'firmware/host/context.ts'
const CONTEXT_CACHE = 'firmware/host/context-cache.ts'
const DOORBELL = 'firmware/host/doorbell.ts'
const ELEMENT = 'host-driver/card/queues/element.ts'
const LOOK = 'firmware/queues/look.ts'
const PASS = 'firmware/queues/pass.ts'
const PCIE_DRIVER_CARD_TEST = 'test/driver/card/queues/pcie-driver-card.test.ts'
const PCIE_DRIVER_ELEMENT_TEST = 'test/driver/card/queues/pcie-driver-element.test.ts'
const PCIE_DRIVER_LAYOUT_TEST = 'test/driver/card/queues/pcie-driver-layout.test.ts'
const PCIE_DRIVER_QUEUE_TEST = 'test/driver/card/queues/pcie-driver-queue.test.ts'
const QUEUES_CACHE_TEST = 'test/firmware/host/queues-cache.test.ts'
const QUEUES_COMPLETION_TEST = 'test/firmware/host/queues-completion.test.ts'
const QUEUES_DOORBELL_TEST = 'test/firmware/host/queues-doorbell.test.ts'
const QUEUE_CONTROL_TEST = 'test/firmware/manage/queue-control.test.ts'
const QUEUE_INFO = 'firmware/host/queue-info.ts'
const QUEUE_ZONE2_TEST = 'test/firmware/manage/queue-zone2.test.ts'
const RING = 'host-driver/card/queues/ring.ts'
const WORK_QUEUE = 'host-driver/card/queues/work-queue.ts'
const ZONE2 = 'firmware/manage/zone2.ts'
const ZONES = 'host-driver/card/queues/zones.ts'

export const QUEUES: readonly Row[] = [
  {
    id: 'P3-1',
    broken: 'the receive queue may be less deep',
    file: ZONE2,
    find: 'return (send ? otherDepth < depth : depth < otherDepth) ? REQUEST : PASS',
    replace: 'return PASS',
    test: QUEUE_ZONE2_TEST,
    title: 'P3-1: a send queue does not outgrow its receive queue, nor that shrink below it',
  },
  {
    id: 'P3-2',
    broken: 'an element has a unit too few',
    file: ELEMENT,
    find: 'return 1 + Math.ceil(all / UNIT_BYTES)',
    replace: 'return 1 + Math.floor(all / UNIT_BYTES)',
    test: PCIE_DRIVER_ELEMENT_TEST,
    title: 'P3-2: one piece is named in the first unit, several behind it',
  },
  {
    id: 'P3-3',
    broken: 'the driver never goes inline',
    file: CARD_QUEUE_PAIR,
    find: 'element.inline ?? goesInline(element.kind, bytes, this.rule)',
    replace: 'element.inline ?? false',
    test: PCIE_DRIVER_CARD_TEST,
    title: 'P3-3: up to a threshold data go inline: ',
  },
  {
    id: 'P3-4',
    broken: 'zone 1 does not say the next address',
    file: CONTEXT,
    find: 'host.words[word] = (address % 2 ** 32) | 0',
    replace: 'host.words[word] = 0',
    test: QUEUES_DOORBELL_TEST,
    title: 'P3-4, P3-16, D-11: many elements by one ring, in order; zone 1 says how far',
  },
  {
    id: 'P3-5',
    broken: 'the read pointer stops inside of an element',
    file: COMPLETE,
    find: 'completion.pointer = (element.unit + element.units) >>> 0',
    replace: 'completion.pointer = (element.unit + 1) >>> 0',
    test: QUEUES_DOORBELL_TEST,
    title: 'P3-5: of an element of several units the first is next, and its last is the newest',
  },
  {
    id: 'P3-6',
    broken: 'the card writes zone 1 of another queue',
    file: LOOK,
    find: 'copy(state.list, at, zone1Of(state, queue) + offset, length)',
    replace: 'copy(state.list, at, zone1Of(state, queue ^ 1) + offset, length)',
    test: QUEUE_CONTROL_TEST,
    title: 'P3-6: the card writes zones 1 and 2 of the queue in question, never zone 3',
  },
  {
    id: 'P3-7',
    broken: 'zone 2 is written where zone 3 is',
    file: LOOK,
    find: 'copy(state.list, at, zone2Of(state, queue), info.ZONE2_BYTES)',
    replace: 'copy(state.list, at, zone3Of(state, queue), info.ZONE2_BYTES)',
    test: QUEUE_CONTROL_TEST,
    title: 'P3-7: zone 1 may not be changed, zone 2 disturbs when it is, zone 3 does not',
  },
  {
    id: 'P3-8',
    broken: 'zone 2 by message is not written',
    file: ZONE2,
    find: 'seen.writeSeenZone2(state, queue, QUEUE)\n',
    replace: '',
    test: QUEUE_ZONE2_TEST,
    title: 'P3-8: a message is carried out, and not again when it comes again',
  },
  {
    id: 'P3-9',
    broken: 'a second lock is granted',
    file: ZONE2,
    find:
      'if (isZone2Locked(state)) return QUEUE_LOCKED\n  if (!mayChange(state)) return ' +
      'REQUEST\n  const completions',
    replace: 'const completions',
    test: QUEUE_ZONE2_TEST,
    title: 'P3-9: a second locker is refused, and the first one keeps it',
  },
  {
    id: 'P3-10',
    broken: 'two queues share a part of zone 3',
    file: ZONES,
    find: 'if (zone === 3) return zone3 + queue * info.ZONE3_BYTES',
    replace: 'if (zone === 3) return zone3 + (queue & ~1) * info.ZONE3_BYTES',
    test: PCIE_DRIVER_LAYOUT_TEST,
    title: 'P3-10: K * R1, K * R2 and K * R3; every queue has a triple of its own',
  },
  {
    id: 'P3-11',
    broken: 'zone 2 is written without its lock',
    file: ZONES,
    find: 'if (zone === 2) this.checkLock(queue, at + offset, token)\n',
    replace: '',
    test: PCIE_DRIVER_LAYOUT_TEST,
    title: 'P3-11: zone 2 is written under the token of its lock, and no other',
  },
  {
    id: 'P3-12',
    broken: 'the host rings before it stores the pointer',
    file: WORK_QUEUE,
    find: 'this.ground.zones.setPointer(this.queue, this.published)\n    this.ringAgain()',
    replace: 'this.ringAgain()\n    this.ground.zones.setPointer(this.queue, this.published)',
    test: PCIE_DRIVER_QUEUE_TEST,
    title: 'P3-12, X-4: the element, then pointer and time as one, then the doorbell',
  },
  {
    id: 'P3-13',
    broken: 'the register is not told as recorded',
    file: DOORBELL,
    find: 'copy(list, HEADER_PAGE_AT + HEADER_RECORDED, to, 4)\n',
    replace: '',
    test: QUEUES_DOORBELL_TEST,
    title: 'P3-13: the register is recorded, told, and may then be deleted',
  },
  {
    id: 'P3-14',
    broken: 'a ring for a known queue reads no pointer',
    file: PASS,
    find: 'if (fault === PASS && fresh) fault = refreshPointer(host, place)',
    replace: 'if (fault === PASS && fresh) fault = PASS',
    test: QUEUES_DOORBELL_TEST,
    title: 'P3-14, P3-15: every ring reads the pointer again, by one read of zone 3',
  },
  {
    id: 'P3-15',
    broken: 'a pointer is found by reading all of the queue',
    file: PASS,
    find: 'const read = known ? readPointer : readContext',
    replace: 'const read = pass.known[i] === 2 ? readPointer : readContext',
    test: QUEUES_DOORBELL_TEST,
    title: 'P3-14, P3-15: every ring reads the pointer again, by one read of zone 3',
  },
  {
    id: 'P3-16',
    broken: 'the host is not shown the read pointer',
    file: CONTEXT,
    find: 'copy(list, contextAt(place) + CONTEXT_ZONE1, to, ZONE1_BYTES)\n',
    replace: 'copy(list, contextAt(place) + CONTEXT_ZONE1, to, 4)\n',
    test: QUEUES_DOORBELL_TEST,
    title: 'P3-4, P3-16, D-11: many elements by one ring, in order; zone 1 says how far',
  },
  {
    id: 'P3-17',
    broken: 'what the cache has is read all the same',
    file: PASS,
    find: 'pass.known[i] = known ? 1 : 0\n    pass.units[i] = 0',
    replace: 'pass.known[i] = 0\n    pass.units[i] = 0',
    test: QUEUES_CACHE_TEST,
    title: 'P3-17: a miss reads three zones and inserts; a hit reads zone 3 alone',
  },
  {
    id: 'P3-18',
    broken: 'by chance one goes where several are to',
    file: CONTEXT_CACHE,
    find: 'for (let left = contexts.n; left > 0 && contexts.used > 0; left--) {',
    replace: 'for (let left = 1; left > 0 && contexts.used > 0; left--) {',
    test: QUEUES_CACHE_TEST,
    title: 'P3-18: n at random: as many as asked, any of them; the same with the same seed',
  },
  {
    id: 'P3-19',
    broken: 'the cached pointer counts',
    file: CONTEXT,
    find: 'if (isNewer(host, place, known, fresh)) {',
    replace: 'if (!isNewer(host, place, known, fresh)) {',
    test: QUEUES_CACHE_TEST,
    title: 'P3-19, P3-20, P3-22, D-11: the one further ahead, across every wrap',
  },
  {
    id: 'P3-20',
    broken: 'the pointer less far ahead counts',
    file: CONTEXT,
    find: 'return ahead(one, own) > ahead(other, own)',
    replace: 'return ahead(one, own) < ahead(other, own)',
    test: QUEUES_CACHE_TEST,
    title: 'P3-19, P3-20, P3-22, D-11: the one further ahead, across every wrap',
  },
  {
    id: 'P3-21',
    broken: 'the earlier time counts',
    file: CONTEXT,
    find: 'later !== 0) return later > 0',
    replace: 'later !== 0) return later < 0',
    test: QUEUES_CACHE_TEST,
    title: 'P3-21, D-11: the later one, also where the clock wraps',
  },
  {
    id: 'P3-22',
    broken: 'a pointer that came round is an earlier one',
    file: QUEUE_INFO,
    find: 'return (a - b) >>> 0',
    replace: 'return Math.max(0, a - b)',
    test: QUEUES_CACHE_TEST,
    title: 'P3-19, P3-20, P3-22, D-11: the one further ahead, across every wrap',
  },
  {
    id: 'P3-23',
    broken: 'a ring does not begin again at its end',
    file: RING,
    find: 'if (behind.length > untilEnd) this.memory.store(this.at, behind.subarray(untilEnd))\n',
    replace: '',
    test: PCIE_DRIVER_QUEUE_TEST,
    title: 'P3-2, P3-23: elements of every size wrap at every place, and at 2^32',
  },
  {
    id: 'P3-24',
    broken: 'a growth leaves the last element behind',
    file: RING,
    find: 'const count = ahead(end, from)\n',
    replace: 'const count = ahead(end, from) - 1\n',
    test: PCIE_DRIVER_QUEUE_TEST,
    title: 'P3-24: at every fill and position nothing is lost, doubled or reordered',
  },
  {
    id: 'P3-25',
    broken: 'a post without room is taken',
    file: WORK_QUEUE,
    find: 'if (units > free) throw new QueueFull(this.queue, units, free)\n',
    replace: '',
    test: PCIE_DRIVER_QUEUE_TEST,
    title: 'P3-25: free units count down; a post with too few changes nothing',
  },
  {
    id: 'P3-26',
    broken: 'a place that is posted is posted again',
    file: BUFFERS,
    find: 'if (!free) {\n',
    replace: 'if (address < 0 && !free) {\n',
    test: PCIE_DRIVER_LAYOUT_TEST,
    title: 'P3-26: a place that is posted is posted once, whichever bytes overlap',
  },
  {
    id: 'P3-27',
    broken: 'the second stamp of an entry is that of another lap',
    file: COMPLETION,
    find: 'words[w + (cqe.CQE_STAMP_AGAIN >> 2)] = number + 1',
    replace: 'words[w + (cqe.CQE_STAMP_AGAIN >> 2)] = number',
    test: QUEUES_COMPLETION_TEST,
    title: 'P3-27: an entry is whole, in its place and lap; the pointer of zone 1 follows',
  },
  {
    id: 'P3-28',
    broken: 'a pointer that cannot be is believed',
    file: CONTEXT,
    find: 'return distance > depthOf(host, place) ? QUEUE_POINTER : PASS',
    replace: 'return distance < 0 ? QUEUE_POINTER : PASS',
    test: QUEUES_DOORBELL_TEST,
    title: 'P3-28: further ahead than the queue is deep: every distance around every limit',
  },
]
