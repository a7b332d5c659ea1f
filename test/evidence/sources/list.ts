/** Every row, in the order of the ids. */

import type { Row } from './row.ts'
import { ACROSS } from './rows/across.ts'
import { BATCHES } from './rows/batches.ts'
import { COPIES } from './rows/copies.ts'
import { DECISIONS } from './rows/decisions.ts'
import { MISSING } from './rows/missing.ts'
import { PERSIST } from './rows/persist.ts'
import { QUEUES } from './rows/queues.ts'
import { STATUS } from './rows/status.ts'

export const ROWS: readonly Row[] = [
  ...COPIES,
  ...DECISIONS,
  ...ACROSS,
  ...PERSIST,
  ...QUEUES,
  ...BATCHES,
  ...STATUS,
  ...MISSING,
]
