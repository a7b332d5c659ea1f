/**
 * Two cards, of which one relays to the other, and the wire between them by hand, so that either
 * end may stop at any frame.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import { pairOf } from '../../../boards/software/keys.ts'
import type { Identity } from '../../../firmware/board/hal.ts'
import type { State } from '../../../firmware/core.ts'
import { putU16, putU32, u16 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES, MAC_BYTES } from '../../../firmware/wire/ethernet.ts'
import { IPV4_CHECKSUM, IPV4_DESTINATION } from '../../../firmware/wire/ipv4.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { Guest } from '../sessions/guest.ts'
import { KeptPeers } from '../sessions/kept-peers.ts'
import { ADMIN } from '../sessions/peers.ts'
import { PORT, publish } from '../wire/cm.ts'
import {
  type Conversation,
  type Sent,
  TestCard,
  type TestCardOptions,
  type TestPeer,
} from './test-card.ts'

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

/** Who has keys of which card, and who may come to it. */
export interface Closed {
  readonly a?: Identity
  readonly b?: Identity
}

/** Card A, which relays, and card B, which has the region. */
export class RelayWire {
  a: TestCard
  b: TestCard
  /** Those who speak to the cards: admins, where the cards have peers. */
  hostA: Conversation
  hostB: Conversation
  /** What the firmware of each card holds. */
  state: State
  farState: State
  /** What card A said to its own host meanwhile. */
  readonly heard: Sent[] = []
  /** Card B hears nothing, and says nothing. */
  isCut = false
  /** Changes what card B says, on its way. */
  spoil: (frame: Uint8Array) => Uint8Array = (frame) => frame
  /** What comes to card B of a frame that card A sends there; and to card A of one of card B. */
  toFar: (frame: Uint8Array) => readonly Uint8Array[] = (frame) => [frame]
  toNear: (frame: Uint8Array) => readonly Uint8Array[] = (frame) => [frame]

  private readonly closed: Closed
  private readonly nearPeers: TestCardOptions
  private readonly farPeers: TestCardOptions

  constructor(closed: Closed = {}) {
    this.closed = closed
    this.nearPeers = closed.a === undefined ? {} : { peers: new KeptPeers(closed.a) }
    this.farPeers = closed.b === undefined ? {} : { peers: new KeptPeers(closed.b) }
    const near = this.startNear(1 << 18)
    this.a = near.card
    this.state = near.state
    const far = this.startFar(1 << 18)
    this.b = far.card
    this.farState = far.state
    this.hostA = speakerOf(this.a, closed.a)
    this.hostB = speakerOf(this.b, closed.b)
    this.hostA.format()
    this.hostB.format()
    this.hostB.provision({ name: 'far', slots: 64, capacity: 1000 })
  }

  private startNear(part: Nvdimm | number): Started {
    return started(part, this.nearPeers)
  }

  private startFar(part: Nvdimm | number): Started {
    const facts = { ...FAR, entropy: [8, 7, 6, 5, 4, 3, 2, 1] }
    return started(part, { facts, hears: readdressed, ...this.farPeers })
  }

  /** Card A has been off. */
  restartNear(): void {
    const { now, nvdimm } = this.a
    const { card, state } = this.startNear(nvdimm)
    card.now = now
    this.a = card
    this.state = state
    this.hostA = speakerOf(card, this.closed.a)
  }

  /** Card B has been off. */
  restartFar(): void {
    const { now, nvdimm } = this.b
    const { card, state } = this.startFar(nvdimm)
    card.now = now
    this.b = card
    this.farState = state
    this.hostB = speakerOf(this.b, this.closed.b)
  }

  /** Carries frames to and fro until both are silent. */
  carry(first: readonly Uint8Array[]): void {
    let toB = first.filter((frame) => this.isForB(frame))
    while (toB.length > 0 && !this.isCut) {
      this.b.serve(...toB.flatMap((frame) => (isArp(frame) ? [frame] : this.toFar(frame))))
      this.b.idle()
      const said = this.b.sent.flatMap(({ bytes }) => this.toNear(this.spoil(bytes)))
      const answers = [...this.b.plain, ...said]
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
    return this.ask(attaching(name, port))
  }

  /** Asks card A for a relay until it is connected, or cannot be. */
  ask(fill: (body: Uint8Array) => void): string {
    const ask = (): string => {
      return this.hostA.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, fill).fault
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
    const qp = this.hostA.connect(mtu, 0, 7)
    return { qp, rkey: this.hostA.open('far').rkey }
  }
}

interface Started {
  readonly card: TestCard
  readonly state: State
}

function started(part: Nvdimm | number, options: TestCardOptions): Started {
  let state: State | null = null
  const start: TestCardOptions['start'] = (machine) =>
    bootDirect(machine, (seen) => {
      state = seen
    })
  const card = new TestCard(part, { start, ...options })
  return { card, state: state! }
}

function speakerOf(card: TestCard, identity: Identity | undefined): Conversation {
  if (identity === undefined) return card
  return new Guest(card, ADMIN, 1, pairOf(new Uint8Array(identity.secret)).public).enter()
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
