/**
 * Two cores back to back: one DPU connects to another over RDMA-CM, from the Ethernet address on,
 * with every frame lost once and doubled once.
 */

import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { RECEIVE_AT, RECEIVED_AT } from '../../../firmware/board/hal.ts'
import { FRAME_OFFSET_BYTES, QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { EVENT_CLOSED, EVENT_REJECTED, EVENT_TIMED_OUT } from '../../../firmware/connect/active.ts'
import type { Link, Target } from '../../../firmware/connect/context.ts'
import { closeLink, connectTo, takeForLink } from '../../../firmware/connect/initiate.ts'
import { publish } from '../../../firmware/connect/publish.ts'
import { RESOLUTION_FREE } from '../../../firmware/connect/resolve.ts'
import { sendTo } from '../../../firmware/connect/send.ts'
import { TIME_WAIT_US } from '../../../firmware/connect/table.ts'
import { idle, receive, type State, settle } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import { attach, detach } from '../../../firmware/manage/attach.ts'
import { boot } from '../../../firmware/manage/boot.ts'
import { provision } from '../../../firmware/manage/provision.ts'
import { KIND_RECORDS } from '../../../firmware/medium/region.ts'
import { formatPart } from '../../../firmware/medium/superblock.ts'
import { OWN_HOST } from '../../../firmware/transport/places.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import {
  closeQueuePair,
  HOLD_CONNECTED,
  HOLD_NONE,
  HOLD_RESTING,
  openQueuePair,
  type QueuePair,
  STATE_ERROR,
  STATE_OPEN,
} from '../../../firmware/transport/queue-pair.ts'
import { putU16, u16 } from '../../../firmware/wire/bytes.ts'
import { blankCapability, readCapability } from '../../../firmware/wire/capability.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import { FORM_CAPABILITY } from '../../../firmware/wire/management.ts'
import { FACTS } from '../../support/cards/test-card.ts'
import { PLACES_OF_NETWORK, sentBy } from '../../support/peers/strangers.ts'
import { CLIENT, type Client, CM_NAMES, idsFrame, reqFrame } from '../../support/wire/cm.ts'
import { isRoce, writeIcrc } from '../../support/wire/frames.ts'

const PORT = 7471

/** What a queue pair is opened with that does nothing. */
const NOBODY = {
  ...{ peerNumber: 2, clientHigh: 0, clientLow: 0, pathMtu: 1024, protectionDomain: 0 },
  expectedPsn: 0 as Psn,
}

/** 10.0.0.last as a GID. */
function gidOf(last: number): Uint8Array {
  return new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last])
}

/** Where the body of a message lies in a frame of IPv4. */
const BODY_AT = 62 + cm.CM_BODY

/** One core with the addresses that end in `last`, and what it sends. */
class Core {
  readonly state: State
  readonly out: Uint8Array[] = []
  readonly last: number
  private readonly machine: EmulatedMachine

  constructor(last: number) {
    this.last = last
    const nvdimm = new Nvdimm({ bytes: 1 << 18 })
    const facts = {
      ...FACTS,
      nvdimmBytes: nvdimm.bytes,
      mac: [2, 0, 0, 0, 0, last],
      ipv4: [10, 0, 0, last],
      ipv6: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last],
      entropy: FACTS.entropy.map((word) => word * last),
    }
    this.machine = new EmulatedMachine({ facts, nvdimm, transmit: (frame) => this.out.push(frame) })
    this.state = createState(this.machine)
    boot(this.state)
    formatPart(this.state.list, this.state.superblock, new Uint8Array(16).fill(1), nvdimm.bytes)
    boot(this.state)
  }

  /** Publishes a region of records. */
  serve(): void {
    const name = new Uint8Array(32)
    name[0] = 0x6f
    const shape = { kind: KIND_RECORDS, slots: 4, capacity: 64, copies: 2, flags: 0 }
    const place = { id: 0, protectionDomain: 3, at: 0, areaBytes: 0, placement: 0 }
    expect(provision(this.state, { name, ...shape, ...place })).toBe(0)
    const region = this.state.regions.places[0]!
    const what = { port: PORT, region, form: FORM_CAPABILITY, rights: 0 }
    const who = { stock: false, connections: 0, sources: [], packet: null }
    expect(publish(this.state, { ...what, ...who })).toBe(0)
  }

  /** Takes one frame as a burst. */
  take(frame: Uint8Array, nowUs: number): void {
    this.machine.place(0, frame)
    const at = RECEIVE_AT + FRAME_OFFSET_BYTES
    receive(this.state, at, frame.length, this.state.words[(RECEIVED_AT >> 2) + 1]!, nowUs)
    settle(this.state)
  }

  /** Sends a message of RDMA-CM as if it were the firmware's. */
  say(qp: QueuePair, message: Uint8Array): void {
    sendTo(this.state, qp, message)
    settle(this.state)
  }

  queuePairs(): QueuePair[] {
    return this.state.queuePairs.places.flatMap((qp) => (qp === null ? [] : [qp]))
  }
}

type Fate = 'deliver' | 'lose' | 'double'

/** Two cores on a wire that does to each frame what it is told. */
class Network {
  readonly a: Core
  readonly b: Core = new Core(11)
  readonly events: (number | 'connected')[] = []
  /** What went over the wire, each frame once. */
  readonly said: string[] = []
  nowUs = 100
  /** Changes the private data of a message under way, by the name that it is said by. */
  alter: (said: string, privateData: Uint8Array) => void = () => {}
  private readonly fate: (index: number) => Fate

  /** The address of core `a` ends in `last`. */
  constructor(fate: (index: number) => Fate = () => 'deliver', last = 10) {
    this.fate = fate
    this.a = new Core(last)
    this.b.serve()
  }

  connect(fields: Partial<Target> = {}): Link {
    const target: Target = {
      ...{ ipVersion: 4, address: [10, 0, 0, 11], port: PORT, pathMtu: 1024 },
      ...{ protectionDomain: 5, clientHigh: 1, clientLow: 2, ...fields },
    }
    this.a.state.connections.nowUs = this.nowUs
    const link = connectTo(this.a.state, target, {
      connected: () => this.events.push('connected'),
      ended: (_, __, event) => this.events.push(event),
    })
    settle(this.a.state)
    this.exchange()
    return link!
  }

  /** Delivers until nobody has anything to say. */
  exchange(): void {
    for (let quiet = false; !quiet; ) {
      quiet = true
      for (const [from, to] of [
        [this.a, this.b],
        [this.b, this.a],
      ] as const) {
        for (let frame = from.out.shift(); frame; frame = from.out.shift()) {
          const fate = this.fate(this.said.length)
          const said = `${from === this.a ? 'a' : 'b'} ${nameOf(frame)}`
          this.said.push(said)
          if (isRoce(frame)) {
            const user = said.endsWith('REQ') ? 140 + cm.IP_CM_USER : 36
            this.alter(said, frame.subarray(BODY_AT + user))
            writeIcrc(frame)
          }
          const copies = fate === 'lose' ? 0 : fate === 'double' ? 2 : 1
          for (let i = 0; i < copies; i++) to.take(frame.slice(), this.nowUs)
          quiet = false
        }
      }
    }
  }

  /** Lets so many µs go by, a twentieth of a second at a time. */
  pass(us: number): void {
    for (const endUs = this.nowUs + us; this.nowUs < endUs; ) {
      this.nowUs += 50_000
      for (const core of [this.a, this.b]) idle(core.state, this.nowUs)
      this.exchange()
    }
  }

  close(link: Link): void {
    this.a.state.connections.nowUs = this.nowUs
    closeLink(this.a.state, link)
    settle(this.a.state)
    this.exchange()
  }
}

function nameOf(frame: Uint8Array): string {
  if (!isRoce(frame)) return frame[12] === 8 ? `ARP ${frame[21]}` : `ND ${frame[54]}`
  return CM_NAMES[frame[(frame[12] === 8 ? 62 : 82) + 17]!]!
}

const HERE = ['a ARP 1', 'b ARP 2', 'a REQ', 'b REP', 'a RTU']
const GOODBYE = ['a DREQ', 'b DREP']

/** The two ends of a connection. */
function ends(network: Network): [QueuePair, QueuePair] {
  const [own] = network.a.queuePairs()
  const [other] = network.b.queuePairs()
  expect(network.a.queuePairs()).toHaveLength(1)
  expect(network.b.queuePairs()).toHaveLength(1)
  return [own!, other!]
}

describe('a DPU that connects to a DPU', () => {
  for (const [ipVersion, address, asked] of [
    [4, [10, 0, 0, 11], HERE.slice(0, 2)],
    [6, [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11], ['a ND 135', 'b ND 136']],
  ] as const) {
    test(`over IPv${ipVersion}: neighbour, REQ, REP, RTU, and the ends agree`, () => {
      const network = new Network()
      const link = network.connect({ ipVersion, address })
      network.pass(100_000)
      expect(network.said).toEqual([...asked, ...HERE.slice(2)])
      expect(network.events).toEqual(['connected'])
      const [own, other] = ends(network)
      expect([own.peerNumber, other.peerNumber]).toEqual([other.number, own.number])
      expect([own.requesterPsn, other.requesterPsn]).toEqual([other.firstPsn, own.firstPsn])
      expect([own.protectionDomain, other.protectionDomain]).toEqual([5, 3])
      expect([own.pathMtu, other.pathMtu]).toEqual([1024, 1024])
      expect([own.speaksPersist, other.speaksPersist]).toEqual([true, true])
      expect([own.hold, other.hold]).toEqual([HOLD_CONNECTED, HOLD_CONNECTED])
      expect([other.clientHigh, other.clientLow]).toEqual([1, 2])
      const block = blankCapability()
      const { privateData } = link.active!.rep
      expect(readCapability(block, privateData, 0, privateData.length)).toBe(true)
      expect(block.rkey).toBe(network.b.state.regions.places[0]!.rkey)
      network.close(link)
      expect(network.said.slice(HERE.length)).toEqual(GOODBYE)
      expect(network.events).toEqual(['connected', EVENT_CLOSED])
      expect([own.state, other.state]).toEqual([STATE_ERROR, STATE_ERROR])
      network.pass(TIME_WAIT_US + 100_000)
      expect([network.a.queuePairs(), network.b.queuePairs()]).toEqual([[], []])
    })
  }

  const dialogue = [...HERE, ...GOODBYE]
  for (const fate of ['lose', 'double'] as const) {
    dialogue.forEach((name, index) => {
      test(`${name} (${fate}): one connection, one end, and nothing is left`, () => {
        const network = new Network((i) => (i === index ? fate : 'deliver'))
        const link = network.connect()
        network.pass(4_500_000)
        expect(network.events).toEqual(['connected'])
        const [own, other] = ends(network)
        expect([own.state, other.state]).toEqual([STATE_OPEN, STATE_OPEN])
        expect([own.peerNumber, other.peerNumber]).toEqual([other.number, own.number])
        network.close(link)
        network.pass(2 * TIME_WAIT_US)
        expect(network.events).toEqual(['connected', EVENT_CLOSED])
        expect([network.a.queuePairs(), network.b.queuePairs()]).toEqual([[], []])
      })
    })
  }

  test('a peer that is not there ends the attempt, and the place is free again', () => {
    const network = new Network()
    network.connect({ address: [10, 0, 0, 99] })
    network.pass(10_000_000)
    expect(network.events).toEqual([EVENT_TIMED_OUT])
    expect(network.said).toEqual(new Array(4).fill('a ARP 1'))
    network.pass(TIME_WAIT_US)
    expect(network.a.queuePairs()).toEqual([])
  })

  test('a port that nobody publishes ends it with the reason', () => {
    const network = new Network()
    const link = network.connect({ port: 1 })
    network.pass(100_000)
    expect(network.events).toEqual([EVENT_REJECTED])
    expect(link.active!.reason).toBe(cm.REJECT_SERVICE_ID)
  })

  test('a link that is taken back before the peer is found is over at once', () => {
    const network = new Network(() => 'lose')
    const link = network.connect()
    network.close(link)
    network.close(link)
    network.pass(2 * TIME_WAIT_US)
    expect(network.events).toEqual([EVENT_CLOSED])
    expect(network.said).toEqual(['a ARP 1'])
    expect(network.a.queuePairs()).toEqual([])
  })

  test('when the queue pair has failed, the link says goodbye by itself', () => {
    const network = new Network()
    network.connect()
    network.pass(100_000)
    const [own, other] = ends(network)
    own.state = STATE_ERROR
    network.pass(2_000_000)
    expect(network.said.slice(HERE.length)).toEqual(GOODBYE)
    expect(network.events).toEqual(['connected', EVENT_CLOSED])
    expect(other.state).toBe(STATE_ERROR)
  })

  test('when the peer says that the connection is stale, the link is over, once', () => {
    const network = new Network()
    network.connect()
    network.pass(100_000)
    const [, other] = ends(network)
    const message = new Uint8Array(cm.CM_BYTES)
    const { localId, remoteId } = network.b.state.connections.places[other.index]!
    cm.writeCmHeader(message, 0, { ...cm.blankCmHeader(), attribute: cm.CM_REJ })
    const rej = { ...cm.blankRej(), localId, remoteId, reason: cm.REJECT_STALE, message: 2 }
    cm.writeRej(message, cm.CM_BODY, rej)
    for (let i = 0; i < 2; i++) {
      network.b.say(other, message)
      network.exchange()
    }
    expect(network.events).toEqual(['connected', EVENT_CLOSED])
  })

  test('a link whose queue pair was closed is over, once, whoever sees it first', () => {
    for (const first of ['clock', 'REQ', 'owner']) {
      const network = new Network(() => 'deliver', 2)
      network.a.serve()
      const link = network.connect()
      network.pass(100_000)
      const [own] = ends(network)
      closeQueuePair(network.a.state.queuePairs, own)
      if (first === 'REQ') network.a.take(reqFrame(CLIENT), network.nowUs)
      if (first === 'clock') network.pass(2_000_000)
      network.close(link)
      expect(network.events, first).toEqual(['connected', EVENT_CLOSED])
    }
  })

  test('when its failed queue pair gave its place to a client, the client stays connected', () => {
    const network = new Network(() => 'deliver', 2)
    network.a.serve()
    const link = network.connect()
    network.pass(100_000)
    const [own] = ends(network)
    own.state = STATE_ERROR
    // No other place is left: the host has them all.
    const { queuePairs } = network.a.state
    queuePairs.places.forEach((qp, place) => {
      if (qp !== null) return
      const { hold } = openQueuePair(queuePairs, place, { ...NOBODY, source: OWN_HOST })
      expect(hold).toBe(HOLD_NONE)
      queuePairs.places[place]!.hold = HOLD_RESTING
    })
    network.a.take(reqFrame(CLIENT), network.nowUs)
    const heir = network.a.state.queuePairs.places[own.index]!
    expect(heir).not.toBe(own)
    network.a.out.length = 0
    network.close(link)
    expect(heir.state).toBe(STATE_OPEN)
    expect(network.a.out).toEqual([])
    expect(network.events).toEqual(['connected', EVENT_CLOSED])
  })

  test('X-3: a relay is not connected again before its connection of before is over', () => {
    let lost = false
    const network = new Network(() => (lost ? 'lose' : 'deliver'))
    const { state } = network.a
    const target: Target = {
      ...{ ipVersion: 4, address: [10, 0, 0, 11], port: PORT, pathMtu: 1024 },
      ...{ protectionDomain: 0, clientHigh: 0, clientLow: 2 },
    }
    const begun = (): number => state.attachments.filter(({ link }) => link !== null).length
    expect(FAULTS[attach(state, { name: 'x', target })]!.name).toBe('CONNECTING')
    network.pass(100_000)
    expect(attach(state, { name: 'x', target })).toBe(0)
    lost = true
    detach(state, 'x')
    // Another one comes and goes in its place.
    attach(state, { name: 'z', target: { ...target, port: 1 } })
    detach(state, 'z')
    expect(FAULTS[attach(state, { name: 'x', target })]!.name).toBe('CONNECTING')
    expect(begun()).toBe(0)
    network.pass(6_000_000)
    attach(state, { name: 'x', target })
    expect(begun()).toBe(1)
  })

  test('no more links are begun than places, and addresses to ask for, are there', () => {
    const network = new Network(() => 'lose')
    const owner = { connected: () => {}, ended: () => {} }
    const target: Target = {
      ...{ ipVersion: 4, address: [10, 0, 0, 11], port: PORT, pathMtu: 1024 },
      ...{ protectionDomain: 0, clientHigh: 0, clientLow: 0 },
    }
    const links = Array.from({ length: 20 }, () => connectTo(network.a.state, target, owner))
    expect(links.filter((link) => link !== null)).toHaveLength(8)
    expect(network.a.queuePairs()).toHaveLength(8)
    expect(network.a.queuePairs().length).toBeLessThan(QUEUE_PAIRS)
  })

  test('an address that was found frees its place: links follow one another without end', () => {
    const network = new Network()
    for (let i = 0; i < 12; i++) {
      const link = network.connect()
      network.pass(100_000)
      network.close(link)
      network.pass(100_000)
    }
    expect(network.events).toEqual(
      Array.from({ length: 12 }, () => ['connected', EVENT_CLOSED]).flat(),
    )
  })

  test('a link is not dismissed for its silence when clients fill all places', () => {
    const network = new Network(() => 'deliver', 2)
    network.a.serve()
    const link = network.connect()
    network.pass(100_000)
    const { qp } = link.connection
    const { places } = network.a.state.connections
    const ask = (last: number, client: Client): void => {
      const localGid = gidOf(last)
      network.a.take(sentBy(reqFrame(client, { localGid }), last), network.nowUs)
    }
    for (let i = 1, last = 100, refused = 0; refused < 2; i++) {
      const client = { ...CLIENT, localId: i, qpn: 0x1000 + i }
      ask(last, client)
      const made = places.find(({ remoteId }) => remoteId === i)
      if (made === undefined) {
        last += 1
        refused += 1
        continue
      }
      refused = 0
      network.a.take(sentBy(idsFrame(client, cm.CM_RTU, made.localId), last), network.nowUs)
    }
    expect(network.a.queuePairs()).toHaveLength(PLACES_OF_NETWORK)
    network.nowUs += 100e6
    network.a.out.length = 0
    network.a.take(reqFrame(CLIENT), network.nowUs)
    const said = network.a.out.map(nameOf)
    expect(said).toEqual(['DREQ', 'REJ'])
    expect(qp!.state).toBe(STATE_OPEN)
  })
})

describe('a link in the making', () => {
  /** Takes a message as the core would that has found the link. */
  const rejFrom = (network: Network, localId: number): void => {
    network.a.take(idsFrame(CLIENT, cm.CM_REJ, localId), network.nowUs)
  }

  test('a message for it from another address is none of the peer', () => {
    const network = new Network((i) => (i < 3 ? 'deliver' : 'lose'), 2)
    const link = network.connect()
    network.pass(100_000)
    rejFrom(network, link.connection.localId)
    expect(network.events).toEqual([])
    expect(link.ended).toBe(false)
  })

  test('a message for it before its peer is found says nothing', () => {
    const network = new Network(() => 'lose')
    const link = network.connect()
    takeForLink(network.a.state, link, RECEIVE_AT)
    expect([link.active, link.ended]).toEqual([null, false])
  })

  test('of two stations that are asked for, each answer finds its own', () => {
    const network = new Network()
    network.connect({ address: [10, 0, 0, 99] })
    network.connect()
    network.pass(200_000)
    expect(network.events).toEqual(['connected'])
    expect(network.said.filter((name) => name === 'a REQ')).toHaveLength(1)
  })

  test('whose place is taken before its peer is found is over, and another one is begun', () => {
    const network = new Network(() => 'lose')
    const link = network.connect()
    closeQueuePair(network.a.state.queuePairs, link.connection.qp!)
    network.pass(2_000_000)
    expect(network.events).toEqual([EVENT_CLOSED])
    expect(link.resolution.phase).toBe(RESOLUTION_FREE)
  })

  test('to a peer that shows no capability block has no client, and no records', () => {
    const network = new Network((i) => (i === 3 ? 'lose' : 'deliver'))
    network.connect()
    network.pass(50_000)
    const [, other] = ends(network)
    const { reply } = network.b.state.connections.places[other.index]!
    const rep = cm.blankRep()
    cm.readRep(rep, reply, cm.CM_BODY)
    rep.privateData.fill(0)
    cm.writeRep(reply, cm.CM_BODY, rep)
    network.b.say(other, reply)
    network.exchange()
    expect(network.events).toEqual(['connected'])
    const [own] = ends(network)
    expect([own.clientHigh, own.clientLow, own.speaksPersist]).toEqual([0, 0, false])
  })
})

describe('S1-M7: the depths of two cards that connect', () => {
  /** Of the block: version, length, features; depths in a REQ, and in a REP. */
  const [VERSION, WORDS, FEATURES, OF_REQ, OF_REP] = [4, 5, 6, 36, 68]
  const TELLS = 256

  /** The two ends connect, over a network that changes what they say. */
  function connected(alter: Network['alter'], fields: Partial<Target> = {}): Network {
    const network = new Network()
    network.alter = alter
    network.connect(fields)
    network.pass(100_000)
    return network
  }

  const agreed = (network: Network): number[] => ends(network).map(({ sendDepth }) => sendDepth)

  const untold = (data: Uint8Array): void => putU16(data, FEATURES, u16(data, FEATURES) & ~TELLS)

  test('S1-M7: each may have so many on their way as the other takes at once', () => {
    const told: number[][] = []
    const network = connected((said, data) => {
      const at = said === 'a REQ' ? OF_REQ : OF_REP
      if (/REQ|REP/.test(said)) told.push([data[WORDS]!, u16(data, at), u16(data, at + 2)])
    })
    expect(told).toEqual([
      [14, 64, 32],
      [18, 64, 32],
    ])
    expect(agreed(network)).toEqual([32, 32])
    expect(network.events).toEqual(['connected'])
  })

  test.each([
    ['less than the own queue', 5, [5, 5]],
    ['one', 1, [1, 1]],
    ['more than the own queue', 0xffff, [64, 64]],
  ] as const)('S1-M7: a peer that takes %s is sent no more, both ways', (_, takes, both) => {
    const network = connected((said, data) => {
      if (said === 'a REQ') putU16(data, OF_REQ + 2, takes)
      if (said === 'b REP') putU16(data, OF_REP + 2, takes)
    })
    expect(agreed(network)).toEqual(both)
  })

  test('S1-M7: an older card that connects tells nothing, is told nothing, and is served', () => {
    let reply: number[] = []
    const network = connected((said, data) => {
      if (said === 'a REQ') {
        untold(data)
        putU16(data, OF_REQ, 0)
        putU16(data, OF_REQ + 2, 0)
      }
      if (said === 'b REP') reply = [data[WORDS]!, u16(data, FEATURES), ...data.slice(68, 72)]
    })
    expect(reply, 'as it was before').toEqual([17, 255, 0, 0, 0, 0])
    expect(agreed(network)).toEqual([0, 0])
  })

  test('S1-M7: an older card that is connected to passes over what it is told, and serves', () => {
    const network = connected((said, data) => {
      if (said !== 'b REP') return
      untold(data)
      data[WORDS] = 17
      data.fill(0, OF_REP, OF_REP + 4)
    })
    expect(agreed(network)[0]).toBe(0)
    expect(network.events).toEqual(['connected'])
  })

  for (const [name, send, receive] of [
    ['takes nothing', 64, 0],
    ['sends nothing', 0, 32],
    ['has no queue', 0, 0],
  ] as const) {
    test(`S1-M7: a REQ of a card that ${name} is refused, with the fault`, () => {
      const network = new Network()
      network.alter = (said, data) => {
        if (said !== 'a REQ') return
        putU16(data, OF_REQ, send)
        putU16(data, OF_REQ + 2, receive)
      }
      const link = network.connect()
      network.pass(100_000)
      expect(network.events).toEqual([EVENT_REJECTED])
      const { reason, rejection } = link.active!
      expect([reason, FAULTS[rejection.privateData[0]!]!.name]).toEqual([28, 'QUEUE_DEPTH'])
      expect(network.b.queuePairs()).toEqual([])
    })

    test(`S1-M7: a REP of a card that ${name} is refused, and the card hears of it`, () => {
      const network = new Network()
      network.alter = (said, data) => {
        if (said !== 'b REP') return
        putU16(data, OF_REP, send)
        putU16(data, OF_REP + 2, receive)
      }
      const link = network.connect()
      network.pass(100_000)
      expect(network.events).toEqual([EVENT_REJECTED])
      expect(network.said.slice(2)).toEqual(['a REQ', 'b REP', 'a REJ'])
      const { reason, rejection } = link.active!
      expect([reason, FAULTS[rejection.privateData[0]!]!.name]).toEqual([28, 'QUEUE_DEPTH'])
      network.pass(2 * TIME_WAIT_US)
      expect([network.a.queuePairs(), network.b.queuePairs()]).toEqual([[], []])
    })
  }

  test('S1-M7: a block of another version tells nothing', () => {
    for (const version of [0, 2, 3, 0x7f, 0x81, 0xff]) {
      const network = connected((said, data) => {
        if (said === 'a REQ') data[VERSION] = version
      })
      expect(agreed(network), `version ${version}`).toEqual([0, 0])
    }
  })

  test('S1-M7: a block of any other length tells what it holds, or nothing', () => {
    for (const words of [0, 11, 12, 14, 16, 17, 18, 19, 49, 50, 64, 127, 128, 255]) {
      const network = connected((said, data) => {
        if (said === 'b REP') data[WORDS] = words
      })
      const holds = words >= 18 && words * 4 <= 196
      expect(agreed(network)[0], `${words} words`).toBe(holds ? 32 : 0)
    }
  })
})
