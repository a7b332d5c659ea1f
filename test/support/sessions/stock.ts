/**
 * Clients of RDMA-CM at a card with peers: they have no sessions. And what an admin publishes for
 * them.
 */

import { putU16, putU32 } from '../../../firmware/wire/bytes.ts'
import {
  blankCapability,
  type Capability,
  readCapability,
  writeCapability,
} from '../../../firmware/wire/capability.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { Conversation, Sent, TestCard, TestPeer } from '../cards/test-card.ts'
import { sentBy } from '../peers/strangers.ts'
import {
  CLIENT,
  type Client,
  idsFrame,
  messagesOf,
  PORT,
  rejOf,
  repOf,
  reqFrame,
} from '../wire/cm.ts'

/** An address, as IPv6 has it, and how many bits of it count. */
export type Source = readonly [address: readonly number[], prefix: number]

/** That of the machine 10.0.0.last. */
export function ipv4(last: number): readonly number[] {
  return [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last]
}

interface Options {
  readonly port?: number
  readonly form?: number
  readonly rights?: number
  readonly flags?: number
  readonly connections?: number
  readonly sources?: readonly Source[]
}

/** Publishes the region for clients without sessions; returns the fault. */
export function publishStock(
  who: Pick<Conversation, 'manage'>,
  name: string,
  options: Options = {},
): string {
  const { port = PORT, form = mad.FORM_CAPABILITY, rights = 0, flags = 1 } = options
  const { connections = 0, sources = [] } = options
  const published = who.manage(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, (body) => {
    body.set(Buffer.from(name), mad.REGION_NAME)
    putU16(body, 32, port)
    body[34] = form
    body[35] = flags
    putU32(body, 36, rights)
    putU16(body, 40, connections)
    body[42] = sources.length
    for (const [i, [address, prefix]] of sources.slice(0, 4).entries()) {
      body.set([...address, prefix], 44 + 20 * i)
    }
  })
  return published.fault
}

/** A connection of a client without a session, or why it is none. */
interface StockClient {
  readonly qp: TestPeer
  /** What it was told of the region. */
  readonly told: Capability
  /** Reason of REJ, and the fault behind it; 0 if there was none. */
  readonly reason: number
  readonly fault: number
  /** Ends the connection. */
  leave(): void
  /** Serves frames as if it had sent them. */
  serve(...frames: Uint8Array[]): Sent[]
}

interface Who {
  /** Its capability block, if it has one. */
  readonly block?: Partial<Capability>
  /** Which of its connections. */
  readonly n?: number
  /** Its address is 10.0.0.last. */
  readonly last?: number
  /** Does it say that it is connected? */
  readonly confirms?: boolean
}

const NO_PAIR: TestPeer = { number: 0, peer: 0, mtu: 1024, psn: 0, operation: 0 }

/** Connects to the port. */
export function connectStock(card: Pick<TestCard, 'serve'>, who: Who = {}): StockClient {
  const { block, n = 1, last = 1, confirms = true } = who
  const client: Client = {
    ...CLIENT,
    localId: 0x5100 + (last << 8) + n,
    qpn: 0x700 + n,
    transaction: 0x3000 + (last << 8) + n,
  }
  const serve = (...frames: Uint8Array[]): Sent[] =>
    card.serve(...frames.map((frame) => sentBy(frame, last)))
  const privateData = new Uint8Array(cm.PRIVATE_BYTES_REQ)
  if (block !== undefined) {
    const own = { ...blankCapability(), features: 0x3f, ...block }
    writeCapability(privateData, cm.IP_CM_USER, own)
  }
  const fields = { privateData, guidLow: 0xfe000000 + last, localGid: Uint8Array.from(ipv4(last)) }
  const sent = serve(reqFrame(client, fields))
  const told = blankCapability()
  if (messagesOf(sent).some(({ attribute }) => attribute === cm.CM_REJ)) {
    const { reason, privateData: said } = rejOf(sent)
    return { qp: NO_PAIR, told, reason, fault: said[0]!, leave: () => {}, serve }
  }
  const rep = repOf(sent)
  readCapability(told, rep.privateData, 0, rep.privateData.length)
  if (confirms) serve(idsFrame(client, cm.CM_RTU, rep.localId))
  const leave = (): void => {
    const names = (bytes: Uint8Array, at: number): void => cm.putDreqQpn(bytes, at, rep.qpn)
    serve(idsFrame(client, cm.CM_DREQ, rep.localId, names))
  }
  const qp = { number: rep.qpn, peer: client.qpn, mtu: 1024, psn: rep.startingPsn, operation: 0 }
  return { qp, told, reason: 0, fault: 0, leave, serve }
}
