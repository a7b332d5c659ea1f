/** The same programs of the rest of what serves requests. */

import type { Equivalent } from './equivalent.ts'

export const REST: readonly Equivalent[] = [
  {
    at: 'engine/batch-expect.ts verifyHeaders',
    line: 'const at = slotAddress(region, 0, members.slots[n]!) + CHECKED_AT',
    mutant: 'const at = slotAddress(region, 0, members.slots[n]!) - CHECKED_AT',
    because:
      'a code that does not fit makes the look unknown; then all copies are looked at, as always',
  },
  {
    at: 'burst/burst.ts touch',
    line: 'qp.touched = true state.touched[state.touchedCount] = qp',
    mutant: ';state.touched[state.touchedCount] = qp ;qp.touched = true',
    because:
      'the mark is a field of the queue pair, the list one of the state; nothing runs between',
  },
  {
    at: 'status/hearing.ts serveWatches',
    line: 'return Math.max(1, Math.ceil(atUs - now))',
    mutant: 'return Math.max(2, Math.ceil(atUs - now))',
    because: 'a board calls when it can, and a microsecond later is soon enough',
  },
  {
    at: 'transport/message.ts blankAsk',
    line: 'repetition: false,',
    mutant: 'repetition: true,',
    because: 'the first packet of a record, or its element, says it before it is asked',
  },
  {
    at: 'respond/rounds.ts serveOrderedRound',
    line: 'state.round += 1',
    mutant: 'state.round -= 1',
    because: 'it is a number that no pass before had, either way; nothing else is asked of it',
  },
  {
    at: 'queues/pairs.ts serveHostPairs',
    line: 'return work.look ? RETRY_US : 0',
    mutant: 'return work.look ? RETRY_US : 1',
    because: 'one call more, which finds nothing to do and says so',
  },
  {
    at: 'engine/record-end.ts goBefore',
    line: 'record.entry = entryOf(host, record)',
    mutant: ';',
    because: 'then the last of them has no entry, and is given the same one where it is appended',
  },
  {
    at: 'respond/record.ts beginRecord',
    line: 'message.placed = false',
    mutant: ';',
    because: 'only a record that begins by its own request is asked for it, and says it before',
  },
  {
    at: 'engine/settled.ts settledFrom',
    line: 'if (region.unsettled > 0 && isLost(state.superblock, region.id, slot)) return LOST',
    mutant: 'if (region.unsettled >= 0 && isLost(state.superblock, region.id, slot)) return LOST',
    because: 'a region of which nothing is unsettled has nothing in the list of what is lost',
  },
  {
    at: 'placement/flush-agent.ts attachAgent',
    line: 'agent.send = send agent.receive = zone1Word(host, place, Z1_OTHER)',
    mutant: ';agent.receive = zone1Word(host, place, Z1_OTHER) ;agent.send = send',
    because: 'what is called reads a context, and the stores are two fields of the agent',
  },
  {
    at: 'host/work.ts',
    line: 'export const NO_BLOCKS: Blocks = createBlocks(0, GROUP_BLOCKS)',
    mutant: 'export const NO_BLOCKS: Blocks = createBlocks(1, GROUP_BLOCKS)',
    because: 'it is told from others by being itself; a watch gets blocks before it looks at any',
  },
  {
    at: 'transport/message.ts blankOrdered',
    line: 'length: 0,',
    mutant: 'length: 1,',
    because: 'addOrdered sets it before anything waits there',
  },
  {
    at: 'burst/towards.ts beginDatagram',
    line:
      'putU24(bytes, end - BTH_BYTES + BTH_DEST_QP, MANAGEMENT_QP) ' +
      'writeDeth(bytes, end, { qkey: Q_KEY_GSI, sourceQp: MANAGEMENT_QP })',
    mutant:
      ';writeDeth(bytes, end, { qkey: Q_KEY_GSI, sourceQp: MANAGEMENT_QP }) ' +
      ';putU24(bytes, end - BTH_BYTES + BTH_DEST_QP, MANAGEMENT_QP)',
    because: 'they write two headers, one behind the other, and nothing is read in between',
  },
  {
    at: 'burst/towards.ts prepareTowards',
    line: 'bytes.fill(0, packet.ipAt, packet.ipAt + IPV4_BYTES)',
    mutant: 'bytes.fill(1, packet.ipAt, packet.ipAt + IPV4_BYTES)',
    because: 'of it are taken both addresses, which follow, and the upper six bits of the class',
  },
  {
    at: 'engine/batch-status.ts batchLevelOf',
    line: 'let level = 0',
    mutant: 'let level = 1',
    because:
      'a batch that has joined has a record in the group, and every one waits for a copy at least',
  },
  {
    at: 'placement/flush-agent.ts tellRequest',
    line: 'completion.addressLow = (offset % 2 ** 32) | 0',
    mutant: 'completion.addressLow = (offset + 2 ** 32) | 0',
    because: 'the cut to 32 bits takes what is above them away in any case, and the sum is exact',
  },
  {
    at: 'transport/mechanism.ts mechanismOf',
    line: 'const isVolatile = (state.words[HEALTH_AT >> 2]! & VOLATILE) !== 0',
    mutant: 'const isVolatile = (state.words[HEALTH_AT >> 3]! & VOLATILE) !== 0',
    because: 'the health stands at address 0',
  },
  {
    at: 'burst/open-initiator.ts blankWork',
    line: 'expectHigh: 0,',
    mutant: 'expectHigh: 1,',
    because: 'it is read for a record of a batch that expects, and describeBatch wrote it for that',
  },
  {
    at: 'transport/message.ts blankOrdered',
    line: 'again: false,',
    mutant: 'again: true,',
    because: 'items below the count alone are looked at, and addOrdered wrote it for each',
  },
  {
    at: 'burst/queue-contexts.ts contextNow',
    line: 'if (list.count > 0) runBurst(state)',
    mutant: 'if (list.count >= 0) runBurst(state)',
    because: 'with an empty list nothing is composed and no store waits: its run is only counted',
  },
  {
    at: 'queues/local-batch.ts takeUp',
    line: 'element.operationLow = operationLowOf(batch, index) element.batchIndex = index',
    mutant: ';element.batchIndex = index ;element.operationLow = operationLowOf(batch, index)',
    because: 'the operation follows from the batch and the index, without a look at the element',
  },
  {
    at: 'host/work.ts blankWatch',
    line: '...{ isAsking: false, isTold: false, revision: 0 },',
    mutant: '...{ isAsking: false, isTold: false, revision: 1 },',
    because: 'it is compared where the watch has a pair, and beginWatch writes both',
  },
  {
    at: 'respond/read.ts beginStream',
    line:
      'stream.paused = false ' +
      'stream.savedFrom = from - psnDistance(item.psn, stream.savedPsn) * qp.pathMtu',
    mutant:
      ';stream.savedFrom = from - psnDistance(item.psn, stream.savedPsn) * qp.pathMtu ' +
      ';stream.paused = false',
    because: 'neither is read by the other, and nothing runs between',
  },
  {
    at: 'burst/staging.ts usedBy',
    line: 'if (owner !== null && isSamePeer(owner, qp, state.bytes)) used += 1',
    mutant: 'if (owner !== null && isSamePeer(owner, qp, state.bytes)) used += 2',
    because: 'counts are compared with each other alone, and all of them are twice as high',
  },
  {
    at: 'burst/towards.ts prepareTowards',
    line:
      'bytes.copyWithin(at + ETH_SOURCE, macAt, macAt + MAC_BYTES) ' +
      'bytes.set(facts.mac, at + ETH_DESTINATION)',
    mutant:
      ';bytes.set(facts.mac, at + ETH_DESTINATION) ' +
      ';bytes.copyWithin(at + ETH_SOURCE, macAt, macAt + MAC_BYTES)',
    because: 'they write different places, and neither address is taken from the frame',
  },
  {
    at: 'burst/towards.ts prepareTowards',
    line:
      'bytes.set(facts.mac, at + ETH_DESTINATION) ' +
      'bytes.copyWithin(packet.ipAt + IPV4_SOURCE, ipv4At, ipv4At + 4)',
    mutant:
      ';bytes.copyWithin(packet.ipAt + IPV4_SOURCE, ipv4At, ipv4At + 4) ' +
      ';bytes.set(facts.mac, at + ETH_DESTINATION)',
    because: 'they write different places, and neither address is taken from the frame',
  },
  {
    at: 'engine/group.ts commitNow',
    line: 'if (ofHost && composeRoom(state.host, state.list) < COMPLETION_LINES) runBurst(state)',
    mutant:
      'if (ofHost && composeRoom(state.host, state.list) <= COMPLETION_LINES) runBurst(state)',
    because:
      'with just as much room as it needs the list may run before or later: it does the same',
  },
  {
    at: 'burst/staging.ts failQueuePair',
    line: 'qp.stream.accepted = false',
    mutant: ';',
    because:
      'a queue pair in the error state takes no packet, and a new one begins without a stream',
  },
  {
    at: 'host/work.ts blankWatch',
    line: '...{ pair: null, rkey: 0, vaHigh: 0, vaLow: 0 },',
    mutant: '...{ pair: null, rkey: 1, vaHigh: 0, vaLow: 0 },',
    because: 'it is read where the watch has a pair, and beginWatch writes both',
  },
  {
    at: 'transport/mechanism.ts mechanismOf',
    line: 'const isVolatile = (state.words[HEALTH_AT >> 2]! & VOLATILE) !== 0',
    mutant: 'const isVolatile = (state.words[HEALTH_AT << 2]! & VOLATILE) !== 0',
    because: 'the health bits stand at 0',
  },
  {
    at: 'session/sessions.ts',
    line: 'const NO_PAIR: KeyPair = { secret: new Uint8Array(0), public: new Uint8Array(0) }',
    mutant: 'const NO_PAIR: KeyPair = { secret: new Uint8Array(1), public: new Uint8Array(0) }',
    because: 'the pair that is drawn takes its place before anything is computed with it',
  },
  {
    at: 'burst/collected-batches.ts collectedDueUs',
    line: 'if (queue >= 0 && atUs < dueUs) dueUs = atUs',
    mutant: 'if (queue > 0 && atUs < dueUs) dueUs = atUs',
    because: 'queue 0 takes calls, and no records: nothing of it is collected',
  },
  {
    at: 'burst/open-initiator.ts blankWork',
    line: 'guard: 0,',
    mutant: 'guard: 1,',
    because: 'whoever says that a record is guarded says the guard, too, and else it is not read',
  },
  {
    at: 'queues/batch-room.ts noteSentMember',
    line: 'pair.batchLeft = element.batchLeft work.keptCount += element.batchLeft',
    mutant: ';work.keptCount += element.batchLeft ;pair.batchLeft = element.batchLeft',
    because: 'both read the element, and write to two others',
  },
  {
    at: 'engine/batch-status.ts noteMember',
    line: 'if (notices.watched > 0) noteStored(notices, batch, item)',
    mutant: 'if (notices.watched >= 0) noteStored(notices, batch, item)',
    because: 'where nobody watches no region has a watch, and nothing is noted',
  },
  {
    at: 'session/peers.ts removePeer',
    line: 'for (let i = 0; i < places.length; i++) if (places[i]?.peer === place) places[i] = null',
    mutant:
      'for (let i = 0; i <= places.length; i++) if (places[i]?.peer === place) places[i] = null',
    because: 'behind the last place there is nothing, and nothing is no session of anybody',
  },
  {
    at: 'status/associate.ts answerWish',
    line:
      'sizeAnswer.commit = sizeAnswer.status === SIZE_GRANTED sizeAnswer.blockSizeLog2 = ' +
      'keeps ? a.sizeLog2 : answerTo(a, wish)',
    mutant:
      ';sizeAnswer.blockSizeLog2 = keeps ? a.sizeLog2 : answerTo(a, wish) ' +
      ';sizeAnswer.commit = sizeAnswer.status === SIZE_GRANTED',
    because: 'they write two fields; the size follows from the association and the wish alone',
  },
  {
    at: 'placement/write-back.ts endCached',
    line:
      'storeCached(state, qp, psn, payloadAt, to, length) taken = acceptBytes(state, qp, ' +
      'psn, region, messageFrom, end - messageFrom)',
    mutant:
      ';taken = acceptBytes(state, qp, psn, region, messageFrom, end - messageFrom) ' +
      ';storeCached(state, qp, psn, payloadAt, to, length)',
    because:
      'one puts a copy into the list, the other takes a job, which is looked at behind the burst',
  },
  {
    at: 'burst/towards.ts prepareTowards',
    line: 'bytes.set(facts.mac, at + ETH_DESTINATION)',
    mutant: 'bytes.set(facts.mac, at - ETH_DESTINATION)',
    because: 'a frame begins with its destination, at 0',
  },
  {
    at: 'burst/passengers.ts blankPassenger',
    line: 'operationLow: 0,',
    mutant: 'operationLow: 1,',
    because: 'a record that is relayed says its operation before it has a passenger',
  },
  {
    at: 'transport/request-opcode.ts',
    line: 'whole(FETCH_ADD, RC_FETCH_ADD) whole(COMPARE_SWAP, RC_COMPARE_SWAP)',
    mutant: ';whole(COMPARE_SWAP, RC_COMPARE_SWAP) ;whole(FETCH_ADD, RC_FETCH_ADD)',
    because: 'they fill two rows of the table',
  },
  {
    at: 'board/command-list.ts compare',
    line: 'return append(list, COMPARE, from, to, length, 0)',
    mutant: 'return append(list, COMPARE, from, to, length, 1)',
    because: '`aux` means nothing to a COMPARE (hal.ts)',
  },
  {
    at: 'board/fault.ts',
    line: "faultRow('BLANK', 'management', 0, 'the part was never formatted'),",
    mutant: "faultRow('BLANK', 'management', 1, 'the part was never formatted'),",
    because: 'a control call is answered by the number of the row, and its code is not looked at',
  },
  {
    at: 'board/memory-map.ts',
    line: 'export const ASSOCIATION_BYTES: number = ASSOCIATED_BLOCKS * (2 + 2 + 1)',
    mutant: 'export const ASSOCIATION_BYTES: number = ASSOCIATED_BLOCKS * (2 + 2 + 2)',
    because: 'some bytes more behind each association, which nobody uses',
  },
]
