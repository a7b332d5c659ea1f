/**
 * The wire between the guest's network card and an emulated DPU: it loses RoCEv2 frames, or is cut
 * behind one.
 *
 * Invariant: of each `one in N` frames of a direction that loses, exactly one is lost, at a
 * drawn place; so every run loses some, and none loses more. Frames that are not RoCEv2, as
 * neighbour discovery, always pass. The order stays.
 */

import { connect, createServer, type Server, type Socket } from 'node:net'
import { Random } from '../../boards/emulator/base/random.ts'
import { takeFrames } from './frames.ts'

const ETHERTYPE_AT = 12
const IPV4 = 0x0800
const IPV6 = 0x86dd
const HEADER_BYTES = { ether: 14, ipv4: 20, ipv6: 40 } as const
/** Destination port of UDP, from its begin (IBTA, annex A17). */
const PORT_AT = 2
const ROCE_PORT = 4791

/** Bytes of UDP's header, and of BTH behind it; then AETH begins, with the syndrome. */
const UDP_BYTES = 8
const BTH_BYTES = 12
const PSN_AT = 9
const RC_ACKNOWLEDGE = 17
/** Opcodes of reliable connections; RDMA-CM speaks in datagrams. */
const RC_OPCODES = 0x20

/** What the guest sends is of requests, except for few; what the card sends, of answers. */
export type Direction = 'requests' | 'answers'

/** Where the BTH begins, or -1 in a frame that is not RoCEv2. */
function bthOf(frame: Buffer): number {
  const type = frame.readUInt16BE(ETHERTYPE_AT)
  if (type !== IPV4 && type !== IPV6) return -1
  const at = HEADER_BYTES.ether + (type === IPV4 ? HEADER_BYTES.ipv4 : HEADER_BYTES.ipv6)
  const isRoce = frame.length > at + UDP_BYTES && frame.readUInt16BE(at + PORT_AT) === ROCE_PORT
  return isRoce ? at + UDP_BYTES : -1
}

/** A NAK that ends the connection: 0x61 to 0x64 (IBTA, volume 1, table 60). */
function isRefusal(frame: Buffer, bthAt: number): boolean {
  const syndrome = frame[bthAt + BTH_BYTES] ?? 0
  return frame[bthAt] === RC_ACKNOWLEDGE && syndrome >= 0x61 && syndrome <= 0x64
}

/** Which frames of one direction are lost. */
class Loss {
  lost = 0
  /** Refusals that end a connection, lost or not. */
  refusals = 0
  private oneIn = 0
  private place = 0
  private victim = 0
  /** Frames of reliable connections that still pass before none does, or -1. */
  private left = -1
  private isOver = false
  private onCut: () => void = () => {}
  private readonly random: Random

  constructor(random: Random) {
    this.random = random
  }

  cutBehind(frames: number): Promise<void> {
    this.left = frames
    return new Promise((resolve) => {
      this.onCut = resolve
    })
  }

  mend(): void {
    this.left = -1
    this.isOver = false
  }

  /** Is the wire cut in front of that frame? */
  private isCut(frame: Buffer): boolean {
    if (this.left < 0) return false
    const bthAt = bthOf(frame)
    if (bthAt < 0 || this.isOver) return this.isOver && bthAt >= 0
    // A connection may be made yet: what cuts it is the first request too many.
    if (frame[bthAt]! >= RC_OPCODES) return false
    this.isOver = this.left === 0
    if (this.isOver) this.onCut()
    else this.left--
    return this.isOver
  }

  begin(oneIn: number): void {
    this.oneIn = oneIn
    this.place = this.lost = this.refusals = 0
  }

  takes(frame: Buffer): boolean {
    if (this.isCut(frame)) return true
    const bthAt = this.oneIn === 0 ? -1 : bthOf(frame)
    if (bthAt < 0) return false
    if (this.place === 0) this.victim = this.random.below(this.oneIn)
    const isLost = this.place === this.victim
    this.place = (this.place + 1) % this.oneIn
    if (isLost) this.lost++
    if (isRefusal(frame, bthAt)) this.refusals++
    return isLost
  }
}

export class Relay {
  private readonly server: Server
  private readonly losses: Readonly<Record<Direction, Loss>>
  /** Told of each acknowledgement of the card on its way: the syndrome of its AETH, its PSN. */
  onAcknowledge: (syndrome: number, psn: number) => void = () => {}

  /** Listens at `path`, and has what plugs in there talk with the card at `card`. */
  constructor(path: string, card: string, seed: number) {
    const random = new Random(seed)
    this.losses = { requests: new Loss(random), answers: new Loss(random) }
    this.server = createServer((guest) => this.join(guest, connect(card))).listen(path)
    // What it joins ends with the processes at its ends.
    this.server.unref()
  }

  /** From now on one in so many frames of each of these directions is lost; of none, none is. */
  lose(directions: readonly Direction[], oneIn: number): void {
    for (const direction of ['requests', 'answers'] as const) {
      this.losses[direction].begin(directions.includes(direction) ? oneIn : 0)
    }
  }

  /**
   * So many requests of reliable connections pass, and no RoCEv2 frame of the guest behind them,
   * until `mend`. Answers pass. Resolves when the first request was kept back.
   */
  cutBehind(frames: number): Promise<void> {
    return this.losses.requests.cutBehind(frames)
  }

  mend(): void {
    this.losses.requests.mend()
  }

  lost(direction: Direction): number {
    return this.losses[direction].lost
  }

  /** Refusals of the card, lost or not, where answers may be lost: each ends a connection. */
  get refusals(): number {
    return this.losses.answers.refusals
  }

  private join(guest: Socket, card: Socket): void {
    const carry = (from: Socket, to: Socket, loss: Loss): void => {
      let rest: Buffer = Buffer.alloc(0)
      from.on('data', (bytes: Buffer) => {
        rest = this.pass(Buffer.concat([rest, bytes]), to, loss)
      })
      from.on('error', () => {})
      from.on('close', () => to.destroy())
    }
    carry(guest, card, this.losses.requests)
    carry(card, guest, this.losses.answers)
  }

  /** Hands on every whole frame that is not lost; returns what is left. */
  private pass(bytes: Buffer, to: Socket, loss: Loss): Buffer {
    return takeFrames(bytes, (frame, as) => {
      if (loss === this.losses.answers) this.watch(frame)
      const isLost = loss.takes(frame)
      if (!isLost && !to.destroyed) to.write(as)
    })
  }

  private watch(frame: Buffer): void {
    const bthAt = bthOf(frame)
    if (bthAt < 0 || frame[bthAt] !== RC_ACKNOWLEDGE) return
    this.onAcknowledge(frame[bthAt + BTH_BYTES]!, frame.readUIntBE(bthAt + PSN_AT, 3))
  }
}
