/**
 * The management calls: what each asks, and what its answer says.
 *
 * Invariant: the DPU takes every request twice without harm, as often as calls.ts repeats it.
 */

import type { Peer } from '../../boards/software/peers.ts'
import { FAULTS, PASS } from '../../firmware/board/fault.ts'
import {
  COPIES_MAX,
  COPIES_MIN,
  HOST_QUEUES,
  ON_DEMAND_REGIONS,
  PAGE_BYTES,
  RECORD_BYTES_MAX,
  REGIONS,
  SLOTS_MAX,
} from '../../firmware/board/limits.ts'
import { agreedDepths, depthsFault } from '../../firmware/transport/depths.ts'
import { putU16, putU32, u16, u32 } from '../../firmware/wire/bytes.ts'
import { DEPTH_TOLD_MAX, type Depths } from '../../firmware/wire/capability.ts'
import * as mad from '../../firmware/wire/management.ts'
import { copyOf } from '../base/bytes.ts'
import { sleep } from '../base/clock.ts'
import { faultOfNumber, PerdureError, RefusedError } from '../base/errors.ts'
import type { Caller } from '../base/give-up.ts'
import {
  BOOLEAN,
  bytesOf,
  check,
  checkDomain,
  checkFields,
  integer,
  type Kinds,
  oneOf,
} from '../base/kinds.ts'
import { type MemoryPiece, PIECES } from '../base/pieces.ts'
import { putU64 } from '../base/wide.ts'
import { type Attachment, fillAttachment } from './attachment.ts'
import { bodyOf } from './body.ts'
import { type Calls, RETRY_US_MAX } from './calls.ts'
import {
  type CardFigures,
  type RegionFigures,
  readCardFigures,
  readRegionFigures,
} from './figures.ts'
import {
  type PartStatus,
  PLACEMENTS,
  type RegionInfo,
  type RegionPlacement,
  type ReportEntry,
  readPartStatus,
  readRegionInfo,
  readReportEntry,
} from './part.ts'
import { keyBody, type PeerRequest, peerBodies, readPeers } from './peers.ts'
import { checkPublication, fillPublication, PORT, type Publication } from './publication.ts'
import {
  type CacheRequest,
  cacheBody,
  countersHere,
  countersInAll,
  type QueueInfo,
  type QueuesStatus,
  readQueueInfo,
  readQueuesStatus,
} from './queues.ts'
import { NEW_REGION_NAME, nameBytesOf, REGION_NAME } from './region-name.ts'

/** How soon it is asked again for what is under way, µs; then ever later, up to RETRY_US_MAX. */
const AGAIN_US = 1_000

/** What a new region shall be. */
export interface RegionRequest {
  /** 1 to 32 bytes of UTF-8 without control characters. */
  readonly name: string
  /** 1 to 2^31 - 1. */
  readonly slots: number
  /** Bytes of data that one slot holds, 1 to 65536. */
  readonly capacity: number
  /** Copies of each record, 2 (default) to 4. */
  readonly copies?: number
  /** Every record has exactly `capacity` bytes (D-1). */
  readonly fixedLength?: boolean
  /**
   * Clients write its copies by themselves, with `Region.writeCopies` or as source 1 does it (FIG.
   * 11); the DPU makes them equal after a cut. In its own NVDIMM only.
   */
  readonly pair?: boolean
  /** Where it lies: the card's own NVDIMM unless given (source 2). */
  readonly placement?: RegionPlacement
}

/** What a new region of plain bytes shall be. */
export interface BytesRequest {
  /** 1 to 32 bytes of UTF-8 without control characters. */
  readonly name: string
  /** Bytes, more than 0; the part rounds up to whole pages. */
  readonly length: number
  /** Every store that is acknowledged is durable (P2-1, P2-5, D-9). */
  readonly writePersist?: boolean
  /** Where it lies: the card's own NVDIMM unless given (source 2). */
  readonly placement?: RegionPlacement
}

/** Payload bytes that a packet may have at the most. */
export const PATH_MTUS: readonly number[] = [256, 512, 1024, 2048, 4096]

const REGION_KINDS: Kinds<RegionRequest> = {
  name: NEW_REGION_NAME,
  slots: integer(1, SLOTS_MAX),
  capacity: integer(1, RECORD_BYTES_MAX),
  copies: integer(COPIES_MIN, COPIES_MAX),
  fixedLength: BOOLEAN,
  pair: BOOLEAN,
  placement: oneOf(PLACEMENTS),
}

const BYTES_KINDS: Kinds<BytesRequest> = {
  name: NEW_REGION_NAME,
  length: integer(1, Number.MAX_SAFE_INTEGER),
  writePersist: BOOLEAN,
  placement: oneOf(PLACEMENTS),
}

/** The connection that the DPU granted. */
export interface Granted {
  readonly queuePair: number
  readonly firstPsn: number
  readonly incarnation: number
  readonly pathMtu: number
  /** Depths of the DPU's queues; null, or absent, where it tells none. */
  readonly told?: Depths | null
  /** Messages that may be on their way at once, to the DPU and from it; likewise. */
  readonly agreed?: Depths | null
  /** Keys of the tags of its packets, ours and the DPU's, 32 bytes each; absent: they have none. */
  readonly tagKeys?: Uint8Array | null
}

/** What a part of a full scan found. */
interface ScanStep {
  /** The record to go on with; the number of slots when done. */
  readonly next: number
  readonly checked: number
  /** Of these, each once: no copy can stand for it. */
  readonly lost: number
  /** It is whole, but not in every copy, and cannot be made so. */
  readonly unsettled: number
  /** Passed over, and not among those checked: somebody is writing them. */
  readonly underWay: number
}

/**
 * Names the pieces in the body of a call, from there on; where there are none it stays as it is,
 * and none are named. Throws PERDURE_ARGUMENT.
 */
function namePieces(body: Uint8Array, from: number, pieces?: readonly MemoryPiece[]): Uint8Array {
  if (pieces === undefined) return body
  check('pieces', pieces, PIECES)
  putU32(body, from + mad.PIECES_COUNT, pieces.length)
  pieces.forEach(({ at, bytes }, i) => {
    const into = from + mad.PIECES_FIRST + i * mad.PIECES_ENTRY_BYTES
    putU32(body, into, at / PAGE_BYTES)
    putU32(body, into + 4, bytes / PAGE_BYTES)
  })
  return body
}

export class Management {
  private readonly calls: Calls
  private readonly caller: Caller | null

  /** `caller`: who waits for what is asked here, and may give it up. */
  constructor(calls: Calls, caller: Caller | null = null) {
    this.calls = calls
    this.caller = caller
  }

  /** The same, for one caller who may give up. */
  for(caller: Caller): Management {
    return new Management(this.calls, caller)
  }

  /** Ends every call that still waits, and all later ones. */
  close(error: Error): void {
    this.calls.close(error)
  }

  /** Whether calls are sealed in a session: packets can have tags then. */
  get isSealed(): boolean {
    return this.calls.isSealed
  }

  async status(timeoutUs?: number): Promise<PartStatus> {
    return readPartStatus(await this.get('status', mad.ATTRIBUTE_STATUS, 0, bodyOf(), timeoutUs))
  }

  /**
   * Lays out an empty part. The id tells our own work, whose answer was lost and which is refused
   * when it is repeated, from that of others.
   */
  async format(deviceId: Uint8Array): Promise<PartStatus> {
    check('a device id:', deviceId, bytesOf(mad.DEVICE_ID_BYTES))
    const body = bodyOf()
    body.set(deviceId, mad.FORMAT_DEVICE_ID)
    const wanted = Buffer.from(deviceId).toString('hex')
    try {
      return readPartStatus(await this.set('format', mad.ATTRIBUTE_FORMAT, body))
    } catch (error) {
      const part = await this.status()
      if (part.deviceId !== wanted) throw error
      return part
    }
  }

  async provision(region: RegionRequest, protectionDomain: number): Promise<RegionInfo> {
    checkFields('a region', region, REGION_KINDS, ['name', 'slots', 'capacity'])
    const body = namedBody(region.name, protectionDomain)
    const placement = PLACEMENTS.indexOf(region.placement ?? 'local')
    putU32(body, mad.REGION_SLOTS, region.slots)
    putU32(body, mad.REGION_CAPACITY, region.capacity)
    body[mad.REGION_COPIES] = region.copies ?? 2
    body[mad.REGION_KIND] = mad.KIND_RECORDS
    const fixed = region.fixedLength === true ? mad.REGION_FIXED_LENGTH : 0
    putU16(body, mad.REGION_FLAGS, fixed | (region.pair === true ? mad.REGION_PAIR : 0))
    body[mad.REGION_PLACEMENT] = placement
    const what = `provision '${region.name}'`
    return readRegionInfo(await this.finish(what, mad.ATTRIBUTE_PROVISION, body))
  }

  async provisionBytes(region: BytesRequest, protectionDomain: number): Promise<RegionInfo> {
    checkFields('a region of bytes', region, BYTES_KINDS, ['name', 'length'])
    const body = namedBody(region.name, protectionDomain)
    const { name, length, writePersist = false } = region
    body[mad.REGION_KIND] = mad.KIND_BYTES
    putU16(body, mad.REGION_FLAGS, writePersist ? mad.REGION_WRITE_PERSIST : 0)
    putU64(body, mad.REGION_LENGTH_HIGH, length)
    body[mad.REGION_PLACEMENT] = PLACEMENTS.indexOf(region.placement ?? 'local')
    const what = `provision '${name}'`
    return readRegionInfo(await this.finish(what, mad.ATTRIBUTE_PROVISION, body))
  }

  /** The region ends permanently; its room is free when the card has cleared it. */
  async remove(name: string): Promise<void> {
    const body = namedBody(name, 0)
    await this.set(`remove '${name}'`, mad.ATTRIBUTE_REMOVE, body)
  }

  /** Who may come to the card. */
  peers(): Promise<Peer[]> {
    return readPeers((place, body) => this.get('peers', mad.ATTRIBUTE_PEERS, place, body))
  }

  /** One more peer may come. */
  async addPeer(peer: PeerRequest): Promise<void> {
    for (const body of peerBodies(peer)) {
      await this.set(`add peer '${peer.name}'`, mad.ATTRIBUTE_ADD_PEER, body)
    }
  }

  /** The peer that has this public key comes no more. */
  async removePeer(key: Uint8Array): Promise<void> {
    await this.set('remove peer', mad.ATTRIBUTE_REMOVE_PEER, keyBody(key))
  }

  /** Offers the region on a port of RDMA-CM until the DPU loses its power. */
  async publish(publication: Publication): Promise<RegionInfo> {
    checkPublication(publication)
    const body = namedBody(publication.name, 0)
    fillPublication(body, publication)
    const what = `publish '${publication.name}'`
    return readRegionInfo(await this.set(what, mad.ATTRIBUTE_PUBLISH, body))
  }

  /** Ends what the port offers. Of an open card connections that are open stay. */
  async withdraw(port: number): Promise<void> {
    check('port', port, PORT)
    const body = bodyOf()
    putU16(body, mad.PUBLISH_PORT, port)
    await this.set(`withdraw port ${port}`, mad.ATTRIBUTE_PUBLISH, body)
  }

  /**
   * Asks the DPU to offer a region of another one, in the name of the client. Refused with
   * CONNECTING while the two are getting to know each other: ask again.
   */
  async attach(attachment: Attachment, clientId: bigint): Promise<RegionInfo> {
    const { name } = attachment
    const body = namedBody(name, 0)
    fillAttachment(body, attachment)
    putU64(body, mad.ATTACH_CLIENT_HIGH, clientId)
    return readRegionInfo(await this.set(`attach '${name}'`, mad.ATTRIBUTE_ATTACH, body))
  }

  async detach(name: string): Promise<void> {
    const body = namedBody(name, 0)
    await this.set(`detach '${name}'`, mad.ATTRIBUTE_DETACH, body)
  }

  async open(name: string, protectionDomain: number): Promise<RegionInfo> {
    const body = namedBody(name, protectionDomain)
    return readRegionInfo(await this.get(`open '${name}'`, mad.ATTRIBUTE_OPEN, 0, body))
  }

  /** Every region of the part. */
  async regions(): Promise<RegionInfo[]> {
    const { regions } = await this.status()
    const all: RegionInfo[] = []
    for (let place = 0; place < regions; place++) {
      const region = await this.regionAt(place)
      if (region !== null) all.push(region)
    }
    return all
  }

  /** Memory of the DPU's host that is registered on demand (source 5). */
  async hostRegions(): Promise<RegionInfo[]> {
    const places = Array.from({ length: ON_DEMAND_REGIONS }, (_, i) => REGIONS + i)
    const regions = await Promise.all(places.map((place) => this.regionAt(place)))
    return regions.filter((region) => region?.kind === 'memory') as RegionInfo[]
  }

  /** The region at that place of the table, or null: it is free, or of one that was removed. */
  async regionAt(place: number): Promise<RegionInfo | null> {
    try {
      return readRegionInfo(await this.get('region', mad.ATTRIBUTE_REGION, place, bodyOf()))
    } catch (error) {
      if (error instanceof RefusedError && error.fault === 'NO_REGION') return null
      throw error
    }
  }

  async connect(
    clientQp: number,
    psn: number,
    pathMtu: number,
    protectionDomain: number,
    clientId: bigint,
    depths: Depths | null = null,
    tagged = false,
  ): Promise<Granted> {
    const body = bodyOf([mad.CONNECT_CLIENT_QP, clientQp], [mad.CONNECT_CLIENT_PSN, psn])
    putU16(body, mad.CONNECT_CLIENT_SEND_DEPTH, tellable(depths?.send))
    putU16(body, mad.CONNECT_CLIENT_RECEIVE_DEPTH, tellable(depths?.receive))
    putU16(body, mad.CONNECT_PATH_MTU, pathMtu)
    putU16(body, mad.CONNECT_DOMAIN, protectionDomain)
    putU64(body, mad.CONNECT_CLIENT_ID_HIGH, clientId)
    body[mad.CONNECT_TAGS] = tagged ? 1 : 0
    const answer = await this.set('connect', mad.ATTRIBUTE_CONNECT, body)
    const told = toldDepths(answer)
    const granted = {
      queuePair: u32(answer, mad.CONNECT_QP),
      firstPsn: u32(answer, mad.CONNECT_FIRST_PSN),
      incarnation: u32(answer, mad.CONNECT_INCARNATION),
      pathMtu: u16(answer, mad.CONNECT_GRANTED_MTU),
      told,
      agreed: depths !== null && told !== null ? agreedDepths(depths, told) : null,
    }
    checkGrant(granted, pathMtu)
    if (!tagged) return granted
    if (answer[mad.CONNECT_TAGS] !== 1) throw new RefusedError('NO_TAG', 0, 'connect')
    const keys = mad.CONNECT_TAG_KEYS
    const tagKeys = copyOf(answer.subarray(keys, keys + mad.CONNECT_TAG_KEYS_BYTES))
    return { ...granted, tagKeys }
  }

  async disconnect(queuePair: number, clientQp: number, timeoutUs?: number): Promise<void> {
    const body = bodyOf([mad.DISCONNECT_QP, queuePair], [mad.DISCONNECT_CLIENT_QP, clientQp])
    await this.set('disconnect', mad.ATTRIBUTE_DISCONNECT, body, timeoutUs)
  }

  /** The whole recovery report of the last start, and of scans since. */
  async report(): Promise<ReportEntry[]> {
    const entries: ReportEntry[] = []
    for (let total = 1; entries.length < total; ) {
      const body = await this.get('report', mad.ATTRIBUTE_REPORT, entries.length, bodyOf())
      total = u32(body, mad.REPORT_TOTAL)
      const here = Math.min(u32(body, mad.REPORT_HERE), mad.REPORT_ENTRIES_PER_MAD)
      if (here === 0) break
      for (let i = 0; i < here; i++) {
        entries.push(readReportEntry(body, mad.REPORT_FIRST + i * mad.REPORT_ENTRY_BYTES))
      }
    }
    return entries
  }

  /** How often each fault was met since the start, by its name; only those that were. */
  async counters(): Promise<Record<string, bigint>> {
    const counters: Record<string, bigint> = {}
    for (let first = 0, total = FAULTS.length; first < total; ) {
      const body = await this.get('counters', mad.ATTRIBUTE_COUNTERS, first, bodyOf())
      total = u32(body, mad.COUNTERS_TOTAL)
      const here = Math.min(u32(body, mad.COUNTERS_HERE), mad.COUNTERS_PER_MAD)
      if (here === 0) break
      const view = new DataView(body.buffer, body.byteOffset)
      for (let i = 0; i < here; i++) {
        const count = view.getBigUint64(mad.COUNTERS_FIRST + i * mad.COUNTER_BYTES)
        if (count > 0n) counters[faultOfNumber(first + i)] = count
      }
      first += here
    }
    return counters
  }

  /** What the card has done since its start. An older card refuses it: REQUEST. */
  async figures(): Promise<CardFigures> {
    return readCardFigures(await this.get('figures', mad.ATTRIBUTE_FIGURES, 0, bodyOf()))
  }

  /** What became durable in a region, and how soon. An older card refuses it: REQUEST. */
  figuresOf(name: string): Promise<RegionFigures> {
    return readRegionFigures((first) => {
      const body = namedBody(name, 0)
      body[mad.FIGURES_FIRST_BUCKET] = first
      return this.get(`figures of '${name}'`, mad.ATTRIBUTE_FIGURES, 0, body)
    })
  }

  /**
   * Has a queue pair told how the part is, or no more: a body of STATUS, and how many messages were
   * sent to it so far. An older card refuses it: REQUEST; QUEUE_UNKNOWN where it has none such.
   */
  async health(
    queuePair: number,
    clientQp: number,
    mark: bigint,
    isTold: boolean,
  ): Promise<{ readonly body: Uint8Array; readonly number: number }> {
    const body = bodyOf([mad.HEALTH_QP, queuePair], [mad.HEALTH_CLIENT_QP, clientQp])
    putU64(body, mad.HEALTH_MARK, mark)
    body[mad.HEALTH_ACTION] = isTold ? mad.HEALTH_BEGIN : mad.HEALTH_END
    const answer = await this.set('health', mad.ATTRIBUTE_HEALTH, body)
    return { body: answer, number: u32(answer, mad.HEALTH_TOLD) }
  }

  /** Checks some records of the region with their check codes, from `record` on, and repairs. */
  async scan(regionId: number, record: number): Promise<ScanStep> {
    const body = bodyOf([mad.SCAN_REGION, regionId], [mad.SCAN_RECORD, record])
    const answer = await this.set('scan', mad.ATTRIBUTE_SCAN, body)
    return {
      next: u32(answer, mad.SCAN_NEXT),
      checked: u32(answer, mad.SCAN_CHECKED),
      lost: u32(answer, mad.SCAN_FOUND_LOST),
      unsettled: u32(answer, mad.SCAN_FOUND_UNSETTLED),
      underWay: u32(answer, mad.SCAN_UNDER_WAY),
    }
  }

  /** The operator's decision about a lost record: it is given up and becomes blank (D-14). */
  async discard(regionId: number, record: number): Promise<RegionInfo> {
    const body = bodyOf([mad.SETTLE_REGION, regionId], [mad.SETTLE_RECORD, record])
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
    return readRegionInfo(await this.finish('settle', mad.ATTRIBUTE_SETTLE, body))
  }

  /** Has the card write the lines of a new probe into the host's memory (registrar.ts). */
  async probe(pieces?: readonly MemoryPiece[]): Promise<void> {
    await this.set('probe', mad.ATTRIBUTE_PROBE, namePieces(bodyOf(), 0, pieces))
  }

  /** States the pieces of the host's memory that the card is to use (pieces.ts). */
  async statePieces(pieces: readonly MemoryPiece[]): Promise<readonly MemoryPiece[]> {
    check('pieces', pieces, PIECES)
    const body = namePieces(bodyOf(), 0, pieces)
    const answer = await this.finish('pieces', mad.ATTRIBUTE_PIECES, body)
    return Array.from({ length: u32(answer, mad.PIECES_COUNT) }, (_, i) => {
      const from = mad.PIECES_FIRST + i * mad.PIECES_ENTRY_BYTES
      const [page, pages] = [u32(answer, from), u32(answer, from + 4)]
      return { at: page * PAGE_BYTES, bytes: pages * PAGE_BYTES }
    })
  }

  /** Tells the card what the host's CPU has seen of the probe; `number` is what stood there. */
  async place(seen: number, statesAdr: boolean, number: Uint8Array): Promise<void> {
    const body = bodyOf()
    body[mad.PLACE_PLACEMENT] = seen
    body[mad.PLACE_ADR] = statesAdr ? 1 : 0
    body.set(number, mad.PLACE_NUMBER_HIGH)
    await this.set('placement', mad.ATTRIBUTE_PLACE, body)
  }

  /** The host's flush agent comes (flush-agent.ts). */
  async attachAgent(
    number: Uint8Array,
    sendQueue: number,
    pieces?: readonly MemoryPiece[],
  ): Promise<{ readonly firstRequest: number }> {
    const body = namePieces(bodyOf(), mad.AGENT_PIECES, pieces)
    body[mad.AGENT_ACTION] = mad.AGENT_ATTACH
    body.set(number, mad.AGENT_NUMBER_HIGH)
    putU32(body, mad.AGENT_QUEUE, sendQueue)
    const answer = await this.set('agent', mad.ATTRIBUTE_AGENT, body)
    return { firstRequest: u32(answer, mad.AGENT_FIRST_REQUEST) }
  }

  /** The host's flush agent goes. */
  async detachAgent(number: Uint8Array): Promise<void> {
    const body = bodyOf()
    body[mad.AGENT_ACTION] = mad.AGENT_DETACH
    body.set(number, mad.AGENT_NUMBER_HIGH)
    await this.set('agent', mad.ATTRIBUTE_AGENT, body)
  }

  /** What the card has done for the queues of its own host. */
  async queues(): Promise<QueuesStatus> {
    const bodies: Uint8Array[] = []
    for (let first = 0, total = 1; first < total; ) {
      const body = await this.get('queues', mad.ATTRIBUTE_QUEUES, first, bodyOf())
      bodies.push(body)
      total = countersInAll(body)
      if (countersHere(body) === 0) break
      first += countersHere(body)
    }
    return readQueuesStatus(bodies)
  }

  /** One queue of the card's host, as the card has it. */
  async queue(queue: number): Promise<QueueInfo> {
    check('queue', queue, integer(0, HOST_QUEUES - 1))
    const body = await this.get(`queue ${queue}`, mad.ATTRIBUTE_QUEUE, queue, bodyOf())
    return readQueueInfo(queue, body)
  }

  /** Says how contexts of queues leave the card's cache. */
  async setCache(request: CacheRequest): Promise<void> {
    await this.set('cache', mad.ATTRIBUTE_CACHE, cacheBody(request))
  }

  private get(
    what: string,
    attribute: number,
    modifier: number,
    body: Uint8Array,
    limitUs?: number,
  ): Promise<Uint8Array> {
    return this.call(what, mad.METHOD_GET, attribute, modifier, body, limitUs)
  }

  private set(
    what: string,
    attribute: number,
    body: Uint8Array,
    limitUs?: number,
  ): Promise<Uint8Array> {
    return this.call(what, mad.METHOD_SET, attribute, 0, body, limitUs)
  }

  /** As `set`, of what may take long: it is asked again until it is done. */
  private async finish(what: string, attribute: number, body: Uint8Array): Promise<Uint8Array> {
    for (let waitUs = AGAIN_US; ; waitUs = Math.min(2 * waitUs, RETRY_US_MAX)) {
      try {
        return await this.set(what, attribute, body)
      } catch (error) {
        if (!(error instanceof RefusedError) || error.fault !== 'UNDER_WAY') throw error
      }
      await sleep(this.calls.way, waitUs)
    }
  }

  /**
   * One call; resolves to the body of the answer. `what` names it in errors. For the calls that
   * have no method of their own here.
   */
  call(
    what: string,
    method: number,
    attribute: number,
    modifier: number,
    body: Uint8Array,
    limitUs?: number,
  ): Promise<Uint8Array> {
    const { calls, caller } = this
    return calls.call({ what, method, attribute, modifier, body, limitUs }, caller)
  }
}

function namedBody(name: string, protectionDomain: number): Uint8Array {
  check('region name', name, REGION_NAME)
  checkDomain(protectionDomain)
  const body = bodyOf()
  body.set(nameBytesOf(name)!, mad.REGION_NAME)
  putU16(body, mad.REGION_DOMAIN, protectionDomain)
  return body
}

/** No packets can be made for a connection that is not one: throws PERDURE_UNREACHABLE. */
function checkGrant({ queuePair, firstPsn, pathMtu, told }: Granted, asked: number): void {
  if (told && depthsFault(told) !== PASS) throw new RefusedError('QUEUE_DEPTH', 0, 'connect')
  const fits = PATH_MTUS.includes(pathMtu) && pathMtu <= asked
  if (fits && queuePair < 2 ** 24 && firstPsn < 2 ** 24) return
  const what = `queue pair ${queuePair}, PSN ${firstPsn}, path MTU ${pathMtu}`
  throw new PerdureError('PERDURE_UNREACHABLE', `connect: the DPU grants what cannot be: ${what}`)
}

/** A depth as it is told; 0 is none. */
function tellable(depth = 0): number {
  return Math.min(depth, DEPTH_TOLD_MAX)
}

/** What the answer to a CONNECT says; null where the DPU tells nothing, as older ones do. */
function toldDepths(answer: Uint8Array): Depths | null {
  const send = u16(answer, mad.CONNECT_SEND_DEPTH)
  const receive = u16(answer, mad.CONNECT_RECEIVE_DEPTH)
  return send === 0 && receive === 0 ? null : { send, receive }
}
