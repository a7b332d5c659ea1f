/**
 * A plugin of esbuild: every function of the firmware and the driver says when it is called.
 *
 * Invariant: the program does what it did. Each body first adds `PATH#NAME` to the list that the
 * global `calls` holds; nothing else is changed.
 */

import { readFileSync } from 'node:fs'
import { relative, sep } from 'node:path'
import { parse } from 'acorn'
import { transformSync } from 'esbuild'

/** Name of a function: its own, or that of what it is given to. */
function nameOf(node, parent) {
  const given = node.id ?? parent.id ?? parent.key
  return given?.name ?? `line ${node.loc.start.line}`
}

/** What is put where into a source, so that the function `node` tells of its calls. */
function insertionsFor({ body, expression }, label) {
  const call = `called(${JSON.stringify(label)})`
  if (!expression) return [{ at: body.start + 1, text: `${call};` }]
  // Parentheses around the body are not part of it.
  return [
    { at: body.start, text: `(${call}, ` },
    { at: body.end, text: ')' },
  ]
}

/** JavaScript with its calls told; `path` stands in front of every name. */
export function counted(text, path) {
  const found = []
  const visit = (node, parent) => {
    if (/Function/.test(node.type)) {
      found.push(...insertionsFor(node, `${path}#${nameOf(node, parent)}`))
    }
    for (const child of Object.values(node).flat()) {
      if (typeof child?.type === 'string') visit(child, node)
    }
  }
  visit(parse(text, { ecmaVersion: 'latest', sourceType: 'module', locations: true }), null)
  const fromTheEnd = found.sort((a, b) => b.at - a.at)
  return fromTheEnd.reduce((all, { at, text: put }) => all.slice(0, at) + put + all.slice(at), text)
}

/** The plugin; paths are told from `root`. */
export function callsCounted(root) {
  return {
    name: 'calls-counted',
    setup(build) {
      const js = 'globalThis.calls = [];\nconst called = (label) => globalThis.calls.push(label);'
      build.initialOptions.banner = { js }
      build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const label = relative(root, path).split(sep).join('/')
        if (!/^(?:firmware|host-driver)\//.test(label)) return undefined
        const { code } = transformSync(readFileSync(path, 'utf8'), { loader: 'ts' })
        return { contents: counted(code, label), loader: 'js' }
      })
    },
  }
}
