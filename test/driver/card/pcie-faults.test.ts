/**
 * One access in turn of all that a card makes while it persists records for its host goes wrong,
 * and doorbells do: the real firmware and the real driver, in the model of PCIe (H1, H4, H5).
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import type { AccessFault } from '../../../boards/emulator/host/pcie.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import type { CardQueuePair } from '../../../host-driver/card/queues/card-queue-pair.ts'
import type { QueueElement } from '../../../host-driver/card/queues/values.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { PcieRig } from '../../support/queues/pcie-rig.ts'
import { divided } from '../../support/run/thorough.ts'

/** Longer than anything takes that still comes, µs: the driver has looked again many times. */
const PATIENCE_US = 100_000

const LENGTHS = [100, 1000]
/** By the second one the doorbells of the form message get lost until the queue is full. */
const SEEDS = process.env.SEED ? [Number(process.env.SEED)] : [20261121, 20261124]
const PENDING = 'pending'

interface Run {
  /** How each record ended, in the order of the posts. */
  readonly ends: readonly string[]
  /** Whether it is on the part after the worst cut. */
  readonly durable: readonly boolean[]
  /** Whether there was an access of that number. */
  readonly reached: boolean
  /** How a record ended that was posted when all was well again, the device reopened. */
  readonly after: string
}

async function runWith(number: number, fault: AccessFault): Promise<Run> {
  const rig = await PcieRig.open()
  const region = await rig.provision()
  const pair = await rig.localPair({ clientId: 77n })
  const { link } = rig.ram
  let accesses = 0
  link.script = ({ kind }) => {
    if (accesses++ !== number) return undefined
    if (fault === 'removal') return fault
    return (fault === 'lost') === (kind === 'write') ? fault : undefined
  }
  const persist = (to: CardQueuePair, slot: number, length: number): (() => string) => {
    let end = PENDING
    const data = new Uint8Array(length).fill(slot + 1)
    const work = { data, rkey: region.rkey, address: BigInt(slot) << 32n, wait: 2 }
    const done = ({ status }: { readonly status: string }): void => {
      expect(end, 'it ends once').toBe(PENDING)
      end = status
    }
    to.post({ kind: WRITE_PERSIST, ...work, operation: BigInt(slot + 1), done })
    return () => end
  }
  const posted = LENGTHS.map((length, slot) => persist(pair, slot, length))
  await rig.pass(PATIENCE_US)
  const reached = accesses > number
  const ends = posted.map((end) => end())
  link.script = null
  link.restore()
  await rig.pass(1000)
  await rig.device.reopen()
  const again = await rig.localPair({ clientId: 78n })
  const last = persist(again, LENGTHS.length, 100)
  await rig.pass(PATIENCE_US)
  const after = last()
  rig.close()
  rig.card.powerCut({ strategy: 'none' })
  const card = new TestCard(rig.card.nvdimm)
  const durable = LENGTHS.map((length, slot) => {
    const found = card.read(card.connect(), card.open('r'), slot, VIEW_DATA, length)
    return found?.every((byte) => byte === slot + 1) ?? false
  })
  return { ends, durable, reached, after }
}

for (const { rows, options } of divided(
  ['unsupported', 'poisoned', 'timeout', 'removal', 'lost'] as const,
  (fault) => fault === 'lost',
)) {
  test.each(rows)(
    'H4, H5: %s at each access: every record ends, and what succeeded is durable',
    options,
    async (fault) => {
      const seen = new Set<string>()
      for (let number = 0, going = true; going; number++) {
        const { ends, durable, reached, after } = await runWith(number, fault)
        const where = `access ${number}: ${ends}`
        ends.forEach((end, i) => {
          seen.add(end)
          if (end === 'SUCCESS') expect(durable[i], where).toBe(true)
          // Nobody ever hears of a completion that was lost on its way.
          if (fault !== 'lost') expect(end, where).not.toBe(PENDING)
        })
        expect(after, where).toBe('SUCCESS')
        going = reached
      }
      expect(seen).toContain('SUCCESS')
      expect(seen.size).toBeGreaterThan(1)
    },
  )
}

/** Lets time go by until so many units are free: while bells get lost, posts fill the queue. */
async function room(rig: PcieRig, pair: CardQueuePair, units: number): Promise<void> {
  const endUs = rig.device.now() + PATIENCE_US
  while (pair.send.free < units && rig.device.now() < endUs) await rig.pass(100)
}

const BELLS = (['fifo', 'register', 'message'] as const).flatMap((doorbell) =>
  SEEDS.map((seed) => [doorbell, seed] as const),
)

test.each(BELLS)(
  'H1: doorbells of the form %s, lost, twice, torn and late: all records end well (seed %i)',
  async (doorbell, seed) => {
    for (const doorbellCarriesPointer of [true, false]) {
      const rig = await PcieRig.open({ doorbell, doorbellCarriesPointer })
      const region = await rig.provision()
      const pair = await rig.localPair({ clientId: 77n })
      const random = new Random(seed)
      rig.port.chances = { random, lost: 0.2, twice: 0.2, torn: 0.2, late: 0.2 }
      const ends: string[] = []
      for (let i = 0; i < 150; i++) {
        const data = new Uint8Array(1 + random.below(1000)).fill(i)
        const address = BigInt(i % 16) << 32n
        const done = ({ status }: { readonly status: string }): unknown => ends.push(status)
        const where = { rkey: region.rkey, address, operation: BigInt(i + 1), wait: 2 }
        const work: QueueElement = { kind: WRITE_PERSIST, data, ...where, done }
        await room(rig, pair, pair.unitsOf(work))
        pair.post(work)
        await rig.pass(random.below(300))
      }
      await rig.pass(2_000_000)
      expect(rig.port.lost).toBeGreaterThan(0)
      rig.close()
      expect(ends).toEqual(Array.from({ length: 150 }, () => 'SUCCESS'))
    }
  },
)
