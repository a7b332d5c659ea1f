/**
 * What the driver tells of the depths of its queues, what it agrees on with a DPU or another host,
 * and that it keeps to that (source 3, step 201; S1-M7).
 */

import { afterEach, describe, expect, test } from 'vitest'
import { VirtualClock } from '../../../boards/emulator/index.ts'
import { putU16, putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { Calls, type DatagramWay } from '../../../host-driver/control/calls.ts'
import { Management } from '../../../host-driver/control/management.ts'
import {
  type CompletionQueue,
  type CreateQp,
  connect,
  type Depths,
  type Dpu,
  type MemoryRegion,
  PcieDevice,
  PerdureError,
  type QueuePair,
  SIGNALED,
  SOLICITED,
} from '../../../host-driver/index.ts'
import { randomSource } from '../../../host-driver/way/options.ts'
import { type OpenWay, openWay, type WayName } from '../../support/driver/ways.ts'
import { type Machine, MachineRoom } from '../../support/peers/hosts.ts'
import { endpointOf } from '../../support/peers/network.ts'

/** What a card tells: its works, and the receive entries that one peer has at the most. */
const CARD = { send: 64, receive: 32 }

const ends: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function opened(
  name: WayName,
  options: Parameters<typeof openWay>[1] = {},
): Promise<OpenWay> {
  const way = await openWay(name, options)
  ends.push(() => way.close())
  await way.dpu.format()
  return way
}

interface Pair {
  readonly qp: QueuePair
  readonly cq: CompletionQueue
  readonly mr: MemoryRegion
}

async function pairOf(dpu: Dpu, options: Partial<CreateQp> = {}): Promise<Pair> {
  const pd = dpu.verbs.allocPd()
  const mr = await pd.regMr(16_384)
  const cq = await dpu.verbs.createCq(256)
  return { mr, cq, qp: await pd.createQp({ sendCq: cq, recvCq: cq, ...options }) }
}

describe.each(['frames', 'behind'] as const)('S1-M7: over %s', (name) => {
  test('S1-M7: a connection shows what it has agreed on', async () => {
    const { dpu } = await opened(name, { connect: { receives: 5 } })
    expect(dpu.agreed).toBe(null)
    await dpu.reconnect()
    expect(dpu.agreed).toEqual({ send: 32, receive: 5 })
    await dpu.close()
    expect(dpu.agreed).toBe(null)
  })

  test.each([
    [1, 1],
    [4, 2],
    [128, 128],
  ])(
    'S1-M7: a pair that sends %i and takes %i agrees on the smaller',
    async (sendDepth, recvDepth) => {
      const { dpu } = await opened(name)
      const { qp } = await pairOf(dpu, { sendDepth, recvDepth, inlineMax: 0 })
      expect(qp.agreed).toBe(null)
      const own: Depths = qp.depths
      if (name === 'frames') expect(own).toEqual({ send: sendDepth, receive: recvDepth })
      else expect(own.receive).toBeLessThanOrEqual(8)
      await dpu.verbs.connect(qp)
      expect(qp.agreed).toEqual({
        send: Math.min(own.send, CARD.receive),
        receive: Math.min(own.receive, CARD.send),
      })
    },
  )

  test('S1-M7: many messages pass through the little that was agreed, in order', async () => {
    const way = await opened(name)
    const { qp, cq, mr } = await pairOf(way.dpu, { recvDepth: 2 })
    await way.dpu.verbs.connect(qp)
    const post = (i: number): void =>
      qp.postRecv({ wrId: BigInt(100 + i), sgList: [mr.sge(64 * i, 64)] })
    for (const i of [0, 1]) post(i)
    for (let i = 0; i < 60; i++) {
      mr.fill(8192, new Uint8Array(64).fill(i))
      const flags = SIGNALED | SOLICITED | 8
      qp.postSend({ wrId: BigInt(i), opcode: 'SEND', flags, sgList: [mr.sge(8192, 64)] })
    }
    const got: number[] = []
    for (let tries = 0; got.length < 60 && tries < 20_000; tries++) {
      await way.pass(50)
      for (const { wrId, opcode, status } of cq.poll()) {
        expect(status).toBe('SUCCESS')
        if (opcode !== 'RECV') continue
        got.push(Number(wrId) - 100)
        if (got.length < 59) post(got.length + 1)
      }
    }
    expect(got).toEqual(Array.from({ length: 60 }, (_, i) => i))
    for (let i = 0; i < 60; i++) expect(mr.read(64 * i, 64)).toEqual(new Uint8Array(64).fill(i))
  })
})

test('S1-M7: nothing is agreed on with the local card, which receives nothing', async () => {
  const { dpu } = await opened('own')
  expect(dpu.agreed).toBe(null)
  const { qp } = await pairOf(dpu)
  await dpu.verbs.connect(qp)
  expect(qp.agreed).toBe(null)
})

describe('S1-M7: two hosts', () => {
  interface Host extends Pair {
    readonly machine: Machine
    readonly dpu: Dpu
  }

  async function hosts(...options: Partial<CreateQp>[]): Promise<[MachineRoom, Host, Host]> {
    const room = new MachineRoom({ seed: 3 })
    ends.push(() => room.clock.stop())
    const machines = [await room.addMachine(3, {}), await room.addMachine(4, {})]
    room.clock.start()
    const all: Host[] = []
    for (const [i, machine] of machines.entries()) {
      const device = await PcieDevice.open(machine.port, { seed: 4 + i })
      const peer = endpointOf(machines[1 - i]!.last)
      const dpu = await connect(device, { peer, seed: 8 + i })
      ends.push(async () => {
        await dpu.close()
        device.close()
      })
      if (i === 0) await dpu.format()
      all.push({ machine, dpu, ...(await pairOf(dpu, options[i])) })
    }
    return [room, all[0]!, all[1]!]
  }

  async function ready(one: Host, other: Host, depths?: Depths | null): Promise<void> {
    const psns = { sqPsn: 0x100 + one.machine.last, rqPsn: 0x100 + other.machine.last }
    await one.qp.modify({
      state: 'RTS',
      peer: {
        ...{ destQpNum: other.qp.qpNum, ...psns, pathMtu: 1024, incarnation: 0 },
        ...{ at: endpointOf(other.machine.last), ...(depths !== undefined && { depths }) },
      },
    })
  }

  test('P3-1, S1-M7: tell each other, and neither sends more than the other receives', async () => {
    const [room, one, other] = await hosts({ sendDepth: 64 }, { sendDepth: 2, inlineMax: 0 })
    await ready(one, other, other.qp.depths)
    await ready(other, one, one.qp.depths)
    expect(one.qp.agreed).toEqual({
      send: Math.min(one.qp.depths.send, other.qp.depths.receive),
      receive: Math.min(one.qp.depths.receive, other.qp.depths.send),
    })
    const { send, receive } = one.qp.agreed!
    expect(one.qp.depths.send).toBeGreaterThan(other.qp.depths.receive)
    expect(send).toBe(other.qp.depths.receive)
    expect(other.qp.agreed).toEqual({ send: receive, receive: send })
    for (let i = 0; i < 2; i++)
      other.qp.postRecv({ wrId: BigInt(i), sgList: [other.mr.sge(64 * i, 64)] })
    const list = [0, 1].map((i) => ({
      ...{ wrId: BigInt(i), opcode: 'SEND' as const, flags: SIGNALED },
      sgList: [one.mr.sge(0, 64)],
    }))
    one.qp.postSend(list)
    await new Promise<void>((resolve) => void room.clock.schedule(room.clock.nowUs + 5000, resolve))
    expect(other.cq.poll().map(({ opcode, status }) => [opcode, status])).toEqual([
      ['RECV', 'SUCCESS'],
      ['RECV', 'SUCCESS'],
    ])
  })

  test.each([undefined, null])(
    'S1-M7: one that is not told anything (%s) agrees on nothing',
    async (depths) => {
      const [, one, other] = await hosts()
      await ready(one, other, depths)
      expect(one.qp.agreed).toBe(null)
      expect(one.qp.state).toBe('RTS')
    },
  )

  test('S1-M7: impossible depths are refused before the card is asked', async () => {
    const [, one, other] = await hosts()
    for (const depths of [
      ...[
        { send: 0, receive: 1 },
        { send: 1, receive: 0 },
        { send: 1, receive: 65_536 },
      ],
      ...[{ send: 1.5, receive: 1 }, { send: 1 }, 7, 'deep', { send: -1, receive: 1 }],
    ]) {
      const error = await ready(one, other, depths as Depths).then(
        () => null,
        (reason: unknown) => reason as PerdureError,
      )
      expect(error, JSON.stringify(depths)).toMatchObject({ code: 'PERDURE_ARGUMENT' })
      expect(one.qp.state).toBe('INIT')
    }
    await ready(one, other, { send: 65_535, receive: 65_535 })
    expect(one.qp.agreed).toEqual(one.qp.depths)
  })
})

describe('S1-M7: the answer of a DPU to CONNECT', () => {
  /** Asks a DPU that answers so; what it was told. */
  async function asked(
    answer: (body: Uint8Array) => void,
    depths: Depths | undefined,
  ): Promise<{ granted: Awaited<ReturnType<Management['connect']>>; told: Uint8Array }> {
    const clock = new VirtualClock()
    let told = new Uint8Array(0)
    const way: DatagramWay = {
      now: () => clock.nowUs,
      setTimer: () => () => {},
      onDatagram: null,
      sendDatagram: (datagram) => {
        const bytes = Uint8Array.from(datagram)
        const header = mad.blankMad()
        mad.readMad(header, bytes, 0)
        const body = bytes.subarray(mad.MAD_BODY)
        told = Uint8Array.from(body)
        putU32(body, mad.CONNECT_QP, 0x55)
        putU32(body, mad.CONNECT_FIRST_PSN, 7)
        putU32(body, mad.CONNECT_INCARNATION, 1)
        putU16(body, mad.CONNECT_GRANTED_MTU, 1024)
        answer(body)
        header.method = mad.METHOD_RESPONSE
        mad.writeMad(bytes, 0, header)
        queueMicrotask(() => way.onDatagram!(bytes, 0, bytes.length))
      },
    }
    const management = new Management(new Calls(way, 1000, randomSource(1)))
    return { granted: await management.connect(0x20, 1, 1024, 0, 3n, depths), told }
  }

  const OWN = { send: 9, receive: 4 }

  test('S1-M7: an older one copies what it was asked, and tells nothing', async () => {
    const { granted, told } = await asked(() => {}, OWN)
    expect(granted).toMatchObject({ queuePair: 0x55, told: null, agreed: null })
    expect([...told.subarray(12, 16)]).toEqual([0, 9, 0, 4])
  })

  test('S1-M7: who asks without depths tells none, and agrees on none', async () => {
    const { granted, told } = await asked(() => {}, undefined)
    expect(granted).toMatchObject({ told: null, agreed: null })
    expect([...told.subarray(12, 16)]).toEqual([0, 0, 0, 0])
  })

  test.each([
    [1, 1, { send: 1, receive: 1 }],
    [0xffff, 0xffff, { send: 9, receive: 4 }],
    [3, 5, { send: 5, receive: 3 }],
  ])('S1-M7: one that tells %i and %i', async (send, receive, agreed) => {
    const answer = (body: Uint8Array): void => {
      putU16(body, mad.CONNECT_SEND_DEPTH, send)
      putU16(body, mad.CONNECT_RECEIVE_DEPTH, receive)
    }
    const { granted } = await asked(answer, OWN)
    expect(granted).toMatchObject({ told: { send, receive }, agreed })
  })

  test.each([
    ['takes nothing', mad.CONNECT_SEND_DEPTH],
    ['sends nothing', mad.CONNECT_RECEIVE_DEPTH],
  ])('S1-M7: one that %s is refused', async (_, at) => {
    const error = await asked((body) => putU16(body, at, 5), OWN).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(PerdureError)
    expect(error).toMatchObject({ code: 'PERDURE_REFUSED', fault: 'QUEUE_DEPTH' })
  })
})
