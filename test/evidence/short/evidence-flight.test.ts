/**
 * What a board did in Node is put on a tape and played to the bundle in QuickJS (C9): it is the
 * same, and the player notices what is not.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { findBundle } from '../../../boards/emulator/run/bundle.ts'
import { COMMANDS_AT, OWNER } from '../../../firmware/board/hal.ts'
import { ColdGuest } from '../../support/cards/cold-guest.ts'
import { dataOf, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { FlightRecorder } from '../coverage/flight-recorder.ts'
import { decode, encode, type Recorded, RUN } from '../coverage/flight-tape.ts'
import { play } from '../coverage/guest/guest-player.ts'

/** The bundle whose every list has another mark on its first command. */
const MARKED = `${findBundle().source}
;((start) => {
  globalThis.perdure = { start: ({ facts, memory, run }) => {
    const words = new Float64Array(memory, ${COMMANDS_AT})
    return start({ facts, memory, run: (count) => { words[${OWNER}] += 1; return run(count) } })
  } }
})(perdure.start)`

interface Marks {
  __hits: Uint8Array
  __hit(branch: number): void
}

const marks = globalThis as unknown as Marks
let guest: ColdGuest

beforeAll(async () => {
  guest = await ColdGuest.evaluate()
})

afterAll(() => guest.dispose())

/** Records of all sizes, reads and a restart, with a branch taken in the last call. */
function record(): Recorded[] {
  marks.__hits = new Uint8Array(1)
  const recorder = new FlightRecorder(new Uint8Array(1))
  try {
    const card = new TestCard(1 << 20)
    card.format()
    const region = card.provision({ slots: 8, capacity: 9000 })
    const qp = card.connect()
    for (let i = 0; i < 8; i++) {
      card.serve(...persistFrames(qp, region, i, dataOf(1000 * i, i)))
      card.idle()
    }
    recorder.enter(() => marks.__hit(0))
    card.idle()
    return recorder.tapes
  } finally {
    recorder.stop()
  }
}

test('a tape of a card is played by the bundle, list by list', () => {
  const tapes = record()
  expect(tapes).toHaveLength(1)
  const played = play(guest, decode(encode(tapes[0]!)))
  expect(played.differs).toBeNull()
  expect(played.calls).toBeGreaterThan(16)
  expect(played.lists).toBeGreaterThan(16)
})

test('another command list is noticed, and so is another bundle', async () => {
  const [tape] = record()
  const numbers = tape!.numbers.slice()
  numbers[numbers.lastIndexOf(RUN) + 2]! ^= 1
  const altered = await ColdGuest.evaluate()
  expect(play(altered, { ...tape!, numbers }).differs).toContain('other commands')
  const marked = await ColdGuest.evaluate({ source: MARKED })
  expect(play(marked, tape!).differs).toContain('list 0 in call 0 has other commands')
})
