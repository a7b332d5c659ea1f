/**
 * A queue between hosts, in a region of records: a ring of items, and in record 0 how far they are
 * done.
 *
 * Invariants:
 * - An item is in the queue, durable, when `push` resolves. Its number is one more than that of the
 *   item before it; with several producers, too.
 * - `take` gives the first item that is not done, again and again until it is done: at least once.
 * - `done` counts an item once, and the state that it is given is stored with the count, in one
 *   record. So what the consumer keeps in that state has each item in it exactly once.
 */

import { replace } from '../replace.mjs'

/** @import { Region } from 'perdure' */

/** Record 0 begins with the number of the first item that is not done; an item with its own. */
const NUMBER_BYTES = 8

/** The ring has no room: the consumer is that far behind. */
export class NoRoom extends Error {
  /** @override */
  name = 'NoRoom'
}

/**
 * @typedef {object} Item
 * @property {number} number  from 0
 * @property {Uint8Array} data
 * @property {Uint8Array} state  as it was left after the item before this one; at first empty
 * @property {(state?: Uint8Array) => Promise<boolean>} done  the item is done, with that state;
 *   durable when it resolves. False: it was done already, by another consumer
 */

export class RecordQueue {
  #region
  #next

  /**
   * @param {Region} region
   * @param {number} next
   */
  constructor(region, next) {
    this.#region = region
    this.#next = next
  }

  /** @param {Region} region */
  static async open(region) {
    const { number } = parse(await region.read(0))
    const queue = new RecordQueue(region, number)
    while ((await queue.#read(queue.#next)).number === queue.#next) queue.#next++
    return queue
  }

  /** The number that the next item will have: a single producer knows by it how far it has come. */
  get next() {
    return this.#next
  }

  /**
   * Puts an item at the end; resolves to its number when it is durable. Rejects with NoRoom where
   * the ring is full. After OutcomeUnknown the item may be there: open the queue again, and look
   * at `next`.
   *
   * @param {Uint8Array} bytes
   * @returns {Promise<number>}
   */
  async push(bytes) {
    const kept = Uint8Array.from(bytes)
    for (;;) {
      const number = this.#next
      const held = await this.#read(number)
      if (held.number >= number) {
        // Another producer was here.
        this.#next = Math.max(this.#next, held.number + 1)
        continue
      }
      if (held.written && held.number >= parse(await this.#region.read(0)).number) {
        throw new NoRoom(`item ${held.number} is not done yet, and its record is needed`)
      }
      const item = recordOf(number, kept)
      if (await replace(this.#region, this.#slotOf(number), item, held.sequence)) {
        this.#next = Math.max(this.#next, number + 1)
        return number
      }
    }
  }

  /**
   * The first item that is not done, or null where there is none.
   *
   * @returns {Promise<Item | null>}
   */
  async take() {
    const { number, data: state, sequence } = parse(await this.#region.read(0))
    const item = await this.#read(number)
    if (item.number !== number) return null
    const done = (/** @type {Uint8Array} */ after = state) =>
      replace(this.#region, 0, recordOf(number + 1, after), sequence)
    return { number, data: item.data, state, done }
  }

  /** @param {number} number */
  async #read(number) {
    const record = await this.#region.read(this.#slotOf(number))
    return record.written ? parse(record) : { ...parse(record), number: -1 }
  }

  /** @param {number} number */
  #slotOf(number) {
    return 1 + (number % (this.#region.slots - 1))
  }
}

/**
 * @param {number} number
 * @param {Uint8Array} data
 */
function recordOf(number, data) {
  const record = Buffer.alloc(NUMBER_BYTES + data.length)
  record.writeBigUInt64LE(BigInt(number))
  record.set(data, NUMBER_BYTES)
  return record
}

/** @param {{ data: Uint8Array, sequence: bigint, written: boolean }} record */
function parse({ data, sequence, written }) {
  const number = written ? Number(Buffer.from(data.buffer, data.byteOffset).readBigUInt64LE()) : 0
  return { number, data: data.subarray(NUMBER_BYTES), sequence, written }
}
