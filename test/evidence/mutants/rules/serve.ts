/** Requests: who may touch what, what an answer stands behind, and parts that fail. */

import { directed, failures, fuzz, type Mutant } from '../mutant.ts'

const BURST = 'firmware/burst/burst.ts'
const COMMIT = 'firmware/commit/commit.ts'
const PASSES = 'firmware/respond/rounds.ts'
const PERSIST = 'firmware/respond/persist.ts'
const LOCATE = 'firmware/engine/locate.ts'
const REGION = 'firmware/medium/region.ts'
const REPAIR = 'firmware/commit/repair.ts'
const SETTLED = 'firmware/engine/settled.ts'
const STORAGE = 'firmware/engine/storage.ts'

const ACCESS: readonly Mutant[] = [
  {
    id: 'key-by-its-place',
    rule: 'N15: a key is compared whole, not by its low bits',
    file: REGION,
    find: '  return region !== null && region.rkey === rkey ? region : null\n',
    replace: '  return region\n',
    killer: directed('keys'),
  },
  {
    id: 'key-in-16-bits',
    rule: 'N15: all 32 bits of a key are compared',
    file: REGION,
    find: '  return region !== null && region.rkey === rkey ? region : null\n',
    replace: '  return region !== null && ((region.rkey ^ rkey) & 0xffff) === 0 ? region : null\n',
    killer: directed('keys'),
  },
  {
    id: 'any-domain',
    rule: 'N15: queue pair and region are of one protection domain',
    file: REGION,
    find: '  if (region.protectionDomain !== domain) return PROTECTION_DOMAIN\n',
    replace: '',
    killer: fuzz('packets 1 8000'),
  },
  {
    id: 'some-rights',
    rule: 'N15: every right that is asked for must be granted',
    file: REGION,
    find: '  return (region.rights & rights) === rights ? PASS : RIGHTS\n',
    replace: '  return region.rights !== 0 ? PASS : RIGHTS\n',
    killer: directed('rights'),
  },
  {
    id: 'address-low-word',
    rule: 'N16: an address has 64 bits',
    file: REGION,
    find:
      '  if (high < 0 || high >= 2 ** 16) return -1\n' +
      '  const offset = high * 2 ** 32 + (vaLow - region.baseLow)\n',
    replace: '  if (high < -1) return -1\n  const offset = vaLow - region.baseLow\n',
    killer: directed('ranges'),
  },
  {
    id: 'address-wraps',
    rule: 'N16: the end of a range is never reached by a sum that may wrap',
    file: REGION,
    find:
      'if (offset < 0 || length > region.areaBytes || offset > region.areaBytes - length) ' +
      'return -1',
    replace: 'if (((offset + length) | 0) > region.areaBytes) return -1',
    killer: directed('ranges'),
  },
  {
    id: 'one-byte-more',
    rule: 'N16: a range ends with its region',
    file: REGION,
    find: 'offset > region.areaBytes - length) return -1',
    replace: 'offset > region.areaBytes - length + 1) return -1',
    killer: directed('ranges'),
  },
  {
    id: 'one-byte-fewer',
    rule: 'N16: the last byte of a region belongs to it',
    file: REGION,
    find: 'offset > region.areaBytes - length) return -1',
    replace: 'offset >= region.areaBytes - length) return -1',
    killer: directed('ranges'),
  },
  {
    id: 'slot-behind-the-last',
    rule: 'N16: slots are numbered from 0',
    file: STORAGE,
    find: '  if (ask.slot >= region.slots) return SLOT\n',
    replace: '  if (ask.slot > region.slots) return SLOT\n',
    killer: directed('ranges'),
  },
  {
    id: 'slot-signed',
    rule: 'H10: the number of a slot has no sign',
    file: STORAGE,
    find: '  if (ask.slot >= region.slots) return SLOT\n',
    replace: '  if ((ask.slot | 0) >= region.slots) return SLOT\n',
    killer: directed('ranges'),
  },
  {
    id: 'record-too-long',
    rule: 'N16: a record is not longer than its slot',
    file: STORAGE,
    find: '  if (ask.length > region.capacity) return RECORD_LENGTH\n',
    replace: '  if (ask.length > region.capacity + 1) return RECORD_LENGTH\n',
    killer: directed('ranges'),
  },
  {
    id: 'read-behind-the-slots',
    rule: 'N16: a READ names a slot that is there',
    file: LOCATE,
    find: 'if (vaHigh >= region.slots || view >=',
    replace: 'if (vaHigh > region.slots || view >=',
    killer: directed('ranges'),
  },
  {
    id: 'read-behind-the-record',
    rule: 'N16: a READ ends with the record',
    file: LOCATE,
    find: '  return length > bytes || offset > bytes - length ? BOUNDS : PASS\n',
    replace: '  return length > bytes || offset > bytes ? BOUNDS : PASS\n',
    killer: directed('ranges'),
  },
  {
    id: 'first-too-long',
    rule: 'N18: the packets of a message add up to what was announced',
    file: 'firmware/respond/write.ts',
    find: 'const long = length > MESSAGE_BYTES_MAX || (ends ? left !== 0 : left <= 0)',
    replace: 'const long = length > MESSAGE_BYTES_MAX || (ends && left > 0)',
    killer: directed('lengths'),
  },
  {
    id: 'only-of-any-length',
    rule: 'N18: an Only brings exactly what it announces',
    file: PERSIST,
    find:
      'if (length > MESSAGE_BYTES_MAX || (row.ends ? left !== 0 : left <= 0)) return ' +
      'MESSAGE_LENGTH',
    replace: 'if (length > MESSAGE_BYTES_MAX) return MESSAGE_LENGTH',
    killer: directed('lengths'),
  },
]

const ANSWERS: readonly Mutant[] = [
  {
    id: 'flush-before-the-fence',
    rule: 'D-9: a FLUSH is answered behind the fence that covers what was stored before',
    file: PASSES,
    find: '  if (kind === ORDERED_FLUSH) {\n    if (item.since',
    replace:
      '  if (kind === ORDERED_FLUSH) return false\n' +
      '  if (kind === ORDERED_FLUSH) {\n' +
      '    if (item.since',
    killer: failures('WRITE and FLUSH'),
  },
  {
    id: 'store-not-cleaned',
    rule: 'crash-model 2.1: what is stored for a peer is written back before the fence',
    file: BURST,
    find: '  copyClean(list, from, to, length, psnOwnerOf(qp, psn))\n',
    replace:
      '  copyClean(list, from, to, length, psnOwnerOf(qp, psn))\n' +
      '  list.words[(list.count - 1) * COMMAND_WORDS + OP] = 1\n',
    killer: failures('WRITE and FLUSH'),
  },
  {
    id: 'read-before-the-fence',
    rule: 'wire-format 6.4: a READ is answered behind the fence of what was stored before',
    file: PASSES,
    find: '  return qp.dirtyAt === fences\n',
    replace: '  return false\n',
    killer: directed('a READ behind a WRITE'),
  },
  {
    id: 'kept-write-early',
    rule: 'D-9, P2-5: a WRITE that is kept is acknowledged behind a fence',
    file: BURST,
    find: '  qp.withheldAt = state.list.fences\n',
    replace: '  qp.withheldAt = -1\n',
    killer: failures('WRITE where every store is durable'),
  },
  {
    id: 'record-write-early',
    rule: 'P2-5: a plain WRITE of a record is acknowledged when all copies are durable',
    file: BURST,
    find: '  qp.recordAt = state.answers.groups\n',
    replace: '  qp.recordAt = -1\n',
    killer: directed('a WRITE of a record'),
  },
  {
    id: 'kept-atomic-early',
    rule: 'D-9: an atomic on bytes that are kept is answered behind a fence',
    file: PASSES,
    find: '      if (item.since >= 0) return false\n',
    replace: '',
    killer: failures('COMPARE SWAP where it is durable'),
  },
]

const FAILURES: readonly Mutant[] = [
  {
    id: 'doubt-is-known',
    rule: 'G2-5: an operation in doubt is not known to be durable',
    file: COMMIT,
    find: '    if (item.fault !== PASS && !item.acknowledged) continue\n',
    replace: '',
    killer: directed('a fence fails'),
  },
  {
    id: 'degraded-is-known',
    rule: 'X-3: an operation is known only in as many copies as it was asked for',
    file: REPAIR,
    find: 'const note = item.acknowledged ? recordOperation : withdrawOperation',
    replace: 'const note = item.owner >= 0 ? recordOperation : withdrawOperation',
    killer: directed('a copy refuses'),
  },
  {
    id: 'third-copy-left',
    rule: 'D-4: a repair makes every copy one, not the first two',
    file: 'firmware/commit/unify.ts',
    find: '    if (c === into.kept) continue\n',
    replace: '    if (c === into.kept || c > 1) continue\n',
    killer: directed('a third copy refuses'),
  },
  {
    id: 'refused-not-repaired',
    rule: 'P1-11: a record that the medium refused half-way is made one again',
    file: COMMIT,
    find: '  item.fault = fault\n  item.failedStage = stage\n',
    replace: '  item.fault = fault\n  item.failedStage = -1\n',
    killer: failures('a batch in order of 4'),
  },
  {
    id: 'failed-fence-is-done',
    rule: 'D-13: a fence that failed is never taken for one that was done',
    file: COMMIT,
    find: '      if (durable < item.wait) item.fault = untouched ? commit.closed : IN_DOUBT\n',
    replace: '',
    killer: failures('a record that is repeated'),
  },
  {
    id: 'goes-on-without-fences',
    rule: 'D-13: a part that does not fence takes nothing more',
    file: COMMIT,
    find: '  commit.closed = closedBy(result)\n  return false\n',
    replace: '  return false\n',
    killer: failures('a record that is repeated'),
  },
  {
    id: 'refused-is-acknowledged',
    rule: 'D-4: what the medium refused counts as acknowledged only if its level was reached',
    file: COMMIT,
    find: '    item.acknowledged = item.wait <= item.durable\n',
    replace: '    item.acknowledged = item.wait <= item.durable + 1\n',
    killer: failures('a record that is repeated'),
  },
  {
    id: 'bad-lane-again',
    rule: 'D-14: a lane that takes nothing is not used again',
    file: COMMIT,
    find: '    while (commit.retiredLanes[lane] !== 0) lane += 1\n',
    replace: '',
    killer: directed('a lane refuses'),
  },
  {
    id: 'repair-the-wrong-way',
    rule: 'P1-11: a record whose first copy was not taken goes back, never forward',
    file: REPAIR,
    find: '  const forward = item.failedStage > STAGE_FIRST_COPY\n',
    replace: '  const forward = item.failedStage >= STAGE_FIRST_COPY\n',
    killer: failures('two records of one burst'),
  },
  {
    id: 'held-copy-is-read',
    rule: 'D-14: no copy older than what was acknowledged stands for a record',
    file: SETTLED,
    find: '  return valid && (held === null || !sequenceAfter(held, header))\n',
    replace: '  return valid && (held === null || sequenceAfter(held, header))\n',
    killer: directed('a copy that is held'),
  },
  {
    id: 'lost-is-read',
    rule: 'D-14: a record on the list of the lost is read by nobody',
    file: SETTLED,
    find: '  if (region.unsettled > 0 && isLost(state.superblock, region.id, slot)) return LOST\n',
    replace: '',
    killer: directed('a lost record'),
  },
  {
    id: 'not-armed-ignored',
    rule: 'D-13: without save energy nothing is called durable',
    file: STORAGE,
    find:
      '  if ((state.words[HEALTH_AT >> 2]! & (ARMED | SAVE_FAILED)) !== ARMED) return ' +
      'NOT_ARMED\n',
    replace: '',
    killer: directed('not armed'),
  },
  {
    id: 'flush-without-energy',
    rule: 'D-13: without save energy no FLUSH is answered',
    file: BURST,
    find: '  return (state.words[HEALTH_AT >> 2]! & (ARMED | SAVE_FAILED)) === ARMED\n',
    replace: '  return true\n',
    killer: directed('not armed'),
  },
  {
    id: 'unsettled-is-written',
    rule: 'D-14: a region with a lost record refuses writes',
    file: STORAGE,
    find: '  if (region.unsettled > 0) return READ_ONLY\n',
    replace: '',
    killer: directed('an unsettled region'),
  },
  {
    id: 'scrub-from-the-decayed',
    rule: 'D-14: the scrub repairs from the copy that is whole',
    file: 'firmware/commit/cases.ts',
    find: "line('only B valid', PHASE_NONE, [0, 1, __, __, __], 'useB', 2)",
    replace: "line('only B valid', PHASE_NONE, [0, 1, __, __, __], 'useA', 2)",
    killer: directed('the scrub'),
  },
  {
    id: 'scrub-asleep',
    rule: 'D-14: idle time is used to look for decay',
    file: 'firmware/placement/scrub.ts',
    find: '    const fault = scanNow(state, region, at.slot, last)\n',
    replace: '    const fault: Fault = PASS\n',
    killer: directed('the scrub'),
  },
]

export const SERVE: readonly Mutant[] = [...ACCESS, ...ANSWERS, ...FAILURES]
