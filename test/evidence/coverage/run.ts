/**
 * Runs test files with a mark at every branch of the firmware, in a process of its own, and plays
 * in QuickJS what they did.
 *
 * Invariant: everything is left in a folder of its own, which is gone in the end. Branches
 * have the same numbers in Node and in QuickJS. What is left out never costs a branch: where one is
 * missing, it is played as well.
 */

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../../support/source/sources.ts'
import { hitsIn } from './flight-files.ts'
import { FOLDER } from './flight-names.ts'
import { type GuestCoverage, playInGuest } from './guest/guest.ts'
import { type Branch, keepMarked, markFirmware } from './guest/guest-branches.ts'
import { LEFT, PLAYED, TOLD } from './tests.ts'

export interface Coverage {
  readonly branches: readonly Branch[]
  /** A byte for each branch: 1 if it was taken in Node. */
  readonly hits: Uint8Array
  readonly guest: GuestCoverage & { readonly values: number }
  /** Tests that passed, and those that did not, by file and name. */
  readonly passed: number
  readonly failed: readonly FailedTest[]
  /** Branches that only tests take which are left out: they cost minutes. */
  readonly dear: readonly Branch[]
  /** Names of all tests of those files, also of those that were left out. */
  readonly names: readonly string[]
}

interface FailedTest {
  /** Path from the root. */
  readonly file: string
  readonly name: string
  readonly message: string
}

/** What is used of the test runner's report. */
interface RunReport {
  readonly numPassedTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly {
      readonly status: string
      readonly fullName: string
      readonly failureMessages: readonly string[]
    }[]
  }[]
}

/** How to play them; all tests play unless `wanted` is given. */
interface CoverOptions {
  /** Of these files, those that are tests of single parts play in QuickJS themselves. */
  readonly parts: readonly string[]
  /** Tests that take long are left out, unless such a branch is missing without them. */
  readonly wanted?: (branch: Branch) => boolean
}

/** Plays those test files; `progress` is told the share that is done. */
export async function cover(
  files: readonly string[],
  progress: (share: number) => void,
  { parts, wanted }: CoverOptions,
): Promise<Coverage> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-branches-'))
  try {
    const marked = await markFirmware()
    const { branches } = marked
    keepMarked(folder, marked)
    const run = (names: string): Promise<Ran> => {
      const ended = (count: number): void => progress((0.8 * count) / files.length)
      return runTests(files, folder, names, ended)
    }
    let ran = await run(wanted === undefined ? TOLD : PLAYED)
    const hits = hitsIn(folder, branches.length)
    const isMissing = (branch: Branch, i: number): boolean => {
      return hits[i] === 0 && wanted?.(branch) === true
    }
    const dear = branches.filter(isMissing)
    if (dear.length > 0) {
      const { passed, failed } = await run(LEFT)
      ran = { ...ran, passed: ran.passed + passed, failed: [...ran.failed, ...failed] }
    }
    const guest = await playInGuest(folder, marked, parts)
    return { ...ran, dear, branches, hits: hitsIn(folder, branches.length), guest }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

type Ran = Pick<Coverage, 'passed' | 'failed' | 'names'>

/** Runs the tests whose names match. */
async function runTests(
  files: readonly string[],
  folder: string,
  names: string,
  ended: (files: number) => void,
): Promise<Ran> {
  const output = join(folder, 'report.json')
  const args = [
    join(ROOT, 'node_modules/vitest/vitest.mjs'),
    ...['run', '--root', ROOT, '--config', 'test/evidence/coverage/flight.config.ts'],
    ...['--reporter=default', '--reporter=json', `--outputFile.json=${output}`],
    `--testNamePattern=${names}`,
    ...files,
  ]
  // What a test runner around us has set is not for the one below.
  const own = Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_V8|TEST$)/.test(name))
  const env = { ...Object.fromEntries(own), [FOLDER]: folder, NO_COLOR: '1' }
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const hear = (text: Buffer): void => {
    said += text.toString()
    ended(said.match(/^ ?\S test\/[\w/-]+\.test\.ts \(/gm)?.length ?? 0)
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (exit) => resolve(exit ?? 1))
  })
  const report = reportIn(output)
  const failed = report === null ? [] : failedIn(report)
  if (report === null || (code !== 0 && failed.length === 0)) {
    const message = said.slice(-2000)
    return {
      passed: 0,
      failed: [{ file: files[0]!, name: `the runner ended with ${code}`, message }],
      names: [],
    }
  }
  const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults)
  return { passed: report.numPassedTests, failed, names: tests.map(({ fullName }) => fullName) }
}

function reportIn(path: string): RunReport | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as RunReport
  } catch {
    return null
  }
}

function failedIn({ testResults }: RunReport): FailedTest[] {
  return testResults.flatMap(({ name, status, message, assertionResults }) => {
    const file = name.replaceAll('\\', '/').replace(/^.*\/test\//, 'test/')
    const failed = assertionResults.filter((one) => one.status === 'failed')
    if (status === 'failed' && failed.length === 0) return [{ file, name: 'the file', message }]
    return failed.map(({ fullName, failureMessages }) => {
      return { file, name: fullName, message: failureMessages.join('\n') }
    })
  })
}
