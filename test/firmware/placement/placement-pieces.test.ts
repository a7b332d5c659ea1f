/**
 * The host's persistent memory in pieces, anywhere in it: what lies across their edges is stored,
 * found and mended as elsewhere, and no other pieces take their place (source 2, virtual address
 * registration; S1-M6).
 */

import { describe, expect, test } from 'vitest'
import {
  DDIO_OFF,
  DDIO_ON,
  HostMemory,
  type Platform,
} from '../../../boards/emulator/host/host-memory.ts'
import { images } from '../../../boards/emulator/medium/images.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { ARRANGE } from '../../../firmware/board/hal.ts'
import { VIEW_DATA, VIEW_FIRST_COPY } from '../../../firmware/burst/view.ts'
import {
  HOST_DATA_AT,
  PLACEMENT_BYPASS,
  PLACEMENT_THROUGH,
} from '../../../firmware/medium/region.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { failFence } from '../../support/cards/fences.ts'
import {
  bytesIn,
  PAGE,
  piecesOf,
  placedInPieces,
  placeIn,
  probePieces,
  restartedInWindow,
  showPieces,
  statePieces,
  type Table,
} from '../../support/cards/pieces.ts'
import {
  Agent,
  agentRequest,
  cardOf,
  cutPower,
  explorePlaced,
  hostSideOf,
  NOTHING,
  type Placed,
  placed,
  restarted,
  restartHost,
  tellAgent,
  work,
} from '../../support/cards/placed.ts'
import { dataOf, persistFrames, type Sent, TestCard } from '../../support/cards/test-card.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const LINE = 64

/** Status of a record that is refused as nobody writes back. */
const NO_AGENT = 0x91

/** No command: BAD_COMMAND. */
const NO_OPERATION = 99

/** Every page for itself, none where it would lie without them. */
const SCATTERED: Table = [
  [9, 1],
  [3, 1],
  [14, 1],
  [6, 1],
  [11, 1],
]

const WAYS = [
  ['past the caches', DDIO_OFF, PLACEMENT_BYPASS],
  ['through them', DDIO_ON, PLACEMENT_THROUGH],
] as const

/** A region whose last slot lies across the end of the first page, behind that many lines. */
interface Straddling {
  readonly lines: number
  readonly slots: number
  readonly capacity: number
  readonly before: number
}

/** Slots of two lines and more of which one lies across the end of a page. */
function straddling(most: number): Straddling[] {
  const found: Straddling[] = []
  for (let lines = 2; lines <= most; lines++) {
    const before = (PAGE / LINE) % lines
    const slots = Math.floor(PAGE / LINE / lines) + 1
    if (before > 0) found.push({ lines, slots, capacity: (lines - 1) * LINE, before })
  }
  return found
}

/** Stores a record in every copy; the statuses of its acknowledgements. */
function persist(made: Placed, slot: number, data: Uint8Array): number[] {
  const { card, region, qp, agent } = made
  const sent: Sent[] = [...card.serve(...persistFrames(qp, region, slot, data, { wait: 2 }))]
  for (let i = 0; agent !== null && i < 12; i++) {
    agent.poll()
    card.sent = []
    card.idle()
    sent.push(...card.sent)
  }
  return statusesOf(sent)
}

function statusesOf(sent: readonly Sent[]): number[] {
  return sent.flatMap(({ paeth }) => (paeth === null ? [] : [paeth.status]))
}

/** What both copies of a record, and the record, read as. */
function shown(card: TestCard, slot: number, length: number): (Uint8Array | null)[] {
  const [region, qp] = [card.open(), card.connect()]
  const views = [VIEW_DATA, VIEW_FIRST_COPY, VIEW_FIRST_COPY + 1]
  return views.map((view) => {
    const header = view === VIEW_DATA ? 0 : LINE
    return card.read(qp, region, slot, view, length, header)
  })
}

describe.each(WAYS)(
  'S1-M6: a record across the edge of two pieces, %s',
  (_, platform, placement) => {
    test('is stored and found again: behind the header, before the last line, between', () => {
      const edges = new Set<number>()
      for (const { lines, slots, capacity, before } of straddling(33)) {
        const what = `${lines} lines, the edge behind ${before}`
        const made = placedInPieces(platform, SCATTERED, { slots, capacity })
        const slot = slots - 1
        const data = dataOf(capacity, lines)
        expect(persist(made, slot, data), what).toEqual([0])
        edges.add(before)
        const area = Math.ceil((slots * lines * LINE) / PAGE) * PAGE
        cutPower(made, NOTHING)
        for (const copy of [0, 1]) {
          const at = HOST_DATA_AT + copy * area + slot * lines * LINE + LINE
          const lies = bytesIn(made.host.part.durable, SCATTERED, at, capacity)
          expect(Buffer.compare(lies, data), `${what}, copy ${copy}`).toBe(0)
        }
        const next = restarted(made)
        expect(shown(next, slot, capacity), what).toEqual([data, data, data])
      }
      expect([...edges].sort((a, b) => a - b)).toEqual([
        ...[1, 2, 4, 6, 7, 8, 9, 10, 12],
        ...[13, 14, 16, 18, 20, 31],
      ])
    })

    test('nothing is stored elsewhere in the memory of the host', () => {
      const made = placedInPieces(platform, SCATTERED, { slots: 22, capacity: 128 })
      const pages = new Set(SCATTERED.map(([page]) => page))
      made.host.part.live.fill(0xa5)
      for (const [page] of SCATTERED) made.host.part.live.fill(0, page * PAGE, (page + 1) * PAGE)
      made.host.part.durable.set(made.host.part.live)
      const next = { ...made, card: restarted(made) }
      const agent = showPieces(next.card, SCATTERED, placement)
      if (agent !== null) work(next.card, agent)
      for (let slot = 0; slot < 22; slot++)
        persist({ ...next, qp: next.card.connect(), agent }, slot, dataOf(128, slot))
      for (let at = 0; at < made.host.part.bytes; at++) {
        if (pages.has(Math.floor(at / PAGE))) continue
        if (next.card.host!.part.live[at] !== 0xa5) expect(at, 'was written').toBe(-1)
      }
    })

    test('a copy of which either side has decayed is mended from the other', () => {
      for (const side of [0, 1]) {
        for (const copy of [0, 1]) {
          const made = placedInPieces(platform, SCATTERED, { slots: 22, capacity: 128 })
          const data = dataOf(128, 7)
          expect(persist(made, 21, data)).toEqual([0])
          cutPower(made, NOTHING)
          const at = HOST_DATA_AT + copy * 2 * PAGE + 21 * 192 + side * LINE
          made.host.part.poison(placeIn(SCATTERED, at) / LINE)
          const next = restarted(made)
          const agent = showPieces(next, SCATTERED, placement)
          if (agent !== null) work(next, agent)
          next.scan(1)
          if (agent !== null) work(next, agent)
          expect(shown(next, 21, 128), `side ${side} of copy ${copy}`).toEqual([data, data, data])
        }
      }
    })
  },
)

const EDGE = { slots: 22, capacity: 128 }
const OLD = dataOf(128, 1)
/** Other in two words of 8 bytes, so that few images have to be looked at. */
const FRESH = OLD.map((byte, i) => (i >= 56 && i < 72 ? ~byte : byte))

/** A record behind whose header a piece ends, stored once. */
function stored(platform: Platform): Placed {
  const made = placedInPieces(platform, SCATTERED, EDGE)
  persist(made, 21, OLD)
  return made
}

/** It is stored again. */
function storeAgain({ qp, region, agent }: Placed, card: TestCard): Sent[] {
  const sent = card.serve(...persistFrames(qp, region, 21, FRESH))
  card.sent = []
  if (agent !== null) work(card, agent)
  else card.idle()
  return [...sent, ...card.sent]
}

/** Which of the two it is behind a start: whole, and the new one if that was acknowledged. */
function judge(card: TestCard, sent: readonly Sent[], what: string): string {
  const found = card.read(card.connect(), card.open(), 21, VIEW_DATA, 128)
  const is = (one: Uint8Array): boolean => found !== null && Buffer.compare(found, one) === 0
  const said = is(FRESH) ? 'new' : is(OLD) ? 'old' : 'other'
  expect(['old', 'new'], what).toContain(said)
  if (statusesOf(sent).includes(0)) expect(said, what).toBe('new')
  return said
}

test.each(WAYS)('S1-M6: nothing survives of a cut but what is durable, %s', (_, platform) => {
  const seen: string[] = []
  for (let command = 0, ended = false; !ended; command++) {
    const made = stored(platform)
    made.card.machine.armCut(command)
    const sent = storeAgain(made, made.card)
    ended = !made.card.machine.dead
    cutPower(made, NOTHING)
    seen.push(judge(restarted(made), ended ? sent : [], `command ${command}`))
  }
  expect(seen[0]).toBe('old')
  expect(seen.at(-1)).toBe('new')
})

test.each(WAYS)(
  'S1-M6: a record across an edge is whole, whatever survives, %s',
  THOROUGH,
  (_, platform) => {
    const seen = new Set<string>()
    explorePlaced(
      { begin: () => stored(platform), during: storeAgain },
      ({ card, sent, command, image }) => {
        seen.add(judge(card, sent, `command ${command}, ${image}`))
      },
    )
    expect([...seen].sort()).toEqual(['new', 'old'])
  },
)

describe('S1-M6: other pieces', () => {
  const HELD: Table = [
    [9, 1],
    [3, 2],
    [14, 2],
    [6, 1],
  ]
  const DATA = dataOf(64, 3)

  /** A region in all but the last of these pieces. */
  function held(): Placed {
    const made = placedInPieces(DDIO_OFF, HELD, { slots: 64, capacity: 64 })
    expect(persist(made, 40, DATA)).toEqual([0])
    return made
  }

  /** The region is there as it was, and so is everything that the part and the host hold. */
  function isAsItWas(made: Placed, work_: () => void): void {
    const before = [made.card.nvdimm.durable.slice(), made.host.part.live.slice()] as const
    work_()
    expect(Buffer.compare(made.card.nvdimm.durable, before[0])).toBe(0)
    expect(Buffer.compare(made.host.part.live, before[1])).toBe(0)
    expect(shown(made.card, 40, 64)).toEqual([DATA, DATA, DATA])
    expect(persist({ ...made, qp: made.card.connect() }, 41, DATA)).toEqual([0])
  }

  test('that there cannot be are refused, and nothing has changed', () => {
    const WRONG: readonly Table[] = [
      [...HELD, [9, 1]],
      [...HELD, [4, 1]],
      [...HELD, [13, 2]],
      [...HELD, [20, 0]],
      [...HELD, [31, 2]],
      [...HELD, [32, 1]],
      [...HELD, [0xffffffff, 1]],
      [...HELD, [20, 0xffffffff]],
      Array.from({ length: 17 }, (_, i) => [i, 1] as const),
    ]
    const made = held()
    for (const table of WRONG) {
      isAsItWas(made, () => expect(statePieces(made.card, table).fault).toBe('REQUEST'))
    }
  })

  test('by which a region would lie elsewhere are refused, and nothing has changed', () => {
    const made = held()
    const used = HELD.slice(0, 3)
    let refused = 0
    for (const order of permutations(HELD.length)) {
      const table = order.map((i) => HELD[i]!)
      const keeps = used.every((piece, i) => table[i] === piece)
      if (keeps) continue
      refused += 1
      isAsItWas(made, () => expect(statePieces(made.card, table).fault, `${order}`).toBe('PIECES'))
    }
    expect(refused).toBe(23)
    const others: Table[] = [
      used.slice(0, 2),
      [
        [9, 1],
        [3, 2],
        [14, 1],
      ],
      [
        [9, 1],
        [3, 2],
        [15, 1],
        [14, 1],
      ],
      [
        [10, 1],
        [3, 2],
        [14, 2],
      ],
      [[0, 32]],
    ]
    for (const table of others) {
      isAsItWas(made, () => expect(statePieces(made.card, table).fault).toBe('PIECES'))
    }
  })

  test('take their place where every region lies where it lay', () => {
    const made = held()
    const fine: Table[] = [
      HELD.slice(0, 3),
      [
        [9, 1],
        [3, 1],
        [4, 1],
        [14, 2],
        [20, 8],
      ],
      [
        [9, 1],
        [3, 2],
        [14, 9],
      ],
    ]
    for (const table of fine) {
      expect(statePieces(made.card, table)).toEqual({ fault: 'PASS', holds: table })
      // Another table has to be shown again.
      expect(made.card.tryProvision({ name: 'more', placement: PLACEMENT_BYPASS }).fault).toBe(
        'PLACEMENT_UNKNOWN',
      )
      expect(shown(made.card, 40, 64)).toEqual([DATA, DATA, DATA])
    }
    showPieces(made.card, fine[2]!, PLACEMENT_BYPASS)
    const more = made.card.provision({ name: 'more', slots: 2, placement: PLACEMENT_BYPASS })
    expect(persist({ ...made, region: more, qp: made.card.connect() }, 0, DATA)).toEqual([0])
    expect(shown(restarted(made), 40, 64)).toEqual([DATA, DATA, DATA])
  })

  test('hold behind a start, and the host states them before it may probe', () => {
    const made = held()
    cutPower(made, NOTHING)
    const next = restarted(made)
    expect(shown(next, 40, 64)).toEqual([DATA, DATA, DATA])
    const probe = (): string => probePieces(next, HELD)
    expect(probe()).toBe('PIECES')
    // To ask is not to state.
    expect(statePieces(next, [])).toEqual({ fault: 'PASS', holds: HELD })
    expect(probe()).toBe('PIECES')
    expect(statePieces(next, [HELD[1]!, HELD[0]!, HELD[2]!, HELD[3]!]).fault).toBe('PIECES')
    expect(probe()).toBe('PIECES')
    showPieces(next, HELD, PLACEMENT_BYPASS)
    expect(
      persist({ ...made, card: next, region: next.open(), qp: next.connect() }, 1, DATA),
    ).toEqual([0])
  })

  test('are those that the probe names, whoever has stated others meanwhile', () => {
    const ours: Table = [
      [0, 3],
      [9, 2],
    ]
    const others: Table[] = [
      [
        [0, 3],
        [20, 2],
      ],
      [[0, 3]],
      [...ours, [20, 1]],
    ]
    const whole: Table = [[0, 32]]
    const host = held().host
    const card = cardOf(1 << 16, host).format()
    // Without any: the window, said or not.
    expect([[], whole].map((table) => probePieces(card, table))).toEqual(['PASS', 'PASS'])
    expect([ours, [[0, 31]] as Table].map((one) => probePieces(card, one))).toEqual([
      'PIECES',
      'PIECES',
    ])
    for (const other of others) {
      expect(statePieces(card, ours).fault).toBe('PASS')
      // What an earlier registrar has stated arrives late, or comes from somebody else.
      expect(statePieces(card, other).fault).toBe('PASS')
      for (const wrong of [ours, [], whole]) expect(probePieces(card, wrong)).toBe('PIECES')
      expect(probePieces(card, other)).toBe('PASS')
    }
    const tooMany = Array.from({ length: 17 }, (_, i) => [i, 1] as const)
    expect(probePieces(card, tooMany)).toBe('PIECES')
    expect(statePieces(card, whole).fault).toBe('PASS')
    expect([ours, [], whole].map((one) => probePieces(card, one))).toEqual([
      'PIECES',
      'PASS',
      'PASS',
    ])
  })

  test('in each life of the host they are stated again', () => {
    const made = placedInPieces(DDIO_ON, SCATTERED, { slots: 22, capacity: 128 })
    restartHost(made.card)
    expect(probePieces(made.card, SCATTERED)).toBe('PIECES')
    const agent = showPieces(made.card, SCATTERED, PLACEMENT_THROUGH)
    work(made.card, agent!)
    const again = { ...made, qp: made.card.connect(), agent }
    expect(persist(again, 21, dataOf(128, 5))).toEqual([0])
  })

  test('a window that lacks one is too small for the part, which is not written', () => {
    const made = held()
    cutPower(made, NOTHING)
    const before = made.card.nvdimm.durable.slice()
    for (const [pages, fault] of [
      [15, 'TRUNCATED'],
      [4, 'TRUNCATED'],
    ] as const) {
      const next = restartedInWindow(made, pages)
      expect(next.status()[mad.PART_STATE], fault).toBe(mad.STATE_REFUSED)
      expect(Buffer.compare(made.card.nvdimm.durable, before)).toBe(0)
    }
    expect(shown(restartedInWindow(made, 16), 40, 64)).toEqual([DATA, DATA, DATA])
  })

  test('the part says by its version that there are some, and says so no more without', () => {
    const host = held().host
    const card = cardOf(1 << 16, host).format()
    const version = (): number =>
      new DataView(card.status().buffer).getUint32(mad.PART_FORMAT_VERSION)
    expect(version()).toBe(3)
    expect(statePieces(card, [[0, 32]])).toEqual({ fault: 'PASS', holds: [[0, 32]] })
    expect(version()).toBe(3)
    expect(statePieces(card, HELD).fault).toBe('PASS')
    expect(version()).toBe(4)
    expect(statePieces(card, [[0, 32]]).fault).toBe('PASS')
    expect(version()).toBe(3)
  })

  test('without memory of a host there are none', () => {
    expect(statePieces(new TestCard(1 << 16).format(), []).fault).toBe('PLACEMENT_UNKNOWN')
  })

  test('wait for the room of a region that was removed', () => {
    const made = held()
    cutPower(made, NOTHING)
    const next = restarted(made)
    next.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (request) => {
      request.set(new TextEncoder().encode('records'), mad.REGION_NAME)
    })
    const others: Table = [[20, 4]]
    expect(statePieces(next, others).fault).toBe('PIECES')
    showPieces(next, HELD, PLACEMENT_BYPASS)
    for (let i = 0; i < 100; i++) next.idle()
    expect(statePieces(next, others)).toEqual({ fault: 'PASS', holds: others })
  })

  test('wait while the room of a region is cleared', () => {
    const table: Table = [
      [9, 1],
      [64, 200],
    ]
    const others: Table = [...table, [12, 4]]
    const host = new HostMemory({ part: new Nvdimm({ bytes: 300 * PAGE }), platform: DDIO_OFF })
    const card = cardOf(1 << 16, host).format()
    showPieces(card, table, PLACEMENT_BYPASS)
    card.provision({ slots: 3000, placement: PLACEMENT_BYPASS })
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (request) => {
      request.set(new TextEncoder().encode('records'), mad.REGION_NAME)
    })
    card.idle()
    expect(statePieces(card, others).fault).toBe('UNDER_WAY')
    expect(statePieces(card, []).holds).toEqual(table)
    for (let i = 0; i < 100; i++) card.idle()
    expect(statePieces(card, others)).toEqual({ fault: 'PASS', holds: others })
  })

  test('have nothing to do with the regions of the part itself', () => {
    const made = held()
    const { card } = made
    const own = card.provision({ name: 'own', slots: 128, capacity: 64 })
    expect(persist({ ...made, region: own, qp: card.connect() }, 100, DATA)).toEqual([0])
    const others: Table = [...HELD.slice(0, 3), [20, 1]]
    expect(statePieces(card, others)).toEqual({ fault: 'PASS', holds: others })
    expect(card.read(card.connect(), own, 100, VIEW_DATA, 64)).toEqual(DATA)
  })

  test('are refused by a part that is closed, or has no save energy', () => {
    const others: Table = [...HELD, [20, 1]]
    const unarmed = held()
    unarmed.card.nvdimm.armed = false
    expect(statePieces(unarmed.card, others).fault).toBe('NOT_ARMED')
    unarmed.card.nvdimm.armed = true
    expect(statePieces(unarmed.card, others).fault).toBe('PASS')
    const closed = held()
    failFence(closed.card, 1)
    expect(persist(closed, 41, DATA)).not.toContain(0)
    expect(statePieces(closed.card, others).fault).toBe('FLUSH')
    expect(statePieces(closed.card, []).holds).toEqual(HELD)
    expect(shown(closed.card, 40, 64)).toEqual([DATA, DATA, DATA])
  })

  test('that the board cannot show at a start are none: nothing of the host is believed', () => {
    const made = held()
    cutPower(made, NOTHING)
    const before = made.card.nvdimm.durable.slice()
    const refuse = (_: number, op: number): number => (op === ARRANGE ? NO_OPERATION : op)
    const broken = restarted(made, { replace: refuse })
    expect(broken.status()[mad.PART_STATE]).toBe(mad.STATE_REFUSED)
    expect(Buffer.compare(made.card.nvdimm.durable, before)).toBe(0)
    expect(shown(restarted(made), 40, 64)).toEqual([DATA, DATA, DATA])
  })

  test('wait for a region that is being made', () => {
    const table: Table = [
      [9, 1],
      [64, 200],
      [12, 4],
    ]
    const host = new HostMemory({ part: new Nvdimm({ bytes: 300 * PAGE }), platform: DDIO_OFF })
    const card = cardOf(1 << 16, host).format()
    showPieces(card, table, PLACEMENT_BYPASS)
    const shape = { slots: 3000, placement: PLACEMENT_BYPASS }
    expect(card.tryProvision(shape).fault).toBe('UNDER_WAY')
    for (const other of [[table[0]!, [65, 200]], [table[0]!, [64, 2]], [[9, 1]]] as Table[]) {
      expect(statePieces(card, other).fault).toBe('PIECES')
    }
    card.provision(shape)
    expect(shown(card, 2999, 64)).toEqual([0, 1, 2].map(() => new Uint8Array(64)))
  })
})

describe('S1-M6: an agent over other pieces than the card’s', () => {
  /** The first one lies where it would lie without a list: of that the number of the probe is. */
  const OURS: Table = [
    [0, 1],
    [9, 2],
    [14, 2],
    [6, 1],
  ]
  const WHOLE: Table = [[0, 32]]

  /** Every way to be wrong with that list. */
  function wrongTables(): Map<string, Table> {
    const wrong = new Map<string, Table>([
      ['none', []],
      ['the whole window', WHOLE],
      ['one more', [...OURS, [20, 1]]],
      ['one empty one more', [...OURS, [20, 0]]],
      ['one twice', [...OURS, OURS[3]!]],
      ['17', [...OURS, ...Array.from({ length: 13 }, (_, i) => [17 + i, 1] as const)]],
    ])
    for (let count = 1; count < OURS.length; count++) {
      wrong.set(`the first ${count}`, OURS.slice(0, count))
      wrong.set(`all but the first ${count}`, OURS.slice(count))
    }
    OURS.forEach(([page, pages], i) => {
      const others: Table = [
        [page + 1, pages],
        [page + 16, pages],
        [page, pages + 1],
      ]
      for (const [at, count] of others) {
        const what = `piece ${i} as ${count} of page ${at}`
        wrong.set(what, [...OURS.slice(0, i), [at, count], ...OURS.slice(i + 1)])
      }
      wrong.set(`without piece ${i}`, [...OURS.slice(0, i), ...OURS.slice(i + 1)])
    })
    for (const order of permutations(OURS.length)) {
      if (order.some((place, i) => place !== i)) {
        wrong.set(
          `in the order ${order}`,
          order.map((i) => OURS[i]!),
        )
      }
    }
    return wrong
  }

  /** An agent whose memory lies in these pieces comes, with the number of the probe. */
  function attachOver(
    card: TestCard,
    { queues }: Agent,
    table: Table,
  ): { agent: Agent | null; fault: string } {
    const side = hostSideOf(card)
    const places = table.length === 0 ? WHOLE : table
    const clean = (at: number, length: number): void => {
      for (let from = at; from < at + length; from += LINE) {
        const place = placeIn(places, from)
        // What no piece has it leaves out.
        if (!Number.isNaN(place)) side.clean(place, LINE)
      }
    }
    const memory = { ...side, clean }
    const naming = { ...memory, pieces: piecesOf(table) }
    const request = agentRequest(mad.AGENT_ATTACH, queues.sendQueue, naming)
    const { fault, body } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_AGENT, request)
    if (fault !== 'PASS') return { agent: null, fault }
    const agent = new Agent(card, queues, memory)
    agent.begin(u32(body, mad.AGENT_FIRST_REQUEST))
    return { agent, fault }
  }

  test('is refused, and the one before it goes on: no record is acknowledged and lost', () => {
    const data = dataOf(128, 5)
    for (const [what, table] of wrongTables()) {
      const made = placedInPieces(DDIO_ON, OURS, { slots: 22, capacity: 128 })
      const { agent, fault } = attachOver(made.card, made.agent!, table)
      const statuses = persist({ ...made, agent: agent ?? made.agent }, 21, data)
      cutPower(made, NOTHING)
      const found = shown(restarted(made), 21, 128).map((bytes) =>
        bytes !== null && Buffer.compare(bytes, data) === 0 ? 'whole' : 'lost',
      )
      expect({ fault, statuses, found }, what).toEqual({
        fault: 'PIECES',
        statuses: [0],
        found: ['whole', 'whole', 'whole'],
      })
    }
  })

  test('is refused where no other one is, and nothing is asked of it', () => {
    const made = placedInPieces(DDIO_ON, OURS, { slots: 22, capacity: 128 })
    tellAgent(made.card, mad.AGENT_DETACH, made.agent!.queues.sendQueue)
    for (const [what, table] of wrongTables()) {
      expect(attachOver(made.card, made.agent!, table).fault, what).toBe('PIECES')
      expect(persist({ ...made, agent: null }, 21, dataOf(128, 5)), what).toEqual([NO_AGENT])
    }
    const { agent } = attachOver(made.card, made.agent!, OURS)
    expect(persist({ ...made, agent }, 21, dataOf(128, 5))).toEqual([0])
  })

  test('is refused whatever it counts, and by its number before that', () => {
    const { card, agent } = placedInPieces(DDIO_ON, OURS, { slots: 22, capacity: 128 })
    const side = { ...hostSideOf(card), pieces: piecesOf(OURS) }
    const ask = (at: number, value: number): string => {
      const request = agentRequest(mad.AGENT_ATTACH, agent!.queues.sendQueue, side)
      return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_AGENT, (body) => {
        request(body)
        putU32(body, at, value)
      }).fault
    }
    const count = mad.AGENT_PIECES + mad.PIECES_COUNT
    for (const wrong of [0, 1, 3, 5, 16, 17, 2 ** 31, 2 ** 32 - 1]) {
      expect(ask(count, wrong), `${wrong}`).toBe('PIECES')
    }
    expect(ask(mad.AGENT_NUMBER_LOW, 0)).toBe('PLACEMENT_UNKNOWN')
    expect(ask(count, OURS.length)).toBe('PASS')
  })

  test('is refused behind another list, and so is one over the list before', () => {
    const made = placedInPieces(DDIO_ON, OURS, { slots: 22, capacity: 128 })
    const more: Table = [...OURS, [20, 1]]
    const attach = (table: Table): string => attachOver(made.card, made.agent!, table).fault
    expect(statePieces(made.card, more).fault).toBe('PASS')
    // What the host has shown ended with the list, and so did its agent.
    expect([OURS, more].map(attach)).toEqual(['PLACEMENT_UNKNOWN', 'PLACEMENT_UNKNOWN'])
    showPieces(made.card, more, PLACEMENT_THROUGH)
    expect([OURS, [], more].map((table) => attach(table as Table))).toEqual([
      ...['PIECES', 'PIECES', 'PASS'],
    ])
  })

  test('is told by the window where no list is stated: one of an older driver names none', () => {
    const { card, agent } = placed(DDIO_ON)
    const attach = (table: Table): string => attachOver(card, agent!, table).fault
    const pages = card.host!.part.bytes / PAGE
    for (const table of [[], [[0, pages]]] as Table[]) expect(attach(table)).toBe('PASS')
    const others: Table[] = [
      OURS,
      [[0, pages - 1]],
      [[0, pages + 1]],
      [[1, pages - 1]],
      [
        [0, 1],
        [1, pages - 1],
      ],
    ]
    for (const table of others) expect(attach(table), `${table}`).toBe('PIECES')
    // One piece is a list, too, if it is not all of the window.
    const made = placedInPieces(DDIO_ON, [[0, 16]], { slots: 22, capacity: 128 })
    expect(attachOver(made.card, made.agent!, []).fault).toBe('PIECES')
    expect(attachOver(made.card, made.agent!, [[0, 16]]).fault).toBe('PASS')
  })
})

test('S1-M6: cut at every command of the call, either list holds, and no record is lost', () => {
  const before: Table = [
    [9, 1],
    [3, 2],
    [14, 2],
  ]
  const after: Table = [
    [9, 1],
    [3, 2],
    [14, 4],
    [1, 2],
  ]
  const data = dataOf(64, 3)
  const seen = new Set<number>()
  for (let command = 0, ended = false; !ended; command++) {
    const made = placedInPieces(DDIO_OFF, before, { slots: 64, capacity: 64 })
    persist(made, 40, data)
    made.card.machine.armCut(command)
    try {
      statePieces(made.card, after)
    } catch {
      // Without power nobody answers.
    }
    ended = !made.card.machine.dead
    made.card.machine.die()
    images(made.card.nvdimm, 'chunk', () => {
      const next = restarted(made)
      const { holds } = statePieces(next, [])
      expect([before, after], `command ${command}`).toContainEqual(holds)
      seen.add(holds.length)
      expect(shown(next, 40, 64)).toEqual([data, data, data])
    })
  }
  expect([...seen].sort()).toEqual([3, 4])
})

test('S1-M6: a page of the superblock that takes nothing leaves the pieces as they were', () => {
  const before: Table = [
    [9, 1],
    [3, 2],
    [14, 2],
  ]
  for (const page of [0, 1]) {
    const made = placedInPieces(DDIO_OFF, before, { slots: 64, capacity: 64 })
    persist(made, 40, dataOf(64, 3))
    made.card.nvdimm.refuseWrites((page * PAGE) / LINE)
    expect(statePieces(made.card, [...before, [20, 4]]).fault).toBe('SUPERBLOCK')
    expect(statePieces(made.card, []).holds).toEqual(before)
    const all = [dataOf(64, 3), dataOf(64, 3), dataOf(64, 3)]
    expect(shown(made.card, 40, 64)).toEqual(all)
    expect(shown(restarted(made), 40, 64)).toEqual(all)
  }
})

test('S1-M6: of a board that cannot go back to the pieces before nothing is proven', () => {
  const before: Table = [
    [9, 1],
    [3, 2],
    [14, 2],
  ]
  const made = placedInPieces(DDIO_OFF, before, { slots: 64, capacity: 64 })
  const { card } = made
  const data = dataOf(64, 3)
  persist(made, 40, data)
  card.nvdimm.refuseWrites(PAGE / LINE)
  let arranged = 0
  card.machine.observe({
    replace: (_, op) => (op === ARRANGE && ++arranged > 1 ? NO_OPERATION : op),
  })
  expect(statePieces(card, [...before, [20, 4]]).fault).toBe('SUPERBLOCK')
  expect(arranged).toBe(2)
  card.machine.observe({})
  expect(shown(card, 40, 64)).toEqual([data, data, data])
  expect(persist({ ...made, qp: card.connect() }, 40, dataOf(64, 4))).not.toContain(0)
  expect(statePieces(card, before)).toEqual({ fault: 'PASS', holds: before })
  expect(probePieces(card, before)).toBe('PLACEMENT_UNKNOWN')
})

function permutations(count: number): number[][] {
  if (count === 0) return [[]]
  return permutations(count - 1).flatMap((rest) =>
    Array.from({ length: count }, (_, i) => [...rest.slice(0, i), count - 1, ...rest.slice(i)]),
  )
}
