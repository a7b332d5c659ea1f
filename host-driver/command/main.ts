#!/usr/bin/env node
/**
 * The command `perdure`.
 *
 * Data on stdout, talk on stderr, `--json` everywhere; the exit codes are in base/exit-codes.ts.
 */

import { readFileSync } from 'node:fs'
import { CommanderError } from 'commander'
import { exitCodeOf, OK, USAGE } from './base/exit-codes.ts'
import { Output } from './base/output.ts'
import { createProgram } from './program.ts'

function version(): string {
  const about = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(about) as { version: string }).version
}

/** Runs the command line; sets the exit code of the process. */
async function main(argv: readonly string[]): Promise<void> {
  try {
    await createProgram(version()).parseAsync([...argv])
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? OK : USAGE
      return
    }
    new Output(argv.includes('--json')).fail(error)
    process.exitCode = exitCodeOf(error)
  }
}

// Whoever reads our output may have seen enough (`perdure capture … | head`): that is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(OK)
  const message = `standard output cannot be written: ${error.message}`
  new Output(process.argv.includes('--json')).fail(new Error(message, { cause: error }))
  process.exit(exitCodeOf(error))
})

// What nobody caught, a firmware that stopped under a timer for one, has an exit code as well.
process.on('uncaughtException', (error) => {
  new Output(process.argv.includes('--json')).fail(error)
  process.exit(exitCodeOf(error))
})

await main(process.argv)
