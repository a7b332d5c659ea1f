/**
 * The wire codec against frames that others made: Linux, a network card, an independent generator.
 */

import { describe, expect, test } from 'vitest'
import { FAULTS, type Fault, PARTITION, PASS } from '../../../firmware/board/fault.ts'
import { blankAeth, readAeth } from '../../../firmware/wire/aeth.ts'
import { blankAtomic, readAtomic } from '../../../firmware/wire/atomic.ts'
import { BTH_CONGESTION } from '../../../firmware/wire/bth.ts'
import { blankDeth, readDeth } from '../../../firmware/wire/deth.ts'
import { blankFeth, readFeth } from '../../../firmware/wire/feth.ts'
import { ICRC_BYTES } from '../../../firmware/wire/icrc.ts'
import { blankIeth, readIeth } from '../../../firmware/wire/ieth.ts'
import { blankImmdt, readImmdt } from '../../../firmware/wire/immdt.ts'
import { OPCODES, PAYLOAD_NONE, RC_FLUSH } from '../../../firmware/wire/opcode.ts'
import {
  blankPacket,
  checkPacket,
  type Packet,
  payloadFault,
} from '../../../firmware/wire/packet.ts'
import { blankReth, readReth } from '../../../firmware/wire/reth.ts'
import { encodedAgain, hexOf, icrcIn, unwritten } from '../../support/wire/frames.ts'
import { icrcReference } from '../../support/wire/icrc-reference.ts'
import {
  CAPTURES,
  type Decode,
  SCENARIO_FRAMES,
  STORED_OPCODES,
  VECTORS,
} from '../../support/wire/vectors.ts'

/** Frames by Linux go up to a path MTU of 1024 bytes. */
const PATH_MTU = 1024

/** The faults of vectors that fail; every other vector is well formed. */
const FAULT_OF: Readonly<Record<string, Fault>> = { 'neg-pkey': PARTITION }

/** The vector whose congestion bits were set on the way: no sender of a request writes them. */
const CONGESTED = 'icrc-invariance-b'

function nameOf(fault: Fault): string {
  return FAULTS[fault]!.name
}

function checked(bytes: Uint8Array): Packet {
  const packet = blankPacket()
  expect(nameOf(checkPacket(packet, bytes, 0, bytes.length))).toBe('PASS')
  return packet
}

/** The same bytes in the middle of a larger buffer, as a burst delivers them. */
function placed(frame: Uint8Array, at: number): Uint8Array {
  const bytes = unwritten(at + frame.length + 64)
  bytes.set(frame, at)
  return bytes
}

function halves(text: string): [number, number] {
  const value = BigInt(text)
  return [Number(value >> 32n), Number(value & 0xffffffffn)]
}

describe('a frame made by others', () => {
  for (const vector of [...VECTORS, ...SCENARIO_FRAMES]) {
    test(`${vector.name} is read as what it is`, () => {
      const packet = blankPacket()
      const fault = checkPacket(packet, vector.bytes, 0, vector.bytes.length)
      expect(nameOf(fault)).toBe(nameOf(FAULT_OF[vector.name] ?? PASS))
      if (fault !== PASS) return
      const { decode } = vector
      expect(packet.row?.name).toBe(decode.name)
      expect(packet).toMatchObject({
        ipVersion: vector.l3 === 'ipv6' ? 6 : 4,
        opcode: Number(decode.opcode),
        solicited: decode.se === 1,
        padBytes: decode.pad,
        pkey: Number(decode.pkey),
        destQp: Number(decode.destQp),
        ackRequest: decode.ackReq === 1,
        psn: Number(decode.psn),
        payloadAt: packet.bthAt + decode.payloadOffsetFromBth,
        payloadLength: decode.payloadLen,
        frameLength: vector.bytes.length,
      })
      const { payloadLength, padBytes } = packet
      expect(nameOf(payloadFault(packet.row!, payloadLength, padBytes, PATH_MTU))).toBe('PASS')
      expectHeaders(vector.bytes, packet, decode)
    })

    test(`${vector.name} has the ICRC that is expected of it`, () => {
      const reference = icrcReference(vector.bytes, 0, vector.bytes.length)
      expect(reference === vector.icrcU32).toBe(vector.icrcExpect === 'ok')
    })

    if (FAULT_OF[vector.name] === undefined) {
      test(`${vector.name} is written again to the byte`, () => {
        const bytes = placed(vector.bytes, 130)
        const packet = blankPacket()
        checkPacket(packet, bytes, 130, vector.bytes.length)
        const expected = vector.bytes.slice()
        if (vector.name === CONGESTED) expected[packet.bthAt - 130 + BTH_CONGESTION] = 0
        const written = encodedAgain(bytes, packet)
        const compared = vector.icrcExpect === 'ok' ? expected.length : expected.length - ICRC_BYTES
        expect(hexOf(written.slice(0, compared))).toBe(hexOf(expected.slice(0, compared)))
      })
    }
  }
})

function expectHeaders(bytes: Uint8Array, { row, bthAt }: Packet, decode: Decode): void {
  const reth = blankReth()
  const aeth = blankAeth()
  const deth = blankDeth()
  const imm = blankImmdt()
  const ieth = blankIeth()
  const feth = blankFeth()
  expect(row!.rethAt !== 0).toBe(decode.reth !== undefined)
  if (decode.reth !== undefined) {
    readReth(reth, bytes, bthAt + row!.rethAt)
    const [vaHigh, vaLow] = halves(decode.reth.va)
    expect(reth).toEqual({
      vaHigh,
      vaLow,
      rkey: Number(decode.reth.rkey),
      length: decode.reth.dmaLen,
    })
  }
  expect(row!.aethAt !== 0).toBe(decode.aeth !== undefined)
  if (decode.aeth !== undefined) {
    readAeth(aeth, bytes, bthAt + row!.aethAt)
    expect(aeth).toEqual({ syndrome: Number(decode.aeth.syndrome), msn: decode.aeth.msn })
  }
  expect(row!.dethAt !== 0).toBe(decode.deth !== undefined)
  if (decode.deth !== undefined) {
    readDeth(deth, bytes, bthAt + row!.dethAt)
    expect(deth).toEqual({ qkey: Number(decode.deth.qkey), sourceQp: Number(decode.deth.srcQp) })
  }
  expect(row!.immAt !== 0).toBe(decode.imm !== undefined)
  if (decode.imm !== undefined) {
    readImmdt(imm, bytes, bthAt + row!.immAt)
    expect(imm.immediate).toBe(Number(decode.imm))
  }
  if (decode.invalidateRkey !== undefined) {
    readIeth(ieth, bytes, bthAt + row!.iethAt)
    expect(ieth.rkey).toBe(Number(decode.invalidateRkey))
  }
  if (decode.feth !== undefined) {
    readFeth(feth, bytes, bthAt + row!.fethAt)
    const { plt, sel } = decode.feth
    expect(feth).toEqual({ placement: plt, selectivity: sel, reserved: 0 })
  }
  if (decode.atomicEth !== undefined) expectAtomic(bytes, bthAt + row!.atomicAt, decode.atomicEth)
}

function expectAtomic(
  bytes: Uint8Array,
  at: number,
  decode: NonNullable<Decode['atomicEth']>,
): void {
  const atomic = blankAtomic()
  readAtomic(atomic, bytes, at)
  const [vaHigh, vaLow] = halves(decode.va)
  const [swapHigh, swapLow] = halves(decode.swapOrAdd)
  const [compareHigh, compareLow] = halves(decode.compare)
  const rkey = Number(decode.rkey)
  expect(atomic).toEqual({ vaHigh, vaLow, rkey, swapHigh, swapLow, compareHigh, compareLow })
}

describe('a capture of Linux', () => {
  for (const { name, frames } of CAPTURES) {
    test(`${name}: every packet is read, and written again to the byte`, () => {
      expect(frames.length).toBeGreaterThan(0)
      for (const frame of frames) {
        const packet = checked(frame)
        const again = encodedAgain(frame, packet)
        const compared = packet.opcode === RC_FLUSH ? again.length - ICRC_BYTES : again.length
        expect(hexOf(again.slice(0, compared))).toBe(hexOf(frame.slice(0, compared)))
      }
    })

    test(`${name}: the only ICRCs that are not the standard's are those of stock FLUSH`, () => {
      const other: boolean[] = []
      const expected: boolean[] = []
      for (const frame of frames) {
        const packet = checked(frame)
        other.push(icrcReference(frame, 0, frame.length) !== icrcIn(frame, packet))
        expected.push(name.startsWith('rxe-stock') && packet.opcode === RC_FLUSH)
      }
      expect(other).toEqual(expected)
      if (name.startsWith('rxe-stock')) expect(expected).toContain(true)
    })
  }
})

describe('the opcode table', () => {
  const standard = STORED_OPCODES.filter((stored) => Number(stored.opcode) < 0xc0)

  for (const stored of standard) {
    test(`${stored.name} has the headers of the standard`, () => {
      const row = OPCODES[Number(stored.opcode)]!
      expect(row.name).toBe(stored.name)
      expect(row.opcode).toBe(Number(stored.opcode))
      const ends = { BTH: 12, payload: row.headerBytes }
      const found = {
        RETH: row.rethAt && row.rethAt + 16,
        AETH: row.aethAt && row.aethAt + 4,
        ImmDt: row.immAt && row.immAt + 4,
        AtomicETH: row.atomicAt && row.atomicAt + 28,
        AtomicAckETH: row.atomicAckAt && row.atomicAckAt + 8,
        IETH: row.iethAt && row.iethAt + 4,
        FETH: row.fethAt && row.fethAt + 4,
        DETH: row.dethAt && row.dethAt + 8,
      }
      const order = Object.entries({ ...ends, ...found })
        .filter(([header, end]) => end !== 0 && header !== 'payload')
        .sort(([, a], [, b]) => a - b)
        .map(([header]) => header)
      expect(order).toEqual(stored.chain.filter((header) => header !== 'payload'))
      if (row.payload === PAYLOAD_NONE) expect(stored.chain).not.toContain('payload')
    })
  }

  test('no standard opcode is missing, and none is invented', () => {
    const ours = [0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xca, 0xcc, 0xcd, 0xd1, 0xd8, 0xd9]
    const numbers = OPCODES.flatMap((row, opcode) => (row === undefined ? [] : [opcode]))
    const expected = [...standard.map((stored) => Number(stored.opcode)), ...ours]
    expect(numbers).toEqual(expected.sort((a, b) => a - b))
  })
})
