/**
 * The Ethernet address of a card where nobody gives it another.
 *
 * Invariant: it has the last three bytes of the card's IPv4 address. So two cards of one network
 * have two, and whoever knows where a card is can send there.
 */

export function macOfCard(ipv4: readonly number[]): number[] {
  return [0x02, 0, 0, ...ipv4.slice(1)]
}
