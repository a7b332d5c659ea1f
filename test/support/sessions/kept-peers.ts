/** A list of peers that a card may change, as its board keeps it: in memory, in a file's words. */

import { parsePeers, peersText } from '../../../boards/software/peers.ts'
import type { PeersList } from '../../../boards/software/peers-file.ts'
import { BAD_COMMAND, DONE, type Identity, type Peer } from '../../../firmware/board/hal.ts'

export class KeptPeers implements PeersList {
  text: string
  /** What KEEP_PEER comes to, if it is not done. */
  refuses: number = DONE
  private readonly secret: readonly number[]

  constructor({ secret, peers }: Identity) {
    this.secret = secret
    this.text = peersText(peers.map((peer) => ({ ...peer, key: Uint8Array.from(peer.key) })))
  }

  get peers(): Peer[] {
    return parsePeers(this.text, 'kept').map((peer) => ({ ...peer, key: [...peer.key] }))
  }

  get identity(): Identity {
    return { secret: this.secret, peers: this.peers }
  }

  keep(bytes: Uint8Array, comes: boolean): number {
    if (this.refuses !== DONE) return this.refuses
    const said = Buffer.from(bytes).toString()
    const lines = this.text.split('\n').filter((line) => line !== '')
    const left = comes ? [...lines, said] : lines.filter((line) => !line.startsWith(said))
    try {
      parsePeers(left.join('\n'), 'kept')
    } catch {
      return BAD_COMMAND
    }
    if (left.length === lines.length) return BAD_COMMAND
    this.text = left.map((line) => `${line}\n`).join('')
    return DONE
  }
}
