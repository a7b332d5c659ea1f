/**
 * The short cut of stage C3: hosts and DPUs in virtual time, everything going wrong; and that its
 * judges notice what they are there for.
 */

import { describe, expect, test } from 'vitest'
import { bootDirect } from '../boards/emulator/direct.ts'
import { CHECK, COPY_CLEAN, FENCE, NVDIMM_SPACE, SKIP, TO, TRANSMIT } from '../firmware/hal.ts'
import type { Boot } from './evidence/simulate/card.ts'
import { Register } from './evidence/simulate/register.ts'
import { REGRESSIONS } from './evidence/simulate/regressions.ts'
import { scriptOf, type World } from './evidence/simulate/shape.ts'
import { shrink } from './evidence/simulate/shrink.ts'
import { SIMULATE } from './evidence/simulate/stage.ts'
import { playScript, playSeed } from './evidence/simulate/world.ts'
import { missed, playAll } from './evidence/stage.ts'

const SEED = Number(process.env.SEED ?? 20266)

test('the short cut finds nothing, and meets what it has to', async () => {
  const total = await playAll(SIMULATE, 'cut', SEED)
  expect(total.described).toEqual([])
  expect(total.violations).toBe(0)
  expect(missed(SIMULATE, total, 'cut')).toEqual([])
  expect(SIMULATE.lacks!(total, 'cut')).toEqual([])
}, 600_000)

test('a seed gives the same trace again, another one another', async () => {
  const once = await playSeed(SEED, { steps: 40, world: 'mixed', trace: true })
  const again = await playSeed(SEED, { steps: 40, world: 'mixed', trace: true })
  const other = await playSeed(SEED + 1, { steps: 40, world: 'mixed', trace: true })
  expect(again).toEqual(once)
  expect(other.hash).not.toBe(once.hash)
})

test('seeds that found something are told by name', async () => {
  const [{ seed, world }] = REGRESSIONS as [(typeof REGRESSIONS)[number]]
  const { violated, text } = await SIMULATE.replay(`seed=${seed} world=${world}`)
  expect(violated).toBe(false)
  expect(text).toContain('nothing is wrong')
})

const LANES_AT = 8192
const TABLE_AT = 12288

/** Where a command stores, as an offset in the part. */
function partAddress(words: Float64Array, at: number): number {
  return words[at + TO]! - NVDIMM_SPACE
}

/** A part that is formatted leaves out every so many commands of that kind, but for lanes. */
function without(kind: number, every: number): Boot {
  return (machineFor) => {
    const machine = machineFor()
    if (machine.nvdimm.live[16] === 0) return bootDirect(machine)
    let isLane = false
    let met = 0
    machine.observe({
      onCommand: (_number, _op, words, at) => {
        const to = partAddress(words, at)
        isLane = to >= LANES_AT && to < TABLE_AT
      },
      replace: (_number, op) => (op === kind && !isLane && ++met % every === 0 ? SKIP : op),
    })
    return bootDirect(machine)
  }
}

describe('the judges notice', () => {
  const found = async (boot: Boot, world: World): Promise<string> => {
    for (let seed = 1; seed <= 12; seed++) {
      const { violations } = await playSeed(seed, { boot, world, steps: 120 })
      if (violations.length > 0) return violations[0]!
    }
    return 'nothing'
  }

  test('a fence that is left out', async () => {
    expect(await found(without(FENCE, 3), 'calm')).toMatch(/durable|restart|order/)
  })

  test('a store that is left out', async () => {
    expect(await found(without(COPY_CLEAN, 7), 'calm')).not.toBe('nothing')
  })

  test('check codes that are not made', async () => {
    expect(await found(without(CHECK, 5), 'calm')).not.toBe('nothing')
  })

  test('answers that never come', async () => {
    const silent = without(TRANSMIT, 1)
    expect(await found(silent, 'calm')).toMatch(/exception/)
  })

  test('a byte that nobody may touch', async () => {
    const stray: Boot = (machineFor) => {
      const machine = machineFor()
      const engine = bootDirect(machine)
      const { nvdimm } = machine
      return {
        ...engine,
        idle: (now) => {
          nvdimm.store(nvdimm.bytes - 64, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8), 0, 8)
          nvdimm.clean(nvdimm.bytes - 64, 8)
          return engine.idle(now)
        },
      }
    }
    expect(await found(stray, 'calm')).toMatch(/byte \d+ of the part was changed/)
  })

  test('an exception, wherever it comes from', async () => {
    const throws: Boot = (machineFor) => {
      const engine = bootDirect(machineFor())
      let calls = 0
      return {
        ...engine,
        serve: (count, now) => {
          calls += 1
          if (calls > 9) throw new Error('out of memory')
          return engine.serve(count, now)
        },
      }
    }
    expect(await found(throws, 'calm')).toMatch(/exception.*out of memory/)
  })
})

test('a failing script becomes a short one, which fails in the same way', async () => {
  const boot = without(FENCE, 3)
  const script = scriptOf(3, 60, 'calm')
  const { violations } = await playScript(script, 3, { boot })
  expect(violations).toHaveLength(1)
  const short = await shrink(script, 3, violations[0]!, { boot })
  expect(short.steps.length).toBeLessThan(12)
  expect((await playScript(short, 3, { boot })).violations).toHaveLength(1)
  const line = JSON.stringify({ seed: 3, ...short })
  expect((await SIMULATE.replay(line)).violated).toBe(false)
})

describe('a record as a register', () => {
  test('what was acknowledged is not overtaken by what was before', () => {
    const register = new Register('r')
    const one = register.begin(1, 64, 1, 1, 10)
    const two = register.begin(2, 64, 1, 2, 20)
    expect(register.see(one, 10, 15)).toBeNull()
    expect(register.see(two, 20, 25)).toBeNull()
    expect(register.see(one, 30, 30)).toContain('in no order')
  })

  test('of two that were under way at once either may be last, but not both', () => {
    const register = new Register('r')
    const one = register.begin(1, 64, 1, 1, 10)
    const two = register.begin(2, 64, 2, 1, 11)
    expect(register.see(one, 10, 20)).toBeNull()
    expect(register.see(two, 11, 21)).toBeNull()
    expect(register.see(one, 30, 31)).toBeNull()
    expect(register.see(two, 40, 41)).toContain('in no order')
  })

  test('what was refused is never there', () => {
    const register = new Register('r')
    const one = register.begin(1, 64, 1, 1, 10)
    one.refused = true
    expect(register.see(one, 10, 20)).toContain('was refused')
  })
})
