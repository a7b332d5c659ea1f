/**
 * PUBLISH: what a port of RDMA-CM offers, who may connect to it, and the end of that.
 *
 * Invariants:
 * - A port publishes one region, and nobody but who published it, and our own host, points it
 *   elsewhere.
 * - A card with peers publishes only where it is said that clients without sessions may come. What
 *   they may write of records no session writes: who has no tags could be anybody on the path, and
 *   shares no record with who relies on them. Whoever changes what such a port offers, or withdraws
 *   it, ends its connections; so what stands in the table of ports is all that such clients reach.
 * - Of an open card connections that are open stay as they are.
 */

import type { BoardState } from '../board/context.ts'
import {
  type Fault,
  NO_REGION,
  PASS,
  PORT_TAKEN,
  REQUEST,
  SERVICES_FULL,
  STOCK_UNSAID,
} from '../board/fault.ts'
import { QUEUE_PAIRS } from '../board/limits.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  KIND_BYTES,
  KIND_ON_DEMAND,
  KIND_RECORDS,
  PLACEMENT_RELAY,
  REMOTE_WRITE,
  type Region,
  WRITE_PERSIST,
} from '../medium/region.ts'
import type { SessionState } from '../session/context.ts'
import { grantAgain } from '../session/grants.ts'
import { hasPeers } from '../session/sessions.ts'
import { ETH_SOURCE, MAC_BYTES } from '../wire/ethernet.ts'
import { IPV4_ADDRESS_BYTES, IPV4_SOURCE } from '../wire/ipv4.ts'
import { IPV6_ADDRESS_BYTES, IPV6_SOURCE } from '../wire/ipv6.ts'
import { FORM_ANNOUNCED, FORM_LIBRPMA, FORM_NONE } from '../wire/management.ts'
import type { Packet } from '../wire/packet.ts'
import type { ConnectContext, Service, Source } from './context.ts'
import { dismissAll } from './room.ts'
import { regionOfService } from './services.ts'
import { areSameSources } from './sources.ts'

/** What is to be published. */
interface Publication {
  readonly port: number
  readonly region: Region | null
  readonly form: number
  /** 0: all that the region has. */
  readonly rights: number
  /** Clients without sessions may come. */
  readonly stock: boolean
  /** Connections at once; 0: any number. */
  readonly connections: number
  /** Who may connect; nobody named is anybody. */
  readonly sources: readonly Source[]
  /** The datagram that asks for it; null: our own host. */
  readonly packet: Packet | null
}

/** What changes records. */
const CHANGES: number = WRITE_PERSIST | REMOTE_WRITE

/**
 * Publishes the region on that port; FORM_NONE ends what the port publishes. Only who published it,
 * and our own host, may change or end it while its region is there. Faults: REQUEST, PORT_TAKEN,
 * NO_REGION, SERVICES_FULL, STOCK_UNSAID.
 */
export function publish(state: ConnectContext & SessionState, publication: Publication): Fault {
  const { port, form, packet } = publication
  const { services } = state.connections
  if (port === 0 || form > FORM_ANNOUNCED) return REQUEST
  const taken = services.find((service) => service.port === port)
  if (taken !== undefined && !mayRepublish(state, taken, packet)) {
    return isRepublished(taken, publication) ? PASS : PORT_TAKEN
  }
  if (form === FORM_NONE) {
    if (taken !== undefined) withdrawPort(state, taken)
    return PASS
  }
  const fault = publicationFault(state, publication)
  if (fault !== PASS) return fault
  if (taken !== undefined && isRepublished(taken, publication)) return PASS
  const service = taken ?? services.find(({ port: used }) => used === 0)
  if (service === undefined) return SERVICES_FULL
  if (taken !== undefined) withdrawPort(state, taken)
  fill(state, service, publication)
  grantStock(state)
  return PASS
}

function publicationFault(state: SessionState, publication: Publication): Fault {
  const { region, form, rights, stock } = publication
  if (region === null) return NO_REGION
  // What lies with another DPU is published by that one; what the host registered on demand is its
  // own to tell of.
  if (region.placement === PLACEMENT_RELAY || region.kind === KIND_ON_DEMAND) return REQUEST
  if ((rights & ~region.rights) !== 0) return REQUEST
  if (form === FORM_LIBRPMA && region.kind !== KIND_BYTES) return REQUEST
  return hasPeers(state) && !stock ? STOCK_UNSAID : PASS
}

function fill(state: BoardState, service: Service, publication: Publication): void {
  const { port, region, form, rights, stock, connections, sources, packet } = publication
  service.port = port
  service.regionId = region!.id
  service.form = form
  service.rights = rights === 0 ? region!.rights : rights
  service.stock = stock
  service.most = connections === 0 ? QUEUE_PAIRS : connections
  service.sources = sources
  service.owner = publisherOf(state.bytes, packet)
}

/** The port publishes nothing any more. */
function withdrawPort(state: ConnectContext & SessionState, service: Service): void {
  const { port } = service
  service.port = 0
  if (!hasPeers(state)) return
  dismissAll(state, port)
  grantStock(state)
}

/** The region has ended, and no port publishes it any more. */
export function withdrawRegion(state: ConnectContext & SessionState, { id }: Region): void {
  for (const service of state.connections.services) {
    if (service.port !== 0 && service.regionId === id) withdrawPort(state, service)
  }
}

/** Decides again which records are written by clients without sessions, and by nobody else. */
function grantStock(state: ConnectContext & SessionState): void {
  const { sessions, connections } = state
  let regions = 0
  for (const service of connections.services) {
    const region = service.port === 0 ? null : regionOfService(state, service)
    const changes = (service.rights & CHANGES) !== 0
    if (region?.kind === KIND_RECORDS && changes) regions |= 1 << region.index
  }
  const changed = regions ^ sessions.stockRegions
  sessions.stockRegions = regions
  for (let i = 0; i < state.regions.places.length; i++) {
    if ((changed & (1 << i)) !== 0) grantAgain(state, i, true)
  }
}

/** Asks it for what the port publishes already? Nothing changes, and the port stays whose it is. */
function isRepublished(service: Service, publication: Publication): boolean {
  const { region, form, rights, stock, connections, sources } = publication
  if (region === null || service.regionId !== region.id || service.form !== form) return false
  if (service.rights !== (rights === 0 ? region.rights : rights)) return false
  if (service.stock !== stock || !areSameSources(service.sources, sources)) return false
  return service.most === (connections === 0 ? QUEUE_PAIRS : connections)
}

/** May who sent that packet say what the port publishes? */
function mayRepublish(
  state: BoardState & MemoryState,
  service: Service,
  packet: Packet | null,
): boolean {
  if (packet === null || regionOfService(state, service) === null) return true
  return service.owner === publisherOf(state.bytes, packet)
}

/** The addresses, of Ethernet and of IP, that the packet came from; nothing for our own host. */
function publisherOf(bytes: Uint8Array, packet: Packet | null): string {
  if (packet === null) return ''
  const isIpv4 = packet.ipVersion === 4
  const station = packet.frameAt + ETH_SOURCE
  const from = packet.ipAt + (isIpv4 ? IPV4_SOURCE : IPV6_SOURCE)
  const length = isIpv4 ? IPV4_ADDRESS_BYTES : IPV6_ADDRESS_BYTES
  const address = bytes.slice(from, from + length)
  return `${bytes.slice(station, station + MAC_BYTES).join(':')} ${address.join('.')}`
}
