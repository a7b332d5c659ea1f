/**
 * Answers that a requester cannot have asked for, or not yet: nothing of them is believed, and what
 * is believed is no more than they say.
 */

import { describe, expect, test } from 'vitest'
import { takeResponse } from '../../../firmware/transport/completer.ts'
import {
  FLUSH,
  joinBatch,
  PERSIST_QUERY,
  post,
  unresolved,
  WRITE,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../../firmware/transport/sender.ts'
import { writeAeth } from '../../../firmware/wire/aeth.ts'
import { OPCODES, PERSIST_ACK, RC_WRITE_ONLY } from '../../../firmware/wire/opcode.ts'
import { blankPweth } from '../../../firmware/wire/persist.ts'
import { blankPaeth } from '../../../firmware/wire/persist-ack.ts'
import {
  answer,
  ask,
  durable,
  executed,
  INCARNATION,
  peer,
  persist,
  response,
  told,
} from '../../support/peers/requester-peer.ts'
import { writePaeth } from '../../support/wire/headers.ts'

const NAK_ACCESS = 0x62
/** A receiver that is not ready. */
const RNR = 0x20
const MEDIA = 0x81

describe('what is not believed', () => {
  test('a request that was sent to a requester is a ghost', () => {
    const p = peer()
    persist(p, 1)
    const [bytes, packet] = response(RC_WRITE_ONLY, 100)
    packet.row = OPCODES[RC_WRITE_ONLY]!
    takeResponse(p.q, bytes, packet, 0)
    expect(p.q.counts.ghosts).toBe(1)
    expect(unresolved(p.q)).toBe(1)
  })

  test('an answer to a requester that has failed is a ghost', () => {
    const p = peer()
    persist(p, 1)
    answer(p, 100, NAK_ACCESS)
    const { ghosts } = p.q.counts
    answer(p, 100)
    expect(p.story).toEqual(['REM_ACCESS_ERR 1'])
    expect(p.q.counts.ghosts).toBe(ghosts + 1)
  })

  test('D-5: a PERSIST_ACK whose AETH is no acknowledgement makes nothing durable', () => {
    const p = peer()
    persist(p, 1)
    const [bytes, packet] = response(PERSIST_ACK, 100)
    writeAeth(bytes, packet.row!.aethAt, { syndrome: RNR, msn: 1 })
    const paeth = { ...blankPaeth(), incarnation: INCARNATION, copies: 2, mechanism: 1 }
    const range = { firstPsn: 100, lastPsn: 100, operationLow: 1, all: true }
    writePaeth(bytes, packet.row!.paethAt, { ...paeth, ...range })
    takeResponse(p.q, bytes, packet, 0)
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(1)
  })

  test('D-6: a record that was not sent yet is not durable, whoever knows its operation', () => {
    const p = peer({ window: 4 })
    for (let tag = 1; tag <= 6; tag++) persist(p, tag)
    durable(p, { lastPsn: 104, operationLow: 5 }, 100)
    expect(p.story.filter((line) => line.startsWith('SUCCESS'))).toEqual([])
    expect(p.q.counts.ghosts).toBe(1)
  })

  test('what a query says of the operation with another high half is not its answer', () => {
    const p = peer()
    ask(p, PERSIST_QUERY, 1)
    told(p, 100, { operationHigh: 1, operationLow: 1 })
    expect(p.story).toEqual([])
    expect(p.q.counts.ghosts).toBe(1)
    told(p, 100, { operationLow: 1 })
    expect(p.story).toEqual(['SUCCESS 1'])
  })
})

describe('what is believed, and no more', () => {
  test('a query that was refused is an error that says why', () => {
    const p = peer()
    ask(p, PERSIST_QUERY, 1)
    told(p, 100, { operationLow: 1, status: MEDIA })
    expect(p.story).toEqual(['GENERAL_ERR 1 0x81'])
  })

  test('P2-5: of two plain WRITEs only the one in the range hears how it became durable', () => {
    const p = peer()
    ask(p, WRITE, 1)
    ask(p, WRITE, 2)
    durable(p, { firstPsn: 101, lastPsn: 101, copies: 2, mechanism: 3 })
    expect(p.results.get(1)).toMatchObject({ status: 'SUCCESS', copies: 0 })
    expect(p.results.get(2)).toMatchObject({ status: 'SUCCESS', copies: 2 })
  })
})

describe('the READ that follows a FLUSH towards Linux', () => {
  test('that is refused while its FLUSH waits says why the FLUSH failed', () => {
    const p = peer({ linuxPeer: true })
    ask(p, FLUSH, 1)
    answer(p, 101, NAK_ACCESS)
    expect(p.story).toEqual(['REM_ACCESS_ERR 1'])
  })

  test('that is refused behind a FLUSH that is done fails what comes next', () => {
    const p = peer({ linuxPeer: true })
    persist(p, 1)
    ask(p, FLUSH, 2)
    persist(p, 3)
    answer(p, 100)
    executed(p, 101)
    answer(p, 102, NAK_ACCESS)
    const ended = p.story.filter((line) => !line.startsWith('received'))
    expect(ended).toEqual(['SUCCESS 2', 'WR_FLUSH_ERR 1', 'REM_ACCESS_ERR 3'])
  })
})

test('a requester with an acknowledgement timeout of 0 waits forever (IBTA 9.7.6.1.3)', () => {
  const p = peer({ ackTimeoutCode: 0 })
  ask(p, WRITE, 1)
  expect(nextTimerUs(p.q)).toBe(Infinity)
})

test('G2-3: the last record of a batch asks itself, though another record follows it', () => {
  const p = peer({ persistTimeoutUs: 1000 })
  const request = post(p.q, WRITE_PERSIST, 1, 64, 0, 1)!
  const batch = { batch: true, oneStatus: true, batchId: 5, batchIndex: 0, batchCount: 2 }
  joinBatch(request, { ...blankPweth(), ...batch })
  pump(p.q, 0)
  persist(p, 2)
  answer(p, 101)
  durable(p, { lastPsn: 101, operationLow: 2 })
  const before = p.sent.length
  for (let i = 0; i < 5 && p.sent.length === before; i++) tick(p.q, nextTimerUs(p.q))
  expect(p.sent.slice(before).map(({ psn }) => psn)).toEqual([100])
})
