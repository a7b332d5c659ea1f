/**
 * The keys of a client and its card, as `connect` is told them: texts, files, bytes.
 *
 * Invariant: whoever names the card's key gets a session or an error, never a connection in the
 * clear.
 */

import { clientKeyPath, readKeyFile } from '../../boards/software/key-file.ts'
import { KeyError, keyText, pairOf, parseKey } from '../../boards/software/keys.ts'
import { hash, NOISE_KEY_BYTES } from '../../boards/software/noise-primitives.ts'
import { clientTag } from '../../firmware/session/sealed.ts'
import { ArgumentError } from '../base/errors.ts'
import { bytesOf, type Kind } from '../base/kinds.ts'
import type { SessionKeyPair } from './sealed-way.ts'

/** A secret key: the path of its file, or its 32 bytes. */
export const OWN_KEY: Kind = {
  give: 'the path of a file, or 32 bytes',
  takes: (value) => isText(value) || bytesOf(NOISE_KEY_BYTES).takes(value),
}

/** A public key: 64 hexadecimal digits, or its 32 bytes. */
export const CARD_KEY: Kind = {
  give: '64 hexadecimal digits, or 32 bytes',
  takes: (value) => isText(value) || bytesOf(NOISE_KEY_BYTES).takes(value),
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

/** The part of the options that is of sessions. */
interface Named {
  readonly key?: string | Uint8Array
  readonly cardKey?: string | Uint8Array
}

/**
 * The keys of the session; null where neither target nor options name a key of the card. Throws
 * PERDURE_ARGUMENT where a key cannot be used.
 */
export function sessionKeysOf(
  { key, cardKey }: Named,
  named: string | null,
): SessionKeyPair | null {
  const told = cardKey ?? named
  if (told === null) {
    if (key === undefined) return null
    throw new ArgumentError(
      "key: a session needs the card's public key, too: perdure://KEY@host, or cardKey",
    )
  }
  if (named !== null && cardKey !== undefined && textOf(cardKey) !== textOf(named)) {
    throw new ArgumentError("cardKey: the target names another card's key")
  }
  try {
    const card = parseKey(textOf(told))
    const isFile = key === undefined || typeof key === 'string'
    const secret = isFile ? secretIn(key ?? clientKeyPath()) : Uint8Array.from(key)
    return { own: pairOf(secret), card }
  } catch (error) {
    if (error instanceof KeyError) throw new ArgumentError(error.message)
    throw error
  }
}

/** A key as text, in lower case where it came so. */
export function textOf(key: string | Uint8Array): string {
  return typeof key === 'string' ? key.toLowerCase() : keyText(key)
}

function secretIn(path: string): Uint8Array {
  try {
    return readKeyFile(path)
  } catch (error) {
    if (error instanceof KeyError) throw error
    const { code, message } = error as NodeJS.ErrnoException
    const why = code === 'ENOENT' ? 'it is not there' : message
    throw new ArgumentError(`the key in ${path}: ${why}. 'perdure key new' makes one`)
  }
}

/**
 * Upper half of the ids that a client with these keys may have, 32 bits: the card takes no others
 * (firmware/session/sessions.ts).
 */
export function clientIdBase({ own }: SessionKeyPair): number {
  return clientTag({ hash }, own.public)
}
