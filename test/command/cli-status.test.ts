/** `perdure inspect --status`, in a process of its own: maps of blocks, JSON, exit codes. */

import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { emulateIn, type Run, runIn, stop } from '../support/command/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-cli-status-'))

const run = (...args: string[]): Promise<Run> => runIn(folder, args)

/** Starts a card; its target for commands. */
async function emulate(...args: string[]): Promise<[ChildProcess, string]> {
  const [child, [target]] = await emulateIn(folder, 1, args)
  return [child, target!]
}

afterAll(() => rmSync(folder, { recursive: true }))

describe('inspect --status', () => {
  let card: ChildProcess
  let tunnel = ''

  beforeAll(async () => {
    writeFileSync(join(folder, 'file.bin'), new Uint8Array(3000).fill(7))
    const regions = ['--region', 'orders:512:1000', '--region', 'small:4:100']
    const image = ['card.img', '--create', '--size', '4M', ...regions]
    const port = ['--host', 'port', '--host-memory', '4M', '--udp', '127.0.0.1:0']
    ;[card, tunnel] = await emulate(...image, ...port)
  })
  afterAll(async () => {
    await stop(card)
  })

  test('P5-2, P5-30: prints a map of blocks per region, with counts and a legend', async () => {
    expect((await run('persist', tunnel, 'orders', 'file.bin')).code).toBe(0)
    const { code, stdout, stderr } = await run('inspect', '--status', tunnel)
    expect(stderr).toBe('')
    expect(code).toBe(0)
    const lines = stdout.trimEnd().split('\n')
    const orders = lines.findIndex((line) => line.startsWith('orders'))
    expect(lines[orders]).toMatch(
      /^orders {2}records, (\d+) blocks of 4 KiB: \1 ready, 0 not ready, 0 unknown \(health ok\)$/,
    )
    expect(lines[orders + 1]).toMatch(/^ +0 B {2}█{64}$/)
    expect(lines[orders + 2]).toMatch(/^ +256 KiB {2}█{64}$/)
    expect(stdout).toMatch(/^small {2}records, 1 block of 4 KiB: 1 ready/m)
    expect(lines.at(-1)).toBe('█ ready  ░ not ready  ▒ unknown')
  })

  test('as JSON, with one letter per block', async () => {
    const { code, stdout } = await run('inspect', '--status', tunnel, '--json')
    expect(code).toBe(0)
    const { state, regions } = JSON.parse(stdout) as {
      state: string
      regions: { name: string; map: string; ready: number; blockBytes: number }[]
    }
    expect(state).toBe('serving')
    expect(regions.map(({ name }) => name)).toEqual(['orders', 'small'])
    expect(regions[1]).toEqual({
      ...{ name: 'small', kind: 'records', phase: 'ready', health: 'ok', blockBytes: 4096 },
      ...{ ready: 1, notReady: 0, unknown: 0, map: 'R' },
    })
    expect(regions[0]!.map).toMatch(/^R+$/)
    expect(regions[0]!.map).toHaveLength(regions[0]!.ready)
  })

  test('of one region', async () => {
    const { code, stdout } = await run('inspect', '--status', tunnel, '--region', 'small')
    expect(code).toBe(0)
    expect(stdout).toContain('small')
    expect(stdout).not.toContain('orders')
  })

  test('of several: the option is repeated, and leaves the target alone', async () => {
    const one = await run('inspect', '--status', '--region', 'small', tunnel)
    expect(one.code).toBe(0)
    expect(one.stdout).not.toContain('orders')
    const names = ['--region', 'small', '--region', 'orders']
    const { code, stdout } = await run('inspect', '--status', ...names, tunnel, '--json')
    expect(code).toBe(0)
    const { regions } = JSON.parse(stdout) as { regions: { name: string }[] }
    expect(regions.map(({ name }) => name)).toEqual(['small', 'orders'])
  })

  test("X-7: a region that is not there, and a card's queues, end with 69", async () => {
    const missing = await run('inspect', '--status', tunnel, '--region', 'none')
    expect(missing.code).toBe(69)
    expect(missing.stderr).toContain('NO_REGION')
    const queues = await run('inspect', '--status', 'pcie:port')
    expect(queues.code).toBe(69)
    expect(queues.stderr).toContain("not its local card's")
  })
})

test('of an image, which is not changed, and of one without regions', async () => {
  const [child, target] = await emulate(
    'empty.img',
    '--create',
    '--size',
    '1M',
    '--udp',
    '127.0.0.1:0',
  )
  const { code, stdout } = await run('inspect', '--status', target)
  expect(code).toBe(0)
  expect(stdout).toBe('no regions\n')
  await stop(child)
  const image = await run('inspect', '--status', 'empty.img')
  expect(image).toEqual({ code: 0, stdout: 'no regions\n', stderr: '' })
})
