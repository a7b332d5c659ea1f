/**
 * Batches and single records of one client, drawn: of any length, to the same few slots, against a
 * part that refuses, pauses and breaks as chance says. Whatever happens every call ends, what it
 * says is so, and records to one slot take effect in the order of the calls.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { CONDITION_IN_ORDER } from '../../../firmware/wire/persist.ts'
import type { BatchCondition, BatchRecord } from '../../../host-driver/index.ts'
import type { Job } from '../../../host-driver/way/jobs.ts'
import { bytesOf, ScriptedPart, settle, slotOf } from '../../support/driver/scripted-part.ts'

const SEED = Number(process.env.SEED ?? 20265)
const RUNS = 50
const STEPS = 40
const SLOTS = 60

const CONDITIONS: readonly BatchCondition[] = ['independent', 'inOrder', 'expect']
const REFUSALS = ['MEDIA', 'SLOT', 'BATCH_ROOM', 'BATCH_TIME', 'CONDITION', 'LEVEL'].map(status)
const NAKS = ['REM_ACCESS_ERR', 'REM_INV_REQ_ERR'] as const

function status(name: string): number {
  return FAULTS.find((row) => row.name === name && row.answer === 'status')!.code
}

class Run {
  readonly part: ScriptedPart
  readonly random: Random
  /** Slot and operation of every record, as they were stored. */
  readonly stored: [number, bigint][] = []
  readonly records: BatchRecord[] = []
  pending = 0

  constructor(part: ScriptedPart, random: Random) {
    this.part = part
    this.random = random
  }

  private track(call: Promise<unknown>): void {
    this.pending++
    const ended = (): void => {
      this.pending--
    }
    call.then(ended, ended)
  }

  batch(): void {
    const { part, random } = this
    const condition = CONDITIONS[random.below(3)]!
    const count = 1 + random.below(random.chance(0.3) ? 200 : 12)
    const deadline = random.chance(0.1) ? { deadlineMs: 1 + random.below(5) } : {}
    const batch = part.region.batch({ condition, retries: random.below(4), ...deadline })
    const from = random.below(SLOTS)
    const expected = condition === 'expect' ? { expect: 1n } : {}
    for (let i = 0; i < count; i++) batch.persist(from + i, bytesOf(i), expected)
    this.track(batch.commit().then(({ records }) => this.records.push(...records)))
  }

  single(): void {
    this.track(this.part.region.persist(this.random.below(SLOTS), bytesOf(1)).persisted)
  }

  private store(job: Job): void {
    const { part } = this
    const operation = job.request.operation!
    if (part.durable.has(operation)) return
    this.stored.push([slotOf(job), operation])
    part.durable.set(operation, job)
  }

  /** Answers what was posted first, as a DPU does that refuses some of it. */
  answer(): void {
    const { part, random } = this
    const jobs = part.open[0]
    if (jobs === undefined) return
    const chance = random.chance(0.3) ? 0.2 : 0
    let isBroken = false
    const ends = jobs.map((job) => {
      if (part.durable.has(job.request.operation!)) return 0
      const isBehind = isBroken && job.request.batch?.condition === CONDITION_IN_ORDER
      if (!isBehind && !random.chance(chance)) {
        this.store(job)
        return 0
      }
      isBroken = true
      return isBehind ? status('CONDITION') : REFUSALS[random.below(REFUSALS.length)]!
    })
    part.answer((_, job) => ends[jobs.indexOf(job)]!)
  }

  /** The connection breaks: some of what was posted is durable, and nobody says so. */
  async break(): Promise<void> {
    const { part, random } = this
    const lists = random.below(part.open.length + 1)
    for (const job of part.open.slice(0, lists).flat()) this.store(job)
    const next = part.open[lists] ?? []
    const about = random.below(next.length + 1)
    if (about < next.length && random.chance(0.4)) {
      // A packet of it was refused: nothing of its list was stored.
      part.break(NAKS[random.below(2)]!, part.open.slice(0, lists).flat().length + about)
    } else {
      for (const job of next.slice(0, about)) this.store(job)
      part.break('RETRY_EXC_ERR', part.open.flat().length)
    }
    for (let i = 0; i < 6; i++) await settle()
  }

  async step(): Promise<void> {
    const { part, random } = this
    const what = random.below(20)
    if (what < 4) this.batch()
    else if (what < 10) this.single()
    else if (what < 16) this.answer()
    else if (what < 19) await part.advance(random.below(3000))
    else await this.break()
    await settle()
  }

  async end(): Promise<void> {
    for (let i = 0; i < 2000 && this.pending > 0; i++) {
      this.answer()
      await this.part.advance(1000 + 100 * i)
    }
  }

  check(): void {
    const newest = new Map<number, bigint>()
    for (const [slot, operation] of this.stored) {
      expect(operation > (newest.get(slot) ?? 0n), `slot ${slot}: its order`).toBe(true)
      newest.set(slot, operation)
    }
    for (const record of this.records) {
      const { index, slot, operationId, status: said } = record
      const isDurable = this.part.durable.has(operationId)
      const isReplaced = (newest.get(slot) ?? 0n) > operationId
      const why = 'error' in record ? record.error.message : ''
      const what = `record ${index} to slot ${slot}: ${said} ${why}`
      if (said === 'durable') expect(isDurable || isReplaced, what).toBe(true)
      else if (said !== 'unknown') expect(isDurable, what).toBe(false)
    }
  }
}

test(`P4-9, P4-10, P4-14: every call ends, in order, by the truth (seed ${SEED})`, async () => {
  for (let seed = SEED; seed < SEED + RUNS; seed++) {
    const random = new Random(seed)
    const together = [4, 32, 256][random.below(3)]
    const run = new Run(await ScriptedPart.open({ reconnectTimeoutMs: 1e9 }, together), random)
    for (let i = 0; i < STEPS; i++) await run.step()
    await run.end()
    expect(run.pending, `calls that never end, seed ${seed}`).toBe(0)
    run.check()
  }
})
