import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { guardOf } from '../../../boards/software/guard.ts'
import { bytesOfCrcZero, judgedGuard } from '../../support/judges/crc32c.ts'

const SEED = Number(process.env.SEED ?? 3720)

/** From RFC 3720, appendix B.4, and the check value of the CRC catalogues. */
const VECTORS: readonly (readonly [string, Uint8Array, number])[] = [
  ['32 bytes of zeros', new Uint8Array(32), 0x8a9136aa],
  ['32 bytes of ones', new Uint8Array(32).fill(0xff), 0x62a8ab43],
  ['32 bytes that count up', Uint8Array.from({ length: 32 }, (_, i) => i), 0x46dd794e],
  ['32 bytes that count down', Uint8Array.from({ length: 32 }, (_, i) => 31 - i), 0x113fdb5c],
  ['the digits', new TextEncoder().encode('123456789'), 0xe3069283],
]

for (const [name, bytes, guard] of VECTORS) {
  test(`S1-M1: the guard of ${name} is the published CRC, and the judge agrees`, () => {
    expect(guardOf(bytes)).toBe(guard)
    expect(judgedGuard(bytes)).toBe(guard)
  })
}

test('S1-M1: a CRC of 0 is told as 2^32 - 1, as 0 says that there is no guard', () => {
  const bytes = bytesOfCrcZero()
  expect(guardOf(bytes)).toBe(0xffffffff)
  expect(judgedGuard(bytes)).toBe(0xffffffff)
})

test('S1-M1: the guard is that of the judge, at every place and of every length', () => {
  const random = new Random(SEED)
  const bytes = Uint8Array.from({ length: 300 }, () => random.below(256))
  for (let length = 0; length <= 64; length++) {
    for (let at = 0; at < 16; at++) {
      const expected = judgedGuard(bytes.subarray(at, at + length))
      expect(guardOf(bytes, at, length), `seed ${SEED}: ${length} bytes at ${at}`).toBe(expected)
    }
  }
})
