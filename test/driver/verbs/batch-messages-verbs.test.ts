/**
 * A SEND with `batch` is a message of a batch: the host at the other end receives it when what is
 * before it was accepted, over frames and from host to host (source 4, FIG. 8; S1-M9). In virtual
 * time, against emulated cards.
 */

import { afterEach, describe, expect, test } from 'vitest'
import type { Engine } from '../../../boards/emulator/index.ts'
import {
  type BatchCondition,
  type BatchOf,
  type CompletionQueue,
  connect,
  type Dpu,
  FENCE,
  INLINE,
  type MemoryRegion,
  PcieDevice,
  type QueuePair,
  type Region,
  type SendRequest,
  SIGNALED,
  SOLICITED,
  type WorkCompletion,
} from '../../../host-driver/index.ts'
import { thrown } from '../../support/driver/failures.ts'
import { openWay } from '../../support/driver/ways.ts'
import { type Machine, MachineRoom } from '../../support/peers/hosts.ts'
import { endpointOf } from '../../support/peers/network.ts'

const BYTES = 40
const BASE = 100n
const TARGET = 4
const OTHER = 3
const CONDITIONS: readonly BatchCondition[] = ['independent', 'inOrder', 'expect']

const ends: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

interface End {
  readonly dpu: Dpu
  readonly last: number
  readonly mr: MemoryRegion
  readonly cq: CompletionQueue
  readonly qp: QueuePair
}

interface Bench {
  readonly room: MachineRoom
  readonly one: End
  readonly target: End
  /** Of the target's card, as the initiator sees it. */
  readonly region: Region
}

async function endOf(dpu: Dpu, last: number): Promise<End> {
  const pd = dpu.verbs.allocPd()
  const mr = await pd.regMr(16_384)
  for (let i = 0; i < 64; i++) mr.fill(i * BYTES, new Uint8Array(BYTES).fill(i + 1))
  const cq = await dpu.verbs.createCq(256)
  return { dpu, last, mr, cq, qp: await pd.createQp({ sendCq: cq, recvCq: cq }) }
}

async function onCard(machine: Machine, peer: number, seed: number): Promise<Dpu> {
  const device = await PcieDevice.open(machine.port, { seed })
  const dpu = await connect(device, { peer: endpointOf(peer), seed: seed + 1 })
  ends.push(async () => {
    await dpu.close()
    device.close()
  })
  return dpu
}

/** An initiator, over frames or with a card of its own, and a target with a card and its host. */
async function bench(name: 'frames' | 'behind', engine: Engine = 'node'): Promise<Bench> {
  const room = new MachineRoom({ seed: 7 })
  ends.push(() => room.clock.stop())
  const machine = await room.addMachine(TARGET, { engine })
  // Over frames this one is only there for the driver of the target, which asks a card.
  const other = await room.addMachine(OTHER, { engine })
  room.clock.start()
  const targetDpu = await onCard(machine, OTHER, 20)
  let dpu: Dpu
  if (name === 'frames') {
    const peer = endpointOf(TARGET)
    dpu = await connect(room.addHost(), { peer, own: endpointOf(1), seed: 3 })
    ends.push(() => dpu.close())
  } else {
    dpu = await onCard(other, TARGET, 30)
  }
  const last = name === 'frames' ? 1 : OTHER
  await dpu.format()
  const region = await dpu.provision({ name: 'records', slots: 16, capacity: BYTES })
  const one = await endOf(dpu, last)
  const target = await endOf(targetDpu, TARGET)
  await dpu.reconnect()
  const incarnation = dpu.incarnation!
  await ready(one, target, incarnation)
  await ready(target, one, 0)
  return { room, one, target, region }
}

async function ready(own: End, other: End, incarnation: number): Promise<void> {
  const psns = { sqPsn: 0x100 + own.last, rqPsn: 0x100 + other.last }
  await own.qp.modify({
    state: 'RTS',
    peer: {
      ...{ destQpNum: other.qp.qpNum, ...psns, pathMtu: 1024, incarnation },
      ...{ at: endpointOf(other.last) },
    },
  })
}

interface List {
  readonly condition?: BatchCondition
  readonly id?: number
  readonly base?: bigint
  readonly indexes?: readonly number[]
  readonly flags?: number
  readonly slotOf?: (index: number) => number
  readonly expect?: bigint
}

/** Two records, then the message that tells of them; index i has the bytes i + 1. */
function burst({ one, region }: Bench, list: List = {}): SendRequest[] {
  const { condition = 'inOrder', id = 1, base = BASE, indexes = [0, 1, 2] } = list
  const { flags = SIGNALED, slotOf = (i) => i } = list
  return indexes.map((index): SendRequest => {
    const isMessage = index === 2
    return {
      ...{ wrId: BigInt(index), flags, sgList: [one.mr.sge(index * BYTES, BYTES)] },
      ...(isMessage
        ? { opcode: 'SEND' }
        : {
            opcode: 'WRITE_PERSIST',
            rkey: region.info.rkey,
            remoteAddr: BigInt(slotOf(index)) << 32n,
          }),
      operationId: base + BigInt(index),
      batch: {
        ...{ id, index, count: 3, condition, last: index === indexes.at(-1) },
        ...(condition === 'expect' && { expect: isMessage ? 0n : (list.expect ?? 0n) }),
      },
    }
  })
}

async function pass({ room: { clock } }: Bench, us: number): Promise<void> {
  await new Promise<void>((resolve) => void clock.schedule(clock.nowUs + us, resolve))
}

async function completions(b: Bench, { cq }: End, count: number): Promise<WorkCompletion[]> {
  const all = cq.poll()
  for (let tries = 0; all.length < count && tries < 20_000; tries++) {
    await pass(b, 10)
    all.push(...cq.poll())
  }
  expect(all.length).toBe(count)
  return all
}

function placeOf(wrId: bigint): number {
  return 8192 + 64 * Number(wrId)
}

function receive({ target }: Bench, wrId: bigint, length = BYTES): void {
  target.qp.postRecv({ wrId, sgList: [target.mr.sge(placeOf(wrId), length)] })
}

describe.each(['frames', 'behind'] as const)('S1-M9: messages of a batch over %s', (name) => {
  test.each(CONDITIONS)(
    'S1-M9: %s: told when the records are durable, by one status',
    async (condition) => {
      const b = await bench(name)
      const { sequence } = await b.region.read(0)
      receive(b, 7n)
      await pass(b, 1000)
      b.one.qp.postSend(burst(b, { condition, expect: sequence }))
      const done = await completions(b, b.one, 3)
      expect(done.map(({ opcode, status, fault }) => [opcode, status, fault])).toEqual([
        ...[['PERSIST', 'SUCCESS', null] as const, ['PERSIST', 'SUCCESS', null]],
        ['SEND', 'SUCCESS', null],
      ])
      expect(done[2]).toMatchObject({ byteLen: BYTES, mechanism: 'localFlush', operationId: null })
      expect(await completions(b, b.target, 1)).toMatchObject([
        {
          ...{ wrId: 7n, opcode: 'RECV', status: 'SUCCESS', byteLen: BYTES },
          ...{ operationId: BASE + 2n, immData: null },
        },
      ])
      expect(b.target.mr.read(placeOf(7n), BYTES)).toEqual(new Uint8Array(BYTES).fill(3))
      expect((await b.region.read(1)).data).toEqual(new Uint8Array(BYTES).fill(2))
    },
  )

  test('S1-M9: a record that is refused keeps it back; posted again it is told once', async () => {
    const b = await bench(name, 'quickjs')
    receive(b, 1n)
    await pass(b, 1000)
    b.one.qp.postSend(burst(b, { slotOf: (i) => (i === 1 ? 9999 : i) }))
    const faults = (await completions(b, b.one, 3)).map(({ fault }) => fault)
    expect(faults).toEqual([null, 'SLOT', 'BATCH_ABORTED'])
    await pass(b, 5000)
    expect(b.target.cq.poll()).toEqual([])
    b.one.qp.postSend(burst(b, { indexes: [1, 2] }))
    expect((await completions(b, b.one, 2)).map(({ status }) => status)).toEqual([
      ...['SUCCESS', 'SUCCESS'],
    ])
    // All of it once more: it is known.
    b.one.qp.postSend(burst(b))
    expect((await completions(b, b.one, 3)).map(({ status }) => status)).toEqual([
      ...['SUCCESS', 'SUCCESS', 'SUCCESS'],
    ])
    receive(b, 2n)
    await pass(b, 5000)
    expect(b.target.cq.poll()).toMatchObject([{ wrId: 1n, operationId: BASE + 2n }])
  })

  test('S1-M9: without a receive it is refused, with its reason, and the rest is not', async () => {
    const b = await bench(name)
    b.one.qp.postSend(burst(b))
    const done = await completions(b, b.one, 3)
    expect(done.map(({ status, fault }) => [status, fault])).toEqual([
      ...[['SUCCESS', null] as const, ['SUCCESS', null]],
      ['GENERAL_ERR', 'NO_RECEIVE'],
    ])
    receive(b, 3n, BYTES - 1)
    receive(b, 4n)
    await pass(b, 1000)
    b.one.qp.postSend(burst(b, { indexes: [2] }))
    expect((await completions(b, b.one, 1))[0]!.fault).toBe('RECORD_LENGTH')
  })

  test('S1-M9: between SENDs it is told in its order, with bytes of the call', async () => {
    const b = await bench(name)
    for (const wrId of [0n, 1n, 2n]) receive(b, wrId)
    await pass(b, 1000)
    const alone = (wrId: bigint): SendRequest => ({
      ...{ wrId, opcode: 'SEND', flags: SIGNALED, sgList: [b.one.mr.sge(10 * BYTES, BYTES)] },
    })
    b.one.qp.postSend([alone(50n), ...burst(b, { flags: SIGNALED | INLINE }), alone(51n)])
    b.one.mr.fill(2 * BYTES, new Uint8Array(BYTES).fill(99))
    expect((await completions(b, b.one, 5)).map(({ wrId }) => wrId)).toEqual([
      ...[50n, 0n, 1n, 2n, 51n],
    ])
    const told = await completions(b, b.target, 3)
    expect(told.map(({ operationId }) => operationId)).toEqual([null, BASE + 2n, null])
    expect(b.target.mr.read(placeOf(1n), 1)[0]).toBe(3)
  })

  test('S1-M9: what makes no sense throws, and nothing of its list is posted', async () => {
    const b = await bench(name)
    const last = (change: object) => (list: SendRequest[]) =>
      list.map((one, i) => (i === 2 ? { ...one, ...change } : one))
    const wrong: [string, (list: SendRequest[]) => SendRequest[]][] = [
      ['without an operation', last({ operationId: undefined })],
      ['an operation that does not follow', last({ operationId: 500n })],
      ['that wakes', last({ flags: SIGNALED | SOLICITED })],
      ['with an immediate', last({ opcode: 'SEND_WITH_IMM', immData: 1 })],
      ['that takes a key back', last({ opcode: 'SEND_WITH_INV', invalidateRkey: 1 })],
      ['of no batch that makes sense', last({ batch: { id: -1 } as BatchOf })],
      [
        'another condition',
        (list) => last({ batch: { ...list[2]!.batch!, condition: 'expect' } })(list),
      ],
    ]
    for (const [what, change] of wrong) {
      const { code } = thrown(() => b.one.qp.postSend(change(burst(b))))
      expect([what, code]).toEqual([what, 'PERDURE_ARGUMENT'])
    }
    receive(b, 1n)
    await pass(b, 1000)
    expect(b.one.cq.poll()).toEqual([])
    b.one.qp.postSend(burst(b, { flags: SIGNALED | FENCE }))
    expect((await completions(b, b.one, 3)).map(({ status }) => status)).toEqual([
      ...['SUCCESS', 'SUCCESS', 'SUCCESS'],
    ])
  })
})

test('S1-M9: nobody receives from the local card, nor where the card has no host', async () => {
  for (const name of ['own', 'frames'] as const) {
    const way = await openWay(name)
    ends.push(() => way.close())
    const { dpu } = way
    await dpu.format()
    await dpu.provision({ name: 'records', slots: 16, capacity: BYTES })
    const pd = dpu.verbs.allocPd()
    const mr = await pd.regMr(4096)
    const cq = await dpu.verbs.createCq(64)
    const qp = await pd.createQp({ sendCq: cq, recvCq: cq })
    await dpu.verbs.connect(qp)
    const message: SendRequest = {
      ...{ wrId: 1n, opcode: 'SEND', flags: SIGNALED, sgList: [mr.sge(0, 8)], operationId: 9n },
      batch: { id: 1, index: 0, count: 1, condition: 'inOrder', last: true },
    }
    if (name === 'own') {
      expect(thrown(() => qp.postSend(message)).code).toBe('PERDURE_ARGUMENT')
      continue
    }
    qp.postSend(message)
    let done: WorkCompletion[] = []
    for (let tries = 0; done.length === 0 && tries < 1000; tries++) {
      await way.pass(10)
      done = cq.poll()
    }
    expect(done).toMatchObject([{ status: 'GENERAL_ERR', fault: 'BATCH_REGION', opcode: 'SEND' }])
  }
})

test('D-6: two initiators of one host that number alike are two clients', async () => {
  const b = await bench('behind')
  const { one, target, region } = b
  const second = await endOf(one.dpu, OTHER)
  const pair = await endOf(target.dpu, TARGET)
  await ready(second, pair, one.dpu.incarnation!)
  await ready(pair, second, 0)
  for (const [slot, end] of [one, second].entries()) {
    const { qp, mr } = end
    qp.postSend({
      ...{ wrId: BigInt(slot), opcode: 'WRITE_PERSIST', flags: SIGNALED, operationId: BASE },
      ...{ sgList: [mr.sge(slot * BYTES, BYTES)], rkey: region.info.rkey },
      remoteAddr: BigInt(slot) << 32n,
    })
    expect(await completions(b, end, 1)).toMatchObject([{ status: 'SUCCESS' }])
  }
  for (const slot of [0, 1]) {
    expect((await region.read(slot)).data).toEqual(new Uint8Array(BYTES).fill(slot + 1))
  }
})
