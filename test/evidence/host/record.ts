/**
 * What is done with the record of a play, and asked of it: by a client, a neighbour, an operator,
 * and whoever brings back what has gone.
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
import { ackOf, FORGOTTEN, type Judge, OPERATION_BASE, versionData } from './judge.ts'
import { copiesOf, isRefusal, type Level, platformOf, type Rig, waitOf } from './rig.ts'
import { type Back, isPlain, isWay, type OperationName, type Script } from './script.ts'
import { type Way, Ways } from './ways.ts'

export const CLIENT = 7
const ANOTHER = 8
const NEIGHBOUR = 9
const QUERY = 0xcd
/** The version that a play brings. */
export const NEW = 2
/** Turns in which whatever goes on at all has come to its end. */
export const TURNS = 24
/** Longer than anybody waits for the agent, µs. */
export const LONG_US = 300_000

export interface Reached {
  readonly qp: TestPeer
  readonly region: TestRegion
}

export class RecordPlay {
  readonly judge: Judge
  readonly ways: Ways
  protected readonly rig: Rig
  protected readonly level: Level
  /** Bytes that a reader asks for. */
  protected readonly length: number = 64
  private neighbours = 0

  constructor(rig: Rig, level: Level, judge: Judge) {
    this.rig = rig
    this.judge = judge
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

  /** Takes what has come to the host's memory for it. */
  hear(): void {
    this.ways.hear()
  }

  /** The new version comes on a way of the host's. */
  private byHost(way: Way): void {
    const { judge, ways } = this
    judge.heard = []
    this.operator((card) => ways.bring(way, card, card.open('records'), NEW))
    ways.hear()
  }

  /** The region by name, and a queue pair; null where the card refuses it. */
  protected reach(card: TestCard, client: number, name = 'records', mtu = 4096): Reached | null {
    try {
      return { qp: card.connect(mtu, 0, client), region: card.open(name) }
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
      if (asked !== null) data = card.read(asked.qp, asked.region, 0, 0, this.length)
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
    } else if (operation === 'write' || operation === 'batch' || isPlain(operation)) {
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

export function scan(card: TestCard, record: number): void {
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
