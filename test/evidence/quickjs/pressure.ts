/**
 * How little memory the firmware can live with in QuickJS.
 *
 * The engine's own limit counts its blocks and not what is in them, so it is the size of the
 * WebAssembly memory that is lowered, page by page: engine, heap, stack and packets have to fit.
 */

import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type FirmwareEngine, FirmwareStopped } from '../../../boards/emulator/run/engine.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { ColdGuest } from '../../support/cards/cold-guest.ts'
import { talk } from '../../support/cards/engine.ts'
import { FACTS, placeAll } from '../../support/cards/test-card.ts'
import { type Conversation, dataOf, persistFrames } from '../../support/wire/conversation.ts'

export const PAGE_KIBIBYTES = 64

/** What a card has. */
const PAGES_MOST = 512

const PART_BYTES = 1 << 20

interface Least {
  /** The least memory that the firmware starts in. */
  readonly pages: number
  /** Boots that were refused, for lack of memory. */
  readonly refused: number
}

interface Life {
  readonly guest: ColdGuest
  readonly machine: EmulatedMachine
  readonly engine: FirmwareEngine
  readonly card: Conversation
}

/** Starts the firmware in so many pages, on an empty part. */
async function live(memoryPages: number): Promise<Life> {
  const guest = await ColdGuest.evaluate({ memoryPages })
  const sent: Uint8Array[] = []
  let made: EmulatedMachine | null = null
  const engine = guest.start((packets) => {
    made = new EmulatedMachine({
      facts: { ...FACTS, nvdimmBytes: PART_BYTES },
      nvdimm: new Nvdimm({ bytes: PART_BYTES }),
      transmit: (frame) => sent.push(frame),
      packets,
    })
    return made
  })
  const machine = made!
  return { guest, machine, engine, card: talk(machine, engine, sent) }
}

/**
 * Whether the firmware starts in so many pages. Throws what is not a lack of memory. Where memory
 * ends inside the engine's parser it speaks of the syntax of a source that is right: all of memory
 * was tried before.
 */
async function starts(memoryPages: number): Promise<boolean> {
  try {
    const { guest } = await live(memoryPages)
    guest.dispose()
    return true
  } catch (error) {
    if (!(error instanceof FirmwareStopped)) throw error
    if (error.reason === 'memory' || error.message.includes('SyntaxError')) return false
    throw error
  }
}

let found: Promise<Least> | null = null

/** Finds the least. It is looked for once. */
export function leastMemory(): Promise<Least> {
  found ??= findLeast()
  return found
}

/**
 * From what the firmware touches in all of memory, page by page down to where it does not start.
 * Far less is never tried: where memory ends in the middle of the source, the engine's parser may
 * look ahead permanently, and asks nobody whether to go on.
 */
async function findLeast(): Promise<Least> {
  const { guest } = await live(PAGES_MOST)
  const touched = guest.image().findLastIndex((byte) => byte !== 0) + 1
  guest.dispose()
  let pages = Math.ceil(touched / (PAGE_KIBIBYTES * 1024))
  while (!(await starts(pages))) pages++
  let refused = 0
  while (refused === 0) {
    if (await starts(pages - 1)) pages--
    else refused++
  }
  return { pages, refused }
}

/** Bursts of a long life, and behind how many of them its heap must be level. */
const BURSTS = 400
const WARM = 100
const BURST_RECORDS = 16

interface LongLife {
  readonly operations: number
  /** Bytes by which the heap grew when it was warm. */
  readonly grown: number
}

/** Persists records in the least memory, each burst new ones, longer than a leak could hide. */
export async function longLife(): Promise<LongLife> {
  const { pages } = await leastMemory()
  const { guest, machine, engine, card } = await live(pages)
  card.format()
  const region = card.provision({ slots: 64, capacity: 64 })
  const qp = card.connect()
  let warm = 0
  for (let burst = 0; burst < BURSTS; burst++) {
    if (burst === WARM) warm = engine.memoryUsed()
    const frames = Array.from({ length: BURST_RECORDS }, (_, i) =>
      persistFrames(qp, region, i, dataOf(64, burst)),
    ).flat()
    placeAll(machine, frames)
    engine.serve(frames.length, burst)
    if (burst % 8 === 7) engine.idle(burst)
  }
  const grown = engine.memoryUsed() - warm
  guest.dispose()
  return { operations: BURSTS * BURST_RECORDS, grown }
}
