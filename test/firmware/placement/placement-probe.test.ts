/**
 * The probe of the host's memory, and what the registrar and the card make of it (source 2, virtual
 * address registration; P2-12).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  NO_SNOOP_HONOURED,
  type Platform,
} from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { AUX, COPY, FROM, HOST_SPACE, LENGTH, TO } from '../../../firmware/board/hal.ts'
import { REGIONS } from '../../../firmware/board/limits.ts'
import { createProof, prove, unprove } from '../../../firmware/commit/proof.ts'
import {
  createRegionTable,
  HOST_PROBE_AT,
  KIND_BYTES,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
  REMOTE_READ,
  REMOTE_WRITE,
} from '../../../firmware/medium/region.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type HostCpu,
  PlacementRefused,
  type ProbeResult,
  probePlacement,
} from '../../../host-driver/target/registrar.ts'
import { batchSetting } from '../../support/cards/batch-card.ts'
import {
  cardOf,
  controlOf,
  cpuOf,
  HOST_BYTES,
  PART_BYTES,
  place,
  restartHost,
  SEED,
} from '../../support/cards/placed.ts'
import { TestCard } from '../../support/cards/test-card.ts'

interface Target {
  readonly card: TestCard
  readonly host: HostMemory
}

function target(platform: Platform, noise?: Random): Target {
  const part = new Nvdimm({ bytes: HOST_BYTES })
  const host = new HostMemory({ part, platform, ...(noise === undefined ? {} : { noise }) })
  return { card: new TestCard(PART_BYTES, { host }).format(), host }
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

  test('it writes 16 lines as ever, and 16 that ask for no-snoop, and reads behind them', () => {
    const { card, host } = target(DDIO_OFF)
    const line = host.part.live.slice(0, 64 * 64)
    line.fill(0xee, 32 * 64)
    host.part.live.set(line)
    const seen: (readonly [number, number, number])[] = []
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        const [from, to] = [words[at + FROM]! - HOST_SPACE, words[at + TO]! - HOST_SPACE]
        if (op !== COPY || Math.max(from, to) < 0) return
        seen.push([Math.max(from, to), words[at + LENGTH]!, words[at + AUX]!])
      },
    })
    const answer = card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE)
    expect(u32(answer, mad.PROBE_LINES)).toBe(16)
    const lines = Array.from({ length: 32 }, (_, i) => [HOST_PROBE_AT + 64 * i, 64, i < 16 ? 0 : 1])
    expect(seen).toEqual([...lines, [HOST_PROBE_AT, 1, 0]])
    const words = host.part.live.slice(HOST_PROBE_AT, HOST_PROBE_AT + 33 * 64)
    const number = Buffer.from(words.slice(0, 8))
    for (let i = 0; i < 32 * 8; i++)
      expect(Buffer.from(words.slice(8 * i, 8 * i + 8))).toEqual(number)
    expect(words.slice(32 * 64)).toEqual(new Uint8Array(64).fill(0xee))
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
    const card = new TestCard(PART_BYTES).format()
    expect(card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PROBE).fault).toBe('PLACEMENT_UNKNOWN')
  })
})

test('P2-12: what is proven, and that nothing is any more, counts for each region at once', () => {
  const { state } = batchSetting({ slots: 2 })
  const table = createRegionTable()
  const regions = [0, REGIONS - 1].map((place) => {
    const region = { ...state.regions.places[0]!, kind: KIND_BYTES, placement: PLACEMENT_BYPASS }
    table.places[place] = region
    return region
  })
  // What a region of a relay grants does not follow from it.
  const relay = { ...regions[0]!, rights: 0 }
  table.places[REGIONS] = relay
  const placement = { ...createProof(), numberHigh: 1 }
  const rights = (): number[] => regions.map((region) => region.rights)
  for (const seen of [PLACEMENT_BYPASS, PLACEMENT_THROUGH, PLACEMENT_BYPASS, 0, PLACEMENT_BYPASS]) {
    prove(placement, table, seen, 1, 0)
    const isWritten = seen === PLACEMENT_BYPASS
    for (const one of rights()) expect((one & REMOTE_WRITE) !== 0).toBe(isWritten)
  }
  unprove(placement, table)
  expect(rights()).toEqual([REMOTE_READ, REMOTE_READ])
  expect(relay.rights).toBe(0)
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

  /** A number as the call has it. */
  function numberOf(high: number, low: number): Uint8Array {
    const bytes = new Uint8Array(8)
    new DataView(bytes.buffer).setUint32(0, high)
    new DataView(bytes.buffer).setUint32(4, low)
    return bytes
  }

  test('B1: before the first probe any number, and behind its host’s end that of before', () => {
    const host = new HostMemory({ part: new Nvdimm({ bytes: HOST_BYTES }), platform: DDIO_ON })
    const card = cardOf(PART_BYTES, host).format()
    const refused = (high: number, low: number): void => {
      const number = numberOf(high, low)
      expect(() => place(card, PLACEMENT_THROUGH, true, number)).toThrow('PLACEMENT_UNKNOWN')
    }
    const ends = [
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ] as const
    for (const [high, low] of ends) refused(high, low)
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE)
    const view = new DataView(host.load(HOST_PROBE_AT, 8).bytes!.slice().buffer)
    const [high, low] = [view.getUint32(0), view.getUint32(4)]
    place(card, PLACEMENT_THROUGH, true, numberOf(high, low))
    restartHost(card)
    for (const [h, l] of [...ends, [high, low], [high, 0], [0, low]] as const) refused(h, l)
    expect(made({ card, host })).toEqual(UNKNOWN)
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
