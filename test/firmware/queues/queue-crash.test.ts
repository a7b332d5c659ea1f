/**
 * Local records of the host at every power cut: before each command that the card executes for a
 * post, with ten ways in which stores under way may have landed.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { CUT_STRATEGIES, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FENCE, SKIP } from '../../../firmware/board/hal.ts'
import * as el from '../../../firmware/host/element.ts'
import { dataOf, TestCard } from '../../support/cards/test-card.ts'
import {
  type LocalQueue,
  localQueue,
  one,
  readyHost,
  record,
} from '../../support/queues/local-queue.ts'
import type { CardHost } from '../../support/queues/queue-calls.ts'
import { elementOf, type Form } from '../../support/queues/queue-host.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 1)
const SLOTS = 3

/** Two queues of two clients; older records in three slots; two of the new ones in one pass. */
class Story {
  readonly host: CardHost
  readonly queues: readonly LocalQueue[]
  private readonly region: ReturnType<TestCard['provision']>
  private readonly wait: number
  private readonly form: Form

  constructor(wait: number, copies: number, form: Form = 'fifo') {
    this.wait = wait
    this.form = form
    this.host = readyHost(64, form === 'trusted')
    const first = localQueue(this.host, { client: 7 })
    const second = localQueue(this.host, { client: 8 })
    this.queues = [first, first, second]
    this.region = this.host.card.provision({ slots: 4, capacity: 100, copies })
    for (let slot = 0; slot < SLOTS; slot++) {
      one(this.queues[slot]!, this.fields(slot, slot + 1, oldData(slot), copies))
    }
    this.host.card.idle()
  }

  private fields(slot: number, operation: number, data: Uint8Array, wait: number) {
    return record(this.queues[slot]!, this.region, slot, operation, data, wait)
  }

  /** Posts the new records, and serves the card until all is done, or the power is off. */
  play(): void {
    const { host } = this
    for (let slot = 0; slot < SLOTS; slot++) {
      const { qp } = this.queues[slot]!
      const fields = this.fields(slot, slot + 11, newData(slot), this.wait)
      host.post(qp.send, elementOf({ ...fields, flags: el.SIGNALED }))
      host.ring(qp.send, this.form)
    }
    host.card.serve()
    for (let i = 0; i < 8 && !host.card.machine.dead; i++) host.card.idle()
  }

  /** Status of every record whose completion is in the host's memory. */
  told(): Map<number, number> {
    const told = new Map<number, number>()
    for (const { cq } of new Set(this.queues)) {
      for (const cqe of this.host.poll(cq)) told.set(cqe.address / 2 ** 32, cqe.status)
    }
    return told
  }

  /** What a card reads that starts on the part. */
  after(): (Uint8Array | null)[] {
    const card = new TestCard(this.host.card.nvdimm)
    const region = card.open()
    const qp = card.connect()
    return [0, 1, 2].map((slot) => card.read(qp, region, slot, 0, 100))
  }
}

function oldData(slot: number): Uint8Array {
  return dataOf(100, slot + 1)
}

function newData(slot: number): Uint8Array {
  return dataOf(100, slot + 11)
}

for (const [wait, copies, form] of [
  [1, 2, 'fifo'],
  [1, 2, 'trusted'],
  [2, 2, 'fifo'],
  [2, 3, 'trusted'],
] as const) {
  const ids = form === 'trusted' ? 'D-7, X-2, S1-M8' : 'D-7, X-2'
  test(
    `${ids}: ${wait}of${copies}, ${form}: a completion that the host has is a durable record`,
    thoroughIf(copies > 2 || wait === 2),
    () => {
      const whole = new Story(wait, copies, form)
      const before = whole.host.card.machine.commandCount
      whole.play()
      expect([...whole.told().values()]).toEqual([el.WC_SUCCESS, el.WC_SUCCESS, el.WC_SUCCESS])
      const commands = whole.host.card.machine.commandCount - before
      expect(commands).toBeGreaterThan(40)
      const random = new Random(SEED)
      const met = new Set<string>()
      for (let command = 0; command < commands; command++) {
        const strategy = CUT_STRATEGIES[command % CUT_STRATEGIES.length]!
        for (const choice of ['none', 'all', strategy] as const) {
          const story = new Story(wait, copies, form)
          story.host.card.machine.armCut(command)
          story.play()
          const told = story.told()
          cut(story.host.card.nvdimm, { random, strategy: choice })
          const name = `SEED=${SEED} cut ${command} of ${commands}, ${choice}`
          for (const [slot, data] of story.after().entries()) {
            const isNew = data !== null && Buffer.compare(data, newData(slot)) === 0
            const isOld = data !== null && Buffer.compare(data, oldData(slot)) === 0
            expect(isNew || isOld, `${name}: slot ${slot} is torn or lost`).toBe(true)
            if (told.has(slot)) expect([name, slot, isNew]).toEqual([name, slot, true])
            met.add(`${told.has(slot) ? 'told' : 'not told'}, ${isNew ? 'new' : 'old'}`)
          }
        }
      }
      expect([...met].sort()).toEqual(['not told, new', 'not told, old', 'told, new'])
    },
  )
}

test('the same cuts find the loss where the fences are left out', () => {
  const whole = new Story(2, 2)
  const before = whole.host.card.machine.commandCount
  whole.play()
  const commands = whole.host.card.machine.commandCount - before
  let lost = 0
  for (let command = 0; command < commands; command++) {
    const story = new Story(2, 2)
    const { machine, nvdimm } = story.host.card
    machine.observe({ replace: (_, op) => (op === FENCE ? SKIP : op) })
    machine.armCut(command)
    story.play()
    const told = story.told()
    cut(nvdimm, { random: new Random(SEED), strategy: 'none' })
    for (const [slot, data] of story.after().entries()) {
      const isNew = data !== null && Buffer.compare(data, newData(slot)) === 0
      if (told.has(slot) && !isNew) lost += 1
    }
  }
  expect(lost).toBeGreaterThan(0)
})
