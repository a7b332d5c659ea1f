/** Addresses of IPv6 as text, shortest first, and as bytes: there and back (RFC 5952). */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { addressBytes, ipv6Text } from '../../../host-driver/base/addresses.ts'

const SEED = Number(process.env.SEED ?? 5952)

describe('an IPv6 address as text', () => {
  test.each([
    ['::', ''],
    ['::1', '00000000000000000000000000000001'],
    ['fd00::2', 'fd000000000000000000000000000002'],
    ['fe80::1:0:0:2', 'fe800000000000000001000000000002'],
    ['2001:db8:0:1:1:1:1:1', '20010db8000000010001000100010001'],
    ['2001:db8::1:0:0:1', '20010db8000000000001000000000001'],
    ['1:2:3:4:5:6:7:8', '00010002000300040005000600070008'],
    ['abcd::', 'abcd'],
  ])('is %s', (text, hex) => {
    const address = new Uint8Array(16)
    address.set(Buffer.from(hex, 'hex'))
    expect(ipv6Text(address)).toBe(text)
    expect(addressBytes(text, 6)).toEqual(address)
  })

  test(`there and back, whatever the address, in at most 39 characters (seed ${SEED})`, () => {
    const random = new Random(SEED)
    for (let i = 0; i < 2000; i++) {
      const address = Uint8Array.from({ length: 16 }, () => random.below(3) && random.below(256))
      const text = ipv6Text(address)
      expect(text).toMatch(/^[0-9a-f:]{2,39}$/)
      expect(addressBytes(text, 6)).toEqual(address)
    }
  })
})
