/** The frame of the evidence: what is added up, what is missed, and what the command line says. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { PLANS } from '../../../.ci/plans.mjs'
import { THOROUGH } from '../../support/run/thorough.ts'
import { ROOT } from '../../support/source/sources.ts'
import { kindOf, OPEN, type OpenKind } from '../open.ts'
import { pageOf } from '../page.ts'
import { type Outcome, playStages, SHARDS_EACH } from '../pool.ts'
import { exitCodeOf, reportOf, tableOf } from '../report.ts'
import { addTally, missed, NOTHING, playAll, type Shard, type Stage, type Tally } from '../stage.ts'
import { STAGES } from '../stages.ts'

const RUN = { size: 'ci', seed: 7, workers: 2, seconds: 61 } as const

/** A stage that counts to the number in its shard's name, and objects to odd seeds. */
const COUNTING: Stage = {
  name: 'counting',
  id: 'C0',
  title: 'counts',
  unit: 'numbers',
  floors: {
    cut: [{ of: 'count', least: 3 }],
    ci: [
      { of: 'count', least: 30 },
      { of: 'power cuts', least: 2 },
    ],
    nightly: [],
  },
  shards: (size, seed) =>
    [1, 2].map((n): Shard => {
      return {
        name: `to ${n}`,
        seed: seed + n,
        seconds: n,
        options: { to: n, large: size !== 'cut' },
      }
    }),
  play: async ({ name, seed, options }): Promise<Tally> => {
    const odd = seed % 2 === 1
    const described = odd ? [{ shard: name, what: 'the seed is odd', replay: `seed=${seed}` }] : []
    const count = Number(options.to)
    const cells = { [`reached ${count}`]: 1, both: 1 }
    const more = { 'power cuts': 1 }
    const violations = described.length
    return { ...NOTHING, count, distinct: 1, seeds: 1, violations, described, more, cells }
  },
  lacks: ({ cells }) => (cells['reached 3'] === undefined ? ['nothing reached 3'] : []),
  replay: async (argument) => ({ violated: true, text: argument }),
}

const outcomeOf = (tally: Tally): Outcome => {
  return { stage: COUNTING, tally, busySeconds: 2, ended: 2, shards: 2 }
}

/** A program for workers: it counts the shards that it has played, and some end it. */
const PROGRAM = `
  import { parentPort } from 'node:worker_threads'
  let played = 0
  parentPort.on('message', ({ shard: { name } }) => {
    played += 1
    if (name === 'ends') process.exit(7)
    const tally = { ...NOTHING, count: played }
    if (name === 'throws') parentPort.postMessage({ kind: 'threw', error: 'no' })
    else parentPort.postMessage({ kind: 'done', tally, busySeconds: 1 })
  })
  const NOTHING = ${JSON.stringify(NOTHING)}
`

describe('workers', () => {
  const program = new URL(`data:text/javascript,${encodeURIComponent(PROGRAM)}`)
  const played = async (stage: Stage, names: readonly string[]): Promise<Outcome> => {
    const shards = names.map((name, i): Shard => ({ name, seed: i, seconds: 1, options: {} }))
    const plan = [{ stage, shards }]
    const [outcome] = await playStages(plan, { workers: 1, program, moved: () => {} })
    return outcome!
  }
  const follows = { ...COUNTING, shardsFollow: true }

  test('a shard has a worker of its own', async () => {
    const { tally, ended, busySeconds } = await played(COUNTING, ['a', 'b', 'c', 'd'])
    expect([tally.count, tally.violations, ended, busySeconds]).toEqual([4, 0, 4, 4])
  })

  test('but where shards may follow one another: so many have one', async () => {
    const names = Array.from({ length: SHARDS_EACH + 2 }, (_, i) => `${i}`)
    const { tally, ended } = await played(follows, names)
    const first = (SHARDS_EACH * (SHARDS_EACH + 1)) / 2
    expect([tally.count, tally.violations, ended]).toEqual([first + 1 + 2, 0, SHARDS_EACH + 2])
  })

  test('whose stage is played together, however long the shards of others are', async () => {
    const shards = (...seconds: readonly number[]): Shard[] => {
      return seconds.map((n): Shard => ({ name: `${n}`, seed: n, seconds: n, options: {} }))
    }
    const plan = [
      { stage: follows, shards: shards(1, 5, 2) },
      { stage: { ...follows, name: 'also' }, shards: shards(3, 7, 4) },
      { stage: { ...COUNTING, name: 'alone' }, shards: shards(6, 1) },
    ]
    const outcomes = await playStages(plan, { workers: 1, program, moved: () => {} })
    expect(outcomes.map(({ tally }) => tally.count)).toEqual([1 + 2 + 3, 1 + 2 + 3, 1 + 1])
  })

  test('one that dies, or throws, is a violation, and what follows has another', async () => {
    const { tally, ended } = await played(follows, ['a', 'ends', 'b', 'c', 'throws', 'd'])
    expect([tally.count, tally.violations, ended]).toEqual([1 + 1 + 2 + 1, 2, 6])
    const said = tally.described.map(({ shard, what }) => `${shard}: ${what}`)
    expect(said).toEqual(['ends: the worker ended with 7', 'throws: no'])
  })
})

describe('a run of so many minutes', () => {
  const program = new URL(`data:text/javascript,${encodeURIComponent(PROGRAM)}`)
  const shards = (count: number, seconds: number): Shard[] => {
    return Array.from({ length: count }, (_, i) => ({
      name: `${i}`,
      seed: i,
      seconds,
      options: {},
    }))
  }
  const play = async (plan: { stage: Stage; shards: Shard[] }[], minutes: number) => {
    const ends: string[] = []
    const outcomes = await playStages(plan, {
      ...{ workers: 1, program, limit: { minutes, seed: 3 } },
      moved: (_, now) => ends.push(now.map(({ ended }) => ended).join(' ')),
    })
    return { ends, outcomes }
  }

  test('gives each stage as much time as any other, and ends when all is played', async () => {
    const long = { stage: { ...COUNTING, name: 'long' }, shards: shards(2, 100) }
    const short = { stage: COUNTING, shards: shards(5, 40) }
    const { ends } = await play([long, short], 1000)
    expect(ends).toEqual(['1 0', '1 1', '1 2', '1 3', '2 3', '2 4', '2 5'])
  })

  test('plays what follows one another in turns of one worker', async () => {
    const stage = { ...COUNTING, shardsFollow: true }
    const { outcomes } = await play([{ stage, shards: shards(4, 100) }], 1000)
    // Two of them are 240 seconds, and no more; a worker that has room is not ended.
    expect(outcomes[0]!.tally.count).toBe(1 + 2 + 3 + 4)
    const other = { stage: { ...COUNTING, name: 'other' }, shards: shards(2, 100) }
    const turns = await play([{ stage, shards: shards(4, 100) }, other], 1000)
    expect(turns.ends).toEqual(['1 0', '2 0', '2 1', '2 2', '3 2', '4 2'])
  })

  test('begins nothing behind its end, says what was played, and asks no floor', async () => {
    const { outcomes } = await play([{ stage: COUNTING, shards: shards(2, 1) }], 0)
    expect(outcomes).toMatchObject([{ ended: 0, shards: 2 }])
    const report = reportOf([{ ...outcomeOf(NOTHING), ended: 1 }], RUN, true)
    expect(report.stages[0]).toMatchObject({ ended: 1, shards: 2, lacks: [] })
    expect(tableOf(report).split('\n')).toContain('C0 counting: 1 of 2 shards')
    expect(exitCodeOf(report)).toBe(0)
  })
})

describe('what is added up', () => {
  test('the tallies of shards are one tally: counts, cells, violations', async () => {
    const total = await playAll(COUNTING, 'ci', 1)
    expect(total).toMatchObject({ count: 3, distinct: 2, seeds: 2, violations: 1 })
    expect(total.more).toEqual({ 'power cuts': 2 })
    expect(total.cells).toEqual({ 'reached 1': 1, 'reached 2': 1, both: 2 })
    expect(total.described).toEqual([{ shard: 'to 2', what: 'the seed is odd', replay: 'seed=3' }])
    expect(addTally(total, NOTHING)).toEqual(total)
  })

  test('a floor that was not reached is said, and one that was is not', async () => {
    const total = await playAll(COUNTING, 'ci', 1)
    expect(missed(COUNTING, total, 'cut')).toEqual([])
    expect(missed(COUNTING, total, 'ci')).toEqual(['3 numbers, and 30 are asked'])
    const none = missed(COUNTING, NOTHING, 'ci')
    expect(none).toEqual(['0 numbers, and 30 are asked', '0 power cuts, and 2 are asked'])
  })

  test('the table has a line for each stage, names what is wrong, and how to see it', async () => {
    const report = reportOf([outcomeOf(await playAll(COUNTING, 'ci', 1))], RUN, true)
    expect(report.violations).toBe(1)
    expect(report.stages[0]).toMatchObject({ rate: 1.5, seconds: 2 })
    const lines = tableOf(report).split('\n')
    expect(lines[1]).toMatch(/^C0 counting +3 +numbers +2 +2 +1 +2 +2$/)
    expect(lines).toContain('NOT REACHED  C0 counting: 3 numbers, and 30 are asked')
    expect(lines).toContain('NOT REACHED  C0 counting: nothing reached 3')
    expect(lines).toContain('VIOLATION    C0 counting, to 2: the seed is odd')
    expect(lines).toContain("             npm run evidence -- --replay counting 'seed=3'")
    expect(lines.at(-1)).toBe('ci, seed 7, 2 workers, 1 min 1 s: 1 violations')
  })

  test('of a run that played some shards only, no floor is asked', async () => {
    const report = reportOf([outcomeOf(NOTHING)], RUN, false)
    expect(report.stages[0]!.lacks).toEqual([])
  })
})

describe('R1-E0: kinds of violations that stand as open', () => {
  const KIND: OpenKind = {
    id: 'odd-seeds',
    stage: 'counting',
    what: 'a seed may be odd',
    says: /seed is odd/,
    replay: 'seed=3',
  }
  const violation = (what: string) => ({ shard: 'one', what, replay: 'seed=9' })
  const tallyOf = (violations: number, ...said: readonly string[]): Tally => {
    const described = said.map(violation)
    return { ...NOTHING, count: 30, violations, described, more: { 'power cuts': 2 } }
  }
  const reportFor = (tally: Tally) => reportOf([outcomeOf(tally)], RUN, false, [KIND])

  test('a run that meets no other does not fail, and table and page say what it met', () => {
    const tally = tallyOf(2, 'the seed is odd', 'the seed is odd, again')
    const report = reportFor(tally)
    expect(report).toMatchObject({
      violations: 2,
      failures: 0,
      open: [{ id: 'odd-seeds', met: 2 }],
    })
    expect(exitCodeOf(report)).toBe(0)
    const lines = tableOf(report).split('\n')
    expect(lines).toContain('OPEN         odd-seeds, met 2 times: a seed may be odd')
    expect(lines.at(-1)).toMatch(/: 2 violations, 2 of open kinds$/)
    const page = pageOf(report, [outcomeOf(tally)])
    expect(page).toContain('2 violations, 2 of open kinds')
    expect(page).toContain('<b>odd-seeds</b>, met 2 times<br>a seed may be odd')
  })

  test('any other fails the run; so does one that no stage described', () => {
    expect(exitCodeOf(reportFor(tallyOf(2, 'the seed is odd', 'something is torn')))).toBe(1)
    expect(exitCodeOf(reportFor(tallyOf(2, 'the seed is odd')))).toBe(1)
    expect(exitCodeOf(reportFor(tallyOf(0)))).toBe(0)
    expect(kindOf([KIND], 'another', violation('the seed is odd'))).toBeNull()
  })

  test('every one stands on the page, with what shows it, and there are no others', () => {
    const page = readFileSync(join(ROOT, 'test/doc/evidence.md'), 'utf8')
    const [, said] = /Kinds of\s+violations that stand as open: ([^.]*)\./.exec(page)!
    for (const { id, replay, stage } of OPEN) {
      expect(said).toContain(id)
      expect(page).toContain(replay)
      expect(STAGES.map(({ name }) => name)).toContain(stage)
    }
    expect(said === 'none').toBe(OPEN.length === 0)
  })

  test('the thorough run draws the seed afresh, and the gate draws the same each time', () => {
    const stepsOf = (name: string): string[] => {
      const groups = PLANS[name]!
      return groups.flat(2).map(({ command }) => command.join(' '))
    }
    expect(stepsOf('thorough')).toContain('npm run --silent evidence')
    const drawn = stepsOf('gate').filter((command) => /run --silent (evidence|kill)/.test(command))
    expect(drawn.filter((command) => !/--seed \d|--replay /.test(command))).toEqual([])
    expect(drawn).toHaveLength(3)
  })
})

test('a plan fails where the evidence has not reached all that is asked', () => {
  const steps = Object.values(PLANS).flatMap((plan) => plan.flat(2))
  const whole = steps.filter(({ command }) => {
    return command.includes('evidence') && !command.includes('--replay')
  })
  expect(whole.map(({ reaches }) => reaches)).toEqual([true, true])
})

describe('the stages', () => {
  test('have names of their own, and floors for the run of CI', () => {
    expect(new Set(STAGES.map(({ name }) => name)).size).toBe(STAGES.length)
    expect(STAGES.filter(({ floors }) => floors.ci.length === 0).map(({ name }) => name)).toEqual(
      [],
    )
  })

  test('have shards of different names at every size, the same for the same seed', () => {
    for (const stage of STAGES) {
      for (const size of ['cut', 'ci', 'nightly'] as const) {
        const shards = stage.shards(size, 1)
        expect([stage.name, new Set(shards.map(({ name }) => name)).size]).toEqual([
          stage.name,
          shards.length,
        ])
        expect(stage.shards(size, 1)).toEqual(shards)
      }
    }
  })
})

/** `npm run evidence` with these arguments, without npm. */
function evidence(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const options = { cwd: ROOT, encoding: 'utf8' } as const
  return spawnSync(process.execPath, ['build.mjs', 'evidence', ...args], options)
}

describe('the command line', () => {
  test('what it does not know ends with 2 and names what there is', THOROUGH, () => {
    const wrong = evidence('--stage', 'astrology')
    expect(wrong.status).toBe(2)
    expect(wrong.stderr).toContain(STAGES.map(({ name }) => name).join(', '))
    expect(evidence('--seed', 'x').status).toBe(2)
    expect(evidence('--workers', '0').status).toBe(2)
    expect(evidence('--replay', 'astrology', 'x').status).toBe(2)
    expect(evidence('--replay', STAGES[0]!.name).status).toBe(2)
  })

  test(
    'a run says all of it as JSON, and leaves a page that names nothing outside itself',
    THOROUGH,
    () => {
      const out = mkdtempSync(join(tmpdir(), 'perdure-evidence-'))
      try {
        const run = evidence('--cut', '--stage', 'bound', '--seed', '3', '--json', '--out', out)
        expect([run.status, run.stderr]).toEqual([0, expect.stringContaining('seed 3')])
        const report = JSON.parse(run.stdout)
        expect(report).toMatchObject({ size: 'cut', seed: 3, violations: 0 })
        expect(report.stages).toMatchObject([{ stage: 'bound', violations: 0, lacks: [] }])
        expect(JSON.parse(readFileSync(join(out, 'evidence.json'), 'utf8'))).toEqual(report)
        const page = readFileSync(join(out, 'evidence.html'), 'utf8')
        expect(page).toMatch(/^<!doctype html>/i)
        expect(page.match(/(?:src|href)="(?!#)[^"]*"|@import|url\(/g)).toBeNull()
      } finally {
        rmSync(out, { recursive: true, force: true })
      }
    },
  )
})
