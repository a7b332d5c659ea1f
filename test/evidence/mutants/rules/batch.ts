/** Batches, messages of several packets, and what is held until all of it is here (D-7, D-10). */

import { crash, directed, type Mutant, simulate } from '../mutant.ts'

const ADMIT = 'firmware/engine/admit.ts'
const BATCH = 'firmware/respond/batch.ts'
const COMMIT = 'firmware/commit/commit.ts'
const FIELDS = 'firmware/batch/batch.ts'
const STAGING = 'firmware/burst/staging.ts'

const WHOLE: readonly Mutant[] = [
  {
    id: 'stored-as-it-comes',
    rule: 'D-10: nothing of a burst is stored before its last record has come',
    file: BATCH,
    find: '  if (!message.lastOfBatch) return\n  storeCollected(state, qp)\n',
    replace: '  storeCollected(state, qp)\n  if (!message.lastOfBatch) return\n',
    killer: directed('a batch that contradicts itself'),
  },
  {
    id: 'slot-twice-in-a-batch',
    rule: 'N18: a batch that names a slot twice is refused whole',
    file: FIELDS,
    find: '  return noteSlot(batch.members!, place, slot, batch.received) ? BATCH_FIELDS : PASS\n',
    replace: '  return noteSlot(batch.members!, place, slot, batch.received) ? PASS : PASS\n',
    killer: directed('a batch that contradicts itself'),
  },
  {
    id: 'index-does-not-grow',
    rule: 'N18: the indexes of a burst grow',
    file: FIELDS,
    find: 'batchIndex >= fields.batchCount || batchIndex <= batch.lastIndex',
    replace: 'batchIndex >= fields.batchCount || batchIndex < batch.lastIndex',
    killer: directed('a batch that contradicts itself'),
  },
  {
    id: 'index-at-the-count',
    rule: 'N18: the indexes of a batch are below its count',
    file: FIELDS,
    find: 'if (batchIndex >= fields.batchCount || batchIndex <=',
    replace: 'if (batchIndex > fields.batchCount || batchIndex <=',
    killer: directed('a batch that contradicts itself'),
  },
  {
    id: 'another-batch-joins',
    rule: 'N18: a record of another batch is no record of this one',
    file: BATCH,
    find: '  if (qp.batching && batch.id !== pweth.batchId) {\n',
    replace: '  if (qp.batching && batch.id === -1) {\n',
    killer: directed('a batch that contradicts itself'),
  },
  {
    id: 'another-condition',
    rule: 'N18: the records of a batch have one count and one condition',
    file: FIELDS,
    find:
      '  if (fields.batchCount !== batch.count || fields.condition !== batch.condition) return ' +
      'BATCH_FIELDS\n',
    replace: '',
    killer: directed('a batch that contradicts itself'),
  },
  {
    id: 'any-operation',
    rule: 'D-10: the operation of index i is the first one plus i',
    file: FIELDS,
    find: 'return low === fields.operationLow && high === fields.operationHigh ? PASS',
    replace: 'return low === low + 0 * high ? PASS',
    killer: directed('a batch that contradicts itself'),
  },
  {
    id: 'held-in-the-frame',
    rule: 'D-10: what is held of a batch survives the frames that it came in',
    file: BATCH,
    find:
      '    if (length > 0) copy(state.list, members.at[n]!, to, length)\n' +
      '    members.at[n] = to\n',
    replace: '    if (length > 0) copy(state.list, members.at[n]!, to, length)\n',
    killer: directed('a batch in pieces'),
  },
  {
    id: 'batch-for-ever',
    rule: 'N8: a batch of which nothing more comes is given up',
    file: BATCH,
    find:
      '    refuseBatch(state, qp, batch, batch.lastIndex, BATCH_TIME)\n' +
      '    closeBatch(state, qp, batch)\n',
    replace: '    waitUs = 0\n',
    killer: directed('messages that stop'),
  },
  {
    id: 'read-overtakes-the-batch',
    rule: 'D-10: what is held of a batch goes before any other request of its queue pair',
    file: 'firmware/core.ts',
    find: '  if (qp.batching && !has(is, PERSIST)) storeCollected(state, qp)\n',
    replace: '',
    killer: directed('a READ behind a batch'),
  },
]

const MIXED: readonly Mutant[] = [
  {
    id: 'bytes-are-not-stored',
    rule: 'S1-M9: plain bytes of a batch are there when its status calls them durable',
    file: COMMIT,
    find: '  copyClean(list, imageAt + SLOT_HEADER_BYTES, bytesAt, length, tag)\n',
    replace: '',
    killer: simulate('mixed 1-2'),
  },
  {
    id: 'bytes-are-not-written-back',
    rule: 'S1-M9: plain bytes of a batch outlive the power when its status calls them durable',
    file: COMMIT,
    find: '  copyClean(list, imageAt + SLOT_HEADER_BYTES, bytesAt, length, tag)\n',
    replace: '  copy(list, imageAt + SLOT_HEADER_BYTES, bytesAt, length)\n',
    killer: simulate('mixed 1-2'),
  },
  {
    id: 'bytes-beside-their-batch',
    rule: 'X-5: in order, plain bytes are stored when what comes before them is durable',
    file: ADMIT,
    find: '(batch === null || region.kind === KIND_RECORDS || batch.pending === 0) return false',
    replace: '(batch === null || region.kind === KIND_RECORDS || batch.pending >= 0) return false',
    killer: directed('a batch in order over regions'),
  },
  {
    id: 'order-ends-with-the-region',
    rule: 'X-5: a record must not outlive the one before it, of whatever region that is',
    file: 'firmware/medium/lane.ts',
    find: '    (high | 0) === (intent.operationHigh | 0)\n',
    replace:
      '    (high | 0) === (intent.operationHigh | 0) &&\n' +
      '    before.regionId === intent.regionId\n',
    killer: directed('a batch in order over regions'),
  },
]

const STATUS: readonly Mutant[] = [
  {
    id: 'bitmap-off-by-one',
    rule: 'P4-12: bit i of the bitmap is record i',
    file: FIELDS,
    find: '  batch.bitmap[index >> 5]! |= 0x80000000 >>> (index & 31)\n',
    replace: '  batch.bitmap[index >> 5]! |= 0x80000000 >>> ((index + 1) & 31)\n',
    killer: directed('the bitmap'),
  },
  {
    id: 'bitmap-signed-shift',
    rule: 'H10: the first bit of a word of the bitmap is no sign',
    file: FIELDS,
    find: '  batch.bitmap[index >> 5]! |= 0x80000000 >>> (index & 31)\n',
    replace: '  batch.bitmap[index >> 5]! |= 0x80000000 >> (index & 31)\n',
    killer: directed('the bitmap'),
  },
  {
    id: 'refused-is-in-the-bitmap',
    rule: 'P4-12: a record that was refused is not durable',
    file: BATCH,
    find: '    count(state, fault)\n    noteRefused(batch, index, fault)\n',
    replace: '    count(state, fault)\n    noteMemberDurable(batch, index, 2)\n',
    killer: directed('the bitmap'),
  },
  {
    id: 'order-ignored',
    rule: 'X-5: in order, a record is stored when every one before it is',
    file: ADMIT,
    find: '    if (!isInOrder(state, party, batch, ask.batchIndex)) fault = CONDITION\n',
    replace: '    if (batch.condition === -1) fault = CONDITION\n',
    killer: directed('a batch in order'),
  },
  {
    id: 'not-chained',
    rule: 'X-5: a record in order must not outlive the one before it',
    file: FIELDS,
    find: '  return isNext && batch.condition === CONDITION_IN_ORDER\n',
    replace: '  return isNext && batch.condition === -1\n',
    killer: crash('order 2of2'),
  },
  {
    id: 'expect-unchecked',
    rule: 'P4-11: a record is accepted only where its slot holds the sequence that it names',
    file: ADMIT,
    find: '    fault = expectFault(state, batch, member)\n',
    replace: '    fault = PASS\n',
    killer: directed('a batch that expects'),
  },
  {
    id: 'expect-low-word',
    rule: 'P4-11: a sequence that is expected has 64 bits',
    file: 'firmware/engine/batch-expect.ts',
    find: 'return sequenceHigh === members.expectHigh[n]! && sequenceLow === members.expectLow[n]!',
    replace: 'return sequenceHigh !== -1 && sequenceLow === members.expectLow[n]!',
    killer: directed('a batch that expects'),
  },
  {
    id: 'member-executed-again',
    rule: 'X-3: a record of a batch that is durable is not stored again',
    file: ADMIT,
    find: 'wasDurable(state, party, ask)) return REPEATED\n',
    replace: 'wasDurable(state, party, ask) && batch === null) return REPEATED\n',
    killer: directed('a batch again'),
  },
]

const GATHERING: readonly Mutant[] = [
  {
    id: 'staging-shared',
    rule: 'D-7: a message of several packets has a buffer of its own',
    file: STAGING,
    find: '  const buffer = state.stagingOwner.indexOf(-1)\n',
    replace: '  const buffer = 0\n',
    killer: directed('messages at once'),
  },
  {
    id: 'staging-leaks',
    rule: 'N8: a buffer is given back when its record is committed',
    file: 'firmware/engine/group.ts',
    find: '    if (staging >= 0) state.stagingOwner[staging] = -1\n',
    replace: '    if (staging >= 32) state.stagingOwner[staging] = -1\n',
    killer: directed('messages at once'),
  },
  {
    id: 'staging-for-ever',
    rule: 'N8: a message that stopped half-way is given up',
    file: STAGING,
    find: '  return qp.message !== MESSAGE_NONE && now - qp.heardUs > STAGING_TIMEOUT_US\n',
    replace: '  return qp.message === MESSAGE_NONE && now - qp.heardUs > STAGING_TIMEOUT_US\n',
    killer: directed('messages that stop'),
  },
  {
    id: 'staging-of-one',
    rule: 'N22: who holds fewer buffers takes one of who holds more',
    file: STAGING,
    find: '    if (used <= own && now - owner.heardUs < 2 * REPEAT_US) continue\n',
    replace: '    if (now - owner.heardUs < 2 * REPEAT_US) continue\n',
    killer: directed('one slow peer'),
  },
  {
    id: 'entries-of-one',
    rule: 'N22: who holds as many receive entries as are free gets no more',
    file: 'firmware/respond/receives.ts',
    find: 'entriesOf(state, qp) >= free) return -1',
    replace: 'free === 0) return -1',
    killer: directed('one slow peer'),
  },
  {
    id: 'given-up-in-silence',
    rule: 'N8: who is given up is told so',
    file: 'firmware/core.ts',
    find: '  refuseQueuePair(state, qp, qp.expectedPsn, MESSAGE_TIME)\n',
    replace: '  failQueuePair(state, qp)\n',
    killer: directed('a tail that comes late'),
  },
  {
    id: 'tail-too-late',
    rule: 'N8: every packet of its connection keeps a message that is not whole',
    file: 'firmware/core.ts',
    find: '  qp.heardUs = now\n',
    replace: '  if (packet.psn === qp.expectedPsn) qp.heardUs = now\n',
    killer: directed('a tail that comes late'),
  },
  {
    id: 'gathered-in-one-place',
    rule: 'D-7: each packet of a message goes behind the one before',
    file: 'firmware/respond/persist.ts',
    find: '    qp.messageTo = payloadTo + packet.payloadLength\n',
    replace: '    qp.messageTo = payloadTo\n',
    killer: directed('messages at once'),
  },
]

export const BATCH_RULES: readonly Mutant[] = [...WHOLE, ...MIXED, ...STATUS, ...GATHERING]
