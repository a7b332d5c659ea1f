/** Names of regions come from strangers and go to terminals. */

import { describe, expect, test } from 'vitest'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type Arena, onEveryBoard } from '../../support/attacks/arena.ts'
import { named } from '../../support/attacks/station.ts'

/** Names as people choose them, to the last byte of room. */
const GOOD = ['orders', 'Aufträge 2026', '注文', '🦀', '__proto__', 'a/b:c', 'x'.repeat(31)]

onEveryBoard((arena) => {
  describe('names', () => describeNames(arena))
})

function describeNames(arena: () => Arena): void {
  test('R1-S: names as people choose them are taken', async () => {
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
