/**
 * A card with two regions of records, and an area of plain bytes that is registered write-persist:
 * what a batch may go to (S1-M9).
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type CutChoice, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { State } from '../../../firmware/core.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { BatchRecord } from './batch-card.ts'
import { TestCard, type TestPeer, type TestRegion } from './test-card.ts'

const AREA_BYTES = 65536
const SLOTS = 64

export class MixedCard {
  readonly card: TestCard
  readonly state: State
  readonly area: TestRegion
  readonly first: TestRegion
  readonly second: TestRegion
  readonly qp: TestPeer

  /** On a new part, or as that one is found. */
  constructor(part: Nvdimm | null = null, mtu = 1024) {
    let state: State | null = null
    const start = (machine: Parameters<typeof bootDirect>[0]): ReturnType<typeof bootDirect> =>
      bootDirect(machine, (seen) => {
        state = seen
      })
    this.card = new TestCard(part ?? 1 << 19, { start })
    if (part === null) this.provision()
    this.area = this.card.open('area')
    this.first = this.card.open('first')
    this.second = this.card.open('second')
    this.state = state!
    this.qp = this.card.connect(mtu)
  }

  private provision(): void {
    const bytes = { kind: mad.KIND_BYTES, length: AREA_BYTES, flags: mad.REGION_WRITE_PERSIST }
    this.card.format().provision({ name: 'area', ...bytes })
    this.card.provision({ name: 'first', slots: SLOTS, capacity: 64 })
    this.card.provision({ name: 'second', slots: SLOTS, capacity: 1024, copies: 3 })
  }

  /** The card after a cut that leaves of the pending stores what `choice` says. */
  after(choice: CutChoice): MixedCard {
    this.card.machine.die()
    cut(this.card.nvdimm, choice)
    return new MixedCard(this.card.nvdimm)
  }

  /** A member that is a record. */
  record(region: TestRegion, slot: number, data: Uint8Array): BatchRecord {
    return { slot, data, reth: { rkey: region.rkey } }
  }

  /** A member that goes to the area, from that byte on. */
  bytes(offset: number, data: Uint8Array): BatchRecord {
    const { rkey, baseHigh } = this.area
    return {
      ...{ slot: 0, data, wait: 1 },
      reth: { rkey, vaHigh: baseHigh, vaLow: offset },
      pweth: { slotAddressed: false },
    }
  }

  /** What stands where that member goes; all of it, zeros behind what a record has. */
  found({ slot, data, reth, pweth }: BatchRecord): Uint8Array | null {
    const qp = this.card.connect()
    if (pweth?.slotAddressed === false) {
      return this.card.read(qp, this.area, 0, 0, data.length, reth!.vaLow)
    }
    const region = [this.first, this.second].find(({ rkey }) => rkey === reth!.rkey)!
    return this.card.read(qp, region, slot, 0, data.length)
  }
}
