/** What `connect` may be told, and what holds where it is told nothing. */

import { randomBytes } from 'node:crypto'
import {
  BOOLEAN,
  DOMAIN,
  DURATION,
  ENDPOINT,
  FUNCTION,
  instanceOf,
  integer,
  type Kind,
  type Kinds,
  oneOf,
  SIGNAL,
  wide,
} from '../base/kinds.ts'
import { printable } from '../base/printable.ts'
import type { Endpoint } from '../base/wire.ts'
import { CARD_KEY, OWN_KEY } from '../control/session-keys.ts'
import { DURABILITY, type Durability } from './durability.ts'
import { PcapWriter } from './pcap.ts'

/** What draws are made of. */
export const SEED: Kind = { give: 'a number', takes: (value) => Number.isFinite(value) }

export interface ConnectOptions {
  /** Level of every persist that names none; without it two copies are waited for. */
  readonly durability?: Durability
  /**
   * Payload bytes of a packet: 256, 512, 1024, 2048 or 4096; the DPU may grant less. Without it
   * 4096, and less where these do not come through (path-mtu.ts).
   */
  readonly pathMtu?: number
  /**
   * Who writes, 64 bits; random by default. It is given together with `firstOperation`: a record
   * under an operation that the part knows of this client is its repetition, and not stored again.
   */
  readonly clientId?: bigint
  /**
   * Operation id of the first record; 1 of a client that is drawn. Ids grow by one per record of a
   * client, and none is used for two records.
   */
  readonly firstOperation?: bigint
  /** Records, and bursts of batches, that may be unresolved at once, 1 to 128; 32 by default. */
  readonly inFlight?: number
  /** Messages of the DPU that may wait to be read (`dpu.messages`), 1 to 4096; 64 by default. */
  readonly receives?: number
  /** Longest wait for the DPU in one management call, ms; 5000 by default. */
  readonly timeoutMs?: number
  /** Deadline of every persist that names none, ms; none by default. */
  readonly deadlineMs?: number
  /** Local ACK timeout code t, 4.096 µs * 2^t; 14 (67 ms) by default. */
  readonly ackTimeoutCode?: number
  /** How long a received record waits for its PERSIST_ACK before it is asked for again, ms. */
  readonly persistTimeoutMs?: number
  /** Whether a broken connection is made again by itself; true by default. */
  readonly reconnect?: boolean
  /** How long that is tried, ms; 30000 by default. */
  readonly reconnectTimeoutMs?: number
  /**
   * Gets a sentence where what this DPU calls durable does not outlive the power, where the path
   * does not carry large packets, and where a region takes no guards; a warning of the process by
   * default (PerdureWarning, PERDURE_VOLATILE, PERDURE_PATH_MTU and PERDURE_GUARD).
   */
  readonly warn?: (text: string) => void
  /** Ends the attempt to connect, and later everything that is open. */
  readonly signal?: AbortSignal
  /** Gets every frame, both ways; there are none where the local card makes them. */
  readonly capture?: PcapWriter
  /**
   * Makes starting PSN, client id and addresses repeatable: for tests. Never use one seed twice at
   * a time, nor twice on one part: the later records would be repetitions of the earlier ones.
   */
  readonly seed?: number
  /**
   * Addresses in the frames; the emulator's and a random neighbour's by default. Over the queues of
   * the local card: the DPU that the card shall lead to, itself by default; `own` is the card's
   * then.
   */
  readonly peer?: Endpoint
  readonly own?: Endpoint
  /**
   * Whether each record brings the guard of its data (CRC-32C), which the DPU checks before it
   * stores the record, keeps with it, and gives back with every read. Where a region takes none,
   * records go without; if it is true, `warn` gets a sentence. As if it were true by default.
   */
  readonly guard?: boolean
  /** Protection domain, 0 to 65535; 0 by default. */
  readonly protectionDomain?: number
  /**
   * Our secret key, for a card with peers: its file, or its 32 bytes. By default it is read from
   * the file `$PERDURE_KEY`, or perdure/key below `$XDG_CONFIG_HOME` or ~/.config, where the key of
   * the card is known.
   */
  readonly key?: string | Uint8Array
  /**
   * The card's public key, 64 hexadecimal digits or 32 bytes, where the target does not name it.
   * Whoever names it gets a session, or an error.
   */
  readonly cardKey?: string | Uint8Array
}

/** Bytes of payload that a packet may have. */
export const PATH_MTU: Kind = oneOf([256, 512, 1024, 2048, 4096])

export const CAPTURE: Kind = instanceOf(PcapWriter, 'a PcapWriter')

export const CONNECT_KINDS: Kinds<ConnectOptions> = {
  ...{ durability: DURABILITY, pathMtu: PATH_MTU, inFlight: integer(1, 128) },
  ...{ clientId: wide(1n), firstOperation: wide(1n), receives: integer(1, 4096) },
  ...{ timeoutMs: DURATION, deadlineMs: DURATION, persistTimeoutMs: DURATION },
  ...{
    guard: BOOLEAN,
    reconnect: BOOLEAN,
    reconnectTimeoutMs: DURATION,
    ackTimeoutCode: integer(0, 31),
  },
  ...{ warn: FUNCTION, signal: SIGNAL, capture: CAPTURE, seed: SEED },
  ...{ peer: ENDPOINT, own: ENDPOINT, protectionDomain: DOMAIN },
  ...{ key: OWN_KEY, cardKey: CARD_KEY },
}

/** Tells whoever wants to hear of it, or warns the process. */
export function warn(options: ConnectOptions, text: string, code: string): void {
  const shown = printable(text)
  if (options.warn !== undefined) options.warn(shown)
  else process.emitWarning(shown, { type: 'PerdureWarning', code })
}

/** A source of 32-bit numbers: of the seed, or of the system. */
export function randomSource(seed: number | undefined): () => number {
  if (seed === undefined) return () => randomBytes(4).readUInt32LE()
  let state = seed | 0
  return () => {
    // splitmix32 (Steele, Lea, Flood 2014)
    state = (state + 0x9e3779b9) | 0
    let z = state ^ (state >>> 16)
    z = Math.imul(z, 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) >>> 0
  }
}
