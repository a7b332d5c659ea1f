/**
 * The supervisor: runs `perdured` by the slots, and takes new firmware whatever that does.
 *
 * Invariants:
 * - SMP is answered whether anything runs or not: a bad firmware can be flashed over.
 * - One child at most runs, and none is started before the one before has ended: also not by the
 *   next supervisor, for both have the lock of the slots.
 * - What is on trial goes back where it ends, gives no sign of life, fails its self-test, or is not
 *   confirmed in time; also where the supervisor itself is started again. Why, is noted before the
 *   start that goes back.
 * - What is confirmed is started again when it ends, unless that would not mend it; where no slot
 *   holds what may run, what came with the package does.
 *
 * The states, and what leads from one to another:
 *
 *     starting ──ready──▶ serving ──signal──▶ ending ──it has ended──▶ starting
 *        │                   │                                            ▲
 *        └──── it ends ──────┴──▶ waiting (a second) ─────────────────────┤
 *                            └──▶ off (until a reset) ────────────────────┘
 */

import { createPublicKey, type KeyObject } from 'node:crypto'
import { checkFor } from '../../../flash/check-image.ts'
import { IMAGE_BYTES_MAX, versionText } from '../../../flash/mcuboot.ts'
import { SlotStore, STORAGE_BYTES } from '../../../flash/slot-store.ts'
import type { SmpCard } from '../../../flash/smp.ts'
import type { Storage } from '../../../flash/storage.ts'
import { Child, type Report } from './child.ts'
import type { Came, Host, Script, Watch } from './host.ts'
import type { Settings } from './settings.ts'
import { HostStorage } from './storage.ts'
import { Ways } from './ways.ts'

/** How long a child may take to end in order, and to come to serve without a sign, ms. */
const ENDING_MS = 10_000
const STARTING_MS = 60_000
/** From the end of a child to the next one, ms. */
const AGAIN_MS = 1000
/** How long its console may take to answer, ms. */
const ASK_MS = 1000
/** Bytes of what a child says of itself at a time, and of a key's file. */
const NOTICE_BYTES = 4096
const KEY_BYTES_MAX = 4096

/** What another start would not mend: command line, bundle, files, rights, configuration. */
const FOR_GOOD: ReadonlySet<number> = new Set([64, 65, 66, 77, 78])

type State = 'starting' | 'serving' | 'ending' | 'waiting' | 'off'

interface SupervisorOptions {
  readonly host: Host
  readonly settings: Settings
  /** What the package's runtime has agreed on with a bundle. */
  readonly hal: Uint8Array
  /** Where a child says how it is. */
  readonly notifyPath: string
  /** In the place of the file of the slots: for tests. */
  readonly storage?: Storage
}

export class Supervisor implements SmpCard, Script {
  readonly slots: SlotStore
  readonly slotBytes: number = IMAGE_BYTES_MAX
  readonly statisticsGroups: readonly string[] = ['boot', 'card']
  readonly ways: Ways
  private readonly host: Host
  private readonly settings: Settings
  private readonly notifyPath: string
  private readonly notices: number
  private readonly lock: number
  private readonly trusted: readonly KeyObject[]
  private readonly boot = { starts: 0, reverts: 0, crashes: 0 }
  private state: State = 'waiting'
  private child: Child | null = null
  /** When the state ends by itself, ms; of `ending`: when the child is killed. */
  private untilMs = 0
  private trialEndsMs = Number.POSITIVE_INFINITY
  private signMs = 0
  private stops = false
  private resets = false
  private isReady = false
  /** What was reported when what was confirmed ran last. */
  private before: Report | null = null

  /** Throws what the system says, or an Error where a key is none. */
  constructor({ host, settings, hal, notifyPath, storage }: SupervisorOptions) {
    this.host = host
    this.settings = settings
    this.notifyPath = notifyPath
    this.trusted = settings.trust.map((path) => keyIn(host, path))
    const check = checkFor({ trusted: this.trusted, target: settings.board, hal })
    const slots = storage ?? new HostStorage(host, settings.slots, STORAGE_BYTES)
    this.lock = host.lock(settings.slots)
    if (this.lock < 0) {
      throw new Error(`${settings.slots}: another perdure-boot, or what it ran, still runs`)
    }
    this.slots = new SlotStore(slots, { check })
    this.notices = host.listenNotify(notifyPath)
    this.ways = new Ways(host, this, settings.smp)
    for (const name of this.ways.names) host.print(name)
  }

  // ---- the program's loop ----------------------------------------------------------------------

  watch(): Watch {
    const readable = [this.notices, ...this.ways.readable()]
    return { readable, writable: this.ways.writable(), untilMs: this.wakeMs() }
  }

  private wakeMs(): number {
    const times = [this.ways.untilMs(), this.signMs, this.trialEndsMs]
    if (this.state !== 'off' && this.state !== 'serving') times.push(this.untilMs)
    if (this.state === 'serving') times.push(this.silentMs())
    return Math.min(...times)
  }

  /** When a child that gives no sign until then has hung. */
  private silentMs(): number {
    return this.child!.signMs + this.settings.silence * 1000
  }

  turn(came: Came): void {
    if (came.stops) this.stop()
    for (const { pid, status } of came.ended) if (pid === this.child?.pid) this.ended(status)
    if (came.readable.includes(this.notices)) this.hear()
    this.ways.turn(came)
    if (this.resets) this.reset_()
    this.lookAtClock()
  }

  private lookAtClock(): void {
    const now = this.host.nowMs()
    if (this.host.watchdogMs > 0 && now >= this.signMs) {
      this.host.notify('WATCHDOG=1')
      this.signMs = now + this.host.watchdogMs
    } else if (this.host.watchdogMs === 0) this.signMs = Number.POSITIVE_INFINITY
    if (!this.slots.onTrial && this.trialEndsMs < Number.POSITIVE_INFINITY) this.confirmed()
    if (now >= this.trialEndsMs) this.giveUp(`it was not confirmed within ${this.settings.trial} s`)
    if (this.state === 'serving' && now >= this.silentMs()) {
      this.giveUp(`no sign of life for ${this.settings.silence} s`, 'ABRT')
    } else if (this.state === 'starting' && now >= this.child!.signMs + STARTING_MS) {
      this.giveUp(`no sign of life for ${STARTING_MS / 1000} s of its start`, 'ABRT')
    } else if (this.state === 'ending' && now >= this.untilMs) {
      this.host.kill(this.child!.pid, 'KILL')
      this.untilMs = Number.POSITIVE_INFINITY
    } else if (this.state === 'waiting' && now >= this.untilMs) this.begin()
    if (this.state === 'starting') this.untilMs = this.child!.signMs + STARTING_MS
  }

  /** What runs is no good: it is ended, and where it is on trial it goes back. */
  private giveUp(reason: string, signal = 'TERM'): void {
    this.trialEndsMs = Number.POSITIVE_INFINITY
    if (this.slots.onTrial) this.slots.noteReason(reason)
    this.host.log('warning', `what runs is ended: ${reason}`)
    this.end(signal)
  }

  // ---- what runs -------------------------------------------------------------------------------

  private begin(): void {
    const wasOnTrial = this.slots.onTrial
    const { image, onTrial } = this.slots.start()
    this.boot.starts += 1
    if (wasOnTrial) this.boot.reverts += 1
    const now = this.host.nowMs()
    this.trialEndsMs = onTrial ? now + this.settings.trial * 1000 : Number.POSITIVE_INFINITY
    if (wasOnTrial) this.host.log('warning', `reverted: ${this.slots.reason}`)
    const { settings, trusted, lock, notifyPath } = this
    try {
      this.child = new Child(this.host, { settings, image, onTrial, trusted, lock, notifyPath })
    } catch (error) {
      this.failed((error as Error).message)
      return
    }
    this.state = 'starting'
    this.untilMs = now + STARTING_MS
    this.host.log('info', `started ${this.version()}${onTrial ? ', on trial' : ''}`)
  }

  private version(): string {
    const opened = this.child?.image ?? null
    return opened === null ? 'what came with the package' : versionText(opened.image.version)
  }

  private hear(): void {
    const { host, notices } = this
    for (let came = host.receiveFrom(notices); came !== null; came = host.receiveFrom(notices)) {
      // What one said that has ended since is no word of the next one.
      if (this.child === null || came.peer !== String(this.child.pid)) continue
      const text = new TextDecoder().decode(new Uint8Array(came.bytes).subarray(0, NOTICE_BYTES))
      const isReady = this.child.hear(text) && this.state === 'starting'
      if (isReady) this.ready(this.child.report!)
    }
  }

  private ready(report: Report): void {
    const wrong = this.selfTest(report)
    if (wrong !== null && this.slots.onTrial) {
      this.giveUp(wrong)
      return
    }
    if (wrong !== null) this.host.log('warning', `the self-test of ${this.version()}: ${wrong}`)
    this.state = 'serving'
    if (this.slots.onTrial) this.slots.selfTestPassed()
    if (!this.slots.onTrial && this.trialEndsMs === Number.POSITIVE_INFINITY) this.settled(report)
    this.tellReady()
  }

  /** A client has confirmed what was on trial, or its self-test has. */
  private confirmed(): void {
    this.trialEndsMs = Number.POSITIVE_INFINITY
    this.host.log('info', `confirmed ${this.version()}`)
    this.child?.confirm()
    if (this.state === 'serving') this.settled(this.child!.report!)
  }

  /** What runs is confirmed: what it said is what another one is held against. */
  private settled(report: Report): void {
    this.before = report
    if (report.format > 0) this.slots.noteFormat(report.format)
  }

  /** Why what runs is no good, or null. */
  private selfTest({ state, fault, lost, armed }: Report): string | null {
    if (state !== '' && state !== 'serving' && state !== 'blank') {
      return `the part does not serve: ${fault === '' ? state : fault}`
    }
    const { before } = this
    if (before === null) return null
    if (before.state === 'serving' && state === 'blank') return 'the part is blank to it'
    if (before.armed && !armed) return 'the part is not armed, and was before'
    if (before.lost < 0 || lost <= before.lost) return null
    return `${lost - before.lost} records more are lost than before`
  }

  /** The service is there when something serves, or when SMP does without, and why. */
  private tellReady(without = ''): void {
    if (this.isReady) return
    this.isReady = true
    this.host.notify(
      without === '' ? 'READY=1' : `READY=1\nSTATUS=SMP serves, and nothing runs: ${without}`,
    )
  }

  /** The child has ended: with that code, or by minus that signal. */
  private ended(status: number): void {
    const child = this.child!
    this.child = null
    if (this.stops) {
      this.exit()
      return
    }
    if (this.state === 'ending') {
      this.begin()
      return
    }
    const seconds = ((this.host.nowMs() - child.startedMs) / 1000).toFixed(1)
    const how = status < 0 ? `signal ${-status}` : `exit ${status}`
    this.failed(`${how} after ${seconds} s`, status)
  }

  /** What runs has ended by itself, or could not be started. */
  private failed(reason: string, status = -1): void {
    this.boot.crashes += 1
    this.host.log('warning', `${this.slots.onTrial ? 'what is on trial' : 'what ran'}: ${reason}`)
    this.trialEndsMs = Number.POSITIVE_INFINITY
    if (this.slots.onTrial) {
      this.slots.noteReason(reason)
      this.begin()
    } else if (status === 0) this.exit()
    else if (FOR_GOOD.has(status)) {
      this.state = 'off'
      this.slots.noteReason(reason)
      this.tellReady(reason)
    } else {
      this.state = 'waiting'
      this.untilMs = this.host.nowMs() + AGAIN_MS
      // Who waits for the service is not to wait for a link that is not there.
      this.tellReady()
    }
  }

  /** Ends the child, if there is one; what the slots say is started behind it. */
  private end(signal: string): void {
    if (this.state === 'ending') return
    if (this.child === null) {
      this.state = 'waiting'
      this.untilMs = this.host.nowMs()
      return
    }
    this.host.kill(this.child.pid, signal)
    this.state = 'ending'
    this.untilMs = this.host.nowMs() + ENDING_MS
  }

  private stop(): void {
    this.stops = true
    this.host.notify('STOPPING=1')
    if (this.child === null) this.exit()
    else this.end('TERM')
  }

  private exit(): void {
    this.state = 'off'
    this.host.exit(0)
  }

  // ---- what SMP asks ---------------------------------------------------------------------------

  reset(): void {
    // Behind the answer.
    this.resets = true
  }

  private reset_(): void {
    this.resets = false
    this.ways.flushAll()
    this.host.log('info', 'reset, by SMP')
    this.end('TERM')
  }

  describe(format: string): string {
    const { settings, host } = this
    return format.includes('a') ? `perdure ${settings.board} ${host.architecture}` : 'perdure'
  }

  /** `boot` is ours; every other line is for what runs. */
  shell(line: string): string {
    if (line.trim() === 'boot') return JSON.stringify(this.about())
    const { console } = this.settings
    try {
      const answer = this.host.ask(console, line, ASK_MS)
      if (answer !== null) return answer
    } catch (error) {
      return JSON.stringify({ error: (error as Error).message })
    }
    return JSON.stringify({ error: 'what runs does not answer', ...this.about() })
  }

  statistics(group: string): Readonly<Record<string, number>> | null {
    if (group === 'boot') return this.boot
    return group === 'card' ? numbersIn(this.shell('counters')) : null
  }

  about(): Readonly<Record<string, unknown>> {
    const { slots, settings } = this
    const { onTrial, counter, format, reason, isTested: tested } = slots
    const leftMs = this.trialEndsMs - this.host.nowMs()
    const left = onTrial && Number.isFinite(leftMs) ? Math.max(0, Math.ceil(leftMs / 1000)) : 0
    return {
      ...{ board: settings.board, target: settings.board, counter, format, tested },
      ...{ trial: onTrial, left, reason, state: this.state, runs: this.version() },
    }
  }
}

function keyIn(host: Host, path: string): KeyObject {
  const text = new TextDecoder().decode(new Uint8Array(host.readFile(path, KEY_BYTES_MAX)))
  try {
    return createPublicKey(text)
  } catch (error) {
    throw new Error(`${path}: ${(error as Error).message}`)
  }
}

/** The numbers of an object in JSON, those of objects inside by names with a dot. */
function numbersIn(text: string): Record<string, number> {
  const found: Record<string, number> = {}
  const take = (value: unknown, name: string): void => {
    if (typeof value === 'number') found[name] = value
    if (typeof value !== 'object' || value === null) return
    for (const [key, one] of Object.entries(value)) take(one, name === '' ? key : `${name}.${key}`)
  }
  try {
    take(JSON.parse(text), '')
  } catch {
    // What runs says something else: there are no numbers then.
  }
  return found
}
