/**
 * One play: something is done with a record, an event takes a machine away on the way, and all
 * comes back in one of the ways in which it may; then, if the play says so, once more in what
 * follows.
 *
 * What must hold (O1 to O7): nothing that was acknowledged is lost, nothing older is ever shown, no
 * acknowledgement leaves that the durable bytes do not bear out, and whoever needs nothing of the
 * host is served all the time. When all is back the record is served, and takes writes.
 */

import { DDIO_OFF, DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  persistFrames,
  type TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { ackOf, FORGOTTEN, Judge, OPERATION_BASE, versionData } from './judge.ts'
import {
  copiesOf,
  type Event,
  isRefusal,
  type Level,
  type Media,
  type Placement,
  platformOf,
  Rig,
  waitOf,
} from './rig.ts'
import { WAYS, type Way, Ways } from './ways.ts'

/**
 * A record comes over a connection of the card's own (`write`), from a queue of the host (`post`),
 * or over a queue pair of the host (`peer`); or the part is looked after.
 */
export const OPERATIONS = ['write', 'post', 'peer', 'repair', 'format', 'scan', 'discard'] as const
export type OperationName = (typeof OPERATIONS)[number]

/**
 * How what has gone comes back: at once, before anybody has looked; late, when everybody has waited
 * for long; the card before its host; with DDIO the other way first; and a host that goes again
 * when clients were there, and its driver was not.
 */
export const BACKS = ['at-once', 'late', 'card-first', 'flipped', 'host-again'] as const
export type Back = (typeof BACKS)[number]

export interface Script {
  readonly operation: OperationName
  readonly placement: Placement
  readonly level: Level
  /** Of a repair: which of the media that need one. */
  readonly base: number
  readonly event: Event | null
  readonly back: Back
  readonly nested: Event | null
}

/** The media that a play begins on, and the newest version that is acknowledged on them. */
interface Base {
  readonly media: Media
  readonly floor: number
}

export interface Played {
  readonly complaints: readonly string[]
  readonly acknowledged: number
  readonly refused: number
  /** Steps of the operation, and of what followed. */
  readonly steps: number
  readonly stepsAfter: number
  /** Choices that the event had, and the nested one. */
  readonly choices: number
  readonly choicesAfter: number
  /** Where the commit was when the event struck. */
  readonly phase: string
  /** What a reader was shown first behind it: the version before, the new one, or nothing. */
  readonly outcome: 'old' | 'new' | 'refused'
  readonly writes: number
}

const CLIENT = 7
const ANOTHER = 8
const NEIGHBOUR = 9
const QUERY = 0xcd
const NEW = 2
/** Turns in which whatever goes on at all has come to its end. */
const TURNS = 24
/** Longer than anybody waits for the agent, µs. */
const LONG_US = 300_000

/** The region of the record, one of the card's own beside it, and version 1 in every copy. */
export function makeBase(placement: Placement, level: Level): Base {
  const rig = new Rig(placement)
  rig.cardOn()
  rig.byCard((card) => card.format())
  rig.driverOn()
  rig.byCard((card) => {
    const made = rig.provision(card, 'records', placement, copiesOf(level))
    const other = rig.provision(card, 'other', 'local', 2)
    if (made !== 'PASS' || other !== 'PASS') throw new Error(`no regions: ${made}, ${other}`)
  })
  rig.work(TURNS)
  const play = new Play(rig, 0, level)
  play.write(1)
  if (play.judge.floor !== 1) throw new Error('version 1 was not acknowledged')
  rig.work(TURNS)
  rig.cutBoth()
  return { media: rig.media(), floor: 1 }
}

interface Reached {
  readonly qp: TestPeer
  readonly region: TestRegion
}

export class Play {
  readonly judge: Judge
  readonly ways: Ways
  private readonly rig: Rig
  private readonly level: Level
  private neighbours = 0

  constructor(rig: Rig, floor: number, level: Level) {
    this.rig = rig
    this.judge = new Judge(rig, floor)
    this.ways = new Ways(rig, this.judge, waitOf(level))
    this.level = level
  }

  /**
   * A client, connected again, writes that version; it hears what comes within some turns. Behind a
   * later one it says that it repeats: as a new one it would go over that, where a save that failed
   * has had its operation forgotten. There, and nowhere else, it may be told so.
   */
  write(version: number, client: number = CLIENT): boolean {
    const { judge, rig } = this
    const repetition = version < judge.floor
    const mayForget = repetition && rig.part.dirtyShutdowns > 0
    judge.heard = []
    rig.byCard((card) => {
      const asked = this.reach(card, client)
      if (asked === null) return
      const operation = OPERATION_BASE + version
      const options = { wait: waitOf(this.level), operation, repetition }
      card.serve(...persistFrames(asked.qp, asked.region, 0, versionData(version), options))
    })
    rig.work(TURNS)
    return judge.heard.some(({ status, isAnswer, operation }) => {
      const isTold = status === 0 || (mayForget && status === FORGOTTEN)
      return isTold && !isAnswer && operation === OPERATION_BASE + version
    })
  }

  /** The new version comes on a way of the host's. */
  private byHost(way: Way): void {
    const { judge, ways } = this
    judge.heard = []
    this.operator((card) => ways.bring(way, card, card.open('records'), NEW))
    ways.hear()
  }

  /** The region by name, and a queue pair; null where the card refuses it. */
  private reach(card: TestCard, client: number, name = 'records'): Reached | null {
    try {
      return { qp: card.connect(4096, 0, client), region: card.open(name) }
    } catch (error) {
      if (!isRefusal(error)) throw error
      return null
    }
  }

  /** `mustServe`: unless something goes in front of the answer, the record has to be shown. */
  read(when: string, mustServe: boolean): Uint8Array | null {
    let data: Uint8Array | null = null
    const { struck } = this.rig
    const lived = this.rig.byCard((card) => {
      const asked = this.reach(card, CLIENT)
      if (asked !== null) data = card.read(asked.qp, asked.region, 0, 0, 64)
    })
    if (lived) this.judge.shown(data, when, mustServe && this.rig.struck === struck)
    return data
  }

  /** Whether the new version is durable: what a client asks that has heard nothing. */
  query(): void {
    this.rig.byCard((card) => {
      const asked = this.reach(card, CLIENT)
      if (asked === null) return
      const { number, psn } = asked.qp
      const bth = { opcode: QUERY, destQp: number, psn, ackRequest: true }
      card.serve(frameOf({ bth, pqeth: { operationLow: OPERATION_BASE + NEW } }))
    })
  }

  /** A client that does not know how version 1 ended sends it again: it was acknowledged. */
  repeat(): void {
    this.rig.byCard((card) => {
      const asked = this.reach(card, CLIENT)
      if (asked === null) return
      const options = { wait: waitOf(this.level), operation: OPERATION_BASE + 1, repetition: true }
      card.serve(...persistFrames(asked.qp, asked.region, 0, versionData(1), options))
    })
  }

  /** A client of a region of the card's own: served whatever the host does. */
  neighbour(when: string): void {
    const { judge, rig } = this
    this.neighbours += 1
    const operation = 100 + this.neighbours
    const data = versionData(3 + (this.neighbours % 4))
    rig.byCard((card) => {
      const asked = this.reach(card, NEIGHBOUR, 'other')
      if (asked === null) {
        judge.object(`${when}: a client of the card's own memory is turned away`)
        return
      }
      const { qp, region } = asked
      const sent = card.serve(...persistFrames(qp, region, 1, data, { operation }))
      const acks = sent.flatMap(({ bytes }) => ackOf(bytes) ?? [])
      if (!acks.some((ack) => ack.status === 0 && ack.operation === operation)) {
        judge.object(`${when}: a client of the card's own memory is refused`)
      }
      const read = card.read(qp, region, 1, 0, 64)
      if (read === null || Buffer.compare(read, data) !== 0) {
        judge.object(`${when}: a client of the card's own memory reads something else`)
      }
    })
  }

  /** Does what the script says. */
  operate({ operation, placement, level }: Script): void {
    const { rig } = this
    if (operation === 'repair') {
      rig.cardOn()
      rig.driverOn()
    } else if (operation === 'write') {
      this.write(NEW)
    } else if (isWay(operation)) {
      this.byHost(operation)
    } else if (operation === 'format') {
      rig.byCard((card) => rig.provision(card, 'fresh', placement, copiesOf(level)))
    } else if (operation === 'scan') {
      this.operator((card) => scan(card, 0))
    } else {
      this.operator((card) => discard(card, 1))
    }
    rig.work(TURNS)
  }

  /** Somebody asks something of the card that it may refuse, and waits for what comes of it. */
  private operator(ask: (card: TestCard) => void): void {
    this.rig.byCard((card) => {
      try {
        ask(card)
      } catch (error) {
        if (!isRefusal(error)) throw error
      }
    })
    this.rig.work(TURNS)
  }

  /** Everything that is away comes back. */
  comeBack(back: Back): void {
    const { rig } = this
    const isLocal = rig.placement === 'local'
    if (back === 'late') this.wait('while something is away')
    if (back === 'card-first') {
      if (rig.card === null) rig.cardOn()
      this.wait('before the host is there')
    }
    if (back === 'flipped') {
      rig.resetHost()
      rig.hostOn({ platform: rig.host.platform.ddio ? DDIO_OFF : DDIO_ON })
      if (rig.card === null) rig.cardOn()
      this.write(NEW)
      rig.driverOn()
      rig.work(TURNS)
      this.read('while the caches are used the other way', isLocal && this.isCalm)
      this.repeat()
      this.write(NEW)
      this.neighbour('while the caches are used the other way')
      rig.resetHost()
    }
    rig.hostOn({ platform: platformOf(rig.placement) })
    if (rig.card === null) rig.cardOn()
    if (back === 'host-again') {
      this.read('before the host goes again', isLocal && this.isCalm)
      rig.bereaveHost()
      rig.hostOn()
      if (rig.card === null) rig.cardOn()
    }
    // Clients do not wait for the driver of the host.
    this.read('before the driver is there', isLocal && this.isCalm)
    this.repeat()
    this.write(NEW)
    if (!rig.driverIsOn) rig.driverOn()
    else if (rig.agents.length === 0) rig.attachAgent()
    rig.work(TURNS)
  }

  private wait(when: string): void {
    const { rig } = this
    rig.work(3, LONG_US)
    this.neighbour(when)
    this.read(when, rig.placement === 'local' && this.isCalm)
    this.repeat()
    this.write(NEW)
  }

  /** No event is under way that takes something away: what is asked for must be had. */
  get isCalm(): boolean {
    return !this.rig.struck
  }

  /** When all is there: the record is, and its client is answered. */
  demand(operation: OperationName): void {
    const { judge, rig } = this
    this.read('when all is back', this.isCalm)
    this.query()
    this.repeat()
    if (operation === 'discard') this.operator((card) => giveUp(card, 1))
    for (const [version, client] of [
      [NEW, CLIENT],
      [NEW + 1, ANOTHER],
    ] as const) {
      if (!this.write(version, client) && this.isCalm) {
        judge.object(`when all is back: v${version} is not acknowledged`)
      }
    }
    this.read('when all was written', this.isCalm)
    this.neighbour('when all is back')
    rig.work(TURNS)
  }

  /** Both lose their power in the end, and what is shown then is what there is. */
  end(): void {
    const { judge, rig } = this
    rig.cutBoth()
    rig.hostOn()
    rig.cardOn()
    this.read('behind a cut of both', true)
    rig.driverOn()
    rig.work(TURNS)
    this.read('behind the repair', true)
    const copies = judge.copies()
    if (copies.some((one) => one !== copies[0])) judge.object(`the copies differ: [${copies}]`)
  }
}

export function isWay(operation: OperationName): operation is Way {
  return WAYS.some((way) => way === operation)
}

function scan(card: TestCard, record: number): void {
  const { id } = card.open()
  card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SCAN, (body) => {
    putU32(body, mad.SCAN_REGION, id)
    putU32(body, mad.SCAN_RECORD, record)
  })
}

function discard(card: TestCard, record: number): void {
  const { id } = card.open()
  card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
    putU32(body, mad.SETTLE_REGION, id)
    putU32(body, mad.SETTLE_RECORD, record)
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
  })
}

/** As an operator does who was not answered: looks again, and discards what is lost still. */
function giveUp(card: TestCard, record: number): void {
  scan(card, record)
  discard(card, record)
}

/** Spoils what the operation is to mend, before the card is on. */
function spoil(play: Play, { operation }: Script): void {
  if (operation === 'scan') play.judge.spoil(0, 1)
  if (operation === 'discard') play.judge.spoil(1, Infinity)
}

/** Plays it; `spoilt` may take something away that the product rests on, to see it noticed. */
export function playScript(script: Script, spoilt: (rig: Rig) => void = () => {}): Played {
  const base = baseOf(script)
  const rig = new Rig(script.placement, base.media)
  spoilt(rig)
  const play = new Play(rig, base.floor, script.level)
  const { judge } = play
  spoil(play, script)
  if (script.operation !== 'repair') {
    rig.cardOn()
    rig.driverOn()
    if (script.operation === 'discard') rig.byCard((card) => scan(card, 1))
    if (isWay(script.operation)) play.ways.open()
    rig.work(2)
  }
  let phase = ''
  rig.onStrike = () => {
    play.ways.hear()
    phase = judge.phase(NEW)
    judge.first = -1
  }
  rig.arm(script.event)
  play.operate(script)
  const { steps, writes } = rig
  rig.strikeNow()
  const { choices } = rig
  rig.onStrike = () => {}
  if (rig.lacksAgent) rig.work(script.back === 'late' ? 3 : 1, LONG_US)
  if (script.event?.party === 'twin') rig.attachAgent()
  if (script.event?.party === 'write') rig.resetHost()
  rig.arm(script.nested)
  play.comeBack(script.back)
  play.demand(script.operation)
  const stepsAfter = rig.steps
  rig.strikeNow()
  const choicesAfter = rig.choices
  if (script.nested !== null) {
    rig.arm(null)
    play.comeBack('at-once')
    play.demand(script.operation)
  }
  play.end()
  const { complaints, acknowledged, refused, first } = judge
  const outcome = first < 0 ? 'refused' : first >= NEW ? 'new' : 'old'
  const counts = { acknowledged, refused, steps, stepsAfter, choices, choicesAfter, writes }
  return { complaints, phase, outcome, ...counts }
}

/** A choice in which some line is torn, where there are that many. */
const TORN = 6

const quiet = new Map<string, Base>()
const broken = new Map<string, readonly Base[]>()

function quietBase(placement: Placement, level: Level): Base {
  const key = `${placement} ${level}`
  const made = quiet.get(key) ?? makeBase(placement, level)
  quiet.set(key, made)
  return made
}

/**
 * What a cut of both machines in the middle of a write leaves: one of every kind that a start can
 * tell apart by the lane and the copies.
 */
export function brokenBases(placement: Placement, level: Level): readonly Base[] {
  const key = `${placement} ${level}`
  const known = broken.get(key)
  if (known !== undefined) return known
  const found = new Map<string, Base>()
  for (let step = 0, going = true; going; step += 2) {
    // Nothing survives, all of it does where that is all there is to choose, or something is torn.
    for (const choice of [0, 1, TORN]) {
      const rig = new Rig(placement, quietBase(placement, level).media)
      const play = new Play(rig, 1, level)
      rig.cardOn()
      rig.driverOn()
      rig.arm({ party: 'both', step, choice })
      play.write(NEW)
      going = rig.struck
      if (!going) break
      const kind = `${play.judge.phase(NEW)}: ${play.judge.copies()}`
      if (kind.startsWith('lane -') || found.has(kind)) continue
      found.set(kind, { media: rig.media(), floor: play.judge.floor })
    }
  }
  const bases = [...found.values()]
  broken.set(key, bases)
  return bases
}

function baseOf({ operation, placement, level, base }: Script): Base {
  return operation === 'repair' ? brokenBases(placement, level)[base]! : quietBase(placement, level)
}
