/**
 * The command line as a tree: every command with its words, and what it does.
 *
 * Invariant: it is made from scratch, and runs nothing: what prints the manual reads it as well.
 */

import { Command } from 'commander'
import { addAdminister } from './administer/administer.ts'
import { MEANINGS } from './base/exit-codes.ts'
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
import { addMonitor } from './monitor/monitor.ts'
import { addPeers } from './peers.ts'
import { addPersist } from './persist.ts'
import { addRead } from './read.ts'
import { addRecover } from './recover.ts'
import { addTimeline } from './timeline/timeline.ts'
import { addVerify } from './verify.ts'

const COMMANDS: readonly ((program: Command, version: string) => void)[] = [
  addDemo,
  addEmulate,
  addPersist,
  addRead,
  addVerify,
  addInspect,
  addRecover,
  addCapture,
  addTimeline,
  addConsole,
  addImage,
  addFlash,
  addAdminister,
  addCheck,
  addMonitor,
  addKey,
  addPeers,
  addCompletion,
]

function exitCodes(): string {
  const lines = [...MEANINGS].map(([code, words]) => `    ${String(code).padStart(2)} ${words}`)
  return ['', 'Exit codes:', ...lines].join('\n')
}

/** The whole command line, of that version. */
export function createProgram(version: string): Command {
  const program = new Command('perdure')
    .description('Crash-atomic remote persistent memory.')
    .version(version)
    .addHelpText('after', exitCodes())
  // Subcommands inherit this when they are added.
  program.exitOverride()
  for (const add of COMMANDS) add(program, version)
  return program
}
