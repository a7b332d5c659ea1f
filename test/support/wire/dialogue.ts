/**
 * The core at a given place in a conversation: a queue pair with known numbers, a region of bytes
 * with a known key and address, and the frames of a stored scenario.
 *
 * Nothing else in the tests may choose a queue pair's number, its PSN or a region's key: a control
 * call draws them at random.
 */

import { readFileSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { type Facts, NVDIMM_SPACE, RECEIVE_AT, RECEIVED_AT } from '../../../firmware/board/hal.ts'
import { FRAME_OFFSET_BYTES, FRAME_STRIDE_BYTES } from '../../../firmware/board/limits.ts'
import { KEYS_AT } from '../../../firmware/board/memory-map.ts'
import { openPair } from '../../../firmware/burst/staging.ts'
import { receive, type State, settle } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import { boot } from '../../../firmware/manage/boot.ts'
import { BYTES_RIGHTS, KIND_BYTES, type Region } from '../../../firmware/medium/region.ts'
import { formatPart } from '../../../firmware/medium/superblock.ts'
import { prepareTemplate } from '../../../firmware/transport/acknowledge.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import type { QueuePair } from '../../../firmware/transport/queue-pair.ts'
import { blankAeth, readAeth } from '../../../firmware/wire/aeth.ts'
import { blankBth } from '../../../firmware/wire/bth.ts'
import { ETH_DESTINATION, MAC_BYTES } from '../../../firmware/wire/ethernet.ts'
import { IPV4_DESTINATION } from '../../../firmware/wire/ipv4.ts'
import { IPV6_DESTINATION } from '../../../firmware/wire/ipv6.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { FACTS, type Sent, sentOf } from '../cards/test-card.ts'
import { hex, hexOf } from './frames.ts'
import { readBth } from './headers.ts'

/** How a conversation begins. */
export interface Beginning {
  readonly localQp: number
  readonly remoteQp: number
  readonly expectedPsn: number
  readonly pathMtu: number
  readonly rkey: number
  readonly vaHigh: number
  readonly vaLow: number
  readonly length: number
}

/** What the stored dialogues begin with, and what a test takes that does not care. */
export const USUAL: Beginning = {
  localQp: 0x11,
  remoteQp: 0x123456,
  expectedPsn: 0x100,
  pathMtu: 1024,
  rkey: 0x00abcd77,
  vaHigh: 0x7000,
  vaLow: 0,
  length: 16384,
}

export class Dialogue {
  readonly nvdimm: Nvdimm = new Nvdimm({ bytes: 1 << 18 })
  readonly state: State
  readonly queuePair: QueuePair
  readonly region: Region
  private readonly machine: EmulatedMachine
  private sent: Sent[] = []
  private now = 0

  /** `example` is a frame from the peer: its addresses are the peer's and the card's. */
  constructor(beginning: Beginning, example: Uint8Array) {
    const facts = { ...FACTS, ...addressedBy(example), nvdimmBytes: this.nvdimm.bytes }
    const { nvdimm } = this
    const transmit = (frame: Uint8Array): void => {
      this.sent.push(sentOf(frame))
    }
    this.machine = new EmulatedMachine({ facts, nvdimm, transmit })
    this.state = createState(this.machine)
    boot(this.state)
    formatPart(this.state.list, this.state.superblock, new Uint8Array(16).fill(1), nvdimm.bytes)
    boot(this.state)
    this.region = this.addRegion(beginning)
    this.queuePair = openPair(this.state, beginning.localQp, {
      peerNumber: beginning.remoteQp,
      clientHigh: 0,
      clientLow: 1,
      pathMtu: beginning.pathMtu,
      protectionDomain: 0,
      expectedPsn: beginning.expectedPsn as Psn,
    })
    const at = this.place(0, example)
    const packet = blankPacket()
    checkPacket(packet, this.state.bytes, at, example.length)
    prepareTemplate(this.queuePair, this.state.bytes, packet)
  }

  private addRegion(from: Beginning): Region {
    const index = from.rkey & 31
    const region: Region = {
      ...{ index, id: index + 1, name: 'dialogue', kind: KIND_BYTES, slots: 0, capacity: 0 },
      ...{ copies: 1, flags: 0, protectionDomain: 0, stride: 0, at: 1 << 16 },
      ...{ placement: 0, base: NVDIMM_SPACE + (1 << 16) },
      ...{ areaBytes: from.length, baseHigh: from.vaHigh, baseLow: from.vaLow, keyAt: KEYS_AT },
      ...{ rkey: from.rkey, rights: BYTES_RIGHTS, mechanism: 1 },
      ...{ unsettled: 0, repaired: 0, pending: 0 },
    }
    this.state.regions.places[index] = region
    return region
  }

  private place(index: number, frame: Uint8Array): number {
    this.machine.place(index, frame)
    return RECEIVE_AT + index * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
  }

  /** One burst; the answers. */
  serve(...frames: Uint8Array[]): Sent[] {
    this.sent = []
    this.now += 10
    frames.forEach((frame, i) => {
      const at = this.place(i, frame)
      const flags = this.state.words[(RECEIVED_AT >> 2) + 2 * i + 1]!
      receive(this.state, at, frame.length, flags, this.now)
    })
    settle(this.state)
    return this.sent
  }

  /** What the region holds. */
  content(): Uint8Array {
    return this.nvdimm.live.slice(this.region.at, this.region.at + this.region.areaBytes)
  }
}

function hexNumber(value: number, digits: number): string {
  return `0x${value.toString(16).padStart(digits, '0')}`
}

/** Payloads up to this length stand in the vectors, longer ones as their CRC-32; bytes. */
const PAYLOAD_SHOWN = 64

/** The fields of an answer, named and written as the vectors do. */
export function fieldsOf({ bytes, packet, payload }: Sent): Record<string, unknown> {
  const row = packet.row!
  const { bthAt } = packet
  const bth = blankBth()
  readBth(bth, bytes, bthAt)
  const flags = bytes[bthAt + 1]!
  const notification = bytes[bthAt + 4]!
  return {
    opcode: hexNumber(bth.opcode, 2),
    name: row.name,
    se: bth.solicited ? 1 : 0,
    migreq: (flags >> 6) & 1,
    pad: bth.padBytes,
    tver: bth.version,
    pkey: hexNumber(bth.pkey, 4),
    fecn: notification >> 7,
    becn: (notification >> 6) & 1,
    destQp: hexNumber(bth.destQp, 6),
    ackReq: bth.ackRequest ? 1 : 0,
    psn: hexNumber(bth.psn, 6),
    ...aethFields(bytes, bthAt, row.aethAt),
    ...atomicFields(bytes, bthAt, row.atomicAckAt),
    payloadLen: packet.payloadLength,
    payloadOffsetFromBth: packet.payloadAt - bthAt,
    ...(payload.length > PAYLOAD_SHOWN
      ? { payloadCrc32: hexNumber(crc32(payload), 8) }
      : { payload: hexOf(payload) }),
  }
}

function aethFields(bytes: Uint8Array, bthAt: number, aethAt: number): object {
  if (aethAt === 0) return {}
  const aeth = blankAeth()
  readAeth(aeth, bytes, bthAt + aethAt)
  const { syndrome, msn } = aeth
  const kind = ['ACK', 'RNR', '', 'NAK'][syndrome >> 5]
  return { aeth: { syndrome: hexNumber(syndrome, 2), kind, value: syndrome & 31, msn } }
}

function atomicFields(bytes: Uint8Array, bthAt: number, atomicAckAt: number): object {
  if (atomicAckAt === 0) return {}
  return { atomicAck: `0x${hexOf(bytes.slice(bthAt + atomicAckAt, bthAt + atomicAckAt + 8))}` }
}

/** The addresses of the card that a frame is sent to. */
function addressedBy(frame: Uint8Array): Partial<Facts> {
  const packet = blankPacket()
  checkPacket(packet, frame, 0, frame.length)
  const { ipAt } = packet
  const mac = [...frame.slice(ETH_DESTINATION, ETH_DESTINATION + MAC_BYTES)]
  if (packet.ipVersion === 6) {
    return { mac, ipv6: [...frame.slice(ipAt + IPV6_DESTINATION, ipAt + IPV6_DESTINATION + 16)] }
  }
  return { mac, ipv4: [...frame.slice(ipAt + IPV4_DESTINATION, ipAt + IPV4_DESTINATION + 4)] }
}

interface StoredDecode {
  readonly [field: string]: unknown
}

interface StoredScenario {
  readonly name: string
  readonly init: {
    readonly localQp: string
    readonly remoteQp: string
    readonly expectedPsn: string
    readonly pathMtu: number
    readonly region: { readonly rkey: string; readonly va: string; readonly length: number }
  }
  readonly steps: readonly {
    readonly in: string
    readonly note?: string
    readonly out: readonly { readonly decode: StoredDecode }[]
  }[]
}

interface Scenario {
  readonly beginning: Beginning
  readonly steps: readonly {
    readonly frame: Uint8Array
    readonly note: string
    readonly answers: readonly StoredDecode[]
  }[]
}

const STORE = new URL('../../vectors/wire-vectors.json', import.meta.url)

const stored: readonly StoredScenario[] = JSON.parse(readFileSync(STORE, 'utf8')).scenarios

/** The names of the stored scenarios. */
export const SCENARIOS: readonly string[] = stored.map(({ name }) => name)

/** The stored scenario of that name. */
export function scenarioOf(name: string): Scenario {
  const found = stored.find((scenario) => scenario.name === name)
  if (found === undefined) throw new Error(`no scenario ${name}`)
  const { init } = found
  const va = BigInt(init.region.va)
  return {
    beginning: {
      localQp: Number(init.localQp),
      remoteQp: Number(init.remoteQp),
      expectedPsn: Number(init.expectedPsn),
      pathMtu: init.pathMtu,
      rkey: Number(init.region.rkey),
      vaHigh: Number(va >> 32n),
      vaLow: Number(va & 0xffffffffn),
      length: init.region.length,
    },
    steps: found.steps.map((step) => ({
      frame: hex(step.in),
      note: step.note ?? '',
      answers: step.out.map(({ decode }) => decode),
    })),
  }
}
