/**
 * What came later: guards of the client's own, regions of which clients write the copies, and what
 * the host of the target is told (S1-M1, S1-M2, S1-M5, S1-M7, S1-M10).
 */

import { crash, fuzz, host, type Mutant, simulate } from '../mutant.ts'

const PAIR = 'firmware/placement/pair.ts'
const BATCH_STATUS = 'firmware/engine/batch-status.ts'
const HANDED = 'firmware/respond/handed.ts'
const WRITE_BACK = 'firmware/placement/write-back.ts'
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
    id: 'guard-of-what-is-carried',
    rule: 'S1-M1: each copy of a record that brings its copies has the guard',
    file: 'firmware/respond/persist.ts',
    find: '  if (pweth.guarded && message.guard === 0) return PERSIST_HEADER\n',
    replace:
      '  if (pweth.guarded && message.guard === 0) return PERSIST_HEADER\n' +
      '  if (pweth.carried) message.guard = 0\n',
    killer: simulate('calm 1-6'),
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

const WRITTEN_BACK: readonly Mutant[] = [
  {
    id: 'cached-taken-when-asked',
    rule: 'S1-M5: bytes in the caches are acknowledged behind the bell of the host',
    file: WRITE_BACK,
    find: '  return awaitJob(state, qp, psn, asks, messageFrom, end, taken)',
    replace: '  return taken',
    killer: host('bytes through 1of2 both at-once 40'),
  },
  {
    id: 'flush-asks-nobody',
    rule: 'S1-M5: a FLUSH waits for the bell for all bytes that it names',
    file: WRITE_BACK,
    find: '  if (length === 0) return PASS\n',
    replace: '  if (length >= 0) return PASS\n',
    killer: host('flush through 1of2 both at-once 40'),
  },
  {
    id: 'flush-asks-for-the-first-bytes',
    rule: 'S1-M5: a FLUSH waits for the bell for all bytes that it names',
    file: WRITE_BACK,
    find: 'if (taken === PASS) taken = acceptBytes(state, qp, psn, region, from, length)',
    replace: 'if (taken === PASS) taken = acceptBytes(state, qp, psn, region, from, 8)',
    killer: host('flush through 1of2 both at-once 40'),
  },
  {
    id: 'flush-of-an-earlier-life',
    rule: 'S1-M5: a FLUSH does not speak for what an earlier life of the agent was left with',
    file: WRITE_BACK,
    find: 'if (taken === PASS && isStored && cached.life !== state.through.agent.life) return',
    replace: 'if (taken === PASS && isStored && cached.life < 0) return',
    killer: host('flush through 1of2 host at-once 1'),
  },
  {
    id: 'handed-on-before-the-bell',
    rule: 'S1-M5, X-5: in order, a record is handed on when the one before it is durable',
    file: HANDED,
    find: '  if (batch.condition === CONDITION_IN_ORDER && batch.handed > 0) return false\n',
    replace: '  if (batch.condition === CONDITION_IN_ORDER && batch.handed > 1) return false\n',
    killer: host('batch through 2of2 both at-once 1'),
  },
]

const NOTICES: readonly Mutant[] = [
  {
    id: 'notice-of-what-is-refused',
    rule: 'S1-M10: the host is told of what is durable, and of nothing else',
    file: BATCH_STATUS,
    find:
      '  if (item.acknowledged || item.fault === PASS) {\n' +
      '    noteMemberDurable(batch, item.batchIndex, item.wait)\n' +
      '    if (notices.watched > 0) noteStored(notices, batch, item)\n',
    replace:
      '  if (notices.watched > 0) noteStored(notices, batch, item)\n' +
      '  if (item.acknowledged || item.fault === PASS) {\n' +
      '    noteMemberDurable(batch, item.batchIndex, item.wait)\n',
    killer: host('batch local 2of2 host at-once 40'),
  },
  {
    id: 'notice-twice',
    rule: 'S1-M10: the host is told of a record once',
    file: 'firmware/queues/batch-notices.ts',
    find: '    tellOldest(state)\n    told.dropOldest(notices)\n',
    replace:
      '    tellOldest(state)\n' +
      '    if (notices.count === 1) tellOldest(state)\n' +
      '    told.dropOldest(notices)\n',
    killer: host('batch bypass 1of2 host at-once 40'),
  },
]

const QUEUES: readonly Mutant[] = [
  {
    id: 'depth-one-more',
    rule: 'S1-M7: no more messages are on their way than the peer takes',
    file: 'firmware/transport/sender.ts',
    find: '!request.out && q.sendsOut >= q.sendDepth',
    replace: '!request.out && q.sendsOut > q.sendDepth',
    killer: fuzz('work 1 100000'),
  },
  {
    id: 'trusted-by-halves',
    rule: 'S1-M8: the pointer of a doorbell is used only with the tag that was made for it',
    file: 'firmware/host/doorbell.ts',
    find: '  const fits = isTaggedFor(low, pointer, host.epoch)\n',
    replace: '  const fits = isTaggedFor(low, pointer, host.epoch) || pointer > 0\n',
    killer: fuzz('work 1 100000'),
  },
  {
    id: 'depth-of-nothing',
    rule: 'S1-M7: a peer that takes nothing at all is refused',
    file: 'firmware/transport/depths.ts',
    find: 'return told.send > 0 && told.receive > 0 ? PASS : QUEUE_DEPTH',
    replace: 'return told.send >= 0 && told.receive >= 0 ? PASS : QUEUE_DEPTH',
    killer: fuzz('corpus 1'),
  },
]

export const NEWER: readonly Mutant[] = [
  ...GUARDS,
  ...PAIRS,
  ...WRITTEN_BACK,
  ...NOTICES,
  ...QUEUES,
]
