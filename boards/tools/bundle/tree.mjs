/** The syntax tree of a program, for the passes over bundles. */

import { parse } from 'acorn'

/**
 * The tree of a script or a module. A property of a pattern has `isOfPattern`. Throws a
 * SyntaxError.
 */
export function treeOf(text) {
  const tree = parse(text, { ecmaVersion: 'latest', sourceType: 'module' })
  visitBelow(tree, (node) => {
    if (node.type === 'ObjectPattern') for (const part of node.properties) part.isOfPattern = true
  })
  return tree
}

/** Calls `visit(node, parent)` for every node below `parent`, in the order of the text. */
export function visitBelow(parent, visit) {
  for (const key in parent) {
    const value = parent[key]
    if (Array.isArray(value)) {
      for (const node of value) visitNode(node, parent, visit)
    } else visitNode(value, parent, visit)
  }
}

function visitNode(node, parent, visit) {
  if (typeof node?.type !== 'string') return
  visit(node, parent)
  visitBelow(node, visit)
}

/** Does a name stand there to be given a value? Patterns and parameters count as well. */
export function isStored(node, parent) {
  if (node.type !== 'Identifier') return false
  return (
    parent.id === node ||
    (parent.left === node && /^Assignment|^For/.test(parent.type)) ||
    (parent.argument === node && /^Update|^Rest/.test(parent.type)) ||
    (parent.params?.includes(node) ?? false) ||
    parent.type === 'ArrayPattern' ||
    (parent.value === node && parent.isOfPattern === true)
  )
}

/** `text` with something else in some places: `{ start, end, put }`, of which none overlap. */
export function replaced(text, places) {
  let at = 0
  const parts = []
  for (const { start, end, put } of [...places].sort((a, b) => a.start - b.start)) {
    parts.push(text.slice(at, start), put)
    at = end
  }
  return parts.join('') + text.slice(at)
}
