/**
 * What kind of value an argument is to be: checked at the call, before anything is queued.
 *
 * Invariant: whatever a caller gives, a check passes or throws PERDURE_ARGUMENT, in words
 * that say what to give instead; it never throws anything else. A table of kinds has every field of
 * its type, or does not compile.
 */

import {
  BYTES,
  checkFieldsBy,
  giveFor,
  having,
  integer,
  isAddress,
  isBytes,
  isObject,
  type Kind,
  type Kinds,
  refusal,
  said,
  type What,
} from '../../boards/kinds.ts'
import { ArgumentError } from './errors.ts'

export {
  BOOLEAN,
  BYTES,
  COUNT,
  FUNCTION,
  having,
  instanceOf,
  integer,
  isObject,
  type Kind,
  type Kinds,
  LIST,
  OBJECT,
  oneOf,
  SIZE,
  said,
  shown,
  TEXT,
  type What,
} from '../../boards/kinds.ts'

/** Throws PERDURE_ARGUMENT: what it is of, what was given, and what to give. */
export function refuse(what: What, value: unknown, give: string): never {
  throw new ArgumentError(refusal(what, value, give))
}

/** Throws PERDURE_ARGUMENT unless the value is of that kind. */
export function check(what: What, value: unknown, kind: Kind): void {
  if (!kind.takes(value)) refuse(what, value, giveFor(kind, value))
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
  checkFieldsBy(refuse, what, value, kinds, needed)
}

/** Throws PERDURE_ARGUMENT unless a field of that name may hold the value. */
export function checkField(what: What, name: string, value: unknown, kind: Kind): void {
  if (kind.takes(value)) return
  refuse(`${said(what)}: ${name}`, value, giveFor(kind, value))
}

/** Of a time, ms; `Infinity` never comes. */
export const DURATION: Kind = {
  give: 'a number of more than 0',
  takes: (value) => typeof value === 'number' && value > 0,
}

/** Bytes, and so many. */
export function bytesOf(length: number): Kind {
  return {
    give: `a Uint8Array of ${length} bytes`,
    takes: (value) => isBytes(value) && value.length === length,
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
/** 64 bits without a sign. */
export function wide(least: bigint): Kind {
  return {
    give: `a bigint from ${least} to 2^64 - 1`,
    takes: (value) => typeof value === 'bigint' && value >= least && value < 2n ** 64n,
  }
}

/** 64 bits without a sign, from 0 on. */
export const UINT64: Kind = wide(0n)

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
