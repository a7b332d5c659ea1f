/**
 * Files of tests by their names, wherever they lie below `test/`.
 *
 * Invariant: a name belongs to one file. A name that none has, or several, throws.
 */

import { basename } from 'node:path'
import { filesBelow } from './sources.ts'

const ENDING = '.test.ts'

/** Paths of all files of tests, from the root. */
export const TEST_FILES: readonly string[] = filesBelow('test').filter((path) => {
  return path.endsWith(ENDING)
})

/** The name of a file of tests. */
export function testName(path: string): string {
  return basename(path, ENDING)
}

/** The path of the file of tests with this name. */
export function testFile(name: string): string {
  const [path, another] = TEST_FILES.filter((one) => testName(one) === name)
  if (path === undefined) throw new Error(`There is no file of tests called ${name}.`)
  if (another !== undefined) throw new Error(`Two files of tests are called ${name}.`)
  return path
}

/** The paths of the files of tests with these names, which white space divides. */
export function testFiles(names: string): string[] {
  return names.trim().split(/\s+/).map(testFile)
}
