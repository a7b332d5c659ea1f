/**
 * Writes blocks into a cache in front of a file, loses the power of the card inside a commit, and
 * finds out which blocks the file does not have yet:
 *
 *     node block-cache.mjs [TARGET FILE]
 */

import { constants } from 'node:fs'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'perdure'
import { openCard } from '../card.mjs'
import { WriteBackCache } from './write-back-cache.mjs'

const BLOCK_BYTES = 4096
const REGION = { name: 'example-cache', slots: 8, capacity: BLOCK_BYTES + 16 }

const card = await openCard(process.argv[2])
const dpu = await connect(card.target)
const region = await dpu.provision(REGION)
const folder = await mkdtemp(join(tmpdir(), 'block-cache-'))
const path = process.argv[3] ?? join(folder, 'blocks')
const file = await open(path, constants.O_RDWR | constants.O_CREAT)
const store = {
  /** @param {number} block */
  async read(block) {
    const bytes = new Uint8Array(BLOCK_BYTES)
    await file.read(bytes, 0, BLOCK_BYTES, block * BLOCK_BYTES)
    return bytes
  },
  /**
   * @param {number} block
   * @param {Uint8Array} bytes
   */
  async write(block, bytes) {
    await file.write(bytes, 0, BLOCK_BYTES, block * BLOCK_BYTES)
    console.log(`  block ${block} goes to the file`)
  },
  sync: () => file.sync(),
}

const cache = new WriteBackCache(region, store)
const filled = (/** @type {number} */ value) => new Uint8Array(BLOCK_BYTES).fill(value)

for (const block of [0, 1, 2]) await cache.write(block, filled(block + 1))
console.log(`written and dirty: blocks ${await cache.dirty()}`)

const cut = card.cutPower?.(1)
const write = cache.write(1, filled(99))
if (cut !== undefined) {
  await cut
  console.log('the power went inside the commit of block 1')
}
await write
console.log(`block 1 has ${(await cache.read(1))[0]}, the file has ${(await store.read(1))[0]}`)

await cache.write(9, filled(10)) // it has the place of block 1
const again = new WriteBackCache(region, store) // as the next program does
console.log(`still dirty: blocks ${await again.dirty()}`)
await again.flush()
console.log(`after a flush ${(await again.dirty()).length} blocks are dirty`)
console.log(`the file has ${(await store.read(1))[0]} in block 1, ${(await store.read(9))[0]} in 9`)

await file.close()
await rm(folder, { recursive: true })
await dpu.close()
await card.close()
