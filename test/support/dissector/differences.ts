/** Where the fields of a dissector and what our own readers say differ. */

import { BODIES } from '../../../host-driver/command/capture/dissector/bodies.ts'
import { HEADERS } from '../../../host-driver/command/capture/dissector/headers.ts'
import { type Told, toldOf } from './told.ts'
import type { Row, Tshark } from './tshark.ts'

/** Fields that are told, of headers or besides. */
export const COMPARED: readonly string[] = [
  ...new Set([
    ...['opcode', 'qp', 'psn', 'payload_length', 'icrc.status', 'slot', 'offset', 'guard'],
    ...['batch.expect', 'sealed.session', 'sealed.counter'],
    ...Object.values(HEADERS).flatMap(({ fields }) => [...fields.values()].map(({ name }) => name)),
    ...BODIES.flatMap(({ fields }) => fields.map(({ name }) => name)),
  ]),
]

/** What Lua stumbled over. */
const STUMBLE = '_ws.lua.error'
export const MALFORMED = '_ws.malformed'

/** What was compared, and where it differs. */
export interface Compared {
  /** Different values that were seen of each field. */
  readonly seen: ReadonlyMap<string, ReadonlySet<string>>
  /** `frame 3 op: 7, should be 8`. */
  readonly differences: readonly string[]
  /** Fields that differ in any frame. */
  readonly wrong: ReadonlySet<string>
  /** Numbers of frames that some dissector of Wireshark finds malformed. */
  readonly malformed: readonly number[]
}

/** Compares every field of every frame of that capture. */
export function compare(tshark: Tshark, file: string, frames: readonly Uint8Array[]): Compared {
  const fields = [...COMPARED.map((name) => `perdure.${name}`), 'perdure.tag.counter']
  const rows = tshark.rows(file, [...fields, STUMBLE, MALFORMED])
  const seen = new Map<string, Set<string>>()
  const differences: string[] = []
  const wrong = new Set<string>()
  if (rows.length !== frames.length) differences.push(`${rows.length} of ${frames.length} frames`)
  frames.forEach((frame, i) => {
    const row: Row = rows[i] ?? new Map()
    const told: Told = toldOf(frame, row.has('perdure.tag.counter')) ?? new Map()
    if (row.has(STUMBLE)) differences.push(`frame ${i + 1}: ${row.get(STUMBLE)}`)
    for (const name of COMPARED) {
      const found = (row.get(`perdure.${name}`) ?? []).map(canonical).join()
      const should = (told.get(name) ?? []).map(String).join()
      if (should !== '') seen.set(name, (seen.get(name) ?? new Set()).add(should))
      // A record's region is told by its key, and of that its frame knows nothing.
      if (found === should || (name === 'region' && told.has('va'))) continue
      wrong.add(name)
      differences.push(`frame ${i + 1} ${name}: ${found}, should be ${should}`)
    }
  })
  const malformed = rows.flatMap((row, i) => (row.has(MALFORMED) ? [i + 1] : []))
  return { seen, differences, wrong, malformed }
}

/** A number as tshark prints it, or a text, as it is. */
function canonical(text: string): string {
  if (text === 'True') return '1'
  if (text === 'False') return '0'
  return /^(0x[0-9a-f]+|\d+)$/i.test(text) ? String(BigInt(text)) : text
}
