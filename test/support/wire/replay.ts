/**
 * Recorded conversations, held with any card: the recorded numbers are exchanged for those that the
 * card gave out, and its answers are read with the recorded numbers in their places.
 *
 * Invariant: of a request nothing changes but its addresses, the number of the queue pair,
 * its PSN, key and virtual address, the check sums over them, and the ICRC, which is again of the
 * kind that it was. So a card on any engine takes part, and has no door for tests.
 */

import type { Engine } from '../../../boards/emulator/run/dpu.ts'
import { fillIcrc, icrcGood, icrcGoodLinuxFlush } from '../../../boards/software/icrc.ts'
import type { Facts } from '../../../firmware/board/hal.ts'
import { BTH_DEST_QP, BTH_PSN } from '../../../firmware/wire/bth.ts'
import { putU16, putU24, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES, MAC_BYTES } from '../../../firmware/wire/ethernet.ts'
import { IPV4_BYTES, IPV4_CHECKSUM, IPV4_SOURCE } from '../../../firmware/wire/ipv4.ts'
import { KIND_BYTES, REGION_BASE_HIGH, REGION_BASE_LOW } from '../../../firmware/wire/management.ts'
import { RC_READ_REQUEST } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { openBench } from '../cards/engine.ts'
import { placeAll } from '../cards/test-card.ts'
import { Conversation, regionOf, type Sent, sentOf, type TestPeer } from './conversation.ts'
import { type Beginning, fieldsOf } from './dialogue.ts'
import { frameOf } from './frames.ts'

/** Frames in, as one burst; what was sent. */
export type Ask = (...frames: Uint8Array[]) => Sent[]

/** The two engines, and what the card is asked through. */
export const ENGINES: readonly Engine[] = ['node', 'quickjs']

/** A card on that engine; `dispose` ends it. */
export async function openCard(
  engine: Engine,
  facts: Partial<Facts> = {},
): Promise<{ ask: Ask; card: Conversation; dispose: () => void }> {
  const { machine, engine: firmware, sent } = await openBench(engine, REPLAY_PART_BYTES, facts)
  let now = 0
  const ask: Ask = (...frames) => {
    sent.length = 0
    now += 10
    placeAll(machine, frames)
    firmware.serve(frames.length, now)
    // The responses of a long READ leave piece by piece.
    for (let before = -1; before < sent.length; ) {
      before = sent.length
      firmware.idle(now)
    }
    return sent.map(sentOf)
  }
  return { ask, card: new Conversation(ask), dispose: () => firmware.dispose() }
}

/** Bytes that one READ asks for, to move a queue pair's PSN on. */
const STRIDE_BYTES = 1 << 22

/** Space for such a READ. */
const REPLAY_PART_BYTES: number = STRIDE_BYTES + (1 << 17)

/** Queue pairs that are opened to find one whose first PSN is near. */
const TRIES = 200

const PSNS = 0x1000000

/** What a card gave out for a recorded connection. */
export interface Granted {
  readonly qp: TestPeer
  readonly rkey: number
  readonly baseHigh: number
  readonly baseLow: number
  /** Messages that the queue pair has finished already. */
  readonly messages: number
}

/**
 * A queue pair and a region that a card gives to whoever asks. `atPsn`: one that really expects the
 * recorded PSN, however long it takes to get there.
 */
export function granted(
  ask: Ask,
  card: Conversation,
  beginning: Beginning,
  atPsn = false,
): Granted {
  card.format()
  const length = atPsn ? STRIDE_BYTES : beginning.length
  const grant = grantedOn(card, beginning.pathMtu, 'replay', length)
  return atPsn ? movedOn(ask, card, grant, beginning) : grant
}

/** The same on a part that is laid out: a new queue pair, and the region of that name. */
export function grantedOn(
  card: Conversation,
  pathMtu: number,
  name: string,
  length: number,
): Granted {
  const qp = card.connect(pathMtu)
  const { fault, body } = card.tryProvision({ name, kind: KIND_BYTES, length })
  if (fault !== 'PASS') throw new Error(`the region was not made: ${fault}`)
  return {
    qp,
    rkey: regionOf(body).rkey,
    baseHigh: u32(body, REGION_BASE_HIGH),
    baseLow: u32(body, REGION_BASE_LOW),
    messages: 0,
  }
}

/** Of many queue pairs the one whose PSN is nearest, moved on by READs. */
function movedOn(ask: Ask, card: Conversation, grant: Granted, to: Beginning): Granted {
  const left = (qp: TestPeer): number => (to.expectedPsn - qp.psn + PSNS) % PSNS
  let qp = grant.qp
  for (let i = 0; i < TRIES; i++) {
    const other = card.connect(to.pathMtu)
    if (left(other) < left(qp)) qp = other
  }
  let messages = 0
  while (left(qp) > 0) {
    const length = Math.min(left(qp) * to.pathMtu, STRIDE_BYTES)
    const { baseHigh: vaHigh, baseLow: vaLow, rkey } = grant
    const bth = { opcode: RC_READ_REQUEST, destQp: qp.number, psn: qp.psn, ackRequest: true }
    const answers = ask(frameOf({ bth, reth: { vaHigh, vaLow, rkey, length } }))
    if (answers.length !== length / to.pathMtu) throw new Error('a READ was not answered')
    qp.psn = (qp.psn + answers.length) % PSNS
    messages += 1
  }
  return { ...grant, qp, messages }
}

/** Can this recorded frame be held again? It is over IPv4, well made, and its ICRC is good. */
export function isReplayable(frame: Uint8Array): boolean {
  const packet = blankPacket()
  if (checkPacket(packet, frame, 0, frame.length) !== 0 || packet.ipVersion !== 4) return false
  if (packet.ipAt !== ETHERNET_BYTES) return false
  return icrcGood(frame, 0, frame.length) || icrcGoodLinuxFlush(frame, 0, frame.length)
}

export class Replay {
  private readonly ask: Ask
  private readonly beginning: Beginning
  private readonly grant: Granted
  private readonly psnShift: number

  constructor(ask: Ask, beginning: Beginning, grant: Granted) {
    this.ask = ask
    this.beginning = beginning
    this.grant = grant
    this.psnShift = grant.qp.psn - beginning.expectedPsn
  }

  /** One burst of recorded requests; the fields of the answers, with the recorded numbers. */
  serve(...frames: readonly Uint8Array[]): Record<string, unknown>[] {
    const sent = this.answersTo(...frames)
    return sent.map((frame) => {
      const fields = fieldsOf(frame)
      const aeth = fields.aeth as { msn: number } | undefined
      const psn = (frame.psn - this.psnShift + PSNS) % PSNS
      if (Number(fields.destQp) !== this.grant.qp.peer)
        throw new Error(`an answer to ${fields.destQp}`)
      return {
        ...fields,
        psn: `0x${psn.toString(16).padStart(6, '0')}`,
        destQp: `0x${this.beginning.remoteQp.toString(16).padStart(6, '0')}`,
        aeth: aeth && { ...aeth, msn: aeth.msn - this.grant.messages },
      }
    })
  }

  /** The same; the answers as the card gave them. */
  answersTo(...frames: readonly Uint8Array[]): Sent[] {
    return this.ask(...frames.map((frame) => this.requestOf(frame)))
  }

  /** The recorded request with the card's numbers in it. */
  private requestOf(recorded: Uint8Array): Uint8Array {
    const frame = recorded.slice()
    if (!isReplayable(frame)) throw new Error('no request that can be held again')
    const packet = blankPacket()
    checkPacket(packet, frame, 0, frame.length)
    const linuxFlush = !icrcGood(frame, 0, frame.length)
    readdress(frame)
    const { bthAt, row, psn } = packet
    putU24(frame, bthAt + BTH_DEST_QP, this.grant.qp.number)
    putU24(frame, bthAt + BTH_PSN, (psn + this.psnShift + PSNS) % PSNS)
    const addressAt = row!.rethAt === 0 ? row!.atomicAt : row!.rethAt
    if (addressAt !== 0) this.putAddress(frame, bthAt + addressAt)
    fillIcrc(frame, 0, frame.length, linuxFlush)
    return frame
  }

  /** RETH and AtomicETH begin alike: virtual address, key. */
  private putAddress(frame: Uint8Array, at: number): void {
    const { vaHigh, vaLow, rkey } = this.beginning
    const offset = (u32(frame, at) - vaHigh) * 2 ** 32 + (u32(frame, at + 4) - vaLow)
    const low = this.grant.baseLow + offset
    putU32(frame, at, this.grant.baseHigh + Math.floor(low / 2 ** 32))
    putU32(frame, at + 4, low)
    // A key that named nothing names nothing.
    putU32(frame, at + 8, u32(frame, at + 8) === rkey ? this.grant.rkey : ~this.grant.rkey)
  }
}

/** Puts the addresses of the tests' client and card in the place of the recorded ones. */
function readdress(frame: Uint8Array): void {
  const ours = frameOf({ bth: { opcode: 0x04 } })
  frame.set(ours.subarray(0, 2 * MAC_BYTES))
  const ip = ETHERNET_BYTES
  frame.set(ours.subarray(ip + IPV4_SOURCE, ip + IPV4_SOURCE + 8), ip + IPV4_SOURCE)
  putU16(frame, ip + IPV4_CHECKSUM, 0)
  let sum = 0
  for (let at = ip; at < ip + IPV4_BYTES; at += 2) sum += u16(frame, at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  putU16(frame, ip + IPV4_CHECKSUM, ~sum & 0xffff)
}
