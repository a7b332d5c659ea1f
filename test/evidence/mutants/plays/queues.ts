/**
 * The host's side: its queues, which may hold anything, and its memory, in which records lie (X-4,
 * P2-12 to P2-27, P3-12 to P3-27; faults H1 to H6).
 *
 * Invariant: what is judged is what the host can see: completions in its memory, where and
 * when; and, of records in its memory, what a start finds when the power went at any command.
 */

import { Random } from '../../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON } from '../../../../boards/emulator/host/host-memory.ts'
import { taggedDoorbell } from '../../../../firmware/board/doorbell-tag.ts'
import { WC_SUCCESS } from '../../../../firmware/host/element.ts'
import * as info from '../../../../firmware/host/queue-info.ts'
import { HOST_DATA_AT, PLACEMENT_THROUGH } from '../../../../firmware/medium/region.ts'
import {
  believe,
  cutPower,
  type Placed,
  placed,
  restarted,
  work,
} from '../../../support/cards/placed.ts'
import { dataOf, persistAcks, persistFrames } from '../../../support/cards/test-card.ts'
import { sameBytes } from '../../../support/judges/oracle.ts'
import {
  type LocalQueue,
  localQueue,
  play as post,
  readBack,
  record,
} from '../../../support/queues/local-queue.ts'
import { type NopHost, nop, nopHost } from '../../../support/queues/nop-queues.ts'
import { elementOf } from '../../../support/queues/queue-host.ts'
import type { Play } from '../killer.ts'

/** A host that takes no completions: none is overwritten, and the queue that met it is over. */
function fullCompletions(): string | null {
  const { host, cqs, sqs } = nopHost({ entries: 4, depth: 16 })
  for (let i = 0; i < 7; i++) host.post(sqs[0]!, nop())
  host.ring(sqs[0]!)
  host.run()
  const units = host.poll(cqs[0]!).map(({ unit }) => unit)
  if (units.join() !== '0,1,2,3') return `completions of units ${units}`
  return host.zone1(cqs[0]!).state === info.QUEUE_ERROR ? null : 'a full queue goes on'
}

/** A pointer further ahead than the ring is deep is not believed; nothing is fetched. */
function pointerBeyond(): string | null {
  for (const beyond of [17, 1000, 2 ** 31, 2 ** 32 - 1]) {
    const { host, cqs, sqs } = nopHost({ depth: 16 })
    for (let i = 0; i < 16; i++) host.store(sqs[0]!, nop())
    host.setPointer(sqs[0]!, beyond)
    host.ring(sqs[0]!, 'fifo')
    host.run()
    if (host.poll(cqs[0]!).length > 0) return `pointer ${beyond} of a ring of 16 is believed`
    if (host.zone1(sqs[0]!).state !== info.QUEUE_ERROR) return `pointer ${beyond}: it goes on`
  }
  return null
}

/** A doorbell that carries a pointer proves nothing: what is in memory counts. */
function doorbellAhead(): string | null {
  const { host, cqs, sqs } = nopHost()
  host.post(sqs[0]!, nop())
  host.store(sqs[0]!, nop())
  host.ring(sqs[0]!, 'fifo with pointer', 2)
  host.run()
  const { length } = host.poll(cqs[0]!)
  return length === 1 ? null : `${length} elements are executed, and one was stored`
}

/** A send queue of a host that asks for trust; its context is cached, and unit 0 is done. */
function trusting(): { made: NopHost; unitsOf: () => string } {
  const made = nopHost({ trust: true })
  const { host, cqs, sqs } = made
  const unitsOf = (): string => {
    host.run()
    return host
      .poll(cqs[0]!)
      .map(({ unit, status }) => (status === WC_SUCCESS ? unit : 'failed'))
      .join()
  }
  host.post(sqs[0]!, nop())
  host.ring(sqs[0]!)
  unitsOf()
  return { made, unitsOf }
}

/** Halves of two doorbells: what was stored, and not posted, is not executed. */
function tornTrust(): string | null {
  const { made, unitsOf } = trusting()
  const { host, sqs } = made
  host.post(sqs[0]!, nop())
  host.store(sqs[0]!, nop())
  host.ringFifo(taggedDoorbell(sqs[0]!, 2, host.epoch), 3)
  const units = unitsOf()
  return units === '1' ? null : `a torn doorbell: units ${units}, and 1 was posted`
}

/** A doorbell got lost: the next that names no pointer finds what it was for. */
function lostTrust(): string | null {
  const { made, unitsOf } = trusting()
  const { host, sqs } = made
  for (let i = 0; i < 2; i++) host.post(sqs[0]!, nop())
  host.ring(sqs[0]!, 'trusted', 2)
  host.ring(sqs[0]!, 'fifo')
  const units = unitsOf()
  return units === '1,2' ? null : `a lost doorbell: units ${units} of 1 and 2`
}

/** A pointer that runs ahead of what is stored ends nothing. */
function earlyTrust(): string | null {
  const { made, unitsOf } = trusting()
  const { host, sqs } = made
  host.ring(sqs[0]!, 'trusted', 3)
  const before = unitsOf()
  host.post(sqs[0]!, nop())
  host.ring(sqs[0]!, 'trusted')
  const units = `${before} ${unitsOf()}`
  return units === ' 1' ? null : `a pointer that runs ahead: units ${units}`
}

/** An element of a lap before, or half of one, is none. */
function stale(): string | null {
  for (const half of [0, 1]) {
    const { host, cqs, sqs } = nopHost({ depth: 16 })
    const element = nop()
    const unit = host.store(sqs[0]!, element)
    const at = host.unitAt(sqs[0]!, unit)
    host.view.setUint32(half === 0 ? at : at + 60, 0, true)
    host.setPointer(sqs[0]!)
    host.ring(sqs[0]!)
    host.run()
    const taken = host.poll(cqs[0]!).some(({ status }) => status === WC_SUCCESS)
    if (taken) return `an element without its ${half === 0 ? 'first' : 'last'} stamp is executed`
  }
  return null
}

/** Completions arrive in the order of the elements, through many laps of a ring that wraps. */
function laps(): string | null {
  const { host, cqs, sqs } = nopHost({ entries: 8, depth: 8, pointer: 2 ** 32 - 12 })
  for (let lap = 0; lap < 5; lap++) {
    for (let i = 0; i < 8; i++) host.post(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.run()
    const numbers = host.poll(cqs[0]!).map(({ number }) => number)
    const wanted = Array.from({ length: 8 }, (_, i) => (2 ** 32 - 12 + 8 * lap + i) >>> 0)
    if (numbers.join() !== wanted.join()) return `lap ${lap}: completions ${numbers}`
  }
  return null
}

/** Queues of their own, with the same memory: the others may be over. */
function another(queue: LocalQueue): LocalQueue {
  const cq = queue.host.createCq(16)
  return { ...queue, cq, qp: queue.host.createQp(cq) }
}

/** Memory that a key does not cover is neither read nor written. */
function foreignMemory(): string | null {
  const queue = localQueue()
  const { host, lkey, buffer } = queue
  const region = host.card.provision({ slots: 4, capacity: 256 })
  const end = buffer + (1 << 19)
  const foreign = host.register(buffer, 4096, 5)
  const to = { opcode: 1, rkey: region.rkey, address: 0, wait: 2 }
  const tries: readonly (readonly [string, number, number, number])[] = [
    ['a key that is none', buffer, 64, lkey ^ 0x100],
    ['memory of another domain', buffer, 64, foreign],
    ['one byte behind the end', end - 63, 64, lkey],
    ['memory behind the end', end, 64, lkey],
    ['memory before the begin', buffer - 1, 64, lkey],
    ['memory at 2^53', 2 ** 53, 64, lkey],
  ]
  for (const [i, [name, local, length, key]] of tries.entries()) {
    const fields = { ...to, operation: 100 + i, local, length, lkey: key }
    const cqes = post(another(queue), fields)
    if (cqes.some(({ status }) => status === WC_SUCCESS)) return `${name} is read`
  }
  const zero = readBack(queue, region, 0, 0, 64)
  if (typeof zero === 'number' || zero.some((byte) => byte !== 0)) return 'the record was written'
  const sges = [{ address: buffer, length: 32, lkey }]
  const sum = post(another(queue), { ...to, operation: 300, sges, length: 64 })
  return sum.some(({ status }) => status === WC_SUCCESS) ? 'lengths that do not add up' : null
}

/** A record of the host is durable when its completion says so. */
function localRecord(): string | null {
  const queue = localQueue()
  const { host, cq, qp } = queue
  const region = host.card.provision({ slots: 4, capacity: 64 })
  const data = dataOf(64, 3)
  host.post(qp.send, elementOf({ ...record(queue, region, 1, 50, data), flags: 1 }))
  host.ring(qp.send)
  let said: string | null = null
  const look = (): void => {
    if (host.peek(cq) === null) return
    const part = Buffer.from(host.card.machine.nvdimm.durable)
    const copyA = part.indexOf(data)
    if (copyA >= 0 && part.indexOf(data, copyA + 1) >= 0) return
    said ??= 'a completion is there before both copies are durable'
  }
  host.card.machine.observe({ onCommand: look })
  host.run()
  host.card.machine.observe({})
  if (host.poll(cq).length === 0) return 'there is no completion'
  return said
}

/** Bytes of the area of one copy in the host's memory. */
const AREA = 4096

const OLD = dataOf(16, 1)
const NEW = dataOf(16, 2)

/** A card with an old record in the host's memory. */
function begun(through: boolean): Placed {
  const one = placed(through ? DDIO_ON : DDIO_OFF, { capacity: 16 })
  one.card.serve(...persistFrames(one.qp, one.region, 0, OLD))
  settle(one)
  one.card.idle()
  return one
}

function settle({ card, agent }: Placed): void {
  if (agent !== null) work(card, agent)
}

/** What is wrong with the record after a start, or null. */
function afterStart(one: Placed, acknowledged: boolean): string | null {
  const card = restarted(one)
  const region = card.open('records')
  const data = card.read(card.connect(), region, 0, 0, 16)
  const isNew = data !== null && sameBytes(data, NEW)
  const isOld = data !== null && sameBytes(data, OLD)
  const copies = [0, 1].map((copy) => card.host!.load(HOST_DATA_AT + copy * AREA, 128).bytes!)
  if (!sameBytes(copies[0]!, copies[1]!)) return 'its copies are not one'
  if (isNew || (isOld && !acknowledged)) return null
  return acknowledged ? 'what was acknowledged is gone' : 'it is neither old nor new'
}

/**
 * A record in the host's memory, cut at every command; of what was under way nothing, or every
 * other line, has landed. What was acknowledged is there.
 */
function hostRecord(through: boolean, wait: number): string | null {
  for (let command = 0; ; command++) {
    for (const strategy of ['none', 'alternate-lines'] as const) {
      const one = begun(through)
      const { card } = one
      let acknowledged = false
      const note = (): void => {
        acknowledged ||= persistAcks(card.sent).some(({ status }) => status === 0)
      }
      card.machine.observe({ onCommand: note })
      card.machine.armCut(command)
      card.serve(...persistFrames(one.qp, one.region, 0, NEW, { wait }))
      // The card goes as far as it may before the agent has done anything.
      for (let i = 0; i < 4 && through && !card.machine.dead; i++) card.idle()
      note()
      settle(one)
      note()
      const ended = !card.machine.dead
      if (ended && !acknowledged) return 'it is never acknowledged'
      cutPower(one, { random: new Random(command), strategy })
      const said = afterStart(one, acknowledged)
      if (said !== null) return `cut at command ${command}, ${strategy} landed: ${said}`
      if (ended) return null
    }
  }
}

/** Whatever was shown before: in this power-on nothing was, or the other placement. */
function unproven(): string | null {
  const one = begun(false)
  cutPower(one, { random: new Random(1), strategy: 'all' })
  for (const seen of [0, PLACEMENT_THROUGH]) {
    const card = restarted(one)
    if (seen !== 0) believe(card, seen)
    const sent = card.serve(...persistFrames(card.connect(), card.open('records'), 0, NEW))
    if (persistAcks(sent).some(({ status }) => status === 0)) {
      return `a record is durable where ${seen === 0 ? 'nothing' : 'another placement'} was shown`
    }
  }
  return null
}

export const QUEUES: Readonly<Record<string, Play>> = {
  'a full completion queue': fullCompletions,
  'a pointer beyond the ring': pointerBeyond,
  'a doorbell ahead': doorbellAhead,
  'a trusted doorbell, torn': tornTrust,
  'a trusted doorbell, lost': lostTrust,
  'a trusted doorbell, early': earlyTrust,
  'a stale element': stale,
  'laps of a ring': laps,
  'memory of others': foreignMemory,
  'a record of the host': localRecord,
  'past the caches': () => hostRecord(false, 2),
  'through the caches': () => hostRecord(true, 2),
  'through the caches, level 1': () => hostRecord(true, 1),
  'an unproven placement': unproven,
}
