/** Of `node:zlib` what the image format needs, by the program's brotli. */

import { host } from './given.ts'

export function brotliDecompressSync(
  bytes: Uint8Array,
  { maxOutputLength }: { readonly maxOutputLength: number },
): Uint8Array {
  return new Uint8Array(host().brotli(bytes, maxOutputLength))
}

export function brotliCompressSync(): never {
  throw new Error('a card packs nothing')
}

export const constants = {}
