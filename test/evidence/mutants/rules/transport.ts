/** The reliable connection: sequence numbers, duplicates, order, and what a frame must be. */

import { directed, type Mutant, simulate } from '../mutant.ts'

const CORE = 'firmware/core.ts'
const DUPLICATE = 'firmware/respond/duplicate.ts'
const PACKET = 'firmware/wire/packet.ts'
const PSN = 'firmware/transport/psn.ts'
const QUEUE_PAIR = 'firmware/transport/queue-pair.ts'
const RESPONDER = 'firmware/transport/responder.ts'

const NUMBERS: readonly Mutant[] = [
  {
    id: 'psn-without-wrap',
    rule: 'N10: PSNs are compared by their distance, which wraps',
    file: PSN,
    find: '  return ((psn - expected) & MASK) >= HALF\n',
    replace: '  return psn < expected\n',
    killer: directed('PSNs come round'),
  },
  {
    id: 'psn-signed',
    rule: 'N10: a distance of PSNs is taken modulo 2^24',
    file: PSN,
    find: '  return ((psn - expected) & MASK) >= HALF\n',
    replace: '  return psn - expected < 0 && expected - psn < HALF\n',
    killer: directed('PSNs come round'),
  },
  {
    id: 'window-edge',
    rule: 'N10: a PSN that is half of all ahead counts as behind',
    file: PSN,
    find: '  return ((psn - expected) & MASK) >= HALF\n',
    replace: '  return ((psn - expected) & MASK) > HALF\n',
    killer: directed('half of all PSNs'),
  },
  {
    id: 'psn-in-32-bits',
    rule: 'N10: behind 0xFFFFFF comes 0',
    file: PSN,
    find: '  return ((psn + count) & MASK) as Psn',
    replace: '  return ((psn + count) >>> 0) as Psn',
    killer: simulate('calm 1-2'),
  },
  {
    id: 'earlier-without-wrap',
    rule: 'N10: the earlier of two PSNs is found by their distance, which wraps',
    file: 'firmware/transport/acknowledge.ts',
    find: '  return psnDistance(one, other) < 0x800000 ? other : one\n',
    replace: '  return one > other ? other : one\n',
    killer: simulate('wraps 1-2'),
  },
  {
    id: 'gap-is-taken',
    rule: 'N4: what is behind a gap is not executed, and the gap is told of',
    file: RESPONDER,
    find: '  if (packet.psn === qp.expectedPsn) return PASS\n',
    replace: '  if (!psnBehind(packet.psn, qp.expectedPsn)) return PASS\n',
    killer: directed('PSNs come round'),
  },
  {
    id: 'gap-untold',
    rule: 'N4: a gap is told of once',
    file: RESPONDER,
    find: 'return qp.nakSent ? SEQUENCE_AGAIN : SEQUENCE',
    replace: 'return SEQUENCE_AGAIN',
    killer: directed('a gap'),
  },
  {
    id: 'msn-stands',
    rule: 'wire-format 3.6: the message sequence number grows with each message',
    file: RESPONDER,
    find: 'qp.messageSequence = (qp.messageSequence + 1) & 0xffffff',
    replace: 'qp.messageSequence = qp.messageSequence & 0xffffff',
    killer: directed('message numbers'),
  },
  {
    id: 'msn-by-packet',
    rule: 'wire-format 3.6: the message sequence number counts messages, not packets',
    file: RESPONDER,
    find: '  if (finished) qp.messageSequence',
    replace: '  qp.messageSequence',
    killer: directed('message numbers'),
  },
  {
    id: 'middle-without-first',
    rule: 'wire-format 3.3, step 6: a Middle belongs to a message that has begun',
    file: RESPONDER,
    find: 'if (has(is, PERSIST)) return message === MESSAGE_PERSIST ? PASS : MESSAGE_ORDER',
    replace: 'if (has(is, PERSIST)) return PASS',
    killer: directed('opcodes out of order'),
  },
  {
    id: 'only-inside',
    rule: 'wire-format 3.3, step 6: no message begins inside another one',
    file: RESPONDER,
    find: 'if (row.begins) return message === MESSAGE_NONE ? PASS : MESSAGE_ORDER',
    replace: 'if (row.begins) return PASS',
    killer: directed('opcodes out of order'),
  },
]

const DUPLICATES: readonly Mutant[] = [
  {
    id: 'duplicate-executed',
    rule: 'N2: a duplicate is not executed',
    file: RESPONDER,
    find: '  if (psnBehind(packet.psn, qp.expectedPsn)) return DUPLICATE\n',
    replace:
      '  if (packet.psn === psnAdd(qp.expectedPsn, -1)) return PASS\n' +
      '  if (psnBehind(packet.psn, qp.expectedPsn)) return DUPLICATE\n',
    killer: directed('a duplicate'),
  },
  {
    id: 'receipt-by-psn',
    rule: 'D-6, N3: a receipt is earned by PSN and operation, never by the PSN alone',
    file: QUEUE_PAIR,
    find:
      '    const high = qp.rememberedHigh[place] === (operationHigh | 0)\n' +
      '    if (high && qp.rememberedLow[place] === (operationLow | 0)) return place\n',
    replace: '    return place + 0 * (operationHigh + operationLow)\n',
    killer: directed('a forged duplicate'),
  },
  {
    id: 'blind-receipt',
    rule: 'N3: a duplicate of which nothing is known earns no receipt',
    file: DUPLICATE,
    find:
      '  } else if (qp.rememberedPsn.includes(lastPsn)) {\n' +
      '    count(state, DUPLICATE_FORGED)\n',
    replace:
      '  } else if (qp.rememberedPsn.includes(lastPsn)) {\n' +
      '    answerRecord(state, qp, lastPsn, pweth.operationHigh, pweth.operationLow, 0, 2)\n',
    killer: directed('a forged duplicate'),
  },
  {
    id: 'kinds-by-psn',
    rule: 'N3: what is outstanding is known, however far apart its PSNs are',
    file: QUEUE_PAIR,
    find: '  const place = qp.kindNext\n',
    replace: '  const place = psn & (REMEMBERED_KINDS - 1)\n',
    killer: directed('what Linux repeats'),
  },
  {
    id: 'zero-based',
    rule: 'N3: nothing lies at the address with which Linux repeats an ATOMIC WRITE',
    file: 'firmware/medium/region.ts',
    find: 'export const BYTES_BASE_HIGH = 1\n',
    replace: 'export const BYTES_BASE_HIGH = 0\n',
    killer: directed('what Linux repeats'),
  },
  {
    id: 'flush-by-its-address',
    rule: 'N3: a FLUSH that Linux repeats is whole without its address',
    file: 'firmware/respond/flush.ts',
    find: ' || isUnaddressed(state, region)\n',
    replace: '\n',
    killer: directed('what Linux repeats'),
  },
  {
    id: 'read-passed',
    rule: 'N3: nothing behind a READ that is to come again is acknowledged',
    file: 'firmware/core.ts',
    find: '  if (qp.heldBackPsn >= 0 && isHeldBack(qp, packet.psn)) return HELD_BACK\n',
    replace: '',
    killer: directed('what Linux repeats'),
  },
  {
    id: 'receipt-forgotten',
    rule: 'X-3: a duplicate of what is durable is acknowledged again',
    file: DUPLICATE,
    find: '  if (place >= 0) {\n    const status',
    replace: '  if (place < -1) {\n    const status',
    killer: directed('a duplicate'),
  },
  {
    id: 'atomic-twice',
    rule: 'wire-format 3.5: an atomic that comes twice is executed once',
    file: 'firmware/respond/rounds.ts',
    find: '    if (!item.stored && !item.again) {\n',
    replace: '    if (!item.stored) {\n',
    killer: directed('an atomic twice'),
  },
  {
    id: 'atomic-marked-new',
    rule: 'wire-format 3.5: an atomic that comes twice is answered from what was kept',
    file: DUPLICATE,
    find: '  addOrdered(state, qp, KIND_ATOMIC, psn, null, true).originalAt = saved.originalAt\n',
    replace: '  addOrdered(state, qp, KIND_ATOMIC, psn, null, true)\n',
    killer: directed('an atomic twice'),
  },
  {
    id: 'other-read',
    rule: 'wire-format 3.5: a READ again is answered only inside the one that was accepted',
    file: DUPLICATE,
    find: '  return ahead === begun && reth.length <= saved.length - begun\n',
    replace: '  return ahead === ahead + 0 * begun\n',
    killer: directed('another READ'),
  },
]

const FRAMES: readonly Mutant[] = [
  {
    id: 'icrc-ignored',
    rule: 'N6: a frame whose ICRC is wrong is dropped',
    file: CORE,
    find: '  if (fault === PASS && !standard) fault = linuxFlushFault(state, packet, flags)\n',
    replace: '',
    killer: directed('a byte turned on the way'),
  },
  {
    id: 'icrc-as-flush',
    rule: 'wire-format 9.4: the ICRC of Linux is taken of a FLUSH alone',
    file: CORE,
    find: 'if (!linux || state.facts.strictIcrc) return ICRC',
    replace: 'if (!linux && state.facts.strictIcrc) return ICRC',
    killer: directed('a wrong ICRC'),
  },
  {
    id: 'pad-in-the-payload',
    rule: 'N7: the pad is no part of the payload',
    file: PACKET,
    find: 'into.payloadLength = end - padBytes - payloadAt',
    replace: 'into.payloadLength = end - payloadAt',
    killer: directed('short records'),
  },
  {
    id: 'any-transport-version',
    rule: 'N19: a transport version that is not 0 is dropped',
    file: PACKET,
    find: '  if ((flags & 15) !== 0) return TRANSPORT_VERSION\n',
    replace: '',
    killer: directed('a wrong transport version'),
  },
  {
    id: 'any-partition',
    rule: 'N19: another partition is dropped',
    file: PACKET,
    find: '  if ((pkey & PKEY_BITS) !== PKEY_BITS) return PARTITION\n',
    replace: '',
    killer: directed('a wrong partition'),
  },
  {
    id: 'any-port',
    rule: 'N19: RoCEv2 has one UDP port',
    file: PACKET,
    find: '  if (port !== ROCE_PORT) return NOT_ROCE\n',
    replace: '',
    killer: directed('another port'),
  },
  {
    id: 'fragments-taken',
    rule: 'N19: a fragment is dropped',
    file: PACKET,
    find: '  if ((fragment & FRAGMENT_BITS) !== 0) return IP_HEADER\n',
    replace: '',
    killer: directed('a fragment'),
  },
  {
    id: 'any-peer',
    rule: 'wire-format 3.3, step 2: only the connected peer is heard',
    file: RESPONDER,
    find: '    if (words[(packet.ipAt + IPV4_SOURCE) >> 2] !== qp.peerIpv4) return WRONG_PEER\n',
    replace: '',
    killer: directed('another peer'),
  },
  {
    id: 'any-destination',
    rule: 'wire-format 3.3: a frame to another address is dropped',
    file: CORE,
    find: 'if (words[(packet.ipAt + IPV4_DESTINATION) >> 2] !== state.ipv4) return',
    replace: 'if (state.ipv4 === -1) return',
    killer: directed('another destination'),
  },
  {
    id: 'number-by-its-place',
    rule: 'N9: a queue pair is found by its whole number, not by its place in the table',
    file: QUEUE_PAIR,
    find: '  return qp !== null && qp.number === number ? qp : null\n',
    replace: '  return qp\n',
    killer: directed('another queue pair of that place'),
  },
  {
    id: 'u32-signed',
    rule: 'H10: a number of 32 bits on the wire has no sign',
    file: 'firmware/wire/bytes.ts',
    find:
      '((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + ' +
      '3]!) >>> 0',
    replace: '(bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!',
    killer: directed('ranges'),
  },
]

export const TRANSPORT: readonly Mutant[] = [...NUMBERS, ...DUPLICATES, ...FRAMES]
