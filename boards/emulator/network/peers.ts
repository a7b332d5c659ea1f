/**
 * Whose an Ethernet address is: the same rules as `boards/linux/src/link/known/peers.c`.
 *
 * Invariants:
 * - An address belongs to the endpoint from which it was first heard, until it was not heard from
 *   there for PEER_OWNED_US. Meanwhile nobody else has it: what another sends in its name is to be
 *   dropped whole, for it would draw answers that are the owner's, or act in the owner's name.
 * - An endpoint has at most so many addresses: its own oldest makes room for a new one.
 * - At most PEERS_MAX addresses are remembered. One that was heard for PEER_SETTLES_US and longer
 *   is settled, SETTLED_MAX at a time: it makes no room for others before its time is over. So
 *   whoever comes finds room, and no flood of new addresses pushes out who is connected.
 *
 * Who comes again with the same address from another endpoint waits for PEER_OWNED_US: neither
 * ICMP, which can be forged, nor the other's host tells surely that an endpoint is gone.
 */

/**
 * Longer than a client of ours is silent while it waits for an answer, unless it was told to wait
 * longer: it asks again. Who waits for messages alone may be silent for longer.
 */
export const PEER_OWNED_US = 60_000_000

/** An address that lasts so long is worth more than new ones. */
export const PEER_SETTLES_US = 1_000_000

export const PEERS_MAX = 1024

/** Of these; the others are for those who come. */
export const SETTLED_MAX = 768

/**
 * Of these, addresses behind a port of a switch that leads to a network, as a tunnel does: whoever
 * is there leaves room for what is at the other ports.
 */
export const NETWORK_PEERS_MAX: number = PEERS_MAX / 2

/** Addresses of one endpoint, which may be a network of its own. */
export const ENDPOINT_PEERS_MAX = 64

interface Peer<At> {
  readonly mac: string
  readonly endpoint: unknown
  at: At
  readonly firstUs: number
  heardUs: number
  /** Grows with each hearing of any: tells apart what was heard at the same time. */
  order: number
}

export class Peers<At> {
  /** Both in the order of hearing, the oldest first. */
  private readonly settled = new Map<string, Peer<At>>()
  private readonly guests = new Map<string, Peer<At>>()
  private readonly byEndpoint = new Map<unknown, Map<string, Peer<At>>>()
  private readonly now: () => number
  private hearings = 0

  /** `now` tells microseconds, and never goes back. */
  constructor(now: () => number) {
    this.now = now
  }

  get size(): number {
    return this.settled.size + this.guests.size
  }

  /**
   * An address was heard from that endpoint, which is reached by `at` and may have `most` of them.
   * False: it is another's.
   */
  hear(mac: string, endpoint: unknown, at: At, most: number = ENDPOINT_PEERS_MAX): boolean {
    const nowUs = this.now()
    const known = this.peerOf(mac)
    if (known !== undefined) {
      if (known.endpoint === endpoint) {
        known.at = at
        this.touch(known, nowUs)
        return true
      }
      if (nowUs - known.heardUs < PEER_OWNED_US) return false
      this.forget(known)
    }
    this.makeRoom(endpoint, most, nowUs)
    const order = ++this.hearings
    const peer: Peer<At> = { mac, endpoint, at, firstUs: nowUs, heardUs: nowUs, order }
    this.guests.set(mac, peer)
    const others = this.byEndpoint.get(endpoint)
    if (others === undefined) this.byEndpoint.set(endpoint, new Map([[mac, peer]]))
    else others.set(mac, peer)
    return true
  }

  /** Where the address was heard. */
  find(mac: string): At | undefined {
    return this.peerOf(mac)?.at
  }

  /** Each endpoint once, as it was heard last. */
  *everybody(): Iterable<At> {
    for (const peers of this.byEndpoint.values()) yield newest(peers.values()).at
  }

  /** The endpoint is gone, and its addresses are free. */
  leave(endpoint: unknown): void {
    for (const peer of this.byEndpoint.get(endpoint)?.values() ?? []) this.forget(peer)
  }

  private peerOf(mac: string): Peer<At> | undefined {
    return this.settled.get(mac) ?? this.guests.get(mac)
  }

  private touch(peer: Peer<At>, nowUs: number): void {
    const { mac } = peer
    const isSettled = this.settled.delete(mac)
    if (!isSettled) this.guests.delete(mac)
    peer.heardUs = nowUs
    peer.order = ++this.hearings
    const settles = isSettled || (nowUs - peer.firstUs >= PEER_SETTLES_US && this.seats(nowUs))
    if (settles) this.settled.set(mac, peer)
    else this.guests.set(mac, peer)
  }

  /** Whether one more can settle; one whose time is over goes for it. */
  private seats(nowUs: number): boolean {
    if (this.settled.size < SETTLED_MAX) return true
    const idle = this.idleSettled(nowUs)
    if (idle !== null) this.forget(idle)
    return idle !== null
  }

  /** The settled one that was not heard for longest, if its time is over. */
  private idleSettled(nowUs: number): Peer<At> | null {
    const [oldest] = this.settled.values()
    return oldest !== undefined && nowUs - oldest.heardUs >= PEER_OWNED_US ? oldest : null
  }

  private makeRoom(endpoint: unknown, most: number, nowUs: number): void {
    const own = this.byEndpoint.get(endpoint)
    if (own !== undefined && own.size >= most) this.forget(oldest(own.values()))
    if (this.size < PEERS_MAX) return
    const [guest] = this.guests.values()
    this.forget(this.idleSettled(nowUs) ?? guest!)
  }

  private forget({ mac, endpoint }: Peer<At>): void {
    if (!this.settled.delete(mac)) this.guests.delete(mac)
    const own = this.byEndpoint.get(endpoint)!
    own.delete(mac)
    if (own.size === 0) this.byEndpoint.delete(endpoint)
  }
}

function oldest<At>(peers: Iterable<Peer<At>>): Peer<At> {
  let found: Peer<At> | null = null
  for (const peer of peers) if (found === null || peer.order < found.order) found = peer
  return found!
}

function newest<At>(peers: Iterable<Peer<At>>): Peer<At> {
  let found: Peer<At> | null = null
  for (const peer of peers) if (found === null || peer.order > found.order) found = peer
  return found!
}

/** Time that never goes back, microseconds. */
export function steadyUs(): number {
  return performance.now() * 1000
}
