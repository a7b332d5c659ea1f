/**
 * The package `perdure` of Debian and Ubuntu: command, library and emulator in one, with the
 * modules that they run with, their manual, and completion for bash, zsh and fish. Node is
 * Debian's.
 *
 * Invariants:
 * - It is for one processor: the module for serial lines is compiled, and all else is the same.
 * - Node finds everything in the package itself: nothing is fetched, and no module of the system,
 *   of which there may be another release, is taken for one of these.
 * - Installing it starts nothing and writes nothing but its files.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { billText, type Component } from '../../../boards/tools/debian/bill.ts'
import type { PackageContents, PackageFile } from '../../../boards/tools/debian/package.ts'
import { changelogFile, MAINTAINER, manualFiles } from '../../../boards/tools/manual/papers.ts'
import { bashScript, fishScript, zshScript } from '../completion/shells.ts'
import { wordsOf } from '../completion/tree.ts'
import { manualOf } from '../manual/pages.ts'
import {
  licenceText,
  type Module,
  moduleFiles,
  modulesOf,
  type Part,
  type Processor,
  partsOf,
} from './modules.ts'

export const ARCHITECTURES = ['x86-64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]

interface Names {
  /** As Debian calls the processor, and the folder of what is compiled for it. */
  readonly debian: 'amd64' | 'arm64'
  readonly triplet: string
  readonly node: Processor
}

const NAMES: Readonly<Record<Architecture, Names>> = {
  'x86-64': { debian: 'amd64', triplet: 'x86_64-linux-gnu', node: 'x64' },
  arm64: { debian: 'arm64', triplet: 'aarch64-linux-gnu', node: 'arm64' },
}

/** What a package is made of. */
interface Sources {
  /** The folder of the repository, built: sources, `dist`, `node_modules`. */
  readonly root: string
  /** The folder with the declarations, `dist/types` as a rule. */
  readonly types: string
  readonly program: Command
}

interface Manifest {
  readonly version: string
  readonly [field: string]: unknown
}

const DOC = 'usr/share/doc/perdure'
/** What Node and TypeScript read of package.json. */
const FIELDS = [
  ...['name', 'version', 'description', 'license', 'type', 'engines', 'bin', 'exports'],
  'sideEffects',
] as const
/** The programs and what they share, the firmware, the dissector, the page of the monitor. */
const PRODUCTS =
  /^((index|emulator|perdure|firmware|chunk-\w+)\.js|perdure\.lua|monitor\.(html|js|css))$/

const DESCRIPTION = `crash-atomic remote persistent memory: command, library, emulator
Perdure turns a DPU with an NVDIMM into remote persistent memory that is
crash-atomic: after a power cut at any moment every record is wholly the old
one or wholly the new one, and the new one if it was acknowledged.

This package has the command perdure, the driver for programs in Node, and an
emulator that runs the firmware of a card on any machine. What serves on a
card is in perdured-linux, or in the package of the card.`

/** Name of the package's file. */
export function commandPackageName(architecture: Architecture, version: string): string {
  return `perdure_${version}_${NAMES[architecture].debian}.deb`
}

/** Where Debian's Node looks for modules that have something compiled in them. */
export function libraryFolder(architecture: Architecture): string {
  return `usr/lib/${NAMES[architecture].triplet}/nodejs/perdure`
}

function manifestOf(root: string): Manifest {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
}

/** Everything that is packed. Throws a Trouble where something is not built or not installed. */
export function commandPackage(architecture: Architecture, sources: Sources): PackageContents {
  const { root } = sources
  const manifest = manifestOf(root)
  const { version } = manifest
  const modules = modulesOf(root)
  const parts = partsOf(root)
  const home = libraryFolder(architecture)
  return {
    control: {
      Package: 'perdure',
      Version: version,
      Architecture: NAMES[architecture].debian,
      Maintainer: MAINTAINER,
      Section: 'net',
      Priority: 'optional',
      // Of the module for serial lines; glibc 2.28 is what it was linked with.
      Depends: 'nodejs (>= 20.19), libc6 (>= 2.28), libstdc++6',
      Suggests: 'perdured, wireshark',
      // As modules of Node are called in Debian.
      Provides: `node-perdure (= ${version})`,
      Description: DESCRIPTION,
    },
    files: [
      { path: 'usr/bin/perdure', content: linkTo(home), isLink: true },
      { path: `${home}/package.json`, content: shortManifest(manifest) },
      ...productFiles(sources, home),
      ...modules.flatMap((module) => filesOf(root, module, home, NAMES[architecture].node)),
      ...completionFiles(sources.program),
      ...manualFiles(manualOf(sources.program, version)),
      changelogFile('perdure', version, 'CHANGELOG.md'),
      ...pageFiles(root),
      { path: `${DOC}/copyright`, content: copyright(root, parts) },
      { path: `${DOC}/sbom.cdx.json`, content: bill(root, version, parts) },
    ],
    scripts: {},
  }
}

/** From /usr/bin to the program. */
function linkTo(home: string): string {
  return `../${home.replace(/^usr\//, '')}/dist/perdure.js`
}

function shortManifest(manifest: Manifest): string {
  const kept = FIELDS.map((field) => [field, manifest[field]] as const)
  return `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`
}

/** A program as it is packed: Debian's Node runs it, and no map lies beside it. */
function packedProgram(text: string): string {
  const started = text.replace(/^#!\/usr\/bin\/env node$/m, '#!/usr/bin/node')
  return started.replace(/^\/\/# sourceMappingURL=.*\n?/m, '')
}

function productFiles({ root, types }: Sources, home: string): PackageFile[] {
  const dist = join(root, 'dist')
  const names = readdirSync(dist)
    .filter((name) => PRODUCTS.test(name))
    .sort()
  const products = names.map((name) => ({
    path: `${home}/dist/${name}`,
    content: packedProgram(readFileSync(join(dist, name), 'utf8')),
    executable: name === 'perdure.js',
  }))
  const declared = readdirSync(types, { recursive: true, encoding: 'utf8' })
  const declarations = declared.filter((name) => name.endsWith('.d.ts')).sort()
  return [
    ...products,
    ...declarations.map((name) => ({
      path: `${home}/dist/types/${name}`,
      content: readFileSync(join(types, name)),
    })),
  ]
}

function filesOf(root: string, module: Module, home: string, processor: Processor): PackageFile[] {
  return moduleFiles(root, module, processor).map((file) => ({
    path: `${home}/${module.path}/${file}`,
    content: readFileSync(join(root, module.path, file)),
  }))
}

/** Where each shell looks for what packages bring. */
function completionFiles(program: Command): PackageFile[] {
  const tree = wordsOf(program)
  return [
    { path: 'usr/share/bash-completion/completions/perdure', content: bashScript(tree) },
    { path: 'usr/share/zsh/vendor-completions/_perdure', content: zshScript(tree) },
    { path: 'usr/share/fish/vendor_completions.d/perdure.fish', content: fishScript(tree) },
  ]
}

/** Folders whose pages and examples come along, where they link to each other. */
const OF_PAGES = ['boards', 'firmware', 'host-driver'] as const

function pageFiles(root: string): PackageFile[] {
  const below = OF_PAGES.flatMap((folder) => {
    const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    return names.map((name) => `${folder}/${name}`)
  })
  const isPage = (path: string): boolean =>
    path.endsWith('.md') || /^host-driver\/examples\/.*\.mjs$/.test(path)
  const pages = ['README.md', 'CHANGELOG.md', 'SECURITY.md', ...below.filter(isPage).sort()]
  return pages.map((path) => ({
    path: `${DOC}/${path}`,
    content: readFileSync(join(root, path)),
  }))
}

/** A text as a field of a control file goes on: blank lines are a dot. */
function continued(text: string): string {
  const lines = text.split('\n').map((line) => line.trimEnd())
  return lines.map((line) => (line === '' ? ' .' : ` ${line}`)).join('\n')
}

/** As Debian's machine-readable format 1.0 has it: ours, and each module with its own text. */
function copyright(root: string, parts: readonly Part[]): string {
  const own = [
    'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/',
    'Upstream-Name: perdure',
    '',
    'Files: *',
    'Copyright: 2026 the authors of Perdure',
    'License: Apache-2.0',
    ' On Debian the text is in /usr/share/common-licenses/Apache-2.0.',
  ]
  const others = parts.map(({ module, files }) => {
    const text = licenceText(root, module)
    const holder = /^\s*(copyright.*)$/im.exec(text)?.[1]?.trim() ?? `authors of ${module.name}`
    const where = `Files: usr/lib/*/nodejs/perdure/${files}`
    return `\n${where}\nCopyright: ${holder}\nLicense: ${module.licence}\n${continued(text)}`
  })
  return `${own.join('\n')}\n${others.join('\n')}\n`
}

function bill(root: string, version: string, parts: readonly Part[]): string {
  const components: Component[] = parts.map(({ module }) => ({
    ...{ type: 'library', name: module.name, version: module.version },
    purl: `pkg:npm/${module.name.replace('@', '%40')}@${module.version}`,
    licenses: [{ license: { id: module.licence } }],
    hashes: [
      { alg: 'SHA-512', content: Buffer.from(module.sha512, 'base64').toString('hex') } as const,
    ],
  }))
  // A module may be there in two places; it is a part once.
  const once = new Map(components.map((part) => [part.purl!, part]))
  const { dependencies } = manifestOf(root) as unknown as { dependencies: object }
  for (const name of Object.keys(dependencies)) {
    if (![...once.values()].some((part) => part.name === name)) {
      throw new Error(`${name} is no part of the package`)
    }
  }
  return billText('perdure', version, [...once.values()])
}
