/**
 * Frames that nobody should send, at the whole native runtime with sanitizers, over its UDP link:
 * packets, dialogues and control calls of the evidence's fuzzing (test/evidence/fuzz/), with the
 * queue pairs, PSNs, keys and tags that the runtime gave. One card is open; the other has peers,
 * and who attacks it has sessions and queue pairs with tags. In between an honest client writes
 * records, and reads all of them in the end, and once more behind a restart.
 *
 * The quick suite watches the C of `boards/linux/src` with AddressSanitizer and UBSan; engine and
 * translation are the shipped ones. In the thorough run AddressSanitizer watches these, too: that
 * is what `node build.mjs --board linux --sanitize` makes. SEED draws other frames. Skipped where
 * perdured is not built.
 */

import { chmodSync, readFileSync } from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { compileRuntime } from '../../../boards/linux/compile.ts'
import { hostArchitecture } from '../../../boards/linux/toolchain.ts'
import { keyText } from '../../../boards/software/keys.ts'
import { Control } from '../../evidence/fuzz/control.ts'
import { Honest } from '../../evidence/fuzz/native/honest.ts'
import { Mirror, type Opened } from '../../evidence/fuzz/native/mirror.ts'
import {
  type Ask,
  type Attacked,
  ClosedCard,
  OpenCard,
  peersOfClosed,
} from '../../evidence/fuzz/native/sides.ts'
import { episodeSeed } from '../../evidence/fuzz/play.ts'
import { DIALOGUES, PACKETS, Traffic } from '../../evidence/fuzz/traffic.ts'
import { pooledPackets } from '../../evidence/fuzz/world.ts'
import { Cable } from '../../support/board/cable.ts'
import { OWN_ARCHITECTURE, perduredMissing, perduredPath } from '../../support/board/perdured.ts'
import type { Runtime } from '../../support/board/runtime.ts'
import { type Keys, ServiceFolder } from '../../support/native/service.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { CARD } from '../../support/sessions/peers.ts'

const SEED = Number(process.env.SEED ?? 20261129)

/** What an episode plays, how many frames it has, and those of it in a hundred of all. */
const EPISODES = [
  { name: 'packets', open: traffic(PACKETS), share: 35 },
  { name: 'dialogues', open: traffic(DIALOGUES), share: 45 },
  { name: 'control', open: (seed: number) => new Control(optionsOf(seed)), share: 20 },
] as const

/** Frames of an episode of each kind, at the most; more than it has operations. */
const ROUND_FRAMES = 40_000
const OPERATIONS_EACH = 1 << 20
/** What the sanitizers say first. */
const FOUND = /Sanitizer|runtime error:/
/** A cache of freed memory that is full soon: what grows behind it is the runtime. */
const ENVIRONMENT = { ASAN_OPTIONS: 'quarantine_size_mb=8', UBSAN_OPTIONS: 'halt_on_error=1' }
/** What the process may grow by once each kind of episode was played, KiB. */
const GROWTH_KIB = 48 << 10

function optionsOf(seed: number): { seed: number; packets: Uint8Array } {
  return { seed, packets: pooledPackets() }
}

function traffic(manner: typeof PACKETS): (seed: number) => Traffic {
  return (seed) => new Traffic(optionsOf(seed), manner)
}

const folders: ServiceFolder[] = []
const cables: Cable[] = []
async function close(): Promise<void> {
  for (const one of cables.splice(0)) await one.close()
  for (const one of folders.splice(0)) await one.close()
}
afterEach(close)

/** The runtime, with a cable to it. */
class Served {
  runtime!: Runtime
  private cable!: Cable
  private readonly folder: ServiceFolder
  private readonly keys: Keys

  constructor(program: string, isOpen: boolean) {
    this.folder = new ServiceFolder(undefined, program, ENVIRONMENT)
    folders.push(this.folder)
    const { folder } = this
    folder.write('key', `${keyText(CARD.secret)}\n`)
    chmodSync(folder.at('key'), 0o600)
    folder.write('peers', peersOfClosed())
    const closed: Keys = isOpen ? {} : { key: folder.at('key'), peers: folder.at('peers') }
    // An instrumented function has a larger frame, and is slower.
    this.keys = { ...closed, 'memory-bytes': '1M', 'stack-bytes': '1M', 'call-ms': '600000' }
  }

  readonly ask: Ask = (frames) => this.cable.ask(...frames)

  async start(): Promise<void> {
    const { runtime, address } = await this.folder.serve(this.keys)
    this.runtime = runtime
    this.cable = new Cable(address)
    cables.push(this.cable)
  }

  /** What of its memory is there, KiB. */
  residentKib(): number {
    const text = readFileSync(`/proc/${this.runtime.process.pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)![1])
  }

  /** Ends it in order: nothing was found, not even a leak. */
  async stop(): Promise<void> {
    const code = await this.runtime.end('SIGTERM')
    expect(this.runtime.story).not.toMatch(FOUND)
    expect(code, this.runtime.story).toBe(0)
  }
}

/** What is counted: frames, those to queue pairs of the card, answers of reference and card. */
const WHAT = ['frames', 'addressed', 'reference', 'card'] as const
type Played = Record<(typeof WHAT)[number], number>

/** Plays one episode; what came of it. */
function play<One extends Opened>(
  card: Attacked<One>,
  honest: Honest,
  kind: (typeof EPISODES)[number],
  { seed, frames, operations }: { seed: number; frames: number; operations: number },
): Played {
  card.begin()
  const episode = kind.open(seed)
  const mirror = new Mirror(episode.arena, card, honest, operations)
  episode.run(frames)
  expect(episode.arena.world.complaint, `${kind.name}, seed ${seed}`).toBe('')
  const { addressed, answers } = mirror
  return { frames: mirror.frames, addressed, ...answers }
}

/** So many frames in all, at a card of that kind. */
async function attack(program: string, isOpen: boolean, frames: number): Promise<void> {
  const served = new Served(program, isOpen)
  await served.start()
  const random = new Random(SEED)
  const card = isOpen
    ? new OpenCard(served.ask)
    : new ClosedCard(served.ask, CARD.public, random.fork())
  try {
    await attackCard(served, card as Attacked<Opened>, frames)
  } catch (error) {
    // One that has ended answers nobody; what it said is the finding.
    await served.runtime.end('SIGKILL')
    throw new Error(served.runtime.story, { cause: error })
  } finally {
    await close()
  }
}

async function attackCard(served: Served, card: Attacked, frames: number): Promise<void> {
  card.provision()
  const honest = new Honest(card.way())
  const sums: Played = { frames: 0, addressed: 0, reference: 0, card: 0 }
  let grownFrom = 0
  for (let round = 0; sums.frames < frames; round++) {
    const size = Math.min(frames, ROUND_FRAMES)
    for (const [k, kind] of EPISODES.entries()) {
      const episode = EPISODES.length * round + k
      const played = play(card, honest, kind, {
        seed: episodeSeed(SEED, episode),
        frames: Math.ceil((size * kind.share) / 100),
        operations: episode * OPERATIONS_EACH,
      })
      for (const what of WHAT) sums[what] += played[what]
    }
    if (round === 0) grownFrom = served.residentKib()
  }
  // In state: they name what the card has given, and it answers more than half of what the
  // reference does.
  expect(sums.addressed).toBeGreaterThan(sums.frames / 2)
  expect(sums.card).toBeGreaterThan(sums.reference / 2)
  expect(honest.judge()).toBe('')
  expect(served.residentKib() - grownFrom).toBeLessThan(GROWTH_KIB)
  await served.stop()
  await served.start()
  honest.come(card.way())
  expect(honest.judge()).toBe('')
  await served.stop()
}

describe.each(['open', 'with peers'])('a card that is %s', (which) => {
  const missing = perduredMissing(OWN_ARCHITECTURE, '')
  const why = missing === null ? '' : `: ${missing}`
  test.skipIf(missing !== null)(`outlives hostile frames, seed ${SEED}${why}`, async () => {
    const program = compileRuntime({
      ...{ architecture: hostArchitecture(), sanitize: true, engineAsShipped: true },
      ...{ dropFlush: false, install: false, say: () => {} },
    })
    await attack(program, which === 'open', 5000)
  })

  const absent = perduredMissing(OWN_ARCHITECTURE, 'sanitize')
  const because = absent === null ? '' : `: ${absent}`
  const many = `outlives a million of them, sanitizers in the engine, seed ${SEED}${because}`
  test.skipIf(absent !== null)(many, THOROUGH, async () => {
    const program = perduredPath(OWN_ARCHITECTURE, 'sanitize')
    await attack(program, which === 'open', 500_000)
  })
})
