/**
 * A network in virtual time: DPUs and hosts on one Ethernet switch, each behind a link that may
 * lose, repeat and reorder frames in both directions.
 */

import {
  type DpuOptions,
  EmulatedDpu,
  EthernetSwitch,
  Link,
  type LinkFaults,
  Nvdimm,
  VirtualClock,
} from '../../../boards/emulator/index.ts'
import type { Endpoint, Wire } from '../../../host-driver/base/wire.ts'
import { linkWire } from '../../../host-driver/local.ts'

export interface NetworkOptions {
  readonly seed: number
  readonly faults?: LinkFaults
  /** From end to end of a cable, µs. */
  readonly latencyUs?: number
}

export class Network {
  readonly clock: VirtualClock = new VirtualClock()
  readonly ethernet: EthernetSwitch = new EthernetSwitch()
  private readonly options: NetworkOptions
  private links = 0

  constructor(options: NetworkOptions) {
    this.options = options
  }

  /** A cable to the switch: `a` is its far end, `b` the switch. */
  private cable(): Link {
    const { seed, faults, latencyUs } = this.options
    this.links += 1
    const link = new Link({
      clock: this.clock,
      seed: seed * 100 + this.links,
      ...(faults === undefined ? {} : { faults }),
      ...(latencyUs === undefined ? {} : { latencyUs }),
    })
    const port = (frame: Uint8Array): void => link.send('b', frame)
    this.ethernet.attach(port)
    link.attach('b', (frame) => this.ethernet.forward(port, frame))
    return link
  }

  /** A card with a new part, its last address byte `last`: 10.0.0.last. It is on. */
  async addDpu(last: number, options: Partial<DpuOptions> = {}): Promise<EmulatedDpu> {
    const link = this.cable()
    const dpu = new EmulatedDpu({
      nvdimm: new Nvdimm({ bytes: 1 << 21 }),
      clock: this.clock,
      seed: this.options.seed + last,
      engine: 'node',
      transmit: (frame) => link.send('a', frame),
      ...options,
      facts: { ...endpointOf(last), ...options.facts },
    })
    link.attach('a', (frame) => dpu.deliver(frame))
    await dpu.powerOn()
    return dpu
  }

  /** A host's wire. */
  addHost(): Wire {
    return linkWire(this.cable(), this.clock)
  }
}

/** Addresses of the card 10.0.0.last. */
export function endpointOf(last: number): Endpoint & { ipv6: number[] } {
  return {
    mac: [2, 0, 0, 0, 0, last],
    ipv4: [10, 0, 0, last],
    ipv6: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last],
  }
}
