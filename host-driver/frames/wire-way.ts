/**
 * The way over a wire: its queues, and its verbs, are frames of one session.
 *
 * Invariant: whatever is opened here is named by a number that is drawn for it, and speaks in the
 * name of the client and the protection domain of its options.
 */

import { RECORD_BYTES_MAX } from '../../firmware/board/limits.ts'
import type { Management } from '../control/management.ts'
import type { VerbsWay } from '../way/verbs-way.ts'
import type { JobQueue, QueueOptions, VerbsOptions, Way } from '../way/way.ts'
import { DriverPair, JOBS_DEPTH } from './driver-pair.ts'
import { Session } from './session.ts'
import { WireVerbs } from './verbs/verbs.ts'

export class WireWay extends Session implements Way {
  readonly batchBytesMax: number = RECORD_BYTES_MAX

  /**
   * Draws the Ethernet address under which it is heard on another path: the one that it had is of
   * the old path for a minute (boards/emulator/network/peers.ts). Null: it is the user's.
   */
  anotherMac: (() => readonly number[]) | null = null

  seek(): void {
    // Over its one path a client stays in its place: its ports are published from there.
    const isElsewhere = this.wire.seek?.() ?? false
    if (isElsewhere && this.anotherMac !== null) this.own = { ...this.own, mac: this.anotherMac() }
  }

  async openQueue(management: Management, options: QueueOptions): Promise<JobQueue> {
    const { random, pathMtu, protectionDomain, clientId } = options
    const { ackTimeoutCode, persistTimeoutUs, inbox, notices } = options
    const number = 0x10 + (random() % 0xffff00)
    const firstPsn = random() & 0xffffff
    const granted = await management.connect(
      ...([number, firstPsn, pathMtu, protectionDomain, clientId] as const),
      { send: JOBS_DEPTH, receive: inbox.entries },
      management.isSealed,
    )
    const receive = { inbox, firstPsn, ...(notices && { notices }) }
    return new DriverPair(this, number, granted, {
      ...{ ackTimeoutCode, persistTimeoutUs, receive, management },
    })
  }

  openVerbs(options: VerbsOptions): VerbsWay {
    return new WireVerbs(this, options)
  }
}
