/**
 * The host's ordinary memory behind PCIe, where its queues and buffers lie.
 */

export class HostRam {
  readonly live: Uint8Array
  readonly liveWords: Int32Array

  constructor(bytes: number) {
    this.live = new Uint8Array(bytes)
    this.liveWords = new Int32Array(this.live.buffer)
  }

  get bytes(): number {
    return this.live.length
  }

  /** A posted write. */
  dmaWrite(at: number, source: Uint8Array, from: number, length: number): void {
    this.live.set(source.subarray(from, from + length), at)
  }

  /** Whether a read of those bytes is answered. */
  dmaRead(at: number, length: number): boolean {
    return at + length <= this.bytes
  }
}
