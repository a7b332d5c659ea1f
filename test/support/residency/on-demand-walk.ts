/**
 * A random walk over memory that is registered on demand: requesters that do not give up, and a
 * pager that takes pages whenever it likes; every byte is compared with a model.
 */

import { expect } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { PAGE_BYTES, PAGES_AT_ONCE } from '../../../firmware/board/limits.ts'
import { dataOf, sentOf, type TestPeer } from '../cards/test-card.ts'
import { type OnDemand, OnDemandHost, payloadOf, RNR_PAGE } from './on-demand.ts'

/** Pages of the region that one requester has for itself. */
const PAGES_EACH = 24
const MTUS = [256, 1024, 4096]
/** Attempts of which one must be answered. */
const TRIES_MAX = 100

/** A pager without mercy: few frames, and pages that go or move whenever it likes. */
class Pager {
  readonly held: Map<number, number> = new Map()
  private readonly free: number[]
  /** What the region holds, except for pages that are in frames. */
  readonly swap: Uint8Array
  private readonly host: OnDemandHost
  private readonly region: OnDemand
  private readonly random: Random

  constructor(host: OnDemandHost, region: OnDemand, pages: number, frames: number, random: Random) {
    this.host = host
    this.region = region
    this.random = random
    this.free = host.frames(frames)
    this.swap = dataOf(pages * PAGE_BYTES, 1)
  }

  private slice(page: number): Uint8Array {
    return this.swap.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
  }

  /** Takes the page away, and lets its frame be somebody else's. */
  evict(page: number): void {
    const frame = this.held.get(page)!
    expect(this.host.unmap(this.region, [page])).toBe('PASS')
    this.slice(page).set(this.host.frame(frame))
    this.host.frame(frame).fill(this.random.below(256))
    this.held.delete(page)
    this.free.push(frame)
  }

  private bring(page: number): void {
    if (this.held.has(page)) return
    // The one that came first goes first.
    if (this.free.length === 0) this.evict(this.held.keys().next().value!)
    const frame = this.free.splice(this.random.below(this.free.length), 1)[0]!
    this.host.frame(frame).set(this.slice(page))
    this.held.set(page, frame)
    expect(this.host.map(this.region, [[page, frame]])).toBe('PASS')
  }

  /** Brings what was asked for since. */
  load(): void {
    for (const { first, count } of this.host.wanted()) {
      for (let page = first; page < first + count; page++) this.bring(page)
    }
  }

  /** Does something that nobody has asked for. */
  disturb(): void {
    const { host, region, random } = this
    const pages = [...this.held.keys()]
    if (pages.length === 0) return
    const page = pages[random.below(pages.length)]!
    const what = random.below(4)
    if (what === 0) this.evict(page)
    if (what === 1) {
      this.evict(page)
      this.bring(page)
    }
    // A call that was executed long ago, on its way again.
    if (what === 2) expect(host.unmap(region, [page], host.sequence - 1)).toBe('PASS')
    if (what === 3) {
      const frame = this.held.get(page)!
      expect(host.map(region, [[page, frame]])).toBe('PASS')
    }
  }

  content(from: number, length: number): Uint8Array {
    const all = this.swap.slice()
    for (const [page, frame] of this.held) all.set(this.host.frame(frame), page * PAGE_BYTES)
    return all.slice(from, from + length)
  }
}

/** One request on its way, until it is answered. */
interface Under {
  readonly qp: TestPeer
  readonly frames: readonly Uint8Array[]
  readonly psns: readonly number[]
  readonly length: number
  readonly want: Uint8Array | null
  readonly since: number
  /** Acknowledgements seen so far; the first frame that is to be sent again. */
  acks: number
  from: number
  answered: boolean
}

/** Each step every requester makes one request; their packets meet in the same bursts. */
export class Walk {
  /** How often a requester was told to wait. */
  waits = 0
  private readonly random: Random
  private readonly host: OnDemandHost = new OnDemandHost()
  private readonly region: OnDemand
  private readonly pager: Pager
  private readonly pairs: readonly TestPeer[]
  private readonly model: Uint8Array
  private steps = 0

  constructor(seed: number) {
    const { host } = this
    this.random = new Random(seed)
    const pages = MTUS.length * PAGES_EACH
    this.region = host.registerOnDemand({ length: pages * PAGE_BYTES })
    const frames = MTUS.length * PAGES_AT_ONCE
    this.pager = new Pager(host, this.region, pages, frames, this.random)
    this.pairs = MTUS.map((mtu) => host.card.connect(mtu))
    this.model = this.pager.swap.slice()
    host.keepLog()
  }

  step(): void {
    const { host, model, pager, random } = this
    const under = this.pairs.map((qp, i) => this.begin(qp, i))
    for (let tries = 0; under.some(({ answered }) => !answered); tries++) {
      expect(tries, 'it comes to an end').toBeLessThan(TRIES_MAX)
      const waiting = under.filter(({ answered }) => !answered)
      const all = this.mix(waiting)
      for (let i = 0; i < all.length; i += 32) {
        host.card.serve(...all.slice(i, i + 32))
        if (random.below(8) === 0) pager.disturb()
      }
      host.serveAll()
      pager.load()
      if (random.below(4) === 0) pager.disturb()
      host.serveAll()
      host.card.pass(400)
      for (const one of waiting) this.judge(one)
    }
    const same = Buffer.compare(pager.content(0, model.length), model) === 0
    expect(same, `the memory behind step ${this.steps}`).toBe(true)
    this.steps += 1
  }

  private begin(qp: TestPeer, which: number): Under {
    const { host, model, random, region } = this
    const most = random.below(3) === 0 ? PAGES_EACH * PAGE_BYTES : 3 * PAGE_BYTES
    const length = 1 + random.below(most)
    const at = random.below(PAGES_EACH * PAGE_BYTES - length + 1)
    const offset = which * PAGES_EACH * PAGE_BYTES + at
    const reads = random.below(2) === 0
    const data = dataOf(length, random.below(2 ** 16))
    const frames = reads
      ? [host.reads(qp, region, offset, length)]
      : host.writes(qp, region, offset, data)
    const want = reads ? model.slice(offset, offset + length) : null
    if (!reads) model.set(data, offset)
    const psns = frames.map((frame) => sentOf(frame).psn)
    const since = host.log.length
    return { qp, frames, psns, length, want, since, acks: 0, from: 0, answered: false }
  }

  /** What they send next, a few packets of each in turns. */
  private mix(waiting: readonly Under[]): Uint8Array[] {
    const queues = waiting.map(({ frames, from }) => frames.slice(from))
    const mixed: Uint8Array[] = []
    while (queues.some((queue) => queue.length > 0)) {
      const queue = queues[this.random.below(queues.length)]!
      mixed.push(...queue.splice(0, 1 + this.random.below(6)))
    }
    return mixed
  }

  /** Looks at what was answered since the request was made. */
  private judge(one: Under): void {
    const { log } = this.host
    const mine = log.slice(one.since).filter(({ packet }) => packet.destQp === one.qp.peer)
    const bad = mine.find(({ syndrome }) => syndrome > 0x1f && syndrome !== RNR_PAGE)
    expect(bad?.syndrome, 'a refusal').toBeUndefined()
    const acks = mine.filter(({ opcode }) => opcode === 0x11)
    const last = acks.length > one.acks ? acks.at(-1)! : null
    one.acks = acks.length
    const rnr = last?.syndrome === RNR_PAGE
    one.from = rnr ? one.psns.indexOf(last.psn) : one.frames.length
    if (rnr) this.waits += 1
    if (one.want === null) one.answered = !rnr && last?.psn === one.psns.at(-1)
    else one.answered = payloadOf(mine).length === one.length
    if (!one.answered || one.want === null) return
    const same = Buffer.compare(payloadOf(mine), one.want) === 0
    expect(same, `a READ of ${one.length} bytes`).toBe(true)
  }
}
