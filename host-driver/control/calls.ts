/**
 * The datagrams of management calls: one there, one back, repeated until it is answered.
 *
 * Invariants:
 * - A repetition carries the same transaction id; an answer is believed by its transaction id and
 *   attribute; a refusal is a typed error with the name of the fault.
 * - Once its caller has given up, a call is not sent again.
 */

import { PASS } from '../../firmware/board/fault.ts'
import * as mad from '../../firmware/wire/management.ts'
import { adviceFor } from '../base/advice.ts'
import { copyOf } from '../base/bytes.ts'
import type { Clock } from '../base/clock.ts'
import { faultOfNumber, PerdureError, RefusedError } from '../base/errors.ts'
import type { Caller } from '../base/give-up.ts'
import { type Waiter, waiterOf } from '../base/waiter.ts'

/** First wait for an answer; each further one is twice as long, up to a second. */
const RETRY_US = 50_000
export const RETRY_US_MAX = 1_000_000

/** Calls that take their time; repeating them early makes it longer. */
const SLOW_ATTRIBUTES = [mad.ATTRIBUTE_FORMAT]
const SLOW_TIMEOUT_US = 60_000_000

/** A SET that leaves everything as it was for those who read and write. */
const HARMLESS_ATTRIBUTES = [mad.ATTRIBUTE_SCAN, mad.ATTRIBUTE_HEALTH]

/** What carries management datagrams. */
export interface DatagramWay extends Clock {
  /** Takes the management datagrams that come: `length` bytes at `at`. */
  onDatagram: ((bytes: Uint8Array, at: number, length: number) => void) | null
  /** Where several speak, and each hears the answers of all: another number for each of them. */
  nextSpeaker?(): number
  /** Sends a management datagram of MAD_BYTES to the DPU that this is the way to. */
  sendDatagram(datagram: Uint8Array): void
  /** Nobody waits for the answer to that datagram any more: it is not sent again. */
  forgetDatagram?(datagram: Uint8Array): void
  /** As of Wire. */
  tried?(): string
  /** Whether what it carries is sealed in a session. */
  readonly isSealed?: boolean
}

/** What is asked for. */
interface Asked {
  /** Names it in errors. */
  readonly what: string
  readonly method: number
  readonly attribute: number
  readonly modifier: number
  readonly body: Uint8Array
  /** How long an answer is waited for, µs; as long as for all others by default. */
  readonly limitUs?: number
}

interface Call extends Waiter<Uint8Array> {
  readonly attribute: number
  readonly what: string
}

export class Calls {
  readonly way: DatagramWay
  private readonly timeoutUs: number
  private readonly transactionHigh: number
  private transactionLow = 0
  private closed: Error | null = null
  private readonly calls: Map<number, Call> = new Map()
  private readonly header: mad.Mad = mad.blankMad()

  /** `random` gives 32 bits; they tell our transactions from those of others. */
  constructor(way: DatagramWay, timeoutUs: number, random: () => number) {
    this.way = way
    this.timeoutUs = timeoutUs
    // Two with the same seed must not take each other's answers for their own.
    this.transactionHigh = (random() + (way.nextSpeaker?.() ?? 0)) >>> 0
    way.onDatagram = (bytes, at, length) => this.take(bytes, at, length)
  }

  get isSealed(): boolean {
    return this.way.isSealed === true
  }

  /** Ends every call that still waits, and all later ones. */
  close(error: Error): void {
    this.closed = error
    for (const call of this.calls.values()) call.reject(error)
    this.calls.clear()
  }

  /** One call, unless its caller gives up; resolves to the body of the answer. */
  async call(asked: Asked, caller: Caller | null): Promise<Uint8Array> {
    if (this.closed !== null) throw this.closed
    caller?.check()
    const { method, attribute } = asked
    const changes = method === mad.METHOD_SET && !HARMLESS_ATTRIBUTES.includes(attribute)
    if (changes) caller?.watchEffect(() => true)
    return await this.answered(asked, caller)
  }

  private answered(asked: Asked, caller: Caller | null): Promise<Uint8Array> {
    const { way } = this
    const { what, attribute, limitUs = this.timeoutUs } = asked
    const isSlow = SLOW_ATTRIBUTES.includes(attribute)
    const timeoutUs = isSlow ? Math.max(limitUs, SLOW_TIMEOUT_US) : limitUs
    const id = ++this.transactionLow
    const datagram = this.datagramOf(asked, id)
    const endUs = way.now() + timeoutUs
    return new Promise((resolve, reject) => {
      let cancel = (): void => {}
      let forget = (): void => {}
      let waitUs = isSlow ? RETRY_US_MAX : RETRY_US
      const ended = (): void => {
        cancel()
        forget()
        this.calls.delete(id)
        way.forgetDatagram?.(datagram)
      }
      const call: Call = { attribute, what, ...waiterOf(ended, resolve, reject) }
      const attempt = (): void => {
        if (way.now() >= endUs) {
          call.reject(unreachable(what, timeoutUs, way.tried?.() ?? ''))
          return
        }
        cancel = way.setTimer(Math.min(way.now() + waitUs, endUs), attempt)
        waitUs = Math.min(2 * waitUs, RETRY_US_MAX)
        way.sendDatagram(datagram)
      }
      this.calls.set(id, call)
      forget = caller?.onGivenUp((error) => call.reject(error)) ?? forget
      attempt()
    })
  }

  private datagramOf({ method, attribute, modifier, body }: Asked, id: number): Uint8Array {
    const datagram = new Uint8Array(mad.MAD_BYTES)
    mad.writeMad(datagram, 0, {
      ...mad.blankMad(),
      method,
      transactionHigh: this.transactionHigh,
      transactionLow: id,
      attribute,
      modifier,
    })
    datagram.set(body, mad.MAD_BODY)
    return datagram
  }

  private take(bytes: Uint8Array, at: number, length: number): void {
    const { header } = this
    if (mad.madFault(bytes, at, length) !== PASS || mad.isSealed(bytes, at)) return
    mad.readMad(header, bytes, at)
    const call = this.calls.get(header.transactionLow)
    if (call === undefined || header.transactionHigh !== this.transactionHigh) return
    if (header.method !== mad.METHOD_RESPONSE || header.attribute !== call.attribute) return
    if (header.status !== mad.STATUS_OK || header.fault !== 0) {
      call.reject(new RefusedError(faultOfNumber(header.fault), header.status, call.what))
      return
    }
    const body = at + mad.MAD_BODY
    call.resolve(copyOf(bytes.subarray(body, body + mad.MAD_BODY_BYTES)))
  }
}

function unreachable(what: string, timeoutUs: number, tried: string): PerdureError {
  const message = `${what}: the DPU did not answer within ${Math.round(timeoutUs / 1000)} ms`
  const where = tried === '' ? '' : `: ${tried}`
  const advice = adviceFor('PERDURE_UNREACHABLE')
  return new PerdureError('PERDURE_UNREACHABLE', `${message}${where}. ${advice}`)
}
