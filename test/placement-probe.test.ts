/**
 * The probe of the host's memory, and what the registrar and the card make of it (source 2, virtual
 * address registration; P2-12).
 */

import { describe, expect, test } from 'vitest'
import {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  NO_SNOOP_HONOURED,
  type Platform,
} from '../boards/emulator/host-memory.ts'
import { Nvdimm } from '../boards/emulator/nvdimm.ts'
import { Random } from '../boards/emulator/random.ts'
import { COPY, HOST_SPACE, LENGTH, TO } from '../firmware/hal.ts'
import { HOST_PROBE_AT, PLACEMENT_BYPASS, PLACEMENT_THROUGH } from '../firmware/memory/region.ts'
import * as mad from '../firmware/wire/management.ts'
import {
  type HostCpu,
  PlacementRefused,
  type ProbeResult,
  probePlacement,
} from '../host-driver/registrar.ts'
import { Card } from './support/card.ts'
import { controlOf, cpuOf, HOST_BYTES, PART_BYTES, place, SEED } from './support/placed.ts'

interface Target {
  readonly card: Card
  readonly host: HostMemory
}

function target(platform: Platform, noise?: Random): Target {
  const part = new Nvdimm({ bytes: HOST_BYTES })
  const host = new HostMemory({ part, platform, ...(noise === undefined ? {} : { noise }) })
  return { card: new Card(PART_BYTES, {}, undefined, host).format(), host }
}

/** Probes; what is refused is the reason. */
async function probe(
  { card, host }: Target,
  wish?: 'bypass' | 'through',
  cpu: HostCpu = cpuOf(host),
): Promise<ProbeResult | string> {
  try {
    return await probePlacement(cpu, controlOf(card), wish)
  } catch (error) {
    if (!(error instanceof PlacementRefused)) throw error
    expect(error.code).toBe('PERDURE_REFUSED')
    return error.message
  }
}

/** Which regions in the host's memory the card makes now. */
function made({ card }: Target): string[] {
  return [PLACEMENT_BYPASS, PLACEMENT_THROUGH].map(
    (placement) => card.tryProvision({ name: `r${placement}`, slots: 2, placement }).fault,
  )
}

const UNKNOWN = ['PLACEMENT_UNKNOWN', 'PLACEMENT_UNKNOWN']

describe('P2-12: what the probe finds', () => {
  for (const [name, platform, placement, cached, faults] of [
    ['DDIO off: bypass', DDIO_OFF, 'bypass', [0, 0], ['PASS', 'PLACEMENT_WRONG']],
    ['no-snoop honoured: bypass', NO_SNOOP_HONOURED, 'bypass', [1, 0], ['PASS', 'PLACEMENT_WRONG']],
    ['DDIO on: through', DDIO_ON, 'through', [1, 1], ['PLACEMENT_WRONG', 'NO_AGENT']],
  ] as const) {
    test(name, async () => {
      const t = target(platform)
      const result = (await probe(t)) as ProbeResult
      expect(result.placement).toBe(placement)
      expect([result.cached, result.cachedNoSnoop]).toEqual(cached)
      expect(made(t)).toEqual(faults)
    })
  }

  test('the same on a machine that does other work, a hundred times over', async () => {
    for (const [platform, placement] of [
      [DDIO_OFF, 'bypass'],
      [NO_SNOOP_HONOURED, 'bypass'],
      [DDIO_ON, 'through'],
    ] as const) {
      for (let round = 0; round < 100; round++) {
        const result = await probe(target(platform, new Random(SEED + round)))
        expect(result, `SEED=${SEED}, round ${round}`).toMatchObject({ placement })
      }
    }
  })

  test('before any probe nothing is made in the host’s memory', () => {
    expect(made(target(DDIO_OFF))).toEqual(UNKNOWN)
  })

  test('a region of that name elsewhere is another one', async () => {
    const t = target(DDIO_OFF)
    await probe(t)
    expect(t.card.tryProvision({ name: 'one', slots: 2 }).fault).toBe('PASS')
    const placement = PLACEMENT_BYPASS
    expect(t.card.tryProvision({ name: 'one', slots: 2, placement }).fault).toBe('REGION_EXISTS')
  })

  test('H4: a probe whose lines do not reach the host is said to have failed', () => {
    const { card } = target(DDIO_OFF)
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        if (op === COPY && words[at + TO]! >= HOST_SPACE) words[at + LENGTH] = 2 ** 40
      },
    })
    expect(card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PROBE).fault).toBe('UNREADABLE')
  })

  test('a card that sees no host’s memory has nothing to probe', () => {
    const card = new Card(PART_BYTES).format()
    expect(card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PROBE).fault).toBe('PLACEMENT_UNKNOWN')
  })
})

describe('P2-12: what cannot be told is refused', () => {
  test('a platform that does not state ADR', async () => {
    for (const platform of [DDIO_OFF, DDIO_ON, NO_SNOOP_HONOURED]) {
      const t = target({ ...platform, statesAdr: false })
      expect(await probe(t)).toContain('does not state ADR')
      expect(made(t)).toEqual(UNKNOWN)
    }
  })

  test('a CPU whose hits and misses take the same time', async () => {
    const t = target(DDIO_ON)
    const cpu = { ...cpuOf(t.host), load: (at: number) => ({ ...t.host.load(at, 64), ns: 100 }) }
    expect(await probe(t, undefined, cpu)).toContain('cannot be told apart')
    expect(made(t)).toEqual(UNKNOWN)
  })

  test('a platform that caches some writes and some not', async () => {
    const t = target(DDIO_ON)
    const cpu: HostCpu = {
      ...cpuOf(t.host),
      load: (at, length) => {
        const line = at / 64
        if (line % 2 === 0 && line < 32) t.host.evict(at, length)
        return t.host.load(at, length)
      },
    }
    expect(await probe(t, undefined, cpu)).toContain('some writes')
    expect(made(t)).toEqual(UNKNOWN)
  })

  test('memory that is not the one that the card writes, or that cannot be read', async () => {
    const t = target(DDIO_OFF)
    const other = new HostMemory({ part: new Nvdimm({ bytes: HOST_BYTES }) })
    // All zeros everywhere: the lines agree, and the card does not believe them.
    await expect(probe(t, undefined, cpuOf(other))).rejects.toThrow('PLACEMENT_UNKNOWN')
    expect(made(t)).toEqual(UNKNOWN)
    t.host.part.poison(3)
    const blind: HostCpu = { ...cpuOf(t.host), load: () => ({ bytes: null, ns: 300 }) }
    expect(typeof (await probe(t, undefined, blind))).toBe('string')
    expect(made(t)).toEqual(UNKNOWN)
  })

  test('a verdict without the number of the last probe, or with that of an earlier one', () => {
    const { card, host } = target(DDIO_OFF)
    const numberNow = (): Uint8Array => host.load(HOST_PROBE_AT, 8).bytes!
    const refused = (number: Uint8Array): void => {
      expect(() => place(card, PLACEMENT_BYPASS, true, number)).toThrow('PLACEMENT_UNKNOWN')
    }
    refused(new Uint8Array(8))
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE)
    const first = numberNow()
    refused(new Uint8Array(8))
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE)
    refused(first)
    place(card, PLACEMENT_BYPASS, true, numberNow())
    expect(made({ card, host })[0]).toBe('PASS')
    // Who does not know the number takes nothing back; who knows it does.
    refused(first)
    const later = (): string => {
      return card.tryProvision({ name: 'later', slots: 2, placement: PLACEMENT_BYPASS }).fault
    }
    expect(later()).toBe('PASS')
    expect(() => place(card, 0, true, numberNow())).toThrow('PLACEMENT_UNKNOWN')
    expect(later()).toBe('PLACEMENT_UNKNOWN')
  })

  test('an operator’s wish that the probe contradicts', async () => {
    for (const [platform, wish, kept] of [
      [DDIO_ON, 'bypass', 'through'],
      [DDIO_OFF, 'through', 'bypass'],
    ] as const) {
      const t = target(platform)
      expect(await probe(t, wish)).toContain(`placement '${wish}' was asked for`)
      expect(made(t)).toEqual(UNKNOWN)
      expect(await probe(t, kept)).toMatchObject({ placement: kept })
    }
  })
})
