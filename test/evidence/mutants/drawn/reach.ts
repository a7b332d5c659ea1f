/**
 * Which units come to which statement of the product: measured, so that a mutant is given to those
 * alone that can notice it.
 *
 * Invariant: a unit that does not come to a statement takes the same course whatever stands
 * there. Of what is evaluated once, when a module is loaded, those units are taken that come to a
 * statement which uses a name of it, and those that are called by the name of the file.
 */

import {
  type Killers,
  newBench,
  type Panel,
  playEach,
  productFiles,
  sourceOf,
  type Unit,
} from './bench.ts'
import { marked } from './marks.ts'
import { type Drawn, firstOf, nameOf } from './places.ts'
import { childrenOf, isFunction, isNode, isStatement, type Node, parsed } from './syntax.ts'

/** More statements than the product has. */
const STATEMENTS_MAX = 1 << 17

/** A unit takes at most so much work, or is cut off: a test of the suite is there for one part. */
const QUICK = { test: 700_000, few: 3_000_000, many: 300_000_000 } as const

/** Numbers of the statements of the product. */
class Statements {
  private readonly numbers = new Map<string, number>()
  /** By number: the file. */
  readonly files: string[] = []

  numberOf(file: string, start: number): number {
    const key = `${file} ${start}`
    const known = this.numbers.get(key)
    if (known !== undefined) return known
    if (this.numbers.size === STATEMENTS_MAX) throw new Error('too many statements')
    this.numbers.set(key, this.numbers.size)
    return this.files.push(file) - 1
  }
}

export class Reach {
  readonly units: Unit[] = []
  private readonly statements = new Statements()
  /** By file and unit: statements of the file to which it comes. */
  private readonly footprints = new Map<string, Map<Unit, number[]>>()
  /** By number of the statement: places of units. */
  private readonly comers = new Map<number, number[]>()
  /** Statements that run while modules are loaded. */
  private readonly atLoad = new Uint8Array(STATEMENTS_MAX)
  /** By name: statements that use it. */
  private readonly users = new Map<string, Place[]>()
  /** By statement of a module: the names that it makes. */
  private readonly made = new Map<string, readonly string[]>()

  /** Plays every unit once on the product; `wrong` is told what one says of it. */
  async measure(
    panel: Panel,
    wrong: (unit: string, witness: string) => void,
    progress: (share: number) => void = () => {},
  ): Promise<void> {
    const product = new Set(productFiles())
    const bench = await newBench(panel, {
      statements: STATEMENTS_MAX,
      marked: (file, text) => {
        const numberOf = (start: number): number => this.statements.numberOf(file, start)
        return marked(text, product.has(file) ? numberOf : null)
      },
    })
    this.lookUpNames(product)
    const killers = bench.killers()
    const names = unitNames(killers, panel.suite)
    const { reached } = bench.library
    this.atLoad.set(reached)
    await playEach(bench, killers, names, {
      mostFor: (name) => (name.startsWith('suite') ? QUICK.test : QUICK[panel.pieces ?? 'few']),
      begins: () => reached.fill(0),
      ended: ({ name, witness, work, isCut }) => {
        if (witness === null) this.note({ name, work, isCut }, reached)
        else wrong(name, witness)
      },
      progress,
    })
  }

  private note(unit: Unit, reached: Uint8Array): void {
    const place = this.units.push(unit) - 1
    for (let n = reached.indexOf(1); n >= 0; n = reached.indexOf(1, n + 1)) {
      const known = this.comers.get(n)
      if (known === undefined) this.comers.set(n, [place])
      else known.push(place)
    }
  }

  /** Statements of that file to which the unit comes. */
  statementsOf(unit: Unit, file: string): readonly number[] {
    let known = this.footprints.get(file)
    if (known === undefined) {
      known = new Map()
      this.footprints.set(file, known)
      for (const [n, places] of this.comers) {
        if (this.statements.files[n] !== file) continue
        for (const place of places) {
          const comer = this.units[place]!
          const own = known.get(comer)
          if (own === undefined) known.set(comer, [n])
          else own.push(n)
        }
      }
    }
    return known.get(unit) ?? []
  }

  /** How few of the units come there: 1, where it is one alone. */
  rarity(statement: number): number {
    return 1 / this.comers.get(statement)!.length
  }

  /** Units that come to a mutant. */
  unitsFor({ file, statement, within }: Drawn): Unit[] {
    const places = new Set<number>()
    this.addComers([file, statement, within], new Set(), places)
    if (this.made.has(`${file} ${statement}`)) {
      const named = ` > ${file.replace('firmware/', '')}`
      this.units.forEach(({ name }, place) => {
        if (name.endsWith(named)) places.add(place)
      })
    }
    return [...places].map((place) => this.units[place]!)
  }

  private addComers([file, start, within]: Place, seen: Set<string>, into: Set<number>): void {
    const key = `${file} ${start}`
    if (seen.has(key)) return
    seen.add(key)
    const names = this.made.get(key)
    if (names !== undefined) {
      this.addComersOfUsers(names, seen, into)
      return
    }
    const number = this.statements.numberOf(file, start)
    for (const place of this.comers.get(number) ?? []) into.add(place)
    // What runs while modules are loaded is met by those who use what calls it.
    if (this.atLoad[number] === 1) this.addComersOfUsers([within], seen, into)
  }

  private addComersOfUsers(names: readonly string[], seen: Set<string>, into: Set<number>): void {
    for (const name of names) {
      for (const place of this.users.get(name) ?? []) this.addComers(place, seen, into)
    }
  }

  private lookUpNames(files: Iterable<string>): void {
    for (const file of files) {
      const program = parsed(sourceOf(file))
      for (const statement of program.body as readonly Node[]) {
        this.made.set(`${file} ${statement.start}`, namesMadeBy(statement))
        this.lookUpUsers(file, statement, statement.start, null)
      }
    }
  }

  /** `within`: name of the function around it, or null outside of all. */
  private lookUpUsers(file: string, node: Node, at: number, within: string | null): void {
    if (node.type === 'ImportDeclaration') return
    const here = within !== null && isStatement(node) ? node.start : at
    if (node.type === 'Identifier') {
      const name = String(node.name)
      const users = this.users.get(name)
      const place: Place = [file, here, within ?? '']
      if (users === undefined) this.users.set(name, [place])
      else users.push(place)
    }
    const body = isFunction(node) && isNode(node.body) ? node.body : null
    const first = body === null ? here : firstOf(body).start
    const inside = body === null ? within : (nameOf(node) ?? within ?? '')
    for (const child of childrenOf(node)) this.lookUpUsers(file, child, first, inside)
  }
}

type Place = readonly [file: string, start: number, within: string]

/** Names that a statement of a module declares, or uses where it declares none. */
function namesMadeBy(statement: Node): string[] {
  const declared = isNode(statement.declaration) ? statement.declaration : statement
  if (isNode(declared.id)) return [String(declared.id.name)]
  const names: string[] = []
  const visit = (node: Node): void => {
    if (node.type === 'Identifier') names.push(String(node.name))
    for (const child of childrenOf(node)) visit(child)
  }
  if (declared.type === 'VariableDeclaration') {
    for (const { id } of declared.declarations as readonly Node[]) visit(id as Node)
  } else visit(statement)
  return names
}

export function unitNames(killers: Killers, suite: readonly string[]): string[] {
  const tests = suite.flatMap((file) => {
    return killers.testsOf(file).map(({ name }, i) => `suite ${file} ${i} ${name}`)
  })
  return [...killers.pieces().keys(), ...tests]
}
