/**
 * `node build.mjs --board bluefield2|bluefield3`: the card's package, and the bf.cfg that installs
 * it, in `dist/NAME/`.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { need } from '../debian/apt.ts'
import { type Card, packageContents, packageName } from '../debian/card-package.ts'
import { writePackage } from '../debian/package.ts'
import { Trouble } from '../debian/programs.ts'
import { compileRuntime, DIST } from '../linux/compile.ts'
import { signBundle } from '../linux/sign.ts'
import { bfCfg } from './bf-cfg.ts'

const USAGE = `node build.mjs --board bluefield2|bluefield3 [--install] [--config FILE]
                             [--signing-key FILE]
  --install       install the Debian packages that are missing
  --signing-key   PEM file of the Ed25519 key that signs the bundle; unless said, a key for
                  development that is made once
  --config        perdured.conf for the card: bf.cfg then enables the service`

const NEEDS = { programs: { 'dpkg-deb': 'dpkg' }, elsewhere: 'dpkg-deb, of dpkg.' }

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
  need(NEEDS, { install, say })
  const options = { architecture: 'arm64', sanitize: false, dropFlush: false } as const
  const perdured = compileRuntime({ ...options, install, say })
  const { sha256, trust } = signBundle(values['signing-key'])
  const root = join(DIST, '..')
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string
  }
  const name = packageName(card, version)
  const out = join(DIST, card.name, name)
  const contents = packageContents(card, {
    ...{ perdured, trust, version },
    firmware: join(DIST, 'firmware.js'),
    signature: join(DIST, 'firmware.js.sig'),
    unit: join(root, 'boards/linux/perdured.service'),
    board: join(root, 'boards', card.name),
    licence: join(root, 'LICENSE'),
  })
  writePackage(out, contents)
  const configuration = config === undefined ? null : readFileSync(config)
  writeFileSync(join(DIST, card.name, 'bf.cfg'), bfCfg(name, readFileSync(out), configuration))
  say(`firmware: SHA-256 ${sha256}`)
  for (const file of [name, 'bf.cfg']) process.stdout.write(`${join(DIST, card.name, file)}\n`)
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
