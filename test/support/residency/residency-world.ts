/**
 * A requester and a responder of memory status, both as they are in the product, joined by a
 * channel that loses, repeats, delays and reorders what it likes, in any direction.
 *
 * The memory behind it has more pages than frames, so pages are swapped: a frame that a page has
 * left holds other bytes at once. An access looks at the page table, as the firmware does, and
 * never at what the requester believes; that decides only whether it hints and waits.
 *
 * The channel is worse than a reliable connection: there a message that is lost is sent again, and
 * nothing is reordered. Only this is left to the connection: what belongs to one that is over comes
 * late at most with the part's incarnation of then.
 */

import {
  type Association,
  askCurrent,
  beginAssociation,
  beginCount,
  beginOutage,
  countAbsent,
  endAssociation,
  endCount,
  endOutage,
  optIn,
  setSize,
  tellsAtUs,
  unitChanged,
} from '../../../firmware/residency/association.ts'
import {
  associated,
  type Blocks,
  createBlocks,
  isRangeReady,
} from '../../../firmware/residency/blocks.ts'
import {
  doubtHint,
  isAsking,
  isNotice,
  takeNotice,
  want,
} from '../../../firmware/residency/heard.ts'
import {
  ACCESS_READY,
  ACCESS_WAITS,
  judgeAccess,
  nextHintedBlocks,
} from '../../../firmware/residency/hints.ts'
import { composeNotice } from '../../../firmware/residency/notice.ts'
import { judgeWish, mostLog2, nearestLog2 } from '../../../firmware/residency/size.ts'
import { ANSWER_OFFER, takeWishAnswer } from '../../../firmware/residency/wish.ts'
import {
  type Bseth,
  blankBseth,
  SIZE_GRANTED,
  SIZE_OFFERED,
} from '../../../firmware/wire/block-size.ts'
import {
  blankMseth,
  type Mseth,
  STATUS_ERROR,
  STATUS_UNAVAILABLE,
} from '../../../firmware/wire/memory-status.ts'
import { blankAssociations, PAGE } from './residency.ts'

const RKEY = 0x51

/** Memory for associations is made once, and worlds take turns. */
const PLACES = blankAssociations()
let worlds = 0

const PREFETCH_US = 5_000

type Message =
  | { readonly to: 'requester'; readonly what: 'notice'; mseth: Mseth; bytes: Uint8Array }
  | { readonly to: 'requester'; readonly what: 'answer'; bseth: Bseth }
  | { readonly to: 'responder'; readonly what: 'associate' | 'size'; bseth: Bseth }
  | { readonly to: 'responder'; readonly what: 'hint'; first: number; pages: number }

/** A message on its way, and the connection that it belongs to. */
type Sent = Message & { readonly connection: number }

export interface WorldOptions {
  readonly pages?: number
  readonly frames?: number
  /** Bytes of entries in one notice: few make a current status of several messages. */
  readonly room?: number
  readonly periodUs?: number
  readonly maximum?: number
}

export class ResidencyWorld {
  readonly pages: number
  readonly flying: Sent[] = []
  readonly known: Blocks
  readonly association: Association
  nowUs = 0
  /** Page faults, and accesses that were believed to be ready. */
  faults = 0
  trusted = 0
  private readonly options: Required<WorldOptions>
  private connection = 0
  private incarnation = 1
  // The memory: what the frames hold, which page lies where, and what was swapped out.
  private readonly ram: Uint8Array
  private readonly owner: Int32Array
  private readonly frameOf: Int32Array
  private readonly swap: Uint8Array
  private victim = 0
  /** What each page must hold. */
  private readonly truth: Uint8Array

  constructor(options: WorldOptions = {}) {
    const { pages = 4, frames = 3, room = 64, periodUs = 100, maximum = 256 } = options
    this.options = { pages, frames, room, periodUs, maximum }
    this.pages = pages
    this.ram = new Uint8Array(frames).fill(0xee)
    this.owner = new Int32Array(frames).fill(-1)
    this.frameOf = new Int32Array(pages).fill(-1)
    this.swap = Uint8Array.from({ length: pages }, (_, page) => page + 1)
    this.truth = this.swap.slice()
    this.known = createBlocks(pages, 2)
    this.association = PLACES[worlds++ % PLACES.length]!
    endAssociation(this.association)
    this.association.sequence = 0
    this.connect()
  }

  // ---- memory ----------------------------------------------------------------------------------

  isMapped(page: number): boolean {
    return this.frameOf[page]! >= 0
  }

  map(page: number): void {
    if (this.isMapped(page)) return
    let frame = this.owner.indexOf(-1)
    if (frame < 0) {
      frame = this.victim
      this.victim = (this.victim + 1) % this.owner.length
      this.unmap(this.owner[frame]!)
    }
    this.ram[frame] = this.swap[page]!
    this.owner[frame] = page
    this.frameOf[page] = frame
    unitChanged(this.association, page * PAGE, PAGE, true)
  }

  unmap(page: number): void {
    const frame = this.frameOf[page]!
    if (frame < 0) return
    this.swap[page] = this.ram[frame]!
    this.ram[frame] = 0xee
    this.owner[frame] = -1
    this.frameOf[page] = -1
    unitChanged(this.association, page * PAGE, PAGE, false)
  }

  /** The requester accesses a page: judges, hints, waits, and then it is served in any case. */
  access(page: number, value: number | null = null): void {
    const { known } = this
    const how = judgeAccess(known, page * PAGE, PAGE)
    if (how === ACCESS_READY) this.trusted++
    if (how === ACCESS_WAITS) {
      while (nextHintedBlocks(known, page * PAGE, PAGE, this.nowUs, PREFETCH_US)) {
        const per = 2 ** known.sizeLog2 / PAGE
        const first = known.hintFirst * per
        const pages = Math.min(known.hintCount * per, this.pages - first)
        this.send({ to: 'responder', what: 'hint', first, pages })
      }
    }
    if (!this.isMapped(page)) this.faults++
    this.map(page)
    const frame = this.frameOf[page]!
    if (value === null) {
      if (this.ram[frame] !== this.truth[page]) throw new Error(`a wrong byte in page ${page}`)
    } else {
      this.ram[frame] = value
      this.truth[page] = value
    }
  }

  /** The requester hints at a page ahead of its access. */
  hint(page: number): void {
    this.send({ to: 'responder', what: 'hint', first: page, pages: 1 })
  }

  /** The prefetch time of an access to that page is over, and nothing was heard. */
  waitInVain(page: number): void {
    if (judgeAccess(this.known, page * PAGE, PAGE) === ACCESS_WAITS)
      doubtHint(this.known, this.nowUs)
  }

  // ---- connections -----------------------------------------------------------------------------

  /** The requester connects again, and associates; what it knew is gone. */
  connect(): void {
    this.connection++
    associated(this.known, this.pages * PAGE, this.incarnation)
    want(this.known, this.nowUs + 20_000)
    // Over a reliable connection the association itself is sent until it is answered.
    this.associate(12)
  }

  /** The part is started again: pages and associations are gone, and so is the connection. */
  restart(): void {
    this.incarnation++
    for (let page = 0; page < this.pages; page++) this.unmap(page)
    this.connect()
  }

  private associate(wishLog2: number): void {
    const { association: a, options } = this
    const length = this.pages * PAGE
    beginAssociation(a, RKEY, 0, length, mostLog2(length))
    a.periodUs = options.periodUs
    a.maximum = options.maximum
    this.answerWish(wishLog2)
    this.recount()
    optIn(a)
    askCurrent(a)
  }

  propose(sizeLog2: number): void {
    this.send({
      to: 'responder',
      what: 'size',
      bseth: { ...blankBseth(), blockSizeLog2: sizeLog2 },
    })
  }

  fail(kind: number): void {
    if (kind === STATUS_ERROR || kind === STATUS_UNAVAILABLE) beginOutage(this.association, kind)
    else endOutage(this.association)
  }

  // ---- the responder ---------------------------------------------------------------------------

  private recount(): void {
    if (!this.association.stale) return
    beginCount(this.association)
    for (let page = 0; page < this.pages; page++) {
      if (!this.isMapped(page)) countAbsent(this.association, page * PAGE, PAGE)
    }
    endCount(this.association)
  }

  private answerWish(wishLog2: number): void {
    const { association: a } = this
    const status = judgeWish(a.length, wishLog2)
    const granted = status === SIZE_GRANTED
    if (granted) {
      a.committed = true
      a.wishLog2 = wishLog2
      setSize(a, wishLog2)
      askCurrent(a)
    }
    const blockSizeLog2 = nearestLog2(a.length, wishLog2)
    const answer = { ...blankBseth(), status: granted ? SIZE_GRANTED : SIZE_OFFERED }
    this.send({
      ...{ to: 'requester', what: 'answer' },
      bseth: { ...answer, commit: granted, blockSizeLog2 },
    })
  }

  private takeRequest(message: Sent & { to: 'responder' }): void {
    if (message.what === 'hint') {
      for (let i = 0; i < message.pages; i++) this.map(message.first + i)
      return
    }
    if (message.bseth.current) askCurrent(this.association)
    if (!message.bseth.current) this.answerWish(message.bseth.blockSizeLog2)
  }

  /** The responder's turn: composes what is due. */
  tell(): void {
    const { association: a, options } = this
    this.recount()
    for (let i = 0; i < 64 && tellsAtUs(a, this.nowUs) <= this.nowUs; i++) {
      const mseth = blankMseth()
      const bytes = new Uint8Array(options.room)
      const length = composeNotice(a, mseth, bytes, 0, options.room)
      mseth.incarnation = this.incarnation
      this.send({ to: 'requester', what: 'notice', mseth, bytes: bytes.slice(0, length) })
      this.recount()
    }
  }

  // ---- the channel -----------------------------------------------------------------------------

  private send(message: Message): void {
    this.flying.push({ ...message, connection: this.connection } as Sent)
  }

  /** Delivers the message at that place; `again` leaves it on its way. */
  deliver(at: number, again = false): void {
    const message = this.flying[at]
    if (message === undefined) return
    if (!again) this.flying.splice(at, 1)
    const isOld = message.connection !== this.connection
    if (message.to === 'responder') {
      if (!isOld) this.takeRequest(message)
    } else if (message.what === 'answer') {
      if (!isOld) this.takeAnswer(message.bseth)
    } else if (!isOld || message.mseth.incarnation !== this.incarnation) {
      const { mseth, bytes } = message
      if (!isNotice(mseth, bytes, 0, bytes.length)) throw new Error('a notice that makes no sense')
      takeNotice(this.known, mseth, bytes, 0, this.nowUs)
    }
  }

  private takeAnswer(bseth: Bseth): void {
    if (takeWishAnswer(this.known, bseth) === ANSWER_OFFER) this.propose(bseth.blockSizeLog2)
  }

  lose(at: number): void {
    this.flying.splice(at, 1)
  }

  /** Time passes: the requester asks if it is time to. */
  pass(us: number): void {
    this.nowUs += us
    if (isAsking(this.known, this.nowUs)) {
      const bseth = { ...blankBseth(), blockSizeLog2: 0, current: true }
      this.send({ to: 'responder', what: 'size', bseth })
    }
    this.tell()
  }

  // ---- quiet -----------------------------------------------------------------------------------

  /** From here on nothing is lost, repeated or reordered, until nothing more is on its way. */
  settle(): void {
    for (let i = 0; i < 100; i++) {
      while (this.flying.length > 0) this.deliver(0)
      this.pass(1_000)
      if (this.flying.length === 0 && !this.known.wanted && this.association.dirty === 0) return
    }
  }

  /** Pages of which the requester believes other than the responder's blocks say. */
  mistaken(): number[] {
    const { association: a, known } = this
    const per = 2 ** a.sizeLog2 / PAGE
    return Array.from({ length: this.pages }, (_, page) => page).filter((page) => {
      const first = Math.floor(page / per) * per
      const end = Math.min(first + per, this.pages)
      let ready = true
      for (let one = first; one < end; one++) if (!this.isMapped(one)) ready = false
      return isRangeReady(known, page * PAGE, PAGE) !== ready
    })
  }
}
