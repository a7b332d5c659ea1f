/**
 * The command `perdure` as a user runs it: the built file, in a process of its own.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exitCodeOf } from '../../host-driver/command/base/exit-codes.ts'
import {
  connect,
  OutcomeUnknown,
  PerdureError,
  RecordLost,
  RefusedError,
} from '../../host-driver/index.ts'
import { openLocal } from '../../host-driver/local.ts'
import { PLAIN } from '../support/command/command.ts'
import { copiesOf } from '../support/judges/copies.ts'
import { THOROUGH } from '../support/run/thorough.ts'

const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../dist/perdure.js')
const folder = mkdtempSync(join(tmpdir(), 'perdure-cli-'))
const content = Uint8Array.from({ length: 20_500 }, (_, i) => (i * 7 + (i >> 8)) & 0xff)
const sha256 = createHash('sha256').update(content).digest('hex')

interface Run {
  code: number | null
  stdout: string
  stderr: string
}

function start(args: readonly string[], input?: Uint8Array): ChildProcess {
  const child = spawn(process.execPath, [COMMAND, ...args], { cwd: folder, env: PLAIN })
  child.stdin.end(input)
  return child
}

async function run(args: readonly string[], input?: Uint8Array): Promise<Run> {
  const child = start(args, input)
  const text = { stdout: '', stderr: '' }
  child.stdout!.setEncoding('latin1').on('data', (piece: string) => {
    text.stdout += piece
  })
  child.stderr!.setEncoding('utf8').on('data', (piece: string) => {
    text.stderr += piece
  })
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { code, ...text }
}

/** Runs with --json; stdout must be one JSON object. */
async function runJson(args: readonly string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await run([...args, '--json'])
  expect(stderr).toBe('')
  expect(code).toBe(0)
  return JSON.parse(stdout) as Record<string, unknown>
}

/** Makes an image with a region 'orders' of 32 records of 1000 bytes, some of them written. */
async function makeImage(name: string, damaged: readonly number[] = []): Promise<string> {
  const path = join(folder, name)
  const local = await openLocal({ path, bytes: 1 << 20, engine: 'node', seed: 5 })
  const dpu = await connect(local.wire, { seed: 5 })
  await dpu.format()
  const region = await dpu.provision({ name: 'orders', slots: 32, capacity: 1000 })
  for (let slot = 0; slot < 4; slot++) {
    await region.persist(slot, new Uint8Array(100 + slot).fill(slot)).persisted
  }
  await dpu.close()
  local.close()
  if (damaged.length > 0) damage(path, damaged)
  return path
}

/** Flips a bit in every copy of the records: they are lost. */
function damage(path: string, records: readonly number[]): void {
  const bytes = readFileSync(path)
  for (const at of records.flatMap((record) => copiesOf(bytes, record))) bytes[at + 64]! ^= 1
  writeFileSync(path, bytes)
}

function hashOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

beforeAll(() => {
  writeFileSync(join(folder, 'file.bin'), content)
})
afterAll(() => rmSync(folder, { recursive: true }))

describe('over the tunnel', () => {
  let card: ChildProcess
  let address = ''

  beforeAll(async () => {
    const args = [
      'emulate',
      'card.img',
      '--create',
      '--size',
      '1M',
      '--udp',
      '127.0.0.1:0',
      '--json',
    ]
    card = start([...args, '--region', 'orders:64:1000', '--region', 'three:4:64:3'])
    card.stderr!.resume()
    const line = await new Promise<string>((resolve) => {
      card.stdout!.setEncoding('utf8').once('data', resolve)
    })
    const told = JSON.parse(line) as { address: string; regions: string[] }
    expect(told.regions).toEqual(['orders', 'three'])
    address = told.address
  })

  test('a file is persisted, read back and verified, and the capture can be read', async () => {
    const done = await runJson(['persist', address, 'orders', 'file.bin', '--capture', 'c.pcap'])
    expect(done).toMatchObject({ records: 21, bytes: 20_500, copies: 2, of: 2, sha256 })
    const read = await run(['read', address, 'orders', '--out', 'back.bin'])
    expect(read).toMatchObject({ code: 0, stdout: '' })
    expect(read.stderr).toContain(sha256)
    expect(hashOf(join(folder, 'back.bin'))).toBe(sha256)
    const verified = await runJson(['verify', address])
    expect(verified).toMatchObject({ lost: 0, regions: [{ checked: 64 }, { checked: 4 }] })
    const lines = (await run(['capture', 'c.pcap'])).stdout.split('\n')
    expect(lines.filter((line) => line.includes('WRITE_PERSIST Only')).length).toBeGreaterThan(20)
    expect(lines.some((line) => line.includes('PERSIST_ACK'))).toBe(true)
    const objects = (await run(['capture', 'c.pcap', '--json'])).stdout.trim().split('\n')
    expect(objects.length).toBe(lines.length - 1)
    for (const one of objects) expect(JSON.parse(one)).toMatchObject({ icrc: true })
  })

  test('D-10: in batches a file is as durable, under one status for all of it', async () => {
    const args = ['persist', address, 'orders', 'file.bin', '--batch', 'inOrder']
    const done = await runJson(args)
    expect(done).toMatchObject({ records: 21, copies: 2, sha256, batches: 1, bursts: 1 })
    const { code, stdout } = await run([...args, '--level', '1of2'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/batches +1; bursts 1/)
  })

  test('standard input and output are as good as files', async () => {
    const small = content.subarray(0, 150)
    const args = ['persist', address, 'three', '-', '--raw', '--slot', '1', '--level', '2of3']
    const done = await run(args, small)
    expect(done.code).toBe(0)
    expect(done.stdout).toMatch(/durable +3 records/)
    const read = await run(['read', address, 'three', '--slots', '1..3'])
    expect(read).toMatchObject({ code: 0, stdout: Buffer.from(small).toString('latin1') })
    expect((await run(['read', address, 'three', '--slots', '0'])).stdout).toBe('')
  })

  test('inspect shows the part, its regions and its health', async () => {
    const { part, regions } = await runJson(['inspect', address])
    expect(part).toMatchObject({ state: 'serving', armed: true, incarnation: 1, unsettled: 0 })
    expect(regions).toMatchObject([
      { name: 'orders', slots: 64 },
      { name: 'three', copies: 3 },
    ])
    const { code, stdout } = await run(['inspect', address])
    expect(code).toBe(0)
    expect(stdout).toMatch(/state +serving/)
    expect(stdout).toMatch(/three +records +4 +64 +3/)
  })

  test('refusals come with a name and an exit code', async () => {
    const unknown = await run(['read', address, 'nobody', '--json'])
    expect(unknown).toMatchObject({ code: 69, stdout: '' })
    const { error } = JSON.parse(unknown.stderr) as { error: Record<string, unknown> }
    expect(error).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'NO_REGION' })
    const long = await run(['persist', address, 'three', 'file.bin'])
    expect(long).toMatchObject({ code: 64, stdout: '' })
    expect(long.stderr).toMatch(/'three' ends at 3/)
  })

  test('a signal stops the card, and the image has everything', async () => {
    const ended = new Promise((resolve) => card.on('close', resolve))
    card.kill('SIGTERM')
    expect(await ended).toBe(0)
    const read = await run(['read', 'card.img', 'orders', '--engine', 'node'])
    expect(createHash('sha256').update(Buffer.from(read.stdout, 'latin1')).digest('hex')).toBe(
      sha256,
    )
  })
})

describe('on an image', () => {
  test('persist writes it, the commands that look do not', THOROUGH, async () => {
    await makeImage('look.img')
    const before = hashOf(join(folder, 'look.img'))
    for (const [name, ...rest] of [['inspect'], ['verify'], ['read', 'orders', '--raw']]) {
      const { code } = await run([name!, 'look.img', ...rest, '--engine', 'node'])
      expect(code).toBe(0)
    }
    expect(hashOf(join(folder, 'look.img'))).toBe(before)
    await runJson(['persist', 'look.img', 'orders', 'file.bin', '--form', 'carried'])
    const read = await run(['read', 'look.img', 'orders', '--slots', '1..21', '--out', 'look.bin'])
    expect(read.code).toBe(0)
    expect(hashOf(join(folder, 'look.bin'))).toBe(sha256)
    const records = (await run(['read', 'look.img', 'orders', '--slots', '3..4', '--json'])).stdout
    const [first] = records.split('\n')
    expect(JSON.parse(first!)).toMatchObject({ slot: 3, length: 1000, operationId: '4' })
  })

  test('D-14: recover says what is lost, and gives up what it is told to', async () => {
    await makeImage('lost.img', [1, 2])
    const engine = ['--engine', 'node']
    const found = await run(['verify', 'lost.img', ...engine])
    expect(found.code).toBe(1)
    expect(found.stdout).toMatch(/orders +32 +0 +0 +2/)
    const read = await run(['read', 'lost.img', 'orders', '--raw', ...engine, '--json'])
    expect(read.stdout.trim().split('\n').length).toBe(1)
    expect(read.stderr).toMatch(/PERDURE_RECORD_LOST/)
    expect(read.code).toBe(1)
    // A file that was there before is left alone, and no half of a new one is left.
    writeFileSync(join(folder, 'kept.bin'), 'kept')
    const out = await run(['read', 'lost.img', 'orders', '--raw', ...engine, '--out', 'kept.bin'])
    expect(out.code).toBe(1)
    expect(readFileSync(join(folder, 'kept.bin'), 'utf8')).toBe('kept')
    expect(readdirSync(folder).filter((name) => name.startsWith('kept.'))).toEqual(['kept.bin'])
    const told = await run(['recover', 'lost.img', '--scan', ...engine])
    expect(told.stdout).toMatch(/orders +1 +media +both torn|orders +1 +media +equal but invalid/)
    expect(told.stdout).toMatch(/LOST/)
    expect(told.code).toBe(1)
    const whole = await run(['recover', 'lost.img', '--discard', 'orders:3', ...engine])
    expect(whole).toMatchObject({ code: 64, stdout: '' })
    expect(whole.stderr).toMatch(/not lost/)
    const both = ['--discard', 'orders:1', '--discard', 'orders:2']
    expect((await run(['recover', 'lost.img', ...both, ...engine])).code).toBe(0)
    expect((await run(['verify', 'lost.img', ...engine])).code).toBe(0)
  })

  test(
    'a region of bytes has no records, and a command for records says so',
    THOROUGH,
    async () => {
      const local = await openLocal({ path: join(folder, 'bytes.img'), bytes: 1 << 20, seed: 5 })
      const dpu = await connect(local.wire, { seed: 5 })
      await dpu.format()
      await dpu.provisionBytes({ name: 'heap', length: 8192 })
      await dpu.close()
      local.close()
      const engine = ['--engine', 'node']
      for (const args of [
        ['persist', 'bytes.img', 'heap', 'file.bin'],
        ['persist', 'bytes.img', 'heap', 'file.bin', '--batch', 'inOrder'],
        ['read', 'bytes.img', 'heap'],
        ['read', 'bytes.img', 'heap', '--slots', '0..3', '--out', 'heap.bin'],
      ]) {
        const ended = await run([...args, ...engine])
        expect(ended).toMatchObject({ code: 64, stdout: '' })
        expect(ended.stderr).toContain("region 'heap' is of the kind 'bytes', and has no records")
        expect(ended.stderr).toContain("name one of the kind 'records'")
      }
      expect(existsSync(join(folder, 'heap.bin'))).toBe(false)
      expect(await runJson(['verify', 'bytes.img', ...engine])).toMatchObject({ regions: [] })
      const scan = await run(['recover', 'bytes.img', '--scan', ...engine])
      expect(scan.code).toBe(0)
      const discard = await run(['recover', 'bytes.img', '--discard', 'heap:0', ...engine])
      expect(discard).toMatchObject({ code: 64, stdout: '' })
      expect(discard.stderr).toContain('not records')
    },
  )

  test('recover prints a table per record after a cut, and an empty one after a rest', async () => {
    const path = join(folder, 'cut.img')
    const local = await openLocal({ path, bytes: 1 << 20, engine: 'node', seed: 9 })
    const dpu = await connect(local.wire, { seed: 9 })
    await dpu.format()
    const region = await dpu.provision({ name: 'orders', slots: 32, capacity: 500 })
    local.dpu.armCut({ record: 20 })
    for (let slot = 0; slot < 32; slot++) region.persist(slot, new Uint8Array(500).fill(slot))
    while (local.dpu.isOn) await new Promise((resolve) => setImmediate(resolve))
    local.close()
    const { code, stdout } = await run(['recover', 'cut.img'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/recovery: \d+ active lanes/)
    expect(stdout).toMatch(/orders +\d+ +case [1-5]/)
    const rest = await runJson(['recover', 'cut.img'])
    expect(rest).toMatchObject({ report: [], part: { lanesActive: 0, unsettled: 0 } })
  })
})

describe('bad input', () => {
  const cases: [string, string[], number, RegExp][] = [
    ['no command', [], 64, /Usage/],
    ['an unknown command', ['explode'], 64, /unknown command/],
    ['a missing argument', ['read'], 64, /missing required argument/],
    ['an unknown option', ['inspect', 'x', '--fast'], 64, /unknown option/],
    ['a bad number', ['persist', 'x', 'y', 'z', '--slot', '-1'], 64, /whole number/],
    ['a bad condition', ['persist', 'x', 'y', 'file.bin', '--batch', 'expect'], 64, /inOrder/],
    [
      'a batch of carried copies',
      ['persist', 'x', 'y', 'file.bin', '--batch', 'inOrder', '--form', 'carried'],
      64,
      /--form carried/,
    ],
    ['a bad level', ['persist', 'x', 'y', 'file.bin', '--level', '3of2'], 64, /WofN/],
    ['a bad range', ['read', 'x', 'y', '--slots', '9..3'], 64, /first\.\.last/],
    ['a bad target', ['inspect', 'perdure:nowhere'], 64, /perdure:\/\//],
    ['two looks at once', ['inspect', '--queues', '--status', 'x'], 64, /--queues and --status/],
    ['a region without a map', ['inspect', 'x', '--region', 'y'], 64, /--status as well/],
    ['no such image', ['inspect', 'nobody.img'], 66, /ENOENT/],
    ['no such file', ['persist', 'perdure://127.0.0.1:9', 'r', 'nobody.bin'], 66, /ENOENT/],
    ['no such capture', ['capture', 'nobody.pcap'], 66, /ENOENT/],
    ['a capture that is none', ['capture', 'file.bin'], 65, /capture/],
    ['an image of an odd size', ['inspect', 'file.bin'], 65, /multiple of 4096/],
    ['an image to be made that is there not', ['emulate', 'nobody.img'], 66, /--create/],
    ['an unknown engine', ['inspect', 'x.img', '--engine', 'v8'], 64, /Allowed choices/],
    ['recovering a DPU', ['recover', 'perdure://127.0.0.1:9'], 64, /when it starts/],
  ]
  for (const [what, args, code, message] of cases) {
    test(`${what} is told with exit code ${code}`, async () => {
      const ended = await run(args)
      expect(ended.stderr).toMatch(message)
      expect(ended).toMatchObject({ code, stdout: '' })
      expect(existsSync(join(folder, 'nobody.img'))).toBe(false)
    })
  }

  test(
    'images that cannot be used are told what they are, and are left alone',
    THOROUGH,
    async () => {
      const foreign = join(folder, 'foreign.img')
      const truncated = await makeImage('truncated.img')
      truncateSync(truncated, 1 << 19)
      const damaged = await makeImage('damaged.img')
      const bytes = readFileSync(damaged)
      for (const page of [0, 4096]) bytes[page + 20]! ^= 0xff
      for (const page of [0, 4096]) bytes[page + 70]! ^= 0xff
      writeFileSync(damaged, bytes)
      writeFileSync(foreign, new Uint8Array(1 << 16).fill(0x5a))
      const images: [string, RegExp][] = [
        [foreign, /FOREIGN/],
        [truncated, /TRUNCATED/],
        [damaged, /DAMAGED|FOREIGN|NEWER/],
      ]
      for (const [path, fault] of images) {
        const before = hashOf(path)
        for (const [name, ...rest] of [
          ['recover'],
          ['emulate', '--udp', '127.0.0.1:0'],
          ['persist', 'orders', 'file.bin'],
        ]) {
          const ended = await run([name!, path, ...rest, '--engine', 'node'])
          expect(ended.stderr).toMatch(fault)
          expect(ended.stderr).toMatch(/Nothing was changed/)
          expect(ended.code).toBe(65)
        }
        expect(hashOf(path)).toBe(before)
      }
    },
  )

  test('a blank part says that it wants to be formatted', async () => {
    writeFileSync(join(folder, 'blank.img'), new Uint8Array(1 << 16))
    const ended = await run(['read', 'blank.img', 'orders', '--engine', 'node'])
    expect(ended).toMatchObject({ code: 65, stdout: '' })
    expect(ended.stderr).toMatch(/BLANK.*Format/)
  })

  test('every error of the driver has an exit code', () => {
    const codes: [Error, number][] = [
      [new PerdureError('PERDURE_UNREACHABLE', ''), 69],
      [new PerdureError('PERDURE_ARGUMENT', ''), 64],
      [new PerdureError('PERDURE_IMAGE', ''), 65],
      [new RefusedError('NOT_ARMED', 0x85, ''), 69],
      [new RefusedError('DAMAGED', 0x1c, ''), 65],
      [new OutcomeUnknown('orders', 1, 1n, ''), 74],
      [new RecordLost('orders', 1), 1],
      [Object.assign(new Error(''), { code: 'EACCES' }), 77],
      [new TypeError('a bug'), 70],
    ]
    for (const [error, code] of codes) expect(exitCodeOf(error)).toBe(code)
  })

  test('a reader that has seen enough is no error', async () => {
    const child = start(['--help'])
    child.stdout!.destroy()
    expect(await new Promise((resolve) => child.on('close', resolve))).toBe(0)
  })
})

test('help and version are data', async () => {
  const help = await run(['--help'])
  expect(help).toMatchObject({ code: 0, stderr: '' })
  for (const name of ['emulate', 'persist', 'read', 'verify', 'inspect', 'recover', 'capture']) {
    expect(help.stdout).toContain(name)
  }
  expect(help.stdout).toContain('Exit codes')
  expect((await run(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
})
