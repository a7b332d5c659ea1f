/**
 * Long READs, in turns between the bursts: up to 2^31 bytes, with whatever happens meanwhile
 * (IBTA 9.7.5; wire-format 3.5, 3.6).
 */

import { describe, expect, test } from 'vitest'
import { READ_PACKETS } from '../../../firmware/board/limits.ts'
import {
  BYTES_AT,
  BYTES_LENGTH,
  type BytesCard,
  bytesCard,
} from '../../support/cards/bytes-card.ts'
import { dataOf, readFrame, type Sent, type TestPeer } from '../../support/cards/test-card.ts'
import { Dialogue, USUAL } from '../../support/wire/dialogue.ts'
import { frameOf, hexOf } from '../../support/wire/frames.ts'
import {
  disconnect,
  fetchAddFrame,
  flushFrame,
  lines,
  NAK_OPERATIONAL,
  PATH_MTUS,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

const MTU = 256
const PACKETS = BYTES_LENGTH / MTU

/** A card whose region of bytes holds something everywhere. */
function filled(): BytesCard {
  const one = bytesCard(MTU)
  one.card.nvdimm.live.set(dataOf(BYTES_LENGTH, 1), BYTES_AT)
  return one
}

/** Serves the frames, and lets the card do what it has to do; what was sent, turn by turn. */
function turns(one: BytesCard, ...frames: Uint8Array[]): Sent[][] {
  const { card } = one
  const all = [card.serve(...frames)]
  for (let i = 0; card.waitUs === 1 && i < 2000; i++) all.push(card.pass(1))
  return all
}

function readLong(one: BytesCard, qp: TestPeer, at = 0, length = BYTES_LENGTH): Uint8Array {
  return readFrame(qp, one.bytes, 0, at, length)
}

function whole(sent: readonly Sent[]): string {
  return hexOf(Uint8Array.from(sent.flatMap(({ payload }) => [...payload])))
}

describe('a long READ', () => {
  test('is answered whole, in order, READ_PACKETS packets in a turn', () => {
    const one = filled()
    const base = one.qp.psn
    const answered = turns(one, readLong(one, one.qp)).filter((sent) => sent.length > 0)
    expect(answered.map((sent) => sent.length)).toEqual([64, 64, 64, 64])
    const sent = answered.flat()
    expect(sent.map(({ psn }) => psn - base)).toEqual(Array.from({ length: PACKETS }, (_, i) => i))
    expect(sent.map(({ opcode }) => opcode)).toEqual([
      0x0d,
      ...Array.from({ length: PACKETS - 2 }, () => 0x0e),
      0x0f,
    ])
    expect(whole(sent)).toBe(hexOf(dataOf(BYTES_LENGTH, 1)))
    expect(sent[0]!.msn).toBe(1)
  })

  test.each([63, 64, 65, 127, 128, 129])('of %i packets ends as it should', (packets) => {
    const one = filled()
    const { card, qp } = one
    const base = qp.psn
    const answered = turns(one, readLong(one, qp, 8, packets * MTU - 3)).flat()
    expect(answered).toHaveLength(packets)
    expect(whole(answered)).toBe(hexOf(dataOf(BYTES_LENGTH, 1).slice(8, 8 + packets * MTU - 3)))
    // The connection goes on.
    expect(lines(card.serve(...sendFrames(qp, dataOf(8, 1))), base)).toEqual([`ACK ${packets}`])
  })

  test.each(PATH_MTUS)('of 4 MiB and more is no longer refused, at path MTU %i', (mtu) => {
    const example = frameOf({ bth: { opcode: 0x0c, destQp: USUAL.localQp } })
    const dialogue = new Dialogue({ ...USUAL, pathMtu: mtu }, example)
    const length = 5 << 20
    const region = { ...dialogue.region, areaBytes: 2 ** 31 }
    dialogue.state.regions.places[region.index] = region
    const request = (bytes: number): Uint8Array =>
      frameOf({
        bth: { opcode: 0x0c, destQp: USUAL.localQp, psn: 0x100 },
        reth: { vaHigh: USUAL.vaHigh, vaLow: 0, rkey: USUAL.rkey, length: bytes },
      })
    // The part ends before the region does: what cannot be delivered is refused where it begins.
    const sent = dialogue.serve(request(length))
    const inOne = Math.min(READ_PACKETS, length / mtu)
    const held = Math.floor(((1 << 18) - (1 << 16)) / mtu)
    expect(sent).toHaveLength(held >= inOne ? inOne : 1)
    const longest = new Dialogue({ ...USUAL, pathMtu: mtu }, example)
    longest.state.regions.places[region.index] = region
    longest.serve(request(2 ** 31))
    expect(longest.queuePair.expectedPsn).toBe((0x100 + 2 ** 31 / mtu) & 0xffffff)
    const over = new Dialogue({ ...USUAL, pathMtu: mtu }, example)
    over.state.regions.places[region.index] = region
    expect(over.serve(request(2 ** 31 + 1)).map(({ syndrome }) => syndrome)).toEqual([0x61])
  })

  test('READs of several queue pairs take turns', () => {
    const one = filled()
    const pairs = [one.qp, one.card.connect(MTU), one.card.connect(MTU)]
    const order = turns(one, ...pairs.map((qp) => readLong(one, qp)))
      .filter((sent) => sent.length > 0)
      .map((sent) => pairs.findIndex(({ peer }) => peer === sent[0]!.packet.destQp))
    expect(order).toEqual([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2])
  })

  test('keeps nobody else waiting: requests of others are answered between its turns', () => {
    const one = filled()
    const { card, qp } = one
    const other = card.connect(MTU)
    card.serve(readLong(one, qp))
    for (let i = 1; i < PACKETS / READ_PACKETS; i++) {
      const sent = card.serve(...writeFrames(other, one.bytes, 0, new Uint8Array(8)))
      expect(sent.filter(({ packet }) => packet.destQp === other.peer)).toHaveLength(1)
      expect(sent.filter(({ packet }) => packet.destQp === qp.peer)).toHaveLength(READ_PACKETS)
    }
  })

  test('waits for the stores in front of it, and no acknowledgement passes it', () => {
    const one = filled()
    const { qp } = one
    const base = qp.psn
    const frames = [...writeFrames(qp, one.bytes, 0, dataOf(8, 9)), readLong(one, qp)]
    const sent = turns(one, ...frames).flat()
    const held = one.card.nvdimm.durable.slice(BYTES_AT, BYTES_AT + 8)
    expect(hexOf(held)).toBe(hexOf(dataOf(8, 9)))
    expect(sent[0]!.psn - base).toBe(1)
    expect(hexOf(sent[0]!.payload.slice(0, 8))).toBe(hexOf(dataOf(8, 9)))
  })
})

describe('while a long READ is answered', () => {
  const BEHIND: Readonly<Record<string, (one: BytesCard) => Uint8Array[]>> = {
    WRITE: ({ qp, bytes }) => writeFrames(qp, bytes, 0, dataOf(8, 3)),
    READ: ({ qp, bytes }) => [readFrame(qp, bytes, 0, 0, 8)],
    'long READ': (one) => [readLong(one, one.qp)],
    FLUSH: ({ qp, bytes }) => [flushFrame(qp, bytes)],
    'FETCH-ADD': ({ qp, bytes }) => [fetchAddFrame(qp, bytes, 0, 1n)],
    SEND: ({ qp }) => sendFrames(qp, dataOf(8, 1)),
    'a reserved opcode': ({ qp }) => [
      frameOf({ bth: { opcode: 0x18, destQp: qp.number, psn: qp.psn } }),
    ],
  }

  test.each(Object.keys(BEHIND))(
    'R1-C13: %s behind it is held back, and asked for when it is done',
    (name) => {
      for (const sameBurst of [true, false]) {
        const one = filled()
        const { card, qp } = one
        const base = qp.psn
        const long = readLong(one, qp)
        const behind = BEHIND[name]!(one)
        const again = behind.map((frame) => frame.slice())
        const sent = sameBurst
          ? turns(one, long, ...behind).flat()
          : [...card.serve(long), ...turns(one, ...behind).flat()]
        expect(sent).toHaveLength(PACKETS + 1)
        expect(whole(sent)).toBe(hexOf(dataOf(BYTES_LENGTH, 1)))
        expect(lines(sent.slice(-1), base)).toEqual([`NAK 0x21 ${PACKETS}`])
        expect(card.counter('HELD_BACK')).toBe(behind.length)
        const answers = turns(one, ...again).flat()
        expect(answers[0]!.psn - base).toBe(PACKETS)
      }
    },
  )

  test('with nothing behind it, nothing is asked for', () => {
    const one = filled()
    const sent = turns(one, readLong(one, one.qp)).flat()
    expect(sent).toHaveLength(PACKETS)
  })

  test('a duplicate of a message before it is acknowledged, not past it', () => {
    const one = filled()
    const { card, qp } = one
    const base = qp.psn
    const write = writeFrames(qp, one.bytes, 0, dataOf(BYTES_LENGTH, 1).slice(0, 8))
    card.serve(...write)
    card.serve(readLong(one, qp))
    const acks = card.serve(...write).filter(({ opcode }) => opcode === 0x11)
    expect(lines(acks, base)).toEqual(['ACK 0'])
  })

  test('its repetition from any packet begins again from there, whatever was sent', () => {
    for (const turnsBefore of [0, 1, 2, 3]) {
      for (const from of [0, 1, 63, 64, 200, 255]) {
        const one = filled()
        const { card, qp } = one
        const base = qp.psn
        card.serve(readLong(one, qp))
        for (let i = 0; i < turnsBefore; i++) card.pass(1)
        const rest = BYTES_LENGTH - from * MTU
        const again = readLong(one, { ...qp, psn: base + from }, from * MTU, rest)
        const sent = turns(one, again).flat()
        const own = sent.filter(({ opcode }) => opcode !== 0x11)
        expect(own[0]!.psn - base, `${turnsBefore}/${from}`).toBe(from)
        expect(own).toHaveLength(PACKETS - from)
        expect(own[0]!.opcode).toBe(from === 255 ? 0x10 : 0x0d)
        const data = dataOf(BYTES_LENGTH, 1).slice(from * MTU)
        expect(whole(own)).toBe(hexOf(data))
      }
    }
  })

  test('N3: in its middle, repeated from packet 64 on, it begins again there', () => {
    const one = filled()
    const { card, qp } = one
    const base = qp.psn
    card.serve(readLong(one, qp))
    const again = { ...qp, psn: base + 64 }
    const sent = turns(one, readLong(one, again, 64 * MTU, BYTES_LENGTH - 64 * MTU)).flat()
    expect(sent[0]!.psn - base).toBe(64)
    expect(whole(sent)).toBe(hexOf(dataOf(BYTES_LENGTH, 1).slice(64 * MTU)))
  })

  test('N3: repeated when it is done, twice in one burst, it is answered once', () => {
    const one = filled()
    const { qp } = one
    const frame = readLong(one, qp)
    expect(turns(one, frame).flat()).toHaveLength(PACKETS)
    const again = turns(one, frame, frame).flat()
    expect(again).toHaveLength(PACKETS)
    expect(whole(again)).toBe(hexOf(dataOf(BYTES_LENGTH, 1)))
  })

  test('a medium that cannot deliver refuses it in that turn, and nothing comes behind', () => {
    for (const bad of [0, 64, 130, 255]) {
      const one = filled()
      const { card, qp } = one
      const base = qp.psn
      card.nvdimm.poison((BYTES_AT + bad * MTU) / 64)
      const sent = turns(one, readLong(one, qp)).flat()
      const turn = Math.floor(bad / READ_PACKETS) * READ_PACKETS
      expect(sent).toHaveLength(turn + 1)
      expect(sent.at(-1)!.syndrome).toBe(NAK_OPERATIONAL)
      expect(sent.at(-1)!.psn - base).toBe(turn)
      expect(card.serve(...sendFrames(qp, dataOf(8, 1)))).toEqual([])
    }
  })

  test('the end of its queue pair ends it', () => {
    const one = filled()
    const { card, qp } = one
    card.serve(readLong(one, qp))
    disconnect(card, qp)
    expect(card.pass(1)).toEqual([])
    expect(card.pass(1)).toEqual([])
  })
})
