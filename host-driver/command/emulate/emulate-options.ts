/** Readers of what only `perdure emulate` has on its command line. */

import { isIPv4, isIPv6 } from 'node:net'
import { InvalidArgumentError } from 'commander'
import { DEFAULT_PORT, NVDIMM_BYTES_MAX } from '../../../boards/emulator/index.ts'
import {
  COPIES_MIN,
  LINE_BYTES,
  ON_DEMAND_PAGES,
  PAGE_BYTES,
  PAGES_AT_ONCE,
} from '../../../firmware/board/limits.ts'
import { DATA_AT } from '../../../firmware/medium/superblock.ts'
import { cardAt } from '../../base/addresses.ts'
import { type MemoryPiece, PIECES } from '../../base/pieces.ts'
import type { RegionRequest } from '../../control/management.ts'
import { PLACEMENTS, type RegionPlacement } from '../../control/part.ts'
import { regionRequest, size, unixSocket } from '../base/arguments.ts'
import { type Order, orderOf } from './orders.ts'

export interface Address {
  readonly host: string
  readonly port: number
}

/** 'address:port', an IPv6 address in brackets; port 0 lets the system choose. */
export function udpAddress(text: string): Address {
  const match = /^(?:\[([0-9a-f:.%\w]+)\]|([^:[\]]+)):(\d{1,5})$/i.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65535) throw new InvalidArgumentError('address:port')
  return { host: match[1] ?? match[2]!, port }
}

/** Addresses of the card: what `--ip` named, of either family at most one. */
export interface CardAddresses {
  readonly ipv4?: readonly number[]
  readonly ipv6?: readonly number[]
}

export function ipAddress(text: string, before: CardAddresses = {}): CardAddresses {
  if (isIPv4(text) && before.ipv4 === undefined) {
    return { ...before, ipv4: text.split('.').map(Number) }
  }
  if (isIPv6(text) && !text.includes('%') && before.ipv6 === undefined) {
    return { ...before, ipv6: ipv6Bytes(text) }
  }
  throw new InvalidArgumentError('an IPv4 address, an IPv6 address, or one of each')
}

/** What a card states of its port. */
type PortAddresses = Required<CardAddresses> & { readonly mac: readonly number[] }

/**
 * All addresses of a card that was given these: two cards of different IPv4 addresses differ in
 * every one. An IPv6 address that nobody has given ends like the IPv4 address.
 */
export function portAddresses({ ipv4, ipv6 }: CardAddresses = {}): PortAddresses {
  const endpoint = cardAt(ipv4)
  const head = DEFAULT_PORT.ipv6.slice(0, -3)
  return { ...endpoint, ipv6: ipv6 ?? [...head, ...endpoint.ipv4.slice(1)] }
}

/** The sixteen bytes of an address that `isIPv6` has taken. */
function ipv6Bytes(text: string): number[] {
  // A dotted quad at the end is two groups more.
  const plain = text.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, a, b, c, d) => {
    const group = (high: string, low: string): string =>
      (Number(high) * 256 + Number(low)).toString(16)
    return `${group(a, b)}:${group(c, d)}`
  })
  const [head = '', tail] = plain.split('::')
  const groups = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
  const left = groups(head)
  const right = tail === undefined ? [] : groups(tail)
  const zeros = new Array<number>(8 - left.length - right.length).fill(0)
  return [...left, ...zeros, ...right].flatMap((group) => [group >> 8, group & 0xff])
}

/** Where a region lies: with the card, or in the host's persistent memory, as that is proven. */
export type Place = RegionPlacement | 'host'

const PLACES: readonly Place[] = [...PLACEMENTS, 'host']

/** A region that RDMA-CM clients get at a port. */
export interface PublishRequest {
  readonly bytes: number
  readonly port: number
  /** Every store into it that is acknowledged is durable. */
  readonly writePersist: boolean
  readonly placement: Place
}

/** What the region at that port is called. */
export function portName(port: number): string {
  return `port-${port}`
}

/** What is said of a port whose region is registered write-persist. */
const WRITE_PERSIST = 'write-persist'
const PUBLISH_FORMS =
  'size@port or size@port,write-persist, the port 1 to 65535; behind it perhaps a placement: ' +
  `,${PLACES.join(' ,')}`

/** 'size@port[,write-persist][,placement]'; may be given several times. */
export function publishRequest(text: string, before: PublishRequest[] = []): PublishRequest[] {
  const [shape = '', ...words] = text.split(',')
  const [bytes = '', port = '', ...more] = shape.split('@')
  const number = Number(port)
  const places = words.filter((word) => word !== WRITE_PERSIST)
  const placement = PLACES.find((one) => one === (places[0] ?? 'local'))
  const writePersist = words.length > places.length
  const isTwice = places.length > 1 || words.length > places.length + 1
  const isPort = /^\d+$/.test(port) && number >= 1 && number <= 65535
  if (more.length > 0 || !isPort || isTwice || placement === undefined) {
    throw new InvalidArgumentError(PUBLISH_FORMS)
  }
  if (before.some((one) => one.port === number)) {
    throw new InvalidArgumentError(`port ${number} has a region already`)
  }
  const request = { bytes: size(bytes), port: number, writePersist, placement }
  if (request.bytes === 0) throw new InvalidArgumentError('size: 1 byte or more')
  return [...before, request]
}

/** Memory of a host behind the card: so many bytes, of which so many have a place at a time. */
export interface MemoryRequest {
  readonly name: string
  readonly bytes: number
  readonly mapped: number
}

/** 'name,bytes,mapped', whole pages. */
export function memoryRequest(text: string): MemoryRequest {
  const match = /^([^,]+),([^,]+),([^,]+)$/.exec(text)
  if (match === null) throw new InvalidArgumentError('name,bytes,mapped')
  const [, name, ...sizes] = match
  const [bytes, mapped] = sizes.map((one) => size(one)) as [number, number]
  const most = ON_DEMAND_PAGES * PAGE_BYTES
  if (bytes % PAGE_BYTES !== 0 || bytes === 0 || bytes > most) {
    throw new InvalidArgumentError(`bytes: whole pages of ${PAGE_BYTES}, up to ${most}`)
  }
  const least = PAGES_AT_ONCE * PAGE_BYTES
  if (mapped % PAGE_BYTES !== 0 || mapped < Math.min(least, bytes)) {
    throw new InvalidArgumentError(`mapped: whole pages of ${PAGE_BYTES}, ${least} or more`)
  }
  return { name: name!, bytes, mapped: Math.min(mapped, bytes) }
}

/** What a part needs for itself, and a page for each copy of a region, bytes. */
const PART_BYTES_MIN = DATA_AT + COPIES_MIN * PAGE_BYTES

/** The size of a part, bytes: whole pages. */
export function partSize(text: string): number {
  return pages(text, PART_BYTES_MIN)
}

function pages(text: string, least: number): number {
  const bytes = size(text)
  if (bytes >= least && bytes % PAGE_BYTES === 0 && bytes <= NVDIMM_BYTES_MAX) return bytes
  const range = `${least} to ${NVDIMM_BYTES_MAX} (1G)`
  throw new InvalidArgumentError(`bytes: whole pages of ${PAGE_BYTES}, ${range}`)
}

/** Memory that a host behind PCIe shares, bytes: whole lines. */
export function sharedMemory(text: string): number {
  const bytes = size(text)
  if (bytes > 0 && bytes % LINE_BYTES === 0 && bytes < 2 ** 31) return bytes
  throw new InvalidArgumentError(`bytes: whole lines of ${LINE_BYTES}, less than ${2 ** 31} (2G)`)
}

/** Persistent memory of a host behind the card: in that file, or in memory. */
export interface PersistentRequest {
  readonly bytes: number
  readonly path?: string
}

/** 'bytes' or 'bytes,file', whole pages. */
export function persistentRequest(text: string): PersistentRequest {
  const [first = '', ...rest] = text.split(',')
  const bytes = pages(first, PAGE_BYTES)
  const path = rest.join(',')
  if (rest.length > 0 && path === '') throw new InvalidArgumentError('bytes, or bytes,file')
  return { bytes, ...(path === '' ? {} : { path }) }
}

/** 'bytes@at', several of them with commas between: whole pages, none in another's bytes. */
export function memoryPieces(text: string): readonly MemoryPiece[] {
  const pieces = text.split(',').map((one) => {
    const [bytes = '', at = ''] = one.split('@')
    return { at: size(at), bytes: size(bytes) }
  })
  if (PIECES.takes(pieces)) return pieces
  throw new InvalidArgumentError(`bytes@at, as 256K@512K,128K@0: ${PIECES.give}`)
}

/** A region of records, of the card or of its host. */
export interface PlacedRequest extends Omit<RegionRequest, 'placement'> {
  readonly placement: Place
}

/** Instead of a placement: a pair region, which lies in the card's own NVDIMM. */
const PAIR = 'pair'

/** 'name:slots:capacity[:copies][@placement]'; may be given several times. */
export function placedRegion(text: string, before: PlacedRequest[] = []): PlacedRequest[] {
  // A name may have an @, too: what follows that has colons.
  const [, shape = text, places = ''] = /^(.*?)((?:@[^@:]*)*)$/.exec(text) ?? []
  const words = places.split('@').slice(1)
  if (words.length > 1 && words.includes(PAIR)) {
    throw new InvalidArgumentError("a pair region lies in the card's own NVDIMM: say @pair alone")
  }
  if (words.length > 1) throw new InvalidArgumentError('one placement at the most')
  const [word = 'local'] = words
  const isPair = word === PAIR
  const placement = PLACES.find((one) => one === (isPair ? 'local' : word))
  if (placement === undefined) {
    const known = [...PLACES, PAIR].join(', ').replace(/, (\w+)$/, ' or $1')
    throw new InvalidArgumentError(`'${word}' is no placement: ${known}`)
  }
  const [request] = regionRequest(shape)
  return [...before, { ...request!, placement, ...(isPair && { pair: true }) }]
}

/** What is ordered of it when it serves; may be given several times. */
export function orderRequest(text: string, before: readonly Order[] = []): readonly Order[] {
  try {
    return [...before, orderOf(text)]
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message)
  }
}

/** Where SMP is asked: a path of a Unix socket, or an address of UDP. */
export type SmpAddress = { readonly path: string } | Address

/** 'unix:path' or 'udp:address:port': where SMP is asked; may be given several times. */
export function smpAddress(text: string, before: SmpAddress[] = []): SmpAddress[] {
  if (text.startsWith('unix:')) return [...before, { path: unixSocket(text) }]
  if (!text.startsWith('udp:')) throw new InvalidArgumentError('unix:path or udp:address:port')
  return [...before, udpAddress(text.slice('udp:'.length))]
}
