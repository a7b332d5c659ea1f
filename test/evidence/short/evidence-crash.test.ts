/**
 * The crash stage in short: some kinds of operations, one level each, judged as in full; and that
 * damage of every kind does not escape it.
 *
 * Invariant: the seed is fixed. What is damaged is the machine, never the judge.
 */

import { expect, test } from 'vitest'
import { PASS } from '../../../firmware/board/fault.ts'
import { STAGING_AT } from '../../../firmware/board/memory-map.ts'
import type { State } from '../../../firmware/core.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import type { Damage, Scenario } from '../../support/crash/explorer.ts'
import { LeanBooth } from '../../support/crash/lean-boot.ts'
import { LEVELS } from '../../support/crash/scenario.ts'
import { Known } from '../../support/judges/known.ts'
import { PAGE_BYTES } from '../../support/judges/oracle.ts'
import { THOROUGH, thoroughIf } from '../../support/run/thorough.ts'
import { exploreOnce, tellOne } from '../crash/engine.ts'
import { playOf } from '../crash/plays.ts'
import { CRASH } from '../crash/stage.ts'
import { missed, playAll } from '../stage.ts'

const SEED = 20261121

test('X-2, X-3, P1-23: every crash in short: no violation, every cell met', THOROUGH, async () => {
  const total = await playAll(CRASH, 'cut', SEED)
  const { count, distinct, violations, more } = total
  console.log({ count, distinct, violations, more, cells: Object.keys(total.cells).length })
  expect(total.described).toEqual([])
  expect(violations).toBe(0)
  expect(missed(CRASH, total, 'cut')).toEqual([])
  expect(CRASH.lacks!(total, 'cut')).toEqual([])
})

const [ONE_OF_TWO] = LEVELS

/** What is damaged, in which play, and at which points it shows. */
const DAMAGED: readonly (readonly [string, Damage, string, string?])[] = [
  ['F1 left out', { dropFence: 1 }, 'overtaken by a burst'],
  ['F2 left out', { dropFence: 2 }, 'overtaken by a burst'],
  ['F3 left out', { dropFence: 3 }, 'overtaken by a burst'],
  ['F4 left out', { dropFence: 4 }, 'overtaken by a burst'],
  ['an acknowledgement before F3', { acknowledgeEarly: true }, 'overtaken by a burst'],
  ['lanes not linked', { unlinked: true }, 'batch of 4', 'before F3'],
  ['a line of the table before F1', { table: 'beforeF1' }, 'overtaken by a burst'],
  ['a table that recovery skips', { table: 'recoverySkipped' }, 'overtaken by a burst'],
]

for (const [what, damage, kind, only] of DAMAGED) {
  test(
    `D-2, D-6: with ${what} the stage finds a violation, and plays it again`,
    thoroughIf(what !== 'F1 left out'),
    async () => {
      const sound = playOf(kind, ONE_OF_TWO!, 0)
      const scenario: Scenario = { ...sound, damage, sample: 256, ...(only ? { only } : {}) }
      const found = exploreOnce(scenario)
      expect(found.violations).toBeGreaterThan(0)
      const again = tellOne(scenario, found.aims[0]!)
      expect(again.violated).toBe(true)
      expect(again.text).toContain(`OBJECTION  ${found.witnesses[0]}`)
    },
  )
}

test('a violation is played again by what it names, and told as a story', async () => {
  const { violated, text } = await CRASH.replay('write over its own, 2of2, 0, 1: 3.77')
  expect(violated).toBe(false)
  expect(text).toMatch(/point 3, before F2: the image is: lane 0 A, record 0 torn\/old/)
  expect(text).toMatch(/record 0, by lane 0: A torn, useB/)
  expect(text).toMatch(/record 0 is old\/old/)
})

test('S1-M2: a start on a torn pair is cut, and played again by its name', async () => {
  const { violated, text } = await CRASH.replay('pair write, 2of2, 0, 1: 3.5/30.0')
  expect(violated).toBe(false)
  expect(text).toMatch(/point 3: the image is: record 1 torn\/v1/)
  expect(text).toMatch(/its start is cut before command 30/)
  expect(text).toMatch(/and then: record 1 v1\/v1/)
})

test('P1-26: a violation behind a recovery that was cut is played again, too', THOROUGH, () => {
  const scenario: Scenario = {
    ...playOf('overtaken by a burst', ONE_OF_TWO!, 0),
    damage: { table: 'recoveryNotCleaned' },
    sample: 16,
    nested: 1,
    nestedSample: 16,
  }
  const { aims, witnesses } = exploreOnce(scenario)
  const at = aims.findIndex((aim) => aim.includes('/'))
  const { violated, text } = tellOne(scenario, aims[at]!)
  expect(violated).toBe(true)
  expect(text).toContain('its recovery is cut at')
  expect(text).toContain(witnesses[at])
})

test('what a boot leaves behind in the state, or in packet memory, does not escape', () => {
  const card = new TestCard().format()
  const spoilt = (spoil: (state: State) => unknown): string | null => {
    const booth = new LeanBooth(card.nvdimm, card.facts)
    booth.boot(null, spoil)
    return booth.staleness()
  }
  expect(spoilt(() => {})).toBe(null)
  expect(spoilt(({ scrub }) => Object.assign(scrub, { slot: 7 }))).toBe('state.scrub.slot')
  expect(spoilt(({ commit }) => Object.assign(commit.items[3]!, { wait: 2 }))).toMatch(
    /items.3.wait/,
  )
  expect(spoilt(({ group }) => group.members.fill(1))).toBe('state.group.members')
  expect(spoilt(({ bytes }) => bytes.fill(1, STAGING_AT, STAGING_AT + 1))).toBe('packet memory')
})

test('a check code is remembered of the very bytes: a bit of a page that changes is found', () => {
  const card = new TestCard().format()
  const { nvdimm, facts } = card
  const booth = new LeanBooth(nvdimm, facts)
  const refused = (): number => {
    let fault = -1
    booth.boot(null, (state) => {
      fault = state.refused
    })
    return fault
  }
  expect(refused()).toBe(PASS)
  expect(refused()).toBe(PASS)
  for (const at of [16, 40, 128, 639]) {
    for (const bytes of [nvdimm.live, nvdimm.durable]) {
      for (const page of [0, PAGE_BYTES]) bytes[page + at]! ^= 4
    }
    expect(refused(), `byte ${at}`).not.toBe(PASS)
    for (const bytes of [nvdimm.live, nvdimm.durable]) {
      for (const page of [0, PAGE_BYTES]) bytes[page + at]! ^= 4
    }
    expect(refused(), `byte ${at} as it was`).toBe(PASS)
  }
})

test('what was made of some bytes is found by these bytes, and no others', () => {
  let made = 0
  const known = new Known(8, (bytes) => {
    made += 1
    return Buffer.from(bytes).toString('hex')
  })
  const bytes = Buffer.alloc(16)
  for (let again = 0; again < 2; again++) {
    for (let i = 0; i < 1000; i++) {
      bytes.writeUInt32LE(i * 4097, 4)
      bytes.writeUInt32LE(i & 3, 8)
      expect(known.of(bytes, 4)).toBe(bytes.subarray(4, 12).toString('hex'))
    }
  }
  expect(made).toBe(1000)
})
