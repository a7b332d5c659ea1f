/** B1 to B7 in short: card and host as two machines, and that the judge notices. */

import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { DONE } from '../../../firmware/board/hal.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { Judge } from '../host/judge.ts'
import { brokenBases, makeBase, playScript } from '../host/play.ts'
import { RecordPlay } from '../host/record.ts'
import { LEVELS, PLACEMENTS, Rig } from '../host/rig.ts'
import type { Script } from '../host/script.ts'
import { HOST, lineOf, scriptOf } from '../host/stage.ts'
import { kindOf, OPEN } from '../open.ts'
import { missed, playAll } from '../stage.ts'

const SEED = 3

const WRITE: Script = {
  operation: 'write',
  placement: 'through',
  level: '2of2',
  base: 0,
  event: null,
  back: 'at-once',
  nested: null,
}

test(
  'R1-E1: host, card or both go at some steps, and nothing acknowledged is lost',
  THOROUGH,
  async () => {
    const total = await playAll(HOST, 'cut', SEED)
    const others = total.described.filter((one) => kindOf(OPEN, HOST.name, one) === null)
    expect(others).toEqual([])
    expect(total.violations).toBe(total.described.length)
    expect(missed(HOST, total, 'cut')).toEqual([])
    expect(HOST.lacks!(total, 'cut')).toEqual([])
  },
)

describe('R1-E1: the judge notices', () => {
  const SPOILT: readonly (readonly [string, Script['placement'], (rig: Rig) => void])[] = [
    [
      'a host whose fences do nothing',
      'through',
      (rig) => {
        rig.host.fence = () => {}
      },
    ],
    [
      'a card whose fences do nothing',
      'local',
      (rig) => {
        rig.part.fence = () => DONE
      },
    ],
    [
      'a memory controller of the host that keeps nothing',
      'bypass',
      (rig) => {
        rig.host.part.fence = () => DONE
      },
    ],
  ]

  test.each(SPOILT)('%s', (_, placement, spoilt) => {
    for (const level of LEVELS) {
      const { complaints } = playScript({ ...WRITE, placement, level }, spoilt)
      expect(complaints.join('\n'), level).toMatch(/v2 is durable in \d; it is in 0/)
    }
  })
})

test('H2: the host goes before the record of its peer comes, or while it is served', () => {
  for (const placement of PLACEMENTS) {
    for (let step = 0; step < 8; step++) {
      const event = { party: 'host', step, choice: 1 } as const
      const played = playScript({ ...WRITE, operation: 'peer', placement, event })
      expect(played.complaints, `${placement}, step ${step}`).toEqual([])
    }
  }
})

test('R1-E1: what comes by the host is acknowledged; through the caches it posts nothing', () => {
  for (const level of LEVELS) {
    for (const placement of PLACEMENTS) {
      const of = { ...WRITE, placement, level }
      const { acknowledged } = playScript(of)
      expect(playScript({ ...of, operation: 'peer' })).toMatchObject({ acknowledged, refused: 0 })
      const refused = placement === 'through' ? 1 : 0
      const post = { acknowledged: acknowledged - refused, refused }
      expect(playScript({ ...of, operation: 'post' })).toMatchObject(post)
    }
  }
})

test('R1-E1: a play is one line, and that line is the play', () => {
  const event = { party: 'host', step: 18, choice: 2 } as const
  const script: Script = { ...WRITE, event, back: 'late', nested: { ...event, party: 'both' } }
  expect(lineOf(script)).toBe('write through 2of2 0 host@18/2 late both@18/2')
  expect(scriptOf(lineOf(script))).toEqual(script)
  expect(() => scriptOf('write nowhere 2of2 0 - at-once -')).toThrow('not a play')
  expect(playScript(script)).toEqual(playScript(script))
})

test('B7: the save fails, the host goes again before its driver: nothing older is shown', () => {
  for (let step = 18; step < 30; step++) {
    const event = { party: 'unsaved', step, choice: 0 } as const
    const played = playScript({ ...WRITE, event, back: 'host-again' })
    expect(played.complaints, `step ${step}`).toEqual([])
  }
})

test('C7: a save fails behind a later write: who wrote before says that it repeats', () => {
  const script = scriptOf('write local 2of3 0 host@3/1 host-again unsaved@180/3')
  const { complaints, refused } = playScript(script)
  expect(complaints).toEqual([])
  // What the table has forgotten is answered so, and goes over nothing.
  expect(refused).toBeGreaterThan(2)
})

test('R1-E1: a cut of both leaves media of several kinds that a start has to repair', () => {
  for (const placement of PLACEMENTS) {
    expect(brokenBases(placement, '2of2').length, placement).toBeGreaterThan(2)
  }
})

describe('R1-E1, B2: a host that comes back with other memory', () => {
  const OTHERS: readonly (readonly [string, () => Nvdimm | 'cleared'])[] = [
    ['cleared', () => 'cleared'],
    ['smaller', () => new Nvdimm({ bytes: 4096 })],
    ['larger, and blank', () => new Nvdimm({ bytes: 1 << 16 })],
  ]

  test.each(OTHERS)('%s: nothing is shown of it, and the card serves on', (_, memory) => {
    for (const placement of ['bypass', 'through'] as const) {
      const { media, floor } = makeBase(placement, '2of2')
      const rig = new Rig(placement, media)
      const play = new RecordPlay(rig, '2of2', new Judge(rig, floor))
      rig.cardOn()
      rig.driverOn()
      rig.resetHost()
      rig.hostOn({ part: memory() })
      expect(play.read('before its driver is there', false)).toBe(null)
      rig.driverOn()
      rig.work(24)
      expect(play.read('when its driver is there', false), placement).toBe(null)
      if (placement === 'through') play.neighbour('beside other memory')
      expect(play.judge.complaints).toEqual([])
    }
  })
})
