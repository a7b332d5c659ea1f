/**
 * The decision about an acknowledgement, total over its inputs: how a record comes (for the first
 * time, again, again as another, too early, from long ago, over another connection), what it asks
 * for, and how the part is. For each exactly one kind of answer; and who is told "durable" can rely
 * on it, by the medium.
 */

import { FLUSH_FAILED } from '../../../firmware/board/hal.ts'
import { PERSIST_ACK, RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import { dataOf, persistFrames, type Sent, TestCard } from '../../support/cards/test-card.ts'
import {
  copyAt,
  readSlot,
  readSuperblock,
  sameBytes,
  slotValid,
} from '../../support/judges/oracle.ts'
import type { Conformed } from './conformance.ts'

const ARRIVALS = {
  first: 'for the first time',
  again: 'again',
  other: 'again, as another operation',
  elsewhere: 'again, over another connection',
  early: 'before one that is missing',
  past: 'from long ago',
} as const

type Arrival = keyof typeof ARRIVALS
const ALL_ARRIVALS = Object.keys(ARRIVALS) as Arrival[]

const PARTS = ['serves', 'is closed', 'refuses the record'] as const
type Part = (typeof PARTS)[number]

/** What may be said of a record, and which of it may be said when. */
type Answer = 'durable' | 'refused' | 'received' | 'missing' | 'nothing'

const ALLOWED: Readonly<Record<Arrival, readonly Answer[]>> = {
  first: ['durable', 'refused'],
  again: ['durable', 'refused'],
  other: ['received', 'nothing'],
  elsewhere: ['durable', 'refused'],
  early: ['missing'],
  past: ['received', 'nothing'],
}

function answerOf(sent: readonly Sent[]): Answer[] {
  const answers = sent.flatMap((frame): Answer[] => {
    if (frame.opcode === PERSIST_ACK) return [frame.paeth!.status === 0 ? 'durable' : 'refused']
    if (frame.opcode !== RC_ACKNOWLEDGE) return []
    return [frame.syndrome === 0x60 ? 'missing' : 'received']
  })
  // That it was received is implied by what became of it.
  const spoken = answers.filter((one) => one !== 'received')
  if (spoken.length > 0) return [...new Set(spoken)]
  return answers.length > 0 ? ['received'] : ['nothing']
}

/** Whole copies of record 0 with that data, by the medium. */
function copiesOf(card: TestCard, data: Uint8Array): number {
  const { durable } = card.nvdimm
  const [layout] = readSuperblock(durable)!.regions
  return Array.from({ length: layout!.copies }, (_, c) => {
    const at = copyAt(layout!, c, 0)
    return durable.slice(at, at + layout!.stride)
  }).filter((copy) => slotValid(copy, layout!, 0) && sameBytes(readSlot(copy).data, data)).length
}

/** Plays one case; what is wrong with it. */
function play(arrival: Arrival, part: Part, wait: number, ackRequest: boolean): string[] {
  const card = new TestCard(1 << 17).format()
  const region = card.provision({ slots: 4, copies: 3 })
  const qp = card.connect()
  const before = qp.psn
  const data = dataOf(part === 'refuses the record' ? region.capacity + 8 : 48, 9)
  const name = { wait, ackRequest, psn: before, operation: 7 }
  const frame = persistFrames(qp, region, 0, data, name)
  if (part === 'is closed') {
    card.nvdimm.fencesToFail = 1
    card.serve(...persistFrames(card.connect(), region, 1, dataOf(8, 1)))
    if (card.nvdimm.fence() === FLUSH_FAILED) return ['the part was not closed']
  }
  const known = arrival === 'again' || arrival === 'other' || arrival === 'elsewhere'
  if (known) card.serve(...frame)
  const others = { ...name, operation: 8 }
  const elsewhere = card.connect()
  const played: Readonly<Record<Arrival, readonly Uint8Array[]>> = {
    first: frame,
    again: frame,
    other: persistFrames(qp, region, 0, dataOf(48, 10), others),
    elsewhere: persistFrames(elsewhere, region, 0, data, { ...name, psn: elsewhere.psn }),
    early: persistFrames(qp, region, 0, data, { ...name, psn: (before + 3) & 0xffffff }),
    past: persistFrames(qp, region, 0, data, { ...name, psn: (before - 9) & 0xffffff }),
  }
  const stored = copiesOf(card, data)
  const answers = answerOf(card.serve(...played[arrival]))
  const said: string[] = []
  if (answers.length !== 1) said.push(`${answers.join(' and ')} at once`)
  const [answer] = answers as [Answer]
  if (!ALLOWED[arrival].includes(answer)) said.push(`it is said to be ${answer}`)
  if (answer === 'durable' && copiesOf(card, data) < wait) said.push('it is not durable')
  if (part === 'serves' && ALLOWED[arrival].includes('durable') && answer !== 'durable') {
    said.push('what is durable is not said to be')
  }
  if (!ALLOWED[arrival].includes('durable') && copiesOf(card, data) !== stored) {
    said.push('something was stored')
  }
  return said
}

export function totalReceipts(): Conformed {
  const cells: Record<string, number> = {}
  const complaints: string[] = []
  let count = 0
  for (const arrival of ALL_ARRIVALS) {
    for (const part of PARTS) {
      for (const wait of [1, 2, 3]) {
        for (const ackRequest of [false, true]) {
          count += 1
          const name = `a record that comes ${ARRIVALS[arrival]}, part ${part}, wait ${wait}`
          cells[name] = 1
          for (const what of play(arrival, part, wait, ackRequest)) {
            complaints.push(`${name}, ${ackRequest ? '' : 'no '}ACK asked for: ${what}`)
          }
        }
      }
    }
  }
  return { count, cells, complaints }
}
