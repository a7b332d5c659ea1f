/**
 * Room for new connections when every place is connected.
 *
 * What always holds: only who was silent for a minute loses a place, only when there is no other,
 * and is told so by DREQ; the number rests like any other.
 */

import { QUEUE_PAIRS } from '../limits.ts'
import { random32, type State } from '../state.ts'
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
  const { places, nowUs } = state.connections
  let silent: Connection | null = null
  let heardUs = nowUs - SILENCE_US
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const connection = places[i]!
    if (connection.phase !== PHASE_CONNECTED || connection.link !== null) continue
    if (!isLive(state, connection) || heardOf(connection) > heardUs) continue
    silent = connection
    heardUs = heardOf(connection)
  }
  if (silent !== null) dismiss(state, silent)
}

function heardOf(connection: Connection): number {
  return Math.max(connection.connectedUs, connection.qp!.heardUs)
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
