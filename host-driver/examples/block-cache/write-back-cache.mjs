/**
 * A block cache before a slow store, in a region of records. It writes back: a block that was
 * written is durable on the card, and comes to the store later. Block b has one place: record
 * b modulo the number of records.
 *
 * Invariants:
 * - A record says which block it has, and whether the store has that content, too (clean) or not
 *   (dirty). All of that is one record: a block is never torn, and after a cut of the power its
 *   record is the old or the new one.
 * - Another block takes the place of a dirty one only when the store has synced that. So what the
 *   cache does not have the store has, and no read gives a block that is older than its last write.
 * - A record is made clean only where it still has what was synced.
 *
 * All reads and writes of the store go through one cache, in one program.
 */

import { replace, replaceAll } from '../replace.mjs'

/** @import { Region } from 'perdure' */

/**
 * What lies behind the cache.
 *
 * @typedef {object} Store
 * @property {(block: number) => Promise<Uint8Array>} read
 * @property {(block: number, bytes: Uint8Array) => Promise<void>} write
 * @property {() => Promise<void>} sync  what was written is durable when it resolves
 */

/** A record: the block, 8 bytes; 1 where it is dirty, 8 bytes; its content. */
const HEAD_BYTES = 16
/** Blocks that are synced, and made clean, together. */
const GROUP = 32

export class WriteBackCache {
  #region
  #store
  /** @type {Map<number, Promise<unknown>>} */
  #turns = new Map()

  /**
   * @param {Region} region  its records have 16 bytes more than a block
   * @param {Store} store
   */
  constructor(region, store) {
    this.#region = region
    this.#store = store
  }

  get blockBytes() {
    return this.#region.capacity - HEAD_BYTES
  }

  /**
   * @param {number} block
   * @returns {Promise<Uint8Array>}
   */
  read(block) {
    return this.#inTurn(block, async () => {
      const held = await this.#look(block)
      if (held.block === block) return held.bytes
      const bytes = await this.#store.read(block)
      await this.#put(block, bytes, false)
      return bytes
    })
  }

  /**
   * Durable on the card when it resolves.
   *
   * @param {number} block
   * @param {Uint8Array} bytes
   * @returns {Promise<void>}
   */
  async write(block, bytes) {
    const { blockBytes } = this
    if (bytes.length !== blockBytes) throw new RangeError(`a block has ${blockBytes} bytes`)
    const kept = Uint8Array.from(bytes)
    await this.#inTurn(block, () => this.#put(block, kept, true))
  }

  /** The blocks that the store does not have as they were written, also by a program before. */
  async dirty() {
    const blocks = []
    for await (const record of this.#region.records()) {
      const { block, isDirty } = parse(record)
      if (isDirty) blocks.push(block)
    }
    return blocks
  }

  /** Everything that was written before is durable in the store when it resolves. */
  async flush() {
    const blocks = await this.dirty()
    while (blocks.length > 0) {
      const group = blocks.splice(0, GROUP)
      const held = await Promise.all(group.map((block) => this.#writeBack(block)))
      await this.#store.sync()
      const clean = held
        .filter(({ isDirty }) => isDirty)
        .map(({ block, bytes, sequence }) => {
          return { slot: this.#slotOf(block), bytes: recordOf(block, bytes, false), sequence }
        })
      // What was written again meanwhile stays dirty.
      await replaceAll(this.#region, clean)
    }
  }

  /**
   * Puts a block into its place.
   *
   * @param {number} block
   * @param {Uint8Array} bytes
   * @param {boolean} isDirty
   */
  async #put(block, bytes, isDirty) {
    for (;;) {
      const held = await this.#look(block)
      if (held.isDirty && held.block !== block) {
        await this.#store.write(held.block, held.bytes)
        await this.#store.sync()
      }
      const record = recordOf(block, bytes, isDirty)
      // `flush` may have made it clean meanwhile: then once more.
      if (await replace(this.#region, this.#slotOf(block), record, held.sequence)) return
    }
  }

  /** Writes what stands in the place of a block to the store, where it is dirty. */
  #writeBack(/** @type {number} */ block) {
    return this.#inTurn(block, async () => {
      const held = await this.#look(block)
      if (held.isDirty) await this.#store.write(held.block, held.bytes)
      return held
    })
  }

  async #look(/** @type {number} */ block) {
    return parse(await this.#region.read(this.#slotOf(block)))
  }

  #slotOf(/** @type {number} */ block) {
    return block % this.#region.slots
  }

  /**
   * One access of a place at a time, in the order of the calls.
   *
   * @template T
   * @param {number} block
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(block, work) {
    const slot = this.#slotOf(block)
    const turn = (this.#turns.get(slot) ?? Promise.resolve()).then(work)
    this.#turns.set(
      slot,
      turn.catch(() => {}),
    )
    return turn
  }
}

/**
 * @param {number} block
 * @param {Uint8Array} bytes
 * @param {boolean} isDirty
 */
function recordOf(block, bytes, isDirty) {
  const record = Buffer.alloc(HEAD_BYTES + bytes.length)
  record.writeBigUInt64LE(BigInt(block))
  record.writeBigUInt64LE(isDirty ? 1n : 0n, 8)
  record.set(bytes, HEAD_BYTES)
  return record
}

/** @param {{ data: Uint8Array, sequence: bigint, written: boolean }} record */
function parse({ data, sequence, written }) {
  const head = Buffer.from(data.buffer, data.byteOffset, data.length)
  const block = written ? Number(head.readBigUInt64LE()) : -1
  const isDirty = written && head.readBigUInt64LE(8) === 1n
  return { block, isDirty, bytes: data.subarray(HEAD_BYTES), sequence }
}
