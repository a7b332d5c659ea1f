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
import { FACTS, GONE, placeAll, TestCard, type TestCardOptions } from './test-card.ts'

/** Boots the firmware on that machine; QuickJS gives it packet memory of its own. */
async function bootOn(
  name: Engine,
  machineFor: (packets?: Uint8Array) => EmulatedMachine,
): Promise<FirmwareEngine> {
  if (name === 'node') return bootDirect(machineFor())
  return await bootGuest({ source: findBundle().source, machineFor })
}

/** Boots a card with an NVDIMM of that many bytes. */
export async function engineCard(
  name: Engine,
  partBytes: number,
  options: TestCardOptions = {},
): Promise<TestCard> {
  let card: TestCard | null = null
  const firmware = await bootOn(name, (packets) => {
    card = new TestCard(partBytes, { ...options, packets, start: () => GONE })
    return card.machine
  })
  card!.firmware = firmware
  return card!
}

export interface Bench {
  readonly machine: EmulatedMachine
  readonly engine: FirmwareEngine
  /** Frames that were sent since somebody emptied it. */
  readonly sent: Uint8Array[]
  /** For control calls and single bursts. */
  readonly card: Conversation
}

/** Boots a card of that many bytes; what it sends is left as it is until somebody reads it. */
export async function openBench(
  name: Engine,
  partBytes: number,
  facts: Partial<Facts> = {},
): Promise<Bench> {
  const nvdimm = new Nvdimm({ bytes: partBytes })
  const sent: Uint8Array[] = []
  let machine: EmulatedMachine | null = null
  const engine = await bootOn(name, (packets) => {
    machine = new EmulatedMachine({
      facts: { ...FACTS, nvdimmBytes: partBytes, ...facts },
      nvdimm,
      transmit: (frame) => sent.push(frame),
      ...(packets === undefined ? {} : { packets }),
    })
    return machine
  })
  return { machine: machine!, engine, sent, card: talk(machine!, engine, sent) }
}

/** Single bursts on a machine, at time 0; `sent` is what its board sends. */
export function talk(
  machine: EmulatedMachine,
  engine: FirmwareEngine,
  sent: Uint8Array[],
): Conversation {
  return new Conversation((...frames) => {
    sent.length = 0
    placeAll(machine, frames)
    engine.serve(frames.length, 0)
    return sent.map(sentOf)
  })
}
