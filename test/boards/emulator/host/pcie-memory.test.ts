/**
 * The memory that host and card share, and the link between them: the order of what is on its way,
 * what it takes, how it fails, and who may write what (P3-6, P3-11, H4, H5).
 */

import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { VirtualClock } from '../../../../boards/emulator/base/clock.ts'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { DDIO_OFF, HostMemory } from '../../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../../boards/emulator/host/host-ram.ts'
import {
  type AccessFault,
  COMPLETION_TIMEOUT_NS,
  DMA_READ_NS,
  DMA_WRITE_NS,
  LINK_BYTES_PER_NS,
  PcieLink,
  READ_GAP_NS,
} from '../../../../boards/emulator/host/pcie.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../../boards/emulator/run/machine.ts'
import { ForbiddenAccess } from '../../../../boards/host-port.ts'
import { CardViolation } from '../../../../boards/port/zone-guard.ts'
import {
  BAD_COMMAND,
  CHECK,
  COMPARE,
  COPY,
  COPY_CLEAN,
  DIFFERENT,
  DMA_FAILED,
  DMA_SPACE,
  DONE,
  EQUAL,
  FENCE,
  FETCH_ADD,
  FLUSH,
  GUARD,
  HOST_SPACE,
  NVDIMM_SPACE,
  PRIVATE_AT,
  SHARED_SPACE,
  SKIP,
  SPACE_BYTES,
} from '../../../../firmware/board/hal.ts'
import { VIEW_DATA } from '../../../../firmware/burst/view.ts'
import * as header from '../../../../firmware/host/header-page.ts'
import {
  Z1_LOCK,
  ZONE1_BYTES,
  ZONE2_BYTES,
  ZONE3_BYTES,
} from '../../../../firmware/host/queue-info.ts'
import { bareMachine, runList } from '../../../support/cards/bare-machine.ts'
import { cutPower, type Placed, placed, restarted } from '../../../support/cards/placed.ts'
import { dataOf, persistAcks, persistFrames } from '../../../support/cards/test-card.ts'
import { THOROUGH } from '../../../support/run/thorough.ts'

const BYTES = 16384
const D = DMA_SPACE
const H = HOST_SPACE
const P = PRIVATE_AT
const SEED = Number(process.env.SEED ?? 20261121)

interface Setting {
  readonly machine: EmulatedMachine
  readonly link: PcieLink
  readonly host: HostMemory
  readonly ram: HostRam
}

/** A card before both memories of a host, without time: what is sent waits until it is pushed. */
function setting(holds = true): Setting {
  const link = new PcieLink(holds)
  const host = new HostMemory({ part: new Nvdimm({ bytes: BYTES }), platform: DDIO_OFF, link })
  const ram = new HostRam(BYTES, link)
  return { machine: bareMachine(BYTES, { host, ram }), link, host, ram }
}

const run = ({ machine }: Setting, ...list: readonly (readonly number[])[]): number[] =>
  runList(machine, ...list)

/** Every sequence of `length` of these. */
function sequences<T>(of: readonly T[], length: number): T[][] {
  if (length === 0) return [[]]
  return sequences(of, length - 1).flatMap((rest) => of.map((one) => [...rest, one]))
}

const READ_RAM = [COPY, D + 8192, P + 2048, 8, 0]
const READ_PART = [COPY, H + 8192, P + 2048, 8, 0]

describe('the order of what the card writes', () => {
  test('P2-14: writes to both memories arrive in the order in which they left, whichever', () => {
    for (const order of sequences([D, H], 5)) {
      for (let arrived = 0; arrived <= order.length; arrived++) {
        const s = setting()
        run(s, ...order.map((space, i) => [COPY, P, space + 64 * i, 64, 0]))
        expect(s.link.postedWrites).toBe(order.length)
        s.link.arrive(arrived)
        const seen = order.map((space, i) => (space === D ? s.ram : s.host.part).live[64 * i] === 1)
        expect(seen).toEqual(order.map((_, i) => i < arrived))
      }
    }
  })

  test('a read of either memory pushes every write before it, to either', () => {
    const readers = [
      READ_RAM,
      READ_PART,
      [COPY, D + 8192, NVDIMM_SPACE, 64, 0],
      [COPY_CLEAN, D + 8192, NVDIMM_SPACE, 64, 0],
      [COPY, D + 8192, H + 8192, 64, 0],
      [CHECK, D + 8192, P + 2048, 64, P],
      [CHECK, P, P + 2048, 64, D + 8192],
      [COMPARE, D + 8192, P, 64, 0],
      [COMPARE, P, D + 8192, 64, 0],
    ]
    for (const reader of readers) {
      for (const space of [D, H]) {
        const s = setting()
        const result = run(s, [COPY, P, space, 64, 0], reader).at(-1)!
        expect([DONE, DIFFERENT], reader.join(' ')).toContain(result)
        expect((space === D ? s.ram : s.host.part).live[63], reader.join(' ')).toBe(64)
      }
    }
  })

  test('a write behind the read stays on its way, and a fence alone pushes nothing', () => {
    const s = setting()
    run(s, READ_RAM, [COPY, P, D, 64, 0], [FENCE])
    expect(s.link.postedWrites).toBe(1)
    expect(s.ram.load(0, 64)).toEqual(new Uint8Array(64))
  })

  test('what was sent is what was there when it was sent', () => {
    const s = setting()
    run(s, [COPY, P, D, 64, 0], [COPY, P + 1, P, 63, 0], [COPY, P, D + 64, 64, 0])
    s.link.arrive()
    expect([s.ram.live[0], s.ram.live[64]]).toEqual([1, 2])
  })

  test('with a clock a write arrives when it is time, and in order', () => {
    const s = setting()
    const clock = new VirtualClock()
    s.link.useClock(clock)
    run(s, [COPY, P, D, 64, 0])
    clock.runUntil(0.1)
    run(s, [COPY, P, H, 64, 0])
    clock.runUntil(DMA_WRITE_NS / 1000 - 0.01)
    expect(s.link.postedWrites).toBe(2)
    clock.runUntil(DMA_WRITE_NS / 1000)
    expect([s.link.postedWrites, s.ram.live[0], s.host.part.live[0]]).toEqual([1, 1, 0])
    clock.runUntilIdle()
    expect([s.link.postedWrites, s.host.part.live[0]]).toEqual([0, 1])
  })

  test('without one, and not held, it is there at once', () => {
    const s = setting(false)
    run(s, [COPY, P, D, 64, 0])
    expect([s.link.postedWrites, s.ram.live[0]]).toEqual([0, 1])
  })

  test('two memories behind two links are not of one host', () => {
    const host = new HostMemory({ part: new Nvdimm({ bytes: BYTES }) })
    const ram = new HostRam(BYTES)
    expect(() => bareMachine(BYTES, { host, ram })).toThrow(RangeError)
  })

  test('the memory that the host shares has no atomics of the card, and no flush', () => {
    const s = setting()
    expect(run(s, [FETCH_ADD, P, D, 8, P + 64])).toEqual([BAD_COMMAND])
    expect(run(s, [COPY, P, D + BYTES - 32, 64, 0])).toEqual([BAD_COMMAND])
  })
})

describe('S1-M13: virtual addresses that the IOMMU translates', () => {
  const VIRTUAL = 0x7f00_0000_1000
  const at = (space: number, offset: number): number =>
    SHARED_SPACE + space * SPACE_BYTES + VIRTUAL + offset

  /** The page at VIRTUAL of space 1 is the third of the memory. */
  function translated(): Setting {
    const s = setting()
    s.ram.iommu.map(1, VIRTUAL, 8192)
    return s
  }

  test('lead where the IOMMU says, in the order of all other accesses', () => {
    const s = translated()
    expect(run(s, [COPY, P, at(1, 100), 64, 0], [COPY, at(1, 100), P + 2048, 64, 0])).toEqual([
      0, 0,
    ])
    expect(s.ram.load(8192 + 100, 64)).toEqual(s.machine.packets.slice(P, P + 64))
    expect(run(s, [COMPARE, at(1, 100), P, 64, 0], [COMPARE, P + 1, at(1, 100), 64, 0])).toEqual([
      EQUAL,
      DIFFERENT,
    ])
    s.ram.iommu.map(1, VIRTUAL, 4096)
    expect(run(s, [COPY, P, at(1, 4032), 64, 0], [COPY, at(1, 0), P, 1, 0])).toEqual([0, 0])
    expect(s.ram.load(4096 + 4032, 64)).toEqual(s.machine.packets.slice(P + 2048, P + 2112))
  })

  test('of a page that has none a read fails, and a write is lost', () => {
    const s = translated()
    const before = s.ram.load(0, BYTES)
    for (const address of [at(0, 0), at(1, 4096), at(1, -1)]) {
      expect(run(s, [COPY, P, address, 1, 0])).toEqual([DONE])
      expect(run(s, [COPY, address, P, 1, 0])).toEqual([DMA_FAILED])
      expect(run(s, [COMPARE, P, address, 1, 0])).toEqual([DMA_FAILED])
    }
    expect(s.ram.load(0, BYTES)).toEqual(before)
    s.ram.iommu.unmap(1, VIRTUAL)
    expect(run(s, [COPY, at(1, 0), P, 1, 0])).toEqual([DMA_FAILED])
    expect(s.ram.iommu.counts).toEqual({ translated: 0, faults: 10 })
  })

  test('are refused beyond their page, beyond their spaces, and to other commands', () => {
    const s = translated()
    for (const command of [
      [COPY, P, at(1, 4090), 7, 0],
      [COPY, at(2, 0), P, 1, 0],
      [COPY, at(1, 0.5), P, 1, 0],
      [CHECK, at(1, 0), P, 64, P],
      [FETCH_ADD, P, at(1, 0), 8, P + 64],
      [GUARD, at(1, 0), 0, 8, 1],
      [FLUSH, 0, at(1, 0), 8, 0],
    ]) {
      expect(run(s, command), `${command}`).toEqual([BAD_COMMAND])
    }
    expect(run(s, [SKIP, at(1, 0), at(1, 0), 8, 0])).toEqual([DONE])
  })
})

describe('what it takes', () => {
  test('reads of one list overlap, those of two do not; writes cost the card nothing', () => {
    const s = setting()
    const one = DMA_READ_NS + 8 / LINK_BYTES_PER_NS
    run(s, [COPY, P, D, 64, 0])
    expect(s.link.takeBusyNs()).toBe(0)
    run(s, READ_RAM)
    expect(s.link.takeBusyNs()).toBe(one)
    run(s, READ_RAM)
    run(s, READ_RAM)
    expect(s.link.takeBusyNs()).toBe(2 * one)
    run(s, ...Array.from({ length: 16 }, () => READ_RAM))
    const bytes = (16 * 8) / LINK_BYTES_PER_NS
    expect(s.link.takeBusyNs()).toBe(DMA_READ_NS + 15 * READ_GAP_NS + bytes)
    expect(s.link.takeBusyNs()).toBe(0)
  })

  test('what has crossed the link is counted', () => {
    const s = setting()
    run(s, [COPY, P, D, 64, 0], READ_RAM, [COPY, P, H, 32, 0], READ_PART, [COPY, P, D, 0, 0])
    const { reads, bytesRead, writes, bytesWritten, readsFailed, writesLost } = s.link.counts
    expect({ reads, bytesRead, writes, bytesWritten }).toEqual({
      reads: 2,
      bytesRead: 16,
      writes: 2,
      bytesWritten: 96,
    })
    expect([readsFailed, writesLost]).toEqual([0, 0])
  })
})

describe('how it fails', () => {
  const FAULTS: readonly AccessFault[] = ['unsupported', 'poisoned', 'timeout', 'removal']

  test.each(FAULTS)(
    'H5: a read that ends in %s fails, moves nothing and pushes nothing',
    (fault) => {
      for (const reader of [READ_RAM, READ_PART]) {
        const s = setting()
        s.ram.live.fill(9)
        s.host.part.live.fill(9)
        s.link.script = ({ kind }) => (kind === 'read' ? fault : undefined)
        const results = run(s, [COPY, P, H, 64, 0], reader, [COPY, P, P + 3000, 64, 0])
        expect(results).toEqual([DONE, DMA_FAILED, 99])
        expect(s.machine.packets[P + 2048]).toBe(0)
        expect(s.host.part.live[0]).toBe(9)
        expect(s.link.counts.readsFailed).toBe(1)
        const waited = fault === 'timeout' ? COMPLETION_TIMEOUT_NS : 0
        expect(s.link.takeBusyNs()).toBeGreaterThanOrEqual(waited)
      }
    },
  )

  test('R1-E1: a read that is answered late has failed, and pushed what was before it', () => {
    const s = setting()
    s.link.script = ({ kind }) => (kind === 'read' ? 'late' : undefined)
    expect(run(s, [COPY, P, H, 64, 0], READ_PART)).toEqual([DONE, DMA_FAILED])
    expect(s.host.part.live[0]).toBe(1)
    expect(s.machine.packets[P + 2048]).toBe(0)
    expect([s.link.counts.readsFailed, s.link.counts.unexpected]).toEqual([1, 1])
    expect(s.link.takeBusyNs()).toBeGreaterThanOrEqual(COMPLETION_TIMEOUT_NS)
  })

  test('R1-E1: a read that is answered twice is answered once', () => {
    const s = setting()
    s.link.script = ({ kind }) => (kind === 'read' ? 'twice' : undefined)
    expect(run(s, READ_PART)).toEqual([DONE])
    expect([s.link.counts.readsFailed, s.link.counts.unexpected]).toEqual([0, 1])
  })

  test('H4: a write that is lost vanishes silently, and what was sent behind it arrives', () => {
    const s = setting()
    s.link.script = ({ number }) => (number === 1 ? 'lost' : undefined)
    const results = run(s, ...[0, 1, 2].map((i) => [COPY, P, D + 64 * i, 64, 0]), READ_RAM)
    expect(results).toEqual([DONE, DONE, DONE, DONE])
    expect([0, 64, 128].map((at) => s.ram.live[at])).toEqual([1, 0, 1])
    expect(s.link.counts.writesLost).toBe(1)
  })

  test('H4: of persistent memory every read says from then on that something was lost', () => {
    const s = setting()
    s.link.script = ({ number }) => (number === 0 ? 'lost' : undefined)
    expect(run(s, [COPY, P, H, 64, 0], READ_RAM)).toEqual([DONE, DONE])
    // Whoever asks first does not take it away from the fence behind him.
    for (let i = 0; i < 3; i++) expect(run(s, READ_PART)).toEqual([DMA_FAILED])
    expect(run(s, READ_RAM)).toEqual([DONE])
    const { facts, nvdimm } = s.machine
    const { host, ram } = s
    const machine = new EmulatedMachine({ facts, nvdimm, host, ram, transmit: () => {} })
    expect(run({ ...s, machine }, READ_PART)).toEqual([DONE])
  })

  test('chance decides by its seed alone', () => {
    const outcome = (seed: number): number[] => {
      const s = setting()
      const random = new Random(seed)
      s.link.chances = { random, unsupported: 0.1, poisoned: 0.1, timeout: 0.1, lost: 0.2 }
      const results = Array.from({ length: 200 }, () => run(s, [COPY, P, D, 8, 0], READ_RAM)[1]!)
      const { readsFailed, writesLost } = s.link.counts
      expect(readsFailed).toBe(results.filter((result) => result === DMA_FAILED).length)
      return [...results, writesLost]
    }
    const first = outcome(SEED)
    expect(outcome(SEED)).toEqual(first)
    expect(outcome(SEED + 1)).not.toEqual(first)
    expect(first.at(-1)).toBeGreaterThan(20)
    expect(first.filter((result) => result === DMA_FAILED).length).toBeGreaterThan(30)
  })

  test('H4: the IOMMU: what is not mapped is refused, to the byte, and reads say so', () => {
    const s = setting()
    s.ram.windows.close()
    s.ram.windows.map(4096, 4096)
    const read = (at: number, length: number): number =>
      run(s, [COPY, D + at, P + 2048, length, 0])[0]!
    for (const [at, length, result] of [
      [4096, 64, DONE],
      [8128, 64, DONE],
      [4095, 1, DMA_FAILED],
      [4064, 64, DMA_FAILED],
      [8160, 64, DMA_FAILED],
      [8192, 1, DMA_FAILED],
    ] as const) {
      expect(read(at, length), `${length} at ${at}`).toBe(result)
    }
    expect(s.link.counts.refused).toBe(4)
    run(s, [COPY, P, D + 4032, 64, 0], [COPY, P, D + 4096, 64, 0])
    s.link.arrive()
    expect([s.ram.live[4032], s.ram.live[4096]]).toEqual([0, 1])
    expect(s.link.counts.writesLost).toBe(1)
    s.ram.windows.map(0, 4096)
    expect(read(4064, 64)).toBe(DONE)
    s.ram.windows.unmap(4096, 1)
    expect(read(4096, 64)).toBe(DMA_FAILED)
  })

  test('H4: removal: what had not arrived vanishes, nothing goes, and it may come back', () => {
    for (let arrived = 0; arrived <= 3; arrived++) {
      const s = setting()
      let told = 0
      s.link.watch(() => told++)
      run(s, ...[0, 1, 2].map((i) => [COPY, P, D + 64 * i, 64, 0]))
      s.link.remove(arrived)
      expect([0, 64, 128].filter((at) => s.ram.live[at] === 1).length).toBe(arrived)
      expect(run(s, [COPY, P, D + 1024, 64, 0], READ_RAM)).toEqual([DONE, DMA_FAILED])
      expect(run(s, READ_PART)).toEqual([DMA_FAILED])
      s.link.restore()
      expect(told).toBe(2)
      expect(s.ram.live[1024]).toBe(0)
      // What was written before may be gone: that the port tells, by the link that was down.
      expect(run(s, READ_RAM)).toEqual([DONE])
      expect(run(s, READ_PART)).toEqual([DONE])
    }
  })
})

interface Shape {
  readonly copies: number
  readonly wait: number
}

/** Persists a second version of a record; the access of that number, from 0, has the fault. */
function persistWith(
  { copies, wait }: Shape,
  number: number,
  fault: AccessFault,
  contains = true,
): { made: Placed; durable: number; reached: boolean } {
  const made = placed(DDIO_OFF, { copies })
  const { card, host, region, qp } = made
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
  card.idle()
  let accesses = 0
  host.link.contains = contains
  host.link.script = ({ kind }) => {
    if (accesses++ !== number) return undefined
    const fits = fault === 'removal' || (fault === 'lost') === (kind === 'write')
    return fits ? fault : undefined
  }
  const sent = [...card.serve(...persistFrames(qp, region, 0, dataOf(64, 2), { wait }))]
  // The link is back at once, and the card tries to go on.
  host.link.restore()
  card.idle()
  sent.push(...card.serve(...persistFrames(qp, region, 1, dataOf(64, 3), { wait })))
  const durable = persistAcks(sent).filter(({ status }) => status === 0).length
  cutPower(made, { random: new Random(SEED), strategy: 'none' })
  return { made, durable, reached: accesses > number }
}

/** Which versions the two records have after the worst cut: 0 is none, or one that is said lost. */
function versionsAfter(made: Placed): number[] {
  const next = restarted(made)
  return [0, 1].map((slot) => {
    const found = next.read(next.connect(), next.open(), slot, VIEW_DATA, 64)
    if (found === null) return 0
    return [1, 2, 3].find((v) => Buffer.compare(found, dataOf(64, v)) === 0) ?? 0
  })
}

describe('what a record that is placed there comes to (source 2, S905)', () => {
  const SHAPES: readonly Shape[] = [
    { copies: 2, wait: 1 },
    { copies: 2, wait: 2 },
    { copies: 3, wait: 2 },
  ]
  const KINDS: readonly AccessFault[] = ['unsupported', 'poisoned', 'timeout', 'lost', 'removal']

  test.each(KINDS)('H4, H5: %s at every access in turn: no ACK of what may be lost', (fault) => {
    for (const shape of SHAPES) {
      for (let number = 0, going = true; going; number++) {
        const { made, durable, reached } = persistWith(shape, number, fault)
        const [first, second] = versionsAfter(made)
        const where = `${shape.wait} of ${shape.copies}, access ${number}`
        expect([1, 2], where).toContain(first)
        if (durable > 0) expect(first, where).toBe(2)
        if (durable > 1) expect(second, where).toBe(3)
        going = reached
      }
    }
  })

  test('H4: a board that never learns of a lost write would acknowledge what is not there', () => {
    let lost = 0
    for (let number = 0, going = true; going; number++) {
      const { made, durable, reached } = persistWith(SHAPES[1]!, number, 'lost', false)
      if (durable > 0 && versionsAfter(made)[0] !== 2) lost++
      going = reached
    }
    expect(lost).toBeGreaterThan(0)
  })
})

const PAGE = 4096
const QUEUES = 5
const ZONE1 = 8192
const ZONE2 = ZONE1 + QUEUES * ZONE1_BYTES + 64
const ZONE3 = ZONE2 + QUEUES * ZONE2_BYTES + 64
const GUARDED_BYTES = 16384

/** A memory whose zones are guarded, with the locks of these queues taken. */
function guarded(locks: readonly number[]): HostRam {
  const ram = new HostRam(GUARDED_BYTES)
  ram.storeWord(PAGE + header.HEADER_QUEUES, QUEUES)
  ram.storePair(PAGE + header.HEADER_ZONE1, ZONE1, 0)
  ram.storePair(PAGE + header.HEADER_ZONE2, ZONE2, 0)
  ram.storePair(PAGE + header.HEADER_ZONE3, ZONE3, 0)
  for (const q of locks) ram.storeWord(ZONE1 + q * ZONE1_BYTES + Z1_LOCK, 77 + q)
  ram.guard.protect(PAGE)
  return ram
}

type Owner = 'all' | 'header' | 'zone1' | 'zone2' | 'zone3' | 'page'

/** Whose byte that is, said a second time, and of which queue. */
function ownerOf(at: number): { owner: Owner; queue: number } {
  const within = (start: number, bytes: number): boolean => at >= start && at < start + bytes
  for (let queue = 0; queue < QUEUES; queue++) {
    if (within(ZONE1 + queue * 64, 64)) return { owner: 'zone1', queue }
    if (within(ZONE2 + queue * 32, 32)) return { owner: 'zone2', queue }
    if (within(ZONE3 + queue * 16, 16)) return { owner: 'zone3', queue }
  }
  if (within(PAGE + 192, 64)) return { owner: 'header', queue: -1 }
  return { owner: within(PAGE, 4096) ? 'page' : 'all', queue: -1 }
}

function refusalOf(store: () => void): ForbiddenAccess | null {
  try {
    store()
    return null
  } catch (error) {
    if (error instanceof ForbiddenAccess) return error
    throw error
  }
}

describe('who may write what', () => {
  test('P3-6, P3-11: the host, each byte of each zone, under every set of locks', THOROUGH, () => {
    for (let set = 0; set < 2 ** QUEUES; set++) {
      const locks = Array.from({ length: QUEUES }, (_, q) => q).filter(
        (q) => (set & (1 << q)) !== 0,
      )
      const ram = guarded(locks)
      for (let at = PAGE - 64; at < ZONE3 + QUEUES * 16 + 64; at++) {
        const { owner, queue } = ownerOf(at)
        const free = owner === 'zone2' ? locks.includes(queue) : !/zone1|header/.test(owner)
        const before = ram.live[at]!
        const refused = refusalOf(() => ram.store(at, Uint8Array.of(before ^ 1)))
        expect(refused === null, `byte ${at}, locks ${locks}`).toBe(free)
        expect(ram.live[at]).toBe(free ? before ^ 1 : before)
        // As it was, so that the page and the locks say what they said.
        if (free) ram.store(at, Uint8Array.of(before))
        if (refused === null) continue
        expect([refused.place, refused.queue, refused.at]).toEqual([owner, queue, at])
        expect(refused.code).toBe('FORBIDDEN_ACCESS')
        expect(refused.message).toMatch(queue < 0 ? /only the card/ : /control call/)
      }
    }
  })

  test('P3-11: a store that touches one forbidden byte changes no byte; nor does a word', () => {
    const ram = guarded([1, 3])
    const forbidden = (at: number): boolean => {
      const { owner, queue } = ownerOf(at)
      return owner === 'zone1' || owner === 'header' || (owner === 'zone2' && queue % 2 === 0)
    }
    const before = ram.load(0, GUARDED_BYTES)
    for (let at = ZONE1 - 96; at < ZONE3 + 96; at += 4) {
      for (const length of [4, 8, 36, 64, 100, 600]) {
        const any = Array.from({ length }, (_, i) => at + i).some(forbidden)
        const bytes = before.slice(at, at + length)
        const refused = refusalOf(() => ram.store(at, any ? bytes.map((b) => b ^ 255) : bytes))
        expect(refused !== null, `${length} bytes at ${at}`).toBe(any)
      }
      const word = refusalOf(() => ram.storeWord(at, ram.loadWord(at)))
      expect(word !== null).toBe(forbidden(at))
      if (at % 8 === 0)
        expect(refusalOf(() => ram.storePair(at, 0, 0)) !== null).toBe(forbidden(at))
    }
    expect(ram.loadWord(ZONE1 + ZONE1_BYTES + Z1_LOCK)).toBe(78)
    expect(ram.load(ZONE1, QUEUES * 64)).toEqual(before.slice(ZONE1, ZONE1 + QUEUES * 64))
  })

  test('P3-9: the lock is the card’s to give: as it comes and goes, so does the right', () => {
    const ram = guarded([])
    const at = ZONE2 + 2 * ZONE2_BYTES
    const change = (): ForbiddenAccess | null => refusalOf(() => ram.storeWord(at + 8, 64))
    expect(change()?.queue).toBe(2)
    ram.dmaWrite(ZONE1 + 2 * ZONE1_BYTES + Z1_LOCK, Uint8Array.of(5, 0, 0, 0), 0, 4)
    expect(change()).toBeNull()
    ram.dmaWrite(ZONE1 + 2 * ZONE1_BYTES + Z1_LOCK, new Uint8Array(4), 0, 4)
    expect(change()?.place).toBe('zone2')
  })

  test('P3-6: the card, each byte: not zone 3, and of the header page only its line', () => {
    const ram = guarded([])
    for (let at = PAGE - 64; at < ZONE3 + QUEUES * ZONE3_BYTES + 64; at++) {
      const { owner } = ownerOf(at)
      const free = owner !== 'zone3' && owner !== 'page'
      const before = ram.live[at]!
      let violation: unknown = null
      try {
        ram.dmaWrite(at, Uint8Array.of(before ^ 1), 0, 1)
      } catch (error) {
        violation = error
      }
      expect(violation === null, `byte ${at}`).toBe(free)
      if (!free) expect(violation).toBeInstanceOf(CardViolation)
      expect(ram.live[at]).toBe(free ? before ^ 1 : before)
      if (free) ram.dmaWrite(at, Uint8Array.of(before), 0, 1)
    }
  })

  test('a card that does it all the same stops loudly, or is written down', () => {
    const s = setting()
    s.ram.store(0, guarded([]).load(0, GUARDED_BYTES))
    s.ram.guard.protect(PAGE)
    expect(() => run(s, [COPY, P, D + ZONE3 + 16, 8, 0])).toThrow(/zone 3 of queue 1/)
    const seen: string[] = []
    s.ram.onViolation = ({ message }) => seen.push(message)
    expect(run(s, [COPY, P, D + ZONE3 - 4, 8, 0], READ_RAM)).toEqual([DONE, DONE])
    expect(seen.length).toBe(1)
    expect(s.ram.loadWord(ZONE3 - 4)).toBe(0)
  })

  test('without a card, and of a header page that is nowhere, nothing is guarded', () => {
    const ram = guarded([])
    ram.guard.release()
    for (let at = 0; at < GUARDED_BYTES; at += 64) ram.store(at, new Uint8Array(64))
    for (const nowhere of [-4096, GUARDED_BYTES, GUARDED_BYTES - 1, 2 ** 44, Number.NaN]) {
      ram.guard.protect(nowhere)
      ram.store(ZONE1, Uint8Array.of(1))
    }
  })

  test('zones that a bad header page puts anywhere make no access throw anything else', () => {
    const random = new Random(SEED)
    const pick = (): number =>
      [0, 8193, 16320, 2 ** 31, 2 ** 32 - 1, random.next()][random.below(6)]!
    for (let round = 0; round < 500; round++) {
      const ram = new HostRam(GUARDED_BYTES)
      ram.onViolation = () => {}
      for (let at = 0; at < 64; at += 4) ram.storeWord(PAGE + at, pick())
      ram.guard.protect(PAGE)
      for (let i = 0; i < 20; i++) {
        const at = random.below(GUARDED_BYTES - 64)
        refusalOf(() => ram.store(at, new Uint8Array(1 + random.below(64))))
        ram.dmaWrite(at, new Uint8Array(64), 0, 64)
      }
    }
  })
})

describe('the host’s own accesses', () => {
  test('words and pairs are aligned, inside, and little-endian', () => {
    const ram = new HostRam(4096)
    ram.storePair(8, 0x01020304, -2)
    expect([...ram.load(8, 8)]).toEqual([4, 3, 2, 1, 254, 255, 255, 255])
    ram.storeWord(8, 0xffffffff)
    expect([ram.loadWord(8), ram.loadWord(12)]).toEqual([-1, -2])
    const wrong = [
      () => ram.loadWord(2),
      () => ram.storeWord(4096, 0),
      () => ram.storePair(4, 0, 0),
      () => ram.load(-1, 2),
      () => ram.load(4090, 7),
      () => ram.store(0.5, new Uint8Array(1)),
      () => ram.load(Number.NaN, 1),
      () => new HostRam(100),
      () => new HostRam(2 ** 31),
    ]
    for (const access of wrong) expect(access).toThrow(RangeError)
  })

  test('P3-12: another thread sees a pair whole, never half', async () => {
    const ram = new HostRam(64)
    const source = `
      const { parentPort, workerData } = require('node:worker_threads')
      const pairs = new BigInt64Array(workerData)
      parentPort.postMessage('ready')
      let torn = 0, seen = new Set()
      while (Atomics.load(pairs, 7) === 0n) {
        const pair = BigInt.asUintN(64, Atomics.load(pairs, 0))
        if (pair >> 32n !== (pair & 0xffffffffn)) torn++
        if (seen.size < 10) Atomics.store(pairs, 6, BigInt(seen.add(pair).size))
      }
      parentPort.postMessage({ torn, seen: seen.size })`
    const worker = new Worker(source, { eval: true, workerData: ram.buffer })
    const next = (): Promise<unknown> => new Promise((resolve) => worker.once('message', resolve))
    await next()
    const done = next()
    // On a busy machine the other thread may get its turn late.
    const seenSoFar = new BigInt64Array(ram.buffer, 48, 1)
    const goesOn = (): boolean => Atomics.load(seenSoFar, 0) < 10n
    for (let i = 0; i < 300_000 || goesOn(); i++) ram.storePair(0, i % 2 ** 31, i % 2 ** 31)
    ram.storePair(56, 1, 0)
    const { torn, seen } = (await done) as { torn: number; seen: number }
    await worker.terminate()
    expect(torn).toBe(0)
    expect(seen).toBe(10)
  })
})
