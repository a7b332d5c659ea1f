/**
 * A card behind a raw host that is told what batches store: asked, sent batches, and read.
 */

import * as el from '../../../firmware/host/element.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { TestPeer, TestRegion } from '../cards/test-card.ts'
import { readyHost } from './local-queue.ts'
import type { CardHost } from './queue-calls.ts'
import type { Cqe, QueueHost } from './queue-host.ts'

/** An entry, as it is easily compared. */
interface Notice {
  readonly region: number
  readonly says: 'record' | 'burst' | 'missed' | 'over' | 'missed and over'
  /** Records of a burst, or that were missed; 1 of a record. */
  readonly records: number
  readonly batch: number
  readonly count: number
  readonly index: number
  readonly slots: readonly [lowest: number, highest: number]
  readonly operation: number
  readonly client: number
  readonly sequence: bigint
  readonly copies: number
  readonly mechanism: number
  readonly status: number
  readonly all: boolean
}

/** What the host asks for: of each record, of bursts, or an end. */
type Each = 'record' | 'burst' | 'nothing'

const EACH: Readonly<Record<Each, number>> = {
  record: mad.NOTICES_RECORD,
  burst: mad.NOTICES_BURST,
  nothing: mad.NOTICES_NONE,
}

export interface NoticeSetting {
  readonly host: CardHost
  readonly region: TestRegion
  readonly qp: TestPeer
  readonly cq: number
}

/** A card with a region, a peer of it, and a host that has a queue for notices. */
export function noticeSetting(entries = 64, count = 0, periodUs = 0): NoticeSetting {
  const host = readyHost()
  const region = host.card.provision({ slots: 300 })
  return { host, region, qp: host.card.connect(4096), cq: host.createCq(entries, count, periodUs) }
}

/** Asks to be told; what the card has answered. */
export function askNotices(
  host: QueueHost,
  region: Pick<TestRegion, 'id'>,
  queue: number,
  each: Each | number,
): { fault: string; missed: number; sequence: bigint } {
  const { fault, body } = host.manage(mad.METHOD_SET, mad.ATTRIBUTE_BATCH_NOTICES, (request) => {
    putU32(request, mad.NOTICES_REGION, region.id)
    putU32(request, mad.NOTICES_QUEUE, queue)
    request[mad.NOTICES_EACH] = typeof each === 'number' ? each : EACH[each]
  })
  const sequence = bigOf(u32(body, mad.NOTICES_SEQUENCE), u32(body, mad.NOTICES_SEQUENCE + 4))
  return { fault, missed: u32(body, mad.NOTICES_MISSED), sequence }
}

/** As `askNotices`, of the setting; what is refused is an error. */
export function watched(setting: NoticeSetting, each: Each): NoticeSetting {
  const { fault } = askNotices(setting.host, setting.region, setting.cq, each)
  if (fault !== 'PASS') throw new Error(`notices: ${fault}`)
  return setting
}

/** Takes the notices that are there. */
export function noticesIn(host: QueueHost, cq: number): Notice[] {
  return host.poll(cq).map((cqe) => noticeOf(cqe, cq))
}

/** Calls of the firmware until it is idle; more is a loop. */
const CALLS_MAX = 10_000

/** Lets so many µs go by, and the card be idle. */
export function rest({ card }: CardHost, us: number): void {
  card.pass(us)
  for (let calls = 0; card.waitUs === 1; calls++) {
    if (calls === CALLS_MAX) throw new Error('the card is never idle')
    card.idle()
  }
}

function bigOf(high: number, low: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low)
}

function noticeOf(cqe: Cqe, cq: number): Notice {
  if (cqe.opcode !== el.CQE_NOTICE || cqe.queue !== cq || cqe.status !== el.WC_SUCCESS) {
    throw new Error(`no notice: ${JSON.stringify(cqe)}`)
  }
  const isMissed = (cqe.flags & el.NOTICE_MISSED) !== 0
  const isOver = (cqe.flags & el.NOTICE_OVER) !== 0
  const isRecord = (cqe.flags & el.NOTICE_RECORD) !== 0
  const isMark = isMissed || isOver
  if (isMark === ((cqe.flags & el.DURABLE) !== 0)) throw new Error(`durable? ${cqe.flags}`)
  const mark = isMissed ? (isOver ? 'missed and over' : 'missed') : 'over'
  return {
    region: cqe.unit,
    says: isMark ? mark : isRecord ? 'record' : 'burst',
    records: isRecord ? 1 : cqe.length,
    batch: cqe.immediate & 0xffff,
    count: isMark ? 0 : (cqe.immediate >>> 24) + 1,
    index: (cqe.immediate >>> 16) & 0xff,
    slots: [cqe.address % 2 ** 32, Math.floor(cqe.address / 2 ** 32)],
    operation: cqe.operation,
    client: Number(bigOf(cqe.psn, cqe.source)),
    sequence: bigOf(cqe.incarnation, cqe.pointer),
    copies: cqe.copies,
    mechanism: cqe.mechanism,
    status: cqe.refusal,
    all: (cqe.flags & el.NOTICE_ALL) !== 0,
  }
}
