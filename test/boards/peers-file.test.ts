/**
 * A peers file that its card changes (KEEP_PEER), as the emulator does it and as the native runtime
 * does: a line comes, a line goes, everything else stays, and a change that is cut off anywhere
 * leaves the peers of before or those behind it.
 *
 * The C is compiled here with the sanitizers; without a compiler, or without libsodium, the native
 * runtime is skipped.
 */

import {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { keyText } from '../../boards/software/keys.ts'
import { type Peer, parsePeers } from '../../boards/software/peers.ts'
import { PeersFile } from '../../boards/software/peers-file.ts'
import { BAD_COMMAND, DONE, NOT_KEPT } from '../../firmware/board/hal.ts'
import { PEER_LINE_BYTES, PEERS } from '../../firmware/board/limits.ts'
import { Harness } from '../support/native/harness.ts'
import { compileIdentity } from '../support/native/identity-program.ts'
import { because, noMachine } from '../support/native/machine-program.ts'
import { keyPair } from '../support/sessions/peers.ts'

const KEYS = Array.from({ length: PEERS + 1 }, (_, i) => keyText(keyPair(i + 1).public))
const [ANN, BEN, CID] = KEYS as [string, string, string]
/** Comments, blank lines, a return, and a last line without its end. */
const GOOD = `# who may come\n\n\t${ANN.toUpperCase()} ann admin\r\n${BEN} ben read:a\n# end`

const folder = mkdtempSync(join(tmpdir(), 'perdure-peers-'))
const PATH = join(folder, 'peers')
let harness: Harness

beforeAll(() => {
  if (noMachine === null) {
    harness = new Harness(compileIdentity(), [])
  }
})
afterAll(async () => {
  if (noMachine === null) expect(await harness.end()).toBe(0)
  rmSync(folder, { recursive: true, force: true })
})
beforeEach(() => writeFileSync(PATH, GOOD))

/** What the file says, as both read it when they start. */
const peersIn = (path = PATH): Peer[] => parsePeers(readFileSync(path, 'utf8'), 'given')
const namesIn = (path = PATH): string[] => peersIn(path).map(({ name }) => name)

/** One that keeps a peers file: opened before each test, and asked to change it. */
interface Keeper {
  open(path?: string): Promise<void>
  keep(text: string | Uint8Array, comes: boolean): Promise<number>
}

let file: PeersFile
const emulator: Keeper = {
  open: async (path = PATH) => {
    file = new PeersFile(path)
  },
  keep: async (text, comes) => file.keep(Buffer.from(text as string), comes),
}

let counted = 0
const native: Keeper = {
  open: async (path = PATH) => {
    await harness.ask(`open ${path}`)
  },
  keep: async (text, comes) => {
    const hex = Buffer.from(text as string).toString('hex')
    const said = JSON.parse(await harness.ask(`${comes ? 'come' : 'go'} ${hex}`))
    counted = said.peers
    return said.result
  },
}

const BOTH: readonly (readonly [string, Keeper, boolean])[] = [
  ['the emulator', emulator, false],
  [`the native runtime${because}`, native, noMachine !== null],
]

/** Text, whether it comes or goes, and what it is. */
const REFUSED: readonly (readonly [string, string | Uint8Array, boolean])[] = [
  ['a key that is there', `${BEN} cid admin`, true],
  ['a name that is there', `${CID} ben admin`, true],
  ['no right', `${CID} cid`, true],
  ['no key', 'cid admin', true],
  ['a key that nobody has', `${'0'.repeat(64)} cid admin`, true],
  ['two lines', `${CID} cid admin\n${KEYS[3]} dan admin`, true],
  ['a line with its end', `${CID} cid admin\n`, true],
  ['a return', `${CID} cid admin\r`, true],
  ['a comment', `#${CID} cid admin`, true],
  ['nothing', '', true],
  ['what is no UTF-8', Buffer.concat([Buffer.from(`${CID} `), Buffer.of(0xff)]), true],
  ['a key that is not there', CID, false],
  ['what is no key', 'ann', false],
  ['a part of a key', BEN.slice(0, 62), false],
  ['a key and more', `${BEN} ben`, false],
]

describe.each(BOTH)('%s', (_, keeper, skipped) => {
  const { keep } = keeper
  beforeEach(async () => {
    if (!skipped) await keeper.open()
  })

  test.skipIf(skipped)(
    'R1-S16: a line comes, and goes again; all else stays as it was',
    async () => {
      expect(await keep(`${CID} cid read:a write:b%20c`, true)).toBe(DONE)
      expect(readFileSync(PATH, 'utf8')).toBe(`${GOOD}\n ${CID} cid read:a write:b%20c\n`)
      expect(namesIn()).toEqual(['ann', 'ben', 'cid'])
      expect(peersIn()[2]).toMatchObject({ read: ['a'], write: ['b c'] })
      expect(await keep(CID, false)).toBe(DONE)
      expect(readFileSync(PATH, 'utf8')).toBe(`${GOOD}\n#${CID} cid read:a write:b%20c\n`)
      expect(await keep(BEN, false)).toBe(DONE)
      expect(namesIn()).toEqual(['ann'])
      expect(readFileSync(PATH, 'utf8')).toContain(`\n#${BEN.slice(1)} ben read:a\n`)
      expect(await keep(`${BEN} ben admin`, true)).toBe(DONE)
      expect(namesIn()).toEqual(['ann', 'ben'])
      // In upper case, with a tab before it.
      expect(await keep(ANN, false)).toBe(DONE)
      expect(namesIn()).toEqual(['ben'])
      expect(readFileSync(PATH, 'utf8')).toContain(`\n#${ANN.toUpperCase()} ann admin\r\n`)
    },
  )

  test.skipIf(skipped).each(REFUSED)(
    'R1-S16: %s is refused, and nothing changed',
    async (_, text, comes) => {
      expect(await keep(text, comes)).toBe(BAD_COMMAND)
      expect(readFileSync(PATH, 'utf8')).toBe(GOOD)
    },
  )

  test.skipIf(skipped)('R1-S16: nobody goes who is the last one, or the last admin', async () => {
    expect(await keep(ANN, false)).toBe(NOT_KEPT)
    expect(readFileSync(PATH, 'utf8')).toBe(GOOD)
    for (const rights of ['admin', 'read:a']) {
      writeFileSync(PATH, `${BEN} ben ${rights}`)
      await keeper.open()
      expect(await keep(BEN, false)).toBe(NOT_KEPT)
      expect(namesIn()).toEqual(['ben'])
    }
  })

  test.skipIf(skipped)(
    'R1-S16: a file that is not there any more, or was spoiled, is left alone',
    async () => {
      for (const spoiled of ['# nobody\n', `${ANN} ann\n`, Buffer.of(0xff)]) {
        writeFileSync(PATH, spoiled)
        expect(await keep(`${CID} cid admin`, true)).toBe(NOT_KEPT)
        expect(await keep(BEN, false)).toBe(NOT_KEPT)
        expect(readFileSync(PATH)).toEqual(Buffer.from(spoiled))
      }
      unlinkSync(PATH)
      expect(await keep(`${CID} cid admin`, true)).toBe(NOT_KEPT)
      expect(await keep(BEN, false)).toBe(NOT_KEPT)
    },
  )
})

describe.each(BOTH)('%s, of lines', (_, keeper, skipped) => {
  const { keep } = keeper
  beforeEach(async () => {
    if (!skipped) await keeper.open()
  })

  test.skipIf(skipped)('R1-S16: as many come as a card knows, with the longest lines', async () => {
    const long = Array.from({ length: 8 }, (_, i) => `write:${`%c3%a9`.repeat(15)}${i}`).join(' ')
    for (const [i, key] of KEYS.slice(2).entries()) {
      const line = `${key} ${`${i}`.padStart(32, 'x')} ${long}`
      expect(line.length).toBeLessThanOrEqual(PEER_LINE_BYTES)
      expect(await keep(line, true)).toBe(i < PEERS - 2 ? DONE : BAD_COMMAND)
    }
    expect(peersIn()).toHaveLength(PEERS)
  })

  test.skipIf(skipped)(
    'R1-S16: a line that was torn once stays a comment, and others come',
    async () => {
      for (const torn of ['#', `#${CID}`, `#${CID} cid adm`]) {
        writeFileSync(PATH, `${GOOD}\n${torn}`)
        await keeper.open()
        expect(await keep(`${CID} cid admin`, true)).toBe(DONE)
        expect(readFileSync(PATH, 'utf8')).toBe(`${GOOD}\n${torn}\n ${CID} cid admin\n`)
      }
    },
  )
})

describe.skipIf(noMachine !== null)(`the native runtime alone${because}`, () => {
  beforeEach(() => native.open())

  test('R1-S16: cut off at any byte, a line has not come, and comes next time', async () => {
    const line = `${CID} cid read:a`
    const whole = Buffer.byteLength(GOOD) + line.length + 3
    for (let most = Buffer.byteLength(GOOD); most < whole; most++) {
      writeFileSync(PATH, GOOD)
      await native.open()
      await harness.ask(`limit ${most}`)
      expect(await native.keep(line, true)).toBe(NOT_KEPT)
      await harness.ask('limit none')
      expect(readFileSync(PATH)).toHaveLength(most)
      expect(namesIn()).toEqual(['ann', 'ben'])
      expect(await native.keep(line, true)).toBe(DONE)
      expect(namesIn()).toEqual(['ann', 'ben', 'cid'])
    }
  })

  test('R1-S16: a change that is not known to be durable is taken back', async () => {
    const line = `${CID} cid read:a`
    for (const [sync, text, comes] of [
      [1, line, true],
      [2, line, true],
      [1, BEN, false],
    ] as const) {
      writeFileSync(PATH, GOOD)
      await native.open()
      await harness.ask(`fail ${sync}`)
      expect(await native.keep(text, comes)).toBe(NOT_KEPT)
      expect(namesIn()).toEqual(['ann', 'ben'])
      expect(await native.keep(text, comes)).toBe(DONE)
      expect(namesIn()).toEqual(comes ? ['ann', 'ben', 'cid'] : ['ann'])
    }
  })

  test('R1-S16: a file that cannot be opened for writing keeps no change', async () => {
    await native.open(folder)
    expect(await native.keep(`${CID} cid admin`, true)).toBe(NOT_KEPT)
    expect(await native.keep(BEN, false)).toBe(NOT_KEPT)
  })

  test('R1-S16: it says how many may come', async () => {
    await native.keep(`${CID} cid admin`, true)
    expect(counted).toBe(3)
    await native.keep(BEN, false)
    expect(counted).toBe(2)
    await native.keep(BEN, false)
    expect(counted).toBe(2)
  })

  test('R1-S16: a file that was replaced is not changed, nor is the other one', async () => {
    const other = join(folder, 'other')
    copyFileSync(PATH, other)
    renameSync(other, PATH)
    expect(await native.keep(`${CID} cid admin`, true)).toBe(NOT_KEPT)
    expect(await native.keep(BEN, false)).toBe(NOT_KEPT)
    expect(readFileSync(PATH, 'utf8')).toBe(GOOD)
  })
})
