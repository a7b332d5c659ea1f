/** The short cut of C1b: the image generator. And that a difference is noticed. */

import { expect, test } from 'vitest'
import { THOROUGH } from '../../support/run/thorough.ts'
import { ALPHABET, holdProgram, programIn, scriptOf } from '../images/programs.ts'
import { IMAGES } from '../images/stage.ts'
import { missed, playAll } from '../stage.ts'

const SEED = 20261121

test('the images are those of the closed forms and of the reference', THOROUGH, async () => {
  const total = await playAll(IMAGES, 'cut', SEED)
  expect(total.described).toEqual([])
  expect(total.violations).toBe(0)
  expect(missed(IMAGES, total, 'cut')).toEqual([])
  expect(IMAGES.lacks!(total, 'cut')).toEqual([])
})

test('a store, a write-back or a fence too few is noticed', () => {
  const program = programIn('s 0 8 1; c 0 64; f; s 56 16 2; s 4 8 3')
  expect(holdProgram(program).objections).toEqual([])
  for (const left of [0, 1, 2, 3, 4]) {
    const shorter = program.filter((_, i) => i !== left)
    expect([left, holdProgram(program, shorter).objections.length]).not.toEqual([left, 0])
  }
})

test('a line that was stored and taken back is one image, as long as lines are whole', () => {
  const program = programIn('s 0 8 1; s 0 8 0')
  expect(holdProgram(program).objections).toEqual([])
  const { images } = holdProgram(programIn('s 0 8 1; s 0 8 0; s 64 64 4'))
  expect(images).toBeGreaterThan(2 * 2 ** 8)
})

test('a program, and a form, is played again from its line', async () => {
  const script = scriptOf(ALPHABET)
  expect(scriptOf(programIn(script))).toBe(script)
  const story = await IMAGES.replay('s 0 8 1; c 0 64; f; s 4 8 3')
  expect(story.violated).toBe(false)
  expect(story.text.split('\n')[0]).toBe('s 0 8 1')
  expect((await IMAGES.replay('form prefix 256')).text).toContain('13122 images')
})
