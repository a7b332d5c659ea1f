/**
 * The command and the queues of a host: `perdure emulate --host`, targets of the form pcie:FILE,
 * and `perdure inspect --queues`, in processes of their own.
 */

import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { QUEUE_COUNTERS } from '../../firmware/host/host.ts'
import { exitCodeOf } from '../../host-driver/command/base/exit-codes.ts'
import { connect, PerdureError } from '../../host-driver/index.ts'
import { emulateIn, type Run, runIn, stop } from '../support/command/command.ts'
import { PATIENCE_MS, PATIENT } from '../support/run/patience.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-cli-queues-'))
const content = Uint8Array.from({ length: 20_500 }, (_, i) => (i * 7 + (i >> 8)) & 0xff)

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

const run = (...args: string[]): Promise<Run> => runIn(folder, args)

async function runJson(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await run(...args, '--json')
  expect(stderr).toBe('')
  expect(code).toBe(0)
  return JSON.parse(stdout) as Record<string, unknown>
}

afterAll(() => rmSync(folder, { recursive: true }))

describe('a card with a host behind PCIe', () => {
  let card: ChildProcess
  let tunnel = ''

  beforeAll(async () => {
    writeFileSync(join(folder, 'file.bin'), content)
    const image = ['card.img', '--create', '--size', '1M', '--region', 'orders:64:1000']
    const host = ['--host', 'port', '--host-memory', '4M', '--udp', '127.0.0.1:0']
    const [child, told] = await emulateIn(folder, 2, [...image, ...host])
    card = child
    expect(told[1]).toBe('pcie:port')
    tunnel = told[0]!
    expect(existsSync(join(folder, 'port'))).toBe(true)
  })

  test('without a driver there are no queues, and that is fine', async () => {
    expect(await runJson('inspect', '--queues', tunnel)).toMatchObject({
      ...{ epoch: 0, queues: 0, used: 0, cached: 0, policy: 'least-used', inUse: [] },
    })
    const { code, stdout } = await run('inspect', '--queues', tunnel)
    expect(code).toBe(0)
    expect(stdout).toMatch(/host +none/)
  })

  test('a file is persisted through the queues, read back, and verified', async () => {
    const done = await runJson('persist', 'pcie:port', 'orders', 'file.bin')
    expect(done).toMatchObject({ records: 21, bytes: 20_500, copies: 2, sha256: hashOf(content) })
    expect((await run('read', 'pcie:port', 'orders', '--out', 'back.bin')).code).toBe(0)
    expect(hashOf(readFileSync(join(folder, 'back.bin')))).toBe(hashOf(content))
    expect(await runJson('verify', 'pcie:port')).toMatchObject({ lost: 0 })
    const over = await run('read', tunnel, 'orders', '--out', 'tunnel.bin')
    expect(over.code).toBe(0)
    expect(hashOf(readFileSync(join(folder, 'tunnel.bin')))).toBe(hashOf(content))
  })

  test('inspect shows the counters, the cache and every queue in use', async () => {
    const shown = await runJson('inspect', '--queues', 'pcie:port')
    const counters = shown.counters as Record<string, string>
    expect(Object.keys(counters)).toEqual([...QUEUE_COUNTERS])
    expect(Number(counters.elements)).toBeGreaterThan(21)
    expect(Number(counters.completions)).toBeGreaterThan(21)
    expect(Number(counters.doorbells)).toBeGreaterThan(0)
    const inUse = shown.inUse as Record<string, unknown>[]
    expect(inUse.length).toBe(shown.used)
    expect(inUse.slice(0, 3)).toMatchObject([
      { queue: 0, kind: 'send', type: 'gsi', state: 'ready', fault: null },
      { queue: 1, kind: 'receive', type: 'gsi', state: 'ready' },
      { queue: 2, kind: 'completion', state: 'ready', completionQueue: null },
    ])
    expect(inUse.some(({ kind, type }) => kind === 'send' && type === 'local')).toBe(true)
    const { code, stdout } = await run('inspect', '--queues', 'pcie:port', '--most', '2')
    expect(code).toBe(0)
    expect(stdout).toMatch(/context cache +\d+ cached of \d+, evicts the one used longest ago/)
    expect(stdout).toMatch(/hit rate +\d+\.\d %/)
    expect(stdout).toMatch(/queue +kind +type +state +depth/)
    expect(stdout).toMatch(/… and \d+ more/)
  })

  test('the library reaches it, and its cache is set over either way', async () => {
    await using host = await connect(`pcie:${join(folder, 'port')}`, PATIENT)
    await using far = await connect(tunnel, PATIENT)
    const region = await host.openRegion('orders')
    await region.persist(60, content.subarray(0, 900)).persisted
    await far.setCache({ policy: 'n-oldest', n: 3, capacity: 64 })
    expect(await host.queues()).toMatchObject({ policy: 'n-oldest', n: 3, capacity: 64 })
    await host.setCache({ policy: 'least-used', capacity: 256 })
    expect(await far.queues()).toMatchObject({ policy: 'least-used', capacity: 256 })
    expect(await far.queue(0)).toMatchObject({ kind: 'send', type: 'gsi', valid: true })
    await expect(far.queue(65_535)).rejects.toMatchObject({ fault: 'QUEUE_UNKNOWN' })
    await expect(async () => far.setCache({ policy: 'best' as 'age' })).rejects.toMatchObject({
      code: 'PERDURE_ARGUMENT',
    })
    expect((await (await far.openRegion('orders')).read(60)).data).toEqual(content.slice(0, 900))
    const second = await run('inspect', 'pcie:port')
    expect(second.code).toBe(69)
    expect(host.statistics()).toMatchObject({ framesSent: 0, connections: 1 })
  })

  test('a power cut under the host loses nothing that was acknowledged', async () => {
    await using host = await connect(`pcie:${join(folder, 'port')}`, {
      ...PATIENT,
      reconnectTimeoutMs: PATIENCE_MS,
    })
    const region = await host.openRegion('orders')
    const writes = Array.from({ length: 60 }, (_, i) => region.persist(i, content.subarray(i, 500)))
    await writes[5]!.persisted
    card.kill('SIGUSR2')
    await Promise.all(writes.map(({ persisted }) => persisted))
    for (let i = 0; i < 60; i++) {
      expect((await region.read(i)).data).toEqual(content.slice(i, 500))
    }
    expect(host.incarnation).toBe(2)
  })

  test('a signal stops the card, and then nobody answers', async () => {
    expect(await stop(card)).toBe(0)
    const gone = await run('read', 'pcie:port', 'orders', '--json')
    expect(gone).toMatchObject({ code: 69, stdout: '' })
    const { error } = JSON.parse(gone.stderr) as { error: Record<string, unknown> }
    expect(error.code).toBe('PERDURE_UNREACHABLE')
  })
})

describe('on the command line', () => {
  test.each([
    [64, ['emulate', '--host-memory', '4M']],
    [64, ['inspect', '--queues', 'pcie:']],
    [64, ['inspect', '--queues', '--most', 'x', 'pcie:port']],
    [64, ['recover', 'pcie:port']],
    [66, ['read', 'pcie:not-there', 'orders']],
    [65, ['read', 'pcie:file.bin', 'orders']],
  ] as const)('exit code %i: perdure %s', async (code, args) => {
    const done = await run(...args)
    expect(done.stdout).toBe('')
    expect(done.stderr).not.toBe('')
    expect(done.code).toBe(code)
  })

  test('an image has no host, and says so', async () => {
    const { code, stdout } = await run('inspect', '--queues', 'card.img', '--engine', 'node')
    expect(code).toBe(0)
    expect(stdout).toMatch(/queues +0 in use of 0/)
  })

  test('what the queues can say has exit codes', () => {
    expect(exitCodeOf(new PerdureError('PERDURE_CARD_REMOVED', ''))).toBe(69)
    expect(exitCodeOf(new PerdureError('PERDURE_QUEUE_ENDED', ''))).toBe(69)
    expect(exitCodeOf(Object.assign(new Error(''), { code: 'PORT_FILE_IN_USE' }))).toBe(69)
    expect(exitCodeOf(Object.assign(new Error(''), { code: 'FORBIDDEN_ACCESS' }))).toBe(70)
  })
})
