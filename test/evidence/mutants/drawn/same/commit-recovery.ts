/** The same programs of recovery and of what it judges. */

import type { Equivalent } from './equivalent.ts'

export const COMMIT_RECOVERY: readonly Equivalent[] = [
  {
    at: 'commit/repair.ts clearLane',
    line: 'closeUnlessMedia(commit, resultOf(list, failed)) retireLane(commit, item.lane)',
    mutant: ';retireLane(commit, item.lane) ;closeUnlessMedia(commit, resultOf(list, failed))',
    because: 'one says why the part is closed, the other marks a lane; neither reads the other',
  },
  {
    at: 'commit/unify.ts secondCopy',
    line: 'return found < 0 ? copies - 1 : found',
    mutant: 'return found < 1 ? copies - 1 : found',
    because: 'it looks from 1 on: what was found is -1, or not below 1',
  },
  {
    at: 'commit/repair.ts noteItemDurable',
    line: 'closeUnlessMedia(commit, result) retireLane(commit, item.lane)',
    mutant: ';retireLane(commit, item.lane) ;closeUnlessMedia(commit, result)',
    because: 'one says why the part is closed, the other marks a lane; neither reads the other',
  },
  {
    at: 'commit/repair.ts leaveItem',
    line: 'retireLane(commit, item.lane) doubtRecord(item)',
    mutant: ';doubtRecord(item) ;retireLane(commit, item.lane)',
    because: 'one marks a lane, the other says a fault of the item; neither reads the other',
  },
  {
    at: 'commit/recovery.ts clearAllLanes',
    line: 'for (let i = 0; i < end; i++) {',
    mutant: 'for (let i = 0; i <= end; i++) {',
    because: 'what stands at the end is the fence, which has no owner, and is passed over',
  },
  ...[
    'row: 1, validMask: 0, kept: -1, repaired: 0, failure: 0',
    'row: 0, validMask: 1, kept: -1, repaired: 0, failure: 0',
    'row: 0, validMask: 0, kept: 0, repaired: 0, failure: 0',
    'row: 0, validMask: 0, kept: -1, repaired: 1, failure: 0',
    'row: 0, validMask: 0, kept: -1, repaired: 0, failure: 1',
  ].map((made) => ({
    at: 'commit/unify.ts blankOutcome',
    line: 'return { row: 0, validMask: 0, kept: -1, repaired: 0, failure: 0 }',
    mutant: `return { ${made} }`,
    because: 'judgeRecord, which each caller calls next, sets all of it',
  })),
  {
    at: 'commit/examine.ts createExamination',
    line: 'for (let c = 0; c < COPIES_MAX; c++) {',
    mutant: 'for (let c = 0; c <= COPIES_MAX; c++) {',
    because: 'a region has COPIES_MAX copies at most, so that nobody looks at one more view',
  },
  {
    at: 'commit/examine.ts createExamination',
    line: 'copies.push({ header: blankSlotHeader(), readable: false, valid: false })',
    mutant: 'copies.push({ header: blankSlotHeader(), readable: true, valid: false })',
    because: 'a view is looked at behind examineCopies alone, which sets this of it',
  },
  {
    at: 'commit/examine.ts createExamination',
    line: 'copies.push({ header: blankSlotHeader(), readable: false, valid: false })',
    mutant: 'copies.push({ header: blankSlotHeader(), readable: false, valid: true })',
    because: 'a view is looked at behind examineCopies alone, which sets this of it',
  },
  {
    at: 'commit/examine.ts createExamination',
    line: 'return { copies, linesRead: 0, unanswered: false }',
    mutant: 'return { copies, linesRead: 0, unanswered: true }',
    because: 'examineCopies begins by setting it, and nobody looks at it before',
  },
  {
    at: 'commit/examine.ts headerAt',
    line: 'return EXAMINE_AT + c * LINE_BYTES',
    mutant: 'return EXAMINE_AT - c * LINE_BYTES',
    because: 'the lines below hold codes of lanes and of the table, which are compared at once',
  },
  {
    at: 'commit/examine.ts copyCodeAt',
    line: 'return EXAMINE_AT + (COPIES_MAX + c) * LINE_BYTES',
    mutant: 'return EXAMINE_AT - (COPIES_MAX + c) * LINE_BYTES',
    because: 'the lines below hold codes of lanes and of the table, which are compared at once',
  },
  {
    at: 'commit/examine.ts examineCopies',
    line: 'view.valid = view.readable && headerFits(view.header, region, slot) into.linesRead += 1',
    mutant:
      ';into.linesRead += 1 ;view.valid = view.readable && headerFits(view.header, region, slot)',
    because: 'one says what the copy is, the other counts a line; neither reads the other',
  },
  {
    at: 'commit/examine.ts verifyCodes',
    line:
      'compare(list, copyCodeAt(c), headerAt(c), CHECK_CODE_BYTES) into.linesRead += ' +
      'imageBytes(view.header.length) / LINE_BYTES - 1',
    mutant:
      ';into.linesRead += imageBytes(view.header.length) / LINE_BYTES - 1 ;compare(list, ' +
      'copyCodeAt(c), headerAt(c), CHECK_CODE_BYTES)',
    because: 'one appends a command, the other counts lines; neither reads the other',
  },
  {
    at: 'commit/examine.ts verifyCodes',
    line: 'if (list.count === 0) return',
    mutant: 'if (list.count === 1) return',
    because: 'the list is never 1 long here; one that is empty does nothing when it is run again',
  },
  {
    at: 'commit/recovery.ts',
    line: 'export const LOOK_DUE = 2',
    mutant: 'export const LOOK_DUE = 3',
    because: 'the mark is compared alone, and differs from LOOK_WAITS and from 0 still',
  },
  {
    at: 'commit/recovery.ts blankReport',
    line: 'lanesTorn: 0,',
    mutant: 'lanesTorn: 1,',
    because: 'nobody reads how many lanes were torn',
  },
  {
    at: 'commit/recovery.ts blankReport',
    line: 'lost: 0,',
    mutant: 'lost: 1,',
    because: 'nobody reads how many records the report calls lost',
  },
  {
    at: 'commit/recovery.ts report',
    line: 'if (outcome.kept < 0) r.lost += 1',
    mutant: 'if (outcome.kept <= 0) r.lost += 1',
    because: 'nobody reads how many records the report calls lost',
  },
  {
    at: 'commit/recovery.ts report',
    line: 'if (outcome.kept < 0) r.lost += 1',
    mutant: 'if (outcome.kept < 1) r.lost += 1',
    because: 'nobody reads how many records the report calls lost',
  },
  {
    at: 'commit/recovery.ts report',
    line: 'if (outcome.kept < 0) r.lost += 1',
    mutant: 'if (outcome.kept < 0) ;',
    because: 'nobody reads how many records the report calls lost',
  },
  {
    at: 'commit/recovery.ts report',
    line: 'if (outcome.kept < 0) r.lost += 1',
    mutant: 'if (outcome.kept < 0) r.lost -= 1',
    because: 'nobody reads how many records the report calls lost',
  },
  {
    at: 'commit/recovery.ts report',
    line: 'if (outcome.kept < 0) r.lost += 1',
    mutant: 'if (outcome.kept < 0) r.lost += 2',
    because: 'nobody reads how many records the report calls lost',
  },
  {
    at: 'commit/recovery.ts report',
    line: 'if (outcome.repaired > 0) recovery.stored += 1',
    mutant: 'if (outcome.repaired > 0) recovery.stored -= 1',
    because: 'the number is compared with what it was before alone, and is another one still',
  },
  {
    at: 'commit/recovery.ts report',
    line: 'if (outcome.repaired > 0) recovery.stored += 1',
    mutant: 'if (outcome.repaired > 0) recovery.stored += 2',
    because: 'the number is compared with what it was before alone, and is another one still',
  },
  {
    at: 'commit/recovery.ts report',
    line: 'const header = recovery.examination.copies[outcome.kept < 0 ? 0 : outcome.kept]!.header',
    mutant:
      'const header = recovery.examination.copies[outcome.kept < 1 ? 0 : outcome.kept]!.header',
    because: 'copy 0 is meant either way where it is the one that is kept',
  },
  {
    at: 'commit/recovery.ts settleRecord',
    line: 'recovery.unanswered += 1',
    mutant: 'recovery.unanswered -= 1',
    because: 'the number is compared with what it was before alone, and is another one still',
  },
  {
    at: 'commit/recovery.ts settleRecord',
    line: 'recovery.unanswered += 1',
    mutant: 'recovery.unanswered += 2',
    because: 'the number is compared with what it was before alone, and is another one still',
  },
  {
    at: 'commit/recovery.ts settleAgain',
    line:
      'deriveUnsettled(recovery.superblock, recovery.unsettled, region) endPending(recovery, ' +
      'lane, region)',
    mutant:
      ';endPending(recovery, lane, region) ;deriveUnsettled(recovery.superblock, ' +
      'recovery.unsettled, region)',
    because: 'one counts what is unsettled, the other what waits; neither reads the other',
  },
  {
    at: 'commit/recovery.ts keepLane',
    line:
      'recovery.keptLanes[lane] = 1 recovery.unsettled[lane] = intent ?? { ...blankIntent(), ' +
      'regionId: region.id, record: slot }',
    mutant:
      ';recovery.unsettled[lane] = intent ?? { ...blankIntent(), regionId: region.id, record: ' +
      'slot } ;recovery.keptLanes[lane] = 1',
    because: 'they store to two arrays, and nothing is read in between',
  },
  {
    at: 'commit/recovery.ts markLost',
    line: 'recovery.unlisted += 1 setOverfull(superblock, region.index, true)',
    mutant: ';setOverfull(superblock, region.index, true) ;recovery.unlisted += 1',
    because: 'one counts, the other marks the region; neither reads the other',
  },
  {
    at: 'commit/recovery.ts markLost',
    line: 'recovery.unlisted += 1',
    mutant: 'recovery.unlisted -= 1',
    because: 'the number is compared with what it was before alone, and is another one still',
  },
  {
    at: 'commit/recovery.ts markLost',
    line: 'recovery.unlisted += 1',
    mutant: 'recovery.unlisted += 2',
    because: 'the number is compared with what it was before alone, and is another one still',
  },
  {
    at: 'commit/recovery.ts lineAt',
    line: 'return RECOVERY_AT + lane * LINE_BYTES',
    mutant: 'return RECOVERY_AT - lane * LINE_BYTES',
    because:
      'the lines below are where a page of the superblock was read to, and looked at, before',
  },
  {
    at: 'commit/recovery.ts recoverLanes',
    line: 'if (intent === null) recovery.report.lanesTorn += 1',
    mutant: 'if (intent === null) ;',
    because: 'nobody reads how many lanes were torn',
  },
  {
    at: 'commit/recovery.ts recoverLanes',
    line: 'if (intent === null) recovery.report.lanesTorn += 1',
    mutant: 'if (intent === null) recovery.report.lanesTorn -= 1',
    because: 'nobody reads how many lanes were torn',
  },
  {
    at: 'commit/recovery.ts recoverLanes',
    line: 'if (intent === null) recovery.report.lanesTorn += 1',
    mutant: 'if (intent === null) recovery.report.lanesTorn += 2',
    because: 'nobody reads how many lanes were torn',
  },
  {
    at: 'commit/recovery.ts',
    line: 'export const UNTOLD = 2',
    mutant: 'export const UNTOLD = 3',
    because: 'it is compared alone, and differs from the other two still',
  },
  {
    at: 'commit/recovery.ts recoverLane',
    line: 'const says = phase >= 0 && phase !== PHASE_UNSURE && !(bypass && phase === PHASE_A)',
    mutant: 'const says = phase > 0 && phase !== PHASE_UNSURE && !(bypass && phase === PHASE_A)',
    because: 'lanePhase returns -1 or a phase of a lane, of which none is 0',
  },
  {
    at: 'commit/recovery.ts recoverLane',
    line: 'const says = phase >= 0 && phase !== PHASE_UNSURE && !(bypass && phase === PHASE_A)',
    mutant: 'const says = phase >= 1 && phase !== PHASE_UNSURE && !(bypass && phase === PHASE_A)',
    because: 'lanePhase returns -1 or a phase of a lane, of which none is 0',
  },
  {
    at: 'commit/recovery.ts recoverLane',
    line: 'chain.fates[lane] = UNTOLD leaveLaneToHost(recovery, lane, region, intent, as)',
    mutant: ';leaveLaneToHost(recovery, lane, region, intent, as) ;chain.fates[lane] = UNTOLD',
    because: 'one says what became of the record, the other leaves it; neither reads the other',
  },
  {
    at: 'commit/recovery.ts recoverLane',
    line: 'leaveLaneToHost(recovery, lane, region, intent, as) recovery.undecided[lane] = intent',
    mutant:
      ';recovery.undecided[lane] = intent ;leaveLaneToHost(recovery, lane, region, intent, as)',
    because: 'what waits, and what is undecided, stand in two arrays; neither reads the other',
  },
  {
    at: 'commit/recovery.ts leaveLaneToHost',
    line: 'recovery.keptLanes[lane] = 1 leavePending(recovery, lane, region, intent, phase)',
    mutant: ';leavePending(recovery, lane, region, intent, phase) ;recovery.keptLanes[lane] = 1',
    because: 'one marks the lane, the other says that it waits; neither reads the other',
  },
  {
    at: 'commit/recovery.ts hiddenCopies',
    line: 'const isSeveral = (validMask & 1) !== 0 && validMask > 1',
    mutant: 'const isSeveral = (validMask & 1) !== 0 && validMask > 2',
    because: 'with copy 0 in it the mask is 1, or 3 and more',
  },
  {
    at: 'commit/recovery.ts hiddenCopies',
    line: 'return kept > 0 || (phase === PHASE_A && validMask > 1) ? 1 : 0',
    mutant: 'return kept > 0 || (phase === PHASE_A && validMask > 2) ? 1 : 0',
    because: 'where copy 1 alone is whole it is the one that is kept',
  },
  {
    at: 'commit/recovery.ts clearAllLanes',
    line: 'for (let lane = 0; lane < LANES; lane++) {',
    mutant: 'for (let lane = 0; lane <= LANES; lane++) {',
    because: 'of a lane that is not there nothing is known, and so nothing is appended',
  },
  {
    at: 'commit/recovery.ts clearAllLanes',
    line: 'if (ownerOf(list, i) <= 0 || resultOf(list, i) === 0) continue',
    mutant: 'if (ownerOf(list, i) < 0 || resultOf(list, i) === 0) continue',
    because: 'each command before the fence has a lane as its owner, from 1 on',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line: 'let degraded = 0',
    mutant: 'let degraded = 1',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line:
      'if (item.failedStage >= STAGE_PHASE && !repairItem(commit, examination, item)) degraded ' +
      '+= 1',
    mutant:
      'if (item.failedStage >= STAGE_PHASE && repairItem(commit, examination, item)) degraded += 1',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line:
      'if (item.failedStage >= STAGE_PHASE && !repairItem(commit, examination, item)) degraded ' +
      '+= 1',
    mutant: 'if (item.failedStage >= STAGE_PHASE && !repairItem(commit, examination, item)) ;',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line:
      'if (item.failedStage >= STAGE_PHASE && !repairItem(commit, examination, item)) degraded ' +
      '+= 1',
    mutant:
      'if (item.failedStage >= STAGE_PHASE && !repairItem(commit, examination, item)) degraded ' +
      '-= 1',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line:
      'if (item.failedStage >= STAGE_PHASE && !repairItem(commit, examination, item)) degraded ' +
      '+= 1',
    mutant:
      'if (item.failedStage >= STAGE_PHASE && !repairItem(commit, examination, item)) degraded ' +
      '+= 2',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line: 'if (!repairItem(commit, examination, item)) degraded += 1',
    mutant: 'if (repairItem(commit, examination, item)) degraded += 1',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line: 'if (!repairItem(commit, examination, item)) degraded += 1',
    mutant: 'if (!repairItem(commit, examination, item)) ;',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line: 'if (!repairItem(commit, examination, item)) degraded += 1',
    mutant: 'if (!repairItem(commit, examination, item)) degraded -= 1',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line: 'if (!repairItem(commit, examination, item)) degraded += 1',
    mutant: 'if (!repairItem(commit, examination, item)) degraded += 2',
    because: 'nobody looks at how many stay degraded',
  },
  {
    at: 'commit/repair.ts repairItem',
    line: 'return false',
    mutant: 'return true',
    because: 'what repairItem returns is counted alone, and nobody looks at the count',
  },
  {
    at: 'commit/repair.ts repairItem',
    line: 'if (!noteItemDurable(commit, item)) return true',
    mutant: 'if (!noteItemDurable(commit, item)) return false',
    because: 'what repairItem returns is counted alone, and nobody looks at the count',
  },
  {
    at: 'commit/repair.ts leaveItemToHost',
    line: 'return false',
    mutant: 'return true',
    because: 'what repairItem returns is counted alone, and nobody looks at the count',
  },
  {
    at: 'commit/repair.ts leaveItem',
    line: 'return false',
    mutant: 'return true',
    because: 'what repairItem returns is counted alone, and nobody looks at the count',
  },
  {
    at: 'commit/repair.ts clearLane',
    line: 'if (failed < 0) return true',
    mutant: 'if (failed < 0) return false',
    because: 'what repairItem returns is counted alone, and nobody looks at the count',
  },
  {
    at: 'commit/repair.ts clearLane',
    line: 'return true',
    mutant: 'return false',
    because: 'what repairItem returns is counted alone, and nobody looks at the count',
  },
  {
    at: 'commit/repair.ts holdInLane',
    line: 'holdLane(list, words, item.lane, item, 0)',
    mutant: 'holdLane(list, words, item.lane, item, 1)',
    because: 'nobody asks whose the command is: what the board says of it is enough',
  },
  {
    at: 'commit/repair.ts clearLane',
    line: 'copyClean(list, ZEROS_AT, laneAddress(item.lane), LINE_BYTES, 0)',
    mutant: 'copyClean(list, ZEROS_AT, laneAddress(item.lane), LINE_BYTES, 1)',
    because: 'nobody asks whose the command is: what the board says of it is enough',
  },
  {
    at: 'commit/unify.ts repairRecord',
    line: 'else copyClean(list, from, to, bytes, 0)',
    mutant: 'else copyClean(list, from, to, bytes, 1)',
    because: 'nobody asks whose the command is: what the board says of it is enough',
  },
  {
    at: 'commit/unify.ts repairRecord',
    line: 'copyClean(list, from, to, bytes, 0)',
    mutant: 'copyClean(list, from, to, bytes, 1)',
    because: 'nobody asks whose the command is: what the board says of it is enough',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line: 'if (failedStage >= 0) deriveUnsettled(superblock, commit.unsettled, region)',
    mutant: 'if (failedStage > 0) deriveUnsettled(superblock, commit.unsettled, region)',
    because: 'a record whose lane was refused leaves nothing unsettled: the number is what it was',
  },
  {
    at: 'commit/repair.ts repairGroup',
    line: 'if (failedStage >= 0) deriveUnsettled(superblock, commit.unsettled, region)',
    mutant: 'if (failedStage >= 1) deriveUnsettled(superblock, commit.unsettled, region)',
    because: 'a record whose lane was refused leaves nothing unsettled: the number is what it was',
  },
  {
    at: 'commit/repair.ts holdInLane',
    line: 'if (failed >= 0) closeUnlessMedia(commit, resultOf(list, failed))',
    mutant: 'if (failed > 0) closeUnlessMedia(commit, resultOf(list, failed))',
    because: 'command 0 is a store into the NVDIMM: a media error is all it fails by with power',
  },
  {
    at: 'commit/repair.ts holdInLane',
    line: 'if (failed >= 0) closeUnlessMedia(commit, resultOf(list, failed))',
    mutant: 'if (failed >= 1) closeUnlessMedia(commit, resultOf(list, failed))',
    because: 'command 0 is a store into the NVDIMM: a media error is all it fails by with power',
  },
  {
    at: 'commit/repair.ts leaveItemToHost',
    line: 'retireLane(commit, lane) leavePending(commit, lane, region, { ...item }, phase)',
    mutant: ';leavePending(commit, lane, region, { ...item }, phase) ;retireLane(commit, lane)',
    because: 'one retires the lane, the other says that it waits; neither reads the other',
  },
  {
    at: 'commit/repair.ts leaveItemToHost',
    line: 'leavePending(commit, lane, region, { ...item }, phase) doubtRecord(item)',
    mutant: ';doubtRecord(item) ;leavePending(commit, lane, region, { ...item }, phase)',
    because: 'what waits is a copy that is asked for its intent, and never for its fault',
  },
  {
    at: 'commit/repair.ts leaveItemToHost',
    line: 'doubtRecord(item) noteDegraded(commit, item)',
    mutant: ';noteDegraded(commit, item) ;doubtRecord(item)',
    because: 'one says a fault, the other what the table knows; neither reads the other',
  },
  {
    at: 'commit/repair.ts negate',
    line:
      'item.fault = CONDITION withdrawOperation(commit.operations, item.client, ' +
      'item.operationHigh, item.operationLow)',
    mutant:
      ';withdrawOperation(commit.operations, item.client, item.operationHigh, item.operationLow) ' +
      ';item.fault = CONDITION',
    because: 'one says a fault, the other what the table knows; neither reads the other',
  },
  {
    at: 'commit/repair.ts leaveItem',
    line: 'doubtRecord(item) noteDegraded(commit, item)',
    mutant: ';noteDegraded(commit, item) ;doubtRecord(item)',
    because: 'one says a fault, the other what the table knows; neither reads the other',
  },
  {
    at: 'commit/repair.ts leaveItem',
    line: 'noteDegraded(commit, item) commit.doubtful = commit.count',
    mutant: ';commit.doubtful = commit.count ;noteDegraded(commit, item)',
    because: 'one says what the table knows, the other counts items; neither reads the other',
  },
  {
    at: 'commit/repair.ts clearLane',
    line: 'fenceOwn(list) commit.dirtyLanes[item.lane] = 0',
    mutant: ';commit.dirtyLanes[item.lane] = 0 ;fenceOwn(list)',
    because: 'one appends a command, the other marks a lane; the list runs later',
  },
  {
    at: 'commit/unify.ts secondCopy',
    line: 'return found < 0 ? copies - 1 : found',
    mutant: 'return found <= 0 ? copies - 1 : found',
    because: 'it looks from 1 on: what was found is -1, or not below 1',
  },
  {
    at: 'commit/unify.ts judgeRecord',
    line: 'into.validMask = 0',
    mutant: ';',
    because: 'each caller hands in a blank outcome, which says so already',
  },
  {
    at: 'commit/unify.ts judgeRecord',
    line: 'into.repaired = 0',
    mutant: ';',
    because: 'each caller hands in a blank outcome, which says so already',
  },
  {
    at: 'commit/unify.ts judgeRecord',
    line: 'into.failure = 0',
    mutant: ';',
    because: 'each caller hands in a blank outcome, which says so already',
  },
  {
    at: 'commit/unify.ts repairRecord',
    line: 'if (region.placement === PLACEMENT_LOCAL) append(list, FLUSH, 0, to, bytes, 0)',
    mutant: 'if (region.placement === PLACEMENT_LOCAL) append(list, FLUSH, 1, to, bytes, 0)',
    because: 'a FLUSH looks at its range alone',
  },
  {
    at: 'commit/unify.ts repairRecord',
    line: 'if (region.placement === PLACEMENT_LOCAL) append(list, FLUSH, 0, to, bytes, 0)',
    mutant: 'if (region.placement === PLACEMENT_LOCAL) append(list, FLUSH, 0, to, bytes, 1)',
    because: 'a FLUSH looks at its range alone',
  },
  {
    at: 'commit/proof.ts createProof',
    line: 'return { proven: PLACEMENT_UNPROVEN, lives: 0, numberHigh: 0, numberLow: 0, ...shown }',
    mutant:
      'return { proven: PLACEMENT_UNPROVEN, lives: 1, numberHigh: 0, numberLow: 0, ...shown }',
    because: 'the number of lives is compared with what it was before alone',
  },
  {
    at: 'commit/proof.ts writeProbe',
    line: 'view.setUint32(i, numberHigh) view.setUint32(i + 4, numberLow)',
    mutant: ';view.setUint32(i + 4, numberLow) ;view.setUint32(i, numberHigh)',
    because: 'they store to different bytes, and nothing is read in between',
  },
  {
    at: 'commit/proof.ts writeProbe',
    line: 'const to = HOST_SPACE + HOST_PROBE_AT + line * LINE_BYTES',
    mutant: 'const to = HOST_SPACE - HOST_PROBE_AT + line * LINE_BYTES',
    because: "the probe stands at 0 of the host's memory (HOST_PROBE_AT)",
  },
  {
    at: 'commit/proof.ts writeProbe',
    line: 'append(list, COPY, HOST_SPACE + HOST_PROBE_AT, LSB_AT, 1, 0)',
    mutant: 'append(list, COPY, HOST_SPACE - HOST_PROBE_AT, LSB_AT, 1, 0)',
    because: "the probe stands at 0 of the host's memory (HOST_PROBE_AT)",
  },
  {
    at: 'commit/proof.ts unprove',
    line: 'proof.numberLow = 0 grant(proof, regions)',
    mutant: ';grant(proof, regions) ;proof.numberLow = 0',
    because: 'what a region grants does not follow from the number',
  },
  {
    at: 'commit/proof.ts unprove',
    line: 'proof.lives += 1',
    mutant: 'proof.lives -= 1',
    because: 'the number of lives is compared with what it was before alone',
  },
  {
    at: 'commit/proof.ts unprove',
    line: 'proof.lives += 1',
    mutant: 'proof.lives += 2',
    because: 'the number of lives is compared with what it was before alone',
  },
  {
    at: 'commit/proof.ts',
    line: 'export const PLACEMENT_UNPROVEN = -1',
    mutant: 'export const PLACEMENT_UNPROVEN = 0',
    because: "a region of placement 0, the card's own, neither waits for a host nor is refused",
  },
]
