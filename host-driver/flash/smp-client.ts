/**
 * A client of SMP: each request has one answer.
 *
 * Invariant: an answer is believed by its sequence number, group and command. A request
 * without an answer is sent again, with the same bytes: every request of SMP may come twice. What
 * is not answered after that is PERDURE_UNREACHABLE; what is refused is an SmpRefusal.
 */

import { decode } from 'cbor2'
import {
  GROUP_IMAGE,
  SMP_HEADER_BYTES,
  SMP_READ,
  SMP_WRITE,
  writeSmp,
} from '../../boards/flash/smp-packet.ts'
import { PerdureError } from '../base/errors.ts'
import { printable } from '../base/printable.ts'
import { type Waiter, waiterOf } from '../base/waiter.ts'
import type { SmpPort } from './smp-port.ts'

/** The second version of the protocol, by its number. */
const VERSION = 1
const OPS: Readonly<Record<'read' | 'write', number>> = { read: SMP_READ, write: SMP_WRITE }

/** How often a request is sent. */
const TRIES = 4

/** What the codes of the group of images mean; words come only where a code says too little. */
const IMAGE_CODES: Readonly<Record<number, string>> = {
  5: 'it is no image of ours, or is damaged',
  8: 'no slot holds an image of that hash',
  9: 'slot 1 is in use: confirm or revert what is on trial, or reset what is marked',
  14: 'it has no such slot',
  20: 'off or data is missing',
  21: 'len is missing',
  22: 'the first piece is shorter than a header',
  23: 'it does not begin as an image does',
  24: 'it has another SHA-256 than it says',
  27: 'it is not newer than what runs',
  28: 'a test is marked or under way: reset, or confirm it, first',
  30: 'it is too large for a slot',
  31: 'more came than was said',
  33: 'it runs already',
}

/** The card refuses; the message is in its words, escaped. */
export class SmpRefusal extends Error {
  override readonly name = 'SmpRefusal'
  readonly code = 'SMP_REFUSED'
  /** The code of the group in version 2, or null. */
  readonly imageCode: number | null
  readonly rc: number

  constructor(message: string, rc: number, imageCode: number | null) {
    super(printable(message))
    this.rc = rc
    this.imageCode = imageCode
  }
}

export class SmpClient {
  private readonly port: SmpPort
  private readonly target: string
  private readonly timeoutMs: number
  private sequence = 0
  /** By what is the same in request and answer. */
  private readonly waiting = new Map<string, Waiter<Record<string, unknown>>>()

  constructor(port: SmpPort, target: string, timeoutMs: number) {
    this.port = port
    this.target = target
    this.timeoutMs = timeoutMs
    port.onPacket = (packet) => this.heard(packet)
    port.onEnd = (why) => {
      for (const one of this.waiting.values()) one.reject(this.unreachable(why))
    }
  }

  private unreachable(why: string): PerdureError {
    return new PerdureError('PERDURE_UNREACHABLE', `${this.target}: ${why}`)
  }

  /** Asks; several requests may be under way. */
  async ask(
    op: keyof typeof OPS,
    group: number,
    command: number,
    fields: object,
    tries: number = TRIES,
  ): Promise<Record<string, unknown>> {
    this.sequence = (this.sequence + 1) & 0xff
    const { sequence } = this
    const packet = writeSmp({ op: OPS[op], version: VERSION, group, sequence, command }, fields)
    for (let n = 1; ; n++) {
      try {
        return await this.once(packet)
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error
        if (n < tries) continue
        throw this.unreachable(
          `no answer within ${(tries * this.timeoutMs) / 1000} s. See that the card is on, and` +
            ' that this is its port.',
        )
      }
    }
  }

  private once(packet: Uint8Array): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      const head = headOf(packet)
      const timer = setTimeout(() => this.waiting.get(head)?.reject(new NoAnswer()), this.timeoutMs)
      const done = (): void => {
        clearTimeout(timer)
        this.waiting.delete(head)
      }
      this.waiting.set(head, waiterOf(done, resolve, reject))
      this.port.send(packet)
    })
  }

  private heard(packet: Uint8Array): void {
    if (packet.length < SMP_HEADER_BYTES) return
    const waiting = this.waiting.get(headOf(packet))
    if (waiting === undefined) return
    let fields: unknown
    try {
      fields = decode(packet.subarray(SMP_HEADER_BYTES))
    } catch {
      return
    }
    if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return
    const answer: Record<string, unknown> = { ...fields }
    const refusal = refusalIn(answer)
    if (refusal === null) waiting.resolve(answer)
    else waiting.reject(refusal)
  }

  close(): void {
    this.port.close()
  }
}

class NoAnswer extends Error {}

/** Group, sequence number and command: the same in request and answer. */
function headOf(packet: Uint8Array): string {
  return packet.subarray(4, SMP_HEADER_BYTES).join()
}

/** What the answer refuses, in words; null if it does not. */
function refusalIn({ err, rc, rsn }: Record<string, unknown>): SmpRefusal | null {
  if (typeof err === 'object' && err !== null) {
    const { group, rc: code } = err as { group?: unknown; rc?: unknown }
    const words = group === GROUP_IMAGE ? IMAGE_CODES[Number(code)] : undefined
    const imageCode = group === GROUP_IMAGE ? Number(code) : null
    return new SmpRefusal(words ?? `error ${code} of group ${group}`, 0, imageCode)
  }
  if (rc === undefined || rc === 0) return null
  return new SmpRefusal(typeof rsn === 'string' ? rsn : `error ${rc}`, Number(rc), null)
}
