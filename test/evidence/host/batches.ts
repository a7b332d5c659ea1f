/**
 * A batch of two records in order, and the host that is told of what it stores, where it may be
 * (S1-M5, S1-M10; X-5).
 *
 * Invariants:
 * - Each bit of a status is judged as it leaves, and each notice when the host finds it in its
 *   memory: so many copies of that record are durable then.
 * - The second record is never there before the first, wherever anybody is shown both: at any cut
 *   what is durable are the first ones.
 * - Of each record that was stored the host is told once, whoever asks for it again.
 */

import { batchFrames, IN_ORDER, INDEPENDENT } from '../../support/cards/batch-card.ts'
import { acknowledgementIn } from '../../support/judges/acknowledgement.ts'
import { askNotices, noticesIn } from '../../support/queues/notice-host.ts'
import type { QueueHost } from '../../support/queues/queue-host.ts'
import { FORGOTTEN, Judge, OPERATION_BASE, versionData, versionOf } from './judge.ts'
import { CLIENT, RecordPlay, TURNS } from './record.ts'
import { isRefusal, type Level, type Rig, waitOf } from './rig.ts'

/** Operations of a version: of the first record, and of the one behind it. */
const EACH = 10
const RECORDS = 2
/** A version that is refused. */
const SPOILT = 7

function firstOf(version: number): number {
  return OPERATION_BASE + EACH * version
}

/** The data of the second record are no version of the first. */
function dataOf(version: number, index: number): Uint8Array {
  const data = versionData(version)
  return index === 0 ? data : data.map((byte) => byte ^ 0x5a)
}

export class BatchJudge extends Judge {
  /** Of the second record, as `floor`. */
  second: number
  /** No event is such that a prefix is promised to nobody, and the table has forgotten nothing. */
  private readonly isExact: boolean
  private readonly told = new Map<string, number>()

  constructor(rig: Rig, floor: number, isExact: boolean) {
    super(rig, floor)
    this.second = floor
    this.isExact = isExact
  }

  protected override operationOf(v: number): bigint {
    return BigInt(firstOf(v))
  }

  protected override versionIn(data: Uint8Array, record: number): number {
    return versionOf(record === 0 ? data : data.map((byte) => byte ^ 0x5a))
  }

  protected override hear(frame: Uint8Array): void {
    const said = acknowledgementIn(frame)
    if (said === null || said.batch === null) return
    const { status, operation, copies, isQuery: isAnswer, batch } = said
    this.heard.push({ status, operation, copies, isAnswer })
    if (status !== 0) this.refused += 1
    const version = (operation - OPERATION_BASE) / EACH
    // What was acknowledged before is so again, though another write of it is under way.
    for (const index of batch.durable) {
      this.claimedOf(index, version, version === 1 ? 1 : Math.max(1, copies), '')
    }
  }

  private claimedOf(index: number, version: number, said: number, how: string): void {
    if (index === 0) {
      this.claimed(version, said, how)
      return
    }
    this.acknowledged += 1
    const copies = this.copies(1)
    const durable = copies.filter((one) => one >= version).length
    if (durable < said) {
      this.object(`${how}v${version} of record 1 is durable in ${said}: it is in [${copies}]`)
    }
    this.second = Math.max(this.second, version)
  }

  /** The host was told of a record. */
  notice(client: number, operation: number, slot: number, copies: number): void {
    const version = Math.floor((operation - OPERATION_BASE) / EACH)
    this.claimedOf(slot, version, Math.max(1, copies), 'a notice says that ')
    const name = `operation ${operation} of client ${client}`
    const times = (this.told.get(name) ?? 0) + 1
    this.told.set(name, times)
    if (times > 1 && this.isExact) this.object(`the host is told of ${name} ${times} times`)
  }

  /** What a reader saw of the second record, and then of the first. */
  shownBoth(second: Uint8Array, first: Uint8Array, when: string): void {
    const behind = this.versionIn(second, 1)
    const before = this.versionIn(first, 0)
    if (behind < this.second) {
      const was = behind < 0 ? 'torn, or nobody’s' : `v${behind}`
      this.object(`${when}: record 1 is ${was}, and v${this.second} was acknowledged or shown`)
    }
    this.second = Math.max(this.second, behind)
    if (before < behind && this.isExact) {
      this.object(`${when}: record 1 is v${behind}, and record 0 before it is v${before}`)
    }
  }
}

export class BatchPlay extends RecordPlay {
  private readonly own: BatchJudge
  private batches = 0
  /** The driver that has asked to be told, and its queue. */
  private watcher: QueueHost | null = null
  private queue = 0

  constructor(rig: Rig, level: Level, judge: BatchJudge) {
    super(rig, level, judge)
    this.own = judge
  }

  override write(version: number, client: number = CLIENT): boolean {
    const { own, rig } = this
    if (version < own.floor) return true
    this.sendSpoilt()
    return this.send(version, client, rig.part.dirtyShutdowns > 0)
  }

  /** A client that does not know how version 1 ended sends it again. */
  override repeat(): void {
    if (this.own.floor === 1) this.send(1, CLIENT, true)
  }

  /** Its status says that all of it is durable; or, where that may be, that it was forgotten. */
  private send(version: number, client: number, mayForget: boolean): boolean {
    const { own, rig } = this
    own.heard = []
    this.watch()
    rig.byCard((card) => {
      const asked = this.reach(card, client)
      if (asked === null) return
      this.batches += 1
      const pweth = { repetition: version < own.floor || version === 1 }
      const records = Array.from({ length: RECORDS }, (_, slot) => {
        return { slot, data: dataOf(version, slot), wait: waitOf(this.level), pweth }
      })
      const options = { id: this.batches, condition: IN_ORDER, operation: firstOf(version) }
      card.serve(...batchFrames(asked.qp, asked.region, records, options))
    })
    rig.work(TURNS)
    this.hear()
    return own.heard.some(({ status, operation }) => {
      const isTold = status === 0 || (mayForget && status === FORGOTTEN)
      return isTold && operation === firstOf(version)
    })
  }

  /** A batch of which every guard is that of other data: of neither anybody is told as durable. */
  private sendSpoilt(): void {
    const { rig } = this
    this.watch()
    rig.byCard((card) => {
      const asked = this.reach(card, CLIENT)
      if (asked === null) return
      this.batches += 1
      const records = Array.from({ length: RECORDS }, (_, slot) => {
        return { slot, data: dataOf(SPOILT, slot), wait: 1, guard: 1 + slot }
      })
      const condition = this.batches % 2 === 0 ? IN_ORDER : INDEPENDENT
      const options = { id: this.batches, condition, operation: firstOf(SPOILT) }
      card.serve(...batchFrames(asked.qp, asked.region, records, options))
    })
    rig.work(TURNS)
    this.hear()
  }

  /** Each driver asks anew; of what goes through its caches its agent is told anyway. */
  private watch(): void {
    const { rig } = this
    const { driver } = rig
    if (driver === null || driver === this.watcher || rig.placement === 'through') return
    this.watcher = null
    rig.byCard((card) => {
      try {
        const queue = driver.createCq(64)
        if (askNotices(driver, card.open('records'), queue, 'record').fault !== 'PASS') return
        this.watcher = driver
        this.queue = queue
      } catch (error) {
        if (!isRefusal(error)) throw error
      }
    })
  }

  override hear(): void {
    const { own, watcher, queue, rig } = this
    if (watcher === null || watcher !== rig.driver) return
    for (const { says, client, operation, slots, copies } of noticesIn(watcher, queue)) {
      if (says === 'record') own.notice(client, operation, slots[0], copies)
    }
  }

  override query(): void {}

  /** The second record first: what is there of it has the first one before it. */
  override read(when: string, mustServe: boolean): Uint8Array | null {
    let second: Uint8Array | null = null
    const { struck } = this.rig
    this.rig.byCard((card) => {
      const asked = this.reach(card, CLIENT)
      if (asked !== null) second = card.read(asked.qp, asked.region, 1, 0, this.length)
    })
    const first = super.read(when, mustServe && this.rig.struck === struck)
    if (second !== null && first !== null) this.own.shownBoth(second, first, when)
    return first
  }
}
