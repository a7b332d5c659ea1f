/**
 * The short cut of C1 for the part itself and for larger records. And that the judge notices: a
 * play that says of itself what is not so, and a record that is given up.
 */

import { expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { dataOf } from '../../support/cards/test-card.ts'
import { PAGE_BYTES } from '../../support/judges/oracle.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { missed, playAll } from '../stage.ts'
import { META } from '../wide/meta.ts'
import { playMeta } from '../wide/meta-player.ts'
import { playSize } from '../wide/sizes-player.ts'
import { WIDE } from '../wide/stage.ts'

const SEED = 20261121

test('every crash of the part itself, and of larger records, ends well', THOROUGH, async () => {
  const total = await playAll(WIDE, 'cut', SEED)
  expect(total.described).toEqual([])
  expect(total.violations).toBe(0)
  expect(missed(WIDE, total, 'cut')).toEqual([])
  expect(WIDE.lacks!(total, 'cut')).toEqual([])
})

const LOOK = { seed: SEED, most: 2 ** 6 }
const format = META.find(({ name }) => name === 'format')!

test('a state that the part may not be in is noticed, and the image is played again', () => {
  const found = playMeta({ ...format, states: ['blank', '1 regions'] }, LOOK)
  expect(found.violations).toBeGreaterThan(0)
  expect(found.witnesses[0]).toMatch(/it is 0 regions/)
  const again = playMeta(
    { ...format, states: ['blank', '1 regions'] },
    { ...LOOK, aim: found.aims[0]! },
  )
  expect(again.witnesses[0]).toBe(found.witnesses[0])
})

test('fences that are left out of an update are noticed', () => {
  const { witnesses } = playMeta(
    {
      ...format,
      during: (part, facts, watch) => {
        const fence = part.fence.bind(part)
        let fences = 0
        // Both pages are stored, and never waited for. The fences of starts have a journal.
        part.fence = () => (part.journal === null && ++fences > 2 ? 0 : fence())
        format.during(part, facts, watch)
        part.fence = fence
      },
    },
    LOOK,
  )
  expect(witnesses.join()).toMatch(/it is refused as DAMAGED/)
})

test('a fence that is left out before a copy of 4 KiB is noticed', () => {
  const { witnesses } = playSize(
    {
      shape: { slots: 2, capacity: 4096, copies: 2 },
      partBytes: 20 * PAGE_BYTES,
      before: (actor) => actor.write({ slot: 0, data: dataOf(4096, 1), wait: 2 }),
      during: (actor) => {
        const { nvdimm } = actor.card
        const fence = Nvdimm.prototype.fence.bind(nvdimm)
        let fences = 0
        // F1 is left out: the copy is written in the epoch of its lane.
        nvdimm.fence = () => (++fences === 1 ? 0 : fence())
        actor.write({ slot: 0, data: dataOf(4096, 2), wait: 2 })
      },
    },
    { seed: SEED, drawn: 8 },
  )
  expect(witnesses.length).toBeGreaterThan(0)
})

test('an image is played again from its line', async () => {
  const meta = await WIDE.replay('meta 7 64 20 format')
  expect(meta.violated).toBe(false)
  expect(meta.text).toMatch(/it starts, and is: /)
  const large = await WIDE.replay('large 7 8 100 2of2 another')
  expect(large.text).toMatch(/all is well/)
})
