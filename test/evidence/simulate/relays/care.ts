/**
 * Who looks after the relays of a world: the operators. Each client of a card has a relay of its
 * own there, to the records of the next card, and learns its key from the operator, as a driver has
 * it from the answer to ATTACH.
 *
 * Invariants:
 * - A client has a key as long as nobody has told it that the relay is gone: a restart of its card,
 *   or a refusal of what it sent.
 * - Where nobody is inside the network, a card says that it was refused over there only where its
 *   line was missing.
 * - Behind the answer to REMOVE_PEER a card answers the one that it was told of in the clear only.
 */

import { FAULTS } from '../../../../firmware/board/fault.ts'
import type { Card } from '../card.ts'
import { type Client, RECORDS } from '../client.ts'
import { cardKey, cardKeys, clientHighOf } from '../closed/identities.ts'
import { dpuIpv4, get32, type Path, put32 } from '../frames.ts'
import type { Lines } from './lines.ts'
import { Links } from './links.ts'
import { Names } from './names.ts'

const METHOD_SET = 2
const ATTACH = 0x41
const DETACH = 0x42
const ADD_PEER = 0x82
const REMOVE_PEER = 0x83
/* In the body of ATTACH, and of its answer. */
const VERSION_AT = 32
const ADDRESS_AT = 36
const CLIENT_AT = 52
const KEY_AT = 60
const REGION_AT = 92
const RKEY_AT = 56
/* In the body of ADD_PEER: one region, to write. */
const NAME_AT = 32
const REGIONS_AT = 66
const REGIONS_HERE_AT = 68
const RIGHT_AT = 72
const TO_WRITE = 2

/** A card, and who is its client. */
interface Tended {
  readonly card: Card
  readonly clients: readonly Client[]
  readonly path: Path
}

/** The world that they are in. */
interface Around<Site extends Tended> {
  readonly sites: readonly Site[]
  readonly clients: readonly Client[]
  readonly isAttacked: boolean
  readonly tell: ((line: string) => void) | null
  tick: number
  count(what: string): void
  blame(what: string): void
}

/** What the operator knows of a client's relay. */
interface Relay {
  /** The line was missing since it was there last: it may be refused, once more. */
  mayBeRefused: boolean
}

export class Care<Site extends Tended> {
  readonly links: Links = new Links()
  /** Names that the clients of each card have at the next one. */
  readonly names: readonly Names[]
  readonly lines: readonly Lines[]
  /** A wire between two cards on which frames get lost, one way or both; null where none is. */
  cut: { readonly from: number; readonly to: number; readonly both: boolean } | null = null
  private readonly world: Around<Site>
  /** Cards that have said that whoever relays to them comes no more. */
  private readonly closed: Set<number> = new Set()
  private readonly relays: Map<Client, Relay> = new Map()

  /** `lines[card]` is who may come to that card. */
  constructor(world: Around<Site>, lines: readonly Lines[]) {
    this.world = world
    this.lines = lines
    this.names = lines.map((_, card) => new Names(cardKey(card)))
  }

  /** The card that this one relays to. */
  next({ card }: Pick<Tended, 'card'>): Site {
    return this.world.sites[(card.index + 1) % this.lines.length]!
  }

  /** Has every client a relay? */
  get isWell(): boolean {
    return this.world.clients.every(({ relayKey }) => relayKey !== null)
  }

  isCut(from: number, to: number): boolean {
    const { cut } = this
    if (cut === null) return false
    const isBack = from === cut.to && to === cut.from
    return (from === cut.from && to === cut.to) || (cut.both && isBack)
  }

  /** What is wrong with a frame that card `from` sends to card `to`, or null. */
  judge(from: number, to: number, frame: Uint8Array): string | null {
    const { links, closed } = this
    if (closed.has(from) && to === this.indexBefore(from) && links.isBelieved(frame)) {
      return `card ${from} answers card ${to}, whose line it has no more`
    }
    return links.judge(from, to, frame)
  }

  /** The card that relays to this one. */
  before({ card }: Pick<Tended, 'card'>): Site {
    return this.world.sites[this.indexBefore(card.index)]!
  }

  private indexBefore(card: number): number {
    return (card + this.lines.length - 1) % this.lines.length
  }

  /** Asks once for every relay that is not there. */
  tend(site: Site): void {
    for (const client of site.clients) if (client.relayKey === null) this.ask(site, client)
  }

  /** Asks for the relay of the client, whether it is there or not. */
  ask(site: Site, client: Client): void {
    const { world } = this
    const relay = this.relayOf(client)
    if (!site.card.isOn) return
    world.tick += 1
    const answer = site.card.ask(site.path, world.tick, METHOD_SET, ATTACH, 0, (body) => {
      body.set(Buffer.from(nameOf(client)))
      body[VERSION_AT] = 4
      body.set(dpuIpv4(this.next(site).card.index), ADDRESS_AT)
      put32(body, CLIENT_AT, clientHighOf(client.host))
      put32(body, CLIENT_AT + 4, client.id)
      body.set(cardKey(this.next(site).card.index), KEY_AT)
      body.set(Buffer.from(RECORDS), REGION_AT)
    })
    if (answer === null) return
    const { name } = FAULTS[answer.fault]!
    world.tell?.(`  the relay of client ${client.index}: ${name}`)
    world.count(`relay ${name}`)
    if (name === 'PASS') {
      relay.mayBeRefused = false
      client.giveRelay(get32(answer.body, RKEY_AT))
    } else if (name === 'REGION_EXISTS') this.detach(site, client)
    else if (name === 'RELAY_REFUSED') this.judgeRefusal(site, relay)
    else if (name !== 'CONNECTING' && name !== 'ATTACH_FAILED') {
      world.blame(`a relay is refused: ${name}`)
    }
  }

  private judgeRefusal(site: Site, relay: Relay): void {
    const { world } = this
    const { isIn } = this.lines[this.next(site).card.index]!
    if (isIn && !relay.mayBeRefused && !world.isAttacked) {
      world.blame('a card with a line at another one is refused there')
    }
    relay.mayBeRefused = !isIn
  }

  private relayOf(client: Client): Relay {
    const found = this.relays.get(client) ?? { mayBeRefused: false }
    this.relays.set(client, found)
    return found
  }

  detach(site: Site, client: Client): void {
    const { world } = this
    if (!site.card.isOn) return
    world.tick += 1
    site.card.ask(site.path, world.tick, METHOD_SET, DETACH, 0, (body) => {
      body.set(Buffer.from(nameOf(client)))
    })
  }

  /** The card has been off: it has no relay any more. */
  restarted({ clients, card }: Site): void {
    for (const client of clients) client.relayKey = null
    if (!this.lines[card.index]!.isIn) this.closed.add(card.index)
  }

  /** The line of whoever relays to the card goes, or comes again. */
  changeLine(site: Site, comes: boolean): void {
    const { world, lines } = this
    const { card, path } = site
    const own = lines[card.index]!
    if (own.isIn === comes || !card.isOn) return
    const relaying = this.indexBefore(card.index)
    if (comes) this.closed.delete(card.index)
    for (const client of world.sites[relaying]!.clients) this.relayOf(client).mayBeRefused = true
    world.tick += 1
    const attribute = comes ? ADD_PEER : REMOVE_PEER
    const answer = card.ask(path, world.tick, METHOD_SET, attribute, 0, (body) => {
      body.set(cardKeys(relaying).public)
      if (!comes) return
      body.set(Buffer.from('relaying'), NAME_AT)
      body[REGIONS_AT] = 1
      body[REGIONS_HERE_AT] = 1
      body[RIGHT_AT] = TO_WRITE
      body.set(Buffer.from(RECORDS), RIGHT_AT + 4)
    })
    if (answer === null) return
    world.count(comes ? 'line of a card comes' : 'line of a card goes')
    if (answer.fault !== 0) world.blame(`a line is not changed: ${FAULTS[answer.fault]!.name}`)
    else if (!comes) this.closed.add(card.index)
  }
}

/** Of a client's relay at its card. */
function nameOf({ index }: Client): string {
  return `relay${index}`
}
