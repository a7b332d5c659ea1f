/**
 * Names for the frames that a card answers with, so that the ACK model can tell them apart, and the
 * frames of those names, so that the client takes what was really sent.
 */

import { PERSIST_ACK, RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import type { Sent } from '../cards/test-card.ts'
import { ackName, nakName, persistAckName } from './ack-model-client.ts'

export class AnswerNames {
  private readonly frames = new Map<string, Uint8Array>()

  /** The name of an answer; one that has other bytes than that of the same name gets its own. */
  of({ bytes, opcode, psn, syndrome, paeth }: Sent): string {
    let name = syndrome >= 0x60 ? nakName(psn, syndrome) : ackName(psn)
    if (opcode === PERSIST_ACK) {
      name = persistAckName(paeth!.firstPsn, paeth!.lastPsn, paeth!.operationLow)
      if (paeth!.status !== 0) name += ` refused 0x${paeth!.status.toString(16)}`
    } else if (opcode !== RC_ACKNOWLEDGE) {
      throw new Error(`an answer of opcode ${opcode}`)
    }
    for (;;) {
      const known = this.frames.get(name)
      if (known === undefined) this.frames.set(name, bytes)
      if (known === undefined || Buffer.compare(known, bytes) === 0) return name
      name += "'"
    }
  }

  /** The frame of that name, checked. */
  readonly decode = (name: string): readonly [Uint8Array, Packet] => {
    const bytes = this.frames.get(name)!
    const packet = blankPacket()
    if (checkPacket(packet, bytes, 0, bytes.length) !== 0) throw new Error(`not a packet: ${name}`)
    return [bytes, packet]
  }
}
