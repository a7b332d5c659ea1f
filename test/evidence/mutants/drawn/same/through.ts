/** The same programs of operations, receipts and jobs of the host. */

import type { Equivalent } from './equivalent.ts'

export const THROUGH: readonly Equivalent[] = [
  {
    at: 'burst/through-job.ts createThrough',
    line: 'order: 0,',
    mutant: 'order: 1,',
    because: 'orders are compared with one another, and each is one more than the last',
  },
  {
    at: 'burst/through-job.ts createThrough',
    line: 'blanked: new Float64Array(REGIONS).fill(-1),',
    mutant: 'blanked: new Float64Array(REGIONS).fill(0),',
    because: 'a start, before which nothing is served, sets all of them',
  },
  {
    at: 'placement/through.ts tellOutcome',
    line:
      'remember(qp, item.psn, item.operationHigh, item.operationLow, status, 0) ' +
      'answerRecord(state, qp, item.psn, item.operationHigh, item.operationLow, status, 0)',
    mutant:
      ';answerRecord(state, qp, item.psn, item.operationHigh, item.operationLow, status, 0) ' +
      ';remember(qp, item.psn, item.operationHigh, item.operationLow, status, 0)',
    because: 'one says it, the other keeps it for a duplicate; neither reads what the other stores',
  },
  {
    at: 'burst/through-job.ts createJob',
    line: 'copy: 0,',
    mutant: 'copy: 1,',
    because: 'a job is given its first copy when it is taken; a free one is not asked',
  },
  {
    at: 'engine/receipt.ts rememberGroup',
    line: 'if (state.batches.joinedCount > 0) endBatches(state)',
    mutant: 'if (state.batches.joinedCount >= 0) endBatches(state)',
    because: 'where no batch has joined there is none to end, and nothing else is done',
  },
  {
    at: 'burst/through-job.ts',
    line: 'export const ENDED = 6',
    mutant: 'export const ENDED = 7',
    because: 'states are told apart by their names, and no other one has that number',
  },
  ...[
    ...[
      ['stored: 0,', 'stored: 1,'],
      ['begun: 0,', 'begun: 1,'],
      ['asked: 0,', 'asked: 1,'],
      ['request: 0,', 'request: 1,'],
      ['phase: 0,', 'phase: 1,'],
      ['kept: false,', 'kept: true,'],
      ['slot: 0,', 'slot: 1,'],
      ['sinceUs: -1,', 'sinceUs: 0,'],
      ['told: false,', 'told: true,'],
      ['known: false,', 'known: true,'],
      ['hidden: 0,', 'hidden: 1,'],
      ['order: 0,', 'order: 1,'],
    ],
  ].map(([line, mutant]) => ({
    at: 'burst/through-job.ts createJob',
    line: line!,
    mutant: mutant!,
    because: 'who begins a job sets it before anybody reads it; a free one speaks of no region',
  })),
  {
    at: 'placement/through-store.ts',
    line: 'export const REFUSED = 3',
    mutant: 'export const REFUSED = 4',
    because: 'outcomes are told apart by their names, and no other one has that number',
  },
  {
    at: 'placement/through-store.ts storeCopy',
    line: 'if (failed < 0) return resultOf(list, found) === EQUAL ? STORED : LATER',
    mutant: 'if (failed <= 0) return resultOf(list, found) === EQUAL ? STORED : LATER',
    because:
      'the first command is a posted write, which does not fail but in a card without ' + 'power',
  },
  {
    at: 'placement/through-store.ts storeCopy',
    line: 'if (failed < 0) return resultOf(list, found) === EQUAL ? STORED : LATER',
    mutant: 'if (failed < 1) return resultOf(list, found) === EQUAL ? STORED : LATER',
    because:
      'the first command is a posted write, which does not fail but in a card without ' + 'power',
  },
  {
    at: 'placement/through-store.ts repairAgain',
    line:
      'job.hidden = Math.max(job.hidden, hiddenCopies(phase, outcome, false)) job.kept = ' +
      'recovery.trusted && kept >= 0 && isOfLane(state, job, kept)',
    mutant:
      ';job.kept = recovery.trusted && kept >= 0 && isOfLane(state, job, kept) ;job.hidden ' +
      '= Math.max(job.hidden, hiddenCopies(phase, outcome, false))',
    because: 'they store to different fields, and neither reads the other',
  },
  {
    at: 'placement/through-store.ts repairAgain',
    line: 'forgetOperation(state.commit.operations, intent!)',
    mutant: ';',
    because:
      'what is older was forgotten, durably, before it was repaired; a failure returns ' + 'above',
  },
  {
    at: 'placement/through-store.ts isFormatted',
    line: 'for (let c = 0; c < region.copies; c++) {',
    mutant: 'for (let c = 1; c < region.copies; c++) {',
    because:
      'a copy that is not valid is not the same as the next one, which is; there are two ' +
      'at the least',
  },
  {
    at: 'placement/through-store.ts isFormatted',
    line: 'if (c > 0 && !copiesSame(list, examination, region, slot, 0, c)) return false',
    mutant: 'if (c >= 0 && !copiesSame(list, examination, region, slot, 0, c)) return false',
    because: 'a copy that has just been read is the same as itself',
  },
  {
    at: 'burst/through-job.ts',
    line: 'export const STUCK = 3',
    mutant: 'export const STUCK = 4',
    because: 'marks are told apart by their names, and no other one has that number',
  },
  {
    at: 'placement/through.ts',
    line: 'const OWN_LANE = 1',
    mutant: 'const OWN_LANE = 2',
    because: 'owners are compared with it by its name; the others are 0 or below',
  },
  {
    at: 'burst/through-job.ts createThrough',
    line: 'for (let i = 0; i < THROUGH_JOBS; i++) jobs.push(createJob(i, anyRegion))',
    mutant: 'for (let i = 0; i <= THROUGH_JOBS; i++) jobs.push(createJob(i, anyRegion))',
    because: 'a job more is never taken, and stays free',
  },
  ...['address', 'length', 'psn', 'queuePair', 'operationHigh', 'operationLow'].map((field) => ({
    at: 'burst/through-job.ts createThrough',
    line: `${field}: 0,`,
    mutant: `${field}: 1,`,
    because: 'who asks the agent sets all of the request before',
  })),
  {
    at: 'burst/through-job.ts createThrough',
    line: 'live: false,',
    mutant: 'live: true,',
    because: 'the first pass finds no job and no agent, and sets it',
  },
  {
    at: 'placement/through.ts acceptThrough',
    line:
      'fillItem(item, qp, ask) item.client = ask.batch ? collectedClientOf(state, qp, ask) : ' +
      'clientOf(state, qp, ask)',
    mutant:
      ';item.client = ask.batch ? collectedClientOf(state, qp, ask) : clientOf(state, qp, ask) ' +
      ';fillItem(item, qp, ask)',
    because: 'the place of a client is found without a look at the item',
  },
  {
    at: 'placement/through.ts acceptThrough',
    line:
      'job.known = isDurable(operations, item.client, item.operationHigh, ' +
      'item.operationLow) job.qp = qp',
    mutant:
      ';job.qp = qp ;job.known = isDurable(operations, item.client, item.operationHigh, ' +
      'item.operationLow)',
    because: 'the table is asked without a look at the queue pair of the job',
  },
  {
    at: 'placement/through.ts acceptThrough',
    line: 'job.told = false beginJob(state.through, job, WAITING)',
    mutant: ';beginJob(state.through, job, WAITING) ;job.told = false',
    because: 'neither touches what the other sets',
  },
  {
    at: 'placement/through.ts isPassing',
    line: 'if (stands === FREE || stands === ENDED || told) continue',
    mutant: 'if (stands === FREE && stands === ENDED || told) continue',
    because: 'who is free, or has ended, was told before, or has no queue pair',
  },
  {
    at: 'placement/through.ts beginJob',
    line: 'through.order += 1 job.order = through.order',
    mutant: ';job.order = through.order ;through.order += 1',
    because: 'orders are compared with one another, and each is one more than the last',
  },
  {
    at: 'placement/through.ts beginJob',
    line: 'through.order += 1',
    mutant: 'through.order += 2',
    because: 'orders are compared with one another, and each is more than the last',
  },
  {
    at: 'placement/through.ts beginJob',
    line: 'through.live = true',
    mutant: ';',
    because:
      'a pass sees every job itself while there is an agent; without one all are told ' + 'already',
  },
  {
    at: 'placement/through.ts beginJob',
    line: 'through.live = true',
    mutant: 'through.live = false',
    because:
      'a pass sees every job itself while there is an agent; without one all are told ' + 'already',
  },
  ...['stored', 'begun', 'asked'].map((field) => ({
    at: 'placement/through.ts beginJob',
    line: `job.${field} = 0`,
    mutant: `job.${field} = 1`,
    because: 'the first life ends with the start, so no agent has it',
  })),
  {
    at: 'placement/through.ts beginJob',
    line: 'job.hidden = 0',
    mutant: ';',
    because:
      'a job that is free hides nothing: the last bell, and the end of its region, see to ' +
      'that',
  },
  {
    at: 'placement/through.ts serveThrough',
    line: 'through.live = false',
    mutant: ';',
    because: 'it saves a look at jobs, where there are none',
  },
  {
    at: 'placement/through.ts serveThrough',
    line: 'through.live = false',
    mutant: 'through.live = true',
    because: 'it saves a look at jobs, where there are none',
  },
  {
    at: 'placement/through.ts serveThrough',
    line: 'if (state.list.count > 0) run(state.list)',
    mutant: 'if (state.list.count >= 0) run(state.list)',
    because: 'a list of no commands does nothing',
  },
  {
    at: 'placement/through.ts headOf',
    line: 'if (other.order < head.order) head = other',
    mutant: 'if (other.order <= head.order) head = other',
    because: 'no two jobs have the same order',
  },
  {
    at: 'placement/through.ts startJob',
    line: 'tellOutcome(state, job, PASS) job.state = FREE',
    mutant: ';job.state = FREE ;tellOutcome(state, job, PASS)',
    because: 'who tells the outcome does not ask where the job stands',
  },
  {
    at: 'placement/through.ts startJob',
    line: 'if (failed < 0) {',
    mutant: 'if (failed <= 0) {',
    because:
      'the first command works in packet memory, and does not fail but in a card without ' +
      'power',
  },
  {
    at: 'placement/through.ts startJob',
    line: 'if (failed < 0) {',
    mutant: 'if (failed < 1) {',
    because:
      'the first command works in packet memory, and does not fail but in a card without ' +
      'power',
  },
  {
    at: 'placement/through.ts startJob',
    line: 'commit.dirtyLanes.fill(0)',
    mutant: ';',
    because: 'a free lane that is clear is cleared once more',
  },
  {
    at: 'placement/through.ts startFailed',
    line: 'tellOutcome(state, job, commit.closed) endJob(state, job)',
    mutant: ';endJob(state, job) ;tellOutcome(state, job, commit.closed)',
    because: 'who tells the outcome does not ask where the job stands',
  },
  {
    at: 'placement/through.ts startFailed',
    line: 'tellOutcome(state, job, MEDIA) endJob(state, job)',
    mutant: ';endJob(state, job) ;tellOutcome(state, job, MEDIA)',
    because: 'who tells the outcome does not ask where the job stands',
  },
  {
    at: 'placement/through.ts endJob',
    line: 'retireLane(state.commit, job.item.lane) job.state = ENDED',
    mutant: ';job.state = ENDED ;retireLane(state.commit, job.item.lane)',
    because: 'they store to different fields, and neither reads the other',
  },
  {
    at: 'placement/through.ts endJob',
    line: 'retireLane(state.commit, job.item.lane)',
    mutant: ';',
    because: 'groups have other lanes, this one is not dirty, and the start makes its marks again',
  },
  {
    at: 'placement/through.ts goOnWith',
    line: 'job.asked = 0',
    mutant: 'job.asked = 1',
    because: 'the first life ends with the start, so no agent has it',
  },
  {
    at: 'placement/through.ts goOnWith',
    line: 'if (job.state === FIRST || job.state === FURTHER) job.stored = 0',
    mutant: 'if (job.state === FIRST || job.state === FURTHER) job.stored = 1',
    because: 'the first life ends with the start, so no agent has it',
  },
  {
    at: 'placement/through.ts askWriteBack',
    line: 'job.request = agent.asked job.asked = agent.life',
    mutant: ';job.asked = agent.life ;job.request = agent.asked',
    because: 'they store to different fields, from what neither changes',
  },
  {
    at: 'placement/through.ts furtherDone',
    line:
      'item.client = takeClient(operations, item.client, item.clientHigh, item.clientLow) ' +
      'beginLines(operations)',
    mutant:
      ';beginLines(operations) ;item.client = takeClient(operations, item.client, ' +
      'item.clientHigh, item.clientLow)',
    because: 'the place of a client is found without a look at the lines of a group',
  },
  {
    at: 'placement/through.ts furtherDone',
    line: 'endLines(operations) noteKnown(state.through.jobs, item)',
    mutant: ';noteKnown(state.through.jobs, item) ;endLines(operations)',
    because: 'jobs are marked without a look at the table',
  },
  {
    at: 'placement/through.ts furtherFailed',
    line: 'commit.closed = closedBy(resultOf(list, failed)) tellOutcome(state, job, IN_DOUBT)',
    mutant: ';tellOutcome(state, job, IN_DOUBT) ;commit.closed = closedBy(resultOf(list, failed))',
    because: 'who tells the outcome does not ask whether the part is closed, nor runs the list',
  },
  {
    at: 'placement/through.ts furtherFailed',
    line: 'tellOutcome(state, job, IN_DOUBT) endJob(state, job)',
    mutant: ';endJob(state, job) ;tellOutcome(state, job, IN_DOUBT)',
    because: 'who tells the outcome does not ask where the job stands',
  },
  {
    at: 'placement/through.ts furtherFailed',
    line: 'if (resultOf(list, failed) === MEDIA_ERROR && client !== NO_CLIENT) {',
    mutant: 'if (resultOf(list, failed) === MEDIA_ERROR || client !== NO_CLIENT) {',
    because: 'of this list the medium refuses lines of clients alone, and these fail by it alone',
  },
  {
    at: 'placement/through.ts repairDone',
    line: 'commit.retiredLanes[lane] = 0',
    mutant: ';',
    because: 'groups have other lanes, and the start makes its marks again',
  },
  {
    at: 'placement/through.ts repairDone',
    line: 'commit.retiredLanes[lane] = 0',
    mutant: 'commit.retiredLanes[lane] = 1',
    because: 'groups have other lanes, and the start makes its marks again',
  },
  {
    at: 'placement/through.ts noteRepaired',
    line: 'commit.closed = closedBy(result) endJob(state, job)',
    mutant: ';endJob(state, job) ;commit.closed = closedBy(result)',
    because: 'they store to different fields, and neither reads the other',
  },
  {
    at: 'placement/through.ts formDone',
    line: 'job.state = FREE run(state.list)',
    mutant: ';run(state.list) ;job.state = FREE',
    because: 'the list is run without a look at the jobs',
  },
  {
    at: 'placement/through.ts formRegions',
    line: 'for (let i = 0; i < REGIONS; i++) {',
    mutant: 'for (let i = 0; i <= REGIONS; i++) {',
    because: 'behind the last region there is none, and nothing is due',
  },
  {
    at: 'placement/through.ts formRegions',
    line: 'job.told = true beginJob(through, job, FORM)',
    mutant: ';beginJob(through, job, FORM) ;job.told = true',
    because: 'neither touches what the other sets',
  },
  {
    at: 'placement/through.ts formRegions',
    line: 'job.item.slot = 0',
    mutant: ';',
    because: 'of a job for a region nobody asks for the record',
  },
  {
    at: 'placement/through.ts formRegions',
    line: 'job.item.slot = 0',
    mutant: 'job.item.slot = 1',
    because: 'of a job for a region nobody asks for the record',
  },
  {
    at: 'placement/through.ts markUnflushed',
    line:
      'unflushed[region.index] = DUE storedIn[region.index] = agent.attached ? agent.life ' + ': 0',
    mutant:
      ';storedIn[region.index] = agent.attached ? agent.life : 0 ;unflushed[region.index] ' +
      '= DUE',
    because: 'they store to different arrays, and neither reads the other',
  },
  {
    at: 'placement/through.ts markUnflushed',
    line: 'storedIn[region.index] = agent.attached ? agent.life : 0',
    mutant: 'storedIn[region.index] = agent.attached ? agent.life : 1',
    because: 'the first life ends with the start, so no agent has it',
  },
  {
    at: 'placement/through.ts markBlanked',
    line: 'markUnflushed(state, region) state.through.blanked[region.index] = record',
    mutant: ';state.through.blanked[region.index] = record ;markUnflushed(state, region)',
    because: 'neither touches what the other sets',
  },
  {
    at: 'placement/through.ts endThrough',
    line: 'commit.retiredLanes[job.item.lane] = 0',
    mutant: ';',
    because: 'groups have other lanes, and the start makes its marks again',
  },
  {
    at: 'placement/through.ts endThrough',
    line: 'commit.retiredLanes[job.item.lane] = 0',
    mutant: 'commit.retiredLanes[job.item.lane] = 1',
    because: 'groups have other lanes, and the start makes its marks again',
  },
  {
    at: 'placement/through.ts resetThrough',
    line: 'endAgent(through.agent) through.blanked.fill(-1)',
    mutant: ';through.blanked.fill(-1) ;endAgent(through.agent)',
    because: 'neither touches what the other sets',
  },
  {
    at: 'placement/through.ts resetThrough',
    line: 'endAgent(through.agent)',
    mutant: ';',
    because: 'no agent is attached before the start, and who attaches ends the life before',
  },
  {
    at: 'placement/through.ts resetThrough',
    line: 'through.blanked.fill(-1)',
    mutant: ';',
    because: 'they are so since they were made, and nothing is given up before the start',
  },
  {
    at: 'placement/through.ts resumeLane',
    line: 'job.item.slot = intent.record job.intent = intent',
    mutant: ';job.intent = intent ;job.item.slot = intent.record',
    because: 'they store to different fields, and neither reads the other',
  },
  {
    at: 'placement/through.ts resumeLane',
    line: 'job.told = true beginJob(state.through, job, REPAIR)',
    mutant: ';beginJob(state.through, job, REPAIR) ;job.told = true',
    because: 'neither touches what the other sets',
  },
  {
    at: 'placement/through.ts timeThrough',
    line: 'if (state.list.count > 0) run(state.list)',
    mutant: 'if (state.list.count >= 0) run(state.list)',
    because: 'the pass over the jobs behind it, in the same call, runs what is left of the list',
  },
  {
    at: 'placement/through.ts timeThrough',
    line: 'if (state.list.count > 0) run(state.list)',
    mutant: 'if (state.list.count > 1) run(state.list)',
    because: 'the pass over the jobs behind it, in the same call, runs what is left of the list',
  },
  {
    at: 'placement/through.ts timeThrough',
    line: 'if (state.list.count > 0) run(state.list)',
    mutant: 'if (state.list.count > 0) ;',
    because: 'the pass over the jobs behind it, in the same call, runs what is left of the list',
  },
  {
    at: 'placement/through.ts detachAgent',
    line:
      'endAgent(agent) // What it was to write back may never have been: that record is ' +
      'still lost. blanked.fill(-1)',
    mutant:
      ';blanked.fill(-1) // What it was to write back may never have been: that record is ' +
      'still lost. ;endAgent(agent)',
    because: 'neither touches what the other sets',
  },
  {
    at: 'placement/through.ts repeatRequests',
    line: 'for (let i = 0; i < REGIONS; i++) if (unflushed[i] === STUCK) unflushed[i] = DUE',
    mutant: 'for (let i = 0; i <= REGIONS; i++) if (unflushed[i] === STUCK) unflushed[i] = DUE',
    because: 'behind the last region there is none, and nothing is stuck',
  },
  {
    at: 'placement/through-store.ts restartCopies',
    line: 'const result = resultOf(list, failed < 0 ? found : failed)',
    mutant: 'const result = resultOf(list, failed <= 0 ? found : failed)',
    because: 'what fails first is the comparison: before it stand posted writes, if anything does',
  },
]
