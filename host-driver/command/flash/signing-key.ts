/**
 * Keys of images: files of PEM with Ed25519 keys.
 *
 * Invariant: a private key is written for its owner alone, and over nothing that is there.
 * No key comes with the package: who names none has one of their own, made at random on this
 * machine when it is first used, and trusted by nobody who was not told to.
 */

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { makeFolder } from '../../../boards/folder.ts'
import { configurationPath, writePrivateFile } from '../../../boards/private-file.ts'
import { placeFileOnce } from '../../../boards/tools/debian/once.ts'
import { PerdureError } from '../../base/errors.ts'
import { checkFile } from '../base/system-errors.ts'

/** Characters of a key's hash that people are shown. */
const SHOWN = 12

/** The private key of a file. Throws PERDURE_IMAGE where it is none. */
export function readSigningKey(path: string): KeyObject {
  return readKey(path, createPrivateKey, 'a private key, as `perdure image keygen` makes it')
}

/** The public key of a file; a private one has it, too. Throws PERDURE_IMAGE where it is none. */
export function readTrustedKey(path: string): KeyObject {
  return readKey(path, createPublicKey, 'a public key, as `perdure image keygen` makes it')
}

function readKey(path: string, read: (pem: Buffer) => KeyObject, give: string): KeyObject {
  checkFile(path)
  const pem = readFileSync(path)
  const wrong = (what: string, options?: ErrorOptions): PerdureError => {
    return new PerdureError('PERDURE_IMAGE', `${path}: ${what}. Name ${give}.`, options)
  }
  let key: KeyObject
  try {
    key = read(pem)
  } catch (cause) {
    throw wrong('it holds no such key', { cause })
  }
  if (key.asymmetricKeyType === 'ed25519') return key
  throw wrong(`it is a key of ${key.asymmetricKeyType}, and Ed25519 is needed`)
}

/** Where the public key of a private one lies: 'signing.pem' has 'signing.pub.pem'. */
export function publicPath(path: string): string {
  return `${path.replace(/\.pem$/, '')}.pub.pem`
}

/** Makes a key pair in that file, and in the one of `publicPath`, neither of which may be there. */
export function makeKey(path: string): KeyObject {
  const { privateKey } = generateKeyPairSync('ed25519')
  writePrivateFile(path, privatePem(privateKey))
  try {
    writeFileSync(publicPath(path), publicPem(privateKey), { flag: 'wx' })
  } catch (error) {
    rmSync(path)
    throw error
  }
  return privateKey
}

function privatePem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString()
}

function publicPem(key: KeyObject): string {
  return createPublicKey(key).export({ type: 'spki', format: 'pem' }).toString()
}

/** The path of this user's own key, which is made where there is none. */
export function developmentKey(): string {
  const path = configurationPath('development-key.pem')
  if (!existsSync(path)) {
    makeFolder(dirname(path), 0o700)
    const aside = `${path}.${process.pid}`
    const { privateKey } = generateKeyPairSync('ed25519')
    writePrivateFile(aside, privatePem(privateKey))
    placeFileOnce(aside, path)
  }
  writeFileSync(publicPath(path), publicPem(readSigningKey(path)))
  return path
}

/** The first digits of a hash. */
export function shortHash(hash: Uint8Array): string {
  return Buffer.from(hash).toString('hex').slice(0, SHOWN)
}
