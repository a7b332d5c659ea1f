/**
 * The frames of a trace as requests: when each was whole at the card, when it was acknowledged as
 * received, and as durable.
 *
 * Invariant: an acknowledgement is paired with requests by queue pair and PSN, as the client does
 * it. Which queue pair of the card answers which of the client is learned from the first
 * acknowledgement that names a PSN of one of them.
 */

import type { FrameEvent, PersistFields } from '../../../boards/emulator/index.ts'
import type { MarkKind } from './data.ts'

/** A WRITE_PERSIST, which may be of several packets. */
export interface Request {
  readonly pair: number
  readonly fields: PersistFields
  /** Steps at which it was whole, the first time and again. */
  readonly arrived: number[]
  readonly marks: (readonly [step: number, kind: MarkKind])[]
  psn: number
  whole: boolean
  received: boolean
  answered: boolean
}

const PSNS = 2 ** 24

/** Does `a` come at `b`, or before it, in the circle of PSNs? */
function isUpTo(a: number, b: number): boolean {
  return (b - a + PSNS) % PSNS < PSNS / 2
}

/** AETH syndromes below this one acknowledge. */
const ACKNOWLEDGES = 32

export class Requests {
  readonly list: Request[] = []
  /** Marks of the queue pairs of the card, by their number. */
  readonly pairs: Map<number, (readonly [step: number, kind: MarkKind])[]> = new Map()
  private readonly answers: Map<number, number> = new Map()

  /** A frame that reaches the card: what it is to the timeline. */
  arrives(frame: FrameEvent, step: number): 'arrived' | 'frame' {
    const { qp, psn, persist, begins, ends } = frame
    if (qp === undefined || psn === undefined || begins === undefined) return 'frame'
    if (frame.dropped === true || !frame.name.includes('WRITE_PERSIST')) return 'frame'
    const request = persist === undefined ? this.openOf(qp) : this.begin(qp, psn, persist)
    if (request === null) return 'frame'
    request.psn = psn
    if (ends !== true) return 'frame'
    request.whole = true
    request.arrived.push(step)
    request.marks.push([step, 'arrived'])
    this.markPair(qp, step, 'arrived')
    return 'arrived'
  }

  private begin(pair: number, psn: number, fields: PersistFields): Request {
    const again = this.list.find((one) => {
      const { operation, key } = one.fields
      return one.pair === pair && operation === fields.operation && key === fields.key
    })
    if (again !== undefined) return again
    const fresh: Request = {
      ...{ pair, fields, psn, arrived: [], marks: [] },
      ...{ whole: false, received: false, answered: false },
    }
    this.list.push(fresh)
    return fresh
  }

  private openOf(pair: number): Request | null {
    return this.list.findLast((one) => one.pair === pair && !one.whole) ?? null
  }

  /** A frame that leaves the card. */
  leaves(frame: FrameEvent, step: number): 'received' | 'durable' | 'refused' | 'frame' {
    const { qp, psn, syndrome, durable } = frame
    if (qp === undefined || psn === undefined || syndrome === undefined) return 'frame'
    const pair = this.pairOf(qp, psn)
    if (pair === null) return this.answersQuery(frame, step)
    const refuses = syndrome >= ACKNOWLEDGES || (durable !== undefined && durable.status !== 0)
    const kind = refuses ? 'refused' : durable === undefined ? 'received' : 'durable'
    this.markPair(pair, step, kind)
    const open = this.list.filter((one) => one.pair === pair && one.whole && !one.answered)
    // A PERSIST_ACK is the transport's acknowledgement as well.
    for (const one of open) if (syndrome < ACKNOWLEDGES && isUpTo(one.psn, psn)) receive(one, step)
    if (durable === undefined) {
      const refused = refuses ? open.find((one) => one.psn === psn) : undefined
      if (refused !== undefined) answer(refused, step, 'refused')
      return kind
    }
    const { firstPsn, lastPsn, batch, status } = durable
    for (const one of open) {
      const inRange = isUpTo(firstPsn, one.psn) && isUpTo(one.psn, lastPsn)
      const member = batch !== undefined && one.fields.batch?.id === batch.id
      if (!(batch === undefined ? inRange : member)) continue
      const digit = batch?.durable[one.fields.batch?.index ?? 0]
      const isDurable = batch === undefined ? status === 0 : digit === '1'
      answer(one, step, isDurable ? 'durable' : 'refused')
    }
    return kind
  }

  /** A client that came again asks whether an operation is durable: the answer names it. */
  private answersQuery({ durable }: FrameEvent, step: number): 'durable' | 'frame' {
    if (durable === undefined || durable.status !== 0) return 'frame'
    const asked = this.list.findLast(({ answered, whole, fields }) => {
      return whole && !answered && fields.operation === durable.operation
    })
    if (asked === undefined) return 'frame'
    answer(asked, step, 'durable')
    return 'durable'
  }

  private pairOf(qp: number, psn: number): number | null {
    const known = this.answers.get(qp)
    if (known !== undefined) return known
    const named = this.list.find((one) => one.psn === psn && !one.answered)
    if (named === undefined) return null
    this.answers.set(qp, named.pair)
    return named.pair
  }

  private markPair(pair: number, step: number, kind: MarkKind): void {
    const marks = this.pairs.get(pair)
    if (marks === undefined) this.pairs.set(pair, [[step, kind]])
    else marks.push([step, kind])
  }
}

function receive(request: Request, step: number): void {
  if (request.received) return
  request.received = true
  request.marks.push([step, 'received'])
}

function answer(request: Request, step: number, kind: 'durable' | 'refused'): void {
  request.answered = true
  request.marks.push([step, kind])
}
