/** Every mutant, by subject. */

import type { Mutant } from './mutant.ts'
import { BATCH_RULES } from './rules/batch.ts'
import { COMMIT } from './rules/commit.ts'
import { HOST } from './rules/host.ts'
import { NEWER } from './rules/newer.ts'
import { RECOVERY_RULES } from './rules/recovery.ts'
import { REQUESTER } from './rules/requester.ts'
import { SERVE } from './rules/serve.ts'
import { SESSION_RULES } from './rules/sessions.ts'
import { STRANGER_RULES } from './rules/strangers.ts'
import { TABLE } from './rules/table.ts'
import { TRANSPORT } from './rules/transport.ts'

export const MUTANTS: readonly Mutant[] = [
  ...COMMIT,
  ...RECOVERY_RULES,
  ...TABLE,
  ...TRANSPORT,
  ...SERVE,
  ...BATCH_RULES,
  ...HOST,
  ...NEWER,
  ...REQUESTER,
  ...STRANGER_RULES,
  ...SESSION_RULES,
]
