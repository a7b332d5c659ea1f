/**
 * Who is told the keys of a region: whoever has a queue pair that was opened from the Ethernet and
 * IP address that asks, and nobody else. R_Key and check-code key of all others are zeros, and the
 * answer is as ever for the rest.
 */

import { describe, expect, test } from 'vitest'
import * as mad from '../../../firmware/wire/management.ts'
import { type Address, overVersion6 } from '../../support/attacks/address.ts'
import { type Arena, NOTES, onEveryBoard } from '../../support/attacks/arena.ts'
import { type Answer, named, type Station } from '../../support/attacks/station.ts'
import { asksFor } from '../../support/wire/conversation.ts'
import { hexOf } from '../../support/wire/frames.ts'

const BYTES = { name: 'bytes', kind: mad.KIND_BYTES, length: 4096 }

/** The next port: a port that is taken is refused, whoever asks. */
let port = 7204

/** Every call whose answer describes a region. */
const CALLS: readonly [string, (station: Station, source: Address) => Promise<Answer>][] = [
  [
    'OPEN',
    (station, source) =>
      station.call(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, named(NOTES.name), { source }),
  ],
  ['REGION', (station, source) => regionAt(station, source, 0)],
  ['PROVISION of what is there', (station, source) => station.provision(BYTES, source)],
  ['PUBLISH', (station, source) => station.publish(BYTES.name, port++, mad.FORM_LIBRPMA, source)],
]

async function regionAt(station: Station, source: Address, modifier: number): Promise<Answer> {
  return await station.call(mad.METHOD_GET, mad.ATTRIBUTE_REGION, undefined, { modifier, source })
}

const KEYS = [
  [mad.REGION_RKEY, 4],
  [mad.REGION_CHECK_KEY, 16],
] as const

/** R_Key and check-code key of an answer, in hexadecimal. */
function keysOf({ fault, body }: Answer): string[] {
  expect(fault).toBe('PASS')
  return KEYS.map(([at, bytes]) => hexOf(body.slice(at, at + bytes)))
}

/** What else it says. */
function restOf({ body }: Answer): string {
  const rest = body.slice()
  for (const [at, bytes] of KEYS) rest.fill(0, at, at + bytes)
  return hexOf(rest)
}

const NOTHING = ['00'.repeat(4), '00'.repeat(16)]

onEveryBoard((arena) => {
  describe('keys', () => describeKeys(arena))
})

function describeKeys(arena: () => Arena): void {
  test.each(CALLS)(
    'R1-S1: a stranger learns no key by %s; who is connected does',
    async (_, ask) => {
      const owner = await arena().client()
      await owner.station.provision(BYTES)
      const told = await ask(owner.station, owner.station.address)
      for (const key of keysOf(told)) expect(key).not.toMatch(/^0+$/)
      const eve = await arena().station()
      const refused = await ask(eve, eve.address)
      expect(keysOf(refused)).toEqual(NOTHING)
      expect(restOf(refused)).toBe(restOf(told))
    },
  )

  test('R1-S1: a stranger who makes a region is not told its keys before he connects', async () => {
    const eve = await arena().station()
    const shape = { name: 'of eve', slots: 1, capacity: 64 }
    const made = await eve.call(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor(shape))
    if (made.fault !== 'UNDER_WAY') expect(keysOf(made)).toEqual(NOTHING)
    expect(keysOf(await eve.provision(shape))).toEqual(NOTHING)
    await eve.connect()
    for (const key of keysOf(await eve.provision(shape))) expect(key).not.toMatch(/^0+$/)
  })

  test.each<[string, (owner: Address, eve: Address) => Address]>([
    ['the Ethernet address alone', ({ mac }, { ip }) => ({ mac, ip })],
    ['the IPv4 address alone', ({ ip }, { mac }) => ({ mac, ip })],
    ['the Ethernet address, over IPv6,', overVersion6],
  ])('R1-S1: %s of a client is not enough to be told keys', async (_, forged) => {
    const { station } = await arena().client()
    const eve = await arena().station()
    const source = forged(station.address, eve.address)
    const frames = [mad.ATTRIBUTE_OPEN, mad.ATTRIBUTE_REGION]
    for (const attribute of frames) {
      const options = { modifier: 0, source }
      const answer = await eve.tryCall(mad.METHOD_GET, attribute, named(NOTES.name), options)
      // Where the card tells the client instead, nobody else has heard it.
      if (answer !== null) expect(keysOf(answer)).toEqual(NOTHING)
    }
  })

  test('R1-S1: who has left is a stranger again', async () => {
    const { station, qp } = await arena().client()
    await station.disconnect(qp)
    for (const [, ask] of CALLS.slice(0, 2)) {
      expect(keysOf(await ask(station, station.address))).toEqual(NOTHING)
    }
  })
}
