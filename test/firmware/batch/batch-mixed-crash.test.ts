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
import type { HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { CutStrategy } from '../../../boards/emulator/medium/power-cut.ts'
import {
  type BatchRecord,
  batchFrames,
  CONDITIONS,
  heldBy,
  NOTHING_HELD,
  type Status,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import {
  badLeft,
  figureOf,
  MixedCard,
  mixedHost,
  type Stands,
} from '../../support/cards/mixed-card.ts'
import { dataOf, withPassingCards } from '../../support/cards/test-card.ts'

const SEED = Number(process.env.SEED ?? 20261128)
const CHOICES: readonly CutStrategy[] = ['none', 'all', 'half', 'half', 'exactly-one']
/** Seeds of what the places hold before, of the batch, and of what comes behind it. */
const OLD = 0
const NEW = 100
const LATER = 900
const SMALL = { areaBytes: 8192, slots: 8, partBytes: 1 << 17 }

/** Members of a batch, by what is written first, and then. */
type Shape = (one: MixedCard, seed: number) => BatchRecord[]

/** Bytes first, last, side by side, and in one line; of no length, too. */
const bytesAround: Shape = (one, seed) => [
  one.bytes(0, dataOf(7, seed + 1)),
  one.bytes(7, dataOf(58, seed + 2)),
  one.record(one.second, 0, dataOf(700, seed + 3)),
  one.record(one.first, 0, dataOf(20, seed + 4)),
  one.bytes(65, dataOf(0, seed)),
  one.bytes(200, dataOf(64, seed + 5)),
  one.bytes(4096, dataOf(100, seed + 6)),
]

const SHAPES: readonly (readonly [string, Shape])[] = [
  ['as the figure shows', figureOf],
  ['bytes first, last and side by side', bytesAround],
]

interface Start {
  /** Another card as it is before the batch. */
  readonly begin: () => MixedCard
  readonly shape: Shape
  /** Of each member the sequence that its slot has. */
  readonly expects: readonly (bigint | undefined)[]
  readonly condition: number
}

/** A card that has the older members, over which others come. */
function startOf(shape: Shape, condition: number, withHost: boolean): Start {
  const host = withHost ? mixedHost() : null
  const one = new MixedCard(null, { ...SMALL, host })
  const sent = one.card.serve(...batchFrames(one.qp, one.first, shape(one, OLD)))
  expect(statuses(sent)).toMatchObject([{ said: 'durable' }])
  one.card.idle()
  const content = one.card.nvdimm.durable.slice()
  const hosted = host?.part.durable.slice() ?? new Uint8Array(0)
  const begin = (): MixedCard => {
    const part = new Nvdimm({ bytes: content.length, content: content.slice() })
    return new MixedCard(part, { host: host === null ? null : hostOf(hosted) })
  }
  const seen = begin()
  const expects = seen.expecting(shape(seen, OLD)).map((member) => member.expect)
  return { begin, shape, expects, condition }
}

function hostOf(content: Uint8Array): HostMemory {
  const host = mixedHost()
  host.part.live.set(content)
  host.part.durable.set(content)
  return host
}

/** The newer members, for a card. */
function membersFor({ shape, expects }: Start, one: MixedCard): BatchRecord[] {
  return shape(one, NEW).map((member, i) => ({ ...member, expect: expects[i] }))
}

/** What was left at a cut, and what the card had said by then. */
interface Left {
  readonly name: string
  readonly start: Start
  readonly operation: number
  readonly said: readonly Status[]
  readonly again: MixedCard
  readonly members: readonly BatchRecord[]
  /** The burst was over before power went. */
  readonly ended: boolean
}

/** Power goes before that command of the batch. */
function cutAt(start: Start, command: number, strategy: CutStrategy, round: number): Left {
  const one = start.begin()
  const { card, qp } = one
  const { condition } = start
  const sent = membersFor(start, one)
  const operation = qp.operation + 1
  const frames = batchFrames(qp, one.first, sent, { condition, id: 9 })
  card.machine.armCut(command)
  const said = statuses(card.serve(...frames))
  const ended = !card.machine.dead
  const again = one.after({ random: new Random(SEED + 16 * command + round), strategy })
  const name = `cut before command ${command}, ${strategy}, round ${round}, SEED=${SEED}`
  return { name, start, operation, said, again, members: membersFor(start, again), ended }
}

function standOf({ start, again, members }: Left): Stands[] {
  return again.stand(start.shape(again, OLD), members)
}

/** What is there, and what is known, is right. Returns the members that are known. */
function judge(left: Left): number[] {
  const { name, start, operation, said, again, members } = left
  const stand = standOf(left)
  expect(badLeft(members, stand, start.condition), `${name}: ${stand}`).toBe(null)
  const known = upTo(members.length).filter((i) => again.knows(operation + i))
  const durable = said.flatMap((status) => status.durable)
  for (const i of [...known, ...durable]) {
    expect(stand[i], `${name}, member ${i} of ${known}: ${stand}`).toBe('new')
  }
  // What was acknowledged is known, too.
  for (const i of durable) expect(known, name).toContain(i)
  return known
}

/** The batch again, as a repetition on another connection; later data is where some of it went. */
function repeat(left: Left, known: readonly number[]): void {
  const { name, start, operation, again, members } = left
  const { card, qp } = again
  // One that comes more than a window behind the newest of its client is never executed again.
  qp.operation = operation + members.length - 1
  const later = members.map((member) => ({ ...member, data: dataOf(member.data.length, LATER) }))
  const over = later.filter((_, i) => known.includes(i))
  if (over.length > 0) card.serve(...batchFrames(qp, again.first, over, { id: 3 }))
  const repeated = members.map((member) => ({
    ...member,
    pweth: { ...member.pweth, repetition: true },
  }))
  const options = { condition: start.condition, operation, id: 10 }
  const sent = card.serve(...batchFrames(card.connect(), again.first, repeated, options))
  const all = upTo(members.length)
  expect(statuses(sent), name).toMatchObject([{ said: 'durable', durable: all }])
  expect(heldBy(again.state), name).toEqual(NOTHING_HELD)
  const wanted = members.map(({ data }, i) =>
    known.includes(i) && data.length > 0 ? 'old' : 'new',
  )
  expect(again.stand(later, members), name).toEqual(wanted)
}

/** Cuts before every command; how many cuts, and in how many the table knew some of it, not all. */
function cutEverywhere(start: Start): { cuts: number; between: number; torn: number } {
  const found = { cuts: 0, between: 0, torn: 0 }
  for (let command = 0, ended = false; !ended; command++) {
    CHOICES.forEach((strategy, round) => {
      withPassingCards(() => {
        const left = cutAt(start, command, strategy, round)
        const known = judge(left)
        found.cuts += 1
        if (known.length > 0 && known.length < start.expects.length) found.between += 1
        if (standOf(left).includes('other')) found.torn += 1
        repeat(left, known)
        ended = left.ended
        if (ended) expect(known, left.name).toEqual(upTo(start.expects.length))
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
      test(`${name}: at every cut`, () => {
        const found = cutEverywhere(startOf(shape, condition, withHost))
        console.log(`${name}: ${JSON.stringify(found)}`)
        expect(found.cuts).toBeGreaterThan(100)
        expect(found.torn).toBeGreaterThan(0)
      })
    }
  })
}
