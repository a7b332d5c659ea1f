/**
 * Every call of the library, with every wrong kind of value at every place (R31-2): refused as
 * PERDURE_ARGUMENT, in words, and the calls after it go on.
 *
 * Which calls there are, which arguments and which fields they have, and what may stand there, the
 * types say: a call that is new is missing here until it has a row.
 */

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { checkFields, SIZE, TEXT } from '../../host-driver/base/kinds.ts'
import * as library from '../../host-driver/index.ts'
import {
  type BytesRegion,
  type CompletionQueue,
  chooseCopy,
  connect,
  connectTarget,
  cpuInPieces,
  type Dpu,
  dualRead,
  dualWrite,
  FlushAgent,
  guardOf,
  type HostPort,
  type MemoryRegion,
  memoryInPieces,
  PcapWriter,
  PcieAgentQueues,
  PcieDevice,
  type ProtectionDomain,
  probePlacement,
  type QueuePair,
  type Region,
  RemoteMemory,
  readPcap,
  readSlotImage,
  startFlushAgent,
  type Watch,
} from '../../host-driver/index.ts'
import { checkRecv, checkSend } from '../../host-driver/verbs/work.ts'
import { type OpenWay, openWay } from '../support/driver/ways.ts'
import { isError, placesOf, VALUES } from '../support/driver/wrong-values.ts'
import { endpointOf } from '../support/peers/network.ts'
import { type Call, callsOf, inTypes } from '../support/source/types.ts'

/** Calls that only the library makes, or of what the caller offers and the library calls. */
const NOT_CALLED = new RegExp(
  [
    String.raw`^(AgentControl|AgentQueues|HostMemory|HostCpu|HostPort)\.`,
    String.raw`^(PlacementControl|PiecesControl|SharedAddresses)\.`,
    String.raw`^(PagedMemory|PageUse|PageUser|SharedMemory|Wire|PcieAgentQueues)\.`,
    String.raw`^Watch\.(pause|begin|end|notice|proposal)$`,
    String.raw`^(Inbox\.(deliver|close)|FlushAgent\.begin|ResidencyStatus\.isReadyAt)$`,
    String.raw`^(OnDemandRegion\.(register|told)|(Remote|Bytes).*\.writingOwn)$`,
    String.raw`^PcieDevice\.(setTimer|destroyCq|deregMr)$`,
    String.raw`^(Region\.(batchGround|readFor)|BytesRegion\.memberGround)$`,
    '^new (PcieDevice|PcieAgentQueues)$',
  ].join('|'),
)

interface Bench extends VerbsParts {
  readonly watch: Watch
  readonly way: OpenWay
  readonly dpu: Dpu
  readonly region: Region
  readonly log: BytesRegion
  /** Registered write-persist. */
  readonly kept: BytesRegion
}

interface VerbsParts {
  readonly pd: ProtectionDomain
  readonly mr: MemoryRegion
  readonly cq: CompletionQueue
  readonly qp: QueuePair
}

async function verbsOf({ verbs }: Dpu): Promise<VerbsParts> {
  const pd = verbs.allocPd()
  const [mr, cq] = [await pd.regMr(4096), await verbs.createCq(8)]
  const qp = await pd.createQp({ sendCq: cq, recvCq: cq })
  await verbs.connect(qp)
  return { pd, mr, cq, qp }
}

const GROUPS = { groups: { index: [{ offset: 0, length: 8 }] } }

let b: Bench
let calls: readonly Call[] = []

beforeAll(async () => {
  const values = Object.entries(library).filter(([, value]) => !isError(value))
  const names = values.map(([name]) => name)
  calls = inTypes((types) => callsOf(types, 'host-driver/index.ts', names))
  const way = await openWay('behind')
  const { dpu } = way
  await dpu.format()
  const region = await dpu.provision({ name: 'r', slots: 4, capacity: 64 })
  const log = await dpu.provisionBytes({ name: 'log', length: 65_536 })
  const kept = await dpu.provisionBytes({ name: 'kept', length: 4096, writePersist: true })
  b = { way, dpu, region, log, kept, watch: await log.watch(GROUPS), ...(await verbsOf(dpu)) }
})

afterAll(async () => {
  await b.way.close()
})

/** What makes a call as it should be: the arguments that are wrong take the place of these. */
type Row = (...args: never[]) => unknown

interface Good {
  readonly args: () => readonly unknown[]
  readonly call: (...args: readonly never[]) => unknown
}

const bytes = (): Uint8Array => new Uint8Array(8)
const key = (): Uint8Array => new Uint8Array(16)
const pair = () => ({
  places: [0, 4096].map((offset) => ({ memory: b.log, offset })),
  key: key(),
})

/** A call of a method of something. */
function of(on: () => object, method: string, ...args: readonly unknown[]): Good {
  return {
    args: () => args,
    call: (...given) => (on() as Record<string, Row>)[method]!(...(given as never[])),
  }
}

function rowsOf(type: string, on: () => object, rows: Record<string, readonly unknown[]>) {
  return Object.fromEntries(
    Object.entries(rows).map(([name, args]) => [`${type}.${name}`, of(on, name, ...args)]),
  )
}

const range = { offset: 0, length: 8 }

const memory = {
  write: [0, bytes(), {}],
  read: [0, 8],
  flush: [0, 8, {}],
  fetchAdd: [0, 1n],
  compareSwap: [0, 1n, 1n],
  atomicWrite: [0, bytes()],
  addressOf: [0, 8],
  writing: [0, bytes(), {}],
  reading: [0, bytes()],
  flushing: [0, 8, {}],
}

/** What a platform offers, by its calls. */
const nothing = (): void => {}
const hostCpu = { statesAdr: true, load: nothing, evict: nothing }
const hostMemory = { load: nothing, clean: nothing, fence: nothing }
const control = { probe: nothing, place: nothing, attachAgent: nothing, detachAgent: nothing }
const pieces = [
  { at: 8192, bytes: 4096 },
  { at: 0, bytes: 8192 },
]
const queues = { postReceives: nothing, takeRequests: nothing, postFinished: nothing }

const GOOD: Record<string, Good> = {
  connect: { args: () => ['perdure://127.0.0.1:9', {}], call: connect as never },
  connectTarget: {
    args: () => ['perdure://127.0.0.1:9', { port: 1 }],
    call: connectTarget as never,
  },
  dualWrite: { args: () => [{ ...pair(), bytes: bytes() }], call: dualWrite as never },
  dualRead: { args: () => [{ ...pair(), capacity: 8 }], call: dualRead as never },
  chooseCopy: { args: () => [[]], call: chooseCopy as never },
  guardOf: { args: () => [bytes()], call: guardOf as never },
  readSlotImage: {
    args: () => [bytes(), { id: 0, capacity: 8, key: key() }, 0],
    call: readSlotImage as never,
  },
  probePlacement: { args: () => [hostCpu, control, 'bypass'], call: probePlacement as never },
  cpuInPieces: { args: () => [hostCpu, pieces], call: cpuInPieces as never },
  memoryInPieces: { args: () => [hostMemory, pieces], call: memoryInPieces as never },
  startFlushAgent: {
    args: () => [hostMemory, control, b.way.device],
    call: startFlushAgent as never,
  },
  'new FlushAgent': {
    args: () => [hostMemory, control, queues],
    call: (...args) => new FlushAgent(...(args as [never, never, never])),
  },
  'new RemoteMemory': {
    args: () => [{ enqueueChain: nothing }, () => 'it', () => ({ rkey: 0, va: 0n, length: 0n })],
    call: (...args) => new RemoteMemory(...(args as [never, never, never])),
  },
  'new PcapWriter': { args: () => [], call: (...args) => new PcapWriter(...(args as [])) },
  'PcieDevice.open': {
    args: () => [b.way.machine!.port, {}],
    call: (...args) => PcieDevice.open(...(args as [never])),
  },
  'PcieAgentQueues.open': {
    args: () => [b.way.device, 8],
    call: (...args) => PcieAgentQueues.open(...(args as [never])),
  },
  readPcap: { args: () => [bytes()], call: (...args) => [...readPcap(...(args as [never]))] },
  ...rowsOf('Dpu', () => b.dpu, {
    format: [key()],
    provision: [{ name: 'r', slots: 4, capacity: 64 }],
    provisionBytes: [{ name: 'log', length: 65_536 }],
    remove: ['none'],
    openRegion: ['r'],
    openBytes: ['log'],
    send: [bytes(), {}],
    query: [1n],
    addPeer: [{ key: new Uint8Array(32).fill(9), name: 'peer', admin: true }],
    removePeer: [new Uint8Array(32)],
    publish: [{ name: 'r', port: 7 }],
    withdraw: [7],
    attach: [{ name: 'r', address: '10.0.0.9', port: 7 }],
    detach: ['none'],
    queue: [0],
    queuesInUse: [1],
    setCache: [{ policy: 'oldest' }],
    scan: ['r', () => {}],
    discard: ['r', 0],
    peers: [],
    regions: [],
    hostRegions: [],
    status: [],
    report: [],
    counters: [],
    figures: [],
    figuresOf: ['r'],
    onHealth: [() => {}, {}],
    queues: [],
    reconnect: [],
  }),
  ...rowsOf('Inbox', () => b.dpu.messages, { next: [] }),
  ...rowsOf('Region', () => b.region, {
    persist: [0, bytes(), {}],
    batch: [{}],
    onBatch: [() => {}, {}],
    write: [0, bytes()],
    read: [0, {}],
    records: [{}],
    readCopies: [0],
    writeCopies: [0, bytes(), {}],
    watch: [{}],
    ready: [{ slot: 0 }, {}],
    prefetch: [{ slot: 0 }],
    setAlternatives: [[]],
    otherReady: [{ slot: 0 }, {}],
  }),
  ...rowsOf('BytesRegion', () => b.log, {
    ...memory,
    watch: [{}],
    prefetch: [{ offset: 0, length: 8 }],
    ready: [{ offset: 0, length: 8 }, {}],
    setAlternatives: [[]],
    otherReady: [{ offset: 0, length: 8 }, {}],
  }),
  ...rowsOf('RemoteMemory', () => b.log, memory),
  ...rowsOf('Batch', () => b.region.batch(), { persist: [0, bytes(), {}] }),
  'Batch.write': {
    ...of(() => b.region.batch(), 'write'),
    args: () => [b.kept, 0, bytes()],
  },
  ...rowsOf('PcapWriter', () => new PcapWriter(), {
    add: [0, bytes()],
    toFile: ['/nowhere/at/all'],
  }),
  ...rowsOf('VerbsContext', () => b.dpu.verbs, { allocPd: [0], createCq: [8], connect: [{}] }),
  ...rowsOf('CompletionQueue', () => b.cq, { poll: [1] }),
  ...rowsOf('MemoryRegion', () => b.mr, { fill: [0, bytes()], read: [0, 8], sge: [0, 8] }),
  ...rowsOf('ProtectionDomain', () => b.pd, { regMr: [64], createQp: [{ sendDepth: 8 }] }),
  ...rowsOf('QueuePair', () => b.qp, {
    modify: [{ state: 'ERR' }],
    postSend: [{ wrId: 1n, opcode: 'RDMA_WRITE', rkey: 1, remoteAddr: 0n }],
    postRecv: [{ wrId: 1n }],
  }),
  ...rowsOf('Watch', () => b.watch, {
    onChange: [() => {}],
    isReady: [range],
    prefetch: [range],
    ready: [range, {}],
    propose: [4096],
  }),
  ...rowsOf('ResidencyStatus', () => b.watch.status, {
    stateOf: [0],
    group: ['index'],
    isReady: [range],
    otherReady: [range],
  }),
  ...rowsOf('PcieDevice', () => b.way.device!, {
    sendDatagram: [new Uint8Array(256), { mac: [2, 0, 0, 0, 0, 2], ipv4: [10, 0, 0, 2] }],
    alloc: [64],
    arenaKey: [0],
    regMr: [0, 64, 0],
    registerOnDemand: [{}],
    createCq: [{ entries: 8 }],
    createQp: [{ type: 'local' }],
  }),
}

/** Of more than one promise, or of what this region is not; given-up.test.ts has them. */
const GIVEN_UP_ELSEWHERE =
  /^(Region\.(persist|batch|records|writeCopies|ready)|Batch\.(persist|write))$/

/** What ends with the process or the card, and never waits for the network. */
const WITHOUT_SIGNAL =
  /^(Verbs|Completion|Memory|Protection|QueuePair|Pcie|Pcap|probe|start|Region\.onBatch)/

/** Where a call takes its signal: the place of the argument, or -1. */
function signalAt(name: string): number {
  const { slots } = calls.find((one) => one.name === name)!
  return slots.findIndex(({ fields }) => fields.some((field) => field.name === 'signal'))
}

function isPromiseOf(call: Good['call'], args: readonly unknown[]): boolean {
  try {
    return call(...(args as never[])) instanceof Promise
  } catch {
    return false
  }
}

/** The code of what a call ends with, thrown or as a rejection. */
async function codeOf(call: () => unknown): Promise<string> {
  try {
    await call()
    return 'nothing was refused'
  } catch (error) {
    return String((error as { code?: unknown }).code ?? error)
  }
}

async function expectRefused(name: string): Promise<void> {
  const { slots } = calls.find((one) => one.name === name)!
  const { args, call } = GOOD[name]!
  const wrong: string[] = []
  for (const { what, slot, put } of placesOf(slots)) {
    for (const [value, given, sort] of VALUES) {
      if (sort !== null && slot.sorts.includes(sort)) continue
      const padded = Object.assign(new Array(slots.length).fill(undefined), args())
      const code = await codeOf(() => call(...(put(padded, given) as never[])))
      if (code !== 'PERDURE_ARGUMENT') wrong.push(`${name}(${what}: ${value}): ${code}`)
    }
  }
  expect(wrong).toEqual([])
}

describe('a signal that has fired before the call', () => {
  for (const name of Object.keys(GOOD).filter((one) => !GIVEN_UP_ELSEWHERE.test(one))) {
    test(`ends ${name} as aborted, if it waits for somebody`, async () => {
      const { args, call } = GOOD[name]!
      const at = signalAt(name)
      if (at < 0) {
        if (!WITHOUT_SIGNAL.test(name)) expect(isPromiseOf(call, args())).toBe(false)
        return
      }
      const given = Object.assign(new Array(at + 1).fill(undefined), args())
      const signal = AbortSignal.abort(new Error('enough'))
      given[at] = { ...given[at], signal }
      expect(await codeOf(() => call(...(given as never[])))).toBe('PERDURE_ABORTED')
    })
  }
})

describe('R31-2: a wrong kind of value', () => {
  test('every call that the types have is here', () => {
    const missing = calls
      .map(({ name }) => name)
      .filter((name) => !(name in GOOD) && !NOT_CALLED.test(name))
    expect(missing).toEqual([])
    expect(Object.keys(GOOD).filter((one) => !calls.some(({ name }) => name === one))).toEqual([])
  })

  for (const name of Object.keys(GOOD)) {
    test(`is refused by ${name}, and what is called then goes on`, async () => {
      await expectRefused(name)
      const { region, log, dpu } = b
      await region.persist(1, bytes()).persisted
      await log.write(0, bytes())
      expect(await log.read(0, 8)).toEqual(bytes())
      expect((await dpu.status()).state).toBe('serving')
    })
  }

  test('a wire that throws loses a frame, and no connection is held up', async () => {
    const way = await openWay('frames')
    const wire = way.room.addHost()
    let frames = 0
    const send = (frame: Uint8Array): void => {
      if (++frames % 5 === 0) throw new Error('the wire is not in the mood')
      wire.send(frame)
    }
    const { now, setTimer, onFrame, close } = wire
    const dpu = await connect(
      { send, now, setTimer, onFrame, close },
      { peer: endpointOf(2), seed: 5 },
    )
    await dpu.format()
    const region = await dpu.provision({ name: 'r', slots: 32, capacity: 64 })
    const writes = Array.from({ length: 32 }, (_, slot) => region.persist(slot, bytes()).persisted)
    expect(await Promise.all(writes)).toHaveLength(32)
    await dpu.close()
    await way.close()
  })

  test('what passes a check of fields makes no text', () => {
    let texts = 0
    const what = (): string => `text ${++texts}`
    checkFields(what, { slot: 1, name: 'r' }, { slot: SIZE, name: TEXT }, ['slot'])
    expect(texts).toBe(0)
    const refused = (): void => checkFields(what, { slot: -1 }, { slot: SIZE })
    expect(refused).toThrow('text 1: slot -1: a whole number from 0 on')
  })

  test('nor does a work request that passes', () => {
    const made = vi.spyOn(globalThis, 'String')
    try {
      const sgList = [{ addr: 0, length: 8, lkey: 1 }]
      const to = { rkey: 1, remoteAddr: 0n }
      for (const opcode of ['RDMA_WRITE', 'ATOMIC_WRITE', 'RDMA_READ'] as const) {
        checkSend({ wrId: 7n, opcode, sgList, ...to }, 256, () => {})
      }
      const batch = { id: 1, index: 0, count: 1, condition: 'inOrder', last: true } as const
      const record = { wrId: 7n, opcode: 'WRITE_PERSIST', operationId: 1n, batch, ...to } as const
      checkSend(record, 256, () => {})
      checkRecv({ wrId: 7n, sgList }, () => {})
      expect(made).not.toHaveBeenCalled()
      const wrong = { ...record, rkey: -1 }
      expect(() => checkSend(wrong, 256, () => {})).toThrow('request 7: rkey -1: 0 to 2^32 - 1')
    } finally {
      made.mockRestore()
    }
  })

  test('of a port, a device is not made with it', async () => {
    for (const [, given, sort] of VALUES) {
      if (sort === 'undefined') continue
      const opening = (): unknown => PcieDevice.open(given as HostPort)
      expect(await codeOf(opening)).toBe('PERDURE_ARGUMENT')
    }
  })
})
