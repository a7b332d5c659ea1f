/**
 * What the card has heard of the memory at a peer, as notices for the watches of a connection: the
 * same that come in frames where a driver has no card (receiver.ts).
 *
 * Invariants:
 * - The card follows the memory, and asks again for what it has not heard (status/hearing.ts of the
 *   firmware); its states are read when it says that there is something new, or that events were
 *   lost.
 * - Each answer of the card is a notice of the current status, with a sequence of its own; what
 *   changes while several are read, the card tells again.
 */

import { PHASE_SILENT, PHASE_TOLD } from '../../firmware/residency/blocks.ts'
import { u32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import {
  blankMseth,
  FORM_BITMAP,
  type Mseth,
  STATUS_CURRENT,
} from '../../firmware/wire/memory-status.ts'
import type { Notices } from '../way/inbox.ts'
import type { PcieDevice } from './device.ts'
import type { QueueEvent } from './queues/values.ts'

export class Hearing {
  private readonly device: PcieDevice
  /** The send queue whose elements associate. */
  private readonly queue: number
  private readonly notices: Notices
  /** Keys of what is followed; and whether the card is to be asked (again) of one being read. */
  private readonly keys: Set<number> = new Set()
  private readonly reading: Map<number, { again: boolean }> = new Map()
  private readonly watcher = { happened: (event: QueueEvent) => this.happened(event) }
  private sequence = 0

  constructor(device: PcieDevice, queue: number, notices: Notices) {
    this.device = device
    this.queue = queue
    this.notices = notices
    device.watchers.add(this.watcher)
  }

  follow(rkey: number): void {
    this.keys.add(rkey)
  }

  forget(rkey: number): void {
    this.keys.delete(rkey)
  }

  close(): void {
    this.device.watchers.delete(this.watcher)
    this.keys.clear()
  }

  private happened({ type, queue, rkey }: QueueEvent): void {
    if (type === 'lost') for (const key of this.keys) this.read(key)
    else if (type === 'residency' && queue === this.queue) this.read(rkey!)
  }

  private read(rkey: number): void {
    const before = this.reading.get(rkey)
    if (before !== undefined) before.again = true
    else this.readAll(rkey).catch(() => {})
  }

  /** Reads until nothing new was told meanwhile. Without a card it is over, as its queues are. */
  private async readAll(rkey: number): Promise<void> {
    const turn = { again: true }
    this.reading.set(rkey, turn)
    try {
      while (turn.again && this.keys.has(rkey)) {
        turn.again = false
        await this.readOnce(rkey)
      }
    } finally {
      this.reading.delete(rkey)
    }
  }

  private async readOnce(rkey: number): Promise<void> {
    let first = 0
    let size = 0
    for (;;) {
      const body = await this.device.control.residency(this.queue, rkey, first)
      if (!this.keys.has(rkey)) return
      const here = u32(body, mad.RESIDENCY_HERE)
      const blocks = u32(body, mad.RESIDENCY_BLOCKS)
      // Of another size now: the card has told that, or is about to.
      if (first > 0 && body[mad.RESIDENCY_BLOCK_SIZE] !== size) return
      size = body[mad.RESIDENCY_BLOCK_SIZE]!
      this.tell(rkey, body, first, here, first + here < blocks)
      first += here
      if (first >= blocks || body[mad.RESIDENCY_PHASE] !== PHASE_TOLD) return
    }
  }

  private tell(rkey: number, body: Uint8Array, first: number, here: number, more: boolean): void {
    const phase = body[mad.RESIDENCY_PHASE]!
    if (phase === PHASE_SILENT) return
    const isTold = phase === PHASE_TOLD
    this.sequence = (this.sequence + 1) >>> 0
    const mseth: Mseth = {
      ...blankMseth(),
      ...{ rkey, sequence: this.sequence, health: body[mad.RESIDENCY_HEALTH]! },
      incarnation: u32(body, mad.RESIDENCY_INCARNATION),
      blockSizeLog2: body[mad.RESIDENCY_BLOCK_SIZE]!,
      kind: isTold ? STATUS_CURRENT : phase,
      ...(isTold ? { form: FORM_BITMAP, entries: here, firstBlock: first, more } : {}),
    }
    const bytes = isTold ? Math.ceil(here / 8) : 0
    this.notices.notice(mseth, body, mad.RESIDENCY_STATES, bytes)
  }
}
