/**
 * The own host of a card with peers: over PCIe it needs no key and no session, and whoever is on
 * the network is not it, whatever addresses he has and whatever rights (R1-S13, R1-S14).
 */

import { describe, expect, test } from 'vitest'
import * as el from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { sentAs } from '../../support/attacks/address.ts'
import { dataOf, persistFrames, regionOf, type TestRegion } from '../../support/cards/test-card.ts'
import { localQueue, one, readBack, record } from '../../support/queues/local-queue.ts'
import { CardHost, stationOf } from '../../support/queues/queue-calls.ts'
import { elementOf, readying } from '../../support/queues/queue-host.ts'
import { clearAnswer, Guest } from '../../support/sessions/guest.ts'
import { ADMIN, IDENTITY, NOBODY, WRITER } from '../../support/sessions/peers.ts'
import { asksForTags } from '../../support/sessions/tagged.ts'
import { asksFor } from '../../support/wire/conversation.ts'
import { firstDifference } from '../../support/wire/requests.ts'

/** A host behind a card with peers, which it has laid out by itself. */
function laidOut(): { readonly host: CardHost; readonly region: TestRegion } {
  const host = new CardHost(1 << 22, 2, IDENTITY).init(64)
  host.must(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
  const ask = (): { fault: string; body: Uint8Array } =>
    host.manage(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor({}))
  let { fault, body } = ask()
  while (fault === 'UNDER_WAY') ({ fault, body } = ask())
  expect(fault).toBe('PASS')
  return { host, region: regionOf(body) }
}

describe('the own host of a card with peers', () => {
  test('R1-S14: needs no key: it lays the part out, and what it writes peers read', () => {
    const { host, region } = laidOut()
    const queue = localQueue(host)
    const cqe = one(queue, record(queue, region, 3, 1, dataOf(64, 3)))
    expect(cqe).toMatchObject({ status: el.WC_SUCCESS, copies: 2 })
    expect(readBack(queue, region, 3, 0, 64)).toEqual(dataOf(64, 3))
    const writer = new Guest(host.card, WRITER, 12).enter()
    const theirs = writer.openAsIs('records')
    expect(writer.read(writer.connect(), theirs, 3, 0, 64)).toEqual(dataOf(64, 3))
    const frames = persistFrames(writer.connect(), theirs, 4, dataOf(64, 4))
    writer.serve(...frames)
    expect(readBack(queue, region, 4, 0, 64)).toEqual(dataOf(64, 4))
  })
})

/** Addresses that the card, its host or nobody has. */
const OWN = stationOf(2)
const NOTHING = [0, 0, 0, 0, 0, 0]
const V6 = (...end: number[]): number[] => [...new Array<number>(16 - end.length).fill(0), ...end]
const SOURCES: readonly (readonly [string, readonly number[], readonly number[]])[] = [
  ['the card’s own', OWN.mac, OWN.ipv4],
  ['the card’s own of IPv6', OWN.mac, [0xfd, ...V6(2).slice(1)]],
  ['the card’s own, without an Ethernet address', NOTHING, OWN.ipv4],
  ['none at all', NOTHING, [0, 0, 0, 0]],
  ['none at all of IPv6', NOTHING, V6()],
  ['the loopback’s', OWN.mac, [127, 0, 0, 1]],
  ['the loopback’s of IPv6', OWN.mac, V6(1)],
  ['the card’s own, mapped', OWN.mac, V6(0xff, 0xff, ...OWN.ipv4)],
]

const ATTRIBUTES = Object.entries(mad)
  .filter(([name]) => name.startsWith('ATTRIBUTE_'))
  .map(([, number]) => number as number)

describe('whoever is on the network', () => {
  test.each(SOURCES)('R1-S13: with the address %s is not the own host', (_, mac, ip) => {
    const { host } = laidOut()
    const stranger = new Guest(host.card, NOBODY)
    const before = host.card.nvdimm.live.slice()
    const faults = new Set<string>()
    for (const attribute of ATTRIBUTES) {
      for (const method of [mad.METHOD_GET, mad.METHOD_SET]) {
        const frame = sentAs(
          stranger.callFrame(method, attribute, () => {}),
          { mac, ip },
        )
        const answer = clearAnswer(host.card.serve(frame))
        const isStatus = attribute === mad.ATTRIBUTE_STATUS && method === mad.METHOD_GET
        if (answer !== null && !isStatus) faults.add(answer.fault)
      }
    }
    for (const fault of faults) {
      expect(['NO_SESSION', 'HOST_ONLY', 'HANDSHAKE', 'REQUEST']).toContain(fault)
    }
    host.run()
    expect(host.poll(page.QUEUE_GSI_COMPLETION)).toEqual([])
    expect(firstDifference(host.card.nvdimm.live, before)).toBe(-1)
  })

  test('R1-S14: and is an admin, neither takes nor ends a queue pair of the host', () => {
    const { host } = laidOut()
    const qp = host.createQp(host.createCq(16), { type: info.TYPE_CONNECTED, units: 8 })
    const admin = new Guest(host.card, ADMIN, 7).enter()
    const towards = { number: 0x777, mtu: 1024, peerPsn: 5, psn: 6, incarnation: 0 }
    // The host's peer is a queue pair of the very machine that the admin is at.
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, (body) => {
      readying(qp.send, { ...towards, ...stationOf(7) })(body)
    })
    const connects = admin.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
      asksForTags({ peer: towards.number })(body)
      putU32(body, mad.CONNECT_CLIENT_ID_HIGH, admin.tag)
    })
    expect(connects.fault).toBe('PASS')
    expect(u32(connects.body, mad.CONNECT_QP)).not.toBe(qp.number)
    admin.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
      putU32(body, mad.DISCONNECT_QP, qp.number)
      putU32(body, mad.DISCONNECT_CLIENT_QP, towards.number)
    })
    for (const attribute of [mad.ATTRIBUTE_DESTROY, mad.ATTRIBUTE_MODIFY_QP]) {
      expect(admin.manage(mad.METHOD_SET, attribute).fault).toBe('HOST_ONLY')
    }
    host.run()
    expect(host.events()).toEqual([])
    expect(host.zone1(qp.send)).toMatchObject({ state: info.QUEUE_READY, valid: 1 })
    // It speaks on to its peer, from the number that it has.
    const fields = { opcode: WRITE_PERSIST, rkey: 1, operation: 1, wait: 2 }
    host.post(qp.send, elementOf({ ...fields, inline: dataOf(8, 1) }))
    host.ring(qp.send)
    host.run()
    expect(host.card.sent.map(({ packet }) => packet.destQp)).toContain(towards.number)
  })
})
