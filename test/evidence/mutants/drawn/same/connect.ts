/** The same programs of `connect/`. */

import type { Equivalent } from './equivalent.ts'

export const CONNECT: readonly Equivalent[] = [
  {
    at: 'connect/initiate.ts connectTo',
    line: 'if (number < 0) return null',
    mutant: 'if (number < 1) return null',
    because: 'it is -1, or has bits above the place that are never 0',
  },
  {
    at: 'connect/neighbours.ts advertise',
    line: 'if (macAt >= 0) bytes.copyWithin(at + ETH_DESTINATION, macAt, macAt + MAC_BYTES)',
    mutant: 'if (macAt >= 1) bytes.copyWithin(at + ETH_DESTINATION, macAt, macAt + MAC_BYTES)',
    because: 'it is -1, or lies in a frame, behind the address that the frame begins with',
  },
  {
    at: 'connect/resolve.ts askArp',
    line: 'bytes.fill(0xff, at + ETH_DESTINATION, at + ETH_DESTINATION + MAC_BYTES)',
    mutant: 'bytes.fill(0xff, at + ETH_DESTINATION, at - ETH_DESTINATION + MAC_BYTES)',
    because: 'a frame begins with its destination: the position is 0',
  },
  {
    at: 'connect/table.ts blankConnection',
    line: 'localId: 0,',
    mutant: 'localId: 1,',
    because: 'a connection begins with an id of its own, and nobody asks a free place for one',
  },
  {
    at: 'connect/announce.ts announce',
    line: 'lengthLow: region.areaBytes % 2 ** 32,',
    mutant: 'lengthLow: region.areaBytes + 2 ** 32,',
    because: 'it is stored as 32 bits',
  },
  {
    at: 'connect/request.ts receiveReq',
    line: 'if (number < 0) {',
    mutant: 'if (number < 1) {',
    because: 'above the place stand bits that are drawn, and never 0',
  },
  {
    at: 'connect/send.ts sendTo',
    line: 'state.bytes.set(message, at) endDatagram(state, qp, at, CM_BYTES)',
    mutant: ';endDatagram(state, qp, at, CM_BYTES) ;state.bytes.set(message, at)',
    because:
      'the end of a datagram reads lengths, and puts commands into the list, which runs later',
  },
  {
    at: 'connect/table.ts confirmConnection',
    line:
      'const region = connection.announced === 0 ? null : ' +
      'findRegion(state.regions, connection.announced)',
    mutant:
      'const region = connection.announced === 1 ? null : ' +
      'findRegion(state.regions, connection.announced)',
    because: 'the key 0 finds no region, as none has it; a region has the key 1 once in 2^27 times',
  },
  {
    at: 'connect/resolve.ts blankResolution',
    line: 'triesLeft: 0,',
    mutant: 'triesLeft: 1,',
    because: 'who begins to ask says how often',
  },
  {
    at: 'connect/initiate.ts establish',
    line: 'qp.hold = HOLD_CONNECTED connection.qp = qp',
    mutant: ';connection.qp = qp ;qp.hold = HOLD_CONNECTED',
    because: 'fields of two objects, and nothing runs between',
  },
]
