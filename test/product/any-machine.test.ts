/** That the suite runs beside whatever else a machine does, and however slow it is. */

import { describe, expect, inject, test } from 'vitest'
import { takePort } from '../support/run/taken-ports.ts'
import { sourcesBelow } from '../support/source/sources.ts'

const TESTS = sourcesBelow('test').filter(({ path }) => path.endsWith('.test.ts'))

/** Lines of tests that match, as `path:line`. */
function lines(what: RegExp): string[] {
  return TESTS.flatMap(({ path, code }) =>
    code.split('\n').flatMap((line, at) => (what.test(line) ? [`${path}:${at + 1}`] : [])),
  )
}

describe('R1-E9: the suite needs no port', () => {
  test('those that the product takes by itself are taken meanwhile', async () => {
    for (const port of inject('takenPorts')) expect(await takePort(port)).toBeNull()
  })

  test('whoever listens asks for a port that is free', () => {
    expect(lines(/\.(listen|bind)\(\s*[1-9]/)).toEqual([])
  })
})

describe('R1-E9: the suite needs no idle machine', () => {
  test('no test and no hook has a time limit of its own', () => {
    // A number of four digits behind the last brace, or an option.
    const own = /^\s*\}, *[0-9][0-9_]{3,}\)|\{ *timeout: *[0-9]|vi\.setConfig|setTimeout\(reject/
    expect(lines(own)).toEqual([])
  })

  test('no test holds what it measured on a clock against a bound', () => {
    expect(lines(/expect\([^)]*(performance\.now|Date\.now|hrtime)/)).toEqual([])
  })
})
