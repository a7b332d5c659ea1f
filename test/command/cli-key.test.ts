/** `perdure key`: a key pair is made and shown, and its private half is its owner's alone. */

import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parsePeers } from '../../boards/software/peers.ts'
import { PLAIN, type Run, runIn } from '../support/command/command.ts'
import { ROOT } from '../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-key-'))
afterAll(() => rmSync(folder, { recursive: true }))

const at = (...names: string[]): string => join(folder, ...names)
const mode = (name: string): number => statSync(at(name)).mode & 0o777

/** RFC 7748 6.1. */
const ALICE = '77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a'
const ALICE_PUBLIC = '8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a'

/** Runs `perdure key …`, with a home of its own. */
async function key(line: string, env: NodeJS.ProcessEnv = {}): Promise<Run> {
  return await runIn(folder, ['key', ...line.split(' ')], { HOME: folder, ...env })
}

/** Everything below the folder, links and folders as well. */
const names = (): string[] => readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()

describe('perdure key new', () => {
  test('prints the public key alone, and says what to do with both', async () => {
    const { code, stdout, stderr } = await key('new --out own.key')
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^[0-9a-f]{64}\n$/) })
    const secret = readFileSync(at('own.key'), 'utf8')
    expect(secret).toMatch(/^[0-9a-f]{64}\n$/)
    expect(secret).not.toBe(stdout)
    expect(stderr).not.toContain(secret.trim())
    expect(stderr).toContain('own.key has the private key: keep it')
    // The line that it shows is one that a card takes.
    const line = stderr.split('\n').find((one) => one.startsWith(stdout.trim()))
    expect(parsePeers(line!, 'peers')).toMatchObject([{ name: 'NAME', admin: true }])
    expect(await key('show own.key')).toEqual({ code: 0, stdout, stderr: '' })
  })

  test('makes file and folders for their owner alone, where the umask forbids nothing', () => {
    const command = [process.execPath, join(ROOT, 'dist/perdure.js'), 'key', 'new']
    const args = ['-c', 'umask 0 && exec "$@"', 'sh', ...command, '--out', 'far/off/key']
    const options = { cwd: folder, env: PLAIN, encoding: 'utf8' } as const
    expect(spawnSync('sh', args, options).status).toBe(0)
    expect(['far', 'far/off', 'far/off/key'].map(mode)).toEqual([0o700, 0o700, 0o600])
  })

  test('says with --json where the private key is, and no more', async () => {
    const { code, stdout, stderr } = await key('new --out told.key --json')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const told = JSON.parse(stdout) as { publicKey: string }
    const publicKey = expect.stringMatching(/^[0-9a-f]{64}$/)
    expect(told).toEqual({ publicKey, privateKey: 'told.key' })
    expect((await key('show told.key')).stdout).toBe(`${told.publicKey}\n`)
    expect(JSON.parse((await key('show told.key --json')).stdout)).toEqual(told)
  })

  test('overwrites nothing, with --json neither', async () => {
    writeFileSync(at('kept'), 'what was there')
    const before = names()
    const { code, stdout, stderr } = await key('new --out kept')
    expect({ code, stdout }).toEqual({ code: 65, stdout: '' })
    const next = "See its public half by 'perdure key show', or name another file."
    const words = `kept is there already, and a key is never overwritten. ${next}`
    expect(stderr).toBe(`perdure: ${words}\n`)
    const json = await key('new --out kept --json')
    expect(json).toMatchObject({ code: 65, stdout: '' })
    expect(JSON.parse(json.stderr)).toEqual({ error: { code: 'KEY_FILE_EXISTS', message: words } })
    expect(readFileSync(at('kept'), 'utf8')).toBe('what was there')
    expect(names()).toEqual(before)
  })
})

describe('perdure key show', () => {
  test('prints the public key of RFC 7748 for its private one, and changes nothing', async () => {
    writeFileSync(at('alice'), `# from section 6.1\n\n${ALICE.toUpperCase()}\n`, { mode: 0o400 })
    const shown = { code: 0, stdout: `${ALICE_PUBLIC}\n`, stderr: '' }
    expect(await key('show alice')).toEqual(shown)
    expect(mode('alice')).toBe(0o400)
  })

  test('refuses a file that others may read, and shows nothing of it', async () => {
    writeFileSync(at('shared'), ALICE)
    chmodSync(at('shared'), 0o604)
    const refused = await key('show shared')
    expect(refused).toMatchObject({ code: 65, stdout: '' })
    expect(refused.stderr).toMatch(/^perdure: shared: others may read [^\n]+ chmod 600 shared\n$/)
    chmodSync(at('shared'), 0o600)
    expect((await key('show shared')).stdout).toBe(`${ALICE_PUBLIC}\n`)
  })
})

describe('without a file the key is', () => {
  test.each([
    ['where PERDURE_KEY says', { PERDURE_KEY: 'by/name', XDG_CONFIG_HOME: at('x') }, 'by/name'],
    ['below XDG_CONFIG_HOME', { PERDURE_KEY: '', XDG_CONFIG_HOME: at('x') }, 'x/perdure/key'],
    ['below the home', { XDG_CONFIG_HOME: '' }, '.config/perdure/key'],
  ])('%s, for both commands', async (_, env, file) => {
    const none = await key('show', env)
    expect(none).toMatchObject({ code: 66, stdout: '' })
    expect(none.stderr).toContain(`${file}: it is not there (ENOENT). 'perdure key new' makes one.`)
    const { code, stdout, stderr } = await key('new', env)
    expect({ code, mode: mode(file) }, stderr).toEqual({ code: 0, mode: 0o600 })
    expect(await key('show', env)).toEqual({ code: 0, stdout, stderr: '' })
    // A second one would lock out who has the first.
    expect(await key('new', env)).toMatchObject({ code: 65, stdout: '' })
    expect((await key('show', env)).stdout).toBe(stdout)
  })

  test('in a folder that is there, which keeps its mode', async () => {
    mkdirSync(at('config'))
    chmodSync(at('config'), 0o755)
    expect((await key('new', { XDG_CONFIG_HOME: at('config') })).code).toBe(0)
    expect([mode('config'), mode('config/perdure')]).toEqual([0o755, 0o700])
  })
})
