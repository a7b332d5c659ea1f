/**
 * Chains of ordered requests where numbers wrap, over IPv6 and at every path MTU; the table of
 * opcodes; what a cut leaves of what was answered (N10, X-1, X-2; wire-format 1.5, 3.2).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { forgetOld } from '../../../firmware/transport/queue-pair.ts'
import { OPCODES, RC_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { BYTES_AT, type BytesCard, bytesCard, KEPT_AT } from '../../support/cards/bytes-card.ts'
import { dataOf, readFrame, type Sent, type TestPeer } from '../../support/cards/test-card.ts'
import { Dialogue, USUAL } from '../../support/wire/dialogue.ts'
import { frameOf, hexOf, writeIcrc } from '../../support/wire/frames.ts'
import {
  asTestQueuePair,
  atomicWriteFrame,
  compareSwapFrame,
  connectIpv6,
  fetchAddFrame,
  flushFrame,
  lines,
  PATH_MTUS,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

const EXAMPLE = frameOf({ bth: { opcode: RC_SEND_ONLY, destQp: USUAL.localQp } })
const VA = { vaHigh: USUAL.vaHigh }

/** Nine requests of every kind; two of them have two packets at path MTU 256. */
function chain(qp: TestPeer, rkey: number): Uint8Array[][] {
  return [
    writeFrames(qp, rkey, 512, dataOf(300, 1), VA),
    [readFrame(qp, rkey, USUAL.vaHigh, 512, 300)],
    [flushFrame(qp, rkey, VA)],
    [fetchAddFrame(qp, rkey, 8, 5n, VA)],
    [compareSwapFrame(qp, rkey, 8, 5n, 9n, VA)],
    [atomicWriteFrame(qp, rkey, 16, dataOf(8, 2), VA)],
    sendFrames(qp, dataOf(8, 3)),
    [flushFrame(qp, rkey, VA)],
    writeFrames(qp, rkey, 1024, dataOf(8, 4), VA),
  ]
}

const ANSWERS = [
  ...['READ 2: 256 B', 'READ 3: 44 B', 'READ 4 only: 0 B', 'ATOMIC 5: 0', 'ATOMIC 6: 5'],
  ...['READ 7 only: 0 B', 'ACK 8', 'READ 9 only: 0 B', 'ACK 10'],
]

describe('N10: at the wrap of the PSN', () => {
  test.each(Array.from({ length: 13 }, (_, i) => 0x1000000 - i))(
    'a chain that begins at 0x%x is answered, and answered again, as anywhere',
    (begin) => {
      const first = begin & 0xffffff
      const dialogue = new Dialogue({ ...USUAL, expectedPsn: first, pathMtu: 256 }, EXAMPLE)
      const frames = chain(asTestQueuePair(dialogue.queuePair), USUAL.rkey)
      const said = frames.flatMap((own) => lines(dialogue.serve(...own), first))
      expect(said).toEqual(['ACK 1', ...ANSWERS])
      const content = hexOf(dialogue.content())
      const again = lines(dialogue.serve(...frames.flat()), first)
      expect(again.filter((text) => !text.startsWith('ACK'))).toEqual(
        ANSWERS.filter((text) => !text.startsWith('ACK')),
      )
      expect(again.at(-1)).toBe('ACK 10')
      expect(hexOf(dialogue.content())).toBe(content)
    },
  )

  test('requests of the lap before are forgotten: their PSNs mean nothing any more', () => {
    const dialogue = new Dialogue({ ...USUAL, expectedPsn: 0x100, pathMtu: 256 }, EXAMPLE)
    const qp = dialogue.queuePair
    dialogue.serve(...chain(asTestQueuePair(qp), USUAL.rkey).flat())
    // The PSN moves on as by WRITEs, a quarter at a time, once round.
    for (let quarter = 0; quarter < 4; quarter++) {
      qp.expectedPsn = ((qp.expectedPsn + 0x3fffff) & 0xffffff) as typeof qp.expectedPsn
      forgetOld(qp)
    }
    const client = asTestQueuePair(qp)
    for (let i = 0; i < 24; i++) {
      dialogue.serve(...writeFrames(client, USUAL, 0, dataOf(8, i), VA))
    }
    const newest = (qp.expectedPsn - 1) & 0xffffff
    for (let psn = 0x100; psn < 0x10a; psn++) {
      const options = { ...VA, psn }
      const sent = dialogue.serve(...writeFrames(client, USUAL, 0, dataOf(8, 1), options))
      expect(sent.map((one) => one.psn)).toEqual([newest])
      expect(dialogue.serve(flushFrame(client, USUAL, options))).toEqual([])
      expect(dialogue.serve(fetchAddFrame(client, USUAL, 8, 1n, options))).toEqual([])
    }
  })

  test('the message sequence number of every kind of answer wraps', () => {
    const dialogue = new Dialogue({ ...USUAL, expectedPsn: 0, pathMtu: 256 }, EXAMPLE)
    dialogue.queuePair.messageSequence = 0xfffffc
    const frames = chain(asTestQueuePair(dialogue.queuePair), USUAL.rkey)
    const msns = frames.flatMap((own) => dialogue.serve(...own).map(({ msn }) => msn))
    expect(msns.filter((msn) => msn >= 0)).toEqual([
      ...[0xfffffd, 0xfffffe, 0xfffffe, 0xffffff, 0, 1, 2, 3, 4, 5],
    ])
  })
})

/** The same packet over IPv6. */
function overIpv6(frame: Uint8Array): Uint8Array {
  const behind = frame.length - 42 - 12 - 4
  const copy = frameOf({
    ipVersion: 6,
    bth: { opcode: RC_SEND_ONLY, padBytes: 0 },
    payload: new Uint8Array(behind),
  })
  copy.set(frame.slice(42, frame.length - 4), 62)
  writeIcrc(copy)
  return copy
}

test.each(PATH_MTUS)('over IPv6 a chain is answered as over IPv4, at path MTU %i', (mtu) => {
  const one = bytesCard(mtu)
  const { card, bytes } = one
  const said = (qp: TestPeer, envelope: (frame: Uint8Array) => Uint8Array): string[] => {
    const base = qp.psn
    const frames = [
      ...writeFrames(qp, bytes, 512, dataOf(300, 1)),
      readFrame(qp, bytes, 0, 512, 5000),
      flushFrame(qp, bytes),
      atomicWriteFrame(qp, bytes, 8, new Uint8Array(8)),
      fetchAddFrame(qp, bytes, 8, 0n),
      compareSwapFrame(qp, bytes, 8, 0n, 0n),
      ...sendFrames(qp, dataOf(700, 3)),
      ...writeFrames(qp, one.kept, 0, dataOf(5000, 4)),
      ...writeFrames(qp, one.records, 0, dataOf(400, 5), { vaHigh: 1 }),
    ]
    return lines(card.serve(...frames.map(envelope)), base)
  }
  const four = said(one.qp, (frame) => frame)
  expect(four.filter((text) => text.startsWith('NAK'))).toEqual([])
  expect(said(connectIpv6(card, mtu), overIpv6)).toEqual(four)
})

describe('each of the 256 opcodes, as the first of its connection', () => {
  /** A reserved opcode of RC is 0x61, a stranger to RC is not answered (wire-format 3.4). */
  function expectedOf(opcode: number): string {
    const row = OPCODES[opcode]
    if (row === undefined) return opcode < 0x20 ? 'NAK 0x61 0' : ''
    const name = row.name
    if (!name.startsWith('RC ') && !name.startsWith('Perdure ')) return ''
    if (/Response|Acknowledge|PERSIST_ACK|Answer/.test(name)) return ''
    if (/Middle|Last/.test(name)) return 'NAK 0x61 0'
    return 'else'
  }

  test('reserved, out of order, another transport, a response: each has its answer', () => {
    for (let opcode = 0; opcode < 256; opcode++) {
      const dialogue = new Dialogue({ ...USUAL, pathMtu: 256 }, EXAMPLE)
      const bth = { opcode, destQp: USUAL.localQp, psn: USUAL.expectedPsn, ackRequest: true }
      const sent = lines(dialogue.serve(frameOf({ bth })), USUAL.expectedPsn)
      const wanted = expectedOf(opcode)
      const what = `0x${opcode.toString(16)}`
      if (wanted !== 'else') expect(sent, what).toEqual(wanted === '' ? [] : [wanted])
      else expect(sent.length, what).toBe(1)
    }
  })
})

describe('X-1: what was answered is there after a cut, wherever it falls', () => {
  /** A chain over two regions; `cells` says which PSN stored what, where. */
  function stores(one: BytesCard): { frames: Uint8Array[]; cells: [number, number, string][] } {
    const { qp, bytes, kept } = one
    const base = qp.psn
    const cells: [number, number, string][] = []
    const put = (kind: TestPeer, region: 'bytes' | 'kept', n: number): Uint8Array[] => {
      const at = (region === 'bytes' ? BYTES_AT : KEPT_AT) + 64 * n
      cells.push([kind.psn - base, at, hexOf(dataOf(8, n))])
      return writeFrames(kind, one[region], 64 * n, dataOf(8, n))
    }
    const word = (region: 'bytes' | 'kept', n: number): Uint8Array => {
      const at = (region === 'bytes' ? BYTES_AT : KEPT_AT) + 64 * n
      cells.push([qp.psn - base, at, hexOf(dataOf(8, n))])
      return atomicWriteFrame(qp, one[region], 64 * n, dataOf(8, n))
    }
    const frames = [
      ...[...put(qp, 'bytes', 1), ...put(qp, 'kept', 2), ...put(qp, 'bytes', 3)],
      ...[flushFrame(qp, bytes), word('bytes', 4), word('kept', 5), ...put(qp, 'kept', 6)],
      ...[readFrame(qp, bytes, 0, 0, 8), ...put(qp, 'bytes', 7), word('bytes', 8)],
      ...[flushFrame(qp, kept, { placement: 3 }), ...put(qp, 'kept', 9)],
    ]
    return { frames, cells }
  }

  /** PSNs, counted from the first, whose answer promises all that was stored before. */
  const PROMISES = [3, 7, 10]

  function check(one: BytesCard, base: number, sent: readonly Sent[], at: number): void {
    const { cells } = stores(bytesCard(256))
    const acked = Math.max(-1, ...sent.map(({ psn }) => psn - base))
    const promised = Math.max(-1, ...PROMISES.filter((psn) => psn <= acked))
    for (const [psn, place, data] of cells) {
      const kept = place >= KEPT_AT
      if (psn > (kept ? acked : promised)) continue
      const held = hexOf(one.card.nvdimm.durable.slice(place, place + 8))
      expect(held, `PSN ${psn} after a cut at ${at}, answered up to ${acked}`).toBe(data)
    }
  }

  test('the chain in one burst, cut at every command, nothing that is not fenced surviving', () => {
    const whole = bytesCard(256)
    const zero = whole.card.machine.commandCount
    whole.card.serve(...stores(whole).frames)
    const commands = whole.card.machine.commandCount - zero
    expect(commands).toBeGreaterThan(20)
    for (let at = 0; at <= commands; at++) {
      const one = bytesCard(256)
      const base = one.qp.psn
      one.card.machine.armCut(at)
      const sent = one.card.serve(...stores(one).frames)
      cut(one.card.nvdimm, { random: new Random(at), strategy: 'none' })
      check(one, base, sent, at)
    }
  })
})
