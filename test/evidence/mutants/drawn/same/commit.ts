/** The same programs of a group, its lanes and slots. */

import type { Equivalent } from './equivalent.ts'

export const COMMIT: readonly Equivalent[] = [
  {
    at: 'commit/commit.ts composeLane',
    line: 'if (pad > 0) copy(list, ZEROS_AT, item.imageAt + end, pad)',
    mutant: 'if (pad >= 0) copy(list, ZEROS_AT, item.imageAt + end, pad)',
    because: 'a copy of no bytes does nothing, and there is room for it in the list',
  },
  {
    at: 'commit/commit.ts commitGroup',
    line: 'assignLanes(commit) commit.refused = false',
    mutant: ';commit.refused = false ;assignLanes(commit)',
    because: 'lanes are assigned without a look at what was refused',
  },
  {
    at: 'medium/lane.ts writeIntent',
    line:
      'writePhaseWord(words, at, PHASE_A, from.sequenceLow, from.sequenceHigh) ' +
      'words[w + MAGIC] = LANE_MAGIC',
    mutant:
      ';words[w + MAGIC] = LANE_MAGIC ' +
      ';writePhaseWord(words, at, PHASE_A, from.sequenceLow, from.sequenceHigh)',
    because: 'they store to different words, and nothing is read in between',
  },
  {
    at: 'commit/commit.ts clearLanes',
    line: 'copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, 0)',
    mutant: 'copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, 1)',
    because: 'nobody asks who owns a command of this list: what fails there is left as it is',
  },
  {
    at: 'commit/cases.ts judgeCopies',
    line: 'for (let i = 0; i < CASES.length; i++) if (caseMatches(CASES[i]!, facts)) return i',
    mutant: 'for (let i = 0; i <= CASES.length; i++) if (caseMatches(CASES[i]!, facts)) return i',
    because: 'the table is total, so no search comes to its end',
  },
  {
    at: 'commit/commit.ts',
    line: 'export const STAGE_PHASE = 2',
    mutant: 'export const STAGE_PHASE = 3',
    because:
      'stages are compared alone: those behind move with it, and of the last no end is needed',
  },
  {
    at: 'commit/commit.ts',
    line: 'const STAGES = 2 + COPIES_MAX',
    mutant: 'const STAGES = 3 + COPIES_MAX',
    because: 'nobody asks for the end of a stage that there is not',
  },
  {
    at: 'commit/commit.ts',
    line: 'const PLACES = 256',
    mutant: 'const PLACES = 257',
    because: 'records that share a place cost a look at all of the group, and nothing else',
  },
  {
    at: 'commit/commit.ts createGroupIndex',
    line: 'return { stamps: new Int32Array(PLACES), members: new Int32Array(PLACES), stamp: 1 }',
    mutant: 'return { stamps: new Int32Array(PLACES), members: new Int32Array(PLACES), stamp: 2 }',
    because: 'a stamp is any number that is not the one before it, and no place has one at first',
  },
  {
    at: 'commit/commit.ts groupAdd',
    line: 'index.members[place] = member',
    mutant: ';',
    because: 'who is asked first is a hint: if it is another record, all of the group are asked',
  },
  {
    at: 'commit/commit.ts createCommit',
    line: 'for (let i = 0; i < BURST_FRAMES; i++) items.push(blankItem(anyRegion))',
    mutant: 'for (let i = 0; i <= BURST_FRAMES; i++) items.push(blankItem(anyRegion))',
    because: 'no group has more records than a burst has frames, so nobody asks for the last one',
  },
  ...[';', 'dirtyLanes.indexOf(2)'].map((mutant) => ({
    at: 'commit/commit.ts createCommit',
    line: 'dirtyLanes.indexOf(1)',
    mutant,
    because: 'what it finds is not asked: it makes QuickJS have the method ready',
  })),
  ...[
    ['sequenceLow: 0,', 'sequenceLow: 1,'],
    ['sequenceHigh: 0,', 'sequenceHigh: 1,'],
    ['hostLanes: BURST_FRAMES - LOCAL_LANES,', 'hostLanes: BURST_FRAMES + LOCAL_LANES,'],
    ['refused: false,', 'refused: true,'],
  ].map(([line, mutant]) => ({
    at: 'commit/commit.ts createCommit',
    line: line!,
    mutant: mutant!,
    because: 'the start sets it before the first group, or that group does before anybody asks',
  })),
  {
    at: 'commit/commit.ts sealItem',
    line:
      'item.acknowledged = false writeSlotHeader(commit.words, item.imageAt, ' +
      'item.region, item)',
    mutant:
      ';writeSlotHeader(commit.words, item.imageAt, item.region, item) ;item.acknowledged = false',
    because: 'a slot header does not say what was acknowledged',
  },
  ...[';', 'item.durable = 1'].map((mutant) => ({
    at: 'commit/commit.ts sealItem',
    line: 'item.durable = 0',
    mutant,
    because: 'every way out of a commit sets it for every record, and nobody asks before',
  })),
  {
    at: 'commit/commit.ts commitGroup',
    line: 'endLines(commit.operations) commit.dirtyLanes.fill(0)',
    mutant: ';commit.dirtyLanes.fill(0) ;endLines(commit.operations)',
    because: 'lines of the table and lanes know nothing of each other',
  },
  {
    at: 'commit/commit.ts retireLane',
    line: 'commit.dirtyLanes[lane] = 0 deriveLanes(commit)',
    mutant: ';deriveLanes(commit) ;commit.dirtyLanes[lane] = 0',
    because: 'which lanes may be used does not depend on which are to be cleared',
  },
  {
    at: 'commit/commit.ts freeLane',
    line: 'commit.dirtyLanes[lane] = 1 deriveLanes(commit)',
    mutant: ';deriveLanes(commit) ;commit.dirtyLanes[lane] = 1',
    because: 'which lanes may be used does not depend on which are to be cleared',
  },
  {
    at: 'commit/commit.ts holdLane',
    line:
      'writePhaseWord(words, word, phase, intent.sequenceLow, intent.sequenceHigh) ' +
      'copyClean(list, word, laneAddress(lane), PHASE_WORD_BYTES, owner)',
    mutant:
      ';copyClean(list, word, laneAddress(lane), PHASE_WORD_BYTES, owner) ' +
      ';writePhaseWord(words, word, phase, intent.sequenceLow, intent.sequenceHigh)',
    because: 'the one appends a command, the other writes what it copies when the list runs later',
  },
  {
    at: 'commit/commit.ts holdLane',
    line: 'const word = PHASE_WORDS_AT + lane * LINE_BYTES',
    mutant: 'const word = PHASE_WORDS_AT - lane * LINE_BYTES',
    because: 'it is composed in the line of another lane then, which whoever needs it writes again',
  },
  {
    at: 'commit/commit.ts endPending',
    line: 'lanes.takenBack[lane] = null derivePending(lanes, region)',
    mutant: ';derivePending(lanes, region) ;lanes.takenBack[lane] = null',
    because: 'what waits is counted without a look at what is taken back',
  },
  {
    at: 'commit/commit.ts derivePending',
    line: 'for (let lane = 0; lane < LANES; lane++) {',
    mutant: 'for (let lane = 0; lane <= LANES; lane++) {',
    because: 'behind the last lane there is nothing that waits',
  },
  ...['retired', 'dirty'].map((which) => ({
    at: 'commit/commit.ts resetLanes',
    line: `commit.${which}Lanes.fill(0)`,
    mutant: ';',
    because: 'a life has one start that comes here, and before it no lane is marked',
  })),
  {
    at: 'commit/commit.ts resetLanes',
    line:
      'for (let lane = 0; lane < LANES; lane++) ' +
      'if (kept[lane] !== 0) commit.retiredLanes[lane] = 1',
    mutant:
      'for (let lane = 0; lane <= LANES; lane++) ' +
      'if (kept[lane] !== 0) commit.retiredLanes[lane] = 1',
    because: 'behind the end of the array nothing is stored',
  },
  {
    at: 'commit/commit.ts assignLanes',
    line: 'if (commit.hostCount > 0) assignFrom(commit, Math.max(next, commit.hostFrom), true)',
    mutant: 'if (commit.hostCount >= 0) assignFrom(commit, Math.max(next, commit.hostFrom), true)',
    because: 'where no record lies with the host, none of them is given a lane',
  },
  {
    at: 'commit/commit.ts assignFrom',
    line: 'item.link = item.chained ? laneLinkOf(commit, i) : 0 lane += 1',
    mutant: ';lane += 1 ;item.link = item.chained ? laneLinkOf(commit, i) : 0',
    because: 'the link is found by the lanes of the items',
  },
  {
    at: 'commit/commit.ts laneLinkOf',
    line: 'return 0',
    mutant: 'return 1',
    because: 'what is chained joined the group behind the record that it follows, so that is found',
  },
  {
    at: 'commit/commit.ts compose',
    line: 'for (let stage = 0; stage < from; stage++) commit.ends[stage] = 0',
    mutant: 'for (let stage = 0; stage <= from; stage++) commit.ends[stage] = 0',
    because: 'the stage that is composed first sets its end again',
  },
  {
    at: 'commit/commit.ts composeLane',
    line:
      'writeIntent(commit.words, line, item) ' +
      'checkCode(list, line + LANE_CHECKED_AT, line + LANE_CODE_AT, LANE_CHECKED_BYTES, KEYS_AT)',
    mutant:
      ';checkCode(list, line + LANE_CHECKED_AT, line + LANE_CODE_AT, ' +
      'LANE_CHECKED_BYTES, KEYS_AT) ' +
      ';writeIntent(commit.words, line, item)',
    because: 'the one appends a command, the other writes what it reads when the list runs later',
  },
  {
    at: 'commit/commit.ts composeLane',
    line:
      'copyClean(list, line, laneAddress(item.lane), LINE_BYTES, owner) ' +
      'commit.dirtyLanes[item.lane] = 0',
    mutant:
      ';commit.dirtyLanes[item.lane] = 0 ' +
      ';copyClean(list, line, laneAddress(item.lane), LINE_BYTES, owner)',
    because: 'a store is appended without a look at what is to be cleared',
  },
  {
    at: 'medium/lane.ts writePhaseWord',
    line:
      'words[at >> 2] = phase | ((phase ^ 0xff) << 8) | (sequenceHigh << 16) ' +
      'words[(at >> 2) + PHASE_SEQUENCE] = sequenceLow',
    mutant:
      ';words[(at >> 2) + PHASE_SEQUENCE] = sequenceLow ' +
      ';words[at >> 2] = phase | ((phase ^ 0xff) << 8) | (sequenceHigh << 16)',
    because: 'they store to different words, and nothing is read in between',
  },
  ...[
    ';',
    'into.length = words[w + LENGTH]! | (2 ** LENGTH_BITS - 1)',
    'into.length = words[w - LENGTH]! & (2 ** LENGTH_BITS - 1)',
    'into.length = words[w + LENGTH]! & (2 ** LENGTH_BITS + 1)',
    'into.length = words[w + LENGTH]! & (3 ** LENGTH_BITS - 1)',
    'into.length = words[w + LENGTH]! & (2 ** LENGTH_BITS - 2)',
  ].map((mutant) => ({
    at: 'medium/lane.ts readIntent',
    line: 'into.length = words[w + LENGTH]! & (2 ** LENGTH_BITS - 1)',
    mutant,
    because: 'nobody asks for the length of an intent that was read: each slot says its own',
  })),
  ...['regionId', 'record', 'length', 'sequenceLow', 'sequenceHigh', 'wait', 'link'].map(
    (field) => ({
      at: 'medium/lane.ts blankIntent',
      line: `${field}: 0,`,
      mutant: `${field}: 1,`,
      because: 'a line is read into it, or it says whose record is unsettled, and then not this',
    }),
  ),
  ...[
    ...['magic', 'regionId', 'record', 'length', 'clientLow', 'clientHigh', 'operationLow'],
    ...['operationHigh', 'version'],
  ].map((field) => ({
    at: 'medium/slot.ts blankSlotHeader',
    line: `${field}: 0,`,
    mutant: `${field}: 1,`,
    because: 'a header is read into it, or its copy is unreadable, and nobody asks what it says',
  })),
  {
    at: 'commit/commit.ts leaveOut',
    line: 'commit.refused = true breakChain(commit, tag, stage)',
    mutant: ';breakChain(commit, tag, stage) ;commit.refused = true',
    because: 'a chain is broken without a look at the mark',
  },
  {
    at: 'commit/commit.ts leaveOut',
    line: 'item.durable = stage > STAGE_PHASE ? stage - STAGE_PHASE : 0',
    mutant: 'item.durable = stage >= STAGE_PHASE ? stage - STAGE_PHASE : 0',
    because: 'at that stage the difference is 0, too',
  },
  ...['leaveHost', 'breakChain', 'abandon'].map((within) => ({
    at: `commit/commit.ts ${within}`,
    line: 'const durable = stage > STAGE_PHASE ? stage - STAGE_PHASE : 0',
    mutant: 'const durable = stage >= STAGE_PHASE ? stage - STAGE_PHASE : 0',
    because: 'at that stage the difference is 0, too',
  })),
  ...[
    ['tag < 0', 'tag <= 0'],
    ['tag < 0', 'tag < 1'],
    ['tag > 0', 'tag >= 0'],
  ].map(([is, made]) => ({
    at: 'commit/commit.ts survive',
    line: `if (result === hal.MEDIA_ERROR && ${is}) {`,
    mutant: `if (result === hal.MEDIA_ERROR && ${made}) {`,
    because: 'what a group stores into a medium has an owner, so nobody has none here',
  })),
  {
    at: 'commit/commit.ts leaveHost',
    line: 'item.durable = durable item.acknowledged = item.wait <= durable',
    mutant: ';item.acknowledged = item.wait <= durable ;item.durable = durable',
    because: 'the level is compared with the number, not with the field',
  },
  {
    at: 'commit/commit.ts abandon',
    line: '} else doubtRecord(item)',
    mutant: '} else ;',
    because: 'the repair behind it doubts every record that was refused, before anybody is told',
  },
  {
    at: 'commit/commit.ts clearLanes',
    line: 'copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, 0) dirty[lane] = 0',
    mutant: ';dirty[lane] = 0 ;copyClean(list, ZEROS_AT, laneAddress(lane), LINE_BYTES, 0)',
    because: 'a store is appended without a look at what is to be cleared',
  },
  ...[
    'for (let i = 1; i < commit.count; i++) retireLane(commit, commit.items[i]!.lane)',
    'for (let i = 0; i < commit.count; i++) ;',
  ].map((mutant) => ({
    at: 'commit/commit.ts abandon',
    line: 'for (let i = 0; i < commit.count; i++) retireLane(commit, commit.items[i]!.lane)',
    mutant,
    because: 'a part that is closed gives no lane to anybody, and these were not to be cleared',
  })),
  {
    at: 'medium/lane.ts readIntent',
    line: 'into.regionId = words[w + REGION]! >>> 0',
    mutant: 'into.regionId = words[w + REGION]! >> 0',
    because: 'no region has an id with the upper bit, so what has it names none either way',
  },
  {
    at: 'medium/slot.ts readSlotHeader',
    line: 'into.regionId = words[w + REGION]! >>> 0',
    mutant: 'into.regionId = words[w + REGION]! >> 0',
    because: 'no region has an id with the upper bit, so what has it names none either way',
  },
  ...[
    ...['regionId', 'record', 'slot', 'length', 'sequenceLow', 'sequenceHigh', 'clientLow'],
    ...['clientHigh', 'wait', 'lane', 'durable', 'imageAt', 'owner', 'psn', 'segment'],
  ].map((field) => ({
    at: 'commit/commit.ts blankItem',
    line: `${field}: 0,`,
    mutant: `${field}: 1,`,
    because: 'who joins a group, or begins a job, is given it before anybody reads it there',
  })),
  ...[
    ['wantsAck: false,', 'wantsAck: true,'],
    ['staging: -1,', 'staging: 0,'],
    ['plain: false,', 'plain: true,'],
    ['batchIndex: -1,', 'batchIndex: 0,'],
    ['chained: false,', 'chained: true,'],
    ['failedStage: -1,', 'failedStage: 0,'],
    ['acknowledged: false,', 'acknowledged: true,'],
  ].map(([line, mutant]) => ({
    at: 'commit/commit.ts blankItem',
    line: line!,
    mutant: mutant!,
    because: 'who joins a group, or begins a job, is given it, or nobody asks a job for it',
  })),
]
