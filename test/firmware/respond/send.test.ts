/**
 * SEND in every form, WRITE with immediate, receive entries and RNR, keys taken back
 * (P2-17, P2-25; wire-format 3.3, 3.4, 6.4).
 */

import { describe, expect, test } from 'vitest'
import { RECEIVE_BYTES, RECEIVES, STAGING_TIMEOUT_US } from '../../../firmware/board/limits.ts'
import {
  RC_ACKNOWLEDGE,
  RC_SEND_LAST_IMM,
  RC_SEND_ONLY,
  RC_SEND_ONLY_IMM,
} from '../../../firmware/wire/opcode.ts'
import { batchSetting } from '../../support/cards/batch-card.ts'
import { BYTES_AT, type BytesCard, bytesCard, KEPT_AT } from '../../support/cards/bytes-card.ts'
import {
  dataOf,
  type Place,
  persistFrames,
  readFrame,
  type Sent,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { frameOf, hexOf } from '../../support/wire/frames.ts'
import {
  compareSwapFrame,
  disconnect,
  fetchAddFrame,
  flushFrame,
  lines,
  NAK_ACCESS,
  NAK_OPERATIONAL,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

/** RNR NAK, timer code 12: 0.64 ms. */
const RNR = 0x2c

/** The card's own requests: confirmations. */
function confirmations(sent: readonly Sent[]): Sent[] {
  return sent.filter(({ opcode }) => opcode <= 5)
}

function syndromes(sent: readonly Sent[]): number[] {
  return sent.map(({ syndrome }) => syndrome)
}

/** Takes every entry that one peer may have by messages that do not end; their queue pairs. */
function takeAll(one: BytesCard, count = RECEIVES / 2): TestPeer[] {
  return Array.from({ length: count }, (_, i) => {
    const qp = one.card.connect(256)
    expect(one.card.serve(sendFrames({ ...qp }, dataOf(300, i))[0]!)).toEqual([])
    return qp
  })
}

describe('SEND', () => {
  test.each([0, 1, 255, 256, 257, 4095, 4096])(
    'of %i bytes is taken and acknowledged',
    (length) => {
      for (const options of [{}, { immediate: 5 }]) {
        const one = bytesCard(256)
        const { qp } = one
        const base = qp.psn
        const frames = sendFrames(qp, dataOf(length, 1), options)
        expect(lines(one.card.serve(...frames), base)).toEqual([`ACK ${frames.length - 1}`])
      }
    },
  )

  test('of more than a receive entry holds is refused with the packet that does not fit', () => {
    for (const mtu of [256, 1024, 4096]) {
      const one = bytesCard(mtu)
      const { qp } = one
      const base = qp.psn
      const frames = sendFrames(qp, dataOf(RECEIVE_BYTES + 1, 1))
      const said = lines(one.card.serve(...frames), base)
      expect(said).toEqual([`NAK 0x61 ${RECEIVE_BYTES / mtu}`])
      expect(one.card.counter('RECEIVE_LENGTH')).toBe(1)
    }
  })

  test('never runs out of entries if every message ends', () => {
    const one = bytesCard(256)
    const base = one.qp.psn
    const frames = Array.from({ length: 3 * RECEIVES }, (_, i) =>
      sendFrames(one.qp, dataOf(i, i)),
    ).flat()
    const sent = one.card.serve(...frames)
    expect(sent.at(-1)!.psn - base).toBe(frames.length - 1)
    expect(new Set(syndromes(sent))).toEqual(new Set([0x1f]))
  })

  test('P2-25: without a free entry it draws an RNR NAK, and is taken when sent again', () => {
    const one = bytesCard(256)
    const { card, qp } = one
    const base = qp.psn
    const holders = takeAll(one)
    const frames = sendFrames(qp, dataOf(10, 1))
    const behind = sendFrames(qp, dataOf(10, 2))
    // What comes behind it is dropped in silence: the sender knows where it has to go on.
    expect(lines(card.serve(...frames, ...behind), base)).toEqual(['NAK 0x2c 0'])
    expect(card.counter('NOT_READY')).toBe(1)
    expect(lines(card.serve(...frames), base)).toEqual(['NAK 0x2c 0'])
    const holder = holders[3]!
    card.serve(sendFrames({ ...holder }, dataOf(300, 3))[1]!)
    expect(lines(card.serve(...frames, ...behind), base)).toEqual(['ACK 1'])
  })

  test('P2-25: what came before it is answered first, and durable where that is due', () => {
    const one = bytesCard(256)
    const { card, qp } = one
    const base = qp.psn
    takeAll(one)
    const frames = [...writeFrames(qp, one.kept, 0, dataOf(8, 1)), ...sendFrames(qp, dataOf(10, 1))]
    expect(lines(card.serve(...frames), base)).toEqual(['ACK 0', 'NAK 0x2c 1'])
    expect(hexOf(card.nvdimm.durable.slice(KEPT_AT, KEPT_AT + 8))).toBe(hexOf(dataOf(8, 1)))
  })

  test('an entry is free again when its message ends, fails or stops half-way (N8)', () => {
    for (const end of ['ends', 'fails', 'stops', 'closes'] as const) {
      const one = bytesCard(256)
      const { card } = one
      const holders = takeAll(one)
      for (const qp of holders) {
        const rest = sendFrames({ ...qp }, dataOf(300, 1))[1]!
        if (end === 'ends') card.serve(rest)
        if (end === 'fails') card.serve(readFrame({ ...qp, psn: qp.psn + 1 }, 0, 0, 0, 1))
      }
      if (end === 'stops') {
        card.now += STAGING_TIMEOUT_US + 1
        card.idle()
      }
      if (end === 'closes') {
        for (const qp of holders) disconnect(card, qp)
      }
      takeAll(one)
    }
  })
})

describe('WRITE with immediate', () => {
  test('is stored, acknowledged, and takes an entry only while it is taken', () => {
    for (const length of [0, 1, 256, 700]) {
      const one = bytesCard(256)
      const { card, qp, bytes } = one
      const base = qp.psn
      const frames = writeFrames(qp, bytes, 64, dataOf(length, 1), { immediate: 0x01020304 })
      expect(lines(card.serve(...frames), base)).toEqual([`ACK ${frames.length - 1}`])
      const held = card.nvdimm.live.slice(BYTES_AT + 64, BYTES_AT + 64 + length)
      expect(hexOf(held)).toBe(hexOf(dataOf(length, 1)))
    }
  })

  test('P2-25: without an entry nothing of its last packet is stored, until it is free', () => {
    for (const length of [8, 700]) {
      const one = bytesCard(256)
      const { card, qp, bytes } = one
      const base = qp.psn
      const [holder] = takeAll(one)
      const frames = writeFrames(qp, bytes, 64, dataOf(length, 1), { immediate: 1 })
      const last = frames.length - 1
      expect(lines(card.serve(...frames), base)).toEqual([`NAK 0x2c ${last}`])
      expect(card.nvdimm.live[BYTES_AT + 64 + length - 1]).toBe(0)
      card.serve(sendFrames({ ...holder! }, dataOf(300, 0))[1]!)
      expect(lines(card.serve(frames[last]!), base)).toEqual([`ACK ${last}`])
      const held = card.nvdimm.live.slice(BYTES_AT + 64, BYTES_AT + 64 + length)
      expect(hexOf(held)).toBe(hexOf(dataOf(length, 1)))
    }
  })

  test('the entry is judged before the length, the length before the key (wire-format 3.3)', () => {
    const one = bytesCard(256)
    const { card, bytes } = one
    const wrong = (place: Place, length: number): number[] => {
      const qp = card.connect(256)
      return syndromes(
        card.serve(...writeFrames(qp, place, 0, dataOf(8, 1), { immediate: 1, length })),
      )
    }
    expect(wrong(0, 9)).toEqual([0x61])
    expect(wrong(0, 8)).toEqual([0x62])
    takeAll(one)
    expect(wrong(0, 9)).toEqual([RNR])
    expect(wrong(bytes, 8)).toEqual([RNR])
  })

  test('of a record that is refused at its end, it gives its entry back once', () => {
    const { card, region, qp, state } = batchSetting({ slots: 8, capacity: 1000 }, 256)
    const other = card.connect(256, 0, 8)
    card.nvdimm.fencesToFail = 1
    const asks = { vaHigh: 1, immediate: 5, solicited: true }
    const sent = card.serve(
      ...persistFrames(other, region, 1, dataOf(64, 1)),
      ...writeFrames(qp, region, 0, dataOf(500, 2), asks),
    )
    expect(syndromes(sent).at(-1)).toBe(NAK_OPERATIONAL)
    expect(state.receiveOwner.filter((owner) => owner >= 0)).toHaveLength(0)
    expect(state.receivesTaken).toBe(0)
  })
})

describe('who asks to be told is told when all is durable (wire-format 6.4)', () => {
  test('by a SEND of the same bytes, with the same immediate, behind the fence', () => {
    for (const immediate of [undefined, 0xdeadbeef]) {
      const one = bytesCard(256)
      const { card, qp, bytes } = one
      const data = dataOf(100, 3)
      const frames = [
        ...writeFrames(qp, bytes, 0, dataOf(64, 1)),
        ...sendFrames(qp, data, {
          solicited: true,
          ...(immediate === undefined ? {} : { immediate }),
        }),
      ]
      let looks = 0
      card.machine.observe({
        onCommand: () => {
          if (confirmations(card.sent).length === 0) return
          looks += 1
          const held = card.nvdimm.durable.slice(BYTES_AT, BYTES_AT + 64)
          expect(hexOf(held)).toBe(hexOf(dataOf(64, 1)))
        },
      })
      const [told] = confirmations(card.serve(...frames))
      card.machine.observe({})
      expect(looks).toBeGreaterThanOrEqual(0)
      expect(hexOf(card.nvdimm.durable.slice(BYTES_AT, BYTES_AT + 64))).toBe(hexOf(dataOf(64, 1)))
      expect(told!.opcode).toBe(immediate === undefined ? RC_SEND_ONLY : RC_SEND_ONLY_IMM)
      expect(hexOf(told!.payload)).toBe(hexOf(data))
    }
  })

  test('a WRITE with immediate is confirmed by its immediate alone', () => {
    const one = bytesCard(256)
    const { card, qp, bytes } = one
    const options = { immediate: 0x55, solicited: true }
    const sent = card.serve(...writeFrames(qp, bytes, 0, dataOf(300, 1), options))
    const [told] = confirmations(sent)
    expect(told!.opcode).toBe(RC_SEND_ONLY_IMM)
    expect(told!.payload).toHaveLength(0)
    expect(hexOf(card.nvdimm.durable.slice(BYTES_AT, BYTES_AT + 300))).toBe(hexOf(dataOf(300, 1)))
    expect(RC_SEND_LAST_IMM).toBe(3)
  })

  test('who is never ready to be told is given up, and its entries are free again', () => {
    const one = bytesCard(256)
    const { card, qp } = one
    const other = card.connect(256)
    for (let i = 0; i < RECEIVES; i++) {
      card.serve(...sendFrames(qp, dataOf(1, i), { solicited: true }))
    }
    expect(syndromes(card.serve(...sendFrames({ ...other }, dataOf(1, 1))))).toEqual([RNR])
    for (const endUs = card.now + 20e6; card.now < endUs; ) {
      const [told] = confirmations(card.pass(50_000))
      if (told === undefined) continue
      const bth = { opcode: RC_ACKNOWLEDGE, destQp: qp.number, psn: told.psn }
      card.serve(frameOf({ bth, aeth: { syndrome: RNR, msn: 0 }, payload: new Uint8Array(0) }))
    }
    expect(syndromes(card.serve(...sendFrames(other, dataOf(1, 1))))).toEqual([0x1f])
  })

  test('D-13: by a part that cannot keep anything it is refused, and nobody is told', () => {
    const one = bytesCard(256)
    one.card.nvdimm.armed = false
    const sent = one.card.serve(...sendFrames(one.qp, dataOf(8, 1), { solicited: true }))
    expect(syndromes(sent)).toEqual([NAK_OPERATIONAL])
  })

  test('D-13: where the fence fails the sender is refused, and nobody is told', () => {
    const one = bytesCard(256)
    const { card, qp, bytes } = one
    const base = qp.psn
    card.nvdimm.fencesToFail = 1
    const sent = card.serve(
      ...writeFrames(qp, bytes, 0, dataOf(8, 1)),
      ...sendFrames(qp, dataOf(8, 1), { solicited: true }),
    )
    expect(lines(sent, base).at(-1)).toBe('NAK 0x63 1')
    expect(confirmations(sent)).toEqual([])
  })
})

describe('SEND with Invalidate', () => {
  const USES: Readonly<Record<string, (one: BytesCard, qp: TestPeer) => Uint8Array[]>> = {
    WRITE: ({ bytes }, qp) => writeFrames(qp, bytes, 0, dataOf(8, 1)),
    READ: ({ bytes }, qp) => [readFrame(qp, bytes, 0, 0, 8)],
    'FETCH-ADD': ({ bytes }, qp) => [fetchAddFrame(qp, bytes, 0, 1n)],
    'COMPARE-SWAP': ({ bytes }, qp) => [compareSwapFrame(qp, bytes, 0, 0n, 1n)],
    FLUSH: ({ bytes }, qp) => [flushFrame(qp, bytes)],
    'SEND with Invalidate': ({ bytes }, qp) =>
      sendFrames(qp, dataOf(8, 1), { invalidate: bytes.rkey }),
  }

  test.each(Object.keys(USES))('takes the key back from %s, on that queue pair alone', (name) => {
    const one = bytesCard(256)
    const { card, qp, bytes } = one
    const other = card.connect(256)
    const [sent] = card.serve(...sendFrames(qp, dataOf(300, 1), { invalidate: bytes.rkey }))
    expect(sent!.syndrome).toBe(0x1f)
    expect(card.serve(...USES[name]!(one, other))[0]!.syndrome).not.toBe(NAK_ACCESS)
    expect(syndromes(card.serve(...USES[name]!(one, qp)))).toEqual([NAK_ACCESS])
  })

  test('works in the same burst, leaves what stands before it and other regions alone', () => {
    const one = bytesCard(256)
    const { card, qp, bytes, kept } = one
    const base = qp.psn
    const frames = [
      ...writeFrames(qp, bytes, 0, dataOf(8, 1)),
      ...sendFrames(qp, new Uint8Array(0), { invalidate: bytes.rkey }),
      ...writeFrames(qp, kept, 0, dataOf(8, 1)),
      ...writeFrames(qp, bytes, 8, dataOf(8, 1)),
    ]
    expect(lines(card.serve(...frames), base)).toEqual(['ACK 2', 'NAK 0x62 3'])
  })

  test('takes a key of records back from WRITE_PERSIST, too', () => {
    const one = bytesCard(1024)
    const { card, qp, records } = one
    card.serve(...sendFrames(qp, dataOf(8, 1), { invalidate: records.rkey }))
    const sent = card.serve(...persistFrames(qp, records, 0, dataOf(8, 1)))
    expect(syndromes(sent)).toEqual([NAK_ACCESS])
  })

  test('of a key that names nothing is refused (0x62), and its entry is free', () => {
    const one = bytesCard(256)
    for (let i = 0; i < RECEIVES + 3; i++) {
      const qp = one.card.connect(256)
      const sent = one.card.serve(...sendFrames(qp, dataOf(8, 1), { invalidate: i * 32 + 31 }))
      expect(syndromes(sent)).toEqual([NAK_ACCESS])
    }
  })
})
