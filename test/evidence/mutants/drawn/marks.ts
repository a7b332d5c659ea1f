/**
 * Marks in a source: one for each turn of a loop and each call of a function, which counts the work
 * that is done, and, where somebody looks, one for each statement, which tells that it was reached.
 *
 * Invariant: a marked source does what it did, until its work is spent: then every mark
 * throws, so whatever hangs comes to an end, at the same step each time.
 */

import {
  childrenOf,
  type Edit,
  edited,
  isFunction,
  isLoop,
  isNode,
  isStatement,
  type Node,
  parsed,
} from './syntax.ts'

/** What stands in a marked source: `__work` and `__reached` are given to every module. */
const STEP = 'if(--__work.left<0)__work.spent();'

/** The number of a statement's mark, by where it begins. */
type MarkOf = (statement: number) => number

/** The source with its marks; statements are marked only if they have numbers. */
export function marked(text: string, markOf: MarkOf | null): string {
  const opening: Edit[] = []
  const closing: Edit[] = []
  const insert = (start: number, code: string): void => {
    opening.push({ start, end: start, text: code })
  }
  /** Of two that end together the inner one is closed first. */
  const close = (start: number, code: string): void => {
    closing.unshift({ start, end: start, text: code })
  }
  const reached = (at: number): string => (markOf === null ? '' : `__reached[${markOf(at)}]=1;`)
  const visit = (node: Node): void => {
    if (isLoop(node) || isFunction(node)) inside(node.body as Node, STEP)
    if (node.type === 'IfStatement') {
      for (const arm of [node.consequent, node.alternate]) if (isNode(arm)) inside(arm, '')
    }
    const list = node.type === 'BlockStatement' ? node.body : node.consequent
    if (Array.isArray(list)) {
      for (const one of list.filter(isNode)) {
        if (isStatement(one) && one.type !== 'FunctionDeclaration')
          insert(one.start, reached(one.start))
      }
    }
    for (const child of childrenOf(node)) visit(child)
  }
  /** Puts code before a body, which may be a block, a statement or an expression. */
  const inside = (body: Node, code: string): void => {
    const { type, start, end } = body
    if (type === 'BlockStatement') insert(start + 1, code)
    else if (isStatement(body) || type === 'EmptyStatement') {
      insert(start, `{${code}${type === 'EmptyStatement' ? '' : reached(start)}`)
      close(end, '}')
    } else {
      const mark = markOf === null ? '' : `__reached[${markOf(start)}]=1,`
      insert(start, `(${code === '' ? '' : '--__work.left<0&&__work.spent(),'}${mark}`)
      close(end, ')')
    }
  }
  visit(parsed(text))
  return edited(text, [...closing, ...opening])
}
