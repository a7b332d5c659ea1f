/**
 * A card whose board may fail while it starts, too; packet memory is used again and again, zeroed,
 * as most of the cost of a start is to make it.
 */

import type { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { MEMORY_BYTES, STAGING_AT } from '../../../firmware/board/memory-map.ts'
import { FACTS } from '../../support/cards/card.ts'
import { Conversation, type Sent, sentOf } from '../../support/wire/conversation.ts'

/** The card that is played, and the one that is started on what it left. */
export type Seat = 'played' | 'restarted'

const seats = new Map<Seat, Uint8Array>()

/** Packet memory as at power-on. What is asked of a restarted card is too short for staging. */
function packetsOf(seat: Seat): Uint8Array {
  const packets = seats.get(seat) ?? new Uint8Array(MEMORY_BYTES)
  seats.set(seat, packets)
  packets.fill(0, 0, seat === 'restarted' ? STAGING_AT : MEMORY_BYTES)
  return packets
}

/** The machine has no power: whoever wanted something of it will not get it. */
export class WentDark extends Error {
  override readonly name = 'WentDark'
}

interface BoardCardOptions {
  readonly seat: Seat
  /** Called with the machine before the firmware starts on it. */
  readonly beforeBoot?: (machine: EmulatedMachine) => void
  /** Called with each frame as it leaves. */
  readonly leaves?: (sent: Sent) => void
  /** The ordinary memory of a host behind it. */
  readonly ram?: HostRam
  /** Another engine than the sources in Node. */
  readonly starter?: Starter
}

/** An engine that has its own packet memory, and starts the firmware on a machine with it. */
export interface Starter {
  readonly packets: Uint8Array
  start(machine: EmulatedMachine): FirmwareEngine
}

export class BoardCard extends Conversation {
  readonly machine: EmulatedMachine
  readonly nvdimm: Nvdimm
  private readonly firmware: FirmwareEngine
  private sent: Sent[] = []
  now = 0
  waitUs = 0

  constructor(nvdimm: Nvdimm, options: BoardCardOptions) {
    super((...frames) => this.serve(...frames))
    this.nvdimm = nvdimm
    const { dirtyShutdowns, bytes } = nvdimm
    const ram = options.ram ?? null
    const dmaBytes = ram?.bytes ?? 0
    this.machine = new EmulatedMachine({
      facts: { ...FACTS, dirtyShutdowns, nvdimmBytes: bytes, dmaBytes },
      nvdimm,
      ram,
      packets: options.starter?.packets ?? packetsOf(options.seat),
      transmit: (frame) => {
        const sent = sentOf(frame)
        this.sent.push(sent)
        options.leaves?.(sent)
      },
    })
    options.beforeBoot?.(this.machine)
    this.firmware = options.starter?.start(this.machine) ?? bootDirect(this.machine)
  }

  serve(...frames: Uint8Array[]): Sent[] {
    this.sent = []
    frames.forEach((frame, i) => {
      this.machine.place(i, frame)
    })
    this.now += 10
    this.waitUs = this.firmware.serve(frames.length, this.now)
    if (this.machine.dead) throw new WentDark()
    return this.sent
  }

  idle(us = 10): Sent[] {
    this.sent = []
    this.now += us
    this.waitUs = this.firmware.idle(this.now)
    if (this.machine.dead) throw new WentDark()
    return this.sent
  }
}
