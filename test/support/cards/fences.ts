/**
 * What happens at the fences of a machine, and how many there are; nobody else observes it then.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { FENCE } from '../../../firmware/board/hal.ts'

/** How many there were since it was last set. */
interface Count {
  passed: number
}

/** Calls `act` before the fence of that number, from 1; counts them all. */
export function atFence(machine: EmulatedMachine, nth: number, act: () => void): Count {
  const fences = { passed: 0 }
  machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE && ++fences.passed === nth) act()
    },
  })
  return fences
}

/** A machine and the part on it. */
interface Board {
  readonly machine: EmulatedMachine
  readonly nvdimm: Nvdimm
}

/** The fence of that number fails; counts them all. */
export function failFence({ machine, nvdimm }: Board, nth: number): Count {
  return atFence(machine, nth, () => {
    nvdimm.fencesToFail = 1
  })
}

export function countFences(machine: EmulatedMachine): Count {
  return atFence(machine, 0, () => {})
}

export function countCommands(machine: EmulatedMachine): Count {
  const commands = { passed: 0 }
  machine.observe({
    onCommand: () => {
      commands.passed += 1
    },
  })
  return commands
}
