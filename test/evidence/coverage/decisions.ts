/**
 * Compound decisions of a source, with a mark at each of their conditions; and which conditions
 * were seen to decide alone (masking MC/DC).
 *
 * Invariant: a decision is the largest expression of `&&`, `||` and `!` around two or more
 * conditions. A condition decides where every expression around it has its value: with `a && b`
 * true, both do; with `a` false, `a` alone. It is shown if it decided once by being true and once
 * by being false. A marked source does what it did.
 */

import {
  childrenOf,
  type Edit,
  edited,
  isNode,
  type Node,
  parsed,
} from '../mutants/drawn/syntax.ts'

type Tree =
  | { readonly kind: 'condition'; readonly place: number }
  | { readonly kind: 'not'; readonly of: Tree }
  | { readonly kind: 'both'; readonly left: Tree; readonly right: Tree }

export interface Decision {
  readonly file: string
  /** From 1. */
  readonly line: number
  readonly tree: Tree
  /** What its conditions say, in the order in which they stand. */
  readonly conditions: readonly string[]
}

/** The names of the marks, which are global while the tests play. */
const BEGIN = '__decisionBegins'
const CONDITION = '__condition'
const END = '__decisionEnds'

/** Gathers decisions of several files: each has a number of its own. */
export class Decisions {
  readonly all: Decision[] = []
  /** By number of the decision: its vectors, a letter for each condition: t, f, - if not asked. */
  private readonly met: Set<string>[] = []
  private readonly open: { readonly decision: number; readonly values: string[] }[] = []

  /** The source with its marks. */
  marked(file: string, text: string): string {
    const opening: Edit[] = []
    const closing: Edit[] = []
    const wrap = ({ start, end }: Node, before: string, after: string): void => {
      opening.push({ start, end: start, text: before })
      closing.unshift({ start: end, end, text: after })
    }
    const visit = (node: Node, isStatement: boolean): void => {
      if (!isLogic(node) || isStatement) {
        if (isAssert(node)) return
        for (const child of childrenOf(node)) visit(child, node.type === 'ExpressionStatement')
        return
      }
      const decision = this.all.length
      wrap(node, `(${BEGIN}(${decision}),${END}(`, '))')
      const conditions: Node[] = []
      const tree = treeOf(node, conditions)
      const texts = conditions.map(({ start, end }) => text.slice(start, end).replace(/\s+/g, ' '))
      this.all.push({ file, line: node.loc.start.line, tree, conditions: texts })
      this.met.push(new Set())
      conditions.forEach((condition, place) => {
        wrap(condition, `${CONDITION}(${place},`, ')')
        visit(condition, false)
      })
    }
    visit(parsed(text), false)
    return edited(text, [...closing, ...opening])
  }

  /** What the marks call, by their names. */
  marks(): Readonly<Record<string, unknown>> {
    const { open } = this
    return {
      [BEGIN]: (decision: number): void => {
        const { length } = this.all[decision]!.conditions
        open.push({ decision, values: Array<string>(length).fill('-') })
      },
      [CONDITION]: (place: number, value: unknown): unknown => {
        open.at(-1)!.values[place] = value ? 't' : 'f'
        return value
      },
      [END]: (value: unknown): unknown => {
        const { decision, values } = open.pop()!
        this.met[decision]!.add(values.join(''))
        return value
      },
    }
  }

  /** A test is over: what threw in the middle of a decision has not ended it. */
  forget(): void {
    this.open.length = 0
  }

  /** Of a decision, for each condition: did it decide by being false, and by being true? */
  shown(decision: number): { readonly f: boolean; readonly t: boolean }[] {
    const { conditions, tree } = this.all[decision]!
    const seen = conditions.map(() => ({ f: false, t: false }))
    for (const vector of this.met[decision]!) {
      const follow = (one: Tree, decides: boolean): void => {
        if (one.kind === 'condition') {
          if (decides) seen[one.place]![vector[one.place] as 'f' | 't'] = true
        } else if (one.kind === 'not') follow(one.of, decides)
        else {
          const value = cameTo(one, vector)
          for (const part of [one.left, one.right]) {
            const own = cameTo(part, vector)
            if (own !== null) follow(part, decides && own === value)
          }
        }
      }
      follow(tree, true)
    }
    return seen
  }
}

/** What it came to, or null if it was not asked: then what it stands beside had decided. */
function cameTo(tree: Tree, vector: string): boolean | null {
  if (tree.kind === 'condition') {
    const value = vector[tree.place]
    return value === '-' ? null : value === 't'
  }
  if (tree.kind === 'not') {
    const value = cameTo(tree.of, vector)
    return value === null ? null : !value
  }
  return cameTo(tree.right, vector) ?? cameTo(tree.left, vector)
}

function treeOf(node: Node, conditions: Node[]): Tree {
  if (node.type === 'UnaryExpression' && node.operator === '!') {
    return { kind: 'not', of: treeOf(node.argument as Node, conditions) }
  }
  if (!isLogic(node)) return { kind: 'condition', place: conditions.push(node) - 1 }
  const left = treeOf(node.left as Node, conditions)
  return { kind: 'both', left, right: treeOf(node.right as Node, conditions) }
}

function isLogic({ type, operator }: Node): boolean {
  return type === 'LogicalExpression' && operator !== '??'
}

function isAssert({ type, callee }: Node): boolean {
  return type === 'CallExpression' && isNode(callee) && callee.name === 'assert'
}
