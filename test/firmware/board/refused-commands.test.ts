/**
 * A board that does not know a command which nothing can do without: the firmware stops, rather
 * than go on with keys and numbers that nobody has computed.
 */

import { expect, test } from 'vitest'
import { createCommandList } from '../../../firmware/board/command-list.ts'
import { BAD_COMMAND, HASH, KEYSTREAM, OP, RESULT, SECURE } from '../../../firmware/board/hal.ts'
import { random32, stir } from '../../../firmware/board/random.ts'
import type { State } from '../../../firmware/core.ts'
import { boardPrimitives } from '../../../firmware/session/primitives.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import { createQueuePair } from '../../../firmware/transport/queue-pair.ts'
import { secure } from '../../../firmware/transport/tags.ts'
import { openCard } from '../../support/queues/nop-queues.ts'

/** The state of a card whose board does all commands but those. */
function without(refused: number): State {
  const { card, state } = openCard()
  const { facts, memory } = card.machine
  const list = createCommandList({
    ...{ facts, memory },
    run: (count) => {
      if (list.words[OP] !== refused) return card.machine.run(count)
      list.words[RESULT] = BAD_COMMAND
      return 0
    },
  })
  return { ...state, list }
}

test('L6: a board without a stream for the generator draws nothing', () => {
  const state = without(KEYSTREAM)
  stir(state, [1])
  expect(() => random32(state)).toThrow('bug: a board computes the stream of the generator')
})

test('R1-S13: a board without the hash of a handshake hashes nothing', () => {
  const { list } = without(HASH)
  const { hash } = boardPrimitives(list, list.machine.memory)
  expect(() => hash(new Uint8Array(8))).toThrow('bug: a board computes what sessions are made of')
})

test('R1-S15: a board without tags gives a queue pair no keys', () => {
  const state = without(SECURE)
  const qp = createQueuePair(1, 2, {
    ...{ peerNumber: 3, clientHigh: 0, clientLow: 0, pathMtu: 1024, protectionDomain: 0 },
    expectedPsn: 0 as Psn,
  })
  expect(() => secure(state, qp)).toThrow('bug: a board computes tags')
  expect(qp.tagKeys).toBeNull()
})
