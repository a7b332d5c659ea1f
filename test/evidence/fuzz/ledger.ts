/**
 * What a shard of the fuzzing has met: inputs, cells, answers, and what must not be.
 *
 * Invariant: counting allocates nothing. Distinct inputs are estimated by a sketch of their
 * hashes (HyperLogLog, 2^14 registers, about one per cent), which follows from the inputs alone.
 */

import { FAULTS } from '../../../firmware/board/fault.ts'
import { OPCODES } from '../../../firmware/wire/opcode.ts'
import type { Tally, Violation } from '../stage.ts'

/** What the destination of a frame is like when it arrives. */
const STATES: readonly string[] = [
  'unknown',
  'management',
  'fresh',
  'used',
  'error',
  'in a WRITE',
  'in a WRITE_PERSIST',
  'in a record by WRITE',
  'in a SEND',
  'in a batch',
  'in a long READ',
  'gap told',
  'unanswered',
  'acknowledgement due',
]

const FAULT_PLACES = 128
const STATE_PLACES = 16
const SKETCH_BITS = 14
const DESCRIBED_MAX = 5

/** A hash step (a round of MurmurHash3). */
export function mix(hash: number, word: number): number {
  let k = Math.imul(word, 0xcc9e2d51)
  k = (k << 15) | (k >>> 17)
  let h = hash ^ Math.imul(k, 0x1b873593)
  h = (h << 13) | (h >>> 19)
  return (Math.imul(h, 5) + 0xe6546b64) | 0
}

/** The end of a hash: every bit counts for every bit. */
export function finish(hash: number): number {
  let h = hash ^ (hash >>> 16)
  h = Math.imul(h, 0x85ebca6b)
  h ^= h >>> 13
  h = Math.imul(h, 0xc2b2ae35)
  return h ^ (h >>> 16)
}

export class Ledger {
  readonly target: string
  readonly shard: string
  inputs = 0
  seeds = 0
  violations = 0
  readonly described: Violation[] = []
  readonly more: Record<string, number> = {}
  /** By opcode, fault and state. */
  readonly cells: Uint32Array = new Uint32Array(256 * FAULT_PLACES * STATE_PLACES)
  /** Refusals by fault, wherever they were counted. */
  readonly refusals: Float64Array = new Float64Array(FAULTS.length)
  /** Answers by opcode and syndrome. */
  readonly answers: Uint32Array = new Uint32Array(256 * 256)
  /** Further cells by name. */
  readonly named: Record<string, number> = {}
  private readonly sketch: Uint8Array = new Uint8Array(1 << SKETCH_BITS)

  constructor(target: string, shard: string) {
    this.target = target
    this.shard = shard
  }

  /** An input with that hash. */
  see(hash: number): void {
    this.inputs++
    const h = finish(hash)
    const rank = Math.clz32(h << SKETCH_BITS) + 1
    const place = h >>> (32 - SKETCH_BITS)
    if (rank > this.sketch[place]!) this.sketch[place] = rank
  }

  meet(opcode: number, fault: number, state: number): void {
    const at = (opcode * FAULT_PLACES + fault) * STATE_PLACES + state
    this.cells[at] = this.cells[at]! + 1
  }

  name(cell: string, times = 1): void {
    this.named[cell] = (this.named[cell] ?? 0) + times
  }

  count(what: string, times = 1): void {
    this.more[what] = (this.more[what] ?? 0) + times
  }

  object(what: string, replay: string): void {
    this.violations++
    if (this.described.length >= DESCRIBED_MAX) return
    this.described.push({ shard: this.shard, what, replay })
  }

  /** How many inputs differ. */
  distinct(): number {
    const registers = this.sketch.length
    let sum = 0
    let zeros = 0
    for (const rank of this.sketch) {
      sum += 2 ** -rank
      if (rank === 0) zeros++
    }
    const estimate = ((0.7213 / (1 + 1.079 / registers)) * registers * registers) / sum
    const few = estimate < 2.5 * registers && zeros > 0
    const best = few ? registers * Math.log(registers / zeros) : estimate
    return Math.min(this.inputs, Math.round(best))
  }

  tally(): Tally {
    return {
      count: this.inputs,
      distinct: this.distinct(),
      seeds: this.seeds,
      violations: this.violations,
      described: this.described,
      more: this.more,
      cells: this.cellsByName(),
      pictures: [],
    }
  }

  private cellsByName(): Record<string, number> {
    const cells: Record<string, number> = { ...this.named }
    const add = (name: string, times: number): void => {
      cells[name] = (cells[name] ?? 0) + times
    }
    this.cells.forEach((times, at) => {
      if (times === 0) return
      const state = STATES[at % STATE_PLACES]!
      const fault = Math.floor(at / STATE_PLACES) % FAULT_PLACES
      const opcode = Math.floor(at / (STATE_PLACES * FAULT_PLACES))
      add(opcodeCell(opcode), times)
      const name = OPCODES[opcode]?.name ?? (opcode < 32 ? 'reserved' : 'another transport')
      const said = fault === 0 ? 'taken' : FAULTS[fault]!.name
      add(`${this.target}: ${name}, ${said}, ${state}`, times)
    })
    this.refusals.forEach((times, fault) => {
      if (times > 0) add(refusalCell(fault), times)
    })
    this.answers.forEach((times, at) => {
      if (times === 0) return
      const opcode = OPCODES[at >> 8]?.name ?? `0x${(at >> 8).toString(16)}`
      add(`${this.target}: answered ${opcode} 0x${(at & 255).toString(16)}`, times)
    })
    return cells
  }
}

export function opcodeCell(opcode: number): string {
  return `opcode 0x${opcode.toString(16).padStart(2, '0')}`
}

export function refusalCell(fault: number): string {
  return `refused ${FAULTS[fault]!.name}`
}
