/**
 * `perdure monitor` at emulated cards: what happens to a card shows, once; a card that is away is
 * waited for; who ends it gets 0.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, expect, test } from 'vitest'
import { COMMAND, emulateIn, PLAIN, type Run, runIn, stop } from '../../support/command/command.ts'
import { type Line, startMonitor } from '../../support/monitor/running.ts'

const ENGINE = ['--engine', 'node', '--udp', '127.0.0.1:0']
const folder = mkdtempSync(join(tmpdir(), 'perdure-monitor-'))
const started: ChildProcess[] = []

afterEach(async () => {
  for (const child of started.splice(0)) if (child.exitCode === null) await stop(child)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A card that takes orders on its standard input; its address. */
async function serve(...args: string[]): Promise<[string, (order: string) => void]> {
  const [card, [address]] = await emulateIn(folder, 1, [...args, '--console', ...ENGINE])
  started.push(card)
  return [address!, (order) => card.stdin!.write(`${order}\n`)]
}

function linesOf({ stdout }: Run): Line[] {
  const lines = stdout.trim().split('\n')
  return lines.map((line) => JSON.parse(line) as Line)
}

test('faults of a card are events, each once; a restart makes no figure negative', async () => {
  const [card, order] = await serve('events.img', '--create', '--region', 'orders:8:64')
  const monitor = startMonitor(folder, [card, '--json', '--interval', '0.2', '--timeout', '0.5'])
  started.push(monitor.child)
  const first = await monitor.until((line) => line.up === true)
  expect(first).toMatchObject({
    ...{ target: card, rates: null, part: { state: 'serving', incarnation: 1 } },
    ...{ regions: [{ name: 'orders', slots: 8, unsettled: 0 }], faults: {} },
  })
  expect(JSON.stringify(first)).not.toMatch(/"key"|"rkey"/)

  const event = (name: string, gravity: string): Promise<Line> =>
    monitor.until((line) => line.event === name && line.gravity === gravity)
  order('energy gone')
  await event('armed', 'critical')
  order('energy back')
  await event('armed', 'info')
  order('save failed')
  await event('save', 'critical')
  order('save good')
  await event('save', 'info')
  order('card off')
  expect(await event('gone', 'critical')).toMatchObject({ target: card })
  const away = await monitor.until((line) => line.up === false)
  expect(away).toMatchObject({ code: 'PERDURE_UNREACHABLE' })
  order('card on')
  await event('back', 'info')
  expect((await event('restart', 'warning')).text).toContain('incarnation 2')
  await monitor.until((line) => line.up === true && line.rates !== null)

  expect(await stop(monitor.child)).toBe(0)
  const numbers = monitor.lines.flatMap(({ rates }) => numbersIn(rates))
  expect(numbers.length).toBeGreaterThan(0)
  expect(numbers.filter((number) => number < 0)).toEqual([])
  expect(monitor.stderr()).toBe('')
  for (const line of monitor.lines) expect(new Date(line.time).toISOString()).toBe(line.time)
})

test('with --told a card is looked at as soon as it tells of a change', async () => {
  const [card, order] = await serve('told.img', '--create', '--region', 'orders:8:64')
  const words = [card, '--json', '--told', '--interval', '3600', '--timeout', '5']
  const monitor = startMonitor(folder, words)
  started.push(monitor.child)
  await monitor.until((line) => line.up === true)
  const event = (name: string, gravity: string): Promise<Line> =>
    monitor.until((line) => line.event === name && line.gravity === gravity)
  for (const [energy, gravity] of [
    ['energy gone', 'critical'],
    ['energy back', 'info'],
    ['energy gone', 'critical'],
    ['energy back', 'info'],
  ] as const) {
    order(energy)
    await event('armed', gravity)
  }
  order('save failed')
  await event('save', 'critical')
  order('card off')
  order('card on')
  await event('restart', 'warning')
  expect(await stop(monitor.child)).toBe(0)
  expect(monitor.stderr()).toBe('')
})

function numbersIn(value: unknown): number[] {
  if (typeof value === 'number') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(numbersIn) : []
}

test('who looks is not what is seen: a card that nobody else uses meets no faults', async () => {
  const [card] = await serve('quiet.img', '--create', '--region', 'orders:8:64', '--host', 'port')
  const seen = await runIn(folder, ['monitor', card, '--json', '--interval', '0.1', '--count', '5'])
  expect(seen.code).toBe(0)
  const looks = linesOf(seen)
  expect(looks).toHaveLength(5)
  for (const { faults } of looks) expect(faults).toEqual({})
})

test('what a card acknowledges shows by the second, and how soon it was', async () => {
  const [card] = await serve('rates.img', '--create', '--region', 'orders:64:64')
  const monitor = startMonitor(folder, [card, '--json', '--interval', '0.2', '--timeout', '60'])
  started.push(monitor.child)
  const first = await monitor.until((line) => line.up === true)
  const none = { acknowledged: '0', bytes: '0', latency: [] }
  expect(first).toMatchObject({ rates: null, regions: [{ figures: none }] })
  writeFileSync(join(folder, 'records'), Buffer.alloc(64 * 64 - 40, 1))
  const { code } = await runIn(folder, ['persist', card, 'orders', 'records', '--raw'])
  expect(code).toBe(0)
  interface Busy {
    readonly work: { readonly records: number; readonly bursts: number; readonly fences: number }
    readonly regions: Readonly<Record<string, { p50Us: number | null; p999Us: number | null }>>
  }
  // The card and its region are asked one behind the other: each may be seen in a look of its own.
  let work: Busy['work'] | undefined
  let times: Busy['regions'][string] | undefined
  await monitor.until(({ rates }) => {
    const busy = rates as Busy | null | undefined
    if ((busy?.work.records ?? 0) > 0) work ??= busy!.work
    if ((busy?.regions[1]?.p50Us ?? null) !== null) times ??= busy!.regions[1]
    return work !== undefined && times !== undefined
  })
  expect(work!.bursts).toBeGreaterThan(0)
  expect(work!.fences).toBeGreaterThan(0)
  expect(times!.p50Us).toBeGreaterThanOrEqual(0)
  expect(times!.p999Us).toBeGreaterThanOrEqual(times!.p50Us!)
  expect(await stop(monitor.child)).toBe(0)
  const [last] = linesOf(await runIn(folder, ['monitor', card, '--count', '1', '--json']))
  expect(last).toMatchObject({ regions: [{ figures: { acknowledged: '64', bytes: '4056' } }] })
})

test('refusals, and what a start has lost, show as a table of the moment', async () => {
  const [card, order] = await serve('lost.img', '--create', '--region', 'orders:8:64')
  writeFileSync(join(folder, 'note'), 'x')
  await runIn(folder, ['persist', card, 'orders', 'note', '--raw'])
  await runIn(folder, ['read', card, 'none'])
  order('media orders:0 every copy')
  await runIn(folder, ['scan', card, 'orders'])
  const { code, stdout, stderr } = await runIn(folder, ['monitor', card, '--count', '1'])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^\S+Z perdure:\S+ serving, armed, volatile, incarnation 1, lost 1, /)
  expect(stdout.split('\n')).toHaveLength(2)
  expect(stderr).toContain('critical: 1 records are lost')
  expect(stderr).toContain("critical: region 'orders' takes no writes (READ_ONLY)")
  const json = await runIn(folder, ['monitor', card, '--count', '1', '--json'])
  const last = linesOf(json).at(-1)
  expect(last).toMatchObject({ faults: { NO_REGION: '1' }, part: { unsettled: 1 } })
})

test('a card that is away does not hold up another; the end says that it was', async () => {
  const [card] = await serve('here.img', '--create')
  const [gone] = await serve('gone.img', '--create')
  await stop(started.pop()!)
  const words = ['--interval', '0.1', '--timeout', '0.5', '--count', '2']
  const { code, stdout, stderr } = await runIn(folder, ['monitor', gone, card, ...words])
  expect(code).toBe(69)
  const lines = stdout.trim().split('\n')
  expect(lines.filter((line) => line.includes(`${card} serving`))).toHaveLength(2)
  expect(lines.filter((line) => line.includes(`${gone} away: `))).toHaveLength(2)
  expect(stderr.split('\n').filter((line) => line.includes(`${gone} critical: `))).toHaveLength(1)
})

test('Ctrl-C ends it at once with 0, also while a card is waited for', async () => {
  const [gone] = await serve('waited.img', '--create')
  await stop(started.pop()!)
  const [card] = await serve('beside.img', '--create')
  const monitor = startMonitor(folder, [gone, card, '--json', '--timeout', '3600'])
  started.push(monitor.child)
  await monitor.until((line) => line.up === true)
  const ended = new Promise((resolve) => monitor.child.on('close', resolve))
  monitor.child.kill('SIGINT')
  expect(await ended).toBe(0)
})

test('to a stranger a card with peers tells how it is, and nothing of what it holds', async () => {
  const { stdout: key } = await runIn(folder, ['key', 'new', '--out', 'admin.key'])
  writeFileSync(join(folder, 'peers'), `${key.trim()} ann admin\n`)
  const keys = ['--key', 'card.key', '--peers', 'peers']
  const [closed] = await serve('closed.img', '--create', '--region', 'orders:8:64', ...keys)
  const stranger = closed.replace(/[\da-f]{64}@/, '')
  const look = async (target: string): Promise<Line> => {
    const env = { PERDURE_KEY: join(folder, 'admin.key') }
    const words = ['monitor', target, '--json', '--count', '1']
    return linesOf(await runIn(folder, words, env)).at(-1)!
  }
  expect(await look(closed)).toMatchObject({ up: true, regions: [{ name: 'orders' }] })
  const told = await look(stranger)
  expect(told).toMatchObject({ up: true, regions: null, faults: null, recovery: null })
  expect(told.part).toMatchObject({ state: 'serving', armed: true })
  expect(told.part).not.toHaveProperty('superblockPages')
  const text = await runIn(folder, ['monitor', stranger, '--count', '1'])
  expect(text.stdout).toContain('serving, armed, volatile, incarnation -, lost -, mended -')
  expect(text.stderr).toBe('')
})

test('where its port of SMP is named, a card says what firmware runs', async () => {
  const words = ['flash.img', '--create', '--smp', 'unix:card.smp', '--udp', '127.0.0.1:0']
  const env = { XDG_CONFIG_HOME: folder }
  const child = spawn(process.execPath, [COMMAND, 'emulate', ...words], {
    ...{ cwd: folder, env: { ...PLAIN, ...env } },
  })
  child.stderr.resume()
  started.push(child)
  const [card] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const look = async (port: string): Promise<Line> => {
    const asked = ['monitor', card, '--smp', port, '--json', '--count', '1', '--timeout', '60']
    return linesOf(await runIn(folder, asked)).at(-1)!
  }
  expect((await look('unix:card.smp')).firmware).toMatchObject({ version: null, onTrial: false })
  expect(await look('unix:none')).toMatchObject({ up: true, firmware: null })
})

const hasScript = spawnSync('script', ['--version']).status === 0

test.skipIf(!hasScript)('a terminal has a table that is renewed (needs script)', async () => {
  const [card] = await serve('table.img', '--create', '--region', 'orders:8:64')
  const words = `${process.execPath} ${COMMAND} monitor ${card} --interval 0.1 --count 3`
  const child = spawn('script', ['-qec', words, '/dev/null'])
  let text = ''
  child.stdout.on('data', (piece: Buffer) => {
    text += piece.toString('utf8')
  })
  const code = await new Promise((resolve) => child.on('close', resolve))
  expect(code).toBe(0)
  expect(text.split('\u001b[H')).toHaveLength(4)
  expect(text).toContain('perdure monitor, every 0.1 s')
  expect(text).toMatch(/orders +records/)
})
