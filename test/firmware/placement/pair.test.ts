/**
 * Pair regions: a client writes the copies of a record by itself, with plain WRITEs and FLUSHes, as
 * any RDMA target has them; the card examines them and makes them equal (source 1, FIG. 11, S202
 * and S203; S1-M2).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { cut, imageCount, images, type Nvdimm } from '../../../boards/emulator/index.ts'
import { CUT_STRATEGIES } from '../../../boards/emulator/medium/power-cut.ts'
import { STAGING_TIMEOUT_US } from '../../../firmware/board/limits.ts'
import { VIEW_FIRST_COPY, VIEW_SETTLED } from '../../../firmware/burst/view.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { readSlotImage } from '../../../host-driver/index.ts'
import { writeSlotImage } from '../../../host-driver/link/slot-image.ts'
import {
  dataOf,
  persistFrames,
  TestCard,
  type TestPeer,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import {
  flushFrame,
  type Setting,
  setting,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 20261128)
/** More images than this are sampled, by every strategy. */
const IMAGES_MAX = 512
const NAK_ACCESS = 0x62
const NAK_OPERATIONAL = 0x63
const RNR_NAK = 0x2c
const NOTHING: Uint8Array = new Uint8Array(0)

function pairSetting(copies = 2, capacity = 64, mtu = 4096): Setting {
  return setting({ copies, capacity, slots: 3, flags: mad.REGION_PAIR }, mtu)
}

/** The image that a client writes: sequence `n` of record `slot`. */
function imageOf(
  { region }: Setting,
  slot: number,
  n: number,
  data: Uint8Array = NOTHING,
): Uint8Array {
  const record = { data, sequence: BigInt(n), clientId: 9n, operationId: BigInt(n) }
  return writeSlotImage(record, region, slot)
}

function viewAt(copy: number): number {
  return (VIEW_FIRST_COPY + copy) * 2 ** 28
}

/** The frames of WRITE and FLUSH of one copy. */
function copyFrames(one: Setting, slot: number, copy: number, image: Uint8Array): Uint8Array[] {
  const { qp, region } = one
  return [
    ...writeFrames(qp, region, viewAt(copy), image, { vaHigh: slot }),
    flushFrame(qp, region, { vaHigh: slot, vaLow: viewAt(copy), length: image.length }),
  ]
}

/** What each copy holds: its sequence, or why it is none. */
function copiesOf({ card, region }: Setting, qp: TestPeer, slot: number): string[] {
  return Array.from({ length: region.copies }, (_, c) => {
    const image = card.read(qp, region, slot, VIEW_FIRST_COPY + c, region.stride)!
    const { record, why } = readSlotImage(image, region, slot)
    return record === null ? why : String(record.sequence)
  })
}

/** An operator gives the record up; the fault of the answer. */
function discard({ card, region }: Setting, slot: number): string {
  const { fault } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
    putU32(body, mad.SETTLE_REGION, region.id)
    putU32(body, mad.SETTLE_RECORD, slot)
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
  })
  return fault
}

/** Idle time, until everything that is due was looked at. */
function settle(card: TestCard): void {
  for (let i = 0; i < 24; i++) {
    card.now += 1000
    card.idle()
  }
}

/** A card on what a cut has left, its pairs looked at. */
function restarted(nvdimm: Nvdimm): Setting {
  const card = new TestCard(nvdimm)
  settle(card)
  return { card, region: card.open(), qp: card.connect() }
}

describe('S1-M2: a client writes the copies of a record', () => {
  test.each([2, 3, 4])('with %i places, and each is what it wrote', (copies) => {
    const one = pairSetting(copies, 1000, 256)
    for (let n = 1; n <= 3; n++) {
      for (let c = 0; c < copies; c++) {
        const sent = one.card.serve(...copyFrames(one, 1, c, imageOf(one, 1, n, dataOf(777, n))))
        expect(sent.map(({ syndrome }) => syndrome)).not.toContain(NAK_ACCESS)
        const expected = Array.from({ length: copies }, (_, i) => String(i <= c ? n : n - 1))
        expect(copiesOf(one, one.qp, 1)).toEqual(expected)
      }
    }
    const settled = one.card.read(one.qp, one.region, 1, VIEW_SETTLED, one.region.stride)!
    expect(readSlotImage(settled, one.region, 1).record).toMatchObject({
      sequence: 3n,
      data: dataOf(777, 3),
    })
  })

  test('and what was left different is made equal by a look, and reported', () => {
    const one = pairSetting(3)
    one.card.serve(...copyFrames(one, 1, 0, imageOf(one, 1, 5)))
    const torn = imageOf(one, 2, 7).slice(0, 32)
    one.card.serve(...copyFrames(one, 2, 0, torn))
    expect([copiesOf(one, one.qp, 1), copiesOf(one, one.qp, 2)]).toEqual([
      ['5', '0', '0'],
      ['torn', '0', '0'],
    ])
    const body = one.card.scan(one.region.id)
    expect(body[mad.SCAN_REPAIRED + 3]).toBe(2)
    expect([copiesOf(one, one.qp, 1), copiesOf(one, one.qp, 2)]).toEqual([
      ['5', '5', '5'],
      ['0', '0', '0'],
    ])
  })

  test('and every other way in is refused', () => {
    for (const frames of [
      (one: Setting) => writeFrames(one.qp, one.region, 0, dataOf(8, 1), { vaHigh: 1 }),
      (one: Setting) => writeFrames(one.qp, one.region, 2 ** 28, dataOf(8, 1), { vaHigh: 1 }),
      (one: Setting) => persistFrames(one.qp, one.region, 1, dataOf(8, 1)),
      (one: Setting) => copyFrames(one, 3, 0, dataOf(64, 1)).slice(0, 1),
      (one: Setting) => copyFrames(one, 1, 2, dataOf(64, 1)).slice(0, 1),
      (one: Setting) => copyFrames(one, 1, 0, dataOf(129, 1)).slice(0, 1),
      (one: Setting) => [
        flushFrame(one.qp, one.region, { vaHigh: 1, vaLow: viewAt(2), length: 8 }),
      ],
    ]) {
      const one = pairSetting()
      expect(one.card.serve(...frames(one)).at(-1)!.syndrome).toBe(NAK_ACCESS)
    }
    const records = setting()
    const frames = copyFrames(records, 1, 0, dataOf(64, 1))
    expect(records.card.serve(frames[0]!)[0]!.syndrome).toBe(NAK_ACCESS)
  })

  test.each([
    { flags: mad.REGION_PAIR | mad.REGION_FIXED_LENGTH },
    { flags: mad.REGION_PAIR, placement: 1 },
    { flags: mad.REGION_PAIR, placement: 2 },
    { flags: mad.REGION_PAIR, kind: mad.KIND_BYTES, length: 4096 },
    { flags: mad.REGION_TAKES_GUARDS },
  ])('in its own NVDIMM, of any length: %o is refused', (shape) => {
    const card = new TestCard(1 << 18).format()
    expect(card.tryProvision({ name: 'pairs', ...shape }).fault).toBe('REQUEST')
  })

  test('D-14: a record without a whole copy is lost, and its region takes no more', () => {
    const one = pairSetting()
    for (let c = 0; c < 2; c++) one.card.nvdimm.poison(slotOffset(one.region, c, 1) / 64)
    one.card.scan(one.region.id)
    expect(
      one.card.serve(...copyFrames(one, 2, 0, imageOf(one, 2, 1)).slice(0, 1))[0]!.syndrome,
    ).toBe(NAK_OPERATIONAL)
  })

  test('D-13: not on a part that is not armed, or has closed, as nothing could be mended', () => {
    for (const how of ['unarmed', 'closed'] as const) {
      const one = pairSetting()
      const { card } = one
      card.serve(...copyFrames(one, 1, 0, imageOf(one, 1, 3)))
      if (how === 'unarmed') card.nvdimm.armed = false
      else card.nvdimm.fencesToFail = 1
      // The look in front of it finds that no fence is any good.
      const other = { ...one, qp: card.connect() }
      if (how === 'closed') card.serve(...copyFrames(other, 1, 1, imageOf(one, 1, 3)))
      const before = card.nvdimm.live.slice()
      const [write] = copyFrames(one, 1, 1, imageOf(one, 1, 4))
      expect(card.serve(write!).map(({ syndrome }) => syndrome)).toEqual([NAK_OPERATIONAL])
      expect(Buffer.compare(card.nvdimm.live, before), how).toBe(0)
      expect(copiesOf(one, card.connect(), 1)).toEqual(['3', '0'])
    }
  })

  test('not into the only good copy, where the medium takes no other one', () => {
    const one = pairSetting()
    const { card, region } = one
    for (let c = 0; c < 2; c++) card.serve(...copyFrames(one, 1, c, imageOf(one, 1, 3)))
    card.serve(...copyFrames(one, 1, 1, imageOf(one, 1, 4).slice(0, 24)))
    expect(copiesOf(one, one.qp, 1)).toEqual(['3', 'torn'])
    card.nvdimm.refuseWrites(slotOffset(region, 1, 1) / 64)
    const other = { ...one, qp: card.connect() }
    const [write] = copyFrames(other, 1, 0, imageOf(one, 1, 5))
    expect(card.serve(write!).map(({ syndrome }) => syndrome)).toEqual([NAK_OPERATIONAL])
    expect(copiesOf(one, one.qp, 1)).toEqual(['3', 'torn'])
    // Who has B to write may go on: A is whole.
    const [rest] = copyFrames(one, 2, 1, imageOf(one, 2, 4))
    expect(card.serve(rest!).map(({ syndrome }) => syndrome)).not.toContain(NAK_OPERATIONAL)
  })

  test('not behind what the look finds to have failed', () => {
    const one = pairSetting()
    const { card, qp, region } = one
    const bytes = card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    // It lies behind the last copy.
    card.nvdimm.refuseWrites(slotOffset(region, region.copies, 0) / 64)
    const failed = card.counter('QP_ERROR_STATE')
    const [plain] = writeFrames(qp, bytes, 0, dataOf(8, 1))
    const [write] = copyFrames(one, 1, 0, imageOf(one, 1, 3))
    const sent = card.serve(plain!, write!)
    expect(sent.map(({ syndrome }) => syndrome)).toEqual([NAK_OPERATIONAL])
    expect(card.counter('QP_ERROR_STATE')).toBe(failed + 1)
    expect(copiesOf(one, card.connect(), 1)).toEqual(['0', '0'])
  })
})

describe('S1-M2: what the card makes equal beside a client', () => {
  test('leaves a record alone into which a message is under way', () => {
    const one = pairSetting(2, 1000, 256)
    const frames = copyFrames(one, 1, 0, imageOf(one, 1, 4, dataOf(900, 1)))
    for (const frame of frames.slice(0, -1)) {
      one.card.serve(frame)
      // The scrub comes round, and a client asks for a look.
      settle(one.card)
      one.card.scan(one.region.id)
    }
    one.card.serve(frames.at(-1)!)
    expect(copiesOf(one, one.qp, 1)[0]).toBe('4')
  })

  test.each([
    [2, 0],
    [2, 1],
    [3, 2],
  ])('tells it from those that were looked at: of %i copies, copy %i', (copies, copy) => {
    const one = pairSetting(copies, 1000, 256)
    for (let c = 0; c < copies; c++) {
      one.card.serve(...copyFrames(one, 1, c, imageOf(one, 1, 3, dataOf(900, 3))))
    }
    const gone = { ...one, qp: one.card.connect(256) }
    const frames = copyFrames(gone, 1, copy, imageOf(one, 1, 4, dataOf(900, 4)))
    one.card.serve(...frames.slice(0, 2))
    const looked = (): Record<string, number> => {
      const body = one.card.scan(one.region.id)
      const { SCAN_NEXT: next, SCAN_CHECKED: checked, SCAN_UNDER_WAY: underWay } = mad
      const repaired = u32(body, mad.SCAN_REPAIRED)
      return {
        next: u32(body, next),
        checked: u32(body, checked),
        underWay: u32(body, underWay),
        repaired,
      }
    }
    for (let look = 0; look < 2; look++) {
      expect(looked()).toEqual({ next: 3, checked: 2, underWay: 1, repaired: 0 })
    }
    expect(copiesOf(one, one.qp, 1)[copy]).toBe('torn')
    // Its client is never heard of again.
    one.card.now += STAGING_TIMEOUT_US + 1
    one.card.idle()
    one.card.serve()
    const repaired = copiesOf(one, one.card.connect(), 1)[copy] === 'torn' ? 1 : 0
    expect(looked()).toEqual({ next: 3, checked: 3, underWay: 0, repaired })
    const whole = Array.from({ length: copies }, () => '3')
    expect(copiesOf(one, one.card.connect(), 1)).toEqual(whole)
  })

  test('takes a torn copy for torn when its message ended with its queue pair', () => {
    const one = pairSetting(2, 1000, 256)
    const frames = copyFrames(one, 1, 0, imageOf(one, 1, 4, dataOf(900, 1)))
    one.card.serve(...frames.slice(0, 2))
    // A WRITE that goes on with another length ends it.
    const psn = one.qp.psn - frames.length + 2
    one.card.serve(...writeFrames(one.qp, one.region, 0, dataOf(8, 1), { psn }))
    const qp = one.card.connect()
    expect(copiesOf(one, qp, 1)).toEqual(['torn', '0'])
    settle(one.card)
    one.card.scan(one.region.id)
    expect(copiesOf(one, qp, 1)).toEqual(['0', '0'])
  })

  test('two messages are never under way into one record: the second draws an RNR NAK', () => {
    const one = pairSetting(2, 1000, 256)
    const first = copyFrames(one, 1, 1, imageOf(one, 1, 4, dataOf(900, 1)))
    one.card.serve(...first.slice(0, 2))
    const other = { ...one, qp: one.card.connect(256) }
    const second = copyFrames(other, 1, 0, imageOf(one, 1, 5, dataOf(900, 2)))
    expect(one.card.serve(second[0]!).map(({ syndrome }) => syndrome)).toEqual([RNR_NAK])
    // Another record is nobody's business.
    const third = { ...one, qp: one.card.connect(256) }
    const apart = copyFrames(third, 2, 0, imageOf(one, 2, 5))
    expect(one.card.serve(...apart).map(({ syndrome }) => syndrome)).not.toContain(RNR_NAK)
    one.card.serve(...first.slice(2))
    one.card.serve(...second)
    expect(copiesOf(one, one.card.connect(), 1)).toEqual(['5', '4'])
  })

  test('the only good copy is doubled before a client may tear it', () => {
    const one = pairSetting(2, 1000, 256)
    for (let c = 0; c < 2; c++) {
      one.card.serve(...copyFrames(one, 1, c, imageOf(one, 1, 3, dataOf(900, 3))))
    }
    // One client ends inside copy B; another one begins with copy A; and the power goes.
    const gone = { ...one, qp: one.card.connect(256) }
    const frames = copyFrames(gone, 1, 1, imageOf(one, 1, 4, dataOf(900, 4)))
    one.card.serve(...frames.slice(0, 2))
    const psn = gone.qp.psn - frames.length + 2
    one.card.serve(...writeFrames(gone.qp, one.region, 0, dataOf(8, 1), { psn }))
    const next = { ...one, qp: one.card.connect(256) }
    expect(copiesOf(one, next.qp, 1)).toEqual(['3', 'torn'])
    const more = copyFrames(next, 1, 0, imageOf(one, 1, 5, dataOf(900, 5)))
    one.card.serve(more[0]!)
    expect(copiesOf(one, one.card.connect(), 1)).toEqual(['torn', '3'])
    one.card.machine.die()
    cut(one.card.nvdimm, { random: new Random(SEED), strategy: 'all' })
    const again = restarted(one.card.nvdimm)
    expect(copiesOf(again, again.qp, 1)).toEqual(['3', '3'])
  })

  test('X-3: what a client wrote into an image says nothing of anybody’s operations', () => {
    const one = pairSetting()
    // As if client 7, who persists into another region, had stored its operation 50.
    const forged = { data: NOTHING, sequence: 3n, clientId: 7n, operationId: 50n }
    const image = writeSlotImage(forged, one.region, 1)
    for (let c = 0; c < 2; c++) one.card.serve(...copyFrames(one, 1, c, image))
    const { nvdimm } = one.card
    one.card.provision({ name: 'orders' })
    // A lane that cannot be read has the start learn operations from records.
    nvdimm.poison(LANES_AT / 64)
    const card = new TestCard(nvdimm)
    const orders = card.open('orders')
    const qp = card.connect()
    card.serve(...persistFrames(qp, orders, 1, dataOf(8, 1), { operation: 50 }))
    expect(card.read(qp, orders, 1, 0, 8)).toEqual(dataOf(8, 1))
  })
})

describe('S1-M2: what ends while a message into a copy is under way', () => {
  test.each([0, 1, 2])('REMOVE ends the message into copy %i, too', (copy) => {
    const one = pairSetting(3, 1000, 256)
    const [first, ...rest] = copyFrames(one, 1, copy, imageOf(one, 1, 1, dataOf(900, 1)))
    one.card.serve(first!)
    one.card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
    })
    settle(one.card)
    const before = one.card.nvdimm.live.slice()
    one.card.serve(...rest.slice(0, -1))
    expect(Buffer.compare(one.card.nvdimm.live, before)).toBe(0)
  })

  test('a record is not given up before that is over', () => {
    const one = pairSetting(2, 1000, 256)
    one.card.serve(...copyFrames(one, 1, 1, dataOf(64, 1)))
    const frames = copyFrames(one, 1, 0, imageOf(one, 1, 1, dataOf(900, 1)))
    for (const frame of frames.slice(0, -2)) one.card.serve(frame)
    expect(discard(one, 1)).toBe('UNDER_WAY')
    one.card.serve(...frames.slice(-2))
    expect(discard(one, 1)).toBe('PASS')
    expect(copiesOf(one, one.qp, 1)[0]).toBe('1')
  })
})

describe.each([2, 3])('S1-M2: a cut of card and host, %i copies', (copies) => {
  /**
   * Writes the chain of the second write with a look between any two frames, and cuts before that
   * command. Returns the card, how many FLUSHes were answered, and whether it came to the end.
   */
  function cutBefore(command: number): { one: Setting; flushed: number; ended: boolean } {
    const one = pairSetting(copies)
    for (let c = 0; c < copies; c++) one.card.serve(...copyFrames(one, 1, c, imageOf(one, 1, 1)))
    settle(one.card)
    let flushed = 0
    one.card.machine.armCut(command)
    for (let c = 0; c < copies && !one.card.machine.dead; c++) {
      const [write, flush] = copyFrames(one, 1, c, imageOf(one, 1, 2))
      one.card.serve(write!)
      look(one)
      if (one.card.machine.dead) break
      const sent = one.card.serve(flush!)
      if (sent.length > 0) flushed += 1
      look(one)
    }
    const ended = !one.card.machine.dead
    if (ended) one.card.machine.die()
    return { one, flushed, ended }
  }

  /** A look at the region, which may be the end of the card. */
  function look({ card, region }: Setting): void {
    if (card.machine.dead) return
    try {
      card.scan(region.id)
    } catch (error) {
      if (!card.machine.dead) throw error
    }
  }

  /** Every image, or a sample of them. */
  function visitAll(part: Nvdimm, command: number, visit: (image: string) => void): void {
    if (imageCount(part) <= IMAGES_MAX) {
      images(part, 'chunk', (image) => visit(`command ${command}, image ${image}`))
      return
    }
    for (const strategy of CUT_STRATEGIES) {
      const { one } = cutBefore(command)
      const said = `command ${command}, ${strategy}, SEED=${SEED}`
      cut(one.card.nvdimm, { random: new Random(SEED + command), strategy })
      part.live.set(one.card.nvdimm.live)
      part.durable.set(one.card.nvdimm.durable)
      part.pendingStores.clear()
      visit(said)
    }
  }

  test('at any command leaves old or new in all, and new where a FLUSH was answered', () => {
    const seen = new Set<string>()
    for (let command = 0, ended = false; !ended; command++) {
      withPassingCards(() => {
        const made = cutBefore(command)
        ended = made.ended
        visitAll(made.one.card.nvdimm, command, (said) => {
          const again = restarted(made.one.card.nvdimm)
          const found = copiesOf(again, again.qp, 1)
          expect(new Set(found).size, `${said}: ${found}`).toBe(1)
          expect(['1', '2'], said).toContain(found[0])
          if (made.flushed > 0) expect(found[0], said).toBe('2')
          seen.add(found[0]!)
        })
      })
    }
    expect([...seen].sort()).toEqual(['1', '2'])
  })

  test('is looked at before anything that can wait', () => {
    const card = new TestCard(1 << 19).format()
    for (let i = 0; i < 4; i++) card.provision({ name: `long ${i}`, slots: 400, capacity: 64 })
    const region = card.provision({ name: 'pairs', slots: 3, copies, flags: mad.REGION_PAIR })
    const one = { card, region, qp: card.connect() }
    card.serve(...copyFrames(one, 2, 0, imageOf(one, 2, 1)))
    const after = new TestCard(card.nvdimm)
    after.now += 1000
    after.idle()
    const again = { card: after, region: after.open('pairs'), qp: after.connect() }
    expect(copiesOf(again, again.qp, 2)).toEqual(Array(copies).fill('1'))
  })

  test('and again at any command of the start that makes them equal', () => {
    for (let command = 0, ended = false; !ended; command++) {
      withPassingCards(() => {
        const one = pairSetting(copies)
        for (let c = 0; c < copies; c++)
          one.card.serve(...copyFrames(one, 1, c, imageOf(one, 1, 1)))
        // A is torn: its first line is of the second write.
        one.card.serve(...copyFrames(one, 1, 0, imageOf(one, 1, 2).slice(0, 24)))
        one.card.machine.die()
        cut(one.card.nvdimm, { random: new Random(SEED), strategy: 'none' })
        const card = new TestCard(one.card.nvdimm)
        card.machine.armCut(command)
        settle(card)
        ended = !card.machine.dead
        if (ended) card.machine.die()
        images(card.nvdimm, 'chunk', (image) => {
          const again = restarted(card.nvdimm)
          const found = copiesOf(again, again.qp, 1)
          expect(found, `command ${command}, image ${image}`).toEqual(Array(copies).fill('1'))
        })
      })
    }
  })

  test('and a record that nobody has looked at since is, before a client writes on', () => {
    withPassingCards(() => {
      const one = pairSetting(copies, 64, 256)
      for (let c = 0; c < copies; c++) one.card.serve(...copyFrames(one, 1, c, imageOf(one, 1, 1)))
      // A cut in the last copy of the second write.
      for (let c = 0; c < copies; c++) {
        const image = imageOf(one, 1, 2)
        const torn = c === copies - 1 ? image.slice(0, 24) : image
        one.card.serve(...copyFrames(one, 1, c, torn))
      }
      let card = new TestCard(one.card.nvdimm)
      // And one in each copy of the third, in turn, of which no FLUSH was answered.
      for (let c = 0; c < copies; c++) {
        const again = { card, region: card.open(), qp: card.connect() }
        const [write] = copyFrames(again, 1, c, imageOf(again, 1, 3).slice(0, 24))
        card.serve(write!)
        const left = copiesOf(again, card.connect(), 1)
        expect(left).toEqual(left.map((_, i) => (i === c ? 'torn' : '2')))
        card = new TestCard(card.nvdimm)
      }
      const last = restarted(card.nvdimm)
      expect(copiesOf(last, last.qp, 1)).toEqual(Array(copies).fill('2'))
    })
  })

  test('and the slots of the medium say so', () => {
    const { one } = cutBefore(Number.MAX_SAFE_INTEGER)
    const { live } = one.card.nvdimm
    const at = slotOffset(one.region, 0, 1)
    expect(new DataView(live.buffer, live.byteOffset + at).getBigUint64(32, true)).toBe(2n)
  })
})
