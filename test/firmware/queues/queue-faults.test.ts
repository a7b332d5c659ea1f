/**
 * Posts in every order of the host's accesses and the card's, and with every fault of the catalogue
 * at every step (X-4, P3-12 to P3-16, P3-22, P3-28; faults H1 to H5).
 *
 * The host's steps are its stores of eight bytes, its pointer and its doorbell. The card's are its
 * accesses over PCIe, and its looks at the doorbells. The orders are enumerated, not drawn. Left
 * out are only orders that cannot differ from one that is played: a card that is idle looks at
 * nothing but its doorbells; stores of the host into two different queues commute; but for
 * trust, how a doorbell comes makes no difference to what is fetched, so by one form of the others
 * the stores come one by one; and where `places` says so, a write of the card is no place to go on:
 * the host reads nothing meanwhile.
 *
 * Whatever happens, what `QueueWorld.judge` says has to hold, and the bystander works.
 */

import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { NVDIMM_SPACE, SPACE_BYTES } from '../../../firmware/board/hal.ts'
import { MEMORY_REGIONS, UNIT_BYTES } from '../../../firmware/board/limits.ts'
import {
  SIGNALED,
  WQE_ADDRESS,
  WQE_LENGTH,
  WQE_LKEY,
  WQE_LOCAL,
  WQE_NOP,
  WQE_OPCODE,
  WQE_OPERATION,
  WQE_RKEY,
  WQE_STAMP,
  WQE_STAMP_AGAIN,
  WQE_UNITS,
  WQE_WAIT,
} from '../../../firmware/host/element.ts'
import { KIND_SEND, QUEUE_ERROR, QUEUE_READY } from '../../../firmware/host/queue-info.ts'
import { WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import { play, Schedules, type Step } from '../../support/queues/interleave.ts'
import { elementOf, type Form, type Sge } from '../../support/queues/queue-host.ts'
import {
  type Places,
  POST_KINDS,
  type Post,
  type PostKind,
  QueueWorld,
  UNITS,
} from '../../support/queues/queue-world.ts'
import { divided } from '../../support/run/thorough.ts'

const FORMS: readonly Form[] = ['register', 'fifo', 'fifo with pointer', 'trusted', 'message']

let played = 0
let failures = 0
const begun = performance.now()

afterAll(() => {
  const seconds = ((performance.now() - begun) / 1000).toFixed(1)
  console.log(`${played} interleavings, ${failures} ended in an error: ${seconds} s`)
})

/** A world for each unit of the ring at which its posts begin, with trust and without. */
const worlds: Map<string, QueueWorld> = new Map()

afterEach(({ task }) => {
  if (task.result?.state === 'fail') worlds.clear()
})

function worldAt(offset: number, form: Form = 'fifo'): QueueWorld {
  const trust = form === 'trusted'
  const name = `${offset} ${trust}`
  let world = worlds.get(name)
  if (world === undefined) {
    world = new QueueWorld(offset, trust)
    worlds.set(name, world)
  }
  return world
}

interface Play {
  /** A queue may end in error. */
  readonly mayFail?: boolean
  /** Where the host may go on; anywhere without it. */
  readonly places?: Places
}

/** Plays every order of what `prepare` says. */
function everyOrder(world: QueueWorld, prepare: () => readonly Step[], how: Play = {}): void {
  const schedules = new Schedules()
  world.places = how.places ?? 'accesses'
  while (schedules.next()) {
    const steps = prepare()
    try {
      play(world.stage, steps, schedules)
      if (!world.judge()) continue
      failures += 1
      if (how.mayFail !== true) throw new Error('a queue failed')
      world.heal()
    } catch (error) {
      const names = steps.map(({ name }) => name).join(', ')
      throw new Error(`order ${schedules.name} of ${names}: ${error}`, { cause: error })
    }
  }
  world.heal()
  played += schedules.count
}

/** Posts of these kinds on these pairs, one behind the other. */
function begin(world: QueueWorld, ...of: readonly (readonly [number, PostKind])[]): Post[] {
  for (const pair of new Set(of.map(([one]) => one))) {
    const kinds = of.filter(([one]) => one === pair).map(([, kind]) => kind)
    world.align(
      pair,
      kinds.reduce((sum, kind) => sum + (kind === 'inline' ? 2 : 1), 0),
    )
  }
  return [...world.begin(...of.map(([pair, kind]) => world.post(pair, kind)))]
}

/** `steps` with one more behind the first `at`. */
function withStep(steps: readonly Step[], at: number, step: Step): Step[] {
  return [...steps.slice(0, at), step, ...steps.slice(at)]
}

/** Steps of a post of that kind. */
function stepsOf(world: QueueWorld, kind: PostKind, form: Form): number {
  const post = world.post(0, kind)
  world.forget(post)
  return world.stepsOf(post, form).length
}

/** One post of that kind, in every order, with one more step at every place. */
function withFault(
  kind: PostKind,
  form: Form,
  fault: (world: QueueWorld, post: Post) => Step,
  how: Play = {},
  offset = 0,
): void {
  const world = worldAt(offset, form)
  for (let at = 0; at <= stepsOf(world, kind, form); at++) {
    const prepare = (): Step[] => {
      const [post] = begin(world, [0, kind]) as [Post]
      return withStep(world.stepsOf(post, form), at, fault(world, post))
    }
    everyOrder(world, prepare, how)
  }
}

describe.each(POST_KINDS)('one post: %s', (kind) => {
  for (const { rows, options } of divided(FORMS, () => kind !== 'nop')) {
    test.each(rows)('X-4, H1: rung by %s, and once more at any step', options, (form) => {
      // Every order by one form; of the others, what the card reads comes in every order.
      const places = form === 'fifo' ? 'accesses' : 'reads'
      withFault(kind, form, (world, post) => world.spareBell(post, form), { places })
    })
  }

  test('X-4: the ring ends inside the element', () => {
    withFault(kind, 'fifo', (world, post) => world.spareBell(post, 'fifo'), { places: 'reads' }, 3)
  })

  test('X-4, H2: a pointer that is stored before the element never shows half of it', () => {
    const world = worldAt(0)
    for (let at = 0; at < stepsOf(world, kind, 'fifo') - 2; at++) {
      const prepare = (): Step[] => {
        const [post] = begin(world, [0, kind]) as [Post]
        const bell = world.bellOf(post, 'fifo')
        const early = withStep(post.stores, at, world.pointerOf(post))
        return [...withStep(early, at + 1, bell), bell]
      }
      // The pointer and the doorbell are there: what is stored now matters to no other read.
      everyOrder(world, prepare, { mayFail: true, places: 'elements' })
    }
  })

  test('H1, P3-14: a doorbell that is lost is made good by the next one', () => {
    const world = worldAt(0)
    const prepare = (): Step[] => {
      const posts = begin(world, [0, kind], [0, 'nop'])
      const steps = posts.map((post) => [...post.stores, world.pointerOf(post)])
      return [...steps.flat(), world.bellOf(posts[1]!, 'fifo')]
    }
    everyOrder(world, prepare)
  })
})

/** Doorbells that nobody should ring, by name. */
const STRANGE: Readonly<Record<string, (world: QueueWorld, post: Post) => void>> = {
  'of a queue beyond all': ({ host }) => host.ring(host.count),
  'of the largest number there is': ({ host }) => host.ringFifo(0xffff, 0),
  'with all bits set': ({ host }) => host.ringFifo(0xffffffff, 0xffffffff),
  'of a number that is no queue': ({ host }) => host.ring(host.count - 1),
  'of the completion queue': ({ host, pairs }) => host.ring(pairs[0]!.cq),
  'of the receive queue': ({ host, pairs }) => host.ring(pairs[0]!.qp.receive),
  'with a pointer from before': ({ host }, { queue, unit }) =>
    host.ring(queue, 'fifo with pointer', unit),
  'with a pointer that goes backwards': ({ host }, { queue, unit }) =>
    host.ring(queue, 'fifo with pointer', (unit - 1) >>> 0),
  'with a pointer from a lap ago': ({ host }, { queue, unit }) =>
    host.ring(queue, 'fifo with pointer', (unit - UNITS) >>> 0),
  'with a pointer that was not yet stored': ({ host }, { queue, unit, units }) =>
    host.ring(queue, 'fifo with pointer', (unit + units + 1) >>> 0),
  'with a pointer a lap ahead': ({ host }, { queue, unit, units }) =>
    host.ring(queue, 'fifo with pointer', (unit + units + UNITS) >>> 0),
  'with a pointer half a turn away': ({ host }, { queue, unit }) =>
    host.ring(queue, 'fifo with pointer', (unit + 2 ** 31) >>> 0),
  'whose first half alone has come': ({ host }, { queue }) =>
    host.ringRegister(((0x7fff << 16) | queue) >>> 0, 0xffffffff),
  'whose second half alone has come': ({ host }, { unit }) =>
    host.ringRegister(0, (unit + 1) >>> 0),
}

test.each(Object.keys(STRANGE))('H1: a doorbell %s, at any step, harms nobody', (name) => {
  const run = STRANGE[name]!
  withFault(
    'inline',
    'fifo',
    (world, post) => ({ name, rings: true, run: () => run(world, post) }),
    { places: 'reads' },
  )
})

test.each([
  ['nop', 'reads'],
  ['add', 'reads'],
  ['inline', 'elements'],
] as const)(
  'S1-M8: trusted for more than is posted, %s: only what is whole is done',
  (kind, places) => {
    for (const more of [0, 1, UNITS]) {
      const early = ({ host }: QueueWorld, { queue, unit, units }: Post): void =>
        host.ring(queue, 'trusted', (unit + units + more) >>> 0)
      withFault(
        kind,
        'trusted',
        (world, post) => ({ name: 'early', rings: true, run: () => early(world, post) }),
        // What is stored and not yet shown may be taken; memory that is behind that ends the queue.
        { places, mayFail: true },
      )
    }
  },
)

/** Orders in which two posts to two queues ring, as far as they differ. */
function mergesOf(world: QueueWorld, [a, b]: readonly Post[], form: Form): Step[][] {
  const one = world.stepsOf(a!, form)
  const two = world.stepsOf(b!, form)
  const [p, r] = one.slice(-2) as [Step, Step]
  const [q, s] = two.slice(-2) as [Step, Step]
  const stores = [...one.slice(0, -2), ...two.slice(0, -2)]
  return [
    [...one, ...two],
    [...stores, p, q, r, s],
    [...stores, p, q, s, r],
    [...stores, q, s, p, r],
  ]
}

const PAIRS_OF_KINDS: readonly (readonly [PostKind, PostKind, readonly Form[]])[] = [
  ['nop', 'inline', FORMS],
  ['inline', 'inline', ['fifo']],
  ['add', 'address', ['fifo with pointer']],
  ['address', 'nop', ['fifo']],
]

for (const { rows, options } of divided(
  PAIRS_OF_KINDS,
  ([first, second]) => first !== 'inline' || second !== 'inline',
)) {
  describe.each(rows)('two posts: %s, then %s', options, (first, second, forms) => {
    test.each(forms)('X-4, P3-14, P3-16: on one queue, rung by %s', (form) => {
      const world = worldAt(0, form)
      const prepare = (): Step[] => {
        const posts = begin(world, [0, first], [0, second])
        return posts.flatMap((post) => world.stepsOf(post, form))
      }
      everyOrder(world, prepare, { places: 'reads' })
    })

    test.runIf(first !== second)('X-4: on one queue whose ring ends inside an element', () => {
      const world = worldAt(3)
      const prepare = (): Step[] => {
        const posts = begin(world, [0, first], [0, second])
        return posts.flatMap((post) => world.stepsOf(post, 'fifo'))
      }
      everyOrder(world, prepare, { places: 'reads' })
    })

    test.each(forms)('X-4, P3-13: on two queues, rung by %s', (form) => {
      const world = worldAt(0, form)
      for (let merge = 0; merge < 4; merge++) {
        const prepare = (): Step[] => {
          const posts = begin(world, [0, first], [1, second])
          return mergesOf(world, posts, form)[merge]!
        }
        everyOrder(world, prepare, { places: 'reads' })
      }
    })
  })
}

const put32 = (world: QueueWorld, { queue, unit }: Post, at: number, value: number): void =>
  world.host.view.setUint32(world.host.unitAt(queue, unit) + at, value, true)

/** What a host may do to an element that the card is about to take, or has taken. */
const CHANGES: Readonly<Record<string, (world: QueueWorld, post: Post) => void>> = {
  'another stamp': (world, post) => put32(world, post, WQE_STAMP, 7),
  'another second stamp': (world, post) => put32(world, post, WQE_STAMP_AGAIN, 7),
  'another opcode, all units and flags': (world, post) => put32(world, post, WQE_OPCODE, -1),
  'no units': (world, post) => put32(world, post, WQE_OPCODE, WQE_NOP),
  'a huge length': (world, post) => put32(world, post, WQE_LENGTH, 0xffffffff),
  'a length that wraps': (world, post) => put32(world, post, WQE_LENGTH, 0xffffffc0),
  'another R_Key': (world, post) => put32(world, post, WQE_RKEY, 0xffffffff),
  'a slot that is not there': (world, post) => put32(world, post, WQE_ADDRESS + 4, 0x10000),
  'another operation': (world, post) => put32(world, post, WQE_OPERATION, 0x7fffffff),
  'another local address': (world, post) => put32(world, post, WQE_LOCAL, world.host.zone1At),
  'another L_Key': (world, post) => put32(world, post, WQE_LKEY, 0xffffffff),
  'more entries': (world, post) => put32(world, post, WQE_WAIT, 0xffffffff),
  'other bytes': (world, post) => {
    const at = world.host.unitAt(post.queue, post.unit) + UNIT_BYTES
    world.host.bytes.fill(0xee, at, at + UNIT_BYTES)
    world.host.bytes.fill(0xee, world.payloads, world.payloads + 8 * 64)
  },
}

/** Stores a post, changed by `change`, rings and lets the card come to an end. */
function run(world: QueueWorld, post: Post, change: () => void): void {
  for (const step of post.stores) step.run()
  change()
  world.pointerOf(post).run()
  world.host.ring(post.queue)
  world.run()
}

describe.each(POST_KINDS)('one post: %s', (kind) => {
  test('H2: with any byte of its element changed it is executed as it reads, or refused', () => {
    const world = worldAt(0)
    const { length } = begin(world, [0, kind])[0]!.element
    world.forget(world.open[0]!)
    for (let i = 0; i < length; i++) {
      for (const mask of [0x01, 0x80, 0xff]) {
        const [post] = begin(world, [0, kind]) as [Post]
        run(world, post, () => {
          world.host.bytes[world.host.unitAt(post.queue, post.unit) + i]! ^= mask
        })
        const fault = world.survive(`byte ${i} ^ ${mask}`)
        const stamps = i < WQE_OPCODE || (i >= WQE_STAMP_AGAIN && i < UNIT_BYTES)
        if (stamps) expect(fault, `byte ${i} ^ ${mask}`).toBe('ELEMENT_FORM')
        if (i === WQE_UNITS) expect(fault, `units ^ ${mask}`).toMatch(/^ELEMENT_/)
        played += 1
      }
    }
  })

  test('H2: what is changed after it was posted is executed before or after, never between', () => {
    for (const [name, change] of Object.entries(CHANGES)) {
      const world = worldAt(0)
      const schedules = new Schedules()
      while (schedules.next()) {
        const [post] = begin(world, [0, kind]) as [Post]
        const step = { name, run: () => change(world, post) }
        play(world.stage, [...world.stepsOf(post, 'fifo'), step], schedules)
        world.survive(`${name}, order ${schedules.name}`)
      }
      played += schedules.count
    }
  })

  test.each([0, 3])('H4, H5: any read fails, any write is lost, from unit %i', (offset) => {
    const world = worldAt(offset)
    for (const fault of ['unsupported', 'poisoned', 'timeout', 'lost'] as const) {
      for (let at = 0, accesses = 1; at < accesses; at++) {
        const [post] = begin(world, [0, kind]) as [Post]
        let struck = false
        world.accesses = 0
        world.fault = ({ kind: way }) => {
          const here = world.accesses === at + 1 && (way === 'write') === (fault === 'lost')
          struck ||= here
          return here ? fault : undefined
        }
        run(world, post, () => {})
        accesses = world.accesses
        world.fault = null
        const what = `${fault} at access ${at}`
        const effect = post.effect()
        const ended = world.survive(what, true)
        expect(effect, what).not.toBe('wrong')
        if (struck && fault !== 'lost') expect(ended, what).toBe('DMA')
        played += 1
      }
    }
  })

  test('H4: the card is taken out at any access, and comes back to a host that restarts', () => {
    for (let at = 0, accesses = 1; at < accesses; at++) {
      const world = new QueueWorld(0)
      const [post] = begin(world, [0, kind]) as [Post]
      world.accesses = 0
      world.fault = () => (world.accesses === at + 1 ? 'removal' : undefined)
      run(world, post, () => {})
      accesses = world.accesses
      world.fault = null
      if (post.effect() === 'wrong') throw new Error(`torn by a removal at access ${at}`)
      world.startAnew()
      played += 1
    }
  })
})

/** Ranges that no region of the host covers, or only in part; and the same, by their names. */
function rangesOf(world: QueueWorld): Record<string, Sge> {
  const { payloads, lkey, host } = world
  const length = 64
  return {
    'in zone 1': { address: host.zone1At, length, lkey },
    'in zone 3': { address: host.zone3At, length, lkey },
    'in another ring': { address: host.unitAt(world.pairs[1]!.qp.send, 0), length, lkey },
    'just before the region': { address: payloads - 1, length, lkey },
    'just behind the region': { address: payloads + world.payloadBytes - 63, length, lkey },
    'beyond the memory': { address: host.bytes.length, length, lkey },
    'in the NVDIMM': { address: NVDIMM_SPACE, length, lkey },
    'in the next space': { address: SPACE_BYTES + payloads, length, lkey },
    'beyond every space': { address: 2 ** 53 - 64, length, lkey },
    'with a key that nobody gave': { address: payloads, length, lkey: lkey + 1 },
    'with a key of another time': { address: payloads, length, lkey: lkey + MEMORY_REGIONS },
    'with a key of another domain': { address: payloads, length, lkey: world.foreignKey },
    'with no key': { address: payloads, length, lkey: 0 },
  }
}

describe('H2: bytes that a queue may not name', () => {
  const names = Object.keys(rangesOf(worldAt(0)))

  test.each(names)('%s are never fetched', (name) => {
    const world = worldAt(0)
    const { host } = world
    const range = rangesOf(world)[name]!
    const good = { address: world.payloads, length: 64, lkey: world.lkey }
    const record = { opcode: WRITE_PERSIST, flags: SIGNALED, rkey: world.region.rkey, wait: 2 }
    for (const element of [
      elementOf({
        ...record,
        operation: 1,
        local: range.address,
        ...{ length: 64 },
        lkey: range.lkey,
      }),
      elementOf({ ...record, operation: 2, sges: [range] }),
      elementOf({ ...record, operation: 3, sges: [{ ...good, length: 32 }, range] }),
    ]) {
      const { send } = world.pairs[0]!.qp
      const reads: number[] = []
      world.fault = ({ at, kind }) => {
        if (kind === 'read') reads.push(at)
        return undefined
      }
      host.post(send, element)
      host.ring(send)
      host.run()
      world.fault = null
      expect(host.zone1(send)).toMatchObject({ state: QUEUE_ERROR, fault: 'MEMORY_KEY' })
      expect(host.events()).toMatchObject([{ queue: send, fault: 'MEMORY_KEY' }])
      expect(reads).not.toContain(range.address)
      world.heal()
    }
  })
})

test('X-4: an element of which the pointer covers the first unit alone is refused', () => {
  const world = worldAt(0)
  const [post] = begin(world, [0, 'inline']) as [Post]
  for (const step of post.stores) step.run()
  world.host.setPointer(post.queue, post.unit + 1)
  world.host.ring(post.queue)
  world.run()
  expect(post.effect()).toBe('none')
  expect(world.survive('half of it')).toBe('ELEMENT_FORM')
})

test.each(FORMS)('P3-28: a queue in the error state takes nothing more, rung by %s', (form) => {
  const world = worldAt(0, form)
  const [bad, good] = begin(world, [0, 'nop'], [0, 'add']) as [Post, Post]
  run(world, bad, () => put32(world, bad, WQE_STAMP, 7))
  expect(world.host.events()).toMatchObject([{ queue: bad.queue, fault: 'ELEMENT_FORM' }])
  const { pointer } = world.host.zone1(bad.queue)
  for (const step of world.stepsOf(good, form)) step.run()
  world.run()
  expect(good.effect()).toBe('none')
  expect(world.host.zone1(bad.queue)).toMatchObject({ state: QUEUE_ERROR, pointer })
  expect(world.host.events()).toEqual([])
  world.survive('over', true)
})

test.each([0, 64, 127, 129, 2 ** 32 - 128])(
  'H2: entries of 128 bytes are not %i bytes',
  (length) => {
    const world = worldAt(0)
    const { host, payloads: address, lkey } = world
    const { send } = world.pairs[0]!.qp
    const sges = [
      { address, length: 64, lkey },
      { address: address + 64, length: 64, lkey },
    ]
    const { rkey } = world.region
    host.post(
      send,
      elementOf({ opcode: WRITE_PERSIST, flags: SIGNALED, rkey, wait: 2, sges, length }),
    )
    host.ring(send)
    world.run()
    expect(world.survive(`${length} bytes`)).toBe('ELEMENT_LENGTH')
  },
)

test.each([1, 3])('H2: an element with 64 bytes inline has two units, and not %i', (units) => {
  const world = worldAt(0)
  const { host } = world
  const { send } = world.pairs[0]!.qp
  const { rkey } = world.region
  const record = { opcode: WRITE_PERSIST, flags: SIGNALED, rkey, wait: 2 }
  const element = new Uint8Array(3 * UNIT_BYTES)
  element.set(elementOf({ ...record, inline: new Uint8Array(64) }))
  element[WQE_UNITS] = units
  host.post(send, element)
  host.ring(send)
  world.run()
  expect(world.survive(`${units} units`)).toBe('ELEMENT_LENGTH')
})

test.each([1, 5, 2 ** 31, 2 ** 32 - 9])(
  'H3: entries that the host says it has taken, %i ahead of the last, are not given away',
  (ahead) => {
    const world = worldAt(0)
    const { host } = world
    const { cq, qp } = world.pairs[0]!
    const first = host.queues.get(cq)!.pointer
    host.setPointer(cq, (first + ahead) >>> 0)
    for (let posted = 0; posted < 4 * UNITS; posted++) {
      host.post(qp.send, elementOf({ opcode: WQE_NOP, flags: SIGNALED }))
      if (posted % UNITS !== UNITS - 1) continue
      host.ring(qp.send)
      world.run()
    }
    // Of the ring of eight no entry was written over: those that are there are the first.
    const there = host.poll(cq)
    expect(there.map(({ number }) => number)).toEqual(there.map((_, i) => first + i))
    expect(there.length).toBeLessThanOrEqual(8)
    expect([cq, qp.send].map((queue) => host.zone1(queue).state)).toContain(QUEUE_ERROR)
    world.survive('taken too much', true)
  },
)

describe('P3-22, H3: pointers count freely', () => {
  const STARTS = [0, 1, 3, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 4, 2 ** 32 - 3, 2 ** 32 - 1]

  test.each(STARTS)(
    'from %i, every distance up to the depth is work, the rest an error',
    (start) => {
      const world = new QueueWorld(0)
      const { host } = world
      const { cq } = world.pairs[2]!
      const far = [UNITS + 1, 2 * UNITS, 2 ** 31, 2 ** 32 - UNITS, 2 ** 32 - 1]
      for (const distance of [0, 1, 2, 3, UNITS, ...far]) {
        const queue = world.freshQueue()
        const { depth } = host.forceQueue(queue, {
          kind: KIND_SEND,
          depth: UNITS,
          completions: cq,
          pointer: start,
        })
        for (let i = 0; i < depth; i++) {
          host.store(queue, elementOf({ opcode: WQE_NOP, flags: SIGNALED }))
        }
        host.setPointer(queue, (start + distance) >>> 0)
        host.ring(queue)
        host.run()
        const units = host.poll(cq).map(({ unit }) => unit)
        const events = host.events()
        const { state, pointer, fault } = host.zone1(queue)
        if (distance <= UNITS) {
          const all = Array.from({ length: distance }, (_, i) => (start + i) >>> 0)
          expect({ units, events, state }).toEqual({ units: all, events: [], state: QUEUE_READY })
          expect(pointer).toBe((start + distance) >>> 0)
        } else {
          expect({ units, state, fault }).toEqual({
            units: [],
            state: QUEUE_ERROR,
            fault: 'QUEUE_POINTER',
          })
          expect(events).toMatchObject([{ queue, fault: 'QUEUE_POINTER' }])
        }
        played += 1
      }
      world.heal()
    },
  )
})
