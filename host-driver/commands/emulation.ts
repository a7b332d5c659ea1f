/**
 * An emulated card between its power supply and the network: what `perdure emulate` runs.
 *
 * What always holds:
 * - Every frame to and from the card, whoever its peer is, goes over one link, which does to it
 *   what the options say; a capture has what the link carries.
 * - What is published is published again after every power-on: the card itself forgets it.
 */

import { createHash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import {
  type CardPort,
  DEFAULT_PORT,
  EmulatedDpu,
  type Engine,
  EthernetSwitch,
  FileCard,
  findBundle,
  Link,
  type Netdev,
  type Nvdimm,
  openNetdev,
  openTunnel,
  type RealClock,
  type SwitchPort,
  type Tunnel,
} from '../../boards/emulator/index.ts'
import { DPU_ENDPOINT } from '../addresses.ts'
import { connect } from '../connect.ts'
import type { Dpu } from '../dpu.ts'
import { RefusedError } from '../errors.ts'
import type { RegionRequest } from '../management.ts'
import type { RegionInfo } from '../part.ts'
import { PcapWriter } from '../pcap.ts'
import { realTimeUs } from '../udp.ts'
import type { Wire } from '../wire.ts'
import type { Address, CardAddresses, MemoryRequest, PublishRequest } from './emulate-options.ts'
import { HostInside } from './host-inside.ts'
import type { Output } from './output.ts'
import { sayReport } from './report.ts'
import { bytesText } from './table.ts'

export interface EmulationOptions {
  readonly udp?: Address
  /** Path of the file that a host behind PCIe shares with the card, and the bytes of its memory. */
  readonly host?: string
  readonly hostMemory?: number
  /** Memory on demand of a host in this process. */
  readonly memory?: MemoryRequest
  /** Path of the Unix socket for virtual machines. */
  readonly netdev?: string
  readonly ip?: CardAddresses
  readonly publish?: readonly PublishRequest[]
  readonly create?: boolean
  readonly region?: readonly RegionRequest[]
  readonly remove?: readonly string[]
  readonly engine: Engine
  readonly strictIcrc?: boolean
  readonly capture?: string
  readonly loss: number
  readonly duplication: number
  readonly reordering: number
  readonly corruption: number
  readonly seed: number
}

/** Time given to the card before its power goes, so that it can do its lazy work. */
const FAREWELL_MS = 20

/** A region that a port of RDMA-CM leads to. */
interface Published {
  readonly port: number
  readonly region: RegionInfo
}

export class Emulation {
  private readonly output: Output
  private readonly nvdimm: Nvdimm
  private readonly clock: RealClock
  private readonly options: EmulationOptions
  private readonly link: Link
  private readonly network = new EthernetSwitch()
  private readonly card: EmulatedDpu
  private readonly host: FileCard | HostInside | null
  private tunnel: Tunnel | null = null
  private netdev: Netdev | null = null
  private capture: PcapWriter | null = null
  private powerOns = 0
  private fail: (error: Error) => void = () => {}

  constructor(output: Output, nvdimm: Nvdimm, clock: RealClock, options: EmulationOptions) {
    const { seed, engine, loss, duplication, reordering, corruption, strictIcrc = false } = options
    this.output = output
    this.nvdimm = nvdimm
    this.clock = clock
    this.options = options
    this.link = new Link({ clock, seed, faults: { loss, duplication, reordering, corruption } })
    this.host = openHost(options, clock)
    this.card = new EmulatedDpu({
      ...(this.host === null ? {} : { port: portOf(this.host) }),
      nvdimm,
      clock,
      engine,
      seed,
      facts: { ...options.ip, strictIcrc },
      transmit: (frame) => this.link.send('b', frame),
      onStopped: (error) => this.fail(error),
    })
    const port: SwitchPort = (frame) => this.link.send('a', frame)
    this.link.attach('a', (frame) => this.network.forward(port, frame))
    this.link.attach('b', (frame) => this.card.deliver(frame))
    this.network.attach(port, [DEFAULT_PORT.mac])
  }

  /** Serves until a signal, or until the firmware stops: then it rejects. */
  async run(): Promise<void> {
    const stopped = this.stopped()
    try {
      await this.open()
      await this.powerOn()
      await this.setUp((dpu) => this.announce(dpu))
      await stopped
      this.output.say('stopping')
    } finally {
      await this.close()
    }
  }

  private async open(): Promise<void> {
    const { udp, netdev, capture } = this.options
    if (capture !== undefined) {
      const writer = new PcapWriter(capture)
      this.capture = writer
      this.link.tap = (frame) => writer.add(realTimeUs(), frame)
    }
    if (netdev !== undefined) this.netdev = await openNetdev(netdev, this.network)
    if (udp === undefined) return
    const port: SwitchPort = (frame) => this.tunnel?.send(frame)
    const receive = (frame: Uint8Array): void => this.network.forward(port, frame)
    this.tunnel = await openTunnel({ ...udp, receive })
    this.network.attach(port)
  }

  private async close(): Promise<void> {
    await this.tunnel?.close()
    await this.netdev?.close()
    await setTimeout(FAREWELL_MS)
    if (this.host instanceof HostInside) this.host.close()
    if (this.card.isOn) this.card.powerCut({ strategy: 'all' })
    if (this.host instanceof FileCard) this.host.close()
    this.capture?.close()
  }

  /** Where a host is inside, it has its card in use when this resolves. */
  private async powerOn(): Promise<void> {
    await this.card.powerOn()
    if (this.host instanceof HostInside) await this.host.open()
  }

  /** Connects to the card from inside, prepares and publishes, and lets `use` have the rest. */
  private async setUp(use: (dpu: Dpu) => Promise<void>): Promise<void> {
    const { seed, ip } = this.options
    const peer = { ...DPU_ENDPOINT, ...(ip?.ipv4 === undefined ? {} : { ipv4: ip.ipv4 }) }
    const dpu = await connect(this.ownWire(), {
      seed: seed + ++this.powerOns,
      peer,
      warn: (text) => {
        if (this.powerOns === 1) this.output.say(text)
      },
    })
    try {
      await this.prepare(dpu)
      await use(dpu)
    } finally {
      await dpu.close()
    }
  }

  /** A wire of our own to the switch, as another machine has one. */
  private ownWire(): Wire {
    const { clock, network } = this
    let receive: (frame: Uint8Array) => void = () => {}
    const port: SwitchPort = (frame) => receive(frame)
    network.attach(port)
    return {
      send: (frame) => network.forward(port, frame),
      onFrame: (callback) => {
        receive = callback
      },
      now: () => clock.nowUs,
      setTimer: (atUs, callback) => {
        const timer = clock.schedule(atUs, callback)
        return () => clock.cancel(timer)
      },
      close: () => network.detach(port),
    }
  }

  /** Formats a blank part where that is wanted, removes and makes regions, and publishes. */
  private async prepare(dpu: Dpu): Promise<void> {
    const { create = false, remove = [], region = [], publish = [] } = this.options
    const { state, fault } = await dpu.status()
    if (state === 'refused') {
      throw new RefusedError(fault ?? 'NOT_SERVING', 0, 'this part cannot serve')
    }
    if (state === 'blank' && create) await dpu.format()
    for (const name of remove) await dpu.remove(name)
    for (const request of region) await dpu.provision(request)
    for (const { bytes, port } of publish) {
      await dpu.provisionBytes({ name: nameOf(port), length: bytes })
      await dpu.publish({ name: nameOf(port), port })
    }
  }

  private async published(dpu: Dpu): Promise<Published[]> {
    const { publish = [] } = this.options
    const regions = await dpu.regions()
    return publish.flatMap(({ port }) => {
      const region = regions.find(({ name }) => name === nameOf(port))
      return region === undefined ? [] : [{ port, region }]
    })
  }

  private addresses(): string[] {
    const { udp, netdev, host, ip } = this.options
    const inside = ip?.ipv4 === undefined ? '' : `/${ip.ipv4.join('.')}`
    const tunnel = this.tunnel
    return [
      ...(udp === undefined || tunnel === null
        ? []
        : [`perdure://${hostText(udp.host)}:${tunnel.port}${inside}`]),
      ...(host === undefined ? [] : [`pcie:${host}`]),
      ...(netdev === undefined ? [] : [`unix:${netdev}`]),
    ]
  }

  private async announce(dpu: Dpu): Promise<void> {
    const { output, nvdimm } = this
    const part = await dpu.status()
    const serving = part.state === 'serving'
    const regions = serving ? await dpu.regions() : []
    const report = serving ? await dpu.report() : []
    const published = serving ? await this.published(dpu) : []
    const addresses = this.addresses()
    if (output.json) {
      const names = regions.map((region) => region.name)
      const ports = published.map(({ port, region }) => ({ port, region: region.name }))
      const [address] = addresses
      const told = { address, addresses, bundle: this.bundleHash(), part, regions: names }
      output.printJson({ ...told, published: ports, report })
      return
    }
    const { state, incarnation } = part
    output.say(`emulated DPU, ${bytesText(nvdimm.bytes)}, ${state}, incarnation ${incarnation}`)
    const bundle = this.bundleHash()
    if (bundle !== null) output.say(`  firmware: SHA-256 ${bundle}`)
    for (const one of regions.filter(({ kind }) => kind === 'records')) {
      output.say(`  region '${one.name}': ${one.slots} x ${one.capacity} B, ${one.copies} copies`)
    }
    for (const { port, region } of published) {
      output.say(`  port ${port}: region '${region.name}', ${bytesText(Number(region.length))}`)
    }
    const { memory } = this.options
    if (memory !== undefined) {
      const { name, bytes, mapped } = memory
      output.say(`  memory '${name}': ${bytesText(bytes)}, room for ${bytesText(mapped)}`)
    }
    if (serving) sayReport(output, part, report, regions, (line) => output.say(line))
    for (const address of addresses) output.print(address)
  }

  /** SHA-256 of the bundle that the card runs, as every board says it; null on the sources. */
  private bundleHash(): string | null {
    if (this.options.engine !== 'quickjs') return null
    return createHash('sha256').update(findBundle().source).digest('hex')
  }

  /** Resolves at a signal that stops it; rejects where the firmware stops. */
  private stopped(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.fail = reject
      process.once('SIGINT', () => resolve())
      process.once('SIGTERM', () => resolve())
      let last: Promise<void> = Promise.resolve()
      // Windows has no such signal, and Node refuses to listen to it there.
      if (process.platform === 'win32') return
      process.on('SIGUSR2', () => {
        last = last.then(() => this.pullThePlug()).catch(reject)
      })
    })
  }

  /** Cuts the power so that nothing pending survives, and switches the card on again. */
  private async pullThePlug(): Promise<void> {
    const { card, output } = this
    if (!card.isOn) return
    const powerCut = card.powerCut({ strategy: 'none' })
    if (output.json) output.printJson({ powerCut })
    else output.say(`power cut: ${powerCut.chunks} words of 8 bytes were pending and are lost`)
    await this.powerOn()
    await this.setUp(async (dpu) => {
      const part = await dpu.status()
      if (output.json) output.printJson({ powerOn: part })
      else output.say(`power on: ${part.state}, incarnation ${part.incarnation}`)
    })
  }
}

/** Memory that a host shares with the card, unless it is said. */
const HOST_MEMORY = 64 * 2 ** 20

function openHost(
  { host, hostMemory, memory }: EmulationOptions,
  clock: RealClock,
): FileCard | HostInside | null {
  if (memory !== undefined) return new HostInside(memory, clock)
  if (host === undefined) return null
  return new FileCard({ path: host, bytes: hostMemory ?? HOST_MEMORY, clock })
}

function portOf(host: FileCard | HostInside): CardPort {
  return host instanceof FileCard ? host : host.port
}

function nameOf(port: number): string {
  return `port-${port}`
}

function hostText(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
