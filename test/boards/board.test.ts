/**
 * The conformance suite of the boards: what every board must show that runs the firmware, held
 * unchanged with each that this machine can run. PERDURE_BOARDS=emulator,linux,qemu-virt chooses.
 *
 * A board is known by `BoardUnderTest` alone (support/board/board.ts). Frames go in and come out
 * raw; the driver and the command do the rest, as a user has them. What a board has not, a console
 * or a power switch, is skipped by name.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../boards/emulator/base/random.ts'
import { RefusedError } from '../../host-driver/base/errors.ts'
import { connect, type Durability } from '../../host-driver/index.ts'
import { openLocal } from '../../host-driver/local.ts'
import { randomSource } from '../../host-driver/way/options.ts'
import { killBoard } from '../kill/kills.ts'
import { Ledger } from '../kill/ledger.ts'
import { Load } from '../kill/load.ts'
import type { BoardKind } from '../support/board/board.ts'
import { bundleHash } from '../support/board/bundle.ts'
import { wantedKinds } from '../support/board/kinds.ts'
import { type End, Rig } from '../support/board/rig.ts'
import { runIn } from '../support/command/command.ts'
import { copyAt, LANES, LANES_AT, LINE_BYTES, readSuperblock } from '../support/judges/oracle.ts'
import { THOROUGH } from '../support/run/thorough.ts'
import { CONNECTED, heldSession, serviceIn } from '../support/wire/captured-session.ts'
import * as cmClient from '../support/wire/cm.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type TestPeer,
  type TestRegion,
} from '../support/wire/conversation.ts'
import { SCENARIOS, scenarioOf } from '../support/wire/dialogue.ts'
import { hex, hexOf, writeIcrc } from '../support/wire/frames.ts'
import { isReplayable, Replay } from '../support/wire/replay.ts'
import {
  ACK,
  atomicWriteFrame,
  compareSwapFrame,
  connectIpv6,
  disconnect,
  fetchAddFrame,
  flushFrame,
  NAK_ACCESS,
  NAK_SEQUENCE,
  writeFrames,
} from '../support/wire/requests.ts'
import {
  beginningOf,
  expectedOf,
  VECTOR_REQUESTS,
  wordOf,
} from '../support/wire/vector-requests.ts'

const SEED = Number(process.env.SEED ?? 11)

const folder = mkdtempSync(join(tmpdir(), 'perdure-conformance-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The vectors whose numbers can be exchanged for a card's own. */
const CARRIED = VECTOR_REQUESTS.filter(({ bytes }) => isReplayable(bytes))

/** So often a board is killed at most, until a kill falls amid writes. */
const TRIES = 200

const LEVELS: readonly Durability[] = ['1of2', '2of2', '2of3']
const SIZES: readonly number[] = [64, 4096, 65536]

interface Shape {
  readonly name: string
  readonly slots: number
  readonly capacity: number
  readonly copies: number
}

/** Regions of records on a board: one of two copies, one of three. */
function shapeOf(copies: number): Shape {
  return { name: `copies-${copies}`, slots: 4, capacity: 65536, copies }
}

function recordsOf(rig: Rig, copies: number): TestRegion {
  const { client } = rig.cable
  return client.provision(shapeOf(copies))
}

/** Boards to run, and those that cannot run here, with the reason. */
const RUNNABLE = wantedKinds().filter((kind) => kind.missing() === null)
const MISSING = wantedKinds().filter((kind) => kind.missing() !== null)

for (const kind of MISSING) {
  const why = `the board ${kind.name} is skipped: ${kind.missing()}`
  console.warn(why)
  test.skip(why)
}

describe.each(RUNNABLE.map((kind) => [kind.name, kind] as const))('%s', (_, kind) => {
  let rig: Rig
  beforeAll(async () => {
    rig = await new Rig(kind).start()
  })
  afterAll(() => rig.close())

  describe('what it says of itself', () => describeItself(kind, () => rig))
  describe('what comes in and goes out', () => describeFrames(() => rig))
  describe('recorded conversations', () => describeRecordings(() => rig))
  describe('what it refuses', () => describeRefusals(() => rig))
  describe('what it keeps', () => describeKeeping(kind, () => rig))
  describe('what it promises', () => describePromises(kind))
})

function describeItself(kind: BoardKind, rig: () => Rig): void {
  test('it runs the bundle that every board runs: the SHA-256 is that of dist/firmware.js', () => {
    expect(rig().board.bundleHash).toBe(bundleHash())
  })

  test('its part serves, armed, and is as long as the board says', async () => {
    const part = await rig().use((dpu) => dpu.status())
    expect(part).toMatchObject({ state: 'serving', fault: null, armed: true, unsettled: 0 })
    expect(part.nvdimmBytes).toBe(rig().board.readImage().length)
    expect(part.pathMtu).toBe(4096)
  })

  test.skipIf(!kind.hasConsole)('its console answers `hash` and `status` in JSON', async () => {
    const { board } = rig()
    expect(JSON.stringify(await board.command('hash'))).toContain(bundleHash())
    const status = await board.command('status')
    expect(JSON.stringify(status)).toContain('serving')
    expect(await board.command('nonsense')).toHaveProperty('error')
  })
}

/**
 * The bytes that differ, except for those of lanes that have been cleared, whole: a card does that
 * when it finds time, and nobody is told.
 */
function changed(before: Uint8Array, after: Uint8Array): number[] {
  const isCleared = (at: number): boolean => {
    const line = at - (at % LINE_BYTES)
    const isLane = line >= LANES_AT && line < LANES_AT + LANES * LINE_BYTES
    return isLane && after.subarray(line, line + LINE_BYTES).every((byte) => byte === 0)
  }
  return [...before.keys()].filter((at) => before[at] !== after[at] && !isCleared(at))
}

function describeFrames(rig: () => Rig): void {
  test('ARP: it says where its address is, to who asks', () => {
    const { cable } = rig()
    const asks = 'ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001'
    cable.ask(hex(`${asks} 000000000000 0a000002`))
    const told = cable.plain.map((frame) => hexOf(frame.slice(0, 42)))
    const says = '020000000001 020000000002 0806 0001 0800 06 04 0002 020000000002 0a000002'
    expect(told).toEqual([`${says} 020000000001 0a000001`.replaceAll(' ', '')])
    cable.ask(hex(`${asks} 000000000000 0a000003`))
    expect(cable.plain).toEqual([])
  })

  for (const level of LEVELS) {
    for (const bytes of SIZES) {
      test(`X-1: WRITE_PERSIST of ${bytes} bytes, ${level}: durable, and read back`, () => {
        const { cable } = rig()
        const [wait, copies] = [Number(level[0]), Number(level[3])]
        const region = recordsOf(rig(), copies)
        const qp = cable.client.connect(1024)
        const data = dataOf(bytes, bytes + wait)
        const sent = cable.ask(...persistFrames(qp, region, 1, data, { wait }))
        expect(sent.filter(({ syndrome }) => syndrome >= 0x20)).toEqual([])
        const [ack, ...more] = persistAcks(sent)
        expect(more).toEqual([])
        expect(ack).toMatchObject({ status: 0, operationLow: qp.operation })
        expect(ack!.copies).toBeGreaterThanOrEqual(wait)
        expect(hexOf(cable.client.read(qp, region, 1, 0, bytes)!)).toBe(hexOf(data))
      })
    }
  }

  test('X-3: a duplicate is acknowledged again, and changes no byte of the part', () => {
    const { cable, board } = rig()
    const region = recordsOf(rig(), 2)
    const qp = cable.client.connect(4096)
    const frames = persistFrames(qp, region, 2, dataOf(9000, 1))
    expect(persistAcks(cable.ask(...frames))).toMatchObject([{ status: 0 }])
    cable.ask()
    const before = board.readImage()
    for (let i = 0; i < 2; i++) {
      const again = cable.ask(...frames)
      expect(again.some(({ syndrome }) => syndrome === ACK)).toBe(true)
      expect(persistAcks(again)).toMatchObject([{ status: 0, operationLow: qp.operation }])
    }
    expect(changed(before, board.readImage())).toEqual([])
  })

  test('N4: a gap is refused once, and the packet that was missed goes on', () => {
    const { cable } = rig()
    const region = recordsOf(rig(), 2)
    const qp = cable.client.connect(1024)
    const [first, second, third] = persistFrames(qp, region, 3, dataOf(3000, 2))
    const early = cable.ask(first!, third!, third!)
    expect(early.map(({ syndrome }) => syndrome)).toEqual([NAK_SEQUENCE])
    expect(persistAcks(cable.ask(second!, third!))).toMatchObject([{ status: 0 }])
  })

  test('N6: a frame with a wrong ICRC is dropped, and counted', () => {
    const { cable } = rig()
    const region = recordsOf(rig(), 2)
    const qp = cable.client.connect(4096)
    const [frame] = persistFrames(qp, region, 0, dataOf(64, 3))
    const before = cable.client.counter('ICRC')
    for (let bit = 0; bit < 32; bit++) {
      const bad = frame!.slice()
      bad[bad.length - 4 + (bit >> 3)]! ^= 1 << (bit & 7)
      expect(cable.ask(bad), `bit ${bit}`).toEqual([])
    }
    expect(cable.client.counter('ICRC') - before).toBe(32)
    expect(persistAcks(cable.ask(frame!))).toMatchObject([{ status: 0 }])
  })

  test('a record over IPv6 is durable, and acknowledged over IPv6', () => {
    const { cable } = rig()
    const region = recordsOf(rig(), 2)
    const qp = connectIpv6({ serve: (...frames) => cable.ask(...frames) })
    const sent = cable.ask(...persistFrames(qp, region, 3, dataOf(5000, 6), { ipVersion: 6 }))
    expect(persistAcks(sent)).toMatchObject([{ status: 0 }])
    expect(sent.every(({ packet }) => packet.ipVersion === 6)).toBe(true)
    const other = cable.client.connect(4096)
    expect(hexOf(cable.client.read(other, region, 3, 0, 5000)!)).toBe(hexOf(dataOf(5000, 6)))
  })

  test('one READ of 32 KiB, in 128 packets: all of them, in their order', () => {
    const { cable } = rig()
    const { rkey, baseHigh, baseLow, qp } = rig().replayGround(256, 'session', 65536)
    const data = dataOf(32768, 8)
    const vaHigh = baseHigh
    const wide = cable.client.connect(4096)
    const stored = cable.ask(...writeFrames(wide, rkey, baseLow, data, { vaHigh }))
    expect(stored.map(({ syndrome }) => syndrome)).toEqual([ACK])
    const first = qp.psn
    const sent = cable.ask(readFrame(qp, rkey, baseHigh, baseLow, 32768))
    expect(sent.map(({ psn }) => (psn - first) & 0xffffff)).toEqual([...Array(128).keys()])
    expect(Buffer.compare(Buffer.concat(sent.map(({ payload }) => payload)), data)).toBe(0)
  })

  test('D-10: a batch in order: one wait for all of its records, every one durable', async () => {
    await rig().use(async (dpu) => {
      const shape = { name: 'batched', slots: 64, capacity: 200, copies: 2 }
      const region = await dpu.provision(shape)
      const batch = region.batch({ condition: 'inOrder' })
      for (let slot = 0; slot < 64; slot++) batch.persist(slot, dataOf(100 + slot, slot))
      expect(await batch.commit()).toMatchObject({ all: true, durable: 64, waits: 1 })
      for (const slot of [0, 31, 63]) {
        expect(hexOf((await region.read(slot)).data)).toBe(hexOf(dataOf(100 + slot, slot)))
      }
    })
  })

  test('D-9: atomics and ATOMIC WRITE, in the byte order of the wire and of the region', () => {
    const { cable } = rig()
    const { rkey, baseHigh: vaHigh, baseLow, qp } = rig().replayGround(4096)
    const at = baseLow + 128
    const original = (frame: Uint8Array): bigint => {
      const [answer] = cable.ask(frame)
      return new DataView(answer!.bytes.buffer, answer!.packet.payloadAt - 8, 8).getBigUint64(0)
    }
    const big = 0x0102_0304_0506_0708n
    expect(original(fetchAddFrame(qp, rkey, at, big, { vaHigh }))).toBe(0n)
    expect(original(fetchAddFrame(qp, rkey, at, 2n ** 64n - 1n, { vaHigh }))).toBe(big)
    expect(original(compareSwapFrame(qp, rkey, at, 1n, 5n, { vaHigh }))).toBe(big - 1n)
    expect(original(compareSwapFrame(qp, rkey, at, big - 1n, 5n, { vaHigh }))).toBe(big - 1n)
    expect(original(fetchAddFrame(qp, rkey, at, 0n, { vaHigh }))).toBe(5n)
    const word = dataOf(8, 9)
    expect(cable.ask(atomicWriteFrame(qp, rkey, at + 8, word, { vaHigh }))).toHaveLength(1)
    const [read] = cable.ask(readFrame(qp, rkey, vaHigh, at, 16))
    expect(hexOf(read!.payload)).toBe(`0500000000000000${hexOf(word)}`)
  })
}

function describeRecordings(rig: () => Rig): void {
  test.for(SCENARIOS)('the dialogue %s goes as it was recorded, field by field', (name) => {
    const { beginning, steps } = scenarioOf(name)
    const grant = rig().replayGround(beginning.pathMtu)
    const { cable } = rig()
    const replay = new Replay((...frames) => cable.ask(...frames), beginning, grant)
    steps.forEach((step, i) => {
      expect(replay.serve(step.frame), `step ${i + 1}: ${step.note}`).toEqual(step.answers)
    })
  })

  test(`every request of the vectors, ${CARRIED.length}, each the first of its connection`, () => {
    const { cable } = rig()
    for (const vector of CARRIED) {
      const beginning = beginningOf(vector)
      const grant = rig().replayGround(beginning.pathMtu)
      const replay = new Replay((...frames) => cable.ask(...frames), beginning, grant)
      expect(wordOf(replay.answersTo(vector.bytes)), vector.name).toBe(expectedOf(vector))
      // Some ask the card to speak, and it would go on until somebody hears it.
      disconnect(cable.client, grant.qp)
    }
  })

  test.for(CONNECTED)('D-9: %s: the Linux client connects, is served, and leaves', (name) => {
    const { cable } = rig()
    const { rkey } = rig().replayGround(4096, 'session', 65536)
    const { port, isServed } = serviceIn(name)
    if (isServed) {
      expect(cmClient.publish(cable.client, { name: 'session', port }).fault).toBe('PASS')
    }
    const held = heldSession((...frames) => cable.ask(...frames), name, rkey)
    expect(held.card).toEqual(held.server)
    expect(held.card.messages.length).toBeGreaterThan(0)
  })
}

/** Frames that are made of good ones by turning, cutting and mixing, the ICRC good again or not. */
function hostileFrames(random: Random, good: readonly Uint8Array[], count: number): Uint8Array[] {
  return Array.from({ length: count }, () => {
    const frame = good[random.below(good.length)]!.slice()
    for (let turns = random.below(6); turns >= 0; turns--) {
      frame[14 + random.below(frame.length - 14)]! ^= 1 << random.below(8)
    }
    const cut = random.chance(0.3) ? frame.slice(0, random.below(frame.length)) : frame
    if (cut.length > 60 && random.chance(0.5)) writeIcrc(cut)
    return cut
  })
}

function describeRefusals(rig: () => Rig): void {
  /** A queue pair, a record in 'copies-2' that must stay, and a region that may be hit. */
  function ground(): { qp: TestPeer; region: TestRegion; victim: TestRegion } {
    const { client } = rig().cable
    const region = recordsOf(rig(), 2)
    const qp = client.connect(4096)
    rig().cable.ask(...persistFrames(qp, region, 0, dataOf(1000, 77)))
    const victim = client.provision({ name: 'victim', slots: 4, capacity: 100, copies: 2 })
    return { qp, region, victim }
  }

  function expectKept({ region }: { region: TestRegion }): void {
    const { client } = rig().cable
    const data = client.read(client.connect(4096), region, 0, 0, 1000)
    expect(hexOf(data!)).toBe(hexOf(dataOf(1000, 77)))
  }

  test('N7: a request that was cut off at any length is dropped', () => {
    const here = ground()
    const [frame] = persistFrames({ ...here.qp }, here.region, 0, dataOf(100, 5))
    for (let from = 0; from < frame!.length; from += 32) {
      const lengths = Array.from({ length: 32 }, (_, i) => from + i)
      const cut = lengths.filter((length) => length < frame!.length)
      expect(rig().cable.ask(...cut.map((length) => frame!.slice(0, length)))).toEqual([])
    }
    expectKept(here)
  })

  test('N15, N16: a wrong key, a slot or an address beyond the region: refused, in words', () => {
    const here = ground()
    const { cable } = rig()
    const beyond: [number, number, number][] = [
      [here.region.rkey ^ 0x100, 0, 0],
      [here.region.rkey, 4, 0],
      [here.region.rkey, 0xffffffff, 0xffffffff],
      [here.region.rkey, 0, 65536],
      [here.region.rkey, 0, 0xfff_ffff],
    ]
    for (const [rkey, vaHigh, vaLow] of beyond) {
      const qp = cable.client.connect(4096)
      const [answer] = cable.ask(readFrame(qp, rkey, vaHigh, vaLow, 64))
      expect(answer!.syndrome, `${rkey} ${vaHigh} ${vaLow}`).toBe(NAK_ACCESS)
    }
    expectKept(here)
  })

  test('N16: a record longer than its slot is refused, and the slot is as it was', async () => {
    const here = ground()
    const { client } = rig().cable
    const qp = client.connect(4096)
    const sent = rig().cable.ask(...persistFrames(qp, here.victim, 0, dataOf(101, 1)))
    expect(persistAcks(sent).filter(({ status }) => status === 0)).toEqual([])
    expect(sent.some(({ syndrome }) => syndrome > 0x20) || persistAcks(sent).length > 0).toBe(true)
    const error = await rig().use(async (dpu) => {
      const region = await dpu.openRegion('victim')
      const levels = region.persist(0, dataOf(10, 1), { durability: '2of2' }).persisted
      await levels
      return await dpu.openRegion('nobody').catch((reason: unknown) => reason)
    })
    expect(error).toBeInstanceOf(RefusedError)
    expect(error).toMatchObject({ fault: 'NO_REGION' })
  })

  test('N19: hostile frames never end it, and touch nothing that they name no key of', () => {
    const here = ground()
    const { cable, board } = rig()
    const random = new Random(SEED)
    for (let burst = 0; burst < 24; burst++) {
      const qp = cable.client.connect(1024)
      const good = [
        ...persistFrames({ ...qp }, here.victim, 1, dataOf(100, burst)),
        readFrame({ ...qp }, here.victim, 1, 0, 100),
        flushFrame({ ...qp }, here.victim, { length: 64 }),
        fetchAddFrame({ ...qp }, here.victim, 8, 1n),
        ...writeFrames({ ...qp }, here.victim, 0, dataOf(64, 2)),
        ...persistFrames({ ...qp, mtu: 256 }, here.victim, 2, dataOf(600, burst)),
      ]
      cable.ask(...hostileFrames(random, good, 64))
    }
    expect(board.story()).not.toBe('')
    expectKept(here)
    expect(cable.client.counter('ICRC')).toBeGreaterThan(100)
  })
}

function describeKeeping(kind: BoardKind, rig: () => Rig): void {
  const ends: readonly End[] = kind.cutsPower ? ['stop', 'kill', 'cut'] : ['stop', 'kill']

  for (const end of ends) {
    test(`X-2: what was acknowledged or flushed outlives a ${end}, at every level`, async () => {
      const mark = `before the ${end}`
      const before = await rig().use(async (dpu) => {
        for (const level of LEVELS) {
          const region = await dpu.provision(shapeOf(Number(level[3])))
          const text = Buffer.from(`${mark}, ${level}`)
          await region.persist(Number(level[0]), text, { durability: level }).persisted
        }
        const bytes = await dpu.provisionBytes({ name: 'flushed', length: 4096 })
        await bytes.write(100, Buffer.from(mark))
        await bytes.flush(100, mark.length)
        return await dpu.status()
      })
      const code = await rig().restart(end)
      if (end === 'stop') expect(code).toBe(0)
      await rig().use(async (dpu) => {
        expect(await dpu.status()).toMatchObject({
          ...{ state: 'serving', armed: true, unsettled: 0 },
          ...{ incarnation: before.incarnation + 1, deviceId: before.deviceId },
        })
        for (const level of LEVELS) {
          const { data } = await (await dpu.openRegion(`copies-${level[3]}`)).read(Number(level[0]))
          expect(Buffer.from(data).toString()).toBe(`${mark}, ${level}`)
        }
        const bytes = await dpu.openBytes('flushed')
        expect(Buffer.from(await bytes.read(100, mark.length)).toString()).toBe(mark)
      })
    })
  }

  test('D-14: after a kill amid writes its report tells, and nothing is lost', async () => {
    let entries = 0
    for (let i = 0; i < TRIES && entries === 0; i++) {
      const load = new Load(new Ledger(), randomSource(SEED + i))
      await load.start(rig().board.target)
      await load.answered
      await setTimeout(kind.isQuick ? i % 20 : 200 * (i % 6))
      load.stop()
      await rig().restart('kill')
      await load.end()
      await rig().use(async (dpu) => {
        const [part, report, regions] = [
          await dpu.status(),
          await dpu.report(),
          await dpu.regions(),
        ]
        expect(part).toMatchObject({ unsettled: 0, reportEntries: report.length })
        for (const entry of report) {
          const region = regions.find(({ id }) => id === entry.region)!
          expect(entry.record).toBeLessThan(region.slots)
          expect(entry).toMatchObject({ lost: false, refused: false })
          expect(entry.valid.some(Boolean)).toBe(true)
        }
        entries += report.length
      })
    }
    expect(entries).toBeGreaterThan(0)
  })
}

/** A part that the emulated card of the driver has made, with a record in it. */
async function madeElsewhere(bytes: number): Promise<string> {
  const path = join(folder, 'elsewhere.nvdimm')
  rmSync(path, { force: true })
  const local = await openLocal({ path, bytes, seed: SEED })
  const dpu = await connect(local.wire, { seed: SEED })
  await dpu.format()
  const region = await dpu.provision({ name: 'elsewhere', slots: 8, capacity: 5000, copies: 2 })
  await region.persist(3, dataOf(5000, 3)).persisted
  await dpu.close()
  local.close()
  return path
}

/** The bytes of that record on a part, every copy. */
function recordIn(part: Uint8Array): Uint8Array {
  const region = readSuperblock(part)!.regions.find(({ name }) => name === 'elsewhere')!
  const copies = [0, 1].map((copy) => copyAt(region, copy, 3))
  return Buffer.concat(copies.map((at) => part.subarray(at, at + region.stride)))
}

function describePromises(kind: BoardKind): void {
  test('an image of the emulator opens here, and one of this board in the emulator', async () => {
    const rig = new Rig(kind)
    try {
      const { length } = rig.board.readImage()
      rig.board.writeImage(readFileSync(await madeElsewhere(length)))
      await rig.start()
      await rig.use(async (dpu) => {
        const region = await dpu.openRegion('elsewhere')
        expect(hexOf((await region.read(3)).data)).toBe(hexOf(dataOf(5000, 3)))
        await region.persist(4, dataOf(4000, 4)).persisted
      })
      expect(await rig.board.stop()).toBe(0)
      const path = join(folder, 'back.nvdimm')
      writeFileSync(path, rig.board.readImage())
      const verified = await runIn(folder, ['verify', path, '--json'])
      expect(verified.code, verified.stderr).toBe(0)
      expect(JSON.parse(verified.stdout)).toMatchObject({ lost: 0 })
      const read = await runIn(folder, [
        'read',
        path,
        'elsewhere',
        '--slots',
        '4..4',
        '--out',
        'four',
      ])
      expect(read.code, read.stderr).toBe(0)
      expect(hexOf(readFileSync(join(folder, 'four')))).toBe(hexOf(dataOf(4000, 4)))
    } finally {
      await rig.close()
    }
  })

  test.skipIf(!kind.canBeVolatile)(
    'D-13: where the medium is not durable, no record is ever said to be',
    async () => {
      const rig = new Rig(kind, { durable: false })
      try {
        const { length } = rig.board.readImage()
        const image = readFileSync(await madeElsewhere(length))
        rig.board.writeImage(image)
        await rig.board.start()
        const part = await rig.use((dpu) => dpu.status())
        expect(part.armed && !part.saveFailed).toBe(false)
        await rig.use(async (dpu) => {
          for (const durability of ['1of2', '2of2'] as const) {
            const attempt = async (): Promise<unknown> => {
              const region = await dpu.openRegion('elsewhere')
              return await region.persist(3, dataOf(10, 1), { durability }).persisted
            }
            // A part that was never armed does not even serve; one that was serves its records.
            const fault = part.state === 'refused' ? 'NOT_SERVING' : 'NOT_ARMED'
            await expect(attempt()).rejects.toMatchObject({ code: 'PERDURE_REFUSED', fault })
          }
        })
        expect(hexOf(recordIn(rig.board.readImage()))).toBe(hexOf(recordIn(image)))
      } finally {
        await rig.close()
      }
    },
  )

  test(
    'X-1, X-2: kills under load: no acknowledged record is missing, none is torn',
    THOROUGH,
    async () => {
      const tally = await killBoard({ kind, kills: kind.killsInShort, seed: SEED })
      expect(tally.violations).toEqual([])
      expect(tally).toMatchObject({ missing: 0, torn: 0, fewer: 0 })
      expect(tally.acknowledged).toBeGreaterThan(0)
      expect(tally.unanswered).toBeGreaterThan(0)
    },
  )

  test.skipIf(!kind.isQuick || !kind.dropsFlush)(
    'X-1, X-2: the same without a shadow, every store straight to the part',
    THOROUGH,
    async () => {
      const tally = await killBoard({ kind, kills: 6, seed: SEED + 1, shadow: false })
      expect(tally.violations).toEqual([])
      expect(tally.acknowledged).toBeGreaterThan(0)
    },
  )

  const whyNot = kind.missing({ dropFlush: true })
  test.skipIf(!kind.isQuick || whyNot !== null)(
    `X-1: a runtime that leaves a write-back out is noticed${whyNot ? ` (${whyNot})` : ''}`,
    THOROUGH,
    async () => {
      const { missing, torn, fewer } = await killBoard({
        ...{ kind, kills: 16, seed: SEED, dropFlush: true },
      })
      expect(missing + torn + fewer).toBeGreaterThan(0)
    },
  )
}
