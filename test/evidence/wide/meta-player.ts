/**
 * Every crash of what changes the part itself and not a record: format, provision, discard, start.
 *
 * Invariants:
 * - A point is before each fence, behind each answer, and at the end; at a point every subset of
 *   the pending chunks is an image. Where there are more than the play allows, the lines commute:
 *   each line has every subset of its chunks beside none and beside all of the others, and more
 *   images are drawn from the seed, by share.
 * - Each image is started through the firmware's own recovery, and the oracle looks at the bytes:
 *   the part is in one of the states that the play allows at that point, every region that counts
 *   is complete, the incarnation is a later one, and nothing else has changed.
 * - The start of the first image of each class is cut in turn at every command, and those starts
 *   again; and that image is also started the whole way, and must come to the same bytes.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { imageCount, images } from '../../../boards/emulator/medium/images.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type PendingChunk, pending } from '../../../boards/emulator/medium/power-cut.ts'
import type { Watch } from '../../../boards/emulator/run/machine.ts'
import { BLANK, FAULTS, PASS } from '../../../firmware/board/fault.ts'
import { type Facts, FENCE, TRANSMIT } from '../../../firmware/board/hal.ts'
import type { State } from '../../../firmware/core.ts'
import { FACTS } from '../../support/cards/test-card.ts'
import { Booth } from '../../support/crash/booth.ts'
import { ImageTable, linesPending, type Mark, markerOf } from '../../support/crash/image-table.ts'
import { LeanBooth } from '../../support/crash/lean-boot.ts'
import { Scratch } from '../../support/crash/scratch.ts'
import {
  copyAt,
  LANES,
  LANES_AT,
  LINE_BYTES,
  PAGE_BYTES,
  type RegionLayout,
  readSuperblock,
  type SuperblockPage,
  sameBytes,
  slotValid,
} from '../../support/judges/oracle.ts'

/** What is played. */
export interface MetaPlay {
  readonly name: string
  /** CPU seconds, about. */
  readonly seconds: number
  /** The part before; `entropy` is where its keys come from. */
  part(facts: Partial<Facts>): Nvdimm
  /** What is cut, on a card that has this watch while it does what the play is about. */
  during(part: Nvdimm, facts: Partial<Facts>, watch: Watch): void
  /**
   * The states that the part goes through, in order, as `stateOf` names them: with so many answers
   * given, it is in the state of that number or in the next.
   */
  readonly states: readonly string[]
  /** Points with more images than these are visited by lines; as the look says if absent. */
  readonly most?: number
  /** Every start comes to the same records as the first one. */
  readonly settled?: boolean
}

/** How much of it. */
interface MetaLook {
  readonly seed: number
  /** Points with more images than these are not visited whole. */
  readonly most: number
  /** Only the image of that number, from 0, over all points; and its story is told. */
  readonly aim?: number
}

export interface MetaFindings {
  images: number
  distinct: number
  points: number
  /** Points where the lines were taken to commute. */
  reduced: number
  nested: number
  compared: number
  violations: number
  readonly witnesses: string[]
  /** The number of the image of each witness. */
  readonly aims: number[]
  readonly cells: Map<string, number>
  readonly story: string[]
}

const WITNESSES = 5

/** How deep the starts are cut. */
const DEPTH = 2

/** Images of a point of a start that is cut, at the most. */
const NESTED_MOST = 2 ** 12

/** Kind of a region of records. */
const RECORDS = 0

/** Any odd number of 32 bits. */
const MIX = 0x9e3779b1

/** Contents whose judgement is kept: a point has up to a million of them, of 8 KiB each. */
const REMEMBERED = 4096

/** Lines that are cut finely where not all can be, and images that are drawn besides. */
const FINE_LINES = 24
const DRAWN = 512

export function playMeta(play: MetaPlay, look: MetaLook): MetaFindings {
  return new MetaPlayer(play, look).run()
}

/** What is known of a class of images at a point. */
interface PageBytes {
  readonly durable: Uint8Array
  readonly live: Uint8Array
}

class MetaPlayer {
  private readonly play: MetaPlay
  private readonly look: MetaLook
  private readonly facts: Facts
  private readonly part: Nvdimm
  private readonly random: Random
  private readonly booth = new Booth()
  private readonly lean: LeanBooth
  private readonly met = new ImageTable()
  /** Images that were judged, by what had been answered. */
  private readonly judged = new ImageTable()
  private readonly superblocks = new Map<string, SuperblockPage | null>()
  private readonly complete = new Set<string>()
  private readonly findings: MetaFindings
  private point = ''
  private pages: readonly PageBytes[] = []
  private seen = new Set<string>()
  private answers = 0
  private done = ''
  private incarnation = 0
  private image = -1
  private settled: Uint8Array | null = null

  constructor(play: MetaPlay, look: MetaLook) {
    this.play = play
    this.look = look
    const entropy = [look.seed | 0, 2, 3, 4, 5, 6, 7, 8]
    this.part = play.part({ entropy })
    const { bytes, dirtyShutdowns } = this.part
    this.facts = { ...FACTS, entropy, nvdimmBytes: bytes, dirtyShutdowns }
    this.random = new Random(look.seed)
    this.lean = new LeanBooth(this.part, this.facts)
    this.findings = {
      ...{ images: 0, distinct: 0, points: 0, reduced: 0, nested: 0, compared: 0, violations: 0 },
      ...{ witnesses: [], aims: [], cells: new Map(), story: [] },
    }
  }

  run(): MetaFindings {
    const { part, play, findings } = this
    this.incarnation = readSuperblock(part.durable)?.incarnation ?? 0
    let fences = 0
    let transmitted = false
    const answered = (): void => {
      if (!transmitted) return
      transmitted = false
      this.answers += 1
      this.visitPoint('behind an answer')
    }
    play.during(
      part,
      { entropy: this.facts.entropy },
      {
        onCommand: (_, op) => {
          answered()
          if (op === TRANSMIT) transmitted = true
          if (op !== FENCE) return
          fences += 1
          this.visitPoint(`before F${fences}`)
        },
      },
    )
    answered()
    this.visitPoint('at the end')
    findings.distinct = this.met.size
    return findings
  }

  // ---- points and their images -----------------------------------------------------------------

  private visitPoint(point: string): void {
    const { part, findings, look } = this
    const now = `${part.pendingStores.entries} ${part.fences} ${part.bytesStored} ${this.answers}`
    if (now === this.done) return
    this.done = now
    findings.points += 1
    this.point = point
    this.seen = new Set()
    this.pages = [0, PAGE_BYTES].map((at) => ({
      durable: part.durable.slice(at, at + PAGE_BYTES),
      live: part.live.slice(at, at + PAGE_BYTES),
    }))
    if (imageCount(part) <= Math.min(look.most, this.play.most ?? look.most)) {
      const mark = markerOf(part, linesPending(part))
      images(part, 'chunk', () => this.visitImage(part, this.lean, mark))
    } else this.visitReduced()
  }

  /** Each line finely, beside none and all of the others; and some images by chance. */
  private visitReduced(): void {
    this.findings.reduced += 1
    const { random } = this
    const chunks = pending(this.part)
    const lines = [...new Set(chunks.map(({ at }) => Math.floor(at / LINE_BYTES)))]
    const scratch = new Scratch(this.part)
    const lean = new LeanBooth(scratch.part, this.facts)
    const mark = markerOf(scratch.part, lines)
    const show = (version: (chunk: PendingChunk) => number): void => {
      for (const chunk of chunks) {
        scratch.put(chunk.at, chunk.versions[version(chunk)]!)
      }
      images(scratch.part, 'chunk', () => this.visitImage(scratch.part, lean, mark))
    }
    const last = ({ versions }: PendingChunk): number => versions.length - 1
    // With fewer images asked there are fewer lines, too.
    const share = Math.min(1, this.look.most / 2 ** 10)
    const fine = lines.filter(() => random.chance((share * FINE_LINES) / lines.length))
    for (const line of [lines[0]!, ...fine]) {
      for (const others of [0, 1]) {
        for (let subset = 0; subset < 256; subset++) {
          show((chunk) => {
            const own = Math.floor(chunk.at / LINE_BYTES) === line
            const bit = (subset >> ((chunk.at / 8) % 8)) & 1
            return last(chunk) * (own ? bit : others)
          })
        }
      }
    }
    for (let i = 0; i < share * DRAWN; i++) {
      const survive = [0.02, 0.1, 0.5, 0.9, 0.98][i % 5]!
      show((chunk) => (random.chance(survive) ? last(chunk) : random.below(last(chunk))))
    }
  }

  private visitImage(part: Nvdimm, lean: LeanBooth, mark: () => Mark): void {
    const { findings, look, seen, play } = this
    this.image += 1
    if (look.aim !== undefined && look.aim !== this.image) return
    const image = mark()
    this.met.put(image, 0)
    const cell = `${play.name}, ${this.point}: ${this.classOf(part)}`
    findings.cells.set(cell, (findings.cells.get(cell) ?? 0) + 1)
    if (!this.isFresh(image, this.answers)) return
    findings.images += 1
    const told = look.aim !== undefined
    if (told) findings.story.push(`${cell}; ${this.answers} answers had left`)
    if (!seen.has(cell)) {
      seen.add(cell)
      const whole = this.bootWhole(part)
      images(part, 'chunk', () => {
        this.boot(part, lean, cell)
        if (!sameBytes(whole, part.durable)) this.violation(`${cell}: a lean boot differs`)
      })
      images(part, 'chunk', () => this.cutStart(part, lean, 1, cell, this.answers))
    }
    const state = this.boot(part, lean, cell)
    if (told) findings.story.push(`it starts, and is: ${state}`)
  }

  /** Was nothing like it judged before, where as much had been answered? */
  private isFresh(mark: Mark, answers: number): boolean {
    mark.low ^= Math.imul(answers + 1, MIX)
    return this.judged.put(mark, 0)
  }

  /** What the pages of the superblock are in the image. */
  private classOf(part: Nvdimm): string {
    const names = this.pages.map(({ durable, live }, i) => {
      const page = part.durable.subarray(i * PAGE_BYTES, (i + 1) * PAGE_BYTES)
      if (sameBytes(page, live)) return sameBytes(page, durable) ? 'as it was' : 'new'
      return sameBytes(page, durable) ? 'old' : 'torn'
    })
    return `page A ${names[0]}, page B ${names[1]}`
  }

  // ---- boots -----------------------------------------------------------------------------------

  /** Boots the whole way; what is durable then. The part is as before. */
  private bootWhole(part: Nvdimm): Uint8Array {
    let durable = new Uint8Array(0)
    this.findings.compared += 1
    images(part, 'chunk', () => {
      const booted = (): void => {
        durable = part.durable.slice()
      }
      this.booth.boot(part, this.facts, null, () => {}, booted)
    })
    return durable
  }

  /** Boots the image and judges what it is then; the state. */
  private boot(part: Nvdimm, lean: LeanBooth, name: string, least: number = this.answers): string {
    let found = ''
    lean.boot(null, (state) => {
      found = this.stateOf(part, state)
    })
    const place = this.play.states.indexOf(found)
    if (place < least || place > this.answers + 1) {
      this.violation(`${name}: it is ${found}, and ${this.answers} answers had left`)
    }
    if (this.play.settled === true && found === this.play.states[0]) this.holdRecords(part, name)
    return found
  }

  /** The records are what the first start has made of them. */
  private holdRecords(part: Nvdimm, name: string): void {
    const { at, copies, areaBytes } = this.superblockOf(part)!.regions[0]!
    const now = part.durable.subarray(at, at + copies * areaBytes)
    this.settled ??= now.slice()
    if (!sameBytes(now, this.settled)) this.violation(`${name}: a start decides otherwise`)
  }

  /** What a part is that was booted: a state of the play, or what is wrong with it. */
  private stateOf(part: Nvdimm, state: State): string {
    if (state.refused === BLANK) return 'blank'
    if (state.refused !== PASS) return `refused as ${FAULTS[state.refused]!.name}`
    if (state.commit.closed !== PASS) return `closed as ${FAULTS[state.commit.closed]!.name}`
    const superblock = this.superblockOf(part)
    if (superblock === null) return 'without a superblock'
    if (superblock.incarnation <= this.incarnation) return 'of an incarnation of before'
    const lanes = part.durableWords.subarray(LANES_AT >> 2, (LANES_AT + LANES * LINE_BYTES) >> 2)
    if (lanes.some((word) => word !== 0)) return 'with a lane that is not clear'
    const lost = new Set(superblock.lost.map(([region, record]) => `${region} ${record}`))
    for (const region of superblock.regions.filter(({ kind }) => kind === RECORDS)) {
      if (!this.isComplete(part, region, lost)) return `with a region ${region.name} that is torn`
    }
    const more = lost.size === 0 ? '' : `, ${lost.size} records lost`
    return `${superblock.regions.length} regions${more}`
  }

  private superblockOf(part: Nvdimm): SuperblockPage | null {
    const name = Buffer.from(part.durable.buffer, 0, LANES_AT).toString('latin1')
    let known = this.superblocks.get(name)
    if (known === undefined) {
      known = readSuperblock(part.durable)
      if (this.superblocks.size === REMEMBERED) this.superblocks.clear()
      this.superblocks.set(name, known)
    }
    return known
  }

  /** Every copy of every record that is not lost is the same, and valid. */
  private isComplete(part: Nvdimm, region: RegionLayout, lost: ReadonlySet<string>): boolean {
    const bytes = region.copies * region.areaBytes
    const content = Buffer.from(part.durable.buffer, region.at, bytes).toString('latin1')
    const name = `${region.id} ${[...lost].join()} ${content}`
    if (this.complete.has(name)) return true
    for (let record = 0; record < region.slots; record++) {
      if (lost.has(`${region.id} ${record}`)) continue
      const copies = Array.from({ length: region.copies }, (_, copy) => {
        const at = copyAt(region, copy, record)
        return part.durable.subarray(at, at + region.stride)
      })
      const same = copies.every((copy) => sameBytes(copy, copies[0]!))
      if (!same || !slotValid(copies[0]!, region, record)) return false
    }
    if (this.complete.size === REMEMBERED) this.complete.clear()
    this.complete.add(name)
    return true
  }

  // ---- starts that are cut ---------------------------------------------------------------------

  /** Cuts the start of an image at every command, and the starts of what that leaves. */
  private cutStart(
    part: Nvdimm,
    lean: LeanBooth,
    depth: number,
    above: string,
    least: number,
  ): void {
    let done = ''
    let fences = 0
    const onCommand = (_: number, op: number): void => {
      if (op === FENCE) fences += 1
      const now = `${part.pendingStores.entries} ${part.fences} ${part.bytesStored}`
      if (now === done) return
      done = now
      if (imageCount(part) > NESTED_MOST) return
      let first = true
      const name = `${above}, its start cut before F${fences + 1}`
      const mark = markerOf(part, linesPending(part))
      images(part, 'chunk', () => {
        if (!this.isFresh(mark(), least)) return
        this.findings.nested += 1
        if (first && depth < DEPTH) {
          first = false
          images(part, 'chunk', () => this.cutStart(part, lean, depth + 1, name, least))
        }
        this.boot(part, lean, name, least)
      })
    }
    lean.boot({ onCommand }, () => {})
  }

  private violation(what: string): void {
    const { findings } = this
    findings.violations += 1
    if (findings.witnesses.length === WITNESSES) return
    findings.witnesses.push(what)
    findings.aims.push(this.image)
  }
}
