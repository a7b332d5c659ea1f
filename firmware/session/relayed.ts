/**
 * In whose name a relay speaks to a card with peers (manage/attach.ts). That card takes of a peer
 * only clients whose ids begin with the peer's tag (sealed.ts), and the peer is this card. So the
 * client that attached has another id over there: the tag of this card, and 32 bits that follow
 * from the client's whole id.
 *
 * Invariants:
 * - It is the same at every start of either card, as nothing makes it but the client's id and the
 *   secret key of this card, both of which outlive them. So what is sent again over there is known
 *   as the same (X-3, D-6), whichever link it comes over. A card that was given another key is
 *   another peer, and its clients are others: of what they had under way nobody knows.
 * - The bits are the first of an HMAC under the secret key, over words that nothing else is made
 *   of: who has not that key finds no two clients that have one id over there but by trying. By
 *   chance two have it as rarely as two clients of one peer, who draw as many bits.
 * - It is nobody else's: another peer has another tag, and nobody comes in the name of this card
 *   who has not its secret key.
 */

import { putU32, u32 } from '../wire/bytes.ts'
import { hmac, type KeyPair, type Primitives } from './noise.ts'
import { clientTag } from './sealed.ts'

/** "Perdure relay" in ASCII. */
const WORDS = [0x50, 0x65, 0x72, 0x64, 0x75, 0x72, 0x65, 0x20, 0x72, 0x65, 0x6c, 0x61, 0x79]

/** The halves of the id that the client has over there. */
export function relayedClient(
  primitives: Primitives,
  own: KeyPair,
  clientHigh: number,
  clientLow: number,
): { readonly clientHigh: number; readonly clientLow: number } {
  const text = new Uint8Array(WORDS.length + 8)
  text.set(WORDS)
  putU32(text, WORDS.length, clientHigh)
  putU32(text, WORDS.length + 4, clientLow)
  const bits = u32(hmac(primitives, own.secret, text), 0)
  return { clientHigh: clientTag(primitives, own.public), clientLow: bits }
}
