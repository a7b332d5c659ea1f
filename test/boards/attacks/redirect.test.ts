/**
 * What is for a station goes to it, whoever else says in between that he has its Ethernet address.
 * The attacker's frames reach the board before, behind and between those of the victim.
 */

import { expect, test } from 'vitest'
import { CM_REP } from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { sentAs } from '../../support/attacks/address.ts'
import { type Arena, type Client, onEveryBoard, record } from '../../support/attacks/arena.ts'
import { attributesOf, cmClient, cmRequest } from '../../support/attacks/cm-station.ts'
import { callFrame, contentOf, type Station } from '../../support/attacks/station.ts'
import { callOf, readFrame, sentOf } from '../../support/wire/conversation.ts'
import { hexOf, isRoce } from '../../support/wire/frames.ts'

/** READs of the victim under attack. */
const ROUNDS = 20

/** The last port that was published. */
let ports = 7300

/** Bytes of each: four packets. */
const BYTES = 4096

type Forge = (eve: Station, victim: Client) => Uint8Array

/** Frames that say that they come from the victim's Ethernet address. */
const FORGED: readonly [string, Forge][] = [
  ['nothing', (_, { station }) => envelope(station, [8, 0], 20)],
  ['an unknown protocol', (_, { station }) => envelope(station, [0x88, 0xb5], 64)],
  ['an ARP question', (eve, { station }) => arpOf(station, eve.address.ip)],
  ['a control call from another IP address', (eve, { station }) => statusOf(eve, station)],
]

function envelope({ address }: Station, type: number[], length: number): Uint8Array {
  const body = new Uint8Array(length)
  return Uint8Array.from([2, 0, 0, 0, 0, 2, ...address.mac, ...type, ...body])
}

function arpOf({ address: { mac } }: Station, ip: readonly number[]): Uint8Array {
  const asks = [0, 1, 8, 0, 6, 4, 0, 1, ...mac, ...ip, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]
  return Uint8Array.from([255, 255, 255, 255, 255, 255, ...mac, 8, 6, ...asks])
}

function statusOf(eve: Station, { address: { mac } }: Station): Uint8Array {
  const call = callOf(eve.fresh(), mad.METHOD_GET, mad.ATTRIBUTE_STATUS, () => {}, 0)
  return sentAs(callFrame(call), { mac, ip: eve.address.ip })
}

/** What the board said to the victim's queue pair, and that station heard. */
function stolen(eve: Station, { qp }: Client): Uint8Array[] {
  const heard = eve.taken().filter(isRoce)
  return heard.filter((frame) => sentOf(frame).packet.destQp === qp.peer)
}

onEveryBoard((arena) => {
  test.each(FORGED)(
    'R1-S11: %s in the name of a station turns none of its answers away',
    async (_, forge) => {
      const { victim, eve } = await ground(arena())
      for (let round = 0; round < ROUNDS; round++) {
        const frame = forge(eve, victim)
        victim.station.taken()
        eve.sendRaw(frame)
        victim.station.send([readFrame(victim.qp, victim.notes, 5, 0, BYTES)])
        for (let i = 0; i < 8; i++) eve.sendRaw(frame)
        await victim.station.settle()
        await eve.settle()
        const sent = victim.station.taken().filter(isRoce).map(sentOf)
        expect(stolen(eve, victim)).toEqual([])
        expect(hexOf(contentOf(sent, victim.qp)!)).toBe(hexOf(record(5, BYTES)))
      }
    },
  )

  test('R1-S11: nor what the board says later by itself, while the station is silent', async () => {
    const { victim, eve } = await ground(arena())
    const { station } = victim
    await station.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    ports += 1
    expect((await station.publish('bytes', ports)).fault).toBe('PASS')
    // A REQ whose REP is never confirmed: it comes again by itself.
    const req = cmRequest(cmClient(station), ports, station.address, { localTimeout: 10 })
    expect(attributesOf(await station.ask([req]))).toEqual([CM_REP])
    for (const [, forge] of FORGED) eve.sendRaw(forge(eve, victim))
    await eve.settle()
    eve.taken()
    const heard = { victim: [] as number[], eve: [] as number[] }
    while (heard.victim.length + heard.eve.length === 0) {
      await station.settle()
      await eve.settle()
      heard.victim.push(...attributesOf(station.taken().filter(isRoce).map(sentOf)))
      heard.eve.push(...attributesOf(eve.taken().filter(isRoce).map(sentOf)))
    }
    expect(heard.eve).toEqual([])
    expect(heard.victim).toContain(CM_REP)
  })
})

/** A victim that has a record, and an attacker that the board knows. */
async function ground(arena: Arena): Promise<{ victim: Client; eve: Station }> {
  const victim = await arena.client()
  const acks = await victim.station.persist(victim.qp, victim.notes, 5, record(5, BYTES))
  expect(acks).toMatchObject([{ status: 0 }])
  const eve = await arena.station()
  await eve.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  eve.taken()
  return { victim, eve }
}
