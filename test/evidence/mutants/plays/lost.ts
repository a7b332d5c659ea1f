/**
 * What was lost and is sent again, late or without its address, and peers that hold what others
 * need (faults N1, N3, N8, N22).
 */

import { Random } from '../../../../boards/emulator/base/random.ts'
import { cut } from '../../../../boards/emulator/medium/power-cut.ts'
import {
  GATHERING_US,
  RECEIVES,
  STAGING_BUFFERS,
  STAGING_TIMEOUT_US,
} from '../../../../firmware/board/limits.ts'
import { putU32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { RC_READ_RESPONSE_ONLY } from '../../../../firmware/wire/opcode.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
} from '../../../support/cards/test-card.ts'
import { LINE_BYTES, sameBytes } from '../../../support/judges/oracle.ts'
import { Stranger } from '../../../support/peers/strangers.ts'
import {
  atomicWriteFrame,
  flushFrame,
  NAK_ACCESS,
  NAK_OPERATIONAL,
  sendFrames,
  slotOffset,
  writeFrames,
} from '../../../support/wire/requests.ts'
import type { Play } from '../killer.ts'
import { firstOf, MTU, syndromes, World } from './world.ts'

/** What answers a FLUSH: a response without data. */
function isResponse({ opcode, syndrome }: Sent): boolean {
  return opcode === RC_READ_RESPONSE_ONLY && syndrome === 0x1f
}

/** An ATOMIC WRITE and a FLUSH that were lost, and come again with address 0. */
function unaddressed(): string | null {
  const { card, bytes, qp } = new World()
  const begin = dataOf(64, 1)
  card.serve(...writeFrames(qp, bytes, 0, begin))
  const flush = card.serve(flushFrame(qp, bytes.rkey))
  if (!flush.some(isResponse)) return 'a FLUSH without its address is refused'
  const word = card.serve(atomicWriteFrame(qp, bytes.rkey, 0, dataOf(8, 2)))
  if (!syndromes(word).includes(NAK_ACCESS)) return 'an ATOMIC WRITE without address is done'
  const there = card.read(card.connect(), bytes, 0, 0, 64)
  return there !== null && sameBytes(there, begin) ? null : 'the begin of the region is another'
}

/** A FLUSH, as many packets as kinds are kept, another FLUSH, and the first again. */
function longAgo(): string | null {
  const { card, bytes, qp } = new World()
  const { psn } = qp
  card.serve(flushFrame(qp, bytes))
  for (let i = 0; i < 255; i++) card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1)))
  card.serve(flushFrame(qp, bytes))
  const again = card.serve(flushFrame(qp, bytes, { psn }))
  return again.length === 1 ? null : 'a FLUSH again is not answered'
}

/** Two long READs and a WRITE again: the second READ is not passed. */
function passed(): string | null {
  const world = new World()
  const { card, qp } = world
  const long = card.provision({ name: 'long', kind: 1, length: 66 * 256 })
  const frames = [0, 1].map(() => readFrame(qp, long, 0, 0, 66 * 256))
  const write = writeFrames(qp, world.bytes, 0, dataOf(8, 1))
  for (const frame of [...frames, ...write]) {
    card.serve(frame)
    for (let i = 0; i < 4; i++) card.pass(1)
  }
  card.serve(frames[0]!)
  card.serve(frames[1]!)
  for (let i = 0; i < 4; i++) card.pass(1)
  return card.serve(...write).length === 0 ? null : 'an acknowledgement passes a READ'
}

/** A message that is kept by other packets of its connection, and one that is given up. */
function late(): string | null {
  const { card, bytes, qp } = new World()
  const before = writeFrames(qp, bytes, 0, dataOf(8, 1))
  card.serve(...before)
  const frames = writeFrames(qp, bytes, 0, dataOf(600, 1))
  card.serve(frames[0]!)
  for (let i = 0; i < 2; i++) {
    card.pass(STAGING_TIMEOUT_US - 1000)
    card.serve(...before)
  }
  if (!syndromes(card.serve(...frames.slice(1))).includes(0x1f)) return 'the tail came too late'
  card.serve(writeFrames(qp, bytes, 0, dataOf(600, 1))[0]!)
  const told = syndromes(card.pass(STAGING_TIMEOUT_US + 1000))
  return told.includes(NAK_OPERATIONAL) ? null : 'who is given up is not told'
}

/** One peer holds every buffer; another one wants one. */
function buffers(): string | null {
  const { card, qp } = new World()
  const records = card.provision({ name: 'wide', capacity: 600 })
  const slow = new Stranger(card, 77)
  for (let i = 0; i < STAGING_BUFFERS; i++) {
    slow.serve(persistFrames(slow.connect(256), records, 0, dataOf(600, 1))[0]!)
  }
  card.pass(GATHERING_US + 1000)
  const [answer] = persistAcks(card.serve(...persistFrames(qp, records, 1, dataOf(600, 2))))
  return answer?.status === 0 ? null : 'one peer keeps all buffers'
}

/** One peer takes as many receive entries as it gets; there is one for another. */
function entries(): string | null {
  const { card } = new World()
  const slow = new Stranger(card, 77)
  for (let i = 0; i < RECEIVES; i++) slow.serve(sendFrames(slow.connect(256), dataOf(300, i))[0]!)
  const other = new Stranger(card, 78)
  const sent = other.serve(...sendFrames(other.connect(256), dataOf(8, 1)))
  return syndromes(sent).includes(0x1f) ? null : 'one peer keeps all receive entries'
}

/** The medium takes what was acknowledged; another client writes there, and it is repeated. */
function repeated(): string | null {
  const write = (card: TestCard, client: number, repetition: boolean): number => {
    const qp = card.connect(MTU, 0, client)
    const more = { operation: 1, repetition }
    const frames = persistFrames(qp, card.open(), 0, dataOf(64, client), more)
    return persistAcks(card.serve(...frames))[0]!.status
  }
  const { card, records } = new World()
  if (write(card, 7, false) !== 0) return 'a client is not served'
  card.machine.die()
  cut(card.nvdimm, { random: new Random(1), strategy: 'all' })
  for (const copy of [0, 1]) card.nvdimm.poison(slotOffset(records, copy, 0) / LINE_BYTES)
  const next = new TestCard(card.nvdimm)
  next.must(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
    putU32(body, mad.SETTLE_REGION, records.id)
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
  })
  if (write(next, 8, false) !== 0) return 'a record that was given up takes nothing'
  write(next, 7, true)
  const found = next.read(next.connect(MTU), next.open(), 0, 0, 64)
  return found !== null && sameBytes(found, dataOf(64, 8))
    ? null
    : 'a repetition is executed over what another has written'
}

export const LOST: Readonly<Record<string, Play>> = {
  'a record that is lost, given up and repeated': repeated,
  'what Linux repeats': () => firstOf(unaddressed, longAgo, passed),
  'a tail that comes late': late,
  'one slow peer': () => firstOf(buffers, entries),
}
