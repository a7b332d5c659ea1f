/**
 * The cable between cards that run as processes of their own: a switch that joins each of them at
 * the Unix socket of its link `stream:unix:PATH`.
 *
 * Invariant: every frame that a card sends there is kept, as it was sent.
 */

import { type JoinedNetdev, joinNetdev } from '../../../boards/emulator/network/netdev.ts'
import { EthernetSwitch, type SwitchPort } from '../../../boards/emulator/network/switch.ts'

class Tap extends EthernetSwitch {
  readonly seen: Uint8Array[] = []

  override forward(from: SwitchPort, frame: Uint8Array): void {
    this.seen.push(Uint8Array.from(frame))
    super.forward(from, frame)
  }
}

export class PatchCable {
  private readonly tap = new Tap()
  private readonly ends: Map<string, JoinedNetdev> = new Map()

  get seen(): readonly Uint8Array[] {
    return this.tap.seen
  }

  /** Plugs in the card that listens there; again, where it has started again. */
  async plug(path: string): Promise<void> {
    await this.ends.get(path)?.close()
    this.ends.set(path, await joinNetdev(path, this.tap))
  }

  async close(): Promise<void> {
    for (const end of this.ends.values()) await end.close()
  }
}
