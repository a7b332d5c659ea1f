/**
 * A file that is written in large pieces: what is in it at each length around a piece, what is in
 * the way of it, and when that is told.
 */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { BufferedFile } from '../../../host-driver/base/buffered-file.ts'

const PIECE = 1 << 18

const folder = mkdtempSync(join(tmpdir(), 'perdure-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** `length` bytes, none of which stands where its neighbours do. */
function bytesOf(length: number): Buffer {
  return Buffer.from(Uint8Array.from({ length }, (_, i) => (i * 7 + (i >> 8)) & 0xff))
}

describe('what was written is in the file', () => {
  for (const length of [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1]) {
    for (const step of [1000, PIECE, PIECE + 1]) {
      test(`${length} bytes, ${step} at a time`, () => {
        const path = join(folder, `of-${length}-${step}`)
        const all = bytesOf(length)
        const file = new BufferedFile()
        file.open(path)
        for (let at = 0; at < length; at += step) file.write(all.subarray(at, at + step))
        file.close()
        expect(readFileSync(path).equals(all)).toBe(true)
      })
    }
  }
})

test('what was written before it was open stands first in it', () => {
  const path = join(folder, 'late')
  writeFileSync(path, 'as it was')
  const file = new BufferedFile()
  file.write(bytesOf(PIECE + 5))
  file.write(Buffer.from('end'))
  expect(readFileSync(path, 'utf8')).toBe('as it was')
  expect(file.waiting()).toHaveLength(PIECE + 8)
  file.open(path)
  file.write(Buffer.from('!'))
  file.close()
  expect(readFileSync(path)).toEqual(Buffer.concat([bytesOf(PIECE + 5), Buffer.from('end!')]))
})

test('one that was never open leaves none, and has nothing to tell', () => {
  const file = new BufferedFile()
  file.write(bytesOf(3))
  file.close()
  expect([...file.waiting()]).toEqual([...bytesOf(3)])
})

test('a file that cannot be made is told at once', () => {
  const path = join(folder, 'no', 'file')
  expect(() => new BufferedFile().open(path)).toThrow(/ENOENT/)
  expect(existsSync(path)).toBe(false)
})

test.skipIf(!existsSync('/dev/full'))(
  'what cannot be written breaks nobody who writes, and is told once, by close',
  () => {
    const file = new BufferedFile()
    file.open('/dev/full')
    for (let i = 0; i < 4; i++) file.write(bytesOf(PIECE))
    expect(file.waiting()).toHaveLength(0)
    expect(() => file.close()).toThrow(/^\/dev\/full cannot be written: ENOSPC/)
    expect(() => file.close()).not.toThrow()
  },
)
