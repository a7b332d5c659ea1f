/**
 * Memory of a target, by offset: reads, writes, atomics and flushes, in the field's own nouns.
 *
 * Invariant: arguments are checked before anything is sent; bytes are copied at the call;
 * requests of one connection take effect in the order of the calls; where the memory is watched, an
 * access that waits for it lets those of other regions pass, and a READ that waits other READs. A
 * WRITE that is done is with the target, and is durable only when a FLUSH behind it is, or where
 * the region itself says so.
 */

import { blankPfeth } from '../../firmware/wire/prefetch.ts'
import { copyOf } from '../base/bytes.ts'
import { ArgumentError } from '../base/errors.ts'
import { type Caller, WAIT_KINDS, type WaitOptions, within } from '../base/give-up.ts'
import { check, checkBytes, checkFields, FUNCTION, having, SIZE, UINT64 } from '../base/kinds.ts'
import {
  type ChainPort,
  type Outcome,
  type Pending,
  pending,
  postTogether,
  quietly,
  resultOf,
} from '../way/chain.ts'
import {
  atomicWriteJob,
  compareSwapJob,
  type Done,
  FLUSH_KINDS,
  fetchAddJob,
  flushJob,
  type Job,
  type JobEnd,
  MESSAGE_KINDS,
  type MessageOptions,
  prefetchJob,
  type RemoteAddress,
  readBytesJob,
  writeJob,
} from '../way/jobs.ts'
import type { JobQueue } from '../way/way.ts'
import type { FlushOptions } from '../way/work-request.ts'

/** Bytes of one READ; a longer one is several, so that its answers never fill a window for long. */
const READ_PIECE_BYTES = 1 << 18

/** Bytes of one message, and of the range of one FLUSH. */
const MESSAGE_BYTES_MAX = 2 ** 31
const FLUSH_BYTES_MAX = 2 ** 32 - 1

const PORT = having(['enqueueChain'], 'a ChainPort')

export class RemoteMemory {
  readonly port: ChainPort
  private readonly what: () => string
  private readonly where: () => RemoteAddress & { readonly length: bigint }

  /**
   * `where` says what the memory's key, address and length are now: a DPU gives a new key whenever
   * it is started again. `what` names it in errors. Throws PERDURE_ARGUMENT.
   */
  constructor(
    port: ChainPort,
    what: () => string,
    where: () => RemoteAddress & { readonly length: bigint },
  ) {
    check('port', port, PORT)
    check('what', what, FUNCTION)
    check('where', where, FUNCTION)
    this.port = port
    this.what = what
    this.where = where
  }

  /**
   * Writes `bytes` at `offset`. It resolves when the target has them, which is no durability: see
   * `flush`. Immediate data consumes an entry of the target's receive queue.
   */
  write(
    offset: number,
    bytes: Uint8Array,
    options: MessageOptions & WaitOptions = {},
  ): Promise<Outcome> {
    return quietly(() => {
      const writing = this.writing(offset, bytes, options)
      return this.access(writing, options, { offset, length: bytes.length })
    })
  }

  /** Reads `length` bytes at `offset`, behind everything that was written before. */
  read(offset: number, length: number, options: WaitOptions = {}): Promise<Uint8Array> {
    return quietly(() => {
      this.checkRange(offset, length)
      const what = (): string => `read ${length} bytes at ${offset} of ${this.what()}`
      return this.wait(what, options, (caller) => this.readPieces(offset, length, caller))
    })
  }

  private async readPieces(offset: number, length: number, caller: Caller): Promise<Uint8Array> {
    const into = new Uint8Array(length)
    const pieces: Promise<unknown>[] = []
    for (let at = 0; at === 0 || at < length; at += READ_PIECE_BYTES) {
      const piece = into.subarray(at, Math.min(length, at + READ_PIECE_BYTES))
      const reading = this.reading(offset + at, piece)
      const work = (): Promise<unknown> => this.post(reading, caller)
      pieces.push(this.admit(offset + at, piece.length, false, work))
    }
    await Promise.all(pieces)
    return into
  }

  /**
   * Makes durable (`persistent`, the default), or visible to everybody (`global`), or both, what
   * this connection wrote before to `length` bytes at `offset`, or to all of it (`wholeRegion`).
   */
  flush(
    offset: number,
    length: number,
    options: FlushOptions & WaitOptions = {},
  ): Promise<Outcome> {
    return quietly(() => {
      const flushing = this.flushing(offset, length, options)
      return this.access(flushing, options, { offset, length: 0 })
    })
  }

  /** Adds `addend` (modulo 2^64) to the number at `offset`; resolves to what stood there before. */
  fetchAdd(offset: number, addend: bigint, options: WaitOptions = {}): Promise<bigint> {
    return quietly(() => {
      this.checkWord(offset)
      check('addend', addend, UINT64)
      const make = (done: Done): Job => fetchAddJob(this.address(offset), addend, done)
      const adding = pending(`fetch-add at ${offset} of ${this.what()}`, make, original)
      return this.access(adding, options, { offset, length: 8 })
    })
  }

  /** Stores `swap` at `offset` if `compare` stands there; resolves to what stood there before. */
  compareSwap(
    offset: number,
    compare: bigint,
    swap: bigint,
    options: WaitOptions = {},
  ): Promise<bigint> {
    return quietly(() => {
      this.checkWord(offset)
      check('compare', compare, UINT64)
      check('swap', swap, UINT64)
      const make = (done: Done): Job => compareSwapJob(this.address(offset), compare, swap, done)
      const swapping = pending(`compare-swap at ${offset} of ${this.what()}`, make, original)
      return this.access(swapping, options, { offset, length: 8 })
    })
  }

  /** Stores eight bytes at once, behind every FLUSH before it. Not durable by itself. */
  atomicWrite(offset: number, bytes: Uint8Array, options: WaitOptions = {}): Promise<Outcome> {
    return quietly(() => {
      this.checkWord(offset)
      checkBytes('what is written:', bytes)
      const { length } = bytes
      if (length !== 8) throw new ArgumentError(`an atomic write has 8 bytes, not ${length}`)
      const copy = copyOf(bytes)
      const make = (done: Done): Job => atomicWriteJob(this.address(offset), copy, done)
      const writing = pending(`atomic write at ${offset} of ${this.what()}`, make, itself)
      return this.access(writing, options, { offset, length: 8 })
    })
  }

  /**
   * Where `length` bytes at `offset` lie at the target just now. Throws PERDURE_ARGUMENT unless all
   * of them are there.
   */
  addressOf(offset: number, length: number): RemoteAddress {
    this.checkRange(offset, length)
    return this.address(offset)
  }

  // ---- for chains ------------------------------------------------------------------------------

  /** A WRITE that waits to be put into a chain. */
  writing(offset: number, bytes: Uint8Array, options: MessageOptions = {}): Pending<Outcome> {
    checkBytes('what is written:', bytes)
    checkFields('options of a message', options, MESSAGE_KINDS)
    return this.writingOwn(offset, copyOf(bytes), { ...options })
  }

  /** As `writing`, of what nobody changes any more: it is not copied again. */
  writingOwn(offset: number, bytes: Uint8Array, options: MessageOptions = {}): Pending<Outcome> {
    this.checkRange(offset, bytes.length)
    checkLength(bytes.length, MESSAGE_BYTES_MAX)
    const what = `write ${bytes.length} bytes at ${offset} of ${this.what()}`
    return pending(what, (done) => writeJob(this.address(offset), bytes, options, done), itself)
  }

  /** A READ that waits to be put into a chain, and fills `into`. */
  reading(offset: number, into: Uint8Array): Pending<Uint8Array> {
    checkBytes('what is filled:', into)
    this.checkRange(offset, into.length)
    const what = `read ${into.length} bytes at ${offset} of ${this.what()}`
    return pending(
      what,
      (done) => readBytesJob(this.address(offset), into, done),
      () => into,
    )
  }

  /** A hint that these bytes will be accessed; it changes nothing. */
  protected hinting(offset: number, length: number): Pending<Outcome> {
    const what = `prefetch ${length} bytes at ${offset} of ${this.what()}`
    const make = (done: Done): Job => prefetchJob(this.address(offset), length, blankPfeth(), done)
    return pending(what, make, itself)
  }

  /** A FLUSH that waits to be put into a chain. */
  flushing(offset: number, length: number, options: FlushOptions = {}): Pending<Outcome> {
    checkFields('options of a flush', options, FLUSH_KINDS)
    check('offset', offset, SIZE)
    check('length', length, SIZE)
    if (options.wholeRegion !== true) {
      this.checkRange(offset, length)
      checkLength(length, FLUSH_BYTES_MAX)
    }
    if (options.persistent === false && options.global !== true) {
      throw new ArgumentError('a flush is persistent, global, or both')
    }
    const what = `flush ${length} bytes at ${offset} of ${this.what()}`
    const kept = { ...options }
    return pending(what, (done) => flushJob(this.address(offset), length, kept, done), itself)
  }

  /**
   * Runs `work`, which posts an access to these bytes, when it may leave: at once, unless somebody
   * knows that the memory is not ready.
   */
  protected admit<T>(
    _offset: number,
    _length: number,
    _changes: boolean,
    work: () => Promise<T>,
  ): Promise<T> {
    return work()
  }

  /** Posts a request that changes these bytes when it may leave, unless its caller gives up. */
  protected access<T>(
    request: Pending<T>,
    options: WaitOptions,
    { offset, length }: { readonly offset: number; readonly length: number },
    check?: (queuePair: JobQueue) => void,
  ): Promise<T> {
    return this.wait(
      () => request.what,
      options,
      (caller) => this.admit(offset, length, true, () => this.post(request, caller, check)),
    )
  }

  /** Does what its caller waits for, until he gives up. Throws PERDURE_ARGUMENT. */
  protected wait<T>(
    what: () => string,
    options: WaitOptions,
    work: (caller: Caller) => Promise<T>,
  ): Promise<T> {
    checkFields(what, options, WAIT_KINDS)
    return within(this.port.way, what, options, work)
  }

  /** Puts a request on the wire; resolves as it does. */
  protected post<T>(
    request: Pending<T>,
    caller: Caller,
    check?: (queuePair: JobQueue) => void,
  ): Promise<T> {
    postTogether(this.port, [request], caller, check)
    return request.result
  }

  protected checkRange(offset: number, length: number): void {
    check('offset', offset, SIZE)
    check('length', length, SIZE)
    const end = Number(this.where().length)
    if (offset <= end - length) return
    throw new ArgumentError(`${length} bytes at ${offset} of ${this.what()}: it has ${end} bytes`)
  }

  private checkWord(offset: number): void {
    this.checkRange(offset, 8)
    if (offset % 8 !== 0) throw new ArgumentError(`offset ${offset}: a multiple of 8 for an atomic`)
  }

  private address(offset: number): RemoteAddress {
    const { rkey, va } = this.where()
    return { rkey, va: va + BigInt(offset) }
  }
}

function itself(completion: Outcome): Outcome {
  return completion
}

function original(_: Outcome, end: JobEnd): bigint {
  return resultOf(end)
}

/** The length in a header has 32 bits, and those of a longer one would say less than was meant. */
function checkLength(length: number, most: number): void {
  if (length > most) throw new ArgumentError(`${length} bytes: at most ${most} at once`)
}
