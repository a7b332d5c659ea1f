/** Which place of the table a new queue pair gets. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import {
  createQueuePairTable,
  freeNumber,
  HOLD_CONNECTED,
  HOLD_NONE,
  HOLD_RESTING,
  type QueuePair,
  type QueuePairTable,
  STATE_ERROR,
  STATE_OPEN,
} from '../../../firmware/transport/queue-pair.ts'

const SEED = Number(process.env.SEED ?? 1)

/** What stands at a place: nothing, or a queue pair in that state. */
type Place = null | Pick<QueuePair, 'state' | 'hold' | 'used'>

/** How gladly a place is taken: 0 most, Infinity never. */
function rankOf(place: Place): number {
  if (place === null) return 0
  if (place.hold === HOLD_RESTING) return Infinity
  if (place.state === STATE_ERROR) return 1
  return place.hold === HOLD_CONNECTED || place.used ? Infinity : 2
}

function put(table: QueuePairTable, places: readonly Place[], filler: Place): void {
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const place = i < places.length ? places[i]! : filler
    table.places[i] = place as QueuePair | null
  }
}

const PLACE: fc.Arbitrary<Place> = fc.option(
  fc.record({
    state: fc.constantFrom(STATE_OPEN, STATE_ERROR),
    hold: fc.constantFrom(HOLD_NONE, HOLD_CONNECTED, HOLD_RESTING),
    used: fc.boolean(),
  }),
)

const TAKEN: Place = { state: STATE_OPEN, hold: HOLD_CONNECTED, used: true }

test('the next place round the table that is free, else in error, else never used', () => {
  const first = fc.integer({ min: 0, max: QUEUE_PAIRS - 1 })
  const salt = fc.integer({ min: 1, max: 0xffff })
  fc.assert(
    fc.property(fc.array(PLACE, { maxLength: 12 }), first, salt, (places, next, drawnSalt) => {
      const table = { ...createQueuePairTable(), next, salt: drawnSalt }
      put(table, places, TAKEN)
      const best = Math.min(Infinity, ...places.map(rankOf))
      const alike = places.flatMap((place, i) => (rankOf(place) === best ? [i] : []))
      const wanted = alike.find((i) => i >= next) ?? alike[0]
      const number = freeNumber(table)
      if (best === Infinity) expect(number).toBe(-1)
      else expect(number).toBe(drawnSalt * 256 + wanted!)
    }),
    { seed: SEED },
  )
})

test('a number that was given back is not soon given again', () => {
  const table = { ...createQueuePairTable(), salt: 1 }
  put(table, [], null)
  const given = Array.from({ length: 2 * QUEUE_PAIRS }, () => freeNumber(table) & 0xff)
  const round = Array.from({ length: QUEUE_PAIRS }, (_, i) => i)
  expect(given).toEqual([...round, ...round])
})
