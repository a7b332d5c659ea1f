/**
 * Tags on packets (hal.ts, SECURE, TAG_GOOD, TRANSMIT), on the emulated machine and on the native
 * one: Node's own tags, counters at every distance, and operands of every wrong kind.
 *
 * The native machine is compiled here with the sanitizers; without a compiler, or without
 * libsodium, its part is skipped.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../boards/emulator/base/random.ts'
import { fillIcrc } from '../../boards/software/icrc.ts'
import {
  BAD_COMMAND,
  COMMAND_WORDS,
  COPY,
  DMA_SPACE,
  DONE,
  HOST_SPACE,
  ICRC_GOOD,
  ICRC_GOOD_LINUX_FLUSH,
  ICRC_LINUX_FLUSH,
  ICRC_NONE,
  ICRC_STANDARD,
  NVDIMM_SPACE,
  PRIVATE_AT,
  RECEIVE_AT,
  RESULT,
  SECURE,
  SECURE_BYTES,
  TAG_GOOD,
  TAGGED,
  TRANSMIT,
  TRANSMIT_AT,
} from '../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  FRAME_BYTES_MAX,
  FRAME_OFFSET_BYTES,
  QUEUE_PAIRS,
} from '../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../firmware/board/memory-map.ts'
import { TAG_KEY_BYTES, TAG_WINDOW } from '../../firmware/wire/tag.ts'
import { type Left, type List, runEmulated, runNative } from '../support/native/machine-lists.ts'
import { because, compileMachine, noMachine } from '../support/native/machine-program.ts'
import { FORMS, sealed, type TaggedFrame, taggedFrame } from '../support/wire/tagged.ts'

const SEED = Number(process.env.SEED ?? 8439)
const SPACE = 65_536
const GOOD = ICRC_GOOD | TAG_GOOD

const random = new Random(SEED)
const THEIRS = drawn(TAG_KEY_BYTES)
const OURS = drawn(TAG_KEY_BYTES)
/** The place, the queue pair that is there, and another one that would be. */
const PLACE = 0x56
const NUMBER = 0x123456
const OTHER = 0x113456

/** Where the first frame of a burst stands. */
const RECEIVED_FRAME = RECEIVE_AT + FRAME_OFFSET_BYTES
/** Operands of SECURE. */
const KEYS_AT = PRIVATE_AT
const keys = Buffer.concat([THEIRS, OURS, Buffer.from(new Uint32Array([NUMBER]).buffer)])

type Numbers = readonly number[]

const ON: Numbers = [SECURE, KEYS_AT, 0, SECURE_BYTES, PLACE]
const OFF: Numbers = [SECURE, KEYS_AT, 0, 0, PLACE]

function drawn(length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  random.fill(bytes, 0, length)
  return bytes
}

/** Frames, and then commands. */
function list(came: readonly Uint8Array[], ...commands: readonly Numbers[]): List {
  const words = new Float64Array(commands.length * COMMAND_WORDS)
  for (const [i, command] of commands.entries()) words.set(command, i * COMMAND_WORDS)
  return { came, count: commands.length, words }
}

/** Lists of one command each. */
function each(commands: readonly Numbers[]): List[] {
  return commands.map((command) => list([], command))
}

function resultsOf(left: Left): number[] {
  return left.ran.map(({ words }) => words.readDoubleLE(8 * RESULT))
}

function frameOf(payload: Uint8Array, form = FORMS[0]!, destQp = NUMBER): TaggedFrame {
  return taggedFrame({ ...form, destQp, payload })
}

function coming(counter: bigint | number, key: Uint8Array = THEIRS, destQp = NUMBER): Buffer {
  return sealed(frameOf(new Uint8Array(4), FORMS[0], destQp), key, counter)
}

const folder = mkdtempSync(join(tmpdir(), 'perdure-tags-'))
let program = ''
beforeAll(() => {
  if (noMachine === null) program = compileMachine()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

type Run = typeof runEmulated
type Beginning = Parameters<Run>[0]

const MACHINES: readonly (readonly [string, boolean, (...all: Parameters<Run>) => Left])[] = [
  ['the emulated machine', false, runEmulated],
  [
    `the native machine${because}`,
    noMachine !== null,
    (beginning, lists) => runNative(program, folder, [], beginning, lists),
  ],
]

for (const [machine, isMissing, runOn] of MACHINES) {
  describe.skipIf(isMissing)(machine, () => {
    /** Runs the lists over the keys, and `frame` where frames leave from. */
    function run(lists: readonly List[], frame: Uint8Array = new Uint8Array(0)): Left {
      const packets = new Uint8Array(MEMORY_BYTES)
      packets.set(keys, KEYS_AT)
      packets.set(keys, MEMORY_BYTES - SECURE_BYTES)
      packets.set(frame, TRANSMIT_AT)
      const spaces = { part: keysIn(SPACE), host: keysIn(SPACE), dma: keysIn(SPACE) }
      const beginning: Beginning = { packets, ...spaces, poisonedLines: [], dirtyShutdowns: 0 }
      return runOn(beginning, lists)
    }

    function keysIn(bytes: number): Uint8Array {
      const space = new Uint8Array(bytes)
      space.set(keys)
      return space
    }

    /** The flags of what comes when the place has just got its keys. */
    function flagsOf(came: readonly Uint8Array[]): number[] {
      const lists = [list([], ON)]
      for (let at = 0; at < came.length; at += BURST_FRAMES) {
        lists.push(list(came.slice(at, at + BURST_FRAMES)))
      }
      return run(lists).ran.flatMap(({ flags }) => flags)
    }

    test('every form and length of frame leaves with the tag and the ICRC of its bytes', () => {
      let counter = 0
      const lists = [list([], ON)]
      const expected: string[] = []
      for (const form of FORMS) {
        for (const length of [...Array(40).keys(), 1024, 4096 + 40 - form.pad]) {
          const frame = frameOf(drawn(length), form)
          // It comes in first, and leaves from where it is copied to.
          const { bytes } = frame
          const aux = (PLACE + 1) * TAGGED + ICRC_STANDARD
          lists.push(
            list(
              [bytes],
              [COPY, RECEIVED_FRAME, TRANSMIT_AT, bytes.length, 0],
              [...[TRANSMIT, TRANSMIT_AT, 0, bytes.length, aux]],
            ),
          )
          expected.push(sealed(frame, OURS, counter++).toString('hex'))
        }
      }
      const { ran } = run(lists)
      expect(ran.slice(1).map(({ frames }) => frames.map((f) => f.toString('hex')).join())).toEqual(
        expected,
      )
    })

    test('the tag goes under whatever ICRC is asked for, and under none', () => {
      const frame = frameOf(drawn(32))
      const { bytes, icrcAt } = frame
      const aux = (PLACE + 1) * TAGGED
      const lists = [ICRC_STANDARD, ICRC_NONE, ICRC_LINUX_FLUSH].map((icrc) =>
        list([], [TRANSMIT, TRANSMIT_AT, 0, bytes.length, aux + icrc]),
      )
      const left = run([list([], ON), ...lists], bytes)
      const sent = left.ran.flatMap(({ frames }) => frames)
      const wanted = [0, 1, 2].map((counter) => Buffer.from(sealed(frame, OURS, counter)))
      wanted[1]!.fill(0, icrcAt, icrcAt + 4)
      fillIcrc(wanted[2]!, 0, bytes.length, true)
      expect(sent.map((one) => one.toString('hex'))).toEqual(
        wanted.map((one) => one.toString('hex')),
      )
    })

    test('what comes with its tag is told so once, in every form', () => {
      const frames = FORMS.flatMap((form, i) =>
        [0, 1, 15, 16, 17, 1024, 4096].map((length, k) =>
          sealed(frameOf(drawn(length), form), THEIRS, 100 + 10 * i + k),
        ),
      )
      expect(flagsOf([...frames, ...frames])).toEqual([
        ...[...frames.map(() => GOOD), ...frames.map(() => ICRC_GOOD)],
      ])
    })

    test('a changed bit that a router may not change makes it wrong, and uses up nothing', () => {
      const frame = frameOf(drawn(5))
      const good = Buffer.from(sealed(frame, THEIRS, 2 ** 33 + 7))
      const changed = (bit: number): Buffer => {
        const bytes = Buffer.from(good)
        bytes[bit >> 3] = bytes[bit >> 3]! ^ (0x80 >> (bit & 7))
        fillIcrc(bytes, 0, bytes.length)
        return bytes
      }
      const bits = Array.from({ length: 8 * (frame.icrcAt - frame.bthAt) }, (_, i) => i)
      const fixed = bits.filter((bit) => bit >> 3 !== 4).map((bit) => 8 * frame.bthAt + bit)
      const free = changed(8 * (frame.bthAt + 4))
      const broken = Buffer.from(good)
      broken[frame.icrcAt] = broken[frame.icrcAt]! ^ 1
      expect(flagsOf([...fixed.map(changed), broken, free, good])).toEqual([
        ...[...fixed.map(() => ICRC_GOOD), 0, GOOD, ICRC_GOOD],
      ])
    })

    test('a counter is taken at every distance that the window allows, and once', () => {
      const lists: List[] = []
      const expected: number[][] = []
      for (let distance = -260; distance <= 300; distance++) {
        if (distance === 0) continue
        const second = 1000 + distance
        const newest = Math.max(1000, second)
        const end = newest - TAG_WINDOW
        const counters = [1000, second]
        for (const counter of [end - 1, end, 999, 1000, second - 1, second, newest - 1, newest]) {
          if (counter <= newest) counters.push(counter)
        }
        const came = new Set<number>()
        const flags = counters.map((counter) => {
          const isTaken = Math.max(...came, counter) - counter <= TAG_WINDOW && !came.has(counter)
          if (isTaken) came.add(counter)
          return isTaken ? GOOD : ICRC_GOOD
        })
        lists.push(list([], ON), list(counters.map((counter) => coming(counter))))
        expected.push([], flags)
      }
      expect(run(lists).ran.map(({ flags }) => flags)).toEqual(expected)
    })

    test('behind a jump of any width no counter that was passed has come', () => {
      for (const width of [2, 63, 64, 65, 128, TAG_WINDOW, TAG_WINDOW + 1, TAG_WINDOW + 2, 5000]) {
        // All of the window before the jump has come.
        const before = Array.from({ length: TAG_WINDOW + 1 }, (_, i) => i)
        const newest = TAG_WINDOW + width
        const behind = before.map((i) => newest - TAG_WINDOW + i)
        const flags = flagsOf([...before, newest, ...behind].map((counter) => coming(counter)))
        const wanted = behind.map((counter) => counter > TAG_WINDOW && counter < newest)
        expect(flags.slice(before.length + 1), `${width}`).toEqual(
          wanted.map((isNew) => (isNew ? GOOD : ICRC_GOOD)),
        )
      }
    })

    test('counters go from 0 to the largest exact one, and to none beyond', () => {
      const last = 2n ** 53n - 1n
      const counters = [
        0n,
        0n,
        last + 1n,
        2n ** 53n + 2n,
        2n ** 63n,
        2n ** 64n - 1n,
        1n,
        last,
        last,
      ]
      expect(
        flagsOf(counters.map((counter) => coming(counter))).map((flags) => flags === GOOD),
      ).toEqual([true, false, false, false, false, false, true, true, false])
    })

    test('keys are of one queue pair, one direction, and until the next SECURE', () => {
      const ours = coming(1, OURS)
      const other = coming(2, THEIRS, OTHER)
      const good = coming(3)
      const left = run([
        list([good, ours, other], ON),
        list([ours, other, good, good], OFF),
        list([coming(4)], ON),
        list([good, coming(0)], ON),
        list([good, coming(0)]),
      ])
      expect(left.ran.map(({ flags }) => flags)).toEqual([
        [ICRC_GOOD, ICRC_GOOD, ICRC_GOOD],
        [ICRC_GOOD, ICRC_GOOD, GOOD, ICRC_GOOD],
        [ICRC_GOOD],
        [GOOD, GOOD],
        [GOOD, GOOD],
      ])
    })

    test('a FLUSH with the ICRC of Linux has no tag, whatever stands in its trailer', () => {
      const frame = frameOf(drawn(20))
      frame.bytes[frame.bthAt] = 0x1c
      const standard = Buffer.from(sealed(frame, THEIRS, 5))
      const linux = Buffer.from(standard)
      fillIcrc(linux, 0, linux.length, true)
      expect(flagsOf([linux, standard])).toEqual([ICRC_GOOD_LINUX_FLUSH, GOOD])
    })

    test('the counter begins at 0 with new keys, and no frame without room uses one up', () => {
      const frame = frameOf(drawn(0))
      const { bytes, trailerAt, bthAt } = frame
      const send: Numbers = [TRANSMIT, TRANSMIT_AT, 0, bytes.length, (PLACE + 1) * TAGGED]
      const short = [TRANSMIT, TRANSMIT_AT, 0, bytes.length - 1, (PLACE + 1) * TAGGED]
      const left = run(each([ON, send, short, send, ON, send, OFF, send]), bytes)
      const results = [DONE, DONE, BAD_COMMAND, DONE, DONE, DONE, DONE, BAD_COMMAND]
      expect(resultsOf(left)).toEqual(results)
      const sent = left.ran.flatMap(({ frames }) => frames)
      expect(sent.map((one) => one.readBigUInt64BE(trailerAt))).toEqual([0n, 1n, 0n])
      // Its lengths leave no room: the trailer would begin inside BTH.
      const lengthAt = bthAt - 26
      bytes.writeUInt16BE(bytes.readUInt16BE(lengthAt) - 1, lengthAt)
      expect(resultsOf(run(each([ON, send]), bytes))).toEqual([DONE, BAD_COMMAND])
    })

    test('operands of every wrong kind are refused', () => {
      const { bytes } = frameOf(drawn(4))
      const places = [-1, QUEUE_PAIRS, 0.5, PLACE + 0.25, 2 ** 32, 2 ** 53, Number.NaN, -Infinity]
      const lengths = [1, 4, 64, 67, 69, 2 * SECURE_BYTES, -SECURE_BYTES, 68.5, Number.NaN, 2 ** 31]
      const outside = [NVDIMM_SPACE, HOST_SPACE, DMA_SPACE, -1, 0.5, MEMORY_BYTES - 67, 2 ** 53]
      const bad: Numbers[] = [
        ...places.map((place) => [SECURE, KEYS_AT, 0, SECURE_BYTES, place]),
        ...places.map((place) => [SECURE, KEYS_AT, 0, 0, place]),
        ...lengths.map((length) => [SECURE, KEYS_AT, 0, length, PLACE]),
        ...outside.map((from) => [SECURE, from, 0, SECURE_BYTES, PLACE]),
        [SECURE, NVDIMM_SPACE, 0, 0, PLACE],
        // A place without keys, none at all, and numbers that say nothing.
        ...[0, PLACE - 1, PLACE + 1, QUEUE_PAIRS - 1, QUEUE_PAIRS, 2 ** 27, 2 ** 49].map(
          (place) => [...[TRANSMIT, TRANSMIT_AT, 0, bytes.length, (place + 1) * TAGGED]],
        ),
        ...[-1, -TAGGED, 0.5, (PLACE + 1) * TAGGED + 0.5, Number.NaN, Infinity, 2 ** 64].map(
          (aux) => [...[TRANSMIT, TRANSMIT_AT, 0, bytes.length, aux]],
        ),
        [TRANSMIT, NVDIMM_SPACE, 0, bytes.length, (PLACE + 1) * TAGGED],
        [TRANSMIT, TRANSMIT_AT, 0, FRAME_BYTES_MAX + 1, (PLACE + 1) * TAGGED],
      ]
      const lists = [list([], ON), ...each(bad)]
      const left = run(
        [
          ...lists,
          list([coming(7)], [TRANSMIT, TRANSMIT_AT, 0, bytes.length, (PLACE + 1) * TAGGED]),
        ],
        bytes,
      )
      expect(resultsOf(left)).toEqual([DONE, ...bad.map(() => BAD_COMMAND), DONE])
      // What failed has changed nothing.
      expect(left.ran.at(-1)!.flags).toEqual([GOOD])
      const last = left.ran.at(-1)!.frames[0]!
      expect(last.readBigUInt64BE(frameOf(drawn(4)).trailerAt)).toBe(0n)
    })

    test('the last place and the last bytes of packet memory serve as any', () => {
      const end = MEMORY_BYTES - SECURE_BYTES
      const commands = [0, QUEUE_PAIRS - 1].flatMap((place): Numbers[] => [
        [SECURE, end, 0, SECURE_BYTES, place],
        [SECURE, MEMORY_BYTES, 0, 0, place],
      ])
      expect(resultsOf(run(each(commands)))).toEqual([DONE, DONE, DONE, DONE])
    })
  })
}
