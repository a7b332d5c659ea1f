/** The passes over bundles: what they change, and what they leave alone. */

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { expect, test } from 'vitest'
import { constsForVars } from '../../../boards/tools/bundle/constants.mjs'
import { tightened } from '../../../boards/tools/bundle/tighten.mjs'

const inBundle = (body: string): string => `var bundle = (() => {\n${body}\nreturn f;\n})();`

/** What `f` of that bundle gives for the numbers. */
function outcome(bundle: string, numbers: readonly number[]): unknown[] {
  const f = new Function(`${bundle}; return bundle`)() as (n: number) => unknown
  return numbers.map((number) => f(number))
}

test.each([
  ['function f(n) { let a = n, b = a + 1; const c = b * 2; return a + b + c }'],
  ['function f(n) { let s = 0; for (let i = 0; i < n; i++) s += i; return s }'],
  ['function f(n) { const list = [n, 1]; let s = 0; for (const x of list) s += x; return s }'],
  ['function f(n) { if (n > 1) { const a = 1; return a } const a2 = 2; return a2 }'],
  ['function f(n) { let a; return n > 1 && (a = 1), a }'],
  ['function f(n) { for (let i = 0; i < n; i++) { const t = i; n -= t } return n }'],
  ["function f(n) { let a = /a}'/.test(n); return [a, 6 / n / 2] }"],
  ['function f(n) { const of = [n], type = of[0]; return type + `}` }'],
])('%s becomes a function of var', (body) => {
  const before = inBundle(body)
  const after = tightened(before)
  expect(after).not.toMatch(/\b(let|const)\b/)
  expect(after.replaceAll('var', '')).toBe(before.replaceAll(/\b(?:let|const|var)\b/g, ''))
  expect(outcome(after, [0, 1, 2, 5])).toEqual(outcome(before, [0, 1, 2, 5]))
})

test.each([
  ['a closure', 'function f(n) { const g = []; for (let i = 0; i < n; i++) g.push(() => i); }'],
  ['a function', 'function f(n) { let a = n; return function () { return a } }'],
  ['a method', 'function f(n) { let a = n; return { g() { return a } } }'],
  ['a getter', 'function f(n) { const a = n; return { get g() { return a } } }'],
  ['a class', 'function f(n) { const a = n; return class { b = a } }'],
  [
    'no value in a loop',
    'function f(n) { while (n--) { let a; if (n > 2) a = 1; if (a) return a } }',
  ],
  ['no value, declared twice', 'function f(n) { if (n) { let a = 1; n = a } { let a; return a } }'],
  ['a pattern in a loop', 'function f(n) { for (const { a } of n) return a }'],
])('%s keeps a function as it is', (_, body) => {
  expect(tightened(inBundle(body))).toBe(inBundle(body))
})

test('constants become literals wherever they are values, and nowhere else', () => {
  const before = inBundle(`
    var A_B = 3, TWO = 2 ** 4 * A_B, TEXT = "x", BIG = 2 ** 60, list = [A_B, TWO], CHANGED = 1;
    var SUM = A_B + TWO;
    function f(n) {
      CHANGED += 1;
      const o = { A_B, TWO: n, n: TWO, TEXT };
      return n > A_B ? TWO : [o.A_B + o.TWO, list, SUM, BIG, CHANGED, "A_B", o];
    }`)
  const after = tightened(before)
  expect(after).toContain('{ A_B: 3, TWO: n, n: 48, TEXT }')
  expect(after).toContain('n > 3 ? 48 : [o.A_B + o.TWO, list, 51, BIG, CHANGED, "A_B", o]')
  expect(after).toContain('CHANGED += 1')
  expect(after).toContain('list = [3, 48]')
  expect(outcome(after, [1, 9])).toEqual(outcome(before, [1, 9]))
})

test.each([
  ['stored to', 'function f(n) { A_B = n; return A_B }'],
  ['stepped', 'function f(n) { --A_B; return A_B + n }'],
  ['stored to by a pattern', 'function f(n) { [A_B] = [n]; return A_B }'],
  ['stored to by the key of a pattern', 'function f(n) { ({ n: A_B } = { n }); return A_B }'],
  ['stored to by a rest', 'function f(n) { [...A_B] = [n]; return A_B }'],
  ['stored to by a loop', 'function f(n) { for (A_B of [n]); return A_B }'],
  ['a parameter', 'function f(A_B) { return A_B }'],
  ['a parameter with a value', 'function f(A_B = 2) { return A_B }'],
])('what is %s somewhere is no constant', (_, body) => {
  const before = inBundle(`var A_B = 3;\n${body}`)
  const after = tightened(before)
  expect(after).not.toMatch(/return 3|\b3 =/)
  expect(outcome(after, [1, 9])).toEqual(outcome(before, [1, 9]))
})

test('the value that a parameter has by itself is a value', () => {
  const before = inBundle('var A_B = 3;\nfunction f(n, m = A_B) { return n + m }')
  expect(tightened(before)).toContain('m = 3')
  expect(outcome(tightened(before), [1])).toEqual([4])
})

test('what is no program is an error, and no guess', () => {
  expect(() => tightened(inBundle('function f(n) { return n + }'))).toThrow(SyntaxError)
  expect(() => tightened('var A = 1; function f() {}')).toThrow('not one function')
})

test('the shipped bundle has been through it, and a second time changes nothing', () => {
  const path = fileURLToPath(new URL('../../../dist/firmware.js', import.meta.url))
  const bundle = readFileSync(path, 'utf8')
  expect(tightened(bundle)).toBe(bundle)
  expect(bundle).toMatch(/function copyClean\(/)
  expect(bundle).not.toMatch(/COPY_CLEAN[^ ]/)
})

/** A program of one module, as `npm run evidence` bundles it. */
async function bundled(contents: string): Promise<string> {
  const result = await build({
    stdin: { contents, loader: 'ts', sourcefile: 'a.ts' },
    outfile: 'a.js',
    bundle: true,
    format: 'esm',
    write: false,
  })
  return constsForVars(result.outputFiles[0]!.text)
}

test('what is stored to once becomes a constant, and what the program prints stays', async () => {
  const text = await bundled(`
    const SIZE = 4; const list = [SIZE]; class Box { size = SIZE }
    let count = 0; let steps = 0; let last = 0
    const page = \`
var x = 1
var list2 = 2\`
    export const run = () => { count += SIZE; ++steps; last = new Box().size; return page }
    console.log(list, count, steps, last)`)
  const lines = text.split('\n').filter((line) => /^(var|const) /.test(line))
  expect(lines).toEqual([
    'const SIZE = 4;',
    'const list = [SIZE];',
    'const Box = class {',
    'var count = 0;',
    'var steps = 0;',
    'var last = 0;',
    'const page = `',
    'var x = 1',
    'var list2 = 2`;',
    'const run = () => {',
  ])
})
