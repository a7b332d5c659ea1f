/** Stations that speak RDMA-CM: clients of a published port, and who claims to be one. */

import * as wire from '../../../firmware/wire/cm.ts'
import { type Client, idsFrame, messagesOf, repOf, reqFrame } from '../wire/cm.ts'
import type { Sent, TestPeer } from '../wire/conversation.ts'
import type { Address } from './address.ts'
import type { Station } from './station.ts'

/** What an established connection knows. */
export interface CmConnection {
  readonly client: Client
  readonly rep: wire.CmRep
  readonly qp: TestPeer
}

const MTU_CODE_1024 = 3

/** A client of RDMA-CM whose numbers nobody else has. */
export function cmClient(station: Station, fields: Partial<Client> = {}): Client {
  const fresh = station.fresh()
  return {
    ...{ ipVersion: 4, localId: 0x5100_0000 + fresh, qpn: fresh, psn: fresh, transaction: fresh },
    ...fields,
  }
}

/** The REQ of that client at `source`, for that port. */
export function cmRequest(
  client: Client,
  port: number,
  source: Address,
  fields: Partial<wire.CmReq> = {},
): Uint8Array {
  return reqFrame(client, {
    serviceLow: wire.SERVICE_TCP | port,
    guidHigh: wire.guidHigh(source.mac),
    guidLow: wire.guidLow(source.mac),
    pathMtu: MTU_CODE_1024,
    localGid: Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ...source.ip]),
    ...fields,
  })
}

/** Connects to that port as the station's own machine; throws where it is refused. */
export async function cmConnect(
  station: Station,
  port: number,
  fields: Partial<wire.CmReq> = {},
): Promise<CmConnection> {
  const client = cmClient(station)
  const frame = cmRequest(client, port, station.address, fields)
  const rep = repOf(await station.ask([frame]))
  await station.ask([idsFrame(client, wire.CM_RTU, rep.localId)])
  const qp = {
    ...{ number: rep.qpn, peer: client.qpn, mtu: 1024, psn: rep.startingPsn },
    operation: 0,
  }
  return { client, rep, qp }
}

/** The DREQ of a connection, whoever sends it. */
export function goodbye({ client, rep }: CmConnection): Uint8Array {
  return idsFrame(client, wire.CM_DREQ, rep.localId, (bytes, at) =>
    wire.putDreqQpn(bytes, at, rep.qpn),
  )
}

/** Which messages of RDMA-CM came. */
export function attributesOf(sent: readonly Sent[]): number[] {
  return messagesOf(sent).map(({ attribute }) => attribute)
}
