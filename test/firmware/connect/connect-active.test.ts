/**
 * The active side of RDMA-CM against the passive one: every message lost once, every one twice.
 */

import { describe, expect, test } from 'vitest'
import {
  ACTIVE_CONNECTED,
  ACTIVE_ENDED,
  type Active,
  type ActiveOptions,
  closeActive,
  EVENT_CLOSED,
  EVENT_CONNECTED,
  EVENT_NONE,
  EVENT_REJECTED,
  EVENT_TIMED_OUT,
  startActive,
  takeMessage,
  tickActive,
} from '../../../firmware/connect/active.ts'
import { TIME_WAIT_US } from '../../../firmware/connect/table.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, type Sent, TestCard } from '../../support/cards/test-card.ts'
import {
  CM_NAMES,
  madFrame,
  message,
  messagesOf,
  PORT,
  publish,
  putMra,
} from '../../support/wire/cm.ts'
import { hex, hexOf } from '../../support/wire/frames.ts'
import { ACK, writeFrames } from '../../support/wire/requests.ts'
import { CAPTURES } from '../../support/wire/vectors.ts'

const OPTIONS: ActiveOptions = {
  localId: 0x0a0b0c0d,
  transactionHigh: 0x01020304,
  transactionLow: 0x1110,
  port: PORT,
  guidHigh: 0x000000ff,
  guidLow: 0xfe000001,
  qpn: 0x321,
  startingPsn: 0x777,
  responderResources: 16,
  initiatorDepth: 16,
  pathMtu: 1024,
  ipVersion: 4,
  localGid: hex('0000 0000 0000 0000 0000 ffff 0a00 0001'),
  remoteGid: hex('0000 0000 0000 0000 0000 ffff 0a00 0002'),
  sourcePort: 0x1234,
  userData: new Uint8Array(0),
  timeoutCode: 16,
  retries: 3,
  ackTimeout: 17,
}

const PERIOD_US = cm.codedUs(16)

/** What a network does to message `index` of all that are sent. */
type Network = (index: number) => 'deliver' | 'lose' | 'double'

const GOOD: Network = () => 'deliver'

/** An active side and a card, and all that they say to each other. */
class Pair {
  readonly card: TestCard
  readonly events: number[] = []
  readonly said: string[] = []
  readonly active: Active
  private readonly network: Network
  private readonly outgoing: Uint8Array[] = []

  constructor(network: Network = GOOD, options: Partial<ActiveOptions> = {}) {
    this.network = network
    this.card = new TestCard(1 << 19).format()
    this.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
    publish(this.card)
    const all = { ...OPTIONS, ...options }
    this.active = startActive(all, (bytes) => this.outgoing.push(bytes.slice()), this.card.now)
    this.exchange()
  }

  /** How often the network delivers this message; each is said once. */
  private copies(from: string, bytes: Uint8Array): number {
    const fate = this.network(this.said.length)
    this.said.push(`${from} ${CM_NAMES[bytes[17]!]}`)
    return fate === 'deliver' ? 1 : fate === 'lose' ? 0 : 2
  }

  /** Delivers until nobody has anything to say. */
  exchange(answers: readonly Sent[] = []): void {
    this.take(answers)
    for (let bytes = this.outgoing.shift(); bytes; bytes = this.outgoing.shift()) {
      const copies = this.copies('active', bytes)
      for (let i = 0; i < copies; i++) this.take(this.card.serve(madFrame(bytes)))
    }
  }

  private take(answers: readonly Sent[]): void {
    for (const { bytes } of messagesOf(answers)) {
      const copies = this.copies('passive', bytes)
      for (let i = 0; i < copies; i++) {
        this.note(takeMessage(this.active, bytes, 0, this.card.now))
      }
    }
  }

  private note(event: number): void {
    if (event !== EVENT_NONE) this.events.push(event)
  }

  /** Lets so many µs go by in small steps. */
  pass(us: number): void {
    const endUs = this.card.now + us
    while (this.card.now < endUs) {
      const answers = this.card.pass(PERIOD_US / 4)
      this.note(tickActive(this.active, this.card.now))
      this.exchange(answers)
    }
  }

  close(): void {
    this.note(closeActive(this.active, this.card.now))
    this.exchange()
  }

  /** Does the queue pair that was granted take a WRITE? */
  writes(): boolean {
    const { rep } = this.active
    const psn = rep.startingPsn
    const qp = { number: rep.qpn, peer: OPTIONS.qpn, mtu: 1024, psn, operation: 0 }
    const bytes = this.card.open('bytes')
    const [answer] = this.card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1), { psn }))
    return answer !== undefined && answer.syndrome === ACK
  }
}

const DIALOGUE = ['active REQ', 'passive REP', 'active RTU', 'active DREQ', 'passive DREP']

describe('an active side and a card', () => {
  test('without loss it is five messages, one connection and one end', () => {
    const pair = new Pair()
    expect(pair.active.phase).toBe(ACTIVE_CONNECTED)
    expect(pair.writes()).toBe(true)
    pair.close()
    expect(pair.said).toEqual(DIALOGUE)
    expect(pair.events).toEqual([EVENT_CONNECTED, EVENT_CLOSED])
    expect(pair.writes()).toBe(false)
    pair.pass(TIME_WAIT_US * 2)
    expect(pair.said).toEqual(DIALOGUE)
  })

  test('its REQ and RTU have the transaction id that it was given, its DREQ another', () => {
    const sent: Uint8Array[] = []
    const active = startActive(OPTIONS, (bytes) => sent.push(bytes.slice()), 0)
    const rep = message(cm.CM_REP, OPTIONS.transactionLow, (bytes, at) => {
      cm.writeRep(bytes, at, { ...cm.blankRep(), localId: 5, remoteId: OPTIONS.localId, qpn: 9 })
    })
    expect(takeMessage(active, rep, 0, 1)).toBe(EVENT_CONNECTED)
    closeActive(active, 2)
    const said = sent.map((bytes) => `${CM_NAMES[bytes[17]!]} ${hexOf(bytes.slice(8, 16))}`)
    expect(said).toEqual([
      ...['REQ 0102030400001110', 'RTU 0102030400001110'],
      'DREQ 0102030400001111',
    ])
  })

  test('that is closed twice says goodbye once', () => {
    const pair = new Pair()
    pair.close()
    pair.close()
    expect(pair.said).toEqual(DIALOGUE)
    expect(pair.events).toEqual([EVENT_CONNECTED, EVENT_CLOSED])
  })

  for (const fate of ['lose', 'double'] as const) {
    DIALOGUE.forEach((name, index) => {
      test(`${name} (${fate}): one connection, one end, and both know of it`, () => {
        const pair = new Pair((i) => (i === index ? fate : 'deliver'))
        pair.pass(8 * PERIOD_US)
        expect(pair.events).toEqual([EVENT_CONNECTED])
        expect(pair.writes()).toBe(true)
        pair.close()
        pair.pass(8 * PERIOD_US)
        expect(pair.events).toEqual([EVENT_CONNECTED, EVENT_CLOSED])
        expect(pair.writes()).toBe(false)
        expect(pair.card.counter('STALE_CONNECTION')).toBe(0)
      })
    })
  }

  test('every pair of messages lost or doubled, over the whole dialogue: the same', () => {
    const fates = ['lose', 'double'] as const
    for (let one = 0; one < 8; one++) {
      for (let other = one + 1; other < 8; other++) {
        for (const [first, second] of fates.flatMap((a) => fates.map((b) => [a, b] as const))) {
          const pair = new Pair((i) => (i === one ? first : i === other ? second : 'deliver'))
          pair.pass(8 * PERIOD_US)
          expect(pair.writes()).toBe(true)
          pair.close()
          pair.pass(8 * PERIOD_US)
          expect(pair.events, `${one} ${first}, ${other} ${second}`).toEqual([
            EVENT_CONNECTED,
            EVENT_CLOSED,
          ])
        }
      }
    }
  })

  test('a port that nobody publishes is a rejection with its reason', () => {
    const pair = new Pair(GOOD, { port: 1 })
    expect(pair.said).toEqual(['active REQ', 'passive REJ'])
    expect(pair.events).toEqual([EVENT_REJECTED])
    expect(pair.active.reason).toBe(cm.REJECT_SERVICE_ID)
    pair.pass(8 * PERIOD_US)
    expect(pair.said).toHaveLength(2)
  })

  test('where nobody answers, the REQ goes out as often as it may, then the attempt ends', () => {
    const pair = new Pair(() => 'lose')
    pair.pass(8 * PERIOD_US)
    expect(pair.events).toEqual([EVENT_TIMED_OUT])
    expect(pair.said).toEqual([...new Array(4).fill('active REQ'), 'active REJ'])
    expect(pair.active.reason).toBe(cm.REJECT_TIMEOUT)
  })

  test('a DREQ that nobody answers ends the connection all the same', () => {
    const pair = new Pair((i) => (i < 3 ? 'deliver' : 'lose'))
    pair.close()
    pair.pass(8 * PERIOD_US)
    expect(pair.events).toEqual([EVENT_CONNECTED, EVENT_CLOSED])
    expect(pair.said.slice(3)).toEqual(new Array(4).fill('active DREQ'))
  })

  test('closing before the answer takes the attempt back, and the card hears of it', () => {
    const pair = new Pair((i) => (i === 1 ? 'lose' : 'deliver'))
    pair.close()
    expect(pair.events).toEqual([EVENT_CLOSED])
    expect(pair.active.phase).toBe(ACTIVE_ENDED)
    pair.pass(60 * PERIOD_US)
    expect(pair.said).toEqual(['active REQ', 'passive REP', 'active REJ'])
  })

  test('a timeout of the REQ is known by communication id and GUID, of the same peer only', () => {
    const guid = '000000fffe000001'
    for (const [change, information, goes] of [
      [{}, guid, true],
      [{ localId: OPTIONS.localId + 1 }, guid, false],
      [{}, '000000fffe000002', false],
      [{ informationLength: 7 }, guid, false],
      [{ reason: cm.REJECT_CONSUMER }, guid, false],
    ] as const) {
      const pair = new Pair((i) => (i === 1 ? 'lose' : 'deliver'))
      const usual = { localId: OPTIONS.localId, reason: cm.REJECT_TIMEOUT, informationLength: 8 }
      const rej = { ...cm.blankRej(), ...usual, ...change }
      rej.information.set(hex(information))
      const bytes = message(cm.CM_REJ, 1, (body, at) => cm.writeRej(body, at, rej))
      expect(pair.card.serve(madFrame(bytes))).toEqual([])
      const [again] = messagesOf(pair.card.pass(PERIOD_US * 2))
      expect(again === undefined).toBe(goes)
    }
  })

  test('over IPv6 the addresses of the REQ are the card’s and its client’s', () => {
    const pair = new Pair(GOOD, {
      ipVersion: 6,
      localGid: hex('fd00 0000 0000 0000 0000 0000 0000 0001'),
      remoteGid: hex('fd00 0000 0000 0000 0000 0000 0000 0002'),
    })
    // Over IPv4 those are not the packet's own addresses.
    expect(pair.active.reason).toBe(cm.REJECT_GID)
    const [answer] = messagesOf(pair.card.serve(madFrame(pair.active.request, 6)))
    expect(answer!.attribute).toBe(cm.CM_REP)
  })
})

describe('an active side alone', () => {
  function alone(): { active: Active; sent: Uint8Array[] } {
    const sent: Uint8Array[] = []
    const active = startActive(OPTIONS, (bytes) => sent.push(bytes.slice()), 0)
    return { active, sent }
  }

  /** A message of the peer with those ids. */
  function from(
    attribute: number,
    localId: number,
    more = (_: Uint8Array, __: number): void => {},
  ) {
    return message(attribute, 1, (bytes, at) => {
      cm.writeIds(bytes, at, { localId, remoteId: OPTIONS.localId })
      more(bytes, at)
    })
  }

  function rep(localId: number, qpn = 0x55): Uint8Array {
    const body = { ...cm.blankRep(), localId, remoteId: OPTIONS.localId, qpn, startingPsn: 0x99 }
    return message(cm.CM_REP, 1, (bytes, at) => cm.writeRep(bytes, at, body))
  }

  test('its REQ has the field set of the one that Linux sends', () => {
    const { active } = alone()
    const capture = CAPTURES.find(({ name }) => name === 'rxe-std-rpma05-pmem-direct.pcap')!
    const linux = capture.frames[0]!.slice(62, 62 + cm.CM_BYTES)
    const [own, theirs] = [cm.blankReq(), cm.blankReq()]
    cm.readReq(own, active.request, cm.CM_BODY)
    cm.readReq(theirs, linux, cm.CM_BODY)
    const drawn = ['localId', 'guidHigh', 'guidLow', 'qpn', 'startingPsn', 'serviceLow']
    const chosen = ['responderResources', 'initiatorDepth', 'localTimeout', 'remoteTimeout']
    // Linux offers flow control and ignores the credits; ours are always "no information".
    const path = ['cmRetries', 'flowControl', 'flowLabel', 'localGid', 'remoteGid']
    const other = [...drawn, ...chosen, ...path]
    for (const field of Object.keys(own) as (keyof cm.CmReq)[]) {
      if (other.includes(field) || field === 'privateData') continue
      expect(own[field], field).toEqual(theirs[field])
    }
    expect(hexOf(own.privateData.slice(0, 4))).toBe('00401234')
    expect(hexOf(own.privateData.slice(4, 36))).toBe(
      `${'00'.repeat(12)}0a000001${'00'.repeat(12)}0a000002`,
    )
  })

  test('an MRA of its REQ puts the repetition off', () => {
    const { active, sent } = alone()
    const mra = from(cm.CM_MRA, 5, (bytes, at) => putMra(bytes, at, cm.MESSAGE_REQ, 20))
    expect(takeMessage(active, mra, 0, 0)).toBe(EVENT_NONE)
    expect(tickActive(active, cm.codedUs(20))).toBe(EVENT_NONE)
    expect(sent).toHaveLength(1)
    tickActive(active, cm.codedUs(20) + PERIOD_US + 1)
    expect(sent).toHaveLength(2)
    expect(hexOf(sent[1]!)).toBe(hexOf(sent[0]!))
  })

  test('messages with another id of ours, or of another connection, change nothing', () => {
    const { active, sent } = alone()
    takeMessage(active, rep(5), 0, 0)
    expect(active.phase).toBe(ACTIVE_CONNECTED)
    const before = sent.length
    const strangers = [
      rep(6),
      from(cm.CM_REJ, 6),
      from(cm.CM_DREQ, 6, (bytes, at) => cm.putDreqQpn(bytes, at, OPTIONS.qpn)),
      from(cm.CM_DREQ, 5, (bytes, at) => cm.putDreqQpn(bytes, at, OPTIONS.qpn + 1)),
      from(cm.CM_DREP, 5),
      from(cm.CM_MRA, 5),
      from(cm.CM_REQ, 5),
      message(cm.CM_REJ, 1, (bytes, at) => cm.writeIds(bytes, at, { localId: 5, remoteId: 9 })),
    ]
    for (const bytes of strangers) expect(takeMessage(active, bytes, 0, 0)).toBe(EVENT_NONE)
    expect(active.phase).toBe(ACTIVE_CONNECTED)
    expect(sent).toHaveLength(before)
  })

  test('a REP without a queue pair is rejected', () => {
    const { active, sent } = alone()
    expect(takeMessage(active, rep(5, 1), 0, 0)).toBe(EVENT_REJECTED)
    expect(sent.at(-1)![17]).toBe(cm.CM_REJ)
  })

  test('a DREQ of the peer is answered by DREP, as often as it comes, and ends once', () => {
    const { active, sent } = alone()
    takeMessage(active, rep(5), 0, 0)
    const goodbye = from(cm.CM_DREQ, 5, (bytes, at) => cm.putDreqQpn(bytes, at, OPTIONS.qpn))
    expect(takeMessage(active, goodbye, 0, 0)).toBe(EVENT_CLOSED)
    expect(takeMessage(active, goodbye, 0, 0)).toBe(EVENT_NONE)
    expect(sent.slice(-2).map((bytes) => bytes[17])).toEqual([cm.CM_DREP, cm.CM_DREP])
    expect(hexOf(sent.at(-1)!.slice(8, 16))).toBe(hexOf(goodbye.slice(8, 16)))
  })

  test('every byte of every message, set to its ends, reports no connection twice', () => {
    const messages = [rep(5), from(cm.CM_REJ, 5), from(cm.CM_DREQ, 5), from(cm.CM_MRA, 5)]
    for (const bytes of messages) {
      for (let at = 16; at < 70; at++) {
        for (const byte of [0, 1, 0x7f, 0x80, 0xff]) {
          const { active } = alone()
          const changed = bytes.slice()
          changed[at] = byte
          const events = [changed, rep(5), changed, rep(5)].map((one) =>
            takeMessage(active, one, 0, 0),
          )
          expect(events.filter((event) => event === EVENT_CONNECTED).length).toBeLessThan(2)
        }
      }
    }
  })
})
