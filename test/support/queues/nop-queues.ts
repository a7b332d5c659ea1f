/**
 * Queues whose elements do nothing but complete: for tests of everything around an element.
 *
 * Invariant: queues are made by storing their information, so no control call is needed;
 * the completion queues are those from FIRST on, the send queues behind them.
 */

import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { RECEIVE_AT, RECEIVED_AT } from '../../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
  UNIT_BYTES,
} from '../../../firmware/board/limits.ts'
import { idle, receive, type State, settle } from '../../../firmware/core.ts'
import { SIGNALED, WQE_NOP } from '../../../firmware/host/element.ts'
import { ORDER_DISTANCE } from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { createState } from '../../../firmware/main.ts'
import { boot } from '../../../firmware/manage/boot.ts'
import {
  ATTRIBUTE_COUNTERS,
  COUNTERS_FIRST,
  METHOD_GET,
} from '../../../firmware/wire/management.ts'
import { TestCard } from '../cards/test-card.ts'
import { elementOf, hostOf, QueueHost, u64 } from './queue-host.ts'

export const FIRST = 3

export interface NopOptions {
  /** Numbers of queues in the header page; memory of the host. */
  readonly count?: number
  readonly bytes?: number
  readonly order?: number
  readonly completionQueues?: number
  readonly sendQueues?: number
  readonly depth?: number
  readonly entries?: number
  /** Where every pointer begins. */
  readonly pointer?: number
  /** Whether the header page asks that pointers of doorbells are used. */
  readonly trust?: boolean
  readonly card?: TestCard
}

/** A card whose state a test may look at and change, with so much memory of a host. */
export function openCard(bytes: number = 1 << 20): { card: TestCard; state: State } {
  const card = new TestCard(1 << 18, { ram: new HostRam(bytes) })
  const { machine } = card
  machine.packets.fill(0)
  const state = createState(machine)
  boot(state)
  const received = new Int32Array(machine.memory, RECEIVED_AT, 2 * BURST_FRAMES)
  card.firmware = {
    ...card.firmware,
    serve: (count, now) => {
      state.connections.nowUs = now
      for (let i = 0; i < count; i++) {
        const at = RECEIVE_AT + i * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
        receive(state, at, received[2 * i]!, received[2 * i + 1]!, now)
      }
      return settle(state)
    },
    idle: (now) => idle(state, now),
  }
  return { card, state }
}

export interface NopHost {
  readonly host: QueueHost
  readonly cqs: readonly number[]
  readonly sqs: readonly number[]
}

/** A host that is served, with queues; send queue i completes into queue i modulo their number. */
export function nopHost(options: NopOptions = {}): NopHost {
  const { count = 16, bytes = 1 << 20, order = ORDER_DISTANCE } = options
  const raw = options.card === undefined ? hostOf(bytes) : new QueueHost(options.card)
  raw.trust = options.trust ?? false
  const host = raw.init(count, order)
  const { completionQueues = 1, sendQueues = 1 } = options
  const cqs = Array.from({ length: completionQueues }, (_, i) => FIRST + i)
  const sqs = Array.from({ length: sendQueues }, (_, i) => FIRST + completionQueues + i)
  const { depth = 16, entries = 64, pointer = 0 } = options
  for (const queue of cqs) {
    const { ring } = host.forceQueue(queue, { kind: info.KIND_COMPLETION, depth: entries, pointer })
    // Entry 2^32 - 1 has the stamp 0, which blank memory has, too.
    host.bytes.fill(0xee, ring, ring + entries * UNIT_BYTES)
  }
  sqs.forEach((queue, i) => {
    const completions = cqs[i % cqs.length]!
    host.forceQueue(queue, { kind: info.KIND_SEND, depth, completions, pointer })
  })
  return { host, cqs, sqs }
}

/** An element that does nothing, of so many units. */
export function nop(units = 1, flags: number = SIGNALED): Uint8Array {
  if (units === 1) return elementOf({ opcode: WQE_NOP, flags })
  return elementOf({ opcode: WQE_NOP, flags, inline: new Uint8Array((units - 1) * UNIT_BYTES) })
}

/** How often the card met that fault, asked over the wire. */
export function faultsOf(host: QueueHost, name: string): number {
  const index = FAULTS.findIndex((row) => row.name === name)
  const body = host.card.must(METHOD_GET, ATTRIBUTE_COUNTERS, undefined, index)
  return u64(body, COUNTERS_FIRST)
}

/** Lets so many µs go by, then the firmware's `idle`. */
export function wait(host: QueueHost, us: number): void {
  host.card.now += us - IDLE_US
  host.card.idle()
}

/** What a call of `idle` takes. */
const IDLE_US = 10
