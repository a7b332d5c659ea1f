/**
 * The dashboard for Grafana and the alerts for Prometheus: every query of theirs is asked of a real
 * Prometheus that scrapes a monitor, and finds series there.
 *
 * Skipped where there is no Prometheus.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FAMILIES } from '../../../host-driver/command/monitor/families.ts'
import { COMMAND, emulateIn, PLAIN, runIn, stop } from '../../support/command/command.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { ROOT } from '../../support/source/sources.ts'

interface Panel {
  readonly id: number
  readonly title: string
  readonly gridPos: { x: number; y: number; w: number; h: number }
  readonly targets: readonly { readonly expr: string }[]
}

const ALERTS = join(ROOT, 'boards/grafana/alerts.yml')
const board = JSON.parse(readFileSync(join(ROOT, 'boards/grafana/perdure.json'), 'utf8')) as {
  panels: Panel[]
}
const queries = board.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
const alerts = [...readFileSync(ALERTS, 'utf8').matchAll(/^ +expr: (.*)$/gm)].map(([, one]) => one!)

/** The names of the series of a family. */
function namesOf({ name, type }: (typeof FAMILIES)[number]): string[] {
  return type === 'histogram' ? ['_bucket', '_sum', '_count'].map((one) => name + one) : [name]
}

describe('as a text', () => {
  test('every metric that is asked for is one that a monitor tells', () => {
    const known = ['perdure_up', ...FAMILIES.flatMap(namesOf)]
    for (const query of [...queries, ...alerts]) {
      const named = query.match(/\bperdure_\w+/g) ?? []
      expect(named.length, query).toBeGreaterThan(0)
      for (const name of named) expect(known).toContain(name)
    }
    expect(alerts).toHaveLength(7)
  })

  test('no two panels have one number, or stand on one another', () => {
    const ids = board.panels.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    const cells = board.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
  })
})

const has = (program: string): boolean => spawnSync(program, ['--version']).status === 0

test.skipIf(!has('promtool'))('promtool takes the alerts (needs prometheus)', () => {
  const { status, stdout } = spawnSync('promtool', ['check', 'rules', ALERTS], { encoding: 'utf8' })
  expect([status, stdout]).toEqual([0, expect.stringContaining('7 rules found')])
})

describe.skipIf(!has('prometheus'))('in a Prometheus (needs prometheus)', THOROUGH, () => {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-grafana-'))
  const started: ChildProcess[] = []
  let target = ''
  let prometheus = ''

  beforeAll(async () => {
    // With a host inside, so that there are queues.
    const [card, [address]] = await emulateIn(folder, 1, [
      ...['part.img', '--create', '--region', 'orders:8:64', '--persistent', '1M,far'],
      ...['--engine', 'node', '--udp', '127.0.0.1:0'],
    ])
    started.push(card)
    target = address!
    await runIn(folder, ['read', target, 'none'])
    writeFileSync(join(folder, 'note'), 'x')
    await runIn(folder, ['persist', target, 'orders', 'note', '--raw'])
    const words = ['monitor', target, '--interval', '0.5', '--timeout', '60', '--web']
    const monitor = spawn(process.execPath, [COMMAND, ...words], { cwd: folder, env: PLAIN })
    monitor.stderr.resume()
    started.push(monitor)
    const [page] = (await once(createInterface({ input: monitor.stdout }), 'line')) as [string]
    prometheus = await startPrometheus(new URL(page).host)
  })

  afterAll(async () => {
    for (const child of started.reverse()) if (child.exitCode === null) await stop(child)
    rmSync(folder, { recursive: true, force: true })
  })

  /** One that scrapes that; its address. */
  async function startPrometheus(scraped: string): Promise<string> {
    const config = join(folder, 'prometheus.yml')
    writeFileSync(
      config,
      [
        'global: { scrape_interval: 1s, evaluation_interval: 1s }',
        `rule_files: [${JSON.stringify(ALERTS)}]`,
        `scrape_configs: [{ job_name: perdure, static_configs: [{ targets: ["${scraped}"] }] }]`,
      ].join('\n'),
    )
    const child = spawn('prometheus', [
      ...[`--config.file=${config}`, `--storage.tsdb.path=${join(folder, 'data')}`],
      '--web.listen-address=127.0.0.1:0',
    ])
    child.stdout.resume()
    started.push(child)
    for await (const line of createInterface({ input: child.stderr })) {
      const port = /Listening on.*address=127\.0\.0\.1:(\d+)/.exec(line)?.[1]
      if (port === undefined) continue
      child.stderr.resume()
      return `http://127.0.0.1:${port}`
    }
    throw new Error('prometheus has ended')
  }

  async function ask(path: string): Promise<{ data: { result: unknown[]; alerts: unknown[] } }> {
    const answer = await fetch(`${prometheus}/api/v1/${path}`)
    const body = (await answer.json()) as { status: string; error?: string }
    if (answer.status < 500) expect(body, path).toMatchObject({ status: 'success' })
    return body as never
  }

  /** Asks until something is found: what is scraped comes a little later. */
  async function found(query: string): Promise<unknown[]> {
    for (;;) {
      const { data } = await ask(`query?query=${encodeURIComponent(query)}`)
      if (data?.result.length > 0) return data.result
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }

  const INSTEAD: readonly (readonly [string, string])[] = [
    ['$target', '.*'],
    ['$__rate_interval', '1m'],
    ['$__range', '10m'],
  ]

  test.each(queries)('%s', async (query) => {
    const asked = INSTEAD.reduce((text, [name, value]) => text.replaceAll(name, value), query)
    expect(asked).not.toContain('$')
    const all = (await found(asked)) as { metric: { target?: string } }[]
    for (const { metric } of all) expect(metric.target).toBe(target)
  })

  test('the alerts hear that the memory of a card does not outlive the power', async () => {
    const pending = await found('ALERTS{alertname="PerdureHealth"}')
    expect(pending).toMatchObject([{ metric: { aspect: 'outlives_power', target } }])
  })
})
