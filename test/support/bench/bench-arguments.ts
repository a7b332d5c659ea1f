/** The command line of a bench: the help that it asks for, and options that are numbers. */

import { type ParseArgsConfig, parseArgs } from 'node:util'

/** A number that a bench takes: a whole one from `least` on, or any above 0. */
interface NumberKind {
  readonly standard: number
  readonly least?: number
}

/** What was asked for: each number, each file, and whether the figures are wanted as JSON. */
type Wishes<Name extends string, File extends string> = Readonly<Record<Name, number>> &
  Readonly<Partial<Record<File, string>>> & { readonly json: boolean }

/** Whether help is asked for; then it has been said, on stdout. */
export function hasHelped(args: readonly string[], help: string): boolean {
  const asks = args.includes('--help') || args.includes('-h')
  if (asks) process.stdout.write(help)
  return asks
}

/**
 * Reads `--NAME N` of each number, `--FILE PATH` of each file, and `--json`. Null, and a line on
 * stderr, where the command line is wrong.
 */
export function takeWishes<Name extends string, File extends string = never>(
  args: readonly string[],
  numbers: Readonly<Record<Name, NumberKind>>,
  files: readonly File[] = [],
): Wishes<Name, File> | null {
  const kinds = Object.entries<NumberKind>(numbers)
  const options: NonNullable<ParseArgsConfig['options']> = { json: { type: 'boolean' } }
  for (const name of [...kinds.map(([one]) => one), ...files]) options[name] = { type: 'string' }
  try {
    const { json = false, ...given } = parseArgs({ args: [...args], options }).values
    const taken = kinds.map(([name, kind]) => [name, numberOf(name, kind, given[name])] as const)
    return { ...given, ...Object.fromEntries(taken), json } as Wishes<Name, File>
  } catch (error) {
    process.stderr.write(`bench: ${(error as Error).message}\n`)
    return null
  }
}

function numberOf(name: string, { standard, least }: NumberKind, given: unknown): number {
  const value = Number(given ?? standard)
  const fits = least === undefined ? value > 0 : Number.isInteger(value) && value >= least
  if (fits && given !== '') return value
  const range = least === undefined ? 'a number above 0' : `a whole number, ${least} or more`
  throw new RangeError(`--${name} takes ${range}`)
}
