/**
 * A story with a card, told again and again: each time its power goes one command of the card
 * later, until the story ends before it goes.
 *
 * Invariants:
 * - The places are counted, not drawn; and so is what survives of the stores that are pending then.
 * - Every telling begins with a card of its own, on the same part. Its power comes back when the
 *   story says so.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach } from 'vitest'
import { type CutStrategy, Random } from '../../../boards/emulator/index.ts'
import { type ConnectOptions, connect, type Dpu } from '../../../host-driver/index.ts'
import { type LocalDpu, openLocal } from '../../../host-driver/local.ts'

/** What survives of the stores that are pending: none, all, every other line. */
export const SURVIVORS: readonly CutStrategy[] = ['none', 'all', 'alternate-lines']

const BYTES = 1 << 20
const RAM_BYTES = 1 << 20

/** Further than any story comes. */
const NEVER = 2 ** 40

/**
 * Cards on parts that are alike: `lay` lays the first one out. To be called once by a file; what
 * was opened is closed behind the test that opened it.
 */
export function partsLike(lay: (dpu: Dpu) => Promise<unknown>): () => Promise<LocalDpu> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-parts-'))
  const path = join(folder, 'part.nvdimm')
  const open: LocalDpu[] = []
  let isLaidOut = false
  afterEach(() => {
    for (const local of open.splice(0)) local.close()
  })
  afterAll(() => rmSync(folder, { recursive: true }))
  return async () => {
    const options = { path, engine: 'node', seed: 7, ramBytes: RAM_BYTES } as const
    if (!isLaidOut) {
      const local = await openLocal({ ...options, bytes: BYTES })
      const dpu = await connect(local.wire, { seed: 1 })
      await dpu.format()
      await lay(dpu)
      await dpu.close()
      local.close()
      isLaidOut = true
    }
    const local = await openLocal({ ...options, copyOnWrite: true })
    open.push(local)
    return local
  }
}

/** A client of the card that has its wire from now on: its seed tells it from those before it. */
export function clientOf(
  local: LocalDpu,
  seed: number,
  options: ConnectOptions = {},
): Promise<Dpu> {
  return connect(local.wire, { seed, ...options })
}

/** Where the power goes in one telling of a story. */
class Cut {
  /** Whether it went. */
  hasStruck = false
  private readonly at: number
  private readonly survivors: CutStrategy
  private local: LocalDpu | null = null

  constructor(at: number, survivors: CutStrategy) {
    this.at = at
    this.survivors = survivors
  }

  /** The power of this card goes so many commands from now. */
  arm(local: LocalDpu): void {
    local.dpu.armCut({
      record: NEVER,
      choice: { strategy: this.survivors, random: new Random(1) },
    })
    local.dpu.machine!.armCut(this.at)
    this.local = local
  }

  /** Waits for the end of `work`, however it ends, or for the power to go. */
  async during(work: Promise<unknown>): Promise<void> {
    const { dpu } = this.local!
    let hasEnded = false
    const end = (): void => {
      hasEnded = true
    }
    work.then(end, end)
    while (dpu.isOn && !hasEnded) await new Promise((resolve) => setImmediate(resolve))
    this.hasStruck = !dpu.isOn
    if (dpu.isOn) dpu.machine!.armCut(NEVER)
  }

  /** The power comes back, if it went. */
  async end(): Promise<void> {
    if (this.hasStruck) await this.local!.dpu.powerOn()
  }
}

/** Tells the story with every place of the cut, and once without; how many places there were. */
export async function everyPlace(
  survivors: CutStrategy,
  story: (cut: Cut) => Promise<void>,
): Promise<number> {
  for (let at = 0; ; at++) {
    const cut = new Cut(at, survivors)
    try {
      await story(cut)
    } catch (error) {
      throw new Error(
        `the power goes before command ${at}, and of what is pending ${survivors} stays`,
        {
          cause: error,
        },
      )
    }
    if (!cut.hasStruck) return at
  }
}
