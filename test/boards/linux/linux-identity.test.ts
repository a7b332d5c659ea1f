/**
 * The files of a card's key and of its peers, as the native runtime reads them: held against
 * boards/software, which reads them for everything else. The same is taken, the same is refused,
 * and by the same words.
 *
 * It is compiled here with the sanitizers; without a compiler, or without libsodium, skipped.
 */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { readKeyFile } from '../../../boards/software/key-file.ts'
import { KeyError, keyText, publicKeyOf } from '../../../boards/software/keys.ts'
import { PeersError, type PeersFault, parsePeers } from '../../../boards/software/peers.ts'
import { PEER_REGIONS, PEERS } from '../../../firmware/board/limits.ts'
import { isControl } from '../../../firmware/medium/region-name.ts'
import { GOOD_NAMES, HOSTILE_NAMES } from '../../support/cards/hostile-names.ts'
import { PAST_PRIME, SMALL_ORDER } from '../../support/judges/noise-vectors.ts'
import { Harness } from '../../support/native/harness.ts'
import { compileIdentity } from '../../support/native/identity-program.ts'
import { because, noMachine } from '../../support/native/machine-program.ts'
import { ALIKE } from '../../support/sessions/peers.ts'

const SEED = Number(process.env.SEED ?? 20261128)

/** Keys of as many peers as a card knows, and of one more. */
const TEXTS = Array.from({ length: PEERS + 1 }, (_, i) => {
  return keyText(publicKeyOf(new Uint8Array(32).fill(i)))
})
const [A, B, C] = TEXTS as [string, string, string]

/** What is read, or why not. */
type Verdict = Readonly<Record<string, unknown>>

const folder = mkdtempSync(join(tmpdir(), 'perdure-identity-'))
const PATH = join(folder, 'given')
let harness: Harness

beforeAll(() => {
  if (noMachine !== null) return
  harness = new Harness(compileIdentity(), [])
})
afterAll(async () => {
  if (noMachine === null) expect(await harness.end()).toBe(0)
  rmSync(folder, { recursive: true, force: true })
})

/** What it reads, without the number that says which kind of refusal it is. */
async function native(what: 'key' | 'peers', path = PATH): Promise<Verdict> {
  const { result, ...said } = JSON.parse(await harness.ask(`${what} ${path}`)) as Verdict
  expect(result).toBe('reason' in said ? 2 : 0)
  return said
}

/** The same without what a terminal obeys: of that the native runtime quotes nothing. */
function shown(text: string): string {
  return Array.from(text, (letter) => (isControl(letter.codePointAt(0)!) ? '?' : letter)).join('')
}

const isUtf8 = (bytes: Uint8Array): boolean => {
  return Buffer.compare(Buffer.from(Buffer.from(bytes).toString()), bytes) === 0
}

/** What those who have text read of the peers: of bytes that are none, and of nobody, nothing. */
function expectedPeers(bytes: Uint8Array): Verdict & { readonly code?: PeersFault } {
  try {
    const peers = parsePeers(Buffer.from(bytes).toString(), PATH).map((peer) => {
      return { ...peer, key: keyText(peer.key) }
    })
    if (peers.length > 0) return { peers: { ...peers } }
    return { reason: `${PATH}: nobody may come: write a line PUBLICKEY NAME admin` }
  } catch (error) {
    if (!(error instanceof PeersError)) throw error
    return { reason: shown(error.message), code: error.code }
  }
}

/** Both read the same; what that is. */
async function samePeers(text: string | Uint8Array): Promise<ReturnType<typeof expectedPeers>> {
  const bytes = Buffer.from(text)
  writeFileSync(PATH, bytes)
  const expected = expectedPeers(bytes)
  const { code: _, ...said } = expected
  expect(await native('peers'), JSON.stringify(bytes.toString())).toEqual(said)
  return expected
}

const encoded = (bytes: Uint8Array): string => {
  return Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
}

const regions = (count: number): string => {
  return Array.from({ length: count }, (_, i) => `${i % 2 ? 'read' : 'write'}:r${i}`).join(' ')
}

/** Whatever a peers file is taken with. */
const GOOD: readonly string[] = [
  `${A} ann admin`,
  `${A} ann admin\n`,
  `${A} ann admin admin\r\n`,
  `# who\n\n \t\n\t${A.toUpperCase()}  bj\u00f6rn\tread:logs  write:orders%202024 write:50%25\r\n#`,
  `${A} #3 write:* read:%2a%2a\n${B} admin admin\n${C} read:a read:read:a`,
  `${A} ${'x'.repeat(32)} ${regions(PEER_REGIONS)}`,
  `${A} ann read:${'%C3%A9'.repeat(16)} read:${'\u00e9'.repeat(15)}x`,
  `#\0\n${A} ann read:+ write:%2B%2b`,
  TEXTS.slice(0, PEERS)
    .map((key, i) => `${key} ${i} read:${i}\n`)
    .join(''),
]

/** Whatever one is refused for, a line each. */
const BAD: readonly string[] = [
  ...['ann admin', A, `${A} `, `${A} ann`, `${A.slice(1)} ann admin`, `${A}0 ann admin`],
  ...[`${A.slice(1)}g ann admin`, `${'\u00e9'.repeat(64)} ann admin`, `\ufeff${A} ann admin`],
  ...[
    `${'\u{1f5c4}'.repeat(32)} a admin`,
    `\0 ann admin`,
    `\r `,
    `a\r\r`,
    `+${A.slice(1)} a admin`,
  ],
  ...[`${A}\0 ann admin`, `${A.slice(2)}0x ann admin`, `0x${A} ann admin`],
  ...SMALL_ORDER.map((key) => `${keyText(key)} ann admin`),
  ...PAST_PRIME.map(([written]) => `${keyText(written)} ann admin`),
  ...[`${'f'.repeat(64)} ann admin`, `${A.slice(0, 62)}ff ann admin`],
  ...[`${A} ${'\u00e9'.repeat(17)} admin`, `${A} ${'x'.repeat(33)} admin`, `${A} ${B} admin`],
  ...[`${A} a\u00a0b admin`, `${A} \u001b[2J admin`, `${A} a\u202eb admin`, `${A} a\0 admin`],
  ...[`${A} ann ${B}`, `${A} ann execute:logs`, `${A} ann Admin`, `${A} ann read`],
  ...[`${A} ann read :a`, `${A} ann admin\u00a0`, `${A} ann \u001b[2J`, `${A} ann admin # her`],
  ...[`${A} ann ${'\u00e9'.repeat(32)}`, `${A} ann ${'\u00e9'.repeat(33)}`],
  ...[`${A} ann ${'\u{1f5c4}'.repeat(16)}`, `${A} ann ${'\u{1f5c4}'.repeat(17)}`],
  ...[`${A} ann admin read:*`, `${A} ann write:a admin`, `${A} ann admin\0`],
  ...[`${A} ann read:`, `${A} ann write: read:`, `${A} ann read:${'x'.repeat(33)}`],
  ...[`${A} ann read:${B}`, `${A} ann read:${'%C3%A9'.repeat(17)}`, `${A} ann read:%00`],
  ...[`${A} ann read:%`, `${A} ann read:%4`, `${A} ann read:%4g`, `${A} ann read:%g4`],
  ...[`${A} ann read:50%`, `${A} ann read:%ff`, `${A} ann read:%C3`, `${A} ann read:%C3\u00e9`],
  ...[`${A} ann read:\u00e9%A9`, `${A} ann read:%C3x`, `${A} ann read:%C3%2541`],
  ...[`${A} ann read:${'%'.repeat(40)}`, `${A} ann read:a\rb`, `${A} ann read:a\r read:b`],
  ...[`${A} ann read:%2A`, `${A} ann write:%2a`, `${A} ann read:a read:%61`],
  ...[`${A} ann read:a write:a`, `${A} ann read:* write:*`, `${A} ann write:b read:a read:b`],
  ...[`${A} ann ${regions(PEER_REGIONS + 1)}`, `${A} ann ${regions(100)}`],
  ...[`${A} ann ${regions(PEER_REGIONS + 1)} read:%`, `${A} ann read: ${regions(PEER_REGIONS)}`],
  ...[`${B} b read:a\n${B.toUpperCase()} c read:b`, `${B} b read:a\n${A} b read:a`],
  ...[
    `${B} ${'b'.repeat(32)} read:a\n${B} ${'c'.repeat(32)} read:b`,
    `${B} b read:a\n${B} b read:a`,
  ],
  ...[`${A} a admin\n${B} b admin\n${B} c admin`, `${A} a admin\n${B} b admin\n${C} b admin`],
  TEXTS.map((key, i) => `${key} ${i} read:${i}`).join('\n'),
  ALIKE.map((pair, i) => `${keyText(pair.public)} ${i} read:a\n`).join(''),
]

describe.skipIf(noMachine !== null)(`the peers file of the native runtime${because}`, () => {
  test('is taken as others take it', async () => {
    for (const text of GOOD) {
      expect(await samePeers(text), JSON.stringify(text)).toHaveProperty('peers')
    }
  })

  test('is refused as others refuse it, in every way and at its line', async () => {
    const codes = new Set<PeersFault | undefined>()
    for (const text of BAD) {
      const { code, reason } = await samePeers(`# this card\n\n${text}\n${'#'.repeat(9)}`)
      expect(reason, JSON.stringify(text)).toMatch(/, line \d+: /)
      expect(reason).not.toMatch(/[0-9a-f]{33}/i)
      codes.add(code)
      await samePeers(text)
      await samePeers(`${text}\r\n`)
    }
    const kinds = ['KEY', 'NAME', 'RIGHT', 'REGION', 'TWICE', 'MANY'].map((one) => `PEERS_${one}`)
    expect([...codes].sort()).toEqual(kinds.sort())
  })

  test.each(['', '\n', '# nobody', ' \t\r\n#', `# ${A} ann admin\n`])(
    '%j lets nobody come, and is refused',
    async (text) => {
      expect((await samePeers(text)).reason).toContain('nobody may come')
    },
  )

  test('takes the names that regions may have, and no others', async () => {
    for (const name of GOOD_NAMES) {
      const bytes = Buffer.from(name)
      expect(await samePeers(`${A} ann read:${encoded(bytes)}`)).toHaveProperty('peers')
    }
    for (const [what, name] of HOSTILE_NAMES) {
      const { code } = await samePeers(`${A} ann read:${encoded(name)}`)
      expect(code, what).toBe('PEERS_REGION')
    }
  })

  test('takes every letter as others take it, in names and in regions', async () => {
    const around = [0x60c, 0x61c, 0x1680, 0x180e, 0x3000, 0xfeff, 0xfffd, 0xd7ff, 0xe000, 0x10000]
    const points = [
      ...Array.from({ length: 0xa2 }, (_, i) => i),
      ...Array.from({ length: 0x72 }, (_, i) => 0x1fff + i),
      ...around.flatMap((point) => [point - 1, point, point + 1]),
      ...[0x7ff, 0x800, 0xffff, 0x10fffe, 0x10ffff],
    ].filter((point) => point < 0xd800 || point > 0xdfff)
    const count = { taken: 0, refused: 0 }
    for (const letter of points.map((point) => String.fromCodePoint(point))) {
      const inside = `a${letter}b`
      const region = encoded(Buffer.from(inside))
      for (const said of [`${inside} admin`, `ann read:${inside}`, `ann read:${region}`]) {
        const line = `${A} ${said}`
        if ('peers' in (await samePeers(line))) count.taken += 1
        else count.refused += 1
      }
    }
    expect(count.taken).toBeGreaterThan(300)
    expect(count.refused).toBeGreaterThan(200)
  })

  test('that is no UTF-8 is refused by its line, whatever stands there', async () => {
    for (const [what, name] of HOSTILE_NAMES) {
      if (isUtf8(name)) continue
      for (const before of [`${A} ann read:`, `${A} `, '# ', '']) {
        const text = Buffer.concat([Buffer.from(`${B} bob admin\n${before}`), name])
        writeFileSync(PATH, text)
        const reason = `${PATH}, line 2: it is no UTF-8: write the file anew, as UTF-8`
        expect(await native('peers'), what).toEqual({ reason })
      }
    }
  })

  test('whatever becomes of a good one, both say the same of it', async () => {
    const random = new Random(SEED)
    const pick = <T>(list: readonly T[]): T => list[random.below(list.length)]!
    const pieces = [
      ...[
        'admin',
        ' read:a',
        ' write:*',
        '#',
        '\n',
        '\r',
        ' ',
        '\t',
        '%',
        '%2',
        '%41',
        '%C3',
        '%A9',
      ],
      ...['\u00e9', '\u202e', '\0', '\u{1f5c4}', ':', '*', A, B, `${C} `, ` ${A} a admin\n`],
    ]
    const count = { taken: 0, refused: 0 }
    for (let run = 0; run < 1000; run++) {
      const text = Array.from(pick(GOOD.slice(0, -1)))
      for (let change = random.below(3); change >= 0; change--) {
        const at = random.below(text.length + 1)
        const gone = random.below(4) === 0 ? random.below(text.length) : random.below(2)
        text.splice(at, gone, ...(random.below(3) === 0 ? [] : [pick(pieces)]))
      }
      if ('peers' in (await samePeers(text.join('')))) count.taken += 1
      else count.refused += 1
    }
    expect(count.taken).toBeGreaterThan(70)
    expect(count.refused).toBeGreaterThan(300)
  })

  test('that is larger than any is not read', async () => {
    writeFileSync(PATH, '#'.repeat((1 << 20) + 1))
    const said = JSON.parse(await harness.ask(`peers ${PATH}`)) as Verdict
    expect(said).toEqual({ result: 1, reason: `${PATH} is larger than 1048576 bytes` })
  })
})

const SECRET = keyText(new Uint8Array(32).fill(0xa7))

/** Key files, good and bad. */
const KEY_FILES: readonly string[] = [
  ...[SECRET, `${SECRET}\n`, `# of this card\n\n  # kept\n${SECRET}\n\n#\n`, `#\r\n${SECRET}\r\n`],
  ...[`\t${SECRET.toUpperCase()}  \n`, `\ufeff${SECRET}\u2028`, `\u00a0\u3000\n${SECRET}\u205f`],
  ...['', '\n', `# ${SECRET}`, `${SECRET}\n${SECRET}\n`, `${SECRET} mine`, SECRET.slice(1)],
  ...[`${SECRET}0`, `${SECRET.slice(1)}g`, `0x${SECRET.slice(2)}`, '\0', `${SECRET}\0`],
  ...[`${SECRET}\n\0`, `\u200b${SECRET}`, `${SECRET}\n${'#'.repeat(4096)}`, `${SECRET}\u180e`],
  ...[`${SECRET}\n${'#'.repeat(4096 - 65)}`, `${SECRET}\n${'#'.repeat(4096 - 64)}`],
  ...['0'.repeat(64), 'f'.repeat(64), '\u00e9'.repeat(32), `${SECRET}\r${SECRET}`],
]

function expectedKey(path: string): Verdict {
  try {
    return { secret: keyText(readKeyFile(path)) }
  } catch (error) {
    if (!(error instanceof KeyError)) throw error
    return { reason: error.message }
  }
}

async function sameKey(text: string | Uint8Array, mode = 0o600): Promise<Verdict> {
  chmodSync(PATH, 0o600)
  writeFileSync(PATH, text)
  chmodSync(PATH, mode)
  const expected = expectedKey(PATH)
  expect(await native('key'), JSON.stringify(text)).toEqual(expected)
  return expected
}

describe.skipIf(noMachine !== null)(`the key file of the native runtime${because}`, () => {
  test('is taken, and refused, as others do', async () => {
    const taken = []
    for (const text of KEY_FILES) if ('secret' in (await sameKey(text))) taken.push(text)
    expect(taken).toHaveLength(10)
  })

  test('is never taken where group or others may read it', async () => {
    for (let bits = 0; bits < 0o100; bits++) {
      const { reason } = await sameKey(SECRET, 0o600 | bits)
      if ((bits & 0o44) === 0) expect(reason, bits.toString(8)).toBeUndefined()
      else expect(reason, bits.toString(8)).toContain(`chmod 600 ${PATH}`)
    }
  })

  test('is no folder, and one that is not there is said', async () => {
    const path = join(folder, 'folder')
    mkdirSync(path)
    expect(await native('key', path)).toEqual(expectedKey(path))
    const none = JSON.parse(await harness.ask(`key ${folder}/none`)) as Verdict
    expect(none).toEqual({
      result: 1,
      reason: `${folder}/none cannot be read: No such file or directory`,
    })
  })

  test('whatever becomes of a good one, both say the same of it', async () => {
    const random = new Random(SEED)
    const pieces = ['#', '\n', '\r', ' ', '\u00a0', '\u2029', '\0', '\ufeff', SECRET, '0', 'g']
    const count = { taken: 0, refused: 0 }
    for (let run = 0; run < 800; run++) {
      const text = Buffer.from(KEY_FILES[random.below(7)]!)
      const at = random.below(text.length + 1)
      const piece = random.below(8) === 0 ? Buffer.of(random.below(256)) : null
      const put = piece ?? Buffer.from(pieces[random.below(pieces.length)]!)
      const until = at + random.below(2)
      const changed = Buffer.concat([text.subarray(0, at), put, text.subarray(until)])
      if ('secret' in (await sameKey(changed))) count.taken += 1
      else count.refused += 1
    }
    expect(count.taken).toBeGreaterThan(40)
    expect(count.refused).toBeGreaterThan(300)
  })
})
