/** Clients without sessions, at a card with peers: what they get, and what they take (R1-S14). */

import { CLIENTS } from '../../../../firmware/board/limits.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { ackStatuses, dataOf, persistFrames } from '../../../support/cards/test-card.ts'
import { persists, reads } from '../../../support/sessions/asks.ts'
import { ADMIN_2, guests } from '../../../support/sessions/closed-card.ts'
import { Guest } from '../../../support/sessions/guest.ts'
import { connectStock, ipv4, publishStock } from '../../../support/sessions/stock.ts'
import type { Play } from '../killer.ts'

const SPEAKS = { block: { clientHigh: 5, clientLow: 7 } }

function ports(): string | null {
  const { card, admin } = guests()
  if (publishStock(admin, 'bytes', { flags: 0 }) === 'PASS') return 'what nobody said is published'
  publishStock(admin, 'bytes', { sources: [[ipv4(8), 126]], connections: 1 })
  if (connectStock(card, { last: 12 }).reason === 0) return 'who is not named may connect'
  const first = connectStock(card, { last: 9 })
  if (first.reason !== 0) return 'who is named may not connect'
  if (connectStock(card, { last: 10 }).reason === 0) return 'a port takes more than it may'
  const region = admin.openAsIs('bytes')
  reads(first, first.qp, { ...region, rkey: region.rkey ^ 0x10000 })
  if (connectStock(card, { last: 10 }).reason !== 0) return 'who has failed takes the room'
  return null
}

function admins(): string | null {
  const { card, admin } = guests()
  publishStock(admin, 'bytes')
  const second = new Guest(card, ADMIN_2, 12).enter()
  publishStock(second, '', { form: mad.FORM_NONE, flags: 0 })
  return connectStock(card).reason === 0 ? 'an admin cannot withdraw what another offers' : null
}

function records(): string | null {
  const { card, admin, writer } = guests()
  const region = admin.openAsIs('records')
  publishStock(admin, 'records')
  const stock = connectStock(card, SPEAKS)
  if (persists(card, stock.qp, region)[0] !== 0) return 'who came to a port is not served'
  if (persists(writer, writer.connect(), region).length > 0) return 'a session writes there, too'
  publishStock(admin, '', { form: mad.FORM_NONE })
  if (persists(card, stock.qp, region).length > 0) return 'who came to a port stays behind its end'
  return persists(writer, writer.connect(), region)[0] === 0 ? null : 'a session is not served'
}

function forgotten(): string | null {
  const { card, admin, writer } = guests()
  publishStock(admin, 'other')
  const [region, other] = [admin.openAsIs('records'), admin.openAsIs('other')]
  const qp = writer.connect(4096, 0, 7)
  if (persists(writer, qp, region)[0] !== 0) return 'a session is not served'
  for (let i = 1; i < 2 * CLIENTS; i++) {
    const eve = connectStock(card, { block: { clientHigh: 5, clientLow: i }, n: i & 63 })
    persists(card, eve.qp, other)
    eve.leave()
    card.now += 3_000_000
    card.idle()
  }
  const again = { operation: qp.operation, repetition: true }
  const frames = persistFrames(qp, region, 1, dataOf(64, 1), again)
  return ackStatuses(writer.serve(...frames))[0] === 0 ? null : 'a client of a peer is forgotten'
}

export const STOCK: Readonly<Record<string, Play>> = {
  'ports for clients without sessions': ports,
  'ports of other admins': admins,
  'records of clients without sessions': records,
  'clients of nobody': forgotten,
}
