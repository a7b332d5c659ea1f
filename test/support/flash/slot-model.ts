/**
 * What two slots may do, told by a model that knows nothing of records: an operation has happened
 * or it has not. And the explorer that holds the store against it: the power goes at every call of
 * a script, with every outcome, and once more at every call of the start behind it.
 */

import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { Random } from '../../../boards/emulator/base/random.ts'
import { checkFor } from '../../../boards/flash/check-image.ts'
import { sha256, writeImage } from '../../../boards/flash/mcuboot.ts'
import { HAL_BYTES, writePayload } from '../../../boards/flash/payload.ts'
import { SlotError } from '../../../boards/flash/slot-error.ts'
import { type Check, type Checked, SlotStore } from '../../../boards/flash/slot-store.ts'
import { CutStorage, PowerCut } from './cut-storage.ts'

export const SLOTS_AT = 16384
export const SLOT_BYTES = 3072

/** The key that the seed of 32 such bytes has. */
export function keyOf(byte: number): KeyObject {
  const head = Buffer.from('302e020100300506032b657004220420', 'hex')
  const key = Buffer.concat([head, Buffer.alloc(32, byte)])
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' })
}

const KEY = keyOf(0x11)
export const HAL: Uint8Array = new Uint8Array(HAL_BYTES)

interface ImageOptions {
  readonly counter?: number
  readonly target?: string
  readonly key?: KeyObject
  /** Of its bundle. */
  readonly bytes?: number
}

/** An image of a version that works in those formats, of some 2,500 bytes that cannot be packed. */
export function imageOf(
  major: number,
  formats: readonly [number, number],
  { counter = 0, target = 'emulator', key = KEY, bytes = 2048 }: ImageOptions = {},
): Uint8Array {
  const random = new Random(major)
  const bundle = Uint8Array.from({ length: bytes }, () => random.below(256))
  const purpose = { counter, targets: [target], formats, hal: HAL }
  const version = { major, minor: 0, revision: 0, build: 0 }
  return writeImage(writePayload(purpose, [['bundle', bundle]]), version, key)
}

/** The three of the scripts. Only the first cannot work in format 3. */
type Name = 'A' | 'B' | 'C'
export const IMAGES: Readonly<Record<Name, Uint8Array>> = {
  A: imageOf(1, [2, 2]),
  B: imageOf(2, [2, 3]),
  C: imageOf(3, [2, 3]),
}

/** Who looks at images; each is looked at once. */
export function remembering(check: Check): Check {
  const seen = new Map<string, Checked | Error>()
  return (bytes) => {
    const name = Buffer.from(sha256(bytes)).toString('latin1')
    let found = seen.get(name)
    if (found === undefined) {
      try {
        found = check(bytes)
      } catch (error) {
        found = error as Error
      }
      seen.set(name, found)
    }
    if (found instanceof Error) throw found
    return found
  }
}

export const CHECK: Check = remembering(
  checkFor({ trusted: [createPublicKey(KEY)], target: 'emulator', hal: HAL }),
)

export function nameOf(bytes: Uint8Array | null): Name | null {
  const same = Object.entries(IMAGES).find(([, image]) => {
    return bytes !== null && Buffer.compare(image, bytes) === 0
  })
  return (same?.[0] as Name | undefined) ?? null
}

// ---- the model ---------------------------------------------------------------------------------

interface Model {
  readonly runs: Name
  readonly other: Name | null
  readonly isMarked: boolean
  readonly onTrial: boolean
  readonly format: number
}

export type Step = `upload ${Name}` | 'mark' | 'start' | 'confirm' | 'format 3'

const reads = (name: Name | null, format: number): boolean => {
  return name !== null && (format < 3 || name !== 'A')
}

function swapped(model: Model, onTrial: boolean): Model {
  return { ...model, runs: model.other!, other: model.runs, isMarked: false, onTrial }
}

function started(before: Model): Model {
  let model = before
  if (model.onTrial) model = swapped(model, false)
  else if (model.isMarked) {
    const can = reads(model.other, model.format)
    model = can ? swapped(model, true) : { ...model, isMarked: false }
  }
  if (reads(model.runs, model.format)) return model
  return reads(model.other, model.format) ? swapped(model, false) : model
}

/** What a step may leave: the last one is what it leaves when it has ended. */
function after(model: Model, step: Step): Model[] {
  const isBusy = model.onTrial || model.isMarked
  if (step === 'start') return [started(model)]
  if (step === 'format 3') return [{ ...model, format: 3 }]
  if (step === 'confirm') return model.isMarked ? [model] : [{ ...model, onTrial: false }]
  if (step === 'mark') {
    const can = model.other !== null && !model.onTrial && reads(model.other, model.format)
    return [can ? { ...model, isMarked: true } : model]
  }
  const name = step.slice('upload '.length) as Name
  if (isBusy || model.other === name) return [model]
  if (!reads(name, model.format)) return [{ ...model, other: null }]
  return [
    { ...model, other: null },
    { ...model, other: name },
  ]
}

/** What runs in the next three starts. */
function runsOf(model: Model): string {
  const runs: Name[] = []
  for (let next = started(model), n = 0; n < 3; n++, next = started(next)) runs.push(next.runs)
  return runs.join()
}

// ---- the store ---------------------------------------------------------------------------------

export interface Setting {
  /** Who looks at images. */
  readonly check?: Check
  /** Changes what is stored: a mutation. */
  readonly storageOf?: (durable: Uint8Array) => CutStorage
  /** Takes something out of the store: a mutation. */
  readonly spoil?: (store: SlotStore) => void
}

export function open(storage: CutStorage, { check = CHECK, spoil }: Setting = {}): SlotStore {
  const store = new SlotStore(storage, { check, slotBytes: SLOT_BYTES, slotsAt: SLOTS_AT })
  spoil?.(store)
  return store
}

/** Uploads an image in pieces of 512 bytes. */
export function upload(store: SlotStore, bytes: Uint8Array, piece = 512): void {
  const sha = sha256(bytes)
  const begin = { length: bytes.length, sha, upgrade: false }
  let { off } = store.begin(begin, bytes.subarray(0, piece))
  while (off < bytes.length) ({ off } = store.take(off, bytes.subarray(off, off + piece)))
}

/** Does a step; what the store refuses is no matter of the explorer. */
export function does(storage: CutStorage, setting: Setting, step: Step): void {
  const store = open(storage, setting)
  try {
    if (step === 'start') store.start()
    else if (step === 'confirm') {
      store.selfTestPassed()
      store.confirm()
    } else if (step === 'format 3') store.noteFormat(3)
    else if (step === 'mark') {
      const marked = store.list().find(({ slot }) => slot === 1)
      if (marked !== undefined) store.mark(marked.hash, false)
    } else upload(store, IMAGES[step.slice('upload '.length) as Name])
  } catch (error) {
    if (!(error instanceof SlotError)) throw error
  }
}

const FIRST: Model = { runs: 'A', other: null, isMarked: false, onTrial: false, format: 2 }

/** A card with A in its first slot, that runs it, and a part of format 2. */
export function firstOf(setting: Setting = {}): Uint8Array {
  const durable = new Uint8Array(SLOTS_AT + 2 * SLOT_BYTES).fill(0xff)
  durable.set(IMAGES.A, SLOTS_AT)
  const storage = new CutStorage(durable)
  const store = open(storage, setting)
  store.start()
  store.noteFormat(2)
  return storage.image()
}

interface ExploreOptions {
  /** Whether the power goes once more, in the start behind a cut. */
  readonly second?: boolean
  readonly seed?: number
  /** It ends behind so many. */
  readonly wrongMax?: number
}

interface Explored {
  cuts: number
  states: number
  second: number
  /** What the store did that the model may not. */
  readonly wrong: string[]
}

/** Holds the store against the model: cuts at every call of the script, and behind it. */
export function explore(
  steps: readonly Step[],
  setting: Setting = {},
  { second = true, seed = 1, wrongMax = Number.POSITIVE_INFINITY }: ExploreOptions = {},
): Explored {
  const explored: Explored = { cuts: 0, states: 0, second: 0, wrong: [] }
  const make = setting.storageOf ?? ((durable: Uint8Array) => new CutStorage(durable))
  const random = new Random(seed)
  const first = firstOf(setting)

  /** What the store runs in three starts, behind which it still answers. */
  const judge = (tag: string, durable: Uint8Array, may: ReadonlySet<string>): void => {
    const storage = make(durable)
    const runs = [1, 2, 3].map(() => nameOf(open(storage, setting).start().image) ?? 'nothing')
    if (may.has(runs.join())) return
    explored.wrong.push(`${tag}: ${runs.join()}, and not ${[...may].join(' or ')}`)
  }

  let [before, may] = [first, [FIRST] as readonly Model[]]
  for (const [n, step] of steps.entries()) {
    const ends = may.flatMap((model) => after(model, step))
    const left = new Set([...may, ...ends].map(runsOf))
    for (let at = 0; explored.wrong.length < wrongMax; at++) {
      const storage = make(before)
      storage.cutAt = at
      if (isOver(() => does(storage, setting, step))) {
        before = storage.image()
        break
      }
      explored.cuts++
      for (const durable of storage.outcomes(random)) {
        explored.states++
        const tag = `${steps.slice(0, n + 1).join(', ')}: cut at call ${at}`
        judge(tag, durable, left)
        if (second) again(tag, durable, new Set([...may, ...ends].flatMap(twice)))
      }
    }
    may = [ends.at(-1)!]
    judge(`${steps.slice(0, n + 1).join(', ')}: whole`, before, new Set(may.map(runsOf)))
  }
  return explored

  function twice(model: Model): string[] {
    return [runsOf(model), runsOf(started(model))]
  }

  function again(tag: string, durable: Uint8Array, may: ReadonlySet<string>): void {
    for (let at = 0; explored.wrong.length < wrongMax; at++) {
      const storage = make(durable)
      storage.cutAt = at
      if (isOver(() => open(storage, setting).start())) return
      for (const outcome of storage.outcomes(random, false)) {
        explored.second++
        judge(`${tag}, then at ${at} of the start`, outcome, may)
      }
    }
  }
}

/** Does it; whether it came to its end. */
function isOver(work: () => void): boolean {
  try {
    work()
    return true
  } catch (error) {
    if (!(error instanceof PowerCut)) throw error
    return false
  }
}
