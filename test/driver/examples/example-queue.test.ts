/**
 * The queue of the examples: each item is delivered until it is done, and counted as done once,
 * together with the state that its consumer keeps.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Bell } from '../../../host-driver/examples/queue/bell.mjs'
import { NoRoom, RecordQueue } from '../../../host-driver/examples/queue/record-queue.mjs'
import { connect, type Dpu, PcieDevice } from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { clientOf, everyPlace, partsLike, SURVIVORS } from '../../support/driver/cut-places.ts'
import { passOn } from '../../support/driver/local-parts.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

/** A ring of four items. */
const REGION = { name: 'queue', slots: 5, capacity: 200 }

const openPart = partsLike((dpu) => dpu.provision(REGION))

/** An item of more than one line, of which every byte says which it is. */
const item = (letter: string): Buffer => Buffer.alloc(150, letter)

async function queueOf(dpu: Dpu): Promise<RecordQueue> {
  return await RecordQueue.open(await dpu.openRegion(REGION.name))
}

async function pushAll(queue: RecordQueue, letters: string): Promise<void> {
  for (const letter of letters) await queue.push(item(letter))
}

/** What an item says, of which every byte has to say the same. */
function letterOf(data: Uint8Array): string {
  const letter = String.fromCharCode(data[0]!)
  expect(Buffer.from(data)).toEqual(item(letter))
  return letter
}

/** Takes the next item, and has it done: its letter is added to the state. Null: none is there. */
async function doNext(queue: RecordQueue): Promise<string | null> {
  const next = await queue.take()
  if (next === null) return null
  const state = Buffer.from(next.state).toString() + letterOf(next.data)
  return (await next.done(Buffer.from(state))) ? state : await doNext(queue)
}

/** Does everything that is there; the state behind it. */
async function doAll(queue: RecordQueue): Promise<string | null> {
  let last: string | null = null
  for (;;) {
    const state = await doNext(queue)
    if (state === null) return last
    last = state
  }
}

const devices: PcieDevice[] = []
afterEach(() => {
  for (const device of devices.splice(0)) device.close()
})

/** The host of the card itself. */
async function ownHost({ port }: LocalDpu): Promise<Dpu> {
  const device = await PcieDevice.open(port!, { queues: 64, seed: 4, watchdogUs: 500 })
  devices.push(device)
  return await connect(device, { seed: 5 })
}

for (const survivors of SURVIVORS) {
  const only = thoroughIf(survivors !== 'alternate-lines')

  describe(`the power goes, and of what is pending ${survivors} stays`, () => {
    test('while an item is pushed, and the producer goes on', only, async () => {
      const places = await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const queue = await queueOf(await clientOf(local, 2))
        await pushAll(queue, 'ab')
        cut.arm(local)
        const work = pushAll(queue, 'c')
        await cut.during(work)
        await cut.end()
        await work
        expect(await doAll(await queueOf(await clientOf(local, 3)))).toBe('abc')
      })
      expect(places).toBeGreaterThan(10)
    })

    test('while an item is pushed, and the producer ends with it', only, async () => {
      const ends = new Set<number>()
      await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const queue = await queueOf(await clientOf(local, 2, { reconnect: false }))
        await pushAll(queue, 'ab')
        cut.arm(local)
        let isTold = false
        const work = pushAll(queue, 'c').then(
          () => {
            isTold = true
          },
          () => {},
        )
        await cut.during(work)
        await cut.end()

        const next = await queueOf(await clientOf(local, 3))
        expect(isTold ? [3] : [2, 3]).toContain(next.next)
        ends.add(next.next)
        await pushAll(next, 'abcd'.slice(next.next))
        expect(await doAll(await queueOf(await clientOf(local, 4)))).toBe('abcd')
      })
      expect([...ends].sort()).toEqual([2, 3])
    })

    test('while an item is done, and the consumer goes on', only, async () => {
      const places = await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const queue = await queueOf(await clientOf(local, 2))
        await pushAll(queue, 'abc')
        await doNext(queue)
        cut.arm(local)
        const work = doNext(queue)
        await cut.during(work)
        await cut.end()
        expect(await work).toBe('ab')
        expect(await doAll(await queueOf(await clientOf(local, 3)))).toBe('abc')
      })
      expect(places).toBeGreaterThan(10)
    })

    test('while an item is done, and the consumer ends with it', only, async () => {
      const taken = new Set<string>()
      await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const queue = await queueOf(await clientOf(local, 2, { reconnect: false }))
        await pushAll(queue, 'abc')
        await doNext(queue)
        cut.arm(local)
        let isTold = false
        const work = doNext(queue).then(
          () => {
            isTold = true
          },
          () => {},
        )
        await cut.during(work)
        await cut.end()

        const next = await queueOf(await clientOf(local, 3))
        const first = await next.take()
        const letter = letterOf(first!.data)
        expect(isTold ? ['c'] : ['b', 'c']).toContain(letter)
        expect(Buffer.from(first!.state).toString()).toBe(letter === 'b' ? 'a' : 'ab')
        taken.add(letter)
        expect(await doAll(next)).toBe('abc')
      })
      expect([...taken].sort()).toEqual(['b', 'c'])
    })

    test('while one host pushes and the other one, of the card, has items done', only, async () => {
      const places = await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const producer = await queueOf(await clientOf(local, 2))
        const own = await ownHost(local)
        const consumer = await queueOf(own)
        await pushAll(producer, 'ab')
        cut.arm(local)
        const work = Promise.all([pushAll(producer, 'cd'), doNext(consumer), doNext(consumer)])
        await cut.during(work)
        await cut.end()
        await work
        expect(await doAll(consumer)).toBe('abcd')
        await own.close()
        for (const device of devices.splice(0)) device.close()
      })
      expect(places).toBeGreaterThan(40)
    })
  })
}

describe('several producers and consumers', () => {
  test('each item has a number of its own, and is done once', async () => {
    const local = await openPart()
    const own = await ownHost(local)
    const far = await clientOf(local, 2)
    const producers = [await queueOf(own), await queueOf(far)]
    const consumers = [await queueOf(own), await queueOf(far)]
    const numbers = await Promise.all(producers.map((one, i) => one.push(item('ab'[i]!))))
    numbers.push(...(await Promise.all(producers.map((one, i) => one.push(item('cd'[i]!))))))
    expect(numbers.sort()).toEqual([0, 1, 2, 3])
    const states = await Promise.all(consumers.map((one) => doAll(one)))
    expect([...(states.find((state) => state?.length === 4) ?? '')].sort().join('')).toBe('abcd')
    await own.close()
  })

  test('one producer may push many at once', async () => {
    const local = await openPart()
    const queue = await queueOf(await clientOf(local, 2))
    const numbers = await Promise.all([...'abc'].map((letter) => queue.push(item(letter))))
    expect(numbers.sort()).toEqual([0, 1, 2])
    expect([...(await doAll(queue))!].sort().join('')).toBe('abc')
  })

  test('who has an item done that is done already is told, and changes nothing', async () => {
    const local = await openPart()
    const queue = await queueOf(await clientOf(local, 2))
    await pushAll(queue, 'ab')
    const [one, other] = [(await queue.take())!, (await queue.take())!]
    expect([one.number, other.number]).toEqual([0, 0])
    expect(await one.done(Buffer.from('a'))).toBe(true)
    expect(await other.done(Buffer.from('other'))).toBe(false)
    expect(await doNext(queue)).toBe('ab')
  })
})

describe('the ring', () => {
  test('is used again and again, and takes nothing that it has no room for', async () => {
    const local = await openPart()
    const queue = await queueOf(await clientOf(local, 2))
    await pushAll(queue, 'abcd')
    await expect(queue.push(item('e'))).rejects.toBeInstanceOf(NoRoom)
    const behind = await queueOf(await clientOf(local, 3))
    expect(behind.next).toBe(4)
    await expect(behind.push(item('e'))).rejects.toThrow(/item 0 is not done yet/)
    expect(await doNext(behind)).toBe('a')
    for (const letter of 'efghijkl') {
      expect(await behind.push(item(letter))).toBe(letter.charCodeAt(0) - 'a'.charCodeAt(0))
      await expect(behind.push(item('z'))).rejects.toBeInstanceOf(NoRoom)
      await doNext(behind)
    }
    expect(await doAll(behind)).toBe('abcdefghijkl')
    expect(await behind.take()).toBe(null)
  })

  test('one who was away while others pushed finds the end', async () => {
    const local = await openPart()
    const own = await ownHost(local)
    const away = await queueOf(own)
    const queue = await queueOf(await clientOf(local, 2))
    for (const letter of 'abcdef') {
      await queue.push(item(letter))
      await doNext(queue)
    }
    expect(await away.push(item('g'))).toBe(6)
    expect(await doAll(away)).toBe('abcdefg')
    await own.close()
  })

  test('an item of no bytes is an item; the bytes of the call are what is pushed', async () => {
    const local = await openPart()
    const queue = await queueOf(await clientOf(local, 2))
    await queue.push(new Uint8Array(0))
    const bytes = item('a')
    const pushed = queue.push(bytes)
    bytes.fill('b')
    await pushed
    const empty = await queue.take()
    expect(empty!.data).toHaveLength(0)
    expect(await empty!.done()).toBe(true)
    expect(letterOf((await queue.take())!.data)).toBe('a')
  })
})

describe('the bell', () => {
  test('of the host of the card rings when somebody has pushed', async () => {
    const local = await openPart()
    const own = await ownHost(local)
    const bell = await Bell.open(await own.openRegion(REGION.name))
    expect(bell.isNotified).toBe(true)
    const queue = await queueOf(await clientOf(local, 2))
    const rung = bell.wait()
    await pushAll(queue, 'a')
    await rung
    // A ring before the wait is not lost.
    await pushAll(queue, 'b')
    await passOn(local, 5000)
    await bell.wait()
    await bell.close()
    await own.close()
  })

  test('of the host of the card wakes it after the power went, too', async () => {
    const local = await openPart()
    const own = await ownHost(local)
    const bell = await Bell.open(await own.openRegion(REGION.name))
    const rung = bell.wait()
    local.dpu.powerCut({ strategy: 'none' })
    await local.dpu.powerOn()
    await rung
    expect(bell.isNotified).toBe(false)
    await bell.close()
    await own.close()
  })

  test('of another host has it look again', async () => {
    const local = await openPart()
    const bell = await Bell.open(await (await clientOf(local, 2)).openRegion(REGION.name))
    expect(bell.isNotified).toBe(false)
    await bell.wait()
    await bell.close()
  })

  test('is not there where the connection is not', async () => {
    const local = await openPart()
    const dpu = await clientOf(local, 2)
    const region = await dpu.openRegion(REGION.name)
    await dpu.close()
    await expect(Bell.open(region)).rejects.toMatchObject({ code: 'PERDURE_CLOSED' })
  })
})
