/**
 * `perdure image`: keys, images, what is said of them, and what is refused. The same input makes
 * the same bytes, on every machine with the same Node.
 */

import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { findBundle } from '../../boards/emulator/run/bundle.ts'
import { IMAGE_BYTES_MAX } from '../../boards/flash/mcuboot.ts'
import { type Run, runIn } from '../support/command/command.ts'
import { THOROUGH } from '../support/run/thorough.ts'
import { ROOT } from '../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-image-'))
afterAll(() => rmSync(folder, { recursive: true }))

const at = (name: string): string => join(folder, name)

/** Runs `perdure image …`, with a home of its own. */
async function image(line: string): Promise<Run> {
  return await runIn(folder, ['image', ...line.split(' ')], { HOME: folder })
}

/** The one JSON object that it prints. */
async function told(line: string): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await image(`${line} --json`)
  expect({ code, lines: stdout.split('\n').length }, stderr).toEqual({ code: 0, lines: 2 })
  return JSON.parse(stdout) as Record<string, unknown>
}

writeFileSync(at('bundle.js'), 'var perdure = {}')
writeFileSync(at('perdured'), Buffer.alloc(5000, 7))
const OWN = '--bundle bundle.js --image-version 1.2.3+4'

describe('perdure image', () => {
  test('keygen makes a key for its owner alone, and over nothing', async () => {
    const made = await told('keygen a.pem')
    expect(made).toEqual({
      keyHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      privateKey: 'a.pem',
      publicKey: 'a.pub.pem',
    })
    expect(statSync(at('a.pem')).mode & 0o777).toBe(0o600)
    expect(readFileSync(at('a.pub.pem'), 'utf8')).toMatch(/^-----BEGIN PUBLIC KEY-----\n/)
    const before = readFileSync(at('a.pem'))
    const again = await image('keygen a.pem')
    expect(again).toMatchObject({ code: 65, stdout: '' })
    expect(again.stderr).toContain('a.pem: it is there already (EEXIST)')
    // Nor where only the public one is there: no half of a pair is left.
    rmSync(at('a.pem'))
    expect((await image('keygen a.pem')).code).toBe(65)
    expect(readdirSync(folder)).not.toContain('a.pem')
    writeFileSync(at('a.pem'), before)
  })

  test('create makes the same bytes of the same input, with every part inside', async () => {
    await told('keygen b.pem')
    const create = `create ${OWN} --board linux-x86-64 --signing-key b.pem --counter 9`
    const made = await told(`${create} --runtime perdured --out one.bin`)
    expect(made).toMatchObject({
      ...{ file: 'one.bin', version: '1.2.3+4', counter: 9, targets: ['linux-x86-64'] },
      parts: [
        { kind: 'bundle', pack: 'none', size: 16 },
        { kind: 'signature', size: 64 },
        { kind: 'runtime', pack: 'brotli', size: 5000 },
      ],
    })
    await told(`${create} --runtime perdured --out two.bin`)
    expect(readFileSync(at('two.bin'))).toEqual(readFileSync(at('one.bin')))
    expect(await told('inspect one.bin')).toEqual(made)
    expect(await told('verify one.bin --trust a.pub.pem --trust b.pub.pem')).toEqual(made)
    expect(readdirSync(folder).filter((name) => name.startsWith('.perdure-'))).toEqual([])
  })

  test('create writes through a link, keeps the mode, and writes a device as it is', async () => {
    await told('keygen link.pem')
    writeFileSync(at('kept.bin'), 'old', { mode: 0o640 })
    symlinkSync('kept.bin', at('link.bin'))
    const create = `create ${OWN} --board emulator --signing-key link.pem`
    const made = await told(`${create} --out link.bin`)
    expect(lstatSync(at('link.bin')).isSymbolicLink()).toBe(true)
    expect(statSync(at('kept.bin')).mode & 0o777).toBe(0o640)
    expect(await told('inspect kept.bin')).toEqual({ ...made, file: 'kept.bin' })
    expect(await told(`${create} --out /dev/null`)).toEqual({ ...made, file: '/dev/null' })
    expect(statSync('/dev/null').isCharacterDevice()).toBe(true)
  })

  test('create takes the bundle of the package, its version, and a key of one’s own', async () => {
    const made = await image('create --board emulator')
    expect(made).toMatchObject({ code: 0 })
    expect(made.stderr).toMatch(/^signed by \S+development-key\.pem: a card trusts it once /)
    const key = at('.config/perdure/development-key.pem')
    expect(statSync(key).mode & 0o777).toBe(0o600)
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      version: string
    }
    const file = `perdure-${version}-emulator.bin`
    const trust = key.replace(/\.pem$/, '.pub.pem')
    const said = await image(`verify ${file} --trust ${trust}`)
    expect(said).toMatchObject({ code: 0, stdout: made.stdout, stderr: '' })
    expect(said.stdout).toMatch(new RegExp(`^image +${version} +[0-9a-f]{12}\n`))
    // The key stays the same, so the image does.
    const before = readFileSync(at(file))
    expect((await image('create --board emulator')).code).toBe(0)
    expect(readFileSync(at(file))).toEqual(before)
  })

  test('create takes the runtime that was built of its bundle, unless told otherwise', async () => {
    await told('keygen built.pem')
    const key = 'create --board linux-x86-64 --signing-key built.pem'
    const both = await image(`${key} --bundle-only --runtime perdured`)
    expect(both).toMatchObject({ code: 64, stdout: '' })
    expect(both.stderr).toContain('say one of them')
    const alone = await told(`${key} --bundle-only --out alone.bin`)
    const kinds = (made: Record<string, unknown>): string[] => {
      return (made.parts as { kind: string }[]).map(({ kind }) => kind)
    }
    expect(kinds(alone)).toEqual(['bundle', 'signature'])
    // That of another bundle would interpret this one.
    expect(kinds(await told(`${key} --bundle bundle.js --out other.bin`))).toEqual(kinds(alone))
  })

  test('and has it inside, as it was built', THOROUGH, async (context) => {
    const built = join(ROOT, 'dist/linux/x86-64/perdured')
    const hash = createHash('sha256').update(findBundle().source).digest('hex')
    const isOf = existsSync(built) && readFileSync(built).includes(hash)
    context.skip(!isOf, 'the board is not built of this bundle')
    await told('keygen whole.pem')
    const key = '--signing-key whole.pem'
    const made = await image(`create --board linux-x86-64 ${key} --out whole.bin`)
    expect(made.stderr).toBe(`runtime ${built}\n`)
    const { parts } = await told('inspect whole.bin')
    expect(parts).toContainEqual(
      expect.objectContaining({ kind: 'runtime', size: statSync(built).size }),
    )
  })

  test('create refuses what no slot holds', THOROUGH, async () => {
    writeFileSync(at('large.js'), randomBytes(IMAGE_BYTES_MAX))
    const { code, stderr } = await image(
      'create --board emulator --bundle large.js --out large.bin',
    )
    expect(code).toBe(65)
    expect(stderr).toContain('and a slot 16777216: give a smaller bundle')
    expect(readdirSync(folder)).not.toContain('large.bin')
  })

  test('create without a runtime says for which card that is slow', async () => {
    const bare = `create ${OWN} --signing-key b.pem --out bare.bin`
    expect((await image(`${bare} --board bluefield3`)).stderr).toMatch(
      /^no runtime inside: .*--arch arm64'/s,
    )
    expect((await image(`${bare} --board emulator`)).stderr).toBe('')
  })

  test('verify refuses what another has signed, and what is damaged, with what to do', async () => {
    const other = await image('verify one.bin --trust a.pub.pem')
    expect(other).toMatchObject({ code: 65, stdout: '' })
    expect(other.stderr).toMatch(/^perdure: one\.bin: signed by the key [0-9a-f]{12}, which is not/)
    expect(other.stderr).toContain('Say --trust with the key')
    const bytes = readFileSync(at('one.bin'))
    bytes[200]! ^= 1
    writeFileSync(at('damaged.bin'), bytes)
    for (const line of ['inspect damaged.bin', 'verify damaged.bin --trust b.pub.pem']) {
      const refused = await image(line)
      expect(refused).toMatchObject({ code: 65, stdout: '' })
      expect(refused.stderr).toContain('damaged.bin: its SHA-256 differs from what it says')
      expect(refused.stderr).toContain('Fetch it again')
    }
    const json = JSON.parse((await image('inspect damaged.bin --json')).stderr) as object
    expect(json).toMatchObject({ error: { code: 'IMAGE_HASH' } })
  })

  test('a key of another kind is refused', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    writeFileSync(at('ec.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }))
    const refused = await image(`create ${OWN} --board emulator --signing-key ec.pem`)
    expect(refused).toMatchObject({ code: 65, stdout: '' })
    expect(refused.stderr).toContain('ec.pem: it is a key of ec, and Ed25519 is needed')
  })
})
