/**
 * The slots of a card: what is uploaded, marked, tried, confirmed, reverted; and the same with the
 * power going anywhere, in every outcome, against a model of what may be.
 */

import { createPublicKey, type KeyObject } from 'node:crypto'
import { mkdtempSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { joined } from '../../../boards/flash/bytes.ts'
import { checkFor } from '../../../boards/flash/check-image.ts'
import { ImageError } from '../../../boards/flash/image-error.ts'
import { readImage, sha256 } from '../../../boards/flash/mcuboot.ts'
import { SlotError } from '../../../boards/flash/slot-error.ts'
import { SlotStore, STORAGE_BYTES } from '../../../boards/flash/slot-store.ts'
import { StorageFile } from '../../../boards/flash/storage.ts'
import { CutStorage, PowerCut } from '../../support/flash/cut-storage.ts'
import {
  CHECK,
  does,
  explore,
  firstOf,
  HAL,
  IMAGES,
  imageOf,
  keyOf,
  nameOf,
  open,
  type Setting,
  SLOT_BYTES,
  SLOTS_AT,
  type Step,
  upload,
} from '../../support/flash/slot-model.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const SCRIPTS: readonly (readonly Step[])[] = [
  ['upload B', 'mark', 'start', 'confirm', 'start'],
  ['upload B', 'mark', 'start', 'start', 'start'],
  ['upload B', 'mark', 'start', 'confirm', 'format 3', 'start', 'start'],
  ['upload B', 'mark', 'start', 'confirm', 'upload C', 'mark', 'start', 'start'],
  ['upload B', 'mark', 'start', 'upload C', 'start'],
  ['upload B', 'mark', 'upload C', 'start'],
  ['upload C', 'upload B', 'mark', 'start', 'confirm', 'start'],
]

describe('a cut anywhere', () => {
  test('leaves what was before a step or what is behind it', () => {
    for (const steps of [SCRIPTS[0]!, SCRIPTS[1]!]) {
      expect(explore(steps, {}, { second: false }).wrong).toEqual([])
    }
  })

  test('and another one in the start behind it, in every script', THOROUGH, () => {
    const sum = { cuts: 0, states: 0, second: 0 }
    for (const steps of SCRIPTS) {
      const { wrong, cuts, states, second } = explore(steps)
      expect(wrong).toEqual([])
      sum.cuts += cuts
      sum.states += states
      sum.second += second
    }
    expect(sum.states).toBeGreaterThan(22_000)
    expect(sum.second).toBeGreaterThan(108_000)
  })
})

/** What a card holds when it rests, behind those steps. */
function restingOf(steps: readonly Step[]): Uint8Array {
  const storage = new CutStorage(firstOf())
  for (const step of steps) does(storage, {}, step)
  return storage.image()
}

const RESTING: readonly (readonly Step[])[] = [
  [],
  ['upload B'],
  ['upload B', 'mark'],
  ['upload B', 'mark', 'start'],
  ['upload B', 'mark', 'start', 'confirm'],
  ['upload B', 'mark', 'start', 'confirm', 'format 3'],
]

/** What runs in the next two starts. */
function runsOf(durable: Uint8Array): string {
  const storage = new CutStorage(durable)
  return [1, 2].map(() => nameOf(open(storage).start().image) ?? 'nothing').join()
}

/** Flips each bit of those bytes in turn, and looks at what runs then. Returns how many. */
function flip(
  durable: Uint8Array,
  from: number,
  length: number,
  look: (runs: string) => void,
): number {
  for (let bit = from * 8; bit < (from + length) * 8; bit++) {
    durable[bit >> 3]! ^= 1 << (bit & 7)
    look(runsOf(durable))
    durable[bit >> 3]! ^= 1 << (bit & 7)
  }
  return length * 8
}

describe('a bit that flips while the card rests', () => {
  test.each(RESTING.map((steps) => ({ steps, behind: steps.join(', ') || 'nothing' })))(
    'in one of the two records changes nothing: behind $behind',
    ({ steps }) => {
      const durable = restingOf(steps)
      const runs = runsOf(durable)
      for (const place of [0, 4096]) flip(durable, place, 128, (now) => expect(now).toBe(runs))
    },
  )

  test('in an image is found before that runs, and the other one runs', THOROUGH, () => {
    let flips = 0
    for (const steps of RESTING) {
      const durable = restingOf(steps)
      const has = new Set(['nothing', runsOf(durable), 'A', 'B'])
      const isAlone = steps.length === 0 || steps.includes('format 3')
      for (const place of [0, 1]) {
        flips += flip(durable, SLOTS_AT + place * SLOT_BYTES, IMAGES.B.length, (now) => {
          const runs = now.split(',')
          for (const one of runs) expect(has).toContain(one)
          if (!isAlone) expect(runs).not.toContain('nothing')
          if (steps.includes('format 3')) expect(runs).not.toContain('A')
        })
      }
    }
    expect(flips).toBeGreaterThan(184_000)
  })
})

// ---- mutations: what the explorer would miss otherwise ------------------------------------------

/** A storage that does otherwise with what is written, or synced. */
function spoilt(
  over: (storage: CutStorage) => Partial<Pick<CutStorage, 'write' | 'sync' | 'read'>>,
): Setting {
  return {
    storageOf: (durable) => {
      const storage = new CutStorage(durable)
      return Object.assign(storage, over(storage))
    },
  }
}

const LARGE = imageOf(6, [2, 3], { bytes: 150_000 })
const LARGE_SLOTS = { check: CHECK, slotBytes: 1 << 18, slotsAt: SLOTS_AT }

/** Sends what is missing of a large image, 16 KiB at a time; whether the card has it then. */
function sendLarge(storage: CutStorage): boolean {
  const store = new SlotStore(storage, LARGE_SLOTS)
  const begin = { length: LARGE.length, sha: sha256(LARGE), upgrade: false }
  const piece = (off: number): Uint8Array => LARGE.subarray(off, off + (1 << 14))
  let sent = store.begin(begin, piece(0))
  while (sent.match === undefined) sent = store.take(sent.off, piece(sent.off))
  return sent.match
}

/**
 * A blank card's upload that a cut ends, at every call and with every outcome: nothing runs that
 * nobody has marked, and the next upload brings what is missing.
 */
function goOn(make: (durable: Uint8Array) => CutStorage): { states: number; wrong: string[] } {
  const empty = new Uint8Array(SLOTS_AT + 2 * LARGE_SLOTS.slotBytes)
  const random = new Random(1)
  const wrong: string[] = []
  let states = 0
  for (let at = 0; ; at++) {
    const storage = make(empty)
    storage.cutAt = at
    try {
      sendLarge(storage)
      return { states, wrong }
    } catch (error) {
      if (!(error instanceof PowerCut)) throw error
    }
    for (const durable of storage.outcomes(random, false)) {
      states++
      const runs = new SlotStore(make(durable), LARGE_SLOTS).start().image
      if (runs !== null) wrong.push(`cut at call ${at}: it runs`)
      if (!sendLarge(make(durable))) wrong.push(`cut at call ${at}: the next one fails`)
    }
  }
}

/** A storage that does not sync behind a write to one of those places. */
const unsynced = (isSo: (at: number) => boolean): Setting =>
  spoilt(({ write, sync }) => {
    let at = -1
    return {
      write(this: CutStorage, to, bytes) {
        at = to
        write.call(this, to, bytes)
      },
      sync(this: CutStorage) {
        if (!isSo(at)) sync.call(this)
      },
    }
  })

const isRecord = (at: number): boolean => at === 0 || at === 4096

/** A record with another value at that place, and the check code that it has then. */
function recordWith(bytes: Uint8Array, at: number, value: number): Uint8Array {
  const changed = bytes.slice(0, 96)
  changed[at] = value
  return joined([changed, sha256(changed)])
}

const MUTATIONS: readonly (readonly [what: string, of: Setting, steps: readonly Step[]])[] = [
  [
    'one record instead of two',
    spoilt(({ write }) => ({
      write(this: CutStorage, at, bytes) {
        if (at !== 4096) write.call(this, at, bytes)
      },
    })),
    ['upload B', 'mark', 'start', 'confirm', 'upload C', 'mark', 'start', 'start'],
  ],
  [
    'no sync between the records',
    unsynced((at) => at === 0),
    ['upload B', 'mark', 'start', 'confirm', 'upload C', 'mark', 'start', 'start'],
  ],
  [
    'the trial is not noted',
    spoilt(({ write }) => ({
      write(this: CutStorage, at, bytes) {
        write.call(this, at, isRecord(at) ? recordWith(bytes, 18, 0) : bytes)
      },
    })),
    ['upload B', 'mark', 'start', 'start'],
  ],
  [
    'the record has no check code',
    spoilt(({ read }) => ({
      read(this: CutStorage, at, length) {
        const bytes = read.call(this, at, length)
        return isRecord(at) && length === 128 ? recordWith(bytes, 0, bytes[0]!) : bytes
      },
    })),
    ['upload B', 'mark', 'start', 'start'],
  ],
  [
    'what nobody has marked is taken',
    spoilt(({ write }) => ({
      write(this: CutStorage, at, bytes) {
        const holds =
          isRecord(at) && bytes[18] === 0 && bytes.subarray(64, 96).some((one) => one > 0)
        write.call(this, at, holds ? recordWith(bytes, 17, 2) : bytes)
      },
    })),
    ['upload B', 'start', 'start'],
  ],
  [
    'an upload is taken while what runs is on trial',
    { spoil: (store) => Object.assign(store, { refuseBusy: () => undefined }) },
    ['upload B', 'mark', 'start', 'upload C', 'start'],
  ],
  [
    'nobody looks at the format of the part',
    { check: (bytes) => ({ ...CHECK(bytes), formats: [0, 255] }) },
    ['upload B', 'mark', 'start', 'confirm', 'format 3', 'mark', 'start'],
  ],
]

describe('the explorer finds', () => {
  test.each(MUTATIONS)('%s', (_what, setting, steps) => {
    expect(explore(steps, setting, { second: false, wrongMax: 1 }).wrong).not.toEqual([])
  })

  test('a slot that is not synced, by the uploads that go on behind a cut', () => {
    const synced = goOn((durable) => new CutStorage(durable))
    expect(synced.wrong).toEqual([])
    expect(synced.states).toBeGreaterThan(500)
    const notSynced = goOn(unsynced((at) => at >= SLOTS_AT).storageOf!)
    expect(notSynced.wrong).not.toEqual([])
  })

  test('nobody looks whether an image is whole, by the bits that flip', () => {
    const durable = restingOf(['upload B', 'mark'])
    durable[SLOTS_AT + SLOT_BYTES + 300]! ^= 1
    expect(runsOf(durable)).toBe('A,A')
    const storage = new CutStorage(durable)
    const trusting = open(storage, { check: () => CHECK(IMAGES.B) })
    expect(nameOf(trusting.start().image)).toBe(null)
  })
})

describe('slots', () => {
  const B = IMAGES.B
  const hashOf = (bytes: Uint8Array): Uint8Array => CHECK(bytes).hash

  /** A card that runs A, as it was when it was first started. */
  function card(setting: Setting = {}): { storage: CutStorage; store: SlotStore } {
    const storage = new CutStorage(firstOf())
    return { storage, store: open(storage, setting) }
  }

  /** The code of the refusal, which is in words. */
  function refusalOf(work: () => unknown): string {
    try {
      work()
    } catch (error) {
      if (!(error instanceof SlotError) && !(error instanceof ImageError)) throw error
      expect(error.message).toMatch(/^\S.{15,}[^.]$/)
      return error.code
    }
    return 'none'
  }

  const told = (store: SlotStore): string[] => {
    return store.list().map((one) => {
      const { slot, version, active, confirmed, pending, permanent } = one
      const flags = Object.entries({ active, confirmed, pending, permanent })
      const said = flags.flatMap(([name, is]) => (is ? [name] : []))
      return [slot, version.major, ...said].join(' ')
    })
  }

  test('are told as MCUboot tells them, in every state', () => {
    const { storage, store } = card()
    expect(told(store)).toEqual(['0 1 active confirmed'])
    upload(store, B)
    expect(told(store)).toEqual(['0 1 active confirmed', '1 2'])
    store.mark(hashOf(B), false)
    expect(told(store)).toEqual(['0 1 active confirmed', '1 2 pending'])
    store.mark(hashOf(B), true)
    expect(told(store)).toEqual(['0 1 active confirmed', '1 2 pending permanent'])
    const next = open(storage)
    expect(next.start()).toMatchObject({ onTrial: true })
    expect(told(next)).toEqual(['0 2 active', '1 1 confirmed'])
    next.selfTestPassed()
    expect(told(next)).toEqual(['0 2 active confirmed', '1 1'])
  })

  test('a self-test confirms what was marked as permanent, and nothing else', () => {
    const { storage, store } = card()
    upload(store, B)
    store.mark(hashOf(B), false)
    const next = open(storage)
    next.start()
    next.selfTestPassed()
    expect(next.onTrial).toBe(true)
    next.noteReason('exit 70 after 0.4 s')
    const last = open(storage)
    expect(nameOf(last.start().image)).toBe('A')
    expect(last.reason).toBe('exit 70 after 0.4 s')
  })

  test('say why a trial ended that nobody confirmed', () => {
    const { storage, store } = card()
    upload(store, B)
    store.mark(hashOf(B), false)
    open(storage).start()
    const last = open(storage)
    last.start()
    expect(last.reason).toBe('it was not confirmed before the next start')
  })

  test('refuse what would leave nothing to run, or what is not there, and stay as they are', () => {
    const { storage, store } = card()
    upload(store, B)
    expect(refusalOf(() => store.mark(hashOf(IMAGES.A), false))).toBe('SLOT_RUNS')
    expect(refusalOf(() => store.mark(hashOf(IMAGES.C), false))).toBe('SLOT_NO_IMAGE')
    store.mark(hashOf(B), false)
    expect(refusalOf(() => upload(store, IMAGES.C))).toBe('SLOT_BUSY')
    expect(refusalOf(() => store.erase())).toBe('SLOT_BUSY')
    expect(refusalOf(() => store.confirm())).toBe('SLOT_PENDING')
    const next = open(storage)
    next.start()
    expect(refusalOf(() => upload(next, IMAGES.C))).toBe('SLOT_BUSY')
    expect(refusalOf(() => next.erase())).toBe('SLOT_BUSY')
    expect(refusalOf(() => next.mark(hashOf(IMAGES.A), false))).toBe('SLOT_PENDING')
    expect(told(next)).toEqual(['0 2 active', '1 1 confirmed'])
    expect(refusalOf(() => next.confirm())).toBe('SLOT_UNTESTED')
    next.selfTestPassed()
    next.confirm()
    next.erase()
    expect(told(next)).toEqual(['0 2 active confirmed'])
  })

  test.each<[string, Uint8Array, string]>([
    ['a foreign key', imageOf(4, [2, 3], { key: keyOf(0x22) }), 'IMAGE_KEY'],
    ['another board', imageOf(4, [2, 3], { target: 'bluefield2' }), 'SLOT_TARGET'],
    ['an older format', imageOf(4, [1, 1]), 'SLOT_FORMAT'],
    ['a newer format', imageOf(4, [3, 4]), 'SLOT_FORMAT'],
    ['damage', imageOf(4, [2, 3]).map((byte, i) => (i === 999 ? byte ^ 1 : byte)), 'IMAGE_HASH'],
    ['no more than a header', imageOf(4, [2, 3]).slice(0, 40), 'IMAGE_HEADER'],
  ])('refuse an image of %s when it is there, and forget it', (_what, bytes, code) => {
    const { storage, store } = card()
    expect(refusalOf(() => upload(store, bytes))).toBe(code)
    expect(told(open(storage))).toEqual(['0 1 active confirmed'])
    expect(store.reason.length).toBeGreaterThan(10)
    upload(store, B)
    expect(told(store)).toEqual(['0 1 active confirmed', '1 2'])
  })

  test('refuse a counter that is older than that of what was confirmed, and never before', () => {
    const { storage, store } = card()
    const newer = imageOf(5, [2, 3], { counter: 7 })
    upload(store, newer)
    store.mark(hashOf(newer), false)
    open(storage).start()
    const back = open(storage)
    expect(nameOf(back.start().image)).toBe('A')
    expect(back.counter).toBe(0)
    back.mark(hashOf(newer), false)
    const next = open(storage)
    next.start()
    next.selfTestPassed()
    next.confirm()
    expect(next.counter).toBe(7)
    expect(refusalOf(() => next.mark(hashOf(IMAGES.A), false))).toBe('SLOT_COUNTER')
    expect(refusalOf(() => upload(next, IMAGES.C))).toBe('SLOT_COUNTER')
  })

  test('know two keys while one takes the place of the other, and then the new one alone', () => {
    const keys = [keyOf(0x11), keyOf(0x22)].map(createPublicKey)
    const check = (trusted: KeyObject[]) => checkFor({ trusted, target: 'emulator', hal: HAL })
    const storage = new CutStorage(firstOf())
    const both = open(storage, { check: check(keys) })
    const next = imageOf(4, [2, 3], { key: keyOf(0x22) })
    const { hash } = readImage(next)
    upload(both, next)
    both.mark(hash, true)
    both.start()
    both.selfTestPassed()
    expect(told(both)).toEqual(['0 4 active confirmed', '1 1'])
    const alone = open(storage, { check: check(keys.slice(1)) })
    expect(told(alone)).toEqual(['0 4 active confirmed'])
    expect(refusalOf(() => upload(alone, B))).toBe('IMAGE_KEY')
    // A card that has nothing of the new key starts what it came with, and takes an image of it.
    const late = open(new CutStorage(firstOf()), { check: check(keys.slice(1)) })
    expect(late.start().image).toBe(null)
    upload(late, next)
    late.mark(hash, true)
    expect(late.start().image).toEqual(next)
  })

  test('refuse an upload in words, by what its first piece and its lengths say', () => {
    const { store } = card()
    const sha = sha256(B)
    const begin = { length: B.length, sha, upgrade: false }
    const first = B.subarray(0, 64)
    const over = { ...begin, length: SLOT_BYTES + 1 }
    expect(refusalOf(() => store.begin(over, first))).toBe('SLOT_TOO_LARGE')
    expect(refusalOf(() => store.begin(begin, first.subarray(0, 31)))).toBe('SLOT_SHORT')
    expect(refusalOf(() => store.begin(begin, new Uint8Array(32)))).toBe('SLOT_MAGIC')
    const upgrade = { ...begin, upgrade: true }
    const old = imageOf(1, [2, 3])
    expect(refusalOf(() => store.begin(upgrade, old.subarray(0, 64)))).toBe('SLOT_NOT_NEWER')
    expect(store.begin(upgrade, first)).toEqual({ off: 64 })
    expect(store.take(0, first)).toEqual({ off: 64 })
    expect(store.take(65, first)).toEqual({ off: 64 })
    expect(refusalOf(() => store.take(64, new Uint8Array(B.length)))).toBe('SLOT_BEYOND')
    expect(store.take(64, B.subarray(64))).toEqual({ off: B.length, match: true })
    expect(store.take(0, first)).toEqual({ off: 0 })
    // What is there already is not asked for again.
    expect(store.begin(begin, first)).toEqual({ off: B.length, match: true })
  })

  test('say of a file that it is another one than was said, and forget it', () => {
    const { store } = card()
    const begin = { length: B.length, sha: sha256(IMAGES.C), upgrade: false }
    store.begin(begin, B.subarray(0, 64))
    expect(store.take(64, B.subarray(64))).toEqual({ off: B.length, match: false })
    expect(told(store)).toEqual(['0 1 active confirmed'])
  })

  test('go on with an upload where the next start finds its durable bytes', () => {
    const large = imageOf(6, [2, 3], { bytes: 200_000 })
    const slots = LARGE_SLOTS
    const storage = new CutStorage(new Uint8Array(SLOTS_AT + (2 << 18)))
    const store = new SlotStore(storage, slots)
    const begin = { length: large.length, sha: sha256(large), upgrade: false }
    let { off } = store.begin(begin, large.subarray(0, 1000))
    while (off < 150_000) ({ off } = store.take(off, large.subarray(off, off + 1000)))
    // The same client asks again, in one life: it goes on where it was.
    expect(store.begin(begin, large.subarray(0, 1000))).toEqual({ off })
    const behind = new SlotStore(new CutStorage(storage.image()), slots)
    const again = behind.begin(begin, large.subarray(0, 1000))
    expect(again.off).toBe(132_000)
    let end = again
    while (end.match === undefined) {
      end = behind.take(end.off, large.subarray(end.off, end.off + 1000))
    }
    expect(end).toEqual({ off: large.length, match: true })
    expect(told(behind)).toEqual(['1 6'])
  })

  test('run what the card came with, though an upload was whole that a cut ended', () => {
    const storage = new CutStorage(new Uint8Array(SLOTS_AT + 2 * SLOT_BYTES))
    const sync = storage.sync
    storage.sync = () => {
      sync.call(storage)
      if (nameOf(storage.read(SLOTS_AT + SLOT_BYTES, B.length)) === 'B') throw new PowerCut()
    }
    expect(() => upload(open(storage), B)).toThrow(PowerCut)
    expect(open(new CutStorage(storage.image())).start().image).toBe(null)
  })

  test('run what the card came with until an image is confirmed, and go back to that', () => {
    const storage = new CutStorage(new Uint8Array(SLOTS_AT + 2 * SLOT_BYTES))
    const start = (): string | null => nameOf(open(storage).start().image)
    upload(open(storage), B)
    expect(start()).toBe(null)
    open(storage).mark(hashOf(B), false)
    expect(start()).toBe('B')
    expect(start()).toBe(null)
    expect(told(open(storage))).toEqual(['1 2'])
    open(storage).mark(hashOf(B), true)
    expect(start()).toBe('B')
    open(storage).selfTestPassed()
    expect(start()).toBe('B')
  })

  test('lie in a file, which is made whole, and may have been cut short', () => {
    const folder = mkdtempSync(join(tmpdir(), 'perdure-slots-'))
    try {
      const path = join(folder, 'slots')
      const file = new StorageFile(path, STORAGE_BYTES)
      const check = checkFor({
        trusted: [createPublicKey(keyOf(0x11))],
        target: 'emulator',
        hal: HAL,
      })
      const store = new SlotStore(file, { check })
      upload(store, B)
      store.mark(hashOf(B), true)
      file.close()
      const again = new StorageFile(path, STORAGE_BYTES)
      const next = new SlotStore(again, { check })
      expect(nameOf(next.start().image)).toBe('B')
      again.close()
      truncateSync(path, 100)
      const short = new StorageFile(path, STORAGE_BYTES)
      expect(new SlotStore(short, { check }).start().image).toBe(null)
      short.close()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
