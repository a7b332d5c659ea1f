/**
 * The pieces of the target machine's persistent memory that its card is to use: they may lie
 * anywhere in it, and the card's offsets run through them, one behind the other (source 2, virtual
 * address registration).
 *
 *     await dpu.host.statePieces(pieces)
 *     await probePlacement(cpuInPieces(cpu, pieces), dpu.host)
 *     await startFlushAgent(memoryInPieces(memory, pieces), dpu.host, device)
 *
 * Invariants:
 * - Registrar and flush agent speak of offsets as the card does. Each is translated here, and what
 *   leaves a piece goes on in the next one: a range that lies in two is written back in both.
 * - The pieces are stated in each life of the machine, before its probe. Registrar and agent name
 *   those that they look through, and are refused where others hold by then (PIECES): nothing is
 *   proven, and nothing is written back, in other places than the card means. The card refuses
 *   others than those that its regions lie in, likewise, and nothing has changed then.
 */

import { check, having, type Kind } from '../base/kinds.ts'
import { type MemoryPiece, PIECES } from '../base/pieces.ts'
import type { HostMemory } from './flush-agent.ts'
import type { HostCpu } from './registrar.ts'

/** What is asked of the card. */
export interface PiecesControl {
  /**
   * States the pieces; resolves to those that hold now. Rejects with the card's refusal: PIECES, if
   * regions lie elsewhere by them; REQUEST, if they leave the window.
   */
  statePieces(pieces: readonly MemoryPiece[]): Promise<readonly MemoryPiece[]>
}

const CPU = inWindow(having(['load', 'evict'], 'a HostCpu'))
const MEMORY = inWindow(having(['load', 'clean', 'fence'], 'a HostMemory'))

/** Of that kind, and its offsets are not in pieces already, which would be named no more. */
function inWindow(kind: Kind): Kind {
  const takes = (value: unknown): boolean =>
    kind.takes(value) && (value as { pieces?: unknown }).pieces === undefined
  return { give: `${kind.give}, whose offsets are those of the window`, takes }
}

/** A CPU whose offsets are those of the card, for the registrar. Throws PERDURE_ARGUMENT. */
export function cpuInPieces(cpu: HostCpu, pieces: readonly MemoryPiece[]): HostCpu {
  check('cpu', cpu, CPU)
  const held = heldFrom(pieces)
  const runs = runsOf(held)
  return {
    pieces: held,
    get statesAdr() {
      return cpu.statesAdr
    },
    load: (at, length) => {
      let ns = 0
      const bytes = gather(runs, at, length, (place, run) => {
        const part = cpu.load(place, run)
        ns += part.ns
        return part.bytes
      })
      return { bytes, ns }
    },
    evict: (at, length) => runs(at, length, (place, run) => cpu.evict(place, run)),
  }
}

/** Memory whose offsets are those of the card, for the flush agent. Throws PERDURE_ARGUMENT. */
export function memoryInPieces(memory: HostMemory, pieces: readonly MemoryPiece[]): HostMemory {
  check('memory', memory, MEMORY)
  const held = heldFrom(pieces)
  const runs = runsOf(held)
  return {
    pieces: held,
    load: (at, length) => ({
      bytes: gather(runs, at, length, (place, run) => memory.load(place, run).bytes),
    }),
    clean: (at, length) => runs(at, length, (place, run) => memory.clean(place, run)),
    fence: () => memory.fence(),
  }
}

/** Does something with each run of bytes that lies in one piece, in order. */
type Runs = (at: number, length: number, take: (place: number, run: number) => void) => void

/** The pieces as they are now, whatever the caller does to them later. */
function heldFrom(given: readonly MemoryPiece[]): readonly MemoryPiece[] {
  check('pieces', given, PIECES)
  return given.map(({ at, bytes }) => ({ at, bytes }))
}

function runsOf(pieces: readonly MemoryPiece[]): Runs {
  return (from, length, take) => {
    let first = 0
    for (const { at, bytes } of pieces) {
      const begin = Math.max(from, first)
      const run = Math.min(from + length, first + bytes) - begin
      if (run > 0) take(at + begin - first, run)
      first += bytes
    }
    if (from + length > first) {
      throw new RangeError(`the pieces have ${first} bytes, and no ${length} at ${from}`)
    }
  }
}

/** All bytes, put together; null where one of them is not to be had. */
function gather(
  runs: Runs,
  at: number,
  length: number,
  load: (place: number, run: number) => Uint8Array | null,
): Uint8Array | null {
  const all = new Uint8Array(length)
  let done = 0
  let isWhole = true
  runs(at, length, (place, run) => {
    const bytes = load(place, run)
    if (bytes === null) isWhole = false
    else all.set(bytes, done)
    done += run
  })
  return isWhole ? all : null
}
