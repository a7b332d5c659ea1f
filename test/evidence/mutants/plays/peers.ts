/**
 * The peers of a card that come and go while it serves (R1-S16).
 *
 * Invariant: who comes and who goes is judged by handshakes, by what is served to him, and by the
 * list that the board keeps.
 */

import { DONE, NOT_KEPT } from '../../../../firmware/board/hal.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { dataOf, persistFrames, TestCard } from '../../../support/cards/test-card.ts'
import { Guest } from '../../../support/sessions/guest.ts'
import { KeptPeers } from '../../../support/sessions/kept-peers.ts'
import { ADMIN, IDENTITY, NOBODY, READER, WRITER } from '../../../support/sessions/peers.ts'
import type { Play } from '../killer.ts'

const REGIONS = ['a', 'b', 'c', 'd']

/** Tells the card of one more, whose regions from there on are those. */
function add(admin: Guest, from: number, regions: readonly string[], total: number): string {
  const fill = (body: Uint8Array): void => {
    body.set(NOBODY.public, mad.PEER_KEY)
    body.set(Buffer.from('new'), mad.PEER_NAME)
    body[mad.PEER_REGIONS_TOTAL] = total
    body[mad.PEER_REGIONS_FROM] = from
    body[mad.PEER_REGIONS_HERE] = regions.length
    regions.forEach((region, i) => {
      const at = mad.PEER_FIRST_REGION + i * mad.PEER_REGION_BYTES
      body[at] = mad.PEER_MAY_READ
      body.set(Buffer.from(region), at + mad.PEER_REGION_NAME)
    })
  }
  return admin.manage(mad.METHOD_SET, mad.ATTRIBUTE_ADD_PEER, fill).fault
}

function remove(admin: Guest, key: Uint8Array): string {
  const fill = (body: Uint8Array): void => body.set(key, mad.PEER_KEY)
  return admin.manage(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE_PEER, fill).fault
}

function comesAndGoes(): string | null {
  const kept = new KeptPeers(IDENTITY)
  const card = new TestCard(1 << 20, { peers: kept })
  const admin = new Guest(card, ADMIN, 11).enter()
  admin.format()
  admin.provision()
  kept.refuses = NOT_KEPT
  add(admin, 0, ['a'], 1)
  if (new Guest(card, NOBODY, 14).shake() === 'PASS') return 'somebody comes who is not kept'
  kept.refuses = DONE
  if (add(admin, 0, REGIONS.slice(0, 3), 4) !== 'PASS') return 'nobody is told in parts'
  if (new Guest(card, NOBODY, 14).shake() === 'PASS') return 'somebody comes who is half told'
  if (add(admin, 3, REGIONS.slice(3), 4) !== 'PASS') return 'nobody is told whole'
  if (new Guest(card, NOBODY, 14).shake() !== 'PASS') return 'nobody comes who was added'
  if (remove(admin, ADMIN.public) === 'PASS') return 'the last admin goes'
  return leaves(card, admin)
}

function leaves(card: TestCard, admin: Guest): string | null {
  const writer = new Guest(card, WRITER, 12).enter()
  const region = writer.openAsIs('records')
  const qp = writer.connect()
  const own = admin.connect()
  if (remove(admin, WRITER.public) !== 'PASS') return 'nobody goes'
  const status = writer.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault
  if (status === 'PASS') return 'who was removed has a session'
  const store = (guest: Guest, peer: typeof qp): number => {
    return guest.serve(...persistFrames(peer, region, 0, dataOf(64, 1))).length
  }
  if (store(writer, qp) > 0) return 'who was removed has a queue pair'
  if (store(admin, own) === 0) return 'another queue pair has ended'
  if (new Guest(card, WRITER, 12).shake() === 'PASS') return 'who was removed comes again'
  return new Guest(card, READER, 13).shake() === 'PASS' ? null : 'others do not come any more'
}

export const PEERS: Readonly<Record<string, Play>> = { 'peers that come and go': comesAndGoes }
