/**
 * The key-value store of the examples: a value is the old or the new one, and the new one when it
 * was acknowledged; several clients lose nothing of one another.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Conflict, KeyValueStore } from '../../../host-driver/examples/store/key-value-store.mjs'
import { connect, type Dpu } from '../../../host-driver/index.ts'
import { clientOf, everyPlace, partsLike, SURVIVORS } from '../../support/driver/cut-places.ts'
import { passOn } from '../../support/driver/local-parts.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'
import { THOROUGH, thoroughIf } from '../../support/run/thorough.ts'

const REGION = { name: 'store', slots: 32, capacity: 200 }
const KEYS = ['colour', 'shape', 'größe']

const openPart = partsLike((dpu) => dpu.provision(REGION))

/** Where an opcode stands in a frame of IPv4, and that of a record of one packet. */
const OPCODE_AT = 42
const WRITE_PERSIST_ONLY = 0xca

/** A value of more than one line, of which every byte says which it is. */
const value = (letter: string): Buffer => Buffer.alloc(150, letter)

async function storeOf(dpu: Dpu): Promise<KeyValueStore> {
  return new KeyValueStore(await dpu.openRegion(REGION.name))
}

/** The letter of a value, of which every byte has to say the same; '-' where there is none. */
async function letterOf(store: KeyValueStore, key: string): Promise<string> {
  const found = await store.get(key)
  if (found === null) return '-'
  const letter = String.fromCharCode(found.value[0]!)
  expect(Buffer.from(found.value)).toEqual(value(letter))
  return letter
}

async function contentOf(store: KeyValueStore): Promise<Record<string, string>> {
  const content: Record<string, string> = {}
  for await (const { key, value } of store.entries()) {
    expect(key in content, key).toBe(false)
    content[key] = String.fromCharCode(value[0]!)
  }
  return content
}

/** What is under way when the power goes, and what the key has before and after it. */
const CHANGES = [
  { what: 'replaced', key: 'colour', before: 'a', after: 'x' },
  { what: 'added', key: 'weight', before: '-', after: 'x' },
  { what: 'deleted', key: 'colour', before: 'a', after: '-' },
] as const

type Change = (typeof CHANGES)[number]

function change(store: KeyValueStore, { key, after }: Change): Promise<void> {
  return after === '-' ? store.delete(key) : store.set(key, value(after))
}

/** Every key is as it was, and that of the change is one of these. */
async function expectOneOf(store: KeyValueStore, { key }: Change, ...letters: string[]) {
  expect(letters).toContain(await letterOf(store, key))
  for (const other of KEYS) if (other !== key) expect(await letterOf(store, other)).toBe('a')
}

describe('the power goes while a value is changed', () => {
  for (const survivors of SURVIVORS) {
    const only = thoroughIf(survivors !== 'alternate-lines')

    test.each(CHANGES)(`the program goes on: $what, ${survivors}`, THOROUGH, async (one) => {
      const places = await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const store = await storeOf(await clientOf(local, 2))
        for (const key of KEYS) await store.set(key, value('a'))
        cut.arm(local)
        const work = change(store, one)
        await cut.during(work)
        await cut.end()
        await work
        await expectOneOf(await storeOf(await clientOf(local, 3)), one, one.after)
      })
      expect(places).toBeGreaterThan(10)
    })

    test.each(CHANGES)(`the program ends with it: $what, ${survivors}`, only, async (one) => {
      const ends = new Set<string>()
      await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const store = await storeOf(await clientOf(local, 2, { reconnect: false }))
        for (const key of KEYS) await store.set(key, value('a'))
        cut.arm(local)
        let isTold = false
        const work = change(store, one).then(
          () => {
            isTold = true
          },
          () => {},
        )
        await cut.during(work)
        await cut.end()
        const next = await storeOf(await clientOf(local, 3))
        await expectOneOf(next, one, one.after, ...(isTold ? [] : [one.before]))
        ends.add(await letterOf(next, one.key))
        await next.set(one.key, value('z'))
        await expectOneOf(next, one, 'z')
      })
      expect([...ends].sort()).toEqual([one.after, one.before].sort())
    })
  }
})

const networks: { network: Network; dpus: Dpu[] }[] = []
afterEach(async () => {
  for (const { network, dpus } of networks.splice(0)) {
    for (const dpu of dpus) await dpu.close()
    network.clock.stop()
  }
})

/** So many clients of one card, each on a host of its own. */
async function clients(count: number): Promise<KeyValueStore[]> {
  const network = new Network({ seed: 7 })
  await network.addDpu(2)
  network.clock.start()
  const dpus: Dpu[] = []
  networks.push({ network, dpus })
  const stores: KeyValueStore[] = []
  for (let i = 0; i < count; i++) {
    const dpu = await connect(network.addHost(), { peer: endpointOf(2), seed: 10 + i })
    dpus.push(dpu)
    if (i === 0) {
      await dpu.format()
      await dpu.provision(REGION)
    }
    stores.push(await storeOf(dpu))
  }
  return stores
}

describe('several clients', () => {
  test('each adds to one value by its version: no addition is lost', async () => {
    const stores = await clients(3)
    const add = async (store: KeyValueStore): Promise<void> => {
      for (;;) {
        const found = await store.get('count')
        const next = found === null ? 1 : Number(Buffer.from(found.value)) + 1
        try {
          const version = found?.version ?? null
          return await store.set('count', Buffer.from(String(next)), { version })
        } catch (error) {
          if (!(error instanceof Conflict)) throw error
        }
      }
    }
    await Promise.all(stores.flatMap((store) => Array.from({ length: 5 }, () => add(store))))
    expect(Buffer.from((await stores[0]!.get('count'))!.value).toString()).toBe('15')
  })

  test('a key that all of them add at once is there once', async () => {
    const stores = await clients(3)
    const keys = Array.from({ length: 10 }, (_, i) => `key ${i}`)
    await Promise.all(
      stores.flatMap((store, i) => {
        return keys.map((key) => store.set(key, value('abc'[i]!)))
      }),
    )
    const content = await contentOf(stores[0]!)
    expect(Object.keys(content).sort()).toEqual(keys.sort())
    for (const key of keys) expect(await letterOf(stores[1]!, key)).toBe(content[key])
  })

  test('who was too late hears of it, and changes nothing', async () => {
    const [ann, bob] = (await clients(2)) as [KeyValueStore, KeyValueStore]
    await ann.set('colour', value('a'))
    const version = (await bob.get('colour'))!.version
    await ann.set('colour', value('b'), { version })
    await expect(bob.set('colour', value('c'), { version })).rejects.toBeInstanceOf(Conflict)
    await expect(bob.set('colour', value('c'), { version: null })).rejects.toThrow(/colour/)
    await expect(bob.delete('colour', { version })).rejects.toBeInstanceOf(Conflict)
    expect(await letterOf(bob, 'colour')).toBe('b')
  })

  test('what an earlier program left on the network changes nothing when it comes', async () => {
    const local = await openPart()
    const store = await storeOf(await clientOf(local, 2, { reconnect: false }))
    await store.set('colour', value('a'))
    const found = await store.get('colour')
    local.link.script = (frame, from) => {
      const isWrite = from === 'a' && frame[OPCODE_AT] === WRITE_PERSIST_ONLY
      return isWrite ? { delayUs: 50_000 } : undefined
    }
    store.set('colour', value('b'), { version: found!.version }).catch(() => {})
    await passOn(local, 5000)
    local.link.script = undefined
    const dpu = await clientOf(local, 3)
    const next = await storeOf(dpu)
    await next.set('colour', value('c'))
    expect((await dpu.counters()).CONDITION).toBe(undefined)
    await passOn(local, 100_000)
    expect((await dpu.counters()).CONDITION).toBe(1n)
    expect(await letterOf(next, 'colour')).toBe('c')
  })
})

describe('what a store takes', () => {
  test('a deleted key is not there, and comes back into its own record', async () => {
    const [store] = (await clients(1)) as [KeyValueStore]
    await store.set('colour', value('a'))
    await store.delete('colour')
    expect(await store.get('colour')).toBe(null)
    expect(await contentOf(store)).toEqual({})
    await store.delete('colour')
    await store.delete('shape')
    await store.set('colour', value('b'), { version: null })
    expect(await contentOf(store)).toEqual({ colour: 'b' })
  })

  test('any key and any value that have room; others are refused', async () => {
    const [store] = (await clients(1)) as [KeyValueStore]
    await store.set('', new Uint8Array(0))
    expect((await store.get(''))!.value).toHaveLength(0)
    await store.set('größe', Buffer.alloc(197 - Buffer.byteLength('größe'), 'a'))
    await expect(store.set('a', Buffer.alloc(197))).rejects.toThrow(/at most 197 bytes/)
    await expect(store.set('a'.repeat(65536), value('a'))).rejects.toThrow(/65536 bytes/)
    expect(Object.keys(await contentOf(store)).sort()).toEqual(['', 'größe'])
  })

  test('a bucket that is full takes no key more, and all that it has can be changed', async () => {
    const [store] = (await clients(1)) as [KeyValueStore]
    const kept: string[] = []
    let refused = 0
    for (let i = 0; i < 40; i++) {
      const set = store.set(`key ${i}`, value('a'))
      await set.then(
        () => kept.push(`key ${i}`),
        (error: Error) => {
          expect(error.message).toMatch(/no record is left for 'key \d+'/)
          refused++
        },
      )
    }
    expect(refused).toBeGreaterThan(0)
    for (const key of kept) await store.set(key, value('b'))
    expect(Object.keys(await contentOf(store)).sort()).toEqual(kept.sort())
    expect(await store.get('key 39 and more')).toBe(null)
  })

  test('a region with part of a bucket is refused', async () => {
    const local = await openPart()
    const dpu = await clientOf(local, 2)
    const region = await dpu.provision({ name: 'odd', slots: 12, capacity: 64 })
    expect(() => new KeyValueStore(region)).toThrow(/multiple of 8/)
  })
})
