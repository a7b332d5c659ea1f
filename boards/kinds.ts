/**
 * Kinds of values that callers give, and what is said of one that is of another: for what the
 * emulator and the host driver check at a call. Each throws its own errors.
 */

import { isUint8Array } from 'node:util/types'

/** One kind of value: whether it is of it, and what to give where it is not. */
export interface Kind {
  readonly give: string
  readonly takes: (value: unknown) => boolean
  /** What is wrong with a value, where more can be said than what to give. */
  readonly wrong?: (value: unknown) => string | null
}

/** A kind for each field of an object. */
export type Kinds<T> = { readonly [Name in keyof Required<T>]: Kind }

/** What is checked, in words; a function of what is checked often, called at a refusal only. */
export type What = string | (() => string)

/** Characters of a text that a message shows. */
const SHOWN = 60

/** A value in a message. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return `'${value.slice(0, SHOWN)}'`
  if (typeof value === 'function') return 'a function'
  if (typeof value !== 'object' || value === null) return String(value)
  return Array.isArray(value) ? 'a list' : 'an object'
}

/** The words. */
export function said(what: What): string {
  return typeof what === 'string' ? what : what()
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether it is bytes that are there: their buffer may have been transferred away. */
export function isBytes(value: unknown): value is Uint8Array {
  if (!isUint8Array(value)) return false
  if (value.length > 0) return true
  try {
    return new Uint8Array(value.buffer).length >= 0
  } catch {
    return false
  }
}

export const OBJECT: Kind = { give: 'an object with the fields by name', takes: isObject }
export const LIST: Kind = { give: 'a list', takes: Array.isArray }
export const BOOLEAN: Kind = {
  give: 'true or false',
  takes: (value) => typeof value === 'boolean',
}
export const FUNCTION: Kind = { give: 'a function', takes: (value) => typeof value === 'function' }
export const TEXT: Kind = { give: 'a text', takes: (value) => typeof value === 'string' }
export const BYTES: Kind = {
  give: 'a Uint8Array, or a Buffer; of other numbers new Uint8Array(them.buffer)',
  takes: isBytes,
}

/** A whole number. */
export function integer(least: number, most: number): Kind {
  return {
    // Made where it is refused: work on a queue is checked by the number.
    get give() {
      return `${least} to ${most}`
    },
    takes: (value) => Number.isInteger(value) && Number(value) >= least && Number(value) <= most,
  }
}

/** A place, or a number of bytes. */
export const SIZE: Kind = {
  give: 'a whole number from 0 on',
  takes: (value) => Number.isSafeInteger(value) && Number(value) >= 0,
}

/** How many, at least one. */
export const COUNT: Kind = {
  give: '1 or more',
  takes: (value) => Number.isSafeInteger(value) && Number(value) >= 1,
}

export function oneOf(names: readonly unknown[]): Kind {
  return { give: `say ${names.join(', ')}`, takes: (value) => names.includes(value) }
}

/** An object of that class: whoever made it is to be asked for it. */
export function instanceOf(type: abstract new (...args: never[]) => unknown, give: string): Kind {
  return { give, takes: (value) => value instanceof type }
}

/** An object that has these functions. */
export function having(names: readonly string[], give: string): Kind {
  const takes = (value: unknown): boolean => {
    const from = value as Record<string, unknown>
    return isObject(value) && names.every((name) => typeof from[name] === 'function')
  }
  return { give: `${give}, with ${names.join(', ')}`, takes }
}

/** Numbers of one byte each, so many. */
export function isAddress(value: unknown, length: number): boolean {
  if (!Array.isArray(value) && !isUint8Array(value)) return false
  return value.length === length && Array.from(value).every(integer(0, 255).takes)
}

/** What a refusal says of a value of another kind than that: what to give, and what is wrong. */
export function giveFor({ give, wrong }: Kind, value: unknown): string {
  const why = wrong?.(value) ?? null
  return why === null ? give : `${why}: ${give}`
}

/** What a refusal says: what it is of, what was given, and what to give. */
export function refusal(what: What, value: unknown, give: string): string {
  return `${said(what)} ${shown(value)}: ${give}`
}

/** How a value is refused. */
type Refuse = (what: What, value: unknown, give: string) => never

/** Refuses what is no object whose fields are of these kinds; see `checkFields` of both sides. */
export function checkFieldsBy<T extends object>(
  refuse: Refuse,
  what: What,
  value: T,
  kinds: Kinds<T>,
  needed: readonly (keyof T)[],
): void {
  if (!OBJECT.takes(value)) refuse(what, value, OBJECT.give)
  // Neither a list of them nor a text: they would be made at every call.
  for (const name in kinds) {
    const field = value[name]
    if (field === undefined && !needed.includes(name)) continue
    const kind: Kind = kinds[name]
    if (kind.takes(field)) continue
    refuse(() => `${said(what)}: ${name}`, field, giveFor(kind, field))
  }
}
