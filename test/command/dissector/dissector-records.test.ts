/**
 * What belongs together, as the dissector for Wireshark shows it: request and both answers, times,
 * repetitions, records that were never acknowledged; sessions as what they are; and its table.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import {
  PERSIST_ACK,
  RC_ACKNOWLEDGE,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { dissectorText } from '../../../host-driver/command/capture/dissector/generate.ts'
import { connect } from '../../../host-driver/connect.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { compare } from '../../support/dissector/differences.ts'
import { HAS_TSHARK, type Row, SOURCES, Tshark } from '../../support/dissector/tshark.ts'
import { localParts } from '../../support/driver/local-parts.ts'
import { acknowledgementIn } from '../../support/judges/acknowledgement.ts'
import { ADMIN, CARD, IDENTITY } from '../../support/sessions/peers.ts'
import { type FrameParts, frameOf, writeIcrc } from '../../support/wire/frames.ts'

const openPart = localParts()
const [CLIENT_QP, CARD_QP] = [0x21, 0x11]
const IP_AT = 26
const OPCODE_AT = 42
const PSN_AT = 51

/** A record of 64 bytes into a slot. */
function persist(psn: number, operationLow: number, vaHigh: number): Uint8Array {
  return frameOf({
    bth: { opcode: WRITE_PERSIST_ONLY, destQp: CARD_QP, psn },
    reth: { vaHigh, rkey: 0x1234, length: 64 },
    pweth: { wait: 2, slotAddressed: true, operationLow },
    payload: new Uint8Array(64),
  })
}

/** The frame as it comes from the other end. */
function answer(parts: FrameParts): Uint8Array {
  const frame = frameOf(parts)
  const [from, to] = [u32(frame, IP_AT), u32(frame, IP_AT + 4)]
  putU32(frame, IP_AT, to)
  putU32(frame, IP_AT + 4, from)
  writeIcrc(frame)
  return frame
}

function received(psn: number): Uint8Array {
  return answer({ bth: { opcode: RC_ACKNOWLEDGE, destQp: CLIENT_QP, psn } })
}

function told(psn: number, operationLow: number, status: number): Uint8Array {
  const durable = { all: status === 0, copies: status === 0 ? 2 : 0, mechanism: 1 }
  return answer({
    bth: { opcode: PERSIST_ACK, destQp: CLIENT_QP, psn },
    paeth: { ...durable, status, firstPsn: psn, lastPsn: psn, operationLow, records: 1 },
  })
}

/** What is asked about the frames below. */
const FIELDS = [
  ...['received_in', 'persisted_in', 'refused_in', 'request_in', 'repeats', 'time_to_received'],
  ...['time_to_persisted', 'slot', 'never_durable', 'refused', 'repeated'],
].map((name) => `perdure.${name}`)

/** Times, in µs, and frames: record 1 is durable, 2 comes twice and is refused, 3 is lost. */
const STORY: readonly (readonly [number, Uint8Array])[] = [
  [0, persist(100, 1, 3)],
  [1, persist(101, 2, 4)],
  [10, received(101)],
  [25, told(100, 1, 0)],
  [40, persist(101, 2, 4)],
  [50, told(101, 2, 0x85)],
  [60, persist(102, 3, 5)],
]

function plain(row: Row): Record<string, string> {
  return Object.fromEntries(
    [...row].map(([field, values]) => [field.replace('perdure.', ''), values.join()]),
  )
}

/** What goes over the cable of a card from now on. */
function tapped(local: LocalDpu): Uint8Array[] {
  const frames: Uint8Array[] = []
  local.link.tap = (frame) => {
    frames.push(frame.slice())
  }
  return frames
}

/** Checks that each receipt is shown with the records in its range; how many there are. */
function receipts(frames: readonly Uint8Array[], rows: readonly Row[]): number {
  let found = 0
  for (const [i, frame] of frames.entries()) {
    const ack = acknowledgementIn(frame)
    if (ack === null || ack.batch !== null || ack.isQuery) continue
    const within = frames.slice(0, i).flatMap((one, k) => {
      const psn = u32(one, PSN_AT - 1) & 0xffffff
      const isIn = psn >= ack.firstPsn && psn <= ack.lastPsn
      return isRoce(one) && one[OPCODE_AT] === WRITE_PERSIST_FIRST && isIn ? [k + 1] : []
    })
    expect(rows[i]!.get('perdure.request_in')!.map(Number)).toEqual(expect.arrayContaining(within))
    found += within.length
  }
  return found
}

const isRoce = (frame: Uint8Array): boolean => u16(frame, 36) === 4791
const record = (i: number): Uint8Array => new Uint8Array(500 + 100 * i).fill(i)

describe.skipIf(!HAS_TSHARK)('the dissector, in tshark (Debian: tshark)', () => {
  let tshark: Tshark
  beforeAll(() => {
    tshark = new Tshark()
    tshark.install(dissectorText(SOURCES))
  })
  afterAll(() => tshark.close())

  function story(): string {
    const frames = STORY.map(([, frame]) => frame)
    return tshark.capture(
      'story.pcap',
      frames,
      STORY.map(([at]) => at),
    )
  }

  test('shows request and answers together, and what was never acknowledged', () => {
    const rows = tshark.rows(story(), FIELDS, '-2').map(plain)
    const refused = { time_to_received: '0.000009000', received_in: '3', slot: '4' }
    expect(rows).toEqual([
      {
        ...{ slot: '3', received_in: '3', persisted_in: '4' },
        ...{ time_to_received: '0.000010000', time_to_persisted: '0.000025000' },
      },
      { ...refused, refused_in: '6' },
      { request_in: '1,2', time_to_received: '0.000010000,0.000009000' },
      { request_in: '1', time_to_persisted: '0.000025000' },
      { ...refused, refused_in: '6', repeats: '2', repeated: '1' },
      { request_in: '2', refused: '1' },
      { slot: '5', never_durable: '1' },
    ])
  })

  test('prints the table of times where that is asked for', () => {
    const file = story()
    const printed = tshark.run('-q', '-r', file, '-o', 'perdure.table:TRUE').split('\n')
    const rows = printed.map((line) => line.trim().split(/\s+/)).slice(2, -1)
    expect(rows).toEqual([
      [...['WRITE_PERSIST', '3', '192'], ...['9.0', '10.0', '10.0', '25.0', '25.0', '25.0', '2']],
    ])
    expect(tshark.run('-q', '-r', file)).toBe('')
  })

  test('says that no ICRC was looked at where that is asked for', () => {
    const off = ['-o', 'perdure.check_icrc:FALSE']
    const rows = tshark.rows(story(), ['perdure.icrc', 'perdure.icrc.status'], ...off)
    expect(rows.map((row) => [...row.keys()])).toEqual(STORY.map(() => ['perdure.icrc']))
  })

  test('agrees with the receipts of records, one by one and in batches', async () => {
    const local = await openPart()
    const frames = tapped(local)
    const dpu = await connect(local.wire, { seed: 3, warn: () => {}, pathMtu: 256 })
    await dpu.format()
    const region = await dpu.provision({ name: 'orders', slots: 64, capacity: 1000 })
    await Promise.all([0, 1, 2, 3, 4].map((i) => region.persist(i, record(i)).persisted))
    const batch = region.batch({ condition: 'inOrder' })
    for (let i = 0; i < 5; i++) batch.persist(8 + i, record(i))
    await batch.commit()
    await region.read(9)
    await region.watch({ blockBytes: 8192 })
    await dpu.close()
    const file = tshark.capture('records.pcap', frames)
    const compared = compare(tshark, file, frames)
    expect(compared.differences).toEqual([])
    expect(compared.malformed).toEqual([])
    const rows = tshark.rows(file, ['perdure.op', ...FIELDS, 'perdure.region'], '-2')
    const requests = rows.filter((row, i) => row.has('perdure.slot') && isRoce(frames[i]!))
    expect(requests).toHaveLength(10)
    for (const row of requests) {
      expect(row.get('perdure.region')).toEqual(['orders'])
      const at = Number(row.get('perdure.persisted_in')![0]) - 1
      expect(acknowledgementIn(frames[at]!)).toMatchObject({ status: 0 })
    }
    expect(rows.some((row) => row.has('perdure.never_durable'))).toBe(false)
    expect(compared.seen.get('memory.kind')!.size).toBeGreaterThan(0)
    expect([...(compared.seen.get('batch.count') ?? [])]).toEqual(['5'])
    expect(receipts(frames, rows)).toBeGreaterThan(0)
  })

  test('shows sessions as they are: sealed calls, packets with tags, and no guess', async () => {
    const local = await openPart({ identity: IDENTITY })
    const frames = tapped(local)
    const options = { seed: 5, key: ADMIN.secret, cardKey: CARD.public, warn: () => {} }
    const dpu = await connect(local.wire, { ...options, pathMtu: 256 })
    await dpu.format()
    const region = await dpu.provision({ name: 'records', slots: 8, capacity: 1000 })
    for (let i = 0; i < 4; i++) await region.persist(i, record(i)).persisted
    for (let i = 0; i < 4; i++) expect((await region.read(i)).data).toEqual(record(i))
    await dpu.close()
    const file = tshark.capture('session.pcap', frames)
    const { differences, malformed } = compare(tshark, file, frames)
    expect([differences, malformed]).toEqual([[], []])
    const names = ['opcode', 'source_qp', 'tag', 'sealed', 'region', 'persisted_in', 'slot']
    const asked = names.map((name) => `perdure.${name}`)
    const rows = tshark.rows(file, asked, '-2')
    const packets = rows.filter((row) => row.has('perdure.opcode') && !row.has('perdure.source_qp'))
    expect(packets.length).toBeGreaterThan(20)
    expect(packets.filter((row) => !row.has('perdure.tag'))).toEqual([])
    const calls = rows.filter((row) => row.has('perdure.source_qp'))
    expect(calls.filter((row) => row.has('perdure.sealed')).length).toBeGreaterThan(4)
    // The names of regions are sealed, and nothing else tells them.
    expect(rows.filter((row) => row.has('perdure.region'))).toEqual([])
    const records = rows.filter((row) => row.has('perdure.slot'))
    expect(records).toHaveLength(4)
    expect(records.every((row) => row.has('perdure.persisted_in'))).toBe(true)
  })
})
