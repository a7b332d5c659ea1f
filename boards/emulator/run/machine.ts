/**
 * The emulated machine: executes command lists over packet memory, the NVDIMM and the host's memory
 * (hal.ts).
 *
 * Invariants:
 * - Commands happen in the order of the list; what stands behind a command that failed has not
 *   happened. An address that is not wholly inside one space is refused, whatever number it is.
 * - Nothing that the firmware puts into the ring makes `run` throw, but a write into what is the
 *   host's alone: that is CardViolation (zone-guard.ts).
 * - Once the power is cut the machine is dead: no command has an effect, no frame leaves. Only a
 *   new machine on the same part ends that.
 * - What it writes to the host's memory has left when the command is done, and not arrived.
 * - HOST_SPACE is translated here alone, at every access of a command. What lies in more than one
 *   piece is read and written piece by piece, in its order; no command knows of it.
 * - Observers, mutations and cuts cost one test per command list while there are none.
 */

import {
  AGREE,
  ARRANGE,
  AUX,
  BAD_COMMAND,
  CALL_ENDED_AT,
  CHECK,
  COMMAND_WORDS,
  COMMANDS_AT,
  COMPARE,
  COMPARE_SWAP,
  COPY,
  COPY_CLEAN,
  DIFFERENT,
  DMA_FAILED,
  DMA_SPACE,
  DONE,
  EQUAL,
  type Facts,
  FENCE,
  FETCH_ADD,
  FLUSH,
  FROM,
  GUARD,
  GUARD_FAILED,
  HEALTH_AT,
  HOST_SPACE,
  ICRC_GOOD,
  ICRC_GOOD_LINUX_FLUSH,
  ICRC_LINUX_FLUSH,
  ICRC_NONE,
  KEEP_PEER,
  KEYSTREAM,
  LENGTH,
  type Machine,
  MEDIA_ERROR,
  NO_POWER,
  NO_SNOOP,
  NOT_KEPT,
  NVDIMM_SPACE,
  ON_TRIAL,
  OP,
  RECEIVE_AT,
  RECEIVED_AT,
  RESULT,
  SECURE,
  SHARED_SPACE,
  SKIP,
  SPACE_BYTES,
  TAG_GOOD,
  TAGGED,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  CHUNK_BYTES,
  COMMANDS_MAX,
  FRAME_BYTES_MAX,
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
  LINE_BYTES,
  PAGE_BYTES,
  PEER_LINE_BYTES,
} from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { BYTES, FUNCTION, type Kinds, OBJECT, SIZE } from '../../kinds.ts'
import { CHECK_CODE_BYTES, CHECK_KEY_BYTES, checkCode } from '../../software/check-code.ts'
import { guardOf } from '../../software/guard.ts'
import { fillIcrc, icrcGood, icrcGoodLinuxFlush } from '../../software/icrc.ts'
import { keystream, STREAM_KEY_BYTES } from '../../software/keystream.ts'
import type { PeersList } from '../../software/peers-file.ts'
import {
  check,
  checkFields,
  HOST_MEMORY,
  NVDIMM,
  orNull,
  PEERS_LIST,
  RAM,
  RANDOM,
} from '../base/arguments.ts'
import type { Random } from '../base/random.ts'
import type { HostMemory } from '../host/host-memory.ts'
import { HostPieces } from '../host/host-pieces.ts'
import type { HostRam } from '../host/host-ram.ts'
import { NO_TRANSLATION } from '../host/iommu.ts'
import type { PcieLink } from '../host/pcie.ts'
import type { Nvdimm } from '../medium/nvdimm.ts'
import { ATOMIC_BYTES, atomicResult, OPERAND_BYTES, putOriginal } from './atomic.ts'
import { NoiseCommands } from './noise-commands.ts'
import { isForm, placeOfForm, TagPlaces } from './tag-places.ts'

/* Where an address leads. */
const NOWHERE = 0
const PACKETS = 1
const PART = 2
const HOST = 3
const DMA = 4
/** Bytes of the host's memory from more than one piece, put together. */
const GATHERED = 5

/** No command may name that address. */
const NO_ADDRESS = -2

/** Up to this length a loop over words beats the engine's own copy and compare, bytes. */
const LOOP_BYTES_MAX = 512

/** Names of the operations, for statistics and messages. */
export const OP_NAMES: readonly string[] = [
  'none',
  'copy',
  'copyClean',
  'flush',
  'fence',
  'check',
  'compare',
  'transmit',
  'skip',
  'fetchAdd',
  'compareSwap',
  'guard',
  'arrange',
  'keystream',
  'agree',
  'hash',
  'seal',
  'unseal',
  'secure',
  'keepPeer',
]

/** The lowest result that stops a list: EQUAL and DIFFERENT are answers, not errors. */
const FIRST_ERROR = DIFFERENT + 1

export interface MachineOptions {
  readonly facts: Facts
  readonly nvdimm: Nvdimm
  /** The host's persistent memory behind PCIe, if the card sees one: `facts.hostBytes` of it. */
  readonly host?: HostMemory | null
  /** The host's ordinary memory: `facts.dmaBytes` of it. */
  readonly ram?: HostRam | null
  /** Takes every frame that is sent; the frame is the taker's to keep. */
  readonly transmit: (frame: Uint8Array) => void
  /** The peers that the facts state, where they may change. */
  readonly peers?: PeersList
  /** Packet memory, zeroed, at least MEMORY_BYTES and aligned to eight; made here if absent. */
  readonly packets?: Uint8Array
  /** Called once, at the moment of a cut that was armed. */
  readonly onCut?: () => void
  /** Whether the firmware that runs goes back unless it is confirmed. */
  readonly isOnTrial?: () => boolean
}

/** What a test may watch and change. */
export interface Watch {
  /** Before each command: its number since power-on, and the ring with the place of its words. */
  readonly onCommand?: (number: number, op: number, words: Float64Array, at: number) => void
  /** The operation to execute in the place of `op`: SKIP drops a command. */
  readonly replace?: (number: number, op: number) => number
  /** The first six words of each command executed, and each frame sent, byte for byte. */
  readonly trace?: (bytes: Uint8Array) => void
  /** After each KEYSTREAM: what it has written, and a test may write over. */
  readonly onStream?: (stream: Uint8Array) => void
}

export interface MachineStatistics {
  readonly runs: number
  readonly commands: Readonly<Record<string, number>>
  readonly fences: number
  readonly bytesStored: number
  readonly linesCleaned: number
  readonly framesSent: number
  readonly bytesSent: number
}

const MACHINE_KINDS: Kinds<MachineOptions> = {
  ...{ facts: OBJECT, nvdimm: NVDIMM, host: orNull(HOST_MEMORY), ram: orNull(RAM) },
  ...{ transmit: FUNCTION, packets: BYTES, onCut: FUNCTION, peers: PEERS_LIST },
  isOnTrial: FUNCTION,
}

const WATCH_KINDS: Kinds<Watch> = {
  onCommand: FUNCTION,
  replace: FUNCTION,
  trace: FUNCTION,
  onStream: FUNCTION,
}

/** A cut waiting for its command. */
interface ArmedCut {
  /** Number since power-on of the command before which, or inside which, the power goes. */
  command: number
  /** Bytes that a storing command still stores. */
  bytes: number
}

export class EmulatedMachine implements Machine {
  readonly facts: Facts
  readonly memory: ArrayBuffer
  readonly packets: Uint8Array
  readonly nvdimm: Nvdimm
  readonly host: HostMemory | null
  readonly ram: HostRam | null
  dead = false
  /** Commands executed since power-on. */
  commandCount = 0

  private readonly options: MachineOptions
  private readonly link: PcieLink | null
  private readonly words: Float64Array
  private readonly halves: Int32Array
  private readonly callEnded: Float64Array
  private readonly counts: Float64Array = new Float64Array(OP_NAMES.length)
  private readonly code: Uint8Array = new Uint8Array(CHECK_CODE_BYTES)
  /** Packet memory, to be read big-endian, and the word that an atomic command stores. */
  private readonly operands: DataView
  private readonly word: Int32Array = new Int32Array(ATOMIC_BYTES / 4)
  private readonly wordBytes: Uint8Array = new Uint8Array(this.word.buffer)
  private readonly noise: NoiseCommands
  private readonly tags = new TagPlaces()
  /** Where the host's memory lies that HOST_SPACE shows (ARRANGE). */
  private pieces: HostPieces
  /** What was put together for the command that is executed, and bytes of it. */
  private gathered: Uint8Array = new Uint8Array(0)
  private gatheredWords: Int32Array = new Int32Array(0)
  private gatheredBytes = 0
  /** Where `locate` has found the bytes, in the memory of the space that it returned. */
  private locatedAt = 0
  private watch: Watch = {}
  private watched = false
  private cut: ArmedCut | null = null
  private cutInGroup: Random | null = null
  private runs = 0
  private framesSent = 0
  private bytesSent = 0
  private readonly fencesBefore: number
  private readonly storedBefore: number
  private readonly cleanedBefore: number

  constructor(options: MachineOptions) {
    checkFields('a machine', options, MACHINE_KINDS, ['facts', 'nvdimm', 'transmit'])
    const packets = options.packets ?? new Uint8Array(MEMORY_BYTES)
    if (packets.length < MEMORY_BYTES || packets.byteOffset % 8 !== 0) {
      throw new RangeError(`packet memory: ${packets.length} bytes at ${packets.byteOffset}`)
    }
    this.options = options
    this.facts = options.facts
    this.nvdimm = options.nvdimm
    this.host = options.host ?? null
    if ((this.host?.bytes ?? 0) !== options.facts.hostBytes) {
      throw new RangeError('the facts state another host memory than there is')
    }
    this.pieces = HostPieces.whole(options.facts.hostBytes)
    this.ram = options.ram ?? null
    if ((this.ram?.bytes ?? 0) !== options.facts.dmaBytes) {
      throw new RangeError('the facts state another memory behind PCIe than there is')
    }
    this.link = this.ram?.link ?? this.host?.link ?? null
    if (this.host !== null && this.host.link !== this.link) {
      throw new RangeError('both memories of a host are behind one link')
    }
    this.link?.cardOn()
    this.packets = packets
    this.memory = packets.buffer as ArrayBuffer
    const { buffer, byteOffset } = packets
    this.words = new Float64Array(buffer, byteOffset + COMMANDS_AT, COMMANDS_MAX * COMMAND_WORDS)
    this.halves = new Int32Array(buffer, byteOffset, packets.length >> 2)
    this.callEnded = new Float64Array(buffer, byteOffset + CALL_ENDED_AT, 1)
    this.operands = new DataView(buffer, byteOffset, packets.length)
    this.noise = new NoiseCommands(packets, (at, length) => this.space(at, length) === PACKETS)
    this.fencesBefore = options.nvdimm.fences
    this.storedBefore = options.nvdimm.bytesStored
    this.cleanedBefore = options.nvdimm.linesCleaned
    this.tellHealth()
  }

  /** See `Machine.run`. A count that no list can have runs nothing. */
  run(count: number): number {
    if (this.dead) return this.refuse(NO_POWER)
    if (!(count >= 0 && count <= COMMANDS_MAX) || (count | 0) !== count) {
      return this.refuse(BAD_COMMAND)
    }
    this.runs++
    this.tellHealth()
    if (this.link === null) return this.runList(count)
    this.link.beginList()
    const done = this.runList(count)
    this.link.endList()
    return done
  }

  private runList(count: number): number {
    if (this.watched) return this.runWatched(count)
    const words = this.words
    const end = count * COMMAND_WORDS
    for (let at = 0; at < end; at += COMMAND_WORDS) {
      const result = this.execute(words[at + OP]!, at)
      words[at + RESULT] = result
      if (result >= FIRST_ERROR) return at / COMMAND_WORDS
    }
    return count
  }

  /** The same with observers, mutations and cuts. */
  private runWatched(count: number): number {
    const words = this.words
    const { onCommand, replace, trace } = this.watch
    this.aimAtGroup(count)
    for (let i = 0; i < count; i++) {
      const at = i * COMMAND_WORDS
      const number = this.commandCount
      if (this.cut?.command === number) {
        this.strike(at)
        words[at + RESULT] = NO_POWER
        return i
      }
      let op = words[at + OP]!
      onCommand?.(number, op, words, at)
      if (replace !== undefined) op = replace(number, op)
      const sent = this.framesSent
      const result = this.execute(op, at)
      words[at + RESULT] = result
      if (trace !== undefined && this.framesSent === sent) this.traceCommand(trace, at)
      if (result >= FIRST_ERROR) return i
    }
    if (this.cut?.command === this.commandCount) this.strike(-1)
    return count
  }

  private traceCommand(trace: (bytes: Uint8Array) => void, at: number): void {
    const from = COMMANDS_AT + at * 8
    trace(this.packets.subarray(from, from + (RESULT + 1) * 8))
  }

  private refuse(result: number): number {
    this.words[RESULT] = result
    return 0
  }

  private execute(op: number, at: number): number {
    this.commandCount++
    this.gatheredBytes = 0
    if (!(op >= COPY && op <= KEEP_PEER) || (op | 0) !== op) return BAD_COMMAND
    this.counts[op] = this.counts[op]! + 1
    const words = this.words
    const length = words[at + LENGTH]!
    if (op <= COPY_CLEAN || op === COMPARE) {
      const from = words[at + FROM]!
      const to = words[at + TO]!
      if (from >= SHARED_SPACE || to >= SHARED_SPACE) {
        return this.executeShared(op, at, from, to, length)
      }
    }
    if (op === COPY_CLEAN || op === COPY) {
      return this.copy(at, words[at + FROM]!, words[at + TO]!, length, op === COPY_CLEAN)
    }
    if (op === CHECK)
      return this.check(words[at + FROM]!, words[at + TO]!, length, words[at + AUX]!)
    if (op === FENCE) return this.nvdimm.fence()
    if (op === TRANSMIT) return this.transmit(words[at + FROM]!, length, at)
    if (op === COMPARE) return this.compare(words[at + FROM]!, words[at + TO]!, length)
    const to = words[at + TO]!
    if (op === FETCH_ADD || op === COMPARE_SWAP) {
      return this.atomic(op, words[at + FROM]!, to, length, words[at + AUX]!)
    }
    if (op === GUARD) return this.guard(words[at + FROM]!, length, words[at + AUX]!)
    if (op === ARRANGE) return this.arrange(words[at + FROM]!, length)
    if (op === KEYSTREAM) return this.stream(words[at + FROM]!, to, length)
    if (op === SECURE) return this.secure(words[at + FROM]!, length, words[at + AUX]!)
    if (op === KEEP_PEER) return this.keepPeer(words[at + FROM]!, length, words[at + AUX]!)
    if (op >= AGREE) return this.noise.run(op, words[at + FROM]!, to, length, words[at + AUX]!)
    if (op !== SKIP && this.space(to, length) !== PART) return BAD_COMMAND
    if (op === FLUSH) this.nvdimm.clean(to - NVDIMM_SPACE, length)
    return DONE
  }

  /**
   * Where [address, address + length) lies. Every space is smaller than 2^31 bytes, so a number
   * that its int32 does not equal, be it a fraction, huge or NaN, is in none.
   */
  private space(address: number, length: number): number {
    if ((length | 0) !== length || length < 0) return NOWHERE
    let at = address | 0
    if (at === address) return at >= 0 && at <= this.packets.length - length ? PACKETS : NOWHERE
    let offset = address - NVDIMM_SPACE
    at = offset | 0
    if (at === offset) return at >= 0 && at <= this.nvdimm.bytes - length ? PART : NOWHERE
    const { host, ram } = this
    offset = address - HOST_SPACE
    at = offset | 0
    if (at === offset) {
      if (host === null) return NOWHERE
      return at >= 0 && at <= this.pieces.bytes - length ? HOST : NOWHERE
    }
    offset = address - DMA_SPACE
    at = offset | 0
    if (ram === null || at !== offset) return NOWHERE
    return at >= 0 && at <= ram.bytes - length ? DMA : NOWHERE
  }

  /** The memory that an address of that space lies in. */
  private memoryOf(space: number): Uint8Array {
    if (space === PACKETS) return this.packets
    if (space === DMA) return this.ram!.live
    if (space === GATHERED) return this.gathered
    return space === PART ? this.nvdimm.live : this.host!.part.live
  }

  private wordsOf(space: number): Int32Array {
    if (space === PACKETS) return this.halves
    if (space === DMA) return this.ram!.liveWords
    if (space === GATHERED) return this.gatheredWords
    return space === PART ? this.nvdimm.liveWords : this.host!.part.liveWords
  }

  private offsetIn(space: number, address: number): number {
    return address - (space - PACKETS) * SPACE_BYTES
  }

  /** What a read of the bytes comes to; a DMA read pushes what was written before it. */
  private readFault(space: number, at: number, length: number): number {
    if (space === PACKETS) return DONE
    if (space === PART) return this.nvdimm.readable(at, length) ? DONE : MEDIA_ERROR
    if (space === DMA) return this.ram!.dmaRead(at, length) ? DONE : DMA_FAILED
    return this.hostReadFault(at, length)
  }

  /** Of a host's memory, which is read piece by piece. */
  private hostReadFault(at: number, length: number): number {
    const host = this.host!
    let done = 0
    do {
      const run = this.pieces.runOf(at + done, length - done)
      const place = this.pieces.placeOf(at + done)
      if (!host.dmaRead(place, run)) return DMA_FAILED
      if (!host.part.readable(place, run)) return MEDIA_ERROR
      done += run
    } while (done < length)
    return DONE
  }

  /**
   * Where bytes that may be read lie as one: the space, and `locatedAt`. Of a host's memory they
   * are put together if they lie in more than one piece.
   */
  private locate(space: number, at: number, length: number): number {
    this.locatedAt = at
    if (space !== HOST) return space
    const { pieces } = this
    this.locatedAt = pieces.placeOf(at)
    if (pieces.runOf(at, length) === length) return HOST
    this.locatedAt = this.gather(at, length)
    return GATHERED
  }

  /** Puts the bytes together, behind what the command has put together already. */
  private gather(at: number, length: number): number {
    const from = this.gatheredBytes
    // A multiple of a line: it is read in words, too.
    const bytes = from + Math.ceil(length / LINE_BYTES) * LINE_BYTES
    if (bytes > this.gathered.length) {
      const larger = new Uint8Array(bytes)
      larger.set(this.gathered)
      this.gathered = larger
      this.gatheredWords = new Int32Array(larger.buffer)
    }
    const { live } = this.host!.part
    for (let done = 0; done < length; ) {
      const run = this.pieces.runOf(at + done, length - done)
      const place = this.pieces.placeOf(at + done)
      this.gathered.set(live.subarray(place, place + run), from + done)
      done += run
    }
    this.gatheredBytes = bytes
    return from
  }

  /** Posts writes to the host's memory, one for each piece. */
  private writeHost(
    at: number,
    source: Uint8Array,
    from: number,
    length: number,
    noSnoop: boolean,
  ): void {
    let done = 0
    do {
      const run = this.pieces.runOf(at + done, length - done)
      this.host!.dmaWrite(this.pieces.placeOf(at + done), source, from + done, run, noSnoop)
      done += run
    } while (done < length)
  }

  /** HOST_SPACE shows those pieces, if there can be such. */
  private arrange(from: number, length: number): number {
    const { host } = this
    if (host === null || length % 8 !== 0 || from % 8 !== 0) return BAD_COMMAND
    if (this.space(from, length) !== PACKETS) return BAD_COMMAND
    const table = this.halves.subarray(from >> 2, (from + length) >> 2)
    const pieces = HostPieces.of(table, host.bytes)
    if (pieces === null) return BAD_COMMAND
    this.pieces = pieces
    return DONE
  }

  /** A command with virtual addresses: the IOMMU translates them, and it is done as any other. */
  private executeShared(
    op: number,
    words: number,
    virtualFrom: number,
    virtualTo: number,
    length: number,
  ): number {
    const from = this.translate(virtualFrom, length)
    const to = this.translate(virtualTo, length)
    if (from === NO_ADDRESS || to === NO_ADDRESS) return BAD_COMMAND
    const copies = op !== COMPARE
    if (from === NO_TRANSLATION || (!copies && to === NO_TRANSLATION)) return DMA_FAILED
    if (!copies) return this.compare(from, to, length)
    if (to !== NO_TRANSLATION) return this.copy(words, from, to, length, op === COPY_CLEAN)
    // Nobody answers a posted write.
    const space = this.space(from, length)
    return space === NOWHERE
      ? BAD_COMMAND
      : this.readFault(space, this.offsetIn(space, from), length)
  }

  /** The address that the IOMMU makes of one; NO_TRANSLATION; NO_ADDRESS where none can be. */
  private translate(address: number, length: number): number {
    if (!(address >= SHARED_SPACE)) return address >= 0 ? address : NO_ADDRESS
    const { ram, facts } = this
    const place = Math.floor(address / SPACE_BYTES) - SHARED_SPACE / SPACE_BYTES
    const offset = address % SPACE_BYTES
    const isLength = (length | 0) === length && length >= 0
    const isInPage = isLength && (offset % PAGE_BYTES) + length <= PAGE_BYTES
    if (ram === null || !isInPage || !Number.isInteger(offset)) return NO_ADDRESS
    if (place >= (facts.sharedSpaces ?? 0)) return NO_ADDRESS
    const at = ram.iommu.translate(place, offset)
    return at === NO_TRANSLATION ? NO_TRANSLATION : DMA_SPACE + at
  }

  private copy(words: number, from: number, to: number, length: number, clean: boolean): number {
    let fromSpace = this.space(from, length)
    const toSpace = this.space(to, length)
    if (fromSpace === NOWHERE || toSpace === NOWHERE) return BAD_COMMAND
    let fromAt = this.offsetIn(fromSpace, from)
    const toAt = this.offsetIn(toSpace, to)
    const fault = this.readFault(fromSpace, fromAt, length)
    if (fault !== DONE) return fault
    if (fromSpace === HOST) {
      fromSpace = this.locate(HOST, fromAt, length)
      fromAt = this.locatedAt
    }
    if (toSpace === DMA) {
      this.ram!.dmaWrite(toAt, this.memoryOf(fromSpace), fromAt, length)
      return DONE
    }
    if (toSpace === HOST) {
      const noSnoop = (this.words[words + AUX]! & NO_SNOOP) !== 0
      this.writeHost(toAt, this.memoryOf(fromSpace), fromAt, length, noSnoop)
      return DONE
    }
    if (toSpace === PACKETS) {
      if (fromSpace === PACKETS) this.packets.copyWithin(to, from, from + length)
      else this.load(fromSpace, toAt, fromAt, length)
      return DONE
    }
    if (clean) this.healWholeLines(toAt, length)
    const result =
      fromSpace === PART
        ? this.move(fromAt, toAt, length)
        : this.nvdimm.store(toAt, this.memoryOf(fromSpace), fromAt, length)
    if (clean && result === DONE) this.nvdimm.clean(toAt, length)
    return result
  }

  /** A line that is about to be written whole loses its media error (hal.ts, COPY_CLEAN). */
  private healWholeLines(at: number, length: number): void {
    const first = (at + LINE_BYTES - 1) & -LINE_BYTES
    const end = (at + length) & -LINE_BYTES
    if (end > first) this.nvdimm.clearPoison(first, end - first)
  }

  /** Loads from the part, or the host's memory, into packet memory. */
  private load(space: number, to: number, from: number, length: number): void {
    if (length > LOOP_BYTES_MAX || ((to | from | length) & 3) !== 0) {
      this.packets.set(this.memoryOf(space).subarray(from, from + length), to)
      return
    }
    const source = this.wordsOf(space)
    const into = this.halves
    const end = (to + length) >> 2
    for (let i = to >> 2, j = from >> 2; i < end; i++, j++) into[i] = source[j]!
  }

  /** Copies within the part; ranges that overlap go by way of a copy. */
  private move(from: number, to: number, length: number): number {
    const { live } = this.nvdimm
    if (to + length <= from || from + length <= to) {
      return this.nvdimm.store(to, live, from, length)
    }
    return this.nvdimm.store(to, live.slice(from, from + length), 0, length)
  }

  private guard(from: number, length: number, expected: number): number {
    const space = this.space(from, length)
    if (space === NOWHERE || expected >>> 0 !== expected || expected === 0) return BAD_COMMAND
    const at = this.offsetIn(space, from)
    const fault = this.readFault(space, at, length)
    if (fault !== DONE) return fault
    const memory = this.memoryOf(this.locate(space, at, length))
    return guardOf(memory, this.locatedAt, length) === expected ? DONE : GUARD_FAILED
  }

  private stream(from: number, to: number, length: number): number {
    const { packets } = this
    if (this.space(from, STREAM_KEY_BYTES) !== PACKETS) return BAD_COMMAND
    if (this.space(to, length) !== PACKETS || length % 4 !== 0) return BAD_COMMAND
    packets.set(keystream(packets.subarray(from, from + STREAM_KEY_BYTES), length), to)
    this.watch.onStream?.(packets.subarray(to, to + length))
    return DONE
  }

  protected check(from: number, to: number, length: number, key: number): number {
    const fromSpace = this.space(from, length)
    const toSpace = this.space(to, CHECK_CODE_BYTES)
    const keySpace = this.space(key, CHECK_KEY_BYTES)
    if (fromSpace === NOWHERE || toSpace === NOWHERE || keySpace === NOWHERE) return BAD_COMMAND
    const fromAt = this.offsetIn(fromSpace, from)
    const toAt = this.offsetIn(toSpace, to)
    const keyAt = this.offsetIn(keySpace, key)
    const fault =
      this.readFault(fromSpace, fromAt, length) || this.readFault(keySpace, keyAt, CHECK_KEY_BYTES)
    if (fault !== DONE) return fault
    const sourceSpace = this.locate(fromSpace, fromAt, length)
    const sourceAt = this.locatedAt
    const keyBytes = this.memoryOf(this.locate(keySpace, keyAt, CHECK_KEY_BYTES))
    // Behind the last `locate`, which may have moved what was put together.
    const source = this.memoryOf(sourceSpace)
    const code = toSpace === PACKETS ? this.packets : this.code
    const codeAt = toSpace === PACKETS ? toAt : 0
    checkCode(code, codeAt, source, sourceAt, length, keyBytes, this.locatedAt)
    if (toSpace === PACKETS) return DONE
    if (toSpace === PART) return this.nvdimm.store(toAt, this.code, 0, CHECK_CODE_BYTES)
    if (toSpace === DMA) {
      this.ram!.dmaWrite(toAt, this.code, 0, CHECK_CODE_BYTES)
      return DONE
    }
    this.writeHost(toAt, this.code, 0, CHECK_CODE_BYTES, false)
    return DONE
  }

  private compare(left: number, right: number, length: number): number {
    let leftSpace = this.space(left, length)
    let rightSpace = this.space(right, length)
    if (leftSpace === NOWHERE || rightSpace === NOWHERE) return BAD_COMMAND
    let leftAt = this.offsetIn(leftSpace, left)
    let rightAt = this.offsetIn(rightSpace, right)
    const fault =
      this.readFault(leftSpace, leftAt, length) || this.readFault(rightSpace, rightAt, length)
    if (fault !== DONE) return fault
    leftSpace = this.locate(leftSpace, leftAt, length)
    leftAt = this.locatedAt
    rightSpace = this.locate(rightSpace, rightAt, length)
    rightAt = this.locatedAt
    if (length <= LOOP_BYTES_MAX && ((leftAt | rightAt | length) & 3) === 0) {
      const a = this.wordsOf(leftSpace)
      const b = this.wordsOf(rightSpace)
      const end = (leftAt + length) >> 2
      for (let i = leftAt >> 2, j = rightAt >> 2; i < end; i++, j++) {
        if (a[i] !== b[j]) return DIFFERENT
      }
      return EQUAL
    }
    const a = this.memoryOf(leftSpace).subarray(leftAt, leftAt + length)
    const b = this.memoryOf(rightSpace).subarray(rightAt, rightAt + length)
    return Buffer.compare(a, b) === 0 ? EQUAL : DIFFERENT
  }

  /** A word that compared unequal is not stored. The original is told of a command done. */
  private atomic(op: number, from: number, to: number, length: number, original: number): number {
    const space = this.space(to, ATOMIC_BYTES)
    if (length !== ATOMIC_BYTES || to % ATOMIC_BYTES !== 0) return BAD_COMMAND
    if (space === NOWHERE || space === DMA) return BAD_COMMAND
    if (this.space(from, OPERAND_BYTES) !== PACKETS) return BAD_COMMAND
    if (this.space(original, ATOMIC_BYTES) !== PACKETS) return BAD_COMMAND
    const { nvdimm, halves, word, operands } = this
    const offset = this.offsetIn(space, to)
    const fault = this.readFault(space, offset, ATOMIC_BYTES)
    if (fault !== DONE) return fault
    // Aligned, so it is in one piece.
    const words = this.wordsOf(this.locate(space, offset, ATOMIC_BYTES))
    const at = this.locatedAt
    const low = words[at >> 2]!
    const high = words[(at >> 2) + 1]!
    if (atomicResult(op, operands, from, low, high, word)) {
      if (space === PACKETS) {
        halves.set(word, at >> 2)
      } else if (space === HOST) {
        this.host!.dmaAtomic(at, this.wordBytes)
      } else {
        const result = nvdimm.store(at, this.wordBytes, 0, ATOMIC_BYTES)
        if (result !== DONE) return result
        nvdimm.clean(at, ATOMIC_BYTES)
      }
    }
    putOriginal(operands, original, low, high)
    return DONE
  }

  /** Frames leave from packet memory only, as a NIC sends them. */
  private transmit(from: number, length: number, at: number): number {
    if (length > FRAME_BYTES_MAX || this.space(from, length) !== PACKETS) return BAD_COMMAND
    const frame = this.packets.slice(from, from + length)
    const form = this.words[at + AUX]!
    if (!isForm(form)) return BAD_COMMAND
    const icrc = form % TAGGED
    const place = placeOfForm(form)
    if (place >= 0 && !this.tags.fill(place, frame)) return BAD_COMMAND
    if (icrc !== ICRC_NONE && !fillIcrc(frame, 0, length, icrc === ICRC_LINUX_FLUSH)) {
      return BAD_COMMAND
    }
    this.framesSent++
    this.bytesSent += length
    const { trace } = this.watch
    if (trace !== undefined) {
      this.words[at + RESULT] = DONE
      this.traceCommand(trace, at)
      trace(frame)
    }
    this.options.transmit(frame)
    return DONE
  }

  /**
   * Puts a received frame into place `i` of the burst, with its length and the verdict on its
   * ICRC. Of a frame that is too long only what fits is there; its length says so.
   */
  place(i: number, frame: Uint8Array): void {
    if (!(i >= 0 && i < BURST_FRAMES)) throw new RangeError(`a burst has no place ${i}`)
    const at = RECEIVE_AT + i * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
    const { length } = frame
    const fits = length <= FRAME_BYTES_MAX
    this.packets.set(fits ? frame : frame.subarray(0, FRAME_BYTES_MAX), at)
    const word = (RECEIVED_AT >> 2) + 2 * i
    this.halves[word] = length
    this.halves[word + 1] = fits ? this.verdict(at, length) : 0
    if (i === 0) this.tellHealth()
  }

  private secure(from: number, length: number, place: number): number {
    if (this.space(from, length) !== PACKETS) return BAD_COMMAND
    return this.tags.secure(this.packets.slice(from, from + length), place)
  }

  private keepPeer(from: number, length: number, aux: number): number {
    if (this.space(from, length) !== PACKETS || length > PEER_LINE_BYTES) return BAD_COMMAND
    if (aux !== 0 && aux !== 1) return BAD_COMMAND
    const { peers } = this.options
    if (peers === undefined) return NOT_KEPT
    return peers.keep(this.packets.slice(from, from + length), aux === 1)
  }

  /** Which ICRC the frame has, and whether its tag is good, as flags; 0 if both are wrong. */
  private verdict(at: number, length: number): number {
    if (icrcGood(this.packets, at, length)) {
      return this.tags.isGood(this.packets, at, length) ? ICRC_GOOD | TAG_GOOD : ICRC_GOOD
    }
    return icrcGoodLinuxFlush(this.packets, at, length) ? ICRC_GOOD_LINUX_FLUSH : 0
  }

  /** Writes the health bits, as a board may at any time. */
  tellHealth(): void {
    const trial = this.options.isOnTrial?.() === true ? ON_TRIAL : 0
    this.halves[HEALTH_AT >> 2] = this.nvdimm.health() | trial
  }

  /** Says when the last call of the firmware was over, as a board may. */
  tellEnd(nowUs: number): void {
    this.callEnded[0] = nowUs
  }

  /** Sets what is watched from now on; an empty object ends it. */
  observe(watch: Watch): void {
    checkFields('what is watched', watch, WATCH_KINDS)
    this.watch = watch
    this.updateWatched()
  }

  /**
   * Cuts the power before the `command`-th command from now, 0 being the next; with `bytes`,
   * inside it, if it is one that stores, after so many bytes. A cut that is due when a list ends
   * strikes there.
   */
  armCut(command: number, bytes = 0): void {
    check('commands until the cut', command, SIZE)
    check('bytes that are stored', bytes, SIZE)
    this.cut = { command: this.commandCount + command, bytes }
    this.updateWatched()
  }

  /** Cuts the power inside a random store of the next list that has a fence: a group's commit. */
  armCutInGroup(random: Random): void {
    check('random', random, RANDOM)
    this.cutInGroup = random
    this.updateWatched()
  }

  /** Cuts the power now, between two lists. */
  die(): void {
    this.dead = true
    this.cut = null
    this.cutInGroup = null
  }

  private updateWatched(): void {
    const { onCommand, replace, trace } = this.watch
    this.watched =
      (onCommand ?? replace ?? trace) !== undefined || this.cut !== null || this.cutInGroup !== null
  }

  /**
   * Aims at a store between two fences, so that the cut finds something pending: first the epoch is
   * drawn, so that a lane's single line is hit as often as a slot's many, then the store, then how
   * far it had come.
   */
  private aimAtGroup(count: number): void {
    const random = this.cutInGroup
    if (random === null) return
    const epochs: number[][] = [[]]
    for (let i = 0; i < count; i++) {
      const op = this.words[i * COMMAND_WORDS + OP]
      if (op === FENCE) epochs.push([])
      else if (op === COPY_CLEAN) epochs.at(-1)!.push(i)
    }
    const stores = epochs.filter((epoch) => epoch.length > 0)
    if (epochs.length === 1 || stores.length === 0) return
    const epoch = stores[random.below(stores.length)]!
    const command = epoch[random.below(epoch.length)]!
    const length = this.words[command * COMMAND_WORDS + LENGTH]!
    this.cutInGroup = null
    this.armCut(command, CHUNK_BYTES + random.below(Math.max(1, length - CHUNK_BYTES)))
  }

  /** The power goes, inside the command whose words are at `at`, or between two. */
  private strike(at: number): void {
    const bytes = this.cut?.bytes ?? 0
    const op = at < 0 ? SKIP : this.words[at + OP]!
    if (bytes > 0 && (op === COPY || op === COPY_CLEAN)) {
      const to = this.words[at + TO]!
      // What is torn is torn between two pieces of eight bytes, never inside one.
      const whole = Math.min(bytes, this.words[at + LENGTH]!)
      const stored = whole - ((to + whole) % 8)
      if (stored > 0) this.copy(at, this.words[at + FROM]!, to, stored, false)
    }
    this.die()
    this.options.onCut?.()
  }

  get statistics(): MachineStatistics {
    const commands: Record<string, number> = {}
    OP_NAMES.forEach((name, op) => {
      if (op > 0) commands[name] = this.counts[op]!
    })
    return {
      runs: this.runs,
      commands,
      fences: this.nvdimm.fences - this.fencesBefore,
      bytesStored: this.nvdimm.bytesStored - this.storedBefore,
      linesCleaned: this.nvdimm.linesCleaned - this.cleanedBefore,
      framesSent: this.framesSent,
      bytesSent: this.bytesSent,
    }
  }
}
