/**
 * Whoever is on the path of a session changes no record, and makes no driver believe what is not so
 * (R1-S15): each packet of its queue pair has a tag (firmware/wire/tag.ts).
 */

import { afterEach, describe, expect, test } from 'vitest'
import { connect } from '../../../host-driver/connect.ts'
import type { Dpu } from '../../../host-driver/dpu.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import type { Region } from '../../../host-driver/records/region.ts'
import { localParts, passOn } from '../../support/driver/local-parts.ts'
import {
  BTH_AT,
  bitsOf,
  flipped,
  isOfPair,
  Path,
  resealed,
  stripped,
} from '../../support/sessions/path.ts'
import { ADMIN, CARD, IDENTITY, WRITER } from '../../support/sessions/peers.ts'

const openPart = localParts()
const open: Dpu[] = []
let seed = 0x700
const OLD = new Uint8Array(64).fill(0x11)
const NEW = new Uint8Array(64).fill(0x22)
/** Forged packets in front of a right one. */
const AT_ONCE = 200
const SHAPE = { name: 'records', slots: 8, capacity: 64 }

afterEach(async () => {
  for (const dpu of open.splice(0)) await dpu.close()
})

interface Scene {
  readonly local: LocalDpu
  readonly path: Path
  readonly dpu: Dpu
  readonly region: Region
}

async function come(path: Path, secret: Uint8Array): Promise<Dpu> {
  const dpu = await connect(path, {
    ...{ seed: seed++, key: secret, cardKey: CARD.public, warn: () => {}, pathMtu: 1024 },
  })
  open.push(dpu)
  return dpu
}

/** A driver in a session, record 0 old and durable, and somebody on the path. */
async function scene(): Promise<Scene> {
  const local = await openPart({ identity: IDENTITY })
  const path = new Path(local.wire)
  const first = await come(path, ADMIN.secret)
  await first.format()
  await first.close()
  const admin = await come(path, ADMIN.secret)
  await admin.provision(SHAPE)
  await admin.close()
  const dpu = await come(path, WRITER.secret)
  const region = await dpu.openRegion('records')
  await region.persist(0, OLD).persisted
  return { local, path, dpu, region }
}

/** How often the card has dropped a packet for its tag. */
async function dropped({ dpu }: Scene): Promise<bigint> {
  return (await dpu.counters()).NO_TAG ?? 0n
}

describe('a packet of a session', () => {
  test('R1-S15: has a tag, both ways, and none without one is taken', async () => {
    const one = await scene()
    const { path, region } = one
    path.seen.length = 0
    await region.persist(1, NEW).persisted
    await region.read(1)
    const pairs = path.seen.filter(({ frame }) => isOfPair(frame))
    expect(pairs.length).toBeGreaterThanOrEqual(4)
    for (const { frame, way } of pairs) path.inject(stripped(frame), way)
    await passOn(one.local, 1000)
    const requests = pairs.filter(({ way }) => way === 'to card').length
    expect(await dropped(one)).toBe(BigInt(requests))
    expect((await region.read(0)).data).toEqual(OLD)
  })

  test('R1-S15: is dropped with any bit of it changed, and the next one is taken', async () => {
    const one = await scene()
    const { path, region } = one
    let next = 0
    let flips = 0
    path.decide = (frame, way) => {
      if (way !== 'to card' || !isOfPair(frame)) return [frame]
      const forged: Uint8Array[] = []
      for (; next < bitsOf(frame) && forged.length < AT_ONCE; next++) {
        // What routers change is not covered, and another number is that of another queue pair.
        const byte = next >> 3
        if (byte !== 4 && (byte < 5 || byte > 7)) forged.push(flipped(frame, next))
      }
      flips += forged.length
      return [...forged, frame]
    }
    while (flips === 0 || flips % AT_ONCE === 0) await region.persist(0, NEW).persisted
    expect(flips).toBeGreaterThan(800)
    const counters = await one.dpu.counters()
    // A frame whose lengths contradict each other says so before its tag is looked at.
    const { NO_TAG = 0n, FRAME_SHORT = 0n, TRANSPORT_VERSION = 0n, PARTITION = 0n } = counters
    const { WRONG_TRANSPORT = 0n, ICRC = 0n } = counters
    const others = FRAME_SHORT + TRANSPORT_VERSION + PARTITION + WRONG_TRANSPORT
    expect([NO_TAG + others, ICRC]).toEqual([BigInt(flips), 0n])
    expect(others).toBeLessThan(48n)
    expect((await region.read(0)).data).toEqual(NEW)
  })

  test('R1-S15: comes again in vain, from whenever it is', async () => {
    const one = await scene()
    const { path, region, local } = one
    await region.persist(0, NEW).persisted
    const before = await dropped(one)
    const requests = path.seen.filter(({ way, frame }) => way === 'to card' && isOfPair(frame))
    const number = (frame: Uint8Array): number => frame[BTH_AT + 5]! * 65536 + frame[BTH_AT + 7]!
    const latest = number(requests.at(-1)!.frame)
    const ours = requests.filter(({ frame }) => number(frame) === latest)
    for (const { frame } of ours) path.inject(frame, 'to card')
    await passOn(local, 1000)
    expect((await dropped(one)) - before).toBe(BigInt(ours.length))
    expect((await region.read(0)).data).toEqual(NEW)
  })

  test('R1-S15: that says durable is believed of nobody but the card', async () => {
    const one = await scene()
    const { path, region, local } = one
    const answers = path.seen.filter(({ way, frame }) => way === 'to driver' && isOfPair(frame))
    let held = 0
    // The record never arrives; all that ever said "durable" comes again, and changed to fit.
    path.decide = (frame, way) => {
      if (!isOfPair(frame)) return [frame]
      if (way === 'to driver') return []
      held += 1
      for (const { frame: answer } of answers) {
        path.inject(answer, 'to driver')
        const forged = answer.slice()
        forged.set(frame.subarray(BTH_AT + 9, BTH_AT + 12), BTH_AT + 9)
        path.inject(resealed(forged), 'to driver')
        path.inject(stripped(forged), 'to driver')
      }
      return []
    }
    const write = region.persist(0, NEW)
    let settled = false
    write.persisted.then(
      () => {
        settled = true
      },
      () => {},
    )
    await passOn(local, 300_000)
    expect(held).toBeGreaterThan(1)
    expect(settled).toBe(false)
    path.decide = (frame) => [frame]
    await write.persisted
    expect((await region.read(0)).data).toEqual(NEW)
  })

  test('R1-S15: of another queue pair, or of before a restart, is none of this one', async () => {
    const one = await scene()
    const { path, region, local } = one
    const older = path.seen.filter(({ way, frame }) => way === 'to card' && isOfPair(frame))
    local.dpu.powerCut()
    await local.dpu.powerOn()
    await region.persist(1, NEW).persisted
    const now = path.seen.filter(({ way, frame }) => way === 'to card' && isOfPair(frame)).at(-1)!
    for (const { frame } of older) {
      const aimed = frame.slice()
      aimed.set(now.frame.subarray(BTH_AT + 5, BTH_AT + 8), BTH_AT + 5)
      path.inject(resealed(aimed), 'to card')
    }
    await passOn(local, 1000)
    expect(await dropped(one)).toBe(BigInt(older.length))
    expect((await region.read(0)).data).toEqual(OLD)
  })
})
