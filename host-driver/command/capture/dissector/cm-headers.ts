/** What the dissector shows of RDMA-CM, and of our block in its private data. */

import {
  blankCapability,
  CAPABILITY_BYTES,
  readCapability,
  writeCapability,
} from '../../../../firmware/wire/capability.ts'
import * as cm from '../../../../firmware/wire/cm.ts'
import { CM_NAMES } from '../names.ts'
import { type Header, headerOf, shown, wide } from './header.ts'
import type { Reader } from './place.ts'

const BODY_BYTES = cm.CM_BYTES - cm.CM_BODY

/** The fields that the dissector goes by of a message whose other ones Wireshark shows itself. */
interface Ends {
  localId: number
  remoteId: number
  qpn: number
}

const blankEnds = (): Ends => ({ localId: 0, remoteId: 0, qpn: 0 })
const LOCAL_ID = shown('cm.local_id', 'Communication id', { hex: true })
const REMOTE_ID = shown('cm.remote_id', 'Communication id of the other', { hex: true })
const QPN = shown('cm.qpn', 'From queue pair', { hex: true })

function readEndsOfReq(into: Ends, bytes: Uint8Array, at: number): void {
  const req = cm.blankReq()
  cm.readReq(req, bytes, at)
  into.localId = req.localId
  into.qpn = req.qpn
}

function readEndsOfRep(into: Ends, bytes: Uint8Array, at: number): void {
  const rep = cm.blankRep()
  cm.readRep(rep, bytes, at)
  into.localId = rep.localId
  into.remoteId = rep.remoteId
  into.qpn = rep.qpn
}

export const CM_HEADERS: Readonly<Record<string, Header>> = {
  cm: headerOf('RDMA-CM', cm.blankCmHeader, cm.readCmHeader, cm.CM_BODY, {
    status: null,
    transactionHigh: null,
    transactionLow: null,
    attribute: shown('cm', 'Message', { names: CM_NAMES }),
    modifier: null,
  }),
  req: headerOf('REQ', blankEnds, readEndsOfReq, BODY_BYTES, {
    localId: LOCAL_ID,
    remoteId: null,
    qpn: QPN,
  }),
  rep: headerOf('REP', blankEnds, readEndsOfRep, BODY_BYTES, {
    localId: LOCAL_ID,
    remoteId: REMOTE_ID,
    qpn: QPN,
  }),
  capability: headerOf(
    'Capability block',
    blankCapability,
    (into, bytes, at) => {
      readCapability(into, bytes, at, BODY_BYTES)
    },
    CAPABILITY_BYTES,
    {
      features: shown('capability.features', 'Features', { hex: true }),
      rkey: shown('capability.rkey', 'R_Key', { hex: true }),
      baseHigh: wide('capability.base', 'Base address', 'baseLow', { hex: true }),
      baseLow: null,
      lengthHigh: wide('capability.length', 'Length, bytes', 'lengthLow'),
      lengthLow: null,
      slotLog2: shown('capability.slot_log2', 'Slot, log2'),
      blockLog2Min: shown('capability.block_least_log2', 'Least block, log2'),
      blockLog2Max: shown('capability.block_most_log2', 'Most block, log2'),
      batchMax: shown('capability.batch_max', 'Records of the largest batch, less one'),
      incarnation: shown('incarnation', 'Incarnation of the part'),
      durableHigh: wide('capability.durable', 'Durable up to operation', 'durableLow'),
      durableLow: null,
      sessionId: shown('capability.session', 'Session'),
      clientHigh: wide('client', 'Client id', 'clientLow', { hex: true }),
      clientLow: null,
    },
    (bytes) => writeCapability(bytes, 0, blankCapability()),
  ),
}

/** Where the private data of a message begin in its body. */
export const PRIVATE_AT = {
  req: privateAt(cm.blankReq, cm.readReq) as number,
  rep: privateAt(cm.blankRep, cm.readRep) as number,
}

function privateAt<Message extends { readonly privateData: Uint8Array }>(
  blank: () => Message,
  read: Reader<Message>,
): number {
  for (let at = 0; at < BODY_BYTES; at++) {
    const bytes = new Uint8Array(BODY_BYTES)
    bytes[at] = 1
    const message = blank()
    read(message, bytes, 0)
    if (message.privateData[0] === 1) return at
  }
  throw new Error('no byte of the message begins its private data')
}

/** Words of the shortest block that is one. */
export const BLOCK_WORDS_MIN: number = Array.from({ length: 256 }, (_, words) => words).findIndex(
  (words) => {
    const bytes = new Uint8Array(BODY_BYTES * 4)
    writeCapability(bytes, 0, blankCapability())
    bytes[5] = words
    return readCapability(blankCapability(), bytes, 0, bytes.length)
  },
)
