/**
 * Crashes beyond one record at one level: groups, one record twice, lengths that differ, four
 * copies, other adversaries, and long lives of many cuts (crash-model 2.1, 2.5, 3.1).
 *
 * Invariants: as in crash-1of2.test.ts and its neighbours; where a set of images is a
 * sample, the name says so, and the seed is printed when something is found.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { CUT_STRATEGIES, type CutStrategy, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { dataOf, TestCard } from '../../support/cards/test-card.ts'
import {
  Actor,
  explore,
  overSimilar,
  PART_BYTES,
  type Scenario,
  SEED,
  summary,
  type Write,
} from '../../support/crash/explorer.ts'
import { sipHash128 } from '../../support/judges/oracle.ts'
import { THOROUGH, thoroughIf } from '../../support/run/thorough.ts'

function expectNone(scenario: Scenario, images: number): void {
  const found = explore(scenario)
  console.log(summary(found))
  expect(found.witnesses, `SEED=${SEED}`).toEqual([])
  expect(found.images).toBeGreaterThan(images)
}

test('D-3: the check code of the oracle is SipHash-2-4-128, by the vectors of its authors', () => {
  const key = Uint8Array.from({ length: 16 }, (_, i) => i)
  const hashOf = (length: number): string =>
    Buffer.from(sipHash128(key, key.subarray(0, length))).toString('hex')
  expect(hashOf(0)).toBe('a3817f04ba25a8e66df67214c7550293')
  expect(hashOf(1)).toBe('da87c1d86b99af44347659119b22fc45')
  expect(hashOf(15)).toBe('5493e99933b0a8117e08ec0f97cfc3d9')
})

/** Two versions of a record that differ in two chunks of data. */
function pair(seed: number): readonly [Uint8Array, Uint8Array] {
  const first = dataOf(64, seed)
  const second = first.slice()
  second.set(dataOf(16, seed + 1), 24)
  return [first, second]
}

test(
  'X-2, P1-12: one record twice in one burst: every crash leaves one of the three',
  THOROUGH,
  () => {
    const [first, second] = pair(1)
    for (const wait of [1, 2]) {
      const scenario: Scenario = {
        name: `${wait}of2, one record twice in one burst`,
        before: (actor) => actor.write({ slot: 0, data: first, wait: 2 }),
        during: (actor) => {
          actor.write({ slot: 0, data: second, wait }, { slot: 0, data: first, wait, client: 1 })
          actor.idle()
        },
        nested: 1,
      }
      expectNone(scenario, 500)
    }
  },
)

test('X-2: two records in one group: every crash leaves each old or new', THOROUGH, () => {
  for (const wait of [1, 2]) {
    const [one, other] = [pair(3), pair(5)]
    const scenario: Scenario = {
      name: `${wait}of2, two records in one group`,
      before: (actor) => {
        actor.write({ slot: 0, data: one[0], wait: 2 }, { slot: 2, data: other[0], wait: 2 })
      },
      during: (actor) => {
        actor.write({ slot: 0, data: one[1], wait }, { slot: 2, data: other[1], wait })
      },
    }
    expectNone(scenario, 2 * 2 ** 12)
  }
})

test(
  'X-2: four records of two levels and clients in one group, a sample of its crashes',
  THOROUGH,
  () => {
    const writes = (seed: number): Write[] =>
      [0, 1, 2, 3].map((slot) => ({
        slot,
        data: dataOf(16 * slot, seed + slot),
        wait: 1 + (slot & 1),
        client: slot >> 1,
      }))
    const scenario: Scenario = {
      name: 'four records in one group',
      before: (actor) => actor.write(...writes(1)),
      during: (actor) => {
        actor.write(...writes(9))
        actor.idle()
      },
    }
    let lives = 0
    // Too many to count: cuts drawn from every strategy instead, before each command in turn.
    for (const strategy of CUT_STRATEGIES) lives += cutEachCommand(scenario, strategy)
    expect(lives).toBeGreaterThan(500)
  },
)

/** Runs the scenario, cuts it at each command in turn, and restarts. Returns how many cuts. */
function cutEachCommand(scenario: Scenario, strategy: CutStrategy): number {
  for (let at = 0; ; at++) {
    const random = new Random(SEED + at)
    const actor = actorOn(scenario)
    scenario.before?.(actor)
    follow(actor)
    actor.card.machine.armCut(at)
    scenario.during(actor)
    if (!actor.card.machine.dead) return at
    cut(actor.card.nvdimm, { random, strategy })
    restartAndJudge(actor, `${strategy}, cut at ${at}, SEED=${SEED}`)
  }
}

function actorOn({ shape = {} }: Pick<Scenario, 'shape'>): Actor {
  const actor = new Actor(new TestCard(PART_BYTES).format(), shape, true)
  for (let slot = 0; slot < actor.region.slots; slot++) actor.record(slot)
  follow(actor)
  return actor
}

/** Lets the oracle note what the card stores and sends. */
function follow(actor: Actor): void {
  let sent = actor.card.sent
  let noted = sent.length
  const note = (): void => {
    if (actor.card.sent !== sent) noted = 0
    sent = actor.card.sent
    for (; noted < sent.length; noted++) actor.noteFrame(sent[noted]!)
  }
  actor.ended = note
  actor.card.machine.observe({
    onCommand: (_, op, words, at) => {
      note()
      actor.noteCommand(op, words, at)
    },
  })
}

function restartAndJudge(actor: Actor, name: string): void {
  const before = new Map(actor.records)
  const part = actor.card.nvdimm
  actor.restart()
  for (const record of before.values()) {
    expect(record.complaint(part.durable), name).toBeNull()
    expect(actor.read(record.record), name).toEqual(actor.expected(record.record))
  }
  follow(actor)
}

test(
  'X-2, X-1: four hundred cuts in the life of a part, random work and strategies',
  THOROUGH,
  () => {
    for (const copies of [2, 3, 4]) {
      const random = new Random(SEED + copies)
      const actor = actorOn({ shape: { copies, capacity: 128 } })
      let seed = 0
      let recoveriesCut = 0
      for (let life = 0; life < 400; life++) {
        const name = `${copies} copies, life ${life}, SEED=${SEED}`
        actor.card.machine.armCut(random.below(400))
        while (!actor.card.machine.dead) {
          const writes = Array.from({ length: 1 + random.below(6) }, () => ({
            slot: random.below(4),
            data: dataOf(random.below(129), seed++),
            wait: 1 + random.below(copies),
            client: random.below(2),
          }))
          actor.write(...writes)
          if (random.chance(0.3)) actor.idle()
        }
        cut(actor.card.nvdimm, { random })
        if (random.chance(0.5)) {
          // The recovery is cut, too: nothing was served, so nothing more is known.
          recoveriesCut += 1
          cutRecovery(actor, random)
        }
        restartAndJudge(actor, name)
      }
      expect(recoveriesCut).toBeGreaterThan(100)
    }
  },
)

/** Starts the part, and takes the power away again at a command of the start. */
function cutRecovery(actor: Actor, random: Random): void {
  const part = actor.card.nvdimm
  const at = random.below(120)
  try {
    new TestCard(part, {
      watch: {
        onCommand: (number) => {
          if (number === at) throw new Error('no power')
        },
      },
    })
  } catch {
    // What the machine did up to there stands; the firmware is gone.
  }
  cut(part, { random })
}

test(
  'D-1, X-2: a record shorter or longer than the one before it, a sample of its crashes',
  THOROUGH,
  () => {
    for (const [before, after] of [
      [16, 128],
      [128, 16],
      [0, 65],
      [65, 0],
    ] as const) {
      const old = dataOf(before, 1)
      const scenario: Scenario = {
        name: `2of2, ${after} bytes over ${before}`,
        shape: { capacity: 128 },
        before: (actor) => {
          actor.write({ slot: 0, data: old, wait: 2 })
          actor.idle()
        },
        during: (actor) => {
          actor.write({
            slot: 0,
            data: old.length > after ? old.slice(0, after) : long(old, after),
            wait: 2,
          })
          actor.idle()
        },
        sample: 2 ** 10,
      }
      expectNone(scenario, 100)
    }
  },
)

/** `data` with new bytes behind it. */
function long(data: Uint8Array, length: number): Uint8Array {
  const bytes = dataOf(length, 99)
  bytes.set(data)
  return bytes
}

test(
  'D-4: four copies at every level: whole at every crash; 2of4 with a media error, too',
  THOROUGH,
  () => {
    for (const wait of [1, 2, 3, 4]) {
      const level = { wait, copies: 4 }
      const mediaErrors = wait === 2 ? [{ lines: 'copies' } as const] : []
      expectNone({ ...overSimilar(level), mediaErrors }, 4 * 2 ** 8)
    }
  },
)

for (const mode of ['strict', 'prefix', 'line'] as const) {
  const share = mode === 'prefix' ? 'a sample of ' : ''
  test(
    `X-2: 256 bytes at 2of2, ${share}all that adversary "${mode}" may leave: old or new`,
    thoroughIf(mode === 'prefix'),
    () => {
      const scenario: Scenario = {
        name: `2of2, 256 bytes, ${mode}`,
        shape: { capacity: 256, slots: 2 },
        before: (actor) => {
          actor.write({ slot: 0, data: dataOf(256, 1), wait: 2, client: 1 })
          actor.idle()
        },
        during: (actor) => {
          actor.write({ slot: 0, data: dataOf(256, 2), wait: 2 })
          actor.idle()
        },
        mode,
        sample: 2 ** 12,
      }
      expectNone(scenario, mode === 'prefix' ? 4000 : 50)
    },
  )
}
