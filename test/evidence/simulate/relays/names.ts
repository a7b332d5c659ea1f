/**
 * In whose name records lie at a card that another one relays to (D-6), as the judge reads it from
 * the medium: the id of the client over there is nowhere told, so it is learned from the first copy
 * whose every other byte is that of a version of the client.
 *
 * Invariants, of what is judged:
 * - The upper half is the tag of the card that relays: the first 32 bits of the SHA-256 of its key.
 * - A client has one lower half, at every start of either card, and no two clients have the same.
 */

import { createHash } from 'node:crypto'

export class Names {
  private readonly tag: number
  /** Lower halves by client, and who has them. */
  private readonly known: Map<number, number> = new Map()
  private readonly owners: Map<number, number> = new Map()

  /** Of the clients of the card that has that public key. */
  constructor(key: Uint8Array) {
    this.tag = createHash('sha256').update(key).digest().readInt32BE(0)
  }

  /** May a copy of a version of that client name this one? Words are signed. */
  takes(client: number, high: number, low: number): boolean {
    if (high !== this.tag) return false
    const owner = this.owners.get(low)
    if (owner !== undefined) return owner === client
    if (this.known.has(client)) return false
    this.known.set(client, low)
    this.owners.set(low, client)
    return true
  }
}
