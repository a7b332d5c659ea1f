/** How a header of the dissector is said: its record, its reader, and what is shown of it. */

import type { Names } from '../names.ts'
import { type Asked, askedOf, type Reader } from './place.ts'

/** How one field is shown. */
export interface Shown {
  /** The name to filter by, without `perdure.` in front. */
  readonly name: string
  readonly label: string
  readonly names?: Names
  readonly hex?: true
  /** The lower half of the number, where the field is the upper one. */
  readonly low?: string
  /** The flag without which it means nothing, or with which. */
  readonly only?: string
  readonly unless?: string
  /** The bits in front of it say by which power of two it is multiplied. */
  readonly scaled?: true
}

export interface Header {
  readonly title: string
  readonly length: number
  readonly asked: Asked
  /** By the names that they have in the record. */
  readonly fields: ReadonlyMap<string, Shown>
}

/** A field of a record that is not shown: half of another one, bytes, a judgement on the rest. */
type LeftOut = null

/** Every field of the record is shown or left out. `begin` writes what a reader asks for first. */
export function headerOf<Fields extends object>(
  title: string,
  blank: () => Fields,
  read: Reader<Fields>,
  length: number,
  fields: { readonly [Name in keyof Fields]: Shown | LeftOut },
  begin?: (bytes: Uint8Array) => void,
): Header {
  const entries = Object.entries<Shown | LeftOut>(fields).filter((entry) => entry[1] !== null)
  const asked = askedOf(blank, read, length, begin)
  return { title, length, asked, fields: new Map(entries as [string, Shown][]) }
}

export function shown(name: string, label: string, more: Partial<Shown> = {}): Shown {
  return { name, label, ...more }
}

/** A number in two halves, of which this is the upper one. */
export function wide(name: string, label: string, low: string, more: Partial<Shown> = {}): Shown {
  return { name, label, low, ...more }
}
