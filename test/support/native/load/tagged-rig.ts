/**
 * perdured with peers, a client with two queue pairs there, one with tags and one without, and
 * somebody who floods the first with what he forged.
 *
 * Invariant: who forges knows the queue pair, its client's addresses and a record of it, and no
 * key. His Ethernet address is his own: what comes in the name of another is dropped at the link.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as after } from 'node:timers/promises'
import type { BenchPrograms } from '../../../../boards/linux/bench/compile.ts'
import { keyText } from '../../../../boards/software/keys.ts'
import { peersText } from '../../../../boards/software/peers.ts'
import { Tags } from '../../../../boards/software/tags.ts'
import { Trouble } from '../../../../boards/tools/debian/programs.ts'
import { FAULTS } from '../../../../firmware/board/fault.ts'
import { putU32, u32 } from '../../../../firmware/wire/bytes.ts'
import { ICRC_BYTES } from '../../../../firmware/wire/icrc.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { TAG_KEY_BYTES, TRAILER_BYTES } from '../../../../firmware/wire/tag.ts'
import { ADMIN, CARD } from '../../sessions/peers.ts'
import { tagged } from '../../sessions/tagged.ts'
import { writeIcrc } from '../../wire/frames.ts'
import type { Caller } from './caller.ts'
import {
  ask,
  type Build,
  type LoadResult,
  type LoadWish,
  type Running,
  recordOf,
  runLoad,
  SLOTS,
  type Stream,
  startBlank,
} from './rig.ts'

/** Upper word of a counter that no client comes to: it is always new. */
const COUNTER_HIGH = 0x100000
const NO_TAG = FAULTS.findIndex(({ name }) => name === 'NO_TAG')
/** What a card has to serve before it is asked after a flood, ms. */
const SETTLE_MS = 100

/** Without a trailer, so that a part of the record stands in its place; or with a wrong tag. */
export type Forgery = 'untagged' | 'wrong tag'

/** What was sent of a flood. */
interface Flooded {
  readonly sent: number
  readonly seconds: number
}

/** A flood that is under way. */
interface Flood {
  end(): Promise<Flooded>
}

type Programs = Pick<BenchPrograms, 'load' | 'flood'>

export class TaggedRig {
  private readonly programs: Programs
  private readonly running: Running
  private readonly caller: Caller
  private readonly console: string
  private readonly streams: { plain: Stream; tagged: Stream }
  private readonly forgeries: Readonly<Record<Forgery, Uint8Array>>

  private constructor(
    programs: Programs,
    running: Running,
    caller: Caller,
    console: string,
    streams: TaggedRig['streams'],
    forgeries: TaggedRig['forgeries'],
  ) {
    this.programs = programs
    this.running = running
    this.caller = caller
    this.console = console
    this.streams = streams
    this.forgeries = forgeries
  }

  /** Starts that build on a new part in the folder, with a region for records of that size. */
  static async start(
    programs: Programs,
    build: Build,
    folder: string,
    bytes: number,
    env = {},
  ): Promise<TaggedRig> {
    const console = join(folder, 'console')
    const lines = [...identityIn(folder), `console = unix:${console}`]
    const running = await startBlank(build, folder, bytes, lines, env)
    try {
      const caller = running.caller()
      await caller.enter()
      await caller.provision(SLOTS, bytes)
      const plain = await caller.connect({ client: 7, clientQp: 0x101, hasTags: false })
      const secured = await caller.connect({ client: 8, clientQp: 0x102, hasTags: true })
      const region = await caller.open()
      const record = recordOf(secured.qp, region, bytes)
      const noKey = new Uint8Array(TAG_KEY_BYTES)
      const withRoom = tagged(record, new Tags(noKey, noKey))
      const streamOf = ({ qp }: typeof plain, input: Uint8Array): Stream => {
        return { from: caller.from, clientQp: qp.peer, psn: qp.psn, operation: 1, input }
      }
      const streams = {
        plain: streamOf(plain, recordOf(plain.qp, region, bytes)),
        tagged: streamOf(secured, Buffer.concat([secured.keys, withRoom])),
      }
      const forgeries = { untagged: record, 'wrong tag': farAhead(withRoom) }
      return new TaggedRig(programs, running, caller, console, streams, forgeries)
    } catch (error) {
      await running.close()
      throw error
    }
  }

  /** One load, on the queue pair that its way is for. */
  async load(wish: LoadWish): Promise<LoadResult> {
    const kind = wish.way === 'persist' ? 'plain' : 'tagged'
    const stream = this.streams[kind]
    const result = await runLoad(this.programs.load, this.running, stream, wish)
    this.streams[kind] = {
      ...stream,
      psn: (stream.psn + wish.records) & 0xffffff,
      // A tag has the counter of its operation, and what was sent again took more of them.
      operation: stream.operation + wish.records + result.again,
    }
    return result
  }

  /** Begins a flood of that kind on the queue pair with tags. */
  async flood(forgery: Forgery): Promise<Flood> {
    const child = spawn(this.programs.flood, [String(this.running.port)])
    this.running.add(child)
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    child.stdin.end(this.forgeries[forgery])
    if ((await lines.next()).value !== 'floods') throw new Trouble('the flood did not begin')
    return { end: () => endFlood(child, lines) }
  }

  /** What the firmware's heap holds. */
  async heapBytes(): Promise<number> {
    return Number((await ask(this.console, 'status')).heapBytes)
  }

  /** Frames that the firmware has refused for want of a tag. */
  async refused(): Promise<number> {
    await after(SETTLE_MS)
    const get = mad.METHOD_GET
    const body = await this.caller.call(get, mad.ATTRIBUTE_COUNTERS, undefined, NO_TAG)
    return u32(body, mad.COUNTERS_FIRST) * 2 ** 32 + u32(body, mad.COUNTERS_FIRST + 4)
  }

  close(): Promise<void> {
    return this.running.close()
  }
}

/** Writes a key and an admin into the folder; lines of a configuration that name them. */
function identityIn(folder: string): string[] {
  const [key, peers] = [join(folder, 'key'), join(folder, 'peers')]
  writeFileSync(key, `${keyText(CARD.secret)}\n`)
  chmodSync(key, 0o600)
  const admin = { key: ADMIN.public, name: 'admin', admin: true, read: [], write: [] }
  writeFileSync(peers, peersText([admin]))
  return [`key = ${key}`, `peers = ${peers}`]
}

/** The frame with a counter that is always new: its tag is computed before it is refused. */
function farAhead(frame: Uint8Array): Uint8Array {
  const copy = frame.slice()
  putU32(copy, copy.length - ICRC_BYTES - TRAILER_BYTES, COUNTER_HIGH)
  writeIcrc(copy)
  return copy
}

async function endFlood(
  child: ChildProcess,
  lines: AsyncIterator<string, undefined>,
): Promise<Flooded> {
  const closed = once(child, 'close')
  child.kill('SIGTERM')
  const { value } = await lines.next()
  await closed
  return JSON.parse(value!) as Flooded
}
