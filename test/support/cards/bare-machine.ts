/**
 * A machine without firmware: a test hands it commands, and looks at what each of them did.
 */

import type { HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import type { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { COMMANDS_AT, PRIVATE_AT, RESULT } from '../../../firmware/board/hal.ts'
import { FACTS } from './test-card.ts'

/** Before these memories of a host, of `bytes` each; the begin of its private memory is filled. */
export function bareMachine(
  bytes: number,
  { host, ram = null }: { readonly host: HostMemory; readonly ram?: HostRam | null },
): EmulatedMachine {
  const dma = ram === null ? {} : { dmaBytes: bytes, sharedSpaces: 2 }
  const machine = new EmulatedMachine({
    facts: { ...FACTS, nvdimmBytes: bytes, hostBytes: bytes, ...dma },
    nvdimm: new Nvdimm({ bytes }),
    host,
    ram,
    transmit: () => {},
  })
  for (let i = 0; i < 1024; i++) machine.packets[PRIVATE_AT + i] = 1 + (i & 63)
  return machine
}

/** Runs the commands as one list; their results, 99 where there was none. */
export function runList(
  machine: EmulatedMachine,
  ...list: readonly (readonly number[])[]
): number[] {
  const words = new Float64Array(machine.memory, COMMANDS_AT)
  list.forEach((command, i) => {
    words.set([0, 0, 0, 0, 0, 99], i * 8)
    words.set(command, i * 8)
  })
  machine.run(list.length)
  return list.map((_, i) => words[i * 8 + RESULT]!)
}
