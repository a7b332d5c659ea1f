/**
 * The driver of the queues on the real firmware: from the header page to a record that is durable.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { ForbiddenAccess } from '../../../../boards/host-port.ts'
import { CARRIES_POINTER, PORT_AT, PORT_REGISTER } from '../../../../firmware/board/hal.ts'
import { UNIT_BYTES } from '../../../../firmware/board/limits.ts'
import { DURABLE, INLINE, WQE_FLAGS, WQE_LOCAL } from '../../../../firmware/host/element.ts'
import { HEADER_TRUST } from '../../../../firmware/host/header-page.ts'
import { READ, WRITE, WRITE_PERSIST } from '../../../../firmware/transport/requester.ts'
import { PcieDevice } from '../../../../host-driver/card/device.ts'
import type {
  CardQueuePair,
  QueuePairOptions,
} from '../../../../host-driver/card/queues/card-queue-pair.ts'
import type {
  Completion,
  DoorbellForm,
  QueueElement,
} from '../../../../host-driver/card/queues/values.ts'
import { VIEW_SETTLED } from '../../../../host-driver/way/jobs.ts'
import { CardRemoved, QueueEnded, QueueFull } from '../../../../host-driver/way/queue-errors.ts'
import { complete, PcieRig, type RigOptions } from '../../../support/queues/pcie-rig.ts'

const SEED = Number(process.env.SEED ?? 20261121)
const FORMS: readonly DoorbellForm[] = ['fifo', 'trusted', 'register', 'message']
const ARGUMENT = { code: 'PERDURE_ARGUMENT' }

const rigs: PcieRig[] = []

async function open(options: RigOptions = {}): Promise<PcieRig> {
  const rig = await PcieRig.open(options)
  rigs.push(rig)
  return rig
}

afterEach(() => {
  for (const rig of rigs.splice(0)) rig.close()
})

/** Keeps a queue busy with so many NOPs, as fast as it takes them; their numbers as they ended. */
function keepBusy(rig: PcieRig, pair: CardQueuePair, count: number): Promise<number[]> {
  const ended: number[] = []
  let posted = 0
  return new Promise((resolve) => {
    const post = (): void => {
      const works: QueueElement[] = []
      while (posted < count && works.length < pair.send.free) {
        const number = posted++
        const done = ({ status }: Completion): void => {
          ended.push(status === 'SUCCESS' ? number : -1)
        }
        works.push({ kind: 'nop', done })
      }
      if (works.length > 0) pair.post(...works)
      if (ended.length === count) resolve(ended)
      else rig.clock.schedule(rig.clock.nowUs + 7, post)
    }
    post()
  })
}

/** Posts an element; the ring from its first unit on, as the card finds it, and its end. */
function postSeen(
  rig: PcieRig,
  pair: CardQueuePair,
  work: QueueElement,
): { element: DataView; end: Promise<Completion> } {
  const { ring, depth } = rig.device.zones.zone2(pair.send.queue)
  let unit = 0
  const end = new Promise<Completion>((done) => {
    unit = pair.post({ ...work, done })[0]!
  })
  const at = ring + (unit % depth) * UNIT_BYTES
  const bytes = rig.ram.live.slice(at, ring + depth * UNIT_BYTES)
  return { element: new DataView(bytes.buffer), end }
}

/** The card goes and comes back, and is taken into use again. */
async function takeOut(rig: PcieRig): Promise<void> {
  rig.ram.link.remove()
  await rig.pass(100)
  rig.ram.link.restore()
  await rig.pass(100)
  await rig.device.reopen()
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

describe('a card behind PCIe', () => {
  test('P3-12: a NOP goes through the queues and completes', async () => {
    const rig = await open()
    const pair = await rig.localPair()
    expect(await complete(pair, { kind: 'nop' })).toMatchObject({ status: 'SUCCESS', queue: 4 })
    expect(rig.device.endpoint.ipv4).toEqual([10, 0, 0, 2])
    expect(rig.device.pathMtu).toBe(4096)
  })

  test('a record is durable in both copies when it completes, inline and by address', async () => {
    const rig = await open()
    const region = await rig.provision()
    const pair = await rig.localPair({ clientId: 77n })
    for (const bytes of [1, 255, 256, 257, 1000]) {
      const data = new Uint8Array(bytes).fill(bytes & 0xff)
      const at = { rkey: region.rkey, address: 3n << 32n }
      const record: QueueElement = {
        kind: WRITE_PERSIST,
        data,
        ...at,
        operation: BigInt(bytes),
        wait: 2,
      }
      const end = await complete(pair, record)
      expect(end).toMatchObject({ status: 'SUCCESS', copies: 2, operation: BigInt(bytes) })
      expect(end.flags & DURABLE).toBe(DURABLE)
      const buffer = rig.device.alloc(64 + bytes)
      const address = at.address | (BigInt(VIEW_SETTLED) << 28n)
      const read: QueueElement = {
        kind: READ,
        data: [buffer.range(pair.lkey)],
        rkey: at.rkey,
        address,
      }
      expect((await complete(pair, read)).status).toBe('SUCCESS')
      expect(buffer.load(64)).toEqual(data)
      buffer.free()
    }
  })

  const rules: readonly [string, Partial<QueuePairOptions>, number][] = [
    ['as the device has it', {}, 256],
    ['100 bytes', { inlineMax: 100 }, 100],
    ['no byte', { inlineMax: 0 }, 0],
    ['100 bytes of another kind', { inlineMax: 100, inlineKinds: new Set([WRITE]) }, 0],
    ['100 bytes of this kind', { inlineMax: 100, inlineKinds: new Set([WRITE_PERSIST]) }, 100],
  ]
  test.each(rules)('P3-3: up to a threshold data go inline: %s', async (_, options, inlineMax) => {
    const rig = await open()
    const { rkey } = await rig.provision()
    const pair = await rig.localPair({ sendUnits: 64, ...options })
    for (const [i, length] of [1, 99, 100, 101, 255, 256, 257].entries()) {
      const data = new Uint8Array(length).fill(length & 0xff)
      const to = { rkey, address: BigInt(i) << 32n, operation: BigInt(i + 1), wait: 2 }
      const { element, end } = postSeen(rig, pair, { kind: WRITE_PERSIST, data, ...to })
      expect(await end).toMatchObject({ status: 'SUCCESS', copies: 2 })
      const isInline = (element.getUint16(WQE_FLAGS, true) & INLINE) !== 0
      expect(isInline, `${length} bytes`).toBe(length <= inlineMax)
      const local = Number(element.getBigUint64(WQE_LOCAL, true))
      const bytes = new Uint8Array(isInline ? element.buffer : rig.ram.live.buffer)
      const from = isInline ? UNIT_BYTES : local
      expect(bytes.slice(from, from + length)).toEqual(data)
    }
  })

  test('P3-13: each form names the queue, in order, with or without its pointer', async () => {
    for (const [doorbell, doorbellCarriesPointer, way] of [
      ['fifo', true, 'ring with pointer'],
      ['fifo', false, 'ring'],
      ['trusted', true, 'ring with pointer and tag'],
      ['register', true, 'pair with pointer'],
      ['message', true, 'none'],
    ] as const) {
      const rig = await open({ doorbell, doorbellCarriesPointer })
      const pair = await rig.localPair({ sendUnits: 16 })
      const { queue } = pair.send
      const ways = new Map<string, number[]>([['none', []]])
      rig.port.script = ({ form, low, high }) => {
        if ((low & 0xffff) !== queue) return undefined
        const carries = form === 'pair' || (low & CARRIES_POINTER) !== 0
        const tag = form === 'ring' && low > 2 * CARRIES_POINTER ? ' and tag' : ''
        const way = `${form}${carries ? ` with pointer${tag}` : ''}`
        ways.set(way, [...(ways.get(way) ?? []), high])
        return undefined
      }
      expect(await keepBusy(rig, pair, 100), doorbell).toEqual(upTo(100))
      const [rung, ...others] = [...ways.keys()].filter((one) => one !== 'none')
      expect([rung ?? 'none', others]).toEqual([way, []])
      const pointers = ways.get(way)!
      if (way === 'ring') expect(new Set(pointers)).toEqual(new Set([0]))
      else if (way !== 'none') expect([pointers[0], pointers.at(-1)]).toEqual([16, 100])
      expect(pointers).toEqual([...pointers].sort((a, b) => a - b))
    }
  })

  test('S1-M8: by trusted doorbells the card reads the pointer of no send queue', async () => {
    const reads = new Map<DoorbellForm, number>()
    for (const doorbell of ['fifo', 'trusted'] as const) {
      const rig = await open({ doorbell })
      const pair = await rig.localPair({ sendUnits: 16 })
      await complete(pair, { kind: 'nop' })
      const at = rig.device.zones.at(pair.send.queue, 3)
      let count = 0
      rig.ram.link.script = (access) => {
        if (access.kind === 'read' && access.at === at) count += 1
        return undefined
      }
      for (let i = 0; i < 50; i++) await complete(pair, { kind: 'nop' })
      reads.set(doorbell, count)
    }
    expect([...reads]).toEqual([
      ['fifo', 50],
      ['trusted', 0],
    ])
  })

  test('S1-M8: a card that knows nothing of it is rung as before, and serves', async () => {
    const rig = await open({ doorbell: 'trusted' })
    const { memory } = rig.device
    // Such a card does not see that word of the page.
    const store = memory.store.bind(memory)
    memory.store = (at, bytes) => {
      const stored = Uint8Array.from(bytes)
      if (at === rig.device.layout.header) stored.fill(0, HEADER_TRUST, HEADER_TRUST + 4)
      store(at, stored)
    }
    const lows: number[] = []
    rig.port.script = ({ form, low }) => {
      if (form === 'ring') lows.push(low)
      return undefined
    }
    await takeOut(rig)
    const pair = await rig.localPair({ sendUnits: 16 })
    expect(await keepBusy(rig, pair, 100)).toEqual(upTo(100))
    expect(lows.filter((low) => low >= 2 * CARRIES_POINTER)).toEqual([])
    expect(lows.filter((low) => (low & CARRIES_POINTER) === 0)).toEqual([])
  })

  test('S1-M8: the card goes, and is reopened: it is asked again, by its epoch', async () => {
    const rig = await open({ doorbell: 'trusted' })
    const before = await rig.localPair({ sendUnits: 16 })
    expect(await keepBusy(rig, before, 30)).toEqual(upTo(30))
    for (let lap = 0; lap < 3; lap++) {
      await takeOut(rig)
      const pair = await rig.localPair({ sendUnits: 16 })
      expect(await keepBusy(rig, pair, 30)).toEqual(upTo(30))
    }
    expect((await rig.device.management.queues()).counters.doorbellsRefused).toBe(0n)
  })

  test('P3-13: the register doorbell is deleted when the card has recorded it', async () => {
    const rig = await open({ doorbell: 'register' })
    const written: string[] = []
    rig.port.script = ({ form, at, low }) => {
      if (form === 'pair' && at === PORT_REGISTER - PORT_AT) written.push(low === 0 ? 'no' : 'yes')
      return undefined
    }
    const pair = await rig.localPair({ sendUnits: 16 })
    await keepBusy(rig, pair, 50)
    await rig.pass(2000)
    expect(written.length).toBeGreaterThan(4)
    expect(written).toEqual(written.map((_, i) => (i % 2 === 0 ? 'yes' : 'no')))
    expect(rig.device.port.readRegister(PORT_REGISTER - PORT_AT)).toBe(0)
  })

  test('H1: doorbells that are lost, doubled, torn or late do no harm', async () => {
    for (const doorbell of FORMS) {
      const rig = await open({ doorbell, watchdogUs: 200 })
      rig.port.chances = {
        ...{ random: new Random(SEED), lost: 0.2, twice: 0.2, torn: 0.1, late: 0.2 },
      }
      const pair = await rig.localPair({ sendUnits: 16 })
      expect(await keepBusy(rig, pair, 200), `${doorbell}, seed ${SEED}`).toEqual(upTo(200))
    }
  })

  test('P3-11: the memory itself refuses what the host may not write', async () => {
    const rig = await open()
    const pair = await rig.localPair()
    const { memory, zones, layout } = rig.device
    const { queue } = pair.send
    for (const at of [zones.at(queue, 1), zones.at(queue, 2), layout.header + 192]) {
      expect(() => memory.storeWord(at, 1)).toThrow(ForbiddenAccess)
      expect(() => memory.store(at, Uint8Array.of(1))).toThrow(ForbiddenAccess)
    }
  })

  test('P3-25: a post that finds the ring full stores nothing; later it fits', async () => {
    const rig = await open()
    const pair = await rig.localPair({ sendUnits: 4, receiveUnits: 8 })
    const ends: string[] = []
    const nop: QueueElement = { kind: 'nop', done: ({ status }) => ends.push(status) }
    pair.post(nop, nop, nop)
    const free = rig.device.layout.arena.freeBytes
    const record: QueueElement = { kind: WRITE_PERSIST, data: new Uint8Array(500), wait: 1 }
    expect(() => pair.post(nop, nop)).toThrow(QueueFull)
    expect(() => pair.post(nop, record, record)).toThrow(QueueFull)
    expect(rig.device.layout.arena.freeBytes).toBe(free)
    await rig.pass(200)
    pair.post(nop, nop, nop, nop)
    await rig.pass(200)
    expect(ends).toEqual(Array(7).fill('SUCCESS'))
  })
})

describe('growth on the card', () => {
  test('P3-24: a busy queue grows twice, by message and under its lock', async () => {
    for (const form of ['message', 'lock'] as const) {
      for (let delay = 0; delay < 40; delay += 3) {
        const rig = await open()
        const pair = await rig.localPair({ sendUnits: 4, receiveUnits: 64 })
        const busy = keepBusy(rig, pair, 120)
        await rig.pass(delay)
        await pair.grow('send', 8, form)
        await rig.pass(delay)
        await pair.grow('send', 64, form)
        expect(await busy, `${form} after ${delay} µs`).toEqual(upTo(120))
        expect(pair.send.depth).toBe(64)
        expect(rig.device.zones.zone2(pair.send.queue).depth).toBe(64)
      }
    }
  })

  test('P3-1, P3-24: the receive queue stays the deeper one', async () => {
    const rig = await open()
    const pair = await rig.localPair({ sendUnits: 8, receiveUnits: 8 })
    await expect(pair.grow('send', 16)).rejects.toMatchObject(ARGUMENT)
    await pair.grow('receive', 32)
    await pair.grow('send', 16)
    expect([pair.send.depth, pair.receive.depth]).toEqual([16, 32])
  })

  test('P3-27: a completion queue grows while it fills', async () => {
    for (const form of ['message', 'lock'] as const) {
      for (let delay = 0; delay < 40; delay += 3) {
        const rig = await open()
        const sendCq = await rig.device.createCq({ entries: 64 })
        sendCq.dispatch(() => {})
        const pair = await rig.device.createQp({ type: 'local', sendCq, sendUnits: 32 })
        const busy = keepBusy(rig, pair, 150)
        await rig.pass(delay)
        await sendCq.grow(256, form)
        expect(await busy, `${form} after ${delay} µs`).toEqual(upTo(150))
        expect(sendCq.entries).toBe(256)
      }
    }
  })
})

describe('the life of queues', () => {
  test('P3-1: a receive queue that is not as deep as its send queue is refused', async () => {
    const rig = await open()
    const sendCq = await rig.device.createCq({ entries: 16 })
    const make = (sendUnits: number, receiveUnits: number): Promise<CardQueuePair> =>
      rig.device.createQp({ type: 'local', sendCq, sendUnits, receiveUnits })
    for (const [sendUnits, receiveUnits] of [
      [8, 4],
      [8, 12],
      [8, 0],
      [0, 8],
      [7, 8],
      [8, 65536],
    ] as const) {
      await expect(make(sendUnits, receiveUnits)).rejects.toMatchObject(ARGUMENT)
    }
    const pair = await make(8, 16)
    expect([pair.send.depth, pair.receive.depth]).toEqual([8, 16])
    await pair.destroy()
    await rig.device.destroyCq(sendCq)
  })

  test('bad arguments are refused, and nothing is held', async () => {
    const rig = await open()
    const { device } = rig
    const pair = await rig.localPair()
    const free = device.layout.arena.freeBytes
    for (const entries of [0, 3, -8, 65536, Number.NaN]) {
      await expect(device.createCq({ entries })).rejects.toMatchObject(ARGUMENT)
    }
    for (const wrong of [{ count: -1 }, { count: 65536 }, { periodUs: 1.5 }]) {
      await expect(device.createCq({ entries: 16, ...wrong })).rejects.toMatchObject(ARGUMENT)
    }
    const { sendCq } = pair
    for (const wrong of [
      { type: 'other' as 'local' },
      { domain: -1 },
      { domain: 65536 },
      { clientId: -1n },
      { clientId: 2n ** 64n },
      { inlineMax: 1025 },
    ]) {
      const made = device.createQp({ type: 'local', sendCq, ...wrong })
      await expect(made, JSON.stringify(Object.keys(wrong))).rejects.toMatchObject(ARGUMENT)
    }
    for (const [at, length] of [
      [0, 64],
      [device.layout.arena.at, 0],
      [device.layout.arena.at, 2 ** 40],
      [0.5, 64],
    ] as const) {
      await expect(device.regMr(at, length)).rejects.toMatchObject(ARGUMENT)
    }
    expect(() => pair.post({ kind: READ, data: new Uint8Array(8) })).toThrow('ranges')
    expect(() => pair.post({ kind: READ, data: [], inline: true })).toThrow('inline')
    const far = { address: 2 ** 40, length: 8, lkey: 0 }
    expect(() => pair.post({ kind: WRITE_PERSIST, data: [far] })).toThrow('the memory has')
    expect(() => device.sendDatagram(new Uint8Array(255))).toThrow('256')
    expect(() => sendCq.poll(0)).toThrow('1 or more')
    expect(device.layout.arena.freeBytes).toBe(free)
    for (const wrong of [{ watchdogUs: 0 }, { inlineMax: -1 }, { queues: 3 }]) {
      await expect(PcieDevice.open(rig.port, wrong)).rejects.toMatchObject(ARGUMENT)
    }
  })

  test('P3-26: a receive element has to point to a new place until its message came', async () => {
    const rig = await open()
    const one = await rig.localPair()
    const other = await rig.localPair()
    const buffer = rig.device.alloc(128)
    one.postReceive({ range: buffer.range(one.lkey, 0, 64) })
    expect(() => one.postReceive({ range: buffer.range(one.lkey, 0, 64) })).toThrow('new place')
    expect(() => other.postReceive({ range: buffer.range(one.lkey, 63, 2) })).toThrow('new place')
    const two = [
      { range: buffer.range(one.lkey, 64, 64) },
      { range: buffer.range(one.lkey, 100, 1) },
    ]
    expect(() => one.postReceive(...two)).toThrow('new place')
    expect(one.receive.outstanding.size).toBe(1)
    one.postReceive({ range: buffer.range(one.lkey, 64, 64) })
    one.close()
    other.postReceive({ range: buffer.range(one.lkey) })
  })

  test('an element with a wrong key ends its pair alone; the rest is flushed, once', async () => {
    const rig = await open()
    const pair = await rig.localPair()
    const other = await rig.localPair()
    const ends: string[] = []
    const done = ({ status }: Completion): void => {
      ends.push(status)
    }
    let why = ''
    pair.onEnded = (fault) => {
      why = fault
    }
    const bad = { address: rig.device.layout.arena.at, length: 8, lkey: 0xdead }
    pair.postReceive({ range: null, done })
    pair.post(
      { kind: 'nop', done },
      { kind: READ, data: [bad], done },
      { kind: 'nop', done },
      { kind: 'nop', done },
    )
    await rig.pass(20_000)
    expect(why).toBe('MEMORY_KEY')
    expect(ends).toEqual(['SUCCESS', 'LOC_PROT_ERR', ...Array(3).fill('WR_FLUSH_ERR')])
    expect(() => pair.post({ kind: 'nop' })).toThrow(QueueEnded)
    expect((await complete(other, { kind: 'nop' })).status).toBe('SUCCESS')
    await pair.destroy()
  })

  test('polled by hand: armed once, told once; unsignaled is not completed', async () => {
    const rig = await open()
    const cq = await rig.device.createCq({ entries: 16 })
    const pair = await rig.device.createQp({ type: 'local', sendCq: cq })
    let ready = 0
    cq.onReady = () => {
      ready++
    }
    pair.post({ kind: 'nop' }, { kind: 'nop', signaled: false }, { kind: 'nop' })
    await rig.pass(500)
    expect(ready).toBe(0)
    expect(cq.poll(1)).toHaveLength(1)
    cq.arm()
    await rig.pass(500)
    expect(ready).toBe(1)
    expect(cq.poll(16).map(({ unit, status }) => [unit, status])).toEqual([[2, 'SUCCESS']])
    expect(pair.send.outstanding.size).toBe(0)
    pair.post({ kind: 'nop' })
    await rig.pass(500)
    expect(ready).toBe(1)
  })

  test('a completion queue that is full ends, with its pair; others live', async () => {
    const rig = await open()
    const { device } = rig
    const cq = await device.createCq({ entries: 8 })
    const pair = await device.createQp({ type: 'local', sendCq: cq, sendUnits: 64 })
    const other = await rig.localPair()
    let why = ''
    pair.onEnded = (fault) => {
      why = fault
    }
    pair.post(...Array<QueueElement>(20).fill({ kind: 'nop' }))
    await rig.pass(20_000)
    expect([why, cq.end]).toEqual(['COMPLETION_OVERRUN', 'COMPLETION_OVERRUN'])
    const statuses = cq.poll(100).map(({ status }) => status)
    expect(statuses).toEqual([...Array(8).fill('SUCCESS'), ...Array(12).fill('WR_FLUSH_ERR')])
    expect(() => cq.arm()).toThrow(QueueEnded)
    expect((await complete(other, { kind: 'nop' })).status).toBe('SUCCESS')
  })

  test('H1: a host that no interrupt reaches hears of everything, later', async () => {
    const rig = await open()
    rig.port.onInterrupt(() => {})
    const pair = await rig.localPair({ sendUnits: 16 })
    expect(await keepBusy(rig, pair, 60)).toEqual(upTo(60))
    const ends: string[] = []
    const bad = { address: rig.device.layout.arena.at, length: 8, lkey: 0xdead }
    const done = ({ status }: Completion): void => void ends.push(status)
    pair.post({ kind: READ, data: [bad], done }, { kind: 'nop', done })
    await rig.pass(50_000)
    expect(ends).toEqual(['LOC_PROT_ERR', 'WR_FLUSH_ERR'])
    const last = await rig.localPair()
    last.post({ kind: 'nop', done })
    rig.card.powerCut()
    await rig.pass(50_000)
    expect([ends.at(-1), rig.device.isOpen]).toEqual(['WR_FLUSH_ERR', false])
  })

  test('H4: the card goes away: everything ends once, and the next card serves', async () => {
    const rig = await open()
    const { device, card } = rig
    const pair = await rig.localPair()
    const buffer = device.alloc(64)
    buffer.store(Uint8Array.of(1, 2, 3))
    const ends: string[] = []
    let removed = 0
    device.onRemoved = () => {
      removed++
    }
    const done = ({ status }: Completion): void => {
      ends.push(status)
    }
    pair.post({ kind: 'nop', done }, { kind: 'nop', done })
    card.powerCut()
    await rig.pass(20_000)
    expect(removed).toBe(1)
    expect(ends).toEqual(['WR_FLUSH_ERR', 'WR_FLUSH_ERR'])
    expect(() => pair.post({ kind: 'nop' })).toThrow(QueueEnded)
    expect(() => device.control).toThrow(CardRemoved)
    await expect(device.reopen()).rejects.toMatchObject({ code: 'PERDURE_CARD_REMOVED' })
    let returned = 0
    device.onReturned = () => {
      returned++
    }
    await card.powerOn()
    await rig.pass(100)
    expect(returned).toBeGreaterThan(0)
    await device.reopen()
    const again = await rig.localPair()
    expect((await complete(again, { kind: 'nop' })).status).toBe('SUCCESS')
    expect([...buffer.load(0, 3)]).toEqual([1, 2, 3])
    expect(ends.length).toBe(2)
  })

  test('H4: a card that goes in the middle of a growth leaves no memory behind', async () => {
    for (const form of ['message', 'lock'] as const) {
      for (let delay = 0; delay < 30; delay += 2) {
        const rig = await open()
        const { device } = rig
        const free = device.layout.arena.freeBytes
        const pair = await rig.localPair({ sendUnits: 8, receiveUnits: 64 })
        const growths = [pair.grow('send', 64, form), pair.sendCq.grow(1024, form)]
        const ends = Promise.allSettled(growths)
        await rig.pass(delay)
        rig.card.powerCut()
        await rig.pass(20_000)
        await ends
        expect(device.isOpen).toBe(false)
        const management = device.layout.receiveUnits * 256
        expect(device.layout.arena.freeBytes).toBe(free + management)
      }
    }
  })

  test('the next driver finds the card as if there had been none before', async () => {
    const rig = await open()
    const pair = await rig.localPair()
    pair.post({ kind: 'nop' })
    const next = await PcieDevice.open(rig.port, { seed: 4 })
    rig.device = next
    const other = await rig.localPair()
    expect((await complete(other, { kind: 'nop' })).status).toBe('SUCCESS')
  })

  test('no timer is left when there is no work', async () => {
    const rig = await open()
    const pair = await rig.localPair()
    await complete(pair, { kind: 'nop' })
    await rig.pass(100_000)
    rig.clock.stop()
    const atUs = rig.clock.nowUs
    rig.clock.runUntilIdle(1000)
    expect(rig.clock.nowUs - atUs).toBeLessThan(20_000)
  })
})
