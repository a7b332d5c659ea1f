/**
 * Everything that was recorded between two Linux machines, with our core in the server's place: the
 * client's requests go in as they were captured, and what comes out is what the Linux server
 * answered, field by field, in the same order.
 *
 * What the Linux server sent of its own accord is a requester's work, and so is all that the client
 * sent: both are held by our requester.
 */

import { describe, expect, test } from 'vitest'
import { RECEIVES } from '../../firmware/board/limits.ts'
import { CM_REP } from '../../firmware/wire/cm.ts'
import {
  USAGE_FLUSH_PERSISTENT as FLUSH_PERSISTENT,
  USAGE_FLUSH_VISIBILITY as FLUSH_VISIBILITY,
  USAGE_WRITE_DESTINATION as WRITE_DESTINATION,
} from '../../firmware/wire/librpma.ts'
import { KIND_BYTES } from '../../firmware/wire/management.ts'
import { RC_SEND_FIRST } from '../../firmware/wire/opcode.ts'
import {
  descriptorIn,
  forCard,
  framesOf,
  messageIn,
  portOf,
  rejIn,
  repIn,
} from '../support/wire/captured-cm.ts'
import { CONNECTED, heldSession, serviceIn } from '../support/wire/captured-session.ts'
import { conversationOf, heldByRequester } from '../support/wire/captures.ts'
import { messagesOf, publish } from '../support/wire/cm.ts'
import type { Conversation, Sent } from '../support/wire/conversation.ts'
import { fieldsOf } from '../support/wire/dialogue.ts'
import { frameOf } from '../support/wire/frames.ts'
import { type Ask, ENGINES, granted, openCard, Replay } from '../support/wire/replay.ts'
import { CAPTURES } from '../support/wire/vectors.ts'

const CONVERSATIONS = CAPTURES.flatMap(({ name }) => conversationOf(name) ?? [])

/** In the private data of a librpma example: the usage bits, and "direct write to pmem". */
const LIBRPMA_USAGE = 24
const LIBRPMA_DIRECT = 25

const NAMED = CONVERSATIONS.map((conversation) => [conversation.capture, conversation] as const)

/** Is it an RNR NAK? */
function isNotReady(answer: Sent | undefined): boolean {
  return answer !== undefined && answer.syndrome >> 5 === 1
}

/** Takes every receive entry of the card, by messages that are only begun. */
function takeReceives(ask: Ask, card: Conversation): void {
  const payload = new Uint8Array(256)
  for (let i = 0; i <= RECEIVES; i++) {
    const { number: destQp, psn } = card.connect(payload.length)
    const [answer] = ask(frameOf({ bth: { opcode: RC_SEND_FIRST, destQp, psn }, payload }))
    if (isNotReady(answer)) return
  }
  throw new Error('there are more receives than there are')
}

describe.each(ENGINES)('with the Linux server replaced by a card, in %s', (engine) => {
  test.each(NAMED)('%s is answered as it was recorded', async (_, conversation) => {
    const { ask, card, dispose } = await openCard(engine)
    const { beginning } = conversation
    const replay = new Replay(ask, beginning, granted(ask, card, beginning))
    const recorded = conversation.frames.filter((frame) => !frame.fromClient && frame.isAnswer)
    let next = 0
    let requests = 0
    for (const frame of conversation.frames) {
      if (!frame.fromClient || frame.isAnswer) continue
      requests += 1
      const what = `request ${requests}: ${frame.packet.row!.name}, PSN ${frame.psn}`
      if (next > 0 && isNotReady(recorded[next]) && !isNotReady(recorded[next - 1])) {
        takeReceives(ask, card)
      }
      for (const answer of replay.serve(frame.bytes)) {
        expect(answer, what).toEqual(fieldsOf(recorded[next]!))
        next += 1
      }
    }
    expect(next).toBe(recorded.length)
    expect(next).toBeGreaterThan(0)
    expect(card.counter('LINUX_FLUSH_ICRC')).toBe(conversation.linuxFlushes)
    dispose()
  })
})

describe.each(ENGINES)('from REQ to DREP, in %s', (engine) => {
  test.each(CONNECTED)('%s: the Linux client connects, is served, and leaves', async (name) => {
    const { ask, card, dispose } = await openCard(engine)
    card.format()
    const region = card.provision({ name: 'bytes', kind: KIND_BYTES, length: 65536 })
    const { port, isServed } = serviceIn(name)
    // The port that nobody listened on is published by nobody here.
    if (isServed) expect(publish(card, { port }).fault).toBe('PASS')
    const held = heldSession(ask, name, region.rkey)
    expect(held.card).toEqual(held.server)
    expect(held.card.messages.length).toBeGreaterThan(0)
    dispose()
  })
})

test('a port that nobody published is refused for the reason that Linux gave', async () => {
  const [name] = CONNECTED.filter((one) => one.includes('reject'))
  const [req, rej] = framesOf(name!).map((frame) => messageIn(frame)!)
  const { ask, dispose } = await openCard('node')
  const [answer] = messagesOf(ask(forCard(req!, null)))
  expect(rejIn(answer!).reason).toBe(rejIn(rej!).reason)
  expect(rejIn(answer!).message).toBe(rejIn(rej!).message)
  dispose()
})

test('the descriptor that librpma gets says of our region what Linux said of its own', async () => {
  for (const name of CONNECTED.filter((one) => one.includes('rpma05'))) {
    const steps = framesOf(name).flatMap((frame) => messageIn(frame) ?? [])
    const linux = repIn(steps.find(({ attribute }) => attribute === CM_REP)!)
    const { ask, card, dispose } = await openCard('node')
    card.format().provision({ name: 'bytes', kind: KIND_BYTES, length: 65536 })
    publish(card, { port: portOf(steps[0]!) })
    const ours = repIn(messagesOf(ask(forCard(steps[0]!, null)))[0]!)
    const used = WRITE_DESTINATION | FLUSH_VISIBILITY | FLUSH_PERSISTENT
    expect(descriptorIn(ours).usage & used).toBe(linux.privateData[LIBRPMA_USAGE]! & used)
    expect(ours.privateData.slice(2, 4)).toEqual(linux.privateData.slice(2, 4))
    expect(ours.privateData[LIBRPMA_DIRECT]).toBe(linux.privateData[LIBRPMA_DIRECT])
    expect(ours.rnrRetryCount).toBe(linux.rnrRetryCount)
    dispose()
  }
})

describe('with our requester in the place of a Linux one', () => {
  test.each(NAMED)('the client of %s sends what was recorded', (_, conversation) => {
    const { recorded, sent, ended, posted } = heldByRequester(conversation, true)
    expect(sent).toEqual(recorded)
    const { capture } = conversation
    if (capture.includes('nak-psn-skew')) expect(ended).toEqual([])
    else if (capture.includes('nak')) expect(ended).toEqual(['REM_ACCESS_ERR'])
    else expect(ended.every((status) => status === 'SUCCESS')).toBe(true)
    // The last SEND of the long recordings never found a receive.
    const open = capture.includes('golden') ? 1 : 0
    if (!capture.includes('nak')) expect(ended.length).toBe(posted - open)
  })

  test('the server of rping, which reads, writes and sends, sends what was recorded', () => {
    const rping = CONVERSATIONS.find(({ capture }) => capture.includes('rping'))!
    const { recorded, sent, ended, posted } = heldByRequester(rping, false)
    expect(sent).toEqual(recorded)
    expect(posted).toBeGreaterThan(10)
    expect(ended).toEqual(Array.from({ length: posted }, () => 'SUCCESS'))
  })
})

test('both kinds of FLUSH were recorded, with the standard ICRC and with that of Linux', () => {
  const flushes = CONVERSATIONS.map(({ capture, linuxFlushes }) => [capture, linuxFlushes] as const)
  expect(flushes.some(([, count]) => count > 0)).toBe(true)
  for (const [capture, count] of flushes) expect(count > 0).toBe(capture.includes('stock'))
})

test('under strictIcrc the FLUSH of Linux is dropped and counted, no other one', async () => {
  for (const conversation of CONVERSATIONS) {
    const { linuxFlushes, frames } = conversation
    const flush = frames.find((frame) => frame.opcode === 0x1c)
    if (flush === undefined || conversation.capture.includes('nak')) continue
    const { ask, card, dispose } = await openCard('node', { strictIcrc: true })
    const beginning = { ...conversation.beginning, expectedPsn: flush.psn }
    const replay = new Replay(ask, beginning, granted(ask, card, beginning))
    const answers = replay.serve(flush.bytes)
    expect(answers.length, conversation.capture).toBe(linuxFlushes > 0 ? 0 : 1)
    expect(card.counter('ICRC')).toBe(linuxFlushes > 0 ? 1 : 0)
    expect(card.counter('LINUX_FLUSH_ICRC')).toBe(0)
    dispose()
  }
})
