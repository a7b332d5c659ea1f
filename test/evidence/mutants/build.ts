/**
 * Builds the product with one rule broken, in memory, and lets a killer play on it.
 *
 * Invariant: the tree is read and never written. A play has a thread of its own, with a
 * limit of time and of memory: what hangs, or eats everything, has been noticed, as the unbroken
 * product ends every play well below both.
 */

import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { Plugin } from 'esbuild'
import type { Timeline } from '../../../host-driver/command/timeline/data.ts'
import { PATIENCE_MS } from '../../support/run/patience.ts'
import type { Order } from './killer.ts'
import { type By, broken, type Mutant } from './mutant.ts'

/** The root of the sources: whether this runs from there or from a bundle in dist. */
export const ROOT: string = rootAbove(dirname(fileURLToPath(import.meta.url)))

function rootAbove(folder: string): string {
  let at = folder
  while (!existsSync(join(at, 'build.mjs'))) at = dirname(at)
  return at
}

type Show = (timeline: Timeline) => void

/** A play with a mutant is stopped then, ms; the longest of the unbroken product takes seconds. */
const LIMIT_MS = 60_000
/** A play of the unbroken product has more time: a busy machine makes no violation of it. */
export const PRODUCT_LIMIT_MS: number = PATIENCE_MS
/** A mutant hangs when it takes this many times as long as the unbroken product. */
const TIMES_AS_LONG = 10
const HANGS = 'it hangs'
const MEMORY_MEBIBYTES = 1024

function breaking(mutant: Mutant): Plugin {
  const path = join(ROOT, mutant.file)
  return {
    name: 'mutant',
    setup: (build) => {
      build.onLoad({ filter: /\.ts$/ }, (of) => {
        if (of.path !== path) return null
        return { contents: broken(mutant, readFileSync(path, 'utf8')), loader: 'ts' }
      })
    },
  }
}

/** The program of that killer with the mutant in it; with null, of the product as it is. */
export async function buildKiller(by: By, mutant: Mutant | null): Promise<string> {
  const { build } = await import('esbuild')
  const contents =
    `import { serveKiller } from './killer.ts'\n` +
    `import { play } from './killers/${by}.ts'\n` +
    'serveKiller(play)\n'
  const resolveDir = join(ROOT, 'test/evidence/mutants')
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    stdin: { contents, resolveDir, loader: 'ts' },
    bundle: true,
    write: false,
    platform: 'node',
    target: 'node20.19',
    format: 'cjs',
    logLevel: 'silent',
    plugins: mutant === null ? [] : [breaking(mutant)],
  })
  return outputFiles[0]!.text
}

/** Plays: the witness of a violation, or null if there was none; `show` is given what it shows. */
export function playKiller(
  program: string,
  argument: string,
  limitMs: number = LIMIT_MS,
  show: Show | null = null,
): Promise<string | null> {
  const workerData: Order = { argument, shows: show !== null }
  return new Promise((resolve) => {
    const worker = new Worker(program, {
      eval: true,
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MEBIBYTES },
    })
    const end = (witness: string | null): void => {
      clearTimeout(timer)
      resolve(witness)
      void worker.terminate()
    }
    const timer = setTimeout(() => end(HANGS), limitMs)
    worker.on('message', (said: string | null | Timeline) => {
      if (said === null || typeof said === 'string') end(said)
      else show?.(said)
    })
    worker.on('error', (error) => end(`the thread stopped: ${error.message}`))
    worker.on('exit', () => end('the thread ended without a word'))
  })
}

/**
 * The witness against the mutant, or null: it survives. One that is stopped for its time is
 * compared with the unbroken product, played there and then: slowness of the machine is no witness.
 */
export async function witnessAgainst(
  mutant: Mutant,
  stoppedMs: number = LIMIT_MS,
  show: Show | null = null,
): Promise<string | null> {
  const { by, argument } = mutant.killer
  const program = await buildKiller(by, mutant)
  const witness = await playKiller(program, argument, stoppedMs, show)
  if (witness !== HANGS) return witness
  const product = await buildKiller(by, null)
  const began = performance.now()
  await playKiller(product, argument, PRODUCT_LIMIT_MS)
  const limitMs = TIMES_AS_LONG * (performance.now() - began)
  return limitMs <= stoppedMs ? HANGS : playKiller(program, argument, limitMs)
}
