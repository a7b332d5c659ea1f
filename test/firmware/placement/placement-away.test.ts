/**
 * A host that is away, or does not answer, and a card that serves on: what lies with the host is in
 * doubt, waits, and is settled when a host has shown its memory again; everything else is served
 * (crash-model 4.4, B3, B4, B7).
 */

import { describe, expect, test } from 'vitest'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { COMPARE, COPY, FENCE, FROM, NVDIMM_SPACE } from '../../../firmware/board/hal.ts'
import { LINE_BYTES, SLICE_RECORDS } from '../../../firmware/board/limits.ts'
import { VIEW_DATA, VIEW_FIRST_COPY, VIEW_SETTLED } from '../../../firmware/burst/view.ts'
import {
  HOST_DATA_AT,
  HOST_PROBE_AT,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
} from '../../../firmware/medium/region.ts'
import { LOST_MAX } from '../../../firmware/medium/superblock.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_QUERY } from '../../../firmware/wire/opcode.ts'
import { STATUS_DURABLE } from '../../../firmware/wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../../../firmware/wire/persist-query.ts'
import { batchFrames, statuses as batchStatuses, EXPECT } from '../../support/cards/batch-card.ts'
import { countCommands } from '../../support/cards/fences.ts'
import {
  attachedAgent,
  believe,
  cardOf,
  cutPower,
  NEW,
  NOTHING,
  OLD,
  type Placed,
  PushedHost,
  pastCaches,
  place,
  placed,
  restarted,
  restartedAlone,
  say,
  work,
} from '../../support/cards/placed.ts'
import {
  ackStatuses,
  dataOf,
  persistFrames,
  readFrame,
  type Sent,
  type TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  ACK,
  carriedFrames,
  flushFrame,
  lines,
  NAK_OPERATIONAL,
  writeFrames,
} from '../../support/wire/requests.ts'

/** The sequence in the header of a slot. */
const SEQUENCE_AT = 32
const STATUS_NOT_ARMED = 0x85
const STATUS_READ_ONLY = 0x8b
const STATUS_FLUSH = 0x8e
const STATUS_IN_DOUBT = 0x8f
const STATUS_PLACEMENT_UNKNOWN = 0x90

function read(card: TestCard, region: TestRegion): string {
  return say(card.read(card.connect(), region, 0, VIEW_DATA, 64))
}

/** Another client, of the card's own region, is served as ever. */
function servesOthers(card: TestCard): void {
  const qp = card.connect(4096, 0, 99)
  const local = card.open('local')
  const data = dataOf(64, 9)
  expect(ackStatuses(card.serve(...persistFrames(qp, local, 1, data)))).toEqual([STATUS_DURABLE])
  expect(card.read(qp, local, 1, VIEW_DATA, 64)).toEqual(data)
  expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
}

/** The line of the card's own memory that begins with those bytes. */
function lineOf({ nvdimm }: TestCard, bytes: Uint8Array): number {
  return Buffer.from(nvdimm.live).indexOf(bytes) / LINE_BYTES
}

/** By what the card says that every write into that region is refused; 0: by nothing. */
function refusalOf(card: TestCard, name: string): number {
  const body = card.must(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (asked) => {
    asked.set(Buffer.from(name), mad.REGION_NAME)
  })
  return body[98]!
}

/** A card past the caches of its host, with OLD in its memory, and a region of its own. */
function begun(copies = 2): Placed {
  const made = placed(DDIO_OFF, { copies })
  const { card, region, qp } = made
  card.provision({ name: 'local', slots: 4 })
  card.serve(...persistFrames(qp, region, 0, OLD))
  return made
}

/** The same memory of a host that is there again; the card has kept its power. */
function comeBack(card: TestCard): void {
  card.host!.link.script = null
  card.host!.comeBack()
  believe(card, PLACEMENT_BYPASS)
}

describe('the host goes while a burst is committed', () => {
  for (const [wait, copies] of [
    [1, 2],
    [2, 2],
    [2, 3],
  ] as const) {
    test(`R1-A1: at any access, at ${wait}of${copies}: only its own record is in doubt`, () => {
      for (let at = 0; ; at++) {
        const made = begun(copies)
        const { card, region, qp, host } = made
        const other = card.connect(4096, 0, 98)
        const local = card.open('local')
        let accesses = 0
        host.link.script = ({ memory }) =>
          memory === 'persistent' && accesses++ === at ? 'removal' : undefined
        const sent = card.serve(
          ...persistFrames(qp, region, 0, NEW, { wait }),
          ...persistFrames(other, local, 0, NEW),
        )
        const gone = !host.link.up
        const told = ackStatuses(sent)
        expect(told).toContain(STATUS_DURABLE)
        servesOthers(card)
        const durable = told.filter((status) => status === STATUS_DURABLE).length === 2
        if (gone && !durable) expect(told).toContain(STATUS_IN_DOUBT)
        comeBack(card)
        servesOthers(card)
        const found = read(card, region)
        if (durable) expect(found).toBe('new')
        else expect(['old', 'new']).toContain(found)
        cutPower(made, NOTHING)
        const next = restarted(made)
        expect(read(next, next.open())).toBe(found)
        if (!gone) break
      }
    })
  }

  test('R1-A1: while it is away nothing is written to it, and everything else is', () => {
    const { card, region, qp, host } = begun()
    host.link.remove()
    const first = ackStatuses(card.serve(...persistFrames(qp, region, 0, NEW)))
    expect(first).toEqual([STATUS_IN_DOUBT])
    servesOthers(card)
    const second = ackStatuses(card.serve(...persistFrames(qp, region, 1, NEW)))
    expect(second).not.toContain(STATUS_DURABLE)
    expect(read(card, region)).toBe('refused')
    for (let i = 0; i < 64; i++) card.idle()
    servesOthers(card)
    comeBack(card)
    expect(['old', 'new']).toContain(read(card, region))
    const third = card.serve(...persistFrames(qp, region, 1, NEW))
    expect(ackStatuses(third)).toEqual([STATUS_DURABLE])
  })

  test('R1-A1: the answer about a region says by what every write is refused, or nothing', () => {
    const { card, region, qp, host } = begun()
    const bytes = { kind: mad.KIND_BYTES, length: 4096 }
    card.provision({ ...bytes, name: 'bytes' })
    card.provision({ ...bytes, name: 'kept', flags: mad.REGION_WRITE_PERSIST })
    const placement = PLACEMENT_BYPASS
    card.provision({ ...bytes, name: 'far bytes', placement })
    const names = ['records', 'far bytes', 'local', 'bytes', 'kept']
    const refuses = () => names.map((name) => refusalOf(card, name))
    expect(refuses()).toEqual([0, 0, 0, 0, 0])
    host.link.remove()
    card.serve(...persistFrames(qp, region, 0, NEW))
    const unknown = STATUS_PLACEMENT_UNKNOWN
    expect(refuses()).toEqual([unknown, unknown, 0, 0, 0])
    expect(ackStatuses(card.serve(...persistFrames(qp, region, 1, NEW)))).toEqual([unknown])
    // It shows its memory, and does not answer for the record that waits.
    host.comeBack()
    host.link.script = ({ kind, at }) =>
      kind === 'read' && at >= HOST_DATA_AT ? 'timeout' : undefined
    believe(card, PLACEMENT_BYPASS)
    expect(refuses()).toEqual([STATUS_READ_ONLY, 0, 0, 0, 0])
    comeBack(card)
    expect(refuses()).toEqual([0, 0, 0, 0, 0])
    const unarmed = STATUS_NOT_ARMED
    card.nvdimm.armed = false
    expect(refuses()).toEqual([unarmed, 0, unarmed, 0, unarmed])
    card.nvdimm.armed = true
    expect(refuses()).toEqual([0, 0, 0, 0, 0])
    // Behind a fence that fails nothing more is durable; plain bytes promise nothing.
    card.nvdimm.fencesToFail = 1
    const local = card.open('local')
    card.serve(...persistFrames(card.connect(), local, 0, NEW))
    expect(refuses()).toEqual([STATUS_FLUSH, 0, STATUS_FLUSH, 0, STATUS_FLUSH])
  })

  test('R1-A1: a record that waits is not called lost, whatever decays, until it is judged', () => {
    let waited = 0
    for (let at = 0, gone = true; gone; at++) {
      const { card, region, qp, host } = begun()
      let accesses = 0
      host.link.script = () => (accesses++ === at ? 'removal' : undefined)
      card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 }))
      gone = !host.link.up
      host.comeBack()
      // It shows its memory, and does not answer for the record.
      host.link.script = ({ kind, at }) =>
        kind === 'read' && at >= HOST_DATA_AT ? 'timeout' : undefined
      believe(card, PLACEMENT_BYPASS)
      host.link.script = null
      const waits = refusalOf(card, 'records') === STATUS_READ_ONLY
      for (const copy of [0, 1]) host.part.poison((HOST_DATA_AT + copy * 4096) / LINE_BYTES)
      const settled = (): Uint8Array | null =>
        card.read(card.connect(), region, 0, VIEW_SETTLED, 64)
      if (waits) expect(settled(), `access ${at}`).toBe(null)
      comeBack(card)
      expect(settled(), `access ${at}`).toEqual(new Uint8Array(64))
      waited += waits ? 1 : 0
    }
    expect(waited).toBeGreaterThan(2)
  })

  test('R1-A1: while it is away no READ calls its records lost, whatever the view', () => {
    const { card, region, host } = begun()
    const views = [VIEW_DATA, VIEW_SETTLED, VIEW_FIRST_COPY, VIEW_FIRST_COPY + 1]
    const read = (view: number): Uint8Array | null => card.read(card.connect(), region, 0, view, 64)
    const before = views.map(read)
    host.link.remove()
    expect(views.map(read)).toEqual([null, null, null, null])
    servesOthers(card)
    comeBack(card)
    expect(views.map(read)).toEqual(before)
  })

  test('B4: one that does not answer says nothing of the sequence that a record expects', () => {
    const { card, region, host } = begun()
    const header = card.read(card.connect(), region, 0, VIEW_SETTLED, 64)!
    const sequence = new DataView(header.buffer).getBigUint64(SEQUENCE_AT, true)
    const say = (): string[] => {
      const records = [{ slot: 0, data: NEW, expect: sequence }]
      const frames = batchFrames(card.connect(), region, records, { condition: EXPECT })
      return batchStatuses(card.serve(...frames)).map(({ said }) => said)
    }
    host.link.script = ({ kind, at }) =>
      kind === 'read' && at >= HOST_DATA_AT ? 'timeout' : undefined
    expect(say()).toEqual(['PLACEMENT_UNKNOWN'])
    servesOthers(card)
    host.link.script = null
    expect(say()).toEqual(['durable'])
  })

  test('R1-A1: of bytes, who has stored there is refused, and nobody else', () => {
    const { card, host } = begun()
    const shape = { kind: mad.KIND_BYTES, length: 4096, flags: 2 }
    const far = card.provision({ name: 'far', ...shape, placement: PLACEMENT_BYPASS })
    const near = card.provision({ name: 'near', ...shape })
    const [one, two, three, four] = Array.from({ length: 4 }, () => card.connect())
    host.link.remove()
    const sent = card.serve(
      ...writeFrames(one!, far, 0, NEW),
      ...writeFrames(two!, near, 0, NEW),
      flushFrame(three!, far),
      flushFrame(four!, near),
    )
    const answered = (qp: TestPeer): number[] =>
      sent.flatMap(({ packet, syndrome }) => (packet.destQp === qp.peer ? [syndrome] : []))
    expect([one, two, three, four].map((qp) => answered(qp!))).toEqual([
      [NAK_OPERATIONAL],
      [ACK],
      [NAK_OPERATIONAL],
      [ACK],
    ])
    servesOthers(card)
  })

  test('R1-A1: what asked for durability behind its bytes hears of them, and once', () => {
    const { card, host } = begun()
    const shape = { kind: mad.KIND_BYTES, length: 4096 }
    const far = card.provision({ name: 'far', ...shape, placement: PLACEMENT_BYPASS })
    const qp = card.connect()
    const base = qp.psn
    host.link.remove()
    const sent = card.serve(...writeFrames(qp, far, 0, NEW), flushFrame(qp, far))
    expect(lines(sent, base).filter((line) => !line.startsWith('ACK'))).toEqual(['NAK 0x63 1'])
    expect(card.serve(...writeFrames(qp, far, 0, NEW))).toEqual([])
    servesOthers(card)
  })

  test('R1-A1: nor does the refusal of another WRITE acknowledge bytes that never arrived', () => {
    const { card, host } = begun()
    const shape = { kind: mad.KIND_BYTES, length: 4096, flags: 2 }
    const far = card.provision({ name: 'far', ...shape, placement: PLACEMENT_BYPASS })
    const near = card.provision({ name: 'near', ...shape })
    const qp = card.connect()
    const base = qp.psn
    card.serve(...writeFrames(qp, near, 0, NEW))
    card.nvdimm.refuseWrites(lineOf(card, NEW))
    // It goes when what was posted is pushed out.
    host.link.script = ({ kind, memory }) =>
      kind === 'read' && memory === 'persistent' ? 'removal' : undefined
    const sent = card.serve(...writeFrames(qp, far, 0, NEW), ...writeFrames(qp, near, 0, OLD))
    expect(lines(sent, base)).toEqual(['NAK 0x63 1'])
    servesOthers(card)
  })

  test('R1-A1: a record behind bytes that never arrived has touched nothing', () => {
    const made = begun()
    const { card, region, qp, host } = made
    const shape = { kind: mad.KIND_BYTES, length: 4096 }
    const far = card.provision({ name: 'far', ...shape, placement: PLACEMENT_BYPASS })
    const other = card.connect()
    let writes = 0
    host.link.script = ({ kind, memory }) => {
      if (memory === 'persistent' && kind === 'write') writes += 1
      return memory === 'persistent' && kind === 'read' ? 'removal' : undefined
    }
    const sent = card.serve(
      ...writeFrames(other, far, 0, NEW),
      ...persistFrames(qp, region, 0, NEW),
    )
    expect(writes).toBe(1)
    expect(ackStatuses(sent)).toEqual([STATUS_PLACEMENT_UNKNOWN])
    servesOthers(card)
    comeBack(card)
    expect(read(card, region)).toBe('old')
  })
})

test('B4: a READ of the host that fails as it is answered ends nobody but its own client', () => {
  let refused = 0
  for (let failing = 0; ; failing++) {
    const { card, host, region, qp } = begun()
    const local = card.open('local')
    const other = card.connect(4096, 0, 98)
    let reads = 0
    host.link.script = ({ kind }) => {
      return kind === 'read' && reads++ === failing ? 'timeout' : undefined
    }
    // The second record of that client makes a group be committed behind the answer to its READ.
    const sent = card.serve(
      ...persistFrames(other, local, 2, NEW),
      readFrame(qp, region, 0, VIEW_DATA, 64),
      ...persistFrames(qp, local, 3, NEW),
    )
    host.link.script = null
    if (reads <= failing) break
    refused += sent.some(({ syndrome }) => syndrome === NAK_OPERATIONAL) ? 1 : 0
    expect(ackStatuses(sent)[0]).toBe(STATUS_DURABLE)
    servesOthers(card)
  }
  expect(refused).toBeGreaterThan(0)
})

test('a line of the card that decays as it is answered ends nobody but its own client', () => {
  const { card, qp } = begun()
  const local = card.open('local')
  card.serve(...persistFrames(qp, local, 0, OLD))
  const line = lineOf(card, OLD)
  let copies = 0
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      if (op !== COPY || words[at + FROM] !== NVDIMM_SPACE + line * LINE_BYTES) return
      copies += 1
      card.nvdimm.poison(line)
    },
  })
  const sent = card.serve(
    readFrame(qp, local, 0, VIEW_DATA, 64),
    ...persistFrames(qp, local, 3, NEW),
  )
  card.machine.observe({})
  expect(copies).toBe(1)
  expect(sent.some(({ syndrome }) => syndrome === NAK_OPERATIONAL)).toBe(true)
  servesOthers(card)
})

test('B1: what waits for its group as another host begins is not told durable', () => {
  const card = pastCaches(1 << 17)
  const host = card.host!
  const queues = new PushedHost(card)
  queues.init()
  believe(card, PLACEMENT_BYPASS)
  const region = card.provision({ placement: PLACEMENT_BYPASS })
  const local = card.provision({ name: 'local', slots: 4 })
  const qp = card.connect()
  card.serve(...persistFrames(qp, region, 0, OLD))
  card.machine.observe({
    onCommand: (_, op) => {
      if (op !== COMPARE) return
      card.machine.observe({})
      queues.setLink(false)
      host.link.loseHost()
      host.comeBack({ platform: DDIO_ON })
      queues.enable()
    },
  })
  const other = card.connect(4096, 0, 98)
  const sent = card.serve(
    ...persistFrames(qp, region, 0, NEW),
    ...carriedFrames(other, local, 2, [NEW, NEW]),
  )
  expect(ackStatuses(sent)).toEqual([STATUS_DURABLE, STATUS_PLACEMENT_UNKNOWN])
  servesOthers(card)
  cutPower({ card, host }, NOTHING)
  const next = restarted({ card, host })
  comeBack(next)
  expect(read(next, next.open())).toBe('old')
})

test('D-13: a fence that fails while the host comes back closes the part, and says so', () => {
  const made = begun()
  const { card, region, qp, host } = made
  // It goes when its first copy is durable, and the second one comes.
  let writes = 0
  host.link.script = ({ kind, memory }) =>
    kind === 'write' && memory === 'persistent' && writes++ === 1 ? 'removal' : undefined
  expect(ackStatuses(card.serve(...persistFrames(qp, region, 0, NEW)))).toEqual([STATUS_IN_DOUBT])
  host.link.script = null
  host.comeBack()
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE)
  card.nvdimm.fencesToFail = 1
  const number = host.load(HOST_PROBE_AT, 8).bytes!
  expect(() => place(card, PLACEMENT_BYPASS, true, number)).toThrow('FLUSH')
  expect(card.status()[mad.PART_STATE]).not.toBe(mad.STATE_SERVING)
  cutPower(made, NOTHING)
  const next = restarted(made)
  comeBack(next)
  servesOthers(next)
  expect(read(next, next.open())).toBe('new')
})

describe('the card starts while its host is away', () => {
  /** The next start of a card that was at rest, and how often it reads the records of its host. */
  function startsOn(card: TestCard, host: HostMemory): { next: TestCard; reads: number } {
    if (!card.machine.dead) {
      card.idle()
      card.machine.die()
    }
    let reads = 0
    host.link.script = ({ memory }) => {
      if (memory === 'persistent') reads += 1
      return undefined
    }
    const next = cardOf(card.nvdimm, host)
    host.link.script = null
    return { next, reads }
  }

  test('R1-A2: and has to look at every record: it does so when the host answers for all', () => {
    const made = begun()
    const { part } = made.host
    const copy = { first: HOST_DATA_AT, second: HOST_DATA_AT + 4096 }
    const bytesOf = (at: number): Uint8Array => part.durable.slice(at, at + 128)
    made.card.machine.die()
    made.host.powerCut(NOTHING)
    part.store(copy.second, dataOf(128, 3), 0, 128)
    part.clean(copy.second, 128)
    part.fence()
    cut(made.card.nvdimm, { ...NOTHING, adrFail: true })
    const card = restartedAlone(made)
    const host = card.host!
    servesOthers(card)
    // It shows its probe, and then hangs: nothing is known of its records.
    host.comeBack()
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE)
    const number = host.load(HOST_PROBE_AT, 8).bytes!
    host.link.script = ({ kind, memory }) =>
      kind === 'read' && memory === 'persistent' ? 'timeout' : undefined
    place(card, PLACEMENT_BYPASS, true, number)
    expect(bytesOf(copy.second)).toEqual(dataOf(128, 3))
    card.machine.die()
    // Another start, its host away again; then it answers, and its records are made whole.
    host.link.remove()
    const again = cardOf(card.nvdimm, host)
    comeBack(again)
    while (again.waitUs > 0) again.idle()
    expect(bytesOf(copy.second)).toEqual(bytesOf(copy.first))
    expect(read(again, again.open())).toBe('old')
    const last = startsOn(again, host)
    expect(last.reads).toBe(0)
    expect(read(last.next, last.next.open())).toBe('old')
  })

  test('R1-A2, R1-A3: it does so in slices, takes no record before, and serves others', () => {
    const made = placed(DDIO_OFF, { slots: 60 })
    made.card.provision({ name: 'local', slots: 4 })
    made.card.serve(...persistFrames(made.qp, made.region, 59, OLD))
    made.card.machine.die()
    made.host.powerCut(NOTHING)
    cut(made.card.nvdimm, { ...NOTHING, adrFail: true })
    const card = restartedAlone(made)
    const host = card.host!
    const commands = countCommands(card.machine)
    const told = (data: Uint8Array): number[] => {
      const qp = card.connect(4096, 0, 97)
      return ackStatuses(card.serve(...persistFrames(qp, card.open(), 59, data)))
    }
    comeBack(card)
    expect(commands.passed).toBeLessThan(SLICE_RECORDS * 4)
    expect(told(NEW)).toEqual([STATUS_PLACEMENT_UNKNOWN])
    // A host that hangs is asked once, and again when it has shown its memory again.
    host.link.script = ({ kind, memory }) =>
      kind === 'read' && memory === 'persistent' ? 'timeout' : undefined
    for (let i = 0; i < 4; i++) card.idle()
    host.link.script = null
    while (card.waitUs > 0) card.idle()
    expect(told(NEW)).toEqual([STATUS_PLACEMENT_UNKNOWN])
    servesOthers(card)
    comeBack(card)
    for (let i = 0; card.waitUs > 0; i++) {
      commands.passed = 0
      card.idle()
      expect(commands.passed).toBeLessThan(SLICE_RECORDS * 16)
      if (i !== 1) continue
      expect(told(NEW)).toEqual([STATUS_PLACEMENT_UNKNOWN])
      servesOthers(card)
    }
    expect(told(NEW)).toEqual([STATUS_DURABLE])
    expect(startsOn(card, card.host!).reads).toBe(0)
  })

  test('R1-A2, R1-U1: more is lost than the list holds: it is looked at, and read-only', () => {
    const made = placed(DDIO_OFF, { slots: LOST_MAX + 2 })
    made.card.provision({ name: 'local', slots: 4 })
    made.card.machine.die()
    made.host.powerCut(NOTHING)
    cut(made.card.nvdimm, { ...NOTHING, adrFail: true })
    const { part } = made.host
    for (let at = HOST_DATA_AT; at < part.bytes; at += LINE_BYTES) part.poison(at / LINE_BYTES)
    const card = restartedAlone(made)
    comeBack(card)
    while (card.waitUs > 0) card.idle()
    // Those of the list, and that there are more.
    expect(card.open().unsettled).toBe(LOST_MAX + 1)
    const qp = card.connect(4096, 0, 97)
    const sent = card.serve(...persistFrames(qp, card.open(), LOST_MAX + 1, NEW))
    expect(ackStatuses(sent)).toEqual([STATUS_READ_ONLY])
    servesOthers(card)
    expect(startsOn(card, card.host!).reads).toBe(0)
  })

  test('R1-A2: nor is it looked at for a host that came in the middle of that', () => {
    const made = placed(DDIO_OFF, { slots: 60 })
    made.card.machine.die()
    made.host.powerCut(NOTHING)
    cut(made.card.nvdimm, { ...NOTHING, adrFail: true })
    const card = restartedAlone(made)
    const host = card.host!
    comeBack(card)
    // The first slices, of four; then another host, and nobody had time for the next one.
    while (card.host!.link.up && card.status()[mad.PART_SCANNED + 3]! < 32) card.idle()
    host.link.remove()
    expect(read(card, card.open())).toBe('refused')
    const before = u32(card.status(), mad.PART_SCANNED)
    comeBack(card)
    while (card.waitUs > 0) card.idle()
    expect(u32(card.status(), mad.PART_SCANNED) - before).toBeGreaterThanOrEqual(60)
  })

  test('R1-A2: one that was there is looked at by each start, until its probe is shown', () => {
    const made = begun()
    cutPower(made, { ...NOTHING, adrFail: true })
    const host = new HostMemory({ part: made.host.part, platform: DDIO_OFF })
    let { next, reads } = startsOn(made.card, host)
    expect(reads).toBeGreaterThan(0)
    ;({ next, reads } = startsOn(next, host))
    expect(reads).toBeGreaterThan(0)
    believe(next, PLACEMENT_BYPASS)
    while (next.waitUs > 0) next.idle()
    ;({ next, reads } = startsOn(next, host))
    expect(reads).toBe(0)
    expect(read(next, next.open())).toBe('old')
  })

  test('R1-A2: past its caches, cut anywhere: it serves, and settles when the host comes', () => {
    for (let command = 0; ; command++) {
      const made = begun()
      const { card, region, qp } = made
      card.machine.armCut(command)
      const sent: Sent[] = []
      card.machine.observe({ onCommand: () => {} })
      sent.push(...card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 })))
      const ended = !card.machine.dead
      const durable = ackStatuses(sent).includes(STATUS_DURABLE)
      cutPower(made, NOTHING)
      const next = restartedAlone(made)
      const host = next.host!
      servesOthers(next)
      expect(read(next, next.open())).toBe('refused')
      // Another start, as early, finds the same.
      next.machine.die()
      const again = cardOf(card.nvdimm, host)
      servesOthers(again)
      comeBack(again)
      const found = read(again, again.open())
      if (durable) expect(found).toBe('new')
      else expect(['old', 'new']).toContain(found)
      const other = again.connect(4096, 0, 97)
      const next2 = again.serve(...persistFrames(other, again.open(), 1, NEW))
      expect(ackStatuses(next2)).toEqual([STATUS_DURABLE])
      cutPower({ card: again, host }, NOTHING)
      const last = restarted({ card: again, host })
      expect(read(last, last.open())).toBe(found)
      if (ended) break
    }
  })

  test('X-1: past its caches, cut anywhere: a repetition hears of no copy that is not', () => {
    let heard = 0
    for (let command = 0; ; command++) {
      const made = begun()
      const { card, region, qp, host } = made
      card.machine.armCut(command)
      card.serve(...persistFrames(qp, region, 0, NEW))
      const { operation } = qp
      const ended = !card.machine.dead
      // What no lane speaks of any more is known.
      if (ended) {
        card.machine.armCut(2 ** 40)
        servesOthers(card)
      }
      cutPower(made, NOTHING)
      // Nothing has shown yet that the repair went past the caches.
      host.platform = DDIO_ON
      const next = restarted(made)
      const again = next.connect(4096, 0, 7)
      const frames = persistFrames(again, next.open(), 0, NEW, { operation, repetition: true })
      const [status] = ackStatuses(next.serve(...frames))
      if (status === STATUS_DURABLE) {
        heard += 1
        for (const c of [0, 1]) expect(durableData(made, c)).toEqual(Buffer.from(NEW))
      }
      if (ended) break
    }
    expect(heard).toBeGreaterThan(0)
  })

  for (const bells of [0, 1, 2]) {
    test(`R1-A2: through its caches, behind ${bells} bells: likewise, with an agent`, () => {
      const made = placed(DDIO_ON)
      const { card, region, qp, agent } = made
      card.provision({ name: 'local', slots: 4 })
      card.serve(...persistFrames(qp, region, 0, OLD))
      work(card, agent!)
      const sent = [...card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 }))]
      for (let i = 0; i < bells; i++) {
        agent!.poll()
        card.sent = []
        card.idle()
        card.idle()
        sent.push(...card.sent)
      }
      const durable = ackStatuses(sent).includes(STATUS_DURABLE)
      cutPower(made, NOTHING)
      const next = restartedAlone(made)
      const host = next.host!
      servesOthers(next)
      host.comeBack()
      believe(next, PLACEMENT_THROUGH)
      work(next, attachedAgent(next))
      const found = read(next, next.open())
      expect(found).toBe(durable ? 'new' : 'old')
      cutPower({ card: next, host }, NOTHING)
      const last = restarted({ card: next, host })
      expect(read(last, last.open())).toBe(found)
    })
  }
})

/** Copies A and B of record 0, as addresses in the host's memory. */
function copyAt({ region }: Pick<Placed, 'region'>, c: number): number {
  return HOST_DATA_AT + c * Math.ceil((region.slots * region.stride) / 4096) * 4096
}

/** What copy `c` of record 0 durably holds. */
function durableData(made: Pick<Placed, 'region' | 'host'>, c: number): Buffer {
  const at = copyAt(made, c) + 64
  return Buffer.from(made.host.part.durable.subarray(at, at + NEW.length))
}

/** The host went when the second copy was about to be written: NEW waits in its lane. */
function waiting(): Placed {
  const made = begun()
  const { card, region, qp, host } = made
  const second = copyAt(made, 1)
  host.link.script = ({ kind, memory, at }) =>
    kind === 'write' && memory === 'persistent' && at === second ? 'removal' : undefined
  const sent = card.serve(...persistFrames(qp, region, 0, NEW))
  expect(ackStatuses(sent)).toEqual([STATUS_IN_DOUBT])
  expect(read(card, region)).toBe('refused')
  host.link.script = null
  return made
}

/** What the card says of that operation: its fault, or PASS where it is known as durable. */
function known(card: TestCard, operation: number): number {
  const qp = card.connect(4096, 0, 7)
  const bth = { opcode: PERSIST_QUERY, destQp: qp.number, psn: qp.psn, ackRequest: true }
  return ackStatuses(card.serve(frameOf({ bth, pqeth: { operationLow: operation } })))[0]!
}

describe('what waits is settled when its host has shown its memory', () => {
  test('B3: its record is whole, its operation known, and the region takes records again', () => {
    const { card, region, qp, host } = waiting()
    const { operation } = qp
    expect(known(card, operation)).toBe(QUERY_NOT_KNOWN)
    comeBack(card)
    expect(read(card, region)).toBe('new')
    expect(known(card, operation)).toBe(STATUS_DURABLE)
    const other = card.connect(4096, 0, 97)
    expect(ackStatuses(card.serve(...persistFrames(other, region, 1, NEW)))).toEqual([
      STATUS_DURABLE,
    ])
    cutPower({ card, host }, NOTHING)
    const next = restarted({ card, host })
    expect(read(next, next.open())).toBe('new')
  })

  test('B4: one that does not answer even then has it wait for the next proof', () => {
    const made = waiting()
    const { card, region, host } = made
    const first = copyAt(made, 0)
    host.comeBack()
    host.link.script = ({ kind, memory, at }) =>
      kind === 'read' && memory === 'persistent' && at === first ? 'timeout' : undefined
    believe(card, PLACEMENT_BYPASS)
    expect(read(card, region)).toBe('refused')
    const other = card.connect(4096, 0, 97)
    const told = (): number[] => ackStatuses(card.serve(...persistFrames(other, region, 1, NEW)))
    expect(told()).toEqual([STATUS_READ_ONLY])
    servesOthers(card)
    comeBack(card)
    expect(read(card, region)).toBe('new')
    expect(card.open().unsettled).toBe(0)
    expect(told()).toEqual([STATUS_DURABLE])
  })

  test('P1-11: its medium refuses the repair: the new one is shown, the next start repairs', () => {
    const made = waiting()
    const { card, region, host } = made
    const line = copyAt(made, 1) / LINE_BYTES
    host.part.refuseWrites(line)
    comeBack(card)
    expect(read(card, region)).toBe('new')
    expect(card.open().unsettled).toBe(1)
    servesOthers(card)
    host.part.refuseWrites(line, false)
    cutPower(made, NOTHING)
    const next = restarted(made)
    believe(next, PLACEMENT_BYPASS)
    expect(read(next, next.open())).toBe('new')
    expect(next.open().unsettled).toBe(0)
  })

  test('B1: it is another one, whose memory is blank: the record is lost by name', () => {
    const made = waiting()
    const { card, region, host } = made
    host.comeBack({ part: 'cleared' })
    believe(card, PLACEMENT_BYPASS)
    expect(read(card, region)).toBe('refused')
    expect(card.open().unsettled).toBe(1)
    servesOthers(card)
    cutPower(made, NOTHING)
    const next = restarted(made)
    believe(next, PLACEMENT_BYPASS)
    expect(read(next, next.open())).toBe('refused')
    expect(next.open().unsettled).toBe(1)
  })

  test.each([
    { what: 'made whole', part: undefined, found: 'new', unsettled: 0 },
    { what: 'lost', part: 'cleared' as const, found: 'refused', unsettled: 1 },
  ])(
    'D-13: while it is $what a fence fails, whichever: the part closes',
    ({ part, found, unsettled }) => {
      for (let fence = 1; ; fence++) {
        const made = waiting()
        const { card, host } = made
        host.comeBack(part === undefined ? {} : { part })
        card.must(mad.METHOD_SET, mad.ATTRIBUTE_PROBE)
        let left = fence
        card.machine.observe({
          onCommand: (_, op) => {
            if (op === FENCE && --left === 0) card.nvdimm.fencesToFail = 1
          },
        })
        try {
          place(card, PLACEMENT_BYPASS, true, host.load(HOST_PROBE_AT, 8).bytes!)
        } catch (error) {
          expect(String(error)).toContain('FLUSH')
        }
        const closed = card.status()[mad.PART_STATE] === mad.STATE_FAILED_CLOSED
        expect(closed).toBe(left <= 0)
        cutPower(made, NOTHING)
        const next = restarted(made)
        believe(next, PLACEMENT_BYPASS)
        expect(read(next, next.open())).toBe(found)
        expect(next.open().unsettled).toBe(unsettled)
        if (!closed) break
      }
    },
  )
})
