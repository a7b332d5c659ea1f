/**
 * What the card asks of the flush agent on the host: one line of the host's memory per request, in
 * a ring (source 2, S1005 to S1008; P2-17 to P2-20).
 *
 *    ring     0 token | 4 receives | 8 0 …                          written by the agent
 *            64 requests, one line each: number n stands in place n modulo REQUESTS
 *
 *    request  0 number  | 4 PSN      | 8 address (64)                written by the card
 *            16 length (64)          | 24 operation (64)
 *            32 queue pair | 36 slot | 40 token | 44 0 …   60 number
 *
 * Little-endian, 32-bit words; the address is an offset in the host's memory, bytes.
 *
 * What always holds: a request is whole when the number stands at both ends, as a line is written
 * upwards; the card writes request n only when the agent has posted a receive for it, `receives`
 * being the number of the last one; the token is the one that the agent was given when it attached,
 * so what is left in this memory from an earlier agent, or an earlier life, is nothing.
 */

import { LINE_BYTES } from '../limits.ts'
import { HOST_RING_AT } from './region.ts'

/** Requests that the ring holds; a power of two. */
export const REQUESTS = 32

export const RING_TOKEN = 0
export const RING_RECEIVES = 4

export const REQUEST_NUMBER = 0
export const REQUEST_PSN = 4
export const REQUEST_ADDRESS = 8
export const REQUEST_LENGTH = 16
export const REQUEST_OPERATION = 24
export const REQUEST_QP = 32
export const REQUEST_SLOT = 36
export const REQUEST_TOKEN = 40
export const REQUEST_END = 60

/** Offset in the host's memory of the line of request `number`. */
export function requestAt(number: number): number {
  return HOST_RING_AT + LINE_BYTES + (number & (REQUESTS - 1)) * LINE_BYTES
}

/** Is number `a` the same as `b` or later? Numbers are 32 bits and wrap. */
export function numberReached(a: number, b: number): boolean {
  return ((a - b) | 0) >= 0
}
