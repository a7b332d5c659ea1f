/**
 * Regions that are made in slices, and removed: what is served meanwhile, what a cut leaves, and
 * that nothing of one region is ever valid in another.
 */

import { describe, expect, it } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  REGIONS,
  REMEMBERED_RECORDS,
  SCRUB_TURNS,
  SLICE_BYTES,
  SLICE_MADE,
  SLICE_RECORDS,
} from '../../../firmware/board/limits.ts'
import { sliceEnd } from '../../../firmware/burst/slice.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import {
  HOST_DATA_AT,
  PLACEMENT_BYPASS,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  type Region,
} from '../../../firmware/medium/region.ts'
import { putU16, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import { batchFrames } from '../../support/cards/batch-card.ts'
import { countCommands } from '../../support/cards/fences.ts'
import {
  attachedAgent,
  believe,
  cardOf,
  cutPower,
  placed,
  restarted,
  SEED,
  work,
} from '../../support/cards/placed.ts'
import {
  asksFor,
  dataOf,
  persistAcks,
  persistFrames,
  type RegionShape,
  readFrame,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { ACK, NAK_ACCESS, sendFrames, writeFrames } from '../../support/wire/requests.ts'

const LARGE: RegionShape = { name: 'large', slots: 100, capacity: 64, copies: 2 }
const LARGE_BYTES = 2 * 100 * 128

function remove(card: TestCard, name: string): string {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
    body.set(new TextEncoder().encode(name), mad.REGION_NAME)
  }).fault
}

/** Whose connections the card has just refused, and how. */
function refusals(card: TestCard): [number, number][] {
  return card.sent.flatMap(({ packet, syndrome }) =>
    syndrome >= 0x60 ? [[packet.destQp, syndrome] as [number, number]] : [],
  )
}

/** What STATUS says is under way: kind, bytes done, bytes in all. */
function underWay(card: TestCard): [number, number, number] {
  const body = card.status()
  const { PART_WORK_DONE_LOW, PART_WORK_TOTAL_LOW } = mad
  return [body[mad.PART_WORK]!, u32(body, PART_WORK_DONE_LOW), u32(body, PART_WORK_TOTAL_LOW)]
}

/** Lets the card work until it wants nothing more; returns the commands of the longest call. */
function rest(card: TestCard): number {
  let most = 0
  const commands = countCommands(card.machine)
  for (let calls = 0; calls === 0 || card.waitUs > 0; calls++) {
    expect(calls).toBeLessThan(10_000)
    commands.passed = 0
    card.idle()
    most = Math.max(most, commands.passed)
  }
  return most
}

function writeStatus(card: TestCard, region: TestRegion, slot: number, seed: number): number {
  const qp = card.connect()
  return persistAcks(card.serve(...persistFrames(qp, region, slot, dataOf(64, seed))))[0]!.status
}

function readData(card: TestCard, name: string, slot: number): Uint8Array | null {
  return card.read(card.connect(), card.open(name), slot, VIEW_DATA, 64)
}

/** Gives the save energy, or takes it, and the board says so. */
function arm(card: TestCard, armed: boolean): void {
  card.nvdimm.armed = armed
  card.machine.tellHealth()
}

function names(card: TestCard): string[] {
  const found: string[] = []
  for (let place = 0; place < REGIONS; place++) {
    const { fault, body } = card.manage(mad.METHOD_GET, mad.ATTRIBUTE_REGION, () => {}, place)
    if (fault === 'PASS') found.push(new TextDecoder().decode(body.slice(0, body.indexOf(0))))
  }
  return found
}

describe('R1-A1: a slice', () => {
  it.each([
    { stride: 128, copies: 2, slots: SLICE_RECORDS },
    { stride: 4160, copies: 2, slots: Math.floor(SLICE_BYTES / 8320) },
    { stride: 2 * SLICE_BYTES, copies: 3, slots: 1 },
  ])('has $slots slots of $stride bytes in $copies copies', ({ stride, copies, slots }) => {
    const region = { slots: 5000, stride, copies } as Region
    expect(slots).toBeLessThanOrEqual(SLICE_RECORDS)
    expect(sliceEnd(region, 0)).toBe(slots)
    expect(sliceEnd(region, 4000)).toBe(4000 + slots)
    expect(sliceEnd(region, 4999)).toBe(5000)
  })
})

describe('a region of many slots', () => {
  it('R1-A3: is made in slices, records are taken meanwhile, and STATUS tells what remains', () => {
    const card = new TestCard().format()
    const small = card.provision({ name: 'small' })
    expect(card.tryProvision(LARGE).fault).toBe('UNDER_WAY')
    expect(card.waitUs).toBeGreaterThan(0)
    const seen: number[] = []
    for (let slot = 0; underWay(card)[0] === 1; slot++) {
      const [, done, total] = underWay(card)
      seen.push(done)
      expect(total).toBe(LARGE_BYTES)
      expect(writeStatus(card, small, slot % 8, slot)).toBe(0)
      card.idle()
    }
    const slices = Array.from({ length: Math.ceil(100 / SLICE_MADE) - 1 }, (_, i) => i + 1)
    expect(seen).toEqual(slices.map((slice) => slice * SLICE_MADE * 256))
    const { fault, body } = card.tryProvision(LARGE)
    expect([fault, u32(body, mad.REGION_SLOTS)]).toEqual(['PASS', 100])
    expect(underWay(card)).toEqual([0, 0, 0])
    for (const slot of [0, 15, 16, 99]) {
      expect(readData(card, 'large', slot)).toEqual(new Uint8Array(64))
    }
    const next = new TestCard(card.nvdimm)
    expect(readData(next, 'large', 99)).toEqual(new Uint8Array(64))
  })

  it('R1-A3: no call of the board does more than a slice, however often it is asked for', () => {
    const card = new TestCard(new Nvdimm({ bytes: 1 << 21 })).format()
    const commands = countCommands(card.machine)
    for (let asked = 0; card.tryProvision({ ...LARGE, slots: 4000 }).fault !== 'PASS'; asked++) {
      expect(commands.passed).toBeLessThan(SLICE_MADE * 9)
      commands.passed = 0
      expect(asked).toBeLessThan(600)
    }
    card.tryProvision({ ...LARGE, name: 'other', slots: 1000 })
    expect(rest(card)).toBeLessThan(SLICE_RECORDS * 16)
  })

  it('R1-A3: asked for twice in one burst, one slice is done', () => {
    const card = new TestCard().format()
    expect(card.tryProvision(LARGE).fault).toBe('UNDER_WAY')
    const [, before] = underWay(card)
    const ask = (): Uint8Array =>
      card.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor(LARGE))
    expect(card.serve(ask(), ask())).toHaveLength(2)
    const [, done] = underWay(card)
    expect(done - before).toBe(SLICE_MADE * 256)
    rest(card)
    expect(card.tryProvision(LARGE).fault).toBe('PASS')
  })

  it('R1-A3: asked for anything else meanwhile, the answer is typed', () => {
    const card = new TestCard().format()
    expect(card.tryProvision(LARGE).fault).toBe('UNDER_WAY')
    expect(card.tryProvision({ ...LARGE, slots: 101 }).fault).toBe('REGION_EXISTS')
    expect(card.tryProvision({ name: 'other' }).fault).toBe('UNDER_WAY')
    expect(remove(card, 'large')).toBe('NO_REGION')
    rest(card)
    expect(card.tryProvision({ name: 'other' }).fault).toBe('PASS')
    expect(card.tryProvision({ ...LARGE, slots: 101 }).fault).toBe('REGION_EXISTS')
  })

  it.each(['made', 'cleared'])('R1-A3: whoever asks for another one helps what is %s', (what) => {
    const card = new TestCard(1 << 19).format()
    const large = { ...LARGE, slots: 600 }
    if (what === 'cleared') {
      card.provision(large)
      expect(remove(card, 'large')).toBe('PASS')
      card.now += 1000
      card.idle()
    } else expect(card.tryProvision(large).fault).toBe('UNDER_WAY')
    // Nobody calls the card in idle time: each time it is asked a slice is done, and it ends.
    const [, began, total] = underWay(card)
    for (let done = began; underWay(card)[2] === total; ) {
      expect(card.tryProvision({ name: 'other' }).fault).toMatch(/^(UNDER_WAY|PASS)$/)
      const [, now, all] = underWay(card)
      // It is over, or the other one has begun.
      if (all === total) expect(now).toBeGreaterThan(done)
      done = now
    }
    expect(card.provision({ name: 'other' }).id).toBe(2)
    expect(underWay(card)[0]).toBe(0)
  })

  it('R1-A3: what a medium refuses ends it, is said once, and leaves nothing', () => {
    const card = new TestCard().format()
    const blank = card.nvdimm.durable.slice(0, 12288)
    expect(card.tryProvision(LARGE).fault).toBe('UNDER_WAY')
    const first = 12288 + 2 * 128 * 64
    card.nvdimm.refuseWrites(first / 64 + 2 * 50)
    rest(card)
    expect(names(card)).toEqual([])
    expect(card.tryProvision(LARGE).fault).toBe('MEDIA')
    card.nvdimm.refuseWrites(first / 64 + 2 * 50, false)
    expect(card.nvdimm.durable.slice(0, 12288)).toEqual(blank)
    expect(card.tryProvision(LARGE).fault).toBe('UNDER_WAY')
    rest(card)
    expect(card.tryProvision(LARGE).fault).toBe('PASS')
  })

  it('R1-A3: a page of the superblock refuses it, again: its room is nobody else’s', () => {
    const card = new TestCard().format()
    card.nvdimm.refuseWrites(4096 / 64)
    const shape = { name: 'small', slots: 8 }
    for (let i = 0; i < 3; i++) expect(card.tryProvision(shape).fault).toBe('SUPERBLOCK')
    card.nvdimm.refuseWrites(4096 / 64, false)
    // A page has taken the first of them: whether a start finds it, its records are whole.
    const next = new TestCard(card.nvdimm)
    expect(next.provision(shape).slots).toBe(8)
    expect(readData(next, 'small', 7)).toEqual(new Uint8Array(64))
    expect(card.tryProvision(shape).fault).toBe('PASS')
    expect(names(new TestCard(card.nvdimm))).toEqual(['small'])
  })

  it('R1-A3: the save energy that goes ends it, and the part stays open', () => {
    const card = new TestCard().format()
    expect(card.tryProvision(LARGE).fault).toBe('UNDER_WAY')
    arm(card, false)
    card.idle()
    expect(card.tryProvision(LARGE).fault).toBe('NOT_ARMED')
    arm(card, true)
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
    expect(card.provision(LARGE).slots).toBe(100)
  })

  it('R1-A3: cut at any command of any slice, and cut again, it is undone', () => {
    const shape = { ...LARGE, slots: 40 }
    let ended = false
    for (let at = 0; !ended; at += 7) {
      const begun = new TestCard().format()
      begun.provision({ name: 'small', slots: 2 })
      writeStatus(begun, begun.open('small'), 1, 5)
      let card = begun
      for (const cuts of [0, 1]) {
        card.machine.armCut(at + cuts)
        try {
          card.tryProvision(shape)
          while (!card.machine.dead && card.waitUs > 0) card.idle()
        } catch {
          // No answer: the power went.
        }
        if (cuts === 0) ended = !card.machine.dead
        card.machine.die()
        cut(card.nvdimm, { random: new Random(SEED + at) })
        card = new TestCard(card.nvdimm)
        expect(readData(card, 'small', 1)).toEqual(dataOf(64, 5))
        expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
      }
      const there = names(card)
      expect([['small'], ['small', 'large']]).toContainEqual(there)
      expect(card.provision(shape).slots).toBe(40)
      for (let slot = 0; slot < 40; slot++) {
        expect(readData(card, 'large', slot), `cut at ${at}`).toEqual(new Uint8Array(64))
      }
    }
  })

  it('R1-A3: through the host’s caches its job stores it in slices, at each start again', () => {
    const made = placed(DDIO_ON, { slots: 2 })
    const shape = { name: 'second', slots: 32, placement: PLACEMENT_THROUGH }
    const early = made.card.provision(shape)
    // It waits, as it would have to come again.
    const [waits] = made.card.serve(...persistFrames(made.qp, early, 31, dataOf(64, 1)))
    expect([waits!.opcode, waits!.syndrome]).toEqual([RC_ACKNOWLEDGE, 0x22])
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const next = restarted(made)
    believe(next, PLACEMENT_THROUGH)
    const agent = attachedAgent(next)
    const commands = countCommands(next.machine)
    for (let quiet = 0; quiet < 4; ) {
      quiet = agent.poll() === 0 && commands.passed < 8 ? quiet + 1 : 0
      commands.passed = 0
      next.idle()
      expect(commands.passed).toBeLessThan(SLICE_RECORDS * 32)
    }
    const region = next.open('second')
    const qp = next.connect()
    next.serve(...persistFrames(qp, region, 31, dataOf(64, 1)))
    work(next, agent)
    expect(next.read(qp, region, 31, VIEW_DATA, 64)).toEqual(dataOf(64, 1))
    expect(next.read(qp, region, 30, VIEW_DATA, 64)).toEqual(new Uint8Array(64))
  })

  it.each([true, false])(
    'R1-A3: a posted write that is lost ends it; contained: %s',
    (contains) => {
      const made = placed(DDIO_OFF)
      const { card } = made
      card.host!.link.contains = contains
      const shape = { name: 'second', slots: 32, placement: PLACEMENT_BYPASS }
      expect(card.tryProvision(shape).fault).toBe('UNDER_WAY')
      card.host!.link.script = ({ kind }) => (kind === 'write' ? 'lost' : undefined)
      card.idle()
      card.host!.link.script = null
      expect(card.tryProvision(shape).fault).toBe('DMA')
      expect(names(card)).toEqual(['records'])
      expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
    },
  )
})

describe('B2: a region is made in the memory of a host that goes meanwhile', () => {
  it('for another one, with other memory, it is made from its begin', () => {
    const made = placed(DDIO_OFF, { slots: 2 })
    const { card } = made
    const shape = { name: 'second', slots: 32, placement: PLACEMENT_BYPASS }
    expect(card.tryProvision(shape).fault).toBe('UNDER_WAY')
    // The card is busy: between this host and the next one no slice has its turn.
    card.host!.link.remove()
    expect(writeStatus(card, made.region, 0, 1)).toBe(0x8f)
    card.host!.comeBack({ part: 'cleared' })
    believe(card, PLACEMENT_BYPASS)
    const second = card.provision(shape)
    expect(readData(card, 'second', 0)).toEqual(new Uint8Array(64))
    expect(writeStatus(card, second, 31, 1)).toBe(0)
  })

  it('nor is its room free before the other memory is filled with zeros', () => {
    const host = new HostMemory({ part: new Nvdimm({ bytes: 1 << 19 }), platform: DDIO_OFF })
    const card = cardOf(1 << 16, host).format()
    believe(card, PLACEMENT_BYPASS)
    const length = 4 * SLICE_BYTES
    card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length, placement: PLACEMENT_BYPASS })
    const records = card.provision({ slots: 2, placement: PLACEMENT_BYPASS })
    expect(remove(card, 'bytes')).toBe('PASS')
    card.idle()
    expect(underWay(card)).toEqual([2, SLICE_BYTES, length])
    host.link.remove()
    expect(writeStatus(card, records, 0, 1)).toBe(0x8f)
    host.comeBack({ part: 'cleared' })
    host.part.store(HOST_DATA_AT, dataOf(64, 1), 0, 64)
    believe(card, PLACEMENT_BYPASS)
    rest(card)
    expect(host.load(HOST_DATA_AT, 64).bytes).toEqual(new Uint8Array(64))
  })
})

describe('a part in the place of a smaller one', () => {
  it('is served, and may go back: no region lies behind its former end', () => {
    const begun = new TestCard(1 << 16).format()
    expect(writeStatus(begun, begun.provision({ name: 'small', slots: 8 }), 0, 3)).toBe(0)
    begun.machine.die()
    const content = new Uint8Array(1 << 18)
    content.set(begun.nvdimm.durable)
    const card = new TestCard(new Nvdimm({ bytes: content.length, content }))
    expect(card.tryProvision({ name: 'behind', slots: 400 }).fault).toBe('NO_SPACE')
    expect(card.provision({ name: 'within', slots: 8 }).slots).toBe(8)
    const back = new Nvdimm({ bytes: 1 << 16, content: card.nvdimm.durable.slice(0, 1 << 16) })
    for (const part of [card.nvdimm, back]) {
      const next = new TestCard(part)
      expect(names(next)).toEqual(['small', 'within'])
      expect(readData(next, 'small', 0)).toEqual(dataOf(64, 3))
    }
  })
})

describe('a region that is removed', () => {
  it('leaves its room to the next one, which waits for that, on a full part', () => {
    const card = new TestCard(1 << 17).format()
    const length = (1 << 17) - 28672
    const bytes = { kind: mad.KIND_BYTES, length }
    const full = card.provision({ name: 'full', ...bytes })
    const old = dataOf(64, 1)
    card.serve(...writeFrames(card.connect(), full, 0, old))
    expect(card.tryProvision({ name: 'other', ...bytes }).fault).toBe('NO_SPACE')
    expect(remove(card, 'full')).toBe('PASS')
    // Whoever asks again helps: it is there in as many calls as slices and one, at the most.
    const said: string[] = []
    do said.push(card.tryProvision({ name: 'other', ...bytes }).fault)
    while (said.at(-1) === 'UNDER_WAY' && said.length < 100)
    expect(said.at(-1)).toBe('PASS')
    expect(said[0]).toBe('UNDER_WAY')
    expect(said.length).toBeLessThanOrEqual(Math.ceil(length / SLICE_BYTES) + 1)
    const qp = card.connect()
    expect(card.read(qp, card.open('other'), 0, 0, 64)).toEqual(new Uint8Array(64))
    // What never fits is refused, though not before the room is known.
    expect(remove(card, 'other')).toBe('PASS')
    const large = { name: 'large', kind: mad.KIND_BYTES, length: length + 4096 }
    const answers: string[] = []
    do answers.push(card.tryProvision(large).fault)
    while (answers.at(-1) === 'UNDER_WAY' && answers.length < 100)
    expect(answers.at(-1)).toBe('NO_SPACE')
  })

  it('leaves its room to who asks in a burst that has done its slice, when he asks again', () => {
    const card = new TestCard(1 << 17).format()
    const length = (1 << 17) - 28672 - 8192
    const bytes = { kind: mad.KIND_BYTES, length }
    card.provision({ name: 'full', ...bytes })
    const ask = (shape: RegionShape): Uint8Array =>
      card.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor(shape))
    const first = card.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode('full'), mad.REGION_NAME)
    })
    const other = { name: 'other', ...bytes }
    const sent = card.serve(first, ask({ name: 'small', slots: 4, capacity: 64 }), ask(other))
    expect(sent.map(({ payload }) => FAULTS[payload[mad.MAD_FAULT]!]!.name)).toEqual([
      'PASS',
      'PASS',
      'UNDER_WAY',
    ])
    expect(names(card)).toEqual(['small'])
    card.provision(other)
    expect(names(card).sort()).toEqual(['other', 'small'])
  })

  it('leaves its place to the next one, where all are taken', () => {
    const card = new TestCard(1 << 19).format()
    for (let i = 0; i < REGIONS; i++) card.provision({ name: `r${i}`, slots: 1 })
    expect(card.tryProvision({ name: 'more', slots: 1 }).fault).toBe('REGIONS_FULL')
    expect(remove(card, 'r3')).toBe('PASS')
    expect(card.tryProvision({ name: 'more', slots: 1 }).fault).toBe('UNDER_WAY')
    expect(card.provision({ name: 'more', slots: 1 }).slots).toBe(1)
  })

  it('its key names nothing, its room is free, and nothing of it is ever valid again', () => {
    const card = new TestCard(1 << 17).format()
    const shape = { name: 'first', slots: 8 }
    const first = card.provision(shape)
    card.provision({ name: 'second', slots: 2 })
    for (let slot = 0; slot < 8; slot++) writeStatus(card, first, slot, slot)
    const at = 12288 + 2 * 128 * 64
    const old = card.nvdimm.durable.slice(at, at + 8 * 128)
    const qp = card.connect()
    expect(remove(card, 'first')).toBe('PASS')
    expect(card.read(qp, first, 0, VIEW_DATA, 64)).toBeNull()
    expect(
      card.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => {
        body.set(new TextEncoder().encode('first'), mad.REGION_NAME)
      }).fault,
    ).toBe('NO_REGION')
    expect(underWay(card)[0]).toBe(0)
    rest(card)
    expect(card.nvdimm.durable.slice(at, at + 8 * 128)).toEqual(new Uint8Array(8 * 128))
    expect(remove(card, 'first')).toBe('NO_REGION')
    const again = card.provision(shape)
    expect(again.id).toBe(3)
    expect(again.key).not.toEqual(first.key)
    // Its slots as they were, in the very same places, at the next start.
    const content = card.nvdimm.durable.slice()
    content.set(old, at)
    const next = new TestCard(new Nvdimm({ bytes: content.length, content }))
    for (let slot = 0; slot < 8; slot++) {
      expect(readData(next, 'first', slot)).toEqual(new Uint8Array(64))
    }
  })

  it('cut at any command, and cut again: it is whole, or none; then its room is free', () => {
    let ended = false
    for (let at = 0; !ended; at += 3) {
      let card = new TestCard(1 << 17).format()
      const first = card.provision({ name: 'first', slots: 8 })
      card.provision({ name: 'second', slots: 2 })
      writeStatus(card, first, 3, 4)
      writeStatus(card, card.open('second'), 1, 5)
      for (const cuts of [0, 2]) {
        card.machine.armCut(at + cuts)
        try {
          if (names(card).includes('first')) remove(card, 'first')
          while (!card.machine.dead && card.waitUs > 0) card.idle()
        } catch {
          // No answer: the power went.
        }
        if (cuts === 0) ended = !card.machine.dead
        card.machine.die()
        cut(card.nvdimm, { random: new Random(SEED + at) })
        card = new TestCard(card.nvdimm)
        const there = names(card)
        expect([['second'], ['first', 'second']], `cut at ${at}`).toContainEqual(there)
        if (there.length === 2) expect(readData(card, 'first', 3)).toEqual(dataOf(64, 4))
        expect(readData(card, 'second', 1)).toEqual(dataOf(64, 5))
      }
      if (names(card).includes('first')) expect(remove(card, 'first')).toBe('PASS')
      rest(card)
      expect(card.provision({ name: 'first', slots: 8 }).id).toBe(3)
      expect(readData(card, 'first', 3)).toEqual(new Uint8Array(64))
      expect(readData(card, 'second', 1)).toEqual(dataOf(64, 5))
    }
  })

  it('what is under way into it is refused, by name, and stores nothing', () => {
    const card = new TestCard().format()
    const region = card.provision({ name: 'first', slots: 8, capacity: 4096 })
    const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 8192 })
    const persisting = card.connect(1024)
    const [head, ...tail] = persistFrames(persisting, region, 0, dataOf(4096, 1))
    card.serve(head!)
    const batching = card.connect()
    card.serve(
      batchFrames(batching, region, [
        { slot: 1, data: dataOf(64, 2) },
        { slot: 2, data: dataOf(64, 3) },
      ])[0]!,
    )
    const sent: number[] = []
    expect(remove(card, 'first')).toBe('PASS')
    sent.push(
      ...card.sent.filter(({ syndrome }) => syndrome >= 0x60).map(({ syndrome }) => syndrome),
    )
    expect(sent).toEqual([0x62, 0x62])
    expect(card.serve(...tail)).toEqual([])
    expect(remove(card, 'bytes')).toBe('PASS')
    expect(card.read(card.connect(), bytes, 0, 0, 64)).toBeNull()
    rest(card)
    expect(names(card)).toEqual([])
  })

  it('a message on its way elsewhere goes on, wherever an earlier one went', () => {
    const card = new TestCard().format()
    const first = card.provision({ name: 'first' })
    const shape = { kind: mad.KIND_BYTES, length: 8192 }
    const places = ['low', 'middle', 'high'].map((name) => card.provision({ name, ...shape }))
    // Each of them has stored a record of the first region.
    const pairs = [...places, null].map((place, i) => {
      const qp = card.connect(1024)
      card.serve(...persistFrames(qp, first, i, dataOf(64, i)))
      const data = dataOf(4096, i)
      const frames = place === null ? sendFrames(qp, data) : writeFrames(qp, place, 0, data)
      card.serve(frames[0]!)
      return { qp, place, data, rest: frames.slice(1) }
    })
    expect(remove(card, 'middle')).toBe('PASS')
    expect(refusals(card)).toEqual([[pairs[1]!.qp.peer, NAK_ACCESS]])
    expect(remove(card, 'first')).toBe('PASS')
    expect(refusals(card)).toEqual([])
    for (const { qp, place, data, rest } of [pairs[0]!, pairs[2]!, pairs[3]!]) {
      expect(card.serve(...rest).at(-1)!.syndrome).toBe(ACK)
      if (place !== null) expect(card.read(qp, place, 0, 0, 4096)).toEqual(data)
    }
  })

  it('what is repeated of it reads nothing, and earns no receipt that only it could give', () => {
    const card = new TestCard(1 << 18).format()
    const region = card.provision({ name: 'first', slots: 8 })
    const other = card.provision({ name: 'other', slots: 8 })
    const qp = card.connect()
    const [record] = persistFrames(qp, region, 0, dataOf(64, 1))
    card.serve(record!)
    // The queue pair remembers no receipt of so long ago; the table knows the operation.
    for (let i = 0; i < REMEMBERED_RECORDS; i++) {
      card.serve(...persistFrames(qp, other, i % 8, dataOf(64, i)))
    }
    expect(persistAcks(card.serve(record!)).map(({ status }) => status)).toEqual([0])
    const read = readFrame(qp, region, 0, 0, 64)
    expect(card.serve(read)[0]!.payload).toEqual(dataOf(64, 1))
    expect(remove(card, 'first')).toBe('PASS')
    expect(persistAcks(card.serve(record!))).toEqual([])
    expect(card.serve(read)).toEqual([])
    expect(card.counter('DUPLICATE_FORGOTTEN')).toBe(1)
    expect(writeStatus(card, other, 1, 9)).toBe(0)
  })

  it('its lost records count no more, others do, and its port publishes nothing', () => {
    const card = new TestCard().format()
    const region = card.provision({ name: 'first', slots: 8 })
    for (const copy of [0, 1]) {
      card.nvdimm.poison((12288 + 2 * 128 * 64 + copy * 4096) / 64)
    }
    card.scan(region.id)
    expect(u32(card.status(), mad.PART_UNSETTLED)).toBe(1)
    const other = card.provision({ name: 'other', slots: 8 })
    for (const copy of [0, 1]) {
      card.nvdimm.poison((12288 + 2 * 128 * 64 + 2 * 4096 + copy * 4096) / 64)
    }
    card.scan(other.id)
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, (body) => {
      body.set(new TextEncoder().encode('first'), mad.REGION_NAME)
      putU16(body, mad.PUBLISH_PORT, 7000)
      body[mad.PUBLISH_FORM] = mad.FORM_CAPABILITY
    })
    expect(remove(card, 'first')).toBe('PASS')
    rest(card)
    expect(card.provision({ name: 'first', slots: 8 }).unsettled).toBe(0)
    for (const one of [card, new TestCard(card.nvdimm)]) {
      expect(one.open('other').unsettled).toBe(1)
      expect(readData(one, 'other', 0)).toBeNull()
    }
  })

  it('a record whose second copy the medium refuses is none of the next region’s', () => {
    const card = new TestCard().format()
    const first = card.provision({ name: 'first', slots: 8 })
    writeStatus(card, first, 0, 1)
    const line = (12288 + 2 * 128 * 64 + 4096) / 64
    card.nvdimm.refuseWrites(line)
    card.serve(...persistFrames(card.connect(), first, 0, dataOf(64, 2), { wait: 1 }))
    expect(card.open('first').unsettled).toBe(1)
    expect(remove(card, 'first')).toBe('PASS')
    card.nvdimm.refuseWrites(line, false)
    rest(card)
    const again = card.provision({ name: 'first', slots: 8 })
    expect(again.unsettled).toBe(0)
    expect(writeStatus(card, again, 0, 3)).toBe(0)
    // The lane that stays on the medium names a region that is none.
    const next = new TestCard(card.nvdimm)
    expect(next.open('first').unsettled).toBe(0)
    expect(readData(next, 'first', 0)).toEqual(dataOf(64, 3))
  })

  it('its place of the table goes to one that may lie behind all others', () => {
    const card = new TestCard().format()
    card.provision({ name: 'first', slots: 8 })
    const second = card.provision({ name: 'second', slots: 2 })
    writeStatus(card, second, 1, 5)
    expect(remove(card, 'first')).toBe('PASS')
    rest(card)
    const third = card.provision({ name: 'third', slots: 80 })
    writeStatus(card, third, 79, 6)
    const next = new TestCard(card.nvdimm)
    expect(names(next)).toEqual(['third', 'second'])
    expect(readData(next, 'second', 1)).toEqual(dataOf(64, 5))
    expect(readData(next, 'third', 79)).toEqual(dataOf(64, 6))
  })

  it('a place of the table is used again, an identity never, over any number of starts', () => {
    let card = new TestCard(1 << 20).format()
    for (let i = 0; i < REGIONS; i++) card.provision({ name: `region ${i}`, slots: 1 })
    expect(card.tryProvision({ name: 'more', slots: 1 }).fault).toBe('REGIONS_FULL')
    const ids = new Set<number>()
    for (let i = 0; i < 8; i++) {
      const name = i === 0 ? 'region 7' : `again ${i - 1}`
      ids.add(card.open(name).id)
      expect(remove(card, name)).toBe('PASS')
      rest(card)
      card = new TestCard(card.nvdimm)
      ids.add(card.provision({ name: `again ${i}`, slots: 1 }).id)
    }
    expect(ids.size).toBe(9)
    expect(names(card)).toHaveLength(REGIONS)
  })

  it('the last ones of the table go, and the table is as it was', () => {
    const card = new TestCard().format()
    const first = card.provision({ name: 'first', slots: 2 })
    for (const name of ['second', 'third']) card.provision({ name, slots: 2 })
    for (const name of ['second', 'third']) {
      expect(remove(card, name)).toBe('PASS')
      rest(card)
    }
    expect(card.status()[mad.PART_REGIONS]).toBe(1)
    expect(card.provision({ name: 'fourth', slots: 2 }).id).toBe(first.id + 3)
  })

  it('the last one of the table goes, a start, and who has its room keeps it', () => {
    const begun = new TestCard().format()
    begun.provision({ name: 'first', slots: 8 })
    expect(remove(begun, 'first')).toBe('PASS')
    rest(begun)
    const card = new TestCard(begun.nvdimm)
    expect(writeStatus(card, card.provision({ name: 'second', slots: 8 }), 0, 7)).toBe(0)
    rest(card)
    expect(readData(card, 'second', 0)).toEqual(dataOf(64, 7))
    const next = new TestCard(card.nvdimm)
    expect(names(next)).toEqual(['second'])
    expect(readData(next, 'second', 0)).toEqual(dataOf(64, 7))
  })

  it('a superblock that does not take it leaves it as it was', () => {
    const card = new TestCard().format()
    const region = card.provision({ name: 'first', slots: 2 })
    writeStatus(card, region, 0, 1)
    card.nvdimm.fencesToFail = 1
    expect(remove(card, 'first')).toBe('FLUSH')
    expect(remove(card, 'first')).toBe('FLUSH')
    expect(readData(card, 'first', 0)).toEqual(dataOf(64, 1))
    // Whether a page has taken it shows at the next start.
    const next = new TestCard(card.nvdimm)
    const there = names(next)
    expect([[], ['first']]).toContainEqual(there)
    if (there.length > 0) expect(readData(next, 'first', 0)).toEqual(dataOf(64, 1))
  })

  it.each([0, 1])('page %i refuses it: what is acknowledged from then on stays', (page) => {
    const card = new TestCard().format()
    const region = card.provision({ name: 'first', slots: 8 })
    const other = card.provision({ name: 'other', slots: 8 })
    expect(writeStatus(card, region, 0, 1)).toBe(0)
    const line = (page * 4096) / 64
    card.nvdimm.refuseWrites(line)
    expect(remove(card, 'first')).toBe('SUPERBLOCK')
    const isThere = names(card).includes('first')
    if (isThere) expect(writeStatus(card, region, 1, 2)).toBe(0)
    expect(writeStatus(card, other, 0, 3)).toBe(0)
    rest(card)
    card.machine.die()
    cut(card.nvdimm, { random: new Random(SEED), strategy: 'none' })
    // The other page decays: what counts is the one that refused.
    const content = card.nvdimm.durable.slice()
    content.fill(0xa5, (1 - page) * 4096, (1 - page) * 4096 + 4096)
    const parts = [card.nvdimm, new Nvdimm({ bytes: content.length, content })]
    for (const [i, part] of parts.entries()) {
      const next = new TestCard(part)
      expect(readData(next, 'other', 0)).toEqual(dataOf(64, 3))
      if (i === 0) expect(names(next).includes('first')).toBe(isThere)
      if (!names(next).includes('first')) continue
      expect(readData(next, 'first', 0)).toEqual(dataOf(64, 1))
      if (isThere) expect(readData(next, 'first', 1)).toEqual(dataOf(64, 2))
    }
  })

  it('page 1 refuses it, and takes it later: then its room is cleared, and free', () => {
    const card = new TestCard().format()
    const region = card.provision({ name: 'first', slots: 8 })
    expect(writeStatus(card, region, 0, 1)).toBe(0)
    card.nvdimm.refuseWrites(4096 / 64)
    expect(remove(card, 'first')).toBe('SUPERBLOCK')
    for (let i = 0; i < 2 * SCRUB_TURNS; i++) card.idle()
    expect(card.status()[mad.PART_REGIONS]).toBe(1)
    card.nvdimm.refuseWrites(4096 / 64, false)
    for (let i = 0; i < 2 * SCRUB_TURNS; i++) card.idle()
    expect(card.status()[mad.PART_REGIONS]).toBe(0)
    expect(card.provision({ name: 'first', slots: 8 }).id).toBe(2)
  })

  it('page 1 refuses it: a lane of it serves nobody else, as the next start may find it', () => {
    const card = new TestCard().format()
    const region = card.provision({ name: 'first', slots: 8 })
    const other = card.provision({ name: 'other', slots: 8 })
    expect(writeStatus(card, region, 0, 1)).toBe(0)
    const second = (12288 + 2 * 128 * 64 + 4096) / 64
    card.nvdimm.refuseWrites(second)
    card.serve(...persistFrames(card.connect(), region, 0, dataOf(64, 2), { wait: 1 }))
    card.nvdimm.refuseWrites(4096 / 64)
    expect(remove(card, 'first')).toBe('SUPERBLOCK')
    for (let slot = 0; slot < 8; slot++) expect(writeStatus(card, other, slot, slot)).toBe(0)
    rest(card)
    card.machine.die()
    cut(card.nvdimm, { random: new Random(SEED), strategy: 'none' })
    const content = card.nvdimm.durable.slice()
    content.fill(0xa5, 0, 4096)
    content.fill(0xa5, second * 64 - 4096, second * 64 - 4096 + 64)
    const next = new TestCard(new Nvdimm({ bytes: content.length, content }))
    // What was acknowledged is lost with its only copy, and never the one before it.
    expect(names(next)).toEqual(['first', 'other'])
    expect(readData(next, 'first', 0)).toBeNull()
  })

  it('page 1 refuses it: nor does one through the host’s caches, whose record is in doubt', () => {
    const made = placed(DDIO_ON)
    const { card, region, qp, agent } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    work(card, agent!)
    // The agent has written its first copy back, and not the second.
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2), { wait: 1 }))
    for (let i = 0; i < 4 && persistAcks(card.sent).length === 0; i++) {
      agent!.poll()
      card.serve()
    }
    expect(persistAcks(card.sent)).toMatchObject([{ status: 0, copies: 1 }])
    card.nvdimm.refuseWrites(4096 / 64)
    expect(remove(card, 'records')).toBe('SUPERBLOCK')
    work(card, agent!)
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const content = card.nvdimm.durable.slice()
    content.fill(0xa5, 0, 4096)
    const nvdimm = new Nvdimm({ bytes: content.length, content })
    const next = cardOf(nvdimm, new HostMemory({ part: made.host.part, platform: DDIO_ON }))
    expect(readData(next, 'records', 0)).toEqual(dataOf(64, 2))
    expect(u32(next.status(), mad.PART_LANES_ACTIVE)).toBe(1)
  })

  it('without save energy it is refused', () => {
    const card = new TestCard().format()
    card.provision({ name: 'first', slots: 2 })
    arm(card, false)
    expect(remove(card, 'first')).toBe('NOT_ARMED')
    arm(card, true)
    expect(remove(card, 'first')).toBe('PASS')
    arm(card, false)
    rest(card)
    arm(card, true)
    rest(card)
    expect(card.provision({ name: 'first', slots: 2 }).id).toBe(2)
  })

  it('the save energy goes while its room is cleared, and comes back: that goes on', () => {
    const card = new TestCard().format()
    card.provision({ name: 'first', slots: 600 })
    expect(remove(card, 'first')).toBe('PASS')
    card.idle()
    expect(underWay(card)[0]).toBe(2)
    arm(card, false)
    rest(card)
    expect(underWay(card)[0]).toBe(0)
    arm(card, true)
    rest(card)
    expect(card.status()[mad.PART_REGIONS]).toBe(0)
    expect(card.provision({ name: 'second', slots: 600 }).id).toBe(2)
  })

  it('a line that takes no zeros keeps none of the others from them', () => {
    for (const lines of [[0], [3, 5], [63, 64], [511]]) {
      const card = new TestCard(new Nvdimm({ bytes: 1 << 18 })).format()
      const first = card.provision({ name: 'first', slots: 100 })
      for (let slot = 0; slot < 100; slot++) expect(writeStatus(card, first, slot, slot)).toBe(0)
      const at = 12288 + 2 * 128 * 64
      for (const line of lines) card.nvdimm.refuseWrites(at / 64 + line)
      expect(remove(card, 'first')).toBe('PASS')
      rest(card)
      expect(names(card)).toEqual([])
      expect(underWay(card)).toEqual([0, 0, 0])
      const left = Array.from({ length: 512 }, (_, i) => i).filter((i) =>
        card.nvdimm.durable.subarray(at + 64 * i, at + 64 * i + 64).some((byte) => byte !== 0),
      )
      expect(lines).toEqual(expect.arrayContaining(left))
    }
  })

  it('a line that takes no zeros, and a cut: what is free is filled', THOROUGH, () => {
    const at = 12288 + 2 * 128 * 64
    for (const strategy of ['suffix', 'all-but-one', 'half'] as const) {
      for (let command = 0, ended = false; !ended; command++) {
        const card = new TestCard(new Nvdimm({ bytes: 1 << 16 })).format()
        const first = card.provision({ name: 'first', slots: 30 })
        for (let slot = 0; slot < 30; slot++) {
          expect(writeStatus(card, first, slot, slot)).toBe(0)
        }
        expect(remove(card, 'first')).toBe('PASS')
        // The last line of the room, so the page that frees it comes next.
        card.nvdimm.refuseWrites(at / 64 + 127)
        card.machine.armCut(command)
        while (!card.machine.dead && card.waitUs > 0) card.idle()
        ended = !card.machine.dead
        card.machine.die()
        cut(card.nvdimm, { random: new Random(SEED + command), strategy })
        const next = new TestCard(card.nvdimm)
        if (next.status()[mad.PART_REGIONS] !== 0) continue
        const room = next.nvdimm.durable.subarray(at, at + 127 * 64)
        expect(room.some((byte) => byte !== 0)).toBe(false)
      }
    }
  })

  it('a fence that fails under it closes the part, and the next start goes on', () => {
    const card = new TestCard(new Nvdimm({ bytes: 1 << 16 })).format()
    card.provision({ name: 'first', slots: 8 })
    const line = (12288 + 2 * 128 * 64) / 64
    card.nvdimm.refuseWrites(line)
    expect(remove(card, 'first')).toBe('PASS')
    card.nvdimm.fencesToFail = 1
    card.idle()
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_FAILED_CLOSED)
    const next = new TestCard(card.nvdimm)
    expect(underWay(next)[0]).toBe(0)
    rest(next)
    expect(next.status()[mad.PART_REGIONS]).toBe(0)
    next.nvdimm.refuseWrites(line, false)
    expect(next.provision({ name: 'second', slots: 4 }).id).toBe(2)
  })

  it('lanes that stayed for its sake serve others again', () => {
    const made = placed(DDIO_OFF, { slots: 32 })
    const { card, region, qp, host } = made
    const frames = Array.from({ length: 24 }, (_, slot) =>
      persistFrames(qp, region, slot, dataOf(64, slot)),
    )
    host.link.remove()
    const told = persistAcks(card.serve(...frames.flat())).map(({ status }) => status)
    expect(told).toEqual(Array.from({ length: 24 }, () => 0x8f))
    expect(remove(card, 'records')).toBe('PASS')
    host.comeBack()
    believe(card, PLACEMENT_BYPASS)
    rest(card)
    const again = card.provision({ name: 'again', slots: 8, placement: PLACEMENT_BYPASS })
    expect(writeStatus(card, again, 0, 1)).toBe(0)
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    expect(readData(restarted(made), 'again', 0)).toEqual(dataOf(64, 1))
  })

  it('nor do those whose repair its medium has refused stay', () => {
    const card = new TestCard(new Nvdimm({ bytes: 1 << 18 })).format()
    const first = card.provision({ name: 'first', slots: 32 })
    const other = card.provision({ name: 'other', slots: 8 })
    const second = 12288 + 2 * 128 * 64 + 4096
    for (let slot = 0; slot < 32; slot++) card.nvdimm.refuseWrites((second + slot * 128) / 64)
    const qp = card.connect()
    const frames = Array.from({ length: 32 }, (_, slot) =>
      persistFrames(qp, first, slot, dataOf(64, slot)),
    )
    card.serve(...frames.flat())
    expect(card.open('first').unsettled).toBe(32)
    expect(writeStatus(card, other, 0, 1)).toBe(0x8b)
    expect(remove(card, 'first')).toBe('PASS')
    expect(writeStatus(card, other, 0, 1)).toBe(0)
    rest(card)
    for (let slot = 0; slot < 8; slot++) expect(writeStatus(card, other, slot, slot)).toBe(0)
    const next = new TestCard(card.nvdimm)
    expect(readData(next, 'other', 7)).toEqual(dataOf(64, 7))
    expect(writeStatus(next, next.open('other'), 1, 9)).toBe(0)
  })

  it('in the host’s memory: its room waits for the host, and lets others go first', () => {
    const made = placed(DDIO_OFF)
    const { card } = made
    expect(remove(card, 'records')).toBe('PASS')
    cutPower(made, { random: new Random(SEED), strategy: 'all' })
    const next = restarted(made)
    rest(next)
    expect(names(next)).toEqual([])
    const local = next.provision({ name: 'local', slots: 40, placement: PLACEMENT_LOCAL })
    expect(writeStatus(next, local, 39, 1)).toBe(0)
    believe(next, PLACEMENT_BYPASS)
    rest(next)
    const again = next.provision({ slots: 2, placement: PLACEMENT_BYPASS })
    expect(again.id).toBeGreaterThan(1)
    expect(writeStatus(next, again, 1, 1)).toBe(0)
  })

  it('in the memory of a host that does not answer: it waits until that shows it again', () => {
    const { card, host } = placed(DDIO_OFF, { slots: 32 })
    expect(remove(card, 'records')).toBe('PASS')
    host.link.script = ({ kind, memory }) =>
      kind === 'read' && memory === 'persistent' ? 'timeout' : undefined
    rest(card)
    host.link.script = null
    rest(card)
    expect([underWay(card)[0], card.status()[mad.PART_REGIONS]]).toEqual([0, 1])
    believe(card, PLACEMENT_BYPASS)
    rest(card)
    expect(card.status()[mad.PART_REGIONS]).toBe(0)
  })

  it.each([0, HOST_DATA_AT])(
    'in the memory of a host that has %i bytes now: others go on',
    (bytes) => {
      const made = placed(DDIO_OFF)
      const { card, host } = made
      expect(writeStatus(card, card.provision({ name: 'local', slots: 2 }), 0, 3)).toBe(0)
      host.link.remove()
      expect(writeStatus(card, made.region, 0, 1)).toBe(0x8f)
      expect(remove(card, 'records')).toBe('PASS')
      rest(card)
      const { platform } = host
      const other = bytes === 0 ? null : new HostMemory({ part: new Nvdimm({ bytes }), platform })
      const next = other === null ? new TestCard(card.nvdimm) : cardOf(card.nvdimm, other)
      if (other !== null) believe(next, PLACEMENT_BYPASS)
      rest(next)
      expect(readData(next, 'local', 0)).toEqual(dataOf(64, 3))
      expect(writeStatus(next, next.open('local'), 1, 4)).toBe(0)
      expect(next.status()[mad.PART_REGIONS]).toBe(2)
      // The host is as large again: then its room is cleared.
      const last = restarted(made)
      believe(last, PLACEMENT_BYPASS)
      rest(last)
      expect(names(last)).toEqual(['local'])
      expect(last.provision({ slots: 2, placement: PLACEMENT_BYPASS }).id).toBe(3)
    },
  )

  it('through the host’s caches: a record on its way is in doubt, and its lane free again', () => {
    const made = placed(DDIO_ON, { slots: 20 })
    const { card, agent, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(remove(card, 'records')).toBe('PASS')
    expect(persistAcks(card.sent).map(({ status }) => status)).toEqual([0x8f])
    work(card, agent!)
    const again = card.provision({ slots: 2, placement: PLACEMENT_THROUGH })
    work(card, agent!)
    const other = card.connect()
    for (let i = 0; i < 20; i++) {
      card.serve(...persistFrames(other, again, i % 2, dataOf(64, i)))
      work(card, agent!)
    }
    expect(card.read(other, again, 1, VIEW_DATA, 64)).toEqual(dataOf(64, 19))
  })
})
