/**
 * The corpus: for each reason that chance meets seldom, the way to it, from a card that is new.
 *
 * Invariant: a seed leads to its reason every time; around it the last frames are varied,
 * and nothing that comes of that may throw.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { PcieLink } from '../../../boards/emulator/host/pcie.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { NOT_KEPT } from '../../../firmware/board/hal.ts'
import {
  BATCHES,
  HANDSHAKES_UNPROVEN,
  MEMORY_REGIONS,
  PEERS,
  STAGING_BUFFERS,
  STAGING_TIMEOUT_US,
} from '../../../firmware/board/limits.ts'
import { SIGNALED } from '../../../firmware/host/element.ts'
import { HEADER_QUEUES } from '../../../firmware/host/header-page.ts'
import { Z2_DEPTH, ZONE2_BYTES } from '../../../firmware/host/queue-info.ts'
import { PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { CM_RTU } from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { batchFrames } from '../../support/cards/batch-card.ts'
import { failFence } from '../../support/cards/fences.ts'
import { MessageCard } from '../../support/cards/message-card.ts'
import { placedInPieces, statePieces } from '../../support/cards/pieces.ts'
import { attachedAgent, believe, placed, tellAgent } from '../../support/cards/placed.ts'
import { dataOf, persistFrames, readFrame, TestCard } from '../../support/cards/test-card.ts'
import { PLACES_ALONE, Stranger } from '../../support/peers/strangers.ts'
import { RawAgentQueues } from '../../support/queues/agent-host.ts'
import { nop, nopHost } from '../../support/queues/nop-queues.ts'
import { createCq, destroy, hostOf, register } from '../../support/queues/queue-calls.ts'
import { elementOf, QueueHost } from '../../support/queues/queue-host.ts'
import { OnDemandHost } from '../../support/residency/on-demand.ts'
import { guests } from '../../support/sessions/closed-card.ts'
import { Guest } from '../../support/sessions/guest.ts'
import { add, keeping, remove } from '../../support/sessions/peer-calls.ts'
import { ADMIN, CARD, keyPair, NOBODY, READER } from '../../support/sessions/peers.ts'
import { farIdentity, InsideWire, NEAR } from '../../support/sessions/relay-inside.ts'
import { connectTagged } from '../../support/sessions/tagged.ts'
import { CLIENT, idsFrame, PORT, publish, repOf, reqFrame } from '../../support/wire/cm.ts'
import type { PersistOptions } from '../../support/wire/conversation.ts'
import { type Setting, setting, slotOffset } from '../../support/wire/requests.ts'
import { type Ledger, mix } from './ledger.ts'

/** A card behind its seed, and frames whose neighbours are worth a look. */
interface Led {
  readonly card: Pick<TestCard, 'serve' | 'idle' | 'must'>
  readonly frames?: readonly Uint8Array[]
  /** The fault of a control call's answer, where that is no refusal and hence not counted. */
  readonly answered?: string
  /** Who may ask for counters, where that is not everybody. */
  readonly asks?: Pick<TestCard, 'must'>
}

const RECORDS = [1, 2].map((slot) => ({ slot, data: dataOf(8, slot) }))
const BYTES = { name: 'bytes', kind: mad.KIND_BYTES, length: 4096 }

function sent(card: TestCard, frames: readonly Uint8Array[]): Led {
  card.serve(...frames)
  return { card, frames }
}

/** A card one of whose records has no copy that can be read. */
function lost(): Setting {
  const one = setting()
  for (const copy of [0, 1]) one.card.nvdimm.poison(slotOffset(one.region, copy, 0) / 64)
  one.card.scan(one.region.id)
  return one
}

/** The part on a card that starts again, and a record for its first region. */
function again(nvdimm: Nvdimm, options: PersistOptions = {}): Led {
  const card = new TestCard(nvdimm)
  const region = card.open()
  return sent(card, persistFrames(card.connect(), region, 0, dataOf(64, 1), options))
}

export const SEEDS: Readonly<Record<string, () => Led>> = {
  STAGING: () => {
    const { card, region, qp } = setting({ capacity: 300 }, 256)
    for (let i = 0; i < STAGING_BUFFERS; i++) {
      card.serve(persistFrames(card.connect(256), region, i % 8, dataOf(300, i))[0]!)
    }
    return sent(card, persistFrames(qp, region, 0, dataOf(300, 1)))
  },
  BATCH_ROOM: () => {
    const { card, region, qp } = setting()
    for (let i = 0; i < BATCHES; i++) card.serve(batchFrames(card.connect(), region, RECORDS)[0]!)
    return sent(card, batchFrames(qp, region, RECORDS))
  },
  BATCH_REGION: () => {
    const { card, qp } = setting()
    const region = card.provision({ ...BYTES, flags: mad.REGION_WRITE_PERSIST })
    return sent(card, batchFrames(qp, region, RECORDS))
  },
  MEDIA: () => {
    const { card, region, qp } = setting()
    card.nvdimm.refuseWrites(slotOffset(region, 0, 0) / 64)
    return sent(card, persistFrames(qp, region, 0, dataOf(64, 1)))
  },
  IN_DOUBT: () => {
    const { card, region, qp } = setting()
    failFence(card, 2)
    return sent(card, persistFrames(qp, region, 0, dataOf(64, 1)))
  },
  UNREADABLE: () => {
    const { card, region, qp } = setting()
    const bytes = card.provision(BYTES)
    card.nvdimm.poison(slotOffset(region, region.copies, 0) / 64)
    return sent(card, [readFrame(qp, bytes, 0, 0, 8)])
  },
  UNSETTLED_READ: () => {
    const { card, region, qp } = lost()
    return sent(card, [readFrame(qp, region, 0, 0, 8)])
  },
  READ_ONLY: () => {
    const { card, region, qp } = lost()
    return sent(card, persistFrames(qp, region, 3, dataOf(64, 1)))
  },
  TRUNCATED: () => {
    const content = new TestCard(1 << 18).format().nvdimm.live.subarray(0, 1 << 17)
    const card = new TestCard(new Nvdimm({ bytes: content.length, content }))
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    return { card }
  },
  GUARD: () => {
    const { card, region, qp } = setting()
    return sent(card, persistFrames(qp, region, 0, dataOf(64, 1), { guard: 1 }))
  },
  NO_RECEIVE: () => {
    const one = new MessageCard()
    return sent(one.card, batchFrames(one.qp, one.region, [one.message(dataOf(8, 1))]))
  },
  PORT_TAKEN: () => {
    const { card } = setting()
    publish(card, { name: 'records', form: mad.FORM_CAPABILITY })
    publish(new Stranger(card, 66), { port: PORT, form: mad.FORM_NONE })
    return { card }
  },
  RECORD_LENGTH: () => {
    const { card, region, qp } = setting({ capacity: 64 })
    return sent(card, persistFrames(qp, region, 0, dataOf(65, 1)))
  },
  LEVEL: () => {
    const { card, region, qp } = setting()
    return sent(card, persistFrames(qp, region, 0, dataOf(64, 1), { wait: 3 }))
  },
  FIXED_LENGTH: () => {
    const { card, region, qp } = setting({ flags: mad.REGION_FIXED_LENGTH })
    return sent(card, persistFrames(qp, region, 0, dataOf(63, 1)))
  },
  SUPERBLOCK: () => {
    const { nvdimm } = setting().card
    nvdimm.refuseWrites(0)
    return again(nvdimm)
  },
  OPERATION_FORGOTTEN: () => {
    const { nvdimm } = setting().card
    // A save that failed: the table is void.
    nvdimm.dirtyShutdowns += 1
    return again(nvdimm, { repetition: true })
  },
  MESSAGE_TIME: () => {
    const { card, region, qp } = setting({ capacity: 300 }, 256)
    const led = sent(card, persistFrames(qp, region, 0, dataOf(300, 1)).slice(0, 1))
    card.pass(STAGING_TIMEOUT_US + 1)
    return led
  },
  UNDER_WAY: () => {
    const card = new TestCard(1 << 22).format()
    const { fault } = card.tryProvision({ slots: 8192 })
    return { card, answered: fault }
  },
  NEWER: () => {
    const content = new TestCard(1 << 18).format().nvdimm.live.slice()
    // The version, on both pages.
    for (const page of [0, 4096]) content.set([7, 0, 0, 0], page + 24)
    const card = new TestCard(new Nvdimm({ bytes: content.length, content }))
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    return { card }
  },
  STALE_CONNECTION: () => {
    const card = new TestCard(1 << 18).format()
    card.provision(BYTES)
    publish(card)
    const { localId } = repOf(card.serve(reqFrame(CLIENT)))
    card.serve(idsFrame(CLIENT, CM_RTU, localId))
    return sent(card, [reqFrame({ ...CLIENT, localId: 5 })])
  },
  PLACEMENT_WRONG: () => {
    const { card, region, qp } = placed()
    believe(card, PLACEMENT_THROUGH)
    return sent(card, persistFrames(qp, region, 0, dataOf(64, 1)))
  },
  NO_AGENT: () => {
    const { card, region, qp } = placed(DDIO_ON)
    tellAgent(card, mad.AGENT_DETACH, 0)
    return sent(card, persistFrames(qp, region, 0, dataOf(64, 1)))
  },
  BELL: () => {
    const made = placed(DDIO_ON)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    made.agent!.queues.postFinished(2 ** 32 - 1)
    for (let i = 0; i < 5; i++) card.idle()
    return { card, frames: persistFrames(qp, region, 1, dataOf(64, 2)) }
  },
  OWN_HOST: () => {
    const link = new PcieLink()
    const part = new Nvdimm({ bytes: 1 << 20 })
    const memory = new HostMemory({ part, platform: DDIO_ON, link })
    const card = new TestCard(1 << 18, { host: memory, ram: new HostRam(1 << 20, link) }).format()
    believe(card, PLACEMENT_THROUGH)
    const host = new QueueHost(card).init(64)
    attachedAgent(card, new RawAgentQueues(host))
    const region = card.provision({ placement: PLACEMENT_THROUGH })
    const { send } = host.createQp(host.createCq(64))
    const inline = dataOf(64, 1)
    const fields = { opcode: 1, rkey: region.rkey, operation: 1, wait: 2, flags: SIGNALED }
    host.post(send, elementOf({ ...fields, inline }))
    host.ring(send)
    host.run()
    return { card }
  },
  PAGE_ABSENT: () => {
    const host = new OnDemandHost()
    const { rkey } = host.registerOnDemand({ base: 0 })
    return sent(host.card, [readFrame(host.card.connect(), rkey, 0, 0, 8)])
  },
  ON_DEMAND_FULL: () => {
    const host = new OnDemandHost()
    for (let i = 0; i < 9; i++) host.tryRegister({ name: `r${i}`, length: 4096 })
    return { card: host.card }
  },
  PAGE: () => {
    const host = new OnDemandHost()
    host.map(host.registerOnDemand({ base: 0 }), [[1 << 20, 5]])
    return { card: host.card }
  },
  QUEUE_PAIRS_FULL: () => {
    const card = new TestCard(1 << 18).format()
    const region = card.provision()
    const pairs = Array.from({ length: PLACES_ALONE }, () => card.connect())
    for (const qp of pairs) card.serve(...persistFrames(qp, region, 0, dataOf(8, 1)))
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
      body.set([0, 0, 9, 9, 0, 0, 0, 0, 4, 0], mad.CONNECT_CLIENT_QP)
      body[mad.CONNECT_CLIENT_ID_LOW + 3] = 1
    })
    return { card }
  },
  QUEUE_DEPTH: () => {
    const card = new TestCard(1 << 18).format()
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
      body.set([0, 0, 9, 9, 0, 0, 0, 0, 4, 0], mad.CONNECT_CLIENT_QP)
      body[mad.CONNECT_CLIENT_SEND_DEPTH + 1] = 1
    })
    return { card }
  },
  PIECES: () => {
    const { card } = placedInPieces(DDIO_OFF, [
      [9, 2],
      [3, 2],
    ])
    statePieces(card, [[3, 4]])
    return { card }
  },
  NO_SPACE: () => {
    const card = new TestCard(1 << 18).format()
    card.tryProvision({ slots: 1 << 20, capacity: 65536 })
    return { card }
  },
  ATTACH_FAILED: () => {
    const card = new TestCard(1 << 18).format()
    const attach = (): void => {
      card.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, (body) => {
        body.set(new TextEncoder().encode('far'), mad.REGION_NAME)
        body[mad.ATTACH_IP_VERSION] = 4
        body.set([0x1d, 0x2f, 10, 0, 0, 9], mad.ATTACH_PORT)
        body[mad.ATTACH_CLIENT_LOW] = 3
      })
    }
    for (let i = 0; i < 60; i++) {
      attach()
      card.pass(2_000_000)
    }
    return { card }
  },
  CARD_KEYLESS: () => {
    const card = new TestCard(1 << 18).format()
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, (body) => {
      body.set(new TextEncoder().encode('far'), mad.REGION_NAME)
      body[mad.ATTACH_IP_VERSION] = 4
      body.set(CARD.public, mad.ATTACH_KEY)
    })
    return { card }
  },
  RELAY_REFUSED: () => {
    const wire = new InsideWire({ a: NEAR, b: farIdentity(null) })
    wire.enter()
    return { card: wire.a, asks: wire.guest }
  },
  QUEUE_BUSY: () => {
    const host = hostOf().init(16)
    const cq = host.createCq(16)
    host.createQp(cq, { units: 8 })
    destroy(host, cq)
    return { card: host.card }
  },
  QUEUE_CONTEXT: () => {
    const { host, sqs } = nopHost()
    host.view.setUint32(host.zone2At + sqs[0]! * ZONE2_BYTES + Z2_DEPTH, 7, true)
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.run()
    return { card: host.card }
  },
  QUEUES_FULL: () => {
    const host = hostOf().init(8)
    for (let i = 0; i < 8; i++) createCq(host)
    return { card: host.card }
  },
  REGIONS_OF_HOST_FULL: () => {
    const host = hostOf().init()
    const at = host.allocate(4096)
    for (let i = 0; i <= MEMORY_REGIONS; i++) register(host, at, i + 1)
    return { card: host.card }
  },
  HEADER_PAGE: () => {
    const host = hostOf()
    host.layOut(16, 0)
    host.putHeader(HEADER_QUEUES, 1)
    host.enable()
    host.run()
    return { card: host.card }
  },
  COMPLETION_OVERRUN: () => {
    const { host, sqs } = nopHost({ entries: 4, depth: 16 })
    for (let i = 0; i < 7; i++) host.post(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.run()
    return { card: host.card }
  },
  NO_SESSION: () => {
    const { card, writer, admin } = guests()
    writer.inTheClear(mad.METHOD_GET, mad.ATTRIBUTE_COUNTERS)
    const frame = writer.callFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    return { card, frames: [frame], asks: admin }
  },
  SEAL_BROKEN: () => {
    const { card, writer, admin } = guests()
    const frame = writer.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    card.serve(frame)
    card.serve(frame)
    return { card, frames: [frame], asks: admin }
  },
  HANDSHAKE: () => {
    const { card, writer, admin } = guests()
    writer.inTheClear(mad.METHOD_SET, mad.ATTRIBUTE_HANDSHAKE, (body) => body.fill(7))
    return { card, frames: [writer.firstMessage().frame], asks: admin }
  },
  PEER_UNKNOWN: () => {
    const { card, admin } = guests()
    new Guest(card, NOBODY).shake()
    return { card, asks: admin }
  },
  FORBIDDEN: () => {
    const { card, writer, admin } = guests()
    writer.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    return { card, asks: admin }
  },
  OPEN_CARD: () => {
    const card = new TestCard(1 << 18).format()
    card.manage(mad.METHOD_SET, mad.ATTRIBUTE_HANDSHAKE)
    return { card }
  },
  NO_PEER: () => {
    const { card, admin } = keeping()
    remove(admin, NOBODY.public)
    return { card, asks: admin }
  },
  PEER_TAKEN: () => {
    const { card, admin } = keeping()
    add(admin, { name: 'reader', rights: 1 })
    return { card, asks: admin }
  },
  PEERS_FULL: () => {
    const { card, admin } = keeping()
    for (let i = 3; i <= PEERS; i++) {
      add(admin, { key: keyPair(30 + i).public, name: `${i}`, rights: 1 })
    }
    return { card, asks: admin }
  },
  PEERS_FIXED: () => {
    const { kept, card, admin } = keeping()
    kept.refuses = NOT_KEPT
    remove(admin, READER.public)
    return { card, asks: admin }
  },
  LAST_ADMIN: () => {
    const { card, admin } = keeping()
    remove(admin, ADMIN.public)
    return { card, asks: admin }
  },
  STOCK_UNSAID: () => {
    const { card, admin } = guests()
    publish(admin)
    return { card, asks: admin }
  },
  COOKIE: () => {
    const { card, writer, admin } = guests()
    for (let i = 0; i < HANDSHAKES_UNPROVEN; i++) {
      writer.inTheClear(mad.METHOD_SET, mad.ATTRIBUTE_HANDSHAKE, (body) => body.fill(i))
    }
    return { card, frames: [writer.firstMessage().frame], asks: admin }
  },
  NO_TAG: () => {
    const { card, writer, admin } = guests()
    const { qp } = connectTagged(writer)
    const frames = persistFrames(qp, admin.openAsIs('records'), 0, dataOf(64, 1))
    card.serve(...frames)
    return { card, frames, asks: admin }
  },
}

/** Around each seed, so many variations. */
const VARIATIONS = 40

/** Plays every seed and what is near it; a seed that does not lead to its reason is a complaint. */
export function playCorpus(ledger: Ledger, seed: number): void {
  const random = new Random(seed)
  for (const [reason, lead] of Object.entries(SEEDS)) {
    ledger.see(mix(1, ledger.inputs))
    ledger.seeds++
    try {
      const { card, frames = [], answered, asks = card } = lead()
      const counted = answered === reason ? 1 : counterOf(asks, reason)
      if (counted === 0) ledger.object(`the corpus does not lead to ${reason}`, '')
      ledger.refusals[FAULT_NUMBERS.get(reason)!]! += counted
      vary(ledger, card, frames, random)
    } catch (error) {
      const stack = error instanceof Error ? (error.stack ?? '') : String(error)
      const where = stack.split('\n').slice(0, 3).join(' ')
      ledger.object(`around ${reason} something threw: ${where}`, `corpus/${seed}/1`)
    }
  }
}

/** How often a card has met it, asked over the wire. */
function counterOf(card: Pick<TestCard, 'must'>, reason: string): number {
  const index = FAULT_NUMBERS.get(reason)!
  const body = card.must(mad.METHOD_GET, mad.ATTRIBUTE_COUNTERS, undefined, index)
  return u32(body, mad.COUNTERS_FIRST + 4)
}

const FAULT_NUMBERS = new Map(FAULTS.map(({ name }, fault) => [name, fault]))

function vary(
  ledger: Ledger,
  card: Led['card'],
  frames: readonly Uint8Array[],
  random: Random,
): void {
  for (let i = 0; i < VARIATIONS && frames.length > 0; i++) {
    const frame = frames[random.below(frames.length)]!.slice()
    const at = 42 + random.below(frame.length - 46)
    frame[at] = random.below(256)
    fillIcrc(frame, 0, frame.length)
    ledger.see(mix(mix(2, at), frame[at]! + 256 * ledger.inputs))
    card.serve(frame)
    card.idle()
  }
}
