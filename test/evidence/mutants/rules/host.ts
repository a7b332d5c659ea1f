/** The host: its memory, in which records may lie, and its queues, which may hold anything. */

import { directed, type Mutant } from '../mutant.ts'

const CHECK = 'firmware/host/element-check.ts'
const COMPLETION = 'firmware/host/completion.ts'
const CONTEXT = 'firmware/host/context.ts'
const LIST = 'firmware/board/command-list.ts'
const MEMORY = 'firmware/host/memory-regions.ts'
const PASS_FILE = 'firmware/queues/pass.ts'
const THROUGH = 'firmware/placement/through.ts'

const HOST_MEMORY: readonly Mutant[] = [
  {
    id: 'no-dma-read',
    rule: 'P2-13: a DMA read behind the writes pushes them past the caches',
    file: LIST,
    find: '  if (list.posted !== 0) {\n    const read',
    replace: '  if (list.posted < 0) {\n    const read',
    killer: directed('past the caches'),
  },
  {
    id: 'through-without-the-agent',
    rule: 'P2-24: through the caches, an answer leaves behind the bell of the agent',
    file: 'firmware/placement/flush-agent.ts',
    find: '  return agent.attached && reached(agent.finished, number)\n',
    replace: '  return agent.attached && reached(agent.asked, number)\n',
    killer: directed('through the caches'),
  },
  {
    id: 'through-level-1-early',
    rule: 'P2-24: through the caches, level 1 is acknowledged behind the fence of the phase',
    file: THROUGH,
    find: '  fenceOwn(list)\n  const due = item.wait === 1\n  if (due) answerDurable(state, job)\n',
    replace:
      '  const due = item.wait === 1\n  if (due) answerDurable(state, job)\n  fenceOwn(list)\n',
    killer: directed('through the caches, level 1'),
  },
  {
    id: 'through-without-a-lane',
    rule: 'D-2: through the caches, too, a lane names what is in flight',
    file: 'firmware/commit/commit.ts',
    find: '  copyClean(list, line, laneAddress(item.lane), LINE_BYTES, owner)\n',
    replace:
      '  const own = item.lane < BURST_FRAMES\n' +
      '  if (own) copyClean(list, line, laneAddress(item.lane), LINE_BYTES, owner)\n',
    killer: directed('through the caches'),
  },
  {
    id: 'stored-in-an-earlier-life',
    rule: 'R1-C1: no bell speaks for what was stored in front of an earlier agent',
    file: THROUGH,
    find: '  if (job.stored !== agent.life) {\n',
    replace: '  if (job.stored === 0) {\n',
    killer: directed('a host that restarts'),
  },
  {
    id: 'stored-as-it-was-sent',
    rule: 'R1-C3: a copy is read behind its write before the agent is asked',
    file: 'firmware/placement/through-store.ts',
    find: '  if (failed < 0) return resultOf(list, found) === EQUAL ? STORED : LATER\n',
    replace: '  if (failed < 0) return found > 0 ? STORED : LATER\n',
    killer: directed('a write that is lost'),
  },
  {
    id: 'known-before-the-bells',
    rule: 'R1-C9: an operation is known behind the bells for as many copies as it asked for',
    file: THROUGH,
    find: '  const known = durable === Math.max(2, item.wait)\n',
    replace: '  const known = durable === 2\n',
    killer: directed('a question before the bells'),
  },
  {
    id: 'proof-outlives-the-host',
    rule: 'R1-C2: what a host has shown ends with its link and its epoch',
    file: 'firmware/queues/host.ts',
    find: '  if (!isOver && !isAnew) return\n  host.gone = true\n  loseHost(state)\n',
    replace: '  if (!isOver && !isAnew) return\n  host.gone = true\n',
    killer: directed('another host'),
  },
  {
    id: 'push-closes-the-part',
    rule: 'R1-A1: a push that fails concerns the host alone',
    file: 'firmware/burst/burst.ts',
    find: '    if (isPush(list, at)) pushed = false\n    else if (isFence(list, at)) closeAt',
    replace: '    if (isPush(list, at) || isFence(list, at)) closeAt',
    killer: directed('a host that is away'),
  },
  {
    id: 'host-takes-the-group-along',
    rule: 'R1-A1: of a group, only the records that lie with the host are in doubt',
    file: 'firmware/commit/commit.ts',
    find: '  if (isPush(commit.list, index)) {\n',
    replace: '  if (index < 0) {\n',
    killer: directed('a host that is away'),
  },
  {
    id: 'unanswered-lane-goes',
    rule: 'R1-A2: the lane of a record that the host did not answer for stays',
    file: 'firmware/commit/recovery.ts',
    find: '  recovery.keptLanes[lane] = 1\n  leavePending(',
    replace: '  leavePending(',
    killer: directed('a start without its host'),
  },
  {
    id: 'unproven-is-written',
    rule: 'P2-12: nothing is written to a placement that was not shown',
    file: 'firmware/commit/proof.ts',
    find: 'if (wanted === PLACEMENT_LOCAL || wanted === proof.proven) return PASS',
    replace: 'if (wanted < 3) return PASS',
    killer: directed('an unproven placement'),
  },
]

const ELEMENTS: readonly Mutant[] = [
  {
    id: 'stamp-unchecked',
    rule: 'H2: an element counts only with the stamp of its lap, at both ends',
    file: CHECK,
    find:
      'if (words[w] !== stamp || words[w + (wqe.WQE_STAMP_AGAIN >> 2)] !== stamp) return ' +
      'ELEMENT_FORM',
    replace: 'if (words[w] === 0 && stamp === 0) return ELEMENT_FORM',
    killer: directed('a stale element'),
  },
  {
    id: 'stamp-half-checked',
    rule: 'H2: an element of which only the first part was stored is none',
    file: CHECK,
    find:
      'if (words[w] !== stamp || words[w + (wqe.WQE_STAMP_AGAIN >> 2)] !== stamp) return ' +
      'ELEMENT_FORM',
    replace: 'if (words[w] !== stamp) return ELEMENT_FORM',
    killer: directed('a stale element'),
  },
  {
    id: 'sum-unchecked',
    rule: 'H2: the lengths in an element add up',
    file: CHECK,
    find: '  return sum === length ? PASS : ELEMENT_LENGTH\n',
    replace: '  return sum >= 0 ? PASS : ELEMENT_LENGTH\n',
    killer: directed('memory of others'),
  },
  {
    id: 'local-key-by-its-place',
    rule: 'H2: a local key is compared whole',
    file: MEMORY,
    find: '  if (key === 0 || regions.keys[place] !== key) return MEMORY_KEY\n  if',
    replace: '  if (key === 0 || regions.keys[place] === 0) return MEMORY_KEY\n  if',
    killer: directed('memory of others'),
  },
  {
    id: 'local-key-of-any-domain',
    rule: 'H2: queue and memory are of one protection domain',
    file: MEMORY,
    find: '  if (regions.domains[place] !== domain) return MEMORY_KEY\n',
    replace: '',
    killer: directed('memory of others'),
  },
  {
    id: 'local-range-one-more',
    rule: 'H2: a range ends with its memory region',
    file: MEMORY,
    find: 'return offset >= 0 && length <= bytes && offset <= bytes - length ? PASS : MEMORY_KEY',
    replace:
      'return offset >= 0 && length <= bytes && offset <= bytes - length + 1 ? PASS : MEMORY_KEY',
    killer: directed('memory of others'),
  },
  {
    id: 'local-range-before',
    rule: 'H2: a range begins in its memory region',
    file: MEMORY,
    find: 'return offset >= 0 && length <= bytes &&',
    replace: 'return length <= bytes &&',
    killer: directed('memory of others'),
  },
]

const QUEUES: readonly Mutant[] = [
  {
    id: 'completion-early',
    rule: 'X-1: a record of the host completes when it is durable at its level',
    file: 'firmware/engine/record-end.ts',
    find: '  if (record.level !== copies || (record.flags & el.SIGNALED) === 0) return\n',
    replace: '  if (copies !== 1 || (record.flags & el.SIGNALED) === 0) return\n',
    killer: directed('a record of the host'),
  },
  {
    id: 'pointer-beyond-the-ring',
    rule: 'H1, H3: a pointer further ahead than the ring is deep is not believed',
    file: CONTEXT,
    find: '  return distance > depthOf(host, place) ? QUEUE_POINTER : PASS\n',
    replace: '  return distance < 0 ? QUEUE_POINTER : PASS\n',
    killer: directed('a pointer beyond the ring'),
  },
  {
    id: 'pointer-one-beyond',
    rule: 'H3: a ring holds as many units as it is deep',
    file: CONTEXT,
    find: '  return distance > depthOf(host, place) ? QUEUE_POINTER : PASS\n',
    replace: '  return distance > depthOf(host, place) + 1 ? QUEUE_POINTER : PASS\n',
    killer: directed('a pointer beyond the ring'),
  },
  {
    id: 'completion-overwritten',
    rule: 'N21: a completion that the host has not taken is not overwritten',
    file: COMPLETION,
    find: '  if (taken + reserved >= depthOf(host, place)) return false\n',
    replace: '  if (taken + reserved >= 2 * depthOf(host, place)) return false\n',
    killer: directed('a full completion queue'),
  },
  {
    id: 'completion-one-more',
    rule: 'N21: a completion queue has room for as many entries as it is deep',
    file: COMPLETION,
    find: '  if (taken + reserved >= depthOf(host, place)) return false\n',
    replace: '  if (taken + reserved > depthOf(host, place)) return false\n',
    killer: directed('a full completion queue'),
  },
  {
    id: 'completion-stamp',
    rule: 'P3-27: an entry has the stamp of its place and lap, which wraps',
    file: COMPLETION,
    find: '  words[w + (cqe.CQE_STAMP_AGAIN >> 2)] = number + 1\n',
    replace: '  words[w + (cqe.CQE_STAMP_AGAIN >> 2)] = Math.min(number + 1, 2 ** 32 - 1)\n',
    killer: directed('laps of a ring'),
  },
  {
    id: 'doorbell-believed',
    rule: 'P3-14: the write pointer is read from memory, and never taken from a doorbell',
    file: PASS_FILE,
    find:
      '  const stored = ahead(farPointerOf(host, place), pointerOf(host, place))\n' +
      '  return stored < FETCH_UNITS ? stored : FETCH_UNITS\n',
    replace:
      '  const stored = ahead(farPointerOf(host, place), pointerOf(host, place)) + 1\n' +
      '  return stored < FETCH_UNITS ? stored : FETCH_UNITS\n',
    killer: directed('a doorbell ahead'),
  },
  {
    id: 'trusted-torn',
    rule: 'S1-M8: the pointer of a doorbell is used only with the tag that was made for it',
    file: 'firmware/host/doorbell.ts',
    find: '  const fits = isTaggedFor(low, pointer, host.epoch)\n',
    replace: '  const fits = isTaggedFor(low, pointer, host.epoch) || true\n',
    killer: directed('a trusted doorbell, torn'),
  },
  {
    id: 'trusted-alone',
    rule: 'S1-M8: what else has a queue looked at has its pointer read from memory',
    file: 'firmware/host/pending.ts',
    find: '  marks[queue]! &= ~TRUSTED\n  if ((marks[queue]! & STANDS) !== 0) {\n',
    replace: '  if ((marks[queue]! & STANDS) !== 0) {\n',
    killer: directed('a trusted doorbell, lost'),
  },
  {
    id: 'trusted-early',
    rule: 'S1-M8: an element up to a trusted pointer that is not there ends nothing',
    file: PASS_FILE,
    find: '  if (fault !== PASS && pass.trusted[i] === 1) return AGAIN\n',
    replace: '',
    killer: directed('a trusted doorbell, early'),
  },
]

export const HOST: readonly Mutant[] = [...HOST_MEMORY, ...ELEMENTS, ...QUEUES]
