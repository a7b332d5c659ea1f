/** The peers file of a card: what is read, what is written, and every refusal by line and words. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { keyText, publicKeyOf } from '../../../boards/software/keys.ts'
import { type Peer, PeersError, parsePeers, peersText } from '../../../boards/software/peers.ts'
import { PEER_REGIONS, PEERS } from '../../../firmware/board/limits.ts'
import { GOOD_NAMES, HOSTILE_NAMES } from '../../support/cards/hostile-names.ts'

const SEED = Number(process.env.SEED ?? 64)

/** Keys of as many peers as a card knows, and of one more. */
const KEYS = Array.from({ length: PEERS + 1 }, (_, i) => publicKeyOf(new Uint8Array(32).fill(i)))
const TEXTS = KEYS.map(keyText)
const [A, B] = TEXTS as [string, string]
const RIGHT = 'write admin, read:REGION or write:REGION'

function refusal(work: () => unknown): PeersError {
  try {
    work()
  } catch (error) {
    expect(error).toBeInstanceOf(PeersError)
    const { message } = error as PeersError
    expect(message).not.toMatch(/[0-9a-f]{33}/i)
    return error as PeersError
  }
  throw new Error('it was taken')
}

function encoded(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
}

describe('a peers file is read', () => {
  test('line by line, between comments and blank lines', () => {
    const text = [
      '# who may come',
      '',
      `${A} ann admin`,
      '   # key, name, rights',
      `\t${B.toUpperCase()}\t björn   read:logs write:orders%202024 write:50%25\tread:été\r`,
      ` ${TEXTS[2]} #3 write:* read:%2a%2a `,
    ].join('\n')
    expect(parsePeers(text, 'peers')).toEqual([
      { key: KEYS[0], name: 'ann', admin: true, read: [], write: [] },
      {
        ...{ key: KEYS[1], name: 'björn', admin: false },
        ...{ read: ['logs', 'été'], write: ['orders 2024', '50%'] },
      },
      { key: KEYS[2], name: '#3', admin: false, read: ['**'], write: ['*'] },
    ])
  })

  test.each(['', '\n', '# nobody', ' \t\r\n#'])('%j has nobody', (text) => {
    expect(parsePeers(text, 'peers')).toEqual([])
  })

  test('with every name that a region may be given, and with no other', () => {
    for (const name of GOOD_NAMES) {
      const [peer] = parsePeers(`${A} ann read:${encoded(Buffer.from(name))}`, 'peers')
      expect(peer!.read).toEqual([name])
    }
    for (const [what, name] of HOSTILE_NAMES) {
      const refused = refusal(() => parsePeers(`${A} ann read:${encoded(name)}`, 'peers'))
      expect(refused.code, what).toBe('PEERS_REGION')
    }
  })

  test('up to the limits of a card', () => {
    const regions = Array.from({ length: PEER_REGIONS }, (_, i) => `read:r${i}`).join(' ')
    const lines = TEXTS.map((key, i) => `${key} ${`n${i}`.padEnd(32, 'x')} ${regions}`)
    expect(parsePeers(lines.slice(0, PEERS).join('\n'), 'peers')).toHaveLength(PEERS)
    const { code, message } = refusal(() => parsePeers(`#\n${lines.join('\n')}`, 'peers'))
    expect([code, message]).toEqual([
      'PEERS_MANY',
      `peers, line ${PEERS + 2}: a card knows ${PEERS} peers: leave some out`,
    ])
  })
})

describe('a peers file is refused', () => {
  const many = (count: number): string => {
    return Array.from({ length: count }, (_, i) => `${i % 2 ? 'read' : 'write'}:${i}`).join(' ')
  }

  test.each([
    [
      'a word that is no key',
      'ann admin',
      'PEERS_KEY',
      "this has 3 characters: give what 'perdure",
    ],
    ['a key cut short', `${A.slice(1)} ann admin`, 'PEERS_KEY', '64 hexadecimal digits, and this'],
    ['a key that nobody has', `${'0'.repeat(64)} ann admin`, 'PEERS_KEY', 'nobody has that'],
    ['a key alone', A, 'PEERS_NAME', 'a name stands behind the key: write 1 to 32 bytes'],
    ['a long name', `${A} ${'\u00e9'.repeat(17)} admin`, 'PEERS_NAME', 'write 1 to 32 bytes'],
    ['a blank of Unicode in a name', `${A} a\u00a0b admin`, 'PEERS_NAME', 'without blanks'],
    ['an escape sequence in a name', `${A} \u001b[2J admin`, 'PEERS_NAME', 'control characters'],
    ['a direction in a name', `${A} a\u202eb admin`, 'PEERS_NAME', 'control characters'],
    ['half a character in a name', `${A} a\ud800 admin`, 'PEERS_NAME', 'control characters'],
    ['a key for a name', `${A} ${B} admin`, 'PEERS_NAME', 'a name stands behind the key'],
    ['a key for a right', `${A} ann ${B}`, 'PEERS_RIGHT', 'a long word is no right'],
    ['a key for a region', `${A} ann read:${B}`, 'PEERS_REGION', 'no region is called a long word'],
    ['no right', `${A} ann`, 'PEERS_RIGHT', `'ann' has no right: ${RIGHT}`],
    [
      'another right',
      `${A} ann execute:logs`,
      'PEERS_RIGHT',
      `'execute:logs' is no right: ${RIGHT}`,
    ],
    ['a right in capitals', `${A} ann Admin`, 'PEERS_RIGHT', `'Admin' is no right: ${RIGHT}`],
    ['a right to nothing', `${A} ann read`, 'PEERS_RIGHT', `'read' is no right: ${RIGHT}`],
    ['a comment behind', `${A} ann admin # her`, 'PEERS_RIGHT', `'#' is no right: ${RIGHT}`],
    ['admin and more', `${A} ann admin read:*`, 'PEERS_RIGHT', 'write no right beside admin'],
    ['more and admin', `${A} ann write:a admin`, 'PEERS_RIGHT', 'write no right beside admin'],
    ['a region without a name', `${A} ann read:`, 'PEERS_REGION', "no region is called ''"],
    ['a long region', `${A} ann read:${'x'.repeat(33)}`, 'PEERS_REGION', 'write 1 to 32 bytes'],
    ['a bare % in a region', `${A} ann read:50%`, 'PEERS_REGION', "'50%' names no region: write"],
    ['a region that is no UTF-8', `${A} ann read:%ff`, 'PEERS_REGION', '%25 for %'],
    ['half a character', `${A} ann read:a\ud800`, 'PEERS_REGION', 'write 1 to 32 bytes'],
    ['the region *', `${A} ann read:%2A`, 'PEERS_REGION', 'write * for every region'],
    ['a region twice', `${A} ann read:a read:%61`, 'PEERS_TWICE', "region 'a' stands there twice"],
    [
      'a region in both ways',
      `${A} ann read:a write:a`,
      'PEERS_TWICE',
      'to write includes to read',
    ],
    [
      'too many regions',
      `${A} ann ${many(9)}`,
      'PEERS_MANY',
      '9 regions of one peer, and 8 can be',
    ],
    [
      'a key twice',
      `${B} b read:a\n${B.toUpperCase()} c read:b`,
      'PEERS_TWICE',
      "of 'b': write all",
    ],
    ['a name twice', `${B} b read:a\n${A} b read:a`, 'PEERS_TWICE', 'write a name of its own'],
  ])('for %s, by its line', (_, text, code, words) => {
    const line = `card.peers, line ${2 + text.split('\n').length}: `
    const last = TEXTS[2]
    const found = refusal(() => parsePeers(`# this card\n\n${text}\n${last} z admin`, 'card.peers'))
    expect(found.code).toBe(code)
    expect(found.message.startsWith(line), found.message).toBe(true)
    expect(found.message).toContain(words)
  })

  test('whatever it holds, by a PeersError, or it is read', () => {
    const word = fc.oneof(
      fc.constantFrom(...TEXTS.slice(0, 3), 'admin', 'read:a', 'write:*', '#', '\n', '%', '\r\n'),
      fc.string({ unit: 'binary', maxLength: 6 }),
    )
    const count = { read: 0, refused: 0 }
    fc.assert(
      fc.property(fc.array(word, { maxLength: 12 }), (words) => {
        try {
          const peers = parsePeers(words.join(' '), 'peers')
          expect(parsePeers(peersText(peers), 'again')).toEqual(peers)
          if (peers.length > 0) count.read += 1
        } catch (error) {
          expect(error).toBeInstanceOf(PeersError)
          count.refused += 1
        }
      }),
      { seed: SEED, numRuns: 1000 },
    )
    expect(count.read).toBeGreaterThan(0)
    expect(count.refused).toBeGreaterThan(500)
  })
})

const isControl = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Cs}\ufeff]/u

/** Text of 1 to 32 bytes, of all that a name may have. */
function texts(isWrong: (text: string) => boolean): fc.Arbitrary<string> {
  const fits = (text: string): boolean => {
    return text !== '' && Buffer.byteLength(text) <= 32 && !isControl.test(text) && !isWrong(text)
  }
  return fc.string({ unit: 'grapheme', minLength: 1, maxLength: 32 }).filter(fits)
}

const region = fc.oneof(
  { weight: 1, arbitrary: fc.constant('*') },
  { weight: 6, arbitrary: texts(() => false) },
  { weight: 1, arbitrary: fc.constantFrom('%', '%2A', '**', '#', 'a b', 'admin', 'read:a', '+') },
)

const rights = fc
  .uniqueArray(region, { minLength: 1, maxLength: PEER_REGIONS })
  .chain((regions) => fc.tuple(fc.constant(regions), fc.nat({ max: regions.length })))
  .map(([all, at]) => ({ admin: false, read: all.slice(0, at), write: all.slice(at) }))

const peers: fc.Arbitrary<Peer[]> = fc
  .uniqueArray(
    fc.record({
      key: fc.nat({ max: PEERS }),
      name: texts((text) => /\s/.test(text)),
      rights: fc.oneof(fc.constant({ admin: true, read: [], write: [] }), rights),
    }),
    { maxLength: 16, selector: ({ name }) => name },
  )
  .map((drawn) => drawn.filter(({ key }, i) => drawn.findIndex((one) => one.key === key) === i))
  .map((drawn) => drawn.map(({ key, name, rights }) => ({ key: KEYS[key]!, name, ...rights })))

describe('a peers file is written', () => {
  test('so that it is read as the same peers, in lines of printable text', () => {
    let regions = 0
    fc.assert(
      fc.property(peers, (drawn) => {
        const text = peersText(drawn)
        expect(parsePeers(text, 'peers')).toEqual(drawn)
        expect(text.split('\n')).toHaveLength(drawn.length + 1)
        for (const line of text.split('\n')) expect(line).not.toMatch(isControl)
        regions += drawn.flatMap(({ read, write }) => [...read, ...write]).length
      }),
      { seed: SEED, numRuns: 100 },
    )
    expect(regions).toBeGreaterThan(500)
  })

  test('by one line of words that are in order', () => {
    const peer = { key: KEYS[0]!, name: 'ann', admin: false, read: ['*'], write: ['a b', '%'] }
    expect(peersText([peer])).toBe(`${A} ann read:* write:a%20b write:%25\n`)
    expect(peersText([{ ...peer, admin: true, read: [], write: [] }])).toBe(`${A} ann admin\n`)
    expect(peersText([])).toBe('')
  })

  const ann: Peer = { key: KEYS[0]!, name: 'ann', admin: false, read: ['a'], write: [] }
  test.each([
    ['a name that would be a line of its own', { name: `x admin\n${B} eve` }, 'PEERS_NAME'],
    ['a name that would be a right', { name: 'x admin' }, 'PEERS_NAME'],
    ['no name', { name: '' }, 'PEERS_NAME'],
    ['half a character in a region', { read: ['\udc80'] }, 'PEERS_REGION'],
    ['an empty region', { write: [''] }, 'PEERS_REGION'],
    ['admin beside a region', { admin: true }, 'PEERS_RIGHT'],
    ['no right', { read: [] }, 'PEERS_RIGHT'],
    ['a region in both ways', { write: ['a'] }, 'PEERS_TWICE'],
    ['a key of another', { key: KEYS[1]! }, 'PEERS_TWICE'],
    ['a name of another', { name: 'bob' }, 'PEERS_TWICE'],
    ['a region too many', { read: [...'123456789'] }, 'PEERS_MANY'],
  ])('never with %s', (_, change, code) => {
    const bob = { ...ann, key: KEYS[1]!, name: 'bob' }
    expect(peersText([bob, ann])).not.toBe('')
    const found = refusal(() => peersText([bob, { ...ann, ...change }]))
    expect([found.code, found.message.slice(0, 8)]).toEqual([code, 'peer 2: '])
  })
})
