/**
 * Compiles and links `perdure-boot`: a small host around one script, which is a part of it.
 *
 * Invariant: it is made of the runtime's own objects where both do the same, and of QuickJS
 * as it comes.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  DIST,
  filesOf,
  flavourFolder,
  type RuntimeOptions,
  SOURCES,
  versionFlag,
  workshop,
} from '../compile.ts'
import { ROOT } from '../engine.ts'

const BOOT = join(ROOT, 'boards/linux/boot')
/** What of the runtime's files is in it, too. */
const SHARED = [
  'link/endpoint',
  'service/fault',
  'base/utf8',
  'service/json',
  'service/log',
  'service/notify',
  'link/unix-socket',
] as const

interface BootOptions extends RuntimeOptions {
  /** The file with the script: one that leaves the global `perdureBoot`. */
  readonly script: string
  /** The program's path. */
  readonly program: string
}

/** What is shipped: the supervisor, in the folder of its kind. */
export function shippedBoot(options: RuntimeOptions): BootOptions {
  const program = join(flavourFolder(options), 'perdure-boot')
  return { ...options, script: join(DIST, 'boot.js'), program }
}

/** Builds the program and returns where it lies. Throws a Trouble. */
export function compileBoot(options: BootOptions): string {
  const { script, program } = options
  const shop = workshop(options)
  const compile = shop.compilerWith(BOOT)
  const names = filesOf(BOOT, '.c').filter((name) => name !== 'embedded.c')
  const sha256 = createHash('sha256').update(readFileSync(script)).digest('hex')
  shop.link(program, [
    ...names.map((name) => compile(join(BOOT, name), name === 'main.c' ? [versionFlag()] : [])),
    compile(join(BOOT, 'embedded.c'), [`-DBOOT_SCRIPT="${script}"`], sha256),
    ...SHARED.map((name) => shop.compile(join(SOURCES, `${name}.c`))),
    ...shop.plainEngine(),
  ])
  return program
}
