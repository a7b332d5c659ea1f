/**
 * Frames at random: packets with wrong fields, and dialogues with wrong order.
 *
 * Invariant: a frame is drawn from the seed and from what the card would take next, which a
 * peer knows; so every state of a queue pair is met often.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { FRAME_BYTES_MAX } from '../../../firmware/board/limits.ts'
import { copyAt, LANES_AT, type RegionLayout } from '../../support/judges/oracle.ts'
import { Arena, type Pair } from './arena.ts'
import type { Kind } from './kinds.ts'
import { mutateField, put, setLengths, tag } from './mutate.ts'
import { REST_US, type WorldOptions } from './world.ts'

/** What is counted: requests of an attacker who goes beyond the end, or the middle, of the PSNs. */
export const PAST_AN_END = 'PSNs past an end'

/** How hostile it is: chances in a hundred. */
interface Manner {
  /** A field has another value. */
  readonly field: number
  /** The frame is shorter, longer, tagged, of any opcode, or its ICRC is wrong. */
  readonly form: number
  /** The PSN is not the one that is due. */
  readonly psn: number
  /** What was begun is gone on with. */
  readonly plan: number
  /** A frame of before, with or without other bytes. */
  readonly again: number
  /** Of all connections those that may have ended before they are made again. */
  readonly dead: number
  /** Something happens to the medium, in a hundred bursts. */
  readonly medium: number
}

export const PACKETS: Manner = {
  field: 55,
  form: 14,
  psn: 12,
  plan: 60,
  again: 3,
  dead: 50,
  medium: 0,
}
export const DIALOGUES: Manner = {
  field: 6,
  form: 1,
  psn: 8,
  plan: 94,
  again: 7,
  dead: 12,
  medium: 0,
}

/** For the slower engine: more that is refused early, fewer connections. */
export const BRISK: Manner = { ...PACKETS, field: 75, form: 20, dead: 88 }
/** Dialogues on a medium that fails. */
export const FAULTS: Manner = { ...DIALOGUES, medium: 8 }

/** Frames between two looks at the good client. */
const REST_FRAMES = 4096
/** A cut is played at one acknowledgement in so many bursts. */
const CUT_BURSTS = 160
const HISTORY = 64

const FIELD_COUNTS = [1, 1, 1, 1, 2, 2, 3]

export class Traffic {
  readonly arena: Arena
  private readonly manner: Manner
  private readonly random: Random
  private readonly history: (Uint8Array | null)[] = new Array<null>(HISTORY).fill(null)
  private readonly dead: Pair[] = []
  private bursts = 0
  private frames = 0

  constructor(options: WorldOptions, manner: Manner) {
    this.arena = new Arena(options)
    this.random = new Random(options.seed ^ 0x7a)
    this.manner = manner
  }

  /** So many frames more, and a rest; it ends early with a complaint. */
  run(count: number): void {
    this.send(count)
    if (this.arena.world.complaint === '') this.arena.rest()
  }

  send(count: number): void {
    const { arena, random } = this
    const { world } = arena
    for (let left = count; left > 0 && world.complaint === ''; ) {
      const size = Math.min(left, random.below(4) === 0 ? 1 + random.below(32) : 32)
      const good = random.below(size + 1)
      for (let i = 0; i < size; i++) {
        if (i === good && this.bursts % 4 === 0) arena.good()
        this.next()
      }
      if (this.bursts % CUT_BURSTS === 7) arena.arm()
      arena.serve()
      this.after()
      left -= size
    }
  }

  private after(): void {
    const { arena, random } = this
    const { world } = arena
    this.bursts++
    const { dead } = this
    dead.length = 0
    for (const pair of arena.pairs) {
      if (arena.isOpen(pair)) arena.resume(pair)
      else dead.push(pair)
    }
    if (100 * dead.length > this.manner.dead * arena.pairs.length) arena.connectAll(dead)
    if (random.below(100) < this.manner.medium) this.harm()
    if (random.below(16) === 0) world.pass(1 + random.below(2000))
    if (random.below(600) === 0) world.pass(REST_US)
    if (this.frames < REST_FRAMES) return
    this.frames = 0
    arena.rest()
  }

  /** The medium fails, in the middle of what the attacker may change. */
  private harm(): void {
    const { arena, random } = this
    const { world } = arena
    if (arena.serving) this.expectHarm()
    const areas = [...world.authority.areas.values()].filter(({ domain }) => domain === 0)
    const { layout } = areas[random.below(areas.length)]!
    const line = (layout.at >> 6) + random.below((layout.copies * layout.areaBytes) >> 6)
    const what = random.below(40)
    if (what < 16) world.medium('poison', line)
    else if (what < 24) world.medium('refuse', line)
    else if (what < 32) world.medium('take', line)
    else if (what < 36) world.medium('armed', random.below(2))
    else if (what < 38) world.medium('fences', 1)
    if (what < 24) this.poisonRecord(layout)
  }

  /** What is lost is noted in the superblock, and copies are repaired from others. */
  private expectHarm(): void {
    const { world } = this.arena
    this.arena.serving = false
    world.part.openAlways(0, LANES_AT)
    for (const { layout, domain } of world.authority.areas.values()) {
      if (domain !== 0) continue
      world.part.openAlways(layout.at, layout.at + layout.copies * layout.areaBytes)
    }
  }

  /** All copies of one record are lost, where it is a region of records. */
  private poisonRecord(layout: RegionLayout): void {
    const { arena, random } = this
    if (layout.kind !== 0 || random.below(2) === 0) return
    const record = random.below(layout.slots)
    for (let copy = 0; copy < layout.copies; copy++) {
      arena.world.medium('poison', copyAt(layout, copy, record) >> 6)
    }
  }

  /** One frame. */
  private next(): void {
    const { arena, random, manner } = this
    this.frames++
    if (random.below(100) < manner.again && this.repeat()) return
    const pair = arena.pairs[random.below(arena.pairs.length)]!
    const kind = this.kindFor(pair)
    const due = pair.psn
    const psn = random.below(100) < manner.psn ? this.wrongPsn(due) : due
    const length = arena.fill(kind, pair, psn)
    if (psn === due) pair.psn = (due + kind.psns) & 0xffffff
    if (((pair.psn ^ due) & 0x800000) !== 0) arena.world.ledger?.count(PAST_AN_END)
    this.finish(kind, length)
  }

  private kindFor(pair: Pair): Kind {
    const { arena, random, manner } = this
    if (pair.planned < pair.plan.length) {
      if (random.below(100) < manner.plan) return pair.plan[pair.planned++]!
      if (random.below(2) === 0) pair.plan = []
    }
    const chances = arena.chances[pair.ipVersion === 4 ? 0 : 1]!
    const kind = chances[random.below(chances.length)]!
    pair.plan = kind.rest
    pair.planned = 0
    return kind
  }

  private wrongPsn(due: number): number {
    const { random } = this
    switch (random.below(6)) {
      case 0:
        return (due + 1 + random.below(4)) & 0xffffff
      case 1:
      case 2:
        return (due - 1 - random.below(40)) & 0xffffff
      case 3:
        return (due + 0x800000 - 1 + random.below(3)) & 0xffffff
      case 4:
        return [0, 1, 0xffffff, 0x800000][random.below(4)]!
      default:
        return random.below(2 ** 24)
    }
  }

  /** Mutates what is in the buffer, and sends it. */
  private finish(kind: Kind, made: number): void {
    const { arena, random, manner } = this
    let length = made
    if (random.below(100) < manner.field) {
      const count = FIELD_COUNTS[random.below(FIELD_COUNTS.length)]!
      for (let i = 0; i < count; i++) {
        mutateField(arena.scratch, kind.fields, random, arena.words)
      }
    }
    const keeper = arena.keeper.number
    const { bthAt } = kind
    const { scratch } = arena
    const named = (scratch[bthAt + 5]! << 16) | (scratch[bthAt + 6]! << 8) | scratch[bthAt + 7]!
    // Nobody can keep a client from harm whose own name is used.
    if (named === keeper) return
    if (random.below(100) < manner.form) {
      length = this.malform(kind, length)
      if (length < 0) return
    } else {
      arena.seal(length)
    }
    this.place(length)
  }

  private place(length: number): void {
    const { arena, random } = this
    const frame = arena.view(length)
    if (random.below(24) === 0) this.history[random.below(HISTORY)] = frame.slice()
    arena.world.stage(frame)
  }

  /** Another form; the length, or -1 if it was sent already. */
  private malform(kind: Kind, made: number): number {
    const { arena, random } = this
    const { scratch } = arena
    switch (random.below(9)) {
      case 0: // The ICRC is wrong.
        arena.seal(made)
        scratch[made - 1 - random.below(4)]! ^= 1 << random.below(8)
        return made
      case 1: // It is that of Linux, which only a FLUSH may have.
        arena.seal(made, true)
        return made
      case 2: // Cut off.
        arena.seal(made)
        return random.below(made)
      case 3: {
        // Cut off, and whole again.
        const length = Math.max(60, made - random.below(made))
        setLengths(scratch, length)
        arena.seal(length)
        return length
      }
      case 4: // Padded by Ethernet.
        arena.seal(made)
        scratch.fill(0x5a, made, made + 64)
        return made + random.below(64)
      case 5: {
        const length = tag(scratch, made)
        arena.seal(length)
        return length
      }
      case 6:
        return this.oversize(kind, made)
      default: {
        // Any opcode.
        scratch[kind.bthAt] = random.below(256)
        const named = (scratch[kind.bthAt + 5]! << 16) | (scratch[kind.bthAt + 6]! << 8)
        if ((named | scratch[kind.bthAt + 7]!) === 1) put(scratch, kind.bthAt + 5, 3, 2)
        arena.seal(made)
        return made
      }
    }
  }

  /** More payload than the path carries, or than a frame can have. */
  private oversize(kind: Kind, made: number): number {
    const { arena, random } = this
    const long = random.below(8) === 0
    const length = long
      ? FRAME_BYTES_MAX + random.below(8)
      : Math.min(FRAME_BYTES_MAX, made + 4 * random.below(300))
    arena.scratch.fill(0x77, made - 4, length)
    setLengths(arena.scratch, length)
    if (random.below(2) === 0) put(arena.scratch, kind.bthAt + 1, 1, 0x10 * random.below(4))
    arena.seal(length)
    return length
  }

  /** A frame of before, as it was or with another byte. */
  private repeat(): boolean {
    const { arena, random } = this
    const old = this.history[random.below(HISTORY)]!
    if (old === null) return false
    arena.scratch.set(old)
    if (random.below(3) === 0) {
      arena.scratch[42 + random.below(Math.max(1, old.length - 42))] = random.below(256)
      arena.seal(old.length)
    }
    arena.world.stage(arena.view(old.length))
    return true
  }
}
