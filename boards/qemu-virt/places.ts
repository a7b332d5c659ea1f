/** Where things of this repository are, from the sources and from the bundle in `dist` alike. */

import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

function findRoot(): string {
  const from = dirname(fileURLToPath(import.meta.url))
  for (let folder = from; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'build.mjs'))) return folder
    if (dirname(folder) === folder) throw new Error(`no work tree of Perdure around ${from}`)
  }
}

export const ROOT: string = findRoot()

/** The sources of this board. */
export const HERE: string = join(ROOT, 'boards/qemu-virt')

/** What is fetched and compiled once. */
export const CACHE: string = join(ROOT, 'dist/qemu-virt')

/** The program of the network's thread (network-worker.ts), as every build leaves it. */
export const NETWORK: string = join(ROOT, 'dist/board-qemu-network.js')
