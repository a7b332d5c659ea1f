/**
 * `npm run bench -- soak [--json] [--connections N] [--records N] [--hours N]`: whether anything
 * grows. 1,000 connections, each of which persists a record, are opened and closed 100 times;
 * 10,000,000 records pass; and 24 hours of virtual time go by, with a record every second.
 *
 * Method: the shipped bundle in QuickJS, with the host driver and virtual time in this process.
 * A tenth of each load is let go by, and at least as much as takes every queue pair once; then the
 * guest's heap is looked at, and Node's behind a collection; and both at the end. The guest's is
 * exact: it is flat where it has grown by no more than first uses of a few functions. Node's is
 * told, as it holds what Node itself learns meanwhile.
 *
 * Exit codes: 0 all is flat; 1 the guest's heap has grown; 64 a wrong command line.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { QUEUE_PAIRS } from '../../firmware/board/limits.ts'
import { connect } from '../../host-driver/index.ts'
import { type LocalDpu, linkWire, openLocal } from '../../host-driver/local.ts'
import { takeWishes } from '../support/bench/bench-arguments.ts'
import { text } from '../support/bench/table.ts'

const SLOTS = 64
/** What first uses may take, bytes. */
const FLAT_BYTES = 4096

/**
 * Connections before the first look. Each place of a queue pair keeps some hundred bytes from its
 * first use on, and places are drawn: behind so many of n places some 0.4 have never been used.
 */
const WARM = Math.ceil(QUEUE_PAIRS * (Math.log(QUEUE_PAIRS) + 1))
const RECORD = new Uint8Array(64).fill(7)

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

interface Growth {
  readonly what: string
  /** How many there were behind the first look. */
  readonly count: number
  readonly guestBefore: number
  readonly guestAfter: number
  readonly nodeBefore: number
  readonly nodeAfter: number
  readonly isFlat: boolean
}

interface Look {
  readonly guest: number
  readonly node: number
}

async function look(local: LocalDpu): Promise<Look> {
  await new Promise((resolve) => setImmediate(resolve))
  collect()
  return { guest: local.dpu.memoryUsed(), node: process.memoryUsage().heapUsed }
}

/** A card with a region; `use` has a tenth of the load, then the rest, and what grew is told. */
async function grown(
  what: string,
  count: number,
  use: (local: LocalDpu, first: number, end: number) => Promise<void>,
): Promise<Growth> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-soak-'))
  try {
    const local = await openLocal({ path: join(folder, 'part'), bytes: 1 << 21, seed: 1 })
    try {
      const dpu = await connect(local.wire, { seed: 1 })
      await dpu.format()
      await dpu.provision({ name: 'notes', slots: SLOTS, capacity: RECORD.length })
      await dpu.close()
      const warm = Math.max(WARM, Math.ceil(count / 10))
      await use(local, 0, warm)
      const before = await look(local)
      await use(local, warm, warm + count)
      const after = await look(local)
      return {
        ...{ what, count, guestBefore: before.guest, guestAfter: after.guest },
        ...{ nodeBefore: before.node, nodeAfter: after.node },
        isFlat: after.guest - before.guest <= FLAT_BYTES,
      }
    } finally {
      local.close()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Connections of as many clients, one after the other: each persists a record, and is closed. */
async function connections(local: LocalDpu, first: number, end: number): Promise<void> {
  for (let i = first; i < end; i++) {
    const dpu = await connect(linkWire(local.link, local.clock), { seed: 2 + i })
    const region = await dpu.openRegion('notes')
    await region.persist(i % SLOTS, RECORD).persisted
    await dpu.close()
  }
}

/** A record every second, and idle calls as the card asks for them. */
async function seconds(local: LocalDpu, first: number, end: number): Promise<void> {
  const { clock } = local
  const dpu = await connect(linkWire(local.link, clock), { seed: 2 })
  const region = await dpu.openRegion('notes')
  for (let i = first; i < end; i++) {
    await region.persist(i % SLOTS, RECORD).persisted
    await new Promise<void>((resolve) => clock.schedule(clock.nowUs + 1e6, resolve))
  }
  await dpu.close()
}

/** Records of one connection, as many at once as fit into its window. */
async function records(local: LocalDpu, first: number, end: number): Promise<void> {
  const dpu = await connect(linkWire(local.link, local.clock), { seed: 2 })
  const region = await dpu.openRegion('notes')
  for (let i = first; i < end; i += SLOTS) {
    const many = Array.from({ length: Math.min(SLOTS, end - i) }, (_, slot) => {
      return region.persist(slot, RECORD).persisted
    })
    await Promise.all(many)
  }
  await dpu.close()
}

const HOUR = 3600

/** What grows over so many connections, records, and hours of virtual time. */
export async function soak(loads: {
  readonly connections: number
  readonly records: number
  readonly hours: number
  readonly say?: (what: string) => void
}): Promise<Growth[]> {
  const all = [
    ['connections', loads.connections, connections],
    ['records', loads.records, records],
    ['seconds', loads.hours * HOUR, seconds],
  ] as const
  const growths: Growth[] = []
  for (const [what, count, use] of all) {
    loads.say?.(`${count.toLocaleString('en-US')} ${what}`)
    growths.push(await grown(what, count, use))
  }
  return growths
}

function tableOf(growths: readonly Growth[]): string[][] {
  const head = ['', 'count', 'guest before', 'after', 'Node before', 'after', '']
  const rows = growths.map((one) => [
    one.what,
    ...[one.count, one.guestBefore, one.guestAfter, one.nodeBefore, one.nodeAfter].map((count) =>
      count.toLocaleString('en-US'),
    ),
    one.isFlat ? 'flat' : 'GROWS',
  ])
  return [head, ...rows]
}

const NUMBERS = {
  connections: { standard: 100_000, least: 1 },
  records: { standard: 10_000_000, least: 1 },
  hours: { standard: 24, least: 1 },
}

/** Sets the process's exit code. */
export async function benchSoak(args: readonly string[]): Promise<void> {
  const wishes = takeWishes(args, NUMBERS)
  if (wishes === null) {
    process.exitCode = 64
    return
  }
  const say = (what: string): boolean => process.stderr.write(`bench: ${what} …\n`)
  const growths = await soak({ ...wishes, say })
  const out = wishes.json ? JSON.stringify({ growths }, null, 2) : text(tableOf(growths))
  process.stdout.write(`${out}\n`)
  process.exitCode = growths.every(({ isFlat }) => isFlat) ? 0 : 1
}
