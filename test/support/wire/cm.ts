/**
 * Messages of RDMA-CM as a client of a card writes them, and the card's answers as records.
 */

import { putU16, putU32 } from '../../../firmware/wire/bytes.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import type { Sent, TestCard } from '../cards/test-card.ts'
import { frameOf, hex } from './frames.ts'

/** Writes what an MRA says at `at`: which message it answers, and the code of a time. */
export function putMra(bytes: Uint8Array, at: number, message: number, timeout: number): void {
  bytes[at + 8] = message << 6
  bytes[at + 9] = timeout << 3
}

/** A client's side of one connection. */
export interface Client {
  readonly ipVersion: 4 | 6
  readonly localId: number
  readonly qpn: number
  readonly psn: number
  readonly transaction: number
}

export const CLIENT: Client = {
  ipVersion: 4,
  localId: 0x0a0b0c0d,
  qpn: 0x321,
  psn: 0x777,
  transaction: 0x1111,
}

/** The port that `publish` offers unless told otherwise. */
export const PORT = 7471

/** Publishes the region of that name. */
export function publish(
  card: Pick<TestCard, 'manage'>,
  options: { name?: string; port?: number; form?: number; rights?: number } = {},
): { fault: string; body: Uint8Array } {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, (body) => {
    body.set(new TextEncoder().encode(options.name ?? 'bytes'), mad.REGION_NAME)
    putU16(body, mad.PUBLISH_PORT, options.port ?? PORT)
    body[mad.PUBLISH_FORM] = options.form ?? mad.FORM_LIBRPMA
    putU32(body, mad.PUBLISH_RIGHTS, options.rights ?? 0)
  })
}

/** A frame with that MAD. */
export function madFrame(payload: Uint8Array, ipVersion: 4 | 6 = 4): Uint8Array {
  return frameOf({
    ipVersion,
    bth: { opcode: UD_SEND_ONLY, destQp: 1, ackRequest: true },
    deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
    payload,
  })
}

/** The MAD of one message; `write` fills its body. */
export function message(
  attribute: number,
  transaction: number,
  write: (bytes: Uint8Array, at: number) => void,
): Uint8Array {
  const bytes = new Uint8Array(cm.CM_BYTES)
  cm.writeCmHeader(bytes, 0, {
    ...cm.blankCmHeader(),
    attribute,
    transactionHigh: 0x01020304,
    transactionLow: transaction,
  })
  write(bytes, cm.CM_BODY)
  return bytes
}

const HOST4 = hex('0000 0000 0000 0000 0000 ffff 0a00 0001')
const CARD4 = hex('0000 0000 0000 0000 0000 ffff 0a00 0002')
const HOST6 = hex('fd00 0000 0000 0000 0000 0000 0000 0001')
const CARD6 = hex('fd00 0000 0000 0000 0000 0000 0000 0002')

/** What a REQ says that Linux would send to `PORT`; `fields` says otherwise. */
export function reqOf(client: Client, fields: Partial<cm.CmReq> = {}): cm.CmReq {
  const v6 = client.ipVersion === 6
  const req = {
    ...cm.blankReq(),
    localId: client.localId,
    serviceLow: cm.SERVICE_TCP | PORT,
    guidHigh: 0x020000ff,
    guidLow: 0xfe000001,
    qpn: client.qpn,
    responderResources: 4,
    initiatorDepth: 4,
    startingPsn: client.psn,
    pathMtu: 3,
    localGid: v6 ? HOST6 : HOST4,
    remoteGid: v6 ? CARD6 : CARD4,
    ...fields,
  }
  req.privateData[cm.IP_CM_IP_VERSION] = client.ipVersion << 4
  return req
}

export function reqFrame(client: Client, fields: Partial<cm.CmReq> = {}): Uint8Array {
  const req = reqOf(client, fields)
  const mad = message(cm.CM_REQ, client.transaction, (bytes, at) => cm.writeReq(bytes, at, req))
  return madFrame(mad, client.ipVersion)
}

/** A message that is no more than the ids: RTU, DREP, and DREQ with its queue pair. */
export function idsFrame(
  client: Client,
  attribute: number,
  remoteId: number,
  more: (bytes: Uint8Array, at: number) => void = () => {},
): Uint8Array {
  const { localId, transaction } = client
  const bytes = message(attribute, transaction, (body, at) => {
    cm.writeIds(body, at, { localId, remoteId })
    more(body, at)
  })
  return madFrame(bytes, client.ipVersion)
}

/** A message that a card sent. */
export interface CmMessage {
  readonly attribute: number
  readonly header: cm.CmHeader
  readonly bytes: Uint8Array
  readonly sent: Sent
}

/** The messages of RDMA-CM among what a card sent. */
export function messagesOf(sent: readonly Sent[]): CmMessage[] {
  return sent.flatMap((frame) => {
    if (frame.opcode !== UD_SEND_ONLY) return []
    if (!cm.isCm(frame.payload, 0, frame.payload.length)) return []
    const header = cm.blankCmHeader()
    cm.readCmHeader(header, frame.payload, 0)
    return [{ attribute: header.attribute, header, bytes: frame.payload, sent: frame }]
  })
}

/** The one REP among what was sent. */
export function repOf(sent: readonly Sent[]): cm.CmRep {
  const found = messagesOf(sent).filter(({ attribute }) => attribute === cm.CM_REP)
  if (found.length !== 1) throw new Error(`${found.length} REPs`)
  const rep = cm.blankRep()
  cm.readRep(rep, found[0]!.bytes, cm.CM_BODY)
  return rep
}

/** The one REJ among what was sent. */
export function rejOf(sent: readonly Sent[]): cm.CmRej {
  const found = messagesOf(sent).filter(({ attribute }) => attribute === cm.CM_REJ)
  if (found.length !== 1) throw new Error(`${found.length} REJs`)
  const rej = cm.blankRej()
  cm.readRej(rej, found[0]!.bytes, cm.CM_BODY)
  return rej
}

/** Messages of RDMA-CM by their attributes. */
export const CM_NAMES: Readonly<Record<number, string>> = {
  [cm.CM_REQ]: 'REQ',
  [cm.CM_REP]: 'REP',
  [cm.CM_RTU]: 'RTU',
  [cm.CM_REJ]: 'REJ',
  [cm.CM_MRA]: 'MRA',
  [cm.CM_DREQ]: 'DREQ',
  [cm.CM_DREP]: 'DREP',
}
