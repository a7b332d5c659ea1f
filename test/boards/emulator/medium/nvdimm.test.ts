import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { imageCount, images } from '../../../../boards/emulator/medium/images.ts'
import { Nvdimm, type NvdimmOptions } from '../../../../boards/emulator/medium/nvdimm.ts'
import { NvdimmFileError, openNvdimm } from '../../../../boards/emulator/medium/nvdimm-file.ts'
import { CUT_MODES, type CutMode } from '../../../../boards/emulator/medium/pieces.ts'
import { CUT_STRATEGIES, cut, pending } from '../../../../boards/emulator/medium/power-cut.ts'
import { DONE, FLUSH_FAILED, MEDIA_ERROR, NOT_ARMED } from '../../../../firmware/board/hal.ts'
import { ReferencePart } from '../../../support/crash/reference-enumerator.ts'

/** What the disk answers next; an error of a disk is nothing that a test can have. */
const disk = vi.hoisted(() => ({ error: null as string | null }))
vi.mock('node:fs', async (load) => {
  const fs = await load<typeof import('node:fs')>()
  const fdatasyncSync = (descriptor: number): void => {
    const { error } = disk
    disk.error = null
    if (error !== null) throw new Error(error)
    fs.fdatasyncSync(descriptor)
  }
  return { ...fs, fdatasyncSync }
})

const SEED = Number(process.env.SEED ?? 20261121)
const BYTES = 4096

function part(options: Partial<NvdimmOptions> = {}): Nvdimm {
  return new Nvdimm({ bytes: BYTES, ...options })
}

/** Bytes that differ from each other and from zero. */
function letters(length: number, first = 1): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => 1 + ((first + i) % 255))
}

function put(nvdimm: Nvdimm, at: number, bytes: Uint8Array): void {
  expect(nvdimm.store(at, bytes, 0, bytes.length)).toBe(DONE)
}

/** Stores, cleans and fences. */
function keep(nvdimm: Nvdimm, at: number, bytes: Uint8Array): void {
  put(nvdimm, at, bytes)
  nvdimm.clean(at, bytes.length)
  expect(nvdimm.fence()).toBe(DONE)
}

function hex(bytes: Uint8Array, at = 0, length: number = bytes.length): string {
  return Buffer.from(bytes.subarray(at, at + length)).toString('hex')
}

function imagesOf(nvdimm: Nvdimm, mode: CutMode, length: number, adrFail = false): string[] {
  const found: string[] = []
  images(nvdimm, mode, () => found.push(hex(nvdimm.durable, 0, length)), adrFail)
  return found
}

const NONE = { random: new Random(0), strategy: 'none' } as const
const ALL = { random: new Random(0), strategy: 'all' } as const

// Stores, cleans and fences

test('a store is seen by loads and lost by a power cut that keeps nothing', () => {
  const nvdimm = part()
  put(nvdimm, 100, letters(50))
  expect(hex(nvdimm.live, 100, 50)).toBe(hex(letters(50)))
  cut(nvdimm, NONE)
  expect(hex(nvdimm.live)).toBe(hex(new Uint8Array(BYTES)))
})

test('what was stored, cleaned and fenced survives every cut', () => {
  const nvdimm = part()
  keep(nvdimm, 3, letters(700))
  cut(nvdimm, NONE)
  expect(hex(nvdimm.live, 3, 700)).toBe(hex(letters(700)))
})

test('a store that is never cleaned stays pending permanently', () => {
  const nvdimm = part()
  put(nvdimm, 0, letters(64))
  for (let i = 0; i < 1000; i++) {
    keep(nvdimm, 1024 + (i % 8), letters(8, i))
    if (i % 100 === 0) expect(pending(nvdimm).map((chunk) => chunk.at)).toContain(56)
  }
  expect(pending(nvdimm)).toHaveLength(8)
  expect(nvdimm.pendingStores.count).toBe(1)
  cut(nvdimm, NONE)
  expect(hex(nvdimm.live, 0, 64)).toBe(hex(new Uint8Array(64)))
})

test('a clean does not cover a store that comes after it', () => {
  const nvdimm = part()
  put(nvdimm, 0, letters(64, 1))
  nvdimm.clean(0, 64)
  put(nvdimm, 8, letters(8, 100))
  put(nvdimm, 16, letters(4, 200))
  nvdimm.fence()
  expect(hex(nvdimm.durable, 0, 64)).toBe(hex(letters(64, 1)))
  const [first, second, ...others] = pending(nvdimm)
  expect(others).toEqual([])
  expect(first!.at).toBe(8)
  expect(first!.versions.map((v) => hex(v))).toEqual([hex(letters(8, 9)), hex(letters(8, 100))])
  expect(second!.at).toBe(16)
  cut(nvdimm, NONE)
  expect(hex(nvdimm.live, 0, 64)).toBe(hex(letters(64, 1)))
})

test('a chunk that is stored three times may hold any of its versions', () => {
  const nvdimm = part()
  for (const first of [10, 20, 30]) put(nvdimm, 8, letters(8, first))
  expect(imagesOf(nvdimm, 'chunk', 16).sort()).toEqual(
    [new Uint8Array(8), letters(8, 10), letters(8, 20), letters(8, 30)]
      .map((version) => hex(new Uint8Array(8)) + hex(version))
      .sort(),
  )
})

// Closed forms of crash-model 2.2: a slot is its data and a check of eight bytes

function slot(nvdimm: Nvdimm, at: number, dataBytes: number): void {
  put(nvdimm, at, letters(dataBytes))
  put(nvdimm, at + dataBytes, letters(8, 77))
}

const CLOSED_FORMS: readonly (readonly [CutMode, number, number])[] = [
  ['strict', 64, 10],
  ['strict', 256, 34],
  ['strict', 4096, 514],
  ['line', 64, 4],
  ['line', 256, 32],
  ['prefix', 64, 18],
  ['prefix', 256, 13_122],
  ['chunk', 64, 512],
  ['chunk', 256, 2 ** 33],
]

for (const [mode, dataBytes, count] of CLOSED_FORMS) {
  test(`a slot of ${dataBytes} bytes has ${count} images in the mode ${mode}`, () => {
    const nvdimm = part({ bytes: 8192 })
    slot(nvdimm, 0, dataBytes)
    expect(imageCount(nvdimm, mode)).toBe(count)
    if (count > 20_000) return
    expect(new Set(imagesOf(nvdimm, mode, dataBytes + 8)).size).toBe(count)
  })
}

test('two slots have 2s - 1 images with a fence between them and s * s without', () => {
  const fenced = part()
  slot(fenced, 0, 64)
  const seen = new Set(imagesOf(fenced, 'chunk', 512))
  fenced.clean(0, 128)
  fenced.fence()
  slot(fenced, 256, 64)
  for (const image of imagesOf(fenced, 'chunk', 512)) seen.add(image)
  expect(seen.size).toBe(1023)
  const unfenced = part()
  slot(unfenced, 0, 64)
  slot(unfenced, 256, 64)
  expect(imageCount(unfenced, 'chunk')).toBe(512 * 512)
  expect(imageCount(unfenced, 'prefix')).toBe(324)
})

test('a quarter of a million images are visited within seconds', () => {
  const nvdimm = part({ bytes: 2 ** 20 })
  put(nvdimm, 4096, letters(64))
  put(nvdimm, 8192, letters(80, 9))
  let torn = 0
  const count = images(nvdimm, 'chunk', () => {
    if (nvdimm.live[4096] !== nvdimm.live[4104]) torn++
  })
  expect(count).toBe(2 ** 18)
  expect(torn).toBeGreaterThan(2 ** 17)
})

// The same, against a model that is plain enough to be believed

/** Runs the same chance operations on both, and compares every image in every mode. */
function compareWithReference(seed: number): void {
  const random = new Random(seed)
  const nvdimm = part()
  const reference = new ReferencePart(256)
  const steps = 3 + random.below(6)
  for (let step = 0; step < steps; step++) {
    const kind = random.below(6)
    const at = random.below(200)
    const length = 1 + random.below(20)
    if (kind === 0) {
      nvdimm.fence()
      reference.fence()
    } else if (kind <= 2) {
      nvdimm.clean(at, length)
      reference.clean(at, length)
    } else {
      const bytes = letters(length, random.below(3) * 40)
      put(nvdimm, at, bytes)
      reference.store(at, bytes)
    }
  }
  const before = [hex(nvdimm.live), hex(nvdimm.durable), JSON.stringify(pending(nvdimm))]
  for (const mode of CUT_MODES) {
    const found = imagesOf(nvdimm, mode, 256)
    const wanted = reference.images(mode)
    expect(found.length, `${mode}, SEED=${seed}`).toBe(new Set(found).size)
    expect(found.sort(), `${mode}, SEED=${seed}`).toEqual([...wanted].sort())
  }
  const after = [hex(nvdimm.live), hex(nvdimm.durable), JSON.stringify(pending(nvdimm))]
  expect(after, `SEED=${seed}`).toEqual(before)
}

test('the images are those of the reference enumerator, each once, in every mode', () => {
  for (let i = 0; i < 100; i++) compareWithReference(SEED + i)
})

test('strict is contained in prefix, and prefix in chunk', () => {
  const nvdimm = part()
  put(nvdimm, 40, letters(40))
  put(nvdimm, 8, letters(12, 50))
  put(nvdimm, 48, letters(8, 90))
  const [strict, prefix, chunk] = (['strict', 'prefix', 'chunk'] as const).map(
    (mode) => new Set(imagesOf(nvdimm, mode, 128)),
  )
  for (const image of strict!) expect(prefix!.has(image)).toBe(true)
  for (const image of prefix!) expect(chunk!.has(image)).toBe(true)
  expect(strict!.size).toBeLessThan(prefix!.size)
  expect(prefix!.size).toBeLessThan(chunk!.size)
})

test('every strategy leaves an image that the mode allows', () => {
  for (const mode of CUT_MODES) {
    for (const strategy of CUT_STRATEGIES) {
      for (let i = 0; i < 8; i++) {
        const nvdimm = part()
        keep(nvdimm, 0, letters(192, 3))
        put(nvdimm, 4, letters(30, 60))
        put(nvdimm, 60, letters(20, 99))
        const allowed = new Set(imagesOf(nvdimm, mode, 192))
        const report = cut(nvdimm, { mode, strategy, random: new Random(SEED + i) })
        const seen = `${mode} ${strategy} SEED=${SEED + i}`
        expect(allowed.has(hex(nvdimm.durable, 0, 192)), seen).toBe(true)
        expect(hex(nvdimm.live), seen).toBe(hex(nvdimm.durable))
        expect(pending(nvdimm), seen).toEqual([])
        expect(report.chunks, seen).toBe(8)
      }
    }
  }
})

test('the same seed cuts in the same way', () => {
  const run = (seed: number): string => {
    const nvdimm = part()
    put(nvdimm, 0, letters(640))
    const report = cut(nvdimm, { random: new Random(seed) })
    return JSON.stringify(report) + hex(nvdimm.durable)
  }
  for (let seed = SEED; seed < SEED + 20; seed++) expect(run(seed)).toBe(run(seed))
  expect(run(SEED)).not.toBe(run(SEED + 1))
})

test('what a visit does to the part is taken back, a second cut included', () => {
  const nvdimm = part()
  keep(nvdimm, 0, letters(128))
  put(nvdimm, 0, letters(16, 90))
  const before = [hex(nvdimm.live), hex(nvdimm.durable)]
  let inner = 0
  const outer = images(nvdimm, 'chunk', () => {
    keep(nvdimm, 512, letters(64))
    put(nvdimm, 64, letters(16, 33))
    images(nvdimm, 'chunk', () => {
      expect(hex(nvdimm.durable, 512, 64)).toBe(hex(letters(64)))
      keep(nvdimm, 0, letters(200, 5))
      inner++
    })
    put(nvdimm, 1000, letters(3))
    nvdimm.poison(3)
  })
  expect([outer, inner]).toEqual([4, 16])
  expect([hex(nvdimm.live), hex(nvdimm.durable)]).toEqual(before)
  expect(pending(nvdimm)).toHaveLength(2)
  expect(nvdimm.isPoisoned(3)).toBe(false)
})

// Faults of the part

test('D-13: a part that is not armed fences nothing', () => {
  const nvdimm = part()
  put(nvdimm, 0, letters(64))
  nvdimm.clean(0, 64)
  nvdimm.armed = false
  expect(nvdimm.fence()).toBe(NOT_ARMED)
  expect(pending(nvdimm)).toHaveLength(8)
  nvdimm.armed = true
  expect(nvdimm.fence()).toBe(DONE)
  expect(pending(nvdimm)).toHaveLength(0)
})

test('D-13: a write-back that failed is not made good by a fence that succeeds', () => {
  const nvdimm = part()
  put(nvdimm, 0, letters(64))
  nvdimm.clean(0, 64)
  nvdimm.fencesToFail = 1
  expect(nvdimm.fence()).toBe(FLUSH_FAILED)
  expect(nvdimm.fence()).toBe(DONE)
  expect(pending(nvdimm)).toHaveLength(8)
  nvdimm.clean(0, 64)
  nvdimm.fence()
  expect(pending(nvdimm)).toHaveLength(0)
})

test('a poisoned line is not readable, and a write of a part of it does not heal it', () => {
  const nvdimm = part()
  nvdimm.poison(1)
  expect(nvdimm.readable(0, 64)).toBe(true)
  expect(nvdimm.readable(0, 65)).toBe(false)
  nvdimm.clearPoison(64, 64)
  put(nvdimm, 64, letters(63))
  expect(nvdimm.readable(64, 1)).toBe(false)
})

test('a write of the whole line heals it only after the error was cleared', () => {
  const nvdimm = part()
  nvdimm.poison(1)
  put(nvdimm, 64, letters(64))
  expect(nvdimm.readable(64, 64)).toBe(false)
  nvdimm.clearPoison(64, 64)
  put(nvdimm, 64, letters(64))
  expect(nvdimm.readable(64, 64)).toBe(true)
})

test('a healed line is poisoned again by a cut, unless its write was durable', () => {
  for (const fenced of [false, true]) {
    const nvdimm = part()
    nvdimm.poison(1)
    nvdimm.clearPoison(64, 64)
    put(nvdimm, 64, letters(64))
    nvdimm.clean(64, 64)
    if (fenced) nvdimm.fence()
    cut(nvdimm, NONE)
    expect(nvdimm.readable(64, 64)).toBe(fenced)
  }
})

test('of the images of a healing write only the whole one is readable', () => {
  const nvdimm = part()
  nvdimm.poison(1)
  nvdimm.clearPoison(64, 64)
  put(nvdimm, 64, letters(64))
  let readable = 0
  images(nvdimm, 'chunk', () => {
    if (nvdimm.readable(64, 64)) readable++
  })
  expect(readable).toBe(1)
  expect(nvdimm.readable(64, 64)).toBe(true)
})

test('a line that refuses writes keeps what it has, and the lines before it are stored', () => {
  const nvdimm = part()
  keep(nvdimm, 0, letters(256))
  nvdimm.refuseWrites(2)
  expect(nvdimm.store(100, letters(100, 70), 0, 100)).toBe(MEDIA_ERROR)
  expect(hex(nvdimm.live, 100, 28)).toBe(hex(letters(28, 70)))
  expect(hex(nvdimm.live, 128, 64)).toBe(hex(letters(256), 128, 64))
  expect(nvdimm.store(130, letters(4), 0, 4)).toBe(MEDIA_ERROR)
  nvdimm.refuseWrites(2, false)
  expect(nvdimm.store(100, letters(100, 70), 0, 100)).toBe(DONE)
})

test('an ADR failure may take back the last fences, no older ones, and is counted', () => {
  const nvdimm = part({ adrFences: 2 })
  for (const [at, first] of [
    [0, 10],
    [8, 20],
    [0, 30],
  ] as const) {
    keep(nvdimm, at, letters(8, first))
  }
  expect(imageCount(nvdimm, 'chunk')).toBe(1)
  const found = imagesOf(nvdimm, 'chunk', 16, true)
  const old = hex(letters(8, 10))
  const zero = hex(new Uint8Array(8))
  const b = hex(letters(8, 20))
  const c = hex(letters(8, 30))
  expect(found.sort()).toEqual([old + zero, old + b, c + zero, c + b].sort())
  cut(nvdimm, { ...NONE, adrFail: true })
  expect(hex(nvdimm.live, 0, 16)).toBe(old + zero)
  expect(nvdimm.dirtyShutdowns).toBe(1)
  cut(nvdimm, NONE)
  expect(nvdimm.dirtyShutdowns).toBe(1)
})

// Files

function inFolder(use: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-nvdimm-'))
  try {
    use(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('what was fenced is in the file at once, what was not is not', () => {
  inFolder((folder) => {
    const path = join(folder, 'part')
    const nvdimm = openNvdimm({ path, bytes: 8192 })
    keep(nvdimm, 100, letters(300))
    keep(nvdimm, 5000, letters(10))
    put(nvdimm, 7000, letters(64))
    expect(() => openNvdimm({ path })).toThrow(expect.objectContaining({ code: 'NVDIMM_IN_USE' }))
    const again = openNvdimm({ path, readOnly: true })
    expect(statSync(path).size).toBe(8192)
    expect(hex(again.live, 100, 300)).toBe(hex(letters(300)))
    expect(hex(again.live, 5000, 10)).toBe(hex(letters(10)))
    expect(hex(again.live, 7000, 64)).toBe(hex(new Uint8Array(64)))
    cut(nvdimm, ALL)
    expect(hex(openNvdimm({ path, readOnly: true }).live, 7000, 64)).toBe(hex(letters(64)))
  })
})

test('H12: one card has an image; what a process that is gone has left locks nobody out', () => {
  inFolder((folder) => {
    const path = join(folder, 'part')
    const nvdimm = openNvdimm({ path, bytes: 4096 })
    expect(() => openNvdimm({ path })).toThrow(`is in use by process ${process.pid}`)
    nvdimm.backing!.close()
    expect(existsSync(`${path}.lock`)).toBe(false)
    for (const left of [`${process.ppid}\n`, '', 'not a number']) {
      writeFileSync(`${path}.lock`, left)
      const again = openNvdimm({ path })
      expect(readFileSync(`${path}.lock`, 'utf8')).toMatch(new RegExp(`^${process.pid} `))
      again.backing!.close()
    }
  })
})

test('what a visit fences never reaches the file', () => {
  inFolder((folder) => {
    const path = join(folder, 'part')
    const nvdimm = openNvdimm({ path, bytes: 4096 })
    put(nvdimm, 0, letters(8))
    images(nvdimm, 'chunk', () => keep(nvdimm, 64, letters(64)))
    expect(readFileSync(path).every((byte) => byte === 0)).toBe(true)
  })
})

test('poison and unsafe shutdowns are remembered beside the file, if there are any', () => {
  inFolder((folder) => {
    const path = join(folder, 'part')
    const nvdimm = openNvdimm({ path, bytes: 4096 })
    keep(nvdimm, 0, letters(64))
    expect(existsSync(`${path}.condition`)).toBe(false)
    nvdimm.poison(5)
    cut(nvdimm, { ...NONE, adrFail: true })
    nvdimm.close()
    const again = openNvdimm({ path })
    expect(again.dirtyShutdowns).toBe(1)
    expect(again.readable(5 * 64, 1)).toBe(false)
  })
})

/** A backing in memory whose writes fail as `fails` says, some of their bytes written. */
function failing(fails: () => boolean): { file: Uint8Array; nvdimm: Nvdimm; said: string[] } {
  const file = new Uint8Array(BYTES)
  const nvdimm = part({
    backing: {
      write(durable, at, length): void {
        const isOver = fails()
        const end = isOver ? at + (length >> 1) : at + length
        file.set(durable.subarray(at, end), at)
        if (isOver) throw new Error('no space left on device')
      },
      note(): void {
        if (fails()) throw new Error('the condition cannot be written')
      },
      close(): void {},
    },
  })
  const said: string[] = []
  nvdimm.onFailure = ({ message }) => said.push(message)
  return { file, nvdimm, said }
}

test('R31-5: a fence whose file takes nothing makes nothing durable', () => {
  let isFull = false
  const { file, nvdimm, said } = failing(() => isFull)
  keep(nvdimm, 0, letters(64))
  isFull = true
  put(nvdimm, 0, letters(64, 100))
  nvdimm.clean(0, 64)
  expect(nvdimm.fence()).toBe(FLUSH_FAILED)
  expect(said).toEqual(['no space left on device'])
  isFull = false
  // It forgot what was cleaned: a fence without it makes nothing durable.
  expect(nvdimm.fence()).toBe(DONE)
  expect(hex(nvdimm.durable, 0, 64)).toBe(hex(letters(64)))
  nvdimm.clean(0, 64)
  expect(nvdimm.fence()).toBe(DONE)
  expect(hex(file, 0, 64)).toBe(hex(letters(64, 100)))
})

test('R31-5: of two pieces the file takes one: that one is durable, the other is not', () => {
  let writes = 0
  const { file, nvdimm } = failing(() => ++writes === 2)
  for (const at of [0, 1024]) {
    put(nvdimm, at, letters(128))
    nvdimm.clean(at, 128)
  }
  expect(nvdimm.fence()).toBe(FLUSH_FAILED)
  expect(hex(nvdimm.durable, 0, 128)).toBe(hex(letters(128)))
  expect(hex(nvdimm.durable, 1024, 128)).toBe(hex(new Uint8Array(128)))
  expect(hex(file)).toBe(hex(nvdimm.durable))
  cut(nvdimm, NONE)
  expect(hex(nvdimm.live)).toBe(hex(file))
})

test('R31-5: whichever write of the file fails, the part has what the file has', () => {
  const random = new Random(SEED)
  let armed = false
  const { file, nvdimm, said } = failing(() => {
    const fails = armed && random.chance(0.3)
    // What it had is taken back: a file that has an old block can keep it.
    armed = false
    return fails
  })
  for (let step = 0; step < 5000; step++) {
    const at = 8 * random.below(BYTES / 8 - 40)
    const length = 8 * (1 + random.below(40))
    armed = true
    const kind = random.below(8)
    if (kind < 4) put(nvdimm, at, letters(length, step))
    else if (kind < 6) nvdimm.clean(at, length)
    else if (kind < 7) nvdimm.fence()
    else cut(nvdimm, { random })
    expect(Buffer.compare(file, nvdimm.durable), `SEED=${SEED}, step ${step}`).toBe(0)
    if (kind === 7) expect(Buffer.compare(file, nvdimm.live), `step ${step}`).toBe(0)
  }
  expect(said.length).toBeGreaterThan(100)
})

test('R31-5: a condition that cannot be noted is said, and stops nothing', () => {
  const { nvdimm, said } = failing(() => true)
  nvdimm.poison(5)
  nvdimm.failSave()
  expect(said).toEqual(new Array(2).fill('the condition cannot be written'))
})

test('R31-5: a file that cannot be written is named', () => {
  inFolder((folder) => {
    const path = join(folder, 'part')
    const nvdimm = openNvdimm({ path, bytes: 4096 })
    const said: string[] = []
    nvdimm.onFailure = (error) => said.push(error.message)
    nvdimm.backing!.close()
    put(nvdimm, 0, letters(64))
    nvdimm.clean(0, 64)
    expect(nvdimm.fence()).toBe(FLUSH_FAILED)
    expect(said).toEqual([expect.stringMatching(/^.*part cannot be written: EBADF/)])
  })
})

test('R31-5: what the disk does not take is said at the end, and at the next beginning', () => {
  inFolder((folder) => {
    const path = join(folder, 'part')
    const nvdimm = openNvdimm({ path, bytes: 4096 })
    keep(nvdimm, 0, letters(64))
    nvdimm.poison(3)
    disk.error = 'EIO: i/o error, fdatasync'
    const named = /^.*part cannot be written: EIO: i\/o error, fdatasync$/
    expect(() => nvdimm.close()).toThrow(named)
    const again = openNvdimm({ path })
    expect([again.saveFailed, again.faulty()]).toEqual([true, [3]])
    again.failSave(false)
    again.close()
    disk.error = 'EIO: i/o error, fdatasync'
    expect(() => openNvdimm({ path })).toThrow(named)
    const last = openNvdimm({ path })
    expect([last.saveFailed, last.faulty()]).toEqual([true, [3]])
    last.close()
  })
})

test('a file opened for reading only is never written', () => {
  inFolder((folder) => {
    const path = join(folder, 'part')
    writeFileSync(path, letters(4096))
    const nvdimm = openNvdimm({ path, readOnly: true })
    keep(nvdimm, 0, new Uint8Array(64))
    nvdimm.poison(1)
    cut(nvdimm, ALL)
    expect(hex(readFileSync(path))).toBe(hex(letters(4096)))
    expect(existsSync(`${path}.condition`)).toBe(false)
  })
})

const REFUSALS: readonly (readonly [string, number | null, number | undefined, string])[] = [
  ['an empty file', 0, undefined, 'NVDIMM_SIZE'],
  ['a file that is no multiple of 4096', 5000, undefined, 'NVDIMM_SIZE'],
  ['a file of another size than was asked for', 8192, 4096, 'NVDIMM_SIZE'],
  ['a file that does not exist, with no size to make it', null, undefined, 'NVDIMM_OPEN'],
]

for (const [what, length, bytes, code] of REFUSALS) {
  test(`${what} is refused by name and left alone`, () => {
    inFolder((folder) => {
      const path = join(folder, 'part')
      if (length !== null) writeFileSync(path, letters(length))
      const error = (() => {
        try {
          openNvdimm({ path, ...(bytes === undefined ? {} : { bytes }) })
          return null
        } catch (caught) {
          return caught
        }
      })()
      expect(error).toBeInstanceOf(NvdimmFileError)
      expect((error as NvdimmFileError).code).toBe(code)
      if (length === null) expect(existsSync(path)).toBe(false)
      else expect(hex(readFileSync(path))).toBe(hex(letters(length)))
    })
  })
}
