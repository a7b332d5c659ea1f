#!/usr/bin/env node
/**
 * The command `perdure`.
 *
 * Data on stdout, talk on stderr, `--json` everywhere; the exit codes are in base/exit-codes.ts.
 */

import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { addAdminister } from './administer/administer.ts'
import { exitCodeOf, MEANINGS, OK, USAGE } from './base/exit-codes.ts'
import { Output } from './base/output.ts'
import { addCapture } from './capture/capture.ts'
import { addCheck } from './check.ts'
import { addCompletion } from './completion/completion.ts'
import { addDemo } from './demo.ts'
import { addEmulate } from './emulate/emulate.ts'
import { addConsole } from './flash/console.ts'
import { addFlash } from './flash/flash.ts'
import { addImage } from './flash/image.ts'
import { addInspect } from './inspect/inspect.ts'
import { addKey } from './key.ts'
import { addPeers } from './peers.ts'
import { addPersist } from './persist.ts'
import { addRead } from './read.ts'
import { addRecover } from './recover.ts'
import { addVerify } from './verify.ts'

const COMMANDS: readonly ((program: Command) => void)[] = [
  addDemo,
  addEmulate,
  addPersist,
  addRead,
  addVerify,
  addInspect,
  addRecover,
  addCapture,
  addConsole,
  (program) => addImage(program, version()),
  addFlash,
  addAdminister,
  addCheck,
  addKey,
  addPeers,
  addCompletion,
]

function exitCodes(): string {
  const lines = [...MEANINGS].map(([code, words]) => `    ${String(code).padStart(2)} ${words}`)
  return ['', 'Exit codes:', ...lines].join('\n')
}

function version(): string {
  const about = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(about) as { version: string }).version
}

function createProgram(): Command {
  const program = new Command('perdure')
    .description('Crash-atomic remote persistent memory.')
    .version(version())
    .addHelpText('after', exitCodes())
  // Subcommands inherit this when they are added.
  program.exitOverride()
  for (const add of COMMANDS) add(program)
  return program
}

/** Runs the command line; sets the exit code of the process. */
async function main(argv: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync([...argv])
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
