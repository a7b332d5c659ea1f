/**
 * A card whose board may fail while it starts, too; packet memory is used again and again, zeroed,
 * as most of the cost of a start is to make it.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { MEMORY_BYTES, STAGING_AT } from '../../../firmware/board/memory-map.ts'
import { TestCard, type TestCardOptions } from '../../support/cards/test-card.ts'

/** The card that is played, and the one that is started on what it left. */
export type Seat = 'played' | 'restarted'

const seats = new Map<Seat, Uint8Array>()

/** Packet memory as at power-on. What is asked of a restarted card is too short for staging. */
function packetsOf(seat: Seat): Uint8Array {
  const packets = seats.get(seat) ?? new Uint8Array(MEMORY_BYTES)
  seats.set(seat, packets)
  packets.fill(0, 0, seat === 'restarted' ? STAGING_AT : MEMORY_BYTES)
  return packets
}

/** The machine has no power: whoever wanted something of it will not get it. */
export class WentDark extends Error {
  override readonly name = 'WentDark'
}

interface BoardCardOptions extends Pick<TestCardOptions, 'leaves' | 'ram'> {
  readonly seat: Seat
  /** Called with the machine before the firmware starts on it. */
  readonly beforeBoot?: (machine: EmulatedMachine) => void
  /** Another engine than the sources in Node. */
  readonly starter?: Starter
}

/** An engine that has its own packet memory, and starts the firmware on a machine with it. */
export interface Starter {
  readonly packets: Uint8Array
  start(machine: EmulatedMachine): FirmwareEngine
}

export function boardCard(nvdimm: Nvdimm, options: BoardCardOptions): TestCard {
  const { seat, beforeBoot, leaves, ram, starter } = options
  return new TestCard(nvdimm, {
    ...{ leaves, ram, packets: starter?.packets ?? packetsOf(seat) },
    start: (machine) => {
      beforeBoot?.(machine)
      return starter?.start(machine) ?? bootDirect(machine)
    },
    returned: (machine) => {
      if (machine.dead) throw new WentDark()
    },
  })
}
