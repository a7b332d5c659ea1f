/**
 * A host behind the emulated card, in the card's own process: it has a pager, and offers memory of
 * which only a part has a place at a time. For trying out what such memory does to its users.
 *
 * What always holds: the memory is the host's, and survives the card; whenever the card has power
 * the memory is offered, before anybody else reaches the card.
 */

import {
  EmulatedPort,
  HostRam,
  Pager,
  type RealClock,
  SwapDevice,
} from '../../boards/emulator/index.ts'
import { PAGE_BYTES } from '../../firmware/limits.ts'
import { PcieDevice } from '../pcie/device.ts'
import { sleep } from '../way.ts'
import type { MemoryRequest } from './emulate-options.ts'

/** Until the host has learnt that its card was gone it is asked so often, µs. */
const LOOK_US = 1000

/** What the queues of the host take of its memory. */
const QUEUES_BYTES: number = 1 << 20

export class HostInside {
  readonly port: EmulatedPort
  private readonly ram: HostRam
  private readonly clock: RealClock
  private readonly request: MemoryRequest
  private device: PcieDevice | null = null

  constructor(request: MemoryRequest, clock: RealClock) {
    this.request = request
    this.clock = clock
    this.ram = new HostRam(QUEUES_BYTES + request.mapped)
    this.port = new EmulatedPort({ ram: this.ram, clock })
  }

  /** The card has power: takes it into use, and offers the memory. */
  async open(): Promise<void> {
    if (this.device !== null) await this.reopen(this.device)
    else this.device = await this.openFirst()
  }

  private async reopen(device: PcieDevice): Promise<void> {
    while (device.isOpen) await sleep(device, LOOK_US)
    await device.reopen()
  }

  private async openFirst(): Promise<PcieDevice> {
    const { ram, clock, request } = this
    const device = await PcieDevice.open(this.port)
    const at = device.layout.arena.alloc(request.mapped, PAGE_BYTES)
    const memory = new Pager({
      ...{ ram, at, clock },
      frames: request.mapped / PAGE_BYTES,
      pages: request.bytes / PAGE_BYTES,
      swap: new SwapDevice({ clock, pageBytes: PAGE_BYTES }),
    })
    await device.registerOnDemand({ name: request.name, memory })
    return device
  }

  close(): void {
    this.device?.close()
  }
}
