/**
 * What stands for the test runner while tests of the suite play as killers: it keeps the tests that
 * a file tells, and plays one when it is asked to. What a test expects is judged as in the suite.
 *
 * Invariant: a test is played with the hooks around it, and with nothing of another test
 * but what its file keeps. Properties are tried with few draws, and with the same ones each time.
 */

import { chai, JestAsymmetricMatchers, JestChaiExpect, JestExtend } from '@vitest/expect'
import fc from 'fast-check'

const DRAWS_MAX = 12
const SEED = 1

type Step = (...values: unknown[]) => unknown

/** The hooks of a `describe`, or of the file. */
interface Scope {
  readonly name: string
  readonly above: Scope | null
  readonly beforeEach: Step[]
  readonly afterEach: Step[]
  readonly beforeAll: Step[]
  begun: boolean
}

export interface Told {
  readonly name: string
  readonly run: Step
  readonly scope: Scope
}

for (const plugin of [JestExtend, JestChaiExpect, JestAsymmetricMatchers]) chai.use(plugin)

const expect: unknown = Object.assign(
  (value: unknown, message?: string) => chai.expect(value, message),
  chai.expect,
)

function newScope(name: string, above: Scope | null): Scope {
  return { name, above, beforeEach: [], afterEach: [], beforeAll: [], begun: false }
}

/** Collects the tests of one file: its module is evaluated with `modules` in place of packages. */
export class Runner {
  readonly tests: Told[] = []
  private scope = newScope('', null)

  /** What a file imports instead of the test runner. */
  readonly vitest: Readonly<Record<string, unknown>>

  constructor() {
    const nothing = (): void => {}
    this.vitest = {
      expect,
      test: this.withForms((name, run) => this.tell(name, run)),
      it: this.withForms((name, run) => this.tell(name, run)),
      describe: this.withForms((name, run) => this.describe(name, run)),
      beforeEach: (run: Step) => this.scope.beforeEach.push(run),
      afterEach: (run: Step) => this.scope.afterEach.push(run),
      beforeAll: (run: Step) => this.scope.beforeAll.push(run),
      afterAll: nothing,
      onTestFinished: nothing,
      vi: { setConfig: nothing },
    }
  }

  private tell(name: string, run: Step): void {
    const names: string[] = [name]
    for (let at: Scope | null = this.scope; at !== null; at = at.above) names.unshift(at.name)
    const whole = names.filter((one) => one !== '').join(' > ')
    this.tests.push({ name: whole, run, scope: this.scope })
  }

  private describe(name: string, run: Step): void {
    const { scope } = this
    this.scope = newScope(name, scope)
    run()
    this.scope = scope
  }

  private withForms(tell: (name: string, run: Step) => void): unknown {
    const one = (name: string, ...rest: unknown[]): void => {
      tell(name, rest.find((given) => typeof given === 'function') as Step)
    }
    const rows =
      (all: readonly unknown[], spread: boolean) =>
      (name: string, ...rest: unknown[]) => {
        const run = rest.find((given) => typeof given === 'function') as Step
        for (const row of all) {
          tell(name, (context) => (spread && Array.isArray(row) ? run(...row) : run(row, context)))
        }
      }
    const none = Object.assign(() => {}, { each: () => () => {} })
    return Object.assign(one, {
      each: (all: readonly unknown[]) => rows(all, true),
      for: (all: readonly unknown[]) => rows(all, false),
      skipIf: (skipped: unknown) => (skipped ? none : this.withForms(tell)),
      runIf: (wanted: unknown) => (wanted ? this.withForms(tell) : none),
      skip: none,
    })
  }
}

/** Plays a test; it throws what it objects to. */
export async function playTold({ name, run, scope }: Told): Promise<void> {
  const scopes: Scope[] = []
  for (let at: Scope | null = scope; at !== null; at = at.above) scopes.unshift(at)
  for (const one of scopes) {
    if (!one.begun) for (const step of one.beforeAll) await step()
    one.begun = true
  }
  const context = { task: { name }, expect }
  for (const one of scopes) for (const step of one.beforeEach) await step(context)
  try {
    await run(context)
  } finally {
    for (const one of scopes.reverse()) for (const step of one.afterEach) await step(context)
  }
}

function assertFew<T>(property: fc.IRawProperty<T>, options: fc.Parameters<T> = {}): unknown {
  const numRuns = Math.min(options.numRuns ?? DRAWS_MAX, DRAWS_MAX)
  // Of a counterexample nobody asks for the shortest here.
  return fc.assert(property, { seed: SEED, ...options, numRuns, endOnFailure: true })
}

export const FEW_DRAWS: unknown = {
  ...fc,
  assert: assertFew,
  default: { ...fc, assert: assertFew },
}
