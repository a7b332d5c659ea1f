/**
 * The trailer of a packet of a queue pair with tags: 24 bytes between payload, with its pad, and
 * ICRC.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|         counter, high         |
 *   +-------+-------+-------+-------+
 *  4|         counter, low          |
 *   +-------+-------+-------+-------+
 *  8|        tag (16 bytes)         |
 *
 * The tag is that of ChaCha20-Poly1305 (RFC 8439 2.8) over no text and, as associated data, all
 * from BTH to the counter; the byte of BTH that routers change (FECN, BECN) counts as 0xff, as in
 * the ICRC. Each direction of a queue pair has its own key. The nonce is four zeros and the
 * counter, little-endian: a packet that is sent again has another one, and so another tag. The
 * receiver takes each counter once, and none more than TAG_WINDOW behind the newest.
 *
 * The lengths in IP and UDP include it. Its keys come with CONNECT, in a session.
 */

/** Bytes of the trailer. */
export const TRAILER_BYTES = 24
export const TRAILER_TAG = 8
export const TAG_KEY_BYTES = 32

/** Packets behind the newest one that may still come. */
export const TAG_WINDOW = 255
