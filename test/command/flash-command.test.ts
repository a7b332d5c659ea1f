/**
 * `perdure flash` and a card that is emulated: a newcomer's first flash, bad images that come back
 * by themselves, and what is refused. Records stay what they were through all of it.
 */

import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect as connectSocket, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findBundle } from '../../boards/emulator/run/bundle.ts'
import { readImage } from '../../boards/flash/mcuboot.ts'
import { SlotStore, STORAGE_BYTES } from '../../boards/flash/slot-store.ts'
import { StorageFile } from '../../boards/flash/storage.ts'
import { connect as connectCard } from '../../host-driver/index.ts'
import { emulateIn, endAt, type Run, runIn, stop } from '../support/command/command.ts'
import { serialLine } from '../support/flash/serial.ts'
import { upload as uploadTo } from '../support/flash/slot-model.ts'
import { noCompiler, titled } from '../support/native/harness.ts'
import { THOROUGH } from '../support/run/thorough.ts'

const folder = mkdtempSync(join(tmpdir(), 'pf-'))
const at = (name: string): string => join(folder, name)
const PORT = '--port unix:p'

let card: ChildProcess
let address = ''
let udp = ''

async function perdure(line: string): Promise<Run> {
  return await runIn(folder, line.split(' '))
}

/** An image for this card, signed by the key that it trusts. */
async function image(name: string, version: string, more = ''): Promise<string> {
  const words = `image create --board emulator --signing-key key.pem --image-version ${version}`
  const { code, stderr } = await perdure(`${words} --out ${name}${more}`)
  expect(code, stderr).toBe(0)
  return name
}

async function startCard(lines = 3, more = ''): Promise<void> {
  const line =
    'part.nvdimm --create --size 1M --region notes:4:64 --udp 127.0.0.1:0 ' +
    `--smp unix:p --smp udp:127.0.0.1:0 --trust key.pub.pem${more}`
  const [child, told] = await emulateIn(folder, lines, line.split(' '))
  card = child
  address = told[0]!
  udp = told.at(-1)!.replace(/^smp:/, '')
}

beforeAll(async () => {
  for (const name of ['key.pem', 'other.pem']) {
    expect((await perdure(`image keygen ${name}`)).code).toBe(0)
  }
  await image('one.bin', '1.0.0')
  await image('two.bin', '2.0.0')
  await image('crash.bin', '3.0.0', ' --broken crash')
  await startCard()
})

afterAll(async () => {
  await stop(card)
  rmSync(folder, { recursive: true })
})

/** Persists a record, flashes, and reads it again over a connection that lives on. */
async function keepsRecords(slot: number, work: () => Promise<void>): Promise<void> {
  await using dpu = await connectCard(address, { warn: () => {} })
  const region = await dpu.openRegion('notes')
  const data = new Uint8Array(64).fill(slot + 1)
  const before = await region.persist(slot, data).persisted
  await work()
  const { data: found } = await region.read(slot)
  expect(found).toEqual(data)
  const again = await region.persist(slot, data).persisted
  expect(again.operationId).toBeGreaterThan(before.operationId)
}

/** What is in the slots, as `flash list` tells programs. */
async function slots(): Promise<string[]> {
  const { code, stdout, stderr } = await perdure(`flash list ${PORT} --json`)
  expect(code, stderr).toBe(0)
  const { slots: all } = JSON.parse(stdout) as { slots: Record<string, unknown>[] }
  return all.map((one) => {
    const flags = ['active', 'confirmed', 'pending'].filter((name) => one[name] === true)
    return [one.version, ...flags].join(' ')
  })
}

describe('perdure flash', () => {
  test('a card runs what it came with, and says so', async () => {
    const { stdout } = await perdure(`flash list ${PORT}`)
    expect(stdout).toMatch(/^no slot holds an image: the card runs what it came with\n/)
    expect(stdout).toContain('card      emulator, counter 0, format of its part 3\n')
  })

  test('--dry-run and a crash leave it what it came with', async () => {
    const dry = await perdure(`flash one.bin ${PORT} --dry-run`)
    expect(dry).toMatchObject({ code: 0 })
    expect(await slots()).toEqual([])
    await keepsRecords(0, async () => {
      const bad = await perdure(`flash crash.bin ${PORT}`)
      expect(bad.stdout).toMatch(
        /\nreverted {2}the firmware stopped \(threw\).* what it came with /,
      )
      expect(bad.code).toBe(65)
    })
    expect(await slots()).toEqual(['3.0.0'])
  })

  test('a first image is uploaded, tried and confirmed, and its records are there', async () => {
    await keepsRecords(1, async () => {
      const { code, stdout } = await perdure(`flash one.bin ${PORT}`)
      expect(code).toBe(0)
      const stages = [...stdout.matchAll(/^(\w+) /gm)].map(([, stage]) => stage)
      expect(stages).toEqual(['image', 'verified', 'restart', 'confirmed'])
    })
    expect(await slots()).toEqual(['1.0.0 active confirmed'])
    const equal = await perdure(`flash one.bin ${PORT}`)
    expect(equal).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('equal     1.0.0 runs'),
    })
  })

  test('over UDP it stays on trial, keeps others out, and is confirmed', async () => {
    // As the card has printed it.
    const trial = await perdure(`flash two.bin --port smp:${udp} --no-confirm --json`)
    expect(trial.code, trial.stderr).toBe(0)
    const stages = trial.stdout.trimEnd().split('\n')
    expect(stages.map((line) => (JSON.parse(line) as { stage: string }).stage)).toEqual(
      expect.arrayContaining(['runs', 'image', 'upload', 'verified', 'restart', 'trial']),
    )
    expect(await slots()).toEqual(['2.0.0 active', '1.0.0 confirmed'])
    const busy = await perdure(`flash one.bin ${PORT}`)
    expect(busy).toMatchObject({ code: 75, stdout: expect.stringContaining('2.0.0 is on trial') })
    const [status, check] = [`status ${address}`, `check ${address} --allow open --allow volatile`]
    expect((await perdure(status)).stdout).toContain('the firmware is ON TRIAL')
    const warned = await perdure(check)
    expect(warned).toMatchObject({ code: 1, stdout: expect.stringContaining('is on trial: it') })
    expect((await perdure(`flash confirm ${PORT}`)).stdout).toBe('confirmed 2.0.0\n')
    expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0'])
    expect((await perdure(status)).stdout).not.toContain('TRIAL')
    expect((await perdure(check)).code).toBe(0)
  })

  test.skipIf(noCompiler !== null)(titled('over a serial line it is the same'), async () => {
    const line = await serialLine(at('p'))
    try {
      const marked = await perdure(`flash one.bin --port ${line.path} --no-reset --force`)
      expect(marked.code, marked.stderr).toBe(0)
      expect(marked.stdout).toContain('marked    the next start tries it\n')
      expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0 pending'])
      // The next start tries it, and the one behind that goes back.
      for (let starts = 0; starts < 2; starts++) {
        expect((await perdure(`flash reset --port ${line.path}`)).code).toBe(0)
      }
      expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0'])
    } finally {
      await line.end()
    }
  })

  test(
    '--target: what a driver cannot read there stays on trial, and goes back',
    THOROUGH,
    async () => {
      const nowhere = 'perdure://127.0.0.1:1'
      const unread = await perdure(`flash one.bin ${PORT} --target ${nowhere}`)
      expect(unread).toMatchObject({ code: 65 })
      expect(unread.stdout).toMatch(/\nunread {4}.*127\.0\.0\.1.* stays on trial: .*revert/)
      expect(await slots()).toEqual(['1.0.0 active', '2.0.0 confirmed'])
      expect((await perdure(`flash revert ${PORT}`)).code).toBe(0)
      const read = await perdure(`flash one.bin ${PORT} --target ${address}`)
      expect(read.code, read.stderr).toBe(0)
      expect((await perdure(`flash two.bin ${PORT} --target ${address}`)).stdout).toContain(
        'confirmed 2.0.0\n',
      )
      expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0'])
    },
  )

  test('a crash comes back to what ran, with the reason', async () => {
    await keepsRecords(2, async () => {
      const bad = await perdure(`flash crash.bin --port ${udp}`)
      expect(bad).toMatchObject({ code: 65 })
      expect(bad.stdout).toContain('broken on purpose; 2.0.0 serves again')
    })
    expect(await slots()).toEqual(['2.0.0 active confirmed', '3.0.0'])
    const { stdout } = await perdure(`flash list ${PORT}`)
    expect(stdout).toContain('reason    the firmware stopped (threw): Error: broken on purpose\n')
  })

  test('and one that stops at its first frames, before anybody can confirm it', async () => {
    const body =
      'start(board) { const { idle } = start(board); return { serve() { throw 1 }, idle } }'
    const early = `{ const { start } = perdure; perdure = { ${body} } }`
    writeFileSync(at('early.js'), `${findBundle().source}\n${early}\n`)
    await image('early.bin', '3.3.0', ' --bundle early.js')
    const bad = await perdure(`flash early.bin ${PORT}`)
    expect(bad).toMatchObject({ code: 65, stdout: expect.stringContaining('2.0.0 serves again') })
    expect(await slots()).toEqual(['2.0.0 active confirmed', '3.3.0'])
  })

  test('so does one that fails its self-test, whatever it is asked meanwhile', async () => {
    await image('selftest.bin', '3.1.0', ' --broken selftest')
    const bad = await perdure(`flash selftest.bin ${PORT}`)
    expect(bad).toMatchObject({ code: 65, stdout: expect.stringContaining('TRUNCATED') })
    expect(await slots()).toEqual(['2.0.0 active confirmed', '3.1.0'])
  })

  test('and one that hangs', THOROUGH, async () => {
    await image('hang.bin', '3.2.0', ' --broken hang')
    const bad = await perdure(`flash hang.bin ${PORT}`)
    expect(bad).toMatchObject({ code: 65, stdout: expect.stringContaining('(hung)') })
    expect(await slots()).toEqual(['2.0.0 active confirmed', '3.2.0'])
  })

  test('marked by hand it is tried at the next start, and goes back behind it', async () => {
    await perdure(`flash one.bin ${PORT} --no-reset`)
    expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0 pending'])
    expect((await perdure(`flash reset ${PORT}`)).code).toBe(0)
    expect((await perdure(`flash revert ${PORT}`)).stdout).toMatch(/\nreverted {2}2\.0\.0\n$/)
    expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0'])
    // Not on trial, what is in slot 1 is tried.
    expect((await perdure(`flash revert ${PORT}`)).stdout).toMatch(
      /\nreverted {2}1\.0\.0: on trial/,
    )
    await perdure(`flash reset ${PORT}`)
    expect((await perdure(`flash test ${PORT}`)).stdout).toMatch(/^marked {4}1\.0\.0 /)
  })

  test('a new start of the whole card goes on by the slots', async () => {
    expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0 pending'])
    await stop(card)
    await startCard()
    expect(await slots()).toEqual(['1.0.0 active', '2.0.0 confirmed'])
    await stop(card)
    await startCard()
    expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0'])
  })

  test(
    'a firmware that stops later can be flashed over, in its life and behind it',
    THOROUGH,
    async () => {
      const late = `
      { const { start } = perdure
        perdure = { start(board) {
          const firmware = start(board)
          let calls = 0
          const serve = (count, now) => {
            if (++calls > 60) throw new Error('later')
            return firmware.serve(count, now)
          }
          return { serve, idle: firmware.idle }
        } } }`
      writeFileSync(at('late.js'), findBundle().source + late)
      await image('late.bin', '5.0.0', ' --bundle late.js')
      expect((await perdure(`flash late.bin ${PORT}`)).stdout).toContain('confirmed 5.0.0\n')
      let looks = 0
      while ((await perdure(`inspect ${address}`)).code === 0 && looks < 60) looks++
      expect(await slots()).toEqual(['5.0.0 active confirmed', '2.0.0'])
      expect((await perdure(`flash two.bin ${PORT}`)).code).toBe(0)
      await keepsRecords(3, async () => {})
    },
  )

  test('and so can one that does not even start', async () => {
    await stop(card)
    const storage = new StorageFile(at('part.nvdimm.slots'), STORAGE_BYTES)
    const checked = { counter: 0, formats: [0, 255] as const }
    const check = (bytes: Uint8Array) => ({ ...readImage(bytes), ...checked })
    const store = new SlotStore(storage, { check })
    const bad = new Uint8Array(readFileSync(at('crash.bin')))
    uploadTo(store, bad)
    store.mark(readImage(bad).hash, true)
    store.start()
    store.selfTestPassed()
    storage.close()
    await startCard(2)
    expect(await slots()).toEqual(['3.0.0 active confirmed', '2.0.0'])
    expect((await perdure(`flash one.bin ${PORT}`)).code).toBe(0)
    await stop(card)
    await startCard()
    expect(await slots()).toEqual(['1.0.0 active confirmed', '3.0.0'])
    await perdure(`flash two.bin ${PORT}`)
  })

  test('one that nobody confirms in time goes back by itself', async () => {
    await stop(card)
    await startCard(3, ' --trial 1')
    // A machine that is slow sees the trial when it is over.
    const { stdout } = await perdure(`flash one.bin ${PORT} --no-confirm`)
    expect(stdout).toMatch(/1\.0\.0 runs: |reverted +it was not confirmed within 1 s/)
    while ((await slots())[0] === '1.0.0 active') await setTimeout(100)
    expect(await slots()).toEqual(['2.0.0 active confirmed', '1.0.0'])
    expect((await perdure(`flash list ${PORT}`)).stdout).toContain(
      'reason    it was not confirmed within 1 s\n',
    )
    await stop(card)
    await startCard()
  })

  test('what the card refuses is said, with its exit code, and it serves on', async () => {
    const create = 'image create --board'
    await perdure(
      `${create} bluefield2 --signing-key key.pem --image-version 4.0.0 --out board.bin`,
    )
    await perdure(`${create} emulator --signing-key other.pem --image-version 4.0.0 --out key.bin`)
    for (const [file, words] of [
      ['board.bin', 'made for bluefield2; this is emulator'],
      ['key.bin', 'which is not trusted'],
    ] as const) {
      const refused = await perdure(`flash ${file} ${PORT}`)
      expect(refused.code).toBe(65)
      expect(refused.stderr).toContain(words)
    }
    await keepsRecords(3, async () => {})
    // An upload empties slot 1 before it is looked at.
    expect(await slots()).toEqual(['2.0.0 active confirmed'])
    expect(await perdure(`flash revert ${PORT}`)).toMatchObject({ code: 64 })
  })

  test('a file that is none, and a port that is none, are refused unsent', async () => {
    writeFileSync(at('text'), 'hello')
    const rows: [line: string, code: number, words: string][] = [
      [`flash none ${PORT}`, 66, 'none: it is not there'],
      [`flash text ${PORT}`, 65, 'text: 5 bytes are no image'],
      ['flash one.bin --port unix:none', 66, 'unix:none'],
      ['flash list --port tty', 64, 'a port is a serial line'],
      ['flash list --port udp:127.0.0.1:0', 64, '1 to 65535'],
      ['flash list', 64, '--port'],
      [`flash list ${PORT} --timeout 0`, 64, 'a whole number, 1 to 2147483647'],
    ]
    for (const [line, code, words] of rows) {
      const refused = await perdure(line)
      expect({ line, code: refused.code, stdout: refused.stdout }).toEqual({
        line,
        code,
        stdout: '',
      })
      expect(refused.stderr).toContain(words)
    }
  })
})

describe('whoever ends it', () => {
  const FORWARDED_BYTES = 40_000
  const clients = new Set<Socket>()
  /** A way to the card that carries so much to it, and then nothing. */
  const stuck = createServer((client) => {
    const way = connectSocket(at('p'))
    let bytes = 0
    for (const one of [client, way]) {
      clients.add(one)
      one.on('error', () => {})
    }
    way.pipe(client)
    client.on('data', (piece) => {
      bytes += piece.length
      if (bytes < FORWARDED_BYTES) way.write(piece)
    })
  })

  beforeAll(() => new Promise<void>((resolve) => stuck.listen(at('s'), resolve)))

  afterAll(() => {
    stuck.close()
    for (const one of clients) one.destroy()
  })

  test('in the middle of an upload: the same command goes on there', async () => {
    await image('four.bin', '4.0.0')
    const line = 'flash four.bin --port unix:s --json'
    const ended = await endAt(folder, line.split(' '), '"stage":"upload"', 'SIGINT')
    expect(ended).toMatchObject({ code: null, signal: 'SIGINT' })
    const words = /^stopped {3}upload stopped at (\d+) %: the same command goes on there$/m
    const percent = Number(words.exec(ended.stderr)?.[1])
    expect(percent).toBeGreaterThan(0)
    expect(percent).toBeLessThan(100)
    const { code, stdout } = await perdure(`flash four.bin ${PORT} --json`)
    expect(code).toBe(0)
    const first = stdout.split('\n').find((one) => one.includes('"stage":"upload"'))!
    const { done, bytes } = JSON.parse(first) as { done: number; bytes: number }
    expect(Math.floor((100 * done) / bytes)).toBeGreaterThanOrEqual(percent)
  })
})

describe('a line that says other things', () => {
  let server: Server
  let said: (client: Socket) => void = () => {}
  const clients = new Set<Socket>()

  beforeAll(async () => {
    server = createServer((client) => {
      clients.add(client)
      client.on('error', () => {})
      said(client)
    })
    await new Promise<void>((resolve) => server.listen(at('q'), resolve))
  })

  afterAll(() => {
    server.close()
    for (const client of clients) client.destroy()
  })

  test('nobody answers: it is said within the time, and what to look at', async () => {
    said = (client) => client.resume()
    const none = await perdure('flash list --port unix:q --timeout 50')
    expect(none).toMatchObject({ code: 69, stdout: '' })
    expect(none.stderr).toMatch(
      /^perdure: unix:q: no answer within 0\.2 s\. See that the card is on/,
    )
  })

  test('text, and bytes of any kind, are no answer, and what ends is said', async () => {
    said = (client) => {
      client.resume()
      client.write('login: \u001b[31m\n')
      client.write(readFileSync(at('one.bin')).subarray(0, 3000))
      client.end()
    }
    const none = await perdure('flash list --port unix:q --timeout 1000')
    expect(none).toMatchObject({ code: 69, stdout: '' })
    expect(none.stderr).toContain('unix:q: the connection ended')
  })

  test('monitor shows text without what a terminal obeys', async () => {
    said = (client) => {
      client.end('login: \u001b[31mred\n')
    }
    const shown = await perdure('flash monitor --port unix:q')
    expect(shown).toMatchObject({ code: 0, stdout: 'login: \\x1b[31mred\n' })
  })
})
