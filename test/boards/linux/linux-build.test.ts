/**
 * The native runtime as it is built: what comes with it, the signature of the bundle, and
 * what the build says where something is missing.
 */

import { spawnSync } from 'node:child_process'
import { createPublicKey, generateKeyPairSync, type KeyObject, verify } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { runtimeParts } from '../../../boards/linux/compile.ts'
import { halHeader } from '../../../boards/linux/hal-header.ts'
import { signBundle } from '../../../boards/linux/sign.ts'
import type { Architecture } from '../../../boards/linux/toolchain.ts'
import { missing, need } from '../../../boards/tools/debian/apt.ts'
import { placeFileOnce, placeFolderOnce } from '../../../boards/tools/debian/once.ts'
import { isThere, Trouble } from '../../../boards/tools/debian/programs.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { rowsOf } from '../../pages/markdown.ts'
import { OWN_ARCHITECTURE, perduredMissing, perduredPath } from '../../support/board/perdured.ts'
import { titled } from '../../support/native/harness.ts'
import { ROOT } from '../../support/source/sources.ts'

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

const folder = mkdtempSync(join(tmpdir(), 'perdure-build-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The first cells below that head of the page, which `node build.mjs doc` writes. */
function keysUnder(page: string, head: string): string[] {
  return rowsOf(read(page), head).map(([key]) => key!.replaceAll('`', ''))
}

/** Of a program of 64 bits, little-endian: its type, and its segments with their rights. */
function elfOf(path: string): { type: number; segments: { type: number; flags: number }[] } {
  const bytes = readFileSync(path)
  expect(bytes.subarray(0, 6)).toEqual(Buffer.from('\x7fELF\x02\x01', 'latin1'))
  const first = Number(bytes.readBigUInt64LE(32))
  const segments = Array.from({ length: bytes.readUInt16LE(56) }, (_, i) => {
    const at = first + i * bytes.readUInt16LE(54)
    return { type: bytes.readUInt32LE(at), flags: bytes.readUInt32LE(at + 4) }
  })
  return { type: bytes.readUInt16LE(16), segments }
}

const ET_DYN = 3
const [PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO] = [3, 0x6474e551, 0x6474e552]
const [PF_X, PF_W] = [1, 2]

const notBuilt = perduredMissing(OWN_ARCHITECTURE, '')
const programs = notBuilt === null ? 'the programs' : `the programs (${notBuilt})`

describe.skipIf(notBuilt !== null)(programs, () => {
  test.each(['perdured', 'perdure-boot'])(
    '%s lies anywhere, loads nothing, and runs nothing that it may write',
    (name) => {
      const { type, segments } = elfOf(join(dirname(perduredPath(OWN_ARCHITECTURE, '')), name))
      expect(type).toBe(ET_DYN)
      expect(segments.filter((one) => one.type === PT_INTERP)).toEqual([])
      expect(segments.filter((one) => one.type === PT_GNU_RELRO)).toHaveLength(1)
      expect(segments.filter((one) => one.type === PT_GNU_STACK)).toHaveLength(1)
      const both = segments.filter(({ flags }) => (flags & PF_X) !== 0 && (flags & PF_W) !== 0)
      expect(both).toEqual([])
    },
  )

  const why = isThere('nm') && isThere('gcc') ? null : 'gcc or nm is missing (Debian: gcc)'
  const guards = 'R1-S12: the engine and the translated firmware guard what lies on their stack'
  test.skipIf(why !== null)(titled(guards, why), () => {
    const { engine } = runtimeParts({
      ...{ architecture: OWN_ARCHITECTURE as Architecture, sanitize: false, dropFlush: false },
      ...{ install: false, say: () => {} },
    })
    // Each has functions with arrays.
    expect(engine.length).toBeGreaterThan(3)
    for (const object of engine) {
      const { stdout } = spawnSync('nm', ['-u', object], { encoding: 'utf8' })
      expect(stdout, object).toContain('__stack_chk_fail')
    }
  })
})

describe('what comes with it', () => {
  test('the configuration that a package installs uses keys that there are', () => {
    const keys = keysUnder('boards/linux/doc/configuration.md', '| key | takes | default |')
    const used = [...read('boards/linux/perdured.conf').matchAll(/^#?([a-z0-9-]+) =/gm)]
    expect(used.length).toBeGreaterThan(5)
    expect(used.map(([, name]) => name).filter((name) => !keys.includes(name!))).toEqual([])
  })

  test('systemd does not start again what another start would not mend', () => {
    const unit = read('boards/linux/perdured.service')
    expect(unit).toContain('Type=notify')
    const [, codes] = /^RestartPreventExitStatus=(.*)$/m.exec(unit)!
    const known = keysUnder('boards/linux/README.md', '| code | meaning |')
    for (const code of codes!.split(' ')) expect(known).toContain(code)
    expect(codes!.split(' ')).not.toContain('70')
  })

  test('R1-S12: systemd bounds its memory', () => {
    expect(read('boards/linux/perdured.service')).toMatch(/^MemoryMax=\d+M$/m)
  })

  test('the numbers that C and firmware share are those of the firmware', () => {
    const header = halHeader()
    expect(header).toContain(`#define HAL_COMPARE_SWAP ${hal.COMPARE_SWAP}\n`)
    expect(header).toContain(`#define HAL_DMA_SPACE ${hal.DMA_SPACE}ull\n`)
    expect(header).toContain(`#define HAL_TRANSMIT_AT ${hal.TRANSMIT_AT}\n`)
  })
})

describe('the signature', () => {
  const dist = join(folder, 'dist')
  const bundle = Buffer.from('var perdure = {}')

  const isSigned = (trust: string): boolean => {
    const key = createPublicKey(readFileSync(trust))
    return verify(null, bundle, key, readFileSync(join(dist, 'firmware.js.sig')))
  }

  const pemOf = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }).toString()

  test('is by a key for development, that is nobody else to read, or by one that is named', () => {
    rmSync(dist, { recursive: true, force: true })
    mkdirSync(dist)
    writeFileSync(join(dist, 'firmware.js'), bundle)
    const { trust, sha256 } = signBundle(undefined, dist)
    expect(sha256).toMatch(/^[0-9a-f]{64}$/)
    expect(isSigned(trust)).toBe(true)
    expect(statSync(join(dist, 'linux/development-key.pem')).mode & 0o777).toBe(0o600)
    const before = readFileSync(trust, 'utf8')
    expect(readFileSync(signBundle(undefined, dist).trust, 'utf8')).toBe(before)
    const named = join(folder, 'key.pem')
    writeFileSync(named, pemOf(generateKeyPairSync('ed25519').privateKey))
    expect(isSigned(signBundle(named, dist).trust)).toBe(true)
    expect(readFileSync(trust, 'utf8')).not.toBe(before)
    writeFileSync(named, pemOf(generateKeyPairSync('x25519').privateKey))
    expect(() => signBundle(named, dist)).toThrow('Ed25519 is needed')
  })

  test('nothing of the key is in the package', () => {
    const { files } = JSON.parse(read('package.json')) as { files: string[] }
    expect(files).toContain('!dist/linux')
  })
})

describe('what builds that run at a time make once', () => {
  const place = (name: string): string => join(folder, name)

  test('a folder: the first that was put there stays, whole', () => {
    for (const name of ['first', 'second']) {
      mkdirSync(place(name))
      writeFileSync(join(place(name), 'who'), name)
    }
    placeFolderOnce(place('first'), place('settled'))
    placeFolderOnce(place('second'), place('settled'))
    expect(readFileSync(join(place('settled'), 'who'), 'utf8')).toBe('first')
    expect(existsSync(place('first')) || existsSync(place('second'))).toBe(false)
    expect(() => placeFolderOnce(place('first'), place('settled'))).toThrow('ENOENT')
  })

  test('a file: both go by the key of the one who was first', () => {
    for (const name of ['key-1', 'key-2']) writeFileSync(place(name), name)
    placeFileOnce(place('key-1'), place('key'))
    placeFileOnce(place('key-2'), place('key'))
    expect(readFileSync(place('key'), 'utf8')).toBe('key-1')
    expect(existsSync(place('key-1')) || existsSync(place('key-2'))).toBe(false)
  })
})

describe('what is missing', () => {
  const needs = {
    programs: { 'no-such-program': 'no-such-package', node: 'nodejs' },
    files: { [join(folder, 'nothing')]: 'other-package', [folder]: 'third-package' },
    elsewhere: 'a machine that has it',
  }
  const say = (): void => {}

  test('is named, with the one command that installs it', () => {
    const lack = missing(needs)!
    expect(lack.what).toBe(`no-such-program, ${join(folder, 'nothing')}`)
    expect(lack.command).toBe(
      'apt-get install --no-install-recommends no-such-package other-package',
    )
    expect(missing({ programs: {}, elsewhere: '' })).toBeNull()
    const failure = (): void => need(needs, { install: false, say })
    expect(failure).toThrow(Trouble)
    expect(failure).toThrow(existsSync('/usr/bin/apt-get') ? lack.command : needs.elsewhere)
  })

  test('a board that there is not is refused by name', () => {
    const args = [join(ROOT, 'build.mjs'), '--board', 'abacus']
    const done = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(done.status).toBe(1)
    expect(done.stderr).toContain('linux')
  })

  test('what is for tests is in no package', () => {
    const words = ['--board', 'linux', '--package', '--sanitize']
    const args = [join(ROOT, 'build.mjs'), ...words]
    const done = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(done.status).toBe(1)
    expect(done.stderr).toContain('--package: what --sanitize and --drop-flush make is for tests')
  })
})
