/**
 * What the handshake computes with, by commands of the board (hal.ts): AGREE, HASH, SEAL, UNSEAL.
 *
 * Invariant: what a command worked on is zeros in packet memory when it has run.
 */

import { assert } from '../board/assert.ts'
import { type CommandList, runAlone } from '../board/command-list.ts'
import {
  AGREE,
  AUTHENTICATION_FAILED,
  BAD_COMMAND,
  HASH,
  SEAL,
  SEAL_KEY_BYTES,
  SEAL_NONCE_BYTES,
  SEAL_TAG_BYTES,
  UNSEAL,
} from '../board/hal.ts'
import { SECRETS_AT, SECRETS_BYTES, SECRETS_TEXT_BYTES } from '../board/memory-map.ts'
import type { Primitives } from './noise.ts'

const TEXT = SECRETS_AT
const AUX = SECRETS_AT + SECRETS_TEXT_BYTES
const NONCE = AUX + SEAL_KEY_BYTES
const DATA_LENGTH = NONCE + SEAL_NONCE_BYTES
const DATA = DATA_LENGTH + 4

export function boardPrimitives(list: CommandList, memory: ArrayBuffer): Primitives {
  const bytes = new Uint8Array(memory)
  const words = new Int32Array(memory)

  /** Runs the command on what lies in packet memory; null where it proves nothing. */
  function compute(op: number, length: number, resultBytes: number): Uint8Array | null {
    const outcome = runAlone(list, op, TEXT, TEXT, length, AUX)
    if (outcome === BAD_COMMAND) assert(false, 'a board computes what sessions are made of')
    const result = outcome === AUTHENTICATION_FAILED ? null : bytes.slice(TEXT, TEXT + resultBytes)
    bytes.fill(0, SECRETS_AT, SECRETS_AT + SECRETS_BYTES)
    return result
  }

  function put(key: Uint8Array, nonce: Uint8Array, data: Uint8Array, text: Uint8Array): void {
    assert(text.length + SEAL_TAG_BYTES <= SECRETS_TEXT_BYTES, 'what is sealed fits')
    bytes.set(key, AUX)
    bytes.set(nonce, NONCE)
    words[DATA_LENGTH >> 2] = data.length
    bytes.set(data, DATA)
    bytes.set(text, TEXT)
  }

  return {
    agree(secret, point) {
      bytes.set(secret, TEXT)
      bytes.set(point, AUX)
      return compute(AGREE, SEAL_KEY_BYTES, SEAL_KEY_BYTES)
    },
    hash(text) {
      assert(text.length <= SECRETS_TEXT_BYTES, 'what is hashed fits')
      bytes.set(text, TEXT)
      return compute(HASH, text.length, 32)!
    },
    seal(key, nonce, data, plain) {
      put(key, nonce, data, plain)
      return compute(SEAL, plain.length, plain.length + SEAL_TAG_BYTES)!
    },
    unseal(key, nonce, data, sealed) {
      assert(sealed.length >= SEAL_TAG_BYTES, 'what is sealed has a tag')
      put(key, nonce, data, sealed)
      return compute(UNSEAL, sealed.length, sealed.length - SEAL_TAG_BYTES)
    },
  }
}
