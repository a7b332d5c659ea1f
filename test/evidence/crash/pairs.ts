/**
 * Crashes of a pair region: a client writes the copies of a record by itself, one after the other,
 * and the card makes them equal behind a cut (source 1, FIG. 11; S1-M2).
 *
 * Each play is cut before every command, with every subset of the pending chunks. The card that
 * starts on it looks at its regions; then every copy is the same whole version, no older than one
 * of which a FLUSH was answered, and no newer than what was begun. Of each class of images the
 * start that makes the copies equal is cut at every command, with every subset, too.
 *
 * Invariants:
 * - Copies are judged from the durable bytes by the oracle, which shares no code with the firmware;
 *   the images that clients write are made here.
 * - A FLUSH counts when its response leaves, and not when the burst is over.
 */

import { images } from '../../../boards/emulator/medium/images.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { VIEW_FIRST_COPY } from '../../../firmware/burst/view.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  dataOf,
  TestCard,
  type TestPeer,
  type TestRegion,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import { ImageTable, linesPending, markerOf } from '../../support/crash/image-table.ts'
import { type Aim, aimOf, aimText, type Level } from '../../support/crash/scenario.ts'
import {
  copyAt,
  type RegionLayout,
  readSlot,
  readSuperblock,
  sameBytes,
  sealSlot,
  slotValid,
} from '../../support/judges/oracle.ts'
import { flushFrame, writeFrames } from '../../support/wire/requests.ts'
import { NOTHING, type Replayed, type Tally, type Violation } from '../stage.ts'

const PART_BYTES = 1 << 16
const SLOT = 1
const CLIENT = 9
const READ_RESPONSE_ONLY = 0x10
/** Calls in which a card that starts has looked at all that is due, 1 ms apart. */
const LOOKS = 12
const DESCRIBED = 5

/** How a record is written; `mtu` smaller than the image: in several packets. */
interface PairKind {
  readonly name: string
  /** CPU seconds of one play of two copies, about. */
  readonly seconds: number
  readonly capacity: number
  readonly mtu: number
  play(clients: Clients): void
}

export const PAIR_KINDS: readonly PairKind[] = [
  {
    name: 'pair write',
    seconds: 2,
    ...{ capacity: 64, mtu: 4096 },
    play: (clients) => {
      for (let copy = 0; copy < clients.copies; copy++) {
        clients.write(copy, 2)
        clients.flush(copy, 2)
      }
    },
  },
  {
    name: 'pair write, looked at',
    seconds: 2,
    ...{ capacity: 300, mtu: 256 },
    play: (clients) => {
      for (let copy = 0; copy < clients.copies; copy++) {
        clients.write(copy, 2, () => clients.look())
        clients.look()
        clients.flush(copy, 2)
        clients.look()
      }
    },
  },
  {
    // One client ends in the midst of the last copy, and another one begins with the first.
    name: 'pair left torn',
    seconds: 3,
    ...{ capacity: 300, mtu: 256 },
    play: (clients) => {
      clients.leave(clients.copies - 1, 2)
      for (let copy = 0; copy < clients.copies; copy++) {
        clients.write(copy, 3)
        clients.flush(copy, 3)
      }
    },
  },
]

/** The data of a version: eight bytes of each packet differ from that of the one before. */
function dataOfVersion(version: number, length: number, pattern: number): Uint8Array {
  const data = dataOf(length, 23 * pattern)
  for (let at = 0; at + 8 <= length; at += 256) data.set(dataOf(8, 40 * version + pattern), at)
  return data
}

/** The clients of one record, and what they were told. */
class Clients {
  readonly card: TestCard
  readonly region: TestRegion
  readonly layout: RegionLayout
  readonly copies: number
  /** The newest version of which a FLUSH was answered, and the newest that was begun. */
  floor = 0
  begun = 0
  private qp: TestPeer
  private readonly kind: PairKind
  private readonly pattern: number
  /** Of which version a FLUSH is under way; 0 of none. */
  private flushing = 0

  constructor(kind: PairKind, copies: number, pattern: number, entropy: number) {
    const facts = { entropy: [entropy, 2, 3, 4, 5, 6, 7, 8] }
    const { capacity, mtu } = kind
    this.card = new TestCard(PART_BYTES, { facts }).format()
    const shape = { name: 'pairs', slots: 2, copies, capacity, flags: mad.REGION_PAIR }
    this.region = this.card.provision(shape)
    this.layout = readSuperblock(this.card.nvdimm.durable)!.regions[0]!
    this.copies = copies
    this.kind = kind
    this.pattern = pattern
    this.qp = this.card.connect(mtu, 0, CLIENT)
  }

  /** The data of that version. */
  data(version: number): Uint8Array {
    return dataOfVersion(version, this.kind.capacity, this.pattern)
  }

  private image(version: number): Uint8Array {
    const { layout } = this
    const data = this.data(version)
    const bytes = new Uint8Array(layout.stride)
    const view = new DataView(bytes.buffer)
    const words = [0x5044534c, layout.id, SLOT, data.length, version, 0, CLIENT, 0, version, 0, 1]
    for (const [i, word] of words.entries()) view.setUint32(16 + 4 * i, word, true)
    bytes.set(data, 64)
    sealSlot(bytes, layout.key)
    return bytes
  }

  private frames(copy: number, version: number): Uint8Array[] {
    const at = (VIEW_FIRST_COPY + copy) * 2 ** 28
    return writeFrames(this.qp, this.region, at, this.image(version), { vaHigh: SLOT })
  }

  /** One copy, packet by packet; `between` packets something else happens. */
  write(copy: number, version: number, between: () => void = () => {}): void {
    this.begun = Math.max(this.begun, version)
    this.frames(copy, version).forEach((frame, i) => {
      if (i > 0) between()
      this.card.serve(frame)
    })
  }

  flush(copy: number, version: number): void {
    const at = (VIEW_FIRST_COPY + copy) * 2 ** 28
    const { stride } = this.region
    const range = { vaHigh: SLOT, vaLow: at, length: stride }
    this.flushing = version
    this.card.serve(flushFrame(this.qp, this.region, range))
    this.hear()
    this.flushing = 0
  }

  /** What has left: the response of the FLUSH, if it has. */
  hear(): void {
    const { card, flushing } = this
    if (flushing === 0 || !card.sent.some(({ opcode }) => opcode === READ_RESPONSE_ONLY)) return
    this.floor = Math.max(this.floor, flushing)
  }

  /** Begins a copy, and breaks off by what ends the connection; the next one is another's. */
  leave(copy: number, version: number): void {
    this.begun = Math.max(this.begun, version)
    const [first, ...rest] = this.frames(copy, version)
    this.card.serve(first!)
    const psn = (this.qp.psn - rest.length) & 0xffffff
    this.card.serve(...writeFrames(this.qp, this.region, 0, dataOf(8, 1), { psn }))
    this.qp = this.card.connect(this.kind.mtu, 0, CLIENT)
  }

  look(): void {
    this.card.scan(this.region.id)
  }
}

/** A card starts on what a cut has left, and looks at what is due. */
function startAndLook(card: TestCard): void {
  for (let i = 0; i < LOOKS; i++) card.pass(1000)
}

/** Thrown where a start is cut. */
class Cut extends Error {}

class PairExplorer {
  readonly cells = new Map<string, number>()
  readonly witnesses: string[] = []
  readonly aims: string[] = []
  readonly story: string[] = []
  points = 0
  count = 0
  nested = 0
  violations = 0
  private readonly clients: Clients
  private readonly part: Nvdimm
  private readonly aim: Aim | null
  private readonly met = new ImageTable()
  private readonly cutBefore = new Set<string>()
  private path: (readonly [number, number])[] = []
  private image = 0
  private done = ''
  private exploring = false

  constructor(clients: Clients, aim: Aim | null) {
    this.clients = clients
    this.part = clients.card.nvdimm
    this.aim = aim
  }

  get distinct(): number {
    return this.met.size
  }

  /** Version 1 is in every copy; then the play goes on, and each command may be the last. */
  run(play: (clients: Clients) => void): void {
    const { clients } = this
    for (let copy = 0; copy < clients.copies; copy++) {
      clients.write(copy, 1)
      clients.flush(copy, 1)
    }
    if (clients.floor !== 1) throw new Error('version 1 was not flushed')
    const { machine } = clients.card
    machine.observe({ onCommand: () => this.visitPoint() })
    this.exploring = true
    play(clients)
    this.visitPoint()
    machine.observe({})
  }

  private visitPoint(): void {
    const { part, clients, aim } = this
    if (!this.exploring) return
    clients.hear()
    const { entries } = part.pendingStores
    const now = `${entries} ${part.fences} ${part.bytesStored} ${clients.floor} ${clients.begun}`
    if (now === this.done) return
    this.points += 1
    this.exploring = false
    if (aim === null || aim.point === this.points) this.visitImages()
    this.exploring = true
    // What was started on the images has changed the counts of the part.
    const after = part.pendingStores.entries
    const { floor, begun } = clients
    this.done = `${after} ${part.fences} ${part.bytesStored} ${floor} ${begun}`
  }

  private visitImages(): void {
    const { part, aim } = this
    const mark = markerOf(part, linesPending(part))
    images(part, 'chunk', (image) => {
      if (aim !== null && aim.image !== image) return
      this.image = image
      this.count += 1
      this.met.put(mark(), 0)
      const kind = this.states().map((state) => this.nameOf(state))
      const cell = kind.join('/')
      this.cells.set(cell, (this.cells.get(cell) ?? 0) + 1)
      this.tell('the image is')
      if (aim === null || aim.path.length > 0) this.cutStart(cell)
      if (aim === null || aim.path.length === 0) this.startAndJudge()
    })
  }

  /** The version of each copy, durably; -1 for none. */
  private states(): number[] {
    const { part, clients } = this
    const { layout } = clients
    return Array.from({ length: layout.copies }, (_, copy) => {
      const at = copyAt(layout, copy, SLOT)
      const bytes = part.durable.subarray(at, at + layout.stride)
      if (!slotValid(bytes, layout, SLOT)) return -1
      const { sequence, data } = readSlot(bytes)
      return sameBytes(data, clients.data(Number(sequence))) ? Number(sequence) : -1
    })
  }

  private nameOf(state: number): string {
    return state < 0 ? 'torn' : `v${state}`
  }

  private startAndJudge(): void {
    images(this.part, 'chunk', () => {
      withPassingCards(() => startAndLook(new TestCard(this.part)))
      const states = this.states()
      const { floor, begun } = this.clients
      const [first] = states
      this.tell('and then')
      const shown = states.map((state) => this.nameOf(state)).join('/')
      if (states.some((state) => state !== first)) this.object(`the copies differ: ${shown}`)
      else if (first! < 0) this.object('no copy is whole')
      else if (first! < floor) this.object(`it is v${first}, and v${floor} was flushed`)
      else if (first! > begun) this.object(`it is v${first}, and v${begun} was begun`)
    })
  }

  /** Of each class of images the start is cut before every command. */
  private cutStart(cell: string): void {
    const { aim, part, clients } = this
    const kind = `${cell}, v${clients.floor} flushed`
    if (aim === null && this.cutBefore.has(kind)) return
    this.cutBefore.add(kind)
    for (let command = 0, goes = true; goes; command++) {
      if (aim !== null && aim.path[0]![0] !== command) {
        if (command > aim.path[0]![0]) return
        continue
      }
      images(part, 'chunk', () => {
        goes = withPassingCards(() => this.startUntil(command))
        images(part, 'chunk', (image) => {
          if (aim !== null && aim.path[0]![1] !== image) return
          this.path = [[command, image]]
          this.nested += 1
          this.tell(`its start is cut before command ${command}`)
          this.startAndJudge()
          this.path = []
        })
      })
    }
  }

  /** Starts, and is cut before that command. False if it comes to its end before. */
  private startUntil(command: number): boolean {
    let left = command
    const watch = {
      onCommand: (): void => {
        if (left-- === 0) throw new Cut()
      },
    }
    try {
      startAndLook(new TestCard(this.part, { watch }))
      return false
    } catch (error) {
      if (!(error instanceof Cut)) throw error
      return true
    }
  }

  private tell(what: string): void {
    if (this.aim === null) return
    const states = this.states().map((state) => this.nameOf(state))
    this.story.push(`point ${this.points}: ${what}: record ${SLOT} ${states.join('/')}`)
  }

  private object(what: string): void {
    this.violations += 1
    if (this.witnesses.length === DESCRIBED) return
    const { points: point, image, path } = this
    const begun = path.length === 0 ? '' : `, its start cut at ${path[0]![0]}`
    this.witnesses.push(`point ${point}${begun}: ${what}`)
    this.aims.push(aimText({ point, image, path }))
  }
}

function exploreKind(
  kind: PairKind,
  { copies }: Level,
  pattern: number,
  aim: Aim | null,
): PairExplorer {
  const number = PAIR_KINDS.indexOf(kind)
  const entropy = 5_000_000 + number + 10 * copies + 100 * pattern
  const explorer = new PairExplorer(new Clients(kind, copies, pattern, entropy), aim)
  explorer.run((clients) => kind.play(clients))
  return explorer
}

export function pairKind(name: string): PairKind | null {
  return PAIR_KINDS.find((kind) => kind.name === name) ?? null
}

/** Every crash of that kind; `replay` is what the stage needs before the aim. */
export function tallyOfPairs(
  kind: PairKind,
  level: Level,
  pattern: number,
  shard: string,
  replay: string,
): Tally {
  const found = exploreKind(kind, level, pattern, null)
  const described = found.witnesses.map((what, i): Violation => {
    return { shard, what: `${kind.name}: ${what}`, replay: `${replay} ${found.aims[i]}` }
  })
  return {
    ...NOTHING,
    count: found.count + found.nested,
    distinct: found.distinct,
    violations: found.violations,
    described,
    more: { 'crash points': found.points, 'images of cut recoveries': found.nested },
    cells: Object.fromEntries(found.cells),
  }
}

/** One image again. */
export function tellPairs(kind: PairKind, level: Level, pattern: number, aim: string): Replayed {
  const { violations, witnesses, story } = exploreKind(kind, level, pattern, aimOf(aim))
  const verdict = violations > 0 ? witnesses.map((one) => `OBJECTION  ${one}`) : ['all is well']
  return { violated: violations > 0, text: [kind.name, ...story, ...verdict].join('\n') }
}

/** What a cut must have left at the least: each copy old, torn and new, those before it new. */
export function pairCells({ copies }: Level): string[] {
  return Array.from({ length: copies }, (_, copy) => copy).flatMap((copy) =>
    ['v1', 'torn', 'v2'].map((state) =>
      Array.from({ length: copies }, (_, c) => (c < copy ? 'v2' : c === copy ? state : 'v1')).join(
        '/',
      ),
    ),
  )
}
