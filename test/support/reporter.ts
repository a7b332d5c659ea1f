/**
 * Ends the suite with one plain line, `N passed, N failed`, and `, N skipped` where some were.
 *
 * The line is written as the process exits, so that nothing stands behind it. Whatever makes the
 * run fail counts as a failure: a test, a file that does not load, an error outside every test,
 * set-up that refuses to start.
 */

import type { SerializedError } from 'vitest'
import type { Reporter, TestModule } from 'vitest/node'

class LastLine implements Reporter {
  #passed = 0
  #failed = 0
  #skipped = 0

  onInit(): void {
    process.once('exit', (code) => {
      const failed = this.#failed === 0 && code !== 0 ? 1 : this.#failed
      const skipped = this.#skipped === 0 ? '' : `, ${this.#skipped} skipped`
      process.stdout.write(`${this.#passed} passed, ${failed} failed${skipped}\n`)
    })
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    this.#passed = 0
    this.#skipped = 0
    this.#failed = unhandled.length
    for (const module of modules) {
      const before = this.#failed
      for (const test of module.children.allTests()) this.#count(test.result().state)
      // A file that does not load, or a hook that throws, fails without a failed test.
      if (!module.ok() && this.#failed === before) this.#failed++
    }
  }

  #count(state: 'passed' | 'failed' | 'skipped' | 'pending'): void {
    if (state === 'passed') this.#passed++
    else if (state === 'skipped') this.#skipped++
    else this.#failed++
  }
}

export default LastLine
