/**
 * The package of a card: the supervisor, perdured, the signed bundle, the key that both are held
 * against, configurations to be filled in, the unit.
 *
 * Invariant: installing it starts nothing. Which memory, which port: that is the operator's
 * to say, and until then the service is off. An upgrade starts a service again that runs, says so,
 * and leaves alone what was flashed.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PackageContents, PackageFile } from './package.ts'

/** A card that there is a package for. */
export interface Card {
  /** As in `--board` and in the name of the package. */
  readonly name: 'bluefield2' | 'bluefield3' | 'linux'
  /** In words. */
  readonly title: string
  /** As Debian calls it. */
  readonly architecture: 'arm64' | 'amd64'
  /** As images name it. */
  readonly board: string
}

/** What goes into a package, as paths. */
export interface PackageParts {
  readonly supervisor: string
  readonly perdured: string
  readonly firmware: string
  readonly signature: string
  readonly trust: string
  /** The unit, of boards/linux. */
  readonly unit: string
  /** The folder of the card's board: its configurations and its page. */
  readonly board: string
  readonly version: string
  /** What it is made of, as text (boards/linux/sbom.ts). */
  readonly bill: string
  /** Its manual and its changelog. */
  readonly papers: readonly PackageFile[]
}

/** With the version before as its second word where there was one. */
const AFTER_INSTALLING = `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if [ -n "$2" ] && systemctl is-active -q perdured.service; then
    if systemctl restart perdured.service; then
      echo "perdured.service was started again. What was flashed onto this card still runs:"
      echo "'perdure flash' brings the firmware of this version to it."
    else
      echo "perdured.service did not start: 'journalctl -u perdured' says why." >&2
    fi
  fi
fi
`

const BEFORE_REMOVING = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now perdured.service
fi
`

/** As Debian's machine-readable format 1.0 has it. */
const COPYRIGHT = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: perdure
Comment: What is linked into the programs is in sbom.cdx.json beside this file, and the licences
 of that in notices.

Files: *
Copyright: 2026 the authors of Perdure
License: Apache-2.0
 On Debian the text is in /usr/share/common-licenses/Apache-2.0.
`

/** Name of the package's file. */
export function packageName({ name, architecture }: Card, version: string): string {
  return `perdured-${name}_${version}_${architecture}.deb`
}

export function packageContents(card: Card, parts: PackageParts): PackageContents {
  const { name, title, architecture, board } = card
  const doc = `usr/share/doc/perdured-${name}`
  const file = (path: string, from: string): { path: string; content: Uint8Array } => {
    return { path, content: readFileSync(from) }
  }
  const bootText = readFileSync(join(parts.board, 'boot.conf'), 'utf8')
  const bootConfiguration = bootText.replace(/^board = .*$/m, `board = ${board}`)
  return {
    control: {
      Package: `perdured-${name}`,
      Version: parts.version,
      Architecture: architecture,
      Maintainer: 'Perdure',
      Section: 'net',
      Priority: 'optional',
      Provides: 'perdured',
      Conflicts: 'perdured',
      Description:
        `crash-atomic remote persistent memory, on ${title}\n` +
        'The firmware of Perdure with the program that runs it, and the supervisor\n' +
        'that starts it, watches it, and takes new firmware. After a power cut at any\n' +
        'moment every record is wholly the old one or wholly the new one, and the new\n' +
        'one if it was acknowledged.\n\n' +
        'Installing it starts nothing: /etc/perdure/perdured.conf comes first.',
    },
    files: [
      { ...file('usr/sbin/perdure-boot', parts.supervisor), executable: true },
      { ...file('usr/sbin/perdured', parts.perdured), executable: true },
      file('usr/lib/perdure/firmware.js', parts.firmware),
      file('usr/lib/perdure/firmware.js.sig', parts.signature),
      { ...file('etc/perdure/trust.pem', parts.trust), isConfiguration: true },
      {
        ...file('etc/perdure/perdured.conf', join(parts.board, 'perdured.conf')),
        isConfiguration: true,
      },
      { path: 'etc/perdure/boot.conf', content: bootConfiguration, isConfiguration: true },
      file('usr/lib/systemd/system/perdured.service', parts.unit),
      file(`${doc}/README.md`, join(parts.board, 'README.md')),
      { path: `${doc}/copyright`, content: COPYRIGHT },
      ...parts.papers,
      { path: `${doc}/sbom.cdx.json`, content: Buffer.from(parts.bill) },
    ],
    scripts: { postinst: AFTER_INSTALLING, prerm: BEFORE_REMOVING },
  }
}
