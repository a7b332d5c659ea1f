/**
 * What callers give to the emulator, checked where something is made or set up.
 *
 * Invariant: whatever is given, a check passes or throws a RangeError, in words that say
 * what to give instead. What every frame, store or event goes through checks nothing.
 */

import {
  checkFieldsBy,
  having,
  integer,
  isAddress,
  type Kind,
  type Kinds,
  refusal,
  type What,
} from '../../kinds.ts'

function refuse(what: What, value: unknown, give: string): never {
  throw new RangeError(refusal(what, value, give))
}

/** Throws a RangeError unless the value is of that kind. */
export function check(what: What, value: unknown, kind: Kind): void {
  if (!kind.takes(value)) refuse(what, value, kind.give)
}

/** The same of something that may be left out. */
export function checkGiven(what: What, value: unknown, kind: Kind): void {
  if (value !== undefined) check(what, value, kind)
}

/**
 * Throws a RangeError unless the value is an object whose fields are of these kinds. A field that
 * is not given is left to its default, unless it is needed.
 */
export function checkFields<T extends object>(
  what: What,
  value: T,
  kinds: Kinds<T>,
  needed: readonly (keyof T)[] = [],
): void {
  checkFieldsBy(refuse, what, value, kinds, needed)
}

/** That kind, or null. */
export function orNull(kind: Kind): Kind {
  return { give: `${kind.give}; or null`, takes: (value) => value === null || kind.takes(value) }
}

/** Numbers of one byte each, so many. */
export function octets(length: number): Kind {
  return { give: `a list of ${length} bytes`, takes: (value) => isAddress(value, length) }
}

export const NUMBER: Kind = {
  give: 'a number',
  takes: (value) => typeof value === 'number' && !Number.isNaN(value),
}
/** A time, or how long it takes, µs. */
export const MICROSECONDS: Kind = {
  give: 'microseconds, 0 or more',
  takes: (value) => typeof value === 'number' && value >= 0,
}
export const PROBABILITY: Kind = {
  give: 'a probability from 0 to 1',
  takes: (value) => typeof value === 'number' && value >= 0 && value <= 1,
}
export const UDP_PORT: Kind = integer(0, 65_535)

export const CLOCK: Kind = having(['schedule', 'cancel'], 'a clock')
export const RANDOM: Kind = having(['next', 'below', 'chance'], 'a Random')
export const NVDIMM: Kind = having(['store', 'clean', 'fence', 'readable'], 'an Nvdimm')
export const HOST_MEMORY: Kind = having(['dmaWrite', 'dmaRead', 'comeBack'], 'a HostMemory')
export const RAM: Kind = having(['dmaWrite', 'dmaRead', 'loadWord'], 'a HostRam')
export const PEERS_LIST: Kind = having(['keep'], 'a PeersList')
export const PCIE_LINK: Kind = having(['attach', 'write', 'read', 'watch'], 'a PcieLink')
export const NETWORK: Kind = having(['attach', 'detach', 'forward'], 'an EthernetSwitch')
