/**
 * A DPU, and a driver that is connected to it, in virtual time:
 *
 *   frames    over a wire
 *   own       the local card, over its queues
 *   behind    another DPU, over the queues of the local card
 */

import type { DpuOptions, EmulatedDpu, Engine } from '../../../boards/emulator/index.ts'
import { type ConnectOptions, connect, type Dpu, PcieDevice } from '../../../host-driver/index.ts'
import { type Machine, MachineRoom } from '../peers/hosts.ts'
import { endpointOf, type NetworkOptions } from '../peers/network.ts'

export type WayName = 'frames' | 'own' | 'behind'
export const WAYS: readonly WayName[] = ['frames', 'own', 'behind']

export interface WayOptions extends Partial<NetworkOptions> {
  readonly engine?: Engine
  readonly connect?: ConnectOptions
  readonly card?: Partial<DpuOptions>
}

export class OpenWay {
  readonly room: MachineRoom
  /** The DPU that has the regions. */
  readonly target: EmulatedDpu
  /** The machine whose host has the driver; null over frames. */
  readonly machine: Machine | null
  readonly device: PcieDevice | null
  readonly dpu: Dpu

  constructor(
    room: MachineRoom,
    target: EmulatedDpu,
    machine: Machine | null,
    device: PcieDevice | null,
    dpu: Dpu,
  ) {
    this.room = room
    this.target = target
    this.machine = machine
    this.device = device
    this.dpu = dpu
  }

  /** Lets so many microseconds pass. */
  pass(us: number): Promise<void> {
    const { clock } = this.room
    return new Promise((resolve) => void clock.schedule(clock.nowUs + us, resolve))
  }

  /** Takes a card's power so that nothing pending survives, and gives it back. */
  async restart(card: EmulatedDpu = this.target): Promise<void> {
    if (card.isOn) card.powerCut({ strategy: 'none' })
    await card.powerOn()
  }

  async close(): Promise<void> {
    await this.dpu.close()
    this.device?.close()
    this.room.clock.stop()
  }
}

export async function openWay(name: WayName, options: WayOptions = {}): Promise<OpenWay> {
  const { engine = 'node', seed = 7, connect: asked = {}, card = {}, ...network } = options
  const room = new MachineRoom({ seed, ...network })
  const shape = { engine, ...card }
  const machine = name === 'frames' ? null : await room.addMachine(name === 'own' ? 2 : 3, shape)
  const target = name === 'own' ? machine!.dpu : await room.addDpu(2, shape)
  room.clock.start()
  const how = { seed: 3, ...asked }
  if (machine === null) {
    const dpu = await connect(room.addHost(), { peer: endpointOf(2), ...how })
    return new OpenWay(room, target, null, null, dpu)
  }
  const device = await PcieDevice.open(machine.port, { seed: 4 })
  const peer = name === 'behind' ? { peer: endpointOf(2) } : {}
  const dpu = await connect(device, { ...peer, ...how })
  return new OpenWay(room, target, machine, device, dpu)
}
