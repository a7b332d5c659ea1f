/**
 * Connecting over RDMA-CM: to a port of a DPU, or of any RoCEv2 target that listens.
 *
 * Invariant: a connection is answered, or refused with a reason, or given up in time; the
 * peer's DREQ is answered as long as the session lives; nothing keeps a process alive by itself.
 *
 * The REQ carries our capability block. A target that knows it answers with its own, and then
 * speaks WRITE_PERSIST; any other target leaves it alone, and its private data is handed on as it
 * came.
 */

import { RESPONDER_RESOURCES } from '../../firmware/board/limits.ts'
import {
  type Active,
  closeActive,
  EVENT_CLOSED,
  EVENT_CONNECTED,
  EVENT_NONE,
  EVENT_REJECTED,
  EVENT_TIMED_OUT,
  startActive,
  takeMessage,
  tickActive,
} from '../../firmware/connect/active.ts'
import { agreedDepths } from '../../firmware/transport/depths.ts'
import { BTH_BYTES } from '../../firmware/wire/bth.ts'
import {
  blankCapability,
  CAPABILITY_BYTES,
  type Capability,
  type Depths,
  FEATURE_BATCHES,
  FEATURE_BLOCK_SIZE,
  FEATURE_PERSIST,
  FEATURE_PERSIST_BITMAP,
  FEATURE_PREFETCH,
  FEATURE_STATUS,
  readCapability,
  writeCapability,
  writeClientDepths,
} from '../../firmware/wire/capability.ts'
import * as cm from '../../firmware/wire/cm.ts'
import { blankDeth, DETH_BYTES, writeDeth } from '../../firmware/wire/deth.ts'
import { MANAGEMENT_QP } from '../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../firmware/wire/opcode.ts'
import { copyOf } from '../base/bytes.ts'
import { ArgumentError, faultOfNumber, PerdureError, RefusedError } from '../base/errors.ts'
import type { Caller } from '../base/give-up.ts'
import { high, low } from '../base/wide.ts'
import type { Endpoint } from '../base/wire.ts'
import type { Granted } from '../control/management.ts'
import { beginFrame, FRAME_BTH_AT, seal } from '../frames/frames.ts'
import type { Session } from '../frames/session.ts'

export interface PortOptions {
  /** 1 to 65535. */
  readonly port: number
  /** Number of our queue pair, 2 to 2^24 - 1. */
  readonly number: number
  /** Gives 32 bits. */
  readonly random: () => number
  /** Who writes, 64 bits; 0 is a client without operations of its own. */
  readonly clientId?: bigint
  /** Payload bytes of a packet; 4096 by default. It is granted or refused, never lowered. */
  readonly pathMtu?: number
  /** PSN that the target's own requests will begin with. */
  readonly firstPsn?: number
  /** Whether the REQ shows our capability block; true by default. */
  readonly capability?: boolean
  /** How deep the queues of our queue pair are; without it the target is told nothing of them. */
  readonly depths?: Depths
  /** Code t of how long an answer may take, 4.096 µs * 2^t; 16 (0.27 s) by default. */
  readonly timeoutCode?: number
  /** How often a message is sent again, 0 to 15; 15 by default. */
  readonly retries?: number
  /** Local ACK timeout code that the target is told; 17 (0.54 s) by default. */
  readonly ackTimeoutCode?: number
}

/** What a target grants beyond what `Management.connect` gets. */
export interface PortGranted extends Granted {
  /** READs and atomics that the target keeps at once: our depth. */
  readonly readDepth: number
  /** What its application said, 196 bytes. */
  readonly privateData: Uint8Array
  /** Its capability block, or null where it is a plain RoCEv2 target. */
  readonly capability: Capability | null
}

/** Features that we have as the one who asks (wire-format 7.8). */
const FEATURES =
  FEATURE_PERSIST |
  FEATURE_PERSIST_BITMAP |
  FEATURE_BATCHES |
  FEATURE_STATUS |
  FEATURE_PREFETCH |
  FEATURE_BLOCK_SIZE

const REASONS: Readonly<Record<number, string>> = {
  [cm.REJECT_NO_QP]: 'no queue pair',
  [cm.REJECT_NO_RESOURCES]: 'no resources',
  [cm.REJECT_TIMEOUT]: 'timeout',
  [cm.REJECT_UNSUPPORTED]: 'unsupported request',
  [cm.REJECT_COMM_ID]: 'invalid communication id',
  [cm.REJECT_SERVICE_ID]: 'nothing listens on that port',
  [cm.REJECT_TRANSPORT]: 'invalid transport type',
  [cm.REJECT_STALE]: 'stale connection; try again',
  [cm.REJECT_GID]: 'invalid address',
  [cm.REJECT_MTU]: 'path MTU too large',
  [cm.REJECT_CONSUMER]: 'refused by the application',
}

/**
 * Connects to a port, unless the caller gives up. Rejects with PERDURE_ARGUMENT,
 * PERDURE_UNREACHABLE, or PERDURE_REFUSED, whose `status` is then the reason of the REJ.
 */
export function connectPort(
  session: Session,
  options: PortOptions,
  caller?: Caller,
): Promise<PortConnection> {
  const { port, number } = options
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    return Promise.reject(new ArgumentError(`port ${port}: 1 to 65535`))
  }
  if (!Number.isInteger(number) || number < 2 || number >= 2 ** 24) {
    return Promise.reject(new ArgumentError(`queue pair ${number}: 2 to 2^24 - 1`))
  }
  return new Promise((resolve, reject) => {
    const connection = new PortConnection(session, options, (error) => {
      if (error === null) resolve(connection)
      else reject(error)
    })
    connection.start()
    caller?.onGivenUp((error) => connection.abandon(error))
  })
}

/** A connection that RDMA-CM made. */
export class PortConnection {
  /** Called when the target ends the connection, or says that it never was. */
  onClosed: () => void = () => {}
  private readonly session: Session
  private readonly options: PortOptions
  private readonly localId: number
  private answered: ((error: Error | null) => void) | null
  private closing: (() => void)[] = []
  private active: Active | null = null
  private psn = 0
  private cancelTimer: () => void = () => {}

  /** For `connectPort`. */
  constructor(session: Session, options: PortOptions, answered: (error: Error | null) => void) {
    this.session = session
    this.options = options
    this.answered = answered
    this.localId = (options.random() | 1) >>> 0
  }

  /** What the target granted. */
  get granted(): PortGranted {
    const { rep, told } = this.active!
    const { depths } = this.options
    const block = blankCapability()
    const { privateData } = rep
    const ours = readCapability(block, privateData, 0, privateData.length)
    return {
      queuePair: rep.qpn,
      firstPsn: rep.startingPsn,
      incarnation: ours ? block.incarnation : 0,
      pathMtu: this.options.pathMtu ?? 4096,
      readDepth: Math.min(rep.responderResources, RESPONDER_RESOURCES),
      privateData: copyOf(privateData),
      capability: ours ? block : null,
      told,
      agreed: depths !== undefined && told !== null ? agreedDepths(depths, told) : null,
    }
  }

  /** For `connectPort`: sends the REQ. */
  start(): void {
    const { session, options } = this
    session.connections.set(this.localId, (bytes, packet) => {
      this.run((nowUs) => takeMessage(this.active!, bytes, packet.payloadAt, nowUs))
    })
    const [transactionHigh, transactionLow] = [options.random(), options.random()]
    const mac = session.own.mac
    this.active = startActive(
      {
        localId: this.localId,
        transactionHigh,
        transactionLow,
        port: options.port,
        guidHigh: cm.guidHigh(mac),
        guidLow: cm.guidLow(mac),
        qpn: options.number,
        startingPsn: options.firstPsn ?? 0,
        responderResources: RESPONDER_RESOURCES,
        initiatorDepth: RESPONDER_RESOURCES,
        pathMtu: options.pathMtu ?? 4096,
        ipVersion: 4,
        localGid: mappedGid(session.own),
        remoteGid: mappedGid(session.peer),
        sourcePort: 0xc000 | (options.number & 0x3fff),
        userData: this.userData(),
        timeoutCode: options.timeoutCode ?? 16,
        retries: options.retries ?? 15,
        ackTimeout: options.ackTimeoutCode ?? 17,
      },
      (message) => this.send(message),
      session.wire.now(),
    )
    this.schedule()
  }

  /** Nobody waits for it any more: the target hears nothing more, and ends it by itself. */
  abandon(error: Error): void {
    if (this.answered === null) return
    this.cancelTimer()
    this.answer(error)
  }

  /** Says goodbye; resolves when the target has answered, or did not in time. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      if (this.active!.phase > 2) {
        resolve()
        return
      }
      this.closing.push(resolve)
      this.run((nowUs) => closeActive(this.active!, nowUs))
    })
  }

  private userData(): Uint8Array {
    const { capability = true, clientId = 0n, depths } = this.options
    const data = new Uint8Array(cm.USER_BYTES_REQ)
    if (!capability || CAPABILITY_BYTES > data.length) return data
    writeCapability(data, 0, {
      ...blankCapability(),
      features: FEATURES,
      sessionId: this.localId,
      clientHigh: high(clientId),
      clientLow: low(clientId),
    })
    if (depths !== undefined) writeClientDepths(data, 0, depths)
    return data
  }

  private run(work: (nowUs: number) => number): void {
    let event = EVENT_NONE
    this.session.exclusively(() => {
      event = work(this.session.wire.now())
    })
    if (event === EVENT_CONNECTED) this.answer(null)
    else if (event === EVENT_REJECTED) this.answer(this.rejection())
    else if (event === EVENT_TIMED_OUT) {
      const { port } = this.options
      this.answer(new PerdureError('PERDURE_UNREACHABLE', `port ${port}: no answer to connecting`))
    } else if (event === EVENT_CLOSED) this.ended()
    this.schedule()
  }

  private answer(error: Error | null): void {
    if (error !== null) this.session.connections.delete(this.localId)
    const answered = this.answered
    this.answered = null
    answered?.(error)
  }

  /** The handler stays: the target may not have heard of the end, and ask again. */
  private ended(): void {
    const { closing } = this
    this.closing = []
    for (const resolve of closing) resolve()
    if (closing.length === 0) this.onClosed()
  }

  private rejection(): Error {
    const { reason, rejection } = this.active!
    const what = `connect to port ${this.options.port}: reason ${reason}`
    const said = `${what} (${REASONS[reason] ?? 'unknown'})`
    const code = reason === cm.REJECT_CONSUMER ? rejection.privateData[0]! : 0
    if (code !== 0) return new RefusedError(faultOfNumber(code), reason, said)
    const fault = reason === cm.REJECT_STALE ? 'STALE_CONNECTION' : 'UNSERVED_CONNECTION'
    return new RefusedError(fault, reason, said)
  }

  private schedule(): void {
    this.cancelTimer()
    this.cancelTimer = () => {}
    const { timerUs } = this.active!
    if (timerUs === Infinity) return
    this.cancelTimer = this.session.wire.setTimer(timerUs, () => {
      this.run((nowUs) => tickActive(this.active!, nowUs))
    })
  }

  private send(message: Uint8Array): void {
    const { session } = this
    const frame = beginFrame(session.own, session.peer, {
      opcode: UD_SEND_ONLY,
      destQp: MANAGEMENT_QP,
      psn: this.psn,
      ackRequest: false,
      flow: this.options.number,
      headerBytes: DETH_BYTES,
      payload: message,
      payloadAt: 0,
      payloadLength: cm.CM_BYTES,
    })
    this.psn = (this.psn + 1) & 0xffffff
    writeDeth(frame, FRAME_BTH_AT + BTH_BYTES, { ...blankDeth(), sourceQp: MANAGEMENT_QP })
    session.send(seal(frame))
  }
}

/** An IPv4 address as a GID. */
function mappedGid(endpoint: Endpoint): Uint8Array {
  return Uint8Array.from([...new Array(10).fill(0), 0xff, 0xff, ...endpoint.ipv4])
}
