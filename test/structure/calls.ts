/**
 * What is called on the way of a record: by the firmware for one burst, and by the driver for one
 * `region.persist()`, from the call to its receipt.
 *
 * Invariants:
 * - Counted is what a second operation of the same kind takes: what is done once is done before.
 * - Of the firmware only what it does when it is called counts, and nothing of what the emulated
 *   machine does for it; of the driver its own functions.
 */

import { recordBoots } from '../../boards/emulator/run/direct.ts'
import { batchFrames, IN_ORDER } from '../support/cards/batch-card.ts'
import { dataOf, persistFrames, TestCard } from '../support/cards/test-card.ts'
import { openWay, WAYS, type WayName } from '../support/driver/ways.ts'
import { localQueue, play, record } from '../support/queues/local-queue.ts'

/** A way, and how much of which part it takes. */
export interface Calls {
  readonly way: string
  readonly calls: number
  readonly functions: number
  readonly files: number
}

/** Where the bundle tells of its calls, each as `PATH#NAME` (counted.mjs). */
const told = globalThis as unknown as { calls: string[] }

function summed(way: string, part: string, labels: readonly string[]): Calls {
  const own = labels.filter((label) => label.startsWith(part))
  if (own.length === 0) throw new Error(`${way}: nothing was called; was this bundle made to tell?`)
  const files = new Set(own.map((label) => label.split('#')[0]))
  return { way, calls: own.length, functions: new Set(own).size, files: files.size }
}

/** What `work` has the card's firmware call, the second time. */
function ofFirmware(way: string, card: TestCard, work: () => void): Calls {
  work()
  const { firmware } = card
  const labels: string[] = []
  const within = (call: () => number): number => {
    told.calls = []
    const waitUs = call()
    labels.push(...told.calls)
    return waitUs
  }
  card.firmware = {
    ...firmware,
    serve: (count, nowUs) => within(() => firmware.serve(count, nowUs)),
    idle: (nowUs) => within(() => firmware.idle(nowUs)),
  }
  work()
  card.firmware = firmware
  return summed(way, 'firmware/', labels)
}

/** What the machine calls of the firmware, to say what it has sent, counts for nobody. */
function withoutMachine<T>(work: () => T): T {
  recordBoots((machine, boot) =>
    boot({
      facts: machine.facts,
      memory: machine.memory,
      run: (count) => {
        const { calls } = told
        told.calls = []
        const failed = machine.run(count)
        told.calls = calls
        return failed
      },
    }),
  )
  try {
    return work()
  } finally {
    recordBoots(null)
  }
}

function overFrames(): Calls[] {
  const card = new TestCard()
  card.format()
  const region = card.provision({ slots: 8, capacity: 256 })
  const qp = card.connect()
  const data = dataOf(64, 1)
  const members = [0, 1].map((slot) => ({ slot, data }))
  return [
    ofFirmware('one WRITE_PERSIST', card, () => card.serve(...persistFrames(qp, region, 1, data))),
    ofFirmware('a batch of two', card, () =>
      card.serve(...batchFrames(qp, region, members, { condition: IN_ORDER })),
    ),
  ]
}

function byDoorbell(): Calls {
  const queue = localQueue()
  const region = queue.host.card.provision({ slots: 8, capacity: 256 })
  let operation = 0
  return ofFirmware('a record by doorbell', queue.host.card, () => {
    play(queue, record(queue, region, 1, ++operation, dataOf(64, operation)))
  })
}

async function ofDriver(name: WayName): Promise<Calls> {
  const way = await openWay(name)
  try {
    await way.dpu.format()
    const region = await way.dpu.provision({ name: 'records', slots: 8, capacity: 256 })
    await region.persist(1, dataOf(64, 1)).persisted
    told.calls = []
    await region.persist(1, dataOf(64, 2)).persisted
    return summed(`region.persist(), ${name}`, 'host-driver/', told.calls)
  } finally {
    await way.close()
  }
}

/** All ways, measured. The bundle that runs was made with `counted.mjs`. */
export async function countCalls(): Promise<Calls[]> {
  const found = withoutMachine(() => [...overFrames(), byDoorbell()])
  for (const name of WAYS) found.push(await ofDriver(name))
  return found
}
