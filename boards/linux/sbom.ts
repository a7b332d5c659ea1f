/**
 * What a package is made of, for who watches for weaknesses of its parts: a bill of materials as
 * CycloneDX 1.6 (ECMA-424) has it, JSON.
 *
 * Invariant: it has no date, and its serial number follows from all the rest: a package of the same
 * parts is the same package.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Card } from '../tools/debian/card-package.ts'
import { DIST } from './compile.ts'
import { type Architecture, type Library, librariesFor, QUICKJS, quickJs } from './toolchain.ts'

interface Component {
  readonly type: 'application' | 'library' | 'firmware'
  readonly name: string
  readonly version: string
  readonly purl?: string
  readonly hashes?: readonly { readonly alg: 'SHA-256'; readonly content: string }[]
  readonly description?: string
}

/** Its name as a package URL has it: `+` and `:` of a version of Debian are escaped. */
function purlOf(name: string, version: string, architecture: string): string {
  return `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`
}

function sha256(path: string): Component['hashes'] {
  return [
    { alg: 'SHA-256', content: createHash('sha256').update(readFileSync(path)).digest('hex') },
  ]
}

function libraryOf({ name, version, architecture }: Library): Component {
  const description = 'linked into the programs'
  return { type: 'library', name, version, purl: purlOf(name, version, architecture), description }
}

/** A UUID of the form that leaves its bits to who makes it (RFC 9562, version 8). */
function uuidOf(text: string): string {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** The programs of a package, as paths. */
export interface Programs {
  readonly supervisor: string
  readonly perdured: string
}

/** The bill of the package of that card; throws a Trouble where a part's version is not known. */
export function billOf(
  card: Card,
  version: string,
  programs: Programs,
  architecture: Architecture,
): string {
  const folder = join(DIST, 'linux')
  const engine: Component = {
    ...{ type: 'library', name: 'quickjs', version: QUICKJS.version },
    purl: purlOf('quickjs', QUICKJS.version, 'source'),
    description: `linked into both programs; its sources: ${quickJs(folder, () => {}).hash}`,
  }
  const own: readonly Component[] = [
    { type: 'application', name: 'perdured', version, hashes: sha256(programs.perdured) },
    { type: 'application', name: 'perdure-boot', version, hashes: sha256(programs.supervisor) },
    { type: 'firmware', name: 'firmware.js', version, hashes: sha256(join(DIST, 'firmware.js')) },
  ]
  const bill = {
    ...{ bomFormat: 'CycloneDX', specVersion: '1.6', version: 1 },
    metadata: { component: { type: 'application', name: `perdured-${card.name}`, version } },
    components: [...own, engine, ...librariesFor(architecture, folder).map(libraryOf)],
  }
  const serialNumber = `urn:uuid:${uuidOf(JSON.stringify(bill))}`
  return `${JSON.stringify({ ...bill, serialNumber }, null, 2)}\n`
}
