import { expect, test } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../../boards/emulator/medium/nvdimm.ts'
import { pending } from '../../../../boards/emulator/medium/power-cut.ts'
import { EmulatedMachine, type MachineOptions } from '../../../../boards/emulator/run/machine.ts'
import { checkCode } from '../../../../boards/software/check-code.ts'
import { icrcGood } from '../../../../boards/software/icrc.ts'
import {
  ARMED,
  BAD_COMMAND,
  CHECK,
  COMMANDS_AT,
  COMPARE,
  COMPARE_SWAP,
  COPY,
  COPY_CLEAN,
  DIFFERENT,
  DONE,
  EQUAL,
  type Facts,
  FENCE,
  FETCH_ADD,
  FLUSH,
  GUARD,
  GUARD_FAILED,
  HEALTH_AT,
  ICRC_GOOD,
  KEEP_PEER,
  KEYSTREAM,
  MEDIA_ERROR,
  NO_POWER,
  NOT_ARMED,
  NVDIMM_SPACE,
  ON_TRIAL,
  OP,
  PRIVATE_AT,
  RECEIVE_AT,
  RECEIVED_AT,
  RESULT,
  SAVE_FAILED,
  SKIP,
  SPACE_BYTES,
  TRANSMIT,
  TRANSMIT_AT,
} from '../../../../firmware/board/hal.ts'
import {
  COMMANDS_MAX,
  FRAME_BYTES_MAX,
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
} from '../../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../../firmware/board/memory-map.ts'
import { judgedGuard } from '../../../support/judges/crc32c.ts'
import { hex, hexOf } from '../../../support/wire/frames.ts'

const SEED = Number(process.env.SEED ?? 20261121)
const PART_BYTES = 8192
const N = NVDIMM_SPACE
const P = PRIVATE_AT

const FACTS: Facts = {
  board: 'emulator',
  nvdimmBytes: PART_BYTES,
  hostBytes: 0,
  dmaBytes: 0,
  strictIcrc: false,
  dirtyShutdowns: 0,
  mac: [2, 0, 0, 0, 0, 2],
  ipv4: [10, 0, 0, 2],
  ipv6: new Array(16).fill(0),
  pathMtu: 4096,
  entropy: new Array(8).fill(1),
}

/** An acknowledgement without its ICRC, as the firmware composes it. */
const ACK = hex(`
  020000000001 020000000002 0800
  45000030 00004000 401126bb 0a000002 0a000001
  c000 12b7 001c 0000
  1100ffff 00123456 00000101
  1f000001
  00000000
`)

interface Card {
  readonly machine: EmulatedMachine
  readonly nvdimm: Nvdimm
  readonly packets: Uint8Array
  readonly words: Float64Array
  readonly sent: Uint8Array[]
  cuts: number
}

function card(more: Partial<MachineOptions> = {}): Card {
  const nvdimm = new Nvdimm({ bytes: PART_BYTES })
  const sent: Uint8Array[] = []
  const made = { nvdimm, sent, cuts: 0 }
  const machine = new EmulatedMachine({
    facts: FACTS,
    nvdimm,
    transmit: (frame) => sent.push(frame),
    onCut: () => {
      card.cuts++
    },
    ...more,
  })
  const words = new Float64Array(machine.memory, COMMANDS_AT)
  const card: Card = Object.assign(made, { machine, packets: machine.packets, words })
  return card
}

/** Writes the commands, each {op, from, to, length, aux}, runs them, and returns the results. */
function run({ machine, words }: Card, ...list: readonly (readonly number[])[]): number[] {
  list.forEach((command, i) => {
    words.set([0, 0, 0, 0, 0, 99], i * 8)
    words.set(command, i * 8)
  })
  const done = machine.run(list.length)
  const results = list.map((_, i) => words[i * 8 + RESULT]!)
  expect(results.findIndex((result) => result > DIFFERENT)).toBe(done === list.length ? -1 : done)
  return results
}

function counting(length: number, first = 1): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (first + i) & 0xff)
}

const NOT_DONE = 99

test('copies go between packet memory and the part, in every direction', () => {
  const c = card()
  c.packets.set(counting(200), P)
  const list = [
    [COPY, P, N + 64, 200],
    [COPY, N + 64, N + 1024, 200],
    [COPY, N + 1025, P + 501, 99],
    [COPY, P, P + 1000, 200],
  ]
  expect(run(c, ...list)).toEqual([DONE, DONE, DONE, DONE])
  expect(hexOf(c.nvdimm.live.slice(1024, 1224))).toBe(hexOf(counting(200)))
  expect(hexOf(c.packets.slice(P + 501, P + 600))).toBe(hexOf(counting(99, 2)))
  expect(hexOf(c.packets.slice(P + 1000, P + 1200))).toBe(hexOf(counting(200)))
})

test('copies whose ranges overlap move the bytes as they were', () => {
  for (const space of [0, N]) {
    for (const [from, to] of [
      [0, 10],
      [10, 0],
      [8, 0],
      [0, 8],
    ] as const) {
      const c = card()
      const bytes = space === 0 ? c.packets : c.nvdimm.live
      bytes.set(counting(64), P % PART_BYTES)
      const base = space + (P % PART_BYTES)
      run(c, [COPY, base + from, base + to, 48])
      const found = bytes.slice((P % PART_BYTES) + to, (P % PART_BYTES) + to + 48)
      expect(hexOf(found)).toBe(hexOf(counting(48, 1 + from)))
    }
  }
})

test('a copy is durable only if it was cleaned and fenced', () => {
  const c = card()
  c.packets.set(counting(64), P)
  run(c, [COPY, P, N, 64], [COPY_CLEAN, P, N + 64, 64], [COPY, P, N + 128, 64])
  run(c, [FLUSH, 0, N + 128, 64], [FENCE])
  expect(hexOf(c.nvdimm.durable.slice(0, 64))).toBe(hexOf(new Uint8Array(64)))
  expect(hexOf(c.nvdimm.durable.slice(64, 128))).toBe(hexOf(counting(64)))
  expect(hexOf(c.nvdimm.durable.slice(128, 192))).toBe(hexOf(counting(64)))
  expect(pending(c.nvdimm)).toHaveLength(8)
})

test('a check code goes to packet memory or is stored, from either space', () => {
  const c = card()
  const key = counting(16, 50)
  const wanted = new Uint8Array(16)
  checkCode(wanted, 0, counting(112), 0, 112, key, 0)
  c.packets.set(counting(112), P)
  c.packets.set(key, P + 512)
  c.nvdimm.store(0, counting(112), 0, 112)
  c.nvdimm.store(512, key, 0, 16)
  const list = [
    [CHECK, P, P + 1024, 112, P + 512],
    [CHECK, N, N + 1024, 112, N + 512],
    [CHECK, P, N + 2048, 112, N + 512],
  ]
  expect(run(c, ...list)).toEqual([DONE, DONE, DONE])
  expect(hexOf(c.packets.slice(P + 1024, P + 1040))).toBe(hexOf(wanted))
  expect(hexOf(c.nvdimm.live.slice(1024, 1040))).toBe(hexOf(wanted))
  expect(hexOf(c.nvdimm.live.slice(2048, 2064))).toBe(hexOf(wanted))
})

test('a comparison says equal or different, at every length and place', () => {
  const c = card()
  for (const length of [0, 1, 7, 8, 64, 513, 1000]) {
    for (const shift of [0, 1]) {
      c.packets.set(counting(length), P)
      c.nvdimm.live.set(counting(length), shift)
      const same = [COMPARE, P, N + shift, length]
      expect(run(c, same)).toEqual([EQUAL])
      if (length === 0) continue
      c.packets[P + length - 1] = 0xa5 ^ c.packets[P + length - 1]!
      expect(run(c, same, [SKIP])).toEqual([DIFFERENT, DONE])
    }
  }
})

test('a frame is sent with its ICRC, and belongs to whoever took it', () => {
  const c = card()
  const at = TRANSMIT_AT + FRAME_OFFSET_BYTES
  c.packets.set(ACK, at)
  expect(run(c, [TRANSMIT, at, 0, ACK.length])).toEqual([DONE])
  c.packets.fill(0, at, at + 64)
  expect(c.sent).toHaveLength(1)
  expect(icrcGood(c.sent[0]!, 0, ACK.length)).toBe(true)
})

test('what is no frame is not sent', () => {
  const c = card()
  const at = TRANSMIT_AT + FRAME_OFFSET_BYTES
  c.packets.set(ACK, at)
  for (const [from, length] of [
    [at, 40],
    [at, FRAME_BYTES_MAX + 1],
    [N, 64],
    [P, 64],
  ] as const) {
    expect(run(c, [TRANSMIT, from, 0, length])).toEqual([BAD_COMMAND])
  }
  expect(c.sent).toEqual([])
})

test('a list stops at the first command that fails: nothing behind it happens', () => {
  const c = card()
  c.packets.set(ACK, TRANSMIT_AT)
  c.nvdimm.armed = false
  const results = run(c, [COPY_CLEAN, P, N, 64], [FENCE], [TRANSMIT, TRANSMIT_AT, 0, ACK.length])
  expect(results).toEqual([DONE, NOT_ARMED, NOT_DONE])
  expect(c.sent).toEqual([])
})

// Bad commands

/** Every kind of number that is not the address of `length` bytes in a space of `end` bytes. */
function badAddresses(length: number): number[] {
  return [
    -1,
    -0.5,
    0.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    MEMORY_BYTES - length + 1,
    MEMORY_BYTES,
    2 ** 31,
    2 ** 32,
    2 ** 32 + P,
    SPACE_BYTES - 1,
    SPACE_BYTES + 0.5,
    SPACE_BYTES + PART_BYTES - length + 1,
    SPACE_BYTES + PART_BYTES,
    SPACE_BYTES + 2 ** 31,
    SPACE_BYTES + 2 ** 32,
    2 * SPACE_BYTES,
    3 * SPACE_BYTES + 64,
    2 ** 53,
    2 ** 64,
    1e308,
    -SPACE_BYTES,
  ]
}

const BAD_LENGTHS = [
  -1,
  0.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  -(2 ** 32),
  MEMORY_BYTES + 1,
]

test('every address outside its space is refused, whatever number it is', () => {
  const c = card()
  const before = [hexOf(c.nvdimm.live), c.nvdimm.pendingStores.count]
  for (const bad of badAddresses(64)) {
    for (const command of [
      [COPY, bad, N, 64],
      [COPY, P, bad, 64],
      [COPY_CLEAN, bad, N, 64],
      [COPY_CLEAN, P, bad, 64],
      [FLUSH, 0, bad, 64],
      [CHECK, bad, P, 64, P],
      [COMPARE, bad, P, 64],
      [COMPARE, P, bad, 64],
      [TRANSMIT, bad, 0, 64],
    ]) {
      expect(run(c, command), `${command.join(' ')}`).toEqual([BAD_COMMAND])
    }
  }
  for (const bad of badAddresses(16)) {
    expect(run(c, [CHECK, P, bad, 64, P])).toEqual([BAD_COMMAND])
    expect(run(c, [CHECK, P, N, 64, bad])).toEqual([BAD_COMMAND])
  }
  expect([hexOf(c.nvdimm.live), c.nvdimm.pendingStores.count]).toEqual(before)
  expect(c.sent).toEqual([])
})

test('every length that leaves its space is refused', () => {
  const c = card()
  for (const length of BAD_LENGTHS) {
    for (const command of [
      [COPY, P, N, length],
      [COPY_CLEAN, N, P, length],
      [FLUSH, 0, N, length],
      [CHECK, P, P, length, P],
      [COMPARE, P, N, length],
      [TRANSMIT, P, 0, length],
    ]) {
      expect(run(c, command), `${command.join(' ')}`).toEqual([BAD_COMMAND])
    }
  }
})

test('what starts to be written back is in the part, not in packet memory', () => {
  const c = card()
  expect(run(c, [FLUSH, 0, P, 64])).toEqual([BAD_COMMAND])
})

test('the whole of each space can be named, and nothing of no length is no error', () => {
  const c = card()
  expect(run(c, [COPY, MEMORY_BYTES - 64, N + PART_BYTES - 64, 64])).toEqual([DONE])
  expect(run(c, [COPY, MEMORY_BYTES, N + PART_BYTES, 0])).toEqual([DONE])
  expect(run(c, [FLUSH, 0, N + PART_BYTES, 0], [COMPARE, P, N, 0])).toEqual([DONE, EQUAL])
})

test('S1-M1: GUARD lets the list go on where the bytes have it, and nowhere else', () => {
  const c = card()
  for (const length of [0, 1, 63, 64]) {
    const guard = judgedGuard(c.nvdimm.live.subarray(0, length))
    expect(run(c, [GUARD, N, 0, length, guard], [COPY, N, P, 64])).toEqual([DONE, DONE])
    const other = (guard ^ 1) >>> 0 || 2
    expect(run(c, [GUARD, N, 0, length, other], [COPY, N, P, 64])).toEqual([GUARD_FAILED, NOT_DONE])
  }
  for (const guard of [0, -1, 1.5, 2 ** 32, Number.NaN]) {
    expect(run(c, [GUARD, N, 0, 64, guard])).toEqual([BAD_COMMAND])
  }
  expect(run(c, [GUARD, N + PART_BYTES - 63, 0, 64, 1])).toEqual([BAD_COMMAND])
  c.nvdimm.poison(0)
  expect(run(c, [GUARD, N, 0, 64, 1])).toEqual([MEDIA_ERROR])
})

test('KEYSTREAM writes the stream of RFC 8439, also over its key', () => {
  const c = card()
  const stream = Buffer.from(
    '76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7' +
      'da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586',
    'hex',
  )
  const seen = (at: number, length: number): Buffer =>
    Buffer.from(c.machine.packets.slice(at, at + length))
  for (const [length, to] of [
    [64, P + 64],
    [32, P + 16],
    [64, P],
    [0, P],
  ] as const) {
    c.machine.packets.fill(0, P, P + 128)
    expect(run(c, [KEYSTREAM, P, to, length])).toEqual([DONE])
    expect(seen(to, length)).toEqual(stream.subarray(0, length))
    expect(seen(to + length, 8)).toEqual(Buffer.alloc(8))
  }
  for (const [from, to, length] of [
    ...[
      [N, P, 64],
      [P, N, 64],
      [P, P, 63],
      [P, P, -4],
      [MEMORY_BYTES - 31, P, 64],
    ],
    ...[
      [P, MEMORY_BYTES - 60, 64],
      [P, P, 2.5],
      [P + 0.5, P, 4],
    ],
  ] as [number, number, number][]) {
    expect(run(c, [KEYSTREAM, from, to, length])).toEqual([BAD_COMMAND])
  }
})

test('an operation that there is not is refused', () => {
  const c = card()
  for (const op of [
    0,
    KEEP_PEER + 1,
    -1,
    1.5,
    Number.NaN,
    2 ** 32 + COPY,
    Number.POSITIVE_INFINITY,
  ]) {
    expect(run(c, [op, P, N, 64])).toEqual([BAD_COMMAND])
  }
})

test('a count that no list can have runs nothing', () => {
  for (const count of [-1, 0.5, Number.NaN, COMMANDS_MAX + 1, 2 ** 32, Number.POSITIVE_INFINITY]) {
    const c = card()
    c.words.set([COPY, P, N, 64])
    expect(c.machine.run(count)).toBe(0)
    expect(c.words[RESULT]).toBe(BAD_COMMAND)
    expect(c.nvdimm.pendingStores.count).toBe(0)
  }
})

test('no command whatever makes the machine throw', () => {
  const random = new Random(SEED)
  const odd = [...badAddresses(64), ...BAD_LENGTHS, 0, 8, 64, P, N, N + 100, 4096, COPY, TRANSMIT]
  const c = card()
  for (let i = 0; i < 20_000; i++) {
    const command = [1 + random.below(KEEP_PEER), 0, 0, 0, 0].map((op, word) =>
      word === 0 ? op : odd[random.below(odd.length)]!,
    )
    c.words.set(command)
    expect(() => c.machine.run(1), `SEED=${SEED} ${command.join(' ')}`).not.toThrow()
  }
})

// Media errors

test('a poisoned line is never read as data, by no command', () => {
  const c = card()
  c.nvdimm.poison(1)
  for (const command of [
    [COPY, N, P, 65],
    [COPY, N + 100, N + 1024, 8],
    [CHECK, N + 64, P, 64, P],
    [CHECK, P, P, 64, N + 120],
    [COMPARE, N + 127, P, 1],
    [COMPARE, P, N + 127, 1],
  ]) {
    expect(run(c, command)).toEqual([MEDIA_ERROR])
  }
  expect(run(c, [COPY, N, P, 64], [COPY, N + 128, P, 64])).toEqual([DONE, DONE])
})

test('a line loses its media error when COPY_CLEAN writes it whole, not otherwise', () => {
  const c = card()
  c.nvdimm.poison(1)
  const read = [COPY, N + 64, P + 128, 64]
  expect(run(c, [COPY, P, N + 64, 64], read)).toEqual([DONE, MEDIA_ERROR])
  expect(run(c, [COPY_CLEAN, P, N + 65, 126], read)).toEqual([DONE, MEDIA_ERROR])
  expect(run(c, [COPY_CLEAN, P, N + 64, 63], read)).toEqual([DONE, MEDIA_ERROR])
  expect(run(c, [COPY_CLEAN, P, N + 60, 100], read)).toEqual([DONE, DONE])
})

test('a line that refuses the store fails the command', () => {
  const c = card()
  c.nvdimm.refuseWrites(2)
  expect(run(c, [COPY_CLEAN, P, N + 64, 128], [FENCE])).toEqual([MEDIA_ERROR, NOT_DONE])
})

test('the health of the part stands in packet memory before a burst and in every list', () => {
  const c = card()
  const health = new Int32Array(c.machine.memory, HEALTH_AT, 1)
  expect(health[0]).toBe(ARMED)
  c.nvdimm.armed = false
  c.machine.place(0, ACK)
  expect(health[0]).toBe(0)
  c.nvdimm.armed = true
  c.nvdimm.failSave()
  c.machine.run(0)
  expect(health[0]).toBe(ARMED | SAVE_FAILED)
})

test('and there stands whether the firmware is on trial, each time as it is then', () => {
  let isOnTrial = true
  const { machine } = card({ isOnTrial: () => isOnTrial })
  const health = new Int32Array(machine.memory, HEALTH_AT, 1)
  expect(health[0]).toBe(ARMED | ON_TRIAL)
  isOnTrial = false
  machine.run(0)
  expect(health[0]).toBe(ARMED)
})

// Receiving

test('a frame is placed with its length and the verdict on its ICRC', () => {
  const c = card()
  const received = new Int32Array(c.machine.memory, RECEIVED_AT)
  c.packets.set(ACK, TRANSMIT_AT)
  run(c, [TRANSMIT, TRANSMIT_AT, 0, ACK.length])
  c.machine.place(5, c.sent[0]!)
  c.machine.place(6, ACK)
  expect([...received.slice(10, 14)]).toEqual([ACK.length, ICRC_GOOD, ACK.length, 0])
  const at = RECEIVE_AT + 5 * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
  expect(hexOf(c.packets.slice(at, at + ACK.length))).toBe(hexOf(c.sent[0]!))
})

test('a frame that is too long stays in its place, and its length says so', () => {
  const c = card()
  c.machine.place(2, counting(10))
  c.machine.place(1, new Uint8Array(20_000).fill(0xee))
  const received = new Int32Array(c.machine.memory, RECEIVED_AT)
  expect([received[2], received[3]]).toEqual([20_000, 0])
  const next = RECEIVE_AT + 2 * FRAME_STRIDE_BYTES
  expect(hexOf(c.packets.slice(next + FRAME_OFFSET_BYTES, next + 12))).toBe(hexOf(counting(10)))
  expect(() => c.machine.place(32, ACK)).toThrow(RangeError)
})

// Power

test('a cut before a command leaves that and everything behind it undone, permanently', () => {
  for (let command = 0; command <= 3; command++) {
    const c = card()
    c.packets.set(counting(64), P)
    c.packets.set(ACK, TRANSMIT_AT)
    c.machine.armCut(command)
    const list = [[COPY_CLEAN, P, N, 64], [FENCE], [TRANSMIT, TRANSMIT_AT, 0, ACK.length]]
    const results = run(c, ...list)
    const wanted = [DONE, DONE, DONE].fill(NOT_DONE, command)
    if (command < 3) wanted[command] = NO_POWER
    expect(results).toEqual(wanted)
    expect([c.cuts, c.machine.dead, c.sent.length]).toEqual([1, true, command > 2 ? 1 : 0])
    expect(c.nvdimm.durable[0]).toBe(command > 1 ? 1 : 0)
    expect(run(c, ...list)).toEqual([NO_POWER, NOT_DONE, NOT_DONE])
    expect(c.sent).toHaveLength(command > 2 ? 1 : 0)
  }
})

test('a cut inside a store leaves whole pieces of eight bytes of it', () => {
  for (let bytes = 0; bytes <= 70; bytes++) {
    const c = card()
    c.packets.set(counting(70), P)
    c.machine.armCut(0, bytes)
    run(c, [COPY, P, N + 4, 70])
    const end = bytes >= 70 ? 72 : 4 + bytes - ((4 + bytes) % 8)
    const stored = Math.max(0, end - 4)
    const live = new Uint8Array(74)
    live.set(counting(70).slice(0, stored), 4)
    expect(hexOf(c.nvdimm.live.slice(0, 74)), `${bytes} bytes`).toBe(hexOf(live))
  }
})

test('a cut that is aimed at a group strikes inside a store of the first list with a fence', () => {
  const struck = new Set<number>()
  for (let seed = 0; seed < 60; seed++) {
    const c = card()
    c.machine.armCutInGroup(new Random(SEED + seed))
    run(c, [COPY, P, N, 64], [COMPARE, P, N, 64])
    expect(c.machine.dead).toBe(false)
    c.words.set([COPY_CLEAN, P, N, 64], 0)
    c.words.set([FENCE, 0, 0, 0], 8)
    c.words.set([COPY_CLEAN, P, N + 64, 64], 16)
    c.words.set([COPY_CLEAN, P, N + 128, 64], 24)
    c.words.set([FENCE, 0, 0, 0], 32)
    struck.add(c.machine.run(5))
    expect([c.machine.dead, c.cuts]).toEqual([true, 1])
  }
  expect([...struck].sort()).toEqual([0, 2, 3])
})

// Observers

test('an observer sees every command with its number, and a mutation drops one', () => {
  const c = card()
  const seen: number[][] = []
  c.machine.observe({
    onCommand: (number, op, words, at) => seen.push([number, op, words[at + OP]!]),
    replace: (number, op) => (number === 1 ? SKIP : op),
  })
  c.packets.set(counting(64), P)
  expect(run(c, [COPY_CLEAN, P, N, 64], [FENCE], [SKIP])).toEqual([DONE, DONE, DONE])
  expect(seen).toEqual([
    [0, COPY_CLEAN, COPY_CLEAN],
    [1, FENCE, FENCE],
    [2, SKIP, SKIP],
  ])
  expect(c.nvdimm.durable[0]).toBe(0)
  expect(c.machine.statistics.fences).toBe(0)
})

/** The operands of an atomic command, and the word before it. */
function operate(op: number, swapOrAdd: bigint, compare: bigint, word: bigint, at: number) {
  const c = card()
  const view = new DataView(c.machine.memory)
  view.setBigUint64(P + 1, swapOrAdd)
  view.setBigUint64(P + 9, compare)
  const live = at >= N ? c.nvdimm.live : c.packets
  const words = new DataView(live.buffer, live.byteOffset + (at % SPACE_BYTES))
  words.setBigUint64(0, word, true)
  const result = run(c, [op, P + 1, at, 8, P + 33])[0]
  return { c, result, word: words.getBigUint64(0, true), original: view.getBigUint64(P + 33) }
}

const TOP = 2n ** 64n - 1n

test('FETCH_ADD adds modulo 2^64 and tells the original, on the part and in packet memory', () => {
  for (const at of [N + 64, N + 8, P + 128]) {
    for (const [word, add] of [
      [0n, 1n],
      [0xffff_ffffn, 1n],
      [0x7fff_ffff_ffff_ffffn, 1n],
      [TOP, 1n],
      [TOP, TOP],
      [0x0123_4567_89ab_cdefn, 0x8000_0000_8000_0000n],
    ] as const) {
      const done = operate(FETCH_ADD, add, 0n, word, at)
      const { result, original } = done
      expect({ result, original }).toEqual({ result: DONE, original: word })
      expect(done.word, `${word} + ${add}`).toBe((word + add) & TOP)
    }
  }
})

test('COMPARE_SWAP stores only over the word that it names, and tells the original always', () => {
  const numbers = [0n, 1n, 2n ** 32n, 2n ** 63n, TOP]
  for (const at of [N + 64, P + 128]) {
    for (const word of numbers) {
      for (const compare of numbers) {
        const { result, original, word: after } = operate(COMPARE_SWAP, 7n, compare, word, at)
        const wanted = compare === word ? 7n : word
        expect({ result, original, after }).toEqual({
          result: DONE,
          original: word,
          after: wanted,
        })
      }
    }
  }
})

test('an atomic starts the write-back of its word, and a fence makes it durable', () => {
  for (const op of [FETCH_ADD, COMPARE_SWAP]) {
    const { c } = operate(op, 5n, 0n, 0n, N + 64)
    expect([c.nvdimm.live[64], c.nvdimm.durable[64]]).toEqual([5, 0])
    expect(pending(c.nvdimm).map(({ at }) => at)).toEqual([64])
    run(c, [FENCE])
    expect(c.nvdimm.durable[64]).toBe(5)
  }
})

test('an atomic on a bad line tells and changes nothing', () => {
  for (const hurt of ['poison', 'refuseWrites'] as const) {
    const c = card()
    c.packets[P + 7] = 1
    c.nvdimm[hurt](1)
    expect(run(c, [FETCH_ADD, P, N + 64, 8, P + 32])).toEqual([MEDIA_ERROR])
    c.packets.fill(0xee, P + 32, P + 40)
    expect(run(c, [FETCH_ADD, P, N + 64, 8, P + 32])).toEqual([MEDIA_ERROR])
    expect(hexOf(c.packets.slice(P + 32, P + 40))).toBe('ee'.repeat(8))
    expect(pending(c.nvdimm)).toEqual([])
  }
})

test('an atomic off its alignment, of another length or in the wrong space is refused', () => {
  for (const op of [FETCH_ADD, COMPARE_SWAP]) {
    for (const [from, to, length, original] of [
      [P, N + 4, 8, P + 32],
      [P, N + 1, 8, P + 32],
      [P, N, 4, P + 32],
      [P, N, 16, P + 32],
      [N + 64, N, 8, P + 32],
      [P, N, 8, N + 64],
      [P, N + PART_BYTES, 8, P + 32],
      [MEMORY_BYTES - 8, N, 8, P + 32],
      [P, N, 8, MEMORY_BYTES - 4],
      [P, Number.NaN, 8, P + 32],
      [P, -8, 8, P + 32],
    ] as const) {
      const c = card()
      expect(run(c, [op, from, to, length, original])).toEqual([BAD_COMMAND])
      expect(pending(c.nvdimm)).toEqual([])
    }
  }
})

test('the trace is every descriptor executed and every frame sent, byte for byte', () => {
  const trace = (): string => {
    const c = card()
    const bytes: string[] = []
    c.machine.observe({ trace: (part) => bytes.push(hexOf(part)) })
    c.packets.set(ACK, TRANSMIT_AT)
    run(c, [COPY, P, N, 64], [TRANSMIT, TRANSMIT_AT, 0, ACK.length], [COPY, -1, N, 64], [FENCE])
    return bytes.join('\n')
  }
  const lines = trace().split('\n')
  expect(lines.map((line) => line.length / 2)).toEqual([48, 48, ACK.length, 48])
  expect(lines[3]).toContain(hexOf(new Uint8Array(new Float64Array([BAD_COMMAND]).buffer)))
  expect(trace()).toBe(trace())
})

test('the statistics count what was done', () => {
  const c = card()
  c.packets.set(ACK, TRANSMIT_AT)
  run(c, [COPY_CLEAN, P, N, 100], [FENCE], [TRANSMIT, TRANSMIT_AT, 0, ACK.length], [SKIP])
  const { commands, ...counts } = c.machine.statistics
  expect(counts).toEqual({
    runs: 1,
    fences: 1,
    bytesStored: 100,
    linesCleaned: 2,
    framesSent: 1,
    bytesSent: ACK.length,
  })
  expect([commands.copyClean, commands.fence, commands.transmit, commands.skip]).toEqual([
    1, 1, 1, 1,
  ])
})
