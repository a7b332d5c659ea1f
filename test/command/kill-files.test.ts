/**
 * The command is killed while it makes an image, makes a region, removes one, or opens a part that
 * was made larger. Whatever the moment, the next start says what it found, does what it is asked,
 * and serves all that was acknowledged before.
 *
 * A moment is a call that changes files (support/command/kill-at-call.cjs): in front of it, or
 * half-way where it writes. All of them are played where they are few, else so many drawn ones.
 */

import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../boards/emulator/base/random.ts'
import { connect } from '../../host-driver/index.ts'
import { openLocal } from '../../host-driver/local.ts'
import { Runtime } from '../support/board/runtime.ts'
import { PATIENT } from '../support/run/patience.ts'
import { THOROUGH } from '../support/run/thorough.ts'

const COMMAND = fileURLToPath(new URL('../../dist/perdure.js', import.meta.url))
const KILLER = fileURLToPath(new URL('../support/command/kill-at-call.cjs', import.meta.url))
const SEED = 1
/** Moments of each kind. */
const MOMENTS = 50
const PART_BYTES = 1 << 20

const folder = mkdtempSync(join(tmpdir(), 'perdure-kill-files-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const base = join(folder, 'base')
const KEPT = ['first', 'second', 'third']

/** A part with three records that were acknowledged, and a region that may go. */
beforeAll(async () => {
  const local = await openLocal({ path: base, bytes: PART_BYTES, engine: 'node', seed: SEED })
  const dpu = await connect(local.wire, { seed: SEED })
  await dpu.format()
  const kept = await dpu.provision({ name: 'kept', slots: 64, capacity: 64 })
  await dpu.provision({ name: 'old', slots: 64, capacity: 64 })
  for (const [slot, text] of KEPT.entries()) await kept.persist(slot, Buffer.from(text)).persisted
  await dpu.close()
  local.close()
})

interface Kind {
  readonly what: string
  readonly options: readonly string[]
  /** Lays what is there before the start that is killed. */
  readonly lay: (path: string) => void
  /** Options of the next start, where they are others. */
  readonly again?: readonly string[]
  readonly regions: readonly string[]
  /** A region that the kill may have left. */
  readonly maybe?: string
}

const KINDS: readonly Kind[] = [
  {
    what: 'an image is made',
    options: ['--create', '--size', '1M', '--region', 'kept:64:64'],
    lay: () => {},
    regions: ['kept'],
  },
  {
    what: 'a region is made',
    options: ['--region', 'made:1024:64'],
    lay: (path) => copyFileSync(base, path),
    regions: ['kept', 'made', 'old'],
  },
  {
    what: 'a region is removed',
    options: ['--remove', 'old', '--region', 'made:64:64'],
    // What is removed already would be refused.
    again: ['--region', 'made:64:64'],
    lay: (path) => copyFileSync(base, path),
    regions: ['kept', 'made'],
    maybe: 'old',
  },
  {
    what: 'a part is larger than it was',
    options: ['--region', 'made:64:64'],
    lay: (path) => {
      copyFileSync(base, path)
      truncateSync(path, 2 * PART_BYTES)
    },
    regions: ['kept', 'made', 'old'],
  },
]

const argumentsFor = (options: readonly string[], path: string): string[] => {
  return [
    COMMAND,
    'emulate',
    path,
    '--udp',
    '127.0.0.1:0',
    '--engine',
    'node',
    '--json',
    ...options,
  ]
}

/**
 * A start that is killed in front of that call, or half-way in it; 0 is none. Behind its first line
 * it is stopped in order: how many calls follow depends on when. Whether it was killed.
 */
async function startOf(kind: Kind, path: string, call: number, isHalf: boolean): Promise<boolean> {
  const environment = {
    KILL_AT_CALL: String(call),
    KILL_HALF: isHalf ? '1' : '',
    CALLS_TO: callsOf(path),
  }
  const args = ['--require', KILLER, ...argumentsFor(kind.options, path)]
  const one = new Runtime('the command', process.execPath, args, folder, undefined, environment)
  one.line().then(
    () => one.process.kill('SIGTERM'),
    () => {},
  )
  const code = await one.over()
  expect([null, 0], `${call}: ${one.story}`).toContain(code)
  return code === null
}

/** Where a start that was not killed says how many such calls it made. */
const callsOf = (path: string): string => `${path}.calls`

/** Its first line says where it serves, and what it found. */
async function serving(one: Runtime): Promise<string> {
  const { address, part } = JSON.parse(await one.line()) as {
    address: string
    part: { state: string }
  }
  expect(part.state).toBe('serving')
  return address
}

/** The start behind a kill: it serves what was acknowledged, and has what it was asked for. */
async function judge(kind: Kind, path: string): Promise<void> {
  const one = new Runtime(
    'the command',
    process.execPath,
    argumentsFor(kind.again ?? kind.options, path),
    folder,
  )
  try {
    const dpu = await connect(await serving(one), PATIENT)
    const names = (await dpu.regions()).map(({ name }) => name)
    expect(names.filter((name) => name !== kind.maybe).sort()).toEqual(kind.regions)
    const kept = await dpu.openRegion('kept')
    const isOld = kind.what !== 'an image is made'
    for (const [slot, text] of KEPT.entries()) {
      const { data } = await kept.read(slot)
      expect(Buffer.from(data).toString()).toBe(isOld ? text : '')
    }
    const last = await dpu.openRegion(kind.regions.at(-1)!)
    await last.persist(63, Buffer.from('behind it')).persisted
    await dpu.close()
    expect(await one.end('SIGTERM')).toBe(0)
  } finally {
    await one.end('SIGKILL')
  }
}

describe.each(KINDS)('R1-A5: killed while $what', THOROUGH, (kind) => {
  test('the next start serves, whatever the moment', async () => {
    const path = join(folder, kind.what.replaceAll(' ', '-'))
    const random = new Random(SEED)
    const lay = (): void => {
      for (const file of [path, `${path}.lock`, `${path}.condition`]) rmSync(file, { force: true })
      kind.lay(path)
    }
    lay()
    expect(await startOf(kind, path, 0, false)).toBe(false)
    const calls = Number(readFileSync(callsOf(path), 'utf8'))
    expect(calls).toBeGreaterThan(2)
    let killed = 0
    const every = calls * 2 <= MOMENTS
    for (let i = 0; i < (every ? calls * 2 : MOMENTS); i++) {
      const call = every ? 1 + (i >> 1) : 1 + random.below(calls)
      const isHalf = every ? (i & 1) === 1 : random.chance(0.5)
      lay()
      if (await startOf(kind, path, call, isHalf)) killed++
      await judge(kind, path).catch((error: unknown) => {
        const moment = `${isHalf ? 'half-way in' : 'in front of'} call ${call} of ${calls}`
        throw new Error(`killed ${moment}: ${String(error)}`, { cause: error })
      })
      expect(existsSync(`${path}.lock`)).toBe(false)
    }
    // The last calls of a start are sometimes fewer.
    expect(killed).toBeGreaterThan(MOMENTS / 2)
  })
})
