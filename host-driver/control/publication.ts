/**
 * What PUBLISH asks for (firmware/connect/publish.ts), from the options of a caller.
 */

import { putU16, putU32 } from '../../firmware/wire/bytes.ts'
import * as mad from '../../firmware/wire/management.ts'
import { rangeOf } from '../base/addresses.ts'
import { BOOLEAN, checkFields, integer, type Kind, type Kinds, oneOf, WORD } from '../base/kinds.ts'
import { REGION_NAME } from './region-name.ts'

/** A region that is offered on a port of RDMA-CM. */
export interface Publication {
  /** Name of the region. */
  readonly name: string
  /** 1 to 65535. */
  readonly port: number
  /**
   * What a plain RoCEv2 client is told of the region: librpma's descriptor (default) or our
   * capability block in the private data of REP, or an announcement by a SEND (P2-2). A client that
   * shows a capability block gets ours.
   */
  readonly form?: 'librpma' | 'capability' | 'announced'
  /** Access flags (wire-format 4) that connections get; all that the region has by default. */
  readonly rights?: number
  /**
   * Clients of RDMA-CM may come, though these have no sessions: a card with peers asks that it is
   * said (STOCK_UNSAID), and lets no session write records that such clients write.
   */
  readonly stock?: boolean
  /**
   * Who may connect: up to 4 addresses, or ranges as '10.0.0.0/24' and 'fd00::/8'. Anybody by
   * default.
   */
  readonly from?: readonly string[]
  /** Connections at once, 1 to 65535; any number by default. */
  readonly connections?: number
}

/** Of a port of RDMA-CM. */
export const PORT: Kind = integer(1, 65535)

/** Of those who may connect. */
const SOURCES: Kind = {
  give: `a list of up to ${mad.PUBLISH_SOURCES_MAX} addresses, or ranges as '10.0.0.0/24'`,
  takes: (value) =>
    Array.isArray(value) &&
    value.length <= mad.PUBLISH_SOURCES_MAX &&
    value.every((source) => typeof source === 'string' && rangeOf(source) !== null),
}

const FORMS = {
  librpma: mad.FORM_LIBRPMA,
  capability: mad.FORM_CAPABILITY,
  announced: mad.FORM_ANNOUNCED,
}

const PUBLICATION_KINDS: Kinds<Publication> = {
  name: REGION_NAME,
  port: PORT,
  form: oneOf(Object.keys(FORMS)),
  rights: WORD,
  stock: BOOLEAN,
  from: SOURCES,
  connections: integer(1, 0xffff),
}

/** Throws PERDURE_ARGUMENT where nobody could publish that. */
export function checkPublication(publication: Publication): void {
  checkFields('a publication', publication, PUBLICATION_KINDS, ['name', 'port'])
}

/** Writes it into a body that names the region. */
export function fillPublication(body: Uint8Array, publication: Publication): void {
  const { port, form = 'librpma', rights = 0, stock = false } = publication
  const { from = [], connections = 0 } = publication
  putU16(body, mad.PUBLISH_PORT, port)
  body[mad.PUBLISH_FORM] = FORMS[form]
  body[mad.PUBLISH_FLAGS] = stock ? mad.PUBLISH_STOCK : 0
  putU32(body, mad.PUBLISH_RIGHTS, rights)
  putU16(body, mad.PUBLISH_CONNECTIONS, connections)
  putSources(body, from)
}

/** Who may connect to a port. */
function putSources(body: Uint8Array, from: readonly string[]): void {
  body[mad.PUBLISH_SOURCES] = from.length
  from.forEach((text, i) => {
    const at = mad.PUBLISH_FIRST_SOURCE + i * mad.PUBLISH_SOURCE_BYTES
    const { address, prefix } = rangeOf(text)!
    body.set(address, at)
    body[at + mad.PUBLISH_SOURCE_PREFIX] = prefix
  })
}
