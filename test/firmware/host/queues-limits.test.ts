/**
 * The card's side of the host's queues at its limits: full lists, numbers beyond the last, a port
 * that says what no port says (N21, H1, H3).
 */

import { describe, expect, test } from 'vitest'
import { append, copyClean, runAll } from '../../../firmware/board/command-list.ts'
import { DMA } from '../../../firmware/board/fault.ts'
import { FENCE, PORT_PRODUCED } from '../../../firmware/board/hal.ts'
import {
  COMMANDS_MAX,
  COMPLETIONS,
  DOORBELLS,
  HOST_QUEUES,
} from '../../../firmware/board/limits.ts'
import { failHostQueue } from '../../../firmware/burst/queue-contexts.ts'
import { complete, reserveCompletion } from '../../../firmware/host/completion.ts'
import { composeRoom, takeLine } from '../../../firmware/host/compose.ts'
import {
  createQueueNumbers,
  isNumberUsed,
  takeNumber,
} from '../../../firmware/host/queue-numbers.ts'
import { nop, nopHost, openCard } from '../../support/queues/nop-queues.ts'

describe('a list of commands', () => {
  test('has an end, and what is appended behind it is a bug that stops the firmware', () => {
    const { list } = openCard().state
    for (let i = 0; i < COMMANDS_MAX; i++) expect(append(list, FENCE, 0, 0, 0, 0)).toBe(i)
    expect(() => append(list, FENCE, 0, 0, 0, 0)).toThrow('bug: a list holds at most COMMANDS_MAX')
    expect(() => copyClean(list, 0, 0, 0, 0)).toThrow('bug: a list holds at most COMMANDS_MAX')
    expect(list.count).toBe(COMMANDS_MAX)
  })

  test('that has no room for what the host is to be told runs first', () => {
    const { host, list } = openCard().state
    while (list.count < COMMANDS_MAX - 8) append(list, FENCE, 0, 0, 0, 0)
    expect(composeRoom(host, list)).toBe(2)
    runAll(list)
    for (let i = 0; i < COMPLETIONS; i++) takeLine(host, list)
    expect([composeRoom(host, list), list.runs]).toEqual([0, list.runs])
    append(list, FENCE, 0, 0, 0, 0)
    runAll(list)
    // What was told in the run before is told.
    expect(composeRoom(host, list)).toBeGreaterThan(COMPLETIONS / 2)
    while (list.count < COMMANDS_MAX - 3) append(list, FENCE, 0, 0, 0, 0)
    expect(composeRoom(host, list)).toBe(0)
    const { runs } = list
    const again = takeLine(host, list)
    expect([list.runs, list.count]).toEqual([runs + 1, 0])
    expect(takeLine(host, list)).toBeGreaterThan(again)
  })
})

test('N21: what completes into a queue that has failed is told to nobody', () => {
  const { card, state } = openCard()
  const { host, cqs } = nopHost({ card })
  const cq = cqs[0]!
  host.arm(cq)
  host.ring(cq)
  host.run()
  const place = state.host.contexts.placeOf[cq]!
  expect(reserveCompletion(state.host, place)).toBe(true)
  failHostQueue(state, cq, DMA)
  host.run()
  const before = host.zone1(cq).pointer
  complete(state.host, state.list, place)
  host.run()
  expect(host.zone1(cq).pointer).toBe(before)
  expect(host.poll(cq)).toEqual([])
})

test('H1: a port that claims more doorbells than it has room for is believed that many', () => {
  const { card, state } = openCard()
  const { host, sqs, cqs } = nopHost({ card })
  host.post(sqs[0]!, nop())
  host.ring(sqs[0]!)
  state.words[PORT_PRODUCED >> 2]! += 3 * DOORBELLS
  host.run()
  host.ring(sqs[0]!)
  host.run()
  expect(host.poll(cqs[0]!).map(({ unit }) => unit)).toEqual([0])
})

test('a queue number beyond the last is none that is in use', () => {
  const numbers = createQueueNumbers()
  const taken = takeNumber(numbers, HOST_QUEUES)
  expect(isNumberUsed(numbers, taken)).toBe(true)
  for (const number of [HOST_QUEUES, 2 ** 24 - 1]) expect(isNumberUsed(numbers, number)).toBe(false)
})
