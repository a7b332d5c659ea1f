/**
 * WRITE_PERSIST from its packets to the receipt: who may, what is stored and when, what is said of
 * it. What a power cut leaves is the subject of other tests.
 */

import { describe, expect, test } from 'vitest'
import { DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { checkCode } from '../../../boards/software/check-code.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  COPY,
  COPY_CLEAN,
  FENCE,
  FLUSH,
  LENGTH,
  NVDIMM_SPACE,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import {
  BATCH_TIMEOUT_US,
  BATCHES,
  RECEIVE_BYTES,
  RECEIVES,
  STAGING_TIMEOUT_US,
} from '../../../firmware/board/limits.ts'
import { PHASE_A, PHASE_B } from '../../../firmware/medium/lane.ts'
import { PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import { DATA_AT, LANES_AT, OPERATIONS_AT } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import type { Pweth } from '../../../firmware/wire/persist.ts'
import type { Reth } from '../../../firmware/wire/reth.ts'
import { batchFrames, IN_ORDER } from '../../support/cards/batch-card.ts'
import { atFence } from '../../support/cards/fences.ts'
import { MessageCard } from '../../support/cards/message-card.ts'
import { believe, placed, restarted, tellAgent } from '../../support/cards/placed.ts'
import {
  dataOf,
  type PersistOptions,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { OnDemandHost } from '../../support/residency/on-demand.ts'
import { associateFrame } from '../../support/residency/residency-asks.ts'
import { frameOf, hexOf, writeIcrc } from '../../support/wire/frames.ts'
import {
  carriedFrames,
  contentOf,
  fetchAddFrame,
  firstDifference,
  flushFrame,
  lines,
  PATH_MTUS,
  type Setting,
  sendFrames,
  setting,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

/** Bytes of one copy of a slot, as they lie in the part. */
function imageOf({ card, region }: Setting, copy: number, slot: number): Uint8Array {
  const at = slotOffset(region, copy, slot)
  return card.nvdimm.live.slice(at, at + region.stride)
}

/** Serves one record; the answers as lines. */
function persist(
  { card, region, qp }: Setting,
  slot: number,
  data: Uint8Array,
  options: PersistOptions = {},
): string[] {
  const base = qp.psn
  return lines(card.serve(...persistFrames(qp, region, slot, data, options)), base)
}

/** One WRITE_PERSIST Only with any headers. */
function only(
  { region, qp }: Setting,
  pweth: Partial<Pweth>,
  reth: Partial<Reth> = {},
  payload: Uint8Array = dataOf(64, 1),
): Uint8Array {
  return frameOf({
    bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
    reth: { rkey: region.rkey, length: payload.length, ...reth },
    pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 1, ...pweth },
    payload,
  })
}

const DURABLE = ['ACK 0', 'PERSIST_ACK 0: 0-0 durable 2 records 1']

describe('a fresh region', () => {
  test.each([2, 3, 4])('P1-1: all %i copies of every record are the same and valid', (copies) => {
    const one = setting({ copies, slots: 5, capacity: 200 })
    for (let slot = 0; slot < 5; slot++) {
      const first = imageOf(one, 0, slot)
      for (let c = 1; c < copies; c++) expect(hexOf(imageOf(one, c, slot))).toBe(hexOf(first))
      const code = new Uint8Array(16)
      checkCode(code, 0, first, 16, 48, one.region.key, 0)
      expect(hexOf(first.slice(0, 16))).toBe(hexOf(code))
    }
    const body = one.card.scan(one.region.id)
    expect([body[mad.SCAN_REPAIRED + 3], body[mad.SCAN_UNSETTLED + 3]]).toEqual([0, 0])
  })

  test('P1-1: the copies of a record lie at different addresses, and no two share a line', () => {
    const one = setting({ copies: 4, slots: 3, capacity: 65 })
    const starts = [0, 1, 2, 3].flatMap((c) => [0, 1, 2].map((s) => slotOffset(one.region, c, s)))
    expect(one.region.stride).toBe(64 + 128)
    for (const a of starts) {
      expect(a % 64).toBe(0)
      for (const b of starts) if (a !== b) expect(Math.abs(a - b)).toBeGreaterThanOrEqual(192)
    }
  })

  test('P1-1, D-1: a region of fixed length refuses another length, media untouched', () => {
    const one = setting({ flags: mad.REGION_FIXED_LENGTH, capacity: 100 })
    const before = contentOf(one.card)
    for (const length of [0, 1, 99]) {
      expect(persist(one, 1, dataOf(length, 1))).toEqual([
        'PERSIST_ACK 0: 0-0 FIXED_LENGTH records 1',
        'ACK 0',
      ])
    }
    expect(persist(one, 1, dataOf(101, 1))[0]).toContain('RECORD_LENGTH')
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(persist(one, 1, dataOf(100, 1))).toEqual(DURABLE)
    expect(hexOf(one.card.read(one.qp, one.region, 1, 0, 100)!)).toBe(hexOf(dataOf(100, 1)))
  })

  test('D-1: a record has any length up to the capacity, and reads as zeros behind its end', () => {
    const one = setting({ capacity: 130 })
    for (const length of [130, 129, 128, 65, 64, 63, 1, 0, 130]) {
      expect(persist(one, 2, dataOf(length, length))).toEqual(DURABLE)
      const expected = new Uint8Array(130)
      expected.set(dataOf(length, length))
      expect(hexOf(one.card.read(one.qp, one.region, 2, 0, 130)!)).toBe(hexOf(expected))
      expect(hexOf(imageOf(one, 0, 2).slice(0, 64 + length))).toBe(
        hexOf(imageOf(one, 1, 2).slice(0, 64 + length)),
      )
    }
    expect(persist(one, 2, dataOf(131, 1))[0]).toContain('RECORD_LENGTH')
  })
})

describe('the copy and its check code', () => {
  test('D-1: behind the data there are zeros, up to the end of its last line', () => {
    const one = setting({ capacity: 130, slots: 1 })
    for (const length of [1, 63, 64, 65, 127, 129]) {
      persist(one, 0, dataOf(length, length))
      const lines = Math.ceil(length / 64)
      const rest = imageOf(one, 1, 0).slice(64 + length, 64 + 64 * lines)
      expect(rest).toEqual(new Uint8Array(64 * lines - length))
    }
    // Of a message of several packets, what was gathered before it stands behind its end.
    const long = setting({ capacity: 320, slots: 1 }, 256)
    for (const length of [320, 319]) persist(long, 0, dataOf(length, length))
    expect(imageOf(long, 1, 0)[64 + 319]).toBe(0)
  })

  test('P1-2, D-3: the code alone proves a copy: over place, length, sequence and data', () => {
    const one = setting({ capacity: 100 })
    persist(one, 3, dataOf(77, 1), { operation: 0x1234, operationHigh: 9 })
    for (const c of [0, 1]) {
      const image = imageOf(one, c, 3)
      const code = new Uint8Array(16)
      checkCode(code, 0, image, 16, 64 + 77 - 16, one.region.key, 0)
      expect(hexOf(image.slice(0, 16))).toBe(hexOf(code))
      const words = new Uint32Array(image.buffer)
      const [magic, id, record, length] = words.slice(4, 8)
      expect([magic, id, record, length]).toEqual([0x5044534c, one.region.id, 3, 77])
      expect([...words.slice(10, 14)]).toEqual([7, 0, 0x1234, 9])
      expect(hexOf(image.slice(64, 64 + 77))).toBe(hexOf(dataOf(77, 1)))
      for (let i = 16; i < 64 + 77; i++) {
        const torn = image.slice()
        torn[i] = torn[i]! ^ 1
        checkCode(code, 0, torn, 16, 64 + 77 - 16, one.region.key, 0)
        expect(hexOf(code)).not.toBe(hexOf(image.slice(0, 16)))
      }
    }
  })

  test('D-3: each region has its own key, and each later write a later sequence', () => {
    const one = setting()
    const other = one.card.provision({ name: 'other' })
    expect(hexOf(other.key)).not.toBe(hexOf(one.region.key))
    const sequence = (): bigint => new BigUint64Array(imageOf(one, 0, 1).buffer)[4]!
    let before = sequence()
    for (let i = 0; i < 5; i++) {
      persist(one, 1, dataOf(10, i))
      expect(sequence() > before).toBe(true)
      before = sequence()
    }
  })
})

/** What one command list did, as far as the order of stores is concerned. */
type Event = 'lanes' | 'phase' | 'table' | 'fence' | 'ack' | 'persist ack' | `copy ${number}`

/** Watches the part while `serve` runs. */
function watched(one: Setting, serve: () => void): Event[] {
  const events: Event[] = []
  one.card.machine.observe({
    onCommand: (_, op, words, at) => {
      const to = words[at + TO]! - NVDIMM_SPACE
      const length = words[at + LENGTH]!
      if (op === FENCE) events.push('fence')
      else if (op === TRANSMIT) events.push(length > 80 ? 'persist ack' : 'ack')
      else if (![COPY, COPY_CLEAN, FLUSH].includes(op) || to < 0) return
      else if (to >= OPERATIONS_AT && to < DATA_AT) events.push('table')
      else if (to < DATA_AT) events.push(to >= LANES_AT && length === 8 ? 'phase' : 'lanes')
      else events.push(`copy ${areaOf(one.region, to)}`)
    },
  })
  serve()
  one.card.machine.observe({})
  return events
}

function areaOf(region: TestRegion, to: number): number {
  for (let c = 0; ; c++) if (to < slotOffset(region, c + 1, 0)) return c
}

/** Without repetitions. */
function shortened(events: readonly Event[]): Event[] {
  return events.filter((event, i) => event !== events[i - 1])
}

describe('the order on the persistence log', () => {
  test('P1-9, P1-10: copy B is stored only behind the fence of copy A', () => {
    const one = setting()
    const events = watched(one, () => persist(one, 1, dataOf(64, 1)))
    expect(shortened(events)).toEqual([
      ...['ack', 'lanes', 'fence', 'copy 0', 'fence', 'phase', 'table', 'fence'],
      ...['copy 1', 'table', 'fence', 'persist ack'],
    ])
  })

  test('P1-9, X-1, D-4: the acknowledgement of each level stands behind its fence', () => {
    const behind = (copies: number, wait: number): Event[] => {
      const one = setting({ copies })
      const events = watched(one, () => persist(one, 1, dataOf(64, 1), { wait }))
      return shortened(events).slice(1, shortened(events).indexOf('persist ack'))
    }
    const first: Event[] = ['lanes', 'fence', 'copy 0', 'fence', 'phase', 'table', 'fence']
    const second: Event[] = [...first, 'copy 1', 'table', 'fence']
    expect(behind(2, 1)).toEqual(first)
    expect(behind(2, 2)).toEqual(second)
    expect(behind(3, 2)).toEqual(second)
    expect(behind(3, 3)).toEqual([...second, 'copy 2', 'fence'])
    expect(behind(4, 4)).toEqual([...second, 'copy 2', 'fence', 'copy 3', 'fence'])
  })

  test('P1-30: three copies are written in order, each behind the fence of the one before', () => {
    const one = setting({ copies: 3 })
    const events = shortened(watched(one, () => persist(one, 0, dataOf(64, 1), { wait: 3 })))
    expect(events.filter((event) => event.startsWith('copy') || event === 'fence')).toEqual([
      ...['fence', 'copy 0', 'fence', 'fence', 'copy 1', 'fence', 'copy 2', 'fence'],
    ])
    for (let c = 0; c < 3; c++) {
      expect(hexOf(imageOf(one, c, 0).slice(64, 128))).toBe(hexOf(dataOf(64, 1)))
    }
  })

  test('P1-12: the next write of a record waits until the last is durable in every copy', () => {
    const one = setting()
    const frames = [1, 2, 3].flatMap((i) => persistFrames(one.qp, one.region, 4, dataOf(64, i)))
    const events = watched(one, () => one.card.serve(...frames))
    const stores = shortened(events.filter((event) => event.startsWith('copy')))
    expect(stores).toEqual(['copy 0', 'copy 1', 'copy 0', 'copy 1', 'copy 0', 'copy 1'])
    expect(events.filter((event) => event === 'fence').length).toBe(12)
    expect(hexOf(imageOf(one, 0, 4).slice(64))).toBe(hexOf(dataOf(64, 3)))
  })

  test('D-2: the lane says A before the fence of A, and B behind it', () => {
    const one = setting()
    const phases: number[] = []
    one.card.machine.observe({
      onCommand: (_, op) => {
        if (op === FENCE) phases.push(one.card.nvdimm.live[LANES_AT]!)
      },
    })
    persist(one, 1, dataOf(64, 1))
    expect(phases).toEqual([PHASE_A, PHASE_A, PHASE_B, PHASE_B])
  })

  test('D-7: no byte of the part changes before the last packet of a message is there', () => {
    for (const mtu of PATH_MTUS) {
      const one = setting({ capacity: 16384 }, mtu)
      persist(one, 1, dataOf(16384, 1))
      one.card.idle()
      const frames = persistFrames(
        one.qp,
        one.region,
        1,
        dataOf(5 * mtu < 16384 ? 5 * mtu - 1 : 16384, 2),
      )
      const before = contentOf(one.card)
      for (const frame of frames.slice(0, -1)) {
        expect(one.card.serve(frame)).toEqual([])
        expect(firstDifference(contentOf(one.card), before)).toBe(-1)
      }
      expect(persistAcks(one.card.serve(frames.at(-1)!)).length).toBe(1)
    }
  })

  test('D-7, N4: a message that lacks any one of its packets stores nothing', () => {
    const data = dataOf(1500, 2)
    for (let lost = 0; lost < 6; lost++) {
      const one = setting({ capacity: 1500 }, 256)
      const before = contentOf(one.card)
      const frames = persistFrames(one.qp, one.region, 1, data)
      const sent = one.card.serve(...frames.filter((_, i) => i !== lost))
      expect(persistAcks(sent)).toEqual([])
      expect(firstDifference(contentOf(one.card), before), `without packet ${lost}`).toBe(-1)
      // The rest, sent again from the missing packet on, completes it.
      const again = one.card.serve(...frames.slice(lost))
      expect(persistAcks(again).map((paeth) => paeth.status)).toEqual([0])
      expect(hexOf(one.card.read(one.qp, one.region, 1, 0, 1500)!)).toBe(hexOf(data))
    }
  })
})

describe('the forms of the request', () => {
  const forms = [
    { form: 'by slot', addressed: false },
    { form: 'with every address', addressed: true },
  ]

  test('P1-5, P1-7, P1-8: one request carries one copy, and the card makes all of them', () => {
    for (const copies of [2, 3, 4]) {
      const one = setting({ copies })
      const frames = persistFrames(one.qp, one.region, 1, dataOf(60, 1), { wait: copies })
      expect(frames.length).toBe(1)
      expect(persistAcks(one.card.serve(...frames))[0]!.copies).toBe(copies)
      for (let c = 1; c < copies; c++) {
        expect(hexOf(imageOf(one, c, 1))).toBe(hexOf(imageOf(one, 0, 1)))
      }
    }
  })

  test.each(forms)('P1-6, P1-30, D-8: all copies in one request, $form', ({ addressed }) => {
    for (const copies of [2, 3, 4]) {
      for (const length of [0, 1, 64, 100]) {
        const one = setting({ copies, capacity: 100 })
        const data = dataOf(length, length)
        const carried = Array.from({ length: copies }, () => data)
        const frames = carriedFrames(one.qp, one.region, 5, carried, { addressed })
        expect(frames.length).toBe(1)
        expect(persistAcks(one.card.serve(...frames)).map((paeth) => paeth.status)).toEqual([0])
        expect(hexOf(one.card.read(one.qp, one.region, 5, 0, length)!)).toBe(hexOf(data))
        for (let c = 0; c < copies; c++) {
          expect(hexOf(imageOf(one, c, 5).slice(64, 64 + length))).toBe(hexOf(data))
          expect(hexOf(imageOf(one, c, 5))).toBe(hexOf(imageOf(one, 0, 5)))
        }
      }
    }
  })

  test.each(forms)(
    'P1-6: both copies in several packets, $form, at every path MTU',
    ({ addressed }) => {
      for (const mtu of PATH_MTUS) {
        const one = setting({ copies: 3, capacity: 5000 }, mtu)
        const data = dataOf(5000, mtu)
        const base = one.qp.psn
        const frames = carriedFrames(one.qp, one.region, 1, [data, data, data], { addressed })
        const last = frames.length - 1
        expect(lines(one.card.serve(...frames), base)).toEqual([
          `ACK ${last}`,
          `PERSIST_ACK ${last}: ${last}-${last} durable 2 records 1`,
        ])
        expect(hexOf(one.card.read(one.qp, one.region, 1, 0, 5000)!)).toBe(hexOf(data))
      }
    },
  )

  test.each(forms)('D-8: copies that differ in any byte are refused, $form', ({ addressed }) => {
    const one = setting({ copies: 3, capacity: 100 })
    const before = contentOf(one.card)
    const data = dataOf(100, 1)
    for (let at = 0; at < 200; at++) {
      const copies = [data, data.slice(), data.slice()]
      const copy = copies[1 + Math.floor(at / 100)]!
      copy[at % 100] = copy[at % 100]! ^ (1 << (at & 7))
      const base = one.qp.psn
      const sent = one.card.serve(...carriedFrames(one.qp, one.region, 1, copies, { addressed }))
      expect(lines(sent, base)).toEqual(['PERSIST_ACK 0: 0-0 COPIES_DIFFER records 1', 'ACK 0'])
    }
    expect(one.card.counter('COPIES_DIFFER')).toBe(200)
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })

  test('D-8: copies that differ in a message of several packets are refused', () => {
    const one = setting({ capacity: 1000 }, 256)
    const before = contentOf(one.card)
    const data = dataOf(1000, 1)
    for (const at of [0, 255, 256, 999]) {
      const other = data.slice()
      other[at] = other[at]! ^ 0x80
      const sent = one.card.serve(...carriedFrames(one.qp, one.region, 1, [data, other]))
      expect(lines(sent, one.qp.psn)[0]).toContain('COPIES_DIFFER')
    }
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })

  const wrong: { name: string; extension: Partial<Reth> | ((r: TestRegion) => Partial<Reth>) }[] = [
    { name: 'another key', extension: (r) => ({ rkey: (r.rkey ^ 0x100) >>> 0 }) },
    { name: 'no key', extension: { rkey: 0 } },
    { name: 'another slot', extension: { vaHigh: 6 } },
    { name: 'the address of copy A', extension: { vaLow: 2 * 2 ** 28 } },
    { name: 'the address of a copy that there is not', extension: { vaLow: 4 * 2 ** 28 } },
    { name: 'the address of the data', extension: { vaLow: 0 } },
    { name: 'an offset', extension: { vaLow: 3 * 2 ** 28 + 64 } },
    { name: 'another length', extension: { length: 63 } },
    { name: 'a length near 2^32', extension: { length: 2 ** 32 - 1 } },
  ]

  test.each(wrong)(
    'P1-3: a second copy with $name is refused, and neither slot is written',
    ({ extension }) => {
      const one = setting()
      const before = contentOf(one.card)
      const parts = typeof extension === 'function' ? extension(one.region) : extension
      const options = { addressed: true, extensions: [parts] }
      const base = one.qp.psn
      const copies = [dataOf(64, 1), dataOf(64, 1)]
      const sent = one.card.serve(...carriedFrames(one.qp, one.region, 5, copies, options))
      expect(lines(sent, base)).toEqual(['NAK 0x62 0'])
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    },
  )

  test('P1-3: the key of another region or domain is no permission for the second copy', () => {
    for (const domain of [0, 5]) {
      const one = setting()
      const other = one.card.provision({ name: 'other', domain })
      const before = contentOf(one.card)
      const options = { addressed: true, extensions: [{ rkey: other.rkey }] }
      const copies = [dataOf(64, 1), dataOf(64, 1)]
      const sent = one.card.serve(...carriedFrames(one.qp, one.region, 5, copies, options))
      expect(sent.map((frame) => frame.syndrome)).toEqual([0x62])
      expect(one.card.counter(domain === 0 ? 'BOUNDS' : 'PROTECTION_DOMAIN')).toBe(1)
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    }
  })

  test('P1-3: the first copy must be named as such too', () => {
    for (const slotView of [0, 1, 3, 15]) {
      const one = setting()
      const options = { addressed: true, slotView }
      const copies = [dataOf(64, 1), dataOf(64, 1)]
      const sent = one.card.serve(...carriedFrames(one.qp, one.region, 5, copies, options))
      expect(sent.map((frame) => frame.syndrome)).toEqual([0x62])
    }
  })

  test('a form that is not known draws NAK 0x61 and stores nothing', () => {
    const forms: [string, Partial<Pweth>, Uint8Array?][] = [
      ['another version', { version: 2 }],
      ['version 0', { version: 0 }],
      ['another length of the header', { words: 5 }],
      ['a condition of a batch that is not known', { batch: true, condition: 3 }],
      ['fields of a batch without one', { batchId: 1 }],
      ['a condition without a batch', { condition: 1 }],
      ['further copies, not carried', { furtherCopies: 1 }],
      ['no slot, not carried', { slotAddressed: false }],
      ['carried, with no further copy', { carried: true }],
      ['carried, with too many copies', { carried: true, furtherCopies: 2 }, dataOf(63, 1)],
    ]
    for (const [name, pweth, payload] of forms) {
      const one = setting()
      const before = contentOf(one.card)
      const length = payload === undefined ? 64 : payload.length / 3
      const sent = one.card.serve(only(one, pweth, { length }, payload))
      expect(lines(sent, one.qp.psn), name).toEqual(['NAK 0x61 0'])
      expect(one.card.counter('PERSIST_HEADER'), name).toBe(1)
      expect(firstDifference(contentOf(one.card), before), name).toBe(-1)
    }
  })

  test('reserved bits of the header draw NAK 0x61', () => {
    for (const [byte, bit] of [
      [3, 0x04],
      [3, 0x08],
      [3, 0x10],
    ] as const) {
      const one = setting()
      const frame = only(one, {})
      const pwethAt = 14 + 20 + 8 + 12 + 16
      frame[pwethAt + byte] = frame[pwethAt + byte]! | bit
      writeIcrc(frame)
      expect(lines(one.card.serve(frame), one.qp.psn)).toEqual(['NAK 0x61 0'])
    }
  })

  test('an urgent record, and one of any priority, is served like every other', () => {
    for (const priority of [0, 3, 7]) {
      const one = setting()
      const sent = one.card.serve(only(one, { urgent: true, priority }))
      expect(lines(sent, one.qp.psn)).toEqual(DURABLE)
    }
  })
})

/** Serves records, the part failing at that fence of the commit. */
function failAt(one: Setting, status: string, fence: number, frames: Uint8Array[]): Sent[] {
  atFence(one.card.machine, fence, () => {
    if (status === 'FLUSH') one.card.nvdimm.fencesToFail = 1
    else one.card.nvdimm.armed = false
  })
  const sent = one.card.serve(...frames)
  one.card.machine.observe({})
  return sent
}

describe('refusals are typed (X-7)', () => {
  /** How each fault of storage, and of the connection, comes about. */
  type Provoke = () => { one: Setting; sent: Sent[] }

  const served = (one: Setting, ...frames: Uint8Array[]): ReturnType<Provoke> => ({
    one,
    sent: one.card.serve(...frames),
  })

  const lost = (one: Setting): Setting => {
    one.card.nvdimm.poison(slotOffset(one.region, 0, 0) / 64)
    one.card.nvdimm.poison(slotOffset(one.region, 1, 0) / 64)
    one.card.scan(one.region.id)
    return one
  }

  const bytesRegion = (one: Setting): TestRegion =>
    one.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })

  const RECORDS = [1, 2].map((slot) => ({ slot, data: dataOf(8, slot) }))

  const PROVOKED: Readonly<Record<string, Provoke>> = {
    SEQUENCE: () => {
      const one = setting()
      return served(
        one,
        ...persistFrames(one.qp, one.region, 0, dataOf(8, 1), { psn: one.qp.psn + 1 }),
      )
    },
    NOT_READY: () => {
      const one = setting()
      for (let i = 0; i < RECEIVES / 2; i++) {
        one.card.serve(sendFrames(one.card.connect(256), dataOf(300, i))[0]!)
      }
      return served(one, ...sendFrames({ ...one.qp }, dataOf(8, 1)))
    },
    PAGE_ABSENT: () => {
      const host = new OnDemandHost()
      const { rkey } = host.registerOnDemand({ base: 0 })
      const { card } = host
      const one = { card, region: card.provision(), qp: card.connect() }
      return served(one, readFrame({ ...one.qp }, rkey, 0, 0, 8))
    },
    OPCODE: () => {
      const one = setting()
      return served(one, frameOf({ bth: { opcode: 0x18, destQp: one.qp.number, psn: one.qp.psn } }))
    },
    MESSAGE_ORDER: () => {
      const one = setting({ capacity: 500 }, 256)
      return served(
        one,
        persistFrames({ ...one.qp, psn: one.qp.psn - 1 }, one.region, 0, dataOf(400, 1))[1]!,
      )
    },
    PACKET_LENGTH: () => {
      const one = setting({}, 256)
      return served(one, only(one, {}, {}, dataOf(300, 1)))
    },
    MESSAGE_LENGTH: () => {
      const one = setting()
      return served(one, only(one, {}, { length: 63 }))
    },
    RECEIVE_LENGTH: () => {
      const one = setting({}, 256)
      const frames = sendFrames({ ...one.qp }, dataOf(RECEIVE_BYTES + 512, 1))
      return served(one, ...frames.slice(0, -1))
    },
    ALIGNMENT: () => {
      const one = setting()
      return served(one, fetchAddFrame({ ...one.qp }, bytesRegion(one), 4, 1n))
    },
    FLUSH_FORM: () => {
      const one = setting()
      return served(one, flushFrame({ ...one.qp }, bytesRegion(one), { placement: 4 }))
    },
    PERSIST_HEADER: () => {
      const one = setting()
      return served(one, only(one, { version: 3 }))
    },
    RESIDENCY_FORM: () => {
      const one = setting()
      const range = { rkey: one.region.rkey, address: 0, length: 64 }
      return served(one, associateFrame({ ...one.qp }, range, { version: 2 }))
    },
    KEY: () => {
      const one = setting()
      return served(one, only(one, {}, { rkey: 0 }))
    },
    PROTECTION_DOMAIN: () => {
      const one = setting({ domain: 3 })
      return served(one, only(one, {}))
    },
    RIGHTS: () => {
      const one = setting()
      return served(one, only(one, {}, { rkey: bytesRegion(one).rkey }))
    },
    BOUNDS: () => {
      const one = setting()
      return served(one, only(one, {}, { vaLow: 8 }))
    },
    UNSETTLED_READ: () => {
      const one = lost(setting())
      return served(one, readFrame(one.qp, one.region, 0, 0, 8))
    },
    UNREADABLE: () => {
      const one = setting()
      const bytes = bytesRegion(one)
      one.card.nvdimm.poison(slotOffset(one.region, 2, 0) / 64)
      return served(one, readFrame(one.qp, bytes, 0, 0, 8))
    },
    MESSAGE_TIME: () => {
      const one = setting({ capacity: 500 }, 256)
      one.card.serve(persistFrames(one.qp, one.region, 0, dataOf(400, 1))[0]!)
      return { one, sent: one.card.pass(STAGING_TIMEOUT_US + 1) }
    },
    NOT_DURABLE: () => {
      const one = setting()
      const bytes = bytesRegion(one)
      one.card.nvdimm.armed = false
      const sent = one.card.serve(flushFrame({ ...one.qp }, bytes))
      return { one, sent }
    },
    MEDIA: () => {
      const one = setting()
      one.card.nvdimm.refuseWrites(slotOffset(one.region, 0, 0) / 64)
      return served(one, only(one, {}))
    },
    SLOT: () => {
      const one = setting()
      return served(one, only(one, {}, { vaHigh: 8 }))
    },
    RECORD_LENGTH: () => {
      const one = setting()
      return served(one, only(one, {}, {}, dataOf(65, 1)))
    },
    NOT_ARMED: () => {
      const one = setting()
      one.card.nvdimm.armed = false
      return served(one, only(one, {}))
    },
    BATCH_ABORTED: () => {
      const one = setting()
      const first = batchFrames(one.qp, one.region, RECORDS, { id: 1, ends: false })
      const options = { id: 2, ends: false, ackRequest: true }
      return served(one, ...first, ...batchFrames(one.qp, one.region, RECORDS, options))
    },
    CONDITION: () => {
      const one = setting()
      const behind = RECORDS.slice(1).map((record) => ({ ...record, index: 1 }))
      const options = { condition: IN_ORDER, count: 2 }
      return served(one, ...batchFrames(one.qp, one.region, behind, options))
    },
    BATCH_FIELDS: () => {
      const one = setting()
      const twice = [...RECORDS, ...RECORDS]
      return served(one, ...batchFrames(one.qp, one.region, twice))
    },
    BATCH_TIME: () => {
      const one = setting()
      one.card.serve(...batchFrames(one.qp, one.region, RECORDS, { ends: false }))
      return { one, sent: one.card.pass(BATCH_TIMEOUT_US) }
    },
    BATCH_ROOM: () => {
      const one = setting()
      for (let i = 0; i < BATCHES; i++) {
        one.card.serve(batchFrames(one.card.connect(), one.region, RECORDS)[0]!)
      }
      return served(one, ...batchFrames(one.qp, one.region, RECORDS))
    },
    BATCH_REGION: () => {
      const one = setting()
      const shape = { name: 'bytes', kind: mad.KIND_BYTES, length: 4096 }
      const region = one.card.provision({ ...shape, flags: mad.REGION_WRITE_PERSIST })
      return served(one, ...batchFrames(one.qp, region, RECORDS))
    },
    COPIES_DIFFER: () => {
      const one = setting()
      return served(one, ...carriedFrames(one.qp, one.region, 0, [dataOf(8, 1), dataOf(8, 2)]))
    },
    FIXED_LENGTH: () => {
      const one = setting({ flags: mad.REGION_FIXED_LENGTH })
      return served(one, only(one, {}, {}, dataOf(63, 1)))
    },
    READ_ONLY: () => {
      const one = lost(setting())
      return served(one, only(one, {}, { vaHigh: 3 }))
    },
    LEVEL: () => {
      const one = setting()
      return served(one, only(one, { wait: 3 }))
    },
    STAGING: () => {
      const one = setting({ capacity: 300 }, 256)
      for (let i = 0; i < 16; i++) {
        one.card.serve(persistFrames(one.card.connect(256), one.region, i % 8, dataOf(300, i))[0]!)
      }
      return served(one, ...persistFrames(one.qp, one.region, 0, dataOf(300, 1)))
    },
    FLUSH: () => {
      const one = setting()
      one.card.nvdimm.fencesToFail = 1
      return served(one, only(one, {}))
    },
    SUPERBLOCK: () => {
      const { nvdimm } = setting().card
      nvdimm.refuseWrites(0)
      const card = new TestCard(nvdimm)
      const one = { card, region: card.open(), qp: card.connect() }
      return served(one, only(one, {}))
    },
    OPERATION_FORGOTTEN: () => {
      const { nvdimm } = setting().card
      nvdimm.dirtyShutdowns += 1
      const card = new TestCard(nvdimm)
      const one = { card, region: card.open(), qp: card.connect() }
      return served(one, only(one, { repetition: true }))
    },
    IN_DOUBT: () => {
      const one = setting()
      const sent = failAt(one, 'FLUSH', 2, [only(one, {})])
      return { one, sent }
    },
    PLACEMENT_UNKNOWN: () => {
      const card = restarted(placed())
      const one = { card, region: card.open(), qp: card.connect() }
      return served(one, only(one, {}))
    },
    PLACEMENT_WRONG: () => {
      const one = placed()
      believe(one.card, PLACEMENT_THROUGH)
      return served(one, only(one, {}))
    },
    NO_AGENT: () => {
      const one = placed(DDIO_ON)
      tellAgent(one.card, mad.AGENT_DETACH, 0)
      return served(one, only(one, {}))
    },
    GUARD: () => {
      const one = setting()
      return served(one, ...persistFrames(one.qp, one.region, 0, dataOf(8, 1), { guard: 1 }))
    },
    NO_RECEIVE: () => {
      const one = new MessageCard()
      return served(one, ...batchFrames(one.qp, one.region, [one.message(dataOf(8, 1))]))
    },
  }

  const asked = FAULTS.filter(({ answer, name }) => {
    // What only the own host is answered: test/firmware/queues/queue-work-local.test.ts.
    return answer === 'nak' || (answer === 'status' && name !== 'OWN_HOST')
  })

  test('X-7: there is a way here to every fault that is answered', () => {
    expect(Object.keys(PROVOKED)).toEqual(asked.map((row) => row.name))
  })

  test.each(asked)('X-7: $name: $meaning', ({ name, answer, code }) => {
    const { one, sent } = PROVOKED[name]!()
    if (answer === 'nak') {
      expect(sent.map((frame) => frame.syndrome)).toEqual([code])
      if (code > 0x60) {
        expect(one.card.serve(...persistFrames(one.qp, one.region, 0, dataOf(8, 1)))).toEqual([])
      }
    } else {
      expect(persistAcks(sent).map((paeth) => paeth.status)).toEqual([code])
      const next = { ...one.qp, psn: (sent.at(-1)!.psn + 1) & 0xffffff }
      expect(one.card.serve(readFrame(next, one.region, 1, 0, 8))[0]!.opcode).toBe(0x10)
    }
    expect(one.card.counter(name)).toBe(1)
  })

  test('D-4: no more durable copies can be asked for than the region keeps', () => {
    for (const copies of [2, 3, 4]) {
      const one = setting({ copies })
      for (let wait = 1; wait <= 4; wait++) {
        const [, said] = persist(one, 0, dataOf(8, wait), { wait })
        const [refused] = persist(one, 1, dataOf(8, wait), { wait })
        if (wait <= copies) expect(said).toContain(`durable ${wait}`)
        else expect(refused).toContain('LEVEL')
      }
    }
  })

  test('a refused record has changed nothing, and the one that follows it is taken', () => {
    for (const name of ['SLOT', 'RECORD_LENGTH', 'COPIES_DIFFER', 'FIXED_LENGTH', 'LEVEL']) {
      const { one, sent } = PROVOKED[name]!()
      expect(persistAcks(sent)[0]!.copies).toBe(0)
      one.qp.psn = (sent[0]!.psn + 1) & 0xffffff
      const [ack, receipt] = persist(one, 1, dataOf(64, 5))
      expect([ack, receipt]).toEqual(DURABLE)
      for (let slot = 0; slot < 8; slot++) {
        if (slot !== 1) expect(imageOf(one, 0, slot).slice(64)).toEqual(new Uint8Array(64))
      }
    }
  })
})

describe('fail closed (D-13)', () => {
  test('D-13: what is not armed takes nothing, and takes again what comes when it is', () => {
    const one = setting()
    persist(one, 1, dataOf(64, 1))
    const before = contentOf(one.card)
    one.card.nvdimm.armed = false
    expect(persist(one, 1, dataOf(64, 2))).toEqual([
      'PERSIST_ACK 0: 0-0 NOT_ARMED records 1',
      'ACK 0',
    ])
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(hexOf(one.card.read(one.qp, one.region, 1, 0, 64)!)).toBe(hexOf(dataOf(64, 1)))
    one.card.nvdimm.armed = true
    expect(persist(one, 1, dataOf(64, 3))).toEqual(DURABLE)
  })

  test('D-13: a message whose last packet comes when it is no longer armed is refused', () => {
    const one = setting({ capacity: 600 }, 256)
    persist(one, 1, dataOf(600, 1))
    const frames = persistFrames(one.qp, one.region, 1, dataOf(600, 2))
    one.card.serve(...frames.slice(0, 2))
    one.card.idle()
    const before = contentOf(one.card)
    one.card.nvdimm.armed = false
    const said = lines(one.card.serve(frames[2]!), one.qp.psn - 1)
    expect(said).toEqual(['PERSIST_ACK 0: 0-0 NOT_ARMED records 1', 'ACK 0'])
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })

  test('D-13: a message begun before a flush failed is refused when it ends', () => {
    const one = setting({ capacity: 600 }, 256)
    const frames = persistFrames(one.qp, one.region, 1, dataOf(600, 2))
    one.card.serve(...frames.slice(0, 2))
    const other = { ...one, qp: one.card.connect() }
    one.card.nvdimm.fencesToFail = 1
    expect(persist(other, 5, dataOf(8, 1))[1]).toContain('FLUSH')
    const before = contentOf(one.card)
    const said = lines(one.card.serve(frames[2]!), one.qp.psn - 1)
    expect(said).toEqual(['PERSIST_ACK 0: 0-0 FLUSH records 1', 'ACK 0'])
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })

  const causes = [
    { cause: 'a fence fails', status: 'FLUSH' },
    { cause: 'the save energy goes', status: 'NOT_ARMED' },
  ]
  const moments = causes.flatMap(({ cause, status }) =>
    [1, 2].flatMap((wait) => [1, 2, 3, 4].map((fence) => ({ cause, status, wait, fence }))),
  )

  test.each(moments)(
    'D-13: $cause at fence $fence: level $wait says what is durable, and then nothing is',
    ({ status, wait, fence }) => {
      const one = setting()
      for (const slot of [1, 2, 3]) persist(one, slot, dataOf(64, slot))
      one.card.idle()
      const base = one.qp.psn
      const frames = [1, 2, 3].flatMap((slot) =>
        persistFrames(one.qp, one.region, slot, dataOf(64, 10 + slot), { wait }),
      )
      const said = lines(failAt(one, status, fence, frames), base)
      const durable = fence === 4 && wait === 1
      // Behind F1 the slots were touched: only the next start can tell.
      const refusal = fence === 1 ? status : 'IN_DOUBT'
      const refusals = [0, 1, 2].map((i) => `PERSIST_ACK ${i}: ${i}-${i} ${refusal} records 1`)
      const receipt = ['PERSIST_ACK 2: 0-2 durable 1 records 3']
      expect(said).toEqual(['ACK 2', ...(durable ? receipt : refusals)])
      // Nothing more is taken, armed again or not, and the state says so.
      one.card.nvdimm.armed = true
      expect(persist(one, 5, dataOf(8, 1))[0]).toContain(status)
      const state = one.card.status()
      expect(state[mad.PART_STATE]).toBe(mad.STATE_FAILED_CLOSED)
      expect(FAULTS[state[mad.PART_FAULT]!]!.name).toBe(status)
    },
  )

  test.each(moments)(
    'D-13, D-15: $cause at fence $fence of level $wait: nothing is read that a reboot takes back',
    ({ status, wait, fence }) => {
      const one = setting()
      persist(one, 1, dataOf(64, 1))
      one.card.idle()
      failAt(one, status, fence, persistFrames(one.qp, one.region, 1, dataOf(64, 2), { wait }))
      const [older, newer] = [hexOf(dataOf(64, 1)), hexOf(dataOf(64, 2))]
      const seen = hexOf(one.card.read(one.qp, one.region, 1, 0, 64)!)
      expect(seen).toBe(fence === 4 ? newer : older)
      // The strongest and the weakest cut: all that is pending arrives, or none of it.
      for (const content of [one.card.nvdimm.live, one.card.nvdimm.durable]) {
        const again = rebooted(content)
        const region = again.open()
        const found = hexOf(again.read(again.connect(), region, 1, 0, 64)!)
        if (fence !== 3) expect(found).toBe(seen)
        else expect([older, newer]).toContain(found)
      }
    },
  )

  test('D-13: no receipt while the last save is known to have failed', () => {
    const one = setting()
    one.card.nvdimm.failSave()
    expect(
      persistAcks(one.card.serve(...persistFrames(one.qp, one.region, 1, dataOf(8, 1))))[0]!.status,
    ).not.toBe(0)
  })

  /** A card that starts on what a cut left. */
  function rebooted(content: Uint8Array): TestCard {
    return new TestCard(new Nvdimm({ bytes: content.length, content }))
  }
})

describe('receipts', () => {
  test('D-5, D-6: a receipt names range, operation, incarnation, copies and mechanism', () => {
    const one = setting()
    const base = one.qp.psn
    const frames = [3, 4, 5].flatMap((slot) =>
      persistFrames(one.qp, one.region, slot, dataOf(8, slot), {
        operation: 0xfffffffe + slot - 4,
        operationHigh: 0x80000001,
      }),
    )
    const [paeth] = persistAcks(one.card.serve(...frames))
    const status = one.card.status()
    expect(paeth).toMatchObject({
      ...{ version: 1, words: 8, all: true, cumulative: false, status: 0, bitmapWords: 0 },
      ...{ firstPsn: base, lastPsn: base + 2, records: 3, copies: 2, mechanism: 1 },
      ...{ operationHigh: 0x80000001, operationLow: 0xffffffff },
      incarnation: status[mad.PART_INCARNATION + 3],
    })
  })

  test('refusals in between divide the receipts, and each names its own records', () => {
    const one = setting({ slots: 20 })
    const base = one.qp.psn
    const first = one.qp.operation + 1
    const slots = [0, 1, 99, 2, 99, 99, 3, 4, 5]
    const frames = slots.flatMap((slot) => persistFrames(one.qp, one.region, slot, dataOf(8, 1)))
    const sent = one.card.serve(...frames)
    expect(
      lines(sent, base)
        .filter((said) => said.startsWith('PERSIST'))
        .sort(),
    ).toEqual([
      'PERSIST_ACK 1: 0-1 durable 2 records 2',
      'PERSIST_ACK 2: 2-2 SLOT records 1',
      'PERSIST_ACK 3: 3-3 durable 2 records 1',
      'PERSIST_ACK 4: 4-4 SLOT records 1',
      'PERSIST_ACK 5: 5-5 SLOT records 1',
      'PERSIST_ACK 8: 6-8 durable 2 records 3',
    ])
    const named = persistAcks(sent).map((paeth) => [paeth.lastPsn - base, paeth.operationLow])
    for (const [psn, operation] of named) expect(operation).toBe(first + psn!)
  })

  test('records of both levels in one burst have receipts of their own level alone', () => {
    const one = setting({ slots: 20 })
    const base = one.qp.psn
    const waits = [1, 1, 2, 1, 2, 2, 1]
    const frames = waits.flatMap((wait, slot) =>
      persistFrames(one.qp, one.region, slot, dataOf(8, 1), { wait }),
    )
    const sent = one.card.serve(...frames)
    const early = persistAcks(sent).filter((paeth) => paeth.copies === 1)
    const late = persistAcks(sent).filter((paeth) => paeth.copies === 2)
    for (const { firstPsn, lastPsn, records } of early) {
      const covered = waits.slice(firstPsn - base, lastPsn - base + 1)
      expect(covered.every((wait) => wait === 1)).toBe(true)
      expect(records).toBe(covered.length)
    }
    expect(early.map(({ firstPsn, lastPsn }) => [firstPsn - base, lastPsn - base])).toEqual([
      [0, 1],
      [3, 3],
      [6, 6],
    ])
    expect(late.reduce((sum, { records }) => sum + records, 0)).toBe(3)
    expect(late.at(-1)!.lastPsn - base).toBe(5)
  })

  test('who asks for no receipt gets none, and is durable all the same', () => {
    const one = setting()
    expect(lines(one.card.serve(only(one, { wantsAck: false })), one.qp.psn)).toEqual(['ACK 0'])
    expect(hexOf(imageOf(one, 1, 0).slice(64))).toBe(hexOf(dataOf(64, 1)))
  })

  test.each([1, 2, 64, 257])(
    'a record behind a READ of %i packets is committed when that is answered: two receipts',
    (packets) => {
      const one = setting({ capacity: 65536, slots: 2 }, 256)
      const base = one.qp.psn
      const frames = [
        ...persistFrames(one.qp, one.region, 0, dataOf(8, 1)),
        readFrame(one.qp, one.region, 0, 2 ** 28, Math.min(packets * 256, 64 + 65536)),
        ...persistFrames(one.qp, one.region, 1, dataOf(8, 2)),
      ]
      const said = lines(one.card.serve(...frames), base).map((text) => text.split(': ')[0])
      const reads = Array.from({ length: packets }, (_, i) => `READ ${i + 1}`)
      if (packets === 1) reads[0] += ' only'
      const last = `PERSIST_ACK ${packets + 1}`
      expect(said).toEqual(['PERSIST_ACK 0', ...reads, `ACK ${packets + 1}`, last])
    },
  )
})

describe('duplicates (X-3)', () => {
  test('X-3: a request repeated in any position changes no media, earns the same receipt', () => {
    const waits = [1, 2, 2, 1, 2, 2]
    for (let again = 0; again < waits.length; again++) {
      const one = setting()
      const base = one.qp.psn
      const frames = waits.map(
        (wait, i) => persistFrames(one.qp, one.region, i % 4, dataOf(40, i), { wait })[0]!,
      )
      for (const frame of frames) one.card.serve(frame)
      one.card.idle()
      const before = contentOf(one.card)
      for (let i = 0; i < 3; i++) {
        expect(lines(one.card.serve(frames[again]!), base)).toEqual([
          `PERSIST_ACK ${again}: ${again}-${again} durable ${waits[again]} records 1`,
          'ACK 5',
        ])
      }
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
      expect(one.card.counter('DUPLICATE')).toBe(3)
    }
  })

  test('X-3: a request that stands twice in its burst is executed once', () => {
    const one = setting()
    const base = one.qp.psn
    const frames = [0, 1, 2].map(
      (slot) => persistFrames(one.qp, one.region, slot, dataOf(8, slot))[0]!,
    )
    const [a, b, c] = frames
    const sent = one.card.serve(a!, a!, b!, a!, c!, b!, c!)
    expect(persistAcks(sent).map(({ records }) => records)).toEqual([3])
    expect(lines(sent, base).at(-1)).toBe('PERSIST_ACK 2: 0-2 durable 2 records 3')
    const sequence = (slot: number): number => new Uint32Array(imageOf(one, 0, slot).buffer)[8]!
    expect([sequence(1) - sequence(0), sequence(2) - sequence(1)]).toEqual([1, 1])
  })

  test('X-3, N3: other bytes change nothing, and another operation earns nothing', () => {
    const one = setting()
    const base = one.qp.psn
    persist(one, 1, dataOf(64, 1))
    one.card.idle()
    const before = contentOf(one.card)
    const send = (options: PersistOptions, slot = 1): string[] =>
      lines(
        one.card.serve(
          ...persistFrames(one.qp, one.region, slot, dataOf(64, 9), { psn: base, ...options }),
        ),
        base,
      )
    expect(send({ operation: 2 })).toEqual(['ACK 0'])
    expect(send({ operation: 1, operationHigh: 1 })).toEqual(['ACK 0'])
    expect(send({ operation: 0x80000001 })).toEqual(['ACK 0'])
    expect(one.card.counter('DUPLICATE_FORGED')).toBe(3)
    expect(send({ operation: one.qp.operation }).length).toBe(2)
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })

  test('X-3: a refused record is refused again, for the same reason', () => {
    const one = setting()
    const base = one.qp.psn
    const [frame] = persistFrames(one.qp, one.region, 99, dataOf(64, 1))
    one.card.serve(frame!)
    expect(lines(one.card.serve(frame!), base)).toEqual([
      'PERSIST_ACK 0: 0-0 SLOT records 1',
      'ACK 0',
    ])
  })

  test('X-3: a message of several packets, repeated whole or in part, changes nothing', () => {
    const one = setting({ capacity: 2000 }, 256)
    const frames = persistFrames(one.qp, one.region, 1, dataOf(2000, 1))
    one.card.serve(...frames)
    one.card.idle()
    const before = contentOf(one.card)
    for (let from = 0; from < frames.length; from++) {
      const sent = one.card.serve(...frames.slice(from))
      expect(persistAcks(sent).length).toBe(from === 0 ? 1 : 0)
    }
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })

  test('D-6: a PSN that comes round again does not earn the receipt of the record before', () => {
    const one = setting()
    const { psn } = one.qp
    const first = persistFrames(one.qp, one.region, 0, dataOf(8, 1))[0]!
    const { operation } = one.qp
    one.card.serve(first)
    for (let i = 0; i < 256; i++) persist(one, i % 8, dataOf(8, i))
    // By its operation, which the table knows, it does; and that is of no use to another one.
    const [again] = persistAcks(one.card.serve(first))
    expect([again!.status, again!.operationLow]).toEqual([0, operation])
    const forged = persistFrames(one.qp, one.region, 0, dataOf(8, 1), { psn, operation: 5 })
    expect(persistAcks(one.card.serve(...forged))).toEqual([])
  })

  test('a repeated WRITE between records changes nothing either', () => {
    const one = setting()
    const bytes = one.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    const [write] = writeFrames(one.qp, bytes, 0, dataOf(64, 1))
    one.card.serve(write!)
    const newer = writeFrames(one.qp, bytes, 0, dataOf(64, 2))
    one.card.serve(...newer, ...persistFrames(one.qp, one.region, 0, dataOf(8, 1)))
    const before = contentOf(one.card)
    one.card.serve(write!, write!)
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })
})
