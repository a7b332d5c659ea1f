/**
 * Control calls to a card over UDP, one after another, and what a load needs of them: a region, and
 * queue pairs.
 *
 * Invariant: all leave one port, for a card knows an Ethernet address at one place only. It stays
 * ours until the caller is closed, and others of this machine may use it between two calls: a load
 * that sends from it, with SO_REUSEADDR. Nobody else is given it.
 */

import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { Trouble } from '../../../../boards/tools/debian/programs.ts'
import type { KeyPair } from '../../../../firmware/session/noise.ts'
import { putU16, putU32, u16, u32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { clearAnswer, Guest } from '../../sessions/guest.ts'
import {
  asksFor,
  regionOf,
  type Sent,
  sentOf,
  type TestPeer,
  type TestRegion,
} from '../../wire/conversation.ts'

/** A queue pair, and its keys as CONNECT tells them; none without tags. */
interface Pair {
  readonly qp: TestPeer
  readonly keys: Uint8Array
}

interface PairOptions {
  readonly client: number
  readonly clientQp: number
  readonly hasTags: boolean
}

/** Its frames go over UDP, and nowhere else. */
const NO_CARD = {
  serve: (): Sent[] => {
    throw new Trouble('a caller serves no frames')
  },
}

/** Sockets of one port. */
const SHARED = { type: 'udp4', reuseAddr: true } as const

export class Caller {
  private readonly port: number
  private readonly guest: Guest
  /** Keeps the port: it is connected to itself, and so hears nobody else. */
  private readonly keeper = createSocket(SHARED)
  private ownPort = 0

  /** Calls the card at that port, with the keys of a peer. */
  constructor(port: number, keys: KeyPair) {
    this.port = port
    this.guest = new Guest(NO_CARD, keys)
  }

  /** UDP port that the calls leave; 0 before the first one. */
  get from(): number {
    return this.ownPort
  }

  /** Begins a session: every later call is one of it. Throws a Trouble. */
  async enter(): Promise<void> {
    const first = this.guest.firstMessage()
    const fault = this.guest.finish(first, [await this.exchange(first.frame)])
    if (fault !== 'PASS') throw new Trouble(`the handshake: ${fault}`)
  }

  /** What the card says; asked again while it is under way. Throws a Trouble. */
  async call(
    method: number,
    attribute: number,
    fill: (body: Uint8Array) => void = () => {},
    modifier = 0,
  ): Promise<Uint8Array> {
    const { guest } = this
    for (;;) {
      const isIn = guest.seal !== null
      const frame = isIn
        ? guest.sealedFrame(method, attribute, fill, modifier)
        : guest.callFrame(method, attribute, fill, modifier)
      const sent = [await this.exchange(frame)]
      const answer = isIn ? guest.answerOf(sent) : clearAnswer(sent)
      if (answer === null) throw new Trouble(`control call ${attribute}: no answer of the card's`)
      if (answer.fault === 'PASS') return answer.body
      if (answer.fault !== 'UNDER_WAY') {
        throw new Trouble(`control call ${attribute}: ${answer.fault}`)
      }
    }
  }

  /** Nobody calls any more. */
  close(): void {
    this.keeper.close()
  }

  private async keepPort(): Promise<void> {
    const { keeper } = this
    keeper.bind(0, '127.0.0.1')
    await once(keeper, 'listening')
    this.ownPort = keeper.address().port
    keeper.connect(this.ownPort, '127.0.0.1')
    await once(keeper, 'connect')
  }

  private async exchange(frame: Uint8Array): Promise<Sent> {
    if (this.ownPort === 0) await this.keepPort()
    const socket = createSocket(SHARED)
    try {
      socket.bind(this.ownPort, '127.0.0.1')
      await once(socket, 'listening')
      const answered = once(socket, 'message') as Promise<[Buffer]>
      socket.send(frame, this.port, '127.0.0.1')
      const [answer] = await answered
      return sentOf(answer)
    } finally {
      socket.close()
    }
  }

  /** Formats the card, and makes a region for so many records of that size. */
  async provision(slots: number, capacity: number): Promise<void> {
    await this.call(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    await this.call(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor({ slots, capacity }))
  }

  /** The region that was made: who has a queue pair is told its keys. */
  async open(): Promise<TestRegion> {
    return regionOf(
      await this.call(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => {
        body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
      }),
    )
  }

  /** Another queue pair. */
  async connect({ client, clientQp, hasTags }: PairOptions): Promise<Pair> {
    const body = await this.call(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
      putU32(request, mad.CONNECT_CLIENT_QP, clientQp)
      putU16(request, mad.CONNECT_PATH_MTU, 4096)
      putU32(request, mad.CONNECT_CLIENT_ID_LOW, client)
      request[mad.CONNECT_TAGS] = hasTags ? 1 : 0
    })
    const isTagged = body[mad.CONNECT_TAGS] === 1
    if (isTagged !== hasTags) throw new Trouble('the card has other tags than were asked for')
    const keys = mad.CONNECT_TAG_KEYS
    return {
      qp: {
        number: u32(body, mad.CONNECT_QP),
        peer: clientQp,
        mtu: u16(body, mad.CONNECT_GRANTED_MTU),
        psn: u32(body, mad.CONNECT_FIRST_PSN),
        operation: 0,
      },
      keys: body.slice(keys, keys + (isTagged ? mad.CONNECT_TAG_KEYS_BYTES : 0)),
    }
  }
}
