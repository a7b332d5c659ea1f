/**
 * The log of the examples: whatever happens it is a prefix of what was appended, with all that was
 * acknowledged in it, each entry once and whole.
 */

import { describe, expect, test } from 'vitest'
import { AppendLog } from '../../../host-driver/examples/log/append-log.mjs'
import type { Dpu } from '../../../host-driver/index.ts'
import { clientOf, everyPlace, partsLike, SURVIVORS } from '../../support/driver/cut-places.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

const SLOTS = 12
const CAPACITY = 200

const openPart = partsLike((dpu) =>
  dpu.provision({ name: 'log', slots: SLOTS, capacity: CAPACITY }),
)

/** An entry of more than one line, of which every byte says which it is. */
const entry = (letter: string): Buffer => Buffer.alloc(CAPACITY - 10, letter)

async function logOf(dpu: Dpu): Promise<AppendLog> {
  return await AppendLog.open(await dpu.openRegion('log'))
}

/** The letters of a log that is opened by somebody else. */
async function lettersIn(log: AppendLog): Promise<string> {
  const letters: string[] = []
  for await (const { index, data } of log.entries()) {
    const letter = String.fromCharCode(data[0]!)
    expect(index).toBe(letters.length)
    expect(Buffer.from(data)).toEqual(entry(letter))
    letters.push(letter)
  }
  expect(letters).toHaveLength(log.length)
  return letters.join('')
}

/** Appends one entry for each letter at once; those that are acknowledged come into `told`. */
function appendAll(log: AppendLog, letters: string, told: string[]): Promise<unknown> {
  return Promise.all(
    [...letters].map(async (letter) => {
      await log.append(entry(letter))
      told.push(letter)
    }),
  )
}

describe('the power goes while entries are appended', () => {
  for (const survivors of SURVIVORS) {
    const only = thoroughIf(survivors !== 'alternate-lines')

    test(`the program goes on: every entry is there once, ${survivors}`, only, async () => {
      const places = await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const log = await logOf(await clientOf(local, 2))
        const told: string[] = []
        await appendAll(log, 'a', told)
        cut.arm(local)
        const work = appendAll(log, 'bcde', told)
        await cut.during(work)
        await cut.end()
        await work
        expect(told.join('')).toBe('abcde')
        expect(await lettersIn(await logOf(await clientOf(local, 3)))).toBe('abcde')
      })
      expect(places).toBeGreaterThan(40)
    })

    test(`the program ends with it: what is there is a prefix, ${survivors}`, only, async () => {
      const ends = new Set<string>()
      await everyPlace(survivors, async (cut) => {
        const local = await openPart()
        const log = await logOf(await clientOf(local, 2, { reconnect: false }))
        const told: string[] = []
        await appendAll(log, 'a', told)
        cut.arm(local)
        const work = appendAll(log, 'bcde', told).catch(() => {})
        await cut.during(work)
        await cut.end()

        const next = await logOf(await clientOf(local, 3))
        const found = await lettersIn(next)
        expect('abcde'.startsWith(found)).toBe(true)
        expect(found.startsWith(told.join(''))).toBe(true)
        ends.add(found)
        expect(await next.append(entry('z'))).toBe(found.length)
        expect(await lettersIn(await logOf(await clientOf(local, 4)))).toBe(`${found}z`)
      })
      expect(ends.size).toBeGreaterThan(1)
    })
  }
})

describe('on a network that repeats and loses', () => {
  test('every entry is there once, in its order', async () => {
    const local = await openPart()
    local.link.script = (_, from, number) => ({
      copies: 1,
      delayUs: (number % 3) * 40,
      drop: from === 'b' && number % 4 === 3,
    })
    const log = await logOf(await clientOf(local, 2, { ackTimeoutCode: 8, persistTimeoutMs: 5 }))
    const told: string[] = []
    await appendAll(log, 'abcdefgh', told)
    expect(told.join('')).toBe('abcdefgh')
    local.link.script = undefined
    expect(await lettersIn(await logOf(await clientOf(local, 3)))).toBe('abcdefgh')
  })
})

describe('what a log takes', () => {
  test('what comes while a batch is under way goes together in the next', async () => {
    const local = await openPart()
    const dpu = await clientOf(local, 2)
    await appendAll(await logOf(dpu), 'abcdefgh', [])
    expect(dpu.statistics()).toMatchObject({ batches: 2, records: 8 })
  })

  test('the bytes of the call are what is appended', async () => {
    const local = await openPart()
    const log = await logOf(await clientOf(local, 2))
    const bytes = entry('a')
    const first = log.append(bytes)
    const second = log.append(bytes.fill('b'))
    bytes.fill('c')
    await Promise.all([first, second])
    expect(await lettersIn(log)).toBe('ab')
  })

  test('what is too long or too much is refused, and the log goes on', async () => {
    const local = await openPart()
    const log = await logOf(await clientOf(local, 2))
    await expect(log.append(Buffer.alloc(CAPACITY + 1))).rejects.toThrow(/at most 200/)
    const all = 'abcdefghijkl'
    expect(all).toHaveLength(SLOTS)
    await appendAll(log, all, [])
    await expect(log.append(entry('m'))).rejects.toThrow(/is full/)
    const again = await logOf(await clientOf(local, 3))
    expect(await lettersIn(again)).toBe(all)
    await expect(again.append(entry('m'))).rejects.toThrow(/is full/)
  })

  test('a part of it is read from where somebody wants to', async () => {
    const local = await openPart()
    const log = await logOf(await clientOf(local, 2))
    await appendAll(log, 'abcd', [])
    const indices: number[] = []
    for await (const { index } of log.entries({ from: 2 })) indices.push(index)
    for await (const { index } of log.entries({ from: 4 })) indices.push(index)
    expect(indices).toEqual([2, 3])
  })

  test('behind an entry that was refused nothing is appended', async () => {
    const local = await openPart()
    const dpu = await clientOf(local, 2)
    const log = await logOf(dpu)
    await appendAll(log, 'a', [])
    local.nvdimm.armed = false
    const refused = log.append(entry('b'))
    const behind = log.append(entry('c'))
    await expect(refused).rejects.toMatchObject({ code: 'PERDURE_REFUSED', fault: 'NOT_ARMED' })
    await expect(behind).rejects.toMatchObject({ fault: 'NOT_ARMED' })
    local.nvdimm.armed = true
    await expect(log.append(entry('d'))).rejects.toMatchObject({ fault: 'NOT_ARMED' })
    const again = await logOf(dpu)
    await appendAll(again, 'e', [])
    expect(await lettersIn(again)).toBe('ae')
  })

  test('a connection that is closed ends what waits, and nothing is left undecided', async () => {
    const local = await openPart()
    const dpu = await clientOf(local, 2)
    const log = await logOf(dpu)
    await dpu.close()
    await expect(log.append(entry('a'))).rejects.toMatchObject({ code: 'PERDURE_CLOSED' })
    await expect(log.append(entry('b'))).rejects.toMatchObject({ code: 'PERDURE_CLOSED' })
  })

  test('an entry that is missing before the end is told, not passed over', async () => {
    const local = await openPart()
    const region = await (await clientOf(local, 2)).openRegion('log')
    await region.persist(0, entry('a')).persisted
    await region.persist(2, entry('c')).persisted
    const log = new AppendLog(region, 3)
    await expect(lettersIn(log)).rejects.toThrow(/entry 1 is not there/)
  })
})
