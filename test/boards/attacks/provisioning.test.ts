/** A region of any size is made beside what the board does else, whoever asks, however often. */

import { expect, test } from 'vitest'
import * as mad from '../../../firmware/wire/management.ts'
import { type Arena, onEveryBoard, record } from '../../support/attacks/arena.ts'
import { allAs, callFrame, type Station } from '../../support/attacks/station.ts'
import { asksFor, callOf } from '../../support/wire/conversation.ts'
import { hexOf } from '../../support/wire/frames.ts'

/** A part that is large for what it is asked, bytes. */
const PART_BYTES = 16 << 20
/** READs that are answered while the region is made, at least. */
const ANSWERED = 3

const HUGE = { name: 'huge', slots: 40_000, capacity: 64, copies: 2 }

/** What the board is at: 0 nothing. */
async function workOf(station: Station): Promise<number> {
  const body = await station.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  return body[mad.PART_WORK]!
}

onEveryBoard(
  (arena) => {
    test('R1-A3: a huge region is made while others are answered', async () => {
      await answeredMeanwhile(arena(), 1)
    })

    test('R1-A3: nor does anybody wait where it is asked for without an end', async () => {
      await answeredMeanwhile(arena(), 64)
    })
  },
  { bytes: PART_BYTES },
)

/** A stranger asks for the region so often at once; a client reads until it is made. */
async function answeredMeanwhile(arena: Arena, times: number): Promise<void> {
  const { station, qp, notes } = await arena.client()
  expect(await station.persist(qp, notes, 7, record(7))).toMatchObject([{ status: 0 }])
  const eve = await arena.station()
  const shape = { ...HUGE, name: `huge ${times}` }
  const ask = (): Uint8Array =>
    callFrame(callOf(eve.fresh(), mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor(shape), 0))
  const all = (): Generator<Uint8Array> => allAs(Array.from({ length: times }, ask), eve.address)
  let answered = 0
  await eve.flood(all())
  while ((await workOf(station)) !== 0) {
    const content = await station.read(qp, notes, 7, 64)
    expect(hexOf(content!)).toBe(hexOf(record(7)))
    if ((await workOf(station)) !== 0) answered += 1
    await eve.flood(all())
  }
  expect(answered).toBeGreaterThanOrEqual(ANSWERED)
  expect((await eve.provision(shape)).fault).toBe('PASS')
  await eve.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => asksFor(shape)(body))
  while ((await workOf(station)) !== 0) await station.settle()
}
