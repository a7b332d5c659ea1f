/**
 * The control calls that only the host itself may make, through its own queue of management.
 *
 * Invariants:
 * - As of every control call (management.ts): repeated until it is answered, taken twice without
 *   harm, refused by a typed error with the name of the fault.
 * - A card knows a repetition by the last answers that it has given (firmware/manage/once.ts): no
 *   call begins that is CALLS_AT_ONCE behind one that is not answered. As datagrams stay in order,
 *   fewer than that are executed between a call and its last repetition.
 */

import { PAGE_BYTES, REGIONS, RESPONDER_RESOURCES } from '../../firmware/board/limits.ts'
import { putU16, putU32, u32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { putU64, u64 } from '../base/wide.ts'
import type { Endpoint } from '../base/wire.ts'
import { bodyOf } from '../control/body.ts'
import type { Granted, Management } from '../control/management.ts'
import type { Ring } from './queues/doorbell.ts'
import type { QueueCalls } from './queues/work-queue.ts'

/** Doorbells that go into one call. */
export const RINGS_MAX: number = mad.RING_MAX

/** Pages that go into one call. */
export const PAGES_MAPPED_AT_ONCE: number = mad.MAP_MAX
export const PAGES_UNMAPPED_AT_ONCE: number = mad.UNMAP_MAX

/** Fewer than the answers that a card keeps: others ask it, too. */
const CALLS_AT_ONCE = 12

/** A completion queue to be made. */
interface CompletionQueueShape {
  readonly ring: number
  readonly entries: number
  readonly count: number
  readonly periodUs: number
}

/** A queue pair to be made. */
interface QueuePairShape {
  readonly type: number
  readonly domain: number
  readonly sendCq: number
  readonly receiveCq: number
  readonly sendRing: number
  readonly sendUnits: number
  readonly receiveRing: number
  readonly receiveUnits: number
  readonly clientId: bigint
}

/** The queues of a pair, and its number on the wire, 0 of one that has none. */
export interface QueuePairNumbers {
  readonly send: number
  readonly receive: number
  readonly number: number
}

/** Memory of the host to be registered on demand. */
export interface OnDemandShape {
  /** As a name on the wire: up to 32 bytes of UTF-8. */
  readonly name: Uint8Array
  readonly length: number
  readonly base: bigint
  readonly domain: number
  readonly rights: number
  /** Virtual address of its first byte, where the host's IOMMU translates. */
  readonly shared?: number
}

/** What a card has made of it. */
interface OnDemandPlace {
  readonly rkey: number
  /** Number of its address space for the card, where the IOMMU translates. */
  readonly space: number
}

/** Of a page: the IOMMU knows where it is. */
export const IN_PLACE = -1

/** A page, and the address of the frame in which it is, or IN_PLACE. */
export type PlacedPage = readonly [page: number, at: number]

/** What a queue pair is connected to. */
export interface Peer {
  /** Number of the peer's queue pair. */
  readonly queuePair: number
  /** PSN of the peer's first request, and of ours. */
  readonly peerPsn: number
  readonly psn: number
  /** Payload bytes of a packet: 256, 512, 1024, 2048 or 4096. */
  readonly pathMtu: number
  /** Incarnation of the part at the other end; 0 where it sends no PERSIST_ACK. */
  readonly incarnation: number
  /** READs and atomics that the peer takes at once. */
  readonly readDepth: number
  /** Messages of ours that the peer takes at once, as was agreed; 0, or absent, is any number. */
  readonly sendDepth?: number
  readonly mac: readonly number[]
  readonly ipv4: readonly number[]
}

/** READs and atomics that a peer takes at once. */
const READ_DEPTH: number = RESPONDER_RESOURCES

/** The peer that granted a connection, at its place; its first request has that PSN. */
export function peerOf(granted: Granted, peerPsn: number, { mac, ipv4 }: Endpoint): Peer {
  const { queuePair, firstPsn: psn, pathMtu, incarnation } = granted
  const depths = { readDepth: READ_DEPTH, sendDepth: granted.agreed?.send ?? 0 }
  return { queuePair, peerPsn, psn, pathMtu, incarnation, ...depths, mac, ipv4 }
}

export class Control implements QueueCalls {
  private readonly management: Management
  /** Whoever waits for the turn of a call, and the numbers of those under way, in order. */
  private readonly waiting: ((number: number) => void)[] = []
  private readonly under: Set<number> = new Set()
  private begun = 0

  constructor(management: Management) {
    this.management = management
  }

  async createCq(shape: CompletionQueueShape): Promise<number> {
    const body = bodyOf()
    putU64(body, mad.CREATE_CQ_RING, shape.ring)
    putU32(body, mad.CREATE_CQ_ENTRIES, shape.entries)
    putU16(body, mad.CREATE_CQ_COUNT, shape.count)
    putU16(body, mad.CREATE_CQ_PERIOD, shape.periodUs)
    const answer = await this.set('make a completion queue', mad.ATTRIBUTE_CREATE_CQ, body)
    return u32(answer, mad.CREATE_CQ_QUEUE)
  }

  async createQp(shape: QueuePairShape): Promise<QueuePairNumbers> {
    const body = bodyOf()
    body[mad.CREATE_QP_TYPE] = shape.type
    putU16(body, mad.CREATE_QP_DOMAIN, shape.domain)
    putU32(body, mad.CREATE_QP_SEND_CQ, shape.sendCq)
    putU32(body, mad.CREATE_QP_RECEIVE_CQ, shape.receiveCq)
    putU32(body, mad.CREATE_QP_SEND_UNITS, shape.sendUnits)
    putU64(body, mad.CREATE_QP_SEND_RING, shape.sendRing)
    putU64(body, mad.CREATE_QP_RECEIVE_RING, shape.receiveRing)
    putU32(body, mad.CREATE_QP_RECEIVE_UNITS, shape.receiveUnits)
    putU64(body, mad.CREATE_QP_CLIENT, shape.clientId)
    const answer = await this.set('make a queue pair', mad.ATTRIBUTE_CREATE_QP, body)
    return {
      send: u32(answer, mad.CREATE_QP_SEND),
      receive: u32(answer, mad.CREATE_QP_RECEIVE),
      number: u32(answer, mad.CREATE_QP_NUMBER),
    }
  }

  /** Makes a pair ready to receive and to send (`state` QUEUE_READY), or ends it (QUEUE_ERROR). */
  async modifyQp(send: number, state: number, peer: Peer | null): Promise<void> {
    const body = bodyOf([mad.MODIFY_QP_SEND, send])
    body[mad.MODIFY_QP_STATE] = state
    if (peer !== null) {
      putU16(body, mad.MODIFY_QP_MTU, peer.pathMtu)
      putU32(body, mad.MODIFY_QP_PEER, peer.queuePair)
      putU32(body, mad.MODIFY_QP_PEER_PSN, peer.peerPsn)
      putU32(body, mad.MODIFY_QP_PSN, peer.psn)
      putU32(body, mad.MODIFY_QP_INCARNATION, peer.incarnation)
      body[mad.MODIFY_QP_DEPTH] = peer.readDepth
      putU16(body, mad.MODIFY_QP_SEND_DEPTH, peer.sendDepth ?? 0)
      body.set(peer.mac, mad.MODIFY_QP_MAC)
      body.set(peer.ipv4, mad.MODIFY_QP_IPV4)
    }
    await this.set(`change queue ${send}`, mad.ATTRIBUTE_MODIFY_QP, body)
  }

  /** Ends a queue pair with both queues, or a completion queue. */
  async destroy(queue: number, timeoutUs?: number): Promise<void> {
    const body = bodyOf([mad.DESTROY_QUEUE, queue])
    await this.set(`end queue ${queue}`, mad.ATTRIBUTE_DESTROY, body, timeoutUs)
  }

  /** Registers memory; the L_Key. */
  async register(address: number, length: number, domain: number): Promise<number> {
    const body = bodyOf()
    putU64(body, mad.REGISTER_ADDRESS, address)
    putU64(body, mad.REGISTER_LENGTH, length)
    putU16(body, mad.REGISTER_DOMAIN, domain)
    const what = `register ${length} bytes at ${address}`
    return u32(await this.set(what, mad.ATTRIBUTE_REGISTER, body), mad.REGISTER_LKEY)
  }

  async deregister(lkey: number): Promise<void> {
    const body = bodyOf([mad.DEREGISTER_LKEY, lkey])
    await this.set(`deregister ${lkey}`, mad.ATTRIBUTE_DEREGISTER, body)
  }

  async writeQueue(queue: number, zone2: Uint8Array): Promise<void> {
    const body = bodyOf([mad.QUEUE_WRITE_QUEUE, queue])
    body.set(zone2, mad.QUEUE_WRITE_ZONE2)
    await this.set(`change zone 2 of queue ${queue}`, mad.ATTRIBUTE_QUEUE_WRITE, body)
  }

  async lockQueue(queue: number): Promise<number> {
    const body = bodyOf([mad.QUEUE_LOCK_QUEUE, queue])
    const answer = await this.set(`lock queue ${queue}`, mad.ATTRIBUTE_QUEUE_LOCK, body)
    return u32(answer, mad.QUEUE_LOCK_TOKEN)
  }

  async releaseQueue(queue: number, token: number): Promise<void> {
    const body = bodyOf([mad.QUEUE_LOCK_QUEUE, queue], [mad.QUEUE_LOCK_TOKEN, token])
    await this.set(`release queue ${queue}`, mad.ATTRIBUTE_QUEUE_RELEASE, body)
  }

  /** Doorbells, up to RINGS_MAX (P3-13). */
  async ring(rings: readonly Ring[]): Promise<void> {
    const body = bodyOf([mad.RING_COUNT, rings.length])
    rings.forEach(([queue, pointer], i) => {
      putU32(body, mad.RING_FIRST + 8 * i, queue)
      putU32(body, mad.RING_FIRST + 8 * i + 4, pointer)
    })
    await this.set('ring', mad.ATTRIBUTE_RING, body)
  }

  /** Registers memory whose pages come and go, none of which is there. */
  async onDemand(shape: OnDemandShape): Promise<OnDemandPlace> {
    const body = bodyOf()
    body.set(shape.name, mad.ON_DEMAND_NAME)
    putU64(body, mad.ON_DEMAND_LENGTH, shape.length)
    putU64(body, mad.ON_DEMAND_BASE_HIGH, shape.base)
    putU16(body, mad.ON_DEMAND_DOMAIN, shape.domain)
    putU16(body, mad.ON_DEMAND_RIGHTS, shape.rights)
    const what = `register '${Buffer.from(shape.name).toString('utf8')}' on demand`
    if (shape.shared !== undefined) {
      body[mad.ON_DEMAND_FLAGS] = mad.ON_DEMAND_SHARED
      putU64(body, mad.ON_DEMAND_SHARED_HIGH, shape.shared)
    }
    const answer = await this.set(what, mad.ATTRIBUTE_ON_DEMAND, body)
    const space = u32(answer, mad.ON_DEMAND_PLACE) - REGIONS
    return { rkey: u32(answer, mad.ON_DEMAND_RKEY), space }
  }

  /** Pages of such memory, up to PAGES_MAPPED_AT_ONCE, are there. */
  async mapPages(rkey: number, sequence: number, pages: readonly PlacedPage[]): Promise<void> {
    const body = bodyOf(
      [mad.MAP_RKEY, rkey],
      [mad.MAP_SEQUENCE, sequence],
      [mad.MAP_COUNT, pages.length],
    )
    pages.forEach(([page, at], i) => {
      putU32(body, mad.MAP_FIRST + i * mad.MAP_ENTRY_BYTES, page)
      const frame = at === IN_PLACE ? mad.MAP_IN_PLACE : at / PAGE_BYTES
      putU32(body, mad.MAP_FIRST + i * mad.MAP_ENTRY_BYTES + 4, frame)
    })
    await this.set(`map ${pages.length} pages`, mad.ATTRIBUTE_MAP, body)
  }

  /** Up to PAGES_UNMAPPED_AT_ONCE are not: when this resolves the card touches them no more. */
  async unmapPages(rkey: number, sequence: number, pages: readonly number[]): Promise<void> {
    const body = bodyOf(
      [mad.UNMAP_RKEY, rkey],
      [mad.UNMAP_SEQUENCE, sequence],
      [mad.UNMAP_COUNT, pages.length],
    )
    pages.forEach((page, i) => {
      putU32(body, mad.UNMAP_FIRST + i * mad.UNMAP_ENTRY_BYTES, page)
    })
    await this.set(`unmap ${pages.length} pages`, mad.ATTRIBUTE_UNMAP, body)
  }

  /** Ends such memory: when this resolves the card touches none of it any more. */
  async endOnDemand(rkey: number): Promise<void> {
    const body = bodyOf([mad.ON_DEMAND_END_RKEY, rkey])
    await this.set('end memory on demand', mad.ATTRIBUTE_ON_DEMAND_END, body)
  }

  /** What requesters are told of all of it: ON_DEMAND_READY, or a kind of memory status. */
  async onDemandState(rkey: number, kind: number): Promise<void> {
    const body = bodyOf([mad.ON_DEMAND_STATE_RKEY, rkey])
    body[mad.ON_DEMAND_STATE_KIND] = kind
    await this.set('state of memory on demand', mad.ATTRIBUTE_ON_DEMAND_STATE, body)
  }

  /** What the card has heard of memory that a send queue follows: the body of the answer. */
  residency(queue: number, rkey: number, first: number): Promise<Uint8Array> {
    const body = bodyOf(
      [mad.RESIDENCY_QUEUE, queue],
      [mad.RESIDENCY_RKEY, rkey],
      [mad.RESIDENCY_FIRST, first],
    )
    const what = `the status of memory, from block ${first} on`
    return this.call(what, mad.METHOD_GET, mad.ATTRIBUTE_RESIDENCY, body)
  }

  /** Has the card tell of what batches store into a region (NOTICES_*); or ends that. */
  async batchNotices(
    region: number,
    queue: number,
    each: number,
  ): Promise<{ readonly missed: number; readonly sequence: bigint }> {
    const body = bodyOf([mad.NOTICES_REGION, region], [mad.NOTICES_QUEUE, queue])
    body[mad.NOTICES_EACH] = each
    const what = `tell of batches into region ${region}`
    const answer = await this.set(what, mad.ATTRIBUTE_BATCH_NOTICES, body)
    return {
      missed: u32(answer, mad.NOTICES_MISSED),
      sequence: u64(answer, mad.NOTICES_SEQUENCE),
    }
  }

  private set(
    what: string,
    attribute: number,
    body: Uint8Array,
    timeoutUs?: number,
  ): Promise<Uint8Array> {
    return this.call(what, mad.METHOD_SET, attribute, body, timeoutUs)
  }

  private call(
    what: string,
    method: number,
    attribute: number,
    body: Uint8Array,
    timeoutUs?: number,
  ): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.waiting.push((number) => {
        const over = (): void => {
          this.under.delete(number)
          this.begin()
        }
        const call = this.management.call(what, method, attribute, 0, body, timeoutUs)
        call.then(resolve, reject)
        call.then(over, over)
      })
      this.begin()
    })
  }

  private begin(): void {
    while (this.waiting.length > 0) {
      const [oldest = this.begun] = this.under
      if (this.begun - oldest >= CALLS_AT_ONCE) return
      this.under.add(this.begun)
      this.waiting.shift()!(this.begun++)
    }
  }
}
