/**
 * An emulated card between its power supply and the network: what `perdure emulate` runs.
 *
 * Invariants:
 * - Every frame to and from the card, whoever its peer is, goes over one link, which does to it
 *   what the options say; a capture has what the link carries.
 * - What is published is published again after every power-on: the card itself forgets it.
 */

import { createHash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import {
  type CardPort,
  EmulatedDpu,
  type Engine,
  EthernetSwitch,
  FilePortEnd,
  FirmwareStopped,
  findBundle,
  Link,
  NETWORK_PEERS_MAX,
  type Netdev,
  type Nvdimm,
  openNetdev,
  openTunnel,
  type RealClock,
  type SwitchPort,
  type Tunnel,
} from '../../../boards/emulator/index.ts'
import { cardAt } from '../../base/addresses.ts'
import type { MemoryPiece } from '../../base/pieces.ts'
import type { Wire } from '../../base/wire.ts'
import { connect } from '../../connect.ts'
import type { PartStatus, RegionInfo, RegionPlacement } from '../../control/part.ts'
import type { Dpu } from '../../dpu.ts'
import { realTimeUs } from '../../frames/udp.ts'
import { PcapWriter } from '../../way/pcap.ts'
import { type Output, toJson } from '../base/output.ts'
import { sayReport } from '../base/report.ts'
import { bytesText } from '../base/table.ts'
import { notServing } from '../base/target.ts'
import { FlashTarget } from '../flash/flash-target.ts'
import type { CardIdentity } from './card-identity.ts'
import {
  type Address,
  type CardAddresses,
  type MemoryRequest,
  type PersistentRequest,
  type Place,
  type PlacedRequest,
  type PublishRequest,
  portAddresses,
  portName,
  type SmpAddress,
} from './emulate-options.ts'
import { Faults } from './faults.ts'
import { HostInside } from './host-inside.ts'
import { NetworkCable } from './network-cable.ts'
import type { Order } from './orders.ts'
import { Switchboard } from './switchboard.ts'
import { TimelineFile } from './timeline-file.ts'
import { Trace } from './trace.ts'

export interface EmulationOptions {
  /** Path of the image; without one the part is in memory. */
  readonly image?: string
  readonly udp?: Address
  /** Path of the file that a host behind PCIe shares with the card, and the bytes of its memory. */
  readonly host?: string
  readonly hostMemory?: number
  /** A host in this process: its memory on demand, its persistent memory. */
  readonly memory?: MemoryRequest
  readonly persistent?: PersistentRequest
  /** The pieces of it that the card uses. */
  readonly pieces?: readonly MemoryPiece[]
  readonly ddio?: boolean
  /** Path of the Unix socket for virtual machines. */
  readonly netdev?: string
  /** Path of the Unix socket of another emulated card, whose network it joins. */
  readonly join?: string
  readonly ip?: CardAddresses
  readonly publish?: readonly PublishRequest[]
  readonly create?: boolean
  readonly region?: readonly PlacedRequest[]
  readonly remove?: readonly string[]
  readonly engine: Engine
  /** Where it takes new firmware, and from whom. */
  readonly smp?: readonly SmpAddress[]
  readonly trust?: readonly string[]
  /** After so many seconds a trial that nobody has confirmed goes back. */
  readonly trial?: number
  readonly strictIcrc?: boolean
  readonly capture?: string
  /** Path of the file that has in words what passes. */
  readonly trace?: string
  /** Path of the file that has the events of the card, for a page of them. */
  readonly timeline?: string
  /** Obeyed as soon as it serves, in their order; and whether standard input brings more. */
  readonly order?: readonly Order[]
  readonly console?: boolean
  readonly loss: number
  readonly duplication: number
  readonly reordering: number
  readonly corruption: number
  readonly seed: number
  /** Who may come; null: whoever reaches the card. */
  readonly identity: CardIdentity | null
}

/** Time given to the card before its power goes, so that it can do its lazy work. */
const FAREWELL_MS = 20

/** What is said of a card without peers. */
const OPEN = 'is open: whoever reaches it may read, write and administer it; --key closes it'

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
  /** The host: in this process, or behind a port in a file. */
  private readonly inside: HostInside | null
  private readonly behindFile: FilePortEnd | null
  /** What decides which firmware runs, where it is flashed. */
  private readonly flash: FlashTarget | null
  /** Ends the start that is under way. */
  private begun: AbortController | null = null
  private tunnel: Tunnel | null = null
  private netdev: Netdev | null = null
  private cable: NetworkCable | null = null
  private capture: PcapWriter | null = null
  private readonly trace: Trace | null
  private readonly timeline: TimelineFile | null
  private readonly faults: Faults
  private readonly switchboard: Switchboard
  /** Whether it has come to serve: what this start has made stays from then on. */
  private serves = false
  /** What could not be written before it served, and what is to be said then. */
  private unwritten: Error | null = null
  private readonly warnings: string[] = []
  private powerOns = 0
  private fail: (error: Error) => void = () => {}

  constructor(output: Output, nvdimm: Nvdimm, clock: RealClock, options: EmulationOptions) {
    const { seed, engine, loss, duplication, reordering, corruption, strictIcrc = false } = options
    this.output = output
    this.nvdimm = nvdimm
    const tell = failureTeller(output)
    const onFailure = (error: Error): void => {
      if (this.serves) tell(error)
      else this.unwritten ??= error
    }
    nvdimm.onFailure = onFailure
    this.clock = clock
    this.options = options
    this.link = new Link({ clock, seed, faults: { loss, duplication, reordering, corruption } })
    this.trace = options.trace === undefined ? null : new Trace()
    this.timeline = options.timeline === undefined ? null : new TimelineFile(options.timeline)
    this.inside = openInside(options, clock, this.trace)
    const far = this.inside?.persistent?.part
    if (far !== undefined) far.onFailure = onFailure
    this.behindFile = openFile(options, clock)
    const hostPort: CardPort | undefined = this.inside?.port ?? this.behindFile ?? undefined
    const persistent = this.inside?.persistent ?? undefined
    const addresses = portAddresses(options.ip)
    this.card = new EmulatedDpu({
      ...(hostPort === undefined ? {} : { port: hostPort }),
      ...(persistent === undefined ? {} : { host: persistent }),
      ...(this.timeline === null ? {} : { trace: this.timeline.trace }),
      nvdimm,
      clock,
      engine,
      seed,
      facts: { ...addresses, strictIcrc },
      ...(options.identity === null ? {} : { peers: options.identity.peers }),
      transmit: (frame) => this.link.send('b', frame),
      onPowerCut: (report) => this.switchboard.wasCut(report),
      onStopped: (error) => this.stoppedBy(error),
      isOnTrial: () => this.flash?.onTrial === true,
    })
    this.faults = new Faults(this.card, nvdimm, () => this.connected((dpu) => dpu.regions()))
    this.switchboard = this.openSwitchboard()
    try {
      this.flash = this.openFlash()
    } catch (error) {
      this.inside?.end(true)
      this.behindFile?.close(true)
      throw error
    }
    const port: SwitchPort = (frame) => this.link.send('a', frame)
    this.link.attach('a', (frame) => this.network.forward(port, frame))
    this.link.attach('b', (frame) => this.card.deliver(frame))
    this.network.attach(port, [addresses.mac])
  }

  get hasServed(): boolean {
    return this.serves
  }

  /** Serves until a signal, or until the firmware stops: then it rejects. */
  async run(): Promise<void> {
    const stopped = this.stopped()
    let endConsole = (): void => {}
    try {
      await this.open()
      await this.start((dpu) => this.serve(dpu))
      const { order = [], console = false } = this.options
      for (const one of order) this.switchboard.obey(one)
      if (this.inside !== null || console) endConsole = this.switchboard.listen()
      await stopped
      this.output.say('stopping')
    } catch (error) {
      throw this.serves ? error : (this.unwritten ?? error)
    } finally {
      endConsole()
      await this.close()
    }
  }

  /** Gives power to the card, which runs what its slots say, and lets `use` have it. */
  private async start(use: (dpu: Dpu) => Promise<void>): Promise<void> {
    while (!(await this.tryStart(use)))
      if (this.card.isOn) this.card.powerCut({ strategy: 'all' }, true)
  }

  /** False where what was on trial is no good: the next start goes back. */
  private async tryStart(use: (dpu: Dpu) => Promise<void>): Promise<boolean> {
    const { flash, card } = this
    if (flash !== null) card.bundle = flash.start()
    const onTrial = flash?.onTrial === true
    card.interruptsMax = onTrial ? TRIAL_INTERRUPTS_MAX : null
    const begun = new AbortController()
    this.begun = begun
    try {
      await card.powerOn()
      if (this.inside?.isOn === true) await this.inside.open()
      await this.setUp(async (dpu) => {
        const why = (await flash?.test(dpu)) ?? null
        if (why !== null && onTrial) throw new TrialEnded(why)
        await use(dpu)
      }, begun.signal)
      return true
    } catch (error) {
      const cause = (begun.signal.aborted ? begun.signal.reason : error) as Error
      if (!onTrial) return this.staysWithout(cause)
      this.endTrial(cause.message)
      return false
    } finally {
      this.begun = null
    }
  }

  /** A firmware that stops can be flashed over: the card stays, for SMP alone. Throws all else. */
  private staysWithout(error: Error): true {
    if (this.flash === null || !(error instanceof FirmwareStopped)) throw error
    this.output.fail(error)
    this.output.say('no firmware runs: upload another one over SMP')
    if (this.serves) return true
    this.serves = true
    const addresses = this.flash.addresses()
    if (this.output.json) this.output.printJson({ address: addresses[0], addresses, part: null })
    else for (const address of addresses) this.output.print(address)
    return true
  }

  private endTrial(why: string): void {
    this.flash?.ended(why)
    this.output.tell(
      { reverted: why },
      `the firmware on trial failed, and the card goes back: ${why}`,
    )
  }

  /** What the firmware has stopped by: of one on trial that is its end, and of others ours. */
  private stoppedBy(error: Error): void {
    if (this.flash === null) this.fail(error)
    else if (this.begun !== null) this.begun.abort(error)
    else if (!this.flash.onTrial) this.staysWithout(error)
    else {
      this.endTrial(error.message)
      this.restart()
    }
  }

  /** Ends what runs between two bursts, and starts by the slots. */
  private restart(): void {
    this.switchboard.behind(async () => {
      this.faults.takePlan()
      if (this.card.isOn) this.card.powerCut({ strategy: 'all' }, true)
      await this.startAndTell().catch((error: Error) => this.fail(error))
    })
  }

  private openSwitchboard(): Switchboard {
    const { card, inside, faults } = this
    return new Switchboard(this.output, {
      ...{ card, inside, faults },
      startCard: () => this.startAndTell(),
      prepare: () => this.setUp(async () => {}),
      fail: (error) => this.fail(error),
    })
  }

  private async startAndTell(): Promise<void> {
    await this.start(async (dpu) => this.sayCardOn(await dpu.status()))
  }

  private openFlash(): FlashTarget | null {
    const { smp, image, trust, trial } = this.options
    if (smp === undefined || image === undefined) return null
    return new FlashTarget({
      ...{ image, smp, ...(trust && { trust }), ...(trial && { trial }) },
      restart: () => this.restart(),
      shell: (line) => this.shell(line),
      statistics: () => numbersOf(this.card.statistics),
    })
  }

  /** A line of the console, as cards have it. */
  private shell(line: string): string {
    const { card, flash } = this
    if (line.trim() !== 'status') return toJson({ error: `'${line}': say status` })
    const { powerOns, bursts, records } = card.statistics
    const trial = flash?.onTrial === true
    return toJson({
      state: card.isOn ? 'on' : 'off',
      board: 'emulator',
      trial,
      powerOns,
      bursts,
      records,
    })
  }

  private async open(): Promise<void> {
    const { udp, netdev, join, capture } = this.options
    await this.flash?.open()
    const { trace } = this
    const writer = capture === undefined ? null : new PcapWriter()
    this.capture = writer
    if (writer !== null || trace !== null) {
      this.link.tap = (frame, _, from) => {
        writer?.add(realTimeUs(), frame)
        trace?.frame(frame, from)
      }
    }
    // First: so a ring of cards, in which frames would go round, has no beginning.
    if (join !== undefined) await this.plugIn(join)
    if (netdev !== undefined) this.netdev = await openNetdev(netdev, this.network)
    if (udp === undefined) return
    const port: SwitchPort = (frame) => this.tunnel?.send(frame)
    const receive = (frame: Uint8Array): void => this.network.forward(port, frame)
    this.tunnel = await openTunnel({ ...udp, receive })
    this.network.attach(port, [], NETWORK_PEERS_MAX)
  }

  private async plugIn(path: string): Promise<void> {
    const { network } = this
    const tell = (json: object, text: string): void => {
      if (this.serves) this.output.tell(json, text)
      else this.warnings.push(text)
    }
    this.cable = new NetworkCable({
      ...{ path, network, tell },
      isJoined: this.options.netdev !== undefined,
    })
    await this.cable.open()
  }

  /** All that could refuse has not: only now a capture that is there is replaced. */
  private async serve(dpu: Dpu): Promise<void> {
    const { capture, trace } = this.options
    if (trace !== undefined) this.trace?.open(trace)
    if (capture !== undefined) this.capture?.toFile(capture)
    this.timeline?.begin()
    this.trace?.begin()
    this.serves = true
    for (const text of this.warnings) this.output.say(text)
    if (this.unwritten !== null) this.nvdimm.onFailure(this.unwritten)
    await this.announce(dpu)
  }

  private async close(): Promise<void> {
    await this.tunnel?.close()
    await this.netdev?.close()
    await this.cable?.close()
    await setTimeout(FAREWELL_MS)
    this.inside?.close()
    this.faults.takePlan()
    if (this.card.isOn) this.card.powerCut({ strategy: 'all' }, true)
    this.inside?.end(!this.serves)
    this.behindFile?.close(!this.serves)
    await this.flash?.close(!this.serves)
    try {
      this.capture?.close()
    } finally {
      this.closeTraces()
    }
  }

  private closeTraces(): void {
    try {
      this.timeline?.close()
    } finally {
      this.trace?.close()
    }
  }

  /** Prepares and publishes, and lets `use` have the rest. */
  private async setUp(
    use: (dpu: Dpu) => Promise<void>,
    signal: AbortSignal | null = null,
  ): Promise<void> {
    await this.connected(async (dpu) => {
      await this.prepare(dpu)
      await use(dpu)
    }, signal)
  }

  /** Connects to the card from inside. */
  private async connected<T>(
    use: (dpu: Dpu) => Promise<T>,
    signal: AbortSignal | null = null,
  ): Promise<T> {
    const { seed, ip, identity } = this.options
    const peer = cardAt(ip?.ipv4)
    const dpu = await connect(this.ownWire(), {
      seed: seed + ++this.powerOns,
      peer,
      ...(identity !== null && { key: identity.admin, cardKey: identity.publicKey }),
      ...(signal === null ? {} : { signal }),
      warn: (text) => {
        if (this.powerOns === 1) this.warnings.push(text)
      },
    })
    try {
      return await use(dpu)
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
      throw notServing(this.options.image ?? 'in memory', fault)
    }
    if (state === 'blank' && create) await dpu.format()
    if (state === 'serving' || create) await this.inside?.prove(this.card)
    for (const name of remove) await dpu.remove(name)
    await this.provision(dpu, region)
    await this.publish(dpu, publish)
  }

  /**
   * Those of the host are made where its memory is as they are placed. One that is placed as that
   * is proven stays as it is where it is there.
   */
  private async provision(dpu: Dpu, requests: readonly PlacedRequest[]): Promise<void> {
    const there = namesOf(await dpu.regions())
    for (const { placement, ...request } of requests) {
      const place = this.placeNow(placement, there.has(request.name))
      if (place !== null) await dpu.provision({ ...request, placement: place })
    }
  }

  /** Likewise regions of bytes; each that is there gets its port. */
  private async publish(dpu: Dpu, requests: readonly PublishRequest[]): Promise<void> {
    const there = namesOf(await dpu.regions())
    for (const { bytes, port, writePersist, placement } of requests) {
      const name = portName(port)
      const place = this.placeNow(placement, there.has(name))
      if (place !== null) {
        await dpu.provisionBytes({ name, length: bytes, writePersist, placement: place })
      }
      if (place !== null || there.has(name)) await dpu.publish({ name, port, stock: true })
    }
  }

  /** Where a region is to be made now; null where it stays as it is. */
  private placeNow(placement: Place, isThere: boolean): RegionPlacement | null {
    const proven = this.inside?.placement ?? null
    if (placement === 'local' || placement === proven) return placement
    return placement === 'host' && !isThere ? proven : null
  }

  private async published(dpu: Dpu): Promise<Published[]> {
    const { publish = [] } = this.options
    const regions = await dpu.regions()
    return publish.flatMap(({ port }) => {
      const region = regions.find(({ name }) => name === portName(port))
      return region === undefined ? [] : [{ port, region }]
    })
  }

  private addresses(): string[] {
    const { udp, netdev, join, host, ip, identity } = this.options
    const key = identity === null ? '' : `${identity.publicKey}@`
    const inside = ip?.ipv4 === undefined ? '' : `/${ip.ipv4.join('.')}`
    const tunnel = this.tunnel
    return [
      ...(udp === undefined || tunnel === null
        ? []
        : [`perdure://${key}${hostText(udp.host)}:${tunnel.port}${inside}`]),
      ...(host === undefined ? [] : [`pcie:${host}`]),
      ...(netdev === undefined ? [] : [`unix:${netdev}`]),
      ...(join === undefined ? [] : [`unix:${join}`]),
      ...(this.flash?.addresses() ?? []),
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
      const ports = published.map(({ port, region: { name, writePersist } }) => {
        return { port, region: name, writePersist }
      })
      const [address] = addresses
      const { seed } = this.options
      const told = { address, addresses, seed, bundle: this.bundleHash(), part, regions: names }
      output.printJson({ ...told, published: ports, report })
      return
    }
    const { state, incarnation } = part
    output.say(`emulated DPU, ${bytesText(nvdimm.bytes)}, ${state}, incarnation ${incarnation}`)
    output.say(`  seed ${this.options.seed}: who knows it knows the keys; --seed repeats this run`)
    output.say(`  it ${this.options.identity?.told ?? OPEN}`)
    const bundle = this.bundleHash()
    if (bundle !== null) output.say(`  firmware: SHA-256 ${bundle}`)
    for (const one of regions.filter(({ kind }) => kind === 'records')) {
      const place = placeText(one)
      const shape = `${one.slots} x ${one.capacity} B, ${one.copies} copies`
      const pair = one.pair ? ', a pair region' : ''
      const serves = one.refuses === null ? '' : `, no writes (${one.refuses})`
      output.say(`  region '${one.name}': ${shape}${pair}${place}${serves}`)
    }
    for (const { port, region } of published) {
      const kind = region.writePersist ? ', write-persist' : ''
      const length = bytesText(Number(region.length))
      output.say(`  port ${port}: region '${region.name}', ${length}${kind}${placeText(region)}`)
    }
    const { memory } = this.options
    if (memory !== undefined) {
      const { name, bytes, mapped } = memory
      output.say(`  memory '${name}': ${bytesText(bytes)}, room for ${bytesText(mapped)}`)
    }
    const { inside } = this
    if (inside?.persistent != null) this.switchboard.sayHostOn(inside)
    if (serving) sayReport(part, report, regions, (line, look) => output.say(line, look))
    for (const address of addresses) output.print(address)
  }

  /** SHA-256 of the bundle that the card runs, as every board says it; null on the sources. */
  private bundleHash(): string | null {
    if (this.options.engine !== 'quickjs') return null
    const { source } = this.card.bundle ?? findBundle()
    return createHash('sha256').update(source).digest('hex')
  }

  /** Resolves at a signal that stops it; rejects where the firmware stops. */
  private stopped(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.fail = reject
      process.once('SIGINT', () => resolve())
      process.once('SIGTERM', () => resolve())
      // Windows has no such signal, and Node refuses to listen to it there.
      if (process.platform === 'win32') return
      process.on('SIGUSR2', () => {
        this.switchboard.obey({ kind: 'power', party: 'card', to: 'reset' })
      })
    })
  }

  private sayCardOn(part: PartStatus): void {
    this.output.tell({ powerOn: part }, `power on: ${part.state}, incarnation ${part.incarnation}`)
  }
}

/** Says what cannot be written, each cause once. */
function failureTeller(output: Output): (error: Error) => void {
  const said = new Set<string>()
  return (error) => {
    if (said.has(error.message)) return
    said.add(error.message)
    output.fail(error)
  }
}

/** A firmware on trial has hung when it has run for ten seconds or so. */
const TRIAL_INTERRUPTS_MAX = 50_000

/** What runs on trial has failed its self-test. */
class TrialEnded extends Error {}

/** The numbers among the fields. */
function numbersOf(fields: object): Record<string, number> {
  const numbers = Object.entries(fields).filter(([, value]) => typeof value === 'number')
  return Object.fromEntries(numbers) as Record<string, number>
}

/** Memory that a host shares with the card, unless it is said. */
const HOST_MEMORY = 64 * 2 ** 20

function openInside(
  options: EmulationOptions,
  clock: RealClock,
  trace: Trace | null,
): HostInside | null {
  const { memory, persistent } = options
  if (memory === undefined && persistent === undefined) return null
  return new HostInside(options, clock, trace)
}

function openFile({ host, hostMemory }: EmulationOptions, clock: RealClock): FilePortEnd | null {
  if (host === undefined) return null
  return new FilePortEnd({ path: host, bytes: hostMemory ?? HOST_MEMORY, clock })
}

function namesOf(regions: readonly RegionInfo[]): Set<string> {
  return new Set(regions.map(({ name }) => name))
}

/** Where it lies, unless that is the card itself. */
function placeText({ placement }: RegionInfo): string {
  return placement === 'local' ? '' : `, in the host's memory, ${placement}`
}

function hostText(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
