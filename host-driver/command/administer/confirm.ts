/**
 * Before something is gone permanently: whoever asks for it says so once more.
 *
 * Invariant: without a terminal nobody is asked, and nothing is done but with `--yes`. An answer
 * that is not the word, or no answer, leaves everything as it is.
 */

import { createInterface } from 'node:readline'
import { ArgumentError } from '../../base/errors.ts'
import { printable } from '../../base/printable.ts'

/** What every command that loses something takes. */
export interface LossOptions {
  /** Only tell what it would do. */
  readonly dryRun?: boolean
  /** Do not ask. */
  readonly yes?: boolean
}

/**
 * Has `word` typed at the terminal, unless `yes` is said; `loss` is a sentence without its stop.
 * Rejects with PERDURE_ARGUMENT where there is no terminal, or the answer is another.
 */
export async function confirm(loss: string, word: string, { yes }: LossOptions): Promise<void> {
  if (yes === true) return
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) {
    throw new ArgumentError(`${loss}: say --yes, or look at it first with --dry-run`)
  }
  process.stderr.write(printable(`${loss}. Type ${word} to go on: `))
  if ((await answer()) === word) return
  throw new ArgumentError(`nothing was changed: the answer was not ${word}`)
}

/** The next line that is typed; null at the end of the input. */
async function answer(): Promise<string | null> {
  // The terminal edits the line, and its Ctrl-C ends the command as it ends every other.
  const lines = createInterface({ input: process.stdin, terminal: false })
  try {
    return await new Promise((resolve) => {
      lines.once('line', resolve)
      lines.once('close', () => resolve(null))
    })
  } finally {
    lines.close()
  }
}
