/**
 * What we need of Debian: programs of this machine, and packages that are only unpacked.
 *
 * Invariants:
 * - Packages that are unpacked come from the Debian mirror that this machine uses already, or from
 *   the one that `DEBIAN_MIRROR` names, and are checked against Debian's keys. Nothing of that
 *   enters the machine's own package lists: apt gets a configuration of its own.
 * - Only what is missing is installed. Where something cannot be had, the message says what it is
 *   and which command brings it.
 */

import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isThere, Missing, run, Trouble } from './programs.ts'

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'

/** What has to be on this machine, each with the package that brings it. */
export interface Needs {
  readonly programs: Readonly<Record<string, string>>
  /** Paths, for what has no program: the C library's headers. */
  readonly files?: Readonly<Record<string, string>>
  /** What to do on a machine that is no Debian. */
  readonly elsewhere: string
}

/** What of it is missing, and the command that installs that; null if everything is there. */
export function missing(needs: Needs): {
  readonly what: string
  readonly packages: readonly string[]
  readonly command: string
} | null {
  const programs = Object.entries(needs.programs).filter(([program]) => !isThere(program))
  const files = Object.entries(needs.files ?? {}).filter(([path]) => !existsSync(path))
  const all = [...programs, ...files]
  if (all.length === 0) return null
  const packages = [...new Set(all.map(([, name]) => name))]
  const what = all.map(([name]) => name).join(', ')
  return {
    what,
    packages,
    command: `apt-get install --no-install-recommends ${packages.join(' ')}`,
  }
}

/**
 * Sees to it that everything is there. With `install` it installs what is not; otherwise, and where
 * that cannot be, it throws a Missing that says how to get it.
 */
export function need(
  needs: Needs,
  how: { readonly install: boolean; readonly say: (line: string) => void },
): void {
  const lack = missing(needs)
  if (lack === null) return
  const { what, packages, command } = lack
  if (!isThere('apt-get')) {
    throw new Missing(
      `${what}: not on this machine, and there is no apt to install it with.\n` +
        `On Debian or Ubuntu: ${command}\n` +
        `Elsewhere: ${needs.elsewhere}`,
    )
  }
  if (!how.install) throw new Missing(`${what}: missing. This installs it: ${command}`)
  const asRoot = rootPrefix()
  if (asRoot === null) throw new Missing(`${what}: missing, and only root may do: ${command}`)
  how.say(`installing ${packages.join(', ')}`)
  const env = { DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args: string[]): void => {
    const [program, ...rest] = [...asRoot, 'apt-get', ...args]
    run(program!, rest, { env })
  }
  // A source that cannot be reached need not be the one that matters: installing will tell.
  attempt(() => apt('update', '-qq'))
  fetching(() => apt('install', '-y', '-qq', '--no-install-recommends', ...packages))
}

/** Does what asks a mirror. Where that cannot be reached, or has it not, it throws a Missing. */
function fetching<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof Trouble) throw new Missing(error.message)
    throw error
  }
}

/** Does what may fail, and returns what it said then. */
export function attempt(work: () => void): string | null {
  try {
    work()
    return null
  } catch (error) {
    if (!(error instanceof Trouble)) throw error
    return error.message
  }
}

/** What stands before a command that only root may run, or null where that cannot be. */
function rootPrefix(): string[] | null {
  if (process.getuid?.() === 0) return []
  return isThere('sudo') ? ['sudo', '-n', '-E'] : null
}

/** Runs a program of apt, in a folder, and returns what it printed. */
export type Apt = (program: string, args: readonly string[], cwd?: string) => string

interface Distribution {
  /** As 'trixie'. */
  readonly release: string
  /** As Debian calls it: 'amd64', 'arm64'. */
  readonly architecture: string
}

/**
 * apt with lists, cache and sources of its own; how it reaches the mirror stays the machine's.
 * Where apt fails, it throws a Missing.
 */
export function privateApt(folder: string, { release, architecture }: Distribution): Apt {
  const at = (name: string): string => join(folder, name)
  mkdirSync(at('lists/partial'), { recursive: true })
  mkdirSync(at('archives/partial'), { recursive: true })
  const signed = existsSync(KEYRING) ? `[signed-by=${KEYRING}] ` : ''
  const place = `${signed}${mirror()} ${release} main`
  writeFileSync(at('sources.list'), `deb ${place}\ndeb-src ${place}\n`)
  writeFileSync(at('status'), '')
  const options = [
    `Dir::Etc::sourcelist=${at('sources.list')}`,
    'Dir::Etc::sourceparts=/dev/null',
    'Dir::Etc::preferences=/dev/null',
    'Dir::Etc::preferencesparts=/dev/null',
    `Dir::State::lists=${at('lists')}`,
    `Dir::State::status=${at('status')}`,
    `Dir::Cache=${folder}`,
    `APT::Architecture=${architecture}`,
    `APT::Architectures=${architecture}`,
    'APT::Sandbox::User=',
    'Acquire::Languages=none',
    'Acquire::Retries=3',
  ].flatMap((option) => ['-o', option])
  return (program, args, cwd = folder) =>
    fetching(() => run(program, [...options, ...args], { cwd }).toString())
}

/** The mirror of Debian's main archive that this machine's own sources name. */
function mirror(): string {
  const named = process.env.DEBIAN_MIRROR
  if (named !== undefined && named !== '') return named
  const format = '$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(CREATED_BY)|$(REPO_URI)'
  for (const again of [false, true]) {
    const asRoot = rootPrefix()
    if (again && asRoot !== null) {
      const [program, ...rest] = [...asRoot, 'apt-get', 'update', '-qq']
      attempt(() => void run(program!, rest))
    }
    const lines = run('apt-get', ['indextargets', '--format', format]).toString().split('\n')
    const fields = lines.map((line) => line.split('|'))
    const found = fields.find(
      ([origin, label, component, kind]) =>
        origin === 'Debian' && label === 'Debian' && component === 'main' && kind === 'Packages',
    )
    if (found?.[4] !== undefined) return found[4]
  }
  throw new Missing(
    'no Debian mirror is among the sources of apt. Name one in the environment: ' +
      'DEBIAN_MIRROR=http://…',
  )
}
