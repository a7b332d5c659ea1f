/**
 * `perdure monitor --metrics`: the text of Prometheus, as its own tool reads it, and as its format
 * is written down: https://prometheus.io/docs/instrumenting/exposition_formats/
 */

import { type ChildProcess, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { BUCKETS } from '../../../firmware/board/latency.ts'
import { FAMILIES } from '../../../host-driver/command/monitor/families.ts'
import type { Look } from '../../../host-driver/command/monitor/look.ts'
import { metricsText } from '../../../host-driver/command/monitor/metrics.ts'
import { emulateIn, runIn, stop } from '../../support/command/command.ts'
import { readMetrics } from '../../support/monitor/metrics-text.ts'
import {
  figuresOf,
  firmwareOf,
  lookAt,
  queuesOf,
  sampleOf,
  workOf,
} from '../../support/monitor/samples.ts'
import { ROOT } from '../../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-metrics-'))
const cards: ChildProcess[] = []
afterEach(async () => {
  for (const card of cards.splice(0)) await stop(card)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A look that has something of every family. */
const WORK = { kind: 'making', region: 3, done: 4096, total: 1 << 20 } as const
const FULL = sampleOf({
  part: { work: WORK },
  faults: { SLOT: 5n, MEDIA: 2n ** 60n },
  queues: queuesOf({ elements: 7n, queueErrors: 1n }),
  figures: workOf(5n),
  region: { figures: figuresOf({ 0: 1n, 8: 3n, 103: 2n }) },
  firmware: firmwareOf(),
})
const AWAY: Look = {
  ...{ target: 'perdure://away', atMs: 0, up: false, reason: 'x', code: 'X', sinceMs: 0 },
}

describe('the text', () => {
  test('has every family once, each with HELP and TYPE before its samples', () => {
    const looks = [lookAt(FULL, 'perdure://a'), AWAY, lookAt(FULL, 'perdure://b')]
    const families = readMetrics(metricsText(looks))
    const names = ['perdure_up', ...FAMILIES.map(({ name }) => name)]
    expect([...families.keys()]).toEqual(names)
    for (const { samples } of families.values()) {
      const labels = samples.map(({ suffix, labels: of }) => JSON.stringify([suffix, of]))
      expect(new Set(labels).size).toBe(labels.length)
    }
    const up = families
      .get('perdure_up')!
      .samples.map(({ labels, value }) => [labels.target, value])
    expect(up).toEqual([
      ['perdure://a', '1'],
      ['perdure://away', '0'],
      ['perdure://b', '1'],
    ])
    const refusals = families.get('perdure_refusals_total')!.samples
    expect(refusals.map(({ value }) => value)).toContain(String(2n ** 60n))
  })

  test('a histogram has every border each time, in seconds, and grows up to its count', () => {
    const { type, samples } = readMetrics(metricsText([lookAt(FULL)])).get(
      'perdure_persist_seconds',
    )!
    expect(type).toBe('histogram')
    const buckets = samples.filter(({ suffix }) => suffix === '_bucket')
    expect(buckets).toHaveLength(BUCKETS)
    const borders = buckets.map(({ labels }) => labels.le!.replace('+Inf', 'Infinity')).map(Number)
    expect(borders.slice(0, 9)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10].map((us) => us / 1e6))
    expect(borders).toEqual([...borders].sort((a, b) => a - b))
    expect(borders.at(-1)).toBe(Number.POSITIVE_INFINITY)
    const counts = buckets.map(({ value }) => Number(value))
    expect([counts[0], counts[7], counts[8], counts[102], counts[103]]).toEqual([1, 1, 4, 4, 6])
    expect(counts).toEqual([...counts].sort((a, b) => a - b))
    const rest = samples.filter(({ suffix }) => suffix !== '_bucket')
    expect(rest.map(({ suffix, value }) => [suffix, Number(value)])).toEqual([
      ['_sum', (3 * 8 + 2 * 7 * 2 ** 24) / 1e6],
      ['_count', 6],
    ])
  })

  test('what a card does not tell is absent: queues, regions, and to strangers the part', () => {
    const silent = { ...sampleOf({ regions: null, faults: null }), isWhole: false }
    const families = readMetrics(metricsText([lookAt(silent)]))
    expect([...families.keys()]).toEqual([
      ...['perdure_up', 'perdure_part_info', 'perdure_part_health', 'perdure_answer_seconds'],
    ])
    const aspects = families.get('perdure_part_health')!.samples.map(({ labels }) => labels.aspect)
    expect(aspects).toEqual(['serving', 'writable', 'armed', 'saved', 'outlives_power'])
  })

  test.each(['a"b', 'back\\slash', 'two\nlines', '\u001b[2J', 'ünï', '{}=,'])(
    'a name comes back as it was: %j',
    (name) => {
      const families = readMetrics(metricsText([lookAt(sampleOf({ region: { name } }))]))
      const [sample] = families.get('perdure_region_slots')!.samples
      expect(sample!.labels.region).toBe(name)
    },
  )

  test('of a name that is no UTF-8 the bytes are shown', () => {
    const look = lookAt(sampleOf({ region: { name: 'a\udcffb' } }))
    const text = metricsText([look])
    expect(Buffer.from(text, 'utf8').toString('utf8')).toBe(text)
    const [sample] = readMetrics(text).get('perdure_region_slots')!.samples
    expect(sample!.labels.region).toBe('a\\xffb')
  })

  test('every metric is on the page, and no other', () => {
    const page = readFileSync(join(ROOT, 'host-driver/doc/monitoring.md'), 'utf8')
    const rows = [...page.matchAll(/^\| `(perdure_\w+)/gm)].map(([, name]) => name)
    expect(rows.sort()).toEqual(['perdure_up', ...FAMILIES.map(({ name }) => name)].sort())
  })
})

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

test.skipIf(!hasPromtool)('promtool has nothing to say of it (needs prometheus)', () => {
  const text = metricsText([lookAt(FULL, 'perdure://a'), AWAY])
  const said = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' })
  expect(said.stderr + said.stdout).toBe('')
  expect(said.status).toBe(0)
  const wrong = text.replaceAll('perdure_strangers_refused_total', 'perdure_strangers_refused')
  const found = spawnSync('promtool', ['check', 'metrics'], { input: wrong, encoding: 'utf8' })
  expect(found.status).not.toBe(0)
})

test('a card prints its own, and one that is away does not keep it back', async () => {
  const words = ['--create', '--region', 'orders:8:64', '--engine', 'node', '--udp', '127.0.0.1:0']
  const [card, [address]] = await emulateIn(folder, 1, ['part.img', ...words])
  cards.push(card)
  const [gone, [other]] = await emulateIn(folder, 1, ['other.img', ...words])
  await stop(gone)
  const both = await runIn(folder, ['monitor', address!, other!, '--metrics', '--timeout', '0.5'])
  expect(both.code).toBe(69)
  expect(both.stderr).toContain(`${other} away: `)
  const families = readMetrics(both.stdout)
  expect(families.get('perdure_up')!.samples.map(({ value }) => value)).toEqual(['1', '0'])
  expect(families.get('perdure_region_slots')!.samples).toEqual([
    { suffix: '', labels: { target: address, region: 'orders', id: '1' }, value: '8' },
  ])
  const health = families.get('perdure_part_health')!.samples
  const ill = health.filter(({ value }) => value === '0').map(({ labels }) => labels.aspect)
  expect(ill).toEqual(['outlives_power'])
  expect((await runIn(folder, ['monitor', address!, '--metrics'])).code).toBe(0)
})
