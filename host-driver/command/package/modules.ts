/**
 * The modules of others that the command and the library run with, as package-lock.json says, and
 * what of each goes into a package of Debian.
 *
 * Invariants:
 * - What goes in is what npm installed, byte for byte: programs, tables and WebAssembly that Node
 *   loads, and declarations. Maps, sources of C, what browsers load, and pages stay out.
 * - Of what is compiled, that for one processor and glibc goes in, and nothing for another one.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Trouble } from '../../../boards/tools/debian/programs.ts'

/** A module as the lock file has it. */
export interface Module {
  /** As 'node_modules/cbor2'. */
  readonly path: string
  readonly name: string
  readonly version: string
  /** Of SPDX. */
  readonly licence: string
  /** SHA-512 of what npm fetched, base64. */
  readonly sha512: string
}

interface Locked {
  readonly version: string
  readonly license?: string
  readonly integrity?: string
  readonly dev?: boolean
}

/** Headers, for building what comes built. */
const NOT_RUN = ['node-addon-api']

/** Modules that stand within a program, and which. */
const BUNDLED: Readonly<Record<string, string>> = { 'node_modules/uplot': 'dist/monitor.js' }

/** A module, and its files in the package, from the folder of ours. */
export interface Part {
  readonly module: Module
  readonly files: string
}

function lockedOf(root: string): [path: string, locked: Locked][] {
  const text = readFileSync(join(root, 'package-lock.json'), 'utf8')
  const { packages } = JSON.parse(text) as { packages: Readonly<Record<string, Locked>> }
  return Object.entries(packages)
}

/** All of others that is in the package, whichever way it came there. */
export function partsOf(root: string): Part[] {
  const within = lockedOf(root).filter(([path]) => path in BUNDLED)
  return [
    ...modulesOf(root).map((module) => ({ module, files: `${module.path}/*` })),
    ...within.map(([path, locked]) => ({ module: moduleOf(path, locked), files: BUNDLED[path]! })),
  ]
}

/** Every module that is run, in order. Throws a Trouble where one is not installed. */
export function modulesOf(root: string): Module[] {
  const run = lockedOf(root).filter(([path, { dev }]) => path !== '' && dev !== true)
  const modules = run.map(([path, locked]) => moduleOf(path, locked))
  const wanted = modules.filter(({ name }) => !NOT_RUN.includes(name))
  const absent = wanted.find(({ path }) => !existsSync(join(root, path, 'package.json')))
  if (absent === undefined) return wanted
  throw new Trouble(`${absent.path} is not installed: npm ci --ignore-scripts brings it`)
}

function moduleOf(path: string, { version, license, integrity }: Locked): Module {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
  const sha512 = /^sha512-(.+)$/.exec(integrity ?? '')?.[1]
  if (license !== undefined && sha512 !== undefined) {
    return { path, name, version, licence: license, sha512 }
  }
  throw new Trouble(`package-lock.json has no licence or no SHA-512 of ${path}`)
}

/** The text under which its authors give it away. Throws a Trouble where it has none. */
export function licenceText(root: string, { path }: Module): string {
  const folder = join(root, path)
  const name = readdirSync(folder).find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry))
  if (name === undefined) throw new Trouble(`${path} has no text of its licence`)
  return readFileSync(join(folder, name), 'utf8').trim()
}

/** What Node loads, and what a compiler reads. */
const LOADED = /\.([cm]?js|json|wasm|node|d\.[cm]?ts)$/
/** What it does not, by names of files and of folders. */
const LEFT_OUT = [
  /\.(browser|cloudflare|global)\.\w+$/,
  /^(test|tests|prebuilds)$/,
  /^(tsconfig|\.eslintrc|bower)\b.*$/,
  // Of node-gyp-build: programs for who installs.
  /^(bin|build-test|optional)\.js$/,
]

/** Of the engine, one of four kinds is loaded; the library wants the names of the others alone. */
const OTHER_ENGINES = /quickjs-wasmfile-(debug-sync|(debug|release)-asyncify)$/
const NAMES_OF_ENGINE = /^(package\.json|dist\/index\.(js|mjs))$/

/** A processor, as Node's prebuilt modules name it. */
export type Processor = 'x64' | 'arm64'

/** Paths of a module's files, from its folder, in order. */
export function moduleFiles(root: string, module: Module, processor: Processor): string[] {
  const folder = join(root, module.path)
  const files = filesBelow(folder, '').filter((path) => LOADED.test(path))
  const isOther = OTHER_ENGINES.test(module.name)
  const kept = isOther ? files.filter((path) => NAMES_OF_ENGINE.test(path)) : files
  return [...kept, ...prebuilt(folder, processor)].sort()
}

function filesBelow(folder: string, below: string): string[] {
  const entries = readdirSync(join(folder, below), { withFileTypes: true })
  return entries.flatMap((entry) => {
    if (entry.name === 'node_modules' || LEFT_OUT.some((what) => what.test(entry.name))) return []
    const path = below === '' ? entry.name : `${below}/${entry.name}`
    return entry.isDirectory() ? filesBelow(folder, path) : [path]
  })
}

/** What is compiled for that processor, where a module has such; Debian's C library is glibc. */
function prebuilt(folder: string, processor: Processor): string[] {
  const below = `prebuilds/linux-${processor}`
  if (!existsSync(join(folder, 'prebuilds'))) return []
  const names = existsSync(join(folder, below)) ? readdirSync(join(folder, below)) : []
  const found = names.filter((name) => name.endsWith('.glibc.node'))
  if (found.length === 1) return [`${below}/${found[0]!}`]
  throw new Trouble(`${join(folder, below)}: one module for glibc was expected`)
}
