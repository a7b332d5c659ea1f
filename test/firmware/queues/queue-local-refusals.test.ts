/**
 * What a local queue refuses: every field of an element at its bounds, and a part that fails under
 * it, at each command (P3-2, P3-3, D-9, D-13; H2, H5, H6, H7).
 */

import { describe, expect, test } from 'vitest'
import { LINE_BYTES, LOCAL_BYTES_MAX } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR, QUEUE_READY } from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { KIND_BYTES, REGION_BASE_HIGH, REGION_RKEY } from '../../../firmware/wire/management.ts'
import { failFence } from '../../support/cards/fences.ts'
import { dataOf, type RegionShape, type TestRegion } from '../../support/cards/test-card.ts'
import {
  at,
  type LocalQueue,
  localQueue,
  one,
  play,
  record,
} from '../../support/queues/local-queue.ts'
import { type CardHost, hostOf } from '../../support/queues/queue-calls.ts'
import { type ElementFields, u64 } from '../../support/queues/queue-host.ts'

const RECORD_BYTES = 64
const WRITE_PERSIST_REGION = 2
/** Placement types of a FLUSH in the low byte of its operand, selectivity above. */
const GLOBAL = 1
const PERSISTENT = 2
const WHOLE = 256

interface World {
  readonly queue: LocalQueue
  readonly records: TestRegion
  readonly bytes: { readonly rkey: number; readonly base: number }
  /** Registered write-persist. */
  readonly safe: { readonly rkey: number; readonly base: number }
}

function world(): World {
  const host = hostOf(1 << 23)
  host.card.format()
  const queue = localQueue(host.init(64))
  return {
    queue,
    records: host.card.provision({ slots: 4, capacity: RECORD_BYTES, copies: 3 }),
    bytes: bytesOf(host, { name: 'bytes', kind: KIND_BYTES, length: 8192 }),
    safe: bytesOf(host, {
      name: 'safe',
      kind: KIND_BYTES,
      length: 8192,
      flags: WRITE_PERSIST_REGION,
    }),
  }
}

function bytesOf(host: CardHost, shape: RegionShape): { rkey: number; base: number } {
  const { fault, body } = host.card.tryProvision(shape)
  expect(fault).toBe('PASS')
  return { rkey: u32(body, REGION_RKEY), base: u64(body, REGION_BASE_HIGH) }
}

/** A record with all three copies, each named by its address; what `change` says is wrong. */
function addressed(
  { records }: World,
  change: { first?: number; rkey?: number; slot?: number; view?: number; length?: number } = {},
): ElementFields {
  const data = dataOf(RECORD_BYTES, 1)
  const further = new Uint8Array(2 * el.COPY_BYTES)
  const view = new DataView(further.buffer)
  for (let c = 1; c < 3; c++) {
    const where = (c - 1) * el.COPY_BYTES
    view.setUint32(where, change.slot ?? 1)
    view.setUint32(where + 4, (change.view ?? 2 + c) * 2 ** 28)
    view.setUint32(where + 8, change.rkey ?? records.rkey)
    view.setUint32(where + 12, change.length ?? RECORD_BYTES)
  }
  return {
    ...{ opcode: kind.WRITE_PERSIST, rkey: records.rkey, wait: 2, furtherCopies: 2, operation: 1 },
    address: 2 ** 32 + (change.first ?? 2) * 2 ** 28,
    flags: el.CARRIED | el.ADDRESSED,
    length: 3 * RECORD_BYTES,
    inline: Uint8Array.of(...data, ...data, ...data, ...further),
  }
}

type Row = readonly [fault: string, what: string, fields: (world: World) => ElementFields]

const RECORDS: readonly Row[] = [
  ['PERSIST_HEADER', 'two copies carried, of three', (w) => carried(w, 2, 2 * RECORD_BYTES)],
  [
    'ELEMENT_LENGTH',
    'three copies, of a length that is not three times one',
    (w) => carried(w, 3, 191),
  ],
  ['BOUNDS', 'a record that begins inside its slot', (w) => ({ ...only(w), address: 2 ** 32 + 8 })],
  ['BOUNDS', 'the first copy by the address of another', (w) => addressed(w, { first: 3 })],
  ['KEY', 'a further copy under no key', (w) => addressed(w, { rkey: 1 })],
  ['BOUNDS', 'a further copy in another region', (w) => addressed(w, { rkey: w.safe.rkey })],
  ['BOUNDS', 'a further copy of another slot', (w) => addressed(w, { slot: 2 })],
  ['BOUNDS', 'a further copy that names the first', (w) => addressed(w, { view: 2 })],
  ['BOUNDS', 'a further copy of another length', (w) => addressed(w, { length: 63 })],
  [
    'PERSIST_HEADER',
    'addresses of copies of a record that carries one',
    (w) => ({ ...only(w), flags: el.ADDRESSED, address: 2 ** 32 + 2 * 2 ** 28 }),
  ],
]

function only({ queue, records }: World): ElementFields {
  return record(queue, records, 1, 1, dataOf(RECORD_BYTES, 1))
}

function carried(w: World, copies: number, length: number): ElementFields {
  const inline = dataOf(length, 1)
  return { ...only(w), inline, flags: el.CARRIED, furtherCopies: copies - 1 }
}

const BYTES: readonly Row[] = [
  [
    'PERSIST_HEADER',
    'bytes with a guard, which nobody would compare',
    ({ safe }) => ({ ...persisted(safe), immediate: 1, inline: dataOf(8, 1) }),
  ],
  [
    'PERSIST_HEADER',
    'several copies of bytes',
    ({ safe }) => ({
      ...persisted(safe),
      flags: el.CARRIED,
      furtherCopies: 1,
      inline: dataOf(8, 1),
    }),
  ],
  [
    'ELEMENT_LENGTH',
    'a WRITE longer than any',
    ({ queue, bytes }) => long(queue, bytes, kind.WRITE),
  ],
  ['ELEMENT_LENGTH', 'a READ longer than any', ({ queue, bytes }) => long(queue, bytes, kind.READ)],
  [
    'BOUNDS',
    'a READ that ends behind the region',
    ({ queue, bytes }) => ({ ...to(bytes, 8185), opcode: kind.READ, ...at(queue, 8) }),
  ],
  ['FLUSH_FORM', 'a FLUSH of a placement that is none', ({ bytes }) => flush(bytes, 4)],
  [
    'FLUSH_FORM',
    'a FLUSH of a selectivity that is none',
    ({ bytes }) => flush(bytes, 2 * WHOLE + 1),
  ],
  ['KEY', 'a FLUSH under no key', () => flush({ rkey: 1, base: 0 }, PERSISTENT)],
  ['BOUNDS', 'a FLUSH of a range behind the region', ({ bytes }) => flush(bytes, PERSISTENT, 8193)],
  ['KEY', 'an atomic under no key', () => ({ opcode: kind.FETCH_ADD, rkey: 1 })],
  ['KEY', 'an ATOMIC WRITE under no key', () => ({ opcode: kind.ATOMIC_WRITE, rkey: 1 })],
  [
    'ALIGNMENT',
    'an ATOMIC WRITE between two words',
    ({ bytes }) => ({ ...to(bytes, 4), opcode: kind.ATOMIC_WRITE }),
  ],
]

function to({ rkey, base }: World['bytes'], offset = 0): Pick<ElementFields, 'rkey' | 'address'> {
  return { rkey, address: base + offset }
}

function persisted(region: World['bytes']): ElementFields {
  return { ...to(region), opcode: kind.WRITE_PERSIST, wait: 1, operation: 1 }
}

function flush(region: World['bytes'], operand: number, length = 8): ElementFields {
  return { ...to(region), opcode: kind.FLUSH, compare: operand, length }
}

function long(queue: LocalQueue, region: World['bytes'], opcode: number): ElementFields {
  const { host } = queue
  const length = LOCAL_BYTES_MAX + 1
  const local = host.allocate(length, 4096)
  return { ...to(region), opcode, local, lkey: host.register(local, length), length }
}

describe('a field that cannot be', () => {
  test.each([...RECORDS, ...BYTES])('%s: %s ends the queue, and stores nothing', (fault, _, of) => {
    const w = world()
    const fields = of(w)
    const { host, qp } = w.queue
    const before = host.card.nvdimm.live.slice()
    const cqe = one(w.queue, fields)
    expect(cqe.status).not.toBe(el.WC_SUCCESS)
    expect(host.zone1(qp.send)).toMatchObject({ state: QUEUE_ERROR, fault })
    expect(Buffer.compare(host.card.nvdimm.live, before)).toBe(0)
  })

  test('LEVEL: bytes are durable in one copy, or refused; the queue lives', () => {
    const w = world()
    const refused = one(w.queue, { ...persisted(w.safe), wait: 2, inline: dataOf(8, 1) })
    expect(refused.status).toBe(el.WC_GENERAL_ERR)
    expect(w.queue.host.zone1(w.queue.qp.send).state).toBe(QUEUE_READY)
    expect(one(w.queue, { ...persisted(w.safe), inline: dataOf(8, 1) }).flags).toBe(el.DURABLE)
  })

  test('a FLUSH of no bytes, of the whole region, to visibility alone: each is served', () => {
    const w = world()
    for (const operand of [GLOBAL, PERSISTENT, GLOBAL | PERSISTENT, WHOLE + GLOBAL]) {
      expect(one(w.queue, flush(w.bytes, operand, 0)).status).toBe(el.WC_SUCCESS)
    }
    expect(one(w.queue, flush(w.bytes, WHOLE + PERSISTENT, 2 ** 31)).status).toBe(el.WC_SUCCESS)
  })
})

describe('a part that fails', () => {
  test('D-13, H6: without save energy nothing is said to be durable, and a READ is served', () => {
    const w = world()
    const { host } = w.queue
    const asks: ElementFields[] = [
      { ...persisted(w.safe), inline: dataOf(8, 1) },
      { ...to(w.safe), opcode: kind.WRITE, inline: dataOf(8, 1) },
      flush(w.bytes, PERSISTENT),
    ]
    for (const fields of asks) {
      const other = { ...w.queue, qp: host.createQp(w.queue.cq) }
      host.card.nvdimm.armed = false
      const cqe = one(other, fields)
      expect(cqe.status).not.toBe(el.WC_SUCCESS)
      expect(host.zone1(other.qp.send)).toMatchObject({ fault: 'NOT_DURABLE' })
      host.card.nvdimm.armed = true
    }
    const read = { ...to(w.bytes), opcode: kind.READ, ...at(w.queue, 8) }
    host.card.nvdimm.armed = false
    expect(one(w.queue, read).status).toBe(el.WC_SUCCESS)
  })

  test('H7: a READ of a line that is lost, and a WRITE to one that takes nothing', () => {
    const w = world()
    const { host } = w.queue
    const { nvdimm } = host.card
    expect(one(w.queue, { ...to(w.bytes), opcode: kind.WRITE, inline: dataOf(64, 7) }).status).toBe(
      0,
    )
    const line = Buffer.from(nvdimm.live).indexOf(dataOf(64, 7)) / LINE_BYTES
    nvdimm.poison(line)
    const read = { ...to(w.bytes), opcode: kind.READ, ...at(w.queue, 64) }
    expect(one(w.queue, read).status).not.toBe(el.WC_SUCCESS)
    expect(host.zone1(w.queue.qp.send).fault).toBe('UNREADABLE')
    nvdimm.refuseWrites(line)
    for (const fields of [
      { ...to(w.bytes), opcode: kind.WRITE, inline: dataOf(8, 1) },
      { ...to(w.bytes), opcode: kind.ATOMIC_WRITE, operation: 5 },
    ]) {
      const other = { ...w.queue, qp: host.createQp(w.queue.cq) }
      expect(one(other, fields).status).not.toBe(el.WC_SUCCESS)
      expect(host.zone1(other.qp.send).fault).toBe('UNREADABLE')
    }
  })

  test('D-13: whatever fence fails, what stands behind it is not said to be durable', () => {
    const asks: readonly ((w: World) => ElementFields[])[] = [
      (w) => [{ ...persisted(w.safe), inline: dataOf(8, 1) }],
      (w) => [{ ...to(w.safe), opcode: kind.FETCH_ADD, operation: 1 }],
      (w) => [
        { ...to(w.bytes), opcode: kind.WRITE, inline: dataOf(8, 1) },
        flush(w.bytes, PERSISTENT),
      ],
      // The record's group is committed first, and closes the part under the FLUSH.
      (w) => [record(w.queue, w.records, 1, 1, dataOf(64, 1)), flush(w.bytes, PERSISTENT)],
      (w) => [
        record(w.queue, w.records, 1, 1, dataOf(64, 1)),
        { ...persisted(w.safe), inline: dataOf(8, 1) },
      ],
    ]
    for (const [i, ask] of asks.entries()) {
      for (let k = 1; ; k++) {
        const w = world()
        const { nvdimm, machine } = w.queue.host.card
        const fences = failFence({ machine, nvdimm }, k)
        const cqes = play(w.queue, ...ask(w))
        if (fences.passed < k) break
        // A record in front may have been durable before.
        const { flags, opcode, status } = cqes.at(-1)!
        expect([i, k, flags & el.DURABLE]).toEqual([i, k, 0])
        if (opcode === kind.FLUSH) expect(status).not.toBe(el.WC_SUCCESS)
      }
    }
  })
})
