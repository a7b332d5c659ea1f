/**
 * Files of the command: what it is given and what it writes, whatever they are called, however long
 * they are (R31-6, R31-7).
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openNvdimm } from '../../boards/emulator/index.ts'
import { connect } from '../../host-driver/connect.ts'
import { openLocal } from '../../host-driver/local.ts'
import { emulateIn, PLAIN, type Run, runIn, stop } from '../support/command/command.ts'

const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../dist/perdure.js')
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'perdure-files-')))
const at = (name: string): string => join(folder, name)
const run = (...args: string[]): Promise<Run> => runIn(folder, args)

const SLOTS = 4096
const RECORD = Buffer.alloc(1000, 'record')
const SHORT = 'one record'

let card: ChildProcess
let address = ''

beforeAll(async () => {
  const local = await openLocal({ path: at('part'), bytes: 1 << 24, engine: 'node', seed: 1 })
  const dpu = await connect(local.wire, { seed: 1, warn: () => {} })
  await dpu.format()
  const notes = await dpu.provision({ name: 'notes', slots: SLOTS, capacity: 1000 })
  const writes = Array.from({ length: SLOTS }, (_, slot) => notes.persist(slot, RECORD))
  for (const write of writes) await write.persisted
  const short = await dpu.provision({ name: 'short', slots: 4, capacity: 64 })
  await short.persist(0, Buffer.from(SHORT)).persisted
  await dpu.close()
  local.close()
  const [child, lines] = await emulateIn(folder, 1, ['part', '--udp', '127.0.0.1:0'])
  card = child
  address = lines[0]!
})

afterAll(async () => {
  await stop(card)
  rmSync(folder, { recursive: true })
})

describe('R31-6: what is written', () => {
  test('keeps the mode of a file that is there', async () => {
    writeFileSync(at('secret'), 'what was there, and was longer', { mode: 0o640 })
    expect(await run('read', address, 'short', '--raw', '--out', 'secret')).toMatchObject({
      code: 0,
    })
    expect(readFileSync(at('secret'), 'utf8')).toBe(SHORT)
    expect(statSync(at('secret')).mode & 0o7777).toBe(0o640)
  })

  test.each([
    ['of a file that is there', true],
    ['of one that is not', false],
  ])('goes through symbolic links, %s', async (_, isThere) => {
    mkdirSync(at(`far-${isThere}`))
    const target = join(`far-${isThere}`, 'target')
    if (isThere) writeFileSync(at(target), '')
    symlinkSync(target, at(`near-${isThere}`))
    symlinkSync(at(`near-${isThere}`), at(`link-${isThere}`))
    expect(await run('read', address, 'short', '--raw', '--out', `link-${isThere}`)).toMatchObject({
      code: 0,
    })
    expect(readFileSync(at(target), 'utf8')).toBe(SHORT)
    for (const name of ['near', 'link']) {
      expect(lstatSync(at(`${name}-${isThere}`)).isSymbolicLink()).toBe(true)
    }
    expect(readdirSync(at(`far-${isThere}`))).toEqual(['target'])
  })

  test('a circle of symbolic links is refused, and so is a folder', async () => {
    symlinkSync('circle', at('circle'))
    expect((await run('read', address, 'short', '--raw', '--out', 'circle')).code).not.toBe(0)
    mkdirSync(at('a-folder'))
    expect((await run('read', address, 'short', '--raw', '--out', 'a-folder')).code).not.toBe(0)
    expect(readdirSync(at('a-folder'))).toEqual([])
  })

  test.each(['SIGINT', 'SIGTERM'] as const)('%s leaves nothing half behind', async (signal) => {
    mkdirSync(at(signal))
    let interrupted = 0
    for (let i = 0; i < 20 && interrupted === 0; i++) {
      const args = [COMMAND, 'read', address, 'notes', '--raw', '--out', join(signal, 'out')]
      const child = spawn(process.execPath, args, { cwd: folder, env: PLAIN, stdio: 'ignore' })
      const ended = once(child, 'exit')
      while (child.exitCode === null && readdirSync(at(signal)).length === 0) await setImmediate()
      child.kill(signal)
      const [, by] = (await ended) as [number | null, NodeJS.Signals | null]
      const left = readdirSync(at(signal))
      if (left.includes('out')) {
        // It was whole before the signal came, which may have met the farewell.
        expect(left).toEqual(['out'])
        expect(statSync(at(join(signal, 'out'))).size).toBe(SLOTS * RECORD.length)
        rmSync(at(join(signal, 'out')))
      } else {
        interrupted++
        expect(left).toEqual([])
        expect(by).toBe(signal)
      }
    }
    expect(interrupted).toBe(1)
  })
})

describe('R31-6: an image is the same one whatever it is called', () => {
  /** A folder with an image in it, whose line 5 is poisoned. */
  function imageIn(name: string): string {
    mkdirSync(at(name))
    const path = join(at(name), 'image')
    const part = openNvdimm({ path, bytes: 8192 })
    part.poison(5)
    part.close()
    return path
  }

  test('by a symbolic link, and a link to that', () => {
    const path = imageIn('soft')
    mkdirSync(at('elsewhere'))
    symlinkSync(path, at('elsewhere/one'))
    symlinkSync('one', at('elsewhere/two'))
    for (const name of ['elsewhere/one', 'elsewhere/two']) {
      const part = openNvdimm({ path: at(name) })
      expect(part.readable(5 * 64, 1)).toBe(false)
      expect(() => openNvdimm({ path })).toThrow(/is in use/)
      part.poison(7)
      part.close()
      expect(readdirSync(at('elsewhere')).sort()).toEqual(['one', 'two'])
    }
    expect(openNvdimm({ path, readOnly: true }).readable(7 * 64, 1)).toBe(false)
  })

  test('by another name in its folder', () => {
    const path = imageIn('hard')
    linkSync(path, at('hard/another'))
    linkSync(path, at('hard/zero'))
    for (const name of ['another', 'image', 'zero']) {
      const part = openNvdimm({ path: at(`hard/${name}`) })
      expect(part.readable(5 * 64, 1), name).toBe(false)
      for (const other of ['another', 'image', 'zero']) {
        expect(() => openNvdimm({ path: at(`hard/${other}`) })).toThrow(/is in use/)
      }
      part.close()
    }
    expect(existsSync(at('hard/image.condition'))).toBe(true)
    expect(existsSync(at('hard/another.condition'))).toBe(false)
  })

  test('one with a name in another folder is refused, in words', () => {
    const path = imageIn('apart')
    linkSync(path, at('name-of-apart'))
    expect(() => openNvdimm({ path: at('name-of-apart') })).toThrow(
      /has 2 names, of which 1 in another folder: .*leave it one name/,
    )
    rmSync(path)
    openNvdimm({ path: at('name-of-apart') }).close()
  })
})

test.each([
  ['emulate', '--netdev', `unix:${'/x'.repeat(54)}`],
  ['emulate', '--join', `unix:${'/x'.repeat(54)}`],
  ['console', `unix:${'/x'.repeat(54)}`],
])('R31-6: a path too long for a socket is refused, and not cut: %s', async (...args) => {
  const { code, stderr } = await run(...args)
  expect(stderr).toMatch(/108 bytes.*107/)
  expect(code).toBe(64)
})

describe('R31-7: standard input, and a file, that has no room', () => {
  test.each([
    ['endless input', '-', '0'],
    ['endless input, behind the last slot', '-', '4'],
    ['a device without an end', '/dev/zero', '0'],
  ])('%s is refused as soon as it is known', async (_, file, slot) => {
    const args = [COMMAND, 'persist', address, 'short', file, '--slot', slot]
    const child = spawn(process.execPath, args, { cwd: folder, env: PLAIN })
    const piece = Buffer.alloc(65536)
    // Whoever takes no more ends the pipe.
    child.stdin.on('error', () => {})
    const feed = (): void => {
      while (child.exitCode === null && child.stdin.write(piece));
    }
    if (file === '-') child.stdin.on('drain', feed)
    if (file === '-') feed()
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const [code] = (await once(child, 'close')) as [number]
    expect(said).toContain("'short'")
    expect(said).toContain('ends at 3')
    expect(code).toBe(64)
  })

  test('what fits to the last byte is taken', async () => {
    writeFileSync(at('whole'), Buffer.alloc(256, 'x'))
    expect(await run('persist', address, 'short', 'whole', '--raw')).toMatchObject({ code: 0 })
    writeFileSync(at('more'), Buffer.alloc(257, 'x'))
    expect(await run('persist', address, 'short', 'more', '--raw')).toMatchObject({ code: 64 })
    expect(await run('persist', address, 'short', 'absent', '--raw')).toMatchObject({ stdout: '' })
  })

  test('beside its header what fits to the last byte is taken', async () => {
    writeFileSync(at('whole'), Buffer.alloc(192, 'x'))
    expect(await run('persist', address, 'short', 'whole')).toMatchObject({ code: 0 })
    writeFileSync(at('more'), Buffer.alloc(193, 'x'))
    expect(await run('persist', address, 'short', 'more')).toMatchObject({ code: 64 })
    expect((await run('read', address, 'short')).stdout).toBe('x'.repeat(192))
  })
})
