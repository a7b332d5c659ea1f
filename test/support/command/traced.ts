/**
 * A small run that is traced: records written over older ones, alone and several at once, the power
 * cut inside a commit, a recovery, and a record behind it.
 *
 * Invariant: what a test compares with the trace is taken down from the part itself, before each
 * command of the card, and not from the trace.
 */

import {
  CardTrace,
  EmulatedDpu,
  Link,
  Nvdimm,
  pending,
  Random,
  VirtualClock,
} from '../../../boards/emulator/index.ts'
import { connect } from '../../../host-driver/connect.ts'
import { linkWire } from '../../../host-driver/local.ts'
import type { Region } from '../../../host-driver/records/region.ts'
import { dataOf } from '../cards/test-card.ts'

const PART_BYTES = 1 << 18

/** The slots, and data in a slot, bytes. */
const SLOTS = 6
const CAPACITY = 128

/** The part between two commands of the card. */
export interface Moment {
  /** Events of the trace so far. */
  readonly events: number
  readonly pendingLines: readonly number[]
  readonly durable: Uint8Array
  readonly live: Uint8Array
}

export interface Traced {
  readonly lines: string[]
  readonly moments: Moment[]
  /** Per slot, what was written into it, oldest first. */
  readonly written: readonly Uint8Array[][]
}

interface TracedOptions {
  readonly seed?: number
  readonly limit?: number
  /** Whether the power goes in the commit of the last three. */
  readonly cut?: boolean
  /** Whether two batches go behind all of that (sendBatches). */
  readonly batches?: boolean
}

export async function tracedRun(options: TracedOptions = {}): Promise<Traced> {
  const { seed = 5, limit, cut = true, batches = false } = options
  const lines: string[] = []
  const moments: Moment[] = []
  const clock = new VirtualClock()
  const nvdimm = new Nvdimm({ bytes: PART_BYTES })
  const trace = new CardTrace({
    write: (line) => lines.push(line),
    later: true,
    ...(limit === undefined ? {} : { limit }),
  })
  const link = new Link({ clock, seed })
  let power: Promise<void> = Promise.resolve()
  const card = new EmulatedDpu({
    ...{ nvdimm, clock, seed, trace, engine: 'node' },
    transmit: (frame) => link.send('b', frame),
    onPowerCut: () => {
      clock.schedule(clock.nowUs + 1000, () => {
        power = card.powerOn((machine) => machine.observe({ onCommand: note }))
      })
    },
  })
  const note = (): void => {
    if (!trace.isOpen) return
    moments.push({
      events: trace.count,
      pendingLines: [...new Set(pending(nvdimm).map(({ at }) => Math.floor(at / 64)))],
      durable: nvdimm.durable.slice(),
      live: nvdimm.live.slice(),
    })
  }
  link.attach('b', (frame) => card.deliver(frame))
  await card.powerOn((machine) => machine.observe({ onCommand: note }))
  clock.start()
  const dpu = await connect(linkWire(link, clock), { seed, warn: () => {} })
  await dpu.format()
  const region = await dpu.provision({ name: 'notes', slots: SLOTS, capacity: CAPACITY })
  const written: Uint8Array[][] = Array.from({ length: SLOTS }, () => [])
  const next = (slot: number, length: number): Uint8Array => {
    const data = dataOf(length, 100 * slot + written[slot]!.length)
    written[slot]!.push(data)
    return data
  }
  const put = (slot: number, length: number): Promise<unknown> => {
    return region.persist(slot, next(slot, length)).persisted
  }
  await Promise.all([put(0, 100), put(1, 64), put(2, 128)])
  trace.begin()
  await Promise.all([put(0, 64), put(1, 128)])
  await put(3, 10)
  if (cut)
    card.armCut({ record: card.statistics.records + 2, choice: { random: new Random(seed) } })
  await Promise.all([put(0, 90), put(2, 60), put(4, 1)])
  await power
  await put(1, 70)
  if (batches) await sendBatches(region, next)
  trace.end()
  await dpu.close()
  clock.stop()
  if (card.isOn) card.powerCut({ strategy: 'all' })
  return { lines, moments, written }
}

/** Records 0 to 2 in order; then record 3 as it is expected, and record 4 as it is not. */
async function sendBatches(
  region: Region,
  next: (slot: number, length: number) => Uint8Array,
): Promise<void> {
  const inOrder = region.batch({ condition: 'inOrder' })
  for (const slot of [0, 1, 2]) inOrder.persist(slot, next(slot, 33 + slot))
  await inOrder.commit()
  const { sequence } = await region.read(3)
  const expecting = region.batch({ condition: 'expect' })
  expecting.persist(3, next(3, 20), { expect: sequence })
  expecting.persist(4, dataOf(21, 7), { expect: sequence })
  await expecting.commit()
}
