/**
 * A link under floods of strangers, step by step, in the time that the harness is told: what comes
 * to it is taken when a test says so, and a window is over when it says so.
 */

import { ATTRIBUTE_CONNECT, SEALED_VERSION } from '../../../firmware/wire/management.ts'
import type { Harness } from './harness.ts'

/** Frames of strangers in a window that are no flood yet, and the clients that a filter names. */
export const STRANGERS_MAX = 4096
export const CLIENTS_MAX = 512
/** Bursts of the harness, and frames at a time: fewer than the smallest socket has room for. */
const BURST = 32
const BATCH = 64

/** Frames with this last byte are not sent back: who sends them becomes no client. */
const IGNORED = 0xee
const MAC = '02:00:00:00:00:02'

const DATAGRAM = 0x64
const WRITE_ONLY = 0x0a

interface FrameOptions {
  readonly opcode?: number
  /** Source and destination, of IPv4 or IPv6: one number for both. */
  readonly host?: number
  readonly isIpv6?: boolean
  readonly isVlan?: boolean
  readonly isIgnored?: boolean
}

/** A frame to the harness: whole headers down to BTH, and so much behind it as a call needs. */
export function frameOf(options: FrameOptions = {}): Buffer {
  const { opcode = WRITE_ONLY, host = 1, isIpv6 = false, isVlan = false } = options
  const { isIgnored = false } = options
  const ip = Buffer.alloc(200)
  if (isIpv6) {
    ip[0] = 0x60
    ip[6] = 17
    ip[23] = ip[39] = host
    ip[48] = opcode
  } else {
    ip[0] = 0x45
    ip[9] = 17
    ip[15] = ip[19] = host
    ip[28] = opcode
  }
  const tag = isVlan ? [0x81, 0, 0, 5] : []
  const type = isIpv6 ? [0x86, 0xdd] : [0x08, 0]
  const head = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, ...tag, ...type]
  return Buffer.concat([Buffer.from(head), ip, Buffer.of(isIgnored ? IGNORED : 0)])
}

/** A control call, or an answer, with these bytes of its MAD. */
export function callOf(options: FrameOptions, bytes: Readonly<Record<number, number>>): Buffer {
  const frame = frameOf({ ...options, opcode: DATAGRAM })
  const ip = frame.readUInt16BE(12) === 0x8100 ? 18 : 14
  const mad = ip + (options.isIpv6 ? 48 : 28) + 20
  for (const [at, byte] of Object.entries(bytes)) frame[mad + Number(at)] = byte
  return frame
}

const VENDOR = { 1: 9, 2: 1, 28: 1 }
/** What the card may answer: whether it makes a client of whom it is for. */
export const ANSWERS: readonly (readonly [string, Readonly<Record<number, number>>, boolean])[] = [
  ['sealed', { ...VENDOR, 28: SEALED_VERSION }, true],
  ['a CONNECT that is granted', { ...VENDOR, 17: ATTRIBUTE_CONNECT }, true],
  ['a CONNECT that is refused', { ...VENDOR, 17: ATTRIBUTE_CONNECT, 29: 9 }, false],
  ['anything else in the clear', { ...VENDOR, 17: 0x10 }, false],
  ['the REP of CM', { 1: 7, 2: 2, 17: 0x13 }, true],
  ['the REJ of CM', { 1: 7, 2: 2, 17: 0x12 }, false],
]

interface LinkCounters {
  readonly received: number
  readonly sent: number
  readonly floods: number
}

/** Sends a frame so often; each is in the link's socket, or was kept out, when that is over. */
export type SendFrames = (frame: Uint8Array, count: number) => Promise<void>

export class Besieged {
  private readonly harness: Harness

  private constructor(harness: Harness) {
    this.harness = harness
  }

  /** A harness that echoes, as a card. */
  static async of(harness: Harness): Promise<Besieged> {
    const lines = [`listen ${MAC}`, `ignore ${IGNORED}`, 'freeze', 'pause']
    for (const line of lines) await harness.ask(line)
    return new Besieged(harness)
  }

  async counters(): Promise<LinkCounters> {
    return JSON.parse(await this.harness.ask('counters')) as LinkCounters
  }

  /** How many of so many frames come in. */
  async let(send: SendFrames, frame: Uint8Array, count: number): Promise<number> {
    const { received } = await this.counters()
    for (let left = count; left > 0; left -= BATCH) {
      const batch = Math.min(left, BATCH)
      await send(frame, batch)
      for (let taken = 0; taken <= batch; taken += BURST) await this.harness.ask('step')
    }
    return (await this.counters()).received - received
  }

  /** Looks at what has come so far, as it does before every burst. */
  async look(): Promise<void> {
    await this.harness.ask('step')
  }

  /** The window is over, and with it what came in it. */
  async pass(): Promise<void> {
    await this.harness.ask('later 1')
    await this.look()
  }

  /** More frames in a window than are no flood: it is on as soon as they are counted. */
  async flood(send: SendFrames, frame: Uint8Array): Promise<void> {
    await this.pass()
    await this.let(send, frame, STRANGERS_MAX + 1)
    await this.look()
  }
}
