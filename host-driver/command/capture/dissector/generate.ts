/**
 * The dissector, as one file of Lua: the tables of `firmware/wire/`, then the sources beside this
 * file, in their order.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Header } from './header.ts'
import { HEADERS } from './headers.ts'
import { type Table, type Value, wireTables } from './tables.ts'

/** The sources, each of which may use what those before it have made. */
const SOURCES = [
  ...['fields', 'packet', 'icrc', 'tags', 'connections', 'records', 'answers', 'calls'],
  ...['show', 'times', 'dissector'],
]

/** Text of the dissector. `folder` has the sources; other `headers` are for tests. */
export function dissectorText(
  folder: string,
  headers: Readonly<Record<string, Header>> = HEADERS,
): string {
  const sources = SOURCES.map((name) => readFileSync(join(folder, `${name}.lua`), 'utf8'))
  const about = [
    '-- Perdure for Wireshark and tshark: a post-dissector, in one file.',
    '-- Made by the build of Perdure from firmware/wire/: what is changed here is lost there.',
  ]
  return [...about, '', `local WIRE = ${luaOf(wireTables(headers))}`, '', ...sources].join('\n')
}

/** A value as Lua writes it, one entry a line. */
function luaOf(value: Value, indent: string = ''): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (typeof value !== 'object') return String(value)
  const inner = `${indent}  `
  const entries = entriesOf(value).map(([key, one]) => `${inner}${key}${luaOf(one, inner)},\n`)
  return entries.length === 0 ? '{}' : `{\n${entries.join('')}${indent}}`
}

function entriesOf(value: readonly Value[] | Table): [string, Value][] {
  if (Array.isArray(value)) return value.map((one: Value) => ['', one])
  if (value instanceof Map) return [...value].map(([key, one]) => [`[${key}] = `, one])
  return Object.entries(value).map(([key, one]) => [`[${JSON.stringify(key)}] = `, one])
}
