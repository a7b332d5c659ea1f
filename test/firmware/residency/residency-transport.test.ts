/**
 * ASSOCIATE, BLOCK_SIZE and PREFETCH_HINT as requests, and MEMORY_STATUS and BLOCK_SIZE as the
 * driver's receiver takes them: what completes them, what is a ghost, what is answered again.
 */

import { describe, expect, test } from 'vitest'
import { PASS } from '../../../firmware/board/fault.ts'
import { takeResponse } from '../../../firmware/transport/completer.ts'
import {
  ASSOCIATE,
  BLOCK_SIZE,
  PREFETCH_HINT,
  READ,
  WRITE,
} from '../../../firmware/transport/requester.ts'
import { pump } from '../../../firmware/transport/sender.ts'
import { readAeth, writeAeth } from '../../../firmware/wire/aeth.ts'
import {
  type Bseth,
  blankBseth,
  readBseth,
  SIZE_GRANTED,
  SIZE_OFFERED,
  writeBseth,
} from '../../../firmware/wire/block-size.ts'
import type { Mseth } from '../../../firmware/wire/memory-status.ts'
import * as opcode from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { Receiver } from '../../../host-driver/frames/receiver.ts'
import type { Session } from '../../../host-driver/frames/session.ts'
import type { Notices, Receives } from '../../../host-driver/way/inbox.ts'
import { endpointOf } from '../../support/peers/network.ts'
import { answer, ask, type Peer, peer, read, response } from '../../support/peers/requester-peer.ts'
import { frameOf } from '../../support/wire/frames.ts'

const NAK_SEQUENCE = 0x60
const NAK_INVALID = 0x61

// ---- the requester -----------------------------------------------------------------------------

/** BLOCK_SIZE_ANSWER. */
function sized(p: Peer, psn: number, bseth: Partial<Bseth>, syndrome = 0x1f, payload = 0): void {
  const [bytes, packet] = response(opcode.BLOCK_SIZE_ANSWER, psn, payload)
  writeAeth(bytes, packet.row!.aethAt, { syndrome, msn: 1 })
  writeBseth(bytes, packet.row!.bsethAt, { ...blankBseth(), ...bseth })
  takeResponse(p.q, bytes, packet, 0)
  pump(p.q, 0)
}

describe('a question about the state of memory', () => {
  test.each([
    ['ASSOCIATE', ASSOCIATE],
    ['BLOCK_SIZE', BLOCK_SIZE],
  ] as const)('P5-7, P5-9: %s is completed by its answer, which its owner is given', (_, kind) => {
    const p = peer()
    ask(p, kind, 1)
    sized(p, 100, { status: SIZE_OFFERED, blockSizeLog2: 14, leastLog2: 12, mostLog2: 20 })
    expect(p.story).toEqual(['SUCCESS 1'])
    const { size } = p.results.get(1)!
    expect(size).toMatchObject({ status: SIZE_OFFERED, commit: false, blockSizeLog2: 14 })
    expect(size).toMatchObject({ leastLog2: 12, mostLog2: 20 })
    expect(p.q.counts).toMatchObject({ otherResponses: 1, ghosts: 0 })
  })

  test('it is completed by nothing else', () => {
    const p = peer()
    ask(p, ASSOCIATE, 1)
    sized(p, 101, {})
    sized(p, 99, {})
    sized(p, 100, {}, NAK_SEQUENCE)
    sized(p, 100, {}, 0x1f, 4)
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(4)
    sized(p, 100, { commit: true, status: SIZE_GRANTED })
    sized(p, 100, { commit: true })
    expect(p.story).toEqual(['SUCCESS 1'])
    expect(p.q.counts.ghosts).toBe(5)
  })

  test('the answer is none to a READ or a WRITE', () => {
    const p = peer()
    read(p, 1, 8)
    ask(p, WRITE, 2)
    sized(p, 100, {})
    sized(p, 101, {})
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(2)
  })

  test('an acknowledgement behind it tells that its answer was lost: it is asked again', () => {
    const p = peer()
    ask(p, BLOCK_SIZE, 1)
    ask(p, WRITE, 2)
    answer(p, 101)
    expect(p.story).toEqual([])
    expect(p.q.counts.impliedNaks).toBe(1)
    expect(p.sent.map(({ psn }) => psn)).toEqual([100, 101, 100, 101])
    sized(p, 100, { blockSizeLog2: 13 })
    answer(p, 101)
    expect(p.story).toEqual(['SUCCESS 1', 'SUCCESS 2'])
  })

  test('it acknowledges what stands before it, and needs none of the depth', () => {
    const p = peer({ readDepth: 1 })
    ask(p, WRITE, 1)
    read(p, 2, 8)
    ask(p, ASSOCIATE, 3)
    ask(p, BLOCK_SIZE, 4)
    expect(p.sent).toHaveLength(4)
    expect(p.q.readsOut).toBe(1)
    sized(p, 102, {})
    // The answer of the READ was lost.
    expect(p.story).toEqual(['SUCCESS 1'])
  })

  test('X-7: a refusal by NAK says why', () => {
    const p = peer()
    ask(p, ASSOCIATE, 1)
    answer(p, 100, 0x62)
    expect(p.story).toEqual(['REM_ACCESS_ERR 1'])
  })

  test('P5-5: a hint is a message: its acknowledgement is its end', () => {
    const p = peer()
    ask(p, PREFETCH_HINT, 1, 0)
    ask(p, READ, 2)
    answer(p, 100)
    expect(p.story).toEqual(['SUCCESS 1'])
  })
})

// ---- the receiver ------------------------------------------------------------------------------

const FIRST_PSN = 0xfffffe

interface Bench {
  readonly receiver: Receiver
  readonly heard: string[]
  /** What was answered: "ACK psn", "NAK 0x61 psn", "SIZE psn status log2". */
  readonly said: () => string[]
}

function bench(hasNotices = true): Bench {
  const heard: string[] = []
  const frames: Uint8Array[] = []
  const notices: Notices = {
    notice: ({ kind, sequence }: Mseth, bytes, at, length) => {
      heard.push(`kind ${kind} no ${sequence}: ${bytes.slice(at, at + length).join(' ')}`)
      return kind !== 9
    },
    proposal: (rkey, bseth) => {
      heard.push(`size ${bseth.blockSizeLog2} of ${rkey}`)
      return { ...bseth, commit: true, status: SIZE_GRANTED }
    },
    health: () => false,
  }
  const inbox: Receives = {
    messageBytesMax: 4096,
    claim: () => true,
    release: () => heard.push('released'),
    deliver: ({ bytes }) => heard.push(`message of ${bytes.length}`),
    refused: (tooLong) => heard.push(`refused ${tooLong}`),
  }
  const flow = {
    ...{ own: endpointOf(3), peer: endpointOf(2), number: 0x20, destQp: 0x30 },
    ...{ pathMtu: 256, linuxPeer: false, tags: null },
  }
  const session = { send: (frame: Uint8Array) => frames.push(frame) } as unknown as Session
  const receiver = new Receiver(session, flow, FIRST_PSN, inbox, hasNotices ? notices : null)
  return { receiver, heard, said: () => frames.splice(0).map(lineOf) }
}

function packetOf(frame: Uint8Array): Packet {
  const packet = blankPacket()
  if (checkPacket(packet, frame, 0, frame.length) !== PASS) throw new Error('no packet')
  return packet
}

function lineOf(frame: Uint8Array): string {
  const { psn, bthAt, row } = packetOf(frame)
  const aeth = { syndrome: 0, msn: 0 }
  readAeth(aeth, frame, bthAt + row!.aethAt)
  const at = (psn - FIRST_PSN) & 0xffffff
  if (row!.bsethAt > 0) {
    const bseth = blankBseth()
    readBseth(bseth, frame, bthAt + row!.bsethAt)
    return `SIZE ${at}: ${bseth.blockSizeLog2}${bseth.commit ? ' committed' : ''}, msn ${aeth.msn}`
  }
  if (aeth.syndrome === 0x1f) return `ACK ${at}, msn ${aeth.msn}`
  return `NAK 0x${aeth.syndrome.toString(16)} ${at}`
}

/** A frame of the card to the host, `place` PSNs behind the first. */
function frame(code: number, place: number, parts: object = {}, ackRequest = true): Uint8Array {
  const psn = (FIRST_PSN + place) & 0xffffff
  return frameOf({ bth: { opcode: code, psn, destQp: 0x20, ackRequest }, ...parts })
}

const notice = (place: number, sequence: number, kind = 1): Uint8Array =>
  frame(opcode.MEMORY_STATUS, place, {
    mseth: { kind, sequence, entries: 1 },
    payload: Uint8Array.of(0, 0, 0, 7, 1),
  })
const proposal = (place: number, blockSizeLog2: number, version = 1): Uint8Array =>
  frame(opcode.BLOCK_SIZE, place, { reth: { rkey: 5 }, bseth: { blockSizeLog2, version } }, false)

function take(b: Bench, ...frames: Uint8Array[]): string[] {
  for (const one of frames) b.receiver.take(one, packetOf(one))
  return b.said()
}

describe('what a card says of its memory', () => {
  test('P5-2: a notice is heard, with its entries, and acknowledged, across the wrap', () => {
    const b = bench()
    const said = take(b, notice(0, 1), notice(1, 2), notice(2, 3, 2))
    expect(said).toEqual(['ACK 0, msn 1', 'ACK 1, msn 2', 'ACK 2, msn 3'])
    expect(b.heard).toEqual([
      'kind 1 no 1: 0 0 0 7 1',
      'kind 1 no 2: 0 0 0 7 1',
      'kind 2 no 3: 0 0 0 7 1',
    ])
  })

  test('P5-28: the same again is acknowledged and not heard; a gap is reported once', () => {
    const b = bench()
    expect(take(b, notice(0, 1), notice(0, 1))).toEqual(['ACK 0, msn 1', 'ACK 0, msn 1'])
    expect(take(b, notice(2, 3), notice(3, 4))).toEqual([`NAK 0x${NAK_SEQUENCE.toString(16)} 1`])
    expect(b.heard).toHaveLength(1)
    expect(take(b, notice(1, 2))).toEqual(['ACK 1, msn 2'])
  })

  test('P5-10, P5-18: a size is answered; to a repetition the same answer, however late', () => {
    const b = bench()
    expect(take(b, proposal(0, 13))).toEqual(['SIZE 0: 13 committed, msn 1'])
    take(b, notice(1, 1), proposal(2, 14))
    expect(take(b, proposal(0, 99), proposal(2, 99))).toEqual([
      'SIZE 0: 13 committed, msn 3',
      'SIZE 2: 14 committed, msn 3',
    ])
    expect(b.heard).toEqual(['size 13 of 5', 'kind 1 no 1: 0 0 0 7 1', 'size 14 of 5'])
  })

  test('answers are remembered for the last 64 proposals', () => {
    const b = bench()
    for (let i = 0; i < 65; i++) take(b, proposal(i, 12 + (i % 4)))
    expect(take(b, proposal(1, 1))).toEqual(['SIZE 1: 13 committed, msn 65'])
    expect(take(b, proposal(0, 1))).toEqual(['ACK 64, msn 65'])
  })

  test.each([
    ['a notice that makes no sense', [notice(0, 1, 9)]],
    ['a size of another version', [proposal(0, 12, 2)]],
    ['a READ', [frame(opcode.RC_READ_REQUEST, 0, { reth: {} })]],
    ['a question that is ours to ask', [frame(opcode.ASSOCIATE, 0, { reth: {}, bseth: {} })]],
  ])('X-7: %s is refused, and then there is silence', (_, frames) => {
    const b = bench()
    expect(take(b, ...frames)).toEqual([`NAK 0x${NAK_INVALID.toString(16)} 0`])
    expect(take(b, notice(0, 1), notice(1, 2))).toEqual([])
    expect(b.heard.at(-1)).toBe('refused false')
  })

  test('X-7: nobody hears: the card is told so', () => {
    for (const one of [notice(0, 1), proposal(0, 12)]) {
      expect(take(bench(false), one)).toEqual([`NAK 0x${NAK_INVALID.toString(16)} 0`])
    }
  })

  test('a notice never stands within a message', () => {
    const b = bench()
    const first = frame(opcode.RC_SEND_FIRST, 0, { payload: new Uint8Array(256) })
    expect(take(b, first, notice(1, 1))).toEqual(['ACK 0, msn 0', 'NAK 0x61 1'])
    expect(b.heard).toEqual(['released', 'refused false'])
    const whole = bench()
    const only = frame(opcode.RC_SEND_ONLY, 1, { payload: new Uint8Array(5) })
    expect(take(whole, notice(0, 1), only, notice(2, 2))).toHaveLength(3)
    expect(whole.heard[1]).toBe('message of 5')
  })
})
