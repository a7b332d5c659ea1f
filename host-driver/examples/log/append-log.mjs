/**
 * An append-only log in a region of records: entry n is record n.
 *
 * Invariants:
 * - An entry is acknowledged when it and all before it are durable: entries go out in batches in
 *   order, and the next batch when the one before it is durable. What comes meanwhile waits, and
 *   goes together.
 * - So after a cut of the power the log is a prefix of what was appended, with all that was
 *   acknowledged in it, and no entry is torn.
 *
 * One program appends at a time; any number may read.
 */

/** @import { BatchRecord, Region } from 'perdure' */

/** The most records of a batch. */
const GROUP = 256

/**
 * An entry that is not acknowledged yet.
 *
 * @typedef {object} Waiting
 * @property {number} index
 * @property {Uint8Array} bytes
 * @property {(index: number) => void} resolve
 * @property {(reason: unknown) => void} reject
 */

export class AppendLog {
  /** Entries that are durable. */
  length

  #region
  #next
  /** @type {Waiting[]} */
  #waiting = []
  #isWriting = false
  /** @type {unknown} */
  #failure = null

  /**
   * @param {Region} region
   * @param {number} length
   */
  constructor(region, length) {
    this.#region = region
    this.length = length
    this.#next = length
  }

  /**
   * Finds the end of the log. All records before it are written, and none behind it is.
   *
   * @param {Region} region
   */
  static async open(region) {
    let low = 0
    let high = region.slots
    while (low < high) {
      const middle = (low + high) >> 1
      if ((await region.read(middle)).written) low = middle + 1
      else high = middle
    }
    return new AppendLog(region, low)
  }

  /**
   * Appends an entry; resolves to its index when it is durable. After a rejection nothing more is
   * appended: open the log again, and see whether the entry is there.
   *
   * @param {Uint8Array} bytes
   * @returns {Promise<number>}
   */
  async append(bytes) {
    const { capacity, slots } = this.#region
    if (bytes.length > capacity) throw new RangeError(`${bytes.length} bytes: at most ${capacity}`)
    if (this.#failure !== null) throw this.#failure
    if (this.#next === slots) throw new RangeError(`the log is full: it has ${slots} entries`)
    return await new Promise((resolve, reject) => {
      this.#waiting.push({ index: this.#next++, bytes: Uint8Array.from(bytes), resolve, reject })
      if (!this.#isWriting) void this.#write()
    })
  }

  /**
   * The entries that are durable, from `from` on.
   *
   * @param {{ from?: number }} options
   */
  async *entries({ from = 0 } = {}) {
    const count = Math.max(0, this.length - from)
    for await (const record of this.#region.records({ from, count, blank: true })) {
      if (!record.written) throw new Error(`entry ${record.slot} is not there`)
      yield { index: record.slot, data: record.data }
    }
  }

  async #write() {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, GROUP)
      const ends = await this.#commit(group)
      for (const [i, entry] of group.entries()) this.#end(entry, ends[i])
    }
    this.#isWriting = false
  }

  /**
   * @param {readonly Waiting[]} group
   * @returns {Promise<readonly BatchRecord[]>}
   */
  async #commit(group) {
    if (this.#failure !== null) return []
    try {
      const batch = this.#region.batch({ condition: 'inOrder' })
      for (const { index, bytes } of group) batch.persist(index, bytes)
      return (await batch.commit()).records
    } catch (error) {
      this.#failure = error
      return []
    }
  }

  /**
   * Acknowledges an entry, or what comes from it on is over.
   *
   * @param {Waiting} entry
   * @param {BatchRecord | undefined} end
   */
  #end({ index, resolve, reject }, end) {
    if (end !== undefined && end.status !== 'durable') this.#failure ??= end.error
    if (this.#failure !== null) return reject(this.#failure)
    this.length = index + 1
    resolve(index)
  }
}
