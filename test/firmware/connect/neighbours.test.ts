/**
 * Who asks for our Ethernet address gets it, over IPv4 and IPv6, and nobody else gets anything.
 *
 * The ARP request is one that Linux sent; the neighbour solicitations are written out by hand, with
 * checksums that were computed apart from the firmware.
 */

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { neighbourChecksum } from '../../../firmware/wire/neighbour.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { framesOfCapture, hex, hexOf } from '../../support/wire/frames.ts'

const GOLDEN = new URL('../../vectors/captures/rxe-std-golden-v4.pcap', import.meta.url)

/** The two ARP frames of that conversation: request of 10.9.0.2 for 10.9.0.1, and the reply. */
const [REQUEST, REPLY] = framesOfCapture(new Uint8Array(readFileSync(GOLDEN))).filter(
  (frame) => frame[12] === 8 && frame[13] === 6,
) as [Uint8Array, Uint8Array]

/** The same request, to a card of the usual addresses. */
const USUAL = changed(changed(REQUEST, 0, 2, 0, 0, 0, 0, 2), 38, 10, 0, 0, 2)

const usual = (): TestCard => new TestCard(1 << 18)

function changed(frame: Uint8Array, at: number, ...bytes: number[]): Uint8Array {
  const copy = frame.slice()
  copy.set(bytes, at)
  return copy
}

describe('ARP', () => {
  test('a unicast re-probe of Linux is answered byte for byte as Linux answers', () => {
    const card = new TestCard(1 << 18, {
      facts: { mac: [0x52, 0x54, 0, 0, 0, 1], ipv4: [10, 9, 0, 1] },
    })
    card.serve(REQUEST)
    const padded = new Uint8Array(60)
    padded.set(REPLY)
    expect(card.plain.map(hexOf)).toEqual([hexOf(padded)])
  })

  test('a broadcast is answered like a unicast, to the asker alone', () => {
    const card = usual()
    card.serve(USUAL)
    const [want] = card.plain
    card.serve(changed(USUAL, 0, 255, 255, 255, 255, 255, 255))
    expect(card.plain).toEqual([want])
  })

  test('a probe from 0.0.0.0, by one who is about to take our address, is answered', () => {
    const card = usual()
    card.serve(changed(USUAL, 28, 0, 0, 0, 0))
    expect(card.plain).toHaveLength(1)
    expect(hexOf(card.plain[0]!.slice(28, 32))).toBe('0a000002')
  })

  test('an answer needs neither a formatted part nor an ICRC', () => {
    const card = usual()
    expect(card.status()[0]).toBe(0)
    card.serve(USUAL)
    expect(card.plain).toHaveLength(1)
  })

  const SILENT: readonly [string, Uint8Array, string][] = [
    ['for another address', changed(USUAL, 41, 9), 'NOT_FOR_US'],
    ['to another station', changed(USUAL, 5, 9), 'NOT_FOR_US'],
    ['that claims our address', changed(USUAL, 28, 10, 0, 0, 2), 'NOT_FOR_US'],
    ['that is a reply nobody asked for', changed(USUAL, 21, 2), 'NOT_FOR_US'],
    ['of another hardware', changed(USUAL, 15, 6), 'NEIGHBOUR_FORM'],
    ['of another protocol', changed(USUAL, 16, 0x86, 0xdd), 'NEIGHBOUR_FORM'],
    ['with addresses of eight bytes', changed(USUAL, 18, 8), 'NEIGHBOUR_FORM'],
    ['with protocol addresses of sixteen bytes', changed(USUAL, 19, 16), 'NEIGHBOUR_FORM'],
    ['that is neither request nor reply', changed(USUAL, 21, 3), 'NEIGHBOUR_FORM'],
    ['from a group', changed(USUAL, 22, 0x53), 'NEIGHBOUR_FORM'],
    ['in a frame from a group', changed(USUAL, 6, 0x53), 'GROUP_SOURCE'],
    ...[
      [224, 0, 0, 1],
      [239, 255, 255, 255],
      [255, 255, 255, 255],
      [127, 0, 0, 1],
      [0, 0, 0, 1],
    ].map((address): [string, Uint8Array, string] => [
      `from ${address.join('.')}`,
      changed(USUAL, 28, ...address),
      'GROUP_SOURCE',
    ]),
  ]
  for (const [name, frame, fault] of SILENT) {
    test(`a message ${name} is counted and not answered`, () => {
      const card = usual()
      card.serve(frame)
      expect(card.plain).toEqual([])
      expect(countersOf(card)).toEqual([fault])
    })
  }

  test('a message cut at any byte is counted and not answered', () => {
    for (let length = 0; length < 42; length++) {
      const card = usual()
      card.serve(USUAL.slice(0, length))
      expect(card.plain).toEqual([])
      expect(countersOf(card)).toEqual([length < 18 ? 'FRAME_SHORT' : 'NEIGHBOUR_FORM'])
    }
  })
})

/** The faults that a card has counted. */
function countersOf(card: TestCard): string[] {
  return FAULTS.map(({ name }) => name).filter((name) => card.counter(name) > 0)
}

/** Neighbour solicitation of fd00::1 for fd00::2 to the solicited-node group. */
const SOLICITATION = hex(`
  33 33 ff 00 00 02        the group of addresses that end in 00:0002
  02 00 00 00 00 01        source
  86 dd                    IPv6
  60 00 00 00              version, class, flow
  00 20 3a ff              32 bytes, ICMPv6, hop limit 255
  fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
  ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 02
  87 00 7d 97              solicitation, code, checksum
  00 00 00 00              reserved
  fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02
  01 01 02 00 00 00 00 01  source link-layer address
`)

/** The advertisement that RFC 4861, 7.2.4 asks for. */
const ADVERTISEMENT = `
  02 00 00 00 00 01        to who asked
  02 00 00 00 00 02        from us
  86 dd
  60 00 00 00
  00 20 3a ff
  fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02
  fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
  88 00 1c 9a              advertisement, code, checksum
  60 00 00 00              solicited, override
  fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02
  02 01 02 00 00 00 00 02  target link-layer address
`

/** The same message with bytes changed; the checksum is made good by this test's own sum. */
function solicitation(at: number, ...bytes: number[]): Uint8Array {
  const frame = changed(SOLICITATION, at, ...bytes)
  frame[56] = frame[57] = 0
  let sum = 0x3a + ((frame[18]! << 8) | frame[19]!)
  for (let i = 22; i + 1 < frame.length; i += 2) sum += (frame[i]! << 8) | frame[i + 1]!
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16)
  frame[56] = (~sum >> 8) & 0xff
  frame[57] = ~sum & 0xff
  return frame
}

/** With an option that ends behind its type. */
function halfAnOption(): Uint8Array {
  return Uint8Array.of(...SOLICITATION.slice(0, 19), 0x21, ...SOLICITATION.slice(20), 1)
}

/** An advertisement with an option for the target, and bytes changed. */
function advertised(at: number, ...bytes: number[]): Uint8Array {
  const frame = solicitation(54, 136)
  frame[78] = 2
  return solicitation(0, ...changed(frame, at, ...bytes))
}

const OWN_MAC = [2, 0, 0, 0, 0, 2]
const OWN_IPV6 = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]

describe('neighbour discovery', () => {
  test('the written-out checksum is what the sum of this file gives', () => {
    expect(hexOf(solicitation(0))).toBe(hexOf(SOLICITATION))
  })

  test('a sum that carries once more when its halves are added is carried', () => {
    const packet = new Uint8Array(64)
    packet[5] = 24
    // With the length and the protocol this is 0x10000, which is 1.
    packet.set([0xff, 0xae], 8)
    expect(neighbourChecksum(packet, 0)).toBe(0xfffe)
  })

  test('a solicitation to the group of our address is answered by an advertisement', () => {
    const card = new TestCard(1 << 18)
    card.serve(SOLICITATION)
    expect(card.plain.map(hexOf)).toEqual([hexOf(hex(ADVERTISEMENT))])
  })

  test('a unicast solicitation is answered alike', () => {
    const card = new TestCard(1 << 18)
    const frame = solicitation(38, ...OWN_IPV6)
    frame.set(OWN_MAC)
    card.serve(frame)
    expect(card.plain.map(hexOf)).toEqual([hexOf(hex(ADVERTISEMENT))])
  })

  test('without a link-layer option the answer goes to the frame’s source', () => {
    const card = new TestCard(1 << 18)
    const short = SOLICITATION.slice(0, 78)
    short[19] = 24
    short[56] = short[57] = 0
    let sum = 0x3a + 24
    for (let i = 22; i < 78; i += 2) sum += (short[i]! << 8) | short[i + 1]!
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16)
    short.set([(~sum >> 8) & 0xff, ~sum & 0xff], 56)
    card.serve(short)
    expect(card.plain.map(hexOf)).toEqual([hexOf(hex(ADVERTISEMENT))])
  })

  test('who is about to take our address hears, with all nodes, that it is ours', () => {
    const card = new TestCard(1 << 18)
    // No source, and an option that then must not be one of the source.
    card.serve(solicitation(22, ...new Array(16).fill(0)))
    expect(card.plain).toEqual([])
    const probe = solicitation(22, ...new Array(16).fill(0), ...SOLICITATION.slice(38, 78), 14)
    card.serve(probe)
    expect(card.plain).toHaveLength(1)
    const [answer] = card.plain
    expect(hexOf(answer!.slice(0, 6))).toBe('333300000001')
    expect(hexOf(answer!.slice(38, 54))).toBe('ff020000000000000000000000000001')
    expect(answer![58]).toBe(0x20)
  })

  const SILENT: readonly [string, Uint8Array, string][] = [
    ['with a wrong checksum', changed(SOLICITATION, 57, 0), 'NEIGHBOUR_FORM'],
    ['that came through a router', solicitation(21, 254), 'NEIGHBOUR_FORM'],
    ['with a code', solicitation(55, 1), 'NEIGHBOUR_FORM'],
    ['for a group', solicitation(62, 0xff), 'NEIGHBOUR_FORM'],
    ['with an option of length 0', solicitation(79, 0), 'NEIGHBOUR_FORM'],
    ['with an option beyond its end', solicitation(79, 2), 'NEIGHBOUR_FORM'],
    ['shorter than a solicitation', solicitation(18, 0, 23), 'NEIGHBOUR_FORM'],
    ['longer than its frame', solicitation(18, 0, 40), 'NEIGHBOUR_FORM'],
    ['with a group’s link-layer address', solicitation(80, 3), 'NEIGHBOUR_FORM'],
    ['with half an option at its end', halfAnOption(), 'NEIGHBOUR_FORM'],
    ['to a group with more in its middle', solicitation(45, 1), 'NOT_FOR_US'],
    ['from a station that is a group', advertised(80, 3), 'NEIGHBOUR_FORM'],
    ['for another address', solicitation(77, 9), 'NOT_FOR_US'],
    ['to another station', changed(SOLICITATION, 0, 2, 0, 0, 0, 0, 9), 'NOT_FOR_US'],
    ['to another group', solicitation(53, 9), 'NOT_FOR_US'],
    ['to a group of another kind', solicitation(49, 2), 'NOT_FOR_US'],
    ['from our own address', solicitation(37, 2), 'NOT_FOR_US'],
    ['from a group', solicitation(22, 0xff), 'GROUP_SOURCE'],
    ['from the station itself', solicitation(22, ...new Array(15).fill(0), 1), 'GROUP_SOURCE'],
    ['from nobody, that tells', advertised(22, ...new Array(16).fill(0)), 'GROUP_SOURCE'],
    ['in a frame from a group', changed(SOLICITATION, 6, 3), 'GROUP_SOURCE'],
    ['that is an advertisement nobody asked for', solicitation(54, 136), 'NOT_FOR_US'],
    ['of another kind of ICMPv6', solicitation(54, 128), 'NOT_ROCE'],
    ['of IP version 5', solicitation(14, 0x50), 'IP_HEADER'],
  ]
  for (const [name, frame, fault] of SILENT) {
    test(`a message ${name} is counted and not answered`, () => {
      const card = new TestCard(1 << 18)
      card.serve(frame)
      expect(card.plain).toEqual([])
      expect(countersOf(card)).toEqual([fault])
    })
  }

  test('a message cut at any byte is not answered', () => {
    for (let length = 0; length < SOLICITATION.length; length++) {
      const card = new TestCard(1 << 18)
      card.serve(SOLICITATION.slice(0, length))
      expect(card.plain).toEqual([])
      expect(countersOf(card)).toHaveLength(1)
    }
  })
})
