/**
 * Frames in a victim's name from somebody who is not on its path: he knows every address, the names
 * and places of regions, the incarnation, and what he is told of connections of his own; he may
 * say any number and PSN. No record changes, no queue pair of the victim ends, and what the victim
 * is told is so.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { RC_READ_REQUEST, RC_WRITE_ONLY } from '../../../firmware/wire/opcode.ts'
import { type ConnectOptions, connect } from '../../../host-driver/index.ts'
import type { Address } from '../../support/attacks/address.ts'
import {
  type Arena,
  type Client,
  NOTES,
  onEveryBoard,
  record,
  someone,
} from '../../support/attacks/arena.ts'
import { allAs, type Station } from '../../support/attacks/station.ts'
import { believed } from '../../support/attacks/xorshift.ts'
import { PATIENT } from '../../support/run/patience.ts'
import { persistFrames, regionOf, type TestPeer } from '../../support/wire/conversation.ts'
import { frameOf, hexOf } from '../../support/wire/frames.ts'

const SEED = Number(process.env.SEED ?? 37)

/** Forged frames of each attack. */
const FORGED = 1 << 12

/** An opcode of reliable connections that nobody serves. */
const UNKNOWN = 0x1f

const LAST = 0xffffff

/** The frames by which an attacker could gain: a record, plain bytes, a READ, a broken one. */
function forgedFrames(qp: TestPeer, rkey: number, random: Random): Uint8Array[] {
  const { number: destQp, psn } = qp
  const reth = { rkey, vaHigh: random.below(NOTES.slots), length: 64 }
  const payload = record(random.next())
  const bth = { destQp, psn, ackRequest: true }
  return [
    ...persistFrames({ ...qp }, rkey, random.below(NOTES.slots), payload),
    frameOf({ bth: { ...bth, opcode: RC_WRITE_ONLY }, reth, payload }),
    frameOf({ bth: { ...bth, opcode: RC_READ_REQUEST }, reth }),
    frameOf({ bth: { ...bth, opcode: UNKNOWN } }),
  ]
}

/** Numbers and PSNs as somebody draws them who knows none; half of the numbers are near his own. */
function* drawn(own: TestPeer, rkey: number, random: Random): Generator<Uint8Array> {
  for (let i = 0; i < FORGED; i++) {
    const near = own.number + random.below(512) - 256
    const number = random.chance(0.5) ? near & LAST : random.below(LAST + 1)
    const psn = random.below(LAST + 1)
    const frames = forgedFrames({ ...own, number, psn }, rkey, random)
    yield frames[i % frames.length]!
  }
}

/** Slots of 'notes' as the victim reads them. */
async function slotsOf({ station, qp, notes }: Client): Promise<string[]> {
  const slots: string[] = []
  for (let slot = 0; slot < NOTES.slots; slot++) {
    const content = await station.read(qp, notes, slot, 64)
    slots.push(content === null ? 'none' : hexOf(content))
  }
  return slots
}

onEveryBoard((arena) => {
  describe('drawn', () => describeDrawn(arena))
  describe('computed', () => describeComputed(arena))
})

function describeDrawn(arena: () => Arena): void {
  /** A victim with a record in each slot, and an attacker with a connection of his own. */
  async function ground(): Promise<{ victim: Client; eve: Station; own: TestPeer }> {
    const victim = await arena().client()
    const { station, qp, notes } = victim
    for (let slot = 0; slot < NOTES.slots; slot++) {
      expect(await station.persist(qp, notes, slot, record(slot))).toMatchObject([{ status: 0 }])
    }
    const eve = await arena().station()
    return { victim, eve, own: await eve.connect() }
  }

  test(`R1-S7: ${FORGED} forged frames with drawn numbers and PSNs change nothing`, async () => {
    const { victim, eve, own } = await ground()
    const before = await slotsOf(victim)
    const source = { mac: eve.address.mac, ip: victim.station.address.ip }
    await eve.flood(allAs(drawn(own, victim.notes.rkey, new Random(SEED)), source))
    // The same queue pair, at the PSN that it was: it never ended.
    expect(await slotsOf(victim)).toEqual(before)
    const { station, qp, notes } = victim
    expect(await station.persist(qp, notes, 0, record(100))).toMatchObject([{ status: 0 }])
    expect(hexOf((await arena().content(0, 64))!)).toBe(hexOf(record(100)))
  })

  test('R1-S3: nor do frames for its number that miss the PSN by a power of two', async () => {
    const { victim, eve } = await ground()
    const { station, qp, notes } = victim
    const random = new Random(SEED)
    const before = await slotsOf(victim)
    const powers = Array.from({ length: 24 }, (_, i) => 1 << i)
    for (const offset of powers.flatMap((power) => [power, -power])) {
      const missed = { ...qp, psn: (qp.psn + offset) & LAST, operation: random.next() }
      const source = { mac: eve.address.mac, ip: station.address.ip }
      await eve.flood(allAs(forgedFrames(missed, notes.rkey, random), source))
    }
    station.taken()
    expect(await slotsOf(victim)).toEqual(before)
    expect(await station.persist(qp, notes, 1, record(101))).toMatchObject([{ status: 0 }])
  })
}

/** Where the victim's next frames are, as the attacker of the review computes it. */
interface Target {
  readonly number: number
  readonly psns: readonly number[]
}

function describeComputed(arena: () => Arena): void {
  /** What the attacker computes just before the victim comes. */
  async function compute(eve: Station): Promise<Target> {
    const own = await eve.connect()
    const shape = { name: `of eve ${eve.fresh()}`, slots: 1, capacity: 64 }
    const { key } = regionOf((await eve.provision(shape)).body)
    const psns = believed(key).flatMap((generator) =>
      Array.from({ length: 4 }, () => generator.next() & LAST),
    )
    return { number: own.number + 1, psns }
  }

  /** A driver as the victim, at an address that the attacker knows. */
  async function driver(options: ConnectOptions = {}): Promise<{
    dpu: Awaited<ReturnType<typeof connect>>
    address: Address
  }> {
    const address = someone()
    const own = { mac: address.mac, ipv4: address.ip } as const
    const dpu = await connect(arena().target, { ...PATIENT, own, ...options })
    return { dpu, address }
  }

  test('R1-S3: a record at the computed place is not taken for the one of the victim', async () => {
    const eve = await arena().station()
    const { number, psns } = await compute(eve)
    const { rkey } = await eve.region(NOTES.name)
    const { dpu, address } = await driver()
    try {
      const notes = await dpu.openRegion(NOTES.name)
      const first = await notes.persist(10, record(10)).persisted
      const source = { mac: eve.address.mac, ip: address.ip }
      const frames = psns.flatMap((psn) => {
        const qp = { number, peer: 0, mtu: 1024, psn: (psn + 1) & LAST, operation: 0 }
        const operation = Number(first.operationId & 0xffffffffn) + 1
        const operationHigh = Number(first.operationId >> 32n)
        return persistFrames(qp, rkey, 11, record(666), { operation, operationHigh })
      })
      await eve.flood(allAs(frames, source))
      const receipt = await notes.persist(11, record(11)).persisted
      expect(receipt).toMatchObject({ copies: 2, of: 2 })
      expect(hexOf((await notes.read(11)).data)).toBe(hexOf(record(11)))
    } finally {
      await dpu.close()
    }
  })

  test('R1-S7: an unknown opcode at the computed place ends no connection', async () => {
    const eve = await arena().station()
    const { number, psns } = await compute(eve)
    const { dpu, address } = await driver({ reconnect: false })
    try {
      const notes = await dpu.openRegion(NOTES.name)
      await notes.persist(12, record(12)).persisted
      const source = { mac: eve.address.mac, ip: address.ip }
      const frames = psns.flatMap((psn) =>
        Array.from({ length: 64 }, (_, i) => {
          const destQp = (number - 32 + i) & LAST
          return frameOf({ bth: { opcode: UNKNOWN, destQp, psn: (psn + 1) & LAST } })
        }),
      )
      await eve.flood(allAs(frames, source))
      expect(await notes.persist(13, record(13)).persisted).toMatchObject({ copies: 2 })
    } finally {
      await dpu.close()
    }
  })
}
