/**
 * `FAULTS`: every schedule of a network with so many faults between the shipped requester and a
 * responder that receives first and commits later; answers of another time are on their way, too.
 * `decisions LEVEL`: what a restart makes of every combination of copies and lane.
 *
 * Invariant: the models are test/support/acks/ack-model.ts, which knows what is durable by
 * itself, and ../../model/protocol.ts, which knows which copy is to be kept.
 */

import { walk } from '../../../support/acks/ack-model.ts'
import {
  ackName,
  type Plan,
  persistAckName,
  ShippedClient,
} from '../../../support/acks/ack-model-client.ts'
import { LateResponder } from '../../../support/acks/ack-model-responder.ts'
import { conformDecisions, planOf } from '../../model/conformance.ts'
import type { Play } from '../killer.ts'

const PLAN: Plan = { firstPsn: 0x64, packets: [1, 1] }

/** Old acknowledgements; operations that were never asked for; a life before. */
const STALE: readonly string[] = [
  ackName(0x64),
  persistAckName(0x64, 0x65, 999),
  `${persistAckName(0x64, 0x65, 2)} incarnation 6`,
]

export const play: Play = (argument) => {
  const [kind, level] = argument.split(' ')
  if (kind === 'decisions') return conformDecisions(planOf(level!)).complaints[0] ?? null
  const client = new ShippedClient(PLAN)
  const responder = new LateResponder(PLAN, 'ours')
  const found = walk({ client, responder, stale: STALE }, Number(argument))
  const { falseDurability, stuck, unsure, disorder, falseStory, stuckStory } = found
  if (falseDurability > 0) return falseStory.replaceAll('\n', '; ')
  if (stuck > 0) return stuckStory.replaceAll('\n', '; ')
  return unsure + disorder > 0 ? `${unsure} beliefs are not sure, ${disorder} in disorder` : null
}
