/**
 * The repository's modules, compiled once and evaluated again for every mutant.
 *
 * Invariant: an evaluation shares no state with another one, and no module is bundled: of a
 * mutant one module alone is compiled again, and what has run before stays fast. All of the
 * repository's own modules count their work; packages and Node's modules are as they are.
 */

import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Script } from 'node:vm'
import { transform } from 'esbuild'
import { ROOT } from '../build.ts'
import { marked } from './marks.ts'

/** What is left of the work that a play may do: turns of loops and calls of functions. */
export class Work {
  left: number = Number.POSITIVE_INFINITY

  /** Ends a play that does more than it may. */
  spent(): never {
    throw new WorkSpent()
  }
}

class WorkSpent extends Error {
  constructor() {
    super('it hangs')
  }
}

type Exports = Record<string, unknown>

/** What a module is given. */
type Body = (
  exports: { exports: Exports },
  require: (name: string) => unknown,
  url: string,
  work: Work,
  reached: Uint8Array,
) => void

const IMPORT = /^(?:import|export)\b[^'"]*?(?:from )?'(\.[^']+)'/gm

/** Paths that a source imports, from the root. */
export function importedBy(path: string, text: string): string[] {
  const found = text.matchAll(IMPORT)
  return [...found].map(([, name]) => join(dirname(path), name!).replaceAll('\\', '/'))
}

export interface LibraryOptions {
  /** What stands for a package, or for a module of the repository, by its name or path. */
  readonly instead: ReadonlyMap<string, unknown>
  /** A source with its marks: those that count its work, and what else is to be known of it. */
  readonly marked?: (path: string, text: string) => string
}

/** Compiled modules. */
export class Library {
  readonly work: Work = new Work()
  readonly reached: Uint8Array
  private readonly bodies = new Map<string, Body>()
  private readonly options: LibraryOptions

  constructor(options: LibraryOptions, statements: number = 0) {
    this.options = options
    this.reached = new Uint8Array(statements)
  }

  /** Compiles those modules and all that they import. */
  async add(paths: readonly string[]): Promise<void> {
    let wanted = paths.filter((path) => this.isWanted(path))
    while (wanted.length > 0) {
      const next = new Set<string>()
      await Promise.all(
        wanted.map(async (path) => {
          const text = readFileSync(join(ROOT, path), 'utf8')
          this.bodies.set(path, await this.compile(path, text))
          for (const one of importedBy(path, text)) if (this.isWanted(one)) next.add(one)
        }),
      )
      wanted = [...next].filter((path) => this.isWanted(path))
    }
  }

  private isWanted(path: string): boolean {
    if (this.bodies.has(path) || this.options.instead.has(path)) return false
    return path.endsWith('.ts') && existsSync(join(ROOT, path))
  }

  /** A module of that text. */
  async compile(path: string, text: string): Promise<Body> {
    const { code } = await transform(this.options.marked?.(path, text) ?? marked(text, null), {
      loader: 'ts',
      format: 'cjs',
      target: 'node20.19',
      define: { 'import.meta.url': '__url' },
      sourcefile: path,
    })
    const plain = code
      .replace('var __defProp = Object.defineProperty;', 'var __defProp = __define;')
      .replace(/__toESM\((require\("\.[^"]+"\))(, 1)?\)/g, '$1')
    const whole = `(function(module,require,__url,__work,__reached,__define){${plain}\n})`
    const body = new Script(whole, { filename: path }).runInThisContext()
    return (...given) => body(...given, define)
  }

  /** An evaluation of its own; `changed` stands for one of the modules. */
  evaluation(changed?: { readonly path: string; readonly body: Body }): Evaluation {
    const bodyOf = (path: string): Body | undefined => {
      return path === changed?.path ? changed.body : this.bodies.get(path)
    }
    return new Evaluation(this, bodyOf, this.options.instead)
  }
}

/** Exports may become plain fields once the module has been evaluated. */
function define(target: object, name: string, how: PropertyDescriptor): object {
  return Object.defineProperty(target, name, { ...how, configurable: true })
}

/** Modules that see one another. */
export class Evaluation {
  private readonly library: Library
  private readonly bodyOf: (path: string) => Body | undefined
  private readonly instead: ReadonlyMap<string, unknown>
  private readonly loaded = new Map<string, { exports: Exports }>()

  constructor(
    library: Library,
    bodyOf: (path: string) => Body | undefined,
    instead: ReadonlyMap<string, unknown>,
  ) {
    this.library = library
    this.bodyOf = bodyOf
    this.instead = instead
  }

  /** What that module exports; it is evaluated when it is asked for first. */
  load(path: string): Exports {
    const known = this.loaded.get(path)
    if (known !== undefined) return known.exports
    const body = this.bodyOf(path)
    if (body === undefined) throw new Error(`${path} has not been compiled`)
    const module = { exports: {} }
    this.loaded.set(path, module)
    const url = pathToFileURL(join(ROOT, path))
    const outside = createRequire(url)
    const require = (name: string): unknown => {
      if (this.instead.has(name)) return this.instead.get(name)
      if (!name.startsWith('.')) return outside(name)
      const other = join(dirname(path), name).replaceAll('\\', '/')
      return this.instead.get(other) ?? this.load(other)
    }
    body(module, require, url.href, this.library.work, this.library.reached)
    settle(module.exports)
    return module.exports
  }
}

/** A field is read faster than a getter. Nothing here exports what is assigned later. */
function settle(exports: Exports): void {
  for (const [name, { get }] of Object.entries(Object.getOwnPropertyDescriptors(exports))) {
    if (get !== undefined) Object.defineProperty(exports, name, { value: get(), enumerable: true })
  }
}
