/**
 * The host of the target is told what batches store (source 4, claim 1; S1-M10).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { CUT_STRATEGIES, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { BATCH_NOTICES, LINE_BYTES } from '../../../firmware/board/limits.ts'
import { CAPACITY_MIN } from '../../../firmware/host/context-cache.ts'
import { SIGNALED, WC_SUCCESS, WQE_NOP } from '../../../firmware/host/element.ts'
import { EVENT_COMPLETION, EVENT_QUEUE_ERROR } from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { SEND } from '../../../firmware/transport/requester.ts'
import { putU16, putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { MECHANISM_LOCAL_FLUSH } from '../../../firmware/wire/persist-ack.ts'
import {
  batchFrames,
  batchSetting,
  EXPECT,
  IN_ORDER,
  sequenceOf,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { failFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  TestCard,
} from '../../support/cards/test-card.ts'
import { localQueue, play, readyHost, record } from '../../support/queues/local-queue.ts'
import {
  askNotices,
  type NoticeSetting,
  noticeSetting,
  noticesIn,
  rest,
  watched,
} from '../../support/queues/notice-host.ts'
import { lock, release, stationOf } from '../../support/queues/queue-calls.ts'
import { elementOf, readying } from '../../support/queues/queue-host.ts'
import { slotOffset } from '../../support/wire/requests.ts'

const recordsFor = (slots: readonly number[], salt = 0): { slot: number; data: Uint8Array }[] =>
  slots.map((slot) => ({ slot, data: dataOf(64, slot + salt) }))

const codeOf = (name: string): number => FAULTS.find((row) => row.name === name)!.code

/** Sends the batch; its statuses. */
function send(
  { host, region, qp }: NoticeSetting,
  slots: readonly number[],
  options: Parameters<typeof batchFrames>[3] = {},
): ReturnType<typeof statuses> {
  return statuses(host.card.serve(...batchFrames(qp, region, recordsFor(slots), options)))
}

describe('S1-M10: who asks is told', () => {
  test('S1-M10: per record, of each one, with slot, sequence, operation and client', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, region, qp, cq } = one
    expect(send(one, [7, 3, 9], { id: 21 })).toMatchObject([{ said: 'durable' }])
    const told = noticesIn(host, cq)
    const first = qp.operation - 2
    expect(told).toEqual(
      [7, 3, 9].map((slot, index) => ({
        ...{ region: region.id, says: 'record', records: 1, batch: 21, count: 3, index },
        ...{ slots: [slot, slot], operation: first + index, client: 7, copies: 2, status: 0 },
        mechanism: MECHANISM_LOCAL_FLUSH,
        sequence: sequenceOf({ card: host.card, region, qp }, slot),
        all: false,
      })),
    )
  })

  test('S1-M10: per batch, once, with how many, which slots, and that all of it is durable', () => {
    const one = watched(noticeSetting(), 'burst')
    const { host, region, qp, cq } = one
    expect(send(one, [7, 3, 9, 5], { id: 0xfffe })).toMatchObject([{ said: 'durable' }])
    expect(noticesIn(host, cq)).toEqual([
      {
        ...{ region: region.id, says: 'burst', records: 4, batch: 0xfffe, count: 4, index: 0 },
        ...{ slots: [3, 9], operation: qp.operation - 3, client: 7, copies: 2, status: 0 },
        mechanism: MECHANISM_LOCAL_FLUSH,
        sequence: sequenceOf({ card: host.card, region, qp }, 5),
        all: true,
      },
    ])
  })

  test('S1-M10: of 256 records in groups of 32, one by one, or with one entry', () => {
    const one = watched(noticeSetting(512), 'record')
    const { host, region, cq } = one
    send(one, upTo(256))
    expect(noticesIn(host, cq).map(({ slots }) => slots[0])).toEqual(upTo(256))
    askNotices(host, region, cq, 'burst')
    send(one, upTo(256))
    expect(noticesIn(host, cq)).toMatchObject([
      { says: 'burst', records: 256, count: 256, slots: [0, 255], all: true },
    ])
  })

  test('S1-M10: what was stored before the answer is not told, all that is later is', () => {
    const one = noticeSetting()
    const { host, region, qp, cq } = one
    send(one, [1])
    const { sequence, missed } = askNotices(host, region, cq, 'record')
    expect(sequence).toBe(sequenceOf({ card: host.card, region, qp }, 1))
    expect(missed).toBe(0)
    send(one, [2])
    const told = noticesIn(host, cq)
    expect(told).toMatchObject([{ slots: [2, 2] }])
    expect(told[0]!.sequence > sequence).toBe(true)
  })

  test('S1-M10: each region in the queue of its own, or in one', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, qp, cq } = one
    const second = host.card.provision({ name: 'second', slots: 8 })
    const third = host.card.provision({ name: 'third', slots: 8 })
    expect(askNotices(host, second, cq, 'burst').fault).toBe('PASS')
    host.card.serve(
      ...batchFrames(qp, second, recordsFor([1, 2])),
      ...batchFrames(qp, third, recordsFor([1, 2]), { id: 2 }),
      ...batchFrames(qp, one.region, recordsFor([4]), { id: 3 }),
    )
    expect(noticesIn(host, cq)).toMatchObject([
      { region: second.id, says: 'burst', records: 2 },
      { region: one.region.id, says: 'record', slots: [4, 4] },
    ])
  })

  test('S1-M10: moderated, the host is woken after so many, or so long', () => {
    const one = watched(noticeSetting(64, 3, 500), 'record')
    const { host, cq } = one
    const wakes = (): number =>
      host.events().filter(({ type, queue }) => type === EVENT_COMPLETION && queue === cq).length
    const arm = (): void => {
      host.arm(cq)
      host.ring(cq)
      host.run()
    }
    arm()
    send(one, [1, 2])
    expect(wakes()).toBe(0)
    send(one, [3])
    expect(wakes()).toBe(1)
    expect(noticesIn(host, cq)).toHaveLength(3)
    arm()
    send(one, [4])
    expect(wakes()).toBe(0)
    rest(host, 500)
    expect(wakes()).toBe(1)
  })
})

describe('S1-M10: told is what is durable, and once', () => {
  test('S1-M10: a refused record is not told, and the status says why', () => {
    const one = watched(noticeSetting(), 'burst')
    const { host, cq } = one
    // Slot 999 is none of the region.
    send(one, [1, 999, 3])
    expect(noticesIn(host, cq)).toMatchObject([
      { records: 2, slots: [1, 3], status: codeOf('SLOT'), all: false },
    ])
    send(one, [4, 999, 5], { condition: IN_ORDER })
    expect(noticesIn(host, cq)).toMatchObject([{ records: 1, slots: [4, 4], all: false }])
    send(one, [999])
    expect(noticesIn(host, cq)).toEqual([])
  })

  test('S1-M10: a condition that does not hold stores nothing, and tells nothing', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, region, qp, cq } = one
    const [first] = recordsFor([1])
    host.card.serve(...batchFrames(qp, region, [{ ...first!, expect: 77n }], { condition: EXPECT }))
    expect(noticesIn(host, cq)).toEqual([])
  })

  test.each(['record', 'burst'] as const)('S1-M10: a batch sent twice is told once: %s', (each) => {
    const one = watched(noticeSetting(), each)
    const { host, cq, qp } = one
    const operation = qp.operation + 1
    send(one, [1, 2], { operation })
    const told = each === 'record' ? 2 : 1
    expect(noticesIn(host, cq)).toHaveLength(told)
    expect(send(one, [1, 2], { operation })).toMatchObject([{ durable: [0, 1] }])
    expect(noticesIn(host, cq)).toEqual([])
  })

  test('S1-M10: a retry tells of what it stores, and that all is durable now', () => {
    const one = watched(noticeSetting(), 'burst')
    const { host, region, qp, cq } = one
    const operation = qp.operation + 1
    const of = { count: 3, operation, condition: IN_ORDER }
    const late = recordsFor([1, 2, 3]).map((record, index) => ({ ...record, index }))
    host.card.serve(...batchFrames(qp, region, [late[0]!, late[2]!], of))
    expect(noticesIn(host, cq)).toMatchObject([{ records: 1, slots: [1, 1], all: false }])
    host.card.serve(...batchFrames(qp, region, late.slice(1), of))
    expect(noticesIn(host, cq)).toMatchObject([{ records: 2, slots: [2, 3], all: true }])
  })

  test('S1-M10: a record that is in no batch is not told, nor what the host itself stores', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, region, qp, cq } = one
    const acks = persistAcks(host.card.serve(...persistFrames(qp, region, 1, dataOf(64, 1))))
    expect(acks).toMatchObject([{ status: 0 }])
    const local = localQueue(host)
    const own = [2, 3].map((slot, index) => ({
      ...record(local, region, slot, 50 + index, dataOf(64, slot)),
      batch: { id: 1, index, count: 2, left: 1 - index },
    }))
    expect(play(local, ...own).map(({ status }) => status)).toEqual([WC_SUCCESS, WC_SUCCESS])
    expect(noticesIn(host, cq)).toEqual([])
  })

  test('S1-M10: a batch whose queue pair ends is told as far as it was stored', () => {
    const one = watched(noticeSetting(), 'burst')
    const { host, region, qp, cq } = one
    const list = recordsFor(upTo(3)).map((record, index) => ({ ...record, index }))
    host.card.serve(
      ...batchFrames(qp, region, list, { count: 4, ends: false }),
      // A read has to follow what is collected; the second names no region.
      readFrame(qp, region, 0, 0, 8),
    )
    host.card.serve(readFrame(qp, { rkey: 0x7fffffff }, 0, 0, 8))
    expect(noticesIn(host, cq)).toMatchObject([{ records: 3, slots: [0, 2], all: false }])
  })

  test('S1-M10: a batch of a pair of the host that gives up is told in the next turn', () => {
    const one = watched(noticeSetting(), 'burst')
    const { host, region, cq } = one
    const { card } = host
    const { number, send } = host.createQp(host.createCq(16), {
      type: info.TYPE_CONNECTED,
      units: 8,
    })
    const peer = { number: 0x321, mtu: 4096, peerPsn: 5, psn: 6, incarnation: 1, ...stationOf(1) }
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, readying(send, peer))
    const qp = { number, peer: 0x321, mtu: 4096, psn: 5, operation: 0 }
    // The peer acknowledges nothing: after seven repetitions the next turn gives it up.
    host.post(send, elementOf({ opcode: SEND, inline: dataOf(8, 1) }))
    host.ring(send)
    host.run()
    const repeats = Array.from({ length: 7 }, () => card.pass(card.waitUs).length)
    expect(repeats).toEqual(new Array(7).fill(1))
    const list = recordsFor(upTo(3)).map((record, index) => ({ ...record, index }))
    // A read has to follow what is collected.
    const frames = batchFrames(qp, region, list, { count: 4, ends: false })
    card.serve(...frames, readFrame(qp, region, 0, 0, 8))
    while (host.zone1(send).state === info.QUEUE_READY) {
      expect(noticesIn(host, cq)).toEqual([])
      card.pass(card.waitUs)
    }
    expect(noticesIn(host, cq)).toEqual([])
    expect(card.waitUs).toBe(1)
    card.pass(1)
    expect(noticesIn(host, cq)).toMatchObject([{ records: 3, slots: [0, 2], all: false }])
  })

  test('S1-M10: a record in doubt is counted, and never told', () => {
    for (const fence of [2, 3]) {
      const one = watched(noticeSetting(), 'record')
      const { host, cq } = one
      failFence(host.card, fence)
      expect(send(one, [1, 2])).toMatchObject([{ said: 'IN_DOUBT', durable: [] }])
      expect(noticesIn(host, cq)).toMatchObject([{ says: 'missed', records: 2 }])
    }
  })

  test('S1-M10: a doubt about a region that nobody watches is not counted for another one', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, cq, qp } = one
    const other = host.card.provision({ name: 'other', slots: 8 })
    failFence(host.card, 2)
    const sent = host.card.serve(...batchFrames(qp, other, recordsFor([1, 2])))
    expect(statuses(sent)).toMatchObject([{ said: 'IN_DOUBT', durable: [] }])
    expect(noticesIn(host, cq)).toEqual([])
    expect(askNotices(host, one.region, 0, 'nothing').missed).toBe(0)
  })

  test('S1-M10: the copies that are told are those that each record has at the least', () => {
    for (const each of ['record', 'burst'] as const) {
      const one = watched(noticeSetting(), each)
      const { host, region, qp, cq } = one
      // The second copy of the second record; the batch waits for one of each.
      host.card.nvdimm.refuseWrites(slotOffset(region, 1, 2) / LINE_BYTES)
      const list = recordsFor([1, 2, 3]).map((record) => ({ ...record, wait: 1 }))
      const sent = host.card.serve(...batchFrames(qp, region, list))
      expect(statuses(sent)).toMatchObject([{ said: 'durable', durable: [0, 1, 2] }])
      const copies = noticesIn(host, cq).map((notice) => notice.copies)
      expect(copies, each).toEqual(each === 'record' ? [2, 1, 2] : [1])
    }
  })

  test('S1-M10: at whatever command the power goes, what was told is there', () => {
    const play = (command: number): NoticeSetting => {
      const one = watched(noticeSetting(), 'record')
      if (command >= 0) one.host.card.machine.armCut(command)
      one.host.card.serve(...batchFrames(one.qp, one.region, recordsFor([1, 2, 3])))
      return one
    }
    const before = watched(noticeSetting(), 'record').host.card.machine.commandCount
    const commands = play(-1).host.card.machine.commandCount - before
    const random = new Random(7)
    const seen = new Set<number>()
    for (let command = 0; command <= commands; command++) {
      const { host, cq } = play(command)
      const told = noticesIn(host, cq)
      seen.add(told.length)
      const strategy = CUT_STRATEGIES[command % CUT_STRATEGIES.length]!
      cut(host.card.nvdimm, { random, strategy })
      const card = new TestCard(host.card.nvdimm)
      const [region, qp] = [card.open(), card.connect()]
      for (const { slots } of told) {
        expect(card.read(qp, region, slots[0], 0, 64), `cut ${command}`).toEqual(
          dataOf(64, slots[0]),
        )
      }
    }
    expect([...seen].sort()).toEqual([0, 1, 2, 3])
  })
})

describe('S1-M10: what is not told is counted, and holds nobody up', () => {
  test('S1-M10: a queue that is full: the batch is stored, and the rest is told as missed', () => {
    const one = watched(noticeSetting(4), 'record')
    const { host, cq } = one
    expect(send(one, upTo(7))).toMatchObject([{ said: 'durable', durable: upTo(7) }])
    expect(send(one, [20, 21])).toMatchObject([{ said: 'durable' }])
    expect(noticesIn(host, cq).map(({ slots }) => slots[0])).toEqual([0, 1, 2, 3])
    // Nothing else comes: it is looked again whether there is room.
    rest(host, 1000)
    expect(noticesIn(host, cq)).toMatchObject([{ says: 'missed', records: 5 }])
    rest(host, 5000)
    expect(noticesIn(host, cq)).toEqual([])
    send(one, [30])
    expect(noticesIn(host, cq)).toMatchObject([{ slots: [30, 30] }])
    expect(host.events().filter(({ type }) => type === EVENT_QUEUE_ERROR)).toEqual([])
  })

  test('S1-M10: the count stands before what comes next', () => {
    const one = watched(noticeSetting(2), 'burst')
    const { host, cq } = one
    for (const slot of upTo(4)) send(one, [slot, slot + 100])
    noticesIn(host, cq)
    send(one, [50])
    expect(noticesIn(host, cq)).toMatchObject([
      { says: 'missed', records: 4 },
      { says: 'burst', records: 1, slots: [50, 50] },
    ])
  })

  test('S1-M10: more than the card keeps for one burst of frames', () => {
    const one = watched(noticeSetting(4096), 'record')
    const { host, region, cq } = one
    const peers = Array.from({ length: 5 }, () => host.card.connect(4096))
    const lasts: Uint8Array[] = []
    for (const peer of peers) {
      const list = recordsFor(upTo(256)).map(({ slot }) => ({ slot, data: dataOf(8, slot) }))
      const frames = batchFrames(peer, region, list)
      host.card.serve(...frames.slice(0, 255))
      lasts.push(frames[255]!)
    }
    expect(statuses(host.card.serve(...lasts))).toHaveLength(5)
    const told = noticesIn(host, cq)
    const missed = told.filter(({ says }) => says === 'missed')
    expect(told.length - missed.length).toBe(BATCH_NOTICES)
    expect(missed).toMatchObject([{ records: 5 * 256 - BATCH_NOTICES }])
  })

  test('S1-M10: more turns from region to region than the card keeps are told as missed', () => {
    const one = watched(noticeSetting(4096), 'burst')
    const { host, region, cq } = one
    const second = host.card.provision({ name: 'second', slots: 300 })
    expect(askNotices(host, second, cq, 'burst').fault).toBe('PASS')
    const lasts: Uint8Array[] = []
    for (let i = 0; i < 5; i++) {
      const list = upTo(256).map((slot) => {
        const reth = { rkey: [region, second][slot % 2]!.rkey }
        return { slot, data: dataOf(8, slot), reth }
      })
      const frames = batchFrames(host.card.connect(4096), region, list)
      host.card.serve(...frames.slice(0, 255))
      lasts.push(frames[255]!)
    }
    expect(statuses(host.card.serve(...lasts))).toHaveLength(5)
    const told = noticesIn(host, cq)
    const missed = told.filter(({ says }) => says === 'missed')
    expect(told.length - missed.length).toBe(BATCH_NOTICES)
    expect(missed.map((notice) => notice.region)).toEqual([region.id, second.id])
    expect(told.reduce((sum, { records }) => sum + records, 0)).toBe(5 * 256)
  })

  test('S1-M10: a queue that stands still under its lock takes none, and then the count', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, cq } = one
    const lock = host.must(mad.METHOD_SET, mad.ATTRIBUTE_QUEUE_LOCK, (body) => {
      putU32(body, mad.QUEUE_LOCK_QUEUE, cq)
    })
    send(one, [1, 2])
    expect(noticesIn(host, cq)).toEqual([])
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_QUEUE_RELEASE, (body) => {
      putU32(body, mad.QUEUE_LOCK_QUEUE, cq)
      body.set(lock.subarray(mad.QUEUE_LOCK_TOKEN, mad.QUEUE_LOCK_TOKEN + 4), mad.QUEUE_LOCK_TOKEN)
    })
    rest(host, 1000)
    expect(noticesIn(host, cq)).toMatchObject([{ says: 'missed', records: 2 }])
  })

  test('S1-M10: a cache that is full of what has to stay takes none, and then the count', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, cq } = one
    for (let i = 0; i < CAPACITY_MIN; i++) {
      // Its event is due later, and its context stays until then.
      const moderated = host.createCq(64, 2, 500)
      host.arm(moderated)
      const local = host.createQp(moderated)
      host.post(local.send, elementOf({ opcode: WQE_NOP, flags: SIGNALED }))
      host.ring(local.send)
      host.ring(moderated)
      host.run()
    }
    host.setCache(0, 1, 0, CAPACITY_MIN)
    expect(send(one, [1, 2])).toMatchObject([{ said: 'durable' }])
    expect(noticesIn(host, cq)).toEqual([])
    rest(host, 1000)
    expect(noticesIn(host, cq)).toMatchObject([{ says: 'missed', records: 2 }])
  })

  test('S1-M10: a cache that is as small as it may be evicts the queue, and finds it again', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, cq } = one
    host.setCache(0, 1, 0, 4)
    for (const slot of upTo(20)) {
      const other = host.createCq(4)
      host.ring(other)
      host.run()
      send(one, [slot])
      host.destroy(other)
    }
    expect(noticesIn(host, cq).map(({ slots }) => slots[0])).toEqual(upTo(20))
  })
})

describe('S1-M10: the end', () => {
  test('S1-M10: a host that ends it is told no more, and how many were missed', () => {
    const one = watched(noticeSetting(2), 'record')
    const { host, region, cq } = one
    send(one, upTo(5))
    expect(askNotices(host, region, 0, 'nothing')).toMatchObject({ fault: 'PASS', missed: 3 })
    expect(noticesIn(host, cq)).toHaveLength(2)
    send(one, [9])
    rest(host, 2000)
    expect(noticesIn(host, cq)).toEqual([])
    expect(askNotices(host, region, 0, 'nothing')).toMatchObject({ fault: 'PASS', missed: 0 })
    host.destroy(cq)
  })

  test('S1-M10: half a batch that was stored before the end is told to nobody', () => {
    const one = watched(noticeSetting(), 'burst')
    const { host, region, qp, cq } = one
    const list = recordsFor(upTo(3)).map((record, index) => ({ ...record, index }))
    host.card.serve(
      ...batchFrames(qp, region, list.slice(0, 2), { count: 3, ends: false, operation: 50 }),
      readFrame(qp, region, 0, 0, 8),
    )
    askNotices(host, region, 0, 'nothing')
    askNotices(host, region, cq, 'burst')
    host.card.serve(...batchFrames(qp, region, list.slice(2), { count: 3, operation: 50 }))
    expect(noticesIn(host, cq)).toMatchObject([{ records: 1, slots: [2, 2], all: true }])
  })

  test('S1-M10: half a batch goes on being told where another region is told no more', () => {
    const one = watched(noticeSetting(), 'burst')
    const { host, region, qp, cq } = one
    const second = host.card.provision({ name: 'second', slots: 8 })
    expect(askNotices(host, second, cq, 'burst').fault).toBe('PASS')
    const list = recordsFor(upTo(3)).map((record, index) => ({ ...record, index }))
    const of = { count: 3, operation: 50 }
    host.card.serve(
      ...batchFrames(qp, second, list.slice(0, 2), { ...of, ends: false }),
      readFrame(qp, second, 0, 0, 8),
    )
    askNotices(host, region, 0, 'nothing')
    host.card.serve(...batchFrames(qp, second, list.slice(2), of))
    expect(noticesIn(host, cq)).toMatchObject([{ region: second.id, records: 3, all: true }])
  })

  test('S1-M10: another host has asked for nothing, and asks anew', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, region } = one
    send(one, [1])
    host.setLink(false)
    host.card.idle()
    expect(send(one, [2])).toMatchObject([{ said: 'durable' }])
    host.bytes.fill(0)
    host.startAnew(64)
    const cq = host.createCq(64)
    expect(send(one, [3])).toMatchObject([{ said: 'durable' }])
    expect(noticesIn(host, cq)).toEqual([])
    expect(askNotices(host, region, cq, 'record').fault).toBe('PASS')
    send(one, [4])
    expect(noticesIn(host, cq)).toMatchObject([{ slots: [4, 4] }])
  })

  test('S1-M10: a queue that ends in error ends it, and the host may ask for another one', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, region, cq } = one
    send(one, upTo(70))
    // A pointer that cannot be.
    host.setPointer(cq, 0x7000_0000)
    expect(send(one, [1])).toMatchObject([{ said: 'durable' }])
    const ended = host.events().filter(({ type }) => type === EVENT_QUEUE_ERROR)
    expect(ended).toMatchObject([{ queue: cq, fault: 'QUEUE_POINTER' }])
    const { pointerReads } = host.counters()
    rest(host, 2000)
    expect(host.counters().pointerReads).toBe(pointerReads)
    host.destroy(cq)
    const next = host.createCq(64)
    expect(askNotices(host, region, next, 'record').fault).toBe('PASS')
    send(one, [2])
    expect(noticesIn(host, next)).toMatchObject([{ slots: [2, 2] }])
  })

  test('S1-M10: a queue in error, or under a lock, is none for notices, and nothing begins', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, region, cq } = one
    const other = host.createCq(64)
    const { token } = lock(host, other)
    expect(askNotices(host, region, other, 'record').fault).toBe('QUEUE_LOCKED')
    // What was asked before goes on.
    send(one, [1])
    expect(noticesIn(host, cq)).toMatchObject([{ slots: [1, 1] }])
    expect(release(host, other, token)).toBe('PASS')
    host.setPointer(cq, 0x7000_0000)
    send(one, upTo(70))
    expect(host.events()).toMatchObject([{ type: EVENT_QUEUE_ERROR, queue: cq }])
    expect(askNotices(host, region, cq, 'record').fault).toBe('QUEUE_UNKNOWN')
    expect(askNotices(host, region, other, 'record').fault).toBe('PASS')
    send(one, [2])
    expect(noticesIn(host, other)).toMatchObject([{ slots: [2, 2] }])
  })

  test('S1-M10: a region that is removed is told of once more', () => {
    const one = watched(noticeSetting(), 'record')
    const { host, region, cq } = one
    send(one, [1])
    host.card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode(region.name), mad.REGION_NAME)
    })
    rest(host, 10)
    expect(noticesIn(host, cq)).toMatchObject([
      { says: 'record', slots: [1, 1] },
      { says: 'over', region: region.id, records: 0 },
    ])
    host.destroy(cq)
  })

  test('S1-M10: until that is told, nobody takes the place of the region', () => {
    const one = watched(noticeSetting(2), 'record')
    const { host, region, cq } = one
    send(one, upTo(3))
    host.card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode(region.name), mad.REGION_NAME)
    })
    // Its room is cleared first: then another one may lie there.
    for (let calls = 0; calls === 0 || host.card.status()[mad.PART_WORK] !== 0; calls++) {
      expect(calls).toBeLessThan(10_000)
      host.card.pass(20)
    }
    const next = host.card.provision({ name: 'next', slots: 8 })
    expect(askNotices(host, next, cq, 'record').fault).toBe('QUEUE_BUSY')
    expect(noticesIn(host, cq)).toHaveLength(2)
    rest(host, 1000)
    expect(noticesIn(host, cq)).toMatchObject([{ says: 'missed and over', records: 1 }])
    expect(askNotices(host, next, cq, 'record').fault).toBe('PASS')
    host.card.serve(...batchFrames(one.qp, next, recordsFor([5])))
    expect(noticesIn(host, cq)).toMatchObject([{ region: next.id, slots: [5, 5] }])
  })
})

describe('S1-M10: the call', () => {
  test('S1-M10: a card without a host has nobody who may ask', () => {
    const { card, region } = batchSetting()
    const { fault } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_BATCH_NOTICES, (body) => {
      putU32(body, mad.NOTICES_REGION, region.id)
      body[mad.NOTICES_EACH] = mad.NOTICES_RECORD
    })
    expect(fault).toBe('HOST_ONLY')
  })

  test('S1-M10: what is asked has to be there, and of that kind', () => {
    const { host, region, cq } = noticeSetting()
    const bytes = host.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    const qp = host.createQp(host.createCq(64))
    const used = host.createCq(64)
    host.createQp(used)
    const faults = [
      askNotices(host, { id: 99 }, cq, 'record'),
      askNotices(host, bytes, cq, 'record'),
      askNotices(host, region, cq, 3),
      askNotices(host, region, 2, 'record'),
      askNotices(host, region, 60, 'record'),
      askNotices(host, region, 0xffffffff, 'record'),
      askNotices(host, region, qp.send, 'record'),
      askNotices(host, region, used, 'record'),
    ].map(({ fault }) => fault)
    expect(faults).toEqual([
      ...['NO_REGION', 'BATCH_REGION', 'REQUEST', 'QUEUE_UNKNOWN', 'QUEUE_UNKNOWN'],
      ...['QUEUE_UNKNOWN', 'QUEUE_UNKNOWN', 'QUEUE_BUSY'],
    ])
  })

  test('S1-M10: the queue is for notices alone, and stays while it is', () => {
    const { host, region, cq } = watched(noticeSetting(), 'record')
    const pair = (body: Uint8Array): void => {
      body[mad.CREATE_QP_TYPE] = info.TYPE_LOCAL
      const ring = host.allocate(2 * 64 * 64)
      putU16(body, mad.CREATE_QP_DOMAIN, 0)
      putU32(body, mad.CREATE_QP_SEND_CQ, cq)
      putU32(body, mad.CREATE_QP_RECEIVE_CQ, cq)
      putU32(body, mad.CREATE_QP_SEND_UNITS, 64)
      putU32(body, mad.CREATE_QP_SEND_RING + 4, ring)
      putU32(body, mad.CREATE_QP_RECEIVE_RING + 4, ring + 64 * 64)
      putU32(body, mad.CREATE_QP_RECEIVE_UNITS, 64)
    }
    expect(host.manage(mad.METHOD_SET, mad.ATTRIBUTE_CREATE_QP, pair).fault).toBe('QUEUE_BUSY')
    const ending = (body: Uint8Array): void => putU32(body, mad.DESTROY_QUEUE, cq)
    expect(host.manage(mad.METHOD_SET, mad.ATTRIBUTE_DESTROY, ending).fault).toBe('QUEUE_BUSY')
    askNotices(host, region, 0, 'nothing')
    expect(host.manage(mad.METHOD_SET, mad.ATTRIBUTE_CREATE_QP, pair).fault).toBe('PASS')
  })

  test('S1-M10: where nobody asks nothing is kept, and nothing is due', () => {
    const one = noticeSetting()
    const reads = one.host.counters().pointerReads
    send(one, upTo(32))
    expect(one.host.counters().pointerReads).toBe(reads)
    expect(readyHost().card.waitUs).not.toBe(1)
  })
})
