/** What a requester believes of what it is answered (D-5, D-6, G2-1 to G2-5). */

import type { Mutant } from '../mutant.ts'

const COMPLETER = 'firmware/transport/completer.ts'

const MODEL = { by: 'model', argument: '1' } as const

export const REQUESTER: readonly Mutant[] = [
  {
    id: 'received-is-durable',
    rule: 'G2-1: an acknowledgement says received, and nothing of durability',
    file: COMPLETER,
    find: '    if (!request.received) setReceived(q, request, nowUs)\n    return\n',
    replace:
      '    if (!request.received) setReceived(q, request, nowUs)\n' +
      "    resolveRequest(q, request, 'SUCCESS')\n" +
      '    return\n',
    killer: MODEL,
  },
  {
    id: 'receipt-of-any-operation',
    rule: 'D-6: a PERSIST_ACK is believed by its operation, never by its PSN alone',
    file: COMPLETER,
    find: '    if (request.operationLow !== paeth.operationLow) return -1\n    return i <',
    replace: '    return i <',
    killer: MODEL,
  },
  {
    id: 'receipt-of-any-life',
    rule: 'D-6: a PERSIST_ACK of another incarnation is a ghost',
    file: COMPLETER,
    find: '  if (q.paeth.incarnation !== q.incarnation) return false\n',
    replace: '',
    killer: MODEL,
  },
  {
    id: 'receipt-of-all-before',
    rule: 'D-5: a PERSIST_ACK speaks of the records that end in its range, and of no others',
    file: COMPLETER,
    find:
      '    if (psnDistance(request.lastPsn, firstPsn) > range) continue\n' +
      '    if (!request.received)',
    replace: '    if (range < 0) continue\n    if (!request.received)',
    killer: MODEL,
  },
  {
    id: 'never-asks-again',
    rule: 'G2-3: a record whose PERSIST_ACK was lost is asked for again',
    file: COMPLETER,
    find:
      '  request.persistAtUs = nowUs + (isCollectedMember(request) ? BATCH_GIVEN_UP_US : ' +
      'q.persistTimeoutUs)\n',
    replace: '  request.persistAtUs = Infinity\n',
    killer: MODEL,
  },
  {
    id: 'ghost-acknowledgements',
    rule: 'G2-4: an acknowledgement counts only of a packet that is on its way',
    file: COMPLETER,
    find: '  return psnDistance(psn, q.unackedPsn) < psnDistance(q.highPsn, q.unackedPsn)\n',
    replace: '  return psn >= 0 && q.unacked !== q.tail\n',
    killer: MODEL,
  },
]
