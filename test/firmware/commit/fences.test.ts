/**
 * Each fence of the commit is needed, and stands where it must (D-2, X-1; crash-model 3.3).
 *
 * Invariant: the damaged machine differs from the sound one in the one thing that is named;
 * the exploration and the oracle are the same. The sound one shows no violation, the damaged one at
 * least one, whose first witness is printed.
 *
 * Why some fences are looked at without check codes: where a check code tells a torn copy from a
 * whole one, it hides at levels 2of2 and 2of3 that F2 or F3 is missing. With a code that accepts
 * everything, only the structure is left to be right, and then no fence can be spared at any level.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import {
  COPY_CLEAN,
  FENCE,
  FROM,
  LENGTH,
  NVDIMM_SPACE,
  SKIP,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { dataOf, sentOf, TestCard } from '../../support/cards/test-card.ts'
import {
  Actor,
  type Damage,
  explore,
  type Findings,
  type Level,
  type MediaError,
  PART_BYTES,
  type Scenario,
  SEED,
  summary,
  type Write,
} from '../../support/crash/explorer.ts'
import {
  LEVEL_1OF2,
  LEVEL_2OF2,
  LEVEL_2OF3,
  LEVELS,
  levelName,
} from '../../support/crash/scenario.ts'
import {
  copyAt,
  LANES,
  LANES_AT,
  type Lane,
  LINE_BYTES,
  type RecordOracle,
  readLane,
  readSlot,
} from '../../support/judges/oracle.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

/** Images of one point are a sample where a missing fence lets two copies be torn together. */
const SAMPLE = 1024

/** Two writes of one record, six chunks different, with the lazy clearing of the lane between. */
function twoWrites(level: Level, damage: Damage, mediaErrors: readonly MediaError[]): Scenario {
  const first = dataOf(64, 1)
  const second = first.slice()
  second.set(dataOf(16, 2), 24)
  const third = first.slice()
  third.set(dataOf(16, 3), 40)
  const { wait, copies } = level
  return {
    name: `${levelName(level)} ${JSON.stringify(damage)}`,
    shape: { copies },
    before: (actor) => {
      actor.write({ slot: 0, data: first, wait: 2 })
      actor.idle()
    },
    during: (actor) => {
      actor.write({ slot: 0, data: second, wait })
      actor.idle()
      actor.write({ slot: 0, data: third, wait })
      actor.idle()
    },
    damage,
    mediaErrors,
    sample: SAMPLE,
  }
}

function explored(level: Level, damage: Damage, mediaErrors: readonly MediaError[] = []): Findings {
  const found = explore(twoWrites(level, damage, mediaErrors))
  console.log(summary(found))
  if (found.witnesses.length > 0) console.log(`  ${found.witnesses[0]}`)
  return found
}

test('D-2: with all fences no crash of two writes is a violation, at any level', () => {
  for (const level of LEVELS) expect(explored(level, {}).witnesses).toEqual([])
})

test('D-2: with all fences the structure is enough, were the check code to accept all', () => {
  for (const level of LEVELS) expect(explored(level, { checkless: true }).witnesses).toEqual([])
})

for (const dropFence of [1, 2, 3, 4]) {
  test(`D-2: without F${dropFence} a record is lost or torn at level 1of2`, THOROUGH, () => {
    expect(explored(LEVEL_1OF2, { dropFence }).violations).toBeGreaterThan(0)
  })

  test(`D-2: without F${dropFence} the structure does not hold at level 2of2`, () => {
    expect(explored(LEVEL_2OF2, { dropFence, checkless: true }).violations).toBeGreaterThan(0)
  })
}

for (const dropFence of [1, 2, 3, 5]) {
  test(`D-2: without F${dropFence} the structure does not hold at level 2of3`, THOROUGH, () => {
    expect(explored(LEVEL_2OF3, { dropFence, checkless: true }).violations).toBeGreaterThan(0)
  })
}

test(
  'D-4: without F4 a cut and a media error lose what 2of3 acknowledged; else not',
  THOROUGH,
  () => {
    const errors: readonly MediaError[] = [{ lines: 'copies' }]
    expect(explored(LEVEL_2OF3, {}, errors).witnesses).toEqual([])
    expect(explored(LEVEL_2OF3, { dropFence: 4 }, errors).violations).toBeGreaterThan(0)
  },
)

test('X-1: an acknowledgement moved before F3 is a loss at level 1of2', () => {
  expect(explored(LEVEL_1OF2, { acknowledgeEarly: true }).violations).toBeGreaterThan(0)
})

test(
  'X-1: an acknowledgement moved before F4 is a loss with a later media error at 2of2',
  THOROUGH,
  () => {
    const later: readonly MediaError[] = [{ lines: 'copies', later: true }]
    expect(explored(LEVEL_2OF2, {}, later).witnesses).toEqual([])
    expect(explored(LEVEL_2OF2, { acknowledgeEarly: true }, later).violations).toBeGreaterThan(0)
  },
)

/** Bytes of a phase word: a store into a lane that is no longer flips the phase. */
const PHASE_WORD_BYTES = 8

/** Looks at every store and every frame of a card, and complains. */
class Order {
  readonly complaints: string[] = []
  readonly acknowledged = new Set<string>()
  stores = 0
  private readonly card: TestCard
  private readonly actor: Actor

  /** `dropFence`: the fence of that number is left out, 1 being the first one from now on. */
  constructor(card: TestCard, actor: Actor, dropFence = 0) {
    this.card = card
    this.actor = actor
    let fences = 0
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        const from = words[at + FROM]!
        const length = words[at + LENGTH]!
        if (op === COPY_CLEAN) this.store(from, words[at + TO]! - NVDIMM_SPACE, length)
        if (op === TRANSMIT) this.frame(from, length)
      },
      replace: (_, op) => {
        if (op === FENCE) fences += 1
        return op === FENCE && fences === dropFence ? SKIP : op
      },
    })
  }

  private store(from: number, to: number, length: number): void {
    const image = this.card.machine.packets.slice(from, from + length)
    this.actor.noteStore(to, image)
    if (length === PHASE_WORD_BYTES && to >= LANES_AT && to < LANES_AT + LANES * LINE_BYTES) {
      this.phase(to)
    }
    for (const record of this.actor.records.values()) {
      for (let copy = 0; copy < record.region.copies; copy++) {
        if (to === copyAt(record.region, copy, record.record)) this.copy(record, copy, image)
      }
    }
  }

  private laneAt(at: number): Lane {
    return readLane(this.card.nvdimm.durable.slice(at, at + LINE_BYTES))
  }

  /** A lane is about to say that copy A is whole: F1 and F2 must be behind us. */
  private phase(at: number): void {
    const lane = this.laneAt(at)
    if (lane.state !== 'A') {
      this.complaints.push(`a lane that is ${lane.state} goes to phase B`)
      return
    }
    const record = this.actor.record(lane.record)
    const durable = record.copyIn(this.card.nvdimm.durable, 0)
    if (record.versionOf(durable) < 0 || readSlot(durable).sequence !== lane.sequence) {
      this.complaints.push(`record ${lane.record} goes to phase B, and copy A is not durable`)
    }
  }

  /** A copy is about to be stored: what must be durable by now? */
  private copy(record: RecordOracle, copy: number, image: Uint8Array): void {
    this.stores += 1
    const durable = record.statesIn(this.card.nvdimm.durable)
    const version = record.versionOf(image)
    const say = (what: string): void => {
      this.complaints.push(`v${version} of ${record.record} to copy ${copy}: ${what} (${durable})`)
    }
    if (version < 1) say('the image is not whole')
    const wanted = copy === 0 ? version - 1 : version
    const before = copy === 0 ? durable : durable.slice(0, copy)
    if (before.some((state) => state !== wanted)) say(`v${wanted} is not durable before it`)
    const phase = copy === 0 ? 'A' : 'B'
    const { sequence } = readSlot(image)
    const lanes = Array.from({ length: LANES }, (_, i) => this.laneAt(LANES_AT + i * LINE_BYTES))
    const told = lanes.some((lane) => lane.state === phase && lane.sequence === sequence)
    if (!told) say(`no lane says phase ${phase}`)
  }

  /** A frame is about to leave: is all durable that it acknowledges? */
  private frame(from: number, length: number): void {
    const sent = sentOf(this.card.machine.packets.slice(from, from + length))
    for (const { record, version, wait } of this.actor.namedBy(sent)) {
      this.acknowledged.add(`${record.record} ${version}`)
      const durable = record.statesIn(this.card.nvdimm.durable)
      const copies = durable.filter((state) => state === version).length
      if (copies >= wait && copies >= sent.paeth!.copies) continue
      this.complaints.push(`v${version} of ${record.record}: ${durable} acknowledged at ${wait}`)
    }
  }
}

/** A card with a region, every record of which is known to the oracle. */
function orderly(copies: number, dropFence = 0): { actor: Actor; order: Order } {
  const card = new TestCard(PART_BYTES)
  card.format()
  const actor = new Actor(card, { copies }, true)
  for (let slot = 0; slot < actor.region.slots; slot++) actor.record(slot)
  return { actor, order: new Order(card, actor, dropFence) }
}

test('P1-12: two writes of one slot in a burst: the second waits for B of the first', () => {
  for (const copies of [2, 3, 4]) {
    const { actor, order } = orderly(copies)
    const writes = [1, 2, 3].map((seed) => ({ slot: 0, data: dataOf(64, seed), wait: 1 }))
    actor.write(...writes)
    expect(order.complaints).toEqual([])
    expect(order.stores).toBe(3 * copies)
    expect(order.acknowledged.size).toBe(3)
    expect(actor.record(0).statesIn(actor.card.nvdimm.durable)).toEqual(new Array(copies).fill(3))
  }
})

test('X-1, P1-9, P1-10: in random bursts every copy and every ack is behind its fence', () => {
  for (const copies of [2, 3, 4]) {
    const { actor, order } = orderly(copies)
    const random = new Random(SEED + copies)
    let written = 0
    for (let burst = 0; burst < 60; burst++) {
      const writes: Write[] = Array.from({ length: 1 + random.below(32) }, () => ({
        slot: random.below(actor.region.slots),
        data: dataOf(random.below(65), written++),
        wait: 1 + random.below(copies),
        client: random.below(2),
      }))
      actor.write(...writes)
      if (random.chance(0.3)) actor.idle()
    }
    expect(order.complaints.slice(0, 3), `SEED=${SEED}`).toEqual([])
    expect(order.stores).toBe(written * copies)
    expect(order.acknowledged.size).toBe(written)
  }
})

test('X-1, P1-10: whichever fence is left out, the order is no longer right', () => {
  for (const dropFence of [1, 2, 3, 4]) {
    const { actor, order } = orderly(2, dropFence)
    actor.write({ slot: 0, data: dataOf(64, 1), wait: 2 })
    expect(order.complaints.length, `F${dropFence}`).toBeGreaterThan(0)
  }
})
