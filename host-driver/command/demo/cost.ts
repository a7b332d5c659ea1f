/** What it takes to write a file: counts at two moments, and what lies between. */

import type { DpuStatistics, LinkCounts } from '../../../boards/emulator/index.ts'
import type { Statistics } from '../../way/statistics.ts'

export interface WritingCost {
  /** WRITE_PERSISTs that went out for the first time on their connection. */
  readonly requests: number
  readonly retransmissions: number
  readonly acks: number
  readonly persistAcks: number
  readonly framesToDpu: number
  readonly bytesToDpu: number
  readonly framesToHost: number
  readonly bytesToHost: number
  readonly payloadBytes: number
  readonly fences: number
  readonly boardCalls: number
  readonly bytesStored: number
  /** Records that a reconnection found durable, and those that it sent again. */
  readonly foundDurable: number
  readonly sentAgain: number
}

/** Counts at one moment. */
export interface Counts {
  readonly client: Statistics
  readonly dpu: DpuStatistics
  readonly toDpu: LinkCounts
  readonly toHost: LinkCounts
  readonly requests: number
}

/** The cost of what happened between two moments. */
export function costBetween(before: Counts, after: Counts): WritingCost {
  const { client, dpu, toDpu, toHost } = after
  return {
    requests: after.requests - before.requests,
    retransmissions: client.retransmissions - before.client.retransmissions,
    acks: client.acks - before.client.acks,
    persistAcks: client.persistAcks - before.client.persistAcks,
    framesToDpu: toDpu.sent - before.toDpu.sent,
    bytesToDpu: toDpu.sentBytes - before.toDpu.sentBytes,
    framesToHost: toHost.sent - before.toHost.sent,
    bytesToHost: toHost.sentBytes - before.toHost.sentBytes,
    payloadBytes: client.payloadBytes - before.client.payloadBytes,
    fences: dpu.fences - before.dpu.fences,
    boardCalls: dpu.runs - before.dpu.runs,
    bytesStored: dpu.bytesStored - before.dpu.bytesStored,
    foundDurable: client.recovered - before.client.recovered,
    sentAgain: client.sentAgain - before.client.sentAgain,
  }
}
