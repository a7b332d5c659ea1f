/**
 * A card with a host behind it, on either engine, without a clock: for raw hosts (queue-host.ts).
 */

import type { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { findBundle } from '../../../boards/emulator/run/bundle.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { Engine } from '../../../boards/emulator/run/dpu.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import { bootGuest } from '../../../boards/emulator/run/guest.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import type { Hosted } from '../queues/queue-host.ts'
import { Conversation, type Sent, sentOf } from '../wire/conversation.ts'
import { FACTS } from './card.ts'

export class EngineCard extends Conversation implements Hosted {
  readonly machine: EmulatedMachine
  readonly engine: FirmwareEngine
  now = 0
  waitUs = 0
  private readonly sent: Uint8Array[]

  private constructor(machine: EmulatedMachine, engine: FirmwareEngine, sent: Uint8Array[]) {
    super((...frames) => this.serve(...frames))
    this.machine = machine
    this.engine = engine
    this.sent = sent
  }

  /** Boots a card with an NVDIMM of that many bytes. */
  static async boot(name: Engine, partBytes: number, ram: HostRam): Promise<EngineCard> {
    const sent: Uint8Array[] = []
    let machine: EmulatedMachine | null = null
    const machineFor = (packets?: Uint8Array): EmulatedMachine => {
      machine = new EmulatedMachine({
        facts: { ...FACTS, nvdimmBytes: partBytes, dmaBytes: ram.bytes },
        nvdimm: new Nvdimm({ bytes: partBytes }),
        ram,
        transmit: (frame) => sent.push(frame),
        ...(packets === undefined ? {} : { packets }),
      })
      return machine
    }
    const engine =
      name === 'node'
        ? bootDirect(machineFor())
        : await bootGuest({ source: findBundle().source, machineFor })
    return new EngineCard(machine!, engine, sent)
  }

  serve(...frames: Uint8Array[]): Sent[] {
    this.sent.length = 0
    frames.forEach((frame, i) => {
      this.machine.place(i, frame)
    })
    this.now += 10
    this.waitUs = this.engine.serve(frames.length, this.now)
    return this.sent.map(sentOf)
  }

  idle(): void {
    this.now += 10
    this.waitUs = this.engine.idle(this.now)
  }
}
