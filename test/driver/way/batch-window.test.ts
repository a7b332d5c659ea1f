/**
 * Batches that go out in several bursts, and records with later operations: the DPU remembers 128
 * operations behind the newest one, and what a batch in order stands on must be among them.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { bytesOf, indexesOf, ScriptedPart, settle } from '../../support/driver/scripted-part.ts'
import { type OpenWay, openWay, WAYS } from '../../support/driver/ways.ts'

const open: OpenWay[] = []
afterEach(async () => {
  for (const way of open.splice(0)) await way.close()
})

test.each(WAYS)(
  'P4-7, P4-14: a long batch in order, records called for behind it: %s',
  async (name) => {
    const way = await openWay(name, { connect: { pathMtu: 1024 } })
    open.push(way)
    await way.dpu.format()
    const region = await way.dpu.provision({ name: 'records', slots: 600, capacity: 64 })
    const batches = [0, 256].map((from) => {
      const batch = region.batch({ condition: 'inOrder' })
      for (let i = 0; i < 256; i++) batch.persist(from + i, new Uint8Array(40).fill(i))
      return batch.commit()
    })
    const singles = Array.from({ length: 40 }, (_, i) =>
      region.persist(540 + i, new Uint8Array(40)),
    )
    await Promise.all(singles.map(({ persisted }) => persisted))
    for (const outcome of await Promise.all(batches)) expect(outcome.durable).toBe(256)
  },
)

test.each([
  { condition: 'independent', bursts: 5 },
  { condition: 'inOrder', bursts: 6 },
] as const)(
  'D-6: $condition: a later record waits until the batch is less than a window behind it',
  async ({ condition, bursts }) => {
    const part = await ScriptedPart.open({}, 32)
    const batch = part.region.batch({ condition })
    for (let i = 0; i < 256; i++) batch.persist(i, bytesOf(i))
    const outcome = batch.commit()
    const { persisted } = part.region.persist(400, bytesOf(1))
    while (part.open.length > 0) part.answer()
    const lengths = part.bursts.map((jobs) => jobs.length)
    expect(lengths).toEqual([...Array(bursts).fill(32), 1, ...Array(8 - bursts).fill(32)])
    await persisted
    expect(await outcome).toMatchObject({ all: true, bursts: 8 })
  },
)

const statusOf = (fault: string): number => FAULTS.find(({ name }) => name === fault)!.code

describe('X-3, D-6: a record of a long batch goes out again, and the connection breaks', () => {
  const MEDIA = statusOf('MEDIA')
  const FORGOTTEN = statusOf('OPERATION_FORGOTTEN')

  // The part alone knows whether a repetition was durable before another wrote (R1-C7).
  const cases = [
    { count: 128, foreign: true, answer: 0, end: 'durable' },
    { count: 129, foreign: true, answer: FORGOTTEN, end: 'unknown' },
    { count: 129, foreign: false, answer: 0, end: 'durable' },
  ]

  test.each(cases)(
    'the first of $count, another has written there: $foreign: $end',
    async ({ count, foreign, answer, end }) => {
      const part = await ScriptedPart.open()
      const batch = part.region.batch()
      for (let i = 0; i < count; i++) batch.persist(i, bytesOf(i))
      const outcome = batch.commit()
      part.answer((index) => (index === 0 ? MEDIA : 0))
      expect(part.bursts.map((jobs) => jobs.length)).toEqual([count, 1])
      const other = { data: bytesOf(5), sequence: 999n, clientId: 8n, operationId: 3n }
      if (foreign) part.foreign.set(0, other)
      part.break()
      await settle()
      await settle()
      expect(part.open.map(indexesOf)).toEqual([[0]])
      expect(part.open[0]![0]!.request.repetition).toBe(foreign)
      part.answer(() => answer)
      const { records } = await outcome
      expect(records[0]!.status).toBe(end)
      expect(part.open).toEqual([])
    },
  )
})

describe('X-3, R1-C7: the part has forgotten a record of a batch that goes out again', () => {
  /** Three records of which the first is forgotten, while the connection broke under all. */
  async function repeated(condition: 'independent' | 'inOrder', batchMax: number) {
    const part = await ScriptedPart.open({}, batchMax)
    const batch = part.region.batch({ condition })
    for (let i = 0; i < 3; i++) batch.persist(i, bytesOf(i))
    const outcome = batch.commit()
    const other = { data: bytesOf(5), sequence: 999n, clientId: 8n, operationId: 3n }
    part.foreign.set(0, other)
    part.break()
    await settle()
    await settle()
    part.answer((index) => (index === 0 ? statusOf('OPERATION_FORGOTTEN') : statusOf('MEDIA')))
    return { part, outcome }
  }
  const ends = async ({ outcome }: Awaited<ReturnType<typeof repeated>>): Promise<string[]> =>
    (await outcome).records.map(({ status }) => status)

  test('independent: that one is unknown, the others go out again', async () => {
    const made = await repeated('independent', 256)
    expect(made.part.open.map(indexesOf)).toEqual([[1, 2]])
    made.part.answer()
    expect(await ends(made)).toEqual(['unknown', 'durable', 'durable'])
  })

  test('in order: what was sent behind it is unknown, too, and nothing goes out', async () => {
    const made = await repeated('inOrder', 256)
    expect(made.part.open).toEqual([])
    expect(await ends(made)).toEqual(['unknown', 'unknown', 'unknown'])
  })

  test('in order: what was never sent is not accepted', async () => {
    const made = await repeated('inOrder', 2)
    expect(made.part.open).toEqual([])
    expect(await ends(made)).toEqual(['unknown', 'unknown', 'notAccepted'])
  })
})

describe('D-10: records that do not go out together', () => {
  test('long ones go out as many as the DPU can hold', async () => {
    const way = await openWay('frames', { card: { nvdimm: new Nvdimm({ bytes: 1 << 22 }) } })
    open.push(way)
    await way.dpu.format()
    const region = await way.dpu.provision({ name: 'long', slots: 20, capacity: 60_000 })
    const batch = region.batch({ condition: 'inOrder' })
    for (let i = 0; i < 20; i++) batch.persist(i, new Uint8Array(50_000).fill(i + 1))
    expect(await batch.commit()).toMatchObject({ all: true, bursts: 2, waits: 2 })
  })
})
