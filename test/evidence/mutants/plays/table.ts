/**
 * The operation table against a plain set: what the card says of an operation, and what was done
 * (D-6, X-3, G2-5).
 *
 * Invariant: "durable" must never be said of an operation that nobody finished; it must be
 * said of the last ones of a client that were, over restarts. Operations are drawn by a fixed seed.
 */

import { Random } from '../../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { PERSIST_QUERY } from '../../../../firmware/wire/opcode.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../../support/cards/test-card.ts'
import { LINE_BYTES, OPERATIONS_AT } from '../../../support/judges/oracle.ts'
import { leave } from '../../../support/peers/strangers.ts'
import { frameOf } from '../../../support/wire/frames.ts'
import type { Play } from '../killer.ts'

/** Operations of a client that the card has to remember one by one, at the least. */
const WINDOW = 128
const PART_BYTES = 1 << 18

function halves(operation: number): { operationHigh: number; operationLow: number } {
  return { operationHigh: Math.floor(operation / 2 ** 32), operationLow: operation % 2 ** 32 }
}

function write(qp: TestPeer, region: TestRegion, slot: number, operation: number): Uint8Array {
  const { operationHigh, operationLow } = halves(operation)
  const options = { operation: operationLow, operationHigh }
  return persistFrames(qp, region, slot, dataOf(16, operationLow), options)[0]!
}

/** Is that operation durable, by the card's word? */
function asked(card: TestCard, qp: TestPeer, operation: number): boolean {
  const bth = { opcode: PERSIST_QUERY, destQp: qp.number, psn: qp.psn, ackRequest: true }
  qp.psn = (qp.psn + 1) & 0xffffff
  const [answer] = persistAcks(card.serve(frameOf({ bth, pqeth: halves(operation) })))
  if (answer === undefined) throw new Error('a query was not answered')
  return answer.status === 0
}

/** Compares the answers about all operations near the newest one with what was done. */
function compared(
  card: TestCard,
  qp: TestPeer,
  done: ReadonlySet<number>,
  newest: number,
): string | null {
  for (let operation = newest + 2; operation > newest - 2 * WINDOW; operation--) {
    if (operation < 1) break
    const said = asked(card, qp, operation)
    const name = `operation ${operation}, the newest being ${newest},`
    if (said && !done.has(operation)) return `${name} is called durable and was never done`
    if (!said && done.has(operation) && newest - operation < WINDOW) return `${name} is forgotten`
  }
  return null
}

/** A client whose operations begin at `first`, with gaps, now and then behind one another. */
function againstSet(first: number, seed: number): string | null {
  const random = new Random(seed)
  const part = new TestCard(PART_BYTES).format()
  part.provision({ slots: 32 })
  let card = part
  const done = new Set<number>()
  let newest = first - 1
  for (let life = 0; life < 4; life++) {
    if (life > 0) card = new TestCard(part.nvdimm)
    const region = card.open('records')
    const qp = card.connect()
    for (let burst = 0; burst < 12; burst++) {
      const frames: Uint8Array[] = []
      for (let i = 0; i < 24; i++) {
        const jump = random.chance(0.02) ? WINDOW - 2 + random.below(5) : 1
        let operation = newest + (random.chance(0.05) ? 3 : jump)
        // One that was passed over, near enough to be remembered or just not.
        if (random.chance(0.15)) operation = Math.max(first, newest - random.below(WINDOW + 24))
        newest = Math.max(newest, operation)
        frames.push(write(qp, region, i, operation))
        done.add(operation)
      }
      card.serve(...frames)
      card.idle()
      const said = burst % 3 === 2 ? compared(card, qp, done, newest) : null
      if (said !== null) return `seed ${seed}, life ${life}, burst ${burst}: ${said}`
    }
  }
  return null
}

/** One bit of a line turns: the other line of the client says the same. */
function decayedLine(): string | null {
  const card = new TestCard(PART_BYTES).format()
  const region = card.provision({ slots: 8 })
  const qp = card.connect()
  const done = [3, 5, 140]
  for (const operation of done) card.serve(write(qp, region, operation % 8, operation))
  card.idle()
  const content = card.nvdimm.durable.slice()
  for (let at = 0; at < 2 * LINE_BYTES; at++) {
    const part = new Nvdimm({ bytes: content.length, content })
    part.durable[OPERATIONS_AT + at]! ^= 1 << (at & 7)
    part.live[OPERATIONS_AT + at]! ^= 1 << (at & 7)
    const again = new TestCard(part)
    const pair = again.connect()
    for (const operation of [20, 100, 139, 140, 141, 200]) {
      if (asked(again, pair, operation) === done.includes(operation)) continue
      return `byte ${at} has turned, and so has what is said of operation ${operation}`
    }
  }
  return null
}

/** More clients than there are places: two new ones come in one burst. */
function crowd(): string | null {
  const card = new TestCard(PART_BYTES).format()
  const region = card.provision({ slots: 8 })
  const pairs: TestPeer[] = []
  for (let i = 0; i < 134; i += 2) {
    const [one, other] = [card.connect(4096, 0, 100 + i), card.connect(4096, 0, 101 + i)]
    pairs.push(one, other)
    card.serve(write(one, region, 0, operationOf(i)), write(other, region, 1, operationOf(i + 1)))
    // No source has a queue pair for each of them: all but the last ones leave.
    if (i < 134 - 16) for (const qp of [one, other]) leave(card, qp)
  }
  for (let i = pairs.length - 16; i < pairs.length; i++) {
    for (let operation = 1; operation < 12; operation++) {
      const said = asked(card, pairs[i]!, operation)
      if (said === (operation === operationOf(i))) continue
      return `client ${i} did ${operationOf(i)}, and ${operation} is ${said ? '' : 'not '}durable`
    }
  }
  return null
}

/** What client `i` of the crowd does. */
function operationOf(i: number): number {
  return 3 + (i % 7)
}

/** A save failed: what was known counts no more, and what is done from then on does. */
function afterFailedSave(): string | null {
  let card = new TestCard(PART_BYTES).format()
  let region = card.provision({ slots: 8 })
  let qp = card.connect()
  card.serve(write(qp, region, 0, 1), write(qp, region, 1, 2))
  const part = card.nvdimm
  part.failSave()
  card = new TestCard(part)
  qp = card.connect()
  if (asked(card, qp, 2)) return 'after a save that failed an operation is called durable'
  part.failSave(false)
  for (let life = 0; life < 3; life++) {
    card = new TestCard(part)
    region = card.open('records')
    qp = card.connect()
    if (asked(card, qp, 2)) return `life ${life}: an operation of before is called durable`
    if (life > 0 && !asked(card, qp, 9 + life)) return `operation ${9 + life} is forgotten`
    card.serve(write(qp, region, 2, 10 + life))
    // The lane is cleared, and knows it no more.
    card.idle()
  }
  return null
}

export const TABLE_PLAYS: Readonly<Record<string, Play>> = {
  'operations from 1': () => againstSet(1, 1),
  'operations at half a word': () => againstSet(2 ** 31 - 150, 3),
  'operations at the end of a word': () => againstSet(2 ** 32 - 150, 2),
  'a line that decays': decayedLine,
  'a crowd of clients': crowd,
  'a save that failed': afterFailedSave,
}
