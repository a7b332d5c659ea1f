/** Every operation of the firmware that needs no host, from the start on. */

import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_QUERY } from '../../../firmware/wire/opcode.ts'
import { EXPECT, IN_ORDER, INDEPENDENT } from '../../support/cards/batch-card.ts'
import { dataOf, readFrame, type TestRegion } from '../../support/wire/conversation.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  atomicWriteFrame,
  carriedFrames,
  compareSwapFrame,
  fetchAddFrame,
  flushFrame,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'
import {
  crashedParts,
  formattedPart,
  PART_BYTES,
  partWithLoss,
  REGIONS,
  servedPart,
} from './parts.ts'
import { type Attach, type Judged, PartWorld, type World } from './world.ts'

export interface Operation {
  readonly name: string
  /** Makes it ready. Verdicts are kept for as long as `judged` lives. */
  begin(judged: Judged): World
}

type Action = (world: PartWorld, attach: Attach) => void

/** An operation of a card that serves. */
function served(name: string, action: (world: PartWorld) => void): Operation {
  const whole: Action = (world, attach) => {
    const card = world.boot()
    attach(card.machine)
    action(world)
  }
  return { name, begin: (judged) => new PartWorld(servedPart(), judged, whole) }
}

/** Likewise, with a region that is open and a queue pair that is connected before. */
function asked(
  name: string,
  regionName: string,
  mtu: number,
  action: (world: PartWorld, region: TestRegion, qp: ReturnType<PartWorld['connect']>) => void,
): Operation {
  const whole: Action = (world, attach) => {
    const card = world.boot()
    const region = card.open(regionName)
    const qp = world.connect(mtu)
    attach(card.machine)
    action(world, region, qp)
  }
  return { name, begin: (judged) => new PartWorld(servedPart(), judged, whole) }
}

function idleTimes(world: PartWorld, times: number): void {
  for (let i = 0; i < times; i++) world.card!.idle()
}

/** One record at one level. */
function recordAt(wait: number, regionName: string, length: number, mtu = 4096): Operation {
  const name = `WRITE_PERSIST of ${length} bytes, ${regionName}, wait ${wait}, MTU ${mtu}`
  return asked(name, regionName, mtu, (world, region, qp) => {
    world.card!.serve(...world.persist(qp, region, 0, dataOf(length, 31), wait))
  })
}

function batchOf(name: string, condition: number, count: number): Operation {
  return asked(`a batch ${name} of ${count}`, 'records', 4096, (world, region, qp) => {
    const writes = Array.from({ length: count }, (_, slot) => {
      return { slot, data: dataOf(48, 60 + slot) }
    })
    const frames = world.batch(qp, region, writes, { condition, expects: condition === EXPECT })
    world.card!.serve(...frames)
  })
}

const PERSISTS: readonly Operation[] = [
  recordAt(1, 'records', 64),
  recordAt(2, 'records', 64),
  recordAt(2, 'records', 13),
  recordAt(1, 'three', 64),
  recordAt(2, 'three', 64),
  recordAt(3, 'three', 64),
  recordAt(2, 'long', 1000),
  recordAt(2, 'long', 1000, 256),
  asked('two records of one burst', 'records', 4096, (world, region, qp) => {
    const frames = [0, 1].flatMap((slot) => {
      return world.persist(qp, region, slot, dataOf(64, 40 + slot))
    })
    world.card!.serve(...frames)
  }),
  asked('one record twice in a burst', 'records', 4096, (world, region, qp) => {
    const frames = [0, 1].flatMap((v) => world.persist(qp, region, 0, dataOf(64, 50 + v), 1))
    world.card!.serve(...frames)
  }),
  asked('a record that carries both copies', 'records', 4096, (world, region, qp) => {
    // What is carried is one record: the oracle is told of it as of any.
    const data = dataOf(64, 55)
    const { psn, operation } = qp
    world.persist(qp, region, 0, data)
    qp.psn = psn
    qp.operation = operation
    world.card!.serve(...carriedFrames(qp, region, 0, [data, data]))
  }),
  asked('a record that is repeated', 'records', 4096, (world, region, qp) => {
    const frames = world.persist(qp, region, 0, dataOf(64, 56))
    world.card!.serve(...frames)
    world.card!.serve(...frames)
  }),
  batchOf('independent', INDEPENDENT, 3),
  batchOf('in order', IN_ORDER, 4),
  batchOf('with expected sequences', EXPECT, 3),
  asked('a batch in order in two bursts', 'records', 4096, (world, region, qp) => {
    const writes = [0, 1, 2].map((slot) => ({ slot, data: dataOf(40, 70 + slot) }))
    const frames = world.batch(qp, region, writes, { condition: IN_ORDER })
    world.card!.serve(...frames.slice(0, 2))
    world.card!.serve(...frames.slice(2))
  }),
]

function claimAndServe(
  world: PartWorld,
  region: TestRegion,
  qp: ReturnType<PartWorld['connect']>,
  bytes: Uint8Array,
  ...frames: Uint8Array[]
): void {
  world.claim(qp, region, 0, bytes)
  world.card!.serve(...frames)
}

function numberOf(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, value, true)
  return bytes
}

const PLAIN: readonly Operation[] = [
  asked('WRITE and FLUSH', 'bytes', 4096, (world, region, qp) => {
    const data = dataOf(200, 80)
    const frames = writeFrames(qp, region, 0, data)
    frames.push(flushFrame(qp, region, { length: 200 }))
    claimAndServe(world, region, qp, data, ...frames)
  }),
  asked('WRITE of four packets and FLUSH of all', 'bytes', 256, (world, region, qp) => {
    const data = dataOf(900, 81)
    const frames = writeFrames(qp, region, 0, data)
    frames.push(flushFrame(qp, region, { selectivity: 1 }))
    claimAndServe(world, region, qp, data, ...frames)
  }),
  asked('WRITE where every store is durable', 'safe', 4096, (world, region, qp) => {
    const data = dataOf(128, 82)
    claimAndServe(world, region, qp, data, ...writeFrames(qp, region, 0, data))
  }),
  asked('WRITE_PERSIST of bytes', 'bytes', 4096, (world, region, qp) => {
    const data = dataOf(96, 83)
    const frames = writeFrames(qp, region, 0, data)
    frames.push(flushFrame(qp, region, { length: 96 }))
    claimAndServe(world, region, qp, data, ...frames)
  }),
  asked('FETCH ADD and FLUSH', 'bytes', 4096, (world, region, qp) => {
    const frames = [fetchAddFrame(qp, region, 0, 5n), flushFrame(qp, region)]
    claimAndServe(world, region, qp, numberOf(5n), ...frames)
  }),
  asked('COMPARE SWAP where it is durable', 'safe', 4096, (world, region, qp) => {
    const frame = compareSwapFrame(qp, region, 0, 0n, 9n)
    claimAndServe(world, region, qp, numberOf(9n), frame)
  }),
  asked('ATOMIC WRITE and FLUSH', 'bytes', 4096, (world, region, qp) => {
    const data = dataOf(8, 84)
    const frames = [atomicWriteFrame(qp, region, 0, data), flushFrame(qp, region)]
    claimAndServe(world, region, qp, data, ...frames)
  }),
  asked('READ of a record', 'long', 256, (world, region, qp) => {
    world.card!.serve(readFrame(qp, region, 0, 0, 1024))
  }),
  asked('READ of bytes', 'bytes', 256, (world, region, qp) => {
    world.card!.serve(readFrame(qp, region, 0, 64, 1000))
  }),
  asked('SEND', 'records', 256, (world, _region, qp) => {
    world.card!.serve(...sendFrames(qp, dataOf(600, 85)))
  }),
  asked('a record and PERSIST_QUERY', 'records', 4096, (world, region, qp) => {
    const frames = world.persist(qp, region, 1, dataOf(30, 86))
    const bth = { opcode: PERSIST_QUERY, destQp: qp.number, psn: qp.psn, ackRequest: true }
    frames.push(frameOf({ bth, pqeth: { operationLow: qp.operation } }))
    world.card!.serve(...frames)
  }),
]

const CONTROL: readonly Operation[] = [
  served('OPEN', (world) => {
    world.card!.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => {
      body.set(Buffer.from('three'), mad.REGION_NAME)
    })
  }),
  served('CONNECT and DISCONNECT', (world) => {
    const card = world.card!
    const qp = card.connect()
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
      putU32(body, mad.DISCONNECT_QP, qp.number)
      putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
    })
  }),
  served('HEALTH, and what is told behind it', (world) => {
    const card = world.card!
    const qp = card.connect()
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_HEALTH, (body) => {
      putU32(body, mad.HEALTH_QP, qp.number)
      putU32(body, mad.HEALTH_CLIENT_QP, qp.peer)
      body[mad.HEALTH_ACTION] = mad.HEALTH_BEGIN
    })
    idleTimes(world, 3)
  }),
  served('STATUS, REPORT, COUNTERS, FIGURES and REGION', (world) => {
    const asks = [mad.ATTRIBUTE_STATUS, mad.ATTRIBUTE_REPORT, mad.ATTRIBUTE_COUNTERS]
    asks.push(mad.ATTRIBUTE_FIGURES)
    for (const attribute of [...asks, mad.ATTRIBUTE_REGION]) {
      world.card!.manage(mad.METHOD_GET, attribute)
    }
  }),
  served('PROVISION of a region of records', (world) => {
    world.card!.tryProvision({ name: 'further', slots: 4, capacity: 64, copies: 2 })
  }),
  served('PROVISION of a region of bytes', (world) => {
    world.card!.tryProvision({ name: 'more', kind: mad.KIND_BYTES, length: 4096 })
  }),
  served('SCAN of a region', (world) => {
    world.card!.manage(mad.METHOD_SET, mad.ATTRIBUTE_SCAN, (body) => {
      putU32(body, mad.SCAN_REGION, world.layouts[0]!.id)
    })
  }),
  served('idle time, and the scrub', (world) => {
    idleTimes(world, 12)
  }),
  {
    name: 'idle time behind records: lanes are cleared',
    begin: (judged) => {
      return new PartWorld(servedPart(), judged, (world, attach) => {
        const card = world.boot()
        const region = card.open('records')
        const qp = world.connect()
        for (const slot of [0, 1]) {
          card.serve(...world.persist(qp, region, slot, dataOf(64, 45 + slot)))
        }
        attach(card.machine)
        idleTimes(world, 2)
      })
    },
  },
  {
    name: 'SETTLE: a lost record is discarded',
    begin: (judged) => {
      const world = new PartWorld(partWithLoss(), judged, (here, attach) => {
        const card = here.boot()
        attach(card.machine)
        card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
          putU32(body, mad.SETTLE_REGION, here.layouts[0]!.id)
          putU32(body, mad.SETTLE_RECORD, 0)
          body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
        })
      })
      world.part.dirtyShutdowns = 1
      world.mayLose = true
      world.forget(0)
      return world
    },
  },
  served('PUBLISH', (world) => {
    world.card!.manage(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, (body) => {
      body.set(Buffer.from('bytes'), mad.REGION_NAME)
      body[mad.PUBLISH_PORT] = 0x1c
    })
  }),
]

/** A start on a part with that content. */
function start(name: string, content: () => Uint8Array, mayRefuse = false): Operation {
  return {
    name,
    begin: (judged) => {
      const world = new PartWorld(content(), judged, (here, attach) => {
        here.boot(attach)
        idleTimes(here, 1)
      })
      world.mayRefuse = mayRefuse
      return world
    },
  }
}

/** The superblock's first page is torn: an update of it was cut. */
function tornSuperblock(): Uint8Array {
  const content = servedPart().slice()
  content[40]! ^= 0xff
  return content
}

function starts(): Operation[] {
  const crashed = crashedParts().map((part): Operation => {
    return {
      name: `start: ${part.name}`,
      begin: (judged) => {
        const { media, content, acknowledged, dirtyShutdowns } = part
        const action: Action = (world, attach) => {
          world.boot(attach)
          idleTimes(world, 1)
        }
        const world = new PartWorld(content, judged, action, dirtyShutdowns)
        world.know(0, [media.old, media.fresh], acknowledged)
        world.mayLose = true
        return world
      },
    }
  })
  return [
    start('start: blank', () => new Uint8Array(PART_BYTES), true),
    start('start: formatted', formattedPart),
    start('start: every region', servedPart),
    start('start: a page of the superblock is torn', tornSuperblock),
    ...crashed,
  ]
}

/** FORMAT of a blank part, and the first region on it. */
const FORMATS: readonly Operation[] = [
  {
    name: 'FORMAT',
    begin: (judged) => {
      const blank = new Uint8Array(PART_BYTES)
      const world = new PartWorld(blank, judged, (here, attach) => {
        const card = here.boot()
        attach(card.machine)
        card.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
      })
      world.mayRefuse = true
      return world
    },
  },
  {
    name: 'PROVISION of the first region',
    begin: (judged) => {
      return new PartWorld(formattedPart(), judged, (here, attach) => {
        const card = here.boot()
        attach(card.machine)
        card.tryProvision(REGIONS[0])
      })
    },
  },
]

let all: readonly Operation[] | null = null

export function partOperations(): readonly Operation[] {
  all ??= [...starts(), ...FORMATS, ...CONTROL, ...PERSISTS, ...PLAIN]
  return all
}
