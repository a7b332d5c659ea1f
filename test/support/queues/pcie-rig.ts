/**
 * The driver of the queues on the real firmware: one card with its host behind PCIe, in virtual
 * time that runs as long as anybody waits.
 */

import {
  EmulatedDpu,
  EmulatedPort,
  type Engine,
  HostRam,
  Nvdimm,
  VirtualClock,
} from '../../../boards/emulator/index.ts'
import { PcieDevice, type PcieOptions } from '../../../host-driver/card/device.ts'
import type {
  CardQueuePair,
  QueuePairOptions,
} from '../../../host-driver/card/queues/card-queue-pair.ts'
import type { Completion, QueueElement } from '../../../host-driver/card/queues/values.ts'
import type { RegionInfo } from '../../../host-driver/control/part.ts'

export interface RigOptions extends PcieOptions {
  readonly ramBytes?: number
  readonly partBytes?: number
  readonly engine?: Engine
  /** The clock stands; the test moves it. */
  readonly held?: boolean
}

export class PcieRig {
  readonly clock: VirtualClock
  readonly ram: HostRam
  readonly port: EmulatedPort
  readonly card: EmulatedDpu
  device!: PcieDevice

  private constructor({ ramBytes = 1 << 21, partBytes = 1 << 20, engine = 'node' }: RigOptions) {
    this.clock = new VirtualClock()
    this.ram = new HostRam(ramBytes)
    this.port = new EmulatedPort({ ram: this.ram, clock: this.clock })
    const nvdimm = new Nvdimm({ bytes: partBytes })
    const { clock, port } = this
    this.card = new EmulatedDpu({ nvdimm, clock, port, seed: 5, engine, transmit: () => {} })
  }

  /** A card that is on, and a driver that has taken it into use. */
  static async open(options: RigOptions = {}): Promise<PcieRig> {
    const rig = new PcieRig(options)
    await rig.card.powerOn()
    rig.clock.start()
    rig.device = await PcieDevice.open(rig.port, { seed: 9, ...options })
    return rig
  }

  /** Formats the part, and makes a region of records. */
  async provision(slots = 16, capacity = 1024): Promise<RegionInfo> {
    const { management } = this.device
    await management.format(new Uint8Array(16).fill(7))
    return await management.provision({ name: 'r', slots, capacity }, 0)
  }

  /** A pair to the card's own regions, whose completions go to their work by themselves. */
  async localPair(options: Partial<QueuePairOptions> = {}): Promise<CardQueuePair> {
    const sendCq = await this.device.createCq({ entries: 512 })
    sendCq.dispatch(() => {})
    return await this.device.createQp({ type: 'local', sendCq, ...options })
  }

  pass(us: number): Promise<void> {
    return new Promise((resolve) => void this.clock.schedule(this.clock.nowUs + us, resolve))
  }

  close(): void {
    this.device.close()
    this.clock.stop()
  }
}

/** Posts one work; its completion. */
export function complete(pair: CardQueuePair, work: QueueElement): Promise<Completion> {
  return new Promise((resolve) => {
    pair.post({ ...work, done: resolve })
  })
}
