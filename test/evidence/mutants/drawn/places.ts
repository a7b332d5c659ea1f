/**
 * Every place of a source where a mutant can be made, and the one mutant of each kind there.
 *
 * Invariant: a mutant is one change of one file: a comparison, a constant, an operator, a
 * call that is left out, an assignment that is left out, two statements in the other order. It is
 * named by file, line, column and kind, and the same text has the same mutants. Where nothing of
 * the product is decided there is none: types, asserts with all that they compare, imports, and
 * text, which is read by people alone. Neighbours that plainly commute are not swapped, what the
 * file itself calls 0 is not subtracted instead of added, and where the less or the greater of two
 * is taken, that comparison stands, as it does between two that were found to differ. A mark that
 * is set is not set to another mark, but not set.
 */

import { commute } from './commute.ts'
import {
  childrenOf,
  type Edit,
  isFunction,
  isNode,
  isStatement,
  type Node,
  parsed,
} from './syntax.ts'

type Kind =
  | 'comparison'
  | 'constant'
  | 'arithmetic'
  | 'logic'
  | 'call dropped'
  | 'assignment dropped'
  | 'swapped'

export interface Drawn {
  /** From the root, with slashes. */
  readonly file: string
  readonly line: number
  /** From 1. */
  readonly column: number
  readonly kind: Kind
  readonly edits: readonly Edit[]
  /** Name of the function around it, or nothing. */
  readonly within: string
  /** Where the innermost statement around it begins; its mark tells who comes there. */
  readonly statement: number
}

/** What stands for an operator. A comparison moves by one, or is turned round. */
const OPERATORS: Readonly<Record<string, readonly [Kind, string]>> = {
  '<': ['comparison', '<='],
  '<=': ['comparison', '<'],
  '>': ['comparison', '>='],
  '>=': ['comparison', '>'],
  '===': ['comparison', '!=='],
  '!==': ['comparison', '==='],
  '+': ['arithmetic', '-'],
  '-': ['arithmetic', '+'],
  '*': ['arithmetic', '+'],
  '/': ['arithmetic', '*'],
  '%': ['arithmetic', '+'],
  '<<': ['arithmetic', '>>'],
  '>>': ['arithmetic', '<<'],
  '>>>': ['arithmetic', '>>'],
  '&': ['arithmetic', '|'],
  '|': ['arithmetic', '&'],
  '^': ['arithmetic', '|'],
  '&&': ['logic', '||'],
  '||': ['logic', '&&'],
  '??': ['logic', '&&'],
  '+=': ['arithmetic', '-='],
  '-=': ['arithmetic', '+='],
  '*=': ['arithmetic', '+='],
  '|=': ['arithmetic', '&='],
  '&=': ['arithmetic', '|='],
  '^=': ['arithmetic', '|='],
  '<<=': ['arithmetic', '>>='],
  '>>=': ['arithmetic', '<<='],
  '>>>=': ['arithmetic', '>>='],
  '++': ['arithmetic', '--'],
  '--': ['arithmetic', '++'],
}

/** What is no part of the product: it stops a bug, and a caller never comes there. */
function isExcluded(node: Node): boolean {
  if (node.type === 'ImportDeclaration' || node.type === 'ThrowStatement') return true
  if (node.type !== 'CallExpression') return false
  const callee = node.callee as Node
  return callee.type === 'Identifier' && callee.name === 'assert'
}

/** The edit, with brackets around both sides and the left one. */
function bracketed(node: Node, left: Node, edit: Edit): Edit[] {
  const insert = (at: number, text: string): Edit => ({ start: at, end: at, text })
  return [insert(node.start, '(('), insert(left.end, ')'), edit, insert(node.end, ')')]
}

export function placesIn(file: string, text: string): Drawn[] {
  return new Finder(file, text).found
}

class Finder {
  readonly found: Drawn[] = []
  private readonly file: string
  private readonly text: string
  private within = ''
  /** -1 where no statement has begun. */
  private statement = -1
  private inFunction = false
  /** Comparisons that choose between alike, if what they compare is equal; or it never is. */
  private readonly choices = new Set<Node>()
  /** Numbers that are part of a constant which has its mutant; and those that are marks. */
  private readonly constants = new Set<Node>()
  private readonly flags = new Set<Node>()
  /** What stands in front of a `??`, and is one. */
  private readonly chained = new Set<Node>()

  /** Where lines begin. */
  private readonly lines: readonly number[]

  constructor(file: string, text: string) {
    this.file = file
    this.text = text
    this.lines = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]
    this.visit(parsed(text))
  }

  /** From 1. */
  private lineOf(at: number): number {
    let [low, high] = [0, this.lines.length]
    while (low + 1 < high) {
      const middle = (low + high) >> 1
      if (this.lines[middle]! <= at) low = middle
      else high = middle
    }
    return low + 1
  }

  private visit(node: Node): void {
    if (isExcluded(node) || this.isAssert(node)) return
    const { within, statement, inFunction } = this
    if (isFunction(node)) this.within = nameOf(node) ?? this.within
    // What runs when the module is loaded is one statement of the module.
    if (isStatement(node) && (inFunction || statement < 0)) this.statement = node.start
    this.lookAt(node)
    // What stands in the head of a function runs when its body does.
    const body = isFunction(node) ? (node.body as Node) : null
    if (body !== null) {
      this.statement = firstOf(body).start
      this.inFunction = true
    }
    for (const child of childrenOf(node)) this.visit(child)
    this.within = within
    this.statement = statement
    this.inFunction = inFunction
  }

  private isAssert({ type, expression }: Node): boolean {
    return type === 'ExpressionStatement' && isExcluded(expression as Node)
  }

  private lookAt(node: Node): void {
    const { type } = node
    if (this.isChoice(node)) this.choices.add(node.test as Node)
    const different = this.comparedIfDifferent(node)
    if (different !== null) this.choices.add(different)
    this.noteFlags(node)
    if (type === 'BinaryExpression' || type === 'LogicalExpression') this.operator(node)
    if (type === 'AssignmentExpression') this.operator(node)
    if (type === 'UpdateExpression') this.update(node)
    if (type === 'UnaryExpression') this.unary(node)
    if (/^(Numeric|BigInt|Boolean)Literal$/.test(type)) this.constant(node)
    if (type === 'ExpressionStatement') this.dropped(node)
    const list = type === 'BlockStatement' || type === 'Program' ? node.body : node.consequent
    if (Array.isArray(list)) this.swaps(list.filter(isNode))
  }

  private add(kind: Kind, at: number, edits: readonly Edit[]): void {
    const line = this.lineOf(at)
    const column = at - this.lines[line - 1]! + 1
    const { file, within, statement } = this
    this.found.push({ file, line, column, kind, edits, within, statement })
  }

  private replace(kind: Kind, start: number, end: number, text: string): void {
    this.add(kind, start, [{ start, end, text }])
  }

  private operator(node: Node): void {
    const made = OPERATORS[String(node.operator)]
    if (made === undefined || isText(node) || this.choices.has(node)) return
    const [left, right] = [node.left as Node, node.right as Node]
    const at = this.text.indexOf(String(node.operator), left.end)
    if (at < 0 || at >= right.start || this.isZero(node.operator, right)) return
    const edit = { start: at, end: at + String(node.operator).length, text: made[1] }
    if (node.operator === '??' && left.operator === '??') this.chained.add(left)
    // Beside another `??` no other operator may stand without brackets.
    const brackets = node.operator === '??' && (left.operator === '??' || this.chained.has(node))
    this.add(made[0], at, brackets ? bracketed(node, left, edit) : [edit])
  }

  /** `a < b ? a : b`, or `if (a > b) b = a`: of two that are equal either may be taken. */
  private isChoice(node: Node): boolean {
    const { type, test, consequent, alternate } = node
    const isEither = type === 'ConditionalExpression'
    if (!isEither && (type !== 'IfStatement' || isNode(alternate))) return false
    if (!/^[<>]=?$/.test(String((test as Node).operator))) return false
    const { expression } = consequent as Node
    const assigned = isNode(expression) && expression.operator === '=' ? expression : null
    const chosen = isEither ? [consequent, alternate] : [assigned?.left, assigned?.right]
    return this.textsOf(chosen) === this.sidesOf(test as Node)
  }

  /** `if (a !== b) return a < b`, or `a !== b ? a < b : …`: the comparison, or null. */
  private comparedIfDifferent({ type, test, consequent }: Node): Node | null {
    if (type !== 'IfStatement' && type !== 'ConditionalExpression') return null
    const then = consequent as Node
    const compared = then.type === 'ReturnStatement' ? then.argument : then
    if ((test as Node).operator !== '!==' || !isNode(compared)) return null
    if (!/^[<>]$/.test(String(compared.operator))) return null
    return this.sidesOf(test as Node) === this.sidesOf(compared) ? compared : null
  }

  private sidesOf({ left, right }: Node): string {
    return this.textsOf([left, right])
  }

  /** The texts of both, in either order. */
  private textsOf(both: readonly unknown[]): string {
    const texts = both.map((of) => (isNode(of) ? this.text.slice(of.start, of.end) : ''))
    return texts.sort().join(' ')
  }

  /** Is it a sum, or a difference, with a constant of this file that is 0? */
  private isZero(operator: unknown, { type, name }: Node): boolean {
    if ((operator !== '+' && operator !== '-') || type !== 'Identifier') return false
    return new RegExp(`^(export )?const ${String(name)}(: number)? = 0$`, 'm').test(this.text)
  }

  private update(node: Node): void {
    const [kind, text] = OPERATORS[String(node.operator)]!
    const at = node.prefix === true ? node.start : node.end - 2
    this.replace(kind, at, at + 2, text)
  }

  private unary(node: Node): void {
    const { operator, argument, start, end } = node
    if (!['-', '!', '~'].includes(String(operator))) return
    const kind = operator === '!' ? 'logic' : 'arithmetic'
    const { type, value } = argument as Node
    if (operator !== '-' || type !== 'NumericLiteral') this.replace(kind, start, start + 1, '')
    else {
      // A negative number is one constant. Of -1, which stands for none, more is 0, which is one.
      this.replace('constant', start, end, String(1 - Number(value)))
      this.constants.add(argument as Node)
    }
  }

  private constant(node: Node): void {
    if (this.constants.has(node)) return
    const { type, value, start, end } = node
    const made = this.flags.has(node) ? '0' : another(type, value)
    this.replace('constant', start, end, made)
  }

  /** A 1 that is stored to an element, or stands beside a 0, marks something: two mark it, too. */
  private noteFlags(node: Node): void {
    const { type, operator, left, right, consequent, alternate } = node
    const isStore = type === 'AssignmentExpression' && operator === '='
    if (isStore && (left as Node).computed === true && isOne(right)) this.flags.add(right)
    if (type !== 'ConditionalExpression') return
    for (const one of [consequent, alternate]) if (isOne(one)) this.flags.add(one)
  }

  private dropped(node: Node): void {
    const { type } = node.expression as Node
    const kind = DROPPED[type]
    if (kind !== undefined) this.replace(kind, node.start, node.end, ';')
  }

  /** Neighbours that do something, and neither ends the block nor names what follows. */
  private swaps(list: readonly Node[]): void {
    for (let i = 0; i + 1 < list.length; i++) {
      const [first, second] = [list[i]!, list[i + 1]!]
      if (!this.isDone(first) || !this.isDone(second)) continue
      const [one, other] = [first, second].map(({ start, end }) => this.text.slice(start, end))
      if (one === other || commute(first, second, this.text)) continue
      const { statement } = this
      this.statement = first.start
      this.add('swapped', first.start, [
        { start: first.start, end: first.end, text: `;${other}` },
        { start: second.start, end: second.end, text: `;${one}` },
      ])
      this.statement = statement
    }
  }

  private isDone(node: Node): boolean {
    return node.type === 'ExpressionStatement' && !isExcluded(node.expression as Node)
  }
}

const DROPPED: Readonly<Record<string, Kind>> = {
  CallExpression: 'call dropped',
  AssignmentExpression: 'assignment dropped',
  UpdateExpression: 'assignment dropped',
}

/** The constant that stands for one: a number more, or the other truth. */
function another(type: string, value: unknown): string {
  if (type === 'BooleanLiteral') return String(value !== true)
  if (type === 'BigIntLiteral') return `${BigInt(String(value)) + 1n}n`
  return String(Number(value) + 1)
}

function isOne(node: unknown): node is Node {
  return isNode(node) && node.type === 'NumericLiteral' && node.value === 1
}

/** A sum of texts is one text. */
function isText({ left, right }: Node): boolean {
  return [left, right].some((side) => {
    return isNode(side) && /^(String|Template)Literal$/.test(side.type)
  })
}

/** The name of a function, a method or a class, or null. */
export function nameOf({ id, key }: Node): string | null {
  const name = isNode(id) ? id.name : isNode(key) ? key.name : null
  return typeof name === 'string' ? name : null
}

/** The first statement of a function's body, or the expression that it is. */
export function firstOf(body: Node): Node {
  if (body.type !== 'BlockStatement') return body
  const [first] = body.body as readonly Node[]
  return first ?? body
}

export function nameOfPlace({ file, line, column, kind }: Drawn): string {
  return `${file}:${line}:${column} ${kind}`
}
