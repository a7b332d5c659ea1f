/**
 * A client of a simulated host: a small reliable requester, written for the simulation alone. It
 * goes back N, repeats what is not answered, asks again for what is not acknowledged as durable,
 * and connects again when that does not help.
 *
 * Invariant: a durable record is asked for until it is acknowledged or refused, over any
 * number of connections, under one id; everything else ends with its connection, and its outcome
 * is then not known.
 */

import { datagram } from './card.ts'
import { clientHighOf } from './closed/identities.ts'
import type { PeerEnd, TagEnd } from './closed/peer-end.ts'
import {
  ACKNOWLEDGE,
  ATOMIC_ACK,
  DATAGRAM,
  get16,
  get24,
  get32,
  HEAD_AT,
  Path,
  PERSIST_ACK,
  put16,
  put32,
  READ_FIRST,
  READ_ONLY,
} from './frames.ts'
import { framesOf, type Operation, operationOf, packetsOf, type Way } from './operation.ts'

const RETRY_US = 1_000
const CALL_RETRY_US = 2_000
const RETRIES = 4
/** One in so many clients that come again in a session has the number that it had. */
const KEEPS_NUMBER = 2
const QUERY_METHOD_GET = 1
const METHOD_SET = 2
const OPEN = 0x13
const CONNECT = 0x20
const HANDSHAKE = 0x80
/** Datagrams of client c come from this queue pair plus c. */
export const CALLER = 0x100

/** What is counted: a request goes beyond the end, or the middle, of the PSNs. */
export const PAST_AN_END = 'PSNs past an end'

export const RECORDS = 'records'
export const BYTES = 'bytes'

/* Status of a PERSIST_ACK: to be sent again at once, and to be asked for later. */
const STAGING = 0x8d
const IN_DOUBT = 0x8f

/** What a PERSIST_ACK says. */
interface Receipt {
  readonly status: number
  readonly first: number
  readonly last: number
  readonly copies: number
  readonly isQuery: boolean
  readonly batchId: number
  readonly isBatch: boolean
}

/** A control call, and its body. */
const CALL_AT = 62
const BODY_AT = CALL_AT + 32
/** In the body of CONNECT: that packets are to have tags, and in its answer the keys. */
const TAGS_AT = 42
const TAG_KEYS_AT = BODY_AT + 44
const TAG_KEYS_BYTES = 64
/* The map of PAETH once more, as in support/judges/acknowledgement.ts: a judge shares no code. */
const PAETH_AT = HEAD_AT + 4
const BITMAP_AT = PAETH_AT + 32

export function receiptOf(frame: Uint8Array): Receipt {
  const flags = frame[PAETH_AT + 1]!
  return {
    status: frame[PAETH_AT + 2]!,
    first: get24(frame, PAETH_AT + 5),
    last: get24(frame, PAETH_AT + 9),
    copies: frame[PAETH_AT + 28]!,
    isQuery: (flags & 0x10) !== 0,
    isBatch: (flags & 0x20) !== 0,
    batchId: get16(frame, PAETH_AT + 12),
  }
}

/** Does the bitmap of the status of a batch name that record? */
export function isInStatus(frame: Uint8Array, index: number): boolean {
  const words = frame[PAETH_AT + 3]!
  if (index >> 5 >= words) return false
  return (get32(frame, BITMAP_AT + 4 * (index >> 5)) & (0x80000000 >>> (index & 31))) !== 0
}

/** The queue pair that an answer to CONNECT names; 0 if the datagram is none. */
export function queuePairIn(frame: Uint8Array): number {
  const isMade = frame[CALL_AT + 29] === 0 && get16(frame, CALL_AT + 16) === CONNECT
  return isMade ? get32(frame, BODY_AT + 24) : 0
}

/** How far `psn` is behind `from`, from -2^23 on. */
export function distance(psn: number, from: number): number {
  return ((psn - from) << 8) >> 8
}

/** An operation on its way. */
interface Request {
  readonly operation: Operation
  readonly psn: number
  readonly last: number
  readonly frames: readonly Uint8Array[]
  /** The transport has acknowledged it. */
  taken: boolean
}

/** A queue pair of the card, as its client has it. */
export class Connection {
  readonly client: Client
  readonly peer: number
  /** The transaction of the call that asks for it. */
  readonly call: number
  way: Way | null = null
  incarnation = 0
  psn = 0
  /** Sent and not ended, in the order of their PSNs. */
  requests: Request[] = []
  sentUs = 0
  tries = 0
  resendUs = 0
  /** Of a queue pair with tags. */
  tags: TagEnd | null = null
  /** How often a request was sent that the card has not answered, by its PSN. */
  readonly asked: Map<number, number> = new Map()

  constructor(client: Client, peer: number, call: number) {
    this.client = client
    this.peer = peer
    this.call = call
  }
}

/** What a client needs of its world. */
export interface Surroundings {
  /** µs. */
  readonly nowUs: number
  /** Operations that every client had before its first. */
  readonly operationsBefore: number
  readonly mtu: number
  readonly copies: number
  /** Their records may lie in the memory of the card's own host. */
  readonly isHosted: boolean
  /** Each has a relay: its second region of records lies with another card. */
  readonly hasRelays: boolean
  /** Names of the regions that the client opens, those of records first. */
  regionsOf(client: Client): readonly string[]
  /** A number that no queue pair and no call had before. */
  nextNumber(client: Client): number
  connected(connection: Connection): void
  /** An operation goes out, for the first time or over another connection. */
  posted(client: Client, operation: Operation): void
  send(client: Client, frame: Uint8Array): void
  /** An operation has ended: durable, answered, refused by that code, or given up. */
  ended(client: Client, operation: Operation, how: Ending, code: number): void
  answered(client: Client, operation: Operation): void
  /** Nothing is answered on that connection, however often it is asked for. */
  gaveUp(connection: Connection): void
  count(name: string): void
  blame(what: string): void
}

export type Ending = 'done' | 'refused' | 'unknown'

export const DOWN = 0
const ASKED = 1
export const UP = 2

export class Client {
  readonly index: number
  readonly host: number
  readonly card: number
  readonly path: Path
  /** Its name at the card; a host that died comes back under another. */
  id: number
  operations: number
  /** Number of its queue pair. */
  private peer = 0
  state: number = DOWN
  connection: Connection | null = null
  /** Durable records that have to be asked for again. */
  pending: Operation[] = []
  askedUs = 0
  /** Key of its relay, as the operator told it; null where it has none, or that takes nothing. */
  relayKey: number | null = null
  /** Its end of the session; null where the card is open. */
  readonly end: PeerEnd | null
  private readonly world: Surroundings
  /** Records in doubt: their client asks for them when it looks at the clock. */
  private doubtful: Operation[] = []
  /** Keys by the name of their region; what has not been answered yet, bit by bit. */
  private readonly keys: Map<string, number> = new Map()
  private names: readonly string[] = []
  private awaited = 0
  private callTries = 0

  constructor(
    world: Surroundings,
    index: number,
    host: number,
    card: number,
    id: number,
    end: PeerEnd | null,
  ) {
    this.world = world
    this.end = end
    this.index = index
    this.host = host
    this.card = card
    this.id = id
    this.operations = world.operationsBefore
    this.path = new Path(host, card)
  }

  /** Nothing is under way, and nothing waits. */
  get isIdle(): boolean {
    return this.underWay === 0
  }

  /** Operations under way. */
  get underWay(): number {
    const { connection, pending, doubtful } = this
    return (connection?.requests.length ?? 0) + pending.length + doubtful.length
  }

  /** Ends the connection on this side. What was under way and has a name waits for another one. */
  drop(): void {
    const { connection } = this
    this.state = DOWN
    if (connection === null) return
    this.connection = null
    // The requests stay with it: what the card may yet say of them is judged by the world.
    for (const { operation } of connection.requests) this.suspend(operation)
  }

  private suspend(operation: Operation): void {
    const { kind, target } = operation
    if (kind === 'persist' || kind === 'carried') this.pending.push(operation)
    else this.world.ended(this, operation, 'unknown', 0)
    if (target !== null && target.version !== null) this.pending.push(target)
  }

  /** The host died: nobody asks for anything again. */
  die(id: number): void {
    this.drop()
    for (const operation of this.pending) this.world.ended(this, operation, 'unknown', 0)
    for (const operation of this.doubtful) this.world.ended(this, operation, 'unknown', 0)
    this.pending = []
    this.doubtful = []
    this.relayKey = null
    this.id = id
    this.operations = this.world.operationsBefore
  }

  /** Asks for keys and a queue pair. */
  connect(): void {
    const { world, path } = this
    this.drop()
    this.state = ASKED
    this.askedUs = world.nowUs
    const call = world.nextNumber(this)
    const isSame = this.end !== null && this.peer !== 0 && (call >> 8) % KEEPS_NUMBER === 0
    if (!isSame) this.peer = call
    const connection = new Connection(this, this.peer, call)
    this.connection = connection
    this.callTries = 0
    this.names = world.regionsOf(this)
    this.awaited = 2 ** (this.names.length + 1) - 1
    this.end?.leave()
    world.connected(connection)
    this.call(path)
  }

  /** For a queue pair, and behind it for the keys, which nobody else is told. */
  private call(path: Path): void {
    const { world, index, connection, names, end } = this
    if (end?.isIn === false) {
      this.knock(end, path)
      return
    }
    if ((this.awaited & (1 << names.length)) === 0) {
      this.callForKeys(path)
      return
    }
    const frame = datagram(
      path,
      CALLER + index,
      connection!.call,
      METHOD_SET,
      CONNECT,
      0,
      (body) => {
        put32(body, 0, connection!.peer)
        put16(body, 8, world.mtu)
        put32(body, 20, this.id)
        if (end === null) return
        put32(body, 16, clientHighOf(this.host))
        body[TAGS_AT] = 1
      },
    )
    world.send(this, this.sealed(frame))
  }

  /** Asks for a session. */
  private knock(end: PeerEnd, path: Path): void {
    const { world, index, connection } = this
    const frame = datagram(
      path,
      CALLER + index,
      connection!.call,
      METHOD_SET,
      HANDSHAKE,
      0,
      (body) => body.set(end.hello()),
    )
    world.send(this, frame)
  }

  private sealed(frame: Uint8Array): Uint8Array {
    return this.end === null ? frame : this.end.seal(frame)
  }

  /** Sends a request, with a tag of its own each time. */
  private put(connection: Connection, frame: Uint8Array): void {
    const { tags, asked } = connection
    if (tags === null) {
      this.world.send(this, frame)
      return
    }
    const psn = get24(frame, 51)
    asked.set(psn, (asked.get(psn) ?? 0) + 1)
    this.world.send(this, tags.tag(frame))
  }

  private callForKeys(path: Path): void {
    const { world, index, names } = this
    for (const [i, name] of names.entries()) {
      if ((this.awaited & (1 << i)) === 0) continue
      const frame = datagram(path, CALLER + index, i, QUERY_METHOD_GET, OPEN, 0, (body) => {
        for (let c = 0; c < name.length; c++) body[c] = name.charCodeAt(c)
      })
      world.send(this, this.sealed(frame))
    }
  }

  /** Posts an operation. The connection must be up. */
  post(operation: Operation): void {
    const connection = this.connection!
    const way = connection.way!
    const packets = packetsOf(operation, way)
    const { psn } = connection
    const last = (psn + packets - 1) & 0xffffff
    const frames = framesOf(operation, way, psn)
    connection.psn = (last + 1) & 0xffffff
    operation.tries += 1
    this.world.posted(this, operation)
    if (((psn ^ connection.psn) & 0x800000) !== 0) this.world.count(PAST_AN_END)
    if (connection.requests.length === 0) {
      connection.sentUs = this.world.nowUs
      connection.tries = 0
    }
    connection.requests.push({ operation, psn, last, frames, taken: false })
    for (let i = 0; i < frames.length; i++) this.put(connection, frames[i]!)
  }

  /** A frame came for this client. */
  receive(came: Uint8Array): void {
    const opcode = came[42]!
    if (opcode === DATAGRAM) {
      this.receiveDatagram(came)
      return
    }
    const { connection } = this
    if (this.state !== UP || connection === null) return
    // What is late may be of a connection before.
    if (get24(came, 47) !== connection.peer) return
    const { tags } = connection
    const frame = tags === null ? came : tags.open(came, this.blames)
    if (frame === null) return
    const psn = get24(frame, 51)
    if (opcode >= READ_FIRST && opcode <= READ_ONLY) this.receiveData(connection, frame, psn)
    else if (opcode === ATOMIC_ACK) this.receiveData(connection, frame, psn)
    else if (opcode === ACKNOWLEDGE) this.receiveAck(connection, psn, frame[HEAD_AT]!)
    else if (opcode === PERSIST_ACK) {
      this.receiveAck(connection, psn, frame[HEAD_AT]!)
      if (this.connection === connection) this.receiveReceipt(connection, frame)
    }
  }

  private readonly blames = (what: string): void => this.world.blame(what)

  private receiveDatagram(frame: Uint8Array): void {
    const { end, path } = this
    if (end === null) {
      this.receiveCall(frame)
      return
    }
    const wasIn = end.isIn
    const opened = end.open(frame, this.blames)
    if (opened !== null) this.receiveCall(opened)
    else if (!wasIn && end.isIn && this.state === ASKED) this.call(path)
  }

  private receiveCall(frame: Uint8Array): void {
    const { connection } = this
    if (this.state !== ASKED || connection === null) return
    const attribute = get16(frame, CALL_AT + 16)
    const transaction = get32(frame, CALL_AT + 12)
    if (frame[CALL_AT + 29] !== 0) return
    if (attribute === OPEN) {
      const key = get32(frame, BODY_AT + 56)
      // A card that was started again since knows the queue pair no more, and tells none.
      if (key === 0) return
      this.keys.set(this.names[transaction]!, key)
      this.awaited &= ~(1 << transaction)
    } else if (attribute === CONNECT && transaction === connection.call) {
      const isFirst = (this.awaited & (1 << this.names.length)) !== 0
      this.awaited &= ~(1 << this.names.length)
      if (isFirst) this.callForKeys(this.path)
      connection.psn = get32(frame, BODY_AT + 28)
      connection.incarnation = get32(frame, BODY_AT + 32)
      connection.way = this.wayTo(queuePairIn(frame))
      if (this.end !== null) {
        const keys = frame.slice(TAG_KEYS_AT, TAG_KEYS_AT + TAG_KEYS_BYTES)
        connection.tags = this.end.tagEnd(keys, this.blames)
      }
    }
    if (this.awaited !== 0) return
    this.state = UP
    // Keys may have come behind the queue pair.
    connection.way = this.wayTo(connection.way!.queuePair)
    this.resume()
  }

  private wayTo(queuePair: number): Way {
    const { world, path, keys, names } = this
    const recordsKeys = names.filter((name) => name !== BYTES).map((name) => keys.get(name) ?? 0)
    if (world.hasRelays) recordsKeys.push(this.relayKey ?? 0)
    return {
      ...{ path, queuePair, mtu: world.mtu, copies: world.copies, recordsKeys },
      bytesKey: keys.get(BYTES) ?? 0,
      marksRepetitions: world.isHosted,
    }
  }

  /** The operator has its relay made: what waited for that goes out. */
  giveRelay(key: number): void {
    const { connection } = this
    this.relayKey = key
    if (this.state !== UP || connection === null) return
    connection.way = this.wayTo(connection.way!.queuePair)
    this.repost()
  }

  /** What may go out again now: all, but what has no relay. */
  private takePending(): Operation[] {
    const { pending, relayKey } = this
    if (!this.world.hasRelays || relayKey !== null) {
      this.pending = []
      return pending
    }
    this.pending = pending.filter(isRelayed)
    return pending.filter((operation) => !isRelayed(operation))
  }

  /** What waited goes out again: asked for, or sent at once under its id. */
  private resume(): void {
    for (const operation of this.takePending()) {
      const asks = (operation.id ^ this.world.nowUs) % 3 === 0
      if (asks) this.ask(operation)
      else this.post(operation)
    }
  }

  private ask(target: Operation): void {
    this.post(operationOf({ kind: 'query', target, begun: target.begun }))
  }

  private receiveAck(connection: Connection, psn: number, syndrome: number): void {
    const fatal = syndrome > 0x60
    const isNak = syndrome >= 0x20
    this.take(connection, isNak ? (psn - 1) & 0xffffff : psn)
    if (!isNak) return
    const { nowUs } = this.world
    if (!fatal) {
      // A gap is filled at once, once for each round; a receiver that is not ready gets its time.
      if (connection.resendUs <= nowUs) {
        if (syndrome === 0x60) this.resend(connection)
        connection.resendUs = nowUs + (syndrome === 0x60 ? 1 : 700)
      }
      return
    }
    const { requests } = connection
    const place = requests.findIndex((request) => {
      return distance(psn, request.psn) >= 0 && distance(psn, request.last) <= 0
    })
    const refused = place < 0 ? null : requests[place]!.operation
    if (refused !== null) {
      requests.splice(place, 1)
      if (isRelayed(refused)) this.loseRelay(refused)
      else this.world.ended(this, refused, 'refused', syndrome)
    }
    this.connect()
  }

  /** The card cannot say what became of it over there: it is asked for again, by another relay. */
  private loseRelay(operation: Operation): void {
    this.relayKey = null
    this.world.count('relay broken')
    this.suspend(operation)
  }

  /**
   * Everything up to that PSN was taken, but what has an answer of its own. Of one that was not
   * sent yet nothing is believed.
   */
  private take(connection: Connection, psn: number): void {
    const { requests } = connection
    if (distance(connection.psn, psn) < 1) return
    let ended = 0
    let progress = false
    for (let i = 0; i < requests.length; i++) {
      const request = requests[i]!
      if (distance(psn, request.last) < 0) break
      if (request.taken) continue
      if (hasAnswer(request.operation)) break
      request.taken = true
      progress = true
      if (endsWithAck(request.operation)) ended += 1
    }
    if (progress) this.moved(connection)
    if (ended > 0) this.endTaken(connection)
  }

  private moved(connection: Connection): void {
    connection.sentUs = this.world.nowUs
    connection.tries = 0
  }

  private endTaken(connection: Connection): void {
    const { requests } = connection
    connection.requests = requests.filter(({ taken, operation }) => {
      return !(taken && endsWithAck(operation))
    })
    for (const { taken, operation } of requests) {
      if (taken && endsWithAck(operation)) this.world.ended(this, operation, 'done', 0)
    }
  }

  /** A response with data: of the first request that is not answered, or of none. */
  private receiveData(connection: Connection, frame: Uint8Array, psn: number): void {
    const { requests } = connection
    const place = requests.findIndex(({ last }) => distance(psn, last) <= 0)
    if (place < 0) return
    const request = requests[place]!
    const { operation } = request
    if (distance(psn, request.psn) < 0 || !hasAnswer(operation)) return
    this.take(connection, (request.psn - 1) & 0xffffff)
    if (requests.some((earlier, i) => i < place && !earlier.taken)) return
    const isAtomic = frame[42] === ATOMIC_ACK
    const expected = (request.psn + Math.ceil(operation.got / connection.way!.mtu)) & 0xffffff
    const at = frame[42] === READ_FIRST + 1 ? HEAD_AT : HEAD_AT + 4
    const bytes = isAtomic ? 8 : frame.length - at - 4 - (frame[43]! >> 4)
    if (operation.length > 0 || isAtomic) {
      if (!isAtomic && psn !== expected) return
      operation.data ??= new Uint8Array(isAtomic ? 8 : operation.length)
      if (operation.got + bytes > operation.data.length) return
      operation.data.set(frame.subarray(at, at + bytes), operation.got)
      operation.got += bytes
      this.moved(connection)
      if (operation.got < operation.data.length) return
    }
    request.taken = true
    connection.requests = connection.requests.filter((other) => other !== request)
    this.moved(connection)
    this.world.answered(this, operation)
    this.world.ended(this, operation, 'done', 0)
  }

  /** What the card says of durability. */
  private receiveReceipt(connection: Connection, frame: Uint8Array): void {
    const receipt = receiptOf(frame)
    const { requests } = connection
    const { world } = this
    const ended: [Operation, Ending][] = []
    const kept = requests.filter((request) => {
      const { operation } = request
      const { last } = request
      if (receipt.isBatch) {
        if (operation.batch === null || operation.batch.id !== receipt.batchId) return true
        ended.push([operation, isInStatus(frame, operation.index) ? 'done' : 'unknown'])
        return false
      }
      if (distance(last, receipt.first) < 0 || distance(last, receipt.last) > 0) return true
      if (receipt.isQuery !== (operation.kind === 'query')) return true
      if (operation.kind === 'query') ended.push([operation, 'done'])
      else if (!isNamed(operation)) return true
      const about = operation.kind === 'query' ? operation.target : operation
      if (about === null) return false
      if (about.version === null) return false
      if (receipt.status === 0) ended.push([about, 'done'])
      else if (operation.kind === 'query') this.pending.push(about)
      else if (receipt.status === STAGING) this.pending.push(about)
      else if (receipt.status === IN_DOUBT && world.isHosted) this.doubtful.push(about)
      else ended.push([about, 'refused'])
      return false
    })
    if (kept.length !== requests.length) {
      connection.requests = kept
      this.moved(connection)
    }
    for (const [operation, how] of ended) this.world.ended(this, operation, how, receipt.status)
    if (this.state === UP && this.pending.length > 0) this.repost()
  }

  /** What the card does not know, or had no room for, is sent again under its id. */
  private repost(): void {
    for (const operation of this.takePending()) this.post(operation)
  }

  /** Sends again what is not acknowledged. */
  private resend(connection: Connection): void {
    for (const { taken, frames, operation } of connection.requests) {
      if (taken) continue
      operation.got = 0
      operation.resent = true
      for (let i = 0; i < frames.length; i++) this.put(connection, frames[i]!)
    }
  }

  /** Looks at the clock. */
  tick(): void {
    const { world, connection } = this
    const { nowUs } = world
    if (this.state === ASKED) {
      if (nowUs - this.askedUs < CALL_RETRY_US) return
      this.askedUs = nowUs
      this.callTries += 1
      if (this.callTries > RETRIES) this.connect()
      else this.call(this.path)
      return
    }
    if (this.state !== UP || connection === null) return
    this.askAgain()
    if (connection.requests.length === 0) return
    if (nowUs - connection.sentUs < RETRY_US || nowUs < connection.resendUs) return
    connection.sentUs = nowUs
    connection.tries += 1
    if (connection.tries > RETRIES) {
      world.gaveUp(connection)
      this.connect()
      return
    }
    const waiting = connection.requests.filter(({ taken }) => taken)
    if (waiting.length === connection.requests.length) this.askFor(connection, waiting)
    else this.resend(connection)
  }

  /** What was in doubt may be decided by now. */
  private askAgain(): void {
    const { doubtful } = this
    this.doubtful = []
    for (const operation of doubtful) this.ask(operation)
  }

  /** Received and not durable yet, as far as we know. */
  private askFor(connection: Connection, waiting: readonly Request[]): void {
    connection.requests = []
    for (const { operation } of waiting) {
      const { kind, target } = operation
      if (kind === 'persist' || kind === 'carried') this.ask(operation)
      else this.world.ended(this, operation, 'unknown', 0)
      if (target !== null && target.version !== null) this.ask(target)
    }
  }
}

function isNamed({ kind }: Operation): boolean {
  return kind === 'persist' || kind === 'carried' || kind === 'batch' || kind === 'stops'
}

/** Does it go to a record that lies with another card? */
export function isRelayed({ version }: Operation): boolean {
  return version !== null && version.names !== null
}

/** Has it an answer of its own, behind which no acknowledgement passes? */
function hasAnswer({ kind }: Operation): boolean {
  return (
    kind === 'read' ||
    kind === 'look' ||
    kind === 'flush' ||
    kind === 'add' ||
    kind === 'swap' ||
    kind === 'atomicWrite'
  )
}

/** Is it over when the transport has acknowledged it? */
function endsWithAck({ kind }: Operation): boolean {
  return kind === 'write' || kind === 'record' || kind === 'wrong'
}
