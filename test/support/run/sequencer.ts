/**
 * The files that take longest begin first: at the end of a run no worker waits for another.
 *
 * Invariant: every file runs, whatever this says of it; the others keep vitest's order.
 */

import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Longest first. */
const LONG: readonly string[] = [
  'aot',
  'board',
  'ack-model',
  'placement-through',
  'superblock',
  'evidence-coverage',
  'package',
  'crash-2of3',
  'relay',
  'evidence-crash',
  'placement-bypass',
  'crash-1of2',
  'crash',
  'crash-2of2',
  'operations-crash',
  'fences',
  'image-lock',
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
