/**
 * What `perdure monitor` makes of the answers of a card: rates that are never negative, events that
 * come once, and a screen that stays within its terminal.
 */

import { describe, expect, test } from 'vitest'
import { BUCKETS } from '../../../firmware/board/latency.ts'
import { eventsOf } from '../../../host-driver/command/monitor/events.ts'
import { bucketsSince, latencyOf } from '../../../host-driver/command/monitor/latency.ts'
import type { DownLook, HealthEvent, Look } from '../../../host-driver/command/monitor/look.ts'
import { ratesOf } from '../../../host-driver/command/monitor/rates.ts'
import type { Sample } from '../../../host-driver/command/monitor/sample.ts'
import { Screen } from '../../../host-driver/command/monitor/screen.ts'
import { lookLine, screenLines } from '../../../host-driver/command/monitor/text.ts'
import { bucketBeginUs } from '../../../host-driver/control/buckets.ts'
import {
  figuresOf,
  firmwareOf,
  lookAt,
  queuesOf,
  sampleOf,
  workOf,
} from '../../support/monitor/samples.ts'

describe('rates', () => {
  const before = sampleOf({
    faults: { SLOT: 5n, MEDIA: 2n },
    queues: queuesOf({ elements: 100n }),
    part: { refusals: { count: 7, last: null } },
  })
  const after = {
    atMs: 2000,
    faults: { SLOT: 9n, MEDIA: 2n, GUARD: 1n },
    queues: queuesOf({ elements: 1100n }),
    part: { refusals: { count: 8, last: null } },
  }

  test('are differences in a second, of what the card counts', () => {
    expect(ratesOf(before, sampleOf(after))).toMatchObject({
      ...{ seconds: 2, met: 2.5, faults: { SLOT: 2, GUARD: 0.5 }, refusals: 0.5 },
      queues: { elements: 500, doorbells: 0 },
    })
  })

  test('there are none of a first sample, nor of one at the same time', () => {
    expect(ratesOf(null, before)).toBeNull()
    expect(ratesOf(before, sampleOf({ ...after, atMs: 0 }))).toBeNull()
  })

  test.each([
    ['another incarnation', { part: { incarnation: 2, refusals: { count: 9, last: null } } }],
    ['another part', { part: { deviceId: 'ff'.repeat(16), refusals: { count: 9, last: null } } }],
    ['a fault that was counted back', { faults: { SLOT: 4n, MEDIA: 2n } }],
    ['a fault that is not counted any more', { faults: { SLOT: 9n } }],
    ['a host that counts from 0', { queues: queuesOf({}) }],
    ['refusals that were counted back', { part: { refusals: { count: 6, last: null } } }],
  ])('a card that has started has none: %s', (_, more) => {
    expect(ratesOf(before, sampleOf({ ...after, ...more }))).toBeNull()
  })

  test('what a card does not tell has no rate, and the rest has', () => {
    const silent = sampleOf({ ...after, faults: null, queues: null })
    expect(ratesOf(before, silent)).toMatchObject({ met: null, faults: null, queues: null })
    expect(ratesOf(before, silent)?.refusals).toBe(0.5)
  })
})

describe('what a card acknowledges', () => {
  const before = sampleOf({ figures: workOf(100n), region: { figures: figuresOf({ 8: 5n }) } })
  const after = {
    ...{ atMs: 2000, figures: workOf(110n) },
    region: { figures: figuresOf({ 8: 205n, 12: 198n, 20: 2n }) },
  }

  test('is told by the second: of the card, and of each region', () => {
    const { work, regions } = ratesOf(before, sampleOf(after))!
    expect(work).toEqual({
      ...{ records: 200, bytes: 12_800, bursts: 5, fences: 20, acknowledgements: 10 },
    })
    expect(regions?.[1]).toEqual({
      ...{ records: 200, bytes: 12_800, p50Us: 10 },
      p99Us: expect.closeTo(16 + (4 * (396 - 200)) / 198, 6),
      p999Us: expect.closeTo(64 + (16 * (399.6 - 398)) / 2, 6),
    })
  })

  test('between two looks is nothing of before, and nothing at all where nothing was', () => {
    const still = ratesOf(before, sampleOf({ ...after, region: { figures: figuresOf({ 8: 5n }) } }))
    expect(still?.regions?.[1]).toEqual({
      ...{ records: 0, bytes: 0, p50Us: null, p99Us: null, p999Us: null },
    })
  })

  test.each([
    ['a card that counts its bursts back', { figures: workOf(1n) }],
    ['a region that counts back', { region: { figures: figuresOf({ 8: 4n }) } }],
    ['another start', { part: { incarnation: 2 } }],
  ])('there are no rates of two lives: %s', (_, more) => {
    expect(ratesOf(before, sampleOf({ ...after, ...more }))).toBeNull()
  })

  test('a region that was made again is another one, and has none yet', () => {
    const again = { ...after, region: { id: 2, figures: figuresOf({ 8: 1n }) } }
    const rates = ratesOf(before, sampleOf(again))
    expect(rates?.regions).toEqual({})
    expect(rates?.work).toMatchObject({ records: 0, bursts: 5 })
  })

  test('of an older card there is nothing, which is said, and the rest is shown', () => {
    const older = sampleOf({ atMs: 2000 })
    expect(ratesOf(before, older)).toMatchObject({ work: null, regions: null, met: 0 })
    const shown = screenLines([lookAt(older)]).join('\n')
    expect(shown).toContain('does not tell what it acknowledges')
    expect(shown).not.toContain('p99')
    expect(shown).toContain('orders')
    expect(lookLine(lookAt(older))).toContain('records -/s')
  })

  test('stands in the tables, with dashes before the second look', () => {
    const first = screenLines([lookAt(before)]).join('\n')
    expect(first).toMatch(/^card +region +records\/s +bytes\/s +p50 +p99 +p99.9 +in all$/m)
    expect(first).toMatch(/^perdure:\/\/card +orders +- +- +- +- +- +5$/m)
    const rates = ratesOf(before, sampleOf(after))
    const lines = screenLines([{ ...lookAt(sampleOf(after)), rates }]).join('\n')
    expect(lines).toMatch(/^perdure:\/\/card +orders +200 +12.5 KiB +10 µs +20 µs +77 µs +405$/m)
    expect(lines).toMatch(/^perdure:\/\/card +200 +12.5 KiB +5.0 +20 +10$/m)
  })

  const all = Array.from({ length: BUCKETS }, (_, bucket) => bucket)

  test.each(all)('each share of what fell into bucket %i alone is in it', (bucket) => {
    const { latency } = figuresOf({ [bucket]: 1000n })
    const { p50Us, p99Us, p999Us } = latencyOf(bucketsSince([], latency))
    const [from, to] = [bucketBeginUs(bucket), bucketBeginUs(bucket + 1)]
    for (const us of [p50Us, p99Us, p999Us]) {
      expect(us).toBeGreaterThanOrEqual(from)
      expect(us).toBeLessThanOrEqual(to)
    }
  })

  test('one that is slow among a thousand shows when it is more than its share', () => {
    const p999Of = (slow: bigint): number => {
      const { latency } = figuresOf({ 4: 1000n - slow, 40: slow })
      return latencyOf(bucketsSince([], latency)).p999Us!
    }
    expect(p999Of(1n)).toBeLessThanOrEqual(5)
    expect(p999Of(2n)).toBeGreaterThan(bucketBeginUs(40))
  })
})

/** The events of looks that come one after the other. */
function told(looks: readonly Look[]): string[][] {
  let before: Look | null = null
  let last: Sample | null = null
  return looks.map((look) => {
    const events = eventsOf({ before, last, look })
    before = look
    if (look.up) last = look.sample
    return events.map(({ event, gravity }) => `${event} ${gravity}`)
  })
}

const away = (atMs = 0): DownLook => {
  return { target: 'perdure://card', atMs, up: false, reason: 'no answer', code: 'X', sinceMs: 0 }
}

describe('events', () => {
  const well = lookAt(sampleOf({}))

  test('a card that is well has none, however often it is looked at', () => {
    expect(told([well, well, well])).toEqual([[], [], []])
  })

  test.each([
    ['save energy', { part: { armed: false } }, 'armed'],
    ['the last save', { part: { saveFailed: true } }, 'save'],
    ['lost records', { part: { unsettled: 2 } }, 'lost'],
    ['a part that refuses', { part: { state: 'refused', fault: 'FOREIGN' } }, 'state'],
    ['a region', { region: { refuses: 'READ_ONLY', readOnly: true } }, 'region'],
    ['a region of an older card', { region: { readOnly: true } }, 'region'],
  ] as const)('%s: once when it goes, and once when it is back', (_, more, event) => {
    const ill = lookAt(sampleOf(more))
    const [gone, back] = [[`${event} critical`], [`${event} info`]]
    expect(told([well, ill, ill, well, well])).toEqual([[], gone, [], back, []])
    expect(told([ill, ill])).toEqual([gone, []])
  })

  test('a page of the superblock is a warning', () => {
    const ill = lookAt(sampleOf({ part: { superblockPages: 1 } }))
    expect(told([well, ill, well])).toEqual([[], ['superblock warning'], ['superblock info']])
  })

  test('errors of the medium are told whenever there are more', () => {
    const met = (count: bigint): Look => lookAt(sampleOf({ faults: { MEDIA: count, SLOT: 9n } }))
    expect(told([met(1n), met(1n), met(3n)])).toEqual([['media critical'], [], ['media critical']])
  })

  test('decayed records are told whenever more were mended, and from 0 after a start', () => {
    const mended = (repaired: number, incarnation = 1): Look => {
      return lookAt(sampleOf({ region: { repaired }, part: { incarnation } }))
    }
    const events = told([well, mended(2), mended(2), mended(1, 2), mended(1, 2)])
    const restart = ['restart warning', 'mended warning']
    expect(events).toEqual([[], ['mended warning'], [], restart, []])
  })

  test('a card that goes is waited for, and says what its start has cost', () => {
    const part = { incarnation: 2, recordsRepaired: 3, lanesActive: 4 }
    const events = told([well, away(1), away(2), lookAt(sampleOf({ part })), well])
    const back = ['back info', 'restart warning', 'recovery info']
    expect(events.slice(0, 4)).toEqual([[], ['gone critical'], [], back])
    expect(told([away(), away()])).toEqual([['gone critical'], []])
  })

  test('firmware is on trial, confirmed, or gone back; a port that is silent says nothing', () => {
    const looks = [
      firmwareOf(),
      firmwareOf({ version: '2.0.0', sha256: 'cd', onTrial: true, secondsLeft: 600 }),
      firmwareOf({ version: '2.0.0', sha256: 'cd', onTrial: true, secondsLeft: 598 }),
      firmwareOf({ version: '2.0.0', sha256: 'cd' }),
      null,
      firmwareOf({ version: '2.0.0', sha256: 'cd' }),
      firmwareOf({ version: '3.0.0', sha256: 'ef', onTrial: true }),
      firmwareOf({ version: '2.0.0', sha256: 'cd', reason: 'it hangs' }),
    ].map((firmware) => lookAt(sampleOf({ firmware })))
    const [trial, confirmed] = [['firmware warning'], ['firmware info']]
    expect(told(looks)).toEqual([[], trial, [], confirmed, [], [], trial, trial])
    expect(told([looks[1]!])).toEqual([trial])
  })

  test('without a port of SMP the part tells of a trial; with one, nothing is said twice', () => {
    const of = (onTrial: boolean, more: Partial<Sample> = {}): Look => {
      return lookAt(sampleOf({ part: { onTrial }, ...more }))
    }
    const [trial, over] = [['firmware warning'], ['firmware info']]
    expect(told([well, of(true), of(true), well])).toEqual([[], trial, [], over])
    expect(told([of(true)])).toEqual([trial])
    const firmware = firmwareOf({ sha256: 'cd', onTrial: true })
    // A port that is silent for a look has told already.
    const looks = [lookAt(sampleOf({ firmware: firmwareOf() })), of(true, { firmware }), of(true)]
    expect(told(looks)).toEqual([[], trial, []])
  })

  test('another part at the same address is no restart', () => {
    const other = lookAt(sampleOf({ part: { deviceId: '11'.repeat(16) } }))
    expect(told([well, other])).toEqual([[], ['part warning']])
  })
})

/** Without what the screen itself tells the terminal to do. */
function withoutMoves(text: string): string {
  return ['2J', 'H', 'K', 'J'].reduce((left, one) => left.replaceAll(`\u001b[${one}`, ''), text)
}

describe('what is shown', () => {
  const name = '\u001b[2Jorders\n'
  const looks: Look[] = [
    lookAt(sampleOf({ region: { name }, queues: queuesOf({ elements: 3n }) })),
    { ...away(), target: 'perdure://other' },
  ]

  test('nothing that a card says moves the cursor or ends a line', () => {
    const events: HealthEvent[] = [
      { target: 'a', atMs: 0, event: 'region', gravity: 'critical', text: name },
    ]
    const shown = new Screen(2).renew(looks[0]!, events, { columns: 200, rows: 50 })
    expect(shown).toContain('\\x1b[2Jorders\\x0a')
    expect(shown.split('\u001b[2J')).toHaveLength(2)
    const kept = withoutMoves(shown)
    expect(kept).not.toContain('\u001b')
  })

  test.each([
    [80, 24],
    [40, 6],
    [20, 3],
    [1, 2],
  ])('a terminal of %i columns and %i rows is never overfull', (columns, rows) => {
    const screen = new Screen(2)
    for (let i = 0; i < 20; i++) {
      const events: HealthEvent[] = [
        { target: 'a', atMs: i, event: 'gone', gravity: 'critical', text: 'x'.repeat(i) },
      ]
      const text = screen.renew(looks[i % 2]!, events, { columns, rows })
      const lines = withoutMoves(text).split('\n')
      expect(lines.length).toBeLessThanOrEqual(rows)
      for (const line of lines) expect([...line].length).toBeLessThanOrEqual(columns)
    }
  })

  test('what is not known is a dash', () => {
    expect(lookLine(looks[0]!)).toMatch(/faults -\/s, refused -\/s, queues 2, elements -\/s$/)
    expect(lookLine(looks[1]!)).toMatch(/perdure:\/\/other away: no answer$/)
    const silent = lookAt(sampleOf({ regions: null, faults: null }))
    expect(lookLine(silent)).toContain('mended -')
    expect(screenLines([silent]).join('\n')).not.toContain('region ')
  })
})
