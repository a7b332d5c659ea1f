/**
 * The headers, one by one: each is written down as annotated hex, and read, written and mirrored.
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FAULTS, MANAGEMENT_FORM, PASS } from '../../../firmware/board/fault.ts'
import {
  AETH_BYTES,
  blankAeth,
  NAK_ACCESS,
  readAeth,
  writeAeth,
} from '../../../firmware/wire/aeth.ts'
import {
  ATOMIC_ACK_BYTES,
  ATOMIC_BYTES,
  blankAtomic,
  blankAtomicAck,
  readAtomic,
  readAtomicAck,
  writeAtomic,
} from '../../../firmware/wire/atomic.ts'
import {
  BSETH_BYTES,
  blankBseth,
  PERIOD_US_MAX,
  readBseth,
  SIZE_OFFERED,
  writeBseth,
} from '../../../firmware/wire/block-size.ts'
import { BTH_BYTES, blankBth, writeBth } from '../../../firmware/wire/bth.ts'
import { putU16, putU24, putU32, u16, u24, u32 } from '../../../firmware/wire/bytes.ts'
import {
  blankDeth,
  DETH_BYTES,
  Q_KEY_GSI,
  readDeth,
  writeDeth,
} from '../../../firmware/wire/deth.ts'
import { ETHERNET_BYTES, ETHERTYPE_IPV6 } from '../../../firmware/wire/ethernet.ts'
import {
  blankFeth,
  FETH_BYTES,
  PLACEMENT_GLOBAL,
  PLACEMENT_PERSISTENT,
  readFeth,
  SELECT_REGION,
  writeFeth,
} from '../../../firmware/wire/feth.ts'
import { blankIeth, IETH_BYTES, readIeth, writeIeth } from '../../../firmware/wire/ieth.ts'
import { blankImmdt, IMMDT_BYTES, readImmdt, writeImmdt } from '../../../firmware/wire/immdt.ts'
import {
  blankIpv4,
  IPV4_BYTES,
  ipv4Checksum,
  writeIpv4,
  writeIpv4Length,
} from '../../../firmware/wire/ipv4.ts'
import { IPV6_BYTES } from '../../../firmware/wire/ipv6.ts'
import {
  ATTRIBUTE_OPEN,
  blankMad,
  MAD_BODY,
  MAD_BYTES,
  MAD_CLASS,
  MAD_MAGIC,
  METHOD_RESPONSE,
  madFault,
  readMad,
  STATUS_REFUSED,
  writeMad,
} from '../../../firmware/wire/management.ts'
import {
  blankMseth,
  FORM_BITMAP,
  FORM_LIST,
  HEALTH_DEGRADED,
  MSETH_BYTES,
  readMseth,
  STATUS_CHANGE,
  STATUS_CURRENT,
  writeMseth,
} from '../../../firmware/wire/memory-status.ts'
import {
  blankPweth,
  CONDITION_IN_ORDER,
  extensionBytes,
  PWETH_BYTES,
  readPweth,
  writePweth,
} from '../../../firmware/wire/persist.ts'
import {
  blankPaeth,
  MECHANISM_LOCAL_FLUSH,
  PAETH_BYTES,
  readPaeth,
} from '../../../firmware/wire/persist-ack.ts'
import {
  blankPqeth,
  PQETH_BYTES,
  readPqeth,
  writePqeth,
} from '../../../firmware/wire/persist-query.ts'
import {
  blankPfeth,
  PFETH_BYTES,
  PREFETCH_SEQUENTIAL,
  readPfeth,
  writePfeth,
} from '../../../firmware/wire/prefetch.ts'
import { blankReth, RETH_BYTES, readReth, writeReth } from '../../../firmware/wire/reth.ts'
import { blankUdp, UDP_BYTES, writeUdp } from '../../../firmware/wire/udp.ts'
import { hex, hexOf, unwritten } from '../../support/wire/frames.ts'
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
} from '../../support/wire/headers.ts'

const SEED = Number(process.env.SEED ?? 1)
/** Bytes in front of a header under test, and behind it: nothing may touch them. */
const AROUND = 5

/**
 * One fixture makes four tests: the bytes are read, the record is written, both mirror, and nothing
 * stays in a record of what was read into it before.
 */
function header<Header extends object>(
  name: string,
  length: number,
  blank: () => Header,
  read: (into: Header, bytes: Uint8Array, at: number) => void,
  write: (bytes: Uint8Array, at: number, from: Header) => void,
  record: Header,
  text: string,
): void {
  const bytes = hex(text)
  const around = unwritten(AROUND + length + AROUND)
  around.set(bytes, AROUND)

  test(`${name}: the bytes are read`, () => {
    expect(bytes.length).toBe(length)
    const into = blank()
    read(into, around, AROUND)
    expect(into).toEqual(record)
  })

  test(`${name}: the record is written, every byte of it and no other`, () => {
    const out = unwritten(around.length)
    write(out, AROUND, record)
    expect(hexOf(out)).toBe(hexOf(around))
  })

  test(`${name}: what is written is read back, from a blank record too`, () => {
    for (const from of [record, blank()]) {
      const out = unwritten(around.length)
      write(out, AROUND, from)
      const into = blank()
      read(into, out, AROUND)
      expect(into).toEqual(from)
    }
  })

  test(`${name}: whatever the bytes, all of the record follows from them`, () => {
    const drawn = fc.uint8Array({ minLength: length, maxLength: length })
    fc.assert(
      fc.property(drawn, (some) => {
        const [into, used] = [stained(blank(), false), stained(blank(), true)]
        read(into, some, 0)
        read(used, some, 0)
        expect(into).toEqual(used)
        expect(Object.values(into).some(Number.isNaN)).toBe(false)
      }),
      { seed: SEED },
    )
  })
}

/** A record as no bytes make it. */
function stained<Header extends object>(record: Header, truth: boolean): Header {
  const fields = Object.entries(record).map(([name, value]) => {
    if (value instanceof Uint8Array) return [name, value.fill(Number(truth))]
    return [name, typeof value === 'boolean' ? truth : Number.NaN]
  })
  return Object.assign(record, Object.fromEntries(fields))
}

describe('the envelope', () => {
  header(
    'Ethernet',
    ETHERNET_BYTES,
    blankEthernet,
    readEthernet,
    writeEthernet,
    { destination: 0xf2345678abcd, source: 0x020000000001, type: ETHERTYPE_IPV6 },
    `
    f23456 78abcd   destination
    020000 000001   source
    86dd            IPv6
    `,
  )

  header(
    'IPv4',
    IPV4_BYTES,
    blankIpv4,
    readIpv4,
    writeIpv4,
    {
      trafficClass: 0x68,
      totalLength: 0x0130,
      identification: 0xbeef,
      fragment: 0x4000,
      timeToLive: 64,
      protocol: 17,
      source: 0xc0a80001,
      destination: 0xfffffffe,
    },
    `
    45 68 0130      version, traffic class, total length
    beef 4000       identification, do not fragment
    40 11 b9bd      TTL, UDP, checksum
    c0a80001        source
    fffffffe        destination
    `,
  )

  header(
    'IPv6',
    IPV6_BYTES,
    blankIpv6,
    readIpv6,
    writeIpv6,
    {
      trafficClass: 0xc2,
      flowLabel: 0xabcde,
      payloadLength: 0x0444,
      nextHeader: 17,
      hopLimit: 255,
      source: hex('fe80 0000 0000 0000 0011 22ff fe33 4455'),
      destination: hex('2001 0db8 0000 0000 0000 0000 0000 0001'),
    },
    `
    6c2 abcde                                  version, traffic class, flow label
    0444 11 ff                                 payload length, UDP, hops
    fe80 0000 0000 0000 0011 22ff fe33 4455    source
    2001 0db8 0000 0000 0000 0000 0000 0001    destination
    `,
  )

  header(
    'UDP',
    UDP_BYTES,
    blankUdp,
    readUdp,
    writeUdp,
    { sourcePort: 0xd872, destinationPort: 4791, length: 0x0120, checksum: 0xfedc },
    `
    d872 12b7   source port, RoCEv2
    0120 fedc   length, checksum
    `,
  )

  test('a changed length of IPv4 brings its checksum along', () => {
    const bytes = hex('45680130 beef4000 4011b9bd c0a80001 fffffffe')
    writeIpv4Length(bytes, 0, 0x012c)
    expect(hexOf(bytes)).toBe('4568012cbeef40004011b9c1c0a80001fffffffe')
    expect(ipv4Checksum(bytes, 0)).toBe(u16(bytes, 10))
  })

  test('the checksum of IPv4 takes both of its possible carries', () => {
    const bytes = hex('ffffffff ffffffff ffff0000 ffffffff ffff0001')
    expect(ipv4Checksum(bytes, 0)).toBe(0xfffe)
  })
})

describe('the headers of RoCEv2', () => {
  header(
    'BTH',
    BTH_BYTES,
    blankBth,
    readBth,
    writeBth,
    {
      opcode: 0x0a,
      solicited: true,
      padBytes: 3,
      version: 0,
      pkey: 0xffff,
      destQp: 0xf23456,
      ackRequest: true,
      psn: 0xabcdef,
    },
    `
    0a          opcode: RDMA WRITE Only
    b0          solicited, three bytes of pad, version 0
    ffff        default partition
    00 f23456   no congestion, destination QP
    80 abcdef   acknowledgement wanted, PSN
    `,
  )

  header(
    'RETH',
    RETH_BYTES,
    blankReth,
    readReth,
    writeReth,
    { vaHigh: 0xfedcba98, vaLow: 0x87654321, rkey: 0x80abcd77, length: 0x80000000 },
    `
    fedcba98 87654321   virtual address
    80abcd77            R_Key
    80000000            length
    `,
  )

  header(
    'AETH',
    AETH_BYTES,
    blankAeth,
    readAeth,
    writeAeth,
    { syndrome: NAK_ACCESS, msn: 0xfedcba },
    `
    62 fedcba   NAK: remote access error, MSN
    `,
  )

  header(
    'ImmDt',
    IMMDT_BYTES,
    blankImmdt,
    readImmdt,
    writeImmdt,
    { immediate: 0xf1223344 },
    'f1223344',
  )

  header(
    'AtomicETH',
    ATOMIC_BYTES,
    blankAtomic,
    readAtomic,
    writeAtomic,
    {
      vaHigh: 0x00007000,
      vaLow: 0xfffffff8,
      rkey: 0x80abcd77,
      swapHigh: 0x91223344,
      swapLow: 0x55667788,
      compareHigh: 0xfffffffe,
      compareLow: 0x00000005,
    },
    `
    00007000 fffffff8   virtual address
    80abcd77            R_Key
    91223344 55667788   swap
    fffffffe 00000005   compare
    `,
  )

  header(
    'AtomicAckETH',
    ATOMIC_ACK_BYTES,
    blankAtomicAck,
    readAtomicAck,
    writeAtomicAck,
    { originalHigh: 0xfffffffe, originalLow: 0x87654321 },
    'fffffffe 87654321',
  )

  header('IETH', IETH_BYTES, blankIeth, readIeth, writeIeth, { rkey: 0x80012345 }, '80012345')

  header(
    'FETH',
    FETH_BYTES,
    blankFeth,
    readFeth,
    writeFeth,
    {
      placement: PLACEMENT_GLOBAL | PLACEMENT_PERSISTENT,
      selectivity: SELECT_REGION,
      reserved: 0,
    },
    `
    000000 13   the whole region, visible and persistent
    `,
  )

  header(
    'DETH',
    DETH_BYTES,
    blankDeth,
    readDeth,
    writeDeth,
    { qkey: Q_KEY_GSI, sourceQp: 0xf23456 },
    `
    80010000    Q_Key of QP 1
    00 f23456   source QP
    `,
  )

  test('what a router or another card may set in BTH is not taken for a field', () => {
    const quiet = blankBth()
    const noisy = blankBth()
    readBth(quiet, hex('0a b0 ffff 00 f23456 80 abcdef'), 0)
    readBth(noisy, hex('0a f0 ffff ff f23456 ff abcdef'), 0)
    expect(noisy).toEqual(quiet)
  })

  test('a congestion notification carries BECN, and nothing else does', () => {
    const out = unwritten(BTH_BYTES)
    writeBth(out, 0, { ...blankBth(), opcode: 0x81 })
    expect(out[4]).toBe(0x40)
    writeBth(out, 0, { ...blankBth(), opcode: 0x11 })
    expect(out[4]).toBe(0)
  })

  test('reserved bits of FETH are seen when read and never written', () => {
    const feth = blankFeth()
    readFeth(feth, hex('80000052'), 0)
    expect(feth).toEqual({ placement: 2, selectivity: 1, reserved: 0x80000040 })
    const out = unwritten(FETH_BYTES)
    writeFeth(out, 0, feth)
    expect(hexOf(out)).toBe('00000012')
  })
})

describe('the headers of WRITE_PERSIST', () => {
  header(
    'PWETH of one record in its slot',
    PWETH_BYTES,
    blankPweth,
    readPweth,
    writePweth,
    {
      ...blankPweth(),
      wait: 2,
      slotAddressed: true,
      wantsAck: true,
      operationHigh: 0x80000001,
      operationLow: 0xfffffffe,
    },
    `
    14         version 1, 4 words
    64         wait for 2 copies, slot addressing, PERSIST_ACK wanted
    00 00      no condition; priority 0
    0000 00 00    no batch
    80000001   operation id, high
    fffffffe   operation id, low
    `,
  )

  header(
    'PWETH with every field set',
    PWETH_BYTES,
    blankPweth,
    readPweth,
    writePweth,
    {
      version: 1,
      words: 4,
      wait: 4,
      slotAddressed: true,
      carried: true,
      batch: true,
      wantsAck: true,
      urgent: true,
      repetition: true,
      condition: CONDITION_IN_ORDER,
      lastOfBatch: true,
      oneStatus: true,
      message: true,
      priority: 7,
      guarded: true,
      furtherCopies: 3,
      batchId: 0xfedc,
      batchIndex: 0xfe,
      batchCount: 256,
      operationHigh: 1,
      operationLow: 2,
      reserved: 0,
    },
    `
    14                  version 1, 4 words
    ff                  all four copies, all flags
    1e                  in order, last of the batch, a single status, a message
    f3                  priority 7, a guard, three further copies
    fedc fe ff          batch id, index 254, 256 records
    00000001 00000002   operation id
    `,
  )

  header(
    'PWETH of a record that may have been executed before',
    PWETH_BYTES,
    blankPweth,
    readPweth,
    writePweth,
    {
      ...blankPweth(),
      ...{ wait: 2, slotAddressed: true, wantsAck: true, repetition: true, operationLow: 7 },
    },
    `
    14                  version 1, 4 words
    65                  two copies, slot, acknowledgement wanted, repetition
    00 00 0000 00 00    no batch
    00000000 00000007   operation id
    `,
  )

  test('every bit of PWETH that must be 0 is reported', () => {
    const plain = hex('14 40 00 e0 0000 00 00 00000001 00000002')
    const reserved = (at: number, bit: number): number => {
      const bytes = plain.slice()
      bytes[at]! |= bit
      const pweth = blankPweth()
      readPweth(pweth, bytes, 0)
      return pweth.reserved
    }
    expect(reserved(0, 0)).toBe(0)
    for (const bit of [0x04, 0x08]) expect(reserved(3, bit)).not.toBe(0)
    const ofBatch = (bit: number): number => {
      plain[1] = 0x48
      const seen = reserved(2, bit)
      plain[1] = 0x40
      return seen
    }
    expect([0x01, 0x02, 0x04, 0x08].map((bit) => ofBatch(bit) !== 0)).toEqual([
      ...[true, false, false, false],
    ])
    // Without a batch its fields are reserved, and without the carried form the further copies.
    for (const at of [2, 4, 5, 6, 7]) {
      for (let bit = 1; bit < 256; bit *= 2) expect(reserved(at, bit)).not.toBe(0)
    }
    for (const bit of [0x01, 0x02]) expect(reserved(3, bit)).not.toBe(0)
    // All other bits mean something.
    for (let bit = 1; bit < 256; bit *= 2) expect(reserved(1, bit)).toBe(0)
    for (let at = 8; at < PWETH_BYTES; at++) expect(reserved(at, 0xff)).toBe(0)
  })

  test('address extensions follow a carried record that is not in a slot, and no other', () => {
    const of = (flags: string, copies: string): number => {
      return extensionBytes(hex(`14 ${flags} 00 ${copies} 00000000 00000000 00000001`), 0)
    }
    expect([of('10', '00'), of('10', '01'), of('10', '02'), of('10', '03')]).toEqual([
      0, 16, 32, 48,
    ])
    expect([of('30', '03'), of('20', '03'), of('00', '03')]).toEqual([0, 0, 0])
    // A guard follows whatever else there is, and alone.
    expect([of('00', '10'), of('20', '10'), of('10', '13')]).toEqual([4, 4, 52])
    expect(of('df', 'ee')).toBe(32)
  })

  header(
    'PAETH of a whole range',
    PAETH_BYTES,
    blankPaeth,
    readPaeth,
    writePaeth,
    {
      ...blankPaeth(),
      all: true,
      cumulative: true,
      firstPsn: 0xfffffe,
      lastPsn: 0x000001,
      operationHigh: 0x80000001,
      operationLow: 0xfffffffe,
      incarnation: 0x87654321,
      copies: 2,
      mechanism: MECHANISM_LOCAL_FLUSH,
      records: 4,
    },
    `
    18             version 1, 8 words
    c0             all of the range is durable, the operation id is cumulative
    00 00          durable, no bitmap
    00 fffffe      first PSN
    00 000001      last PSN
    0000 00 00     no batch
    80000001       operation id, high
    fffffffe       operation id, low
    87654321       incarnation
    02 01          two copies, by a local flush
    0004           records
    `,
  )

  header(
    'PAETH with every field set',
    PAETH_BYTES,
    blankPaeth,
    readPaeth,
    writePaeth,
    {
      version: 1,
      words: 8,
      all: true,
      cumulative: true,
      batch: true,
      query: true,
      degraded: true,
      status: 0x8e,
      bitmapWords: 8,
      firstPsn: 0xabcdef,
      lastPsn: 0xabceef,
      batchId: 0xfedc,
      batchDurable: 0xff,
      batchCount: 256,
      operationHigh: 1,
      operationLow: 2,
      incarnation: 3,
      copies: 4,
      mechanism: 3,
      records: 0xfffe,
    },
    `
    18 f8               version 1, 8 words; all flags
    8e 08               the write-back failed; eight words of bitmap
    00 abcdef           first PSN
    00 abceef           last PSN
    fedc ff ff          batch id, nothing durable, 256 records
    00000001 00000002   operation id
    00000003            incarnation
    04 03 fffe          four copies, by the CPU, records
    `,
  )
})

describe('the headers about the state of memory', () => {
  header(
    'MSETH of a change, with every field in use',
    MSETH_BYTES,
    blankMseth,
    readMseth,
    writeMseth,
    {
      ...{ version: 1, words: 8, kind: STATUS_CHANGE, positive: true, negative: false },
      ...{ more: true, health: HEALTH_DEGRADED, rkey: 0x80000001, sequence: 0xfffffffe },
      ...{ incarnation: 0xf0000003, blockSizeLog2: 21, form: FORM_LIST, entries: 0xff01 },
      ...{ firstBlock: 0xfedcba98, energy: 999, holdUpMs: 65_535, temperature: 0xc1 },
      ...{ lifeUsed: 99, inFlight: 0x8001, reserved: 0 },
    },
    `
    18 01 a0 01        version 1, 8 words; change; positive, more follows; degraded
    80000001           key
    fffffffe           sequence
    f0000003           incarnation
    15 00 ff01         2 MiB, a list, entries
    fedcba98           first block
    03e7 ffff          energy, hold-up
    c1 63 8001         temperature, life used, in flight
    `,
  )

  header(
    'MSETH of the status as it is now',
    MSETH_BYTES,
    blankMseth,
    readMseth,
    writeMseth,
    { ...blankMseth(), kind: STATUS_CURRENT, negative: true, form: FORM_BITMAP, entries: 9 },
    `
    18 02 40 00   version 1, 8 words; current; negative
    00000000 00000000 00000000
    0c 01 0009    4 KiB, a bitmap of nine
    00000000 00000000 00000000
    `,
  )

  header(
    'BSETH of an ASSOCIATE',
    BSETH_BYTES,
    blankBseth,
    readBseth,
    writeBseth,
    {
      ...{ version: 1, words: 4, commit: false, optIn: true, optOut: false, current: true },
      ...{ status: 0, blockSizeLog2: 16, leastLog2: 12, mostLog2: 30, alignmentLog2: 12 },
      ...{ criteria: false, budgetLog2: 0 },
      ...{ maximum: 1, threshold: 0x80000002, periodUs: 4095 * 2 ** 15, reserved: 0 },
    },
    `
    14 50 00 10   version 1, 4 words; opt in, status wanted; 64 KiB
    0c 1e 0c 00   least, most, alignment; one notification
    80000002      threshold
    ffff 0000     period
    `,
  )

  header(
    'BSETH of an ASSOCIATE with criteria (S1-M12)',
    BSETH_BYTES,
    blankBseth,
    readBseth,
    writeBseth,
    {
      ...{ ...blankBseth(), optIn: true, blockSizeLog2: 0, leastLog2: 14, mostLog2: 20 },
      ...{ criteria: true, budgetLog2: 16 },
    },
    `
    14 40 00 00   opt in; no wish
    0e 14 90 ff   least, most; criteria, 64 KiB of notices a second; 256 notifications
    00000000
    0000 0000
    `,
  )

  header(
    'BSETH of an answer',
    BSETH_BYTES,
    blankBseth,
    readBseth,
    writeBseth,
    { ...blankBseth(), commit: true, optOut: true, status: SIZE_OFFERED, periodUs: 1000 },
    `
    14 a0 01 0c   in force; opt out; offered
    00 00 00 ff   256 notifications
    00000000
    03e8 0000     1000 µs
    `,
  )

  header(
    'PFETH',
    PFETH_BYTES,
    blankPfeth,
    readPfeth,
    writePfeth,
    {
      ...{ version: 1, words: 2, op: PREFETCH_SEQUENTIAL, priority: 5, deadlineUs: 0xff01 },
      ...{ stride: 0x8002, reserved: 0 },
    },
    `
    12 03 a0 00   version 1, 2 words; sequential; priority 5
    ff01 8002     deadline, stride
    `,
  )

  test('a period is never said to be shorter than it is, nor much longer', () => {
    const bytes = new Uint8Array(BSETH_BYTES)
    const said = blankBseth()
    for (let us = 0; us <= 2 * PERIOD_US_MAX; us = us < 10_000 ? us + 1 : Math.ceil(us * 1.001)) {
      writeBseth(bytes, 0, { ...blankBseth(), periodUs: us })
      readBseth(said, bytes, 0)
      const most = Math.min(us, PERIOD_US_MAX)
      expect(said.periodUs).toBeGreaterThanOrEqual(most)
      expect(said.periodUs).toBeLessThanOrEqual(most * (1 + 1 / 2048) + 0.001)
    }
  })

  test('every reserved bit shows', () => {
    const shows = <Header extends { reserved: number }>(
      length: number,
      blank: () => Header,
      read: (into: Header, bytes: Uint8Array, at: number) => void,
      write: (bytes: Uint8Array, at: number, from: Header) => void,
    ): number[] => {
      const seen: number[] = []
      for (let bit = 0; bit < 8 * length; bit++) {
        const bytes = new Uint8Array(length)
        write(bytes, 0, blank())
        bytes[bit >> 3]! ^= 0x80 >> (bit & 7)
        const into = blank()
        read(into, bytes, 0)
        if (into.reserved !== 0) seen.push(bit)
      }
      return seen
    }
    const bits = (from: number, to: number): number[] =>
      Array.from({ length: to - from }, (_, i) => from + i)
    expect(shows(MSETH_BYTES, blankMseth, readMseth, writeMseth)).toEqual(bits(19, 24))
    expect(shows(BSETH_BYTES, blankBseth, readBseth, writeBseth)).toEqual([
      ...bits(12, 16),
      ...bits(112, 128),
    ])
    expect(shows(PFETH_BYTES, blankPfeth, readPfeth, writePfeth)).toEqual(bits(19, 32))
  })
})

describe('the header of PERSIST_QUERY', () => {
  header(
    'PQETH',
    PQETH_BYTES,
    blankPqeth,
    readPqeth,
    writePqeth,
    { ...blankPqeth(), operationHigh: 0x80000001, operationLow: 0xfffffffe },
    `
    13 00 0000   version 1, 3 words; nothing else
    80000001     operation id, high
    fffffffe     operation id, low
    `,
  )

  header(
    'PQETH of a batch',
    PQETH_BYTES,
    blankPqeth,
    readPqeth,
    writePqeth,
    { ...blankPqeth(), batch: true, batchId: 0xfedc, operationLow: 1 },
    `
    13 20 fedc   version 1, 3 words; a batch, its id
    00000000     operation id, high
    00000001     operation id, low
    `,
  )

  test('every reserved bit shows', () => {
    const reserved = (at: number, bits: number, batch = false): number => {
      const bytes = new Uint8Array(PQETH_BYTES)
      writePqeth(bytes, 0, { ...blankPqeth(), batch })
      bytes[at]! |= bits
      const pqeth = blankPqeth()
      readPqeth(pqeth, bytes, 0)
      return pqeth.reserved
    }
    for (let bit = 0; bit < 8; bit++) {
      const ofBatch = 1 << bit === 0x20
      for (const batch of [false, true]) expect(reserved(1, 1 << bit, batch) === 0).toBe(ofBatch)
      for (const at of [2, 3]) {
        // The id of a batch, where one is asked for.
        expect(reserved(at, 1 << bit)).not.toBe(0)
        expect(reserved(at, 1 << bit, true)).toBe(0)
      }
    }
    for (let at = 4; at < PQETH_BYTES; at++) expect(reserved(at, 0xff)).toBe(0)
  })
})

describe('the control call', () => {
  const refusal = {
    method: METHOD_RESPONSE,
    status: STATUS_REFUSED,
    transactionHigh: 0x89abcdef,
    transactionLow: 0xfedcba98,
    attribute: ATTRIBUTE_OPEN,
    modifier: 0x80000001,
    fault: FAULTS.length - 1,
  }

  const text = `
    01 09 01 81         base version 1, class of vendors, version 1, response
    001c 0000           refused
    89abcdef fedcba98   transaction id
    0013 0000           attribute: OPEN
    80000001            modifier
    50445243            PDRC
    01 ${hexOf(Uint8Array.of(refusal.fault))} 0000          version 1, fault
  `

  header('MAD', MAD_BODY, blankMad, readMad, writeMad, refusal, text)

  test('a datagram of ours is told from any other', () => {
    const mad = new Uint8Array(MAD_BYTES)
    mad.set(hex(text))
    expect(madFault(mad, 0, MAD_BYTES)).toBe(PASS)
    expect(madFault(mad, 0, MAD_BYTES - 4)).toBe(MANAGEMENT_FORM)
    expect(madFault(mad, 0, MAD_BYTES + 4)).toBe(MANAGEMENT_FORM)
    for (const at of [0, MAD_CLASS, 2, MAD_MAGIC, 25, 26, 27, 28]) {
      const other = mad.slice()
      other[at]! ^= 0x10
      expect(madFault(other, 0, MAD_BYTES)).toBe(MANAGEMENT_FORM)
    }
  })
})

describe('numbers on the wire', () => {
  test('a number comes back unsigned, whatever its highest bit', () => {
    const bytes = unwritten(12)
    for (const v of [0, 1, 0x7f, 0x80, 0xfffe, 0xffff]) {
      putU16(bytes, 3, v)
      expect(u16(bytes, 3)).toBe(v)
    }
    for (const v of [0, 1, 0x7fffff, 0x800000, 0xffffff]) {
      putU24(bytes, 3, v)
      expect(u24(bytes, 3)).toBe(v)
    }
    for (const v of [0, 1, 0x7fffffff, 0x80000000, 0xffffffff]) {
      putU32(bytes, 3, v)
      expect(u32(bytes, 3)).toBe(v)
      putU32(bytes, 3, v | 0)
      expect(u32(bytes, 3)).toBe(v)
    }
  })

  test('a number is written most significant byte first, and nothing beside it', () => {
    const bytes = unwritten(12)
    putU16(bytes, 0, 0x0102)
    putU24(bytes, 3, 0x030405)
    putU32(bytes, 7, 0x06070809)
    expect(hexOf(bytes)).toBe('0102a5030405a506070809a5')
  })
})
