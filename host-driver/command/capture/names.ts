/** What people call the numbers in our packets: in lines, and in fields of the dissector. */

import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  NAK_ACCESS,
  NAK_INVALID,
  NAK_OPERATIONAL,
  NAK_SEQUENCE,
} from '../../../firmware/wire/aeth.ts'
import * as blockSize from '../../../firmware/wire/block-size.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import {
  PLACEMENT_GLOBAL,
  PLACEMENT_PERSISTENT,
  SELECT_RANGE,
  SELECT_REGION,
} from '../../../firmware/wire/feth.ts'
import * as management from '../../../firmware/wire/management.ts'
import * as memory from '../../../firmware/wire/memory-status.ts'
import { OPCODES, type OpcodeRow } from '../../../firmware/wire/opcode.ts'
import * as persist from '../../../firmware/wire/persist.ts'
import * as ack from '../../../firmware/wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../../../firmware/wire/persist-query.ts'
import * as prefetch from '../../../firmware/wire/prefetch.ts'
import { mechanismOf } from '../../way/write.ts'

export type Names = ReadonlyMap<number, string>

/** Of an opcode, without the transport in front. */
export function nameOfRow(row: OpcodeRow): string {
  return row.name.replace(/^(Perdure|RC) /, '')
}

export const OPCODE_NAMES: Names = new Map(
  OPCODES.flatMap((row) => (row === undefined ? [] : [[row.opcode, nameOfRow(row)]])),
)

/** Of the syndrome of an AETH that refuses. */
export const NAK_NAMES: Names = new Map([
  [NAK_SEQUENCE, 'sequence'],
  [NAK_INVALID, 'invalid request'],
  [NAK_ACCESS, 'remote access'],
  [NAK_OPERATIONAL, 'remote operational'],
])

export const CONDITION_NAMES: Names = new Map([
  [persist.CONDITION_INDEPENDENT, 'independent'],
  [persist.CONDITION_IN_ORDER, 'in order'],
  [persist.CONDITION_EXPECT, 'expect'],
])

/** Of the placement that a FLUSH asks for: bits. */
export const PLACEMENT_NAMES: Names = new Map([
  [PLACEMENT_GLOBAL, 'visible'],
  [PLACEMENT_PERSISTENT, 'persistent'],
  [PLACEMENT_GLOBAL | PLACEMENT_PERSISTENT, 'persistent, visible'],
])

export const SELECT_NAMES: Names = new Map([
  [SELECT_RANGE, 'the range'],
  [SELECT_REGION, 'whole region'],
])

/** Of the status in a PERSIST_ACK. */
export const STATUS_NAMES: Names = new Map([
  [ack.STATUS_DURABLE, 'durable'],
  [QUERY_NOT_KNOWN, 'not known to be durable'],
  ...FAULTS.filter((row) => row.answer === 'status').map((row) => [row.code, row.name] as const),
])

const MECHANISMS = [
  ack.MECHANISM_LOCAL_FLUSH,
  ack.MECHANISM_LSB_READ,
  ack.MECHANISM_CPU_FLUSH,
] as const

/** Of the mechanism in a PERSIST_ACK, as receipts of the driver say it. */
export const MECHANISM_NAMES: Names = new Map([
  [0, 'none'],
  ...MECHANISMS.map((code) => [code, mechanismOf(code)] as const),
  ...MECHANISMS.map(
    (code) => [code | ack.MECHANISM_VOLATILE, `${mechanismOf(code)}, not for the power`] as const,
  ),
])

/** Of notices about memory. */
export const NOTICE_NAMES: Names = new Map([
  [memory.STATUS_CHANGE, 'change'],
  [memory.STATUS_CURRENT, 'current'],
  [memory.STATUS_ERROR, 'error'],
  [memory.STATUS_UNAVAILABLE, 'unavailable'],
  [memory.STATUS_RESET, 'reset'],
  [memory.STATUS_HEALTH, 'health'],
])

export const HEALTH_NAMES: Names = new Map([
  [memory.HEALTH_OK, 'ok'],
  [memory.HEALTH_DEGRADED, 'degraded'],
  [memory.HEALTH_NOT_PERSISTENT, 'not persistent'],
  [memory.HEALTH_FAILED, 'failed'],
])

export const FORM_NAMES: Names = new Map([
  [memory.FORM_LIST, 'list'],
  [memory.FORM_BITMAP, 'bitmap'],
])

/** Of the answer to a question about the size of blocks. */
export const SIZE_STATUS_NAMES: Names = new Map([
  [blockSize.SIZE_GRANTED, 'granted'],
  [blockSize.SIZE_OFFERED, 'offered'],
  [blockSize.SIZE_REFUSED, 'refused'],
])

export const HINT_NAMES: Names = new Map([
  [prefetch.PREFETCH_WILL_NEED, 'will need'],
  [prefetch.PREFETCH_DONT_NEED, 'will not need'],
  [prefetch.PREFETCH_SEQUENTIAL, 'sequential'],
  [prefetch.PREFETCH_DROP, 'may drop'],
])

export const METHOD_NAMES: Names = new Map([
  [management.METHOD_GET, 'GET'],
  [management.METHOD_SET, 'SET'],
  [management.METHOD_RESPONSE, 'response'],
])

/** Of control calls: every ATTRIBUTE_NAME is NAME. */
export const ATTRIBUTE_NAMES: Names = new Map(
  Object.entries(management)
    .flatMap(([name, number]): [number, string][] => {
      const found = /^ATTRIBUTE_(\w+)$/.exec(name)
      return found === null ? [] : [[number as number, found[1]!]]
    })
    .sort(([a], [b]) => a - b),
)

/** Of faults, by number. */
export const FAULT_NAMES: Names = new Map(FAULTS.map(({ name }, number) => [number, name]))

/** Of messages of RDMA-CM. */
export const CM_NAMES: Names = new Map([
  [cm.CM_REQ, 'REQ'],
  [cm.CM_MRA, 'MRA'],
  [cm.CM_REJ, 'REJ'],
  [cm.CM_REP, 'REP'],
  [cm.CM_RTU, 'RTU'],
  [cm.CM_DREQ, 'DREQ'],
  [cm.CM_DREP, 'DREP'],
])
