/**
 * `node build.mjs --board linux`: the native runtime, a static program, and perdure-boot, another,
 * which starts it; with `--package`, both and the signed bundle as a package of Debian.
 *
 * Invariants:
 * - QuickJS is Debian's source package, unpacked below `dist/linux/`, compiled once per source and
 *   flags; libsodium and brotli are Debian's libraries. Nothing else is linked but the C library.
 * - A package that is missing is named, with the one command that installs it; `--install` runs it.
 * - A program is there whole or not at all: it is linked aside and renamed.
 * - Exit code 3 says that something to build it with is missing; any other but 0, that it failed.
 */

import { parseArgs } from 'node:util'
import { runBuild, Trouble } from '../tools/debian/programs.ts'
import { compileBoot, shippedBoot } from './boot/compile.ts'
import { compileRuntime, flavourFolder } from './compile.ts'
import { linuxCard, packCard } from './package.ts'
import { signBundle } from './sign.ts'
import { ARCHITECTURES, hostArchitecture, isArchitecture } from './toolchain.ts'

const USAGE = `node build.mjs --board linux [--arch x86-64|arm64] [--package] [--install]
                             [--sanitize] [--drop-flush] [--signing-key FILE]
  --arch          for which processor; by default, that of this machine
  --package       pack them, for that processor: perdured-linux_VERSION_ARCH.deb
  --install       install the Debian packages that are missing
  --sanitize      with AddressSanitizer and UndefinedBehaviourSanitizer, for tests
  --drop-flush    one write-back is left out: what tests of durability must find
  --signing-key   PEM file of the Ed25519 key that signs the bundle; by default, a key for
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
      package: { type: 'boolean', default: false },
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
  if (values.package && (sanitize || dropFlush)) {
    throw new Trouble('--package: what --sanitize and --drop-flush make is for tests')
  }
  const options = { architecture, sanitize, dropFlush, install, say }
  const perdured = compileRuntime(options)
  const boot = shippedBoot(options)
  if (!dropFlush) say(`what starts it: ${compileBoot(boot)}`)
  const { sha256, trust } = signBundle(values['signing-key'])
  process.stdout.write(`${perdured}\n`)
  say(`firmware: SHA-256 ${sha256}, signed, to be trusted under ${trust}`)
  if (!values.package) return
  const built = { supervisor: boot.program, perdured, trust }
  const path = packCard(linuxCard(architecture), built, flavourFolder(options))
  process.stdout.write(`${path}\n`)
}

runBuild(main, USAGE)
