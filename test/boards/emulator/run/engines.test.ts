/**
 * One firmware, two engines: what the shipped bundle does in QuickJS is, byte for byte, what its
 * sources do in Node. Everything that is tested in Node alone rests on this.
 */

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import {
  EmulatedDpu,
  type Engine,
  Link,
  Nvdimm,
  Random,
  VirtualClock,
} from '../../../../boards/emulator/index.ts'
import { connect } from '../../../../host-driver/connect.ts'
import { linkWire } from '../../../../host-driver/local.ts'
import { openBench } from '../../../support/cards/engine.ts'
import { dataOf, persistFrames, placeAll } from '../../../support/cards/test-card.ts'
import { thoroughIf } from '../../../support/run/thorough.ts'

const SEED = Number(process.env.SEED ?? 20_260)

interface Run {
  readonly trace: string
  readonly traceBytes: number
  readonly media: string
  readonly cutChunks: number
}

/** A bad day for a card: records of all sizes over a bad link, and a cut inside a commit. */
async function badDay(engine: Engine, seed: number): Promise<Run> {
  const random = new Random(seed)
  const clock = new VirtualClock()
  const nvdimm = new Nvdimm({ bytes: 1 << 21 })
  const link = new Link({
    clock,
    seed: random.next(),
    faults: { loss: 0.03, duplication: 0.03, reordering: 0.03, corruption: 0.02 },
  })
  const hash = createHash('sha256')
  let traceBytes = 0
  const watched = {
    trace: (bytes: Uint8Array): void => {
      hash.update(bytes)
      traceBytes += bytes.length
    },
  }
  const dpu = new EmulatedDpu({
    nvdimm,
    clock,
    engine,
    seed: random.next(),
    transmit: (frame) => link.send('b', frame),
    onPowerCut: () => {
      clock.schedule(clock.nowUs + 1000, () => {
        clock.stop()
        void dpu.powerOn((machine) => machine.observe(watched)).then(() => clock.start())
      })
    },
  })
  link.attach('b', (frame) => dpu.deliver(frame))
  await dpu.powerOn((machine) => machine.observe(watched))
  clock.start()
  const client = await connect(linkWire(link, clock), {
    seed: random.next(),
    durability: '2of3',
    timeoutMs: 60_000,
  })
  await client.format()
  const region = await client.provision({ name: 'r', slots: 40, capacity: 5000, copies: 3 })
  dpu.armCut({ record: 60, choice: { random: random.fork() } })
  const writes = []
  for (let i = 0; i < 120; i++) {
    const form = i % 7 === 3 ? 'carried' : 'replicated'
    const bytes = dataOf(random.below(form === 'carried' ? 3000 : 5001), i)
    writes.push(region.persist(random.below(40), bytes, { form }).persisted)
  }
  const receipts = await Promise.all(writes)
  expect(receipts.every((receipt) => receipt.copies >= 2)).toBe(true)
  for (let slot = 0; slot < 40; slot++) await region.read(slot)
  const cutChunks = dpu.lastCut?.chunks ?? -1
  await client.close()
  clock.stop()
  return {
    trace: hash.digest('hex'),
    traceBytes,
    media: createHash('sha256').update(nvdimm.live).digest('hex'),
    cutChunks,
  }
}

for (const seed of [SEED, SEED + 1, SEED + 2]) {
  test(
    `QuickJS and Node agree byte for byte, SEED=${seed}`,
    thoroughIf(seed !== SEED),
    async () => {
      const node = await badDay('node', seed)
      const quickjs = await badDay('quickjs', seed)
      expect(node.traceBytes).toBeGreaterThan(100_000)
      expect(node.cutChunks).toBeGreaterThan(0)
      expect(quickjs).toEqual(node)
    },
  )
}

test('packets leave the memory of the guest flat', async () => {
  const bench = await openBench('quickjs', 1 << 20)
  const { card, machine, engine } = bench
  card.format()
  const region = card.provision({ slots: 64, capacity: 64 })
  const qp = card.connect()
  const frames = Array.from({ length: 32 }, (_, i) =>
    persistFrames(qp, region, i, dataOf(64, i)),
  ).flat()
  // Repeated, they are duplicates; both paths are walked.
  const serveBursts = (bursts: number): void => {
    for (let burst = 0; burst < bursts; burst++) {
      placeAll(machine, frames)
      engine.serve(32, burst)
      if (burst % 8 === 7) engine.idle(burst)
    }
  }
  serveBursts(50)
  const before = engine.memoryUsed()
  serveBursts(1500)
  expect(Math.abs(engine.memoryUsed() / before - 1)).toBeLessThan(0.01)
  engine.dispose()
})
