/**
 * The requester's operations when packets are lost, doubled or late: every schedule of a small
 * window, and long runs over a bad network.
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  isOrdered,
  PERSIST_QUERY,
  post,
  READ,
  type RequestKind,
  WRITE,
} from '../../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../../firmware/transport/sender.ts'
import { type Peer, peer } from '../../support/peers/requester-peer.ts'
import { SmallResponder } from '../../support/peers/small-responder.ts'
import { ends, KINDS } from '../../support/wire/request-kinds.ts'

/** What the network does to one packet, either way. */
const FATES = ['pass', 'drop', 'double', 'late'] as const
type Fate = (typeof FATES)[number]

interface Run {
  readonly p: Peer
  readonly responder: SmallResponder
}

/**
 * Runs requests over a network that does to its first packets, in both directions, what the fates
 * say, and lets the later ones pass. A late packet comes after the next of its direction.
 */
function runSchedule(
  kinds: readonly RequestKind[],
  fateOf: (packet: number) => Fate,
  options: { firstPsn?: number; linuxPeer?: boolean; lengths?: readonly number[] } = {},
): Run {
  const { firstPsn = 0xfffffe, linuxPeer = false, lengths = [300] } = options
  const tries = { retryCount: 1000, persistRetryCount: 1000 }
  const times = { ackTimeoutCode: 8, persistTimeoutUs: 5000, ...tries }
  const p = peer({ firstPsn, linuxPeer, window: 16, readDepth: 4, ...times })
  const responder = new SmallResponder(p, firstPsn, linuxPeer)
  for (const [i, kind] of kinds.entries()) {
    const counts = !isOrdered(kind) || kind === READ
    post(p.q, kind, i + 1, counts ? lengths[i % lengths.length]! : 0, 0, i + 1)
  }
  let packets = 0
  let nowUs = 0
  let at = 0
  const pass = <T>(queue: T[], deliver: (one: T) => void): void => {
    const late: T[] = []
    for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
      const fate = fateOf(packets++)
      if (fate === 'late') {
        late.push(one)
        continue
      }
      if (fate !== 'drop') deliver(one)
      if (fate === 'double') deliver(one)
      for (const old of late.splice(0)) deliver(old)
    }
    for (const old of late) deliver(old)
  }
  pump(p.q, nowUs)
  for (let step = 0; step < 5000 && !p.q.failed && p.q.head !== p.q.tail; step++) {
    const sent = p.sent.slice(at)
    at = p.sent.length
    pass(sent, (one) => responder.take(one))
    const answers = responder.answers.splice(0)
    pass(answers, (one) => one(nowUs))
    if (p.sent.length > at) continue
    nowUs = Math.max(nowUs, Math.min(nextTimerUs(p.q), nowUs + 10_000))
    tick(p.q, nowUs)
  }
  return { p, responder }
}

/** Every request was executed once, in order, and completed once; no answer went astray. */
function verdictOf({ p, responder }: Run, count: number): string {
  const all = Array.from({ length: count }, (_, i) => i + 1)
  if (responder.executed.join() !== all.join()) return `executed ${responder.executed.join()}`
  const done = ends(p).sort()
  const expected = all.map((tag) => {
    const { kind } = p.results.get(tag) ?? { kind: 0 }
    return kind === PERSIST_QUERY && tag % 2 === 1 ? `SUCCESS ${tag} 0x2` : `SUCCESS ${tag}`
  })
  if (done.join() !== expected.sort().join()) return `ended ${p.story.join('; ')}`
  const { head, tail, readsOut } = p.q
  if (head !== tail || nextTimerUs(p.q) !== Infinity) return `${tail - head} places are not free`
  if (readsOut !== 0) return `${readsOut} still count as out`
  let found = -1
  for (const tag of all) {
    const { kind, resultLow } = p.results.get(tag)!
    if (kind !== FETCH_ADD && kind !== COMPARE_SWAP) continue
    if (resultLow !== ++found) return `atomic ${tag} found ${resultLow}`
  }
  return 'right'
}

describe('every schedule of drop, double and late over the first four packets', () => {
  test.each(KINDS)(
    'X-3: executes and completes once: %s with every other kind behind it',
    (_, first) => {
      for (const [, second] of KINDS) {
        for (let code = 0; code < 4 ** 4; code++) {
          const fateOf = (packet: number): Fate =>
            packet < 4 ? FATES[(code >> (2 * packet)) & 3]! : 'pass'
          const run = runSchedule([first, second], fateOf)
          const verdict = verdictOf(run, 2)
          if (verdict !== 'right') expect.fail(`then ${second}, schedule ${code}: ${verdict}`)
        }
      }
    },
  )

  test('X-3: a FLUSH towards Linux, which never answers a repetition', () => {
    for (const kinds of [[FLUSH], [WRITE, FLUSH], [FLUSH, WRITE], [FLUSH, FLUSH], [FLUSH, READ]]) {
      for (let code = 0; code < 4 ** 5; code++) {
        const fateOf = (packet: number): Fate =>
          packet < 5 ? FATES[(code >> (2 * packet)) & 3]! : 'pass'
        const run = runSchedule(kinds as RequestKind[], fateOf, { linuxPeer: true })
        const verdict = verdictOf(run, kinds.length)
        if (verdict !== 'right') expect.fail(`${kinds}, schedule ${code}: ${verdict}`)
      }
    }
  })
})

describe('long runs over a bad network', () => {
  const seed = Number(process.env.SEED ?? 20_261_121)

  test(`X-3: every request is executed and completed once (SEED=${seed})`, () => {
    const kind = fc.constantFrom(...KINDS.map(([, one]) => one))
    const scenario = fc.record({
      kinds: fc.array(kind, { minLength: 1, maxLength: 40 }),
      fates: fc.array(fc.integer({ min: 0, max: 15 }), { minLength: 1, maxLength: 400 }),
      lengths: fc.array(fc.constantFrom(0, 1, 255, 256, 257, 1000, 3000), {
        minLength: 1,
        maxLength: 8,
      }),
      linuxPeer: fc.boolean(),
    })
    fc.assert(
      fc.property(scenario, ({ kinds, fates, lengths, linuxPeer }) => {
        const fateOf = (packet: number): Fate => FATES[fates[packet] ?? 0] ?? 'pass'
        // A READ of nothing looks like an escape READ to the small responder.
        const sizes = lengths.map((length) => Math.max(length, 1))
        const run = runSchedule(kinds, fateOf, {
          lengths: sizes,
          linuxPeer,
        })
        expect(verdictOf(run, kinds.length)).toBe('right')
      }),
      { seed, numRuns: 300 },
    )
  })
})
