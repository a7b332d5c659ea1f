/**
 * A peers file that its card changes (KEEP_PEER of firmware/board/hal.ts): a line comes, a line
 * goes, and all else in it stays as it was written.
 *
 * Invariants:
 * - At every instant the file is read as the peers before the change or as those behind it. A line
 *   comes as a comment first; then one byte makes it a line. A line goes by its first byte, which
 *   becomes that of a comment. Each step is durable before the next one, and one byte is never
 *   torn.
 * - A line comes only if the whole text can be read with it; so no change keeps the card from its
 *   next start.
 * - A change that the file system refuses is taken back, as far as it lets that be done.
 * - No change leaves nobody who may come, or no admin where there was one.
 */

import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { BAD_COMMAND, DONE, type Identity, NOT_KEPT } from '../../firmware/board/hal.ts'
import { keyText } from './keys.ts'
import { type Peer, PeersError, parsePeers } from './peers.ts'

/** What a board keeps of its peers. */
export interface PeersList {
  /** Whom it states at power-on, now. */
  readonly identity: Identity
  /** KEEP_PEER of that text; `comes` says whether the line comes or goes. Its result. */
  keep(text: Uint8Array, comes: boolean): number
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const COMMENT = '#'

interface Content {
  readonly text: string
  /** Bytes of it. */
  readonly length: number
  readonly peers: readonly Peer[]
}

/** Reads and changes the file at a path. */
export class PeersFile {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  /** Its peers. Throws PeersError, and what reading files throws. */
  read(): Peer[] {
    return parsePeers(textOf(readFileSync(this.path), this.path), this.path)
  }

  /** A line comes, or that of a key goes; the result of KEEP_PEER. */
  keep(bytes: Uint8Array, comes: boolean): number {
    let file = -1
    try {
      const text = textOf(bytes, this.path)
      file = openSync(this.path, 'r+')
      return comes ? this.add(file, text) : this.strike(file, text)
    } catch (error) {
      if (error instanceof PeersError) return BAD_COMMAND
      if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
      return NOT_KEPT
    } finally {
      if (file >= 0) closeSync(file)
    }
  }

  private add(file: number, line: string): number {
    const before = this.content(file)
    if (before === null) return NOT_KEPT
    const { text, length, peers } = before
    if (/[\r\n]/.test(line)) return BAD_COMMAND
    if (parsePeers(`${text}\n${line}`, this.path).length === peers.length) return BAD_COMMAND
    // Of a line that was torn once the end is missing.
    const start = text.endsWith('\n') ? '' : '\n'
    writeAt(file, `${start}${COMMENT}${line}\n`, length)
    return this.flip(file, length + start.length, COMMENT, ' ')
  }

  private strike(file: number, key: string): number {
    const before = this.content(file)
    if (before === null) return NOT_KEPT
    const { text, peers } = before
    const left = peers.filter((peer) => keyText(peer.key) !== key)
    if (left.length === peers.length) return BAD_COMMAND
    if (left.length === 0 || (peers.some(isAdmin) && !left.some(isAdmin))) return NOT_KEPT
    let at = 0
    let first = ''
    for (const line of text.split('\n')) {
      first = line.charAt(0)
      const word = /[^ \t\r]+/.exec(line)?.[0]
      if (word?.toLowerCase() === key) break
      at += Buffer.byteLength(line) + 1
    }
    return this.flip(file, at, first, COMMENT)
  }

  /** The byte there becomes another one. Where that may not be durable it is put back. */
  private flip(file: number, at: number, from: string, to: string): number {
    try {
      writeAt(file, to, at)
      return DONE
    } catch (error) {
      writeAt(file, from, at)
      throw error
    }
  }

  /** What it holds, if that can be read as peers: somebody may have spoiled it since. */
  private content(file: number): Content | null {
    try {
      const bytes = readFileSync(file)
      const text = textOf(bytes, this.path)
      const peers = parsePeers(text, this.path)
      return peers.length > 0 ? { text, length: bytes.length, peers } : null
    } catch (error) {
      if (error instanceof PeersError) return null
      throw error
    }
  }
}

function isAdmin({ admin }: Peer): boolean {
  return admin
}

function textOf(bytes: Uint8Array, path: string): string {
  try {
    return UTF8.decode(bytes)
  } catch (cause) {
    throw new PeersError('PEERS_NAME', `${path}: it is no UTF-8 text`, { cause })
  }
}

/** Durably. */
function writeAt(file: number, text: string, at: number): void {
  const bytes = Buffer.from(text)
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(file, bytes, done, bytes.length - done, at + done)
  }
  fdatasyncSync(file)
}
