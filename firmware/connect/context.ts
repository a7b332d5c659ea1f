/** Connections, links of our own, published services: the slice of the state that connect/ owns. */

import type { WorkContext } from '../burst/context.ts'
import type { CommitState } from '../commit/context.ts'
import type { MemoryState } from '../medium/context.ts'
import type { FrameContext } from '../transport/context.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import type { Packet } from '../wire/packet.ts'
import type { Active } from './active.ts'
import type { Entering } from './entering.ts'

export interface Resolution {
  phase: number
  ipVersion: number
  /** Four bytes or sixteen. */
  address: readonly number[]
  readonly mac: number[]
  triesLeft: number
  timerUs: number
}

/** Addresses that agree in their first bits. */
export interface Source {
  /** As IPv6 has it; that of IPv4 is mapped. */
  readonly address: Uint8Array
  /** Bits that count, up to 128. */
  readonly prefix: number
}

/** One port. */
export interface Service {
  /** 1 to 65535; 0 is a free place. */
  port: number
  regionId: number
  form: number
  /** Access flags (medium/region.ts) that connections to it get, at the most. */
  rights: number
  /** It is said to be for clients that have no sessions. */
  stock: boolean
  /** Connections that it has at once, at the most. */
  most: number
  /** Who may connect to it; nobody named is anybody. */
  sources: readonly Source[]
  /** The place that published it (publish.ts). */
  owner: string
}

/** A region of another card that is reached in a session there. */
export interface Inside {
  /** The other card's public key. */
  readonly key: readonly number[]
  /** The region's name over there, a character for each byte. */
  readonly region: string
}

/** Whom to connect to. */
export interface Target {
  readonly ipVersion: 4 | 6
  /** Four bytes or sixteen. */
  readonly address: readonly number[]
  /** Of RDMA-CM; 0 where it is reached in a session. */
  readonly port: number
  /** Absent, or null, where the port is to lead to it. */
  readonly inside?: Inside | null
  /** Bytes: 256, 512, 1024, 2048 or 4096. */
  readonly pathMtu: number
  readonly protectionDomain: number
  /** Who we say we are in the capability block; 0 is nobody. */
  readonly clientHigh: number
  readonly clientLow: number
}

/** Who asked for a connection. It sees more of the state than is handed over here. */
export interface LinkOwner {
  /** The queue pair may be used; the link says what the peer granted. */
  connected(state: ConnectContext, link: Link): void
  /** It never was (EVENT_REJECTED, EVENT_TIMED_OUT), or is over (EVENT_CLOSED). */
  ended(state: ConnectContext, link: Link, event: number): void
}

/** A connection of ours, in the making or made. */
export interface Link {
  readonly target: Target
  readonly owner: LinkOwner
  readonly connection: Connection
  readonly resolution: Resolution
  /** The peer's Ethernet address, as soon as it is known. */
  readonly mac: number[]
  /** One of them is there as soon as the Ethernet address is known. */
  active: Active | null
  entering: Entering | null
  closing: boolean
  ended: boolean
}

export interface Connection {
  readonly place: number
  phase: number
  /** Ours, and the peer's. */
  localId: number
  remoteId: number
  /** The peer's CA. */
  guidHigh: number
  guidLow: number
  /** Of the peer's part, if its capability block named one; else 0. */
  incarnation: number
  /** The port that it came to; 0 of a link of ours. */
  port: number
  /** Key of the region that the peer is to be told by a SEND, or 0. */
  announced: number
  qp: QueuePair | null
  /** The REP as it was sent, to be sent again as it is. */
  reply: Uint8Array
  /** Of the REP: how often it may be sent again, and how long is waited before. */
  triesLeft: number
  periodUs: number
  /** When something is to be done: REP again, or the end of the rest. Infinity is never. */
  timerUs: number
  connectedUs: number
  /** Where the connection is our own making; else null. */
  link: Link | null
}

export interface ConnectionTable {
  readonly places: readonly Connection[]
  readonly services: readonly Service[]
  /** Time of the burst, µs. */
  nowUs: number
  /** No timer of any place is due before this, µs. */
  timerUs: number
  /** Ethernet addresses that are being asked for. */
  readonly resolutions: readonly Resolution[]
  /** PSN of our next datagram: it runs freely (wire-format 1.6). */
  psn: number
  /** Answers like a queue pair to whom no connection belongs. */
  readonly blankPair: QueuePair
  /** A message in the making. */
  readonly message: Uint8Array
}

/** A datagram to QP 1 that waits for the burst to be settled. */
export interface WaitingManagement {
  /** Where the frame lies, and where its MAD. */
  frameAt: number
  madAt: number
  /** The queue pair to answer to. */
  peerNumber: number
  readonly packet: Packet
}

export interface ConnectState {
  readonly connections: ConnectionTable
}

/** Messages of RDMA-CM. */
export type CmContext = FrameContext & ConnectState

/** A connection is made, or ends. */
export type ConnectContext = WorkContext & MemoryState & CommitState & ConnectState
