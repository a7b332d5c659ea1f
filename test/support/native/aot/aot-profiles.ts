/**
 * Profiles of a program (`boards/linux/aot/translate/program/profile.h`), made of learned ones:
 * what each function did in one of several shares; and what none did, drawn.
 *
 * Invariant: the same for the same seed. Every line is of a function of the program.
 */

/** As in `boards/linux/aot/seen.h`. */
const SEEN = { INT: 1, FLOAT: 2, BOOL: 4, OBJECT: 8, OTHER: 16, ASIDE: 32, CLASS: 256, SLOT: 65536 }
const CLASSES = 8
const SLOTS = 4

/** What is drawn where an operation may give values. */
const VALUES: readonly number[] = [
  ...[SEEN.INT, SEEN.INT, SEEN.INT, SEEN.BOOL, SEEN.BOOL, SEEN.FLOAT, SEEN.OBJECT, SEEN.OTHER],
  ...[SEEN.INT | SEEN.FLOAT, SEEN.INT | SEEN.BOOL, 31, 0],
]

interface Line {
  /** NAME HASH BYTES. */
  readonly head: string
  readonly bytes: number
  readonly notes: ReadonlyMap<number, number>
}

function linesOf(profile: string): Line[] {
  const lines = profile.split('\n').filter((line) => line !== '')
  return lines.map((line) => {
    const [name, hash, bytes, ...notes] = line.split(' ')
    const pairs = notes.map((note) => note.split(':').map((text) => Number.parseInt(text, 16)))
    return {
      head: `${name} ${hash} ${bytes}`,
      bytes: Number.parseInt(bytes!, 16),
      notes: new Map(pairs.map(([at, mask]) => [at!, mask!])),
    }
  })
}

function textOf(head: string, notes: Iterable<readonly [number, number]>): string {
  const texts = [...notes].map(([at, mask]) => `${at.toString(16)}:${mask.toString(16)}`)
  return `${[head, ...texts].join(' ')}\n`
}

/** Of each function what one of the profiles has, of another function another's. */
export function takeTurns(profiles: readonly string[]): string {
  const learned = profiles.map((text) => new Map(linesOf(text).map((line) => [line.head, line])))
  const heads = [...new Set(learned.flatMap((lines) => [...lines.keys()]))].sort()
  const turned = heads.map((head, turn) => {
    const found = learned.map((lines) => lines.get(head)).filter((line) => line !== undefined)
    return textOf(head, found[turn % found.length]!.notes)
  })
  return turned.join('')
}

/**
 * Of each function of the profile a mask for most offsets: what was seen, anything, or what has
 * consequences. Slots are right, or among the first.
 */
export function drawProfile(profile: string, seed: number): string {
  let state = Math.imul(seed + 1, 0x9e3779b1) | 1
  const below = (count: number): number => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % count
  }
  const draw = (seen: number): number => {
    const kind = below(8)
    if (kind === 0) return 0
    if (kind === 1) return seen
    if (kind === 2) return (below(65536) * 65536 + below(65536)) >>> 0
    const slot = below(3) > 0 ? Math.floor(seen / SEEN.SLOT) : below(SLOTS + 1)
    const array = below(2) * SEEN.CLASS * 2 ** below(CLASSES)
    const ways = below(4) * 64
    const aside = below(3) === 0 ? SEEN.ASIDE : 0
    return slot * SEEN.SLOT + array + ways + aside + VALUES[below(VALUES.length)]!
  }
  const drawn = linesOf(profile).map(({ head, bytes, notes }) => {
    const masks = Array.from({ length: bytes }, (_, at) => draw(notes.get(at) ?? 0))
    return textOf(
      head,
      masks.map((mask, at) => [at, mask] as const).filter(([, mask]) => mask !== 0),
    )
  })
  return drawn.join('')
}
