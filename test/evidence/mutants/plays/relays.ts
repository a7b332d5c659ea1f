/**
 * A card that relays to another in a session there, and whoever is on the path between the two
 * (R1-S13, D-6).
 *
 * Invariant: what went on is judged by what the other card has, and by what was acknowledged.
 */

import { EVENT_CONNECTED } from '../../../../firmware/connect/active.ts'
import { startEntering } from '../../../../firmware/connect/entering.ts'
import { ETHERNET_BYTES } from '../../../../firmware/wire/ethernet.ts'
import { IPV4_BYTES } from '../../../../firmware/wire/ipv4.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { dataOf, persistAcks, persistFrames } from '../../../support/cards/test-card.ts'
import { describesRegion, FarEnd, grantsPair } from '../../../support/sessions/far-end.ts'
import { changed, payloadAt } from '../../../support/sessions/guest.ts'
import { fromElsewhere, InsideWire } from '../../../support/sessions/relay-inside.ts'
import type { Play } from '../killer.ts'

/** An operation of each client. */
const OPERATION = 77

/** Does that client persist its record over there, by a relay of its own? */
function persists(wire: InsideWire, name: string, client: number, slot: number): boolean {
  if (wire.enter({ name, region: 'far', client }) !== 'PASS') return false
  const qp = wire.hostA.connect(4096, 0, client)
  const region = { rkey: wire.hostA.open(name).rkey }
  const options = { operation: OPERATION, repetition: client > 7 }
  const before = wire.heard.length
  wire.serve(...persistFrames(qp, region, slot, dataOf(100, slot), options))
  wire.pass(100)
  const [ack] = persistAcks(wire.heard.slice(before))
  return ack?.status === 0 && holds(wire, slot)
}

function holds({ hostB }: InsideWire, slot: number): boolean {
  const found = hostB.read(hostB.connect(4096), hostB.open('far'), slot, 0, 100)
  return found !== null && Buffer.from(found).equals(dataOf(100, slot))
}

/** Two clients have one operation each, of one number; the second says that it repeats. */
function clients(): string | null {
  const wire = new InsideWire()
  if (!persists(wire, 'one', 7, 1)) return 'no record goes on'
  return persists(wire, 'two', 8, 2) ? null : 'a client has the operation of another'
}

function isSealed(frame: Uint8Array): boolean {
  const at = ETHERNET_BYTES + IPV4_BYTES + 8
  return frame.length > at + mad.MAD_BYTES && mad.isSealed(frame, payloadAt(frame))
}

/** Each sealed answer comes changed first, and then as it was. */
function forgers(): string | null {
  const wire = new InsideWire()
  wire.toNear = (frame) => {
    if (!isSealed(frame)) return [frame]
    return [changed(frame, (payload) => (payload[mad.MAD_BODY + 40]! ^= 1)), frame]
  }
  return persists(wire, 'one', 7, 1) ? null : 'a forged answer is believed'
}

/** Every answer comes from another address. */
function elsewhere(): string | null {
  const wire = new InsideWire()
  wire.toNear = (frame) => [fromElsewhere(frame)]
  return wire.enter() === 'CONNECTING' ? null : 'an answer from elsewhere is believed'
}

/** The other card grants a queue pair whose packets have no tags. */
function tagless(): string | null {
  const far = new FarEnd()
  far.entering = startEntering(far.options, 0)
  far.bring(far.second(far.newest()))
  far.bring(far.sealed(far.opened(far.newest()), describesRegion))
  const grants = (body: Uint8Array): void => {
    grantsPair(body)
    body[mad.CONNECT_TAGS] = 0
  }
  const event = far.bring(far.sealed(far.opened(far.newest()), grants))
  return event === EVENT_CONNECTED ? 'a relay speaks without tags' : null
}

export const RELAYS: Readonly<Record<string, Play>> = {
  'clients of a relay in a session': clients,
  'forgers on the path of a relay': forgers,
  'answers to a relay from elsewhere': elsewhere,
  'a relay without tags': tagless,
}
