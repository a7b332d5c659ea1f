/**
 * Everything the firmware asks of a machine, and the facts that a board states.
 *
 * Invariants:
 * - The core does no I/O. A frame comes in through packet memory; everything that goes out, a store
 *   into the NVDIMM or a frame onto the wire, leaves through one list of commands, in the order of
 *   the list. An acknowledgement therefore stands *behind* the fence that earns it.
 * - `run` executes the list in order and stops at the first command that fails. What stands behind
 *   a failed command has not happened: a fence that fails can acknowledge nothing.
 * - Payloads never enter the JavaScript heap. A command names memory by address; an address is one
 *   exact integer, the number of the space times 2^48 plus the offset in that space.
 * - A frame's memory in the transmit places is the core's again when `run` returns.
 *
 * A board is a folder that states its facts and serves `run`: nothing in `firmware/` changes.
 */

import {
  BURST_FRAMES,
  COMMANDS_MAX,
  DOORBELLS,
  FRAME_STRIDE_BYTES,
  LINE_BYTES,
  TRANSMIT_FRAMES,
} from './limits.ts'

/**
 * Distance between the address spaces. Packet memory, which board and firmware share
 * (`Machine.memory`), is space 0: an address in it is its offset.
 */
export const SPACE_BYTES: number = 2 ** 48

/** The NVDIMM, from its first byte that belongs to us. */
export const NVDIMM_SPACE: number = SPACE_BYTES

/**
 * The host's persistent memory behind PCIe: the window, or pieces of it (ARRANGE). A copy to it is
 * a posted DMA write: it is done when it has left, not when it has arrived. A copy from it is a DMA
 * read, which by the ordering rules of PCIe pushes every posted write before it (source 2, S905).
 * No command writes back the caches of a host.
 */
export const HOST_SPACE: number = 2 * SPACE_BYTES

/**
 * The host's ordinary memory, as its IOMMU shows it to the card: where its queues and buffers lie.
 * The offset is the address that the host gave. A copy to it is a posted DMA write, whose failure
 * nobody is told; one from it is a DMA read, which pushes every posted write before it, those to
 * HOST_SPACE too, and which fails as DMA_FAILED. Nothing in it outlives the host's power.
 */
export const DMA_SPACE: number = 3 * SPACE_BYTES

/**
 * The host's ordinary memory by virtual addresses of its own (shared virtual addressing): one space
 * of SPACE_BYTES behind the other, `Facts.sharedSpaces` of them, each an address space that the
 * host has bound to that number (PASID). Its IOMMU translates every access, which lies in one page
 * of 4096 bytes; COPY and COMPARE alone may name it. Of a page that it does not translate a read is
 * DMA_FAILED, and a write is lost. Otherwise it is as DMA_SPACE, in the same order.
 */
export const SHARED_SPACE: number = 4 * SPACE_BYTES

/*
 * The command ring: COMMANDS_MAX descriptors of eight Float64 words, one line each.
 *
 *   word   0    1      2    3        4     5        6       7
 *        +----+------+----+--------+-----+--------+-------+----------+
 *        | op | from | to | length | aux | result | owner | reserved |
 *        +----+------+----+--------+-----+--------+-------+----------+
 *
 * All of them are integers; addresses are exact below 2^53.
 */
export const OP = 0
export const FROM = 1
export const TO = 2
export const LENGTH = 3
export const AUX = 4
export const RESULT = 5
/** The composer's mark, not read by the board: on whose behalf the command stands there. */
export const OWNER = 6
export const COMMAND_WORDS = 8

/** Copies `length` bytes. Later commands see them; nothing is durable. */
export const COPY = 1
/**
 * Copies `length` bytes and starts to write back every line touched (CLWB, DC CVAP): after the
 * next FENCE they are durable. A line that it writes whole loses a media error that it had; where
 * the platform wants to be asked for that (clear error), the board does so before the store.
 */
export const COPY_CLEAN = 2
/** Starts to write back the lines of [to, to + length). */
export const FLUSH = 3
/** Waits until every line whose write-back was started is in the persistence domain. */
export const FENCE = 4
/**
 * 128-bit SipHash-2-4 of [from, from + length) under the 16-byte key at address `aux`; its 16
 * bytes go to `to` (D-3).
 */
export const CHECK = 5
/** Compares [from, from + length) with [to, to + length): `result` is EQUAL or DIFFERENT. */
export const COMPARE = 6
/** Sends the frame at `from`; `aux` says which ICRC the board fills into its last four bytes. */
export const TRANSMIT = 7
/** Does nothing: a command that the firmware took back. */
export const SKIP = 8
/**
 * Adds to the aligned 64-bit word at `to`, which is in the machine's own byte order. The number
 * stands at `from` in packet memory as in AtomicETH, the original goes to `aux` as in AtomicAckETH:
 * both big-endian. Nothing else sees the word in between; its write-back is started.
 */
export const FETCH_ADD = 9
/** Likewise: stores the number at `from` if the word equals the number at `from + 8`. */
export const COMPARE_SWAP = 10
/**
 * Is the guard of [from, from + length) the number `aux`, 1 to 2^32 - 1? A guard is the CRC-32C of
 * RFC 3720 (polynomial 0x1edc6f41, reflected), or 2^32 - 1 where that is 0. Another one fails as
 * GUARD_FAILED: nothing behind the command happens.
 */
export const GUARD = 11

/**
 * From here on HOST_SPACE shows these pieces of the window, one behind the other, and nothing else:
 * [from, from + length) in packet memory has 8 bytes for each, first page and pages of 4096 bytes,
 * two words of 32 bits in the machine's own byte order, at most HOST_PIECES. None: the whole
 * window, as at power-on. BAD_COMMAND, and nothing has changed, where a piece is empty, leaves the
 * window or overlaps another one, or where the board cannot show them so.
 */
export const ARRANGE = 12

/**
 * Writes `length` bytes, a multiple of 4, at `to`: the stream of ChaCha20 (RFC 8439 2.4) under the
 * key of 32 bytes at `from`, nonce and first block counter 0. Both lie in packet memory, and may
 * overlap: the key is read before anything is written, and kept nowhere else.
 */
export const KEYSTREAM = 13

/*
 * What sessions are made of (session/). All of it lies in packet memory, and is read before
 * anything is written; a command that fails writes nothing. What is secret is kept nowhere else
 * when the command is done. Of SEAL and UNSEAL `from` and `to` may be the same place; where they
 * share a byte otherwise it is BAD_COMMAND.
 */

/**
 * X25519 (RFC 7748 5): the scalar of 32 bytes at `from` times the point of 32 bytes at `aux`, 32
 * bytes, go to `to`; `length` is 32. A product of zeros fails as AUTHENTICATION_FAILED.
 */
export const AGREE = 14
/** SHA-256 (FIPS 180-4) of [from, from + length): its 32 bytes go to `to`. */
export const HASH = 15
/**
 * ChaCha20-Poly1305 (RFC 8439 2.8): seals [from, from + length) to [to, to + length + 16), the tag
 * at the end. At `aux` lie the key, 32 bytes, the nonce, 12 bytes, the length of the associated
 * data, 32 bits in the machine's own byte order, at most SEAL_DATA_BYTES, and that data.
 */
export const SEAL = 16
/**
 * Opens [from, from + length), 16 bytes of it the tag, to [to, to + length - 16); `aux` as for
 * SEAL. Another tag fails as AUTHENTICATION_FAILED, and nothing is written.
 */
export const UNSEAL = 17
export const SEAL_KEY_BYTES = 32
export const SEAL_NONCE_BYTES = 12
export const SEAL_TAG_BYTES = 16
export const SEAL_DATA_BYTES = 64

/**
 * From here on the frames of a place have tags (wire/tag.ts): `aux` is the place, 0 to
 * QUEUE_PAIRS - 1, [from, from + length) in packet memory the key of what comes, 32 bytes, that of
 * what goes, 32 bytes, and the number of the queue pair there, 32 bits in the machine's own byte
 * order: 68 bytes. None: the place has no tags any more. Counters begin at 0, and nothing has come.
 */
export const SECURE = 18
export const SECURE_BYTES = 68

/**
 * Changes the list of peers that the board states at power-on (`Facts.identity`), durably. `aux` 1:
 * [from, from + length) in packet memory, at most PEER_LINE_BYTES, is one more line of a peers file
 * (boards/doc/operating.md), UTF-8 without its end. `aux` 0: it is the public key, 64 hexadecimal
 * digits, whose line goes. NOT_KEPT, and nothing has changed, where the board keeps its list as it
 * is; BAD_COMMAND likewise for what no line of the list can be, and for a key that has none. It may
 * take as long as a file system does.
 */
export const KEEP_PEER = 19

/** `aux` of a copy to the host's memory: asks for the no-snoop attribute (source 2, S905). */
export const NO_SNOOP = 1

/**
 * `aux` of TRANSMIT is one of the three, and where the frame leaves with a tag, of the keys of a
 * place, (place + 1) * TAGGED more: the board fills its trailer, and the ICRC behind it.
 */
export const TAGGED = 16

/** `aux` of TRANSMIT: the ICRC of wire-format 2.1. */
export const ICRC_STANDARD = 0
/** The frame is not RoCEv2 (ARP, neighbour discovery) and goes out as it is. */
export const ICRC_NONE = 1
/** The value that Linux puts on a FLUSH request (wire-format 2.5). */
export const ICRC_LINUX_FLUSH = 2

/** What a command left in its `result`. */
export const DONE = 0
export const EQUAL = 0
export const DIFFERENT = 1
/** The medium could not deliver or take the bytes: an uncorrectable error. */
export const MEDIA_ERROR = 2
/** The save energy is not armed: nothing that reaches the persistence domain would survive. */
export const NOT_ARMED = 3
/** The write-back failed: what it covered may not be durable. */
export const FLUSH_FAILED = 4
/** An address outside its space, or an unknown operation: a bug of the firmware, refused. */
export const BAD_COMMAND = 5
/** The machine lost power inside the list. */
export const NO_POWER = 6
/**
 * The host's memory did not answer a read: unsupported request, completer abort (IOMMU), poisoned
 * or timed-out completion, or no host any more (PCIe Base 2.3.2, 6.2).
 */
export const DMA_FAILED = 7
/** The bytes have another guard: between who computed it and here they were damaged. */
export const GUARD_FAILED = 8
/** What a peer sent proves nothing: another tag than the key gives, a point of small order. */
export const AUTHENTICATION_FAILED = 9
/** The board keeps its peers as they are: it has no file of them, or may not write it. */
export const NOT_KEPT = 10

/*
 * Packet memory, first the part that the board knows. Offsets are bytes.
 *
 *   HEALTH_AT     one line, the board's to write at any time: Int32 word 0 the health bits
 *   CALL_ENDED_AT in that line, a Float64: when the last call of the firmware was over and what it
 *                 sent had left, µs as calls have them; 0 of a board that does not say
 *   PORT_AT       the registers that the host sees of the card, and its doorbells
 *   RECEIVED_AT   BURST_FRAMES pairs of Int32: length of frame i, and its flags
 *   COMMANDS_AT   the command ring
 *   RECEIVE_AT    BURST_FRAMES places of FRAME_STRIDE_BYTES; frames start at FRAME_OFFSET_BYTES
 *   TRANSMIT_AT   TRANSMIT_FRAMES places, likewise
 *   PRIVATE_AT    the firmware's own
 */
export const HEALTH_AT = 0
export const CALL_ENDED_AT: number = HEALTH_AT + 8
export const PORT_AT: number = HEALTH_AT + LINE_BYTES

/*
 * The port: registers of 32 bits, little-endian, offsets from PORT_AT. The host writes by posted
 * PCIe writes, which the board carries out in their order; the board never lets the host write what
 * is the board's or the firmware's.
 *
 *    0 epoch      host      not 0, and another one than before: take the queues of the header page
 *    4 header     host      number of that page: its address / 4096
 *    8 register   host      doorbell, register form: ring count << 16 | queue; 0 is deleted
 *   12 pointer    host      its write pointer; written together with the word before
 *   16 produced   board     doorbells appended to the ring so far (first in, first out)
 *   20 consumed   firmware  doorbells taken from it so far
 *   24 dropped    board     doorbells that found the ring full, or came while nobody served
 *   28 link       board     0 without a host behind the port; else another number than before
 *                          each time that the link was down
 *   64 ring       board     DOORBELLS entries of two words: queue | CARRIES_POINTER, write pointer
 */
export const PORT_EPOCH: number = PORT_AT
export const PORT_HEADER: number = PORT_AT + 4
export const PORT_REGISTER: number = PORT_AT + 8
export const PORT_POINTER: number = PORT_AT + 12
export const PORT_PRODUCED: number = PORT_AT + 16
export const PORT_CONSUMED: number = PORT_AT + 20
export const PORT_DROPPED: number = PORT_AT + 24
export const PORT_LINK: number = PORT_AT + 28
export const PORT_RING: number = PORT_AT + LINE_BYTES
export const DOORBELL_BYTES = 8
/** Bit of a doorbell's first word: the second is the write pointer of that queue. */
export const CARRIES_POINTER: number = 1 << 16

export const RECEIVED_AT: number = PORT_RING + DOORBELLS * DOORBELL_BYTES
export const COMMANDS_AT: number = RECEIVED_AT + BURST_FRAMES * 8
export const RECEIVE_AT: number = COMMANDS_AT + COMMANDS_MAX * COMMAND_WORDS * 8
export const TRANSMIT_AT: number = RECEIVE_AT + BURST_FRAMES * FRAME_STRIDE_BYTES
export const PRIVATE_AT: number = TRANSMIT_AT + TRANSMIT_FRAMES * FRAME_STRIDE_BYTES

/** Health bit: the save energy is armed. Without it nothing is acknowledged as durable (D-13). */
export const ARMED = 1
/**
 * Health bit, from power-on and always the same: what a fence has passed outlives the process that
 * is the board, and not the power. Receipts and STATUS say so (P2-15).
 */
export const VOLATILE = 4
/** Health bit: the last save of the NVDIMM failed or was incomplete; what it holds is suspect. */
export const SAVE_FAILED = 2
/**
 * Health bit: this firmware is on trial, and goes back to the one before it unless it is confirmed.
 * It does nothing else for that than say so.
 */
export const ON_TRIAL = 8

/** Flag of a received frame: its ICRC is the standard one (wire-format 2.1). */
export const ICRC_GOOD = 1
/** Flag of a received FLUSH request: its ICRC is the one that Linux computes (wire-format 2.5). */
export const ICRC_GOOD_LINUX_FLUSH = 2
/**
 * Flag of a received frame: it is for a queue pair with tags (SECURE), its tag is that of the key,
 * and its counter is none of a frame that had this flag before.
 */
export const TAG_GOOD = 4

/** Who may come, and what to do. */
export interface Peer {
  /** Its public key, 32 bytes. */
  readonly key: readonly number[]
  readonly name: string
  /** It may do everything. */
  readonly admin: boolean
  /** Names of the regions that it may read, and that it may write and read; '*' is every one. */
  readonly read: readonly string[]
  readonly write: readonly string[]
}

/** Sessions: the card's own secret key, 32 bytes, and its peers, at least one and at most PEERS. */
export interface Identity {
  readonly secret: readonly number[]
  readonly peers: readonly Peer[]
}

/** What a board states about itself, once, at power-on. Plain data: it crosses as JSON. */
export interface Facts {
  /** The board's name, as in `boards/`. */
  readonly board: string
  /** Bytes of the NVDIMM that are ours; a multiple of 4096. */
  readonly nvdimmBytes: number
  /** Bytes of the window into the host's persistent memory, all of HOST_SPACE at first; or 0. */
  readonly hostBytes: number
  /** Bytes of DMA_SPACE: the addresses that a host behind PCIe may give; 0 if there is no host. */
  readonly dmaBytes: number
  /** Address spaces of the host that its IOMMU translates for the card, 0 to 8; 0 unless said. */
  readonly sharedSpaces?: number
  /** Refuse the FLUSH requests of Linux, whose ICRC is not the standard one (wire-format 9). */
  readonly strictIcrc: boolean
  /** Unsafe shutdowns that the part has counted (NFIT/SMART); it grows when a save failed. */
  readonly dirtyShutdowns: number
  /** Ethernet address of the port, six bytes. */
  readonly mac: readonly number[]
  /** IPv4 address of the port, four bytes. */
  readonly ipv4: readonly number[]
  /** IPv6 address of the port, sixteen bytes. */
  readonly ipv6: readonly number[]
  /** Largest path MTU that the port carries, bytes: 256, 512, 1024, 2048 or 4096. */
  readonly pathMtu: number
  /** Eight 32-bit words of entropy, fresh at every power-on: the key of the generator. */
  readonly entropy: readonly number[]
  /** The card takes calls in sessions of its peers only; it is open where this is absent. */
  readonly identity?: Identity
}

/** One machine, as the core sees it. */
export interface Machine {
  readonly facts: Facts
  /** Packet memory: at least `MEMORY_BYTES` (memory-map.ts), zeroed at power-on. */
  readonly memory: ArrayBuffer
  /**
   * Runs the first `count` descriptors of the command ring in order. Returns how many were done
   * without an error; if that is less than `count`, the descriptor at that index says why in
   * `result`, and nothing behind it has happened.
   */
  run(count: number): number
}
