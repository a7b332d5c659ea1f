/**
 * `node build.mjs --board bluefield2|bluefield3`: the card's package, and the bf.cfg that installs
 * it, in `dist/NAME/`.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { compileBoot, shippedBoot } from '../../linux/boot/compile.ts'
import { compileRuntime, DIST } from '../../linux/compile.ts'
import { packCard } from '../../linux/package.ts'
import { signBundle } from '../../linux/sign.ts'
import type { Card } from '../debian/card-package.ts'
import { Trouble } from '../debian/programs.ts'
import { bfCfg } from './bf-cfg.ts'

const USAGE = `node build.mjs --board bluefield2|bluefield3 [--install] [--config FILE]
                             [--signing-key FILE]
  --install       install the Debian packages that are missing
  --signing-key   PEM file of the Ed25519 key that signs the bundle; by default, a key for
                  development that is made once
  --config        perdured.conf for the card: bf.cfg then enables the service`

function say(line: string): void {
  process.stderr.write(`perdure: ${line}\n`)
}

function build(card: Card, args: readonly string[]): void {
  const { values } = parseArgs({
    args: [...args],
    options: {
      install: { type: 'boolean', default: false },
      'signing-key': { type: 'string' },
      config: { type: 'string' },
    },
  })
  const { install, config } = values
  const options = {
    ...({ architecture: 'arm64', sanitize: false, dropFlush: false } as const),
    ...{ install, say },
  }
  const perdured = compileRuntime(options)
  const supervisor = compileBoot(shippedBoot(options))
  const { sha256, trust } = signBundle(values['signing-key'])
  const folder = join(DIST, card.name)
  const packed = packCard(card, { supervisor, perdured, trust }, folder)
  const configuration = config === undefined ? null : readFileSync(config)
  const forInstaller = join(folder, 'bf.cfg')
  writeFileSync(forInstaller, bfCfg(basename(packed), readFileSync(packed), configuration))
  say(`firmware: SHA-256 ${sha256}`)
  for (const path of [packed, forInstaller]) process.stdout.write(`${path}\n`)
}

/** Builds, and sets the exit code of the process. */
export function buildCard(card: Card): void {
  try {
    build(card, process.argv.slice(2))
  } catch (error) {
    const isUsage = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
    if (!(error instanceof Trouble) && !isUsage) throw error
    process.stderr.write(`perdure: ${(error as Error).message}\n${isUsage ? `${USAGE}\n` : ''}`)
    process.exitCode = 1
  }
}
