/**
 * What Linux repeats when something was lost: FLUSH and ATOMIC WRITE without their address, many
 * requests behind each other, with long READs between them (faults N1, N3, N9; wire-format 9.4).
 */

import { describe, expect, test } from 'vitest'
import { REMEMBERED_KINDS } from '../../../firmware/board/limits.ts'
import { RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import {
  BYTES_AT,
  BYTES_LENGTH,
  type BytesCard,
  bytesCard,
} from '../../support/cards/bytes-card.ts'
import { dataOf, readFrame, type Sent, type TestPeer } from '../../support/cards/test-card.ts'
import { hexOf } from '../../support/wire/frames.ts'
import {
  ACK,
  atomicWriteFrame,
  flushFrame,
  lines,
  NAK_ACCESS,
  writeFrames,
} from '../../support/wire/requests.ts'

const MTU = 256
const LONG = 66 * MTU

/** As Linux repeats one: the request of that PSN with address 0, whatever its address was. */
const unaddressed = (one: BytesCard): number => one.bytes.rkey

describe('R1-C11: a request that Linux repeats with address 0', () => {
  test('an ATOMIC WRITE that was lost is refused, and the begin of the region stays', () => {
    const one = bytesCard()
    const { card, qp } = one
    card.serve(...writeFrames(qp, one.bytes, 0, dataOf(64, 1)))
    const sent = card.serve(atomicWriteFrame(qp, unaddressed(one), 0, dataOf(8, 2)))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
    expect(hexOf(card.nvdimm.live.slice(BYTES_AT, BYTES_AT + 64))).toBe(hexOf(dataOf(64, 1)))
  })

  test('an ATOMIC WRITE that was done is answered again, and not done again', () => {
    const one = bytesCard()
    const { card, qp } = one
    const { psn } = qp
    card.serve(atomicWriteFrame(qp, one.bytes, 512, dataOf(8, 2)))
    const sent = card.serve(atomicWriteFrame(qp, unaddressed(one), 0, dataOf(8, 2), { psn }))
    expect(lines(sent, psn)).toEqual(['READ 0 only: 0 B'])
    expect(hexOf(card.nvdimm.live.slice(BYTES_AT, BYTES_AT + 8))).toBe('00'.repeat(8))
  })

  test('a FLUSH that was lost covers what it was meant for', () => {
    const one = bytesCard()
    const { card, qp } = one
    const data = dataOf(64, 3)
    card.serve(...writeFrames(qp, one.bytes, 8192, data))
    const sent = card.serve(flushFrame(qp, unaddressed(one), { length: 64 }))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([ACK])
    expect(hexOf(card.nvdimm.durable.slice(BYTES_AT + 8192, BYTES_AT + 8256))).toBe(hexOf(data))
  })

  test('a FLUSH of more than there is, or of another region, is no repetition of one', () => {
    const cases: readonly (readonly [number, (one: BytesCard) => number])[] = [
      [BYTES_LENGTH + 1, ({ bytes }) => bytes.rkey],
      [8, ({ bytes }) => bytes.rkey ^ 0x40],
    ]
    for (const [length, key] of cases) {
      const one = bytesCard()
      const sent = one.card.serve(flushFrame(one.qp, key(one), { length }))
      expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
    }
  })
})

describe('R1-C12: what is asked again is known by what is outstanding', () => {
  const MAKE: Readonly<Record<string, (one: BytesCard, psn?: number) => Uint8Array>> = {
    FLUSH: ({ qp, bytes }, psn) => flushFrame(qp, bytes, psn === undefined ? {} : { psn }),
    'ATOMIC WRITE': ({ qp, bytes }, psn) =>
      atomicWriteFrame(qp, bytes, 64, dataOf(8, 1), psn === undefined ? {} : { psn }),
  }

  test.each(Object.entries(MAKE))(
    '%s, however many PSNs are between it and the next',
    (_, make) => {
      for (const apart of [1, 2, 255, 256, 257, 512, 4096]) {
        const one = bytesCard()
        const { card, qp } = one
        const { psn } = qp
        card.serve(make(one))
        const many = Array.from({ length: apart - 1 }, () =>
          writeFrames(qp, one.bytes, 0, dataOf(8, 1)),
        )
        card.serve(...many.flat())
        card.serve(make(one))
        expect(lines(card.serve(make(one, psn)), psn)).toEqual(['READ 0 only: 0 B'])
      }
    },
  )

  test('as many as may be outstanding, PSNs wrapping between them, and no more', () => {
    const one = bytesCard()
    const { card, qp } = one
    const first = qp.psn
    for (let i = 0; i < REMEMBERED_KINDS; i++) card.serve(flushFrame(qp, one.bytes))
    for (const i of [0, 1, 128, REMEMBERED_KINDS - 1]) {
      const psn = (first + i) & 0xffffff
      expect(lines(card.serve(flushFrame(qp, one.bytes, { psn })), psn)).toEqual([
        'READ 0 only: 0 B',
      ])
    }
    card.serve(flushFrame(qp, one.bytes))
    expect(card.serve(flushFrame(qp, one.bytes, { psn: first }))).toEqual([])
  })
})

/** A request of a dialogue: its name, and its frame or frames, also as they are repeated. */
type Make = (one: BytesCard, qp: TestPeer, repeated: boolean) => Uint8Array[]

const REQUESTS: Readonly<Record<string, Make>> = {
  WRITE: (one, qp) => writeFrames(qp, one.bytes, 0, dataOf(300, 1)),
  FLUSH: (one, qp, repeated) => [flushFrame(qp, repeated ? unaddressed(one) : one.bytes)],
  READ: (one, qp) => [readFrame(qp, one.bytes, 0, 1024, 300)],
  'long READ': (one, qp) => [readFrame(qp, one.bytes, 0, 4096, LONG)],
}

interface Open {
  readonly first: number
  readonly last: number
  readonly isAnswered: boolean
  /** PSNs of its responses that came, in order. */
  came: number
  done: boolean
}

/**
 * A requester as Linux is: it takes responses in order, and sends everything again from the first
 * request that is not done. It objects to an acknowledgement that passes one with a response of its
 * own that was not sent since it asked for it: Linux would take that one for done.
 */
class LinuxPeer {
  private readonly one: BytesCard
  private readonly names: readonly string[]
  private readonly open: Open[] = []
  private readonly start: number
  /** PSNs of the responses that the card has sent since the last flight left. */
  private readonly said: Set<number> = new Set()

  constructor(one: BytesCard, names: readonly string[]) {
    this.one = one
    this.names = names
    this.start = one.qp.psn
    for (const name of names) {
      const first = one.qp.psn
      REQUESTS[name]!(one, one.qp, false)
      const last = (one.qp.psn - 1) & 0xffffff
      this.open.push({ first, last, isAnswered: name !== 'WRITE', came: 0, done: false })
    }
  }

  get isDone(): boolean {
    return this.open.every(({ done }) => done)
  }

  /** Every request from the first that is not done. */
  flight(repeated: boolean): Uint8Array[] {
    this.said.clear()
    const from = this.open.findIndex(({ done }) => !done)
    return this.names.slice(from).flatMap((name, i) => {
      const psn = this.open[from + i]!.first
      return REQUESTS[name]!(this.one, { ...this.one.qp, psn }, repeated)
    })
  }

  /** What the card sends, whether it comes or not. */
  judge(sent: Sent): void {
    if (sent.opcode !== RC_ACKNOWLEDGE) {
      this.said.add(sent.psn)
      return
    }
    expect(sent.syndrome === ACK || sent.syndrome < 0x40 || sent.syndrome === 0x60).toBe(true)
    const until = sent.psn - (sent.syndrome === ACK ? 0 : 1)
    for (const { done, isAnswered, last } of this.open) {
      if (done || !isAnswered || this.said.has(last)) continue
      const passed = ((until - last) & 0xffffff) < 0x800000
      expect(passed, `an acknowledgement of ${until - this.start} passes one`).toBe(false)
    }
  }

  take(sent: Sent): void {
    if (sent.opcode !== RC_ACKNOWLEDGE) {
      this.respond(sent.psn)
      return
    }
    const until = sent.psn - (sent.syndrome === ACK ? 0 : 1)
    for (const one of this.open) {
      if (one.done) continue
      // Its response was lost.
      if (one.isAnswered || ((until - one.last) & 0xffffff) >= 0x800000) return
      one.done = true
    }
  }

  private respond(psn: number): void {
    for (const one of this.open) {
      if (one.done) continue
      const at = (psn - one.first) & 0xffffff
      const ours = at <= ((one.last - one.first) & 0xffffff)
      if (!ours && !one.isAnswered && at < 0x800000) one.done = true
      else {
        if (ours && one.isAnswered && at === one.came) one.came += 1
        if (one.isAnswered && ((one.first + one.came - 1) & 0xffffff) === one.last) one.done = true
        return
      }
    }
  }
}

/** All that the card says to the bursts, one behind the other, and then turn by turn. */
function servedBursts(one: BytesCard, bursts: readonly Uint8Array[][]): Sent[] {
  const all = bursts.flatMap((frames) => one.card.serve(...frames))
  for (let i = 0; one.card.waitUs === 1 && i < 50; i++) all.push(...one.card.pass(1))
  return all
}

function served(one: BytesCard, ...frames: Uint8Array[]): Sent[] {
  return servedBursts(one, [frames])
}

/** Plays a dialogue; what is lost of the first flight and of its answers is said by their place. */
function play(
  setting: BytesCard,
  names: readonly string[],
  lost: { request?: number; answer?: number },
  late: boolean,
): number {
  const one = { ...setting, qp: setting.card.connect(MTU) }
  const peer = new LinuxPeer(one, names)
  let answers = 0
  for (let flight = 0; !peer.isDone; flight++) {
    expect(flight, names.join(', ')).toBeLessThan(8)
    const frames = peer.flight(flight > 0).filter((_, i) => flight > 0 || i !== lost.request)
    // In one burst, or each by itself, so that what is behind a long READ comes while it is served.
    const sent = servedBursts(one, late ? frames.map((frame) => [frame]) : [frames])
    sent.forEach((frame, i) => {
      peer.judge(frame)
      if (flight > 0 || i !== lost.answer) peer.take(frame)
    })
    if (flight === 0) answers = sent.length
  }
  return answers
}

const NAMES = Object.keys(REQUESTS)
const DIALOGUES = NAMES.flatMap((a) => NAMES.flatMap((b) => NAMES.map((c) => [a, b, c])))

describe('R1-C13: three requests, one packet lost: every one of them, everywhere', () => {
  test.each(DIALOGUES.map((names) => [names.join(', '), names] as const))('%s', (_, names) => {
    const one = bytesCard(MTU)
    for (const late of [false, true]) {
      const answers = play(one, names, {}, late)
      for (let i = 0; i < 6; i++) play(one, names, { request: i }, late)
      // Of a long READ its first, second and last responses, and those about its turns.
      for (let i = 0; i < answers; i++) {
        if (i < 4 || i > answers - 4 || (i >= 62 && i <= 70)) play(one, names, { answer: i }, late)
      }
    }
  })

  test('a WRITE behind a READ of 65 packets, in one burst, claims no gap', () => {
    const one = bytesCard(MTU)
    const { card, qp } = one
    const { psn } = qp
    const read = readFrame(qp, one.bytes, 0, 0, 65 * MTU)
    const write = writeFrames(qp, one.bytes, 0, dataOf(8, 1))
    const sent = served(one, read, ...write)
    expect(sent.slice(0, 65).map((frame) => frame.psn - psn)).toEqual([...new Array(65).keys()])
    expect(lines(sent.slice(65), psn)).toEqual(['NAK 0x21 65'])
    expect(lines(card.serve(...write), psn)).toEqual(['ACK 65'])
  })

  test('two long READs and a WRITE again, while the first is answered: none is passed', () => {
    const one = bytesCard(MTU)
    const { card, qp } = one
    const { psn } = qp
    const frames = [
      readFrame(qp, one.bytes, 0, 0, LONG),
      readFrame(qp, one.bytes, 0, 0, LONG),
      ...writeFrames(qp, one.bytes, 0, dataOf(8, 1)),
    ]
    for (const frame of frames) served(one, frame)
    const sent = [...card.serve(frames[0]!), ...card.serve(frames[1]!), ...served(one, frames[2]!)]
    const acks = sent.filter(({ opcode }) => opcode === RC_ACKNOWLEDGE)
    expect(lines(acks, psn)).toEqual(['NAK 0x21 66'])
    // What is still on its way behind them is not acknowledged either, until the peer goes back.
    expect(served(one, ...writeFrames(qp, one.bytes, 0, dataOf(8, 1)))).toEqual([])
    expect(served(one, frames[1]!)).toHaveLength(66)
    expect(lines(served(one, frames[2]!), psn)).toEqual(['ACK 132'])
  })

  test('a READ of long ago under a long READ costs its peer one repetition, and no more', () => {
    const one = bytesCard(MTU)
    const { card, qp } = one
    const { psn } = qp
    const old = readFrame(qp, one.bytes, 0, 0, LONG)
    const long = readFrame(qp, one.bytes, 0, 0, LONG)
    served(one, old)
    card.serve(long)
    served(one, old)
    const write = writeFrames(qp, one.bytes, 0, dataOf(8, 1))
    expect(card.serve(...write)).toEqual([])
    expect(lines(card.serve(...write), psn)).toEqual(['ACK 132'])
  })
})
