/**
 * Rewrites the bundle of the firmware so that QuickJS, which compiles what it reads as it stands,
 * does less: of all that it does for a record this saves a tenth to a fifth.
 *
 * - It looks at every read of a `let` or `const` whether that has been initialised yet; a `var` it
 *   reads as it is. In the sources they stay `let` and `const`, and the compiler and its checks see
 *   those.
 * - A constant of a module is a variable of a closure to it. A literal costs a third of that.
 *
 * Invariant: the program means what it meant. Where that is not plain, nothing is changed:
 * - `var` comes only into functions that make no closure, class or method, so that nobody can tell
 *   one turn of a loop's variable from the next; and that have no loop, and declare no name twice,
 *   if they declare anything without a value: else that of the turn or block before could be seen.
 * - No name hides another: the bundler gives every inner name one that no scope around it has.
 * - A constant is named in capitals, is declared once at the outermost level with numbers alone,
 *   and is stored to nowhere else.
 */

/** One token: a comment, a string, a template without one in it, a word, a number, a sign. */
const TOKEN = new RegExp(
  [
    String.raw`\/\*[\s\S]*?\*\/|\/\/[^\n]*`,
    String.raw`"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'`,
    '`(?:[^`\\\\]|\\\\[\\s\\S])*`',
    String.raw`[\p{ID_Start}$_#][\p{ID_Continue}$]*|\d[\w.]*|=>|[^\s]`,
  ].join('|'),
  'gu',
)

/** Signs and words behind which a slash begins a regular expression, and no division. */
const BEFORE_VALUE = /^(?:[([{,;:=!&|?+\-*%<>~^]|=>|return|typeof|case|in|of|do|else)$/

/** Words before a parenthesis and a block that are no function. */
const CONTROL = new Set(['if', 'for', 'while', 'switch', 'catch'])
const LOOPS = new Set(['for', 'while', 'do'])
const CLOSURES = new Set(['function', '=>', 'class'])
const OPENING = new Set(['(', '[', '{'])

/** Tokens with the place of each, and for every bracket the index of its other half. */
function tokensOf(text) {
  const tokens = []
  const open = []
  for (const { 0: word, index } of text.matchAll(TOKEN)) {
    if (word.startsWith('//') || word.startsWith('/*')) continue
    if (word === '/' && BEFORE_VALUE.test(tokens.at(-1)?.word ?? ';')) {
      throw new Error('a regular expression in the firmware: tighten.mjs reads none')
    }
    const token = { word, at: index, other: -1, within: open.at(-1) ?? -1 }
    if (OPENING.has(word)) open.push(tokens.length)
    else if (word === ')' || word === ']' || word === '}') {
      token.other = open.pop()
      tokens[token.other].other = tokens.length
    }
    tokens.push(token)
  }
  return tokens
}

/** Does the body make a function in any way? */
function makesClosure(tokens, from, to) {
  for (let i = from; i < to; i++) {
    const { word } = tokens[i]
    if (CLOSURES.has(word) && tokens[i - 1].word !== '.') return true
    // A method: a block behind parentheses that no word of control stands before.
    if (word !== '{' || tokens[i - 1].word !== ')') continue
    if (!CONTROL.has(tokens[tokens[i - 1].other - 1].word)) return true
  }
  return false
}

/** Names that the declaration at `i` makes; `bare` counts those without a value. */
function declared(tokens, i, to) {
  const names = []
  let bare = 0
  for (let k = i + 1; k < to; k++) {
    const { word } = tokens[k]
    const next = tokens[k + 1].word
    if (word === '{' || word === '[') return { names: [], bare: 1 }
    names.push(word)
    if (next === 'of' || next === 'in') break
    if (next !== '=') bare++
    // To the comma or the end of this declarator.
    for (k++; tokens[k].word !== ',' && tokens[k].word !== ';'; k++) {
      if (OPENING.has(tokens[k].word)) k = tokens[k].other
      if (tokens[k].word === '}') return { names, bare: bare + 1 }
    }
    if (tokens[k].word === ';') break
  }
  return { names, bare }
}

/** Where `let` and `const` of a body may become `var`; empty where that is not plain. */
function changesOf(tokens, from, to) {
  if (makesClosure(tokens, from, to)) return []
  const places = []
  const seen = new Set()
  let bare = 0
  let twice = false
  let loops = false
  for (let i = from; i < to; i++) {
    const { word } = tokens[i]
    if (tokens[i - 1].word === '.') continue
    if (LOOPS.has(word)) loops = true
    if (word !== 'let' && word !== 'const') continue
    const found = declared(tokens, i, to)
    places.push(i)
    bare += found.bare
    for (const name of found.names) {
      if (seen.has(name)) twice = true
      seen.add(name)
    }
  }
  return bare > 0 && (loops || twice) ? [] : places
}

/** Names that the whole bundle writes in capitals: what they hold never changes. */
const CONSTANT = /^[A-Z][A-Z\d]*(?:_[A-Z\d]+)*$/

/** Numbers, and what can be done with them. */
const ARITHMETIC = /^(?:0x[\da-f]+|[\d.]+(?:e\d+)?|[\s()*+%&|^~<>-])+$/i

/** Where the declarator that begins at `i` ends: at its comma, or at the semicolon of them all. */
function endOfDeclarator(tokens, i) {
  let end = i
  while (tokens[end].word !== ',' && tokens[end].word !== ';') {
    end = OPENING.has(tokens[end].word) ? tokens[end].other + 1 : end + 1
  }
  return end
}

/** What such an expression comes to, given the constants before it; undefined if it is another. */
function amountOf(tokens, from, to, numbers) {
  const words = tokens.slice(from, to).map(({ word }) => numbers.get(word) ?? word)
  const expression = words.join(' ').replaceAll(/([*<>]) (?=[*<>])/g, '$1')
  if (!ARITHMETIC.test(expression)) return undefined
  const value = new Function(`return ${expression}`)()
  return Number.isSafeInteger(value) && value >= 0 ? value : undefined
}

/** The constants that are whole numbers, from their declarations at the outermost level. */
function numbersOf(tokens) {
  const numbers = new Map()
  const places = new Set()
  const outer = tokens.findIndex(({ word }) => word === '{')
  for (let i = outer + 1; i < tokens[outer].other; i++) {
    if (OPENING.has(tokens[i].word)) i = tokens[i].other
    if (tokens[i].word !== 'var') continue
    do {
      const name = tokens[i + 1].word
      const end = endOfDeclarator(tokens, i + 1)
      const value = amountOf(tokens, i + 3, end, numbers)
      if (CONSTANT.test(name) && tokens[i + 2].word === '=' && value !== undefined) {
        numbers.set(name, value)
        places.add(i + 1)
      }
      i = end
    } while (tokens[i].word === ',')
  }
  for (let i = 1; i < tokens.length - 1; i++) {
    if (!places.has(i) && isStored(tokens, i)) numbers.delete(tokens[i].word)
  }
  return numbers
}

/** What stands before the sign of equality in a store that also computes. */
const STORES = ['+', '-', '*', '/', '%', '&', '|', '^', '<', '>', '?']

/** Is a constant stored to there? */
function isStored(tokens, i) {
  const [before, word, one, two] = tokens.slice(i - 1, i + 3).map((token) => token.word)
  if (!CONSTANT.test(word) || before === '.') return false
  if (one === '=' && two !== '=') return true
  if (STORES.includes(one) && two === '=') return !['<', '>'].includes(one)
  return (
    (one === two && (one === '+' || one === '-')) || (before === '+' && tokens[i - 2].word === '+')
  )
}

/** Is it the name of a property there, and no value? */
function isKey(tokens, i) {
  const before = tokens[i - 1].word
  const after = tokens[i + 1].word
  if (before === '.') return true
  return (before === '{' || before === ',') && (after === ':' || after === '}' || after === ',')
}

/** Does it stand in parentheses or in an array, so that it can be no key? */
function isArgument(tokens, i) {
  if (tokens[i - 1].word === '.') return false
  return tokens[tokens[i].within]?.word !== '{'
}

/**
 * The bundle with its numeric constants as literals. The bundler itself does this only for those
 * that stand before everything else in their file.
 */
export function literalsForConstants(text) {
  const tokens = tokensOf(text)
  const numbers = numbersOf(tokens)
  const parts = []
  let at = 0
  for (let i = 1; i < tokens.length - 1; i++) {
    const { word, at: from } = tokens[i]
    const value = numbers.get(word)
    if (value === undefined || (tokens[i + 1].word === '=' && tokens[i + 2].word !== '=')) continue
    if (isKey(tokens, i) && !isArgument(tokens, i)) continue
    parts.push(text.slice(at, from), value)
    at = from + word.length
  }
  return parts.join('') + text.slice(at)
}

/** The bundle with `var` where nobody can tell the difference. */
export function varsForLocals(text) {
  const tokens = tokensOf(text)
  const parts = []
  let at = 0
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i].word !== 'function' || tokens[i - 1]?.word === '.') continue
    let paren = i + 1
    while (tokens[paren].word !== '(') paren++
    const body = tokens[paren].other + 1
    for (const place of changesOf(tokens, body + 1, tokens[body].other)) {
      const { word, at: from } = tokens[place]
      parts.push(text.slice(at, from), 'var')
      at = from + word.length
    }
  }
  return parts.join('') + text.slice(at)
}
