/**
 * A C program of the tests, compiled with the runtime's own files and every check that the compiler
 * and its sanitizers have.
 */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { halHeader } from '../../../boards/linux/hal-header.ts'
import { isThere, run } from '../../../boards/tools/debian/programs.ts'

const SOURCES = fileURLToPath(new URL('../../../boards/linux/src/', import.meta.url))
const HERE = fileURLToPath(new URL('./', import.meta.url))

const FLAGS = '-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror'.split(' ')
const SANITIZE = '-fsanitize=address,undefined -fno-sanitize-recover=all'.split(' ')

/** What the links are made of, for `compile`. */
export const LINK_PARTS: readonly string[] = [
  ...[
    'link/link',
    'link/links',
    'link/link-dgram',
    'link/link-packet',
    'link/link-stream',
    'link/link-udp',
    'link/datagrams',
  ],
  ...[
    'link/clock',
    'link/known/peers',
    'link/known/strangers',
    'link/endpoint',
    'link/unix-socket',
    'service/fault',
  ],
  ...['card/icrc', 'card/crc32c', 'card/crc-table'],
]

/** Why no such program can be made here; null where it can. */
export const noCompiler: string | null = isThere('gcc') ? null : 'gcc is missing (Debian: gcc)'

/** The name of a group of tests, and why it is skipped, if it is. */
export function titled(name: string, why: string | null = noCompiler): string {
  return why === null ? name : `${name}: ${why}`
}

/**
 * Compiles `harness`, a path from this folder without its ending, with `parts` of the runtime,
 * paths in `src` likewise. Returns the program's path; it is gone when the process ends. `more` are
 * flags and libraries.
 */
export function compile(
  harness: string,
  parts: readonly string[],
  more: readonly string[] = [],
): string {
  return compileWith('gcc', SANITIZE, harness, parts, more)
}

/** The same for an emulated processor: static, and without the sanitizers, which want their own. */
export function compileStatic(compiler: string, harness: string, parts: readonly string[]): string {
  return compileWith(compiler, ['-static'], harness, parts, [])
}

function compileWith(
  compiler: string,
  how: readonly string[],
  harness: string,
  parts: readonly string[],
  more: readonly string[],
): string {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-native-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'hal.h'), halHeader())
  const program = join(folder, basename(harness))
  const files = [join(HERE, `${harness}.c`), ...parts.map((part) => join(SOURCES, `${part}.c`))]
  const paths = [`-I${folder}`, `-I${SOURCES}`, ...files, '-o', program]
  run(compiler, [...FLAGS, ...how, ...paths, ...more])
  return program
}

/** A harness that answers every line with a line. */
export class Harness {
  private readonly child: ChildProcessWithoutNullStreams
  private readonly answers: string[] = []
  private wanted: (() => void) | null = null
  private said = ''
  private isOver = false

  constructor(program: string, args: readonly string[]) {
    this.child = spawn(program, args)
    this.child.stdin.on('error', () => {})
    this.child.stderr.on('data', (bytes: Buffer) => {
      this.said += bytes.toString()
    })
    createInterface(this.child.stdout).on('line', (line) => {
      this.answers.push(line)
      this.wanted?.()
    })
    this.child.on('close', () => {
      this.isOver = true
      this.wanted?.()
    })
  }

  /** The next line that it prints. Rejects with what it said on stderr if it ended instead. */
  async line(): Promise<string> {
    while (this.answers.length === 0) {
      if (this.isOver) throw new Error(`the harness ended: ${this.said}`)
      await new Promise<void>((resolve) => {
        this.wanted = resolve
      })
    }
    return this.answers.shift()!
  }

  /** What it said on stderr so far. */
  get errors(): string {
    return this.said
  }

  /** The number of its process. */
  get pid(): number {
    return this.child.pid!
  }

  /** As a power cut ends a process; waits until it is gone. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.gone()
  }

  async ask(line: string): Promise<string> {
    this.send(`${line}\n`)
    return this.line()
  }

  /** Writes these bytes, and waits for nothing. */
  send(text: string): void {
    this.child.stdin.write(text)
  }

  private async gone(): Promise<void> {
    while (!this.isOver) {
      await new Promise<void>((resolve) => {
        this.wanted = resolve
      })
    }
  }

  /** Ends it in order; returns its exit code, and throws what the sanitizers said. */
  async end(): Promise<number | null> {
    this.child.stdin.end()
    await this.gone()
    if (this.said !== '') throw new Error(this.said)
    return this.child.exitCode
  }
}
