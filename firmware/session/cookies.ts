/**
 * What a flood of first messages costs: cookies, as WireGuard has them.
 *
 * Invariants:
 * - Of sources that have shown nothing, HANDSHAKES_UNPROVEN messages in a second come to the curve.
 *   What is beyond them costs one hash, and is answered with a cookie of its source.
 * - Who brings the cookie of its address hears what is sent there. Such a source has
 *   HANDSHAKES_PROVEN of its own in a second, whatever others send: a flood keeps nobody out who
 *   answers.
 * - A cookie is nothing but a function of the source and of a secret that is drawn anew every
 *   COOKIE_US: the card keeps nothing for a source that has not shown anything.
 */

import type { BoardState } from '../board/context.ts'
import { COOKIE_US, HANDSHAKES_PROVEN, HANDSHAKES_UNPROVEN, SOURCES } from '../board/limits.ts'
import { drawBytes } from '../board/random.ts'
import * as mad from '../wire/management.ts'
import type { Cookies, SessionState } from './context.ts'

const SECRET_BYTES = 32
const SECOND_US = 1_000_000

export function createCookies(): Cookies {
  return { secret: null, drawnUs: 0, sinceUs: 0, unproven: 0, proven: [] }
}

/**
 * Must the source of a first message, which brings the cookie at `at` or zeros, be asked for its
 * cookie? Then the cookie is at `to`, and zeros behind it, to the end of the body.
 */
export function asksForCookie(
  state: BoardState & SessionState,
  source: string,
  at: number,
  to: number,
): boolean {
  const { bytes, sessions } = state
  if (isUnasked(sessions.cookies, state.connections.nowUs)) return false
  const cookie = cookieOf(state, source)
  if (isCookie(bytes, at, cookie) && hasShare(sessions.cookies, source)) return false
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  bytes.set(cookie, to)
  return true
}

/** Takes one handshake of those that are asked for nothing in this second. */
function isUnasked(cookies: Cookies, nowUs: number): boolean {
  if (nowUs - cookies.sinceUs >= SECOND_US) {
    cookies.sinceUs = nowUs
    cookies.unproven = 0
    cookies.proven.length = 0
  }
  if (cookies.unproven === HANDSHAKES_UNPROVEN) return false
  cookies.unproven += 1
  return true
}

/** Compares in a time that tells nothing of where they differ. */
function isCookie(bytes: Uint8Array, at: number, cookie: Uint8Array): boolean {
  let differs = 0
  for (let i = 0; i < cookie.length; i++) differs |= cookie[i]! ^ bytes[at + i]!
  return differs === 0
}

function cookieOf(state: BoardState & SessionState, source: string): Uint8Array {
  const { cookies, primitives } = state.sessions
  const { nowUs } = state.connections
  if (cookies.secret === null || nowUs - cookies.drawnUs >= COOKIE_US) {
    cookies.secret = drawBytes(state, SECRET_BYTES)
    cookies.drawnUs = nowUs
  }
  const text = new Uint8Array(SECRET_BYTES + source.length)
  text.set(cookies.secret)
  for (let i = 0; i < source.length; i++) text[SECRET_BYTES + i] = source.charCodeAt(i)
  return primitives.hash(text).slice(0, mad.HANDSHAKE_COOKIE_BYTES)
}

/** Takes one handshake of what the source has in this second. */
function hasShare({ proven }: Cookies, source: string): boolean {
  let share = proven.find((one) => one.source === source)
  if (share === undefined) {
    if (proven.length === SOURCES) return false
    share = { source, count: 0 }
    proven.push(share)
  }
  share.count += 1
  return share.count <= HANDSHAKES_PROVEN
}
