/**
 * A whole recorded session, from REQ to DREP, held with a card in the server's place: what the card
 * said beside what the Linux server had said.
 */

import { CM_REP, CM_REQ, type CmRep } from '../../../firmware/wire/cm.ts'
import { has, RESPONSE } from '../../../firmware/wire/opcode.ts'
import {
  descriptorIn,
  forCard,
  framesOf,
  isFromClient,
  messageIn,
  portOf,
  repIn,
  threadOf,
} from './captured-cm.ts'
import { conversationOf } from './captures.ts'
import { messagesOf } from './cm.ts'
import { fieldsOf } from './dialogue.ts'
import { type Ask, Replay } from './replay.ts'
import { CAPTURES } from './vectors.ts'

/** The captures in which the connection was made by RDMA-CM, not by the programs themselves. */
export const CONNECTED: readonly string[] = CAPTURES.map(({ name }) => name).filter((name) =>
  framesOf(name).some((frame) => messageIn(frame)?.attribute === CM_REQ),
)

/** The port of the service that a capture asks for, and whether anybody offered it. */
export function serviceIn(name: string): { readonly port: number; readonly isServed: boolean } {
  const messages = framesOf(name).flatMap((frame) => messageIn(frame) ?? [])
  const first = messages.find(({ fromClient }) => !fromClient)!
  return { port: portOf(messages[0]!), isServed: first.attribute === CM_REP }
}

/** What was said in a session, by the card and by the server that was recorded. */
interface Session {
  readonly messages: string[]
  readonly answers: Record<string, unknown>[]
}

/** Holds it. `rkey` is the key of the region that the card offers at the port of the capture. */
export function heldSession(
  ask: Ask,
  name: string,
  rkey: number,
): { readonly card: Session; readonly server: Session } {
  const frames = framesOf(name)
  const recorded = frames.flatMap((frame) => messageIn(frame) ?? [])
  const answered = conversationOf(name)?.frames.filter((one) => !one.fromClient && one.isAnswer)
  const card: Session = { messages: [], answers: [] }
  let rep: CmRep | null = null
  let replay: Replay | null = null
  for (const frame of frames.filter(isFromClient)) {
    const message = messageIn(frame)
    if (message !== null) {
      for (const answer of messagesOf(ask(forCard(message, rep)))) {
        card.messages.push(threadOf(answer))
        if (answer.attribute !== CM_REP) continue
        rep = repIn(answer)
        replay = replayOf(ask, name, rep, rkey)
      }
    } else if (!has(frame.packet.row!.properties, RESPONSE)) {
      card.answers.push(...replay!.serve(frame.bytes))
    }
  }
  return {
    card,
    server: {
      messages: recorded.filter(({ fromClient }) => !fromClient).map(threadOf),
      answers: (answered ?? []).map(fieldsOf),
    },
  }
}

/** The connection that the card granted, for the requests that were recorded on another. */
function replayOf(ask: Ask, name: string, rep: CmRep, rkey: number): Replay {
  const { beginning } = conversationOf(name)!
  const { addressHigh: baseHigh, addressLow: baseLow } = descriptorIn(rep)
  const qp = {
    number: rep.qpn,
    peer: beginning.remoteQp,
    mtu: beginning.pathMtu,
    psn: rep.startingPsn,
    operation: 0,
  }
  return new Replay(ask, beginning, { qp, rkey, baseHigh, baseLow, messages: 0 })
}
