/**
 * What was seen of the firmware, as text: how several runs become one profile, and how the build
 * finds out that one is old.
 */

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { PROFILE } from '../../../boards/linux/engine.ts'
import { lostFunctions, mergeProfiles } from '../../../boards/linux/profile.ts'
import { Trouble } from '../../../boards/tools/debian/programs.ts'

describe('several runs become one profile', () => {
  test('sorted by function, then by offset, with all that was seen', () => {
    const one = 'late 1f 20 a:1 2:8\n'
    const two = '# a comment\n\nearly 2e 10 0:4\nlate 1f 20 2:11 10:80\n'
    expect(mergeProfiles([one, two])).toBe('early 2e 10 0:4\nlate 1f 20 2:19 a:1 10:80\n')
  })

  test('functions of one name are kept apart by their operations and bytes', () => {
    const lines = 'same 1 10 0:1\nsame 1 11 0:2\nsame 2 10 0:4\n'
    expect(mergeProfiles([lines])).toBe(lines)
  })

  test('a property that was always in one slot keeps it', () => {
    expect(mergeProfiles(['f 1 1 0:30001', 'f 1 1 0:30008', 'f 1 1 0:2'])).toBe('f 1 1 0:3000b\n')
    expect(mergeProfiles(['f 1 1 0:ffff0001', 'f 1 1 0:ffff0001'])).toBe('f 1 1 0:ffff0001\n')
  })

  test('one that was in several has none, whoever comes first', () => {
    const texts = ['f 1 1 0:10001', 'f 1 1 0:20008', 'f 1 1 0:10100']
    const wanted = 'f 1 1 0:129\n'
    for (let first = 0; first < texts.length; first++) {
      const turned = [...texts.slice(first), ...texts.slice(0, first)]
      expect(mergeProfiles(turned)).toBe(wanted)
      expect(mergeProfiles(turned.toReversed())).toBe(wanted)
    }
    expect(mergeProfiles([texts.join('\n')])).toBe(wanted)
  })

  test('what is no profile is refused, and named', () => {
    for (const line of ['<<<<<<< ours', 'f 1', 'f 1 1 0:', 'f 1 1 0:1 x']) {
      expect(() => mergeProfiles(['f 1 1 0:1', line])).toThrow(Trouble)
      expect(() => mergeProfiles([line])).toThrow(line)
    }
  })
})

describe('an old profile', () => {
  const profile = 'changed 1 10 0:1\ngone 2 10 0:1\nhere 3 10 0:1\n'
  const translated = '\n/* changed 4 10 */\nstatic int f0;\n/* here 3 10 */\n/* new 5 6 */\n'

  test('has functions that the program has not, or not any more as they were', () => {
    const { lost, count } = lostFunctions(profile, translated)
    expect(lost).toEqual(['changed 1 10', 'gone 2 10'])
    expect(count).toBe(3)
    expect(lostFunctions('# nothing\n', translated)).toEqual({ lost: [], count: 0 })
  })
})

describe('the profile of the firmware', () => {
  test('is as the bench writes it, and says how it is made', () => {
    const text = readFileSync(PROFILE, 'utf8')
    expect(text.replaceAll(/^#.*\n/gm, '')).toBe(mergeProfiles([text]))
    const head = text.split('\n').filter((line) => line.startsWith('#'))
    expect(head.join('\n')).toContain('npm run bench:native -- --learn')
    expect(text.startsWith(head.join('\n'))).toBe(true)
  })
})
