/**
 * The short cut of stage C3: hosts and DPUs in virtual time, everything going wrong; and that its
 * judges notice what they are there for.
 */

import { describe, expect, test } from 'vitest'
import type { HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import {
  CHECK,
  COPY_CLEAN,
  FENCE,
  FROM,
  NVDIMM_SPACE,
  SKIP,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { judgedGuard } from '../../support/judges/crc32c.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import type { Boot } from '../simulate/card.ts'
import { PAST_AN_END } from '../simulate/client.ts'
import { ACKNOWLEDGE, DATAGRAM, fillPattern, get24, put24 } from '../simulate/frames.ts'
import { Judge } from '../simulate/judge.ts'
import { copyAt, SEVERAL, STRUCTURES, WHILE_IT_SERVES } from '../simulate/medium.ts'
import { operationOf } from '../simulate/operation.ts'
import { playScript, playSeed } from '../simulate/play.ts'
import { Register, type Version } from '../simulate/register.ts'
import { REGRESSIONS } from '../simulate/regressions.ts'
import { ALL_WORLDS, type Ends, NO_ENDS, scriptOf, type World } from '../simulate/shape.ts'
import { shrink } from '../simulate/shrink.ts'
import { SIMULATE } from '../simulate/stage.ts'
import { MORE_CLIENTS, MORE_LOST, type Played, WORN_OUT } from '../simulate/world.ts'
import { missed, playAll } from '../stage.ts'

const SEED = Number(process.env.SEED ?? 20266)

test('the short cut finds nothing, and meets what it has to', THOROUGH, async () => {
  const total = await playAll(SIMULATE, 'cut', SEED)
  expect(total.described).toEqual([])
  expect(total.violations).toBe(0)
  expect(missed(SIMULATE, total, 'cut')).toEqual([])
  expect(SIMULATE.lacks!(total, 'cut')).toEqual([])
})

test('a seed gives the same trace again, another one another', async () => {
  const once = await playSeed(SEED, { steps: 40, world: 'mixed', trace: true })
  const again = await playSeed(SEED, { steps: 40, world: 'mixed', trace: true })
  const other = await playSeed(SEED + 1, { steps: 40, world: 'mixed', trace: true })
  expect(again).toEqual(once)
  expect(other.hash).not.toBe(once.hash)
})

test(
  'a state that is put back gives the same command lists as one that is new',
  THOROUGH,
  async () => {
    for (const [i, world] of ALL_WORLDS.entries()) {
      const options = { steps: 60, world, trace: true }
      const renewed = await playSeed(SEED + i, options)
      const boot: Boot = (machineFor) => bootDirect(machineFor())
      expect(await playSeed(SEED + i, { ...options, boot })).toEqual(renewed)
    }
  },
)

test('seeds that found something are told by name', async () => {
  const [{ seed, world }] = REGRESSIONS as [(typeof REGRESSIONS)[number]]
  const { violated, text } = await SIMULATE.replay(`seed=${seed} world=${world}`)
  expect(violated).toBe(false)
  expect(text).toContain('nothing is wrong')
})

test('PSNs go past their ends in each start, and a part may be worn out', async () => {
  const { world, steps } = scriptOf(SEED, 120, 'calm')
  const playWith = (ends: Partial<Ends>): Promise<Played> => {
    const script = { steps, world: { ...world, ends: { ...NO_ENDS, psns: true, ...ends } } }
    return playScript(script, SEED)
  }
  const { counts, cuts, violations } = await playWith({})
  expect(violations).toEqual([])
  expect(counts[PAST_AN_END]).toBeGreaterThan(cuts / 10)
  const worn = { incarnation: 2 ** 20 - 6, update: 7, operations: 7, dirtyShutdowns: 0 }
  const ended = await playWith({ worn })
  expect(ended.violations).toEqual([])
  expect(ended.counts[WORN_OUT]).toBe(1)
})

/** Which of those are met in so many worlds of that kind, seed by seed, where nothing is wrong. */
async function metIn(world: World, seeds: number, wanted: readonly string[]): Promise<string[]> {
  const met = new Set<string>()
  for (let seed = 1; seed <= seeds && met.size < wanted.length; seed++) {
    const { counts, violations } = await playSeed(seed, { world })
    expect(violations, `seed ${seed}`).toEqual([])
    for (const name of wanted) if ((counts[name] ?? 0) > 0) met.add(name)
  }
  return wanted.filter((name) => met.has(name))
}

test('R1-E3: more clients come than the table has places, more is lost than the list', async () => {
  const wanted = [MORE_CLIENTS, MORE_LOST]
  expect(await metIn('full', 40, wanted)).toEqual(wanted)
  // Of a world that is not full neither does.
  expect(await metIn('media', 3, wanted)).toEqual([])
})

test.each(['full', 'media'] as const)(
  'R1-E4: media errors hit every structure, and several, while the part serves: %s',
  async (world) => {
    const wanted = [...STRUCTURES, SEVERAL].map((hit) => `${hit}${WHILE_IT_SERVES}`)
    expect(wanted).toHaveLength(5)
    expect(await metIn(world, 20, wanted)).toEqual(wanted)
    expect(await metIn('calm', 1, wanted)).toEqual([])
  },
)

const LANES_AT = 8192
const TABLE_AT = 12288

/** Where a command stores, as an offset in the part. */
function partAddress(words: Float64Array, at: number): number {
  return words[at + TO]! - NVDIMM_SPACE
}

/** A part that is formatted leaves out every so many commands of that kind, except for lanes. */
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
    expect(await found(without(COPY_CLEAN, 7), 'batch')).toMatch(/durable|restart|order|version/)
  })

  test('check codes that are not made', async () => {
    expect(await found(without(CHECK, 5), 'calm')).not.toBe('nothing')
  })

  test('answers that never come', async () => {
    const silent = without(TRANSMIT, 1)
    expect(await found(silent, 'calm')).toMatch(/exception/)
  })

  /** Cards of which every seventh plain ACK is changed in front of its TRANSMIT, or left out. */
  const acknowledging = (how: (frame: Uint8Array) => boolean): Boot => {
    return (machineFor) => {
      const machine = machineFor()
      let met = 0
      let goes = true
      machine.observe({
        onCommand: (_number, op, words, at) => {
          const frame = machine.packets.subarray(words[at + FROM]!)
          const isAck = op === TRANSMIT && frame[42] === ACKNOWLEDGE && ++met % 7 === 0
          goes = !isAck || how(frame)
        },
        replace: (_number, op) => (goes ? op : SKIP),
      })
      return bootDirect(machine)
    }
  }

  test('an answer to what was never sent', async () => {
    const ahead = acknowledging((frame) => {
      put24(frame, 51, get24(frame, 51) + 1)
      return true
    })
    expect(await found(ahead, 'calm')).toMatch(/there is an answer at PSN \d+, and its client/)
  })

  test('a gap that is none', async () => {
    const anxious = acknowledging((frame) => {
      put24(frame, 51, get24(frame, 51) + 1)
      frame[54] = 0x60
      return true
    })
    expect(await found(anxious, 'calm')).toMatch(/a gap is told of at PSN \d+, and its client/)
  })

  test('a connection that falls silent, though all frames get through', async () => {
    const mute: Boot = (machineFor) => {
      const machine = machineFor()
      let goes = true
      machine.observe({
        onCommand: (_number, op, words, at) => {
          goes = op !== TRANSMIT || machine.packets[words[at + FROM]! + 42] === DATAGRAM
        },
        replace: (_number, op) => (goes ? op : SKIP),
      })
      return bootDirect(machine)
    }
    expect(await found(mute, 'calm')).toMatch(/is not answered any more/)
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

  /** A machine with a host whose memory is not what it should be. */
  const withHost =
    (spoil: (host: HostMemory) => void): Boot =>
    (machineFor) => {
      const machine = machineFor()
      spoil(machine.host!)
      return bootDirect(machine)
    }

  test('a fence of the own host that does nothing', async () => {
    const lazy = withHost((host) => {
      host.fence = () => {}
    })
    expect(await found(lazy, 'hosted')).toMatch(/through: .*durable|not one when all is back/)
  })

  test('posted writes that are lost, and the board does not learn of it', async () => {
    const careless = withHost((host) => {
      Object.defineProperty(host.link, 'contains', { get: () => false, set: () => {} })
    })
    expect(await found(careless, 'hosted')).toMatch(/bypass: .*durable|not one when all is back/)
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

  test('what somebody may still send is not forgotten, however much is kept behind it', () => {
    const register = new Register('r')
    register.isHurt = true
    const late = register.begin(1, 64, 1, 1, 10)
    for (let uid = 2; uid < 600; uid++) {
      register.begin(uid, 64, 2, uid, 10 * uid).open = false
      register.settled()
    }
    expect(register.find(({ uid }) => uid === 1)).toBe(late)
    expect(register.find(({ uid }) => uid === 2)).toBeNull()
  })

  test('what a read that is under way may show is not forgotten', () => {
    const known = (reads: boolean): boolean => {
      const register = new Register('r')
      const one = register.begin(1, 64, 1, 1, 10)
      register.see(one, 10, 12)
      if (reads) register.readBegins(13)
      for (let uid = 2; uid < 60; uid++) {
        const version = register.begin(uid, 64, 1, uid, 10 * uid)
        register.see(version, 10 * uid, 10 * uid + 1)
        version.open = false
        one.open = false
      }
      if (reads) expect(register.see(one, 13, 700)).toBeNull()
      register.readEnds(13)
      return register.find(({ uid }) => uid === 1) !== null
    }
    expect(known(true)).toBe(true)
    expect(known(false)).toBe(false)
  })
})

describe('the judge of a part', () => {
  const MTU = 256
  const CAPACITY = 600
  const SLOT_MAGIC = 0x5044534c

  /** A part with one region, as its superblock says: two records, two copies. */
  function judgeOf(said: string[]): Judge {
    const content = new Uint8Array(16 * 4096)
    const words = new Int32Array(content.buffer)
    const entry = 640 / 4
    words.set([7, 0, 2, CAPACITY, 2], entry + 8)
    words[entry + 16] = 7 * 4096
    words[entry + 18] = 4096
    return new Judge(new Nvdimm({ bytes: content.length, content }), false, 1, (what) => {
      said.push(what)
    })
  }

  /** That copy holds that version, durably, under that sequence; with the guard of an odd one. */
  function lay({ part, layout }: Judge, copy: number, version: Version, sequence: number): void {
    const at = copyAt(layout, copy, 0)
    const { uid, length, client, operation } = version
    const words = part.durableWords
    words.set([SLOT_MAGIC, 7, 0, length, sequence, 0, client, 0, operation, 0, 1, 0], at / 4 + 4)
    fillPattern(part.durable, at + 64, length, uid)
    const guard = judgedGuard(part.durable.subarray(at + 64, at + 64 + length))
    if (operation % 2 === 1) words[at / 4 + 15] = guard
  }

  /** What is said of a read whose packets show those versions. */
  function read(shown: readonly number[], packet: number): string[] {
    const said: string[] = []
    const { register } = judgeOf(said).records[0]!
    for (const uid of [1, 2]) register.begin(uid, CAPACITY, 1, uid, uid)
    const data = new Uint8Array(CAPACITY)
    const whole = new Uint8Array(CAPACITY)
    for (const [i, uid] of shown.entries()) {
      fillPattern(whole, 0, CAPACITY, uid)
      data.set(whole.subarray(i * MTU, (i + 1) * MTU), i * MTU)
    }
    judgeOf(said).judgeRead(operationOf({ kind: 'read', register, data, begun: 5 }), packet, 9)
    return said
  }

  test('packets of one execution are of one version, those of two may be of two', () => {
    expect(read([1, 1, 1], CAPACITY)).toEqual([])
    expect(read([1, 2, 2], CAPACITY)[0]).toContain('bytes of no version')
    expect(read([1, 2, 2], MTU)).toEqual([])
    expect(read([1, 3, 1], MTU)[0]).toContain('bytes of no version')
  })

  /** What is said when the second of two writes is acknowledged, and copies hold the first. */
  function acknowledge(inBatch: boolean, told: boolean, sequences: number[]): string[] {
    const said: string[] = []
    const judge = judgeOf(said)
    const { register } = judge.records[0]!
    const early = register.begin(1, 64, 1, 1, 10)
    const version = register.begin(2, 64, 1, 2, 20)
    if (told) register.see(early, 10, 15)
    lay(judge, 0, early, sequences[0]!)
    lay(judge, 1, sequences.length > 1 ? version : early, sequences.at(-1)!)
    const batch = inBatch ? { id: 1, condition: 0, count: 1, members: [] } : null
    const operation = operationOf({ kind: 'batch', register, version, batch, slot: 0, tries: 1 })
    judge.acknowledge(operation, 2, true, 30)
    return said
  }

  test('a batch may be overwritten before its status leaves, by what nobody was told of', () => {
    expect(acknowledge(true, false, [5])).toEqual([])
    expect(acknowledge(true, false, [5, 4])).toEqual([])
    expect(acknowledge(true, false, [3, 4])[0]).toContain('1 are durable')
    expect(acknowledge(true, true, [5])[0]).toContain('0 are durable')
    expect(acknowledge(false, false, [5])[0]).toContain('0 are durable')
  })

  test('S1-M1: a copy that lost the guard that came with it is none', () => {
    const said: string[] = []
    const judge = judgeOf(said)
    const { register } = judge.records[0]!
    const version = register.begin(1, 64, 1, 1, 10)
    const operation = operationOf({ kind: 'persist', register, version, slot: 0, tries: 1 })
    for (const copy of [0, 1]) lay(judge, copy, version, 5)
    judge.acknowledge(operation, 2, true, 30)
    expect(said).toEqual([])
    judge.part.durableWords[copyAt(judge.layout, 1, 0) / 4 + 15]! ^= 1
    version.promised = 0
    judge.acknowledge(operation, 2, true, 31)
    expect(said[0]).toContain('1 are durable')
  })
})
