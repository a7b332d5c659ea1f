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

import { isStored, replaced, treeOf, visitBelow } from './tree.mjs'

const CLOSURE = /^(?:Function|ArrowFunction|Class)/
const LOOP = /^(?:For|While|DoWhile)/

/** Where `let` and `const` of a body may become `var`; empty where that is not plain. */
function changesOf(body) {
  const places = []
  const names = []
  const seen = { closure: false, loop: false, bare: false }
  visitBelow(body, (node, parent) => {
    if (CLOSURE.test(node.type)) seen.closure = true
    if (LOOP.test(node.type)) seen.loop = true
    if (node.type !== 'VariableDeclaration' || node.kind === 'var') return
    places.push({ start: node.start, end: node.start + node.kind.length, put: 'var' })
    for (const { id, init } of node.declarations) {
      if (id.type === 'Identifier') names.push(id.name)
      // What a loop goes through has its value at once; of a pattern this is not looked for.
      if (id.type !== 'Identifier' || (init === null && parent.left !== node)) seen.bare = true
    }
  })
  if (seen.closure) return []
  const isTwice = new Set(names).size < names.length
  return seen.bare && (seen.loop || isTwice) ? [] : places
}

/** Where `var` comes in, of a whole bundle. */
function localsOf(tree) {
  const places = []
  visitBelow(tree, (node) => {
    if (node.type === 'FunctionDeclaration') places.push(...changesOf(node.body))
  })
  return places
}

/** Names that the whole bundle writes in capitals: what they hold never changes. */
const CONSTANT = /^[A-Z][A-Z\d]*(?:_[A-Z\d]+)*$/

/** What can be done with two numbers. */
const OPERATIONS = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '**': (a, b) => a ** b,
  '%': (a, b) => a % b,
  '&': (a, b) => a & b,
  '|': (a, b) => a | b,
  '^': (a, b) => a ^ b,
  '<<': (a, b) => a << b,
  '>>': (a, b) => a >> b,
  '>>>': (a, b) => a >>> b,
}

const SIGNS = { '-': (a) => -a, '+': (a) => a, '~': (a) => ~a }

/** What an expression of numbers comes to, given the constants before it; else NaN. */
function amountOf(node, numbers) {
  if (node === null) return Number.NaN
  if (node.type === 'Literal') return typeof node.value === 'number' ? node.value : Number.NaN
  if (node.type === 'Identifier') return numbers.get(node.name) ?? Number.NaN
  const amount = (part) => amountOf(part, numbers)
  if (node.type === 'UnaryExpression' && Object.hasOwn(SIGNS, node.operator)) {
    return SIGNS[node.operator](amount(node.argument))
  }
  if (node.type !== 'BinaryExpression' || !Object.hasOwn(OPERATIONS, node.operator)) {
    return Number.NaN
  }
  const [left, right] = [amount(node.left), amount(node.right)]
  // A number that is none would be a zero to the operations on bits.
  if (Number.isNaN(left) || Number.isNaN(right)) return Number.NaN
  return OPERATIONS[node.operator](left, right)
}

/** The constants that are whole numbers, from the declarations at the outermost level. */
function numbersOf(tree) {
  const numbers = new Map()
  const declarators = outermost(tree)
    .filter(({ type, kind }) => type === 'VariableDeclaration' && kind === 'var')
    .flatMap(({ declarations }) => declarations)
  for (const { id, init } of declarators) {
    const value = amountOf(init, numbers)
    if (CONSTANT.test(id.name ?? '') && Number.isSafeInteger(value) && value >= 0) {
      numbers.set(id.name, value)
    }
  }
  const places = new Set(declarators.map(({ id }) => id))
  visitBelow(tree, (node, parent) => {
    if (isStored(node, parent) && !places.has(node)) numbers.delete(node.name)
  })
  return numbers
}

/** The statements of the bundle, which is one function that is called at once. */
function outermost({ body }) {
  const init = body.at(-1)?.declarations?.[0].init
  if (init?.type !== 'CallExpression') throw new Error('the bundle is not one function')
  return init.callee.body.body
}

/** Is it a name that stands for its value, and no key of an object? */
function isValue(node, parent) {
  if (node.type !== 'Identifier' || isStored(node, parent)) return false
  if (parent.type === 'MemberExpression') return parent.object === node || parent.computed
  return parent.key !== node || parent.computed
}

/**
 * Where a numeric constant is read, and what it is. The bundler itself puts literals there only
 * for those that stand before everything else in their file.
 */
function literalsOf(tree) {
  const numbers = numbersOf(tree)
  const places = []
  visitBelow(tree, (node, parent) => {
    if (!isValue(node, parent) || !numbers.has(node.name)) return
    const { name, start, end } = node
    const key = parent.shorthand ? `${name}: ` : ''
    places.push({ start, end, put: key + numbers.get(name) })
  })
  return places
}

/** The bundle, tightened. Throws a SyntaxError for what is no script. */
export function tightened(text) {
  const tree = treeOf(text)
  return replaced(text, [...literalsOf(tree), ...localsOf(tree)])
}
