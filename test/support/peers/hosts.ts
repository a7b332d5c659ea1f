/**
 * Machines on the network: a host with its memories behind a PCIe link, and the DPU that is its
 * only way out. The host has no wire.
 *
 * Invariant: the ordinary memory of a host and its persistent memory, if it has any, are
 * behind one link, so what the card writes arrives in one order.
 */

import {
  type DpuOptions,
  type EmulatedDpu,
  EmulatedPort,
  HostMemory,
  HostRam,
  HostSide,
  Nvdimm,
  PcieLink,
  type Platform,
} from '../../../boards/emulator/index.ts'
import { startFlushAgent } from '../../../host-driver/card/agent-queues.ts'
import { PcieDevice, type PcieOptions } from '../../../host-driver/card/device.ts'
import { Calls, type DatagramWay } from '../../../host-driver/control/calls.ts'
import { Management } from '../../../host-driver/control/management.ts'
import { probePlacement } from '../../../host-driver/target/registrar.ts'
import { randomSource } from '../../../host-driver/way/options.ts'
import { endpointOf, Network } from './network.ts'

interface MachineOptions extends Partial<Omit<DpuOptions, 'port' | 'host' | 'ram'>> {
  /** What its persistent memory is like, if it has any. */
  readonly platform?: Platform | null
  readonly persistentBytes?: number
  readonly ramBytes?: number
}

/** A host and its card. */
export interface Machine {
  /** Its card is 10.0.0.last. */
  readonly last: number
  readonly dpu: EmulatedDpu
  readonly link: PcieLink
  readonly ram: HostRam
  readonly port: EmulatedPort
  readonly persistent: HostMemory | null
}

export class MachineRoom extends Network {
  /** A machine whose card is 10.0.0.last; both are on. */
  async addMachine(last: number, options: MachineOptions = {}): Promise<Machine> {
    const { platform = null, persistentBytes = 1 << 18, ramBytes = 1 << 21, ...rest } = options
    const link = new PcieLink()
    const ram = new HostRam(ramBytes, link)
    const port = new EmulatedPort({ ram, clock: this.clock })
    const part = new Nvdimm({ bytes: persistentBytes })
    const persistent = platform === null ? null : new HostMemory({ part, platform, link })
    const dpu = await this.addDpu(last, {
      ...rest,
      port,
      ...(persistent === null ? {} : { host: persistent }),
    })
    return { last, dpu, link, ram, port, persistent }
  }
}

/** The driver on that host. */
export function openDevice(machine: Machine, options: PcieOptions = {}): Promise<PcieDevice> {
  return PcieDevice.open(machine.port, { queues: 256, watchdogUs: 500, ...options })
}

/** Control calls from a host to another card, by datagrams through its own. */
export function managementOf(device: PcieDevice, last: number, seed: number): Management {
  const way: DatagramWay = {
    now: () => device.now(),
    setTimer: (atUs, callback) => device.setTimer(atUs, callback),
    onDatagram: null,
    sendDatagram: (datagram) => device.sendDatagram(datagram, endpointOf(last)),
  }
  device.onDatagram.add((bytes, at, length) => way.onDatagram?.(bytes, at, length))
  return new Management(new Calls(way, 5_000_000, randomSource(seed)))
}

/** Proves what the persistent memory of the machine is like; serves as flush agent if need be. */
export async function registerMemory(machine: Machine, device: PcieDevice): Promise<void> {
  const { dpu, persistent } = machine
  if (persistent === null) return
  const side = new HostSide(dpu, persistent)
  const { placement } = await probePlacement(side, device.management)
  if (placement === 'through') await startFlushAgent(side, device.management, device)
}
