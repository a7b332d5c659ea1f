/**
 * The conversations that were recorded against Linux, held with our core: every field of every
 * answer is the recorded one (wire-format 10; IP identification and source port are ours).
 */

import { describe, expect, test } from 'vitest'
import type { Sent } from '../support/cards/test-card.ts'
import { Dialogue, fieldsOf, SCENARIOS, scenarioOf } from '../support/wire/dialogue.ts'
import { hexOf, icrcIn } from '../support/wire/frames.ts'
import { icrcReference } from '../support/wire/icrc-reference.ts'
import { ENGINES, granted, openCard, Replay } from '../support/wire/replay.ts'
import {
  beginningOf,
  expectedOf,
  VECTOR_REQUESTS,
  wordOf,
} from '../support/wire/vector-requests.ts'

describe('on a queue pair with the recorded numbers', () => {
  test.for(SCENARIOS)('the dialogue %s goes as it was recorded, field by field', (name) => {
    const { beginning, steps } = scenarioOf(name)
    const dialogue = new Dialogue(beginning, steps[0]!.frame)
    steps.forEach((step, i) => {
      const answers = dialogue.serve(step.frame)
      expect(answers.map(fieldsOf), `step ${i + 1}: ${step.note}`).toEqual(step.answers)
    })
  })

  test.for(SCENARIOS)('%s in one burst leaves the same memory and the same last word', (name) => {
    const { beginning, steps } = scenarioOf(name)
    const one = new Dialogue(beginning, steps[0]!.frame)
    const all = new Dialogue(beginning, steps[0]!.frame)
    let last: Sent | undefined
    for (const step of steps) last = one.serve(step.frame).at(-1) ?? last
    const answers = all.serve(...steps.map((step) => step.frame))
    expect(hexOf(all.content())).toBe(hexOf(one.content()))
    expect(fieldsOf(answers.at(-1)!)).toEqual(fieldsOf(last!))
  })
})

describe.each(ENGINES)('with a card that chose its own numbers, in %s', (engine) => {
  test.for(SCENARIOS)('the dialogue %s goes as it was recorded', async (name) => {
    const { beginning, steps } = scenarioOf(name)
    const { ask, card, dispose } = await openCard(engine)
    const replay = new Replay(ask, beginning, granted(ask, card, beginning, name === 'psn-wrap'))
    steps.forEach((step, i) => {
      expect(replay.serve(step.frame), `step ${i + 1}: ${step.note}`).toEqual(step.answers)
    })
    dispose()
  })
})

test('every answer carries the standard ICRC and goes back where its request came from', () => {
  const { beginning, steps } = scenarioOf('duplicate-write')
  const dialogue = new Dialogue(beginning, steps[0]!.frame)
  for (const { bytes, packet } of dialogue.serve(...steps.map((step) => step.frame))) {
    expect(icrcIn(bytes, packet)).toBe(icrcReference(bytes, 0, bytes.length))
    expect(hexOf(bytes.slice(0, 12))).toBe('020000000001020000000002')
    expect(hexOf(bytes.slice(26, 34))).toBe('0a0000020a000001')
  }
})

describe('every request of the vectors, as the first of its connection', () => {
  test.for(VECTOR_REQUESTS)('$name', (vector) => {
    const answers = new Dialogue(beginningOf(vector), vector.bytes).serve(vector.bytes)
    expect(wordOf(answers)).toBe(expectedOf(vector))
  })
})
