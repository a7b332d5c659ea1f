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

const OF_KERNEL =
  'congestion connect-doubt dialogues queue-neighbours responder wire-hostile' +
  ' write-persist-region'

const OF_FIRMWARE = `
  atomics batch batch-crash-media batch-driver batch-edges batch-failures batch-hostile batch-local
  batch-queues batch-requester chains congestion connect connect-active connect-doubt
  connect-hostile connect-link control control-edges engines evidence-failures flush hostile
  long-read media-errors neighbours on-demand on-demand-calls on-demand-host operations
  operations-table ordered ordered-edges pcie-connect persist persist-edges placement-agent
  placement-edges placement-lives placement-mixed placement-probe placement-through queue-control
  queue-dma queue-edges queue-faults queue-gsi queue-local-ends queue-local-refusals
  queue-neighbours queue-receive queue-status queue-wire-ends queue-work-connected queue-work-local
  queue-zone2 queues-chaos queues-completion queues-doorbell queues-element queues-host
  queues-limits read recovery regions relay-link requester requester-doubt requester-edges
  requester-kinds residency-blocks residency-queues residency-responder residency-transport
  residency-wire responder send superblock-lost superblock-refused two-hosts verbs-devices wire
  wire-hostile wire-print write-persist-region
`

/** Paths of test files, from the root. */
export function testsOf(size: Size): string[] {
  const names = (size === 'cut' ? OF_KERNEL : OF_FIRMWARE).trim().split(/\s+/)
  return names.map((name) => `test/${name}.test.ts`)
}
