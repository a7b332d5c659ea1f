/**
 * A DPU that is connected: its regions, its state, and the connection itself.
 *
 * What always holds: closing waits a moment for what is on its way, and what is then still
 * unresolved says so; nothing is printed, and nothing is left behind that keeps a process alive.
 */

import type { Connection } from './connection.ts'
import { ArgumentError, PerdureError, RecordCorrupt, RecordLost } from './errors.ts'
import type { RegionRequest, ScanStep } from './management.ts'
import type { PartStatus, RegionInfo, ReportEntry } from './part.ts'
import { Region } from './region.ts'
import type { OpenRegion } from './region-handle.ts'
import type { Statistics } from './statistics.ts'
import { waitAtMost } from './wire.ts'

/** How long `close` waits for what is on its way, µs. */
const DRAIN_US = 1_000_000

/** How long `close` waits for the DPU to say goodbye, µs. */
const GOODBYE_US = 100_000

/** What a scan of a whole region found. */
export type ScanResult = Omit<ScanStep, 'next'>

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

  /** Lays out an empty part, under an id of 16 bytes; without one it is drawn. */
  async format(deviceId?: Uint8Array): Promise<PartStatus> {
    this.check()
    const { management, random } = this.connection
    const drawn = (): Uint8Array => Uint8Array.from({ length: 16 }, () => random() & 0xff)
    return await management.format(deviceId ?? drawn())
  }

  /** Makes a region, or opens it where one of that name and shape is there. */
  async provision(request: RegionRequest): Promise<Region> {
    this.check()
    const domain = this.connection.options.protectionDomain ?? 0
    return await this.use(await this.connection.management.provision(request, domain))
  }

  /** Opens the region of that name. */
  async openRegion(name: string): Promise<Region> {
    this.check()
    const domain = this.connection.options.protectionDomain ?? 0
    return await this.use(await this.connection.management.open(name, domain))
  }

  /** Every region of the part. */
  regions(): Promise<RegionInfo[]> {
    this.check()
    return this.connection.management.regions()
  }

  status(): Promise<PartStatus> {
    this.check()
    return this.connection.management.status()
  }

  /** What recovery found and did at the last start, and scans since. */
  report(): Promise<ReportEntry[]> {
    this.check()
    return this.connection.management.report()
  }

  /** How often the DPU met each fault since its start, by name; only those that it met. */
  counters(): Promise<Record<string, bigint>> {
    this.check()
    return this.connection.management.counters()
  }

  /** Checks every record of a region with its check code, and repairs what can be repaired. */
  async scan(name: string, progress?: (checked: number) => void): Promise<ScanResult> {
    this.check()
    const { management, options } = this.connection
    const info = await management.open(name, options.protectionDomain ?? 0)
    const total = { checked: 0, repaired: 0, unsettled: 0 }
    for (let next = 0; next < info.slots; ) {
      const step = await management.scan(info.id, next)
      total.checked += step.checked
      total.repaired += step.repaired
      total.unsettled += step.unsettled
      progress?.(total.checked)
      if (step.next <= next) break
      next = step.next
    }
    return total
  }

  /**
   * Gives a lost record up: it becomes blank, and the region takes writes again (D-14). A record
   * that can be read is never given up: PERDURE_ARGUMENT.
   */
  async discard(name: string, record: number): Promise<RegionInfo> {
    const region = await this.openRegion(name)
    const isLost = await region.read(record).then(
      () => false,
      (error: unknown) => {
        if (error instanceof RecordLost || error instanceof RecordCorrupt) return true
        throw error
      },
    )
    if (!isLost) throw new ArgumentError(`record ${record} of '${name}' is not lost`)
    return await this.connection.management.discard(region.info.id, record)
  }

  /**
   * Makes the connection anew: after a restart of the DPU, or to be sure. Every write that was on
   * its way is resolved by asking the part, and sent again where it is not durable. It happens by
   * itself when the DPU stops answering, unless the option `reconnect` is false.
   */
  reconnect(): Promise<void> {
    return this.connection.reconnect()
  }

  statistics(): Statistics {
    return this.connection.statistics()
  }

  /** Waits up to a second for what is on its way, says goodbye, and closes. */
  async close(): Promise<void> {
    const { connection } = this
    if (connection.closed !== null) return
    const { wire } = connection.session
    const writes = connection.openWrites().map((write) => write.persisted)
    if (writes.length > 0) await waitAtMost(wire, DRAIN_US, Promise.allSettled(writes))
    const queuePair = connection.retire()
    if (queuePair !== null && connection.closed === null) {
      const { management } = connection
      const { granted, number } = queuePair
      await management.disconnect(granted.queuePair, number, GOODBYE_US).catch(() => {})
    }
    connection.close(new PerdureError('PERDURE_CLOSED', 'the connection was closed'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** A part that was blank at `connect` gets its queue pair with its first region. */
  private async use(info: RegionInfo): Promise<Region> {
    const { connection } = this
    let open: OpenRegion | undefined = connection.regions.get(info.name)
    if (open === undefined) {
      open = { info }
      connection.regions.set(info.name, open)
    }
    open.info = info
    if (connection.current === null) await connection.reconnect()
    return new Region(connection, open)
  }

  private check(): void {
    if (this.connection.closed !== null) throw this.connection.closed
  }
}
