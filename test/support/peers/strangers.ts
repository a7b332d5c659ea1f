/**
 * Other machines that speak to a card: what they ask comes from their own address, and what they
 * are answered goes there.
 */

import { Conversation, type Sent, type TestCard, type TestPeer } from '../cards/test-card.ts'
import { overIpv6, writeIcrc } from '../wire/frames.ts'

/** Where the last byte of the source address lies in an Ethernet frame of IPv4, and of IPv6. */
const SOURCE_END = { 4: 14 + 15, 6: 14 + 23 } as const

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

  override connect(mtu = 4096, domain = 0): TestPeer {
    return super.connect(mtu, domain, this.client)
  }
}

function sentBy(frame: Uint8Array, last: number, ipVersion: 4 | 6): Uint8Array {
  const copy = ipVersion === 6 ? overIpv6(frame) : frame.slice()
  copy[SOURCE_END[ipVersion]] = last
  writeIcrc(copy)
  return copy
}
