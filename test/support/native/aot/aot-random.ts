/**
 * Functions of random statements, for `aot-program.ts`: JavaScript, as text, the same for the same
 * seed. What drives them stands behind `listOfCases`.
 *
 * Invariant: every function comes back. It calls only those before it, and each call and
 * each turn of a loop takes from `fuel`. What is kept in arrays holds no arrays, so that its text
 * stays short.
 */

const BINARY = '+ + - - * / % & | ^ << >> >>> < <= > >= == != === !== && || ??'.split(' ')
const ASSIGN = '= = = += -= *= &= |= ^= >>= >>>= %='.split(' ')
const UNARY = ['-', '+', '~', '!', 'typeof ', '']
const LEAVES = [
  '0',
  '1',
  '-1',
  '7',
  '255',
  '2147483647',
  '-2147483648',
  '4294967295',
  '0.5',
  '1e10',
]
const MORE_LEAVES = ["'s'", "'12'", 'null', 'undefined', 'true', 'false', 'NaN']
const VARIABLES = ['a', 'b', 'c', 'x', 'y', 'z', 'fixed', 'often', 'other']
/** `fixed` is stored to by nobody. */
const STORED = VARIABLES.filter((name) => name !== 'fixed')
const LISTS = ['whole', 'bytes', 'reals', 'signed', 'plain']
const FIELDS = ['x', 'y', 'z', 'length']
const DEPTH_MAX = 4

class Writer {
  private state: number
  /** How many functions may be called. */
  private readonly callable: number

  constructor(seed: number, callable: number) {
    this.state = (Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(callable + 7, 0x85ebca6b)) | 1
    this.callable = callable
    for (let i = 0; i < 9; i++) this.below(2)
  }

  private below(count: number): number {
    this.state ^= this.state << 13
    this.state ^= this.state >>> 17
    this.state ^= this.state << 5
    return (this.state >>> 0) % count
  }

  private of<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }

  private leaf(): string {
    const kind = this.below(8)
    if (kind === 0) return this.of(LEAVES)
    if (kind === 1) return this.of(MORE_LEAVES)
    return kind === 2 ? String(this.below(40) - 8) : this.of(VARIABLES)
  }

  /** A number, or a short text. */
  private small(depth: number): string {
    return this.below(3) === 0 ? this.of(LEAVES) : `(${this.expression(depth)} | 0)`
  }

  private index(depth: number): string {
    return this.below(3) === 0 ? this.expression(depth) : `${this.expression(depth)} & 3`
  }

  private object(): string {
    return this.of(['shape', 'shape', 'fixed', 'a', 'x', 'this'])
  }

  private call(depth: number): string {
    if (this.callable === 0) return this.leaf()
    const list = Array.from({ length: this.below(5) }, () => this.expression(depth))
    const name = `random${this.below(this.callable)}`
    return this.below(4) === 0 ? `shape.call(${list})` : `${name}(${list})`
  }

  private place(depth: number): string {
    const kind = this.below(6)
    if (kind === 0) return `shape.${this.of(FIELDS)}`
    if (kind === 1) return `${this.of(LISTS)}[${this.index(depth)}]`
    return this.of(STORED)
  }

  private assignment(depth: number): string {
    const place = this.place(depth)
    const kind = this.below(4)
    if (kind === 0) return this.of([`${place}++`, `++${place}`, `${place}--`, `--${place}`])
    const value = /^[a-z]+$/.test(place) ? this.expression(depth) : this.small(depth)
    return `${place} ${this.of(ASSIGN)} ${value}`
  }

  private expression(depth: number): string {
    if (depth <= 0) return this.leaf()
    const below = depth - 1
    switch (this.below(14)) {
      case 0:
      case 1:
      case 2:
        return this.leaf()
      case 3:
        return `(${this.of(UNARY)}(${this.expression(below)}))`
      case 4:
        return `(${this.expression(below)} ? ${this.expression(below)} : ${this.expression(below)})`
      case 5:
        return `(${this.assignment(below)})`
      case 6:
        return `${this.object()}.${this.of(FIELDS)}`
      case 7:
        return `${this.of(LISTS)}[${this.index(below)}]`
      case 8:
        return this.call(below)
      case 9:
        return this.of([
          `[${this.small(below)}]`,
          `({ x: ${this.leaf()} })`,
          `(this, ${this.leaf()})`,
        ])
      default:
        return `((${this.expression(below)}) ${this.of(BINARY)} (${this.expression(below)}))`
    }
  }

  private block(depth: number): string {
    return Array.from({ length: 1 + this.below(3) }, () => this.statement(depth)).join('; ')
  }

  private statement(depth: number): string {
    const value = this.expression(DEPTH_MAX - 1)
    if (depth <= 0) return this.assignment(DEPTH_MAX - 1)
    const block = this.block(depth - 1)
    switch (this.below(10)) {
      case 0:
        return `if (${value}) { ${block} } else { ${this.block(depth - 1)} }`
      case 1:
        return `for (let i = 0; i < ${1 + this.below(4)} && fuel-- > 0; i++) { ${block}; x = i }`
      case 2:
        return `while (fuel-- > 20) { ${block}; if (${value}) break }`
      case 3:
        return `switch (${value}) { case 1: ${block}; case '12': y = 1; break; default: z = 2 }`
      case 4:
        return `if (${value}) return ${this.expression(1)}`
      case 5:
        return `{ const k = [${this.small(1)}]; ${block}; z = k }`
      default:
        return this.assignment(DEPTH_MAX)
    }
  }

  function(): string {
    const parameters = ['a', 'b', 'c'].slice(0, 1 + this.below(3))
    const locals = ['a', 'b', 'c', 'x', 'y', 'z'].slice(parameters.length)
    const made = locals.map((name) => `let ${name} = ${this.of([...LEAVES, ...parameters])}`)
    return `  function random${this.callable}(${parameters}) {
    if (fuel-- < 0) return ${this.leaf()}
    ${made.join('; ')}
    ${this.block(3)}
    ${this.block(2)}
    return [${this.expression(2)}, ${this.of(STORED)}]
  }`
  }
}

/** That many functions. */
export function randomFunctions(seed: number, count: number): string {
  return Array.from({ length: count }, (_, i) => new Writer(seed, i).function()).join('\n')
}

/** What calls each of them with that many drawn arguments. */
export function randomDriven(seed: number, count: number, inputs: number): string {
  const names = Array.from({ length: count }, (_, i) => `random${i}`)
  return `
  var fuel, often, other, shape, whole, bytes, reals, signed, plain
  const fixed = { x: 1, y: 'fixed', length: 3 }
  const inputs = [...numbers, ...numbers, ...numbers, ...values, () => [1, 2], () => ({
    x: 1, y: 2 }), () => ({ z: 1, x: 'x' })]
    .filter((make) => typeof make() !== 'bigint')
    .filter((make) => share() === 0 || isOfShare(make()))
  const shapesOf = [
    (call) => ({ x: 1, y: 2, z: 3, call }),
    (call) => ({ call, y: 'text', x: -0 }),
    (call) => Object.create({ x: 4, call }),
    (call) => ({ get x() { return other }, set x(value) { often = typeof value }, call }),
    (call) => Object.freeze({ x: 5, y: 6, call }),
  ]
  function playRandom(call, turn, seed) {
    let state = (Math.imul(seed, 2654435761) ^ Math.imul(turn + 1, 40503)) | 1
    const below = (count) => {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      return (state >>> 0) % count
    }
    fuel = 60
    often = inputs[below(inputs.length)]()
    other = below(100)
    shape = shapesOf[share() === 0 ? below(shapesOf.length) : share() % 2](random0)
    whole = new Uint32Array([1, 4294967295, 3, 4])
    bytes = new Uint8Array([1, 2, 255])
    reals = new Float64Array([1, 0.5, NaN, -0])
    signed = new Int32Array([-1, 2147483647, 5])
    plain = [1, 2.5, 'p', , 7].slice(0, below(6))
    const args = Array.from({ length: below(5) }, () => inputs[below(inputs.length)]())
    const self = below(3) === 0 ? { x: 1 } : undefined
    return call.name + ': ' + tell(call, self, args) + [often, other, shape, whole, bytes, reals,
      signed,
      plain].map((value) => say(value, 1)).join()
  }
  for (const call of [${names}]) {
    for (let turn = 0; turn < (share() === 0 ? ${inputs} : 3); turn++) {
      todo.push(() => playRandom(call, turn, ${seed} ^ call.name.length))
    }
  }
`
}
