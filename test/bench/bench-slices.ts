/**
 * `npm run bench -- slices [--json]`: how long a burst may have to wait for a slice of what takes
 * long (burst/slice.ts): the making of a region, a look at its records by SCAN and in idle time,
 * and the room of one that is removed.
 *
 * Method: slots of several sizes, with two copies and with four; each call of the board that does a
 * slice is timed and its commands are counted. The quickest call, and the median: the machine is
 * shared, and what stands beside a slice is in them, too. The bound is the count: it is the same on
 * every machine, and bench-slices.test.ts holds it.
 */

import type { Engine } from '../../boards/emulator/run/dpu.ts'
import { putU32, u32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { takeWishes } from '../support/bench/bench-arguments.ts'
import { median, text } from '../support/bench/table.ts'
import { type Bench, openBench } from '../support/cards/engine.ts'
import { countCommands } from '../support/cards/fences.ts'

interface SliceCost {
  readonly engine: Engine
  readonly what: string
  readonly slotBytes: number
  readonly copies: number
  readonly calls: number
  /** Commands of the longest call. */
  readonly commands: number
  readonly leastUs: number
  readonly medianUs: number
}

/** Bytes of a record, copies, and how many there are. */
const SHAPES = [
  [64, 2, 512],
  [64, 4, 512],
  [4096, 2, 128],
  [65472, 2, 16],
  [65472, 4, 16],
] as const

const PART_BYTES = 1 << 23
const IDLE_CALLS = 96
/** As often as a card with a little pause behind each call. */
const STEP_US = 30

export async function sliceCosts(engines: readonly Engine[]): Promise<SliceCost[]> {
  const costs: SliceCost[] = []
  for (const engine of engines) {
    for (const shape of SHAPES) {
      const bench = await openBench(engine, PART_BYTES)
      bench.card.format()
      costs.push(...costsOf(bench, engine, shape))
      bench.engine.dispose()
    }
  }
  return costs
}

/** Calls until one says that it was the last. */
function measure(bench: Bench, call: () => boolean): Pick<SliceCost, 'calls' | 'commands'> & Times {
  const times: number[] = []
  let most = 0
  const commands = countCommands(bench.machine)
  for (let more = true; more; most = Math.max(most, commands.passed)) {
    commands.passed = 0
    const begun = process.hrtime.bigint()
    more = call()
    times.push(Number(process.hrtime.bigint() - begun) / 1e3)
  }
  const leastUs = Math.min(...times)
  return { calls: times.length, commands: most, leastUs, medianUs: median(times) }
}

type Times = Pick<SliceCost, 'leastUs' | 'medianUs'>

function costsOf(bench: Bench, engine: Engine, shape: (typeof SHAPES)[number]): SliceCost[] {
  const [capacity, copies, slots] = shape
  const { card } = bench
  const name = 'region'
  let nowUs = 0
  let from = 0
  let idle = 0
  const wait = (): number => {
    nowUs += STEP_US
    return bench.engine.idle(nowUs)
  }
  const calls: [what: string, call: () => boolean][] = [
    ['make', () => card.tryProvision({ name, slots, capacity, copies }).fault === 'UNDER_WAY'],
    [
      'scan',
      () => {
        const { id } = card.open(name)
        const { body } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SCAN, (call) => {
          putU32(call, mad.SCAN_REGION, id)
          putU32(call, mad.SCAN_RECORD, from)
        })
        from = u32(body, mad.SCAN_NEXT)
        return from < slots
      },
    ],
    [
      'idle',
      () => {
        wait()
        idle += 1
        return idle < IDLE_CALLS
      },
    ],
    ['erase', () => wait() > 0],
  ]
  return calls.map(([what, call]) => {
    if (what === 'erase') {
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
        body.set(new TextEncoder().encode(name), mad.REGION_NAME)
      })
    }
    return { engine, what, slotBytes: capacity, copies, ...measure(bench, call) }
  })
}

/** Exit code 64 for a wrong command line. */
export async function benchSlices(args: readonly string[]): Promise<void> {
  const wishes = takeWishes(args, {})
  if (wishes === null) {
    process.exitCode = 64
    return
  }
  const costs = await sliceCosts(['node', 'quickjs'])
  const head = ['engine', 'what', 'bytes', 'copies', 'calls', 'commands', 'least µs', 'median µs']
  const rows = costs.map((cost) => [
    ...[cost.engine, cost.what],
    ...[cost.slotBytes, cost.copies, cost.calls, cost.commands].map(String),
    ...[cost.leastUs, cost.medianUs].map((us) => us.toFixed(0)),
  ])
  const out = wishes.json ? JSON.stringify({ costs }, null, 2) : text([head, ...rows])
  process.stdout.write(`${out}\n`)
}
