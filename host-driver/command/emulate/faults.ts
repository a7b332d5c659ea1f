/**
 * Faults of an emulated card to try with: of lines of its medium, of its energy, of its fences, and
 * cuts of its power at a chosen place.
 *
 * Invariants:
 * - A fault strikes between two bursts, where nothing of the card is under way; a cut at a record
 *   or a command strikes inside of one.
 * - A copy is found by what the medium says it is, the header of its slot. A blank record has one,
 *   too.
 */

import type { EmulatedDpu, Nvdimm } from '../../../boards/emulator/index.ts'
import { DONE } from '../../../firmware/board/hal.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { blankSlotHeader, readSlotHeader, SLOT_MAGIC } from '../../../firmware/medium/slot.ts'
import { DATA_AT } from '../../../firmware/medium/superblock.ts'
import { copyOf } from '../../base/bytes.ts'
import { ArgumentError } from '../../base/errors.ts'
import type { RegionInfo } from '../../control/part.ts'
import { readSlotImage } from '../../link/slot-image.ts'
import type { Damage, Damaged, FaultOrder } from './orders.ts'

/** What is said of a copy that was damaged so. */
const SAID: Readonly<Record<Damage, string>> = {
  media: 'cannot be read any more',
  stuck: 'takes no store any more',
  rot: 'has a bit that has flipped',
}

export class Faults {
  private readonly card: EmulatedDpu
  private readonly nvdimm: Nvdimm
  private readonly regions: () => Promise<readonly RegionInfo[]>
  /** Lines that were damaged, by number. */
  private readonly lines: Set<number> = new Set()
  /** The power goes at a chosen place. */
  private planned = false

  /** `regions` asks the card, which has power. */
  constructor(card: EmulatedDpu, nvdimm: Nvdimm, regions: () => Promise<readonly RegionInfo[]>) {
    this.card = card
    this.nvdimm = nvdimm
    this.regions = regions
  }

  /** Does it, and says what it did. Rejects with ArgumentError where there is no such thing. */
  async carryOut(order: FaultOrder): Promise<string> {
    const { nvdimm } = this
    switch (order.kind) {
      case 'damage':
        return await this.damage(order.how, order)
      case 'heal':
        return this.heal()
      case 'energy':
        nvdimm.armed = order.armed
        return order.armed ? 'the part can be saved' : 'no energy is left to save the part with'
      case 'save':
        nvdimm.failSave(order.failed)
        return `the last save of the part ${order.failed ? 'has failed' : 'was good'}`
      case 'fences':
        nvdimm.fencesToFail = order.count
        return `the next ${order.count === 1 ? 'fence fails' : `${order.count} fences fail`}`
      case 'cut':
        return this.plan(order.unit, order.count)
    }
  }

  private plan(unit: 'record' | 'command', count: number): string {
    const { card } = this
    if (!card.isOn) throw new ArgumentError('the card is off: switch it on first')
    this.planned = true
    if (unit === 'record') card.armCut({ record: card.statistics.records + count })
    else card.machine!.armCut(count - 1)
    return `the power goes at ${unit} ${count} from now`
  }

  /** Whether a cut was planned; it is no more. */
  takePlan(): boolean {
    const { planned } = this
    this.planned = false
    return planned
  }

  private async damage(how: Damage, damaged: Damaged): Promise<string> {
    const { region: name, record, copy } = damaged
    if (!this.card.isOn) throw new ArgumentError('the card is off: switch it on first')
    const region = (await this.regions()).find((one) => one.name === name)
    const places = this.placesOf(region, damaged)
    for (const at of copy === null ? places : [places[copy]!]) this.strike(how, at)
    const which = copy === null ? `every copy` : `copy ${copy}`
    return `${which} of record ${record} of '${name}' ${SAID[how]}`
  }

  private strike(how: Damage, at: number): void {
    const { nvdimm } = this
    const line = at / LINE_BYTES
    this.lines.add(line)
    if (how === 'media') nvdimm.poison(line)
    else if (how === 'stuck') nvdimm.refuseWrites(line)
    else this.flip(at)
  }

  /** As somebody does who stores where only the firmware may. */
  private flip(at: number): void {
    const { nvdimm } = this
    const bytes = copyOf(nvdimm.live.subarray(at, at + 8))
    bytes[0]! ^= 1
    const stored = nvdimm.store(at, bytes, 0, bytes.length)
    nvdimm.clean(at, bytes.length)
    if (stored !== DONE || nvdimm.fence() !== DONE) {
      throw new ArgumentError('the part takes no store there now: nothing has flipped for good')
    }
  }

  private heal(): string {
    const { nvdimm, lines } = this
    for (const line of lines) {
      nvdimm.refuseWrites(line, false)
      nvdimm.clearPoison(line * LINE_BYTES, LINE_BYTES)
    }
    const count = lines.size
    lines.clear()
    return `${count} ${count === 1 ? 'line takes' : 'lines take'} stores again`
  }

  /** Where each copy begins. Throws ArgumentError where there are none of them in the card. */
  private placesOf(
    region: RegionInfo | undefined,
    { region: name, record, copy }: Damaged,
  ): number[] {
    if (region === undefined) throw new ArgumentError(`there is no region '${name}'`)
    if (region.kind !== 'records' || region.placement !== 'local') {
      throw new ArgumentError(`'${name}' has no records in the card's own NVDIMM`)
    }
    if (record >= region.slots) {
      throw new ArgumentError(
        `record ${record} of '${name}': its slots are 0 to ${region.slots - 1}`,
      )
    }
    if (copy !== null && copy >= region.copies) {
      throw new ArgumentError(`copy ${copy} of '${name}': 0 to ${region.copies - 1}`)
    }
    const places = copiesIn(this.nvdimm, region, record)
    if (places.length === region.copies) return places
    const found = `${places.length} of ${region.copies} copies can be found in the part`
    throw new ArgumentError(`record ${record} of '${name}': ${found}`)
  }
}

/** Where slots say that they are this record, in the order of the copies. */
function copiesIn(nvdimm: Nvdimm, region: RegionInfo, record: number): number[] {
  const { live, liveWords, bytes } = nvdimm
  const header = blankSlotHeader()
  const found: number[] = []
  for (let at = DATA_AT; at < bytes; at += LINE_BYTES) {
    readSlotHeader(header, liveWords, at)
    const { magic, regionId } = header
    if (magic === SLOT_MAGIC && regionId === region.id && header.record === record) found.push(at)
  }
  if (found.length <= region.copies) return found
  // Somebody's data look like it: only the card can make the check code.
  return found.filter((at) => {
    return readSlotImage(live.subarray(at, at + region.stride), region, record).record !== null
  })
}
