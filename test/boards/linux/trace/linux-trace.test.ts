/**
 * What perdured writes down of a card (boards/linux/src/trace/trace.h), made into a trace again:
 * the part that the trace ends with is the part that the card has left.
 *
 * The cards here are in shadow mode: SIGKILL is a power cut, and the part has what was durable.
 */

import { existsSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DATA_AT } from '../../../../firmware/medium/superblock.ts'
import type { Timeline } from '../../../../host-driver/command/timeline/data.ts'
import { readTrace, type TraceFile } from '../../../../host-driver/command/timeline/read-trace.ts'
import { Replay } from '../../../../host-driver/command/timeline/replay.ts'
import { storyOf } from '../../../../host-driver/command/timeline/story.ts'
import { connect, type Dpu } from '../../../../host-driver/index.ts'
import type { Runtime } from '../../../support/board/runtime.ts'
import { differingLines, mentionedLines } from '../../../support/command/played.ts'
import { titled } from '../../../support/native/harness.ts'
import { noService, ServiceFolder } from '../../../support/native/service.ts'

const LINE = 64

let folder: ServiceFolder
beforeEach(() => {
  folder = new ServiceFolder()
})
afterEach(() => folder.close())

const ring = (): string => folder.at('trace')

async function traced(more: Readonly<Record<string, string>> = {}): Promise<{
  readonly runtime: Runtime
  readonly dpu: Dpu
}> {
  const keys = { trace: ring(), 'trace-bytes': '1M', shadow: 'yes', ...more }
  const { runtime, address } = await folder.serve(keys)
  return { runtime, dpu: await connect(address, { seed: 1, warn: () => {} }) }
}

/** Lines, of those, in which the durable part at the end of the trace is not what was left. */
function otherLines(file: TraceFile, lines: Iterable<number>): number[] {
  return differingLines(file, readFileSync(folder.at('part')), lines)
}

function storyIn(file: TraceFile): Timeline {
  return storyOf(file, { title: 'card', images: 4, steps: 200 }).timeline
}

describe.skipIf(noService !== null)(titled('the trace of perdured', noService), () => {
  test('of a whole life ends with the very part that a kill leaves', async () => {
    const { runtime, dpu } = await traced()
    await dpu.format()
    const region = await dpu.provision({ name: 'notes', slots: 4, capacity: 256 })
    for (let i = 0; i < 8; i++) {
      await region.persist(i % 4, Buffer.from(`record ${i}`)).persisted
    }
    await runtime.end('SIGKILL')
    await dpu.close()
    const file = readTrace(ring())
    expect(file.head).toMatchObject({ board: 'linux', partBytes: 16 * 2 ** 20 })
    expect(otherLines(file, Array(file.head.partBytes / LINE).keys())).toEqual([])
    const { rows } = storyIn(file)
    expect(
      rows
        .map(({ label }) => label)
        .filter((one) => one.startsWith('record '))
        .sort(),
    ).toEqual([0, 1, 2, 3].map((i) => `record ${i}`))
    for (const row of rows.filter(({ label }) => label.startsWith('record '))) {
      expect(row.marks.filter(([, kind]) => kind === 'durable')).toHaveLength(2)
    }
    expect(file.events.filter(({ e }) => e === 'burst').length).toBeGreaterThan(8)
    expect(statSync(ring()).mode & 0o777).toBe(0o600)
    expect(runtime.story).toContain('what the card does is written down')
  })

  test('goes on by overwriting: what it still has is what happened last', async () => {
    const { runtime, dpu } = await traced()
    await dpu.format()
    const region = await dpu.provision({ name: 'notes', slots: 8, capacity: 4096 })
    const persist = (i: number): Promise<unknown> =>
      region.persist(i % 8, Buffer.alloc(4096, i)).persisted
    for (let i = 0; i < 160; i++) await persist(i)
    // Read while the card serves, too.
    const during = storyIn(readTrace(ring()))
    expect(during.records).toHaveLength(8)
    for (let i = 160; i < 180; i++) await persist(i)
    await runtime.end('SIGKILL')
    await dpu.close()
    const file = readTrace(ring())
    expect(file.events.some(({ e }) => e === 'power')).toBe(false)
    const lines = mentionedLines(file)
    expect(lines.size).toBeGreaterThan((8 * 2 * 4096) / LINE)
    expect(otherLines(file, lines)).toEqual([])
    // Where it begins, all that it tells of had been written before.
    const { durable } = new Replay(file).part
    const isEmpty = (line: number): boolean =>
      durable.subarray(line * LINE, (line + 1) * LINE).every((byte) => byte === 0)
    const written = [...lines].filter((line) => line * LINE >= DATA_AT)
    expect(written.filter(isEmpty)).toEqual([])
  })

  test('that of the process before is kept, and a card without the key writes none', async () => {
    const one = await traced()
    await one.dpu.format()
    await one.dpu.close()
    await one.runtime.end('SIGKILL')
    const before = readFileSync(ring())
    const { runtime, address } = await folder.serve({ shadow: 'yes' })
    await (await connect(address, { seed: 2, warn: () => {} })).close()
    await runtime.end('SIGTERM')
    expect(readFileSync(ring()).equals(before)).toBe(true)
    const next = await traced()
    await next.dpu.close()
    await next.runtime.end('SIGTERM')
    expect(readFileSync(`${ring()}.old`).equals(before)).toBe(true)
    expect(readTrace(ring()).events.some(({ e }) => e === 'power')).toBe(true)
  })

  test('a part that does not answer is refused as without it', async () => {
    const outcomes = async (keys: Readonly<Record<string, string>>): Promise<string[]> => {
      const { runtime, dpu } = await traced({ shadow: 'no', ...keys })
      await dpu.format()
      const region = await dpu.provision({ name: 'notes', slots: 4, capacity: 4096 })
      truncateSync(folder.at('part'), 0)
      const all = await Promise.allSettled(
        [0, 1].map((slot) => region.persist(slot, Buffer.alloc(4096, 1)).persisted),
      )
      await dpu.close()
      await runtime.end('SIGKILL')
      truncateSync(folder.at('part'), 16 * 2 ** 20)
      return all.map((one) => (one.status === 'rejected' ? one.reason.fault : 'durable'))
    }
    expect(await outcomes({})).toEqual(await outcomes({ trace: '' }))
  })

  test('a file that cannot be made is said, and nothing is served', async () => {
    const { code, said } = await folder.ends({ trace: join(folder.path, 'none', 'trace') })
    expect(code).toBe(69)
    expect(said).toContain('the trace cannot be had')
    const small = await folder.ends({ trace: ring(), 'trace-bytes': '4K' })
    expect([small.code, existsSync(ring())]).toEqual([78, false])
    expect(small.said).toContain('1M to 1G')
  })
})
