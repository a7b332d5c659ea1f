/**
 * One file on its way into a region.
 *
 * Invariants:
 * - The header is written twice, first and last: so it says at any time what can be read.
 * - What is told durable was acknowledged, or was there as it shall be; it has no gap.
 * - What is called whole is what the file had when the command began.
 */

import { createHash, type Hash } from 'node:crypto'
import { ArgumentError } from '../../base/errors.ts'
import type { Region } from '../../records/region.ts'
import { whenInterrupted } from '../base/interrupts.ts'
import type { Output } from '../base/output.ts'
import { ChangedFileError, type Content, sha256Of } from './content.ts'
import { type FileAbout, headerRecord, padded, readHeader } from './header.ts'
import { standingFrom } from './standing.ts'
import { type GoOn, type Reached, sayStopped } from './stopped.ts'
import { Writing, type WritingOptions } from './writing.ts'

export interface PersistingOptions extends WritingOptions {
  readonly slot: number
  /** The records alone, without a header. */
  readonly raw?: boolean
  /** What is there already is left as it is. */
  readonly resume?: boolean
  readonly goOn: GoOn
}

export class Persisting {
  readonly region: Region
  readonly content: Content
  readonly writing: Writing
  readonly reached: Reached
  /** Records that were there when it began. */
  already = 0
  /** Of the content, when all of it is durable. */
  sha256 = ''
  private readonly options: PersistingOptions
  private readonly output: Output

  /** Throws ArgumentError where the region does not take such a file. */
  constructor(region: Region, content: Content, options: PersistingOptions, output: Output) {
    const { bytes } = content
    const { name, capacity, fixedLength } = region
    const isRaw = options.raw === true
    if (isRaw && fixedLength && (bytes === 0 || bytes % capacity !== 0)) {
      throw new ArgumentError(`'${name}' takes whole records of ${capacity} bytes only`)
    }
    this.region = region
    this.content = content
    this.options = options
    this.output = output
    this.writing = new Writing(region, options)
    // Where no header tells of it, a file of no bytes is one empty record.
    const records = Math.max(Math.ceil(bytes / capacity), isRaw ? 1 : 0)
    this.reached = { durable: 0, records, slot: options.slot + (isRaw ? 0 : 1) }
  }

  /** Makes it durable. If it does not come to the end, it says how far it has come. */
  async run(): Promise<void> {
    const { raw, resume } = this.options
    if (raw !== true) this.sha256 = await sha256Of(this.content)
    const stopped = (): void => sayStopped(this.output, this.reached, this.options.goOn)
    const listensNoMore = whenInterrupted(stopped)
    try {
      if (resume === true) await this.lookForThose()
      if (raw === true) this.sha256 = await this.writeRest()
      else await this.writeWhole()
    } catch (error) {
      if (this.reached.durable > 0) stopped()
      throw error
    } finally {
      listensNoMore()
    }
  }

  /** Counts those that are there. */
  private async lookForThose(): Promise<void> {
    const { region, reached, content } = this
    const shown = this.output.progress('compared', content.bytes, 'bytes')
    const { slot, records } = reached
    this.already = await standingFrom(region, slot, records, this.recordsFrom(0), () => {
      reached.durable++
      shown(this.durableBytes)
    })
  }

  private async writeWhole(): Promise<void> {
    const { region, content, options, writing, sha256 } = this
    const about = { recordBytes: region.capacity, length: content.bytes, sha256 }
    const found = options.resume === true ? await readHeader(region, options.slot) : null
    const isOurs = found !== null && isOfSame(found, about)
    if (isOurs && found.isWhole && this.already === this.reached.records) return
    const say = (isWhole: boolean): Promise<void> =>
      writing.one(options.slot, headerRecord(region, { ...about, isWhole }))
    if (!isOurs || found.isWhole) await say(false)
    if ((await this.writeRest()) !== sha256) throw new ChangedFileError()
    await say(true)
  }

  /** Writes what is not there; the SHA-256 of all of it. */
  private async writeRest(): Promise<string> {
    const { reached, writing, already, content } = this
    const before = this.durableBytes
    const shown = this.output.progress('durable', content.bytes, 'bytes', before)
    const hash = createHash('sha256')
    await writing.all(reached.slot + already, this.recordsFrom(already, hash), () => {
      reached.durable++
      shown(this.durableBytes)
    })
    return hash.digest('hex')
  }

  private get durableBytes(): number {
    return Math.min(this.reached.durable * this.region.capacity, this.content.bytes)
  }

  /** The records from that one on; `hash` takes the content of all. */
  private async *recordsFrom(from: number, hash?: Hash): AsyncGenerator<Uint8Array> {
    let records = 0
    for await (const piece of this.content.pieces(this.region.capacity)) {
      hash?.update(piece)
      if (records++ >= from) yield padded(this.region, piece)
    }
    if (records === 0 && from < this.reached.records) yield new Uint8Array(0)
  }
}

function isOfSame(one: FileAbout, other: FileAbout): boolean {
  const { recordBytes, length, sha256 } = other
  return one.recordBytes === recordBytes && one.length === length && one.sha256 === sha256
}
