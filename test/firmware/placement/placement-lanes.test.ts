/**
 * A host that goes away with as many records under way as there are lanes, and a card whose own
 * memory is served all the same: before the host is back, behind a start, and after (R1-A2).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { BURST_FRAMES, LINE_BYTES, LOCAL_LANES } from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import * as el from '../../../firmware/host/element.ts'
import { HOST_DATA_AT, PLACEMENT_BYPASS } from '../../../firmware/medium/region.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { STATUS_DURABLE } from '../../../firmware/wire/persist-ack.ts'
import {
  batchFrames,
  statuses as batchStatuses,
  IN_ORDER,
  INDEPENDENT,
} from '../../support/cards/batch-card.ts'
import { believe, PushedHost, SEED } from '../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { type LocalQueue, localQueue, play } from '../../support/queues/local-queue.ts'
import type { CardHost } from '../../support/queues/queue-calls.ts'
import type { ElementFields } from '../../support/queues/queue-host.ts'
import { writeFrames } from '../../support/wire/requests.ts'

const PART_BYTES = 1 << 17
const HOST_BYTES = 1 << 16
const SLOTS = BURST_FRAMES
const HOST_LANES = BURST_FRAMES - LOCAL_LANES
const READ_ONLY = 0x8b
const [OLD, NEW] = [dataOf(64, 1), dataOf(64, 2)]
const slots = Array.from({ length: SLOTS }, (_, slot) => slot)

interface Made {
  readonly card: TestCard
  readonly host: HostMemory
  readonly far: TestRegion
  readonly queue: LocalQueue
}

/** A card with two regions past the caches of its host, and one of its own, of three copies. */
function made(): Made {
  const host = new HostMemory({ part: new Nvdimm({ bytes: HOST_BYTES }), platform: DDIO_OFF })
  const ram = new HostRam(1 << 20, host.link)
  const card = new TestCard(PART_BYTES, { host, ram }).format()
  believe(card, PLACEMENT_BYPASS)
  const far = card.provision({ name: 'far', slots: SLOTS, placement: PLACEMENT_BYPASS })
  card.provision({ name: 'other', slots: SLOTS, placement: PLACEMENT_BYPASS })
  card.provision({ name: 'local', slots: SLOTS, copies: 3 })
  write(card, 'far', OLD)
  const queues = new PushedHost(card).init(16) as unknown as CardHost
  return { card, host, far, queue: localQueue(queues) }
}

/** A burst that writes every slot of the region; the statuses that came. */
function write(card: TestCard, region: string, data: Uint8Array, wait = 2, client = 50): number[] {
  const qp = card.connect(4096, 0, client)
  const to = card.open(region)
  const frames = slots.flatMap((slot) => persistFrames(qp, to, slot, data, { wait }))
  return persistAcks(card.serve(...frames)).flatMap(({ status, records }) =>
    Array<number>(Math.max(1, records)).fill(status),
  )
}

function read(card: TestCard, region: string, slot: number): string {
  const bytes = card.read(card.connect(), card.open(region), slot, VIEW_DATA, 64)
  if (bytes === null) return 'refused'
  const is = (other: Uint8Array): boolean => Buffer.compare(bytes, other) === 0
  return is(NEW) ? 'new' : is(OLD) ? 'old' : 'other'
}

let turn = 100

/** Every slot of the card's own region is written, at every level. */
function servesItsOwn(card: TestCard): void {
  for (const wait of [1, 2, 3]) {
    turn += 1
    const data = dataOf(64, turn)
    expect(write(card, 'local', data, wait, turn)).toEqual(slots.map(() => STATUS_DURABLE))
    const local = card.open('local')
    for (const slot of [0, SLOTS - 1]) {
      expect(card.read(card.connect(), local, slot, VIEW_DATA, 64)).toEqual(data)
    }
  }
  expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
}

/** The host answers no read of its NVDIMM from then on. */
function silence({ link }: HostMemory, behind = 0): void {
  let reads = 0
  link.script = ({ kind, memory }) =>
    kind === 'read' && memory === 'persistent' && reads++ >= behind ? 'timeout' : undefined
}

function comeBack(card: TestCard, host: HostMemory): void {
  host.link.script = null
  host.comeBack()
  believe(card, PLACEMENT_BYPASS)
}

/** Lanes of groups that say something. */
function lanesSet({ nvdimm }: TestCard): number[] {
  return slots.filter((lane) => {
    const at = LANES_AT + lane * LINE_BYTES
    return nvdimm.durable.slice(at, at + LINE_BYTES).some((byte) => byte !== 0)
  })
}

interface Way {
  readonly go: (made: Made) => void
  /** Records of a group, where it is not as many as the host may have lanes. */
  readonly group?: number
}

/** How as many records as there are lanes come to be under way at once. */
const WAYS: Readonly<Record<string, Way>> = {
  'one by one': { go: ({ card }) => void write(card, 'far', NEW) },
  'as a batch': { go: ({ card, far }) => batch(card, far, INDEPENDENT) },
  'as a batch in order': { go: ({ card, far }) => batch(card, far, IN_ORDER) },
  'as plain WRITEs': {
    go: ({ card, far }) => {
      const qp = card.connect()
      const frames = slots.map((slot) => writeFrames(qp, { ...far, baseHigh: slot }, 0, NEW))
      card.serve(...frames.flat())
    },
  },
  'from its own queue': { go: (from) => post(from, false), group: 16 },
  'from its own queue, as a batch': { go: (from) => post(from, true) },
}

function batch(card: TestCard, far: TestRegion, condition: number): void {
  const records = slots.map((slot) => ({ slot, data: NEW }))
  card.serve(...batchFrames(card.connect(), far, records, { condition }))
}

/** A record of that slot as the host posts it. */
function elementTo({ rkey }: TestRegion, slot: number): ElementFields {
  const to = { rkey, address: slot * 2 ** 32, operation: 1 + slot }
  return { opcode: el.WQE_WRITE_PERSIST, ...to, wait: 2, inline: NEW }
}

function post({ queue, far }: Made, isBatch: boolean): void {
  play(
    queue,
    ...slots.map((slot) => ({
      ...elementTo(far, slot),
      ...(isBatch ? { batch: { id: 1, count: SLOTS, index: slot, left: SLOTS - 1 - slot } } : {}),
    })),
  )
}

describe('a host goes away with as many records under way as there are lanes', () => {
  for (const [way, { go, group = HOST_LANES }] of Object.entries(WAYS)) {
    test(`R1-A2: ${way}: the card’s own memory is served, and what waits is settled`, () => {
      // The first copy is not pushed, or the second one.
      for (const behind of [0, 1]) {
        const all = made()
        const { card, host } = all
        silence(host, behind)
        go(all)
        servesItsOwn(card)
        expect(slots.map((slot) => read(card, 'far', slot))).toContain('refused')
        expect(write(card, 'far', NEW)).not.toContain(STATUS_DURABLE)
        servesItsOwn(card)
        comeBack(card, host)
        servesItsOwn(card)
        const found = slots.map((slot) => read(card, 'far', slot))
        const taken = behind === 1 ? group : 0
        expect(found).toEqual(slots.map((slot) => (slot < taken ? 'new' : 'old')))
        expect(write(card, 'far', OLD, 2, 60)).toEqual(slots.map(() => STATUS_DURABLE))
        expect(write(card, 'far', NEW, 2, 61)).toEqual(slots.map(() => STATUS_DURABLE))
      }
    })
  }

  test('R1-A2: of several regions: all that wait together leave the card’s own lanes', () => {
    const all = made()
    const { card, host, far } = all
    const third = card.provision({ name: 'third', slots: 2, placement: PLACEMENT_BYPASS })
    const qp = card.connect()
    silence(host, 1)
    card.serve(...slots.slice(0, 16).flatMap((slot) => persistFrames(qp, far, slot, NEW)))
    servesItsOwn(card)
    // It shows its probe, and does not answer for that region: the other one takes records.
    const [from, to] = [HOST_DATA_AT, HOST_DATA_AT + 2 * SLOTS * far.stride]
    let reads = 0
    let silent = 99
    host.link.script = ({ kind, memory, at }) => {
      if (kind !== 'read' || memory !== 'persistent' || at < HOST_DATA_AT) return undefined
      return (at >= from && at < to) || reads++ >= silent ? 'timeout' : undefined
    }
    believe(card, PLACEMENT_BYPASS)
    expect(read(card, 'far', 0)).toBe('refused')
    expect(write(card, 'other', OLD)).toEqual(slots.map(() => STATUS_DURABLE))
    ;[reads, silent] = [0, 1]
    expect(write(card, 'other', NEW, 2, 51)).not.toContain(STATUS_DURABLE)
    servesItsOwn(card)
    // None of it answers: there is no lane for what lies with the host.
    ;[reads, silent] = [0, 0]
    believe(card, PLACEMENT_BYPASS)
    servesItsOwn(card)
    expect(write(card, 'third', NEW, 2, 53)).not.toContain(STATUS_DURABLE)
    const refused = { said: 'READ_ONLY', durable: [] }
    const members = [{ slot: 0, data: NEW }]
    expect(batchStatuses(card.serve(...batchFrames(card.connect(), third, members)))).toMatchObject(
      [refused],
    )
    expect(play(all.queue, elementTo(third, 0)).map(({ refusal }) => refusal)).toEqual([READ_ONLY])
    servesItsOwn(card)
    comeBack(card, host)
    servesItsOwn(card)
    expect(slots.map((slot) => read(card, 'far', slot))).toEqual(
      slots.map((slot) => (slot < 16 ? 'new' : 'old')),
    )
    expect(write(card, 'other', NEW, 2, 52)).toEqual(slots.map(() => STATUS_DURABLE))
    expect(play(all.queue, elementTo(third, 0)).map(({ refusal }) => refusal)).toEqual([0])
  })
})

test('R1-A2: where their region ends, what waits gives its lanes to others of the host', () => {
  const { card, host } = made()
  silence(host, 1)
  write(card, 'far', NEW)
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
    body.set(new TextEncoder().encode('far'), mad.REGION_NAME)
  })
  comeBack(card, host)
  expect(write(card, 'other', NEW)).toEqual(slots.map(() => STATUS_DURABLE))
})

describe('the power goes while records of the host have as many lanes as they may', () => {
  /** A group of the card's own records and the host's, and another one of the host's alone. */
  function twoGroups(card: TestCard, command: number): void {
    const [one, two] = [card.connect(4096, 0, 71), card.connect(4096, 0, 72)]
    const [far, other, local] = [card.open('far'), card.open('other'), card.open('local')]
    const few = slots.slice(0, LOCAL_LANES)
    const many = slots.slice(0, HOST_LANES)
    card.machine.armCut(command)
    card.serve(
      ...few.flatMap((slot) => persistFrames(one, local, slot, NEW)),
      ...many.flatMap((slot) => persistFrames(two, far, slot, NEW)),
    )
    if (card.machine.dead) return
    card.serve(...many.flatMap((slot) => persistFrames(two, other, slot, NEW)))
  }

  test('R1-A2: cut anywhere, in two groups: a start without the host leaves lanes, too', () => {
    let most = 0
    for (const strategy of ['none', 'all'] as const) {
      for (let command = 0; ; command += 29) {
        const { card, host } = made()
        twoGroups(card, command)
        const ended = !card.machine.dead
        card.machine.die()
        const choice = { random: new Random(SEED), strategy }
        host.powerCut(choice)
        cut(card.nvdimm, choice)
        const { part, platform } = host
        const away = new HostMemory({ part, platform })
        away.link.remove()
        const next = new TestCard(card.nvdimm, { host: away })
        const set = lanesSet(next)
        most = Math.max(most, set.length)
        expect(set.filter((lane) => lane < LOCAL_LANES)).toEqual([])
        servesItsOwn(next)
        comeBack(next, away)
        for (const slot of slots) {
          expect(['old', 'new']).toContain(read(next, 'far', slot))
          expect(['other', 'new']).toContain(read(next, 'other', slot))
        }
        expect(write(next, 'far', NEW, 2, 73)).toEqual(slots.map(() => STATUS_DURABLE))
        servesItsOwn(next)
        if (ended) break
      }
    }
    expect(most).toBe(HOST_LANES)
  })
})
