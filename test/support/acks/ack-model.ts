/**
 * A model of two parties and a hostile network between them, walked completely.
 *
 * A client has two operations in flight at a responder. Each side is a finite automaton; between
 * them the network may lose a message, double it, let it be overtaken, and be so slow that a timer
 * of the client runs out although the answer is on its way.
 *
 * Invariants:
 * - `walk` visits every state that at most `depth` faults lead to. A fault is a message lost, a
 *   message doubled, a message that overtakes those sent before it, or a timer that runs out while
 *   something is still to happen. Commits, and one power cut at any moment, cost nothing. Each
 *   state is expanded once, with the fewest faults that lead to it, and so for every larger number.
 * - `walkUnbounded` has no such number: a message that was sent once may arrive at any time, any
 *   number of times, or never. Whatever `walk` can reach at any depth is reached here.
 * - A fault-free continuation delivers everything in its order, commits what was received, and lets
 *   a timer run out only when nothing else is left to happen. A state is stuck if none of these
 *   continuations resolves both operations; it is unsure if not all of them do.
 * - The first violation that is found has the fewest faults, and the shortest story of those.
 */

import { type Event, type Findings, type Model, POSTED } from './ack-model-sides.ts'
import { Historian } from './ack-model-unbounded.ts'
import { findingsOf, Inert, Walker } from './ack-model-walk.ts'

export type { Findings, Model } from './ack-model-sides.ts'

/** Every schedule of at most `depth` faults. */
export function walk(model: Model, depth: number): Findings {
  const { start } = model.client
  const names = new Historian(model).run().answers()
  const walker = new Walker(model, depth, new Inert(model.client, names))
  const event: Event = { about: POSTED, what: '', side: 'client', step: start }
  walker.add(start.to, model.responder.start, start.sends, model.stale ?? [], event)
  return findingsOf(walker.run())
}

/**
 * Every schedule of any number of drops, duplicates, delays and early timeouts. `stuck` and
 * `unsure` count states of the fault-free continuations, from every state of this walk, after
 * everything that was under way has been lost.
 */
export function walkUnbounded(model: Model): Findings {
  const walk = new Historian(model).run()
  const { states, transitions, falseDurability, falseStory, disorder, beliefs, pairs } = walk
  return {
    ...findingsOf(walk.after),
    ...{ states, transitions, falseDurability, falseStory, disorder, beliefs, pairs },
    radius: walk.radius,
  }
}
