/**
 * Which tests the branches are counted with, and which files are the kernel.
 *
 * Invariant: a file stands here because it takes branches that no other one takes. Tests
 * that enumerate, draw or repeat for long are not needed for that, and are left out, file by file
 * or by name; those that are left out by name are played where a branch is missing without them.
 */

import { testFiles } from '../../support/source/test-files.ts'
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
  'congestion connect-doubt dialogues queue-neighbours responder strangers-calls wire-hostile' +
  ' write-persist-region'

const OF_FIRMWARE = `
  acknowledged-gone announce atomics batch batch-crash-media batch-driver batch-edges batch-hostile
  batch-local batch-local-bytes batch-messages batch-mixed batch-mixed-failures batch-mixed-groups
  batch-mixed-hostile batch-mixed-lanes batch-mixed-order batch-mixed-through batch-notices
  batch-queues batch-relay batch-requester batch-through changing-peers congestion connect
  connect-active connect-depths connect-doubt connect-link control control-edges cookies criteria
  criteria-wire engines entering evidence-failures figures flush guard handshake health long-read
  lost-requests media-errors neighbours noise noise-points on-demand on-demand-calls on-demand-host
  on-demand-shared once operations operations-forgotten operations-late operations-table ordered
  ordered-edges pair part-report pcie-connect persist persist-edges placement-agent placement-away
  placement-bypass placement-chains placement-edges placement-lanes placement-lives placement-mixed
  placement-notices placement-pieces placement-probe placement-refused placement-restarts
  queue-control queue-depths queue-dma queue-edges queue-gsi queue-local-ends queue-local-refusals
  queue-neighbours queue-pair-region queue-receive queue-status queue-wire-ends queue-work-connected
  queue-work-local queue-zone2 queues-completion queues-doorbell queues-element queues-host
  queues-limits queues-tables queues-trust read recovery refusals refused-before refused-commands
  region-job region-name region-names-refused regions relay relay-far-end relay-link relay-session
  requester requester-doubt requester-edges requester-kinds residency-blocks residency-queues
  residency-responder responder rights rights-edges sealed-calls send send-depth session-table
  settle slow-peers starts-taken-back stock-clients strangers-calls strangers-places superblock
  superblock-decay superblock-lost superblock-refused superblock-upgrade tagged-pairs verbs-devices
  volatile which-copy wire wire-hostile wire-print write-back write-persist-region
`

/** Their cards live long: behind all others few branches are left for their long tapes. */
const OF_LONG_LIVES =
  'two-hosts residency-wire connect-hostile queues-chaos placement-through hostile queue-faults'

/** Paths of test files, from the root, in the order in which they are run. */
export function testsOf(size: Size): string[] {
  return testFiles(size === 'cut' ? OF_KERNEL : OF_FIRMWARE + OF_LONG_LIVES)
}

/**
 * Tests of those files that take long, and no branch that is not taken without them: parts of
 * their names. More than half of all time is theirs.
 */
export const LEFT_OUT: readonly string[] = [
  // A cut, or a failure, at every place.
  'leaves the record old or new',
  'of the start, too: a lane stays',
  'without the CPU’s write-back what is acknowledged',
  'while the medium refuses (its lane|copy)',
  'one and two failures at every place',
  'group of [15]: no other record',
  'P1-11, P4-13: a medium that',
  'an error at k',
  'any one store that the board fails',
  'the medium refuses a record, wherever',
  'survives any one media error later on',
  '2 to 64 flipped bits',
  'a copy that decayed is not served',
  'A or B whole at every cut',
  'a power cut X-',
  // Each with each.
  'before every other: ',
  'contradictions ',
  'growth while elements are outstanding',
  'a batch costs one status and one wait',
  '(?<!FLUSH), repeated behind every other',
  "its PSN '(ahead|as far)",
  'any one bit of (WRITE_PERSIST Only|WRITE Only|a control call)',
  'any address and any length',
  'every reserved bit of BSETH',
  'every distance around every limit',
  'every way for an element to wrap',
  'bounds are exact in every view',
  'every pair of messages lost or doubled',
  'every sequence of (six pages|notices about three blocks)',
  'period, threshold and maximum together',
  'rung by fifo',
  'ring ends inside',
  'repetition from any packet begins again',
  // Drawn, or repeated.
  'a random walk',
  'pages come and go',
  'everything is durable once, seed',
  'no byte is lost; seed',
  'everything at once',
  'no answer says more than',
  'by READ, FLUSH or a withheld ACK',
  'when a good one was altered',
  'a hundred times over',
  'again and again: nothing is left behind',
  'hundreds of elements',
  'a working set twice the frames',
  'what is durable is a prefix',
  'X-2: bypass',
  // The same at another engine, size, seed or place, and what is measured.
  '[Qq]uick[Jj][Ss](?! on the card| and Node)',
  'queues that grow: (local|bypass|through)',
  'is away: (DPU A|both DPUs; through|the PCIe)',
  'of the DPU that has the records',
  'of the local card, between the host',
  'finds what was acknowledged, behind',
  'given back at both ends',
  'records of several packets of 1024',
  'wants no acknowledgement|has an index beyond the count',
  'on another queue pair it is acknowledged again',
  'asked again under its PSN',
  'the lines read are as many',
  'the memory of the guest flat',
]

/**
 * Tests of those files that change what the firmware keeps by hand: no tape tells of that, so none
 * of them plays, whatever it takes.
 */
const UNTOLD: readonly string[] = [
  'without a chunk what lies in frames is refused',
  'without a job for a second the rest is refused',
  'a link without room for a second',
]

/** Patterns for the names of tests: all that a tape tells; the played, and those left out. */
export const TOLD: string = `^(?!.*(?:${UNTOLD.join('|')}))`
export const PLAYED: string = `^(?!.*(?:${[...LEFT_OUT, ...UNTOLD].join('|')}))`
export const LEFT: string = `${TOLD}.*(?:${LEFT_OUT.join('|')})`

/** What is left out by a name that none of these tests has: it may be called something else now. */
export function staleParts(names: readonly string[]): string[] {
  return [...LEFT_OUT, ...UNTOLD].filter(
    (part) => !names.some((name) => new RegExp(part).test(name)),
  )
}
