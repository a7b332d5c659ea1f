/**
 * Every order of what two sides do: the steps of a host, in their own order, and the accesses of a
 * card, which runs by itself and is stopped before each.
 *
 * A schedule is one number for each gap between two accesses: how many steps of the host happen
 * there. Schedules are counted up like a number whose digits are only known when they are reached:
 * what the card does next depends on what it has seen.
 *
 * Invariant: every schedule is played once, and they are played in order; a schedule that
 * is played again goes the same way.
 */

/** What the host does in one go; nobody sees half of it. */
export interface Step {
  readonly name: string
  readonly run: () => void
  /** The card looks at it by itself: a doorbell. */
  readonly rings?: boolean
  /** Whether the host may take it yet: it waits for something that the card writes. */
  readonly ready?: () => boolean
}

export class Schedules {
  /** Schedules begun so far. */
  count = 0
  private digits: number[] = []
  private limits: number[] = []
  private at = 0

  /** Begins the next schedule; false when all of them were played. */
  next(): boolean {
    if (this.count > 0) {
      let last = this.at - 1
      while (last >= 0 && this.digits[last] === this.limits[last]) last--
      if (last < 0) return false
      this.digits.length = last + 1
      this.limits.length = last + 1
      this.digits[last]! += 1
    }
    this.count += 1
    this.at = 0
    return true
  }

  /** The digit of the next gap: 0 to `limit`. */
  choose(limit: number): number {
    const { at } = this
    this.at += 1
    if (at === this.digits.length) {
      this.digits.push(0)
      this.limits.push(limit)
    } else if (this.limits[at]! > limit) {
      throw new Error('a schedule that was played again went another way')
    }
    return this.digits[at]!
  }

  /** What was chosen last is the most that is possible there. */
  atMost(): void {
    this.limits[this.at - 1] = this.digits[this.at - 1]!
  }

  /** The schedule under way, to be told. */
  get name(): string {
    return this.digits.slice(0, this.at).join('.')
  }
}

export interface Stage {
  /** Calls `gap` before each access of the card from now on, until it is given null. */
  watch(gap: (() => void) | null): void
  /** Serves the card until it wants nothing more at once. */
  run(): void
}

/**
 * Plays one schedule. A card that is idle looks at nothing but its doorbells, so the steps up to
 * the next doorbell are taken without a choice: orders that differ only there cannot be told apart.
 */
export function play(stage: Stage, steps: readonly Step[], schedules: Schedules): void {
  let done = 0
  const isReady = (): boolean => done < steps.length && steps[done]!.ready?.() !== false
  const gap = (): void => {
    if (!isReady()) return
    const count = schedules.choose(steps.length - done)
    for (const end = done + count; done < end; done++) steps[done]!.run()
    if (count > 0 && !isReady()) schedules.atMost()
  }
  stage.watch(gap)
  try {
    do {
      if (!isReady()) throw new Error(`the host waits in vain: ${steps[done]!.name}`)
      while (isReady() && steps[done]!.rings !== true) steps[done++]!.run()
      if (isReady()) steps[done++]!.run()
      stage.run()
    } while (done < steps.length)
  } finally {
    stage.watch(null)
  }
  // What was rung during its last accesses the card has not looked at.
  stage.run()
}
