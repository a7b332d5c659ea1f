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
import type { Facts } from '../../../firmware/board/hal.ts'
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
let passing: Card[] | null = null

/** The cards that `work` makes are gone behind it, and others have their packet memories. */
export function withPassingCards<T>(work: () => T): T {
  const outer = passing
  const own: Card[] = []
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

const GONE: FirmwareEngine = { serve: gone, idle: gone, memoryUsed: gone, dispose: () => {} }

export class Card extends Conversation {
  readonly nvdimm: Nvdimm
  readonly host: HostMemory | null
  /** The ordinary memory of a host behind PCIe (queue-host.ts). */
  readonly ram: HostRam | null
  readonly facts: Facts
  machine: EmulatedMachine
  firmware: FirmwareEngine
  sent: Sent[] = []
  /** Frames that are not RoCEv2: neighbour answers. */
  plain: Uint8Array[] = []
  now = 0
  /** After how many µs the firmware wanted its `idle`; 0 is never. */
  waitUs = 0

  constructor(
    part: Nvdimm | number = 1 << 18,
    facts: Partial<Facts> = {},
    watch: Watch | undefined = undefined,
    host: HostMemory | null = null,
    ram: HostRam | null = null,
  ) {
    super((...frames) => this.serve(...frames))
    this.nvdimm = typeof part === 'number' ? new Nvdimm({ bytes: part }) : part
    this.host = host
    this.ram = ram
    const { dirtyShutdowns, bytes } = this.nvdimm
    const hostBytes = host?.bytes ?? 0
    const dmaBytes = ram?.bytes ?? 0
    this.facts = { ...FACTS, dirtyShutdowns, nvdimmBytes: bytes, hostBytes, dmaBytes, ...facts }
    this.machine = this.makeMachine(watch)
    this.firmware = this.boot()
    passing?.push(this)
  }

  /** Its packet memory may be another card's. */
  release(): void {
    this.machine.die()
    this.firmware = GONE
    givePacketMemory(this.machine.packets)
  }

  protected boot(): FirmwareEngine {
    return bootDirect(this.machine)
  }

  private makeMachine(watch: Watch | undefined): EmulatedMachine {
    const machine = new EmulatedMachine({
      facts: this.facts,
      nvdimm: this.nvdimm,
      host: this.host,
      ram: this.ram,
      packets: takePacketMemory(),
      transmit: (frame) => {
        if (isRoce(frame)) this.sent.push(sentOf(frame))
        else this.plain.push(frame)
      },
    })
    if (watch !== undefined) machine.observe(watch)
    return machine
  }

  /** Serves the frames as one burst, or as several if they are many; returns what was sent. */
  serve(...frames: Uint8Array[]): Sent[] {
    this.sent = []
    this.plain = []
    for (let i = 0; i < frames.length || i === 0; i += 32) {
      const burst = frames.slice(i, i + 32)
      burst.forEach((frame, j) => {
        this.machine.place(j, frame)
      })
      this.now += 10
      this.waitUs = this.firmware.serve(burst.length, this.now)
    }
    return this.sent
  }

  idle(): void {
    this.now += 10
    this.waitUs = this.firmware.idle(this.now)
  }

  /** Lets so many µs go by, then the firmware's `idle`; returns what it sent. */
  pass(us: number): Sent[] {
    this.sent = []
    this.plain = []
    this.now += us
    this.waitUs = this.firmware.idle(this.now)
    return this.sent
  }
}
