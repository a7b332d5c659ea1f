/**
 * `npm run kill`: a board under load, killed at random instants, again and again; afterwards every
 * record that was acknowledged is there, and whole.
 *
 * The table goes to stdout, or the same as JSON with `--json`; progress to stderr. Exit codes: 0
 * nothing is missing and nothing torn (with `--drop-flush`: losses were found), 1 otherwise, 2 a
 * wrong command line, 3 the board cannot run here.
 */

import { killCommand } from './command.ts'

process.exitCode = await killCommand(process.argv.slice(2), {
  print: (text) => void process.stdout.write(text),
  say: (line) => void process.stderr.write(`${line}\n`),
})
