/**
 * Frames whose source no station can have: a group of Ethernet, a group or everybody of IPv4, a
 * group of IPv6. Nobody is answered, or everybody would be; each is counted.
 */

import { expect, test } from 'vitest'
import * as mad from '../../../firmware/wire/management.ts'
import { type Address, overVersion6, sentAs } from '../../support/attacks/address.ts'
import { type Arena, NOTES, onEveryBoard, someone } from '../../support/attacks/arena.ts'
import { callFrame, named, type Station } from '../../support/attacks/station.ts'
import { callOf, readFrame, type TestPeer } from '../../support/wire/conversation.ts'

/** Bystanders: whoever the board knows, and who hears what goes to a group. */
const BYSTANDERS = 3

type Forged = (own: Address) => Address

const macOf =
  (...mac: number[]): Forged =>
  ({ ip }) => ({ mac, ip })
const ipOf =
  (...ip: number[]): Forged =>
  ({ mac }) => ({ mac, ip })
const ipv6Group = (scope: number): Forged => {
  const ip = [0xff, scope, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
  return ({ mac }) => ({ mac, ip })
}

const SOURCES: readonly [string, Forged][] = [
  ['Ethernet to everybody', macOf(0xff, 0xff, 0xff, 0xff, 0xff, 0xff)],
  ['a group of Ethernet', macOf(1, 0, 0x5e, 0, 0, 1)],
  ['a group of Ethernet for IPv6', macOf(0x33, 0x33, 0, 0, 0, 1)],
  ['a group of Ethernet, administered here', macOf(3, 0, 0, 0, 0, 1)],
  ['a group of Ethernet, over IPv6', (own) => ({ ...overVersion6(own), mac: [1, 0, 0, 0, 0, 1] })],
  ['the first group of IPv4', ipOf(224, 0, 0, 1)],
  ['the last group of IPv4', ipOf(239, 255, 255, 255)],
  ['everybody of IPv4', ipOf(255, 255, 255, 255)],
  ['a group of IPv6 on the link', ipv6Group(2)],
  ['a group of IPv6 everywhere', ipv6Group(0xe)],
]

/** What such a frame may ask; each would be answered. */
function requests(eve: Station, qp: TestPeer, rkey: number): Uint8Array[] {
  const call = (method: number, attribute: number): Uint8Array =>
    callFrame(callOf(eve.fresh(), method, attribute, named(NOTES.name), 0))
  return [
    call(mad.METHOD_GET, mad.ATTRIBUTE_STATUS),
    call(mad.METHOD_GET, mad.ATTRIBUTE_OPEN),
    readFrame({ ...qp }, rkey, 0, 0, 4096),
  ]
}

onEveryBoard((arena) => {
  test.each(SOURCES)(
    'R1-S10: a frame from %s is dropped, counted, and answered to nobody',
    async (_, forged) => {
      const crowd = await Promise.all(Array.from({ length: BYSTANDERS }, () => arena().station()))
      for (const one of crowd) await one.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
      const { station: eve, qp, notes } = await arena().client()
      const frames = requests(eve, qp, notes.rkey).map((frame) =>
        sentAs(frame, forged(eve.address)),
      )
      const before = await dropped(arena())
      for (const one of [...crowd, eve]) one.taken()
      eve.sendRaw(...frames)
      for (const one of [eve, ...crowd]) await one.settle()
      for (const one of [...crowd, eve]) expect(one.taken()).toEqual([])
      expect((await dropped(arena())) - before).toBe(frames.length)
    },
  )

  test('R1-S10: nor is who asks from such an address for a neighbour', async () => {
    const crowd = await Promise.all(Array.from({ length: BYSTANDERS }, () => arena().station()))
    for (const one of crowd) await one.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    const [eve] = crowd
    for (const one of crowd) one.taken()
    for (const mac of [
      [0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
      [1, 0, 0x5e, 0, 0, 1],
    ]) {
      eve!.sendRaw(whoHas(mac))
    }
    for (const one of crowd) await one.settle()
    for (const one of crowd) expect(one.taken()).toEqual([])
  })
})

/** ARP: who has the card's address? It is asked by that Ethernet address. */
function whoHas(mac: readonly number[]): Uint8Array {
  const { ip } = someone()
  return Uint8Array.from([
    ...[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ...mac, 0x08, 0x06],
    ...[0, 1, 8, 0, 6, 4, 0, 1, ...mac, ...ip, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2],
  ])
}

/** Frames that were dropped because of their source. */
async function dropped(arena: Arena): Promise<number> {
  const counters = await (await arena.station()).counters()
  return counters.get('GROUP_SOURCE') ?? 0
}
