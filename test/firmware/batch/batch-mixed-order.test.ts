/**
 * Order on the queue pair of a batch that goes to plain bytes: what is sent before, between and
 * behind its members (S1-M9; source 4).
 *
 * Invariant: every request but another WRITE_PERSIST of a record finds what was sent before it, and
 * what is sent behind it is stored over it, whatever came in one burst of frames. A model of a few
 * lines, which does one request after the other, says what is found and what is left.
 */

import { describe, expect, test } from 'vitest'
import {
  RC_ATOMIC_ACK,
  RC_READ_RESPONSE_ONLY,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import {
  type BatchRecord,
  batchFrames,
  CONDITIONS,
  heldBy,
  NOTHING_HELD,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { MixedCard } from '../../support/cards/mixed-card.ts'
import { dataOf, readFrame, type Sent } from '../../support/cards/test-card.ts'
import { thoroughIf } from '../../support/run/thorough.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  atomicWriteFrame,
  fetchAddFrame,
  flushFrame,
  writeFrames,
} from '../../support/wire/requests.ts'

const AREA = 512
const WORD = 8
const MEMBERS = 4

/** A card, and a model of its area. */
class Bench {
  readonly one = new MixedCard(null, { areaBytes: 4096, slots: 8, partBytes: 1 << 17 })
  readonly model = new Uint8Array(AREA)
  /** What the requests so far have to find. */
  found: bigint[] = []
  seed = 0

  word(at: number): bigint {
    return new DataView(this.model.buffer).getBigUint64(at, true)
  }

  put(at: number, data: Uint8Array): Uint8Array {
    this.model.set(data, at)
    return data
  }

  fresh(length: number): Uint8Array {
    this.seed += 1
    return dataOf(length, this.seed)
  }
}

/** Another request of the queue pair, at that place of the area; the model has it behind that. */
type Other = (bench: Bench, at: number) => Uint8Array[]

const OTHERS: Readonly<Record<string, Other>> = {
  write: (bench, at) => {
    const { one } = bench
    return writeFrames(one.qp, one.area, at, bench.put(at, bench.fresh(12)))
  },
  read: (bench, at) => {
    const { one } = bench
    bench.found.push(bench.word(at))
    return [readFrame(one.qp, one.area, 0, at, WORD)]
  },
  add: (bench, at) => {
    const { one, model } = bench
    const old = bench.word(at)
    bench.found.push(old)
    new DataView(model.buffer).setBigUint64(at, BigInt.asUintN(64, old + 3n), true)
    return [fetchAddFrame(one.qp, one.area, at, 3n)]
  },
  'atomic write': (bench, at) => {
    const { one } = bench
    const data = bench.put(at, bench.fresh(WORD))
    return [atomicWriteFrame(one.qp, one.area, at, data)]
  },
  flush: ({ one }, at) => [flushFrame(one.qp, one.area, { vaLow: at })],
  persist: (bench, at) => [placedFrame(bench.one, at, bench.put(at, bench.fresh(20)))],
}

/** A single WRITE_PERSIST to the area. */
function placedFrame({ qp, area }: MixedCard, at: number, data: Uint8Array): Uint8Array {
  const { psn } = qp
  qp.psn = (psn + 1) & 0xffffff
  return frameOf({
    bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn, ackRequest: true },
    reth: { vaHigh: area.baseHigh, vaLow: at, rkey: area.rkey, length: data.length },
    pweth: { wait: 1, wantsAck: true },
    payload: data,
  })
}

/** Where the others go: into the first bytes of the batch, across their end, and into the last. */
const PLACES = [0, 56, 160]

/** The members: bytes, a record, and bytes twice. */
function memberOf(bench: Bench, i: number): BatchRecord {
  const { one } = bench
  const bytes = (at: number, length: number): BatchRecord => {
    return one.bytes(at, bench.put(at, bench.fresh(length)))
  }
  if (i === 0) return bytes(0, 60)
  if (i === 1) return one.record(one.first, 2, bench.fresh(64))
  return i === 2 ? bytes(128, 100) : bytes(60, 9)
}

/** Something else that the queue pair sends before that member; 4: behind the last. */
interface Sends {
  readonly before: number
  readonly what: string
  readonly at: number
}

/** Sends it all, so many frames in a burst, and compares with what the model says. */
function check(bench: Bench, condition: number, sends: readonly Sends[], burst: number): void {
  const { one } = bench
  const { card, qp } = one
  const name = `${JSON.stringify(sends)}, ${burst} at once`
  const header = one.expecting([one.record(one.first, 2, dataOf(64, 0))])[0]!
  const operation = qp.operation + 1
  qp.operation += MEMBERS
  bench.found = []
  const frames = upTo(MEMBERS + 1).flatMap((i) => {
    const others = sends.filter(({ before }) => before === i)
    const made = others.flatMap(({ what, at }) => OTHERS[what]!(bench, at))
    if (i === MEMBERS) return made
    const options = { condition, operation, count: MEMBERS, ends: i === MEMBERS - 1, id: 5 }
    const expects = i === 1 ? header.expect : undefined
    const member = { ...memberOf(bench, i), index: i, expect: expects }
    return [...made, ...batchFrames(qp, one.first, [member], options)]
  })
  const sent: Sent[] = []
  for (let i = 0; i < frames.length; i += burst) {
    sent.push(...card.serve(...frames.slice(i, i + burst)))
  }
  const durable = upTo(MEMBERS)
  expect(statuses(sent), name).toMatchObject([{ said: 'durable', durable }])
  expect(foundIn(sent), name).toEqual(bench.found)
  const left = card.read(one.qp, one.area, 0, 0, AREA)!
  expect(Buffer.compare(left, bench.model), `${name}: what is left`).toBe(0)
  expect(heldBy(one.state), name).toEqual(NOTHING_HELD)
}

/** What READs and atomics have found, in their order. */
function foundIn(sent: readonly Sent[]): bigint[] {
  return sent.flatMap(({ opcode, payload, bytes, packet: { payloadAt } }) => {
    // A FLUSH is answered by one without data.
    if (opcode === RC_READ_RESPONSE_ONLY) {
      if (payload.length === 0) return []
      return [new DataView(payload.buffer).getBigUint64(0, true)]
    }
    const original = Uint8Array.from(bytes.subarray(payloadAt - WORD, payloadAt))
    return opcode === RC_ATOMIC_ACK ? [new DataView(original.buffer).getBigUint64(0)] : []
  })
}

const EVERY: readonly Sends[] = upTo(MEMBERS + 1).flatMap((before) =>
  Object.keys(OTHERS).flatMap((what) => PLACES.map((at) => ({ before, what, at }))),
)

for (const [name, condition] of Object.entries(CONDITIONS)) {
  describe(`S1-M9: ${name}`, () => {
    test('S1-M9: one request before, between or behind the members of a batch', () => {
      for (const burst of [1, 2, 32]) {
        const bench = new Bench()
        for (const sends of EVERY) check(bench, condition, [sends], burst)
      }
    })

    test('S1-M9: two of them', thoroughIf(name !== 'inOrder'), () => {
      const bench = new Bench()
      for (const one of EVERY.filter(({ at }) => at === 56)) {
        for (const other of EVERY.filter(({ at }) => at !== 160)) {
          if (one.before <= other.before) check(bench, condition, [one, other], 32)
        }
      }
    })
  })
}
