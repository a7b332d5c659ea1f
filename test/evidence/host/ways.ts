/**
 * The ways in which a record comes that are the host's: posted to a queue of its own, or sent by a
 * peer to a queue pair of its.
 *
 * Invariant: queues belong to the driver that made them, and end with it; a completion
 * counts when it has arrived in the host's memory, for as long as the host has its power.
 */

import { DURABLE, SIGNALED, WC_SUCCESS } from '../../../firmware/host/element.ts'
import { TYPE_CONNECTED } from '../../../firmware/host/queue-info.ts'
import { WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  persistFrames,
  type TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import {
  elementOf,
  type PairNumbers,
  type QueueHost,
  readying,
} from '../../support/queues/queue-host.ts'
import { type Judge, OPERATION_BASE, versionData } from './judge.ts'
import type { Rig } from './rig.ts'

const CLIENT = 7
const MTU = 4096
const PEER = 0x321
const PEER_PSN = 0xfffffe

export const WAYS = ['post', 'peer'] as const
export type Way = (typeof WAYS)[number]

/** What the driver has made. */
interface Queues {
  readonly driver: QueueHost
  readonly cq: number
  readonly local: PairNumbers
  /** The queue pair of the host, as its peer has it. */
  readonly pair: TestPeer
}

export class Ways {
  private readonly rig: Rig
  private readonly judge: Judge
  private readonly wait: number
  private queues: Queues | null = null

  constructor(rig: Rig, judge: Judge, wait: number) {
    this.rig = rig
    this.judge = judge
    this.wait = wait
  }

  /** The driver makes the queues; there is one. */
  open(): void {
    const driver = this.rig.driver!
    const cq = driver.createCq()
    const local = driver.createQp(cq, { client: CLIENT })
    const { send, number } = driver.createQp(cq, { type: TYPE_CONNECTED, client: CLIENT })
    driver.must(
      mad.METHOD_SET,
      mad.ATTRIBUTE_MODIFY_QP,
      readying(send, {
        ...{ number: PEER, mtu: MTU, peerPsn: PEER_PSN, psn: 0, incarnation: 1, depth: 4 },
        ...{ mac: [2, 0, 0, 0, 0, 1], ipv4: [10, 0, 0, 1] },
      }),
    )
    const pair = { number, peer: PEER, mtu: MTU, psn: PEER_PSN, operation: 0 }
    this.queues = { driver, cq, local, pair }
  }

  /** That version comes: a peer does not know whether the host is there. */
  bring(way: Way, card: TestCard, region: TestRegion, version: number): void {
    const { queues, rig, wait } = this
    if (queues === null) return
    const { driver, local, pair } = queues
    const operation = OPERATION_BASE + version
    const data = versionData(version)
    if (way === 'peer') {
      card.serve(...persistFrames(pair, region, 0, data, { wait, operation }))
      return
    }
    if (driver !== rig.driver) return
    const to = { opcode: WRITE_PERSIST, rkey: region.rkey, address: 0, operation, wait }
    driver.post(local.send, elementOf({ ...to, inline: data, flags: SIGNALED }))
    driver.ring(local.send)
    driver.run()
  }

  /** Takes the completions that are there; the host looks whenever it likes. */
  hear(): void {
    const { judge, queues, rig } = this
    if (queues === null || queues.driver !== rig.driver) return
    for (const { status, flags, operation } of queues.driver.poll(queues.cq)) {
      const isDone = status === WC_SUCCESS && (flags & DURABLE) !== 0
      judge.completed(operation - OPERATION_BASE, isDone ? this.wait : 0)
    }
  }
}
