/**
 * Kills of a board under load, one behind the other, on one part: at instants drawn from a seed the
 * runtime gets a SIGKILL, while it serves or while it starts; then everything is looked at.
 *
 * Invariant: a kill counts once its records were judged, three times: on the part as the
 * kill left it, by READ, and on the part under the board that has recovered.
 */

import { setImmediate, setTimeout } from 'node:timers/promises'
import { type PartStatus, PerdureError, RefusedError } from '../../host-driver/index.ts'
import { randomSource } from '../../host-driver/way/options.ts'
import type { BoardKind, BoardUnderTest } from '../support/board/board.ts'
import { judgeAfterKill, judgeByRead, judgeRecovered, type Violation } from './judge.ts'
import { Ledger, PART_BYTES } from './ledger.ts'
import { Load, openClient } from './load.ts'

interface KillOptions {
  readonly kind: BoardKind
  readonly kills: number
  readonly seed: number
  /** Stores go to a copy, which a kill loses; unless told otherwise. A board may have no such. */
  readonly shadow?: boolean
  /** The runtime is built with write-backs left out: losses are expected, and must be found. */
  readonly dropFlush?: boolean
  /** Called behind every kill. */
  readonly progress?: (tally: Tally) => void
}

/** What was done and seen. */
export interface Tally {
  kills: number
  /** Of these while the board started; its recovery was under way, or just over. */
  killsInStart: number
  acknowledged: number
  /** Records with a version that was begun and not answered for when the board was killed. */
  unanswered: number
  /** What the parts showed behind a kill: records between versions, copies inside their stores. */
  underWay: number
  tornCopies: number
  /** What recovery said: lanes that were in use, records that it made whole. */
  lanes: number
  repaired: number
  /** Records that were read back. */
  read: number
  missing: number
  torn: number
  /** Acknowledged records that are there, in fewer copies than was said. */
  fewer: number
  /** Kills with a violation, and the first violations. */
  killsWithLoss: number
  readonly violations: (Violation & { readonly kill: number })[]
}

/** Violations that are kept to be shown. */
const SHOWN = 10

/**
 * A kill strikes within so long after the load has begun, ms; on a board that is slow, later. A
 * busy machine may have done nothing yet, or all that was asked: so of two kills one strikes amid a
 * load that was answered before, and the board stops while the writers have another turn.
 */
const LOAD_MS = 12
const LOAD_SLOW_MS = 400

/** Connections that reading everything may take. */
const CONNECTIONS = 3

/** One kill in so many strikes while the board starts. */
const IN_START = 8

/** A build that leaves write-backs out is killed until that is noticed, but no oftener. */
const KILLS_TO_NOTICE = 500

/** What a part says of its last recovery. */
type PartCounts = Pick<PartStatus, 'lanesActive' | 'recordsRepaired'>

function newTally(): Tally {
  return {
    ...{ kills: 0, killsInStart: 0, acknowledged: 0, unanswered: 0, underWay: 0, tornCopies: 0 },
    ...{
      lanes: 0,
      repaired: 0,
      read: 0,
      missing: 0,
      torn: 0,
      fewer: 0,
      killsWithLoss: 0,
      violations: [],
    },
  }
}

/** Waits that many milliseconds, the fraction as well. */
async function pause(ms: number): Promise<void> {
  const until = performance.now() + ms
  if (ms >= 2) await setTimeout(Math.floor(ms) - 1)
  while (performance.now() < until);
}

class Run {
  readonly tally: Tally = newTally()
  private readonly options: KillOptions
  private readonly random: () => number
  private board: BoardUnderTest
  private ledger = new Ledger()
  private startMs = 0

  constructor(options: KillOptions) {
    this.options = options
    this.random = randomSource(options.seed)
    this.board = this.newBoard()
  }

  private newBoard(): BoardUnderTest {
    const { kind, shadow = true, dropFlush = false } = this.options
    return kind.make({ bytes: PART_BYTES, shadow, dropFlush })
  }

  /** From 0 to 1. */
  private chance(): number {
    return this.random() / 2 ** 32
  }

  async all(): Promise<Tally> {
    const { progress } = this.options
    try {
      await this.start()
      while (this.isWanted()) {
        await this.one()
        progress?.(this.tally)
      }
      await this.board.stop()
      return this.tally
    } catch (error) {
      const { seed, kind } = this.options
      const where = `${kind.name}, seed ${seed}, kill ${this.tally.kills + 1}`
      throw new Error(`${where}: ${this.board.story()}`, { cause: error })
    } finally {
      await this.board.close()
    }
  }

  /** Whether another kill is. */
  private isWanted(): boolean {
    const { kills, killsWithLoss } = this.tally
    const isUnnoticed = this.options.dropFlush === true && killsWithLoss === 0
    return kills < (isUnnoticed ? KILLS_TO_NOTICE : this.options.kills)
  }

  private async start(): Promise<void> {
    const from = performance.now()
    await this.board.start()
    this.startMs = performance.now() - from
  }

  /** Load, a kill, and everything looked at. */
  private async one(): Promise<void> {
    const { tally, ledger } = this
    await this.killUnderLoad()
    tally.kills += 1
    tally.unanswered += ledger.touched().filter(({ begun, atLeast }) => begun > atLeast).length
    const found = judgeAfterKill(this.board.readImage(), ledger)
    tally.underWay += found.underWay
    tally.tornCopies += found.tornCopies
    if (this.random() % IN_START === 0 && tally.kills < this.options.kills) {
      await this.killInStart()
    }
    await this.start()
    const violations = [...found.violations, ...(await this.look())]
    if (violations.length > 0) await this.lost(violations)
  }

  private async killUnderLoad(): Promise<void> {
    const load = new Load(this.ledger, this.random)
    await load.start(this.board.target)
    const isAmid = this.tally.kills % 2 === 0
    if (isAmid) await load.answered
    await pause(this.chance() * (this.options.kind.isQuick ? LOAD_MS : LOAD_SLOW_MS))
    if (isAmid) {
      this.board.suspend?.()
      await setImmediate()
    }
    load.stop()
    await this.board.kill()
    await load.end()
    this.tally.acknowledged += load.acknowledged
  }

  private async killInStart(): Promise<void> {
    const { tally, board } = this
    const starting = board.start().catch(() => {})
    await pause(this.chance() * this.startMs)
    await board.kill()
    await starting
    tally.kills += 1
    tally.killsInStart += 1
  }

  /** Reads everything through a new client, and looks at the part again. */
  private async look(): Promise<Violation[]> {
    const { tally, ledger, board } = this
    const { part, violations } = await this.readAll()
    tally.lanes += part.lanesActive
    tally.repaired += part.recordsRepaired
    tally.read += ledger.entries.length
    if (violations.length === 0) violations.push(...judgeRecovered(board.readImage(), ledger))
    return violations
  }

  /** What READ says of every record; over a new connection where one breaks. */
  private async readAll(): Promise<{ part: PartCounts; violations: Violation[] }> {
    for (let left = CONNECTIONS; ; left--) {
      const abort = new AbortController()
      try {
        const { dpu, regions } = await openClient(this.board.target, abort.signal)
        const part = await dpu.status()
        const violations = await judgeByRead(regions, this.ledger)
        await dpu.close()
        return { part, violations }
      } catch (error) {
        abort.abort()
        if (error instanceof RefusedError) return this.refused(error)
        if (!(error instanceof PerdureError) || left === 1) throw error
      }
    }
  }

  /** The board came up and serves nothing: all that it ever acknowledged is missing. */
  private refused({ fault }: RefusedError): { part: PartCounts; violations: Violation[] } {
    const gone = this.ledger.entries.filter(({ atLeast }) => atLeast > 0)
    const violations = gone.map(({ target, slot }): Violation => {
      return { kind: 'missing', by: 'read', region: target.name, slot, what: fault }
    })
    return { part: { lanesActive: 0, recordsRepaired: 0 }, violations }
  }

  /** Notes the losses, and goes on with a new part: what a lost record does next proves nothing. */
  private async lost(violations: readonly Violation[]): Promise<void> {
    const { tally } = this
    // Each record counts once, as the worst that was seen of it.
    const rank: readonly Violation['kind'][] = ['fewer', 'missing', 'torn']
    const records = new Map<string, Violation['kind']>()
    for (const { region, slot, kind } of violations) {
      const before = records.get(`${region} ${slot}`)
      if (before !== undefined && rank.indexOf(before) >= rank.indexOf(kind)) continue
      records.set(`${region} ${slot}`, kind)
    }
    for (const kind of records.values()) tally[kind] += 1
    tally.killsWithLoss += 1
    for (const violation of violations) {
      if (tally.violations.length < SHOWN)
        tally.violations.push({ ...violation, kill: tally.kills })
    }
    await this.board.close()
    this.board = this.newBoard()
    this.ledger = new Ledger()
    await this.start()
  }
}

/** Kills a board so many times, and says what became of its records. */
export function killBoard(options: KillOptions): Promise<Tally> {
  return new Run(options).all()
}
