/**
 * The ends of things in the driver of the queues: the device closed, the card gone, a call refused,
 * at moments at which something else is under way. And what is no argument at all.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { Q_KEY_GSI } from '../../../../firmware/wire/deth.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../../firmware/wire/opcode.ts'
import { PcieDevice, type PcieOptions } from '../../../../host-driver/card/device.ts'
import { openFilePort } from '../../../../host-driver/card/file-port.ts'
import type { QueuePairOptions } from '../../../../host-driver/card/queues/card-queue-pair.ts'
import type { QueueElement } from '../../../../host-driver/card/queues/values.ts'
import { connect } from '../../../../host-driver/index.ts'
import { CardRemoved } from '../../../../host-driver/way/queue-errors.ts'
import { type OpenWay, openWay, type WayName } from '../../../support/driver/ways.ts'
import { FakeQueueCard, refused, tagged } from '../../../support/queues/fake-queue-card.ts'
import { PcieRig, type RigOptions } from '../../../support/queues/pcie-rig.ts'
import { THOROUGH } from '../../../support/run/thorough.ts'
import { frameOf, writeIcrc } from '../../../support/wire/frames.ts'

const ARGUMENT = { code: 'PERDURE_ARGUMENT' }

const rigs: PcieRig[] = []
const ways: OpenWay[] = []

async function open(options: RigOptions = {}): Promise<PcieRig> {
  const rig = await PcieRig.open(options)
  rigs.push(rig)
  return rig
}

async function way(name: WayName): Promise<OpenWay> {
  const opened = await openWay(name)
  ways.push(opened)
  return opened
}

afterEach(async () => {
  for (const rig of rigs.splice(0)) rig.close()
  for (const one of ways.splice(0)) await one.close()
})

/** What becomes of it within a minute of virtual time: 'resolved', its error, or 'never'. */
async function end(
  { pass }: { pass: (us: number) => Promise<void> },
  promise: Promise<unknown>,
): Promise<unknown> {
  const settled = promise.then(
    () => 'resolved',
    (error: unknown) => error,
  )
  return await Promise.race([settled, pass(60_000_000).then(() => 'never')])
}

describe('the end of a device', () => {
  test('H4: a handler that arms its queue again is not in its way', async () => {
    const rig = await open()
    await rig.provision()
    const dpu = await connect(rig.device)
    const cq = await dpu.verbs.createCq(16)
    const qp = await dpu.verbs.allocPd().createQp({ sendCq: cq, recvCq: cq })
    await dpu.verbs.connect(qp)
    cq.onEvent = () => {
      cq.poll()
      cq.arm()
    }
    cq.arm()
    const call = rig.device.management.status()
    rig.port.memory.link.remove()
    expect(await end(passing(rig), call)).toBeInstanceOf(CardRemoved)
    expect([qp.state, rig.device.isOpen]).toEqual(['ERR', false])
  })

  test('what its owner wants to be told of is told, whoever else shares it', async () => {
    const rig = await open()
    const told: string[] = []
    rig.device.onEvent = ({ type }) => told.push(type)
    rig.device.onRemoved = () => told.push('removed')
    await rig.provision()
    const dpu = await connect(rig.device)
    await dpu.verbs.createCq(16)
    rig.card.powerCut()
    await rig.pass(1000)
    expect(told.at(-1)).toBe('removed')
    await rig.card.powerOn()
    await rig.pass(100_000)
    expect(rig.device.isOpen).toBe(true)
  })

  test('closed while it is taken into use again it stays closed, and says so', async () => {
    for (let us = 0; us <= 40; us += 2) {
      const rig = await open()
      const { device } = rig
      rig.card.powerCut()
      await rig.pass(1000)
      await rig.card.powerOn()
      const again = device.reopen()
      await rig.pass(us)
      const wasOpen = device.isOpen
      device.close()
      const closed = { code: 'PERDURE_CLOSED' }
      const ended = await end(passing(rig), again)
      if (!wasOpen) expect(ended, `after ${us} µs`).toMatchObject(closed)
      expect(device.isOpen).toBe(false)
    }
  })

  test('closed under a call, the call ends', async () => {
    const rig = await open()
    await rig.provision()
    const dpu = await connect(rig.device)
    const status = dpu.status()
    rig.device.close()
    expect(await end(passing(rig), status)).toMatchObject({ code: 'PERDURE_UNREACHABLE' })
  })

  test('H4: a queue that is made as the card goes away is none', async () => {
    for (const what of ['cq', 'qp'] as const) {
      const rig = await open()
      const { device } = rig
      const sendCq = await device.createCq({ entries: 16 })
      await device.arenaKey(0)
      const before = device.layout.arena.freeBytes
      const made = what === 'cq' ? device.createCq({ entries: 8 }) : rig.localPair({ sendCq })
      // The answer and the end are found in one look at the memory.
      device.onDatagram.add(() => {
        rig.port.memory.link.remove()
        ;(device as unknown as { lose(): void }).lose()
      })
      expect(await end(passing(rig), made), what).toBeInstanceOf(CardRemoved)
      expect(device.layout.arena.freeBytes).toBeGreaterThanOrEqual(before)
    }
  })
})

const passing = (rig: PcieRig): { pass: (us: number) => Promise<void> } => ({
  pass: (us) => rig.pass(us),
})

describe.each(['own', 'behind'] as const)('%s card', (name) => {
  test('X-3: it goes away again while the connection is made again: nothing is lost', async () => {
    for (let datagrams = 1, cut = true; cut; datagrams++) {
      const { dpu, device, machine, room, pass } = await boundWay(name)
      await dpu.format()
      const region = await dpu.provision({ name: 'r', slots: 4, capacity: 100 })
      const card = machine!.dpu
      card.powerCut({ strategy: 'none' })
      await pass(1000)
      const write = end({ pass }, region.persist(1, new Uint8Array(10).fill(7)).persisted)
      let heard = 0
      cut = false
      device!.onDatagram.add(() => {
        if (++heard !== datagrams) return
        cut = true
        room.clock.schedule(room.clock.nowUs, () => card.powerCut({ strategy: 'none' }))
      })
      await card.powerOn()
      await pass(300_000)
      if (!card.isOn) await card.powerOn()
      expect(await write, `cut behind datagram ${datagrams}`).toBe('resolved')
      expect((await region.read(1)).data).toEqual(new Uint8Array(10).fill(7))
    }
  })
})

describe.each(['own', 'behind'] as const)('answers of the %s card', (name) => {
  test('N2: what another says in its place is not believed', async () => {
    const { dpu, device, machine, room } = await boundWay(name)
    await dpu.format()
    const send = device!.sendDatagram.bind(device)
    let forged = 0
    device!.sendDatagram = (datagram, to) => {
      const lie = datagram.slice()
      lie.set([mad.METHOD_RESPONSE], mad.MAD_METHOD)
      lie.set([0, mad.STATUS_REFUSED], mad.MAD_STATUS)
      machine!.dpu.deliver(fromNeighbour(lie, name === 'own' ? 2 : 3))
      forged += 1
      room.clock.schedule(room.clock.nowUs + 1000, () => send(datagram, to))
    }
    const heard: (readonly number[] | null)[] = []
    device!.onDatagram.add((_bytes, _at, _length, from) => heard.push(from?.ipv4 ?? null))
    expect(await dpu.status()).toMatchObject({ state: 'serving' })
    expect(await device!.management.status()).toMatchObject({ incarnation: expect.any(Number) })
    expect(forged).toBeGreaterThanOrEqual(2)
    const own = name === 'own' ? null : [10, 0, 0, 2]
    expect(heard.slice(0, 4)).toEqual([[10, 0, 0, 1], own, [10, 0, 0, 1], null])
  })
})

/** The datagram as another host of the network, 10.0.0.1, sends it to the card 10.0.0.last. */
function fromNeighbour(payload: Uint8Array, last: number): Uint8Array {
  const frame = frameOf({
    bth: { opcode: UD_SEND_ONLY, destQp: 1 },
    deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
    payload,
  })
  frame.set([last], 5)
  frame.set([last], 33)
  writeIcrc(frame)
  return frame
}

async function boundWay(name: WayName) {
  const opened = await way(name)
  const { dpu, device, machine, room } = opened
  return { dpu, device, machine, room, pass: (us: number) => opened.pass(us) }
}

describe('memory', () => {
  test('a datagram that was sent is forgotten', async () => {
    const rig = await open()
    for (let i = 0; i < 50; i++) await rig.device.management.status()
    const { queue } = rig.device as unknown as {
      queue: { send: { outstanding: Map<number, unknown> } }
    }
    expect(queue.send.outstanding.size).toBe(0)
  })

  test('P3-24: a growth refused behind the end of its queue stores nothing', async () => {
    const card = new FakeQueueCard()
    const { memory } = card.port
    const queue = card.make(4)
    queue.post([tagged(1)])
    let there = 0
    card.onCall = () => {
      queue.post([tagged(2)])
      queue.finish('')
      queue.freeRings()
      there = card.layout.arena.alloc(256)
      memory.store(there, new Uint8Array(256).fill(0xee))
      throw refused('QUEUE_UNKNOWN')
    }
    await expect(queue.grow(8)).rejects.toMatchObject({ fault: 'QUEUE_UNKNOWN' })
    expect(memory.load(there, 256)).toEqual(new Uint8Array(256).fill(0xee))
  })

  test('of a pair that the card has not ended nothing is given out again', async () => {
    const rig = await open()
    const { arena } = rig.device.layout
    const cq = await rig.device.createCq({ entries: 8 })
    const [hit, other] = await Promise.all(
      [0, 1].map(() => rig.device.createQp({ type: 'local', sendCq: cq, sendUnits: 64 })),
    )
    const nop: QueueElement = { kind: 'nop' }
    // The card takes nothing of the other, and ends the one that finds no room.
    const call = rig.device.control.lockQueue(other!.send.queue)
    await call
    const before = arena.freeBytes
    other!.post({ kind: 2, data: new Uint8Array(640) })
    expect(arena.freeBytes).toBe(before - 640)
    hit!.post(...new Array<QueueElement>(10).fill(nop))
    await rig.pass(20_000)
    expect([hit!.end, other!.end]).toEqual(['COMPLETION_OVERRUN', 'COMPLETION_OVERRUN'])
    expect(other!.send.errorInMemory).toBe('')
    expect(arena.freeBytes).toBe(before - 640)
    await rig.device.control.releaseQueue(other!.send.queue, await call)
    await other!.destroy()
    expect(arena.freeBytes).toBeGreaterThan(before)
  })

  test('X-7: a pair that is refused gives both of its numbers back', async () => {
    const rig = await open()
    const sendCq = await rig.device.createCq({ entries: 16 })
    const { used } = await rig.device.management.queues()
    const at = rig.device.zones.at(5, 1)
    rig.ram.link.script = (access) =>
      access.kind === 'read' && access.at === at ? 'unsupported' : undefined
    const made = rig.device.createQp({ type: 'local', sendCq })
    expect(await end(passing(rig), made)).toMatchObject({ fault: 'DMA' })
    rig.ram.link.script = null
    expect((await rig.device.management.queues()).used).toBe(used)
  })

  test('P3-9, H5: a release that the card could not read for is asked for again', async () => {
    const card = new FakeQueueCard()
    const queue = card.make(4)
    let releases = 0
    card.onCall = (call) => {
      if (call === 'release' && ++releases < 3) throw refused('DMA')
    }
    await queue.grow(8, 'lock')
    expect([releases, queue.depth, card.zones.lock(card.queue)]).toEqual([3, 8, 0])
  })

  test('X-3: calls that come late are executed once, however many they are', async () => {
    const rig = await open({ queues: 256 })
    const { used } = await rig.device.management.queues()
    const endUs = rig.clock.nowUs + 60_000
    // No doorbell arrives until every call was repeated.
    rig.port.script = () => (rig.clock.nowUs < endUs ? { lost: true } : undefined)
    const calls = Array.from({ length: 60 }, () => rig.device.createCq({ entries: 1 }))
    const made = await Promise.all(calls)
    await rig.pass(100_000)
    expect(new Set(made.map(({ queue }) => queue)).size).toBe(60)
    expect((await rig.device.management.queues()).used).toBe(used + 60)
  })

  test('X-7: two connections of one seed do not take each other for themselves', async () => {
    const rig = await open()
    await rig.provision()
    const dpus = [
      await connect(rig.device, { seed: 9, clientId: 4n, firstOperation: 1n }),
      await connect(rig.device, { seed: 9, clientId: 5n, firstOperation: 1n }),
    ]
    const shape = { slots: 4, capacity: 100 }
    const made = dpus.map((dpu, i) => dpu.provision({ name: `region ${i}`, ...shape }))
    const names = (await Promise.all(made)).map(({ info }) => info.name)
    expect(names).toEqual(['region 0', 'region 1'])
  })

  test('P3-10: asked twice to end, a pair ends none that has got its number', async () => {
    const { device } = await open({ queues: 6 })
    const sendCq = await device.createCq({ entries: 16 })
    const pair = await device.createQp({ type: 'local', sendCq })
    const first = pair.destroy()
    const next = device.createQp({ type: 'local', sendCq })
    // The call for the next one is on its way before the second one to end.
    for (let i = 0; i < 8; i++) await Promise.resolve()
    await Promise.allSettled([first, pair.destroy()])
    const { send, receive } = await next
    expect([send.queue, receive.queue].sort()).toEqual([4, 5])
    expect(await device.management.queue(send.queue)).toMatchObject({ valid: true })
  })

  test('P3-10: asked twice to end, a completion queue ends no other', async () => {
    const { device } = await open({ queues: 4 })
    const cq = await device.createCq({ entries: 16 })
    const ended = device.destroyCq(cq)
    const made = device.createCq({ entries: 16 })
    await Promise.allSettled([ended, device.destroyCq(cq)])
    const { queue } = await made
    expect(queue).toBe(cq.queue)
    expect(await device.management.queue(queue)).toMatchObject({ valid: true })
  })

  test('H4: a region given back as the card goes away is free memory', async () => {
    const rig = await open()
    await rig.provision()
    const dpu = await connect(rig.device)
    const before = rig.device.layout.arena.freeBytes
    const region = await dpu.verbs.allocPd().regMr(4096)
    const gone = region.dereg()
    rig.port.memory.link.remove()
    expect(await end(passing(rig), gone)).toBe('resolved')
    expect(rig.device.layout.arena.freeBytes).toBeGreaterThanOrEqual(before)
  })
})

test('X-7: where no card serves the file, it says how one is started', THOROUGH, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-end-'))
  const path = join(folder, 'port')
  try {
    const port = await openFilePort({ path, bytes: 1 << 20 })
    port.close()
    await expect(connect(`pcie:${path}`)).rejects.toMatchObject({
      code: 'PERDURE_UNREACHABLE',
      message: `no card serves ${path}: start one with 'perdure emulate --host ${path}'`,
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

describe('X-7: what is no argument', () => {
  test('of a device', async () => {
    const rig = await open()
    rig.device.close()
    const bad = [
      { timeoutMs: Number.NaN },
      { timeoutMs: -1 },
      { watchdogUs: Number.NaN },
      { watchdogUs: 0 },
      { doorbell: 'bell' },
      { doorbell: 'trusted', doorbellCarriesPointer: false },
      { pointerOrder: 'alphabet' },
    ] as unknown as PcieOptions[]
    for (const options of bad) {
      const opened = PcieDevice.open(rig.port, options)
      expect(await end(passing(rig), opened), JSON.stringify(options)).toMatchObject(ARGUMENT)
    }
  })

  test('of a queue pair: another type, client, or completion queue', async () => {
    const rig = await open()
    const foreign = await (await open()).device.createCq({ entries: 16 })
    const sendCq = await rig.device.createCq({ entries: 16 })
    const ended = await rig.device.createCq({ entries: 16 })
    await rig.device.destroyCq(ended)
    const bad = [
      { type: 'local', sendCq: foreign },
      { type: 'local', sendCq: ended },
      { type: 'local', sendCq, receiveCq: foreign },
      { type: 'local' },
      { type: 'toString', sendCq },
      { type: 'local', sendCq, clientId: 5 },
    ] as unknown as QueuePairOptions[]
    for (const [i, options] of bad.entries()) {
      const made = rig.device.createQp(options)
      expect(await end(passing(rig), made), `${i}`).toMatchObject(ARGUMENT)
    }
  })
})

describe.each(['frames', 'own', 'behind'] as const)('the verbs, %s', (name) => {
  test('as many requests as were asked for have room, whatever pieces they have', async () => {
    const opened = await way(name)
    const { dpu } = opened
    await dpu.format()
    const region = await dpu.provisionBytes({ name: 'b', length: 4096 })
    const pd = dpu.verbs.allocPd()
    const mr = await pd.regMr(4096)
    const cq = await dpu.verbs.createCq(64)
    const qp = await pd.createQp({ sendCq: cq, recvCq: cq, sendDepth: 4, inlineMax: 0 })
    await dpu.verbs.connect(qp)
    await expect(dpu.verbs.connect(qp)).rejects.toMatchObject(ARGUMENT)
    const sgList = Array.from({ length: 16 }, (_, i) => mr.sge(i * 64, 8))
    const to = { rkey: region.info.rkey, remoteAddr: region.info.base }
    const write = { wrId: 1n, opcode: 'RDMA_WRITE', flags: 1, sgList, ...to } as const
    qp.postSend([write, write, write, write])
    await opened.pass(10_000)
    expect(cq.poll().map(({ status }) => status)).toEqual(Array(4).fill('SUCCESS'))
    for (const most of [-1, 1.5, Number.NaN]) {
      expect(() => cq.poll(most)).toThrow(expect.objectContaining(ARGUMENT))
    }
  })
})
