/**
 * Runs tests of one file by their titles, with one change of a source or with none, in a process of
 * its own.
 */

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PATIENCE_MS } from '../../support/run/patience.ts'
import { ROOT } from '../../support/source/sources.ts'
import type { Change } from '../mutants/mutant.ts'
import { CHANGE } from './row.ts'

/** What became of them. */
interface Ran {
  readonly passed: readonly string[]
  readonly failed: readonly { readonly title: string; readonly message: string }[]
  /** Why no test was played, or nothing. */
  readonly trouble: string
}

/** What is used of the test runner's report. */
interface RunReport {
  readonly testResults: readonly {
    readonly message: string
    readonly assertionResults: readonly {
      readonly status: string
      readonly fullName: string
      readonly failureMessages: readonly string[]
    }[]
  }[]
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')

/** Plays the tests of `file` that have one of these parts in their names. */
export async function runTitles(
  file: string,
  titles: readonly string[],
  change: Change | null,
): Promise<Ran> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-row-'))
  try {
    const output = join(folder, 'report.json')
    const said = await runVitest(file, titles.map(escaped).join('|'), change, output)
    return ranOf(output, said)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What the runner said, which matters where it left no report. */
function runVitest(
  file: string,
  names: string,
  change: Change | null,
  output: string,
): Promise<string> {
  const args = [
    join(ROOT, 'node_modules/vitest/vitest.mjs'),
    ...['run', '--root', ROOT, '--config', 'test/evidence/sources/broken.config.ts'],
    ...['--reporter=json', `--outputFile.json=${output}`, `--testNamePattern=${names}`, file],
  ]
  // What a test runner around us has set is not for the one below.
  const own = Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_V8|TEST$)/.test(name))
  const env = {
    ...Object.fromEntries(own),
    ...(change === null ? {} : { [CHANGE]: JSON.stringify(change) }),
    NO_COLOR: '1',
  }
  const options = { cwd: ROOT, env, timeout: PATIENCE_MS, killSignal: 'SIGKILL' } as const
  const child = spawn(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text: Buffer) => {
      said = (said + text.toString()).slice(-2000)
    })
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', () => resolve(said))
  })
}

function ranOf(output: string, said: string): Ran {
  let report: RunReport
  try {
    report = JSON.parse(readFileSync(output, 'utf8')) as RunReport
  } catch {
    return { passed: [], failed: [], trouble: `the runner left no report: ${said}` }
  }
  const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults)
  const passed = tests.filter(({ status }) => status === 'passed').map(({ fullName }) => fullName)
  const failed = tests
    .filter(({ status }) => status === 'failed')
    .map(({ fullName, failureMessages }) => {
      return { title: fullName, message: failureMessages.join('\n') }
    })
  const messages = report.testResults.map(({ message }) => message).filter((one) => one !== '')
  const isPlayed = passed.length + failed.length > 0
  const trouble = isPlayed ? '' : ['no test was played', ...messages].join(': ')
  return { passed, failed, trouble }
}
