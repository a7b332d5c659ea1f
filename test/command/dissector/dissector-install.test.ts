/** `perdure capture --install-dissector`: where it puts the dissector, and what it says. */

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { dissectorText } from '../../../host-driver/command/capture/dissector/generate.ts'
import { type Run, runIn } from '../../support/command/command.ts'
import { HAS_TSHARK, SOURCES, Tshark } from '../../support/dissector/tshark.ts'
import { ROOT } from '../../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-install-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function install(home: string, ...more: string[]): Promise<Run> {
  const args = ['capture', '--install-dissector', ...more]
  return runIn(folder, args, { HOME: home, XDG_CONFIG_HOME: join(folder, 'config') })
}

test('the built dissector is made of the tables as they are', () => {
  expect(readFileSync(join(ROOT, 'dist/perdure.lua'), 'utf8')).toBe(dissectorText(SOURCES))
})

test('it is installed, replaced, and gone when its file is', async () => {
  const home = join(folder, 'home')
  mkdirSync(home)
  const first = await install(home)
  expect(first.code).toBe(0)
  const file = /^installed {2}(\S+)\n$/.exec(first.stdout)![1]!
  expect(file.startsWith(home)).toBe(true)
  expect(first.stderr).toContain('To take it out, delete that file.')
  writeFileSync(file, 'an older one')
  const again = await install(home, '--json')
  expect(JSON.parse(again.stdout)).toEqual({ dissector: file, installed: 'replaced' })
  expect(again.stderr).toBe('')
  expect(readFileSync(file, 'utf8')).toBe(readFileSync(join(ROOT, 'dist/perdure.lua'), 'utf8'))
})

test('where nothing can be written it says so, and how to do without', async () => {
  const home = join(folder, 'file')
  writeFileSync(home, '')
  const { code, stdout, stderr } = await install(home)
  expect({ code, stdout }).toEqual({ code: 66, stdout: '' })
  expect(stderr).toMatch(/^perdure: \S+perdure\.lua cannot be written \(ENOTDIR\)\. [^\n]+\n$/)
  const [, without] = /-X lua_script:(\S+)\n$/.exec(stderr)!
  expect(existsSync(without!)).toBe(true)
})

test('it takes no file, and without it one is asked for', async () => {
  const both = await install(folder, 'x.pcap')
  expect(both).toMatchObject({ code: 64, stdout: '' })
  expect(both.stderr).toContain('leave out x.pcap')
  const none = await runIn(folder, ['capture'])
  expect(none).toMatchObject({ code: 64, stdout: '' })
  expect(none.stderr).toContain('--install-dissector')
})

test.skipIf(!HAS_TSHARK)('tshark (Debian: tshark) loads it from there', async () => {
  const tshark = new Tshark()
  try {
    expect((await install(tshark.home)).code).toBe(0)
    const file = join(ROOT, 'test/vectors/captures/rxe-std-golden-v4.pcap')
    const flushes = tshark.run('-r', file, '-Y', 'perdure.opcode == 0x1c').trimEnd().split('\n')
    expect(flushes).toHaveLength(6)
    expect(flushes.filter((line) => !line.includes(' FLUSH QP='))).toEqual([])
  } finally {
    tshark.close()
  }
})
