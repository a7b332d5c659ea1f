/**
 * A card with peers: what is done in the name of nobody, of one who may not, or twice (R1-S13 to
 * R1-S15).
 *
 * Invariant: whoever is refused is judged by what became of the regions, and the guest who may by
 * whether he is served.
 */

import { fillIcrc } from '../../../../boards/software/icrc.ts'
import { HANDSHAKES_UNPROVEN, SESSION_US } from '../../../../firmware/board/limits.ts'
import { putU32, u32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type TestPeer,
  type TestRegion,
} from '../../../support/cards/test-card.ts'
import { sentBy } from '../../../support/peers/strangers.ts'
import { closedCard, type Guests, guests } from '../../../support/sessions/closed-card.ts'
import { changed, clearAnswer, Guest } from '../../../support/sessions/guest.ts'
import { NOBODY, WRITER } from '../../../support/sessions/peers.ts'
import {
  asksForTags,
  connectTagged,
  isTagged,
  type TaggedPair,
  tagged,
  taggedPair,
} from '../../../support/sessions/tagged.ts'
import type { Play } from '../killer.ts'
import { firstOf } from './world.ts'

/** The machine of the writer. */
const WRITER_AT = 12
const RECORD = dataOf(64, 1)

/** What the status of the answers to that record says; -1 where nothing is answered. */
function statusOf({ card }: Guests, frames: readonly Uint8Array[]): number {
  const [ack] = persistAcks(card.serve(...frames))
  return ack?.status ?? -1
}

function records(guest: Guest, name: string): TestRegion {
  return guest.openAsIs(name)
}

function framesOf(qp: TestPeer, region: TestRegion, last: number): Uint8Array[] {
  return persistFrames(qp, region, 0, RECORD).map((frame) => sentBy(frame, last))
}

function strangers(): string | null {
  const { writer, admin } = guests()
  for (const attribute of [mad.ATTRIBUTE_OPEN, mad.ATTRIBUTE_COUNTERS, mad.ATTRIBUTE_REMOVE]) {
    const method = attribute === mad.ATTRIBUTE_REMOVE ? mad.METHOD_SET : mad.METHOD_GET
    const name = (body: Uint8Array): void => body.set(Buffer.from('records'), mad.REGION_NAME)
    const answer = writer.inTheClear(method, attribute, name)
    if (answer?.fault !== 'NO_SESSION') return 'a stranger is served'
  }
  const status = writer.inTheClear(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  if (status?.body[mad.PART_ACCESS] !== mad.ACCESS_PEERS) return 'the card says that it is open'
  if (u32(status.body, mad.PART_INCARNATION) !== 0) return 'a stranger is told of the part'
  return admin.openAsIs('records').rkey === 0 ? 'an admin is told no key' : null
}

function calls(): string | null {
  const scene = guests()
  const { card, writer, reader, admin } = scene
  const remove = (body: Uint8Array): void => body.set(Buffer.from('records'), mad.REGION_NAME)
  if (writer.manage(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, remove).fault !== 'FORBIDDEN') {
    return 'a peer does what is an admin’s'
  }
  const frame = admin.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  if (card.serve(frame).length !== 1) return 'an admin is not answered'
  if (card.serve(frame).length !== 0) return 'a sealed call is taken twice'
  const changed = admin.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  changed[changed.length - 200]! ^= 1
  fillIcrc(changed, 0, changed.length)
  if (card.serve(changed).length !== 0) return 'a changed call is answered'
  const other = (body: Uint8Array): void => {
    putU32(body, mad.CONNECT_CLIENT_ID_HIGH, writer.tag)
    putU32(body, mad.CONNECT_CLIENT_QP, 0x333)
    body[mad.CONNECT_PATH_MTU] = 1
  }
  if (reader.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, other).fault === 'PASS') {
    return 'a peer is a client of another one'
  }
  card.now += SESSION_US + 1
  const late = admin.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  return late.fault === 'NO_SESSION' ? null : 'a session that is over is spoken in'
}

function rights(): string | null {
  const scene = guests()
  const { writer, reader, admin } = scene
  const region = records(admin, 'records')
  const own = writer.connect()
  if (statusOf(scene, framesOf(own, region, WRITER_AT)) !== 0) return 'a writer is not served'
  const readers = reader.connect()
  if (statusOf(scene, framesOf(readers, region, 13)) === 0) return 'a reader changes a record'
  const other = records(admin, 'other')
  if (statusOf(scene, framesOf(writer.connect(), other, WRITER_AT)) === 0) {
    return 'a peer changes a region of others'
  }
  if (statusOf(scene, framesOf(admin.connect(), other, 11)) !== 0) return 'an admin is not served'
  return writer.read(writer.connect(), other, 0, 0, RECORD.length) === null
    ? null
    : 'a peer reads a region of others'
}

function tags(): string | null {
  const scene = guests()
  const { card, writer, admin } = scene
  const region = records(admin, 'records')
  const call = writer.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
    asksForTags()(body)
    putU32(body, mad.CONNECT_CLIENT_ID_HIGH, writer.tag)
  })
  const told = (): TaggedPair => {
    const { body } = writer.answerOf(writer.serve(writer.sealed(call)))!
    return taggedPair(body, { peer: 0x555, mtu: 1024 })
  }
  const { qp, tags: ours } = told()
  if (told().qp.number !== qp.number) return 'a call that comes again makes another queue pair'
  const plain = framesOf({ ...qp }, region, WRITER_AT)
  if (card.serve(...plain).length > 0) return 'a packet without a tag is answered'
  const frames = framesOf(qp, region, WRITER_AT).map((frame) => tagged(frame, ours))
  const wrong = frames.map((frame) => {
    const copy = frame.slice()
    copy[copy.length - 5]! ^= 1
    fillIcrc(copy, 0, copy.length)
    return copy
  })
  if (card.serve(...wrong).length > 0) return 'a packet with a wrong tag is answered'
  const answers = card.serve(...frames)
  if (answers.length === 0) return 'a packet with its tag is not answered'
  if (!answers.every(({ bytes }) => isTagged(bytes, ours))) return 'an answer has no tag'
  if (card.serve(...frames).length > 0) return 'a packet is taken twice'
  connectTagged(writer, { client: 9 })
  const late = framesOf(qp, region, WRITER_AT).map((frame) => tagged(frame, ours))
  return card.serve(...late).length > 0 ? 'two clients have one number' : null
}

function floods(): string | null {
  const { card } = closedCard()
  for (let i = 0; i < HANDSHAKES_UNPROVEN; i++) new Guest(card, NOBODY, 50 + i).shake()
  const guest = new Guest(card, WRITER, WRITER_AT)
  const first = guest.firstMessage()
  const refused = clearAnswer(guest.serve(first.frame))
  if (refused?.fault !== 'COOKIE') return 'a flood comes to the curve'
  const cookie = refused.body.slice(0, mad.HANDSHAKE_COOKIE_BYTES)
  const bring = (bytes: Uint8Array): Uint8Array =>
    changed(first.frame, (to) => to.set(bytes, mad.MAD_BODY + mad.HANDSHAKE_COOKIE))
  const wrong = clearAnswer(guest.serve(bring(cookie.map((byte) => byte ^ 1))))
  if (wrong?.fault !== 'COOKIE') return 'a wrong cookie is taken'
  return guest.finish(first, guest.serve(bring(cookie))) === 'PASS' ? null : 'a cookie is not taken'
}

export const SESSIONS: Readonly<Record<string, Play>> = {
  'strangers and a card with peers': strangers,
  'calls in a session': calls,
  'rights by region': rights,
  'packets with tags': () => firstOf(tags),
  'a flood of first messages': floods,
}
