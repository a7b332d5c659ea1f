/**
 * What the peer sends to us: a receive queue, and the messages in it.
 *
 * Invariant: a message takes an entry when its first packet comes, and gives it back when
 * it was handed to its reader, or when its connection breaks half-way; without a free entry the
 * peer is told to wait (RNR NAK), and nothing is lost. Messages are read in the order in which they
 * came, each once. The inbox outlives the connections that fill it.
 */

import type { Bseth } from '../../firmware/wire/block-size.ts'
import type { Mseth } from '../../firmware/wire/memory-status.ts'
import type { Clock } from '../base/clock.ts'
import { type Caller, WAIT_KINDS, type WaitOptions, within } from '../base/give-up.ts'
import { checkFields } from '../base/kinds.ts'

/** A message of the peer. */
export interface Message {
  readonly bytes: Uint8Array
  /** Immediate data, or null; the key that the sender wants to be invalidated, or null. */
  readonly immediate: number | null
  readonly invalidate: number | null
  /** The sender asked for the receiver to be woken. */
  readonly solicited: boolean
}

/** What takes the messages of one peer. */
export interface Receives {
  /** Bytes that the next message may have. */
  readonly messageBytesMax: number
  /** Takes an entry for a message that begins; false if there is none. */
  claim(): boolean
  /** Gives back the entry of a message that will not be finished. */
  release(): void
  /** A message is whole; it has an entry. */
  deliver(message: Message): void
  /** The peer asked for what is not served here, or sent too much; nothing comes any more. */
  refused(tooLong: boolean): void
}

/** What hears of the memory of one peer (source 5), and of its part. */
export interface Notices {
  /** Takes a notice whose entries are `length` bytes at `at`. False if it makes no sense. */
  notice(mseth: Mseth, bytes: Uint8Array, at: number, length: number): boolean
  /** The peer proposes a block size for what is associated under that key; what we answer. */
  proposal(rkey: number, bseth: Bseth): Bseth
  /** Takes a message of `length` bytes at `at` if it tells of the part; false of any other one. */
  health(bytes: Uint8Array, at: number, length: number): boolean
}

export class Inbox implements Receives, AsyncIterable<Message> {
  /** Entries of the receive queue. */
  readonly entries: number
  /** Bytes that one message may have. */
  readonly messageBytesMax: number
  /** Called when an entry became free. */
  onFree: () => void = () => {}
  private readonly clock: Clock
  private taken = 0
  private readonly messages: Message[] = []
  private readonly readers: ((message: Message | null) => void)[] = []
  private ended: Error | null = null

  /** The clock tells how long a reader waits. */
  constructor(entries: number, messageBytesMax: number, clock: Clock) {
    this.entries = entries
    this.messageBytesMax = messageBytesMax
    this.clock = clock
  }

  claim(): boolean {
    if (this.ended !== null || this.taken >= this.entries) return false
    this.taken++
    return true
  }

  release(): void {
    this.taken--
  }

  deliver(message: Message): void {
    const reader = this.readers.shift()
    if (reader === undefined) {
      this.messages.push(message)
      return
    }
    this.taken--
    reader(message)
    this.onFree()
  }

  /** The connection breaks by itself, and is made again. */
  refused(): void {}

  /**
   * The next message. Rejects with the reason when the connection is closed for good. A reader who
   * gives up takes none: the next message is for the next reader.
   */
  async next(options: WaitOptions = {}): Promise<Message> {
    checkFields('options of next', options, WAIT_KINDS)
    const what = (): string => 'the next message'
    const message = await within(this.clock, what, options, (caller) => this.nextOrEnd(caller))
    if (message === null) throw this.ended!
    return message
  }

  /** Every message, until the connection is closed for good. */
  async *[Symbol.asyncIterator](): AsyncIterator<Message> {
    for (let message = await this.nextOrEnd(); message !== null; message = await this.nextOrEnd()) {
      yield message
    }
  }

  /** Nothing comes any more; what is here can still be read. */
  close(reason: Error): void {
    this.ended ??= reason
    for (const reader of this.readers.splice(0)) reader(null)
  }

  private nextOrEnd(caller?: Caller): Promise<Message | null> {
    const message = this.messages.shift()
    if (message !== undefined) {
      this.taken--
      this.onFree()
      return Promise.resolve(message)
    }
    if (this.ended !== null) return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      this.readers.push(resolve)
      caller?.onGivenUp((error) => {
        const at = this.readers.indexOf(resolve)
        if (at >= 0) this.readers.splice(at, 1)
        reject(error)
      })
    })
  }
}
