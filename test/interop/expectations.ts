/**
 * What the clients said is durable, and whether an NVDIMM image has it.
 *
 * Invariant: the image is read with the oracle of the tests, which has none of the
 * firmware's code; the pattern is computed here a second time (guest/main.c has the first).
 */

import { readFileSync } from 'node:fs'
import { readSuperblock } from '../support/judges/oracle.ts'

/** Bytes of the region that a port publishes: where, and what. */
export interface Piece {
  readonly port: number
  readonly at: number
  readonly bytes: Uint8Array
  /** Of the pattern; null where the bytes are a text. */
  readonly tag: number | null
}

/** The pattern of a tag. */
export function patternOf(tag: number, length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (tag * 37 + i * 7 + (i >> 8)) & 0xff)
}

/** The pieces that lines of the form 'durable AT LENGTH TAG' announce. */
export function piecesOf(word: string, port: number, lines: readonly string[]): Piece[] {
  return lines.flatMap((line) => {
    const [first, at, length, tag] = line.split(' ')
    if (first !== word) return []
    const bytes = patternOf(Number(tag), Number(length))
    return [{ port, at: Number(at), bytes, tag: Number(tag) }]
  })
}

/** Where the image differs from the pieces: one line each, none if it has them all. */
export function differences(path: string, pieces: readonly Piece[]): string[] {
  const image = readFileSync(path)
  const page = readSuperblock(image)
  if (page === null) return ['the image has no valid superblock']
  return pieces.flatMap(({ port, at, bytes }) => {
    const region = page.regions.find(({ name }) => name === `port-${port}`)
    if (region === undefined) return [`the image has no region port-${port}`]
    const from = region.at + at
    const same = Buffer.compare(image.subarray(from, from + bytes.length), bytes) === 0
    return same ? [] : [`port ${port}: ${bytes.length} bytes at ${at} are not what was flushed`]
  })
}
