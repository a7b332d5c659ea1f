/**
 * Several users of one device: each is told what its card says of itself, and the card is taken
 * into use again when it is back.
 *
 * What always holds: every watcher is told of every event once, in the order in which they began to
 * watch; a device is reopened by one attempt at a time.
 */

import type { PcieDevice } from './device.ts'
import type { QueueEvent } from './work.ts'

export interface DeviceWatcher {
  happened?(event: QueueEvent): void
  /** The card is gone, and every queue has ended. */
  removed?(): void
}

class Watchers {
  readonly all = new Set<DeviceWatcher>()
  private readonly device: PcieDevice
  private reopening: Promise<void> | null = null

  constructor(device: PcieDevice) {
    this.device = device
    device.onEvent = (event) => {
      for (const one of [...this.all]) one.happened?.(event)
    }
    device.onRemoved = () => {
      for (const one of [...this.all]) one.removed?.()
    }
    device.onReturned = () => void this.reopen().catch(() => {})
  }

  reopen(): Promise<void> {
    this.reopening ??= this.device.reopen().finally(() => {
      this.reopening = null
    })
    return this.reopening
  }
}

const WATCHERS = new WeakMap<PcieDevice, Watchers>()

function watchersOf(device: PcieDevice): Watchers {
  let watchers = WATCHERS.get(device)
  if (watchers === undefined) {
    watchers = new Watchers(device)
    WATCHERS.set(device, watchers)
  }
  return watchers
}

/** Watches a device; returns what ends that. */
export function watchDevice(device: PcieDevice, watcher: DeviceWatcher): () => void {
  const { all } = watchersOf(device)
  all.add(watcher)
  return () => all.delete(watcher)
}

/** Sees to it that the card is in use; rejects with CardRemoved while there is none. */
export async function reopenDevice(device: PcieDevice): Promise<void> {
  if (!device.isOpen) await watchersOf(device).reopen()
}
