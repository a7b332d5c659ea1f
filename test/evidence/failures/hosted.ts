/** Operations of a card with a host behind it: what the host posts, asks, and writes back. */

import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, type Platform } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { CUT_STRATEGIES } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { FETCH_ADD, READ, WRITE, WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { CONDITION_IN_ORDER } from '../../../firmware/wire/persist.ts'
import {
  attachedAgent,
  believe,
  cutPower,
  type Placed,
  placed,
  restarted,
  work,
} from '../../support/cards/placed.ts'
import { dataOf, persistAcks, persistFrames, type TestCard } from '../../support/cards/test-card.ts'
import {
  type ElementFields,
  elementOf,
  type Form,
  type PairNumbers,
  QueueHost,
} from '../../support/queues/queue-host.ts'
import { fillMap, fillOnDemand, words } from '../../support/residency/on-demand.ts'
import {
  associateFrame,
  blockSizeFrame,
  hintFrame,
} from '../../support/residency/residency-asks.ts'
import { callOf, readFrame, type TestRegion } from '../../support/wire/conversation.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { writeFrames } from '../../support/wire/requests.ts'
import { WentDark } from './card.ts'
import type { Operation } from './operations.ts'
import { servedPart } from './parts.ts'
import { type Attach, type Counts, noCounts, PartWorld, type World } from './world.ts'

const RAM_BYTES = 1 << 19
const QUEUES = 16
const BUFFER_BYTES = 4096

/** The host with a local queue pair, a completion queue and a buffer. */
interface Local {
  readonly world: PartWorld
  readonly card: TestCard
  readonly host: QueueHost
  readonly cq: number
  readonly qp: PairNumbers
  readonly buffer: number
  readonly lkey: number
  readonly region: TestRegion
  readonly bytes: TestRegion
}

function localOf(world: PartWorld): Local {
  const card = world.boot(undefined, new HostRam(RAM_BYTES))
  const host = new QueueHost(card)
  host.trust = true
  host.init(QUEUES)
  const cq = host.createCq(64)
  const qp = host.createQp(cq, { units: 64 })
  const buffer = host.allocate(BUFFER_BYTES, PAGE_BYTES)
  const lkey = host.register(buffer, BUFFER_BYTES)
  const regions = { region: card.open('records'), bytes: card.open('bytes') }
  return { world, card, host, cq, qp, buffer, lkey, ...regions }
}

type LocalAction = (local: Local) => void

function local(name: string, action: LocalAction): Operation {
  return {
    name: `host: ${name}`,
    begin: (judged) => {
      return new PartWorld(servedPart(), judged, (world, attach) => {
        const made = localOf(world)
        attach(made.card.machine)
        action(made)
      })
    },
  }
}

/** Posts, rings, serves; takes note of the records that completed. */
function post(of: Local, fields: readonly ElementFields[], form: Form = 'fifo'): void {
  const { world, host, qp, cq } = of
  for (const one of fields) host.post(qp.send, elementOf({ ...one, flags: el.SIGNALED }))
  host.ring(qp.send, form)
  host.run()
  host.ram.link.arrive()
  for (const cqe of host.poll(cq)) {
    if (cqe.status !== el.WC_SUCCESS) world.counts.refused += 1
    else if (cqe.opcode === WRITE_PERSIST) world.completed(cqe.operation)
  }
}

let operations = 0

/** A record that is posted: inline, or by address. */
function recordOf(of: Local, slot: number, length: number, inline: boolean): ElementFields {
  const data = dataOf(length, 140 + slot)
  operations = 5000 + slot
  of.world.post(of.region, slot, data, 2, operations)
  const to = { opcode: WRITE_PERSIST, rkey: of.region.rkey, address: slot * 2 ** 32, wait: 2 }
  if (inline) return { ...to, operation: operations, inline: data }
  of.host.bytes.set(data, of.buffer)
  return { ...to, operation: operations, local: of.buffer, lkey: of.lkey, length }
}

/** What the raw host says when the card refused a call of its, or did not hear of it. */
const REFUSED = /^(control call|the card did not take)/

/** Asks something of the card that it may refuse. */
function refusable(ask: () => void): void {
  try {
    ask()
  } catch (error) {
    if (!(error instanceof Error && REFUSED.test(error.message))) throw error
  }
}

const LOCAL: readonly Operation[] = [
  local('a record inline', (of) => post(of, [recordOf(of, 0, 48, true)])),
  local('a record by address, the register rung', (of) => {
    post(of, [recordOf(of, 1, 64, false)], 'register')
  }),
  local('two records inline, the second by a trusted doorbell', (of) => {
    post(of, [recordOf(of, 0, 44, true)])
    post(of, [recordOf(of, 1, 45, true)], 'trusted')
  }),
  local('two records and a message doorbell', (of) => {
    post(of, [recordOf(of, 0, 40, true), recordOf(of, 1, 41, true)], 'message')
  }),
  local('a batch in order, and two records of the network behind it', (of) => {
    const { world, card, region } = of
    const records = [2, 3].map((slot, index) => {
      const batch = { index, count: 2, condition: CONDITION_IN_ORDER, left: 1 - index }
      return { ...recordOf(of, slot, 48, true), batch }
    })
    post(of, records)
    const qp = world.connect()
    const frames = [0, 1].flatMap((slot) => world.persist(qp, region, slot, dataOf(64, 44 + slot)))
    card.serve(...frames)
  }),
  local('READ of a record', (of) => {
    const { region, buffer, lkey } = of
    const to = { local: buffer, lkey, length: 64 }
    post(of, [{ opcode: READ, rkey: region.rkey, address: 0, ...to }])
  }),
  local('WRITE and FETCH ADD to bytes', (of) => {
    const { bytes, buffer, lkey } = of
    const to = { local: buffer, lkey }
    post(of, [
      { opcode: WRITE, rkey: bytes.rkey, address: 8, ...to, length: 8 },
      { opcode: FETCH_ADD, rkey: bytes.rkey, address: 0, operation: 3, ...to, length: 8 },
    ])
    of.world.touch(of.bytes, 0, 16)
  }),
  local('a queue pair is made and ended', (of) => {
    refusable(() => {
      const made = of.host.createQp(of.cq, { units: 64 })
      of.host.destroy(made.send)
    })
  }),
  local('memory is registered', (of) => {
    refusable(() => of.host.register(of.buffer, 64))
  }),
  {
    name: 'host: the header page is taken',
    begin: (judged) => {
      return new PartWorld(servedPart(), judged, (world, attach) => {
        const card = world.boot(undefined, new HostRam(RAM_BYTES))
        attach(card.machine)
        refusable(() => new QueueHost(card).init(QUEUES))
      })
    },
  },
]

const ON_DEMAND_PAGES = 4
const BASE = 0x7f00_0001_0000

/** Memory of the host, registered on demand, that a client reaches over the wire. */
function onDemand(
  name: string,
  action: (of: Local, rkey: number, qp: ReturnType<PartWorld['connect']>) => void,
): Operation {
  return {
    name: `on demand: ${name}`,
    begin: (judged) => {
      return new PartWorld(servedPart(), judged, (world, attach) => {
        const of = localOf(world)
        const length = ON_DEMAND_PAGES * PAGE_BYTES
        const fields = fillOnDemand({ length })
        const body = of.host.must(mad.METHOD_SET, mad.ATTRIBUTE_ON_DEMAND, fields)
        const rkey = new DataView(body.buffer, body.byteOffset).getUint32(mad.ON_DEMAND_RKEY)
        const frame = of.host.allocate(PAGE_BYTES, PAGE_BYTES) / PAGE_BYTES
        of.host.must(mad.METHOD_SET, mad.ATTRIBUTE_MAP, fillMap(rkey, 1, [[0, frame]]))
        const qp = world.connect()
        attach(of.card.machine)
        action(of, rkey, qp)
      })
    },
  }
}

const [BASE_HIGH, BASE_LOW] = words(BASE)
const WHOLE = { address: BASE, length: ON_DEMAND_PAGES * PAGE_BYTES }

const MEMORY: readonly Operation[] = [
  onDemand('WRITE and READ of a page that is there', ({ card }, rkey, qp) => {
    card.serve(...writeFrames(qp, rkey, BASE_LOW, dataOf(64, 1), { vaHigh: BASE_HIGH }))
    card.serve(readFrame(qp, rkey, BASE_HIGH, BASE_LOW, 64))
  }),
  onDemand('READ of a page that is away', ({ card }, rkey, qp) => {
    card.serve(readFrame(qp, rkey, BASE_HIGH, BASE_LOW + PAGE_BYTES, 64))
    for (let i = 0; i < 4; i++) card.idle()
  }),
  onDemand('a requester is told of its blocks', ({ card }, rkey, qp) => {
    const asked = { optIn: true, current: true, blockSizeLog2: 12, maximum: 256, periodUs: 10 }
    card.serve(associateFrame(qp, { rkey, ...WHOLE }, asked))
    card.serve(blockSizeFrame(qp, rkey, { blockSizeLog2: 13 }))
    for (let i = 0; i < 4; i++) card.idle()
  }),
  onDemand('hints', ({ card }, rkey, qp) => {
    card.serve(hintFrame(qp, { rkey, ...WHOLE }))
    for (let i = 0; i < 4; i++) card.idle()
  }),
]

/** A record in the host's persistent memory, past its caches or through them. */
class PlacedWorld implements World {
  readonly counts: Counts = noCounts()
  private readonly made: Placed
  private readonly action: (of: Placed, attach: Attach) => void
  private readonly data: Uint8Array[] = [new Uint8Array(64), dataOf(64, 201), dataOf(64, 202)]
  private acknowledged = 1
  private commands = 0
  private readonly complaints: string[] = []

  constructor(platform: Platform, action: (of: Placed, attach: Attach) => void) {
    this.made = placed(platform)
    this.action = action
    this.write(1)
    if (this.acknowledged !== 1) throw new Error('the record before was not acknowledged')
  }

  /** Writes that version, and lets card and agent work. */
  write(version: number): void {
    const { card, agent, region, qp } = this.made
    const frames = persistFrames(qp, region, 0, this.data[version]!, { operation: version })
    const acks = [...persistAcks(card.serve(...frames))]
    if (agent !== null) {
      for (let i = 0; i < 12 && !card.machine.dead; i++) {
        agent.poll()
        acks.push(...persistAcks(card.pass(10)))
      }
    }
    if (acks.some(({ status }) => status === 0)) {
      this.counts.acknowledged += 1
      this.acknowledged = version
    } else this.counts.refused += acks.length
    if (card.machine.dead) throw new WentDark()
  }

  play(attach: Attach): void {
    this.action(this.made, attach)
    this.commands = this.made.card.machine.commandCount
  }

  judge(goesOn: boolean, mayLose: boolean): string[] {
    const { card, host } = this.made
    if (goesOn) this.askLive(card)
    const strategy = CUT_STRATEGIES[this.commands % CUT_STRATEGIES.length]!
    card.nvdimm.armed = true
    cutPower(this.made, { random: new Random(this.commands + 1), strategy })
    this.counts.images += 1
    const next = restarted({ card, host })
    const placement = this.made.agent === null ? 1 : 2
    believe(next, placement)
    if (placement === 2) work(next, attachedAgent(next))
    this.judgeRecord(next, mayLose)
    return this.complaints
  }

  private askLive(card: TestCard): void {
    const status = card.status()
    const fault = FAULTS[status[mad.PART_FAULT]!]!.name
    if (status[mad.PART_STATE] === mad.STATE_SERVING || fault !== 'PASS') return
    this.complaints.push('the part does not serve, and does not say why')
  }

  private judgeRecord(card: TestCard, mayLose: boolean): void {
    const region = card.open()
    const data = card.read(card.connect(), region, 0, 0, 64)
    const version = this.data.findIndex((one) => {
      return data !== null && Buffer.compare(one, data) === 0
    })
    if (version >= this.acknowledged || (data === null && mayLose)) return
    const wanted = `v${this.acknowledged} was acknowledged`
    this.complaints.push(`the record is ${data === null ? 'lost' : `v${version}`}, and ${wanted}`)
  }
}

/** A control call as a frame. */
function callFrame(attribute: number): Uint8Array {
  const payload = callOf(1, mad.METHOD_SET, attribute, () => {}, 0)
  const bth = { opcode: UD_SEND_ONLY, destQp: mad.MANAGEMENT_QP }
  return frameOf({ bth, deth: { qkey: Q_KEY_GSI, sourceQp: 1 }, payload })
}

function placedOperation(name: string, platform: Platform): Operation {
  return {
    name: `placement: ${name}`,
    begin: () => {
      const world: PlacedWorld = new PlacedWorld(platform, ({ card }, attach) => {
        attach(card.machine)
        world.write(2)
      })
      return world
    },
  }
}

function probe(name: string, platform: Platform): Operation {
  return {
    name: `placement: ${name} is probed`,
    begin: () => {
      return new PlacedWorld(platform, ({ card }, attach) => {
        attach(card.machine)
        const { length } = card.serve(callFrame(mad.ATTRIBUTE_PROBE))
        if (length === 0) throw new WentDark()
      })
    },
  }
}

const PLACED: readonly Operation[] = [
  placedOperation('a record past the caches', DDIO_OFF),
  placedOperation('a record through the caches', DDIO_ON),
  probe('past the caches', DDIO_OFF),
  probe('through the caches', DDIO_ON),
]

export function hostOperations(): readonly Operation[] {
  return [...LOCAL, ...MEMORY, ...PLACED]
}
