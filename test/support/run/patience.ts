/**
 * How long a test waits for another process. The machine may be busy with other work, so only what
 * never comes is given up.
 */

import type { MachineOptions } from '../../../boards/qemu-virt/machine.ts'
import type { ConnectOptions } from '../../../host-driver/index.ts'

/** Longest start, and longest answer, ms. */
export const PATIENCE_MS = 600_000

/** How long a virtual machine may take to start, and its console to answer. */
export const PATIENT_MACHINE: Pick<MachineOptions, 'startMs' | 'answerMs'> = {
  startMs: PATIENCE_MS,
  answerMs: PATIENCE_MS,
}

/** How a client waits for a board that may be without a turn: 0.5 s per try, and long per call. */
export const PATIENT: ConnectOptions = { ackTimeoutCode: 17, timeoutMs: PATIENCE_MS }
