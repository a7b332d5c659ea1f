/**
 * Media, memories and senders that do not do what they say (crash-model L1, L2, L4, L5): at every
 * command of a write, at each level. What was acknowledged is shown, or refused by name, and what
 * is wrong is noticed by the next scan at the latest.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut, pending } from '../../../boards/emulator/medium/power-cut.ts'
import type { Watch } from '../../../boards/emulator/run/machine.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const PART_BYTES = 1 << 16
const LEVELS = [
  { wait: 1, copies: 2 },
  { wait: 2, copies: 2 },
  { wait: 2, copies: 3 },
] as const
type Level = (typeof LEVELS)[number]

const OLD = [dataOf(64, 1), dataOf(64, 2)] as const
const NEW = dataOf(64, 3)
const OPERATION = 5000

/** Two records that are durable in every copy, on a card that is off. */
function quietPart({ copies }: Level): Uint8Array {
  const card = new TestCard(new Nvdimm({ bytes: PART_BYTES })).format()
  const region = card.provision({ slots: 2, copies })
  const qp = card.connect()
  OLD.forEach((data, slot) => {
    card.serve(...persistFrames(qp, region, slot, data, { operation: 1 + slot }))
  })
  for (let i = 0; i < 4; i++) card.idle()
  switchOff(card)
  return card.nvdimm.durable.slice()
}

function switchOff(card: TestCard): void {
  card.machine.die()
  cut(card.nvdimm, { random: new Random(1), strategy: 'none' })
}

/** What a command does, as far as the faults here ask. */
interface Command {
  readonly op: number
  readonly words: Float64Array
  /** Of its words. */
  readonly at: number
  readonly card: TestCard
}

/** Spoils the command; false if it is none that the fault is about. */
type Fault = (command: Command) => boolean

function isStore({ op, words, at }: Command): boolean {
  const to = words[at + hal.TO]!
  const stores = op === hal.COPY || op === hal.COPY_CLEAN
  return stores && to >= hal.NVDIMM_SPACE && to < hal.HOST_SPACE
}

interface Written {
  readonly card: TestCard
  readonly acknowledged: boolean
  /** The command that was spoilt, and where it stored, from the begin of the part, or -1. */
  readonly op: number
  readonly to: number
}

/** Writes record 0 with the fault at command k; says if k is none of it, or behind the last. */
function writeWith(
  content: Uint8Array,
  level: Level,
  fault: Fault,
  k: number,
): Written | 'not spoilt' | 'no command' {
  const card = new TestCard(new Nvdimm({ bytes: PART_BYTES, content }))
  const region = card.open()
  const qp = card.connect()
  let number = 0
  let spoilt: Pick<Written, 'op' | 'to'> | 'not spoilt' | 'no command' = 'no command'
  let dropped = false
  const watch: Watch = {
    onCommand: (_, op, words, at) => {
      dropped = false
      if (number++ !== k) return
      const command = { op, words, at, card }
      const to = isStore(command) ? words[at + hal.TO]! - hal.NVDIMM_SPACE : -1
      spoilt = fault(command) ? { op, to } : 'not spoilt'
      dropped = words[at + hal.AUX] === DROPPED
    },
    replace: (_, op) => (dropped ? hal.SKIP : op),
  }
  card.machine.observe(watch)
  const options = { wait: level.wait, operation: OPERATION }
  const acks = persistAcks(card.serve(...persistFrames(qp, region, 0, NEW, options)))
  card.machine.observe({})
  const how = spoilt as Pick<Written, 'op' | 'to'> | 'not spoilt' | 'no command'
  if (typeof how === 'string') return how
  return { card, acknowledged: acks.some(({ status }) => status === 0), ...how }
}

/** What a fault leaves in `aux` of a command that is not to happen. */
const DROPPED = -1

/** Every command of a write that the fault is about, at each level. */
function everyCommand(fault: Fault, judge: (written: Written, level: Level) => void): number {
  let count = 0
  for (const level of LEVELS) {
    const content = quietPart(level)
    for (let k = 0; ; k++) {
      const written = writeWith(content, level, fault, k)
      if (written === 'no command') break
      if (written === 'not spoilt') continue
      count += 1
      judge(written, level)
    }
  }
  return count
}

type Shown = 'new' | 'old' | 'refused' | 'something else'

function shown(card: TestCard, slot = 0): Shown {
  const data = card.read(card.connect(), card.open(), slot, VIEW_DATA, 64)
  if (data === null) return 'refused'
  if (Buffer.compare(data, NEW) === 0) return 'new'
  return Buffer.compare(data, OLD[slot]!) === 0 ? 'old' : 'something else'
}

/** A scan of all: how many records it repaired, and how many it gave up. */
function scan(card: TestCard): { readonly repaired: number; readonly lost: number } {
  const { id } = card.open()
  const body = card.scan(id)
  return { repaired: u32(body, mad.SCAN_REPAIRED), lost: u32(body, mad.SCAN_UNSETTLED) }
}

/** The copy that starts there, or -1. */
function copyAt(to: number, copies: number): number {
  const DATA_AT = 28672
  const copy = (to - DATA_AT) / 4096
  return Number.isInteger(copy) && copy >= 0 && copy < copies ? copy : -1
}

const dropStore: Fault = (command) => {
  if (!isStore(command)) return false
  command.words[command.at + hal.AUX] = DROPPED
  return true
}

/** The store lands in the next slot. */
const misdirect: Fault = (command) => {
  if (!isStore(command)) return false
  command.words[command.at + hal.TO]! += 128
  return true
}

describe('R1-E5, L1: one store that does not arrive where it should', () => {
  const STORES = [
    ['is said to be done and is not', dropStore],
    ['goes to the slot beside it', misdirect],
  ] as const

  test.each(STORES)('R1-E5: a store that %s: the next scan has the newest again', (_, fault) => {
    const copies = new Set<number>()
    const count = everyCommand(fault, ({ card, acknowledged, to }, level) => {
      expect(acknowledged).toBe(true)
      const copy = copyAt(to, level.copies)
      copies.add(copy)
      // Only the copy that readers are shown first may be an older one, and until the scan alone.
      expect(shown(card)).toBe(copy === 0 ? 'old' : 'new')
      const { repaired, lost } = scan(card)
      if (copy >= 0) expect(repaired).toBeGreaterThan(0)
      expect([lost, shown(card), shown(card, 1)]).toEqual([0, 'new', 'old'])
      switchOff(card)
      const next = new TestCard(card.nvdimm)
      expect([shown(next), shown(next, 1)]).toEqual(['new', 'old'])
      expect(scan(next)).toEqual({ repaired: 0, lost: 0 })
    })
    expect(count).toBeGreaterThan(12)
    expect([...copies].sort()).toEqual([-1, 0, 1, 2])
  })

  test('R1-E5: idle time is a scan: nobody has to ask for it', () => {
    everyCommand(dropStore, ({ card }) => {
      for (let i = 0; i < 8; i++) card.idle()
      expect(shown(card)).toBe('new')
    })
  })
})

test('R1-E5, L1: a line that is read stale once changes nothing durable', () => {
  let restore = (): void => {}
  const stale: Fault = ({ op, words, at, card }) => {
    const from = words[at + hal.FROM]! - hal.NVDIMM_SPACE
    const length = words[at + hal.LENGTH]!
    const reads = op === hal.COPY || op === hal.CHECK || op === hal.COMPARE
    if (!reads || from < 0 || from >= PART_BYTES || length === 0) return false
    const { live, durable } = card.nvdimm
    const now = live.slice(from, from + length)
    const then = durable.slice(from, from + length)
    live.set(then, from)
    restore = () => {
      if (Buffer.compare(live.slice(from, from + length), then) === 0) live.set(now, from)
    }
    return true
  }
  everyCommand(stale, ({ card }) => {
    restore()
    expect([shown(card), scan(card).lost, shown(card)]).toEqual(['new', 0, 'new'])
  })
})

describe('R1-E5, L2: a bit flips in packet memory', () => {
  /** In the last byte but some that the command reads there. */
  const flip: Fault = ({ op, words, at, card }) => {
    const from = words[at + hal.FROM]!
    const length = words[at + hal.LENGTH]!
    const reads = op === hal.COPY || op === hal.COPY_CLEAN || op === hal.CHECK
    if (!reads || from >= card.machine.packets.length || length === 0) return false
    card.machine.packets[from + Math.min(70, length - 1)]! ^= 4
    return true
  }

  test('R1-E5: behind the check code of the record: it is refused by name, and never shown', () => {
    let refused = 0
    const count = everyCommand(flip, ({ card, op }) => {
      if (op === hal.CHECK) return
      const first = shown(card)
      expect(['new', 'refused']).toContain(first)
      const { lost } = scan(card)
      expect([lost, shown(card)]).toEqual(first === 'new' ? [0, 'new'] : [1, 'refused'])
      refused += lost
    })
    expect(refused).toBeGreaterThan(0)
    expect(count).toBeGreaterThan(15)
  })

  test('R1-E5: between ICRC and check code is the window in which nobody notices', () => {
    const seen = new Set<Shown>()
    everyCommand(flip, ({ card, op }) => {
      if (op === hal.CHECK) seen.add(shown(card))
    })
    expect([...seen].sort()).toEqual(['new', 'something else'])
  })
})

test('R1-E5, L4: ARMED drops before any command: nothing acknowledged rests on more', () => {
  const disarm: Fault = ({ card }) => {
    card.nvdimm.armed = false
    card.machine.tellHealth()
    return true
  }
  const outcomes = new Set<string>()
  const count = everyCommand(disarm, ({ card, acknowledged }) => {
    switchOff(card)
    card.nvdimm.armed = true
    const next = new TestCard(card.nvdimm)
    const found = shown(next)
    expect(acknowledged ? ['new'] : ['old', 'new']).toContain(found)
    outcomes.add(`${acknowledged} ${found}`)
    expect(shown(next, 1)).toBe('old')
  })
  expect(count).toBeGreaterThan(30)
  expect([...outcomes].sort()).toEqual(['false new', 'false old', 'true new'])
})

test('R1-E5, L4: a frame that is said to be sent and is not: who asks again is answered', () => {
  const unsent: Fault = ({ op, words, at }) => {
    if (op !== hal.TRANSMIT) return false
    words[at + hal.AUX] = DROPPED
    return true
  }
  const count = everyCommand(unsent, ({ card }, { wait }) => {
    expect(shown(card)).toBe('new')
    const again = card.connect()
    const options = { wait, operation: OPERATION }
    const before = card.nvdimm.bytesStored
    const acks = persistAcks(card.serve(...persistFrames(again, card.open(), 0, NEW, options)))
    expect(acks.map(({ status }) => status)).toEqual([0])
    expect(card.nvdimm.bytesStored, 'it is not executed again').toBe(before)
  })
  expect(count).toBeGreaterThan(4)
})

/** A card in the middle of the write, whose power is gone before command k. */
function cutAt(content: Uint8Array, level: Level, k: number): { card: TestCard; durable: boolean } {
  const card = new TestCard(new Nvdimm({ bytes: PART_BYTES, content }))
  const [region, qp] = [card.open(), card.connect()]
  card.machine.armCut(k)
  const options = { wait: level.wait, operation: OPERATION }
  const acks = persistAcks(card.serve(...persistFrames(qp, region, 0, NEW, options)))
  return { card, durable: acks.some(({ status }) => status === 0) }
}

/** The numbers of the fences of a write. */
function fencesOf(content: Uint8Array, level: Level): number[] {
  const card = new TestCard(new Nvdimm({ bytes: PART_BYTES, content }))
  const [region, qp] = [card.open(), card.connect()]
  const ops: number[] = []
  card.machine.observe({ onCommand: (_, op) => ops.push(op) })
  card.serve(...persistFrames(qp, region, 0, NEW, { wait: level.wait }))
  return ops.flatMap((op, k) => (op === hal.FENCE ? [k] : []))
}

test(
  'R1-E5, L5: tears of four bytes: each half of each pending chunk, before every fence',
  THOROUGH,
  () => {
    let torn = 0
    for (const level of LEVELS) {
      const content = quietPart(level)
      for (const k of fencesOf(content, level)) {
        const { card, durable } = cutAt(content, level, k)
        const { nvdimm } = card
        for (const { at } of pending(nvdimm)) {
          for (const [most, half] of [nvdimm.durable, nvdimm.live].flatMap((image) => {
            return [0, 4].map((offset) => [image, at + offset] as const)
          })) {
            const other = most === nvdimm.live ? nvdimm.durable : nvdimm.live
            const image = most.slice()
            image.set(other.subarray(half, half + 4), half)
            const next = new TestCard(new Nvdimm({ bytes: PART_BYTES, content: image }))
            expect(durable ? ['new'] : ['old', 'new']).toContain(shown(next))
            expect(shown(next, 1)).toBe('old')
            torn += 1
          }
        }
      }
    }
    expect(torn).toBeGreaterThan(300)
  },
)
