/**
 * The operation table at every crash: an operation that was acknowledged is known afterwards, one
 * that is known is durable (D-6, G2-2, G2-5, X-3; crash-model 3.7, "client resend after reboot").
 *
 * Invariant: at each point every subset of the pending chunks is left, those of the table
 * among them; the oracle reads the table by itself, the card is asked by PERSIST_QUERY, and both
 * must say of every write exactly whether its record is that version or a later one. Each rule of
 * the table is then taken away, and the same exploration finds what it was for.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { type CutStrategy, cut } from '../../../../boards/emulator/medium/power-cut.ts'
import type { Watch } from '../../../../boards/emulator/run/machine.ts'
import { COPY_CLEAN, FENCE } from '../../../../firmware/board/hal.ts'
import { VIEW_DATA } from '../../../../firmware/burst/view.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../../support/cards/test-card.ts'
import {
  explore,
  type Level,
  type Scenario,
  SEED,
  summary,
  TABLE_DAMAGES,
  type TableDamage,
} from '../../../support/crash/explorer.ts'
import { LEVELS, levelName } from '../../../support/crash/scenario.ts'
import {
  LANES_AT,
  LINE_BYTES,
  OPERATIONS_AT,
  OPERATIONS_BYTES,
} from '../../../support/judges/oracle.ts'
import { THOROUGH, thoroughIf } from '../../../support/run/thorough.ts'

/** A record of which only what must change changes: sequence, operation, check code, 8 bytes. */
function similar(seed: number): readonly Uint8Array[] {
  const first = dataOf(64, 1)
  return [0, 1, 2].map((version) => {
    const data = first.slice()
    data.set(dataOf(8, seed + version), 24)
    return data
  })
}

/** Two groups of one client, with the lazy clearing of the lanes between, over a third one. */
function twoGroups({ wait, copies }: Level): Scenario {
  const [one, two, three] = similar(10)
  return {
    name: `${wait}of${copies}, two groups`,
    shape: { copies },
    before: (actor) => {
      actor.write({ slot: 0, data: one!, wait: 2 })
      actor.idle()
    },
    during: (actor) => {
      actor.write({ slot: 0, data: two!, wait })
      actor.idle()
      actor.write({ slot: 0, data: three!, wait })
      actor.idle()
    },
  }
}

for (const level of LEVELS) {
  const name = levelName(level)
  test(
    `D-6, X-3: ${name}: acknowledged is known, and known is durable, at every crash`,
    thoroughIf(level.copies > 2 || level.wait === 1),
    () => {
      const found = explore({ ...twoGroups(level), fineTable: true, sample: 2 ** 11 })
      console.log(summary(found))
      expect(found.witnesses, `SEED=${SEED}`).toEqual([])
      expect(found.images).toBeGreaterThan(2 ** 12)
    },
  )
}

test('D-6: a first operation, every subset of its line: known wholly or not at all', () => {
  const [one, two] = similar(20)
  const found = explore({
    name: 'a first line, fine',
    before: (actor) => {
      actor.write({ slot: 0, data: one!, wait: 2, client: 1 })
      actor.idle()
    },
    during: (actor) => actor.write({ slot: 0, data: two!, wait: 2 }),
    fineTable: true,
  })
  console.log(summary(found))
  expect(found.witnesses).toEqual([])
  // Every subset of the line, the lane and the copy that is pending with them; how many of the
  // images differ depends on the operation's number.
  expect(found.subsets).toBeGreaterThan(2 ** 24)
  expect(found.images).toBeGreaterThan(2 ** 12)
})

test('G2-5: a recovery cut at every command adds each operation all the same', THOROUGH, () => {
  const level = { wait: 1, copies: 2 }
  const found = explore({ ...twoGroups(level), nested: 2, sample: 2 ** 8, nestedSample: 2 ** 7 })
  console.log(summary(found))
  expect(found.witnesses, `SEED=${SEED}`).toEqual([])
  expect(found.nested).toBeGreaterThan(500)
})

test(
  'D-6: two clients in one group have a line each, and both are right at every crash',
  THOROUGH,
  () => {
    const [one, two] = similar(30)
    const [other, another] = similar(40)
    for (const wait of [1, 2]) {
      const found = explore({
        name: `${wait}of2, two clients in one group`,
        before: (actor) => {
          actor.write(
            { slot: 0, data: one!, wait: 2 },
            { slot: 2, data: other!, wait: 2, client: 1 },
          )
          actor.idle()
        },
        during: (actor) => {
          actor.write({ slot: 0, data: two!, wait }, { slot: 2, data: another!, wait, client: 1 })
          actor.idle()
        },
        sample: 2 ** 11,
      })
      console.log(summary(found))
      expect(found.witnesses, `SEED=${SEED}`).toEqual([])
    }
  },
)

test('G2-2: an operation outlives the record: another client has written over it since', () => {
  const [one, two] = similar(50)
  const found = explore({
    name: 'written over by another client',
    during: (actor) => {
      actor.write({ slot: 0, data: one!, wait: 2 })
      actor.idle()
      actor.write({ slot: 0, data: two!, wait: 2, client: 1 })
      actor.idle()
    },
    sample: 2 ** 11,
  })
  console.log(summary(found))
  expect(found.witnesses, `SEED=${SEED}`).toEqual([])
})

/** What shows that a rule is missing. */
function damaged(table: TableDamage): Scenario {
  const level = { wait: table.startsWith('recovery') ? 1 : 2, copies: 2 }
  const scenario = twoGroups(level)
  const nested = table === 'recoveryNotCleaned' ? 1 : 0
  const sample = nested > 0 ? 2 ** 6 : 2 ** 10
  const nestedSample = 2 ** 5
  const fineTable = table === 'oneLine'
  return { ...scenario, name: table, damage: { table }, sample, nested, nestedSample, fineTable }
}

for (const [table, meaning] of Object.entries(TABLE_DAMAGES)) {
  test(
    `D-6: ${meaning}: an operation is known and not durable, or durable and not known`,
    thoroughIf(/^(recovery|oneLine)/.test(table)),
    () => {
      const found = explore(damaged(table as TableDamage))
      console.log(summary(found))
      console.log(`  ${found.witnesses[0]}`)
      expect(found.violations).toBeGreaterThan(0)
      expect(found.witnesses.some((witness) => / known as durable$/.test(witness))).toBe(true)
    },
  )
}

const CLIENT = 7

/** What that client hears of its operation, alone in a burst. */
function written(card: TestCard, wait: number, operation: number, data: Uint8Array): number {
  const qp = card.connect(4096, 0, CLIENT)
  const more = { operation, wait, repetition: true }
  const sent = card.serve(...persistFrames(qp, card.open(), 0, data, more))
  return persistAcks(sent)[0]!.status
}

/** Behind `count` commands of these kinds the power goes before the next one. */
function goesBefore(count: number, ops: readonly number[]): Watch {
  let left = count
  return {
    onCommand: (_, op) => {
      if (!ops.includes(op)) return
      if (left === 0) throw new Error('the power goes')
      left -= 1
    },
  }
}

/** A cut before F3 leaves, of what is pending, the first line of the table alone. */
function lineAlone({ wait, copies }: Level, first: Uint8Array, second: Uint8Array): Nvdimm {
  const card = new TestCard(new Nvdimm({ bytes: 1 << 17 })).format()
  card.provision({ slots: 2, copies })
  expect(written(card, wait, 1, first)).toBe(0)
  card.idle()
  card.machine.observe(goesBefore(2, [FENCE]))
  expect(() => written(card, wait, 2, second)).toThrow('the power goes')
  cut(card.nvdimm, {
    random: new Random(1),
    strategy: 'only-matching',
    matches: (at) => at >= OPERATIONS_AT && at < OPERATIONS_AT + OPERATIONS_BYTES,
  })
  return card.nvdimm
}

for (const level of LEVELS) {
  test(
    `X-3: ${levelName(level)}: a start is cut, and its lane decays: known is there`,
    thoroughIf(level.copies > 2 || level.wait === 1),
    () => {
      const [first, second] = [dataOf(64, 1), dataOf(64, 2)]
      const strategies: readonly CutStrategy[] = ['none', 'all', 'half']
      let cuts = 0
      for (const strategy of strategies) {
        for (let k = 0, last = false; !last; k++) {
          const part = lineAlone(level, first, second)
          try {
            new TestCard(part, { watch: goesBefore(k, [COPY_CLEAN, FENCE]) })
            last = true
          } catch {
            cuts += 1
          }
          cut(part, { random: new Random(k), strategy })
          part.poison(LANES_AT / LINE_BYTES)
          const card = new TestCard(part)
          // It is known, or the repetition is executed: there is nobody else who writes.
          expect(written(card, level.wait, 2, second), `cut at ${k}, ${strategy}`).toBe(0)
          const read = card.read(card.connect(), card.open(), 0, VIEW_DATA, 64)!
          expect(Buffer.from(read), `cut at ${k}, ${strategy}`).toEqual(Buffer.from(second))
        }
      }
      expect(cuts).toBeGreaterThan(40)
    },
  )
}
