/** The command line of a bench: the help that it asks for, and options that are numbers. */

import { type ParseArgsConfig, parseArgs } from 'node:util'

/** What was asked for: each number, and whether the figures are wanted as JSON. */
type Wishes<Name extends string> = Readonly<Record<Name, number>> & {
  readonly json: boolean
}

/** Whether help is asked for; then it has been said, on stdout. */
export function hasHelped(args: readonly string[], help: string): boolean {
  const asks = args.includes('--help') || args.includes('-h')
  if (asks) process.stdout.write(help)
  return asks
}

/**
 * Reads `--NAME N` of each number, which is whole and `least` or more, and `--json`. Null, and a
 * line on stderr, where the command line is wrong.
 */
export function takeNumbers<Name extends string>(
  args: readonly string[],
  defaults: Readonly<Record<Name, number>>,
  least: number,
): Wishes<Name> | null {
  const options: NonNullable<ParseArgsConfig['options']> = { json: { type: 'boolean' } }
  for (const name in defaults) options[name] = { type: 'string' }
  try {
    const { json = false, ...given } = parseArgs({ args: [...args], options }).values
    const numbers = Object.entries<number>(defaults).map(([name, standard]) => {
      return [name, Number(given[name] ?? standard)] as const
    })
    const wrong = numbers.find(([, number]) => !(Number.isInteger(number) && number >= least))
    if (wrong === undefined) {
      return { ...Object.fromEntries(numbers), json } as Wishes<Name>
    }
    process.stderr.write(`bench: --${wrong[0]} takes a whole number, ${least} or more\n`)
  } catch (error) {
    process.stderr.write(`bench: ${(error as Error).message}\n`)
  }
  return null
}
