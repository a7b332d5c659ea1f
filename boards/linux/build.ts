/**
 * `node build.mjs --board linux`: the native runtime, one static program, and perdure-boot, another,
 * which starts it.
 *
 * What always holds:
 * - QuickJS is Debian's source package, unpacked below `dist/linux/`, compiled once per source and
 *   flags; libsodium and brotli are Debian's libraries. Nothing else is linked but the C library.
 * - A package that is missing is named, with the one command that installs it; `--install` runs it.
 * - A program is there whole or not at all: it is linked aside and renamed.
 * - Exit code 3 says that something to build it with is missing; any other but 0, that it failed.
 */

import { parseArgs } from 'node:util'
import { Missing, NOT_HERE, Trouble } from '../debian/programs.ts'
import { compileBoot, shippedBoot } from './boot/compile.ts'
import { compileRuntime } from './compile.ts'
import { signBundle } from './sign.ts'
import { ARCHITECTURES, hostArchitecture, isArchitecture } from './toolchain.ts'

const USAGE = `node build.mjs --board linux [--arch x86-64|arm64] [--install] [--sanitize]
                             [--drop-flush] [--signing-key FILE]
  --arch          for which processor; unless said, that of this machine
  --install       install the Debian packages that are missing
  --sanitize      with AddressSanitizer and UndefinedBehaviourSanitizer, for tests
  --drop-flush    one write-back is left out: what tests of durability must find
  --signing-key   PEM file of the Ed25519 key that signs the bundle; unless said, a key for
                  development that is made once`

function say(line: string): void {
  process.stderr.write(`perdure: ${line}\n`)
}

function known(): string {
  return ARCHITECTURES.join(' and ')
}

function main(args: readonly string[]): void {
  const { values } = parseArgs({
    args: [...args],
    options: {
      arch: { type: 'string' },
      install: { type: 'boolean', default: false },
      sanitize: { type: 'boolean', default: false },
      'drop-flush': { type: 'boolean', default: false },
      'signing-key': { type: 'string' },
    },
  })
  const architecture = values.arch ?? hostArchitecture()
  if (!isArchitecture(architecture)) throw new Trouble(`--arch ${architecture}: ${known()}`)
  const { install, sanitize } = values
  const dropFlush = values['drop-flush']
  const options = { architecture, sanitize, dropFlush, install, say }
  const program = compileRuntime(options)
  if (!dropFlush) say(`what starts it: ${compileBoot(shippedBoot(options))}`)
  const signed = signBundle(values['signing-key'])
  process.stdout.write(`${program}\n`)
  say(`firmware: SHA-256 ${signed.sha256}, signed, to be trusted under ${signed.trust}`)
}

try {
  main(process.argv.slice(2))
} catch (error) {
  const isUsage = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
  if (!(error instanceof Trouble) && !isUsage) throw error
  process.stderr.write(`perdure: ${(error as Error).message}\n${isUsage ? `${USAGE}\n` : ''}`)
  process.exitCode = error instanceof Missing ? NOT_HERE : 1
}
