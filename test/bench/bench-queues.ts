/**
 * `npm run bench -- queues [--json] [--svg FILE] [--seconds N]`: what the queues of a host cost the
 * card behind PCIe (source 3).
 *
 * Method. A raw host (support/queues/queue-host.ts) stores elements outside the timed part. Timed
 * is all that the card does with them: doorbells, queue information, elements and bytes by DMA, its
 * command lists on the emulated NVDIMM, completions. Each figure is the upper quartile of pieces of
 * one millisecond, as what disturbs only slows; quote the ratios, as the machine is shared. Times
 * over PCIe are virtual (boards/emulator/host/pcie.ts) and do not change from run to run; nor do
 * the counts.
 *
 * The conventional scheme, for comparison, keeps in the queue information where the write pointer
 * lies, and not the pointer: the card reads that address, then what is there. It is carried out on
 * the same machine over the same link.
 *
 * Trusted doorbells carry the pointer, and the card uses it (firmware/queues/trust.ts). Two hosts,
 * one that asks for it and one that does not, have turns of a millisecond in the same run.
 */

import { writeFileSync } from 'node:fs'
import { Random } from '../../boards/emulator/base/random.ts'
import { HostRam } from '../../boards/emulator/host/host-ram.ts'
import type { Engine } from '../../boards/emulator/run/dpu.ts'
import {
  AUX,
  COMMAND_WORDS,
  COMMANDS_AT,
  COPY,
  DMA_SPACE,
  FROM,
  LENGTH,
  OP,
  TO,
} from '../../firmware/board/hal.ts'
import { CONTEXTS, UNIT_BYTES } from '../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../firmware/board/memory-map.ts'
import { POLICIES } from '../../firmware/host/context-cache.ts'
import {
  CQE_STAMP,
  CQE_STATUS,
  SIGNALED,
  WC_SUCCESS,
  WQE_NOP,
  WQE_OPERATION,
} from '../../firmware/host/element.ts'
import { ZONE3_BYTES } from '../../firmware/host/queue-info.ts'
import { WRITE_PERSIST } from '../../firmware/transport/requester.ts'
import { takeWishes } from '../support/bench/bench-arguments.ts'
import { type Line, plotOf, ticksTo } from '../support/bench/plot.ts'
import { text } from '../support/bench/table.ts'
import { engineCard } from '../support/cards/engine.ts'
import { dataOf, type TestCard } from '../support/cards/test-card.ts'
import { elementOf, type Form, type PairNumbers, QueueHost } from '../support/queues/queue-host.ts'

/** What is timed in one piece, µs: short, so that other work on the machine is in few of them. */
const PIECE_US = 1000
const SLOTS = 1024
const SEED = 1

/** A host and its card; what the card did is counted by the board. */
class Rig {
  readonly host: QueueHost
  readonly card: TestCard

  private constructor(card: TestCard) {
    this.card = card
    this.host = new QueueHost(card)
  }

  static async open(
    engine: Engine,
    queues: number,
    bytes: number,
    part = 1 << 18,
    trust = false,
  ): Promise<Rig> {
    const rig = new Rig(await engineCard(engine, part, { ram: new HostRam(bytes) }))
    rig.card.format()
    rig.host.trust = trust
    rig.host.init(queues)
    return rig
  }

  /** Serves the card until completion number `number` of that queue is there; µs. */
  serveUntil(cq: number, number: number): number {
    const { card, host } = this
    const at = host.unitAt(cq, number - 1) + CQE_STAMP
    const begun = process.hrtime.bigint()
    for (let calls = 0; host.view.getUint32(at, true) !== number; calls++) {
      if (calls === 1000) throw new Error('the card does not complete what was posted')
      card.now += 10
      card.firmware.serve(0, card.now)
    }
    return Number(process.hrtime.bigint() - begun) / 1e3
  }

  /** Takes completions up to that number, all of them good. */
  take(cq: number, number: number): void {
    const of = this.host.queues.get(cq)!
    const last = this.host.unitAt(cq, number - 1)
    if (this.host.bytes[last + CQE_STATUS] !== WC_SUCCESS) throw new Error('a post failed')
    of.pointer = number
    this.host.setPointer(cq)
  }

  close(): void {
    this.card.firmware.dispose()
  }
}

interface DoorbellCost {
  scheme: 'zone 3' | 'pointer to pointer'
  /** Queues that rang at once. */
  doorbells: number
  readsPerDoorbell: number
  /** Lists of reads of which each waits for the one before. */
  waits: number
  nanoseconds: number
}

/** Reads, and virtual time, until the card knows the write pointers of the queues that rang. */
export async function doorbellCosts(): Promise<DoorbellCost[]> {
  const rig = await Rig.open('node', 64, 1 << 20)
  const { host, card } = rig
  const cq = host.createCq()
  const pairs = Array.from({ length: 16 }, () => host.createQp(cq, { units: 4 }))
  const { link } = host.ram
  const costs: DoorbellCost[] = []
  for (const doorbells of [1, 16]) {
    const ring = (): void => {
      for (const { send } of pairs.slice(0, doorbells)) host.ring(send)
      host.run()
    }
    ring()
    const before = link.counts.reads
    link.takeBusyNs()
    ring()
    const nanoseconds = link.takeBusyNs()
    const readsPerDoorbell = (link.counts.reads - before) / doorbells
    costs.push({ scheme: 'zone 3', doorbells, readsPerDoorbell, waits: 1, nanoseconds })
    const addresses = pairs.slice(0, doorbells).map(({ send }) => {
      const pointer = host.allocate(8)
      host.put64(pointer, host.zone3At + send * ZONE3_BYTES)
      return pointer
    })
    costs.push(conventional(card, host, addresses))
  }
  rig.close()
  return costs
}

/** The conventional scheme: where each pointer lies is read, then each pointer. */
function conventional(card: TestCard, host: QueueHost, addresses: readonly number[]): DoorbellCost {
  const { machine } = card
  const { link } = host.ram
  const words = new Float64Array(
    machine.packets.buffer,
    machine.packets.byteOffset + COMMANDS_AT,
    addresses.length * COMMAND_WORDS,
  )
  // Completions as they are composed, the last of packet memory: nothing is under way now.
  const into = MEMORY_BYTES - addresses.length * 8
  const read = (from: (i: number) => number): void => {
    addresses.forEach((_, i) => {
      const at = i * COMMAND_WORDS
      words[at + OP] = COPY
      words[at + FROM] = DMA_SPACE + from(i)
      words[at + TO] = into + i * 8
      words[at + LENGTH] = 8
      words[at + AUX] = 0
    })
    if (machine.run(addresses.length) !== addresses.length) throw new Error('a read failed')
  }
  const before = link.counts.reads
  link.takeBusyNs()
  read((i) => addresses[i]!)
  const found = new DataView(machine.packets.buffer, machine.packets.byteOffset + into)
  const pointers = addresses.map((_, i) => Number(found.getBigUint64(i * 8, true)))
  read((i) => pointers[i]!)
  return {
    scheme: 'pointer to pointer',
    doorbells: addresses.length,
    readsPerDoorbell: (link.counts.reads - before) / addresses.length,
    waits: 2,
    nanoseconds: link.takeBusyNs(),
  }
}

type Work = 'NOP' | 'record, 64 inline' | 'record, 4096 by address'
const WORKS: readonly Work[] = ['NOP', 'record, 64 inline', 'record, 4096 by address']

interface PostCost {
  engine: Engine
  work: Work
  /** Posts per doorbell. */
  burst: number
  postsPerSecond: number
  microsecondsPerPost: number
  boardCallsPerPost: number
  dmaReadsPerPost: number
  dmaWritesPerPost: number
  fencesPerPost: number
}

/** Posts of one kind on one queue, as elements that are numbered on from post to post. */
class Poster {
  private readonly host: QueueHost
  private readonly queue: number
  private readonly elements: Uint8Array[]
  private posts = 0

  constructor(rig: Rig, queue: number, work: Work) {
    const { host, card } = rig
    this.host = host
    this.queue = queue
    if (work === 'NOP') {
      this.elements = [elementOf({ opcode: WQE_NOP, flags: SIGNALED })]
      return
    }
    const bytes = work === 'record, 64 inline' ? 64 : 4096
    const { rkey } = card.provision({ slots: SLOTS, capacity: bytes })
    const local = host.allocate(64 * bytes, 4096)
    const lkey = host.register(local, 64 * bytes)
    this.elements = Array.from({ length: SLOTS }, (_, slot) => {
      const address = slot * 2 ** 32
      const record = { opcode: WRITE_PERSIST, flags: SIGNALED, rkey, address, wait: 2 }
      if (bytes === 64) return elementOf({ ...record, inline: dataOf(bytes, slot) })
      return elementOf({ ...record, length: bytes, local: local + (slot % 64) * bytes, lkey })
    })
  }

  /** Stores so many elements, rings once. */
  post(count: number): void {
    const { host, queue, elements } = this
    for (let i = 0; i < count; i++) {
      const element = elements[this.posts % elements.length]!
      this.posts += 1
      const unit = host.store(queue, element)
      const at = host.unitAt(queue, unit) + WQE_OPERATION
      if (elements.length > 1) host.view.setUint32(at, this.posts, true)
    }
    host.setPointer(queue)
    host.ring(queue)
  }
}

/** Posts per second: `round` does so many, and returns what the card took for them, µs. */
function rateOf(seconds: number, posts: number, round: () => number): number {
  const rates: number[] = []
  let left = seconds * 1e6
  do {
    let spent = 0
    let done = 0
    for (; spent < PIECE_US; done += posts) spent += round()
    rates.push((done / spent) * 1e6)
    left -= spent
  } while (left > 0)
  return upperQuartile(rates)
}

function upperQuartile(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.75)]!
}

/** What a post costs, on one queue. */
export async function postCost(
  engine: Engine,
  work: Work,
  burst: number,
  seconds: number,
): Promise<PostCost> {
  const rig = await Rig.open(engine, 16, 1 << 21, SLOTS * 2 * 4224 + (1 << 16))
  const { host, card } = rig
  const { machine } = card
  const { link } = host.ram
  const cq = host.createCq(256)
  const { send } = host.createQp(cq, { units: 128 })
  const poster = new Poster(rig, send, work)
  let done = 0
  const round = (): number => {
    poster.post(burst)
    done += burst
    const us = rig.serveUntil(cq, done)
    rig.take(cq, done)
    return us
  }
  for (let i = 0; i < 64; i++) round()
  const before = { ...machine.statistics, ...link.counts, done }
  const rate = rateOf(seconds, burst, round)
  const after = { ...machine.statistics, ...link.counts }
  rig.close()
  const posts = done - before.done
  return {
    engine,
    work,
    burst,
    postsPerSecond: Math.round(rate),
    microsecondsPerPost: 1e6 / rate,
    boardCallsPerPost: (after.runs - before.runs) / posts,
    dmaReadsPerPost: (after.reads - before.reads) / posts,
    dmaWritesPerPost: (after.writes - before.writes) / posts,
    fencesPerPost: (after.fences - before.fences) / posts,
  }
}

const PAIRS: readonly number[] = [1, 4, 16, 64, 256, 1000, 4000, 10_000]
type Pattern = 'uniform' | 'zipf'
export const PATTERNS: readonly Pattern[] = ['uniform', 'zipf']

export interface CurvePoint {
  policy: string
  pattern: Pattern
  pairs: number
  postsPerSecond: number
  /** Of the turns of a send queue, those that found its context in the cache. */
  hitRate: number
  dmaReadsPerPost: number
}

/** Doorbells that are rung together. */
const TOGETHER = 16
const PAIR_UNITS = 16
const CROWD_CQ_ENTRIES = 4096

interface CrowdOptions {
  readonly engine?: Engine
  /** How it rings; 'fifo' by default. */
  readonly form?: Form
  /** Doorbells that are rung together. */
  readonly together?: number
}

/** So many queue pairs on one completion queue; each post is a NOP on one of them. */
class Crowd {
  readonly rig: Rig
  readonly pairs: PairNumbers[]
  readonly cq: number
  readonly form: Form
  readonly together: number
  done = 0
  private readonly nop: Uint8Array = elementOf({ opcode: WQE_NOP, flags: SIGNALED })

  private constructor(rig: Rig, count: number, { form = 'fifo', together }: CrowdOptions) {
    this.rig = rig
    this.form = form
    this.together = together ?? TOGETHER
    this.cq = rig.host.createCq(CROWD_CQ_ENTRIES)
    this.pairs = Array.from({ length: count }, () => {
      return rig.host.createQp(this.cq, { units: PAIR_UNITS })
    })
  }

  static async open(count: number, options: CrowdOptions = {}): Promise<Crowd> {
    const bytes = (1 << 20) + count * (2 * PAIR_UNITS * UNIT_BYTES + 256)
    const whole = Math.ceil(bytes / 4096) * 4096
    const { engine = 'node', form } = options
    const rig = await Rig.open(engine, 8 + 2 * count, whole, undefined, form === 'trusted')
    return new Crowd(rig, count, options)
  }

  /** One post on each of the pairs that `pick` names, as many as ring together; µs. */
  round(pick: () => number): number {
    const { rig, pairs } = this
    const { host } = rig
    for (let i = 0; i < this.together; i++) {
      const { send } = pairs[pick()]!
      host.post(send, this.nop)
      host.ring(send, this.form)
    }
    this.done += this.together
    const us = rig.serveUntil(this.cq, this.done)
    rig.take(this.cq, this.done)
    return us
  }
}

/** Which of `count` pairs is next: each as likely as any, or by Zipf's law, exponent 1. */
function pickerOf(pattern: Pattern, count: number, random: Random): () => number {
  if (pattern === 'uniform') return () => random.below(count)
  const sums = new Float64Array(count)
  let sum = 0
  for (let i = 0; i < count; i++) {
    sum += 1 / (i + 1)
    sums[i] = sum
  }
  // The busy ones are spread over the numbers: a step that is coprime to any count in PAIRS.
  return () => {
    const drawn = (random.below(2 ** 31) / 2 ** 31) * sum
    let low = 0
    for (let high = count - 1; low < high; ) {
      const middle = (low + high) >> 1
      if (sums[middle]! < drawn) low = middle + 1
      else high = middle
    }
    return (low * 7919) % count
  }
}

/** How many are evicted at once by 'n-oldest' and 'random', and how old by 'age'. */
const CACHE_N = 16
const CACHE_AGE_US = 2000

/** Throughput and hit rate by queue pairs, for each policy and pattern; in Node. */
export async function curve(
  counts: readonly number[],
  seconds: number,
  tell: (what: string) => void = () => {},
): Promise<CurvePoint[]> {
  tell(`${counts.at(-1)} queue pairs are made`)
  const crowd = await Crowd.open(counts.at(-1)!)
  const { host } = crowd.rig
  const points: CurvePoint[] = []
  for (const [policy, name] of POLICIES.entries()) {
    host.setCache(policy, CACHE_N, CACHE_AGE_US, CONTEXTS)
    for (const pattern of PATTERNS) {
      for (const pairs of counts) {
        tell(`${name}, ${pattern}, ${pairs} queue pairs`)
        const pick = pickerOf(pattern, pairs, new Random(SEED))
        for (let i = 0; i < (4 * CONTEXTS) / TOGETHER; i++) crowd.round(pick)
        const before = { ...host.counters(), ...host.ram.link.counts, done: crowd.done }
        const rate = rateOf(seconds, TOGETHER, () => crowd.round(pick))
        const after = { ...host.counters(), ...host.ram.link.counts }
        // Each turn looks up the queue, and its completion queue, which is always there.
        const misses = after.misses - before.misses
        const turns = (after.hits - before.hits + misses) / 2
        points.push({
          policy: name,
          pattern,
          pairs,
          postsPerSecond: Math.round(rate),
          hitRate: 1 - misses / turns,
          dmaReadsPerPost: (after.reads - before.reads) / (crowd.done - before.done),
        })
      }
    }
  }
  crowd.rig.close()
  return points
}

interface TrustCost {
  engine: Engine
  /** Queues that ring at once, each for one NOP. */
  doorbells: number
  /** Whether the card uses the pointer that the doorbell carries. */
  trusted: boolean
  readsPerRing: number
  /** Virtual time over PCIe. */
  nanosecondsPerRing: number
  postsPerSecond: number
  /** To that of the same without trust. */
  ratio: number
}

/**
 * Doorbells whose pointer is used, against those after which it is read, turn by turn in one run.
 */
export async function trustCosts(
  engine: Engine,
  doorbells: number,
  seconds: number,
): Promise<TrustCost[]> {
  const forms = ['fifo', 'trusted'] as const
  const sides = await Promise.all(
    forms.map((form) => Crowd.open(doorbells, { engine, form, together: doorbells })),
  )
  const next = turns(doorbells, 1)
  for (const side of sides) for (let i = 0; i < 64; i++) side.round(next)
  const begun = sides.map(({ rig, done }) => {
    rig.host.ram.link.takeBusyNs()
    return { reads: rig.host.ram.link.counts.reads, done }
  })
  const pieces = Math.ceil((seconds * 1e6) / PIECE_US)
  const rates = Array.from({ length: pieces }, () =>
    sides.map((side) => rateOf(0, doorbells, () => side.round(next))),
  )
  const perSecond = sides.map((_, i) => upperQuartile(rates.map((rate) => rate[i]!)))
  return sides.map(({ rig, done }, i) => {
    const { link } = rig.host.ram
    const rings = done - begun[i]!.done
    const cost = {
      ...{ engine, doorbells, trusted: forms[i] === 'trusted' },
      readsPerRing: (link.counts.reads - begun[i]!.reads) / rings,
      nanosecondsPerRing: link.takeBusyNs() / rings,
      postsPerSecond: Math.round(perSecond[i]!),
      ratio: perSecond[i]! / perSecond[0]!,
    }
    rig.close()
    return cost
  })
}

interface CrowdCost {
  pairs: number
  active: number
  postsPerSecond: number
  alonePerSecond: number
  ratio: number
}

/** 100 active queue pairs among 10,000 against 100 alone, turn by turn in one run; in Node. */
export async function crowdCost(
  count: number,
  active: number,
  seconds: number,
): Promise<CrowdCost> {
  const many = await Crowd.open(count)
  const few = await Crowd.open(active)
  const step = Math.floor(count / active)
  const among = turns(active, step)
  const alone = turns(active, 1)
  for (let i = 0; i < 200; i++) {
    many.round(among)
    few.round(alone)
  }
  const rates = Array.from({ length: 2 * Math.ceil((seconds * 1e6) / PIECE_US / 4) }, () => ({
    many: rateOf(0, TOGETHER, () => many.round(among)),
    few: rateOf(0, TOGETHER, () => few.round(alone)),
  }))
  const perSecond = upperQuartile(rates.map((rate) => rate.many))
  const alonePerSecond = upperQuartile(rates.map((rate) => rate.few))
  many.rig.close()
  few.rig.close()
  return {
    pairs: count,
    active,
    postsPerSecond: Math.round(perSecond),
    alonePerSecond: Math.round(alonePerSecond),
    ratio: perSecond / alonePerSecond,
  }
}

/** One of `active` after the other, `step` apart. */
function turns(active: number, step: number): () => number {
  let turn = 0
  return () => {
    turn = (turn + 1) % active
    return turn * step
  }
}

const COLORS = ['#1b6ca8', '#d1495b', '#3a7d44', '#8f5fbf', '#c77d0a']

/** Throughput on the left, hit rate on the right. */
export function svgOf(points: readonly CurvePoint[]): string {
  const xTicks = [...new Set(points.map(({ pairs }) => pairs))]
  const linesOf = (value: (point: CurvePoint) => number): Line[] =>
    PATTERNS.flatMap((pattern) =>
      POLICIES.map((policy, i) => ({
        name: `${policy}, ${pattern}`,
        color: COLORS[i]!,
        dashed: pattern === 'zipf',
        points: points
          .filter((point) => point.policy === policy && point.pattern === pattern)
          .map((point) => [point.pairs, value(point)] as const),
      })),
    )
  const most = Math.max(...points.map(({ postsPerSecond }) => postsPerSecond))
  const yTicks = ticksTo(most / 1000)
  const axes = { xLabel: 'queue pairs in use', xTicks }
  return plotOf(
    [
      {
        ...axes,
        title: `Throughput, ${CONTEXTS} contexts cached`,
        yLabel: 'posts per second, thousands (Node)',
        yMax: yTicks.at(-1)!,
        yTicks,
        lines: linesOf(({ postsPerSecond }) => postsPerSecond / 1000),
      },
      {
        ...axes,
        title: 'Hit rate of the context cache',
        yLabel: 'hits per look-up, %',
        yMax: 100,
        yTicks: [0, 20, 40, 60, 80, 100],
        lines: linesOf(({ hitRate }) => 100 * hitRate),
      },
    ],
    POLICIES.length,
  )
}

function tablesOf(result: QueueBench): string[] {
  const { doorbells, trust, posts, points, crowd } = result
  const number = (value: number): string => value.toLocaleString('en-US')
  return [
    text([
      ['pointer found by', 'doorbells', 'reads/doorbell', 'waits', 'ns over PCIe', '× ns'],
      ...doorbells.map((cost) => [
        cost.scheme,
        String(cost.doorbells),
        cost.readsPerDoorbell.toFixed(2),
        String(cost.waits),
        cost.nanoseconds.toFixed(0),
        (cost.nanoseconds / ours(doorbells, cost).nanoseconds).toFixed(2),
      ]),
    ]),
    text([
      ['engine', 'doorbells', 'pointer', 'reads/ring', 'ns over PCIe', 'posts/s', '× posts/s'],
      ...trust.map((cost) => [
        cost.engine,
        String(cost.doorbells),
        cost.trusted ? 'trusted' : 'read',
        cost.readsPerRing.toFixed(2),
        cost.nanosecondsPerRing.toFixed(0),
        number(cost.postsPerSecond),
        cost.ratio.toFixed(2),
      ]),
    ]),
    text([
      ['engine', 'post', 'burst', 'posts/s', 'µs/post', 'calls', 'reads', 'writes', 'fences'],
      ...posts.map((cost) => [
        cost.engine,
        cost.work,
        String(cost.burst),
        number(cost.postsPerSecond),
        cost.microsecondsPerPost.toFixed(2),
        cost.boardCallsPerPost.toFixed(3),
        cost.dmaReadsPerPost.toFixed(3),
        cost.dmaWritesPerPost.toFixed(3),
        cost.fencesPerPost.toFixed(3),
      ]),
    ]),
    text([
      ['policy', 'pattern', 'pairs', 'posts/s', 'hit rate', 'reads/post'],
      ...points.map((point) => [
        point.policy,
        point.pattern,
        number(point.pairs),
        number(point.postsPerSecond),
        `${(100 * point.hitRate).toFixed(1)} %`,
        point.dmaReadsPerPost.toFixed(2),
      ]),
    ]),
    `${number(crowd.active)} of ${number(crowd.pairs)} queue pairs active: ` +
      `${number(crowd.postsPerSecond)} posts/s; ${number(crowd.active)} alone: ` +
      `${number(crowd.alonePerSecond)}; ratio ${crowd.ratio.toFixed(3)}`,
  ]
}

function ours(all: readonly DoorbellCost[], cost: DoorbellCost): DoorbellCost {
  return all.find((one) => one.scheme === 'zone 3' && one.doorbells === cost.doorbells)!
}

interface QueueBench {
  readonly doorbells: readonly DoorbellCost[]
  readonly trust: readonly TrustCost[]
  readonly posts: readonly PostCost[]
  readonly points: readonly CurvePoint[]
  readonly crowd: CrowdCost
}

/** The subcommand. */
export async function benchQueues(args: readonly string[]): Promise<void> {
  const wishes = takeWishes(args, { seconds: { standard: 0.5 } }, ['svg'])
  if (wishes === null) {
    process.exitCode = 64
    return
  }
  const { seconds, svg, json } = wishes
  const tell = (what: string): void => {
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${what} …`)
  }
  tell('doorbells')
  const doorbells = await doorbellCosts()
  const trust: TrustCost[] = []
  for (const engine of ['node', 'quickjs'] as const) {
    for (const together of [1, TOGETHER]) {
      tell(`${engine}, ${together} doorbells, trusted or not`)
      trust.push(...(await trustCosts(engine, together, seconds)))
    }
  }
  const posts: PostCost[] = []
  for (const engine of ['node', 'quickjs'] as const) {
    for (const work of WORKS) {
      for (const burst of [1, 32]) {
        tell(`${engine}, ${work}, burst ${burst}`)
        posts.push(await postCost(engine, work, burst, seconds))
      }
    }
  }
  const points = await curve(PAIRS, seconds / 4, tell)
  tell('100 among 10,000')
  const crowd = await crowdCost(PAIRS.at(-1)!, 100, 4 * seconds)
  tell('')
  const result: QueueBench = { doorbells, trust, posts, points, crowd }
  if (svg !== undefined) writeFileSync(svg, svgOf(points))
  const out = json ? JSON.stringify(result, null, 2) : tablesOf(result).join('\n\n')
  process.stdout.write(`${out}\n`)
}
