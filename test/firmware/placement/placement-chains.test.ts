/**
 * A batch in order past the caches of its host, cut, and then a host that answers for some of its
 * records and not for others: at a start, when it shows its memory, again and again (X-5; H6, B3).
 *
 * Invariant, for every command at which the power goes: what is shown of the batch begins
 * at its front; what was shown once is never taken back; and when the host answers for everything
 * no record waits any more, every copy is the same, and a further start finds what this one showed.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, type Platform } from '../../../boards/emulator/host/host-memory.ts'
import type { CutStrategy } from '../../../boards/emulator/medium/power-cut.ts'
import { VIEW_DATA, VIEW_SETTLED } from '../../../firmware/burst/view.ts'
import { HOST_DATA_AT, PLACEMENT_BYPASS } from '../../../firmware/medium/region.ts'
import { STATUS_DURABLE } from '../../../firmware/wire/persist-ack.ts'
import { batchFrames, IN_ORDER } from '../../support/cards/batch-card.ts'
import {
  believe,
  cardAlone,
  cutPower,
  NEW,
  OLD,
  type Placed,
  placed,
  restarted,
  restartHost,
  SEED,
  say,
  shownCopies,
} from '../../support/cards/placed.ts'
import {
  persistAcks,
  persistFrames,
  type TestCard,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

const RECORDS = [0, 1, 2]
const COPIES = 2
/** Idle passes in which a card has looked at all of the region. */
const LOOKS = 4

/** Of which records the host does not answer: a bit each. */
type Silent = number
const NOBODY: Silent = 0
const SILENCES: readonly Silent[] = Array.from({ length: 2 ** RECORDS.length }, (_, mask) => mask)

interface Story {
  /** What the host is when the card starts first, and whether a save has failed by then. */
  readonly platform: Platform
  readonly dirty: boolean
  /** A start for which the host answers comes first, and loses what it has stored in caches. */
  readonly answered: boolean
  readonly strategy: CutStrategy
  /** Two faults beside the cut end the order, not the records (recovery.ts). */
  readonly unordered: boolean
}

function silence({ host, region }: Placed, silent: Silent): void {
  const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
  host.link.script = ({ kind, memory, at }) => {
    if (kind !== 'read' || memory !== 'persistent' || at < HOST_DATA_AT) return undefined
    const record = Math.floor(((at - HOST_DATA_AT) % area) / region.stride)
    return ((silent >> record) & 1) !== 0 ? 'timeout' : undefined
  }
}

/** What readers are shown of each record; refused, also where it is except for a while. */
function shown(card: TestCard): string[] {
  const [qp, region] = [card.connect(), card.open()]
  return RECORDS.map((slot) => {
    const bytes = card.read(qp, region, slot, VIEW_DATA, 64)
    return say(bytes?.length === 0 ? null : bytes)
  })
}

/** The host shows its memory, and the card looks at it where it owes that. */
function show(card: TestCard): void {
  believe(card, PLACEMENT_BYPASS)
  for (let i = 0; i < LOOKS; i++) card.idle()
}

/** The card is started again, alone. */
function startedAgain(from: Placed): Placed {
  return { ...from, card: cardAlone(from.card) }
}

/** What readers see, one look after the other. */
class Reader {
  readonly #what: string
  readonly #order: RegExp
  readonly #was = RECORDS.map(() => 'refused')

  constructor(what: string, { unordered }: Story) {
    this.#what = what
    this.#order = unordered ? /^((new|old),?)*$/ : /^(new,?)*(old,?)*$/
  }

  look(card: TestCard): string[] {
    const now = shown(card)
    // None of them is lost: one that is not shown yet is not shown as lost.
    const [qp, region] = [card.connect(), card.open()]
    for (const slot of RECORDS) {
      const image = card.read(qp, region, slot, VIEW_SETTLED, 64)
      const isLost = image?.length === 64 && image.every((byte) => byte === 0)
      expect(isLost, `${this.#what}: record ${slot} is called lost`).toBe(false)
    }
    const told = now.filter((one) => one !== 'refused')
    expect(told.join(), `${this.#what}: in order`).toMatch(this.#order)
    now.forEach((one, i) => {
      if (one === 'refused') return
      const isBack = this.#was[i] === 'new' && one === 'old'
      expect(isBack, `${this.#what}: record ${i} was shown, and is taken back`).toBe(false)
      this.#was[i] = one
    })
    return now
  }
}

/** A batch in order of every record, cut before that command; null where it has ended. */
function cutBefore(command: number, { platform, dirty, strategy }: Story): Placed | null {
  const made = placed(DDIO_OFF, { copies: COPIES, slots: RECORDS.length })
  const { card, host, region, qp } = made
  for (const slot of RECORDS) card.serve(...persistFrames(qp, region, slot, OLD))
  card.idle()
  const records = RECORDS.map((slot) => ({ slot, data: NEW }))
  const frames = batchFrames(card.connect(), region, records, { condition: IN_ORDER })
  card.machine.armCut(command)
  card.serve(...frames)
  if (!card.machine.dead) return null
  cutPower(made, { random: new Random(SEED + command), strategy })
  host.platform = platform
  if (dirty) card.nvdimm.failSave()
  const next = restarted(made)
  return { ...made, card: next, host: next.host! }
}

/** Plays the story with a host that is silent so at a start, and so when it shows its memory. */
function play(command: number, story: Story, atStart: Silent, atPlace: Silent): string | null {
  const from = cutBefore(command, story)
  if (from === null) return null
  const name = `command ${command}, silent ${atStart} and ${atPlace}, ${JSON.stringify(story)}`
  const reader = new Reader(name, story)
  if (story.answered) reader.look(from.card)
  silence(from, atStart)
  const made = startedAgain(from)
  reader.look(made.card)
  if (story.answered) restartHost(made.card, { platform: DDIO_OFF })
  silence(made, atPlace)
  show(made.card)
  reader.look(made.card)
  made.card.nvdimm.failSave(false)
  // What follows may wait, and what it follows with it: a start in between finds all of them.
  const again = (command & 1) === 0 ? made : startedAgain(made)
  silence(again, NOBODY)
  show(again.card)
  const end = reader.look(again.card)
  expect(end, name).not.toContain('refused')
  RECORDS.forEach((slot, i) => {
    expect(shownCopies(again.card, again.card.open(), slot), `${name}: ${slot}`).toEqual([
      end[i],
      end[i],
    ])
  })
  const behind = cardAlone(again.card)
  expect(shown(behind), `${name}: the start behind`).toEqual(end)
  show(behind)
  const [qp, region] = [behind.connect(), behind.open()]
  const frames = RECORDS.flatMap((slot) => persistFrames(qp, region, slot, OLD))
  const answers = persistAcks(behind.serve(...frames)).map(({ status }) => status)
  expect(new Set(answers), name).toEqual(new Set([STATUS_DURABLE]))
  return end.join()
}

const STORIES: Readonly<Record<string, Partial<Story>>> = {
  'a start that asks first': {},
  'behind a save that failed': { dirty: true },
  'behind a start that stored into caches, which are lost': { answered: true, platform: DDIO_ON },
  'and behind a save that failed': {
    answered: true,
    platform: DDIO_ON,
    dirty: true,
    unordered: true,
  },
}

const USUAL = { platform: DDIO_OFF, dirty: false, answered: false, unordered: false }
const STRATEGIES: readonly CutStrategy[] = ['none', 'all', 'most']

test('X-5, D-14: behind one that is not told of, none is shown, nor touched by a scan', () => {
  const story = { ...USUAL, strategy: 'all', dirty: true, platform: DDIO_ON } as const
  // Every first copy is new and durable; what a start made of the others was lost in caches.
  const from = cutBefore(14, story)!
  restartHost(from.card, { platform: DDIO_OFF })
  const { durable } = from.host.part
  const before = durable.slice()
  silence(from, 1)
  const { card } = startedAgain(from)
  expect(shown(card)).toEqual(['refused', 'refused', 'refused'])
  expect(Buffer.compare(durable, before)).toBe(0)
  silence(from, NOBODY)
  show(card)
  expect(shown(card)).toEqual(['new', 'new', 'new'])
})

describe('X-5, B3: the host answers for some records of a batch in order', () => {
  for (const [name, part] of Object.entries(STORIES)) {
    for (const strategy of STRATEGIES) {
      test(
        `${name}; of what was not durable: ${strategy}`,
        thoroughIf(strategy !== STRATEGIES[0]),
        () => {
          const story = { ...USUAL, strategy, ...part }
          const met = new Set<string>()
          for (let command = 0, ended = false; !ended; command++) {
            for (const atStart of SILENCES) {
              const atPlace = (atStart * 3 + command) % SILENCES.length
              const end = withPassingCards(() => play(command, story, atStart, atPlace))
              if (end === null) ended = true
              else met.add(end)
            }
          }
          expect(met).toContain('old,old,old')
          expect(met).toContain('new,new,new')
        },
      )
    }
  }
})
