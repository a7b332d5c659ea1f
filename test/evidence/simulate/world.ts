/**
 * A world of simulated hosts and DPUs in virtual time, on the firmware's own core, and the judges
 * of what it does (O1 to O7 of the crash model).
 *
 * Invariants:
 * - What happens follows from script and seed alone, whatever the engine: no clock, no other
 *   chance.
 * - The judges know the wire and the medium from the diagrams, and nothing of the firmware.
 * - The first violation ends a world: what comes behind it proves nothing.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import type { KeyPair } from '../../../firmware/session/noise.ts'
import { type Boot, Card, type Status } from './card.ts'
import {
  BYTES,
  CALLER,
  Client,
  type Connection,
  DOWN,
  distance,
  type Ending,
  isInStatus,
  isRelayed,
  queuePairIn,
  RECORDS,
  receiptOf,
  type Surroundings,
  UP,
} from './client.ts'
import { Attacker } from './closed/attacker.ts'
import { cardKey, keysOfHost, OPERATOR_KEYS } from './closed/identities.ts'
import { PeerEnd } from './closed/peer-end.ts'
import {
  ACKNOWLEDGE,
  ATOMIC_ACK,
  DATAGRAM,
  get24,
  get32,
  HEAD_AT,
  Path,
  PERSIST_ACK,
  put16,
  put32,
  READ_FIRST,
} from './frames.ts'
import { HostedJudge, type HostedPlace } from './hosted-judge.ts'
import { BATCH_CELL, CELLS, Judge } from './judge.ts'
import {
  DATA_AT,
  INCARNATION_LAST,
  isOverfull,
  isWornOut,
  layoutOf,
  regionCount,
  wholePages,
} from './medium.ts'
import { Lane, Network } from './network.ts'
import type { Kind, Operation } from './operation.ts'
import { BYPASS, OwnHost, type Party, THROUGH } from './own-host.ts'
import { choiceOf, type Phase, phaseOf } from './power.ts'
import { Care } from './relays/care.ts'
import { Lines } from './relays/lines.ts'
import { ALL_CARDS, cardOf } from './relays/links.ts'
import { bootRenewed } from './renewed.ts'
import { KEPT_BYTES, type Shape, type World } from './shape.ts'

export interface PlayOptions {
  readonly boot?: Boot
  readonly steps?: number
  readonly world?: World
  /** Somebody is inside the network, and the cards have peers. */
  readonly attacked?: boolean
  /** Every command list goes into the hash. */
  readonly trace?: boolean
  /** Is told what happens, line by line. */
  readonly tell?: (line: string) => void
}

export interface Played {
  readonly hash: number
  readonly operations: number
  readonly cuts: number
  /** At most one: it ends the world. */
  readonly violations: readonly string[]
  readonly cells: Readonly<Record<string, number>>
  readonly counts: Readonly<Record<string, number>>
  /** Steps that were played. */
  readonly steps: number
}

/** What is counted: a part has no incarnation left. */
export const WORN_OUT = 'part worn out'
/** A start with more clients than the table of operations has places; more lost than its list. */
export const MORE_CLIENTS = 'more clients than places'
export const MORE_LOST = 'more lost than places'

/** Copies that a fence may take back in a failing save. */
const ADR_FENCES = 3
const METHOD_GET = 1
const METHOD_SET = 2
const FORMAT = 0x11
const PROVISION = 0x12
const OPEN = 0x13
const SERVING = 1
/** What STATUS says of who may come. */
const OPEN_ACCESS = 1
const PEERS_ACCESS = 2
/** Behind the last region: nobody may store there. */
const RED_ZONE_BYTES = 4096
/** Slices that the largest region of a world is made in, at the most. */
const SLICES_MOST = 1_000
/** Lines that a recovery may read where no region is scanned: table, lanes, what lanes name. */
const LINES_MOST = 4096

/** Refusals after which an operation, sent once, is never done. */
const NEVER = [0x82, 0x83, 0x85, 0x89, 0x8a, 0x8b, 0x8c, 0x8e, 0x90, 0x91, 0x93]
/** Whose answer says durable where the region is registered write-persist. */
const DURABLE_AT_ONCE: readonly Kind[] = ['write', 'add', 'atomicWrite']
/** Syndromes from here on are no acknowledgements. */
const RNR_NAK = 0x20
/** Syndrome of a NAK that says that packets are missing. */
const SEQUENCE_NAK = 0x60
/** Syndrome of a READ of a record that is lost, or that its medium does not deliver. */
const UNSETTLED = 0x63
/** So many commands are never executed. */
const NEVER_DUE = 2 ** 40

/** Where a frame of a card has the last byte of the address of its host. */
const TO_HOST = 33

/** A card, its judge, and the connections to it. */
export interface Site {
  readonly card: Card
  readonly judge: Judge
  readonly clients: Client[]
  readonly path: Path
  /** Health of the part, as the world has made it. */
  isClosed: boolean
  saveFailed: boolean
  /** Strategy and phase of the last cut. */
  cutName: string
  cutPhase: Phase | 'recovery'
  /** It is in its start, and its medium was looked at behind the last one. */
  starting: boolean
  isJudged: boolean
  /** The energy of its last save failed: nothing is promised of that. */
  isForgiven: boolean
  readonly connections: Map<number, Connection>
  /** The host behind the card, and the judges of the regions in its memory. */
  readonly own: OwnHost | null
  readonly hosted: HostedJudge[]
  /** Judges of the regions of records that are not the card's: of its host, or of a relay. */
  readonly others: Judge[]
  /** Who went last, and how what had gone came back; null when that was judged. */
  went: Party | null
  back: string
}

/** The judge of the records of that region. */
export function judgeOf(site: Site, { region }: Pick<Operation, 'region'>): Judge {
  return region === 0 ? site.judge : site.others[region - 1]!
}

/** Regions in the memory of the own host, by placement. */
const PLACED = [
  { name: 'bypass', placement: BYPASS },
  { name: 'through', placement: THROUGH },
] as const

/** Turns in which a region in the host's memory is written back. */
const FORM_TURNS = 200
/** Clients of which the table of operations knows the last ones. */
const CLIENTS_KEPT = 128

export class SimulatedWorld implements Surroundings {
  nowUs: number
  readonly shape: Shape
  readonly sites: Site[] = []
  readonly clients: Client[] = []
  readonly lanes: Lane[] = []
  readonly network: Network
  readonly cells: Record<string, number> = {}
  readonly counts: Record<string, number> = {}
  readonly tell: ((line: string) => void) | null
  hash = 0
  operations = 0
  cuts = 0
  /** Grows with everything that happens: the time of the judges. */
  tick = 1
  uids = 0
  batches = 0
  violation: string | null = null
  /** A part is lost for good. */
  isOver = false
  private hostIds = 0
  private peers = 0
  /** Draws what begins beside its end. */
  private readonly endings: Random
  /** Where no step gives its own. */
  readonly chance: Random
  private readonly boot: Boot
  private readonly trace: boolean
  private readonly attacker: Attacker | null
  /** The relays between the cards; null where there are none. */
  readonly care: Care<Site> | null

  constructor(shape: Shape, seed: number, options: PlayOptions) {
    this.shape = shape
    this.nowUs = shape.begunUs
    this.batches = shape.ends.batchesBefore
    this.endings = new Random(seed ^ 0x656e6473)
    this.network = new Network(new Random(seed ^ 0x6e657477))
    this.network.faultsIn65536 = shape.network
    const { attacked, relays = false } = shape
    this.attacker = attacked ? new Attacker(new Random(seed ^ 0x6a6f6c6c), relays) : null
    const lines = Array.from({ length: shape.cards }, (_, card) => {
      return new Lines(card, (card + shape.cards - 1) % shape.cards)
    })
    this.care = relays ? new Care(this, lines) : null
    this.network.intruder = this.attacker
    this.chance = new Random(seed ^ 0x686f7374)
    this.boot = options.boot ?? ((machineFor) => bootRenewed(machineFor()))
    this.trace = options.trace ?? false
    this.tell = options.tell ?? null
  }

  get operationsBefore(): number {
    return this.shape.operationsBefore
  }

  get hasBytes(): boolean {
    return this.shape.bytes > 0
  }

  get isHosted(): boolean {
    return this.shape.hosted
  }

  get hasRelays(): boolean {
    return this.care !== null
  }

  get isAttacked(): boolean {
    return this.attacker !== null
  }

  /** The cards have peers, and everybody comes in a session. */
  private get isClosed(): boolean {
    return this.isAttacked || this.hasRelays
  }

  /** Does it ask for records of the card alone? */
  isLocal({ index, relayKey }: Client): boolean {
    if (this.hasRelays) return relayKey === null
    return !this.isHosted || index % this.shape.clients === 0
  }

  regionsOf(client: Client): readonly string[] {
    if (this.hasBytes) return [RECORDS, BYTES]
    return !this.isHosted || this.isLocal(client)
      ? [RECORDS]
      : [RECORDS, ...PLACED.map(({ name }) => name)]
  }

  get mtu(): number {
    return this.shape.mtu
  }

  get copies(): number {
    return this.shape.copies
  }

  /** Makes the cards, formats them, and lets the clients connect. */
  async begin(random: Random): Promise<void> {
    const { shape } = this
    for (let index = 0; index < shape.cards; index++) await this.addCard(index, random)
    for (const site of this.sites) {
      for (let host = 1; host <= shape.hosts; host++) {
        for (let i = 0; i < shape.clients; i++) this.addClient(site, host)
      }
    }
    if (this.care === null) return
    for (const site of this.sites) site.others.push(this.care.next(site).judge)
  }

  private async addCard(index: number, random: Random): Promise<void> {
    const { shape } = this
    const stride = 64 + Math.ceil(shape.capacity / 64) * 64
    const records = shape.copies * wholePages(shape.slots * stride)
    const bytes = DATA_AT + records + (this.hasBytes ? 4096 : 0) + RED_ZONE_BYTES
    const own = this.isHosted ? this.ownHost(4096 + 2 * records + RED_ZONE_BYTES) : null
    const card = new Card({
      ...{ index, bytes, adrFences: shape.adr ? ADR_FENCES : 0, boot: this.boot },
      psns: shape.ends.psns ? this.endings.fork() : null,
      sent: (from, frame) => this.sent(from, frame),
      struck: () => this.struck(this.sites[index]!),
      watch: this.trace ? { trace: (traced) => this.mixBytes(traced) } : undefined,
      far: own,
      operator: this.isClosed ? this.endOf(OPERATOR_KEYS, index) : null,
      overheard: (frame) => this.attacker?.overhear(card.inbox, frame),
      peers: this.care?.lines[index] ?? null,
    })
    const path = new Path(0, index)
    const booted = card.powerOn(random, () => {})
    if (booted !== undefined) await booted
    card.ask(path, 1, METHOD_SET, FORMAT, 0, (body) => random.fill(body, 0, 16))
    provision(card, path, (body) => {
      body.set(Buffer.from(RECORDS))
      put32(body, 32, shape.slots)
      put32(body, 36, shape.capacity)
      body[40] = shape.copies
    })
    const hosted = own === null ? [] : this.placeRegions(card, own, path, random)
    if (this.hasBytes) {
      provision(card, path, (body) => {
        body.set(Buffer.from(BYTES))
        body[40] = 1
        body[41] = 1
        put16(body, 42, shape.bytes === KEPT_BYTES ? 2 : 0)
        put32(body, 52, 4096)
      })
    }
    const { worn } = shape.ends
    if (worn !== null) {
      card.age(worn)
      const again = card.powerOn(this.endings, () => {})
      if (again !== undefined) await again
    }
    const clients = shape.hosts * shape.clients
    const judge = new Judge(card.part, this.hasBytes, clients, (what) => this.blame(what))
    if (shape.adr) judge.expectFailingSaves()
    this.sites.push({
      ...{ card, judge, clients: [], path, isClosed: false, saveFailed: false },
      ...{ cutName: '', cutPhase: 'nothing', starting: false, isJudged: true, isForgiven: false },
      ...{ connections: new Map(), own, hosted, others: [...hosted], went: null, back: '' },
    })
  }

  private ownHost(bytes: number): OwnHost {
    const world = this
    const own = new OwnHost(bytes, {
      get nowUs() {
        return world.nowUs
      },
      set nowUs(us) {
        world.nowUs = us
      },
      ask: (method, attribute, fill) => {
        const { card, path } = own.with!
        world.tick += 1
        return card.isOn ? card.ask(path, world.tick, method, attribute, 0, fill) : null
      },
    })
    own.tell = this.tell
    return own
  }

  /** Makes the regions in the host's memory, each while the host is set up for it. */
  private placeRegions(card: Card, own: OwnHost, path: Path, random: Random): HostedJudge[] {
    own.with = { card, path }
    own.aim(random)
    own.tellLink()
    const places = PLACED.map(({ placement }, place) => {
      own.lose(random)
      own.comeBack(placement === THROUGH)
      if (!own.driverOn()) throw new Error('the memory of a host is not taken')
      return placedRegion(card, own, path, this.shape, place)
    })
    const ends = [places[1]!.layout.at, own.memory.bytes]
    return places.map((place, i) => {
      return new HostedJudge({ ...place, end: ends[i]! }, (what) => this.blame(what))
    })
  }

  private endOf(keys: KeyPair, card: number): PeerEnd {
    return new PeerEnd(keys, cardKey(card), this.endings.fork())
  }

  private addClient(site: Site, host: number): void {
    const { index } = site.card
    const end = this.isClosed ? this.endOf(keysOfHost(host), index) : null
    const client = new Client(this, this.clients.length, host, index, this.nextHostId(), end)
    this.clients.push(client)
    site.clients.push(client)
    this.lanes.push(new Lane(false))
  }

  nextHostId(): number {
    this.hostIds += 1
    return this.hostIds
  }

  nextNumber(client: Client): number {
    this.peers += 1
    return ((this.peers << 8) | client.index) & 0xffffff
  }

  connected(connection: Connection): void {
    const { client, peer } = connection
    const site = this.sites[client.card]!
    site.connections.set(peer, connection)
    // What the connection before may still do to the cells, nobody can say.
    site.judge.loose.add(site.clients.indexOf(client))
  }

  posted(client: Client, operation: Operation): void {
    this.tick += 1
    if (this.tell !== null) this.tellPosted(client, operation)
    const site = this.sites[client.card]!
    if (operation.version !== null) judgeOf(site, operation).touched.add(operation.slot)
    if (operation.kind === 'read') operation.register!.readBegins(operation.begun)
  }

  private tellPosted(client: Client, operation: Operation): void {
    const { kind, id, slot, tries, version, region } = operation
    const { connection, index } = client
    const where = this.hasRelays ? 'by a relay' : PLACED[region - 1]?.name
    const which = region === 0 ? `record ${slot}` : `record ${slot} ${where}`
    const of = kind === 'read' ? ` of ${which}` : ''
    const what = version === null ? of : ` version ${version.uid} of ${which}, operation ${id}`
    const again = tries > 1 ? `, for the ${tries}th time` : ''
    this.tell!(`    ${this.tick} client ${index}: ${kind}${what}${again}, PSN ${connection!.psn}`)
  }

  send(client: Client, frame: Uint8Array): void {
    this.tick += 1
    const { card } = this.sites[client.card]!
    if (card.isOn) this.network.send(card.inbox, frame, this.nowUs)
  }

  /** A card sent a frame. */
  private sent(card: Card, frame: Uint8Array): void {
    this.tick += 1
    const opcode = frame[42]!
    const peer = get24(frame, 47)
    this.mix(get32(frame, frame.length - 4))
    this.tell?.(`    ${this.tick} card ${card.index}: ${told(frame)}`)
    const site = this.sites[card.index]
    if (site === undefined || this.goesToCard(card, frame)) return
    this.judgeSession(site, peer, frame)
    this.judgeNumber(site, peer, frame)
    if (isAnswer(opcode)) this.judgeTaken(site, peer, frame)
    if (opcode === PERSIST_ACK) this.judgeReceipt(site, peer, frame)
    else if (opcode === ACKNOWLEDGE && frame[HEAD_AT] === UNSETTLED) {
      this.judgeRefusal(site, peer, get24(frame, 51))
    }
    const index = opcode === DATAGRAM ? peer - CALLER : peer & 0xff
    const made = opcode === DATAGRAM && !this.isClosed ? queuePairIn(frame) : 0
    if (made !== 0) this.network.noteQueuePair(frame[TO_HOST]!, made)
    const lane = this.lanes[index]
    if (lane !== undefined) this.network.send(lane, frame, this.nowUs)
  }

  /** Is it to another card, or to all of them? Then it goes there. */
  private goesToCard({ index }: Card, frame: Uint8Array): boolean {
    const { care, sites } = this
    if (care === null) return false
    const to = cardOf(frame)
    if (to === ALL_CARDS) {
      for (const { card } of sites) if (card.index !== index) this.carry(index, card, frame)
      return true
    }
    const site = sites[to]
    if (site === undefined) return false
    const wrong = care.judge(index, to, frame)
    if (wrong !== null) this.blame(wrong)
    this.carry(index, site.card, frame)
    return true
  }

  private carry(from: number, { index, isOn, inbox }: Card, frame: Uint8Array): void {
    if (isOn && !this.care!.isCut(from, index)) this.network.send(inbox, frame, this.nowUs)
  }

  mix(word: number): void {
    this.hash = (Math.imul(this.hash ^ word, 0x9e3779b1) + (this.hash >>> 15)) | 0
  }

  private mixBytes(bytes: Uint8Array): void {
    for (let i = 0; i + 4 <= bytes.length; i += 4) this.mix(get32(bytes, i))
  }

  /**
   * Of a closed card: no call is answered that was not made, and no request more often than it was
   * sent, however often the frame that made it comes.
   */
  private judgeSession(site: Site, peer: number, frame: Uint8Array): void {
    if (!this.isClosed) return
    if (frame[42] === DATAGRAM) {
      for (const end of [site.card.operator, ...site.clients.map((client) => client.end)]) {
        const wrong = end?.sees(frame) ?? null
        if (wrong !== null) this.blame(wrong)
      }
      return
    }
    // One that a restart met as it was being made is in no list.
    const { connection = null } = this.clients[peer & 0xff] ?? {}
    if (connection?.peer !== peer || connection.tags === null) return
    connection.tags.heard.add(frame)
    const hasData =
      frame[42]! >= READ_FIRST && frame[42]! <= ATOMIC_ACK && frame[42] !== ACKNOWLEDGE
    if (!hasData || frame[42] === READ_FIRST + 1 || frame[42] === READ_FIRST + 2) return
    const psn = get24(frame, 51)
    const left = (connection.asked.get(psn) ?? 0) - 1
    connection.asked.set(psn, left)
    if (left < 0) this.blame(`PSN ${psn} is answered more often than it was sent`)
  }

  /**
   * No answer is to a request that was never sent; and who says that packets are missing has seen
   * one behind them, which may be an old frame that the network brings again.
   */
  private judgeNumber(site: Site, peer: number, frame: Uint8Array): void {
    const connection = site.connections.get(peer)
    // Who has not heard yet where it begins has sent nothing; what comes is to an earlier one.
    if (connection?.way === undefined || connection.way === null) return
    // A part that is worn out has no numbers left: frames to an earlier queue pair fit a new one.
    if (connection.incarnation === INCARNATION_LAST) return
    if (frame[42] === DATAGRAM) return
    const psn = get24(frame, 51)
    const saysGap = frame[42] === ACKNOWLEDGE && frame[HEAD_AT] === SEQUENCE_NAK
    if (saysGap && this.shape.network > 0) return
    if (distance(connection.psn, psn) >= (saysGap ? 2 : 1)) return
    if (this.isNumberOfBefore(connection)) return
    const what = saysGap ? 'a gap is told of' : 'there is an answer'
    this.blame(`${what} at PSN ${psn}, and its client begins the next request at ${connection.psn}`)
  }

  /**
   * Has a client of the same host a connection of before a restart, of which it has not heard yet,
   * to a queue pair of the same number? Of a number 16 bits are drawn, so that comes about; what it
   * sends goes to the queue pair that has the number now, which cannot tell. Its keys are others.
   */
  private isNumberOfBefore({ client, way, incarnation }: Connection): boolean {
    return this.clients.some(({ host, connection: other }) => {
      if (host !== client.host || other === null || other.incarnation === incarnation) return false
      return other.way !== null && other.way.queuePair === way?.queuePair
    })
  }

  /**
   * Every answer acknowledges what came before it, and a NAK, except for its own PSN, no less: so
   * each plain WRITE of a record there is durable, in all copies, as it leaves. Whether its client
   * hears it is no matter: what the card denied before in a NAK that is lost is found all the same.
   * An answer to what its client has not sent yet is none to what it has (`judgeNumber`).
   */
  private judgeTaken(site: Site, peer: number, frame: Uint8Array): void {
    const isNak = frame[42] === ACKNOWLEDGE && frame[HEAD_AT]! >= RNR_NAK
    const upTo = (get24(frame, 51) - (isNak ? 1 : 0)) & 0xffffff
    const connection = site.connections.get(peer)
    if (connection === undefined || distance(connection.psn, upTo) < 1) return
    for (const { operation, last } of connection.requests) {
      if (operation.kind !== 'record' || distance(upTo, last) < 0) continue
      judgeOf(site, operation).acknowledge(operation, this.copies, true, this.tick)
    }
  }

  private judgeReceipt(site: Site, peer: number, frame: Uint8Array): void {
    const connection = site.connections.get(peer)
    if (connection === undefined) return
    const receipt = receiptOf(frame)
    for (const { operation, last } of connection.requests) {
      if (receipt.isBatch) {
        if (operation.batch === null || operation.batch.id !== receipt.batchId) continue
        if (!isInStatus(frame, operation.index)) continue
        const isFirst = operation.tries === 1
        judgeOf(site, operation).acknowledge(operation, operation.wait, isFirst, this.tick)
        continue
      }
      if (receipt.status !== 0) return
      if (distance(last, receipt.first) < 0 || distance(last, receipt.last) > 0) continue
      if (receipt.isQuery) {
        const { target } = operation
        if (target !== null) judgeOf(site, target).acknowledge(target, 1, false, this.tick)
      } else if (operation.id !== 0) {
        const isFirst = operation.tries === 1
        judgeOf(site, operation).acknowledge(operation, receipt.copies, isFirst, this.tick)
      }
    }
  }

  answered(client: Client, operation: Operation): void {
    const site = this.sites[client.card]!
    const { judge, clients } = site
    const { kind, data, cell, begun } = operation
    if (kind === 'read')
      judgeOf(site, operation).judgeRead(operation, this.packetOf(operation), this.tick)
    else if (kind === 'look') {
      const words = new DataView(data!.buffer)
      for (let i = 0; i < data!.length / 8; i++) {
        const low = words.getInt32(8 * i, true)
        const least = i === BATCH_CELL ? operation.value : undefined
        judge.judgeLook(cell + i, low, words.getInt32(8 * i + 4, true), begun, least)
      }
    } else if (operation.snapshot !== null) {
      const { snapshot } = operation
      const base = clients.indexOf(client) * CELLS
      if (judge.loose.has(base / CELLS)) return
      for (let i = 0; i < CELLS; i++) {
        const known = judge.cells[base + i]!
        if (snapshot[i]! > known.floor) known.floor = snapshot[i]!
      }
    }
  }

  /** Bytes of an answer that are surely of one execution: all, where it was asked for once. */
  private packetOf({ resent, length }: Operation): number {
    return resent || this.shape.network > 0 ? this.mtu : length
  }

  ended(client: Client, operation: Operation, how: Ending, code: number): void {
    const { version, kind } = operation
    const site = this.sites[client.card]!
    const { judge } = site
    this.count(`${kind} ${how}`)
    const isKept = DURABLE_AT_ONCE.includes(kind) || (kind === 'batch' && version === null)
    if (how === 'done' && isKept && this.shape.bytes === KEPT_BYTES) {
      const cell = judge.cells[operation.cell]!
      const isLoose = judge.loose.has(Math.floor(operation.cell / CELLS))
      if (!isLoose && operation.value > cell.floor) cell.floor = operation.value
    }
    if (kind === 'read') operation.register!.readEnds(operation.begun)
    if (version === null) return
    version.open = false
    const of = judgeOf(site, operation)
    const record = of.records[operation.slot]!
    if (how === 'done' && record.damage > 0) of.noteWritten(record)
    const isFinal = how === 'refused' && operation.tries === 1 && NEVER.includes(code)
    if (isFinal && version.promised === 0 && version.firstEnd === Infinity) version.refused = true
  }

  /**
   * A READ is refused now: when the answer is there, a write may have mended the record. Behind
   * stores that cannot become durable a part that is not well shows nothing.
   */
  private judgeRefusal(site: Site, peer: number, psn: number): void {
    const { card, connections, isClosed, saveFailed } = site
    if (!card.part.armed || isClosed || saveFailed) return
    for (const { operation, psn: first, last } of connections.get(peer)?.requests ?? []) {
      if (operation.kind !== 'read') continue
      if (distance(psn, first) < 0 || distance(psn, last) > 0) continue
      // A host that is away, or whose memory nobody has shown, delivers nothing.
      const placed = this.isHosted ? PLACED[operation.region - 1] : undefined
      if (placed !== undefined && !site.own!.isWellFor(placed.placement)) continue
      judgeOf(site, operation).judgeLoss(operation.slot)
    }
  }

  played(steps: number): Played {
    const { hash, operations, cuts, violation, cells, counts, network, sites, attacker } = this
    let acknowledged = 0
    let losses = 0
    for (const { judge } of sites) {
      acknowledged += judge.acknowledged
      losses += judge.losses
    }
    const violations = violation === null ? [] : [violation]
    const more = { ...counts, ...network.counts, ...attacker?.counts, acknowledged, losses }
    return { hash: hash >>> 0, operations, cuts, violations, cells, counts: more, steps }
  }

  count(name: string): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1
  }

  /** A card that is on and well answers on a connection that it made, if all frames get through. */
  gaveUp({ client, peer, psn, requests }: Connection): void {
    const { network, sites } = this
    // What another card has to take first may have to wait.
    if (requests.some(({ operation }) => isRelayed(operation))) return
    const { connections, card, isClosed, saveFailed } = sites[client.card]!
    if (!network.quiet && network.faultsIn65536 > 0) return
    if (!connections.has(peer) || !card.isOn || !card.part.armed || isClosed || saveFailed) return
    this.blame(`client ${client.index} is not answered any more, before PSN ${psn}`)
  }

  /** The first thing that must not be ends the world. */
  blame(what: string): void {
    this.violation ??= what
  }

  /** Frames go to and fro, so many times. */
  exchange(rounds: number, most: number): void {
    for (let round = 0; round < rounds; round++) {
      this.network.arrive(this.nowUs)
      for (const site of this.sites) this.serve(site, most)
      if (this.hasRelays) for (const site of this.sites) this.wake(site)
      for (const { own } of this.sites) own?.turn()
      this.deliver()
      this.nowUs += 7
    }
  }

  private serve(site: Site, most: number): void {
    const { card } = site
    while (card.isOn && card.inbox.frames.length > 0) {
      this.tick += 1
      card.serve(most, this.nowUs)
    }
    // Nobody is there.
    if (!card.isOn) card.inbox.frames = []
  }

  /** What the firmware waits for may be due. */
  private wake(site: Site): void {
    if (site.card.dueUs <= this.nowUs) this.idle(site)
  }

  private deliver(): void {
    const { lanes, clients } = this
    for (let i = 0; i < lanes.length; i++) {
      const lane = lanes[i]!
      if (lane.frames.length === 0) continue
      const frames = lane.take(Number.MAX_SAFE_INTEGER)
      this.tick += 1
      for (let j = 0; j < frames.length; j++) clients[i]!.receive(frames[j]!)
    }
  }

  idle(site: Site): void {
    this.tick += 1
    if (site.card.isOn) site.card.idle(this.nowUs)
  }

  /** Time for everybody to look at the clock. */
  ticks(): void {
    for (const client of this.clients) {
      if (client.state === DOWN) client.connect()
      else client.tick()
    }
    for (const site of this.sites) this.care?.tend(site)
  }

  /** It is the end, and not everybody has come to one. */
  blameUnfinished(): void {
    for (const { index, isIdle, state, underWay } of this.clients) {
      if (isIdle && state === UP) continue
      this.blame(`client ${index} did not come to an end, with ${underWay} under way`)
    }
  }

  /** Draws what the next cut of that card leaves. */
  aim(site: Site, random: Random, adrFail: boolean): void {
    const { name, choice } = choiceOf(random, site.judge.layout, adrFail)
    site.cutName = name
    site.card.arm(choice)
    site.own?.aim(random)
  }

  private struck(site: Site): void {
    const { judge, card } = site
    this.cuts += 1
    this.mix(card.machine!.commandCount)
    site.cutPhase = site.starting ? 'recovery' : phaseOf(card.part, judge.layout)
    for (const slot of judge.touched) judge.records[slot]!.touched = true
    for (const hosted of site.hosted) hosted.mayHide = true
    site.own?.cardGone()
    this.tell?.(
      `  the power goes: ${site.cutName}, at ${site.cutPhase}, ` +
        `behind ${card.machine!.commandCount} commands`,
    )
  }

  /**
   * Power comes back: up to `nested` more cuts while the card recovers. Then the medium is judged,
   * and most clients notice.
   */
  async restart(site: Site, random: Random, nested: number): Promise<void> {
    const { card, judge } = site
    let left = nested
    site.connections.clear()
    this.care?.restarted(site)
    for (;;) {
      site.starting = true
      const booted = card.powerOn(random, (machine) => {
        if (left > 0) this.aimAtStart(site, machine, random)
      })
      if (booted !== undefined) await booted
      const status = card.isOn ? card.status(site.path, this.nowUs) : null
      site.starting = false
      if (status !== null) {
        if (left > 0) card.machine!.armCut(NEVER_DUE)
        this.judgeStart(site, status)
        break
      }
      left -= 1
      if (left < 0) throw new Error('a card does not start, and nobody cut its power')
    }
    for (const client of site.clients) if (!random.chance(0.15)) client.connect()
    site.own?.tellLink()
    judge.loose.clear()
    this.tick += 1
  }

  private aimAtStart(site: Site, machine: EmulatedMachine, random: Random): void {
    this.aim(site, random, false)
    machine.armCut(random.below(120), random.chance(0.5) ? 0 : 8 * (1 + random.below(12)))
  }

  /** What the part says of itself behind a start, and what lies on it. */
  judgeStart(site: Site, { state, fault, linesRead, scanned, access }: Status): void {
    const { card, judge } = site
    if (access !== (this.isClosed ? PEERS_ACCESS : OPEN_ACCESS)) {
      this.blame('a card says that it is open and is not, or the other way')
    }
    if (state !== SERVING) {
      this.tell?.(`  the part does not serve: ${FAULTS[fault]!.name}`)
      site.isJudged = false
      if (site.isForgiven && FAULTS[fault]!.name === 'DAMAGED') {
        // A failing save may take back both pages of the superblock: the part says so, and is lost.
        this.count('part lost with its energy')
        this.isOver = true
        return
      }
      if (!card.part.armed || site.isClosed) return
      if (FAULTS[fault]!.name === 'SUPERBLOCK' && isWornOut(card.part)) {
        this.judgeWornOut(site)
        return
      }
      this.blame(`a part that is whole was refused at its start: ${FAULTS[fault]!.name}`)
      return
    }
    if (site.isForgiven && regionCount(card.part) < (this.hasBytes ? 2 : 1)) {
      this.judgeTakenBack(site)
      return
    }
    site.isJudged = true
    if (this.hostIds > CLIENTS_KEPT) this.count(MORE_CLIENTS)
    if (isOverfull(card.part, 0)) this.count(MORE_LOST)
    const became = judge.judgeRestart(this.tick)
    for (const hosted of site.hosted) hosted.judgeRestart()
    if (site.isForgiven) judge.endAmnesty()
    site.isForgiven = false
    const cell = `${site.cutName} × ${site.cutPhase} × ${became}`
    this.cells[cell] = (this.cells[cell] ?? 0) + 1
    const most = LINES_MOST + (scanned > 0 ? judge.layout.slots * this.copies * 20 : 0)
    if (linesRead > most) this.blame(`the recovery read ${linesRead} lines`)
  }

  /** The part has no incarnation left: all that it had is there, and it takes nothing more. */
  private judgeWornOut({ judge }: Site): void {
    judge.judgeRestart(this.tick)
    this.count(WORN_OUT)
    this.isOver = true
  }

  /** A failing save may take back that a region was made: whoever asks for it is told. */
  private judgeTakenBack({ card, path }: Site): void {
    const name = this.hasBytes && regionCount(card.part) > 0 ? BYTES : RECORDS
    const answer = card.ask(path, this.tick, METHOD_GET, OPEN, 0, (body) => {
      body.set(Buffer.from(name))
    })
    if (answer === null || FAULTS[answer.fault]!.name !== 'NO_REGION') {
      this.blame(`region ${name} was taken back with its energy, and is served`)
    }
    this.count('region lost with its energy')
    this.isOver = true
  }
}

/** A region of records in the memory of the card's own host, and its judge. */
function placedRegion(
  card: Card,
  own: OwnHost,
  path: Path,
  { slots, capacity, copies }: Shape,
  place: number,
): Omit<HostedPlace, 'end'> {
  const { name, placement } = PLACED[place]!
  provision(card, path, (body) => {
    body.set(Buffer.from(name))
    put32(body, 32, slots)
    put32(body, 36, capacity)
    body[40] = copies
    body[97] = placement
  })
  own.work(FORM_TURNS)
  const medium = own.memory.part
  const layout = layoutOf(card.part, place + 1)
  return { name, placement, page: card.part, medium, layout, troubles: () => own.troubles }
}

/** A region is made in slices: who asks is told that it is under way, until it is there. */
function provision(card: Card, path: Path, fill: (body: Uint8Array) => void): void {
  for (let asked = 1; asked <= SLICES_MOST; asked++) {
    const answer = card.ask(path, 1 + asked, METHOD_SET, PROVISION, 0, fill)
    const name = FAULTS[answer!.fault]!.name
    if (name === 'PASS') return
    if (name !== 'UNDER_WAY') throw new Error(`a region was refused: ${name}`)
  }
  throw new Error('a region is not made')
}

/** Has it the PSN of a request, and acknowledges what came before? */
function isAnswer(opcode: number): boolean {
  return (opcode >= READ_FIRST && opcode <= ATOMIC_ACK) || opcode === PERSIST_ACK
}

/** What a frame of a card says, for a story. */
function told(frame: Uint8Array): string {
  const opcode = frame[42]!
  const head = `opcode 0x${opcode.toString(16)} to ${get24(frame, 47)}, PSN ${get24(frame, 51)}`
  if (opcode === PERSIST_ACK) {
    const { status, first, last, copies, isQuery, isBatch } = receiptOf(frame)
    const kind = isQuery ? 'query ' : isBatch ? 'batch ' : ''
    const range = `PSN ${first} to ${last}`
    return `${head}: ${kind}status 0x${status.toString(16)} ${copies} copies, ${range}`
  }
  return opcode === DATAGRAM ? head : `${head}, syndrome 0x${frame[54]!.toString(16)}`
}
