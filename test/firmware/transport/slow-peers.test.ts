/**
 * Peers that are slow: a message half-way keeps its connection for as long as its peer may take to
 * repeat what was lost, and none of them keeps what all of them share (faults N8, N22).
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  GATHERING_US,
  RECEIVES,
  REPEAT_US,
  STAGING_BUFFERS,
  STAGING_TIMEOUT_US,
} from '../../../firmware/board/limits.ts'
import { WC_SUCCESS } from '../../../firmware/host/element.ts'
import { SEND } from '../../../firmware/transport/requester.ts'
import { type BytesCard, bytesCard } from '../../support/cards/bytes-card.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { hostToHost, TwoCards } from '../../support/cards/two-cards.ts'
import {
  PLACES_ALONE,
  PLACES_OF_NETWORK,
  Stranger,
  type Taken,
  takeAllPlaces,
} from '../../support/peers/strangers.ts'
import {
  ACK,
  lines,
  NAK_OPERATIONAL,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

const LENGTH = 600

const syndromes = (sent: readonly Sent[]): number[] => sent.map(({ syndrome }) => syndrome)

/** Lets so much time go by, as a card does that nobody asks for anything: in idle calls. */
function wait(card: TestCard, us: number): void {
  for (let left = us; left > 0; left -= 50_000) card.pass(Math.min(left, 50_000))
}

const KINDS: Readonly<Record<string, (one: BytesCard, qp: TestPeer) => Uint8Array[]>> = {
  WRITE: ({ bytes }, qp) => writeFrames(qp, bytes, 0, dataOf(LENGTH, 1)),
  'WRITE of a record': ({ records }, qp) =>
    writeFrames(qp, records, 0, dataOf(500, 1), { vaHigh: 1 }),
  WRITE_PERSIST: ({ records }, qp) => persistFrames(qp, records, 1, dataOf(500, 1)),
  SEND: (_, qp) => sendFrames(qp, dataOf(LENGTH, 1)),
}

describe.each(Object.entries(KINDS))('R1-C10: %s half-way', (_, make) => {
  test('waits for its tail as long as Linux takes to repeat it, again and again', () => {
    for (const tries of [1, 2, 7]) {
      const one = bytesCard(256)
      const frames = make(one, one.qp)
      one.card.serve(...frames.slice(0, -1))
      wait(one.card, tries * REPEAT_US)
      const [answer] = one.card.serve(frames.at(-1)!)
      expect(answer!.syndrome, `${tries} tries`).toBe(ACK)
    }
  })

  test('is kept by any packet of its connection, also by one that is answered "later"', () => {
    const one = bytesCard(256)
    const { card, qp } = one
    const frames = make(one, qp)
    const first = { ...qp, psn: qp.psn - frames.length }
    card.serve(frames[0]!)
    for (let i = 0; i < 5; i++) {
      wait(card, STAGING_TIMEOUT_US - 1000)
      card.serve(make(one, { ...first })[0]!)
    }
    expect(card.serve(...frames.slice(1)).at(-1)!.syndrome).toBe(ACK)
  })

  test('is given up by a NAK when its peer says nothing any more', () => {
    const one = bytesCard(256)
    const { card, qp } = one
    const base = qp.psn
    card.serve(make(one, qp)[0]!)
    expect(card.pass(STAGING_TIMEOUT_US - 1000)).toEqual([])
    expect(lines(card.pass(2000), base)).toEqual([`NAK 0x${NAK_OPERATIONAL.toString(16)} 1`])
    expect(card.counter('MESSAGE_TIME')).toBe(1)
  })
})

test('R1-C10: what is withheld of a message that is given up is durable before its NAK', () => {
  const one = bytesCard(256)
  const { card, qp, kept } = one
  const base = qp.psn
  const done = writeFrames(qp, kept, 0, dataOf(8, 1), { ackRequest: false })
  card.serve(...done, writeFrames(qp, kept, 8, dataOf(LENGTH, 1))[0]!)
  expect(lines(card.pass(STAGING_TIMEOUT_US + 1000), base)).toEqual(['NAK 0x63 2'])
})

describe('R1-A4: buffers of messages of several packets', () => {
  const statusOf = (sent: Parameters<typeof persistAcks>[0]): string =>
    FAULTS.find(({ answer, code }) => code === persistAcks(sent)[0]!.status && answer === 'status')
      ?.name ?? 'PASS'

  /** A card whose every buffer is held by one peer; and what that one has still to say. */
  function held(): { card: TestCard; region: TestRegion; slow: Stranger; rest: Uint8Array[][] } {
    const card = new TestCard().format()
    const region = card.provision({ capacity: LENGTH })
    const slow = new Stranger(card, 77)
    const rest = Array.from({ length: STAGING_BUFFERS }, (_, i) => {
      const [first, ...others] = persistFrames(slow.connect(256), region, i % 8, dataOf(LENGTH, i))
      slow.serve(first!)
      return others
    })
    return { card, region, slow, rest }
  }

  test('one slow peer has them all, and another gets its one in GATHERING_US', () => {
    const { card, region, slow, rest } = held()
    const qp = card.connect(256)
    const ask = (slot: number): string =>
      statusOf(card.serve(...persistFrames(qp, region, slot, dataOf(LENGTH, 50 + slot))))
    expect(ask(1)).toBe('STAGING')
    card.pass(GATHERING_US)
    expect(ask(2)).toBe('PASS')
    expect(card.read(card.connect(), region, 2, 0, LENGTH)).toEqual(dataOf(LENGTH, 52))
    // One message of the slow peer is refused at its end; the others are taken.
    const ends = rest.map((frames) => statusOf(slow.serve(...frames)))
    expect(ends.filter((name) => name === 'STAGING')).toHaveLength(1)
    expect(ends.filter((name) => name === 'PASS')).toHaveLength(STAGING_BUFFERS - 1)
  })

  test('every one of several peers has its part, however slowly the first one goes on', () => {
    const { card, region } = held()
    for (const last of [10, 11, 12, 13]) {
      const peer = new Stranger(card, last)
      const pairs = [peer.connect(256), peer.connect(256)]
      const all = pairs.map((qp, i) => persistFrames(qp, region, i, dataOf(LENGTH, last + i)))
      card.pass(GATHERING_US)
      for (const frames of all) peer.serve(frames[0]!)
      expect(all.map((frames) => statusOf(peer.serve(...frames.slice(1))))).toEqual([
        'PASS',
        'PASS',
      ])
    }
  })

  test('one that the card’s own host sends from is nobody’s to take', () => {
    const rig = new TwoCards()
    const [to, from] = hostToHost(rig)
    const { card } = rig.hosts[1]
    const region = card.provision({ capacity: LENGTH })
    const data = dataOf(20_000, 1)
    to.receive(0, data.length)
    rig.loses = (which) => which === 1
    from.post({ opcode: SEND, ...from.put(data) })
    rig.run()
    const slow = new Stranger(card, 77)
    for (let i = 0; i < STAGING_BUFFERS - 1; i++) {
      slow.serve(persistFrames(slow.connect(256), region, i % 8, dataOf(LENGTH, i))[0]!)
    }
    const qp = card.connect(256)
    const ask = (): string =>
      statusOf(card.serve(...persistFrames(qp, region, 1, dataOf(LENGTH, 50))))
    expect(ask()).toBe('STAGING')
    card.pass(GATHERING_US)
    expect(ask()).toBe('PASS')
    rig.loses = () => false
    for (let i = 0; i < 20; i++) rig.pass(100_000)
    expect(from.host.poll(from.cq)).toMatchObject([{ status: WC_SUCCESS }])
    expect(to.bytes(data.length)).toEqual(data)
  })

  test('a peer takes none from one that has no more than itself, before that is gone', () => {
    const { card, region, slow } = held()
    const qp = slow.connect(256)
    const ask = (): string =>
      statusOf(slow.serve(...persistFrames(qp, region, 1, dataOf(LENGTH, 1))))
    card.pass(GATHERING_US)
    expect(ask()).toBe('STAGING')
    card.pass(2 * REPEAT_US)
    expect(ask()).toBe('PASS')
  })

  test('messages of one burst take what their own group gives back: one buffer is enough', () => {
    const { card, region, slow, rest } = held()
    card.pass(GATHERING_US)
    const qp = card.connect(256)
    const many = Array.from({ length: 8 }, (_, i) => persistFrames(qp, region, i, dataOf(300, i)))
    const statuses = persistAcks(card.serve(...many.flat())).map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([0]))
    const ends = rest.map((frames) => statusOf(slow.serve(...frames)))
    expect(ends.filter((name) => name === 'STAGING')).toHaveLength(1)
  })

  test('a record by plain WRITE that lost its buffer is refused by a NAK, not half stored', () => {
    const card = new TestCard().format()
    const region = card.provision({ capacity: LENGTH })
    const slow = new Stranger(card, 77)
    const rest = Array.from({ length: STAGING_BUFFERS }, () => {
      const qp = slow.connect(256)
      const frames = writeFrames(qp, region, 0, dataOf(LENGTH, 9), { vaHigh: 1 })
      slow.serve(frames[0]!)
      return frames.slice(1)
    })
    card.pass(GATHERING_US)
    const qp = card.connect(256)
    card.serve(persistFrames(qp, region, 2, dataOf(LENGTH, 1))[0]!)
    const ends = rest.map((frames) => syndromes(slow.serve(...frames)).at(-1))
    expect(ends.filter((syndrome) => syndrome === NAK_OPERATIONAL)).toHaveLength(1)
    expect(card.read(card.connect(), region, 1, 0, LENGTH)).toEqual(dataOf(LENGTH, 9))
  })
})

describe('R1-A4: receive entries', () => {
  /** How many SENDs that do not end a machine may begin, each on a connection of its own. */
  function begin(peer: Stranger, most: number): number {
    for (let i = 0; i < most; i++) {
      const sent = peer.serve(sendFrames(peer.connect(256), dataOf(300, i))[0]!)
      if (sent.length > 0) {
        expect(syndromes(sent)).toEqual([0x2c])
        return i
      }
    }
    return most
  }

  test('one peer has half of them, two have a third each: there is one for who has none', () => {
    for (const peers of [1, 2, 3, 7]) {
      const { card } = bytesCard(256)
      const all = Array.from({ length: peers }, (_, i) => new Stranger(card, 10 + i))
      const counts = all.map(() => 0)
      // In turns, until nobody gets one more.
      for (let round = 0; round < RECEIVES; round++) {
        for (const [i, peer] of all.entries()) counts[i]! += begin(peer, 1)
      }
      const share = Math.floor(RECEIVES / (peers + 1))
      for (const count of counts) expect(count).toBeGreaterThanOrEqual(share)
      expect(begin(new Stranger(card, 99), 1)).toBe(1)
    }
  })
})

describe('R1-A4: queue pairs', () => {
  test('who keeps all of them by a packet now and then makes room for one who has none', () => {
    const card = new TestCard(1 << 19).format()
    const region = card.provision()
    const keep = ({ peer, qp }: Taken): number =>
      peer.serve(...persistFrames(qp, region, 1, dataOf(8, 1))).length
    const pairs = takeAllPlaces(card, (taken) => expect(keep(taken)).toBeGreaterThan(0))
    expect(pairs).toHaveLength(PLACES_OF_NETWORK)
    const greedy = pairs[0]!.peer
    expect(pairs.filter(({ peer }) => peer === greedy)).toHaveLength(PLACES_ALONE)
    const newcomer = new Stranger(card, 10)
    expect(() => newcomer.connect()).toThrow('QUEUE_PAIRS_FULL')
    // They are heard on all but one of them.
    card.pass(2 * REPEAT_US)
    for (const taken of pairs.slice(1)) keep(taken)
    const qp = newcomer.connect()
    expect(newcomer.serve(...persistFrames(qp, region, 2, dataOf(8, 2))).length).toBeGreaterThan(0)
    expect(keep(pairs[0]!)).toBe(0)
    expect(keep(pairs[1]!)).toBeGreaterThan(0)
    // Its own share grows no further by that: it takes from itself as little as before.
    card.pass(2 * REPEAT_US)
    expect(() => greedy.connect()).toThrow('QUEUE_PAIRS_FULL')
  })

  test('of those of one peer the one that was silent for longest goes, wherever it stands', () => {
    const card = new TestCard(1 << 19).format()
    const region = card.provision()
    const keep = ({ peer, qp }: Taken): number =>
      peer.serve(...persistFrames(qp, region, 1, dataOf(8, 1))).length
    const pairs = takeAllPlaces(card, keep)
    // The last place of the one that has the most.
    const last = pairs[PLACES_ALONE - 1]!
    const others = pairs.filter((taken) => taken !== last)
    for (const taken of others) keep(taken)
    card.pass(2 * REPEAT_US)
    new Stranger(card, 10).connect()
    expect(keep(last)).toBe(0)
    for (const taken of others) expect(keep(taken)).toBeGreaterThan(0)
  })

  test.each([
    ['whoever asks has more than is left, and would get no place', [60, 82, 41], 0, 1, 61_000_000],
    ['they have fewer than who asks', [112, 10, 51], 2, 1, 61_000_000],
    ['they have one more than who asks', [1, ...Array(111).fill(2)], 0, -1, 2 * REPEAT_US],
  ])('others lose none where %s', (_, counts, asks, silent, us) => {
    const card = new TestCard(1 << 19).format()
    const region = card.provision()
    const keep = ({ peer, qp }: Taken): number =>
      peer.serve(...persistFrames(qp, region, 1, dataOf(8, 1))).length
    const peers = counts.map((_count, i) => new Stranger(card, 10 + i))
    const all = peers.map((peer, i) =>
      Array.from({ length: counts[i]! }, () => ({ peer, qp: peer.connect() })),
    )
    for (const taken of all.flat()) keep(taken)
    card.pass(us)
    // One of them is silent, or all are.
    if (silent >= 0) for (const taken of all.toSpliced(silent, 1).flat()) keep(taken)
    for (let i = 0; i < 3; i++) expect(() => peers[asks]!.connect()).toThrow('QUEUE_PAIRS_FULL')
    for (const taken of all.flat()) expect(keep(taken)).toBeGreaterThan(0)
  })

  test('who has few of them keeps them, silent or not', () => {
    const card = new TestCard(1 << 19).format()
    const region = card.provision()
    const peers = Array.from({ length: PLACES_ALONE }, (_, i) => new Stranger(card, 10 + i))
    const connect = (peer: Stranger): void => {
      peer.serve(...persistFrames(peer.connect(), region, 1, dataOf(8, 1)))
    }
    // Two each; of the last two places one peer has one only, and so has another.
    for (const peer of peers.slice(1)) for (let i = 0; i < 2; i++) connect(peer)
    for (const peer of [peers[0]!, new Stranger(card, 251)]) connect(peer)
    expect(() => new Stranger(card, 250).connect()).toThrow('QUEUE_PAIRS_FULL')
    card.pass(2 * REPEAT_US)
    // It would have two, as each of them has.
    const newcomer = new Stranger(card, 250)
    const first = newcomer.connect()
    newcomer.serve(...persistFrames(first, region, 1, dataOf(8, 1)))
    card.pass(2 * REPEAT_US)
    expect(() => newcomer.connect()).toThrow('QUEUE_PAIRS_FULL')
  })
})
