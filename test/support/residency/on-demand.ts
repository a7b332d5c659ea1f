/**
 * A raw host whose card serves memory of it that is registered on demand: the calls field by field,
 * a pager by hand, and what the card asks for.
 */

import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import * as page from '../../../firmware/host/header-page.ts'
import { REMOTE_READ, REMOTE_WRITE } from '../../../firmware/medium/region.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, readFrame, type Sent, sentOf, type TestPeer } from '../cards/test-card.ts'
import { type Answered, CardHost } from '../queues/queue-calls.ts'
import { putU64 } from '../queues/queue-host.ts'
import { isRoce } from '../wire/frames.ts'
import { writeFrames } from '../wire/requests.ts'

/** RNR NAK with the time that a page is given, 0.32 ms. */
export const RNR_PAGE = 0x2a
/** The registered base of the regions here, beyond 32 bits. */
export const BASE = 0x7f00_0001_0000

export interface OnDemandFields {
  readonly name?: string
  readonly length?: number
  readonly base?: number
  readonly domain?: number
  readonly rights?: number
  /** Virtual address that the IOMMU translates. */
  readonly shared?: number
}

export interface OnDemand {
  readonly rkey: number
  readonly place: number
  readonly base: number
  readonly shared?: number | undefined
}

/** Pages that the card asked for. */
interface Wanted {
  readonly rkey: number
  readonly first: number
  readonly count: number
}

type Ask = (attribute: number, fill: (body: Uint8Array) => void) => Answered

export function fillOnDemand(fields: OnDemandFields = {}): (body: Uint8Array) => void {
  return (body) => {
    body.set(new TextEncoder().encode(fields.name ?? 'heap'), mad.ON_DEMAND_NAME)
    putU64(body, mad.ON_DEMAND_LENGTH, fields.length ?? 16 * PAGE_BYTES)
    putU64(body, mad.ON_DEMAND_BASE_HIGH, fields.base ?? BASE)
    putU16(body, mad.ON_DEMAND_DOMAIN, fields.domain ?? 0)
    putU16(body, mad.ON_DEMAND_RIGHTS, fields.rights ?? REMOTE_READ | REMOTE_WRITE)
    if (fields.shared === undefined) return
    body[mad.ON_DEMAND_FLAGS] = mad.ON_DEMAND_SHARED
    putU64(body, mad.ON_DEMAND_SHARED_HIGH, fields.shared)
  }
}

export function fillMap(
  rkey: number,
  sequence: number,
  entries: readonly (readonly [page: number, frame: number])[],
): (body: Uint8Array) => void {
  return (body) => {
    putU32(body, mad.MAP_RKEY, rkey)
    putU32(body, mad.MAP_SEQUENCE, sequence)
    putU32(body, mad.MAP_COUNT, entries.length)
    entries.slice(0, mad.MAP_MAX).forEach(([number, frame], i) => {
      putU32(body, mad.MAP_FIRST + i * mad.MAP_ENTRY_BYTES, number)
      putU32(body, mad.MAP_FIRST + i * mad.MAP_ENTRY_BYTES + 4, frame)
    })
  }
}

export function fillUnmap(
  rkey: number,
  sequence: number,
  pages: readonly number[],
): (body: Uint8Array) => void {
  return (body) => {
    putU32(body, mad.UNMAP_RKEY, rkey)
    putU32(body, mad.UNMAP_SEQUENCE, sequence)
    putU32(body, mad.UNMAP_COUNT, pages.length)
    pages.slice(0, mad.UNMAP_MAX).forEach((number, i) => {
      putU32(body, mad.UNMAP_FIRST + i * mad.UNMAP_ENTRY_BYTES, number)
    })
  }
}

/** The host, its card with one region of records, and a queue pair to it over the wire. */
export class OnDemandHost extends CardHost {
  /** Of MAP and UNMAP of all regions. */
  sequence = 0
  /** Every RoCEv2 frame that the card has sent since `keepLog`, also while it served a call. */
  readonly log: Sent[] = []
  private seen = 0

  constructor(ramBytes: number = 4 << 20) {
    super(ramBytes)
    this.init()
    this.card.format()
  }

  keepLog(): this {
    this.card.machine.observe({
      trace: (bytes) => {
        if (bytes.length > COMMAND_BYTES && isRoce(bytes)) this.log.push(sentOf(bytes))
      },
    })
    return this
  }

  call: Ask = (attribute, fill) => this.manage(mad.METHOD_SET, attribute, fill)

  tryRegister(fields: OnDemandFields = {}): Answered {
    return this.call(mad.ATTRIBUTE_ON_DEMAND, fillOnDemand(fields))
  }

  registerOnDemand(fields: OnDemandFields = {}): OnDemand {
    const { fault, body } = this.tryRegister(fields)
    if (fault !== 'PASS') throw new Error(`the memory was not registered: ${fault}`)
    return {
      rkey: u32(body, mad.ON_DEMAND_RKEY),
      place: u32(body, mad.ON_DEMAND_PLACE),
      base: fields.base ?? BASE,
      shared: fields.shared,
    }
  }

  /** Free frames, one behind the other; their numbers. */
  frames(count: number): number[] {
    const at = this.allocate(count * PAGE_BYTES, PAGE_BYTES)
    return Array.from({ length: count }, (_, i) => at / PAGE_BYTES + i)
  }

  /** MAP; the name of the fault. */
  map(
    region: { readonly rkey: number },
    entries: readonly (readonly [page: number, frame: number])[],
    sequence: number = ++this.sequence,
  ): string {
    return this.call(mad.ATTRIBUTE_MAP, fillMap(region.rkey, sequence, entries)).fault
  }

  /** UNMAP; the name of the fault. */
  unmap(
    region: { readonly rkey: number },
    pages: readonly number[],
    sequence: number = ++this.sequence,
  ): string {
    return this.call(mad.ATTRIBUTE_UNMAP, fillUnmap(region.rkey, sequence, pages)).fault
  }

  endOnDemand(rkey: number): string {
    return this.call(mad.ATTRIBUTE_ON_DEMAND_END, (body) => {
      putU32(body, mad.ON_DEMAND_END_RKEY, rkey)
    }).fault
  }

  tellState(rkey: number, kind: number): string {
    return this.call(mad.ATTRIBUTE_ON_DEMAND_STATE, (body) => {
      putU32(body, mad.ON_DEMAND_STATE_RKEY, rkey)
      body[mad.ON_DEMAND_STATE_KIND] = kind
    }).fault
  }

  /** What the card has asked for, or told by events of these types, since this was called last. */
  wanted(...types: number[]): Wanted[] {
    const asks = types.length > 0 ? types : [page.EVENT_PAGES_WANTED, page.EVENT_PAGES_HINTED]
    const wanted: Wanted[] = []
    for (;;) {
      const at = this.eventsAt + (this.seen & (EVENTS - 1)) * page.EVENT_BYTES
      const word = (offset: number): number => this.view.getUint32(at + offset, true)
      if (word(page.EVENT_STAMP) !== this.seen + 1) break
      const count = word(page.EVENT_TYPE) >>> 16
      if (asks.includes(word(page.EVENT_TYPE) & 0xff)) {
        wanted.push({ rkey: word(page.EVENT_QUEUE), first: word(page.EVENT_FAULT), count })
      }
      this.seen += 1
    }
    this.putHeader(page.HEADER_EVENTS_TAKEN, this.seen)
    return wanted
  }

  /** The bytes of a frame as the host sees them. */
  frame(number: number): Uint8Array {
    return this.bytes.subarray(number * PAGE_BYTES, (number + 1) * PAGE_BYTES)
  }

  /** A WRITE of the data at that offset of the region; the card's answers. */
  write(
    qp: TestPeer,
    region: OnDemand,
    offset: number,
    data: Uint8Array,
    options: Parameters<typeof writeFrames>[4] = {},
  ): Sent[] {
    return this.card.serve(...this.writes(qp, region, offset, data, options))
  }

  writes(
    qp: TestPeer,
    region: OnDemand,
    offset: number,
    data: Uint8Array,
    options: Parameters<typeof writeFrames>[4] = {},
  ): Uint8Array[] {
    const [vaHigh, vaLow] = words(region.base + offset)
    return writeFrames(qp, region, vaLow, data, { vaHigh, ...options })
  }

  reads(qp: TestPeer, region: OnDemand, offset: number, length: number): Uint8Array {
    const [vaHigh, vaLow] = words(region.base + offset)
    return readFrame(qp, region, vaHigh, vaLow, length)
  }

  /** As `card.serve`, and everything that the card goes on to send of its own accord. */
  serveAll(...frames: Uint8Array[]): Sent[] {
    const sent = [...this.card.serve(...frames)]
    for (let i = 0; this.card.waitUs === 1 && i < 5000; i++) sent.push(...this.card.pass(1))
    return sent
  }
}

/** What is traced of a command; frames are longer. */
const COMMAND_BYTES = 48
/** As the host lays its ring out. */
const EVENTS = 1024

/** The two words of an address. */
export function words(address: number): [high: number, low: number] {
  return [Math.floor(address / 2 ** 32), address % 2 ** 32]
}

/** The bytes of READ responses, put together. */
export function payloadOf(sent: readonly Sent[]): Uint8Array {
  const parts = sent.filter(({ opcode }) => opcode >= 0x0d && opcode <= 0x10)
  return Uint8Array.from(parts.flatMap(({ payload }) => [...payload]))
}

/** Fills frames with data of their own; what the pages then hold, one behind the other. */
export function fill(host: OnDemandHost, frames: readonly number[], seed: number): Uint8Array {
  const all = dataOf(frames.length * PAGE_BYTES, seed)
  frames.forEach((frame, i) => {
    host.frame(frame).set(all.subarray(i * PAGE_BYTES, (i + 1) * PAGE_BYTES))
  })
  return all
}
