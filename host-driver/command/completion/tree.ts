/** The command line as data: which words may stand where. */

import type { Command, Option } from 'commander'

/** An option that starts with two dashes. */
export interface OptionWords {
  readonly long: string
  readonly about: string
  /** A value stands behind it. */
  readonly takesValue: boolean
  /** The values that it takes, where those are few. */
  readonly choices: readonly string[]
}

export interface CommandWords {
  /** As it is typed: 'perdure region list'. */
  readonly path: string
  readonly name: string
  readonly about: string
  readonly options: readonly OptionWords[]
  readonly commands: readonly CommandWords[]
}

/** A command and all below it. */
export function wordsOf(command: Command, above: string = ''): CommandWords {
  const name = command.name()
  const path = above === '' ? name : `${above} ${name}`
  const help = command.createHelp()
  return {
    ...{ path, name, about: firstLine(command.description()) },
    options: help.visibleOptions(command).flatMap(optionWords),
    commands: command.commands.map((one) => wordsOf(one, path)),
  }
}

/** Every command of the tree, those that have others first. */
export function everyCommand(tree: CommandWords): CommandWords[] {
  return [tree, ...tree.commands.flatMap(everyCommand)]
}

function optionWords({ long, description, required, optional, argChoices }: Option): OptionWords[] {
  if (long === undefined) return []
  const takesValue = required || optional
  return [{ long, about: firstLine(description), takesValue, choices: argChoices ?? [] }]
}

/** Up to the first break: a shell shows one line. */
function firstLine(text: string): string {
  return text.split(/[\n;:]/)[0]!.trim()
}
