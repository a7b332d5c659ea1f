/** The firmware bundle that every board runs: its hash, and a signed copy of it. */

import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../source/sources.ts'

const BUNDLE = join(ROOT, 'dist/firmware.js')

/** SHA-256 of the bundle as it lies in `dist`, in hexadecimal. */
export function bundleHash(): string {
  return createHash('sha256').update(readFileSync(BUNDLE)).digest('hex')
}

/** A bundle, its signature, the key that it is held against, and the one that signs, as files. */
interface SignedBundle {
  readonly firmware: string
  readonly signature: string
  readonly trust: string
  readonly key: string
}

/** A copy of the bundle in that folder, signed there: no build meanwhile changes it. */
export function signedBundle(folder: string): SignedBundle {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const bundle = readFileSync(BUNDLE)
  const at = (name: string): string => join(folder, name)
  const files = {
    firmware: at('firmware.js'),
    signature: at('firmware.sig'),
    trust: at('trust.pem'),
    key: at('key.pem'),
  }
  writeFileSync(files.firmware, bundle)
  writeFileSync(files.signature, sign(null, bundle, privateKey))
  writeFileSync(files.trust, publicKey.export({ type: 'spki', format: 'pem' }))
  writeFileSync(files.key, privateKey.export({ type: 'pkcs8', format: 'pem' }))
  return files
}
