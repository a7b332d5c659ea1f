/** A card on either engine, driven frame by frame: for the bench, and for tests of the engines. */

import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { findBundle } from '../../../boards/emulator/run/bundle.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import type { Engine } from '../../../boards/emulator/run/dpu.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import { bootGuest } from '../../../boards/emulator/run/guest.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import type { Facts } from '../../../firmware/board/hal.ts'
import { Conversation, sentOf } from '../wire/conversation.ts'
import { FACTS } from './card.ts'

export interface Bench {
  readonly machine: EmulatedMachine
  readonly engine: FirmwareEngine
  /** Frames that were sent since somebody emptied it. */
  readonly sent: Uint8Array[]
  /** For control calls and single bursts. */
  readonly card: Conversation
}

/** Boots a card of that many bytes. */
export async function openBench(
  name: Engine,
  partBytes: number,
  facts: Partial<Facts> = {},
): Promise<Bench> {
  const nvdimm = new Nvdimm({ bytes: partBytes })
  const sent: Uint8Array[] = []
  let machine: EmulatedMachine | null = null
  const machineFor = (packets?: Uint8Array): EmulatedMachine => {
    machine = new EmulatedMachine({
      facts: { ...FACTS, nvdimmBytes: partBytes, ...facts },
      nvdimm,
      transmit: (frame) => sent.push(frame),
      ...(packets === undefined ? {} : { packets }),
    })
    return machine
  }
  const engine =
    name === 'node'
      ? bootDirect(machineFor())
      : await bootGuest({ source: findBundle().source, machineFor })
  const card = new Conversation((...frames) => {
    sent.length = 0
    frames.forEach((frame, i) => {
      machine!.place(i, frame)
    })
    engine.serve(frames.length, 0)
    return sent.map(sentOf)
  })
  return { machine: machine!, engine, sent, card }
}
