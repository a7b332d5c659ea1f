/**
 * The host's memory behind PCIe: what a DMA write is worth, and what makes it durable (crash-model
 * 2.1; source 2, S905, S1008).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import {
  CPU_HIT_NS,
  CPU_MISS_NS,
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  NO_SNOOP_HONOURED,
  type Platform,
} from '../../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { CUT_STRATEGIES, pending } from '../../../../boards/emulator/medium/power-cut.ts'
import { EmulatedMachine } from '../../../../boards/emulator/run/machine.ts'
import {
  ARRANGE,
  BAD_COMMAND,
  CHECK,
  COMPARE,
  COMPARE_SWAP,
  COPY,
  COPY_CLEAN,
  DIFFERENT,
  DMA_FAILED,
  DONE,
  EQUAL,
  FENCE,
  FETCH_ADD,
  FLUSH,
  GUARD,
  HOST_SPACE,
  MEDIA_ERROR,
  NO_SNOOP,
  NVDIMM_SPACE,
  PRIVATE_AT,
  TRANSMIT,
} from '../../../../firmware/board/hal.ts'
import { bareMachine, runList } from '../../../support/cards/bare-machine.ts'
import { FACTS } from '../../../support/cards/test-card.ts'
import { judgedGuard } from '../../../support/judges/crc32c.ts'

const BYTES = 8192
const H = HOST_SPACE
const N = NVDIMM_SPACE
const P = PRIVATE_AT
const SEED = Number(process.env.SEED ?? 20261121)

interface Setting {
  readonly machine: EmulatedMachine
  readonly host: HostMemory
}

function setting(platform: Platform, noise?: Random): Setting {
  const host = new HostMemory({
    part: new Nvdimm({ bytes: BYTES }),
    platform,
    ...(noise === undefined ? {} : { noise }),
  })
  return { machine: bareMachine(BYTES, { host }), host }
}

const run = ({ machine }: Setting, ...list: readonly (readonly number[])[]): number[] =>
  runList(machine, ...list)

/** How many of the first 64 bytes at `at` the worst cut leaves as they were written. */
function leftAfterWorstCut(host: HostMemory, at: number): number {
  host.powerCut({ random: new Random(SEED), strategy: 'none' })
  return host.part.durable.slice(at, at + 64).filter((byte, i) => byte === 1 + i).length
}

const WRITE = [COPY, P, H, 64, 0]
const WRITE_NS = [COPY, P, H, 64, NO_SNOOP]
/** A read of one byte, from anywhere. */
const READ = [COPY, H + 4096, P + 2048, 1, 0]

describe('what a cut leaves of a DMA write', () => {
  test('P2-14: a write alone is posted: whatever the platform, a cut may lose it', () => {
    for (const platform of [DDIO_OFF, DDIO_ON, NO_SNOOP_HONOURED]) {
      for (const write of [WRITE, WRITE_NS]) {
        const s = setting(platform)
        expect(run(s, write, [FENCE])).toEqual([DONE, DONE])
        expect(s.host.postedWrites).toBe(1)
        expect(leftAfterWorstCut(s.host, 0)).toBe(0)
      }
    }
  })

  test('P2-12, P2-14: a read behind it makes it durable, if it goes past the cache', () => {
    for (const [platform, write, left] of [
      [DDIO_OFF, WRITE, 64],
      [DDIO_OFF, WRITE_NS, 64],
      [DDIO_ON, WRITE, 0],
      [DDIO_ON, WRITE_NS, 0],
      [NO_SNOOP_HONOURED, WRITE, 0],
      [NO_SNOOP_HONOURED, WRITE_NS, 64],
    ] as const) {
      const s = setting(platform)
      run(s, write, READ)
      expect(leftAfterWorstCut(s.host, 0)).toBe(left)
    }
  })

  test('P2-14: a read in front of the write makes nothing durable', () => {
    const s = setting(DDIO_OFF)
    run(s, READ, WRITE)
    expect(leftAfterWorstCut(s.host, 0)).toBe(0)
  })

  test('every command that reads the memory pushes what was written before it', () => {
    for (const reader of [
      [COPY, H + 64, N, 64, 0],
      [CHECK, H + 64, P + 2048, 64, P],
      [CHECK, P, P + 2048, 64, H + 64],
      [COMPARE, H + 64, P, 64, 0],
      [COMPARE, P, H + 64, 64, 0],
      [FETCH_ADD, P, H + 64, 8, P + 2048],
    ]) {
      const s = setting(DDIO_OFF)
      run(s, WRITE, reader)
      expect(s.host.postedWrites, reader.join(' ')).toBe(0)
      expect(leftAfterWorstCut(s.host, 0)).toBe(64)
    }
  })

  test('what is posted or in the cache is torn as any adversary likes', () => {
    const seen = new Set<number>()
    for (const strategy of CUT_STRATEGIES) {
      for (let round = 0; round < 20; round++) {
        const s = setting(DDIO_ON)
        run(s, WRITE)
        s.host.powerCut({ random: new Random(SEED + round), strategy })
        seen.add(s.host.part.durable.slice(0, 64).filter((byte) => byte !== 0).length)
      }
    }
    expect([...seen].sort((a, b) => a - b)).toEqual([0, 8, 16, 24, 32, 40, 48, 56, 64])
  })
})

describe('P2-20: the CPU writes the cache back', () => {
  test('a clean and a fence make durable what has arrived; either alone does not', () => {
    for (const [steps, left] of [
      ['clean', 0],
      ['fence', 0],
      ['fence clean', 0],
      ['clean fence', 64],
    ] as const) {
      const { host, machine } = setting(DDIO_ON)
      host.dmaWrite(0, machine.packets, P, 64, false)
      host.load(4096, 8)
      for (const step of steps.split(' ')) {
        if (step === 'clean') host.clean(0, 64)
        else host.fence()
      }
      expect(leftAfterWorstCut(host, 0), steps).toBe(left)
    }
  })

  test('a clean does not cover a write that has not arrived, nor one that comes later', () => {
    for (const early of [true, false]) {
      const { host, machine } = setting(DDIO_ON)
      if (early) host.dmaWrite(0, machine.packets, P, 64, false)
      host.clean(0, 64)
      if (!early) host.dmaWrite(0, machine.packets, P, 64, false)
      host.dmaRead()
      host.fence()
      expect(leftAfterWorstCut(host, 0)).toBe(0)
    }
  })

  test('lines that were not cleaned stay pending permanently', () => {
    const { host, machine } = setting(DDIO_ON)
    host.dmaWrite(0, machine.packets, P, 128, false)
    host.dmaRead()
    host.clean(0, 64)
    for (let i = 0; i < 10; i++) host.fence()
    expect(pending(host.part).map(({ at }) => at)).toEqual([64, 72, 80, 88, 96, 104, 112, 120])
  })
})

describe('the machine', () => {
  test('reads and compares what it wrote, whether it has arrived or not', () => {
    const s = setting(DDIO_ON)
    expect(
      run(s, WRITE, [COMPARE, P, H, 64, 0], [COMPARE, P + 8, H, 64, 0], [COPY, H, P + 2048, 64, 0]),
    ).toEqual([DONE, EQUAL, DIFFERENT, DONE])
    const read = s.machine.packets.slice(P + 2048, P + 2112)
    expect([...read]).toEqual([...s.machine.packets.slice(P, P + 64)])
  })

  test('a check code may be made of the memory, and left there', () => {
    const s = setting(DDIO_OFF)
    const list = [WRITE, [CHECK, H, P + 2048, 64, P], [CHECK, H, H + 256, 64, P]]
    expect(run(s, ...list, [COMPARE, H + 256, P + 2048, 16, 0])).toEqual([DONE, DONE, DONE, EQUAL])
  })

  test('an atomic sees the writes before it, and is in the cache or durable like them', () => {
    for (const [platform, left] of [
      [DDIO_OFF, 8],
      [DDIO_ON, 0],
    ] as const) {
      for (const op of [FETCH_ADD, COMPARE_SWAP]) {
        const s = setting(platform)
        s.machine.packets.set([0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], P + 512)
        expect(run(s, [op, P + 512, H + 64, 8, P + 2048])).toEqual([DONE])
        expect([...s.host.part.live.slice(64, 72)]).toEqual([5, 0, 0, 0, 0, 0, 0, 0])
        s.host.powerCut({ random: new Random(SEED), strategy: 'none' })
        expect(s.host.part.durable[64]).toBe(left === 8 ? 5 : 0)
      }
    }
  })

  test('no command writes back the caches of a host, and none sends from its memory', () => {
    expect(run(setting(DDIO_ON), [FLUSH, 0, H, 64, 0])).toEqual([BAD_COMMAND])
    expect(run(setting(DDIO_ON), [TRANSMIT, H, 0, 64, 0])).toEqual([BAD_COMMAND])
  })

  test('an address outside of the memory is refused, and every one is without a host', () => {
    for (const at of [H + BYTES, H - 1, H + BYTES - 63, H + 0.5, 3 * N, Number.NaN]) {
      for (const op of [COPY, COPY_CLEAN]) {
        const s = setting(DDIO_ON)
        expect(run(s, [op, P, at, 64, 0]), `${at}`).toEqual([BAD_COMMAND])
        expect(run(s, [op, at, P, 64, 0]), `${at}`).toEqual([BAD_COMMAND])
        expect(s.host.postedWrites).toBe(0)
      }
    }
    const machine = new EmulatedMachine({
      facts: { ...FACTS, nvdimmBytes: BYTES },
      nvdimm: new Nvdimm({ bytes: BYTES }),
      transmit: () => {},
    })
    const lonely = { machine, host: setting(DDIO_ON).host }
    expect(run(lonely, WRITE)).toEqual([BAD_COMMAND])
  })

  test('a bad line fails the read of it, and heals when it is written whole', () => {
    const s = setting(DDIO_OFF)
    s.host.part.poison(0)
    expect(run(s, [COPY, H + 32, P + 2048, 8, 0])).toEqual([MEDIA_ERROR])
    run(s, [COPY_CLEAN, P, H, 32, 0])
    expect(run(s, [COPY, H + 32, P + 2048, 8, 0])).toEqual([MEDIA_ERROR])
    expect(run(s, [COPY_CLEAN, P, H, 64, 0], [COPY, H + 32, P + 2048, 8, 0])).toEqual([DONE, DONE])
  })

  test('a line that takes nothing shows when it is read: nobody answers a posted write', () => {
    const s = setting(DDIO_OFF)
    s.host.part.refuseWrites(0)
    expect(run(s, WRITE, [COPY, H, P + 2048, 1, 0])).toEqual([DONE, MEDIA_ERROR])
  })

  test('facts that state another memory than there is are refused', () => {
    const host = new HostMemory({ part: new Nvdimm({ bytes: BYTES }) })
    const nvdimm = new Nvdimm({ bytes: BYTES })
    const facts = { ...FACTS, nvdimmBytes: BYTES }
    expect(() => new EmulatedMachine({ facts, nvdimm, host, transmit: () => {} })).toThrow(
      RangeError,
    )
  })
})

test('P2-12: the time of a CPU load shows whether a DMA write went into the cache', () => {
  for (const [platform, write, ns] of [
    [DDIO_ON, WRITE, CPU_HIT_NS],
    [DDIO_ON, WRITE_NS, CPU_HIT_NS],
    [DDIO_OFF, WRITE, CPU_MISS_NS],
    [NO_SNOOP_HONOURED, WRITE, CPU_HIT_NS],
    [NO_SNOOP_HONOURED, WRITE_NS, CPU_MISS_NS],
  ] as const) {
    const s = setting(platform)
    s.host.load(0, 64)
    s.host.evict(0, 64)
    run(s, write)
    expect(s.host.load(0, 64).ns).toBe(ns)
    expect(s.host.load(0, 64).ns, 'the second load finds it').toBe(CPU_HIT_NS)
  }
})

describe('R1-E1: the host loses its power alone', () => {
  const READ_BACK = [COPY, H, P + 2048, 64, 0]

  test('R1-E1: it takes what was posted and what was cached, and leaves what was durable', () => {
    for (const platform of [DDIO_OFF, DDIO_ON]) {
      const s = setting(platform)
      run(s, WRITE, READ)
      s.host.clean(0, 64)
      s.host.fence()
      // One more that is pushed, and one that is on its way.
      run(s, [COPY, P, H + 64, 64, 0], READ, [COPY, P, H + 128, 64, 0])
      s.host.link.loseHost()
      const kept = platform === DDIO_OFF
      const first = [0, 64, 128].map((at) => s.host.part.live[at])
      expect(first, `DDIO ${platform.ddio}`).toEqual([1, kept ? 1 : 0, 0])
      expect(s.host.part.live).toEqual(s.host.part.durable)
    }
  })

  test('R1-E1: of what is posted or cached any part may survive: the adversary chooses', () => {
    const left = new Set<number>()
    for (const strategy of CUT_STRATEGIES) {
      const s = setting(DDIO_ON)
      run(s, WRITE, READ, [COPY, P, H + 64, 64, 0])
      s.host.link.loseHost({ random: new Random(SEED), strategy })
      const bytes = s.host.part.durable.subarray(0, 128)
      left.add(bytes.filter((byte, i) => byte === 1 + (i & 63)).length)
      expect(pending(s.host.part)).toEqual([])
    }
    expect([...left]).toEqual(expect.arrayContaining([0, 128]))
    expect(left.size).toBeGreaterThan(3)
  })

  test('R1-E1: while it is away reads fail and writes are lost; the card goes on', () => {
    const s = setting(DDIO_ON)
    s.host.link.loseHost()
    expect(run(s, WRITE, [COPY, P, N, 64, 0], [FENCE])).toEqual([DONE, DONE, DONE])
    expect(run(s, READ_BACK)).toEqual([DMA_FAILED])
    s.host.comeBack()
    expect(run(s, READ_BACK)).toEqual([DONE])
    expect([s.host.part.live[0], s.machine.nvdimm.live[0]]).toEqual([0, 1])
  })

  test('R1-E1: it comes back with DDIO the other way, cleared, or with other memory', () => {
    const s = setting(DDIO_OFF)
    run(s, WRITE, READ)
    s.host.link.loseHost()
    s.host.comeBack({ platform: DDIO_ON })
    expect([s.host.platform.ddio, s.host.part.live[0]]).toEqual([true, 1])
    s.host.link.loseHost()
    s.host.comeBack({ part: 'cleared' })
    expect([s.host.platform.ddio, s.host.part.live[0]]).toEqual([true, 0])
    s.host.link.loseHost()
    const content = new Uint8Array(4096).fill(7)
    s.host.comeBack({ part: new Nvdimm({ bytes: 4096, content }) })
    expect(run(s, READ_BACK, [COPY, H + 4096, P + 2048, 1, 0])).toEqual([DONE, DMA_FAILED])
    expect(s.machine.packets[P + 2048]).toBe(7)
    expect([s.host.load(4096, 1).bytes, s.host.load(4095, 1).bytes?.[0]]).toEqual([null, 7])
    s.host.link.loseHost()
    s.host.comeBack({ part: new Nvdimm({ bytes: 4 * BYTES }) })
    expect(run(s, [COPY, H + BYTES - 64, P + 2048, 64, 0])).toEqual([DONE])
    // The card was told of a window, and sees no more than that.
    expect(run(s, [COPY, H + BYTES, P + 2048, 1, 0])).toEqual([BAD_COMMAND])
  })
})

describe('S1-M6: pieces of the memory', () => {
  /** The end of the first piece shown, at offset 4096, is the middle of what is looked at. */
  const ACROSS = H + 4096 - 100

  function arranged(): Setting {
    const host = new HostMemory({ part: new Nvdimm({ bytes: 4 * 4096 }), platform: DDIO_OFF })
    const machine = bareMachine(4 * 4096, { host })
    new Uint32Array(machine.memory, P + 4096, 4).set([3, 1, 1, 1])
    expect(runList(machine, [ARRANGE, P + 4096, 0, 16, 0])).toEqual([DONE])
    return { machine, host }
  }

  test('what lies across their edge is stored, loaded, compared and checked as one', () => {
    const s = arranged()
    const data = s.machine.packets.slice(P, P + 200)
    expect(run(s, [COPY, P, ACROSS, 200, 0], [COPY, ACROSS, P + 2048, 200, 0])).toEqual([
      DONE,
      DONE,
    ])
    expect(s.machine.packets.slice(P + 2048, P + 2248)).toEqual(data)
    const { live } = s.host.part
    expect(live.slice(4 * 4096 - 100, 4 * 4096)).toEqual(data.slice(0, 100))
    expect(live.slice(4096, 4096 + 100)).toEqual(data.slice(100))
    expect(live.filter((byte) => byte !== 0).length).toBe(data.length)
    const checks = [
      [CHECK, ACROSS, P + 3000, 200, P + 512],
      [CHECK, P, P + 3016, 200, P + 512],
      [COMPARE, P + 3000, P + 3016, 16, 0],
      [COMPARE, ACROSS, P, 200, 0],
      [COMPARE, P + 1, ACROSS, 200, 0],
      [COPY, ACROSS, H + 64, 200, 0],
      [COMPARE, H + 64, ACROSS, 200, 0],
      [GUARD, ACROSS, 0, 200, judgedGuard(data)],
      [FETCH_ADD, P, H + 4096, 8, P + 3032],
    ]
    const equal = [DONE, DONE, EQUAL, EQUAL, DIFFERENT, DONE, EQUAL, DONE, DONE]
    expect(run(s, ...checks)).toEqual(equal)
    expect(s.machine.packets.slice(P + 3032, P + 3040)).toEqual(data.slice(100, 108).reverse())
  })

  test('a line of either piece that fails, fails the command, and nothing is loaded', () => {
    for (const line of [(4 * 4096 - 64) / 64, 4096 / 64]) {
      const s = arranged()
      s.host.part.poison(line)
      const before = s.machine.packets.slice(P + 2048, P + 2248)
      expect(run(s, [COPY, ACROSS, P + 2048, 200, 0])).toEqual([MEDIA_ERROR])
      expect(s.machine.packets.slice(P + 2048, P + 2248)).toEqual(before)
    }
  })

  test('their end is the end of what is shown, and what cannot be shown changes nothing', () => {
    const s = arranged()
    expect(run(s, [COPY, H + 8192, P, 0, 0])).toEqual([DONE])
    expect(run(s, [COPY, H + 8191, P, 2, 0])).toEqual([BAD_COMMAND])
    const wrong = [
      [3, 2],
      [4, 1],
      [0, 0],
      [1, 2, 2, 1],
      [2, 1, 2, 1],
      [2 ** 32 - 1, 2],
    ]
    for (const table of [...wrong, new Array(34).fill(0)]) {
      new Uint32Array(s.machine.memory, P + 4096, table.length).set(table)
      expect(run(s, [ARRANGE, P + 4096, 0, 4 * table.length, 0])).toEqual([BAD_COMMAND])
    }
    expect(run(s, [ARRANGE, P + 4100, 0, 8, 0])).toEqual([BAD_COMMAND])
    expect(run(s, [ARRANGE, P + 4096, 0, 4, 0])).toEqual([BAD_COMMAND])
    expect(run(s, [ARRANGE, N, 0, 8, 0])).toEqual([BAD_COMMAND])
    expect(run(s, [COPY, H + 8191, P, 1, 0], [COPY, H + 8192, P, 1, 0])).toEqual([
      DONE,
      BAD_COMMAND,
    ])
    expect(run(s, [ARRANGE, P, 0, 0, 0], [COPY, H + 8192, P, 1, 0])).toEqual([DONE, DONE])
  })
})
