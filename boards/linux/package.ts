/** The packages: for a card, and for any machine with Linux, whose board its processor names. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Card, packageContents, packageName } from '../tools/debian/card-package.ts'
import { writePackage } from '../tools/debian/package.ts'
import { changelogFile, manualFiles } from '../tools/manual/papers.ts'
import { DIST } from './compile.ts'
import { ROOT } from './engine.ts'
import { runtimeManual } from './manual.ts'
import { noticesFor } from './notices.ts'
import { billOf, type Programs } from './sbom.ts'
import type { Architecture } from './toolchain.ts'

/** What is built for a package, as paths. */
interface Built extends Programs {
  readonly trust: string
}

export function linuxCard(architecture: Architecture): Card {
  return {
    name: 'linux',
    title: 'Linux',
    architecture: architecture === 'arm64' ? 'arm64' : 'amd64',
    board: `linux-${architecture}`,
  }
}

/** Packs what was built, with the bundle that was signed, into a folder; the package's path. */
export function packCard(card: Card, built: Built, folder: string): string {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    version: string
  }
  const architecture = card.architecture === 'arm64' ? 'arm64' : 'x86-64'
  const contents = packageContents(card, {
    ...built,
    version,
    bill: billOf(card, version, built, architecture),
    firmware: join(DIST, 'firmware.js'),
    signature: join(DIST, 'firmware.js.sig'),
    unit: join(ROOT, 'boards/linux/perdured.service'),
    board: join(ROOT, 'boards', card.name),
    papers: [
      ...manualFiles(runtimeManual(version)),
      changelogFile(`perdured-${card.name}`, version, 'CHANGELOG.md of the sources'),
      { path: `usr/share/doc/perdured-${card.name}/notices`, content: noticesFor(architecture) },
    ],
  })
  const path = join(folder, packageName(card, version))
  writePackage(path, contents)
  return path
}
