/**
 * One DPU without a clock and without a link: frames in, frames out, on the firmware's own core in
 * Node. For tests that need many boots, exact bursts, or a look at every command.
 */

import type { HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import type { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import { EmulatedMachine, type Watch } from '../../../boards/emulator/run/machine.ts'
import type { PeersList } from '../../../boards/software/peers-file.ts'
import type { Facts } from '../../../firmware/board/hal.ts'
import { ON_DEMAND_REGIONS } from '../../../firmware/board/limits.ts'
import { Conversation, type Sent, sentOf } from '../wire/conversation.ts'
import { isRoce } from '../wire/frames.ts'
import { givePacketMemory, takePacketMemory } from './packet-memory.ts'

export * from '../wire/conversation.ts'

export const FACTS: Facts = {
  board: 'test',
  nvdimmBytes: 0,
  hostBytes: 0,
  dmaBytes: 0,
  strictIcrc: false,
  dirtyShutdowns: 0,
  mac: [2, 0, 0, 0, 0, 2],
  ipv4: [10, 0, 0, 2],
  ipv6: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
  pathMtu: 4096,
  entropy: [1, 2, 3, 4, 5, 6, 7, 8],
}

/** The cards that go when the work ends which made them. */
let passing: TestCard[] | null = null

/** The cards that `work` makes are gone behind it, and others have their packet memories. */
export function withPassingCards<T>(work: () => T): T {
  const outer = passing
  const own: TestCard[] = []
  passing = own
  try {
    return work()
  } finally {
    passing = outer
    for (const card of own) card.release()
  }
}

function gone(): never {
  throw new Error('this card is gone')
}

/** The firmware of a card that has none. */
export const GONE: FirmwareEngine = { serve: gone, idle: gone, memoryUsed: gone, dispose: () => {} }

/** Puts a burst into the places of what arrives. */
export function placeAll(machine: EmulatedMachine, frames: readonly Uint8Array[]): void {
  frames.forEach((frame, i) => {
    machine.place(i, frame)
  })
}

export interface TestCardOptions {
  /** What the board says of itself beside what its part and its host decide. */
  readonly facts?: Partial<Facts>
  /** Who may come, where the card may change that. */
  readonly peers?: PeersList
  readonly watch?: Watch
  readonly host?: HostMemory | null
  /** The ordinary memory of a host behind PCIe (queue-host.ts). */
  readonly ram?: HostRam | null
  /** Packet memory as at power-on; the card borrows one unless given. */
  readonly packets?: Uint8Array
  /** Starts the firmware on the machine: its sources in Node, unless given. */
  readonly start?: (machine: EmulatedMachine) => FirmwareEngine
  /** What reaches the card of a frame that is sent to it. */
  readonly hears?: (frame: Uint8Array) => Uint8Array
  /** Called with each frame as it leaves. */
  readonly leaves?: (sent: Sent) => void
  /** Called each time that the firmware has returned. */
  readonly returned?: (machine: EmulatedMachine) => void
}

export class TestCard extends Conversation {
  readonly nvdimm: Nvdimm
  readonly host: HostMemory | null
  readonly ram: HostRam | null
  readonly facts: Facts
  readonly machine: EmulatedMachine
  firmware: FirmwareEngine
  sent: Sent[] = []
  /** Frames that are not RoCEv2: neighbour answers. */
  plain: Uint8Array[] = []
  now = 0
  /** After how many µs the firmware wanted its `idle`; 0 is never. */
  waitUs = 0
  private readonly options: TestCardOptions

  constructor(part: Nvdimm | number = 1 << 18, options: TestCardOptions = {}) {
    super((...frames) => this.serve(...frames))
    const { host = null, ram = null, facts, peers } = options
    this.nvdimm = typeof part === 'number' ? new Nvdimm({ bytes: part }) : part
    this.host = host
    this.ram = ram
    this.options = options
    const { dirtyShutdowns, bytes } = this.nvdimm
    const hostBytes = host?.bytes ?? 0
    const dmaBytes = ram?.bytes ?? 0
    const memory = { nvdimmBytes: bytes, hostBytes, dmaBytes }
    const sharedSpaces = ram === null ? 0 : ON_DEMAND_REGIONS
    this.facts = { ...FACTS, dirtyShutdowns, ...memory, sharedSpaces, ...facts }
    if (peers !== undefined) this.facts = { ...this.facts, identity: peers.identity }
    this.machine = this.makeMachine()
    this.firmware = (options.start ?? bootDirect)(this.machine)
    if (options.packets === undefined) passing?.push(this)
  }

  /** Its packet memory, which it borrowed, may be another card's. */
  release(): void {
    this.machine.die()
    this.firmware = GONE
    givePacketMemory(this.machine.packets)
  }

  private makeMachine(): EmulatedMachine {
    const { options, facts, nvdimm, host, ram } = this
    const machine = new EmulatedMachine({
      ...{ facts, nvdimm, host, ram, packets: options.packets ?? takePacketMemory() },
      transmit: (frame) => this.transmitted(frame),
      ...(options.peers === undefined ? {} : { peers: options.peers }),
    })
    if (options.watch !== undefined) machine.observe(options.watch)
    return machine
  }

  private transmitted(frame: Uint8Array): void {
    if (isRoce(frame)) {
      const sent = sentOf(frame)
      this.sent.push(sent)
      this.options.leaves?.(sent)
    } else this.plain.push(frame)
  }

  /** Serves the frames as one burst, or as several if they are many; returns what was sent. */
  serve(...frames: Uint8Array[]): Sent[] {
    const { hears } = this.options
    this.sent = []
    this.plain = []
    for (let i = 0; i < frames.length || i === 0; i += 32) {
      const burst = frames.slice(i, i + 32)
      placeAll(this.machine, hears === undefined ? burst : burst.map(hears))
      this.now += 10
      this.waitUs = this.firmware.serve(burst.length, this.now)
      this.options.returned?.(this.machine)
    }
    return this.sent
  }

  idle(): void {
    this.wait(10)
  }

  /** Lets so many µs go by, then the firmware's `idle`; returns what it sent. */
  pass(us: number): Sent[] {
    this.sent = []
    this.plain = []
    this.wait(us)
    return this.sent
  }

  private wait(us: number): void {
    this.now += us
    this.waitUs = this.firmware.idle(this.now)
    this.options.returned?.(this.machine)
  }
}
