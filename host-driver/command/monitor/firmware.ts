/**
 * What a card says of its firmware, over its port of SMP: which image runs, and whether it is on
 * trial.
 *
 * Invariant: the port is opened for each look, and closed after it, so `perdure flash` has it in
 * between. A port that does not answer makes no card be away: nothing is told of its firmware then.
 */

import { PerdureError } from '../../base/errors.ts'
import { FlashTarget } from '../../flash/card.ts'
import { SmpClient, SmpRefusal } from '../../flash/smp-client.ts'
import { BAUD } from '../base/line.ts'
import { openPort } from '../flash/flash.ts'
import { running } from '../flash/flash-stages.ts'

export interface FirmwareSample {
  /** Of the image that runs; null where the card runs what it came with. */
  readonly version: string | null
  /** SHA-256 of that image, as `perdure flash list` names it. */
  readonly sha256: string | null
  readonly onTrial: boolean
  /** Until a trial goes back by itself, s; 0 without one, and where the card does not say. */
  readonly secondsLeft: number
  /** Why the last trial ended; ''. */
  readonly reason: string
}

/** Times that an SMP request is sent (flash/smp-client.ts). */
const TRIES = 4

/** Rejects with PERDURE_ARGUMENT where that is no port; null where it does not answer. */
export async function askFirmware(port: string, timeoutMs: number): Promise<FirmwareSample | null> {
  try {
    const way = await openPort({ port, baud: BAUD })
    const client = new SmpClient(way, port, Math.ceil(timeoutMs / TRIES))
    try {
      return await firmwareOf(new FlashTarget(client, way.packetBytes))
    } finally {
      client.close()
    }
  } catch (error) {
    const isSilent = error instanceof PerdureError && error.code === 'PERDURE_UNREACHABLE'
    if (isSilent || error instanceof SmpRefusal) return null
    throw error
  }
}

async function firmwareOf(card: FlashTarget): Promise<FirmwareSample> {
  const runs = running(await card.list())
  const about = await card.about()
  return {
    version: runs?.version ?? null,
    sha256: runs === undefined ? null : Buffer.from(runs.hash).toString('hex'),
    onTrial: runs !== undefined && !runs.confirmed,
    secondsLeft: about?.left ?? 0,
    reason: about?.reason ?? '',
  }
}
