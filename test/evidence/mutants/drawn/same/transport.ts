/** The same programs of the transport. */

import type { Equivalent } from './equivalent.ts'

export const TRANSPORT: readonly Equivalent[] = [
  {
    at: 'transport/acknowledge.ts prepareIpv4',
    line:
      'bytes[ip + IPV4_TRAFFIC_CLASS] = bytes[packet.ipAt + IPV4_TRAFFIC_CLASS]! & 0xfc ' +
      'putU16(bytes, ip + IPV4_FRAGMENT, IPV4_DO_NOT_FRAGMENT)',
    mutant:
      ';putU16(bytes, ip + IPV4_FRAGMENT, IPV4_DO_NOT_FRAGMENT) ' +
      ';bytes[ip + IPV4_TRAFFIC_CLASS] = bytes[packet.ipAt + IPV4_TRAFFIC_CLASS]! & 0xfc',
    because: 'what is read is the packet that came, and not the template, which both write',
  },
  {
    at: 'transport/requester.ts appendRequest',
    line: 'request.out = false',
    mutant: 'request.out = true',
    because: 'only what was sent is answered or rewound, and sending says that it is out',
  },
  {
    at: 'transport/acknowledge.ts notifyCongestion',
    line: 'bytes[end - BTH_BYTES + BTH_CONGESTION] = BECN ' + 'bytes.fill(0, end, end + CNP_BYTES)',
    mutant:
      ';bytes.fill(0, end, end + CNP_BYTES) ' + ';bytes[end - BTH_BYTES + BTH_CONGESTION] = BECN',
    because: 'one lies before `end`, the other behind it',
  },
  {
    at: 'transport/queue-pair.ts',
    line: 'const NO_MEMORY: Memory = blankMemory(0, 0)',
    mutant: 'const NO_MEMORY: Memory = blankMemory(0, 1)',
    because:
      'a queue pair in no table takes no requests, so nothing is remembered or recalled there',
  },
  {
    at: 'transport/acknowledge.ts createAnswers',
    line: 'return { list, bytes, used: 0, runs: 0, groups: 0, acks: 0, makeRoom: makeNoRoom }',
    mutant: 'return { list, bytes, used: 1, runs: 0, groups: 0, acks: 0, makeRoom: makeNoRoom }',
    because: 'one place fewer before the first run of the list, behind which all are free',
  },
  {
    at: 'transport/acknowledge.ts createAnswers',
    line: 'return { list, bytes, used: 0, runs: 0, groups: 0, acks: 0, makeRoom: makeNoRoom }',
    mutant: 'return { list, bytes, used: 0, runs: 1, groups: 0, acks: 0, makeRoom: makeNoRoom }',
    because: 'no place is taken at first, so it is all the same whether they count as freed',
  },
  {
    at: 'transport/acknowledge.ts createAnswers',
    line: 'return { list, bytes, used: 0, runs: 0, groups: 0, acks: 0, makeRoom: makeNoRoom }',
    mutant: 'return { list, bytes, used: 0, runs: 0, groups: 1, acks: 0, makeRoom: makeNoRoom }',
    because: 'numbers of groups are compared with each other alone, and with -1',
  },
  {
    at: 'transport/acknowledge.ts prepareTemplate',
    line: 'putU16(bytes, udpAt + UDP_SOURCE_PORT, SOURCE_PORT_BASE | qp.index)',
    mutant: 'putU16(bytes, udpAt - UDP_SOURCE_PORT, SOURCE_PORT_BASE | qp.index)',
    because: 'the source port stands at the begin of UDP, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareTemplate',
    line:
      'bytes.copyWithin(at + ETH_DESTINATION, from + ETH_SOURCE, ' +
      'from + ETH_SOURCE + MAC_BYTES)',
    mutant:
      'bytes.copyWithin(at - ETH_DESTINATION, from + ETH_SOURCE, from + ETH_SOURCE + MAC_BYTES)',
    because: 'the destination stands at the begin of a frame, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareTemplate',
    line:
      'bytes.copyWithin(at + ETH_SOURCE, from + ETH_DESTINATION, from + ETH_DESTINATION + ' +
      'MAC_BYTES)',
    mutant:
      'bytes.copyWithin(at + ETH_SOURCE, from - ETH_DESTINATION, from + ETH_DESTINATION + ' +
      'MAC_BYTES)',
    because: 'the destination stands at the begin of a frame, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareTemplate',
    line:
      'bytes.copyWithin(at + ETH_SOURCE, from + ETH_DESTINATION, from + ETH_DESTINATION + ' +
      'MAC_BYTES)',
    mutant:
      'bytes.copyWithin(at + ETH_SOURCE, from + ETH_DESTINATION, from - ETH_DESTINATION + ' +
      'MAC_BYTES)',
    because: 'the destination stands at the begin of a frame, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv4',
    line: 'bytes[ip + IPV4_VERSION] = IPV4_VERSION_5_WORDS',
    mutant: 'bytes[ip - IPV4_VERSION] = IPV4_VERSION_5_WORDS',
    because: 'the version stands at the begin of the header, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv6',
    line: 'bytes[ip + IPV6_VERSION] = 0x60 | (bytes[packet.ipAt + IPV6_VERSION]! & 0x0f)',
    mutant: 'bytes[ip - IPV6_VERSION] = 0x60 | (bytes[packet.ipAt + IPV6_VERSION]! & 0x0f)',
    because: 'the version stands at the begin of the header, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv6',
    line: 'bytes[ip + IPV6_VERSION] = 0x60 | (bytes[packet.ipAt + IPV6_VERSION]! & 0x0f)',
    mutant: 'bytes[ip + IPV6_VERSION] = 0x60 | (bytes[packet.ipAt - IPV6_VERSION]! & 0x0f)',
    because: 'the version stands at the begin of the header, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv6',
    line: 'bytes[ip + IPV6_VERSION + 1] = bytes[packet.ipAt + IPV6_VERSION + 1]! & 0xc0',
    mutant: 'bytes[ip - IPV6_VERSION + 1] = bytes[packet.ipAt + IPV6_VERSION + 1]! & 0xc0',
    because: 'the version stands at the begin of the header, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv6',
    line: 'bytes[ip + IPV6_VERSION + 1] = bytes[packet.ipAt + IPV6_VERSION + 1]! & 0xc0',
    mutant: 'bytes[ip + IPV6_VERSION + 1] = bytes[packet.ipAt - IPV6_VERSION + 1]! & 0xc0',
    because: 'the version stands at the begin of the header, at 0',
  },
  {
    at: 'transport/acknowledge.ts notifyCongestion',
    line: 'bytes[ip + IPV6_VERSION] = 0x60 | (CNP_TRAFFIC_CLASS >> 4)',
    mutant: 'bytes[ip - IPV6_VERSION] = 0x60 | (CNP_TRAFFIC_CLASS >> 4)',
    because: 'the version stands at the begin of the header, at 0',
  },
  {
    at: 'transport/acknowledge.ts notifyCongestion',
    line: 'bytes[ip + IPV6_VERSION + 1] = ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 1]! & 15)',
    mutant:
      'bytes[ip - IPV6_VERSION + 1] = ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 1]! & 15)',
    because: 'the version stands at the begin of the header, at 0',
  },
  {
    at: 'transport/acknowledge.ts beginPersistAck',
    line: 'bytes[at + PAETH_VERSION] = (PERSIST_ACK_VERSION << 4) | PAETH_WORDS',
    mutant: 'bytes[at - PAETH_VERSION] = (PERSIST_ACK_VERSION << 4) | PAETH_WORDS',
    because: 'the version stands at the begin of the header, at 0',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv4',
    line: 'bytes.copyWithin(ip + IPV4_DESTINATION, source, source + 4)',
    mutant: 'bytes.copyWithin(ip + IPV4_DESTINATION, source, source + 5)',
    because: 'the byte too many is the first one of UDP, which `prepareTemplate` writes afterwards',
  },
  {
    at: 'transport/acknowledge.ts isSameAddress',
    line: 'for (let i = 0; i < IPV6_ADDRESS_BYTES; i++) {',
    mutant: 'for (let i = 0; i <= IPV6_ADDRESS_BYTES; i++) {',
    because: 'behind the address is the upper byte of the source port, the same for every place',
  },
  {
    at: 'transport/acknowledge.ts notifyCongestion',
    line: 'bytes[ip + IPV6_VERSION + 1] = ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 1]! & 15)',
    mutant:
      'bytes[ip + IPV6_VERSION + 1] = ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 2]! & 15)',
    because: 'the template has the flow label 0, so this byte is 0 and has no low bits either',
  },
  {
    at: 'transport/acknowledge.ts notifyCongestion',
    line: 'bytes[ip + IPV6_VERSION + 1] = ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 1]! & 15)',
    mutant:
      'bytes[ip + IPV6_VERSION + 1] = ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 1]! & 16)',
    because: 'the byte of the template has its upper two bits alone, so both masks leave nothing',
  },
  {
    at: 'transport/acknowledge.ts prepareTemplate',
    line:
      'bytes.copyWithin(at + ETH_DESTINATION, from + ETH_SOURCE, from + ETH_SOURCE + MAC_BYTES) ' +
      'bytes.copyWithin(at + ETH_SOURCE, from + ETH_DESTINATION, from + ETH_DESTINATION + ' +
      'MAC_BYTES)',
    mutant:
      ';bytes.copyWithin(at + ETH_SOURCE, from + ETH_DESTINATION, from + ETH_DESTINATION + ' +
      'MAC_BYTES) ;bytes.copyWithin(at + ETH_DESTINATION, from + ETH_SOURCE, from + ETH_SOURCE ' +
      '+ MAC_BYTES)',
    because: 'both read the packet alone, and write different places of the template',
  },
  {
    at: 'transport/acknowledge.ts prepareTemplate',
    line:
      'bytes.copyWithin(at + ETH_SOURCE, from + ETH_DESTINATION, from + ETH_DESTINATION + ' +
      'MAC_BYTES) qp.ipVersion = packet.ipVersion',
    mutant:
      ';qp.ipVersion = packet.ipVersion ;bytes.copyWithin(at + ETH_SOURCE, from + ' +
      'ETH_DESTINATION, from + ETH_DESTINATION + MAC_BYTES)',
    because: 'one writes the template, the other a field of the queue pair',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv4',
    line: 'putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV4) bytes.fill(0, ip, ip + IPV4_BYTES)',
    mutant: ';bytes.fill(0, ip, ip + IPV4_BYTES) ;putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV4)',
    because: 'one writes Ethernet, the other IP',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv4',
    line:
      'bytes[ip + IPV4_VERSION] = IPV4_VERSION_5_WORDS bytes[ip + IPV4_TRAFFIC_CLASS] = ' +
      'bytes[packet.ipAt + IPV4_TRAFFIC_CLASS]! & 0xfc',
    mutant:
      ';bytes[ip + IPV4_TRAFFIC_CLASS] = bytes[packet.ipAt + IPV4_TRAFFIC_CLASS]! & 0xfc ' +
      ';bytes[ip + IPV4_VERSION] = IPV4_VERSION_5_WORDS',
    because: 'they write different bytes, and read the packet alone',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv4',
    line:
      'bytes.copyWithin(ip + IPV4_DESTINATION, source, source + 4) bytes.copyWithin(ip + ' +
      'IPV4_SOURCE, destination, destination + 4)',
    mutant:
      ';bytes.copyWithin(ip + IPV4_SOURCE, destination, destination + 4) ;bytes.copyWithin(ip + ' +
      'IPV4_DESTINATION, source, source + 4)',
    because: 'both read the packet alone, and write different places of the template',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv4',
    line:
      'bytes.copyWithin(ip + IPV4_SOURCE, destination, destination + 4) qp.peerIpv4 = ' +
      'wordAt(bytes, source)',
    mutant:
      ';qp.peerIpv4 = wordAt(bytes, source) ;bytes.copyWithin(ip + IPV4_SOURCE, destination, ' +
      'destination + 4)',
    because: 'one writes the template, the other reads the packet',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv6',
    line: 'putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV6) bytes.fill(0, ip, ip + IPV6_BYTES)',
    mutant: ';bytes.fill(0, ip, ip + IPV6_BYTES) ;putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV6)',
    because: 'one writes Ethernet, the other IP',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv6',
    line:
      'bytes[ip + IPV6_VERSION] = 0x60 | (bytes[packet.ipAt + IPV6_VERSION]! & 0x0f) bytes[ip + ' +
      'IPV6_VERSION + 1] = bytes[packet.ipAt + IPV6_VERSION + 1]! & 0xc0',
    mutant:
      ';bytes[ip + IPV6_VERSION + 1] = bytes[packet.ipAt + IPV6_VERSION + 1]! & 0xc0 ;bytes[ip ' +
      '+ IPV6_VERSION] = 0x60 | (bytes[packet.ipAt + IPV6_VERSION]! & 0x0f)',
    because: 'they write different bytes, and read the packet alone',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv6',
    line:
      'bytes[ip + IPV6_VERSION + 1] = bytes[packet.ipAt + IPV6_VERSION + 1]! & 0xc0 bytes[ip + ' +
      'IPV6_NEXT_HEADER] = PROTOCOL_UDP',
    mutant:
      ';bytes[ip + IPV6_NEXT_HEADER] = PROTOCOL_UDP ;bytes[ip + IPV6_VERSION + 1] = ' +
      'bytes[packet.ipAt + IPV6_VERSION + 1]! & 0xc0',
    because: 'they write different bytes, and read the packet alone',
  },
  {
    at: 'transport/acknowledge.ts prepareIpv6',
    line:
      'bytes.copyWithin(ip + IPV6_DESTINATION, source, source + IPV6_ADDRESS_BYTES) ' +
      'bytes.copyWithin(ip + IPV6_SOURCE, destination, destination + IPV6_ADDRESS_BYTES)',
    mutant:
      ';bytes.copyWithin(ip + IPV6_SOURCE, destination, destination + IPV6_ADDRESS_BYTES) ' +
      ';bytes.copyWithin(ip + IPV6_DESTINATION, source, source + IPV6_ADDRESS_BYTES)',
    because: 'both read the packet alone, and write different places of the template',
  },
  {
    at: 'transport/acknowledge.ts writeLengths',
    line:
      'putU16(bytes, ip + IPV4_CHECKSUM, ~sum & 0xffff) putU16(bytes, ip + IPV4_BYTES + ' +
      'UDP_LENGTH, udpLength)',
    mutant:
      ';putU16(bytes, ip + IPV4_BYTES + UDP_LENGTH, udpLength) ;putU16(bytes, ip + ' +
      'IPV4_CHECKSUM, ~sum & 0xffff)',
    because: 'the sum is of the header of IP, and the length stands in UDP',
  },
  {
    at: 'transport/acknowledge.ts writeLengths',
    line:
      'putU16(bytes, ip + IPV6_PAYLOAD_LENGTH, udpLength) putU16(bytes, ip + IPV6_BYTES + ' +
      'UDP_LENGTH, udpLength)',
    mutant:
      ';putU16(bytes, ip + IPV6_BYTES + UDP_LENGTH, udpLength) ;putU16(bytes, ip + ' +
      'IPV6_PAYLOAD_LENGTH, udpLength)',
    because: 'one length stands in IP, the other in UDP',
  },
  {
    at: 'transport/acknowledge.ts beginFrame',
    line:
      'answers.list.owner = psnOwnerOf(qp, psn) bytes.copyWithin(at, qp.templateAt, ' +
      'qp.templateAt + qp.templateBytes)',
    mutant:
      ';bytes.copyWithin(at, qp.templateAt, qp.templateAt + qp.templateBytes) ' +
      ';answers.list.owner = psnOwnerOf(qp, psn)',
    because: 'one says on whose behalf commands stand, and the other appends none',
  },
  {
    at: 'transport/acknowledge.ts beginFrame',
    line: 'bytes[bth] = opcode bytes[bth + BTH_FLAGS] = padBytes << 4',
    mutant: ';bytes[bth + BTH_FLAGS] = padBytes << 4 ;bytes[bth] = opcode',
    because: 'they write different bytes of BTH',
  },
  {
    at: 'transport/acknowledge.ts writeAethAt',
    line: 'bytes[at] = syndrome putU24(bytes, at + 1, qp.messageSequence)',
    mutant: ';putU24(bytes, at + 1, qp.messageSequence) ;bytes[at] = syndrome',
    because: 'they write different bytes of AETH',
  },
  {
    at: 'transport/acknowledge.ts writeAck',
    line: 'bytes[at] = SYNDROME_ACK putU24(bytes, at + 1, msn)',
    mutant: ';putU24(bytes, at + 1, msn) ;bytes[at] = SYNDROME_ACK',
    because: 'they write different bytes of AETH',
  },
  {
    at: 'transport/acknowledge.ts answer',
    line: 'writeAethAt(qp, answers.bytes, end, syndrome) endFrame(answers, qp, end, AETH_BYTES)',
    mutant:
      ';endFrame(answers, qp, end, AETH_BYTES) ;writeAethAt(qp, answers.bytes, end, syndrome)',
    because: 'one appends the command that sends the frame, which is run later',
  },
  {
    at: 'transport/acknowledge.ts answerDone',
    line: 'writeAck(answers.bytes, end, msn) endFrame(answers, qp, end, AETH_BYTES)',
    mutant: ';endFrame(answers, qp, end, AETH_BYTES) ;writeAck(answers.bytes, end, msn)',
    because: 'one appends the command that sends the frame, which is run later',
  },
  {
    at: 'transport/acknowledge.ts answerBatch',
    line:
      'writeBitmap(bytes, at + PAETH_BYTES, batch.bitmap, words) endFrame(answers, qp, end, ' +
      'behind)',
    mutant:
      ';endFrame(answers, qp, end, behind) ;writeBitmap(bytes, at + PAETH_BYTES, batch.bitmap, ' +
      'words)',
    because: 'one appends the command that sends the frame, which is run later',
  },
  {
    at: 'transport/acknowledge.ts answerAck',
    line:
      'qp.ackDue = false answer(answers, qp, acknowledgeable(answers, qp, ' +
      'psnAdd(qp.expectedPsn, -1)), SYNDROME_ACK)',
    mutant:
      ';answer(answers, qp, acknowledgeable(answers, qp, psnAdd(qp.expectedPsn, -1)), ' +
      'SYNDROME_ACK) ;qp.ackDue = false',
    because: 'nobody asks while it is composed whether one is due',
  },
  {
    at: 'transport/acknowledge.ts notifyCongestion',
    line:
      'bytes[ip + IPV6_VERSION] = 0x60 | (CNP_TRAFFIC_CLASS >> 4) bytes[ip + IPV6_VERSION + 1] ' +
      '= ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 1]! & 15)',
    mutant:
      ';bytes[ip + IPV6_VERSION + 1] = ((CNP_TRAFFIC_CLASS & 15) << 4) | (bytes[ip + 1]! & 15) ' +
      ';bytes[ip + IPV6_VERSION] = 0x60 | (CNP_TRAFFIC_CLASS >> 4)',
    because: 'they write different bytes, and neither reads what the other writes',
  },
  {
    at: 'transport/acknowledge.ts answerBatch',
    line:
      'bytes[at + PAETH_BATCH_COUNT] = batch.count - 1 writeBitmap(bytes, at + PAETH_BYTES, ' +
      'batch.bitmap, words)',
    mutant:
      ';writeBitmap(bytes, at + PAETH_BYTES, batch.bitmap, words) ;bytes[at + ' +
      'PAETH_BATCH_COUNT] = batch.count - 1',
    because: 'the count stands in the header, the bitmap behind it',
  },
]
