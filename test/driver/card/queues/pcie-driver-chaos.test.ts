/**
 * The driver of the queues with everything at once: pairs made, filled, grown, ended and closed
 * while doorbells get lost and the card goes away and comes back. In the end every call has
 * settled, every element has ended once, and nothing is left in the memory or at the card.
 */

import { afterEach, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { WRITE_PERSIST } from '../../../../firmware/transport/requester.ts'
import type { CardQueuePair } from '../../../../host-driver/card/queues/card-queue-pair.ts'
import type { CompletionQueue } from '../../../../host-driver/card/queues/completion-queue.ts'
import type { DoorbellForm, QueueElement } from '../../../../host-driver/card/queues/values.ts'
import type { GrowthForm } from '../../../../host-driver/card/queues/work-queue.ts'
import { PcieRig } from '../../../support/queues/pcie-rig.ts'

const SEED = Number(process.env.SEED ?? 20261121)
const RUNS = 60
const STEPS = 120
const FORMS: readonly DoorbellForm[] = ['fifo', 'trusted', 'register', 'message']
/** Queues of management. */
const OWN_QUEUES = 3

class Chaos {
  readonly random: Random
  readonly rig: PcieRig
  readonly rkey: number
  /** How often each work that was posted has ended. */
  readonly ends: Map<number, number> = new Map()
  /** What was asked for and has not settled. */
  readonly open: Set<string> = new Set()
  readonly pairs: Set<CardQueuePair> = new Set()
  private calls = 0
  private works = 0

  constructor(random: Random, rig: PcieRig, rkey: number) {
    this.random = random
    this.rig = rig
    this.rkey = rkey
  }

  /** Refusals are fine; what has no code is a fault of the driver. */
  async ask<T>(what: string, call: () => Promise<T>): Promise<T | null> {
    const name = `${what} ${this.calls++}`
    this.open.add(name)
    try {
      return await call()
    } catch (error) {
      expect(error, name).toHaveProperty('code')
      return null
    } finally {
      this.open.delete(name)
    }
  }

  get one(): CardQueuePair | null {
    const all = [...this.pairs]
    return all.length === 0 ? null : all[this.random.below(all.length)]!
  }

  async makePair(): Promise<void> {
    const { device } = this.rig
    const entries = 2 ** (4 + this.random.below(4))
    const sendCq = await this.ask('createCq', () => device.createCq({ entries }))
    if (sendCq === null || sendCq.end !== null) return
    sendCq.dispatch(() => {})
    const how = { type: 'local', sendCq, sendUnits: 16, receiveUnits: 64 } as const
    const pair = await this.ask('createQp', () => device.createQp(how))
    if (pair === null) await this.ask('destroyCq', () => device.destroyCq(sendCq))
    else this.pairs.add(pair)
  }

  post(pair: CardQueuePair): void {
    const { random } = this
    const works: QueueElement[] = []
    const first = this.works
    for (let i = random.below(6); i >= 0; i--) {
      const id = this.works++
      const done = (): void => void this.ends.set(id, this.ends.get(id)! + 1)
      const data = new Uint8Array(1 + random.below(900))
      const address = BigInt(random.below(16)) << 32n
      const to = { rkey: this.rkey, address, operation: BigInt(id + 1), wait: 2 }
      works.push(
        random.chance(0.5) ? { kind: 'nop', done } : { kind: WRITE_PERSIST, data, ...to, done },
      )
    }
    for (let id = first; id < this.works; id++) this.ends.set(id, 0)
    try {
      pair.post(...works)
    } catch (error) {
      expect(error).toHaveProperty('code')
      for (let id = first; id < this.works; id++) this.ends.delete(id)
    }
  }

  grow(pair: CardQueuePair): void {
    const form: GrowthForm = this.random.chance(0.5) ? 'lock' : 'message'
    const which = this.random.below(3)
    const { send, receive, sendCq } = pair
    if (which === 0) void this.ask('grow', () => pair.grow('send', 2 * send.depth, form))
    else if (which === 1) void this.ask('grow', () => pair.grow('receive', 2 * receive.depth, form))
    else void this.ask('grow', () => sendCq.grow(2 * sendCq.entries, form))
  }

  async destroy(pair: CardQueuePair): Promise<void> {
    this.pairs.delete(pair)
    const sendCq: CompletionQueue = pair.sendCq
    await this.ask('destroy', () => pair.destroy())
    await this.ask('destroyCq', () => this.rig.device.destroyCq(sendCq))
  }

  /** The card is gone for a moment. */
  async remove(): Promise<void> {
    const { rig, random } = this
    const { link } = rig.ram
    const off = random.chance(0.5)
    if (off) rig.card.powerCut()
    else link.remove()
    await rig.pass(random.below(400))
    if (off) await rig.card.powerOn()
    else link.restore()
  }

  async step(): Promise<void> {
    const { rig, random, one } = this
    const what = random.below(100)
    if (what < 10) void this.makePair()
    else if (what === 99 && random.chance(0.3)) await this.remove()
    else if (one !== null && what < 60) this.post(one)
    else if (one !== null && what < 72) this.grow(one)
    else if (one !== null && what < 80) void this.destroy(one)
    else if (one !== null && what < 82) void this.ask('setError', () => one.setError())
    else if (one !== null && what === 82) one.close()
    if (random.chance(0.5)) await rig.pass(random.below(60))
    if (rig.device.isOpen || random.chance(0.7)) return
    void this.ask('reopen', () => rig.device.reopen())
  }
}

const rigs: PcieRig[] = []

afterEach(() => {
  for (const rig of rigs.splice(0)) rig.close()
})

async function run(seed: number): Promise<void> {
  const random = new Random(seed)
  const doorbell = FORMS[random.below(FORMS.length)]!
  const how = { queues: 64, ramBytes: 1 << 22, watchdogUs: 300, timeoutMs: 300 }
  const rig = await PcieRig.open({ ...how, doorbell })
  rigs.push(rig)
  const { device, port } = rig
  const { rkey } = await rig.provision()
  const { freeBytes } = device.layout.arena
  if (random.chance(0.5)) port.chances = { random, lost: 0.05, twice: 0.05, torn: 0.02, late: 0.05 }
  const chaos = new Chaos(random, rig, rkey)
  for (let i = 0; i < STEPS; i++) await chaos.step()
  port.chances = null
  await rig.pass(2_000_000)
  expect([...chaos.open]).toEqual([])
  if (!device.isOpen) await device.reopen()
  for (const pair of [...chaos.pairs]) await chaos.destroy(pair)
  expect([...chaos.ends.values()].filter((times) => times !== 1)).toEqual([])
  expect(device.layout.arena.freeBytes).toBe(freeBytes)
  expect((await device.management.queues()).used).toBe(OWN_QUEUES)
}

test('X-3, X-7: every call settles, every element ends once, and nothing is left', async () => {
  for (let seed = SEED; seed < SEED + RUNS; seed++) {
    await run(seed).catch((error: unknown) => {
      throw new Error(`SEED=${seed}`, { cause: error })
    })
  }
})
