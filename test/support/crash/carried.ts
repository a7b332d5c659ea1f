/**
 * What clients have begun, as an oracle knows it: which write each PSN brought, and each place of a
 * batch, so that an acknowledgement is known by the records that it speaks of.
 */

import type { TestPeer } from '../cards/test-card.ts'
import type { Acknowledgement } from '../judges/acknowledgement.ts'
import { type RecordOracle, readSlot } from '../judges/oracle.ts'

/** A write that a PSN brought. */
export interface Named {
  readonly record: RecordOracle
  readonly version: number
  readonly wait: number
}

/** A version of the record is begun; it waits for so many copies. */
export function beginVersion(
  record: RecordOracle,
  version: RecordOracle['versions'][number],
  wait: number,
): Named {
  record.versions.push(version)
  record.started = record.versions.length - 1
  return { record, version: record.started, wait }
}

/** Takes note of the sequence under which an image of the record goes to copy A. */
export function noteSequenceOf(record: RecordOracle, image: Uint8Array): void {
  const slot = readSlot(image)
  const version = record.versions.findIndex(({ operation, client }) => {
    return BigInt(operation) === slot.operation && BigInt(client) === slot.client
  })
  if (version > 0) record.noteSequence(version, slot.sequence)
}

export class Carried {
  private readonly writes = new Map<string, Named>()

  /** The last PSN of the queue pair brought it. */
  note({ peer, psn }: TestPeer, named: Named): void {
    this.writes.set(`${peer} ${(psn - 1) & 0xffffff}`, named)
  }

  noteInBatch({ peer }: TestPeer, id: number, place: number, named: Named): void {
    this.writes.set(`${peer} batch ${id} ${place}`, named)
  }

  clear(): void {
    this.writes.clear()
  }

  /** The writes that it speaks of as durable; of what is not known here, nothing. */
  namedBy({ batch, status, peer, firstPsn, lastPsn }: Acknowledgement): (Named | undefined)[] {
    const { writes } = this
    if (batch !== null)
      return batch.durable.map((i) => writes.get(`${peer} batch ${batch.id} ${i}`))
    if (status !== 0) return []
    const named: (Named | undefined)[] = []
    for (let psn = firstPsn; ; psn = (psn + 1) & 0xffffff) {
      named.push(writes.get(`${peer} ${psn}`))
      if (psn === lastPsn) return named
    }
  }
}
