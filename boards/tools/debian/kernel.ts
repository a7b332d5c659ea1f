/**
 * A kernel of Debian's, and of its modules those that a small machine needs.
 *
 * Invariant: the modules are Debian's, bit for bit, each behind those that it depends on.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Apt } from './apt.ts'
import type { Entry } from './cpio.ts'
import { run, Trouble } from './programs.ts'

/** The package of the kernel itself, which `name`, as 'linux-image-amd64', depends on today. */
export function kernelPackage(apt: Apt, name: string): string {
  const depends = apt('apt-cache', ['depends', '--important', name])
  const found = /Depends: (linux-image-\S+)/.exec(depends)?.[1]
  if (found === undefined) throw new Trouble(`${name} names no kernel`)
  return found
}

/** The only kernel among the packages that were unpacked at `root`, as '6.12.1+deb13-amd64'. */
export function kernelVersion(root: string): string {
  const folder = join(root, 'usr/lib/modules')
  const [version, ...more] = readdirSync(folder)
  if (version === undefined || more.length > 0) throw new Trouble(`${folder}: not one entry`)
  return version
}

/** Every module that is there: its name, with '_' as the kernel says it, and where it is. */
function modulePaths(folder: string): Map<string, string> {
  const paths = new Map<string, string>()
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) {
      for (const [name, at] of modulePaths(path)) paths.set(name, at)
    } else if (entry.name.includes('.ko')) {
      const name = basename(entry.name).replace(/\.ko.*$/, '')
      paths.set(name.replaceAll('-', '_'), path)
    }
  }
  return paths
}

/** Likewise with those that are built in, which have no file: null. */
function modulesOf(root: string): Map<string, string | null> {
  const folder = join(root, 'usr/lib/modules', kernelVersion(root))
  const builtIn = readFileSync(join(folder, 'modules.builtin'), 'utf8').trim().split('\n')
  const names = builtIn.map((path) => basename(path, '.ko').replaceAll('-', '_'))
  return new Map([
    ...names.map((name) => [name, null] as const),
    ...modulePaths(join(folder, 'kernel')),
  ])
}

/** Whether the kernel that was unpacked at `root` has that module, in a file or built in. */
export function hasModule(root: string, name: string): boolean {
  return modulesOf(root).has(name)
}

/**
 * Entries of a first root: `modules/NAME.ko` for the modules and what they need, unpacked, and
 * `modules/order`, a name a line, in which they go in. One that is built in needs no entry. Throws
 * a Trouble for one that is not there.
 */
export function moduleEntries(root: string, names: readonly string[]): Entry[] {
  const paths = modulesOf(root)
  const found = new Map<string, Uint8Array>()
  const add = (name: string): void => {
    if (found.has(name)) return
    const path = paths.get(name)
    if (path === undefined) {
      throw new Trouble(`the kernel ${kernelVersion(root)} has no module ${name}`)
    }
    if (path === null) return
    const content = path.endsWith('.xz') ? run('xz', ['-dc', path]) : readFileSync(path)
    const depends = /\0depends=([^\0]*)\0/.exec(content.toString('latin1'))?.[1] ?? ''
    for (const other of depends.split(',')) if (other !== '') add(other.replaceAll('-', '_'))
    found.set(name, content)
  }
  for (const name of names) add(name)
  const order = Buffer.from([...found.keys()].join('\n'))
  const modules = [...found].map(([name, content]) => ({ path: `modules/${name}.ko`, content }))
  return [{ path: 'modules/order', content: order }, ...modules]
}
