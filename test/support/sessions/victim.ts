/**
 * A card with peers on every board that starts at once, and the driver of a peer whose path to it
 * is an attacker's.
 */

import { afterEach, expect } from 'vitest'
import { keyText } from '../../../boards/software/keys.ts'
import type { Identity } from '../../../firmware/board/hal.ts'
import type { KeyPair } from '../../../firmware/session/noise.ts'
import { sessionIdAt } from '../../../firmware/session/sealed.ts'
import { u16, u24 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES } from '../../../firmware/wire/ethernet.ts'
import { IPV4_SOURCE } from '../../../firmware/wire/ipv4.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { openTunnel, parseTarget } from '../../../host-driver/frames/udp.ts'
import { type ConnectOptions, connect, type Dpu } from '../../../host-driver/index.ts'
import type { Region } from '../../../host-driver/records/region.ts'
import type { Address } from '../attacks/address.ts'
import { type Arena, NOTES, onEveryBoard, record } from '../attacks/arena.ts'
import { PATIENCE_MS, PATIENT } from '../run/patience.ts'
import { ADMIN_2 } from './closed-card.ts'
import { Guest, payloadAt } from './guest.ts'
import { BTH_AT, isOfPair, Path } from './path.ts'
import { ADMIN, CARD, peer, READER, WRITER } from './peers.ts'

const IDENTITY: Identity = {
  secret: [...CARD.secret],
  peers: [
    peer('admin', ADMIN, { admin: true }),
    peer('admin-2', ADMIN_2, { admin: true }),
    peer('writer', WRITER, { write: [NOTES.name] }),
    peer('reader', READER, { read: [NOTES.name] }),
  ],
}

/** Two connections from one seed would make one handshake. */
let seeds = 0x2d00
const open: Dpu[] = []

/** Plays `body` on every board, with those peers, and the region of every arena. */
export function onEveryClosedBoard(body: (arena: () => Arena) => void): void {
  const play = (arena: () => Arena): void => {
    afterEach(async () => {
      for (const dpu of open.splice(0)) await dpu.close()
    })
    body(arena)
  }
  onEveryBoard(play, { identity: IDENTITY }, { key: ADMIN.secret })
}

/** The machine 10.0.0.last, frame by frame, with that peer's keys. */
export function guestOf({ rig }: Arena, keys: KeyPair, last: number): Guest {
  return new Guest({ serve: (...frames) => rig.cable.ask(...frames) }, keys, last)
}

/** A way to the card that is an attacker's. */
export async function pathTo({ target }: Arena): Promise<Path> {
  return new Path(await openTunnel(parseTarget(target)))
}

/** A driver with that key comes over that path. */
export async function come(
  path: Path,
  { secret }: KeyPair,
  asked: ConnectOptions = {},
): Promise<Dpu> {
  seeds += 1
  const dpu = await connect(path, {
    // A record that an attacker holds back is not given up meanwhile.
    ...{ ...PATIENT, ackTimeoutCode: 19, reconnectTimeoutMs: PATIENCE_MS },
    ...{ seed: seeds, key: secret, cardKey: keyText(CARD.public), warn: () => {}, ...asked },
  })
  open.push(dpu)
  return dpu
}

/** A frame of a control call, or of its answer. */
const isDatagram = (frame: Uint8Array): boolean =>
  frame.length > BTH_AT + mad.MAD_BYTES && u24(frame, BTH_AT + 5) === mad.MANAGEMENT_QP

export const isSealed = (frame: Uint8Array): boolean =>
  isDatagram(frame) && mad.isSealed(frame, payloadAt(frame))

export const isHandshake = (frame: Uint8Array): boolean =>
  isDatagram(frame) && u16(frame, payloadAt(frame) + mad.MAD_ATTRIBUTE) === mad.ATTRIBUTE_HANDSHAKE

/** Whom a frame is from. */
export function addressOf(frame: Uint8Array): Address {
  const at = ETHERNET_BYTES + IPV4_SOURCE
  return { mac: [...frame.subarray(6, 12)], ip: [...frame.subarray(at, at + 4)] }
}

export class Victim {
  readonly path: Path
  readonly dpu: Dpu
  readonly region: Region
  /** What is in slot 0. */
  readonly kept: Uint8Array
  /** Its session and the number of the card's queue pair, as they were when it looked last. */
  session = 0
  pair = 0

  private constructor(path: Path, dpu: Dpu, region: Region, kept: Uint8Array) {
    this.path = path
    this.dpu = dpu
    this.region = region
    this.kept = kept
  }

  /** A peer that has a session, a connection, and a record in slot 0; over a path as prepared. */
  static async come(
    arena: Arena,
    keys: KeyPair = WRITER,
    options: ConnectOptions = {},
    prepare: (path: Path) => void = () => {},
  ): Promise<Victim> {
    const path = await pathTo(arena)
    prepare(path)
    const dpu = await come(path, keys, options)
    const region = await dpu.openRegion(NOTES.name)
    const victim = new Victim(path, dpu, region, record(seeds))
    await victim.keep()
    await victim.look()
    return victim
  }

  /** Stores another record there, and then what it keeps. */
  private async keep(): Promise<void> {
    await this.region.persist(0, record(0)).persisted
    await this.region.persist(0, this.kept).persisted
  }

  /** Every frame of that kind that it has sent. */
  sent(is: (frame: Uint8Array) => boolean): Uint8Array[] {
    const { seen } = this.path
    return seen.filter(({ way, frame }) => way === 'to card' && is(frame)).map(({ frame }) => frame)
  }

  /** Every frame of that kind that the card has sent to it. */
  heard(is: (frame: Uint8Array) => boolean): Uint8Array[] {
    const { seen } = this.path
    const here = seen.filter(({ way, frame }) => way === 'to driver' && is(frame))
    return here.map(({ frame }) => frame)
  }

  /** Its address. */
  get address(): Address {
    return addressOf(this.sent(isSealed).at(-1)!)
  }

  /** Its IPv4 address, as text. */
  get ip(): string {
    return this.address.ip.join('.')
  }

  /** Which session and which queue pair it speaks in. */
  async look(): Promise<void> {
    await this.region.read(0)
    await this.dpu.status()
    this.session = sessionOf(this.sent(isSealed).at(-1)!)
    this.pair = u24(this.sent(isOfPair).at(-1)!, BTH_AT + 5)
  }

  /** What the card says of whom it refused last. */
  async refused(): Promise<{ readonly fault: string; readonly from: string } | null> {
    const { last } = (await this.dpu.status()).refusals
    return last && { fault: last.fault, from: last.from }
  }

  /** Its record is what it was; in its session and over its connection it goes on. */
  async isUnharmed(): Promise<void> {
    const { session, pair } = this
    this.path.decide = (frame) => [frame]
    await this.region.persist(1, record(1)).persisted
    expect((await this.region.read(0)).data).toEqual(this.kept)
    await this.look()
    expect([this.session, this.pair]).toEqual([session, pair])
  }
}

function sessionOf(frame: Uint8Array): number {
  return sessionIdAt(frame, payloadAt(frame))
}
