/**
 * Others who speak to a card: what they are told, and what they end or point elsewhere (R1-S).
 *
 * Invariant: whatever a stranger sends, the client that was there first is judged: what it is told,
 * and whether its record is stored.
 */

import { RANDOM_AT, RANDOM_BYTES, RANDOM_KEY_BYTES } from '../../../../firmware/board/memory-map.ts'
import { putU16, putU32, u32 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { dataOf, persistAcks, persistFrames } from '../../../support/cards/test-card.ts'
import { Stranger } from '../../../support/peers/strangers.ts'
import { writeIcrc } from '../../../support/wire/frames.ts'
import type { Play } from '../killer.ts'
import { firstOf, World } from './world.ts'

const EVE = 66
const PORT = 7204
const STATION = [2, 0x66, 0x66, 0, 0, 1]
const ETHERNET_SOURCE = 6

const isZero = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0)

/** The frame as another station sends it. */
function fromElsewhere(frame: Uint8Array): Uint8Array {
  const copy = frame.slice()
  copy.set(STATION, ETHERNET_SOURCE)
  writeIcrc(copy)
  return copy
}

function keys(): string | null {
  const { card } = new World()
  const eve = new Stranger(card, EVE)
  const told = eve.openAsIs('records')
  if (told.rkey !== 0 || !isZero(told.key)) return 'a stranger is told keys'
  const mine = card.openAsIs('records')
  if (mine.rkey === 0 || isZero(mine.key)) return 'a client is not told keys'
  const asks = card.callFrame(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => {
    body.set(Buffer.from('records'), mad.REGION_NAME)
  })
  const [answer] = card.serve(fromElsewhere(asks))
  const key = u32(answer!.payload, mad.MAD_BODY + mad.REGION_RKEY)
  return key === 0 ? null : 'keys go to who forges an address'
}

/** A card with a client that a stranger tries to harm, and what became of it. */
function harmed(attack: (world: World, eve: Stranger) => string | null): string | null {
  const world = new World()
  const { card, qp, records } = world
  const found = attack(world, new Stranger(card, EVE))
  if (found !== null) return found
  const acks = persistAcks(card.serve(...persistFrames(qp, records, 0, dataOf(64, 1))))
  return acks.some(({ status }) => status === 0) ? null : 'the client is not served any more'
}

function told({ card, qp }: World, eve: Stranger): string | null {
  const asks = (body: Uint8Array): void => {
    putU32(body, mad.CONNECT_CLIENT_QP, qp.peer)
    putU16(body, mad.CONNECT_PATH_MTU, qp.mtu)
    putU32(body, mad.CONNECT_CLIENT_ID_LOW, 7)
  }
  const elsewhere = eve.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, asks)
  if (u32(elsewhere, mad.CONNECT_QP) === qp.number) return 'a stranger is told a connection'
  const frame = card.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, asks)
  const [answer] = card.serve(fromElsewhere(frame))
  const number = u32(answer!.payload, mad.MAD_BODY + mad.CONNECT_QP)
  return number === qp.number ? 'who forges an address is told a connection' : null
}

function ended({ qp }: World, eve: Stranger): string | null {
  eve.disconnect(qp)
  return null
}

function ports(): string | null {
  const { card } = new World()
  const ask = (who: Pick<Stranger, 'manage'>, name: string, form: number): string =>
    who.manage(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, (body) => {
      body.set(Buffer.from(name), mad.REGION_NAME)
      putU16(body, mad.PUBLISH_PORT, PORT)
      body[mad.PUBLISH_FORM] = form
    }).fault
  const eve = new Stranger(card, EVE)
  ask(card, 'records', mad.FORM_CAPABILITY)
  if (ask(eve, 'bytes', mad.FORM_CAPABILITY) === 'PASS') return 'a port is pointed elsewhere'
  if (ask(eve, '', mad.FORM_NONE) === 'PASS') return 'a port is withdrawn by a stranger'
  return ask(card, '', mad.FORM_NONE) === 'PASS' ? null : 'a port is kept from its publisher'
}

/** The block of the generator, behind every draw of several refills. */
function generator(): string | null {
  const { card } = new World()
  const { packets } = card.machine
  const block = (): Buffer => Buffer.from(packets.slice(RANDOM_AT, RANDOM_AT + RANDOM_BYTES))
  const keysSeen = new Set<string>()
  const psns = new Set<number>()
  for (let i = 0; i < 60; i++) {
    const qp = card.connect(256, 0, 100 + i)
    psns.add(qp.psn)
    card.disconnect(qp)
    const now = block()
    keysSeen.add(now.toString('hex', 0, RANDOM_KEY_BYTES))
    for (let at = RANDOM_KEY_BYTES; at < RANDOM_BYTES; at += 4) {
      if ((now.readUInt32LE(at) & 0xffffff) === qp.psn) return 'a number that was given is kept'
    }
  }
  if (keysSeen.size < 3) return 'the key is not replaced'
  return psns.size < 60 ? 'a PSN comes twice' : null
}

/** Number and place of queue pairs that follow one another, in two lives. */
function numbers(): string | null {
  const { card } = new World()
  const given: number[] = []
  for (let i = 0; i < 40; i++) given.push(card.connect(256, 0, 100 + i).number)
  const places = given.map((number) => number & 0xff)
  const rising = places.filter((place, i) => place === ((places[i - 1] ?? -9) + 1) % 256)
  if (rising.length > 10) return 'places follow one another'
  return new Set(given.map((number) => number >> 8)).size < 30 ? 'numbers are not drawn' : null
}

export const STRANGERS: Readonly<Record<string, Play>> = {
  'keys and strangers': keys,
  'connections and strangers': () =>
    firstOf(
      () => harmed(told),
      () => harmed(ended),
    ),
  'ports and strangers': ports,
  'the generator': () => firstOf(generator, numbers),
}
