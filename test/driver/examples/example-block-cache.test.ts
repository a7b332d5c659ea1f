/**
 * The block cache of the examples: no block that is read is older than its last write, or torn,
 * whatever loses its power; and after a restart it is known which blocks the store has not.
 */

import { describe, expect, test } from 'vitest'
import { WriteBackCache } from '../../../host-driver/examples/block-cache/write-back-cache.mjs'
import type { Dpu } from '../../../host-driver/index.ts'
import { clientOf, everyPlace, partsLike, SURVIVORS } from '../../support/driver/cut-places.ts'
import { THOROUGH, thoroughIf } from '../../support/run/thorough.ts'

/** Two places: blocks 0, 2, 4 … share one. */
const REGION = { name: 'cache', slots: 2, capacity: 216 }
const BLOCK_BYTES = 200
const BLOCKS = [0, 1, 2, 3]

const openPart = partsLike((dpu) => dpu.provision(REGION))

const content = (letter: string): Buffer => Buffer.alloc(BLOCK_BYTES, letter)

/** The letter of a block, of which every byte has to say the same. */
function letterOf(bytes: Uint8Array): string {
  expect(Buffer.from(bytes)).toEqual(content(String.fromCharCode(bytes[0]!)))
  return String.fromCharCode(bytes[0]!)
}

/** A store that forgets what was not synced when its power goes, and may be slow, or fail. */
class Store {
  readonly durable: string[] = BLOCKS.map(() => '-')
  live: string[] = [...this.durable]
  writes = 0
  syncs = 0
  /** What a call waits for. */
  pause: () => Promise<void> = () => Promise.resolve()

  async read(block: number): Promise<Uint8Array> {
    await this.pause()
    return content(this.live[block]!)
  }

  async write(block: number, bytes: Uint8Array): Promise<void> {
    const letter = letterOf(bytes)
    await this.pause()
    this.writes++
    this.live[block] = letter
  }

  async sync(): Promise<void> {
    const synced = [...this.live]
    await this.pause()
    this.syncs++
    this.durable.splice(0, BLOCKS.length, ...synced)
  }

  powerCut(): void {
    this.live = [...this.durable]
  }
}

async function cacheOf(dpu: Dpu, store: Store): Promise<WriteBackCache> {
  return new WriteBackCache(await dpu.openRegion(REGION.name), store)
}

async function lettersIn(cache: WriteBackCache): Promise<string> {
  const blocks: string[] = []
  for (const block of BLOCKS) blocks.push(letterOf(await cache.read(block)))
  return blocks.join('')
}

/** What is under way when the power goes; the blocks are 'ab--' before. */
const WORK = [
  {
    what: 'a block is written again',
    run: (c: WriteBackCache) => c.write(0, content('x')),
    after: 'xb--',
  },
  {
    what: 'one takes the place of a dirty one',
    run: (c: WriteBackCache) => c.write(2, content('x')),
    after: 'abx-',
  },
  {
    what: 'one is read into the place of a dirty one',
    run: (c: WriteBackCache) => c.read(2),
    after: 'ab--',
  },
  { what: 'all are flushed', run: (c: WriteBackCache) => c.flush(), after: 'ab--' },
  {
    what: 'all are flushed, and one is written meanwhile',
    run: (c: WriteBackCache) => Promise.all([c.flush(), c.write(1, content('x'))]),
    after: 'ax--',
  },
] as const

/** What the next program finds: what was there before or after, and what the store has not. */
async function expectWhole(dpu: Dpu, store: Store, wanted: readonly string[]): Promise<string> {
  const cache = await cacheOf(dpu, store)
  const dirty = await cache.dirty()
  const behind = [...store.durable]
  const found = await lettersIn(cache)
  expect(wanted).toContain(found)
  for (const block of BLOCKS) {
    if (found[block] !== behind[block]) expect(dirty, `block ${block}`).toContain(block)
  }
  await cache.flush()
  expect(await cache.dirty()).toEqual([])
  store.powerCut()
  expect(store.durable.join('')).toBe(found)
  expect(await lettersIn(await cacheOf(dpu, store))).toBe(found)
  return found
}

async function filled(dpu: Dpu, store: Store): Promise<WriteBackCache> {
  const cache = await cacheOf(dpu, store)
  await cache.write(0, content('a'))
  await cache.write(1, content('b'))
  return cache
}

for (const survivors of SURVIVORS) {
  const only = thoroughIf(survivors !== 'alternate-lines')

  describe(`the power goes, and of what is pending ${survivors} stays`, () => {
    test.each(WORK)('$what, and the program goes on', THOROUGH, async ({ run, after }) => {
      const places = await everyPlace(survivors, async (cut) => {
        const [local, store] = [await openPart(), new Store()]
        const cache = await filled(await clientOf(local, 2), store)
        cut.arm(local)
        const work = run(cache)
        await cut.during(work)
        await cut.end()
        await work
        await expectWhole(await clientOf(local, 3), store, [after])
      })
      expect(places).toBeGreaterThan(10)
    })

    test.each(WORK)('$what, and the program ends, and the store', only, async ({ run, after }) => {
      const ends = new Set<string>()
      await everyPlace(survivors, async (cut) => {
        const [local, store] = [await openPart(), new Store()]
        const cache = await filled(await clientOf(local, 2, { reconnect: false }), store)
        cut.arm(local)
        let isTold = false
        const work = run(cache).then(
          () => {
            isTold = true
          },
          () => {},
        )
        await cut.during(work)
        store.powerCut()
        await cut.end()
        const next = await clientOf(local, 3)
        ends.add(await expectWhole(next, store, isTold ? [after] : ['ab--', after]))
      })
      expect([...ends].sort()).toEqual([...new Set(['ab--', after])].sort())
    })
  })
}

describe('a cache', () => {
  test('what is written comes to the store when its place is needed, and not before', async () => {
    const [local, store] = [await openPart(), new Store()]
    const cache = await filled(await clientOf(local, 2), store)
    await cache.write(0, content('c'))
    expect(store).toMatchObject({ writes: 0, syncs: 0 })
    expect(await cache.dirty()).toEqual([0, 1])
    await cache.write(2, content('d'))
    expect(store).toMatchObject({ writes: 1, syncs: 1 })
    expect(store.durable.join('')).toBe('c---')
    expect(await cache.dirty()).toEqual([2, 1])
  })

  test('what was read takes a place without coming back to the store', async () => {
    const [local, store] = [await openPart(), new Store()]
    const cache = await cacheOf(await clientOf(local, 2), store)
    for (const block of [0, 2, 0, 1]) await cache.read(block)
    expect(await cache.dirty()).toEqual([])
    expect(store).toMatchObject({ writes: 0, syncs: 0 })
  })

  test('reads and writes of one place at once are done in the order of the calls', async () => {
    const [local, store] = [await openPart(), new Store()]
    const cache = await cacheOf(await clientOf(local, 2), store)
    store.pause = () => new Promise((resolve) => setImmediate(resolve))
    const reads = [
      cache.read(0),
      cache.write(0, content('a')),
      cache.read(2),
      cache.read(0),
      cache.write(2, content('b')),
      cache.write(0, content('c')),
      cache.read(2),
      cache.read(0),
    ]
    const letters = (await Promise.all(reads)).map((bytes) => {
      return bytes instanceof Uint8Array ? letterOf(bytes) : ' '
    })
    expect(letters.join('')).toBe('- -a  bc')
  })

  test('what is written while a flush is under way stays dirty, and is not lost', async () => {
    const [local, store] = [await openPart(), new Store()]
    const cache = await filled(await clientOf(local, 2), store)
    let resume = (): void => {}
    const isSyncing = new Promise<void>((syncs) => {
      store.pause = async () => {
        if (store.writes < 2) return
        syncs()
        await new Promise<void>((resolve) => {
          resume = resolve
        })
      }
    })
    const flush = cache.flush()
    await isSyncing
    await cache.write(0, content('x'))
    store.pause = () => Promise.resolve()
    resume()
    await flush
    expect(store.durable.join('')).toBe('ab--')
    expect(await cache.dirty()).toEqual([0])
    expect(await lettersIn(cache)).toBe('xb--')
  })

  test('a store that fails leaves what is dirty where it is', async () => {
    const [local, store] = [await openPart(), new Store()]
    const cache = await filled(await clientOf(local, 2), store)
    store.pause = () => Promise.reject(new Error('the store fails'))
    await expect(cache.write(2, content('x'))).rejects.toThrow('the store fails')
    await expect(cache.read(3)).rejects.toThrow('the store fails')
    await expect(cache.flush()).rejects.toThrow('the store fails')
    expect(await cache.dirty()).toEqual([0, 1])
    store.pause = () => Promise.resolve()
    expect(await lettersIn(cache)).toBe('ab--')
  })

  test('a block of another length is refused; the bytes of the call are written', async () => {
    const [local, store] = [await openPart(), new Store()]
    const cache = await cacheOf(await clientOf(local, 2), store)
    expect(cache.blockBytes).toBe(BLOCK_BYTES)
    await expect(cache.write(0, Buffer.alloc(BLOCK_BYTES - 1))).rejects.toThrow(/200 bytes/)
    const bytes = content('a')
    const written = cache.write(0, bytes)
    bytes.fill('b')
    await written
    expect(letterOf(await cache.read(0))).toBe('a')
  })
})
