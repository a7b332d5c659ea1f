/** The machine of the native runtime as a program of its own (machine-harness.c). */

import { existsSync } from 'node:fs'
import { compile, LINK_PARTS, noCompiler } from './harness.ts'

const PARTS = [
  ...LINK_PARTS,
  ...['memory/dimms', 'memory/guard', 'memory/image-lock', 'memory/memory', 'memory/persist'],
  ...['memory/reserve', 'memory/shadow', 'memory/sysfs', 'card/machine', 'card/noise', 'card/tags'],
  ...['card/window', 'trace/trace'],
  ...['access/key-file', 'access/peers-file', 'access/peers-keeper', 'base/file', 'base/utf8'],
  ...['service/condition', 'service/json', 'service/log'],
]

const noSodium = existsSync('/usr/include/sodium.h') ? null : 'libsodium is missing (libsodium-dev)'

/** Why the program cannot be made here; null where it can. */
export const noMachine: string | null = noCompiler ?? noSodium

/** For the name of a suite: nothing, or the reason why it is skipped. */
export const because: string = noMachine === null ? '' : `: ${noMachine}`

/** Compiles it with the sanitizers, and `defines`; returns the program's path. */
export function compileMachine(...defines: readonly string[]): string {
  // Not among the checks of "undefined", and the one that numbers of JavaScript are most likely to
  // fail: a double that does not fit the integer that it is made.
  const check = ['-fsanitize=float-cast-overflow', '-fno-sanitize-recover=all']
  const calls = ['sync_file_range', 'fdatasync', 'mmap', 'sysconf']
  const wrapped = calls.map((call) => `-Wl,--wrap=${call}`)
  return compile('machine-harness', PARTS, [...check, ...wrapped, ...defines, '-lsodium'])
}
