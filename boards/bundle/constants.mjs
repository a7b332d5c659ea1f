/**
 * Rewrites a bundle for Node so that its constants are constants: of what stands at the outermost
 * level the bundler makes `var`, so that Node reads each of them anew at every use, as anybody
 * might have stored something else. What runs for minutes runs a tenth longer for that.
 *
 * Invariant: the program means what it meant. A `var` at the beginning of a line becomes
 * `const` where nothing else in the whole text assigns to a name like it, be it another one's. What
 * this does not see, a name stored to by a pattern, throws when it is. Lines of a template are none
 * of the program's: the source map has nothing for them but the place of the line before.
 */

/** What is stored to: a name, and behind it a sign that assigns. */
const STORED =
  /(?<![\w$.])([A-Za-z_$][\w$]*)\s*(?:=(?![=>])|\+\+|--|(?:[-+*/%&|^]|\*\*|<<|>>>?|&&|\|\||\?\?)=)/g

const DECLARED = /^var ([A-Za-z_$][\w$]*) = /

/** Increments that stand before the name. */
const STEPPED = /(?:\+\+|--)\s*([A-Za-z_$][\w$]*)/g

/** A line that begins with something of its own: column 0, and not the place before once more. */
const BEGUN = /^A(?!AAA)/

/** `mappings` is what the source map of the text calls so. */
export function constsForVars(text, mappings) {
  const stored = new Map()
  for (const pattern of [STORED, STEPPED]) {
    for (const [, name] of text.matchAll(pattern)) stored.set(name, (stored.get(name) ?? 0) + 1)
  }
  const places = mappings.split(';')
  const lines = text.split('\n').map((line, i) => {
    const name = DECLARED.exec(line)?.[1]
    if (stored.get(name) !== 1 || !BEGUN.test(places[i] ?? '')) return line
    return `const${line.slice('var'.length)}`
  })
  return lines.join('\n')
}
