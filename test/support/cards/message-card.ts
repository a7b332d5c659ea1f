/**
 * A card with a host behind it, one pair of which is connected to a client that sends frames: what
 * a batch with messages may go to (S1-M9).
 */

import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type CutChoice, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { State } from '../../../firmware/core.ts'
import * as el from '../../../firmware/host/element.ts'
import { TYPE_CONNECTED } from '../../../firmware/host/queue-info.ts'
import { PLACEMENT_LOCAL, PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RawAgentQueues } from '../queues/agent-host.ts'
import { stationOf } from '../queues/queue-calls.ts'
import { type Cqe, elementOf, type QueueHost, readying } from '../queues/queue-host.ts'
import { type BatchRecord, bytesMember } from './batch-card.ts'
import { attachedAgent, believe, PushedHost, work } from './placed.ts'
import { TestCard, type TestPeer, type TestRegion } from './test-card.ts'

const SLOTS = 64
const CAPACITY = 64
const AREA_BYTES = 4096
const BUFFER_BYTES = 1 << 17
/** The client whose frames they are. */
const STATION = 1
/** The client of every pair, as its host names it. */
const CLIENT = 7

/** A message that the host was told of. */
export interface Message {
  readonly data: Uint8Array
  readonly operation: number
}

/** A member of a batch that is a message for the host. */
export function messageMember(data: Uint8Array): BatchRecord {
  return {
    ...{ slot: 0, data, wait: 1 },
    reth: { rkey: 0, vaHigh: 0, vaLow: 0 },
    pweth: { slotAddressed: false, message: true },
  }
}

interface Made {
  readonly mtu?: number
  /** Entries of the completion queue of the receives. */
  readonly entries?: number
  /** Where the records lie, unless it is the card's own NVDIMM: PLACEMENT_*. */
  readonly placement?: number
}

const HOST_BYTES = 1 << 18

export class MessageCard {
  readonly card: TestCard
  readonly state: State
  readonly host: QueueHost
  readonly region: TestRegion
  readonly area: TestRegion
  /** The client's side of the pair. */
  readonly qp: TestPeer
  readonly buffer: number
  readonly lkey: number
  readonly sendCq: number
  readonly receiveCq: number
  private readonly mtu: number
  private pair: { send: number; receive: number; number: number }
  /** Bytes of the buffer that receives have; and where each receive of a queue goes. */
  private used = 0
  private readonly places: Map<string, number> = new Map()

  /** On a new part, or as that one is found. */
  constructor(part: Nvdimm | null = null, made: Made = {}) {
    let state: State | null = null
    const start = (machine: Parameters<typeof bootDirect>[0]): ReturnType<typeof bootDirect> =>
      bootDirect(machine, (seen) => {
        state = seen
      })
    this.mtu = made.mtu ?? 1024
    const { placement = PLACEMENT_LOCAL } = made
    const memory =
      placement === PLACEMENT_LOCAL
        ? null
        : new HostMemory({
            part: new Nvdimm({ bytes: HOST_BYTES }),
            platform: placement === PLACEMENT_THROUGH ? DDIO_ON : DDIO_OFF,
          })
    const ram = new HostRam(1 << 20, memory?.link)
    this.card = new TestCard(part ?? 1 << 18, { start, ram, host: memory })
    this.host = new PushedHost(this.card)
    this.host.init(64)
    if (part === null) this.provision(placement)
    this.region = this.card.open('records')
    this.area = this.card.open('area')
    this.state = state!
    this.sendCq = this.host.createCq(64)
    this.receiveCq = this.host.createCq(made.entries ?? 256)
    this.buffer = this.host.allocate(BUFFER_BYTES, 4096)
    this.lkey = this.host.register(this.buffer, BUFFER_BYTES)
    this.pair = { send: 0, receive: 0, number: 0 }
    this.qp = this.connect()
  }

  private provision(placement: number): void {
    this.card.format()
    if (placement !== PLACEMENT_LOCAL) believe(this.card, placement)
    const shape = { name: 'records', slots: SLOTS, capacity: CAPACITY, placement }
    if (placement === PLACEMENT_THROUGH) {
      // Its first image is written back by the host.
      const agent = attachedAgent(this.card, new RawAgentQueues(this.host))
      this.card.provision(shape)
      work(this.card, agent)
    } else {
      this.card.provision(shape)
    }
    const bytes = { kind: mad.KIND_BYTES, length: AREA_BYTES, flags: mad.REGION_WRITE_PERSIST }
    this.card.provision({ name: 'area', slots: 0, ...bytes })
  }

  /** One more pair, whose receives are those that are posted from now on. */
  connect(client: number = CLIENT): TestPeer {
    const { host, mtu } = this
    this.pair = host.createQp(this.sendCq, {
      ...{ type: TYPE_CONNECTED, receiveCompletions: this.receiveCq, client, units: 256 },
    })
    const { number } = this.pair
    const peer = { number: 0x100 + number, mtu, peerPsn: 0x1000, psn: 0x2000, incarnation: 0 }
    host.must(
      mad.METHOD_SET,
      mad.ATTRIBUTE_MODIFY_QP,
      readying(this.pair.send, { ...peer, ...stationOf(STATION) }),
    )
    const operation = this.qp?.operation ?? 1000
    return { number, peer: peer.number, mtu, psn: peer.peerPsn, operation }
  }

  /** Posts receives, each of so many bytes; those of the pair that was connected last. */
  receive(length: number, count = 1): void {
    const { receive } = this.pair
    for (let i = 0; i < count; i++) {
      const local = this.buffer + this.used
      const fields = { opcode: el.WQE_RECEIVE, local, length, lkey: this.lkey }
      const unit = this.host.post(
        receive,
        elementOf(length === 0 ? { opcode: el.WQE_RECEIVE } : fields),
      )
      this.places.set(`${receive}:${unit}`, local)
      this.used += length
    }
    this.host.ring(receive)
    this.host.run()
  }

  /** The completions of receives that the host has, and has not taken. */
  completions(): Cqe[] {
    this.host.ram.link.arrive()
    return this.host.poll(this.receiveCq)
  }

  /** What the host was told of, and has not taken yet. */
  messages(): Message[] {
    return this.completions().map((cqe) => {
      if (cqe.status !== el.WC_SUCCESS || cqe.opcode !== el.WQE_RECEIVE) {
        throw new Error(`no message: ${JSON.stringify(cqe)}`)
      }
      const at = this.places.get(`${cqe.queue}:${cqe.unit}`)!
      return { data: this.host.bytes.slice(at, at + cqe.length), operation: cqe.operation }
    })
  }

  /** The card after a cut that leaves of the pending stores what `choice` says; its host is new. */
  after(choice: CutChoice): MessageCard {
    this.card.machine.die()
    cut(this.card.nvdimm, choice)
    return new MessageCard(this.card.nvdimm, { mtu: this.mtu })
  }

  /** A member that is a record. */
  record(slot: number, data: Uint8Array): BatchRecord {
    return { slot, data, reth: { rkey: this.region.rkey } }
  }

  /** A member that goes to the area, from that byte on. */
  bytes(offset: number, data: Uint8Array): BatchRecord {
    return bytesMember(this.area, offset, data)
  }

  /** A member that is a message for the host. */
  message(data: Uint8Array): BatchRecord {
    return messageMember(data)
  }

  /** What the slot holds; null where nothing can be read. */
  found(slot: number, length: number = CAPACITY): Uint8Array | null {
    return this.card.read(this.card.connect(), this.region, slot, 0, length)
  }
}
