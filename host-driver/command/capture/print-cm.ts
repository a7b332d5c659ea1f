/**
 * What the line of a packet says about a message of RDMA-CM.
 */

import { PASS } from '../../../firmware/board/fault.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import { CM_NAMES } from './names.ts'

export function hex(v: number): string {
  return `0x${v.toString(16)}`
}

/** Adds what the payload of `length` bytes at `at` says; false if it is no such message. */
export function printCm(words: string[], bytes: Uint8Array, at: number, length: number): boolean {
  if (cm.cmFault(bytes, at, length) !== PASS) return false
  const header = cm.blankCmHeader()
  cm.readCmHeader(header, bytes, at)
  words.push('CM', CM_NAMES.get(header.attribute) ?? hex(header.attribute))
  const body = at + cm.CM_BODY
  if (header.attribute === cm.CM_REQ) {
    printReq(words, bytes, body)
    return true
  }
  const ids = { localId: 0, remoteId: 0 }
  cm.readIds(ids, bytes, body)
  words.push('id', hex(ids.localId), 'to', hex(ids.remoteId))
  if (header.attribute === cm.CM_REP) printRep(words, bytes, body)
  if (header.attribute === cm.CM_DREQ) words.push('qp', hex(cm.dreqQpn(bytes, body)))
  if (header.attribute === cm.CM_REJ) {
    const rej = cm.blankRej()
    cm.readRej(rej, bytes, body)
    words.push('reason', String(rej.reason))
  }
  return true
}

function printReq(words: string[], bytes: Uint8Array, at: number): void {
  const req = cm.blankReq()
  cm.readReq(req, bytes, at)
  const tcp = req.serviceHigh === cm.SERVICE_HIGH && (req.serviceLow & ~0xffff) === cm.SERVICE_TCP
  words.push('id', hex(req.localId))
  words.push(tcp ? `port ${req.serviceLow & 0xffff}` : `service ${hex(req.serviceLow)}`)
  words.push('from qp', hex(req.qpn), 'psn', String(req.startingPsn))
  words.push('mtu', String(cm.mtuOfCode(req.pathMtu)))
}

function printRep(words: string[], bytes: Uint8Array, at: number): void {
  const rep = cm.blankRep()
  cm.readRep(rep, bytes, at)
  words.push('from qp', hex(rep.qpn), 'psn', String(rep.startingPsn))
}
