/**
 * What every program of test/boards/linux/aot/aot.test.ts has besides its functions: values that
 * are awkward for an operation, and words for what became of it. JavaScript, as text; always
 * interpreted.
 *
 * Invariant: a value is made again each time, so that nothing but the function that is
 * tested holds it; what its methods do is written down in the order in which it happens.
 */

/** How a value, an error, an object with all that it has is said; `log` is what happened. */
export const WORDS: string = String.raw`
  var log = []
  const note = (text) => {
    log.push(text)
  }
  function sayKey(key) {
    return typeof key === 'symbol' ? key.toString() : key
  }
  function sayOwn(value, depth) {
    let text = ''
    for (const key of Reflect.ownKeys(value)) {
      const d = Object.getOwnPropertyDescriptor(value, key)
      const flags = (d.writable ? 'w' : '') + (d.enumerable ? 'e' : '') +
        (d.configurable ? 'c' : '')
      text += ' ' + sayKey(key) + '/' + flags + '='
      text += 'value' in d ? say(d.value, depth + 1) : 'accessor'
    }
    return text + (Object.isExtensible(value) ? '' : ' sealed')
  }
  function say(value, depth = 0) {
    if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value)
    if (typeof value === 'string') return JSON.stringify(value)
    if (typeof value === 'bigint') return value + 'n'
    if (typeof value === 'symbol') return value.toString()
    if (value === null || typeof value !== 'object') {
      return typeof value === 'function' ? 'function ' + value.name : String(value)
    }
    if (value instanceof Error) return value.name + ': ' + value.message + '\n' + value.stack
    if (depth > 2) return 'deep'
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
      return value[Symbol.toStringTag] + '[' + Array.from(value).map(String) + ']'
    }
    const name = Object.prototype.toString.call(value)
    return name + '{' + sayOwn(value, depth) + ' }'
  }
  /** What a call gives or throws, what it did, and what its arguments are then. */
  function tell(call, self, args) {
    log = []
    let text
    try {
      text = say(Reflect.apply(call, self, args))
    } catch (error) {
      text = 'threw ' + say(error)
    }
    for (const arg of args) text += ' | ' + (typeof arg === 'object' ? say(arg) : '')
    return log.length === 0 ? text : text + ' [' + log.join() + ']'
  }
`

/** `values`, `numbers`, `things`, `keys`: functions, each of which makes one again. */
export const VALUES: string = String.raw`
  function speaking(name, number, text) {
    return {
      valueOf() { note(name + '.valueOf'); return number },
      toString() { note(name + '.toString'); return text },
    }
  }
  const numbers = [0, -0, 1, -1, 2, 3, 7, 31, 32, 33, -8, 255, 256, 65536, 2147483647, -2147483648,
    2147483648, -2147483649, 4294967295, 4294967296, 1.5, -0.5, 0.1, 1e10, 1e300, 5e-324, NaN,
    Infinity, -Infinity, 9007199254740991, 9007199254740992, -9007199254740993].map((n) => () => n)
  const words = ['', '0', '1', '12', ' 3 ', '-1', '1.5', 'x', 'xyz', 'length', 'NaN', '2147483648',
    '\u00e9\u4e2d'].map((text) => () => text + '')
  const simple = [true, false, null, undefined, 0n, 1n, -5n, 2n ** 70n, Symbol('s'),
    Symbol.iterator].map((value) => () => value)
  const things = [
    () => ({}),
    () => [],
    () => [4],
    () => [1, , 3],
    () => [1.5, 'two', null],
    () => function named() { return 7 },
    () => speaking('five', 5, '6'),
    () => speaking('word', 'w', 'x'),
    () => speaking('big', 3n, '4'),
    () => speaking('none', {}, {}),
    () => ({ valueOf() { throw new RangeError('no value') } }),
    () => ({ toString() { note('only text'); return '8' } }),
    () => ({ [Symbol.toPrimitive](hint) { note(hint); return hint === 'string' ? 'key' : 9 } }),
    () => ({ [Symbol.toPrimitive]() { throw Symbol('thrown') } }),
    () => Object.freeze({ x: 1, y: 2 }),
    () => new Uint8Array([1, 2, 3]),
    () => new Number(11),
    () => new String('boxed'),
    () => Object.create(null),
    () => new Proxy({ x: 1 }, { get(o, k) { note('get ' + sayKey(k)); return o[k] } }),
    () => new Date(5),
    () => class Shape {},
  ]
  const values = [...numbers, ...words, ...simple, ...things]
  const few = [() => 0, () => -0, () => 5, () => -2147483648, () => 2147483647, () => 2.5,
    () => NaN, () => 4294967295, () => '', () => '7' + '', () => 'x' + log.length, () => null,
    () => undefined, () => true, () => 3n, () => Symbol.iterator, things[0], things[2], things[6],
    things[10], things[12]]
  const keys = [0, 1, 2, 3, 5, -1, -0, 1.5, 2147483647, 4294967295, 4294967296, NaN, '1', '-0',
    '01',
    'length', 'x', 'y', '', null, undefined, true, 2n, Symbol.iterator].map((key) => () => key)
  keys.push(() => speaking('key', 2, '1'), () => ({ toString() { throw new Error('no key') } }))
`
