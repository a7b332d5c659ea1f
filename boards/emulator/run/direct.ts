/**
 * The firmware's sources in Node itself, without a guest: the same core on the same machine.
 *
 * Invariant: for the same frames at the same times it writes the same command lists as the
 * bundle in QuickJS, byte for byte, which a comparison of traces shows. It is for tests that need
 * many boots or much speed; what a card runs is the bundle.
 */

import type { Machine } from '../../../firmware/board/hal.ts'
import type { State } from '../../../firmware/core.ts'
import { createState, type Firmware, startWith } from '../../../firmware/main.ts'
import type { FirmwareEngine } from './engine.ts'
import type { EmulatedMachine } from './machine.ts'

/** Boots in the place of `bootDirect`, which it is given: it may stand between machine and core. */
export type Recorder = (
  machine: EmulatedMachine,
  boot: (machine: Machine) => FirmwareEngine,
) => FirmwareEngine

let recorder: Recorder | null = null

/** From now on every boot goes through `by`; null ends that. */
export function recordBoots(by: Recorder | null): void {
  recorder = by
}

/**
 * Boots the core on a machine, at once. What it throws is a bug, and comes out as it is. `see` is
 * given the core's state, to look at.
 */
export function bootDirect(
  machine: EmulatedMachine,
  see: (state: State) => void = () => {},
): FirmwareEngine {
  const bootOn = (seen: Machine): FirmwareEngine => boot(seen, see)
  return recorder === null ? bootOn(machine) : recorder(machine, bootOn)
}

function boot(machine: Machine, see: (state: State) => void): FirmwareEngine {
  const state = createState(machine)
  see(state)
  const firmware: Firmware = startWith(state)
  return {
    serve: (count, nowUs) => firmware.serve(count, nowUs),
    idle: (nowUs) => firmware.idle(nowUs),
    memoryUsed: () => process.memoryUsage().heapUsed,
    dispose: () => {},
  }
}
