/**
 * A card with two regions of records, and an area of plain bytes that is registered write-persist:
 * what a batch may go to (S1-M9).
 */

import { DDIO_OFF, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type CutChoice, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import { VIEW_SETTLED } from '../../../firmware/burst/view.ts'
import { findClient, isDurable } from '../../../firmware/commit/operations.ts'
import type { State } from '../../../firmware/core.ts'
import { PLACEMENT_BYPASS, PLACEMENT_LOCAL } from '../../../firmware/medium/region.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type BatchRecord, bytesMember } from './batch-card.ts'
import { believe } from './placed.ts'
import { dataOf, TestCard, type TestPeer, type TestRegion } from './test-card.ts'

const AREA_BYTES = 65536
const SLOTS = 64
const PART_BYTES = 1 << 19
const HOST_BYTES = 1 << 19

/** Who sends: that of `TestCard.connect`. */
const CLIENT = 7

interface MixedOptions {
  readonly mtu?: number
  /** The memory of its host, past whose caches the regions lie; they are the card's own unless. */
  readonly host?: HostMemory | null
  readonly areaBytes?: number
  readonly slots?: number
  readonly partBytes?: number
}

/** What stands at a place: what was written first, or then; neither, or nothing that is served. */
export type Stands = 'old' | 'new' | 'other' | 'lost'

export class MixedCard {
  readonly card: TestCard
  readonly state: State
  readonly area: TestRegion
  readonly first: TestRegion
  readonly second: TestRegion
  readonly qp: TestPeer
  private readonly options: MixedOptions
  private reader: TestPeer | null = null

  /** On a new part, or as that one is found. */
  constructor(part: Nvdimm | null = null, options: MixedOptions = {}) {
    this.options = options
    const { host = null, partBytes = PART_BYTES, mtu = 1024 } = options
    let state: State | null = null
    const start = (machine: Parameters<typeof bootDirect>[0]): ReturnType<typeof bootDirect> =>
      bootDirect(machine, (seen) => {
        state = seen
      })
    this.card = new TestCard(part ?? partBytes, { start, host })
    if (part === null) this.card.format()
    if (host?.link.up === true) believe(this.card, PLACEMENT_BYPASS)
    if (part === null) this.provision()
    this.area = this.card.open('area')
    this.first = this.card.open('first')
    this.second = this.card.open('second')
    this.state = state!
    this.qp = this.card.connect(mtu)
  }

  private provision(): void {
    const { areaBytes = AREA_BYTES, slots = SLOTS, host = null } = this.options
    const placement = host === null ? PLACEMENT_LOCAL : PLACEMENT_BYPASS
    const bytes = { kind: mad.KIND_BYTES, length: areaBytes, flags: mad.REGION_WRITE_PERSIST }
    this.card.provision({ name: 'area', ...bytes, placement })
    this.card.provision({ name: 'first', slots, capacity: 64, placement })
    this.card.provision({ name: 'second', slots, capacity: 1024, copies: 3, placement })
  }

  /** The card after a cut that leaves of the pending stores what `choice` says. */
  after(choice: CutChoice): MixedCard {
    const { host = null } = this.options
    this.card.machine.die()
    host?.powerCut(choice)
    cut(this.card.nvdimm, choice)
    return this.again()
  }

  /** Another card on what stands on its medium, and in its host's memory. */
  again(): MixedCard {
    const { host = null } = this.options
    this.card.machine.die()
    const { part = null, platform = DDIO_OFF } = host ?? {}
    const found = part === null ? null : new HostMemory({ part, platform })
    return new MixedCard(this.card.nvdimm, { ...this.options, host: found })
  }

  /** A member that is a record. */
  record(region: TestRegion, slot: number, data: Uint8Array): BatchRecord {
    return { slot, data, reth: { rkey: region.rkey } }
  }

  /** A member that goes to the area, from that byte on. */
  bytes(offset: number, data: Uint8Array): BatchRecord {
    return bytesMember(this.area, offset, data)
  }

  /** What stands where that member goes; all of it, zeros behind what a record has. */
  found(member: BatchRecord): Uint8Array | null {
    const { slot, data, reth } = member
    const qp = this.card.connect()
    if (isBytes(member)) return this.card.read(qp, this.area, 0, 0, data.length, reth!.vaLow)
    return this.card.read(qp, this.regionOf(member), slot, 0, data.length)
  }

  /** As `found`, of each of them, in a word. */
  stand(old: readonly BatchRecord[], members: readonly BatchRecord[]): Stands[] {
    return members.map((member, i) => {
      const bytes = this.found(member)
      if (bytes === null) return 'lost'
      const is = ({ data }: BatchRecord): boolean => Buffer.compare(bytes, data) === 0
      return is(member) ? 'new' : is(old[i]!) ? 'old' : 'other'
    })
  }

  /** The members, each record of which expects the sequence that its slot has. */
  expecting(members: readonly BatchRecord[]): BatchRecord[] {
    this.reader ??= this.card.connect()
    const { reader } = this
    return members.map((member) => {
      if (isBytes(member)) return member
      const header = this.card.read(reader, this.regionOf(member), member.slot, VIEW_SETTLED, 64)!
      return { ...member, expect: new DataView(header.buffer).getBigUint64(32, true) }
    })
  }

  /** Does the table know that operation as durable? */
  knows(operation: number): boolean {
    const { operations } = this.state.commit
    return isDurable(operations, findClient(operations, -1, 0, CLIENT), 0, operation)
  }

  private regionOf({ reth }: BatchRecord): TestRegion {
    return [this.first, this.second].find(({ rkey }) => rkey === reth!.rkey)!
  }
}

/** A new memory of a host that shows it past its caches. */
export function mixedHost(): HostMemory {
  return new HostMemory({ part: new Nvdimm({ bytes: HOST_BYTES }), platform: DDIO_OFF })
}

export function isBytes({ pweth }: BatchRecord): boolean {
  return pweth?.slotAddressed === false
}

/** The batch that the figure of source 4 shows: to record buffers, and to an area. */
export function figureOf(one: MixedCard, seed = 0): BatchRecord[] {
  return [
    one.record(one.first, 3, dataOf(64, seed + 1)),
    one.bytes(100, dataOf(300, seed + 2)),
    one.record(one.second, 3, dataOf(48, seed + 3)),
    one.bytes(1000, dataOf(5000, seed + 4)),
    one.record(one.first, 4, dataOf(64, seed + 5)),
  ]
}
