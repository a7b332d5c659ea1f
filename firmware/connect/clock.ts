/**
 * What time brings to connections: REP again, the end of a rest, the next step of a link.
 *
 * Invariant: a REP is repeated as often as its REQ says and not once more; a first request
 * is as good as RTU; a peer that never comes is told so, for the case that it still waits.
 */

import { QUEUE_PAIRS } from '../board/limits.ts'
import * as cm from '../wire/cm.ts'
import type { ConnectContext, Connection } from './context.ts'
import { tickLink } from './initiate.ts'
import { sendTo } from './send.ts'
import {
  arm,
  confirmConnection,
  endRest,
  isLive,
  PHASE_LINKING,
  PHASE_RESTING,
  putToRest,
} from './table.ts'

/** Does what is due. */
export function tickConnections(state: ConnectContext, nowUs: number): void {
  const table = state.connections
  table.nowUs = nowUs
  if (nowUs < table.timerUs) return
  table.timerUs = Infinity
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const connection = table.places[i]!
    if (connection.timerUs === Infinity) continue
    if (isLive(state, connection)) tickConnection(state, connection)
    if (connection.timerUs < table.timerUs) table.timerUs = connection.timerUs
  }
}

function tickConnection(state: ConnectContext, connection: Connection): void {
  const { link, phase, timerUs } = connection
  const due = timerUs <= state.connections.nowUs
  // An Ethernet address may have been learnt before its time was up.
  if (phase === PHASE_LINKING || (due && link !== null && !link.ended)) tickLink(state, link!)
  else if (due && phase === PHASE_RESTING) endRest(state, connection)
  else if (due) replyAgain(state, connection)
}

/** No RTU came. A first request is as good; else the REP may have been lost. */
function replyAgain(state: ConnectContext, connection: Connection): void {
  const qp = connection.qp!
  if (qp.used) {
    confirmConnection(state, connection)
  } else if (connection.triesLeft > 0) {
    connection.triesLeft -= 1
    arm(state, connection, connection.periodUs)
    sendTo(state, qp, connection.reply)
  } else {
    giveUpConnection(state, connection)
  }
}

/** The peer never came: it is told so, for the case that it still waits. */
function giveUpConnection(state: ConnectContext, connection: Connection): void {
  const { message } = state.connections
  const header = cm.blankCmHeader()
  cm.readCmHeader(header, connection.reply, 0)
  cm.writeCmHeader(message, 0, { ...header, attribute: cm.CM_REJ })
  cm.writeRej(message, cm.CM_BODY, {
    ...cm.blankRej(),
    localId: connection.localId,
    remoteId: connection.remoteId,
    message: cm.MESSAGE_REP,
    reason: cm.REJECT_TIMEOUT,
  })
  sendTo(state, connection.qp!, message)
  putToRest(state, connection)
}
