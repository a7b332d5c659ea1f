/**
 * How many turns of the link a file takes, out and back: on the clock of the emulated card, so the
 * machine that plays it does not matter. What the same takes in time: test/doc/speed.md.
 */

import { createHash } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { RESPONDER_RESOURCES } from '../../../firmware/board/limits.ts'
import { Output } from '../../../host-driver/command/base/output.ts'
import type { Content } from '../../../host-driver/command/file/content.ts'
import { Persisting } from '../../../host-driver/command/file/persisting.ts'
import { Reading } from '../../../host-driver/command/file/reading.ts'
import { goingOn } from '../../../host-driver/command/file/stopped.ts'
import { connect, type Region } from '../../../host-driver/index.ts'
import type { LocalDpu } from '../../../host-driver/local.ts'
import { localParts } from '../../support/driver/local-parts.ts'

const openPart = localParts()
const folder = mkdtempSync(join(tmpdir(), 'perdure-rate-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Of each frame: long against what the card takes for a record. */
const DELAY_US = 5000
const RECORDS = 1024
const CAPACITY = 64
/** Records that the driver has under way; READs that the card takes at once; records of a burst. */
const IN_FLIGHT = 32
const READS = RESPONDER_RESOURCES
const BURST = 64

/** In memory: while a file is read the clock of the card would run on. */
const contentOf = (bytes: Uint8Array): Content => ({
  bytes: bytes.length,
  async *pieces(each) {
    for (let at = 0; at < bytes.length; at += each) yield bytes.subarray(at, at + each)
  },
})

/** Turns that the link could have made meanwhile. */
async function turns({ clock }: LocalDpu, work: () => Promise<void>): Promise<number> {
  const from = clock.nowUs
  await work()
  return (clock.nowUs - from) / (2 * DELAY_US)
}

async function readInto(path: string, region: Region): Promise<void> {
  const file = openSync(path, 'w')
  try {
    await new Reading(region, file, new Output(false)).fileAt(0)
  } finally {
    closeSync(file)
  }
}

const goOn = goingOn([], true)

test.each([
  ['one by one', undefined, RECORDS / IN_FLIGHT],
  ['in batches', 'inOrder', RECORDS / BURST],
] as const)(
  'R1-U11: many records are under way at once, out %s and back',
  async (_, batch, turnsOut) => {
    const local = await openPart()
    const dpu = await connect(local.wire, { seed: 3, persistTimeoutMs: 1000 })
    await dpu.format()
    const region = await dpu.provision({ name: 'file', slots: RECORDS + 1, capacity: CAPACITY })
    const to = join(folder, `file-${batch}`)
    const bytes = Buffer.alloc(RECORDS * CAPACITY, createHash('sha256').update('file').digest())
    local.link.script = () => ({ delayUs: DELAY_US })

    const out = await turns(local, async () => {
      const options = { slot: 0, form: 'replicated', goOn, ...(batch && { batch }) } as const
      await new Persisting(region, contentOf(bytes), options, new Output(false)).run()
    })
    const back = await turns(local, () => readInto(to, region))

    expect(readFileSync(to)).toEqual(bytes)
    expect(dpu.statistics().retransmissions).toBe(0)
    expect(out).toBeLessThan(turnsOut + 3)
    expect(back).toBeLessThan(RECORDS / READS + 3)
  },
)
