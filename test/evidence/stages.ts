/** Every stage of the evidence, in the order of the table. */

import type { Stage } from './stage.ts'

export const STAGES: readonly Stage[] = []

export function stageOf(name: string): Stage {
  const found = STAGES.find((stage) => stage.name === name)
  if (found === undefined) throw new Error(`no stage is called ${name}`)
  return found
}
