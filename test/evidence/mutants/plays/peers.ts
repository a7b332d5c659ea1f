/**
 * The peers of a card that come and go while it serves (R1-S16).
 *
 * Invariant: who comes and who goes is judged by handshakes, by what is served to him, and by the
 * list that the board keeps.
 */

import { DONE, NOT_KEPT } from '../../../../firmware/board/hal.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { dataOf, persistFrames, type TestCard } from '../../../support/cards/test-card.ts'
import { Guest } from '../../../support/sessions/guest.ts'
import { add, keeping, NEW, type Right, remove } from '../../../support/sessions/peer-calls.ts'
import { ADMIN, READER, WRITER } from '../../../support/sessions/peers.ts'
import type { Play } from '../killer.ts'

const REGIONS = [...'abcd'].map((name): Right => [mad.PEER_MAY_READ, name])

function comesAndGoes(): string | null {
  const { kept, card, admin } = keeping()
  kept.refuses = NOT_KEPT
  add(admin, { rights: 1 })
  if (new Guest(card, NEW, 14).shake() === 'PASS') return 'somebody comes who is not kept'
  kept.refuses = DONE
  if (add(admin, { total: 4, regions: REGIONS.slice(0, 3) }) !== 'PASS')
    return 'nobody is told in parts'
  if (new Guest(card, NEW, 14).shake() === 'PASS') return 'somebody comes who is half told'
  if (add(admin, { total: 4, from: 3, regions: REGIONS.slice(3) }) !== 'PASS')
    return 'nobody is told whole'
  if (new Guest(card, NEW, 14).shake() !== 'PASS') return 'nobody comes who was added'
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
