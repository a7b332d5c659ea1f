/** How the driver divides its memory, and who may write what of it, as its API says. */

import { describe, expect, test } from 'vitest'
import { HostRam } from '../../../../boards/emulator/host/host-ram.ts'
import { ForbiddenAccess } from '../../../../boards/host-port.ts'
import { HOST_QUEUES } from '../../../../firmware/board/limits.ts'
import * as page from '../../../../firmware/host/header-page.ts'
import * as info from '../../../../firmware/host/queue-info.ts'
import { Arena } from '../../../../host-driver/card/queues/arena.ts'
import { HostBuffer, PostedRanges } from '../../../../host-driver/card/queues/buffers.ts'
import { Layout, QUEUE_INFO_BYTES } from '../../../../host-driver/card/queues/layout.ts'
import { Zones } from '../../../../host-driver/card/queues/zones.ts'
import { MemoryFull } from '../../../../host-driver/way/queue-errors.ts'

const SEED = Number(process.env.SEED ?? 20261121)
const ARGUMENT = expect.objectContaining({ code: 'PERDURE_ARGUMENT' })

describe('the layout', () => {
  test('P3-10: K * R1, K * R2 and K * R3; every queue has a triple of its own', () => {
    for (const queues of [4, 5, 64, 1000, 4096, HOST_QUEUES]) {
      const layout = new Layout(1 << 24, { queues })
      const zones = new Zones(new HostRam(64), layout, () => 0)
      expect(QUEUE_INFO_BYTES).toBe(info.ZONE1_BYTES + info.ZONE2_BYTES + info.ZONE3_BYTES)
      const used: [number, number][] = []
      for (let queue = 0; queue < queues; queue++) {
        used.push([zones.at(queue, 1), info.ZONE1_BYTES])
        used.push([zones.at(queue, 2), info.ZONE2_BYTES])
        used.push([zones.at(queue, 3), info.ZONE3_BYTES])
      }
      expect(used.reduce((sum, [, bytes]) => sum + bytes, 0)).toBe(queues * QUEUE_INFO_BYTES)
      used.push([layout.header, 4096], [layout.eventRing, layout.events * page.EVENT_BYTES])
      used.push([layout.sendRing, layout.sendUnits * 64])
      used.push([layout.receiveRing, layout.receiveUnits * 64])
      used.push([layout.completionRing, layout.completions * 64])
      used.push([layout.arena.at, layout.arena.bytes])
      used.sort(([a], [b]) => a - b)
      for (let i = 1; i < used.length; i++) {
        const [at, bytes] = used[i - 1]!
        if (at + bytes > used[i]![0]) throw new Error(`${at} + ${bytes} overlaps ${used[i]![0]}`)
      }
      expect(layout.arena.at + layout.arena.bytes).toBeLessThanOrEqual(1 << 24)
    }
  })

  test('P3-10: what makes no sense is refused, and a memory that is too small', () => {
    const wrong = [
      ...[0, 3, -1, 1.5, Number.NaN, HOST_QUEUES + 1].map((queues) => ({ queues })),
      ...[0, 4, 100, 65536].map((managementUnits) => ({ managementUnits })),
      ...[0, 4, 100, 65536].map((managementReceives) => ({ managementReceives })),
      ...[0, 4, 100, 65536].map((events) => ({ events })),
    ]
    for (const options of wrong) {
      expect(() => new Layout(1 << 24, options), JSON.stringify(options)).toThrow(ARGUMENT)
    }
    expect(() => new Layout(65536)).toThrow(MemoryFull)
    expect(() => new Layout(0, { queues: 8 })).toThrow(MemoryFull)
  })
})

describe('queue information', () => {
  const layout = new Layout(1 << 20, { queues: 16 })
  const ram = new HostRam(1 << 20)
  const zones = new Zones(ram, layout, () => 12345)
  layout.write(ram)
  ram.guard.protect(layout.header)

  test('P3-11: zone 1 is read only, at every byte', () => {
    for (let offset = 0; offset < info.ZONE1_BYTES; offset++) {
      expect(() => zones.store(5, 1, offset, Uint8Array.of(1))).toThrow(ForbiddenAccess)
    }
    expect(zones.load(5, 1)).toEqual(new Uint8Array(info.ZONE1_BYTES))
  })

  test('P3-11: zone 2 is written under the token of its lock, and no other', () => {
    const bytes = new Uint8Array(info.ZONE2_BYTES).fill(9)
    const lock = layout.zone1 + 5 * info.ZONE1_BYTES + info.Z1_LOCK
    expect(() => zones.store(5, 2, 0, bytes)).toThrow(ForbiddenAccess)
    expect(() => zones.store(5, 2, 0, bytes, 77)).toThrow(ForbiddenAccess)
    ram.liveWords[lock >> 2] = 77
    for (const token of [0, 1, 76, 78]) {
      expect(() => zones.store(5, 2, 0, bytes, token)).toThrow(ForbiddenAccess)
    }
    expect(() => zones.store(6, 2, 0, bytes, 77)).toThrow(ForbiddenAccess)
    expect(zones.load(5, 2)).toEqual(new Uint8Array(info.ZONE2_BYTES))
    zones.store(5, 2, 0, bytes, 77)
    expect(zones.load(5, 2)).toEqual(bytes)
    ram.liveWords[lock >> 2] = 0
    expect(() => zones.store(5, 2, 0, bytes, 77)).toThrow(ForbiddenAccess)
  })

  test('P3-11: zone 3 is written directly, pointer and time as one', () => {
    zones.setPointer(5, 0xfffffff0)
    const view = new DataView(zones.load(5, 3).buffer)
    expect(view.getUint32(info.Z3_POINTER, true)).toBe(0xfffffff0)
    expect(view.getUint32(info.Z3_TIME, true)).toBe(12345)
    zones.store(5, 3, info.Z3_ARM, Uint8Array.of(3, 0, 0, 0))
    expect(zones.load(5, 3)[info.Z3_ARM]).toBe(3)
    expect(zones.load(4, 3)).toEqual(new Uint8Array(info.ZONE3_BYTES))
    expect(zones.load(6, 3)).toEqual(new Uint8Array(info.ZONE3_BYTES))
  })

  test('P3-10, P3-11: no queue reaches beyond its own triple', () => {
    const one = Uint8Array.of(1)
    for (const queue of [-1, 16, 1.5, Number.NaN, 2 ** 32]) {
      expect(() => zones.load(queue, 3)).toThrow(ARGUMENT)
      expect(() => zones.store(queue, 3, 0, one)).toThrow(ARGUMENT)
      expect(() => zones.setPointer(queue, 0)).toThrow(ARGUMENT)
    }
    for (const offset of [-1, 16, 1.5, Number.NaN]) {
      expect(() => zones.store(5, 3, offset, one)).toThrow(ARGUMENT)
    }
    expect(() => zones.store(5, 3, 9, new Uint8Array(8))).toThrow(ARGUMENT)
    expect(() => zones.load(5, 4 as 3)).toThrow(ARGUMENT)
  })
})

describe('memory', () => {
  test('pieces never overlap, and all of it is free again in the end', () => {
    let state = SEED
    const below = (n: number): number => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0
      return (state >>> 8) % n
    }
    const arena = new Arena(8192, 1 << 16)
    const used = new Map<number, number>()
    for (let i = 0; i < 5000; i++) {
      if (below(2) === 0 && used.size > 0) {
        const at = [...used.keys()][below(used.size)]!
        used.delete(at)
        arena.release(at)
      } else {
        const bytes = 1 + below(4000)
        const align = 64 << below(4)
        let at: number
        try {
          at = arena.alloc(bytes, align)
        } catch (error) {
          expect(error, `seed ${SEED}`).toBeInstanceOf(MemoryFull)
          continue
        }
        expect(at % align).toBe(0)
        expect(at >= 8192 && at + bytes <= 8192 + (1 << 16), `seed ${SEED}`).toBe(true)
        for (const [other, length] of used) {
          expect(at >= other + length || at + bytes <= other, `seed ${SEED}`).toBe(true)
        }
        used.set(at, bytes)
      }
    }
    for (const at of used.keys()) arena.release(at)
    expect(arena.freeBytes).toBe(1 << 16)
    expect(arena.alloc(1 << 16)).toBe(8192)
  })

  test('bad sizes, alignments and addresses are refused', () => {
    const arena = new Arena(8192, 4096)
    for (const bytes of [0, -1, 1.5, Number.NaN]) {
      expect(() => arena.alloc(bytes)).toThrow(ARGUMENT)
    }
    for (const align of [0, 32, 96, 1.5]) expect(() => arena.alloc(1, align)).toThrow(ARGUMENT)
    expect(() => arena.alloc(4097)).toThrow(MemoryFull)
    for (const at of [0, 8192, 8193]) expect(() => arena.release(at)).toThrow(ARGUMENT)
    const ram = new HostRam(16384)
    const buffer = new HostBuffer(ram, arena, 100)
    expect(() => buffer.store(new Uint8Array(101))).toThrow(ARGUMENT)
    expect(() => buffer.store(new Uint8Array(1), 100)).toThrow(ARGUMENT)
    expect(() => buffer.load(-1, 4)).toThrow(ARGUMENT)
    expect(() => buffer.range(0, 50, 51)).toThrow(ARGUMENT)
    buffer.store(Uint8Array.of(1, 2, 3), 97)
    expect(buffer.load(96)).toEqual(Uint8Array.of(0, 1, 2, 3))
    buffer.free()
    buffer.free()
    expect(() => buffer.load()).toThrow(ARGUMENT)
    expect(arena.freeBytes).toBe(4096)
  })

  test('P3-26: a place that is posted is posted once, whichever bytes overlap', () => {
    const posted = new PostedRanges()
    const range = (address: number, length: number) => ({ address, length, lkey: 1 })
    posted.add(range(100, 10))
    posted.add(range(120, 10))
    for (let at = 85; at < 135; at++) {
      for (const length of [1, 5, 10, 20, 50]) {
        const meets = [100, 120].some((start) => at < start + 10 && start < at + length)
        if (meets) expect(() => posted.add(range(at, length)), `${at}`).toThrow(ARGUMENT)
        else {
          posted.add(range(at, length))
          posted.remove(range(at, length))
        }
      }
    }
    posted.add(range(105, 0))
    posted.add(range(110, 10))
    posted.remove(range(100, 10))
    posted.add(range(100, 10))
  })
})
