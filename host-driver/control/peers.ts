/**
 * The peers of a card in its control calls (firmware/wire/management.ts): what asks for them, what
 * tells one more, and what answers say.
 *
 * Invariant: what is told here is what a line of a peers file may say (boards/software/peers.ts);
 * anything else is PERDURE_ARGUMENT, and nothing was sent.
 */

import { type Peer, PeersError, parsePeers, peersText } from '../../boards/software/peers.ts'
import { PEERS } from '../../firmware/board/limits.ts'
import * as mad from '../../firmware/wire/management.ts'
import { copyOf } from '../base/bytes.ts'
import { ArgumentError } from '../base/errors.ts'
import { BOOLEAN, bytesOf, check, checkFields, type Kind, type Kinds } from '../base/kinds.ts'
import { bodyOf } from './body.ts'
import { nameBytesOf, nameOf } from './region-name.ts'

/** Who shall come to a card, and what he may do there. */
export interface PeerRequest {
  /** His public key, 32 bytes. */
  readonly key: Uint8Array
  /** 1 to 32 bytes of UTF-8, without blanks and control characters; nobody else's there. */
  readonly name: string
  /** He may do everything, and then no region is named. */
  readonly admin?: boolean
  /** Regions that he may read; '*' is every one. Up to 8 with those of `write`. */
  readonly read?: readonly string[]
  /** Regions that he may write and read; '*' is every one. */
  readonly write?: readonly string[]
}

const KEY_BYTES = mad.PEER_NAME - mad.PEER_KEY

const NAMES: Kind = {
  give: 'a list of names',
  takes: (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
}

const REQUEST_KINDS: Kinds<PeerRequest> = {
  key: bytesOf(KEY_BYTES),
  name: { give: 'a text', takes: (value) => typeof value === 'string' },
  ...{ admin: BOOLEAN, read: NAMES, write: NAMES },
}

/** The bodies of ADD_PEER that tell it, in their order. Throws PERDURE_ARGUMENT. */
export function peerBodies(request: PeerRequest): Uint8Array[] {
  checkFields('a peer', request, REQUEST_KINDS, ['key', 'name'])
  const { key, name, admin = false, read = [], write = [] } = request
  checkPeer({ key, name, admin, read, write })
  const regions = [...read, ...write]
  const bodies: Uint8Array[] = []
  for (let from = 0; from === 0 || from < regions.length; from += mad.PEER_REGIONS_PER_MAD) {
    const body = keyBody(key)
    const here = regions.slice(from, from + mad.PEER_REGIONS_PER_MAD)
    body.set(nameBytesOf(name)!, mad.PEER_NAME)
    body[mad.PEER_RIGHTS] = admin ? mad.RIGHTS_ADMIN : 0
    body[mad.PEER_REGIONS_TOTAL] = regions.length
    body[mad.PEER_REGIONS_FROM] = from
    body[mad.PEER_REGIONS_HERE] = here.length
    here.forEach((region, i) => {
      const at = mad.PEER_FIRST_REGION + i * mad.PEER_REGION_BYTES
      body[at] = from + i < read.length ? mad.PEER_MAY_READ : mad.PEER_MAY_WRITE
      body.set(nameBytesOf(region)!, at + mad.PEER_REGION_NAME)
    })
    bodies.push(body)
  }
  return bodies
}

function checkPeer(peer: Peer): void {
  try {
    parsePeers(peersText([peer]), 'a peer')
  } catch (error) {
    if (!(error instanceof PeersError)) throw error
    throw new ArgumentError(error.message, { cause: error })
  }
}

/** The body of a call about the peer that has this public key. Throws PERDURE_ARGUMENT. */
export function keyBody(key: Uint8Array): Uint8Array {
  check('a public key:', key, bytesOf(KEY_BYTES))
  const body = bodyOf()
  body.set(key, mad.PEER_KEY)
  return body
}

/** Asks PEERS: the answer to what is asked of that place, with that modifier, from a region on. */
type Ask = (place: number, body: Uint8Array) => Promise<Uint8Array>

/** All peers that the card tells of. */
export async function readPeers(ask: Ask): Promise<Peer[]> {
  const peers: Peer[] = []
  for (let place = 0; place < PEERS; ) {
    const first = await ask(place, bodyOf())
    if (!hasKey(first)) break
    const peer = await readPeer(ask, first)
    // Another one has the place since: it is asked for again.
    if (peer === null) continue
    peers.push(peer)
    place = first[mad.PEER_PLACE]! + 1
  }
  return peers
}

function hasKey(body: Uint8Array): boolean {
  return body.subarray(mad.PEER_KEY, mad.PEER_NAME).some((byte) => byte !== 0)
}

/** The peer of whom that answer tells the first regions; null if he left meanwhile. */
async function readPeer(ask: Ask, first: Uint8Array): Promise<Peer | null> {
  const key = copyOf(first.subarray(mad.PEER_KEY, mad.PEER_NAME))
  const regions = { read: [] as string[], write: [] as string[] }
  const total = first[mad.PEER_REGIONS_TOTAL]!
  let told = addRegions(first, regions)
  while (told < total) {
    const body = bodyOf()
    body[mad.PEER_REGIONS_FROM] = told
    const answer = await ask(first[mad.PEER_PLACE]!, body)
    const here = addRegions(answer, regions)
    if (here === 0 || key.some((byte, i) => byte !== answer[mad.PEER_KEY + i])) return null
    told += here
  }
  const name = nameOf(first.subarray(mad.PEER_NAME, mad.PEER_PLACE))
  const admin = (first[mad.PEER_RIGHTS]! & mad.RIGHTS_ADMIN) !== 0
  return { key, name, admin, ...regions }
}

/** Adds the regions that the answer tells; how many they are. */
function addRegions(answer: Uint8Array, regions: { read: string[]; write: string[] }): number {
  const here = Math.min(answer[mad.PEER_REGIONS_HERE]!, mad.PEER_REGIONS_PER_MAD)
  for (let i = 0; i < here; i++) {
    const at = mad.PEER_FIRST_REGION + i * mad.PEER_REGION_BYTES
    const name = answer.subarray(at + mad.PEER_REGION_NAME, at + mad.PEER_REGION_BYTES)
    const list = answer[at] === mad.PEER_MAY_WRITE ? regions.write : regions.read
    list.push(nameOf(name))
  }
  return here
}
