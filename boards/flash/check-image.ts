/** All that is looked at of an image: of the file itself, and of whom it is for. */

import { type KeyObject, verify } from 'node:crypto'
import { isSame } from './bytes.ts'
import { ImageError } from './image-error.ts'
import { checkSignature, type Image, readImage, TLV_SECURITY_COUNTER } from './mcuboot.ts'
import { type Payload, readPart, readPayload } from './payload.ts'
import { SlotError } from './slot-error.ts'
import type { Check } from './slot-store.ts'

export interface Opened {
  readonly image: Image
  readonly payload: Payload
}

/** Reads an image and its manifest; nobody is asked whom to trust. Throws ImageError. */
export function openImage(bytes: Uint8Array): Opened {
  const image = readImage(bytes)
  return { image, payload: readPayload(image.payload) }
}

function wordOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
}

/** Checks who has signed it, and every part to its last byte. Throws ImageError. */
export function verifyImage({ image, payload }: Opened, trusted: readonly KeyObject[]): void {
  const key = checkSignature(image, trusted)
  const { counter, parts } = payload.manifest
  for (const { type, value } of image.protectedTlvs) {
    const said = value.length === 4 ? wordOf(value) : null
    if (type !== TLV_SECURITY_COUNTER || said === counter) continue
    throw new ImageError('IMAGE_PAYLOAD', 'it says two security counters')
  }
  for (const { kind } of parts) readPart(payload, kind)
  const signature = readPart(payload, 'signature')
  if (signature === null || verify(null, readPart(payload, 'bundle')!, key, signature)) return
  throw new ImageError('IMAGE_PART', 'the signature of its bundle is not of that key')
}

/** What a card asks of an image. */
interface Card {
  readonly trusted: readonly KeyObject[]
  /** Its name, as an image is made for it. */
  readonly target: string
  /** What its own runtime has agreed on with a bundle (payload.ts). */
  readonly hal: Uint8Array
}

/** What that card looks at before it takes an image, and before it runs it. */
export function checkFor({ trusted, target, hal }: Card): Check {
  return (bytes) => {
    const opened = openImage(bytes)
    verifyImage(opened, trusted)
    const { image, payload } = opened
    const { counter, formats, targets, parts, hal: wanted } = payload.manifest
    if (!targets.includes(target)) {
      throw new SlotError('SLOT_TARGET', `made for ${targets.join(', ')}; this is ${target}`)
    }
    const hasRuntime = parts.some(({ kind }) => kind === 'runtime')
    if (!hasRuntime && !isSame(wanted, hal)) {
      throw new SlotError(
        'SLOT_HAL',
        'it needs another runtime than this card has, and brings none',
      )
    }
    return { version: image.version, hash: image.hash, counter, formats }
  }
}
