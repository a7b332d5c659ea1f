/**
 * Room for new connections when every place is connected.
 *
 * What always holds: only who was silent for a minute loses a place, only when there is no other,
 * and is told so by DREQ; the number rests like any other.
 */

import { QUEUE_PAIRS } from '../limits.ts'
import { failQueuePair } from '../serve/staging.ts'
import { random32, type State } from '../state.ts'
import { HOLD_RESTING, type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import * as cm from '../wire/cm.ts'
import { sendTo } from './send.ts'
import { type Connection, isLive, PHASE_CONNECTED, putToRest } from './table.ts'

/** How long a peer must have been silent to be taken for dead, µs. */
const SILENCE_US = 60_000_000

/**
 * Makes room where every place is connected: the peer that was silent for longest, and for a while,
 * is told that its connection is over. Who died without a word does not keep others out for ever.
 */
export function dismissSilent(state: State): void {
  const { queuePairs, connections } = state
  let silent: QueuePair | null = null
  let heardUs = connections.nowUs - SILENCE_US
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = queuePairs.places[i]!
    if (qp === null || qp.state !== STATE_OPEN || qp.hold === HOLD_RESTING) continue
    const connection = connections.places[i]!
    const live = isLive(state, connection)
    if (live && (connection.phase !== PHASE_CONNECTED || connection.link !== null)) continue
    const sinceUs = live ? Math.max(connection.connectedUs, qp.heardUs) : qp.heardUs
    if (sinceUs > heardUs) continue
    silent = qp
    heardUs = sinceUs
  }
  if (silent === null) return
  const connection = connections.places[silent.index]!
  // One that a control call has opened is not told: its client asks again.
  if (isLive(state, connection)) dismiss(state, connection)
  else failQueuePair(state, silent)
}

/** Says goodbye once; the answer, if there is one, finds a connection that rests. */
function dismiss(state: State, connection: Connection): void {
  const { message } = state.connections
  const header = cm.blankCmHeader()
  header.attribute = cm.CM_DREQ
  header.transactionHigh = random32(state)
  header.transactionLow = random32(state)
  cm.writeCmHeader(message, 0, header)
  cm.writeIds(message, cm.CM_BODY, connection)
  cm.putDreqQpn(message, cm.CM_BODY, connection.qp!.peerNumber)
  sendTo(state, connection.qp!, message)
  putToRest(state, connection)
}
