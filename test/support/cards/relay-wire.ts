/**
 * Two cards, of which one relays to the other, and the wire between them by hand, so that either
 * end may stop at any frame.
 */

import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import type { State } from '../../../firmware/core.ts'
import { putU16, putU32, u16 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES, MAC_BYTES } from '../../../firmware/wire/ethernet.ts'
import { IPV4_CHECKSUM, IPV4_DESTINATION } from '../../../firmware/wire/ipv4.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PORT, publish } from '../wire/cm.ts'
import { type Sent, TestCard, type TestCardOptions, type TestPeer } from './test-card.ts'

const ARP = 0x0806
/** Says who card B is: at 10.0.0.3, for frames that were made for the card at 10.0.0.2. */
const FAR = { mac: [2, 0, 0, 0, 0, 3], ipv4: [10, 0, 0, 3] }

function readdressed(frame: Uint8Array): Uint8Array {
  const last = ETHERNET_BYTES + IPV4_DESTINATION + 3
  if (isArp(frame) || frame[last] !== 2) return frame
  const other = frame.slice()
  other[MAC_BYTES - 1] = 3
  other[last] = 3
  // One's complement: what the address gains, the check sum of the header loses.
  putU16(other, ETHERNET_BYTES + IPV4_CHECKSUM, u16(other, ETHERNET_BYTES + IPV4_CHECKSUM) - 1)
  fillIcrc(other, 0, other.length)
  return other
}

function isArp(frame: Uint8Array): boolean {
  return u16(frame, ETHERNET_BYTES - 2) === ARP
}

/** Card A, which relays, and card B, which has the region. */
export class RelayWire {
  readonly a: TestCard
  readonly b: TestCard
  /** What the firmware of card A holds. */
  readonly state: State
  /** What card A said to its own host meanwhile. */
  readonly heard: Sent[] = []
  /** Card B hears nothing, and says nothing. */
  isCut = false
  /** Changes what card B says, on its way. */
  spoil: (frame: Uint8Array) => Uint8Array = (frame) => frame

  constructor() {
    let state: State | null = null
    const start: TestCardOptions['start'] = (machine) =>
      bootDirect(machine, (seen) => {
        state = seen
      })
    this.a = new TestCard(1 << 18, { start }).format()
    this.state = state!
    this.b = new TestCard(1 << 18, { facts: FAR, hears: readdressed }).format()
    this.b.provision({ name: 'far', slots: 64, capacity: 1000 })
  }

  /** Carries frames to and fro until both are silent. */
  carry(first: readonly Uint8Array[]): void {
    let toB = first.filter((frame) => this.isForB(frame))
    while (toB.length > 0 && !this.isCut) {
      this.b.serve(...toB)
      this.b.idle()
      const answers = [...this.b.plain, ...this.b.sent.map(({ bytes }) => this.spoil(bytes))]
      toB = this.sentByA(() => this.a.serve(...answers)).filter((frame) => this.isForB(frame))
    }
  }

  /** What card A sends in there; what goes to its host is kept. */
  sentByA(act: () => void): Uint8Array[] {
    act()
    const frames = [...this.a.plain]
    for (const one of this.a.sent) {
      if (this.isForB(one.bytes)) frames.push(one.bytes)
      else this.heard.push(one)
    }
    return frames
  }

  private isForB(frame: Uint8Array): boolean {
    return isArp(frame) || frame[ETHERNET_BYTES + IPV4_DESTINATION + 3] === 3
  }

  /** The clock of card A goes on by so many µs. */
  pass(us: number): void {
    this.b.now = this.a.now
    this.carry(this.sentByA(() => this.a.pass(us)))
  }

  serve(...frames: Uint8Array[]): void {
    this.carry(this.sentByA(() => this.a.serve(...frames)))
  }

  attach(name = 'far', port: number = PORT): string {
    const ask = (): string => {
      const fill = attaching(name, port)
      return this.a.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, fill).fault
    }
    let fault = 'CONNECTING'
    for (let i = 0; i < 20 && fault === 'CONNECTING'; i++) {
      this.carry(
        this.sentByA(() => {
          fault = ask()
        }),
      )
      this.pass(10_000)
    }
    return fault
  }

  /** The relay, and a connection of the client whose records it takes. */
  open(mtu = 4096): { qp: TestPeer; rkey: number } {
    const qp = this.a.connect(mtu, 0, 7)
    return { qp, rkey: this.a.open('far').rkey }
  }
}

export function attaching(name = 'far', port: number = PORT): (body: Uint8Array) => void {
  return (body) => {
    body.set(new TextEncoder().encode(name), mad.REGION_NAME)
    body[mad.ATTACH_IP_VERSION] = 4
    body.set([10, 0, 0, 3], mad.ATTACH_ADDRESS)
    putU16(body, mad.ATTACH_PORT, port)
    putU32(body, mad.ATTACH_CLIENT_LOW, 7)
  }
}

/** Card B has published its region. */
export function related(form: number = mad.FORM_CAPABILITY): RelayWire {
  const wire = new RelayWire()
  const { fault } = publish(wire.b, { name: 'far', form })
  if (fault !== 'PASS') throw new Error(`not published: ${fault}`)
  return wire
}
