/**
 * One valid frame of every kind, to be patched: where its fields are, what follows it.
 *
 * Invariant: a kind is made once for a world, for a queue pair that does not exist; whoever
 * sends it fills in queue pair, PSN and operation.
 */

import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import { OPCODES } from '../../../firmware/wire/opcode.ts'
import type { Pweth } from '../../../firmware/wire/persist.ts'
import { writeSlotImage } from '../../../host-driver/link/slot-image.ts'
import { judgedGuard } from '../../support/judges/crc32c.ts'
import { dataOf, type TestRegion } from '../../support/wire/conversation.ts'
import { type FrameParts, frameOf } from '../../support/wire/frames.ts'

export const MTU = 256

/** A field of a frame: its offset, and its width in bytes. */
export interface Field {
  readonly at: number
  readonly width: number
}

export interface Kind {
  readonly name: string
  readonly opcode: number
  readonly frame: Uint8Array
  readonly bthAt: number
  /** PSNs that it consumes when it is taken. */
  readonly psns: number
  /** Offset of the lower word of its operation id, or 0. */
  readonly operationAt: number
  /** What completes the message. */
  readonly rest: readonly Kind[]
  readonly fields: readonly Field[]
  /** How often it is chosen, besides others. */
  readonly weight: number
}

/** The regions of a world, by what they are for. */
export interface Regions {
  readonly records: TestRegion
  readonly big: TestRegion
  readonly fixed: TestRegion
  readonly bytes: TestRegion
  readonly durable: TestRegion
  readonly long: TestRegion
  /** Of another domain. */
  readonly foreign: TestRegion
  /** Of which clients write the copies. */
  readonly pairs: TestRegion
}

interface Making {
  readonly weight?: number
  readonly psns?: number
  readonly rest?: readonly Kind[]
}

/** Fields of a frame: each byte, each pair and each word of every header. */
function fieldsOf(frame: Uint8Array, ipVersion: 4 | 6, payloadAt: number): Field[] {
  const fields: Field[] = []
  const add = (at: number, ...widths: number[]): void => {
    for (const width of widths) if (at + width <= frame.length) fields.push({ at, width })
  }
  for (const at of [0, 5, 6, 11, 12]) add(at, at === 12 ? 2 : 1)
  const udpAt = 14 + (ipVersion === 4 ? 20 : 40)
  for (let at = 14; at < udpAt; at++) add(at, 1)
  for (let at = 14; at < udpAt; at += 2) add(at, 2)
  for (let at = udpAt; at < udpAt + 8; at += 2) add(at, 2)
  for (let at = udpAt + 8; at < payloadAt; at++) add(at, 1)
  for (let at = udpAt + 8; at < payloadAt; at += 2) add(at, 2)
  for (let at = udpAt + 8; at < payloadAt; at += 4) add(at, 4, 4, 4, 4, 4, 4)
  // What is behind the headers of the opcode: extensions, and the begin of the payload.
  for (let at = payloadAt; at < Math.min(payloadAt + 48, frame.length - 4); at += 4) add(at, 4)
  return fields
}

/** The kinds of one IP version. */
export class Kinds {
  readonly all: Kind[] = []
  private readonly ipVersion: 4 | 6

  constructor(regions: Regions, ipVersion: 4 | 6) {
    this.ipVersion = ipVersion
    this.sends(regions)
    this.writes(regions)
    this.copies(regions)
    this.persists(regions)
    this.batches(regions)
    this.reads(regions)
    this.responses(regions)
    this.statuses(regions)
    this.datagrams()
  }

  private make(name: string, parts: FrameParts, making: Making = {}): Kind {
    const bth = { destQp: 2, psn: 0, ackRequest: true, ...parts.bth }
    const frame = frameOf({ ...parts, bth, ipVersion: this.ipVersion })
    const { opcode } = parts.bth
    const row = OPCODES[opcode]
    const bthAt = 14 + (this.ipVersion === 4 ? 28 : 48)
    const pwethAt = row?.pwethAt ?? 0
    const payloadAt = bthAt + (row?.headerBytes ?? 12)
    return {
      name: `${name}${this.ipVersion === 6 ? ' over IPv6' : ''}`,
      opcode,
      frame,
      bthAt,
      psns: making.psns ?? 1,
      operationAt: pwethAt === 0 ? 0 : bthAt + pwethAt + 12,
      rest: making.rest ?? [],
      fields: fieldsOf(frame, this.ipVersion, payloadAt),
      weight: making.weight ?? 1,
    }
  }

  private add(name: string, parts: FrameParts, making: Making = {}): Kind {
    const made = this.make(name, parts, making)
    this.all.push(made)
    return made
  }

  private sends(regions: Regions): void {
    const full = dataOf(MTU, 1)
    const some = dataOf(99, 2)
    const ieth = { rkey: regions.bytes.rkey }
    const imm = { immediate: 7 }
    const last = this.add('SEND Last', { bth: { opcode: 0x02 }, payload: some })
    const lastImm = this.add('SEND Last Imm', { bth: { opcode: 0x03 }, imm, payload: some })
    const lastInv = this.add('SEND Last Inv', { bth: { opcode: 0x16 }, ieth, payload: some })
    const middle = this.add('SEND Middle', { bth: { opcode: 0x01 }, payload: full })
    this.add('SEND First', { bth: { opcode: 0x00 }, payload: full }, { rest: [last] })
    this.add('SEND First, Imm', { bth: { opcode: 0x00 }, payload: full }, { rest: [lastImm] })
    const long = [middle, middle, lastInv]
    this.add('SEND First, long', { bth: { opcode: 0x00 }, payload: full }, { rest: long })
    const endless = Array.from({ length: 20 }, () => middle)
    this.add('SEND, endless', { bth: { opcode: 0x00 }, payload: full }, { rest: endless })
    this.add('SEND Only', { bth: { opcode: 0x04 }, payload: some })
    this.add('SEND Only, nothing', { bth: { opcode: 0x04 } })
    this.add('SEND Only Imm', { bth: { opcode: 0x05 }, imm, payload: some })
    this.add('SEND Only Inv', { bth: { opcode: 0x17 }, ieth, payload: some })
  }

  private writes({ bytes, durable, records, fixed, foreign, long }: Regions): void {
    const full = dataOf(MTU, 3)
    const imm = { immediate: 9 }
    const targets = [
      { name: 'WRITE', region: bytes, vaLow: 512, end: 100 },
      { name: 'WRITE persist', region: durable, vaLow: 1024, end: 100 },
      { name: 'WRITE foreign', region: foreign, vaLow: 0, end: 100 },
    ]
    for (const { name, region, vaLow, end } of targets) {
      const { rkey, baseHigh: vaHigh } = region
      const some = dataOf(end, 4)
      const length = 2 * MTU + end
      const reth = { rkey, vaHigh, vaLow, length }
      const one = { ...reth, length: end }
      const last = this.add(`${name} Last`, { bth: { opcode: 0x08 }, payload: some })
      const lastImm = this.add(`${name} Last Imm`, { bth: { opcode: 0x09 }, imm, payload: some })
      const middle = this.add(`${name} Middle`, { bth: { opcode: 0x07 }, payload: full })
      const first = { bth: { opcode: 0x06 }, reth, payload: full }
      this.add(`${name} First`, first, { rest: [middle, last] })
      this.add(`${name} First, Imm`, first, { rest: [middle, lastImm] })
      this.add(`${name} Only`, { bth: { opcode: 0x0a }, reth: one, payload: some }, { weight: 3 })
      this.add(`${name} Only Imm`, { bth: { opcode: 0x0b }, imm, reth: one, payload: some })
      const eight = { ...reth, length: 8 }
      const word = dataOf(8, 5)
      this.add(`${name} atomic`, { bth: { opcode: 0x1d }, reth: eight, payload: word })
      const atomic = { rkey, vaHigh, vaLow, swapLow: 5 }
      this.add(`${name} CmpSwap`, { bth: { opcode: 0x13 }, atomic })
      this.add(`${name} FetchAdd`, { bth: { opcode: 0x14 }, atomic })
    }
    for (const region of [records, fixed]) {
      const { rkey, capacity } = region
      const reth = { rkey, vaHigh: 2, vaLow: 0, length: capacity }
      const payload = dataOf(capacity, 6)
      this.add(`record by WRITE, ${region.name}`, { bth: { opcode: 0x0a }, reth, payload })
    }
    const none = { rkey: long.rkey, length: 0 }
    this.add('WRITE of nothing', { bth: { opcode: 0x0a }, reth: none })
  }

  /** Both copies of a record of a pair region, whole, in packets, torn; and their FLUSHes. */
  private copies({ pairs }: Regions): void {
    const record = { data: dataOf(100, 12), sequence: 5n, clientId: 3n, operationId: 5n }
    const one = writeSlotImage(record, pairs, 1)
    const long = writeSlotImage({ ...record, data: dataOf(300, 13), sequence: 6n }, pairs, 1)
    for (const copy of [0, 1]) {
      const name = `copy ${copy}`
      const place = { rkey: pairs.rkey, vaHigh: 1, vaLow: (2 + copy) * 2 ** 28 }
      const whole = { ...place, length: one.length }
      this.add(`${name} by WRITE`, { bth: { opcode: 0x0a }, reth: whole, payload: one })
      const torn = { bth: { opcode: 0x0a }, reth: { ...place, length: 40 } }
      this.add(`${name}, torn`, { ...torn, payload: one.subarray(0, 40) })
      const rest = long.subarray(MTU)
      const last = this.add(`${name} Last`, { bth: { opcode: 0x08 }, payload: rest })
      const first = { bth: { opcode: 0x06 }, reth: { ...place, length: long.length } }
      this.add(`${name} First`, { ...first, payload: long.subarray(0, MTU) }, { rest: [last] })
      const feth = { placement: 2, selectivity: 0 }
      this.add(`FLUSH of ${name}`, { bth: { opcode: 0x1c }, feth, reth: whole })
      this.add(`READ, ${name}`, { bth: { opcode: 0x0c }, reth: whole })
    }
  }

  private persists({ records, big, fixed, bytes, foreign }: Regions): void {
    const pweth = { wait: 2, slotAddressed: true, wantsAck: true }
    const only = (name: string, region: TestRegion, length: number, more: Partial<Pweth> = {}) =>
      this.add(
        `WRITE_PERSIST Only, ${name}`,
        {
          bth: { opcode: 0xca },
          reth: { vaHigh: region === bytes ? bytes.baseHigh : 1, rkey: region.rkey, length },
          pweth: { ...pweth, ...more },
          payload: dataOf(length, 7),
        },
        { weight: 2 },
      )
    only('records', records, records.capacity)
    only('one copy', records, 40, { wait: 1 })
    only('silent', records, 41, { wantsAck: false })
    only('fixed', fixed, fixed.capacity, { wait: 3 })
    only('of bytes', bytes, 64)
    only('foreign', foreign, 64)
    const carried = { ...pweth, carried: true, furtherCopies: 1 }
    const copies = Uint8Array.from([...dataOf(50, 8), ...dataOf(50, 8)])
    const reth = { vaHigh: 3, vaLow: 0, rkey: records.rkey, length: 50 }
    this.add('carried', { bth: { opcode: 0xca }, reth, pweth: carried, payload: copies })
    this.guarded(records, carried, copies)
    const named = { ...carried, slotAddressed: false }
    const extensions = [{ ...reth, vaLow: 3 * 2 ** 28 }]
    this.add('carried, addressed', {
      bth: { opcode: 0xca },
      reth: { ...reth, vaLow: 2 * 2 ** 28 },
      pweth: named,
      extensions,
      payload: copies,
    })
    const length = 3 * MTU + 32
    const last = this.add('PERSIST Last', { bth: { opcode: 0xc8 }, payload: dataOf(32, 9) })
    const middle = this.add('PERSIST Middle', { bth: { opcode: 0xc7 }, payload: dataOf(MTU, 9) })
    const first: FrameParts = {
      bth: { opcode: 0xc6 },
      reth: { vaHigh: 2, rkey: big.rkey, length },
      pweth,
      payload: dataOf(MTU, 9),
    }
    this.add('PERSIST First', first, { rest: [middle, middle, last], weight: 2 })
    this.add('PERSIST First, too long', first, { rest: [middle, middle, middle, last] })
    this.add('PERSIST First, too short', first, { rest: [middle, last] })
  }

  /** Records that bring the guard of their data, and one that is not the data's. */
  private guarded(records: TestRegion, carried: Partial<Pweth>, copies: Uint8Array): void {
    const guard = judgedGuard(copies.subarray(0, 50))
    const reth = { vaHigh: 3, vaLow: 0, rkey: records.rkey, length: 50 }
    const guarded = { ...carried, guarded: true }
    const alone = { ...guarded, carried: false, furtherCopies: 0 }
    const one = { bth: { opcode: 0xca }, reth, pweth: alone, payload: copies.subarray(0, 50) }
    this.add('guarded', { ...one, guard })
    this.add('guarded, damaged', { ...one, guard: guard - 1 })
    this.add('guarded, of nothing', { ...one, guard: 0 })
    this.add('guarded, carried', { ...one, guard, pweth: guarded, payload: copies })
  }

  /** Bursts of batches: whole, without an end, of every condition, and ones that contradict. */
  private batches({ records, big }: Regions): void {
    const member = (
      index: number,
      more: Partial<Pweth> = {},
      region: { readonly rkey: number } = records,
    ): Kind => {
      const expects = more.condition === 2
      return this.make(`batch ${index}`, {
        bth: { opcode: 0xca, ackRequest: more.lastOfBatch ?? false },
        reth: { vaHigh: region.rkey === 0 ? 0 : index % 8, rkey: region.rkey, length: 48 },
        pweth: {
          ...{ wait: 2, slotAddressed: true, wantsAck: true, batch: true, oneStatus: true },
          ...{ batchId: 5, batchIndex: index, batchCount: 4, ...more },
        },
        ...(expects ? { expect: BigInt(index) } : {}),
        payload: dataOf(48, 10 + index),
      })
    }
    const whole = (name: string, more: Partial<Pweth>, odd: Partial<Pweth> = {}): void => {
      const list = [0, 1, 2, 3].map((index) => {
        const mark = index === 3 ? { lastOfBatch: true } : {}
        return member(index, { ...more, ...mark, ...(index === 2 ? odd : {}) })
      })
      const [first, ...rest] = list
      this.all.push({ ...first!, name: `batch, ${name}`, rest: rest, weight: 2 })
      for (const one of rest) this.all.push({ ...one, name: `batch alone, ${name}` })
    }
    whole('independent', {})
    whole('in order', { condition: 1 })
    whole('expect', { condition: 2 })
    whole('another count', { condition: 1 }, { batchCount: 9 })
    whole('another id', { condition: 1 }, { batchId: 6 })
    whole('the same index', { condition: 1 }, { batchIndex: 1 })
    whole('no status', {}, { oneStatus: false })
    whole('carried', {}, { carried: true, furtherCopies: 1 })
    whole('a message with a place', {}, { message: true })
    const message = member(1, { slotAddressed: false, message: true, wait: 1 }, { rkey: 0 })
    this.all.push({ ...member(0), name: 'batch, a message', rest: [message, member(2)] })
    const foreign = member(2, {}, big)
    this.all.push({ ...member(0), name: 'batch, two regions', rest: [member(1), foreign] })
    const pqeth = { batch: true, batchId: 5 }
    this.add('query of a batch', { bth: { opcode: 0xcd }, pqeth })
    this.add('query', { bth: { opcode: 0xcd }, pqeth: { operationLow: 5 } })
  }

  private reads({ bytes, records, long, foreign, big }: Regions): void {
    const read = (
      name: string,
      region: TestRegion,
      slot: number,
      length: number,
      weight = 1,
    ): void => {
      const reth = { rkey: region.rkey, vaHigh: region.baseHigh + slot, vaLow: 0, length }
      const psns = Math.max(1, Math.ceil(length / MTU))
      this.add(`READ, ${name}`, { bth: { opcode: 0x0c }, reth }, { psns, weight })
    }
    read('bytes', bytes, 0, 64)
    read('of nothing', bytes, 0, 0)
    read('record', records, 1, 100)
    read('slot of records', big, 1, 700)
    read('foreign', foreign, 0, 64)
    read('long', long, 0, 70 * MTU, 0.04)
    for (const [placement, selectivity] of [
      [1, 0],
      [2, 0],
      [3, 1],
      [2, 1],
    ] as const) {
      const reth = { rkey: bytes.rkey, vaHigh: bytes.baseHigh, length: 600 }
      const feth = { placement, selectivity }
      this.add(`FLUSH ${placement}/${selectivity}`, { bth: { opcode: 0x1c }, feth, reth })
    }
    this.add('FLUSH of records', {
      bth: { opcode: 0x1c },
      feth: { placement: 2, selectivity: 1 },
      reth: { rkey: records.rkey, length: 0 },
    })
  }

  private responses({ bytes }: Regions): void {
    const aeth = { syndrome: 0x1f, msn: 1 }
    for (const opcode of [0x0d, 0x0e, 0x0f, 0x10]) {
      const payload = opcode < 0x0f ? dataOf(MTU, 3) : dataOf(30, 3)
      this.add(`READ Response 0x${opcode.toString(16)}`, { bth: { opcode }, aeth, payload })
    }
    this.add('Acknowledge', { bth: { opcode: 0x11 }, aeth })
    this.add('NAK', { bth: { opcode: 0x11 }, aeth: { syndrome: 0x60, msn: 1 } })
    this.add('ATOMIC Acknowledge', { bth: { opcode: 0x12 }, aeth })
    this.add('PERSIST_ACK', { bth: { opcode: 0xd1 }, aeth, paeth: { all: true, records: 1 } })
    this.add('BLOCK_SIZE Answer', { bth: { opcode: 0xd9 }, aeth, bseth: { blockSizeLog2: 12 } })
    this.add('CNP', { bth: { opcode: 0x81 }, payload: new Uint8Array(16) })
    this.add('reserved', { bth: { opcode: 0x18 } })
    this.add('of a datagram', {
      bth: { opcode: 0x64 },
      deth: { qkey: Q_KEY_GSI, sourceQp: bytes.id },
      payload: dataOf(32, 1),
    })
  }

  private statuses({ bytes, records, foreign }: Regions): void {
    for (const { name, rkey, baseHigh } of [bytes, records, foreign]) {
      const reth = { rkey, vaHigh: baseHigh, vaLow: 0, length: 4096 }
      const bseth = { blockSizeLog2: 12, optIn: true, current: true }
      this.add(`ASSOCIATE ${name}`, { bth: { opcode: 0xc5 }, reth, bseth })
      const said = { ...bseth, criteria: true, leastLog2: 12, mostLog2: 14, budgetLog2: 12 }
      this.add(`ASSOCIATE ${name}, with criteria`, { bth: { opcode: 0xc5 }, reth, bseth: said })
      this.add(`BLOCK_SIZE ${name}`, { bth: { opcode: 0xd8 }, reth: { rkey }, bseth })
      for (const op of [1, 2, 3, 4]) {
        this.add(`HINT ${op} ${name}`, { bth: { opcode: 0xcc }, reth, pfeth: { op } })
      }
      const mseth = { rkey, kind: 1, entries: 1, blockSizeLog2: 12 }
      const payload = Uint8Array.of(0, 0, 0, 0, 1)
      this.add(`MEMORY_STATUS ${name}`, { bth: { opcode: 0xc4 }, mseth, payload })
    }
  }

  private datagrams(): void {
    const deth = { qkey: Q_KEY_GSI, sourceQp: 1 }
    this.add('UD Imm', {
      bth: { opcode: 0x65, destQp: 1 },
      deth,
      imm: { immediate: 1 },
      payload: new Uint8Array(256),
    })
    this.add('UD, not ours', {
      bth: { opcode: 0x64, destQp: 1 },
      deth,
      payload: new Uint8Array(256),
    })
    this.add('UD, short', { bth: { opcode: 0x64, destQp: 1 }, deth, payload: new Uint8Array(8) })
  }
}
