/**
 * The driver's control calls on a path that is in an attacker's hands (R1-S13): a driver with a key
 * asks nothing in the clear, believes nothing in the clear, and goes on in another session where
 * one is over, is old, or is gone with the card's start.
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { SESSION_US } from '../../../firmware/board/limits.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PerdureError, RefusedError } from '../../../host-driver/base/errors.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { failure } from '../../support/driver/failures.ts'
import { closedCard } from '../../support/sessions/closed-card.ts'
import { Guest } from '../../support/sessions/guest.ts'
import {
  callsOver,
  clearAnswerTo,
  HostilePath,
  isHandshake,
  ofAnotherTransaction,
} from '../../support/sessions/hostile-path.ts'
import { ADMIN, NOBODY } from '../../support/sessions/peers.ts'

const HOUR_US = 3_600_000_000
const ID = new Uint8Array(16).fill(7)
const SHAPE = { name: 'records', slots: 8, capacity: 64 }

const faultNumber = (name: string): number => FAULTS.findIndex((row) => row.name === name)

function over(card = closedCard().card): {
  path: HostilePath
  calls: ReturnType<typeof callsOver>
} {
  const path = new HostilePath(card)
  return { path, calls: callsOver(path, ADMIN) }
}

const inTheClear = (datagrams: readonly Uint8Array[]): Uint8Array[] =>
  datagrams.filter((one) => !mad.isSealed(one, 0))
const sessionsIn = (datagrams: readonly Uint8Array[]): Set<number> =>
  new Set(
    datagrams
      .filter((one) => mad.isSealed(one, 0))
      .map((one) => u32(one, mad.MAD_BODY + mad.SEALED_SESSION)),
  )

/** The code of what the promise fails with, and the fault where it was refused. */
async function refusal(path: HostilePath, promise: Promise<unknown>): Promise<string> {
  const error = await failure(path.until(promise))
  return error instanceof RefusedError ? error.fault : error.code
}

describe('what is asked', () => {
  test('R1-S13: leaves sealed, all but the handshake, whatever was answered', async () => {
    const { path, calls } = over()
    expect((await path.until(calls.status())).state).toBe('blank')
    await path.until(calls.format(ID))
    await path.until(calls.provision(SHAPE, 0))
    expect((await path.until(calls.regions())).map(({ name }) => name)).toEqual(['records'])
    expect(inTheClear(path.sent).every(isHandshake)).toBe(true)
    expect(inTheClear(path.sent)).toHaveLength(1)
  })

  test.each(['OPEN_CARD', 'REQUEST', 'PEER_UNKNOWN', 'HANDSHAKE', 'NOT_SERVING', 'NO_SESSION'])(
    'R1-S13: stays unasked where a card answers the handshake by %s, and says so',
    async (fault) => {
      const { path, calls } = over()
      path.toCard = (datagram) => {
        path.bring(clearAnswerTo(datagram, faultNumber(fault)))
        return []
      }
      expect(await refusal(path, calls.format(ID))).toBe(fault)
      expect(inTheClear(path.sent)).toEqual(path.sent)
      expect(path.sent.every(isHandshake)).toBe(true)
    },
  )

  test('R1-S13: stays unasked of an open card, of another card, and by nobody', async () => {
    for (const [card, keys, fault] of [
      [new TestCard(1 << 18), ADMIN, 'OPEN_CARD'],
      [closedCard().card, NOBODY, 'PEER_UNKNOWN'],
    ] as const) {
      const path = new HostilePath(card)
      expect(await refusal(path, callsOver(path, keys).status())).toBe(fault)
      expect(path.sent.every(isHandshake)).toBe(true)
    }
  })
})

describe('a card that asks for a cookie', () => {
  /** The refusal of a handshake, with that cookie. */
  function asksFor(datagram: Uint8Array, cookie: number): Uint8Array {
    const answer = clearAnswerTo(datagram, faultNumber('COOKIE'))
    return answer.fill(cookie, mad.MAD_BODY, mad.MAD_BODY + mad.HANDSHAKE_COOKIE_BYTES)
  }

  test('R1-S13: is shown it by itself, in the same first message', async () => {
    const { path, calls } = over()
    const shown = mad.MAD_BODY + mad.HANDSHAKE_COOKIE
    path.toCard = (datagram) => {
      if (!isHandshake(datagram) || datagram[shown] === 7) return [datagram]
      path.bring(asksFor(datagram, 7))
      return []
    }
    expect((await path.until(calls.status())).state).toBe('blank')
    const [first, second] = path.sent.filter(isHandshake)
    expect(second!.subarray(0, shown)).toEqual(first!.subarray(0, shown))
    expect(path.nowUs).toBe(0)
  })

  test('R1-S13: and is another one, makes the driver send twice what it repeats', async () => {
    const { path, calls } = over()
    const times = new Map<number, number>()
    path.toCard = (datagram) => {
      times.set(path.nowUs, (times.get(path.nowUs) ?? 0) + 1)
      path.bring(asksFor(datagram, times.size + path.sent.length))
      return []
    }
    await failure(path.until(calls.status()))
    expect(times.size).toBeGreaterThan(2)
    expect([...times.values()].every((count) => count <= 2)).toBe(true)
  })
})

describe('an answer in the clear', () => {
  test("R1-S13: is not believed, whatever it says, before nor behind the card's own", async () => {
    const { path, calls } = over()
    await path.until(calls.format(ID))
    for (const fault of FAULTS.keys()) {
      path.toCard = (datagram) => {
        if (!isHandshake(datagram)) path.bring(clearAnswerTo(datagram, fault))
        return [datagram]
      }
      const part = await path.until(calls.status())
      expect(part.deviceId, FAULTS[fault]!.name).toBe('07'.repeat(16))
    }
    expect(inTheClear(path.sent).every(isHandshake)).toBe(true)
  })

  test('R1-S13: is not believed where no other one comes', async () => {
    const { path, calls } = over()
    await path.until(calls.status())
    path.toCard = (datagram) => {
      path.bring(clearAnswerTo(datagram, 0))
      return []
    }
    expect(await refusal(path, calls.status())).toBe('PERDURE_UNREACHABLE')
    expect(inTheClear(path.sent).every(isHandshake)).toBe(true)
  })

  test('R1-S13: of NO_SESSION ends no session; of another transaction does nothing', async () => {
    const { path, calls } = over()
    await path.until(calls.status())
    const forge = (answer: (datagram: Uint8Array) => Uint8Array): void => {
      path.toCard = (datagram) => {
        if (!isHandshake(datagram))
          path.bring(answer(clearAnswerTo(datagram, faultNumber('NO_SESSION'))))
        return [datagram]
      }
    }
    forge(ofAnotherTransaction)
    await path.until(calls.status())
    expect(path.sent.filter(isHandshake)).toHaveLength(1)
    forge((answer) => answer)
    // The card's handshakes are lost, and calls go on in the session that there is.
    path.toDriver = (answer) => (isHandshake(answer) ? [] : [answer])
    for (let i = 0; i < 5; i++) await path.until(calls.status())
    expect(sessionsIn(path.sent).size).toBe(1)
  })

  test('R1-S13: that refuses a handshake ends no session that there is', async () => {
    const { path, calls } = over()
    await path.until(calls.status())
    path.nowUs += HOUR_US + 1
    path.toCard = (datagram) => {
      if (!isHandshake(datagram)) return [datagram]
      path.bring(clearAnswerTo(datagram, faultNumber('PEER_UNKNOWN')))
      return []
    }
    expect((await path.until(calls.format(ID))).state).toBe('serving')
  })

  test('R1-S13: that refuses a handshake is told of where the session is over, too', async () => {
    const { path, calls } = over()
    await path.until(calls.status())
    path.card = new TestCard(path.card.nvdimm)
    const error = await failure(path.until(calls.format(ID)))
    expect(error.code).toBe('PERDURE_UNREACHABLE')
    expect(error.message).toContain('OPEN_CARD')
    expect(inTheClear(path.sent).every(isHandshake)).toBe(true)
  })

  test('R1-S13: that refuses a handshake of another transaction does nothing', async () => {
    const { path, calls } = over()
    path.toCard = (datagram) => {
      if (isHandshake(datagram)) {
        path.bring(ofAnotherTransaction(clearAnswerTo(datagram, faultNumber('PEER_UNKNOWN'))))
      }
      return [datagram]
    }
    expect((await path.until(calls.status())).state).toBe('blank')
  })

  test("R1-S13: to a handshake, changed in any byte, is none; the card's is taken", async () => {
    const { path, calls } = over()
    path.toDriver = (answer) => {
      if (!isHandshake(answer)) return [answer]
      const forged = Array.from({ length: mad.HANDSHAKE_SECOND_BYTES }, (_, at) => {
        const copy = answer.slice()
        copy[mad.MAD_BODY + at]! ^= 1
        return copy
      })
      return [...forged, answer]
    }
    expect((await path.until(calls.status())).state).toBe('blank')
    expect(path.sent.filter(isHandshake)).toHaveLength(1)
  })
})

describe('a sealed answer', () => {
  test('R1-S13: of before, with a byte that is another, or sent back, is not taken', async () => {
    const { path, calls } = over()
    await path.until(calls.status())
    await path.until(calls.format(ID))
    const before = path.heard.filter((one) => mad.isSealed(one, 0))
    path.toCard = (datagram) => {
      const reflected = datagram.slice()
      reflected[mad.MAD_METHOD] = mad.METHOD_RESPONSE
      for (const one of [...before, datagram, reflected]) path.bring(one.slice())
      return [datagram]
    }
    path.toDriver = (answer) => {
      const forged = Array.from({ length: mad.MAD_BYTES }, (_, at) => {
        const copy = answer.slice()
        copy[at]! ^= 1
        return copy
      })
      return [...forged, answer, answer]
    }
    expect((await path.until(calls.status())).state).toBe('serving')
    expect((await path.until(calls.provision(SHAPE, 0))).name).toBe('records')
  })

  test('R1-S13: to one call is none to another one: each has its own', async () => {
    const { path, calls } = over()
    await path.until(calls.format(ID))
    await path.until(calls.provision(SHAPE, 0))
    const held: Uint8Array[] = []
    path.toDriver = (answer) => {
      held.push(answer)
      return held.length < 2 ? [] : held.splice(0).reverse()
    }
    const [part, region] = await path.until(Promise.all([calls.status(), calls.open('records', 0)]))
    expect([part.state, region.name]).toEqual(['serving', 'records'])
  })
})

describe('another session', () => {
  test('R1-S13: is made each hour, and no call waits for it', async () => {
    const { path, calls } = over()
    await path.until(calls.status())
    for (let minute = 0; minute < 4 * 60; minute++) {
      path.nowUs += 60_000_000
      const before = path.nowUs
      const sealed = path.sent.filter((one) => mad.isSealed(one, 0)).length
      expect((await path.until(calls.status())).state).toBe('blank')
      expect(path.nowUs).toBe(before)
      // Where it was asked in both sessions, the second answer is nobody's.
      expect(path.sent.filter((one) => mad.isSealed(one, 0)).length - sealed).toBeLessThanOrEqual(2)
    }
    expect(sessionsIn(path.sent).size).toBe(4)
  })

  test('R1-S13: is made where the first is over, and the call is executed', async () => {
    const { path, calls } = over()
    await path.until(calls.status())
    path.nowUs += 3 * SESSION_US
    expect((await path.until(calls.format(ID))).state).toBe('serving')
    expect(sessionsIn(path.sent).size).toBe(2)
  })

  test('R1-S13: is made when the card has started again', async () => {
    const { path, calls } = over()
    await path.until(calls.format(ID))
    for (let start = 0; start < 3; start++) {
      path.card = closedCard(path.card.nvdimm).card
      expect((await path.until(calls.status())).state).toBe('serving')
    }
    expect(inTheClear(path.sent).every(isHandshake)).toBe(true)
  })

  test("R1-S13: of a second driver with the same key is none of the first one's", async () => {
    const { card } = closedCard()
    const [one, two] = [over(card), over(card)]
    await one.path.until(one.calls.format(ID))
    for (let i = 0; i < 3; i++) {
      for (const { path, calls } of [one, two]) {
        expect((await path.until(calls.status())).state).toBe('serving')
      }
    }
    expect(new Set([...sessionsIn(one.path.sent), ...sessionsIn(two.path.sent)]).size).toBe(2)
  })

  test('R1-S13: is asked nothing that was given up before there was one', async () => {
    const { path, calls } = over()
    await path.until(calls.format(ID))
    await path.until(calls.provision(SHAPE, 0))
    path.toCard = () => []
    expect(await refusal(path, calls.remove('records'))).toBe('PERDURE_UNREACHABLE')
    path.toCard = (datagram) => [datagram]
    path.nowUs += HOUR_US
    await path.until(calls.status())
    await path.until(calls.status())
    const admin = new Guest(path.card, ADMIN, 9).enter()
    expect(admin.openAsIs('records').name).toBe('records')
  })
})

test('R1-S13: what is refused in the session is refused, and says why', async () => {
  const { path, calls } = over()
  await path.until(calls.format(ID))
  const error = await failure(path.until(calls.open('nowhere', 0)))
  expect(error).toBeInstanceOf(PerdureError)
  expect((error as RefusedError).fault).toBe('NO_REGION')
})
