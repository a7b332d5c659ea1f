/**
 * The shipped bundle in QuickJS, given the same frames as the sources in Node, at the same times.
 *
 * Invariant: both send the same frames, wait for the same time, and leave the same bytes on
 * their parts; so whatever judges Node has judged the bundle. Its memory stays level.
 */

import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { findBundle } from '../../../boards/emulator/run/bundle.ts'
import { bootGuest, type Guest } from '../../../boards/emulator/run/guest.ts'
import type { Ledger } from './ledger.ts'
import { type Episode, episodeSeed, playEpisode } from './play.ts'
import { BRISK, DIALOGUES, Traffic } from './traffic.ts'
import {
  factsOf,
  hashFrame,
  pooledPackets,
  StrictMachine,
  type Twin,
  type WorldOptions,
} from './world.ts'

/** Inputs of one episode: a guest takes long to start. */
const INPUTS = 50_000
/** What the heap of the guest may grow by in the second half of an episode, as a share. */
const GROWTH = 0.03
/** Bytes of the heap, at the most, that an initiator takes: it is made when it is asked for. */
const INITIATOR_BYTES = 150_000

class GuestTwin implements Twin {
  sent = 0
  readonly part: Nvdimm
  machine!: StrictMachine
  guest!: Guest

  constructor(bytes: number) {
    this.part = new Nvdimm({ bytes })
  }

  place(i: number, frame: Uint8Array): void {
    this.machine.place(i, frame)
  }

  serve(count: number, now: number): number {
    return this.guest.serve(count, now)
  }

  idle(now: number): number {
    return this.guest.idle(now)
  }
}

async function openTwin(options: WorldOptions): Promise<GuestTwin> {
  const facts = factsOf(options)
  const twin = new GuestTwin(facts.nvdimmBytes)
  twin.guest = await bootGuest({
    source: findBundle().source,
    machineFor: (packets) => {
      twin.machine = new StrictMachine({
        facts,
        nvdimm: twin.part,
        transmit: (frame) => {
          twin.sent = hashFrame(twin.sent, frame)
        },
        packets,
      })
      return twin.machine
    },
  })
  return twin
}

interface GuestEpisode {
  readonly episode: Episode
  /** Half of it is over: the heap holds what it ever will. */
  half(): void
  /** It has ended: a complaint, or nothing. */
  done(): string
}

/** An episode that a guest plays, too. */
export async function openGuestEpisode(seed: number): Promise<GuestEpisode> {
  const twin = await openTwin({ seed })
  const manner = seed % 8 === 0 ? DIALOGUES : BRISK
  const episode = new Traffic({ seed, twin, packets: pooledPackets() }, manner)
  const { initiators } = episode.arena.world.state
  let [before, had] = [0, 0]
  const half = (): void => {
    before = twin.guest.memoryUsed()
    had = initiators.length
  }
  const done = (): string => {
    const grown = twin.guest.memoryUsed() - before
    twin.guest.dispose()
    const made = Math.max(0, initiators.length - had)
    if (grown <= GROWTH * before + made * INITIATOR_BYTES) return ''
    return `the heap of the guest has grown by ${grown} bytes, for ${made} initiators more`
  }
  return { episode, half, done }
}

export async function fuzzGuest(
  ledger: Ledger,
  seed: number,
  inputs: number,
  progress: (share: number) => void,
): Promise<void> {
  for (let i = 0; ledger.inputs < inputs && ledger.violations === 0; i++) {
    const one = episodeSeed(seed, i)
    const size = Math.min(INPUTS, inputs - ledger.inputs)
    const { episode, half, done } = await openGuestEpisode(one)
    const { world } = episode.arena
    world.ledger = ledger
    episode.run(size >> 1)
    half()
    const complaint = world.complaint || playEpisode(episode, size >> 1, ledger) || done()
    if (complaint !== '') ledger.object(complaint, `quickjs/${one}/${size}`)
    progress(ledger.inputs / inputs)
  }
  ledger.count('inputs in QuickJS', ledger.inputs)
}
