/**
 * Making a broken connection again, and finding out what became of the records on their way.
 *
 * Invariants:
 * - The old queue pair is closed at the DPU before anything is asked, unless the part has restarted
 *   and knows it no more: a delayed packet of it can then never overtake what follows.
 * - For every unresolved record the part is asked first, by its operation (PERSIST_QUERY; D-6,
 *   G2-3). One that the part knows as durable is not sent again, whoever has written over it since.
 * - What the part does not know it may have forgotten: then the slot is read. If it carries this
 *   client and this operation, or a later one of this client, the record was made durable and is
 *   not sent again; otherwise it is, under the same operation id, and the part executes it once.
 * - Where somebody else has written to the slot, only the part can tell whether that was before or
 *   after, and so where the slot cannot be read, as of a region that another DPU has: it is sent
 *   again as a repetition, which the part executes if it is sure that it did not before. A part
 *   that has forgotten the client says so, and the outcome is unknown.
 * - A slot that the part cannot read just now, as its host is away, tells nothing either: its READ
 *   ends the new connection, and no slot of that region is read again. The other regions go on.
 * - A record counts as durable only in as many whole copies as it waits for. What a part that
 *   failed closed still holds may be in no persistence domain: its outcome is unknown.
 * - In the memory of a host a copy that is read may lie in the caches alone. Of a record that is
 *   shown there one copy is durable; of more only the part knows: the record is sent again as a
 *   repetition, which is acknowledged when there are as many.
 * - A region that has ended stays ended, also where another has its name: no record of it is stored
 *   there, and the other regions go on.
 * - Keys are asked for behind the new connection, as they are told to nobody else; a part that was
 *   started again meanwhile knows it no more, and tells none.
 * - Slots are read before anything is sent again, so that one answer cannot disturb the next.
 */

import { STATUS_DURABLE } from '../../firmware/wire/persist-ack.ts'
import { sleep } from '../base/clock.ts'
import { PerdureError, RefusedError, TransportError } from '../base/errors.ts'
import type { Management } from '../control/management.ts'
import type { PartStatus } from '../control/part.ts'
import { resultOf } from '../way/chain.ts'
import {
  type Done,
  type Job,
  type JobEnd,
  queryJob,
  readJob,
  VIEW_FIRST_COPY,
  VIEW_SETTLED,
} from '../way/jobs.ts'
import type { ConnectOptions } from '../way/options.ts'
import { endGone, isSameRegion, type OpenRegion } from '../way/region-handle.ts'
import type { JobQueue, Way } from '../way/way.ts'
import type { PendingWrite } from '../way/write.ts'
import type { PathMtu } from './path-mtu.ts'
import { readSlotImage, type SlotRecord } from './slot-image.ts'

/** How long one attempt waits for a sign of life, and between two attempts, µs. */
const ATTEMPT_US = 500_000
const PAUSE_US = 50_000

/** A connection that broke, as a reconnection uses it. */
export interface Broken {
  readonly way: Way
  readonly management: Management
  readonly options: ConnectOptions
  readonly clientId: bigint
  readonly regions: ReadonlyMap<string, OpenRegion>
  readonly unresolved: Map<bigint, PendingWrite>
  readonly closed: PerdureError | null
  readonly pathMtu: PathMtu
  durable: PartStatus['durable']
  readonly totals: { recovered: number; sentAgain: number }
  /** A queue that broke, and is still open at the DPU for all that is known. */
  readonly left: JobQueue | null
  /** Takes the queue out of use, and returns it. */
  retire(): JobQueue | null
  /** Makes a queue at both ends; `use` takes it into use. */
  open(): Promise<JobQueue>
  use(queuePair: JobQueue): void
  /** Puts what a broken connection left undone in front of everything else. */
  requeue(writes: readonly PendingWrite[]): void
  /** The part has said that a record is durable. */
  noteDurable(): void
  /** The attempt is over. */
  endReconnection(): void
  /** Ends everything that waits or is unresolved. */
  drop(error: PerdureError): void
}

/** What a slot holds, and how many copies of it are durable at the least. */
interface Found {
  readonly record: SlotRecord | null
  readonly copies: number
}

const NOTHING_FOUND: Found = { record: null, copies: 0 }

/** Queries on their way at once. */
const QUERIES_AT_ONCE = 32

/** Connections that may break under one record before it is given up. */
const RESUMES_MAX = 8

export class Reconnection {
  private readonly connection: Broken
  /** What the broken connection tells of the path counts once. */
  private hasLearnt = false
  /** Regions of which a slot could not be read. */
  private readonly unreadable: Set<OpenRegion> = new Set()

  constructor(connection: Broken) {
    this.connection = connection
  }

  /** Resolves when the connection works again. Rejects, and gives everything up, when it cannot. */
  async run(): Promise<void> {
    const { connection } = this
    const { way } = connection
    const endUs = way.now() + (connection.options.reconnectTimeoutMs ?? 30_000) * 1000
    const old = connection.retire() ?? connection.left
    for (;;) {
      way.seek?.()
      try {
        await this.attempt(old)
        return
      } catch (error) {
        const again = isPassing(error) && way.now() < endUs && connection.closed === null
        if (!again) throw this.giveUp(error)
        await sleep(way, PAUSE_US)
      }
    }
  }

  private async attempt(old: JobQueue | null): Promise<void> {
    const { connection } = this
    const { management } = connection
    const part = await management.status(ATTEMPT_US)
    connection.durable = part.durable
    if (old !== null && old.granted.incarnation === part.incarnation) {
      await this.disconnect(old)
      if (!this.hasLearnt) connection.pathMtu.learn(old)
      this.hasLearnt = true
    }
    const queuePair = await connection.open()
    try {
      if (queuePair.granted.incarnation !== part.incarnation) throw startedAgain()
      for (const region of connection.regions.values()) await this.learn(region)
      // The card of this host may have been started again meanwhile, and the queue with it.
      if (queuePair.broken) throw startedAgain()
      await this.ask(queuePair, part.state === 'serving')
      if (connection.closed !== null) throw connection.closed
      connection.use(queuePair)
    } catch (error) {
      queuePair.close()
      const isThere = await this.disconnect(queuePair).then(
        () => true,
        () => false,
      )
      if (isThere) connection.pathMtu.learn(queuePair)
      throw error
    }
  }

  /** What the region is now. One that has ended is none any more, and the others go on. */
  private async learn(region: OpenRegion): Promise<void> {
    const { name, protectionDomain } = region.info
    const { management } = this.connection
    try {
      const info = await (region.learn?.() ?? management.open(name, protectionDomain))
      // Keys are told to a connection: the part knows the new one no more.
      if (info.rkey === 0) throw startedAgain()
      region.gone = region.learn === undefined && !isSameRegion(info, region.info)
      if (!region.gone) region.info = info
    } catch (error) {
      if (!(error instanceof RefusedError) || error.fault !== 'NO_REGION') throw error
      region.gone = true
    }
  }

  /** An unknown queue pair is as good as a closed one. */
  private async disconnect(queuePair: JobQueue): Promise<void> {
    try {
      await queuePair.disconnect(ATTEMPT_US)
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error
    }
  }

  /** Settles what the part knows to be durable; the rest is queued to be sent again, in order. */
  private async ask(queuePair: JobQueue, serving: boolean): Promise<void> {
    const { unresolved } = this.connection
    for (const write of unresolved.values()) if (write.region.gone === true) endGone(write)
    const open = [...unresolved.values()].filter((write) => !write.settled)
    unresolved.clear()
    for (const write of open) unresolved.set(write.operationId, write)
    const known = await this.askOperations(queuePair, open)
    const unknown = open.filter(({ operationId }) => !known.has(operationId))
    const found = await this.readSlots(queuePair, unknown)
    for (const write of open) {
      if (!write.settled && known.has(write.operationId)) {
        this.recovered(write, write.wait, queuePair)
      }
    }
    const rest: PendingWrite[] = []
    for (const write of unknown) {
      if (write.settled) continue
      const { record, copies } = found.get(slotName(write))!
      if (!serving && write.sent) {
        const closed = new TransportError('RESP_TIMEOUT_ERR', write.what)
        write.giveUp('the part failed closed, and its next start decides', closed)
      } else if (this.isDurable(write, record, copies)) {
        this.recovered(write, copies, queuePair)
      } else if (++write.resumed > RESUMES_MAX) {
        const error = new TransportError('RETRY_EXC_ERR', write.what)
        write.giveUp(`${RESUMES_MAX} connections broke under it`, error)
      } else {
        write.repetition = this.mayBeDurable(write, record)
        rest.push(write)
        this.connection.totals.sentAgain++
      }
    }
    unresolved.clear()
    this.connection.requeue(rest)
  }

  /** The operations that the part knows as durable. */
  private async askOperations(
    queuePair: JobQueue,
    writes: readonly PendingWrite[],
  ): Promise<Set<bigint>> {
    const known = new Set<bigint>()
    const open = writes.filter((write) => write.sent).map((write) => write.operationId)
    while (open.length > 0) {
      const asked = open.splice(0, QUERIES_AT_ONCE)
      const ends = await Promise.all(asked.map((id) => queryOver(queuePair, id)))
      let upTo = 0n
      ends.forEach((end, i) => {
        if (end.refusal === STATUS_DURABLE) known.add(asked[i]!)
        if (end.cumulative) upTo = resultOf(end)
      })
      // Of what is not asked yet, one answer may have spoken already.
      while (open.length > 0 && open[0]! <= upTo) known.add(open.shift()!)
    }
    return known
  }

  private async readSlots(
    queuePair: JobQueue,
    writes: readonly PendingWrite[],
  ): Promise<Map<string, Found>> {
    const found = new Map<string, Found>()
    // Plain bytes do not say whose they are.
    for (const write of writes) if (write.area) found.set(slotName(write), NOTHING_FOUND)
    const records = writes.filter(({ area }) => !area)
    const slots = new Map(records.map((write) => [slotName(write), write]))
    const reads = [...slots].map(async ([name, { region, slot }]) => {
      const recordOf = async (view: number): Promise<SlotRecord | null> => {
        if (this.unreadable.has(region)) return null
        const image = await this.imageOf(queuePair, region, slot, view)
        return readSlotImage(image, region.info, slot).record
      }
      const record = await recordOf(VIEW_SETTLED)
      const isRead = record !== null && !isInHost(region)
      let copies = record === null || isRead ? 0 : 1
      for (let copy = 0; isRead && copy < region.info.copies; copy++) {
        const held = await recordOf(VIEW_FIRST_COPY + copy)
        if (held?.sequence === record.sequence) copies++
      }
      found.set(name, { record, copies })
    })
    await Promise.all(reads)
    return found
  }

  /** Whoever tries again knows which region ended this attempt. */
  private async imageOf(
    queuePair: JobQueue,
    region: OpenRegion,
    slot: number,
    view: number,
  ): Promise<Uint8Array> {
    try {
      return await readOver(queuePair, region, slot, view)
    } catch (error) {
      const isRefused = error instanceof TransportError && error.status === 'REM_OP_ERR'
      if (isRefused) this.unreadable.add(region)
      throw error
    }
  }

  private isDurable(write: PendingWrite, record: SlotRecord | null, copies: number): boolean {
    if (record === null || record.clientId !== this.connection.clientId) return false
    // One that a later record has replaced must not come back, whatever became of its copies.
    if (record.operationId > write.operationId) return true
    return record.operationId === write.operationId && copies >= write.wait
  }

  /**
   * May it have been made durable, forgotten, and replaced by somebody else? A slot that shows no
   * record tells nothing: it is lost, or it lies with another DPU and is not read here. One in the
   * memory of a host that shows this very record is on its way to further copies, or has them.
   */
  private mayBeDurable(write: PendingWrite, record: SlotRecord | null): boolean {
    if (!write.sent) return false
    if (record === null) return true
    if (record.clientId !== this.connection.clientId) return isWritten(record)
    return record.operationId === write.operationId && isInHost(write.region)
  }

  private recovered(write: PendingWrite, copies: number, queuePair: JobQueue): void {
    const { connection } = this
    const { info } = write.region
    connection.totals.recovered++
    connection.noteDurable()
    write.succeed({
      region: info.name,
      slot: write.slot,
      operationId: write.operationId,
      psn: 0,
      copies,
      of: info.copies,
      mechanism: 'unknown',
      durable: connection.durable === 'nothing' ? 'unknown' : connection.durable,
      incarnation: queuePair.granted.incarnation,
      latencyUs: connection.way.now() - write.startedUs,
      recovered: true,
    })
  }

  private giveUp(error: unknown): PerdureError {
    const { connection } = this
    connection.endReconnection()
    if (connection.closed !== null) return connection.closed
    const reason =
      error instanceof PerdureError
        ? error
        : new PerdureError('PERDURE_UNREACHABLE', 'the connection cannot be made', { cause: error })
    connection.drop(reason)
    return reason
  }
}

/** One job over a queue pair that is not yet in use. Rejects with TransportError. */
function endOver(queuePair: JobQueue, what: string, make: (done: Done) => Job): Promise<JobEnd> {
  return new Promise((resolve, reject) => {
    const job = make((end) => {
      if (end.status === 'SUCCESS') resolve(end)
      else reject(new TransportError(end.status, what))
    })
    queuePair.post(job)
  })
}

function queryOver(queuePair: JobQueue, id: bigint): Promise<JobEnd> {
  return endOver(queuePair, `ask for operation ${id}`, (done) => queryJob(id, done))
}

async function readOver(
  queuePair: JobQueue,
  { info }: OpenRegion,
  slot: number,
  view: number,
): Promise<Uint8Array> {
  const image = new Uint8Array(info.stride)
  const what = `read record ${slot} of '${info.name}'`
  await endOver(queuePair, what, (done) => readJob(info, slot, view, image, done))
  return image
}

/** Do its records lie in the memory of a host? A placement that is not known may be there, too. */
function isInHost({ info }: OpenRegion): boolean {
  return info.placement !== 'local'
}

/** Has anybody written the slot yet? */
function isWritten({ clientId, operationId }: SlotRecord): boolean {
  return clientId !== 0n || operationId !== 0n
}

function startedAgain(): PerdureError {
  return new PerdureError('PERDURE_UNREACHABLE', 'the part was started again meanwhile')
}

function slotName(write: PendingWrite): string {
  return `${write.region.info.id}:${write.slot}`
}

/** Nobody answered, or the local card has gone away once more. */
const PASSING: ReadonlySet<string> = new Set([
  'PERDURE_UNREACHABLE',
  'PERDURE_CARD_REMOVED',
  'PERDURE_QUEUE_ENDED',
])

/** Whether trying again may help: nobody answered, or the new connection broke as well. */
const PASSING_FAULTS: readonly string[] = ['ATTACH_FAILED', 'QUEUE_PAIRS_FULL']

function isPassing(error: unknown): boolean {
  if (error instanceof TransportError) {
    return error.status !== 'REM_ACCESS_ERR' && error.status !== 'REM_INV_REQ_ERR'
  }
  // The DPU behind the DPU may be on its way up; and a place may just be freed for who asks.
  if (error instanceof RefusedError) return PASSING_FAULTS.includes(error.fault)
  return error instanceof PerdureError && PASSING.has(error.code)
}
