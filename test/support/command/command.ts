/** `perdure` in a process of its own, as a user runs it: the built file, and what it says. */

import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** The built command. */
export const COMMAND: string = join(
  dirname(fileURLToPath(import.meta.url)),
  '../../../dist/perdure.js',
)

/** Its environment: what this machine sets besides would change what it says. */
export const PLAIN: NodeJS.ProcessEnv = Object.fromEntries(
  ['PATH', 'HOME', 'TMPDIR'].map((name) => [name, process.env[name]]),
)

/** How a run ended. */
export interface Run {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs the command in that folder, with more in its environment, and text on standard input. */
export async function runIn(
  folder: string,
  args: readonly string[],
  more: NodeJS.ProcessEnv = {},
  text = '',
): Promise<Run> {
  const env = { ...PLAIN, ...more }
  const child = spawn(process.execPath, [COMMAND, ...args], { cwd: folder, env })
  if (text !== '') child.stdin.end(text)
  return await endOf(child)
}

/** Runs the command in that folder, and ends it when it has said that; how it ended. */
export async function endAt(
  folder: string,
  args: readonly string[],
  words: string,
  signal: NodeJS.Signals,
): Promise<Run & { readonly signal: NodeJS.Signals | null }> {
  const child = spawn(process.execPath, [COMMAND, ...args], { cwd: folder, env: PLAIN })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece: Buffer) => {
      const before = said.includes(words)
      said += piece.toString('utf8')
      if (!before && said.includes(words)) child.kill(signal)
    })
  }
  return { ...(await endOf(child)), signal: child.signalCode }
}

async function endOf(child: ChildProcessWithoutNullStreams): Promise<Run> {
  const text = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text.stdout += piece
  })
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    text.stderr += piece
  })
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { code, ...text }
}

/** Starts a card in that folder, and waits for so many lines on its standard output. */
export async function emulateIn(
  folder: string,
  lines: number,
  args: readonly string[],
): Promise<[ChildProcess, string[]]> {
  const child = spawn(process.execPath, [COMMAND, 'emulate', ...args], { cwd: folder, env: PLAIN })
  const told: string[] = []
  await new Promise<void>((resolve, reject) => {
    let last = ''
    child.stderr.on('data', (piece: Buffer) => {
      last = `${piece}`
    })
    child.once('exit', (code) => reject(new Error(`it ended with ${code}: ${last}`)))
    createInterface({ input: child.stdout }).on('line', (line) => {
      told.push(line)
      if (told.length === lines) resolve()
    })
  })
  return [child, told]
}

/** Ends it as a user would; its exit code. */
export async function stop(child: ChildProcess): Promise<number | null> {
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  child.kill('SIGTERM')
  return await ended
}
