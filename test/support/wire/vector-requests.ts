/**
 * Every request of the wire vectors, as the first of its connection: how the connection must stand
 * for it, and what must come back.
 */

import {
  ATOMIC,
  ATOMIC_WRITE,
  FLUSH,
  has,
  OPCODES,
  PAYLOAD_FULL,
  READ,
  RESPONSE,
} from '../../../firmware/wire/opcode.ts'
import type { Sent } from './conversation.ts'
import type { Beginning } from './dialogue.ts'
import { VECTORS, type Vector } from './vectors.ts'

const MTU = 1024
const READ_ONLY = 'RC RDMA READ Response Only'

/** The requests of a reliable connection among the vectors, the wrong ones included. */
export const VECTOR_REQUESTS: readonly Vector[] = VECTORS.filter(({ decode }) => {
  const row = OPCODES[Number(decode.opcode)]
  return row?.transport === 'rc' && !has(row.properties, RESPONSE)
})

/** What the vectors say in words, and what the standard says of the others. */
export function expectedOf(vector: Vector): string {
  const row = OPCODES[Number(vector.decode.opcode)]!
  if (vector.icrcExpect === 'bad') return 'silence'
  if (vector.expect !== undefined) return /0x6\d/.exec(vector.expect)?.[0] ?? 'silence'
  if (vector.name.includes('misaligned') || !row.begins) return '0x61'
  if (vector.name.includes('badkey')) return '0x62'
  // The key that a SEND invalidates names no region here.
  if (row.iethAt !== 0) return '0x62'
  if (!row.ends && vector.decode.ackReq === 0) return 'silence'
  if (has(row.properties, ATOMIC)) return 'RC ATOMIC Acknowledge'
  if (has(row.properties, FLUSH) || has(row.properties, ATOMIC_WRITE)) return READ_ONLY
  if (!has(row.properties, READ)) return 'ACK'
  return Number(vector.decode.reth!.dmaLen) > MTU ? 'RC RDMA READ Response First' : READ_ONLY
}

/** The connection and the region that a request was made for. */
export function beginningOf(vector: Vector): Beginning {
  const { decode } = vector
  const at = decode.reth ?? decode.atomicEth
  const whole = OPCODES[Number(decode.opcode)]!.payload === PAYLOAD_FULL
  const va = BigInt(at?.va ?? 0)
  const refused = vector.expect?.includes('0x62') === true || vector.name.includes('badkey')
  return {
    localQp: Number(decode.destQp),
    remoteQp: 0x123456,
    expectedPsn: Number(decode.psn),
    pathMtu: whole ? decode.payloadLen : MTU,
    rkey: refused ? 0x00abcd76 : Number(at?.rkey ?? 0x00abcd77),
    vaHigh: Number(va >> 32n),
    vaLow: Number(va & 0xfffff000n),
    length: 16384,
  }
}

/** The answers in one word, as `expectedOf` has it. */
export function wordOf(answers: readonly Sent[]): string {
  // One vector says that it met congestion, and is answered for that too.
  const answer = answers.find(({ packet }) => packet.row!.transport === 'rc')
  if (answer === undefined) return 'silence'
  const { name } = answer.packet.row!
  if (name !== 'RC Acknowledge') return name
  return answer.syndrome === 0x1f ? 'ACK' : `0x${answer.syndrome.toString(16)}`
}
