/**
 * A card whose NVDIMM is as large as the test says, of which two windows are there: the beginning,
 * with superblock, lanes and operation table, and the end, with the records. Both lie in one small
 * dense part; what is between them is an address range that nobody has filled.
 *
 * Invariants:
 * - The firmware sees the large part: its facts state it, and its addresses are those of the large
 *   part. Between the firmware and the emulated machine they are moved, and moved back behind it.
 * - A command outside both windows throws: nothing far away is read or written unseen.
 * - Every line of the medium that a command reads is counted here, command by command, whatever the
 *   firmware says of itself: how often, and how many different ones.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import {
  CHECK,
  COMMAND_WORDS,
  COMMANDS_AT,
  COMPARE,
  COPY,
  COPY_CLEAN,
  type Facts,
  FENCE,
  FROM,
  LENGTH,
  type Machine,
  NVDIMM_SPACE,
  OP,
  SKIP,
  SPACE_BYTES,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { COMMANDS_MAX } from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES, STAGING_AT } from '../../../firmware/board/memory-map.ts'
import { start } from '../../../firmware/main.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { LINE_BYTES } from '../../support/judges/oracle.ts'

/** Packet memory, of one card after the other. */
const PACKETS: Uint8Array = new Uint8Array(MEMORY_BYTES)

/** Lines of the medium that commands have read. */
class LineCount {
  /** A line counts every time. */
  reads = 0
  private readonly lines = new Set<number>()

  /** A line counts once. */
  get distinct(): number {
    return this.lines.size
  }

  add(offset: number, length: number): void {
    const last = Math.floor((offset + length - 1) / LINE_BYTES)
    for (let line = Math.floor(offset / LINE_BYTES); line <= last; line++) {
      this.reads += 1
      this.lines.add(line)
    }
  }
}

/** Moves the addresses of a large part into the small one behind it, and counts what is read. */
class SparseMachine implements Machine {
  readonly facts: Facts
  readonly memory: ArrayBuffer
  /** What is read is counted here, or not at all. */
  count: LineCount | null
  private readonly inner: EmulatedMachine
  private readonly words: Float64Array
  private readonly kept = new Float64Array(COMMANDS_MAX * 2)

  constructor(inner: EmulatedMachine, count: LineCount) {
    this.facts = inner.facts
    this.memory = inner.memory
    this.inner = inner
    this.count = count
    this.words = new Float64Array(inner.memory, COMMANDS_AT, COMMANDS_MAX * COMMAND_WORDS)
  }

  run(count: number): number {
    const { words, kept } = this
    for (let i = 0; i < count; i++) {
      const at = i * COMMAND_WORDS
      kept[2 * i] = words[at + FROM]!
      kept[2 * i + 1] = words[at + TO]!
      words[at + FROM] = this.near(words[at + FROM]!, words[at + LENGTH]!)
      words[at + TO] = this.near(words[at + TO]!, words[at + LENGTH]!)
    }
    const done = this.inner.run(count)
    for (let i = 0; i < count; i++) {
      const at = i * COMMAND_WORDS
      words[at + FROM] = kept[2 * i]!
      words[at + TO] = kept[2 * i + 1]!
      if (i < done && this.count !== null) this.countReads(at)
    }
    return done
  }

  /** Where an address of the large part lies in the small one. */
  private near(address: number, length: number): number {
    const offset = address - NVDIMM_SPACE
    if (offset < 0 || offset >= SPACE_BYTES) return address
    const { bytes } = this.inner.nvdimm
    const window = bytes / 2
    if (offset + length <= window) return address
    const fromEnd = this.facts.nvdimmBytes - offset
    if (fromEnd < length || fromEnd > window) {
      throw new RangeError(`a command at byte ${offset} of the part, where nothing is`)
    }
    return NVDIMM_SPACE + bytes - fromEnd
  }

  private countReads(at: number): void {
    const { words } = this
    const op = words[at + OP]!
    if (op === SKIP || op === FENCE || op === TRANSMIT) return
    const reads = op === COPY || op === COPY_CLEAN || op === CHECK || op === COMPARE
    if (reads) this.countRead(words[at + FROM]!, words[at + LENGTH]!)
    if (op === COMPARE) this.countRead(words[at + TO]!, words[at + LENGTH]!)
  }

  private countRead(address: number, length: number): void {
    const offset = address - NVDIMM_SPACE
    if (offset >= 0 && offset < SPACE_BYTES && length > 0) this.count!.add(offset, length)
  }
}

/** A DPU on such a part, without clock and link. */
interface SparseCard {
  readonly card: TestCard
  /** What the start has read, recovery and all. */
  readonly atStart: LineCount
}

export function sparseCard(part: Nvdimm, nvdimmBytes: number): SparseCard {
  // One card serves at a time. Single packets never reach the staging buffers behind.
  PACKETS.fill(0, 0, STAGING_AT)
  const atStart = new LineCount()
  const boot = (machine: EmulatedMachine): FirmwareEngine => {
    const sparse = new SparseMachine(machine, atStart)
    const firmware = start(sparse)
    sparse.count = null
    return {
      serve: (count, nowUs) => firmware.serve(count, nowUs),
      idle: (nowUs) => firmware.idle(nowUs),
      memoryUsed: () => 0,
      dispose: () => {},
    }
  }
  const card = new TestCard(part, { facts: { nvdimmBytes }, packets: PACKETS, start: boot })
  return { card, atStart }
}
