/**
 * Another region instead of one that is not ready (source 5, ¶91; S1-M11): on one DPU, on two, and
 * of records. In virtual time.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { type BytesRegion, connect } from '../../../host-driver/index.ts'
import { type LocalDpu, openLocal } from '../../../host-driver/local.ts'
import { failure, thrown } from '../../support/driver/failures.ts'
import { OnDemandRig } from '../../support/residency/on-demand-rig.ts'

const PAGE = 4096
const FINE = { blockBytes: PAGE, groupBlocks: 8 }
const SOON = { timeoutMs: 20 }

const ends: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function rigOf(seed: number): Promise<OnDemandRig> {
  const rig = await OnDemandRig.open({ pages: 32, frames: 20, seed })
  ends.push(() => rig.close())
  return rig
}

/** Two machines, each with the same memory on demand, and the watches of both. */
async function mirrors(): Promise<{ one: OnDemandRig; other: OnDemandRig }> {
  const [one, other] = [await rigOf(1), await rigOf(2)]
  await one.memory.watch(FINE)
  await other.memory.watch(FINE)
  return { one, other }
}

const pages = (first: number, count: number): { offset: number; length: number } => ({
  offset: first * PAGE,
  length: count * PAGE,
})

async function bring({ memory }: OnDemandRig, first: number, count: number): Promise<void> {
  await memory.prefetch(pages(first, count))
  await memory.ready(pages(first, count), SOON)
}

describe('S1-M11: another region of bytes', () => {
  test('S1-M11: the same range of a mirror on another DPU, only while it is ready', async () => {
    const { one, other } = await mirrors()
    const [here, there] = [one.memory, other.memory]
    here.setAlternatives([there])
    const same = { sameRange: true }
    expect(here.otherReady(pages(4, 2), same)).toBe(null)
    await bring(other, 4, 2)
    expect(here.otherReady(pages(4, 2), same)).toEqual({ region: there, range: pages(4, 2) })
    expect(here.otherReady(pages(5, 2), same), 'half of it is there').toBe(null)
    const hints = other.memory.status!.counts.hints
    await other.memory.write(4 * PAGE, Uint8Array.of(7))
    const place = here.otherReady(pages(4, 1), same)!
    expect(await place.region.read(place.range.offset, 1)).toEqual(Uint8Array.of(7))
    expect(other.memory.status!.counts.hints, 'it was ready').toBe(hints)
    other.pager.evict(5)
    await other.pass(2000)
    expect(here.otherReady(pages(4, 2), same)).toBe(null)
    // What is ready here is no mirror of another range.
    await bring(one, 10, 2)
    expect(here.otherReady(pages(4, 2), same)).toBe(null)
  })

  test('S1-M11: any range that is as long: here first, then as they were named', async () => {
    const { one, other } = await mirrors()
    const spare = await one.dpu.provisionBytes({ name: 'spare', length: 8 * PAGE })
    await spare.watch(FINE)
    const [here, there] = [one.memory, other.memory]
    here.setAlternatives([there, spare])
    const found = (): unknown => {
      const place = here.otherReady(pages(4, 2))
      return place && [place.region.name, place.region === there, place.range.offset / PAGE]
    }
    expect(found(), 'a region of the part is always ready').toEqual(['spare', false, 4])
    await bring(other, 20, 2)
    expect(found()).toEqual(['heap', true, 20])
    await bring(other, 4, 2)
    expect(found(), 'the same range before others').toEqual(['heap', true, 4])
    await bring(one, 12, 2)
    expect(found()).toEqual(['heap', false, 12])
    here.setAlternatives([spare, there])
    expect(here.otherReady(pages(4, 9)), 'longer than all that is ready').toBe(null)
    here.setAlternatives([])
    expect(found()).toEqual(['heap', false, 12])
    expect(here.otherReady(pages(4, 2), { sameRange: true })).toBe(null)
  })

  test('S1-M11: what failed, or is watched no more, is passed over, and asked again', async () => {
    const { one, other } = await mirrors()
    const spare = await one.dpu.provisionBytes({ name: 'spare', length: 8 * PAGE })
    const watch = await spare.watch(FINE)
    const [here, there] = [one.memory, other.memory]
    here.setAlternatives([there, spare])
    await bring(other, 4, 1)
    const name = (): string | undefined => here.otherReady(pages(4, 1))?.region.name
    expect(name()).toBe('heap')
    other.machine.dpu.powerCut()
    await other.pass(3_000_000)
    expect(name(), 'of a card that is away nothing is known').toBe('spare')
    await watch.close()
    expect(name()).toBe(undefined)
    await spare.watch(FINE)
    expect(name()).toBe('spare')
  })

  test('S1-M11: a region whose own watch has ended still names the others', async () => {
    const { one, other } = await mirrors()
    one.memory.setAlternatives([other.memory])
    await bring(other, 4, 1)
    await one.dpu.close()
    expect(one.memory.status).toBe(null)
    expect(one.memory.otherReady(pages(4, 1))?.region).toBe(other.memory)
  })

  test('S1-M11: each may stand in for the other', async () => {
    const { one, other } = await mirrors()
    one.memory.setAlternatives([other.memory])
    other.memory.setAlternatives([one.memory])
    await bring(one, 3, 1)
    expect(other.memory.otherReady(pages(3, 1))?.region).toBe(one.memory)
    expect(one.memory.otherReady(pages(4, 1))?.range).toEqual(pages(3, 1))
  })
})

/** A part with records of several lengths, and a client of it. */
async function local(): Promise<LocalDpu> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-alternatives-'))
  ends.push(() => rmSync(folder, { recursive: true }))
  const opened = await openLocal({
    ...{ path: join(folder, 'part.nvdimm'), bytes: 1 << 21, engine: 'node', seed: 7 },
  })
  ends.push(() => opened.close())
  return opened
}

describe('S1-M11: another region of records', () => {
  test('S1-M11: records as long, by their number', async () => {
    const { wire } = await local()
    const dpu = await connect(wire, { seed: 3 })
    await dpu.format()
    const a = await dpu.provision({ name: 'a', slots: 16, capacity: 960 })
    const b = await dpu.provision({ name: 'b', slots: 64, capacity: 4032 })
    const short = await dpu.provision({ name: 'short', slots: 16, capacity: 64 })
    for (const region of [a, b, short]) await region.watch()
    const refused = thrown(() => a.setAlternatives([short]))
    expect(refused.code).toBe('PERDURE_ARGUMENT')
    expect(refused.message).toContain("'short': its records hold 64 bytes, and those of 'a' 960")
    a.setAlternatives([b])
    const place = a.otherReady({ slot: 3, count: 2 }, { sameRange: true })!
    expect(place).toEqual({ region: b, range: { slot: 3, count: 2 } })
    await place.region.persist(place.range.slot, new Uint8Array(960).fill(5)).persisted
    expect(thrown(() => b.setAlternatives([a])).message).toContain('4032')
    expect(a.otherReady({ slot: 40 }, { sameRange: true })?.range).toEqual({ slot: 40 })
    expect(a.otherReady({ slot: 64 }, { sameRange: true })).toBe(null)
    await dpu.close()
  })
})

describe('S1-M11, X-7: what cannot be named', () => {
  test('S1-M11: itself, one twice, one that nobody watches, one of another kind', async () => {
    const { wire } = await local()
    const dpu = await connect(wire, { seed: 3 })
    await dpu.format()
    const records = await dpu.provision({ name: 'records', slots: 16, capacity: 960 })
    const regions: BytesRegion[] = []
    for (const name of ['a', 'b', 'c']) {
      regions.push(await dpu.provisionBytes({ name, length: 8 * PAGE }))
    }
    const [a, b, c] = regions as [BytesRegion, BytesRegion, BytesRegion]
    expect(thrown(() => a.setAlternatives([b])).message).toContain("'a' is not watched")
    expect(thrown(() => a.otherReady(pages(0, 1))).message).toContain("'a' is not watched")
    await a.watch(FINE)
    await b.watch(FINE)
    const again = await dpu.openBytes('a')
    const wrong: [unknown, string][] = [
      [[c], "'c' is not watched"],
      [[a], "alternative 'a': it was named before, or is the region itself"],
      [[again], "alternative 'a': it was named before, or is the region itself"],
      [[b, b], "alternative 'b': it was named before"],
      [[records], 'dpu.openBytes gives one'],
      [['b'], 'dpu.openBytes gives one'],
      [b, 'a list'],
    ]
    a.setAlternatives([b])
    for (const [given, message] of wrong) {
      const error = thrown(() => a.setAlternatives(given as BytesRegion[]))
      expect(error).toMatchObject({ code: 'PERDURE_ARGUMENT' })
      expect(error.message).toContain(message)
    }
    expect(thrown(() => a.otherReady({ offset: -1, length: 1 })).code).toBe('PERDURE_ARGUMENT')
    const place = a.otherReady(pages(1, 1), { sameRange: true })
    expect(place?.region, 'what was named before a refusal stays').toBe(b)
    const late = await failure(c.ready(pages(0, 1)))
    expect(late.message).toContain("'c' is not watched")
    await dpu.close()
  })
})
