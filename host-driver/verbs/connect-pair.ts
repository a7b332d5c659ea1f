/**
 * Connecting a queue pair of the verbs to the DPU that the management calls reach, and its end.
 *
 * Invariant: the pair has its own number and PSN before the DPU is told of them, and goes
 * from INIT to RTS with what the DPU granted, or not at all.
 */

import type { Management } from '../control/management.ts'
import type { QueuePair } from '../way/verbs.ts'
import type { VerbsOptions } from '../way/way.ts'

/** How long the DPU may take to let a queue pair go, µs. */
export const GOODBYE_US = 500_000

/** Connects the pair, which is in INIT. Rejects with what the DPU refused it for. */
export async function connectPair(
  qp: QueuePair & { readonly rqPsn: number },
  management: Management,
  { pathMtu, clientId }: VerbsOptions,
): Promise<void> {
  const { qpNum, rqPsn, pd } = qp
  const granted = await management.connect(qpNum, rqPsn, pathMtu, pd.number, clientId)
  await qp.modify({
    state: 'RTS',
    peer: {
      destQpNum: granted.queuePair,
      sqPsn: granted.firstPsn,
      rqPsn,
      pathMtu: granted.pathMtu,
      incarnation: granted.incarnation,
    },
  })
}
