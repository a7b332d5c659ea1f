/**
 * The native runtime's machine and memory (boards/linux): held against the emulated machine, list
 * for list and byte for byte; against anything that JavaScript may write into the ring; and against
 * files that change under it.
 *
 * The C is compiled here with the sanitizers; without a compiler, or without libsodium, this is
 * skipped.
 */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import {
  AGREE,
  AUTHENTICATION_FAILED,
  BAD_COMMAND,
  COMMAND_WORDS,
  COMPARE,
  COPY,
  COPY_CLEAN,
  DIFFERENT,
  DONE,
  FENCE,
  GUARD,
  GUARD_FAILED,
  ICRC_GOOD,
  KEEP_PEER,
  MEDIA_ERROR,
  NOT_KEPT,
  NVDIMM_SPACE,
  OP,
  PRIVATE_AT,
  RESULT,
  SECURE,
  SKIP,
  TAG_GOOD,
  UNSEAL,
} from '../../../firmware/board/hal.ts'
import { readTrace } from '../../../host-driver/command/timeline/read-trace.ts'
import { differingLines, mentionedLines } from '../../support/command/played.ts'
import { Drawing, type Left, runEmulated, runNative } from '../../support/native/machine-lists.ts'
import { because, compileMachine, noMachine } from '../../support/native/machine-program.ts'
import { divided } from '../../support/run/thorough.ts'
import { VECTORS } from '../../support/wire/vectors.ts'

const SEED = Number(process.env.SEED ?? 20261121)
const folder = mkdtempSync(join(tmpdir(), 'perdure-machine-'))
const RING = join(folder, 'trace')
const TRACED = `trace=${RING}`
let program = ''
beforeAll(() => {
  if (noMachine === null) program = compileMachine()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe.skipIf(noMachine !== null)(`the same lists as the emulator${because}`, () => {
  const FRAMES = VECTORS.map(({ bytes }) => bytes).filter((bytes) => bytes.length <= 4000)

  /** The first list about which they disagree, in words; the whole of it would say too much. */
  function expectSame(native: Left, emulated: Left, hint: string): void {
    emulated.ran.forEach((ran, i) => {
      const other = native.ran[i]!
      const same =
        ran.done === other.done &&
        ran.flags.join() === other.flags.join() &&
        ran.words.equals(other.words) &&
        ran.frames.length === other.frames.length &&
        ran.frames.every((frame, k) => frame.equals(other.frames[k]!))
      if (same) return
      const numbers = ({ words }: typeof ran): number[] => [
        ...new Float64Array(words.buffer.slice(words.byteOffset, words.byteOffset + words.length)),
      ]
      expect({ ...other, words: numbers(other) }, `list ${i}, ${hint}`).toEqual({
        ...ran,
        words: numbers(ran),
      })
      // The same numbers and frames, but not the same bits.
      expect.fail(`list ${i}: other bits, ${hint}`)
    })
    for (const space of ['packets', 'part', 'host', 'dma'] as const) {
      if (native[space].equals(emulated[space])) continue
      const at = native[space].findIndex((byte, i) => byte !== emulated[space][i])
      expect.fail(`byte ${at} of ${space} differs, ${hint}`)
    }
    expect(native.condition, hint).toBe(emulated.condition)
    expect(native.counters, hint).toEqual(emulated.counters)
  }

  /** What was written down ends with the part that was left, where no line was bad. */
  function expectWritten({ part }: Left, poisoned: number, hint: string): void {
    const file = readTrace(RING)
    expect(file.events.filter(({ e }) => e === 'store').length, hint).toBeGreaterThan(50)
    if (poisoned > 0) return
    expect(differingLines(file, part, mentionedLines(file)), hint).toEqual([])
  }

  /** How often each operation came to each result, as "operation result". */
  function outcomes(left: Left): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { words, done } of left.ran) {
      for (let i = 0; i <= done && (i + 1) * 8 * COMMAND_WORDS <= words.length; i++) {
        const at = i * 8 * COMMAND_WORDS
        const key = `${words.readDoubleLE(at + 8 * OP)} ${words.readDoubleLE(at + 8 * RESULT)}`
        counts.set(key, (counts.get(key) ?? 0) + 1)
      }
    }
    return counts
  }

  test.each([
    ['straight into the mapping', [], 0],
    ['by way of the shadow, with a host behind a BAR', ['shadow', 'device'], 0],
    ['by way of the shadow, with bad lines', ['shadow'], 40],
    ['by way of the shadow, and written down', ['shadow', TRACED], 0],
    ['by way of the shadow, with bad lines, and written down', ['shadow', TRACED], 40],
  ] as const)('%s', (_, options, poisoned) => {
    const random = new Random(SEED)
    const seen = new Map<string, number>()
    const flags = new Map<number, number>()
    let frames = 0
    for (let round = 0; round < 8; round++) {
      const drawing = new Drawing(random)
      const beginning = drawing.beginning(FRAMES, poisoned)
      const lists = Array.from({ length: 400 }, () => drawing.list())
      const emulated = runEmulated(beginning, lists)
      const native = runNative(program, folder, options, beginning, lists)
      const hint = `SEED=${SEED} round ${round}`
      // Without a shadow nothing is volatile: the file shows stores that no fence made durable.
      if (options.length === 0) expectSame(native, { ...emulated, part: emulated.live }, hint)
      else expectSame(native, emulated, hint)
      if (options.some((option) => option === TRACED)) expectWritten(native, poisoned, hint)
      for (const [key, count] of outcomes(emulated)) seen.set(key, (seen.get(key) ?? 0) + count)
      for (const flag of emulated.ran.flatMap((ran) => ran.flags)) {
        flags.set(flag, (flags.get(flag) ?? 0) + 1)
      }
      frames += emulated.ran.reduce((sum, ran) => sum + ran.frames.length, 0)
    }
    // Lists that came to nothing would agree, too.
    for (let op = COPY; op <= SECURE; op++) {
      expect(seen.get(`${op} ${DONE}`), `operation ${op}`).toBeGreaterThan(10)
      if (op !== SKIP) expect(seen.has(`${op} ${BAD_COMMAND}`) || op === FENCE, `${op}`).toBe(true)
    }
    // Neither has a peers file here.
    expect(seen.get(`${KEEP_PEER} ${NOT_KEPT}`)).toBeGreaterThan(10)
    expect(seen.get(`${KEEP_PEER} ${BAD_COMMAND}`)).toBeGreaterThan(10)
    expect(seen.get(`${COMPARE} ${DIFFERENT}`)).toBeGreaterThan(50)
    expect(seen.get(`${GUARD} ${GUARD_FAILED}`)).toBeGreaterThan(10)
    for (const op of [AGREE, UNSEAL]) {
      expect(seen.get(`${op} ${AUTHENTICATION_FAILED}`), `${op}`).toBeGreaterThan(10)
    }
    expect(seen.has(`${COPY} ${MEDIA_ERROR}`)).toBe(poisoned > 0)
    expect(frames).toBeGreaterThan(50)
    expect(flags.get(ICRC_GOOD | TAG_GOOD)).toBeGreaterThan(200)
    expect(flags.get(ICRC_GOOD)).toBeGreaterThan(1000)
    expect(flags.get(0)).toBeGreaterThan(100)
  })
})

describe.skipIf(noMachine !== null)(`anything in the ring${because}`, () => {
  /** Lists per run; a run is some thirteen times as many commands. */
  const LISTS = 150_000

  for (const { rows, options } of divided(
    [
      ['the mapping, packet memory at the beginning of its pages', []],
      ['the mapping, packet memory at the end of its pages', ['late']],
      ['the shadow, packet memory at the beginning of its pages', ['shadow']],
      ['the shadow, packet memory at the end of its pages', ['shadow', 'late']],
      ['the mapping, with a host behind a BAR', ['device']],
    ] as const,
    ([, options]) => options.length > 0,
  )) {
    test.each(rows)('touches no byte outside the spaces: %s', options, (_, options) => {
      const at = (name: string): string => join(folder, name)
      for (const name of ['fuzz', 'host', 'dma']) writeFileSync(at(name), new Uint8Array(65_536))
      const places = [`part=${at('fuzz')}`, `host=${at('host')}`, `dma=${at('dma')}`]
      const args = ['fuzz', `${SEED}`, `${LISTS}`, 'development', ...places, ...options]
      const { status, signal, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
      expect({ status, signal }, `SEED=${SEED} ${stderr}`).toEqual({ status: 0, signal: null })
      const counts = JSON.parse(stdout) as Record<string, number>
      expect(counts.commands).toBeGreaterThan(10 * LISTS)
      expect(counts.refused).toBeGreaterThan(LISTS)
      // Most of what is asked for is done: refusing everything would touch nothing, either.
      expect(counts.commands).toBeGreaterThan(3 * counts.refused!)
      expect(counts.stored).toBeGreaterThan(10 * LISTS)
      expect(counts.sent).toBeGreaterThan(0)
    })
  }
})

describe.skipIf(noMachine !== null)(`a build that leaves cleans out${because}`, () => {
  test('the shadow shows the loss, so that a kill test can fail', () => {
    const faulty = compileMachine('-DDROP_FLUSH=1')
    const line = (at: number): number[] => [COPY_CLEAN, PRIVATE_AT, NVDIMM_SPACE + at * 64, 64]
    const words = (commands: readonly (readonly number[])[]): Float64Array =>
      Float64Array.from(
        commands.flatMap((command) => [...command, 0, 0, 0, 0, 0, 0, 0].slice(0, COMMAND_WORDS)),
      )
    const LINES = 104
    const stores = Array.from({ length: LINES }, (_, at) => line(at))
    const lists = [{ came: [], count: LINES + 1, words: words([...stores, [FENCE]]) }]
    const beginning = new Drawing(new Random(SEED)).beginning([new Uint8Array(64)], 0)
    const whole = runNative(program, folder, ['shadow'], beginning, lists)
    const lossy = runNative(faulty, folder, ['shadow'], beginning, lists)
    const written = beginning.packets.subarray(PRIVATE_AT, PRIVATE_AT + 64)
    const lost = (left: Left): number[] =>
      Array.from({ length: LINES }, (_, at) => at).filter(
        (at) => !left.part.subarray(at * 64, at * 64 + 64).equals(written),
      )
    expect(lost(whole)).toEqual([])
    expect(lost(lossy)).toEqual([100])
    expect(lossy.ran[0]!.done).toBe(LINES + 1)
  })
})
