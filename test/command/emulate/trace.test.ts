/**
 * What `emulate --trace FILE` writes: a line for whatever client, card and host send one another,
 * by which the two flows of source 2 are told apart; and what becomes of the file.
 */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { Trace } from '../../../host-driver/command/emulate/trace.ts'
import { dataOf, persistFrames } from '../../support/wire/conversation.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-trace-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const PEER = { number: 0x101, peer: 0x102, mtu: 1024, psn: 7, operation: 0 }
const [FRAME] = persistFrames(PEER, { rkey: 0x1fe82160, baseHigh: 0 }, 3, dataOf(27, 1))

const COPY = { number: 1, memory: 'persistent', at: 0x1000 } as const

/** The lines of a copy on its way, as `cached` says: past the caches or into them. */
function linesOf(cached: boolean): string[] {
  const path = join(folder, `${cached}.txt`)
  const trace = new Trace()
  trace.open(path)
  trace.begin()
  trace.frame(FRAME!, 'a')
  trace.access({ ...COPY, kind: 'write', length: 128 }, cached)
  trace.access({ ...COPY, kind: 'read', length: 1 }, cached)
  trace.access({ number: 2, kind: 'write', memory: 'ram', at: 0x40, length: 64 }, cached)
  trace.register({ number: 3, form: 'ring', at: 0, low: 0, high: 0 })
  trace.clean(0x1000, 128)
  trace.fence()
  trace.flushed({ number: 2, address: 0x1000, length: 128, psn: 7, operationId: 1n })
  trace.close()
  return readFileSync(path, 'utf8').trimEnd().split('\n')
}

test.each([
  [false, 'past'],
  [true, 'into'],
] as const)('S1-M14: what is written to the host says by which flow: %s, %s', (cached, way) => {
  const [request, ...lines] = linesOf(cached)
  expect(request).toContain('client > card   WRITE_PERSIST Only qp 0x101 psn 7 va 0x3')
  expect(lines).toEqual([
    `card > host     DMA write, 128 B at 0x1000 of the persistent memory, ${way} the caches`,
    'card > host     DMA read, 1 B at 0x1000 of the persistent memory',
    'card > host     DMA write, 64 B at 0x40 of the queues',
    'host > card     doorbell',
    'host            writes back 128 B at 0x1000',
    'host            fence',
    'host > card     SEND, request 2 is done, psn 7 op 1',
  ])
})

test('a file that is there stays until the trace begins, a new one is gone without it', () => {
  const [there, fresh] = ['there', 'fresh'].map((name) => join(folder, name)) as [string, string]
  writeFileSync(there, 'before\n')
  for (const path of [there, fresh]) {
    const trace = new Trace()
    trace.open(path)
    trace.fence()
    trace.close()
  }
  expect(readFileSync(there, 'utf8')).toBe('before\n')
  expect(existsSync(fresh)).toBe(false)
  const trace = new Trace()
  trace.open(there)
  trace.fence()
  trace.begin()
  trace.clean(0, 64)
  trace.close()
  const begun = 'host            fence\nhost            writes back 64 B at 0x0\n'
  expect(readFileSync(there, 'utf8')).toBe(begun)
})
