/**
 * What a package is made of, for who watches for weaknesses of its parts: a bill of materials as
 * CycloneDX 1.6 (ECMA-424) has it, JSON.
 *
 * Invariant: it has no date, and its serial number follows from all the rest: a package of the same
 * parts is the same package.
 */

import { createHash } from 'node:crypto'

/** A part of a package. */
export interface Component {
  readonly type: 'application' | 'library' | 'firmware'
  readonly name: string
  readonly version: string
  readonly purl?: string
  readonly hashes?: readonly { readonly alg: 'SHA-256' | 'SHA-512'; readonly content: string }[]
  readonly description?: string
  readonly licenses?: readonly { readonly license: { readonly id: string } }[]
}

/** A UUID of the form that leaves its bits to who makes it (RFC 9562, version 8). */
function uuidOf(text: string): string {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** The bill of a package of that name. */
export function billText(name: string, version: string, components: readonly Component[]): string {
  const bill = {
    ...{ bomFormat: 'CycloneDX', specVersion: '1.6', version: 1 },
    metadata: { component: { type: 'application', name, version } },
    components,
  }
  const serialNumber = `urn:uuid:${uuidOf(JSON.stringify(bill))}`
  return `${JSON.stringify({ ...bill, serialNumber }, null, 2)}\n`
}
