/**
 * Frames for tests: written as annotated hex, built from records, read from captures.
 *
 * Every buffer that a writer fills starts out as 0xa5, so that a byte it forgot shows up.
 */

import { type Aeth, blankAeth, readAeth, writeAeth } from '../../../firmware/wire/aeth.ts'
import {
  type Atomic,
  type AtomicAck,
  blankAtomic,
  blankAtomicAck,
  readAtomic,
  readAtomicAck,
  writeAtomic,
} from '../../../firmware/wire/atomic.ts'
import { type Bseth, blankBseth, readBseth, writeBseth } from '../../../firmware/wire/block-size.ts'
import { BTH_BYTES, type Bth, blankBth, writeBth } from '../../../firmware/wire/bth.ts'
import { putU32, u16 } from '../../../firmware/wire/bytes.ts'
import { blankDeth, type Deth, readDeth, writeDeth } from '../../../firmware/wire/deth.ts'
import { ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6 } from '../../../firmware/wire/ethernet.ts'
import { blankFeth, type Feth, readFeth, writeFeth } from '../../../firmware/wire/feth.ts'
import { ICRC_BYTES } from '../../../firmware/wire/icrc.ts'
import { blankIeth, type Ieth, readIeth, writeIeth } from '../../../firmware/wire/ieth.ts'
import { blankImmdt, type Immdt, readImmdt, writeImmdt } from '../../../firmware/wire/immdt.ts'
import { blankIpv4, IPV4_BYTES, writeIpv4 } from '../../../firmware/wire/ipv4.ts'
import { IPV6_BYTES } from '../../../firmware/wire/ipv6.ts'
import {
  blankMseth,
  type Mseth,
  readMseth,
  writeMseth,
} from '../../../firmware/wire/memory-status.ts'
import { OPCODES, type OpcodeRow } from '../../../firmware/wire/opcode.ts'
import type { Packet } from '../../../firmware/wire/packet.ts'
import {
  ADDRESS_EXTENSION_BYTES,
  blankPweth,
  EXPECT_EXTENSION_BYTES,
  GUARD_EXTENSION_BYTES,
  type Pweth,
  readPweth,
  writePweth,
} from '../../../firmware/wire/persist.ts'
import { blankPaeth, type Paeth, readPaeth } from '../../../firmware/wire/persist-ack.ts'
import {
  blankPqeth,
  type Pqeth,
  readPqeth,
  writePqeth,
} from '../../../firmware/wire/persist-query.ts'
import { blankPfeth, type Pfeth, readPfeth, writePfeth } from '../../../firmware/wire/prefetch.ts'
import { blankReth, type Reth, readReth, writeReth } from '../../../firmware/wire/reth.ts'
import { blankUdp, UDP_BYTES, writeUdp } from '../../../firmware/wire/udp.ts'
import {
  blankEthernet,
  blankIpv6,
  readBth,
  readEthernet,
  readIpv4,
  readIpv6,
  readUdp,
  writeAtomicAck,
  writeEthernet,
  writeIpv6,
  writePaeth,
} from './headers.ts'
import { icrcReference } from './icrc-reference.ts'

/** A buffer that shows what was not written. */
export function unwritten(length: number): Uint8Array {
  return new Uint8Array(length).fill(0xa5)
}

/**
 * Bytes from annotated hex: on each line the digits come first, and whatever follows two spaces is
 * for the reader.
 */
export function hex(text: string): Uint8Array {
  const digits = text
    .split('\n')
    .map((line) => line.trim().split(/\s{2,}/)[0]!)
    .join('')
    .replaceAll(' ', '')
  if (!/^([0-9a-f]{2})*$/.test(digits)) throw new Error(`not hex: ${digits}`)
  return Uint8Array.from(digits.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
}

/** Bytes as hex, to be compared and read. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** What a frame shall have; what is left out is as in a blank record. */
export interface FrameParts {
  /** 4 (default) or 6. */
  ipVersion?: 4 | 6
  bth: Partial<Bth> & { opcode: number }
  reth?: Partial<Reth>
  aeth?: Partial<Aeth>
  pweth?: Partial<Pweth>
  /** Address extensions of a carried WRITE_PERSIST. */
  extensions?: Reth[]
  /** The sequence that a record of a batch expects. */
  expect?: bigint
  /** The guard of its data, behind all else; its PWETH says so. */
  guard?: number
  paeth?: Partial<Paeth>
  pqeth?: Partial<Pqeth>
  deth?: Partial<Deth>
  imm?: Partial<Immdt>
  atomic?: Partial<Atomic>
  atomicAck?: Partial<AtomicAck>
  ieth?: Partial<Ieth>
  feth?: Partial<Feth>
  mseth?: Partial<Mseth>
  bseth?: Partial<Bseth>
  pfeth?: Partial<Pfeth>
  payload?: Uint8Array
}

/** One header that may follow BTH: its place in a row, its name, how it is made and copied. */
interface Codec {
  readonly place: keyof OpcodeRow
  readonly part: keyof FrameParts
  /** Writes a blank record with some fields set. */
  make(bytes: Uint8Array, at: number, fields: object | undefined): void
  /** Reads the header at `at` into a record and writes it from there. */
  copy(out: Uint8Array, to: number, bytes: Uint8Array, at: number): void
}

function codec<Header extends object>(
  place: keyof OpcodeRow,
  part: keyof FrameParts,
  blank: () => Header,
  read: (into: Header, bytes: Uint8Array, at: number) => void,
  write: (bytes: Uint8Array, at: number, from: Header) => void,
): Codec {
  return {
    place,
    part,
    make: (bytes, at, fields) => write(bytes, at, { ...blank(), ...fields }),
    copy: copied(blank, read, write),
  }
}

/** Copies one header, by reading it into a blank record and writing it from there. */
function copied<Header>(
  blank: () => Header,
  read: (into: Header, bytes: Uint8Array, at: number) => void,
  write: (bytes: Uint8Array, at: number, from: Header) => void,
): Codec['copy'] {
  return (out, to, bytes, at) => {
    const record = blank()
    read(record, bytes, at)
    write(out, to, record)
  }
}

const CODECS: readonly Codec[] = [
  codec('rethAt', 'reth', blankReth, readReth, writeReth),
  codec('aethAt', 'aeth', blankAeth, readAeth, writeAeth),
  codec('pwethAt', 'pweth', blankPweth, readPweth, writePweth),
  codec('paethAt', 'paeth', blankPaeth, readPaeth, writePaeth),
  codec('pqethAt', 'pqeth', blankPqeth, readPqeth, writePqeth),
  codec('dethAt', 'deth', blankDeth, readDeth, writeDeth),
  codec('immAt', 'imm', blankImmdt, readImmdt, writeImmdt),
  codec('atomicAt', 'atomic', blankAtomic, readAtomic, writeAtomic),
  codec('atomicAckAt', 'atomicAck', blankAtomicAck, readAtomicAck, writeAtomicAck),
  codec('iethAt', 'ieth', blankIeth, readIeth, writeIeth),
  codec('fethAt', 'feth', blankFeth, readFeth, writeFeth),
  codec('msethAt', 'mseth', blankMseth, readMseth, writeMseth),
  codec('bsethAt', 'bseth', blankBseth, readBseth, writeBseth),
  codec('pfethAt', 'pfeth', blankPfeth, readPfeth, writePfeth),
]

/** The frame of those parts, with lengths, pad, checksums and ICRC as they must be. */
export function frameOf(parts: FrameParts): Uint8Array {
  const row = OPCODES[parts.bth.opcode]
  const payload = parts.payload ?? new Uint8Array(0)
  const padBytes = parts.bth.padBytes ?? -payload.length & 3
  const extensions = parts.extensions ?? []
  const ipVersion = parts.ipVersion ?? 4
  const bthAt = ETHERNET_BYTES + (ipVersion === 6 ? IPV6_BYTES : IPV4_BYTES) + UDP_BYTES
  const extensionsAt = bthAt + (row?.headerBytes ?? BTH_BYTES)
  const expectAt = extensionsAt + extensions.length * ADDRESS_EXTENSION_BYTES
  const guardAt = expectAt + (parts.expect === undefined ? 0 : EXPECT_EXTENSION_BYTES)
  const payloadAt = guardAt + (parts.guard === undefined ? 0 : GUARD_EXTENSION_BYTES)
  const padAt = payloadAt + payload.length
  const bytes = unwritten(padAt + padBytes + ICRC_BYTES)
  writeEnvelope(bytes, ipVersion)
  writeBth(bytes, bthAt, { ...blankBth(), ...parts.bth, padBytes })
  for (const { place, part, make } of row === undefined ? [] : CODECS) {
    const at = row![place] as number
    if (at !== 0) make(bytes, bthAt + at, parts[part] as object | undefined)
  }
  extensions.forEach((extension, i) => {
    writeReth(bytes, extensionsAt + i * ADDRESS_EXTENSION_BYTES, extension)
  })
  if (parts.expect !== undefined) putU64(bytes, expectAt, parts.expect)
  if (parts.guard !== undefined) putU32(bytes, guardAt, parts.guard)
  bytes.set(payload, payloadAt)
  bytes.fill(0, padAt, padAt + padBytes)
  writeIcrc(bytes)
  return bytes
}

function putU64(bytes: Uint8Array, at: number, value: bigint): void {
  new DataView(bytes.buffer, bytes.byteOffset).setBigUint64(at, value)
}

/** Ethernet, IP and UDP of a frame that fills `bytes`, from one made-up port to another. */
function writeEnvelope(bytes: Uint8Array, ipVersion: 4 | 6): void {
  const type = ipVersion === 6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4
  const length = bytes.length - ETHERNET_BYTES
  writeEthernet(bytes, 0, { destination: 0x020000000002, source: 0x020000000001, type })
  if (ipVersion === 6) {
    const ip = { ...blankIpv6(), payloadLength: length - IPV6_BYTES }
    ip.source.set(hex('fd00 0000 0000 0000 0000 0000 0000 0001'))
    ip.destination.set(hex('fd00 0000 0000 0000 0000 0000 0000 0002'))
    writeIpv6(bytes, ETHERNET_BYTES, ip)
    writeUdp(bytes, ETHERNET_BYTES + IPV6_BYTES, { ...blankUdp(), length: length - IPV6_BYTES })
  } else {
    const addresses = { source: 0x0a000001, destination: 0x0a000002 }
    writeIpv4(bytes, ETHERNET_BYTES, { ...blankIpv4(), totalLength: length, ...addresses })
    writeUdp(bytes, ETHERNET_BYTES + IPV4_BYTES, { ...blankUdp(), length: length - IPV4_BYTES })
  }
}

/** What a frame of IPv4 carries, over IPv6; its ICRC is to be written. */
export function overIpv6(frame: Uint8Array): Uint8Array {
  const carried = frame.subarray(ETHERNET_BYTES + IPV4_BYTES)
  const bytes = new Uint8Array(ETHERNET_BYTES + IPV6_BYTES + carried.length)
  bytes.set(carried, ETHERNET_BYTES + IPV6_BYTES)
  writeEnvelope(bytes, 6)
  return bytes
}

/** Puts the standard ICRC into the last four bytes of a frame without Ethernet padding. */
export function writeIcrc(frame: Uint8Array): void {
  const icrc = icrcReference(frame, 0, frame.length)
  for (let i = 0; i < ICRC_BYTES; i++) {
    frame[frame.length - ICRC_BYTES + i] = icrc >>> (8 * i)
  }
}

/** The ICRC that stands in a packet, as an unsigned number. */
export function icrcIn(bytes: Uint8Array, packet: Packet): number {
  const at = packet.frameAt + packet.frameLength - ICRC_BYTES
  let icrc = 0
  for (let i = 0; i < ICRC_BYTES; i++) icrc += bytes[at + i]! * 2 ** (8 * i)
  return icrc
}

/**
 * The same packet once more: every header read into its record and written from it into a buffer of
 * 0xa5, the payload copied, the pad made, the ICRC computed.
 */
export function encodedAgain(bytes: Uint8Array, packet: Packet): Uint8Array {
  const { row, frameAt, ipAt, bthAt, payloadAt } = packet
  const out = unwritten(packet.frameLength)
  const udpAt = bthAt - UDP_BYTES
  copied(blankEthernet, readEthernet, writeEthernet)(out, 0, bytes, frameAt)
  // The tag of 802.1Q, if there is one, and the type behind it.
  out.set(bytes.slice(frameAt + ETHERNET_BYTES, ipAt), ETHERNET_BYTES)
  const copyIp =
    packet.ipVersion === 6
      ? copied(blankIpv6, readIpv6, writeIpv6)
      : copied(blankIpv4, readIpv4, writeIpv4)
  copyIp(out, ipAt - frameAt, bytes, ipAt)
  copied(blankUdp, readUdp, writeUdp)(out, udpAt - frameAt, bytes, udpAt)
  copied(blankBth, readBth, writeBth)(out, bthAt - frameAt, bytes, bthAt)
  for (const { place, copy } of row === null ? [] : CODECS) {
    const at = bthAt + (row![place] as number)
    if (at !== bthAt) copy(out, at - frameAt, bytes, at)
  }
  const extensionsAt = bthAt + (row?.headerBytes ?? BTH_BYTES)
  let at = extensionsAt
  for (; at + ADDRESS_EXTENSION_BYTES <= payloadAt; at += ADDRESS_EXTENSION_BYTES) {
    copied(blankReth, readReth, writeReth)(out, at - frameAt, bytes, at)
  }
  // The sequence that is expected, and the guard.
  out.set(bytes.slice(at, payloadAt), at - frameAt)
  const padAt = payloadAt + packet.payloadLength
  out.set(bytes.slice(payloadAt, padAt), payloadAt - frameAt)
  out.fill(0, padAt - frameAt, padAt - frameAt + packet.padBytes)
  writeIcrc(out)
  return out
}

const PCAP_HEADER_BYTES = 24
const PCAP_RECORD_BYTES = 16
const PCAP_MAGIC = 0xa1b2c3d4

/** The frames of a capture: pcap with microseconds, little-endian, Ethernet. */
export function framesOfCapture(capture: Uint8Array): Uint8Array[] {
  const view = new DataView(capture.buffer, capture.byteOffset, capture.byteLength)
  if (view.getUint32(0, true) !== PCAP_MAGIC) throw new Error('not a capture of that form')
  const frames: Uint8Array[] = []
  for (let at = PCAP_HEADER_BYTES; at < capture.length; ) {
    const length = view.getUint32(at + 8, true)
    if (length !== view.getUint32(at + 12, true)) throw new Error('a frame was cut short')
    at += PCAP_RECORD_BYTES
    frames.push(capture.slice(at, at + length))
    at += length
  }
  return frames
}

/** Whether a frame is RoCEv2 without a VLAN tag: IPv4 or IPv6, UDP, port 4791. */
export function isRoce(frame: Uint8Array): boolean {
  const isIpv6 = u16(frame, 12) === ETHERTYPE_IPV6
  if (!isIpv6 && u16(frame, 12) !== ETHERTYPE_IPV4) return false
  const protocol = frame[ETHERNET_BYTES + (isIpv6 ? 6 : 9)]
  const udpAt = ETHERNET_BYTES + (isIpv6 ? IPV6_BYTES : IPV4_BYTES)
  return protocol === 17 && u16(frame, udpAt + 2) === 4791
}
