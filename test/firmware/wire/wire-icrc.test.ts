/**
 * The invariant CRC: the reference against zlib and against the boards' version.
 */

import { crc32 } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { fillIcrc, icrcGood } from '../../../boards/software/icrc.ts'
import { ICRC_BYTES } from '../../../firmware/wire/icrc.ts'
import { OPCODES, RC_FLUSH, RC_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { frameOf, hex, hexOf, icrcIn, unwritten } from '../../support/wire/frames.ts'
import {
  ICRC_MASKED_BYTES_IPV4,
  ICRC_MASKED_BYTES_IPV6,
  ICRC_MASKS_IPV4,
  ICRC_MASKS_IPV6,
  icrcReference,
  ROUTE_HEADER_BYTES,
} from '../../support/wire/icrc-reference.ts'
import { CAPTURES, SCENARIO_FRAMES, VECTORS } from '../../support/wire/vectors.ts'

/** Every frame that was made by others. */
const FRAMES: readonly Uint8Array[] = [
  ...[...VECTORS, ...SCENARIO_FRAMES].map(({ bytes }) => bytes),
  ...CAPTURES.flatMap(({ frames }) => frames),
]

function send(ipVersion: 4 | 6, length: number): Uint8Array {
  const payload = new Uint8Array(length).map((_, i) => i * 7 + length)
  return frameOf({ ipVersion, bth: { opcode: RC_SEND_ONLY, psn: length }, payload })
}

describe('the ICRC', () => {
  test('is the one of the worked example', () => {
    const frame = hex(`
      020000000001 020000000002 0800                          Ethernet
      45000030 00004000 401126bb 0a000002 0a000001            IPv4
      c00012b7 001c0000                                       UDP
      1100ffff 00123456 00000101                              BTH
      1f000001                                                AETH
      3b1af67b                                                ICRC
    `)
    expect(icrcReference(frame, 0, frame.length)).toBe(0x7bf61a3b)
  })

  test('is the CRC-32 of zlib over the packet with its masks', () => {
    for (const ipVersion of [4, 6] as const) {
      const masks = ipVersion === 4 ? ICRC_MASKS_IPV4 : ICRC_MASKS_IPV6
      for (let length = 0; length < 64; length++) {
        const frame = send(ipVersion, length)
        const masked = frame.slice(14, -ICRC_BYTES)
        for (const { at, ones } of masks) masked[at]! |= ones
        const route = new Uint8Array(ROUTE_HEADER_BYTES).fill(0xff)
        const expected = crc32(masked, crc32(route))
        expect(icrcReference(frame, 0, frame.length)).toBe(expected)
      }
    }
  })

  test('survives what a router changes, and nothing else', () => {
    for (const ipVersion of [4, 6] as const) {
      const masks = ipVersion === 4 ? ICRC_MASKS_IPV4 : ICRC_MASKS_IPV6
      const maskedBytes = ipVersion === 4 ? ICRC_MASKED_BYTES_IPV4 : ICRC_MASKED_BYTES_IPV6
      const frame = send(ipVersion, 8)
      const icrc = icrcReference(frame, 0, frame.length)
      for (let at = 0; at < frame.length - 14 - ICRC_BYTES; at++) {
        // Version and lengths say where the ICRC stands; changing them is another matter.
        const isLength = ipVersion === 4 ? at === 2 || at === 3 : at === 4 || at === 5
        if (isLength) continue
        const ones = masks.find((mask) => mask.at === at)?.ones ?? 0
        for (let bit = 1; bit < 256; bit *= 2) {
          const changed = frame.slice()
          changed[14 + at]! ^= bit
          const same = icrcReference(changed, 0, changed.length) === icrc
          if (same !== ((ones & bit) !== 0)) expect.fail(`IPv${ipVersion} byte ${at} bit ${bit}`)
        }
        if (at >= maskedBytes) expect(ones).toBe(0)
      }
    }
  })

  test('does not depend on Ethernet, on a VLAN tag, or on padding behind the packet', () => {
    const frame = send(4, 0)
    const icrc = icrcReference(frame, 0, frame.length)
    const padded = unwritten(200)
    padded.set(hex('ffffffffffff 123456789abc 8100 e064'), 70)
    padded.set(frame.slice(12), 70 + 16)
    expect(icrcReference(padded, 70, 80)).toBe(icrc)
  })

  test('of a FLUSH by stock Linux goes on over its own headers, and of nothing else', () => {
    let met = 0
    for (const frame of FRAMES) {
      const packet = blankPacket()
      checkPacket(packet, frame, 0, frame.length)
      const standard = icrcReference(frame, 0, frame.length)
      const found = icrcIn(frame, packet)
      if (found === standard || packet.opcode !== RC_FLUSH) continue
      const headerBytes = OPCODES[RC_FLUSH]!.headerBytes
      const headers = frame.slice(packet.bthAt, packet.bthAt + headerBytes)
      expect(found).toBe(crc32(headers, standard))
      met += 1
    }
    expect(met).toBeGreaterThan(0)
  })
})

describe('the ICRC of a board', () => {
  test('is the reference, on every frame made by others', () => {
    for (const frame of FRAMES) {
      const packet = blankPacket()
      checkPacket(packet, frame, 0, frame.length)
      const icrc = icrcReference(frame, 0, frame.length)
      expect(icrcGood(frame, 0, frame.length)).toBe(icrcIn(frame, packet) === icrc)
    }
  })

  test('is the reference, at every length of payload', () => {
    const lengths = Array.from({ length: 520 }, (_, i) => i)
    for (const ipVersion of [4, 6] as const) {
      for (const length of [...lengths, 1023, 1024, 4095, 4096]) {
        const frame = send(ipVersion, length)
        const blanked = unwritten(frame.length + 16)
        blanked.set(frame.slice(0, -ICRC_BYTES), 9)
        fillIcrc(blanked, 9, frame.length)
        const filled = hexOf(blanked.slice(9, 9 + frame.length))
        if (filled !== hexOf(frame)) expect.fail(`IPv${ipVersion}, ${length} bytes of payload`)
        if (!icrcGood(frame, 0, frame.length)) expect.fail(`IPv${ipVersion}, ${length} bytes`)
      }
    }
  })
})
