/**
 * A station on the network of a card: a socket of its own, control calls, requests. A client speaks
 * under its own address; an attacker says any address in front of any frame.
 *
 * It has no secret but what the card tells it, and uses no code of the driver.
 */

import { FAULTS } from '../../../firmware/board/fault.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_ACK, UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import type { Paeth } from '../../../firmware/wire/persist-ack.ts'
import { parseTarget } from '../../../host-driver/frames/udp.ts'
import { Carrier } from '../board/carrier.ts'
import {
  asksFor,
  callOf,
  type PersistOptions,
  persistFrames,
  type RegionShape,
  readFrame,
  regionOf,
  type Sent,
  sentOf,
  type TestPeer,
  type TestRegion,
} from '../wire/conversation.ts'
import { frameOf, isRoce } from '../wire/frames.ts'
import { type Address, sentAs } from './address.ts'

/** So many forged frames go out before the card is waited for: none is lost on the way. */
const FLIGHT = 64

/** Those frames as that machine's. */
export function* allAs(frames: Iterable<Uint8Array>, source: Address): Generator<Uint8Array> {
  for (const frame of frames) yield sentAs(frame, source)
}

type Fill = (body: Uint8Array) => void

export interface Answer {
  readonly fault: string
  readonly body: Uint8Array
}

interface ConnectFields {
  readonly qpn?: number
  readonly domain?: number
  readonly mtu?: number
  readonly clientHigh?: number
  readonly clientLow?: number
}

/** Under which Ethernet address a station asks whether all has come: no two the same. */
let askers = 0

/** Transactions and queue pairs of a new station begin here: no two stations have one alike. */
let given = 0x1000

export class Station {
  readonly address: Address
  private readonly carrier = new Carrier([2, 0x0b, 0, 0, ++askers >> 8, askers & 0xff])
  private numbers: number

  private constructor(address: Address) {
    this.address = address
    given += 0x1000
    this.numbers = given
  }

  /** A station there; it speaks as `address` unless a call says otherwise. */
  static async open(target: string, address: Address): Promise<Station> {
    const station = new Station(address)
    const { host, port } = parseTarget(target)
    await station.carrier.open(host, port)
    return station
  }

  close(): void {
    this.carrier.close()
  }

  /** Another number that no station has used. */
  fresh(): number {
    this.numbers += 1
    return this.numbers
  }

  /** Every frame that has come since it was asked last, neighbour answers among them. */
  taken(): Uint8Array[] {
    return this.carrier.got.splice(0)
  }

  /** Sends bytes as they are, and waits for nothing. */
  sendRaw(...frames: readonly Uint8Array[]): void {
    for (const frame of frames) this.carrier.send(frame)
  }

  /** Sends frames as `source`, and waits for nothing. */
  send(frames: readonly Uint8Array[], source: Address = this.address): void {
    for (const frame of frames) this.carrier.send(sentAs(frame, source))
  }

  /** Resolves when all that the card sent here has come. */
  async settle(): Promise<void> {
    await this.carrier.settle()
  }

  /** Sends bytes as they are, in flights, however many there are; resolves when all is served. */
  async flood(frames: Iterable<Uint8Array>): Promise<void> {
    let count = 0
    for (const frame of frames) {
      this.carrier.send(frame)
      count += 1
      if (count % FLIGHT === 0) await this.settle()
    }
    await this.settle()
  }

  /** Sends frames as `source`; every RoCEv2 frame that the card sent here by then. */
  async ask(frames: readonly Uint8Array[], source: Address = this.address): Promise<Sent[]> {
    this.taken()
    this.send(frames, source)
    await this.settle()
    return this.taken().filter(isRoce).map(sentOf)
  }

  /** A control call as `source`; null where no answer comes here. */
  async tryCall(
    method: number,
    attribute: number,
    fill: Fill = () => {},
    { modifier = 0, source = this.address }: { modifier?: number; source?: Address } = {},
  ): Promise<Answer | null> {
    const transaction = this.fresh()
    const frame = callFrame(callOf(transaction, method, attribute, fill, modifier))
    const sent = await this.ask([frame], source)
    const header = mad.blankMad()
    for (const { opcode, payload } of sent) {
      if (opcode !== UD_SEND_ONLY) continue
      mad.readMad(header, payload, 0)
      if (header.transactionLow !== transaction) continue
      return { fault: FAULTS[header.fault]!.name, body: payload.slice(mad.MAD_BODY) }
    }
    return null
  }

  /** The same; throws where no answer comes. */
  async call(
    method: number,
    attribute: number,
    fill: Fill = () => {},
    options: { modifier?: number; source?: Address } = {},
  ): Promise<Answer> {
    const answer = await this.tryCall(method, attribute, fill, options)
    if (answer === null) throw new Error(`control call 0x${attribute.toString(16)}: no answer`)
    return answer
  }

  /** The same; throws where it is refused. */
  async must(...call: Parameters<Station['call']>): Promise<Uint8Array> {
    const { fault, body } = await this.call(...call)
    if (fault !== 'PASS') throw new Error(`control call 0x${call[1].toString(16)}: ${fault}`)
    return body
  }

  /** OPEN of the region of that name. */
  async region(name: string, source: Address = this.address): Promise<TestRegion> {
    return regionOf(await this.must(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, named(name), { source }))
  }

  /** PROVISION, until the region is made or refused. */
  async provision(shape: RegionShape, source: Address = this.address): Promise<Answer> {
    const ask = (): Promise<Answer> =>
      this.call(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor(shape), { source })
    let answer = await ask()
    while (answer.fault === 'UNDER_WAY') answer = await ask()
    return answer
  }

  /** PUBLISH. */
  async publish(
    name: string,
    port: number,
    form: number = mad.FORM_LIBRPMA,
    source: Address = this.address,
  ): Promise<Answer> {
    const fill: Fill = (body) => {
      named(name)(body)
      putU16(body, mad.PUBLISH_PORT, port)
      body[mad.PUBLISH_FORM] = form
    }
    return await this.call(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, fill, { source })
  }

  /** CONNECT; the fault, or the queue pair. UNANSWERED where no answer comes here. */
  async tryConnect(
    fields: ConnectFields = {},
    source: Address = this.address,
  ): Promise<{ readonly fault: string; readonly qp: TestPeer }> {
    const { qpn = this.fresh(), domain = 0, mtu = 4096, clientHigh = 0x51 } = fields
    const { clientLow = this.fresh() } = fields
    const fill: Fill = (body) => {
      putU32(body, mad.CONNECT_CLIENT_QP, qpn)
      putU16(body, mad.CONNECT_PATH_MTU, mtu)
      putU16(body, mad.CONNECT_DOMAIN, domain)
      putU32(body, mad.CONNECT_CLIENT_ID_HIGH, clientHigh)
      putU32(body, mad.CONNECT_CLIENT_ID_LOW, clientLow)
    }
    const answer = await this.tryCall(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, fill, { source })
    const { fault, body } = answer ?? { fault: 'UNANSWERED', body: new Uint8Array(mad.MAD_BYTES) }
    const [number, psn] = [u32(body, mad.CONNECT_QP), u32(body, mad.CONNECT_FIRST_PSN)]
    return { fault, qp: { number, peer: qpn, mtu, psn, operation: this.fresh() << 8 } }
  }

  /** The same; throws where it is refused. */
  async connect(fields: ConnectFields = {}, source: Address = this.address): Promise<TestPeer> {
    const { fault, qp } = await this.tryConnect(fields, source)
    if (fault !== 'PASS') throw new Error(`CONNECT: ${fault}`)
    return qp
  }

  /** DISCONNECT of that queue pair. */
  async disconnect(qp: TestPeer, source: Address = this.address): Promise<Answer | null> {
    const fill: Fill = (body) => {
      putU32(body, mad.DISCONNECT_QP, qp.number)
      putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
    }
    return await this.tryCall(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, fill, { source })
  }

  /** What a READ brings; null where it brings nothing, or a NAK. */
  async read(
    qp: TestPeer,
    region: TestRegion,
    slot: number,
    length: number,
  ): Promise<Uint8Array | null> {
    const sent = await this.ask([readFrame(qp, region, slot, 0, length)])
    return contentOf(sent, qp)
  }

  /** A record; what the PERSIST_ACKs say. */
  async persist(
    qp: TestPeer,
    region: TestRegion,
    slot: number,
    data: Uint8Array,
    options: PersistOptions = {},
  ): Promise<Paeth[]> {
    const sent = await this.ask(persistFrames(qp, region, slot, data, options))
    return sent.filter(({ opcode }) => opcode === PERSIST_ACK).map(({ paeth }) => paeth!)
  }

  /** How often each fault was met, by its name. */
  async counters(): Promise<Map<string, number>> {
    const counts = new Map<string, number>()
    while (counts.size < FAULTS.length) {
      const options = { modifier: counts.size }
      const body = await this.must(mad.METHOD_GET, mad.ATTRIBUTE_COUNTERS, undefined, options)
      const here = u32(body, mad.COUNTERS_HERE)
      for (let i = 0; i < here; i++) {
        const at = mad.COUNTERS_FIRST + 8 * i
        counts.set(FAULTS[counts.size]!.name, u32(body, at) * 2 ** 32 + u32(body, at + 4))
      }
    }
    return counts
  }
}

/** What READ responses to that queue pair bring; null after a NAK, or where none has come. */
export function contentOf(sent: readonly Sent[], qp: TestPeer): Uint8Array | null {
  const own = sent.filter(({ packet }) => packet.destQp === qp.peer)
  if (own.some(({ syndrome }) => syndrome >= 0x20)) return null
  const parts = own.filter(({ opcode }) => opcode >= 0x0d && opcode <= 0x10)
  return parts.length === 0 ? null : Buffer.concat(parts.map(({ payload }) => payload))
}

/** Writes a name into the body of a call. */
export function named(name: string | Uint8Array): Fill {
  const bytes = typeof name === 'string' ? new TextEncoder().encode(name) : name
  return (body) => body.set(bytes, mad.REGION_NAME)
}

/** The frame of a control call, or of a message of RDMA-CM. */
export function callFrame(payload: Uint8Array): Uint8Array {
  return frameOf({
    bth: { opcode: UD_SEND_ONLY, destQp: 1 },
    deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
    payload,
  })
}
