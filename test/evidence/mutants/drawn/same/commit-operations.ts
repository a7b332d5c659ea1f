/** The same programs of the operation table. */

import type { Equivalent } from './equivalent.ts'

/** Two neighbours that may change places. */
function eitherWay(at: string, first: string, second: string, because: string): Equivalent {
  return { at, line: `${first} ${second}`, mutant: `;${second} ;${first}`, because }
}

/** Ways in which the next operation of a client is no longer known as the next one. */
const SLOW = 'an operation goes the way of all others then, which stores the same in more steps'

const WORDS_APART = 'they store to different words, and neither reads what the other stores'

export const COMMIT_OPERATIONS: readonly Equivalent[] = [
  {
    at: 'medium/operation-line.ts',
    line: 'const BITS_WORDS = OPERATION_WINDOW / 32',
    mutant: 'const BITS_WORDS = OPERATION_WINDOW / 33',
    because: 'loops alone are bound by it, which count 0, 1, 2 and 3 below either number',
  },
  eitherWay(
    'medium/operation-line.ts blankLine',
    'words[w + CLIENT] = low',
    'words[w + CLIENT + 1] = high',
    WORDS_APART,
  ),
  eitherWay(
    'medium/operation-line.ts forgetUpTo',
    'words[w + NEWEST] = low - 1',
    'words[w + NEWEST + 1] = before',
    WORDS_APART,
  ),
  eitherWay(
    'medium/operation-line.ts forgetUpTo',
    'words[w + NEWEST + 1] = before',
    'setUnsure(words, w, before === 0 && low === 1 ? 0 : OPERATION_WINDOW)',
    WORDS_APART,
  ),
  eitherWay(
    'medium/operation-line.ts setLineSequence',
    'words[w + SEQUENCE] = (sequence % HIGH_UNIT) | 0',
    'words[w + SEQUENCE + 1] = Math.floor(sequence / HIGH_UNIT)',
    WORDS_APART,
  ),
  eitherWay(
    'medium/operation-line.ts setBelow',
    'words[w + BELOW] = (count % HIGH_UNIT) | 0',
    'words[w + BELOW + 1] = ' +
      '(words[w + BELOW + 1]! & ~BELOW_MASK) | Math.floor(count / HIGH_UNIT)',
    WORDS_APART,
  ),
  {
    at: 'medium/operation-line.ts setBelow',
    line: 'words[w + BELOW] = (count % HIGH_UNIT) | 0',
    mutant: 'words[w + BELOW] = (count + HIGH_UNIT) | 0',
    because: 'a count is below 2^48, so the sum is exact, and its low 32 bits are the same',
  },
  {
    at: 'medium/operation-line.ts bitWord',
    line: 'return w + BITS + ((low & (OPERATION_WINDOW - 1)) >> 5)',
    mutant: 'return w + BITS + ((low & (OPERATION_WINDOW - 2)) >> 5)',
    because: 'bit 0 is shifted out',
  },
  eitherWay(
    'medium/operation-line.ts addOperation',
    'words[w + NEWEST] = low',
    'words[w + NEWEST + 1] = high',
    WORDS_APART,
  ),
  {
    at: 'medium/operation-line.ts addOperation',
    line: 'const next = (words[w + NEWEST]! + 1) | 0',
    mutant: 'const next = (words[w + NEWEST]! + 1) & 0',
    because: SLOW,
  },
  {
    at: 'medium/operation-line.ts addOperation',
    line: 'if (sure && next === (low | 0) && next !== 0 && words[w + NEWEST + 1] === (high | 0)) {',
    mutant:
      'if (sure && next === (low & 0) && next !== 0 && words[w + NEWEST + 1] === (high | 0)) {',
    because: SLOW,
  },
  {
    at: 'medium/operation-line.ts addOperation',
    line: 'const sure = marks >>> UNSURE_SHIFT === 0',
    mutant: 'const sure = marks >> UNSURE_SHIFT === 0',
    because: 'the upper bits are 0 or not, whatever comes in front of them',
  },
  {
    at: 'medium/operation-line.ts blankLine',
    line: 'for (let i = 0; i < OPERATION_LINE_WORDS; i++) words[w + i] = 0',
    mutant: 'for (let i = 1; i < OPERATION_LINE_WORDS; i++) words[w + i] = 0',
    because: 'the first word is of the check code, which is computed before the line is stored',
  },
  {
    at: 'commit/operations.ts chooseLine',
    line: 'o.latestLow[client] = 0',
    mutant: ';',
    because: 'a start reads the table once, into arrays that are new',
  },
  {
    at: 'commit/operations.ts enterOperation',
    line: 'if (hint < 0 || (high | low) === 0) return false',
    mutant: 'if (hint < 0 || (high & low) === 0) return false',
    because: 'no is the way of all others, which looks again and decides the same',
  },
  {
    at: 'medium/operation-line.ts addOperation',
    line: 'words[w + BELOW] = 0 words[w + BELOW + 1] = marks & ~BELOW_MASK',
    mutant: ';words[w + BELOW + 1] = marks & ~BELOW_MASK ;words[w + BELOW] = 0',
    because: WORDS_APART,
  },
  {
    at: 'medium/operation-line.ts addOperation',
    line: 'words[w + BELOW + 1] = marks & ~BELOW_MASK words[at] = was | bit',
    mutant: ';words[at] = was | bit ;words[w + BELOW + 1] = marks & ~BELOW_MASK',
    because: WORDS_APART,
  },
  {
    at: 'medium/operation-line.ts addOperation',
    line: 'const at = w + BITS + ((low & (OPERATION_WINDOW - 1)) >> 5)',
    mutant: 'const at = w + BITS + ((low & (OPERATION_WINDOW - 2)) >> 5)',
    because: 'bit 0 is shifted out',
  },
  {
    at: 'medium/operation-line.ts addOperation',
    line: 'if (distance > 0) moveOn(words, w, distance)',
    mutant: 'if (distance >= 0) moveOn(words, w, distance)',
    because: 'a move by nothing leaves bitmap, count and marks as they are',
  },
  {
    at: 'medium/operation-line.ts addOperation',
    line: 'if (distance <= 0) return',
    mutant: 'if (distance < 0) return',
    because: 'at distance 0 it stores the newest operation where it stands already',
  },
  {
    at: 'commit/operations.ts',
    line: 'const WORD_MAX = 2 ** 32 - 1',
    mutant: 'const WORD_MAX = 2 ** 33 - 1',
    because: 'an array of 32-bit words alone takes it, which keeps the low 32 bits',
  },
  {
    at: 'commit/operations.ts',
    line: 'const HALF_WRITTEN = 2',
    mutant: 'const HALF_WRITTEN = 3',
    because: 'a mark in memory alone, which is still none of the other two',
  },
  ...[
    ...['uses', 'memberCount', 'sequence', 'recovered', 'scrubbed'].map((field) => {
      return [`${field}: 0,`, `${field}: 1,`] as const
    }),
    ['forgetful: false,', 'forgetful: true,'] as const,
  ].map(([line, mutant]) => ({
    at: 'commit/operations.ts createOperations',
    line,
    mutant,
    because: 'a start sets it before it serves, and where none did there is no region to serve',
  })),
  {
    at: 'commit/operations.ts findClient',
    line:
      'if (hint >= 0 && lineIsOf(o.words, FIRST_IMAGE + hint * PLACE_WORDS, high, ' +
      'low)) return hint',
    mutant:
      'if (hint > 0 && lineIsOf(o.words, FIRST_IMAGE + hint * PLACE_WORDS, high, ' +
      'low)) return hint',
    because: 'the search below finds place 0 first, and a client has one place',
  },
  {
    at: 'commit/operations.ts findClient',
    line:
      'if (hint >= 0 && lineIsOf(o.words, FIRST_IMAGE + hint * PLACE_WORDS, high, ' +
      'low)) return hint',
    mutant:
      'if (hint >= 1 && lineIsOf(o.words, FIRST_IMAGE + hint * PLACE_WORDS, high, ' +
      'low)) return hint',
    because: 'the search below finds place 0 first, and a client has one place',
  },
  {
    at: 'commit/operations.ts longestUnused',
    line: 'for (let c = 0; c < CLIENTS; c++) {',
    mutant: 'for (let c = 0; c <= CLIENTS; c++) {',
    because:
      'behind the last place there is no mark 0 of one that is not retired, so it is ' +
      'passed over',
  },
  {
    at: 'commit/operations.ts noteLatest',
    line:
      'o.latestLow[client] = forgets ? WORD_MAX : newestLow(o.words, ' +
      'imageOf(client)) o.latestHigh[client] = forgets ? WORD_MAX : ' +
      'newestHigh(o.words, imageOf(client))',
    mutant:
      ';o.latestHigh[client] = forgets ? WORD_MAX : newestHigh(o.words, ' +
      'imageOf(client)) ;o.latestLow[client] = forgets ? WORD_MAX : ' +
      'newestLow(o.words, imageOf(client))',
    because: 'they store to two arrays, and read the line alone',
  },
  {
    at: 'commit/operations.ts beginOperation',
    line:
      'if (high < latestHigh || (high === latestHigh && low <= ' + 'o.latestLow[client]!)) return',
    mutant:
      'if (high < latestHigh || (high === latestHigh && low < o.latestLow[client]!)) ' + 'return',
    because: 'of two equal ones the later is stored where it stands already',
  },
  {
    at: 'commit/operations.ts durableUpTo',
    line: 'into.low = (low - open) >>> 0 into.high = low < open ? high - 1 : high',
    mutant: ';into.high = low < open ? high - 1 : high ;into.low = (low - open) >>> 0',
    because: 'both are told by numbers that were read before',
  },
  {
    at: 'commit/operations.ts addToLine',
    line: 'const last = memberCount > 0 && o.members[memberCount - 1] === client',
    mutant: 'const last = memberCount >= 0 && o.members[memberCount - 1] === client',
    because: 'before the first member there is nothing, which is no client',
  },
  {
    at: 'commit/operations.ts addToLine',
    line: 'const last = memberCount > 0 && o.members[memberCount - 1] === client',
    mutant: 'const last = memberCount > 1 && o.members[memberCount - 1] === client',
    because: 'who is not known as the last one is looked for among all',
  },
  {
    at: 'commit/operations.ts addToLine',
    line: 'const last = memberCount > 0 && o.members[memberCount - 1] === client',
    mutant: 'const last = memberCount > 0 && o.members[memberCount - 2] === client',
    because: 'whoever stands there is a member, and who does not is looked for among all',
  },
  {
    at: 'commit/operations.ts addToLine',
    line: 'o.sequence += 1 copyLine(words, imageOf(client), composed)',
    mutant: ';copyLine(words, imageOf(client), composed) ;o.sequence += 1',
    because: 'the copy reads nothing of the sequence, which is sealed behind both',
  },
  {
    at: 'commit/operations.ts endLines',
    line: 'o.memberCount = 0',
    mutant: ';',
    because: 'a group begins its lines again before it adds, stores or ends any',
  },
  {
    at: 'commit/operations.ts endLines',
    line: 'o.memberCount = 0',
    mutant: 'o.memberCount = 1',
    because: 'a group begins its lines again before it adds, stores or ends any',
  },
  {
    at: 'commit/operations.ts moveClient',
    line: 'moveMember(o, client, place) freeLines(o, client)',
    mutant: ';freeLines(o, client) ;moveMember(o, client, place)',
    because:
      'one renames a member, the other frees a place, and neither reads what the ' + 'other stores',
  },
  {
    at: 'commit/operations.ts moveClient',
    line:
      'copyLine(words, imageOf(client), imageOf(place)) copyLine(words, ' +
      'composedOf(client), composedOf(place))',
    mutant:
      ';copyLine(words, composedOf(client), composedOf(place)) ;copyLine(words, ' +
      'imageOf(client), imageOf(place))',
    because: 'they copy from and to four lines that differ',
  },
  {
    at: 'commit/operations.ts freeLines',
    line: 'blankLine(o.words, imageOf(place), 0, 0) o.used[place] = 0',
    mutant: ';o.used[place] = 0 ;blankLine(o.words, imageOf(place), 0, 0)',
    because: 'one stores to the line, the other beside it',
  },
  {
    at: 'commit/operations.ts moveMember',
    line: 'for (let i = 0; i < o.memberCount; i++) {',
    mutant: 'for (let i = 0; i <= o.memberCount; i++) {',
    because:
      'who moves in a group is a member once, and what stands behind the last one is ' + 'not read',
  },
  {
    at: 'commit/operations.ts withdrawOperation',
    line: 'dropOperation(o.words, imageOf(client), high, low) o.unwritten[client] = ' + 'UNWRITTEN',
    mutant:
      ';o.unwritten[client] = UNWRITTEN ;dropOperation(o.words, imageOf(client), ' + 'high, low)',
    because: 'one stores to the line, the other beside it',
  },
  {
    at: 'commit/operations.ts readOperations',
    line: 'o.forgetful = floor > 0 || former > 0 bad.fill(0)',
    mutant: ';bad.fill(0) ;o.forgetful = floor > 0 || former > 0',
    because: 'one stores to the table, the other beside it',
  },
  {
    at: 'commit/operations.ts',
    line: 'const bad = new Uint8Array(2 * CLIENTS)',
    mutant: 'const bad = new Uint8Array(3 * CLIENTS)',
    because: 'nobody stores or reads behind the first 2 * CLIENTS',
  },
  {
    at: 'commit/operations.ts resetOperations',
    line: 'o.memberCount = 0',
    mutant: 'o.memberCount = 1',
    because: 'a group begins its lines again before it adds, stores or ends any',
  },
  {
    at: 'commit/operations.ts resetOperations',
    line: 'o.sequence = 0',
    mutant: ';',
    because: 'whoever resets the table sets it to another number right behind',
  },
  {
    at: 'commit/operations.ts resetOperations',
    line: 'o.sequence = 0',
    mutant: 'o.sequence = 1',
    because: 'whoever resets the table sets it to another number right behind',
  },
  {
    at: 'commit/operations.ts resetOperations',
    line: 'o.uses = 0',
    mutant: ';',
    because:
      'whoever resets the table sets it to another number behind, and no place is ' +
      'taken before',
  },
  {
    at: 'commit/operations.ts resetOperations',
    line: 'o.uses = 0',
    mutant: 'o.uses = 1',
    because:
      'whoever resets the table sets it to another number behind, and no place is ' +
      'taken before',
  },
  {
    at: 'commit/operations.ts resetOperations',
    line: 'o.forgetful = false',
    mutant: ';',
    because: 'whoever resets the table sets it right behind',
  },
  {
    at: 'commit/operations.ts resetOperations',
    line: 'o.forgetful = false',
    mutant: 'o.forgetful = true',
    because: 'whoever resets the table sets it right behind',
  },
  {
    at: 'commit/operations.ts chooseLine',
    line:
      'o.unwritten[client] = a === b ? 0 : HALF_WRITTEN o.used[client] = ' +
      'lineIsFree(words, image) ? 0 : sequence',
    mutant:
      ';o.used[client] = lineIsFree(words, image) ? 0 : sequence ' +
      ';o.unwritten[client] = a === b ? 0 : HALF_WRITTEN',
    because: 'they store to two arrays, and read neither',
  },
  {
    at: 'commit/operations.ts chooseLine',
    line: 'dropTwin(o, client) noteLatest(o, client)',
    mutant: ';noteLatest(o, client) ;dropTwin(o, client)',
    because: 'a twin is noted again where it is freed, and no other line changes there',
  },
  {
    at: 'commit/operations.ts chooseLine',
    line: 'blankLine(words, image, 0, 0) o.latestLow[client] = 0',
    mutant: ';o.latestLow[client] = 0 ;blankLine(words, image, 0, 0)',
    because: 'one stores to the line, the other beside it',
  },
  {
    at: 'commit/operations.ts chooseLine',
    line: 'o.latestLow[client] = 0',
    mutant: 'o.latestLow[client] = 1',
    because:
      'a place of nobody is noted again by who takes it, and nobody asks its ' + 'latest before',
  },
  {
    at: 'commit/operations.ts chooseLine',
    line: 'o.latestHigh[client] = 0',
    mutant: ';',
    because:
      'a place of nobody is noted again by who takes it, and nobody asks its ' + 'latest before',
  },
  {
    at: 'commit/operations.ts chooseLine',
    line: 'o.latestHigh[client] = 0',
    mutant: 'o.latestHigh[client] = 1',
    because:
      'a place of nobody is noted again by who takes it, and nobody asks its ' + 'latest before',
  },
  {
    at: 'commit/operations.ts voidOperations',
    line: 'blankLine(o.words, imageOf(client), 0, 0) noteLatest(o, client)',
    mutant: ';noteLatest(o, client) ;blankLine(o.words, imageOf(client), 0, 0)',
    because:
      'a place of nobody is noted again by who takes it, and nobody asks its ' + 'latest before',
  },
  {
    at: 'commit/operations.ts voidOperations',
    line: 'noteLatest(o, client)',
    mutant: ';',
    because:
      'a place of nobody is noted again by who takes it, and nobody asks its ' + 'latest before',
  },
  {
    at: 'commit/operations.ts voidOperations',
    line: 'o.uses = end',
    mutant: ';',
    because: 'all places are free then, and of uses only the distances count',
  },
]
