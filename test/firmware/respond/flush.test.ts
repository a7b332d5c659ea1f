/**
 * FLUSH, and what waits for durability without it: READ behind a WRITE, withheld acknowledgements
 * (D-9, P1-28, P2-9; IBTA A19; wire-format 6, 9).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { CUT_STRATEGIES, cut, pending } from '../../../boards/emulator/medium/power-cut.ts'
import {
  BYTES_AT,
  BYTES_LENGTH,
  type BytesCard,
  bytesCard,
  watch,
} from '../../support/cards/bytes-card.ts'
import { countFences, failFence } from '../../support/cards/fences.ts'
import { dataOf, persistFrames, readFrame, type Sent } from '../../support/cards/test-card.ts'
import { hexOf } from '../../support/wire/frames.ts'
import {
  atomicWriteFrame,
  fetchAddFrame,
  flushFrame,
  lines,
  NAK_ACCESS,
  NAK_INVALID,
  NAK_OPERATIONAL,
  writeFrames,
} from '../../support/wire/requests.ts'

const DATA = dataOf(200, 1)

function durable(one: BytesCard, at: number, length: number): string {
  return hexOf(one.card.nvdimm.durable.slice(at, at + length))
}

function fencesIn(one: BytesCard, serve: () => void): number {
  const fences = countFences(one.card.machine)
  serve()
  one.card.machine.observe({})
  return fences.passed
}

describe('FLUSH', () => {
  const FORMS = [
    { name: 'persistence of a range', placement: 2, selectivity: 0, kept: true },
    { name: 'visibility of a range', placement: 1, selectivity: 0, kept: false },
    { name: 'both of a range', placement: 3, selectivity: 0, kept: true },
    { name: 'persistence of the region', placement: 2, selectivity: 1, kept: true },
    { name: 'visibility of the region', placement: 1, selectivity: 1, kept: false },
    { name: 'both of the region', placement: 3, selectivity: 1, kept: true },
    { name: 'nothing, which Linux answers, too', placement: 0, selectivity: 0, kept: false },
  ]

  test.each(FORMS)('asks for $name, in the burst of the WRITE and in a later one', (form) => {
    for (const bursts of [1, 2]) {
      const one = bytesCard()
      const { qp, bytes } = one
      const base = qp.psn
      const write = writeFrames(qp, bytes, 64, DATA)
      const flush = flushFrame(qp, bytes, { ...form, length: 264 })
      const said: string[] = []
      const look = (sent: Sent): void => {
        said.push(...lines([sent], base))
        if (sent.psn !== base + 1) return
        expect(hexOf(one.card.nvdimm.live.slice(BYTES_AT + 64, BYTES_AT + 264))).toBe(hexOf(DATA))
        const zeros = '00'.repeat(DATA.length)
        expect(durable(one, BYTES_AT + 64, 200)).toBe(form.kept ? hexOf(DATA) : zeros)
      }
      if (bursts === 1) watch(one, [...write, flush], look)
      else {
        watch(one, write, look)
        watch(one, [flush], look)
      }
      expect(said).toEqual([...(bursts === 1 ? [] : ['ACK 0']), 'READ 1 only: 0 B'])
    }
  })

  test('of a range wherever it is covers what was stored, and records, too', () => {
    const one = bytesCard()
    const { qp, bytes, records } = one
    const frames = [
      ...writeFrames(qp, bytes, 4096, DATA),
      ...persistFrames(qp, records, 3, dataOf(100, 2)),
      flushFrame(qp, records, { vaHigh: 3, length: 100 }),
    ]
    watch(one, frames, (sent) => {
      if (sent.opcode !== 0x10) return
      expect(durable(one, BYTES_AT + 4096, 200)).toBe(hexOf(DATA))
    })
    expect(lines(one.card.sent, qp.psn)).toContain('READ -1 only: 0 B')
  })

  test('with nothing stored since the last fence costs no fence', () => {
    const one = bytesCard()
    const { qp, bytes } = one
    const flush = (): void => void one.card.serve(flushFrame(qp, bytes))
    one.card.serve(...writeFrames(qp, bytes, 0, DATA))
    expect(fencesIn(one, flush)).toBe(1)
    expect(fencesIn(one, flush)).toBe(0)
  })

  test('covers what another queue pair stored and was acknowledged', () => {
    const one = bytesCard()
    const other = one.card.connect(1024)
    one.card.serve(...writeFrames(other, one.bytes, 0, DATA))
    one.card.serve(flushFrame(one.qp, one.bytes))
    expect(durable(one, BYTES_AT, 200)).toBe(hexOf(DATA))
  })

  test('one fence is shared by the FLUSH requests of all queue pairs of a burst', () => {
    const one = bytesCard()
    const pairs = Array.from({ length: 16 }, () => one.card.connect(1024))
    const frames = pairs.flatMap((qp, i) => [
      ...writeFrames(qp, one.bytes, i * 256, dataOf(200, i)),
      flushFrame(qp, one.bytes),
    ])
    expect(fencesIn(one, () => one.card.serve(...frames))).toBe(1)
    expect(one.card.sent.filter((sent) => sent.opcode === 0x10)).toHaveLength(16)
  })

  test.each([
    ['a reserved placement type', { placement: 4 }, NAK_INVALID],
    ['another reserved placement type', { placement: 10 }, NAK_INVALID],
    ['selectivity 2', { selectivity: 2 }, NAK_INVALID],
    ['selectivity 3', { selectivity: 3 }, NAK_INVALID],
    ['a range past the end', { vaLow: BYTES_LENGTH - 4 }, NAK_ACCESS],
    ['a range that wraps', { vaHigh: 2 ** 32 - 1, vaLow: 2 ** 32 - 8, length: 16 }, NAK_ACCESS],
    ['a range of no bytes past the end', { vaLow: BYTES_LENGTH + 1, length: 0 }, NAK_ACCESS],
  ] as const)('with %s is refused, and nothing behind it is served', (_, options, code) => {
    const one = bytesCard()
    const { qp, bytes } = one
    const base = qp.psn
    const frames = [
      ...writeFrames(qp, bytes, 0, DATA),
      flushFrame(qp, bytes, options),
      ...writeFrames(qp, bytes, 512, DATA),
    ]
    const said = lines(one.card.serve(...frames), base)
    expect(said).toEqual(['ACK 0', `NAK 0x${code.toString(16)} 1`])
    expect(hexOf(one.card.nvdimm.live.slice(BYTES_AT + 512, BYTES_AT + 516))).toBe('00000000')
    expect(one.card.serve(flushFrame(qp, bytes))).toEqual([])
  })

  test('at the end of the region, and of all of it wherever the range lies, is served', () => {
    for (const options of [
      { vaLow: BYTES_LENGTH - 8 },
      { vaLow: BYTES_LENGTH, length: 0 },
      { selectivity: 1, vaHigh: 77, vaLow: 99, length: 2 ** 32 - 1 },
    ]) {
      const one = bytesCard()
      const sent = one.card.serve(flushFrame(one.qp, one.bytes, options))
      expect(sent.map(({ opcode }) => opcode)).toEqual([0x10])
    }
  })

  test('by a key that names nothing, or of another protection domain, is refused (0x62)', () => {
    const one = bytesCard()
    const { qp, bytes } = one
    for (const rkey of [bytes.rkey ^ 0x20, 0, 0xffffffff]) {
      const sent = one.card.serve(flushFrame({ ...one.card.connect(1024) }, rkey))
      expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
    }
    const stranger = one.card.connect(1024, 5)
    const sent = one.card.serve(flushFrame(stranger, bytes))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
    expect(lines(one.card.serve(flushFrame(qp, bytes)), qp.psn)).toHaveLength(1)
  })

  test('D-13, G2-5: a part without save energy refuses persistence (0x63), not visibility', () => {
    for (const [placement, expected] of [
      [1, '10'],
      [2, '11'],
      [3, '11'],
    ] as const) {
      const one = bytesCard()
      one.card.nvdimm.armed = false
      const [sent] = one.card.serve(flushFrame(one.qp, one.bytes, { placement }))
      expect(sent!.opcode.toString(16)).toBe(expected)
      if (placement !== 1) expect(sent!.syndrome).toBe(NAK_OPERATIONAL)
    }
  })

  test('D-13: behind a record whose commit closed the part it is refused', () => {
    for (const fence of [1, 2, 3, 4]) {
      const one = bytesCard()
      const { card, qp, bytes, records } = one
      const base = qp.psn
      failFence(card, fence)
      const frames = [...persistFrames(qp, records, 1, dataOf(8, 1)), flushFrame(qp, bytes)]
      expect(lines(card.serve(...frames), base).at(-1), `fence ${fence}`).toBe('NAK 0x63 1')
      card.machine.observe({})
    }
  })

  test('D-13: a fence that fails refuses whoever waits for it, and the part takes no more', () => {
    const one = bytesCard()
    const { qp, bytes, kept, card } = one
    const reader = card.connect(1024)
    const keeper = card.connect(1024)
    const onlooker = card.connect(1024)
    const bases = [qp.psn, reader.psn, keeper.psn, onlooker.psn]
    const frames = [
      ...writeFrames(qp, bytes, 0, DATA),
      flushFrame(qp, bytes),
      ...writeFrames(reader, bytes, 512, DATA),
      readFrame(reader, bytes, 0, 512, 8),
      ...writeFrames(keeper, kept, 0, DATA),
      ...writeFrames(onlooker, bytes, 1024, DATA),
    ]
    card.nvdimm.fencesToFail = 1
    const sent = card.serve(...frames)
    const byPeer = [qp, reader, keeper, onlooker].map((pair, i) =>
      lines(
        sent.filter(({ packet }) => packet.destQp === pair.peer),
        bases[i]!,
      ),
    )
    expect(byPeer).toEqual([['NAK 0x63 1'], ['NAK 0x63 1'], ['NAK 0x63 0'], ['ACK 0']])
    expect(card.counter('NOT_DURABLE')).toBe(3)
    // Closed: what is plain goes on, what is durable does not.
    const after = (): number => onlooker.psn
    expect(lines(card.serve(...writeFrames(onlooker, bytes, 0, DATA)), after())).toEqual(['ACK -1'])
    expect(card.serve(flushFrame(onlooker, bytes))[0]!.syndrome).toBe(NAK_OPERATIONAL)
  })
})

describe('the FLUSH of Linux (wire-format 2.5, 9.4)', () => {
  test('is accepted beside the standard one, and counted', () => {
    const one = bytesCard()
    const { qp, bytes, card } = one
    for (const linux of [true, false, true]) {
      expect(card.serve(flushFrame(qp, bytes, { linux }))[0]!.opcode).toBe(0x10)
    }
    expect(card.counter('LINUX_FLUSH_ICRC')).toBe(2)
    expect(card.counter('ICRC')).toBe(0)
  })

  test('is dropped under strictIcrc', () => {
    const one = bytesCard(1024, { strictIcrc: true })
    const { qp, bytes, card } = one
    expect(card.serve(flushFrame({ ...qp }, bytes, { linux: true }))).toEqual([])
    expect(card.counter('ICRC')).toBe(1)
    expect(card.counter('LINUX_FLUSH_ICRC')).toBe(0)
    expect(card.serve(flushFrame(qp, bytes))[0]!.opcode).toBe(0x10)
  })
})

describe('a READ waits for the stores in front of it (wire-format 9.2)', () => {
  test.each([0, 1, 200])('a READ of %i bytes, in the burst of the WRITE and later', (length) => {
    for (const bursts of [1, 2]) {
      const one = bytesCard()
      const { qp, bytes } = one
      const write = writeFrames(qp, bytes, 0, DATA)
      const read = readFrame(qp, length === 0 ? 0 : bytes, 0, 8192, length)
      let looks = 0
      const look = (sent: Sent): void => {
        if (sent.opcode !== 0x10) return
        looks += 1
        expect(durable(one, BYTES_AT, 200)).toBe(hexOf(DATA))
      }
      if (bursts === 1) watch(one, [...write, read], look)
      else {
        watch(one, write, look)
        watch(one, [read], look)
      }
      expect(looks).toBe(1)
    }
  })

  test('without stores in front of it, it waits for nothing', () => {
    const one = bytesCard()
    const other = one.card.connect(1024)
    one.card.serve(...writeFrames(other, one.bytes, 0, DATA))
    const read = readFrame(one.qp, one.bytes, 0, 0, 200)
    expect(fencesIn(one, () => one.card.serve(read))).toBe(0)
    expect(hexOf(one.card.sent[0]!.payload)).toBe(hexOf(DATA))
  })
})

describe('chains in one burst', () => {
  test('D-8: WRITE A, FLUSH, WRITE B, FLUSH leaves A or B whole at every cut', () => {
    const chain = (one: BytesCard): Uint8Array[] => [
      ...writeFrames(one.qp, one.bytes, 0, dataOf(128, 7)),
      flushFrame(one.qp, one.bytes),
      ...writeFrames(one.qp, one.bytes, 4096, dataOf(128, 7)),
      flushFrame(one.qp, one.bytes),
    ]
    const one = bytesCard()
    let commands = 0
    let dirty = 0
    const apart = (): void => {
      const chunks = pending(one.card.nvdimm).map(({ at }) => at - BYTES_AT)
      const inA = chunks.some((at) => at >= 0 && at < 4096)
      const inB = chunks.some((at) => at >= 4096 && at < BYTES_LENGTH)
      if (inA || inB) dirty += 1
      expect(inA && inB, `at command ${commands}`).toBe(false)
    }
    one.card.machine.observe({
      onCommand: () => {
        commands += 1
        apart()
      },
    })
    expect(lines(one.card.serve(...chain(one)), one.qp.psn)).toEqual([
      'READ -3 only: 0 B',
      'READ -1 only: 0 B',
    ])
    apart()
    expect(dirty).toBeGreaterThan(1)
    // The same by cutting: at each command, with every choice of what survives.
    for (let at = 0; at < commands; at++) {
      for (const strategy of CUT_STRATEGIES) {
        const two = bytesCard()
        two.card.serve(...writeFrames(two.qp, two.bytes, 0, dataOf(128, 3)))
        two.card.serve(...writeFrames(two.qp, two.bytes, 4096, dataOf(128, 3)))
        two.card.serve(flushFrame(two.qp, two.bytes))
        two.card.machine.armCut(at)
        two.card.serve(...chain(two))
        cut(two.card.nvdimm, { random: new Random(at), strategy })
        const held = [0, 4096].map((at) => durable(two, BYTES_AT + at, 128))
        const whole = [hexOf(dataOf(128, 3)), hexOf(dataOf(128, 7))]
        expect(held.some((copy) => whole.includes(copy))).toBe(true)
      }
    }
  })

  test('log, FLUSH, ATOMIC WRITE of the pointer, FLUSH: it never points at nothing', () => {
    const one = bytesCard()
    const { qp, bytes } = one
    const frames = [
      ...writeFrames(qp, bytes, 1024, DATA),
      flushFrame(qp, bytes),
      atomicWriteFrame(qp, bytes, 0, dataOf(8, 9)),
      flushFrame(qp, bytes),
    ]
    one.card.machine.observe({
      onCommand: () => {
        const live = hexOf(one.card.nvdimm.live.slice(BYTES_AT, BYTES_AT + 8))
        if (live === '00'.repeat(8)) return
        expect(durable(one, BYTES_AT + 1024, 200)).toBe(hexOf(DATA))
      },
    })
    const base = qp.psn - 4
    expect(lines(one.card.serve(...frames), base)).toEqual([
      ...['READ 1 only: 0 B', 'READ 2 only: 0 B', 'READ 3 only: 0 B'],
    ])
    expect(durable(one, BYTES_AT, 8)).toBe(hexOf(dataOf(8, 9)))
  })

  test('a FLUSH covers the atomic in front of it, in the same burst', () => {
    const one = bytesCard()
    const { qp, bytes } = one
    const frames = [fetchAddFrame(qp, bytes, 8, 5n), flushFrame(qp, bytes)]
    watch(one, frames, (sent) => {
      if (sent.opcode === 0x10) expect(durable(one, BYTES_AT + 8, 8)).toBe('0500000000000000')
    })
    expect(lines(one.card.sent, qp.psn)).toEqual(['ATOMIC -2: 0', 'READ -1 only: 0 B'])
  })
})
