/**
 * The shipped bundle in QuickJS, started again and again in the memory of one guest, and stopped
 * there: for lack of memory, of stack or of time, in any moment.
 *
 * Invariants:
 * - All of a guest's state is its WebAssembly memory, so a guest that is put back is as good as
 *   new, also one that had stopped.
 * - The limit that is lowered is the engine's own: it is asked at every allocation, and at every
 *   change of an allocation's size, and what it refuses is answered as lack of memory.
 */

import { findBundle } from '../../../boards/emulator/run/bundle.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import { bootGuest, type Guest, type GuestMachine } from '../../../boards/emulator/run/guest.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { putBack, type Stretch, stretchesOf } from '../../support/cards/cold-guest.ts'
import { FACTS } from '../../support/cards/test-card.ts'
import type { Starter } from './card.ts'

/** Instead of a count of frames: start. */
const START = -1

/** Behind the bundle: its `start` waits for that count. */
const WAITING = `
;((start) => {
  globalThis.perdure = { start(board) {
    let firmware
    return {
      serve(count, now) {
        if (count !== ${START}) return firmware.serve(count, now)
        firmware = start(board)
        return 0
      },
      idle: (now) => firmware.idle(now),
    }
  } }
})(perdure.start)`

/** The engine's limit, as a card has it (guest.ts): by it the runtime is found in memory. */
const LIMIT = 24 * 2 ** 20

/** Words before the limit: how many allocations there are, and their size as the engine counts. */
const SIZE_BEFORE = 1

/** With that limit nothing is allocated any more, whatever is given back. */
export const NOTHING_MORE = 1

/** How much of what is taken from the engine. */
export type Taken =
  | { readonly kind: 'memory'; readonly more: number }
  | { readonly kind: 'from'; readonly call: number }
  | { readonly kind: 'stack'; readonly bytes: number }
  | { readonly kind: 'time'; readonly asked: number }

/** What of a guest is not in its memory: whether it has stopped, and how it is asked to. */
interface Inside {
  stopped: unknown
  hostError: unknown
  readonly context: {
    readonly runtime: {
      setMaxStackSize(bytes: number): void
      setInterruptHandler(stops: () => boolean): void
    }
  }
}

export class Squeezed implements Starter {
  readonly packets: Uint8Array
  private readonly guest: Guest<GuestMachine>
  private readonly memory: Uint8Array
  private readonly words: Int32Array
  private readonly cold: readonly Stretch[]
  private readonly limitAt: number
  private readonly box: { machine: EmulatedMachine | null }

  private constructor(guest: Guest<GuestMachine>, box: { machine: EmulatedMachine | null }) {
    this.guest = guest
    this.box = box
    this.packets = guest.packets
    this.memory = new Uint8Array(guest.packets.buffer)
    this.words = new Int32Array(guest.packets.buffer)
    this.limitAt = this.findLimit()
    this.cold = stretchesOf(this.memory)
  }

  private get inside(): Inside {
    return this.guest as unknown as Inside
  }

  static async evaluate(nvdimmBytes: number): Promise<Squeezed> {
    const box: { machine: EmulatedMachine | null } = { machine: null }
    const machine: GuestMachine = {
      facts: { ...FACTS, nvdimmBytes },
      run: (count) => box.machine!.run(count),
      die: () => box.machine!.die(),
    }
    const guest = await bootGuest({
      source: findBundle().source + WAITING,
      machineFor: () => machine,
    })
    return new Squeezed(guest, box)
  }

  /** The runtime keeps count, size and limit of its allocations side by side. */
  private findLimit(): number {
    const { words } = this
    const found: number[] = []
    for (let at = words.indexOf(LIMIT); at >= 0; at = words.indexOf(LIMIT, at + 1)) {
      const size = words[at - 1]!
      if (words[at - 2]! > 0 && size >= 8 * words[at - 2]! && size < LIMIT) found.push(at)
    }
    if (found.length !== 1) throw new Error(`the engine has ${found.length} limits`)
    return found[0]!
  }

  /** What is allocated now, as the engine counts it. */
  get size(): number {
    return this.words[this.limitAt - SIZE_BEFORE]!
  }

  set limit(bytes: number) {
    this.words[this.limitAt] = bytes
  }

  /** From now on it has so much less; what is taken from a board call on is the caller's. */
  take(how: Taken): void {
    const { runtime } = this.inside.context
    if (how.kind === 'memory') this.limit = Math.max(NOTHING_MORE, this.size + how.more)
    else if (how.kind === 'stack') runtime.setMaxStackSize(how.bytes)
    else if (how.kind === 'time') {
      let asked = 0
      runtime.setInterruptHandler(() => ++asked > how.asked)
    }
  }

  /** Puts the guest back to where it was evaluated; what it does next is to start. */
  reset(machine: EmulatedMachine): void {
    putBack(this.memory, this.cold)
    this.inside.stopped = null
    this.inside.hostError = null
    this.inside.context.runtime.setInterruptHandler(() => false)
    this.box.machine = machine
    // What the board has written is gone with all else.
    machine.tellHealth()
  }

  start(machine: EmulatedMachine): FirmwareEngine {
    this.reset(machine)
    this.beforeStart()
    this.guest.serve(START, 0)
    return this.guest
  }

  /** Called when everything is as at power-on. */
  beforeStart: () => void = () => {}

  dispose(): void {
    this.guest.dispose()
  }
}
