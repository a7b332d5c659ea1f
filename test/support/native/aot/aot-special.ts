/**
 * What a translation can get wrong beyond its operations: who holds a value and for how long,
 * errors in the middle of an expression, calls, loops, functions that go on in the interpreter.
 *
 * Invariants: as in `aot-cases.ts`.
 */

import { namesOf } from './aot-cases.ts'

/** Values that nothing else holds while they are used: the sanitizer sees what is used too long. */
const HOLDING = `
  function storedLocal(make) { let x = make(); return [x, x = make(), x, x = null, x] }
  function storedArgument(a, make) { return [a, a = make(), a, a = 1] }
  function storedBeforeCall(make, take) { let x = make(); return take(x, x = make(), x) }
  function storedInSum(x, make) { return x.n + (x = make()).n + x.n }
  function storedByElement(make) { let x = make(); x.list[0] = x = make(); return x }
  function storedKey(make) { let k = make(); const o = {}; o[k.text] = k = make(); return [o, k] }
  function storedSelf(make) { let x = make(); return x.same(x = null) }
  function storedObject(make) { let x = make(); x.n = x = make(); return x.n }
  function storedTwice(make) { let x = make(), y = x; x = make(); y = [y, x]; x = y; return [x, y] }
  function storedInLoop(make) {
    let x = make()
    for (let i = 0; i < 3; i++) { const old = x; x = i === 1 ? old : make();
      if (x === old) x = [x] }
    return x
  }
  function storedAcross(make, a) { let x = make(); return [x, a ? x = 1 : (x = make(), x), x] }
  function storedPostfix(make) { let x = make(); return [x, x++, x] }
  function storedSumLocal(make) { let x = make().text; x += x += 'y'; return x }
  function closureStored(make) { held = make(); return [held, held = make(), held] }
  function closureDropped(make) { held = make(); return held.drop(held) }
  function closureField(make) { held = make(); return held.inner.value(drop(), 5) }
  function closureElement(make) { held = make(); return held.list[drop()] }
  function closurePut(make) { held = make(); held.list[drop() + 1] = held; return held }
  function closureSum(make) { held = make(); return held.text + drop() + held }
  function closureCall(make) { heldCall = make(); return heldCall(1) }
  function closureThis(make) { held = make(); held.drop(); return 1 }
  function onceHeld() { return [once, once.list, once.list[0]] }
  function onceChanged() { once.list = [once.list.length]; return once.list[0] + once.list.length }
  function onceEmptied(make) { const old = once.inner; once.inner = make(); return old }
  function thisDropped() { drop(); return [this.n, this.list] }
  function thisStored(make) { this.inner = make(); const x = this.inner; this.inner = null;
    return x }
  function argumentOverwritten(list, take) { return take(list[0], list[0] = {}, list.length = 0) }
  function elementOverwritten(list) { const x = list[0]; list[0] = 1; list.length = 0; return x }
  function fieldOverwritten(o, make) { const x = o.x; o.x = make(); delete o.x; return x }
  function fieldOfField(o) { const x = o.x; o.x = null; return x.x }
`

const THROWING = `
  function throwsInList(make, fail) { return [make(), make(), fail(), make()] }
  function throwsInCall(make, fail) { return make(make(), make().n, fail(make()), 3) }
  function throwsInKey(make, fail) { make().list[fail()] = make(); return 1 }
  function throwsInValue(make, fail) { make().list[make().n] = fail(); return 1 }
  function throwsInField(make, fail) { make().n = fail(); return 1 }
  function throwsInSum(make, fail) { let s = 'a'; s += make().text + fail(); return s }
  function throwsInLocal(make, fail) { let x = make(); x = [x, fail(x)]; return x }
  function throwsInMethod(make, fail) { return make().same(make(), fail(), make()) }
  function throwsInBranch(make, fail) { return [make(), fail ? [make(), fail()] : 1] }
  function throwsInArgument(a, make, fail) { a = make(); return three(a, a = [a], fail()) }
  function throwsBelow(make, fail) { const x = make(); return [x, throwsInList(make, fail)] }
  function throwsPrimitive(a) { if (a) throw a; return a.b.c }
  function notCallable(make) { return [make(), make().none(make())] }
  function noProperty(make) { return [make(), make().none.none] }
  function noPropertySet(make) { make().none.none = make(); return 1 }
  function notDefined(make) { return [make(), nowhere] }
  function frozen(make) { const o = Object.freeze(make()); o.n = make(); return o }
  function throwsDeep(a, n) { if (n > 0) return throwsDeep(a, n - 1); return a.b.c }
  function throwsDeeper(a, n) { if (n > 0) { const x = throwsDeeper(a, n - 1)
    return x }
    return a.b
      .c }
  function caught(fail) {
    try { return fail(1) } catch (error) { return ['caught', error.message] } finally {
      note('last') }
  }
  function rethrown(fail) { try { fail() } catch (error) { error.more = 1; throw error } }
`

const CALLING = `
  function three(a, b, c) { return [a, b, c] }
  function tooFew(a) { return three(a) }
  function tooMany(a) { return three(a, a, a, a, a) }
  function passedOn(a, b) { return three(b, a) }
  function reassigned(a, b) { a = [a]; a = [a, b]; b = a; return b }
  function keepsArgument(make) { const x = make(); reassigned(x, x); return x }
  function clearsArgument(a) { return three(a, a = null, a) }
  function nineArguments(o, a) { return o.join(a, 1, 2, 3, 4, 5, 6, 7, o) }
  function manyArguments(o, a) { return o.join(a, o, a, o, a, o, a, o, a, o, a, o, a, o, a, o, a) }
  function nineOf(f, a) { return f(a, 1, 2, 3, 4, 5, 6, 7, a) }
  function point(x, y) { this.x = x; this.y = y }
  function newPoint(a) { return new point(a, [a]) }
  function ownObject(a) { this.x = a; return a }
  function newOwn(a) { return new ownObject(a) }
  function newInChoice(a, Made) { return [a, a ? new Made(1, 2) : 5, a] }
  function listInChoice(a) { return [a, a ? [1, a, 3] : a, a] }
  function callInChoice(a, f) { return [a, a ? f(1, a, 3) : a, a] }
  function directThis(a) { return plainThis(a) }
  function plainThis(a) { return [this, a] }
  function fibonacci(n) { return n < 2 || !(n < 12) ? n : fibonacci(n - 1) + fibonacci(n - 2) }
  function endless(n) { return endless(n + 1) + 1 }
  function endlessOne(n) { const x = [n]; return endlessOther(x) + 1 }
  function endlessOther(x) { return endlessOne(x[0] + 1) }
  function endlessMethod() { return this.deeper() + 1 }
  function endlessLeaving(n) { return ('' + n, endlessLeaving(n + 1) + 1) }
  function calledBack(list) { return list.map(fibonacci).sort(descending) }
  function descending(a, b) { return b - a }
  function bound(f) { return f.bind(1, 2)(3) }
  function applied(f) { return f.apply(null, [1, 2]) }
`

const LOOPING = `
  function labels(n) {
    let text = ''
    outer: for (let i = 0; i < n && i < 9; i++) {
      for (let k = n & 15; k > 0; k--) {
        if (k === i) continue outer
        if (i + k === 5 || (i > 3 && k < 2)) break outer
        text = text + (i & 1 && k & 1 ? 'x' : i || k ? 'y' : 'z')
      }
    }
    return text
  }
  function doWhile(n) { let i = 0; do { i += 2; if (i > 7) break } while (i < n); return i }
  function logic(a, b, c) { return [a && b || c, a || b && c, (a ?? b) || c, a ? b && c : b || c,
    !(a && b)] }
  function commas(a) { let i = 0; return (i++, a++, i += a, --a, i * a) }
  function sumAll(list) { let s = 0; for (let i = 0; i < list.length; i++) s = s + list[i];
    return s }
  function sumSlowly(list) { let s = 0; for (let i = 0; i < list.length; i++) s += list[i];
    return s }
  function argumentsKept(a, b) { a = a + 1; b = [a, b]; const c = a + b; a = c + a;
    return [a, b, c] }
  function shapes(list) {
    let text = ''
    for (let i = 0; i < list.length; i++) { const o = list[i]; text += o.x; o.x = i; text += o.x;
      o.z = i }
    return text
  }
  function typed(list, value) {
    const n = list.length + 2
    for (let i = 0; i < n; i++) { list[i] = value; value = list[i]; if (!value) value = i }
    return value
  }
  function crc(n) {
    let c = n
    for (let k = 0; k < 64; k++) c = c & 1 ? (0xedb88320 ^ (c >>> 1)) >>> 0 : c >>> 1
    return [c, c | 0, c << 5, c >> 3, c * 3, c - 4294967296]
  }
  function early(a) { if (a) return later; let later = 1; return later }
  function earlyStore(a) { if (a) later = 2; let later = [a]; return later }
  function earlyLoop(n) { let s = 0; for (let i = 0; i < n; i++) { if (i === 2) s += x; let x = i;
    s += x } return s }
  function constantStore(a) { const c = [a]; if (a) c = 2; return c }
  function readLate() { return [1, late] }
  function writeLate() { late = [3]; return late }
  function stepLate() { return late++ }
`

/** What goes on in the interpreter: there a function can do everything. */
const LEAVING = `
  function closures(a) { let n = a; const up = () => ++n; up(); n += 1; return [n, up(), n] }
  function closuresInLoop(a) { const all = []; for (let i = 0; i < a && i < 5;
    i++) all.push(() => i++); return all.map((f) => f()) }
  function closureAfter(a) { const x = [a]; a = [x]; const f = () => [x, a]; a = 1; return f() }
  function forOf(list) { let s = 0; for (const x of list) { if (x === 9) break; s += x } return s }
  function forIn(o) { let s = ''; for (const k in o) s += k; return s }
  function spread(a) { return [...a, ...a] }
  function restOfObject(o) { const { x, ...others } = o; return [x, others] }
  function assigned(a, b) { let x = a; x ??= b; x ||= 1; x &&= [b, x]; return x }
  function assignedClosure(a) { held = a; held ??= 5; held ||= [6]; const x = held; held = null;
    return x }
  function assignedArgument(a) { a ||= [1]; return [a, a &&= 2, a] }
  function takenInto(o) { let x = [], y = x; ({ x, y } = o); return [x, y] }
  function expression(a) { return /(b)c?/.exec(a) }
  function catches(a) { let x = [a]; try { x = a.b.c } catch { x = [x] } return x }
  function finallyReturns(a) { for (let i = 0; i < 3; i++) { try {
    if (a === i) return i } finally { a-- } } return a }
  function longSwitch(a) { let t = [a]; switch (typeof a) { case 'string': t = a + t; break;
    case 'number': t = a; default: t = [t] } return t }
  function textThenNumbers(a) { let t = 'n' + a; let s = 0; for (let i = 0; i < 4; i++) s += i;
    return t + s }
  function nested(a) { return [a, [a + 'x', { a, b: [a, a + 1, { c: a }] }], a] }
  function gone(a) { spin(a + '') }
`

const SPINNING = `
  function spin() { while (true) {} }
  function spinAdding(o) { for (;;) o.n++ }
  function spinCalling(f) { for (;;) f() }
  function spinText(a) { let t = [a]; for (;;) t = [a, leaves(a), t.length] }
  function leaves(a) { const x = [a, a]; return x + a }
  function spinLeaving(a, b) { const x = [b]; for (;;) { leaves(a); leaves(b); nothing(x) } }
  function nothing(x) { return x }
`

const DRIVE = String.raw`
  let made = 0
  const make = () => ({
    n: ++made, text: 'text' + made, list: [made, {}], inner: { value: (a, b) => [a, b] },
    same(...all) { return [this, all] },
    drop(...all) { held = null; return all },
    valueOf() { note('number'); return this.n },
  })
  drop = () => { held = null; note('dropped'); collect(); return 0 }
  const makeCall = () => { const big = [made++]; return (a) => { heldCall = null; collect();
    return [big, a] } }
  const fail = () => { throw new TypeError('failed ' + log.length) }
  const failPlain = () => { throw { plain: 1 } }
  const join = { join(...all) { return [this === join, all.length, all[0], all[7], all[8]] } }
  const gadget = () => Object.assign(make(), { thisDropped, thisStored, endlessMethod,
    deeper: endlessMethod })
  let tasks = []
  const add = (call, ...lists) => tasks.push(() => call.name + ': ' + tell(call, undefined, lists))
  for (const call of [${'HOLDING_NAMES'}]) {
    add(call, make, (...all) => all)
  }
  add(storedArgument, make(), make)
  tasks.push(() => tell((m) => storedArgument(m(), m), undefined, [make]))
  tasks.push(() => tell((m) => storedInSum(m(), m), undefined, [make]))
  tasks.push(() => tell((m) => argumentOverwritten([m()], (...all) => all), undefined, [make]))
  tasks.push(() => tell((m) => elementOverwritten([m()]), undefined, [make]))
  tasks.push(() => tell((m) => [fieldOverwritten({ x: m() }, m), fieldOfField({ x: { x: [1] } })],
    undefined, [make]))
  add(closureCall, makeCall)
  tasks.push(() => tell((m) => { held = gadget(); return held.thisDropped() }, undefined, [make]))
  tasks.push(() => tell((m) => gadget().thisStored(m), undefined, [make]))
  for (const call of [${'THROWING_NAMES'}]) {
    add(call, make, fail)
    add(call, make, failPlain)
    add(call, fail, make)
    for (const value of values) tasks.push(() => call.name + tell(call, undefined, [value(), make,
      fail]))
  }
  const others = [...few, () => make(), () => [1, 2.5, 'x', null], () => [3, 1, 2], () => three,
    () => point]
  for (const call of [${'CALLING_NAMES'}]) {
    if (call.name.startsWith('endless')) continue
    for (const value of others) {
      add(call, value(), (...all) => all)
      add(call, make, value())
      add(call, join, value())
    }
    for (let n = 0; n < 12; n++) add(call, n, point)
  }
  for (const call of [throwsDeep, throwsDeeper]) {
    for (const value of others) add(call, value(), 3)
    add(call, { get b() { return fail() } }, 3)
  }
  tasks.push(() => [1, 0].map((a) => say(newInChoice(a, Map)) + say(newInChoice(a, Array))).join())
  for (const call of [endless, endlessOne, endlessLeaving, () => gadget().endlessMethod()]) {
    tasks.push(() => {
      try {
        return call(0)
      } catch (error) {
        return error.name + error.message + [error.stack.split('\n')[0].replace(/:.*/, '')].length
      }
    })
  }
  for (const call of [${'LOOPING_NAMES'}]) {
    for (const value of [...others, () => 3, () => 6]) {
      add(call, value(), value(), 7)
      for (const list of [[1, 2, 3], [1, 'x', {}], [0.5, , 2n], new Uint8Array(3),
        new Int32Array(2),
        new Float64Array(3), new Uint32Array(2), new Uint16Array(2)]) {
        add(call, list, value())
      }
    }
  }
  tasks.push(() => tell(shapes, undefined, [[{ x: 1 }, { y: 1, x: 2 }, { x: 3, y: 4 }, {},
    Object.create({ x: 5 }), { get x() { return 'got' }, set x(v) { note('set' + v) } }, [], {
      x: 6 },
    Object.assign(() => 1, { x: 7 }), new point(8, 9)]]))
  for (let n = 0; n < 100; n++) {
    tasks.push(() => tell(shapes, undefined, [[{ ['p' + n]: n, x: n }, { x: n }, { x: 'last' }]]))
  }
  for (const call of [${'LEAVING_NAMES'}]) {
    if (call === gone) continue
    for (const value of [...others, () => 0, () => 3, () => 'abc', () => ({
      x: 1, y: [2], z: 3 })]) {
      add(call, value(), make())
    }
  }
  for (let n = 0; n < 6; n++) {
    tasks.push(() => (allow(n), spin()), () => (allow(n), spinAdding(make())))
    tasks.push(() => (allow(n), spinCalling(make)), () => (allow(n), spinCalling(leaves)))
    tasks.push(() => (allow(n), spinText('a')), () => (allow(n), spinLeaving({}, 'b')))
    tasks.push(() => (allow(n), spinLeaving(make(), [{}])), () => (allow(n), gone({})))
    tasks.push(() => (allow(n), [{}].forEach(spinText)))
  }
  let early0 = tell(readLate, undefined, []) + tell(writeLate, undefined, []) + tell(stepLate,
    undefined, [])
  let late = [1]
  tasks.push(() => early0 + tell(stepLate, undefined, []), () => tell(writeLate, undefined, []))
  // A share has one task of each dozen, another for each.
  todo.push(...tasks.filter((_, i) => share() === 0 || i % 12 === share()))
`

/** Functions that are translated. */
export const SPECIAL: string = [HOLDING, THROWING, CALLING, LOOPING, LEAVING, SPINNING].join('\n')
/** What calls them; behind `listOfCases`. */
export const SPECIAL_DRIVEN: string = `
  var held, heldCall, drop
  const once = { list: [1], inner: { x: 1 } }
${DRIVE.replace('HOLDING_NAMES', namesOf(HOLDING).join())
  .replace('THROWING_NAMES', namesOf(THROWING).join())
  .replace('CALLING_NAMES', namesOf(CALLING).join())
  .replace('LOOPING_NAMES', namesOf(LOOPING).join())
  .replace('LEAVING_NAMES', namesOf(LEAVING).join())}`
