/**
 * Other programs, run to their end, and the words for what went wrong.
 *
 * Invariant: a program that fails is a `Trouble` that names it and what it said; nothing is
 * asked of a person at a terminal.
 */

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** What keeps us from going on, for people. */
export class Trouble extends Error {}

/** Something is not here and cannot be had: a program, a package, a mirror. Nothing is broken. */
export class Missing extends Trouble {}

/** Exit code of a program that cannot run here for want of something. */
export const NOT_HERE = 3

/** What one program may print, bytes: a kernel goes through here. */
const OUTPUT_BYTES_MAX = 512 << 20

interface RunOptions {
  readonly cwd?: string
  readonly input?: Uint8Array
  readonly env?: Readonly<Record<string, string>>
}

/** Runs a program and returns what it printed. Throws a Trouble where it fails. */
export function run(program: string, args: readonly string[], options: RunOptions = {}): Buffer {
  const { cwd, input, env } = options
  const done = spawnSync(program, args, {
    maxBuffer: OUTPUT_BYTES_MAX,
    input: input ?? new Uint8Array(0),
    env: { ...process.env, LC_ALL: 'C', ...env },
    ...(cwd === undefined ? {} : { cwd }),
  })
  if (done.error !== undefined) throw new Trouble(`${program}: ${done.error.message}`)
  if (done.status === 0) return done.stdout
  const said = done.stderr.toString().trim().split('\n').slice(-8).join('\n')
  throw new Trouble(`${program} ${args.join(' ')} failed:\n${said}`)
}

/** Whether a program is on the path, or in the folders of the administrator. */
export function isThere(program: string): boolean {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin']
  return folders.some((folder) => existsSync(join(folder, program)))
}

/**
 * Runs a build's own command line to its end, and sets the exit code: 1 where something failed,
 * which is told, with the usage where the words were wrong; 3 where something is missing.
 */
export function runBuild(main: (args: readonly string[]) => void, usage: string): void {
  try {
    main(process.argv.slice(2))
  } catch (error) {
    const isUsage = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
    if (!(error instanceof Trouble) && !isUsage) throw error
    process.stderr.write(`perdure: ${(error as Error).message}\n${isUsage ? `${usage}\n` : ''}`)
    process.exitCode = error instanceof Missing ? NOT_HERE : 1
  }
}
