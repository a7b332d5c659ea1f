/**
 * A driver hears how the part of its DPU is, each time that it changes: `dpu.onHealth`, over every
 * way, against the emulated card.
 */

import { afterEach, describe, expect, test, vi } from 'vitest'
import { RefusedError } from '../../../host-driver/base/errors.ts'
import { Management } from '../../../host-driver/control/management.ts'
import {
  connect,
  type Dpu,
  type HealthNotice,
  type HealthOptions,
  type HealthWatch,
  type PartStatus,
} from '../../../host-driver/index.ts'
import { failure } from '../../support/driver/failures.ts'
import {
  type OpenWay,
  openWay,
  WAYS,
  type WayName,
  type WayOptions,
} from '../../support/driver/ways.ts'
import { endpointOf } from '../../support/peers/network.ts'
import { IDENTITY } from '../../support/sessions/closed-card.ts'
import { ADMIN, CARD } from '../../support/sessions/peers.ts'

/** Longer than a card looks, and a message goes, µs. */
const WHILE_US = 50_000
/** Long before a driver looks by itself, unless told otherwise, ms. */
const LOOK_MS = 2_000

const open: OpenWay[] = []
afterEach(async () => {
  vi.restoreAllMocks()
  for (const way of open.splice(0)) await way.close()
})

interface Bench {
  readonly way: OpenWay
  readonly dpu: Dpu
  readonly heard: HealthNotice[]
  readonly watch: HealthWatch
}

async function bench(name: WayName, options: WayOptions = {}): Promise<Bench> {
  const way = await openWay(name, options)
  open.push(way)
  const { dpu } = way
  await dpu.format()
  await dpu.provision({ name: 'r', slots: 4, capacity: 64 })
  return { way, dpu, ...(await listen(dpu)) }
}

async function listen(
  dpu: Dpu,
  options: HealthOptions = { lookMs: LOOK_MS },
): Promise<Pick<Bench, 'heard' | 'watch'>> {
  const heard: HealthNotice[] = []
  const watch = await dpu.onHealth((notice) => void heard.push(notice), options)
  return { heard, watch }
}

/** What the notices say, in the fields of a part. */
function said(heard: readonly HealthNotice[], name: keyof PartStatus): unknown[] {
  return heard.map((notice) => (notice.type === 'changed' ? notice.part[name] : notice.type))
}

describe.each(WAYS)('over the way %s', (name) => {
  const isTold = name !== 'own'
  const waitUs = isTold ? WHILE_US : LOOK_MS * 1000 + WHILE_US

  test('a change is heard, and that it is over; and nothing else', async () => {
    const { way, heard, watch, dpu } = await bench(name)
    expect(watch.isTold).toBe(isTold)
    expect(watch.part.armed).toBe(true)
    way.target.nvdimm.armed = false
    await way.pass(waitUs)
    expect(said(heard, 'armed')).toEqual([false])
    expect(watch.part).toEqual(await dpu.status())
    way.target.nvdimm.armed = true
    await way.pass(waitUs)
    expect(said(heard, 'armed')).toEqual([false, true])
    const [first, second] = heard
    expect(second).toMatchObject({ before: first!.type === 'changed' ? first!.part : null })
    await way.pass(5 * LOOK_MS * 1000)
    expect(heard).toHaveLength(2)
  })

  test('what was not told by a message is heard when it is looked', async () => {
    const { way, heard } = await bench(name)
    await way.pass(LOOK_MS * 3000)
    expect(heard).toEqual([])
    way.target.nvdimm.saveFailed = true
    await way.pass(waitUs)
    expect(said(heard, 'saveFailed')).toEqual([true])
  })

  test('a card that has started again is heard of, and goes on telling', async () => {
    const { way, heard, watch, dpu } = await bench(name)
    const { incarnation } = watch.part
    await way.restart(way.target)
    await way.pass(20 * LOOK_MS * 1000)
    expect(said(heard, 'incarnation')).toContain(incarnation + 1)
    expect(watch.isTold).toBe(isTold)
    heard.length = 0
    way.target.nvdimm.armed = false
    await way.pass(waitUs)
    expect(said(heard, 'armed')).toEqual([false])
    expect((await dpu.status()).armed).toBe(false)
  })

  test('what is ended hears nothing; another listener does', async () => {
    const { way, heard, watch, dpu } = await bench(name)
    const other = await listen(dpu)
    await watch.end()
    await watch.end()
    way.target.nvdimm.armed = false
    await way.pass(waitUs)
    expect(heard).toEqual([])
    expect(said(other.heard, 'armed')).toEqual([false])
    await other.watch.end()
    way.target.nvdimm.armed = true
    await way.pass(LOOK_MS * 3000)
    expect(other.heard).toHaveLength(1)
    const again = await listen(dpu)
    way.target.nvdimm.armed = false
    await way.pass(waitUs)
    expect(said(again.heard, 'armed')).toEqual([false])
  })

  test('a listener that throws disturbs nobody', async () => {
    const { way, heard, dpu } = await bench(name)
    const thrown: unknown[] = []
    const catchIt = (error: unknown): void => void thrown.push(error)
    process.on('uncaughtException', catchIt)
    await dpu.onHealth(() => {
      throw new Error('mine')
    })
    way.target.nvdimm.armed = false
    await way.pass(waitUs)
    process.off('uncaughtException', catchIt)
    expect(heard).toHaveLength(1)
    expect(thrown).toHaveLength(1)
  })
})

describe('a card that is away', () => {
  test('is heard of once; when it is back, that is a change', async () => {
    const { way, heard } = await bench('frames', { connect: { timeoutMs: 500 } })
    way.target.powerCut({ strategy: 'none' })
    await way.pass(10 * LOOK_MS * 1000)
    expect(heard.map(({ type }) => type)).toEqual(['away'])
    await way.target.powerOn()
    await way.pass(20 * LOOK_MS * 1000)
    expect(heard.map(({ type }) => type)).toEqual(['away', 'changed'])
  })
})

describe('a message', () => {
  test.each(['frames', 'behind'] as const)(
    'is none of `messages`, over the way %s, also where nobody reads those',
    async (name) => {
      const { way, heard, dpu } = await bench(name, { connect: { receives: 1 } })
      await dpu.send(Uint8Array.of(1, 2, 3), { solicited: true })
      for (const armed of [false, true, false]) {
        way.target.nvdimm.armed = armed
        await way.pass(WHILE_US)
      }
      // Of the local card's queue the only receive is taken.
      if (name === 'frames') expect(said(heard, 'armed')).toEqual([false, true, false])
      expect((await dpu.messages.next()).bytes).toEqual(Uint8Array.of(1, 2, 3))
      await way.pass(WHILE_US)
      expect(said(heard, 'armed').at(-1)).toBe(false)
    },
  )

  test('of a network that loses and repeats is heard in order, the last one as it is', async () => {
    const { way, heard, watch } = await bench('frames', { faults: { loss: 0.2, duplication: 0.2 } })
    for (let i = 0; i < 40; i++) {
      way.target.nvdimm.armed = i % 2 === 1
      await way.pass(WHILE_US)
    }
    await way.pass(10 * LOOK_MS * 1000)
    expect(watch.part.armed).toBe(true)
    const states = said(heard, 'armed')
    expect(states.length).toBeGreaterThan(5)
    for (let i = 1; i < states.length; i++) expect(states[i]).not.toBe(states[i - 1])
  })
})

describe('who hears', () => {
  test('is who asked, and no other client of the card', async () => {
    const { way, heard } = await bench('frames')
    const other = await connect(way.room.addHost(), { peer: endpointOf(2), seed: 99 })
    const messages: unknown[] = []
    void (async () => {
      for await (const message of other.messages) messages.push(message)
    })().catch(() => {})
    way.target.nvdimm.armed = false
    await way.pass(WHILE_US)
    expect(heard).toHaveLength(1)
    expect(messages).toEqual([])
    await other.close()
  })

  test.each(['frames', 'behind'] as const)(
    'a peer in a session, over the way %s, as anybody',
    async (name) => {
      const keys = { key: ADMIN.secret, cardKey: CARD.public, warn: (): void => {} }
      const card = { facts: { identity: IDENTITY } }
      const { way, heard, watch } = await bench(name, { card, connect: keys })
      expect(watch.isTold).toBe(true)
      way.target.nvdimm.armed = false
      await way.pass(WHILE_US)
      expect(said(heard, 'armed')).toEqual([false])
    },
  )

  test('a card of before is looked at, and asked for what it does not know once', async () => {
    const refused = vi
      .spyOn(Management.prototype, 'health')
      .mockRejectedValue(new RefusedError('REQUEST', 0, 'health'))
    const { way, heard, watch } = await bench('frames')
    expect(watch.isTold).toBe(false)
    way.target.nvdimm.armed = false
    await way.pass(LOOK_MS * 1000 + WHILE_US)
    expect(said(heard, 'armed')).toEqual([false])
    await way.pass(LOOK_MS * 5000)
    expect(refused).toHaveBeenCalledTimes(1)
  })

  test('nobody behind the end of the connection', async () => {
    const { way, heard, dpu, watch } = await bench('frames')
    await dpu.close()
    way.target.nvdimm.armed = false
    await way.pass(LOOK_MS * 5000)
    expect(heard).toEqual([])
    await watch.end()
    expect(await failure(dpu.onHealth(() => {}))).toMatchObject({ code: 'PERDURE_CLOSED' })
  })
})

test('a blank part is looked at, and tells by itself when it serves', async () => {
  const way = await openWay('frames')
  open.push(way)
  const { heard, watch } = await listen(way.dpu)
  expect([watch.part.state, watch.isTold]).toEqual(['blank', false])
  await way.dpu.format()
  await way.dpu.provision({ name: 'r', slots: 4, capacity: 64 })
  await way.pass(LOOK_MS * 2000)
  expect(said(heard, 'state').at(-1)).toBe('serving')
  expect(watch.isTold).toBe(true)
})
