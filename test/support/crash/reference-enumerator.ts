/**
 * The crash model once more, as plainly as it can be said: a list of pieces, and every image by
 * recursion. Slow, for parts of a few lines; nvdimm.test.ts compares the emulated part with it.
 */

type ReferenceMode = 'strict' | 'prefix' | 'chunk' | 'line'

interface Piece {
  readonly at: number
  readonly bytes: Uint8Array
  cleaned: boolean
}

export class ReferencePart {
  readonly durable: Uint8Array
  private pieces: Piece[] = []

  constructor(length: number) {
    this.durable = new Uint8Array(length)
  }

  store(at: number, bytes: Uint8Array): void {
    for (let from = 0; from < bytes.length; ) {
      const length = Math.min(8 - ((at + from) % 8), bytes.length - from)
      const piece = bytes.slice(from, from + length)
      this.pieces.push({ at: at + from, bytes: piece, cleaned: false })
      from += length
    }
  }

  clean(at: number, length: number): void {
    const first = Math.floor(at / 64)
    const last = Math.floor((at + length - 1) / 64)
    for (const piece of this.pieces) {
      const line = Math.floor(piece.at / 64)
      if (line >= first && line <= last) piece.cleaned = true
    }
  }

  fence(): void {
    for (const piece of this.pieces) if (piece.cleaned) this.durable.set(piece.bytes, piece.at)
    this.pieces = this.pieces.filter((piece) => !piece.cleaned)
  }

  /** What chooses on its own: pieces of the whole part, of a line, of a chunk; in store order. */
  private groups(mode: ReferenceMode): Piece[][] {
    const unit = { strict: Number.MAX_SAFE_INTEGER, prefix: 64, chunk: 8, line: 64 }[mode]
    const groups = new Map<number, Piece[]>()
    for (const piece of this.pieces) {
      const group = Math.floor(piece.at / unit)
      groups.set(group, [...(groups.get(group) ?? []), piece])
    }
    return [...groups.values()]
  }

  /** Every image that a cut may leave, in hex. */
  images(mode: ReferenceMode): Set<string> {
    const found = new Set<string>()
    const visit = (image: Uint8Array, rest: readonly Piece[][]): void => {
      const [group, ...others] = rest
      if (group === undefined) {
        found.add(Buffer.from(image).toString('hex'))
        return
      }
      for (let kept = 0; kept <= group.length; kept++) {
        if (mode === 'line' && kept > 0 && kept < group.length) continue
        const next = image.slice()
        for (const piece of group.slice(0, kept)) next.set(piece.bytes, piece.at)
        visit(next, others)
      }
    }
    visit(this.durable, this.groups(mode))
    return found
  }

  /** How many `images` builds, some of them more than once: what it costs. */
  buildCount(mode: ReferenceMode): number {
    return this.groups(mode).reduce((count, { length }) => count * (length + 1), 1)
  }

  /** How many there are, where they are too many to visit: each group chooses on its own. */
  imageCount(mode: ReferenceMode): bigint {
    let count = 1n
    for (const group of this.groups(mode)) {
      const image = this.durable.slice()
      const states = new Set([Buffer.from(image).toString('hex')])
      for (const [i, piece] of group.entries()) {
        image.set(piece.bytes, piece.at)
        if (mode === 'line' && i < group.length - 1) continue
        states.add(Buffer.from(image).toString('hex'))
      }
      count *= BigInt(states.size)
    }
    return count
  }
}
