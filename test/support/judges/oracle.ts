/**
 * The judge of a part: what its bytes say, read without any of the firmware's own code.
 *
 * Invariant: nothing here is imported from `firmware/`. Layout, check code (sip-hash.ts)
 * and meaning are written down a second time, from the byte diagrams, as plainly as they can be
 * said; so a mistake in the firmware's reading of its own format cannot hide here.
 */

import { judgedGuard } from './crc32c.ts'
import { Known } from './known.ts'
import { sipHash128 } from './sip-hash.ts'

export { sipHash128 } from './sip-hash.ts'

export const LINE_BYTES = 64
export const PAGE_BYTES = 4096
export const LANES_AT = 8192
export const LANES = 48
export const OPERATIONS_AT = 12288
export const CLIENTS = 128
export const OPERATIONS_BYTES: number = 2 * CLIENTS * LINE_BYTES

const SLOT_MAGIC = 0x5044534c
const LANE_MAGIC = 0x5044494e
const PART_MAGIC = 'PERDURE\0'
const ENTRIES_AT = 640
const ENTRY_BYTES = 128
const LOST_AT = 128

/** The key of superblock and lanes. */
export const PART_KEY: Uint8Array = Buffer.from('PERDURE PART KEY', 'latin1')

function little64(bytes: Uint8Array, at: number): bigint {
  let value = 0n
  for (let i = 7; i >= 0; i--) value = (value << 8n) | BigInt(bytes[at + i] ?? 0)
  return value
}

function little32(bytes: Uint8Array, at: number): number {
  return bytes[at]! + bytes[at + 1]! * 2 ** 8 + bytes[at + 2]! * 2 ** 16 + bytes[at + 3]! * 2 ** 24
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}

/** One copy of a record, as it lies there. */
interface Slot {
  readonly magic: number
  readonly region: number
  readonly record: number
  readonly length: number
  readonly sequence: bigint
  readonly client: bigint
  readonly operation: bigint
  readonly version: number
  /** CRC-32C of the data; 0 without one. */
  readonly guard: number
  readonly data: Uint8Array
}

export function readSlot(bytes: Uint8Array): Slot {
  const length = little32(bytes, 28)
  return {
    magic: little32(bytes, 16),
    region: little32(bytes, 20),
    record: little32(bytes, 24),
    length,
    sequence: little64(bytes, 32),
    client: little64(bytes, 40),
    operation: little64(bytes, 48),
    version: little32(bytes, 56),
    guard: little32(bytes, 60),
    data: bytes.slice(64, 64 + length),
  }
}

/** Puts the right check code into a slot image. */
export function sealSlot(bytes: Uint8Array, key: Uint8Array): void {
  bytes.set(sipHash128(key, bytes.slice(16, 64 + little32(bytes, 28))))
}

/** A region, from its entry in the superblock. */
export interface RegionLayout {
  readonly name: string
  readonly id: number
  readonly kind: number
  readonly slots: number
  readonly capacity: number
  readonly copies: number
  readonly flags: number
  readonly at: number
  readonly areaBytes: number
  readonly key: Uint8Array
  readonly stride: number
}

/** Offset of a copy of a record in the part, bytes. */
export function copyAt(region: RegionLayout, copy: number, record: number): number {
  return region.at + copy * region.areaBytes + record * region.stride
}

/** The lines of a copy, by number: header line first. */
export function linesOfCopy(region: RegionLayout, copy: number, record: number): number[] {
  const first = copyAt(region, copy, record) / LINE_BYTES
  return Array.from({ length: region.stride / LINE_BYTES }, (_, i) => first + i)
}

/** Is that a whole copy of this very record (D-3)? */
export function slotValid(bytes: Uint8Array, region: RegionLayout, record: number): boolean {
  const slot = readSlot(bytes)
  if (slot.magic !== SLOT_MAGIC || slot.version !== 1) return false
  if (slot.region !== region.id || slot.record !== record) return false
  if (slot.length > region.capacity) return false
  if (slot.guard !== 0 && slot.guard !== judgedGuard(slot.data)) return false
  const code = sipHash128(region.key, bytes.slice(16, 64 + slot.length))
  return sameBytes(code, bytes.slice(0, 16))
}

/** A page of the superblock, or what is the matter with it. */
export interface SuperblockPage {
  readonly valid: boolean
  readonly zero: boolean
  readonly update: bigint
  readonly incarnation: number
  readonly dirtyShutdowns: number
  readonly regions: readonly RegionLayout[]
  /** Lines of the operation table are void up to this sequence. */
  readonly voidOperations: bigint
  /** Region id and record number of every record on the list of the lost. */
  readonly lost: readonly (readonly [number, number])[]
}

function readRegion(page: Uint8Array, at: number): RegionLayout {
  const capacity = little32(page, at + 44)
  return {
    name: Buffer.from(page.slice(at, at + 32))
      .toString('latin1')
      .replace(/\0+$/, ''),
    id: little32(page, at + 32),
    kind: little32(page, at + 36),
    slots: little32(page, at + 40),
    capacity,
    copies: little32(page, at + 48),
    flags: little32(page, at + 52),
    at: Number(little64(page, at + 64)),
    areaBytes: Number(little64(page, at + 72)),
    key: page.slice(at + 80, at + 96),
    stride: LINE_BYTES + Math.ceil(capacity / LINE_BYTES) * LINE_BYTES,
  }
}

/** Is the entry neither free nor of a region that was removed? */
function isRegion(page: Uint8Array, at: number): boolean {
  return little32(page, at + 48) !== 0 && (little32(page, at + 96) & 32) === 0
}

/** Bytes of a page that are under its check code, when it is ours. */
export function usedBytes(page: Uint8Array): number {
  return little32(page, 28)
}

/** Puts the right check code into a page. */
export function sealPage(page: Uint8Array): void {
  page.set(sipHash128(PART_KEY, page.slice(16, usedBytes(page))))
}

function readPage(page: Uint8Array): SuperblockPage {
  const used = usedBytes(page)
  const ours = Buffer.from(page.slice(16, 24)).toString('latin1') === PART_MAGIC
  const fits = ours && little32(page, 24) === 3 && used >= ENTRIES_AT && used <= PAGE_BYTES
  const valid = fits && sameBytes(sipHash128(PART_KEY, page.slice(16, used)), page.slice(0, 16))
  const count = valid ? little32(page, 92) : 0
  const lost = valid ? little32(page, 96) : 0
  return {
    valid,
    zero: page.every((byte) => byte === 0),
    update: little64(page, 32),
    incarnation: little32(page, 40),
    dirtyShutdowns: little32(page, 44),
    voidOperations: little64(page, 104),
    regions: Array.from({ length: count }, (_, i) => ENTRIES_AT + i * ENTRY_BYTES)
      .filter((at) => isRegion(page, at))
      .map((at) => readRegion(page, at)),
    lost: Array.from({ length: lost }, (_, i) => [
      little32(page, LOST_AT + 8 * i),
      little32(page, LOST_AT + 8 * i + 4),
    ]),
  }
}

/** The page of a part that counts, or null where none is valid. */
export function readSuperblock(part: Uint8Array): SuperblockPage | null {
  const a = readPage(part.slice(0, PAGE_BYTES))
  const b = readPage(part.slice(PAGE_BYTES, 2 * PAGE_BYTES))
  if (!a.valid && !b.valid) return null
  return a.valid && (!b.valid || a.update >= b.update) ? a : b
}

/** What one lane says: nothing, something torn, or which record is in which phase. */
export type Lane =
  | { readonly state: 'clear' | 'torn' }
  | {
      readonly state: 'A' | 'B'
      readonly region: number
      readonly record: number
      readonly sequence: bigint
      readonly wait: number
      readonly client: bigint
      readonly operation: bigint
    }

const PHASES: Readonly<Record<number, 'A' | 'B'>> = { 161: 'A', 178: 'B', 195: 'B' }

export function readLane(line: Uint8Array, checked = true): Lane {
  if (line.every((byte) => byte === 0)) return { state: 'clear' }
  const phase = PHASES[line[0]!]
  const paired = phase !== undefined && line[1] === (line[0]! ^ 0xff)
  const bound =
    little32(line, 4) === little32(line, 24) && line[2] === line[28] && line[3] === line[29]
  if (!paired || !bound || (checked && !laneNames(line))) return { state: 'torn' }
  return {
    state: phase,
    region: little32(line, 12),
    record: little32(line, 16),
    sequence: little64(line, 24),
    wait: line[23]! & 7,
    client: little64(line, 32),
    operation: little64(line, 40),
  }
}

/** Does the line name a record, whatever its phase word, a chunk of its own, says? */
export function laneNames(line: Uint8Array): boolean {
  const code = sipHash128(PART_KEY, line.slice(8, 48))
  return little32(line, 8) === LANE_MAGIC && sameBytes(code, line.slice(48))
}

/** Puts the right check code into a lane. */
export function sealLane(line: Uint8Array): void {
  line.set(sipHash128(PART_KEY, line.slice(8, 48)), 48)
}

/** What a line of the operation table says of a client. */
export interface ClientLine {
  readonly sequence: bigint
  readonly client: bigint
  readonly newest: bigint
  readonly below: bigint
  readonly bits: bigint
}

/** Reads a line; null where it was never written, or is not whole. */
function readClientLine(line: Uint8Array): ClientLine | null {
  const sequence = little64(line, 16)
  if (sequence === 0n || !sameBytes(sipHash128(PART_KEY, line.slice(16)), line.slice(0, 16))) {
    return null
  }
  return {
    sequence,
    client: little64(line, 24),
    newest: little64(line, 32),
    below: little64(line, 40),
    bits: little64(line, 48) + (little64(line, 56) << 64n),
  }
}

/** Puts the right check code into a line of the operation table. */
export function sealClientLine(line: Uint8Array): void {
  line.set(sipHash128(PART_KEY, line.slice(16)))
}

/** Does the line say that this operation is durable? */
export function lineKnows(line: ClientLine, operation: bigint): boolean {
  const behind = line.newest - operation
  if (behind < 0n) return false
  if (behind >= 128n) return behind - 128n < line.below
  return ((line.bits >> (operation & 127n)) & 1n) === 1n
}

/** Reads the operation tables of many parts; what a line says is worked out once. */
export class TableOracle {
  private readonly known = new Known(LINE_BYTES, readClientLine)

  /**
   * The line that counts of that client, or null. `floor` is the superblock's; the line at
   * `unreadable` is there for nobody.
   */
  lineOf(part: Uint8Array, client: number, floor = 0n, unreadable = -1): ClientLine | null {
    let found: ClientLine | null = null
    const first = client % 256
    const end = OPERATIONS_AT + OPERATIONS_BYTES
    for (let at = OPERATIONS_AT; at < end; at += LINE_BYTES) {
      if (part[at + 24] !== first || little32(part, at + 24) !== client) continue
      if (at === unreadable) continue
      const line = this.known.of(part, at)
      if (line === null || line.client !== BigInt(client) || line.sequence <= floor) continue
      if (found === null || line.sequence > found.sequence) found = line
    }
    return found
  }

  knows(part: Uint8Array, client: number, operation: number, floor = 0n): boolean {
    const line = this.lineOf(part, client, floor)
    return line !== null && lineKnows(line, BigInt(operation))
  }
}

/** What a client wrote, or the blank record of a new region: version 0. */
interface Version {
  readonly data: Uint8Array
  readonly client: number
  readonly operation: number
  /** Its data came with their guard: every copy of it has that, too. */
  readonly isGuarded?: boolean
}

function guardOf({ data, isGuarded }: Version): number {
  return isGuarded === true ? judgedGuard(data) : 0
}

/** Does the slot from its magic on match, whatever its sequence? */
function matches(bytes: Uint8Array, at: number, pattern: Uint8Array): boolean {
  const { length } = pattern
  for (let i = 0; i < 16; i++) if (bytes[at + i] !== pattern[i]) return false
  for (let i = 24; i < length; i++) if (bytes[at + i] !== pattern[i]) return false
  return true
}

/** Check code and sequence of a slot. */
function sealOf(bytes: Uint8Array, at: number): Uint8Array {
  return Uint8Array.from([...bytes.subarray(at, at + 16), ...bytes.subarray(at + 32, at + 40)])
}

function sealMatches(bytes: Uint8Array, at: number, seal: Uint8Array): boolean {
  for (let i = 0; i < 16; i++) if (bytes[at + i] !== seal[i]) return false
  for (let i = 16; i < 24; i++) if (bytes[at + 16 + i] !== seal[i]) return false
  return true
}

/**
 * One record of a region and every version that was ever begun of it. Which version a copy is, is
 * decided from its bytes: all its fields, all its data, and its check code.
 */
export class RecordOracle {
  readonly region: RegionLayout
  readonly record: number
  readonly versions: Version[]
  /** The highest version that was begun, and the highest that was acknowledged. */
  started = 0
  acknowledged = 0
  /** The highest version acknowledged with two durable copies or more. */
  acknowledgedTwice = 0
  private readonly known: Known<number>
  private readonly sequences = new Map<number, bigint>()
  /** Of each version, the bytes from the magic on that a whole copy of it has. */
  private readonly patterns: Uint8Array[] = []
  /** Of some versions, check code and sequence of a copy that was found to be whole. */
  private readonly seals: Uint8Array[] = []
  private readonly checked: boolean

  /** `checked` false: the check codes of this part are switched off (fences.test.ts). */
  constructor(region: RegionLayout, record: number, first: Version, checked = true) {
    this.region = region
    this.record = record
    this.versions = [first]
    this.checked = checked
    this.known = new Known(region.stride, (copy) => this.identify(copy))
  }

  /** The sequence under which a version was stored: without check codes it must match, too. */
  noteSequence(version: number, sequence: bigint): void {
    this.sequences.set(version, sequence)
  }

  /** The same record, begun with what that version left. */
  from(version: number): RecordOracle {
    const next = new RecordOracle(this.region, this.record, this.versions[version]!, this.checked)
    const sequence = this.sequences.get(version)
    if (sequence !== undefined) next.sequences.set(0, sequence)
    return next
  }

  /** The number of the version that these bytes are, wholly; -1 for none: torn. */
  versionOf(copy: Uint8Array): number {
    return this.versionAt(copy, 0)
  }

  /** Likewise of copy `copy` as it lies in the part. */
  versionIn(part: Uint8Array, copy: number): number {
    return this.versionAt(part, copyAt(this.region, copy, this.record))
  }

  private versionAt(bytes: Uint8Array, at: number): number {
    if (!this.checked) return this.known.of(bytes, at)
    // Most copies that are torn are so in plain sight, and need no check code to be called so.
    const like = this.versionLike(bytes, at)
    if (like < 0) return -1
    const seal = this.seals[like]
    if (seal !== undefined && sealMatches(bytes, at, seal)) return like
    const found = this.known.of(bytes, at)
    if (found === like) this.seals[like] = sealOf(bytes, at)
    return found
  }

  /** The first version whose fields and data, all but sequence and check code, these are, or -1. */
  private versionLike(bytes: Uint8Array, at: number): number {
    const { patterns, versions } = this
    for (let v = patterns.length; v < versions.length; v++) patterns.push(this.patternOf(v))
    for (let v = 0; v < patterns.length; v++) if (matches(bytes, at + 16, patterns[v]!)) return v
    return -1
  }

  private patternOf(version: number): Uint8Array {
    const { data, client, operation } = this.versions[version]!
    const pattern = new Uint8Array(48 + data.length)
    const view = new DataView(pattern.buffer)
    view.setUint32(0, SLOT_MAGIC, true)
    view.setUint32(4, this.region.id, true)
    view.setUint32(8, this.record, true)
    view.setUint32(12, data.length, true)
    view.setBigUint64(24, BigInt(client), true)
    view.setBigUint64(32, BigInt(operation), true)
    view.setUint32(40, 1, true)
    view.setUint32(44, guardOf(this.versions[version]!), true)
    pattern.set(data, 48)
    return pattern
  }

  private identify(copy: Uint8Array): number {
    if (this.checked && !slotValid(copy, this.region, this.record)) return -1
    const slot = readSlot(copy)
    if (slot.region !== this.region.id || slot.record !== this.record) return -1
    return this.versions.findIndex((version, i) => {
      const sequence = this.sequences.get(i) ?? (i === 0 ? slot.sequence : undefined)
      return (
        slot.client === BigInt(version.client) &&
        slot.operation === BigInt(version.operation) &&
        slot.guard === guardOf(version) &&
        sameBytes(slot.data, version.data) &&
        slot.sequence === sequence
      )
    })
  }

  /** Copy `copy` as it lies in the part. */
  copyIn(part: Uint8Array, copy: number): Uint8Array {
    const at = copyAt(this.region, copy, this.record)
    return part.subarray(at, at + this.region.stride)
  }

  /** The versions of all copies in the part, in write order. */
  statesIn(part: Uint8Array): number[] {
    const states: number[] = []
    for (let c = 0; c < this.region.copies; c++) states.push(this.versionIn(part, c))
    return states
  }

  /**
   * Judges the record after a recovery (P1-23, X-2): one version in every copy, wholly, not older
   * than what was acknowledged, not newer than what was begun. Null if all is well.
   */
  complaint(part: Uint8Array, atLeast: number = this.acknowledged): string | null {
    const states = this.statesIn(part)
    const version = states[0]!
    const shown = states.map((state) => (state < 0 ? 'torn' : `v${state}`)).join('/')
    const where = `record ${this.record}: ${shown}`
    if (states.some((state) => state !== version)) return `${where}: the copies differ`
    if (version < 0) return `${where}: no copy is whole`
    if (version < atLeast) return `${where}: v${atLeast} was acknowledged and is lost`
    if (version > this.started) return `${where}: only v${this.started} was begun`
    return null
  }
}
