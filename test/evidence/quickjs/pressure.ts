/**
 * How little memory the firmware can live with in QuickJS.
 *
 * The engine's own limit counts its blocks and not what is in them, so it is the size of the
 * WebAssembly memory that is lowered, page by page: engine, heap, stack and packets have to fit.
 */

import { FirmwareStopped } from '../../../boards/emulator/engine.ts'
import { EmulatedMachine } from '../../../boards/emulator/machine.ts'
import { Nvdimm } from '../../../boards/emulator/nvdimm.ts'
import { FACTS } from '../../support/card.ts'
import { ColdGuest } from '../../support/cold-guest.ts'

export const PAGE_KIBIBYTES = 64

/** Less than this the engine itself does not load with, in pages. */
const PAGES_LEAST = 256

/** What a card has. */
const PAGES_MOST = 512

const PART_BYTES = 1 << 20

export interface Least {
  /** The least memory that the firmware starts in. */
  readonly pages: number
  /** Boots that were refused: all for lack of memory, and none in another way. */
  readonly refused: number
}

/** Whether the firmware starts in so many pages. Throws what is not a lack of memory. */
async function starts(memoryPages: number): Promise<boolean> {
  try {
    const guest = await ColdGuest.evaluate({ memoryPages })
    guest.start((packets) => {
      return new EmulatedMachine({
        facts: { ...FACTS, nvdimmBytes: PART_BYTES },
        nvdimm: new Nvdimm({ bytes: PART_BYTES }),
        transmit: () => {},
        packets,
      })
    })
    guest.dispose()
    return true
  } catch (error) {
    if (error instanceof FirmwareStopped && error.reason === 'memory') return false
    throw error
  }
}

/** Finds the least, by halves, and then looks at each of the pages below that are close. */
export async function leastMemory(): Promise<Least> {
  let [low, high, refused] = [PAGES_LEAST - 1, PAGES_MOST, 0]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (await starts(middle)) high = middle
    else {
      low = middle
      refused++
    }
  }
  return { pages: high, refused }
}
