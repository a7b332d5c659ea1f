/** The start: what lanes and copies say, which copy stays, and what is cleared when (D-2, D-14). */

import { crash, directed, failures, type Mutant, model, simulate } from '../mutant.ts'

const CASES = 'firmware/commit/cases.ts'
const COPIES = 'firmware/medium/copies.ts'
const EXAMINE = 'firmware/commit/examine.ts'
const LANE = 'firmware/medium/lane.ts'
const RECOVERY = 'firmware/commit/recovery.ts'
const SLOT = 'firmware/medium/slot.ts'
const UNIFY = 'firmware/commit/unify.ts'

/** Which copy is kept. */
const DECISION: readonly Mutant[] = [
  {
    id: 'unanswered-is-lost',
    rule: 'H4: of a record that a host did not answer for, nothing is decided',
    file: UNIFY,
    find: '  if (!examination.unanswered) return\n',
    replace: '  if (examination.copies.length > 0) return\n',
    killer: failures('placement: a record through the caches'),
  },
  {
    id: 'repairs-at-once',
    rule: 'I1: a start overwrites one copy at a time, each behind a fence',
    file: UNIFY,
    find: '    if (into.repaired !== 0) fenceFor(list, to)\n',
    replace: '',
    killer: directed('a repair that is cut'),
  },
  {
    id: 'b-over-a-in-phase-b',
    rule: 'P1-16: between F3 and F4 copy A goes over copy B',
    file: CASES,
    find: "line('between', PHASE_B, [1, 1, 0, __, __], 'useA', 3)",
    replace: "line('between', PHASE_B, [1, 1, 0, __, __], 'useB', 3)",
    killer: simulate('network 1-2'),
  },
  {
    id: 'a-over-b-in-phase-a',
    rule: 'D-2: in phase A copy B is whole whatever the check code of A says by chance',
    file: CASES,
    find: "line('A whole, unmarked', PHASE_A, [1, 1, 0, __, __], 'useB', 3)",
    replace: "line('A whole, unmarked', PHASE_A, [1, 1, 0, __, __], 'useA', 3)",
    killer: crash('similar 2of2 checkless'),
  },
  {
    id: 'old-for-acknowledged',
    rule: 'D-4: an acknowledged record that is gone is a loss that is said, never the old one',
    file: CASES,
    find: "line('A unreadable, B old, acknowledged', PHASE_B, [0, 1, __, 0, 1], 'lost', 0)",
    replace: "line('A unreadable, B old, acknowledged', PHASE_B, [0, 1, __, 0, 1], 'useB', 0)",
    killer: crash('similar 1of2 copies'),
  },
  {
    id: 'promised-at-one-alone',
    rule: 'D-4: of a level above 1of2, too, what was acknowledged and is gone is a loss',
    file: UNIFY,
    find: 'for (let c = 1; c < last; c++) if (copies[c]!.readable) return false',
    replace: 'if (intent.wait > 1) return false',
    killer: model('decisions 2of4'),
  },
  {
    id: 'torn-for-unreadable',
    rule: 'D-4: a copy that is torn was never fenced, so nothing was acknowledged for it',
    file: UNIFY,
    find: 'if (copies[c]!.readable) return false',
    replace: 'if (copies[c]!.valid) return false',
    killer: model('decisions 2of4'),
  },
  {
    id: 'shown-and-not-held',
    rule: 'O5: what readers were shown in one copy alone is lost with it, and never older',
    file: UNIFY,
    find: '  if (phase === PHASE_HELD) return true\n',
    replace: '',
    killer: simulate('media 100158-100158'),
  },
  {
    id: 'a-repair-says-nothing',
    rule: 'O5: a lane says that its record is shown, before it is',
    file: 'firmware/commit/repair.ts',
    find: 'if (isNew && !item.acknowledged && !holdInLane(commit, item))',
    replace: 'if (isNew && item.acknowledged && !holdInLane(commit, item))',
    killer: simulate('media 100534-100534'),
  },
  {
    id: 'a-start-says-nothing',
    rule: 'O5: a start that shows a record in one copy says so in its lane, too',
    file: RECOVERY,
    find: 'else if (intent !== null && recovery.pending[lane] === null)',
    replace: 'else if (intent !== null && recovery.pending[lane] !== null)',
    killer: simulate('media 100452-100452'),
  },
  {
    id: 'first-valid-behind',
    rule: 'D-4: of the copies behind the first the latest counts, not merely one that is whole',
    file: COPIES,
    find: 'if (found < 0 || sequenceAfter(header, copies[found]!.header)) found = c',
    replace: 'if (found < 0) found = c',
    killer: model('decisions 2of4'),
  },
  {
    id: 'equality-is-validity',
    rule: 'P1-25: copies that are the same are not therefore whole',
    file: CASES,
    find: "line('equal but invalid in A', PHASE_A, [0, 0, 1, __, __], 'lost', 0)",
    replace: "line('equal but invalid in A', PHASE_A, [0, 0, 1, __, __], 'useA', 0)",
    killer: directed('equal and torn'),
  },
  {
    id: 'torn-over-torn',
    rule: 'P1-24: nothing is overwritten when no whole copy is known',
    file: CASES,
    find: "line('both torn in B', PHASE_B, [0, 0, 0, __, __], 'lost', 0)",
    replace: "line('both torn in B', PHASE_B, [0, 0, 0, __, __], 'useA', 0)",
    killer: directed('both torn'),
  },
  {
    id: 'older-in-a-scan',
    rule: 'D-14: in a scan the copy with the later sequence is kept',
    file: CASES,
    find: "line('B newer', PHASE_NONE, [1, 1, 0, 1, __], 'useB', 0)",
    replace: "line('B newer', PHASE_NONE, [1, 1, 0, 1, __], 'useA', 0)",
    killer: directed('the later sequence'),
  },
  {
    id: 'highest-index',
    rule: 'D-4: of three copies the latest behind the first counts, not the last',
    file: COPIES,
    find: 'if (found < 0 || sequenceAfter(header, copies[found]!.header)) found = c',
    replace: 'found = c',
    killer: crash('similar 2of3 copies'),
  },
  {
    id: 'later-turned-round',
    rule: 'S1-M4: without a lane the copy of the latest write counts, wherever it stands',
    file: COPIES,
    find: 'if (found < 0 || sequenceAfter(header, copies[found]!.header)) found = c',
    replace: 'if (found < 0 || sequenceAfter(copies[found]!.header, header)) found = c',
    killer: directed('the copy that counts'),
  },
  {
    id: 'b-newer-turned-round',
    rule: 'S1-M4: a later copy behind A counts before A, and an older one does not',
    file: UNIFY,
    find: 'return countingCopy(examination.copies, 0, b + 1) === b',
    replace: 'return countingCopy(examination.copies, 0, b + 1) !== b',
    killer: directed('the copy that counts'),
  },
  {
    id: 'invalid-counts',
    rule: 'S1-M4: the sequence of a copy that is not valid says nothing',
    file: COPIES,
    find: '    if (!valid) continue\n',
    replace: '',
    killer: directed('the copy that counts'),
  },
  {
    id: 'majority',
    rule: 'D-4: of three copies the first valid one counts, and no vote is taken',
    file: UNIFY,
    find: "  into.kept = then === 'lost' ? -1 : then === 'useB' ? b : 0\n",
    replace:
      "  into.kept = then === 'lost' ? -1 : then === 'useB' ? b : 0\n" +
      '  if (region.copies === 3 && copies[1]!.valid && copies[2]!.valid)\n' +
      '    if (copiesSame(list, examination, region, slot, 1, 2)) into.kept = 1\n',
    killer: crash('similar 1of3'),
  },
  {
    id: 'intent-of-an-early-wait',
    rule: 'D-4: what the lane says of the level decides between a loss and the old record',
    file: LANE,
    find: 'into.wait = (words[w + LENGTH]! >> LENGTH_BITS) & WAIT_MASK',
    replace: 'into.wait = 2',
    killer: crash('similar 1of2 copies'),
  },
  {
    id: 'stale-lane-counts',
    rule: 'D-2: a lane whose record was written again since says nothing',
    file: UNIFY,
    find: '    if (copy.valid && sequenceAfter(copy.header, intent)) return true\n',
    replace: '',
    killer: directed('a lane of an earlier write'),
  },
]

/** What a copy, and what a lane, has to be before it is believed. */
const CHECKS: readonly Mutant[] = [
  {
    id: 'half-a-code',
    rule: 'D-3: all 16 bytes of a check code are compared',
    file: EXAMINE,
    find: 'compare(list, copyCodeAt(c), headerAt(c), CHECK_CODE_BYTES)',
    replace: 'compare(list, copyCodeAt(c), headerAt(c), 8)',
    killer: directed('half a check code'),
  },
  {
    id: 'code-unchecked',
    rule: 'D-3: a copy counts only if its check code is right',
    file: EXAMINE,
    find: 'view.valid = readable && resultOf(list, index + 1) === EQUAL',
    replace: 'view.valid = readable',
    killer: crash('similar 2of2 metadata'),
  },
  {
    id: 'code-without-data',
    rule: 'D-3: the check code covers the data to its last byte',
    file: EXAMINE,
    find: 'const length = SLOT_HEADER_BYTES - CHECKED_AT + view.header.length',
    replace: 'const length = SLOT_HEADER_BYTES - CHECKED_AT',
    killer: crash('similar 2of2'),
  },
  {
    id: 'code-from-the-data',
    rule: 'D-3, I8: the check code covers header, sequence, record and region',
    file: 'firmware/commit/commit.ts',
    find: 'checkCode(list, item.imageAt + CHECKED_AT, item.imageAt, end - CHECKED_AT,',
    replace: 'checkCode(list, item.imageAt + 64, item.imageAt, end - 64,',
    killer: crash('similar 2of2'),
  },
  {
    id: 'key-of-the-part',
    rule: 'D-3: records are checked under the key of their region, which the client knows',
    file: 'firmware/commit/commit.ts',
    find: 'end - CHECKED_AT, item.region.keyAt)',
    replace: 'end - CHECKED_AT, KEYS_AT)',
    killer: crash('similar 2of2'),
  },
  {
    id: 'any-record',
    rule: 'I8: a copy that is whole, but of another record, is no copy',
    file: SLOT,
    find: '    header.record === slot &&\n',
    replace: '',
    killer: directed('the slot of another record'),
  },
  {
    id: 'any-version',
    rule: 'D-3: a slot of a version that is not known is no copy',
    file: SLOT,
    find: '    header.version === SLOT_VERSION &&\n',
    replace: '',
    killer: directed('another version of the slot'),
  },
  {
    id: 'phase-unpaired',
    rule: 'D-2: a phase counts only with its complement',
    file: LANE,
    find: '  if (((word >> 8) & 0xff) !== (phase ^ 0xff)) return -1\n',
    replace: '',
    killer: directed('a phase that decayed to A'),
  },
  {
    id: 'phase-half-paired',
    rule: 'D-2: the whole complement of a phase counts, not half of it',
    file: LANE,
    find: 'if (((word >> 8) & 0xff) !== (phase ^ 0xff)) return -1',
    replace: 'if (((word >> 8) & 0x0c) !== ((phase ^ 0xff) & 0x0c)) return -1',
    killer: directed('a phase that decayed to A'),
  },
  {
    id: 'phase-of-any-intent',
    rule: 'D-2: a phase word is bound to the sequence of the intent behind it',
    file: LANE,
    find: '  if (words[w + PHASE_SEQUENCE] !== words[w + SEQUENCE_LOW]) return -1\n',
    replace: '',
    killer: directed('the phase of another intent'),
  },
  {
    id: 'lane-unchecked',
    rule: 'D-2: a lane whose check code is wrong is no intent',
    file: RECOVERY,
    find: '  if (resultOf(list, 1) !== EQUAL) return null\n',
    replace: '',
    killer: crash('another 2of2'),
  },
  {
    id: 'lane-of-no-region',
    rule: 'D-2: a lane names a region and a record that are there',
    file: RECOVERY,
    find:
      '  const named = region !== null && region.kind === KIND_RECORDS && intent.record < ' +
      'region.slots\n',
    replace: '  const named = region !== null\n',
    killer: directed('a lane beyond the region'),
  },
]

/** Numbers. */
const SEQUENCES: readonly Mutant[] = [
  {
    id: 'sequence-signed',
    rule: 'D-3: sequences are compared as unsigned numbers',
    file: SLOT,
    find: '  into.sequenceLow = words[w + SEQUENCE_LOW]! >>> 0\n',
    replace: '  into.sequenceLow = words[w + SEQUENCE_LOW]!\n',
    killer: directed('the later sequence'),
  },
  {
    id: 'sequence-low-word',
    rule: 'D-3: a sequence has 64 bits, and the upper word counts first',
    file: COPIES,
    find: '  if (a.sequenceHigh !== b.sequenceHigh) return a.sequenceHigh > b.sequenceHigh\n',
    replace: '',
    killer: directed('the later sequence'),
  },
  {
    id: 'sequence-in-53-bits',
    rule: 'H10: a sequence of 64 bits is never one double',
    file: COPIES,
    find: '  return a.sequenceLow > b.sequenceLow\n',
    replace:
      '  return a.sequenceHigh * 2 ** 32 + a.sequenceLow > b.sequenceHigh * 2 ** 32 + ' +
      'b.sequenceLow\n',
    killer: directed('the later sequence'),
  },
  {
    id: 'sequence-stands',
    rule: 'D-3: a later write of a record has a greater sequence',
    file: 'firmware/commit/commit.ts',
    find: '  commit.sequenceLow = (commit.sequenceLow + 1) >>> 0\n',
    replace: '  commit.sequenceLow = 1\n',
    killer: crash('similar 2of2'),
  },
]

/** What recovery does, and in which order. */
const REPAIR: readonly Mutant[] = [
  {
    id: 'repair-left-out',
    rule: 'P1-19: after a start the copies of a record are one',
    file: UNIFY,
    find: '    copyClean(list, from, to, bytes, 0)\n    into.repaired |= 1 << c\n',
    replace: '    into.repaired |= 1 << c\n',
    killer: crash('similar 2of2'),
  },
  {
    id: 'lanes-not-cleared',
    rule: 'P1-27: a start clears the lanes that it has settled',
    file: RECOVERY,
    find: 'if (keptLanes[lane] === 0) copyClean(list, ZEROS_AT',
    replace: 'if (keptLanes[lane] !== 0) copyClean(list, ZEROS_AT',
    killer: crash('similar 2of2'),
  },
  {
    id: 'back-alone',
    rule: 'X-5: a record in order goes back with the one before it, though its own lane says B',
    file: RECOVERY,
    find: '  return isPredecessor(other, intent) && sequenceAfter(intent, other) ? before : -1',
    replace: '  return -1',
    killer: crash('order 2of2'),
  },
  {
    id: 'operation-of-a-lane',
    rule: 'X-3: what is acknowledged behind F3 is in the table after a start',
    file: RECOVERY,
    find: '  if (outcome.failure === 0 || intent.wait === 1) recoverOperation(',
    replace: '  if (outcome.failure !== 0) recoverOperation(',
    killer: crash('similar 1of2'),
  },
  {
    id: 'operation-not-taken-back',
    rule: 'X-3: an operation whose record went back is known no more',
    file: RECOVERY,
    find: 'outcome.failure = forgetDurably(recovery.operations, list, intent, outcome.kept < 0)',
    replace: 'outcome.failure = 0',
    killer: crash('similar 2of2 copies'),
  },
  {
    id: 'unread-lane-ignored',
    rule: 'D-14: where a lane cannot be read, every record is looked at',
    file: RECOVERY,
    find: '    if (resultOf(list, lane) !== 0) unreadable = true\n',
    replace: '    if (resultOf(list, lane) !== 0) continue\n',
    killer: crash('similar 2of2 metadata'),
  },
  {
    id: 'loss-not-listed',
    rule: 'D-14: a lost record is on the list before its lane is cleared',
    file: RECOVERY,
    find: '  const listed = addLost(superblock, region.id, slot)\n',
    replace: '  const listed = true\n',
    killer: directed('both torn'),
  },
  {
    id: 'silence-is-loss',
    rule: 'D-14: a record of which a host did not answer is not given up',
    file: 'firmware/placement/discard.ts',
    find: '  if (examination.unanswered) return DMA\n',
    replace: '',
    killer: directed('a host that does not answer'),
  },
  {
    id: 'lane-not-counted',
    rule: 'D-14: a lane that stays leaves its record unsettled, whatever is given up beside it',
    file: 'firmware/commit/unsettled.ts',
    find: '    if (!isLost(superblock, region.id, one.record)) count += 1\n',
    replace: '',
    killer: directed('a lane that holds a record'),
  },
  {
    id: 'more-not-marked',
    rule: 'D-14: a region with more lost records than the list has room for says so',
    file: RECOVERY,
    find: '    setOverfull(superblock, region.index, true)\n',
    replace: '',
    killer: directed('more lost than can be named'),
  },
  {
    id: 'table-behind-the-lanes',
    rule: 'X-3: recovery clears no lane before the operations that it names are durable',
    file: 'firmware/manage/boot.ts',
    find: '  const fault = writeOperations(recovery)\n',
    replace: '  const fault: Fault = PASS\n',
    killer: crash('similar 1of2'),
  },
  {
    id: 'list-behind-the-lanes',
    rule: 'D-14: incarnation and lost records are durable before a lane is cleared',
    file: 'firmware/manage/boot.ts',
    find: '  const written = begun ? writeSuperblock(list, superblock) : SUPERBLOCK\n',
    replace: '  const written: Fault = begun ? PASS : SUPERBLOCK\n',
    killer: directed('both torn'),
  },
]

export const RECOVERY_RULES: readonly Mutant[] = [...DECISION, ...CHECKS, ...SEQUENCES, ...REPAIR]
