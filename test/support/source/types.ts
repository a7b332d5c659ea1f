/**
 * The sources as the type checker sees them: for rules that text alone cannot hold.
 *
 * The API of the compiler is not stable yet; the lock has one exact version of it.
 */

import { join, relative } from 'node:path'
import type { Node, SourceFile } from 'typescript/unstable/ast'
import { isPropertyAccessExpression } from 'typescript/unstable/ast/is'
import {
  API,
  type Symbol as Name,
  type Project,
  SignatureKind,
  SymbolFlags,
  type Type,
  TypeFlags,
  type UnionType,
} from 'typescript/unstable/sync'
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
interface Slice {
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

// ---- what the library offers -------------------------------------------------------------------

/** What a value may be, roughly. */
export type Sort =
  | 'number'
  | 'bigint'
  | 'string'
  | 'boolean'
  | 'undefined'
  | 'null'
  | 'function'
  | 'bytes'
  | 'list'
  | 'object'

/** An argument, or a field of one. */
export interface Slot {
  readonly name: string
  readonly sorts: readonly Sort[]
  /** Of an object of plain fields. */
  readonly fields: readonly Slot[]
}

/** A call, as `Region.persist`, and its arguments. */
export interface Call {
  readonly name: string
  readonly slots: readonly Slot[]
}

/**
 * Every call with arguments of everything that a module exports, by the types; and of the classes
 * among `values`, those that there are at run time, how they are made and what they have by
 * themselves.
 */
export function callsOf(project: Project, path: string, values: readonly string[] = []): Call[] {
  const { checker, program } = project
  const file = program.getSourceFile(join(ROOT, path))!
  const calls: Call[] = []
  const add = (name: string, type: Type, kind: SignatureKind = SignatureKind.Call): void => {
    for (const signature of checker.getSignaturesOfType(type, kind).slice(0, 1)) {
      const slots = signature.getParameters().map((one) => slotOf(project, one, 2))
      if (slots.length > 0) calls.push({ name, slots })
    }
  }
  for (const exported of checker.getExportsOfModule(checker.getSymbolAtLocation(file)!)) {
    const isAlias = (exported.flags & SymbolFlags.Alias) !== 0
    const name = isAlias ? checker.getAliasedSymbol(exported) : exported
    if ((name.flags & SymbolFlags.Function) !== 0) add(name.name, checker.getTypeOfSymbol(name)!)
    if ((name.flags & (SymbolFlags.Class | SymbolFlags.Interface)) === 0) continue
    if ((name.flags & SymbolFlags.Class) !== 0 && values.includes(name.name)) {
      const own = checker.getTypeOfSymbol(name)!
      add(`new ${name.name}`, own, SignatureKind.Construct)
      for (const member of checker.getPropertiesOfType(own)) {
        const isCall = (member.flags & SymbolFlags.Method) !== 0
        if (isCall) add(`${name.name}.${member.name}`, checker.getTypeOfSymbol(member)!)
      }
    }
    for (const member of checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(name))) {
      if ((member.flags & SymbolFlags.Method) === 0 || isHidden(member)) continue
      add(`${name.name}.${member.name}`, checker.getTypeOfSymbol(member)!)
    }
  }
  return calls
}

function isHidden(member: Name): boolean {
  const node = member.valueDeclaration?.resolve()
  const text = node?.getSourceFile().text.slice(node.pos, node.end) ?? ''
  return /^(private|protected)\b/.test(text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '').trim())
}

function slotOf(project: Project, name: Name, deep: number): Slot {
  const { checker } = project
  const node = name.valueDeclaration?.resolve() as {
    questionToken?: unknown
    initializer?: unknown
  }
  const type = checker.getTypeOfSymbol(name)!
  const isOptional = node?.questionToken !== undefined || node?.initializer !== undefined
  const parts = partsOf(type)
  const sorts = parts.map((part) => sortOf(project, part))
  const plain = parts.filter((_, i) => sorts[i] === 'object')
  const fields = plain.length === 1 && deep > 0 ? fieldsOf(project, plain[0]!, deep - 1) : []
  return { name: name.name, sorts: isOptional ? [...sorts, 'undefined'] : sorts, fields }
}

/** The fields of an object without calls of its own. */
function fieldsOf(project: Project, type: Type, deep: number): Slot[] {
  const properties = project.checker.getPropertiesOfType(type)
  if (properties.some(({ flags }) => (flags & SymbolFlags.Method) !== 0)) return []
  return properties.map((one) => slotOf(project, one, deep))
}

function partsOf(type: Type): readonly Type[] {
  if ((type.flags & TypeFlags.Union) === 0) return [type]
  return (type as UnionType).getTypes().flatMap(partsOf)
}

function sortOf({ checker }: Project, type: Type): Sort {
  const { flags } = type
  if ((flags & TypeFlags.StringLike) !== 0) return 'string'
  if ((flags & TypeFlags.NumberLike) !== 0) return 'number'
  if ((flags & TypeFlags.BigIntLike) !== 0) return 'bigint'
  if ((flags & TypeFlags.BooleanLike) !== 0) return 'boolean'
  if ((flags & TypeFlags.Undefined) !== 0) return 'undefined'
  if ((flags & TypeFlags.Null) !== 0) return 'null'
  if (type.getSymbol()?.name === 'Uint8Array') return 'bytes'
  if (checker.isArrayLikeType(type)) return 'list'
  return checker.getSignaturesOfType(type, SignatureKind.Call).length > 0 ? 'function' : 'object'
}
