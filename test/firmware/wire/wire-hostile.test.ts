/**
 * Frames that were not made to be read: cut short, grown, altered, random. Each gives a fault by
 * name, none an exception, and none a packet whose fields lie outside of it.
 */

import { describe, expect, test } from 'vitest'
import {
  FAULTS,
  type Fault,
  FRAME_LONG,
  FRAME_SHORT,
  GROUP_SOURCE,
  IP_HEADER,
  IP_LENGTH,
  NOT_ROCE,
  PACKET_LENGTH,
  PARTITION,
  PASS,
  TRANSPORT_VERSION,
  WRONG_TRANSPORT,
} from '../../../firmware/board/fault.ts'
import { FRAME_BYTES_MAX } from '../../../firmware/board/limits.ts'
import { ICRC_BYTES } from '../../../firmware/wire/icrc.ts'
import {
  CNP,
  has,
  OPCODES,
  type OpcodeMask,
  PAYLOAD_ANY,
  PAYLOAD_EIGHT,
  PAYLOAD_FULL,
  PAYLOAD_NONE,
  PAYLOAD_SOME,
  PERSIST,
  RC_READ_RESPONSE_MIDDLE,
  RC_SEND_ONLY,
  RC_WRITE_ONLY,
  REQUEST,
  RESPONSE,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import {
  blankPacket,
  checkPacket,
  type Packet,
  payloadFault,
} from '../../../firmware/wire/packet.ts'
import { blankReth } from '../../../firmware/wire/reth.ts'
import { frameOf, hex, unwritten } from '../../support/wire/frames.ts'
import { icrcReference } from '../../support/wire/icrc-reference.ts'
import { CAPTURES, SCENARIO_FRAMES, VECTORS } from '../../support/wire/vectors.ts'

function check(bytes: Uint8Array, length: number = bytes.length): Fault {
  return checkPacket(blankPacket(), bytes, 0, length)
}

/** What every packet that passes promises to those who read on. */
function expectInside(packet: Packet, at: number, length: number): void {
  const { frameAt, ipAt, bthAt, payloadAt, payloadLength, padBytes, row } = packet
  expect(frameAt).toBe(at)
  expect(ipAt).toBeGreaterThan(at)
  expect(bthAt).toBeGreaterThan(ipAt)
  expect(payloadAt).toBeGreaterThanOrEqual(bthAt + (row?.headerBytes ?? 12))
  expect(payloadLength).toBeGreaterThanOrEqual(0)
  const end = at + packet.frameLength
  expect(payloadAt + payloadLength + padBytes + ICRC_BYTES).toBe(end)
  expect(end).toBeLessThanOrEqual(at + length)
}

/** A small, seeded generator (mulberry32), so that a failure can be had again. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return (t ^ (t >>> 14)) >>> 0
  }
}

const SEED = Number(process.env.SEED ?? 20_260_821)

/** Runs `body` with a seeded generator; a failure names the seed. */
function seeded(body: (random: () => number) => void): void {
  try {
    body(generator(SEED))
  } catch (error) {
    throw new Error(`SEED=${SEED}: ${error}`, { cause: error })
  }
}

const persist = frameOf({
  bth: { opcode: WRITE_PERSIST_ONLY, destQp: 0x11, ackRequest: true, psn: 0x100 },
  reth: { vaHigh: 7, vaLow: 0, rkey: 0x1234, length: 64 },
  pweth: { wait: 2, wantsAck: true, slotAddressed: true, operationLow: 7 },
  payload: new Uint8Array(64).fill(0x5a),
})

const carried = frameOf({
  ipVersion: 6,
  bth: { opcode: WRITE_PERSIST_FIRST },
  pweth: { carried: true, furtherCopies: 3 },
  extensions: [blankReth(), blankReth(), blankReth()],
  payload: new Uint8Array(256),
})

describe('a frame that was cut', () => {
  const frames = [
    ...VECTORS.filter((vector) => check(vector.bytes) === PASS).map(({ bytes }) => bytes),
    ...SCENARIO_FRAMES.map(({ bytes }) => bytes),
    persist,
    carried,
  ]

  test('ends in a fault at every length, with its lengths left as they were', () => {
    const met = new Set<Fault>()
    for (const frame of frames) {
      for (let length = 0; length < frame.length; length++) {
        // What stands behind the cut is still there, as in a buffer that is used again.
        met.add(check(frame, length))
        met.add(check(frame.slice(0, length)))
      }
    }
    expect([...met].sort()).toEqual([FRAME_SHORT, IP_LENGTH])
  })

  test('ends in a fault before its headers do, with its lengths made to fit', () => {
    for (const frame of frames) {
      const whole = blankPacket()
      checkPacket(whole, frame, 0, frame.length)
      const least = whole.payloadAt + whole.padBytes + ICRC_BYTES
      for (let length = whole.bthAt; length < frame.length; length++) {
        const fitted = cutTo(frame, length)
        const packet = blankPacket()
        const fault = checkPacket(packet, fitted, 0, length)
        const words = length % 4 === frame.length % 4
        const expected = !words ? IP_LENGTH : length < least ? FRAME_SHORT : PASS
        if (fault !== expected) expect(`${length}: ${fault}`).toBe(`${length}: ${expected}`)
        if (fault === PASS) expectInside(packet, 0, length)
      }
    }
  })
})

/** The first `length` bytes of a frame, with the lengths in IP and UDP to match. */
function cutTo(frame: Uint8Array, length: number): Uint8Array {
  const whole = blankPacket()
  checkPacket(whole, frame, 0, frame.length)
  const bytes = frame.slice(0, length)
  const view = new DataView(bytes.buffer)
  const udpAt = whole.bthAt - 8
  view.setUint16(udpAt + 4, length - udpAt)
  if (whole.ipVersion === 6) view.setUint16(whole.ipAt + 4, length - udpAt)
  else view.setUint16(whole.ipAt + 2, length - whole.ipAt)
  return bytes
}

describe('a frame in its envelope', () => {
  /** The persist with one byte changed. */
  const altered = (at: number, value: number): Uint8Array => {
    const bytes = persist.slice()
    bytes[at] = value
    return bytes
  }

  test('is read the same with padding of Ethernet behind it', () => {
    const short = frameOf({ bth: { opcode: RC_SEND_ONLY } })
    expect(short.length).toBe(58)
    const padded = unwritten(60)
    padded.set(short)
    const packet = blankPacket()
    expect(checkPacket(packet, padded, 0, 60)).toBe(PASS)
    expect(packet).toMatchObject({ frameLength: 58, payloadLength: 0 })
  })

  test('is read the same behind a VLAN tag', () => {
    const tagged = hex('020000000002 020000000001 8100 2005')
    const bytes = new Uint8Array(persist.length + 4)
    bytes.set(tagged)
    bytes.set(persist.slice(12), 16)
    const plain = blankPacket()
    const packet = blankPacket()
    expect(checkPacket(plain, persist, 0, persist.length)).toBe(PASS)
    expect(checkPacket(packet, bytes, 0, bytes.length)).toBe(PASS)
    const { ipAt, bthAt, payloadAt, frameLength } = plain
    const moved = { ipAt: ipAt + 4, bthAt: bthAt + 4, payloadAt: payloadAt + 4 }
    expect(packet).toEqual({ ...plain, ...moved, frameLength: frameLength + 4 })
    const icrc = icrcReference(persist, 0, persist.length)
    expect(icrcReference(bytes, 0, bytes.length), 'Ethernet is not covered').toBe(icrc)
  })

  test('has its address extensions counted to its headers', () => {
    const packet = blankPacket()
    expect(checkPacket(packet, carried, 0, carried.length)).toBe(PASS)
    expect(packet.payloadAt - packet.bthAt).toBe(12 + 16 + 16 + 3 * 16)
    expect(packet.payloadLength).toBe(256)
  })

  test('says by one bit each whether it is solicited and wants an acknowledgement', () => {
    for (const flags of [0x00, 0x40, 0x80, 0xc0]) {
      for (const ask of [0x00, 0x7f, 0x80, 0xff]) {
        const bytes = altered(43, flags)
        bytes[50] = ask
        const packet = blankPacket()
        expect(checkPacket(packet, bytes, 0, bytes.length)).toBe(PASS)
        const { solicited, ackRequest } = packet
        expect({ solicited, ackRequest }).toEqual({
          solicited: flags > 0x7f,
          ackRequest: ask > 0x7f,
        })
      }
    }
  })

  test('is not ours when it is not RoCEv2', () => {
    expect(check(altered(13, 0x06))).toBe(NOT_ROCE) // ARP
    expect(check(altered(23, 6))).toBe(NOT_ROCE) // TCP
    expect(check(altered(37, 0xb8))).toBe(NOT_ROCE) // another port
    const v6 = carried.slice()
    v6[20] = 58 // ICMPv6
    expect(check(v6)).toBe(NOT_ROCE)
  })

  test('may have no options, no extension headers and no fragments', () => {
    expect(check(altered(14, 0x46))).toBe(IP_HEADER)
    expect(check(altered(14, 0x65))).toBe(IP_HEADER)
    expect(check(altered(20, 0x20))).toBe(IP_HEADER) // more fragments
    expect(check(altered(21, 0x01))).toBe(IP_HEADER) // an offset
    expect(check(altered(20, 0x00))).toBe(PASS) // a router may fragment, but did not
    for (const next of [0, 43, 44, 51, 60]) {
      const v6 = carried.slice()
      v6[20] = next
      expect(check(v6)).toBe(IP_HEADER)
    }
    const v5 = carried.slice()
    v5[14] = 0x50
    expect(check(v5)).toBe(IP_HEADER)
  })

  test('comes from a station: Ethernet', () => {
    for (let first = 0; first < 256; first++) {
      const isGroup = (first & 1) === 1
      expect(check(altered(6, first)), `${first}`).toBe(isGroup ? GROUP_SOURCE : PASS)
      // Whatever it carries.
      const other = altered(6, first)
      other[13] = 0x06
      expect(check(other), `${first}`).toBe(isGroup ? GROUP_SOURCE : NOT_ROCE)
    }
  })

  test('comes from a station: IPv4, whichever the first byte', () => {
    for (let first = 0; first < 256; first++) {
      const isNone = first === 0 || first === 127 || first >= 224
      for (const rest of [0, 1, 255]) {
        const bytes = persist.slice()
        bytes.set([first, rest, rest, rest], 26)
        expect(check(bytes), `${first}.${rest}`).toBe(isNone ? GROUP_SOURCE : PASS)
      }
    }
  })

  test('comes from a station: IPv6, no group, not nobody, not itself', () => {
    const from = (...bytes: number[]): Fault => {
      const frame = carried.slice()
      frame.set([...bytes, ...new Array(16).fill(0)].slice(0, 16), 22)
      return check(frame)
    }
    expect(from()).toBe(GROUP_SOURCE)
    const zeros: number[] = new Array(15).fill(0)
    for (let last = 0; last < 256; last++) {
      expect(from(...zeros, last)).toBe(last <= 1 ? GROUP_SOURCE : PASS)
    }
    // One bit anywhere but in the last byte makes a station of it.
    for (let bit = 0; bit < 15 * 8; bit++) {
      const bytes = zeros.slice()
      bytes[bit >> 3] = 0x80 >> (bit & 7)
      expect(from(...bytes, 1)).toBe(PASS)
    }
    for (let first = 1; first < 256; first++) {
      expect(from(first, 2, 3)).toBe(first === 255 ? GROUP_SOURCE : PASS)
    }
  })

  test('has one length in IP and UDP, within the frame, in whole words', () => {
    expect(check(altered(17, persist[17]! + 4))).toBe(IP_LENGTH)
    expect(check(altered(39, persist[39]! - 4))).toBe(IP_LENGTH)
    expect(check(cutTo(persist, persist.length - 2))).toBe(IP_LENGTH)
    expect(check(altered(16, 0xff))).toBe(IP_LENGTH)
  })

  test('is taken up to the longest that the limits allow, and no further', () => {
    const bytes = unwritten(FRAME_BYTES_MAX + 1)
    bytes.set(persist)
    expect(check(bytes, FRAME_BYTES_MAX)).toBe(PASS)
    expect(check(bytes, FRAME_BYTES_MAX + 1)).toBe(FRAME_LONG)
  })

  test('has transport version 0 and the default partition, of either membership', () => {
    for (let version = 1; version < 16; version++) {
      expect(check(altered(43, version))).toBe(TRANSPORT_VERSION)
    }
    expect(check(altered(44, 0x7f))).toBe(PASS)
    expect(check(altered(45, 0xfe))).toBe(PARTITION)
    expect(check(altered(44, 0x80))).toBe(PARTITION)
  })
})

describe('an opcode', () => {
  const RESERVED = [0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f]

  test('of any number is known, reserved, or of another transport', () => {
    for (let opcode = 0; opcode < 256; opcode++) {
      const packet = blankPacket()
      const bytes = frameOf({ bth: { opcode }, payload: new Uint8Array(64) })
      const fault = checkPacket(packet, bytes, 0, bytes.length)
      const row = OPCODES[opcode]
      if (row !== undefined || RESERVED.includes(opcode)) {
        expect(fault).toBe(PASS)
        expect(packet.row).toBe(row ?? null)
        expect(packet.opcode).toBe(opcode)
        expectInside(packet, 0, bytes.length)
      } else {
        expect(fault).toBe(WRONG_TRANSPORT)
      }
    }
  })

  test('is a request or a response, except for the congestion notification', () => {
    for (const row of OPCODES) {
      if (row === undefined) continue
      const sides = [REQUEST, RESPONSE].filter((side) => has(row.properties, side))
      expect(sides.length).toBe(row.opcode === CNP ? 0 : 1)
    }
  })

  test('of ours is shaped like the operation of the standard that it resembles', () => {
    const places = 0xf as OpcodeMask
    for (const row of OPCODES) {
      if (row === undefined || !has(row.properties, PERSIST)) continue
      const alike = OPCODES[row.opcode & 0x1f]!
      expect(row.transport).toBe('rc')
      expect(row.properties & places).toBe(alike.properties & places)
      if (has(row.properties, REQUEST)) expect(row.payload).toBe(alike.payload)
      expect(row.rethAt).toBe(alike.rethAt)
      expect(row.aethAt).toBe(alike.aethAt)
    }
  })

  test('has a name of its own', () => {
    const names = OPCODES.flatMap((row) => (row === undefined ? [] : [row.name]))
    expect(new Set(names).size).toBe(names.length)
  })

  test('of READ Response Middle has no AETH', () => {
    expect(OPCODES[RC_READ_RESPONSE_MIDDLE]!.aethAt).toBe(0)
  })
})

describe('a payload', () => {
  const M = 1024
  const passes = (payload: number, length: number): boolean => {
    const row = OPCODES.find((row) => row?.payload === payload)!
    const fault = payloadFault(row, length, -length & 3, M)
    expect([PASS, PACKET_LENGTH]).toContain(fault)
    return fault === PASS
  }
  const lengths = [0, 1, 7, 8, 9, M - 1, M, M + 1]

  test('has a length that the rule of its opcode allows', () => {
    expect(lengths.filter((length) => passes(PAYLOAD_NONE, length))).toEqual([0])
    expect(lengths.filter((length) => passes(PAYLOAD_FULL, length))).toEqual([M])
    expect(lengths.filter((length) => passes(PAYLOAD_SOME, length))).toEqual([1, 7, 8, 9, M - 1, M])
    expect(lengths.filter((length) => passes(PAYLOAD_ANY, length))).toEqual([
      0,
      1,
      7,
      8,
      9,
      M - 1,
      M,
    ])
    expect(lengths.filter((length) => passes(PAYLOAD_EIGHT, length))).toEqual([8])
  })

  test('has the pad that makes it whole words', () => {
    const row = OPCODES[RC_WRITE_ONLY]!
    for (let length = 0; length < 8; length++) {
      for (let pad = 0; pad < 4; pad++) {
        const right = (length + pad) % 4 === 0
        expect(payloadFault(row, length, pad, M)).toBe(right ? PASS : PACKET_LENGTH)
      }
    }
  })
})

describe('a frame of any bytes', () => {
  const judged = (packet: Packet, bytes: Uint8Array, at: number, length: number): Fault => {
    const fault = checkPacket(packet, bytes, at, length)
    expect(FAULTS[fault]).toBeDefined()
    if (fault === PASS) expectInside(packet, at, length)
    return fault
  }

  test('never makes the firmware stop, when it is random', () => {
    seeded((random) => {
      const packet = blankPacket()
      const bytes = new Uint8Array(256)
      for (let run = 0; run < 20_000; run++) {
        for (let i = 0; i < 64; i++) bytes[random() % 256] = random()
        const at = random() % 64
        judged(packet, bytes, at, random() % (256 - at))
      }
    })
  })

  test('never makes the firmware stop, when a good one was altered', () => {
    const good = [...VECTORS.map((vector) => vector.bytes), persist, carried]
    for (const { frames } of CAPTURES) good.push(...frames)
    const met = new Set<Fault>()
    seeded((random) => {
      const packet = blankPacket()
      for (let run = 0; run < 20_000; run++) {
        const bytes = good[random() % good.length]!.slice()
        const headers = Math.min(bytes.length, 130)
        for (let n = random() % 4; n >= 0; n--) bytes[random() % headers] = random()
        met.add(judged(packet, bytes, 0, bytes.length))
      }
    })
    const faults = [PASS, FRAME_SHORT, NOT_ROCE, IP_HEADER, IP_LENGTH, TRANSPORT_VERSION]
    expect([...met]).toEqual(expect.arrayContaining([...faults, PARTITION, WRONG_TRANSPORT]))
  })
})
