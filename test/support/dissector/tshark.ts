/** tshark with a dissector of ours and nothing else of its user. */

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PcapWriter } from '../../../host-driver/way/pcap.ts'
import { ROOT } from '../source/sources.ts'

export const HAS_TSHARK: boolean = spawnSync('tshark', ['--version']).error === undefined

/** Sources of the dissector. */
export const SOURCES: string = join(ROOT, 'host-driver/command/capture/dissector')

/** What separates occurrences of one field. */
const AND = ';'

/** One frame: its fields that are there, each with every occurrence. */
export type Row = ReadonlyMap<string, readonly string[]>

export class Tshark {
  readonly home: string

  constructor() {
    this.home = mkdtempSync(join(tmpdir(), 'tshark-'))
  }

  /** Takes that text for its dissector. */
  install(text: string): void {
    const folder = join(this.home, '.local/lib/wireshark/plugins')
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'perdure.lua'), text)
  }

  /** Writes frames, a microsecond after each other or at those times, into a file of its home. */
  capture(name: string, frames: readonly Uint8Array[], timesUs: readonly number[] = []): string {
    const file = join(this.home, name)
    const pcap = new PcapWriter(file)
    frames.forEach((frame, i) => {
      pcap.add(timesUs[i] ?? i, frame)
    })
    pcap.close()
    return file
  }

  /** What it prints. Throws where it fails, and where any Lua does. */
  run(...args: string[]): string {
    const { HOME: _, XDG_CONFIG_HOME: __, ...rest } = process.env
    const env = { ...rest, HOME: this.home }
    const { stdout, stderr, status } = spawnSync('tshark', args, {
      ...{ env, encoding: 'utf8', maxBuffer: 1 << 28 },
    })
    if (status !== 0 || /lua/i.test(stderr)) throw new Error(`tshark ${args.join(' ')}: ${stderr}`)
    return stdout
  }

  /** Those fields of every frame; `-2` has it read the file twice, as Wireshark does. */
  rows(file: string, fields: readonly string[], ...more: string[]): Row[] {
    const asked = fields.flatMap((field) => ['-e', field])
    const form = ['-T', 'fields', '-E', 'occurrence=a', '-E', `aggregator=${AND}`]
    const lines = this.run('-r', file, ...more, ...form, ...asked)
      .split('\n')
      .slice(0, -1)
    return lines.map((line) => {
      const cells = line.split('\t').map((cell, i) => [fields[i]!, cell] as const)
      return new Map(
        cells.filter(([, cell]) => cell !== '').map(([field, cell]) => [field, cell.split(AND)]),
      )
    })
  }

  close(): void {
    rmSync(this.home, { recursive: true, force: true })
  }
}
