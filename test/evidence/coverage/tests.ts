/**
 * Which tests the branches are counted with, and which files are the kernel.
 *
 * What always holds: a file stands here because it takes branches that no other one takes. Tests
 * that enumerate or draw are not needed for that, and are left out.
 */

import type { Size } from '../stage.ts'

/**
 * What decides that something is durable, and what believes a header: the rows of recovery, the
 * decision to acknowledge, the checks of a packet.
 */
export const KERNEL: readonly string[] = [
  'firmware/commit/cases.ts',
  'firmware/transport/acknowledge.ts',
  'firmware/transport/responder.ts',
  'firmware/wire/packet.ts',
]

const OF_KERNEL: readonly string[] = [
  'congestion',
  'connect-doubt',
  'dialogues',
  'queue-neighbours',
  'responder',
  'wire-hostile',
  'write-persist-region',
]

const OF_FIRMWARE: readonly string[] = [...OF_KERNEL]

/** Paths of test files, from the root. */
export function testsOf(size: Size): string[] {
  const names = size === 'cut' ? OF_KERNEL : OF_FIRMWARE
  return names.map((name) => `test/${name}.test.ts`)
}
