/** What `node build.mjs structure` measures is there, and is counted once. */

import { expect, test } from 'vitest'
import { counted } from '../structure/counted.mjs'
import { circlesOf, PARTS, partOf } from '../structure/text.ts'

/** The calls that `text` tells of while it runs. */
function callsOf(text: string): string[] {
  const calls: string[] = []
  new Function('called', counted(text, 'a'))((label: string) => calls.push(label))
  return calls
}

test('every kind of function tells of its calls, and of nothing else', () => {
  expect(callsOf('function one() { return two() }\nfunction two() { return 2 }\none()')).toEqual([
    ...['a#one', 'a#two'],
  ])
  expect(callsOf('const add = (b) => (c) => ({ sum: b + c });\nadd(1)(2)')).toEqual([
    ...['a#add', 'a#line 1'],
  ])
  const method = 'class Up { at = () => 1; constructor() { this.go() } go() { this.at() } }; new Up'
  expect(callsOf(method)).toEqual(['a#constructor', 'a#go', 'a#at'])
})

test('a program whose calls are told does what it did', () => {
  const text =
    'const f = (x) => x > 1 ? x * g(x - 1) : 1\nfunction g(x) { return f(x) }\nreturn f(5)'
  const wrapped = `const run = () => { ${text} }; out(run())`
  const found: number[] = []
  const out = (value: number): number => found.push(value)
  new Function('out', 'called', counted(wrapped, 'a'))(out, () => {})
  expect(found).toEqual([120])
})

test('circles are groups of files that reach each other', () => {
  const edges = new Map([
    ['a', ['b']],
    ['b', ['c', 'd']],
    ['c', ['a']],
    ['d', ['e', 'f']],
    ['e', ['d']],
    ['f', ['f']],
  ])
  const circles = circlesOf(edges).map((circle) => circle.sort())
  expect(circles.sort()).toEqual([
    ['a', 'b', 'c'],
    ['d', 'e'],
  ])
})

test('every part of the repository is measured', () => {
  for (const found of PARTS.map(partOf)) {
    expect(found.files, found.part).toBeGreaterThan(50)
    expect(found.lines, found.part).toBeGreaterThan(found.files * found.medianLines * 0.5)
    expect(found.imports, found.part).toBeGreaterThan(0.01)
    expect(found.imports, found.part).toBeLessThan(0.2)
  }
})
