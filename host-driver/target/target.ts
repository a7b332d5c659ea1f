/**
 * A RoCEv2 target behind a port of RDMA-CM: a region that a DPU publishes, or any peer that says
 * where its memory is as librpma's examples do.
 *
 *     await using target = await connectTarget(wire, { port: 7204 })
 *     await target.memory.write(0, bytes)
 *     await target.memory.flush(0, bytes.length)      // it is durable
 *
 * Invariant: one queue pair, which is not made again when it breaks: what was on its way
 * then ends with an error that says whether it may have had an effect. Closing says goodbye.
 */

import { blankLibrpma, readLibrpma } from '../../firmware/wire/librpma.ts'
import { cardAt, keptOptions, neighbour } from '../base/addresses.ts'
import { PerdureError } from '../base/errors.ts'
import { WAIT_KINDS, type WaitOptions, within } from '../base/give-up.ts'
import { BOOLEAN, check, checkFields, ENDPOINT, integer, type Kinds, wide } from '../base/kinds.ts'
import { joined } from '../base/wide.ts'
import { type Endpoint, WIRE, type Wire } from '../base/wire.ts'
import { RemoteMemory } from '../bytes/remote-memory.ts'
import { DriverPair, JOBS_DEPTH } from '../frames/driver-pair.ts'
import { Session } from '../frames/session.ts'
import { openTunnel, parseTarget } from '../frames/udp.ts'
import { QueuePairPort } from '../way/chain.ts'
import { Inbox } from '../way/inbox.ts'
import { CAPTURE, PATH_MTU, randomSource, SEED } from '../way/options.ts'
import type { PcapWriter } from '../way/pcap.ts'
import { connectPort, type PortConnection, type PortGranted } from './connect-cm.ts'

export interface TargetOptions extends WaitOptions {
  /** 1 to 65535. */
  readonly port: number
  /** Payload bytes of a packet; 1024 by default, which every link carries. */
  readonly pathMtu?: number
  /** The target is Linux's soft-RoCE: its FLUSH has an ICRC of its own (wire-format 2.5, 6.5). */
  readonly linuxPeer?: boolean
  /** Whether we show who we are; without it a DPU takes us for a plain client. */
  readonly capability?: boolean
  readonly clientId?: bigint
  /** Messages that the target may send before they are taken; 64 by default. */
  readonly receives?: number
  /** Local ACK timeout code t, 4.096 µs * 2^t; 14 (67 ms) by default. */
  readonly ackTimeoutCode?: number
  /** How often a message of connecting is sent again, 0 to 15; 15 by default. */
  readonly retries?: number
  readonly seed?: number
  readonly capture?: PcapWriter
  readonly peer?: Endpoint
  readonly own?: Endpoint
}

const TARGET_KINDS: Kinds<TargetOptions> = {
  ...{ port: integer(1, 65535), pathMtu: PATH_MTU, linuxPeer: BOOLEAN, capability: BOOLEAN },
  ...{ clientId: wide(0n), receives: integer(1, 4096), ackTimeoutCode: integer(0, 31) },
  ...{ retries: integer(0, 15), seed: SEED, capture: CAPTURE, peer: ENDPOINT, own: ENDPOINT },
  ...WAIT_KINDS,
}

const RECEIVES = 64
const MESSAGE_BYTES_MAX = 4096

/**
 * Connects to a port of a target: 'perdure://host[:port]', or a wire of your own. Rejects with
 * PERDURE_TARGET, PERDURE_ARGUMENT, PERDURE_UNREACHABLE, PERDURE_ABORTED, PERDURE_DEADLINE, or
 * PERDURE_REFUSED, whose `status` is then the reason of the REJ.
 */
export async function connectTarget(target: string | Wire, asked: TargetOptions): Promise<Target> {
  checkFields('options of connectTarget', asked, TARGET_KINDS, ['port'])
  const options = keptOptions(asked)
  if (typeof target !== 'string') {
    check('target', target, { ...WIRE, give: "a text 'perdure://host[:port]', or a Wire" })
  }
  const at = typeof target === 'string' ? parseTarget(target) : null
  if (at?.key !== undefined) {
    const instead = 'RDMA-CM makes no session: leave the key out'
    throw new PerdureError('PERDURE_TARGET', `'${target}': ${instead}`)
  }
  const wire = at === null ? (target as Wire) : await openTunnel(at)
  const random = randomSource(options.seed)
  const own = options.own ?? neighbour(random)
  const peer = options.peer ?? cardAt(at?.ipv4)
  const session = new Session(wire, own, peer, options.capture)
  const number = 0x10 + (random() % 0xffff00)
  const firstPsn = random() & 0xffffff
  const { port, pathMtu = 1024, clientId = 0n, capability = true, retries = 15 } = options
  try {
    const wish = {
      ...{ port, pathMtu, clientId, capability, retries },
      ...{ number, firstPsn, random },
      depths: { send: JOBS_DEPTH, receive: options.receives ?? RECEIVES },
    }
    const what = (): string => `connect to port ${port}`
    const connection = await within(wire, what, options, (caller) => {
      return connectPort(session, wish, caller)
    })
    return new Target(session, connection, number, firstPsn, options)
  } catch (error) {
    if (at !== null) wire.close()
    throw error
  }
}

export class Target {
  /** What the target sends to us, in order, each message once. */
  readonly messages: Inbox
  /** What the target granted, and what its application said in the private data. */
  readonly granted: PortGranted
  private readonly session: Session
  private readonly connection: PortConnection
  private readonly port: QueuePairPort
  private readonly region: RemoteMemory | null

  /** For `connectTarget`. */
  constructor(
    session: Session,
    connection: PortConnection,
    number: number,
    firstPsn: number,
    options: TargetOptions,
  ) {
    this.session = session
    this.connection = connection
    this.granted = connection.granted
    this.messages = new Inbox(options.receives ?? RECEIVES, MESSAGE_BYTES_MAX, session.wire)
    const queuePair = new DriverPair(session, number, this.granted, {
      ackTimeoutCode: options.ackTimeoutCode ?? 14,
      readDepth: Math.max(1, this.granted.readDepth),
      linuxPeer: options.linuxPeer ?? false,
      receive: { inbox: this.messages, firstPsn },
    })
    const place = placeOf(this.granted)
    const port = new QueuePairPort(queuePair, session.wire)
    this.port = port
    const what = (): string => `port ${options.port}`
    this.region = place === null ? null : new RemoteMemory(port, what, () => place)
    connection.onClosed = () => port.close()
  }

  /** The memory that the target offers. Throws PERDURE_TARGET where it said nothing of any. */
  get memory(): RemoteMemory {
    if (this.region !== null) return this.region
    throw new PerdureError('PERDURE_TARGET', 'the target did not say where its memory is')
  }

  /** Ends the queue pair and says goodbye; what was on its way ends as flushed. */
  async close(): Promise<void> {
    this.port.close()
    await this.connection.close()
    this.session.wire.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

interface Place {
  readonly rkey: number
  readonly va: bigint
  readonly length: bigint
}

/** Where the memory is, as a capability block or librpma's descriptor says; else null. */
function placeOf(granted: PortGranted): Place | null {
  const { capability: block, privateData } = granted
  if (block !== null) {
    const va = joined(block.baseHigh, block.baseLow)
    return { rkey: block.rkey, va, length: joined(block.lengthHigh, block.lengthLow) }
  }
  const descriptor = blankLibrpma()
  if (!readLibrpma(descriptor, privateData, 0) || descriptor.rkey === 0) return null
  const { addressHigh, addressLow, sizeHigh, sizeLow, rkey } = descriptor
  return { rkey, va: joined(addressHigh, addressLow), length: joined(sizeHigh, sizeLow) }
}
