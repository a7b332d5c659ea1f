/**
 * What kind of value an argument is to be: checked at the call, before anything is queued.
 *
 * What always holds: whatever a caller gives, a check passes or throws PERDURE_ARGUMENT, in words
 * that say what to give instead; it never throws anything else. A table of kinds has every field of
 * its type, or does not compile.
 */

import { isUint8Array } from 'node:util/types'
import { ArgumentError } from './errors.ts'

/** One kind of value: whether it is of it, and what to give where it is not. */
export interface Kind {
  readonly give: string
  readonly takes: (value: unknown) => boolean
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

/** Throws PERDURE_ARGUMENT: what it is of, what was given, and what to give. */
export function refuse(what: What, value: unknown, give: string): never {
  throw new ArgumentError(`${said(what)} ${shown(value)}: ${give}`)
}

/** Throws PERDURE_ARGUMENT unless the value is of that kind. */
export function check(what: What, value: unknown, kind: Kind): void {
  if (!kind.takes(value)) refuse(what, value, kind.give)
}

/**
 * Throws PERDURE_ARGUMENT unless the value is an object whose fields are of these kinds. A field
 * that is not given is left to its default, unless it is needed.
 */
export function checkFields<T extends object>(
  what: What,
  value: T,
  kinds: Kinds<T>,
  needed: readonly (keyof T)[] = [],
): void {
  check(what, value, OBJECT)
  // Neither a list of them nor a text: they would be made at every call.
  for (const name in kinds) {
    const field = value[name]
    if (field === undefined && !needed.includes(name)) continue
    checkField(what, name, field, kinds[name])
  }
}

/** Throws PERDURE_ARGUMENT unless a field of that name may hold the value. */
export function checkField(what: What, name: string, value: unknown, kind: Kind): void {
  if (!kind.takes(value)) refuse(`${said(what)}: ${name}`, value, kind.give)
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether it is bytes that are there: their buffer may have been transferred away. */
function isBytes(value: unknown): value is Uint8Array {
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
/** Of a time, ms; `Infinity` never comes. */
export const DURATION: Kind = {
  give: 'a number of more than 0',
  takes: (value) => typeof value === 'number' && value > 0,
}
export const BYTES: Kind = {
  give: 'a Uint8Array, or a Buffer; of other numbers new Uint8Array(them.buffer)',
  takes: isBytes,
}

/** Bytes, and so many. */
export function bytesOf(length: number): Kind {
  return {
    give: `a Uint8Array of ${length} bytes`,
    takes: (value) => isBytes(value) && value.length === length,
  }
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

/** The number of a protection domain. */
export const DOMAIN: Kind = integer(0, 0xffff)

/** Throws PERDURE_ARGUMENT unless a protection domain can have that number. */
export function checkDomain(domain: unknown): void {
  check('protection domain', domain, DOMAIN)
}

/** 32 bits. */
export const WORD: Kind = { ...integer(0, 2 ** 32 - 1), give: '0 to 2^32 - 1' }
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

/** 64 bits without a sign. */
export function wide(least: bigint): Kind {
  return {
    give: `a bigint from ${least} to 2^64 - 1`,
    takes: (value) => typeof value === 'bigint' && value >= least && value < 2n ** 64n,
  }
}

/** 64 bits without a sign, from 0 on. */
export const UINT64: Kind = wide(0n)

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
function isAddress(value: unknown, length: number): boolean {
  if (!Array.isArray(value) && !isUint8Array(value)) return false
  return value.length === length && Array.from(value).every(integer(0, 255).takes)
}

/** Where a frame goes to, or comes from. */
export const ENDPOINT: Kind = {
  give: '{ mac, ipv4 }, lists of 6 and 4 bytes',
  takes: (value) => {
    const { mac, ipv4 } = (isObject(value) ? value : {}) as Record<string, unknown>
    return isAddress(mac, 6) && isAddress(ipv4, 4)
  },
}

/** Throws PERDURE_ARGUMENT unless the value is bytes. */
export function checkBytes(what: string, bytes: unknown): void {
  check(what, bytes, BYTES)
}

/** Of any realm. */
export const SIGNAL: Kind = {
  ...having(['addEventListener', 'removeEventListener'], ''),
  give: 'an AbortSignal',
}
