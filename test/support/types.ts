/**
 * The sources as the type checker sees them: for rules that text alone cannot hold.
 *
 * The API of the compiler is not stable yet; the lock has one exact version of it.
 */

import { join, relative } from 'node:path'
import type { Node, SourceFile } from 'typescript/unstable/ast'
import { isPropertyAccessExpression } from 'typescript/unstable/ast/is'
import { API, type Project, type Type } from 'typescript/unstable/sync'
import { ROOT } from './sources.ts'

/** Checks the whole repository, and hands it to `work`. */
export function inTypes<T>(work: (project: Project) => T): T {
  const api = new API({ cwd: ROOT })
  try {
    const config = join(ROOT, 'tsconfig.json')
    const project = api.updateSnapshot({ openProjects: [config] }).getProject(config)
    if (project === undefined) throw new Error(`no project in ${config}`)
    return work(project)
  } finally {
    api.close()
  }
}

/** Our own source files below a folder that is named from the root. */
function filesOf({ program }: Project, below: string): SourceFile[] {
  return program
    .getSourceFileNames()
    .filter((name) => relative(ROOT, name).replaceAll('\\', '/').startsWith(below))
    .map((name) => program.getSourceFile(name)!)
}

function everyNode(node: Node, visit: (node: Node) => void): void {
  visit(node)
  node.forEachChild((child) => everyNode(child, visit))
}

/** A use of `slice`, and whether it is of bytes or other numbers in a buffer. */
export interface Slice {
  readonly place: string
  readonly isBytes: boolean
}

/** Every `….slice` below a folder. */
export function slicesBelow(project: Project, below: string): Slice[] {
  const found: Slice[] = []
  for (const file of filesOf(project, below)) {
    everyNode(file, (node) => {
      if (!isPropertyAccessExpression(node) || node.name.text !== 'slice') return
      const line = file.text.slice(0, node.end).split('\n').length
      const place = `${relative(ROOT, file.fileName)}:${line}`
      found.push({ place, isBytes: hasOffset(project, node.expression) })
    })
  }
  return found
}

/** Only what lies in an ArrayBuffer has one. */
function hasOffset({ checker }: Project, node: Node): boolean {
  const type = checker.getTypeAtLocation(node) as Type
  const there = checker.getNonNullableType(type) ?? type
  return checker.getPropertyOfType(there, 'byteOffset') !== undefined
}
