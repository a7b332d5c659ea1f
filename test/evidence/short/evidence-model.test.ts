/** C2 in short: small walks of the model, every rule left out, and the firmware beside it. */

import { expect, test } from 'vitest'
import { COPY_CLEAN, FENCE, NVDIMM_SPACE, OP, TO } from '../../../firmware/board/hal.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { mediaOf, partOf } from '../../support/crash/explorer.ts'
import { copyAt } from '../../support/judges/oracle.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { MODEL } from '../model/stage.ts'
import { missed, playAll } from '../stage.ts'

const SEED = 2

test(
  'X-1, X-2, X-5: every state that two writes reach is right, and no rule can go',
  THOROUGH,
  async () => {
    const total = await playAll(MODEL, 'cut', SEED)
    expect(total.described).toEqual([])
    expect(total.violations).toBe(0)
    expect(missed(MODEL, total, 'cut')).toEqual([])
    expect(MODEL.lacks!(total, 'cut')).toEqual([])
  },
)

test('a rule that is left out is told as the shortest schedule to what goes wrong', async () => {
  const { violated, text } = await MODEL.replay('mutant F2')
  expect(violated).toBe(true)
  expect(text).toContain('the lane of v1 says B')
  expect(text).toMatch(/record 0 is lost, and no medium failed\n\d+ states, 1 violations$/)
})

test('I1: of three copies a start overwrites one at a time, each behind a fence', () => {
  const media = mediaOf({ wait: 2, copies: 3 })
  const part = partOf(media, [media.fresh, media.old, media.old], media.laneB)
  const places = [1, 2].map((copy) => NVDIMM_SPACE + copyAt(media.layout, copy, 0))
  const told: (number | 'fence')[] = []
  new TestCard(part, {
    watch: {
      onCommand: (_, op, words, at) => {
        if (words[at + OP] === FENCE) told.push('fence')
        const copy = places.indexOf(words[at + TO]!)
        if (op === COPY_CLEAN && copy >= 0) told.push(copy + 1)
      },
    },
  })
  const first = told.indexOf(1)
  expect(told.slice(first, first + 4)).toEqual([1, 'fence', 2, 'fence'])
})
