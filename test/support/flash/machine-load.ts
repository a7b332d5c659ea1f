/**
 * Records under way to a machine, over one way to it or several, and what became of each.
 *
 * Invariant: what is known of a record is what the driver said: a version is durable once
 * it was acknowledged, and was begun before that. A record says itself which version it is.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import { type ConnectOptions, connect, type Dpu, type Region } from '../../../host-driver/index.ts'
import { PATIENT } from '../run/patience.ts'

export const REGION = { name: 'records', slots: 32, capacity: 4096, copies: 2 }

/** A record that says which version of which slot it is, in every byte. */
function recordOf(slot: number, version: number): Buffer {
  return Buffer.alloc(1000 + slot, `slot ${slot} version ${version} `)
}

/** Writes to every slot, over and over; knows of each what was begun, and what acknowledged. */
export class Load {
  readonly begun: number[] = new Array<number>(REGION.slots).fill(0)
  readonly durable: number[] = new Array<number>(REGION.slots).fill(0)
  /** Why the first writer that gave up did so; null while none has. */
  failure: unknown = null
  private readonly targets: () => readonly string[]
  private readonly options: ConnectOptions
  private acknowledged = 0
  private writers: Promise<void>[] = []
  private abort = new AbortController()

  /** `targets`: ways to the machine, which share the slots; asked at each beginning. */
  constructor(targets: () => readonly string[], options: ConnectOptions = { reconnect: false }) {
    this.targets = targets
    this.options = options
  }

  async begin(): Promise<void> {
    this.acknowledged = 0
    this.failure = null
    this.abort = new AbortController()
    const regions: Region[] = []
    for (const target of this.targets()) {
      const options = { ...PATIENT, ...this.options, signal: this.abort.signal }
      const dpu: Dpu = await connect(target, options)
      if ((await dpu.status()).state === 'blank') await dpu.format()
      regions.push(await dpu.provision(REGION))
    }
    this.writers = this.begun.map((_, slot) => this.write(regions[slot % regions.length]!, slot))
  }

  /** Resolves when so many more records were acknowledged. Rejects where a writer has given up. */
  async reach(count: number): Promise<void> {
    while (this.acknowledged < count) {
      if (this.failure !== null) throw this.failure
      await delay(2)
    }
  }

  async end(): Promise<void> {
    this.abort.abort()
    await Promise.all(this.writers)
  }

  private async write(region: Region, slot: number): Promise<void> {
    while (!this.abort.signal.aborted) {
      const version = ++this.begun[slot]!
      try {
        await region.persist(slot, recordOf(slot, version)).persisted
      } catch (error) {
        this.failure ??= error
        return
      }
      this.durable[slot] = version
      this.acknowledged++
    }
  }
}

/** Every slot holds the version that was acknowledged last, or one that was begun behind it. */
export async function expectRecords(region: Region, load: Load, where = ''): Promise<void> {
  for (let slot = 0; slot < REGION.slots; slot++) {
    const { data } = await region.read(slot)
    const version = Number(/version (\d+)/.exec(Buffer.from(data).toString())?.[1] ?? 0)
    const whole = version === 0 ? data.length === 0 : recordOf(slot, version).equals(data)
    expect({ slot, whole }, where).toEqual({ slot, whole: true })
    expect(version, where).toBeGreaterThanOrEqual(load.durable[slot]!)
    expect(version, where).toBeLessThanOrEqual(load.begun[slot]!)
  }
}
