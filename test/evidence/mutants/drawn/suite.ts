/**
 * Files of the suite whose tests may notice a mutant: each says what a part of the product does,
 * needs nothing of Node but the vectors, and takes milliseconds for most of its tests. Those that
 * take longer are left out one by one (reach.ts).
 *
 * Invariant: whatever tests the firmware stands here, in one of two lists.
 */

import { testFiles } from '../../../support/source/test-files.ts'

const NAMES = `
  acknowledge-alone acknowledged-gone announce atomics batch batch-bursts batch-edges batch-ends
  batch-failures batch-hostile batch-local batch-local-bytes batch-messages batch-mixed
  batch-mixed-hostile batch-model batch-notices batch-queues batch-relay batch-requester batch-rest
  batch-through books captures chains changing-peers congestion connect connect-active
  connect-depths connect-doubt connect-link connect-linux control control-edges cookies criteria
  criteria-wire dialogues duplicates entering entropy fences figures flush full-group groups guard
  handshake headers health hostile icrc layout long-read lost-requests media-errors media-lies
  neighbours noise noise-points on-demand on-demand-calls on-demand-shared once operations
  operations-forgotten operations-late operations-life operations-line operations-table ordered
  ordered-edges own-host pair part-report pcie-driver-element pcie-driver-layout persist
  persist-edges placement-agent placement-away placement-bypass placement-chains placement-edges
  placement-lanes placement-lives placement-mixed placement-notices placement-pieces placement-probe
  placement-refused placement-restarts placement-through queue-control queue-depths queue-dma
  queue-edges queue-faults queue-gsi queue-local-ends queue-local-refusals queue-neighbours
  queue-pair-numbers queue-pair-region queue-receive queue-status queue-wire-ends
  queue-work-connected queue-work-local queue-zone2 queues-cache queues-completion queues-doorbell
  queues-element queues-fair queues-host queues-limits queues-tables queues-trust read recovery
  recovery-alone recovery-table refusals refused-before refused-commands region-job region-name
  region-names-refused regions relay-far-end relay-link relay-session repair-alone requester
  requester-doubt requester-edges requester-kinds residency-blocks residency-model
  residency-responder residency-transport residency-wire responder rights rights-edges sealed-calls
  send send-depth session-table settle slow-peers starts-taken-back stock-clients strangers-calls
  strangers-places superblock superblock-decay superblock-lost superblock-refused superblock-upgrade
  tagged-pairs which-copy wire wire-cm wire-hostile wire-icrc wire-print wire-vectors write-back
  write-persist-region
`

export const SUITE: readonly string[] = testFiles(NAMES)

/** Most of their tests enumerate, or draw for long; a model of peers alone; a clock that runs. */
const OTHERS = `
  ack-model batch-crash batch-crash-media batch-mixed-crash batch-mixed-failures batch-mixed-groups
  batch-mixed-lanes batch-mixed-order batch-mixed-through connect-hostile crash crash-1of2
  crash-2of2 crash-2of3 operations-crash queue-crash queue-pair-places queues-chaos relay
  requester-schedules
`

/** Files of tests of the firmware that notice no mutant. */
export const LEFT_OUT: readonly string[] = testFiles(OTHERS)

/** For the mutants of headers that the suite draws. */
const OF_HEADERS = `
  announce icrc neighbours responder tagged-pairs wire wire-cm wire-hostile wire-print wire-vectors
`

export const SUITE_OF_CUT: readonly string[] = testFiles(OF_HEADERS)
