/** Operations are named permanently (D-6, X-3), and the superblock that says what the part is. */

import { crash, directed, type Mutant } from '../mutant.ts'

const LINE = 'firmware/medium/operation-line.ts'
const OPERATION = 'firmware/engine/operation.ts'
const OPERATIONS = 'firmware/commit/operations.ts'
const SUPERBLOCK = 'firmware/medium/superblock.ts'

/** One line of the table. */
const LINES: readonly Mutant[] = [
  {
    id: 'one-line-each',
    rule: 'X-3: a client has two lines, one behind the other: one is whole at every cut',
    file: OPERATIONS,
    find: '    storeLine(list, client, composedAt(client), 1 - o.next[client]!)\n',
    replace: '    storeLine(list, client, composedAt(client), o.next[client]!)\n',
    killer: crash('similar 2of2 table'),
  },
  {
    id: 'older-line',
    rule: 'X-3: of two whole lines of a client the newer one counts',
    file: OPERATIONS,
    find: '  if (b > a) copyLine(words, second, image)\n',
    replace: '  if (b !== 0 && (a === 0 || b < a)) copyLine(words, second, image)\n',
    killer: crash('similar 2of2'),
  },
  {
    id: 'torn-line-counts',
    rule: 'X-3: a line of the table that is torn counts as absent',
    file: OPERATIONS,
    find: 'const whole = resultOf(list, index) === EQUAL && sequence < SEQUENCES',
    replace: 'const whole = sequence < SEQUENCES',
    killer: directed('a line that decays'),
  },
  {
    id: 'line-not-cleaned',
    rule: 'crash-model 2.1: the line of a client is written back before F4',
    file: OPERATIONS,
    find: '  return copyClean(list, from, to, LINE_BYTES, FIRST_OWNER - client)\n',
    replace: '  return copy(list, from, to, LINE_BYTES)\n',
    killer: crash('similar 2of2'),
  },
  {
    id: 'void-lines-count',
    rule: 'D-14: after a save that failed no line of before counts',
    file: OPERATIONS,
    find: 'if (!whole || sequence <= floor) setLineSequence(words, w, 0)',
    replace: 'if (!whole) setLineSequence(words, w, 0)',
    killer: directed('a save that failed'),
  },
  {
    id: 'line-sequence-split',
    rule: 'H10: the sequence of a line is split at 2^32, into two words',
    file: LINE,
    find: '  words[w + SEQUENCE + 1] = Math.floor(sequence / HIGH_UNIT)',
    replace: '  words[w + SEQUENCE + 1] = sequence >> 31',
    killer: directed('a save that failed'),
  },
  {
    id: 'window-of-129',
    rule: 'D-6: the bitmap names 128 operations, not one more',
    file: LINE,
    find: '  if (behind >= OPERATION_WINDOW) return behind - OPERATION_WINDOW < below(words, w)\n',
    replace:
      '  if (behind > OPERATION_WINDOW) return behind - OPERATION_WINDOW < below(words, w)\n',
    killer: directed('operations from 1'),
  },
  {
    id: 'older-than-the-window',
    rule: 'D-6: an operation that is older than the bitmap is not recorded in it',
    file: LINE,
    find: '  if (distance <= -OPERATION_WINDOW) return\n',
    replace: '',
    killer: directed('operations from 1'),
  },
  {
    id: 'gap-is-durable',
    rule: 'D-6: an operation that was passed over is not durable when it leaves the bitmap',
    file: LINE,
    find:
      '      words[w + BELOW] = 0\n' +
      '      words[w + BELOW + 1] = marks & ~BELOW_MASK\n' +
      '      words[at] = was | bit\n',
    replace: '      words[at] = was | bit\n',
    killer: directed('operations from 1'),
  },
  {
    id: 'gap-stays-set',
    rule: 'D-6: the bit of the operation that leaves is cleared for the one that comes',
    file: LINE,
    find: '      words[at]! &= ~bit\n',
    replace: '',
    killer: directed('operations from 1'),
  },
  {
    id: 'operation-signed',
    rule: 'H10: operations are compared as unsigned numbers',
    file: LINE,
    find: '  return highs * HIGH_UNIT + ((low >>> 0) - (words[w + NEWEST]! >>> 0))',
    replace: '  return highs * HIGH_UNIT + (low - words[w + NEWEST]!)',
    killer: directed('operations at half a word'),
  },
  {
    id: 'operation-low-word',
    rule: 'D-6: an operation has 64 bits',
    file: LINE,
    find: '  return highs * HIGH_UNIT + ((low >>> 0) - (words[w + NEWEST]! >>> 0))',
    replace: '  return highs * 0 + ((low >>> 0) - (words[w + NEWEST]! >>> 0))',
    killer: directed('operations at the end of a word'),
  },
]

/** Who has a place in the table, and what is asked of it. */
const CLIENTS: readonly Mutant[] = [
  {
    id: 'member-evicted',
    rule: 'D-6: a client of the group in composition keeps its place',
    file: OPERATIONS,
    find: 'if (oldest === NO_CLIENT || o.used[c]! < o.used[oldest]!) oldest = c',
    replace: 'if (oldest === NO_CLIENT || o.used[c]! > o.used[oldest]!) oldest = c',
    killer: directed('a crowd of clients'),
  },
  {
    id: 'client-low-word',
    rule: 'D-6: what one client did is not known of another one',
    file: LINE,
    find: '  return words[w + CLIENT] === (low | 0) && words[w + CLIENT + 1] === (high | 0)',
    replace: '  return (words[w + CLIENT]! & 63) === (low & 63)',
    killer: directed('a crowd of clients'),
  },
  {
    id: 'repetition-executed',
    rule: 'X-3: an operation that is durable is acknowledged again and not executed',
    file: OPERATION,
    find:
      'if (!writing && isDurable(operations, party.client, operationHigh, operationLow)) return ' +
      'true',
    replace: 'if (writing) return true',
    killer: directed('an operation again'),
  },
  {
    id: 'newest-is-new',
    rule: 'X-3: the newest operation, sent again, is not a new one',
    file: OPERATIONS,
    find: 'if (high !== latestHigh ? high < latestHigh : low <= o.latestLow[hint]!) return false',
    replace: 'if (high !== latestHigh ? high < latestHigh : low < o.latestLow[hint]!) return false',
    killer: directed('an operation again'),
  },
  {
    id: 'known-of-nobody',
    rule: 'G2-3: a query is answered "durable" only of what the table knows',
    file: 'firmware/respond/query.ts',
    find: '  const known = !batch && isKnown(state, qp, operationHigh, operationLow)\n',
    replace:
      '  const newest = isKnown(state, qp, operationHigh, operationLow - 1)\n' +
      '  const known = !batch && (newest || isKnown(state, qp, operationHigh, operationLow))\n',
    killer: directed('operations from 1'),
  },
]

const PAGES: readonly Mutant[] = [
  {
    id: 'sequence-of-one-life',
    rule: 'D-3: the incarnation stands above the counter of a sequence',
    file: 'firmware/manage/boot.ts',
    find: 'commit.sequenceHigh = state.incarnation * 2 ** SEQUENCE_COUNTER_BITS',
    replace: 'commit.sequenceHigh = 2 ** SEQUENCE_COUNTER_BITS',
    killer: directed('lives of a part'),
  },
  {
    id: 'numbers-of-the-life-before',
    rule: 'N9, N11: a queue pair has another number in every incarnation',
    file: 'firmware/transport/queue-pair-number.ts',
    find: 'return ((drawn + 1) << 1) | (incarnation & 1)',
    replace: 'return ((drawn + 1) << 1) | 1',
    killer: directed('the life before'),
  },
  {
    id: 'key-not-drawn',
    rule: 'N9, N15: a key is drawn again at every power-on',
    file: 'firmware/manage/boot.ts',
    find: 'region.rkey = drawKey(state, index)',
    replace: 'region.rkey = ((0x123456 << 5) | index) >>> 0',
    killer: directed('the life before'),
  },
  {
    id: 'one-page',
    rule: 'D-14: the superblock stands twice',
    file: SUPERBLOCK,
    find: '  writePage(list, sb, 1 - first)\n',
    replace: '',
    killer: crash('similar 2of2 metadata'),
  },
  {
    id: 'pages-at-once',
    rule: 'D-14: one page of the superblock is whole at every instant',
    file: SUPERBLOCK,
    find: '  writePage(list, sb, first)\n',
    replace:
      '  const to = NVDIMM_SPACE + first * SUPERBLOCK_BYTES\n' +
      '  copyClean(list, SUPERBLOCK_AT, to, sb.words[USED]!, 0)\n',
    killer: directed('a start that is cut'),
  },
  {
    id: 'only-whole-page-first',
    rule: 'D-14: an update begins with the page that is not the only whole one',
    file: SUPERBLOCK,
    find: '  return updates[1]! < updates[0]! ? 1 : 0\n',
    replace: '  return updates[1]! < updates[0]! ? 0 : 1\n',
    killer: directed('a start that is cut'),
  },
  {
    id: 'page-unchecked',
    rule: 'D-14: a page of the superblock counts only if its check code is right',
    file: SUPERBLOCK,
    find: 'return resultOf(list, same) === EQUAL && isSane(',
    replace: 'return isSane(',
    killer: directed('a page that decays'),
  },
  {
    id: 'same-incarnation',
    rule: 'N9: every start has another incarnation',
    file: SUPERBLOCK,
    find: '  sb.words[INCARNATION] = Math.min(next, INCARNATION_LAST)\n',
    replace: '',
    killer: directed('a start that is cut'),
  },
]

const LOSSES: readonly Mutant[] = [
  {
    id: 'lost-is-undone',
    rule: 'D-6: what was acknowledged, and the medium has lost, is not executed again',
    file: 'firmware/commit/recovery.ts',
    find: 'forgetDurably(recovery.operations, list, intent, outcome.kept < 0)',
    replace: 'forgetDurably(recovery.operations, list, intent, false)',
    killer: directed('a record that is lost, given up and repeated'),
  },
]

export const TABLE: readonly Mutant[] = [...LINES, ...CLIENTS, ...PAGES, ...LOSSES]
