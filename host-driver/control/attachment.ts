/**
 * What ATTACH asks for (firmware/manage/attach.ts), from the options of a caller.
 *
 * Invariant: the other DPU is reached by exactly one way. Whoever names its key gets a session
 * there, or an error: never a connection in the clear.
 */

import { isIP } from 'node:net'
import { KeyError, parseKey } from '../../boards/software/keys.ts'
import { putU16 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { addressBytes } from '../base/addresses.ts'
import { ArgumentError } from '../base/errors.ts'
import { checkFields, type Kinds } from '../base/kinds.ts'
import { PORT } from './publication.ts'
import { NEW_REGION_NAME, nameBytesOf, REGION_NAME } from './region-name.ts'
import { CARD_KEY, textOf } from './session-keys.ts'

/** A region of another DPU, to be offered by this one. */
export interface Attachment {
  /** What it is called here. */
  readonly name: string
  /** IPv4 or IPv6 address of the other DPU. */
  readonly address: string
  /** The port of RDMA-CM that it offers the region on, 1 to 65535; or */
  readonly port?: number
  /**
   * its public key, 64 hexadecimal digits or 32 bytes: then this DPU opens the region there in a
   * session, as one of its peers, by its own key.
   */
  readonly cardKey?: string | Uint8Array
  /** With `cardKey`, what it is called there; the same by default. */
  readonly region?: string
}

const ATTACHMENT_KINDS: Kinds<Attachment> = {
  name: NEW_REGION_NAME,
  address: {
    give: 'an IPv4 or IPv6 address',
    takes: (value) => typeof value === 'string' && isIP(value) !== 0,
  },
  port: PORT,
  cardKey: CARD_KEY,
  region: REGION_NAME,
}

/** Throws PERDURE_ARGUMENT where no DPU could attach that; else what is asked for, for good. */
export function keptAttachment(attachment: Attachment): Attachment {
  checkFields('an attachment', attachment, ATTACHMENT_KINDS, ['name', 'address'])
  const { port, cardKey, region } = attachment
  if ((port === undefined) === (cardKey === undefined)) {
    const inside = "cardKey, the other DPU's public key, for a session there"
    throw new ArgumentError(`an attachment: give ${inside}, or port, of RDMA-CM: one of them`)
  }
  if (cardKey === undefined) {
    if (region === undefined) return { ...attachment }
    throw new ArgumentError('an attachment: region goes with cardKey: a port offers one region')
  }
  const text = textOf(cardKey)
  keyBytes(text)
  return { ...attachment, cardKey: text }
}

function keyBytes(text: string): Uint8Array {
  try {
    return parseKey(text)
  } catch (error) {
    if (error instanceof KeyError) throw new ArgumentError(`cardKey: ${error.message}`)
    throw error
  }
}

/** Writes what was kept into the body of the call. */
export function fillAttachment(body: Uint8Array, attachment: Attachment): void {
  const { address, port = 0, cardKey, region } = attachment
  const version = isIP(address)
  body[mad.ATTACH_IP_VERSION] = version
  putU16(body, mad.ATTACH_PORT, port)
  body.set(addressBytes(address, version), mad.ATTACH_ADDRESS)
  if (cardKey !== undefined) body.set(keyBytes(textOf(cardKey)), mad.ATTACH_KEY)
  if (region !== undefined) body.set(nameBytesOf(region)!, mad.ATTACH_REGION)
}
