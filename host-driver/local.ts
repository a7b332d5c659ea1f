/**
 * A DPU inside this process: an NVDIMM image, the emulated card, a link, and virtual time.
 *
 * Invariant: waiting costs nothing, because the clock jumps to the next event; everything
 * that looks like chance comes from the seed, which is drawn unless it is given; a copy-on-write
 * image is never written.
 */

import {
  drawnSeed,
  EmulatedDpu,
  EmulatedPort,
  type Engine,
  type HostMemory,
  HostRam,
  HostSide,
  Link,
  type LinkFaults,
  type Nvdimm,
  openNvdimm,
  VirtualClock,
} from '../boards/emulator/index.ts'
import type { PeersList } from '../boards/software/peers-file.ts'
import type { Identity } from '../firmware/board/hal.ts'
import type { Wire } from './base/wire.ts'

/** Time given to a card before its power goes, so that it can do its lazy work, µs. */
const FAREWELL_US = 2000

const RAM_BYTES = 1 << 20

export interface LocalOptions {
  /** The image; it is made, of `bytes`, if it does not exist and `bytes` is given. */
  readonly path: string
  readonly bytes?: number
  /** What is stored lives in memory only; the image is not touched. */
  readonly copyOnWrite?: boolean
  /** The card says that its memory does not outlive the power. */
  readonly volatile?: boolean
  /** 'quickjs' runs the shipped bundle (default), 'node' the sources. */
  readonly engine?: Engine
  /** Decides keys and chance; drawn unless given: `LocalDpu.dpu.seed` says which it is. */
  readonly seed?: number
  readonly faults?: LinkFaults
  /** The target machine's persistent memory, as the card sees it. */
  readonly host?: HostMemory
  /** Its ordinary memory, where queues lie; 1 MiB where it has persistent memory, else none. */
  readonly ramBytes?: number
  /** The card's key and its peers; it is open where this is absent. */
  readonly identity?: Identity
  /** The same, where the card may change its peers. */
  readonly peers?: PeersList
}

export interface LocalDpu {
  readonly dpu: EmulatedDpu
  readonly nvdimm: Nvdimm
  readonly link: Link
  readonly clock: VirtualClock
  /** The target machine's CPU, where the card sees its memory. */
  readonly hostSide: HostSide | null
  /** The target machine's end of the card's port, where it has ordinary memory. */
  readonly port: EmulatedPort | null
  /** The host's end of the link, for `connect`. Closing it leaves the card on. */
  readonly wire: Wire
  /** Holds time, takes the power away and closes the image. */
  close(): void
}

/** Opens the image and boots a card on it. Throws NvdimmFileError or FirmwareStopped. */
export async function openLocal(options: LocalOptions): Promise<LocalDpu> {
  const { path, bytes, copyOnWrite = false, engine, faults, host, identity, peers } = options
  const { volatile = false, seed = drawnSeed() } = options
  const ramBytes = options.ramBytes ?? (host === undefined ? 0 : RAM_BYTES)
  const nvdimm = openNvdimm({
    path,
    readOnly: copyOnWrite,
    volatile,
    ...(bytes === undefined ? {} : { bytes }),
  })
  const clock = new VirtualClock()
  const link = new Link({ clock, seed, ...(faults === undefined ? {} : { faults }) })
  const ram = ramBytes === 0 ? null : new HostRam(ramBytes, host?.link)
  const port = ram === null ? null : new EmulatedPort({ ram, clock })
  const dpu = new EmulatedDpu({
    nvdimm,
    clock,
    seed,
    transmit: (frame) => link.send('b', frame),
    ...(engine === undefined ? {} : { engine }),
    ...(host === undefined ? {} : { host }),
    ...(port === null ? {} : { port }),
    ...(identity === undefined ? {} : { facts: { identity } }),
    ...(peers === undefined ? {} : { peers }),
  })
  const hostSide = host === undefined ? null : new HostSide(dpu, host)
  link.attach('b', (frame) => dpu.deliver(frame))
  const close = (): void => {
    clock.stop()
    try {
      if (dpu.isOn) clock.runUntil(clock.nowUs + FAREWELL_US)
      if (dpu.isOn) dpu.powerCut({ strategy: 'all' })
    } finally {
      nvdimm.backing?.close()
      nvdimm.backing = null
    }
  }
  try {
    await dpu.powerOn()
  } catch (error) {
    close()
    throw error
  }
  clock.start()
  return { dpu, nvdimm, link, clock, hostSide, port, wire: linkWire(link, clock), close }
}

/** The host's end of a link as a wire. */
export function linkWire(link: Link, clock: VirtualClock): Wire {
  return {
    send: (frame) => link.send('a', frame),
    onFrame: (callback) => link.attach('a', callback),
    now: () => clock.nowUs,
    setTimer: (atUs, callback) => {
      const timer = clock.schedule(atUs, callback)
      return () => clock.cancel(timer)
    },
    close: () => link.attach('a', () => {}),
  }
}
