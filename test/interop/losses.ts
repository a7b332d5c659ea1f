/**
 * What Linux repeats: frames are lost, of requests, of answers, of both, and all ends right.
 *
 * Invariant: in each run frames of the directions that it is about are lost, and of no
 * other; each run has pages of the region of its own.
 */

import { piecesOf } from './expectations.ts'
import type { Direction, Relay } from './relay.ts'
import { type Found, type Session, stepsOf } from './session.ts'

export const LOSSES = { port: 7226, bytes: '1M' } as const

/** One in so many frames is lost, in so many rounds of seven requests. */
const RATES = [
  { oneIn: 100, rounds: 24 },
  { oneIn: 10, rounds: 10 },
] as const

const KINDS: readonly (readonly Direction[])[] = [
  ['requests'],
  ['answers'],
  ['requests', 'answers'],
]

/** Pages of a region that one run has (guest/losses.c). */
const PAGE_BYTES = 4096
const RUN_PAGES = 32

/** Linux repeats after two seconds, and a round of which everything is lost takes several. */
const RUN_SECONDS = 120

async function run(
  { session, relay, address }: Lossy,
  directions: readonly Direction[],
  { oneIn, rounds }: (typeof RATES)[number],
  place: number,
): Promise<Found> {
  const from = place * RUN_PAGES * PAGE_BYTES
  const kind = directions.length === 2 ? 'both' : directions[0]
  relay.lose(directions, oneIn)
  const command = `verbs-client losses ${address} ${LOSSES.port} ${from} ${rounds} ${kind}`
  const result = await session.client(command, RUN_SECONDS)
  const lost = directions.map((direction) => `${relay.lost(direction)} of ${direction}`)
  const untouched = directions.filter((direction) => relay.lost(direction) === 0)
  const [refused = -1, silenced = -1] = endsOf(result.lines)
  const failures = [
    ...untouched.map((direction) => `none of the ${direction} was lost`),
    ...(silenced > 0 && silenced + refused !== relay.refusals
      ? [`${silenced} connections fell silent, and ${relay.refusals - refused} were refused`]
      : []),
  ]
  relay.lose([], 0)
  session.durable.push(...piecesOf('durable', LOSSES.port, result.lines))
  const found = stepsOf(result)
  return {
    steps: found.steps + rounds,
    failures: [...found.failures, ...failures],
    note: `lost: ${lost.join(', ')}; ATOMIC WRITE refused ${refused}, unheard ${silenced}`,
  }
}

/** How often an ATOMIC WRITE was refused, and how often a connection fell silent. */
function endsOf(lines: readonly string[]): number[] {
  const found = /^refused (\d+) silenced (\d+)/m.exec(lines.join('\n'))
  return (found ?? []).slice(1).map(Number)
}

interface Lossy {
  readonly session: Session
  readonly relay: Relay
  /** Of the card, as the guest knows it. */
  readonly address: string
}

/** A case for each rate and each kind of loss. `module` is of soft-RoCE, for people. */
export async function tryLosses(lossy: Lossy, module: string): Promise<void> {
  let place = 0
  for (const rate of RATES) {
    for (const directions of KINDS) {
      const name = `${module}: ${100 / rate.oneIn} % of ${directions.join(' and ')} lost`
      const own = place++
      await lossy.session.one(name, () => run(lossy, directions, rate, own))
    }
  }
}
