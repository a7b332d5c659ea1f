/**
 * What the log of perdured says of the card while it serves: of a part that does not answer, of
 * records that it has lost, and how often.
 */

import { once } from 'node:events'
import { truncateSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../../../../host-driver/index.ts'
import type { Runtime } from '../../../support/board/runtime.ts'
import { titled } from '../../../support/native/harness.ts'
import { noService, ServiceFolder } from '../../../support/native/service.ts'

let folder: ServiceFolder
beforeEach(() => {
  folder = new ServiceFolder()
})
afterEach(() => folder.close())

interface Line {
  readonly level: string
  readonly event: string
  readonly times?: number
  readonly is?: string
}

function linesOf({ story }: Runtime): Line[] {
  return story
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Line)
}

/** Waits until the log has such a line. */
async function says(runtime: Runtime, fits: (line: Line) => boolean): Promise<Line> {
  for (;;) {
    const found = linesOf(runtime).find(fits)
    if (found !== undefined) return found
    if (!runtime.isRunning) throw new Error(`perdured ended: ${runtime.story}`)
    await once(runtime.process.stderr!, 'data')
  }
}

const OF_MEDIUM = 'the part did not deliver, or take, some bytes'
const OF_PART = 'the part is another than it was'

/** How many errors of the medium the log has told in all. */
function mediumErrors(runtime: Runtime): number {
  const lines = linesOf(runtime).filter(({ event }) => event === OF_MEDIUM)
  return lines.reduce((sum, line) => sum + line.times!, 0)
}

describe.skipIf(noService !== null)(titled('the log of a card that serves', noService), () => {
  test('a part that does not answer: how often, and what the card says of itself', async () => {
    const { runtime, address } = await folder.serve({ log: 'json' })
    const dpu = await connect(address, { seed: 1, warn: () => {} })
    await dpu.format()
    const region = await dpu.provision({ name: 'notes', slots: 16, capacity: 4096 })
    await Promise.all(
      Array.from(
        { length: 16 },
        (_, slot) => region.persist(slot, Buffer.alloc(4096, slot)).persisted,
      ),
    )
    expect(linesOf(runtime).filter(({ level }) => level === 'error')).toEqual([])
    // Its pages are gone.
    truncateSync(folder.at('part'), 0)
    const read = await Promise.allSettled(
      Array.from({ length: 16 }, (_, slot) => region.read(slot)),
    )
    expect(read.map(({ status }) => status)).toContain('rejected')
    const { level, times } = await says(runtime, ({ event }) => event === OF_MEDIUM)
    expect(level).toBe('warning')
    expect(times).toBeGreaterThan(0)
    // A store that the part refuses: what it holds is in doubt from then on.
    const written = await Promise.allSettled([region.persist(3, Buffer.from('more')).persisted])
    expect(written[0]!.status).toBe('rejected')
    const part = await says(runtime, ({ event }) => event === OF_PART)
    expect(part.is).toMatch(/^state=(failedClosed|serving) format=\d+ lost=\d+/)
    for (;;) {
      const { machine } = (await folder.ask('counters')) as { machine: { mediaErrors: number } }
      await says(runtime, () => mediumErrors(runtime) >= machine.mediaErrors)
      // The card may have met one more since it was asked.
      if (mediumErrors(runtime) === machine.mediaErrors) break
    }
    await dpu.close()
  })

  test('of a card that is well it says nothing more, whatever it serves', async () => {
    const { runtime, address } = await folder.serve({ log: 'json' })
    const dpu = await connect(address, { seed: 1, warn: () => {} })
    await dpu.format()
    const region = await dpu.provision({ name: 'notes', slots: 4, capacity: 64 })
    const part = await says(runtime, ({ event }) => event === OF_PART)
    expect(part.is).toMatch(/^state=serving format=\d+ lost=0$/)
    const before = linesOf(runtime).length
    for (let i = 0; i < 4; i++) await region.persist(i, Buffer.from('well')).persisted
    const until = BigInt((await folder.ask('status')).uptimeUs as number) + 2_500_000n
    while (BigInt((await folder.ask('status')).uptimeUs as number) < until) {
      await region.persist(0, Buffer.from('well')).persisted
    }
    expect(linesOf(runtime).slice(before)).toEqual([])
    await dpu.close()
  })
})
