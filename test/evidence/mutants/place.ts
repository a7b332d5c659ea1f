/**
 * Where a piece of code stands in a source, whatever its lines, columns and comments are.
 *
 * Invariant: both are compared word by word, as the compiler sees them. So a change of the
 * format moves nothing, and a piece that stands there changed, or twice, is not taken for another.
 */

interface Word {
  readonly text: string
  readonly from: number
  readonly end: number
}

const WORD = new RegExp(
  [
    String.raw`\/\*[\s\S]*?\*\/|\/\/[^\n]*`,
    String.raw`'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"`,
    '`(?:\\\\[\\s\\S]|[^`\\\\])*`',
    String.raw`[\w$]+`,
    String.raw`[^\s\w]`,
  ].join('|'),
  'g',
)

/** The words of some code; a comma in front of a bracket that closes is the formatter's. */
function wordsOf(code: string): Word[] {
  const words = [...code.matchAll(WORD)]
    .map(({ 0: text, index }) => ({ text, from: index, end: index + text.length }))
    .filter(({ text }) => !/^\/[*/]/.test(text))
  return words.filter(({ text }, i) => !(text === ',' && /^[)\]}]$/.test(words[i + 1]?.text ?? '')))
}

const known = new Map<string, readonly Word[]>()

function wordsOfSource(source: string): readonly Word[] {
  let words = known.get(source)
  if (words === undefined) {
    words = wordsOf(source)
    known.set(source, words)
  }
  return words
}

/** From where to where `piece` stands in `source`, at each place: offsets of characters. */
export function placesOf(piece: string, source: string): readonly (readonly [number, number])[] {
  const words = wordsOfSource(source)
  const wanted = wordsOf(piece)
  const places: (readonly [number, number])[] = []
  for (let at = 0; at + wanted.length <= words.length; at++) {
    if (!wanted.every(({ text }, i) => words[at + i]!.text === text)) continue
    places.push([words[at]!.from, words[at + wanted.length - 1]!.end])
  }
  return places
}

/** The source with what stands at that place replaced. */
export function replacedAt(
  source: string,
  [from, end]: readonly [number, number],
  text: string,
): string {
  return source.slice(0, from) + text + source.slice(end)
}
