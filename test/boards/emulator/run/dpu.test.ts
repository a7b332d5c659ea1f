/** The emulated card around a firmware of a few lines; the real one has its own tests. */

import { expect, test } from 'vitest'
import { VirtualClock } from '../../../../boards/emulator/base/clock.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import type { CutReport } from '../../../../boards/emulator/medium/power-cut.ts'
import { type DpuOptions, EmulatedDpu } from '../../../../boards/emulator/run/dpu.ts'
import { FirmwareStopped } from '../../../../boards/emulator/run/engine.ts'
import {
  COMMANDS_AT,
  COPY_CLEAN,
  FENCE,
  FLUSH,
  NVDIMM_SPACE,
  PRIVATE_AT,
  RECEIVE_AT,
  TRANSMIT,
} from '../../../../firmware/board/hal.ts'
import { FRAME_OFFSET_BYTES, FRAME_STRIDE_BYTES } from '../../../../firmware/board/limits.ts'
import { hex } from '../../../support/wire/frames.ts'

const SEED = Number(process.env.SEED ?? 20261121)

/**
 * Counts its boots in the part and, for each burst: stores the time, and sends every frame back
 * behind a fence. It asks for an idle call after a burst, and for one more after that.
 */
const ECHO = {
  path: 'echo.js',
  source: `var perdure = { start(machine) {
    const words = new Float64Array(machine.memory, ${COMMANDS_AT})
    const bytes = new Uint8Array(machine.memory)
    let count = 0
    let idleCalls = 0
    const put = (op, from, to, length) => words.set([op, from, to, length, 0, 0], 8 * count++)
    const run = () => { machine.run(count); count = 0 }
    bytes[${PRIVATE_AT}] = machine.facts.entropy[0]
    put(${COPY_CLEAN}, ${PRIVATE_AT}, ${NVDIMM_SPACE}, 8)
    run()
    return {
      serve(frames, now) {
        bytes[${PRIVATE_AT + 8}] = now
        if (frames === 13) throw new Error('thirteen')
        put(${COPY_CLEAN}, ${PRIVATE_AT + 8}, ${NVDIMM_SPACE + 64}, 8)
        put(${FLUSH}, 0, ${NVDIMM_SPACE + 64}, 64)
        put(${FENCE}, 0, 0, 0)
        for (let i = 0; i < frames; i++) {
          const at = ${RECEIVE_AT + FRAME_OFFSET_BYTES} + i * ${FRAME_STRIDE_BYTES}
          put(${TRANSMIT}, at, 0, 62)
        }
        run()
        idleCalls = 2
        return 1
      },
      idle() { return --idleCalls > 0 ? 1 : 0 },
    }
  } }`,
}

/** An acknowledgement, and a frame that the card takes for the end of a WRITE_PERSIST. */
const ACK = hex(`
  020000000002 020000000001 0800
  45000030 00004000 401126bb 0a000002 0a000001
  c000 12b7 001c 0000
  1100ffff 00123456 00000101
  1f000001
  00000000
`)
const RECORD = ACK.slice()
RECORD[42] = 0xca

interface Setup {
  readonly dpu: EmulatedDpu
  readonly clock: VirtualClock
  readonly sent: { readonly timeUs: number; readonly frame: Uint8Array }[]
  readonly cuts: CutReport[]
}

async function setUp(options: Partial<DpuOptions> = {}): Promise<Setup> {
  const clock = new VirtualClock()
  const sent: Setup['sent'] = []
  const cuts: CutReport[] = []
  const dpu = new EmulatedDpu({
    nvdimm: new Nvdimm({ bytes: 4096 }),
    clock,
    seed: SEED,
    bundle: ECHO,
    transmit: (frame) => sent.push({ timeUs: clock.nowUs, frame }),
    onPowerCut: (report) => cuts.push(report),
    ...options,
  })
  await dpu.powerOn()
  clock.runUntilIdle()
  return { dpu, clock, sent, cuts }
}

test('frames that arrive together are served as bursts of up to 32, in order', async () => {
  const { dpu, clock, sent } = await setUp()
  for (let i = 0; i < 70; i++) {
    const frame = ACK.slice()
    frame[53] = i
    dpu.deliver(frame)
  }
  clock.runUntilIdle()
  expect(sent.map(({ frame }) => frame[53])).toEqual(Array.from({ length: 70 }, (_, i) => i))
  expect(dpu.statistics).toMatchObject({ bursts: 3, framesReceived: 70, framesSent: 70, fences: 3 })
  expect(new Set(sent.map(({ timeUs }) => timeUs)).size).toBe(3)
  dpu.powerCut()
})

test('a firmware that asks for idle calls gets them, and then there is rest', async () => {
  const { dpu, clock } = await setUp()
  dpu.deliver(ACK)
  expect(clock.runUntilIdle()).toBe(3)
  dpu.powerCut()
})

test('a frame is dropped and counted while the card is off or its ring is full', async () => {
  const { dpu, clock, sent } = await setUp()
  for (let i = 0; i < 1030; i++) dpu.deliver(ACK)
  expect(dpu.statistics.framesDropped).toBe(6)
  clock.runUntilIdle()
  dpu.deliver(ACK)
  dpu.powerCut()
  dpu.deliver(ACK)
  clock.runUntilIdle()
  expect([sent.length, dpu.statistics.framesDropped, dpu.isOn]).toEqual([1024, 8, false])
})

test('R1-S8: without a seed a card draws one, which gives the same keys again', async () => {
  const entropyOf = async (seed?: number): Promise<[number, readonly number[]]> => {
    const dpu = new EmulatedDpu({
      ...{ nvdimm: new Nvdimm({ bytes: 4096 }), clock: new VirtualClock(), bundle: ECHO },
      ...{ transmit: () => {}, ...(seed === undefined ? {} : { seed }) },
    })
    await dpu.powerOn()
    const { entropy } = dpu.machine!.facts
    dpu.powerCut()
    return [dpu.seed, entropy]
  }
  const runs = [await entropyOf(), await entropyOf()]
  for (const [seed, entropy] of runs) {
    expect(await entropyOf(seed)).toEqual([seed, entropy])
    // No bit of the seed is lost.
    for (const bit of [0, 31, 32, 47]) {
      const other = Number(BigInt(seed) ^ (1n << BigInt(bit)))
      expect((await entropyOf(other))[1], `bit ${bit}`).not.toEqual(entropy)
    }
  }
  expect(runs[0]![1]).not.toEqual(runs[1]![1])
})

test('a power-on is a new machine with fresh entropy: only the part outlives a cut', async () => {
  const { dpu, clock, sent } = await setUp()
  const first = dpu.machine
  dpu.deliver(ACK)
  clock.runUntilIdle()
  const entropy = first!.facts.entropy
  expect(dpu.nvdimm.live[0]).toBe(entropy[0]! & 0xff)
  dpu.powerCut({ strategy: 'none' })
  await dpu.powerOn()
  expect(dpu.machine).not.toBe(first)
  expect(dpu.machine!.facts.entropy).not.toEqual(entropy)
  dpu.deliver(ACK)
  clock.runUntilIdle()
  expect(sent).toHaveLength(2)
  expect(dpu.statistics).toMatchObject({ powerOns: 2, framesSent: 2, fences: 2 })
  await expect(dpu.powerOn()).rejects.toThrow('is on')
  dpu.powerCut()
})

test('a planned cut strikes in the burst of its record and in no other', async () => {
  for (let seed = SEED; seed < SEED + 20; seed++) {
    const { dpu, clock, sent, cuts } = await setUp({ seed })
    dpu.armCut({ record: 3, choice: { strategy: 'none' } })
    for (let i = 0; i < 2; i++) {
      dpu.deliver(RECORD)
      dpu.deliver(ACK)
      clock.runUntilIdle()
    }
    expect([sent.length, cuts.length], `SEED=${seed}`).toEqual([4, 0])
    dpu.deliver(ACK)
    dpu.deliver(RECORD)
    clock.runUntilIdle()
    expect([cuts.length, dpu.isOn, sent.length <= 6], `SEED=${seed}`).toEqual([1, false, true])
    expect(dpu.lastCut).toEqual(cuts[0])
    // What left the card is behind the fence: then the burst's store is durable.
    if (sent.length > 4) expect(dpu.nvdimm.durable[64], `SEED=${seed}`).toBe(sent[4]!.timeUs)
    await dpu.powerOn()
    dpu.deliver(RECORD)
    clock.runUntilIdle()
    expect(cuts).toHaveLength(1)
    dpu.powerCut()
  }
})

test('a cut in the boot leaves the card off', async () => {
  const { dpu, cuts } = await setUp()
  dpu.powerCut()
  await dpu.powerOn((machine) => machine.armCut(0))
  expect([dpu.isOn, cuts.length]).toEqual([false, 2])
  await dpu.powerOn()
  expect(dpu.isOn).toBe(true)
  dpu.powerCut()
})

test('a firmware that stops turns the card off, and whoever asked is told', async () => {
  const stops: FirmwareStopped[] = []
  const { dpu, clock } = await setUp({ onStopped: (error) => stops.push(error) })
  for (let i = 0; i < 13; i++) dpu.deliver(ACK)
  clock.runUntilIdle()
  expect([dpu.isOn, stops.length, stops[0]!.reason]).toEqual([false, 1, 'threw'])
  expect(stops[0]!.guestStack).toContain('echo.js')
  const { dpu: other, clock: itsClock } = await setUp()
  for (let i = 0; i < 13; i++) other.deliver(ACK)
  expect(() => itsClock.runUntilIdle()).toThrow(FirmwareStopped)
})

test('the same seed gives the same run, byte for byte', async () => {
  const run = async (seed: number): Promise<string> => {
    const { dpu, clock, sent } = await setUp({ seed })
    dpu.armCut({ record: 2 })
    for (let i = 0; i < 40; i++) dpu.deliver(i === 37 || i === 5 ? RECORD : ACK)
    clock.runUntilIdle()
    const frames = sent.map(({ timeUs, frame }) => `${timeUs} ${frame.join()}`).join('\n')
    return frames + JSON.stringify(dpu.lastCut) + dpu.nvdimm.durable.join()
  }
  expect(await run(SEED)).toBe(await run(SEED))
  expect(await run(SEED)).not.toBe(await run(SEED + 1))
})
