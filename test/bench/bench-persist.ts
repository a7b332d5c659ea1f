/**
 * What one durable record costs, by the ways there are to get one: source 2's write-persist with
 * source 1's dual slot against what its figures 2 and 3 do without it, and against IBTA FLUSH. All
 * of them from our own driver to the local card, over one link, in virtual time (bench-card.ts).
 *
 * Counted is what crosses the wire and what passes the queues, not what a formula says. A work
 * request is what a program hands to a NIC, on either side; a completion is what it takes back. A
 * round trip begins when a host sends a request for which it had to wait for the card.
 *
 * The last ways store into the memory of a host behind the card, through its caches: each record
 * waits for that host's CPU, which the card asks for over its queues.
 */

import { DDIO_ON, HostMemory, Nvdimm } from '../../boards/emulator/index.ts'
import { has, RESPONSE, SEND } from '../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket } from '../../firmware/wire/packet.ts'
import { sleep } from '../../host-driver/base/clock.ts'
import { startFlushAgent } from '../../host-driver/card/agent-queues.ts'
import { PcieDevice } from '../../host-driver/card/device.ts'
import type { RegionPlacement } from '../../host-driver/control/part.ts'
import {
  type BytesRegion,
  connect,
  type Dpu,
  dualWrite,
  probePlacement,
  type Region,
} from '../../host-driver/index.ts'
import { cpuOf, hostSideOf } from '../support/cards/placed.ts'
import { MODEL, openTimedCard, type TimedCard } from './bench-card.ts'

const RECORDS = 256
const SLOTS = 64
const REGION_BYTES = 1 << 20
const PART_BYTES = 1 << 22

/** What one way costs per record. */
export interface Cost {
  readonly way: string
  readonly recordBytes: number
  /** Records that were in flight at once. */
  readonly inFlight: number
  /** Copies of a record that are durable when it is done. */
  readonly copies: number
  /** Is a record old or new as a whole, whatever happens? */
  readonly atomic: boolean
  readonly messages: number
  readonly messageBytes: number
  /** Of a record alone; 0 where several were in flight. */
  readonly roundTrips: number
  readonly hostRequests: number
  readonly hostCompletions: number
  readonly cardRequests: number
  readonly cardCompletions: number
  readonly fences: number
  /** From the first request to the word that it is durable, µs of virtual time. */
  readonly latencyUs: number
  /** Records per second of virtual time. */
  readonly recordsPerSecond: number
}

/** The queues of the host: what is handed over, what is taken back. */
class Host {
  requests = 0
  completions = 0
  readonly card: TimedCard
  readonly dpu: Dpu
  readonly records: Region
  readonly bytes: BytesRegion
  readonly durable: BytesRegion

  constructor(
    card: TimedCard,
    dpu: Dpu,
    regions: { records: Region; bytes: BytesRegion; durable: BytesRegion },
  ) {
    this.card = card
    this.dpu = dpu
    this.records = regions.records
    this.bytes = regions.bytes
    this.durable = regions.durable
  }

  /** One work request, and its completion. */
  async post<T>(work: Promise<T>): Promise<T> {
    this.requests += 1
    const result = await work
    this.completions += 1
    return result
  }

  /** The CPU sees a completion, and decides what comes next. */
  think(): Promise<void> {
    return sleep(this.card.wire, MODEL.hostUs)
  }
}

interface Way {
  readonly name: string
  readonly copies: number
  readonly atomic: boolean
  /** Where its regions lie; with the card unless given. */
  readonly placement?: RegionPlacement
  /** Records that one run makes durable; 1 unless given. */
  readonly records?: number
  /** Makes record `i`, and those behind it that belong to the run, durable. */
  run(host: Host, i: number, data: Uint8Array): Promise<unknown>
}

/** Bytes from one record to the next in a region of bytes: the longest, and a slot header. */
const STRIDE_BYTES = 4096 + 64

const KEY = new Uint8Array(16).fill(1)

/** Where record `i` lies in a region of bytes. */
function placeOf(i: number): number {
  return (i % SLOTS) * STRIDE_BYTES
}

/** What a message says that asks for durability: an address and a length. */
const ASKING = new Uint8Array(16)

export const WRITE_PERSIST = 'write-persist'

/** The ways, the product's own first. */
export const WAYS: readonly Way[] = [
  {
    name: WRITE_PERSIST,
    copies: 2,
    atomic: true,
    run: (host, i, data) => host.post(host.records.persist(i % SLOTS, data).persisted),
  },
  {
    name: 'WRITE, ACK withheld',
    copies: 1,
    atomic: false,
    run: (host, i, data) => host.post(host.durable.write(placeOf(i), data)),
  },
  {
    name: 'WRITE; READ (fig. 2)',
    copies: 1,
    atomic: false,
    run: async (host, i, data) => {
      await host.post(host.bytes.write(placeOf(i), data))
      await host.think()
      await host.post(host.bytes.read(placeOf(i), 8))
    },
  },
  {
    name: 'WRITE ▸ READ',
    copies: 1,
    atomic: false,
    run: (host, i, data) =>
      Promise.all([
        host.post(host.bytes.write(placeOf(i), data)),
        host.post(host.bytes.read(placeOf(i), 8)),
      ]),
  },
  {
    name: 'WRITE; SEND (fig. 3)',
    copies: 1,
    atomic: false,
    run: async (host, i, data) => {
      await host.post(host.bytes.write(placeOf(i), data))
      await host.think()
      await Promise.all([
        host.post(host.dpu.messages.next()),
        host.post(host.dpu.send(ASKING, { solicited: true })),
      ])
    },
  },
  {
    name: 'WRITE ▸ SEND',
    copies: 1,
    atomic: false,
    run: (host, i, data) =>
      Promise.all([
        host.post(host.bytes.write(placeOf(i), data)),
        host.post(host.dpu.messages.next()),
        host.post(host.dpu.send(ASKING, { solicited: true })),
      ]),
  },
  {
    name: 'WRITE ▸ FLUSH',
    copies: 1,
    atomic: false,
    run: (host, i, data) =>
      Promise.all([
        host.post(host.bytes.write(placeOf(i), data)),
        host.post(host.bytes.flush(placeOf(i), data.length)),
      ]),
  },
  {
    name: 'client dual write',
    copies: 2,
    atomic: true,
    run: async (host, i, data) => {
      // The client computes the check code here, which the card does for write-persist.
      await sleep(host.card.wire, data.length / MODEL.checkBytesPerUs)
      const offset = (i % SLOTS) * STRIDE_BYTES
      const a = { memory: host.bytes, offset }
      const b = { memory: host.bytes, offset: offset + REGION_BYTES / 2 }
      const work = dualWrite({ places: [a, b], key: KEY, bytes: data, sequence: BigInt(i + 1) })
      host.requests += 4
      const { outcomes } = await work
      host.completions += outcomes.length
    },
  },
]

/** Records under one status. */
const BATCH_RECORDS = 8

/** The same promises in the memory of a host, through its caches. */
export const THROUGH_WAYS: readonly Way[] = [
  {
    name: 'through: write-persist',
    copies: 2,
    atomic: true,
    placement: 'through',
    run: (host, i, data) => host.post(host.records.persist(i % SLOTS, data).persisted),
  },
  {
    name: 'through: batches of 8',
    copies: 2,
    atomic: true,
    placement: 'through',
    records: BATCH_RECORDS,
    run: async (host, i, data) => {
      const batch = host.records.batch()
      for (let n = 0; n < BATCH_RECORDS; n++) batch.persist((i + n) % SLOTS, data)
      host.requests += BATCH_RECORDS
      const { durable } = await batch.commit()
      host.completions += durable
    },
  },
  {
    name: 'through: WRITE, RNR',
    copies: 1,
    atomic: false,
    placement: 'through',
    run: (host, i, data) => host.post(host.durable.write(placeOf(i), data)),
  },
  {
    name: 'through: WRITE ▸ FLUSH',
    copies: 1,
    atomic: false,
    placement: 'through',
    run: (host, i, data) =>
      Promise.all([
        host.post(host.bytes.write(placeOf(i), data)),
        host.post(host.bytes.flush(placeOf(i), data.length)),
      ]),
  },
]

/** What crossed the wire. */
class Tally {
  messages = 0
  messageBytes = 0
  roundTrips = 0
  /** Messages that took a receive entry of the card, and those that the card sent itself. */
  cardRequests = 0
  private heard = true
  private readonly packet = blankPacket()

  /** The next request of the host begins a new record. */
  begin(): void {
    this.heard = true
  }

  take(frame: Uint8Array, fromCard: boolean): void {
    const { packet } = this
    if (checkPacket(packet, frame, 0, frame.length) !== 0 || packet.row!.transport !== 'rc') return
    const { properties } = packet.row!
    const request = !has(properties, RESPONSE)
    this.messages += 1
    this.messageBytes += frame.length
    if (request && has(properties, SEND)) this.cardRequests += 1
    if (fromCard) {
      this.heard = true
    } else if (request) {
      if (this.heard) this.roundTrips += 1
      this.heard = false
    }
  }
}

/** The host behind the card shows its memory, and its agent is there. */
async function register({ port }: TimedCard, memory: HostMemory, dpu: Dpu): Promise<void> {
  const side = { ...hostSideOf({ host: memory }), ...cpuOf(memory) }
  const device = await PcieDevice.open(port!, { seed: 1 })
  await probePlacement(side, dpu.host)
  await startFlushAgent(side, dpu.host, device)
}

async function openHost(recordBytes: number, placement: RegionPlacement): Promise<Host> {
  const hasHost = placement !== 'local'
  const part = new Nvdimm({ bytes: PART_BYTES })
  const memory = hasHost ? new HostMemory({ part, platform: DDIO_ON }) : null
  const card = openTimedCard(PART_BYTES, memory)
  const dpu = await connect(card.wire, { seed: 1 })
  await dpu.format()
  if (memory !== null) await register(card, memory, dpu)
  const shape = { length: REGION_BYTES, placement }
  const slots = { slots: SLOTS, capacity: recordBytes, placement }
  const records = await dpu.provision({ name: 'records', ...slots })
  const bytes = await dpu.provisionBytes({ name: 'bytes', ...shape })
  const durable = await dpu.provisionBytes({ name: 'durable', ...shape, writePersist: true })
  return new Host(card, dpu, { records, bytes, durable })
}

/** What one way costs, record by record or with several in flight. */
export async function costOf(way: Way, recordBytes: number, inFlight: number): Promise<Cost> {
  const { placement = 'local', records = 1 } = way
  const host = await openHost(recordBytes, placement)
  const { card } = host
  const { clock, machine } = card
  const data = new Uint8Array(recordBytes).fill(7)
  for (let i = 0; i < 8; i += records) await way.run(host, i, data)
  await sleep(card.wire, 1000)
  const tally = new Tally()
  const before = { fences: machine.statistics.fences, ...host }
  card.onFrame = (frame, fromCard) => tally.take(frame, fromCard)
  const began = clock.nowUs
  let latencies = 0
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < RECORDS) {
      const i = next
      next += records
      const from = clock.nowUs
      tally.begin()
      await way.run(host, i, data)
      latencies += (clock.nowUs - from) * records
      await host.think()
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  const spent = clock.nowUs - began
  // Whatever is still under way belongs to these records.
  await sleep(card.wire, 1000)
  const per = (count: number): number => count / RECORDS
  const cost: Cost = {
    way: way.name,
    recordBytes,
    inFlight,
    copies: way.copies,
    atomic: way.atomic,
    messages: per(tally.messages),
    messageBytes: per(tally.messageBytes),
    roundTrips: inFlight === 1 ? per(tally.roundTrips) : 0,
    hostRequests: per(host.requests - before.requests),
    hostCompletions: per(host.completions - before.completions),
    cardRequests: per(tally.cardRequests),
    cardCompletions: per(tally.cardRequests),
    fences: per(machine.statistics.fences - before.fences),
    latencyUs: per(latencies),
    recordsPerSecond: Math.round((RECORDS / spent) * 1e6),
  }
  card.close()
  return cost
}

const HEAD = [
  'way',
  'bytes',
  'fly',
  'copies',
  'msgs',
  'trips',
  'WRs',
  'CQEs',
  'fences',
  'µs',
  '× msgs',
  '× µs',
]

/**
 * One line for each way. `fly` is how many are in flight; WRs and CQEs, work requests and
 * completions, are the host's and the card's. A ratio compares with write-persist, of as many bytes
 * and as many in flight.
 */
export function tableOf(all: readonly Cost[]): string[][] {
  const rows = all.map((cost) => {
    const own = all.find(
      (one) =>
        one.way === WRITE_PERSIST &&
        one.recordBytes === cost.recordBytes &&
        one.inFlight === cost.inFlight,
    )!
    return [
      cost.way,
      String(cost.recordBytes),
      String(cost.inFlight),
      String(cost.copies),
      cost.messages.toFixed(2),
      cost.inFlight === 1 ? shortest(cost.roundTrips) : '-',
      `${cost.hostRequests}+${cost.cardRequests}`,
      `${cost.hostCompletions}+${cost.cardCompletions}`,
      cost.fences.toFixed(2),
      cost.latencyUs.toFixed(2),
      (cost.messages / own.messages).toFixed(2),
      (cost.latencyUs / own.latencyUs).toFixed(2),
    ]
  })
  return [HEAD, ...rows]
}

/** A count per record: whole, or a part of one. */
function shortest(count: number): string {
  return count.toFixed(Number.isInteger(count) ? 0 : 2)
}

/** Every way, at both sizes, alone and with 32 in flight. */
export async function costs(): Promise<Cost[]> {
  const all: Cost[] = []
  for (const recordBytes of [64, 4096]) {
    for (const inFlight of [1, 32]) {
      for (const way of [...WAYS, ...THROUGH_WAYS]) {
        all.push(await costOf(way, recordBytes, inFlight))
      }
    }
  }
  return all
}
