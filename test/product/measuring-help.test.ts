/** The commands of measuring and attacking: what they say of themselves. */

import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { ROOT } from '../support/source/sources.ts'

function run(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, ['build.mjs', ...args], { cwd: ROOT, encoding: 'utf8' })
}

test.each([
  ['bench', '--help'],
  ['bench', 'busy', '-h'],
  ['bench:native', '--help'],
  ['evidence', '--help'],
  ['kill', '--help'],
  ['test:interop', '--help'],
])('npm run %s -- %s prints how it is called, and measures nothing', (name, ...words) => {
  const { status, stdout, stderr } = run(name!, ...words)
  expect(stdout).toContain(`npm run ${name} -- `)
  expect(stdout).toContain(name === 'test:interop' ? '--keep' : '--json')
  expect([status, stderr]).toEqual([0, ''])
})

test.each(['bench', 'bench:native'])('npm run %s refuses what it does not know', (name) => {
  const { status, stdout, stderr } = run(name, '--sooner')
  expect(stderr).toMatch(/^bench(:native)?: Unknown option '--sooner'[^\n]*\n$/)
  expect([status, stdout]).toEqual([64, ''])
})
