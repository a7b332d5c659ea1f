/**
 * Batches in order over several regions: a record goes back with the one before it, which is one of
 * another region (S1-M9; X-5, P4-13).
 *
 * Invariant: power goes before F3, and every subset of the lanes says B; or before F2, and every
 * subset of the first copies is torn. Behind the next start, and those that follow it, what is
 * there are the first records of the batch, also where the medium refuses to take one back, or the
 * host was away meanwhile; and a record that waits for that takes no writes.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import {
  CUT_STRATEGIES,
  type CutChoice,
  cut as cutPart,
} from '../../../boards/emulator/medium/power-cut.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import { HOST_SPACE, NVDIMM_SPACE } from '../../../firmware/board/hal.ts'
import { PLACEMENT_BYPASS, slotAddress } from '../../../firmware/medium/region.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { IN_ORDER, upTo } from '../../support/cards/batch-card.ts'
import { atFence } from '../../support/cards/fences.ts'
import type { MixedCard } from '../../support/cards/mixed-card.ts'
import { cardOn, hostOf, inTurn, MixedStart } from '../../support/cards/mixed-start.ts'
import { believe, SEED } from '../../support/cards/placed.ts'
import {
  ackStatuses,
  dataOf,
  persistFrames,
  TestCard,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import { LANES_AT, LINE_BYTES } from '../../support/judges/oracle.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const COUNT = 3
/** Which lanes say B: a bit each. */
const SUBSETS = upTo(1 << COUNT)
const PHASE_BYTES = 8

/** What a cut before F3 has left, all lanes saying A; and what is on its way there. */
interface Cut {
  readonly content: Uint8Array
  readonly hosted: Uint8Array | null
  readonly lanes: readonly number[]
  readonly phases: readonly Uint8Array[]
  /** The first line of copy A of each record, on its medium. */
  readonly lines: readonly number[]
}

function cutBeforeF3(start: MixedStart): Cut {
  const one = start.begin()
  const { nvdimm, host, machine } = one.card
  let cut: Cut | null = null
  const frames = start.frames(one)
  atFence(machine, 3, () => {
    const { items, count } = one.state.commit
    const joined = items.slice(0, count)
    const lanes = joined.map(({ lane }) => lane)
    const at = (lane: number): number => LANES_AT + lane * LINE_BYTES
    cut = {
      content: nvdimm.durable.slice(),
      hosted: host?.part.durable.slice() ?? null,
      lanes,
      phases: lanes.map((lane) => nvdimm.live.slice(at(lane), at(lane) + PHASE_BYTES)),
      lines: joined.map(({ region, slot }) => {
        const space = host === null ? NVDIMM_SPACE : HOST_SPACE
        return (slotAddress(region, 0, slot) - space) / LINE_BYTES
      }),
    }
  })
  one.card.serve(...frames)
  expect(cut!.lanes).toHaveLength(COUNT)
  return cut!
}

/** What both memories hold. */
interface Left {
  readonly content: Uint8Array
  readonly hosted: Uint8Array | null
}

/** One image that a cut may leave: of both memories, and its name. */
interface Image extends Left {
  readonly name: string
}

/** What the cut has left where the lanes of that subset say B. */
function withLanes({ content, hosted, lanes, phases }: Cut, subset: number): Image {
  const left = content.slice()
  lanes.forEach((lane, i) => {
    if ((subset & (1 << i)) !== 0) left.set(phases[i]!, LANES_AT + lane * LINE_BYTES)
  })
  return { name: `lanes ${subset.toString(2)}`, content: left, hosted }
}

/** What a cut before F2 leaves where copy A of the records of that subset is torn. */
function withTorn({ content, hosted, lines }: Cut, subset: number): Image {
  const left = { content: content.slice(), hosted: hosted?.slice() ?? null }
  lines.forEach((line, i) => {
    if ((subset & (1 << i)) !== 0) (left.hosted ?? left.content)[(line + 1) * LINE_BYTES]! ^= 1
  })
  return { name: `torn ${subset.toString(2)}`, ...left }
}

function imagesOf(cut: Cut): Image[] {
  return SUBSETS.flatMap((subset) => [withLanes(cut, subset), withTorn(cut, subset)])
}

describe.each([
  ['in the card', false],
  ['past the caches of the host', true],
])('S1-M9, X-5: two regions in turn, %s', (_, withHost) => {
  const start = new MixedStart(inTurn, IN_ORDER, withHost)

  test('S1-M9, X-5: whatever lanes say B, none outlives the one before it', () => {
    const cut = cutBeforeF3(start)
    for (const { name, content, hosted } of imagesOf(cut)) {
      withPassingCards(() => {
        let one = cardOn(content, hosted)
        for (let starts = 0; starts < 3; starts++) {
          expect(start.badLeft(one), name).toBe(null)
          one = one.again()
        }
      })
    }
  })

  test('S1-M9, X-5, P1-26: a start that is cut at every command decides the same', THOROUGH, () => {
    const cut = cutBeforeF3(start)
    let cuts = 0
    for (const image of imagesOf(cut)) {
      for (let command = 0, isOver = false; !isOver; command++) {
        withPassingCards(() => {
          const strategy = CUT_STRATEGIES[command % CUT_STRATEGIES.length]!
          const choice = { random: new Random(SEED + command), strategy }
          const left = startCut(image, command, choice)
          isOver = left === null
          if (left === null) return
          const name = `${image.name}, start cut before command ${command}, ${strategy}`
          expect(start.badLeft(cardOn(left.content, left.hosted)), name).toBe(null)
          cuts += 1
        })
      }
    }
    expect(cuts).toBeGreaterThan(200)
  })
})

/** What a start leaves that is cut at that command, or null if it has fewer. */
function startCut({ content, hosted }: Image, command: number, choice: CutChoice): Left | null {
  const part = new Nvdimm({ bytes: content.length, content: content.slice() })
  const host = hosted === null ? null : hostOf(hosted)
  const card = new TestCard(part, {
    host,
    start: (machine) => {
      machine.armCut(command)
      return bootDirect(machine)
    },
  })
  try {
    if (!card.machine.dead && host !== null) believe(card, PLACEMENT_BYPASS)
  } catch (error) {
    // A card without power answers no call.
    if (!card.machine.dead) throw error
  }
  if (!card.machine.dead) return null
  host?.powerCut(choice)
  cutPart(part, choice)
  return { content: part.durable.slice(), hosted: host?.part.durable.slice() ?? null }
}

test('S1-M9, X-5, P1-11: nor where the medium does not let some go back', () => {
  const start = new MixedStart(inTurn, IN_ORDER, false)
  const cut = cutBeforeF3(start)
  for (const image of imagesOf(cut)) {
    for (const refused of SUBSETS) checkRefused(start, cut, image, refused)
  }
})

/** Starts on a medium that refuses copy A of those records, until it takes them again. */
function checkRefused(start: MixedStart, cut: Cut, image: Image, refused: number): void {
  const name = `${image.name}, refused ${refused.toString(2)}`
  const lines = cut.lines.filter((_, i) => (refused & (1 << i)) !== 0)
  withPassingCards(() => {
    let one = cardOn(image.content, null, { refused: lines })
    for (const heals of [false, true, true]) {
      if (heals) for (const line of lines) one.card.nvdimm.refuseWrites(line, false)
      if (heals) one = one.again()
      const stand = start.stand(one)
      for (let i = 0; i < 40; i++) one.card.idle()
      expect(start.stand(one), `${name}, looked at again`).toEqual(stand)
      expect(start.badLeft(one, stand), `${name}, heals ${heals}`).toBe(null)
      if (!heals) checkWrites(one, name)
    }
  })
}

/** A record whose lane waits for the next start takes no writes; what is taken stays. */
function checkWrites(one: MixedCard, name: string): void {
  const { card, qp, state } = one
  for (const lane of upTo(32)) {
    const waits = state.commit.takenBack[lane]
    if (waits === null || waits === undefined) continue
    const region = [one.first, one.second].find(({ id }) => id === waits.regionId)!
    const sent = card.serve(...persistFrames(qp, region, waits.record, dataOf(64, 7)))
    expect(ackStatuses(sent), `${name}, lane ${lane}`).not.toContain(0)
  }
}

/** A card on what the cut has left, whose host is away. */
function awayOn({ content, hosted }: Image): MixedCard {
  return cardOn(content, hosted, { isAway: true })
}

function comeBack({ card }: MixedCard): void {
  card.host!.comeBack()
  believe(card, PLACEMENT_BYPASS)
  card.idle()
}

describe('S1-M9, X-5: the host was away, and shows its memory later', () => {
  const start = new MixedStart(inTurn, IN_ORDER, true)

  test('S1-M9, X-5: none outlives the one before it', () => {
    const cut = cutBeforeF3(start)
    for (const image of imagesOf(cut)) {
      withPassingCards(() => {
        const one = awayOn(image)
        comeBack(one)
        expect(start.badLeft(one), image.name).toBe(null)
      })
    }
  })

  test('S1-M9: a region is removed meanwhile: what waits in the other is decided', () => {
    const cut = cutBeforeF3(start)
    for (const image of imagesOf(cut)) {
      for (const name of ['first', 'second'] as const) {
        withPassingCards(() => {
          const one = awayOn(image)
          one.card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
            body.set(new TextEncoder().encode(name), mad.REGION_NAME)
          })
          comeBack(one)
          const rest = name === 'first' ? one.second : one.first
          const data = dataOf(64, 7)
          const sent = one.card.serve(...persistFrames(one.qp, rest, 0, data))
          expect(ackStatuses(sent), `${image.name}, ${name}`).toEqual([0])
          expect(one.card.read(one.qp, rest, 0, 0, 64)).toEqual(data)
        })
      }
    }
  })
})
