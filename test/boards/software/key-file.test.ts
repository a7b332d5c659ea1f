/** Files of private keys: who may read them, what they hold, and where they lie. */

import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { clientKeyPath, readKeyFile, writeKeyFile } from '../../../boards/software/key-file.ts'
import { createKeyPair, KeyError, type KeyFault, keyText } from '../../../boards/software/keys.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-key-file-'))
const at = (name: string): string => join(folder, name)
const mode = (name: string): number => statSync(at(name)).mode & 0o777
const { secret } = createKeyPair()
const TEXT = keyText(secret)

afterAll(() => rmSync(folder, { recursive: true }))
afterEach(() => vi.unstubAllEnvs())

function faultOf(work: () => unknown): [KeyFault, string] {
  try {
    work()
  } catch (error) {
    expect(error).toBeInstanceOf(KeyError)
    const { code, message } = error as KeyError
    expect(message).not.toContain(TEXT)
    return [code, message]
  }
  throw new Error('it went well')
}

/** A file of mode 0600 with that text. */
function fileOf(text: string): string {
  const path = at('given')
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

describe('a private key is written', () => {
  test('for its owner alone, and so are the folders that are made', () => {
    writeKeyFile(at('a/b/key'), secret)
    expect(readFileSync(at('a/b/key'), 'utf8')).toBe(`${TEXT}\n`)
    expect(['a', 'a/b', 'a/b/key'].map(mode)).toEqual([0o700, 0o700, 0o600])
    expect(readKeyFile(at('a/b/key'))).toEqual(secret)
  })

  test('into a folder that is there, which stays as it is', () => {
    mkdirSync(at('open'))
    chmodSync(at('open'), 0o755)
    writeKeyFile(at('open/key'), secret)
    expect([mode('open'), mode('open/key')]).toEqual([0o755, 0o600])
  })

  test('over nothing: neither a file, nor a folder, nor a link to nothing', () => {
    writeFileSync(at('old'), 'what was there')
    symlinkSync('nowhere', at('link'))
    for (const name of ['old', 'a', 'link']) {
      const [code, message] = faultOf(() => writeKeyFile(at(name), secret))
      expect(code).toBe('KEY_FILE_EXISTS')
      expect(message).toContain(`${at(name)} is there already`)
    }
    expect(readFileSync(at('old'), 'utf8')).toBe('what was there')
    expect(lstatSync(at('link')).isSymbolicLink()).toBe(true)
    expect(existsSync(at('nowhere'))).toBe(false)
  })

  test('nowhere where its folder cannot be made', () => {
    expect(() => writeKeyFile(at('old/key'), secret)).toThrow(/EEXIST/)
    expect(readdirSync(folder).sort()).toEqual(['a', 'link', 'old', 'open'])
  })
})

describe('a private key is read', () => {
  test.each([
    ['alone', TEXT],
    ['with comments and blank lines around it', `# of this machine\n\n  # kept\n${TEXT}\n\n#\n`],
    ['in upper case, between blanks', `\t${TEXT.toUpperCase()}  \n`],
    ['with ends of lines of another system', `# a\r\n${TEXT}\r\n`],
  ])('%s', (_, text) => {
    expect(readKeyFile(fileOf(text))).toEqual(secret)
  })

  test.each([
    ['nothing', ''],
    ['a comment', `# ${TEXT}`],
    ['two keys', `${TEXT}\n${TEXT}\n`],
    ['a key and more in its line', `${TEXT} mine\n`],
    ['a key that is cut short', TEXT.slice(1)],
    ['what is no text', '\u0000\ufffd'],
    ['more than such a file has', `${TEXT}\n${'#'.repeat(4096)}`],
  ])('not where a file has %s', (_, text) => {
    const [code, message] = faultOf(() => readKeyFile(fileOf(text)))
    expect([code, message]).toEqual(['KEY_FILE', expect.stringContaining(at('given'))])
    expect(message).toContain("'perdure key new'")
  })

  test('not of a folder', () => {
    expect(faultOf(() => readKeyFile(folder))[0]).toBe('KEY_FILE')
  })

  test('and where nothing is, the system says so of that path', () => {
    expect(() => readKeyFile(at('none'))).toThrow(expect.objectContaining({ path: at('none') }))
  })

  test('by its mode: never where group or others may read, whoever asks', () => {
    const path = fileOf(TEXT)
    for (let bits = 0; bits < 0o100; bits++) {
      chmodSync(path, 0o600 | bits)
      if ((bits & 0o44) === 0) {
        expect(readKeyFile(path), bits.toString(8)).toEqual(secret)
        continue
      }
      const [code, message] = faultOf(() => readKeyFile(path))
      expect([code, bits]).toEqual(['KEY_FILE_MODE', bits])
      expect(message).toContain(`chmod 600 ${path}`)
    }
  })
})

describe('the key of a client lies', () => {
  test('where PERDURE_KEY says, else below XDG_CONFIG_HOME, else below the home', () => {
    vi.stubEnv('PERDURE_KEY', '/x/own')
    vi.stubEnv('XDG_CONFIG_HOME', '/y')
    expect(clientKeyPath()).toBe('/x/own')
    vi.stubEnv('PERDURE_KEY', '')
    expect(clientKeyPath()).toBe('/y/perdure/key')
    vi.stubEnv('PERDURE_KEY', undefined)
    expect(clientKeyPath()).toBe('/y/perdure/key')
    vi.stubEnv('XDG_CONFIG_HOME', '')
    expect(clientKeyPath()).toBe(join(homedir(), '.config/perdure/key'))
  })
})
