/** The ring of a card's trace (boards/linux/src/trace/trace.h), made by hand. */

export const START = 1
export const CALL = 2
const STORE = 5
export const CLEAN = 6
export const FENCED = 7
const PAD = 0

const HEAD_BYTES = 4096
const AREA_BYTES = 8192

/** Bytes of the part that these rings are of. */
export const RING_PART_BYTES = 131_072

export interface Ring {
  /** The file of the part. */
  readonly part: string
  readonly entries: readonly Buffer[]
  /** Bytes of entries that were overwritten. */
  readonly before?: number
  readonly version?: number
  readonly partBytes?: number
  readonly areaBytes?: number
  /** As the head says it, where that is not so. */
  readonly written?: number
}

export function entry(
  kind: number,
  value: number,
  length = 0,
  data: Buffer = Buffer.alloc(0),
): Buffer {
  const bytes = Buffer.alloc(24 + data.length)
  bytes.writeUInt32LE(bytes.length, 0)
  bytes.writeUInt32LE(kind, 4)
  bytes.writeBigUInt64LE(BigInt(value), 8)
  bytes.writeUInt32LE(length, 16)
  data.copy(bytes, 24)
  return bytes
}

/** A store of these letters where those were. */
export function store(at: number, before: string, after: string): Buffer {
  const bytes = Math.ceil(after.length / 8) * 8
  const data = Buffer.alloc(2 * bytes)
  data.write(before, 0)
  data.write(after, bytes)
  return entry(STORE, at, after.length, data)
}

export function ringBytes({ part, entries, before = 0, ...said }: Ring): Buffer {
  const bytes = Buffer.alloc(HEAD_BYTES + AREA_BYTES)
  let written = before
  for (const one of entries) {
    const rest = AREA_BYTES - (written % AREA_BYTES)
    if (one.length > rest) {
      bytes.writeUInt32LE(rest, HEAD_BYTES + (written % AREA_BYTES))
      bytes.writeUInt32LE(PAD, HEAD_BYTES + (written % AREA_BYTES) + 4)
      written += rest
    }
    one.copy(bytes, HEAD_BYTES + (written % AREA_BYTES))
    written += one.length
  }
  bytes.writeUInt32LE(0x43525450, 0)
  bytes.writeUInt32LE(said.version ?? 1, 4)
  bytes.writeBigUInt64LE(BigInt(said.areaBytes ?? AREA_BYTES), 8)
  bytes.writeBigUInt64LE(BigInt(said.partBytes ?? RING_PART_BYTES), 16)
  bytes.writeBigUInt64LE(3n, 32)
  bytes.writeBigUInt64LE(BigInt(before), 40)
  bytes.writeBigUInt64LE(BigInt(said.written ?? written), 48)
  bytes.write('linux', 56)
  bytes.write(part, 120)
  return bytes
}
