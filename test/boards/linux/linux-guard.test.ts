/**
 * The guard of a record as the native runtime computes it, against that of the boards in Node: on
 * this processor, where sanitizers watch, and on others that are emulated.
 */

import { spawnSync } from 'node:child_process'
import { beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { guardOf } from '../../../boards/software/guard.ts'
import { bytesOfCrcZero } from '../../support/judges/crc32c.ts'
import { titled } from '../../support/native/harness.ts'
import { codeProgram, missing, PROCESSORS } from '../../support/native/processors.ts'

const SEED = Number(process.env.SEED ?? 20261128)

describe.each(PROCESSORS)('crc32c.c on $name', (processor) => {
  const why = missing(processor)
  let program = ''
  beforeAll(() => {
    if (why === null) program = codeProgram(processor)
  })

  function judge(pieces: readonly Uint8Array[]): number[] {
    const parts = pieces.flatMap((piece) => {
      const length = Buffer.alloc(4)
      length.writeUInt32LE(piece.length)
      return [length, piece]
    })
    const [command, ...args] = [...processor.emulator, program, 'crc32c']
    const done = spawnSync(command!, args, { input: Buffer.concat(parts), maxBuffer: 1 << 30 })
    expect(done.status, done.stderr.toString()).toBe(0)
    expect(done.stderr.toString().trim()).toMatch(processor.guardEngine)
    return pieces.map((_, i) => done.stdout.readUInt32LE(4 * i))
  }

  test.skipIf(why !== null)(
    titled('S1-M1: the CRC-32C of every length is that of the boards of Node', why),
    () => {
      const random = new Random(SEED)
      const pieces: Uint8Array[] = [new Uint8Array(0)]
      for (let length = 1; length <= 9000; length += length < 1700 ? 1 : 97) {
        const piece = new Uint8Array(length)
        random.fill(piece, 0, length)
        pieces.push(piece)
      }
      const found = judge(pieces)
      pieces.forEach((piece, i) => {
        const guard = found[i] === 0 ? 0xffffffff : found[i]
        expect(guard, `${piece.length} bytes, SEED=${SEED}`).toBe(guardOf(piece))
      })
      // One that is 0 is told so; what that means is said by who compares.
      expect(judge([bytesOfCrcZero()])).toEqual([0])
    },
  )
})
