/**
 * Reads a trace (boards/emulator/trace/events.ts), or the ring of a card that can be made into one.
 *
 * Invariant: what comes out can be played: the version is known, events are numbered without a gap,
 * every place is inside the part. A last line that is not whole, as a killed emulator leaves it, is
 * left out.
 */

import { readFileSync } from 'node:fs'
import { type Head, TRACE_VERSION, type TraceEvent } from '../../../boards/emulator/index.ts'
import { PerdureError } from '../../base/errors.ts'
import { checkFile } from '../base/system-errors.ts'
import { isRing, traceOfRing } from './read-ring.ts'

export type Numbered = TraceEvent & { readonly n: number }

export interface TraceFile {
  readonly head: Head
  readonly events: readonly Numbered[]
  /** The last line was not whole. */
  readonly cutOff: boolean
}

const ADVICE =
  "Name a trace: 'perdure demo' leaves one, 'perdure emulate --timeline FILE' and perdured's key " +
  "'trace' write one."

/**
 * Throws PERDURE_IMAGE, and names the file and its line, where it is no trace that we know. Of a
 * ring `part` is the file with what the part holds, where the ring names none that can be read.
 */
export function readTrace(path: string, part?: string): TraceFile {
  checkFile(path)
  return traceOf(isRing(path) ? traceOfRing(path, part) : readFileSync(path, 'utf8'), path)
}

/** The same of the text of a trace, which errors call `name`. */
export function traceOf(text: string, name = 'the trace'): TraceFile {
  const fail = (line: number, what: string): never => {
    throw new PerdureError('PERDURE_IMAGE', `${name}: line ${line} ${what}. ${ADVICE}`)
  }
  const lines = text.split('\n')
  const cutOff = lines.pop() !== ''
  const values = lines.map((line, i) => parsed(line) ?? fail(i + 1, 'is no JSON object'))
  const [first, ...rest] = values
  if (first?.trace !== 'perdure') return fail(1, 'is not the first line of a trace')
  if (first.version !== TRACE_VERSION) {
    return fail(1, `is of version ${String(first.version)}, this command reads ${TRACE_VERSION}`)
  }
  const head = first as unknown as Head
  if (!isSize(head.partBytes)) return fail(1, 'does not say how large the part is')
  if (rest.every(({ e }) => e === 'base')) return fail(1, 'is all there is: nothing happened')
  rest.forEach((event, i) => {
    const wrong = faultOf(event, i + 1, head.partBytes)
    if (wrong !== null) fail(i + 2, wrong)
  })
  return { head, events: rest as unknown as Numbered[], cutOff }
}

type Fields = Record<string, unknown>

function parsed(line: string): Fields | null {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Fields) : null
  } catch {
    return null
  }
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) > 0
}

/** What is wrong with an event, or null. */
function faultOf(event: Fields, number: number, partBytes: number): string | null {
  if (event.n !== number) return `has number ${String(event.n)}, ${number} is next`
  if (typeof event.e !== 'string') return 'does not say what happened'
  if (!('at' in event)) return null
  const { at, bytes, data, same } = event
  const length = bytes ?? (typeof data === 'string' ? Buffer.byteLength(data, 'base64') : 0)
  const isInside =
    Number.isSafeInteger(at) &&
    isSize(length) &&
    Number(at) >= 0 &&
    Number(at) + length <= partBytes
  if (!isInside) return 'names a place outside of the part'
  if (event.e === 'store' && typeof data !== 'string' && !Number.isSafeInteger(same)) {
    return 'stores nothing'
  }
  return null
}
