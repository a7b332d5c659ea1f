/** The same programs of receipts, and of operations that come again. */

import type { Equivalent } from './equivalent.ts'

export const ANSWERS: readonly Equivalent[] = [
  {
    at: 'respond/persist.ts repeat',
    line:
      'count(state, dataAt > 0 && isForged(state, qp, ask, dataAt) ? DUPLICATE_FORGED : ' +
      'DUPLICATE)',
    mutant:
      'count(state, dataAt > 1 && isForged(state, qp, ask, dataAt) ? DUPLICATE_FORGED : ' +
      'DUPLICATE)',
    because: 'data lies where frames are received or gathered, and never at 1',
  },
  {
    at: 'engine/receipt.ts',
    line: 'const RANGE_PSNS = 256',
    mutant: 'const RANGE_PSNS = 257',
    because:
      'records of a group came in one burst, and none behind a READ of its own, so they are near',
  },
  {
    at: 'engine/receipt.ts addToRange',
    line: 'psnDistance(item.psn, range.firstPsn) >= RANGE_PSNS',
    mutant: 'psnDistance(item.psn, range.firstPsn) > RANGE_PSNS',
    because:
      'records of a group came in one burst, and none behind a READ of its own, so they are near',
  },
  {
    at: 'engine/receipt.ts answerRecord',
    line:
      'range.copies = copies & COPIES_MASK range.mechanism = copies >> MECHANISM_SHIFT || ' +
      'MECHANISM_LOCAL_FLUSH',
    mutant:
      ';range.mechanism = copies >> MECHANISM_SHIFT || MECHANISM_LOCAL_FLUSH ;range.copies = ' +
      'copies & COPIES_MASK',
    because: 'each is taken out of the byte that was given, and not of the other',
  },
  {
    at: 'engine/receipt.ts acknowledgeCopies',
    line: 'let plain = false',
    mutant: 'let plain = true',
    because: 'what is released then is the plain WRITEs of the group, and there is none',
  },
  {
    at: 'engine/receipt.ts acknowledgeCopies',
    line: 'if (state.batches.joinedCount > 0) acknowledgeBatches(state, copies)',
    mutant: 'if (state.batches.joinedCount >= 0) acknowledgeBatches(state, copies)',
    because: 'where no batch has joined none is looked at, and nothing else is done',
  },
  {
    at: 'engine/receipt.ts addToRange',
    line: 'range.status = 0',
    mutant: ';',
    because: 'these ranges are of durable records alone: it has been 0 since they were made',
  },
  {
    at: 'engine/receipt.ts addToRange',
    line: 'range.flags = PERSIST_ALL',
    mutant: ';',
    because: 'these ranges are of durable records alone: they were made with that flag',
  },
  {
    at: 'engine/receipt.ts rememberGroup',
    line: 'const inRange = item.failedStage < 0 && item.fault === PASS',
    mutant: 'const inRange = item.failedStage <= 0 && item.fault === PASS',
    because: 'what was refused in the first stage touched no slot, and no repair makes it a PASS',
  },
  {
    at: 'engine/receipt.ts rememberGroup',
    line: 'const inRange = item.failedStage < 0 && item.fault === PASS',
    mutant: 'const inRange = item.failedStage < 1 && item.fault === PASS',
    because: 'what was refused in the first stage touched no slot, and no repair makes it a PASS',
  },
  ...[
    ...['firstPsn', 'lastPsn', 'operationHigh', 'operationLow', 'records', 'status', 'copies'],
    'segment',
  ].map((field) => ({
    at: 'engine/receipt.ts blankRange',
    line: `${field}: 0,`,
    mutant: `${field}: 1,`,
    because: 'who takes a range writes it before anybody reads it there',
  })),
  {
    at: 'connect/announce.ts announce',
    line: 'work!.from = receiveAt(entry) work!.length = ANNOUNCEMENT_BYTES',
    mutant: ';work!.length = ANNOUNCEMENT_BYTES ;work!.from = receiveAt(entry)',
    because: 'they write two fields',
  },
  {
    at: 'respond/atomic.ts answerAtomic',
    line:
      'writeAck(answers.bytes, end, msn) copy(state.list, originalAt, end + AETH_BYTES, ' +
      'ORIGINAL_BYTES)',
    mutant:
      ';copy(state.list, originalAt, end + AETH_BYTES, ORIGINAL_BYTES) ' +
      ';writeAck(answers.bytes, end, msn)',
    because: 'the copy is done when the list is run, and to other bytes',
  },
  {
    at: 'respond/ordered.ts addOrdered',
    line: 'const first = qp.unanswered === 0 || psnDistance(limit, qp.ackLimit) >= 0x800000',
    mutant: 'const first = qp.unanswered === 0 || psnDistance(limit, qp.ackLimit) >= 8388609',
    because: 'what is unanswered at once is of one burst: never half of all numbers apart',
  },
  {
    at: 'respond/receives.ts takeEntry',
    line: 'if (free <= RECEIVES / 2 && entriesOf(state, qp) >= free) return -1',
    mutant: 'if (free <= RECEIVES * 2 && entriesOf(state, qp) >= free) return -1',
    because:
      'while more than half are free nobody can hold as many: the bound saves the count alone',
  },
]
