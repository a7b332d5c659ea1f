/**
 * Files of the suite whose tests may notice a mutant: each says what a part of the product does,
 * needs nothing of Node but the vectors, and takes milliseconds for most of its tests. Those that
 * take longer are left out one by one (reach.ts).
 */

import { testFiles } from '../../../support/source/test-files.ts'

const NAMES = `
  acknowledge-alone acknowledged-gone announce atomics batch batch-bursts batch-edges batch-ends
  batch-failures batch-hostile batch-local batch-model batch-queues batch-requester batch-rest
  books captures chains congestion connect connect-active connect-doubt connect-link
  connect-linux control control-edges cookies dialogues duplicates entering entropy fences
  flush full-group groups handshake headers hostile icrc layout long-read lost-requests media-errors
  media-lies neighbours noise on-demand on-demand-calls operations operations-forgotten
  operations-late operations-life operations-line operations-table ordered ordered-edges
  pcie-driver-element pcie-driver-layout persist persist-edges placement-agent placement-away
  placement-bypass placement-chains placement-edges placement-lanes placement-lives
  placement-mixed placement-probe placement-refused placement-restarts placement-through
  queue-control queue-dma queue-edges queue-faults queue-gsi queue-local-ends
  queue-local-refusals queue-neighbours queue-pair-numbers queue-pair-region queue-receive
  queue-status queue-wire-ends queue-work-connected queue-work-local queue-zone2 queues-cache
  queues-completion queues-doorbell queues-element queues-fair queues-host queues-limits
  queues-tables queues-trust read recovery recovery-alone recovery-table refusals refused-before
  region-job regions relay-link relay-session repair-alone requester requester-doubt requester-edges
  requester-kinds residency-blocks residency-model residency-responder residency-transport
  residency-wire responder rights rights-edges sealed-calls send session-table settle slow-peers
  starts-taken-back superblock superblock-decay superblock-lost superblock-refused
  superblock-upgrade tagged-pairs wire wire-cm wire-hostile wire-icrc wire-print wire-vectors
  write-persist-region
`

export const SUITE: readonly string[] = testFiles(NAMES)

/** For the mutants of headers that the suite draws. */
const OF_HEADERS = `
  announce icrc neighbours responder tagged-pairs wire wire-cm wire-hostile wire-print wire-vectors
`

export const SUITE_OF_CUT: readonly string[] = testFiles(OF_HEADERS)
