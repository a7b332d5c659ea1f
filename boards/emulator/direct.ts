/**
 * The firmware's sources in Node itself, without a guest: the same core on the same machine.
 *
 * What always holds: for the same frames at the same times it writes the same command lists as the
 * bundle in QuickJS, byte for byte, which a comparison of traces shows. It is for tests that need
 * many boots or much speed; what a card runs is the bundle.
 */

import { type Firmware, start } from '../../firmware/main.ts'
import type { FirmwareEngine } from './engine.ts'
import type { EmulatedMachine } from './machine.ts'

/** Boots the core on a machine, at once. What it throws is a bug, and comes out as it is. */
export function bootDirect(machine: EmulatedMachine): FirmwareEngine {
  const firmware: Firmware = start(machine)
  return {
    serve: (count, nowUs) => firmware.serve(count, nowUs),
    idle: (nowUs) => firmware.idle(nowUs),
    memoryUsed: () => process.memoryUsage().heapUsed,
    dispose: () => {},
  }
}
