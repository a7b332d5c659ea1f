/**
 * Memory on demand whose addresses the IOMMU of the host translates: what comes and goes is as with
 * the card's own table, and no frame is known to the card (source 5, P5-27; S1-M13).
 */

import { describe, expect, test } from 'vitest'
import { DMA_SPACE, FROM, SHARED_SPACE, TO } from '../../../firmware/board/hal.ts'
import { PAGE_BYTES, REGIONS } from '../../../firmware/board/limits.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, type TestPeer } from '../../support/cards/test-card.ts'
import {
  type OnDemand,
  OnDemandHost,
  payloadOf,
  RNR_PAGE,
} from '../../support/residency/on-demand.ts'

/** Where the host has the memory in its own address space: beyond what a frame's address can be. */
const VIRTUAL = 0x7abc_0000_0000

const ACK = 0x1f
const REFUSED = 0x63

/** What the IOMMU says of pages of that region: which frame each is in, or none. */
function place(host: OnDemandHost, region: OnDemand, page: number, frame: number | null): void {
  const { iommu } = host.ram
  const address = VIRTUAL + page * PAGE_BYTES
  if (frame === null) iommu.unmap(region.place - REGIONS, address)
  else iommu.map(region.place - REGIONS, address, frame * PAGE_BYTES)
}

/** Pages are there, in these frames, and the card hears that they are. */
function arrive(host: OnDemandHost, region: OnDemand, frames: readonly number[]): void {
  for (const [page, frame] of frames.entries()) place(host, region, page, frame)
  const entries = frames.map((_, page) => [page, mad.MAP_IN_PLACE] as const)
  expect(host.map(region, entries)).toBe('PASS')
}

function begun(mtu = 4096, pages = 4): { host: OnDemandHost; region: OnDemand; qp: TestPeer } {
  const host = new OnDemandHost()
  const region = host.registerOnDemand({ length: pages * PAGE_BYTES, shared: VIRTUAL })
  return { host, region, qp: host.card.connect(mtu) }
}

describe('S1-M13: the IOMMU translates', () => {
  const OFFSETS = [0, 1, 8, 2048, 4088, 4095]
  const LENGTHS = [1, 2, 8, 255, 256, 4095, 4096, 4097, 8193]

  test.each([256, 4096])('every length and alignment around page edges, MTU %i', (mtu) => {
    const { host, region, qp } = begun(mtu)
    const [, f1, f2, , f3, f4] = host.frames(7) as [number, number, number, number, number, number]
    const frames = [f3, f1, f4, f2]
    arrive(host, region, frames)
    const named = new Set<number>()
    host.card.machine.observe({
      onCommand: (_, __, words, at) => {
        for (const word of [FROM, TO]) {
          const frame = (words[at + word]! - DMA_SPACE) / PAGE_BYTES
          if (frames.includes(Math.floor(frame))) named.add(frame)
        }
      },
    })
    const model = new Uint8Array(4 * PAGE_BYTES)
    let seed = 0
    for (const offset of OFFSETS) {
      for (const length of LENGTHS) {
        seed += 1
        const data = dataOf(length, seed)
        model.set(data, offset)
        const what = `${length} bytes at ${offset}`
        const written = host.write(qp, region, offset, data)
        expect(
          written.map(({ syndrome }) => syndrome),
          what,
        ).toEqual([ACK])
        const read = host.card.serve(host.reads(qp, region, offset, length))
        expect(Buffer.compare(payloadOf(read), data), what).toBe(0)
        frames.forEach((frame, page) => {
          const want = model.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
          expect(Buffer.compare(host.frame(frame), want), `${what}: page ${page}`).toBe(0)
        })
      }
    }
    expect([...named], 'frames that the card named').toEqual([])
    expect(host.ram.iommu.counts.translated).toBeGreaterThan(100)
  })

  test('a page that is away is waited for, and asked of the host, as with the table', () => {
    const { host, region, qp } = begun()
    const [frame, other] = host.frames(2) as [number, number]
    const data = dataOf(16, 1)
    const frames = host.writes(qp, region, 0, data)
    expect(host.card.serve(...frames).map(({ syndrome }) => syndrome)).toEqual([RNR_PAGE])
    expect(host.wanted()).toEqual([{ rkey: region.rkey, first: 0, count: 1 }])
    arrive(host, region, [frame])
    expect(host.card.serve(...frames).map(({ syndrome }) => syndrome)).toEqual([ACK])
    expect(host.frame(frame).subarray(0, 16)).toEqual(data)
    // It goes: the answer to UNMAP is behind the last access, and then the IOMMU forgets it.
    expect(host.unmap(region, [0])).toBe('PASS')
    place(host, region, 0, null)
    const again = host.writes(qp, region, 0, dataOf(16, 2))
    expect(host.card.serve(...again).map(({ syndrome }) => syndrome)).toEqual([RNR_PAGE])
    expect(host.frame(frame).subarray(0, 16)).toEqual(data)
    host.frame(other).set(host.frame(frame))
    arrive(host, region, [other])
    expect(host.card.serve(...again).map(({ syndrome }) => syndrome)).toEqual([ACK])
    expect(host.frame(other).subarray(0, 16)).toEqual(dataOf(16, 2))
    expect(host.ram.iommu.counts.faults).toBe(0)
  })

  test('a page that the host moves is found where it is now, without a word to the card', () => {
    const { host, region, qp } = begun()
    const [one, other] = host.frames(2) as [number, number]
    arrive(host, region, [one])
    host.write(qp, region, 0, dataOf(16, 1))
    host.frame(other).set(dataOf(PAGE_BYTES, 2))
    place(host, region, 0, other)
    const read = host.card.serve(host.reads(qp, region, 0, 64))
    expect(payloadOf(read)).toEqual(dataOf(PAGE_BYTES, 2).slice(0, 64))
    host.write(qp, region, 0, dataOf(16, 3))
    expect(host.frame(other).subarray(0, 16)).toEqual(dataOf(16, 3))
    expect(host.frame(one).subarray(0, 16)).toEqual(dataOf(16, 1))
  })

  test('what the IOMMU refuses behind the back of the card reaches no byte', () => {
    const { host, region, qp } = begun()
    const [frame] = host.frames(1) as [number]
    arrive(host, region, [frame])
    host.write(qp, region, 0, dataOf(16, 1))
    place(host, region, 0, null)
    host.card.serve(...host.writes(qp, region, 0, dataOf(16, 2)))
    expect(host.frame(frame).subarray(0, 16)).toEqual(dataOf(16, 1))
    const read = host.card.serve(host.reads(qp, region, 0, 16))
    expect(read.map(({ syndrome }) => syndrome)).toEqual([REFUSED])
    expect(host.ram.iommu.counts.faults).toBeGreaterThan(1)
  })

  test('regions have address spaces of their own', () => {
    const { host, region, qp } = begun()
    const other = host.registerOnDemand({ name: 'other', length: PAGE_BYTES, shared: VIRTUAL })
    const [one, two] = host.frames(2) as [number, number]
    arrive(host, region, [one])
    arrive(host, other, [two])
    host.write(qp, region, 0, dataOf(16, 1))
    host.write(qp, other, 0, dataOf(16, 2))
    expect(host.frame(one).subarray(0, 16)).toEqual(dataOf(16, 1))
    expect(host.frame(two).subarray(0, 16)).toEqual(dataOf(16, 2))
  })

  test('addresses that there cannot be, and frames in its calls, are refused', () => {
    const { host, region } = begun()
    const [frame] = host.frames(1) as [number]
    for (const shared of [VIRTUAL + 1, VIRTUAL + 2048, 2 ** 48, 2 ** 48 - PAGE_BYTES]) {
      const asked = { name: 'other', length: 2 * PAGE_BYTES, shared }
      expect(host.tryRegister(asked).fault, `${shared}`).toBe('REQUEST')
    }
    expect(host.map(region, [[0, frame]])).toBe('PAGE')
    expect(host.map(region, [[4, mad.MAP_IN_PLACE]])).toBe('PAGE')
    const plain = host.registerOnDemand({ name: 'plain', length: PAGE_BYTES })
    expect(host.map(plain, [[0, mad.MAP_IN_PLACE]])).toBe('PAGE')
    expect(SHARED_SPACE).toBeGreaterThan(DMA_SPACE)
  })

  test('a board without address spaces of the host refuses it', () => {
    const host = new OnDemandHost()
    Object.assign(host.card.machine.facts, { sharedSpaces: 1 })
    const fields = { length: PAGE_BYTES, shared: VIRTUAL }
    expect(host.tryRegister({ ...fields, name: 'first' }).fault).toBe('PASS')
    expect(host.tryRegister({ ...fields, name: 'second' }).fault).toBe('REQUEST')
    expect(host.tryRegister({ length: PAGE_BYTES, name: 'third' }).fault).toBe('PASS')
    const silent = new OnDemandHost()
    Object.assign(silent.card.machine.facts, { sharedSpaces: undefined })
    expect(silent.tryRegister({ ...fields, name: 'first' }).fault).toBe('REQUEST')
    expect(silent.tryRegister({ length: PAGE_BYTES, name: 'first' }).fault).toBe('PASS')
  })
})
