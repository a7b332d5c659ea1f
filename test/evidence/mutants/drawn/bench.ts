/** The machinery that plays units on a product. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { filesBelow } from '../../../support/source/sources.ts'
import { ROOT } from '../build.ts'
import { type Evaluation, Library, type LibraryOptions, type Work } from './modules.ts'
import type { Drawn } from './places.ts'
import type { Amount, Piece } from './plays.ts'
import { FEW_DRAWS, playTold, Runner, type Told } from './runner.ts'
import { edited } from './syntax.ts'

const PLAYS = 'test/evidence/mutants/drawn/plays.ts'
const MEMORY = 'test/support/cards/packet-memory.ts'

/** Of a unit that takes more, the others are left to the garbage collector. */
const LENT_MAX = 16

/** Tests of this file go on with cards of the tests before them. */
const KEEPER = 'suite test/firmware/queues/queue-faults.test.ts'

/** Sources of the product. */
export function productFiles(): string[] {
  return filesBelow('firmware').filter((path) => path.endsWith('.ts'))
}

export function sourceOf(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

/** A unit by its name: `STAGE PIECE`, or `suite FILE > TEST`. */
export interface Unit {
  readonly name: string
  /** Work that the product takes for it. */
  readonly work: number
  /** It would take more: it is played up to there, and what it finds until then counts. */
  readonly isCut: boolean
}

/** Who is asked. */
export interface Panel {
  /** Paths of test files. */
  readonly suite: readonly string[]
  /** How much of the general stages; null: nothing. */
  readonly pieces: Amount | null
}

/** What all evaluations of a bench share. */
interface Shared {
  readonly amount: Amount | null
  /** Packet memories that no card has: to make new ones takes longer than most units. */
  readonly memories: Uint8Array[]
  /** Of the file of the suite that is being loaded. */
  runner: Runner
}

/** Units, loaded with a product. */
export class Killers {
  private readonly evaluation: Evaluation
  private readonly runners = new Map<string, Runner>()
  private known: ReadonlyMap<string, Piece> | null = null
  private readonly shared: Shared
  /** Packet memories of the cards of the unit that is played. */
  private readonly taken = new Set<Uint8Array>()
  private isLending = false

  constructor(evaluation: Evaluation, shared: Shared) {
    this.evaluation = evaluation
    this.shared = shared
  }

  /** Cards get their packet memories of the bench: all zero, as new ones are. */
  private lendMemories(): void {
    if (this.isLending) return
    this.isLending = true
    const { memories } = this.shared
    const support = this.evaluation.load(MEMORY)
    const makeNew = support.takePacketMemory as () => Uint8Array
    const { MEMORY_BYTES } = this.evaluation.load('firmware/board/memory-map.ts')
    const lend = (): Uint8Array => {
      const place = memories.findIndex(({ length }) => length === MEMORY_BYTES)
      const memory = place < 0 ? makeNew() : memories.splice(place, 1)[0]!.fill(0)
      if (this.taken.size < LENT_MAX) this.taken.add(memory)
      return memory
    }
    const giveBack = (memory: Uint8Array): void => {
      if (this.taken.delete(memory)) memories.push(memory)
    }
    Object.defineProperty(support, 'takePacketMemory', { value: lend })
    Object.defineProperty(support, 'givePacketMemory', { value: giveBack })
  }

  pieces(): ReadonlyMap<string, Piece> {
    const { amount } = this.shared
    if (amount === null) return new Map()
    const make = this.evaluation.load(PLAYS).pieces as (of: Amount) => ReadonlyMap<string, Piece>
    this.known ??= make(amount)
    return this.known
  }

  /** The tests of a file of the suite. */
  testsOf(file: string): readonly Told[] {
    const known = this.runners.get(file)
    if (known !== undefined) return known.tests
    const runner = new Runner()
    this.runners.set(file, runner)
    this.shared.runner = runner
    this.evaluation.load(file)
    return runner.tests
  }

  /** Plays a unit; its witness, or null. What it throws is a witness, too. */
  async play(name: string, work: Work, most: number): Promise<string | null> {
    work.left = most
    let witness: string | null
    try {
      witness = await inTurns(this.unit(name))
    } catch (error) {
      witness = `threw: ${error instanceof Error ? error.message : String(error)}`
    }
    if (originOf(name) !== KEEPER) this.shared.memories.push(...this.taken)
    this.taken.clear()
    const hangs = work.left < 0
    return hangs ? 'it hangs' : witness
  }

  private async unit(name: string): Promise<string | null> {
    this.lendMemories()
    const [, file, index] = /^suite (\S+) (\d+)/.exec(name) ?? []
    if (file === undefined) {
      const piece = this.pieces().get(name)
      if (piece === undefined) throw new Error(`no unit is called ${name}`)
      return piece()
    }
    const told = this.testsOf(file)[Number(index)]
    // A card that all tests of a file have stays theirs.
    this.taken.clear()
    // What tells its tests by what the product says has other tests with another product.
    if (told === undefined) return 'a test is not there'
    await playTold(told)
    return null
  }
}

/** Turns of the event loop that a unit may wait for nothing. */
const TURNS_MAX = 2000

/** What the play comes to; one that waits for what never comes is told after so many turns. */
async function inTurns(play: Promise<string | null>): Promise<string | null> {
  let ended = false
  play.then(
    () => {
      ended = true
    },
    () => {
      ended = true
    },
  )
  // Late turns last longer: a unit may wait for a timer.
  for (let turn = 0; turn < TURNS_MAX && !ended; turn++) {
    const isLate = turn >= TURNS_MAX / 2
    await new Promise((resolve) => (isLate ? setTimeout(resolve, 1) : setImmediate(resolve)))
  }
  return ended ? play : 'it waits for what never comes'
}

/** What is said of a unit that wants QuickJS: the bundle that it would play has no mutant in it. */
const WANTS_ENGINE = 'there is no QuickJS here'

const NO_ENGINE: unknown = new Proxy(
  {},
  {
    get: () => {
      throw new Error(WANTS_ENGINE)
    },
  },
)

export interface Bench {
  readonly library: Library
  killers(): Killers
  /** Makes units with the mutant in them, each time from new. */
  broken(mutant: Drawn): Promise<() => Killers>
}

/** What a unit came to that was played on the product. */
interface PlayedUnit extends Unit {
  /** What it objects to, or null. */
  readonly witness: string | null
}

/** How units are played on the product, one behind the other. */
interface Plays {
  /** Work that a unit may take. */
  mostFor(name: string): number
  begins(): void
  /** It was played, and objects to nothing that a cut-off one left behind. */
  ended(unit: PlayedUnit): void
  progress(share: number): void
}

/** The file of the suite that the unit is from, or what stands for one. */
function originOf(unit: string): string {
  return unit.split(' ', 2).join(' ')
}

/** Of the rows of a table, or of pieces of one name, so many take too long; then all do. */
const CUTS = 2

/** What rows of one table have in common. */
function titleOf(unit: string): string {
  return unit.replace(/^(suite \S+) \d+/, '$1')
}

/**
 * Plays units on the product. What wants an engine is none; what takes too long is cut off. That
 * may leave a mess in its file: who objects behind it is asked again in a file loaded again.
 */
export async function playEach(
  { library: { work }, killers }: Bench,
  by: Killers,
  names: readonly string[],
  plays: Plays,
): Promise<void> {
  /** Files of which a test was cut off in the middle of something. */
  const spoilt = new Set<string>()
  const cuts = new Map<string, number>()
  const play = async (on: Killers, name: string, isLast: boolean): Promise<boolean> => {
    const title = titleOf(name)
    const cutsBefore = cuts.get(title) ?? 0
    if (cutsBefore === CUTS) return true
    plays.begins()
    const most = plays.mostFor(name)
    const witness = await on.play(name, work, most)
    if (witness?.includes(WANTS_ENGINE) === true) return true
    const isCut = work.left < 0
    if (!isLast && !isCut && witness !== null && spoilt.has(originOf(name))) return false
    if (isCut) {
      spoilt.add(originOf(name))
      cuts.set(title, cutsBefore + 1)
    }
    plays.ended({
      name,
      witness: isCut ? null : witness,
      work: most - Math.max(0, work.left),
      isCut,
    })
    return true
  }
  const doubtful: string[] = []
  for (const [i, name] of names.entries()) {
    if (!(await play(by, name, false))) doubtful.push(name)
    plays.progress((i + 1) / names.length)
  }
  for (const name of doubtful) await play(killers(), name, true)
}

/** Compiles everything that the units need. */
export async function newBench(
  { suite, pieces }: Panel,
  options: Pick<LibraryOptions, 'marked'> & { readonly statements?: number } = {},
): Promise<Bench> {
  const shared: Shared = { amount: pieces, memories: [], runner: new Runner() }
  const vitest = new Proxy({}, { get: (_, name) => shared.runner.vitest[String(name)] })
  const instead = new Map<string, unknown>([
    ['vitest', vitest],
    ['fast-check', FEW_DRAWS],
    ['quickjs-emscripten', NO_ENGINE],
  ])
  const { statements = 0, ...how } = options
  const library = new Library({ instead, ...how }, statements)
  await library.add([MEMORY, ...(pieces === null ? [] : [PLAYS]), ...suite])
  return {
    library,
    killers: () => new Killers(library.evaluation(), shared),
    broken: async ({ file, edits }) => {
      const body = await library.compile(file, edited(sourceOf(file), edits))
      return () => new Killers(library.evaluation({ path: file, body }), shared)
    },
  }
}
