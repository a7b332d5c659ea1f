/**
 * Who asks is told how the part is, each time that it is another than he knows, and nobody else is
 * (manage/health.ts, HEALTH of wire/management.ts).
 */

import { describe, expect, test } from 'vitest'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { ARMED, ON_TRIAL, SAVE_FAILED } from '../../../firmware/board/hal.ts'
import { INITIATORS, LINE_BYTES, QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RC_ACKNOWLEDGE, RC_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { failFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { Stranger } from '../../support/peers/strangers.ts'
import { QueueHost } from '../../support/queues/queue-host.ts'
import { acknowledgeFrame } from '../../support/residency/residency-asks.ts'
import { guests } from '../../support/sessions/closed-card.ts'
import { Guest } from '../../support/sessions/guest.ts'
import { keeping, remove } from '../../support/sessions/peer-calls.ts'
import { READER } from '../../support/sessions/peers.ts'
import { connectTagged, isTagged } from '../../support/sessions/tagged.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  askHealth,
  asksHealth,
  type HealthMessage,
  healthMessages,
  healthOf,
  type Told,
} from '../../support/wire/health.ts'
import { disconnect, sendFrames, slotOffset } from '../../support/wire/requests.ts'

/** In that time it is looked twice, µs. */
const LOOKED_US = 20_000
/** As long as a peer that does not answer, or stays not ready, may keep a message, µs. */
const PATIENCE_US = 60_000_000
const RNR = 0x2c

const numberOf = (name: string): number => FAULTS.findIndex((row) => row.name === name)

interface Made {
  readonly card: TestCard
  readonly region: TestRegion
  /** Whose queue pair writes, and asks for nothing. */
  readonly qp: TestPeer
  /** Who asks. */
  readonly asker: TestPeer
}

/** A card, and two clients of it, one of whom has asked. */
function made(): Made {
  const card = new TestCard(1 << 18).format()
  const region = card.provision({ slots: 4, capacity: 64 })
  const [qp, asker] = [card.connect(), card.connect()]
  for (let slot = 0; slot < 4; slot++) card.serve(...persistFrames(qp, region, slot, dataOf(64, 1)))
  expect(askHealth(card, asker).fault).toBe('PASS')
  return { card, region, qp, asker }
}

/** The board says so before the firmware is called the next time. */
function setHealth(card: TestCard, health: { armed?: boolean; saveFailed?: boolean }): void {
  Object.assign(card.nvdimm, health)
  card.machine.tellHealth()
}

/** Likewise whether the firmware is on trial. */
function setTrial(card: TestCard, isOnTrial: boolean): void {
  const bits = isOnTrial ? ARMED | ON_TRIAL : ARMED
  Object.assign(card.nvdimm, { health: () => bits })
  card.machine.tellHealth()
}

/** What the card has told meanwhile, acknowledged at once. */
function hear({ card, asker }: Pick<Made, 'card' | 'asker'>, us = LOOKED_US): HealthMessage[] {
  const heard: HealthMessage[] = []
  for (let left = us; left > 0; left -= 1000) {
    const messages = healthMessages(card.pass(1000))
    heard.push(...messages)
    for (const { psn } of messages) {
      heard.push(...healthMessages(card.serve(acknowledgeFrame(asker, psn))))
    }
  }
  return heard
}

function poisonRecord({ card, region }: Made, slot: number, copies: readonly number[]): void {
  for (const copy of copies) card.nvdimm.poison(slotOffset(region, copy, slot) / LINE_BYTES)
}

function discard({ card, region }: Made, slot: number): void {
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
    body.set([0, 0, 0, region.id], mad.SETTLE_REGION)
    body.set([0, 0, 0, slot], mad.SETTLE_RECORD)
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
  })
}

interface Change {
  readonly what: string
  readonly make: (made: Made) => void
  readonly told: Partial<Told>
  /** Where it can come back, how, and what is told then. */
  readonly back?: (made: Made) => void
  readonly toldBack?: Partial<Told>
}

const WELL = { state: mad.STATE_SERVING, bits: ARMED, fault: 0, lost: 0, superblock: 2 }

const CHANGES: readonly Change[] = [
  {
    what: 'the save energy',
    make: ({ card }) => {
      setHealth(card, { armed: false })
    },
    told: { ...WELL, bits: 0, refusing: 1 },
    back: ({ card }) => {
      setHealth(card, { armed: true })
    },
    toldBack: { ...WELL, refusing: 0 },
  },
  {
    what: 'a save that failed',
    make: ({ card }) => {
      setHealth(card, { saveFailed: true })
    },
    told: { bits: ARMED | SAVE_FAILED },
    back: ({ card }) => {
      setHealth(card, { saveFailed: false })
    },
    toldBack: WELL,
  },
  {
    what: 'firmware that is on trial',
    make: ({ card }) => {
      setTrial(card, true)
    },
    told: { ...WELL, bits: ARMED | ON_TRIAL, refusing: 0 },
    back: ({ card }) => {
      setTrial(card, false)
    },
    toldBack: WELL,
  },
  {
    what: 'a fence that fails: the part takes nothing any more',
    make: ({ card, region, qp }) => {
      failFence(card, 1)
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 9)))
    },
    told: { state: mad.STATE_FAILED_CLOSED, fault: numberOf('FLUSH'), refusing: 1 },
  },
  {
    what: 'a record that the medium does not take',
    make: ({ card, region, qp }) => {
      card.nvdimm.refuseWrites(slotOffset(region, 0, 1) / LINE_BYTES)
      card.serve(...persistFrames(qp, region, 1, dataOf(64, 9)))
    },
    told: { state: mad.STATE_SERVING, failures: 1 },
  },
  {
    what: 'a record that is lost: its region takes no writes',
    make: (one) => {
      poisonRecord(one, 2, [0, 1])
      one.card.scan(one.region.id)
    },
    told: { lost: 1, refusing: 1 },
    back: (one) => discard(one, 2),
    toldBack: { ...WELL, refusing: 0 },
  },
  {
    what: 'a copy that has decayed, and is whole again',
    make: (one) => {
      poisonRecord(one, 2, [1])
      one.card.scan(one.region.id)
    },
    told: { ...WELL, mended: 1 },
  },
  {
    what: 'a superblock page that cannot be written',
    make: ({ card }) => {
      card.nvdimm.poison(0)
      card.nvdimm.refuseWrites(0)
      for (let i = 0; i < 100; i++) card.idle()
    },
    told: { superblock: 1 },
    back: ({ card }) => {
      card.nvdimm.refuseWrites(0, false)
      for (let i = 0; i < 100; i++) card.idle()
    },
    toldBack: { superblock: 2 },
  },
]

describe.each(CHANGES)('$what', ({ make, told }) => {
  test('is told to who asked, once, and to nobody else', () => {
    const one = made()
    one.card.sent = []
    make(one)
    const heard = [...healthMessages(one.card.sent), ...hear(one)]
    // What stands in the way of what is looked at meanwhile may come behind it.
    expect(heard.map(({ to }) => to)).toEqual(heard.map(() => one.asker.peer))
    expect(heard.at(-1)!.told).toMatchObject(told)
    expect(heard.at(-1)!.told).toEqual(healthOf(one.card.status()))
    expect(heard.length).toBe(1)
    expect(hear(one)).toEqual([])
  })
})

test.each(CHANGES.filter(({ back }) => back !== undefined))(
  '$what: that it is over is told likewise',
  ({ make, back, toldBack }) => {
    const one = made()
    make(one)
    hear(one)
    back!(one)
    const heard = hear(one)
    expect(heard.at(-1)!.told).toMatchObject(toldBack!)
    expect(heard.length).toBe(1)
    expect(hear(one)).toEqual([])
  },
)

describe('what is told', () => {
  test('is the answer of STATUS, at the call and in the message', () => {
    const one = made()
    const { fault, body } = askHealth(one.card, one.asker)
    expect(fault).toBe('PASS')
    expect(body.slice(0, mad.PART_BYTES)).toEqual(one.card.status().slice(0, mad.PART_BYTES))
    expect(u32(body, mad.HEALTH_TOLD)).toBe(0)
    setHealth(one.card, { armed: false })
    const [message] = hear(one)
    expect(message).toMatchObject({ number: 1, mark: 0x1234_5678 })
    expect(message!.body).toEqual(one.card.status().slice(0, mad.PART_BYTES))
    expect(u32(askHealth(one.card, one.asker).body, mad.HEALTH_TOLD)).toBe(1)
  })

  test('is no change of what is not health: records, regions, refusals of strangers', () => {
    const one = made()
    const { card, region, qp } = one
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 3)))
    card.provision({ name: 'further', slots: 4, capacity: 64 })
    card.manage(mad.METHOD_SET, 0x7fff)
    expect(hear(one, 100_000)).toEqual([])
  })

  test('two changes before it is looked are one, and one that is over is none', () => {
    const one = made()
    const { card } = one
    hear(one, 1000)
    setHealth(card, { armed: false })
    setHealth(card, { saveFailed: true })
    const heard = hear(one)
    expect(heard.map((message) => message.told.bits)).toEqual([SAVE_FAILED])
    setHealth(card, { armed: true })
    setHealth(card, { armed: false })
    expect(hear(one)).toEqual([])
  })

  test('what changes while a message is under way is told behind it, as it is then', () => {
    const one = made()
    const { card, asker } = one
    setHealth(card, { armed: false })
    const [first] = healthMessages(card.pass(LOOKED_US))
    for (const failed of [true, false, true]) {
      setHealth(card, { saveFailed: failed })
      expect(healthMessages(card.pass(LOOKED_US))).toEqual([])
    }
    const [second] = healthMessages(card.serve(acknowledgeFrame(asker, first!.psn)))
    expect(second).toMatchObject({ number: 2, told: { bits: SAVE_FAILED } })
    card.serve(acknowledgeFrame(asker, second!.psn))
    expect(hear(one)).toEqual([])
  })

  test('a message that was lost comes again, byte by byte, whatever has happened since', () => {
    const { card } = withOther()
    const isMessage = ({ opcode }: Sent): boolean => opcode === RC_SEND_ONLY
    setHealth(card, { armed: false })
    const [first] = card.pass(LOOKED_US).filter(isMessage)
    setHealth(card, { saveFailed: true })
    const again: Sent[] = []
    for (let i = 0; i < 100 && again.length < 3; i++) again.push(...card.pass(LOOKED_US))
    expect(again.filter(isMessage).length).toBeGreaterThan(1)
    for (const one of again.filter(isMessage)) expect(one.payload).toEqual(first!.payload)
  })

  test('so it is when who asked asks again meanwhile, and has another mark then', () => {
    const one = made()
    const { card, asker } = one
    setHealth(card, { armed: false })
    const [first] = healthMessages(card.pass(LOOKED_US))
    setHealth(card, { saveFailed: true })
    expect(askHealth(card, asker, { mark: 5 }).fault).toBe('PASS')
    const again: HealthMessage[] = []
    for (let i = 0; i < 100 && again.length === 0; i++) {
      again.push(...healthMessages(card.pass(LOOKED_US)))
    }
    expect(again[0]).toEqual(first)
    // What the answer has told is not told again.
    expect(healthMessages(card.serve(acknowledgeFrame(asker, first!.psn)))).toEqual([])
    setHealth(card, { armed: true })
    expect(hear(one)).toMatchObject([{ number: 2, mark: 5, told: { bits: ARMED | SAVE_FAILED } }])
  })
})

/** As `made`, with nothing but the one who asks. */
function withOther(): Pick<Made, 'card' | 'asker'> {
  const { card, asker } = made()
  return { card, asker }
}

describe('the end', () => {
  test('a card that nobody asks looks at nothing; one that is asked does, while it is', () => {
    const card = new TestCard(1 << 18).format()
    const asker = card.connect()
    for (let i = 0; i < 400; i++) card.idle()
    expect(card.waitUs).toBe(0)
    askHealth(card, asker)
    expect(card.waitUs).toBeGreaterThan(0)
    expect(card.waitUs).toBeLessThanOrEqual(10_000)
    expect(askHealth(card, asker, { action: mad.HEALTH_END }).fault).toBe('PASS')
    setHealth(card, { armed: false })
    expect(hear({ card, asker })).toEqual([])
    expect(card.waitUs).toBe(0)
    // Nobody asked: that is no fault.
    expect(askHealth(card, asker, { action: mad.HEALTH_END }).fault).toBe('PASS')
    card.pass(LOOKED_US)
    expect(card.waitUs).toBe(0)
  })

  test('of the next one in its place is the end of all', () => {
    const card = new TestCard(1 << 18).format()
    const first = card.connect()
    askHealth(card, first)
    disconnect(card, first)
    const { now } = card
    let next = card.connect()
    while ((next.number - first.number) % QUEUE_PAIRS !== 0) {
      // It is not looked in between.
      card.now = now
      disconnect(card, next)
      next = card.connect()
    }
    askHealth(card, next)
    askHealth(card, next)
    askHealth(card, next, { action: mad.HEALTH_END })
    card.pass(LOOKED_US)
    expect(card.waitUs).toBe(0)
  })

  test.each<[string, (card: TestCard, qp: TestPeer) => void]>([
    ['that is closed', disconnect],
    ['that fails', (card, qp) => void card.serve(...sendFrames(qp, dataOf(5000, 1)))],
  ])('of a queue pair %s is looked for no more', (_, end) => {
    const card = new TestCard(1 << 18).format()
    const asker = card.connect()
    askHealth(card, asker)
    end(card, asker)
    for (let i = 0; i < 400; i++) card.idle()
    card.pass(LOOKED_US)
    expect(card.waitUs).toBe(0)
  })

  test('one that is asked again behind the end tells again', () => {
    const one = made()
    askHealth(one.card, one.asker, { action: mad.HEALTH_END })
    askHealth(one.card, one.asker)
    setHealth(one.card, { armed: false })
    expect(hear(one)).toHaveLength(1)
  })

  test('of the queue pair ends it, and the next one in its place is told nothing', () => {
    for (const isUnderWay of [false, true]) {
      const one = made()
      const { card, asker } = one
      if (isUnderWay) {
        setHealth(card, { armed: false })
        expect(healthMessages(card.pass(LOOKED_US))).toHaveLength(1)
      }
      disconnect(card, asker)
      setHealth(card, { armed: isUnderWay })
      const next = card.connect()
      expect(hear(one, 2 * LOOKED_US)).toEqual([])
      expect(askHealth(card, asker).fault).toBe('QUEUE_UNKNOWN')
      askHealth(card, next)
      setHealth(card, { armed: !isUnderWay })
      expect(hear({ card, asker: next })).toHaveLength(1)
    }
  })

  test('of a queue pair that fails likewise', () => {
    const one = made()
    const { card, asker } = one
    // More than a receive holds.
    card.serve(...sendFrames(asker, dataOf(5000, 1)))
    setHealth(card, { armed: false })
    expect(hear(one)).toEqual([])
    expect(askHealth(card, asker).fault).toBe('QUEUE_UNKNOWN')
  })

  test('of the power: the next start knows nobody who asked', () => {
    const { card, asker } = made()
    card.machine.die()
    const next = new TestCard(card.nvdimm)
    setHealth(next, { armed: false })
    expect(hear({ card: next, asker })).toEqual([])
    expect(askHealth(next, asker).fault).toBe('QUEUE_UNKNOWN')
  })
})

/** Another client who has asked as well. */
function further(card: TestCard): TestPeer {
  const qp = card.connect()
  expect(askHealth(card, qp).fault).toBe('PASS')
  return qp
}

describe('who does not listen', () => {
  test('having no receive, loses his queue pair in time; others hear', () => {
    const { card, asker } = withOther()
    const other = further(card)
    setHealth(card, { armed: false })
    const heard = new Set<number>()
    let waits = 0
    for (let us = 0; us < PATIENCE_US && waits < 1_000_000; us += LOOKED_US) {
      for (const { to, psn } of healthMessages(card.pass(LOOKED_US))) {
        heard.add(to)
        if (to !== asker.peer) card.serve(acknowledgeFrame(other, psn))
        else {
          waits += 1
          const bth = { opcode: RC_ACKNOWLEDGE, destQp: asker.number, psn }
          card.serve(frameOf({ bth, aeth: { syndrome: RNR, msn: 0 } }))
        }
      }
    }
    expect(waits).toBeGreaterThan(1)
    expect(heard).toEqual(new Set([asker.peer, other.peer]))
    expect(askHealth(card, asker).fault).toBe('QUEUE_UNKNOWN')
    setHealth(card, { armed: true })
    expect(hear({ card, asker: other })).toMatchObject([{ to: other.peer }])
  })

  test('and does not answer, likewise', () => {
    const { card, asker } = withOther()
    const other = further(card)
    setHealth(card, { armed: false })
    for (const { to, psn } of healthMessages(card.pass(LOOKED_US))) {
      if (to === other.peer) card.serve(acknowledgeFrame(other, psn))
    }
    for (let us = 0; us < PATIENCE_US; us += LOOKED_US) card.pass(LOOKED_US)
    expect(askHealth(card, asker).fault).toBe('QUEUE_UNKNOWN')
    expect(askHealth(card, other).fault).toBe('PASS')
  })

  test('keeps room from others until he does, and they are told then, first', () => {
    const card = new TestCard(1 << 18).format()
    const askers = Array.from({ length: INITIATORS + 3 }, () => further(card))
    const who = new Map(askers.map((qp) => [qp.peer, qp]))
    setHealth(card, { armed: false })
    const first = healthMessages(card.pass(LOOKED_US))
    expect(first).toHaveLength(INITIATORS)
    const acks = first.slice(0, 3).map(({ to, psn }) => acknowledgeFrame(who.get(to)!, psn))
    const behind = healthMessages([...card.serve(...acks), ...card.pass(LOOKED_US)])
    const heard = [...first, ...behind].map(({ to }) => to)
    expect(new Set(heard)).toEqual(new Set(who.keys()))
    expect(behind).toHaveLength(3)
  })
})

test('who has waited for room is told before those who were told already', () => {
  const card = new TestCard(1 << 18).format()
  const askers = Array.from({ length: INITIATORS + 1 }, () => further(card))
  const placeOf = ({ number }: TestPeer): number => number % QUEUE_PAIRS
  setHealth(card, { armed: false })
  const first = healthMessages(card.pass(LOOKED_US))
  const last = askers.find(({ peer }) => first.every(({ to }) => to !== peer))!
  for (const asker of askers.filter((one) => placeOf(one) < placeOf(last)).slice(0, 1)) {
    setHealth(card, { saveFailed: true })
    const { psn } = first.find(({ to }) => to === asker.peer)!
    const [told] = healthMessages(card.serve(acknowledgeFrame(asker, psn)))
    expect(told!.to).toBe(last.peer)
    return
  }
  throw new Error('nobody has a place before the last one')
})

describe('who may ask', () => {
  test('who has the queue pair, and knows both numbers', () => {
    const { card, asker, qp } = made()
    const wrong = [
      { number: asker.number, peer: asker.peer + 1 },
      { number: asker.number, peer: qp.peer },
      { number: 0, peer: asker.peer },
      { number: 0xffffff, peer: asker.peer },
    ]
    for (const one of wrong) expect(askHealth(card, one).fault).toBe('QUEUE_UNKNOWN')
    const stranger = new Stranger(card, 99)
    for (const action of [mad.HEALTH_BEGIN, mad.HEALTH_END]) {
      expect(askHealth(stranger, asker, { action }).fault).toBe('QUEUE_UNKNOWN')
    }
    setHealth(card, { armed: false })
    expect(hear({ card, asker })).toHaveLength(1)
  })

  test('nobody for the queue pair of a host, nor the host', () => {
    const card = new TestCard(1 << 18, { ram: new HostRam(1 << 20) }).format()
    const asker = card.connect()
    const host = new QueueHost(card)
    host.init()
    expect(askHealth(host, asker).fault).toBe('QUEUE_UNKNOWN')
    expect(askHealth(card, asker).fault).toBe('PASS')
  })

  test('for begin and end, and nothing else', () => {
    const { card, asker } = withOther()
    for (const action of [2, 3, 255]) {
      expect(askHealth(card, asker, { action }).fault).toBe('REQUEST')
    }
    const blank = new TestCard(new Nvdimm({ bytes: 1 << 18 }))
    expect(askHealth(blank, asker).fault).toBe('NOT_SERVING')
  })

  test('that firmware is on trial is told to peers, and to no stranger', () => {
    const { card, admin } = guests()
    setTrial(card, true)
    const asked = [mad.METHOD_GET, mad.ATTRIBUTE_STATUS] as const
    const inTheClear = admin.inTheClear(...asked)!
    expect(admin.manage(...asked).body[mad.PART_HEALTH]).toBe(ARMED | ON_TRIAL)
    expect(inTheClear.fault).toBe('PASS')
    expect(inTheClear.body[mad.PART_HEALTH]).toBe(ARMED)
  })

  test('of a card with peers each of them for his own, and no stranger', () => {
    const { card, admin, reader, writer } = guests()
    const pairs = [admin, reader, writer].map((guest) => [guest, guest.connect()] as const)
    for (const [guest, qp] of pairs) {
      for (const [other, theirs] of pairs) {
        const fault = other === guest ? 'PASS' : 'QUEUE_UNKNOWN'
        expect(askHealth(guest, theirs).fault).toBe(fault)
      }
      const clear = guest.inTheClear(mad.METHOD_SET, mad.ATTRIBUTE_HEALTH, asksHealth(qp))!
      expect(clear.fault).toBe('NO_SESSION')
      expect(clear.body.slice(mad.HEALTH_ACTION + 1).every((byte) => byte === 0)).toBe(true)
    }
    setHealth(card, { armed: false })
    const told = healthMessages(card.pass(LOOKED_US)).map(({ to }) => to)
    expect(told.sort()).toEqual(pairs.map(([, qp]) => qp.peer).sort())
  })

  test('and over a queue pair with tags the message has one', () => {
    const { card, reader } = guests()
    const { qp, tags } = connectTagged(reader)
    expect(askHealth(reader, qp).fault).toBe('PASS')
    setHealth(card, { armed: false })
    const sent = card.pass(LOOKED_US).filter(({ opcode }) => opcode === RC_SEND_ONLY)
    expect(sent).toHaveLength(1)
    expect(isTagged(sent[0]!.bytes, tags)).toBe(true)
  })

  test('a peer that is removed hears no more', () => {
    const { card, admin } = keeping()
    const reader = new Guest(card, READER, 13).enter()
    const qp = reader.connect()
    expect(askHealth(reader, qp).fault).toBe('PASS')
    expect(remove(admin, READER.public)).toBe('PASS')
    setHealth(card, { armed: false })
    expect(hear({ card, asker: qp })).toEqual([])
  })
})
