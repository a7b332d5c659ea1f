/**
 * What `perdure persist` has stored `perdure read` gives back, to the last byte, or says
 * why it does not. R1-U5: a `persist` that was stopped says what is durable, and goes on.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exitCodeOf } from '../../../host-driver/command/base/exit-codes.ts'
import { Output } from '../../../host-driver/command/base/output.ts'
import { ChangedFileError, type Content } from '../../../host-driver/command/file/content.ts'
import { Persisting } from '../../../host-driver/command/file/persisting.ts'
import { goingOn } from '../../../host-driver/command/file/stopped.ts'
import { connect } from '../../../host-driver/connect.ts'
import type { Dpu } from '../../../host-driver/index.ts'
import { openLocal } from '../../../host-driver/local.ts'
import { emulateIn, PLAIN, type Run, runIn, stop } from '../../support/command/command.ts'
import { HeldTunnel } from '../../support/command/held-tunnel.ts'
import { PATIENCE_MS, PATIENT } from '../../support/run/patience.ts'
import { ROOT } from '../../support/source/sources.ts'

const COMMAND = join(ROOT, 'dist/perdure.js')
const folder = mkdtempSync(join(tmpdir(), 'perdure-round-'))
const at = (name: string): string => join(folder, name)
const run = (...args: string[]): Promise<Run> => runIn(folder, args)

/** Bytes of every value, in no short circle. */
const bytesOf = (length: number, from = 0): Buffer =>
  Buffer.from(Uint8Array.from({ length }, (_, i) => ((i + from) * 7 + ((i + from) >> 8)) & 0xff))

let card: ChildProcess
let address = ''
let dpu: Dpu

beforeAll(async () => {
  const local = await openLocal({ path: at('part'), bytes: 1 << 22, engine: 'node', seed: 1 })
  const maker = await connect(local.wire, { seed: 1, warn: () => {} })
  await maker.format()
  await maker.provision({ name: 'notes', slots: 64, capacity: 1000 })
  await maker.provision({ name: 'equal', slots: 64, capacity: 100, fixedLength: true })
  await maker.provision({ name: 'small', slots: 8, capacity: 63 })
  await maker.provision({ name: 'long', slots: 512, capacity: 1000 })
  await maker.close()
  local.close()
  const [child, lines] = await emulateIn(folder, 1, ['part', '--udp', '127.0.0.1:0'])
  card = child
  address = lines[0]!
  dpu = await connect(address, { ...PATIENT, warn: () => {} })
})

afterAll(async () => {
  await dpu.close()
  await stop(card)
  rmSync(folder, { recursive: true })
})

/** Persists these bytes, and expects that it went well; what it has printed as JSON. */
async function persisted(bytes: Uint8Array, ...args: string[]): Promise<Record<string, unknown>> {
  writeFileSync(at('file'), bytes)
  const { code, stdout, stderr } = await run('persist', address, ...args, '--json')
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout) as Record<string, unknown>
}

/** What `read` writes into a file. */
async function readBack(...args: string[]): Promise<Buffer> {
  const { code, stderr } = await run('read', address, ...args, '--out', 'back')
  expect(code, stderr).toBe(0)
  return readFileSync(at('back'))
}

describe('the file that was stored comes back', () => {
  const CASES = [
    ['notes', [0, 1, 999, 1000, 1001, 3000, 63_000]],
    ['equal', [0, 1, 100, 101, 6300]],
  ] as const

  test.each(CASES)('from %s, with any length', async (region, lengths) => {
    for (const length of lengths) {
      const bytes = bytesOf(length, length)
      const done = await persisted(bytes, region, 'file')
      const records = Math.ceil(length / (region === 'notes' ? 1000 : 100))
      expect(done).toMatchObject({ firstSlot: 0, lastSlot: records, records, bytes: length })
      expect((await readBack(region)).equals(bytes), `${length} bytes`).toBe(true)
    }
  })

  test('from another slot, from standard input, and in batches', async () => {
    const [one, two] = [bytesOf(2500), bytesOf(1500, 77)]
    await persisted(one, 'notes', 'file', '--slot', '9', '--batch', 'inOrder')
    writeFileSync(at('file'), two)
    const args = [COMMAND, 'persist', address, 'notes', '-', '--slot', '20']
    const done = spawnSync(process.execPath, args, { cwd: folder, env: PLAIN, input: two })
    expect(done.status).toBe(0)
    expect((await readBack('notes', '--slot', '9')).equals(one)).toBe(true)
    expect((await readBack('notes', '--slot', '20')).equals(two)).toBe(true)
  })

  test('a file that has the slots of another one in it', async () => {
    await persisted(bytesOf(2500), 'notes', 'file')
    const { code } = await run('read', address, 'notes', '--slots', '0..3', '--out', 'dump')
    expect(code).toBe(0)
    const dump = readFileSync(at('dump'))
    expect(dump).toHaveLength(2564)
    await persisted(dump, 'notes', 'file')
    expect((await readBack('notes')).equals(dump)).toBe(true)
  })

  test('with --json each record, and in the end the file', async () => {
    const bytes = bytesOf(1700)
    const { sha256 } = await persisted(bytes, 'notes', 'file', '--slot', '3')
    const { stdout } = await run('read', address, 'notes', '--slot', '3', '--json')
    const lines = stdout.trimEnd().split('\n')
    const [first, second, file] = lines.map((line) => JSON.parse(line) as { data: string })
    const data = [first!, second!].map((one) => Buffer.from(one.data, 'base64'))
    expect(Buffer.concat(data).equals(bytes)).toBe(true)
    expect(first).toMatchObject({ slot: 4, length: 1000 })
    const about = { region: 'notes', firstSlot: 3, records: 2, bytes: 1700, sha256 }
    expect(file).toEqual(about)
  })
})

describe('what is no whole file is told', () => {
  const readable = async (code: number, words: RegExp, ...args: string[]): Promise<void> => {
    writeFileSync(at('kept'), 'what was there')
    const ended = await run('read', address, ...args, '--out', 'kept')
    expect(ended.stderr).toMatch(words)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(readFileSync(at('kept'), 'utf8')).toBe('what was there')
    const json = await run('read', address, ...args, '--json')
    expect(JSON.parse(json.stderr)).toMatchObject({
      error: { code: expect.stringMatching(/FILE_/) },
    })
    expect(json.code).toBe(code)
  }

  test('where none begins: 65', async () => {
    await readable(65, /no file begins at slot 63 of 'notes'.*--raw/, 'notes', '--slot', '63')
    const region = await dpu.openRegion('notes')
    await region.persist(62, bytesOf(64)).persisted
    await readable(65, /no file begins at slot 62/, 'notes', '--slot', '62')
  })

  test('one that another version has written: 65', async () => {
    await persisted(bytesOf(10), 'notes', 'file', '--slot', '60')
    const region = await dpu.openRegion('notes')
    const header = Buffer.from((await region.read(60)).data)
    header.writeUInt16LE(2, 8)
    await region.persist(60, header).persisted
    await readable(65, /version 2.*with the version that wrote it/, 'notes', '--slot', '60')
  })

  test('a header of more than there is room for is none: 65', async () => {
    await persisted(bytesOf(10), 'notes', 'file', '--slot', '60')
    const region = await dpu.openRegion('notes')
    const header = Buffer.from((await region.read(60)).data)
    for (const length of [3001n, 2n ** 63n]) {
      header.writeBigUInt64LE(length, 16)
      await region.persist(60, header).persisted
      await readable(65, /no file begins/, 'notes', '--slot', '60')
    }
  })

  test('one into which somebody else has written: 1', async () => {
    const region = await dpu.openRegion('notes')
    for (const [what, bytes] of [
      ['slot 2 ', bytesOf(999)],
      ['its slots ', bytesOf(1000, 1)],
    ] as const) {
      await persisted(bytesOf(2500), 'notes', 'file')
      await region.persist(2, bytes).persisted
      await readable(1, new RegExp(`no more what was stored.*into ${what}`), 'notes')
    }
  })

  test('one that was cut off in front of an old one: 65, and never half of each', async () => {
    await persisted(bytesOf(6300), 'equal', 'file')
    const region = await dpu.openRegion('equal')
    const header = Buffer.from((await region.read(0)).data)
    header.writeUInt16LE(1, 10)
    await region.persist(0, header).persisted
    await readable(65, /not whole: .* was stopped, or is at work.*--resume/, 'equal')
  })

  test('a region whose records are too small for a header is told at once: 64', async () => {
    writeFileSync(at('file'), 'small')
    const ended = await run('persist', address, 'small', 'file')
    expect(ended.stderr).toMatch(/'small' has at most 63 bytes, .* takes 64: --raw/)
    expect(ended).toMatchObject({ code: 64, stdout: '' })
    expect((await persisted(Buffer.from('small'), 'small', 'file', '--raw')).lastSlot).toBe(0)
    expect((await readBack('small', '--raw')).toString()).toBe('small')
  })
})

describe('--resume', () => {
  test.each([
    ['none where nothing is there', 20, []],
    ['all but one that differs, and those behind it', 20, ['--slot', '20']],
    ['in batches', 20, ['--batch', 'inOrder']],
    ['of records alone', 20, ['--raw', '--slot', '3']],
  ] as const)('finds %s', async (_, records, more) => {
    const region = await dpu.openRegion('long')
    const first = Number(more.at(-1)) || 0
    const content = first + (more.includes('--raw' as never) ? 0 : 1)
    const bytes = bytesOf(records * 1000 - 1, first)
    await region.persist(content, Buffer.from('other')).persisted
    const args = ['long', 'file', '--resume', ...more]
    expect(await persisted(bytes, ...args)).toMatchObject({ already: 0, records })
    await region.persist(content + 7, Buffer.from('other')).persisted
    expect(await persisted(bytes, ...args)).toMatchObject({ already: 7, records, copies: 2 })
    const last = await region.read(content + 6)
    expect(await persisted(bytes, ...args)).toMatchObject({ already: records, records })
    expect((await region.read(content + 6)).sequence).toBe(last.sequence)
    const back = more.includes('--raw' as never)
      ? await readBack('long', '--slots', `${first}..${first + records - 1}`)
      : await readBack('long', '--slot', `${first}`)
    expect(back.equals(bytes)).toBe(true)
  })

  test('a file that is another one is written from where it differs', async () => {
    const [one, two] = [bytesOf(5000), bytesOf(5000)]
    two[3500]! ^= 1
    await persisted(one, 'notes', 'file')
    expect(await persisted(two, 'notes', 'file', '--resume')).toMatchObject({ already: 3 })
    expect((await readBack('notes')).equals(two)).toBe(true)
  })

  test('the line that goes on is one that a shell takes', () => {
    expect(goingOn(['persist', 'perdure://[::1]:9', 'a b', "it's"], true).line).toBe(
      String.raw`perdure persist --resume perdure://[::1]:9 'a b' 'it'\''s'`,
    )
    const again = ['persist', 'x', 'y', 'z', '--resume']
    expect(goingOn(again, true).line).toBe('perdure persist x y z --resume')
    // Through a card nobody reads what is there: it begins again.
    const through = ['persist', 'x', 'y', 'z', '--attach', '10.0.0.3']
    expect(goingOn(through, false)).toEqual({
      ...{ line: 'perdure persist x y z --attach 10.0.0.3', resumes: false },
    })
  })
})

describe('a file that changes while it is read', () => {
  /** Says nothing, and keeps it. */
  class Silent extends Output {
    readonly said: string[] = []

    override say(line: string): void {
      this.said.push(line)
    }
  }

  /** Persists what is read by `pieces`, the first time for its SHA-256; how that ended. */
  async function persistedFrom(length: number, pieces: (time: number) => Buffer) {
    let time = 0
    const content: Content = {
      bytes: length,
      async *pieces(bytesEach) {
        const bytes = pieces(++time)
        for (let from = 0; from < bytes.length; from += bytesEach) {
          yield bytes.subarray(from, from + bytesEach)
        }
        if (bytes.length < length) throw new ChangedFileError()
      },
    }
    const output = new Silent(false)
    const options = {
      slot: 0,
      form: 'replicated',
      goOn: { line: 'the line', resumes: true },
    } as const
    const region = await dpu.openRegion('long')
    const ended = new Persisting(region, content, options, output).run()
    return { code: await ended.catch(exitCodeOf), said: output.said }
  }

  test('is never called whole', async () => {
    const { code } = await persistedFrom(3000, (time) => bytesOf(3000, time))
    expect(code).toBe(65)
    const read = await run('read', address, 'long')
    expect(read.stderr).toMatch(/not whole/)
    expect(read.code).toBe(65)
  })

  test('R1-U5: an error says how much is durable, and what goes on', async () => {
    const { code, said } = await persistedFrom(90_000, (time) =>
      bytesOf(time === 1 ? 90_000 : 80_000),
    )
    expect(code).toBe(65)
    const [what, line] = said.slice(-2)
    const durable = Number(/^stopped {3}(\d+) of 90 records are durable/.exec(what!)?.[1])
    expect(durable).toBeGreaterThan(0)
    expect(durable).toBeLessThanOrEqual(80)
    expect(what).toContain(`in slots 1 to ${durable};`)
    expect(line).toBe('  the line')
  })
})

describe('a persist that is stopped', () => {
  const RECORDS = 300
  const bytes = bytesOf(RECORDS * 1000)

  test.each([
    ['SIGINT', ['--json']],
    ['SIGINT', []],
    ['SIGTERM', ['--batch', 'inOrder']],
    ['SIGTERM', ['--raw', '--slot', '5']],
  ] as const)(
    'by %s, with %j: what it says is durable is, and its own line goes on',
    async (signal, more) => {
      const region = await dpu.openRegion('long')
      for (let slot = 0; slot < RECORDS; slot += 20) {
        await region.persist(slot, Buffer.from('other')).persisted
      }
      writeFileSync(at('file'), bytes)
      const tunnel = await HeldTunnel.to(address)
      // The first batch has 256 records, and is told as a whole.
      tunnel.holdAfter(280)
      const args = ['persist', tunnel.address, 'long', 'file', ...more]
      const child = spawn(process.execPath, [COMMAND, ...args], { cwd: folder, env: PLAIN })
      let stderr = ''
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        stderr += text
      })
      await tunnel.stuck
      child.kill(signal)
      const [, by] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
      expect(by).toBe(signal)
      const { durable, line } = told(stderr)
      expect(durable).toBeGreaterThan(0)
      expect(durable).toBeLessThan(RECORDS)
      const first = more.includes('--raw' as never) ? 5 : 1
      for (const slot of [first, first + durable - 1]) {
        const from = (slot - first) * 1000
        const { data } = await region.read(slot)
        expect(Buffer.compare(data, bytes.subarray(from, from + 1000))).toBe(0)
      }
      if (first === 1) expect((await run('read', address, 'long')).code).toBe(65)
      tunnel.letThrough()
      const typed = line.replace(/^perdure/, `"${process.execPath}" "${COMMAND}"`)
      const options = { cwd: folder, env: PLAIN, encoding: 'utf8', timeout: PATIENCE_MS } as const
      const again = await shell(typed, options)
      expect(again.code, again.stderr).toBe(0)
      const already = /"already":(\d+)|already +(\d+)/.exec(again.stdout)!
      expect(Number(already[1] ?? already[2])).toBeGreaterThanOrEqual(durable)
      const back = first === 5 ? ['--slots', `5..${RECORDS + 4}`] : []
      expect((await readBack('long', ...back)).equals(bytes)).toBe(true)
      tunnel.close()
    },
  )

  /** How many are durable by what was said, and the line that goes on. */
  function told(stderr: string): { durable: number; line: string } {
    const words =
      /^stopped {3}(\d+) of 300 records are durable, in slots .*; this goes on:\n {2}(.*)$/m
    const found = words.exec(stderr)
    if (found !== null) return { durable: Number(found[1]), line: found[2]! }
    const { stopped } = JSON.parse(stderr) as {
      stopped: { durable: number; goOn: string; records: number; firstSlot: number }
    }
    expect(stopped).toMatchObject({ records: 300, firstSlot: 1 })
    return { durable: stopped.durable, line: stopped.goOn }
  }

  /** Types a line into a shell, while the tunnel of this process goes on. */
  async function shell(line: string, { cwd, env }: { cwd: string; env: NodeJS.ProcessEnv }) {
    const child = spawn('sh', ['-c', line], { cwd, env })
    const text = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (piece: string) => {
        text[name] += piece
      })
    }
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, ...text }
  }
})
