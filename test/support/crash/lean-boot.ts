/**
 * A part is booted cheaply: the firmware's own recovery, on a state that is not made again but put
 * back to what a new one is. Nothing is asked over the wire.
 *
 * Invariants:
 * - What runs is `boot` of the firmware, on an emulated machine, from the superblock to the
 *   clearing of the lanes; every command of it is executed on the part.
 * - `prepare` puts back all that a boot changes. That it is all is not believed: `staleness`
 *   compares everything that a boot could see, each field, each byte of packet memory, with a
 *   machine and a state that were never booted. Explorations call it for a share of their images,
 *   and compare what such a boot leaves with what a boot of the whole card leaves.
 * - A boot inside another one, where a recovery is itself cut, has a desk of its own.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine, type Watch } from '../../../boards/emulator/run/machine.ts'
import { CHECK_CODE_BYTES } from '../../../boards/software/check-code.ts'
import { PASS } from '../../../firmware/board/fault.ts'
import {
  COMMAND_WORDS,
  COMMANDS_AT,
  DONE,
  type Facts,
  NVDIMM_SPACE,
} from '../../../firmware/board/hal.ts'
import { BURST_FRAMES, LOCAL_LANES } from '../../../firmware/board/limits.ts'
import {
  KEY_BYTES,
  KEYS_AT,
  STAGING_AT,
  SUPERBLOCK_AT,
  TEMPLATES_AT,
} from '../../../firmware/board/memory-map.ts'
import { seedRandom } from '../../../firmware/board/random.ts'
import type { State } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import { boot } from '../../../firmware/manage/boot.ts'
import { RememberedCodes } from './remembered-codes.ts'

/**
 * A machine that remembers its longest list: what lies behind it in the ring is zero still. And it
 * remembers check codes (remembered-codes.ts).
 */
class LeanMachine extends EmulatedMachine {
  longest = 0
  private readonly words32: Int32Array = new Int32Array(this.memory)
  private readonly codes = new RememberedCodes()

  protected override check(from: number, to: number, length: number, key: number): number {
    const end = this.packets.length
    const isInPart = from >= NVDIMM_SPACE
    const at = isInPart ? from - NVDIMM_SPACE : from
    const isWhole =
      isIn(at, length, isInPart ? this.nvdimm.bytes : end) &&
      isIn(to, CHECK_CODE_BYTES, end) &&
      isIn(key, KEY_BYTES, end)
    if (!isWhole || (isInPart && !this.nvdimm.readable(at, length))) {
      return super.check(from, to, length, key)
    }
    const { words32, codes } = this
    const source = isInPart ? this.nvdimm.liveWords : words32
    if (codes.find(source, at >> 2, length >> 2, words32, key >> 2, to >> 2)) return DONE
    const result = super.check(from, to, length, key)
    if (result !== DONE) throw new Error('a code of what can be read that cannot be made')
    codes.keep(words32, to >> 2)
    return result
  }

  override run(count: number): number {
    if (count > this.longest) this.longest = count
    return super.run(count)
  }

  /** As a new machine is. */
  renew(): void {
    const { longest } = this
    this.packets.fill(0, COMMANDS_AT, COMMANDS_AT + longest * COMMAND_WORDS * 8)
    this.longest = 0
    this.commandCount = 0
    this.dead = false
    this.tellHealth()
  }
}

/** Are these whole words below `end`? */
function isIn(at: number, length: number, end: number): boolean {
  if ((at | 0) !== at || (length | 0) !== length) return false
  return ((at | length) & 3) === 0 && at >= 0 && length > 0 && at + length <= end
}

/** One machine and one state, booted again and again. */
class Desk {
  readonly machine: LeanMachine
  readonly state: State
  private readonly first: State['recovery']

  constructor(part: Nvdimm, facts: Facts) {
    this.machine = new LeanMachine({ facts, nvdimm: part, transmit: () => {} })
    this.state = createState(this.machine)
    this.first = this.state.recovery
  }

  /** Puts everything back to what it is before the first boot. */
  prepare(): void {
    const { machine, state } = this
    const { packets, longest } = machine
    state.list.kept.fill(0, 0, longest)
    machine.renew()
    packets.fill(0, KEYS_AT, TEMPLATES_AT)
    packets.fill(0, SUPERBLOCK_AT, STAGING_AT)
    state.random.next = seedRandom(state.words, machine.facts.entropy).next
    state.recovery = this.first
    state.refused = PASS
    state.incarnation = 0
    state.regions.places.fill(null)
    state.regions.count = 0
    state.superblock.whole = 0
    state.superblock.mended = 0
    state.queuePairs.salts.fill(0)
    this.renewList()
    this.renewCommit()
    this.renewThrough()
  }

  private renewList(): void {
    const { list } = this.state
    list.count = 0
    list.owner = 0
    list.posted = 0
    list.postedOwner = 0
    list.pushAt = -1
    list.pushed = 0
    list.fences = 0
    list.fencesAppended = 0
    list.runs = 0
    list.alone.fill(0)
  }

  private renewCommit(): void {
    const { commit } = this.state
    commit.sequenceLow = 0
    commit.sequenceHigh = 0
    commit.retiredLanes.fill(0)
    commit.held.fill(null)
    commit.takenBack.fill(null)
    commit.unsettled.fill(null)
    commit.pending.fill(null)
    commit.phases.fill(0)
    commit.usableLanes = BURST_FRAMES
    commit.hostFrom = LOCAL_LANES
    commit.hostLanes = BURST_FRAMES - LOCAL_LANES
    commit.closed = PASS
    const { operations } = commit
    operations.next.fill(0)
    operations.retired.fill(0)
    operations.used.fill(0)
    operations.latestLow.fill(0)
    operations.latestHigh.fill(0)
    operations.unwritten.fill(0)
    operations.uses = 0
    operations.sequence = 0
    operations.recovered = 0
    operations.forgetful = false
    operations.mended = 0
    operations.lost = 0
    operations.scrubbed = 0
  }

  private renewThrough(): void {
    const { through } = this.state
    through.unflushed.fill(0)
    through.agent.life = 1
    this.state.regionJob.live = false
    for (const job of through.jobs) job.state = 0
  }
}

/** Makes a lean boot of one part, and of boots inside it. */
export class LeanBooth {
  private readonly part: Nvdimm
  private readonly facts: Facts
  private readonly desks: Desk[] = []
  private depth = 0
  private unbooted: Desk | null = null

  constructor(part: Nvdimm, facts: Facts) {
    this.part = part
    this.facts = facts
  }

  /** Boots, and hands the state to `use`, which may look at it until it returns. */
  boot(watch: Watch | null, use: (state: State) => void): void {
    const desk = this.desk()
    this.depth += 1
    try {
      desk.prepare()
      desk.machine.observe(watch ?? {})
      boot(desk.state)
      use(desk.state)
    } finally {
      this.depth -= 1
    }
  }

  /** Where what is about to be booted differs from what was never booted; null if nowhere. */
  staleness(): string | null {
    const desk = this.desk()
    desk.prepare()
    desk.machine.observe({})
    this.unbooted ??= new Desk(this.part, desk.state.facts)
    this.unbooted.machine.tellHealth()
    const { packets } = desk.machine
    const memory = Buffer.compare(packets, this.unbooted.machine.packets)
    if (memory !== 0) return 'packet memory'
    return difference(desk.state, this.unbooted.state, packets.buffer, 'state', new Set())
  }

  /** The desk of this depth; a part that counts another unsafe shutdown gets new ones. */
  private desk(): Desk {
    const { dirtyShutdowns } = this.part
    let desk = this.desks[this.depth]
    if (desk === undefined || desk.state.facts.dirtyShutdowns !== dirtyShutdowns) {
      desk = new Desk(this.part, { ...this.facts, dirtyShutdowns })
      this.desks[this.depth] = desk
      if (this.unbooted?.state.facts.dirtyShutdowns !== dirtyShutdowns) this.unbooted = null
    }
    return desk
  }
}

/**
 * Where two states differ: a path, or null. Views of packet memory are compared as a whole
 * elsewhere; functions, and the machine, belong to the state that they are in.
 */
function difference(
  a: unknown,
  b: unknown,
  packets: ArrayBufferLike,
  path: string,
  seen: Set<unknown>,
): string | null {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) {
    const same = Object.is(a, b) || (typeof a === 'function' && typeof b === 'function')
    return same ? null : path
  }
  if (seen.has(a) || a instanceof EmulatedMachine || a === packets) return null
  seen.add(a)
  if (ArrayBuffer.isView(a)) {
    if (a.buffer === packets) return null
    const [one, other] = [a, b as ArrayBufferView].map((view) => {
      return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
    })
    return Buffer.compare(one!, other!) === 0 ? null : path
  }
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return path
  for (const key of keys) {
    const one = (a as Record<string, unknown>)[key]
    const other = (b as Record<string, unknown>)[key]
    const found = difference(one, other, packets, `${path}.${key}`, seen)
    if (found !== null) return found
  }
  return null
}
