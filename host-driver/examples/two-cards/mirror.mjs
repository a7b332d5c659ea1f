/**
 * Records that are kept on two cards, each in a region of its own.
 *
 * Invariants:
 * - A write resolves when it is durable on both cards. So either card alone has all that was
 *   acknowledged.
 * - What a read has given is on both cards, too: where they differ, it stores the newer record on
 *   both before it resolves. So no card that goes away takes with it what somebody has read.
 * - Every call needs all cards that the mirror has. It is a decision of yours to go on without one
 *   (`without`): two cards cannot tell which of them is cut off.
 */

import { replace } from '../replace.mjs'

/** @import { ReadRecord, Region } from 'perdure' */

/** A record begins with its version, which grows with every write. */
const VERSION_BYTES = 8

/** Above every version that a card may have got that is not asked any more. */
const ALONE = 2n ** 32n

/**
 * What the cards have of a record.
 *
 * @typedef {object} Look
 * @property {readonly ReadRecord[]} records  one for each card
 * @property {ReadRecord} newest
 * @property {boolean} isSame  on all of them
 */

export class Mirror {
  #regions

  /** @param {readonly Region[]} regions  one on each card, alike */
  constructor(regions) {
    if (regions.length !== 1 && regions.length !== 2) throw new RangeError('one region, or two')
    this.#regions = [...regions]
  }

  /**
   * A mirror of those that are left. Whoever goes on with it never uses the card that was given up
   * by itself again: it joins as in `join`, or is formatted.
   *
   * @param {Region} region
   */
  without(region) {
    return new Mirror(this.#regions.filter((one) => one !== region))
  }

  /**
   * A mirror with one more card, which has all records when this resolves.
   *
   * @param {Region} region
   */
  async join(region) {
    const joined = new Mirror([...this.#regions, region])
    for (let slot = 0; slot < region.slots; slot++) await joined.read(slot)
    return joined
  }

  /**
   * The record, or null where none was written. Rejects where a card does not answer.
   *
   * @param {number} slot
   * @returns {Promise<Uint8Array | null>}
   */
  async read(slot) {
    for (;;) {
      const look = await this.#look(slot)
      const bytes = look.newest.data.subarray(VERSION_BYTES)
      if (!look.newest.written) return null
      if (look.isSame || (await this.#put(slot, bytes, look))) return bytes
    }
  }

  /**
   * Stores a record, durable on all cards when it resolves. After a rejection it is the old or the
   * new one: read it, or write it again, by a mirror of the cards that are left.
   *
   * @param {number} slot
   * @param {Uint8Array} bytes
   */
  async write(slot, bytes) {
    const kept = Uint8Array.from(bytes)
    while (!(await this.#put(slot, kept, await this.#look(slot)))) {
      // Somebody else was writing. What is stored last goes above it.
    }
  }

  /**
   * @param {number} slot
   * @returns {Promise<Look>}
   */
  async #look(slot) {
    const records = await Promise.all(this.#regions.map((region) => region.read(slot)))
    const newest = records.reduce((one, other) => (versionOf(other) > versionOf(one) ? other : one))
    const isSame = records.every(({ data }) => Buffer.compare(data, newest.data) === 0)
    return { records, newest, isSame }
  }

  /**
   * Stores it on all cards, where each still has what was seen; false: one of them has something
   * else.
   *
   * @param {number} slot
   * @param {Uint8Array} bytes
   * @param {Look} look
   */
  async #put(slot, bytes, { records, newest }) {
    const record = Buffer.alloc(VERSION_BYTES + bytes.length)
    record.writeBigUInt64LE(versionOf(newest) + (this.#regions.length === 1 ? ALONE : 1n))
    record.set(bytes, VERSION_BYTES)
    const puts = this.#regions.map((region, i) => {
      return replace(region, slot, record, records[i]?.sequence ?? 0n)
    })
    const ends = await Promise.allSettled(puts)
    const failed = ends.find((end) => end.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    return ends.every((end) => end.status === 'fulfilled' && end.value)
  }
}

/** @param {ReadRecord} record */
function versionOf({ written, data }) {
  return written ? Buffer.from(data.buffer, data.byteOffset).readBigUInt64LE() : 0n
}
