/**
 * Records of a region on their way out: a file as `persist` has stored it, or slots as they are.
 *
 * Invariant: each record is verified end to end. A file is called whole when its length and
 * its SHA-256 are those that were kept with it; whatever else stands in its slots is told, and ends
 * the reading. A few records are in memory at once.
 */

import { createHash, type Hash } from 'node:crypto'
import type { SlotRead } from '../../records/records.ts'
import type { Region } from '../../records/region.ts'
import { writeAll } from '../base/into-file.ts'
import type { Output } from '../base/output.ts'
import { type Header, readHeader, recordsOf, StoredFileError } from './header.ts'

/** Where data goes: into a file that is open, or, without one, to standard output. */
export class Reading {
  private readonly region: Region
  private readonly file: number | null
  private readonly output: Output
  private readonly hash: Hash = createHash('sha256')
  private records = 0
  private bytes = 0

  constructor(region: Region, file: number | null, output: Output) {
    this.region = region
    this.file = file
    this.output = output
  }

  /** The records of these slots, as they are; those that nobody has written are left out. */
  async slots(first: number, last: number): Promise<void> {
    const shown = this.output.progress('read', last - first + 1)
    for await (const record of this.each(first, last)) {
      if (record.written) await this.take(record, record.data)
      shown(record.slot - first + 1)
    }
    this.sayRead(this.hash.digest('hex'))
  }

  /** The file that begins at that slot. Throws StoredFileError where none is whole there. */
  async fileAt(slot: number): Promise<void> {
    const header = await this.wholeAt(slot)
    const { length, recordBytes } = header
    const shown = this.output.progress('read', length, 'bytes')
    for await (const record of this.each(slot + 1, slot + recordsOf(header))) {
      const part = Math.min(recordBytes, length - this.bytes)
      const bytes = this.region.fixedLength ? this.region.capacity : part
      if (!record.written || record.data.length !== bytes) {
        throw this.mixed(slot, `slot ${record.slot}`)
      }
      await this.take(record, record.data.subarray(0, part))
      shown(this.bytes)
    }
    const sha256 = this.hash.digest('hex')
    if (sha256 !== header.sha256) throw this.mixed(slot, 'its slots')
    const { records, bytes, region } = this
    const about = { region: region.name, firstSlot: slot, records, bytes, sha256 }
    if (this.output.json) this.output.printJson(about)
    this.sayRead(sha256)
  }

  private async wholeAt(slot: number): Promise<Header> {
    const header = await readHeader(this.region, slot)
    const where = `at slot ${slot} of '${this.region.name}'`
    if (header === null) {
      const how = '--slot says where one does, --raw gives the records as they are'
      throw new StoredFileError('FILE_NONE', `no file begins ${where}: ${how}`)
    }
    if (header.isWhole) return header
    const what = `the file ${where} is not whole: 'perdure persist' was stopped, or is at work`
    const how = 'The same command with --resume completes it; --raw gives what is there.'
    throw new StoredFileError('FILE_UNDER_WAY', `${what}. ${how}`)
  }

  private mixed(slot: number, where: string): StoredFileError {
    const what = `the file at slot ${slot} of '${this.region.name}' is no more what was stored`
    const why = `somebody has written into ${where} since`
    return new StoredFileError('FILE_MIXED', `${what}: ${why}. --raw gives what is there.`)
  }

  private each(first: number, last: number): AsyncIterable<SlotRead> {
    return this.region.records({ from: first, count: last - first + 1, blank: true })
  }

  private async take(record: SlotRead, data: Uint8Array): Promise<void> {
    this.records++
    this.bytes += data.length
    this.hash.update(data)
    const { file, output } = this
    if (file !== null) writeAll(file, data)
    else if (!output.json) await writeOut(data)
    if (!output.json) return
    const { slot, data: _, written: __, ...about } = record
    const shown = { slot, length: data.length, ...about }
    output.printJson(file === null ? { ...shown, data } : shown)
  }

  private sayRead(sha256: string): void {
    this.output.say(`${this.records} records, ${this.bytes} bytes, SHA-256 ${sha256}`)
  }
}

/** Waits until standard output has taken the bytes, however slow its reader is. */
function writeOut(data: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(data, (error) => (error ? reject(error) : resolve()))
  })
}
