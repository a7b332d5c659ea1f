/**
 * The host driver connects over RDMA-CM: to ports of the emulated DPU, in virtual time.
 */

import { describe, expect, test } from 'vitest'
import { DPU_ENDPOINT, neighbour } from '../../../host-driver/base/addresses.ts'
import type { Wire } from '../../../host-driver/base/wire.ts'
import { DriverPair } from '../../../host-driver/frames/driver-pair.ts'
import { Session } from '../../../host-driver/frames/session.ts'
import { connect, connectTarget, type Dpu, RefusedError } from '../../../host-driver/index.ts'
import type { LocalDpu, LocalOptions } from '../../../host-driver/local.ts'
import {
  connectPort,
  type PortConnection,
  type PortOptions,
} from '../../../host-driver/target/connect-cm.ts'
import { readJob, VIEW_SETTLED } from '../../../host-driver/way/jobs.ts'
import { randomSource } from '../../../host-driver/way/options.ts'
import { failure } from '../../support/driver/failures.ts'
import { localParts } from '../../support/driver/local-parts.ts'
import { writeIcrc } from '../../support/wire/frames.ts'

const PORT = 7471

/** What a card tells of its queues. */
const CARD = { send: 64, receive: 32 }

const openPart = localParts()

interface Bench {
  readonly local: LocalDpu
  readonly dpu: Dpu
  readonly session: Session
  connectPort(options?: Partial<PortOptions>): Promise<PortConnection>
}

/** One wire for two users: a session of its own for the ports, beside the client's. */
function shared(wire: Wire, alter: (frame: Uint8Array) => void = () => {}): [Wire, Wire] {
  const takers: ((frame: Uint8Array) => void)[] = []
  wire.onFrame((frame) => {
    for (const take of takers) {
      const copy = frame.slice()
      alter(copy)
      take(copy)
    }
  })
  const tap: Wire = {
    send: (frame) => wire.send(frame),
    onFrame: (callback) => takers.push(callback),
    now: () => wire.now(),
    setTimer: (atUs, callback) => wire.setTimer(atUs, callback),
    close: () => {},
  }
  return [tap, { ...tap }]
}

/** A part with a region of records, published for clients of ours, and a session beside. */
async function bench(
  card: Partial<LocalOptions> = {},
  alter: (frame: Uint8Array) => void = () => {},
): Promise<Bench> {
  const local = await openPart(card)
  const [first, second] = shared(local.wire, alter)
  const dpu = await connect(first, { seed: 3 })
  await dpu.format()
  await dpu.provision({ name: 'orders', slots: 16, capacity: 64 })
  await dpu.publish({ name: 'orders', port: PORT, form: 'capability' })
  const random = randomSource(11)
  const session = new Session(second, neighbour(random), DPU_ENDPOINT)
  const numbers = { next: 0x2000 }
  return {
    local,
    dpu,
    session,
    connectPort: (options = {}) =>
      connectPort(session, { port: PORT, number: numbers.next++, random, ...options }),
  }
}

describe('connecting to a port', () => {
  test('grants a queue pair as a control call does, and the region’s key', async () => {
    const { dpu, session, connectPort: to } = await bench()
    const connection = await to({ clientId: 5n, number: 0x3000, pathMtu: 1024 })
    const { granted } = connection
    const [region] = await dpu.regions()
    expect(granted.capability).toMatchObject({ rkey: region!.rkey, slotLog2: 6, clientLow: 5 })
    expect(granted.capability).toMatchObject({ features: 255, batchMax: 255, blockLog2Min: 12 })
    expect(granted).toMatchObject({ incarnation: dpu.incarnation, pathMtu: 1024, readDepth: 16 })
    const queuePair = new DriverPair(session, 0x3000, granted, {})
    const image = new Uint8Array(region!.stride)
    const status = await new Promise((resolve) => {
      queuePair.post(readJob(region!, 3, VIEW_SETTLED, image, (end) => resolve(end.status)))
    })
    expect(status).toBe('SUCCESS')
    await connection.close()
    queuePair.close()
  })

  test('shows the target what the driver speaks', async () => {
    const { session, connectPort: to } = await bench()
    const blocks: Buffer[] = []
    const { send } = session.wire
    Object.assign(session.wire, {
      send: (frame: Uint8Array) => {
        const at = Buffer.from(frame).indexOf('NVDP')
        if (at >= 0) blocks.push(Buffer.from(frame.subarray(at)))
        send(frame)
      },
    })
    await (await to()).close()
    // Records, the bitmap, batches, the state of memory, hints, and sizes of blocks.
    expect(blocks.map((block) => block.readUInt16BE(6))).toEqual([63])
  })

  test('the bundle in QuickJS answers as the sources do', async () => {
    const answers: unknown[] = []
    for (const engine of ['node', 'quickjs'] as const) {
      const { connectPort: to } = await bench({ engine })
      const connection = await to({ clientId: 5n })
      answers.push(connection.granted)
      await connection.close()
      answers.push((await failure(to({ port: 1 }))).message)
    }
    expect(answers.slice(2)).toEqual(answers.slice(0, 2))
  })

  test('goodbye ends the queue pair at the DPU, and saying it twice is saying it', async () => {
    const { dpu, session, connectPort: to } = await bench()
    const connection = await to({ number: 0x3000 })
    const { granted } = connection
    await Promise.all([connection.close(), connection.close()])
    await connection.close()
    const [region] = await dpu.regions()
    const queuePair = new DriverPair(session, 0x3000, granted, { ackTimeoutCode: 8 })
    const status = await new Promise((resolve) => {
      const image = new Uint8Array(region!.stride)
      queuePair.post(readJob(region!, 3, VIEW_SETTLED, image, (end) => resolve(end.status)))
    })
    expect(status).toBe('RETRY_EXC_ERR')
  })

  test('a port that nobody publishes is refused with its reason', async () => {
    const { dpu, connectPort: to } = await bench()
    const error = await failure(to({ port: 1 }))
    expect(error).toBeInstanceOf(RefusedError)
    expect(error).toMatchObject({ fault: 'UNSERVED_CONNECTION', status: 8 })
    await dpu.withdraw(PORT)
    expect(await failure(to())).toMatchObject({ status: 8 })
  })

  test('a DPU without power is unreachable, after the tries that were asked for', async () => {
    const { local, connectPort: to } = await bench()
    local.dpu.powerCut({ strategy: 'none' })
    const before = local.clock.nowUs
    const error = await failure(to({ retries: 2, timeoutCode: 14 }))
    expect(error.code).toBe('PERDURE_UNREACHABLE')
    expect(local.clock.nowUs - before).toBeGreaterThan(3 * 67_000)
  })

  test('arguments out of range are refused before anything is sent', async () => {
    const { session, connectPort: to } = await bench()
    const sent = session.counts.framesSent
    for (const options of [{ port: 0 }, { port: 65536 }, { number: 1 }, { number: 2 ** 24 }]) {
      expect((await failure(to(options))).code).toBe('PERDURE_ARGUMENT')
    }
    expect(session.counts.framesSent).toBe(sent)
  })

  test('without our block it is a plain client, which is told the form of the port', async () => {
    const { dpu, connectPort: to } = await bench()
    const region = await dpu.provisionBytes({ name: 'bytes', length: 4096 })
    await dpu.publish({ name: 'bytes', port: 7472 })
    const connection = await to({ port: 7472, capability: false })
    const { privateData, capability } = connection.granted
    expect(capability).toBe(null)
    const view = new DataView(privateData.buffer)
    expect([view.getUint8(2), view.getUint32(20, true)]).toEqual([21, region.info.rkey])
    await connection.close()
  })

  test('S1-M7: a client and its target agree on the smaller depths, or on none', async () => {
    const { connectPort: to } = await bench()
    for (const [options, told, agreed] of [
      [{ depths: { send: 384, receive: 5 } }, CARD, { send: 32, receive: 5 }],
      [{ depths: { send: 1, receive: 70_000 } }, CARD, { send: 1, receive: 64 }],
      [{}, null, null],
      [{ depths: { send: 9, receive: 9 }, capability: false }, null, null],
    ] as const) {
      const connection = await to(options)
      expect(connection.granted).toMatchObject({ told, agreed })
      await connection.close()
    }
  })

  test('S1-M7: a client without a queue is refused by the fault', async () => {
    const { connectPort: to } = await bench()
    for (const depths of [
      { send: 0, receive: 9 },
      { send: 9, receive: 0 },
    ]) {
      const error = await failure(to({ depths }))
      expect(error).toBeInstanceOf(RefusedError)
      expect(error).toMatchObject({ fault: 'QUEUE_DEPTH', status: 28 })
    }
  })

  test.each([
    ['takes nothing', [0, 64, 0, 0]],
    ['sends nothing', [0, 0, 0, 32]],
  ])('S1-M7: a target that %s is refused by the fault, and knows', async (_, depths) => {
    const { dpu, connectPort: to } = await bench({}, (frame) => {
      const at = Buffer.from(frame).indexOf('NVDP')
      if (at < 0) return
      frame.set(depths, at + 68)
      writeIcrc(frame)
    })
    const error = await failure(to({ depths: { send: 9, receive: 9 } }))
    expect(error).toMatchObject({ fault: 'QUEUE_DEPTH', status: 28 })
    expect(await dpu.status()).toMatchObject({ state: 'serving' })
  })

  test('over a link that loses a fifth of its frames, every client gets in and out', async () => {
    const { local, connectPort: to } = await bench()
    for (const end of ['a', 'b'] as const) local.link.setFaults(end, { loss: 0.2 })
    const clients = Array.from({ length: 12 }, () => to({ retries: 15, timeoutCode: 14 }))
    const connections = await Promise.all(clients)
    const numbers = connections.map(({ granted }) => granted.queuePair)
    expect(new Set(numbers).size).toBe(12)
    await Promise.all(connections.map((connection) => connection.close()))
  })
})

describe('a target behind a port', () => {
  /** A DPU with published bytes, and a wire for a client that knows nothing but the port. */
  async function published(): Promise<{ dpu: Dpu; wire: Wire; local: LocalDpu }> {
    const local = await openPart()
    const [first, wire] = shared(local.wire)
    const dpu = await connect(first, { seed: 3 })
    await dpu.format()
    await dpu.provisionBytes({ name: 'bytes', length: 65536 })
    await dpu.publish({ name: 'bytes', port: PORT })
    return { dpu, wire, local }
  }

  for (const capability of [false, true]) {
    const kind = capability ? 'that shows its block' : 'that is plain RoCEv2'
    test(`a client ${kind} writes, flushes and reads, and a power cut takes nothing`, async () => {
      const { wire, local } = await published()
      const target = await connectTarget(wire, { port: PORT, capability, seed: 5 })
      const bytes = Uint8Array.from({ length: 5000 }, (_, i) => (i * 7) & 0xff)
      const { memory } = target
      await memory.write(100, bytes)
      expect((await memory.flush(100, 5000)).opcode).toBe('FLUSH')
      expect(await memory.read(100, 5000)).toEqual(bytes)
      expect(await memory.fetchAdd(8192, 5n)).toBe(0n)
      expect(await memory.compareSwap(8192, 5n, 9n)).toBe(5n)
      local.dpu.powerCut({ strategy: 'none' })
      expect(Buffer.from(local.nvdimm.live).includes(Buffer.from(bytes))).toBe(true)
    })
  }

  test('goodbye ends it at both ends; a port that tells nothing has no memory', async () => {
    const { dpu, wire } = await published()
    const target = await connectTarget(wire, { port: PORT, seed: 5 })
    await target.close()
    const error = await failure(target.memory.write(0, new Uint8Array(8)))
    expect(error.code).toBe('PERDURE_TRANSPORT')
    await dpu.withdraw(PORT)
    const refused = await failure(connectTarget(wire, { port: PORT, seed: 6 }))
    expect(refused).toMatchObject({ code: 'PERDURE_REFUSED', status: 8 })
  })

  test('goodbye ends what is on its way, and what waits for room behind it', async () => {
    const { wire } = await published()
    const target = await connectTarget(wire, { port: PORT, seed: 5 })
    const writes = Array.from({ length: 300 }, () => target.memory.write(0, new Uint8Array(8)))
    await target.close()
    const ends = await Promise.allSettled(writes)
    expect(new Set(ends.map(({ status }) => status))).toEqual(new Set(['rejected']))
  })

  test('what the region does not grant is refused, and ends the queue pair', async () => {
    const { dpu, wire } = await published()
    await dpu.publish({ name: 'bytes', port: PORT, rights: 1 << 2 })
    const target = await connectTarget(wire, { port: PORT, seed: 5 })
    expect(await target.memory.read(0, 8)).toEqual(new Uint8Array(8))
    const error = await failure(target.memory.write(0, new Uint8Array(8)))
    expect(error).toMatchObject({ code: 'PERDURE_TRANSPORT', status: 'REM_ACCESS_ERR' })
    await target.close()
  })
})
