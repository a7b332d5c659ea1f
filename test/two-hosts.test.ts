/**
 * Two hosts, each behind its own DPU, on one bad network: host A persists into a region of DPU B,
 * and the two hosts send each other messages, all of it by queues in their own memory (source 3),
 * for every placement of the region (source 2). No host touches a packet.
 */

import { afterEach, expect, test, vi } from 'vitest'
import { DDIO_OFF, DDIO_ON, type Engine, Random } from '../boards/emulator/index.ts'
import { DURABLE, RECEIVED } from '../firmware/host/element.ts'
import { WRITE_PERSIST } from '../firmware/transport/requester.ts'
import { connect } from '../host-driver/index.ts'
import type { Management } from '../host-driver/management.ts'
import type { CompletionQueue } from '../host-driver/pcie/completion-queue.ts'
import type { PcieDevice } from '../host-driver/pcie/device.ts'
import type { PcieQueuePair } from '../host-driver/pcie/queue-pair.ts'
import type { Completion, Work } from '../host-driver/pcie/work.ts'
import type { GrowthForm } from '../host-driver/pcie/work-queue.ts'
import { sleep } from '../host-driver/way.ts'
import {
  type Machine,
  MachineRoom,
  managementOf,
  openDevice,
  registerMemory,
} from './support/hosts.ts'
import { endpointOf } from './support/network.ts'

vi.setConfig({ testTimeout: 120_000 })

const SEED = Number(process.env.SEED ?? 11)
const BAD = { loss: 0.05, duplication: 0.05, reordering: 0.05 }
const BAD_BELLS = { lost: 0.1, twice: 0.1, torn: 0.1, late: 0.1 }

const PLACEMENTS = { local: null, bypass: DDIO_OFF, through: DDIO_ON } as const
type Placement = keyof typeof PLACEMENTS

const SLOTS = 64
const CAPACITY = 1000

interface Pair {
  readonly room: MachineRoom
  readonly a: Machine
  readonly b: Machine
  /** The drivers on the two hosts. */
  readonly hostA: PcieDevice
  readonly hostB: PcieDevice
  /** Control calls of host A to DPU B. */
  readonly toB: Management
  readonly random: Random
}

const rooms: MachineRoom[] = []
afterEach(() => {
  for (const room of rooms.splice(0)) room.clock.stop()
})

/** Two machines on a bad network; then their doorbells go bad, and the caches of contexts small. */
async function pair(seed: number, engine: Engine, placement: Placement = 'local'): Promise<Pair> {
  const room = new MachineRoom({ seed, faults: BAD, latencyUs: 2 })
  rooms.push(room)
  const a = await room.addMachine(2, { engine })
  const b = await room.addMachine(3, { engine, platform: PLACEMENTS[placement] })
  room.clock.start()
  const hostA = await openDevice(a, { seed: seed + 1 })
  const hostB = await openDevice(b, { seed: seed + 2 })
  await hostB.management.format(new Uint8Array(16).fill(7))
  await registerMemory(b, hostB)
  const random = new Random(seed)
  for (const { port } of [a, b]) port.chances = { random, ...BAD_BELLS }
  for (const host of [hostA, hostB]) {
    await host.management.setCache({ policy: 'random', capacity: 12 })
  }
  return { room, a, b, hostA, hostB, toB: managementOf(hostA, 3, seed + 3), random }
}

/** Lets time go by until `done`; a run that needs longer than a minute is stuck. */
async function until(host: PcieDevice, what: string, done: () => boolean): Promise<void> {
  const endUs = host.now() + 60_000_000
  while (!done()) {
    if (host.now() > endUs) throw new Error(`${what}: nothing more happens`)
    await sleep(host, 50)
  }
}

/** Which completions came, of one queue: the elements' own numbers, in the order of completion. */
interface Told {
  readonly units: number[]
  readonly operations: bigint[]
}

/**
 * One queue pair of host A to DPU B, which writes records into slots of its own, as many as have
 * room; and everything that its completion queues say.
 */
class Writer {
  readonly qp: PcieQueuePair
  readonly slots: number
  readonly first: number
  readonly last: Map<number, Uint8Array> = new Map()
  readonly units: number[] = []
  readonly received: Told = { units: [], operations: [] }
  readonly durable: Told = { units: [], operations: [] }
  private readonly rkey: number
  private readonly twoSteps: boolean
  private readonly random: Random

  constructor(qp: PcieQueuePair, first: number, slots: number, rkey: number, random: Random) {
    this.qp = qp
    this.first = first
    this.slots = slots
    this.rkey = rkey
    this.random = random
    this.twoSteps = random.chance(0.5)
  }

  get posted(): number {
    return this.units.length
  }

  get isTwoSteps(): boolean {
    return this.twoSteps
  }

  /** Posts up to `count` records, as far as there is room. */
  write(count: number): void {
    const { qp, random } = this
    this.keepReceives()
    for (let i = 0; i < count; i++) {
      const data = bytesOf(1 + random.below(CAPACITY), random)
      const slot = this.first + random.below(this.slots)
      const work: Work = {
        kind: WRITE_PERSIST,
        data,
        rkey: this.rkey,
        address: BigInt(slot) << 32n,
        operation: BigInt(this.posted + 1),
        wait: 2,
        twoSteps: this.twoSteps,
      }
      if (qp.unitsOf(work) > qp.send.free) return
      this.units.push(...qp.post(work))
      this.last.set(slot, data)
    }
  }

  /** In two steps a record takes a RECEIVE, too: as many as there is room for. */
  private keepReceives(): void {
    const { receive } = this.qp
    if (!this.twoSteps || this.random.chance(0.3)) return
    for (let room = receive.depth - receive.outstanding.size; room > 0; room--) {
      this.qp.postReceive({ range: null })
    }
  }

  take(completion: Completion): void {
    const { status, flags, queue, unit, operation, copies } = completion
    expect(status).toBe('SUCCESS')
    const ofReceive = queue === this.qp.receive.queue
    const isReceived = this.twoSteps && !ofReceive
    expect(flags & (RECEIVED | DURABLE)).toBe(isReceived ? RECEIVED : DURABLE)
    if (!isReceived) expect(copies).toBe(2)
    const told = isReceived ? this.received : this.durable
    told.units.push(unit)
    told.operations.push(operation)
  }

  get isDone(): boolean {
    const { received, durable, posted, twoSteps } = this
    return durable.units.length >= posted && (!twoSteps || received.units.length >= posted)
  }

  /**
   * Every record exactly once. In one step they are told of in the order in which they were posted;
   * in two so are those that were received, and what is durable in any order (P2-27), each by the
   * RECEIVE that was next.
   */
  check(): void {
    const { received, durable, posted, twoSteps, units } = this
    const operations = Array.from({ length: posted }, (_, i) => BigInt(i + 1))
    const inOrder = twoSteps ? received : durable
    expect(inOrder, `in ${twoSteps ? 'two steps' : 'one step'}`).toEqual({ units, operations })
    if (!twoSteps) return
    expect(durable.units).toEqual(operations.map((_, i) => i))
    expect(durable.operations.toSorted((a, b) => Number(a - b))).toEqual(operations)
  }
}

function bytesOf(length: number, random: Random): Uint8Array {
  return Uint8Array.from({ length }, () => random.below(256))
}

/** Connects a queue pair of host A to DPU B, in the name of that client. */
async function connectToB({ toB, random }: Pair, qp: PcieQueuePair, client: bigint): Promise<void> {
  const peerPsn = random.below(1 << 24)
  const granted = await toB.connect(qp.number, peerPsn, 4096, 0, client)
  await qp.ready({
    queuePair: granted.queuePair,
    peerPsn,
    psn: granted.firstPsn,
    pathMtu: granted.pathMtu,
    incarnation: granted.incarnation,
    readDepth: 16,
    ...endpointOf(3),
  })
}

/** Hands the completions of these queues to whose they are, whenever there are some. */
function listen(cqs: readonly CompletionQueue[], take: (completion: Completion) => void): void {
  for (const cq of cqs) {
    cq.onReady = () => {
      if (cq.end === null) cq.arm()
      for (const completion of cq.poll(1000)) take(completion)
    }
    cq.arm()
  }
}

/** Looks for what nobody told us of: an interrupt may be moderated, never lost for good. */
function sweep(cqs: readonly CompletionQueue[], take: (completion: Completion) => void): void {
  for (const cq of cqs) for (const completion of cq.poll(1000)) take(completion)
}

const FORMS: readonly GrowthForm[] = ['message', 'lock']
const RECORDS = 80

/** Four writers; their queues grow while they write. */
async function writeAndGrow(two: Pair, rkey: number): Promise<Writer[]> {
  const { hostA, random } = two
  const cqs = [await hostA.createCq({ entries: 64 }), await hostA.createCq({ entries: 64 })]
  const writers: Writer[] = []
  for (let i = 0; i < 4; i++) {
    const [sendCq, receiveCq] = i % 2 === 0 ? [cqs[0]!, cqs[1]!] : [cqs[1]!, cqs[0]!]
    const clientId = BigInt(100 + i)
    const sizes = { sendUnits: 16, receiveUnits: 16, inlineMax: 256 * (i % 3) }
    const shape = { type: 'connected', sendCq, receiveCq, clientId, ...sizes } as const
    const qp = await hostA.createQp(shape)
    await connectToB(two, qp, clientId)
    writers.push(new Writer(qp, 16 * i, 16, rkey, random))
  }
  const take = (completion: Completion): void => {
    const { queue } = completion
    writers
      .find(({ qp }) => qp.send.queue === queue || qp.receive.queue === queue)!
      .take(completion)
  }
  listen(cqs, take)
  const growths: Promise<void>[] = []
  const grow = (i: number): void => {
    const form = FORMS[i % 2]!
    const { qp } = writers[i]!
    growths.push(qp.grow('receive', 64, form).then(() => qp.grow('send', 64, form)))
    // A completion queue that is at work cannot be locked: its room is promised (QUEUE_BUSY).
    if (i < 2) growths.push(cqs[i]!.grow(256))
  }
  await until(hostA, 'records', () => {
    for (const [i, writer] of writers.entries()) {
      const before = writer.posted
      writer.write(Math.min(random.below(6), RECORDS - before))
      if (before < RECORDS / 3 && writer.posted >= RECORDS / 3) grow(i)
    }
    return writers.every((writer) => writer.posted === RECORDS && writer.isDone)
  })
  await Promise.all(growths)
  await sleep(hostA, 10_000)
  sweep(cqs, take)
  expect(cqs.map(({ ghosts }) => ghosts)).toEqual([0, 0])
  return writers
}

const WAYS = (['local', 'bypass', 'through'] as const).flatMap((placement) =>
  (['node', 'quickjs'] as const).map((engine) => [placement, engine] as const),
)

test.each(WAYS)(
  `host A persists to DPU B by queues that grow: %s, %s (seed ${SEED})`,
  async (placement, engine) => {
    const two = await pair(SEED, engine, placement)
    const shape = { name: 'orders', slots: SLOTS, capacity: CAPACITY, placement }
    const { rkey } = await two.hostB.management.provision(shape, 0)
    const writers = await writeAndGrow(two, rkey)
    for (const writer of writers) writer.check()
    const { evictions, refills } = (await two.hostA.management.queues()).counters
    expect(Number(evictions)).toBeGreaterThan(0)
    expect(Number(refills)).toBeGreaterThan(0)
    // An auditor with a wire of its own reads what DPU B has.
    const auditor = await connect(two.room.addHost(), { seed: SEED + 9, peer: endpointOf(3) })
    const region = await auditor.openRegion('orders')
    for (const { last } of writers) {
      for (const [slot, data] of last) expect((await region.read(slot)).data).toEqual(data)
    }
  },
)
