/**
 * `node build.mjs package`: the package of Debian with command, library and emulator, and beside it
 * its files as a tar, for containers on any base (Containerfile).
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { writePackage } from '../../../boards/tools/debian/package.ts'
import { isThere, Missing, run, runBuild, Trouble } from '../../../boards/tools/debian/programs.ts'
import { createProgram } from '../program.ts'
import { ARCHITECTURES, type Architecture, commandPackage, commandPackageName } from './contents.ts'

const USAGE = `node build.mjs package [--arch x86-64|arm64]
  --arch   for which processor; by default, that of this machine`

/** This runs as `dist/package.js`. */
const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

function isArchitecture(name: string): name is Architecture {
  return (ARCHITECTURES as readonly string[]).includes(name)
}

function main(args: readonly string[]): void {
  const { values } = parseArgs({ args: [...args], options: { arch: { type: 'string' } } })
  const architecture = values.arch ?? (process.arch === 'x64' ? 'x86-64' : process.arch)
  if (!isArchitecture(architecture)) {
    throw new Trouble(`--arch ${architecture}: ${ARCHITECTURES.join(' and ')}`)
  }
  if (!isThere('dpkg-deb')) throw new Missing("dpkg-deb is not on this machine: Debian's dpkg")
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    version: string
  }
  const types = join(ROOT, 'dist/types')
  const contents = commandPackage(architecture, {
    ...{ root: ROOT, types, program: createProgram(version) },
  })
  const path = join(ROOT, 'dist/debian', commandPackageName(architecture, version))
  writePackage(path, contents)
  const tree = path.replace(/\.deb$/, '.tar')
  writeFileSync(tree, run('dpkg-deb', ['--fsys-tarfile', path]))
  process.stdout.write(`${path}\n${tree}\n`)
}

runBuild(main, USAGE)
