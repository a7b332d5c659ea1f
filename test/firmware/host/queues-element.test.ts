/**
 * Work-queue elements, judged once (X-4; fault H2), and the memory regions that they name.
 */

import { beforeEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  BATCH_ELEMENT_BYTES_MAX,
  BATCH_ELEMENTS_MAX,
  INLINE_BYTES_MAX,
  MEMORY_REGIONS,
  SGES_MAX,
  UNIT_BYTES,
  WQE_UNITS_MAX,
} from '../../../firmware/board/limits.ts'
import { FETCH_AT, MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { contextAt } from '../../../firmware/host/context.ts'
import { insertContext } from '../../../firmware/host/context-cache.ts'
import * as wqe from '../../../firmware/host/element.ts'
import { checkElement } from '../../../firmware/host/element-check.ts'
import { createHostQueues, type HostQueues } from '../../../firmware/host/host.ts'
import {
  clearMemoryRegions,
  createMemoryRegions,
  deregisterMemory,
  memoryFault,
  registerMemory,
} from '../../../firmware/host/memory-regions.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import * as requester from '../../../firmware/transport/requester.ts'
import { type ElementFields, elementOf } from '../../support/queues/queue-host.ts'

const DOMAIN = 5
const UNIT = 41
let host: HostQueues
let bytes: Uint8Array
let view: DataView
let place: number
let key: number

beforeEach(() => {
  const memory = new ArrayBuffer(MEMORY_BYTES)
  host = createHostQueues(memory, true)
  bytes = new Uint8Array(memory)
  view = new DataView(memory)
  place = insertContext(host.contexts, 7, 0)
  become(info.KIND_SEND, info.TYPE_CONNECTED)
  view.setUint32(contextAt(place) + info.Z1_DOMAIN, DOMAIN, true)
  key = registerMemory(host.regions, 0x10000, 0x1000, DOMAIN, 0x12345678)
})

function become(kind: number, type: number): void {
  bytes[contextAt(place) + info.Z1_KIND] = kind
  bytes[contextAt(place) + info.Z1_TYPE] = type
}

/** Puts the element where it is fetched to, with its stamps. */
function put(element: Uint8Array): void {
  bytes.fill(0xcc, FETCH_AT, FETCH_AT + 40 * UNIT_BYTES)
  bytes.set(element, FETCH_AT)
  view.setUint32(FETCH_AT + wqe.WQE_STAMP, UNIT + 1, true)
  view.setUint32(FETCH_AT + wqe.WQE_STAMP_AGAIN, UNIT + 1, true)
}

function judge(stored = 40): string {
  return FAULTS[checkElement(host, place, FETCH_AT, UNIT, stored)]!.name
}

function judged(fields: ElementFields): string {
  put(elementOf(fields))
  return judge()
}

describe('H2: what an element says of itself', () => {
  test('kinds are numbered as the requester does', () => {
    expect(wqe.WQE_WRITE_PERSIST).toBe(requester.WRITE_PERSIST)
    expect(wqe.WQE_SEND).toBe(requester.SEND)
    expect(wqe.WQE_SEND_IMM).toBe(requester.SEND_IMM)
    expect(wqe.WQE_SEND_INV).toBe(requester.SEND_INV)
    expect(wqe.WQE_READ).toBe(requester.READ)
    expect(wqe.WQE_FETCH_ADD).toBe(requester.FETCH_ADD)
    expect(wqe.WQE_PERSIST_QUERY).toBe(requester.PERSIST_QUERY)
  })

  test('a receive is one buffer: it has no entries', () => {
    become(info.KIND_RECEIVE, info.TYPE_CONNECTED)
    const sges = [{ address: 0x10000, length: 64, lkey: key }]
    expect(judged({ opcode: wqe.WQE_RECEIVE, sges })).toBe('ELEMENT_FORM')
  })

  test('every opcode in every type of queue', () => {
    const all = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, wqe.WQE_NOP]
    const table: [number, number, number[]][] = [
      [info.KIND_SEND, info.TYPE_CONNECTED, all],
      [info.KIND_SEND, info.TYPE_LOCAL, all.filter((op) => op < 4 || op > 6)],
      [info.KIND_SEND, info.TYPE_GSI, [4, wqe.WQE_NOP]],
      [info.KIND_SEND, info.TYPE_AGENT, [4, 5, 6, wqe.WQE_NOP]],
      [info.KIND_RECEIVE, info.TYPE_CONNECTED, [wqe.WQE_RECEIVE]],
      [info.KIND_RECEIVE, info.TYPE_GSI, [wqe.WQE_RECEIVE]],
    ]
    for (const [kind, type, served] of table) {
      become(kind, type)
      const taken: number[] = []
      for (let opcode = 0; opcode < 256; opcode++) {
        const verdict = judged({ opcode })
        if (verdict === 'PASS') taken.push(opcode)
        else expect(verdict).toBe('ELEMENT_FORM')
      }
      expect([kind, type, taken]).toEqual([kind, type, served])
    }
  })

  test('every flag; a batch takes no form of several copies, and no two steps', () => {
    const notInBatches = wqe.CARRIED | wqe.TWO_STEPS
    for (let flags = 0; flags < 65536; flags++) {
      // Of a batch it would be the only record.
      const compare = wqe.LAST_OF_BATCH
      put(elementOf({ opcode: wqe.WQE_WRITE_PERSIST, flags: flags & ~wqe.INLINE, compare }))
      view.setUint16(FETCH_AT + wqe.WQE_FLAGS, flags, true)
      const both = (flags & wqe.BATCH) !== 0 && (flags & notInBatches) !== 0
      const want = flags > wqe.FLAGS_ALL || both ? 'ELEMENT_FORM' : 'PASS'
      if (judge() !== want) expect([flags, judge()]).toEqual([flags, want])
    }
  })

  test('every number of units against every inline length', () => {
    for (let length = 0; length <= INLINE_BYTES_MAX + 1; length += length < 130 ? 1 : 61) {
      for (let units = 0; units < 256; units++) {
        put(elementOf({ opcode: 2, inline: new Uint8Array(Math.min(length, INLINE_BYTES_MAX)) }))
        view.setUint32(FETCH_AT + wqe.WQE_LENGTH, length, true)
        bytes[FETCH_AT + wqe.WQE_UNITS] = units
        const fits = length <= INLINE_BYTES_MAX && units === 1 + Math.ceil(length / UNIT_BYTES)
        const verdict = judge()
        if ((verdict === 'PASS') !== fits) expect([length, units, verdict]).toEqual('')
        // Of so many none of the rest is believed.
        if (units > 17) expect([length, units, verdict]).toEqual([length, units, 'ELEMENT_FORM'])
      }
    }
  })

  test('an inline length that a comparison might take for a small one', () => {
    for (const length of [INLINE_BYTES_MAX + 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32 - 64]) {
      for (const units of [1, 2, WQE_UNITS_MAX]) {
        put(elementOf({ opcode: 2, inline: new Uint8Array(64) }))
        view.setUint32(FETCH_AT + wqe.WQE_LENGTH, length, true)
        bytes[FETCH_AT + wqe.WQE_UNITS] = units
        expect(judge()).toBe('ELEMENT_LENGTH')
      }
    }
  })

  test('X-4: stamps of another lap, and units that were never stored', () => {
    for (const off of [-16, -1, 1, 16, 2 ** 31]) {
      for (const at of [wqe.WQE_STAMP, wqe.WQE_STAMP_AGAIN]) {
        put(elementOf({ opcode: wqe.WQE_NOP }))
        view.setUint32(FETCH_AT + at, UNIT + 1 + off, true)
        expect(judge()).toBe('ELEMENT_FORM')
      }
    }
    for (let stored = 1; stored < 8; stored++) {
      for (let units = 1; units < 8; units++) {
        put(elementOf({ opcode: 2, inline: new Uint8Array((units - 1) * UNIT_BYTES) }))
        expect(judge(stored)).toBe(units <= stored ? 'PASS' : 'ELEMENT_FORM')
      }
    }
  })

  test('what is not inline does not say so, and the other way round', () => {
    expect(judged({ opcode: wqe.WQE_READ, inline: new Uint8Array(8) })).toBe('ELEMENT_FORM')
    expect(judged({ opcode: wqe.WQE_FETCH_ADD, inline: new Uint8Array(8) })).toBe('ELEMENT_FORM')
    put(elementOf({ opcode: 2, inline: new Uint8Array(16) }))
    bytes[FETCH_AT + wqe.WQE_ENTRIES] = 1
    expect(judge()).toBe('ELEMENT_FORM')
    expect(judged({ opcode: 2, flags: wqe.CARRIED })).toBe('ELEMENT_FORM')
  })

  test('the copies that a record names stand behind its bytes, at a multiple of 16', () => {
    for (const inline of [0, 1, 15, 16, 17, 64]) {
      for (let copies = 0; copies <= 3; copies++) {
        const behind = Math.ceil(inline / 16) * 16 + copies * wqe.COPY_BYTES
        const element = new Uint8Array(UNIT_BYTES * (1 + Math.ceil(behind / UNIT_BYTES)))
        const flags = wqe.CARRIED | wqe.ADDRESSED
        const fields = { opcode: wqe.WQE_WRITE_PERSIST, flags, furtherCopies: copies }
        element.set(
          elementOf({ ...fields, inline: new Uint8Array(inline) }).subarray(0, UNIT_BYTES),
        )
        element[wqe.WQE_UNITS] = element.length / UNIT_BYTES
        put(element)
        expect([inline, copies, judge()]).toEqual([inline, copies, 'PASS'])
        const at = copies === 0 ? 0 : FETCH_AT + UNIT_BYTES + Math.ceil(inline / 16) * 16
        expect(host.element.copiesAt).toBe(at)
        expect(host.element.behindAt).toBe(FETCH_AT + UNIT_BYTES)
      }
    }
  })
})

describe('D-10: what a record of a batch says of its batch', () => {
  const record = { opcode: wqe.WQE_WRITE_PERSIST, batch: {} }

  test('S1-M9: only a record and a SEND belong to one', () => {
    for (let opcode = 2; opcode <= wqe.WQE_PERSIST_QUERY; opcode++) {
      const verdict = opcode === wqe.WQE_SEND ? 'PASS' : 'ELEMENT_FORM'
      expect([opcode, judged({ ...record, opcode })]).toEqual([opcode, verdict])
    }
    expect(judged({ ...record, opcode: wqe.WQE_NOP })).toBe('ELEMENT_FORM')
    expect(judged(record)).toBe('PASS')
  })

  test('S1-M9: every flag of a message; no queue but a connected one takes it', () => {
    const message = { ...record, opcode: wqe.WQE_SEND }
    const taken = wqe.SIGNALED | wqe.FENCE | wqe.REPETITION | wqe.BATCH
    for (let flag = 1; flag <= wqe.FLAGS_ALL; flag *= 2) {
      if (flag === wqe.INLINE) continue
      const verdict = (flag & taken) !== 0 ? 'PASS' : 'ELEMENT_FORM'
      expect([flag, judged({ ...message, flags: flag })]).toEqual([flag, verdict])
    }
    expect(judged({ ...message, inline: new Uint8Array(8) })).toBe('PASS')
    expect(judged({ opcode: wqe.WQE_SEND, flags: wqe.REPETITION })).toBe('ELEMENT_FORM')
    for (const type of [info.TYPE_LOCAL, info.TYPE_GSI, info.TYPE_AGENT]) {
      become(info.KIND_SEND, type)
      expect([type, judged(message)]).toEqual([type, 'ELEMENT_FORM'])
    }
  })

  test('P4-11: every byte of condition and last: three conditions are known', () => {
    for (const left of [0, 1]) {
      for (let byte = 0; byte < 256; byte++) {
        put(elementOf({ ...record, batch: { count: 3, left } }))
        bytes[FETCH_AT + wqe.WQE_CONDITION] = byte
        const last = (byte & 8) !== 0
        const known = (byte & 7) === 0 && byte >> 4 < 2 && last === (left === 0)
        // With the third there has to be a unit for the sequence.
        const verdict = byte >> 4 === 2 ? 'ELEMENT_LENGTH' : known ? 'PASS' : 'ELEMENT_FORM'
        expect([left, byte, judge()]).toEqual([left, byte, verdict])
        if (known) expect(host.element).toMatchObject({ condition: byte >> 4, last })
      }
    }
  })

  test('every index, count and rest: a burst is no longer than what is under way at once', () => {
    for (let count = 1; count <= 256; count++) {
      for (const index of [0, 1, 31, 32, count - 2, count - 1, count, 255]) {
        for (const left of [0, 1, BATCH_ELEMENTS_MAX - 1, BATCH_ELEMENTS_MAX, count - 1, 255]) {
          if (index < 0 || index > 255) continue
          const batch = { index, count, left, id: 0xfffe }
          const fits = left < BATCH_ELEMENTS_MAX && index + left < count
          const verdict = judged({ ...record, batch })
          if (verdict !== (fits ? 'PASS' : 'ELEMENT_FORM')) expect([batch, verdict]).toEqual(fits)
          const read = { batchIndex: index, batchCount: count, batchLeft: left, batchId: 0xfffe }
          if (fits) expect(host.element).toMatchObject(read)
        }
      }
    }
  })

  test('what is to be 0 is', () => {
    for (const at of [38, 39]) {
      put(elementOf(record))
      bytes[FETCH_AT + at] = 1
      expect([at, judge()]).toEqual([at, 'ELEMENT_FORM'])
    }
  })

  test('a record is no longer than what all of a batch finds room for', () => {
    key = registerMemory(host.regions, 0x10000, 2 ** 20, DOMAIN, 0x12345678)
    const long = (length: number): string =>
      judged({ ...record, local: 0x10000, lkey: key, length })
    expect(long(BATCH_ELEMENT_BYTES_MAX)).toBe('PASS')
    expect(long(BATCH_ELEMENT_BYTES_MAX + 1)).toBe('ELEMENT_LENGTH')
  })

  test('the sequence expected stands behind the bytes, at a multiple of 16, then zeros', () => {
    const expect64 = 0xfedc_ba98_7654_3210n
    const batch = { condition: 2, expect: expect64 }
    for (const inline of [0, 1, 15, 16, 17, 47, 48, 49, 64, 65]) {
      const element = elementOf({ ...record, batch, inline: new Uint8Array(inline).fill(7) })
      put(element)
      expect([inline, judge()]).toEqual([inline, 'PASS'])
      const at = FETCH_AT + UNIT_BYTES + Math.ceil(inline / 16) * 16
      expect(host.element).toMatchObject({ expectHigh: 0xfedc_ba98, expectLow: 0x7654_3210 })
      expect(host.element.copiesAt).toBe(at)
      for (const zero of [8, 11, 12, 15]) {
        put(element)
        bytes[at + zero] = 1
        expect([inline, zero, judge()]).toEqual([inline, zero, 'ELEMENT_FORM'])
      }
      put(element)
      bytes[FETCH_AT + wqe.WQE_UNITS]! += 1
      expect(judge()).toBe('ELEMENT_LENGTH')
    }
    const scattered = [{ address: 0x10000, length: 8, lkey: key }]
    expect(judged({ ...record, batch, sges: scattered })).toBe('PASS')
    expect(host.element.copiesAt).toBe(FETCH_AT + UNIT_BYTES + wqe.SGE_BYTES)
  })
})

describe('H2: ranges of the host', () => {
  const one = (local: number, length: number, lkey = key): string =>
    judged({ opcode: 2, local, length, lkey })

  test('by address: exactly what the region covers', () => {
    expect(one(0x10000, 0x1000)).toBe('PASS')
    expect(one(0x10fff, 1)).toBe('PASS')
    expect(one(0, 0, 0)).toBe('PASS')
    const refused: [number, number, number][] = [
      [0x10000, 0x1001, key],
      [0xffff, 2, key],
      [0xffff, 1, key],
      [0x11000, 1, key],
      [0x10fff, 2, key],
      [0x10001, 0x1000, key],
      [0x10000, 2 ** 32 - 1, key],
      [2 ** 48 + 0x10000, 16, key],
      [2 ** 52, 16, key],
      [0x10000, 16, 0],
      [0x10000, 16, key + 1],
      [0x10000, 16, key ^ 0x80000000],
    ]
    for (const [local, length, lkey] of refused) {
      expect([local, length, one(local, length, lkey >>> 0)]).toEqual([local, length, 'MEMORY_KEY'])
    }
    view.setUint32(contextAt(place) + info.Z1_DOMAIN, DOMAIN + 1, true)
    expect(one(0x10000, 16)).toBe('MEMORY_KEY')
  })

  test('scattered: the sum, the number of entries, and each of them', () => {
    const entry = (length: number, address = 0x10000) => ({ address, length, lkey: key })
    for (let many = 1; many <= SGES_MAX; many++) {
      const sges = Array.from({ length: many }, (_, i) => entry(i * 10))
      expect(judged({ opcode: 2, sges })).toBe('PASS')
      const sum = sges.reduce((total, { length }) => total + length, 0)
      expect(judged({ opcode: 2, sges, length: sum + 1 })).toBe('ELEMENT_LENGTH')
      for (let bad = 1; bad < many; bad++) {
        const spoilt = sges.map((sge, i) => (i === bad ? { ...sge, address: 0x10fff } : sge))
        expect(judged({ opcode: 2, sges: spoilt })).toBe('MEMORY_KEY')
      }
    }
    put(elementOf({ opcode: 2, sges: [entry(8)] }))
    for (let entries = 5; entries < 256; entries++) {
      bytes[FETCH_AT + wqe.WQE_ENTRIES] = entries
      expect(judge()).not.toBe('PASS')
    }
  })

  test('lengths whose sum overflows 32 bits do not add up', () => {
    registerMemory(host.regions, 0, 2 ** 40, DOMAIN, 7)
    const lkey = host.regions.keys[1]!
    const sges = [1, 2].map(() => ({ address: 0, length: 2 ** 31, lkey }))
    expect(judged({ opcode: 2, sges, length: 0 })).toBe('ELEMENT_LENGTH')
    const wrapped = [2 ** 32 - 1, 9].map((length) => ({ address: 0, length, lkey }))
    expect(judged({ opcode: 2, sges: wrapped, length: 8 })).toBe('ELEMENT_LENGTH')
  })

  test('any bytes at all: judged, never an assert, and what passes is within its limits', () => {
    const seed = Number(process.env.SEED ?? 11)
    console.log(`seed ${seed}`)
    const random = new Random(seed)
    let passed = 0
    for (let i = 0; i < 30_000; i++) {
      const element = new Uint8Array(20 * UNIT_BYTES)
      for (let j = 0; j < 64 + random.below(200); j++) element[j] = random.below(256)
      if (random.below(2) === 0) element[wqe.WQE_UNITS] = 1 + random.below(4)
      if (random.below(2) === 0) element[wqe.WQE_OPCODE] = random.below(16)
      if (random.below(2) === 0) element.fill(0, 6, 12)
      if (random.below(3) > 0) element[wqe.WQE_ENTRIES] = 0
      become(random.below(2) + 1, random.below(4))
      put(element)
      if (judge(1 + random.below(20)) !== 'PASS') continue
      passed += 1
      const { units, entries } = host.element
      expect(units).toBeLessThanOrEqual(WQE_UNITS_MAX)
      expect(entries).toBeLessThanOrEqual(SGES_MAX)
    }
    expect(passed).toBeGreaterThan(100)
  })
})

describe('memory regions', () => {
  test('as many as there are places; a key that was taken back finds nothing', () => {
    const regions = createMemoryRegions()
    const keys = Array.from({ length: MEMORY_REGIONS }, (_, i) =>
      registerMemory(regions, i * 4096, 4096, 1, 0xffffffff),
    )
    expect(new Set(keys).size).toBe(MEMORY_REGIONS)
    expect(keys).not.toContain(0)
    expect(registerMemory(regions, 0, 1, 1, 5)).toBe(0)
    keys.forEach((one, i) => {
      expect(memoryFault(regions, one, 1, i * 4096, 4096)).toBe(0)
    })
    expect(deregisterMemory(regions, keys[9]!)).toBe(true)
    expect(deregisterMemory(regions, keys[9]!)).toBe(false)
    expect(memoryFault(regions, keys[9]!, 1, 9 * 4096, 1)).not.toBe(0)
    const again = registerMemory(regions, 9 * 4096, 4096, 1, 0x12345600)
    expect(again).not.toBe(keys[9])
    expect(memoryFault(regions, keys[9]!, 1, 9 * 4096, 1)).not.toBe(0)
    clearMemoryRegions(regions)
    for (const one of keys) expect(deregisterMemory(regions, one)).toBe(false)
    expect(memoryFault(regions, 0, 0, 0, 0)).not.toBe(0)
  })
})
