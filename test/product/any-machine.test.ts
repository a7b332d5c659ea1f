/** That the suite runs beside whatever else a machine does, however slow it is, with any Node. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { PLANS, type Step } from '../../.ci/plans.mjs'
import { takePort } from '../support/run/taken-ports.ts'
import { ROOT, sourcesBelow } from '../support/source/sources.ts'

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

describe('R1-U15: every Node that is supported passes what it could break', () => {
  const SUPPORTED = [22, 24, 26]
  const otherNodes = (plan: string): Step[] =>
    PLANS[plan]!.flat(2).filter(({ name }) => name.startsWith('node-'))

  test('the thorough run plays driver, command, emulator and flashing with each', () => {
    const steps = otherNodes('thorough')
    expect(steps.map(({ name }) => name)).toEqual(SUPPORTED.map((line) => `node-${line}`))
    for (const { command } of steps) {
      const [driver, command_, ...boards] = command.slice(3)
      expect([driver, command_]).toEqual(['test/driver', 'test/command'])
      expect(boards).toEqual(['test/boards/emulator', 'test/boards/flash'])
    }
  })

  test('the gate plays some of each with the newest, and all else with the oldest', () => {
    expect(otherNodes('gate').map(({ name }) => name)).toEqual([`node-${SUPPORTED.at(-1)}`])
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
    const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      engines: { node: string }
    }
    expect(engines.node).toBe('>=20.19')
    expect(readme).toContain(`Node 20.19 to ${SUPPORTED.at(-1)}`)
  })
})
