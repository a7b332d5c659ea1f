/** What the demo is told, and what it finds out. */

import type { CutReport, Engine } from '../../../boards/emulator/index.ts'
import type { PartStatus, RegionInfo, ReportEntry } from '../../control/part.ts'
import type { ScanResult } from '../../dpu.ts'
import type { Durability } from '../../way/durability.ts'
import type { WritingCost } from './cost.ts'

export interface DemoOptions {
  /** The file to persist; one of the demo's own where there is none. */
  readonly file?: string
  /** Where image, capture and own file go. */
  readonly folder: string
  readonly seed: number
  readonly level: Durability
  /** Record in whose commit the power goes, from 1; 0 for no cut, undefined for a seeded one. */
  readonly cut?: number
  readonly recordBytes: number
  /** Probability that a frame is lost, 0 to 0.5. */
  readonly loss: number
  readonly engine: Engine
  /** Told how many records there are; what it returns is told how many are durable. */
  readonly progress?: (records: number) => (durable: number) => void
  /** Told what happens, as it happens. */
  readonly say?: (line: string) => void
}

export interface DemoResult {
  readonly file: string
  readonly fileBytes: number
  readonly records: number
  readonly recordBytes: number
  readonly level: Durability
  readonly seed: number
  readonly engine: Engine
  readonly loss: number
  /**
   * Record in whose commit the power went, or null. Where frames are lost records come again, and
   * this counts those that came: `recovery` names the records that were in flight.
   */
  readonly cutRecord: number | null
  readonly cut: CutReport | null
  readonly acknowledgedBeforeCut: number
  /** Records that were acknowledged and are not there, whole, after recovery. */
  readonly acknowledgedLost: number
  readonly recovery: Recovered | null
  /** What writing the file took, from the first record to the last receipt, cut and all. */
  readonly writing: WritingCost
  readonly scan: ScanResult
  readonly shaWritten: string
  readonly shaRead: string
  /** Records that could not be read back whole. */
  readonly torn: number
  readonly virtualMs: number
  readonly realMs: number
  readonly image: string
  readonly capture: string
  /** What the card did around the cut, and the page of it. */
  readonly trace: string
  readonly timeline: string
  readonly ok: boolean
}

export interface Recovered {
  readonly status: PartStatus
  readonly entries: ReportEntry[]
  readonly regions: RegionInfo[]
}
