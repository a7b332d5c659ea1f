/** The main job, in small: what `npm start` does, over levels, cuts and bad links. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { DemoOptions, DemoResult } from '../../host-driver/command/demo/result.ts'
import { runDemo } from '../../host-driver/command/demo/run.ts'
import type { Durability } from '../../host-driver/way/durability.ts'
import { dataOf } from '../support/cards/test-card.ts'
import { divided } from '../support/run/thorough.ts'
import { ROOT } from '../support/source/sources.ts'

const SEED = Number(process.env.SEED ?? 71)
const folder = mkdtempSync(join(tmpdir(), 'perdure-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const file = join(folder, 'small.bin')
writeFileSync(file, dataOf(150_001, 5))

function run(options: Partial<DemoOptions>): Promise<DemoResult> {
  const level: Durability = '2of2'
  return runDemo({
    file,
    folder: join(folder, 'demo'),
    seed: SEED,
    level,
    recordBytes: 1000,
    loss: 0,
    engine: 'node',
    ...options,
  })
}

for (const { rows, options } of divided(
  ['1of2', '2of2', '2of3', '3of4'] as const,
  (level) => level !== '2of2',
)) {
  test.each(rows)(
    'X-1, X-2: a file survives a pulled plug at level %s, whatever the seed',
    options,
    async (level) => {
      for (let seed = SEED; seed < SEED + 12; seed++) {
        const result = await run({ level, seed, loss: seed % 3 === 0 ? 0.05 : 0 })
        expect(result.ok, `SEED=${seed}`).toBe(true)
        expect(result.cut?.chunks, `SEED=${seed}`).toBeGreaterThan(0)
        expect([result.acknowledgedLost, result.torn, result.scan.lost]).toEqual([0, 0, 0])
        expect(result.recovery!.entries.length).toBeGreaterThanOrEqual(0)
        const trace = readFileSync(join(folder, 'demo', 'run.trace'), 'utf8')
        expect(JSON.parse(trace.slice(0, trace.indexOf('\n')))).toMatchObject({ trace: 'perdure' })
        const events = [...trace.matchAll(/"e":"(\w+)"/g)].map(([, event]) => event!)
        expect(events.indexOf('store'), `SEED=${seed}`).toBeGreaterThan(0)
        expect(events.indexOf('cut'), `SEED=${seed}`).toBeGreaterThan(events.indexOf('store'))
      }
    },
  )
}

test('the record that --cut names is hit, and 0 means no cut', async () => {
  expect((await run({ cut: 0 })).cut).toBeNull()
  const first = await run({ cut: 1 })
  expect([first.ok, first.cutRecord, first.acknowledgedBeforeCut]).toEqual([true, 1, 0])
  const last = await run({ cut: 151 })
  expect([last.ok, last.cutRecord]).toEqual([true, 151])
})

test('R1-U8: over a link that loses frames, the records that were in flight are named', () => {
  const folders = ['--folder', join(folder, 'lossy')]
  const words = ['--loss', '0.05', '--seed', '1', '--record-bytes', '1000', '--level', '2of3']
  const command = ['demo', file, ...folders, ...words, '--engine', 'node']
  const shown = (args: string[]): string => {
    return spawnSync(process.execPath, [join(ROOT, 'dist/perdure.js'), ...args], {
      encoding: 'utf8',
    }).stdout
  }
  const text = shown(command)
  const lanes = [...text.matchAll(/^ {2}file +(\d+) +case/gm)].map(([, slot]) => Number(slot) + 1)
  expect(lanes.length).toBeGreaterThan(2)
  expect(text).toMatch(new RegExp(`the cut +inside the commit of records ${lanes[0]} to `))
  const [, again] = /^ {2}again +perdure (.*)$/m.exec(text)!
  const plain = (one: string): string => one.replace(/^ {2}time .*$/m, '')
  expect(again!.split(' ').toSorted()).toEqual(command.toSorted())
  expect(plain(shown(again!.split(' ')))).toBe(plain(text))
})

test('one request per record, and at most two acknowledgements', async () => {
  const { writing, records } = await run({ cut: 0 })
  expect(records).toBe(151)
  expect(writing.requests).toBe(records)
  expect(writing.acks + writing.persistAcks).toBeLessThanOrEqual(2 * records)
  expect(writing.fences / records).toBeLessThanOrEqual(0.25)
})

test('an empty file and a file of one byte survive too', async () => {
  for (const length of [0, 1]) {
    const tiny = join(folder, `tiny-${length}.bin`)
    writeFileSync(tiny, new Uint8Array(length))
    expect((await run({ file: tiny })).ok).toBe(true)
  }
})

test('the same seed gives the same run', async () => {
  const strip = ({ realMs: _, ...rest }: DemoResult): Partial<DemoResult> => rest
  expect(strip(await run({ loss: 0.02 }))).toEqual(strip(await run({ loss: 0.02 })))
})

const tshark = spawnSync('tshark', ['--version'], { encoding: 'utf8' })

test.skipIf(tshark.error !== undefined)(
  'tshark (Debian: tshark) decodes every frame of the capture and finds none malformed',
  async () => {
    const { capture, writing } = await run({ recordBytes: 4096, loss: 0.02 })
    const fields = ['-T', 'fields', '-e', 'infiniband.bth.opcode', '-e', '_ws.malformed']
    const { stdout } = spawnSync('tshark', ['-r', capture, ...fields], {
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    })
    const lines = stdout.trimEnd().split('\n')
    expect(lines.length).toBeGreaterThan(writing.framesToDpu + writing.framesToHost)
    expect(lines.filter((line) => !/^\d+\t?$/.test(line))).toEqual([])
  },
)

test('perdure demo prints its table, and says with its exit code how it went', () => {
  const args = ['demo', file, '--folder', join(folder, 'told'), '--record-bytes', '1000']
  const told = spawnSync(process.execPath, [join(ROOT, 'dist/perdure.js'), ...args], {
    encoding: 'utf8',
  })
  expect(told.stderr).toContain('the power will go inside the commit of record')
  expect(told.stdout).toContain('Nothing acknowledged is lost, nothing torn was returned')
  expect(told.status).toBe(0)
  const json = spawnSync(process.execPath, [join(ROOT, 'dist/perdure.js'), ...args, '--json'], {
    encoding: 'utf8',
  })
  expect(JSON.parse(json.stdout)).toMatchObject({ ok: true, records: 151, level: '2of2' })
  const wrong = spawnSync(
    process.execPath,
    [join(ROOT, 'dist/perdure.js'), ...args, '--level', '3of2'],
    { encoding: 'utf8' },
  )
  expect([wrong.status, wrong.stdout]).toEqual([64, ''])
})
