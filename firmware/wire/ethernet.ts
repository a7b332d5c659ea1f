/**
 * Ethernet II header (IEEE 802.3, 3.1): 14 bytes, big-endian.
 *
 *    0       1       2       3       4       5
 *   +-------+-------+-------+-------+-------+-------+
 *  0|                  destination                  |
 *   +-------+-------+-------+-------+-------+-------+
 *  6|                    source                     |
 *   +-------+-------+-------+-------+-------+-------+
 * 12|     type      |
 *   +-------+-------+
 *
 * An 802.1Q tag puts four bytes between source and type: 0x8100 and the tag. A frame may be padded
 * to 60 bytes behind its datagram, so the lengths in IP count, never the length of the frame.
 */

export const ETHERNET_BYTES = 14

/** Where the fields stand; answers are made in place, by swapping the two addresses. */
export const ETH_DESTINATION = 0
export const ETH_SOURCE = 6
export const ETH_TYPE = 12

/** Bytes of one address. */
export const MAC_BYTES = 6

/** Bytes that an 802.1Q tag adds. */
export const VLAN_BYTES = 4

export const ETHERTYPE_IPV4 = 0x0800
export const ETHERTYPE_IPV6 = 0x86dd
export const ETHERTYPE_VLAN = 0x8100
