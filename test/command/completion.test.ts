/**
 * `perdure completion SHELL`, asked by the shells themselves: what may stand at a place of the
 * command line. A shell that this machine does not have is skipped by name.
 */

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { runIn } from '../support/command/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-completion-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** What a shell is run with: the words of its command line stand behind the script. */
const ASKED: Readonly<Record<string, string>> = {
  bash: `
    source "$1"; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _perdure
    printf '%s\n' "\${COMPREPLY[@]}"`,
  zsh: `
    source "$1"; shift
    _describe() { local one; for one in "\${(@P)2}"; do print -r -- "\${one%%:*}"; done }
    _files() { print files }
    compadd() { shift; print -rl -- "$@" }
    words=("$@") CURRENT=$# PREFIX=$@[-1]
    _perdure`,
  fish: `
    source $argv[1]
    complete -C (string join ' ' -- $argv[2..-1]) | string replace -r '\\t.*' ''`,
}

/** What the shell offers at the end of these words. */
function offered(shell: string, script: string, words: readonly string[]): string[] {
  const file = join(folder, shell)
  writeFileSync(file, script)
  const args = shell === 'fish' ? ['-c', ASKED.fish!, '--'] : ['-c', ASKED[shell]!, shell]
  const { stdout, stderr } = spawnSync(shell, [...args, file, ...words], {
    ...{ cwd: folder, encoding: 'utf8' as const },
    env: { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
  })
  expect(stderr).toBe('')
  return stdout.split('\n').filter((line) => line !== '')
}

async function scriptFor(shell: string): Promise<string> {
  const { stdout, code } = await runIn(folder, ['completion', shell])
  expect(code).toBe(0)
  return stdout
}

for (const shell of Object.keys(ASKED)) {
  const isHere = spawnSync(shell, ['-c', 'true']).status === 0
  describe.skipIf(!isHere)(`in ${shell}${isHere ? '' : ' (it is not here)'}`, () => {
    test('words of the command, its options, and the values of those that have few', async () => {
      const script = await scriptFor(shell)
      const at = (...words: string[]): string[] => offered(shell, script, ['perdure', ...words])
      const begins = (start: string, words: string[]): string[] => {
        return words.filter((word) => word.startsWith(start))
      }
      expect(begins('em', at('em'))).toEqual(['emulate'])
      expect(at('region', '').sort()).toEqual(['create', 'list', 'remove'])
      expect(at('emulate', '--engine', '').sort()).toEqual(['node', 'quickjs'])
      expect(begins('--cap', at('emulate', '--cap'))).toEqual(['--capture'])
      expect(begins('--raw', at('persist', 'card', '--raw'))).toEqual(['--raw'])
      expect(at('region', 'list', '--')).not.toContain('--capture')
    })

    test('a file where one may stand', async () => {
      const script = await scriptFor(shell)
      writeFileSync(join(folder, 'part.nvdimm'), '')
      for (const words of [
        ['inspect', 'part'],
        ['emulate', '--capture', 'part'],
      ]) {
        const found = offered(shell, script, ['perdure', ...words])
        // Nothing from a function of bash is its sign to complete files.
        expect(found).toEqual(shell === 'bash' ? [] : [shell === 'zsh' ? 'files' : 'part.nvdimm'])
      }
    })
  })
}

/** How a shell finds a script in a folder by itself, and what it is asked then. */
const FOUND: Readonly<Record<string, readonly [file: string, asked: string]>> = {
  zsh: [
    '_perdure',
    `
    fpath=("$1" $fpath); shift
    autoload -Uz _perdure
    _describe() { local one; for one in "\${(@P)2}"; do print -r -- "\${one%%:*}"; done }
    words=("$@") CURRENT=$# PREFIX=$@[-1]
    _perdure; print twice; _perdure`,
  ],
  fish: [
    'perdure.fish',
    `
    set -g fish_complete_path $argv[1]
    function perdure; end
    complete -C (string join ' ' -- $argv[2..-1]) | string replace -r '\\t.*' ''`,
  ],
}

for (const [shell, [file, asked]] of Object.entries(FOUND)) {
  const isHere = spawnSync(shell, ['-c', 'true']).status === 0
  test.skipIf(!isHere)(
    `in a folder of the system's ${shell} finds its script${isHere ? '' : ' (it is not here)'}`,
    async () => {
      const system = join(folder, `of-${shell}`)
      mkdirSync(system)
      writeFileSync(join(system, file), await scriptFor(shell))
      const words = [system, 'perdure', 'region', '']
      const args = shell === 'fish' ? ['-c', asked, '--'] : ['-c', asked, shell]
      const { stdout, stderr } = spawnSync(shell, [...args, ...words], {
        ...{ cwd: folder, encoding: 'utf8' as const },
        env: { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
      })
      expect(stderr).toBe('')
      const once = ['create', 'list', 'remove']
      const [first, second] = stdout.split('twice\n').map((text) => text.trim().split('\n').sort())
      expect(first).toEqual(once)
      if (shell === 'zsh') expect(second).toEqual(once)
    },
  )
}

describe('the scripts', () => {
  test.each(['emulate', 'persist', 'region create', 'image create', 'check'])(
    'have every option that the help of %s has',
    async (command) => {
      const { stdout: help } = await runIn(folder, [...command.split(' '), '--help'])
      const options = [...help.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, long]) => long!)
      expect(options.length).toBeGreaterThan(1)
      const script = await scriptFor('bash')
      const line = script.split('\n').find((one) => one.includes(`'perdure ${command}') words=`))!
      for (const option of options) expect(line.split(/[ ']/)).toContain(option)
    },
  )

  test('another shell is refused, and told which there are', async () => {
    const { code, stderr } = await runIn(folder, ['completion', 'csh'])
    expect(code).toBe(64)
    expect(stderr).toContain('bash, zsh, fish')
  })
})
