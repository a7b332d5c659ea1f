/**
 * What came later: guards of the client's own, regions of which clients write the copies, and what
 * the host of the target is told (S1-M1, S1-M2, S1-M5, S1-M7, S1-M10).
 */

import { crash, type Mutant } from '../mutant.ts'

const PAIR = 'firmware/placement/pair.ts'
const SCRUB = 'firmware/placement/scrub.ts'

const GUARDS: readonly Mutant[] = [
  {
    id: 'guard-unchecked',
    rule: 'S1-M1: a record is stored only if its data have the guard that came with them',
    file: 'firmware/commit/commit.ts',
    find: '  if (item.guard !== 0) {',
    replace: '  if (item.guard < 0) {',
    killer: crash('guarded, 1of2'),
  },
  {
    id: 'guard-not-kept',
    rule: 'S1-M1: the guard is kept with every copy',
    file: 'firmware/medium/slot.ts',
    find: '  words[w + GUARD] = from.guard',
    replace: '  words[w + GUARD] = 0',
    killer: crash('guarded, 1of2'),
  },
  {
    id: 'guard-of-a-batch-forgotten',
    rule: 'S1-M1: a record of a batch has a guard of its own',
    file: 'firmware/batch/members.ts',
    find: '  members.guards[n] = guard',
    replace: '  members.guards[n] = 0 * guard',
    killer: crash('guarded batch, 2of2'),
  },
  {
    id: 'behind-a-wrong-guard',
    rule: 'S1-M1, X-5: of a batch in order nothing is stored behind a record that is refused',
    file: 'firmware/commit/commit.ts',
    find: '  return before !== null && before.fault !== PASS && !before.acknowledged\n',
    replace:
      '  return before !== null && before.failedStage > STAGE_LANES && !before.acknowledged\n',
    killer: crash('guarded batch, 2of2'),
  },
]

const PAIRS: readonly Mutant[] = [
  {
    id: 'pair-unseen-before-a-write',
    rule: 'S1-M2: the only good copy is doubled before a client may tear it',
    file: SCRUB,
    find: '  if (othersOf(state, region, slot, copy) === others) return PASS\n',
    replace: '  if (others > 0) return PASS\n',
    killer: crash('pair left torn, 2of2'),
  },
  {
    id: 'pair-looked-at-in-the-midst',
    rule: 'S1-M2: a record into which a message is under way is left alone',
    file: PAIR,
    find: '      if (qp.messageTo >= at && qp.messageTo < at + region.stride) return true\n',
    replace: '      if (qp.messageTo >= at && qp.messageTo < at) return true\n',
    killer: crash('pair write, looked at, 2of2'),
  },
  {
    id: 'pair-from-what-is-not-durable',
    rule: 'S1-M2: a copy is a source only when it is durable',
    file: SCRUB,
    find: '  if (pair) {\n    const fenced = fenceCopies(state.list)\n',
    replace: '  if (pair) {\n    const fenced = PASS as Fault\n',
    killer: crash('pair write, looked at, 2of2'),
  },
  {
    id: 'pair-from-the-last-copy',
    rule: 'S1-M2, S1-M4: of the valid copies that of the latest write counts',
    file: 'firmware/medium/copies.ts',
    find: 'if (found < 0 || sequenceAfter(header, copies[found]!.header)) found = c',
    replace: 'found = c',
    killer: crash('pair write, 2of2'),
  },
]

export const NEWER: readonly Mutant[] = [...GUARDS, ...PAIRS]
