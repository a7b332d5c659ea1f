/**
 * The files that take longest begin first: at the end of a run no worker waits for another.
 *
 * What always holds: every file runs, whatever this says of it; the others keep vitest's order.
 */

import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Longest first. */
const LONG: readonly string[] = [
  'crash-2of3',
  'board',
  'crash-1of2',
  'crash-2of2',
  'crash',
  'fences',
  'operations-crash',
  'placement-through',
  'superblock',
  'relay',
]

function rankOf({ moduleId }: TestSpecification): number {
  const rank = LONG.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`))
  return rank < 0 ? LONG.length : rank
}

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.sort((a, b) => rankOf(a) - rankOf(b))
  }
}
