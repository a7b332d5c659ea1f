/**
 * Several users of one device: each is told what its card says of itself, and the card is taken
 * into use again when it is back.
 *
 * Invariant: every watcher is told of every event once, in the order in which they began to
 * watch; a device is reopened by one attempt at a time.
 */

import type { DeviceWatcher, PcieDevice } from './device.ts'

class Reopening {
  private readonly device: PcieDevice
  private attempt: Promise<void> | null = null

  constructor(device: PcieDevice) {
    this.device = device
    device.watchers.add({ returned: () => void this.reopen().catch(() => {}) })
  }

  reopen(): Promise<void> {
    this.attempt ??= this.device.reopen().finally(() => {
      this.attempt = null
    })
    return this.attempt
  }
}

const REOPENING = new WeakMap<PcieDevice, Reopening>()

function reopeningOf(device: PcieDevice): Reopening {
  let reopening = REOPENING.get(device)
  if (reopening === undefined) {
    reopening = new Reopening(device)
    REOPENING.set(device, reopening)
  }
  return reopening
}

/** Watches a device; returns what ends that. */
export function watchDevice(device: PcieDevice, watcher: DeviceWatcher): () => void {
  reopeningOf(device)
  device.watchers.add(watcher)
  return () => device.watchers.delete(watcher)
}

/** Sees to it that the card is in use; rejects with CardRemoved while there is none. */
export async function reopenDevice(device: PcieDevice): Promise<void> {
  if (!device.isOpen) await reopeningOf(device).reopen()
}
