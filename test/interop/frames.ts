/**
 * Ethernet frames as QEMU's stream network backend says them: each behind its length, big-endian,
 * of four bytes.
 */

const LENGTH_BYTES = 4

/** Hands on every whole frame, and what it came as; returns what is left. */
export function takeFrames(bytes: Buffer, take: (frame: Buffer, as: Buffer) => void): Buffer {
  let at = 0
  while (bytes.length - at >= LENGTH_BYTES) {
    const end = at + LENGTH_BYTES + bytes.readUInt32BE(at)
    if (end > bytes.length) break
    take(bytes.subarray(at + LENGTH_BYTES, end), bytes.subarray(at, end))
    at = end
  }
  return bytes.subarray(at)
}

/** A frame behind its length. */
export function saidFrame(frame: Buffer): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(frame.length)
  return Buffer.concat([length, frame])
}
