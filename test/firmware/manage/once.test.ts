/** Which answers to calls that are executed once are kept, and for whom. */

import { expect, test } from 'vitest'
import { PASS } from '../../../firmware/board/fault.ts'
import { type Answer, answeredBefore, keepAnswer } from '../../../firmware/manage/once.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { Stranger } from '../../support/peers/strangers.ts'

const ANSWERS = 32

function requestOf(transactionLow: number, attribute: number = mad.ATTRIBUTE_PROBE): mad.Mad {
  return { ...mad.blankMad(), transactionHigh: 7, transactionLow, attribute }
}

/** Answers that are kept, as the calls come that `asks` names: their sources. */
function kept(asks: readonly string[]): { list: Answer[]; has: (i: number) => boolean } {
  const list: Answer[] = []
  asks.forEach((source, i) => {
    const body = new Uint8Array(mad.MAD_BODY_BYTES).fill(i)
    keepAnswer(list, source, requestOf(i), PASS, body, 0)
  })
  return { list, has: (i) => answeredBefore(list, asks[i]!, requestOf(i)) !== undefined }
}

test('an answer is given to who had it, for the same transaction and attribute', () => {
  const list: Answer[] = []
  keepAnswer(list, 'a', requestOf(1), PASS, new Uint8Array(mad.MAD_BODY_BYTES).fill(5), 0)
  expect(answeredBefore(list, 'a', requestOf(1))!.body[0]).toBe(5)
  expect(answeredBefore(list, 'b', requestOf(1))).toBeUndefined()
  expect(answeredBefore(list, 'a', requestOf(2))).toBeUndefined()
  expect(answeredBefore(list, 'a', requestOf(1, mad.ATTRIBUTE_PLACE))).toBeUndefined()
})

test('however many calls one source makes, others lose no answer', () => {
  for (let own = 1; own <= ANSWERS / 2; own++) {
    const asks = [...Array(own).fill('victim'), ...Array(500).fill('eve')]
    const { list, has } = kept(asks)
    expect(list).toHaveLength(ANSWERS)
    for (let i = 0; i < own; i++) expect(has(i), `${i} of ${own}`).toBe(true)
    // Of its own the newest are kept.
    expect([has(asks.length - 1), has(asks.length - (ANSWERS - own))]).toEqual([true, true])
  }
})

test('among many sources the oldest answer goes, and each is kept for 32 calls', () => {
  const asks = Array.from({ length: 100 }, (_, i) => `forged ${i}`)
  const { has } = kept(asks)
  expect(asks.map((_, i) => has(i))).toEqual(asks.map((_, i) => i >= 100 - ANSWERS))
})

test('who asks under the transaction of another neither hears nor spoils its answer', () => {
  const card = new TestCard(1 << 18).format()
  const [one, other] = [new Stranger(card, 10), new Stranger(card, 11)]
  for (const name of ['first', 'second']) card.provision({ name })
  // What a Conversation asks has the transactions 1, 2, …: both ask under the same ones.
  const remove = (who: Stranger, name: string): string =>
    who.manage(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode(name), mad.REGION_NAME)
    }).fault
  expect(remove(one, 'first')).toBe('PASS')
  expect(remove(other, 'first')).toBe('NO_REGION')
  expect(remove(other, 'second')).toBe('PASS')
})
