/**
 * A board under test: something that runs the firmware bundle, that frames go into and come out of,
 * that can be killed and started again. The conformance suite and the kill tests know boards only
 * by this.
 *
 * Invariants:
 * - A board has one part, which outlives it: what `readImage` gives, another board can be given.
 * - Nothing of a board is left behind by `close`: no process, no folder.
 */

import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { keyText } from '../../../boards/software/keys.ts'
import { peersText } from '../../../boards/software/peers.ts'
import type { Identity } from '../../../firmware/board/hal.ts'

/** What of a board a test asks for; all else is the board's own. */
export interface BoardOptions {
  /** Bytes of its part; a multiple of 4096. A board that has a fixed one may take another. */
  readonly bytes: number
  /** Whether what is stored survives a power cut; a board may be told that nothing does. */
  readonly durable?: boolean
  /**
   * Whether a kill loses every store that was not written back and fenced, as a power cut does:
   * stores go to a copy (boards/linux/src/memory/shadow.h). Without it they go straight to the
   * part.
   */
  readonly shadow?: boolean
  /** A build of the runtime without some write-backs: it must be noticed. */
  readonly dropFlush?: boolean
  /** Its key and its peers, of a board that is quick; without them it is open. */
  readonly identity?: Identity
}

/** The files of that identity, in the folder of a board. */
export function identityFiles(
  folder: string,
  { secret, peers }: Identity,
): { readonly key: string; readonly peers: string } {
  const files = { key: join(folder, 'key'), peers: join(folder, 'peers') }
  writeFileSync(files.key, `${keyText(Uint8Array.from(secret))}\n`)
  chmodSync(files.key, 0o600)
  const known = peers.map((peer) => ({ ...peer, key: Uint8Array.from(peer.key) }))
  writeFileSync(files.peers, peersText(known))
  return files
}

/** One card, off until it is started. */
export interface BoardUnderTest {
  readonly kind: BoardKind
  /** Switches it on; resolves when it serves. Rejects where it does not come up. */
  start(): Promise<void>
  /** Where the host driver reaches it: 'perdure://…'. */
  readonly target: string
  /** SHA-256 of the bundle that it runs, in hexadecimal, as the board itself says. */
  readonly bundleHash: string
  /** Stops where it is, at once, and does nothing more until it is killed; if it can. */
  suspend?(): void
  /** Ends it without a word, at any moment of its life: SIGKILL, to a runtime or to a machine. */
  kill(): Promise<void>
  /** Ends it as its operator does; its exit code. */
  stop(): Promise<number | null>
  /** Takes the power away and gives it back, where a board can; it serves again after that. */
  powerCut(): Promise<void>
  /** One command to its console; what it answers. */
  command(line: string): Promise<Readonly<Record<string, unknown>>>
  /** The bytes of the part, whether it runs or not. */
  readImage(): Uint8Array
  /** Gives it another part of the same size. It must be off. */
  writeImage(bytes: Uint8Array): void
  /** Where it stands and what it said last, for a test that failed. */
  story(): string
  /** Ends it and removes what it left. */
  close(): Promise<void>
}

/** One kind of board. */
export interface BoardKind {
  /** As in PERDURE_BOARDS and `--board`. */
  readonly name: 'emulator' | 'linux' | 'linux-sanitize' | 'qemu-virt'
  /** What it is, for a person. */
  readonly title: string
  /** Why it cannot run here and what helps; null where it can. */
  missing(options?: Pick<BoardOptions, 'dropFlush'>): string | null
  /** It has a console that answers `command`. */
  readonly hasConsole: boolean
  /** `powerCut` takes away what was not durable, and nothing else ends. */
  readonly cutsPower: boolean
  /** It can be told that its medium is not durable. */
  readonly canBeVolatile: boolean
  /** It has a shadow, and a build with write-backs left out. */
  readonly dropsFlush: boolean
  /** Starts in less than a second: a test may start it as often as it likes. */
  readonly isQuick: boolean
  /** Kills inside the conformance suite; `npm run kill` has the long run. */
  readonly killsInShort: number
  make(options: BoardOptions): BoardUnderTest
}

/** A board that a test asked for something that it has not. */
export function notOf(kind: BoardKind, what: string): never {
  throw new Error(`the board ${kind.name} has no ${what}`)
}
