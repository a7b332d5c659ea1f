/**
 * A part is booted the whole way, and asked over the wire: its state, its report, its records, and
 * which operations it knows.
 *
 * Invariant: each boot has a new machine and a new state; only the packet memory is used
 * again, zeroed.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import { EmulatedMachine, type Watch } from '../../../boards/emulator/run/machine.ts'
import type { Facts } from '../../../firmware/board/hal.ts'
import { MEMORY_BYTES, STAGING_AT } from '../../../firmware/board/memory-map.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_QUERY, UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { placeAll, readFrame, type Sent, sentOf, type TestCard } from '../cards/test-card.ts'
import { frameOf } from '../wire/frames.ts'
import { REGION } from './part.ts'

/** A line of the recovery report. */
export interface ReportLine {
  readonly region: number
  readonly lane: number
  readonly row: number
  readonly action: number
  readonly sourceCase: number
  readonly validMask: number
  readonly flags: number
  readonly record: number
  readonly linesRead: number
}

/** The entries of one REPORT answer. */
export function reportLines(body: Uint8Array): ReportLine[] {
  return Array.from({ length: u32(body, mad.REPORT_HERE) }, (_, i) => {
    const at = mad.REPORT_FIRST + i * mad.REPORT_ENTRY_BYTES
    return {
      region: body[at + mad.ENTRY_REGION]! * 256 + body[at + mad.ENTRY_REGION + 1]!,
      lane: body[at + mad.ENTRY_LANE]!,
      row: body[at + mad.ENTRY_ROW]!,
      action: body[at + mad.ENTRY_ACTION]!,
      sourceCase: body[at + mad.ENTRY_SOURCE]!,
      validMask: body[at + mad.ENTRY_VALID]!,
      flags: body[at + mad.ENTRY_FLAGS]!,
      record: u32(body, at + mad.ENTRY_RECORD),
      linesRead: u32(body, at + mad.ENTRY_LINES_READ),
    }
  })
}

/** The whole report of a card's last start. */
export function recoveryReport(card: TestCard): ReportLine[] {
  const lines: ReportLine[] = []
  for (;;) {
    const body = card.must(mad.METHOD_GET, mad.ATTRIBUTE_REPORT, undefined, lines.length)
    lines.push(...reportLines(body))
    if (lines.length >= u32(body, mad.REPORT_TOTAL)) return lines
  }
}

/** A control call, as a frame. */
function callFrame(
  attribute: number,
  method: number,
  fill: (body: Uint8Array) => void = () => {},
): Uint8Array {
  const payload = new Uint8Array(mad.MAD_BYTES)
  mad.writeMad(payload, 0, { ...mad.blankMad(), method, attribute, transactionLow: attribute })
  fill(payload.subarray(mad.MAD_BODY))
  const bth = { opcode: UD_SEND_ONLY, destQp: 1 }
  return frameOf({ bth, deth: { qkey: Q_KEY_GSI, sourceQp: 1 }, payload })
}

const CLIENT_QP = 0x777
const MTU = 4096

/** The clients that an actor plays, and that ask a rebooted card what became of their writes. */
const CLIENTS_ASKING = [7, 8]

/** What every rebooted card is asked first: its state, and its report. */
const QUESTIONS: readonly Uint8Array[] = [
  callFrame(mad.ATTRIBUTE_STATUS, mad.METHOD_GET),
  callFrame(mad.ATTRIBUTE_REPORT, mad.METHOD_GET),
]

const CONNECTS: readonly Uint8Array[] = CLIENTS_ASKING.map((client, i) =>
  callFrame(mad.ATTRIBUTE_CONNECT, mad.METHOD_SET, (body) => {
    putU32(body, mad.CONNECT_CLIENT_QP, CLIENT_QP + i)
    putU16(body, mad.CONNECT_PATH_MTU, MTU)
    putU32(body, mad.CONNECT_CLIENT_ID_LOW, client)
  }),
)

const OPEN: Uint8Array = callFrame(mad.ATTRIBUTE_OPEN, mad.METHOD_GET, (body) => {
  body.set(Buffer.from(REGION), mad.REGION_NAME)
})

/** All of it, by how many clients connect; the region comes last, as only they are told its key. */
const GREETINGS: readonly (readonly Uint8Array[])[] = [0, ...CLIENTS_ASKING].map((_, clients) => [
  ...QUESTIONS,
  ...CONNECTS.slice(0, clients),
  OPEN,
])

/** What is known of a card that started. */
export interface Started {
  readonly state: number
  /** Why it was refused, or 0. */
  readonly fault: number
  readonly report: readonly ReportLine[]
  readonly unsettled: number
}

/** What a rebooted card said of itself. */
export interface Greeting extends Started {
  readonly rkey: number
  /** One queue pair for each of CLIENTS_ASKING. */
  readonly pairs: readonly { readonly qp: number; readonly psn: number }[]
}

/** Reads a whole slot over the wire; null after a NAK. */
export type Reader = (slot: number, length: number) => Uint8Array | null

/** Asks by PERSIST_QUERY: which of these operations of that client are known to be durable? */
export type Asker = (client: number, operations: readonly number[]) => boolean[]

/** What is done with a card that booted. */
export type Guest = (greeting: Greeting, read: Reader, ask: Asker) => void

/** Boots machines on a part, one inside the other where a recovery is itself cut. */
export class Booth {
  private readonly packets: Uint8Array[] = []
  private depth = 0
  /** How many of CLIENTS_ASKING connect. */
  clients = 1
  private readonly frames = new Map<string, Uint8Array>()

  /**
   * Boots, asks, reads the records, and hands everything to `use`; calls `booted` before it asks
   * anything.
   */
  boot(
    part: Nvdimm,
    facts: Facts,
    watch: Watch | null,
    use: Guest,
    booted: () => void = () => {},
  ): void {
    const packets = this.packets[this.depth] ?? new Uint8Array(MEMORY_BYTES)
    this.packets[this.depth] = packets
    // Single packets never reach the staging buffers behind.
    packets.fill(0, 0, STAGING_AT)
    this.depth += 1
    try {
      let sent: Uint8Array[] = []
      const transmit = (frame: Uint8Array): void => {
        sent.push(frame)
      }
      const ownFacts = { ...facts, dirtyShutdowns: part.dirtyShutdowns }
      const machine = new EmulatedMachine({ facts: ownFacts, nvdimm: part, transmit, packets })
      if (watch !== null) machine.observe(watch)
      const firmware = bootDirect(machine)
      booted()
      const serve = (frames: readonly Uint8Array[]): Sent[] => {
        sent = []
        placeAll(machine, frames)
        firmware.serve(frames.length, 10)
        return sent.map(sentOf)
      }
      const greeting = greetingOf(serve(GREETINGS[this.clients]!))
      const psns = greeting.pairs.map(({ psn }) => psn)
      const nextPsn = (pair: number): number => {
        const psn = psns[pair]!
        psns[pair] = (psn + 1) & 0xffffff
        return psn
      }
      const read: Reader = (slot, length) => {
        const answer = serve([this.readFrame(greeting, slot, nextPsn(0), length)])
        const data = answer.find((frame) => frame.opcode === 0x10)
        return data === undefined ? null : data.payload
      }
      const ask: Asker = (client, operations) => {
        const pair = CLIENTS_ASKING.indexOf(client)
        const frames = operations.map((operation) =>
          this.queryFrame(greeting, pair, nextPsn(pair), operation),
        )
        const answers = serve(frames).filter((frame) => frame.paeth?.query === true)
        return answers.map((frame) => frame.paeth!.status === 0)
      }
      use(greeting, read, ask)
    } finally {
      this.depth -= 1
    }
  }

  private queryFrame(to: Greeting, pair: number, psn: number, operation: number): Uint8Array {
    const { qp: destQp } = to.pairs[pair]!
    const name = `${destQp} ${psn} ${operation}`
    let frame = this.frames.get(name)
    if (frame === undefined) {
      const bth = { opcode: PERSIST_QUERY, destQp, psn, ackRequest: true }
      frame = frameOf({ bth, pqeth: { operationLow: operation } })
      this.frames.set(name, frame)
    }
    return frame
  }

  /** The READ of a whole slot: kept, as most images are asked the same. */
  private readFrame(to: Greeting, slot: number, psn: number, length: number): Uint8Array {
    const { qp: number } = to.pairs[0]!
    const name = `${to.rkey} ${number} ${psn} ${slot} ${length}`
    let frame = this.frames.get(name)
    if (frame === undefined) {
      const qp = { number, peer: CLIENT_QP, mtu: MTU, psn, operation: 0 }
      frame = readFrame(qp, to, slot, 0, length)
      this.frames.set(name, frame)
    }
    return frame
  }
}

function greetingOf(answers: readonly Sent[]): Greeting {
  const pairs: { qp: number; psn: number }[] = []
  const bodies = new Map<number, Uint8Array>()
  for (const answer of answers) {
    const header = mad.blankMad()
    mad.readMad(header, answer.payload, 0)
    const body = answer.payload.subarray(mad.MAD_BODY)
    if (header.fault !== 0) continue
    bodies.set(header.attribute, body)
    if (header.attribute !== mad.ATTRIBUTE_CONNECT) continue
    pairs.push({ qp: u32(body, mad.CONNECT_QP), psn: u32(body, mad.CONNECT_FIRST_PSN) })
  }
  const none = new Uint8Array(mad.MAD_BODY_BYTES)
  const status = bodies.get(mad.ATTRIBUTE_STATUS)!
  const open = bodies.get(mad.ATTRIBUTE_OPEN) ?? none
  return {
    state: status[mad.PART_STATE]!,
    fault: status[mad.PART_FAULT]!,
    report: reportLines(bodies.get(mad.ATTRIBUTE_REPORT) ?? none),
    unsettled: u32(open, mad.REGION_UNSETTLED),
    rkey: u32(open, mad.REGION_RKEY),
    pairs,
  }
}
