/**
 * Ten attacks on a card with peers (R1-S), by whoever is on the path of a client, reaches the card,
 * or is a peer himself. Each is refused and counted, and the client goes on: its records, its
 * session, its connection. The driver is the product's, over the network; frame by frame
 * test/firmware/session/ has more.
 */

import { afterEach, describe, expect, test, vi } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { HANDSHAKES_UNPROVEN, SESSION_US } from '../../../firmware/board/limits.ts'
import { putU16, putU24, putU32, u24, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_ACK } from '../../../firmware/wire/opcode.ts'
import {
  PAETH_FIRST_PSN,
  PAETH_LAST_PSN,
  PAETH_OPERATION_HIGH,
} from '../../../firmware/wire/persist-ack.ts'
import { openTunnel, parseTarget } from '../../../host-driver/frames/udp.ts'
import { sentAs } from '../../support/attacks/address.ts'
import { type Arena, NOTES, record, someone } from '../../support/attacks/arena.ts'
import { failure } from '../../support/driver/failures.ts'
import { ADMIN_2 } from '../../support/sessions/closed-card.ts'
import { changed, payloadAt } from '../../support/sessions/guest.ts'
import { clearAnswerTo } from '../../support/sessions/hostile-path.ts'
import { BTH_AT, isOfPair, resealed, stripped } from '../../support/sessions/path.ts'
import { ADMIN, NOBODY, READER, WRITER } from '../../support/sessions/peers.ts'
import { connectTagged, tagged } from '../../support/sessions/tagged.ts'
import {
  addressOf,
  come,
  guestOf,
  isHandshake,
  isSealed,
  onEveryClosedBoard,
  pathTo,
  Victim,
} from '../../support/sessions/victim.ts'

const DEST_QP: number = BTH_AT + 5
const PSN: number = BTH_AT + 9
/** Where a PERSIST_ACK has its header, behind AETH, and a record its operation id. */
const PAETH: number = BTH_AT + 16
const OPERATION: number = BTH_AT + 28 + 8
/** It notices soon that a card has started again. */
const HASTY = { ackTimeoutCode: 17 }
const GONE = { name: 'gone', slots: 1, capacity: 64, copies: 2 }
/** PSNs on each side of the one that comes next. */
const WINDOW = 256

onEveryClosedBoard((arena) => {
  describe('replay', () => describeReplay(arena))
  describe('frames that are forged', () => describeForgery(arena))
  describe('keys of others', () => describeKeys(arena))
  describe('an open card', () => describeDowngrade(arena))
  describe('a flood', () => describeFlood(arena))
  describe('the clock', () => describeClock(arena))
})

/** The same frame from who it is for. */
function turned(frame: Uint8Array): Uint8Array {
  const copy = frame.slice()
  copy.set(frame.subarray(6, 12), 0)
  copy.set(frame.subarray(0, 6), 6)
  copy.set(frame.subarray(30, 34), 26)
  copy.set(frame.subarray(26, 30), 30)
  return resealed(copy)
}

/** The same frame to another queue pair. */
function aimedAt(frame: Uint8Array, pair: number): Uint8Array {
  const copy = frame.slice()
  putU24(copy, DEST_QP, pair)
  return resealed(copy)
}

/** What the work adds to the counter of each of those faults. */
async function added<Fault extends string>(
  victim: Victim,
  faults: readonly Fault[],
  work: () => unknown,
): Promise<Record<Fault, number>> {
  const all = async (): Promise<number[]> => {
    const counters = await victim.dpu.counters()
    return faults.map((fault) => Number(counters[fault] ?? 0n))
  }
  const before = await all()
  await work()
  const after = await all()
  const entries = faults.map((fault, i) => [fault, after[i]! - before[i]!])
  return Object.fromEntries(entries) as Record<Fault, number>
}

/** The same frame with another PSN. */
function withPsn(frame: Uint8Array, psn: number): Uint8Array {
  const copy = frame.slice()
  putU24(copy, PSN, psn & 0xffffff)
  return resealed(copy)
}

/** The card's word that a record is durable, changed to speak of the record in that packet. */
function confirms(ack: Uint8Array, packet: Uint8Array): Uint8Array {
  const copy = ack.slice()
  const psn = u24(packet, PSN)
  putU24(copy, PSN, psn)
  putU32(copy, PAETH + PAETH_FIRST_PSN, psn)
  putU32(copy, PAETH + PAETH_LAST_PSN, psn)
  copy.set(packet.subarray(OPERATION, OPERATION + 8), PAETH + PAETH_OPERATION_HIGH)
  return resealed(copy)
}

const isPersistAck = (frame: Uint8Array): boolean =>
  isOfPair(frame) && frame[BTH_AT] === PERSIST_ACK

/** The PSNs around the one that the frame has. */
function psnsAround(frame: Uint8Array): number[] {
  const from = u24(frame, PSN) - WINDOW
  return Array.from({ length: 2 * WINDOW }, (_, i) => from + i)
}

/**
 * A record is on its way and is held back. Whatever `forge` sends meanwhile, its writer does not
 * believe that it is durable, and it becomes durable when it comes.
 */
async function heldBack(
  { path, dpu, region }: Victim,
  forge: (held: readonly Uint8Array[]) => void,
): Promise<void> {
  const held: Uint8Array[] = []
  path.decide = (frame, way) => {
    if (way !== 'to card' || !isOfPair(frame)) return [frame]
    held.push(frame)
    return []
  }
  const { persisted } = region.persist(2, record(2))
  let isSettled = false
  const settle = (): void => {
    isSettled = true
  }
  persisted.then(settle, settle)
  await dpu.status()
  expect(held.length).toBeGreaterThan(0)
  forge([...held])
  await dpu.status()
  expect(isSettled).toBe(false)
  path.decide = (frame) => [frame]
  for (const frame of held) path.inject(frame, 'to card')
  await persisted
}

function describeReplay(arena: () => Arena): void {
  test('R1-S13, R1-S15: all of a life comes again, behind a rekey and a restart', async () => {
    const victim = await Victim.come(arena(), ADMIN, HASTY)
    const { path, dpu } = victim
    await dpu.provision(GONE)
    await dpu.remove(GONE.name)
    const life = { first: victim.sent(isHandshake), calls: victim.sent(isSealed) }
    const packets = victim.sent(isOfPair)
    const again = (): void => {
      for (const frame of [...life.first, ...life.calls, ...packets]) path.inject(frame, 'to card')
    }
    const { session } = victim
    path.aheadUs += SESSION_US / 2 + 1
    while (victim.session === session) await victim.look()
    expect(await added(victim, ['SEAL_BROKEN', 'NO_TAG'], again)).toEqual({
      SEAL_BROKEN: life.calls.length,
      NO_TAG: packets.length,
    })
    expect((await victim.refused())!.from).toBe(victim.ip)
    await victim.isUnharmed()

    await arena().rig.restart('kill')
    path.lead(await openTunnel(parseTarget(arena().target)))
    await victim.look()
    expect(await added(victim, ['NO_SESSION'], again)).toEqual({ NO_SESSION: life.calls.length })
    const aimed = packets.map((frame) => aimedAt(frame, victim.pair))
    const aim = (): void => {
      for (const frame of aimed) path.inject(frame, 'to card')
    }
    expect(await added(victim, ['NO_TAG'], aim)).toEqual({ NO_TAG: packets.length })
    await victim.isUnharmed()
    expect((await dpu.regions()).map(({ name }) => name)).toEqual([NOTES.name])
  })
}

function describeForgery(arena: () => Arena): void {
  test('R1-S13, R1-S15: what each side has sent comes back to itself', async () => {
    const victim = await Victim.come(arena())
    const { path } = victim
    const answers = victim.heard(isSealed).map((frame) =>
      changed(turned(frame), (payload) => {
        payload[mad.MAD_METHOD] = mad.METHOD_SET
      }),
    )
    const calls = victim.sent(isSealed).map((frame) =>
      changed(turned(frame), (payload) => {
        payload[mad.MAD_METHOD] = mad.METHOD_RESPONSE
      }),
    )
    const acks = victim.heard(isOfPair)
    const toCard = [...answers, ...acks.map((frame) => aimedAt(turned(frame), victim.pair))]
    const own = u24(acks.at(-1)!, DEST_QP)
    const reflect = async (): Promise<void> => {
      for (const frame of toCard) path.inject(frame, 'to card')
      await heldBack(victim, (held) => {
        const packets = held.map((frame) => aimedAt(turned(frame), own))
        for (const frame of [...calls, ...packets]) path.inject(frame, 'to driver')
      })
    }
    expect(await added(victim, ['SEAL_BROKEN', 'NO_TAG'], reflect)).toEqual({
      SEAL_BROKEN: answers.length,
      NO_TAG: acks.length,
    })
    await victim.isUnharmed()
  })

  test('R1-S15: their tags are taken off, both ways', async () => {
    const victim = await Victim.come(arena())
    const { path } = victim
    const acks = victim.heard(isPersistAck)
    let count = 0
    const strip = (): Promise<void> =>
      heldBack(victim, (held) => {
        count = held.length
        for (const frame of held) path.inject(stripped(frame), 'to card')
        for (const frame of acks) path.inject(stripped(confirms(frame, held[0]!)), 'to driver')
      })
    expect(await added(victim, ['NO_TAG'], strip)).toEqual({ NO_TAG: count })
    expect(await victim.refused()).toEqual({ fault: 'NO_TAG', from: victim.ip })
    await victim.isUnharmed()
  })

  test('R1-S15: they have the tag of another queue pair, of which he knows the keys', async () => {
    const victim = await Victim.come(arena())
    const { path } = victim
    const { qp, tags } = connectTagged(guestOf(arena(), READER, 41).enter())
    const retagged = (frame: Uint8Array): Uint8Array => tagged(stripped(frame), tags)
    const packets = victim.sent(isOfPair)
    const acks = victim.heard(isPersistAck)
    const toCard = [...packets.map(retagged), ...packets.map((frame) => aimedAt(frame, qp.number))]
    const forge = async (): Promise<void> => {
      for (const frame of toCard) path.inject(frame, 'to card')
      await heldBack(victim, (held) => {
        for (const frame of acks) path.inject(retagged(confirms(frame, held[0]!)), 'to driver')
      })
    }
    expect(await added(victim, ['NO_TAG'], forge)).toEqual({ NO_TAG: toCard.length })
    await victim.isUnharmed()
  })

  test('R1-S15: they have each PSN around the one that comes next', async () => {
    const victim = await Victim.come(arena())
    const eve = await arena().station()
    const packet = victim.sent(isOfPair).at(-1)!
    const ack = victim.heard(isPersistAck).at(-1)!
    const { ip } = victim.address
    const toCard = psnsAround(packet)
      .flatMap((psn) => [withPsn(packet, psn), withPsn(stripped(packet), psn)])
      .map((frame) => sentAs(frame, { ...eve.address, ip }))
    expect(await added(victim, ['NO_TAG'], () => eve.flood(toCard))).toEqual({
      NO_TAG: toCard.length,
    })
    expect(eve.taken()).toEqual([])
    expect(await victim.refused()).toEqual({ fault: 'NO_TAG', from: victim.ip })
    await heldBack(victim, (held) => {
      for (const psn of psnsAround(held[0]!)) {
        const forged = confirms(ack, withPsn(held[0]!, psn))
        for (const one of [forged, stripped(forged)]) victim.path.inject(one, 'to driver')
      }
    })
    await victim.isUnharmed()
  })
}

function describeKeys(arena: () => Arena): void {
  test('R1-S13, R1-S14: whoever has the keys of one client is none of the others', async () => {
    const victim = await Victim.come(arena(), ADMIN)
    const eve = guestOf(arena(), READER, 42).enter()
    const remove = (body: Uint8Array): void => {
      body.set(new TextEncoder().encode(NOTES.name), mad.REGION_NAME)
    }
    const asHimself = await added(victim, ['FORBIDDEN'], () => {
      const { fault } = eve.manage(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, remove)
      expect(fault).toBe('FORBIDDEN')
    })
    expect(asHimself).toEqual({ FORBIDDEN: 1 })
    expect(await victim.refused()).toEqual({ fault: 'FORBIDDEN', from: '10.0.0.42' })
    // What he seals with his own keys says that it is of the other's session.
    const asTheOther = await added(victim, ['SEAL_BROKEN'], () => {
      const own = eve.seal!
      eve.seal = { ...own, id: victim.session }
      const frame = eve.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, remove)
      eve.seal = own
      expect(eve.serve(frame)).toEqual([])
    })
    expect(asTheOther).toEqual({ SEAL_BROKEN: 1 })
    expect(await victim.refused()).toEqual({ fault: 'SEAL_BROKEN', from: '10.0.0.42' })
    const connected = eve.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
      putU32(body, mad.CONNECT_CLIENT_QP, 0x777)
      putU16(body, mad.CONNECT_PATH_MTU, 1024)
      putU32(body, mad.CONNECT_CLIENT_ID_HIGH, Number(victim.dpu.clientId >> 32n))
      putU32(body, mad.CONNECT_CLIENT_ID_LOW, Number(victim.dpu.clientId & 0xffffffffn))
    })
    expect(connected.fault).toBe('FORBIDDEN')
    eve.manage(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
      putU32(body, mad.DISCONNECT_QP, victim.pair)
      putU32(body, mad.DISCONNECT_CLIENT_QP, u24(victim.heard(isOfPair).at(-1)!, DEST_QP))
    })
    await victim.isUnharmed()
  })

  test('R1-S16: an admin who is removed in his session, with a call on its way', async () => {
    const victim = await Victim.come(arena())
    const admin = await come(await pathTo(arena()), ADMIN)
    const eve = guestOf(arena(), ADMIN_2, 43).enter()
    const { tags, qp } = connectTagged(eve)
    const late = [
      eve.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
        body.set(new TextEncoder().encode(NOTES.name), mad.REGION_NAME)
      }),
      eve.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_ADD_PEER, (body) => body.set(NOBODY.public)),
    ]
    const packet = aimedAt(stripped(victim.sent(isOfPair)[0]!), qp.number)
    await admin.removePeer(ADMIN_2.public)
    const refused = await added(victim, ['NO_SESSION', 'PEER_UNKNOWN'], () => {
      for (const frame of late) expect(eve.answerOf(eve.serve(frame))!.fault).toBe('NO_SESSION')
      expect(eve.serve(tagged(packet, tags))).toEqual([])
      expect(eve.shake()).toBe('PEER_UNKNOWN')
    })
    expect(refused).toEqual({ NO_SESSION: late.length, PEER_UNKNOWN: 1 })
    expect(await victim.refused()).toEqual({ fault: 'PEER_UNKNOWN', from: '10.0.0.43' })
    await victim.isUnharmed()
    expect((await admin.peers()).map(({ name }) => name)).not.toContain('admin-2')
    await admin.addPeer({ key: ADMIN_2.public, name: 'admin-2', admin: true })
  })
}

function describeDowngrade(arena: () => Arena): void {
  test.each(['OPEN_CARD', 'NO_SESSION', 'REQUEST'])(
    'R1-S13: that somebody plays by %s gets nothing in the clear, nor does he',
    async (fault) => {
      const victim = await Victim.come(arena())
      const number = FAULTS.findIndex(({ name }) => name === fault)
      const answerIn = (path: typeof victim.path, frame: Uint8Array, said: number): void => {
        const answer = changed(turned(frame), (to) => to.set(clearAnswerTo(to, said)))
        queueMicrotask(() => path.inject(answer, 'to driver'))
      }
      const path = await pathTo(arena())
      path.decide = (frame, way) => {
        if (way === 'to card') answerIn(path, frame, number)
        return []
      }
      expect(await failure(come(path, READER))).toMatchObject({ fault })
      expect(
        path.seen.filter(({ way, frame }) => way === 'to card' && !isHandshake(frame)),
      ).toEqual([])
      // Who has a session is told in the clear that all is well, in front of each answer.
      victim.path.decide = (frame, way) => {
        if (way === 'to card' && isSealed(frame)) answerIn(victim.path, frame, 0)
        return [frame]
      }
      expect((await victim.dpu.regions()).map(({ name }) => name)).toEqual([NOTES.name])
      const eve = guestOf(arena(), NOBODY, 44)
      const refused = await added(victim, ['NO_SESSION'], () => {
        for (const attribute of [mad.ATTRIBUTE_FORMAT, mad.ATTRIBUTE_CONNECT]) {
          expect(eve.inTheClear(mad.METHOD_SET, attribute)!.fault).toBe('NO_SESSION')
        }
      })
      expect(refused).toEqual({ NO_SESSION: 2 })
      expect(await victim.refused()).toEqual({ fault: 'NO_SESSION', from: '10.0.0.44' })
      await victim.isUnharmed()
    },
  )
}

function describeFlood(arena: () => Arena): void {
  test('R1-S13: of first messages from everywhere keeps nobody out', async () => {
    const victim = await Victim.come(arena())
    const eve = await arena().station()
    const { frame: first } = guestOf(arena(), NOBODY, 45).firstMessage()
    const flooders: string[] = []
    const flood = async (): Promise<void> => {
      const frames = Array.from({ length: 2 * HANDSHAKES_UNPROVEN }, () => {
        const another = changed(first, (to) => putU32(to, mad.MAD_TRANSACTION_LOW, eve.fresh()))
        return sentAs(another, someone())
      })
      flooders.push(...frames.map((frame) => addressOf(frame).ip.join('.')))
      await eve.flood(frames)
    }
    // Where the machine is slow, a second may pass in the midst of it.
    let last = await victim.refused()
    while (last?.fault !== 'COOKIE') {
      await flood()
      last = await victim.refused()
    }
    expect(flooders).toContain(last.from)
    expect((await victim.dpu.counters()).COOKIE).toBeGreaterThan(0n)
    let shown = false
    while (!shown) shown = await comesWithCookie(arena(), victim, flood)
    await victim.isUnharmed()
  })
}

/** Another client comes behind a flood, and reads. Whether it was asked for a cookie. */
async function comesWithCookie(
  arena: Arena,
  { kept }: Victim,
  flood: () => Promise<void>,
): Promise<boolean> {
  const path = await pathTo(arena)
  let isFirst = true
  path.decide = (frame, way) => {
    if (way === 'to driver' || !isHandshake(frame) || !isFirst) return [frame]
    isFirst = false
    flood().then(() => path.inject(frame, 'to card'))
    return []
  }
  const dpu = await come(path, READER)
  const notes = await dpu.openRegion(NOTES.name)
  expect((await notes.read(0)).data).toEqual(kept)
  await dpu.close()
  return path.seen.some(({ way, frame }) => {
    const cookie = payloadAt(frame) + mad.MAD_BODY + mad.HANDSHAKE_COOKIE
    return way === 'to card' && isHandshake(frame) && u32(frame, cookie) !== 0
  })
}

function describeClock(arena: () => Arena): void {
  afterEach(() => vi.useRealTimers())

  test('R1-S13: of a client is set back, and all that it sent before comes again', async () => {
    const before = await Victim.come(arena())
    const frames = before.sent((frame) => isHandshake(frame) || isSealed(frame))
    await before.dpu.close()
    vi.useFakeTimers({ toFake: ['Date'], now: 0 })
    const victim = await Victim.come(arena(), WRITER, {}, (path) => {
      path.aheadUs = -path.now()
    })
    vi.setSystemTime(-1e12)
    const again = (): void => {
      for (const frame of frames) victim.path.inject(sentAs(frame, victim.address), 'to card')
    }
    expect(await added(victim, ['SEAL_BROKEN'], again)).toEqual({
      SEAL_BROKEN: frames.filter(isSealed).length,
    })
    await victim.isUnharmed()
  })
}
