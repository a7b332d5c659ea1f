/** What the management answers say, in plain values: the part, its regions, its recovery report. */

import { ARMED, ON_TRIAL, SAVE_FAILED, VOLATILE } from '../../firmware/board/hal.ts'
import { REGION_NAME_BYTES } from '../../firmware/board/limits.ts'
import { CASES } from '../../firmware/commit/cases.ts'
import { LOST, REFUSED, REPAIRED, REPAIRED_COPIES } from '../../firmware/commit/recovery.ts'
import { u16, u32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { ipv6Text } from '../base/addresses.ts'
import { copyOf } from '../base/bytes.ts'
import { faultOfNumber, faultOfStatus } from '../base/errors.ts'
import { u64 } from '../base/wide.ts'
import { nameOf } from './region-name.ts'

export interface PartStatus {
  readonly state: 'blank' | 'serving' | 'refused' | 'failedClosed' | 'unknown'
  /** Name of the fault that keeps the part from serving, or null. */
  readonly fault: string | null
  /** The save energy is there: what is stored survives a power cut. */
  readonly armed: boolean
  /**
   * What a record that is durable outlives: the power; the process that is the card, as its memory
   * is a plain file, say; or nothing, as nothing becomes durable.
   */
  readonly durable: 'power' | 'process' | 'nothing'
  /** Whether the card's memory is one that outlives the power. */
  readonly outlivesPower: boolean
  /** The last save of the NVDIMM failed or was incomplete. */
  readonly saveFailed: boolean
  /**
   * The firmware that runs is on trial: it goes back to the one before it unless it is confirmed.
   * False where the card does not say: strangers are not told, and older firmware knows nothing.
   */
  readonly onTrial: boolean
  /**
   * Who may come: whoever reaches the card, or its peers in sessions (`cardKey` of connect);
   * 'unknown' of an older card.
   */
  readonly access: 'anybody' | 'peers' | 'unknown'
  readonly regions: number
  /** Grows at every start of the part. */
  readonly incarnation: number
  /** 16 bytes in hexadecimal. */
  readonly deviceId: string
  readonly nvdimmBytes: number
  /** Largest path MTU that the port carries, bytes. */
  readonly pathMtu: number
  readonly formatVersion: number
  readonly reportEntries: number
  /** Records that no copy could settle. */
  readonly unsettled: number
  readonly linesRead: number
  readonly lanesActive: number
  readonly recordsScanned: number
  readonly recordsRepaired: number
  /** Operations of which the last recovery found that they are durable (D-6). */
  readonly operationsRecovered: number
  /** Whole pages of the superblock, of two, when they were looked at last. */
  readonly superblockPages: number
  /** Pages of it that had decayed, or were torn, and were written again since the start. */
  readonly superblockMended: number
  /** Lines of the operation table of which that is true. */
  readonly operationsMended: number
  /** Clients of whom both lines were lost: their repetitions are refused. */
  readonly operationsLost: number
  /** Places, as REGION counts them, of the regions that take no writes; of an older card none. */
  readonly refusing: readonly number[]
  /** Records of which decayed copies were made whole since the start; of an older card 0. */
  readonly recordsMended: number
  /** How often the medium failed since the start: MEDIA, UNREADABLE, FLUSH; of an older card 0. */
  readonly mediaFailures: number
  /** What is done in slices beside the requests, or null. */
  readonly work: PartWork | null
  /** Calls and packets of the network that a card with peers refused for who sent them. */
  readonly refusals: Refusals
}

/** Since the start; of an older card, none. */
interface Refusals {
  readonly count: number
  /** The last one, or null: why, from which address, which may be forged, and when. */
  readonly last: {
    readonly fault: string
    readonly from: string
    readonly secondsAgo: number
  } | null
}

/** A work in slices: a region is made, or its room is cleared after its end. */
interface PartWork {
  readonly kind: 'making' | 'clearing' | 'unknown'
  /** Id of the region. */
  readonly region: number
  /** Bytes that are done, and in all. */
  readonly done: number
  readonly total: number
}

export interface RegionInfo {
  /**
   * As the card has it: escape it before you show it, where you cannot trust who made the region. A
   * byte that is no UTF-8 is a lone surrogate, U+DC80 to U+DCFF.
   */
  readonly name: string
  readonly id: number
  /** 'memory' is of the card's host, and its pages come and go (source 5): nothing is durable. */
  readonly kind: 'records' | 'bytes' | 'memory' | 'unknown'
  readonly slots: number
  /** Bytes of data that one slot holds. */
  readonly capacity: number
  readonly copies: number
  readonly fixedLength: boolean
  /** Clients write the copies by themselves (`Region.writeCopies`). */
  readonly pair: boolean
  /** A record may bring the guard of its data, which the DPU checks and keeps. */
  readonly takesGuards: boolean
  /** It may stand in a batch beside other regions; of bytes, in a batch at all (S1-M9). */
  readonly joinsBatches: boolean
  /** Where it lies, and what makes it durable (source 2); of a region of another DPU 'unknown'. */
  readonly placement: RegionPlacement | 'unknown'
  /** Registered write-persist: of a region of bytes, every acknowledged store is durable. */
  readonly writePersist: boolean
  readonly protectionDomain: number
  /** Bytes of a region of the kinds 'bytes' and 'memory', and the address of its first one. */
  readonly length: bigint
  readonly base: bigint
  readonly rkey: number
  /** Key of the check codes, 16 bytes. */
  readonly key: Uint8Array
  /** Bytes from one slot to the next. */
  readonly stride: number
  readonly unsettled: number
  /** Records of which decayed copies were made whole since the DPU's start, by whatever look. */
  readonly repaired: number
  /** Takes no writes until an operator has decided what becomes of its lost records (D-14). */
  readonly readOnly: boolean
  /**
   * Name of the fault by which every write is refused now, as 'READ_ONLY' or 'PLACEMENT_UNKNOWN';
   * null if none is, or if the DPU does not say why.
   */
  readonly refuses: string | null
}

/** One line of the recovery report: what an interruption left of a record, and what was done. */
export interface ReportEntry {
  readonly region: number
  readonly record: number
  /** The intent lane that named the record, or null where a scan found it. */
  readonly lane: number | null
  /** Row of the recovery table, in words. */
  readonly case: string
  /** Case 1 to 5 of the source, 0 where only a media error leads there. */
  readonly sourceCase: number
  readonly action: 'none' | 'useA' | 'useB' | 'lost'
  /** Per copy: was it valid before? */
  readonly valid: readonly boolean[]
  readonly repaired: boolean
  /** Per copy: was it overwritten? */
  readonly overwritten: readonly boolean[]
  readonly lost: boolean
  /** The medium did not take the repair. */
  readonly refused: boolean
  readonly sequence: bigint
  readonly linesRead: number
}

const ACCESSES: readonly PartStatus['access'][] = ['unknown', 'anybody', 'peers']

/** Reads the body of STATUS and FORMAT. */
export function readPartStatus(body: Uint8Array): PartStatus {
  const health = body[mad.PART_HEALTH]!
  const fault = body[mad.PART_FAULT]!
  const id = body.subarray(mad.PART_DEVICE_ID, mad.PART_DEVICE_ID + mad.DEVICE_ID_BYTES)
  return {
    state: mad.STATE_NAMES[body[mad.PART_STATE]!] ?? 'unknown',
    fault: fault === 0 ? null : faultOfNumber(fault),
    armed: (health & ARMED) !== 0,
    durable: durableOf(health),
    outlivesPower: (health & VOLATILE) === 0,
    saveFailed: (health & SAVE_FAILED) !== 0,
    onTrial: (health & ON_TRIAL) !== 0,
    access: ACCESSES[body[mad.PART_ACCESS]!] ?? 'unknown',
    regions: body[mad.PART_REGIONS]!,
    incarnation: u32(body, mad.PART_INCARNATION),
    deviceId: Buffer.from(id).toString('hex'),
    nvdimmBytes: Number(u64(body, mad.PART_NVDIMM_BYTES_HIGH)),
    pathMtu: u32(body, mad.PART_PATH_MTU),
    formatVersion: u32(body, mad.PART_FORMAT_VERSION),
    reportEntries: u32(body, mad.PART_REPORT_ENTRIES),
    unsettled: u32(body, mad.PART_UNSETTLED),
    linesRead: u32(body, mad.PART_LINES_READ),
    lanesActive: u32(body, mad.PART_LANES_ACTIVE),
    recordsScanned: u32(body, mad.PART_SCANNED),
    recordsRepaired: u32(body, mad.PART_REPAIRED),
    operationsRecovered: u32(body, mad.PART_OPERATIONS),
    superblockPages: u32(body, mad.PART_SUPERBLOCK_WHOLE),
    superblockMended: u32(body, mad.PART_SUPERBLOCK_MENDED),
    operationsMended: u32(body, mad.PART_OPERATIONS_MENDED),
    operationsLost: u32(body, mad.PART_OPERATIONS_LOST),
    refusing: placesOf(u32(body, mad.PART_REFUSING)),
    recordsMended: u32(body, mad.PART_MENDED),
    mediaFailures: u32(body, mad.PART_MEDIA_FAILURES),
    work: readWork(body),
    refusals: readRefusals(body),
  }
}

/** The bits that are set. */
function placesOf(word: number): number[] {
  return Array.from({ length: 32 }, (_, i) => i).filter((i) => ((word >>> i) & 1) === 1)
}

/** Is nothing of it another health? Records, regions and strangers come and go. */
export function isSameHealth(one: PartStatus, other: PartStatus): boolean {
  return healthText(one) === healthText(other)
}

function healthText(part: PartStatus): string {
  const { state, fault, armed, outlivesPower, saveFailed, onTrial, incarnation, deviceId } = part
  const { unsettled, superblockPages, refusing, recordsMended, mediaFailures } = part
  return JSON.stringify([
    ...[state, fault, armed, outlivesPower, saveFailed, onTrial, incarnation, deviceId],
    ...[unsettled, superblockPages, refusing, recordsMended, mediaFailures],
  ])
}

function readRefusals(body: Uint8Array): Refusals {
  const count = u32(body, mad.PART_REFUSALS)
  if (count === 0) return { count, last: null }
  const fault = faultOfNumber(body[mad.PART_REFUSED_FAULT]!)
  const from = addressText(body.subarray(mad.PART_REFUSED_SOURCE, mad.PART_REFUSED_SECONDS))
  return { count, last: { fault, from, secondsAgo: u32(body, mad.PART_REFUSED_SECONDS) } }
}

/** An address of 16 bytes, where that of IPv4 is mapped. */
function addressText(address: Uint8Array): string {
  const isIpv4 = address.subarray(0, 10).every((byte) => byte === 0) && u16(address, 10) === 0xffff
  if (isIpv4) return address.subarray(12).join('.')
  return ipv6Text(address)
}

const WORKS: readonly PartWork['kind'][] = ['making', 'clearing']

function readWork(body: Uint8Array): PartWork | null {
  const kind = body[mad.PART_WORK]!
  if (kind === 0) return null
  return {
    kind: WORKS[kind - 1] ?? 'unknown',
    region: u32(body, mad.PART_WORK_REGION),
    done: Number(u64(body, mad.PART_WORK_DONE_HIGH)),
    total: Number(u64(body, mad.PART_WORK_TOTAL_HIGH)),
  }
}

function durableOf(health: number): PartStatus['durable'] {
  if ((health & ARMED) === 0) return 'nothing'
  return (health & VOLATILE) !== 0 ? 'process' : 'power'
}

const KINDS: Readonly<Record<number, RegionInfo['kind']>> = {
  [mad.KIND_RECORDS]: 'records',
  [mad.KIND_BYTES]: 'bytes',
  [mad.KIND_ON_DEMAND]: 'memory',
}

/**
 * The card's own NVDIMM, or the target machine's memory: past its caches, or through them. Of the
 * latter two the one that the probe has shown is to be had.
 */
export type RegionPlacement = 'local' | 'bypass' | 'through'

/** In the order of their numbers (firmware/medium/region.ts). */
export const PLACEMENTS: readonly RegionPlacement[] = ['local', 'bypass', 'through']

/** Reads the body of OPEN, REGION, PROVISION and SETTLE. */
export function readRegionInfo(body: Uint8Array): RegionInfo {
  const refuses = body[mad.REGION_REFUSES]!
  return {
    name: nameOf(body.subarray(mad.REGION_NAME, mad.REGION_NAME + REGION_NAME_BYTES)),
    id: u32(body, mad.REGION_ID),
    kind: KINDS[body[mad.REGION_KIND]!] ?? 'unknown',
    slots: u32(body, mad.REGION_SLOTS),
    capacity: u32(body, mad.REGION_CAPACITY),
    copies: body[mad.REGION_COPIES]!,
    placement: PLACEMENTS[body[mad.REGION_PLACEMENT]!] ?? 'unknown',
    fixedLength: (u16(body, mad.REGION_FLAGS) & mad.REGION_FIXED_LENGTH) !== 0,
    pair: (u16(body, mad.REGION_FLAGS) & mad.REGION_PAIR) !== 0,
    takesGuards: (u16(body, mad.REGION_FLAGS) & mad.REGION_TAKES_GUARDS) !== 0,
    joinsBatches: (u16(body, mad.REGION_FLAGS) & mad.REGION_JOINS_BATCHES) !== 0,
    writePersist: (u16(body, mad.REGION_FLAGS) & mad.REGION_WRITE_PERSIST) !== 0,
    protectionDomain: u16(body, mad.REGION_DOMAIN),
    length: u64(body, mad.REGION_LENGTH_HIGH),
    base: u64(body, mad.REGION_BASE_HIGH),
    rkey: u32(body, mad.REGION_RKEY),
    key: copyOf(body.subarray(mad.REGION_CHECK_KEY, mad.REGION_CHECK_KEY + 16)),
    stride: u32(body, mad.REGION_STRIDE),
    unsettled: u32(body, mad.REGION_UNSETTLED),
    repaired: u32(body, mad.REGION_REPAIRED),
    readOnly: body[mad.REGION_READ_ONLY] !== 0,
    refuses: refuses === 0 ? null : faultOfStatus(refuses),
  }
}

/** Reads one entry of REPORT at `at`. */
export function readReportEntry(body: Uint8Array, at: number): ReportEntry {
  const lane = body[at + mad.ENTRY_LANE]!
  const row = CASES[body[at + mad.ENTRY_ROW]!]
  const mask = body[at + mad.ENTRY_VALID]!
  const flags = body[at + mad.ENTRY_FLAGS]!
  return {
    region: u16(body, at + mad.ENTRY_REGION),
    record: u32(body, at + mad.ENTRY_RECORD),
    lane: lane === mad.LANE_SCAN ? null : lane,
    case: row?.name ?? `row ${body[at + mad.ENTRY_ROW]}`,
    sourceCase: row?.sourceCase ?? 0,
    action: row?.then ?? 'none',
    valid: [0, 1, 2, 3].map((copy) => (mask & (1 << copy)) !== 0),
    repaired: (flags & REPAIRED) !== 0,
    overwritten: [0, 1, 2, 3].map((copy) => ((flags >> REPAIRED_COPIES) & (1 << copy)) !== 0),
    lost: (flags & LOST) !== 0,
    refused: (flags & REFUSED) !== 0,
    sequence: u64(body, at + mad.ENTRY_SEQUENCE_HIGH),
    linesRead: u32(body, at + mad.ENTRY_LINES_READ),
  }
}
