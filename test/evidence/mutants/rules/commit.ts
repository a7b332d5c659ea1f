/** The write: fences, lanes, acknowledgements, and what is written in which order (D-2, D-4). */

import { crash, type Mutant, simulate } from '../mutant.ts'

const FILE = 'firmware/commit/commit.ts'

/** Fences, and what leaves behind which. */
const FENCES: readonly Mutant[] = [
  {
    id: 'f1-dropped',
    rule: 'D-2: the lane is durable (F1) before any slot is touched',
    file: FILE,
    find: '  fence(list)\n  commit.ends[STAGE_LANES] = list.count',
    replace: '  commit.ends[STAGE_LANES] = list.count',
    killer: crash('similar 2of2'),
  },
  {
    id: 'f2-dropped',
    rule: 'D-2: copy A is durable (F2) before the lane says B',
    file: FILE,
    find: '  fence(list)\n  if (c > 0) commit.acknowledge(c + 1)',
    replace: '  if (c > 0) fence(list)\n  if (c > 0) commit.acknowledge(c + 1)',
    killer: crash('similar 1of2'),
  },
  {
    id: 'f3-dropped',
    rule: 'D-2, X-1: the phase is durable (F3) before level 1 is acknowledged and B is touched',
    file: FILE,
    find: '  fence(list)\n  commit.acknowledge(1)',
    replace: '  commit.acknowledge(1)',
    killer: crash('similar 1of2'),
  },
  {
    id: 'f4-dropped',
    rule: 'D-4: copy B is durable (F4) before level 2 is acknowledged',
    file: FILE,
    find: '  fence(list)\n  if (c > 0) commit.acknowledge(c + 1)',
    replace: '  if (c === 0) fence(list)\n  if (c > 0) commit.acknowledge(c + 1)',
    killer: crash('similar 2of2 later'),
  },
  {
    id: 'level-1-early',
    rule: 'X-1: level 1 is acknowledged behind F3, not in front of it',
    file: FILE,
    find: '  fence(list)\n  commit.acknowledge(1)',
    replace: '  commit.acknowledge(1)\n  fence(list)',
    killer: simulate('network 1-2'),
  },
  {
    id: 'level-2-early',
    rule: 'X-1: level 2 is acknowledged behind F4, not in front of it',
    file: FILE,
    find: '  fence(list)\n  if (c > 0) commit.acknowledge(c + 1)',
    replace: '  if (c > 0) commit.acknowledge(c + 1)\n  fence(list)',
    killer: crash('similar 2of2 later'),
  },
  {
    id: 'level-2-at-1',
    rule: 'D-4: a record that asks for two copies is not acknowledged with one',
    file: FILE,
    find: '  commit.acknowledge(1)\n',
    replace: '  commit.acknowledge(1)\n  commit.acknowledge(2)\n',
    killer: crash('similar 2of2 copies'),
  },
  {
    id: 'copies-together',
    rule: 'I1: at most one copy of a record has unfenced stores',
    file: FILE,
    find: '    copyClean(list, item.imageAt, to, imageBytes(item.length), i + 1)\n',
    replace:
      '    copyClean(list, item.imageAt, to, imageBytes(item.length), i + 1)\n' +
      '    if (c === 0) {\n' +
      '      const b = slotAddress(item.region, 1, item.slot)\n' +
      '      copyClean(list, item.imageAt, b, imageBytes(item.length), i + 1)\n' +
      '    }\n',
    killer: crash('similar 2of2'),
  },
  {
    id: 'b-first',
    rule: 'P1-12: copy A is written first, and copy B stays whole meanwhile',
    file: FILE,
    find: '    const to = slotAddress(item.region, c, item.slot)',
    replace: '    const to = slotAddress(item.region, c < 2 ? 1 - c : c, item.slot)',
    killer: crash('similar 2of2'),
  },
]

/** Lanes, and the order between the writes of a group. */
const LANES: readonly Mutant[] = [
  {
    id: 'no-lane',
    rule: 'D-2: every record in flight is named by a lane',
    file: FILE,
    find: '  copyClean(list, line, laneAddress(item.lane), LINE_BYTES, owner)\n',
    replace: '',
    killer: crash('similar 2of2'),
  },
  {
    id: 'lane-not-cleaned',
    rule: 'crash-model 2.1: a store without a write-back is durable behind no fence',
    file: FILE,
    find: '  copyClean(list, line, laneAddress(item.lane), LINE_BYTES, owner)',
    replace: '  copy(list, line, laneAddress(item.lane), LINE_BYTES)',
    killer: crash('similar 2of2'),
  },
  {
    id: 'phase-not-cleaned',
    rule: 'crash-model 2.1: the phase word is written back before its fence',
    file: FILE,
    find: '  copyClean(list, word, laneAddress(lane), PHASE_WORD_BYTES, owner)',
    replace: '  copy(list, word, laneAddress(lane), PHASE_WORD_BYTES)',
    killer: crash('similar 1of2'),
  },
  {
    id: 'phase-stays-a',
    rule: 'D-2: behind F3 the lane says B',
    file: FILE,
    find: 'holdLane(list, commit.words, item.lane, item, i + 1, PHASE_B)',
    replace: 'holdLane(list, commit.words, item.lane, item, i + 1, 0xa1)',
    killer: crash('similar 1of2'),
  },
  {
    id: 'lane-cleared-before-b',
    rule: 'D-2: a lane is cleared behind F4, not before copy B is written',
    file: FILE,
    find: '    holdLane(list, commit.words, item.lane, item, i + 1, PHASE_B)',
    replace: '    copyClean(list, ZEROS_AT, laneAddress(item.lane), LINE_BYTES, i + 1)',
    killer: crash('similar 1of2'),
  },
  {
    id: 'lane-of-another',
    rule: 'D-2: the records of a group have a lane each',
    file: FILE,
    find: '    item.link = item.chained ? laneLinkOf(commit, i) : 0\n    lane += 1\n',
    replace: '    item.link = item.chained ? laneLinkOf(commit, i) : 0\n',
    killer: crash('order 2of2'),
  },
  {
    id: 'twice-in-a-group',
    rule: 'I4: the next write of a record begins when this one is durable in every copy',
    file: 'firmware/engine/admit.ts',
    find: 'commit.count === commit.usableLanes || groupHolds(group, commit, region!, slot)',
    replace: 'commit.count === commit.usableLanes',
    killer: crash('twice 1of2'),
  },
  {
    id: 'no-link',
    rule: 'X-5: the lane of a record in order names the lane of the one before',
    file: FILE,
    find: 'item.link = item.chained ? laneLinkOf(commit, i) : 0',
    replace: 'item.link = 0',
    killer: crash('order 2of2'),
  },
  {
    id: 'line-before-f1',
    rule: 'X-3: an operation is not in the table before its record is durable',
    file: FILE,
    find: '  fence(list)\n  commit.ends[STAGE_LANES] = list.count',
    replace: '  composeOperations(commit)\n  fence(list)\n  commit.ends[STAGE_LANES] = list.count',
    killer: crash('similar 2of2'),
  },
  {
    id: 'no-line',
    rule: 'X-3: an operation is in the table when it is acknowledged',
    file: FILE,
    find: '  composeOperations(commit)\n  fence(list)\n',
    replace: '  fence(list)\n',
    killer: crash('similar 2of2'),
  },
]

export const COMMIT: readonly Mutant[] = [...FENCES, ...LANES]
