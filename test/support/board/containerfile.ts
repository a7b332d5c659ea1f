/** Containerfiles as these tests read them: what is copied from where, and what is run. */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isThere } from '../../../boards/tools/debian/programs.ts'
import { ROOT } from '../source/sources.ts'

interface Containerfile {
  readonly from: string
  /** Names of arguments, with their defaults; null: it has to be said. */
  readonly args: ReadonlyMap<string, string | null>
  /** From the root of the repository, to where in the image. */
  readonly copies: readonly { readonly from: string; readonly to: string }[]
  readonly folder: string
  /** What is run: the words of ENTRYPOINT and CMD. */
  readonly runs: readonly string[]
}

/** Reads the file at that path, with these arguments. Throws for an instruction that it lacks. */
export function containerfile(path: string, said: Readonly<Record<string, string>>): Containerfile {
  const lines = readFileSync(join(ROOT, path), 'utf8').split('\n')
  const args = new Map<string, string | null>()
  const copies: { from: string; to: string }[] = []
  const words: Record<string, string> = {}
  const filled = (text: string): string =>
    text.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => said[name] ?? args.get(name) ?? '')
  for (const line of lines.filter((text) => /^[A-Z]/.test(text))) {
    const [, instruction, rest] = /^([A-Z]+) (.*)$/.exec(line)!
    const [first, second] = filled(rest!).split(' ')
    if (instruction === 'ARG') args.set(first!.split('=')[0]!, first!.split('=')[1] ?? null)
    else if (instruction === 'COPY' || instruction === 'ADD') {
      copies.push({ from: first!, to: second! })
    } else words[instruction!] = filled(rest!)
  }
  const runs = [words.ENTRYPOINT!, words.CMD ?? '[]'].flatMap(
    (text) => JSON.parse(text) as string[],
  )
  return { from: words.FROM!, args, copies, folder: words.WORKDIR!, runs }
}

/** What builds images here, and is able to; null: nothing is. */
export function builder(): string | null {
  if (isThere('buildah')) return 'buildah'
  const engines = ['podman', 'docker'].filter(isThere)
  return engines.find((name) => spawnSync(name, ['info']).status === 0) ?? null
}
