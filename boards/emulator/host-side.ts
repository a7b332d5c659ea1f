/**
 * The target machine's CPU next to an emulated card: what registrar and flush agent of the host
 * driver work on, in the time of the emulation.
 *
 * What always holds: the CPU is woken some time after the card wrote into the ring of requests, and
 * its bell reaches the card some time after it was rung; while the power is off neither happens.
 */

import { HOST_DATA_AT, HOST_RING_AT } from '../../firmware/memory/region.ts'
import type { Clock } from './clock.ts'
import type { EmulatedDpu } from './dpu.ts'
import { CPU_WAKE_NS, DOORBELL_NS, type HostMemory } from './host-memory.ts'

export class HostSide {
  /** Called when the card has written into the ring: the flush agent's turn. */
  onRequest: (() => void) | null = null

  private readonly dpu: EmulatedDpu
  private readonly memory: HostMemory
  private readonly clock: Clock
  private waking = false

  constructor(dpu: EmulatedDpu, memory: HostMemory, clock: Clock) {
    this.dpu = dpu
    this.memory = memory
    this.clock = clock
    memory.onWrite = (at) => {
      if (at >= HOST_RING_AT && at < HOST_DATA_AT) this.wake()
    }
  }

  get statesAdr(): boolean {
    return this.memory.platform.statesAdr
  }

  load(at: number, length: number): { readonly bytes: Uint8Array | null; readonly ns: number } {
    return this.memory.load(at, length)
  }

  store(at: number, bytes: Uint8Array): void {
    if (this.dpu.isOn) this.memory.store(at, bytes)
  }

  evict(at: number, length: number): void {
    if (this.dpu.isOn) this.memory.evict(at, length)
  }

  clean(at: number, length: number): void {
    if (this.dpu.isOn) this.memory.clean(at, length)
  }

  fence(): void {
    if (this.dpu.isOn) this.memory.fence()
  }

  /** The bell: it belongs to the machine that is on now, and to no later one. */
  ring(number: number): void {
    const { machine } = this.dpu
    if (!this.dpu.isOn || machine === null) return
    this.clock.schedule(this.clock.nowUs + DOORBELL_NS / 1000, () => {
      if (this.dpu.isOn && this.dpu.machine === machine) this.dpu.bell(number)
    })
  }

  private wake(): void {
    if (this.waking) return
    this.waking = true
    const { machine } = this.dpu
    this.clock.schedule(this.clock.nowUs + CPU_WAKE_NS / 1000, () => {
      this.waking = false
      if (this.dpu.isOn && this.dpu.machine === machine) this.onRequest?.()
    })
  }
}
