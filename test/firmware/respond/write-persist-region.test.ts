/**
 * Regions registered write-persist, and records written by plain WRITE: source 2's form B beside
 * its form A (P2-4, P2-5, P2-9, P2-11, D-9, G2-4).
 */

import { describe, expect, test } from 'vitest'
import { KIND_BYTES } from '../../../firmware/wire/management.ts'
import {
  PERSIST_ACK,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import {
  BYTES_AT,
  BYTES_LENGTH,
  type BytesCard,
  bytesCard,
  contentsOf,
  KEPT_AT,
  RECORD_BYTES,
  RECORD_SLOTS,
  watch,
} from '../../support/cards/bytes-card.ts'
import { countFences, failFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { End, TwoCards } from '../../support/cards/two-cards.ts'
import { frameOf, hexOf } from '../../support/wire/frames.ts'
import {
  fetchAddFrame,
  firstDifference,
  lines,
  NAK_ACCESS,
  NAK_INVALID,
  PATH_MTUS,
  sendFrames,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

function durableAt(one: BytesCard, at: number, length: number): string {
  return hexOf(one.card.nvdimm.durable.slice(at, at + length))
}

/** A WRITE_PERSIST of plain bytes: form A at an address. */
function placedFrames(
  qp: TestPeer,
  region: TestRegion,
  vaLow: number,
  data: Uint8Array,
  options: { wait?: number; slotAddressed?: boolean; carried?: boolean; length?: number } = {},
): Uint8Array[] {
  const count = Math.max(1, Math.ceil(data.length / qp.mtu))
  const psn = qp.psn
  qp.psn = (psn + count) & 0xffffff
  qp.operation += 1
  return Array.from({ length: count }, (_, i) => {
    const ends = i === count - 1
    const middle = ends ? WRITE_PERSIST_LAST : WRITE_PERSIST_MIDDLE
    const only = count === 1 ? WRITE_PERSIST_ONLY : WRITE_PERSIST_FIRST
    return frameOf({
      bth: {
        ...{ opcode: i === 0 ? only : middle, destQp: qp.number },
        ...{ psn: (psn + i) & 0xffffff, ackRequest: ends },
      },
      reth: {
        vaHigh: region.baseHigh,
        vaLow,
        rkey: region.rkey,
        length: options.length ?? data.length,
      },
      pweth: {
        ...{ wait: options.wait ?? 1, slotAddressed: options.slotAddressed ?? false },
        ...{ carried: options.carried ?? false, furtherCopies: options.carried === true ? 1 : 0 },
        ...{ wantsAck: true, operationLow: qp.operation },
      },
      payload: data.slice(i * qp.mtu, (i + 1) * qp.mtu),
    })
  })
}

describe('D-9, P2-5: a plain WRITE into a region registered write-persist', () => {
  test.each(PATH_MTUS)('P2-5, D-9: is acknowledged when durable, at path MTU %i', (mtu) => {
    for (const length of [1, 8, mtu, mtu + 1, 3 * mtu]) {
      const one = bytesCard(mtu)
      const { qp, kept } = one
      const base = qp.psn
      const data = dataOf(length, length)
      const frames = writeFrames(qp, kept, 128, data)
      const said: string[] = []
      watch(one, frames, (sent) => {
        said.push(...lines([sent], base))
        expect(durableAt(one, KEPT_AT + 128, length)).toBe(hexOf(data))
      })
      expect(said).toEqual([`ACK ${frames.length - 1}`])
    }
  })

  test('P2-9: one elsewhere is acknowledged without a fence', () => {
    const one = bytesCard()
    const fences = countFences(one.card.machine)
    one.card.serve(...writeFrames(one.qp, one.bytes, 0, dataOf(64, 1)))
    expect(fences.passed).toBe(0)
    one.card.serve(...writeFrames(one.qp, one.kept, 0, dataOf(64, 1)))
    expect(fences.passed).toBe(1)
    one.card.machine.observe({})
  })

  test('solicited or not: one elsewhere without an immediate asks for nothing durable', () => {
    const one = bytesCard()
    const base = one.qp.psn
    one.card.nvdimm.armed = false
    const frames = writeFrames(one.qp, one.bytes, 0, dataOf(64, 1), { solicited: true })
    expect(lines(one.card.serve(...frames), base)).toEqual(['ACK 0'])
  })

  test('a burst of them shares one fence and one acknowledgement', () => {
    const one = bytesCard()
    const base = one.qp.psn
    const frames = Array.from({ length: 32 }, (_, i) =>
      writeFrames(one.qp, one.kept, 64 * i, dataOf(64, i)),
    ).flat()
    const fences = one.card.machine.statistics.fences
    expect(lines(one.card.serve(...frames), base)).toEqual(['ACK 31'])
    expect(one.card.machine.statistics.fences - fences).toBe(1)
  })

  test('no answer of the same queue pair passes it, whatever comes behind', () => {
    const behind: ((one: BytesCard) => Uint8Array[])[] = [
      ({ bytes, qp }) => writeFrames(qp, bytes, 0, dataOf(8, 1)),
      ({ bytes, qp }) => [readFrame(qp, bytes, 0, 0, 8)],
      ({ bytes, qp }) => [fetchAddFrame(qp, bytes, 8, 1n)],
      ({ records, qp }) => persistFrames(qp, records, 1, dataOf(8, 1)),
      ({ records, qp }) => persistFrames(qp, records, 99, dataOf(8, 1)),
      ({ qp }) => sendFrames(qp, dataOf(8, 1)),
      ({ bytes, qp }) => writeFrames(qp, bytes.rkey ^ 0x100, 0, dataOf(8, 1)),
      ({ bytes, qp }) => writeFrames({ ...qp, psn: qp.psn + 1 }, bytes, 0, dataOf(8, 1)),
    ]
    for (const [i, more] of behind.entries()) {
      const one = bytesCard()
      const base = one.qp.psn
      const data = dataOf(64, 5)
      const frames = [...writeFrames(one.qp, one.kept, 0, data), ...more(one)]
      watch(one, frames, (sent) => {
        if (sent.opcode <= 5 || ((sent.psn - base) << 8) >> 8 < 0) return
        expect(durableAt(one, KEPT_AT, 64), `${i}: ${lines([sent], base)[0]}`).toBe(hexOf(data))
      })
      expect(one.card.sent.length, `${i}`).toBeGreaterThan(0)
    }
  })

  test('a duplicate in the same burst earns nothing, one in the next an ACK', () => {
    const one = bytesCard()
    const base = one.qp.psn
    const data = dataOf(64, 5)
    const frames = writeFrames(one.qp, one.kept, 0, data)
    watch(one, [...frames, ...frames], () => {
      expect(durableAt(one, KEPT_AT, 64)).toBe(hexOf(data))
    })
    expect(lines(one.card.sent, base)).toEqual(['ACK 0'])
    expect(lines(one.card.serve(...frames), base)).toEqual(['ACK 0'])
  })

  test('a message that has not ended is not fenced; its parts count when the end is', () => {
    const one = bytesCard(256)
    const base = one.qp.psn
    const frames = writeFrames(one.qp, one.kept, 0, dataOf(700, 1))
    const fences = one.card.machine.statistics.fences
    expect(one.card.serve(frames[0]!)).toEqual([])
    expect(one.card.serve(frames[1]!)).toEqual([])
    expect(one.card.machine.statistics.fences).toBe(fences)
    // Asked for the first part again: it is acknowledged as far as it came, behind a fence.
    expect(lines(one.card.serve(frames[0]!), base)).toEqual(['ACK 1'])
    expect(durableAt(one, KEPT_AT, 512)).toBe(hexOf(dataOf(700, 1).slice(0, 512)))
    expect(lines(one.card.serve(frames[2]!), base)).toEqual(['ACK 2'])
    expect(durableAt(one, KEPT_AT, 700)).toBe(hexOf(dataOf(700, 1)))
  })

  test('D-13: a duplicate of a part that cannot be made durable is refused, also of PSN 0', () => {
    for (const base of [0, 1]) {
      const rig = new TwoCards()
      const { card } = rig.hosts[1]
      const kept = card.provision({ kind: KIND_BYTES, length: BYTES_LENGTH, flags: 2 })
      // A pair of the host: the PSN is the one that it names.
      const peer = { last: 1, number: 0x77, mtu: 256, peerPsn: base, psn: 1, incarnation: 1 }
      const { number } = new End(rig, 1).ready(peer).qp
      const qp = { number, peer: 0x77, mtu: 256, psn: base, operation: 0 }
      const [frame] = writeFrames(qp, kept, 0, dataOf(700, 1))
      expect(card.serve(frame!)).toEqual([])
      card.nvdimm.armed = false
      expect(lines(card.serve(frame!), base)).toEqual(['NAK 0x63 0'])
    }
  })

  test('D-13, G2-5: without save energy, or where the fence fails, it is refused by 0x63', () => {
    for (const how of ['armed', 'fence', 'later'] as const) {
      const one = bytesCard()
      const { card, qp, kept } = one
      const base = qp.psn
      const frames = writeFrames(qp, kept, 0, dataOf(64, 1))
      if (how === 'armed') card.nvdimm.armed = false
      if (how === 'fence') card.nvdimm.fencesToFail = 1
      if (how === 'later') {
        card.machine.observe({
          onCommand: () => {
            card.nvdimm.armed = false
          },
        })
      }
      expect(lines(card.serve(...frames), base), how).toEqual(['NAK 0x63 0'])
      card.machine.observe({})
      expect(card.serve(...frames)).toEqual([])
    }
  })

  test('D-13: a refusal behind it names it, where it did not become durable', () => {
    for (const fenceFails of [false, true]) {
      const one = bytesCard()
      const { card, qp, kept, bytes } = one
      const base = qp.psn
      const data = dataOf(64, 1)
      const frames = [
        ...writeFrames(qp, kept, 0, data),
        ...writeFrames(qp, bytes, 0, dataOf(64, 2)),
        ...writeFrames(qp, bytes, 64, dataOf(64, 3)),
      ]
      card.nvdimm.refuseWrites(BYTES_AT / 64)
      if (fenceFails) card.nvdimm.fencesToFail = 1
      // A NAK says that all before it is acknowledged (wire-format 3.8).
      const expected = fenceFails ? 'NAK 0x63 0' : 'NAK 0x63 1'
      expect(lines(card.serve(...frames), base)).toEqual([expected])
      if (!fenceFails) expect(durableAt(one, KEPT_AT, 64)).toBe(hexOf(data))
    }
  })

  test('D-13: a record behind it whose first fence fails takes its acknowledgement along', () => {
    for (const fence of [1, 2, 3, 4]) {
      const one = bytesCard()
      const { card, qp, kept, records } = one
      const base = qp.psn
      failFence(card, fence)
      const frames = [
        ...writeFrames(qp, kept, 0, dataOf(64, 1)),
        ...persistFrames(qp, records, 1, dataOf(8, 1)),
      ]
      const sent = card.serve(...frames)
      card.machine.observe({})
      // The part is closed: nobody asks what the first fence may have covered.
      expect(lines(sent, base).at(-1), `fence ${fence}`).toBe('NAK 0x63 0')
      expect(sent.filter(({ syndrome, psn }) => syndrome === 0x1f && psn >= base)).toEqual([])
    }
  })

  test('a zero-length WRITE there waits for nothing', () => {
    const one = bytesCard()
    const base = one.qp.psn
    one.card.nvdimm.armed = false
    const frames = writeFrames(one.qp, one.kept, 0, new Uint8Array(0))
    expect(lines(one.card.serve(...frames), base)).toEqual(['ACK 0'])
  })
})

describe('P2-4, form A: WRITE_PERSIST into plain bytes', () => {
  test.each(PATH_MTUS)(
    'P2-4: is stored, fenced, receipted with one copy, at path MTU %i',
    (mtu) => {
      for (const length of [0, 1, 64, mtu, mtu + 1, 2 * mtu + 5]) {
        const one = bytesCard(mtu)
        const { qp, kept } = one
        const base = qp.psn
        const data = dataOf(length, length)
        const frames = placedFrames(qp, kept, 64, data)
        const last = frames.length - 1
        watch(one, frames, (sent) => {
          if (sent.opcode !== PERSIST_ACK) return
          expect(durableAt(one, KEPT_AT + 64, length)).toBe(hexOf(data))
        })
        const receipts = persistAcks(one.card.sent)
        expect(receipts).toHaveLength(1)
        expect(receipts[0]).toMatchObject({
          ...{ status: 0, copies: 1, records: 1, firstPsn: base + last, lastPsn: base + last },
          operationLow: qp.operation,
        })
        expect(one.card.sent.some(({ psn }) => psn === base + last)).toBe(true)
      }
    },
  )

  test('a burst of them shares one fence', () => {
    const one = bytesCard()
    const frames = Array.from({ length: 16 }, (_, i) =>
      placedFrames(one.qp, one.kept, 64 * i, dataOf(64, i)),
    ).flat()
    const fences = one.card.machine.statistics.fences
    expect(persistAcks(one.card.serve(...frames))).toHaveLength(16)
    expect(one.card.machine.statistics.fences - fences).toBe(1)
  })

  test('one of no bytes waits for the fence of what was stored before it', () => {
    const one = bytesCard()
    const data = dataOf(64, 1)
    const frames = [
      ...writeFrames(one.qp, one.bytes, 0, data),
      ...placedFrames(one.qp, one.kept, 0, new Uint8Array(0)),
    ]
    watch(one, frames, (sent) => {
      if (sent.opcode === PERSIST_ACK) expect(durableAt(one, BYTES_AT, 64)).toBe(hexOf(data))
    })
    expect(persistAcks(one.card.sent)).toHaveLength(1)
  })

  test('P2-11: into a region that is not registered so it draws 0x62, nothing written', () => {
    const one = bytesCard()
    const before = contentsOf(one)
    const sent = one.card.serve(...placedFrames(one.qp, one.bytes, 0, dataOf(64, 1)))
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
    expect(firstDifference(contentsOf(one), before)).toBe(-1)
  })

  test('P2-11: a range that crosses the end is refused by 0x62, nothing written', () => {
    for (const [va, length] of [
      [BYTES_LENGTH - 63, 64],
      [BYTES_LENGTH, 1],
      [2 ** 32 - 32, 64],
    ] as const) {
      const one = bytesCard()
      const before = contentsOf(one)
      const sent = one.card.serve(...placedFrames(one.qp, one.kept, va, dataOf(length, 1)))
      expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_ACCESS])
      expect(firstDifference(contentsOf(one), before)).toBe(-1)
    }
  })

  test('the forms that name slots or carry copies are not for bytes (0x61)', () => {
    for (const options of [{ slotAddressed: true }, { carried: true, length: 32 }]) {
      const one = bytesCard()
      const sent = one.card.serve(...placedFrames(one.qp, one.kept, 0, dataOf(64, 1), options))
      expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_INVALID])
    }
  })

  test('more copies than there are, or no save energy, is a status: the queue pair lives', () => {
    const one = bytesCard()
    const { card, qp, kept } = one
    const before = contentsOf(one)
    const base = qp.psn
    const said = (frames: Uint8Array[]): string[] => lines(card.serve(...frames), base)
    expect(said(placedFrames(qp, kept, 0, dataOf(8, 1), { wait: 2 }))[0]).toContain('LEVEL')
    card.nvdimm.armed = false
    expect(said(placedFrames(qp, kept, 0, dataOf(8, 1)))[0]).toContain('NOT_ARMED')
    expect(firstDifference(contentsOf(one), before)).toBe(-1)
    card.nvdimm.armed = true
    expect(said(placedFrames(qp, kept, 0, dataOf(8, 1)))).toContain(
      'PERSIST_ACK 2: 2-2 durable 1 records 1',
    )
  })

  test('G2-2: a duplicate of it is receipted again and not stored again', () => {
    const one = bytesCard()
    const { card, qp, kept } = one
    const base = qp.psn
    const first = placedFrames(qp, kept, 0, dataOf(8, 1))
    card.serve(...first, ...writeFrames(qp, kept, 0, dataOf(8, 2)))
    const said = lines(card.serve(...first), base)
    expect(said).toEqual(['PERSIST_ACK 0: 0-0 durable 1 records 1', 'ACK 1'])
    expect(durableAt(one, KEPT_AT, 8)).toBe(hexOf(dataOf(8, 2)))
  })
})

describe('P2-5, form B: a plain WRITE into a region of records', () => {
  test.each(PATH_MTUS)(
    'is a record in every copy, acknowledged behind all, at path MTU %i',
    (mtu) => {
      for (const length of [1, 64, 300, RECORD_BYTES]) {
        const one = bytesCard(mtu)
        const { qp, records, card } = one
        const base = qp.psn
        const data = dataOf(length, length)
        const frames = writeFrames(qp, records, 0, data, { vaHigh: 3 })
        const last = frames.length - 1
        watch(one, frames, (sent) => {
          if (sent.psn - base < last) return
          for (const copy of [0, 1]) {
            const at = 2 * BYTES_LENGTH + copyOffset(one, copy, 3) + 64
            expect(durableAt(one, at, length)).toBe(hexOf(data))
          }
        })
        expect(lines(card.sent, base)).toEqual([
          `PERSIST_ACK ${last}: ${last}-${last} durable 2 records 1`,
          `ACK ${last}`,
        ])
        expect(persistAcks(card.sent)[0]).toMatchObject({ operationHigh: 0, operationLow: 0 })
        expect(card.read(qp, records, 3, 0, length)).toEqual(data)
      }
    },
  )

  function copyOffset(one: BytesCard, copy: number, slot: number): number {
    return slotOffset(one.records, copy, slot)
  }

  test('a burst of them and of WRITE_PERSISTs is one group, and each has its own receipt', () => {
    const one = bytesCard()
    const { qp, records, card } = one
    const base = qp.psn
    const fences = card.machine.statistics.fences
    const frames = [
      ...persistFrames(qp, records, 0, dataOf(8, 1)),
      ...writeFrames(qp, records, 0, dataOf(8, 2), { vaHigh: 1 }),
      ...persistFrames(qp, records, 2, dataOf(8, 3)),
      ...persistFrames(qp, records, 3, dataOf(8, 4)),
    ]
    const said = lines(card.serve(...frames), base).filter((text) => text.startsWith('PERSIST'))
    expect(said.map((text) => text.split(': ')[1])).toEqual([
      '0-0 durable 2 records 1',
      '1-1 durable 2 records 1',
      '2-3 durable 2 records 2',
    ])
    expect(card.machine.statistics.fences - fences).toBe(4)
  })

  test('as many as a group may have: one group, and a receipt for each', () => {
    const card = new TestCard(1 << 19).format()
    const records = card.provision({ slots: 32 })
    const qp = card.connect()
    const base = qp.psn
    const fences = card.machine.statistics.fences
    const frames = Array.from({ length: 32 }, (_, i) =>
      writeFrames(qp, records, 0, dataOf(64, i), { vaHigh: i }),
    ).flat()
    expect(lines(card.serve(...frames), base)).toEqual([
      ...frames.map((_, i) => `PERSIST_ACK ${i}: ${i}-${i} durable 2 records 1`),
      'ACK 31',
    ])
    expect(card.machine.statistics.fences - fences).toBe(4)
    expect(card.read(qp, records, 31, 0, 64)).toEqual(dataOf(64, 31))
  })

  test('X-1: no receipt of a lower level acknowledges one that is durable in fewer copies', () => {
    // The WRITE comes first, in the middle, and last; its records are durable in one copy before.
    for (const place of [0, 1, 2]) {
      for (const copies of [2, 3]) {
        const card = new TestCard(1 << 19).format()
        const records = card.provision({ slots: 8, copies })
        const qp = card.connect()
        const base = qp.psn
        const frames = [0, 1, 2].flatMap((i) => {
          if (i !== place) return persistFrames(qp, records, i, dataOf(64, i), { wait: 1 })
          return writeFrames(qp, records, 0, dataOf(64, i), { vaHigh: i })
        })
        let isDurable = false
        const at = slotOffset(records, copies - 1, place) + 64
        const want = hexOf(dataOf(64, place))
        const late: string[] = []
        let seen = 0
        card.machine.observe({
          onCommand: () => {
            for (; seen < card.sent.length; seen++) {
              const { psn, opcode } = card.sent[seen]!
              const speaks = ((psn - base - place) & 0xffffff) < 0x800000
              if (speaks && !isDurable) late.push(`${opcode} ${psn - base}`)
            }
            isDurable = hexOf(card.nvdimm.durable.slice(at, at + 64)) === want
          },
        })
        const sent = card.serve(...frames)
        card.machine.observe({})
        expect(late, `${place} of ${copies}`).toEqual([])
        const said = lines(sent, base)
        const own = `${place}-${place} durable ${copies} records 1`
        expect(said.filter((text) => text.endsWith(own))).toEqual([`PERSIST_ACK ${place}: ${own}`])
        // What waits for one copy is told of before, but acknowledges what is in front of it alone.
        const first = said.filter((text) => text.includes('durable 1'))
        const psns = first.map((text) => Number(text.split(/[ :]/)[1]))
        expect(psns).toEqual([[-1], [0, 0], [1]][place])
        expect(said.at(-1)).toBe('ACK 2')
      }
    }
  })

  test('is refused by 0x62 where it does not fit, and by 0x61 where it is cut', () => {
    const cases = [
      { vaHigh: RECORD_SLOTS, vaLow: 0, length: 8, code: NAK_ACCESS },
      { vaHigh: 0, vaLow: 0, length: RECORD_BYTES + 1, code: NAK_ACCESS },
      { vaHigh: 0, vaLow: 8, length: 8, code: NAK_ACCESS },
      { vaHigh: 0, vaLow: 2 ** 28, length: 8, code: NAK_ACCESS },
      { vaHigh: 2 ** 32 - 1, vaLow: 0, length: 8, code: NAK_ACCESS },
    ]
    for (const { vaHigh, vaLow, length, code } of cases) {
      const one = bytesCard()
      const before = contentsOf(one)
      const frames = writeFrames(one.qp, one.records, vaLow, dataOf(length, 1), { vaHigh })
      expect(one.card.serve(...frames).map(({ syndrome }) => syndrome)).toEqual([code])
      expect(firstDifference(contentsOf(one), before)).toBe(-1)
    }
    const one = bytesCard()
    const cut = writeFrames(one.qp, one.records, 0, dataOf(8, 1), { length: 9 })
    expect(one.card.serve(...cut).map(({ syndrome }) => syndrome)).toEqual([NAK_INVALID])
  })

  test('D-13, G2-5: what cannot be durable is refused by 0x63, at whichever fence it shows', () => {
    for (const fence of [0, 1, 2, 3, 4]) {
      const one = bytesCard()
      const { card, qp, records } = one
      const base = qp.psn
      if (fence === 0) card.nvdimm.armed = false
      failFence(card, fence)
      const frames = [
        ...writeFrames(qp, records, 0, dataOf(8, 2), { vaHigh: 1 }),
        ...writeFrames(qp, records, 0, dataOf(8, 2), { vaHigh: 2 }),
      ]
      expect(lines(card.serve(...frames), base), `fence ${fence}`).toEqual(['NAK 0x63 0'])
      card.machine.observe({})
      expect(card.serve(...frames)).toEqual([])
    }
  })

  test('a medium that refuses the record refuses its WRITE, and no other', () => {
    const one = bytesCard()
    const { card, qp, records } = one
    const base = qp.psn
    card.nvdimm.refuseWrites((2 * BYTES_LENGTH + copyOffset(one, 0, 2)) / 64)
    const other = card.connect(1024)
    const frames = [
      ...writeFrames(qp, records, 0, dataOf(8, 1), { vaHigh: 1 }),
      ...writeFrames(qp, records, 0, dataOf(8, 2), { vaHigh: 2 }),
      ...writeFrames(other, records, 0, dataOf(8, 3), { vaHigh: 3 }),
    ]
    const sent = card.serve(...frames)
    const to = (qp: TestPeer): Sent[] => sent.filter(({ packet }) => packet.destQp === qp.peer)
    const own = lines(to(qp), base)
    expect(own.at(-1)).toBe('NAK 0x63 1')
    expect(own.filter((text) => text.startsWith('ACK 1'))).toEqual([])
    expect(lines(to(other), other.psn - 1)).toContain('ACK 0')
  })

  test('without room to gather, a record of several packets draws an RNR NAK', () => {
    const one = bytesCard(256)
    const { card, records } = one
    const holders = Array.from({ length: 16 }, () => card.connect(256))
    for (const [i, qp] of holders.entries()) {
      card.serve(persistFrames({ ...qp }, records, i % 8, dataOf(300, i))[0]!)
    }
    const qp = card.connect(256)
    const base = qp.psn
    const frames = writeFrames(qp, records, 0, dataOf(300, 1), { vaHigh: 1 })
    expect(lines(card.serve(...frames), base)).toEqual(['NAK 0x2c 0'])
    const holder = holders[0]!
    card.serve(persistFrames({ ...holder }, records, 0, dataOf(300, 0))[1]!)
    expect(lines(card.serve(...frames), base).at(-1)).toBe('ACK 1')
  })

  test('a duplicate is acknowledged again and not committed again (X-3)', () => {
    const one = bytesCard()
    const { card, qp, records } = one
    const base = qp.psn
    const frames = writeFrames(qp, records, 0, dataOf(8, 1), { vaHigh: 1 })
    card.serve(...frames)
    const fences = card.machine.statistics.fences
    expect(lines(card.serve(...frames), base)).toEqual([
      'PERSIST_ACK 0: 0-0 durable 2 records 1',
      'ACK 0',
    ])
    expect(card.machine.statistics.fences).toBe(fences)
  })
})

test('P2-5: a plain WRITE is not acknowledged with the group that made way for it', () => {
  const card = new TestCard(1 << 18).format()
  const region = card.provision()
  const qp = card.connect()
  const [first] = persistFrames(qp, region, 2, dataOf(64, 1))
  const psn = qp.psn
  const [second] = writeFrames(qp, region, 0, dataOf(64, 2), { vaHigh: 2 })
  // What is durable of the record in the part whenever something has been sent.
  const [want] = [hexOf(dataOf(64, 2))]
  const at = slotOffset(region, 1, 2) + 64
  let early = 0
  card.machine.observe({
    onCommand: () => {
      const isTaken = card.sent.some((frame) => frame.psn === psn && frame.syndrome < 0x20)
      if (isTaken && hexOf(card.nvdimm.durable.slice(at, at + 64)) !== want) early += 1
    },
  })
  const sent = card.serve(first!, second!)
  expect(early).toBe(0)
  expect(sent.at(-1)!.psn).toBe(psn)
})
