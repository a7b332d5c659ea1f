/**
 * The signature of the firmware bundle: Ed25519 over its bytes.
 *
 * Invariant: the key for development is made at random on this machine, lies in `dist/`,
 * which is in no repository and in no package, and is trusted by nobody who was not told to.
 */

import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
} from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { placeFileOnce } from '../tools/debian/once.ts'
import { Trouble } from '../tools/debian/programs.ts'
import { DIST } from './compile.ts'

const OWNER_ONLY = 0o600

export interface Signed {
  /** Of the bundle, hexadecimal. */
  readonly sha256: string
  /** PEM file with the public key. */
  readonly trust: string
}

/**
 * Signs `dist/firmware.js`: the signature is beside it in `dist/firmware.js.sig`, the public key in
 * `dist/linux/trust.pem`. Throws a Trouble if the key is of another kind.
 */
export function signBundle(keyFile?: string, dist: string = DIST): Signed {
  const pem = readFileSync(keyFile ?? developmentKey(dist))
  const key = createPrivateKey(pem)
  if (key.asymmetricKeyType !== 'ed25519') {
    throw new Trouble(`${keyFile}: a key of ${key.asymmetricKeyType}; Ed25519 is needed`)
  }
  const bundle = readFileSync(join(dist, 'firmware.js'))
  const trust = join(dist, 'linux/trust.pem')
  place(join(dist, 'firmware.js.sig'), sign(null, bundle, key))
  place(trust, createPublicKey(key).export({ type: 'spki', format: 'pem' }).toString())
  return { sha256: createHash('sha256').update(bundle).digest('hex'), trust }
}

function place(path: string, content: Uint8Array | string): void {
  renameSync(writeAside(path, content, 0o644), path)
}

/** Returns the file beside `path` that has the content. */
function writeAside(path: string, content: Uint8Array | string, mode: number): string {
  mkdirSync(dirname(path), { recursive: true })
  const aside = `${path}.${process.pid}`
  writeFileSync(aside, content, { mode })
  return aside
}

function developmentKey(dist: string): string {
  const path = join(dist, 'linux/development-key.pem')
  if (!existsSync(path)) {
    const { privateKey } = generateKeyPairSync('ed25519')
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
    placeFileOnce(writeAside(path, pem.toString(), OWNER_ONLY), path)
  }
  return path
}
