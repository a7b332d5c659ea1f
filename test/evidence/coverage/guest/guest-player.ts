/**
 * Plays a tape to a guest: what the board did in Node happens in QuickJS, and what the firmware
 * hands over must be what it handed over there.
 *
 * Invariant: a guest that plays to the end has composed the same command lists, taken the
 * same bytes out of packet memory and answered every call with the same number. At the first
 * difference the play ends, and the difference is told.
 */

import type { GuestMachine } from '../../../../boards/emulator/run/guest.ts'
import { type Facts, NO_POWER } from '../../../../firmware/board/hal.ts'
import type { ColdGuest } from '../../../support/cards/cold-guest.ts'
import { BACK, IDLE, OUT, PacketView, type Recorded, RUN, SERVE, WRITE } from '../flight-tape.ts'

/** The guest did something else than the tape says. */
class Differs extends Error {
  override readonly name = 'Differs'
}

/** What came of a play. */
interface Played {
  /** Calls and command lists that were compared. */
  readonly calls: number
  readonly lists: number
  /** What was different first, or null. */
  readonly differs: string | null
}

/** A machine without a medium, a network or a host: it does what the tape says. */
class TapeMachine implements GuestMachine {
  readonly facts: Facts
  calls = 0
  lists = 0
  private readonly tape: Recorded
  private readonly view: PacketView
  private at = 0
  private bytesAt = 0
  private isDead = false

  constructor(tape: Recorded, packets: Uint8Array) {
    this.tape = tape
    this.facts = tape.facts
    this.view = new PacketView(packets)
    this.write()
  }

  get isDone(): boolean {
    return this.at >= this.tape.numbers.length
  }

  next(): number {
    return this.tape.numbers[this.at++]!
  }

  die(): void {
    this.isDead = true
  }

  /** Writes to packet memory what the board wrote. */
  write(): void {
    const { packets } = this.view
    const { numbers, bytes } = this.tape
    while (numbers[this.at] === WRITE) {
      const to = numbers[this.at + 1]!
      const length = numbers[this.at + 2]!
      packets.set(bytes.subarray(this.bytesAt, this.bytesAt + length), to)
      this.bytesAt += length
      this.at += 3
    }
  }

  run(count: number): number {
    const { view, tape } = this
    if (this.isDead) {
      view.setResult(0, NO_POWER)
      return 0
    }
    const place = `list ${this.lists} in call ${this.calls}`
    if (this.next() !== RUN) throw new Differs(`${place} is one too many`)
    const asked = this.next()
    if (asked !== count) throw new Differs(`${place} has ${count} commands, not ${asked}`)
    if (this.next() !== view.hashOfList(count)) throw new Differs(`${place} has other commands`)
    const done = this.next()
    const ran = Math.min(done + 1, count)
    for (let i = 0; i < ran; i++) view.setResult(i, tape.bytes[this.bytesAt++]!)
    this.write()
    if (this.next() !== OUT || this.next() !== view.hashOfBytes(done)) {
      throw new Differs(`${place} takes other bytes out of packet memory`)
    }
    this.lists++
    return done
  }

  /** A call has returned. */
  back(value: number): void {
    const place = `call ${this.calls}`
    if (this.next() !== BACK) throw new Differs(`${place} has run too few lists`)
    const expected = this.next()
    if (!Object.is(value, expected)) {
      throw new Differs(`${place} answered ${value}, not ${expected}`)
    }
    this.calls++
    this.write()
  }
}

/** Plays the tape to its end, or to the first difference. */
export function play(guest: ColdGuest, tape: Recorded): Played {
  let machine: TapeMachine | null = null
  try {
    const engine = guest.start((packets) => {
      machine = new TapeMachine(tape, packets)
      return machine
    })
    machine!.back(0)
    while (!machine!.isDone) {
      const kind = machine!.next()
      if (kind === SERVE) machine!.back(engine.serve(machine!.next(), machine!.next()))
      else if (kind === IDLE) machine!.back(engine.idle(machine!.next()))
      else throw new Error(`a tape has no ${kind} between two calls`)
    }
  } catch (error) {
    const { calls, lists } = machine!
    return { calls, lists, differs: error instanceof Error ? error.message : String(error) }
  }
  const { calls, lists } = machine!
  return { calls, lists, differs: null }
}
