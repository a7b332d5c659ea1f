/**
 * What goes through the host's caches, and the host's medium takes no more of it, gives it back no
 * more, or is another one; and the card's own part, whose fences fail meanwhile (crash-model 4.4;
 * P1-11, D-13, B1, B4).
 *
 * Invariant: who was promised something finds it; who was not hears that it is in doubt. A
 * record that could not be made whole is unsettled by name, and the next start settles it.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import type { AccessFault } from '../../../boards/emulator/host/pcie.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { FLUSH_BYTES_MAX, LANES, LINE_BYTES } from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { HOST_DATA_AT, PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_QUERY } from '../../../firmware/wire/opcode.ts'
import { STATUS_DURABLE } from '../../../firmware/wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../../../firmware/wire/persist-query.ts'
import { countFences } from '../../support/cards/fences.ts'
import {
  type Agent,
  agentOfNewHost,
  attachedAgent,
  believe,
  cardOf,
  cutPower,
  type Placed,
  placed,
  restarted,
  restartedAlone,
  restartHost,
  SEED,
  tellAgent,
  work,
} from '../../support/cards/placed.ts'
import {
  ackStatuses,
  dataOf,
  persistFrames,
  type Sent,
  type TestCard,
} from '../../support/cards/test-card.ts'
import { frameOf } from '../../support/wire/frames.ts'

const CLIENT = 7
const STATUS_IN_DOUBT = 0x8f
const STATUS_NO_AGENT = 0x91
const STATUS_READ_ONLY = 0x8b
const PAGE_BYTES = 4096
const [OLD, NEW] = [dataOf(64, 1), dataOf(64, 2)]

/** Nothing that was not durable survives. */
const NOTHING = { random: new Random(SEED), strategy: 'none' } as const

/** What readers are shown of the record: NEW, OLD, something else, or nothing. */
function shown(card: TestCard, record = 0, name = 'records'): string {
  const bytes = card.read(card.connect(), card.open(name), record, VIEW_DATA, 64)
  if (bytes === null) return 'refused'
  const is = (other: Uint8Array): boolean => Buffer.compare(bytes, other) === 0
  return is(NEW) ? 'new' : is(OLD) ? 'old' : 'other'
}

function faultOf(card: TestCard): string {
  return FAULTS[card.status()[mad.PART_FAULT]!]!.name
}

/** Card and agent, step by step, until the agent has rung so often; what the card says. */
function steps({ card, agent }: Pick<Placed, 'card' | 'agent'>, bells: number): number[] {
  const sent: Sent[] = []
  for (let i = 0; i < bells; i++) {
    agent!.poll()
    for (let turn = 0; turn < 2; turn++) {
      card.sent = []
      card.idle()
      sent.push(...card.sent)
    }
  }
  return ackStatuses(sent)
}

/** The lines of copy `c` of a record, by number in the host's memory. */
function linesOf({ region }: Pick<Placed, 'region'>, c: number, record = 0): number[] {
  const area = Math.ceil((region.slots * region.stride) / PAGE_BYTES) * PAGE_BYTES
  const first = (HOST_DATA_AT + c * area + record * region.stride) / LINE_BYTES
  return Array.from({ length: region.stride / LINE_BYTES }, (_, i) => first + i)
}

/** The host's medium takes nothing more into copy `c`; or it does again. */
function refuse(made: Pick<Placed, 'host' | 'region'>, c: number, refuses = true): void {
  for (const line of linesOf(made, c)) made.host.part.refuseWrites(line, refuses)
}

/** Record 0 is OLD in every copy. */
function begun(): Placed {
  const made = placed(DDIO_ON)
  const { card, region, agent } = made
  const qp = card.connect(4096, 0, CLIENT)
  card.serve(...persistFrames(qp, region, 0, OLD))
  work(card, agent!)
  return { ...made, qp }
}

/** A record is taken, and becomes durable. */
function takes(card: TestCard, agent: Agent, record: number, name = 'records'): void {
  work(card, agent)
  const sent = card.serve(...persistFrames(card.connect(), card.open(name), record, OLD))
  expect([...ackStatuses(sent), ...steps({ card, agent }, 4)]).toEqual([STATUS_DURABLE])
}

/** The power goes, the medium is as it should be, and the start settles all: what is shown then. */
function settledByStart(made: Placed): string {
  for (const c of [0, 1]) refuse(made, c, false)
  cutPower(made, NOTHING)
  const next = restarted(made)
  const agent = agentOfNewHost(next)
  work(next, agent)
  expect(next.open().unsettled).toBe(0)
  takes(next, agent, 1)
  return shown(next)
}

describe('P1-11: the host’s medium refuses a record', () => {
  test('in its first copy: in doubt, the old one is shown, and stays', () => {
    const made = begun()
    const { card, region, qp } = made
    refuse(made, 0)
    const sent = card.serve(...persistFrames(qp, region, 0, NEW))
    expect([...ackStatuses(sent), ...steps(made, 3)]).toEqual([STATUS_IN_DOUBT])
    expect(shown(card)).toBe('old')
    expect(card.open().unsettled).toBe(1)
    expect(faultOf(card)).toBe('PASS')
    expect(settledByStart(made)).toBe('old')
  })

  test.each([
    { wait: 1, told: STATUS_DURABLE },
    { wait: 2, told: STATUS_IN_DOUBT },
  ])('in its second copy, at level $wait: the new one is shown, and stays', ({ wait, told }) => {
    const made = begun()
    const { card, region, qp } = made
    refuse(made, 1)
    card.serve(...persistFrames(qp, region, 0, NEW, { wait }))
    expect(steps(made, 3)).toEqual([told])
    expect(shown(card)).toBe('new')
    expect(card.open().unsettled).toBe(1)
    expect(faultOf(card)).toBe('PASS')
    expect(settledByStart(made)).toBe('new')
  })
})

/** A start has made record 0 NEW in its first copy; what it wrote of the second is in no medium. */
function repairing(part?: 'cleared'): Placed {
  const made = begun()
  const { card, region, qp } = made
  card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 }))
  expect(steps(made, 1)).toEqual([STATUS_DURABLE])
  cutPower(made, NOTHING)
  const next = restarted(made)
  restartHost(next, part === undefined ? {} : { part })
  return { ...made, card: next, host: next.host! }
}

describe('the host restarts behind a start of its card, before an agent came', () => {
  test('B1: the repair is made again, and lasts', () => {
    const made = repairing()
    const { card } = made
    work(card, agentOfNewHost(card))
    expect(shown(card)).toBe('new')
    expect(settledByStart(made)).toBe('new')
  })

  test('X-2: and the power of both goes once more: the lane still tells of the repair', () => {
    const made = repairing()
    cutPower(made, NOTHING)
    const next = restarted(made)
    work(next, agentOfNewHost(next))
    expect(shown(next)).toBe('new')
    // It is durable in both copies: the first may go.
    const both = { card: next, host: next.host! }
    cutPower(both, NOTHING)
    both.host.part.poison(linesOf(made, 0)[0]!)
    expect(shown(restarted(both))).toBe('new')
  })

  test('B4: and does not answer at first: the repair waits until it does', () => {
    const made = repairing()
    const { card } = made
    let asked = 0
    const agent = agentOfNewHost(card)
    card.host!.link.script = ({ kind, memory }) =>
      kind === 'read' && memory === 'persistent' && asked++ < 20 ? 'timeout' : undefined
    work(card, agent)
    expect(faultOf(card)).toBe('PASS')
    expect(agent.finished).toBe(0)
    for (let i = 0; i < 20; i++) steps({ card, agent }, 1)
    expect(agent.finished).toBe(2)
    expect(settledByStart(made)).toBe('new')
  })

  test('P1-11: and its medium refuses the repair: what was promised is shown, and stays', () => {
    const made = repairing()
    const { card } = made
    refuse(made, 1)
    work(card, agentOfNewHost(card))
    expect(shown(card)).toBe('new')
    expect(card.open().unsettled).toBe(1)
    expect(faultOf(card)).toBe('PASS')
    expect(settledByStart(made)).toBe('new')
  })

  test('B1: as another one, whose memory is blank: the record is lost by name', () => {
    const made = repairing('cleared')
    const { card } = made
    work(card, agentOfNewHost(card))
    expect(shown(card)).toBe('refused')
    expect(card.open().unsettled).toBe(1)
    // For good: the next start finds it on the list.
    cutPower(made, NOTHING)
    const next = restarted(made)
    expect(next.open().unsettled).toBe(1)
    expect(shown(next)).toBe('refused')
  })

  test('D-13: likewise, and the fence of the list fails: the part closes', () => {
    const made = repairing('cleared')
    const { card } = made
    believe(card, PLACEMENT_THROUGH)
    card.nvdimm.fencesToFail = 1
    work(card, attachedAgent(card))
    expect(faultOf(card)).toBe('FLUSH')
    expect(shown(card)).toBe('refused')
    // Its lane has stayed, and the next start finds the same.
    cutPower(made, NOTHING)
    const next = restarted(made)
    expect(next.open().unsettled).toBe(1)
    expect(shown(next)).toBe('refused')
  })

  test('D-13: and the fence of the repair fails: the part closes; the next start repairs', () => {
    const made = repairing()
    const { card } = made
    believe(card, PLACEMENT_THROUGH)
    card.nvdimm.fencesToFail = 1
    work(card, attachedAgent(card))
    expect(faultOf(card)).toBe('FLUSH')
    expect(settledByStart(made)).toBe('new')
  })
})

const FRESH = { name: 'fresh', slots: 2, placement: PLACEMENT_THROUGH }

test('D-14: what waits behind a record that its medium has refused is refused at once', () => {
  const made = begun()
  const { card, region, qp } = made
  refuse(made, 0)
  const frames = [NEW, OLD, NEW].flatMap((data) => persistFrames(qp, region, 0, data))
  card.sent = []
  const sent = card.serve(...frames)
  card.sent = []
  card.idle()
  const said = ackStatuses([...sent, ...card.sent])
  expect(said).toEqual([STATUS_IN_DOUBT, STATUS_READ_ONLY, STATUS_READ_ONLY])
})

describe('a region is made through the caches of a host', () => {
  test('P1-11: whose medium refuses it: it takes nothing before another agent makes it', () => {
    const { card, host, region, agent } = placed(DDIO_ON)
    // It lies behind the region that is there.
    const lines = linesOf({ region }, region.copies)
    for (const line of lines) host.part.refuseWrites(line)
    card.provision(FRESH)
    work(card, agent!)
    expect(faultOf(card)).toBe('PASS')
    const sent = card.serve(...persistFrames(card.connect(), card.open('fresh'), 0, NEW))
    expect(ackStatuses(sent)).toEqual([STATUS_NO_AGENT])
    for (const line of lines) host.part.refuseWrites(line, false)
    takes(card, attachedAgent(card), 0, 'fresh')
  })

  test('two that are stored again: each gets slices, and both are whole', () => {
    const { card } = placed(DDIO_ON)
    card.provision(FRESH)
    card.provision({ ...FRESH, name: 'other' })
    restartHost(card)
    const agent = agentOfNewHost(card)
    for (const name of ['fresh', 'other']) takes(card, agent, 1, name)
  })
})

test('B4: one copy has decayed, and a read of the other is not answered: nothing is lost', () => {
  const made = begun()
  const { card, region, qp } = made
  card.serve(...persistFrames(qp, region, 1, OLD))
  work(card, made.agent!)
  // Two repairs: the first one is asked for in the call in which the second one is looked at.
  card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 }))
  expect(steps(made, 1)).toEqual([STATUS_DURABLE])
  card.serve(...persistFrames(qp, region, 1, NEW))
  cutPower(made, NOTHING)
  const next = restarted(made)
  restartHost(next)
  next.host!.part.poison(linesOf(made, 0, 1)[0]!)
  const at = linesOf(made, 1, 1)[0]! * LINE_BYTES
  let asked = 0
  next.host!.link.script = ({ kind, memory, ...access }) =>
    kind === 'read' && memory === 'persistent' && access.at === at && asked++ < 4
      ? 'timeout'
      : undefined
  const agent = agentOfNewHost(next)
  for (let i = 0; i < 20; i++) steps({ card: next, agent }, 1)
  expect(next.open().unsettled).toBe(0)
  expect(asked).toBeGreaterThan(4)
  expect([shown(next), shown(next, 1)]).toEqual(['new', 'old'])
  takes(next, agent, 1)
})

/**
 * A start that could not read a lane has looked at every record, and the agent is to write all of
 * them back: they are looked at again before it is asked.
 */
function scanned(): Placed {
  const made = begun()
  // No lane is left that speaks of the record.
  cutPower(made, { random: new Random(SEED), strategy: 'all' })
  made.card.nvdimm.poison(LANES_AT / LINE_BYTES)
  const card = restarted(made)
  expect(card.open().unsettled).toBe(0)
  believe(card, PLACEMENT_THROUGH)
  return { ...made, card, host: card.host! }
}

describe('records decay between a start that scanned them and the agent', () => {
  test('in one copy: it is repaired, for good', () => {
    const made = scanned()
    const { card, host, region } = made
    host.part.poison(linesOf(made, 1)[0]!)
    const agent = attachedAgent(card)
    takes(card, agent, 1)
    // The first copy may go now.
    cutPower(made, NOTHING)
    host.part.poison(linesOf({ region }, 0)[0]!)
    expect(shown(restarted(made))).toBe('old')
  })

  test('in one copy, and the fence of its repair fails: the part closes, none is lost', () => {
    const made = scanned()
    const { card, host } = made
    host.part.poison(linesOf(made, 1)[0]!)
    card.nvdimm.fencesToFail = 1
    work(card, attachedAgent(card))
    expect(faultOf(card)).toBe('FLUSH')
    expect(settledByStart(made)).toBe('old')
  })

  test.each([
    { fences: 'hold', fencesToFail: 0, fault: 'PASS' },
    { fences: 'fail', fencesToFail: 1, fault: 'FLUSH' },
  ])('in both, and fences $fences: the record is lost by name', ({ fencesToFail, fault }) => {
    const made = scanned()
    const { card, host } = made
    for (const c of [0, 1]) host.part.poison(linesOf(made, c)[0]!)
    card.nvdimm.fencesToFail = fencesToFail
    work(card, attachedAgent(card))
    expect(faultOf(card)).toBe(fault)
    expect(card.open().unsettled).toBe(1)
    expect(shown(card)).toBe('refused')
    cutPower(made, NOTHING)
    const next = restarted(made)
    expect(next.open().unsettled).toBe(1)
    expect(shown(next)).toBe('refused')
    expect(shown(next, 1)).toBe('other')
  })

  test('B4: and the host does not answer at first: they are looked at when it does', () => {
    const made = scanned()
    const { card, host } = made
    host.part.poison(linesOf(made, 1)[0]!)
    let asked = 0
    host.link.script = ({ kind, memory }) =>
      kind === 'read' && memory === 'persistent' && asked++ < 20 ? 'timeout' : undefined
    const agent = attachedAgent(card)
    for (let i = 0; i < 20; i++) steps({ card, agent }, 1)
    expect(asked).toBeGreaterThan(20)
    takes(card, agent, 1)
    expect(settledByStart(made)).toBe('old')
  })
})

test('P1-11: where a region ends, no job that its medium refused says what its readers see', () => {
  const made = begun()
  const { card, region, qp, agent } = made
  refuse(made, 0)
  card.serve(...persistFrames(qp, region, 0, NEW))
  expect(shown(card)).toBe('old')
  refuse(made, 0, false)
  const { fault } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
    body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
  })
  expect(fault).toBe('PASS')
  for (let i = 0; i < 20; i++) card.idle()
  const next = card.provision({ slots: 2, placement: PLACEMENT_THROUGH })
  expect(next.unsettled).toBe(0)
  takes(card, agent!, 0)
  expect(shown(card)).toBe('old')
})

describe('R1-A2, H4: an access of the card to its host comes to nothing', () => {
  /** What the access of that number, from 0, comes to, while a record is written and flushed. */
  function withFault(
    number: number,
    fault: AccessFault,
  ): { found: string; heard: number[] } | null {
    const made = placed(DDIO_ON, { copies: 2 })
    const { card, host, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, OLD))
    work(card, made.agent!)
    let accesses = 0
    host.link.script = () => (accesses++ === number ? fault : undefined)
    const first = card.serve(...persistFrames(qp, region, 0, NEW, { wait: 2 }))
    const heard = [...ackStatuses(first), ...steps(made, 8)]
    host.link.script = null
    if (accesses <= number) return null
    host.link.restore()
    heard.push(...steps(made, 2))
    cutPower(made, NOTHING)
    const next = restarted(made)
    work(next, agentOfNewHost(next))
    return { found: shown(next), heard }
  }

  for (const fault of ['unsupported', 'timeout', 'removal'] as const) {
    test(`${fault}, each in turn: what is called durable is there, and the record is whole`, () => {
      const seen = new Set<string>()
      for (let number = 0, going = true; going; number++) {
        const came = withFault(number, fault)
        going = came !== null
        if (came === null) continue
        const isDurable = came.heard.includes(STATUS_DURABLE)
        expect(isDurable ? ['new'] : ['old', 'new'], `access ${number}`).toContain(came.found)
        seen.add(`${isDurable}`)
      }
      expect(seen.has('false')).toBe(true)
    })
  }
})

/** The lanes that the card's own part says are not clear. */
function lanesLeft({ nvdimm }: TestCard): number {
  const lanes = nvdimm.live.slice(LANES_AT, LANES_AT + LANES * LINE_BYTES)
  return lanes.reduce((count, byte, at) => count + (at % LINE_BYTES === 0 && byte !== 0 ? 1 : 0), 0)
}

/** Which addresses, behind the first region, the agent is asked to write back from now on. */
function asked(agent: Agent): number[] {
  const addresses: number[] = []
  agent.onFlushed = ({ address }) => addresses.push(address - HOST_DATA_AT)
  return addresses
}

describe('B1, H4: the agent is replaced behind some bells', () => {
  const both = [0, PAGE_BYTES]

  test.each([
    { bells: 0, again: both },
    { bells: 1, again: [PAGE_BYTES] },
  ])('of a record, $bells: its successor writes back what was not', ({ bells, again }) => {
    const made = begun()
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, NEW))
    steps(made, bells)
    const agent = attachedAgent(card)
    const addresses = asked(agent)
    expect(steps({ card, agent }, 4)).toEqual([STATUS_DURABLE])
    expect(addresses).toEqual(again)
    expect(settledByStart(made)).toBe('new')
  })

  test.each([0, 1])('of a repair, %i: its successor writes back all of it', (bells) => {
    const made = repairing()
    const { card } = made
    steps({ card, agent: agentOfNewHost(card) }, bells)
    const agent = attachedAgent(card)
    const addresses = asked(agent)
    steps({ card, agent }, 4)
    expect(addresses).toEqual(both)
    card.idle()
    expect(lanesLeft(card)).toBe(0)
    expect(settledByStart(made)).toBe('new')
  })

  test.each([0, 1])('of a region in two pieces, %i: likewise, and once', (bells) => {
    const part = new Nvdimm({ bytes: FLUSH_BYTES_MAX + (1 << 19) })
    const card = cardOf(1 << 16, new HostMemory({ part, platform: DDIO_ON })).format()
    const first = agentOfNewHost(card)
    card.provision({ slots: 32, capacity: 65536, placement: PLACEMENT_THROUGH })
    while (card.waitUs === 1) card.idle()
    steps({ card, agent: first }, bells)
    const agent = attachedAgent(card)
    const addresses = asked(agent)
    work(card, agent)
    expect(addresses).toEqual([0, FLUSH_BYTES_MAX])
    takes(card, agent, 31)
  })
})

test('a region of just one piece is written back in one', () => {
  const part = new Nvdimm({ bytes: FLUSH_BYTES_MAX + (1 << 16) })
  const card = cardOf(1 << 16, new HostMemory({ part, platform: DDIO_ON })).format()
  const agent = agentOfNewHost(card)
  const capacity = 65536 - LINE_BYTES
  const region = card.provision({ slots: 32, capacity, placement: PLACEMENT_THROUGH })
  expect(region.stride * region.slots * region.copies).toBe(FLUSH_BYTES_MAX)
  const addresses = asked(agent)
  work(card, agent)
  expect(addresses).toEqual([0])
  takes(card, agent, 31)
})

describe('a repair that the agent of the host makes durable', () => {
  /** What the card says of that operation of the client that wrote record 0. */
  function known(card: TestCard, operation: number): number[] {
    const qp = card.connect(4096, 0, CLIENT)
    const bth = { opcode: PERSIST_QUERY, destQp: qp.number, psn: qp.psn, ackRequest: true }
    return ackStatuses(card.serve(frameOf({ bth, pqeth: { operationLow: operation } })))
  }

  /** A start behind a cut; its host is there, and has an agent who has rung no bell. */
  function startedAgain(made: Placed): Placed {
    cutPower(made, NOTHING)
    const card = restarted(made)
    const agent = agentOfNewHost(card)
    card.idle()
    return { ...made, card, host: card.host!, agent }
  }

  /** Behind a write of which the agent has written both copies back. */
  function writtenBack(): Placed {
    const made = begun()
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, NEW))
    for (let bell = 0; bell < 2; bell++) {
      made.agent!.poll()
      card.serve()
    }
    return made
  }

  test('X-3: of what was known as durable: it stays so all the while', () => {
    const made = writtenBack()
    const { qp } = made
    const next = startedAgain(made)
    expect(lanesLeft(next.card)).toBe(1)
    expect(known(next.card, qp.operation)).toEqual([STATUS_DURABLE])
    work(next.card, next.agent!)
    expect(known(next.card, qp.operation)).toEqual([STATUS_DURABLE])
  })

  test('X-3: of what goes back: it is known no more, and executed when it comes again', () => {
    const made = begun()
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, NEW))
    const next = startedAgain(made)
    work(next.card, next.agent!)
    expect([shown(next.card), known(next.card, qp.operation)]).toEqual(['old', [QUERY_NOT_KNOWN]])
    const options = { operation: qp.operation, repetition: true }
    const later = next.card.connect(4096, 0, CLIENT)
    next.card.serve(...persistFrames(later, next.card.open(), 0, NEW, options))
    expect(steps(next, 4)).toEqual([STATUS_DURABLE])
    expect(shown(next.card)).toBe('new')
  })

  test('I6: of what goes back: it is not shown meanwhile, whatever its host loses', () => {
    const made = begun()
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, NEW))
    // Its first copy is durable, and nobody has said so.
    card.host!.clean(HOST_DATA_AT, region.stride)
    card.host!.fence()
    cutPower(made, NOTHING)
    const next = restartedAlone(made)
    const host = next.host!
    host.comeBack()
    const agent = agentOfNewHost(next)
    for (let i = 0; i < 4; i++) next.idle()
    expect(shown(next)).toBe('old')
    restartHost(next)
    expect(shown(next)).toBe('old')
    work(next, agentOfNewHost(next))
    expect(agent.finished).toBe(0)
    // From its last bell on it is the first copy that is shown: the second one may go.
    next.host!.part.poison(linesOf(made, 1)[0]!)
    expect(shown(next)).toBe('old')
  })

  test('P1-24: behind a save that failed: what is the same in every copy is shown', () => {
    const made = writtenBack()
    made.card.nvdimm.dirtyShutdowns += 1
    const next = startedAgain(made)
    expect(shown(next.card)).toBe('new')
    work(next.card, next.agent!)
    expect(shown(next.card)).toBe('new')
  })

  test('of a record that is lost: its lane is clear, as the list says so', () => {
    const { card } = repairing('cleared')
    const agent = agentOfNewHost(card)
    work(card, agent)
    card.idle()
    expect([agent.finished, lanesLeft(card), card.open().unsettled]).toEqual([2, 0, 1])
  })
})

test('I6: a first copy that was not read back is not shown, though it can be read later', () => {
  const made = begun()
  const { card, host, region, qp } = made
  const line = linesOf(made, 0)[1]!
  host.link.script = ({ kind, memory, at }) => {
    if (kind === 'read' && memory === 'persistent' && at === HOST_DATA_AT) {
      host.arrive()
      host.part.poison(line)
    }
    return undefined
  }
  const sent = card.serve(...persistFrames(qp, region, 0, NEW))
  expect(ackStatuses(sent)).toEqual([STATUS_IN_DOUBT])
  host.link.script = null
  host.part.restoreFlags(line, 0)
  expect(steps(made, 4)).toEqual([])
  expect(shown(card)).toBe('old')
  // It is in no medium.
  expect(settledByStart(made)).toBe('old')
})

test('B1: what a repair has stored is not looked at again between its bells', () => {
  const made = repairing()
  const { card } = made
  const agent = agentOfNewHost(card)
  for (let i = 0; i < 4; i++) card.idle()
  let accesses = 0
  card.host!.link.script = ({ memory }) => {
    if (memory === 'persistent') accesses += 1
    return undefined
  }
  steps({ card, agent }, 1)
  expect(accesses).toBe(0)
})

describe('a scan before the agent is asked', () => {
  test('finds nothing wrong: and nothing is written into the card’s own part', () => {
    const { card } = scanned()
    const fences = countFences(card.machine)
    attachedAgent(card)
    for (let i = 0; i < 4; i++) card.idle()
    expect(fences.passed).toBe(0)
  })

  test('B5: and its repair is lost on the way: it is repaired again, and lasts', () => {
    const made = scanned()
    const { card, host } = made
    host.part.poison(linesOf(made, 1)[0]!)
    let lost = 0
    host.link.contains = false
    host.link.script = ({ kind, memory }) =>
      kind === 'write' && memory === 'persistent' && lost++ < 1 ? 'lost' : undefined
    takes(card, attachedAgent(card), 1)
    expect(lost).toBeGreaterThan(1)
    cutPower(made, NOTHING)
    host.part.poison(linesOf(made, 0)[0]!)
    expect(shown(restarted(made))).toBe('old')
  })

  test('P1-11: and the medium refuses the repair: it looks three times, and goes on', () => {
    const made = scanned()
    const { card, host } = made
    host.part.poison(linesOf(made, 1)[0]!)
    for (const line of linesOf(made, 1)) host.part.refuseWrites(line)
    const before = u32(card.status(), mad.PART_SCANNED)
    const agent = attachedAgent(card)
    for (let i = 0; i < 4; i++) card.idle()
    expect(u32(card.status(), mad.PART_SCANNED) - before).toBe(3 * made.region.slots)
    expect(faultOf(card)).toBe('PASS')
    steps({ card, agent }, 1)
    expect(agent.finished).toBe(1)
    expect([shown(card), shown(card, 1)]).toEqual(['old', 'other'])
  })
})

describe('D-14: a record that is lost is given up', () => {
  /** The operator gives record 0 up. */
  function discard(card: TestCard): string {
    return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
      putU32(body, mad.SETTLE_REGION, card.open().id)
      putU32(body, mad.SETTLE_RECORD, 0)
      body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
    }).fault
  }

  /** Both copies have decayed before the agent came; the card has said so. */
  function lost(): Placed {
    const made = scanned()
    const { card, host } = made
    for (const c of [0, 1]) host.part.poison(linesOf(made, c)[0]!)
    const agent = attachedAgent(card)
    work(card, agent)
    expect(card.open().unsettled).toBe(1)
    return { ...made, agent }
  }

  test('at once: it is blank for good when the agent has written it back', () => {
    const made = lost()
    const { card, agent } = made
    expect(discard(card)).toBe('UNDER_WAY')
    expect([card.open().unsettled, shown(card)]).toEqual([1, 'refused'])
    work(card, agent!)
    expect([card.open().unsettled, shown(card)]).toEqual([0, 'other'])
    expect(discard(card)).toBe('PASS')
    takes(card, agent!, 1)
    cutPower(made, NOTHING)
    const next = restarted(made)
    expect([next.open().unsettled, shown(next)]).toEqual([0, 'other'])
  })

  test('and is lost once more: it stays so, whatever else of its region is written back', () => {
    const made = lost()
    const { card, host, agent } = made
    expect(discard(card)).toBe('UNDER_WAY')
    work(card, agent!)
    expect(card.open().unsettled).toBe(0)
    for (const c of [0, 1]) host.part.poison(linesOf(made, c)[0]!)
    for (let i = 0; i < 100 && card.open().unsettled === 0; i++) card.idle()
    host.part.poison(linesOf(made, 1, 1)[0]!)
    const { finished } = agent!
    for (let i = 0; i < 100 && agent!.finished === finished; i++) steps({ card, agent }, 1)
    expect(agent!.finished).toBeGreaterThan(finished)
    expect([card.open().unsettled, shown(card)]).toEqual([1, 'refused'])
  })

  test('and the agent goes before it rings: it is lost, and has to be given up again', () => {
    const made = lost()
    const { card, agent } = made
    expect(discard(card)).toBe('UNDER_WAY')
    tellAgent(card, mad.AGENT_DETACH, agent!.queues.sendQueue)
    const next = attachedAgent(card)
    work(card, next)
    expect([card.open().unsettled, shown(card)]).toEqual([1, 'refused'])
    expect(discard(card)).toBe('UNDER_WAY')
    work(card, next)
    takes(card, next, 0)
  })

  test('B5: and the blank of its second copy is lost on the way: it is found missing', () => {
    const made = lost()
    const { card, host, agent } = made
    const [line] = linesOf(made, 1)
    // What stands there can be read again, and is whole.
    host.part.restoreFlags(line!, 0)
    host.link.contains = false
    host.link.script = ({ kind, memory, at }) =>
      kind === 'write' && memory === 'persistent' && at === line! * LINE_BYTES ? 'lost' : undefined
    expect(discard(card)).toBe('DMA')
    host.link.script = null
    expect(discard(card)).toBe('UNDER_WAY')
    work(card, agent!)
    expect([card.open().unsettled, shown(card)]).toEqual([0, 'other'])
    takes(card, agent!, 1)
  })

  test('D-13: and the fence of the list fails: the part closes, and the next start has it', () => {
    const made = lost()
    const { card, agent } = made
    expect(discard(card)).toBe('UNDER_WAY')
    card.nvdimm.fencesToFail = 1
    work(card, agent!)
    expect(faultOf(card)).toBe('FLUSH')
    expect([card.open().unsettled, shown(card)]).toEqual([1, 'refused'])
    cutPower(made, NOTHING)
    const next = restarted(made)
    expect([next.open().unsettled, shown(next)]).toEqual([1, 'refused'])
  })
})

test.each([0, 1])(
  'P1-11: lane %i of a repair that a start could not make serves nobody',
  (lane) => {
    const made = begun()
    const { card, region, qp, agent } = made
    card.provision(FRESH)
    work(card, agent!)
    const others = (on: TestCard, count: number): void => {
      for (let slot = 0; slot < count; slot++) {
        on.serve(...persistFrames(on.connect(), on.open('fresh'), slot, OLD))
      }
    }
    others(card, lane)
    card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 }))
    expect(steps(made, 1)).toEqual([STATUS_DURABLE])
    cutPower(made, NOTHING)
    refuse(made, 1)
    const next = restarted(made)
    expect([shown(next), next.open().unsettled]).toEqual(['new', 1])
    const served = agentOfNewHost(next)
    work(next, served)
    others(next, 2)
    expect(steps({ card: next, agent: served }, 4)).toEqual([STATUS_DURABLE, STATUS_DURABLE])
    next.idle()
    refuse(made, 1, false)
    cutPower({ card: next, host: next.host! }, NOTHING)
    // What was acknowledged goes, and what is older can be read again: it does not stand for it.
    made.host.part.poison(linesOf(made, 0)[0]!)
    for (const line of linesOf(made, 1)) made.host.part.restoreFlags(line, 0)
    expect(shown(restarted(made))).toBe('refused')
  },
)

test.each([0, 1])(
  'a region ends while it is written back, behind %i bells: another is made',
  (bells) => {
    const { card, agent } = placed(DDIO_ON)
    card.provision(FRESH)
    steps({ card, agent }, bells)
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode(FRESH.name), mad.REGION_NAME)
    })
    for (let i = 0; i < 20; i++) card.idle()
    card.provision({ ...FRESH, name: 'next' })
    takes(card, agent!, 0, 'next')
    card.idle()
    expect([faultOf(card), lanesLeft(card)]).toEqual(['PASS', 0])
  },
)
