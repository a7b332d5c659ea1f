/**
 * What the program gives to its script: the calls of the system that the supervisor needs, and no
 * more. They are C functions (`script.c`).
 *
 * Invariant: nothing waits, but `ask` for as long as it is told; a call that fails throws
 * an Error whose message says what was tried, on what, and what the system said.
 */

/** What the program's loop waits for. */
export interface Watch {
  /** Descriptors that are to be readable, or that have come to their end. */
  readonly readable: readonly number[]
  /** Descriptors that are to take bytes. */
  readonly writable: readonly number[]
  /** At the latest, ms of `nowMs`. */
  readonly untilMs: number
}

/** What has come. */
export interface Came {
  readonly readable: readonly number[]
  readonly writable: readonly number[]
  /** Processes that have ended: the code that they exited with, or minus the signal's number. */
  readonly ended: readonly { readonly pid: number; readonly status: number }[]
  /** Whether the program was told to end, by SIGTERM or SIGINT. */
  readonly stops: boolean
}

/** What the script gives back when it is started. */
export interface Script {
  watch(): Watch
  turn(came: Came): void
}

/** A program that is started. */
export interface Spawn {
  /** Its path; '/proc/self/fd/N' is a descriptor of ours, which need not be inherited. */
  readonly program: string
  /** Its words, its name first. */
  readonly args: readonly string[]
  /** Its environment, 'NAME=value', and nothing else of ours. */
  readonly env: readonly string[]
  /** Descriptors that it has under the numbers 3, 4 … in this order; no others but stdio. */
  readonly inherits: readonly number[]
}

export interface Host {
  /** The words behind the program's name. */
  readonly args: readonly string[]
  /** 'x86-64' or 'arm64'. */
  readonly architecture: string
  /** A clock that goes on, ms. */
  nowMs(): number
  /** One line on stderr. */
  log(level: 'info' | 'warning' | 'error', text: string): void
  /** One line on stdout. */
  print(text: string): void
  /** All bytes of a file; one with more than `most` is refused. */
  readFile(path: string, most: number): ArrayBuffer

  /** Opens a file or a block device of so many bytes; a file is made, or made longer, durably. */
  openStorage(path: string, bytes: number): number
  /**
   * Locks a file, or a block device, for this program and all that inherit the descriptor; -1:
   * somebody has it. It can only be read by that descriptor.
   */
  lock(path: string): number
  /** Bytes behind the end of a file are zero. */
  readAt(descriptor: number, at: number, length: number): ArrayBuffer
  writeAt(descriptor: number, at: number, bytes: Uint8Array): void
  /** What was written is durable when it returns (fdatasync). */
  sync(descriptor: number): void

  sha256(bytes: Uint8Array): ArrayBuffer
  /** Whether the key of 32 bytes has made that signature of 64 bytes. */
  verify(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean
  /** Unpacks brotli to at most so many bytes. */
  brotli(bytes: Uint8Array, most: number): ArrayBuffer
  /** A file of memory with those bytes, sealed, that no program inherits unless it is told to. */
  memoryFile(name: string, bytes: Uint8Array, executable: boolean): number

  /** A Unix socket that listens; one that nobody listens at is replaced. Mode 0600. */
  listenUnix(path: string): number
  /** A UDP socket: address of IPv4 or IPv6 in numbers, without brackets. Port 0: any. */
  listenUdp(address: string, port: number): number
  /** The port that the system gave it. */
  portOf(descriptor: number): number
  /** A serial line, raw, 8N1; its speed as it is. */
  openTty(path: string): number
  /** A Unix socket for datagrams that this program reads: where a child says how it is. */
  listenNotify(path: string): number
  /** The next connection; -1: none waits. */
  accept(descriptor: number): number
  /** Bytes that wait; null: the end, or a line that is gone; an empty buffer: nothing now. */
  read(descriptor: number, most: number): ArrayBuffer | null
  /** How many of the bytes were taken; -1: the other end is gone. */
  write(descriptor: number, bytes: Uint8Array): number
  /** The next datagram and whom it is from, in a form for `sendTo`; null: none waits. */
  receiveFrom(descriptor: number): { readonly bytes: ArrayBuffer; readonly peer: string } | null
  /** What cannot be sent is dropped. */
  sendTo(descriptor: number, peer: string, bytes: Uint8Array): void
  close(descriptor: number): void

  /** Starts a program; its number. stdin is /dev/null, stdout and stderr are ours. */
  spawn(what: Spawn): number
  /** Sends a signal, by its name without SIG: 'TERM', 'KILL', 'ABRT'. One that is gone: nothing. */
  kill(pid: number, signal: string): void
  /** Says a line to a Unix socket and returns the line that comes back; null: none in time. */
  ask(path: string, line: string, withinMs: number): string | null
  /** Tells the service manager (sd_notify). */
  notify(state: string): void
  /** How often the service manager wants a sign, ms, halved; 0: never. */
  readonly watchdogMs: number
  /** Ends the program behind this turn. */
  exit(code: number): void
}
