/**
 * What an acknowledgement may be believed, on a network that loses, doubles, delays and reorders:
 * a client with two operations in flight at a responder that receives first and commits later.
 *
 * Source 2 tells "received" from "durable" by counting the ACKs of a PSN. Here that rule is played
 * against every schedule of the network, and fails in both ways that it can; the product's rule is
 * played against the same schedules, by the product's own requester, and by its own core.
 */

import { describe, expect, test } from 'vitest'
import { type Findings, type Model, walk, walkUnbounded } from '../../support/acks/ack-model.ts'
import { CardResponder } from '../../support/acks/ack-model-card.ts'
import {
  ackName,
  type Plan,
  persistAckName,
  ShippedClient,
  type ShippedOptions,
  SourceClient,
} from '../../support/acks/ack-model-client.ts'
import { LateResponder } from '../../support/acks/ack-model-responder.ts'
import { ThroughResponder } from '../../support/acks/ack-model-through.ts'
import { THOROUGH, thoroughIf } from '../../support/run/thorough.ts'

// Millions of states in one test: a busy machine takes its time.
const PLAN: Plan = { firstPsn: 0x64, packets: [1, 1] }

const PLANS: readonly (readonly [string, Plan])[] = [
  ['two packets', PLAN],
  ['across the end of the PSNs', { firstPsn: 0xffffff, packets: [1, 1] }],
  ['the first of two packets, across the end', { firstPsn: 0xffffff, packets: [2, 1] }],
]

function source(plan: Plan, asksAgain = false): Model {
  const responder = new LateResponder(plan, 'source', false)
  return { client: new SourceClient(plan, asksAgain), responder }
}

function ours(plan: Plan, options: ShippedOptions = {}): Model {
  const client = new ShippedClient(plan, options)
  return { client, responder: new LateResponder(plan, 'ours') }
}

/** The shipped requester and the shipped core. */
function shipped(plan: Plan, fences = true): Model & { readonly responder: CardResponder } {
  const responder = new CardResponder(plan, fences)
  const { names, incarnation } = responder
  const client = new ShippedClient(plan, { decode: names.decode, incarnation })
  return { client, responder, bursts: true }
}

/** The same with a region in the host's memory, which the host's CPU writes back. */
function through(writesBack = true): Model {
  const responder = new ThroughResponder(writesBack)
  const { names, incarnation, plan } = responder
  const client = new ShippedClient(plan, { decode: names.decode, incarnation })
  return { client, responder }
}

function tell(name: string, found: Findings): void {
  const { states, transitions, falseDurability, stuck } = found
  console.log(
    `${name}: ${states} states, ${transitions} transitions, ` +
      `${falseDurability} with false durability, ${stuck} stuck`,
  )
}

function expectSound(name: string, found: Findings): void {
  tell(name, found)
  expect(found.falseStory).toBe('')
  expect(found.stuckStory).toBe('')
  expect(found).toMatchObject({ falseDurability: 0, stuck: 0, unsure: 0, disorder: 0 })
}

describe('source 2: the first ACK of a PSN says received, the second one durable', () => {
  test('G2-1, P2-26: one doubled ACK is false durability', () => {
    const found = walk(source(PLAN), 4)
    tell('source 2, up to 4 faults', found)
    expect(found.falseDurability).toBeGreaterThan(0)
    console.log(found.falseStory)
    expect(found.falseStory.split('\n').map((line) => line.slice(5))).toEqual([
      'both operations are posted; the client sends ' +
        'WRITE_PERSIST 1 (PSN 0x000064), WRITE_PERSIST 2 (PSN 0x000065)',
      'WRITE_PERSIST 1 (PSN 0x000064) arrives; the responder sends ACK 0x000064',
      'ACK 0x000064 is doubled',
      'ACK 0x000064 arrives; the client reports 1 received',
      'ACK 0x000064 arrives; the client reports 1 DURABLE',
      '(1 fault)',
    ])
  })

  test('G2-1, P2-26: one lost ACK leaves the client waiting forever', () => {
    const found = walk(source(PLAN), 4)
    expect(found.stuck).toBeGreaterThan(0)
    console.log(found.stuckStory)
    expect(found.stuckStory).toContain('ACK 0x000064 is lost')
    expect(found.stuckStory).toContain('(1 fault)')
    expect(found.stuckStory).toContain('the client waits forever for 1 (received)')
  })

  test('G2-1: without a fault, one ACK for two packets leaves it waiting as well', () => {
    const found = walk({ ...source(PLAN), bursts: true }, 0)
    console.log(found.stuckStory)
    expect(found.stuck).toBeGreaterThan(0)
    expect(found.stuckStory).toContain('arrive together; the responder sends ACK 0x000065')
    expect(found.stuckStory).toContain('(0 faults)')
  })

  test('G2-3: a timer that asks again ends the waiting, by lying', () => {
    const found = walk({ ...source(PLAN, true), patient: true }, 1)
    tell('source 2 with a timer, one fault', found)
    expect(found.stuck).toBe(0)
    expect(found.falseDurability).toBeGreaterThan(0)
  })

  test('G2-4: an ACK of the same PSN from 16,777,216 packets ago is false durability', () => {
    const found = walk({ ...source(PLAN), stale: [ackName(0x64)] }, 0)
    console.log(found.falseStory)
    expect(found.falseDurability).toBeGreaterThan(0)
    expect(walk(source(PLAN), 0)).toMatchObject({ falseDurability: 0, stuck: 0 })
  })
})

describe('our rule: an ACK says what it is, and names the operation', () => {
  test(
    'G2-1, G2-3, D-5: no schedule of up to 8 faults makes it lie or leaves it waiting',
    THOROUGH,
    () => {
      const responder = new LateResponder(PLAN, 'ours', false)
      const found = walk({ client: new ShippedClient(PLAN), responder, patient: true }, 8)
      expectSound('the shipped requester, up to 8 faults', found)
      expect(found.states).toBeGreaterThan(1_000_000)
    },
  )

  for (const [name, plan] of PLANS) {
    test(
      `G2-1, G2-2, G2-4, D-5: nor does any schedule of any length: ${name}`,
      thoroughIf(name.startsWith('the first')),
      () => {
        const model = ours(plan)
        const found = walkUnbounded(model)
        expectSound(`the shipped requester, any number of faults, ${name}`, found)
        expect(found.radius).toBeGreaterThan(8)
        // What was found with a number of faults is among it.
        for (const pair of walk(model, 2).pairs) expect(found.pairs).toContain(pair)
      },
    )

    test(
      `G2-2, G2-4, G2-5, D-5: nor with the shipped core, cut at every command: ${name}`,
      THOROUGH,
      () => {
        const model = shipped(plan)
        expectSound(`requester and core, any number of faults, ${name}`, walkUnbounded(model))
        expectSound(`requester and core, up to 2 faults, ${name}`, walk(model, 2))
        expect(model.responder.duplicates).toBeGreaterThan(20)
        expect(model.responder.rewrites).toBe(0)
      },
    )
  }

  test(
    'P2-21, P2-24, G2-2: nor with core and flush agent, which commit after the answer',
    THOROUGH,
    () => {
      const model = through()
      const found = walkUnbounded(model)
      expectSound('requester, core and flush agent, any number of faults', found)
      expectSound('requester, core and flush agent, up to 2 faults', walk(model, 2))
      expect(found.beliefs).toContain('3/2/0')
    },
  )

  test('P2-27, P2-28: received before durable; persistence of one overlaps the next', () => {
    const found = walkUnbounded(ours(PLAN))
    expect(found.disorder).toBe(0)
    // Both received and none durable; the second durable before the first.
    expect(found.beliefs).toContain('3/0/0')
    expect(found.beliefs).toContain('3/2/0')
  })

  test('G2-5: a failed flush and a power cut are never durable, and end with an error', () => {
    const found = walkUnbounded(ours(PLAN))
    expect(found.beliefs).toContain('3/0/3')
    expect(found.beliefs).toContain('1/1/2')
    expect(found.falseDurability).toBe(0)
  })

  test('D-6, G2-4: answers of another time count for nothing: old ACKs, operations, lives', () => {
    const stale = [
      ackName(0x64),
      ackName(0x65),
      persistAckName(0x64, 0x64, 999),
      persistAckName(0x64, 0x65, 999),
      `${persistAckName(0x64, 0x64, 1)} incarnation 6`,
      `${persistAckName(0x64, 0x65, 2)} incarnation 6`,
    ]
    expectSound('answers of another time', walkUnbounded({ ...ours(PLAN), stale }))
  })
})

describe('the model notices', () => {
  test('an acknowledgement in front of its fence', THOROUGH, () => {
    const found = walkUnbounded(shipped(PLAN, false))
    console.log(found.falseStory)
    expect(found.falseDurability).toBeGreaterThan(0)
  })

  test('a host that says it has written back, and has not', THOROUGH, () => {
    expect(walkUnbounded(through(false)).falseDurability).toBeGreaterThan(0)
  })

  test('a client that never asks again for a PERSIST_ACK', () => {
    const found = walk(ours(PLAN, { persistTimeoutUs: Number.POSITIVE_INFINITY }), 1)
    expect(found.stuck).toBeGreaterThan(0)
    expect(found.stuckStory).not.toBe('')
  })

  test('a PERSIST_ACK that names the operation before it was carried out', () => {
    const stale = [persistAckName(0x64, 0x64, 1)]
    expect(walkUnbounded({ ...ours(PLAN), stale }).falseDurability).toBeGreaterThan(0)
  })
})
