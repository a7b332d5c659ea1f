/**
 * The peers file of a card: who may come, and what each may do there. A line for each:
 *
 *     PUBLICKEY NAME RIGHT…
 *
 * with blanks between; blank lines and those that begin with `#` are passed over. A right is
 * `admin`, `read:REGION` or `write:REGION`, and to write includes to read. REGION is the name of a
 * region, percent-encoded, or `*` for every region.
 *
 * Invariants:
 * - A key and a name stand once, and so does a region of a peer. So each line says something, and
 *   no two contradict each other.
 * - The ids of a peer's clients begin with what follows from its key (firmware/session/sealed.ts),
 *   and with that of no other peer.
 * - What `peersText` writes, `parsePeers` reads as the same peers. A region that is called `*` can
 *   be neither written nor read: it would be every region.
 * - A refusal names the line, and says what to write instead. It quotes nothing that is as long as
 *   a key; what it quotes may hold what a terminal obeys.
 */

import { PEER_REGIONS, PEERS, REGION_NAME_BYTES } from '../../firmware/board/limits.ts'
import { isControl, isSurrogate } from '../../firmware/medium/region-name.ts'
import { clientTag } from '../../firmware/session/sealed.ts'
import { CodedError } from '../coded-error.ts'
import { KeyError, keyText, parseKey } from './keys.ts'
import { hash } from './noise-primitives.ts'

/** Longest name of a peer, bytes of UTF-8. */
const NAME_BYTES = 32

/** Longest word that a refusal quotes: a longer one may be a private key in a wrong place. */
const QUOTED_LENGTH_MAX = 32

/** Stands for every region. */
const EVERY = '*'

/** Who may come, and what he may do there: everything as an admin, or else in these regions. */
export interface Peer {
  /** His public key, 32 bytes. */
  readonly key: Uint8Array
  /** 1 to 32 bytes of UTF-8, without blanks and control characters. */
  readonly name: string
  readonly admin: boolean
  /** Regions that he may read and not write; '*' for every region. */
  readonly read: readonly string[]
  /** Regions that he may write and read; '*' for every region. */
  readonly write: readonly string[]
}

export type PeersFault =
  /** The first word is no public key. */
  | 'PEERS_KEY'
  /** No name, one that is too long, or one with blanks or control characters. */
  | 'PEERS_NAME'
  /** No right, one that is none, or others beside `admin`. */
  | 'PEERS_RIGHT'
  /** What no region is called, or the percent-encoding of nothing. */
  | 'PEERS_REGION'
  /** A key, what its clients' ids begin with, a name, or a region of a peer stands there twice. */
  | 'PEERS_TWICE'
  /** More peers than PEERS, or more regions of one than PEER_REGIONS. */
  | 'PEERS_MANY'

/** A peers file cannot be used; the message says where, and what to write instead. */
export class PeersError extends CodedError<PeersFault> {
  override readonly name = 'PeersError'
}

/** Throws a PeersError with these words about the place that it is made for. */
type Refuse = (code: PeersFault, words: string, cause?: Error) => never

function refusalAt(place: string): Refuse {
  return (code, words, cause) => {
    throw new PeersError(code, `${place}: ${words}`, { cause })
  }
}

/**
 * The peers of the text, in its order. `source` is what refusals call it: the path of the file.
 * Throws PeersError.
 */
export function parsePeers(text: string, source: string): Peer[] {
  const peers: Peer[] = []
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    const words = line.split(/[ \t]+/).filter((word) => word !== '')
    if (words.length === 0 || words[0]!.startsWith('#')) continue
    const refuse = refusalAt(`${source}, line ${i + 1}`)
    const peer = peerOf(words, refuse)
    check(peer, peers, refuse)
    peers.push(peer)
  }
  return peers
}

/** The text of a peers file that holds these. Throws PeersError, which counts them from 1. */
export function peersText(peers: readonly Peer[]): string {
  const lines = peers.map((peer, i) => {
    check(peer, peers.slice(0, i), refusalAt(`peer ${i + 1}`))
    return `${keyText(peer.key)} ${peer.name} ${rightsOf(peer).join(' ')}\n`
  })
  return lines.join('')
}

/** What it may do, in the words of its line. */
export function rightsOf({ admin, read, write }: Peer): string[] {
  if (admin) return ['admin']
  const named = (right: string) => (region: string) => `${right}:${encodeURIComponent(region)}`
  return [...read.map(named('read')), ...write.map(named('write'))]
}

function peerOf([key, name, ...rights]: readonly string[], refuse: Refuse): Peer {
  const peer = { key: keyOf(key!, refuse), name: name ?? '', admin: false }
  const regions = { read: [] as string[], write: [] as string[] }
  for (const right of rights) {
    const [, verb, region] = /^(read|write):(.*)$/s.exec(right) ?? []
    if (right === 'admin') peer.admin = true
    else if (verb === undefined)
      refuse('PEERS_RIGHT', `${quoted(right)} is no right: ${GIVE_RIGHT}`)
    else regions[verb as keyof typeof regions].push(regionOf(region!, refuse))
  }
  return { ...peer, ...regions }
}

const GIVE_RIGHT = 'write admin, read:REGION or write:REGION'
const GIVE_ENCODED = 'write its name percent-encoded, %20 for a blank and %25 for %'

function keyOf(word: string, refuse: Refuse): Uint8Array {
  try {
    return parseKey(word)
  } catch (error) {
    if (!(error instanceof KeyError)) throw error
    return refuse('PEERS_KEY', `a line begins with a key. Here ${error.message}`, error)
  }
}

function regionOf(word: string, refuse: Refuse): string {
  if (word === EVERY) return EVERY
  let region = ''
  try {
    region = decodeURIComponent(word)
  } catch (cause) {
    refuse('PEERS_REGION', `${quoted(word)} names no region: ${GIVE_ENCODED}`, cause as Error)
  }
  if (region !== EVERY) return region
  return refuse(
    'PEERS_REGION',
    `a region cannot be named ${quoted(word)}: write * for every region`,
  )
}

/** Refuses a peer that no file may hold behind those before it. */
function check(peer: Peer, before: readonly Peer[], refuse: Refuse): void {
  const { key, name } = peer
  if (!isName(name, NAME_BYTES) || /\s/.test(name)) {
    const give = `1 to ${NAME_BYTES} bytes without blanks and control characters`
    refuse('PEERS_NAME', `a name stands behind the key: write ${give}`)
  }
  checkRights(peer, refuse)
  if (before.length >= PEERS) refuse('PEERS_MANY', `a card knows ${PEERS} peers: leave some out`)
  const sameKey = before.find((other) => keyText(other.key) === keyText(key))
  if (sameKey !== undefined) {
    const words = `${quoted(name)} has the key of ${quoted(sameKey.name)}`
    refuse('PEERS_TWICE', `${words}: write all rights of a key in one line`)
  }
  const tag = tagOf(key)
  const sameTag = before.find((other) => tagOf(other.key) === tag)
  if (sameTag !== undefined) {
    const words = `clients of ${quoted(name)} could be taken for those of ${quoted(sameTag.name)}`
    refuse('PEERS_TWICE', `${words}: have a new key made`)
  }
  if (before.some((other) => other.name === name)) {
    refuse('PEERS_TWICE', `${quoted(name)} is the name of another: write a name of its own`)
  }
}

/** What the ids of its clients begin with. */
function tagOf(key: Uint8Array): number {
  return clientTag({ hash }, key)
}

function checkRights({ name, admin, read, write }: Peer, refuse: Refuse): void {
  const regions = [...read, ...write]
  if (admin && regions.length > 0) {
    refuse('PEERS_RIGHT', 'an admin may do everything: write no right beside admin')
  }
  if (!admin && regions.length === 0) {
    refuse('PEERS_RIGHT', `${quoted(name)} has no right: ${GIVE_RIGHT}`)
  }
  if (regions.length > PEER_REGIONS) {
    const words = `${regions.length} regions of one peer, and ${PEER_REGIONS} can be`
    refuse('PEERS_MANY', `${words}: write fewer, or * for every region`)
  }
  const wrong = regions.find((region) => !isName(region, REGION_NAME_BYTES))
  if (wrong !== undefined) {
    const give = `write 1 to ${REGION_NAME_BYTES} bytes without control characters`
    refuse('PEERS_REGION', `no region is called ${quoted(wrong)}: ${give}`)
  }
  const twice = regions.find((region, i) => regions.indexOf(region) < i)
  if (twice !== undefined) {
    const words = `region ${quoted(twice)} stands there twice`
    refuse('PEERS_TWICE', `${words}: write it once, for to write includes to read`)
  }
}

/** Whether it is UTF-8 of 1 to so many bytes that moves nobody's cursor. */
function isName(text: string, most: number): boolean {
  const points = Array.from(text, (letter) => letter.codePointAt(0)!)
  if (points.some((point) => isControl(point) || isSurrogate(point))) return false
  return points.length > 0 && Buffer.byteLength(text) <= most
}

function quoted(word: string): string {
  return word.length > QUOTED_LENGTH_MAX ? 'a long word' : `'${word}'`
}
