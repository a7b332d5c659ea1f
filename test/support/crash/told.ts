/**
 * What a lean boot tells, taken from the state of the firmware as a card would tell it over the
 * wire: the judge compares it with what lies on the part.
 */

import { PASS } from '../../../firmware/board/fault.ts'
import { findClient, isDurable } from '../../../firmware/commit/operations.ts'
import type { State } from '../../../firmware/core.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { DECIDED } from '../judges/case-table.ts'
import type { Asker, ReportLine, Started } from './booth.ts'

const ACTIONS = ['none', 'useA', 'useB', 'lost']

/** What a state says of itself, as a card does in its greeting. */
export function startedOf(state: State): Started {
  const { refused, commit, recovery, regions } = state
  const closed = commit.closed === PASS ? mad.STATE_SERVING : mad.STATE_FAILED_CLOSED
  return {
    state: refused === PASS ? closed : mad.STATE_REFUSED,
    fault: refused === PASS ? commit.closed : refused,
    unsettled: regions.places[0]?.unsettled ?? 0,
    get report(): readonly ReportLine[] {
      return recovery.report.entries.map((entry) => ({
        region: entry.regionId,
        lane: entry.lane,
        row: entry.row,
        action: ACTIONS.indexOf(DECIDED[entry.row]!.action),
        sourceCase: DECIDED[entry.row]!.sourceCase,
        validMask: entry.validMask,
        flags: entry.flags,
        record: entry.record,
        linesRead: entry.linesRead,
      }))
    },
  }
}

/** What PERSIST_QUERY would say. */
export function askerOf(state: State): Asker {
  const { operations } = state.commit
  return (client, asked) => {
    const place = findClient(operations, -1, 0, client)
    return asked.map((operation) => isDurable(operations, place, 0, operation))
  }
}
