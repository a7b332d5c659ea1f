/**
 * A card that takes firmware by SMP, as the command sees it: its slots, an upload, its states.
 *
 * Invariant: what a card says is looked at before it is used; text of it is as it came.
 */

import { SHA256_BYTES, sha256 } from '../../boards/flash/mcuboot.ts'
import {
  GROUP_IMAGE,
  GROUP_OS,
  GROUP_PERDURE,
  IMAGE_STATE,
  IMAGE_UPLOAD,
  OS_PARAMETERS,
  OS_RESET,
  PERDURE_ABOUT,
} from '../../boards/flash/smp-packet.ts'
import { copyOf } from '../base/bytes.ts'
import { PerdureError } from '../base/errors.ts'
import { type SmpClient, SmpRefusal } from './smp-client.ts'

/** Bytes of a piece that its frame needs besides the data, at the most. */
const FIRST_OVERHEAD = 128
const OVERHEAD = 40
const PACKET_BYTES_MIN = 256
/** Pieces under way at once, if the card takes so many. */
const AHEAD = 2

type Fields = Record<string, unknown>

/** What a card takes. */
interface Limits {
  /** Bytes of a packet. */
  readonly packet: number
  /** Packets under way. */
  readonly ahead: number
}

export interface Slot {
  readonly slot: number
  readonly version: string
  readonly hash: Uint8Array
  readonly active: boolean
  readonly confirmed: boolean
  readonly pending: boolean
  readonly permanent: boolean
}

/** What a card of ours says beside its slots; of any other nothing. */
export interface About {
  readonly board: string
  readonly counter: number
  readonly format: number
  /** Whether what runs has passed its self-test. */
  readonly tested: boolean
  /** Seconds until what is on trial goes back. */
  readonly left: number
  /** Why the last trial ended, or an image was refused; ''. */
  readonly reason: string
}

export class FlashTarget {
  private readonly client: SmpClient
  private readonly portBytes: number

  constructor(client: SmpClient, portBytes: number) {
    this.client = client
    this.portBytes = portBytes
  }

  async list(): Promise<Slot[]> {
    return slotsIn(await this.client.ask('read', GROUP_IMAGE, IMAGE_STATE, {}))
  }

  async about(): Promise<About | null> {
    try {
      const { board, counter, format, tested, left, reason } = await this.client.ask(
        ...(['read', GROUP_PERDURE, PERDURE_ABOUT, {}] as const),
      )
      const numbers = { counter: Number(counter), format: Number(format), left: Number(left) }
      const texts = { board: String(board), reason: String(reason ?? '') }
      return { ...texts, ...numbers, tested: tested === true }
    } catch (error) {
      if (error instanceof SmpRefusal) return null
      throw error
    }
  }

  /** Marks the image of that hash for a test. */
  async test(hash: Uint8Array): Promise<Slot[]> {
    const fields = { hash: new Uint8Array(hash), confirm: false }
    return slotsIn(await this.client.ask('write', GROUP_IMAGE, IMAGE_STATE, fields))
  }

  async confirm(): Promise<Slot[]> {
    return slotsIn(await this.client.ask('write', GROUP_IMAGE, IMAGE_STATE, { confirm: true }))
  }

  async reset(): Promise<void> {
    await this.client.ask('write', GROUP_OS, OS_RESET, {})
  }

  /** Whether it answers, within one wait. */
  async answers(): Promise<boolean> {
    try {
      await this.client.ask('read', GROUP_OS, OS_PARAMETERS, {}, 1)
      return true
    } catch (error) {
      if (error instanceof PerdureError) return false
      throw error
    }
  }

  /** Brings the file into slot 1; goes on where an upload of it has ended. */
  async upload(file: Uint8Array, progress: (done: number) => void): Promise<void> {
    const bytes = copyOf(file)
    const limits = await this.limits()
    const sha = sha256(bytes)
    const begin = { image: 0, len: bytes.length, off: 0, sha, upgrade: false }
    const first = { ...begin, data: bytes.subarray(0, limits.packet - FIRST_OVERHEAD) }
    let off = 0
    let answer = await this.piece(first)
    for (let stuck = 0; stuck < STUCK_MAX; ) {
      const next = Number(answer.off)
      if (!Number.isInteger(next) || next < 0 || next > bytes.length) break
      progress(next)
      if (next === bytes.length) {
        if (answer.match !== false) return
        throw new PerdureError('PERDURE_IMAGE', 'the card has got another file: its hash differs')
      }
      stuck = next > off ? 0 : stuck + 1
      off = next
      // A card that knows of no upload is asked what it has: perhaps all of it.
      answer = off === 0 ? await this.piece(first) : await this.pieces(bytes, off, limits, progress)
    }
    throw new PerdureError('PERDURE_UNREACHABLE', `the upload stays at byte ${off}: try again`)
  }

  private async limits(): Promise<Limits> {
    const answer = await this.client.ask('read', GROUP_OS, OS_PARAMETERS, {})
    const bytes = Math.max(Number(answer.buf_size) || 0, PACKET_BYTES_MIN)
    const ahead = Number(answer.buf_count) >= AHEAD ? AHEAD : 1
    return { packet: Math.min(this.portBytes, bytes), ahead }
  }

  /** Sends piece behind piece from there on, as long as each is taken; the last answer. */
  private async pieces(
    bytes: Uint8Array,
    from: number,
    { packet, ahead }: Limits,
    progress: (done: number) => void,
  ): Promise<Fields> {
    const sent: { readonly end: number; readonly answer: Promise<Fields> }[] = []
    let at = from
    for (;;) {
      for (; sent.length < ahead && at < bytes.length; at = sent.at(-1)!.end) {
        const data = bytes.subarray(at, at + packet - OVERHEAD)
        const answer = this.piece({ off: at, data })
        answer.catch(() => {})
        sent.push({ end: at + data.length, answer })
      }
      const { end, answer } = sent.shift()!
      const found = await answer
      if (Number(found.off) !== end || end === bytes.length) {
        await Promise.allSettled(sent.map((one) => one.answer))
        return found
      }
      progress(end)
    }
  }

  private piece(fields: object): Promise<Fields> {
    return this.client.ask('write', GROUP_IMAGE, IMAGE_UPLOAD, fields)
  }
}

/** Answers that bring an upload no further, one behind the other. */
const STUCK_MAX = 8

/** The slots that an answer lists. */
function slotsIn({ images }: Record<string, unknown>): Slot[] {
  if (!Array.isArray(images)) return []
  return images.flatMap((one: unknown) => {
    if (typeof one !== 'object' || one === null) return []
    const { slot, version, hash, ...flags } = one as Record<string, unknown>
    if (!(hash instanceof Uint8Array) || hash.length !== SHA256_BYTES) return []
    const is = (name: string): boolean => flags[name] === true
    return [
      {
        ...{ slot: Number(slot), version: String(version), hash: new Uint8Array(hash) },
        ...{ active: is('active'), confirmed: is('confirmed') },
        ...{ pending: is('pending'), permanent: is('permanent') },
      },
    ]
  })
}
