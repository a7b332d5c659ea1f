/**
 * The judge of a simulated card: what it must not be blamed for, and what it must.
 *
 * Invariant: every story is played on the firmware itself, in a world of one host, one card
 * and one client; nothing is by chance.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { acknowledgementIn } from '../../support/judges/acknowledgement.ts'
import { frameOf, hex } from '../../support/wire/frames.ts'
import { type Client, UP } from '../simulate/client.ts'
import { CELLS, type RecordState } from '../simulate/judge.ts'
import { copyAt } from '../simulate/medium.ts'
import { operationOf } from '../simulate/operation.ts'
import type { Version } from '../simulate/register.ts'
import { NO_ENDS, type Shape } from '../simulate/shape.ts'
import { SimulatedWorld, type Site } from '../simulate/world.ts'

const SLOT = 1
const SHAPE: Shape = {
  ...{ hosts: 1, cards: 1, clients: 1, slots: 4, capacity: 64, copies: 2, mtu: 4096, bytes: 0 },
  ...{ network: 0, media: false, health: false, adr: false, hosted: false, mix: [1] },
  ...{ begunUs: 1_000, operationsBefore: 0, full: false, ends: NO_ENDS },
}

/** No client notices a restart by itself. */
class Unnoticed extends Random {
  override chance(): boolean {
    return true
  }
}

interface Story {
  readonly world: SimulatedWorld
  readonly site: Site
  readonly client: Client
  readonly record: RecordState
}

async function story(shape: Partial<Shape>): Promise<Story> {
  const world = new SimulatedWorld({ ...SHAPE, ...shape }, 1, {})
  await world.begin(new Random(1))
  world.ticks()
  world.exchange(3, 32)
  const [site] = world.sites as [Site]
  const [client] = world.clients as [Client]
  expect(client.state).toBe(UP)
  return { world, site, client, record: site.judge.records[SLOT]! }
}

/** Writes the record, and waits for so many copies. */
function write({ world, client, record }: Story, wait: number): Version {
  const { register } = record
  const id = ++client.operations
  world.tick += 1
  const version = register.begin(++world.uids, 64, client.id, id, world.tick)
  version.wait = wait
  client.post(
    operationOf({
      ...{ kind: 'persist', register, version, slot: SLOT, length: 64, id, wait },
      begun: world.tick,
    }),
  )
  world.exchange(3, 32)
  return version
}

function lineOf({ site }: Story, copy: number): number {
  return copyAt(site.judge.layout, copy, SLOT) / 64
}

function refuse(one: Story, copy: number): void {
  one.site.card.part.refuseWrites(lineOf(one, copy) + 1)
  one.site.judge.noteDamage(one.record)
}

/** The power goes, nothing that was pending stays, and those copies cannot be read any more. */
async function restart(one: Story, poisoned: readonly number[] = []): Promise<void> {
  const { world, site, record } = one
  site.card.arm({ random: new Random(1), strategy: 'none' })
  site.card.cutNow()
  for (const copy of poisoned) site.card.part.poison(lineOf(one, copy))
  if (poisoned.length > 0) site.judge.noteDamage(record)
  await world.restart(site, new Random(1), 0)
}

describe('R1-E0: what was seen before a restart, and comes late', () => {
  /** A look is answered; a cell is counted on, or not; the power goes; then the answer comes. */
  async function late(value: number, shown: number): Promise<string | null> {
    const { world, site, client } = await story({ bytes: 1 })
    const { card, judge } = site
    const lane = world.lanes[0]!
    client.post(operationOf({ kind: 'look', cell: 0, length: CELLS * 8, begun: world.tick }))
    card.serve(32, world.nowUs)
    const answer = lane.take(99)
    expect(answer).toHaveLength(1)
    if (value > 0) {
      judge.cells[4]!.issued = value
      client.post(operationOf({ kind: 'add', cell: 4, value, begun: world.tick }))
      card.serve(32, world.nowUs)
      lane.take(99)
    }
    card.arm({ random: new Random(1), strategy: 'all' })
    card.cutNow()
    await world.restart(site, new Unnoticed(1), 0)
    expect(world.violation).toBeNull()
    expect(judge.cells[4]).toMatchObject({ issued: value, floor: value })
    if (shown > 0) judge.judgeLook(4, shown, shown, 0)
    else for (const frame of answer) client.receive(frame)
    return world.violation
  }

  test('the cell was counted on meanwhile, and that is durable', async () => {
    expect(await late(1, 0)).toBeNull()
  })

  test('what never was is never shown, however late', async () => {
    expect(await late(1, 1)).toBeNull()
    expect(await late(1, 2)).toContain('which never was')
  })

  test('a torn cell is wrong at any time', async () => {
    const { world, site } = await story({ bytes: 1 })
    await world.restart(site, new Unnoticed(1), 0)
    site.judge.judgeLook(4, 0, 1, 0)
    expect(world.violation).toContain('torn')
  })
})

describe('R1-E0: a copy that took no store, and one that is lost later', () => {
  const LEVELS = [2, 3, 4].flatMap((copies) =>
    Array.from({ length: copies }, (_, i) => ({ copies, wait: i + 1 })),
  )
  for (const { copies, wait } of LEVELS) {
    for (let refusing = 0; refusing < copies; refusing++) {
      test(`${wait}of${copies}, copy ${refusing} refuses: nobody is blamed`, async () => {
        const one = await story({ copies, media: true })
        refuse(one, refusing)
        write(one, wait)
        await restart(one)
        expect(one.world.violation).toBeNull()
        await restart(one, [0])
        expect(one.world.violation).toBeNull()
      })
    }
  }

  test('1of3 loses what was acknowledged, and the judge knows that it may', async () => {
    const one = await story({ copies: 3, media: true })
    refuse(one, 1)
    expect(write(one, 1).promised).toBe(1)
    await restart(one)
    await restart(one, [0])
    expect(one.record.lost).toBe(true)
    expect(one.world.violation).toBeNull()
  })

  test('2of3 must not: it has another copy', async () => {
    const one = await story({ copies: 3, media: true })
    refuse(one, 2)
    expect(write(one, 2).promised).toBe(2)
    await restart(one)
    await restart(one, [0])
    expect(one.record.lost).toBe(false)
    expect(one.world.violation).toBeNull()
    one.site.judge.judgeLoss(SLOT)
    expect(one.world.violation).toBeNull()
  })
})

/**
 * Where the map of PAETH changes, the judges' own one has to (support/judges/acknowledgement.ts).
 */
describe('R1-E7: what an acknowledgement says, read by no code of the product', () => {
  const BTH = { opcode: 0xd1, destQp: 0x123456, psn: 0xfffffe }
  const PAETH = {
    ...{ status: 0x83, firstPsn: 0xfffffd, lastPsn: 0x000102, copies: 3, records: 6 },
    ...{ operationHigh: 0x00010203, operationLow: 0xf4f5f6f7, all: true, query: true },
  }
  const READ = {
    ...{ peer: 0x123456, status: 0x83, firstPsn: 0xfffffd, lastPsn: 0x000102, copies: 3 },
    ...{ operation: 0x00010203 * 2 ** 32 + 0xf4f5f6f7, all: true, isQuery: true, batch: null },
  }

  test.each([4, 6] as const)('as the product wrote it, over IPv%i', (ipVersion) => {
    const frame = frameOf({ ipVersion, bth: BTH, aeth: { syndrome: 0x1f, msn: 1 }, paeth: PAETH })
    expect(acknowledgementIn(frame)).toEqual(READ)
  })

  test('of a batch: which records are durable', () => {
    const paeth = {
      ...PAETH,
      all: false,
      query: false,
      batch: true,
      batchId: 0xabcd,
      bitmapWords: 2,
    }
    const payload = hex('8000 0001 4000 0000')
    const frame = frameOf({ bth: BTH, aeth: { syndrome: 0x1f, msn: 1 }, paeth, payload })
    const batch = { id: 0xabcd, durable: [0, 31, 33] }
    expect(acknowledgementIn(frame)).toEqual({ ...READ, all: false, isQuery: false, batch })
  })

  test('of anything else: nothing', () => {
    const ack = frameOf({ bth: { ...BTH, opcode: 0x11 }, aeth: { syndrome: 0x1f, msn: 1 } })
    expect(acknowledgementIn(ack)).toBeNull()
  })
})
