/**
 * The driver's verbs against a plain RDMA target over a link that may lose, double and reorder, in
 * virtual time; and the driver's own receiver, frame by frame.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Random, type VirtualClock } from '../../../boards/emulator/index.ts'
import { PASS } from '../../../firmware/board/fault.ts'
import { type Aeth, blankAeth, readAeth } from '../../../firmware/wire/aeth.ts'
import * as op from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { RemoteMemory } from '../../../host-driver/bytes/remote-memory.ts'
import { DriverPair } from '../../../host-driver/frames/driver-pair.ts'
import { Session } from '../../../host-driver/frames/session.ts'
import { ArgumentError, EffectUnknown, TransportError } from '../../../host-driver/index.ts'
import { pending } from '../../../host-driver/way/chain.ts'
import { Inbox } from '../../../host-driver/way/inbox.ts'
import { sendJob } from '../../../host-driver/way/jobs.ts'
import {
  BYTES,
  OWN,
  PEER,
  RKEY,
  type VerbsBench,
  type VerbsBenchOptions,
  verbsBench,
} from '../../support/driver/verbs-bench.ts'
import { type FrameParts, frameOf } from '../../support/wire/frames.ts'

const clocks: VirtualClock[] = []
afterEach(() => {
  for (const clock of clocks.splice(0)) clock.stop()
})

function bench(options: VerbsBenchOptions = {}): VerbsBench {
  const made = verbsBench(options)
  clocks.push(made.clock)
  return made
}

function pattern(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17 + (i >> 8)) & 0xff)
}

describe('one-sided requests', () => {
  test.each([0, 1, 255, 256, 257, 5000])('%i bytes are written and read back', async (length) => {
    const { memory, target } = bench()
    const bytes = pattern(length, 1)
    const completion = await memory.write(40, bytes)
    expect(completion).toMatchObject({ opcode: 'RDMA_WRITE', copies: 0, mechanism: 'unknown' })
    expect(target.memory.subarray(40, 40 + length)).toEqual(bytes)
    expect(await memory.read(40, length)).toEqual(bytes)
  })

  test('a long read is several READs, of which each piece finds its place', async () => {
    const { memory, target } = bench({ pathMtu: 4096 })
    target.memory.set(pattern(BYTES, 3))
    expect(await memory.read(0, BYTES)).toEqual(pattern(BYTES, 3))
  })

  test('a READ resumes behind the last byte that came, across a carry of the address', async () => {
    const { memory, target, link, queuePair } = bench()
    target.memory.set(pattern(BYTES, 4))
    let responses = 0
    link.script = (_, from) => (from === 'b' && responses++ === 2 ? { drop: true } : undefined)
    expect(await memory.read(0, 1500)).toEqual(pattern(1500, 4))
    expect(queuePair.counts).toMatchObject({ impliedNaks: 1, timeouts: 0, packets: 2 })
  })

  test('bytes are those of the call, whatever becomes of the buffer', async () => {
    const { memory, target } = bench()
    const buffer = pattern(600, 1)
    const write = memory.write(0, buffer)
    const word = new Uint8Array(8).fill(1)
    const atomic = memory.atomicWrite(800, word)
    buffer.fill(0)
    word.fill(0)
    await Promise.all([write, atomic])
    expect(target.memory.subarray(0, 600)).toEqual(pattern(600, 1))
    expect(target.memory[800]).toBe(1)
  })

  test('atomics bring what they found, over the whole of 64 bits', async () => {
    const { memory, target } = bench()
    const most = 2n ** 64n - 1n
    expect(await memory.compareSwap(8, 0n, most)).toBe(0n)
    expect(await memory.fetchAdd(8, 3n)).toBe(most)
    expect(await memory.compareSwap(8, 1n, 9n)).toBe(2n)
    expect(await memory.fetchAdd(8, 0n)).toBe(2n)
    expect(target.executed).toEqual(['COMPARE_SWAP', 'FETCH_ADD', 'COMPARE_SWAP', 'FETCH_ADD'])
  })

  test('a FLUSH makes durable what was written before to its range, or to all', async () => {
    const { memory, target } = bench()
    await memory.write(0, pattern(64, 1))
    await memory.write(1000, pattern(64, 2))
    expect(target.durable.every((byte) => byte === 0)).toBe(true)
    expect(await memory.flush(0, 64)).toMatchObject({ opcode: 'FLUSH' })
    expect(target.durable.subarray(0, 64)).toEqual(pattern(64, 1))
    expect(target.durable[1001]).toBe(0)
    await memory.flush(0, 0, { global: true, persistent: false, wholeRegion: true })
    expect(target.durable[1001]).toBe(0)
    await memory.flush(0, 0, { wholeRegion: true })
    expect(target.durable.subarray(1000, 1064)).toEqual(pattern(64, 2))
  })

  test('messages carry immediate data, a key to invalidate, and the wish to wake', async () => {
    const { port, target, link } = bench()
    const seen: string[] = []
    link.tap = (frame, _, from) => {
      const packet = blankPacket()
      checkPacket(packet, frame, 0, frame.length)
      if (from === 'a') seen.push(`${packet.row!.name} ${packet.solicited}`)
    }
    const send = (...args: [Uint8Array, Parameters<typeof sendJob>[1]]): Promise<unknown> => {
      const { verb, result } = pending(
        'send',
        (done) => sendJob(...args, done),
        () => 0,
      )
      port.enqueueChain({ verbs: [verb], check: () => {} })
      return result
    }
    await send(pattern(300, 1), { solicited: true })
    await send(pattern(3, 2), { immediate: 0xdeadbeef })
    await send(pattern(0, 3), { invalidate: RKEY })
    expect(target.messages).toEqual([pattern(300, 1), pattern(3, 2), pattern(0, 3)])
    expect(seen).toEqual([
      'RC SEND First false',
      'RC SEND Last true',
      'RC SEND Only with Immediate false',
      'RC SEND Only with Invalidate false',
    ])
  })

  test('X-7: a refusal is a TransportError, and what is behind it had no effect', async () => {
    const { memory, target, port } = bench()
    const beyond = new RemoteMemory(
      port,
      () => 'another place',
      () => ({ rkey: 1, va: 0n, length: 100n }),
    )
    const ends = await Promise.allSettled([
      memory.write(0, pattern(8, 1)),
      beyond.write(0, pattern(8, 2)),
      memory.write(8, pattern(8, 3)),
    ])
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    const reason = (ends[1] as PromiseRejectedResult).reason as TransportError
    expect(reason).toBeInstanceOf(TransportError)
    expect(reason).toMatchObject({ code: 'PERDURE_TRANSPORT', status: 'REM_ACCESS_ERR' })
    const behind = (ends[2] as PromiseRejectedResult).reason as TransportError
    expect(behind).toMatchObject({ code: 'PERDURE_TRANSPORT', status: 'WR_FLUSH_ERR' })
    expect(target.executed).toEqual(['WRITE'])
    await expect(memory.read(0, 1)).rejects.toMatchObject({ code: 'PERDURE_TRANSPORT' })
  })

  test('a request that was sent and never answered leaves its effect open', async () => {
    const { memory, link } = bench({ ackTimeoutCode: 8, retryCount: 2 })
    link.script = () => ({ drop: true })
    const error = await memory.fetchAdd(0, 1n).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(EffectUnknown)
    const expected = { code: 'PERDURE_OUTCOME_UNKNOWN', status: 'RETRY_EXC_ERR' }
    expect(error).toMatchObject(expected)
  })

  test('wrong arguments are refused before anything is sent', async () => {
    const { memory, link } = bench()
    const calls: (() => Promise<unknown>)[] = [
      () => memory.write(-1, pattern(1, 0)),
      () => memory.write(BYTES, pattern(1, 0)),
      () => memory.write(0.5, pattern(1, 0)),
      () => memory.write(0, 'text' as unknown as Uint8Array),
      () => memory.write(0, pattern(1, 0), { immediate: 2 ** 32 }),
      () => memory.read(BYTES - 1, 2),
      () => memory.read(0, -1),
      () => memory.flush(BYTES, 1),
      () => memory.flush(0, 1, { persistent: false }),
      () => memory.fetchAdd(4, 1n),
      () => memory.fetchAdd(0, -1n),
      () => memory.compareSwap(0, 0n, 2n ** 64n),
      () => memory.atomicWrite(0, pattern(7, 0)),
      () => memory.atomicWrite(BYTES - 4, pattern(8, 0)),
    ]
    for (const call of calls) {
      const error = await (async () => await call())().catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(ArgumentError)
    }
    expect(link.counts('a').sent).toBe(0)
  })
})

describe('a target that is Linux', () => {
  test('gets FLUSH with its own ICRC, and any other gets the standard one', async () => {
    for (const linux of [true, false]) {
      const { memory, target } = bench({ linux })
      await memory.write(0, pattern(64, 1))
      await memory.flush(0, 64)
      expect([target.linuxFlushes, target.standardFlushes]).toEqual(linux ? [1, 0] : [0, 1])
    }
  })

  test('never answers a repeated FLUSH, and the FLUSH ends all the same', async () => {
    const { memory, target, link, queuePair } = bench({ linux: true, ackTimeoutCode: 8 })
    await memory.write(0, pattern(64, 1))
    let responses = 0
    link.script = (_, from) => (from === 'b' && responses++ === 0 ? { drop: true } : undefined)
    await memory.flush(0, 64)
    expect(target.executed).toEqual(['WRITE', 'FLUSH'])
    expect(target.durable.subarray(0, 64)).toEqual(pattern(64, 1))
    expect(queuePair.counts.timeouts).toBe(0)
  })
})

describe('a bad network', () => {
  const seed = Number(process.env.SEED ?? 7)

  test.each([
    ['any target', false],
    ['Linux', true],
  ])(`X-3: every request is executed once and in order at %s (SEED=${seed})`, async (_, linux) => {
    for (let run = 0; run < 12; run++) {
      const random = new Random(seed * 100 + run)
      const below = (end: number): number => random.next() % end
      const faults = { loss: 0.05, duplication: 0.05, reordering: 0.05, corruption: 0.02 }
      const { memory, target } = bench({
        ...{ linux, faults, seed: seed * 1000 + run, ackTimeoutCode: 9, readDepth: 4 },
        retryCount: 100,
      })
      const mirror = new Uint8Array(BYTES)
      const expected: string[] = []
      const results: Promise<unknown>[] = []
      let counter = 0n
      for (let i = 0; i < 60; i++) {
        const at = 64 + 8 * below(3000)
        const bytes = pattern(below(2000), i)
        switch (below(5)) {
          case 0:
            results.push(memory.write(at, bytes))
            mirror.set(bytes, at)
            expected.push('WRITE')
            break
          case 1: {
            const found = counter++
            results.push(memory.fetchAdd(0, 1n).then((got) => expect(got).toBe(found)))
            expected.push('FETCH_ADD')
            break
          }
          case 2:
            results.push(memory.flush(0, BYTES))
            expected.push('FLUSH')
            break
          case 3:
            results.push(memory.atomicWrite(at, pattern(8, i)))
            mirror.set(pattern(8, i), at)
            expected.push('ATOMIC_WRITE')
            break
          default: {
            // Nobody writes there, so what a late repetition reads is the same.
            const length = 1 + below(3000)
            results.push(memory.read(BYTES - 4000, length))
            expected.push('READ')
          }
        }
      }
      await Promise.all(results)
      await memory.flush(0, 0, { wholeRegion: true })
      new DataView(mirror.buffer).setBigUint64(0, counter, true)
      expect(target.executed).toEqual([...expected, 'FLUSH'])
      expect(Buffer.compare(target.durable, mirror)).toBe(0)
    }
  })

  test('more chains than the queue has places go out in order, each whole', async () => {
    const { memory, target } = bench()
    const writes = Array.from({ length: 500 }, (_, i) => memory.write(8 * i, pattern(8, i)))
    await Promise.all(writes)
    expect(target.executed.length).toBe(500)
    for (const i of [0, 127, 128, 499]) {
      expect(target.memory.slice(8 * i, 8 * i + 8)).toEqual(pattern(8, i))
    }
  })
})

// ---- the receiver ------------------------------------------------------------------------------

interface Heard {
  readonly psn: number
  readonly syndrome: number
  readonly msn: number
}

/** A queue pair whose peer is the test: frames in by `hear`, answers out in `said`. */
function receiver(entries = 2, messageBytesMax = 1000) {
  let deliver: (frame: Uint8Array) => void = () => {}
  const said: Heard[] = []
  const wire = {
    send: (frame: Uint8Array) => said.push(heardOf(frame)),
    onFrame: (callback: (frame: Uint8Array) => void) => {
      deliver = callback
    },
    now: () => 0,
    setTimer: () => () => {},
    close: () => {},
  }
  const inbox = new Inbox(entries, messageBytesMax, wire)
  const session = new Session(wire, PEER, OWN)
  const granted = { queuePair: 0x31, firstPsn: 5, incarnation: 1, pathMtu: 256 }
  const firstPsn = 0xfffffe
  const queuePair = new DriverPair(session, 0x21, granted, { receive: { inbox, firstPsn } })
  const hear = (psn: number, opcode: number, rest: Partial<FrameParts> = {}, ack = true): void => {
    const bth = { opcode, psn: psn & 0xffffff, destQp: 0x21, ackRequest: ack, ...rest.bth }
    deliver(frameOf({ ...rest, bth }))
  }
  return { inbox, queuePair, said, hear, session }
}

function heardOf(frame: Uint8Array): Heard {
  const packet: Packet = blankPacket()
  const aeth: Aeth = blankAeth()
  expect(checkPacket(packet, frame, 0, frame.length)).toBe(PASS)
  expect(packet.opcode).toBe(op.RC_ACKNOWLEDGE)
  readAeth(aeth, frame, packet.bthAt + packet.row!.aethAt)
  return { psn: packet.psn, ...aeth }
}

describe('what the peer sends to us', () => {
  const FIRST = 0xfffffe

  test('is delivered in order, whole, with what it carries', async () => {
    const { inbox, hear, said } = receiver(4)
    hear(FIRST, op.RC_SEND_ONLY, { payload: pattern(5, 1) })
    hear(FIRST + 1, op.RC_SEND_FIRST, { payload: pattern(256, 2) }, false)
    hear(FIRST + 2, op.RC_SEND_MIDDLE, { payload: pattern(256, 3) }, false)
    hear(FIRST + 3, op.RC_SEND_LAST_IMM, { payload: pattern(7, 4), imm: { immediate: 9 } })
    hear(FIRST + 4, op.RC_SEND_ONLY_INV, { ieth: { rkey: 77 } })
    expect(await inbox.next()).toMatchObject({ bytes: pattern(5, 1), immediate: null })
    const whole = Buffer.concat([pattern(256, 2), pattern(256, 3), pattern(7, 4)])
    const second = await inbox.next()
    expect(Buffer.compare(second.bytes, whole)).toBe(0)
    expect(second).toMatchObject({ immediate: 9, invalidate: null })
    expect(await inbox.next()).toMatchObject({ invalidate: 77 })
    expect(said).toEqual([
      { psn: FIRST, syndrome: 0x1f, msn: 1 },
      { psn: 1, syndrome: 0x1f, msn: 2 },
      { psn: 2, syndrome: 0x1f, msn: 3 },
    ])
  })

  test('X-3: is delivered once, however often it comes', async () => {
    const { inbox, hear, said } = receiver(4)
    hear(FIRST, op.RC_SEND_ONLY, { payload: pattern(5, 1) })
    hear(FIRST, op.RC_SEND_ONLY, { payload: pattern(5, 2) })
    hear(FIRST + 1, op.RC_SEND_ONLY, { payload: pattern(5, 3) })
    hear(FIRST, op.RC_SEND_ONLY, { payload: pattern(5, 4) }, false)
    expect((await inbox.next()).bytes).toEqual(pattern(5, 1))
    expect((await inbox.next()).bytes).toEqual(pattern(5, 3))
    expect(said.map(({ psn }) => psn)).toEqual([FIRST, FIRST, FIRST + 1, FIRST + 1])
  })

  test('is not acknowledged by a PSN that was never taken', () => {
    const { hear, said } = receiver()
    hear(FIRST - 1, op.RC_SEND_ONLY)
    expect(said).toEqual([])
  })

  test('P2-25: waits for an entry of the receive queue, and is not lost', async () => {
    const { inbox, hear, said } = receiver(2)
    for (const i of [0, 1, 2]) hear(FIRST + i, op.RC_SEND_ONLY, { payload: pattern(1, i) })
    expect(said[2]).toEqual({ psn: 0, syndrome: 0x20 | 12, msn: 2 })
    expect((await inbox.next()).bytes).toEqual(pattern(1, 0))
    hear(FIRST + 2, op.RC_SEND_ONLY, { payload: pattern(1, 2) })
    expect(said[3]).toEqual({ psn: 0, syndrome: 0x1f, msn: 3 })
  })

  test('a gap is reported once until there is progress', () => {
    const { hear, said } = receiver(8)
    hear(FIRST + 2, op.RC_SEND_ONLY)
    hear(FIRST + 3, op.RC_SEND_ONLY)
    hear(FIRST, op.RC_SEND_ONLY)
    hear(FIRST + 3, op.RC_SEND_ONLY)
    expect(said.map(({ psn, syndrome }) => [psn, syndrome])).toEqual([
      [FIRST, 0x60],
      [FIRST, 0x1f],
      [FIRST + 1, 0x60],
    ])
  })

  const refused: [string, (hear: ReturnType<typeof receiver>['hear']) => void][] = [
    ['a WRITE', (hear) => hear(FIRST, op.RC_WRITE_ONLY)],
    ['a READ', (hear) => hear(FIRST, op.RC_READ_REQUEST)],
    ['an atomic', (hear) => hear(FIRST, op.RC_FETCH_ADD)],
    ['a reserved opcode', (hear) => hear(FIRST, 0x15)],
    ['a Middle without First', (hear) => hear(FIRST, op.RC_SEND_MIDDLE)],
    [
      'a First that is not full',
      (hear) => hear(FIRST, op.RC_SEND_FIRST, { payload: pattern(8, 0) }),
    ],
    [
      'a message longer than an entry',
      (hear) => {
        hear(FIRST, op.RC_SEND_FIRST, { payload: pattern(256, 0) }, false)
        for (let i = 1; i < 4; i++) {
          hear(FIRST + i, op.RC_SEND_MIDDLE, { payload: pattern(256, 0) }, false)
        }
      },
    ],
  ]
  test.each(refused)('X-7: %s draws NAK 0x61, and then there is silence', (_, say) => {
    const { hear, said } = receiver()
    say(hear)
    expect(said.map(({ syndrome }) => syndrome)).toEqual([0x61])
    for (const i of [0, 1, 5]) hear(FIRST + i, op.RC_SEND_ONLY)
    expect(said.length).toBe(1)
  })

  test('a congestion notification narrows the window, and is not answered', () => {
    const { hear, said, queuePair } = receiver()
    hear(0, op.CNP, { payload: new Uint8Array(16) }, false)
    expect(queuePair.counts).toMatchObject({ congestions: 1, windowCuts: 1, ghosts: 0 })
    expect(said).toEqual([])
  })

  test('half a message of a broken connection gives its entry back', async () => {
    const { inbox, hear, queuePair } = receiver(1)
    hear(FIRST, op.RC_SEND_FIRST, { payload: pattern(256, 0) })
    expect(inbox.claim()).toBe(false)
    queuePair.close()
    expect(inbox.claim()).toBe(true)
  })

  test('ends with the connection, but what is here can be read', async () => {
    const { inbox, hear } = receiver()
    hear(FIRST, op.RC_SEND_ONLY, { payload: pattern(3, 1) })
    inbox.close(new Error('closed'))
    const read: Uint8Array[] = []
    for await (const { bytes } of inbox) read.push(bytes)
    expect(read).toEqual([pattern(3, 1)])
    await expect(inbox.next()).rejects.toThrow('closed')
  })
})
