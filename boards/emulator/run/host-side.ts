/**
 * The target machine's CPU next to an emulated card: what registrar and flush agent of the host
 * driver work on.
 *
 * Invariant: while the host or its card has no power, nothing is written back.
 */

import { having } from '../../kinds.ts'
import { check, HOST_MEMORY } from '../base/arguments.ts'
import type { HostMemory } from '../host/host-memory.ts'
import type { EmulatedDpu } from './dpu.ts'

const DPU = having(['powerOn', 'powerCut', 'deliver'], 'an EmulatedDpu')

export class HostSide {
  private readonly dpu: EmulatedDpu
  private readonly memory: HostMemory

  constructor(dpu: EmulatedDpu, memory: HostMemory) {
    check('dpu', dpu, DPU)
    check('memory', memory, HOST_MEMORY)
    this.dpu = dpu
    this.memory = memory
  }

  private get isOn(): boolean {
    return this.dpu.isOn && this.memory.link.up
  }

  get statesAdr(): boolean {
    return this.memory.platform.statesAdr
  }

  load(at: number, length: number): { readonly bytes: Uint8Array | null; readonly ns: number } {
    return this.memory.load(at, length)
  }

  evict(at: number, length: number): void {
    if (this.isOn) this.memory.evict(at, length)
  }

  clean(at: number, length: number): void {
    if (this.isOn) this.memory.clean(at, length)
  }

  fence(): void {
    if (this.isOn) this.memory.fence()
  }
}
