/**
 * Command lists drawn at random, run by the emulated machine and by the native one.
 *
 * Invariant: both get the same packet memory, parts and lists. What the native machine
 * leaves is read back from its answers and its files, never from its own word alone: it ends like a
 * process that is killed, so that its part's file then holds what was durable.
 */

import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { PcieLink } from '../../../boards/emulator/host/pcie.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { guardOf } from '../../../boards/software/guard.ts'
import {
  AGREE,
  ARRANGE,
  AUX,
  COMMAND_WORDS,
  COMMANDS_AT,
  COMPARE_SWAP,
  DMA_SPACE,
  type Facts,
  FENCE,
  FETCH_ADD,
  FROM,
  GUARD,
  HASH,
  HOST_SPACE,
  KEEP_PEER,
  KEYSTREAM,
  LENGTH,
  NVDIMM_SPACE,
  OP,
  PRIVATE_AT,
  RECEIVED_AT,
  SEAL,
  SEAL_DATA_BYTES,
  SEAL_KEY_BYTES,
  SEAL_NONCE_BYTES,
  SEAL_TAG_BYTES,
  SECURE,
  SKIP,
  TO,
  TRANSMIT,
  TRANSMIT_AT,
  UNSEAL,
} from '../../../firmware/board/hal.ts'
import {
  FRAME_STRIDE_BYTES,
  PAGE_BYTES,
  PEER_LINE_BYTES,
  TRANSMIT_FRAMES,
} from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { TagDrawing } from './tag-lists.ts'

/** Bytes of the part, and of each window. */
const SPACE = 65_536
/** Bytes at PRIVATE_AT that the lists use, most of the time. */
const SCRATCH = 16_384
/** Entries of tables for ARRANGE, 8 bytes each, where no list stores on purpose. */
const TABLES_AT = PRIVATE_AT + SCRATCH + 4096
const TABLES = 64
/** Behind them what SEAL takes besides its text, a line of data at most, twice a line each. */
const SEALINGS_AT = TABLES_AT + 8 * TABLES
const SEALINGS = 16
const SEALING_BYTES = 128
/** Behind them the keys of tags. */
const TAG_KEYS_AT = SEALINGS_AT + SEALINGS * SEALING_BYTES

export interface List {
  /** The frames that come before it, a burst of them at most. */
  readonly came: readonly Uint8Array[]
  /** What `run` is called with. */
  readonly count: number
  /** The commands, COMMAND_WORDS numbers each. */
  readonly words: Float64Array
}

/** Everything both machines begin with. */
interface Beginning {
  readonly packets: Uint8Array
  readonly part: Uint8Array
  readonly host: Uint8Array
  readonly dma: Uint8Array
  readonly poisonedLines: readonly number[]
  readonly dirtyShutdowns: number
}

/** What became of one list. */
interface Ran {
  /** Flags of the frames that came. */
  readonly flags: readonly number[]
  readonly done: number
  /** The commands as they are afterwards, results and all. */
  readonly words: Buffer
  readonly frames: readonly Buffer[]
}

/** What a machine left. */
export interface Left {
  readonly ran: readonly Ran[]
  readonly packets: Buffer
  /** What is durable. */
  readonly part: Buffer
  readonly host: Buffer
  readonly dma: Buffer
  readonly condition: string
  /** Runs, fences, bytes stored, lines cleaned. */
  readonly counters: readonly number[]
}

const ODD = [
  ...[Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, -1, 0.5, 1e300],
  ...[2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 63, 2 ** 64, 4 * 2 ** 48, 5e-324],
]

/** Draws lists. Their addresses meet often, and stand at the ends of spaces. */
export class Drawing {
  private readonly random: Random
  /** The last SEAL that was drawn, until something is to open it. */
  private sealed: Float64Array | null = null
  private readonly tags: TagDrawing

  constructor(random: Random) {
    this.random = random
    this.tags = new TagDrawing(random)
  }

  private pick<T>(from: readonly T[]): T {
    return from[this.random.below(from.length)]!
  }

  beginning(frames: readonly Uint8Array[], poisoned: number): Beginning {
    const { random } = this
    // Every other line is zeros: a comparison finds equals, too.
    const filled = (bytes: number): Uint8Array => {
      const into = new Uint8Array(bytes)
      for (let at = 0; at < bytes; at += 128) random.fill(into, at, 64)
      return into
    }
    const packets = new Uint8Array(MEMORY_BYTES)
    packets.set(filled(SCRATCH), PRIVATE_AT)
    packets.set(filled(256), MEMORY_BYTES - 256)
    // Behind what commands store to, but for those that go anywhere.
    const tables = new Uint32Array(packets.buffer, TABLES_AT, 2 * TABLES)
    for (let i = 0; i < tables.length; i += 2) {
      tables[i] = random.below(SPACE / PAGE_BYTES)
      tables[i + 1] = 1 + random.below(3)
    }
    const dataLengths = [...[0, 0, 0, 0, 1, 12, 16, 17, 31, 32, 63], ...[64, 64], ...[65, 2 ** 31]]
    for (let i = 0; i < SEALINGS; i++) {
      const at = SEALINGS_AT + i * SEALING_BYTES
      random.fill(packets, at, SEALING_BYTES)
      const length = new Uint32Array([dataLengths[i] ?? 8])
      packets.set(new Uint8Array(length.buffer), at + SEAL_KEY_BYTES + SEAL_NONCE_BYTES)
    }
    for (let i = 0; i < TRANSMIT_FRAMES; i++) {
      packets.set(this.pick(frames), TRANSMIT_AT + i * FRAME_STRIDE_BYTES)
    }
    this.tags.place(packets, TAG_KEYS_AT)
    const lines = new Set(Array.from({ length: poisoned }, () => random.below(SPACE / 64)))
    const poisonedLines = [...lines].sort((a, b) => a - b)
    const spaces = { part: filled(SPACE), host: filled(SPACE), dma: filled(SPACE) }
    return { packets, ...spaces, poisonedLines, dirtyShutdowns: poisoned > 0 ? 3 : 0 }
  }

  private offset(bytes: number, length: number): number {
    const { random } = this
    const room = Math.max(0, bytes - length)
    if (random.chance(0.05)) return bytes - length + random.below(3) - 1
    const at = random.chance(0.5) ? random.below(Math.min(room, 1024) + 1) : random.below(room + 1)
    return random.chance(0.6) ? at & -64 : random.chance(0.5) ? at & -8 : at
  }

  private address(length: number): number {
    const { random } = this
    if (random.chance(0.4)) return PRIVATE_AT + this.offset(SCRATCH, length)
    if (random.chance(0.02)) return this.offset(MEMORY_BYTES, length)
    // The ring itself: a list that changes what stands behind.
    if (random.chance(0.01)) return COMMANDS_AT + this.offset(2048, length)
    // An access of no bytes reaches no host: what it would come to there, no rule says.
    const spaces = [NVDIMM_SPACE, NVDIMM_SPACE, NVDIMM_SPACE, HOST_SPACE, DMA_SPACE]
    const space = length === 0 ? NVDIMM_SPACE : this.pick(spaces)
    return space + this.offset(SPACE, length)
  }

  private length(): number {
    const { random } = this
    if (random.chance(0.5)) return 64 * (1 + random.below(4))
    if (random.chance(0.1)) return random.below(6000)
    return random.chance(0.05) ? 0 : 1 + random.below(200)
  }

  private command(words: Float64Array): void {
    const { random } = this
    const length = this.length()
    words[OP] = this.pick([
      1,
      2,
      2,
      2,
      3,
      FENCE,
      FENCE,
      5,
      6,
      7,
      SKIP,
      9,
      10,
      GUARD,
      ARRANGE,
      KEYSTREAM,
      AGREE,
      HASH,
      SEAL,
      SEAL,
      UNSEAL,
      SECURE,
      SECURE,
      KEEP_PEER,
      TRANSMIT,
    ])
    words[FROM] = this.address(length)
    words[TO] = this.address(length)
    words[LENGTH] = length
    words[AUX] = random.chance(0.5) ? random.below(4) : PRIVATE_AT + this.offset(SCRATCH, 16)
    const op = words[OP]
    if (op === TRANSMIT) {
      words[FROM] = TRANSMIT_AT + random.below(TRANSMIT_FRAMES) * FRAME_STRIDE_BYTES
      words[LENGTH] = 40 + random.below(60)
      words[AUX] = random.below(4)
      if (random.chance(0.6)) this.tags.transmit(words)
    }
    if (op === FETCH_ADD || op === COMPARE_SWAP) {
      words[FROM] = PRIVATE_AT + this.offset(SCRATCH, 16)
      if (random.chance(0.9)) words[TO] = Math.floor(words[TO] / 8) * 8
      words[LENGTH] = 8
      words[AUX] = PRIVATE_AT + this.offset(SCRATCH, 8)
      if (random.chance(0.05)) words[this.pick([FROM, AUX])] = this.address(16)
    }
    if (op === GUARD) this.guard(words)
    if (op === ARRANGE) this.arrange(words)
    if (op === KEYSTREAM) {
      words[FROM] = PRIVATE_AT + this.offset(SCRATCH, 64)
      words[TO] = PRIVATE_AT + this.offset(SCRATCH, 64)
      words[LENGTH] = random.chance(0.9) ? 4 * random.below(17) : length
      if (random.chance(0.1)) words[this.pick([FROM, TO])] = this.address(64)
    }
    if (op === SECURE) this.tags.secure(words)
    else if (op === KEEP_PEER) this.peer(words)
    else if (op >= AGREE) this.session(words)
    if (random.chance(0.03)) this.spoil(words)
    if (op === SEAL) this.sealed = words
  }

  /** Ranges lie close together, and some outside of packet memory. */
  private session(words: Float64Array): void {
    const { random } = this
    const [op] = words
    const length = random.chance(0.3) ? random.below(600) : random.below(100)
    words[LENGTH] = length
    for (const word of [FROM, TO]) words[word] = PRIVATE_AT + this.offset(SCRATCH, length)
    words[AUX] = SEALINGS_AT + SEALING_BYTES * random.below(SEALINGS)
    if (random.chance(0.3)) words[TO] = words[FROM]! + this.pick([0, 0, 1, -8, 16, 32, 64])
    if (op === AGREE) {
      words[AUX] = PRIVATE_AT + this.offset(SCRATCH, 32)
      if (random.chance(0.9)) words[LENGTH] = 32
    }
    const { sealed } = this
    if (op === UNSEAL && sealed !== null && random.chance(0.8)) {
      words[FROM] = sealed[TO]!
      words[LENGTH] = sealed[LENGTH]! + SEAL_TAG_BYTES
      words[AUX] = sealed[AUX]!
      if (random.chance(0.5)) words[TO] = words[FROM]
      this.sealed = null
    }
    if (random.chance(0.05)) words[this.pick([FROM, TO, AUX])] = this.address(64)
    if (random.chance(0.05)) words[AUX] = MEMORY_BYTES - random.below(2 * SEAL_DATA_BYTES)
  }

  /** Of zeros, if nothing was stored there before; now and then with another guard. */
  private guard(words: Float64Array): void {
    const { random } = this
    const length = random.chance(0.5) ? 64 : random.below(65)
    words[FROM] = this.pick([NVDIMM_SPACE, HOST_SPACE, PRIVATE_AT]) + 64 + 128 * random.below(64)
    words[LENGTH] = length
    words[AUX] = random.chance(0.1) ? random.below(4) : guardOf(new Uint8Array(length))
  }

  /** Most are tables of the beginning, of which many cannot be, or of no pieces. */
  private arrange(words: Float64Array): void {
    const { random } = this
    words[FROM] = TABLES_AT + 8 * random.below(TABLES)
    words[LENGTH] = random.chance(0.2) ? 0 : 8 * (1 + random.below(4))
    if (random.chance(0.1)) words[FROM] = this.address(64)
    if (random.chance(0.05)) words[LENGTH] = random.below(200)
  }

  /** In packet memory mostly, and not too long. */
  private peer(words: Float64Array): void {
    const { random } = this
    words[FROM] = PRIVATE_AT + this.offset(SCRATCH, 64)
    words[LENGTH] = random.chance(0.8) ? random.below(200) : PEER_LINE_BYTES - 2 + random.below(4)
    words[AUX] = random.below(3)
  }

  private spoil(words: Float64Array): void {
    const { random } = this
    const which = this.pick([OP, FROM, TO, LENGTH, AUX])
    if (random.chance(0.5)) words[which] = this.pick(ODD)
    else words[which] = words[which]! + this.pick([0.5, -0.25, 2 ** 32, -(2 ** 32), 2 ** 48, -1, 1])
  }

  list(): List {
    const { random } = this
    const commands = 1 + random.below(12)
    const words = new Float64Array(commands * COMMAND_WORDS)
    for (let i = 0; i < commands; i++) {
      this.command(words.subarray(i * COMMAND_WORDS, (i + 1) * COMMAND_WORDS))
    }
    const count = random.chance(0.02) ? this.pick([...ODD, commands + 0.5, 2049]) : commands
    return { came: this.tags.came(), count, words }
  }
}

const NAMES = ['runs', 'fences', 'bytesStored', 'linesCleaned'] as const

/** What the emulator makes of it; `live` is what loads see in the end. */
export function runEmulated(
  beginning: Beginning,
  lists: readonly List[],
): Left & { readonly live: Buffer } {
  const { poisonedLines, dirtyShutdowns } = beginning
  let frames: Buffer[] = []
  const link = new PcieLink(true)
  const condition = { dirtyShutdowns, saveFailed: false, poisonedLines }
  // The native machine's part is a file of the page cache.
  const nvdimm = new Nvdimm({ bytes: SPACE, content: beginning.part, condition, volatile: true })
  const hostPart = new Nvdimm({ bytes: SPACE, content: beginning.host })
  const host = new HostMemory({ part: hostPart, platform: DDIO_ON, link })
  const ram = new HostRam(SPACE, link)
  ram.live.set(beginning.dma)
  const machine = new EmulatedMachine({
    facts: { hostBytes: SPACE, dmaBytes: SPACE } as Facts,
    packets: beginning.packets.slice(),
    ...{ nvdimm, host, ram },
    transmit: (frame) => frames.push(Buffer.from(frame)),
  })
  const ring = new Float64Array(machine.memory, COMMANDS_AT)
  const received = new Int32Array(machine.memory, RECEIVED_AT)
  const ran = lists.map(({ came, count, words }) => {
    frames = []
    const flags = came.map((frame, i) => {
      machine.place(i, frame)
      return received[2 * i + 1]!
    })
    ring.set(words)
    const done = machine.run(count)
    const after = Buffer.from(machine.memory, COMMANDS_AT, words.byteLength)
    return { flags, done, words: Buffer.from(after), frames }
  })
  link.arrive()
  const bad = nvdimm.faulty().filter((line) => nvdimm.flagsAfterCut(line, false) !== 0)
  const { statistics } = machine
  return {
    ...{ ran, packets: Buffer.from(machine.packets), part: Buffer.from(nvdimm.durable) },
    live: Buffer.from(nvdimm.live),
    ...{ host: Buffer.from(hostPart.live), dma: Buffer.from(ram.live) },
    condition: `${JSON.stringify({ dirtyShutdowns, saveFailed: false, poisonedLines: bad })}\n`,
    counters: NAMES.map((name) => statistics[name]),
  }
}

/** A word of 32 bits, as the native machine reads it. */
function word(number: number): Buffer {
  return Buffer.from(new Uint32Array([number]).buffer)
}

/** What the native machine makes of it; its files are in `folder`. Throws what it complains of. */
export function runNative(
  program: string,
  folder: string,
  options: readonly string[],
  beginning: Beginning,
  lists: readonly List[],
): Left {
  const at = (name: string): string => join(folder, name)
  const { poisonedLines, dirtyShutdowns } = beginning
  for (const name of ['part', 'host', 'dma'] as const) writeFileSync(at(name), beginning[name])
  const condition = { dirtyShutdowns, saveFailed: false, poisonedLines }
  writeFileSync(at('part.condition'), `${JSON.stringify(condition)}\n`)
  const input = Buffer.concat([
    beginning.packets,
    ...lists.flatMap(({ came, count, words }) => [
      word(came.length),
      ...came.flatMap((frame) => [word(frame.length), frame]),
      Buffer.from(new Float64Array([count]).buffer),
      word(words.length / COMMAND_WORDS),
      Buffer.from(words.buffer),
    ]),
  ])
  const places = [`part=${at('part')}`, `host=${at('host')}`, `dma=${at('dma')}`]
  const args = ['lists', 'development', ...places, ...options]
  const { status, stdout, stderr } = spawnSync(program, args, { input, maxBuffer: 2 ** 30 })
  if (status !== 0) throw new Error(stderr.toString())
  const answers = new Answers(stdout)
  const ran = lists.map(({ came, words }) => answers.list(came.length, words.byteLength))
  return {
    ...{ ran, packets: answers.take(MEMORY_BYTES), part: readFileSync(at('part')) },
    ...{ host: readFileSync(at('host')), dma: readFileSync(at('dma')) },
    condition: readFileSync(at('part.condition'), 'utf8'),
    counters: NAMES.map(() => answers.take(8).readDoubleLE()),
  }
}

/** The answers, one behind the other. */
class Answers {
  private readonly bytes: Buffer
  private at = 0

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  take(length: number): Buffer {
    this.at += length
    if (this.at > this.bytes.length) throw new Error('the answers end early')
    return this.bytes.subarray(this.at - length, this.at)
  }

  list(came: number, bytes: number): Ran {
    const flags = Array.from({ length: came }, () => this.take(4).readUInt32LE())
    const done = this.take(4).readUInt32LE()
    const count = this.take(4).readUInt32LE()
    const words = this.take(bytes)
    const frames = Array.from({ length: count }, () => this.take(this.take(4).readUInt32LE()))
    return { flags, done, words, frames }
  }
}
