/**
 * Making a broken connection anew, and finding out what became of the records on their way.
 *
 * What always holds:
 * - The old queue pair is closed at the DPU before anything is asked, unless the part has restarted
 *   and knows it no more: a delayed packet of it can then never overtake what follows.
 * - For every unresolved record, in order, the part is asked first. If its slot carries this client
 *   and this operation, or a later one of this client, the record was made durable and is not sent
 *   again; otherwise it is, under the same operation id (D-6).
 * - Slots are read before anything is sent again, so that one answer cannot disturb the next.
 */

import type { Connection } from './connection.ts'
import { PerdureError, RefusedError, TransportError } from './errors.ts'
import { readJob, VIEW_SETTLED } from './jobs.ts'
import type { QueuePair } from './queue-pair.ts'
import type { OpenRegion } from './region-handle.ts'
import { readSlotImage, type SlotRecord } from './slot-image.ts'
import { sleep } from './wire.ts'
import type { PendingWrite } from './write.ts'

/** How long one attempt waits for a sign of life, and between two attempts, µs. */
const ATTEMPT_US = 500_000
const PAUSE_US = 50_000

/** Connections that may break under one record before it is given up. */
const RESUMES_MAX = 8

export class Reconnection {
  private readonly connection: Connection

  constructor(connection: Connection) {
    this.connection = connection
  }

  /** Resolves when the connection works again. Rejects, and gives everything up, when it cannot. */
  async run(): Promise<void> {
    const { connection } = this
    const { wire } = connection.session
    const endUs = wire.now() + (connection.options.reconnectTimeoutMs ?? 30_000) * 1000
    const old = connection.retire()
    for (;;) {
      try {
        await this.attempt(old)
        return
      } catch (error) {
        const again = isPassing(error) && wire.now() < endUs && connection.closed === null
        if (!again) throw this.giveUp(error)
        await sleep(wire, PAUSE_US)
      }
    }
  }

  private async attempt(old: QueuePair | null): Promise<void> {
    const { connection } = this
    const { management } = connection
    const part = await management.status(ATTEMPT_US)
    if (old !== null && old.granted.incarnation === part.incarnation) {
      await this.disconnect(old)
    }
    for (const region of connection.regions.values()) {
      region.info = await management.open(region.info.name, region.info.protectionDomain)
    }
    const queuePair = await connection.open()
    try {
      await this.ask(queuePair)
      if (connection.closed !== null) throw connection.closed
      connection.use(queuePair)
    } catch (error) {
      queuePair.close()
      await this.disconnect(queuePair).catch(() => {})
      throw error
    }
  }

  /** An unknown queue pair is as good as a closed one. */
  private async disconnect(queuePair: QueuePair): Promise<void> {
    const { management } = this.connection
    try {
      await management.disconnect(queuePair.granted.queuePair, queuePair.number, ATTEMPT_US)
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error
    }
  }

  /** Settles what the part knows to be durable; the rest is queued to be sent again, in order. */
  private async ask(queuePair: QueuePair): Promise<void> {
    const { unresolved } = this.connection
    const open = [...unresolved.values()].filter((write) => !write.settled)
    unresolved.clear()
    for (const write of open) unresolved.set(write.operationId, write)
    const found = await this.readSlots(queuePair, open)
    const rest: PendingWrite[] = []
    for (const write of open) {
      if (write.settled) continue
      if (this.isDurable(write, found.get(slotName(write)) ?? null)) {
        this.recovered(write, queuePair)
      } else if (++write.resumed > RESUMES_MAX) {
        const error = new TransportError('RETRY_EXC_ERR', write.what)
        write.giveUp(`${RESUMES_MAX} connections broke under it`, error)
      } else {
        rest.push(write)
        this.connection.totals.sentAgain++
      }
    }
    unresolved.clear()
    this.connection.requeue(rest)
  }

  private async readSlots(
    queuePair: QueuePair,
    writes: readonly PendingWrite[],
  ): Promise<Map<string, SlotRecord | null>> {
    const found = new Map<string, SlotRecord | null>()
    const slots = new Map(writes.map((write) => [slotName(write), write]))
    const reads = [...slots].map(async ([name, { region, slot }]) => {
      const image = await readOver(queuePair, region, slot)
      found.set(name, readSlotImage(image, region.info, slot).record)
    })
    await Promise.all(reads)
    return found
  }

  private isDurable(write: PendingWrite, record: SlotRecord | null): boolean {
    if (record === null || record.clientId !== this.connection.clientId) return false
    return record.operationId >= write.operationId
  }

  private recovered(write: PendingWrite, queuePair: QueuePair): void {
    const { connection } = this
    const { info } = write.region
    connection.totals.recovered++
    connection.totals.recordsDurable++
    write.succeed({
      region: info.name,
      slot: write.slot,
      operationId: write.operationId,
      psn: 0,
      copies: info.copies,
      of: info.copies,
      mechanism: 'unknown',
      incarnation: queuePair.granted.incarnation,
      latencyUs: connection.session.wire.now() - write.startedUs,
      recovered: true,
    })
  }

  private giveUp(error: unknown): PerdureError {
    const { connection } = this
    if (connection.closed !== null) return connection.closed
    const reason =
      error instanceof PerdureError
        ? error
        : new PerdureError('PERDURE_UNREACHABLE', 'the connection cannot be made', { cause: error })
    connection.drop(reason)
    return reason
  }
}

/** One read over a queue pair that is not yet in use. */
function readOver(queuePair: QueuePair, region: OpenRegion, slot: number): Promise<Uint8Array> {
  const { info } = region
  return new Promise((resolve, reject) => {
    const image = new Uint8Array(info.stride)
    const job = readJob(info, slot, VIEW_SETTLED, image, ({ status }) => {
      if (status === 'SUCCESS') resolve(image)
      else reject(new TransportError(status, `read record ${slot} of '${info.name}'`))
    })
    queuePair.post(job)
  })
}

function slotName(write: PendingWrite): string {
  return `${write.region.info.id}:${write.slot}`
}

/** Whether trying again may help: nobody answered, or the new connection broke as well. */
function isPassing(error: unknown): boolean {
  if (error instanceof TransportError) {
    return error.status !== 'REM_ACCESS_ERR' && error.status !== 'REM_INV_REQ_ERR'
  }
  return error instanceof PerdureError && error.code === 'PERDURE_UNREACHABLE'
}
