/**
 * A source as a tree, and walks over it.
 *
 * Invariant: positions are offsets into the text as it stands in the file. The parser is
 * the one that the marks of the stage `coverage` come from; TypeScript 7 has none that a program
 * may call, and esbuild gives no tree.
 */

import { parse } from '@babel/parser'

/** What is used of a node: fields of its own kind are looked up by name. */
export interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly loc: { readonly start: { readonly line: number; readonly column: number } }
  readonly [field: string]: unknown
}

export function parsed(text: string): Node {
  const { program } = parse(text, { sourceType: 'module', plugins: ['typescript'] })
  return program as unknown as Node
}

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value
}

/**
 * What a node consists of, in no order that matters; types are left out: nothing of them runs. What
 * the head of a loop declares is no statement of its own: its parts stand for it.
 */
export function childrenOf(node: Node): Node[] {
  const children: Node[] = []
  for (const [field, value] of Object.entries(node)) {
    if (NO_CODE.has(field)) continue
    for (const one of Array.isArray(value) ? value : [value]) {
      if (!isNode(one) || (one.type.startsWith('TS') && !IN_CODE.has(one.type))) continue
      if (isHead(node, field, one)) children.push(...childrenOf(one))
      else children.push(one)
    }
  }
  return children
}

function isHead(node: Node, field: string, { type }: Node): boolean {
  return isLoop(node) && field !== 'body' && type === 'VariableDeclaration'
}

const NO_CODE = new Set(['loc', 'leadingComments', 'trailingComments', 'innerComments', 'extra'])

/** Nodes of TypeScript that have code in them. */
const IN_CODE = new Set(['TSAsExpression', 'TSNonNullExpression', 'TSSatisfiesExpression'])

export function isFunction({ type }: Node): boolean {
  return /Function|Method$/.test(type)
}

export function isLoop({ type }: Node): boolean {
  return /^(For|ForIn|ForOf|While|DoWhile)Statement$/.test(type)
}

/** A statement, and not the block around some. */
export function isStatement({ type }: Node): boolean {
  if (type === 'BlockStatement' || type === 'EmptyStatement') return false
  return /Statement$|^(Variable|Function|Class)Declaration$|^Export/.test(type)
}

/** One change of a text. */
export interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** The text with those changes; of two insertions at one place the first one stands first. */
export function edited(text: string, edits: readonly Edit[]): string {
  const inOrder = edits
    .map((edit, i) => ({ ...edit, i }))
    .sort((a, b) => a.start - b.start || a.i - b.i)
  let made = ''
  let at = 0
  for (const edit of inOrder) {
    made += text.slice(at, edit.start) + edit.text
    at = edit.end
  }
  return made + text.slice(at)
}
