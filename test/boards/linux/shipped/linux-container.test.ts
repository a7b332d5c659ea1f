/**
 * The image `FROM scratch` with the native runtime: a root with exactly the files that its
 * Containerfile copies serves, so the programs need nothing else. Images are built only where
 * something builds them.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, describe, expect, test } from 'vitest'
import { isThere } from '../../../../boards/tools/debian/programs.ts'
import { builder, containerfile } from '../../../support/board/containerfile.ts'
import { OWN_ARCHITECTURE, perduredMissing } from '../../../support/board/perdured.ts'
import { runIn } from '../../../support/command/command.ts'
import { ROOT } from '../../../support/source/sources.ts'

const FILE = 'boards/linux/Containerfile'
const IMAGE = containerfile(FILE, { ARCH: OWN_ARCHITECTURE })

const folder = mkdtempSync(join(tmpdir(), 'perdure-container-'))
const children: ChildProcess[] = []
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

const sources = IMAGE.copies.map(({ from }) => join(ROOT, from))
const absent = sources.find((path) => !existsSync(path))
const notBuilt =
  perduredMissing(OWN_ARCHITECTURE, '') ?? (absent === undefined ? null : `no ${absent}`)
const noRoot = process.getuid?.() === 0 && isThere('chroot') ? null : 'only root may chroot'
const why = notBuilt ?? noRoot
const because = why === null ? '' : ` (${why})`

test('it is from nothing, and copies what the build and the repository have', () => {
  expect(IMAGE.from).toBe('scratch')
  expect([...IMAGE.args.keys()]).toEqual(['ARCH'])
  const made = IMAGE.copies.filter(({ from }) => from.startsWith('dist/'))
  expect(made.length).toBe(5)
  for (const { from } of IMAGE.copies) {
    if (!from.startsWith('dist/')) expect(existsSync(join(ROOT, from)), from).toBe(true)
  }
  const other = containerfile(FILE, { ARCH: 'arm64' }).copies.map(({ from }) => from)
  expect(other).toContain('dist/linux/arm64/perdured')
})

/** Where chroot is found; the programs in there find nothing by it. */
const PATH_ALONE = { PATH: process.env.PATH }

/** A root with the files of the image and no other; the configuration is mounted over its own. */
function rootWith(name: string, change: (text: string) => string): string {
  const at = join(folder, name)
  for (const { from, to } of IMAGE.copies) {
    mkdirSync(dirname(join(at, to)), { recursive: true })
    cpSync(join(ROOT, from), join(at, to))
  }
  mkdirSync(join(at, IMAGE.folder), { recursive: true })
  const configuration = join(at, 'etc/perdure/perdured.conf')
  writeFileSync(configuration, change(readFileSync(configuration, 'utf8')))
  return at
}

describe.skipIf(why !== null)(`a root with these files alone${because}`, () => {
  test('serves: a record is kept, and read again', async () => {
    const root = rootWith('serves', (text) =>
      text.replace('0.0.0.0:4791', '127.0.0.1:0').replace('#development', 'development'),
    )
    const child = spawn('chroot', [root, ...IMAGE.runs], { env: PATH_ALONE })
    children.push(child)
    let said = ''
    child.stderr.on('data', (piece: Buffer) => {
      said += piece.toString()
    })
    const lines = createInterface({ input: child.stdout })
    const [target] = (await Promise.race([
      once(lines, 'line'),
      once(child, 'exit').then(() => Promise.reject(new Error(said))),
    ])) as [string]
    writeFileSync(join(folder, 'note.txt'), 'From nothing.\n')
    for (const words of [
      ['format', target],
      ['region', 'create', target, 'notes', '--slots', '16', '--capacity', '4K'],
      ['persist', target, 'notes', 'note.txt'],
    ]) {
      const { code, stderr } = await runIn(folder, words)
      expect(`${words[0]}: ${code} ${code === 0 ? '' : stderr}`).toBe(`${words[0]}: 0 `)
    }
    const { stdout } = await runIn(folder, ['read', target, 'notes'])
    expect(stdout).toBe('From nothing.\n')
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
  })

  test('on a plain file nothing is promised unless the configuration says so', () => {
    const root = rootWith('plain', (text) => text.replace('0.0.0.0:4791', '127.0.0.1:0'))
    writeFileSync(join(root, IMAGE.folder, 'part'), new Uint8Array(2 ** 26))
    const { status, stdout, stderr } = spawnSync('chroot', [root, ...IMAGE.runs, '--check'], {
      ...{ encoding: 'utf8' as const, env: PATH_ALONE },
    })
    expect(status, stderr).toBe(0)
    expect(stdout + stderr).toContain('page cache')
  })

  test('has both programs, and a program that needs a library does not start there', () => {
    const root = rootWith('programs', (text) => text)
    for (const name of ['perdured', 'perdure-boot']) {
      const { stdout } = spawnSync('chroot', [root, `/usr/sbin/${name}`, '--version'])
      expect(stdout.toString()).toMatch(new RegExp(`^${name} \\d`))
    }
    cpSync(process.execPath, join(root, 'node'))
    expect(spawnSync('chroot', [root, '/node', '--version']).status).not.toBe(0)
  })
})

const build = notBuilt === null ? builder() : null
const noBuilder =
  build === null ? ` (${notBuilt ?? 'no buildah, and no podman or docker with an engine'})` : ''

test.skipIf(build === null)(`${build ?? 'a builder'} builds it${noBuilder}`, () => {
  const words = ['build', '--build-arg', `ARCH=${OWN_ARCHITECTURE}`, '-f', FILE]
  const tag = `perdured-test-${process.pid}`
  const done = spawnSync(build!, [...words, '-t', tag, '.'], { cwd: ROOT, encoding: 'utf8' })
  spawnSync(build!, [
    build === 'docker' ? 'image' : 'rmi',
    ...(build === 'docker' ? ['rm', tag] : [tag]),
  ])
  expect(done.status, done.stderr).toBe(0)
})
