/** Lost records that are given up, or not yet: what may be read, and what takes writes. */

import { DDIO_OFF } from '../../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { VIEW_DATA } from '../../../../firmware/burst/view.ts'
import { LOST_MAX } from '../../../../firmware/medium/superblock.ts'
import { putU32, u32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { placed } from '../../../support/cards/placed.ts'
import {
  dataOf,
  persistFrames,
  TestCard,
  type TestRegion,
} from '../../../support/cards/test-card.ts'
import { sameBytes } from '../../../support/judges/oracle.ts'
import { slotOffset } from '../../../support/wire/requests.ts'
import type { Play } from '../killer.ts'

function discard(card: TestCard, region: TestRegion, record: number): string {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
    putU32(body, mad.SETTLE_REGION, region.id)
    putU32(body, mad.SETTLE_RECORD, record)
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
  }).fault
}

function decay(card: TestCard, region: TestRegion, slot: number): void {
  for (const copy of [0, 1]) card.nvdimm.poison(slotOffset(region, copy, slot) / 64)
}

export const SETTLED: Readonly<Record<string, Play>> = {
  'a host that does not answer': () => {
    const { card, region, qp } = placed(DDIO_OFF)
    const data = dataOf(64, 1)
    card.serve(...persistFrames(qp, region, 0, data))
    const { link } = card.host!
    let reads = 0
    link.script = ({ kind }) => (kind === 'read' && reads++ < 2 ? 'timeout' : undefined)
    const fault = discard(card, region, 0)
    link.script = null
    const read = card.read(card.connect(), region, 0, VIEW_DATA, 64)
    if (read === null || !sameBytes(read, data)) return 'a record that is whole was given up'
    return fault === 'DMA' ? null : `silence is answered by ${fault}`
  },
  'a lane that holds a record': () => {
    const card = new TestCard(1 << 17).format()
    const region = card.provision()
    card.serve(...persistFrames(card.connect(), region, 0, dataOf(64, 1)))
    card.nvdimm.refuseWrites(slotOffset(region, 1, 0) / 64)
    card.serve(...persistFrames(card.connect(), region, 0, dataOf(64, 2), { wait: 1 }))
    decay(card, region, 5)
    if (discard(card, region, 5) !== 'PASS') return 'a lost record cannot be given up'
    card.nvdimm.poison(slotOffset(region, 0, 0) / 64)
    const read = card.read(card.connect(), region, 0, VIEW_DATA, 64)
    return read === null ? null : 'an older copy is read'
  },
  'more lost than can be named': () => {
    const card = new TestCard(new Nvdimm({ bytes: 1 << 19 })).format()
    const region = card.provision({ slots: 100 })
    for (let slot = 0; slot <= LOST_MAX; slot++) decay(card, region, slot)
    for (let first = 0; first < region.slots; ) {
      const body = card.scan(region.id, first)
      first = u32(body, mad.SCAN_NEXT)
    }
    for (let slot = 0; slot < LOST_MAX; slot++) discard(card, region, slot)
    if (card.open().unsettled === 0) return 'one that is not on the list is forgotten'
    for (let i = 0; i < 64; i++) card.idle()
    if (card.open().unsettled !== 1) return 'it is not looked for when the list has room'
    discard(card, region, LOST_MAX)
    return card.open().unsettled === 0 ? null : 'the region stays read-only'
  },
}
