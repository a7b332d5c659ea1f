/**
 * `perdure console`: a card's console over a socket and over a serial line. The card is played by
 * the test.
 */

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { type Run, runIn } from '../support/command/command.ts'
import { compile, Harness, noCompiler } from '../support/native/harness.ts'
import { ROOT } from '../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-console-'))
const servers: Server[] = []
let sockets = 0
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A card that does this with every line; returns the target. */
async function card(answer: (line: string, socket: Socket) => void): Promise<string> {
  const path = join(folder, `socket${++sockets}`)
  const server = createServer((socket) => {
    socket.on('error', () => {})
    createInterface({ input: socket }).on('line', (line) => answer(line, socket))
  })
  servers.push(server)
  await new Promise<void>((resolve) => {
    server.listen(path, resolve)
  })
  return `unix:${path}`
}

function ask(...args: string[]): Promise<Run> {
  return runIn(folder, ['console', ...args])
}

describe('perdure console over a socket', () => {
  test('prints an answer for people, and as JSON', async () => {
    const target = await card((line, socket) => {
      socket.write(`{"said":"${line}","memory":{"bytes":4096,"armed":true}}\n`)
    })
    const run = await ask(target, 'status')
    expect(run.stdout).toBe('said          status\nmemory.bytes  4096\nmemory.armed  true\n')
    expect(run.code).toBe(0)
    const json = await ask(target, 'status', '--json')
    expect(JSON.parse(json.stdout)).toEqual({
      said: 'status',
      memory: { bytes: 4096, armed: true },
    })
  })

  test('without a command it takes lines, one at a time', async () => {
    let waiting = 0
    const target = await card((line, socket) => {
      expect(++waiting).toBe(1)
      setTimeout(() => {
        waiting--
        socket.write(`{"said":"${line}"}\n`)
      }, 20)
    })
    const child = spawn(process.execPath, [join(ROOT, 'dist/perdure.js'), 'console', target])
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    child.stdin.end('one\n\n  two  \nthree\n')
    const code = await new Promise((resolve) => child.on('close', resolve))
    expect(said).toBe('said  one\nsaid  two\nsaid  three\n')
    expect(code).toBe(0)
  })

  test('takes nothing for an answer that is none', async () => {
    const target = await card((_line, socket) => {
      socket.write('[    0.42] a kernel boots\r\n[1]\n"text"\nnull\n{broken\n{"a":1}\r\n')
    })
    expect((await ask(target, 'status', '--json')).stdout).toBe('{"a":1}\n')
  })

  test('a command that the card refuses has an exit code', async () => {
    const target = await card((_line, socket) => socket.write('{"error":"unknown command"}\n'))
    const run = await ask(target, 'sing')
    expect(run.stdout).toContain('unknown command')
    expect(run.code).toBe(69)
  })

  test('a card that is silent, goes away, or is not there is told', async () => {
    const silent = await ask(await card(() => {}), 'status', '--timeout', '100')
    expect(silent.stderr).toContain("no answer to 'status' within 100 ms")
    expect(silent.code).toBe(69)
    const gone = await ask(await card((_line, socket) => socket.destroy()), 'status')
    expect(gone.stderr).toContain('the connection ended')
    expect(gone.code).toBe(69)
    const nobody = await ask('unix:/nonexistent', 'status')
    expect(nobody.stderr).toContain('/nonexistent')
    expect(nobody.code).toBe(66)
    const noLine = await ask('/dev/nonexistent', 'status')
    expect(noLine.code).toBe(66)
  })

  test('a target that is no console is refused', async () => {
    for (const target of ['perdure://127.0.0.1', 'unix:', 'ttyUSB0']) {
      expect((await ask(target, 'status')).code).toBe(64)
    }
  })
})

describe.skipIf(noCompiler !== null)('perdure console over a serial line', () => {
  test('asks, and hears the answer between other words', async () => {
    const line = new Harness(compile('pty-harness', []), [])
    const tty = await line.line()
    const run = ask(tty, 'hash', '--json')
    expect(await line.line()).toBe('hash')
    line.send('somebody else speaks\r\n{"bundle":"ab"}\r\n')
    expect((await run).stdout).toBe('{"bundle":"ab"}\n')
    await line.kill()
  })
})
