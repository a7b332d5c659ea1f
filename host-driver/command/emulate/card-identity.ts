/**
 * Who may come to an emulated card: its key, its peers, and what is told of them.
 *
 * Invariants:
 * - The secret key of the card and that of its operator stay in their files.
 * - The emulator sets its card up as an admin of its own, whose key nobody else ever has.
 */

import { existsSync } from 'node:fs'
import { clientKeyPath, readKeyFile, writeKeyFile } from '../../../boards/software/key-file.ts'
import { createKeyPair, keyText, publicKeyOf } from '../../../boards/software/keys.ts'
import { PeersError } from '../../../boards/software/peers.ts'
import { PeersFile, type PeersList } from '../../../boards/software/peers-file.ts'
import { DONE, type Identity, NOT_KEPT, type Peer } from '../../../firmware/board/hal.ts'
import { PEERS } from '../../../firmware/board/limits.ts'
import { ArgumentError } from '../../base/errors.ts'
import { checkFile } from '../base/system-errors.ts'

export interface CardIdentity {
  readonly peers: PeersList
  /** The card's public key, as text. */
  readonly publicKey: string
  /** The secret key of the emulator's own admin. */
  readonly admin: Uint8Array
  /** What a person is told of it. */
  readonly told: string
}

/**
 * The identity that `--key` and `--peers` name; null of an open card. A key file that is not there
 * is made. Without `--peers` the one who may come is its operator, by his own key, which is made
 * likewise, and that stays so. Throws ArgumentError, KeyError, PeersError.
 */
export function cardIdentityOf(key?: string, peersFile?: string): CardIdentity | null {
  if (key === undefined) {
    if (peersFile !== undefined) throw new ArgumentError('--peers is of --key')
    return null
  }
  const file = peersFile === undefined ? null : new PeersFile(peersFile)
  const secret = keyOf(key)
  const admin = createKeyPair()
  const own = { ...NOBODY, key: [...admin.public], name: 'emulator', admin: true }
  const peers = new KeptPeers(secret, own, file)
  const names = peers.guests.map(({ name }) => name)
  return {
    peers,
    publicKey: keyText(publicKeyOf(secret)),
    admin: admin.secret,
    told: `takes calls in sessions of its peers only: ${names.join(', ')}`,
  }
}

/** Those of the file, as it was read and was changed since, and the emulator itself. */
class KeptPeers implements PeersList {
  guests: readonly Peer[]
  private readonly secret: Uint8Array
  private readonly own: Peer
  private readonly file: PeersFile | null

  constructor(secret: Uint8Array, own: Peer, file: PeersFile | null) {
    this.secret = secret
    this.own = own
    this.file = file
    this.guests = file === null ? [operator()] : peersIn(file)
  }

  get identity(): Identity {
    return { secret: [...this.secret], peers: [...this.guests, this.own] }
  }

  keep(text: Uint8Array, comes: boolean): number {
    const result = this.file?.keep(text, comes) ?? NOT_KEPT
    if (result === DONE) this.guests = peersIn(this.file!)
    return result
  }
}

const NOBODY: Peer = { key: [], name: '', admin: false, read: [], write: [] }

/** The key of the file, which is made where there is none. */
function keyOf(path: string): Uint8Array {
  if (!existsSync(path)) writeKeyFile(path, createKeyPair().secret)
  return readKeyFile(path)
}

/** Whoever runs this command, and any other one, without saying which key. */
function operator(): Peer {
  const key = publicKeyOf(keyOf(clientKeyPath()))
  return { ...NOBODY, key: [...key], name: 'operator', admin: true }
}

function peersIn(file: PeersFile): Peer[] {
  const { path } = file
  checkFile(path, 'A line for each: PUBLICKEY NAME RIGHT…')
  const peers = file.read()
  if (peers.length === 0) {
    throw new PeersError('PEERS_KEY', `${path}: nobody could come. Write a line for each peer`)
  }
  // The emulator has a place, too.
  if (peers.length === PEERS) {
    throw new PeersError('PEERS_MANY', `${path}: an emulated card knows ${PEERS - 1} peers`)
  }
  return peers.map((peer) => ({ ...peer, key: [...peer.key] }))
}
