/**
 * Other machines that speak to a card: what they ask comes from their own address, and what they
 * are answered goes there.
 */

import { HOST_QUEUE_PAIRS, QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { Conversation, type Sent, type TestCard, type TestPeer } from '../cards/test-card.ts'
import { overIpv6, writeIcrc } from '../wire/frames.ts'

/** Where the last byte of the source address lies in an Ethernet frame of IPv4, and of IPv6. */
const SOURCE_END = { 4: 14 + 15, 6: 14 + 23 } as const

/** Queue pairs that all sources of the network have together at the most, and one alone. */
export const PLACES_OF_NETWORK: number = QUEUE_PAIRS - HOST_QUEUE_PAIRS
export const PLACES_ALONE: number = PLACES_OF_NETWORK / 2

/** The machine 10.0.0.last, or fd00::last. */
export class Stranger extends Conversation {
  /** Serves frames as if this machine had sent them, in one burst. */
  readonly serve: (...frames: Uint8Array[]) => Sent[]
  private readonly client: number

  constructor(card: Pick<TestCard, 'serve'>, last: number, ipVersion: 4 | 6 = 4) {
    const serve = (...frames: Uint8Array[]): Sent[] =>
      card.serve(...frames.map((frame) => sentBy(frame, last, ipVersion)))
    super(serve)
    this.serve = serve
    this.client = 1000 + last
  }

  override connect(mtu = 4096, domain = 0, client: number = this.client): TestPeer {
    return super.connect(mtu, domain, client)
  }
}

/** Ends a connection: no source has a queue pair for each of so many clients. */
export function leave(card: Pick<TestCard, 'must'>, qp: TestPeer): void {
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
    putU32(body, mad.DISCONNECT_QP, qp.number)
    putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
  })
}

/** A connection of one of several strangers. */
export interface Taken {
  readonly peer: Stranger
  readonly qp: TestPeer
}

/**
 * Strangers from 10.0.0.first on take what the network may have, each as much as it gets; `use`
 * makes each connection one in use.
 */
export function takeAllPlaces(
  card: Pick<TestCard, 'serve'>,
  use: (taken: Taken) => void,
  first = 100,
): Taken[] {
  const all: Taken[] = []
  for (let last = first; ; last++) {
    const peer = new Stranger(card, last)
    const own: Taken[] = []
    for (let qp = connected(peer); qp !== null; qp = connected(peer)) {
      own.push({ peer, qp })
      use(own.at(-1)!)
    }
    if (own.length === 0) return all
    all.push(...own)
  }
}

function connected(peer: Stranger): TestPeer | null {
  try {
    return peer.connect()
  } catch (error) {
    if (!(error as Error).message.endsWith('QUEUE_PAIRS_FULL')) throw error
    return null
  }
}

/** The frame as that machine would have sent it. */
export function sentBy(frame: Uint8Array, last: number, ipVersion: 4 | 6 = 4): Uint8Array {
  const copy = ipVersion === 6 ? overIpv6(frame) : frame.slice()
  copy[SOURCE_END[ipVersion]] = last
  writeIcrc(copy)
  return copy
}
