/**
 * The kills of boards, seen to themselves: the judge finds every damage that is done on purpose,
 * and nothing where there is none; the command says what it shall, and ends as it shall.
 *
 * The boards' own kills are in board.test.ts and behind `npm run kill`.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openLocal } from '../../host-driver/local.ts'
import { randomSource } from '../../host-driver/way/options.ts'
import { copyAt, readSuperblock, sealSlot } from '../support/judges/oracle.ts'
import { killCommand } from './command.ts'
import { judgeAfterKill, judgeByRead, judgeRecovered } from './judge.ts'
import { bytesOf, type Entry, isAllowed, Ledger, levelOf, PART_BYTES, versionOf } from './ledger.ts'
import { Load, openClient } from './load.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-kill-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A part after a load that came to its end, and before its last stretch. */
interface Loaded {
  readonly ledger: Ledger
  readonly part: Uint8Array
  readonly earlier: Uint8Array
}

/** The load of the kills, on the emulated card in this process, for so many answers. */
async function loaded(): Promise<Loaded> {
  const path = join(folder, 'part.nvdimm')
  const local = await openLocal({ path, bytes: PART_BYTES, engine: 'node', seed: 5 })
  const ledger = new Ledger()
  const images: Uint8Array[] = []
  for (const seed of [1, 2]) {
    const load = new Load(ledger, randomSource(seed))
    await load.start(local.wire, 1)
    while (load.acknowledged < 500) await new Promise((resolve) => setImmediate(resolve))
    load.stop()
    await load.drain()
    const { dpu, regions } = await openClient(local.wire, new AbortController().signal)
    expect(await judgeByRead(regions, ledger)).toEqual([])
    await dpu.close()
    images.push(local.nvdimm.live.slice())
  }
  local.close()
  return { ledger, earlier: images[0]!, part: images[1]! }
}

describe('the judge', () => {
  let world: Loaded
  beforeAll(async () => {
    world = await loaded()
  })

  /** A record of two copies, whose last level was that. */
  function entryAt(level: string): Entry {
    const { entries } = world.ledger
    return entries.find((one) => one.atLeast > 1 && levelOf(one, one.atLeast) === level)!
  }

  /** The place of a copy in the part. */
  function placeOf(entry: Entry, copy: number): { at: number; stride: number; key: Uint8Array } {
    const regions = readSuperblock(world.part)!.regions
    const region = regions.find(({ name }) => name === entry.target.name)!
    return { at: copyAt(region, copy, entry.slot), stride: region.stride, key: region.key }
  }

  /** The part with something done to some copies of a record. */
  function damaged(
    entry: Entry,
    copies: readonly number[],
    how: (bytes: Uint8Array, key: Uint8Array, at: number) => void,
  ): Uint8Array {
    const part = world.part.slice()
    for (const copy of copies) {
      const { at, stride, key } = placeOf(entry, copy)
      how(part.subarray(at, at + stride), key, at)
    }
    return part
  }

  /** What both looks at the part say of it. */
  function verdicts(part: Uint8Array): { killed: string[]; recovered: string[] } {
    const killed = judgeAfterKill(part, world.ledger).violations.map(({ kind }) => kind)
    return { killed, recovered: judgeRecovered(part, world.ledger).map(({ kind }) => kind) }
  }

  test('finds nothing where nothing was done', () => {
    expect(verdicts(world.part)).toEqual({ killed: [], recovered: [] })
    expect(judgeAfterKill(world.part, world.ledger)).toMatchObject({ tornCopies: 0, underWay: 0 })
  })

  test('one byte of one copy: fewer than 2of2 said, enough for 1of2', () => {
    const flip = (bytes: Uint8Array): void => {
      bytes[70]! ^= 1
    }
    const torn = { killed: ['fewer'], recovered: ['fewer'] }
    expect(verdicts(damaged(entryAt('2of2'), [0], flip))).toEqual(torn)
    expect(verdicts(damaged(entryAt('1of2'), [1], flip))).toEqual({ ...torn, killed: [] })
  })

  test('one byte of every copy, data or header: torn', () => {
    for (const byte of [3, 20, 24, 33, 64, 79]) {
      const part = damaged(entryAt('2of2'), [0, 1], (bytes) => {
        bytes[byte]! ^= 0x80
      })
      expect(verdicts(part), `byte ${byte}`).toEqual({ killed: ['torn'], recovered: ['torn'] })
    }
  })

  test('what stood there before, whole in every copy: missing', () => {
    const { entries } = world.ledger
    const old = (entry: Entry): number => {
      const { at, stride } = placeOf(entry, 0)
      return Buffer.compare(
        world.earlier.subarray(at, at + stride),
        world.part.subarray(at, at + stride),
      )
    }
    const entry = entries.find((one) => one.target.copies === 2 && old(one) !== 0)!
    const part = damaged(entry, [0, 1], (bytes, _, at) => {
      bytes.set(world.earlier.subarray(at, at + bytes.length))
    })
    expect(verdicts(part)).toEqual({ killed: ['missing'], recovered: ['missing'] })
  })

  test('a version that nobody has begun, under a good check code: torn', () => {
    const entry = entryAt('2of2')
    const part = damaged(entry, [0, 1], (bytes, key) => {
      const data = bytesOf(entry, entry.begun + 1).slice(0, entry.target.capacity)
      new DataView(bytes.buffer, bytes.byteOffset).setUint32(28, data.length, true)
      bytes.set(data, 64)
      sealSlot(bytes, key)
    })
    expect(verdicts(part).killed).toEqual(['torn'])
  })

  test('a region that is gone: every record of it is missing', () => {
    const written = world.ledger.entries.filter(({ atLeast }) => atLeast > 0)
    expect(verdicts(new Uint8Array(PART_BYTES)).killed).toEqual(written.map(() => 'missing'))
  })

  test('a version is known by all of its bytes', () => {
    for (const entry of world.ledger.entries.filter(({ begun }) => begun > 0)) {
      const bytes = bytesOf(entry, entry.begun)
      expect(bytes.length).toBeLessThanOrEqual(entry.target.capacity)
      expect(versionOf(entry, bytes)).toBe(entry.begun)
      bytes[bytes.length - 1]! ^= 1
      expect(versionOf(entry, bytes)).toBe(-1)
    }
  })

  test('what was acknowledged, or begun since the last look, may be there: nothing else', () => {
    const entry = { ...entryAt('2of2'), atLeast: 5, from: 8, begun: 9 }
    const allowed = [...Array(12).keys()].filter((version) => isAllowed(entry, version))
    expect(allowed).toEqual([5, 8, 9])
    const acknowledged = { ...entry, atLeast: 8 }
    expect([...Array(12).keys()].filter((one) => isAllowed(acknowledged, one))).toEqual([8, 9])
  })
})

describe('the command', () => {
  async function kill(...args: string[]): Promise<{ code: number; out: string; talk: string }> {
    const said = { out: '', talk: '' }
    const code = await killCommand(args, {
      print: (text) => {
        said.out += text
      },
      say: (line) => {
        said.talk += `${line}\n`
      },
    })
    return { code, ...said }
  }

  test('a wrong command line ends with 2, and help with 0', async () => {
    for (const args of [['--board', 'toaster'], ['--kills', '0'], ['--seed', 'x'], ['more']]) {
      expect((await kill(...args)).code, args.join(' ')).toBe(2)
    }
    expect(await kill('--help')).toMatchObject({ code: 0, talk: '' })
  })

  test('a board that cannot do it ends with 3, and says why', async () => {
    const { code, talk } = await kill('--board', 'emulator', '--drop-flush')
    expect(code).toBe(3)
    expect(talk).toContain('emulator cannot run here')
  })

  test('--json gives what was counted, and a table stands for it without', async () => {
    const some = ['--board', 'emulator', '--kills', '1', '--seed', '6']
    const { code, out, talk } = await kill(...some, '--json')
    expect(code, talk).toBe(0)
    const told = { board: 'emulator', seed: 6, kills: 1, missing: 0, torn: 0, fewer: 0 }
    expect(JSON.parse(out)).toMatchObject({ ...told, violations: [] })
    expect((await kill(...some)).out).toMatch(/acknowledged and missing +0\n/)
  })
})
