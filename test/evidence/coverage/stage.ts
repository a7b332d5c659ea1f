/**
 * C9: every branch of the firmware, in Node and in QuickJS.
 *
 * Invariant: an arm of an `if`, a `?:`, a `switch` and a default, and each operand of `&&`,
 * `||` and `??` is a branch of its own. No branch is left out of the count. A condition of what
 * decides that something is durable, or believes a header, that no test shows to decide alone is a
 * violation, unless argued.ts says why none can.
 */

import { testFile } from '../../support/source/test-files.ts'
import type { Floor, Replayed, Shard, Size, Stage, Tally, Violation } from '../stage.ts'
import { NOTHING } from '../stage.ts'
import { type Decided, decide } from './decided.ts'
import { described } from './guest/guest.ts'
import type { Branch } from './guest/guest-branches.ts'
import { type Coverage, cover } from './run.ts'
import { KERNEL, staleParts, testsOf } from './tests.ts'

/** Violations that are described; the others are counted. */
const DESCRIBED = 8

function isOf(size: Size, { file }: Branch): boolean {
  return size !== 'cut' || KERNEL.includes(file)
}

/** The test file whose tape a difference names. */
function testOf(what: string): string {
  return testFile(what.replace(/-\d+\.tape: .*$/s, ''))
}

function staleOf(shard: string, { names }: Coverage): Violation[] {
  return staleParts(names).map((part) => {
    return { shard, what: `tests.ts leaves out what there is not: ${part}`, replay: '' }
  })
}

function violationsOf(shard: string, { failed, guest }: Coverage): Violation[] {
  const tests = failed.map(({ file, name, message }) => {
    const what = `with marks a test fails: ${file}: ${name}: ${message.split('\n')[0]}`
    return { shard, what, replay: file }
  })
  const tapes = guest.differences.map((what) => {
    const replay = /^test\/[\w/-]+\.test\.ts/.exec(what)?.[0] ?? testOf(what)
    return { shard, what: `QuickJS does otherwise than Node: ${what}`, replay }
  })
  return [...tests, ...tapes]
}

/** What Node takes and QuickJS does not, of what a card gets. */
function missingInGuest({ branches, hits, guest }: Coverage): string[] {
  return branches.flatMap((branch, i) => {
    const isMissing = hits[i] === 1 && guest.bundled[i] === 1 && guest.hits[i] === 0
    return isMissing ? [`${described(branch)} in QuickJS`] : []
  })
}

function tallyOf(shard: Shard, size: Size, coverage: Coverage): Tally {
  const { branches, hits, guest, passed, dear } = coverage
  const cells: Record<string, number> = {}
  let [inGuest, bundled] = [0, 0]
  branches.forEach((branch, i) => {
    if (!isOf(size, branch)) return
    cells[described(branch)] = hits[i]!
    inGuest += guest.hits[i]! & guest.bundled[i]!
    bundled += guest.bundled[i]!
  })
  const counted = Object.values(cells)
  for (const branch of dear) cells[`only tests left out take it: ${described(branch)}`] = 1
  for (const branch of size === 'cut' ? [] : missingInGuest(coverage)) cells[branch] = 0
  const stale = size === 'cut' ? [] : staleOf(shard.name, coverage)
  const violations = [...violationsOf(shard.name, coverage), ...stale]
  return {
    ...NOTHING,
    count: counted.length,
    distinct: counted.filter((taken) => taken > 0).length,
    violations: violations.length,
    described: violations.slice(0, DESCRIBED),
    more: {
      'branches of the bundle': bundled,
      'of these taken in QuickJS': inGuest,
      'calls of a board that QuickJS repeated': guest.calls,
      'command lists alike': guest.lists,
      'values of tests of parts alike': guest.values,
      tests: passed,
      'branches that only tests left out take': dear.length,
    },
    cells,
  }
}

/** The shard that looks at conditions, and not at branches. */
const DECISIONS = 'decisions'

const CONDITIONS = 'conditions in them'

/** Less than there are, as conditions come and go: so many are looked at. */
const CONDITIONS_FLOOR: Floor = { of: CONDITIONS, least: 120 }

/** Each condition is shown to decide alone, or it is argued that it cannot. */
export function decidedTally(shard: Shard, decided: Decided): Tally {
  const { decisions, conditions, shown, argued, missing, stale, failed } = decided
  const wrong = [
    ...missing.map((what) => `no test shows that it decides alone: ${what}`),
    ...failed.map((what) => `with marks a test fails: ${what}`),
    ...stale.map((name) => `argued.ts speaks of what there is not: ${name}`),
  ]
  const violations = wrong.map((what) => ({ shard: shard.name, what, replay: DECISIONS }))
  return {
    ...NOTHING,
    violations: violations.length,
    described: violations.slice(0, DESCRIBED),
    more: {
      'compound decisions of the kernel': decisions,
      [CONDITIONS]: conditions,
      'conditions shown to decide alone': shown,
      'ways of conditions argued': argued,
    },
  }
}

export const COVERAGE: Stage = {
  name: 'coverage',
  id: 'C9',
  title: 'every branch of the firmware is taken',
  unit: 'branches',
  floors: {
    cut: [{ of: 'count', least: 150 }],
    // That each branch is taken is what counts; how many there are is the firmware's business.
    ci: [{ of: 'count', least: 6000 }, CONDITIONS_FLOOR],
    nightly: [{ of: 'count', least: 6000 }, CONDITIONS_FLOOR],
  },
  shards(size: Size): readonly Shard[] {
    const seconds = size === 'cut' ? 15 : 190
    const name = size === 'cut' ? 'kernel' : 'firmware'
    const branches = { name, seed: 0, seconds, options: { size } }
    return size === 'cut' ? [branches] : [branches, { ...branches, name: DECISIONS, seconds: 40 }]
  },
  async play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
    if (shard.name === DECISIONS) return decidedTally(shard, await decide(progress))
    const size = shard.options.size as Size
    const tests = testsOf(size)
    const parts = size === 'cut' ? [] : tests
    const wanted = (branch: Branch): boolean => isOf(size, branch)
    return tallyOf(shard, size, await cover(tests, progress, { parts, wanted }))
  },
  lacks({ cells }: Tally): readonly string[] {
    const missing = Object.entries(cells).filter(([, taken]) => taken === 0)
    return missing.map(([branch]) => `no test takes ${branch}`)
  },
  /**
   * The argument is a test file: it is run with marks, and QuickJS repeats what it did. Or it is
   * `decisions`: what is missing is told, condition by condition.
   */
  async replay(argument: string): Promise<Replayed> {
    if (argument === DECISIONS) {
      const { missing, stale, failed, conditions, shown } = await decide(() => {})
      const lines = [`${shown} of ${conditions} conditions`, ...missing, ...stale, ...failed]
      return { violated: lines.length > 1, text: lines.join('\n') }
    }
    const coverage = await cover([argument], () => {}, { parts: [argument] })
    const told = violationsOf(argument, coverage).map(({ what }) => what)
    const { failed, passed, guest } = coverage
    const messages = failed.map(({ message }) => message)
    const lists = `QuickJS repeated ${guest.calls} calls and ${guest.lists} command lists`
    const lines = [`${argument}: ${passed} tests passed`, lists, ...told, ...messages]
    return { violated: told.length > 0 || passed === 0, text: lines.join('\n') }
  },
}
