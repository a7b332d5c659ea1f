/**
 * The way over the queues of the local card: to its own regions, or to another DPU that it leads
 * to.
 *
 *   to the local card     a pair of the type LOCAL, which knows the client by itself
 *   to another          a pair of the type CONNECTED: the card gives it a number, the other DPU is
 *                       asked to CONNECT to that number, and its answer makes the pair ready
 *
 * Invariants:
 * - Several ways may share one device. A card that was gone is taken into use again as soon as it
 *   is back and somebody wants it.
 * - A pair ends at the local card before it is closed at the other DPU: behind that nothing of it
 *   is sent, and what is still on its way finds nobody.
 * - An answer is believed of the DPU that was asked, and of the local card, which answers nothing
 *   but what its host has asked of it (also under its own address).
 */

import { BATCH_ELEMENT_BYTES_MAX } from '../../firmware/board/limits.ts'
import type { Endpoint } from '../base/wire.ts'
import type { Granted, Management } from '../control/management.ts'
import type { VerbsWay } from '../way/verbs-way.ts'
import {
  blankWireCounts,
  type JobQueue,
  type QueueOptions,
  type VerbsOptions,
  type Way,
  type WireCounts,
} from '../way/way.ts'
import { type CardBatchWatch, watchBatches } from './batch-watch.ts'
import { peerOf } from './control.ts'
import type { DatagramHandler, PcieDevice } from './device.ts'
import { JOB_INLINE_BYTES, JOB_UNITS_MAX, JOBS, PcieJobQueue } from './job-queue.ts'
import { powerOfTwo } from './queues/arena.ts'
import type { CardQueuePair } from './queues/card-queue-pair.ts'
import type { CompletionQueue } from './queues/completion-queue.ts'
import { PcieVerbs } from './verbs/verbs.ts'
import { reopenDevice } from './watchers.ts'

export class PcieWay implements Way {
  /** No frame is ever seen here. */
  readonly counts: WireCounts = blankWireCounts()
  readonly batchBytesMax: number = BATCH_ELEMENT_BYTES_MAX
  onDatagram: Way['onDatagram'] = null
  readonly watchBatches?: NonNullable<Way['watchBatches']>
  private readonly device: PcieDevice
  private readonly peer: Endpoint | null
  private readonly owned: boolean
  private readonly queues = new Set<PcieJobQueue>()
  private readonly watches = new Set<CardBatchWatch>()
  private readonly take: DatagramHandler = (bytes, at, length, from) => {
    if (this.believes(from)) this.onDatagram?.(bytes, at, length)
  }

  /**
   * `peer` is null for the local card; a device that is `owned` is closed together with the way.
   */
  constructor(device: PcieDevice, peer: Endpoint | null, owned: boolean) {
    this.device = device
    this.peer = peer
    this.owned = owned
    device.onDatagram.add(this.take)
    if (peer !== null) return
    this.watchBatches = async (region, listener, options) => {
      await reopenDevice(device)
      for (const one of this.watches) if (one.ended) this.watches.delete(one)
      const watch = await watchBatches(device, region, listener, options)
      this.watches.add(watch)
      return watch
    }
  }

  private believes(from: Endpoint | null): boolean {
    const { peer } = this
    if (from === null) return true
    return peer !== null && isSame(from.mac, peer.mac) && isSame(from.ipv4, peer.ipv4)
  }

  now(): number {
    return this.device.now()
  }

  setTimer(atUs: number, callback: () => void): () => void {
    return this.device.setTimer(atUs, callback)
  }

  nextSpeaker(): number {
    return this.device.nextSpeaker()
  }

  /** Without a card it is lost; the next one may find it again. */
  sendDatagram(datagram: Uint8Array): void {
    if (this.device.isOpen) this.device.sendDatagram(datagram, this.peer ?? undefined)
    else reopenDevice(this.device).catch(() => {})
  }

  async openQueue(management: Management, options: QueueOptions): Promise<JobQueue> {
    await reopenDevice(this.device)
    for (const one of this.queues) if (one.broken) this.queues.delete(one)
    const cq = await this.device.createCq({ entries: powerOfTwo(2 * JOBS + options.inbox.entries) })
    try {
      const queue = await this.openOn(cq, management, options)
      this.queues.add(queue)
      return queue
    } catch (error) {
      await this.device.destroyCq(cq).catch(() => {})
      throw error
    }
  }

  private async openOn(
    cq: CompletionQueue,
    management: Management,
    options: QueueOptions,
  ): Promise<PcieJobQueue> {
    const { peer, device } = this
    const { clientId, protectionDomain: domain, ackTimeoutCode, inbox, notices } = options
    const sendUnits = powerOfTwo(JOBS * JOB_UNITS_MAX)
    const pair = await device.createQp({
      type: peer === null ? 'local' : 'connected',
      ...{ domain, clientId, sendCq: cq, sendUnits, inlineMax: JOB_INLINE_BYTES },
      receiveUnits: Math.max(sendUnits, powerOfTwo(inbox.entries)),
    })
    try {
      const granted =
        peer === null
          ? await this.ownGrant(management, options)
          : await this.connect(pair, peer, management, options)
      const { number } = pair
      const queue = new PcieJobQueue(device, pair, {
        ...{ granted, ackTimeoutCode, inbox: peer === null ? null : inbox },
        ...(peer !== null && notices && { notices }),
        disconnect: async (timeoutUs) => {
          this.queues.delete(queue)
          if (peer !== null) await management.disconnect(granted.queuePair, number, timeoutUs)
        },
      })
      return queue
    } catch (error) {
      await pair.destroy().catch(() => {})
      throw error
    }
  }

  /** The local card grants what it has: there is nobody else to ask. */
  private async ownGrant(management: Management, { pathMtu }: QueueOptions): Promise<Granted> {
    const { incarnation } = await management.status()
    return { queuePair: 0, firstPsn: 0, incarnation, pathMtu }
  }

  private async connect(
    pair: CardQueuePair,
    peer: Endpoint,
    management: Management,
    { random, pathMtu, protectionDomain, clientId, inbox }: QueueOptions,
  ): Promise<Granted> {
    const peerPsn = random() & 0xffffff
    const mtu = Math.min(pathMtu, this.device.pathMtu)
    const { number, depths } = pair
    const granted = await management.connect(
      ...([number, peerPsn, mtu, protectionDomain, clientId] as const),
      { ...depths, receive: Math.min(depths.receive, inbox.entries) },
    )
    await pair.ready(peerOf(granted, peerPsn, peer))
    return granted
  }

  openVerbs({ clientId }: VerbsOptions): VerbsWay {
    return new PcieVerbs(this.device, this.peer, clientId)
  }

  close(): void {
    this.device.onDatagram.delete(this.take)
    for (const queue of this.queues) queue.close()
    for (const watch of this.watches) watch.end().catch(() => {})
    if (this.owned) this.device.close()
  }
}

function isSame(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((byte, i) => byte === other[i])
}
