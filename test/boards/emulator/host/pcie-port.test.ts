/**
 * The port between a driver and a card in one process: registers, doorbells, interrupts, and what
 * becomes of them when either side, or the link, goes (P3-11, P3-12, P3-13, H1, H4).
 */

import { describe, expect, test } from 'vitest'
import { VirtualClock } from '../../../../boards/emulator/base/clock.ts'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { DDIO_ON, HostMemory } from '../../../../boards/emulator/host/host-memory.ts'
import { EmulatedPort } from '../../../../boards/emulator/host/host-port.ts'
import { HostRam } from '../../../../boards/emulator/host/host-ram.ts'
import {
  CPU_WAKE_NS,
  DMA_READ_NS,
  DMA_WRITE_NS,
  DOORBELL_NS,
  LINK_BYTES_PER_NS,
} from '../../../../boards/emulator/host/pcie.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedDpu } from '../../../../boards/emulator/run/dpu.ts'
import { ForbiddenAccess, type HostPort } from '../../../../boards/host-port.ts'
import { NO_CARD } from '../../../../boards/port/registers.ts'
import {
  PORT_AT,
  PORT_CONSUMED,
  PORT_DROPPED,
  PORT_EPOCH,
  PORT_HEADER,
  PORT_LINK,
  PORT_POINTER,
  PORT_PRODUCED,
  PORT_REGISTER,
  PORT_RING,
} from '../../../../firmware/board/hal.ts'
import { DOORBELLS, LINE_BYTES } from '../../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../../firmware/board/memory-map.ts'
import * as header from '../../../../firmware/host/header-page.ts'
import { Z3_POINTER, ZONE1_BYTES, ZONE3_BYTES } from '../../../../firmware/host/queue-info.ts'

const SEED = Number(process.env.SEED ?? 20261121)
const RAM_BYTES = 65536
const PAGE = 8192
const ZONE1 = 16384
const ZONE2 = 20480
const ZONE3 = 24576

const EPOCH = PORT_EPOCH - PORT_AT
const HEADER = PORT_HEADER - PORT_AT
const REGISTER = PORT_REGISTER - PORT_AT
const POINTER = PORT_POINTER - PORT_AT
const LINK = PORT_LINK - PORT_AT

/** A port with a card that has no firmware: what arrives is looked at in its packet memory. */
class Bare {
  readonly clock = new VirtualClock()
  readonly port: EmulatedPort = new EmulatedPort({ ram: new HostRam(RAM_BYTES), clock: this.clock })
  readonly words = new Int32Array(MEMORY_BYTES >> 2)
  wakes = 0
  interrupts = 0

  constructor() {
    this.port.onInterrupt(() => this.interrupts++)
    this.start()
  }

  start(): void {
    this.words.fill(0)
    this.port.cardStarts(new Uint8Array(this.words.buffer))
    this.port.cardServes(() => this.wakes++)
    this.clock.runUntilIdle()
    this.wakes = 0
    this.interrupts = 0
  }

  word(at: number): number {
    return this.words[at >> 2]!
  }

  /** The doorbells in the ring that nobody has taken. */
  ring(): number[][] {
    const all: number[][] = []
    for (
      let i = this.word(PORT_CONSUMED) >>> 0;
      i !== this.word(PORT_PRODUCED) >>> 0;
      i = (i + 1) >>> 0
    ) {
      const at = PORT_RING + (i % DOORBELLS) * 8
      all.push([this.word(at), this.word(at + 4)])
    }
    return all
  }

  /** The host hands over a header page with so many queues. */
  handOver(queues = 4): void {
    const { memory } = this.port
    memory.storeWord(PAGE + header.HEADER_QUEUES, queues)
    memory.storePair(PAGE + header.HEADER_ZONE1, ZONE1, 0)
    memory.storePair(PAGE + header.HEADER_ZONE2, ZONE2, 0)
    memory.storePair(PAGE + header.HEADER_ZONE3, ZONE3, 0)
    this.port.writeRegister(HEADER, PAGE / 4096)
    this.port.writeRegister(EPOCH, 1)
  }
}

describe('registers and doorbells', () => {
  test('P3-13: the register form: both words at once, a while later, and the card is woken', () => {
    const bare = new Bare()
    const { clock, port } = bare
    const from = clock.nowUs
    port.writeRegisterPair(REGISTER, (1 << 16) | 3, 7)
    clock.runUntil(from + DOORBELL_NS / 1000 - 0.01)
    expect([bare.word(PORT_REGISTER), bare.word(PORT_POINTER), bare.wakes]).toEqual([0, 0, 0])
    clock.runUntil(from + DOORBELL_NS / 1000)
    expect([bare.word(PORT_REGISTER), bare.word(PORT_POINTER)]).toEqual([(1 << 16) | 3, 7])
    expect([bare.wakes, port.memory.link.counts.registerWrites]).toEqual([1, 1])
  })

  test('P3-13: the ring: first in, first out; what finds it full is counted and lost', () => {
    for (const before of [0, 5, 2 ** 32 - 3]) {
      const bare = new Bare()
      bare.words[PORT_PRODUCED >> 2] = before
      bare.words[PORT_CONSUMED >> 2] = before
      const rung = Array.from({ length: DOORBELLS + 3 }, (_, i) => [i, 2 * i])
      for (const [low, high] of rung) bare.port.ringDoorbell(low!, high!)
      bare.clock.runUntilIdle()
      expect(bare.ring()).toEqual(rung.slice(0, DOORBELLS))
      expect(bare.word(PORT_DROPPED)).toBe(3)
      bare.words[PORT_CONSUMED >> 2] = bare.word(PORT_CONSUMED) + 2
      bare.port.ringDoorbell(77, 78)
      bare.clock.runUntilIdle()
      expect(bare.ring().at(-1)).toEqual([77, 78])
      expect(bare.ring().length).toBe(DOORBELLS - 1)
    }
  })

  test('P3-12: whoever hears a doorbell finds the pointer that it was rung for, or a newer', () => {
    const random = new Random(SEED)
    const bare = new Bare()
    bare.handOver()
    bare.clock.runUntilIdle()
    let heard = 0
    const look = (): void => {
      for (const [queue, pointer] of bare.ring()) {
        const stored = bare.port.memory.loadWord(ZONE3 + queue! * ZONE3_BYTES + Z3_POINTER)
        expect(stored, `SEED=${SEED}`).toBeGreaterThanOrEqual(pointer!)
        heard++
      }
      bare.words[PORT_CONSUMED >> 2] = bare.word(PORT_PRODUCED)
    }
    const pointers = [0, 0, 0, 0]
    for (let i = 0; i < 2000; i++) {
      const queue = random.below(4)
      pointers[queue]! += 1 + random.below(3)
      bare.port.memory.storePair(ZONE3 + queue * ZONE3_BYTES, pointers[queue]!, i)
      bare.port.ringDoorbell(queue, pointers[queue]!)
      bare.clock.runUntil(bare.clock.nowUs + random.below(8) / 10)
      look()
    }
    bare.clock.runUntilIdle()
    look()
    expect(heard).toBe(2000)
  })

  test('writes arrive in their order, whatever they are; a read pushes those before it', () => {
    const bare = new Bare()
    const { port, clock } = bare
    port.writeRegister(HEADER, 5)
    port.ringDoorbell(1, 2)
    clock.runUntil(clock.nowUs + 0.1)
    port.writeRegister(HEADER, 6)
    expect([bare.word(PORT_HEADER), bare.ring()]).toEqual([0, []])
    expect(port.readRegister(HEADER)).toBe(6)
    expect([bare.ring(), bare.wakes]).toEqual([[[1, 2]], 1])
    clock.runUntilIdle()
    expect([bare.ring(), bare.word(PORT_HEADER)]).toEqual([[[1, 2]], 6])
    for (let i = 0; i < 50; i++) port.writeRegister(i % 2 === 0 ? HEADER : POINTER, i)
    clock.runUntilIdle()
    expect([bare.word(PORT_HEADER), bare.word(PORT_POINTER)]).toEqual([48, 49])
  })

  test('P3-11: every register that is not the host’s is refused, and nothing is sent', () => {
    const bare = new Bare()
    for (let at = -8; at < 2 * LINE_BYTES; at++) {
      const allowed = [EPOCH, HEADER, REGISTER, POINTER].includes(at)
      const write = (): void => bare.port.writeRegister(at, 0)
      if (allowed) write()
      else expect(write, `register ${at}`).toThrow(ForbiddenAccess)
      const pair = (): void => bare.port.writeRegisterPair(at, 0, 0)
      if ([EPOCH, REGISTER].includes(at)) pair()
      else expect(pair, `pair ${at}`).toThrow()
      const read = (): number => bare.port.readRegister(at)
      if (at >= 0 && at <= LINK && at % 4 === 0) read()
      else expect(read, `register ${at}`).toThrow(RangeError)
    }
    expect(bare.port.memory.link.counts.registerWrites).toBe(6)
  })

  test('H1: a doorbell that is lost, repeated, torn or late, each', () => {
    const results = (fate: object): number[][] => {
      const bare = new Bare()
      bare.words.set([91, 92, 93, 94, 95, 96], PORT_RING >> 2)
      bare.port.script = ({ number }) => (number === 0 ? fate : undefined)
      bare.port.ringDoorbell(1, 10)
      bare.port.ringDoorbell(2, 20)
      bare.clock.runUntilIdle()
      return bare.ring()
    }
    expect(results({})).toEqual([
      [1, 10],
      [2, 20],
    ])
    expect(results({ lost: true })).toEqual([[2, 20]])
    expect(results({ times: 2 })).toEqual([
      [1, 10],
      [1, 10],
      [2, 20],
    ])
    expect(results({ torn: 'low' })[0]).toEqual([1, 92])
    expect(results({ torn: 'high' })[0]).toEqual([91, 10])
    expect(results({ delayNs: 1 })).toEqual([
      [2, 20],
      [1, 10],
    ])
  })

  test('H1: of the register form only a half arrives; the other is what it was', () => {
    for (const [torn, left] of [
      ['low', [3, 10]],
      ['high', [1, 30]],
    ] as const) {
      const bare = new Bare()
      bare.port.writeRegisterPair(REGISTER, 1, 10)
      bare.clock.runUntilIdle()
      bare.port.script = () => ({ torn })
      bare.port.writeRegisterPair(REGISTER, 3, 30)
      bare.clock.runUntilIdle()
      expect([bare.word(PORT_REGISTER), bare.word(PORT_POINTER)]).toEqual(left)
    }
  })

  test('H1: by chance: the same seed, the same doorbells', () => {
    const rung = (seed: number): number[][] => {
      const bare = new Bare()
      const random = new Random(seed)
      bare.port.chances = { random, lost: 0.2, twice: 0.2, torn: 0.1, late: 0.1 }
      for (let i = 1; i <= 100; i++) bare.port.ringDoorbell(i, 1000 + i)
      bare.clock.runUntilIdle()
      return bare.ring()
    }
    expect(rung(SEED)).toEqual(rung(SEED))
    expect(rung(SEED)).not.toEqual(rung(SEED + 1))
    const firsts = rung(SEED).map(([low]) => low!)
    expect(new Set(firsts).size).toBeLessThan(100)
    expect(firsts).not.toEqual([...firsts].sort((a, b) => a - b))
  })
})

describe('the memory behind it', () => {
  test('P3-11: from the epoch on the zones are guarded, and no longer with epoch 0', () => {
    const bare = new Bare()
    const { memory } = bare.port
    memory.storeWord(ZONE1, 5)
    bare.handOver()
    expect(() => memory.storeWord(ZONE1 + 3 * ZONE1_BYTES, 5)).toThrow(ForbiddenAccess)
    memory.storeWord(ZONE1 + 4 * ZONE1_BYTES, 5)
    bare.port.writeRegister(EPOCH, 0)
    memory.storeWord(ZONE1 + 3 * ZONE1_BYTES, 5)
    expect(bare.port.memory.guard.header).toBe(-1)
  })

  test('a header page that is nowhere guards nothing, and hurts nobody', () => {
    const bare = new Bare()
    for (const page of [RAM_BYTES / 4096, 2 ** 31, 0xffffffff, -1]) {
      bare.port.writeRegister(HEADER, page)
      bare.port.writeRegister(EPOCH, page + 1)
      bare.clock.runUntilIdle()
      bare.port.memory.storeWord(ZONE1, 1)
      expect(bare.word(PORT_HEADER)).toBe(page | 0)
    }
  })

  test('an interrupt: the card’s write of that word, as it arrives, wakes the host once', () => {
    const bare = new Bare()
    const { clock, port } = bare
    const write = (at: number, length: number): void => {
      port.memory.dmaWrite(at, new Uint8Array(length), 0, length)
    }
    write(PAGE + header.HEADER_INTERRUPTS, 4)
    clock.runUntilIdle()
    expect(bare.interrupts, 'before the epoch it is any word').toBe(0)
    bare.handOver()
    clock.runUntilIdle()
    const from = clock.nowUs
    write(PAGE + header.HEADER_CARD, 12)
    write(PAGE + header.HEADER_INTERRUPTS + 4, 4)
    clock.runUntilIdle()
    expect(bare.interrupts, 'its neighbours are not it').toBe(0)
    const later = clock.nowUs
    write(PAGE + header.HEADER_INTERRUPTS, 4)
    write(PAGE + header.HEADER_CARD, 64)
    clock.runUntil(later + (DMA_WRITE_NS + CPU_WAKE_NS) / 1000 - 0.01)
    expect(bare.interrupts).toBe(0)
    clock.runUntil(later + (DMA_WRITE_NS + CPU_WAKE_NS) / 1000)
    expect(bare.interrupts).toBe(1)
    clock.runUntilIdle()
    expect(bare.interrupts).toBe(1)
    expect(later).toBeGreaterThan(from)
  })

  test('time and timers are those of the emulation', () => {
    const { port, clock } = new Bare()
    const seen: number[] = []
    const from = port.now()
    port.setTimer(from + 10, () => seen.push(10))
    const cancel = port.setTimer(from + 5, () => seen.push(5))
    cancel()
    clock.runUntilIdle()
    expect([seen, port.now() - from]).toEqual([[10], 10])
  })
})

describe('when one of them goes', () => {
  test('H4: the card loses its power: no registers, doorbells are lost, the host is told', () => {
    const bare = new Bare()
    bare.handOver()
    bare.port.ringDoorbell(1, 1)
    bare.port.cardStops()
    bare.port.ringDoorbell(2, 2)
    bare.port.writeRegister(HEADER, 9)
    expect(bare.port.readRegister(LINK)).toBe(NO_CARD)
    // Without a card nothing is anybody's: the host may carve its memory again.
    bare.port.memory.storeWord(ZONE1, 1)
    bare.clock.runUntilIdle()
    expect([bare.interrupts, bare.ring(), bare.port.lost]).toEqual([1, [], 5])

    bare.start()
    expect([EPOCH, HEADER, LINK].map((at) => bare.port.readRegister(at))).toEqual([0, 0, 1])
    bare.port.ringDoorbell(3, 3)
    bare.clock.runUntilIdle()
    expect(bare.ring()).toEqual([[3, 3]])
  })

  test('H4: the link goes and comes back: registers of 0, the ring as far as it was', () => {
    const bare = new Bare()
    const { port, clock } = bare
    bare.handOver()
    port.ringDoorbell(1, 1)
    clock.runUntilIdle()
    bare.wakes = 0
    port.ringDoorbell(2, 2)
    port.memory.link.remove()
    expect([EPOCH, LINK].map((at) => port.readRegister(at))).toEqual([NO_CARD, NO_CARD])
    expect([bare.word(PORT_LINK), bare.word(PORT_EPOCH), bare.wakes]).toEqual([0, 0, 1])
    port.ringDoorbell(3, 3)
    port.memory.storeWord(ZONE1, 1)
    clock.runUntilIdle()
    expect(bare.interrupts).toBe(1)

    port.memory.link.restore()
    clock.runUntilIdle()
    // Who looks only now sees that it is another link.
    expect([EPOCH, HEADER, LINK].map((at) => port.readRegister(at))).toEqual([0, 0, 2])
    expect([bare.word(PORT_LINK), bare.wakes, bare.interrupts]).toEqual([2, 2, 2])
    port.ringDoorbell(4, 4)
    clock.runUntilIdle()
    expect(bare.ring()).toEqual([
      [1, 1],
      [4, 4],
    ])
  })

  test('H4: the host resets: its memory is lost, and nobody is called any more', () => {
    const bare = new Bare()
    const { port, clock } = bare
    bare.handOver()
    let called = 0
    port.setTimer(port.now() + 5, () => called++)
    port.resetHost()
    clock.runUntilIdle()
    expect([called, bare.interrupts, bare.word(PORT_LINK)]).toEqual([0, 0, 0])
    expect(port.memory.load(0, RAM_BYTES)).toEqual(new Uint8Array(RAM_BYTES))
    port.memory.link.restore()
    expect(port.readRegister(LINK)).toBe(2)
  })
})

interface Whole {
  readonly clock: VirtualClock
  readonly port: EmulatedPort
  readonly dpu: EmulatedDpu
  readonly host: HostMemory
}

/** A card with its firmware, before a host with both memories, or without persistent memory. */
function whole(persistent: boolean): Whole {
  const clock = new VirtualClock()
  const host = new HostMemory({ part: new Nvdimm({ bytes: 65536 }) })
  const ram = new HostRam(RAM_BYTES, host.link)
  const port = new EmulatedPort({ ram, clock })
  const nvdimm = new Nvdimm({ bytes: 65536 })
  const options = { nvdimm, port, clock, seed: SEED, engine: 'node' as const }
  const dpu = new EmulatedDpu({ ...options, ...(persistent ? { host } : {}), transmit: () => {} })
  return { clock, port, dpu, host }
}

describe('with a card that has firmware', () => {
  test('the port is there from the power-on to the cut, and is a HostPort', () => {
    const { port, dpu, clock } = whole(false)
    const seen: HostPort = port
    let told = 0
    seen.onInterrupt(() => told++)
    expect(seen.readRegister(LINK)).toBe(NO_CARD)
    dpu.powerOnDirectly()
    clock.runUntil(1000)
    expect([seen.readRegister(LINK), told]).toEqual([1, 1])
    seen.writeRegister(HEADER, 3)
    expect(seen.readRegister(HEADER)).toBe(3)
    dpu.powerCut()
    clock.runUntil(2000)
    expect([seen.readRegister(LINK), told]).toEqual([NO_CARD, 2])
    dpu.powerOnDirectly()
    clock.runUntil(3000)
    expect([seen.readRegister(HEADER), seen.readRegister(LINK), told]).toEqual([0, 1, 3])
  })

  test('a cut of the card alone: of what it has sent, the first so many arrive', () => {
    const arrived = new Set<number>()
    for (let seed = 0; seed < 40; seed++) {
      const { port, dpu } = whole(false)
      dpu.powerOnDirectly()
      const { memory } = port
      for (let i = 0; i < 4; i++) memory.dmaWrite(64 * i, Uint8Array.of(1), 0, 1)
      memory.storeWord(4096, 7)
      dpu.powerCut({ random: new Random(SEED + seed) })
      const seen = [0, 1, 2, 3].map((i) => memory.live[64 * i]!)
      const count = seen.reduce((sum, one) => sum + one, 0)
      expect(seen).toEqual([0, 1, 2, 3].map((i) => (i < count ? 1 : 0)))
      expect([memory.link.postedWrites, memory.loadWord(4096)]).toEqual([0, 7])
      arrived.add(count)
    }
    expect([...arrived].sort()).toEqual([0, 1, 2, 3, 4])
  })

  test('a cut of both: the ordinary memory is lost, the persistent one is cut', () => {
    const { port, dpu, host, clock } = whole(true)
    dpu.powerOnDirectly()
    port.memory.storeWord(4096, 7)
    host.store(0, Uint8Array.of(1))
    let called = 0
    port.onInterrupt(() => called++)
    port.setTimer(port.now() + 1, () => called++)
    dpu.powerCut({ strategy: 'all' })
    clock.runUntil(clock.nowUs + 100)
    expect([port.memory.loadWord(4096), host.part.durable[0], called]).toEqual([0, 1, 0])
  })

  test('R1-E1: a host that is reset alone has empty caches, and the card serves on', () => {
    const { port, dpu, host } = whole(true)
    host.platform = DDIO_ON
    dpu.powerOnDirectly()
    port.memory.storeWord(4096, 7)
    host.dmaWrite(0, Uint8Array.of(1), 0, 1, false)
    host.dmaWrite(64, Uint8Array.of(1), 0, 1, false)
    host.arrive()
    host.clean(0, 64)
    host.fence()
    port.resetHost()
    expect([port.memory.loadWord(4096), host.part.live[0], host.part.live[64]]).toEqual([0, 1, 0])
    expect([dpu.isOn, host.link.up]).toEqual([true, false])
    host.comeBack()
    expect([port.readRegister(LINK), host.dmaRead(0, 1)]).toEqual([2, true])
  })

  test('a host with persistent memory may stay, and loses nothing of what it stored', () => {
    const { port, dpu, host } = whole(true)
    dpu.powerOnDirectly()
    port.memory.storeWord(4096, 7)
    host.store(0, Uint8Array.of(1))
    dpu.powerCut({ strategy: 'none' }, true)
    expect([port.memory.loadWord(4096), host.part.live[0]]).toEqual([7, 1])
    // What was in its cache is there still: nothing was decided.
    expect(host.part.durable[0]).toBe(0)
  })

  test('a card that reads is busy: it serves its next burst no earlier', () => {
    const served: number[] = []
    const { port, dpu, clock } = whole(false)
    dpu.powerOnDirectly()
    clock.runUntil(100)
    const bytes = 60_000
    const frame = new Uint8Array(60)
    const place = dpu.machine!.place.bind(dpu.machine!)
    dpu.machine!.place = (i, one) => {
      served.push(clock.nowUs)
      // As a list that reads from the host would; the frame itself is for nobody.
      port.memory.link.beginList()
      port.memory.dmaRead(0, bytes)
      port.memory.link.endList()
      place(i, one)
    }
    dpu.deliver(frame)
    clock.runUntil(clock.nowUs + 3)
    dpu.deliver(frame)
    clock.runUntil(clock.nowUs + 1000)
    expect(served.length).toBe(2)
    const busyUs = (DMA_READ_NS + bytes / LINK_BYTES_PER_NS) / 1000
    expect(served[1]! - served[0]!).toBeCloseTo(Math.max(3, busyUs), 6)
  })
})
