/** The requests that the driver makes, as jobs of a queue pair. */

import { READ, WRITE_PERSIST } from '../firmware/transport/requester.ts'
import { blankPweth, type Pweth } from '../firmware/wire/persist.ts'
import type { RegionInfo } from './part.ts'
import type { Job, JobEnd } from './queue-pair.ts'
import type { PendingWrite } from './write.ts'

/** Views of a record in its region's addresses: slot << 32 | view << 28 | offset. */
export const VIEW_SETTLED = 1
export const VIEW_FIRST_COPY = 2

const VIEW_UNIT = 2 ** 28

/** Writes the record of `write`; `done` is told how it ended. */
export function persistJob(write: PendingWrite, done: (end: JobEnd) => void): Job {
  const { info } = write.region
  return {
    kind: WRITE_PERSIST,
    vaHigh: write.slot,
    vaLow: 0,
    rkey: info.rkey,
    length: write.length,
    payload: write.payload,
    pweth: persistHeader(write, info.copies),
    get sent() {
      return write.sent
    },
    set sent(sent: boolean) {
      write.sent = sent
    },
    received: () => write.markReceived(),
    done,
  }
}

function persistHeader(write: PendingWrite, copies: number): Pweth {
  return {
    ...blankPweth(),
    wait: write.wait,
    slotAddressed: true,
    carried: write.carried,
    furtherCopies: write.carried ? copies - 1 : 0,
    wantsAck: true,
    operationHigh: Number(write.operationId >> 32n),
    operationLow: Number(write.operationId & 0xffffffffn),
  }
}

/** Reads the image of a slot in one view into `into`. */
export function readJob(
  info: RegionInfo,
  slot: number,
  view: number,
  into: Uint8Array,
  done: (end: JobEnd) => void,
): Job {
  return {
    kind: READ,
    vaHigh: slot,
    vaLow: view * VIEW_UNIT,
    rkey: info.rkey,
    length: into.length,
    payload: into,
    pweth: null,
    sent: false,
    received: () => {},
    done,
  }
}
