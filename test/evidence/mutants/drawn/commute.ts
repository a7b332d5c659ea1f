/**
 * Do two neighbouring statements do the same in either order, as far as their text shows it?
 *
 * Invariant: yes is said of a counter that counts, beside whatever; and else of two stores
 * alone, to places whose names differ, each of a value that nothing is called for but a number in
 * bytes (`u16` and its like), and that does not mention the other's place; arrays in fields of two
 * names are two arrays. A store is an assignment to a variable, a field or an element, also one
 * that adds to what is there; `fill` of an array in a field; or a call of `putU16` and its like,
 * which store one number. A command is done when its list is run: it may change places with any
 * store but one that it takes its numbers from.
 */

import { childrenOf, isNode, type Node } from './syntax.ts'

interface Store {
  /** What is stored to, and where inside: two stores of one target are told apart by the place. */
  readonly target: string
  readonly place: string
  /** Every name that is read on the way. */
  readonly reads: ReadonlySet<string>
  readonly writes: string
}

export function commute(first: Node, second: Node, text: string): boolean {
  if (isCount(first) || isCount(second)) return true
  const one = storeOf(first, text) ?? commandOf(first)
  const other = storeOf(second, text) ?? commandOf(second)
  if (one === null || other === null) return false
  if (one.reads.has(other.writes) || other.reads.has(one.writes)) return false
  return one.target === other.target ? one.place !== other.place : one.writes !== other.writes
}

/** `count(state, fault)`: what is counted is read by control calls alone. */
function isCount({ expression }: Node): boolean {
  const { type, callee } = expression as Node
  return type === 'CallExpression' && (callee as Node).name === 'count'
}

function storeOf({ expression }: Node, text: string): Store | null {
  const whole = expression as Node
  const { type } = whole
  // What is counted up, or added to, is read by its own store alone.
  if (type === 'UpdateExpression') return assignmentOf(plainOf(whole.argument as Node), [], text)
  if (type === 'AssignmentExpression') {
    return assignmentOf(plainOf(whole.left as Node), [whole.right as Node], text)
  }
  if (type !== 'CallExpression') return null
  const given = whole.arguments as readonly Node[]
  const callee = whole.callee as Node
  if (callee.type === 'MemberExpression') return fillOf(callee, given, text)
  const [bytes, at, value] = given
  if (!/^put[US]\d+$/.test(String(callee.name))) return null
  if (bytes?.type !== 'Identifier' || !isNode(at) || !isNode(value)) return null
  return elementOf(bytes, at, [value], text)
}

/** What a command does now: it stores in its list, which is nobody's but the commands'. */
function commandOf({ expression }: Node): Store | null {
  const { type, callee, arguments: given } = expression as Node
  if (type !== 'CallExpression' || !COMMAND.test(String((callee as Node).name))) return null
  const reads = namesRead((given as readonly Node[]).slice(1))
  return reads === null ? null : { target: LIST, place: LIST, reads, writes: LIST }
}

const COMMAND = /^(copy|copyClean|checkCode|compare|transmit)$/
const LIST = 'list'

/** `a[i]!` is `a[i]`. */
function plainOf(node: Node): Node {
  return node.type === 'TSNonNullExpression' ? (node.expression as Node) : node
}

/** `o.array.fill(value)`: the array in a field, as a whole. */
function fillOf({ object, property }: Node, given: readonly Node[], text: string): Store | null {
  const array = object as Node
  if ((property as Node).name !== 'fill' || array.type !== 'MemberExpression') return null
  if (array.computed === true) return null
  const reads = namesRead([array.object as Node, ...given])
  return reads === null ? null : fieldElementOf(array, reads, text)
}

function assignmentOf(left: Node, values: readonly Node[], text: string): Store | null {
  if (left.type === 'Identifier') {
    const reads = namesRead(values)
    const name = String(left.name)
    return reads === null ? null : { target: name, place: '', reads, writes: name }
  }
  if (left.type !== 'MemberExpression') return null
  const object = left.object as Node
  const property = left.property as Node
  if (left.computed === true) return elementOf(object, property, values, text)
  const target = text.slice(object.start, object.end)
  const place = String(property.name)
  const reads = namesRead([object, ...values])
  return reads === null ? null : { target, place, reads, writes: place }
}

/** A name in capitals, or that of a module of such names. */
const CONSTANT = /^([A-Z][A-Z0-9_]*|cqe|el|mad|cm)$/

/** An element at a number, or at a sum that ends in a number or a name; other ones may be one. */
function elementOf(object: Node, index: Node, values: readonly Node[], text: string): Store | null {
  const isSum = index.type === 'BinaryExpression' && index.operator === '+'
  const last = isSum ? (index.right as Node) : index
  const constants = namesRead([last])
  const isConstant = constants !== null && [...constants].every((name) => CONSTANT.test(name))
  const inside = object.type === 'MemberExpression' ? [object.object as Node] : []
  const reads = namesRead([...inside, index, ...values])
  if (reads !== null && object.type === 'MemberExpression' && object.computed !== true) {
    return fieldElementOf(object, reads, text)
  }
  if (!isConstant || reads === null || object.type !== 'Identifier') return null
  const base = isSum ? text.slice((index.left as Node).start, (index.left as Node).end) : ''
  const place = text.slice(last.start, last.end)
  return { target: `${String(object.name)} ${base}`, place, reads, writes: String(object.name) }
}

/** An element, whichever, of the array in a field: another field holds another array. */
function fieldElementOf(object: Node, reads: ReadonlySet<string>, text: string): Store | null {
  const writes = String((object.property as Node).name)
  return { target: text.slice(object.start, object.end), place: '', reads, writes }
}

/** Names in those, or null if more is called than a number in bytes, or anything is changed. */
function namesRead(nodes: readonly Node[]): Set<string> | null {
  const names = new Set<string>()
  const visit = (node: Node): boolean => {
    if (node.type === 'CallExpression') return isRead(node) && childrenOf(node).every(visit)
    if (/^(New|Assignment|Update|Yield|Await)Expression$/.test(node.type)) return false
    if (node.type === 'Identifier') names.add(String(node.name))
    return childrenOf(node).every(visit)
  }
  return nodes.every(visit) ? names : null
}

/** `u32(bytes, at)`, or a mask of bits that is asked for some. */
function isRead({ callee }: Node): boolean {
  return /^([us]\d+|has)$/.test(String((callee as Node).name))
}
