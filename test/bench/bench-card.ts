/**
 * A card that takes time: the firmware's own core on the emulated machine, with a price for each
 * command, at the end of a link that takes time as well. All of it in virtual time.
 *
 * Invariant: a frame leaves when the commands before it in the list have been paid for; the
 * next burst begins when the last one is paid for; a port sends one frame after the other. With a
 * host behind PCIe, a read of its memory, a doorbell and an interrupt take as long as the emulator
 * says (boards/emulator/host/pcie.ts); what its CPU does takes no time.
 */

import {
  EmulatedPort,
  type HostMemory,
  HostRam,
  Link,
  Nvdimm,
  type Timer,
  VirtualClock,
} from '../../boards/emulator/index.ts'
import { bootDirect } from '../../boards/emulator/run/direct.ts'
import { EmulatedMachine } from '../../boards/emulator/run/machine.ts'
import { CHECK, COMPARE, COPY, COPY_CLEAN, FENCE, LENGTH, SKIP } from '../../firmware/board/hal.ts'
import { BURST_FRAMES } from '../../firmware/board/limits.ts'
import type { Wire } from '../../host-driver/base/wire.ts'
import { linkWire } from '../../host-driver/local.ts'
import { FACTS, placeAll } from '../support/cards/test-card.ts'

/** The prices: microseconds, and bytes per microsecond. */
export const MODEL = {
  /** Port to port: two NIC pipelines, cables, one switch. */
  linkUs: 1,
  /** 100 Gbit/s. */
  linkBytesPerUs: 12_500,
  /** A host's CPU: from a completion to the next request. */
  hostUs: 0.3,
  /** From the first frame of a burst to its first command. */
  burstUs: 0.5,
  /** Any command, whatever it does. */
  commandUs: 0.05,
  /** Copies between packet memory and an NVDIMM of DRAM, write-back included. */
  copyBytesPerUs: 10_000,
  /** The check code, in software on one core. */
  checkBytesPerUs: 3000,
  /** A card that hears nothing for so long does its lazy work. */
  idleUs: 20,
  /** Until every line that was written back has reached the persistence domain. */
  fenceUs: 0.3,
} as const

function priceOf(op: number, length: number): number {
  if (op === SKIP) return 0
  if (op === FENCE) return MODEL.commandUs + MODEL.fenceUs
  if (op === CHECK) return MODEL.commandUs + length / MODEL.checkBytesPerUs
  if (op === COPY || op === COPY_CLEAN || op === COMPARE) {
    return MODEL.commandUs + length / MODEL.copyBytesPerUs
  }
  return MODEL.commandUs
}

export interface TimedCard {
  readonly clock: VirtualClock
  /** The host's end of the link. */
  readonly wire: Wire
  /** Sees every frame of both directions, as it goes onto the cable. */
  onFrame: (frame: Uint8Array, fromCard: boolean) => void
  readonly machine: EmulatedMachine
  /** The host's end of PCIe, if there is a host. */
  readonly port: EmulatedPort | null
  close(): void
}

/** Ordinary memory of the host, for its queues. */
const RAM_BYTES = 1 << 20

/** Sends one frame after the other, at the speed of the link. */
function paced(clock: VirtualClock, send: (frame: Uint8Array) => void): typeof send {
  let freeUs = 0
  return (frame) => {
    freeUs = Math.max(freeUs, clock.nowUs) + frame.length / MODEL.linkBytesPerUs
    clock.schedule(freeUs, () => send(frame))
  }
}

/** A machine with a part of that many bytes, and with what the host has. */
function machineOf(
  partBytes: number,
  host: HostMemory | null,
  ram: HostRam | null,
  transmit: (frame: Uint8Array) => void,
): EmulatedMachine {
  const bytes = { hostBytes: host?.bytes ?? 0, dmaBytes: ram?.bytes ?? 0 }
  const facts = { ...FACTS, nvdimmBytes: partBytes, ...bytes }
  return new EmulatedMachine({
    facts,
    nvdimm: new Nvdimm({ bytes: partBytes }),
    host,
    ram,
    transmit,
  })
}

/** Boots a card with a part of that many bytes, and perhaps a host; `close` holds time. */
export function openTimedCard(partBytes: number, host: HostMemory | null = null): TimedCard {
  const clock = new VirtualClock()
  const link = new Link({ clock, latencyUs: MODEL.linkUs })
  const fromCard = paced(clock, (frame) => link.send('b', frame))
  const fromHost = paced(clock, (frame) => link.send('a', frame))
  let spentUs = 0
  const ram = host === null ? null : new HostRam(RAM_BYTES, host.link)
  const port = ram === null ? null : new EmulatedPort({ ram, clock })
  const machine = machineOf(partBytes, host, ram, (frame) => {
    clock.schedule(clock.nowUs + spentUs, () => fromCard(frame))
  })
  port?.cardStarts(machine.packets)
  const firmware = bootDirect(machine)
  machine.observe({
    onCommand: (_number, op, words, at) => {
      spentUs += priceOf(op, words[at + LENGTH]!)
    },
  })
  let waiting: Uint8Array[] = []
  let busy = false
  let rung = false
  let lazy: Timer | null = null
  /** Serves what came, or does lazy work; what that costs passes before anything else is done. */
  const work = (): void => {
    busy = true
    spentUs = 0
    const burst = waiting.slice(0, BURST_FRAMES)
    waiting = waiting.slice(BURST_FRAMES)
    placeAll(machine, burst)
    const now = clock.nowUs
    const serves = burst.length > 0 || rung
    rung = false
    const wantsUs = serves ? firmware.serve(burst.length, now) : firmware.idle(now)
    if (ram !== null) spentUs += ram.link.takeBusyNs() / 1000
    clock.schedule(now + spentUs, () => {
      busy = false
      if (waiting.length > 0 || rung) begin()
      else if (wantsUs > 0) lazy = clock.schedule(now + Math.max(wantsUs, MODEL.idleUs), work)
    })
  }
  const begin = (): void => {
    busy = true
    if (lazy !== null) clock.cancel(lazy)
    clock.schedule(clock.nowUs + MODEL.burstUs, work)
  }
  link.attach('b', (frame) => {
    waiting.push(frame)
    if (!busy) begin()
  })
  port?.cardServes(() => {
    rung = true
    if (!busy) begin()
  })
  const card: TimedCard = {
    clock,
    wire: { ...linkWire(link, clock), send: fromHost },
    onFrame: () => {},
    machine,
    port,
    close: () => clock.stop(),
  }
  link.tap = (frame, _, from) => card.onFrame(frame, from === 'b')
  clock.start()
  return card
}
