/**
 * Short conversations on a bad network: what comes twice, too late, too early, with a gap, or again
 * after everybody else has gone on (X-1, X-3, G2-2; faults N1 to N5, N9 to N14).
 *
 * Invariant: what is judged is what a peer may rely on: which bytes are there in the end,
 * and which answers must, and must not, have left.
 */

import {
  RC_ATOMIC_ACK,
  RC_WRITE_FIRST,
  RC_WRITE_LAST,
  RC_WRITE_MIDDLE,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../../../../firmware/wire/opcode.ts'
import { type BatchSetting, batchSetting } from '../../../support/cards/batch-card.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  TestCard,
  type TestPeer,
} from '../../../support/cards/test-card.ts'
import { sameBytes } from '../../../support/judges/oracle.ts'
import { frameOf } from '../../../support/wire/frames.ts'
import {
  fetchAddFrame,
  NAK_INVALID,
  NAK_SEQUENCE,
  writeFrames,
} from '../../../support/wire/requests.ts'
import type { Play } from '../killer.ts'
import { firstOf, SLOTS, syndromes, World } from './world.ts'

const MINE = dataOf(64, 1)
const THEIRS = dataOf(64, 2)

/** The same operation under another PSN, on another connection or not, after another client. */
function again(later: number, anew: boolean): string | null {
  const world = new World()
  const { card, records, qp } = world
  const other = card.connect(256, 0, 8)
  const operation = qp.operation + 1
  card.serve(...persistFrames(qp, records, 0, MINE))
  for (let i = 0; i < later; i++) card.serve(...persistFrames(qp, records, 1 + i, MINE))
  card.serve(...persistFrames(other, records, 0, THEIRS))
  card.idle()
  const pair = anew ? card.connect(256, 0, 7) : qp
  const sent = card.serve(...persistFrames(pair, records, 0, MINE, { operation }))
  if (!persistAcks(sent).some(({ status }) => status === 0)) return 'it is not acknowledged again'
  return world.expectSlot(0, THEIRS, 'what was durable is executed again')
}

/** The same packet twice; another client has written in between. */
function duplicate(): string | null {
  const world = new World()
  const { card, records, qp } = world
  const other = card.connect(256, 0, 8)
  const frames = persistFrames(qp, records, 0, MINE)
  const [first] = persistAcks(card.serve(...frames))
  card.serve(...persistFrames(other, records, 0, THEIRS))
  const [second] = persistAcks(card.serve(...frames))
  if (first?.status !== 0 || second?.status !== 0) return 'a duplicate has lost its receipt'
  if (second.operationLow !== first.operationLow) return 'the receipt is for something else'
  return world.expectSlot(0, THEIRS, 'a duplicate is executed')
}

/** The same WRITE twice; another client has written there in between. */
function duplicateWrite(): string | null {
  const { card, bytes, qp } = new World()
  const other = card.connect(256, 0, 8)
  const [frame] = writeFrames(qp, bytes, 0, MINE)
  card.serve(frame!)
  card.serve(...writeFrames(other, bytes, 0, THEIRS))
  const sent = card.serve(frame!)
  if (!syndromes(sent).includes(0x1f)) return 'a duplicate is not acknowledged'
  const found = card.read(card.connect(), bytes, 0, 0, 64)
  return found !== null && sameBytes(found, THEIRS) ? null : 'a WRITE that comes twice is executed'
}

/** Records whose bytes end anywhere in a word. */
function shortRecords(): string | null {
  const world = new World()
  const { card, records, qp } = world
  for (let length = 0; length < 10; length++) {
    const data = dataOf(length, length + 1)
    const [answer] = persistAcks(card.serve(...persistFrames(qp, records, 0, data)))
    if (answer?.status !== 0) return `a record of ${length} bytes is refused`
    const whole = new Uint8Array(64)
    whole.set(data)
    const said = world.expectSlot(0, whole, `a record of ${length} bytes`)
    if (said !== null) return said
  }
  return null
}

/** A PSN that was taken, under an operation that never was. */
function forged(): string | null {
  const world = new World()
  const { card, records, qp } = world
  const { psn } = qp
  card.serve(...persistFrames(qp, records, 0, MINE))
  const operation = qp.operation + 7
  const frames = persistFrames(qp, records, 1, THEIRS, { psn, operation })
  const sent = card.serve(...frames)
  if (persistAcks(sent).some(({ status }) => status === 0)) return 'a forged duplicate is durable'
  return world.expectSlot(1, new Uint8Array(64), 'a forged duplicate is executed')
}

/** A setting whose next PSN is that one. */
function settingAt(psn: number): BatchSetting {
  const setting = batchSetting({ slots: 32 }, 256)
  const { qp, state } = setting
  const pair = state.queuePairs.places.find((place) => place?.number === qp.number)!
  pair.expectedPsn = psn as typeof pair.expectedPsn
  qp.psn = psn
  return setting
}

/** Duplicates and gaps while the PSN comes round. */
function wrap(): string | null {
  const { card, region, qp } = settingAt(0xfffffc)
  let last: Uint8Array[] = []
  for (let i = 0; i < 8; i++) {
    const { psn } = qp
    const ahead: TestPeer = { ...qp, psn: (psn + 2) & 0xffffff }
    const gap = card.serve(...persistFrames(ahead, region, 20, THEIRS))
    if (!syndromes(gap).includes(NAK_SEQUENCE)) return `PSN ${psn}: a gap is not told of`
    if (persistAcks(gap).length > 0) return `PSN ${psn}: what is behind a gap is acknowledged`
    const frames = persistFrames(qp, region, i, dataOf(64, i))
    if (persistAcks(card.serve(...frames)).length !== 1) return `PSN ${psn} is not taken`
    for (const old of i === 0 ? [frames] : [last, frames]) {
      const sent = card.serve(...old)
      if (syndromes(sent).includes(NAK_SEQUENCE)) return `behind PSN ${psn}: a duplicate is a gap`
      if (persistAcks(sent).length !== 1) return `behind PSN ${psn}: no receipt again`
    }
    last = frames
  }
  return null
}

/** Half of all PSNs are ahead, and half behind. */
function halves(): string | null {
  for (const base of [0x10, 0x7ffff0, 0xfffff0]) {
    for (const [distance, behind] of [
      [0x7fffff, false],
      [0x800000, true],
    ] as const) {
      const { card, region, qp } = settingAt(base)
      card.serve(...persistFrames(qp, region, 0, MINE))
      const psn = (qp.psn + distance) & 0xffffff
      const sent = card.serve(...persistFrames(qp, region, 1, THEIRS, { psn, operation: 999 }))
      const isGap = syndromes(sent).includes(NAK_SEQUENCE)
      if (isGap === behind) return `PSN ${psn} at ${qp.psn}: taken for ${isGap ? 'a gap' : 'old'}`
    }
  }
  return null
}

/** A packet in the middle of a message is lost, and comes again. */
function gap(): string | null {
  const world = new World()
  const { card, records, qp } = world
  const data = dataOf(250, 5)
  const small = card.connect(256)
  const long = persistFrames({ ...small, mtu: 64 }, records, 0, data)
  const refused = card.serve(long[0]!)
  if (persistAcks(refused).length > 0) return 'a short First is acknowledged'
  const bytes = dataOf(1000, 6)
  const frames = writeFrames(qp, world.bytes, 0, bytes)
  const sent = card.serve(frames[0]!, frames[2]!, frames[3]!)
  if (!syndromes(sent).includes(NAK_SEQUENCE)) return 'a gap is not told of'
  if (syndromes(card.serve(...frames.slice(1))).includes(NAK_SEQUENCE)) return 'it never ends'
  const found = card.read(card.connect(), world.bytes, 0, 0, bytes.length)
  return found !== null && sameBytes(found, bytes) ? null : 'the message is not whole'
}

/** Acknowledgements count messages. */
function messageNumbers(): string | null {
  const { card, bytes, qp } = new World()
  let messages = 0
  for (const length of [10, 600, 0, 256, 257]) {
    const sent = card.serve(...writeFrames(qp, bytes, 0, dataOf(length, length)))
    messages += 1
    const msn = sent.find(({ syndrome }) => syndrome === 0x1f)?.msn
    if (msn !== messages) return `after ${messages} messages the count is ${msn}`
  }
  return null
}

/** An atomic that comes twice is executed once, and answered twice alike. */
function atomics(): string | null {
  const { card, bytes, qp } = new World()
  const adds = [5n, 7n].map((add) => fetchAddFrame(qp, bytes, 64, add))
  for (const frames of [adds, adds, [...adds].reverse()]) {
    for (const frame of frames) {
      const answer = card.serve(frame).find(({ opcode }) => opcode === RC_ATOMIC_ACK)
      if (answer === undefined) return 'an atomic is not answered again'
      const original = answer.bytes.at(-5)
      if (original !== (frame === adds[0] ? 0 : 5)) return `an original is ${original}`
    }
  }
  const word = card.read(card.connect(), bytes, 0, 0, 8, 64)
  const sum = word?.reduce((total, byte) => total + byte, 0)
  return sum === 12 ? null : `an atomic that comes twice is executed twice: ${sum}`
}

/** The PSN of a READ, asking for something else. */
function otherRead(): string | null {
  const { card, bytes, foreign, qp } = new World()
  card.serve(...writeFrames(qp, bytes, 0, dataOf(512, 9)))
  const { psn } = qp
  card.serve(readFrame(qp, bytes, 0, 0, 256))
  for (const [place, at, length] of [
    [bytes, 256, 256],
    [bytes, 0, 512],
    [foreign, 0, 256],
  ] as const) {
    const sent = card.serve(readFrame({ ...qp, psn }, place, 0, at, length))
    if (sent.some(({ opcode }) => opcode >= 0x0d && opcode <= 0x10)) {
      return `a READ of ${length} at ${at} is answered as a duplicate`
    }
  }
  return null
}

/** Captured packets of the life before, on a card that was started again. */
function lifeBefore(): string | null {
  const world = new World()
  const { card, records, qp } = world
  const first = persistFrames(qp, records, 0, MINE)
  card.serve(...first)
  const next = persistFrames(qp, records, 1, MINE)
  card.idle()
  const anew = new TestCard(card.nvdimm)
  anew.open('records')
  // One of them is odd above the place: they cannot be the same.
  const { number } = anew.connect(256, 0, 8)
  if (((number ^ qp.number) & 0x100) === 0) return 'a number of the life before may be taken'
  const sent = anew.serve(...first, ...next, readFrame(qp, records, 0, 0, 64))
  if (sent.length > 0) return 'a packet of the life before is answered'
  for (const place of [records, world.bytes]) {
    const fresh = anew.connect()
    const read = anew.serve(readFrame(fresh, place, 0, 0, 64))
    if (read.some(({ opcode }) => opcode === 0x10)) return 'a key of the life before works'
  }
  return null
}

/** A packet of a message of 600 bytes that goes to plain bytes, or into slot 1. */
function packetOf(world: World, opcode: number, index: number, length: number): Uint8Array {
  const { qp, records, bytes } = world
  const record = opcode >= WRITE_PERSIST_FIRST
  return frameOf({
    bth: { opcode, destQp: qp.number, psn: (qp.psn + index) & 0xffffff, ackRequest: true },
    reth: {
      vaHigh: record ? 1 : bytes.baseHigh,
      vaLow: 0,
      rkey: record ? records.rkey : bytes.rkey,
      length: record ? 250 : 600,
    },
    pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 77 },
    payload: dataOf(length, 4),
  })
}

/** First, Middle, Last and Only out of order. */
function order(): string | null {
  const tries: readonly (readonly [string, readonly (readonly [number, number])[]])[] = [
    ['WRITE Middle without First', [[RC_WRITE_MIDDLE, 256]]],
    ['WRITE Last without First', [[RC_WRITE_LAST, 88]]],
    ['persist Middle without First', [[WRITE_PERSIST_MIDDLE, 256]]],
    ['persist Last without First', [[WRITE_PERSIST_LAST, 250]]],
    [
      'Only inside a message',
      [
        [RC_WRITE_FIRST, 256],
        [WRITE_PERSIST_ONLY, 250],
      ],
    ],
    [
      'a persist inside a WRITE',
      [
        [RC_WRITE_FIRST, 256],
        [WRITE_PERSIST_MIDDLE, 256],
      ],
    ],
  ]
  for (const [name, packets] of tries) {
    const world = new World()
    const frames = packets.map(([opcode, length], i) => packetOf(world, opcode, i, length))
    const sent = world.card.serve(...frames)
    if (!syndromes(sent).includes(NAK_INVALID)) return `${name} is not refused`
  }
  return null
}

export const DIALOGUES: Readonly<Record<string, Play>> = {
  'an operation again': () =>
    firstOf(
      ...[0, 1, SLOTS - 1].flatMap((later) =>
        [true, false].map((anew) => () => again(later, anew)),
      ),
    ),
  'a duplicate': () => firstOf(duplicate, duplicateWrite),
  'short records': shortRecords,
  'a forged duplicate': forged,
  'PSNs come round': wrap,
  'half of all PSNs': halves,
  'a gap': gap,
  'message numbers': messageNumbers,
  'an atomic twice': atomics,
  'another READ': otherRead,
  'the life before': lifeBefore,
  'opcodes out of order': order,
}
