/**
 * The entry: a board hands over its machine, and gets back what it calls for each burst.
 */

import { createBatches } from './batch/batch.ts'
import { assert } from './board/assert.ts'
import { type CommandList, createCommandList } from './board/command-list.ts'
import { FAULTS, PASS } from './board/fault.ts'
import { type Machine, RECEIVE_AT, RECEIVED_AT } from './board/hal.ts'
import {
  BURST_FRAMES,
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
  QUEUE_PAIRS,
  RECEIVES,
  STAGING_BUFFERS,
} from './board/limits.ts'
import { MEMORY_BYTES } from './board/memory-map.ts'
import { random32, seedRandom } from './board/random.ts'
import { runBurst } from './burst/burst.ts'
import { countReleased, createFigures } from './burst/figures.ts'
import { createRelays } from './burst/passengers.ts'
import { createThrough } from './burst/through-job.ts'
import { createCommit, createGroupIndex } from './commit/commit.ts'
import { createExamination } from './commit/examine.ts'
import { createProof } from './commit/proof.ts'
import { createConnectionTable } from './connect/table.ts'
import { idle, receive, type State, settle } from './core.ts'
import { acknowledgeCopies, blankRange } from './engine/receipt.ts'
import { createHostQueues } from './host/host.ts'
import { createHostWork, NO_HOST_WORK } from './host/work.ts'
import { createAttachments } from './manage/attach.ts'
import { boot, createRecovery } from './manage/boot.ts'
import { createHealthWatches, createRegionJob } from './manage/context.ts'
import { describePart } from './manage/part-state.ts'
import { blankLocated, createRegionTable, MESSAGES } from './medium/region.ts'
import { createSuperblock } from './medium/superblock.ts'
import { createTranslation } from './medium/translation.ts'
import { noticeHost } from './queues/host.ts'
import { createResidency } from './residency/told.ts'
import { createHints } from './residency/waiting-hints.ts'
import { boardPrimitives } from './session/primitives.ts'
import { admitPeers, createSessions } from './session/sessions.ts'
import { createAnswers, wordAt } from './transport/acknowledge.ts'
import { blankAsk, blankOrdered } from './transport/message.ts'
import type { Psn } from './transport/psn.ts'
import { createQueuePair, createQueuePairTable, type QueuePair } from './transport/queue-pair.ts'
import { blankAtomic } from './wire/atomic.ts'
import { blankDeth } from './wire/deth.ts'
import { blankFeth } from './wire/feth.ts'
import { blankIeth } from './wire/ieth.ts'
import { blankPacket } from './wire/packet.ts'
import { blankPweth } from './wire/persist.ts'
import { blankReth } from './wire/reth.ts'

/** What a board calls. Times are microseconds of one clock that never goes back. */
export interface Firmware {
  /**
   * Serves `count` frames that lie in the receive places. Returns the microseconds after which it
   * wants `idle` at the latest, 1 being as soon as no frame waits; 0 if it does not.
   */
  serve(count: number, now: number): number
  /** Lazy work and timers, when no frame waits. Returns as `serve` does. */
  idle(now: number): number
  /**
   * What the start found, one line of at most 200 characters of ASCII: words NAME=VALUE, as in
   * 'state=serving format=3 lost=0' (`describePart`). For who looks after the board's program.
   */
  report(): string
}

/** All state of one DPU, in memory that is made here and never grows. */
export function createState(machine: Machine): State {
  assert(machine.memory.byteLength >= MEMORY_BYTES, 'a board gives all of packet memory')
  assert(new Uint8Array(new Int32Array([1]).buffer)[0] === 1, 'the machine is little-endian')
  const list = createCommandList(machine)
  const words = new Int32Array(machine.memory)
  const regions = createRegionTable()
  const blankPair = createQueuePair(QUEUE_PAIRS, 0, NO_PEER)
  const parts = {
    machine,
    facts: machine.facts,
    bytes: new Uint8Array(machine.memory),
    words,
    list,
    regions,
    superblock: createSuperblock(machine.memory),
    queuePairs: createQueuePairTable(),
    connections: createConnectionTable(),
    // Some region stands in what waits to be used.
    commit: createCommit(list, MESSAGES),
    group: createGroupIndex(),
    proof: createProof(),
    through: createThrough(MESSAGES),
    examination: createExamination(),
    answers: createAnswers(list),
    counters: new Float64Array(FAULTS.length),
    refused: PASS,
    incarnation: 0,
    macHead: machine.facts.mac[0]! | (machine.facts.mac[1]! << 8),
    macTail: wordAt(machine.facts.mac, 2),
    ipv4: wordAt(machine.facts.ipv4, 0),
    random: seedRandom(words, machine.facts.entropy),
    ...scratch(),
    ...burst(blankPair, list),
    initiators: [],
    relays: createRelays(),
    attachments: createAttachments(),
    host: createHostQueues(machine.memory, machine.facts.dmaBytes > 0),
    hostWork: machine.facts.dmaBytes > 0 ? createHostWork() : NO_HOST_WORK,
    translation: createTranslation(machine.facts.dmaBytes > 0),
    residency: createResidency(machine.memory),
    hints: createHints(),
    answered: [],
    answeredHost: [],
    answeredStrangers: [],
    regionJob: createRegionJob(),
    healthWatches: createHealthWatches(),
    sessions: createSessions(boardPrimitives(list, machine.memory)),
    scrub: { region: 0, slot: 0, lives: 0, unlisted: 0, unanswered: 0, turn: 0 },
  }
  const state: State = { ...parts, recovery: createRecovery(parts) }
  state.commit.acknowledge = (copies) => acknowledgeCopies(state, copies)
  state.answers.makeRoom = () => runBurst(state)
  state.host.makeRoom = () => runBurst(state)
  state.host.contexts.draw = () => random32(state)
  return state
}

const NO_PEER = {
  peerNumber: 0,
  clientHigh: 0,
  clientLow: 0,
  pathMtu: 0,
  protectionDomain: 0,
  expectedPsn: 0 as Psn,
}

function scratch() {
  return {
    packet: blankPacket(),
    reth: blankReth(),
    extension: blankReth(),
    pweth: blankPweth(),
    feth: blankFeth(),
    atomic: blankAtomic(),
    ieth: blankIeth(),
    located: blankLocated(),
  }
}

function listOf<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make)
}

function burst(blankPair: QueuePair, list: CommandList) {
  const { machine } = list
  return {
    touched: listOf(BURST_FRAMES, () => blankPair),
    touchedCount: 0,
    ordered: listOf(BURST_FRAMES, () => blankOrdered(blankPair)),
    orderedCount: 0,
    round: 0,
    managements: listOf(BURST_FRAMES, () => ({
      frameAt: 0,
      madAt: 0,
      peerNumber: 0,
      packet: blankPacket(),
    })),
    managementsCount: 0,
    deth: blankDeth(),
    stores: 0,
    refusals: new Float64Array(QUEUE_PAIRS + 1),
    unfenced: 0,
    figures: createFigures(machine),
    streaming: false,
    streamNext: 0,
    pausedUs: Infinity,
    pageTurn: { qp: null, untilUs: 0 },
    receiveOwner: new Int32Array(RECEIVES).fill(-1),
    receivesTaken: 0,
    messages: Array.from({ length: QUEUE_PAIRS }, blankAsk),
    batches: createBatches(machine.memory, machine.facts.dmaBytes > 0, list),
    stagingOwner: new Int32Array(STAGING_BUFFERS).fill(-1),
    stagingSinceUs: new Float64Array(STAGING_BUFFERS),
    stallUs: Infinity,
    ranges: listOf(BURST_FRAMES + 1, blankRange),
    rangeOwner: listOf(BURST_FRAMES, () => blankPair),
    openRange: new Int32Array(QUEUE_PAIRS).fill(-1),
    rangeCount: 0,
  }
}

/** Starts the firmware on that machine: recovery has run when this returns. */
export function start(machine: Machine): Firmware {
  return startWith(createState(machine))
}

/** The same with state that was made before, for whoever wants to look at it. */
export function startWith(state: State): Firmware {
  admitPeers(state)
  state.commit.operations.owners = state.sessions.tags
  boot(state)
  const received = new Int32Array(state.machine.memory, RECEIVED_AT, 2 * BURST_FRAMES)
  const { figures, list } = state
  return {
    serve(count: number, now: number): number {
      state.connections.nowUs = now
      if (figures.used > 0) countReleased(figures, list.fences, now)
      figures.bursts += 1
      noticeHost(state)
      for (let i = 0; i < count; i++) {
        const at = RECEIVE_AT + i * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
        receive(state, at, received[2 * i]!, received[2 * i + 1]!, now)
      }
      return settle(state)
    },
    idle(now: number): number {
      if (figures.used > 0) countReleased(figures, list.fences, now)
      return idle(state, now)
    },
    report(): string {
      return describePart(state)
    },
  }
}
