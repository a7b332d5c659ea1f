/**
 * One record as a register: which values may be seen when (durable linearizability, O1, O2, O5).
 *
 * Every version has its own bytes, so what is seen names the version. Of each there are two times:
 * the first at which something that saw it, or its acknowledgement, ended, and the last at which
 * something that saw it, or its write, began. Between the two, in this or the other order, lies its
 * zone. A history of such a register can be put into one order exactly if no two zones of the first
 * order overlap, and none of them contains a zone of the second (Gibbons and Korach 1997). A power
 * cut changes nothing of that: what was acknowledged or seen stays, so the same test is made of
 * the bytes that a restart finds.
 *
 * Invariant: a version that was refused for good is never seen.
 */

import type { Names } from './relays/names.ts'

/** Versions that are kept of a record: those before are certainly overwritten. */
const KEPT = 16
const KEPT_LEAST = 8
const KEPT_MOST = 200

export interface Version {
  /** Names the bytes (frames.ts); 0 is the blank record. */
  readonly uid: number
  readonly length: number
  readonly client: number
  readonly operation: number
  /** The guard that came with it, once it was worked out; 0 without one. */
  guard: number | null
  /** When its write began, and the last that saw it. */
  lastBegin: number
  /** When the first that saw it, or its acknowledgement, ended; Infinity until then. */
  firstEnd: number
  readonly begun: number
  /** The card has said that it will never be. */
  refused: boolean
  /** Somebody may still send it again. */
  open: boolean
  /** Durable copies that were promised, 0 while nothing was. */
  promised: number
  /** Durable copies that its acknowledgement waits for: so many media errors may take it. */
  wait: number
  /** It comes by a relay: in whose name it lies there, as the judge learns it. Else null. */
  names: Names | null
}

export class Register {
  readonly name: string
  readonly versions: Version[] = []
  /** What was seen last: a record that takes nothing more shows it permanently. */
  private shown: Version | null = null
  /** Its medium was hit: what is overwritten in one copy may be all that another has. */
  isHurt = false
  /** A save may fail: what was overwritten before its last fences may come back. */
  comesBack = false
  /** When each read that is under way began: it may show what stood there then. */
  private readonly readers: number[] = []

  constructor(name: string) {
    this.name = name
    this.begin(0, 0, 0, 0, 0)
    this.versions[0]!.firstEnd = 0
    this.versions[0]!.open = false
  }

  /** The record was given up, or made: it is blank from that write on. */
  begin(uid: number, length: number, client: number, operation: number, now: number): Version {
    const version: Version = {
      uid,
      length,
      client,
      operation,
      guard: null,
      lastBegin: now,
      firstEnd: Infinity,
      begun: now,
      refused: false,
      open: true,
      promised: 0,
      wait: Infinity,
      names: null,
    }
    const { versions } = this
    if (versions.length >= KEPT && !this.isHurt && !this.comesBack) this.forget()
    versions.push(version)
    return version
  }

  /**
   * A restart was judged. What nobody has seen, and nobody sends again, will never be: its
   * connections are gone.
   */
  restarted(): void {
    const { versions } = this
    for (let i = 0; i < versions.length; i++) {
      const version = versions[i]!
      if (!version.open && version.firstEnd === Infinity) version.refused = true
    }
  }

  /** Whatever was seen, and promised, counts no more: any version may be there. */
  forgive(): void {
    for (const version of this.versions) {
      version.firstEnd = Infinity
      version.lastBegin = version.begun
      version.promised = 0
    }
  }

  /** All of its copies are one: what is certainly overwritten is in none of them. */
  settled(): void {
    if (this.versions.length >= KEPT) this.forget()
  }

  readBegins(now: number): void {
    this.readers.push(now)
  }

  readEnds(begun: number): void {
    const { readers } = this
    const place = readers.indexOf(begun)
    if (place >= 0) readers.splice(place, 1)
  }

  /**
   * Forgets what was refused, or is certainly overwritten: by a version that was there before any
   * read that is under way began. An answer may be late by many writes.
   */
  private forget(): void {
    const { versions, readers } = this
    const oldest = readers.length === 0 ? Infinity : Math.min(...readers)
    let newest = 0
    for (let i = 0; i < versions.length; i++) {
      const { firstEnd, begun } = versions[i]!
      if (firstEnd < oldest && begun > newest) newest = begun
    }
    let kept = 0
    for (let i = 0; i < versions.length; i++) {
      const version = versions[i]!
      const { open, refused, firstEnd, begun } = version
      const isOver = !open && (refused || (firstEnd < newest && begun < newest))
      if (isOver && version !== this.shown && kept + versions.length - i > KEPT_LEAST) continue
      versions[kept++] = version
    }
    versions.length = kept
    if (kept <= KEPT_MOST) return
    // One that somebody may still send may yet be there, however old it is.
    const over = versions.findIndex((one) => one !== this.shown && !one.open)
    if (over >= 0) versions.splice(over, 1)
  }

  /** The newest version of those bytes, or null. */
  find(matches: (version: Version) => boolean): Version | null {
    const { versions } = this
    for (let i = versions.length - 1; i >= 0; i--) {
      if (matches(versions[i]!)) return versions[i]!
    }
    return null
  }

  /** Somebody saw it, or was told of it, from `begin` to `end`: what is wrong, or null. */
  see(version: Version, begin: number, end: number): string | null {
    this.shown = version
    if (version.refused) return `${this.name}: ${nameOf(version)} was refused, and is there`
    if (begin > version.lastBegin) version.lastBegin = begin
    if (end < version.firstEnd) version.firstEnd = end
    const { versions } = this
    for (let i = 0; i < versions.length; i++) {
      const other = versions[i]!
      if (other !== version && other.firstEnd !== Infinity && clash(version, other)) {
        return `${this.name}: ${nameOf(version)} and ${nameOf(other)} in no order`
      }
    }
    return null
  }
}

function nameOf({ uid, operation, begun }: Version): string {
  return `version ${uid} (operation ${operation}, begun at ${begun})`
}

/** Can the two not be put into an order? */
function clash(a: Version, b: Version): boolean {
  const aForward = a.firstEnd < a.lastBegin
  const bForward = b.firstEnd < b.lastBegin
  if (!aForward && !bForward) return false
  const aLow = aForward ? a.firstEnd : a.lastBegin
  const aHigh = aForward ? a.lastBegin : a.firstEnd
  const bLow = bForward ? b.firstEnd : b.lastBegin
  const bHigh = bForward ? b.lastBegin : b.firstEnd
  if (aForward && bForward) return aLow < bHigh && bLow < aHigh
  return aForward ? aLow < bLow && bHigh < aHigh : bLow < aLow && aHigh < bHigh
}
