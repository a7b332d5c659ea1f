/**
 * The registrar: it finds out on the target machine how what the card writes into the host's memory
 * becomes durable, and tells the card (source 2, virtual address registration; P2-12).
 *
 *   card   writes a new number into lines of memory, as usual and asking for no-snoop
 *   CPU    loads each of them and takes the time: it was in the cache, or it was not
 *
 * Invariants:
 * - Nothing is believed that was not measured in this power-on. Each line is measured several
 *   times, its median counts, and all lines of a kind must agree: what does not is `unknown`, and
 *   the card refuses to write there.
 * - The measure itself is checked first: unless hits and misses can be told apart, nothing can.
 * - An operator may ask for a placement; the probe decides. Asked for another one, it is refused.
 */

import { LINE_BYTES } from '../../firmware/board/limits.ts'
import { PROBE_LINES, PROBE_NUMBER_BYTES } from '../../firmware/commit/proof.ts'
import { HOST_PROBE_AT } from '../../firmware/medium/region.ts'
import { copyOf } from '../base/bytes.ts'
import { PerdureError } from '../base/errors.ts'
import { check, checkField, having, oneOf } from '../base/kinds.ts'
import { type MemoryPiece, PIECES } from '../base/pieces.ts'

/** The target machine's CPU, and its memory that the card sees. Offsets and lengths are bytes. */
export interface HostCpu {
  /** The pieces that the offsets run through (cpuInPieces); without them the card's window. */
  readonly pieces?: readonly MemoryPiece[]
  /** The platform states that its memory controllers' buffers survive a power cut (ADR). */
  readonly statesAdr: boolean
  /** The bytes, null where the medium fails, and how long the load took in any unit. */
  load(at: number, length: number): { readonly bytes: Uint8Array | null; readonly ns: number }
  /** Writes the lines back and takes them out of the cache. */
  evict(at: number, length: number): void
}

/** What is asked of the card. */
export interface PlacementControl {
  /**
   * Writes the lines of a new probe, for who looks through these pieces, none for the card's
   * window. Rejects with the card's refusal: PIECES, if others hold.
   */
  probe(pieces?: readonly MemoryPiece[]): Promise<void>
  /**
   * Says what was seen of them: 1 past the cache, 2 through it, 0 unknown. Rejects with the card's
   * refusal.
   */
  place(seen: number, statesAdr: boolean, number: Uint8Array): Promise<void>
}

export type PlacementName = 'bypass' | 'through'

const NAMES: readonly PlacementName[] = ['bypass', 'through']

const CPU = having(['load', 'evict'], 'a HostCpu')
const CONTROL = having(['probe', 'place'], 'a PlacementControl')
const WISH = oneOf(NAMES)

/** What the probe found. */
export interface ProbeResult {
  readonly placement: PlacementName | 'unknown'
  /** Why, in one line. */
  readonly reason: string
  /** Times of a load that hits the cache and of one that does not: the medians. */
  readonly hitNs: number
  readonly missNs: number
  /** Share of lines found in the cache: written as usual, and asking for no-snoop. */
  readonly cached: number
  readonly cachedNoSnoop: number
}

/** The probe did not show the placement that was asked for, or none at all. */
export class PlacementRefused extends PerdureError {
  readonly result: ProbeResult

  constructor(what: string, result: ProbeResult) {
    super('PERDURE_REFUSED', `${what}: ${result.reason}`)
    this.result = result
  }
}

/** How often each line is measured. */
const ROUNDS = 9

/** A miss takes at least so many times as long as a hit, or the two cannot be told apart. */
const APART = 2

/** Lines behind those of the probe, for the measure of the measure. */
const CALIBRATION_AT: number = HOST_PROBE_AT + 2 * PROBE_LINES * LINE_BYTES
const CALIBRATION_LINES = 16

function median(of: readonly number[]): number {
  return [...of].sort((a, b) => a - b)[of.length >> 1]!
}

/** Times of loads that hit for sure, and that miss for sure. */
function calibrate(cpu: HostCpu): { readonly hitNs: number; readonly missNs: number } {
  const hits: number[] = []
  const misses: number[] = []
  for (let i = 0; i < CALIBRATION_LINES; i++) {
    const at = CALIBRATION_AT + i * LINE_BYTES
    cpu.evict(at, LINE_BYTES)
    misses.push(cpu.load(at, LINE_BYTES).ns)
    hits.push(cpu.load(at, LINE_BYTES).ns)
  }
  return { hitNs: median(hits), missNs: median(misses) }
}

/** Share of the lines whose median is that of a hit. */
function shareOf(times: readonly number[][], limitNs: number): number {
  return times.filter((line) => median(line) < limitNs).length / times.length
}

/** Measures, and decides nothing yet. `number` is what the last probe left, or null. */
async function measure(
  cpu: HostCpu,
  control: PlacementControl,
): Promise<{ readonly times: number[][]; readonly number: Uint8Array | null }> {
  const times: number[][] = Array.from({ length: 2 * PROBE_LINES }, () => [])
  let number: Uint8Array | null = null
  for (let round = 0; round < ROUNDS; round++) {
    cpu.evict(HOST_PROBE_AT, times.length * LINE_BYTES)
    await control.probe(cpu.pieces)
    const seen = new Set<string>()
    times.forEach((line, i) => {
      const { bytes, ns } = cpu.load(HOST_PROBE_AT + i * LINE_BYTES, LINE_BYTES)
      line.push(ns)
      number = bytes && copyOf(bytes.subarray(0, PROBE_NUMBER_BYTES))
      seen.add(Buffer.from(number ?? []).toString('hex'))
    })
    if (seen.size !== 1) return { times, number: null }
  }
  return { times, number }
}

function decide(
  cached: number,
  cachedNoSnoop: number,
): { readonly placement: ProbeResult['placement']; readonly reason: string } {
  if (cached === 0) return { placement: 'bypass', reason: 'writes go past the cache' }
  if (cached === 1 && cachedNoSnoop === 0) {
    return { placement: 'bypass', reason: 'writes that ask for no-snoop go past the cache' }
  }
  if (cached === 1 && cachedNoSnoop === 1) {
    return { placement: 'through', reason: 'writes go into the cache' }
  }
  return { placement: 'unknown', reason: 'some writes go into the cache and some do not' }
}

/**
 * Probes, and tells the card what was seen. Where it is nothing certain, the card is told so, and
 * PlacementRefused is thrown; likewise where `wish` is another placement. Also throws what
 * `control` throws: PLACEMENT_UNKNOWN, if the card does not believe it. PERDURE_ARGUMENT comes
 * before anything is measured.
 */
export async function probePlacement(
  cpu: HostCpu,
  control: PlacementControl,
  wish?: PlacementName,
): Promise<ProbeResult> {
  check('cpu', cpu, CPU)
  if (cpu.pieces !== undefined) checkField('cpu', 'pieces', cpu.pieces, PIECES)
  check('control', control, CONTROL)
  if (wish !== undefined) check('placement', wish, WISH)
  const { hitNs, missNs } = calibrate(cpu)
  const { times, number } = await measure(cpu, control)
  const limitNs = (hitNs + missNs) / 2
  const cached = shareOf(times.slice(0, PROBE_LINES), limitNs)
  const cachedNoSnoop = shareOf(times.slice(PROBE_LINES), limitNs)
  let found = decide(cached, cachedNoSnoop)
  if (missNs < APART * hitNs) {
    found = { placement: 'unknown', reason: 'hits and misses of the cache cannot be told apart' }
  }
  if (number === null) {
    found = { placement: 'unknown', reason: 'the memory that the card writes is not this one' }
  }
  if (!cpu.statesAdr) {
    found = { placement: 'unknown', reason: 'the platform does not state ADR' }
  }
  const result: ProbeResult = { ...found, hitNs, missNs, cached, cachedNoSnoop }
  const contradicted = wish !== undefined && wish !== result.placement
  const seen = contradicted ? 0 : NAMES.indexOf(result.placement as PlacementName) + 1
  const none = new Uint8Array(PROBE_NUMBER_BYTES)
  if (seen === 0) {
    // The card refuses as well, which is what it is told for.
    await control.place(0, cpu.statesAdr, number ?? none).catch(() => {})
    const what = contradicted ? `placement '${wish}' was asked for` : 'the placement is unknown'
    throw new PlacementRefused(what, result)
  }
  await control.place(seen, true, number!)
  return result
}
