/**
 * The package of Debian with the command: what is in it, that dpkg takes it, and that command,
 * library and completion run from it with nothing of this repository around.
 */

import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writePackage } from '../../../boards/tools/debian/package.ts'
import { isThere, run } from '../../../boards/tools/debian/programs.ts'
import {
  ARCHITECTURES,
  type Architecture,
  commandPackage,
  commandPackageName,
  libraryFolder,
} from '../../../host-driver/command/package/contents.ts'
import { createProgram } from '../../../host-driver/command/program.ts'
import { containerfile } from '../../support/board/containerfile.ts'
import { ROOT } from '../../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-command-package-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Lock {
  readonly version: string
  readonly packages: Readonly<Record<string, { readonly version: string; readonly dev?: boolean }>>
}
const LOCK = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock
const { version: VERSION } = LOCK

const dpkg = isThere('dpkg-deb')
const OWN: Architecture = process.arch === 'arm64' ? 'arm64' : 'x86-64'
const PROCESSORS = { 'x86-64': ['amd64', 'x64'], arm64: ['arm64', 'arm64'] } as const

/** The declarations take a compiler half a minute: one that stands for all will do. */
function standInTypes(): string {
  const types = join(folder, 'types')
  mkdirSync(join(types, 'host-driver'), { recursive: true })
  writeFileSync(join(types, 'host-driver/index.d.ts'), 'export {}\n')
  return types
}

/** Writes the package, in a folder of that name. */
function packed(architecture: Architecture, name: string): string {
  const sources = { root: ROOT, types: standInTypes(), program: createProgram(VERSION) }
  const path = join(folder, name, commandPackageName(architecture, VERSION))
  writePackage(path, commandPackage(architecture, sources))
  return path
}

function unpacked(path: string, name: string): string {
  const at = join(folder, name)
  run('dpkg-deb', ['-x', path, at])
  return at
}

describe.skipIf(!dpkg).each(ARCHITECTURES)('the package for %s (needs dpkg-deb)', (name) => {
  const [debian, node] = PROCESSORS[name]
  let path = ''
  let at = ''
  beforeAll(() => {
    path = packed(name, `one-${name}`)
    at = unpacked(path, `tree-${name}`)
  })

  test('is for that processor, belongs to root, and is the same every time', () => {
    expect(readFileSync(path).equals(readFileSync(packed(name, `two-${name}`)))).toBe(true)
    const field = (key: string): string => run('dpkg-deb', ['-f', path, key]).toString().trim()
    expect(field('Architecture')).toBe(debian)
    expect(field('Version')).toBe(VERSION)
    expect(field('Depends')).toMatch(/^nodejs \(>= 20\.19\), /)
    const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      engines: { node: string }
    }
    expect(engines.node).toBe('>=20.19')
    expect(field('Description')).toMatch(/\n .*\n \.\n /s)
    const lines = run('dpkg-deb', ['-c', path]).toString().trim().split('\n')
    expect(lines.filter((line) => !line.includes(' root/root '))).toEqual([])
    const executable = lines
      .filter((line) => /^-rwx/.test(line))
      .map((line) => line.split(' ./')[1])
    expect(executable).toEqual([`${libraryFolder(name)}/dist/perdure.js`])
  })

  test('has what is compiled for it, and nothing compiled for another', () => {
    const files = readdirSync(join(at, libraryFolder(name)), { recursive: true, encoding: 'utf8' })
    const compiled = files.filter((file) => file.endsWith('.node'))
    expect(compiled).toHaveLength(1)
    expect(compiled[0]).toContain(`/prebuilds/linux-${node}/`)
    const machine = readFileSync(join(at, libraryFolder(name), compiled[0]!)).readUInt16LE(18)
    expect(machine).toBe(name === 'arm64' ? 183 : 62)
    expect(files.filter((file) => /\.map$|\.(cc|cpp|h)$|wasmfile-debug.*wasm$/.test(file))).toEqual(
      [],
    )
  })

  test('has every module that is run, in its bill and with its licence', () => {
    const modules = Object.entries(LOCK.packages).filter(([key, { dev }]) => key !== '' && !dev)
    const wanted = modules
      .map(([key, { version }]) => `${key.replace(/^.*node_modules\//, '')} ${version}`)
      .filter((one) => !one.startsWith('node-addon-api '))
    const doc = join(at, 'usr/share/doc/perdure')
    const bill = JSON.parse(readFileSync(join(doc, 'sbom.cdx.json'), 'utf8')) as {
      components: { name: string; version: string; hashes: { content: string }[] }[]
    }
    const said = bill.components.map(({ name: its, version }) => `${its} ${version}`)
    const bundled = `uplot ${LOCK.packages['node_modules/uplot']!.version}`
    expect(said.sort()).toEqual([...new Set([...wanted, bundled])].sort())
    for (const { hashes } of bill.components) expect(hashes[0]!.content).toMatch(/^[0-9a-f]{128}$/)
    const copyright = readFileSync(join(doc, 'copyright'), 'utf8')
    expect(copyright).toContain('Files: usr/lib/*/nodejs/perdure/dist/monitor.js\n')
    for (const [key] of modules.filter(([key]) => !key.endsWith('/node-addon-api'))) {
      expect(copyright).toContain(`Files: usr/lib/*/nodejs/perdure/${key}/*\n`)
      expect(existsSync(join(at, libraryFolder(name), key, 'package.json')), key).toBe(true)
    }
  })
})

describe.skipIf(!dpkg)('what is unpacked of it runs alone (needs dpkg-deb)', () => {
  let at = ''
  beforeAll(() => {
    at = unpacked(packed(OWN, 'alone-deb'), 'alone')
  })
  const library = (): string => join(at, libraryFolder(OWN))
  /** Nothing of this machine but where programs are found. */
  const env = (): NodeJS.ProcessEnv => ({ PATH: process.env.PATH, HOME: folder })

  const perdure = (
    ...args: string[]
  ): { status: number | null; stdout: string; stderr: string } => {
    const program = join(library(), 'dist/perdure.js')
    return spawnSync(process.execPath, [program, ...args], {
      ...{ cwd: folder, env: env(), encoding: 'utf8' as const },
    })
  }

  test('/usr/bin/perdure leads to the program, which Debian’s Node runs', () => {
    const link = join(at, 'usr/bin/perdure')
    expect(join(at, 'usr/bin', readlinkSync(link))).toBe(join(library(), 'dist/perdure.js'))
    expect(readFileSync(link, 'utf8').split('\n')[0]).toBe('#!/usr/bin/node')
    expect(perdure('--version')).toMatchObject({ status: 0, stdout: `${VERSION}\n` })
  })

  test('a first record', () => {
    writeFileSync(join(folder, 'part.nvdimm'), new Uint8Array(2 ** 24))
    writeFileSync(join(folder, 'note.txt'), 'Two copies, or none.\n')
    const steps = [
      ['format', 'part.nvdimm'],
      ['region', 'create', 'part.nvdimm', 'notes', '--slots', '16', '--capacity', '4K'],
      ['persist', 'part.nvdimm', 'notes', 'note.txt'],
    ]
    for (const step of steps) {
      const { status, stderr } = perdure(...step)
      expect(`${step[0]}: ${status} ${status === 0 ? '' : stderr}`).toBe(`${step[0]}: 0 `)
    }
    const { status, stdout } = perdure('read', 'part.nvdimm', 'notes')
    expect([status, stdout]).toEqual([0, 'Two copies, or none.\n'])
  })

  test('a page with cards on it', () => {
    const { stdout } = perdure(
      ...['monitor', 'perdure://127.0.0.1:1', '--web', '--json', '--count', '1', '--interval', '1'],
    )
    expect(JSON.parse(stdout.split('\n')[0]!)).toEqual({
      web: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/$/),
    })
  })

  test('a serial line is opened by the module that came along', () => {
    const { status, stderr } = perdure('console', '/dev/null', 'status')
    expect(stderr).not.toContain('npm install')
    expect(status).not.toBe(0)
  })

  test('a program of CommonJS finds the library where Debian’s Node looks', () => {
    const program = "const { connect } = require('perdure'); console.log(typeof connect)"
    const where = { ...env(), NODE_PATH: join(library(), '..') }
    const words = ['--no-warnings', '-e', program]
    const done = spawnSync(process.execPath, words, { cwd: folder, env: where, encoding: 'utf8' })
    expect(done.stdout + done.stderr).toBe('function\n')
  })

  test('a program of ES modules finds it by a link, or by its path', () => {
    const mine = join(folder, 'mine/node_modules')
    mkdirSync(mine, { recursive: true })
    run('ln', ['-s', library(), join(mine, 'perdure')])
    writeFileSync(
      join(mine, '../program.mjs'),
      `import { connect } from 'perdure'
       import { EmulatedDpu } from 'perdure/emulator'
       const { connect: same } = await import(${JSON.stringify(join(library(), 'dist/index.js'))})
       console.log(typeof EmulatedDpu, connect === same)\n`,
    )
    const words = [join(mine, '../program.mjs')]
    const done = spawnSync(process.execPath, words, { env: env(), encoding: 'utf8' })
    expect(done.stdout + done.stderr).toBe('function true\n')
  })

  test('completion lies where each shell looks, and is what the command prints', () => {
    const places = {
      bash: 'usr/share/bash-completion/completions/perdure',
      zsh: 'usr/share/zsh/vendor-completions/_perdure',
      fish: 'usr/share/fish/vendor_completions.d/perdure.fish',
    }
    for (const [shell, path] of Object.entries(places)) {
      expect(perdure('completion', shell).stdout).toBe(readFileSync(join(at, path), 'utf8'))
    }
  })

  test('the manual has the page of each command', () => {
    const pages = readdirSync(join(at, 'usr/share/man/man1'))
    const names = createProgram(VERSION).commands.map((one) => `perdure-${one.name()}.1.gz`)
    expect(pages.sort()).toEqual(['perdure.1.gz', ...names].sort())
    const page = run('gzip', ['-dc', join(at, 'usr/share/man/man1/perdure-persist.1.gz')])
    expect(page.toString()).toContain(`"perdure ${VERSION}"`)
  })
})

describe('its Containerfile', () => {
  const path = 'host-driver/command/package/Containerfile'
  const image = containerfile(path, { BASE: 'a-base', TREE: 'dist/debian/tree.tar' })

  test('is on the base that is named, and on no other', () => {
    expect(image.from).toBe('a-base')
    expect([...image.args]).toEqual([
      ['BASE', null],
      ['TREE', null],
    ])
    expect(image.copies).toEqual([{ from: 'dist/debian/tree.tar', to: '/' }])
  })

  test.skipIf(!dpkg)('runs what the package has (needs dpkg-deb)', () => {
    const tree = join(folder, 'tree.tar')
    writeFileSync(tree, run('dpkg-deb', ['--fsys-tarfile', packed(OWN, 'for-container')]))
    const at = join(folder, 'container')
    mkdirSync(at)
    run('tar', ['-xf', tree, '-C', at])
    const [node, program] = image.runs
    expect(node).toBe('node')
    const words = [join(at, program!), '--version']
    const { stdout } = spawnSync(process.execPath, words, { cwd: folder, encoding: 'utf8' })
    expect(stdout).toBe(`${VERSION}\n`)
  })
})

const root = dpkg && isThere('dpkg') && process.getuid?.() === 0

test.skipIf(!root)('dpkg installs it, and removes it without a trace (needs root)', () => {
  const at = join(folder, 'system')
  for (const name of ['info', 'updates', 'triggers']) {
    mkdirSync(join(at, 'var/lib/dpkg', name), { recursive: true })
  }
  writeFileSync(join(at, 'var/lib/dpkg/status'), '')
  const options = [`--root=${at}`, '--force-depends', '--force-architecture']
  run('dpkg', [...options, '-i', packed(OWN, 'to-install')])
  expect(run('dpkg', [...options, '-s', 'perdure']).toString()).toMatch(
    /^Status: install ok installed$/m,
  )
  expect(existsSync(join(at, 'usr/bin/perdure'))).toBe(true)
  run('dpkg', [...options, '-r', 'perdure'])
  expect(existsSync(join(at, 'usr'))).toBe(false)
})

/** What is said of the package and stays as it is, each with its reason. */
const ARGUED: Readonly<Record<string, string>> = {
  'malformed-contact': 'there is no address of mail that somebody reads',
  'bogus-mail-host-in-debian-changelog': 'likewise',
}

const lintian = isThere('lintian') ? '' : " (it is not here: Debian's lintian)"

test.skipIf(!dpkg || lintian !== '')(
  `lintian finds no error and nothing to warn of${lintian}`,
  () => {
    const path = packed(OWN, 'looked-over')
    const words = ['--allow-root', '--tag-display-limit', '0', '--color', 'never', path]
    const { stdout } = spawnSync('lintian', words, { encoding: 'utf8', env: process.env })
    const tags = [...stdout.matchAll(/^([EW]): \S+: (\S+)/gm)].map(([, , tag]) => tag!)
    expect(
      tags.filter((tag) => !(tag in ARGUED)),
      stdout,
    ).toEqual([])
    // It has looked: these it finds.
    expect(Object.keys(ARGUED).every((tag) => tags.includes(tag))).toBe(true)
  },
)
