/**
 * Which records are committed together, and under which sequences: a burst is one group, except for
 * a record that comes twice (D-2, P1-12; I4).
 *
 * Invariant: a group of records in two copies has four fences, whoever is in it; so the
 * fences of a burst say how many groups it was.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import {
  COPY,
  COPY_CLEAN,
  DMA_SPACE,
  FENCE,
  FROM,
  LENGTH,
  NVDIMM_SPACE,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  LANES,
  LINE_BYTES,
  LOCAL_LANES,
  UNIT_BYTES,
} from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { PHASE_A, PHASE_B, PHASE_HELD, PHASE_WORD_BYTES } from '../../../firmware/medium/lane.ts'
import { HOST_DATA_AT, PLACEMENT_BYPASS } from '../../../firmware/medium/region.ts'
import { DATA_AT, LANES_AT, OPERATIONS_AT } from '../../../firmware/medium/superblock.ts'
import {
  batchFrames,
  batchSetting,
  IN_ORDER,
  sequenceOf,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { atFence, failFence } from '../../support/cards/fences.ts'
import {
  believe,
  cardOf,
  cutPower,
  NEW,
  NOTHING,
  OLD,
  type Placed,
  placed,
  say,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { localQueue, play, record } from '../../support/queues/local-queue.ts'
import { sendFrames, slotOffset } from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 20262)
const FENCES_OF_GROUP = 4
/** Of the transport; a PERSIST_ACK is longer. */
const ACK_BYTES_MAX = 80
const MEDIA = 0x81
const IN_DOUBT = 0x8f

/** Which slot of which region, by its place among those that the part has. */
type Named = readonly [region: number, slot: number]

interface Setting {
  readonly card: TestCard
  readonly regions: readonly TestRegion[]
  readonly qp: TestPeer
}

/** Nine regions, the first of which has many slots: so many that their low bytes come again. */
function setting(): Setting {
  const card = new TestCard(1 << 20).format()
  const regions = Array.from({ length: 9 }, (_, i) => {
    return card.provision({ name: `r${i}`, slots: i === 0 ? 520 : i === 1 ? 300 : 40, capacity: 8 })
  })
  return { card, regions, qp: card.connect() }
}

const framesOf = ({ regions, qp }: Setting, burst: readonly Named[]): Uint8Array[] =>
  burst.flatMap(([region, slot]) => persistFrames(qp, regions[region]!, slot, dataOf(8, slot)))

/** Serves the frames in one burst; of how many records each group was that this made. */
function sizesOf({ card }: Pick<Setting, 'card'>, frames: readonly Uint8Array[]): number[] {
  const phases = [0]
  const tables = [0]
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const to = words[at + TO]! - NVDIMM_SPACE
      const isPhase = op === COPY_CLEAN && to >= LANES_AT && to < LANES_AT + LANES * LINE_BYTES
      if (isPhase && words[at + LENGTH] === PHASE_WORD_BYTES) phases[phases.length - 1]! += 1
      if (op === COPY_CLEAN && to >= OPERATIONS_AT && to < DATA_AT) tables[tables.length - 1]! += 1
      if (op !== FENCE) return
      phases.push(0)
      tables.push(0)
    },
  })
  const sent = card.serve(...frames)
  card.machine.observe({})
  expect(persistAcks(sent).every(({ status }) => status === 0)).toBe(true)
  expect(phases.length).toBe(1 + FENCES_OF_GROUP * phases.filter((count) => count > 0).length)
  // One line of each client beside the phase words, and the other one beside the second copies.
  tables.forEach((count, i) => {
    const behind = i % FENCES_OF_GROUP
    if (behind < 2) expect(count).toBe(0)
    else expect([count > 0, count]).toEqual([true, tables[i - (behind - 2)]])
  })
  return phases.filter((count) => count > 0)
}

/** What they should be: a record that is in the group already begins the next one. */
function sizesWanted(burst: readonly Named[]): number[] {
  const sizes = [0]
  const held = new Set<string>()
  for (const [region, slot] of burst) {
    const name = `${region} ${slot}`
    if (held.has(name)) {
      held.clear()
      sizes.push(0)
    }
    held.add(name)
    sizes[sizes.length - 1]! += 1
  }
  return sizes
}

test('P1-12, I4: a burst is one group, except for a record that comes twice', () => {
  const made = setting()
  // Slots and regions that are alike, or nearly.
  const alike: readonly Named[][] = [
    [0, 256, 512].map((slot): Named => [0, slot]),
    [32, 33, 288].map((slot): Named => [0, slot]),
    [0, 1, 33, 256].map((slot): Named => [1, slot]),
    [0, 1, 33].map((slot): Named => [8, slot]),
  ]
  const bursts: Named[][] = [
    // Twice the same burst: what was in the last group is in this one when it comes.
    ...[alike[0]!, alike[0]!, [...alike[0]!, [0, 0], [0, 0]] as Named[]],
    ...[0, 1].map((): Named[] => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((region): Named => [region, 5])),
  ]
  const all = alike.flat()
  bursts.push(...all.map((one) => [one, one]))
  const random = new Random(SEED)
  for (let i = 0; i < 12; i++) {
    bursts.push(Array.from({ length: 2 + random.below(6) }, () => all[random.below(all.length)]!))
  }
  for (const burst of bursts) {
    expect(sizesOf(made, framesOf(made, burst)), `${burst}`).toEqual(sizesWanted(burst))
  }
})

test.each([
  { where: 'from the start on', low: null },
  { where: 'where the lower word gets its upper bit', low: 0x7ffffffe },
  { where: 'where the lower word begins again', low: 0xfffffffe },
])('D-3: each record has the sequence behind the one before: $where', ({ low }) => {
  const one = batchSetting({ slots: 8 })
  const { card, region, qp, state } = one
  card.serve(...persistFrames(qp, region, 0, dataOf(8, 0)))
  // So many records written one by one would take days.
  if (low !== null) state.commit.sequenceLow = low
  const high = BigInt(state.commit.sequenceHigh) << 32n
  const before = low === null ? sequenceOf(one, 0) : high + BigInt(low)
  card.serve(...[1, 2, 3, 4].flatMap((slot) => persistFrames(qp, region, slot, dataOf(8, slot))))
  for (const slot of [1, 2, 3, 4]) {
    for (const copy of [0, 1]) expect(sequenceOf(one, slot, copy)).toBe(before + BigInt(slot))
  }
})

describe('a group of records of the host and of the card', () => {
  const HOST_LANES = BURST_FRAMES - LOCAL_LANES

  /** A card that has written nothing; region 0 lies with the host, region 1 does not. */
  function both(): Setting {
    const { card, region } = placed(DDIO_OFF, { slots: BURST_FRAMES, capacity: 8 })
    const local = card.provision({ name: 'local', slots: BURST_FRAMES, capacity: 8 })
    return { card, regions: [region, local], qp: card.connect() }
  }

  const some = (region: number, count: number, from = 0): Named[] => {
    return upTo(from + count, from).map((slot): Named => [region, slot])
  }

  test.each([
    { ofHost: HOST_LANES, own: 0, sizes: [HOST_LANES] },
    { ofHost: HOST_LANES, own: LOCAL_LANES, sizes: [BURST_FRAMES] },
    { ofHost: 1, own: BURST_FRAMES - 1, sizes: [BURST_FRAMES] },
    { ofHost: HOST_LANES + 1, own: 0, sizes: [HOST_LANES, 1] },
  ])('R1-A2: $ofHost of the host, $own of the card: as many as there are lanes', (of) => {
    const made = both()
    const burst = [...some(0, of.ofHost), ...some(1, of.own)]
    // The first group of a life is like all others.
    for (let time = 0; time < 2; time++) {
      expect(sizesOf(made, framesOf(made, burst))).toEqual(of.sizes)
    }
  })

  test.each([
    { region: 1, before: 20, count: 12, sizes: [32] },
    { region: 1, before: 20, count: 13, sizes: [20, 13] },
    { region: 1, before: 1, count: 28, sizes: [29] },
    { region: 0, before: 14, count: 10, sizes: [24] },
    { region: 0, before: 14, count: 11, sizes: [14, 11] },
  ])('R1-A2: a batch of $count behind $before others is not split over two groups', (of) => {
    const made = both()
    const members = upTo(of.count).map((slot) => ({ slot, data: dataOf(8, slot) }))
    const single = framesOf(made, some(of.region, of.before, BURST_FRAMES - of.before))
    const batch = batchFrames(made.card.connect(), made.regions[of.region]!, members)
    // All but its last record have come before the others do.
    expect(sizesOf(made, batch.slice(0, -1))).toEqual([])
    expect(sizesOf(made, [...single, ...batch.slice(-1)])).toEqual(of.sizes)
  })

  test('R1-A2: lanes behind those of the card, and never one of the first few', () => {
    for (const [ofHost, own, first] of [
      [1, 0, LOCAL_LANES],
      [2, 1, LOCAL_LANES],
      [1, 10, 10],
    ] as const) {
      const made = both()
      // The record of the host comes first, and its lane is behind all the same.
      made.card.serve(...framesOf(made, [...some(0, ofHost), ...some(1, own)]))
      expect(lanesSet(made.card)).toEqual([...upTo(own), ...upTo(first + ofHost, first)])
    }
  })

  test.each([
    { behind: 0, wait: 1, status: IN_DOUBT, copies: 0 },
    { behind: 0, wait: 2, status: IN_DOUBT, copies: 0 },
    { behind: 1, wait: 1, status: 0, copies: 1 },
    { behind: 1, wait: 2, status: IN_DOUBT, copies: 1 },
  ])('H4: the host is silent behind $behind pushes: those of the card go on', (of) => {
    const { card, regions, qp } = both()
    let reads = 0
    card.host!.link.script = ({ kind, memory }) => {
      return kind === 'read' && memory === 'persistent' && reads++ >= of.behind
        ? 'timeout'
        : undefined
    }
    const burst = [...some(0, HOST_LANES), ...some(1, LOCAL_LANES)]
    const { psn } = qp
    const frames = burst.flatMap(([region, slot]) => {
      return persistFrames(qp, regions[region]!, slot, dataOf(8, slot), { wait: of.wait })
    })
    const told: number[][] = []
    for (const one of persistAcks(card.serve(...frames))) {
      for (let at = one.firstPsn; at <= one.lastPsn; at++) told[at - psn] = [one.status, one.copies]
    }
    expect(told).toEqual(
      burst.map(([region]) => (region === 0 ? [of.status, of.copies] : [0, of.wait])),
    )
  })

  test('D-2: a group of the host clears the lanes of the card before it, the first too', () => {
    const made = both()
    made.card.serve(...framesOf(made, some(1, 2)))
    expect(lanesSet(made.card)).toEqual([0, 1])
    made.card.serve(...framesOf(made, some(0, 1)))
    expect(lanesSet(made.card)).toEqual([LOCAL_LANES])
  })

  test('R1-A2: where a lane takes nothing any more, the host has its lanes behind the next', () => {
    const made = both()
    const { card } = made
    card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES)
    const [refused] = persistAcks(card.serve(...framesOf(made, some(1, 1))))
    expect(refused!.status).toBe(MEDIA)
    card.serve(...framesOf(made, some(0, 2)))
    expect(lanesSet(card)).toEqual([LOCAL_LANES + 1, LOCAL_LANES + 2])
  })
})

/** Lanes that say something. */
function lanesSet({ nvdimm }: TestCard): number[] {
  return upTo(LANES).filter((lane) => {
    const at = LANES_AT + lane * LINE_BYTES
    return nvdimm.live.slice(at, at + LINE_BYTES).some((byte) => byte !== 0)
  })
}

test('D-2: the lanes of a group are cleared once, by the next one or when there is time', () => {
  const { card, region, qp } = batchSetting({ slots: 8 })
  let cleared: number[] = []
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const lane = (words[at + TO]! - NVDIMM_SPACE - LANES_AT) / LINE_BYTES
      const from = words[at + FROM]!
      if (op !== COPY_CLEAN || lane < 0 || lane >= LANES) return
      const line = card.machine.packets.slice(from, from + words[at + LENGTH]!)
      if (line.every((byte) => byte === 0)) cleared.push(lane)
    },
  })
  const clearedBy = (act: () => void): number[] => {
    cleared = []
    act()
    return cleared
  }
  const write = (count: number) => (): void => {
    card.serve(...upTo(count).flatMap((slot) => persistFrames(qp, region, slot, dataOf(8, slot))))
  }
  // A lane that is used again is written again.
  expect(clearedBy(write(5))).toEqual([])
  expect(clearedBy(write(2))).toEqual([2, 3, 4])
  expect(clearedBy(write(1))).toEqual([1])
  expect(clearedBy(write(1))).toEqual([])
  expect(clearedBy(write(4))).toEqual([])
  expect(clearedBy(() => card.idle())).toEqual([0, 1, 2, 3])
  expect(clearedBy(() => card.idle())).toEqual([])
  expect(lanesSet(card)).toEqual([])
  // One that cannot be cleared is nothing to those that come after it.
  write(2)()
  card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + 1)
  card.idle()
  expect(lanesSet(card)).toEqual([1])
  for (let i = 0; i < 2; i++) {
    const [receipt] = persistAcks(card.serve(...persistFrames(qp, region, 0, dataOf(8, i))))
    expect(receipt!.status).toBe(0)
  }
})

test('H7: a lane that the next group cannot clear is left, and the group is durable', () => {
  for (const bad of [1, 2, 4]) {
    const { card, region, qp } = batchSetting({ slots: 8 })
    const made = { card, regions: [region], qp }
    const some = (count: number): Named[] => upTo(count).map((slot): Named => [0, slot])
    expect(sizesOf(made, framesOf(made, some(5)))).toEqual([5])
    card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + bad)
    const [receipt] = persistAcks(card.serve(...framesOf(made, some(1))))
    expect(receipt!.status).toBe(0)
    expect(lanesSet(card)).toEqual([0, bad])
    // What it says is nothing to anybody, and no other record has it.
    expect(sizesOf(made, framesOf(made, some(5)))).toEqual([5])
    expect(lanesSet(card)).toEqual(upTo(6))
  }
})

test.each([
  { refused: 'nothing', fence: 4, said: [IN_DOUBT, 1] },
  { refused: 'the lane', fence: 2, said: [MEDIA, 0] },
  { refused: 'copy A', fence: 2, said: [IN_DOUBT, 0] },
])('D-13: $refused is refused, and fence $fence fails: what is said of the record', (of) => {
  const { card, region, qp } = batchSetting({ slots: 2 })
  if (of.refused === 'the lane') card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES)
  if (of.refused === 'copy A') card.nvdimm.refuseWrites(slotOffset(region, 0, 0) / LINE_BYTES)
  failFence(card, of.fence)
  const { psn } = qp
  const frames = upTo(2).flatMap((slot) => persistFrames(qp, region, slot, dataOf(8, slot)))
  const told = persistAcks(card.serve(...frames)).filter(({ firstPsn }) => firstPsn === psn)
  expect(told.map(({ status, copies }) => [status, copies])).toEqual([of.said])
})

test('X-1, D-4: a level is acknowledged behind the fence of its last copy, and not before', () => {
  const { card, region, qp } = batchSetting({ slots: 4, copies: 4 })
  let fences = 0
  const behind: number[] = []
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      if (op === FENCE) fences += 1
      if (op === TRANSMIT && words[at + LENGTH]! > ACK_BYTES_MAX) behind.push(fences)
    },
  })
  const levels = [4, 2, 3, 1]
  card.serve(
    ...levels.flatMap((wait, slot) => persistFrames(qp, region, slot, dataOf(8, slot), { wait })),
  )
  expect(behind).toEqual([3, 4, 5, 6])
})

test('D-4: each record of a group is stored in as many copies as its region has', () => {
  const card = new TestCard(1 << 18).format()
  const regions = [2, 3, 4, 2].map((copies, i) => {
    return card.provision({ name: `r${i}`, slots: 2, capacity: 8, copies })
  })
  const made = { card, regions, qp: card.connect() }
  const stores = new Map<number, number>()
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const to = words[at + TO]! - NVDIMM_SPACE
      if (op !== COPY_CLEAN || to < DATA_AT) return
      const magic = card.machine.packets.slice(words[at + FROM]! + 20, words[at + FROM]! + 24)
      const id = new DataView(magic.buffer).getUint32(0, true)
      stores.set(id, (stores.get(id) ?? 0) + 1)
    },
  })
  card.serve(
    ...framesOf(
      made,
      [0, 1, 2, 3].map((region): Named => [region, 1]),
    ),
  )
  expect([...stores]).toEqual(regions.map(({ id, copies }) => [id, copies]))
})

test('H7: lanes that could not be cleared at the start have no record until the next one', () => {
  const { nvdimm } = batchSetting({ slots: BURST_FRAMES }).card
  const part = new Nvdimm({ bytes: nvdimm.bytes, content: nvdimm.live.slice() })
  for (const lane of [0, 2]) part.refuseWrites(LANES_AT / LINE_BYTES + lane)
  const card = new TestCard(part)
  const made = { card, regions: [card.open()], qp: card.connect() }
  const some = (count: number): Named[] => upTo(count).map((slot): Named => [0, slot])
  expect(sizesOf(made, framesOf(made, some(3)))).toEqual([3])
  expect(lanesSet(card)).toEqual([1, 3, 4])
  expect(sizesOf(made, framesOf(made, some(BURST_FRAMES)))).toEqual([BURST_FRAMES - 2, 2])
})

test('D-2: the lanes of a group as long as can be say A up to its second fence, and then B', () => {
  const { card, region, qp } = batchSetting({ slots: BURST_FRAMES })
  const said: Set<string>[] = []
  card.machine.observe({
    onCommand: (_, op) => {
      if (op !== FENCE) return
      const lanes = upTo(BURST_FRAMES).map((lane) => {
        const at = LANES_AT + lane * LINE_BYTES
        const words = new Uint32Array(card.nvdimm.live.slice(at, at + LINE_BYTES).buffer)
        const phase = words[0]! & 0xff
        const speaks = words[1] === words[6] && words[0]! >>> 16 === (words[7]! & 0xffff)
        return `${phase === PHASE_A ? 'A' : phase === PHASE_B ? 'B' : phase} ${speaks}`
      })
      said.push(new Set(lanes))
    },
  })
  const all = upTo(BURST_FRAMES)
  card.serve(...all.flatMap((slot) => persistFrames(qp, region, slot, dataOf(8, slot))))
  expect(said).toEqual(['A true', 'A true', 'B true', 'B true'].map((one) => new Set([one])))
  // And what the card takes its zeros from are zeros: a region that is made behind it begins so.
  const late = card.provision({ name: 'late', slots: 1, capacity: 4096 })
  expect(card.read(qp, late, 0, VIEW_DATA, 4096)).toEqual(new Uint8Array(4096))
})

test('P1-11: the others of a group go on where the medium refuses the phase of one', () => {
  for (const bad of [0, 1, 3]) {
    const { card, region, qp } = batchSetting({ slots: 8 })
    atFence(card.machine, 1, () => {
      card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + bad)
    })
    const { psn } = qp
    const sent = card.serve(
      ...upTo(4).flatMap((slot) => persistFrames(qp, region, slot, dataOf(8, slot), { wait: 1 })),
    )
    const told = persistAcks(sent).flatMap(({ firstPsn, lastPsn, status, copies }) => {
      expect([status, copies]).toEqual([0, 1])
      return upTo(lastPsn + 1 - psn, firstPsn - psn)
    })
    // A receipt for several names the first and the last one, also where one between is told alone.
    expect(new Set(told)).toEqual(new Set(upTo(4)))
    const phases = upTo(4).map((lane) => card.nvdimm.durable[LANES_AT + lane * LINE_BYTES])
    expect(phases).toEqual(upTo(4).map((lane) => (lane === bad ? PHASE_A : PHASE_B)))
  }
})

/** How long a record is, by what its first copy says. */
function imageLength({ nvdimm }: TestCard, slot: number, region: TestRegion): number {
  const at = slotOffset(region, 0, slot)
  return new DataView(nvdimm.live.buffer, nvdimm.live.byteOffset + at).getUint32(28, true)
}

test('P1-11, D-6: a line of the table is refused: all of a full group have another place', () => {
  const { card, region, qp } = batchSetting({ slots: BURST_FRAMES })
  const lines = new Set<number>()
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const to = words[at + TO]! - NVDIMM_SPACE
      if (op === COPY_CLEAN && to >= OPERATIONS_AT && to < DATA_AT) lines.add(to / LINE_BYTES)
    },
  })
  card.serve(...persistFrames(qp, region, 0, dataOf(8, 0)))
  expect(lines.size).toBe(2)
  for (const line of lines) card.nvdimm.refuseWrites(line)
  const frames = upTo(BURST_FRAMES).flatMap((slot) => {
    return persistFrames(qp, region, slot, dataOf(8, slot))
  })
  expect(persistAcks(card.serve(...frames))).toMatchObject([{ status: 0, records: BURST_FRAMES }])
  // The two that took nothing, and two in another place.
  expect(lines.size).toBe(4)
  const again = { operation: qp.operation, repetition: true }
  const [receipt] = persistAcks(
    card.serve(...persistFrames(card.connect(), region, 0, dataOf(8, 9), again)),
  )
  expect(receipt!.status).toBe(0)
  expect(card.read(qp, region, 0, VIEW_DATA, 8)).toEqual(dataOf(8, 0))
})

test('X-5, P1-11: a chain is broken where it is, whoever else is in the group between', () => {
  for (const [bad, copy, wait] of [
    [0, 0, 1],
    [1, 0, 2],
    [2, 0, 1],
    [1, 1, 1],
    [1, 1, 2],
  ] as const) {
    const { card, region } = batchSetting({ slots: 8 })
    // Whoever is between is the same client.
    const [client, qp] = [card.connect(4096, 0, 8), card.connect(4096, 0, 8)]
    card.nvdimm.refuseWrites(slotOffset(region, copy, bad) / LINE_BYTES)
    // A batch of four, the first half of which is stored because of a SEND behind it. Behind the
    // bad record the lower word of its operations begins again.
    const part = (...indexes: readonly number[]): Uint8Array[] => {
      const records = indexes.map((index) => {
        const operation = 2 ** 32 - 1 - bad + index
        const operationHigh = operation < 2 ** 32 ? 0 : 1
        const pweth = { operationLow: operation >>> 0, operationHigh }
        return { slot: index, index, data: dataOf(8, index), wait, pweth }
      })
      const options = { condition: IN_ORDER, count: 4, operation: 1, ends: indexes.includes(3) }
      return batchFrames(client, region, records, options)
    }
    const between = upTo(bad + 5, 4)
    const others = between.flatMap((slot) => persistFrames(qp, region, slot, dataOf(8, slot)))
    const first = [...part(0, 1), ...sendFrames(client, dataOf(8, 9))]
    const sent = card.serve(...first, ...others, ...part(2, 3))
    // At level 1 the second copy is refused too late to be told of.
    const durable = copy === 1 && wait === 1 ? upTo(4) : upTo(bad)
    expect(statuses(sent).slice(-1)).toMatchObject([{ durable }])
    // What follows one that went back goes back, too.
    const wanted = upTo(4).map((slot) => dataOf(slot < bad ? 8 : 0, slot))
    const found = upTo(4).map((slot) => imageLength(card, slot, region))
    if (copy === 0) expect(found).toEqual(wanted.map(({ length }) => length))
    const own = sent.filter(({ packet }) => packet.destQp === qp.peer)
    expect(persistAcks(own)).toMatchObject([{ status: 0, records: between.length }])
  }
})

test('P1-11: records that the medium takes in one copy alone: the lane of each says so', () => {
  const { card, region, qp } = batchSetting({ slots: 8 })
  const bad = [1, 2, 3, 5]
  for (const slot of bad) card.nvdimm.refuseWrites(slotOffset(region, 1, slot) / LINE_BYTES)
  card.serve(...upTo(6).flatMap((slot) => persistFrames(qp, region, slot, dataOf(8, slot))))
  for (const lane of upTo(6)) {
    const at = LANES_AT + lane * LINE_BYTES
    const words = new Uint32Array(card.nvdimm.durable.slice(at, at + LINE_BYTES).buffer)
    const phase = bad.includes(lane) ? PHASE_HELD : PHASE_B
    expect(words[0]! & 0xffff).toBe(phase | ((phase ^ 0xff) << 8))
    // It speaks for the entry behind it.
    expect([words[1], words[0]! >>> 16]).toEqual([words[6], words[7]! & 0xffff])
  }
})

describe('the power goes in a group of records of the host, and the host answers for some', () => {
  const FIRST_LANE = LOCAL_LANES

  interface Cut {
    /** The host as the next start finds it. */
    readonly away: HostMemory
    readonly card: TestCard
    readonly silence: (...slots: readonly number[]) => void
  }

  /** Three records that are old; what makes them new is cut behind that fence, and its push. */
  function cutBehind(fence: number, frames: (made: Placed) => Uint8Array[]): Cut {
    const made = placed(DDIO_OFF, { slots: 3 })
    const { card, host, region, qp } = made
    card.serve(...upTo(3).flatMap((slot) => persistFrames(qp, region, slot, OLD)))
    card.idle()
    atFence(card.machine, fence, () => {
      card.machine.armCut(3)
    })
    card.serve(...frames(made))
    cutPower(made, NOTHING)
    const away = new HostMemory({ part: host.part, platform: host.platform })
    const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
    const silence = (...slots: readonly number[]): void => {
      away.link.script = ({ kind, memory, at }) => {
        if (kind !== 'read' || memory !== 'persistent' || at < HOST_DATA_AT) return undefined
        const slot = Math.floor(((at - HOST_DATA_AT) % area) / region.stride)
        return slots.includes(slot) ? 'timeout' : undefined
      }
    }
    return { card, away, silence }
  }

  function shown(card: TestCard): string[] {
    const [reader, region] = [card.connect(), card.open()]
    return upTo(3).map((slot) => {
      const bytes = card.read(reader, region, slot, VIEW_DATA, 64)
      return say(bytes?.length === 0 ? null : bytes)
    })
  }

  test('X-5: what is to go back with the record before it is shown to nobody until it has', () => {
    const { card, away, silence } = cutBehind(2, ({ card: to, region }) => {
      const records = upTo(3).map((slot) => ({ slot, data: NEW }))
      return batchFrames(to.connect(), region, records, { condition: IN_ORDER })
    })
    // The first copy of the first record is gone; the lanes of the later ones say theirs stay.
    away.part.poison(HOST_DATA_AT / LINE_BYTES)
    for (const lane of [1, 2]) {
      const at = LANES_AT + (FIRST_LANE + lane) * LINE_BYTES
      card.nvdimm.live.set([PHASE_B, PHASE_B ^ 0xff], at)
      card.nvdimm.durable.set([PHASE_B, PHASE_B ^ 0xff], at)
    }
    // A start that is not told of the first one, and then of that one alone.
    silence(0)
    const next = cardOf(card.nvdimm, away)
    expect(shown(next)).toEqual(['refused', 'refused', 'refused'])
    silence(1, 2)
    believe(next, PLACEMENT_BYPASS)
    silence()
    expect(shown(next)).toEqual(['old', 'old', 'refused'])
    believe(next, PLACEMENT_BYPASS)
    expect(shown(next)).toEqual(['old', 'old', 'old'])
  })

  test('P1-21: what was settled is read, whatever else of its region waits for the host', () => {
    const { card, away, silence } = cutBehind(3, ({ region, qp }) => {
      return upTo(3).flatMap((slot) => persistFrames(qp, region, slot, NEW))
    })
    // Nothing was acknowledged, and the first copy of the first record is gone: it goes back.
    away.part.poison(HOST_DATA_AT / LINE_BYTES)
    silence(0, 1, 2)
    const next = cardOf(card.nvdimm, away)
    silence(1, 2)
    believe(next, PLACEMENT_BYPASS)
    silence()
    expect(shown(next)).toEqual(['old', 'new', 'new'])
    believe(next, PLACEMENT_BYPASS)
    expect(shown(next)).toEqual(['old', 'new', 'new'])
  })
})

test('X-5: a record through the caches of the host is chained to none, without a link', () => {
  const { card, region, qp } = placed(DDIO_ON)
  card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait: 2 }))
  // How, and how many: the link stands in the upper five bits, the wait below.
  const how = card.nvdimm.live[LANES_AT + BURST_FRAMES * LINE_BYTES + 23]!
  expect([how >> 3, how & 7]).toEqual([0, 2])
})

test('P1-11: a completion is written once, but in the group that had something refused', () => {
  const queue = localQueue()
  const { card } = queue.host
  const region = card.provision({ slots: 2, capacity: 8 })
  let writes = 0
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const isStore = op === COPY || op === COPY_CLEAN
      if (isStore && words[at + TO]! >= DMA_SPACE && words[at + LENGTH] === UNIT_BYTES) writes += 1
    },
  })
  const line = slotOffset(region, 0, 0) / LINE_BYTES
  const wrote = [1, 2, 3, 4].map((operation) => {
    writes = 0
    // The second group has a record that the medium refuses, behind one that it takes.
    card.nvdimm.refuseWrites(line, operation === 2)
    const records = [1, 0].map((slot) => {
      return record(queue, region, slot, 2 * operation + slot, dataOf(8, operation), 1)
    })
    const refusals = play(queue, ...records).map(({ refusal }) => refusal)
    expect(refusals).toEqual(operation === 2 ? [0, MEDIA] : [0, 0])
    return writes
  })
  // Those of the records, and of the queue.
  expect(wrote).toEqual([4, 5, 4, 4])
})
