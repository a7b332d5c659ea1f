/**
 * A key-value store in a region of records. The hash of a key chooses eight records in a row, its
 * bucket; the key has one of them, permanently. Several programs may use a store at once.
 *
 * Invariants:
 * - A value is replaced by one record: after a cut of the power it is the old or the new one.
 * - Nothing is stored but over what was read there before. Who was too late reads again. So no key
 *   gets two records, and no value is lost under another program's.
 * - A deleted key keeps its record, without a value.
 */

import { guardOf } from 'perdure'
import { replace } from '../replace.mjs'

/** @import { Region } from 'perdure' */

/** Records of a bucket: so many are read at once. */
const BUCKET = 8

// A record: one byte, 1 where there is a value; two bytes, the length of the key; key; value.
const KEY_AT = 3

/** Somebody else has changed the value. */
export class Conflict extends Error {
  /** @override */
  name = 'Conflict'
}

export class KeyValueStore {
  #region

  /** @param {Region} region  has a multiple of eight records */
  constructor(region) {
    if (region.slots % BUCKET !== 0) throw new RangeError(`slots: a multiple of ${BUCKET}`)
    this.#region = region
  }

  /**
   * The value and its version, or null.
   *
   * @param {string} key
   * @returns {Promise<{ value: Uint8Array, version: bigint } | null>}
   */
  async get(key) {
    const { value, sequence } = await this.#find(key)
    return value === null ? null : { value, version: sequence }
  }

  /**
   * Sets the value, durable when it resolves. With a version only where the value still has that
   * one, or null where there is still none: otherwise it rejects with Conflict.
   *
   * @param {string} key
   * @param {Uint8Array} value
   * @param {{ version?: bigint | null }} options
   */
  async set(key, value, { version } = {}) {
    const bytes = recordOf(key, value)
    if (bytes.length > this.#region.capacity) {
      throw new RangeError(`key and value: at most ${this.#region.capacity - KEY_AT} bytes`)
    }
    await this.#change(key, bytes, version)
  }

  /**
   * Deletes the value, if there is one; otherwise as `set`.
   *
   * @param {string} key
   * @param {{ version?: bigint }} options
   */
  async delete(key, { version } = {}) {
    if ((await this.get(key)) === null && version === undefined) return
    await this.#change(key, recordOf(key, null), version)
  }

  /** All keys and their values, in no order. */
  async *entries() {
    for await (const { data } of this.#region.records()) {
      const { key, value } = parse(data)
      if (value !== null) yield { key: key.toString(), value }
    }
  }

  /**
   * @param {string} key
   * @param {Uint8Array} bytes
   * @param {bigint | null | undefined} version
   */
  async #change(key, bytes, version) {
    for (;;) {
      const { slot, sequence, value } = await this.#find(key)
      if (version !== undefined && version !== (value === null ? null : sequence)) {
        throw new Conflict(`somebody else has changed '${key}'`)
      }
      if (slot === null) throw new RangeError(`no record is left for '${key}': use more slots`)
      if (await replace(this.#region, slot, bytes, sequence)) return
    }
  }

  /**
   * The record of the key, or else the first of its bucket that is free, or null where none is.
   *
   * @param {string} key
   * @returns {Promise<{ slot: number | null, sequence: bigint, value: Uint8Array | null }>}
   */
  async #find(key) {
    const name = Buffer.from(key)
    const from = (guardOf(name) % (this.#region.slots / BUCKET)) * BUCKET
    /** @type {{ slot: number | null, sequence: bigint, value: null }} */
    let free = { slot: null, sequence: 0n, value: null }
    for await (const record of this.#region.records({ from, count: BUCKET, blank: true })) {
      const { slot, sequence, written, data } = record
      if (!written) {
        if (free.slot === null) free = { slot, sequence, value: null }
        continue
      }
      const found = parse(data)
      if (found.key.equals(name)) return { slot, sequence, value: found.value }
    }
    return free
  }
}

/**
 * @param {string} key
 * @param {Uint8Array | null} value
 */
function recordOf(key, value) {
  const name = Buffer.from(key)
  if (name.length > 0xffff) throw new RangeError(`a key of ${name.length} bytes: at most 65535`)
  const head = Uint8Array.of(value === null ? 0 : 1, name.length & 0xff, name.length >> 8)
  return Buffer.concat([head, name, value ?? Buffer.alloc(0)])
}

/**
 * @param {Uint8Array} data
 * @returns {{ key: Buffer, value: Uint8Array | null }}
 */
function parse(data) {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length)
  const end = KEY_AT + bytes.readUInt16LE(1)
  return { key: bytes.subarray(KEY_AT, end), value: bytes[0] === 1 ? data.subarray(end) : null }
}
