/**
 * The table of operations on its medium, held against a map of sets: groups, records that recovery
 * notes or takes back, lines that decay or take nothing, cuts and starts, in any order (D-6, X-3).
 *
 * Invariant: what a group has made durable is known behind every start, whichever of its
 * lines is lost meanwhile; what a cut took is not; and nobody else's operations change by that.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../../boards/emulator/medium/power-cut.ts'
import { EmulatedMachine } from '../../../../boards/emulator/run/machine.ts'
import { fenceOwn, ownerOf, run } from '../../../../firmware/board/command-list.ts'
import { NVDIMM_SPACE } from '../../../../firmware/board/hal.ts'
import { CLIENTS, LINE_BYTES, SCRUB_CLIENTS } from '../../../../firmware/board/limits.ts'
import {
  addToLine,
  beginLines,
  beginOperation,
  clientOfOwner,
  endLines,
  enterOperation,
  findClient,
  isDurable,
  isForgotten,
  isNewOperation,
  moveClient,
  NO_CLIENT,
  type Operations,
  operationLineAddress,
  recordOperation,
  scrubLines,
  storeLines,
  storeSecondLines,
  takeClient,
  withdrawOperation,
  writeImages,
} from '../../../../firmware/commit/operations.ts'
import type { State } from '../../../../firmware/core.ts'
import { createState } from '../../../../firmware/main.ts'
import { boot } from '../../../../firmware/manage/boot.ts'
import { formatPart } from '../../../../firmware/medium/superblock.ts'
import { FACTS } from '../../../support/cards/test-card.ts'

const SEED = Number(process.env.SEED ?? 20261124)
const STEPS = 14
/** Low words of the ids: of one that is zero the high word tells that there is a client. */
const NAMES = [0, 1, 2, 3]
const HIGH = 6

/** A part, the table on it, and what it should know of each client. */
class Life {
  readonly state: State
  readonly random: Random
  private readonly nvdimm = new Nvdimm({ bytes: 1 << 17 })
  private readonly durable = new Map(NAMES.map((name) => [name, new Set<number>()]))
  /** The latest operation of each that was ever recorded, and that was begun since the start. */
  private readonly recorded = new Map(NAMES.map((name) => [name, 0]))
  private readonly latest = new Map(NAMES.map((name) => [name, 0]))

  constructor(seed: number) {
    this.random = new Random(seed)
    const facts = { ...FACTS, nvdimmBytes: this.nvdimm.bytes }
    this.state = createState(new EmulatedMachine({ facts, nvdimm: this.nvdimm, transmit() {} }))
    boot(this.state)
    const { list, superblock } = this.state
    formatPart(list, superblock, new Uint8Array(16).fill(1), this.nvdimm.bytes)
    boot(this.state)
  }

  private get table(): Operations {
    return this.state.commit.operations
  }

  private placeOf(name: number): number {
    return findClient(this.table, NO_CLIENT, HIGH, name)
  }

  private newestOf(name: number): number {
    return Math.max(this.latest.get(name)!, this.recorded.get(name)!)
  }

  private any(): number {
    return NAMES[this.random.below(NAMES.length)]!
  }

  /** An operation of the client that comes next, or a little later, or late. */
  private next(name: number): number {
    const by = this.random.chance(0.3) ? -this.random.below(3) : 1 + this.random.below(3)
    return Math.max(1, this.newestOf(name) + by)
  }

  private record(name: number, operation: number): void {
    this.durable.get(name)!.add(operation)
    this.recorded.set(name, Math.max(this.recorded.get(name)!, operation))
  }

  /** Notes that the operation has begun; its place. */
  private begin(name: number, operation: number): number {
    const { table } = this
    const whose = { clientHigh: HIGH, clientLow: name }
    const hint = this.placeOf(name)
    // The one way knows it as a new one, and notes it; the other looks for it in the table.
    const isNew = hint !== NO_CLIENT && operation > this.newestOf(name)
    expect(enterOperation(table, hint, whose, 0, operation)).toBe(isNew)
    this.latest.set(name, Math.max(this.latest.get(name)!, operation))
    if (isNew) return hint
    const place = takeClient(table, hint, HIGH, name)
    beginOperation(table, place, 0, operation)
    return place
  }

  /** A group of some records. `end`: both lines are stored, or one, or one without its fence. */
  group(end: 'whole' | 'first line' | 'no fence'): void {
    const { table, random } = this
    const { list } = this.state
    const items = Array.from({ length: 1 + random.below(5) }, () => {
      const name = this.any()
      const operation = this.next(name)
      return { name, operation, place: this.begin(name, operation) }
    })
    for (let failed = 0; failed >= 0; ) {
      beginLines(table)
      for (const { place, operation } of items) addToLine(table, place, 0, operation)
      storeLines(table, list)
      if (end !== 'no fence') fenceOwn(list)
      if (end === 'whole') {
        storeSecondLines(table, list)
        fenceOwn(list)
      }
      failed = run(list)
      if (failed < 0) break
      const refused = clientOfOwner(ownerOf(list, failed))
      const other = moveClient(table, refused)
      for (const item of items) if (item.place === refused) item.place = other
    }
    if (end === 'whole') endLines(table)
    if (end !== 'no fence') {
      for (const { name, operation } of items) this.record(name, operation)
    }
    if (end !== 'whole') this.start()
  }

  /** What is not fenced is lost, and a card starts on the rest. */
  start(): void {
    cut(this.nvdimm, { random: this.random, strategy: 'none' })
    boot(this.state)
    for (const name of NAMES) this.latest.set(name, 0)
  }

  /** A record is found durable, or taken back, outside of any group. */
  note(): void {
    const name = this.any()
    const durable = this.durable.get(name)!
    const known = [...durable]
    if (known.length > 0 && this.random.chance(0.4)) {
      const operation = known[this.random.below(known.length)]!
      withdrawOperation(this.table, this.placeOf(name), 0, operation)
      durable.delete(operation)
    } else {
      const operation = this.next(name)
      const place = takeClient(this.table, NO_CLIENT, HIGH, name)
      recordOperation(this.table, place, 0, operation)
      this.record(name, operation)
    }
    expect(writeImages(this.table, this.state.list)).toBe(0)
  }

  /** The line, by number on the part, of a client that has one; or -1. */
  private lineOf(name: number, which: number): number {
    const place = this.placeOf(name)
    if (place === NO_CLIENT) return -1
    return (operationLineAddress(place, which) - NVDIMM_SPACE) / LINE_BYTES
  }

  /** One line decays, in one of two ways; a start, or idle time, finds that. */
  decay(): void {
    const which = this.random.below(2)
    const line = this.lineOf(this.any(), which)
    if (line < 0) return
    if (this.random.chance(0.5)) this.nvdimm.poison(line)
    else for (const of of [this.nvdimm.durable, this.nvdimm.live]) of[line * LINE_BYTES + 36]! ^= 2
    if (this.random.chance(0.5)) {
      this.start()
      return
    }
    for (let slice = 0; slice < CLIENTS / SCRUB_CLIENTS; slice++) {
      expect(scrubLines(this.table, this.state.list)).toBe(0)
    }
  }

  /** A line takes nothing any more, so its client moves; or it does again, later. */
  refuse(): void {
    const line = this.lineOf(this.any(), this.random.below(2))
    if (line < 0) return
    this.nvdimm.refuseWrites(line)
    this.group('whole')
    expect(writeImages(this.table, this.state.list)).toBe(0)
    if (this.random.chance(0.5)) this.nvdimm.refuseWrites(line, false)
  }

  /** Both lines of a client are lost; which client that was. */
  lose(): number {
    const name = NAMES.find((one) => this.durable.get(one)!.size > 0)!
    for (const which of [0, 1]) this.nvdimm.poison(this.lineOf(name, which))
    this.start()
    this.durable.get(name)!.clear()
    this.recorded.set(name, 0)
    return name
  }

  /** What the table says of every operation that there was, and of those around. */
  expectSame(forgetful = false): void {
    const { table } = this
    expect(table.forgetful).toBe(forgetful)
    for (const name of NAMES) {
      const place = this.placeOf(name)
      const whose = { clientHigh: HIGH, clientLow: name }
      const durable = this.durable.get(name)!
      const newest = this.newestOf(name)
      for (let operation = 1; operation <= newest + 2; operation++) {
        const of = `client ${name}, operation ${operation} of ${newest}`
        const isKnown = durable.has(operation)
        expect(isDurable(table, place, 0, operation), of).toBe(isKnown)
        const isOpen = forgetful && place === NO_CLIENT
        expect(isForgotten(table, place, whose, 0, operation) && !isKnown, of).toBe(isOpen)
      }
      if (place === NO_CLIENT) continue
      const isNew = [0, newest, newest + 1].map((operation) => {
        return isNewOperation(table, place, 0, operation)
      })
      expect(isNew, `client ${name}`).toEqual([false, false, true])
    }
  }
}

const SEEDS = Array.from({ length: 8 }, (_, i) => SEED + i)

test.each(SEEDS)('D-6: the table knows what is durable, and nothing else (seed %i)', (seed) => {
  const life = new Life(seed)
  const steps = [
    ...[() => life.group('whole'), () => life.group('whole'), () => life.group('first line')],
    ...[() => life.group('no fence'), () => life.start(), () => life.note()],
    ...[() => life.decay(), () => life.refuse()],
  ]
  life.group('whole')
  for (let i = 0; i < STEPS; i++) {
    steps[life.random.below(steps.length)]!()
    life.expectSame()
  }
  // Where nothing is left of a client, the table says that it has forgotten, and keeps the others.
  const lost = life.lose()
  life.expectSame(true)
  expect(findClient(life.state.commit.operations, NO_CLIENT, HIGH, lost)).toBe(NO_CLIENT)
  expect(life.state.commit.operations.lost).toBe(1)
})
