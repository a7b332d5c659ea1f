/**
 * What a card answers by SMP (`smp-packet.ts`): groups 0 (system), 1 (images), 2 (statistics),
 * 9 (shell), and one of ours.
 *
 * Invariant: whatever is asked, one packet goes back, and none to an answer; it has the
 * sequence number, group, command and version of the request. Nothing throws. Who asks needs no
 * leave: what may be done here is to reset, and to mark, try and revert what a trusted key has
 * signed.
 */

import { decode } from 'cbor2'
import { isSame } from './bytes.ts'
import { ImageError, type ImageFault } from './image-error.ts'
import { SHA256_BYTES, type Version } from './mcuboot.ts'
import { SlotError, type SlotFault } from './slot-error.ts'
import type { SlotStore } from './slot-store.ts'
import { PACKET_BYTES_MAX } from './smp-frame.ts'
import {
  GROUP_IMAGE,
  GROUP_PERDURE,
  SMP_ANSWERS,
  SMP_HEADER_BYTES,
  SMP_READ,
  SMP_WRITE,
  writeSmp,
} from './smp-packet.ts'

/** Packets that a client may have under way. */
const PACKETS_UNDER_WAY = 4
const DEPTH_MAX = 6
/** Letters of a console's answer: with three bytes each it fits into a packet. */
const SHELL_LETTERS_MAX = 1300

const RC_UNKNOWN = 1
const RC_INVALID = 3
const RC_NOT_FOUND = 5
const RC_BAD_STATE = 6
const RC_NOT_SUPPORTED = 8
const RC_CORRUPT = 9
const RC_DENIED = 11
const RC_UNSUPPORTED_TOO_NEW = 13

/** Of the image group. */
const IMAGE_BAD_TLV = 5
const IMAGE_NOT_FOUND = 8
const IMAGE_IN_USE = 9
const IMAGE_NO_SLOT = 14
const IMAGE_NO_OFF = 20
const IMAGE_NO_LEN = 21
const IMAGE_HASH_WRONG = 24

/** How a refusal is told: in version 2 by group and code where it has one; in words else. */
interface Told {
  readonly rc: number
  /** The code of the image group. */
  readonly code?: number
}

const TOLD: Readonly<Record<SlotFault | ImageFault, Told>> = {
  SLOT_NO_IMAGE: { rc: RC_NOT_FOUND, code: IMAGE_NOT_FOUND },
  SLOT_BUSY: { rc: RC_BAD_STATE, code: IMAGE_IN_USE },
  SLOT_ACTIVE: { rc: RC_BAD_STATE, code: IMAGE_IN_USE },
  SLOT_SHORT: { rc: RC_INVALID, code: 22 },
  SLOT_MAGIC: { rc: RC_INVALID, code: 23 },
  SLOT_NOT_NEWER: { rc: RC_BAD_STATE, code: 27 },
  SLOT_PENDING: { rc: RC_BAD_STATE, code: 28 },
  SLOT_UNTESTED: { rc: RC_BAD_STATE, code: 28 },
  SLOT_TOO_LARGE: { rc: RC_INVALID, code: 30 },
  SLOT_BEYOND: { rc: RC_INVALID, code: 31 },
  SLOT_RUNS: { rc: RC_BAD_STATE, code: 33 },
  SLOT_TARGET: { rc: RC_NOT_SUPPORTED },
  SLOT_HAL: { rc: RC_NOT_SUPPORTED },
  SLOT_FORMAT: { rc: RC_NOT_SUPPORTED },
  SLOT_COUNTER: { rc: RC_DENIED },
  IMAGE_SHORT: { rc: RC_INVALID, code: IMAGE_BAD_TLV },
  IMAGE_MAGIC: { rc: RC_INVALID, code: 23 },
  IMAGE_HEADER: { rc: RC_INVALID, code: IMAGE_BAD_TLV },
  IMAGE_TLVS: { rc: RC_INVALID, code: IMAGE_BAD_TLV },
  IMAGE_HASH: { rc: RC_CORRUPT, code: IMAGE_HASH_WRONG },
  IMAGE_UNSIGNED: { rc: RC_DENIED },
  IMAGE_KEY: { rc: RC_DENIED },
  IMAGE_SIGNATURE: { rc: RC_DENIED },
  IMAGE_PAYLOAD: { rc: RC_INVALID, code: IMAGE_BAD_TLV },
  IMAGE_PART: { rc: RC_INVALID, code: IMAGE_BAD_TLV },
}

/** What SMP is asked of, beside its slots. */
export interface SmpCard {
  readonly slots: SlotStore
  /** Bytes of a slot. */
  readonly slotBytes: number
  /** As uname tells: 's' the name of the system, 'a' all. */
  describe(format: string): string
  /** Ends what runs, and starts by the state of the slots; behind the answer. */
  reset(): void
  /** Answers a line of the console. */
  shell(line: string): string
  /** Numbers by name of a group, or null. */
  statistics(group: string): Readonly<Record<string, number>> | null
  readonly statisticsGroups: readonly string[]
  /** Of the group of ours. */
  about(): Readonly<Record<string, unknown>>
}

type Fields = Readonly<Record<string, unknown>>
type Handler = (card: SmpCard, fields: Fields) => object

/** A request that makes no sense, or a question that has no answer here. */
class Refusal extends Error {
  readonly told: Told

  constructor(rc: number, message: string, code?: number) {
    super(message)
    this.told = code === undefined ? { rc } : { rc, code }
  }
}

/** By group and command; of the images' state by op as well. */
const HANDLERS: ReadonlyMap<string, Handler> = new Map<string, Handler>([
  ['0/0', echo],
  ['0/5', reset],
  ['0/6', () => ({ buf_size: PACKET_BYTES_MAX, buf_count: PACKETS_UNDER_WAY })],
  ['0/7', (card, { format }) => ({ output: card.describe(textOf(format, 's')) })],
  ['0/8', bootloader],
  ['1/0 read', (card) => statesOf(card)],
  ['1/0 write', writeState],
  ['1/1', uploadPiece],
  ['1/5', erase],
  ['1/6', slots],
  ['2/0', statistics],
  ['2/1', ({ statisticsGroups }) => ({ stat_list: [...statisticsGroups] })],
  ['9/0', shell],
  [`${GROUP_PERDURE}/0`, (card) => card.about()],
])

function textOf(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise
}

function echo(_card: SmpCard, { d = '' }: Fields): object {
  if (typeof d === 'string') return { r: d }
  throw new Refusal(RC_INVALID, 'd is text')
}

function reset(card: SmpCard): object {
  card.reset()
  return {}
}

function bootloader(_card: SmpCard, { query }: Fields): object {
  // Clients refuse a bootloader of another name, and know what these states are by it.
  if (query === undefined) return { bootloader: 'MCUboot' }
  if (query === 'mode') return { mode: 3, 'no-downgrade': true }
  throw new Refusal(RC_NOT_SUPPORTED, 'no such question about the bootloader')
}

/** As clients of MCUboot write it. */
function dotted({ major, minor, revision, build }: Version): string {
  return `${major}.${minor}.${revision}${build === 0 ? '' : `.${build}`}`
}

function statesOf({ slots }: SmpCard): object {
  const images = slots.list().map((one) => {
    const { slot, version, hash, pending, confirmed, active, permanent } = one
    const flags = { bootable: true, pending, confirmed, active, permanent }
    return { slot, version: dotted(version), hash: new Uint8Array(hash), ...flags }
  })
  return { images }
}

function writeState(card: SmpCard, { hash, confirm }: Fields): object {
  const name = hash instanceof Uint8Array && hash.length > 0 ? hash : null
  if (name === null && confirm !== true) throw new Refusal(RC_INVALID, 'hash is missing')
  if (name !== null && name.length !== SHA256_BYTES) {
    throw new Refusal(RC_INVALID, `a hash has ${SHA256_BYTES} bytes`, IMAGE_HASH_WRONG)
  }
  const { slots } = card
  const runs = slots.list().find(({ active }) => active)
  const isRunning = name === null || (runs !== undefined && isSame(runs.hash, name))
  if (isRunning && confirm === true) slots.confirm()
  else slots.mark(name!, confirm === true)
  return statesOf(card)
}

function uploadPiece({ slots }: SmpCard, fields: Fields): object {
  const { off, data, len, image = 0, sha, upgrade } = fields
  if (!isSize(off) || !(data instanceof Uint8Array)) {
    throw new Refusal(RC_INVALID, 'off and data must be said', IMAGE_NO_OFF)
  }
  // Later pieces say it, too, and mean nothing by it.
  if (off > 0) return slots.take(off, data)
  if (image !== 0 && image !== 1) {
    throw new Refusal(RC_INVALID, 'there is one image: say 0, or 1', IMAGE_NO_SLOT)
  }
  if (!isSize(len)) throw new Refusal(RC_INVALID, 'len must be said at off 0', IMAGE_NO_LEN)
  const whole = sha instanceof Uint8Array ? new Uint8Array(sha) : new Uint8Array()
  if (whole.length > SHA256_BYTES) {
    throw new Refusal(RC_INVALID, `sha has ${SHA256_BYTES} bytes at the most`, IMAGE_HASH_WRONG)
  }
  return slots.begin({ length: len, sha: whole, upgrade: upgrade === true }, data)
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function erase({ slots }: SmpCard, { slot = 1 }: Fields): object {
  if (slot !== 1) throw new SlotError('SLOT_ACTIVE', 'only slot 1 can be erased: slot 0 runs')
  slots.erase()
  return {}
}

function slots({ slotBytes: size }: SmpCard): object {
  const both = [
    { slot: 0, size },
    { slot: 1, size, upload_image_id: 0 },
  ]
  return { images: [{ image: 0, slots: both, max_image_size: size }] }
}

function statistics(card: SmpCard, { name }: Fields): object {
  const group = textOf(name, '')
  const fields = card.statistics(group)
  if (fields === null) throw new Refusal(RC_NOT_FOUND, 'no such group of statistics')
  return { name: group, fields: { ...fields } }
}

function shell(card: SmpCard, { argv }: Fields): object {
  if (!Array.isArray(argv) || !argv.every((word) => typeof word === 'string')) {
    throw new Refusal(RC_INVALID, 'argv is the list of words of a line')
  }
  return { o: card.shell(argv.join(' ')).slice(0, SHELL_LETTERS_MAX), ret: 0 }
}

/** The answer to a packet; null where not even its header came, or where it is an answer itself. */
export function answerSmp(card: SmpCard, packet: Uint8Array): Uint8Array | null {
  // Two cards that answered each other's answers would never end.
  if (packet.length < SMP_HEADER_BYTES || (packet[0]! & SMP_ANSWERS) !== 0) return null
  const view = new DataView(packet.buffer, packet.byteOffset, packet.byteLength)
  const op = packet[0]! & 7
  const version = (packet[0]! >> 3) & 3
  const [group, sequence, command] = [view.getUint16(4), packet[6]!, packet[7]!]
  let answer: object
  try {
    if (version > 1) throw new Refusal(RC_UNSUPPORTED_TOO_NEW, 'an unknown version of SMP')
    if (packet.length !== SMP_HEADER_BYTES + view.getUint16(2)) {
      throw new Refusal(RC_INVALID, 'its length differs from what its header says')
    }
    answer = handlerOf(op, group, command)(card, fieldsOf(packet.subarray(SMP_HEADER_BYTES)))
  } catch (error) {
    answer = refusalOf(error, version === 1)
  }
  const said = version === 1 ? 1 : 0
  return writeSmp({ op: op | SMP_ANSWERS, version: said, group, sequence, command }, answer)
}

function handlerOf(op: number, group: number, command: number): Handler {
  const name = `${group}/${command}`
  const ofOp = HANDLERS.get(`${name} ${op === SMP_READ ? 'read' : 'write'}`)
  const handler = ofOp ?? HANDLERS.get(name)
  if (handler === undefined || (op !== SMP_READ && op !== SMP_WRITE)) {
    throw new Refusal(RC_NOT_SUPPORTED, 'not known here')
  }
  return handler
}

/** The map of a request; a client may leave out one that would be empty. */
function fieldsOf(bytes: Uint8Array): Fields {
  if (bytes.length === 0) return {}
  let found: unknown
  try {
    found = decode(bytes, { maxDepth: DEPTH_MAX, rejectDuplicateKeys: true })
  } catch (cause) {
    throw new Refusal(RC_INVALID, `it is not CBOR: ${(cause as Error).message}`)
  }
  if (typeof found !== 'object' || found === null || Array.isArray(found)) {
    throw new Refusal(RC_INVALID, 'it is not a map')
  }
  return { ...found }
}

function refusalOf(error: unknown, isSecond: boolean): object {
  const isOurs = error instanceof SlotError || error instanceof ImageError
  const rsn = error instanceof Error ? error.message : String(error)
  const { rc, code } =
    error instanceof Refusal ? error.told : isOurs ? TOLD[error.code] : { rc: RC_UNKNOWN }
  if (isSecond && code !== undefined) return { err: { group: GROUP_IMAGE, rc: code } }
  return { rc, rsn }
}
