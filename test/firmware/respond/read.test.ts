/**
 * READ: of records in every view, of copies as they stand, of plain bytes; and what a medium that
 * lost something answers (P1-28, P1-29, D-15; IBTA 9.7.5).
 */

import { describe, expect, test } from 'vitest'
import { checkCode } from '../../../boards/software/check-code.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  RC_READ_RESPONSE_FIRST,
  RC_READ_RESPONSE_LAST,
  RC_READ_RESPONSE_MIDDLE,
  RC_READ_RESPONSE_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { dataOf, persistFrames, readFrame, type Sent } from '../../support/cards/test-card.ts'
import { hexOf } from '../../support/wire/frames.ts'
import {
  contentOf,
  firstDifference,
  lines,
  NAK_ACCESS,
  NAK_INVALID,
  NAK_OPERATIONAL,
  PATH_MTUS,
  type Setting,
  setting,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

function persist({ card, region, qp }: Setting, slot: number, data: Uint8Array): void {
  card.serve(...persistFrames(qp, region, slot, data))
}

function poison({ card, region }: Setting, copy: number, slot: number, line = 0): void {
  card.nvdimm.poison(slotOffset(region, copy, slot) / 64 + line)
}

function imageOf(
  { card, region }: Setting,
  copy: number,
  slot: number,
  length: number,
): Uint8Array {
  const at = slotOffset(region, copy, slot)
  return card.nvdimm.live.slice(at, at + length)
}

/** Is the image whole by its own check code, as a one-sided reader finds out (D-15)? */
function wholeImage(image: Uint8Array, key: Uint8Array): boolean {
  const length = new Uint32Array(image.slice(0, 64).buffer)[7]!
  if (length > image.length - 64) return false
  const code = new Uint8Array(16)
  checkCode(code, 0, image, 16, 48 + length, key, 0)
  return hexOf(code) === hexOf(image.slice(0, 16)) && image.some((byte) => byte !== 0)
}

describe('views of a record', () => {
  test('view 0 is the data, followed by zeros up to the capacity', () => {
    const one = setting({ capacity: 200 })
    persist(one, 2, dataOf(150, 1))
    const expected = new Uint8Array(200)
    expected.set(dataOf(150, 1))
    expect(one.card.read(one.qp, one.region, 2, 0, 200)).toEqual(expected)
    for (const [offset, length] of [
      [0, 1],
      [1, 149],
      [149, 2],
      [150, 50],
      [199, 1],
      [64, 64],
    ] as const) {
      const part = one.card.read(one.qp, one.region, 2, 0, length, offset)
      expect(part).toEqual(expected.slice(offset, offset + length))
    }
  })

  test('view 1 is the settled image: the slot header, then the data', () => {
    const one = setting({ capacity: 200 })
    persist(one, 2, dataOf(150, 1))
    const image = one.card.read(one.qp, one.region, 2, 1, 64 + 192)!
    expect(hexOf(image.slice(0, 64 + 150))).toBe(hexOf(imageOf(one, 0, 2, 64 + 150)))
    expect(image.slice(64 + 150).every((byte) => byte === 0)).toBe(true)
    expect(wholeImage(image, one.region.key)).toBe(true)
  })

  test('P1-28, D-15: views 2 to 5 are the copies A to D as they stand', () => {
    const one = setting({ copies: 4, capacity: 100 })
    persist(one, 1, dataOf(100, 1))
    for (let c = 0; c < 4; c++) {
      const at = slotOffset(one.region, c, 1)
      one.card.nvdimm.live.fill(0x30 + c, at + 70, at + 80)
    }
    for (let c = 0; c < 4; c++) {
      const image = one.card.read(one.qp, one.region, 1, 2 + c, 192)!
      expect(hexOf(image)).toBe(hexOf(imageOf(one, c, 1, 192)))
    }
  })

  test.each([2, 3, 4])('a view that there is not is out of bounds: %i copies', (copies) => {
    for (let view = 0; view < 16; view++) {
      const one = setting({ copies })
      const sent = one.card.serve(readFrame(one.qp, one.region, 1, view * 2 ** 28, 8))
      expect(sent[0]!.syndrome).toBe(view < 2 + copies ? 0x1f : NAK_ACCESS)
    }
  })

  test('bounds are exact in every view', () => {
    const shape = { capacity: 100, slots: 4 }
    const ends = [100, 192, 192, 192]
    for (const [view, end] of ends.entries()) {
      const said = (slot: number, offset: number, length: number): number => {
        const one = setting(shape)
        const va = view * 2 ** 28 + offset
        return one.card.serve(readFrame(one.qp, one.region, slot, va, length))[0]!.syndrome
      }
      expect(said(3, 0, end)).toBe(0x1f)
      expect(said(3, end - 1, 1)).toBe(0x1f)
      expect(said(3, 0, end + 1)).toBe(NAK_ACCESS)
      expect(said(3, end, 1)).toBe(NAK_ACCESS)
      expect(said(3, 1, end)).toBe(NAK_ACCESS)
      expect(said(3, 2 ** 28 - 1, 1)).toBe(NAK_ACCESS)
      expect(said(4, 0, 1)).toBe(NAK_ACCESS)
      expect(said(2 ** 32 - 1, 0, 1)).toBe(NAK_ACCESS)
      expect(said(2 ** 31, 0, 1)).toBe(NAK_ACCESS)
      expect(said(3, 0, 2 ** 31)).toBe(NAK_ACCESS)
      expect(said(3, 0, 2 ** 31 + 1)).toBe(NAK_INVALID)
      expect(said(3, 0, 2 ** 32 - 1)).toBe(NAK_INVALID)
    }
  })
})

describe('responses', () => {
  function opcodesOf(packets: number): number[] {
    if (packets === 1) return [RC_READ_RESPONSE_ONLY]
    const middles = Array.from({ length: packets - 2 }, () => RC_READ_RESPONSE_MIDDLE)
    return [RC_READ_RESPONSE_FIRST, ...middles, RC_READ_RESPONSE_LAST]
  }

  test.each(PATH_MTUS)('a READ of any length is answered in packets of the path MTU %i', (mtu) => {
    const one = setting({ capacity: 65536, slots: 1 }, mtu)
    const data = dataOf(65536, mtu)
    persistFrames(one.qp, one.region, 0, data).forEach((frame) => {
      one.card.serve(frame)
    })
    const lengths = [
      1,
      2,
      3,
      mtu - 1,
      mtu,
      mtu + 1,
      2 * mtu - 1,
      2 * mtu,
      2 * mtu + 1,
      3 * mtu,
      65536,
    ]
    for (const length of lengths) {
      const base = one.qp.psn
      const offset = 65536 - length
      const sent = one.card.serve(readFrame(one.qp, one.region, 0, offset, length))
      const packets = Math.ceil(length / mtu)
      expect(sent.map((frame) => frame.opcode)).toEqual(opcodesOf(packets))
      expect(sent.map((frame) => frame.psn)).toEqual(sent.map((_, i) => (base + i) & 0xffffff))
      const got = Buffer.concat(sent.map((frame) => frame.payload))
      expect(got.equals(data.subarray(offset))).toBe(true)
      for (const { packet } of sent) expect(packet.padBytes).toBe(-packet.payloadLength & 3)
    }
  })

  test('a READ of nothing names nothing: it is answered whatever its key and address', () => {
    const one = setting()
    for (const [rkey, slot] of [
      [one.region.rkey, 0],
      [0, 0],
      [0xffffffff, 0xffffffff],
    ] as const) {
      const base = one.qp.psn
      const sent = one.card.serve(readFrame(one.qp, rkey, slot, 0xffffffff, 0))
      expect(lines(sent, base)).toEqual(['READ 0 only: 0 B'])
    }
  })

  test('a READ sees every record that its own burst wrote before it', () => {
    const one = setting()
    const read = (): Uint8Array => readFrame(one.qp, one.region, 1, 0, 64)
    const frames: Uint8Array[] = []
    for (let i = 0; i < 8; i++) {
      frames.push(...persistFrames(one.qp, one.region, 1, dataOf(64, i)))
    }
    frames.push(read())
    const sent = one.card.serve(...frames)
    expect(hexOf(sent.at(-1)!.payload)).toBe(hexOf(dataOf(64, 7)))
  })

  test('a READ sees every WRITE that its own burst brought before it', () => {
    const one = setting()
    const bytes = one.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    const sent = one.card.serve(
      ...writeFrames(one.qp, bytes, 0, dataOf(64, 1)),
      ...writeFrames(one.qp, bytes, 8, dataOf(8, 2)),
      readFrame(one.qp, bytes, 0, 0, 64),
    )
    const expected = dataOf(64, 1)
    expected.set(dataOf(8, 2), 8)
    expect(hexOf(sent.at(-1)!.payload)).toBe(hexOf(expected))
  })

  test('several READs of a burst are answered in their order, of every queue pair', () => {
    const one = setting({ capacity: 2000 }, 256)
    const other = one.card.connect(1024)
    persist(one, 1, dataOf(2000, 1))
    const bases = [one.qp.psn, other.psn]
    const frames: Uint8Array[] = []
    for (let i = 0; i < 6; i++) {
      frames.push(readFrame(i % 2 === 0 ? one.qp : other, one.region.rkey, 1, i, 1500))
    }
    const sent = one.card.serve(...frames)
    for (const [i, peer] of [one.qp.peer, other.peer].entries()) {
      const own = sent.filter((frame) => frame.packet.destQp === peer)
      expect(own.map((frame) => (frame.psn - bases[i]!) & 0xffffff)).toEqual(own.map((_, n) => n))
    }
  })

  test('a READ stores nothing', () => {
    const one = setting()
    persist(one, 1, dataOf(64, 1))
    one.card.idle()
    const before = contentOf(one.card)
    const stored = one.card.nvdimm.bytesStored
    for (let view = 0; view < 4; view++) one.card.read(one.qp, one.region, 1, view, 64)
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(one.card.nvdimm.bytesStored).toBe(stored)
  })
})

describe('a READ that is repeated', () => {
  test('is answered again, from what is there now', () => {
    const one = setting({ capacity: 600 }, 256)
    persist(one, 1, dataOf(600, 1))
    const base = one.qp.psn
    const read = readFrame(one.qp, one.region, 1, 0, 600)
    const first = one.card.serve(read)
    persist(one, 1, dataOf(600, 2))
    const again = one.card.serve(read)
    expect(lines(again, base)).toEqual(lines(first, base))
    expect(hexOf(Buffer.concat(again.map((frame) => frame.payload)))).toBe(hexOf(dataOf(600, 2)))
  })

  test('may ask for a part of what it asked for first', () => {
    const one = setting({ capacity: 600 }, 256)
    persist(one, 1, dataOf(600, 1))
    const { psn } = one.qp
    readFrame(one.qp, one.region, 1, 0, 600)
    one.card.serve(readFrame({ ...one.qp, psn }, one.region, 1, 0, 600))
    const sent = one.card.serve(readFrame({ ...one.qp, psn: psn + 1 }, one.region, 1, 256, 344))
    expect(lines(sent, psn)).toEqual(['READ 1: 256 B', 'READ 2: 88 B'])
    expect(hexOf(sent[0]!.payload)).toBe(hexOf(dataOf(600, 1).slice(256, 512)))
  })

  test('is passed over in silence if it asks for more than what was accepted', () => {
    const one = setting({ capacity: 600 }, 256)
    const { psn } = one.qp
    one.card.serve(readFrame(one.qp, one.region, 1, 0, 600))
    const again = (rkey: number, length: number): Sent[] =>
      one.card.serve(readFrame({ ...one.qp, psn }, rkey, 1, 0, length))
    expect(again(one.region.rkey, 4 * 256)).toEqual([])
    expect(again(one.region.rkey, 601)).toEqual([])
    expect(again(one.region.rkey ^ 64, 8)).toEqual([])
    expect(again(one.region.rkey, 2 ** 32 - 1)).toEqual([])
    expect(again(one.region.rkey, 600).length).toBe(3)
    // Two packets, the second of which nobody has asked for yet.
    const beyond = readFrame({ ...one.qp, psn: psn + 2 }, one.region, 1, 0, 300)
    expect(one.card.serve(beyond)).toEqual([])
  })
})

describe('what the medium lost', () => {
  test('D-15: a record is served from a copy that is whole, whichever it is', () => {
    for (const bad of [0, 1, 2]) {
      for (const line of [0, 1, 2]) {
        const one = setting({ copies: 3, capacity: 128 })
        persist(one, 1, dataOf(128, 1))
        poison(one, bad, 1, line)
        poison(one, (bad + 1) % 3, 1, (line + 1) % 3)
        expect(hexOf(one.card.read(one.qp, one.region, 1, 0, 128)!)).toBe(hexOf(dataOf(128, 1)))
        expect(wholeImage(one.card.read(one.qp, one.region, 1, 1, 192)!, one.region.key)).toBe(true)
      }
    }
  })

  test('D-15: a copy that decayed is not served, whichever byte of it it is', () => {
    for (let at = 0; at < 64 + 100; at++) {
      const one = setting({ capacity: 100 })
      persist(one, 1, dataOf(100, 1))
      const byte = slotOffset(one.region, 0, 1) + at
      one.card.nvdimm.live[byte] = one.card.nvdimm.live[byte]! ^ 0x10
      expect(hexOf(one.card.read(one.qp, one.region, 1, 0, 100)!)).toBe(hexOf(dataOf(100, 1)))
    }
  })

  test('P1-24, D-14: a lost record fails the READ of its data, and shows an all-zero image', () => {
    const one = setting({ capacity: 100 })
    persist(one, 1, dataOf(100, 1))
    poison(one, 0, 1)
    poison(one, 1, 1, 1)
    const image = one.card.read(one.qp, one.region, 1, 1, 192)
    expect(image).toEqual(new Uint8Array(192))
    const base = one.qp.psn
    const sent = one.card.serve(readFrame(one.qp, one.region, 1, 0, 100))
    expect(lines(sent, base)).toEqual(['NAK 0x63 0'])
    expect(one.card.counter('UNSETTLED_READ')).toBe(1)
    expect(one.card.serve(readFrame(one.qp, one.region, 2, 0, 8))).toEqual([])
  })

  test('D-15: the view of a copy with a media error shows zeros, the others their bytes', () => {
    const one = setting({ capacity: 100 })
    persist(one, 1, dataOf(100, 1))
    for (const line of [0, 1, 2]) {
      poison(one, 0, 1, line)
      expect(one.card.read(one.qp, one.region, 1, 2, 192)).toEqual(new Uint8Array(192))
      const b = one.card.read(one.qp, one.region, 1, 3, 192)!
      expect(hexOf(b)).toBe(hexOf(imageOf(one, 1, 1, 192)))
      expect(wholeImage(b, one.region.key)).toBe(true)
    }
  })

  test('P1-29: who sees that copies differ can choose by their codes; nothing is repaired', () => {
    const one = setting({ capacity: 64 })
    persist(one, 1, dataOf(64, 1))
    one.card.idle()
    const at = slotOffset(one.region, 0, 1)
    one.card.nvdimm.live.fill(0xee, at + 64, at + 80)
    const before = contentOf(one.card)
    const images = [2, 3].map((view) => one.card.read(one.qp, one.region, 1, view, 128)!)
    expect(images.map((image) => wholeImage(image, one.region.key))).toEqual([false, true])
    expect(hexOf(images[1]!.slice(64))).toBe(hexOf(dataOf(64, 1)))
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })

  test('a READ of plain bytes with a media error draws NAK 0x63, and no byte of it', () => {
    const one = setting({}, 256)
    const bytes = one.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 8192 })
    const at = slotOffset(one.region, 2, 0)
    one.card.nvdimm.poison((at + 4096) / 64)
    for (const [offset, length, bad] of [
      [0, 4096, false],
      [4160, 256, false],
      [4095, 1, false],
      [4095, 2, true],
      [4159, 1, true],
      [4160, 1, false],
      [0, 8192, true],
    ] as const) {
      const qp = one.card.connect(256)
      const sent = one.card.serve(readFrame(qp, bytes, 0, offset, length))
      if (bad) expect(sent.map((frame) => frame.syndrome)).toEqual([NAK_OPERATIONAL])
      else expect(sent.length).toBe(Math.ceil(length / 256))
    }
    expect(one.card.counter('UNREADABLE')).toBe(3)
  })
})

test('what is behind a READ that was refused is not answered, whatever it reads', () => {
  const one = setting()
  const { card, qp, region } = one
  persist(one, 0, dataOf(64, 1))
  const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
  const { psn } = qp
  expect(card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 7)))).toHaveLength(1)
  const content = Buffer.from(card.nvdimm.live.buffer, card.nvdimm.live.byteOffset)
  const at = content.lastIndexOf(Buffer.from(dataOf(64, 7)))
  card.nvdimm.poison(at / 64)
  const first = readFrame(qp, bytes, 0, 0, 64)
  const second = readFrame(qp, region, 0, 0, 64)
  expect(lines(card.serve(first, second), psn)).toEqual(['NAK 0x63 1'])
  expect(card.read(card.connect(), region, 0, 0, 64)).toEqual(dataOf(64, 1))
})
