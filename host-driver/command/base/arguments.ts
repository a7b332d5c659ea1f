/** Readers of what stands on the command line; each throws what is shown as a usage error. */

import { isIP, isIPv4 } from 'node:net'
import { InvalidArgumentError, Option } from 'commander'
import { KeyError, keyText, parseKey } from '../../../boards/software/keys.ts'
import { RECORD_BYTES_MAX, SLOTS_MAX } from '../../../firmware/board/limits.ts'
import { PATH_MTUS, type RegionRequest } from '../../control/management.ts'

/** A whole number of `least` or more, and of `most` or less where that is said. */
export function wholeNumber(
  least: number,
  most: number = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`
  return (text) => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`a whole number, ${range}`)
  }
}

/** `--engine`, where an image is booted in this process. */
export function engineOption(): Option {
  const option = new Option('--engine <engine>', 'what runs the firmware, for an image')
  return option.choices(['quickjs', 'node'])
}

/** `--path-mtu`, where much is sent or read. */
export function pathMtuOption(): Option {
  const option = new Option('--path-mtu <bytes>', 'payload of a packet; found by default')
  return option.choices(PATH_MTUS.map(String))
}

/** What `--path-mtu` says, for `connect`. */
export function pathMtuOf({ pathMtu }: { readonly pathMtu?: string }): { pathMtu?: number } {
  return pathMtu === undefined ? {} : { pathMtu: Number(pathMtu) }
}

/** A card on the network of another: its address, and a port of RDMA-CM there, or its key. */
export type FarCard =
  | { readonly address: string; readonly port: number }
  | { readonly address: string; readonly cardKey: string }

/** The port of RDMA-CM where none is said. */
export const CM_PORT = 7471

/**
 * 'perdure://KEY@address', or 'address[:port]'; an IPv6 address in brackets, or without them where
 * it has neither.
 */
export function farCard(text: string): FarCard {
  const scheme = 'perdure://'
  return text.startsWith(scheme) ? closedCard(text.slice(scheme.length)) : openCard(text)
}

/** 'KEY@address'. */
function closedCard(text: string): FarCard {
  const form = /^(?<key>[^@]*)@(?:\[(?<v6>[^[\]]+)\]|(?<v4>[^:[\]]+))$/.exec(text)?.groups
  const { key = '', v6, v4 = '' } = form ?? {}
  const isAddress = v6 === undefined ? isIPv4(v4) : isIP(v6) === 6 && !v6.includes('%')
  if (!isAddress) throw new InvalidArgumentError('perdure://KEY@address, without a port')
  try {
    return { address: v6 ?? v4, cardKey: keyText(parseKey(key)) }
  } catch (error) {
    if (error instanceof KeyError) throw new InvalidArgumentError(error.message)
    throw error
  }
}

function openCard(text: string): FarCard {
  const form = /^(?:\[(?<v6>[^[\]]+)\]|(?<v4>[^:[\]]+))(?::(?<port>\d{1,5}))?$/.exec(text)?.groups
  const address = form === undefined ? text : (form.v6 ?? form.v4 ?? '')
  const isAddress = form?.v4 === undefined ? isIP(address) === 6 : isIPv4(address)
  const port = Number(form?.port ?? CM_PORT)
  if (isAddress && !address.includes('%') && port >= 1 && port <= 65535) return { address, port }
  throw new InvalidArgumentError(
    'perdure://KEY@address, or address[:port], the port 1 to 65535, as 10.0.0.3 or [fd00::3]:7300',
  )
}

/** A probability, 0 to 1. */
export function probability(text: string): number {
  const value = Number(text)
  if (text === '' || !(value >= 0 && value <= 1)) throw new InvalidArgumentError('from 0 to 1')
  return value
}

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 }

/** A size in bytes: '4096', '64K', '16M', '1G', also as 'KiB' and so on. */
export function size(text: string): number {
  const match = /^(\d+)([kmg]?)(?:i?b)?$/i.exec(text)
  const value = Number(match?.[1]) * (UNITS[match?.[2]?.toLowerCase() ?? ''] ?? Number.NaN)
  if (!Number.isSafeInteger(value)) throw new InvalidArgumentError('bytes, or as 64K, 16M, 1G')
  return value
}

/** A range of slots, both ends included: '3', '0..15'. */
export interface SlotRange {
  readonly first: number
  readonly last: number
}

export function slotRange(text: string): SlotRange {
  const match = /^(\d+)(?:\.\.(\d+))?$/.exec(text)
  const first = Number(match?.[1])
  const last = Number(match?.[2] ?? match?.[1])
  if (!(first <= last)) throw new InvalidArgumentError('a slot, or first..last')
  return { first, last }
}

/** A region to be made: 'name:slots:capacity[:copies]'; may be given several times. */
export function regionRequest(text: string, before: RegionRequest[] = []): RegionRequest[] {
  const match = /^([^:]+):(\d+):([^:]+)(?::([234]))?$/.exec(text)
  if (match === null) throw new InvalidArgumentError('name:slots:capacity[:copies], copies 2 to 4')
  const [, name, slots, capacity, copies] = match
  const request = { name: name!, slots: Number(slots), capacity: size(capacity!) }
  if (!(request.slots >= 1 && request.slots <= SLOTS_MAX)) {
    throw new InvalidArgumentError(`slots: 1 to ${SLOTS_MAX}`)
  }
  if (!(request.capacity >= 1 && request.capacity <= RECORD_BYTES_MAX)) {
    throw new InvalidArgumentError(`capacity: 1 to ${RECORD_BYTES_MAX} bytes`)
  }
  return [...before, { ...request, copies: Number(copies ?? 2) }]
}

/** Bytes of a path that the address of a socket has room for; more would be cut by the system. */
const SOCKET_PATH_BYTES = 107

/** The path of 'unix:path'. */
export function unixSocket(text: string): string {
  if (!/^unix:./.test(text)) throw new InvalidArgumentError('unix:path')
  const path = text.slice('unix:'.length)
  const bytes = Buffer.byteLength(path)
  if (bytes <= SOCKET_PATH_BYTES) return path
  throw new InvalidArgumentError(`its path has ${bytes} bytes: ${SOCKET_PATH_BYTES} at most`)
}

/** A name; may be given several times. */
export function names(text: string, before: string[] = []): string[] {
  return [...before, text]
}

/** A record of a region: 'region:record'; may be given several times. */
export interface RecordName {
  readonly region: string
  readonly record: number
}

export function recordName(text: string, before: RecordName[] = []): RecordName[] {
  const match = /^(.+):(\d+)$/.exec(text)
  if (match === null) throw new InvalidArgumentError('region:record')
  return [...before, { region: match[1]!, record: Number(match[2]) }]
}

/** An option that may be repeated: every value of it. */
export function several(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value]
}
