/** Rows of queues in the memory of the host (source 3). */

import type { Row } from '../row.ts'

const PCIE_DRIVER_LAYOUT_TEST = 'test/driver/card/queues/pcie-driver-layout.test.ts'
const QUEUE_ZONE2_TEST = 'test/firmware/manage/queue-zone2.test.ts'
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
    title: 'P3-1: a send queue does not outgrow its receive queue, nor that shrink below ' + 'it',
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
]
