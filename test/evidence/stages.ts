/** Every stage of the evidence, in the order of the table. */

import { BOUND } from './bound/stage.ts'
import { FUZZ } from './fuzz/stage.ts'
import { IMAGES } from './images/stage.ts'
import { MUTANTS_STAGE } from './mutants/stage.ts'
import type { Stage } from './stage.ts'

export const STAGES: readonly Stage[] = [IMAGES, FUZZ, MUTANTS_STAGE, BOUND]

export function stageOf(name: string): Stage {
  const found = STAGES.find((stage) => stage.name === name)
  if (found === undefined) throw new Error(`no stage is called ${name}`)
  return found
}
