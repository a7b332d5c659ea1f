/**
 * The system calls that perdured has left while it serves: each of the list returns, and whatever
 * is not on it ends the process at once. That the list has all that it needs is shown by every
 * other test of the native runtime.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { OWN_ARCHITECTURE, perduredMissing } from '../../support/board/perdured.ts'
import { compileStatic, noCompiler, titled } from '../../support/native/harness.ts'
import { ServiceFolder } from '../../support/native/service.ts'

const ENDS = [
  ...['run-program', 'make-process', 'make-socket', 'connect-socket', 'listen-socket'],
  ...['map-code', 'make-code', 'end-another', 'trace', 'type-for-another', 'change-user'],
  ...['make-readable', 'set-process', 'call-no-number'],
]
const RETURNS = [
  ...['look-for-another', 'map-data', 'make-data', 'look-at-terminal', 'draw', 'open-file'],
]

const STATUS = '/proc/self/status'

/** Why nothing can be seen of a filter here; null where it can. */
function noFilter(): string | null {
  if (noCompiler !== null) return noCompiler
  const status = existsSync(STATUS) ? readFileSync(STATUS, 'utf8') : ''
  return /^Seccomp:/m.test(status) ? null : 'this kernel filters no system calls'
}
const why = noFilter()

const folders: ServiceFolder[] = []
afterAll(async () => {
  for (const one of folders.splice(0)) await one.close()
})

describe.skipIf(why !== null)(titled('behind the filter', why), () => {
  let program = ''
  beforeAll(() => {
    program = compileStatic('gcc', 'syscalls-harness', ['confine/syscalls', 'service/fault'])
  })

  function attempt(name: string): { said: string; signal: string | null; code: number | null } {
    const { stdout, signal, status } = spawnSync(program, [name], { encoding: 'utf8' })
    return { said: stdout, signal, code: status }
  }

  test.each(ENDS)('R1-S12: %s is not on the list, and ends the process', (name) => {
    expect(attempt(name)).toEqual({ said: 'confined ', signal: 'SIGSYS', code: null })
  })

  test.skipIf(process.arch !== 'x64')('R1-S12: nor is a call by the numbers of x32', () => {
    expect(attempt('call-as-x32')).toEqual({ said: 'confined ', signal: 'SIGSYS', code: null })
  })

  test.each(RETURNS)('R1-S12: %s returns', (name) => {
    expect(attempt(name)).toEqual({ said: 'confined returned', signal: null, code: 0 })
  })
})

const missing = why ?? perduredMissing(OWN_ARCHITECTURE, '')
test.skipIf(missing !== null)(titled('R1-S12: perdured serves behind it', missing), async () => {
  const folder = new ServiceFolder()
  folders.push(folder)
  const { runtime } = await folder.serve()
  const status = readFileSync(`/proc/${runtime.process.pid}/status`, 'utf8')
  expect(status).toMatch(/^NoNewPrivs:\s+1$/m)
  // 2: a filter decides.
  expect(status).toMatch(/^Seccomp:\s+2$/m)
  expect(runtime.story).not.toContain('any system call')
})
