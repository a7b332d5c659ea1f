/**
 * Compiled files.
 *
 * Invariant: an object is named by the hash of everything that makes it, so that none is
 * stale and none is made twice.
 */

import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { run } from '../tools/debian/programs.ts'
import type { Toolchain } from './toolchain.ts'

export class Objects {
  private readonly tools: Toolchain
  private readonly say: (line: string) => void
  private readonly folder: string
  private readonly compiler: string

  /** `folder` is made when it is not there. */
  constructor(folder: string, tools: Toolchain, say: (line: string) => void) {
    this.tools = tools
    this.say = say
    this.folder = folder
    mkdirSync(folder, { recursive: true })
    this.compiler = run(tools.compiler, ['--version']).toString()
  }

  /** The object of a file; `headers` is the hash of everything that it includes. */
  of(file: string, flags: readonly string[], headers: string): string {
    const all = [...this.tools.compileFlags, ...flags]
    const text = readFileSync(file)
    const made = createHash('sha256').update(`${this.compiler}\0${all.join('\0')}\0${headers}\0`)
    const name = basename(file, '.c')
    const object = join(this.folder, `${name}-${made.update(text).digest('hex').slice(0, 24)}.o`)
    if (existsSync(object)) return object
    this.say(`compiling ${name}`)
    const aside = `${object}.${process.pid}`
    try {
      run(this.tools.compiler, [...all, '-c', file, '-o', aside])
      renameSync(aside, object)
    } finally {
      rmSync(aside, { force: true })
    }
    return object
  }
}
