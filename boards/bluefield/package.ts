/**
 * The package of a BlueField card: perdured for arm64, the signed bundle, the key that it is held
 * against, a configuration to be filled in, the unit.
 *
 * What always holds: installing it starts nothing. Which memory, which port: that is the operator's
 * to say, and until then the service is off.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PackageContents } from '../debian/package.ts'

/** A card that there is a package for. */
export interface Card {
  /** As in `--board` and in the name of the package. */
  readonly name: 'bluefield2' | 'bluefield3'
  /** In words. */
  readonly title: string
}

/** What goes into a package, as paths. */
export interface PackageParts {
  readonly perdured: string
  readonly firmware: string
  readonly signature: string
  readonly trust: string
  /** The unit, of boards/linux. */
  readonly unit: string
  /** The folder of the card's board: its configuration and its page. */
  readonly board: string
  readonly licence: string
  readonly version: string
}

const AFTER_INSTALLING = `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
`

const BEFORE_REMOVING = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now perdured.service
fi
`

/** Name of the package's file. */
export function packageName({ name }: Card, version: string): string {
  return `perdured-${name}_${version}_arm64.deb`
}

export function packageContents(card: Card, parts: PackageParts): PackageContents {
  const { name, title } = card
  const doc = `usr/share/doc/perdured-${name}`
  const file = (path: string, from: string): { path: string; content: Uint8Array } => {
    return { path, content: readFileSync(from) }
  }
  return {
    control: {
      Package: `perdured-${name}`,
      Version: parts.version,
      Architecture: 'arm64',
      Maintainer: 'Perdure',
      Section: 'net',
      Priority: 'optional',
      Provides: 'perdured',
      Conflicts: 'perdured',
      Description: `Crash-atomic remote persistent memory, on ${title}`,
    },
    files: [
      { ...file('usr/sbin/perdured', parts.perdured), executable: true },
      file('usr/lib/perdure/firmware.js', parts.firmware),
      file('usr/lib/perdure/firmware.js.sig', parts.signature),
      { ...file('etc/perdure/trust.pem', parts.trust), isConfiguration: true },
      {
        ...file('etc/perdure/perdured.conf', join(parts.board, 'perdured.conf')),
        isConfiguration: true,
      },
      file('usr/lib/systemd/system/perdured.service', parts.unit),
      file(`${doc}/README.md`, join(parts.board, 'README.md')),
      file(`${doc}/copyright`, parts.licence),
    ],
    scripts: { postinst: AFTER_INSTALLING, prerm: BEFORE_REMOVING },
  }
}
