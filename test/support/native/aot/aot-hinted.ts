/**
 * What a translation that goes by a profile can get wrong: the first calls of each function are all
 * alike, and are what a share of the program plays; the others bring something else in the middle.
 *
 * Invariants: as in `aot-cases.ts`.
 */

import { namesOf } from './aot-cases.ts'

/** Fields of one object, looked up once; something happens to it between two of them. */
const SHAPES = `
  function fieldTwice(o, f) { const a = o.x; f(o); return [a, o.x, o.y] }
  function fieldAcrossArgument(o, f) { return three(o.x, f(o), o.y) }
  function storedTwice2(o, f) { o.x = 1; f(o); o.x = 2; o.y = 3; return o.x }
  function fieldThenStored(o, f) { const a = o.y; f(o); o.x = a; return [a, o.x] }
  function fieldsInRow(o) { return [o.x, o.y, o.z, o.x, o.z] }
  function fieldsInSum(o) { return o.x + o.y + o.z + o.x }
  function fieldsStored(o) { o.z = 5; o.x = o.y; o.y = o.z; return [o.x, o.y, o.z] }
  function fieldOnOneWay(o, f) { let s = 0; if (o.z) s = o.x; else f(o); return [s, o.x, o.y] }
  function fieldOnOtherWay(o, f) { let s = 0; if (o.z) s = o.x; else s = f(o);
    s = s + o.x; f(o); return [s, o.y, o.x] }
  function fieldInLoop(o, f) { let s = 0;
    for (let i = 0; i < 4; i++) { s += o.x; if (i === o.z) f(o); s += o.y } return [s, o.x] }
  function fieldBeforeLoop(o, f) { let s = o.x;
    for (let i = 0; i < 3; i++) { s += o.y; f(o); o.y = s } return s }
  function fieldByOtherName(o, f) { let q = o; const a = q.x; f(q); q = o; return [a, q.x, q.y] }
  function fieldOfOther(o, f, p) { let q = o; let s = q.x; q = p; s += q.x; q = o;
    return [s, q.x, p.x, f(p), p.x] }
  function fieldOfTurned(o, f, p) { let s = ''; let q = o; for (let i = 0; i < 4; i++) {
    s += q.x; s += q.y; q = i & 1 ? o : p } return s }
  function fieldOfArgument(o, f, p) { const a = o.x; o = p; const b = o.x; f(o);
    return [a, b, o.x] }
  function fieldOfChoice(o, f, p) { const q = o.z ? o : p; return [o.x, q.x, p.x, q.y, o.y] }
  function fieldThroughMethod(o, f) { o.f = f; o.f(o); return [o.x, o.f(o), o.y] }
  function fieldOfThis(o, f) { return fieldOfThat.call(o, f) }
  function fieldOfThat(f) { const a = this.x; f(this); return [a, this.x, this.y] }
  function fieldDeleted(o) { const a = o.x; delete o.x; return [a, o.x, o.y] }
  function fieldAdded(o) { const a = o.x; o.fresh = 1; return [a, o.x, o.fresh, o.y] }
  function fieldOfBoth(o, f, p) { return [o.x, p.x, f(p), o.y, p.y] }
  function lengths(o, f) { const a = o.list.length; f(o); return a + o.list.length }
  function literalShaped(o, f) { const p = { x: o.x, y: o.y }; f(p); return [p.x, p.y] }
  function pointShaped(o, f) { const p = new point(o.x, o.y); f(p); return [p.x, p.y] }
`

/** Values that only an object holds, used after it holds them no more. */
const BORROWING = `
  function sumReplaced(o, v) { return o.inner.text + (o.inner = v, o.inner.text) }
  function listReplaced(o, v) { return [o.inner, o.inner = v, o.inner] }
  function keptOfReplaced(o, v) { return [o.inner.inner, o.inner = v, o.inner.inner, o.n] }
  function elementOfDropped(o) { return o.list[o.f(o)] }
  function elementOfDropped2(o) { return [o.list[(o.f(o), 0)], o.list] }
  function putInDropped(o, v) { o.list[o.f(o)] = v; return o.list }
  function putFromDropped(o, v) { o.list[0] = o.inner; o.list[1] = (o.f(o), v); return o.list }
  function fieldOfDropped(o, v) { o.inner.x = o.f(o); return v }
  function fieldAside(o, v) { o.inner.x = v; return 1 }
  function lengthAside(o, v) { o.list.length = v; return 1 }
  function fieldsAside(o, v) { return [o.inner, o.inner.x = v, o.inner.n = v] }
  function methodReplaced(o, v) { return o.f(o.f = v, 1) }
  function methodOfReplaced(o, v) { return o.inner.f(o.inner = v, 2) }
  function methodOfDropped(o) { return o.inner.f(o.f(o), o.inner) }
  function methodOfMade(o, v) { return o.make().inner.f(v) }
  function fieldOfMade(o) { return o.make().inner.inner.n }
  function fieldOfMade2(o) { return [o.make().inner, o.make().list[0], o.make().text] }
  function sumOfMade(o) { return o.make().inner.n + o.make().n }
  function lengthOfMade(o) { return o.make().list.length + o.make().text.length }
  function localReplaced(o) { let q = o.make(); return [q.inner, q = null, 1] }
  function localReplaced2(o) { let q = o.make();
    return q.inner.text + (q = o.make(), q.inner.text) }
  function localInLoop(o) { let q = o.make(); let s = '';
    for (let i = 0; i < 3; i++) { const t = q.inner; q = o.make(); s += t.text } return s }
  function localOfItself(o) { let q = o.make(); q = q.inner; q = q.inner; return q }
  function argumentReplaced(o) { const r = o.inner; o = o.make(); return [r, o = o.inner, o.n] }
  function closureReplaced(o) { held = o.make(); return [held.inner, held = null, held] }
  function closureMethod(o) { held = o.make(); return held.inner.f(held = null, 1) }
  function storedInItself(o) { o.inner = o.inner.inner; return o.inner }
  function storedInSelf(o) { const a = o.inner; a.inner = a; a.inner = null; return a }
  function walked(o) { return o.inner.n + (o.inner = o.inner.inner).n + o.n }
  function fieldsSwapped(o) { const t = o.inner; o.inner = o.list; o.list = t; return o }
  function sameReplaced(o, v) { return o.inner === (o.inner = v) }
  function truthReplaced(o, v) { return [o.inner ? (o.inner = v, 1) : 2, !o.inner, o.inner && o.n] }
  function thrownAcross(o) { return [o.inner, o.inner.inner, o.f(o), o.make()] }
  function choiceAcross(o, v) { return [o.inner, o.n ? (o.inner = v, 1) : o.inner.n, o.list] }
  function leavingAcross(o, v) { return [o.inner, o.inner.n + v, o.inner.inner, v - o.n] }
  function leavingDone(o) { return [o.inner, o.n, o.list[0], o.inner.n, o.f(o)] }
  function leavingCall(o) { return [o.inner, o.f(o), o.f(o) + 1, o.inner] }
  function steppedAcross(o) { return [o.inner, o.n++, ++o.n, o.n -= 2, o.inner] }
  function onceAcross(o) { const a = once.inner; once.inner = o.inner; return [a, once.inner.n] }
  function elementAcross(o) { return [o.list[0], o.list[0] = 1, o.list.length = 0, o.list[0]] }
`

/** Elements of one kind of array, whose place and count change. */
const ELEMENTS = `
  function elementTwice(list, f) { const a = list[0]; f(list); return [a, list[0], list.length] }
  function elementAcross2(list, f) { return [list[1], f(list), list[1]] }
  function elementSum(list, f) { return list[0] + (f(list) | 0) + list[1] }
  function putTwice2(list, f, v) { list[0] = v; f(list); list[1] = v; return list }
  function putAfter(list, f, v) { list[v & 1] = f(list); return list }
  function putStepped(list, f) { list[0]++; f(list); list[1] += 2; return [list[0]--, --list[1]] }
  function elementLoop(list, f) { let s = 0; for (let i = 0; i < list.length && i < 9; i++) {
    s += list[i]; if (i === 1) f(list) } return s }
  function putLoop(list, f, v) { for (let i = 0; i < 3; i++) { list[i] = v; v = list[i];
    if (i === 0) f(list) } return [v, list] }
  function copied(list, f, v) { const to = [0, 0, 0]; for (let i = 0; i < 3; i++) to[i] = list[i];
    f(list); for (let i = 0; i < 3; i++) list[i] = to[2 - i]; return [list, to] }
  function elementTested(list, f) { if (list[0] > 1) f(list); return list[0] === list[1] }
  function elementOfOther(list, f) { let q = list; const a = q[0]; q = [a]; f(list);
    return [a, q[0], list[0]] }
  function elementKind(list, f, v) { list[0] = v; const a = list[0]; list[1] = a * 0.5;
    return [a, list[1], list[1] | 0] }
`

/** Numbers that stop to be what they were. */
const NUMBERS = `
  function grown(n) { let s = 1; for (let i = 0; i < n && i < 99; i++) s = s * 3 + 1; return s }
  function shrunk(n) { let s = 1; for (let i = 0; i < n && i < 99; i++) s = s / 2; return s }
  function counted(n) { let s = n; for (let i = 0; i < 5; i++) s++; return s }
  function countedDown(n) { let s = n; for (let i = 0; i < 5; i++) --s; return [s, s--, -s] }
  function summed(n) { let s = 0; for (let i = 0; i < 9; i++) s += n; return s }
  function differing(n) { let s = 0; for (let i = 0; i < 9; i++) s -= n; return s }
  function zeros(n) { const x = -n, y = n * 0, z = n % 2; return [x, y, z, 1 / x, 1 / y, 1 / z,
    x * y, y - y, -y, +x] }
  function bits(n, m) { return [n | m, (n | m) >>> 0, n >>> 0, n >>> m, n << m, n >> m, ~n, n ^ m,
    n & m, (n >>> 0) + 1, (n >>> 0) > m] }
  function mixed(n, m) { const a = n + m, b = a * n - m; return [a, b, b / 2, b % 7, a < b, a >= b,
    a == b, a != b, a <= n, b > m] }
  function mixedOn(n, m) { let a = n; a += m; a *= 2; a -= 1; a /= m; const b = a; a = a + b;
    return [a, b, a | 0, a === b, !a, a ? 1 : 2] }
  function halved(n) { const h = n * 0.5; return [h, h + h, h | 0, h === n, h < n, -h, h ? 1 : 0] }
  function fractions(n) { return (n + 0.5) * 2 - n / 4 + 1e21 }
  function narrowed(n, m) { return (n + m | 0) + (n - m >>> 0) + (n * m | 0) }
  function stepped(n) { let x = n; x++; ++x; const y = x--; --x; return [x, y, x++ + ++x] }
  function steppedField(o) { o.n++; o.n += 5; o.n = o.n * 2; return [o.n--, --o.n, o.n] }
  function compared(n, m) {
    return [n < m, n <= m, n > m, n >= m, n == m, n != m, n === m, n !== m] }
  function branched(n, m) { if (n < m) return 1; if (n > m) return 2; if (n == m) return 3;
    return n !== m ? 4 : 5 }
  function truths(n, m) { return [!n, !!m, n && m, n || m, n ? 1 : 2, !n && !m] }
  function truthOfField(o) { if (o.n) return 1; if (!o.n) return [2, o.n]; return 3 }
  function indexed(n, m) { const list = [5, 6, 7]; return [list[n], list[n + 1], list[n - m],
    list[n] = m, list[n * 0.5]] }
  function switched2(n) { switch (n) { case 0: return 'none'; case 1: return 'one';
    case -1: return 'less'; default: return [n] } }
  function calledOn(n, m, f) { return f(n) + f(m) * 2 - 1 }
  function calledTruth(n, m, f) { return f(n) ? 'yes' : !f(m) ? 'no' : 'so' }
  function calledKept(n, m, f) { let a = f(n); a = a + 1; const b = f(a); return [a, b, f(b) | 0] }
  function calledBetween(n, m, f) { return sumBetween(n, f(m)) - sumBetween(f(n), m) }
  function sumBetween(n, m) { return n + m }
  function calledDeep(n, m, f) { return n > 0 && n < 9 ?
    calledDeep(n - 1, m, f) + 1 : f(m) }
`

/** How deep, how long, and where something was thrown. */
const ENDING = `
  function thrownDeep(o, n) {
    if (n > 0) {
      const x = thrownDeep(o, n - 1)

      return x + 1
    }
    return o.list[0] +
      o.f(o)
  }
  function thrownBetween(o, n) {
    const a = o.f(o)
    const b = o.inner
      .f(n)
    return thrownBelow(o,
      a, b)
  }
  function thrownBelow(o, a, b) {
    if (b) a = a + 1
    return a
      + o.list.none.none
  }
  function whereabouts(o, n) { return n > 0 ? whereabouts(o, n - 1) :
    o.f(o) }
  function overflowing(o, n) { return n === 0 ? o.n : overflowing(o, n - 1) + o.n }
  function overflowing2(o, n) { o.n++; const r = n === 0 ? 0 : overflowing3(o, n); return r + 1 }
  function overflowing3(o, n) { return overflowing2(o, n - 1) + o.list[0] }
  function overflowingMethod(n) { return n === 0 ? this.n : this.again(n - 1) + this.n }
  function turning(o, n) { while (o.n < n) o.n = o.n + 1; return o.n }
  function turningCalls(o, n) { let s = 0; for (let i = 0; i < n; i++) s += o.f(o); return s }
  function turningElements(o, n) { for (let i = 0; i < n; i++) o.list[i & 1] = o.list[0];
    return o.list }
`

/** Variables of the program that hold a number; only some do so always. */
const LITERALS = `
  function literals() { return [seven, minus, least, yes, no, half, wide, word, seven * minus,
    yes ? seven : no, no || minus, -seven, seven === 7, yes === true, [seven, [yes]]] }
  function literalKey(list) { list[seven] = minus; return list[seven] + list.length }
  function noLiterals() { return [twice, conditional, chosen, tried, untried, looped, looped2,
    compound, steps, taken, given, nullish, first, second, byFunction, labelled, logical] }
  function storesLiteral(n) { byFunction = n; return byFunction }
  function storesLiterals(n) { steps += n; compound = [n]; return [steps, compound] }
  function readsBlock() { return [inBlock(), seven] }
  function readsLater() { return afterReturn }
  function readsNever() { return letAfterReturn }
  function ownLiteral(a) { var x; if (a) x = 5; return (() => x)() }
  function ownLiteral2(a) { const f = () => x; const early = a ? f : 1; let x = 5;
    return [f(), early === f] }
`

/** Those variables, where the program begins. */
export const LITERALS_DECLARED = `
  const seven = 7, least = -2147483648, half = 0.5, wide = 4294967295, word = 'word'
  let minus = -3
  var yes = true
  let no = false
  var twice = 1
  twice = 2
  var conditional
  if (runs() > 5) conditional = 5
  var chosen = runs() > 5 ? 1 : 2
  var tried
  try {
    JSON.parse('{')
    tried = 6
  } catch {}
  var untried
  try {
    untried = 7
    JSON.parse('{')
  } catch {} finally {
    untried = 8
  }
  var looped
  for (const _ of []) looped = 3
  var looped2
  for (let i = 0; i < 0; i++) looped2 = 4
  var compound = 1
  compound += 2
  let steps = 1
  steps++
  var taken
  ;[taken] = [4]
  const { given = 9 } = { given: 10 }
  var nullish = 8
  nullish ??= 9
  var first, second
  first = second = 5
  var byFunction = 1
  let inBlock
  {
    let seven = 8
    inBlock = () => seven
  }
  var labelled
  out: {
    if (runs() > 0) break out
    labelled = 1
  }
  var logical
  runs() > 5 && (logical = 1)
`

/** Those that the program does not come to; it ends with this. */
export const LITERALS_AFTER = `
  if (globalThis.cases() >= 0) return
  var afterReturn = 5
  let letAfterReturn = 5
`

const DRIVE = `
  /** Calls that are all alike, and others. */
  function hint(call, alike, others) {
    for (const args of [alike, alike]) todo.push(() => call.name + ': ' + tell(call, undefined,
      args()))
    if (share() !== 0) return
    for (const args of others) todo.push(() => call.name + ': ' + tell(call, undefined, args()))
    todo.push(() => call.name + ': ' + tell(call, undefined, alike()))
  }
  const changes = [
    (o) => { delete o.x },
    (o) => { const { x } = o; delete o.x; o.x = x },
    (o) => { delete o.y; o.y = 'again' },
    (o) => { o['more' + Object.keys(o).length] = 1 },
    (o) => { Object.defineProperty(o, 'x', { get() { note('got x'); return 5 },
      set(v) { note('set x') }, configurable: true }) },
    (o) => { Object.defineProperty(o, 'y', { get() { note('got y'); delete this.x; return 6 },
      configurable: true }) },
    (o) => { Object.defineProperty(o, 'x', { writable: false }) },
    (o) => { Object.defineProperty(o, 'x', { enumerable: false, value: 8 }) },
    (o) => { Object.freeze(o) },
    (o) => { Object.preventExtensions(o) },
    (o) => { Object.setPrototypeOf(o, { x: 'proto', y: 'proto' }) },
    (o) => { Object.setPrototypeOf(o, null); delete o.y },
    (o) => { for (const key of Object.keys(o)) delete o[key] },
    (o) => { o.x = 1.5; o.y = 'text' },
    (o) => { o.x = { valueOf() { note('x'); delete o.y; return 3 } } },
    (o) => { o.list = new Uint8Array(3) },
    (o) => { o.list.length = 0; o.list = null },
    (o) => { throw new Error('changed') },
    (o) => 'text',
    (o) => { o.x = o.y = o.z = 2147483647 },
  ]
  const shaped = () => ({ x: 1, y: 2, z: 3, list: [1, 2] })
  const shapedOthers = [
    () => ({ y: 1, x: 2, z: 3, list: [1] }),
    () => ({ x: 'x', y: null, z: 0, list: { length: 'long' } }),
    () => ({ x: 0.5, y: -0, z: false, list: '12' }),
    () => ({ x: 1, y: 2, list: [] }),
    () => ({ get x() { note('x'); delete this.y; return 1 }, y: 2, z: 3, list: [1] }),
    () => ({ x: 1, get y() { note('y'); delete this.x; return 2 }, z: 1, list: [] }),
    () => ({ x: 1, get y() { this.z = 'z'; this.later = 1; return 2 }, z: 1, list: [] }),
    () => ({ x: 1, y: 2, set z(v) { note('z' + v); Object.defineProperty(this, 'x', {
      get() { return 'new' } }) }, list: [] }),
    () => Object.create({ x: 1, y: 2, z: 3, list: [4] }),
    () => Object.freeze({ x: 1, y: 2, z: 3, list: [4] }),
    () => Object.defineProperty({ x: 1, y: 2, z: 3, list: [] }, 'x', { writable: false }),
    () => Object.assign([], { x: 1, y: 2, z: 3, list: [4] }),
    () => Object.assign(() => 1, { x: 1, y: 2, z: 3, list: [4] }),
    () => new Proxy({ x: 1, y: 2, z: 3, list: [1] }, {
      get(o, k) { note(sayKey(k)); return o[k] } }),
    () => { const o = shaped(); delete o.x; o.x = 9; return o },
    () => { const o = shaped(); o[5] = 5; o.more = 1; return o },
    () => new Map(), () => 5, () => 'text', () => null, () => undefined, () => 7n,
  ]
  const noChange = () => 0
  for (const call of [${'SHAPES_NAMES'}]) {
    const others = []
    for (const change of changes) {
      others.push(() => [shaped(), change, shaped()])
      others.push(() => { let n = 0;
        return [shaped(), (o) => n++ === 1 ? change(o) : 0, shaped()] })
      others.push(() => { const o = shaped(); return [o, change, o] })
      others.push(() => [Object.assign(shaped(), { z: 0 }), change, shaped()])
    }
    for (const make of shapedOthers) {
      others.push(() => [make(), noChange, shaped()], () => [shaped(), noChange, make()])
      others.push(() => [make(), changes[0], make()])
    }
    hint(call, () => [shaped(), noChange, shaped()], others)
  }

  const pair = (...all) => all
  const node = (depth = 3) => ({ n: 1, text: 'text' + log.length, list: [depth, {}],
    inner: depth > 0 ? node(depth - 1) : null, f: noChange, make: () => node(2), x: 1 })
  const drops = [
    (o) => { o.inner = null; return 0 },
    (o) => { o.list = null; return 1 },
    (o) => { o.list.length = 0; return 0 },
    (o) => { o.list[0] = o.list = [1]; return 0 },
    (o) => { o.inner = o.inner.inner; return 0 },
    (o) => { for (const key of Object.keys(o)) delete o[key]; return 0 },
    (o) => { o.inner = node(1); o.list = [{}]; return 5 },
    (o) => { o.f = o.make = null; return 0.5 },
    (o) => { Object.defineProperty(o, 'inner', { get() { note('inner'); return node(0) } });
      return '0' },
    (o) => { o.inner.f = pair; return [] },
    (o) => { o.n = 'text'; return true },
    (o) => { const old = o.n; o.n = { valueOf() { o.inner = null; return old } };
      return 0 },
    () => { throw new RangeError('dropped') },
    (o) => { o.list = new Uint16Array(2); return 1 },
  ]
  /** What lets go of an object while something is stored into it. */
  function freeing(o) {
    return { valueOf() { o.inner = o.list = null; note('freed'); return 1 } }
  }
  const nodeOthers = [
    () => { const o = node(); return [o, freeing(o)] },
    () => { const o = node(); o.inner = [1, 2]; o.inner.x = 1; return [o, freeing(o)] },
    () => { const o = node(); o.inner = { y: [1], set x(v) { o.inner = null;
      note(typeof this.y) } }; return [o, node()] },
    () => { const o = node(); o.inner = new Proxy({ n: [1] }, { set() { o.inner = null;
      return true } }); return [o, node()] },
    () => { const o = node(); o.list = new Proxy([1], { set() { o.list = null;
      return true }, get(t, k) { o.list = null; return t[k] } }); return [o, node()] },
    () => [{ inner: node(), list: [], n: 1, f: noChange, make: node }, node()],
    () => [Object.assign(node(), { n: 2147483647 }), 2147483647],
    () => [Object.assign(node(), { n: 0.5 }), 'text'],
    () => [Object.assign(node(), { n: 'n' }), 3n],
    () => [Object.assign(node(), { n: false }), null],
    () => [Object.assign(node(), { make: () => ({ inner: null, list: 5 }) }), undefined],
    () => [Object.assign(node(), { make: () => shaped() }), []],
    () => [Object.assign(node(), { inner: 'text', list: 'list' }), {}],
    () => [Object.assign(node(), { inner: Object.freeze(node()) }), node()],
    () => [node(0), node(0)],
    () => { const o = node(); return [o, o] },
    () => { const o = node(); return [o, o.inner] },
    () => { const o = node(); o.inner = o; return [o, null] },
    () => [Object.freeze(node()), 5],
    () => [null, 5],
  ]
  for (const call of [${'BORROWING_NAMES'}]) {
    const others = [...nodeOthers]
    for (const drop of drops) {
      others.push(() => [Object.assign(node(), { f: drop }), node()])
      others.push(() => { const o = node(); o.inner.f = () => drop(o); return [o, node()] })
      others.push(() => { const o = node(); o.make = () => { drop(o); return node(2) };
        return [o, node()] })
    }
    hint(call, () => [node(), node()], others)
  }

  const lists = [(n) => new Uint8Array(n), (n) => new Int32Array(n), (n) => new Float64Array(n),
    (n) => new Uint32Array(n), (n) => new Int16Array(n), (n) => new Uint16Array(n), (n) => [...n],
    (n) => new Int8Array(n), (n) => new Float32Array(n), (n) => new Uint8ClampedArray(n)]
  const losses = [
    (list) => { if (list.buffer) detach(list.buffer); else list.length = 0 },
    (list) => { list.length = 1 },
    (list) => { delete list[0] },
    (list) => { Object.freeze(list) },
    (list) => { Object.defineProperty(list, 1, { get() { note('element'); return 7 } }) },
    (list) => { Object.setPrototypeOf(list, { 1: 'inherited', length: 2 }) },
    (list) => { list[50] = 1; list.more = 1 },
    (list) => { list[0] = 'text'; list[1] = 0.5; return 'x' },
    (list) => { list[0] = list[1] = 4294967295; return 2147483648 },
    (list) => { list[0] = list[1] = -0; return NaN },
    (list) => { if (list.push) { list.push(1, 2, 3); list.splice(0, 2) } return {} },
    (list) => { throw new Error('lost') },
  ]
  const listOthers = [...lists, (n) => ({ ...n, length: 3 }), (n) => n.join(''), () => null,
    () => 5,
    (n) => (function () { return arguments })(...n), (n) => new Proxy([...n], {}),
    (n) => new BigInt64Array(3), (n) => [n[0], , 'x'], (n) => new Map([n])]
  ;[${'ELEMENTS_NAMES'}].forEach((call, turn) => {
    const make = lists[turn % lists.length]
    const others = losses.map((loss) => () => [make([1, 2, 3]), loss, 1])
    for (const other of listOthers) {
      others.push(() => [other([1, 2, 3]), noChange, 1], () => [other([4294967295, 0.5, -1]),
        losses[0], -1], () => [other([1, 2, 3]), losses[7], 300])
    }
    for (const value of few) others.push(() => [make([3, 2, 1]), noChange, value()])
    hint(call, () => [make([1, 2, 3]), noChange, 1], others)
  })

  const whats = [(n) => n, (n) => n + 0.5, (n) => String(n), (n) => [n], (n) => n > 1,
    (n) => undefined, (n) => ({ valueOf() { note('value'); return n } }), (n) => 2147483647,
    (n) => 4294967295, (n) => -0, (n) => NaN, (n) => null, () => { throw new Error('what') }]
  const exact = [[1, 2], [2.5, 1], [true, false]]
  ;[${'NUMBERS_NAMES'}].forEach((call, turn) => {
    const isOfField = call === steppedField || call === truthOfField
    const given = (n, m, f = whats[0]) => isOfField ? [{ x: m, n }, m, f] : [n, m, f]
    const [n, m] = exact[(turn + share()) % exact.length]
    const others = []
    middle.forEach((a, i) => [...some, () => 3].forEach((b, k) => others.push(
      () => (i + k) & 1 ? given(a(), b()) : given(b(), a(), whats[1]))))
    for (const a of [5, 2147483645, -2147483646, 1e15, 60]) others.push(() => given(a, a))
    let turns = 0
    for (const what of whats) {
      others.push(() => given(1, 2, what))
      others.push(() => given(1, 2, (v) => turns++ % 3 === 1 ? what(v) : 1))
    }
    hint(call, () => given(n, m), others)
  })

  const stacked = (o) => ({ list: [1, 2], n: 1, f: noChange, inner: { f: noChange }, ...o })
  const ends = [() => { throw new Error('end') }, () => new Error('where').stack, () => 'text',
    () => null.x, (o) => whereabouts({ f: () => new Error('deep').stack }, 3),
    (o) => { o.list = {}; return 1 }, () => Symbol.iterator, (o) => { o.inner = null; return 1 }]
  for (const call of [thrownDeep, thrownBetween, whereabouts]) {
    const others = ends.flatMap((f) => [() => [stacked({ f }), 3], () => [stacked({ f }), 'x'],
      () => [stacked({ inner: { f } }), 2], () => [stacked({ list: f }), 2]])
    hint(call, () => [stacked({}), 2], [...others, () => [null, 2], () => [stacked({ list: [0.5] }),
      4]])
  }
  const overflow = (call, n) => (o) => { try { return call(o, n) } catch (error) {
    return error.name + error.message } }
  const again = { again: overflowingMethod, n: 1 }
  const byMethod = (o, n) => o.again(n)
  for (const call of [overflowing, overflowing2, byMethod]) {
    const make = (more) => call === byMethod ? { ...again, ...more } : stacked(more)
    const deep = overflow(call, Infinity), beside = overflow(call, 0.5)
    hint(call, () => [make({}), 3], [() => [make({ n: 'x' }), 4], () => [make({ n: 0.5 }), 3],
      () => [make({ again: 1, list: 1 }), 2]])
    if (share() === 0) todo.push(() => say(deep(make({}))), () => say(beside(make({}))),
      () => say(deep(make({ n: 0.5 }))))
  }
  for (const call of [turning, turningCalls, turningElements]) {
    hint(call, () => [stacked({}), 3], [() => [stacked({ n: 0.5 }), 4], () => [stacked({ n: 'x' }),
      7], () => [stacked({ list: new Uint8Array(2) }), 5], () => [stacked({ f: whats[1] }), 5]])
    if (share() === 0) for (let n = 0; n < 3; n++) {
      todo.push(() => (allow(n), call(stacked({}), Infinity)), () => (allow(n), call(stacked({
        n: 0.5, list: new Uint8Array(1) }), 1e300)))
    }
  }
  for (const call of [${'LITERALS_NAMES'}]) {
    hint(call, () => [[1]], [...few.map((make) => () => [make()]), () => [[]]])
  }
`

/** Functions that are translated. */
export const HINTED: string = [SHAPES, BORROWING, ELEMENTS, NUMBERS, ENDING, LITERALS].join('\n')
/** What calls them; behind `SPECIAL_DRIVEN`. */
export const HINTED_DRIVEN: string = DRIVE.replace('SHAPES_NAMES', namesOf(SHAPES).join())
  .replace('BORROWING_NAMES', namesOf(BORROWING).join())
  .replace('ELEMENTS_NAMES', namesOf(ELEMENTS).join())
  .replace('NUMBERS_NAMES', namesOf(NUMBERS).join())
  .replace('LITERALS_NAMES', namesOf(LITERALS).join())
