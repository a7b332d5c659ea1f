/**
 * The ring of a card's trace, read: what it has is played as it was, and what cannot be is refused.
 * The rings here are made by hand; those of perdured are read in
 * `test/boards/linux/trace/linux-trace.test.ts`.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/index.ts'
import { FLUSH_FAILED } from '../../../firmware/board/hal.ts'
import { readTrace } from '../../../host-driver/command/timeline/read-trace.ts'
import { Replay } from '../../../host-driver/command/timeline/replay.ts'
import {
  CALL,
  CLEAN,
  entry,
  FENCED,
  RING_PART_BYTES,
  type Ring,
  ringBytes,
  START,
  store,
} from '../../support/command/ring.ts'

const SEED = Number(process.env.SEED ?? 7)
const folder = mkdtempSync(join(tmpdir(), 'perdure-ring-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const path = join(folder, 'ring')
const part = join(folder, 'part')

/** What the part holds at each place that the rings here store to. */
function textAt(bytes: Uint8Array, at: number): string {
  return Buffer.from(bytes.subarray(at, at + 5)).toString()
}

function write(
  ring: Omit<Ring, 'part'> & Partial<Ring>,
  now: Readonly<Record<number, string>> = {},
): void {
  const content = Buffer.alloc(RING_PART_BYTES)
  for (const [at, text] of Object.entries(now)) content.write(text, Number(at))
  writeFileSync(part, content)
  writeFileSync(path, ringBytes({ part, ...ring }))
}

function refusal(said?: string): string {
  try {
    readTrace(path, said)
  } catch (error) {
    const { code, message } = error as Error & { code: string }
    expect(code).toMatch(said === part || said === undefined ? /^PERDURE_IMAGE$/ : /^ENOENT$/)
    return message
  }
  return 'taken'
}

/** The part at the end, and what happened. */
function ended(): { replay: Replay; happened: string[] } {
  const file = readTrace(path)
  const replay = new Replay(file)
  for (const event of file.events) replay.play(event)
  return { replay, happened: file.events.map(({ e }) => e).filter((e) => e !== 'base') }
}

const WHOLE = [
  entry(START, 4_294_967_296),
  entry(CALL, 4_294_967_300, 0),
  store(65_536, 'begin', 'first'),
  entry(CLEAN, 65_536, 5),
  entry(FENCED, 0),
  store(65_536, 'first', 'later'),
]

describe('a ring that has everything', () => {
  test('is played from the start: what was there before, what is durable, what is pending', () => {
    write({ entries: WHOLE }, { 65536: 'later' })
    const file = readTrace(path)
    expect(file.head).toMatchObject({ board: 'linux', partBytes: RING_PART_BYTES })
    expect(file.head.dirtyShutdowns).toBe(3)
    const replay = new Replay(file)
    expect(textAt(replay.part.durable, 65_536)).toBe('begin')
    const { replay: after, happened } = ended()
    expect(happened).toEqual(['power', 'store', 'fence', 'store', 'end'])
    expect(textAt(after.part.durable, 65_536)).toBe('first')
    expect(textAt(after.part.live, 65_536)).toBe('later')
  })

  test('times run from its first call on', () => {
    write({ entries: [...WHOLE, entry(CALL, 4_294_967_900, 1)] }, { 65536: 'later' })
    const { events } = readTrace(path)
    expect(events[events.findIndex(({ e }) => e === 'power')]).toMatchObject({ t: 0 })
  })

  test('a fence that failed makes nothing durable', () => {
    const failed = [...WHOLE.slice(0, 4), entry(FENCED, FLUSH_FAILED)]
    write({ entries: failed }, { 65536: 'first' })
    const { replay } = ended()
    expect(textAt(replay.part.durable, 65_536)).toBe('begin')
  })
})

describe('a ring whose beginning was overwritten', () => {
  test('begins behind its first fence, where nothing is pending', () => {
    const entries = [
      store(65_536, 'older', 'begin'),
      entry(FENCED, 0),
      store(65_600, 'quiet', 'noise'),
      entry(CLEAN, 65_600, 5),
      entry(FENCED, 0),
    ]
    write({ entries, before: 4096 }, { 65536: 'begin', 65600: 'noise' })
    const { replay, happened } = ended()
    expect(happened).toEqual(['store', 'fence', 'end'])
    expect(textAt(replay.part.durable, 65_600)).toBe('noise')
  })

  test('has nothing to show without a fence', () => {
    write({ entries: [store(65_536, 'older', 'begin')], before: 4096 })
    expect(refusal()).toContain('has no fence to begin with')
  })

  test('goes round its end, and passes over what is no entry there', () => {
    const entries = [entry(FENCED, 0), ...WHOLE.slice(2)]
    write({ entries, before: 8192 - 64 }, { 65536: 'later' })
    const { replay, happened } = ended()
    expect(happened).toEqual(['store', 'fence', 'store', 'end'])
    expect(textAt(replay.part.live, 65_536)).toBe('later')
  })
})

describe('what is refused', () => {
  test('a part that is not there, or of another size', () => {
    write({ entries: WHOLE, part: join(folder, 'gone') })
    expect(refusal()).toMatch(/The part .*gone cannot be read\. .*'--part FILE'/)
    expect(refusal(join(folder, 'nowhere'))).toContain('nowhere')
    writeFileSync(part, new Uint8Array(4096))
    expect(refusal(part)).toMatch(/has 4096 bytes, the part of the trace 131072/)
    writeFileSync(part, new Uint8Array(RING_PART_BYTES))
    expect(refusal(part)).toBe('taken')
  })

  test.each<[string, Partial<Ring>, RegExp]>([
    ['of another version', { version: 2 }, /version 2, this command reads 1/],
    ['of a part that is too large', { partBytes: 2 ** 31 }, /at most 1073741824 bytes/],
    ['of a part that is no part', { partBytes: 100 }, /what cannot be/],
    ['of an area that is none', { areaBytes: 12 }, /what cannot be/],
    ['that has more than it holds', { written: 2 ** 40 }, /what cannot be/],
    ['with an entry of no length', { entries: [Buffer.alloc(8)] }, /byte 4096 is no entry/],
    ['with an entry of no kind', { entries: [entry(99, 0)] }, /byte 4096 is no entry/],
    ['with a store outside', { entries: [store(RING_PART_BYTES, 'a', 'b')] }, /is no entry/],
    ['with a frame that is too long', { entries: [entry(3, 0, 99_999)] }, /is no entry/],
  ])('a ring %s', (_, ring, words) => {
    write({ entries: WHOLE, ...ring })
    expect(refusal()).toMatch(words)
  })

  test('a file that is too short', () => {
    write({ entries: WHOLE })
    writeFileSync(path, ringBytes({ part, entries: WHOLE }).subarray(0, 100))
    expect(refusal()).toContain('too short')
  })

  test(`flipped bits are refused in words, or played (seed ${SEED})`, () => {
    const random = new Random(SEED)
    write({ entries: WHOLE }, { 65536: 'later' })
    const good = ringBytes({ part, entries: WHOLE })
    const end = 4096 + WHOLE.reduce((sum, { length }) => sum + length, 0)
    let refused = 0
    for (let i = 0; i < 400; i++) {
      const bad = Buffer.from(good)
      const at = i % 2 === 0 ? random.below(64) : 4096 + random.below(end - 4096)
      // What names the file is not content.
      if (at < 4) continue
      bad[at]! ^= 1 << random.below(8)
      writeFileSync(path, bad)
      if (refusal(part) !== 'taken') refused++
    }
    expect(refused).toBeGreaterThan(50)
  })
})
