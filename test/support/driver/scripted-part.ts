/**
 * A DPU as the connection of the driver sees it, without frames: jobs come in, and end as the test
 * says; time moves only when the test says so.
 */

import {
  blankCounts,
  PERSIST_QUERY,
  READ,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import type { Management } from '../../../host-driver/control/management.ts'
import type { RegionInfo } from '../../../host-driver/control/part.ts'
import { Connection } from '../../../host-driver/link/connection.ts'
import { type SlotRecord, writeSlotImage } from '../../../host-driver/link/slot-image.ts'
import { Region } from '../../../host-driver/records/region.ts'
import { FLUSHED, type Job, type JobEnd } from '../../../host-driver/way/jobs.ts'
import type { ConnectOptions } from '../../../host-driver/way/options.ts'
import type { JobQueue, Way } from '../../../host-driver/way/way.ts'

const CLIENT = 77n
const NOT_TOLD = 0x84

const INFO: RegionInfo = {
  ...{ name: 'orders', id: 3, kind: 'records', slots: 512, capacity: 100, copies: 2 },
  ...{
    fixedLength: false,
    pair: false,
    takesGuards: false,
    joinsBatches: false,
    placement: 'local',
    writePersist: false,
    protectionDomain: 0,
  },
  ...{ length: 0n, base: 0n, rkey: 0x103, key: new Uint8Array(16), stride: 192 },
  ...{ unsettled: 0, repaired: 0, readOnly: false, refuses: null },
}

const durableEnd: JobEnd = { ...FLUSHED, status: 'SUCCESS', copies: 2, mechanism: 1 }

class ScriptedQueue implements JobQueue {
  readonly granted: JobQueue['granted']
  readonly counts: JobQueue['counts'] = blankCounts()
  readonly batchMax: number
  broken = false
  onIdle: () => void = () => {}
  onBroken: () => void = () => {}
  onSilence: () => void = () => {}
  private readonly part: ScriptedPart

  constructor(part: ScriptedPart, incarnation: number, batchMax: number) {
    this.part = part
    this.granted = { queuePair: 17, firstPsn: 0, incarnation, pathMtu: 4096 }
    this.batchMax = batchMax
  }

  get room(): number {
    return this.broken ? 0 : 400
  }

  post(job: Job): void {
    this.postChain([job])
  }

  postChain(jobs: readonly Job[]): void {
    for (const job of jobs) job.sent = true
    this.part.take(this, jobs)
  }

  close(): void {
    if (this.broken) return
    this.broken = true
    this.part.flush()
  }

  disconnect(): Promise<void> {
    return Promise.resolve()
  }
}

/** How a record ends: 0 is durable, anything else the status of the answer. */
export type Decide = (index: number, job: Job) => number

export class ScriptedPart {
  readonly connection: Connection
  readonly region: Region
  /** Every list of records that was posted, and those that have not ended. */
  readonly bursts: Job[][] = []
  readonly open: Job[][] = []
  /** Operations that the part knows as durable. */
  readonly durable: Map<bigint, Job> = new Map()
  readonly queried: bigint[] = []
  /** What another client has written, by slot. */
  readonly foreign: Map<number, SlotRecord> = new Map()
  state: 'serving' | 'failedClosed' = 'serving'
  incarnation = 1
  /** Called when a queue is made. */
  onOpen: () => void = () => {}
  nowUs = 0
  private queue: ScriptedQueue | null = null
  private readonly batchMax: number
  private timers: { atUs: number; callback: () => void }[] = []

  constructor(options: ConnectOptions = {}, batchMax = 256) {
    this.batchMax = batchMax
    const way: Way = {
      ...{ onDatagram: null, sendDatagram: () => {}, close: () => {}, now: () => this.nowUs },
      batchBytesMax: 65_536,
      counts: {
        ...{ framesSent: 0, framesReceived: 0, bytesSent: 0, bytesReceived: 0, framesDropped: 0 },
      },
      setTimer: (atUs, callback) => {
        const timer = { atUs, callback }
        this.timers.push(timer)
        return () => {
          this.timers = this.timers.filter((one) => one !== timer)
        }
      },
      openQueue: () => {
        this.onOpen()
        this.queue = new ScriptedQueue(this, this.incarnation, this.batchMax)
        return Promise.resolve(this.queue)
      },
      openVerbs: () => {
        throw new Error('no verbs here')
      },
    }
    const management = {
      status: () => Promise.resolve({ incarnation: this.incarnation, state: this.state }),
      open: () => Promise.resolve(INFO),
      close: () => {},
    } as unknown as Management
    this.connection = new Connection(way, management, options, CLIENT, () => 5)
    const open = { info: INFO }
    this.connection.regions.set(INFO.name, open)
    this.region = new Region(this.connection, open)
  }

  static async open(options: ConnectOptions = {}, batchMax = 256): Promise<ScriptedPart> {
    const part = new ScriptedPart(options, batchMax)
    part.connection.use(await part.connection.open())
    return part
  }

  take(queue: JobQueue, jobs: readonly Job[]): void {
    const [first] = jobs
    if (first!.request.kind === WRITE_PERSIST) {
      this.bursts.push([...jobs])
      this.open.push([...jobs])
      return
    }
    for (const job of jobs) {
      const { kind, operation, data } = job.request
      if (kind === PERSIST_QUERY) {
        this.queried.push(operation!)
        const refusal = this.durable.has(operation!) ? 0 : 2
        queueMicrotask(() => job.done({ ...durableEnd, refusal }))
      } else if (kind === READ) {
        const slot = slotOf(job)
        const known = [...this.durable].filter(([, one]) => slotOf(one) === slot)
        const last = known.sort(([one], [other]) => Number(one - other)).at(-1)
        const record = this.foreign.get(slot) ?? {
          ...{ data: last?.[1].request.data ?? new Uint8Array(0), sequence: last?.[0] ?? 0n },
          ...{ clientId: last === undefined ? 0n : CLIENT, operationId: last?.[0] ?? 0n },
        }
        data!.set(writeSlotImage(record, INFO, slot).subarray(0, data!.length))
        queueMicrotask(() => job.done(durableEnd))
      }
    }
    void queue
  }

  /**
   * Answers the oldest list of records: with one status that names the first that was refused, as
   * that of a batch does, or each by itself.
   */
  answer(decide: Decide = () => 0): void {
    const jobs = this.open.shift()!
    let refused = false
    const ends = jobs.map((job) => {
      const status = decide(job.request.batch?.index ?? 0, job)
      if (status === 0) {
        this.durable.set(job.request.operation!, job)
        return durableEnd
      }
      const isFirst = !refused
      refused = true
      const refusal = isFirst ? status : NOT_TOLD
      return { ...durableEnd, status: 'GENERAL_ERR' as const, copies: 0, refusal }
    })
    for (const [i, job] of jobs.entries()) job.done(ends[i]!)
    this.queue!.onIdle()
  }

  /** Makes records durable, and says nothing. */
  store(count: number): void {
    for (const job of this.open[0]!.slice(0, count)) {
      this.durable.set(job.request.operation!, job)
    }
  }

  /** The connection breaks: `about` ends with that status, everything else is flushed. */
  break(status: JobEnd['status'] = 'RETRY_EXC_ERR', about = 0): void {
    const { queue } = this
    const jobs = this.open.splice(0).flat()
    queue!.broken = true
    for (const [i, job] of jobs.entries()) {
      job.done({ ...FLUSHED, status: i === about ? status : 'WR_FLUSH_ERR' })
    }
    queue!.onBroken()
  }

  /** What a queue that is closed does with what it has. */
  flush(): void {
    for (const job of this.open.splice(0).flat()) job.done(FLUSHED)
  }

  async advance(us: number): Promise<void> {
    this.nowUs += us
    const due = this.timers.filter(({ atUs }) => atUs <= this.nowUs)
    this.timers = this.timers.filter(({ atUs }) => atUs > this.nowUs)
    for (const { callback } of due) callback()
    await settle()
  }
}

/** Lets everything happen that needs no time. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

export function bytesOf(seed: number): Uint8Array {
  return Uint8Array.from({ length: 20 }, (_, i) => (i * 7 + seed) & 0xff)
}

/** The slot that a job names. */
export function slotOf({ request }: Job): number {
  return Number(request.address! >> 32n)
}

/** The batch indexes of a list of records. */
export function indexesOf(jobs: readonly Job[]): number[] {
  return jobs.map(({ request }) => request.batch?.index ?? 0)
}
