/**
 * The manual of the command: `perdure(1)`, and a page for each of its commands, as
 * `perdure-persist(1)`. What has commands of its own, as `region`, has them all on its page.
 *
 * Invariant: what the help says is taken from the tree of commands, and so cannot differ from it;
 * what people add is in facts.ts.
 */

import type { Command } from 'commander'
import {
  type Block,
  type ManualFile,
  manualPage,
  type Section,
} from '../../../boards/tools/manual/roff.ts'
import { MEANINGS } from '../base/exit-codes.ts'
import { CODES, ENVIRONMENT, EXAMPLES, FILES, MORE, type Rows, SEE } from './facts.ts'
import { blocksOf, textAfter } from './help-text.ts'

const WHOLE = 'perdure'
const RUNTIME = ['perdured(8)', 'perdure-boot(8)']

/** A column of rows, or nothing where there are none. */
const column = (rows: Rows): Block[] => (rows.length === 0 ? [] : [{ rows }])

/** A description as a sentence. */
function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(whole) ? whole : `${whole}.`
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}

/** The commands of a tree that are run: those that have none of their own. */
function leavesOf(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf)
}

function argumentRows(command: Command): Rows {
  const help = command.createHelp()
  return help.visibleArguments(command).map((argument) => {
    return [`<${argument.name()}>`, help.argumentDescription(argument)]
  })
}

/** Its options; `--help` is said once on a page. */
function optionRows(command: Command, withHelp: boolean): Rows {
  const help = command.createHelp()
  const shown = help.visibleOptions(command).filter(({ long }) => withHelp || long !== '--help')
  return shown.map((option) => [option.flags, help.optionDescription(option)])
}

function factsOf(facts: typeof ENVIRONMENT, name: string): Rows {
  const mine = facts.filter(({ of }) => name === WHOLE || of === null || of.includes(name))
  return mine.map(({ term, words }) => [term, words])
}

function exampleBlocks(rows: Rows): Block[] {
  return rows.flatMap(([typed, words]) => [
    { paragraph: `${sentence(words).slice(0, -1)}:` },
    { example: [typed] },
  ])
}

/** The sections behind the options, which all pages have. */
function lastSections(name: string, examples: Rows, see: readonly string[]): Section[] {
  const codes: Rows = [...MEANINGS].map(([code, words]) => [String(code), words])
  return [
    { title: 'EXIT STATUS', blocks: column(CODES[name] ?? codes) },
    { title: 'ENVIRONMENT', blocks: column(factsOf(ENVIRONMENT, name)) },
    { title: 'FILES', blocks: column(factsOf(FILES, name)) },
    { title: 'EXAMPLES', blocks: exampleBlocks(examples) },
    { title: 'SEE ALSO', blocks: [{ paragraph: see.join(', ') }] },
  ]
}

/** Of one among several commands of a page. */
function partOf(command: Command): Block[] {
  return [
    { heading: pathOf(command) },
    { paragraph: sentence(command.description()) },
    ...column([...argumentRows(command), ...optionRows(command, false)]),
    ...blocksOf(textAfter(command)),
  ]
}

function commandPage(command: Command, version: string): ManualFile {
  const name = command.name()
  const leaves = leavesOf(command)
  const isGroup = command.commands.length > 0
  const about = command.description()
  const more = (MORE[name] ?? []).map((paragraph) => ({ paragraph }))
  const see = [...(SEE[name] ?? []), 'perdure(1)']
  const sections: Section[] = [
    {
      title: 'SYNOPSIS',
      blocks: [{ usage: leaves.map((leaf) => [pathOf(leaf), leaf.usage()] as const) }],
    },
    { title: 'DESCRIPTION', blocks: [{ paragraph: sentence(about) }, ...more] },
    { title: 'COMMANDS', blocks: isGroup ? leaves.flatMap(partOf) : [] },
    { title: 'ARGUMENTS', blocks: column(argumentRows(command)) },
    { title: 'OPTIONS', blocks: column(optionRows(command, true)) },
    { title: 'NOTES', blocks: isGroup ? [] : blocksOf(textAfter(command)) },
    ...lastSections(name, EXAMPLES[name] ?? [], see),
  ]
  const head = { name: `perdure-${name}`, section: 1, about, version } as const
  return { name: `perdure-${name}.1`, text: manualPage(head, sections) }
}

/** A first record, as README.md has it. */
const FIRST = ['emulate', 'persist', 'read'] as const

function wholePage(program: Command, version: string): ManualFile {
  const commands: Rows = program.commands.map((command) => {
    return [`perdure-${command.name()}(1)`, command.description()]
  })
  const sections: Section[] = [
    { title: 'SYNOPSIS', blocks: [{ usage: [[WHOLE, '<command> [options] [arguments]']] }] },
    {
      title: 'DESCRIPTION',
      blocks: [
        {
          paragraph:
            'Perdure turns a DPU with an NVDIMM into remote persistent memory that is ' +
            'crash-atomic. A client sends a record in one request over RoCEv2; the ' +
            'acknowledgement that comes back means that it is durable.',
        },
        {
          paragraph:
            'Where a command takes a target, that is the address of a card, as ' +
            '`perdure://HOST[:PORT]`; the file of a port to the local card, as `pcie:FILE`; or ' +
            'an NVDIMM image, which is then booted in this process on an emulated card.',
        },
        {
          paragraph:
            'Data goes to standard output, and talk to standard error. With `--json` standard ' +
            'output has JSON and nothing else; 64-bit numbers are decimal strings in it.',
        },
      ],
    },
    { title: 'COMMANDS', blocks: column(commands) },
    { title: 'OPTIONS', blocks: column(optionRows(program, true)) },
    ...lastSections(
      WHOLE,
      FIRST.map((name) => EXAMPLES[name]![0]!),
      [...program.commands.map((command) => `perdure-${command.name()}(1)`), ...RUNTIME],
    ),
  ]
  const about = 'crash-atomic remote persistent memory'
  const head = { name: WHOLE, section: 1, about, version } as const
  return { name: `${WHOLE}.1`, text: manualPage(head, sections) }
}

/** Every page of the command line that `program` is the root of. */
export function manualOf(program: Command, version: string): ManualFile[] {
  return [wholePage(program, version), ...program.commands.map((one) => commandPage(one, version))]
}
