/**
 * Two hosts, each behind its own DPU, on one bad network: host A persists into a region of DPU B,
 * and the two hosts send each other messages, all of it by queues in their own memory (source 3),
 * for every placement of the region (source 2). No host touches a packet.
 */

import { afterEach, expect, test } from 'vitest'
import { DDIO_OFF, DDIO_ON, type Engine, Random } from '../../boards/emulator/index.ts'
import { DURABLE, RECEIVED } from '../../firmware/host/element.ts'
import { SEND, WRITE_PERSIST } from '../../firmware/transport/requester.ts'
import { sleep } from '../../host-driver/base/clock.ts'
import type { PcieDevice } from '../../host-driver/card/device.ts'
import type { HostBuffer } from '../../host-driver/card/queues/buffers.ts'
import type { CardQueuePair } from '../../host-driver/card/queues/card-queue-pair.ts'
import type { CompletionQueue } from '../../host-driver/card/queues/completion-queue.ts'
import type { Completion, QueueElement } from '../../host-driver/card/queues/values.ts'
import type { GrowthForm } from '../../host-driver/card/queues/work-queue.ts'
import type { Management } from '../../host-driver/control/management.ts'
import { connect, PerdureError } from '../../host-driver/index.ts'
import {
  type Machine,
  MachineRoom,
  managementOf,
  openDevice,
  registerMemory,
} from '../support/peers/hosts.ts'
import { endpointOf } from '../support/peers/network.ts'
import { divided } from '../support/run/thorough.ts'
import { importsOf, sourcesBelow } from '../support/source/sources.ts'

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

/**
 * Longer than a record may wait for its PERSIST_ACK, µs: 200 ms, then for each of 7 repeats 200 ms
 * more than before are 7.2 s. On this network one repeat in six gets no answer.
 */
const PATIENCE_US = 10_000_000

/** Lets time go by until `done`; a run that needs longer than that is stuck. */
async function until(host: PcieDevice, what: string, done: () => boolean): Promise<void> {
  const endUs = host.now() + PATIENCE_US
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
  readonly qp: CardQueuePair
  readonly slots: number
  readonly first: number
  readonly last: Map<number, Uint8Array> = new Map()
  readonly units: number[] = []
  readonly received: Told = { units: [], operations: [] }
  readonly durable: Told = { units: [], operations: [] }
  private readonly rkey: number
  private readonly twoSteps: boolean
  private readonly random: Random

  constructor(qp: CardQueuePair, first: number, slots: number, rkey: number, random: Random) {
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
      const work: QueueElement = {
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
async function connectToB({ toB, random }: Pair, qp: CardQueuePair, client: bigint): Promise<void> {
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
const RECORDS = 64

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

for (const { rows, options } of divided(
  WAYS,
  ([placement, engine]) => placement !== 'through' && engine === 'quickjs',
)) {
  test.each(rows)(
    `host A persists to DPU B by queues that grow: %s, %s (seed ${SEED})`,
    options,
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
}

/** One direction: host `from` sends messages of any length to host `to`, which takes its time. */
class Channel {
  readonly sent: Uint8Array[] = []
  readonly found: Uint8Array[] = []
  readonly done: number[] = []
  readonly units: number[] = []
  private readonly free: HostBuffer[] = []
  private readonly random: Random
  readonly from: CardQueuePair
  readonly to: CardQueuePair

  constructor(from: CardQueuePair, to: CardQueuePair, host: PcieDevice, random: Random) {
    this.from = from
    this.to = to
    this.random = random
    for (let i = 0; i < 12; i++) this.free.push(host.alloc(MESSAGE_MAX))
  }

  /** Posts some messages, as far as there is room. */
  send(most: number): void {
    const { from, random, sent } = this
    for (let i = random.below(5); i > 0 && sent.length < most; i--) {
      const data = bytesOf(random.chance(0.1) ? 0 : 1 + random.below(MESSAGE_MAX), random)
      const work: QueueElement = {
        kind: SEND,
        data,
        done: ({ status, unit }) => {
          expect(status).toBe('SUCCESS')
          this.done.push(unit)
        },
      }
      if (from.unitsOf(work) > from.send.free) return
      this.units.push(...from.post(work))
      sent.push(data)
    }
  }

  /** Posts RECEIVEs for some of the free buffers: now and then none at all (P2-25). */
  receive(): void {
    const { to, random, free } = this
    for (let i = random.below(4); i > 0; i--) {
      if (to.receive.depth === to.receive.outstanding.size) return
      const buffer = free.pop()
      if (buffer === undefined) return
      const done = ({ status, length }: Completion): void => {
        expect(status).toBe('SUCCESS')
        this.found.push(buffer.load(0, length))
        free.push(buffer)
      }
      to.postReceive({ range: buffer.range(to.lkey), done })
    }
  }
}

const MESSAGE_MAX = 3000
const MESSAGES = 90

/** A queue pair on each host, connected by their numbers and starting PSNs. */
async function connectHosts(two: Pair): Promise<[CardQueuePair, CardQueuePair]> {
  const { random } = two
  const made = []
  for (const host of [two.hostA, two.hostB]) {
    const sendCq = await host.createCq({ entries: 16 })
    const qp = await host.createQp({ type: 'connected', sendCq, sendUnits: 8, inlineMax: 128 })
    made.push({ host, qp, psn: random.below(1 << 24) })
  }
  for (const [i, { qp, psn }] of made.entries()) {
    const peer = made[1 - i]!
    await qp.ready({
      queuePair: peer.qp.number,
      peerPsn: peer.psn,
      psn,
      pathMtu: 1024,
      incarnation: 0,
      readDepth: 4,
      ...peer.host.endpoint,
    })
  }
  return [made[0]!.qp, made[1]!.qp]
}

for (const { rows, options } of divided(
  ['node', 'quickjs'] as const,
  (engine) => engine === 'quickjs',
)) {
  test.each(rows)(
    `hosts send each other messages by queues that grow: %s (seed ${SEED})`,
    options,
    async (engine) => {
      const two = await pair(SEED, engine)
      const { hostA, hostB, random } = two
      const [a, b] = await connectHosts(two)
      for (const { sendCq } of [a, b]) sendCq.dispatch(() => {})
      const channels = [new Channel(a, b, hostB, random), new Channel(b, a, hostA, random)]
      const growths: Promise<void>[] = []
      const grow = (qp: CardQueuePair, form: GrowthForm): void => {
        const pair = qp.grow('receive', 32, form).then(() => qp.grow('send', 32, form))
        growths.push(pair, qp.sendCq.grow(64))
      }
      await until(hostA, 'messages', () => {
        for (const [i, channel] of channels.entries()) {
          const before = channel.found.length
          channel.send(MESSAGES)
          channel.receive()
          if (growths.length === 2 * i && before > MESSAGES / 3) grow(channel.from, FORMS[i]!)
        }
        return channels.every(({ found, done }) => found.length + done.length >= 2 * MESSAGES)
      })
      await Promise.all(growths)
      await sleep(hostA, 10_000)
      for (const { sent, found, units, done } of channels) {
        expect(found).toEqual(sent)
        expect(done).toEqual(units)
      }
      for (const { sendCq } of [a, b]) expect(sendCq.ghosts).toBe(0)
    },
  )
}

type Victim = 'DPU A' | 'DPU B' | 'both DPUs' | 'the PCIe link of host A'

/** Takes the power, or the card, away now, and gives it back after a while. */
function strike(two: Pair, victim: Victim): void {
  const { room, a, b, random } = two
  const later = (us: number, act: () => void): void => {
    room.clock.schedule(room.clock.nowUs + us, act)
  }
  if (victim === 'the PCIe link of host A') {
    a.link.remove(random.below(a.link.postedWrites + 1))
    later(AWAY_US, () => a.link.restore())
    return
  }
  for (const machine of [a, b]) {
    if (victim === (machine === a ? 'DPU B' : 'DPU A')) continue
    machine.dpu.powerCut()
    later(AWAY_US, () => void machine.dpu.powerOn().then(() => startAnew(machine)))
  }
}

/** A host with persistent memory has lost its power, too: its driver begins again. */
async function startAnew(machine: Machine): Promise<void> {
  if (machine.persistent === null) return
  await registerMemory(machine, await openDevice(machine, { seed: SEED + 20 }))
}

const AWAY_US = 20_000
const ROUNDS = 3

function record(slot: number, round: number): Uint8Array {
  const length = 1 + ((slot * 137 + round * 71) % CAPACITY)
  return Uint8Array.from({ length }, (_, i) => (i * 7 + slot * 31 + round) & 0xff)
}

for (const { rows, options } of divided(
  [
    ['DPU A', 'local', 'node'],
    ['DPU B', 'local', 'quickjs'],
    ['both DPUs', 'bypass', 'node'],
    ['DPU B', 'through', 'node'],
    ['both DPUs', 'through', 'quickjs'],
    ['the PCIe link of host A', 'through', 'node'],
  ] as const,
  ([, placement, engine]) => placement === 'through' && engine === 'quickjs',
)) {
  test.each(rows)(
    `X-1: no acknowledged record is lost while one is away: %s; %s, %s (seed ${SEED})`,
    options,
    async (victim, placement, engine) => {
      const two = await pair(SEED, engine, placement)
      const { room, hostA, hostB, random } = two
      const shape = { name: 'orders', slots: SLOTS, capacity: CAPACITY, placement }
      await hostB.management.provision(shape, 0)
      const dpu = await connect(hostA, { seed: SEED + 4, peer: endpointOf(3) })
      const orders = await dpu.openRegion('orders')
      const acknowledged = new Map<number, number>()
      const refused: unknown[] = []
      const writes: Promise<unknown>[] = []
      let ended = 0
      for (let round = 1; round <= ROUNDS; round++) {
        for (let slot = 0; slot < SLOTS; slot++) {
          const told = (): void => {
            acknowledged.set(slot, Math.max(round, acknowledged.get(slot) ?? 0))
          }
          const { persisted } = orders.persist(slot, record(slot, round))
          const end = persisted.then(told, (error) => refused.push(error))
          writes.push(end.then(() => ended++))
        }
      }
      let before = 0
      room.clock.schedule(room.clock.nowUs + 200 + random.below(1000), () => {
        before = ended
        strike(two, victim)
      })
      await Promise.all(writes)
      expect(before).toBeLessThan(writes.length)
      // What is refused was refused until the memory of host B was proven again, and says so.
      for (const error of refused) {
        expect(error).toBeInstanceOf(PerdureError)
        expect(placement, String(error)).not.toBe('local')
      }
      expect(acknowledged.size).toBeGreaterThan(0)
      const { framesSent, framesReceived } = dpu.statistics()
      expect([framesSent, framesReceived]).toEqual([0, 0])
      const auditor = await connect(room.addHost(), { seed: SEED + 9, peer: endpointOf(3) })
      const region = await auditor.openRegion('orders')
      for (const [slot, round] of acknowledged) {
        const { data } = await region.read(slot)
        const found = Array.from({ length: ROUNDS }, (_, i) => i + 1).find(
          (one) => Buffer.compare(record(slot, one), data) === 0,
        )
        expect(found, `slot ${slot}`).toBeGreaterThanOrEqual(round)
      }
    },
  )
}

test('no file of the driver over PCIe makes or reads a frame', () => {
  const ours = ['card', 'verbs'].flatMap((folder) => sourcesBelow(`host-driver/${folder}`))
  const headers = 'firmware/wire/(packet|bth|ethernet|ipv4|udp)'
  const ofFrames = new RegExp(`^(host-driver/frames/.*|host-driver/way/pcap|${headers})\\.ts$`)
  const wrong = ours.flatMap((source) =>
    importsOf(source)
      .filter(({ file, types }) => !types && ofFrames.test(file ?? ''))
      .map(({ from }) => `${source.path} imports ${from}`),
  )
  expect(ours.length).toBeGreaterThan(20)
  expect(ofFrames.test('host-driver/frames/session.ts')).toBe(true)
  expect(wrong).toEqual([])
})
