/** The card's key and peers as the native runtime reads and keeps them (identity-harness.c). */

import { compile } from './harness.ts'

const PARTS = [
  ...['access/key-file', 'access/peers-file', 'access/peers-keeper', 'base/file', 'base/utf8'],
  ...['service/fault', 'service/json'],
]

/** Compiles it with the sanitizers; returns the program's path. */
export function compileIdentity(): string {
  return compile('identity-harness', PARTS, ['-Wl,--wrap=fdatasync', '-lsodium'])
}
