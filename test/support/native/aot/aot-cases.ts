/**
 * Every operation that the translation knows, on every kind of operand, as programs for
 * `aot-program.ts`: JavaScript, as text.
 *
 * Invariant: in a part that is translated stand functions alone, each declared by a line
 * `function NAME(`, none of which has to stay interpreted: that so many run translated is a test.
 */

const ARITHMETIC = ['+', '-', '*', '/', '%', '**', '&', '|', '^', '<<', '>>', '>>>']
const RELATIONS = ['<', '<=', '>', '>=', '==', '!=', '===', '!==', 'in', 'instanceof']
const LOGIC = ['&&', '||', '??']
const CONSTANTS = ['0', '1', '-1', '7', '128', '70000', '2147483647', '0.5', '1e21', '-0.0', '3n']
const MORE_CONSTANTS = ['"1"', '""', 'null', 'undefined', 'true', 'NaN', '(-2147483648)']

/** What may be assigned to: how it is called, how it is made of `a`, how it is read. */
const TARGETS: readonly (readonly [name: string, made: string, target: string])[] = [
  ['local', 'let x = a', 'x'],
  ['argument', '', 'a'],
  ['field', 'const o = { x: a }', 'o.x'],
  ['element', 'const o = [a]', 'o[0]'],
  ['keyed', 'const k = "k", o = { k: a }', 'o[k]'],
  ['closure', 'shared = a', 'shared'],
]
const STEPS = ['++T', '--T', 'T++', 'T--', '-T', '+T', '~T', '!T', 'typeof T', 'void T']

interface Drawn {
  /** Its functions. */
  readonly text: string
  /** Lists of their names, by how many arguments of which values they are given. */
  readonly lists: Readonly<Record<'pairs' | 'fewPairs' | 'singles', readonly string[]>>
}

/** A function for each operation, each form of its operands. */
function draw(): Drawn {
  const lines: string[] = []
  const lists = { pairs: [] as string[], fewPairs: [] as string[], singles: [] as string[] }
  const add = (list: string[], args: string, body: string): void => {
    const name = `drawn${lines.length}`
    lines.push(`  function ${name}(${args}) { ${body} }`)
    list.push(name)
  }
  for (const op of [...ARITHMETIC, ...RELATIONS, ...LOGIC]) {
    add(lists.pairs, 'a, b', `return a ${op} b`)
    add(lists.fewPairs, 'a, b', `if (a ${op} b) return 1; return a ${op} b ? 2 : 3`)
    add(lists.fewPairs, 'a, b', `return [{}, a ${op} b, a]`)
  }
  for (const [, made, target] of TARGETS) {
    for (const op of [...ARITHMETIC, ...LOGIC]) {
      add(lists.fewPairs, 'a, b', `${made}; ${target} ${op}= b; return ${target}`)
      add(lists.fewPairs, 'a, b', `${made}; return [${target}, ${target} ${op}= b, ${target}]`)
    }
    for (const step of STEPS) {
      const text = step.replace('T', target)
      add(lists.singles, 'a', `${made}; ${text}; return ${target}`)
      add(lists.singles, 'a', `${made}; return [${target}, ${text}, ${target}]`)
    }
  }
  for (const constant of [...CONSTANTS, ...MORE_CONSTANTS]) {
    for (const op of [...ARITHMETIC, ...RELATIONS.slice(0, 8)]) {
      if (op === '**' && constant.startsWith('-')) continue
      add(lists.singles, 'a', `return [a ${op} ${constant}, ${constant} ${op} a]`)
    }
  }
  return { text: lines.join('\n'), lists }
}

const DRAWN = draw()

/** Functions of one operand each. */
const ONE = `
  function isUndefined(a) { return a === undefined }
  function isNotUndefined(a) { return a !== undefined }
  function isNull(a) { return a === null }
  function isNothing(a) { return a == null }
  function isTypeUndefined(a) { return typeof a === 'undefined' }
  function isTypeFunction(a) { return typeof a === 'function' }
  function isTypeNumber(a) { return typeof a === 'number' }
  function choose(a) { return a ? 'yes' : 'no' }
  function negateTwice(a) { return !!a }
  function chain(a) { return a?.x?.y }
  function chainElement(a) { return a?.[1]?.length }
  function chainCall(a) { return a?.valueOf?.() }
  function length(a) { return a.length }
  function readX(a) { return a.x }
  function callX(a) { return a.x(1, 2) }
  function callToString(a) { return a.toString() }
  function callIt(a) { return a(1) }
  function callItself(a) { return a.call }
  function construct(a) { return new a(1, 2) }
  function raise(a) { throw a }
  function fourTimes(a) { return [a, a, a, a] }
  function inObject(a) { return { x: a, y: [a], z: { a } } }
  function text(a) { return \`<\${a}>\` }
  function takeApart(a) { const { x, length, y = 4, valueOf: v } = a;
    return [x, length, y, typeof v] }
  function takeApartDeep(a) { const { x: { y } = { y: 6 } } = a; return y }
  function takeApartInto(a) { const o = [0]; ({ x: o[0], y: o.z } = a); return o }
  function switched(a) {
    switch (a) {
      case 1: return 'one'
      case '1': return 'text'
      default: a = 'fallen'
      case null: return [a]
      case undefined: case 2147483648: return 'other'
    }
  }
  function twice(a) { let x = a; const y = x; x = [y]; return x === y ? x : [y, x] }
  function deleteX(a) { return delete a.x }
  function hasX(a) { return 'x' in a }
  function withDefault(a, b = a, c = [b]) { return [a, b, c] }
  function countTo(a) { let n = 0; for (let i = 0; i < a && i < 9; i++) n += i; return n }
  function sumOf(a) { let s = ''; for (let i = 0; i < 5; i++) s += a; return s }
  function joinLocal(a) { let s = a; s += s; s += 1; s += a; return s }
`
/** Of two. */
const TWO = `
  function getElement(a, b) { return a[b] }
  function callElement(a, b) { return a[b](b) }
  function deleteElement(a, b) { return delete a[b] }
  function stepElement(a, b) { return [a[b]++, ++a[b], a[b]--, a[b]] }
  function addElement(a, b) { a[b] += 2; return a[b] -= 1 }
  function orElement(a, b) { return a[b] ||= 5 }
  function twoElements(a, b) { return a[b] + a[b] }
  function writeX(a, b) { a.x = b; return a.x }
  function writeBoth(a, b) { return a.x = a.y = b }
  function addX(a, b) { a.x += b; return a.x++ }
  function writeLength(a, b) { a.length = b; return a.length }
`
const THREE = `
  function putElement(a, b, c) { a[b] = c; return a[b] }
  function putValue(a, b, c) { return a[b] = c }
  function putTwice(a, b, c) { a[b] = a[b] = c; return a }
`

const DRIVE = String.raw`
  const containers = [
    ...[Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
      Float32Array, Float64Array].map((Type) => () => new Type([1, 200, 4294967295])),
    () => new BigInt64Array([1n, -2n]),
    () => new BigUint64Array([1n, 2n]),
    () => new Uint32Array(new ArrayBuffer(16), 4, 2),
    () => { const list = new Int32Array(3); detach(list.buffer); return list },
    () => [10, 20, 30],
    () => [10, , { x: 1 }],
    () => Object.freeze([1, 2]),
    () => Object.seal([1, 2]),
    () => { const list = [1, 2, 3]; list.length = 2; list[9] = 1; return list },
    () => { const list = [1, 2]; Object.defineProperty(list, 1, { get() { note('get'); return 5 },
      set(v) { note('set ' + typeof v) }, configurable: true }); return list },
    () => { const list = [1, 2]; Object.defineProperty(list, 'length', { writable: false });
      return list },
    () => Object.setPrototypeOf([1], { 2: 'inherited', set 3(v) { note('inherited set') } }),
    () => (function () { return arguments })(1, {}, 'a'),
    () => ({ 0: 'a', 1: 'b', length: 2, x: () => 1 }),
    () => 'text' + log.length,
    () => 5,
    () => null,
    () => undefined,
    () => true,
    () => function f(a, b) {},
    () => new Proxy([1, 2], {}),
    () => new Map([[1, 2]]),
    () => ({ get x() { note('get x'); return 1 }, set x(v) { note('set x') } }),
    () => ({ get x() { delete this.x; this.x = [1]; return this } }),
    () => ({ get x() { return 1 } }),
    () => Object.create({ get x() { note('proto'); return this.z }, set x(v) { this.z = v } }),
    () => Object.create(Object.freeze({ x: 1 })),
    () => ({ y: 2, x: { y: 3 } }),
    () => { const o = { x: 1, y: 2 }; delete o.x; return o },
    () => Object.preventExtensions({ y: 1 }),
    () => Object.defineProperty({}, 'x', { value: 4, writable: false }),
    () => globalThis.Math,
    () => new (class { x = 5; y = (n) => n })(),
  ]
  // Every value takes minutes.
  const middle = isFull ? values : values.filter((_, i) => i % 3 === 1 || i < 5)
  const some = isFull ? few : few.filter((_, i) => i % 2 === 1)
  // Of each list, what a share has: one value. Arrays and the like are always objects.
  const isWhole = (value) => typeof value === 'number' && (value | 0) === value
  const isObject = (value) => typeof value === 'object' && value !== null
  const isFraction = (value) => typeof value === 'number' && value % 1 !== 0
  const isOfShare = [null, isWhole, isObject, isFraction][share()]
  function cut(list, turn, isTaken = isOfShare) {
    if (share() === 0) return list
    const taken = list.filter((make) => isTaken(make()))
    return [taken[(turn * 7 + share()) % taken.length]]
  }
  var todo = []
  function every(call, lists, fixed = []) {
    if (lists.length === 0) return tell(call, undefined, fixed.map((make) => make()))
    const [first, ...rest] = lists
    return first.map((make) => every(call, rest, [...fixed, make])).join('\n')
  }
  /** One case for each value that the first argument may have. */
  function plan(calls, lists, kinds = []) {
    calls.forEach((call, turn) => {
      const [first, ...rest] = lists.map((list, i) => cut(list, turn, kinds[i]))
      for (const make of first) todo.push(() => call.name + ': ' + every(call, [[make], ...rest]))
    })
  }
  const stride = share() === 0 ? step : 1
  globalThis.cases = () => Math.ceil(todo.length / stride)
  globalThis.play = (i) => todo[i * stride]()
`

/** Of the functions that a part declares. */
export const namesOf = (text: string): string[] =>
  [...text.matchAll(/^ {2}function (\w+)\(/gm)].map((match) => match[1]!)

const PLANS = `
  plan([${DRAWN.lists.pairs}], [middle, middle])
  plan([${DRAWN.lists.fewPairs}], [some, some])
  plan([${DRAWN.lists.singles}], [middle])
  plan([${namesOf(ONE)}], [[...values, ...containers]])
  plan([${namesOf(TWO)}], [[...containers, ...things], keys], [isObject, isWhole])
  plan([writeX, writeBoth, addX, writeLength], [[...containers, ...things], few],
    [isObject])
  plan([${namesOf(THREE)}], [containers, keys, some], [isObject, isWhole])
`

/** Functions that are translated, one for each operation and form. */
export const OPERATIONS: string = [DRAWN.text, ONE, TWO, THREE].join('\n')
/** The list of cases, behind `WORDS` and `VALUES`; played is each of so many. */
export function listOfCases(isFull: boolean, step = 1): string {
  return `  var shared\n  const isFull = ${isFull}, step = ${step}\n${DRIVE}`
}

/** What adds to it the calls of `OPERATIONS`. */
export const OPERATIONS_DRIVEN: string = PLANS
