/**
 * What a program that uses the driver does not hear, and when it ends (R31-8): no warning in
 * ordinary use, and a process that lives as long as the page says.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { emulateIn, PLAIN, stop } from '../support/command/command.ts'
import { PATIENCE_MS } from '../support/run/patience.ts'

const DRIVER = new URL('../../dist/index.js', import.meta.url).href
const folder = mkdtempSync(join(tmpdir(), 'perdure-quiet-'))
let card: ChildProcess
/** Over UDP, and over the queues of the card. */
let targets: string[] = []

beforeAll(async () => {
  const regions = ['--region', 'notes:64:1000']
  const [child, told] = await emulateIn(folder, 2, [
    ...['--udp', '127.0.0.1:0', '--host', 'port', ...regions],
  ])
  card = child
  targets = told
})

afterAll(async () => {
  await stop(card)
  rmSync(folder, { recursive: true })
})

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program of somebody who uses the driver, in a process of its own. */
async function program(lines: string, ...args: string[]): Promise<Ended> {
  const script = `import { connect } from ${JSON.stringify(DRIVER)}
    const target = process.argv[1]
    const options = { warn() {}, timeoutMs: ${PATIENCE_MS} }
    ${lines}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, ...args], {
    ...{ cwd: folder, env: PLAIN },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = (await once(child, 'close')) as [number]
  return { code, stdout, stderr }
}

const WAYS: readonly (readonly [string, number])[] = [
  ['frames', 0],
  ['queues', 1],
]

for (const [way, i] of WAYS) {
  test(`R31-8: over ${way}, one signal for a hundred calls at once`, async () => {
    const ended = await program(
      `const { signal } = new AbortController()
       const dpu = await connect(target, { ...options, signal })
       const notes = await dpu.openRegion('notes')
       const bytes = Buffer.alloc(1000)
       for (let round = 0; round < 10; round++) {
         const writes = []
         for (let n = 0; n < 100; n++) writes.push(notes.persist(n % 64, bytes, { signal }))
         await Promise.all(writes.map(({ persisted }) => persisted))
         await Promise.all(Array.from({ length: 100 }, (_, n) => notes.read(n % 64)))
       }
       await dpu.close()`,
      targets[i]!,
    )
    expect(ended).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  test(`R31-8: over ${way}, a process lives until it is closed`, async () => {
    const ended = await program(
      `const dpu = await connect(target, options)
       process.once('beforeExit', () => console.log('nothing left'))
       // This alone keeps no process alive.
       setTimeout(() => {
         console.log('alive')
         dpu.close()
       }, 300).unref()`,
      targets[i]!,
    )
    expect(ended).toEqual({ code: 0, stdout: 'alive\nnothing left\n', stderr: '' })
  })
}

test('R31-8: a thousand connections, twenty of them at a time, warn of nothing', async () => {
  const ended = await program(
    `const { signal } = new AbortController()
     for (let round = 0; round < 50; round++) {
       const some = Array.from({ length: 20 }, () => connect(target, { ...options, signal }))
       for (const dpu of await Promise.all(some)) await dpu.close()
     }`,
    targets[0]!,
  )
  expect(ended).toEqual({ code: 0, stdout: '', stderr: '' })
})
