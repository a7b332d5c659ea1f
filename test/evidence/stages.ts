/** Every stage of the evidence, in the order of the table. */

import { BOUND } from './bound/stage.ts'
import { COVERAGE } from './coverage/stage.ts'
import { CRASH } from './crash/stage.ts'
import { FAILURES } from './failures/stage.ts'
import { FUZZ } from './fuzz/stage.ts'
import { HOST } from './host/stage.ts'
import { IMAGES } from './images/stage.ts'
import { MODEL } from './model/stage.ts'
import { MUTANTS_STAGE } from './mutants/stage.ts'
import { QUICKJS } from './quickjs/stage.ts'
import { ATTACK } from './simulate/closed/stage.ts'
import { SIMULATE } from './simulate/stage.ts'
import { SOURCES } from './sources/stage.ts'
import type { Stage } from './stage.ts'
import { WIDE } from './wide/stage.ts'

export const STAGES: readonly Stage[] = [
  CRASH,
  IMAGES,
  WIDE,
  HOST,
  MODEL,
  SIMULATE,
  ATTACK,
  QUICKJS,
  FUZZ,
  FAILURES,
  MUTANTS_STAGE,
  SOURCES,
  COVERAGE,
  BOUND,
]

export function stageOf(name: string): Stage {
  const found = STAGES.find((stage) => stage.name === name)
  if (found === undefined) throw new Error(`no stage is called ${name}`)
  return found
}
