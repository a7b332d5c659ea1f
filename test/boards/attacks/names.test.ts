/**
 * Names of regions come from strangers and go to terminals: what is no printable UTF-8 is refused,
 * and nothing is made.
 */

import { describe, expect, test } from 'vitest'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type Arena, onEveryBoard } from '../../support/attacks/arena.ts'
import { named, type Station } from '../../support/attacks/station.ts'
import { asksFor } from '../../support/wire/conversation.ts'

const text = (name: string): Uint8Array => new TextEncoder().encode(name)
const control = (code: number): Uint8Array => text(`a${String.fromCodePoint(code)}b`)

/** Every control of ASCII but the one that ends a name, and those behind it. */
const CONTROLS: Uint8Array[] = [
  ...Array.from({ length: 31 }, (_, i) => control(i + 1)),
  ...Array.from({ length: 33 }, (_, i) => control(0x7f + i)),
]

const TERMINAL: Uint8Array[] = [
  '\x1b]0;title\x07',
  '\x1b[31mred',
  'a\nlost 9999',
  '\r',
  '\u009b2J',
].map(text)

/** Bytes that are no UTF-8: alone, cut short, too long, halves of pairs, beyond its end. */
const NO_UTF8: Uint8Array[] = [
  ...[[0xff, 0xfe], [0x80], [0x41, 0xbf], [0xc3], [0xe2, 0x82], [0xf0, 0x9f, 0x98]],
  ...[
    [0xc0, 0xaf],
    [0xc1, 0x81],
    [0xe0, 0x80, 0xaf],
    [0xf0, 0x80, 0x80, 0xaf],
  ],
  ...[
    [0xed, 0xa0, 0x80],
    [0xed, 0xbf, 0xbf],
    [0xf4, 0x90, 0x80, 0x80],
    [0xf8, 0x88, 0x80, 0x80],
  ],
].map((bytes) => Uint8Array.from(bytes))

const KINDS: [string, Uint8Array[]][] = [
  ['controls', CONTROLS],
  ['what terminals obey', TERMINAL],
  ['bytes that are no UTF-8', NO_UTF8],
]

/** Names as people choose them, to the last byte of room. */
const GOOD = ['orders', 'Aufträge 2026', '注文', '🦀', '__proto__', 'a/b:c', 'x'.repeat(31)]

onEveryBoard((arena) => {
  describe('names', () => describeNames(arena))
})

async function regionsOf(station: Station): Promise<number> {
  const body = await station.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  return body[mad.PART_REGIONS]!
}

function describeNames(arena: () => Arena): void {
  test.each(KINDS)('R1-S9: names with %s are refused, and nothing is made', async (_, names) => {
    const eve = await arena().station()
    const before = await regionsOf(eve)
    for (const name of names) {
      const { fault } = await eve.call(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, (body) => {
        asksFor({ name: '', slots: 1, capacity: 64 })(body)
        named(name)(body)
      })
      expect([Buffer.from(name).toString('hex'), fault]).not.toContain('PASS')
      expect([Buffer.from(name).toString('hex'), fault]).not.toContain('UNDER_WAY')
      expect(await regionsOf(eve)).toBe(before)
    }
    expect((await arena().content(0, 1)) !== null).toBe(true)
  })

  test('R1-S9: names as people choose them are taken', async () => {
    const client = await arena().station()
    await client.connect()
    for (const name of GOOD) {
      expect((await client.provision({ name, slots: 1, capacity: 64 })).fault).toBe('PASS')
      const region = await client.region(name)
      expect(region.name).toBe(name)
      expect(u32(region.key, 0)).not.toBe(0)
      await client.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, named(name))
    }
  })
}
