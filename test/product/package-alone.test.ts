/**
 * The package with nothing beside it. A program that has nothing but the package compiles, its
 * declarations included. Those of the driver need what a compiler brings by itself; those of the
 * emulator need `@types/node`, a peer of the package.
 */

import { spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-types-'))
afterAll(() => rmSync(folder, { recursive: true }))
mkdirSync(join(folder, 'node_modules'))
symlinkSync(ROOT, join(folder, 'node_modules/perdure'))

/** Where programs of somebody else import from. */
const [PACKAGE, OF_EMULATOR] = ["'perdure'", "'perdure/emulator'"]

const DRIVER = `
import { connect, type SlotRead } from ${PACKAGE}
await using dpu = await connect('perdure://127.0.0.1')
const region = await dpu.openRegion('orders')
const all: SlotRead[] = []
for await (const record of region.records({ from: 1 })) all.push(record)
const { copies }: { copies: number } = await region.persist(0, new Uint8Array(1)).persisted
export { all, copies }
`
const EMULATOR = `
import { EmulatedDpu, Nvdimm } from ${OF_EMULATOR}
export const part: Nvdimm = new Nvdimm({ bytes: 1 << 20 })
export type Card = EmulatedDpu
`

/** What the compiler says of the program, with these types beside its own. */
function compiled(program: string, module: string, types: readonly string[]): string {
  writeFileSync(join(folder, 'program.mts'), program)
  const options = {
    ...{ module, moduleResolution: module === 'nodenext' ? module : 'bundler' },
    ...{ target: 'es2022', strict: true, noEmit: true, skipLibCheck: false },
    ...{ types, typeRoots: [join(ROOT, 'node_modules/@types')] },
  }
  const config = { compilerOptions: options, files: ['program.mts'] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const ended = spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' })
  return ended.stdout + ended.stderr
}

test.each([
  ['the driver', DRIVER, 'nodenext', []],
  ['the driver', DRIVER, 'esnext', []],
  ['the emulator', EMULATOR, 'nodenext', ['node']],
  ['the emulator', EMULATOR, 'esnext', ['node']],
] as const)('%s compiles in a program of its own: %#', (_, program, module, types) => {
  expect(compiled(program, module, types)).toBe('')
})

test('what is wrong in such a program is found', () => {
  const wrong = DRIVER.replace('copies: number', 'copies: string')
  expect(compiled(wrong, 'nodenext', [])).toContain(
    "Type 'number' is not assignable to type 'string'",
  )
})

/** What npm would pack, by its path in the package. */
function packed(): Set<string> {
  const words = ['pack', '--dry-run', '--json', '--ignore-scripts', '--offline']
  const env = { ...process.env, npm_config_cache: join(folder, 'cache') }
  const { stdout } = spawnSync('npm', words, { cwd: ROOT, env, encoding: 'utf8' })
  const [{ files }] = JSON.parse(stdout) as [{ files: readonly { readonly path: string }[] }]
  return new Set(files.map(({ path }) => path))
}

test('R1-U13: what its pages and its source maps lead to is in the package', () => {
  const files = packed()
  const hasPath = (path: string): boolean => {
    return files.has(path) || [...files].some((file) => file.startsWith(`${path}/`))
  }
  const missing: string[] = []
  let links = 0
  const look = (from: string, to: string): void => {
    links++
    const path = normalize(join(dirname(from), to)).replace(/\/$/, '')
    if (!hasPath(path)) missing.push(`${from}: ${to}`)
  }
  for (const file of files) {
    const isMap = file.endsWith('.js.map')
    if (!isMap && !file.endsWith('.md')) continue
    const text = readFileSync(join(ROOT, file), 'utf8')
    const linked = [...text.matchAll(/\]\((?![a-z]+:)([^)#\s]+)/g)].map(([, to]) => to!)
    const sources = (isMap ? JSON.parse(text).sources : []) as string[]
    for (const to of isMap ? sources : linked) look(file, to)
  }
  expect(missing).toEqual([])
  expect(links).toBeGreaterThan(500)
})

test('what it throws names the line of the source, where Node is asked for that', () => {
  const program = `
    import { guardOf } from ${PACKAGE}
    try {
      guardOf('no bytes')
    } catch ({ stack }) {
      console.log(stack)
    }
  `
  writeFileSync(join(folder, 'thrown.mjs'), program)
  const words = ['--enable-source-maps', join(folder, 'thrown.mjs')]
  const { stdout } = spawnSync(process.execPath, words, { encoding: 'utf8' })
  const [, path, line] = /((?:host-driver|boards)\/[\w/-]+\.ts):(\d+):/.exec(stdout)!
  const lines = readFileSync(join(ROOT, path!), 'utf8').split('\n')
  expect(lines[Number(line) - 1]).toContain('throw new ArgumentError')
})

test('without serialport a serial line is refused with what to do, and all else goes on', () => {
  const alone = join(folder, 'alone')
  mkdirSync(join(alone, 'node_modules'), { recursive: true })
  for (const name of ['cbor2', 'commander', 'quickjs-emscripten']) {
    symlinkSync(join(ROOT, 'node_modules', name), join(alone, 'node_modules', name))
  }
  cpSync(join(ROOT, 'package.json'), join(alone, 'package.json'))
  for (const name of readdirSync(join(ROOT, 'dist'))) {
    if (/^(perdure|chunk-\w+)\.js$/.test(name)) {
      cpSync(join(ROOT, 'dist', name), join(alone, 'dist', name))
    }
  }
  const command = (...args: string[]): { status: number | null; stderr: string } => {
    const program = join(alone, 'dist/perdure.js')
    return spawnSync(process.execPath, [program, ...args], { cwd: alone, encoding: 'utf8' })
  }
  const refused = command('console', '/dev/null', 'status')
  expect(refused.stderr).toContain("'npm install serialport'")
  expect(refused.status).toBe(69)
  expect(command('--version').status).toBe(0)
})
