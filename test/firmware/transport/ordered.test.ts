/**
 * Every kind of request beside every other: in one burst or in several, repeated in every position,
 * with every command failing in turn (X-3, G2-2, G2-5; wire-format 3.4 to 3.6).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { COMMAND_WORDS, COPY_CLEAN, FENCE, OWNER } from '../../../firmware/board/hal.ts'
import { has, PERSIST_ACK, RC_ACKNOWLEDGE, RESPONSE } from '../../../firmware/wire/opcode.ts'
import {
  BYTES_AT,
  type BytesCard,
  bytesCard,
  contentsOf,
  KEPT_AT,
  watch,
} from '../../support/cards/bytes-card.ts'
import {
  dataOf,
  persistFrames,
  readFrame,
  type Sent,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { thoroughIf } from '../../support/run/thorough.ts'
import { hexOf } from '../../support/wire/frames.ts'
import {
  ACK,
  atomicWriteFrame,
  compareSwapFrame,
  fetchAddFrame,
  firstDifference,
  flushFrame,
  line,
  lines,
  NAK_OPERATIONAL,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 31)

/** A request: its frames at the PSN of the queue pair. `n` makes its data and places differ. */
interface Operation {
  readonly name: string
  /** Does it have a response of its own? */
  readonly answered: boolean
  readonly frames: (one: BytesCard, qp: TestPeer, n: number) => Uint8Array[]
}

const at = (n: number): number => 64 + 8 * n

const OPERATIONS: readonly Operation[] = [
  {
    name: 'WRITE',
    answered: false,
    frames: ({ bytes }, qp, n) => writeFrames(qp, bytes, at(n), dataOf(40, n)),
  },
  {
    name: 'WRITE of three packets',
    answered: false,
    frames: ({ bytes }, qp, n) => writeFrames(qp, bytes, 4096 + at(n), dataOf(700, n)),
  },
  {
    name: 'WRITE of nothing',
    answered: false,
    frames: (_, qp) => writeFrames(qp, 0, 0, new Uint8Array(0)),
  },
  {
    name: 'WRITE with immediate',
    answered: false,
    frames: ({ bytes }, qp, n) => writeFrames(qp, bytes, at(n), dataOf(40, n), { immediate: n }),
  },
  {
    name: 'WRITE into a write-persist region',
    answered: false,
    frames: ({ kept }, qp, n) => writeFrames(qp, kept, at(n), dataOf(40, n)),
  },
  {
    name: 'WRITE of a record',
    answered: false,
    frames: ({ records }, qp, n) => writeFrames(qp, records, 0, dataOf(40, n), { vaHigh: n % 8 }),
  },
  {
    name: 'WRITE_PERSIST',
    answered: false,
    frames: ({ records }, qp, n) => persistFrames(qp, records, n % 8, dataOf(40, n)),
  },
  {
    name: 'SEND',
    answered: false,
    frames: (_, qp, n) => sendFrames(qp, dataOf(30, n)),
  },
  {
    name: 'SEND that wants to be told',
    answered: false,
    frames: (_, qp, n) => sendFrames(qp, dataOf(300, n), { solicited: true }),
  },
  {
    name: 'READ',
    answered: true,
    frames: ({ bytes }, qp, n) => [readFrame(qp, bytes, 0, at(n), 600)],
  },
  {
    name: 'READ of nothing',
    answered: true,
    frames: (_, qp) => [readFrame(qp, 0, 0, 0, 0)],
  },
  {
    name: 'READ of a record',
    answered: true,
    frames: ({ records }, qp, n) => [readFrame(qp, records, n % 8, 0, 300)],
  },
  {
    name: 'FETCH-ADD',
    answered: true,
    frames: ({ bytes }, qp, n) => [fetchAddFrame(qp, bytes, at(n), 3n)],
  },
  {
    name: 'COMPARE-SWAP',
    answered: true,
    frames: ({ bytes }, qp, n) => [compareSwapFrame(qp, bytes, at(n), 0n, 77n)],
  },
  {
    name: 'FETCH-ADD in a write-persist region',
    answered: true,
    frames: ({ kept }, qp, n) => [fetchAddFrame(qp, kept, at(n), 3n)],
  },
  {
    name: 'ATOMIC WRITE',
    answered: true,
    frames: ({ bytes }, qp, n) => [atomicWriteFrame(qp, bytes, at(n), dataOf(8, n))],
  },
  {
    name: 'ATOMIC WRITE in a write-persist region',
    answered: true,
    frames: ({ kept }, qp, n) => [atomicWriteFrame(qp, kept, at(n), dataOf(8, n))],
  },
  {
    name: 'FLUSH',
    answered: true,
    frames: ({ bytes }, qp) => [flushFrame(qp, bytes)],
  },
  {
    name: 'FLUSH of visibility',
    answered: true,
    frames: ({ bytes }, qp) => [flushFrame(qp, bytes, { placement: 1 })],
  },
]

/** Is it an answer, and not a request of the card's own, as a confirmation is? */
function isResponse({ packet }: Sent): boolean {
  return has(packet.row!.properties, RESPONSE)
}

/** The responses that carry something: what an acknowledgement says is in `acknowledged`. */
function responses(sent: readonly Sent[], base: number): string[] {
  return sent
    .filter(isResponse)
    .filter(({ opcode }) => opcode !== RC_ACKNOWLEDGE && opcode !== PERSIST_ACK)
    .map((one) => `${line(one, base)} ${hexOf(one.payload)} msn ${one.msn}`)
}

/** The highest PSN that was acknowledged, from `base`. */
function acknowledged(sent: readonly Sent[], base: number): number {
  return Math.max(-1, ...sent.filter(isResponse).map(({ psn }) => ((psn - base) << 8) >> 8))
}

/** Operations that were acknowledged as durable. */
function persisted(sent: readonly Sent[]): number {
  return sent.reduce((sum, { paeth }) => sum + (paeth?.status === 0 ? paeth.records : 0), 0)
}

function summary(sent: readonly Sent[], base: number): unknown {
  return {
    responses: responses(sent, base),
    acknowledged: acknowledged(sent, base),
    persisted: persisted(sent),
  }
}

/** Serves the operations, each in a burst of its own or all in one; twice from equal cards. */
function inOneAndInMany(operations: readonly Operation[]): void {
  const many = bytesCard(256)
  const base = many.qp.psn
  const sent: Sent[] = []
  operations.forEach((operation, i) => {
    sent.push(...many.card.serve(...operation.frames(many, many.qp, i)))
  })
  const one = bytesCard(256)
  const frames = operations.flatMap((operation, i) => operation.frames(one, one.qp, i))
  const together = one.card.serve(...frames)
  expect(summary(together, base)).toEqual(summary(sent, base))
  expect(firstDifference(contentsOf(one), contentsOf(many))).toBe(-1)
}

describe('in one burst and in several', () => {
  for (const first of OPERATIONS) {
    test(
      `${first.name} before every other: the same answers, the same memory`,
      thoroughIf(first !== OPERATIONS[0]),
      () => {
        for (const second of OPERATIONS) inOneAndInMany([first, second])
      },
    )
  }

  test(`chains of up to nine, SEED=${SEED}`, () => {
    const random = new Random(SEED)
    for (let i = 0; i < 60; i++) {
      const length = 3 + random.below(7)
      inOneAndInMany(Array.from({ length }, () => OPERATIONS[random.below(OPERATIONS.length)]!))
    }
  })
})

describe('answers in the order of the requests', () => {
  test(`no answer says more than what is done, SEED=${SEED}`, () => {
    const random = new Random(SEED)
    for (let i = 0; i < 60; i++) {
      const one = bytesCard(256)
      const { qp } = one
      const base = qp.psn
      const chosen = Array.from(
        { length: 2 + random.below(8) },
        () => OPERATIONS[random.below(OPERATIONS.length)]!,
      )
      const ends: { psn: number; answered: boolean }[] = []
      const frames = chosen.flatMap((operation, n) => {
        const own = operation.frames(one, qp, n)
        ends.push({ psn: qp.psn - base - 1, answered: operation.answered })
        return own
      })
      // Every request with an answer of its own is answered before anything behind it.
      const waiting = ends.filter(({ answered }) => answered).map(({ psn }) => psn)
      watch(one, frames, (sent) => {
        if (!isResponse(sent)) return
        const psn = sent.psn - base
        while (waiting.length > 0 && waiting[0]! < psn) {
          expect.fail(`${line(sent, base)} before the answer of ${waiting[0]}`)
        }
        if (psn === waiting[0] && ![RC_ACKNOWLEDGE, PERSIST_ACK].includes(sent.opcode)) {
          waiting.shift()
        }
      })
      expect(waiting).toEqual([])
    }
  })
})

describe('duplicates (X-3, G2-2)', () => {
  /** What stands before, between and behind the operation that is repeated. */
  const BEHIND: readonly string[] = ['', 'WRITE', 'READ', 'FETCH-ADD', 'FLUSH', 'ATOMIC WRITE']

  for (const operation of OPERATIONS) {
    test(
      `${operation.name}, repeated behind every other: answered, and not done again`,
      thoroughIf(operation.name !== 'FLUSH'),
      () => {
        for (const name of BEHIND) {
          for (const bursts of [1, 2, 3]) {
            const one = bytesCard(256)
            const { card, qp } = one
            const base = qp.psn
            const frames = operation.frames(one, qp, 0)
            const last = qp.psn - base - 1
            const other = OPERATIONS.find((found) => found.name === name)
            const behind = other?.frames(one, qp, 400) ?? []
            const answers: Sent[] = []
            if (bursts === 1) answers.push(...card.serve(...frames, ...behind, ...frames))
            else {
              answers.push(...card.serve(...frames, ...behind))
              if (bursts === 3) card.idle()
              answers.splice(0, answers.length, ...card.serve(...frames))
            }
            const what = `${operation.name} / ${name} / ${bursts}`
            const again = responses(answers, base)
            const twin = bytesCard(256)
            const first = responses(twin.card.serve(...operation.frames(twin, twin.qp, 0)), base)
            if (operation.answered) {
              const bare = (texts: string[]): string[] =>
                texts.map((text) => text.split(' msn')[0]!)
              const own = bare(again).filter((text) => bare(first).includes(text))
              // In one burst the first answer and the repeated one are there, or only the first.
              expect(own.length, what).toBeGreaterThanOrEqual(first.length)
            } else if (bursts > 1) {
              const acks = answers.filter(({ opcode }) => opcode === RC_ACKNOWLEDGE)
              expect(acks.length, what).toBeGreaterThanOrEqual(1)
              // Never past a request behind it whose own answer may have been lost.
              const limit = other?.answered === true ? last : qp.psn - base - 1
              for (const ack of acks) expect(ack.psn - base, what).toBe(limit)
            }
            other?.frames(twin, twin.qp, 400).forEach((frame) => {
              twin.card.serve(frame)
            })
            expect(firstDifference(contentsOf(one), contentsOf(twin)), what).toBe(-1)
          }
        }
      },
    )
  }

  test('a whole chain repeated from every position in one burst is answered again in order', () => {
    const names = [
      'WRITE',
      'READ',
      'FLUSH',
      'FETCH-ADD',
      'ATOMIC WRITE',
      'READ of nothing',
      'WRITE',
    ]
    const chain = names.map((name) => OPERATIONS.find((found) => found.name === name)!)
    for (let from = 0; from < chain.length; from++) {
      const one = bytesCard(256)
      const { card, qp } = one
      const base = qp.psn
      const frames = chain.map((operation, i) => operation.frames(one, qp, 100 * i))
      const first = card.serve(...frames.flat())
      const content = contentsOf(one)
      const again = card.serve(...frames.slice(from).flat())
      const bare = (sent: Sent[]): string[] =>
        responses(sent, base).map((text) => text.split(' msn')[0]!)
      // What the READ found has not changed: nothing was stored there.
      const skipped = bare(first).length - bare(again).length
      expect(bare(again)).toEqual(bare(first).slice(skipped))
      expect(acknowledged(again, base)).toBe(qp.psn - base - 1)
      const order = again.map(({ psn }) => psn)
      expect(order).toEqual([...order].sort((a, b) => a - b))
      expect(firstDifference(contentsOf(one), content)).toBe(-1)
    }
  })

  test('FLUSH and ATOMIC WRITE are answered by PSN alone: Linux repeats them with VA 0', () => {
    const one = bytesCard(1024)
    const { card, qp, bytes } = one
    const psn = qp.psn
    card.serve(
      ...[flushFrame(qp, bytes), atomicWriteFrame(qp, bytes, 8, dataOf(8, 1))],
      flushFrame(qp, bytes),
    )
    const content = contentsOf(one)
    const again = [
      flushFrame(qp, 0, { psn, length: 0 }),
      atomicWriteFrame(qp, 0, 3, dataOf(8, 2), { psn: psn + 1, length: 0 }),
    ]
    expect(lines(card.serve(...again), psn)).toEqual(['READ 0 only: 0 B', 'READ 1 only: 0 B'])
    expect(firstDifference(contentsOf(one), content)).toBe(-1)
    // Under another kind of request the PSN earns nothing.
    expect(card.serve(flushFrame(qp, bytes, { psn: psn + 1 }))).toEqual([])
    expect(card.serve(atomicWriteFrame(qp, bytes, 8, dataOf(8, 2), { psn }))).toEqual([])
    expect(card.counter('DUPLICATE_FORGOTTEN')).toBe(2)
  })

  test('128 FLUSH requests in flight, as Linux has them, are all answered again', () => {
    const one = bytesCard(1024)
    const { card, qp, bytes } = one
    const base = qp.psn
    const frames = Array.from({ length: 128 }, () => flushFrame(qp, bytes))
    expect(card.serve(...frames)).toHaveLength(128)
    expect(card.serve(...frames).map(({ psn }) => psn - base)).toEqual(frames.map((_, i) => i))
  })

  test('the original of an atomic is kept until sixteen others came', () => {
    for (const behind of [0, 1, 15, 16, 17, 40]) {
      const one = bytesCard(1024)
      const { card, qp, bytes } = one
      const base = qp.psn
      const first = fetchAddFrame(qp, bytes, 8, 5n)
      card.serve(first)
      card.serve(...Array.from({ length: behind }, () => fetchAddFrame(qp, bytes, 8, 1n)))
      const expected = behind < 16 ? ['ATOMIC 0: 0'] : []
      expect(lines(card.serve(first), base), `${behind} behind`).toEqual(expected)
      expect(one.card.nvdimm.live[BYTES_AT + 8]).toBe(5 + behind)
    }
  })

  test('thirty-two atomics in a burst, twice as many as may be, are answered rightly', () => {
    for (const region of ['bytes', 'kept'] as const) {
      const one = bytesCard(1024)
      const { card, qp } = one
      const base = qp.psn
      const frames = Array.from({ length: 32 }, () => fetchAddFrame(qp, one[region], 8, 1n))
      expect(lines(card.serve(...frames), base)).toEqual(frames.map((_, i) => `ATOMIC ${i}: ${i}`))
    }
  })

  test('a READ is repeated in part only from one of its packets on, and never beyond', () => {
    const one = bytesCard(256)
    const { card, qp, bytes } = one
    const psn = qp.psn
    card.serve(readFrame(qp, bytes, 0, 512, 1000))
    const answers = (by: number, va: number, length: number, place = bytes): number =>
      card.serve(readFrame({ ...qp, psn: psn + by }, place, 0, va, length)).length
    expect(answers(0, 512, 1000)).toBe(4)
    expect(answers(1, 768, 744)).toBe(3)
    expect(answers(3, 1280, 232)).toBe(1)
    expect(answers(1, 768, 256)).toBe(1)
    expect(answers(0, 512, 1000)).toBe(4)
    // Not from a place between, not beyond, not by another key, not of nothing.
    expect(answers(1, 767, 744)).toBe(0)
    expect(answers(0, 768, 744)).toBe(0)
    expect(answers(1, 768, 745)).toBe(0)
    expect(answers(0, 512, 1001)).toBe(0)
    expect(answers(0, 512, 1000, one.kept)).toBe(0)
    expect(answers(0, 512, 0)).toBe(0)
    expect(answers(-1, 256, 256)).toBe(0)
  })
})

describe('a command that fails', () => {
  const CLIENTS = 4

  /** Four clients with the same chain: the frames of one burst, in turns. */
  function chains(one: BytesCard): {
    pairs: TestPeer[]
    bases: number[]
    frames: Uint8Array[]
  } {
    const pairs = Array.from({ length: CLIENTS }, () => one.card.connect(256))
    const bases = pairs.map(({ psn }) => psn)
    const names = ['WRITE', 'WRITE into a write-persist region', 'READ', 'FETCH-ADD', 'FLUSH']
    const frames = names.flatMap((name) =>
      pairs.flatMap((qp, i) =>
        OPERATIONS.find((found) => found.name === name)!.frames(one, qp, 40 * i),
      ),
    )
    return { pairs, bases, frames }
  }

  function saidTo(sent: readonly Sent[], pairs: readonly TestPeer[], bases: number[]): string[][] {
    return pairs.map((qp, i) =>
      lines(
        sent.filter(({ packet }) => packet.destQp === qp.peer),
        bases[i]!,
      ),
    )
  }

  test('G2-5: refuses the queue pair that it belongs to, and no other', () => {
    const calm = bytesCard(256)
    const undisturbed = chains(calm)
    const commands: { owner: number; op: number }[] = []
    calm.card.machine.observe({
      onCommand: (_, op, words, word) => {
        commands.push({ op, owner: words[word + OWNER]! })
      },
    })
    const expected = saidTo(
      calm.card.serve(...undisturbed.frames),
      undisturbed.pairs,
      undisturbed.bases,
    )
    expect(COMMAND_WORDS).toBe(8)
    let refused = 0
    for (let failing = 0; failing < commands.length; failing++) {
      const { owner, op } = commands[failing]!
      if (owner < 2 ** 24) continue
      const one = bytesCard(256)
      const { pairs, bases, frames } = chains(one)
      const zero = one.card.machine.commandCount
      one.card.machine.observe({
        replace: (number, was) => (number - zero === failing ? 99 : was),
      })
      const said = saidTo(one.card.serve(...frames), pairs, bases)
      one.card.machine.observe({})
      const victim = pairs.findIndex(
        ({ number }) => (number & 255) === Math.floor(owner / 2 ** 24) - 1,
      )
      const psn = (((owner % 2 ** 24) - bases[victim]!) << 8) >> 8
      const what = `command ${failing} (${op}) of client ${victim}, PSN ${psn}`
      said.forEach((answers, i) => {
        if (i !== victim) expect(answers, what).toEqual(expected[i])
      })
      const own = said[victim]!
      expect(own.at(-1), what).toMatch(new RegExp(`NAK 0x${NAK_OPERATIONAL.toString(16)} `))
      expect(
        own.filter((text) => text.startsWith('NAK')),
        what,
      ).toHaveLength(1)
      for (const text of own.slice(0, -1)) {
        expect(Number(text.split(/[ :]/)[1]), what).toBeLessThanOrEqual(psn)
      }
      expect(Number(own.at(-1)!.split(' ')[2]), what).toBeLessThanOrEqual(psn)
      refused += 1
    }
    expect(refused).toBeGreaterThan(50)
  })

  test('a store that the medium refuses is never acknowledged, durably or not', () => {
    for (const name of [
      'WRITE',
      'WRITE into a write-persist region',
      'FETCH-ADD',
      'ATOMIC WRITE',
    ]) {
      for (const place of [0, 1, 2]) {
        const one = bytesCard(256)
        const { card, qp } = one
        const base = qp.psn
        const operation = OPERATIONS.find((found) => found.name === name)!
        const kept = name.includes('write-persist')
        const frames = [0, 1, 2].flatMap((n) => operation.frames(one, qp, 40 * n))
        const line0 = ((kept ? KEPT_AT : BYTES_AT) + at(40 * place)) >> 6
        card.nvdimm.refuseWrites(line0)
        const sent = card.serve(...frames)
        const said = lines(sent, base)
        expect(said.at(-1), name).toBe(`NAK 0x63 ${place}`)
        const before = sent.slice(0, -1)
        expect(acknowledged(before, base)).toBeLessThan(place)
        expect(card.serve(flushFrame(qp, one.bytes))).toEqual([])
        card.nvdimm.refuseWrites(line0, false)
      }
    }
  })
})

describe('what is promised is durable in that moment', () => {
  test(`P2-9, P2-15, X-1: by READ, FLUSH or a withheld ACK, SEED=${SEED}`, () => {
    const random = new Random(SEED)
    const stores = ['WRITE', 'WRITE of three packets', 'WRITE into a write-persist region']
    const atomics = ['FETCH-ADD', 'ATOMIC WRITE', 'FETCH-ADD in a write-persist region']
    const answers = ['READ', 'READ of nothing', 'FLUSH', 'SEND', 'WRITE of nothing']
    const names = [...stores, ...atomics, ...answers]
    let looks = 0
    for (let i = 0; i < 100; i++) {
      const one = bytesCard(256)
      const { qp } = one
      const base = qp.psn
      const chosen = Array.from(
        { length: 2 + random.below(10) },
        () => names[random.below(names.length)]!,
      )
      const kinds: string[] = []
      const frames = chosen.flatMap((name, n) => {
        const operation = OPERATIONS.find((found) => found.name === name)!
        const psn = qp.psn
        const own = operation.frames(one, qp, 12 * n)
        for (let p = psn; p < qp.psn; p++) kinds[p - base] = name
        return own
      })
      // Stored by now, by PSN: what each command stored, where, on whose behalf.
      const unsafe = new Map<number, number>()
      one.card.machine.observe({})
      const seen = (sent: Sent): void => {
        if (!isResponse(sent)) return
        const psn = sent.psn - base
        if (sent.opcode === RC_ACKNOWLEDGE && sent.syndrome !== ACK) return
        for (const [store, region] of unsafe) {
          const covered = store <= psn
          const promised =
            region === 1
              ? covered
              : covered && ['READ', 'READ of nothing', 'FLUSH'].includes(kinds[psn]!)
          if (promised && sent.opcode !== RC_ACKNOWLEDGE) {
            expect(store, `${chosen.join(', ')}: ${line(sent, base)}`).toBe(-1)
          }
          if (region === 1 && covered) {
            expect(store, `${chosen.join(', ')}: ${line(sent, base)}`).toBe(-1)
          }
        }
        looks += 1
      }
      let told = 0
      one.card.machine.observe({
        onCommand: (_, op, words, word) => {
          for (; told < one.card.sent.length; told++) seen(one.card.sent[told]!)
          const owner = words[word + OWNER]!
          if (op === FENCE) unsafe.clear()
          if ((op === COPY_CLEAN || op === 9 || op === 10) && owner >= 2 ** 24) {
            const to = words[word + 2]! - 2 ** 48
            unsafe.set((owner % 2 ** 24) - base, to >= KEPT_AT ? 1 : 0)
          }
        },
      })
      one.card.serve(...frames)
      for (; told < one.card.sent.length; told++) seen(one.card.sent[told]!)
    }
    expect(looks).toBeGreaterThan(300)
  })
})
