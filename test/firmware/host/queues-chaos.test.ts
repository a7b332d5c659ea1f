/**
 * A host that does anything: wild stores, wild doorbells, failing reads, removals (H1 to H5).
 *
 * Invariant: the firmware neither throws nor spins, and a host that begins again is served
 * as if nothing had been.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { HEADER_EPOCH } from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { type NopHost, nop, nopHost, wait } from '../../support/queues/nop-queues.ts'

const COUNT = 32
const CALLS = 300

/** One thing that no driver would do. */
function disturb({ host, sqs, cqs }: NopHost, random: Random): void {
  const queue = random.below(COUNT)
  const zones: [number, number][] = [
    [host.zone1At, info.ZONE1_BYTES],
    [host.zone2At, info.ZONE2_BYTES],
    [host.zone3At, info.ZONE3_BYTES],
  ]
  const what = random.below(12)
  if (what < 3) {
    const [at, bytes] = zones[what]!
    const to = at + queue * bytes + 4 * random.below(bytes / 4)
    host.view.setInt32(to, random.below(2) === 0 ? random.below(64) : random.below(2 ** 31), true)
  } else if (what === 3) {
    host.ringFifo(random.below(2 ** 31) & random.below(2 ** 31), random.below(2 ** 31))
  } else if (what === 4) {
    host.ringRegister(random.below(2 ** 31), random.below(2 ** 31))
  } else if (what === 5) {
    const { ring, depth } = host.queues.get(sqs[random.below(sqs.length)]!)!
    host.bytes[ring + random.below(depth * 64)] = random.below(256)
  } else if (what === 6) {
    host.arm(cqs[random.below(cqs.length)]!)
    host.ring(cqs[random.below(cqs.length)]!)
  } else if (what === 7) {
    host.port.setUint32(hal.PORT_DROPPED, random.below(2 ** 31), true)
  } else if (what === 8 && random.below(20) === 0) {
    host.port.setUint32(hal.PORT_EPOCH, 1000 * random.below(3), true)
  } else if (what === 9 && random.below(20) === 0) {
    host.setLink(random.below(2) === 0)
  } else if (what === 10) {
    host.setCache(random.below(5), 1 + random.below(9), random.below(99), 4 + random.below(40))
  } else {
    const sq = sqs[random.below(sqs.length)]!
    for (let i = random.below(4); i >= 0; i--) host.post(sq, nop(1 + random.below(4)))
    host.ring(sq)
  }
}

test('whatever a host does: nothing is thrown, nothing spins, and it can begin again', () => {
  const seed = Number(process.env.SEED ?? 21)
  console.log(`seed ${seed}`)
  for (let run = 0; run < 40; run++) {
    const random = new Random(seed * 1000 + run)
    const made = nopHost({ count: COUNT, sendQueues: 8, completionQueues: 4, entries: 32 })
    const { host } = made
    // A write of the card into the host's own lines is the harm of a host that asked for it.
    host.ram.onViolation = () => {}
    const faulty = run % 2 === 1
    host.ram.link.script = ({ kind }) => {
      if (!faulty || kind === 'write' || random.below(40) > 0) return undefined
      return (['unsupported', 'poisoned', 'timeout'] as const)[random.below(3)]
    }
    for (let step = 0; step < 150; step++) {
      for (let i = random.below(6); i >= 0; i--) disturb(made, random)
      host.card.serve()
      for (let calls = 0; host.card.waitUs === 1; calls++) {
        if (calls > CALLS) throw new Error(`seed ${seed}, run ${run}, step ${step}: it spins`)
        host.card.idle()
      }
      if (random.below(3) === 0) for (const cq of made.cqs) drain(made, cq)
      if (random.below(9) === 0) wait(host, 1000)
    }
    host.ram.link.script = null
    beginAnew(made)
  }
})

/** Takes what looks like completions; a host that spoils its own rings may find anything. */
function drain({ host }: NopHost, cq: number): void {
  for (let i = 0; i < 64 && host.peek(cq) !== null; i++) {
    const of = host.queues.get(cq)!
    of.pointer = (of.pointer + 1) >>> 0
  }
  host.setPointer(cq)
}

/** A new host in fresh memory: it is served. */
function beginAnew({ host, cqs, sqs }: NopHost): void {
  host.bytes.fill(0)
  host.startAnew(COUNT)
  expect(host.header(HEADER_EPOCH)).not.toBe(0)
  const [cq, sq] = [cqs[0]!, sqs[0]!]
  host.forceQueue(cq, { kind: info.KIND_COMPLETION, depth: 16 })
  host.forceQueue(sq, { kind: info.KIND_SEND, depth: 16, completions: cq })
  for (let i = 0; i < 3; i++) host.post(sq, nop(2))
  host.ring(sq)
  host.run()
  expect(host.poll(cq).map((cqe) => cqe.unit)).toEqual([0, 2, 4])
}
