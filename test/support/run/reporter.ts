/**
 * Ends a run of the tests with plain lines: `FAILED file > name: why` for each test that failed,
 * `SKIPPED file: N, as NAME` for each file of which some were, and `N passed, N failed`, with
 * `, N skipped` where some were.
 *
 * The lines are written as the process exits, so that nothing stands behind them. Whatever makes
 * the run fail counts as a failure: a test, a file that does not load, an error outside every test,
 * set-up that refuses to start, a behaviour that no test of the quick suite asserts, a name that
 * the evidence leaves out and that no test has.
 * A test that the run was not asked for is not counted: nobody skipped it here.
 */

import { relative } from 'node:path'
import type { SerializedError } from 'vitest'
import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node'
import { staleParts } from '../../evidence/coverage/tests.ts'
import { filesBelow, ROOT } from '../source/sources.ts'
import { unasserted } from './behaviours.ts'
import { IS_QUICK, TAG } from './thorough.ts'

/** Longest reason of a failure, characters: one line of a terminal or two. */
const WHY_MAX = 160

/** The first line of what went wrong. */
function why(errors: readonly { message: string }[] | undefined): string {
  const [first = ''] = (errors?.[0]?.message ?? '').split('\n')
  return first.length > WHY_MAX ? `${first.slice(0, WHY_MAX)}…` : first
}

class LastLines implements Reporter {
  #passed: TestCase[] = []
  #failed: string[] = []
  #isFiltered = false
  #isNamed = false
  #skipped = new Map<string, TestCase[]>()

  onInit({ config }: Vitest): void {
    this.#isNamed = config.testNamePattern !== undefined
    this.#isFiltered = (config.tagsFilter ?? []).length > 0
    process.once('exit', (code) => this.#say(code))
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    this.#passed = []
    this.#skipped = new Map()
    this.#failed = unhandled.map((error) => `outside every test: ${why([error])}`)
    for (const module of modules) {
      const before = this.#failed.length
      const file = relative(ROOT, module.moduleId)
      for (const test of module.children.allTests()) this.#count(test, file)
      // A file that does not load, or a hook that throws, fails without a failed test.
      if (module.ok() || this.#failed.length > before) continue
      const errors = [...module.errors(), ...[...module.children.allSuites()].flatMap(errorsOf)]
      this.#failed.push(`${file}: ${why(errors)}`)
    }
    this.#holdNames(modules)
  }

  #count(test: TestCase, file: string): void {
    const { state, errors } = test.result()
    if (state === 'passed') this.#passed.push(test)
    else if (state !== 'skipped') this.#failed.push(`${file} > ${test.fullName}: ${why(errors)}`)
    else if (!(this.#isFiltered && test.tags.includes(TAG)))
      this.#skipped.set(file, [...(this.#skipped.get(file) ?? []), test])
  }

  /** Holds names to the tests that there are, where the whole quick suite was played. */
  #holdNames(modules: readonly TestModule[]): void {
    const files = filesBelow('test').filter((path) => path.endsWith('.test.ts'))
    if (!IS_QUICK || this.#isNamed || modules.length < files.length) return
    const all = modules.flatMap((module) => [...module.children.allTests()])
    for (const part of staleParts(all.map(({ fullName }) => fullName.replaceAll(' > ', ' ')))) {
      this.#failed.push(`test/evidence/coverage/tests.ts leaves out what there is not: ${part}`)
    }
    // What cannot run here asserts nothing here; elsewhere it does.
    const skipped = [...this.#skipped.values()].flat()
    const names = [...this.#passed, ...skipped].map(({ fullName }) => fullName)
    const lacking = unasserted(names)
    if (lacking.length > 0) {
      this.#failed.push(`behaviours that no quick test names: ${lacking.join(', ')}`)
    }
    if (this.#failed.length > 0) process.exitCode = 1
  }

  #say(code: number): void {
    if (this.#failed.length === 0 && code !== 0) this.#failed.push('the run itself, see above')
    const lines = this.#failed.map((text) => `FAILED ${text}`)
    let skipped = 0
    for (const [file, tests] of this.#skipped) {
      lines.push(`SKIPPED ${file}: ${tests.length}, as ${tests[0]!.fullName}`)
      skipped += tests.length
    }
    const also = skipped === 0 ? '' : `, ${skipped} skipped`
    lines.push(`${this.#passed.length} passed, ${this.#failed.length} failed${also}`)
    process.stdout.write(`${lines.join('\n')}\n`)
  }
}

function errorsOf(suite: { errors(): readonly { message: string }[] }) {
  return [...suite.errors()]
}

export default LastLines
