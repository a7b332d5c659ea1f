/**
 * Totality of what is decided by cases: whatever comes, exactly one answer, and it has a name. The
 * recovery table over all that a record and its lane may be; the checks of a frame over every
 * opcode and length; the order of a request over every opcode, place and position.
 *
 * What is expected is worked out here a second time, from the layout of the headers as the
 * specification has it, not from the tables of the firmware.
 */

import { FAULTS } from '../../../firmware/board/fault.ts'
import { CASES, type CopyFacts, caseMatches, judgeCopies } from '../../../firmware/commit/cases.ts'
import { PHASE_A, PHASE_B, PHASE_NONE } from '../../../firmware/medium/lane.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import {
  createQueuePair,
  MESSAGE_NONE,
  MESSAGE_PERSIST,
  MESSAGE_RECORD,
  MESSAGE_SEND,
  MESSAGE_WRITE,
  type QueuePair,
} from '../../../firmware/transport/queue-pair.ts'
import { checkSequence, judgeRequest } from '../../../firmware/transport/responder.ts'
import { OPCODES } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import type { Conformed } from './conformance.ts'

function nameOf(fault: number): string {
  return FAULTS[fault]?.name ?? `${fault}, which is none`
}

/** Every combination of lane phase, validity, equality, order of sequences, and level. */
export function totalRecovery(): Conformed {
  const cells: Record<string, number> = {}
  const complaints: string[] = []
  let count = 0
  for (const phase of [PHASE_A, PHASE_B, PHASE_NONE]) {
    for (let bits = 0; bits < 32; bits++) {
      const bit = (i: number): boolean => ((bits >> i) & 1) === 1
      const facts: CopyFacts = {
        ...{ phase, aValid: bit(0), bValid: bit(1), same: bit(2) },
        ...{ bCurrent: bit(3), promised: bit(4) },
      }
      count += 1
      const rows = CASES.flatMap((row, i) => (caseMatches(row, facts) ? [i] : []))
      if (rows.length !== 1 || judgeCopies(facts) !== rows[0]) {
        complaints.push(`${JSON.stringify(facts)} has the rows ${rows}`)
      }
      cells[`recovery: ${CASES[rows[0] ?? 0]!.name}`] = 1
    }
  }
  return { count, cells, complaints }
}

/** Bytes behind BTH of every opcode that there is, by the specification; IBTA 9.2, and ours. */
const HEADERS: Readonly<Record<number, number>> = {
  ...{ 0: 0, 1: 0, 2: 0, 3: 4, 4: 0, 5: 4, 6: 16, 7: 0, 8: 0, 9: 4, 10: 16, 11: 20, 12: 16 },
  ...{ 13: 4, 14: 0, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28, 22: 4, 23: 4, 28: 20, 29: 16 },
  ...{ 100: 8, 101: 12, 129: 0, 196: 32, 197: 32, 198: 32, 199: 0, 200: 0, 202: 32 },
  ...{ 204: 24, 205: 12, 209: 36, 216: 32, 217: 20 },
}

const RC_LAST = 0x1f
const ETHERNET = 14
const IPV4 = 20
const UDP = 8
const BTH = 12
const ICRC = 4
const ETHERNET_SOURCE = 6
const IPV4_SOURCE: number = ETHERNET + 12

/** A frame for the check, of that opcode, with so many bytes between BTH and ICRC. */
function frameOf(opcode: number, behind: number, pad: number): Uint8Array {
  const udp = UDP + BTH + behind + ICRC
  const frame = new Uint8Array(Math.max(60, ETHERNET + IPV4 + udp))
  const view = new DataView(frame.buffer)
  view.setUint16(12, 0x0800)
  frame[14] = 0x45
  view.setUint16(16, IPV4 + udp)
  frame[23] = 17
  frame[IPV4_SOURCE] = 10
  view.setUint16(36, 4791)
  view.setUint16(38, udp)
  frame[42] = opcode
  frame[43] = pad << 4
  view.setUint16(44, 0xffff)
  return frame
}

/** The verdict on a frame, worked out from its lengths. */
function verdictOf(opcode: number, behind: number, pad: number): string {
  const udp = UDP + BTH + behind + ICRC
  if (udp % 4 !== 0) return 'IP_LENGTH'
  const header = HEADERS[opcode] ?? -1
  if (header < 0 && opcode > RC_LAST) return 'WRONG_TRANSPORT'
  return Math.max(0, header) + pad > behind ? 'FRAME_SHORT' : 'PASS'
}

const BEHIND_MAX = 120

/** Every opcode, every length up to all headers and beyond, every pad. */
export function totalFrames(): Conformed {
  const cells: Record<string, number> = {}
  const complaints: string[] = []
  let count = 0
  const packet = blankPacket()
  for (let opcode = 0; opcode < 256; opcode++) {
    for (let behind = 0; behind <= BEHIND_MAX; behind++) {
      for (let pad = 0; pad < 4; pad++) {
        const frame = frameOf(opcode, behind, pad)
        const said = nameOf(checkPacket(packet, frame, 0, frame.length))
        const wanted = verdictOf(opcode, behind, pad)
        count += 1
        cells[`frame: ${said}`] = (cells[`frame: ${said}`] ?? 0) + 1
        if (said === wanted) continue
        complaints.push(`opcode ${opcode}, ${behind} bytes, pad ${pad}: ${said}, not ${wanted}`)
      }
    }
  }
  for (let source = 0; source < 2 * 256; source++) {
    const said = verdictFrom(packet, source >> 8, source & 255)
    const wanted = isStation(source >> 8, source & 255) ? 'PASS' : 'GROUP_SOURCE'
    count += 1
    cells[`frame: ${said}`] = (cells[`frame: ${said}`] ?? 0) + 1
    if (said !== wanted) complaints.push(`from source ${source}: ${said}, not ${wanted}`)
  }
  return { count, cells, complaints }
}

/** What is said of a frame whose addresses, of Ethernet and of IPv4, begin with these bytes. */
function verdictFrom(packet: Packet, ethernet: number, ipv4: number): string {
  const frame = frameOf(0, 4, 0)
  frame[ETHERNET_SOURCE] = ethernet
  frame[IPV4_SOURCE] = ipv4
  return nameOf(checkPacket(packet, frame, 0, frame.length))
}

/** Groups of Ethernet are odd; of IPv4 nobody is in 0/8, 127/8, and from 224 on (RFC 6890). */
function isStation(ethernet: number, ipv4: number): boolean {
  return ethernet % 2 === 0 && ipv4 !== 0 && ipv4 !== 127 && ipv4 < 224
}

const MTU = 1024
const EXPECTED = 0x10

/** Message under way by its name, and the kinds of packets that go on with it. */
const MESSAGES: readonly (readonly [state: number, name: string, kind: string])[] = [
  [MESSAGE_NONE, 'nothing', ''],
  [MESSAGE_WRITE, 'a WRITE', 'RDMA WRITE'],
  [MESSAGE_RECORD, 'a WRITE of a record', 'RDMA WRITE'],
  [MESSAGE_SEND, 'a SEND', 'SEND'],
  [MESSAGE_PERSIST, 'a WRITE_PERSIST', 'WRITE_PERSIST'],
]

const LENGTHS = [0, 1, 3, 4, 8, 9, MTU - 1, MTU, MTU + 1]

/** The verdict on a request with the expected PSN, from the words of its opcode's name. */
function orderOf(name: string | undefined, kind: string, length: number, pad: number): string {
  if (name === undefined || !isRequest(name)) return 'OPCODE'
  const goesOn = / (Middle|Last)/.test(name)
  const fits = goesOn ? kind !== '' && name.includes(`${kind} `) : kind === ''
  if (!fits) return 'MESSAGE_ORDER'
  const right = pad === (4 - (length % 4)) % 4 && lengthFits(name, length)
  return right ? 'PASS' : 'PACKET_LENGTH'
}

function isRequest(name: string): boolean {
  return !/Response|Acknowledge|ACK|Answer|CNP/.test(name)
}

function lengthFits(name: string, length: number): boolean {
  if (/First|Middle/.test(name)) return length === MTU
  if (/ATOMIC WRITE/.test(name)) return length === 8
  if (/ Last/.test(name)) return length >= 1 && length <= MTU
  const carries = / Only|MEMORY_STATUS/.test(name)
  return carries ? length <= MTU : length === 0
}

function queuePairWith(message: number, nakSent: boolean): QueuePair {
  const qp = createQueuePair(0, 0x11, {
    ...{ peerNumber: 1, clientHigh: 0, clientLow: 7, pathMtu: MTU, protectionDomain: 0 },
    expectedPsn: EXPECTED as Psn,
  })
  qp.message = message
  qp.nakSent = nakSent
  return qp
}

/** Every opcode in every message under way, with every length that matters and every pad. */
export function totalRequests(): Conformed {
  const cells: Record<string, number> = {}
  const complaints: string[] = []
  let count = 0
  for (const [state, under, kind] of MESSAGES) {
    const qp = queuePairWith(state, false)
    for (let opcode = 0; opcode < 256; opcode++) {
      const row = OPCODES[opcode] ?? null
      for (const payloadLength of LENGTHS) {
        for (let padBytes = 0; padBytes < 4; padBytes++) {
          const packet: Packet = { ...blankPacket(), opcode, row, payloadLength, padBytes }
          const said = nameOf(judgeRequest(qp, packet))
          const wanted = orderOf(row?.name, kind, payloadLength, padBytes)
          count += 1
          cells[`request in ${under}: ${said}`] = 1
          if (said === wanted) continue
          const what = `${row?.name ?? opcode} in ${under}, ${payloadLength} and ${padBytes}`
          complaints.push(`${what}: ${said}, not ${wanted}`)
        }
      }
    }
  }
  return { count, cells, complaints }
}

/** Expected PSNs: the first is looked at from everywhere; where PSNs end, and in the middle. */
const EXPECTED_PSNS = [EXPECTED, 0xffffff, 0, 0x7fffff, 0x800000] as const
/** The others are looked at from one PSN in so many, and from all beside an edge. */
const SPARSE = 997

/** Every distance of a PSN from the expected one, over all of its 24 bits, told or not. */
export function totalPsns(step: number): Conformed {
  const cells: Record<string, number> = {}
  const complaints: string[] = []
  let count = 0
  for (const expected of EXPECTED_PSNS) {
    for (const nakSent of [false, true]) {
      const qp = { ...queuePairWith(MESSAGE_NONE, nakSent), expectedPsn: expected as Psn }
      const packet = blankPacket()
      const look = (psn: number): void => {
        packet.psn = psn
        const said = nameOf(checkSequence(qp, packet))
        const ahead = (psn - expected + 2 ** 24) % 2 ** 24
        const gap = nakSent ? 'SEQUENCE_AGAIN' : 'SEQUENCE'
        const wanted = ahead === 0 ? 'PASS' : ahead < 2 ** 23 ? gap : 'DUPLICATE'
        count += 1
        cells[`PSN: ${said}`] = 1
        if (said !== wanted) complaints.push(`PSN ${psn} at ${expected}: ${said}, not ${wanted}`)
      }
      const stride = expected === EXPECTED ? step : Math.max(step, SPARSE)
      for (let psn = 0; psn < 2 ** 24; psn += stride) look(psn)
      for (const edge of [expected, expected + 2 ** 23]) {
        for (let psn = edge - 2; psn <= edge + 2; psn++) look((psn + 2 ** 24) % 2 ** 24)
      }
    }
  }
  return { count, cells, complaints }
}
