/**
 * Two cards with the same records: one of them may go away at any moment, permanently, and nothing
 * that was acknowledged, and nothing that anybody has read, is lost.
 */

import { describe, expect, test } from 'vitest'
import { Mirror } from '../../../host-driver/examples/two-cards/mirror.mjs'
import type { ConnectOptions, Region } from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { clientOf, everyPlace, partsLike, SURVIVORS } from '../../support/driver/cut-places.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

const REGION = { name: 'mirror', slots: 4, capacity: 200 }
const CARDS = [0, 1] as const

const openPart = partsLike((dpu) => dpu.provision(REGION))

/** Who is away for longer is given up, ms. */
const GIVE_UP = { reconnectTimeoutMs: 200 }

type Pair<T> = readonly [T, T]

const record = (letter: string): Buffer => Buffer.alloc(150, letter)

/** The letter of a record, of which every byte has to say the same; '-' of none. */
async function letterOf(mirror: Mirror, slot: number): Promise<string> {
  const bytes = await mirror.read(slot)
  if (bytes === null) return '-'
  const letter = String.fromCharCode(bytes[0]!)
  expect(Buffer.from(bytes)).toEqual(record(letter))
  return letter
}

/** The region of a card, for a client of its own. */
async function regionOf(
  local: LocalDpu,
  seed: number,
  options: ConnectOptions = GIVE_UP,
): Promise<Region> {
  return await (await clientOf(local, seed, options)).openRegion(REGION.name)
}

async function twoParts(): Promise<Pair<LocalDpu>> {
  return [await openPart(), await openPart()]
}

async function regionsOf(locals: Pair<LocalDpu>, seed: number, options?: ConnectOptions) {
  const [one, other] = locals
  return [await regionOf(one, seed, options), await regionOf(other, seed + 1, options)] as const
}

/** Records 0 and 1 hold 'a' on both, and record 2 nothing. */
async function filled(regions: Pair<Region>): Promise<Mirror> {
  const mirror = new Mirror(regions)
  for (const slot of [0, 1]) await mirror.write(slot, record('a'))
  return mirror
}

for (const gone of CARDS) {
  const left = gone === 0 ? 1 : 0

  for (const survivors of SURVIVORS) {
    const only = thoroughIf(survivors !== 'alternate-lines')
    const which = `card ${gone}, ${survivors}`

    test(`a card goes away inside a write, permanently: ${which}`, only, async () => {
      const ends = new Set<string>()
      const places = await everyPlace(survivors, async (cut) => {
        const locals = await twoParts()
        const regions = await regionsOf(locals, 2)
        const mirror = await filled(regions)
        cut.arm(locals[gone])
        let isTold = false
        const work = mirror.write(1, record('b')).then(
          () => {
            isTold = true
          },
          () => {},
        )
        await cut.during(work)
        await work
        if (!cut.hasStruck) expect(isTold).toBe(true)

        const alone = mirror.without(regions[gone])
        const found = await letterOf(alone, 1)
        expect(isTold ? ['b'] : ['a', 'b']).toContain(found)
        ends.add(`${isTold}`)
        expect(await letterOf(alone, 0)).toBe('a')
        expect(await letterOf(alone, 2)).toBe('-')
        await alone.write(1, record('c'))
        await alone.write(2, record('d'))

        const next = new Mirror([await regionOf(locals[left], 8)])
        expect(await letterOf(next, 1)).toBe('c')
        expect(await letterOf(next, 2)).toBe('d')
        if (!cut.hasStruck) return

        // It comes back after all: it joins, and then may be the one that is left.
        await cut.end()
        const back = await regionOf(locals[gone], 9)
        await next.join(back)
        const again = new Mirror([back])
        for (const [slot, letter] of ['a', 'c', 'd'].entries()) {
          expect(await letterOf(again, slot)).toBe(letter)
        }
      })
      expect(places).toBeGreaterThan(15)
      expect([...ends].sort()).toEqual(['false', 'true'])
    })

    test(`the program ends with it, and the card comes back: ${which}`, only, async () => {
      await everyPlace(survivors, async (cut) => {
        const locals = await twoParts()
        const mirror = await filled(await regionsOf(locals, 2, { reconnect: false }))
        cut.arm(locals[gone])
        let isTold = false
        const work = mirror.write(1, record('b')).then(
          () => {
            isTold = true
          },
          () => {},
        )
        await cut.during(work)
        await cut.end()

        const regions = await regionsOf(locals, 4)
        const found = await letterOf(new Mirror(regions), 1)
        expect(isTold ? ['b'] : ['a', 'b']).toContain(found)
        // What was read is on either card alone.
        for (const region of regions) expect(await letterOf(new Mirror([region]), 1)).toBe(found)
      })
    })
  }
}

describe('a mirror', () => {
  test('goes on by itself when a card is away for a moment', async () => {
    const locals = await twoParts()
    const mirror = await filled(await regionsOf(locals, 2, {}))
    locals[1].dpu.powerCut({ strategy: 'none' })
    const work = mirror.write(0, record('b'))
    await locals[1].dpu.powerOn()
    await work
    expect(await letterOf(mirror, 0)).toBe('b')
  })

  test('reads nothing while a card does not answer', async () => {
    const locals = await twoParts()
    const regions = await regionsOf(locals, 2)
    const mirror = await filled(regions)
    locals[0].dpu.powerCut({ strategy: 'none' })
    await expect(mirror.read(0)).rejects.toMatchObject({ code: 'PERDURE_UNREACHABLE' })
    expect(await letterOf(mirror.without(regions[0]), 0)).toBe('a')
  })

  test('what only the card that was given up has is below what was written since', async () => {
    const locals = await twoParts()
    const regions = await regionsOf(locals, 2)
    await filled(regions)
    // Programs ended, one after the other, when each had stored one version more on card 0 alone.
    for (const letter of ['b', 'c', 'd']) {
      const { data } = await regions[0].read(1)
      const next = Buffer.concat([data.subarray(0, 8), record(letter)])
      next.writeBigUInt64LE(next.readBigUInt64LE() + 1n)
      await regions[0].persist(1, next).persisted
    }
    const alone = new Mirror([regions[1]])
    await alone.write(1, record('e'))
    const joined = await alone.join(regions[0])
    expect(await letterOf(joined, 1)).toBe('e')
    expect(await letterOf(new Mirror([regions[0]]), 1)).toBe('e')
  })

  test('of two programs that write at once one is last, on both cards', async () => {
    const locals = await twoParts()
    const regions = await regionsOf(locals, 2)
    const mirrors = [new Mirror(regions), new Mirror(regions)]
    await Promise.all(mirrors.map((mirror, i) => mirror.write(3, record('xy'[i]!))))
    const last = await letterOf(mirrors[0]!, 3)
    for (const region of regions) expect(await letterOf(new Mirror([region]), 3)).toBe(last)
  })

  test('the bytes of the call are what is stored', async () => {
    const mirror = await filled(await regionsOf(await twoParts(), 2))
    const bytes = record('b')
    const work = mirror.write(0, bytes)
    bytes.fill('c')
    await work
    expect(await letterOf(mirror, 0)).toBe('b')
  })

  test('has one region, or two', async () => {
    const regions = await regionsOf(await twoParts(), 2)
    expect(() => new Mirror([])).toThrow(RangeError)
    expect(() => new Mirror([...regions, regions[0]])).toThrow(RangeError)
  })
})
