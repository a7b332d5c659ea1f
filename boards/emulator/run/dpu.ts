/**
 * An emulated card: a port, a machine, the firmware, and a power supply that can be cut.
 *
 * Invariants:
 * - Frames are collected for a moment after the first arrives and served as a burst of up to 32,
 *   as a NIC that is polled does. Between bursts the firmware gets idle calls if it asks for them.
 * - A power-on makes a new machine and a new guest: nothing but the NVDIMM, and the host's memory
 *   where there is one, outlives a cut. Host and card may lose power together or apart.
 * - The card does one thing at a time: what it waits for, reading from its host, it waits for in
 *   virtual time, and serves nothing meanwhile.
 * - From a cut to the next power-on every frame is dropped and counted, and none is sent.
 * - The same seed, clock and frames give the same run, command by command.
 */

import type { Facts } from '../../../firmware/board/hal.ts'
import { BURST_FRAMES, ON_DEMAND_REGIONS } from '../../../firmware/board/limits.ts'
import type { Clock, Timer } from '../../clock.ts'
import { BOOLEAN, COUNT, FUNCTION, having, type Kinds, OBJECT, oneOf, TEXT } from '../../kinds.ts'
import type { PeersList } from '../../software/peers-file.ts'
import {
  CLOCK,
  check,
  checkFields,
  HOST_MEMORY,
  NUMBER,
  NVDIMM,
  octets,
  PEERS_LIST,
  RAM,
} from '../base/arguments.ts'
import { drawnSeed, Random } from '../base/random.ts'
import type { CardPort } from '../host/card-port.ts'
import type { HostMemory } from '../host/host-memory.ts'
import type { HostRam } from '../host/host-ram.ts'
import type { Nvdimm } from '../medium/nvdimm.ts'
import { type CutChoice, type CutReport, checkChoice, cut } from '../medium/power-cut.ts'
import type { CardTrace } from '../trace/card-trace.ts'
import { type Bundle, findBundle } from './bundle.ts'
import { bootDirect } from './direct.ts'
import { type FirmwareEngine, FirmwareStopped } from './engine.ts'
import { bootGuest } from './guest.ts'
import { EmulatedMachine, type MachineStatistics } from './machine.ts'

/** 'quickjs' runs the shipped bundle, 'node' the sources. */
export type Engine = 'quickjs' | 'node'

export const ENGINES: readonly Engine[] = ['quickjs', 'node']

/** What a card states unless it is told otherwise. */
export const DEFAULT_PORT = {
  mac: [0x02, 0, 0, 0, 0, 0x02],
  ipv4: [10, 0, 0, 2],
  ipv6: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
  pathMtu: 4096,
} as const

/** From the first frame of a burst to the poll, microseconds. */
const POLL_US = 3

/** From a call that asked for an idle call to that call, microseconds. */
const IDLE_US = 20

/** Frames that wait in the port at most; more are dropped, as a full ring drops them. */
const RING_FRAMES = 1024

const OPCODE_WRITE_PERSIST_LAST = 0xc8
const OPCODE_WRITE_PERSIST_ONLY = 0xca

export interface DpuOptions {
  readonly nvdimm: Nvdimm
  /** The host's persistent memory behind PCIe. */
  readonly host?: HostMemory
  /** The host's ordinary memory behind PCIe; that of the port if there is one. */
  readonly ram?: HostRam
  /** The host's end of the port, whose memory the queues lie in. */
  readonly port?: CardPort
  readonly clock: Clock
  /** Takes every frame that is sent. */
  readonly transmit: (frame: Uint8Array) => void
  /** 'quickjs' unless given. */
  readonly engine?: Engine
  /**
   * Decides the entropy of every power-on, hence all keys, and every cut that does not bring its
   * own chance; drawn unless given, so that no two cards have the same keys.
   */
  readonly seed?: number
  readonly facts?: Partial<
    Pick<Facts, 'mac' | 'ipv4' | 'ipv6' | 'pathMtu' | 'strictIcrc' | 'identity'>
  >
  /** Who may come, where the card may change that; without it `facts.identity` says it for good. */
  readonly peers?: PeersList
  /** The firmware for 'quickjs'; the shipped one unless given. */
  readonly bundle?: Bundle
  /** Whether the firmware that runs goes back unless it is confirmed; asked again and again. */
  readonly isOnTrial?: () => boolean
  /** Writes down what happens: of this card alone. */
  readonly trace?: CardTrace
  /** Told when the power was cut, by whomever. */
  readonly onPowerCut?: (report: CutReport) => void
  /** Told when the firmware stopped; without it the error is thrown to whoever runs the clock. */
  readonly onStopped?: (error: FirmwareStopped) => void
}

/** How a cut is to strike later. */
export interface CutPlan {
  /**
   * Strikes in the burst that completes this record, counted from 1 over all power-ons, or in the
   * next commit behind it.
   */
  readonly record: number
  readonly choice?: Partial<CutChoice>
  /** Whether the host keeps its power; see `powerCut`. */
  readonly hostStays?: boolean
}

const DPU_KINDS: Kinds<DpuOptions> = {
  ...{ nvdimm: NVDIMM, host: HOST_MEMORY, ram: RAM, clock: CLOCK, transmit: FUNCTION },
  port: having(['cardStarts', 'cardServes', 'cardStops'], 'a port of a card'),
  ...{ engine: oneOf(ENGINES), seed: NUMBER, facts: OBJECT, peers: PEERS_LIST },
  bundle: OBJECT,
  trace: having(['attach', 'begin', 'end'], 'a CardTrace'),
  ...{ onPowerCut: FUNCTION, onStopped: FUNCTION, isOnTrial: FUNCTION },
}

const FACT_KINDS: Kinds<NonNullable<DpuOptions['facts']>> = {
  ...{ mac: octets(6), ipv4: octets(4), ipv6: octets(16), pathMtu: COUNT, strictIcrc: BOOLEAN },
  identity: OBJECT,
}

const BUNDLE_KINDS: Kinds<Bundle> = { path: TEXT, source: TEXT }

function checkBundle(bundle: Bundle): void {
  checkFields('bundle', bundle, BUNDLE_KINDS, ['path', 'source'])
}

const PLAN_KINDS: Kinds<CutPlan> = { record: COUNT, choice: OBJECT, hostStays: BOOLEAN }

function checkPlan(plan: CutPlan): void {
  checkFields('plan of a cut', plan, PLAN_KINDS, ['record'])
  if (plan.choice !== undefined) checkChoice(plan.choice)
}

/** Sums over all power-ons. */
export interface DpuStatistics extends MachineStatistics {
  readonly powerOns: number
  readonly bursts: number
  readonly framesReceived: number
  readonly framesDropped: number
  /** Records whose request arrived whole: WRITE_PERSIST Last and Only. */
  readonly records: number
}

export class EmulatedDpu {
  readonly nvdimm: Nvdimm
  readonly engineName: Engine
  /** What it was made with, or has drawn: with it the run can be had again. */
  readonly seed: number
  /** The machine that runs, or ran last; null before the first power-on. */
  machine: EmulatedMachine | null = null
  /** The firmware for 'quickjs' from the next power-on on; null: the shipped one. */
  bundle: Bundle | null
  /** How often that may be asked to go on within a call until it has hung; null: as usual. */
  interruptsMax: number | null = null
  /** What the last cut did. */
  lastCut: CutReport | null = null

  private readonly options: DpuOptions
  private readonly clock: Clock
  private readonly random: Random
  private readonly trace: CardTrace | null
  private engine: FirmwareEngine | null = null
  private waiting: Uint8Array[] = []
  private pollTimer: Timer | null = null
  private idleTimer: Timer | null = null
  private idleAtUs = 0
  private busyUntilUs = 0
  private plan: CutPlan | null = null
  private powerOns = 0
  private bursts = 0
  private framesReceived = 0
  private framesDropped = 0
  private records = 0
  private before: MachineStatistics | null = null

  constructor(options: DpuOptions) {
    checkFields('a DPU', options, DPU_KINDS, ['nvdimm', 'clock', 'transmit'])
    if (options.facts !== undefined) checkFields('facts', options.facts, FACT_KINDS)
    if (options.bundle !== undefined) checkBundle(options.bundle)
    this.options = options
    this.nvdimm = options.nvdimm
    this.bundle = options.bundle ?? null
    this.clock = options.clock
    this.engineName = options.engine ?? 'quickjs'
    this.seed = options.seed ?? drawnSeed()
    this.random = new Random(this.seed)
    this.trace = options.trace ?? null
    this.trace?.attach(this.nvdimm, this.clock)
  }

  get isOn(): boolean {
    return this.engine !== null
  }

  /**
   * Boots: recovery has run when this is done. `prepare` may watch the new machine, or arm a cut
   * in recovery; if that strikes, the card is off again. Throws FirmwareStopped.
   */
  async powerOn(prepare: (machine: EmulatedMachine) => void = () => {}): Promise<void> {
    check('prepare', prepare, FUNCTION)
    if (this.engineName === 'node') {
      this.powerOnDirectly(prepare)
      return
    }
    this.checkOff()
    if (this.bundle !== null) checkBundle(this.bundle)
    const { path, source } = this.bundle ?? findBundle()
    let machine: EmulatedMachine | null = null
    const machineFor = (packets: Uint8Array): EmulatedMachine => {
      machine = this.makeMachine(packets)
      prepare(machine)
      return machine
    }
    const sourceName = path.split(/[\\/]/).at(-1) ?? path
    const { interruptsMax } = this
    const patience = interruptsMax === null ? {} : { interruptsMax }
    this.booted(await bootGuest({ source, sourceName, machineFor, ...patience }))
  }

  /** The same without waiting, for the engine 'node' only. */
  powerOnDirectly(prepare: (machine: EmulatedMachine) => void = () => {}): void {
    check('prepare', prepare, FUNCTION)
    this.checkOff()
    if (this.engineName !== 'node') throw new Error('QuickJS cannot be booted without waiting')
    const machine = this.makeMachine()
    prepare(machine)
    this.booted(bootDirect(machine))
  }

  private checkOff(): void {
    if (this.engine !== null) throw new Error('the DPU is on')
  }

  private makeMachine(packets?: Uint8Array): EmulatedMachine {
    const { nvdimm } = this
    const { peers, isOnTrial } = this.options
    const entropy = Array.from({ length: 8 }, () => this.random.next())
    const facts: Facts = {
      board: 'emulator',
      nvdimmBytes: nvdimm.bytes,
      hostBytes: this.options.host?.bytes ?? 0,
      dmaBytes: this.ram?.bytes ?? 0,
      sharedSpaces: this.ram === null ? 0 : ON_DEMAND_REGIONS,
      strictIcrc: false,
      dirtyShutdowns: nvdimm.dirtyShutdowns,
      mac: DEFAULT_PORT.mac,
      ipv4: DEFAULT_PORT.ipv4,
      ipv6: DEFAULT_PORT.ipv6,
      pathMtu: DEFAULT_PORT.pathMtu,
      ...this.options.facts,
      ...(peers === undefined ? {} : { identity: peers.identity }),
      entropy,
    }
    if (this.machine !== null) this.before = this.sum()
    this.trace?.power(true)
    this.machine = new EmulatedMachine({
      facts,
      nvdimm,
      host: this.options.host ?? null,
      ram: this.ram,
      transmit: (frame) => {
        this.trace?.frame('out', frame)
        this.options.transmit(frame)
      },
      onCut: () => this.strike(this.plan?.choice ?? {}, this.plan?.hostStays),
      ...(packets === undefined ? {} : { packets }),
      ...(peers === undefined ? {} : { peers }),
      ...(isOnTrial === undefined ? {} : { isOnTrial }),
    })
    this.options.port?.cardStarts(this.machine.packets)
    this.busyUntilUs = 0
    return this.machine
  }

  private get ram(): HostRam | null {
    return this.options.port?.memory ?? this.options.ram ?? null
  }

  private booted(engine: FirmwareEngine): void {
    this.powerOns++
    this.engine = engine
    if (this.machine!.dead) {
      this.turnOff()
      return
    }
    this.waitForReads()
    this.scheduleIdle(1)
    this.options.port?.cardServes(() => {
      this.pollTimer ??= this.schedulePoll()
    })
  }

  /** The card has read from its host: it does nothing else until the last answer is there. */
  private waitForReads(): void {
    const { ram } = this
    if (ram !== null) this.busyUntilUs = this.clock.nowUs + ram.link.takeBusyNs() / 1000
  }

  /** A frame arrives at the port. */
  deliver(frame: Uint8Array): void {
    this.framesReceived++
    const isDropped = this.engine === null || this.waiting.length >= RING_FRAMES
    this.trace?.frame('in', frame, isDropped)
    if (isDropped) {
      this.framesDropped++
      return
    }
    this.waiting.push(frame)
    this.pollTimer ??= this.schedulePoll()
  }

  /** Whether it is still reading; then what was due has to wait until it is done. */
  private get isBusy(): boolean {
    return this.clock.nowUs < this.busyUntilUs
  }

  private schedulePoll(): Timer {
    const atUs = Math.max(this.clock.nowUs + POLL_US, this.busyUntilUs)
    return this.clock.schedule(atUs, () => this.poll())
  }

  /** Serves one burst. */
  private poll(): void {
    this.pollTimer = null
    const { engine, machine } = this
    if (engine === null || machine === null) return
    if (this.isBusy) {
      this.pollTimer = this.clock.schedule(this.busyUntilUs, () => this.poll())
      return
    }
    const burst = this.waiting.splice(0, BURST_FRAMES)
    this.trace?.burst(burst.length)
    const recordsBefore = this.records
    burst.forEach((frame, i) => {
      machine.place(i, frame)
      if (completesRecord(frame)) this.records++
    })
    const { plan } = this
    const isDue = plan !== null && plan.record > recordsBefore && plan.record <= this.records
    // Where no record of the burst comes to a commit (all are repetitions), the next one is hit.
    if (isDue) machine.armCutInGroup((plan.choice?.random ?? this.random).fork())
    this.bursts++
    this.call(() => engine.serve(burst.length, this.clock.nowUs))
    if (this.engine !== null && this.waiting.length > 0) this.pollTimer ??= this.schedulePoll()
  }

  /** Sees to it that there is an idle call within so many microseconds. */
  private scheduleIdle(withinUs: number): void {
    const atUs = Math.max(this.clock.nowUs + Math.max(IDLE_US, withinUs), this.busyUntilUs)
    if (this.idleTimer !== null) {
      if (this.idleAtUs <= atUs) return
      this.clock.cancel(this.idleTimer)
    }
    this.idleAtUs = atUs
    this.idleTimer = this.clock.schedule(atUs, () => {
      this.idleTimer = null
      const { engine } = this
      if (this.isBusy) this.scheduleIdle(1)
      else if (engine !== null) this.call(() => this.idle(engine))
    })
  }

  private idle(engine: FirmwareEngine): number {
    this.machine!.tellHealth()
    return engine.idle(this.clock.nowUs)
  }

  /** Runs the firmware, and sees to what became of it. */
  private call(run: () => number): void {
    try {
      const idleWithinUs = run()
      this.waitForReads()
      this.machine!.tellEnd(Math.max(this.clock.nowUs, this.busyUntilUs))
      if (this.machine!.dead) this.turnOff()
      else if (idleWithinUs > 0) this.scheduleIdle(idleWithinUs)
    } catch (error) {
      this.turnOff()
      const { onStopped } = this.options
      if (onStopped === undefined || !(error instanceof FirmwareStopped)) throw error
      onStopped(error)
    }
  }

  /** Plans a cut inside the commit of a record; null forgets the plan. */
  armCut(plan: CutPlan | null): void {
    if (plan !== null) checkPlan(plan)
    this.plan = plan
  }

  /**
   * Cuts the power now, between two command lists. A host with persistent memory loses its power
   * with the card, any other keeps it, unless `hostStays` says otherwise.
   */
  powerCut(choice: Partial<CutChoice> = {}, hostStays: boolean = this.hostStays): CutReport {
    checkChoice(choice)
    check('hostStays', hostStays, BOOLEAN)
    this.machine?.die()
    const report = this.strike(choice, hostStays)
    this.turnOff()
    return report
  }

  private get hostStays(): boolean {
    return this.options.host === undefined
  }

  private strike(choice: Partial<CutChoice>, hostStays = this.hostStays): CutReport {
    const whole = { ...choice, random: choice.random ?? this.random }
    this.trace?.cutBegins()
    const report = cut(this.nvdimm, whole)
    this.trace?.cutEnds(report)
    const { host } = this.options
    const { ram } = this
    if (hostStays) {
      // What has left the card may arrive, in its order, or not.
      const link = ram?.link ?? host?.link
      link?.drop(whole.random.below(link.postedWrites + 1))
    } else {
      host?.powerCut(whole)
      ram?.powerCut()
      this.options.port?.hostStops()
    }
    this.plan = null
    this.lastCut = report
    this.options.onPowerCut?.(report)
    return report
  }

  private turnOff(): void {
    this.engine?.dispose()
    this.engine = null
    this.options.port?.cardStops()
    this.trace?.power(false)
    this.framesDropped += this.waiting.length
    this.waiting = []
    for (const timer of [this.pollTimer, this.idleTimer]) {
      if (timer !== null) this.clock.cancel(timer)
    }
    this.pollTimer = null
    this.idleTimer = null
  }

  /** Bytes that the firmware's heap holds; 0 while the card is off. */
  memoryUsed(): number {
    return this.engine?.memoryUsed() ?? 0
  }

  get statistics(): DpuStatistics {
    const { powerOns, bursts, framesReceived, framesDropped, records } = this
    return { ...this.sum(), powerOns, bursts, framesReceived, framesDropped, records }
  }

  /** The machines before this one, and this one. */
  private sum(): MachineStatistics {
    const now = this.machine?.statistics ?? NOTHING
    const { before } = this
    if (before === null) return now
    const commands: Record<string, number> = {}
    for (const [name, count] of Object.entries(now.commands)) {
      commands[name] = count + (before.commands[name] ?? 0)
    }
    return {
      commands,
      runs: before.runs + now.runs,
      fences: before.fences + now.fences,
      bytesStored: before.bytesStored + now.bytesStored,
      linesCleaned: before.linesCleaned + now.linesCleaned,
      framesSent: before.framesSent + now.framesSent,
      bytesSent: before.bytesSent + now.bytesSent,
    }
  }
}

const NOTHING: MachineStatistics = {
  commands: {},
  runs: 0,
  fences: 0,
  bytesStored: 0,
  linesCleaned: 0,
  framesSent: 0,
  bytesSent: 0,
}

/** Whether the frame is a WRITE_PERSIST that ends a message: its opcode, if it has one. */
function completesRecord(frame: Uint8Array): boolean {
  const type = frame[12] === 0x81 && frame[13] === 0 ? 16 : 12
  const isIpv6 = frame[type] === 0x86
  const opcode = frame[type + 2 + (isIpv6 ? 40 : 20) + 8]
  return opcode === OPCODE_WRITE_PERSIST_LAST || opcode === OPCODE_WRITE_PERSIST_ONLY
}
