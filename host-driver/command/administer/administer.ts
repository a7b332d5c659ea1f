/**
 * The commands that administer a running card, or an image: the part, its regions, its records, its
 * ports.
 *
 * Invariants:
 * - Each is one call of the library, and says what that has done only when the card has said so.
 * - What loses something asks first (`confirm.ts`), and `--dry-run` changes nothing.
 */

import type { Command } from 'commander'
import { addPart } from './part.ts'
import { addPorts } from './ports.ts'
import { addRecords } from './records.ts'
import { addRegions } from './regions.ts'

export function addAdminister(program: Command): void {
  for (const add of [addPart, addRegions, addRecords, addPorts]) add(program)
}
