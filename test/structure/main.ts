/**
 * `node build.mjs structure [--json] [--folders]`: how the repository is built up, in figures.
 *
 * Tables go to stdout: each part, with `--folders` each folder, and what the way of a record takes.
 * Exit codes: 0, or 2 for a wrong command line.
 */

import { parseArgs } from 'node:util'
import { text } from '../support/bench/table.ts'
import { type Calls, countCalls } from './calls.ts'
import { type Folder, foldersOf, PARTS, type Part, partOf } from './text.ts'

const PART_HEAD = ['', 'files', 'lines', 'median', 'imports', 'circles', 'largest', 'most files']

function partsTable(parts: readonly Part[]): string {
  const rows = parts.map((one) => [
    ...[one.part, String(one.files), String(one.lines), String(one.medianLines)],
    ...[`${(one.imports * 100).toFixed(1)} %`, String(one.circles), String(one.largestCircle)],
    `${one.filesThere} in ${one.largestFolder}`,
  ])
  return text([PART_HEAD, ...rows])
}

function foldersTable(folders: readonly Folder[]): string {
  const rows = folders.map(({ folder, files, lines }) => [folder, String(files), String(lines)])
  return text([['folder', 'files', 'lines'], ...rows])
}

function callsTable(calls: readonly Calls[]): string {
  const rows = calls.map(({ way, calls: count, functions, files }) =>
    [way, count, functions, files].map(String),
  )
  return text([['way', 'calls', 'functions', 'files'], ...rows])
}

async function main(args: string[]): Promise<number> {
  const options = { json: { type: 'boolean' }, folders: { type: 'boolean' } } as const
  let wishes: { json?: boolean; folders?: boolean }
  try {
    wishes = parseArgs({ args, options }).values
  } catch (error) {
    process.stderr.write(`structure: ${(error as Error).message}\n`)
    return 2
  }
  const found = { parts: PARTS.map(partOf), folders: foldersOf(), calls: await countCalls() }
  const tables = [
    partsTable(found.parts),
    ...(wishes.folders ? [foldersTable(found.folders)] : []),
    callsTable(found.calls),
  ]
  process.stdout.write(`${wishes.json ? JSON.stringify(found, null, 2) : tables.join('\n\n')}\n`)
  return 0
}

process.exitCode = await main(process.argv.slice(2))
