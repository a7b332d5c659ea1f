/**
 * Virtual time for everything outside the firmware, and the time of one machine in it.
 *
 * Invariants:
 * - Events of the same time run in the order in which they were scheduled.
 * - In virtual time nothing happens between events and waiting costs nothing; the same events give
 *   the same run. A virtual clock moves when it is told to (`runUntilIdle`, `runUntil`) or, when
 *   it was released (`start`), by one event per turn of Node's loop, so that promises settle in
 *   between.
 * - A machine's clock is another's, and what was scheduled by it ends with the machine's power.
 */

import type { Clock, Timer } from '../../clock.ts'
import { COUNT } from '../../kinds.ts'
import { check, NUMBER } from './arguments.ts'

interface Event extends Timer {
  readonly order: number
}

function isBefore(a: Event, b: Event): boolean {
  return a.atUs < b.atUs || (a.atUs === b.atUs && a.order < b.order)
}

/** More events in one run than this are a loop that feeds itself. */
const EVENTS_MAX = 100_000_000

export class VirtualClock implements Clock {
  private time = 0
  private scheduled = 0
  /** A binary heap: the parent of element i is (i - 1) >> 1, and is before it. */
  private readonly heap: Event[] = []
  private running = false
  private turn: NodeJS.Immediate | null = null

  get nowUs(): number {
    return this.time
  }

  /** Events that wait; cancelled ones count until their time has come. */
  get eventCount(): number {
    return this.heap.length
  }

  schedule(atUs: number, action: () => void): Timer {
    const event = { atUs: Math.max(atUs, this.time), action, order: this.scheduled++ }
    let i = this.heap.push(event) - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!isBefore(event, this.heap[parent]!)) break
      this.heap[i] = this.heap[parent]!
      i = parent
    }
    this.heap[i] = event
    if (this.running) this.nextTurn()
    return event
  }

  cancel(timer: Timer): void {
    timer.action = undefined
  }

  /** Runs the next event; false if there is none. */
  step(): boolean {
    for (;;) {
      const event = this.take()
      if (event === undefined) return false
      const { action } = event
      if (action === undefined) continue
      this.time = event.atUs
      event.action = undefined
      action()
      return true
    }
  }

  private take(): Event | undefined {
    const { heap } = this
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || first === last) return first
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
      if (!isBefore(heap[child]!, last)) break
      heap[i] = heap[child]!
      i = child
    }
    heap[i] = last
    return first
  }

  /** Runs events until none is left; returns how many. Throws if they never end. */
  runUntilIdle(eventsMax: number = EVENTS_MAX): number {
    check('events at most', eventsMax, COUNT)
    let count = 0
    while (this.step()) {
      if (++count > eventsMax) throw new Error(`no rest after ${eventsMax} events`)
    }
    return count
  }

  /** Runs the events up to and including `atUs`, and sets the time to that. */
  runUntil(atUs: number): number {
    check('run until', atUs, NUMBER)
    let count = 0
    for (let next = this.heap[0]; next !== undefined && next.atUs <= atUs; next = this.heap[0]) {
      // A cancelled event makes `step` go on to the next one, whenever that is.
      if (next.action === undefined) this.take()
      else if (this.step()) count++
    }
    this.time = Math.max(this.time, atUs)
    return count
  }

  /** Releases the clock: one event per turn of Node's loop, as long as there are any. */
  start(): void {
    this.running = true
    this.nextTurn()
  }

  /** Holds it again. */
  stop(): void {
    this.running = false
    if (this.turn !== null) clearImmediate(this.turn)
    this.turn = null
  }

  private nextTurn(): void {
    if (this.turn !== null || this.heap.length === 0) return
    this.turn = setImmediate(() => {
      this.turn = null
      this.step()
      if (this.running) this.nextTurn()
    })
  }
}

/** The clock of one machine. */
export class MachineClock implements Clock {
  private readonly clock: Clock
  private readonly timers = new Set<Timer>()

  constructor(clock: Clock) {
    this.clock = clock
  }

  get nowUs(): number {
    return this.clock.nowUs
  }

  schedule(atUs: number, action: () => void): Timer {
    const timer = this.clock.schedule(atUs, () => {
      this.timers.delete(timer)
      action()
    })
    this.timers.add(timer)
    return timer
  }

  cancel(timer: Timer): void {
    this.timers.delete(timer)
    this.clock.cancel(timer)
  }

  /** The machine has no power any more: nothing of what waits will happen. */
  stop(): void {
    for (const timer of this.timers) this.clock.cancel(timer)
    this.timers.clear()
  }
}
