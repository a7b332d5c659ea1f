/**
 * Batches of records and plain bytes, over several regions, at every crash (S1-M9; source 4; X-5).
 *
 * Invariant: power goes before every command of the burst, and at its end. Behind the next
 * start each record is whole, all that a status called durable is there, and so is each operation
 * that the table knows; in order, what is there are the first members, and of those behind them
 * nothing was touched. The batch again, on another connection, makes all of it durable, and stores
 * nothing that was known over what came later.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import type { CutStrategy } from '../../../boards/emulator/medium/power-cut.ts'
import {
  batchFrames,
  CONDITIONS,
  heldBy,
  IN_ORDER,
  NOTHING_HELD,
  type Status,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import type { MixedCard } from '../../support/cards/mixed-card.ts'
import { MixedStart, SHAPES } from '../../support/cards/mixed-start.ts'
import { withPassingCards } from '../../support/cards/test-card.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 20261128)
const CHOICES: readonly CutStrategy[] = ['none', 'all', 'half', 'half', 'exactly-one']
/** What was left at a cut, and what the card had said by then. */
interface Left {
  readonly name: string
  readonly start: MixedStart
  readonly operation: number
  readonly said: readonly Status[]
  readonly again: MixedCard
  /** The burst was over before power went. */
  readonly ended: boolean
}

/** Power goes before that command of the batch. */
function cutAt(start: MixedStart, command: number, strategy: CutStrategy, round: number): Left {
  const one = start.begin()
  const { card, qp } = one
  const operation = qp.operation + 1
  const frames = start.frames(one)
  card.machine.armCut(command)
  const said = statuses(card.serve(...frames))
  const ended = !card.machine.dead
  const again = one.after({ random: new Random(SEED + 16 * command + round), strategy })
  const name = `cut before command ${command}, ${strategy}, round ${round}, SEED=${SEED}`
  return { name, start, operation, said, again, ended }
}

/** What is there, and what is known, is right. Returns the members that are known. */
function judge({ name, start, operation, said, again }: Left): number[] {
  const stand = start.stand(again)
  expect(start.badLeft(again, stand), name).toBe(null)
  const known = upTo(stand.length).filter((i) => again.knows(operation + i))
  const durable = said.flatMap((status) => status.durable)
  for (const i of [...known, ...durable]) {
    expect(stand[i], `${name}, member ${i} of ${known}: ${stand}`).toBe('new')
  }
  // What was acknowledged is known, too.
  for (const i of durable) expect(known, name).toContain(i)
  return known
}

/** The batch again, as a repetition on another connection; later data is where some of it went. */
function repeat({ name, start, operation, again }: Left, known: readonly number[]): void {
  const { card, qp } = again
  const members = start.members(again)
  // One that comes more than a window behind the newest of its client is never executed again.
  qp.operation = operation + members.length - 1
  const later = start.later(again)
  const over = later.filter((_, i) => known.includes(i))
  if (over.length > 0) card.serve(...batchFrames(qp, again.first, over, { id: 3 }))
  const repeated = members.map((member) => ({
    ...member,
    pweth: { ...member.pweth, repetition: true },
  }))
  const options = { condition: start.condition, operation, id: 10 }
  const sent = card.serve(...batchFrames(card.connect(), again.first, repeated, options))
  const durable = upTo(members.length)
  expect(statuses(sent), name).toMatchObject([{ said: 'durable', durable }])
  expect(heldBy(again.state), name).toEqual(NOTHING_HELD)
  const isLater = durable.map((i) => known.includes(i) && members[i]!.data.length > 0)
  expect(again.stand(later, members), name).toEqual(isLater.map((is) => (is ? 'old' : 'new')))
}

/** Cuts before every command; how many cuts, and in how many the table knew some of it, not all. */
function cutEverywhere(start: MixedStart): { cuts: number; between: number; torn: number } {
  const found = { cuts: 0, between: 0, torn: 0 }
  for (let command = 0, ended = false; !ended; command++) {
    CHOICES.forEach((strategy, round) => {
      withPassingCards(() => {
        const left = cutAt(start, command, strategy, round)
        const stand = start.stand(left.again)
        const known = judge(left)
        found.cuts += 1
        if (known.length > 0 && known.length < stand.length) found.between += 1
        if (stand.includes('other')) found.torn += 1
        repeat(left, known)
        ended = left.ended
        if (ended) expect(known, left.name).toEqual(upTo(stand.length))
      })
    })
  }
  return found
}

for (const [placement, withHost] of [
  ['in the card', false],
  ['past the caches of the host', true],
] as const) {
  describe.each(SHAPES)(`S1-M9: ${placement}: a batch, %s`, (_, shape) => {
    for (const [name, condition] of Object.entries(CONDITIONS)) {
      const isLong = withHost || condition !== IN_ORDER
      test(`S1-M9, X-5: ${name}: at every cut`, thoroughIf(isLong), () => {
        const found = cutEverywhere(new MixedStart(shape, condition, withHost))
        expect(found.cuts).toBeGreaterThan(100)
        expect(found.torn).toBeGreaterThan(0)
        if (condition === IN_ORDER) expect(found.between).toBeGreaterThan(0)
      })
    }
  })
}
