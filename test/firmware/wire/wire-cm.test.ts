/**
 * The codec of RDMA-CM against messages that others made: Linux, and an independent generator.
 */

import { describe, expect, test } from 'vitest'
import {
  BSETH_BYTES,
  blankBseth,
  clearBseth,
  readBseth,
  writeBseth,
} from '../../../firmware/wire/block-size.ts'
import {
  blankCapability,
  blankGeometry,
  readCapability,
  readClientDepths,
  readDepths,
  readGeometry,
  writeCapability,
  writeClientDepths,
  writeDepths,
  writeGeometry,
} from '../../../firmware/wire/capability.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import {
  blankLibrpma,
  LIBRPMA_BYTES,
  readLibrpma,
  writeLibrpma,
} from '../../../firmware/wire/librpma.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { printPacket } from '../../../host-driver/command/capture/print.ts'
import { printCm } from '../../../host-driver/command/capture/print-cm.ts'
import { CM_NAMES, putMra } from '../../support/wire/cm.ts'
import { hexOf, unwritten } from '../../support/wire/frames.ts'
import { CAPTURES, VECTORS } from '../../support/wire/vectors.ts'

/** Bytes in front of a block under test, and behind it: nothing may touch them. */
const AROUND = 80

interface Stored {
  readonly name: string
  readonly bytes: Uint8Array
}

/** The MAD of a frame, or null where it is no message of RDMA-CM. */
function madOf(frame: Uint8Array): Uint8Array | null {
  const packet = blankPacket()
  if (checkPacket(packet, frame, 0, frame.length) !== 0 || packet.opcode !== 0x64) return null
  const { payloadAt, payloadLength } = packet
  if (cm.cmFault(frame, payloadAt, payloadLength) !== 0) return null
  return frame.slice(payloadAt, payloadAt + payloadLength)
}

const STORED: readonly Stored[] = [
  ...VECTORS.filter(({ group }) => group === 'cm').map(({ name, bytes }) => ({ name, bytes })),
  ...CAPTURES.flatMap(({ name, frames }) =>
    frames.map((bytes, i) => ({ name: `${name}, frame ${i + 1}`, bytes })),
  ),
].flatMap(({ name, bytes }) => {
  const mad = madOf(bytes)
  return mad === null ? [] : [{ name, bytes: mad }]
})

function attributeOf(mad: Uint8Array): number {
  const header = cm.blankCmHeader()
  cm.readCmHeader(header, mad, 0)
  return header.attribute
}

function read<Body>(blank: Body, by: (into: Body, b: Uint8Array, at: number) => void): ReadBody {
  return (mad) => {
    by(blank, mad, cm.CM_BODY)
    return blank
  }
}
type ReadBody = (mad: Uint8Array) => unknown

/** Reads the message into its record and writes it from there into bytes that were 0xa5. */
function encodedAgain(mad: Uint8Array): Uint8Array {
  const out = unwritten(cm.CM_BYTES)
  const header = cm.blankCmHeader()
  cm.readCmHeader(header, mad, 0)
  cm.writeCmHeader(out, 0, header)
  const at = cm.CM_BODY
  if (header.attribute === cm.CM_REQ) {
    const req = cm.blankReq()
    cm.readReq(req, mad, at)
    cm.writeReq(out, at, req)
  } else if (header.attribute === cm.CM_REP) {
    const rep = cm.blankRep()
    cm.readRep(rep, mad, at)
    cm.writeRep(out, at, rep)
  } else if (header.attribute === cm.CM_REJ) {
    const rej = cm.blankRej()
    cm.readRej(rej, mad, at)
    cm.writeRej(out, at, rej)
  } else {
    const ids = { localId: 0, remoteId: 0 }
    cm.readIds(ids, mad, at)
    cm.writeIds(out, at, ids)
  }
  if (header.attribute === cm.CM_DREQ) cm.putDreqQpn(out, at, cm.dreqQpn(mad, at))
  if (header.attribute === cm.CM_MRA) {
    putMra(out, at, cm.mraMessage(mad, at), cm.mraTimeout(mad, at))
  }
  return out
}

describe('messages made by others', () => {
  test('the vectors and captures hold every message', () => {
    const seen = new Set(STORED.map(({ bytes }) => CM_NAMES[attributeOf(bytes)]))
    expect([...seen].sort()).toEqual(['DREP', 'DREQ', 'MRA', 'REJ', 'REP', 'REQ', 'RTU'])
  })

  for (const { name, bytes } of STORED) {
    test(`${name} (${CM_NAMES[attributeOf(bytes)]}) is written again byte for byte`, () => {
      expect(hexOf(encodedAgain(bytes))).toBe(hexOf(bytes))
    })
  }
})

function stored(name: string, attribute: number): Uint8Array {
  const found = STORED.find(
    (one) => one.name.startsWith(name) && attributeOf(one.bytes) === attribute,
  )
  if (found === undefined) throw new Error(`no ${CM_NAMES[attribute]} in ${name}`)
  return found.bytes
}

const RPMA = 'rxe-std-rpma05-pmem-direct.pcap'

test('the EUI-64 of an Ethernet address: its bit for local turned, FF FE in its middle', () => {
  const mac = [0x52, 0x54, 0x01, 0x83, 0x04, 0xf5]
  expect(cm.guidHigh(mac)).toBe(0x505401ff)
  expect(cm.guidLow(mac)).toBe(0xfe8304f5)
})

describe('what Linux says', () => {
  test('the REQ of librpma’s client', () => {
    const req = read(cm.blankReq(), cm.readReq)(stored(RPMA, cm.CM_REQ)) as cm.CmReq
    expect(req).toMatchObject({
      localId: 0xa2fb22a6,
      serviceHigh: 0,
      serviceLow: cm.SERVICE_TCP | 7204,
      guidHigh: 0x505400ff,
      guidLow: 0xfe000001,
      qpn: 0x20,
      responderResources: 128,
      initiatorDepth: 128,
      transport: cm.TRANSPORT_RC,
      startingPsn: 0x8145e8,
      remoteTimeout: 20,
      localTimeout: 20,
      retryCount: 7,
      rnrRetryCount: 7,
      cmRetries: 15,
      pkey: 0xffff,
      ackTimeout: 17,
      hopLimit: 64,
    })
    expect(cm.mtuOfCode(req.pathMtu)).toBe(1024)
    expect(hexOf(req.localGid)).toBe('00000000000000000000ffff0a090001')
    expect(hexOf(req.remoteGid)).toBe('00000000000000000000ffff0a090002')
    expect(req.privateData[cm.IP_CM_IP_VERSION]).toBe(0x40)
    expect(hexOf(req.privateData.slice(16, 20))).toBe('0a090001')
    expect(readCapability(blankCapability(), req.privateData, cm.IP_CM_USER, 56)).toBe(false)
  })

  test('the REP of librpma’s server, and its descriptor of 28 bytes', () => {
    const rep = read(cm.blankRep(), cm.readRep)(stored(RPMA, cm.CM_REP)) as cm.CmRep
    expect(rep).toMatchObject({
      localId: 0x86d419e6,
      remoteId: 0xa2fb22a6,
      qpn: 0x1f,
      startingPsn: 0x4cf158,
      responderResources: 128,
      initiatorDepth: 128,
      targetAckDelay: 15,
      rnrRetryCount: 7,
      srq: 0,
    })
    const descriptor = blankLibrpma()
    expect(readLibrpma(descriptor, rep.privateData, 0)).toBe(true)
    expect(descriptor).toEqual({
      addressHigh: 0x7f15,
      addressLow: 0x41e00000,
      sizeHigh: 0,
      sizeLow: 0x7e00000,
      rkey: 0x1112,
      usage: 0x38,
    })
    const again = unwritten(LIBRPMA_BYTES)
    writeLibrpma(again, 0, descriptor)
    // The server of the example keeps its own header in front of the data; ours begins at once.
    expect(hexOf(again)).toBe(hexOf(rep.privateData.slice(0, 28)).replace(/^1100/, '0000'))
  })

  test('a rejected client is told reason 8, and by which message', () => {
    const mad = stored('rxe-std-rping-reject.pcap', cm.CM_REJ)
    const rej = read(cm.blankRej(), cm.readRej)(mad) as cm.CmRej
    expect(rej).toMatchObject({ localId: 0, message: cm.MESSAGE_REQ, informationLength: 0 })
    expect(rej.reason).toBe(cm.REJECT_SERVICE_ID)
  })

  test('DREQ names the queue pair of its receiver', () => {
    expect(cm.dreqQpn(stored(RPMA, cm.CM_DREQ), cm.CM_BODY)).toBe(0x1f)
  })
})

describe('S1-M7: the depths in the capability block', () => {
  const user = cm.IP_CM_USER

  test('S1-M7: those of a client stand where its durable sequence would', () => {
    const req = read(cm.blankReq(), cm.readReq)(stored('cm-req-depths', cm.CM_REQ)) as cm.CmReq
    const block = blankCapability()
    expect(readCapability(block, req.privateData, user, cm.USER_BYTES_REQ)).toBe(true)
    expect(block).toMatchObject({ features: 0x13f, clientHigh: 0xcafe, clientLow: 0x1234 })
    expect(readClientDepths(req.privateData, user)).toEqual({ send: 384, receive: 64 })
    const bytes = new Uint8Array(56)
    writeCapability(bytes, 0, { ...block, features: 0x3f, durableHigh: 0 })
    writeClientDepths(bytes, 0, { send: 384, receive: 64 })
    expect(hexOf(bytes)).toBe(hexOf(req.privateData.slice(user)))
    expect(hexOf(bytes.slice(36, 44))).toBe('0180004000000000')
  })

  test('S1-M7: of a card, as the generator made them, stand behind the shape of its region', () => {
    const rep = read(cm.blankRep(), cm.readRep)(stored('cm-rep-depths', cm.CM_REP)) as cm.CmRep
    const block = blankCapability()
    const shape = blankGeometry()
    expect(readCapability(block, rep.privateData, 0, 196)).toBe(true)
    expect(block).toMatchObject({ features: 0x1ff, durableLow: 0x1005, durableHigh: 0 })
    expect(readGeometry(shape, rep.privateData, 0, 196)).toBe(true)
    expect(shape).toMatchObject({ slots: 4, capacity: 4096, copies: 2 })
    expect(readDepths(rep.privateData, 0, 196)).toEqual({ send: 64, receive: 32 })
    const bytes = unwritten(AROUND + 72 + AROUND)
    const before = hexOf(bytes.slice(0, AROUND))
    writeCapability(bytes, AROUND, { ...block, features: 0xff })
    writeGeometry(bytes, AROUND, shape)
    writeDepths(bytes, AROUND, { send: 64, receive: 32 })
    expect(hexOf(bytes.slice(AROUND, AROUND + 72))).toBe(hexOf(rep.privateData.slice(0, 72)))
    expect([bytes.slice(0, AROUND), bytes.slice(AROUND + 72)].map(hexOf)).toEqual([before, before])
  })

  test('S1-M7: are whole or none, and none without their feature', () => {
    const bytes = new Uint8Array(76)
    writeCapability(bytes, 0, { ...blankCapability(), features: 0xff })
    writeGeometry(bytes, 0, { ...blankGeometry(), slots: 9 })
    expect(readDepths(bytes, 0, 76)).toBe(null)
    expect(readClientDepths(bytes, 0)).toBe(null)
    writeDepths(bytes, 0, { send: 1, receive: 2 })
    for (let length = 48; length < 72; length++) expect(readDepths(bytes, 0, length)).toBe(null)
    for (let words = 0; words < 256; words++) {
      bytes[5] = words
      const told = words === 18 || words === 19 ? { send: 1, receive: 2 } : null
      expect(readDepths(bytes, 0, 76), `${words} words`).toEqual(told)
    }
    bytes[5] = 18
    for (let version = 0; version < 256; version++) {
      bytes[4] = version
      expect(readCapability(blankCapability(), bytes, 0, 76)).toBe(version === 1)
    }
  })

  test('S1-M7: a depth that no block can tell is told as the most that one can', () => {
    const bytes = new Uint8Array(56)
    writeCapability(bytes, 0, blankCapability())
    writeClientDepths(bytes, 0, { send: 65_536, receive: 2 ** 32 })
    expect(readClientDepths(bytes, 0)).toEqual({ send: 65_535, receive: 65_535 })
  })
})

describe('the capability block', () => {
  test('of 48 bytes, as the generator made it, is read', () => {
    const rep = read(cm.blankRep(), cm.readRep)(stored('cm-rep-capability', cm.CM_REP)) as cm.CmRep
    const block = blankCapability()
    expect(readCapability(block, rep.privateData, 0, 196)).toBe(true)
    expect(block).toMatchObject({
      features: 0x7f,
      rkey: 0xabcd77,
      baseHigh: 0x7000,
      baseLow: 0,
      lengthLow: 0x4000,
      slotLog2: 12,
      blockLog2Min: 9,
      blockLog2Max: 12,
      batchMax: 63,
      incarnation: 7,
      durableLow: 0x1005,
      sessionId: 0x51e55101,
      clientHigh: 0,
      clientLow: 0,
    })
  })

  test('with its client id is written and read again', () => {
    const block = blankCapability()
    Object.keys(block).forEach((field, i) => {
      block[field as keyof typeof block] = i + 1
    })
    const bytes = unwritten(56)
    writeCapability(bytes, 0, block)
    const again = blankCapability()
    expect(readCapability(again, bytes, 0, 56)).toBe(true)
    expect(again).toEqual(block)
    expect(hexOf(bytes.slice(0, 6))).toBe('4e564450010e')
  })

  test('with the shape of its region is written and read again, and is whole or none', () => {
    const shape = { slots: 0x01020304, capacity: 0x05060708, copies: 9, kind: 10, flags: 0x0b0c }
    const bytes = unwritten(AROUND + 68 + AROUND)
    const before = hexOf(bytes.slice(0, AROUND))
    writeCapability(bytes, AROUND, { ...blankCapability(), incarnation: 7 })
    writeGeometry(bytes, AROUND, shape)
    expect(hexOf(bytes.slice(AROUND + 56, AROUND + 68))).toBe('0102030405060708090a0b0c')
    expect(hexOf(bytes.slice(0, AROUND))).toBe(before)
    expect(hexOf(bytes.slice(AROUND + 68))).toBe(before)
    const block = blankCapability()
    expect(readCapability(block, bytes, AROUND, 68)).toBe(true)
    expect(block).toEqual({ ...blankCapability(), incarnation: 7 })
    const again = blankGeometry()
    expect(readGeometry(again, bytes, AROUND, 68)).toBe(true)
    expect(again).toEqual(shape)
    expect(readGeometry(again, bytes, AROUND, 67)).toBe(false)
    writeCapability(bytes, AROUND, block)
    expect(readGeometry(again, bytes, AROUND, 68)).toBe(false)
  })

  test('is believed only whole: cut at any byte it is none', () => {
    const bytes = new Uint8Array(56)
    writeCapability(bytes, 0, { ...blankCapability(), clientLow: 5 })
    for (let length = 0; length < 56; length++) {
      expect(readCapability(blankCapability(), bytes, 0, length)).toBe(false)
    }
  })
})

describe('a record of a header', () => {
  /** Every byte another one than its neighbours, none of them 0. */
  const body = Uint8Array.from({ length: cm.CM_BYTES }, (_, i) => 1 + ((i * 37) % 255))

  test('of a message is written whole: read again, each of its fields is the same', () => {
    const out = new Uint8Array(cm.CM_BYTES)
    const req = read(cm.blankReq(), cm.readReq)(body) as cm.CmReq
    cm.writeReq(out, cm.CM_BODY, req)
    expect(read(cm.blankReq(), cm.readReq)(out)).toEqual(req)
    const rep = read(cm.blankRep(), cm.readRep)(body) as cm.CmRep
    cm.writeRep(out.fill(0), cm.CM_BODY, rep)
    expect(read(cm.blankRep(), cm.readRep)(out)).toEqual(rep)
    const rej = read(cm.blankRej(), cm.readRej)(body) as cm.CmRej
    cm.writeRej(out.fill(0), cm.CM_BODY, rej)
    expect(read(cm.blankRej(), cm.readRej)(out)).toEqual(rej)
  })

  test('that nobody filled in says nothing', () => {
    const block = unwritten(56)
    writeCapability(block, 0, blankCapability())
    expect(hexOf(block)).toBe(`4e564450010e${'00'.repeat(50)}`)
    const sizes = blankBseth()
    const out = unwritten(BSETH_BYTES)
    for (const byte of [0, 0xff]) {
      readBseth(sizes, new Uint8Array(BSETH_BYTES).fill(byte), 0)
      clearBseth(sizes)
      writeBseth(out, 0, sizes)
      expect(hexOf(out)).toBe(`14${'00'.repeat(15)}`)
    }
  })
})

test('codes of path MTUs and times', () => {
  expect([0, 1, 2, 3, 4, 5, 6, 15].map(cm.mtuOfCode)).toEqual([
    ...[0, 256, 512, 1024],
    ...[2048, 4096, 0, 0],
  ])
  for (const code of [1, 2, 3, 4, 5]) expect(cm.codeOfMtu(cm.mtuOfCode(code))).toBe(code)
  expect(Math.round(cm.codedUs(20))).toBe(4294967)
})

test('a line about each message of a dialogue of Linux', () => {
  const lines = CAPTURES.find(({ name }) => name === RPMA)!.frames.flatMap((frame) => {
    const packet = blankPacket()
    checkPacket(packet, frame, 0, frame.length)
    return packet.opcode === 0x64 ? [printPacket(packet, frame).replace(/^.*CM/, 'CM')] : []
  })
  expect(lines).toEqual([
    'CM REQ id 0xa2fb22a6 port 7204 from qp 0x20 psn 8472040 mtu 1024',
    'CM REP id 0x86d419e6 to 0xa2fb22a6 from qp 0x1f psn 5042520',
    'CM RTU id 0xa2fb22a6 to 0x86d419e6',
    'CM DREQ id 0xa2fb22a6 to 0x86d419e6 qp 0x1f',
    'CM DREP id 0x86d419e6 to 0xa2fb22a6',
  ])
  const words: string[] = []
  expect(printCm(words, stored('rxe-std-rping-reject.pcap', cm.CM_REJ), 0, 256)).toBe(true)
  expect(words.join(' ')).toBe('CM REJ id 0x0 to 0xa1fb22a6 reason 8')
})
