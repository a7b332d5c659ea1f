/**
 * The short cut of the fuzzing: nobody objects, and what has to be met is met; and the judges
 * notice: a card without fences, a store that nobody was given, a command of no sense, a bundle
 * that does something else.
 */

import { describe, expect, test } from 'vitest'
import { FENCE, SKIP } from '../../../firmware/board/hal.ts'
import { WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import type { TestRegion } from '../../support/cards/test-card.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { SEEDS } from '../fuzz/corpus.ts'
import { Ledger } from '../fuzz/ledger.ts'
import { type Episode, fuzzOnce, openEpisode, TARGETS } from '../fuzz/play.ts'
import { openGuestEpisode } from '../fuzz/quickjs.ts'
import { type Step, scriptOf, scriptText, shrunk } from '../fuzz/script.ts'
import { FUZZ } from '../fuzz/stage.ts'
import { missed, playAll } from '../stage.ts'

const SEED = 20_266
/** No operation has that number. */
const NO_COMMAND = 99

test('C5: inputs nobody should send: nothing escapes, every refusal is met', THOROUGH, async () => {
  const total = await playAll(FUZZ, 'cut', SEED)
  expect(total.described).toEqual([])
  expect(total.violations).toBe(0)
  expect(missed(FUZZ, total, 'cut')).toEqual([])
  expect(FUZZ.lacks!(total, 'cut')).toEqual([])
  expect(total.more['power cuts behind an acknowledgement']).toBeGreaterThan(10)
})

test('what was not met is named', () => {
  const nothing = new Ledger('packets', 'none').tally()
  expect(FUZZ.lacks!(nothing, 'cut')).toContain('no frame had opcode 0xca')
  expect(FUZZ.lacks!(nothing, 'cut')).toContain('nothing was refused for BATCH_ROOM')
})

test.each(TARGETS)('%s: the same seed plays the same inputs', (target) => {
  const inputs = target === 'media' ? 24 : 800
  if (target === 'lengths') return
  expect(fuzzOnce(target, 7, inputs)).toEqual(fuzzOnce(target, 7, inputs))
})

describe('the judges notice', () => {
  const complaintOf = (episode: Episode, inputs: number): string => {
    episode.run(inputs)
    return episode.arena.world.complaint
  }

  test('an acknowledgement of durability without fences', () => {
    const episode = openEpisode('dialogues', 3)
    const replace = (_: number, op: number): number => (op === FENCE ? SKIP : op)
    episode.arena.world.machine.observe({ replace })
    episode.arena.arm()
    expect(complaintOf(episode, 4000)).toMatch(/a cut behind an acknowledgement|a cut has lost it/)
  })

  test('a store that nobody was given', () => {
    const episode = openEpisode('packets', 4)
    const { areas } = episode.arena.world.authority
    for (const [rkey, { layout }] of areas) if (layout.name === 'bytes') areas.delete(rkey)
    expect(complaintOf(episode, 20_000)).toMatch(/which nobody was given/)
  })

  test('bytes that are stored by WRITE_PERSIST, unless that names them by their address', () => {
    const stored = (region: TestRegion, flags: object): { complaint: string; first: number } => {
      const { arena } = openEpisode('packets', 4)
      const { number, psn } = arena.pairs[0]!
      const frame = frameOf({
        bth: { opcode: WRITE_PERSIST_ONLY, destQp: number, psn, ackRequest: true },
        reth: { vaHigh: region.baseHigh, vaLow: 0, rkey: region.rkey, length: 64 },
        pweth: { wait: 1, wantsAck: true, operationLow: 7, ...flags },
        payload: new Uint8Array(64).fill(0x5a),
      })
      for (const kind of ['serve', 'rest'] as const) {
        if (kind === 'serve') arena.apply({ kind: 'frame', bytes: frame })
        arena.apply({ kind })
      }
      const { part, authority, complaint } = arena.world
      return { complaint, first: part.live[authority.areas.get(region.rkey)!.layout.at]! }
    }
    const { durable, bytes } = openEpisode('packets', 4).arena.regions
    expect(stored(durable, {})).toEqual({ complaint: '', first: 0x5a })
    expect(stored(durable, { slotAddressed: true })).toEqual({ complaint: '', first: 0 })
    expect(stored(bytes, {})).toEqual({ complaint: '', first: 0 })
  })

  test('a command of no sense', () => {
    const episode = openEpisode('dialogues', 5)
    episode.arena.world.machine.observe({ replace: (_, op) => (op === FENCE ? NO_COMMAND : op) })
    expect(complaintOf(episode, 4000)).toMatch(/a command of no sense|only memory that exists/)
  })

  test('an exception', () => {
    const episode = openEpisode('dialogues', 6)
    const onCommand = (): void => {
      throw new Error('on purpose')
    }
    episode.arena.world.machine.observe({ onCommand })
    expect(complaintOf(episode, 4000)).toMatch(/the firmware threw: Error: on purpose/)
  })

  test('a bundle that stores something else', async () => {
    const { episode } = await openGuestEpisode(8)
    episode.arena.world.machine.nvdimm.live[50_000]! ^= 1
    expect(complaintOf(episode, 200)).toMatch(/QuickJS and Node have stored other bytes/)
  })
})

describe('a violation', () => {
  test('is played again from one line, and told', async () => {
    const steps: Step[] = [{ kind: 'good' }, { kind: 'serve' }, { kind: 'rest' }]
    const { violated, text } = await FUZZ.replay(`packets/3/${scriptText(steps)}`)
    expect(violated).toBe(false)
    expect(text).toContain('a good client writes its next record')
    expect(text).toMatch(/<- .*PERSIST_ACK/)
    expect((await FUZZ.replay('work/3/50')).text).toContain('Nobody objects.')
    expect((await FUZZ.replay('quickjs/3/50')).text).toContain('Nobody objects.')
  })

  test('is none where a record was refused, and a later one is durable', async () => {
    const medium = (value: number): Step => ({ kind: 'medium', what: 'armed', value })
    const [arm, good, serve]: Step[] = [{ kind: 'arm' }, { kind: 'good' }, { kind: 'serve' }]
    const steps: Step[] = [medium(0), arm!, good!, serve!, medium(1), good!, serve!]
    const { violated, text } = await FUZZ.replay(`faults/2158082005/${scriptText(steps)}`)
    expect(text).toMatch(/NOT_ARMED[\s\S]*durable/)
    expect(text).toContain('Nobody objects.')
    expect(violated).toBe(false)
  })

  test('a script is the same after it was written down', () => {
    const bytes = Uint8Array.of(1, 2, 255)
    const steps: Step[] = [
      { kind: 'frame', bytes },
      { kind: 'serve' },
      { kind: 'pass', us: 10 },
      { kind: 'medium', what: 'poison', value: 7 },
      { kind: 'good' },
      { kind: 'arm' },
      { kind: 'connect', pairs: [1, 2] },
      { kind: 'rest' },
    ]
    expect(scriptOf(scriptText(steps))).toEqual(steps)
    expect(scriptOf(scriptText([]))).toEqual([])
  })

  test('is made as short as it gets', () => {
    const all = Array.from({ length: 1000 }, (_, i) => i)
    const fails = (some: readonly number[]): boolean => some.includes(17) && some.includes(801)
    expect(shrunk(all, fails)).toEqual([17, 801])
  })

  test('is made short at once where its end alone does it, however long it is', () => {
    const all = Array.from({ length: 100_000 }, (_, i) => i)
    const fails = (some: readonly number[]): boolean => some.includes(99_900)
    expect(shrunk(all, fails)).toEqual([99_900])
  })
})

test('the corpus has a way to what chance meets seldom', () => {
  expect(Object.keys(SEEDS).length).toBeGreaterThan(15)
})
