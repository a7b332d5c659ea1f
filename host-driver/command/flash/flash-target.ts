/**
 * What runs on an emulated card, by its slots: what `perdure-boot` is to a real one.
 *
 * Invariants:
 * - SMP is answered whatever the firmware does, so a bad one can be flashed over.
 * - What runs on trial goes back where it stops, hangs, fails its self-test, or is not confirmed in
 *   time: the reason is noted before the start that goes back.
 * - The self-test asks what a user would: the part serves, no more is lost than was before, and the
 *   first record of every region is read with its check code.
 */

import { existsSync, rmSync } from 'node:fs'
import type { Bundle } from '../../../boards/emulator/index.ts'
import { checkFor, openImage } from '../../../boards/flash/check-image.ts'
import { IMAGE_BYTES_MAX, versionText } from '../../../boards/flash/mcuboot.ts'
import { readPart } from '../../../boards/flash/payload.ts'
import { SlotStore, STORAGE_BYTES } from '../../../boards/flash/slot-store.ts'
import type { SmpCard } from '../../../boards/flash/smp.ts'
import { SMP_WAY, udpWay } from '../../../boards/flash/smp-packet.ts'
import { type SmpWay, serveSmpSocket, serveSmpUdp } from '../../../boards/flash/smp-ways.ts'
import { StorageFile } from '../../../boards/flash/storage.ts'
import type { Dpu } from '../../dpu.ts'
import type { SmpAddress } from '../emulate/emulate-options.ts'
import { firstUnread } from '../first-record.ts'
import { halOf } from './image.ts'
import { developmentKey, readTrustedKey } from './signing-key.ts'

/** A trial that nobody has confirmed by then goes back, s. */
export const TRIAL_SECONDS = 600
export const TRIAL_SECONDS_MAX = 86_400

interface FlashOptions {
  /** The image of the NVDIMM: the slots lie beside it. */
  readonly image: string
  /** Files of public keys; that of this user's own key unless given. */
  readonly trust?: readonly string[]
  readonly smp: readonly SmpAddress[]
  /** A trial that nobody has confirmed by then goes back, s; TRIAL_SECONDS unless given. */
  readonly trial?: number
  /** Ends what runs, and starts by the slots. */
  readonly restart: () => void
  /** Answers a line of the console, as a card does. */
  readonly shell: (line: string) => string
  readonly statistics: () => Readonly<Record<string, number>>
}

/** Throws what the system throws, or PERDURE_IMAGE where a key is none. */
export class FlashTarget implements SmpCard {
  readonly slots: SlotStore
  readonly slotBytes: number = IMAGE_BYTES_MAX
  readonly statisticsGroups: readonly string[] = ['boot', 'card']
  private readonly options: FlashOptions
  private readonly path: string
  private readonly isNew: boolean
  private readonly storage: StorageFile
  private readonly ways: SmpWay[] = []
  private readonly boot = { starts: 0, reverts: 0 }
  private trialTimer: NodeJS.Timeout | null = null
  private trialEndsMs = 0
  /** Records that were lost when what was confirmed ran last; -1 before. */
  private lostBefore = -1

  constructor(options: FlashOptions) {
    const keys = options.trust ?? [developmentKey()]
    const check = checkFor({
      trusted: keys.map(readTrustedKey),
      target: 'emulator',
      hal: halOf(),
    })
    this.options = options
    this.path = `${options.image}.slots`
    this.isNew = !existsSync(this.path)
    this.storage = new StorageFile(this.path, STORAGE_BYTES)
    this.slots = new SlotStore(this.storage, { check })
  }

  /** Serves SMP. Rejects with the system's errors. */
  async open(): Promise<void> {
    for (const one of this.options.smp) {
      const way =
        'path' in one ? serveSmpSocket(one.path, this) : serveSmpUdp(one.host, one.port, this)
      this.ways.push(await way)
    }
  }

  /** Where it is reached, one line each. */
  addresses(): string[] {
    return this.options.smp.map((one, i) => {
      return 'path' in one ? `${SMP_WAY}unix:${one.path}` : udpWay(one.host, this.ways[i]!.port)
    })
  }

  /** `removes`: the slots as well, where this start has made them. */
  async close(removes: boolean): Promise<void> {
    this.endTrial()
    for (const way of this.ways) await way.close()
    this.storage.close()
    if (removes && this.isNew) rmSync(this.path, { force: true })
  }

  /** The firmware that the next start is to run; null: that of the package. */
  start(): Bundle | null {
    this.endTrial()
    const wasOnTrial = this.slots.onTrial
    const { image, onTrial } = this.slots.start()
    this.boot.starts += 1
    if (wasOnTrial) this.boot.reverts += 1
    if (image === null) return null
    if (onTrial) this.beginTrial()
    const { image: opened, payload } = openImage(image)
    const source = new TextDecoder().decode(readPart(payload, 'bundle')!)
    return { path: `firmware-${versionText(opened.version)}.js`, source }
  }

  private beginTrial(): void {
    const { trial = TRIAL_SECONDS, restart } = this.options
    this.trialEndsMs = performance.now() + trial * 1000
    this.trialTimer = setTimeout(() => {
      this.ended(`it was not confirmed within ${trial} s`)
      restart()
    }, trial * 1000)
    this.trialTimer.unref()
  }

  private endTrial(): void {
    if (this.trialTimer !== null) clearTimeout(this.trialTimer)
    this.trialTimer = null
  }

  get onTrial(): boolean {
    return this.slots.onTrial
  }

  /** The trial is over, as of that: the next start goes back. */
  ended(reason: string): void {
    this.slots.noteReason(reason)
  }

  /** The self-test: why what runs is no good, or null. */
  async test(dpu: Dpu): Promise<string | null> {
    const { state, fault, unsettled, formatVersion } = await dpu.status()
    if (state !== 'serving') return `the part does not serve: ${fault ?? state}`
    if (this.onTrial && this.lostBefore >= 0 && unsettled > this.lostBefore) {
      return `${unsettled - this.lostBefore} records more are lost than before`
    }
    const unread = await firstUnread(dpu)
    if (unread !== null) return unread
    if (this.onTrial) this.slots.selfTestPassed()
    if (this.onTrial) return null
    this.lostBefore = unsettled
    this.slots.noteFormat(formatVersion)
    return null
  }

  // ---- what SMP asks ---------------------------------------------------------------------------

  reset(): void {
    // Behind the answer.
    setImmediate(this.options.restart)
  }

  describe(format: string): string {
    return format.includes('a') ? `perdure emulator ${process.arch} QuickJS` : 'perdure'
  }

  shell(line: string): string {
    return this.options.shell(line)
  }

  statistics(group: string): Readonly<Record<string, number>> | null {
    if (group === 'boot') return this.boot
    return group === 'card' ? this.options.statistics() : null
  }

  about(): Readonly<Record<string, unknown>> {
    const left = Math.max(0, Math.ceil((this.trialEndsMs - performance.now()) / 1000))
    const { slots } = this
    return {
      ...{ board: 'emulator', target: 'emulator', counter: slots.counter, format: slots.format },
      ...{
        tested: slots.isTested,
        trial: slots.onTrial,
        left: slots.onTrial ? left : 0,
        reason: slots.reason,
      },
    }
  }
}
