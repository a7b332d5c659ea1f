/**
 * A DPU that is connected: its regions, its state, and the connection itself.
 *
 * Invariant: closing waits a moment for what is on its way, and what is then still
 * unresolved says so; nothing is printed, and nothing is left behind that keeps a process alive.
 */

import type { Peer } from '../boards/software/peers.ts'
import type { Depths } from '../firmware/wire/capability.ts'
import { copyOf } from './base/bytes.ts'
import { sleep, waitAtMost } from './base/clock.ts'
import { ArgumentError, PerdureError, RefusedError } from './base/errors.ts'
import { type Caller, WAIT_KINDS, type WaitOptions, within } from './base/give-up.ts'
import { check, checkBytes, checkFields, FUNCTION, type Kind, wide } from './base/kinds.ts'
import { BytesRegion } from './bytes/bytes-region.ts'
import { type Attachment, keptAttachment } from './control/attachment.ts'
import type { CardFigures, RegionFigures } from './control/figures.ts'
import type { BytesRequest, Management, RegionRequest } from './control/management.ts'
import type { PartStatus, RegionInfo, ReportEntry } from './control/part.ts'
import type { PeerRequest } from './control/peers.ts'
import type { Publication } from './control/publication.ts'
import type { CacheRequest, QueueInfo, QueuesStatus } from './control/queues.ts'
import { REGION_NAME } from './control/region-name.ts'
import type { Connection } from './link/connection.ts'
import { isLost } from './records/lost.ts'
import { Region } from './records/region.ts'
import {
  checkHealthOptions,
  type HealthListener,
  type HealthOptions,
  type HealthWatch,
} from './status/health.ts'
import type { AgentControl } from './target/flush-agent.ts'
import type { PiecesControl } from './target/pieces.ts'
import type { PlacementControl } from './target/registrar.ts'
import { type Outcome, type Pending, pending, postTogether, resultOf } from './way/chain.ts'
import type { Inbox } from './way/inbox.ts'
import { queryJob, SEND_KINDS, type SendOptions, sendJob } from './way/jobs.ts'
import { isSameRegion, type OpenRegion } from './way/region-handle.ts'
import type { Statistics } from './way/statistics.ts'
import type { VerbsContext } from './way/verbs.ts'

/** How long `close` waits for what is on its way, µs. */
const DRAIN_US = 1_000_000

/** How long `close` waits for the DPU to say goodbye, µs. */
const GOODBYE_US = 100_000

/** Pause between two questions whether the other DPU is connected, µs. */
const ATTACH_PAUSE_US = 2000

/** Pause of a scan while the card waits for its host, µs. */
const SCAN_PAUSE_US = 2000

/** Queues that are asked about at once. */
const QUEUES_AT_ONCE = 16

const COUNT: Kind = {
  give: 'a number from 0 on',
  takes: (value) => typeof value === 'number' && value >= 0,
}

/** What a scan of a whole region found: each record is counted once, and in one place. */
export interface ScanResult {
  readonly checked: number
  /**
   * Of these a copy had decayed, and all are whole again: the DPU may have come to it in its idle
   * time while the scan was under way.
   */
  readonly repaired: number
  /** That was so before the scan: since the DPU's start, at its start included. */
  readonly repairedBefore: number
  /** Whole, but not in every copy: the medium refuses the repair, or a lane holds the record. */
  readonly unsettled: number
  /** No copy can stand for it: `discard` gives one up. */
  readonly lost: number
  /**
   * Passed over, and not among those checked: somebody is writing them, or was when his connection
   * broke. Of who is silent the DPU gives that up within 20 s.
   */
  readonly underWay: number
}

export class Dpu {
  private readonly connection: Connection

  /** For `connect`; not to be called by users. */
  constructor(connection: Connection) {
    this.connection = connection
  }

  /** Who writes, as every record says. */
  get clientId(): bigint {
    return this.connection.clientId
  }

  /** What a durable record outlives on this DPU, as it said when it was connected last. */
  get durable(): PartStatus['durable'] {
    return this.connection.durable
  }

  /** Operation id that the next record will have. */
  get nextOperation(): bigint {
    return this.connection.nextOperation
  }

  /** Incarnation of the part that this connection belongs to, or null without a connection. */
  get incarnation(): number | null {
    return this.connection.current?.granted.incarnation ?? null
  }

  /** Payload bytes of one packet, as granted; null without a connection. */
  get pathMtu(): number | null {
    return this.connection.current?.granted.pathMtu ?? null
  }

  /**
   * Messages that may be on their way at once, to the DPU and from it; no more are sent. Null
   * without a connection, and where the DPU tells nothing of its queues.
   */
  get agreed(): Depths | null {
    return this.connection.current?.granted.agreed ?? null
  }

  /**
   * What registrar and flush agent ask of the card (registrar.ts, flush-agent.ts): for a process on
   * the target machine, whose memory the card sees.
   */
  get host(): PlacementControl & PiecesControl & AgentControl {
    return this.connection.management
  }

  /**
   * The verbs: protection domains, memory regions, completion queues and queue pairs of your own
   * beside the one that this connection has, to the same DPU and in the name of the same client.
   * They are not made again by themselves.
   */
  get verbs(): VerbsContext {
    this.check()
    return this.connection.verbs
  }

  /** Lays out an empty part, under an id of 16 bytes; without one it is drawn. */
  async format(deviceId?: Uint8Array, options: WaitOptions = {}): Promise<PartStatus> {
    const { random } = this.connection
    const drawn = (): Uint8Array => Uint8Array.from({ length: 16 }, () => random() & 0xff)
    const id = deviceId === undefined ? drawn() : deviceId
    return await this.ask('format', options, (management) => management.format(id))
  }

  /** Makes a region, or opens it where one of that name and shape is there. */
  async provision(request: RegionRequest, options: WaitOptions = {}): Promise<Region> {
    return await this.ask('provision', options, async (management) => {
      return await this.recordsOf(await management.provision(request, this.domain))
    })
  }

  /** Makes a region of plain bytes, or opens it where one of that name and shape is there. */
  async provisionBytes(request: BytesRequest, options: WaitOptions = {}): Promise<BytesRegion> {
    return await this.ask('provision', options, async (management) => {
      const info = await management.provisionBytes(request, this.domain)
      return new BytesRegion(this.connection, await this.use(info))
    })
  }

  /**
   * Removes a region permanently: its records are gone, its key names nothing, and requests that
   * are under way into it are refused. Its room is free when the card has cleared it
   * (`status().work`).
   */
  async remove(name: string, options: WaitOptions = {}): Promise<void> {
    await this.ask('remove', options, (management) => management.remove(name))
    this.forget(name)
  }

  /** Opens the region of that name. */
  async openRegion(name: string, options: WaitOptions = {}): Promise<Region> {
    return await this.ask('open', options, async (management) => {
      return await this.recordsOf(await management.open(name, this.domain))
    })
  }

  private async recordsOf(asked: RegionInfo): Promise<Region> {
    return new Region(this.connection, await this.use(asked))
  }

  /** Opens the region of that name that has plain bytes, or is memory of the DPU's host. */
  async openBytes(name: string, options: WaitOptions = {}): Promise<BytesRegion> {
    return await this.ask('open', options, async (management) => {
      const info = await management.open(name, this.domain)
      if (info.kind !== 'bytes' && info.kind !== 'memory') {
        throw new ArgumentError(`region '${name}' holds ${info.kind}, not bytes`)
      }
      return new BytesRegion(this.connection, await this.use(info))
    })
  }

  /**
   * Sends a message, which consumes an entry of the DPU's receive queue. It resolves when the DPU
   * has it. With `solicited` the DPU confirms by the same message, in `messages`, as soon as
   * everything that was written before is durable.
   */
  send(bytes: Uint8Array, options: SendOptions & WaitOptions = {}): Promise<Outcome> {
    this.check()
    checkBytes('a message:', bytes)
    checkFields('options of a message', options, SEND_KINDS)
    const { immediate, invalidate } = options
    if (immediate !== undefined && invalidate !== undefined) {
      throw new ArgumentError('a message has immediate data or a key to invalidate, not both')
    }
    const copy = copyOf(bytes)
    const kept = { ...options }
    const sending = pending(
      `send ${bytes.length} bytes`,
      (done) => sendJob(copy, kept, done),
      (completion) => completion,
    )
    return this.post(sending, options)
  }

  /**
   * Asks whether an operation of this client is durable, whatever connection it came over (D-6,
   * G2-3). `upTo` is set where the DPU knows that every operation up to it is. That it knows
   * nothing of an operation is no proof of the contrary.
   */
  query(
    operationId: bigint,
    options: WaitOptions = {},
  ): Promise<{ durable: boolean; upTo: bigint | null }> {
    this.check()
    check('operation', operationId, wide(1n))
    const asking = pending(
      `query operation ${operationId}`,
      (done) => queryJob(operationId, done),
      (_, end) => ({
        durable: end.refusal === 0,
        upTo: end.cumulative ? resultOf(end) : null,
      }),
    )
    return this.post(asking, options)
  }

  /** Puts a request behind the others, unless its caller gives up. */
  private post<T>(request: Pending<T>, options: WaitOptions): Promise<T> {
    const { connection } = this
    checkFields(request.what, options, WAIT_KINDS)
    return within(
      connection.way,
      () => request.what,
      options,
      (caller) => {
        postTogether(connection, [request], caller)
        return request.result
      },
    )
  }

  /** What the DPU sends to this client, in order, each message once; outlives reconnections. */
  get messages(): Inbox {
    return this.connection.inbox
  }

  /**
   * Offers a region on a port of RDMA-CM until the DPU loses its power: clients connect to the port
   * and are told the region's key and place (firmware/connect/publish.ts).
   */
  publish(publication: Publication, options: WaitOptions = {}): Promise<RegionInfo> {
    return this.ask('publish', options, (management) => management.publish(publication))
  }

  /** Ends what the port offers. Of an open card connections that are open stay. */
  withdraw(port: number, options: WaitOptions = {}): Promise<void> {
    return this.ask('withdraw', options, (management) => management.withdraw(port))
  }

  /**
   * Has this DPU offer a region of records of another DPU: what is persisted into it goes on to
   * that DPU, and is durable there when `persisted` says so. Records are read from the DPU that has
   * them. With `cardKey` this DPU comes there as a peer, in a session and with tags; with `port` it
   * is a client of RDMA-CM, to whom the region is published. The connection between the two is made
   * in the name of this client, and made again after a restart of either. Rejects with
   * RELAY_REFUSED where the other DPU has no line for this one's key, and with CARD_KEYLESS where
   * this one has none.
   */
  async attach(attachment: Attachment, options: WaitOptions = {}): Promise<Region> {
    this.check()
    const { connection } = this
    // It is asked for again after every reconnection.
    const kept = keptAttachment(attachment)
    const learn = (): Promise<RegionInfo> => this.attached(kept, connection.management)
    return await this.ask('attach', options, async (management) => {
      const open = await this.use(await this.attached(kept, management), learn)
      open.learn = learn
      return new Region(connection, open)
    })
  }

  private async attached(attachment: Attachment, management: Management): Promise<RegionInfo> {
    const { clientId, way } = this.connection
    for (;;) {
      try {
        return await management.attach(attachment, clientId)
      } catch (error) {
        if (!(error instanceof RefusedError) || error.fault !== 'CONNECTING') throw error
      }
      await sleep(way, ATTACH_PAUSE_US)
    }
  }

  /** Ends it; records that are on their way are in doubt. */
  async detach(name: string, options: WaitOptions = {}): Promise<void> {
    this.check()
    check('region name', name, REGION_NAME)
    checkFields('detach', options, WAIT_KINDS)
    this.forget(name)
    await this.ask('detach', options, (management) => management.detach(name))
  }

  /** What is still to be sent to that region has nowhere to go. */
  private forget(name: string): void {
    const open = this.connection.regions.get(name)
    if (open !== undefined) open.gone = true
    this.connection.regions.delete(name)
  }

  /** Who may come to this DPU: an admin may ask that, and its own host. */
  peers(options: WaitOptions = {}): Promise<Peer[]> {
    return this.ask('peers', options, (management) => management.peers())
  }

  /**
   * One more peer may come, from now on and after every start of the DPU. Rejects with PEER_TAKEN
   * where a peer has that key or that name, and with PEERS_FIXED where the DPU's board does not
   * keep its peers in a file that it may write.
   */
  addPeer(peer: PeerRequest, options: WaitOptions = {}): Promise<void> {
    return this.ask('add a peer', options, (management) => management.addPeer(peer))
  }

  /**
   * The peer that has this public key comes no more. Its sessions and connections have ended when
   * this resolves; what was acknowledged to it stays durable.
   */
  removePeer(key: Uint8Array, options: WaitOptions = {}): Promise<void> {
    return this.ask('remove a peer', options, (management) => management.removePeer(key))
  }

  /** Every region of the part. */
  regions(options: WaitOptions = {}): Promise<RegionInfo[]> {
    return this.ask('regions', options, (management) => management.regions())
  }

  /** Memory of the DPU's host that comes and goes (source 5): `openBytes` opens it by its name. */
  hostRegions(options: WaitOptions = {}): Promise<RegionInfo[]> {
    return this.ask('regions of the host', options, (management) => management.hostRegions())
  }

  status(options: WaitOptions = {}): Promise<PartStatus> {
    return this.ask('status', options, (management) => management.status())
  }

  /**
   * Hears how the part is, each time that it changes: the DPU tells it by itself, at once, over
   * this connection, and where it cannot, it is looked at every `lookMs`. It goes on when the
   * connection is made again, and ends with `end`, or with the connection, of which nothing is
   * said. Rejects as `status` does.
   */
  async onHealth(
    listener: HealthListener,
    options: HealthOptions & WaitOptions = {},
  ): Promise<HealthWatch> {
    this.check()
    check('listener', listener, FUNCTION)
    checkHealthOptions(options)
    const { lookMs } = options
    return await this.ask('health', options, (_, caller) => {
      return this.connection.health.listen(listener, lookMs, caller)
    })
  }

  /** What recovery found and did at the last start, and scans since. */
  report(options: WaitOptions = {}): Promise<ReportEntry[]> {
    return this.ask('report', options, (management) => management.report())
  }

  /** How often the DPU met each fault since its start, by name; only those that it met. */
  counters(options: WaitOptions = {}): Promise<Record<string, bigint>> {
    return this.ask('counters', options, (management) => management.counters())
  }

  /**
   * What the DPU has done since its start: bursts, fences, acknowledgements. Rejects with
   * PERDURE_REFUSED, fault REQUEST, where its firmware is older than the question.
   */
  figures(options: WaitOptions = {}): Promise<CardFigures> {
    return this.ask('figures', options, (management) => management.figures())
  }

  /**
   * What became durable in the region of that name, and how soon: the difference of two answers is
   * what happened in between. Rejects as `figures` does, and with NO_REGION or FORBIDDEN.
   */
  async figuresOf(name: string, options: WaitOptions = {}): Promise<RegionFigures> {
    this.check()
    check('name', name, REGION_NAME)
    return await this.ask('figures', options, (management) => management.figuresOf(name))
  }

  /** What the card has done for the queues of its own host: counters, and its context cache. */
  queues(options: WaitOptions = {}): Promise<QueuesStatus> {
    return this.ask('queues', options, (management) => management.queues())
  }

  /** One queue of the card's host. Rejects with QUEUE_UNKNOWN where it has no such number. */
  queue(number: number, options: WaitOptions = {}): Promise<QueueInfo> {
    return this.ask('queue', options, (management) => management.queue(number))
  }

  /** The queues of the card's host that are in use, up to `most`, by their numbers. */
  async queuesInUse(most: number = Infinity, options: WaitOptions = {}): Promise<QueueInfo[]> {
    this.check()
    check('most', most, COUNT)
    return await this.ask('queues', options, (management) => queuesOf(management, most))
  }

  /** Says how contexts leave the card's cache, from now until its power goes (P3-18). */
  setCache(request: CacheRequest, options: WaitOptions = {}): Promise<void> {
    return this.ask('cache', options, (management) => management.setCache(request))
  }

  /** Checks every record of a region with its check code, and repairs what can be repaired. */
  async scan(
    name: string,
    progress?: (checked: number) => void,
    options: WaitOptions = {},
  ): Promise<ScanResult> {
    this.check()
    if (progress !== undefined) check('progress', progress, FUNCTION)
    return await this.ask('scan', options, (management) => this.scanBy(management, name, progress))
  }

  private async scanBy(
    management: Management,
    name: string,
    progress?: (checked: number) => void,
  ): Promise<ScanResult> {
    const { way } = this.connection
    const info = await management.open(name, this.domain)
    const total = { checked: 0, unsettled: 0, lost: 0, underWay: 0 }
    for (let next = 0; next < info.slots; ) {
      const step = await management.scan(info.id, next)
      total.checked += step.checked
      total.unsettled += step.unsettled
      total.lost += step.lost
      total.underWay += step.underWay
      progress?.(total.checked + total.underWay)
      // Its host writes back what was found before.
      if (step.next === next) await sleep(way, SCAN_PAUSE_US)
      next = step.next
    }
    // The region counts repairs, not the steps: one that is asked for again finds nothing more, and
    // idle time mends between two of them. A DPU that has started again counts from 0.
    const { repaired } = await management.open(name, this.domain)
    const repairedBefore = repaired < info.repaired ? 0 : info.repaired
    return { ...total, repaired: repaired - repairedBefore, repairedBefore }
  }

  /**
   * Gives a lost record up: it becomes blank, and the region takes writes again (D-14). A record
   * that can be read is never given up: PERDURE_ARGUMENT.
   */
  async discard(name: string, record: number, options: WaitOptions = {}): Promise<RegionInfo> {
    return await this.ask('discard', options, async (management, caller) => {
      const region = await this.recordsOf(await management.open(name, this.domain))
      if (!(await isLost(region.readFor(caller, record)))) {
        throw new ArgumentError(`record ${record} of '${name}' is not lost`)
      }
      return await management.discard(region.info.id, record)
    })
  }

  /**
   * Makes the connection again: after a restart of the DPU, or to be sure. Every write that was on
   * its way is resolved by asking the part, and sent again where it is not durable. It happens by
   * itself when the DPU stops answering, unless the option `reconnect` is false.
   */
  reconnect(options: WaitOptions = {}): Promise<void> {
    return this.ask('reconnect', options, () => this.connection.reconnect())
  }

  statistics(): Statistics {
    return this.connection.statistics()
  }

  /** Waits up to a second for what is on its way, says goodbye, and closes. */
  async close(): Promise<void> {
    const { connection } = this
    if (connection.closed !== null) return
    const { way } = connection
    const writes = connection.openWrites().map((write) => write.persisted)
    if (writes.length > 0) await waitAtMost(way, DRAIN_US, Promise.allSettled(writes))
    const queuePair = connection.retire()
    if (queuePair !== null && connection.closed === null) {
      await queuePair.disconnect(GOODBYE_US).catch(() => {})
    }
    await waitAtMost(way, GOODBYE_US, connection.closeVerbs())
    connection.close(new PerdureError('PERDURE_CLOSED', 'the connection was closed'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Protection domain of what is opened and made here. */
  private get domain(): number {
    return this.connection.options.protectionDomain ?? 0
  }

  /**
   * The region that `asked` tells of. A part that was blank at `connect` gets its queue pair here,
   * and so does one that knows that of before no more: both told no key, and are asked again.
   */
  private async use(asked: RegionInfo, learn = this.learning(asked.name)): Promise<OpenRegion> {
    const { connection } = this
    let info = asked
    if (connection.current === null || info.rkey === 0) {
      await connection.reconnect()
      info = await learn()
    }
    let open: OpenRegion | undefined = connection.regions.get(info.name)
    const isOther = open !== undefined && !isSameRegion(info, open.info)
    if (isOther) open!.gone = true
    if (open === undefined || isOther) {
      open = { info }
      connection.regions.set(info.name, open)
    }
    open.info = info
    open.gone = false
    return open
  }

  private learning(name: string): () => Promise<RegionInfo> {
    return () => this.connection.management.open(name, this.domain)
  }

  /** Asks the DPU, unless the caller gives up. Throws PERDURE_ARGUMENT, and where it is closed. */
  private ask<T>(
    what: string,
    options: WaitOptions,
    ask: (management: Management, caller: Caller) => Promise<T>,
  ): Promise<T> {
    this.check()
    checkFields(what, options, WAIT_KINDS)
    const { management, way } = this.connection
    return within(
      way,
      () => what,
      options,
      (caller) => ask(management.for(caller), caller),
    )
  }

  private check(): void {
    if (this.connection.closed !== null) throw this.connection.closed
  }
}

/** Of those that are in use, up to `most`. */
async function queuesOf(management: Management, most: number): Promise<QueueInfo[]> {
  const { queues, used } = await management.queues()
  const wanted = Math.min(used, most)
  const found: QueueInfo[] = []
  for (let first = 0; first < queues && found.length < wanted; first += QUEUES_AT_ONCE) {
    const count = Math.min(QUEUES_AT_ONCE, queues - first)
    const asked = Array.from({ length: count }, (_, i) => management.queue(first + i))
    found.push(...(await Promise.all(asked)).filter(({ valid }) => valid))
  }
  return found.slice(0, wanted)
}
